/* stats.c - the counters agree with what happened. */
#include "fixture.h"

static weft_poll yield_nine_times(weft_task *self, void *state) {
    unsigned *polls = state;
    return ++*polls < 10 ? WEFT_YIELD : weft_done(self, 0, NULL);
}

static weft_stats of_worker(weft_runtime *rt, int worker) {
    weft_stats stats = {.size = sizeof stats};
    REQUIRE_EQ(weft_stats_read(rt, worker, &stats), 0);
    return stats;
}

API_TEST(stats_sums, "B34 B45", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 300; i++) {
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = yield_nine_times;
        spec.state_size = sizeof(unsigned);
        REQUIRE_EQ(weft_spawn(rt, &spec, NULL), 0);
    }
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    REQUIRE_EVENTUALLY(weft_stats_parked(rt) == weft_runtime_workers(rt)); /* the last poll has been accounted for */
    weft_stats sum = of_worker(rt, -1), one, added = {0};
    CHECK_EQ(sum.spawned, 300);
    CHECK_EQ(sum.completed, 300);
    CHECK_EQ(sum.cancelled, 0);
    CHECK_EQ(sum.polls, 3000);
    REQUIRE_EVENTUALLY(of_worker(rt, -1).parks >= 1); /* counted just after the worker was announced */
    if (!fixture_on("reactor"))
        CHECK_GE(sum.searches, 1);
    if (!fixture_on("fifo") && !fixture_on("sim") && !fixture_on("reactor"))
        CHECK_GE(sum.global_fetches, 1);
    for (int i = 0; i < (int)weft_runtime_workers(rt); i++) {
        one = of_worker(rt, i);
        added.polls += one.polls;
        added.completed += one.completed;
        added.steals += one.steals;
        added.ticks += one.ticks;
        CHECK_EQ(one.ticks, one.polls / 128); /* one maintenance pass every 128 polls */
        CHECK_GE(one.stolen, one.steals);
        CHECK_EQ(one.spawned, 0); /* all came from outside */
    }
    CHECK_EQ(added.polls, sum.polls);
    CHECK_EQ(added.completed, sum.completed);
    CHECK_EQ(added.steals, sum.steals);
    CHECK_EQ(added.ticks, sum.ticks);
    fixture_end(rt);
}

/* Fibers that follow each other without the loop are polls as others: those that yield, stay or move; and new ones. */
static int yield_often(void *arg) {
    (void)arg;
    for (int i = 0; i < 2000; i++)
        weft_yield();
    return 0;
}

static int count_one(void *arg) {
    atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

static int spawn_short(void *arg) {
    static atomic_uint ran;
    (void)arg;
    for (int i = 0; i < 200; i++) {
        for (int j = 0; j < 20; j++)
            REQUIRE_EQ(weft_fiber_go(NULL, count_one, &ran, NULL), 0);
        weft_yield();
    }
    return 0;
}

static void count_ticks(weft_fiber_fn fn, bool migrate, uint64_t polls) {
    weft_runtime *rt = fixture_begin_patient();
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = fn;
    spec.migrate = migrate;
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, NULL), 0);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    REQUIRE_EVENTUALLY(weft_stats_parked(rt) == weft_runtime_workers(rt));
    CHECK_GE(of_worker(rt, -1).polls, polls);
    for (int i = 0; i < (int)weft_runtime_workers(rt); i++) {
        weft_stats one = of_worker(rt, i);
        CHECK_GE(one.ticks + 1, one.polls / 128);
        CHECK_LE(one.ticks, one.polls / 128 + 1);
    }
    fixture_end(rt);
}

API_TEST(stats_ticks_of_fibers, "B34 B45", .workers = {1, 2}) {
    count_ticks(yield_often, false, 4 * 2000);
    count_ticks(yield_often, true, 4 * 2000);
    count_ticks(spawn_short, false, 4 * 4000);
}

static weft_poll spawn_inside(weft_task *self, void *state) {
    static atomic_uint ran;
    for (int i = 0; i < *(int *)state; i++)
        REQUIRE_EQ(weft_go(NULL, fixture_count, &ran, NULL), 0);
    return weft_done(self, 0, NULL);
}

API_TEST(stats_of_ring, "B9 B17", .sched = "ring", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    int count = 1000;
    fixture_finish(fixture_go(rt, spawn_inside, &count));
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    weft_stats stats = fixture_stats(rt);
    CHECK_EQ(stats.spawned, 1001);
    CHECK_GE(stats.lifo_hits, 1);
    CHECK_GE(stats.overflows, 1 + (999 - 257) / 128); /* the 257th push to the ring, then every 128 */
    CHECK_EQ(stats.steals, 0);
    fixture_end(rt);
}

API_TEST(stats_errors, "") {
    weft_runtime *rt = fixture_begin(NULL);
    weft_stats stats = {.size = sizeof stats};
    CHECK_EQ(weft_stats_read(rt, -2, &stats), -EINVAL);
    CHECK_EQ(weft_stats_read(rt, (int)weft_runtime_workers(rt), &stats), -EINVAL);
    CHECK_EQ(weft_stats_read(rt, 0, NULL), -EINVAL);
    stats.size = 0;
    CHECK_EQ(weft_stats_read(rt, 0, &stats), -EINVAL);
    fixture_end(rt);
}

/* A program built with an older header has a shorter struct; one from a newer header a longer one. */
API_TEST(stats_other_versions, "") {
    weft_runtime *rt = fixture_begin(NULL);
    struct {
        weft_stats known;
        uint64_t more;
    } newer = {.known = {.size = sizeof newer}, .more = 77};
    CHECK_EQ(weft_stats_read(rt, -1, &newer.known), 0);
    CHECK_EQ(newer.more, 77);
    weft_stats older = {.size = offsetof(weft_stats, completed), .completed = 99};
    CHECK_EQ(weft_stats_read(rt, -1, &older), 0);
    CHECK_EQ(older.completed, 99);
    CHECK_EQ(older.size, offsetof(weft_stats, completed));
    fixture_end(rt);
}

/* Reading never stops a worker, and never counts backwards. */
static atomic_bool over;

static void read_on(unsigned index, void *arg) {
    static atomic_uint ran;
    if (index) {
        weft_stats before = fixture_stats(arg);
        while (!over) {
            weft_stats now = fixture_stats(arg);
            REQUIRE_GE(now.polls, before.polls);
            REQUIRE_GE(now.spawned, before.spawned);
            REQUIRE_GE(now.completed, before.completed);
            REQUIRE_LE(weft_stats_parked(arg), weft_runtime_workers(arg));
            REQUIRE_LE(weft_stats_live(arg), 20000);
            before = now;
        }
        return;
    }
    for (int i = 0; i < (fixture_is_slow() ? 1000 : 20000); i++)
        REQUIRE_EQ(weft_go(arg, fixture_count, &ran, NULL), 0);
    REQUIRE_EVENTUALLY(weft_stats_live(arg) == 0);
    over = true;
}

API_TEST(stats_while_running, "", .workers = {2}) {
    weft_runtime *rt = fixture_begin(NULL);
    harness_threads(3, read_on, rt);
    fixture_end(rt);
}
