/* io_own.c - descriptors whose lock a worker has for its own (src/io/quick.c): what others do to them, and what is no quick call. */
#include "io_fixture.h"

#include <pthread.h>

#define TIMES 300 /* calls after which the worker has it for its own, also if there are several */

/* There and back, until its own worker needs no lock for it. */
static void make_own(weft_io *in, weft_io *out) {
    char byte;
    for (int i = 0; i < TIMES; i++) {
        REQUIRE_EQ(weft_write(out, "x", 1, fixture_soon()), 1);
        REQUIRE_EQ(weft_read(in, &byte, 1, fixture_soon()), 1);
    }
}

struct pair {
    weft_io *in, *out;
    atomic_bool waits;
};

static int reads_on(void *arg) {
    struct pair *pair = arg;
    char byte;
    make_own(pair->in, pair->out);
    pair->waits = true;
    return (int)weft_read(pair->in, &byte, 1, WEFT_NEVER);
}

/* -- Another closes it --------------------------------------------------------------------------------------- */

static void *close_in(void *arg) {
    CHECK_EQ(weft_close(((struct pair *)arg)->in), 0);
    return NULL;
}

static int thread_closes(void *unused) {
    (void)unused;
    for (int kind = IO_SOCKETPAIR; kind <= IO_TCP; kind++)
        for (int i = 0; i < 8; i++) { /* also while it is not yet waiting */
            struct pair pair = {.waits = false};
            pthread_t thread;
            REQUIRE(io_pair((enum io_kind)kind, &pair.in, &pair.out));
            weft_task *task = io_go(NULL, reads_on, &pair);
            while (!pair.waits)
                (void)weft_yield();
            if (i % 2)
                io_until_it_waits(task);
            REQUIRE_EQ(pthread_create(&thread, NULL, close_in, &pair), 0);
            CHECK_EQ(io_join(task), -EBADF);
            pthread_join(thread, NULL);
            weft_close(pair.out);
        }
    return 0;
}

API_TEST(io_own_closed_by_thread, "", .workers = {1, 2}) { io_run(thread_closes, NULL); }

/* -- Another uses it ----------------------------------------------------------------------------------------- */

static void *write_to_it(void *arg) {
    for (int i = 0; i < TIMES; i++)
        CHECK_EQ(weft_write(((struct pair *)arg)->out, "y", 1, WEFT_NEVER), 1);
    return NULL;
}

static int read_all(void *arg) {
    struct pair *pair = arg;
    char bytes[TIMES];
    make_own(pair->in, pair->out);
    pair->waits = true;
    for (ssize_t got = 0, n; got < TIMES; got += n) {
        n = weft_read(pair->in, bytes, sizeof bytes, fixture_soon());
        REQUIRE(n > 0);
    }
    return 0;
}

static int thread_writes(void *unused) {
    (void)unused;
    struct pair pair = {.waits = false};
    pthread_t thread;
    REQUIRE(io_pair(IO_TCP, &pair.in, &pair.out));
    weft_task *task = io_go(NULL, read_all, &pair);
    while (!pair.waits)
        (void)weft_yield();
    REQUIRE_EQ(pthread_create(&thread, NULL, write_to_it, &pair), 0);
    CHECK_EQ(io_join(task), 0);
    pthread_join(thread, NULL);
    weft_close(pair.in), weft_close(pair.out);
    return 0;
}

API_TEST(io_own_used_by_thread, "", .workers = {1, 2}) { io_run(thread_writes, NULL); }

/* -- No quick call ------------------------------------------------------------------------------------------- */

/* Nothing written is nothing, not a message without bytes; nothing read is no wait, and takes no message. */
static int empty_calls(void *unused) {
    (void)unused;
    int fd[2];
    weft_io *in, *out;
    char bytes[4];
    REQUIRE_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd), 0);
    REQUIRE_EQ(weft_io_open(fd[0], 0, &in), 0);
    REQUIRE_EQ(weft_io_open(fd[1], 0, &out), 0);
    make_own(in, out);
    CHECK_EQ(weft_write(out, bytes, 0, fixture_soon()), 0);
    CHECK_EQ(weft_write(out, "abc", 3, fixture_soon()), 3);
    CHECK_EQ(weft_read(in, bytes, 0, fixture_soon()), 0);
    CHECK_EQ(weft_read(in, bytes, 4, fixture_soon()), 3);
    CHECK_EQ(weft_read(in, bytes, 0, fixture_soon()), 0);
    weft_close(in), weft_close(out);
    return 0;
}

API_TEST(io_own_empty_calls, "", .workers = {1}) { io_run(empty_calls, NULL); }

/* Its deadline, and what has come just before it. */
static int late(void *unused) {
    (void)unused;
    weft_io *in, *out;
    char byte;
    REQUIRE(io_pair(IO_TCP, &in, &out));
    make_own(in, out);
    CHECK_EQ(weft_read(in, &byte, 1, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_read(in, &byte, 1, WEFT_NOW), -ETIMEDOUT);
    REQUIRE_EQ(weft_write(out, "x", 1, fixture_soon()), 1);
    while (weft_read(in, &byte, 1, WEFT_NOW) == -ETIMEDOUT)
        (void)weft_yield();
    CHECK_EQ(byte, 'x');
    weft_close(out);
    CHECK_EQ(weft_read(in, &byte, 1, fixture_soon()), 0);
    weft_close(in);
    return 0;
}

API_TEST(io_own_late, "", .workers = {1, 2}) { io_run(late, NULL); }
