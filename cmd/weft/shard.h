/* shard.h - what the ledger knows about one shard, and what one batch makes.
 *
 * Who.    `head` is the runner's: the thread that runs the shard's turn, and whoever opens it.  `pending` is everyone's, under the lock.  Readers look
 *         into the keep, which has a head of its own for each moment.
 * Order.  A block becomes durable (commit), its transactions leave `pending` (release), the outside is told.  So who asks for a status looks at
 *         `pending` first, at the keep second: one that has left the first is in the second.
 */
#ifndef WEFT_CMD_SHARD_H
#define WEFT_CMD_SHARD_H

#include "exec.h"
#include "index.h"
#include "pending.h"
#include "queue/lock.h"

/* A block's times are never before its parent's, whatever the clock does. */
struct block_times {
    uint64_t time;      /* ms since 1970, when it was made */
    uint64_t timestamp; /* of its environment */
};

struct ledger_shard {
    struct ledger *ledger;
    char name[64];
    struct keep *keep;
    struct head head;
    struct block_times times; /* of its last block; the runner's, as `head` is */
    struct wefti_lock lock; /* pending; held while transactions go into the pool, so that nonces arrive in order */
    struct pending pending;
    _Atomic bool said; /* that its store cannot be read, or is damaged */
};

/* What a batch makes, from execute to release.  Kept for the next batch: its memory has the right size. */
struct made {
    struct made *next;
    struct overlay overlay;
    struct block_maker block;
    struct exec exec;
    weft_block_env env;
    struct ledger_block about;
    struct head head; /* after the block */
    struct block_write *diff;
    size_t diff_count;
    struct bytes places;  /* struct place_of: of its transactions */
    struct bytes refused; /* a byte a transaction of the batch: not in the block */
    struct bytes writes;  /* struct keep_write: pointers into what follows */
    struct bytes values, head_bytes, run, gone;
    uint64_t gas; /* of the block */
    bool contracts; /* one of its transactions ran a contract */
    int64_t began;
    int error; /* found while executing, but the shard's end: told by commit */
};

struct ledger {
    struct ledger_config config;
    struct place place;
    weft_lane *lane;
    size_t shards; /* under the lane's lock for making shards */
    bool starting; /* shards are those of the directory: one that is damaged does not keep the others from running */
    _Atomic bool draining;
    _Atomic bool ending; /* the time to drain is over: what runs gives up */
    struct chunks chunks;
    struct wefti_lock lock;
    struct made *spare;
    int64_t said;    /* when a failed batch was last told of */
    uint64_t unsaid; /* that were not, since */
};

/* In the pool a transaction is its id, then its bytes. */
static inline const hash32 *pooled_id(const weft_tx *tx) { return tx->data; }
static inline const unsigned char *pooled_bytes(const weft_tx *tx) {
    return (const unsigned char *)tx->data + sizeof(hash32);
}
static inline size_t pooled_size(const weft_tx *tx) { return tx->size - sizeof(hash32); }

/* -- batch.c: the lane's executor and store ------------------------------------------------------------------------- */
int batch_execute(void *self, void *shard_state, weft_batch *batch);
int batch_commit(void *self, void *shard_state, const weft_batch *batch);
void batch_release(void *self, weft_batch *batch, int committed);
bool batch_fatal(void *self, int error);
void batch_done(void *arg, weft_shard *shard, const weft_tx *tx, uint64_t block, int error);
void made_free(struct made *made);

/* -- read.c --------------------------------------------------------------------------------------------------------- */
/* A sender's last nonce in a keep; 0: none.  Or an error. */
int read_nonce(struct keep *keep, const char *sender, uint64_t *out);
/* After a look into a shard's keep: returns the error; if the disk could not read it, or what it read is damaged, says so, and the shard is stopped. */
int read_seen(struct ledger_shard *shard, int error);
/* In keep_use: a zeroed struct head; the caller frees its runs, also after a failure. */
int read_head(struct keep_view *view, void *head);
/* Of the last block: zeroes if there is none, or if it is damaged, which its readers will find. */
void read_times(struct keep *keep, uint64_t number, struct block_times *out);

#endif
