/* ledger.h - shards with a durable store and executors: all of the node but its outside.
 *
 * A ledger is a lane of shards (weft/shard.h), a store that keeps each block in one durable transaction, and the executors `kv` and
 * `lua`.  Clients hand in transactions; a block holds what one batch did.  A receipt is visible only after its block is durable.
 *
 * Transactions are bytes (tx.h makes and reads them): executor, method, sender, nonce, gas, arguments.  A transaction's id is the
 * hash of its bytes and its shard's name.  A sender's nonces in a shard count 1, 2, 3, ...: a used one is refused.
 *
 * All functions may be called by any thread or fiber; those that read the store do not suspend, and take microseconds.
 */
#ifndef WEFT_CMD_LEDGER_H
#define WEFT_CMD_LEDGER_H

#include <weft/shard.h>

typedef struct ledger ledger;
typedef struct hash32 {
    unsigned char bytes[32];
} hash32;

enum tx_status {
    TX_UNKNOWN = 0,
    TX_PENDING = 1,  /* in the pool, or in a batch that is not durable yet */
    TX_OK = 2,       /* in a block */
    TX_FAILED = 3,   /* in a block, without effect but its nonce: the receipt's reason says why */
    /* Not in a block: its batch failed, or its shard stopped.  Forgotten after a while.  After a commit that failed, which stops the shard, a restart may
     * find the block on the disk all the same: ask for the status again before sending it anew. */
    TX_REFUSED = 4,
};

struct ledger_block {
    uint64_t number;
    hash32 parent, hash;
    weft_block_env env;
    uint64_t time; /* ms since 1970, when it was made */
    uint32_t txs, failed;
    uint32_t writes; /* keys in the state's diff */
};

struct ledger_receipt {
    hash32 tx;
    uint64_t block;
    uint32_t index; /* in its block */
    enum tx_status status; /* TX_OK or TX_FAILED */
    uint64_t gas; /* used */
    const char *reason; /* of a failure; "" otherwise */
    const void *output; /* what it returned: JSON text, may be empty */
    size_t output_size;
};

/* What the outside is told when a block has become durable, on a lane's thread: must be quick.  Without memory for them the receipts are left out: then
 * count is less than block->txs, and they can be read. */
typedef void (*ledger_told_fn)(void *arg, weft_shard *shard, const struct ledger_block *block,
                               const struct ledger_receipt *receipts, size_t count);

struct ledger_config {
    const char *dir; /* NULL: in memory, nothing is kept */
    unsigned workers; /* lane threads; 0 = usable CPUs, four times as many with a directory: they wait for the disk */
    int64_t quantum; /* ns */
    size_t max_pool; /* transactions that wait in a shard; 0 = 100,000 */
    size_t max_batch; /* 0 = 4,096 */
    size_t max_shards; /* 0 = 16,384 */
    size_t map_size; /* largest size of a shard's store; 0 = 1 GiB (address space, not disk) */
    uint64_t gas_limit; /* of a transaction that names none, and the most it may; 0 = 10,000,000 */
    uint64_t block_gas; /* no further transaction is begun beyond it; 0 = 100,000,000: about a second */
    size_t lua_memory; /* bytes a contract may use; 0 = 8 MiB */
    int64_t lua_time; /* ns of a CPU, likewise; 0 = 2 s */
    ledger_told_fn told;
    void *arg;
    size_t max_pool_bytes; /* bytes of transactions that wait in a shard; 0 = 64 MiB */
    size_t max_total_bytes; /* the same for all shards together; 0 = 512 MiB */
    size_t other_descriptors; /* that open shards leave to the rest of the process, or half of all; 0 = 64 */
};

/* Open or make a ledger, with all shards that its directory has; one that is damaged, or cannot be read, is there and stopped.  On failure `why` gets a sentence.
 * Returns 0; -EBUSY (another node uses the directory); -EPROTO (a store of another version); -errno. */
int ledger_open(const struct ledger_config *config, ledger **out, char *why, size_t room);
/* Finish the batches under way, and close.  Transactions in the pools are lost: they were never acknowledged by a receipt. */
void ledger_close(ledger *ledger);
/* No more transactions are taken (-ESHUTDOWN); wait until all pools are empty, or `deadline_ms` have passed; then what runs
 * gives up.  True: empty. */
bool ledger_drain(ledger *ledger, int64_t deadline_ms);
weft_lane *ledger_lane(ledger *ledger);

/* Into the pool of a shard, made if need be, then scheduled: all of them or none; what is refused for its bytes or nonces makes no shard.  ids[i]: of the i-th.
 * Returns 0; -EINVAL (bytes that are no transaction, a bad name: `why` says so); -EAGAIN (the pool, or all pools together, are full: try later); -EALREADY (one of them was
 * taken before, or its nonce is used); -EIO (the shard is stopped); -EUSERS (too many shards); -ENOSPC (no
 * room on the disk to make the shard); -ESHUTDOWN; -ENOMEM. */
int ledger_submit(ledger *ledger, const char *shard, const weft_tx *txs, size_t count, hash32 *ids, char *why,
                  size_t room);

/* Read a stopped shard's store anew, and take transactions again. For one that is not stopped: nothing. Blocks the thread.
 *
 * Returns 0, or
 *   -ENOENT     no such shard
 *   -EAGAIN     its last turn has not ended; retry
 *   -ENOTRECOVERABLE  a write met a page that could not be read, and was left in the middle; only a restart of the node helps
 *   -EIO        the disk still cannot read it
 *   -EBADMSG    it is damaged
 *   -ESHUTDOWN  the node is stopping */
int ledger_shard_restart(ledger *ledger, const char *shard);

/* Reads.  `use` is called at most once, during the call, with memory that is valid only then.  Returns 0 and calls it; -ENOENT;
 * -EIO (the disk cannot read it: the shard is stopped from then on); -EBADMSG (damaged); -ENOMEM. */
/* The same figures as the lane's, but a shard whose store could not be read is stopped, from the moment that was seen. */
void ledger_shard_info(weft_shard *shard, weft_shard_info *out);
/* -EIO and the like: the store cannot tell. */
int ledger_tx_look(ledger *ledger, const char *shard, const hash32 *tx, enum tx_status *out);
/* Why a transaction was refused, in words; "": it was not, or that is forgotten. */
const char *ledger_refusal(ledger *ledger, const char *shard, const hash32 *tx);
/* The same; TX_UNKNOWN then. */
enum tx_status ledger_tx_status(ledger *ledger, const char *shard, const hash32 *tx);
int ledger_receipt_get(ledger *ledger, const char *shard, const hash32 *tx,
                       void (*use)(void *arg, const struct ledger_receipt *receipt), void *arg);
/* number 0: the last.  The ids of its transactions follow it. */
int ledger_block_get(ledger *ledger, const char *shard, uint64_t number,
                     void (*use)(void *arg, const struct ledger_block *block, const hash32 *txs), void *arg);
int ledger_state_get(ledger *ledger, const char *shard, const void *key, size_t key_size,
                     void (*use)(void *arg, const void *value, size_t size), void *arg);
/* What a transaction did, in order: reads, writes, events, logs.  kind: "get", "put", "del", "emit", "log". */
struct ledger_step {
    const char *kind;
    const void *key, *value;
    size_t key_size, value_size;
};
int ledger_trace_get(ledger *ledger, const char *shard, const hash32 *tx,
                     void (*use)(void *arg, const struct ledger_step *steps, size_t count), void *arg);
/* A sender's last used nonce; 0: none. */
uint64_t ledger_nonce(ledger *ledger, const char *shard, const char *sender);
/* The same, and the one that its next transaction must have: behind those that wait.  0 or -errno. */
int ledger_nonces(ledger *ledger, const char *shard, const char *sender, uint64_t *used, uint64_t *next);

/* Walk a directory's chains without a node: hashes, checksums, parents, receipts, state.  Each finding is told; `progress` may be NULL.
 * Returns the number of findings; -EBUSY (a node uses it); -EPROTO (a store of another version, or none); -errno if it could not be read. */
int64_t ledger_verify(const char *dir, void (*finding)(void *arg, const char *shard, uint64_t block, const char *what),
                      void (*progress)(void *arg, const char *shard, uint64_t blocks), void *arg);
/* Every block, receipt and state entry as JSON lines (export.c shows them).  Returns 0; -ENOENT (no such shard); -EBADMSG (damaged: verify says
 * where); -EBUSY, -EPROTO and -errno as above. */
int ledger_export(const char *dir, const char *shard_or_null, int fd);

#endif
