/* stopping.c - stopping and starting at any moment: always in order, nothing left behind. */
#include "../api/fixture.h"

#include <malloc.h>

static struct {
    atomic_uint spawned, dropped;
} counts;

static void on_drop(void *state) {
    (void)state;
    atomic_fetch_add(&counts.dropped, 1);
}

static weft_poll breed(weft_task *self, void *state);

static int start(weft_runtime *rt, unsigned steps) {
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = breed;
    spec.state = &steps;
    spec.state_size = sizeof steps;
    spec.drop = on_drop;
    int error = weft_spawn(rt, &spec, NULL);
    atomic_fetch_add(&counts.spawned, error == 0);
    return error;
}

/* Some yield, some spawn, some wait for a wake that never comes, some wake themselves. */
static weft_poll breed(weft_task *self, void *state) {
    unsigned *steps = state;
    if (*steps == 0)
        return weft_done(self, 0, NULL);
    --*steps;
    switch (*steps % 5) {
    case 0: {
        int error = start(NULL, *steps / 2);
        REQUIRE(error == 0 || error == -ESHUTDOWN);
        return WEFT_YIELD;
    }
    case 1: return WEFT_PENDING; /* until it is cancelled */
    case 2: weft_waker_wake(weft_waker_of(self)); return WEFT_PENDING;
    case 3: weft_task_cancel(self); return WEFT_YIELD;
    default: return WEFT_YIELD;
    }
}

struct stopper {
    weft_runtime *rt;
    uint64_t seed;
    int result;
};

static void spawn_or_stop(unsigned index, void *arg) {
    struct stopper *s = arg;
    uint64_t random = s->seed + index;
    if (index == 0) {
        for (uint64_t spin = harness_random(&random) % 200000; spin; spin--)
            atomic_signal_fence(memory_order_seq_cst);
        s->result = weft_runtime_stop(s->rt, harness_random(&random) % 2 ? WEFT_NOW : weft_after(200000));
        return;
    }
    for (int i = 0; i < 50; i++) {
        int error = start(s->rt, (unsigned)(harness_random(&random) % 40));
        if (error == -ESHUTDOWN)
            return;
        REQUIRE(error == 0 || error == -EAGAIN);
    }
}

API_TEST(stopping_at_any_moment, "W35 W36 W38", .workers = {1, 2, 4}, .timeout = 60) {
    uint64_t random = harness_seed();
    for (int i = 0; i < (harness_is_slow() ? 50 : 500); i++) {
        weft_config config = WEFT_CONFIG_INIT;
        config.park_timeout_ns = i % 2 ? -1 : 0;
        struct stopper s = {.rt = fixture_begin(&config), .seed = harness_random(&random)};
        counts.spawned = counts.dropped = 0;
        harness_threads(3, spawn_or_stop, &s);
        REQUIRE(s.result == 0 || s.result == -ECANCELED);
        weft_stats stats = fixture_stats(s.rt);
        CHECK_EQ(stats.spawned, counts.spawned);
        CHECK_EQ(stats.completed, counts.spawned);
        CHECK_EQ(counts.dropped, counts.spawned);
        CHECK_EQ(weft_go(s.rt, breed, NULL, NULL), -ESHUTDOWN);
        harness_on_hang(NULL, NULL);
        REQUIRE_EQ(weft_runtime_destroy(s.rt), 0);
    }
}

/* -- Many runtimes ------------------------------------------------------------------------------------------------ */

static size_t address_space(void) {
    char line[256];
    size_t kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    REQUIRE(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "VmSize:", 7) == 0)
            kilobytes = strtoull(line + 7, NULL, 10);
    fclose(file);
    return kilobytes * 1024;
}

static void one_life(unsigned tasks) {
    atomic_uint ran = 0;
    weft_runtime *rt = fixture_begin_patient();
    for (unsigned i = 0; i < tasks; i++)
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
    fixture_end(rt);
    CHECK_EQ(ran, tasks);
}

API_TEST(stopping_two_hundred_runtimes, "B32 K41", .workers = {1, 4}, .timeout = 60) {
    mallopt(M_ARENA_MAX, 1);
    for (unsigned i = 0; i < 20; i++)
        one_life(i * 10);
    size_t before = address_space();
    for (unsigned i = 0; i < 200; i++)
        one_life(i % 20 * 10);
    REQUIRE_EVENTUALLY(fixture_threads("crew-") == 0);
    if (!harness_is_slow())
        CHECK_LT(address_space(), before + (32u << 20)); /* each has had chunks of a megabyte */
}

static void live_beside_others(unsigned index, void *arg) {
    (void)arg;
    for (unsigned i = 0; i < 20; i++) {
        atomic_uint ran = 0;
        weft_runtime *rt = NULL;
        REQUIRE_EQ(weft_runtime_create(NULL, &rt), 0);
        for (unsigned k = 0; k < 50 * index; k++)
            REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
        CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
        CHECK_EQ(ran, 50 * index);
        CHECK_EQ(weft_runtime_destroy(rt), 0);
    }
}

API_TEST(stopping_side_by_side, "B32", .workers = {2}) { harness_threads(5, live_beside_others, NULL); }
