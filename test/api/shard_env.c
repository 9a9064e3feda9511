/* shard_env.c - the block environment: read at each cycle, whole, and the same until the cycle ends. */
#include "shard.h"

static void set_all(weft_lane *lane, uint64_t value) {
    weft_block_env env = {
        .number = value, .timestamp = value, .gas_price = value, .blob_gas_price = value, .version = 7777};
    memset(env.sequencer, (int)(value & 0xff), sizeof env.sequencer);
    weft_lane_set_env(lane, &env);
}

/* All of one update; returns which. */
static uint64_t whole(const weft_block_env *env) {
    CHECK_EQ(env->timestamp, env->number);
    CHECK_EQ(env->gas_price, env->number);
    CHECK_EQ(env->blob_gas_price, env->number);
    for (size_t i = 0; i < sizeof env->sequencer; i++)
        CHECK_EQ(env->sequencer[i], env->number & 0xff);
    return env->number;
}

/* An update in the middle of each cycle: this one does not change, the next of the same turn sees it. */
static int update_during(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)state;
    uint64_t before = whole(batch->env);
    CHECK_EQ(before, batch->block - 1);
    CHECK_EQ(batch->env->version, batch->block);
    set_all(rig->lane, batch->block);
    CHECK_EQ(whole(batch->env), before);
    if (batch->block < 10)
        rig_submit(rig, batch->shard);
    return 0;
}

static int same_at_commit(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)rig, (void)state;
    CHECK_EQ(whole(batch->env), batch->block - 1);
    return 0;
}

TEST(shard_env_each_cycle, "K15 K24 K25 K26 K27") {
    struct rig *rig = rig_new(1, INT64_MAX);
    rig->during = update_during;
    rig->committing = same_at_commit;
    rig_begin(rig);
    weft_block_env env;
    weft_lane_env(rig->lane, &env);
    CHECK_EQ(env.version, 0);
    CHECK_EQ(whole(&env), 0);
    set_all(rig->lane, 0);
    weft_lane_env(rig->lane, &env);
    CHECK_EQ(env.version, 1); /* the lane's, not the caller's */
    weft_shard *shard = rig_shard(rig, "a");
    rig_submit(rig, shard);
    REQUIRE_EVENTUALLY(atomic_load(&rig->done) == 10);
    REQUIRE_EVENTUALLY(rig_info(shard).state == WEFT_SHARD_IDLE);
    CHECK_EQ(rig_info(shard).turns, 1);
    rig_end(rig);
}

/* One who writes all the time, shards that read all the time. */
static atomic_bool enough;

static void *writer(void *arg) {
    for (uint64_t i = 1; !atomic_load(&enough); i++)
        set_all(arg, i);
    return NULL;
}

static int only_whole(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)rig, (void)state;
    whole(batch->env);
    return 0;
}

TEST(shard_env_not_torn, "K24 K26") {
    struct rig *rig = rig_new(2, 0);
    rig->during = only_whole;
    rig_begin(rig);
    pthread_t thread;
    REQUIRE_EQ(pthread_create(&thread, NULL, writer, rig->lane), 0);
    weft_shard *shard[2] = {rig_shard(rig, "a"), rig_shard(rig, "b")};
    uint64_t last = 0;
    for (int i = 0; i < 3000; i++) {
        rig_submit(rig, shard[i % 2]);
        weft_block_env env;
        weft_lane_env(rig->lane, &env);
        CHECK_GE(whole(&env), last);
        last = env.number;
        if (i % 8 == 0)
            harness_nap();
    }
    rig_drain(rig);
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    uint64_t seen[2] = {0, 0};
    for (unsigned i = 0; i < rig->logged; i++) { /* a shard never sees an older one */
        unsigned which = rig->log[i].name[0] - 'a';
        CHECK_GE(rig->log[i].env.version, seen[which]);
        seen[which] = rig->log[i].env.version;
    }
    rig_end(rig);
}
