/* shard.c - a lane when memory or threads run out at any point: it works with what it has, or refuses in order. */
#include "sweep.h"

static atomic_uint accepted, done, batches;

static int execute(void *self, void *shard_state, weft_batch *batch) {
    (void)self, (void)shard_state;
    static const char expected[] = "bytes";
    for (size_t i = 0; i < batch->count; i++)
        REQUIRE(batch->txs[i].size == sizeof expected && !memcmp(batch->txs[i].data, expected, sizeof expected));
    atomic_fetch_add(&batches, 1);
    return 0;
}

static void on_done(void *arg, weft_shard *shard, const weft_tx *tx, uint64_t block, int error) {
    (void)arg, (void)shard, (void)tx;
    CHECK_EQ(error, 0);
    CHECK_GT(block, 0);
    atomic_fetch_add(&done, 1);
}

/* Enough at a time that a batch's array must grow. */
static void submit_some(weft_shard *shard, unsigned count) {
    weft_tx txs[200];
    for (unsigned i = 0; i < count; i++)
        txs[i] = (weft_tx){0, "bytes", 6};
    uint64_t before = 99, id = before;
    int error = weft_shard_submit_many(shard, txs, count, &id);
    REQUIRE(error == 0 || error == -ENOMEM);
    if (error)
        CHECK_EQ(id, before);
    else
        atomic_fetch_add(&accepted, count);
}

static void scenario(void) {
    atomic_store(&accepted, 0), atomic_store(&done, 0);
    weft_lane_config config = WEFT_LANE_CONFIG_INIT;
    config.workers = 3;
    config.executor.execute = execute;
    config.done = on_done;
    config.name = "fault";
    weft_lane *untouched = (weft_lane *)(void *)&config, *lane = untouched;
    int error = weft_lane_create(&config, &lane);
    REQUIRE(sweep_is_clean(error));
    if (error) {
        CHECK_EQ(lane, untouched);
        REQUIRE_EVENTUALLY(fixture_threads("fault-") == 0);
        return;
    }
    CHECK_GE(weft_lane_workers(lane), 1);
    CHECK_LE(weft_lane_workers(lane), 3);
    for (unsigned i = 0; i < 3; i++) {
        weft_shard *none = (weft_shard *)(void *)&config, *shard = none;
        char name[8];
        snprintf(name, sizeof name, "s%u", i);
        error = weft_shard_get(lane, name, &shard);
        REQUIRE(error == 0 || error == -ENOMEM);
        if (error) {
            CHECK_EQ(shard, none);
            CHECK_EQ(weft_shard_find(lane, name), NULL);
            continue;
        }
        submit_some(shard, 1 + 66 * i); /* 1, 67, 133 */
    }
    REQUIRE_EVENTUALLY(atomic_load(&done) == atomic_load(&accepted));
    weft_lane_destroy(lane);
    REQUIRE_EVENTUALLY(fixture_threads("fault-") == 0);
}

/* proves K10 (fewer threads than asked for), K13, K23 */
TEST(shard_faults, "K10 K13 K23", .timeout = 120) { sweep(scenario); }
