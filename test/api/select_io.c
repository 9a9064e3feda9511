/* select_io.c - descriptors and events in a select: exactly one case happens, fairly, and what came for the others is still there. */
#define _GNU_SOURCE
#include <sys/eventfd.h>

#include "io_fixture.h"

static void on_thread(unsigned index, void *fn) {
    (void)index;
    CHECK_EQ(((weft_fiber_fn)fn)(NULL), 0);
}

/* -- What it does ---------------------------------------------------------------------------------------------- */

static int ready_or_not(void *unused) {
    (void)unused;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        char text[8];
        if (!io_pair((enum io_kind)kind, &in, &out))
            continue;
        weft_case cases[] = {weft_case_io(in, WEFT_FD_READ), {0}, weft_case_io(out, WEFT_FD_WRITE)};
        CHECK_EQ(weft_select(cases, 2, WEFT_NOW), -ETIMEDOUT);
        weft_deadline until = weft_after(2000000);
        CHECK_EQ(weft_select(cases, 2, until), -ETIMEDOUT);
        CHECK_GE(weft_now(), until);
        CHECK_EQ(weft_select(cases, 3, WEFT_NEVER), 2);
        CHECK_EQ(cases[2].result, WEFT_FD_WRITE);
        CHECK_EQ(weft_write(out, "word", 4, WEFT_NEVER), 4);
        CHECK_EQ(weft_select(cases, 2, WEFT_NEVER), 0);
        CHECK_EQ(cases[0].result, WEFT_FD_READ);
        CHECK_EQ(weft_select(cases, 1, WEFT_NOW), 0); /* still: nothing was read */
        CHECK_EQ(weft_read(in, text, 8, WEFT_NOW), 4);
        CHECK_EQ(weft_select(cases, 2, WEFT_NOW), -ETIMEDOUT);
        CHECK_EQ(weft_select(cases, 2, weft_after(500000)), -ETIMEDOUT);
        CHECK_EQ(weft_close(out), 0);
        CHECK_EQ(weft_select(cases, 1, WEFT_NEVER), 0); /* the end can be read */
        CHECK_EQ(weft_read(in, text, 8, WEFT_NOW), 0);
        cases[1] = weft_case_io(in, WEFT_FD_READ | WEFT_FD_WRITE);
        CHECK_EQ(weft_select(cases + 1, 1, WEFT_NEVER), 0);
        CHECK_EQ(cases[1].result, -EINVAL);
        cases[1] = weft_case_io(in, 0);
        CHECK_EQ(weft_select(cases + 1, 1, WEFT_NOW), 0);
        CHECK_EQ(cases[1].result, -EINVAL);
        CHECK_EQ(weft_close(in), 0);
    }
    return 0;
}

API_TEST(select_io_ready, "R27", .workers = {1, 2}) { io_run(ready_or_not, NULL); }
TEST(select_io_ready_threads, "R27") { harness_threads(3, on_thread, ready_or_not); }

static int foreign(void *unused) {
    (void)unused;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    REQUIRE_GE(fd, 0);
    uint64_t one = 1;
    weft_case cases[] = {weft_case_fd(fd, WEFT_FD_READ), weft_case_fd(fd, WEFT_FD_WRITE),
                         weft_case_fd(fd, WEFT_FD_READ | WEFT_FD_WRITE), weft_case_fd(-1, WEFT_FD_READ),
                         weft_case_fd(fd, 4)};
    CHECK_EQ(weft_select(cases, 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_select(cases, 1, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_select(cases + 1, 1, WEFT_NEVER), 0);
    CHECK_EQ(cases[1].result, WEFT_FD_WRITE);
    CHECK_EQ(weft_select(cases + 2, 1, WEFT_NEVER), 0);
    CHECK_EQ(cases[2].result, WEFT_FD_WRITE);
    REQUIRE_EQ(write(fd, &one, 8), 8);
    for (int i = 0; i < 3; i++) { /* level-triggered */
        CHECK_EQ(weft_select(cases, 1, WEFT_NEVER), 0);
        CHECK_EQ(cases[0].result, WEFT_FD_READ);
    }
    CHECK_EQ(weft_select(cases + 2, 1, WEFT_NEVER), 0);
    CHECK_EQ(cases[2].result, WEFT_FD_READ | WEFT_FD_WRITE);
    CHECK_EQ(weft_select(cases + 3, 1, WEFT_NEVER), 0);
    CHECK_EQ(cases[3].result, -EBADF);
    CHECK_EQ(weft_select(cases + 4, 1, WEFT_NEVER), 0);
    CHECK_EQ(cases[4].result, -EINVAL);
    close(fd);
    int file = open("/dev/null", O_RDWR | O_CLOEXEC);
    cases[0] = weft_case_fd(file, WEFT_FD_READ);
    CHECK_EQ(weft_select(cases, 1, WEFT_NEVER), 0); /* files are always ready */
    close(file);
    return 0;
}

API_TEST(select_fd_foreign, "R27", .workers = {1, 2}) { io_run(foreign, NULL); }
TEST(select_fd_foreign_threads, "R27") { harness_threads(3, on_thread, foreign); }

static weft_poll in_a_poll(weft_task *self, void *state) {
    weft_case c = weft_case_io(state, WEFT_FD_READ);
    CHECK_EQ(weft_select(&c, 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_select(&c, 1, WEFT_NEVER), -EINVAL);
    c = weft_case_fd(weft_io_fd(state), WEFT_FD_READ);
    CHECK_EQ(weft_select(&c, 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_select(&c, 1, WEFT_NEVER), -EINVAL);
    return weft_done(self, 0, NULL);
}

API_TEST(select_io_does_not_stop_a_poll, "R28", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_io *in, *out;
    REQUIRE(io_pair(IO_PIPE, &in, &out));
    fixture_finish(fixture_go(rt, in_a_poll, in));
    weft_close(in), weft_close(out);
    fixture_end(rt);
}

/* -- Events ------------------------------------------------------------------------------------------------------ */

static int events(void *unused) {
    (void)unused;
    weft_event a = WEFT_EVENT_INIT, b = WEFT_EVENT_INIT;
    weft_case cases[] = {weft_case_event(&a), weft_case_event(&b), weft_case_event(&a)};
    CHECK_EQ(weft_select(cases, 3, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_select(cases, 3, weft_after(100000)), -ETIMEDOUT);
    CHECK_EQ(weft_event_set(&b), 0);
    CHECK_EQ(weft_select(cases, 3, WEFT_NEVER), 1);
    CHECK_EQ(cases[1].result, 0);
    CHECK_EQ(weft_select(cases, 3, WEFT_NOW), 1); /* it stays */
    CHECK_EQ(weft_event_clear(&b), 1);
    CHECK_EQ(weft_select(cases, 3, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_event_destroy(&a), 0); /* nobody is left in its list */
    CHECK_EQ(weft_select(cases, 1, WEFT_NEVER), 0);
    CHECK_EQ(cases[0].result, -EINVAL);
    CHECK_EQ(weft_event_destroy(&b), 0);
    return 0;
}

API_TEST(select_event, "R27", .workers = {1}) { io_run(events, NULL); }
TEST(select_event_threads, "R27") { harness_threads(3, on_thread, events); }

/* One set serves all who wait, whether alone or in a select; a select that chose something else is passed over. */
static struct {
    weft_event go, other;
    atomic_int by_event;
} herd;

static int one_of_herd(void *arg) {
    if (arg) {
        CHECK_EQ(weft_event_wait(&herd.go, fixture_soon()), 0);
    } else {
        weft_case cases[] = {weft_case_event(&herd.other), weft_case_event(&herd.go)};
        int index = weft_select(cases, 2, fixture_soon());
        CHECK(index == 0 || index == 1);
    }
    atomic_fetch_add(&herd.by_event, 1);
    return 0;
}

static int stampede(void *unused) {
    (void)unused;
    for (int round = 0; round < 20; round++) {
        enum { MANY = 70 }; /* more than one hold of the lock serves */
        weft_task *task[MANY];
        weft_event_init(&herd.go), weft_event_init(&herd.other);
        atomic_store(&herd.by_event, 0);
        for (int i = 0; i < MANY; i++)
            task[i] = io_go(NULL, one_of_herd, i % 2 ? &herd : NULL);
        for (int i = 0; i < MANY; i++)
            io_until_it_waits(task[i]);
        if (round % 2)
            CHECK_EQ(weft_event_set(&herd.other), 0);
        CHECK_EQ(weft_event_set(&herd.go), 0);
        for (int i = 0; i < MANY; i++)
            CHECK_EQ(io_join(task[i]), 0);
        CHECK_EQ(atomic_load(&herd.by_event), MANY);
        CHECK_EQ(weft_event_destroy(&herd.go), 0);
        CHECK_EQ(weft_event_destroy(&herd.other), 0);
    }
    return 0;
}

API_TEST(select_event_stampede, "R27", .workers = {1, 3}) { io_run(stampede, NULL); }

/* -- Fairness ---------------------------------------------------------------------------------------------------- */

static int fairness(void *unused) {
    (void)unused;
    enum { CASES = 8, ROUNDS = 3000 };
    weft_io *in[3], *out[3];
    weft_event event = WEFT_EVENT_INIT;
    weft_case cases[CASES] = {{0}};
    int hits[CASES] = {0};
    for (int i = 0; i < 3; i++) {
        REQUIRE(io_pair(IO_SOCKETPAIR, &in[i], &out[i]));
        cases[i] = weft_case_io(in[i], WEFT_FD_READ);
    }
    cases[3] = weft_case_event(&event);
    cases[4] = weft_case_fd(weft_io_fd(in[0]), WEFT_FD_READ);
    cases[5] = weft_case_io(in[2], WEFT_FD_WRITE);
    cases[6] = weft_case_at(WEFT_NEVER);
    REQUIRE_EQ(weft_write(out[0], "x", 1, WEFT_NEVER), 1);
    REQUIRE_EQ(weft_write(out[1], "x", 1, WEFT_NEVER), 1);
    REQUIRE_EQ(weft_event_set(&event), 0);
    for (int i = 0; i < ROUNDS; i++) { /* 0, 1, 3, 4 and 5 are ready */
        int index = weft_select(cases, CASES, WEFT_NEVER);
        REQUIRE_GE(index, 0);
        hits[index]++;
    }
    CHECK_EQ(hits[2] + hits[6] + hits[7], 0);
    for (int i = 0; i < 6; i++)
        if (i != 2)
            CHECK(hits[i] > ROUNDS / 5 - 160 && hits[i] < ROUNDS / 5 + 160); /* 7 times the standard deviation */
    for (int i = 0; i < 3; i++)
        weft_close(in[i]), weft_close(out[i]);
    return 0;
}

API_TEST(select_io_is_fair, "R29", .workers = {1}) { io_run(fairness, NULL); }

/* -- Waiting ------------------------------------------------------------------------------------------------------ */

/* Somebody does one thing of many, or several at once; the select sees one at a time, and none is lost. */
enum { BYTE_A, BYTE_B, VALUE, FLAG, FOREIGN, WAYS };

static struct {
    weft_io *in[2], *out[2];
    weft_chan *ch;
    weft_event flag;
    int fd;
    uint64_t seed;
    unsigned rounds, done[WAYS];
    atomic_uint seen[WAYS];
} ways;

static int do_things(void *unused) {
    (void)unused;
    uint64_t one = 1;
    for (unsigned i = 0; i < ways.rounds; i++) {
        for (int burst = (int)(harness_random(&ways.seed) % 3); burst >= 0; burst--) {
            unsigned way = (unsigned)(harness_random(&ways.seed) % WAYS);
            ways.done[way]++;
            switch (way) {
            case BYTE_A:
            case BYTE_B: CHECK_EQ(weft_write(ways.out[way], "x", 1, fixture_soon()), 1); break;
            case VALUE: CHECK_EQ(weft_chan_send(ways.ch, &one, fixture_soon()), 0); break;
            case FLAG:
                CHECK_EQ(weft_event_set(&ways.flag), 0);
                while (atomic_load(&ways.seen[FLAG]) != ways.done[FLAG])
                    weft_task_self() ? (void)weft_yield() : harness_nap();
                break;
            case FOREIGN: REQUIRE_EQ(write(ways.fd, &one, 8), 8); break; /* a semaphore */
            }
        }
        if (harness_random(&ways.seed) % 4 == 0 && weft_task_self())
            io_rest();
    }
    return 0;
}

static int see_things(void *arg) {
    char text[4];
    uint64_t value;
    weft_case cases[] = {weft_case_io(ways.in[0], WEFT_FD_READ), weft_case_io(ways.in[1], WEFT_FD_READ),
                         weft_case_recv(ways.ch, &value),        weft_case_event(&ways.flag),
                         weft_case_fd(ways.fd, WEFT_FD_READ),    weft_case_event(arg)};
    for (;;) {
        int way = weft_select(cases, 6, fixture_soon());
        REQUIRE_GE(way, 0);
        switch (way) {
        case BYTE_A:
        case BYTE_B:
            CHECK_EQ(cases[way].result, WEFT_FD_READ);
            CHECK_EQ(weft_read(ways.in[way], text, 1, WEFT_NOW), 1);
            break;
        case VALUE: CHECK_EQ(cases[way].result, 0); break;
        case FLAG: CHECK_EQ(weft_event_clear(&ways.flag), 1); break;
        case FOREIGN: REQUIRE_EQ(read(ways.fd, &value, 8), 8); break;
        default: return 0;
        }
        atomic_fetch_add(&ways.seen[way], 1);
    }
}

static bool all_seen(void) {
    for (int way = 0; way < WAYS; way++)
        if (atomic_load(&ways.seen[way]) != ways.done[way])
            return false;
    return true;
}

static void ways_begin(unsigned rounds) {
    memset(&ways, 0, sizeof ways);
    ways.seed = harness_seed();
    ways.rounds = rounds;
    REQUIRE(io_pair(IO_TCP, &ways.in[0], &ways.out[0]));
    REQUIRE(io_pair(IO_PIPE, &ways.in[1], &ways.out[1]));
    REQUIRE_EQ(weft_chan_create(8, 2, &ways.ch), 0);
    weft_event_init(&ways.flag);
    ways.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    REQUIRE_GE(ways.fd, 0);
}

static void ways_end(void) {
    for (int i = 0; i < 2; i++)
        weft_close(ways.in[i]), weft_close(ways.out[i]);
    weft_chan_drop(ways.ch);
    CHECK_EQ(weft_event_destroy(&ways.flag), 0);
    close(ways.fd);
}

static int everything(void *unused) {
    (void)unused;
    weft_event over = WEFT_EVENT_INIT;
    ways_begin(fixture_is_slow() ? 300 : 1500);
    weft_task *looker = io_go(NULL, see_things, &over), *doer = io_go(NULL, do_things, NULL);
    CHECK_EQ(io_join(doer), 0);
    while (!all_seen())
        (void)weft_sleep_until(weft_after(100000));
    weft_event_set(&over);
    CHECK_EQ(io_join(looker), 0);
    ways_end();
    CHECK_EQ(weft_event_destroy(&over), 0);
    return 0;
}

API_TEST(select_io_lost_wake, "R27 R28", .workers = {1, 2}) { io_run(everything, NULL); }

static weft_event threads_over;
static void thread_sees(unsigned index, void *unused) {
    (void)unused;
    if (index == 0) {
        CHECK_EQ(see_things(&threads_over), 0);
        return;
    }
    do_things(NULL);
    REQUIRE_EVENTUALLY(all_seen());
    weft_event_set(&threads_over);
}

TEST(select_io_lost_wake_threads, "R27 R28") {
    ways_begin(fixture_is_slow() ? 300 : 1500);
    weft_event_init(&threads_over);
    harness_threads(2, thread_sees, NULL);
    ways_end();
}

/* Several selects for the same bytes: each byte is read once. */
static struct {
    weft_io *in, *out;
    weft_event over;
    atomic_uint got;
} shared;

static int take_bytes(void *unused) {
    (void)unused;
    char text[2];
    for (;;) {
        weft_case cases[] = {weft_case_io(shared.in, WEFT_FD_READ), weft_case_event(&shared.over)};
        int index = weft_select(cases, 2, fixture_soon());
        REQUIRE_GE(index, 0);
        if (index == 1)
            return 0;
        ssize_t n = weft_read(shared.in, text, 1, WEFT_NOW);
        REQUIRE(n == 1 || n == -ETIMEDOUT); /* another was quicker */
        atomic_fetch_add(&shared.got, n == 1);
    }
}

static int share(void *unused) {
    (void)unused;
    enum { TAKERS = 5, BYTES = 500 };
    weft_task *task[TAKERS];
    REQUIRE(io_pair(IO_PIPE, &shared.in, &shared.out));
    weft_event_init(&shared.over);
    for (int i = 0; i < TAKERS; i++)
        task[i] = io_go(NULL, take_bytes, NULL);
    for (int i = 0; i < BYTES; i++) {
        CHECK_EQ(weft_write(shared.out, "x", 1, fixture_soon()), 1);
        if (i % 7 == 0)
            io_rest();
    }
    while (atomic_load(&shared.got) != BYTES)
        (void)weft_sleep_until(weft_after(100000));
    weft_event_set(&shared.over);
    for (int i = 0; i < TAKERS; i++)
        CHECK_EQ(io_join(task[i]), 0);
    CHECK_EQ(atomic_load(&shared.got), BYTES);
    weft_close(shared.in), weft_close(shared.out);
    return 0;
}

API_TEST(select_io_shared, "R27", .workers = {1, 2}) { io_run(share, NULL); }

/* -- Ends of a wait ------------------------------------------------------------------------------------------------ */

static int select_one(void *io) {
    weft_case c = weft_case_io(io, WEFT_FD_READ);
    int index = weft_select(&c, 1, WEFT_NEVER);
    return index < 0 ? index : c.result < 0 ? c.result : 0;
}

static int select_foreign(void *io) {
    weft_case c = weft_case_fd(weft_io_fd(io), WEFT_FD_READ);
    int index = weft_select(&c, 1, WEFT_NEVER);
    return index < 0 ? index : c.result < 0 ? c.result : 0;
}

static int ends(void *unused) {
    (void)unused;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        if (!io_pair((enum io_kind)kind, &in, &out))
            continue;
        weft_task *cancelled[2] = {io_go(NULL, select_one, in), io_go(NULL, select_foreign, in)};
        weft_task *closed = io_go(NULL, select_one, in);
        io_until_it_waits(cancelled[0]), io_until_it_waits(cancelled[1]), io_until_it_waits(closed);
        weft_task_cancel(cancelled[0]), weft_task_cancel(cancelled[1]);
        CHECK_EQ(io_join(cancelled[0]), -ECANCELED);
        CHECK_EQ(io_join(cancelled[1]), -ECANCELED);
        int fd = weft_io_fd(in);
        CHECK_EQ(weft_close(in), 0);
        CHECK_EQ(io_join(closed), -EBADF);
        CHECK(fcntl(fd, F_GETFD) < 0); /* given back when the select had gone */
        weft_close(out);
    }
    return 0;
}

API_TEST(select_io_ends, "", .workers = {1, 2}) { io_run(ends, NULL); }

static weft_io *to_close;
static void close_or_select(unsigned index, void *unused) {
    (void)unused;
    if (index)
        CHECK_EQ(select_one(to_close), -EBADF);
    else {
        for (int i = 0; i < 50; i++)
            harness_nap();
        weft_close(to_close);
    }
}

TEST(select_io_closed_under_a_thread, "") {
    for (int i = 0; i < 20; i++) {
        weft_io *out;
        REQUIRE_EQ(weft_pipe(&to_close, &out), 0);
        harness_threads(2, close_or_select, NULL);
        weft_close(out);
    }
}

/* A foreign descriptor that is closed, and its number used again: the old wait does not hear of the new one. */
static int reused(void *unused) {
    (void)unused;
    weft_io *in, *out, *in2, *out2;
    REQUIRE(io_pair(IO_PIPE, &in, &out));
    int fd = dup(weft_io_fd(in));
    REQUIRE_GE(fd, 0);
    weft_io *keeper;
    REQUIRE_EQ(weft_io_open(fd, WEFT_IO_BORROW, &keeper), 0);
    weft_task *task = io_go(NULL, select_foreign, keeper);
    io_until_it_waits(task);
    weft_close(keeper);
    REQUIRE(io_pair(IO_PIPE, &in2, &out2));
    REQUIRE_EQ(dup2(weft_io_fd(in2), fd), fd);
    REQUIRE_EQ(weft_write(out2, "x", 1, WEFT_NEVER), 1);
    io_rest();
    CHECK_STR(weft_task_state(task), "idle"); /* not its own */
    REQUIRE_EQ(weft_write(out, "x", 1, WEFT_NEVER), 1);
    CHECK_EQ(io_join(task), 0);
    close(fd);
    weft_close(in), weft_close(out), weft_close(in2), weft_close(out2);
    return 0;
}

API_TEST(select_fd_reused_number, "", .workers = {1, 2}) { io_run(reused, NULL); }

/* A stream above a descriptor says so, instead of telling what the descriptor is. */
static void discard(void *state) { (void)state; }

static int layered(void *unused) {
    (void)unused;
    static const weft_stream functions = {.size = sizeof functions, .discard = discard};
    weft_io *in, *out, *above;
    REQUIRE(io_pair(IO_PIPE, &in, &out));
    REQUIRE_EQ(weft_stream_open(&functions, NULL, weft_io_fd(in), &above), 0);
    weft_case c = weft_case_io(above, WEFT_FD_READ);
    CHECK_EQ(weft_select(&c, 1, WEFT_NEVER), 0);
    CHECK_EQ(c.result, -EOPNOTSUPP);
    weft_close(above), weft_close(in), weft_close(out);
    return 0;
}

API_TEST(select_io_not_above, "", .workers = {1}) { io_run(layered, NULL); }

/* Many cases, more than the few whose records are small, and each of them alone. */
static int many(void *unused) {
    (void)unused;
    enum { MANY = 20 };
    weft_io *in[MANY], *out[MANY];
    weft_case cases[MANY];
    for (int i = 0; i < MANY; i++) {
        REQUIRE(io_pair(i % 2 ? IO_PIPE : IO_SOCKETPAIR, &in[i], &out[i]));
        cases[i] = i % 3 ? weft_case_io(in[i], WEFT_FD_READ) : weft_case_fd(weft_io_fd(in[i]), WEFT_FD_READ);
    }
    for (int i = 0; i < MANY; i++) {
        char text[2];
        CHECK_EQ(weft_write(out[i], "x", 1, WEFT_NEVER), 1);
        CHECK_EQ(weft_select(cases, MANY, fixture_soon()), i);
        CHECK_EQ(weft_read(in[i], text, 2, WEFT_NOW), 1);
    }
    CHECK_EQ(weft_select(cases, MANY, weft_after(1000000)), -ETIMEDOUT);
    for (int i = 0; i < MANY; i++)
        weft_close(in[i]), weft_close(out[i]);
    return 0;
}

API_TEST(select_io_many, "R27", .workers = {1, 2}) { io_run(many, NULL); }
TEST(select_io_many_threads, "R27") { harness_threads(2, on_thread, many); }
