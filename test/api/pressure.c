/* pressure.c - a full global queue refuses tasks from outside, and only those. */
#include "fixture.h"

#include <fcntl.h>

static atomic_uint ran;

static weft_runtime *begin_with(uint32_t capacity) {
    weft_config config = WEFT_CONFIG_INIT;
    config.global_capacity = capacity;
    config.park_timeout_ns = -1;
    return fixture_begin(&config);
}

/* Block every worker. */
static void block_all(weft_runtime *rt, struct blocker *blocker) {
    for (unsigned i = 0; i < weft_runtime_workers(rt); i++) {
        REQUIRE_EQ(weft_go(rt, fixture_block, &blocker[i], NULL), 0);
        REQUIRE_EVENTUALLY(blocker[i].entered);
    }
}

static void release_all(weft_runtime *rt, struct blocker *blocker) {
    for (unsigned i = 0; i < weft_runtime_workers(rt); i++)
        blocker[i].release = true;
}

API_TEST(pressure_at_capacity, "B57", .workers = {1, 2}) {
    weft_runtime *rt = begin_with(10);
    struct blocker blocker[2] = {0};
    weft_task *task = (weft_task *)(void *)&ran;
    block_all(rt, blocker);
    for (int i = 0; i < 10; i++)
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_go(rt, fixture_count, &ran, &task), -EAGAIN);
    CHECK_EQ(task, &ran); /* untouched */
    CHECK_EQ(weft_stats_live(rt), 10 + weft_runtime_workers(rt));
    release_all(rt, blocker);
    REQUIRE_EVENTUALLY(ran == 10);
    REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0); /* there is room again */
    fixture_end(rt);
    CHECK_EQ(ran, 11);
}

API_TEST(pressure_default, "B57", .workers = {1}) {
    weft_runtime *rt = begin_with(0);
    struct blocker blocker[1] = {0};
    block_all(rt, blocker);
    for (int i = 0; i < 65536; i++)
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
    CHECK_EQ(weft_go(rt, fixture_count, &ran, NULL), -EAGAIN);
    release_all(rt, blocker);
    fixture_end(rt);
    CHECK_EQ(ran, 65536);
}

static weft_poll spawn_thousand(weft_task *self, void *state) {
    (void)state;
    for (int i = 0; i < 1000; i++)
        REQUIRE_EQ(weft_go(NULL, fixture_count, &ran, NULL), 0);
    return weft_done(self, 0, NULL);
}

/* What a worker spawns, wakes or lets overflow is never refused. */
API_TEST(pressure_inside_is_free, "B9 B57", .workers = {1, 2}) {
    weft_runtime *rt = begin_with(4);
    REQUIRE_EQ(weft_go(rt, spawn_thousand, NULL, NULL), 0);
    fixture_end(rt);
    CHECK_EQ(ran, 1000);
}

API_TEST(pressure_wakes_are_free, "B57", .workers = {1, 2}) {
    static struct gate gate = GATE_INIT;
    weft_runtime *rt = begin_with(4);
    struct blocker blocker[2] = {0};
    for (int i = 0; i < 500; i++) {
        int error;
        while ((error = weft_go(rt, fixture_wait_gate, &gate, NULL)) == -EAGAIN)
            harness_nap();
        REQUIRE_EQ(error, 0);
    }
    REQUIRE_EVENTUALLY(gate_waiting(&gate) == 500);
    block_all(rt, blocker);
    gate_open(&gate); /* 500 wakes from outside into a queue for 4 */
    CHECK_EQ(weft_go(rt, fixture_count, &ran, NULL), -EAGAIN);
    release_all(rt, blocker);
    fixture_end(rt);
}

/* -- Refusals beside other things ---------------------------------------------------------------------------- */

struct crowd {
    weft_runtime *rt;
    atomic_uint accepted, refused, leaving;
    unsigned spawners;
};

static void spawn_or_dump(unsigned index, void *arg) {
    struct crowd *crowd = arg;
    if (index == 0) {
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        while (atomic_load(&crowd->leaving) < crowd->spawners)
            CHECK_EQ(weft_dump(crowd->rt, fd), 0);
        close(fd);
        return;
    }
    for (int i = 0; i < (fixture_is_slow() ? 3000 : 30000); i++) {
        weft_task *task = NULL;
        int error = weft_go(crowd->rt, fixture_count, &ran, index == 1 ? &task : NULL);
        REQUIRE(error == 0 || error == -EAGAIN);
        weft_task_drop(task);
        atomic_fetch_add(error ? &crowd->refused : &crowd->accepted, 1);
    }
    atomic_fetch_add(&crowd->leaving, 1);
}

/* A task that was refused was never one: who walks over all tasks meanwhile must not trip over it. */
API_TEST(pressure_refusal_beside_dumps, "B57", .workers = {2}) {
    static struct crowd crowd = {.spawners = 3};
    weft_config config = WEFT_CONFIG_INIT;
    config.global_capacity = 4;
    crowd.rt = fixture_begin(&config);
    harness_threads(1 + crowd.spawners, spawn_or_dump, &crowd);
    REQUIRE_EVENTUALLY(ran == crowd.accepted);
    CHECK_GT(crowd.refused, 0);
    CHECK_EQ(fixture_stats(crowd.rt).spawned, crowd.accepted);
    fixture_end(crowd.rt);
}

static void spawn_or_stop(unsigned index, void *arg) {
    struct crowd *crowd = arg;
    if (index == 0) {
        REQUIRE_EVENTUALLY(ran > 100);
        int result = weft_runtime_stop(crowd->rt, WEFT_NOW);
        CHECK(result == 0 || result == -ECANCELED);
        return;
    }
    for (;;) {
        int error = weft_go(crowd->rt, fixture_count, &ran, NULL);
        if (error == -ESHUTDOWN)
            break;
        REQUIRE(error == 0 || error == -EAGAIN);
        atomic_fetch_add(error ? &crowd->refused : &crowd->accepted, 1);
    }
}

/* The same while a stop walks over all tasks to cancel them. */
API_TEST(pressure_refusal_beside_stop, "W38 B57", .workers = {1, 2}) {
    for (int round = 0; round < (fixture_is_slow() ? 5 : 20); round++) {
        struct crowd crowd = {.rt = begin_with(4)};
        ran = 0;
        harness_threads(4, spawn_or_stop, &crowd);
        weft_stats stats = fixture_stats(crowd.rt);
        CHECK_EQ(stats.spawned, crowd.accepted);
        CHECK_EQ(stats.completed, crowd.accepted);
        CHECK_EQ(stats.completed, ran + stats.cancelled);
        CHECK_EQ(weft_runtime_destroy(crowd.rt), 0);
    }
}
