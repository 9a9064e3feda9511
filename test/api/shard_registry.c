/* shard_registry.c - shards by name, what a lane accepts, and how much. */
#include "shard.h"

enum { NAMES = 300, THREADS = 6 };

struct getting {
    struct rig *rig;
    weft_shard *got[THREADS][NAMES];
};

static void get_all(unsigned index, void *arg) {
    struct getting *getting = arg;
    char name[16];
    for (unsigned i = 0; i < NAMES; i++) {
        unsigned which = (i * 7 + index * 13) % NAMES;
        snprintf(name, sizeof name, "shard-%u", which);
        getting->got[index][which] = rig_shard(getting->rig, name);
        CHECK_EQ(weft_shard_find(getting->rig->lane, name), getting->got[index][which]);
    }
}

static void count_one(weft_shard *shard, void *arg) {
    CHECK_EQ(rig_info(shard).state, WEFT_SHARD_IDLE);
    ++*(unsigned *)arg;
}

/* Whoever comes first makes it; everybody gets the same one. */
TEST(shard_get_is_idempotent, "K2") {
    struct rig *rig = rig_begin(rig_new(1, 0));
    static struct getting getting;
    getting.rig = rig;
    harness_threads(THREADS, get_all, &getting);
    CHECK_EQ(atomic_load(&rig->opens), NAMES);
    for (unsigned i = 0; i < NAMES; i++)
        for (unsigned t = 1; t < THREADS; t++)
            CHECK_EQ(getting.got[t][i], getting.got[0][i]);
    unsigned count = 0;
    weft_shard_each(rig->lane, count_one, &count);
    CHECK_EQ(count, NAMES);
    CHECK_EQ(weft_shard_find(rig->lane, "nobody"), NULL);
    rig_end(rig);
}

/* -- A store that takes its time to open does not keep those who look, submit or run. */

static struct blocker opening;

static int slow_open(void *self, const char *name, void **shard_state, uint64_t *next_block) {
    if (strcmp(name, "slow") == 0) {
        atomic_store(&opening.entered, true);
        while (!atomic_load(&opening.release))
            harness_nap();
    }
    return strcmp(name, "broken") ? rig_open(self, name, shard_state, next_block) : -ENODEV;
}

static void *get_slow(void *rig) {
    rig_shard(rig, "slow");
    return NULL;
}

TEST(shard_lookups_never_wait, "K37") {
    struct rig *rig = rig_new(1, 0);
    rig->config.store.open = slow_open;
    rig_begin(rig);
    weft_shard *quick = rig_shard(rig, "quick"), *broken = quick;
    CHECK_EQ(weft_shard_get(rig->lane, "broken", &broken), -ENODEV);
    CHECK_EQ(broken, quick); /* untouched */
    CHECK_EQ(weft_shard_find(rig->lane, "broken"), NULL);
    pthread_t thread;
    REQUIRE_EQ(pthread_create(&thread, NULL, get_slow, rig), 0);
    REQUIRE_EVENTUALLY(atomic_load(&opening.entered));
    CHECK_EQ(weft_shard_find(rig->lane, "quick"), quick);
    CHECK_EQ(rig_shard(rig, "quick"), quick);
    CHECK_EQ(weft_shard_find(rig->lane, "slow"), NULL); /* not yet */
    unsigned count = 0;
    weft_shard_each(rig->lane, count_one, &count);
    CHECK_EQ(count, 1);
    rig_submit(rig, quick);
    rig_drain(rig);
    atomic_store(&opening.release, true);
    pthread_join(thread, NULL);
    CHECK(weft_shard_find(rig->lane, "slow"));
    rig_end(rig);
}

/* A store that knows the shard: blocks go on from there. */
static int known_open(void *self, const char *name, void **shard_state, uint64_t *next_block) {
    int error = rig_open(self, name, shard_state, next_block);
    ((struct rig_state *)*shard_state)->blocks = 41;
    *next_block = 42;
    return error;
}

TEST(shard_goes_on_from_the_store, "K16") {
    struct rig *rig = rig_new(1, 0);
    rig->config.store.open = known_open;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    CHECK_EQ(rig_info(shard).block, 41);
    rig_submit(rig, shard);
    rig_drain(rig);
    CHECK_EQ(rig_info(shard).block, 42);
    CHECK_EQ(rig->log[0].block, 42);
    rig_end(rig);
}

/* -- Limits */

TEST(shard_pool_full, "K14 K17") {
    struct rig *rig = rig_new(1, 0);
    rig->config.max_pool = 4;
    rig->during = rig_hold;
    rig_begin(rig);
    weft_shard *hold = rig_hold_one(rig); /* its batch is in the pool until it ends */
    weft_tx txs[5] = {{0, NULL, 0}};
    uint64_t id = 99;
    CHECK_EQ(weft_shard_submit_many(hold, txs, 4, &id), -EAGAIN); /* all or none */
    CHECK_EQ(weft_shard_submit_many(hold, txs, 5, &id), -EINVAL); /* never */
    CHECK_EQ(id, 99);
    CHECK_EQ(rig_info(hold).pooled, 1);
    for (int i = 0; i < 3; i++)
        rig_submit(rig, hold);
    CHECK_EQ(weft_shard_submit(hold, "x", 1, &id), -EAGAIN);
    CHECK_EQ(rig_info(hold).pooled, 4);
    weft_shard *other = rig_shard(rig, "other"); /* has a pool of its own */
    rig_submit(rig, other);
    CHECK_EQ(weft_shard_submit_many(other, txs, 0, NULL), 0); /* nothing */
    txs[0].size = 3;
    CHECK_EQ(weft_shard_submit_many(other, txs, 1, NULL), -EINVAL);
    txs[0] = (weft_tx){0, "x", SIZE_MAX - 8}; /* more than any pool holds */
    CHECK_EQ(weft_shard_submit_many(other, txs, 1, NULL), -EINVAL);
    atomic_store(&rig->release, true);
    rig_drain(rig);
    rig_submit(rig, hold);
    rig_drain(rig);
    rig_end(rig);
}

/* A done callback finds room where its transaction was. */
static void resubmit(void *arg, weft_shard *shard, const weft_tx *tx, uint64_t block, int error) {
    struct rig *rig = arg;
    if (tx->id < 10)
        rig_submit(rig, shard);
    rig_done(arg, shard, tx, block, error);
}

TEST(shard_done_after_removal, "K17") {
    struct rig *rig = rig_new(1, 0);
    rig->config.max_pool = 1;
    rig->config.done = resubmit;
    rig_begin(rig);
    weft_shard *shard = rig_shard(rig, "a");
    rig_submit(rig, shard);
    REQUIRE_EVENTUALLY(atomic_load(&rig->done) == 10);
    rig_end(rig);
}

TEST(shard_bad_arguments, "K10 K32") {
    weft_lane *untouched = (weft_lane *)(void *)&opening, *lane = untouched;
    weft_lane_config config = WEFT_LANE_CONFIG_INIT;
    CHECK_EQ(weft_lane_create(&config, NULL), -EINVAL);
    config.workers = 1025;
    CHECK_EQ(weft_lane_create(&config, &lane), -EINVAL);
    config = (weft_lane_config)WEFT_LANE_CONFIG_INIT;
    config.max_pool = (size_t)UINT32_MAX + 1;
    CHECK_EQ(weft_lane_create(&config, &lane), -EINVAL);
    config = (weft_lane_config)WEFT_LANE_CONFIG_INIT;
    config.store.close = rig_close; /* without open */
    CHECK_EQ(weft_lane_create(&config, &lane), -EINVAL);
    struct {
        weft_lane_config known;
        long more;
    } future = {WEFT_LANE_CONFIG_INIT, 1};
    future.known.size = sizeof future;
    CHECK_EQ(weft_lane_create(&future.known, &lane), -E2BIG);
    CHECK_EQ(lane, untouched);

    REQUIRE_EQ(weft_lane_create(NULL, &lane), 0); /* no executor, no store: blocks are counted */
    weft_shard *shard = NULL;
    char name[65];
    memset(name, 'n', sizeof name);
    name[64] = 0;
    CHECK_EQ(weft_shard_get(lane, name, &shard), -EINVAL);
    CHECK_EQ(weft_shard_get(lane, "", &shard), -EINVAL);
    CHECK_EQ(weft_shard_get(lane, NULL, &shard), -EINVAL);
    CHECK_EQ(weft_shard_get(lane, "a", NULL), -EINVAL);
    CHECK_EQ(shard, NULL);
    name[63] = 0;
    REQUIRE_EQ(weft_shard_get(lane, name, &shard), 0);
    CHECK_STR(rig_info(shard).name, name);
    CHECK_EQ(weft_shard_store_state(shard), NULL);
    REQUIRE_EQ(weft_shard_submit(shard, NULL, 0, NULL), 0);
    REQUIRE_EVENTUALLY(rig_info(shard).block == 1);
    weft_lane_destroy(lane);
}
