/* io.c - descriptors: an event against a call that finds nothing, a close against both.  The callers are plain threads, whose system says
 * nothing by itself: only what is dispatched wakes them.  (Descriptors and pokes are kept for ever: leaks_ok.) */
#include <weft/select.h>

#include "io/writer.h"

#include "model.h"

static struct weft_runtime rt;
static struct wefti_worker worker;
static struct weft_io *io;
static _Atomic int bytes; /* in the kernel */

static void start(int what) {
    worker.rt = &rt;
    mc_assert(wefti_watch_begin(&worker) == 0);
    mc_assert(wefti_desc_new(-1, what, &io) == 0);
}

static void finish(void) {
    wefti_poller_close(&worker.watch->poller);
    wefti_free(worker.watch, sizeof *worker.watch);
}

/* Take all there is, at most `full`. */
static ssize_t read_bytes(struct weft_io *from, void *arg) {
    (void)from, (void)arg;
    int found = load_relaxed(&bytes); /* a system call orders nothing */
    while (found > 0 && !cas_relaxed(&bytes, &found, 0))
        ;
    return found > 0 ? found : -EAGAIN;
}

static ssize_t read_now(void) { return wefti_desc_call(io, WEFTI_IN, read_bytes, NULL, 4, INT64_MAX); }

/* The kernel gets some, and the worker hears of it. */
static void arrive(void *count) {
    add_relaxed(&bytes, (int)(intptr_t)count);
    struct wefti_poll_event event = {.tag = io, .ready = WEFTI_READABLE};
    worker.watch->dispatch(&worker, &event, 1);
}

MC_TEST(io_event_against_call, .leaks_ok = true, .bound = 3) {
    start(WEFTI_STREAM);
    int a = mc_spawn(arrive, (void *)1);
    mc_assert(read_now() == 1);
    mc_join(a);
    finish();
}

/* The worker that hears of events has the lock for its own. */
MC_TEST(io_event_of_owner, .leaks_ok = true, .bound = 2) {
    start(WEFTI_STREAM);
    rt.bias_streak = WEFTI_BIAS_STREAK;
    arrive((void *)0), arrive((void *)0);
    mc_assert(load_relaxed(&io->lock.owner) == &worker);
    int a = mc_spawn(arrive, (void *)1);
    mc_assert(read_now() == 1);
    mc_join(a);
    finish();
}

/* Less than was asked: the second part comes at any moment of the first call and the second. */
MC_TEST(io_two_events, .leaks_ok = true, .bound = 1) {
    start(WEFTI_STREAM);
    int a = mc_spawn(arrive, (void *)1), b = mc_spawn(arrive, (void *)1);
    for (ssize_t got = 0; got < 2;) {
        ssize_t n = read_now();
        mc_assert(n > 0);
        got += n;
    }
    mc_join(a), mc_join(b);
    finish();
}

/* Two who wait, and one event with something for one of them: the other waits on until the next. */
static void read_one(void *unused) {
    (void)unused;
    mc_assert(read_now() >= 1);
}

MC_TEST(io_two_callers, .leaks_ok = true, .bound = 1) {
    start(0);
    int a = mc_spawn(read_one, NULL);
    arrive((void *)1);
    mc_assert(load_relaxed(&bytes) <= 1);
    int b = mc_spawn(arrive, (void *)1);
    mc_join(a);
    mc_join(b);
    finish();
}

static void call_or_closed(void *unused) {
    (void)unused;
    ssize_t n = read_now();
    mc_assert(n == 1 || n == -EBADF);
}

static void close_it(void *unused) {
    (void)unused;
    weft_close(io);
}

MC_TEST(io_close_against_call, .leaks_ok = true, .bound = 3) {
    start(WEFTI_STREAM);
    int a = mc_spawn(close_it, NULL);
    call_or_closed(NULL);
    mc_join(a);
    finish();
}

/* An event that was collected before the close comes after it. */
MC_TEST(io_close_against_event, .leaks_ok = true, .bound = 1) {
    start(WEFTI_STREAM);
    int a = mc_spawn(close_it, NULL), b = mc_spawn(arrive, (void *)1);
    call_or_closed(NULL);
    mc_join(a), mc_join(b);
    finish();
}

/* The poller's worker goes: whatever it would have told of is looked for again. */
static void forget(void *unused) {
    (void)unused;
    add_relaxed(&bytes, 1);
    worker.watch->forget(&worker);
}

MC_TEST(io_forget_against_call, .leaks_ok = true, .bound = 2) {
    start(WEFTI_STREAM);
    store_relaxed(&io->watcher, &worker);
    int a = mc_spawn(forget, NULL);
    mc_assert(read_now() == 1);
    mc_join(a);
    finish();
}

/* -- Writers ----------------------------------------------------------------------------------------------------- */

static int inside; /* one at a time: the checker reports a race */
static int written;

/* A call that writes, in two parts. */
static int write_until(int64_t until) {
    int error = wefti_write_begin(io, until);
    if (!error) {
        mc_assert(++inside == 1);
        written++;
        inside--;
        wefti_write_end(io);
    }
    return error;
}

static void writer(void *unused) {
    (void)unused;
    mc_assert(write_until(INT64_MAX) == 0);
}

static void writer_late(void *unused) {
    (void)unused;
    int error = write_until(wefti_clock() + 1000000);
    mc_assert(!error || error == -ETIMEDOUT);
}

static void writer_or_closed(void *unused) {
    (void)unused;
    int error = write_until(INT64_MAX);
    mc_assert(!error || error == -EBADF);
}

/* There is room: that is nothing to who waits for another's end. */
static void make_room(void *unused) {
    (void)unused;
    struct wefti_poll_event event = {.tag = io, .ready = WEFTI_WRITABLE};
    worker.watch->dispatch(&worker, &event, 1);
}

MC_TEST(io_writers, .leaks_ok = true, .bound = 1) {
    start(WEFTI_STREAM);
    int a = mc_spawn(writer, NULL), b = mc_spawn(writer, NULL);
    writer(NULL);
    mc_join(a), mc_join(b);
    mc_assert(written == 3 && io->writing == WEFTI_WRITE_FREE && !io->users);
    finish();
}

MC_TEST(io_writers_and_room, .leaks_ok = true, .bound = 2) {
    start(WEFTI_STREAM);
    int a = mc_spawn(writer, NULL), b = mc_spawn(make_room, NULL);
    writer(NULL);
    mc_join(a), mc_join(b);
    mc_assert(written == 2);
    finish();
}

MC_TEST(io_writer_late, .leaks_ok = true, .bound = 3, .timeouts = 1) {
    start(WEFTI_STREAM);
    int a = mc_spawn(writer_late, NULL);
    writer(NULL);
    writer(NULL);
    mc_join(a);
    mc_assert(!io->users);
    writer(NULL);
    finish();
}

MC_TEST(io_writers_closed, .leaks_ok = true, .bound = 1) {
    start(WEFTI_STREAM);
    int a = mc_spawn(writer_or_closed, NULL), b = mc_spawn(close_it, NULL);
    writer_or_closed(NULL);
    mc_join(a), mc_join(b);
    finish();
}

/* -- In a select ------------------------------------------------------------------------------------------------ */

/* The system of the checker never says that a descriptor is ready, so an event alone ends no select (it is asked again): a close does, at
 * any moment, and an event of another kind does. */
static weft_event other;

static void set_other(void *unused) {
    (void)unused;
    mc_assert(weft_event_set(&other) == 0);
}
static int select_both(void) {
    weft_case cases[] = {weft_case_io(io, WEFT_FD_READ), weft_case_event(&other)};
    int index = weft_select(cases, 2, WEFT_NEVER);
    mc_assert(index >= 0 && cases[index].result == (index ? 0 : -EBADF));
    return index;
}

MC_TEST(io_select_against_close, .leaks_ok = true, .bound = 2) {
    start(0);
    weft_event_init(&other);
    io->borrowed = true;
    io->was_flags = -1;
    int a = mc_spawn(close_it, NULL);
    mc_assert(select_both() == 0);
    mc_join(a);
    finish();
}

MC_TEST(io_select_against_event, .leaks_ok = true, .bound = 1) {
    start(0);
    weft_event_init(&other);
    int a = mc_spawn(arrive, (void *)1), b = mc_spawn(set_other, NULL);
    mc_assert(select_both() == 1);
    mc_join(a), mc_join(b);
    mc_assert(weft_event_destroy(&other) == 0);
    finish();
}

/* An operation is done while its caller begins to wait for it. */
static struct wefti_op op;

static void end_op(void *unused) {
    (void)unused;
    struct wefti_poll_event event = {.tag = &op, .ready = WEFTI_DONE, .result = 5};
    wefti_op_done(&worker, &event);
}

MC_TEST(io_op_is_done, .bound = 3) {
    mc_assert(wefti_waiter_init(&op.done) == 0);
    int a = mc_spawn(end_op, NULL);
    int error = wefti_waiter_wait(&op.done, INT64_MAX, "an operation");
    mc_assert(error == 0 && wefti_waiter_is_served(&op.done) && op.done.result == 5);
    mc_join(a);
}
