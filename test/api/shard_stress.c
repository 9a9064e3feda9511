/* shard_stress.c - many threads, few shards, no second chance: a transaction that is stranded stays so, and the test hangs. */
#include "shard.h"

enum { SHARDS = 3, THREADS = 4 };

static weft_shard *shards[SHARDS];
static unsigned rounds;

/* Each add waits for the last to end, so that it meets the end of a turn: between the look at the pool and Idle. */
static void add_at_the_end(unsigned index, void *arg) {
    struct rig *rig = arg;
    uint64_t random = harness_seed() + index;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned before = atomic_load(&rig->done);
        rig_submit(rig, shards[harness_random(&random) % SHARDS]);
        for (unsigned spin = harness_random(&random) % 2000; spin && atomic_load(&rig->done) == before; spin--)
            wefti_relax();
        if (harness_random(&random) % 64 == 0)
            harness_nap();
    }
}

static void no_stranding(unsigned workers, int64_t quantum, size_t max_batch) {
    struct rig *rig = rig_new(workers, quantum);
    rig->config.max_batch = max_batch;
    rig_begin(rig);
    char name[8];
    for (int i = 0; i < SHARDS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        shards[i] = rig_shard(rig, name);
    }
    rounds = fixture_is_slow() ? 1000 : 5000;
    harness_threads(THREADS, add_at_the_end, rig);
    rig_drain(rig); /* nobody schedules again */
    uint64_t committed = 0;
    for (int i = 0; i < SHARDS; i++) {
        REQUIRE_EVENTUALLY(rig_info(shards[i]).state == WEFT_SHARD_IDLE);
        weft_shard_info info = rig_info(shards[i]);
        struct rig_state *state = weft_shard_store_state(shards[i]);
        CHECK_EQ(info.pooled, 0);
        CHECK_EQ(info.block, info.cycles);
        CHECK_EQ(info.block, state->blocks);
        CHECK_EQ(info.committed, state->committed);
        committed += info.committed;
    }
    CHECK_EQ(committed, THREADS * rounds);
    CHECK_EQ(weft_lane_queued(rig->lane), 0);
    rig_end(rig);
}

TEST(shard_no_stranding_one_batch, "K23 K35 K37", .timeout = 60) { no_stranding(2, 0, 0); }
TEST(shard_no_stranding_long_turns, "K23 K35 K37", .timeout = 60) { no_stranding(2, WEFT_LANE_QUANTUM, 0); }
TEST(shard_no_stranding_one_worker, "K23 K35", .timeout = 60) { no_stranding(1, 1000, 0); }
TEST(shard_no_stranding_small_batches, "K17 K23 K35", .timeout = 60) { no_stranding(4, 0, 1); }

/* Thousands of shards, each turn on whichever worker is free: order within each, nothing lost. */
TEST(shard_many, "K13 K16 K23 K34 K35", .timeout = 60) {
    enum { MANY = 2000, EACH = 5 };
    struct rig *rig = rig_begin(rig_new(3, 0));
    char name[16];
    for (int round = 0; round < EACH; round++)
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof name, "m%d", i);
            rig_submit(rig, rig_shard(rig, name));
        }
    rig_drain(rig);
    CHECK_EQ(atomic_load(&rig->opens), MANY);
    CHECK_EQ(atomic_load(&rig->done_well), MANY * EACH);
    rig_end(rig);
}
