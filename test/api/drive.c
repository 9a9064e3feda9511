/* drive.c - a runtime whose worker 0 runs on the caller's own thread. */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include "fixture.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

static weft_runtime *begin_driven(unsigned workers) {
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    config.workers = workers;
    config.park_timeout_ns = -1;
    return fixture_begin(&config);
}

static weft_poll count_down(weft_task *self, void *state) {
    unsigned *left = state;
    return --*left ? WEFT_YIELD : weft_done(self, 0, NULL);
}

API_TEST(drive_polls_all, "") {
    weft_runtime *rt = begin_driven(1);
    atomic_uint ran = 0;
    CHECK_EQ(weft_drive(rt, 0), 0);
    for (int i = 0; i < 100; i++)
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
    CHECK_EQ(ran, 0); /* nobody else runs them */
    CHECK_EQ(weft_drive(rt, 0), 100);
    CHECK_EQ(ran, 100);
    CHECK_EQ(weft_drive(rt, 0), 0);
    fixture_end(rt);
}

API_TEST(drive_respects_limit, "") {
    weft_runtime *rt = begin_driven(1);
    unsigned left = 10;
    REQUIRE_EQ(weft_go(rt, count_down, &left, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_drive(rt, 3), 3);
    CHECK_EQ(left, 1);
    CHECK_EQ(weft_drive(rt, 3), 1);
    CHECK_EQ(weft_drive(rt, 3), 0);
    fixture_end(rt);
}

static weft_poll drive_inside(weft_task *self, void *state) {
    CHECK_EQ(weft_drive(state, 0), -EDEADLK);
    CHECK_EQ(weft_drive_wait(state, 0, WEFT_NOW), -EDEADLK);
    CHECK_EQ(weft_runtime_stop(state, WEFT_NOW), -EDEADLK);
    CHECK_EQ(weft_runtime_destroy(state), -EDEADLK);
    CHECK_EQ(weft_runtime_current(), state);
    return weft_done(self, 0, NULL);
}

API_TEST(drive_refuses_reentry, "") {
    weft_runtime *rt = begin_driven(1);
    REQUIRE_EQ(weft_go(rt, drive_inside, rt, NULL), 0);
    CHECK_EQ(weft_drive(rt, 0), 1);
    CHECK_EQ(weft_runtime_current(), NULL); /* only while it drives is this thread a worker */
    fixture_end(rt);
}

API_TEST(drive_needs_driven, "") {
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_EQ(weft_drive(rt, 0), -EINVAL);
    CHECK_EQ(weft_drive_wait(rt, 0, WEFT_NEVER), -EINVAL);
    fixture_end(rt);
}

/* How often this thread has gone to sleep. */
static long sleeps(void) {
    struct rusage used;
    REQUIRE_EQ(getrusage(RUSAGE_THREAD, &used), 0);
    return used.ru_nvcsw;
}

API_TEST(drive_wait_times_out, "") {
    weft_runtime *rt = begin_driven(1);
    int64_t before = harness_clock();
    long asleep = sleeps();
    CHECK_EQ(weft_drive_wait(rt, 0, before + 20000000), 0);
    CHECK_GE(harness_clock() - before, 20000000);
    CHECK_GT(sleeps(), asleep); /* it does not ask again and again */
    CHECK_EQ(weft_drive_wait(rt, 0, WEFT_NOW), 0);
    fixture_end(rt);
}

static weft_poll wait_for_cancel(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_PENDING;
}

/* Whoever stops it drives it, and sleeps while there is nothing to drive. */
API_TEST(drive_stop_sleeps, "") {
    weft_runtime *rt = begin_driven(1);
    REQUIRE_EQ(weft_go(rt, wait_for_cancel, NULL, NULL), 0);
    CHECK_EQ(weft_drive(rt, 0), 1);
    int64_t before = harness_clock();
    long asleep = sleeps();
    CHECK_EQ(weft_runtime_stop(rt, before + 20000000), -ECANCELED);
    CHECK_GE(harness_clock() - before, 20000000);
    CHECK_GT(sleeps(), asleep);
    REQUIRE_EQ(weft_runtime_destroy(rt), 0);
}

static int sleep_long(void *arg) {
    (void)arg;
    return weft_sleep(INT64_C(3600000000000));
}

/* A simulated runtime that has nothing to do but wait lets its time pass, also when it is driven. */
API_TEST(drive_passes_virtual_time, "", .sched = "sim") {
    weft_runtime *rt = begin_driven(1);
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, sleep_long, NULL, &task), 0);
    for (int i = 0; i < 10 && !weft_task_is_done(task); i++)
        CHECK_GE(weft_drive(rt, 0), 0);
    CHECK(weft_task_is_done(task));
    weft_task_cancel(task);
    weft_task_drop(task);
    fixture_end(rt);
}

static void spawn_later(unsigned index, void *arg) {
    weft_runtime *rt = arg;
    static atomic_uint ran;
    static unsigned polled;
    if (index == 0) {
        while (atomic_load(&ran) < 50) {
            int polls = weft_drive_wait(rt, 0, WEFT_NEVER);
            REQUIRE_GT(polls, 0);
            polled += (unsigned)polls;
        }
        CHECK_EQ(polled, 50);
    } else {
        for (unsigned i = 0; i < 50; i++) {
            REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
            REQUIRE_EVENTUALLY(atomic_load(&ran) > i);
        }
    }
}

API_TEST(drive_wait_is_woken, "") {
    weft_runtime *rt = begin_driven(1);
    harness_threads(2, spawn_later, rt);
    fixture_end(rt);
}

/* -- The wake function: a caller's own loop, asleep in poll() or read(), hears of work ---------------------- */

struct loop {
    weft_runtime *rt;
    int event;
    atomic_uint ran;
    struct gate gate;
};

static void post(void *arg) {
    uint64_t one = 1;
    struct loop *loop = arg;
    REQUIRE_EQ(write(loop->event, &one, sizeof one), sizeof one);
}

static weft_poll pass_gate_then_count(weft_task *self, void *state) {
    struct loop *loop = state;
    if (!gate_pass(&loop->gate, self))
        return WEFT_PENDING;
    return fixture_count(self, &loop->ran);
}

static void run_loop(unsigned index, void *arg) {
    struct loop *loop = arg;
    if (index == 0) {
        while (atomic_load(&loop->ran) < 101) {
            uint64_t posted;
            if (weft_drive(loop->rt, 7) == 7 || atomic_load(&loop->ran) == 101)
                continue; /* perhaps more is ready */
            REQUIRE_EQ(read(loop->event, &posted, sizeof posted), sizeof posted); /* sleeps until a post */
        }
        return;
    }
    for (unsigned i = 0; i < 100; i++)
        REQUIRE_EQ(weft_go(loop->rt, fixture_count, &loop->ran, NULL), 0);
    REQUIRE_EVENTUALLY(gate_waiting(&loop->gate) && atomic_load(&loop->ran) == 100);
    gate_open(&loop->gate); /* a wake, not a spawn, must post too */
}

API_TEST(drive_from_own_loop, "") {
    static struct loop loop = {.gate = GATE_INIT};
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    config.workers = 1;
    config.park_timeout_ns = -1;
    config.wake = post;
    config.wake_arg = &loop;
    loop.event = eventfd(0, EFD_CLOEXEC);
    loop.rt = fixture_begin(&config);
    REQUIRE_EQ(weft_go(loop.rt, pass_gate_then_count, &loop, NULL), 0);
    harness_threads(2, run_loop, &loop);
    fixture_end(loop.rt);
    close(loop.event);
}

/* Worker 0 is the caller's, the others have threads: work is shared between them. */
API_TEST(drive_with_threads_beside, "", .sched = "ring deque fifo reactor") {
    weft_runtime *rt = begin_driven(3);
    CHECK_EQ(weft_runtime_workers(rt), 3);
    atomic_uint ran = 0;
    for (int i = 0; i < 1000; i++)
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
    while (atomic_load(&ran) < 1000)
        REQUIRE_GE(weft_drive_wait(rt, 0, weft_after(1000000)), 0);
    fixture_end(rt);
}

/* One thread at a time: the second is told. */
struct two {
    weft_runtime *rt;
    struct blocker blocker;
};

static void drive_twice(unsigned index, void *arg) {
    struct two *two = arg;
    if (index == 0) {
        CHECK_EQ(weft_drive(two->rt, 0), 1);
        return;
    }
    REQUIRE_EVENTUALLY(two->blocker.entered);
    CHECK_EQ(weft_drive(two->rt, 0), -EBUSY);
    CHECK_EQ(weft_drive_wait(two->rt, 0, WEFT_NEVER), -EBUSY);
    two->blocker.release = true;
}

API_TEST(drive_one_thread_at_a_time, "") {
    static struct two two;
    two.rt = begin_driven(1);
    REQUIRE_EQ(weft_go(two.rt, fixture_block, &two.blocker, NULL), 0);
    harness_threads(2, drive_twice, &two);
    CHECK_EQ(weft_drive(two.rt, 0), 0);
    fixture_end(two.rt);
}

/* A task of one runtime drives another. */
static weft_poll drive_other(weft_task *self, void *state) {
    weft_runtime *mine = weft_runtime_current();
    CHECK_EQ(weft_drive(state, 0), 1);
    CHECK_EQ(weft_runtime_current(), mine);
    CHECK_EQ(weft_task_self(), self);
    return weft_done(self, 0, NULL);
}

API_TEST(drive_from_other_runtime, "") {
    weft_runtime *driven = begin_driven(1), *rt = fixture_begin_patient();
    atomic_uint ran = 0;
    REQUIRE_EQ(weft_go(driven, fixture_count, &ran, NULL), 0);
    fixture_finish(fixture_go(rt, drive_other, driven));
    CHECK_EQ(ran, 1);
    fixture_end(rt);
    fixture_end(driven);
}

/* -- Stopping ----------------------------------------------------------------------------------------------- */

API_TEST(drive_stop_finishes_tasks, "W37") {
    weft_runtime *rt = begin_driven(1);
    unsigned left = 10;
    weft_task *task = fixture_go(rt, count_down, &left);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    CHECK_EQ(left, 0);
    CHECK(weft_task_is_done(task));
    weft_task_drop(task);
    CHECK_EQ(weft_drive(rt, 0), 0); /* nothing more comes */
    CHECK_EQ(weft_drive_wait(rt, 0, WEFT_NEVER), -ESHUTDOWN);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* The deadline of a stop holds although the task never stops being ready. */
API_TEST(drive_stop_keeps_deadline, "W36", .timeout = 5) {
    weft_runtime *rt = begin_driven(1);
    REQUIRE_EQ(weft_go(rt, fixture_yield_for_ever, NULL, NULL), 0);
    CHECK_EQ(weft_runtime_stop(rt, weft_after(20000000)), -ECANCELED);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

static void stop_or_wake(unsigned index, void *arg) {
    struct loop *loop = arg;
    if (index == 0) {
        CHECK_EQ(weft_runtime_stop(loop->rt, WEFT_NEVER), 0);
    } else {
        REQUIRE_EVENTUALLY(gate_waiting(&loop->gate) == 1);
        for (int i = 0; i < 100; i++) /* let the stopper fall asleep; the answer is the same if it has not */
            harness_nap();
        gate_open(&loop->gate);
    }
}

/* A stop that waits for a task also drives it when it is woken from outside. */
API_TEST(drive_stop_hears_wakes, "W37", .timeout = 5) {
    static struct loop loop = {.gate = GATE_INIT};
    loop.rt = begin_driven(1);
    REQUIRE_EQ(weft_go(loop.rt, pass_gate_then_count, &loop, NULL), 0);
    harness_threads(2, stop_or_wake, &loop);
    CHECK_EQ(loop.ran, 1);
    CHECK_EQ(weft_runtime_destroy(loop.rt), 0);
}

static weft_poll never_woken(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_PENDING;
}

/* weft_run drives by itself; the simulator's verdict must reach it there too. */
API_TEST(drive_run_finds_deadlock, "J6", .sched = "sim", .timeout = 5) {
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    CHECK_EQ(weft_run(&config, never_woken, NULL, NULL), -EDEADLK);
}

API_TEST(drive_run, "") {
    weft_config config = WEFT_CONFIG_INIT;
    unsigned left = 100;
    config.driven = true;
    config.workers = 1;
    CHECK_EQ(weft_run(&config, count_down, &left, NULL), 0);
    CHECK_EQ(left, 0);
}
