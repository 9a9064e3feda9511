/* lane.c - the lane's threads and its queue (lane.h has the protocol). */
#include "shard/lane.h"

#include <errno.h>
#include <stdio.h>

#include "sched/spawn.h"

#define POOL_MAX ((size_t)1 << 20)
#define POOL_BYTES_MAX ((size_t)256 << 20)
#define TOTAL_BYTES_MAX ((size_t)1 << 30)
#define WORKERS_MAX 1024u

/* -- The queue ------------------------------------------------------------------------------------------------ */

bool wefti_lane_enqueue(struct weft_lane *lane, struct weft_shard *shard) {
    wefti_lock_take(&lane->lock);
    bool open = !load_own(&lane->shutdown);
    struct wefti_lane_worker *sleeper = NULL;
    if (open) {
        wefti_chain_append(&lane->queue, &shard->link);
        sleeper = (struct wefti_lane_worker *)(void *)wefti_chain_take(&lane->sleepers);
    }
    wefti_lock_give(&lane->lock);
    if (sleeper) {
        add_relaxed(&lane->wakes, 1); /* a figure */
        wefti_park_wake(&sleeper->park); /* K3: exactly one */
    }
    return open;
}

/* The shard at the front; sleeps while there is none.  NULL: shut down. */
static struct weft_shard *dequeue(struct weft_lane *lane, struct wefti_lane_worker *worker) {
    for (;;) {
        wefti_lock_take(&lane->lock);
        if (load_own(&lane->shutdown)) { /* K40: also with shards in the queue */
            wefti_lock_give(&lane->lock);
            return NULL;
        }
        struct wefti_link *first = wefti_chain_take(&lane->queue);
        if (!first)
            wefti_chain_append(&lane->sleepers, &worker->link);
        wefti_lock_give(&lane->lock);
        if (first)
            return (struct weft_shard *)(void *)first;
        wefti_park_sleep(&worker->park, INT64_MAX); /* whoever takes us out of the list wakes us */
    }
}

static void worker_main(void *arg) {
    struct wefti_lane_worker *worker = arg;
    for (struct weft_shard *shard; (shard = dequeue(worker->lane, worker));)
        wefti_shard_turn(shard, worker);
}

uint64_t weft_lane_queued(weft_lane *lane) {
    if (!lane)
        return 0;
    wefti_lock_take(&lane->lock);
    uint64_t count = lane->queue.count;
    wefti_lock_give(&lane->lock);
    return count;
}

uint64_t weft_lane_wakes(weft_lane *lane) { return lane ? load_relaxed(&lane->wakes) : 0; } /* a figure */
uint64_t weft_lane_pooled_bytes(weft_lane *lane) { return lane ? load_relaxed(&lane->reserved) : 0; } /* a figure */
unsigned weft_lane_workers(const weft_lane *lane) { return lane ? lane->workers : 0; }

/* -- The environment ------------------------------------------------------------------------------------------- */

void weft_lane_set_env(weft_lane *lane, const weft_block_env *env) {
    if (!lane || !env)
        return;
    wefti_lock_take(&lane->env_lock);
    uint64_t version = lane->env.version + 1;
    lane->env = *env;
    lane->env.version = version;
    wefti_lock_give(&lane->env_lock);
}

void weft_lane_env(weft_lane *lane, weft_block_env *out) {
    if (!lane || !out)
        return;
    wefti_lock_take(&lane->env_lock);
    *out = lane->env;
    wefti_lock_give(&lane->env_lock);
}

/* -- Making and unmaking ------------------------------------------------------------------------------------------ */

static int settle(const weft_lane_config *given, weft_lane_config *config) {
    *config = (weft_lane_config)WEFT_LANE_CONFIG_INIT;
    int error = given ? wefti_known_struct(given, offsetof(weft_lane_config, workers), config, sizeof *config) : 0;
    if (error)
        return error;
    const weft_store *store = &config->store;
    if (config->workers > WORKERS_MAX || config->max_pool > UINT32_MAX ||
        (!store->open && (store->commit || store->fatal || store->close)))
        return -EINVAL;
    config->workers = config->workers ? config->workers : wefti_cpu_count();
    config->max_pool = config->max_pool ? config->max_pool : POOL_MAX;
    config->max_batch = config->max_batch ? config->max_batch : config->max_pool;
    config->max_pool_bytes = config->max_pool_bytes ? config->max_pool_bytes : POOL_BYTES_MAX;
    config->max_total_bytes = config->max_total_bytes ? config->max_total_bytes : TOTAL_BYTES_MAX;
    if (!config->store.open)
        config->store = wefti_store_memory;
    return 0;
}

int weft_lane_create(const weft_lane_config *given, weft_lane **out) {
    weft_lane_config config;
    int error = out ? settle(given, &config) : -EINVAL;
    if (error)
        return error;
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    struct weft_lane *lane = wefti_alloc(sizeof *lane);
    if (!lane)
        return -ENOMEM;
    wefti_fork_watch();
    lane->config = config;
    lane->config.name = NULL; /* the caller's; copied */
    snprintf(lane->name, sizeof lane->name, "%s", config.name ? config.name : "lane");
    lane->worker = wefti_alloc(config.workers * sizeof *lane->worker);
    error = lane->worker ? 0 : -ENOMEM;
    for (; !error && lane->workers < config.workers; lane->workers++) {
        struct wefti_lane_worker *worker = &lane->worker[lane->workers];
        char name[16];
        snprintf(name, sizeof name, "%s-%u", lane->name, lane->workers % 1000);
        worker->lane = lane;
        worker->txs = worker->few;
        worker->room = WEFTI_SHARD_BATCH;
        if ((error = wefti_thread_start(&worker->thread, worker_main, worker, name)))
            break;
    }
    if (lane->workers == 0) {
        if (lane->worker)
            wefti_free(lane->worker, config.workers * sizeof *lane->worker);
        wefti_free(lane, sizeof *lane);
        wefti_fork_unwatch();
        return error;
    }
    *out = lane;
    return 0;
}

void weft_lane_shutdown(weft_lane *lane) {
    if (!lane || wefti_is_forked()) /* a forked child has none of its threads, and must not write to its store */
        return;
    wefti_lock_take(&lane->lock);
    bool first = !load_own(&lane->shutdown);
    store_relaxed(&lane->shutdown, true); /* what a worker must see of it, it sees under the lock */
    for (struct wefti_link *item; (item = wefti_chain_take(&lane->sleepers));)
        wefti_park_wake(&((struct wefti_lane_worker *)(void *)item)->park); /* K38: at once */
    wefti_lock_give(&lane->lock);
    if (first) {
        for (unsigned i = 0; i < lane->workers; i++)
            wefti_thread_join(&lane->worker[i].thread);
        store_release(&lane->joined, 1);
        wefti_futex_wake(&lane->joined, INT32_MAX); /* wake: others that shut down */
    }
    while (!load_acquire(&lane->joined)) /* another has begun: pairs with the store above */
        wefti_futex_wait(&lane->joined, 0, INT64_MAX);
}

void wefti_lane_trim(struct wefti_lane_worker *worker) {
    if (worker->txs != worker->few)
        wefti_free(worker->txs, worker->room * sizeof *worker->txs);
    worker->txs = worker->few;
    worker->room = WEFTI_SHARD_BATCH;
}

void weft_lane_destroy(weft_lane *lane) {
    if (!lane || wefti_is_forked())
        return;
    weft_lane_shutdown(lane);
    for (struct weft_shard *shard = load_own(&lane->made), *next; shard; shard = next) {
        next = shard->next_made;
        wefti_shard_free(shard);
    }
    for (unsigned i = 0; i < lane->workers; i++)
        wefti_lane_trim(&lane->worker[i]);
    wefti_free(lane->worker, lane->config.workers * sizeof *lane->worker);
    wefti_free(lane, sizeof *lane);
    wefti_fork_unwatch();
}
