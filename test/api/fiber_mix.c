/* fiber_mix.c - fibers among everything else: driven runtimes, fork and join, loops, stopping. */
#include "fiber.h"

/* -- Driven ------------------------------------------------------------------------------------------------------------------ */

static weft_runtime *begin_driven(void) {
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    config.park_timeout_ns = -1;
    return fixture_begin(&config);
}

static int yield_times(void *arg) {
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++)
        if (weft_yield())
            return -1;
    return 0;
}

static void drive_until(weft_runtime *rt, weft_task *task, unsigned max_polls) {
    int64_t until = harness_clock() + harness_patience();
    while (!weft_task_is_done(task)) {
        int polls = weft_drive_wait(rt, max_polls, weft_after(10000000));
        REQUIRE_GE(polls, 0);
        if (max_polls)
            CHECK_LE((unsigned)polls, max_polls);
        REQUIRE_LT(harness_clock(), until);
    }
    weft_result result = {1, NULL};
    REQUIRE_EQ(weft_join(task, &result, WEFT_NOW), 0);
    CHECK_EQ(result.status, 0);
    weft_task_drop(task);
}

API_TEST(fiber_driven, "R30", .workers = {1, 2}) {
    weft_runtime *rt = begin_driven();
    drive_until(rt, fiber_go(rt, yield_times, (void *)1000), 0);
    fixture_end(rt);
}

/* Each yield is a poll, and the limit holds. */
API_TEST(fiber_driven_max_polls, "R30", .workers = {1}) {
    weft_runtime *rt = begin_driven();
    weft_task *task[3];
    for (int i = 0; i < 3; i++)
        task[i] = fiber_go(rt, yield_times, (void *)100);
    int total = 0, polls;
    while ((polls = weft_drive(rt, 7)) > 0) {
        CHECK_LE(polls, 7);
        total += polls;
    }
    CHECK_EQ(total, 3 * 101);
    for (int i = 0; i < 3; i++)
        drive_until(rt, task[i], 7);
    fixture_end(rt);
}

static int sleep_a_little(void *arg) {
    (void)arg;
    int64_t before = weft_now();
    CHECK_EQ(weft_sleep(2000000), 0);
    CHECK_GE(weft_now() - before, 2000000);
    return 0;
}

API_TEST(fiber_driven_sleeps, "R30", .workers = {1, 2}) {
    weft_runtime *rt = begin_driven();
    weft_task *task = fiber_go(rt, sleep_a_little, NULL);
    drive_until(rt, task, 0);
    CHECK_EQ(weft_drive_next(rt), WEFT_NEVER);
    fixture_end(rt);
}

/* Its thread may change between two drives: fibers of a driven worker see whoever drives. */
static void drive_some(unsigned index, void *rt) {
    for (int i = 0; i < 50; i++) {
        int polls = weft_drive(rt, 20);
        CHECK(polls >= 0 || polls == -EBUSY);
        (void)index;
    }
}

API_TEST(fiber_driven_by_several, "R30", .workers = {1}) {
    weft_runtime *rt = begin_driven();
    weft_task *task[4];
    for (int i = 0; i < 4; i++)
        task[i] = fiber_go(rt, yield_times, (void *)100);
    harness_threads(3, drive_some, rt);
    for (int i = 0; i < 4; i++)
        drive_until(rt, task[i], 0);
    fixture_end(rt);
}

static void wake_fn(void *arg) { atomic_fetch_add((atomic_uint *)arg, 1); }

/* A fiber of the driven worker that is woken from outside: the wake function is called. */
API_TEST(fiber_driven_lost_wake, "R30 B36", .workers = {1, 2}) {
    atomic_uint woken = 0;
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    config.park_timeout_ns = -1;
    config.wake = wake_fn;
    config.wake_arg = &woken;
    weft_runtime *rt = fixture_begin(&config);
    for (int i = 0; i < 20; i++) {
        struct event event = {0};
        weft_task *task = fiber_go(rt, fiber_wait_event, &event);
        while (event_waiting(&event) == 0) /* on worker 0, or another's */
            REQUIRE_GE(weft_drive(rt, 0), 0);
        weft_drive(rt, 0);
        unsigned before = woken;
        bool ours = ((struct wefti_fiber *)(void *)task)->task.home == 1;
        event_set(&event);
        if (ours)
            REQUIRE_EVENTUALLY(woken > before); /* under reactor by its control thread */
        drive_until(rt, task, 0);
    }
    fixture_end(rt);
}

/* -- Fork and join ---------------------------------------------------------------------------------------------------------- */

struct fib {
    long n, result;
};

static void fib(void *arg) {
    struct fib *f = arg;
    if (f->n < 2) {
        f->result = f->n;
        return;
    }
    struct fib a = {f->n - 1, 0}, b = {f->n - 2, 0};
    weft_job job;
    weft_fork(&job, fib, &b);
    fib(&a);
    weft_join_job(&job);
    f->result = a.result + b.result;
}

static int fork_in_fiber(void *arg) {
    struct fib f = {(long)(intptr_t)arg, 0};
    fib(&f);
    weft_yield();
    return (int)f.result;
}

static weft_poll fork_in_poll(weft_task *self, void *state) {
    (void)state;
    struct fib f = {20, 0};
    fib(&f);
    CHECK_EQ(f.result, 6765);
    return weft_done(self, 0, NULL);
}

API_TEST(fiber_fork, "W16", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[12];
    for (int i = 0; i < 12; i++)
        task[i] = i % 4 ? fiber_go(rt, fork_in_fiber, (void *)18) : fixture_go(rt, fork_in_poll, NULL);
    for (int i = 0; i < 12; i++)
        CHECK_EQ((intptr_t)fixture_finish(task[i]).value, i % 4 ? 2584 : 0);
    fixture_end(rt);
}

/* Jobs that need much stack run on a thread's, not on that of a fiber that happens to wait. */
static __attribute__((noinline)) void use_much_stack(void *arg) {
    volatile char frame[100 << 10];
    frame[0] = 1;
    frame[sizeof frame - 1] = 2;
    atomic_fetch_add((atomic_uint *)arg, (unsigned)(frame[0] + frame[sizeof frame - 1]));
}

static weft_poll fork_large(weft_task *self, void *state) {
    for (int i = 0; i < 200; i++) {
        weft_job job[4];
        for (int k = 0; k < 4; k++)
            weft_fork(&job[k], use_much_stack, state);
        for (int k = 4; k-- > 0;)
            weft_join_job(&job[k]);
    }
    return weft_done(self, 0, NULL);
}

static int fork_small(void *arg) {
    (void)arg;
    for (int i = 0; i < 20; i++)
        CHECK_EQ(fork_in_fiber((void *)12), 144);
    return 0;
}

API_TEST(fiber_fork_keeps_its_stack, "W16", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint sum = 0;
    weft_task *task[20];
    for (int i = 0; i < 20; i++)
        task[i] = i % 2 ? fiber_go(rt, fork_small, NULL) : fixture_go(rt, fork_large, &sum);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(sum, 10 * 200 * 4 * 3);
    fixture_end(rt);
}

/* -- Loops -------------------------------------------------------------------------------------------------------------------- */

static void add_range(size_t begin, size_t end, void *arg) {
    volatile char frame[80 << 10]; /* more than a fiber's stack, were it on one beside others */
    frame[0] = 1;
    atomic_fetch_add((atomic_size_t *)arg, (end - begin) * (size_t)frame[0]);
}

static int loop_in_fiber(void *arg) {
    weft_runtime *rt = arg;
    atomic_size_t sum = 0;
    CHECK_EQ(weft_parallel_for(rt, 0, 10000, 10, add_range, &sum), 0);
    CHECK_EQ(sum, 10000);
    CHECK_EQ(weft_parallel_for(rt, 5, 5, 0, add_range, &sum), 0);
    CHECK_EQ(weft_parallel_for(rt, 0, 1, 0, NULL, &sum), -EINVAL);
    return 0;
}

API_TEST(fiber_parallel_for, "W16", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient(), *other = fixture_begin_patient();
    weft_task *task[9];
    for (int i = 0; i < 9; i++)
        task[i] = fiber_go(rt, loop_in_fiber, i % 3 == 0 ? NULL : i % 3 == 1 ? rt : other);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
    fixture_end(other);
}

static void sum_range(size_t begin, size_t end, void *acc, void *arg) {
    (void)arg;
    for (size_t i = begin; i < end; i++)
        *(uint64_t *)acc += i;
}
static void add(void *left, const void *right, void *arg) {
    (void)arg;
    *(uint64_t *)left += *(const uint64_t *)right;
}

static int reduce_in_fiber(void *arg) {
    (void)arg;
    uint64_t zero = 0, sum = 0;
    CHECK_EQ(weft_parallel_reduce(NULL, 0, 100000, 0, sizeof sum, &zero, sum_range, add, NULL, &sum), 0);
    CHECK_EQ(sum, UINT64_C(4999950000));
    return 0;
}

API_TEST(fiber_parallel_reduce, "W16", .workers = {1, 2}) { CHECK_EQ(fiber_run(reduce_in_fiber, NULL).status, 0); }

/* A cancelled fiber waits for its loop all the same: the parts use its frame. */
struct slow_loop {
    atomic_bool begun, release;
    atomic_size_t sum;
};

static void wait_then_add(size_t begin, size_t end, void *arg) {
    struct slow_loop *loop = arg;
    atomic_store(&loop->begun, true);
    while (!atomic_load(&loop->release))
        harness_nap();
    atomic_fetch_add(&loop->sum, end - begin);
}

static int loop_cancelled(void *arg) {
    struct slow_loop *loop = arg;
    CHECK_EQ(weft_parallel_for(NULL, 0, 100, 10, wait_then_add, loop), 0);
    CHECK_EQ(loop->sum, 100);
    return weft_yield();
}

API_TEST(fiber_parallel_for_cancelled, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct slow_loop loop = {.sum = 0};
    weft_task *task = fiber_go(rt, loop_cancelled, &loop);
    REQUIRE_EVENTUALLY(loop.begun);
    weft_task_cancel(task);
    atomic_store(&loop.release, true);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

/* -- Stop ---------------------------------------------------------------------------------------------------------------------- */

static atomic_uint ended;

static int sleep_then_count(void *arg) {
    int error = weft_sleep((int64_t)(intptr_t)arg);
    atomic_fetch_add(&ended, 1);
    return error;
}

API_TEST(fiber_stop_waits, "R36", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 20; i++)
        REQUIRE_EQ(weft_fiber_go(rt, sleep_then_count, (void *)(intptr_t)(i * 200000), NULL), 0);
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    CHECK_EQ(ended, 20);
    CHECK_EQ(weft_fiber_go(rt, sleep_then_count, NULL, NULL), -ESHUTDOWN);
    fixture_end(rt);
}

API_TEST(fiber_stop_cancels, "R36 J25", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    struct event never = {0};
    for (int i = 0; i < 30; i++) {
        weft_fiber_fn fn = i % 3 == 0 ? fiber_wait_event : i % 3 == 1 ? fiber_yield_for_ever : sleep_then_count;
        void *arg = i % 3 == 0 ? (void *)&never : (void *)INT64_C(3600000000000);
        if (fixture_on("sim") && i % 3 == 2)
            continue; /* there an hour is nothing */
        REQUIRE_EQ(weft_fiber_go(rt, fn, arg, NULL), 0);
    }
    REQUIRE_EVENTUALLY(event_waiting(&never) == 10);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_EQ(event_waiting(&never), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

static int clean_up_slowly(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    int error = weft_sleep_until(WEFT_NEVER);
    REQUIRE_EQ(weft_shield(self), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_sleep(1000000), 0);
    REQUIRE_EQ(weft_unshield(self), 0);
    atomic_fetch_add(&ended, 1);
    return error;
}

API_TEST(fiber_stop_lets_clean_up, "R36 B56", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[10];
    for (int i = 0; i < 10; i++)
        task[i] = fiber_go(rt, clean_up_slowly, NULL);
    for (int i = 0; i < 10; i++)
        REQUIRE_EVENTUALLY(!strcmp(weft_task_state(task[i]), "idle"));
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_EQ(ended, 10);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(fixture_finish(task[i]).status, -ECANCELED);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* Destroy without stop, with fibers in every state. */
API_TEST(fiber_destroy_at_once, "R36", .workers = {1, 2}) {
    for (int i = 0; i < 20; i++) {
        weft_runtime *rt = fixture_begin_patient();
        struct event never = {0};
        for (int k = 0; k < 10; k++)
            REQUIRE_EQ(weft_fiber_go(rt, k % 2 ? fiber_wait_event : fiber_yield_for_ever, &never, NULL), 0);
        harness_on_hang(NULL, NULL);
        CHECK_EQ(weft_runtime_destroy(rt), 0);
        CHECK_EQ(event_waiting(&never), 0);
    }
}
