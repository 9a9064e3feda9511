/* shard_queue.c - the lane's queue: order, one entry, one wake; and whose threads they are. */
#include "shard.h"

/* proves K2 K8: A, B, C are scheduled while the only worker is busy, and run in that order. */
TEST(shard_fifo, "K1 K2 K8") {
    struct rig *rig = rig_new(1, 0);
    rig->during = rig_hold;
    rig_begin(rig);
    rig_hold_one(rig);
    char name[8];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "s%d", i * 37 % 100);
        rig_submit(rig, rig_shard(rig, name));
        CHECK_EQ(weft_lane_queued(rig->lane), i + 1);
    }
    atomic_store(&rig->release, true);
    rig_drain(rig);
    REQUIRE_EQ(rig->logged, 101);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "s%d", i * 37 % 100);
        CHECK_STR(rig->log[i + 1].name, name);
    }
    rig_end(rig);
}

TEST(shard_one_wake, "K3 K4 K5 K11") {
    struct rig *rig = rig_new(3, 0);
    rig->during = rig_hold;
    rig_begin(rig);
    weft_shard *hold = rig_shard(rig, "hold"), *other = rig_shard(rig, "other");
    REQUIRE_EVENTUALLY(rig_asleep(rig) == 3);
    CHECK_EQ(weft_lane_wakes(rig->lane), 0);
    rig_submit(rig, hold);
    CHECK_EQ(weft_lane_wakes(rig->lane), 1);
    REQUIRE_EVENTUALLY(atomic_load(&rig->held) == 1);
    CHECK_EQ(rig_asleep(rig), 2); /* neither none nor all */
    /* Running: nothing happens. */
    for (int i = 0; i < 10; i++)
        CHECK(!weft_shard_schedule(hold));
    rig_submit(rig, hold);
    CHECK_EQ(weft_lane_wakes(rig->lane), 1);
    CHECK_EQ(weft_lane_queued(rig->lane), 0);
    CHECK_EQ(rig_info(hold).state, WEFT_SHARD_RUNNING);
    /* Another one: one more, and again one is enough. */
    rig_submit(rig, other);
    CHECK_EQ(weft_lane_wakes(rig->lane), 2);
    REQUIRE_EVENTUALLY(atomic_load(&rig->done) == 1);
    REQUIRE_EVENTUALLY(rig_asleep(rig) == 2);
    CHECK_EQ(weft_lane_wakes(rig->lane), 2);
    atomic_store(&rig->release, true);
    rig_drain(rig);
    rig_end(rig);
}

TEST(shard_pending_is_left_alone, "K4 K7") {
    struct rig *rig = rig_new(1, 0);
    rig->during = rig_hold;
    rig_begin(rig);
    rig_hold_one(rig);
    weft_shard *shard = rig_shard(rig, "a");
    CHECK_EQ(rig_info(shard).state, WEFT_SHARD_IDLE);
    CHECK(weft_shard_schedule(shard)); /* also with nothing to do */
    CHECK_EQ(rig_info(shard).state, WEFT_SHARD_PENDING);
    uint64_t wakes = weft_lane_wakes(rig->lane);
    for (int i = 0; i < 10; i++) {
        CHECK(!weft_shard_schedule(shard));
        rig_submit(rig, shard);
    }
    CHECK_EQ(weft_lane_queued(rig->lane), 1);
    CHECK_EQ(weft_lane_wakes(rig->lane), wakes);
    atomic_store(&rig->release, true);
    rig_drain(rig);
    REQUIRE_EVENTUALLY(rig_info(shard).state == WEFT_SHARD_IDLE);
    CHECK_EQ(rig_info(shard).turns, 1);
    CHECK_EQ(rig_info(shard).cycles, 1);
    CHECK_EQ(rig->log[1].count, 10);
    rig_end(rig);
}

struct racing {
    struct rig *rig;
    weft_shard *shard[64];
    atomic_uint won[64];
};

static void schedule_all(unsigned index, void *arg) {
    struct racing *racing = arg;
    for (unsigned i = 0; i < 64; i++)
        if (weft_shard_schedule(racing->shard[(i + index) % 64]))
            atomic_fetch_add(&racing->won[(i + index) % 64], 1);
}

TEST(shard_racing_schedules, "K6 K7 K36 K37") {
    struct rig *rig = rig_new(1, 0);
    rig->during = rig_hold;
    rig_begin(rig);
    rig_hold_one(rig);
    struct racing racing = {.rig = rig};
    char name[8];
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof name, "s%d", i);
        racing.shard[i] = rig_shard(rig, name);
    }
    harness_threads(8, schedule_all, &racing);
    CHECK_EQ(weft_lane_queued(rig->lane), 64);
    for (int i = 0; i < 64; i++)
        CHECK_EQ(atomic_load(&racing.won[i]), 1);
    atomic_store(&rig->release, true);
    REQUIRE_EVENTUALLY(weft_lane_queued(rig->lane) == 0 && rig_asleep(rig) == 1);
    CHECK_EQ(rig->logged, 1); /* K20: nothing to do, nothing executed */
    for (int i = 0; i < 64; i++) {
        CHECK_EQ(rig_info(racing.shard[i]).turns, 1);
        CHECK_EQ(rig_info(racing.shard[i]).block, 0);
    }
    rig_end(rig);
}

/* -- The threads */

TEST(shard_worker_count, "K10") {
    struct rig *rig = rig_begin(rig_new(0, 0));
    CHECK_EQ(weft_lane_workers(rig->lane), wefti_cpu_count());
    rig_end(rig);
    rig = rig_new(5, 0);
    rig->config.name = "shards-of-mine";
    rig_begin(rig);
    CHECK_EQ(weft_lane_workers(rig->lane), 5);
    REQUIRE_EVENTUALLY(fixture_threads("shards-of-m") == 5);
    rig_end(rig);
    REQUIRE_EVENTUALLY(fixture_threads("shards-of-m") == 0);
}

/* An idle worker sleeps in the system: it uses no time at all, however long it waits. */
TEST(shard_idle_workers_sleep, "K11 K13") {
    struct rig *rig = rig_begin(rig_new(4, 0));
    weft_shard *shard = rig_shard(rig, "a");
    for (int i = 0; i < 100; i++) { /* and survive any number of shards */
        rig_submit(rig, shard);
        rig_drain(rig);
    }
    REQUIRE_EVENTUALLY(rig_asleep(rig) == 4);
    uint64_t turns = rig_info(shard).turns;
    for (int i = 0; i < 4; i++) /* asleep, and nobody has a token that would wake it */
        REQUIRE_EVENTUALLY(load_relaxed(&rig->lane->worker[i].park.word) == WEFTI_PARKED);
    CHECK_EQ(rig_info(shard).turns, turns);
    rig_end(rig);
}

static pthread_t worker_thread;

static int on_the_worker(void *arg) {
    struct rig *rig = arg;
    worker_thread = pthread_self();
    rig_hold_one(rig); /* blocks a lane thread, and the only worker goes on: */
    for (int i = 0; i < 50; i++)
        weft_yield();
    CHECK_EQ(atomic_load(&rig->done), 0);
    atomic_store(&rig->release, true);
    while (atomic_load(&rig->done) != 1)
        weft_yield();
    return 0;
}

API_TEST(shard_never_on_a_runtime_worker, "K9", .workers = {1, 2}) {
    struct rig *rig = rig_new(2, 0);
    rig->during = rig_hold;
    rig_begin(rig);
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, on_the_worker, rig, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    REQUIRE_EQ(rig->logged, 1);
    CHECK(!pthread_equal(rig->log[0].thread, worker_thread));
    CHECK(!pthread_equal(rig->log[0].thread, pthread_self()));
    fixture_end(rt);
    rig_end(rig);
}
