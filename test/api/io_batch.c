/* io_batch.c - max_io_completions: how many I/O events a worker takes from its poller at a time. */
#include "io_fixture.h"

#define PIPES 48

static weft_io *ins[PIPES], *outs[PIPES];
static atomic_bool held, released;

/* The only worker does nothing else until it is released. */
static weft_poll hold(weft_task *self, void *arg) {
    (void)self, (void)arg;
    held = true;
    while (!released)
        ;
    return WEFT_READY;
}

static int read_one(void *arg) {
    char byte;
    return weft_read(arg, &byte, 1, fixture_soon()) == 1 ? 0 : -EIO;
}

/* True if every reader waits. */
static bool are_idle(weft_task **tasks) {
    for (int i = 0; i < PIPES; i++)
        if (strcmp(weft_task_state(tasks[i]), "idle"))
            return false;
    return true;
}

/* PIPES fibers wait; while the worker is held, every pipe becomes readable.  Returns in how many batches the worker heard of it. */
static uint64_t batches_of(uint32_t most, weft_poller poller) {
    weft_config config = WEFT_CONFIG_INIT;
    config.max_io_completions = most;
    config.poller = poller;
    config.park_timeout_ns = -1;
    weft_runtime *rt = fixture_begin(&config);
    weft_task *tasks[PIPES];
    for (int i = 0; i < PIPES; i++) {
        REQUIRE_EQ(weft_pipe(&ins[i], &outs[i]), 0);
        tasks[i] = io_go(rt, read_one, ins[i]);
    }
    REQUIRE_EVENTUALLY(are_idle(tasks));
    held = released = false;
    weft_task *holder = fixture_go(rt, hold, NULL);
    REQUIRE_EVENTUALLY(held);
    weft_stats before = fixture_stats(rt);
    for (int i = 0; i < PIPES; i++)
        REQUIRE_EQ(write(weft_io_fd(outs[i]), "x", 1), 1);
    released = true;
    CHECK_EQ(fixture_finish(holder).status, 0);
    for (int i = 0; i < PIPES; i++)
        CHECK_EQ(fixture_finish(tasks[i]).status, 0);
    weft_stats after = fixture_stats(rt);
    CHECK_EQ(after.io_events - before.io_events, PIPES); /* each pipe once */
    for (int i = 0; i < PIPES; i++) {
        CHECK_EQ(weft_close(ins[i]), 0);
        CHECK_EQ(weft_close(outs[i]), 0);
    }
    fixture_end(rt);
    return after.io_batches - before.io_batches;
}

static void check_batches(weft_poller poller) {
    CHECK_EQ(batches_of(1, poller), PIPES);
    CHECK_GE(batches_of(PIPES / 4, poller), 4);
    CHECK_LE(batches_of(PIPES, poller), 4); /* epoll: 1; io_uring delivers about 20 completions per system call */
    CHECK_LE(batches_of(0, poller), 4); /* 256 */
}

API_TEST(io_batch_epoll, "B57", .workers = {1}) { check_batches(WEFT_POLLER_EPOLL); }
API_TEST(io_batch_uring, "B57", .workers = {1}) { check_batches(WEFT_POLLER_URING); } /* or epoll, if there is none */
