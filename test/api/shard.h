/* shard.h - what the tests of shards share: a lane whose executor and store check each other and keep a log. */
#ifndef WEFT_TEST_SHARD_H
#define WEFT_TEST_SHARD_H

#include "fixture.h"
#include "shard/lane.h"

#define RIG_LOG 4096

/* A shard's state.  Plain fields: two workers on one shard are a race that TSan sees. */
struct rig_state {
    struct rig *rig;
    char name[64];
    atomic_int inside;
    uint64_t last_id, blocks, committed;
};

struct rig_entry { /* an execution */
    char name[64];
    uint64_t block, first, count;
    weft_block_env env;
    pthread_t thread;
};

struct rig {
    weft_lane_config config;
    weft_lane *lane;
    /* In execute and commit; NULL: nothing. */
    int (*during)(struct rig *rig, struct rig_state *state, const weft_batch *batch);
    int (*committing)(struct rig *rig, struct rig_state *state, const weft_batch *batch);
    void *arg;
    bool in_order; /* ids of a shard follow each other */
    size_t most;   /* that execute takes of a batch; 0: all */
    pthread_mutex_t lock;
    unsigned logged;
    struct rig_entry log[RIG_LOG];
    atomic_uint opens, closes, executions, releases, commits, failures, last_error;
    atomic_uint accepted, done, done_well, done_shut, done_stopped;
    atomic_bool release; /* of rig_hold */
    atomic_uint held;
};

/* -- The store */

static inline int rig_open(void *self, const char *name, void **shard_state, uint64_t *next_block) {
    struct rig *rig = self;
    struct rig_state *state = calloc(1, sizeof *state);
    REQUIRE(state);
    state->rig = rig;
    snprintf(state->name, sizeof state->name, "%s", name);
    CHECK_EQ(*next_block, 1);
    *shard_state = state;
    atomic_fetch_add(&rig->opens, 1);
    return 0;
}

static inline int rig_commit(void *self, void *shard_state, const weft_batch *batch) {
    struct rig *rig = self;
    struct rig_state *state = shard_state;
    CHECK_EQ(atomic_load(&state->inside), 1);
    CHECK_EQ(batch->out, state);
    int error = rig->committing ? rig->committing(rig, state, batch) : 0;
    if (error)
        return error;
    CHECK_EQ(batch->block, state->blocks + 1); /* K16 */
    state->blocks++;
    state->committed += batch->count;
    atomic_fetch_add(&rig->commits, 1);
    return 0;
}

static inline void rig_close(void *self, void *shard_state) {
    atomic_fetch_add(&((struct rig *)self)->closes, 1);
    free(shard_state);
}

/* -- The executor */

static inline int rig_execute(void *self, void *shard_state, weft_batch *batch) {
    struct rig *rig = self;
    struct rig_state *state = shard_state;
    CHECK_EQ(atomic_fetch_add(&state->inside, 1), 0); /* K35 */
    CHECK_EQ(weft_shard_store_state(batch->shard), state);
    CHECK_GT(batch->count, 0); /* K20 */
    weft_shard_info info;
    weft_shard_info_read(batch->shard, &info);
    CHECK_EQ(info.state, WEFT_SHARD_RUNNING); /* K12 */
    CHECK_GE(info.pooled, batch->count); /* K14: it is still there */
    CHECK_EQ(batch->block, state->blocks + 1); /* K15: what the last one committed is seen */
    if (rig->most && batch->count > rig->most)
        batch->count = rig->most;
    for (size_t i = 0; rig->in_order && i < batch->count; i++) /* K14, K17, K30: each once, none left out */
        CHECK_EQ(batch->txs[i].id, state->last_id + 1 + i);
    state->last_id += batch->count;
    pthread_mutex_lock(&rig->lock);
    if (rig->logged < RIG_LOG) {
        struct rig_entry *entry = &rig->log[rig->logged++];
        memcpy(entry->name, state->name, sizeof entry->name);
        entry->block = batch->block;
        entry->first = batch->txs[0].id;
        entry->count = batch->count;
        entry->env = *batch->env;
        entry->thread = pthread_self();
    }
    pthread_mutex_unlock(&rig->lock);
    atomic_fetch_add(&rig->executions, 1);
    batch->out = state;
    return rig->during ? rig->during(rig, state, batch) : 0;
}

static inline void rig_release(void *self, weft_batch *batch, int committed) {
    struct rig_state *state = batch->out;
    weft_shard_info info;
    weft_shard_info_read(batch->shard, &info);
    CHECK_EQ(info.block, batch->block - !committed); /* who is told of a block finds it counted */
    atomic_fetch_add(&((struct rig *)self)->releases, 1);
    CHECK_EQ(atomic_fetch_sub(&state->inside, 1), 1);
}

/* -- What the lane tells */

static inline void rig_failed(void *arg, weft_shard *shard, const weft_batch *batch, int error) {
    struct rig *rig = arg;
    CHECK_EQ(batch->shard, shard);
    CHECK_LT(error, 0);
    atomic_store(&rig->last_error, (unsigned)-error);
    atomic_fetch_add(&rig->failures, 1);
}

static inline void rig_done(void *arg, weft_shard *shard, const weft_tx *tx, uint64_t block, int error) {
    struct rig *rig = arg;
    (void)shard, (void)tx;
    CHECK_EQ(block == 0, error != 0);
    atomic_fetch_add(error ? &rig->done_shut : &rig->done_well, error == -ESHUTDOWN || !error);
    atomic_fetch_add(&rig->done_stopped, error == -EIO);
    atomic_fetch_add(&rig->done, 1);
}

/* -- Beginning and end */

/* Set rig->config further between the two. */
static inline struct rig *rig_new(unsigned workers, int64_t quantum) {
    struct rig *rig = calloc(1, sizeof *rig);
    REQUIRE(rig);
    pthread_mutex_init(&rig->lock, NULL);
    rig->in_order = true;
    rig->config = (weft_lane_config)WEFT_LANE_CONFIG_INIT;
    rig->config.workers = workers;
    rig->config.quantum = quantum;
    rig->config.executor = (weft_executor){rig_execute, rig_release, rig};
    rig->config.store = (weft_store){rig_open, rig_commit, NULL, rig_close, rig};
    rig->config.failed = rig_failed;
    rig->config.done = rig_done;
    rig->config.arg = rig;
    return rig;
}

static inline struct rig *rig_begin(struct rig *rig) {
    REQUIRE_EQ(weft_lane_create(&rig->config, &rig->lane), 0);
    return rig;
}

static inline void rig_end(struct rig *rig) {
    weft_lane_destroy(rig->lane);
    CHECK_EQ(atomic_load(&rig->closes), atomic_load(&rig->opens));
    CHECK_EQ(atomic_load(&rig->releases), atomic_load(&rig->executions));
    CHECK_EQ(atomic_load(&rig->done), atomic_load(&rig->accepted)); /* each once */
    pthread_mutex_destroy(&rig->lock);
    free(rig);
}

/* -- Using it */

static inline weft_shard *rig_shard(struct rig *rig, const char *name) {
    weft_shard *shard = NULL;
    REQUIRE_EQ(weft_shard_get(rig->lane, name, &shard), 0);
    return shard;
}

static inline void rig_submit(struct rig *rig, weft_shard *shard) {
    atomic_fetch_add(&rig->accepted, 1);
    REQUIRE_EQ(weft_shard_submit(shard, "x", 1, NULL), 0);
}

static inline weft_shard_info rig_info(weft_shard *shard) {
    weft_shard_info info;
    weft_shard_info_read(shard, &info);
    return info;
}

/* All that was accepted has ended, and all shards are at rest. */
#define rig_drain(rig) REQUIRE_EVENTUALLY(atomic_load(&(rig)->done) == atomic_load(&(rig)->accepted))

static inline unsigned rig_asleep(struct rig *rig) {
    wefti_lock_take(&rig->lane->lock);
    unsigned count = rig->lane->sleepers.count;
    wefti_lock_give(&rig->lane->lock);
    return count;
}

/* A `during` that keeps the shard "hold" in its first batch until rig->release. */
static inline int rig_hold(struct rig *rig, struct rig_state *state, const weft_batch *batch) {
    if (strcmp(state->name, "hold") == 0 && batch->txs[0].id == 1) {
        atomic_fetch_add(&rig->held, 1);
        while (!atomic_load(&rig->release))
            harness_nap();
    }
    return 0;
}

/* The shard "hold", running on one worker. */
static inline weft_shard *rig_hold_one(struct rig *rig) {
    weft_shard *hold = rig_shard(rig, "hold");
    rig_submit(rig, hold);
    REQUIRE_EVENTUALLY(atomic_load(&rig->held) == 1);
    return hold;
}

#endif
