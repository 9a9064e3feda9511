/* shard_turn.c - a shard's turn: snapshots, blocks, the quantum, and where it goes afterwards. */
#include "shard.h"

#define HOUR INT64_C(3600000000000)

/* While a batch of "a" runs, add what rig->arg (a count) says to it. */
static int add_during(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    atomic_uint *left = rig->arg;
    if (strcmp(state->name, "a") == 0 && atomic_load(left)) {
        atomic_fetch_sub(left, 1);
        uint64_t before = rig_info(batch->shard).pooled;
        rig_submit(rig, batch->shard);
        CHECK_EQ(rig_info(batch->shard).pooled, before + 1);
    }
    return 0;
}

TEST(shard_snapshot, "K12 K14 K15 K16 K17 K22") {
    struct rig *rig = rig_new(1, HOUR);
    atomic_uint left = 3;
    rig->during = add_during;
    rig->arg = &left;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    weft_tx txs[5] = {{0, "1", 1}, {0, "22", 2}, {0, NULL, 0}, {0, "4", 1}, {0, "5", 1}};
    uint64_t first = 0;
    atomic_fetch_add(&rig->accepted, 5);
    REQUIRE_EQ(weft_shard_submit_many(shard, txs, 5, &first), 0);
    CHECK_EQ(first, 1);
    rig_drain(rig);
    REQUIRE_EVENTUALLY(rig_info(shard).state == WEFT_SHARD_IDLE);
    /* What was added during a batch is the next one: 5, 1, 1, 1, in one turn. */
    REQUIRE_EQ(rig->logged, 4);
    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQ(rig->log[i].block, i + 1);
        CHECK_EQ(rig->log[i].count, i ? 1 : 5);
        CHECK_EQ(rig->log[i].first, i ? 5 + i : 1);
    }
    weft_shard_info info = rig_info(shard);
    CHECK_EQ(info.turns, 1);
    CHECK_EQ(info.cycles, 4);
    CHECK_EQ(info.block, 4);
    CHECK_EQ(info.committed, 8);
    CHECK_EQ(info.pooled, 0);
    CHECK_EQ(atomic_load(&rig->commits), 4);
    /* Dormant until the next. */
    CHECK_EQ(weft_lane_queued(rig->lane), 0);
    rig_submit(rig, shard);
    rig_drain(rig);
    CHECK_EQ(rig_info(shard).block, 5);
    REQUIRE_EVENTUALLY(rig_info(shard).state == WEFT_SHARD_IDLE);
    CHECK_EQ(rig_info(shard).turns, 2);
    rig_end(rig);
}

/* A turn with an empty pool: nothing is executed, and there is no block. */
TEST(shard_no_empty_block, "K20 K22") {
    struct rig *rig = rig_begin(rig_new(1, HOUR));
    weft_shard *shard = rig_shard(rig, "a");
    for (int i = 0; i < 3; i++) {
        uint64_t turns = rig_info(shard).turns;
        REQUIRE(weft_shard_schedule(shard));
        REQUIRE_EVENTUALLY(rig_info(shard).turns == turns + 1 && rig_info(shard).state == WEFT_SHARD_IDLE);
    }
    CHECK_EQ(rig->logged, 0);
    CHECK_EQ(atomic_load(&rig->commits), 0);
    CHECK_EQ(rig_info(shard).block, 0);
    CHECK_EQ(rig_info(shard).cycles, 0);
    rig_submit(rig, shard); /* it still works */
    rig_drain(rig);
    CHECK_EQ(rig_info(shard).block, 1);
    rig_end(rig);
}

/* An executor that takes only the first of a batch: the others are the next one, with what came meanwhile behind them. */
TEST(shard_part_of_a_batch, "K14 K17") {
    struct rig *rig = rig_new(1, HOUR);
    atomic_uint left = 1;
    rig->during = add_during;
    rig->arg = &left;
    rig->most = 2;
    rig->in_order = true;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    weft_tx txs[5] = {{0, "1", 1}, {0, "22", 2}, {0, NULL, 0}, {0, "4", 1}, {0, "5", 1}};
    atomic_fetch_add(&rig->accepted, 5);
    REQUIRE_EQ(weft_shard_submit_many(shard, txs, 5, NULL), 0);
    rig_drain(rig);
    REQUIRE_EVENTUALLY(rig_info(shard).state == WEFT_SHARD_IDLE);
    REQUIRE_EQ(rig->logged, 3);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(rig->log[i].count, 2);
        CHECK_EQ(rig->log[i].first, 2 * i + 1);
    }
    CHECK_EQ(rig_info(shard).committed, 6);
    CHECK_EQ(rig_info(shard).pooled, 0);
    rig_end(rig);
}

static int see_bytes(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    (void)rig, (void)state;
    for (size_t i = 0; i < batch->count; i++) {
        CHECK_EQ(batch->txs[i].size, batch->txs[i].id * 100 % 5000);
        for (size_t at = 0; at < batch->txs[i].size; at++)
            REQUIRE_EQ(((const unsigned char *)batch->txs[i].data)[at], (unsigned char)(batch->txs[i].id + at));
    }
    return 0;
}

TEST(shard_data_is_copied, "K14") {
    struct rig *rig = rig_new(2, HOUR);
    rig->during = see_bytes;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    static unsigned char bytes[5000];
    for (unsigned id = 1; id <= 300; id++) {
        for (unsigned at = 0; at < sizeof bytes; at++)
            bytes[at] = (unsigned char)(id + at);
        uint64_t got = 0;
        atomic_fetch_add(&rig->accepted, 1);
        REQUIRE_EQ(weft_shard_submit(shard, bytes, id * 100 % 5000, &got), 0);
        CHECK_EQ(got, id);
        memset(bytes, 0, sizeof bytes);
    }
    rig_drain(rig);
    rig_end(rig);
}

/* -- The quantum */

/* Every batch adds the next: as many turns as there were batches, or one. */
static void turns_with(int64_t quantum, bool one_a_turn) {
    struct rig *rig = rig_new(1, quantum);
    atomic_uint left = 20;
    rig->during = add_during;
    rig->arg = &left;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    rig_submit(rig, shard);
    REQUIRE_EVENTUALLY(atomic_load(&rig->done) == 21);
    REQUIRE_EVENTUALLY(rig_info(shard).state == WEFT_SHARD_IDLE);
    CHECK_EQ(rig_info(shard).cycles, 21);
    CHECK_EQ(rig_info(shard).block, 21);
    CHECK_EQ(rig_info(shard).turns, one_a_turn ? 21 : 1);
    rig_end(rig);
}

TEST(shard_quantum, "K18 K19 K31 K32") {
    weft_lane_config config = WEFT_LANE_CONFIG_INIT;
    CHECK_EQ(config.quantum, 100 * 1000000);
    turns_with(HOUR, false);
    turns_with(1, true);
    turns_with(0, true);
    turns_with(-1, true);
}

/* A batch takes longer than the quantum: it is finished and committed, then the turn is over. */
static int take_long(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    int64_t until = wefti_clock() + 3000000;
    while (wefti_clock() < until)
        ;
    return add_during(rig, state, batch);
}

TEST(shard_long_batch_completes, "K18 K19 K21") {
    struct rig *rig = rig_new(1, 2000000);
    atomic_uint left = 1;
    rig->during = take_long;
    rig->arg = &left;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    weft_tx txs[50] = {{0, NULL, 0}};
    atomic_fetch_add(&rig->accepted, 50);
    REQUIRE_EQ(weft_shard_submit_many(shard, txs, 50, NULL), 0);
    rig_drain(rig);
    REQUIRE_EVENTUALLY(rig_info(shard).state == WEFT_SHARD_IDLE);
    CHECK_EQ(rig->log[0].count, 50);
    CHECK_EQ(rig_info(shard).turns, 2);
    CHECK_EQ(rig_info(shard).block, 2);
    rig_end(rig);
}

/* With max_batch a batch is the first so many. */
TEST(shard_max_batch, "K14 K17") {
    struct rig *rig = rig_new(2, HOUR);
    rig->config.max_batch = 7;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    weft_tx txs[100] = {{0, NULL, 0}};
    atomic_fetch_add(&rig->accepted, 100);
    REQUIRE_EQ(weft_shard_submit_many(shard, txs, 100, NULL), 0);
    rig_drain(rig);
    CHECK_EQ(rig_info(shard).block, 15);
    CHECK_EQ(rig_info(shard).cycles, 15);
    CHECK_EQ(rig->log[14].count, 2);
    rig_end(rig);
}

/* Large ones need memory, which goes back. */
TEST(shard_large_batch, "K14 K17") {
    struct rig *rig = rig_new(1, HOUR);
    rig->during = rig_hold;
    rig_begin(rig);
    rig_hold_one(rig);
    weft_shard *shard = rig_shard(rig, "a");
    unsigned count = harness_is_slow() ? 70000 : 200000;
    for (unsigned i = 0; i < count; i++)
        rig_submit(rig, shard);
    atomic_store(&rig->release, true);
    rig_drain(rig);
    REQUIRE_EVENTUALLY(rig_asleep(rig) == 1);
    CHECK_EQ(rig_info(shard).block, 1);
    CHECK_EQ(rig->log[1].count, count);
    CHECK_EQ(rig->lane->worker[0].room, WEFTI_SHARD_BATCH);
    rig_end(rig);
}

/* -- To the back of the queue */

static int fill_queue(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    if (strcmp(state->name, "a") == 0 && batch->block == 1) {
        rig_submit(rig, batch->shard); /* first of all, and yet: */
        rig_submit(rig, rig_shard(rig, "b"));
        rig_submit(rig, rig_shard(rig, "c"));
        CHECK_EQ(weft_lane_queued(rig->lane), 2);
    }
    return 0;
}

TEST(shard_goes_to_the_back, "K8 K19 K21") {
    struct rig *rig = rig_new(1, 0);
    rig->during = fill_queue;
    rig_begin(rig);
    rig_submit(rig, rig_shard(rig, "a"));
    REQUIRE_EVENTUALLY(atomic_load(&rig->done) == 4);
    CHECK_STR(rig->log[0].name, "a");
    CHECK_STR(rig->log[1].name, "b");
    CHECK_STR(rig->log[2].name, "c");
    CHECK_STR(rig->log[3].name, "a");
    rig_end(rig);
}

/* -- No starvation */

struct hog {
    weft_shard *hog, *other;
    uint64_t turns; /* of the hog when the other was submitted; plain: one worker */
    atomic_bool enough;
};

static int be_hog(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    struct hog *hog = rig->arg;
    if (strcmp(state->name, "hog") == 0) {
        if (!atomic_load(&hog->enough))
            rig_submit(rig, batch->shard); /* never empty */
        if (batch->block == 100) {
            hog->turns = rig_info(hog->hog).turns;
            rig_submit(rig, hog->other);
        }
    } else {
        CHECK_EQ(rig_info(hog->hog).turns, hog->turns); /* before its next turn */
        CHECK_EQ(rig_info(hog->hog).state, WEFT_SHARD_PENDING); /* K34: and it will have one */
        atomic_store(&hog->enough, true);
    }
    return 0;
}

static void starve(int64_t quantum) {
    struct rig *rig = rig_new(1, quantum);
    struct hog hog = {0};
    rig->during = be_hog;
    rig->arg = &hog;
    rig_begin(rig);
    hog.hog = rig_shard(rig, "hog");
    hog.other = rig_shard(rig, "other");
    rig_submit(rig, hog.hog);
    REQUIRE_EVENTUALLY(atomic_load(&hog.enough));
    rig_drain(rig);
    rig_end(rig);
}

TEST(shard_no_starvation, "K33 K34") {
    starve(0);
    starve(1000000);
    starve(WEFT_LANE_QUANTUM);
}

/* A preempted shard may go on with another worker: the first is kept busy by another shard. */
TEST(shard_moves_between_workers, "K34 K35") {
    struct rig *rig = rig_new(2, 0);
    rig->during = rig_hold;
    rig_begin(rig);
    weft_shard *a = rig_shard(rig, "a");
    rig_submit(rig, a);
    rig_drain(rig);
    pthread_t first = rig->log[0].thread;
    /* Keep whichever worker takes "hold": the other one runs "a", and it does not matter which that is. */
    rig_hold_one(rig);
    rig_submit(rig, a);
    REQUIRE_EVENTUALLY(atomic_load(&rig->done) == 2);
    CHECK(!pthread_equal(rig->log[1].thread, rig->log[2].thread));
    CHECK(pthread_equal(first, rig->log[1].thread) || pthread_equal(first, rig->log[2].thread));
    atomic_store(&rig->release, true);
    rig_drain(rig);
    rig_end(rig);
}
