/* lane.h - a lane: worker threads, one queue of shards in strict order.  Internal.
 *
 * What.   Shards that have something to do wait in one queue; any thread appends, the lane's own threads take from the front.
 * Words.  shard->word: the task word's lives IDLE, SCHEDULED (here: Pending) and RUNNING; nothing else of it is used.
 * Race.   submit: S1 add to the pool                     worker: W1 pool empty, or quantum used up: leave the loop
 *                 S2 IDLE -> SCHEDULED: append, wake             W2 RUNNING -> IDLE
 *                    else: nothing                               W3 pool not empty: S2
 * Claim.  At rest no shard is IDLE with something in its pool; a shard is in the queue at most once.
 * Why.    S1 and W3 hold the pool's lock.  If W3 does not see what S1 added, it came first, and S2 sees W2.  Only who makes it SCHEDULED
 *         appends it, and only from IDLE.
 *         W2 releases what the turn wrote last (callbacks after the pool's lock) to the next turn's to_running; S2 is a swap, and passes it on.
 * Batch.  Only the runner takes from a pool, and others only append: from a look under the lock on, the first n nodes and the links between them
 *         stay as they are until the runner removes them.  So the snapshot is copied, and n of any size removed, without holding up who submits.
 * Stop.   `stopped` is set under the pool's lock, with the pool emptied in the same section: who submits is either refused or told.
 * Restart Whoever restarts a shard takes a turn of its own, IDLE -> SCHEDULED -> RUNNING -> IDLE, without the queue. So it excludes workers as they exclude
 *         each other.
 * Bytes.  A shard reserves from the lane's total in pieces of 64 KiB, and gives them back when its pool has become small: a submission rarely touches the shared
 *         counter. The first 4 KiB are kept.
 * Sleep.  The queue's lock covers the list of sleeping workers: whoever appends takes the first of them out and wakes that one; whoever
 *         shuts down wakes all.  A worker looks at the queue under the lock before it joins the list.
 * Checked by.  test/model/shard.c, test/api/shard_*.c, test/fault/shard.c
 */
#ifndef WEFTI_SHARD_LANE_H
#define WEFTI_SHARD_LANE_H

#include <weft/shard.h>

#include "queue/lock.h"
#include "sched/park.h"
#include "task/word.h"

#include "base/link.h"

#define WEFTI_SHARD_NAME 64u
#ifndef WEFTI_SHARD_BUCKETS
#define WEFTI_SHARD_BUCKETS 16384u
#endif
#define WEFTI_SHARD_BATCH 64u /* transactions that a worker has room for without asking for memory */

struct wefti_tx {
    struct wefti_link link;
    weft_tx tx; /* data points behind this */
};

struct weft_shard {
    struct wefti_link link; /* in the lane's queue */
    wefti_word word;
    struct weft_lane *lane;
    struct weft_shard *next;      /* in its bucket */
    struct weft_shard *next_made; /* all, newest first */
    char name[WEFTI_SHARD_NAME];
    void *state; /* the store's */

    struct wefti_lock lock; /* the pool */
    struct wefti_chain pool;
    uint64_t next_id;
    size_t bytes;    /* of the pool */
    size_t reserved; /* of the lane's max_total_bytes; at least `bytes` */

    /* Written by whoever runs it. */
    _Atomic uint64_t block; /* the last one */
    _Atomic uint64_t committed, failed, turns, cycles;
    _Atomic bool stopped; /* set under the lock */
};

struct wefti_lane_worker {
    struct wefti_link link; /* in the list of sleepers; first */
    struct weft_lane *lane;
    struct wefti_park park;
    struct wefti_thread thread;
    weft_tx *txs; /* the batch under way: `few`, or memory of its own */
    size_t room;
    weft_tx few[WEFTI_SHARD_BATCH];
};

struct weft_lane {
    weft_lane_config config;
    char name[12];

    struct wefti_lock lock; /* queue, sleepers, setting shutdown */
    struct wefti_chain queue;
    struct wefti_chain sleepers;
    _Atomic bool shutdown;
    _Atomic uint64_t wakes;
    _Atomic size_t reserved; /* by all shards, of max_total_bytes */

    struct wefti_lock env_lock;
    weft_block_env env;

    struct wefti_lock made_lock; /* making shards */
    _Atomic(struct weft_shard *) made;
    _Atomic(struct weft_shard *) bucket[WEFTI_SHARD_BUCKETS];

    unsigned workers;
    _Atomic uint32_t joined; /* 1: shutdown is over */
    struct wefti_lane_worker *worker;
};

static inline bool wefti_lane_is_shut(struct weft_lane *lane) { return load_relaxed(&lane->shutdown); } /* a look */

/* -- lane.c: the queue ------------------------------------------------------------------------------------- */
/* Append a shard that has become SCHEDULED, and wake one worker.  False: shut down. */
bool wefti_lane_enqueue(struct weft_lane *lane, struct weft_shard *shard);
/* -- shard.c ------------------------------------------------------------------------------------------------ */
/* One turn of a shard that was taken out of the queue. */
void wefti_shard_turn(struct weft_shard *shard, struct wefti_lane_worker *worker);
/* Give memory of the worker's batch back, if it has more than it needs at rest. */
void wefti_lane_trim(struct wefti_lane_worker *worker);
/* Nobody runs it any more: what is left in its pool is told, and it is freed. */
void wefti_shard_free(struct weft_shard *shard);
/* -- memory.c ----------------------------------------------------------------------------------------------- */
extern const weft_store wefti_store_memory;

#endif
