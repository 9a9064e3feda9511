/* fiber.c - fibers when memory, stacks or guards run out at any point: each is refused, ends with -ENOMEM, or runs once. */
#define _GNU_SOURCE
#include "sweep.h"

#include <sys/resource.h>

static struct {
    atomic_uint ran, accepted, refused, no_stack;
} counts;

static int count(void *arg) {
    (void)arg;
    weft_yield();
    atomic_fetch_add(&counts.ran, 1);
    return 0;
}

static void note_end(int status) {
    CHECK(status == 0 || status == -ENOMEM);
    atomic_fetch_add(&counts.no_stack, status == -ENOMEM);
}

/* Refused, or accepted and joined: by a thread or a fiber. */
static void spawn_and_join(weft_runtime *rt, size_t stack_size) {
    weft_task *untouched = (weft_task *)(void *)&counts, *task[4];
    weft_result result;
    for (int i = 0; i < 4; i++) {
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        spec.fn = count;
        spec.stack_size = stack_size << i;
        task[i] = untouched;
        int error = weft_fiber_spawn(rt, &spec, &task[i]);
        REQUIRE(error == 0 || error == -ENOMEM);
        atomic_fetch_add(error ? &counts.refused : &counts.accepted, 1);
        if (error)
            CHECK_EQ(task[i], untouched);
    }
    for (int i = 0; i < 4; i++) {
        if (task[i] == untouched)
            continue;
        REQUIRE_EQ(weft_join(task[i], &result, weft_in_fiber() ? WEFT_NEVER : fixture_soon()), 0);
        note_end(result.status);
        weft_task_drop(task[i]);
    }
}

static void expect_all(weft_runtime *rt, unsigned others) {
    sweep_end(rt, counts.accepted + others);
    CHECK_EQ(counts.ran + counts.no_stack, counts.accepted);
    memset(&counts, 0, sizeof counts);
}

static void from_outside(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    spawn_and_join(rt, 16384);
    spawn_and_join(rt, (size_t)1 << 20);
    expect_all(rt, 0);
}

API_TEST(fiber_fails_anywhere_outside, "J16", .workers = {1, 2}, .timeout = 60) { sweep(from_outside); }

static int spawn_from_fiber(void *arg) {
    (void)arg;
    spawn_and_join(NULL, 16384);
    spawn_and_join(NULL, (size_t)1 << 20);
    return 0;
}

static void from_inside(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    unsigned parents = 0;
    for (int i = 0; i < 3; i++) {
        weft_task *task;
        if (weft_fiber_go(rt, spawn_from_fiber, NULL, &task))
            continue;
        parents++;
        weft_result result;
        REQUIRE_EQ(weft_join(task, &result, fixture_soon()), 0);
        CHECK(result.status == 0 || result.status == -ENOMEM);
        weft_task_drop(task);
    }
    expect_all(rt, parents);
}

API_TEST(fiber_fails_anywhere_inside, "J16", .workers = {1, 2}, .timeout = 60) { sweep(from_inside); }

/* Those who have their stacks are not disturbed. */
static atomic_bool go_on;

static int wait_for_go(void *arg) {
    (void)arg;
    while (!atomic_load(&go_on))
        if (weft_sleep(100000))
            return -1;
    atomic_fetch_add(&counts.ran, 1);
    return 0;
}

static void among_the_living(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    atomic_store(&go_on, false);
    weft_task *task[20];
    bool there[20];
    for (int i = 0; i < 20; i++) {
        there[i] = weft_fiber_go(rt, wait_for_go, NULL, &task[i]) == 0;
        atomic_fetch_add(&counts.accepted, there[i]);
    }
    spawn_and_join(rt, 65536);
    atomic_store(&go_on, true);
    for (int i = 0; i < 20; i++)
        if (there[i])
            note_end(fixture_finish(task[i]).status);
    expect_all(rt, 0);
}

API_TEST(fiber_failure_spares_others, "", .workers = {1, 2}, .timeout = 60) { sweep(among_the_living); }

/* After a failure the same call works again as soon as there is memory, also when no stack was ever made. */
API_TEST(fiber_recovers, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int round = 0; round < 30; round++) {
        size_t size = (size_t)16384 << round % 10;
        wefti_fault_set(round % 4, true);
        spawn_and_join(rt, size);
        wefti_fault_set(-1, false);
        unsigned refused = counts.refused, no_stack = counts.no_stack;
        spawn_and_join(rt, size);
        CHECK_EQ(counts.refused, refused);
        CHECK_EQ(counts.no_stack, no_stack);
    }
    CHECK_GT(counts.refused + counts.no_stack, 0);
    fixture_end(rt);
}

/* Stacks that there are may still be used while the system gives no more.  (One worker: each keeps some for itself.) */
API_TEST(fiber_goes_on_with_old_stacks, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    weft_result result;
    for (int i = 0; i < 20; i++) { /* its slots and stacks */
        REQUIRE_EQ(weft_fiber_go(rt, count, NULL, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    wefti_fault_set(0, true);
    for (int i = 0; i < 20; i++) {
        REQUIRE_EQ(weft_fiber_go(rt, count, NULL, &task), 0);
        REQUIRE_EQ(weft_join(task, &result, fixture_soon()), 0);
        CHECK_EQ(result.status, 0);
        weft_task_drop(task);
    }
    wefti_fault_set(-1, false);
    fixture_end(rt);
}

/* A local that cannot be set. */
static int set_local(void *arg) {
    unsigned *key = arg;
    wefti_fault_set(0, true);
    int error = weft_local_set(*key, arg);
    wefti_fault_set(-1, false);
    CHECK_EQ(weft_local_get(*key), NULL);
    CHECK_EQ(weft_local_set(*key, arg), 0);
    CHECK_EQ(weft_local_get(*key), arg);
    return error;
}

API_TEST(fiber_local_fails, "", .workers = {1}) {
    unsigned key;
    REQUIRE_EQ(weft_local_create(&key, NULL), 0);
    CHECK_EQ(weft_fiber_run(NULL, set_local, &key, NULL), -ENOMEM);
}

/* The system's own refusal: large stacks until the address space is full, then everything goes on. */
static atomic_uint waiting;

static int wait_for_stop(void *arg) {
    (void)arg;
    atomic_fetch_add(&waiting, 1);
    int error = weft_sleep_until(WEFT_NEVER);
    return error;
}

API_TEST(fiber_until_addresses_are_gone, "", .sched = "ring deque fifo", .workers = {1, 2}) {
    if (harness_is_slow())
        SKIP("sanitizers need the address space");
    weft_config config = WEFT_CONFIG_INIT;
    config.global_capacity = UINT32_MAX;
    weft_runtime *rt = fixture_begin(&config);
    struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    REQUIRE_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = wait_for_stop;
    spec.stack_size = 16 << 20;
    unsigned spawned = 0;
    int error = 0;
    for (; spawned < 100000 && !error; spawned += !error) {
        unsigned before = waiting;
        error = weft_fiber_spawn(rt, &spec, NULL);
        for (int i = 0; i < 100 && !error && waiting == before; i++)
            harness_nap();
    }
    CHECK_EQ(error, -ENOMEM);
    CHECK_GT(waiting, 10);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_EQ(fixture_stats(rt).completed, spawned);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}
