/* shard.c - one shard: its pool, and its turn on a worker (lane.h has the protocol). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shard/lane.h"

/* -- The pool ---------------------------------------------------------------------------------------------------- */

static struct wefti_tx *new_tx(const void *data, size_t size) {
    struct wefti_tx *node = wefti_alloc(sizeof *node + size);
    if (!node)
        return NULL;
    if (size)
        memcpy(node + 1, data, size);
    node->tx = (weft_tx){0, node + 1, size};
    return node;
}

static void free_tx(struct wefti_tx *node) { wefti_free(node, sizeof *node + node->tx.size); }

static void free_chain(struct wefti_chain *chain) {
    for (struct wefti_link *item; (item = wefti_chain_take(chain));)
        free_tx((struct wefti_tx *)(void *)item);
}

int weft_shard_submit_many(weft_shard *shard, const weft_tx *txs, size_t count, uint64_t *first_id) {
    struct wefti_chain chain = {NULL, NULL, 0};
    int error = load_relaxed(&shard->stopped) ? -EIO : 0; /* a look */
    for (size_t i = 0; i < count && !error; i++) {
        struct wefti_tx *node = new_tx(txs[i].data, txs[i].size);
        if (node)
            wefti_chain_append(&chain, &node->link);
        else
            error = -ENOMEM;
    }
    if (!error && count) {
        wefti_lock_take(&shard->lock);
        if (shard->pool.count + count > shard->lane->config.max_pool) {
            error = -EAGAIN;
        } else {
            if (first_id)
                *first_id = shard->next_id + 1;
            for (struct wefti_link *item; (item = wefti_chain_take(&chain));) {
                ((struct wefti_tx *)(void *)item)->tx.id = ++shard->next_id;
                wefti_chain_append(&shard->pool, item);
            }
        }
        wefti_lock_give(&shard->lock);
    }
    free_chain(&chain);
    if (!error && count)
        weft_shard_schedule(shard); /* S2, after S1 */
    return error;
}

int weft_shard_submit(weft_shard *shard, const void *data, size_t size, uint64_t *id) {
    weft_tx tx = {0, data, size};
    return weft_shard_submit_many(shard, &tx, 1, id);
}

static bool has_waiting(struct weft_shard *shard) {
    wefti_lock_take(&shard->lock);
    bool any = shard->pool.count != 0;
    wefti_lock_give(&shard->lock);
    return any;
}

/* -- Scheduling -------------------------------------------------------------------------------------------------- */

bool weft_shard_schedule(weft_shard *shard) {
    uint64_t found = load_relaxed(&shard->word); /* only compared */
    do
        if (wefti_word_life(found) != WEFTI_IDLE) /* K4, K5 */
            return false;
    while (
        !cas_acq_rel(&shard->word, &found, wefti_word_with(found, WEFTI_SCHEDULED))); /* S2; acquire: pairs with W2 */
    return wefti_lane_enqueue(shard->lane, shard);
}

/* -- A turn ------------------------------------------------------------------------------------------------------ */

/* K14: what is in the pool now, as an array; it stays in the pool. */
static size_t collect(struct weft_shard *shard, struct wefti_lane_worker *worker) {
    size_t most = shard->lane->config.max_batch, count = 0;
    wefti_lock_take(&shard->lock);
    size_t want = shard->pool.count < most ? shard->pool.count : most;
    wefti_lock_give(&shard->lock);
    if (want > worker->room) {
        weft_tx *larger = wefti_alloc(want * sizeof *larger);
        if (larger) {
            if (worker->txs)
                wefti_free(worker->txs, worker->room * sizeof *worker->txs);
            worker->txs = larger;
            worker->room = want;
        } else if (worker->room) {
            want = worker->room; /* smaller batches, then */
        } else {
            return 0;
        }
    }
    wefti_lock_take(&shard->lock);
    for (struct wefti_link *item = shard->pool.count ? shard->pool.first : NULL; item && count < want;
         item = item->next)
        worker->txs[count++] = ((struct wefti_tx *)(void *)item)->tx;
    wefti_lock_give(&shard->lock);
    return count;
}

/* K17: exactly the batch: it is at the front, and others have only been added behind it. */
static void remove_batch(struct weft_shard *shard, size_t count) {
    struct wefti_chain gone = {NULL, NULL, 0};
    wefti_lock_take(&shard->lock);
    while (count--)
        wefti_chain_append(&gone, wefti_chain_take(&shard->pool));
    wefti_lock_give(&shard->lock);
    free_chain(&gone);
}

/* Execute and commit.  0 or a negative error. */
static int run_batch(struct weft_shard *shard, weft_batch *batch) {
    const weft_lane_config *config = &shard->lane->config;
    int error = config->executor.execute ? config->executor.execute(config->executor.self, shard->state, batch) : 0;
    if (!error && config->store.commit)
        error = config->store.commit(config->store.self, shard->state, batch);
    if (config->executor.release)
        config->executor.release(config->executor.self, batch, !error);
    return error;
}

/* One cycle.  False: nothing to do, or it cannot go on. */
static bool cycle(struct weft_shard *shard, struct wefti_lane_worker *worker) {
    const weft_lane_config *config = &shard->lane->config;
    weft_block_env env;
    weft_lane_env(shard->lane, &env); /* K25, K26: one value for the whole cycle */
    weft_batch batch = {.shard = shard, .block = load_own(&shard->block) + 1, .env = &env, .txs = worker->txs};
    batch.count = collect(shard, worker);
    batch.txs = worker->txs;
    if (batch.count == 0) /* K20 */
        return false;
    int error = run_batch(shard, &batch);
    if (error) {
        store_relaxed(&shard->failed, load_own(&shard->failed) + batch.count); /* figures, one writer */
        if (config->failed)
            config->failed(config->arg, shard, &batch, error);
        if (config->store.fatal && config->store.fatal(config->store.self, error))
            store_relaxed(&shard->stopped, true); /* a flag; who submits later is told */
    } else {
        store_relaxed(&shard->block, batch.block);
        store_relaxed(&shard->committed, load_own(&shard->committed) + batch.count);
    }
    store_relaxed(&shard->cycles, load_own(&shard->cycles) + 1);
    if (config->done)
        for (size_t i = 0; i < batch.count; i++)
            config->done(config->arg, shard, &batch.txs[i], error ? 0 : batch.block, error);
    remove_batch(shard, batch.count); /* K30: failed or not */
    return !load_own(&shard->stopped);
}

void wefti_shard_turn(struct weft_shard *shard, struct wefti_lane_worker *worker) {
    int64_t quantum = shard->lane->config.quantum, began = wefti_clock();
    wefti_word_to_running(&shard->word);
    store_relaxed(&shard->turns, load_own(&shard->turns) + 1); /* a figure */
    while (cycle(shard, worker) && wefti_clock() - began < quantum) /* K18, K19: looked at after a whole cycle */
        ;
    uint64_t found = load_relaxed(&shard->word); /* only we change it while it is RUNNING */
    store_release(&shard->word, wefti_word_with(found, WEFTI_IDLE)); /* W2, pairs with S2 */
    if (!load_own(&shard->stopped) && has_waiting(shard)) /* W3: recheck */
        weft_shard_schedule(shard);                       /* W3: wake */
}

/* -- Looking ------------------------------------------------------------------------------------------------------ */

void weft_shard_info_read(weft_shard *shard, weft_shard_info *out) {
    static const weft_shard_state states[] = {
        [WEFTI_IDLE] = WEFT_SHARD_IDLE, [WEFTI_SCHEDULED] = WEFT_SHARD_PENDING, [WEFTI_RUNNING] = WEFT_SHARD_RUNNING};
    out->name = shard->name;
    out->state =
        load_relaxed(&shard->stopped) ? WEFT_SHARD_STOPPED : states[wefti_word_life(load_relaxed(&shard->word))];
    wefti_lock_take(&shard->lock);
    out->pooled = shard->pool.count;
    wefti_lock_give(&shard->lock);
    out->block = load_relaxed(&shard->block); /* figures */
    out->committed = load_relaxed(&shard->committed);
    out->failed = load_relaxed(&shard->failed);
    out->turns = load_relaxed(&shard->turns);
    out->cycles = load_relaxed(&shard->cycles);
}

void *weft_shard_store_state(weft_shard *shard) { return shard->state; }

void wefti_shard_free(struct weft_shard *shard) {
    const weft_store *store = &shard->lane->config.store;
    if (store->close)
        store->close(store->self, shard->state);
    free_chain(&shard->pool);
    wefti_free(shard, sizeof *shard);
}
