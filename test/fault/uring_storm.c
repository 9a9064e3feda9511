/* uring_storm.c - the poller on io_uring in large numbers: a completion queue that overflows, a cancellation against every completion.
 *
 * WEFT_TEST_OPERATIONS asks for more of both: 10^7 of the first and 10^6 of the second is what was once seen to hold (docs/internals/io.md). */
#define _GNU_SOURCE
#include "../api/io_fixture.h"
#include "sweep.h"

static long operations(long few) {
    const char *text = getenv("WEFT_TEST_OPERATIONS");
    few /= fixture_on("reactor") ? 5 : 1; /* where each turn of a fiber is one of the control thread */
    return text ? atol(text) : harness_is_slow() ? few / 5 : few;
}

static weft_runtime *begin(unsigned completions) {
    int error = wefti_uring_probe();
    if (error)
        SKIP("no io_uring here: %s", strerror(-error));
    wefti_uring_limit(0, completions);
    weft_config config = WEFT_CONFIG_INIT;
    config.park_timeout_ns = -1;
    config.poller = WEFT_POLLER_URING;
    unsetenv("WEFT_IO");
    return fixture_begin(&config);
}

/* -- Overflow ---------------------------------------------------------------------------------------------------------- */

/* Eight completions, and more than a hundred operations at a time: the rest overflows, polls end and are armed again; every byte of
 * every stream comes once, in order. */
#define STREAMS 48

static struct {
    long messages; /* a stream */
    atomic_long made; /* reads and writes */
} storm;

static struct stream {
    weft_io *in, *out;
    size_t sent, heard; /* bytes */
} streams[STREAMS];

static int send_all(void *arg) {
    struct stream *stream = arg;
    unsigned char bytes[64];
    for (long calls = 0; calls < storm.messages; calls++) {
        size_t size = 1 + stream->sent % 61;
        io_fill(bytes, size, stream->sent);
        REQUIRE_EQ(weft_write(stream->out, bytes, size, WEFT_NEVER), size);
        stream->sent += size;
    }
    atomic_fetch_add(&storm.made, storm.messages);
    return weft_close(stream->out);
}

static int hear_all(void *arg) {
    struct stream *stream = arg;
    unsigned char bytes[64];
    ssize_t n;
    long calls = 0;
    for (; (n = weft_read(stream->in, bytes, sizeof bytes, WEFT_NEVER)) > 0; calls++) {
        REQUIRE(io_is(bytes, (size_t)n, stream->heard));
        stream->heard += (size_t)n;
    }
    CHECK_EQ(n, 0);
    atomic_fetch_add(&storm.made, calls);
    return weft_close(stream->in);
}

/* However slow the machine: all readers wait, and each gets a byte while no worker looks. */
static void all_at_once(weft_runtime *rt, weft_task *const *reader) {
    struct blocker held[2] = {0};
    weft_task *holder[2];
    unsigned workers = weft_runtime_workers(rt);
    REQUIRE_LE(workers, 2);
    for (int i = 0; i < STREAMS; i++)
        REQUIRE_EVENTUALLY(!strcmp(weft_task_state(reader[i]), "idle"));
    for (unsigned i = 0; i < workers; i++) { /* the next finds a worker that is free */
        holder[i] = fixture_go(rt, fixture_block, &held[i]);
        REQUIRE_EVENTUALLY(atomic_load(&held[i].entered));
    }
    for (int i = 0; i < STREAMS; i++) {
        unsigned char first = io_byte(streams[i].sent++);
        REQUIRE_EQ(send(weft_io_fd(streams[i].out), &first, 1, 0), 1);
    }
    for (unsigned i = 0; i < workers; i++)
        atomic_store(&held[i].release, true);
    for (unsigned i = 0; i < workers; i++)
        fixture_finish(holder[i]);
}

API_TEST(uring_overflows, "B57", .workers = {1, 2}) {
    long wanted = operations(100000);
    weft_runtime *rt = begin(8);
    weft_task *reader[STREAMS], *writer[STREAMS];
    storm.messages = wanted / STREAMS / 2 + 1;
    for (int i = 0; i < STREAMS; i++) {
        REQUIRE(io_pair(i % 2 ? IO_TCP : IO_SOCKETPAIR, &streams[i].in, &streams[i].out));
        reader[i] = io_go(rt, hear_all, &streams[i]);
    }
    all_at_once(rt, reader);
    for (int i = 0; i < STREAMS; i++)
        writer[i] = io_go(rt, send_all, &streams[i]);
    for (int i = 0; i < STREAMS; i++) {
        weft_result heard, sent;
        REQUIRE_EQ(weft_join(writer[i], &sent, WEFT_NEVER), 0); /* the harness has the watch */
        REQUIRE_EQ(weft_join(reader[i], &heard, WEFT_NEVER), 0);
        CHECK_EQ(sent.status, 0);
        CHECK_EQ(heard.status, 0);
        CHECK_EQ(streams[i].heard, streams[i].sent);
        weft_task_drop(writer[i]), weft_task_drop(reader[i]);
    }
    printf("%ld reads and writes, %llu times too many completions\n", atomic_load(&storm.made),
           (unsigned long long)wefti_uring_overflows());
    CHECK_GT(wefti_uring_overflows(), 0);
    fixture_end(rt);
}

/* -- Cancel against completion ------------------------------------------------------------------------------------------ */

/* A read waits; a byte and a cancellation come, in either order, at once or a moment apart.  It is read or stays where it is, once and in
 * order; the buffer of a call that has returned is not touched any more. */
static struct {
    weft_io *in, *out;
    size_t written, read;
    long cancelled, completed;
    uint64_t random;
} race;

static int __attribute__((noinline)) read_some(weft_deadline until) {
    unsigned char bytes[32];
    memset(bytes, 0xee, sizeof bytes);
    ssize_t n = weft_read(race.in, bytes, sizeof bytes, until);
    if (n > 0) {
        REQUIRE(io_is(bytes, (size_t)n, race.read));
        race.read += (size_t)n;
    }
    for (size_t i = n > 0 ? (size_t)n : 0; i < sizeof bytes; i++)
        REQUIRE_EQ(bytes[i], 0xee);
    return n > 0 ? 0 : (int)n;
}

static int read_for_ever(void *unused) {
    (void)unused;
    return read_some(WEFT_NEVER);
}

/* As an operation of the other end, or at once. */
static void write_byte(bool at_once) {
    unsigned char byte = io_byte(race.written++);
    if (at_once)
        REQUIRE_EQ(send(weft_io_fd(race.out), &byte, 1, 0), 1);
    else
        REQUIRE_EQ(weft_write(race.out, &byte, 1, fixture_soon()), 1);
}

static void pause_a_moment(uint64_t turns) {
    for (; turns; turns--)
        (void)weft_yield();
}

static int cancel_all(void *arg) {
    for (long left = *(long *)arg; left; left--) {
        uint64_t drawn = harness_random(&race.random);
        bool first = drawn & 1, at_once = drawn & 2;
        uint64_t between = drawn >> 2 & 3;
        weft_task *reader = io_go(NULL, read_for_ever, NULL);
        io_until_it_waits(reader);
        if (first)
            write_byte(at_once);
        else
            weft_task_cancel(reader);
        pause_a_moment(between > 1 ? 0 : between);
        if (first)
            weft_task_cancel(reader);
        else
            write_byte(at_once);
        int status = io_join(reader);
        REQUIRE(status == 0 || status == -ECANCELED);
        *(status ? &race.cancelled : &race.completed) += 1;
        while (race.read < race.written) /* it is still there */
            REQUIRE_EQ(read_some(fixture_soon()), 0);
        REQUIRE_EQ(race.read, race.written);
    }
    return 0;
}

API_TEST(uring_cancel_against_completion, "", .workers = {1, 2}) {
    long rounds = operations(10000);
    weft_runtime *rt = begin(0);
    for (int tcp = 0; tcp < 2; tcp++) {
        long half = rounds / 2;
        race.random = harness_seed();
        race.written = race.read = 0;
        REQUIRE(io_pair(tcp ? IO_TCP : IO_SOCKETPAIR, &race.in, &race.out));
        weft_result result;
        weft_task *task = io_go(rt, cancel_all, &half);
        REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0); /* the harness has the watch */
        CHECK_EQ(result.status, 0);
        weft_task_drop(task);
        weft_close(race.in), weft_close(race.out);
    }
    printf("%ld reads were cancelled, %ld completed\n", race.cancelled, race.completed);
    CHECK_GT(race.cancelled, 0);
    CHECK_GT(race.completed, 0);
    fixture_end(rt);
}
