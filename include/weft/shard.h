/* weft/shard.h - shards: many independent serial executors on a lane of threads of their own.
 *
 * A shard has a pool of transactions that wait, and a state that only its own batches change.  A lane has worker threads and one queue of
 * shards in strict order.  A worker takes the shard at the front and runs cycles: collect a snapshot of the pool, execute it as one
 * batch, commit one block, remove the batch from the pool.  After each cycle, when the quantum is used up, the shard goes to the back of the queue;
 * when its pool is empty it sleeps until the next transaction.  Two workers never run one shard at once.
 *
 *     weft_lane *lane;
 *     weft_lane_create(NULL, &lane);
 *     weft_shard *shard;
 *     weft_shard_get(lane, "accounts-7", &shard);         // made if it is not there
 *     weft_shard_submit(shard, "+5", 2, NULL);            // into the pool, and scheduled
 *
 * What executing and committing mean is up to the two interfaces below; without them blocks are only counted.
 *
 * Lane workers are plain threads, never workers of a runtime: execution may block, and does not keep tasks waiting.
 */
#ifndef WEFT_SHARD_H
#define WEFT_SHARD_H

#include <weft/base.h>

WEFT_EXTERN_C_BEGIN

typedef struct weft_lane weft_lane;
typedef struct weft_shard weft_shard;

/* What all shards share about the outside, as of the last update.  A cycle sees one value from its beginning to its end. */
typedef struct weft_block_env {
    uint64_t number;
    uint64_t timestamp; /* s */
    uint64_t gas_price, blob_gas_price;
    unsigned char sequencer[32];
    uint64_t version; /* counts updates; set by the lane */
} weft_block_env;

/* A transaction: bytes that the executor understands, and a number that the pool gives it.  `data` is copied when it is submitted. */
typedef struct weft_tx {
    uint64_t id;
    const void *data;
    size_t size;
} weft_tx;

/* One batch, while it is executed and committed. */
typedef struct weft_batch {
    weft_shard *shard;
    uint64_t block; /* the number its block will have */
    const weft_block_env *env;
    const weft_tx *txs;
    size_t count;
    void *out; /* the executor's: what is to be committed; the store reads it */
} weft_batch;

/* Executes batches.  Called on lane threads, for one shard by one thread at a time; what one call for a shard wrote, the next one sees.  It
 * may block, and may submit, also to its own shard: that runs in a later batch. */
typedef struct weft_executor {
    /* Run the batch on the shard's latest state, and leave in batch->out what is to be committed.  A negative error fails the batch: nothing is
     * committed, its transactions are removed, the shard goes on.  It may run only the first of them, and make batch->count smaller, to 1 or more:
     * then the others stay in the pool, in front. */
    int (*execute)(void *self, void *shard_state, weft_batch *batch);
    /* After the commit, or when execute or commit failed: give batch->out back.  A committed block is in the shard's figures already. */
    void (*release)(void *self, weft_batch *batch, int committed);
    void *self;
} weft_executor;

/* Keeps blocks. */
typedef struct weft_store {
    /* The shard is used for the first time: open or make its storage.  *next_block: the number of its next block (1 for a new one).  Called in
     * weft_shard_get by its thread, once a name unless it fails, and one at a time: others that make a shard wait, so it must not make one
     * itself, nor suspend a fiber.  Needed if any function of the store is given. */
    int (*open)(void *self, const char *name, void **shard_state, uint64_t *next_block);
    /* Exactly one block, durable when this returns 0.  After a negative error there is no such block, and the next batch gets its number.
     * -EROFS, or an error for which `fatal` says so, stops the shard: see weft_shard_submit.  Others are not concerned. */
    int (*commit)(void *self, void *shard_state, const weft_batch *batch);
    bool (*fatal)(void *self, int error); /* may be NULL */
    /* In weft_lane_destroy. */
    void (*close)(void *self, void *shard_state);
    void *self;
} weft_store;

typedef struct weft_lane_config {
    size_t size; /* set by WEFT_LANE_CONFIG_INIT */
    unsigned workers; /* 0 = usable CPUs */
    int64_t
        quantum; /* ns, looked at after each cycle; WEFT_LANE_CONFIG_INIT sets 100 ms; 0 or less = one batch a turn */
    size_t max_batch; /* transactions in a batch; 0 = all that wait */
    size_t max_pool; /* of a shard, then -EAGAIN; 0 = 1,048,576; at most UINT32_MAX */
    weft_executor executor; /* all zero: does nothing with each transaction */
    weft_store store; /* all zero: blocks are counted, and kept nowhere */
    /* Told of each batch that failed, on the lane's thread, before its transactions are removed.  NULL: a line on stderr. */
    void (*failed)(void *arg, weft_shard *shard, const weft_batch *batch, int error);
    /* Told once of every transaction's end, when it has left the pool: committed in `block`, or 0 and an error: the batch's, -EIO (the shard
     * was stopped before its turn) or -ESHUTDOWN (so was the lane: from weft_lane_destroy).  May be NULL. */
    void (*done)(void *arg, weft_shard *shard, const weft_tx *tx, uint64_t block, int error);
    void *arg;
    const char *name; /* prefix of thread names; NULL = "lane" */
    /* Bytes of memory that the transactions in a shard's pool may take, then -EAGAIN; 0 = 256 MiB. Each takes its size and about 40 bytes. */
    size_t max_pool_bytes;
    /* The same for all shards of the lane together; 0 = 1 GiB. A shard keeps 4 KiB of it once it has been used. */
    size_t max_total_bytes;
} weft_lane_config;

#define WEFT_LANE_QUANTUM 100000000
#define WEFT_LANE_CONFIG_INIT                                                                                          \
    {sizeof(weft_lane_config), 0, WEFT_LANE_QUANTUM, 0, 0, {0, 0, 0}, {0, 0, 0, 0, 0}, 0, 0, 0, 0, 0, 0}

/* NULL: all defaults.  Returns 0; -EINVAL (more than 1,024 workers, max_pool, a store without open); -E2BIG (a config from the future); -ENOMEM;
 * -EAGAIN (no thread could be started; with fewer than asked for it goes on). */
WEFT_API WEFT_MUST_USE int weft_lane_create(const weft_lane_config *config, weft_lane **out);

/* Stop: every worker finishes the cycle it is in; shards still queued are not run.  When it returns, all threads have been joined.  Idempotent, and
 * several may call it at once: each returns when all is over.  Blocks the thread; not from a callback of the lane. */
WEFT_API void weft_lane_shutdown(weft_lane *lane);
/* Shut down, and free the lane with its shards.  Nobody may use either any more.  NULL: nothing. */
WEFT_API void weft_lane_destroy(weft_lane *lane);

/* The shard of that name, made if need be; the same every time.  Shards are never removed.  Finding one takes no lock; making one waits for
 * others that are being made.  Any thread.
 * Returns 0; -EINVAL (empty, or longer than 63 bytes); -ENOMEM; what the store's open returned; -ESHUTDOWN. */
WEFT_API int weft_shard_get(weft_lane *lane, const char *name, weft_shard **out);
/* The same, but only if it exists; NULL otherwise. */
WEFT_API weft_shard *weft_shard_find(weft_lane *lane, const char *name);
/* All of them: calls visit for each, the newest first; those made meanwhile are left out. */
WEFT_API void weft_shard_each(weft_lane *lane, void (*visit)(weft_shard *shard, void *arg), void *arg);

/* Add a transaction to the pool, then schedule the shard.
 *
 * *id (may be NULL) becomes its number in this shard, from 1, in the order in which they run. What was accepted is executed at most once.
 *
 * Returns 0, or
 *   -EINVAL     no shard; data is NULL with a size; larger than max_pool_bytes
 *   -EAGAIN     the pool has max_pool transactions or max_pool_bytes, or all pools have max_total_bytes; retry later
 *   -ENOMEM     no memory
 *   -EIO        the shard is stopped: a commit failed fatally
 *   -ESHUTDOWN  the lane is shut down
 * May be called from any thread, fiber or task. Does not suspend. */
WEFT_API int weft_shard_submit(weft_shard *shard, const void *data, size_t size, uint64_t *id);
/* All of them in a row, or none; their numbers follow *first_id. The ids in `txs` are not read. As weft_shard_submit, and -EINVAL for more than max_pool or
 * max_pool_bytes can hold. */
WEFT_API int weft_shard_submit_many(weft_shard *shard, const weft_tx *txs, size_t count, uint64_t *first_id);

/* Idle -> Pending, to the back of the queue, and one worker is woken; a shard that is Pending or Running is left alone.  (weft_shard_submit does
 * this.)  True: it was idle, and is in the queue.  False also when it is stopped, or the lane shut down. */
WEFT_API bool weft_shard_schedule(weft_shard *shard);

/* Let a stopped shard take transactions again.
 *
 * `prepare` (may be NULL) runs on the calling thread, while no worker runs the shard: it repairs or reloads the store's state, and may change
 * *next_block, the number of the next block. If it returns a negative error the shard stays as it was. A shard that is not stopped goes on after it.
 *
 * Returns 0, or
 *   -EINVAL     no shard
 *   -EBUSY      the shard is pending or running; retry later
 *   -ESHUTDOWN  the lane is shut down
 *   or the error of `prepare`
 * May be called from any thread, fiber or task. Does not suspend. */
WEFT_API int weft_shard_restart(weft_shard *shard, int (*prepare)(void *arg, void *shard_state, uint64_t *next_block),
                                void *arg);

/* -- The environment ---------------------------------------------------------------------------------- */
/* Cycles that begin from now on see it, whole.  Its version is counted by the lane.  Any thread. */
WEFT_API void weft_lane_set_env(weft_lane *lane, const weft_block_env *env);
WEFT_API void weft_lane_env(weft_lane *lane, weft_block_env *out);

/* -- Looking ------------------------------------------------------------------------------------------ */
typedef enum weft_shard_state {
    WEFT_SHARD_IDLE = 0,
    WEFT_SHARD_PENDING = 1,
    WEFT_SHARD_RUNNING = 2,
    WEFT_SHARD_STOPPED = 3
} weft_shard_state;
typedef struct weft_shard_info {
    const char *name;
    weft_shard_state state;
    uint64_t pooled; /* with the batch under way */
    uint64_t block; /* the last one */
    uint64_t committed, failed; /* transactions */
    uint64_t turns, cycles; /* a cycle without transactions does not count */
} weft_shard_info;
/* Each figure is right, but they may be of different moments. */
WEFT_API void weft_shard_info_read(weft_shard *shard, weft_shard_info *out);
/* Bytes that the transactions in the shard's pool take, and in all pools of the lane (rounded up to the shards' reservations). */
WEFT_API uint64_t weft_shard_pooled_bytes(weft_shard *shard);
WEFT_API uint64_t weft_lane_pooled_bytes(weft_lane *lane);
/* What the store's open gave. */
WEFT_API void *weft_shard_store_state(weft_shard *shard);
WEFT_API unsigned weft_lane_workers(const weft_lane *lane);
/* Shards in the queue, and how often a worker was woken. */
WEFT_API uint64_t weft_lane_queued(weft_lane *lane);
WEFT_API uint64_t weft_lane_wakes(weft_lane *lane);

WEFT_EXTERN_C_END
#endif
