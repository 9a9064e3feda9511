/* fiber_stack.c - stacks of fibers: sizes, reuse, thousands alive, given back. */

#include "fiber.h"
#include "stack/stack.h"

/* -- Sizes ----------------------------------------------------------------------------------------------------------------- */

/* Touch that many bytes below us, a page at a time, as deep calls would. */
static __attribute__((noinline)) unsigned use_stack(size_t bytes) {
    volatile char frame[1024];
    frame[0] = (char)bytes;
    unsigned below = bytes > sizeof frame + 128 ? use_stack(bytes - sizeof frame) : 0;
    return below + 1 + (unsigned)(frame[0] - (char)bytes);
}

static int use_most(void *arg) {
    size_t bytes = (size_t)(uintptr_t)arg;
    CHECK_GT(use_stack(bytes), 0);
    weft_yield();
    CHECK_GT(use_stack(bytes), 0);
    return 0;
}

API_TEST(fiber_stack_sizes, "J16", .workers = {1, 2}) {
    static const size_t sizes[] = {1, 16384, 16385, 65536, 1 << 20, 16 << 20, 0};
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[14];
    for (int i = 0; i < 14; i++) {
        size_t size = sizes[i % 7], least = size ? size : 65536;
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        spec.fn = use_most;
        spec.stack_size = size;
        spec.arg = (void *)(harness_is_slow() ? least / 4 : least < 16384 ? 8000 : least / 4 * 3 - 4096);
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task[i]), 0);
    }
    for (int i = 0; i < 14; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

API_TEST(fiber_stack_of_the_runtime, "", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.stack_size = 1 << 20;
    weft_runtime *rt = fixture_begin(&config);
    CHECK_EQ(fixture_finish(fiber_go(rt, use_most, (void *)(700 << 10))).status, 0);
    fixture_end(rt);
}

/* A gigabyte of address space costs what is touched. */
API_TEST(fiber_stack_largest, "", .workers = {1}) {
    if (harness_is_slow())
        SKIP("sanitizers shadow it");
    weft_runtime *rt = fixture_begin_patient();
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task[4];
    spec.fn = use_most;
    spec.stack_size = (size_t)1 << 30;
    spec.arg = (void *)(1 << 20);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task[i]), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_LT(harness_rss(), 100u << 20);
    fixture_end(rt);
}

/* -- Reuse ----------------------------------------------------------------------------------------------------------------- */

static uintptr_t lowest, highest; /* plain: one worker */

static int note_stack(void *arg) {
    (void)arg;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    lowest = here < lowest ? here : lowest;
    highest = here > highest ? here : highest;
    weft_yield();
    return 0;
}

/* One after the other they use the same few stacks. */
static int use_stacks_again(void *arg) {
    (void)arg;
    lowest = UINTPTR_MAX;
    highest = 0;
    for (int i = 0; i < 10000; i++)
        CHECK_EQ(fiber_call(note_stack, NULL).status, 0);
    CHECK_LE(highest - lowest, 4 * 65536);
    return 0;
}

API_TEST(fiber_stack_reused, "", .workers = {1}) { CHECK_EQ(fiber_run(use_stacks_again, NULL).status, 0); }

/* Sizes in turn: what one leaves, the next of its size finds, and memory does not grow. */
static int sizes_in_turn(void *arg) {
    (void)arg;
    size_t before = 0;
    for (int round = 0; round < 300; round++) {
        weft_task *task[8];
        for (int i = 0; i < 8; i++) {
            weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
            spec.fn = use_most;
            spec.stack_size = (size_t)16384 << i % 4;
            spec.arg = (void *)4000;
            REQUIRE_EQ(weft_fiber_spawn(NULL, &spec, &task[i]), 0);
        }
        for (int i = 0; i < 8; i++) {
            CHECK_EQ(weft_join(task[i], NULL, WEFT_NEVER), 0);
            weft_task_drop(task[i]);
        }
        if (round == 50)
            before = harness_rss();
    }
    if (!harness_is_slow())
        CHECK_LT(harness_rss(), before + (4u << 20));
    return 0;
}

API_TEST(fiber_stack_mixed_sizes, "", .workers = {1, 2}) { CHECK_EQ(fiber_run(sizes_in_turn, NULL).status, 0); }

/* -- Thousands ------------------------------------------------------------------------------------------------------------- */

struct crowd {
    struct event gate;
    atomic_uint passed;
};

static int stand_in_crowd(void *arg) {
    struct crowd *crowd = arg;
    volatile unsigned mine = 12345;
    CHECK_EQ(event_wait(&crowd->gate, WEFT_NEVER), 0);
    CHECK_EQ(mine, 12345);
    atomic_fetch_add(&crowd->passed, 1);
    return 0;
}

static int make_crowd(void *arg) {
    struct crowd *crowd = arg;
    unsigned count = fixture_is_slow() ? 2000 : 10000;
    for (int round = 0; round < 3; round++) {
        crowd->gate.set = false;
        atomic_store(&crowd->passed, 0);
        for (unsigned i = 0; i < count; i++)
            REQUIRE_EQ(weft_fiber_go(NULL, stand_in_crowd, crowd, NULL), 0);
        while (event_waiting(&crowd->gate) < count)
            weft_yield();
        event_set(&crowd->gate);
        while (atomic_load(&crowd->passed) < count)
            weft_yield();
    }
    return 0;
}

API_TEST(fiber_stack_thousands, "J9", .workers = {1, 2, 4}, .timeout = 60) {
    static struct crowd crowd;
    CHECK_EQ(fiber_run(make_crowd, &crowd).status, 0);
}

/* -- Given back ------------------------------------------------------------------------------------------------------------ */

static int make_idle_crowd(void *arg) {
    struct crowd *crowd = arg;
    for (unsigned i = 0; i < 4000; i++)
        REQUIRE_EQ(weft_fiber_go(NULL, stand_in_crowd, crowd, NULL), 0);
    while (event_waiting(&crowd->gate) < 4000)
        weft_yield();
    return 0;
}

/* A runtime that has nothing to do gives most of them to the system, whoever keeps the watch. */
API_TEST(fiber_stack_given_back, "", .workers = {1, 2}, .sched = "ring deque fifo reactor") {
    static struct crowd crowd;
    if (harness_is_slow())
        SKIP("sanitizers have memory of their own");
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_EQ(fixture_finish(fiber_go(rt, make_idle_crowd, &crowd)).status, 0);
    size_t most = harness_rss();
    event_set(&crowd.gate);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    CHECK_EQ(crowd.passed, 4000);
    REQUIRE_EVENTUALLY(harness_rss() + (3000u * 4 << 10) < most);
    fixture_end(rt);
}
