/* index.h - where a transaction is: from its id to its block; and the head, which knows it all.
 *
 * What.   Ids are random: a B-tree of them would change one page a transaction.  So each block adds one sorted run of 16 bytes a transaction, and 16 runs
 *         of a level become one of the next, in the same durable transaction as the block.  A run of RUN_MAX entries or more stays as it is.
 * Run.    CRC, count, then entries in order: the id's first 8 bytes (high byte first), block << 20 | index.  Only the record itself says whose it is.
 * Head.   magic, format, number and hash of the last block, transactions so far, next run's number, runs (oldest first), the shard's name, CRC.
 */
#ifndef WEFT_CMD_INDEX_H
#define WEFT_CMD_INDEX_H

#include "bytes.h"
#include "keep.h"
#include "ledger.h"

enum { RUN_FANOUT = 16, RUN_MAX = 1 << 22, RUNS_MAX = 1 << 16 };

struct run {
    uint64_t seq; /* its key */
    uint32_t level, count;
};
struct head {
    uint64_t number, txs, next_run;
    hash32 hash;
    char shard[64];
    struct bytes runs; /* struct run */
};
static inline size_t head_run_count(const struct head *head) { return head->runs.size / sizeof(struct run); }
static inline struct run *head_runs(const struct head *head) { return (struct run *)(void *)head->runs.data; }

void head_encode(const struct head *head, struct bytes *out);
/* The caller frees out->runs, also after a failure.  0; -EBADMSG; -ENOMEM. */
int head_decode(const void *data, size_t size, struct head *out);

struct place_of {
    uint64_t prefix, where;
};
static inline uint64_t where_of(uint64_t block, uint32_t index) { return block << 20 | index; }
uint64_t prefix_of(const hash32 *id);

/* One block's entries, in any order, as a run: merged with what is due.  Changes head->runs and next_run; `run` gets the new run's bytes, `gone` the
 * numbers (uint64_t) of those that are in it now.  0; -ENOMEM; -EBADMSG; -EIO. */
int index_add(struct head *head, struct keep_view *view, struct place_of *entries, size_t count, struct bytes *run,
              struct bytes *gone);
/* In keep_use: all places an id may be at: visit returns not 0 to end.  That, 0, or an error. */
int index_find(const struct head *head, struct keep_view *view, const hash32 *id,
               int (*visit)(void *arg, uint64_t block, uint32_t index), void *arg);
/* A run's entries, checked.  0 or -EBADMSG. */
int run_open(const void *data, size_t size, const unsigned char **entries, size_t *count);
static inline struct place_of run_entry(const unsigned char *entries, size_t i) {
    return (struct place_of){get64(entries + 16 * i), get64(entries + 16 * i + 8)};
}

enum { NUMBER_KEY = 9 };
/* The key of a block ('b') or run ('i'). */
static inline void number_key(unsigned char letter, uint64_t number, unsigned char key[NUMBER_KEY]) {
    key[0] = letter;
    for (int i = 0; i < 8; i++)
        key[1 + i] = (unsigned char)(number >> (56 - 8 * i));
}

#endif
