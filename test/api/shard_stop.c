/* shard_stop.c - shutdown: prompt, after the cycle under way, with every thread joined and every transaction answered. */
#include "shard.h"

TEST(shard_shutdown_wakes_sleepers, "K38 K39 K41") {
    for (int round = 0; round < 20; round++) {
        struct rig *rig = rig_begin(rig_new(16, 0));
        if (round % 2)
            REQUIRE_EVENTUALLY(rig_asleep(rig) == 16);
        weft_lane_shutdown(rig->lane); /* their sleep has no limit: a wake that is missing hangs here */
        REQUIRE_EVENTUALLY(fixture_threads("lane-") == 0);
        weft_lane_shutdown(rig->lane); /* again */
        rig_end(rig);
    }
    weft_lane_destroy(NULL);
}

struct stopping {
    struct rig *rig;
    atomic_uint returned;
};

static void *shut_down(void *arg) {
    struct stopping *stopping = arg;
    weft_lane_shutdown(stopping->rig->lane);
    CHECK_EQ(atomic_load(&stopping->rig->commits), 1); /* not before the cycle was over */
    atomic_fetch_add(&stopping->returned, 1);
    return NULL;
}

/* A worker is in mid-cycle: it finishes that one and no other; what is queued is not run; two that shut down both wait. */
TEST(shard_shutdown_in_mid_cycle, "K38 K39 K40 K41") {
    struct rig *rig = rig_new(1, INT64_MAX);
    rig->during = rig_hold;
    rig_begin(rig);
    weft_shard *hold = rig_hold_one(rig), *queued = rig_shard(rig, "queued");
    rig_submit(rig, hold); /* for the next cycle of this turn */
    rig_submit(rig, queued);
    struct stopping stopping = {.rig = rig};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(pthread_create(&thread[i], NULL, shut_down, &stopping), 0);
    REQUIRE_EVENTUALLY(wefti_lane_is_shut(rig->lane));
    for (int i = 0; i < 20; i++)
        harness_nap();
    CHECK_EQ(atomic_load(&stopping.returned), 0);
    /* Already nothing new. */
    uint64_t id = 99;
    weft_shard *shard = NULL;
    CHECK_EQ(weft_shard_submit(queued, "x", 1, &id), -ESHUTDOWN);
    CHECK_EQ(id, 99);
    CHECK_EQ(weft_shard_get(rig->lane, "new", &shard), -ESHUTDOWN);
    CHECK_EQ(shard, NULL);
    CHECK_EQ(weft_shard_get(rig->lane, "queued", &shard), 0); /* it is there */
    CHECK_EQ(shard, queued);
    atomic_store(&rig->release, true);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ(atomic_load(&rig->executions), 1);
    CHECK_EQ(atomic_load(&rig->done_well), 1);
    CHECK_EQ(rig_info(hold).pooled, 1);
    CHECK_EQ(rig_info(hold).state, WEFT_SHARD_IDLE);
    CHECK_EQ(rig_info(queued).state, WEFT_SHARD_PENDING);
    CHECK_EQ(weft_lane_queued(rig->lane), 1);
    CHECK(!weft_shard_schedule(hold)); /* K40 */
    CHECK_EQ(rig_info(hold).state, WEFT_SHARD_IDLE);
    CHECK_EQ(weft_lane_queued(rig->lane), 1);
    rig_end(rig); /* the two are told -ESHUTDOWN: done == accepted */
}

/* An endless backlog does not keep it: the turn ends although its quantum does not. */
static int again(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)state;
    if (weft_shard_submit(batch->shard, "x", 1, NULL) == 0)
        atomic_fetch_add(&rig->accepted, 1);
    return 0;
}

TEST(shard_shutdown_with_endless_work, "K40 K41") {
    struct rig *rig = rig_new(2, INT64_MAX);
    rig->during = again;
    rig_begin(rig);
    for (int i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof name, "s%d", i);
        rig_submit(rig, rig_shard(rig, name));
    }
    REQUIRE_EVENTUALLY(atomic_load(&rig->done) > 1000);
    weft_lane_shutdown(rig->lane);
    rig_end(rig);
}

/* Submitting against shutdown: what was accepted is done or told. */
static void submit_until_shut(unsigned index, void *arg) {
    struct rig *rig = arg;
    if (index == 0) {
        REQUIRE_EVENTUALLY(atomic_load(&rig->done) > 50);
        weft_lane_shutdown(rig->lane);
        return;
    }
    char name[8];
    int error;
    for (unsigned i = 0;; i++) {
        snprintf(name, sizeof name, "s%u", i % 5);
        weft_shard *shard = weft_shard_find(rig->lane, name);
        if (!shard && (error = weft_shard_get(rig->lane, name, &shard)))
            break;
        if ((error = weft_shard_submit(shard, "x", 1, NULL)))
            break;
        atomic_fetch_add(&rig->accepted, 1);
    }
    CHECK_EQ(error, -ESHUTDOWN);
}

TEST(shard_submit_against_shutdown, "K38 K40 K41") {
    for (int round = 0; round < 10; round++) {
        struct rig *rig = rig_begin(rig_new(2, round % 2));
        harness_threads(4, submit_until_shut, rig);
        rig_end(rig);
    }
}
