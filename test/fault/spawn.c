/* spawn.c - starting tasks when memory runs out at any point: each is refused or runs once, and the runtime goes on. */
#define _GNU_SOURCE
#include "sweep.h"

#include <sys/resource.h>

static struct {
    atomic_uint ran, dropped, accepted;
} counts;

static void on_drop(void *state) {
    (void)state;
    atomic_fetch_add(&counts.dropped, 1);
}

static weft_poll count(weft_task *self, void *state) {
    (void)state;
    return fixture_count(self, &counts.ran);
}

/* A task of every size class; refused or accepted, never anything in between. */
static void spawn_sizes(weft_runtime *rt) {
    for (size_t size = 0; size <= WEFT_STATE_MAX; size += 24) {
        weft_task *untouched = (weft_task *)(void *)&counts, *task = untouched;
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = count;
        spec.state_size = size;
        spec.drop = on_drop;
        int error = weft_spawn(rt, &spec, size % 48 ? &task : NULL);
        REQUIRE(error == 0 || error == -ENOMEM);
        atomic_fetch_add(&counts.accepted, error == 0);
        if (error)
            CHECK_EQ(task, untouched);
        else if (size % 48)
            weft_task_drop(task);
    }
}

static void expect_all_ran(weft_runtime *rt, unsigned others) {
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0); /* tasks may still be spawning */
    sweep_end(rt, counts.accepted + others);
    CHECK_EQ(counts.ran, counts.accepted);
    CHECK_EQ(counts.dropped, counts.accepted); /* refused ones have nothing to drop */
    counts.ran = counts.dropped = counts.accepted = 0;
}

static void spawn_from_outside(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    spawn_sizes(rt);
    expect_all_ran(rt, 0);
}

API_TEST(spawn_outside_fails_anywhere, "B2", .workers = {1, 2}) { sweep(spawn_from_outside); }

static weft_poll spawn_from_task(weft_task *self, void *state) {
    (void)state;
    spawn_sizes(NULL);
    return weft_done(self, 0, NULL);
}

static void spawn_from_inside(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    unsigned parents = 0;
    for (int i = 0; i < 3; i++)
        parents += weft_go(rt, spawn_from_task, NULL, NULL) == 0;
    expect_all_ran(rt, parents);
}

API_TEST(spawn_inside_fails_anywhere, "B2", .workers = {1, 2}) { sweep(spawn_from_inside); }

/* After a failure the same call works again as soon as there is memory. */
API_TEST(spawn_recovers, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int round = 0; round < 20; round++) {
        wefti_fault_set(0, true);
        unsigned before = counts.accepted;
        for (int i = 0; i < 5; i++) {
            int error = weft_go(rt, count, NULL, NULL); /* slots that are there may still be used */
            REQUIRE(error == 0 || error == -ENOMEM);
            counts.accepted += error == 0;
        }
        wefti_fault_set(-1, false);
        REQUIRE_EQ(weft_go(rt, count, NULL, NULL), 0);
        counts.accepted++;
        REQUIRE_EVENTUALLY(counts.ran == counts.accepted);
        CHECK_GE(counts.accepted, before + 1);
    }
    fixture_end(rt);
}

static void add(size_t begin, size_t end, void *arg) { atomic_fetch_add((atomic_size_t *)arg, end - begin); }

static void loop_in_parallel(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    atomic_size_t sum = 0;
    int error = weft_parallel_for(rt, 0, 1000, 10, add, &sum);
    REQUIRE(error == 0 || error == -ENOMEM);
    CHECK_EQ(sum, error ? 0 : 1000); /* all of it or nothing */
    sweep_end(rt, error ? 0 : 1);
}

API_TEST(spawn_parallel_for_fails_anywhere, "", .workers = {2}) { sweep(loop_in_parallel); }

/* A fault that comes while many tasks are alive leaves them alone. */
static void spawn_among_the_living(void) {
    static struct gate gate;
    gate = (struct gate)GATE_INIT;
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    unsigned accepted = 0;
    for (int i = 0; i < 100; i++)
        accepted += weft_go(rt, fixture_wait_gate, &gate, NULL) == 0;
    REQUIRE_EVENTUALLY(gate_waiting(&gate) == accepted);
    gate_open(&gate);
    sweep_end(rt, accepted);
}

API_TEST(spawn_failure_spares_others, "", .workers = {2}) { sweep(spawn_among_the_living); }

/* The system's own refusal: tasks until the address space is full. */
static weft_poll wait_for_stop(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_PENDING;
}

API_TEST(spawn_until_memory_is_gone, "B2", .sched = "ring", .workers = {2}) {
    if (harness_is_slow())
        SKIP("sanitizers need the address space");
    weft_config config = WEFT_CONFIG_INIT;
    config.global_capacity = UINT32_MAX;
    weft_runtime *rt = fixture_begin(&config);
    struct rlimit limit = {400u << 20, 400u << 20};
    REQUIRE_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    unsigned spawned = 0;
    int error;
    for (; (error = weft_go(rt, wait_for_stop, NULL, NULL)) == 0; spawned++)
        REQUIRE_LT(spawned, 10000000);
    CHECK_EQ(error, -ENOMEM);
    printf("%u tasks\n", spawned);
    CHECK_GT(spawned, 100000);
    CHECK_EQ(weft_stats_live(rt), spawned);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_EQ(fixture_stats(rt).completed, spawned);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}
