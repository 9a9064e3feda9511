/* shard.c - one shard: its pool, and its turn on a worker (lane.h has the protocol). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shard/lane.h"

#define ROOM_KEPT 65536u /* a worker gives larger batches' memory back after the turn */
#define RESERVE_FIRST 4096u /* bytes of the lane's total; kept by the shard */
#define RESERVE_STEP 65536u

/* -- The pool ---------------------------------------------------------------------------------------------------- */

static struct wefti_tx *new_tx(const void *data, size_t size) {
    struct wefti_tx *node = size < SIZE_MAX / 2 ? wefti_alloc(sizeof *node + size) : NULL;
    if (!node)
        return NULL;
    if (size)
        memcpy(node + 1, data, size);
    node->tx = (weft_tx){0, node + 1, size};
    return node;
}

static size_t bytes_of(const weft_tx *tx) { return sizeof(struct wefti_tx) + tx->size; }

static void free_tx(struct wefti_tx *node) { wefti_free(node, bytes_of(&node->tx)); }

static void free_chain(struct wefti_chain *chain) {
    for (struct wefti_link *item; (item = wefti_chain_take(chain));)
        free_tx((struct wefti_tx *)(void *)item);
}

/* Takes `more` bytes of the lane's total. A failed attempt of another shard may make this one fail too, near the limit. */
static bool take_of_total(struct weft_lane *lane, size_t more) {
    if (add_relaxed(&lane->reserved, more) + more <= lane->config.max_total_bytes) /* a count: orders nothing */
        return true;
    sub_relaxed(&lane->reserved, more); /* likewise */
    return false;
}

/* Under the pool's lock: the lane's total has room for a pool of `bytes`. */
static bool reserve(struct weft_shard *shard, size_t bytes) {
    size_t step = bytes <= RESERVE_FIRST ? RESERVE_FIRST : (bytes + RESERVE_STEP - 1) / RESERVE_STEP * RESERVE_STEP;
    if (bytes <= shard->reserved)
        return true;
    if (!take_of_total(shard->lane, step - shard->reserved)) {
        step = bytes; /* the last bytes of the total are not given in steps */
        if (!take_of_total(shard->lane, step - shard->reserved))
            return false;
    }
    shard->reserved = step;
    return true;
}

/* Under the pool's lock: `bytes` have left the pool. */
static void unreserve(struct weft_shard *shard, size_t bytes) {
    shard->bytes -= bytes;
    if (shard->bytes <= RESERVE_FIRST && shard->reserved > RESERVE_FIRST) {
        sub_relaxed(&shard->lane->reserved, shard->reserved - RESERVE_FIRST); /* a count: orders nothing */
        shard->reserved = RESERVE_FIRST;
    }
}

/* Under the pool's lock: number them and append them all, or say why not. */
static int add_all(struct weft_shard *shard, struct wefti_chain *chain, size_t bytes, uint64_t *first_id) {
    const weft_lane_config *config = &shard->lane->config;
    if (load_own(&shard->stopped))
        return -EIO;
    if (shard->pool.count + (size_t)chain->count > config->max_pool || bytes > config->max_pool_bytes - shard->bytes ||
        !reserve(shard, shard->bytes + bytes))
        return -EAGAIN;
    shard->bytes += bytes;
    if (first_id)
        *first_id = shard->next_id + 1;
    for (struct wefti_link *item; (item = wefti_chain_take(chain));) {
        ((struct wefti_tx *)(void *)item)->tx.id = ++shard->next_id;
        wefti_chain_append(&shard->pool, item);
    }
    return 0;
}

int weft_shard_submit_many(weft_shard *shard, const weft_tx *txs, size_t count, uint64_t *first_id) {
    struct wefti_chain chain = {NULL, NULL, 0};
    size_t bytes = 0;
    if (WEFTI_UNLIKELY(!shard || (count && !txs)))
        return -EINVAL;
    if (WEFTI_UNLIKELY(wefti_is_forked())) /* the lane's threads are the parent's */
        return -ENOTRECOVERABLE;
    int error = wefti_lane_is_shut(shard->lane) ? -ESHUTDOWN : count > shard->lane->config.max_pool ? -EINVAL : 0;
    for (size_t i = 0; i < count && !error; i++) {
        struct wefti_tx *node = NULL;
        if ((txs[i].size && !txs[i].data) || txs[i].size > shard->lane->config.max_pool_bytes ||
            (bytes += bytes_of(&txs[i])) > shard->lane->config.max_pool_bytes)
            error = -EINVAL;
        else if (!(node = new_tx(txs[i].data, txs[i].size)))
            error = -ENOMEM;
        else
            wefti_chain_append(&chain, &node->link);
    }
    if (!error && count) {
        wefti_lock_take(&shard->lock);
        error = add_all(shard, &chain, bytes, first_id); /* S1 */
        wefti_lock_give(&shard->lock);
        if (!error)
            weft_shard_schedule(shard); /* S2, after S1 */
    }
    free_chain(&chain);
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
    if (WEFTI_UNLIKELY(!shard))
        return false;
    uint64_t found = load_relaxed(&shard->word); /* only compared */
    do
        if (wefti_word_life(found) != WEFTI_IDLE || load_relaxed(&shard->stopped)) /* K4, K5; stopped: a look */
            return false;
    while (
        !cas_relaxed(&shard->word, &found, wefti_word_with(found, WEFTI_SCHEDULED))); /* S2: the queue's lock orders */
    if (wefti_lane_enqueue(shard->lane, shard))
        return true;
    store_relaxed(&shard->word, found); /* shut down: it is not in the queue, and nobody will run it */
    return false;
}

/* -- A turn ------------------------------------------------------------------------------------------------------ */

/* Room for `want` transactions, or for as many as there is memory. */
static size_t make_room(struct wefti_lane_worker *worker, size_t want) {
    if (want > worker->room) {
        weft_tx *larger = wefti_alloc(want * sizeof *larger);
        if (!larger)
            return worker->room; /* smaller batches, then */
        wefti_lane_trim(worker);
        worker->txs = larger;
        worker->room = want;
    }
    return want;
}

/* K14: what is in the pool now, as an array; it stays in the pool. */
static void collect(struct weft_shard *shard, struct wefti_lane_worker *worker, weft_batch *batch) {
    wefti_lock_take(&shard->lock);
    size_t want = shard->pool.count;
    struct wefti_link *item = shard->pool.first;
    wefti_lock_give(&shard->lock);
    want = want < shard->lane->config.max_batch ? want : shard->lane->config.max_batch;
    want = make_room(worker, want);
    for (size_t i = 0; i < want; i++) {
        worker->txs[i] = ((struct wefti_tx *)(void *)item)->tx;
        if (i + 1 < want) /* the last one's link is who appends's */
            item = item->next;
    }
    batch->txs = worker->txs;
    batch->count = want;
}

/* K17: exactly the batch: it is at the front, and others have only been added behind it. */
static struct wefti_chain take_batch(struct weft_shard *shard, const weft_batch *batch) {
    struct wefti_tx *last = (struct wefti_tx *)(uintptr_t)batch->txs[batch->count - 1].data - 1; /* new_tx */
    struct wefti_chain gone = {NULL, &last->link, (uint32_t)batch->count};
    size_t bytes = 0;
    for (size_t i = 0; i < batch->count; i++)
        bytes += bytes_of(&batch->txs[i]);
    wefti_lock_take(&shard->lock);
    gone.first = shard->pool.first;
    shard->pool.first = last->link.next;
    shard->pool.count -= gone.count;
    unreserve(shard, bytes);
    wefti_lock_give(&shard->lock);
    return gone;
}

/* They have left the pool: say how they ended, and free them. */
static void tell_and_free(struct weft_shard *shard, struct wefti_chain *gone, uint64_t block, int error) {
    const weft_lane_config *config = &shard->lane->config;
    for (struct wefti_link *item; (item = wefti_chain_take(gone));) {
        struct wefti_tx *node = (struct wefti_tx *)(void *)item;
        if (config->done)
            config->done(config->arg, shard, &node->tx, block, error);
        free_tx(node);
    }
}

/* Execute and commit.  0 or a negative error; *fatal: the shard cannot go on.  The figures come before release, which may tell somebody of the
 * commit: who has heard of a block finds it counted. */
static int run_batch(struct weft_shard *shard, weft_batch *batch, bool *fatal) {
    const weft_executor *executor = &shard->lane->config.executor;
    const weft_store *store = &shard->lane->config.store;
    int error = executor->execute ? executor->execute(executor->self, shard->state, batch) : 0;
    if (error >= 0) {
        error = store->commit ? store->commit(store->self, shard->state, batch) : 0;
        error = error < 0 ? error : 0;
        *fatal = error && (error == -EROFS || (store->fatal && store->fatal(store->self, error)));
    }
    if (!error) {
        store_relaxed(&shard->block, batch->block); /* figures, one writer */
        store_relaxed(&shard->committed, load_own(&shard->committed) + batch->count);
    }
    if (executor->release)
        executor->release(executor->self, batch, !error);
    return error;
}

static void report(struct weft_shard *shard, const weft_batch *batch, int error) {
    const weft_lane_config *config = &shard->lane->config;
    store_relaxed(&shard->failed, load_own(&shard->failed) + batch->count); /* a figure, one writer */
    if (config->failed) {
        config->failed(config->arg, shard, batch, error);
        return;
    }
    char text[256];
    int size = snprintf(text, sizeof text, "weft: shard \"%s\": a batch of %zu for block %llu failed: error %d\n",
                        shard->name, batch->count, (unsigned long long)batch->block, error);
    wefti_write(2, text, size > 0 && (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

/* No more turns; what waits is told. */
static void stop(struct weft_shard *shard) {
    wefti_lock_take(&shard->lock);
    store_relaxed(&shard->stopped, true); /* under the lock; elsewhere a look */
    struct wefti_chain rest = shard->pool;
    shard->pool.count = 0;
    unreserve(shard, shard->bytes);
    wefti_lock_give(&shard->lock);
    store_relaxed(&shard->failed, load_own(&shard->failed) + rest.count); /* a figure */
    tell_and_free(shard, &rest, 0, -EIO);
}

/* One cycle.  False: nothing to do, or it cannot go on. */
static bool cycle(struct weft_shard *shard, struct wefti_lane_worker *worker) {
    weft_block_env env;
    weft_lane_env(shard->lane, &env); /* K25, K26: one value for the whole cycle */
    weft_batch batch = {.shard = shard, .block = load_own(&shard->block) + 1, .env = &env};
    collect(shard, worker, &batch);
    if (batch.count == 0) /* K20 */
        return false;
    bool fatal = false;
    int error = run_batch(shard, &batch, &fatal); /* which may leave some in the pool */
    if (error)
        report(shard, &batch, error);
    store_relaxed(&shard->cycles, load_own(&shard->cycles) + 1);
    struct wefti_chain gone = take_batch(shard, &batch); /* K30: failed or not */
    tell_and_free(shard, &gone, error ? 0 : batch.block, error);
    if (fatal)
        stop(shard);
    return !fatal;
}

static void end_turn(struct weft_shard *shard) {
    uint64_t found = load_relaxed(&shard->word); /* only we change it while it is RUNNING */
    store_release(&shard->word, wefti_word_with(found, WEFTI_IDLE)); /* W2; through S2's swap to the next to_running */
    if (has_waiting(shard)) /* W3: recheck */
        weft_shard_schedule(shard); /* W3: wake */
}

void wefti_shard_turn(struct weft_shard *shard, struct wefti_lane_worker *worker) {
    int64_t quantum = shard->lane->config.quantum, began = wefti_clock();
    wefti_word_to_running(&shard->word);
    store_relaxed(&shard->turns, load_own(&shard->turns) + 1); /* a figure */
    while (cycle(shard, worker) && wefti_clock() - began < quantum && /* K18, K19: looked at after a whole cycle */
           !wefti_lane_is_shut(shard->lane)) /* K41 */
        ;
    if (worker->room > ROOM_KEPT)
        wefti_lane_trim(worker);
    end_turn(shard);
}

int weft_shard_restart(weft_shard *shard, int (*prepare)(void *arg, void *shard_state, uint64_t *next_block),
                       void *arg) {
    if (!shard)
        return -EINVAL;
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    if (wefti_lane_is_shut(shard->lane))
        return -ESHUTDOWN;
    uint64_t found = load_relaxed(&shard->word); /* only compared */
    do
        if (wefti_word_life(found) != WEFTI_IDLE)
            return -EBUSY;
    while (
        !cas_relaxed(&shard->word, &found, wefti_word_with(found, WEFTI_SCHEDULED))); /* S2, but it is not appended */
    wefti_word_to_running(&shard->word); /* this thread has the turn */
    uint64_t next = load_own(&shard->block) + 1;
    int error = prepare ? prepare(arg, shard->state, &next) : 0;
    if (error >= 0) {
        store_relaxed(&shard->block, next - 1); /* a figure, one writer */
        wefti_lock_take(&shard->lock);
        store_relaxed(&shard->stopped, false); /* under the lock; elsewhere a look */
        wefti_lock_give(&shard->lock);
    }
    end_turn(shard);
    return error < 0 ? error : 0;
}

/* -- Looking ------------------------------------------------------------------------------------------------------ */

void weft_shard_info_read(weft_shard *shard, weft_shard_info *out) {
    static const weft_shard_state states[] = {
        [WEFTI_IDLE] = WEFT_SHARD_IDLE, [WEFTI_SCHEDULED] = WEFT_SHARD_PENDING, [WEFTI_RUNNING] = WEFT_SHARD_RUNNING};
    if (!shard || !out)
        return;
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

uint64_t weft_shard_pooled_bytes(weft_shard *shard) {
    if (!shard)
        return 0;
    wefti_lock_take(&shard->lock);
    uint64_t bytes = shard->bytes;
    wefti_lock_give(&shard->lock);
    return bytes;
}

void *weft_shard_store_state(weft_shard *shard) { return shard ? shard->state : NULL; }

void wefti_shard_free(struct weft_shard *shard) {
    const weft_store *store = &shard->lane->config.store;
    tell_and_free(shard, &shard->pool, 0, -ESHUTDOWN);
    if (store->close)
        store->close(store->self, shard->state);
    wefti_free(shard, sizeof *shard);
}
