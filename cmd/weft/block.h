/* block.h - a block as bytes: what one batch did.
 *
 *     head      BLOCK_HEAD bytes: magic, format, size, number, parent, time, environment, counts, offsets, shard's name, CRC, hash
 *     records   one a transaction: size, CRC, index, id, its bytes, steps, status, gas, reason, output
 *     table     one a transaction: offset of its record, id; a CRC
 *     diff      keys that changed, with their new values; a CRC
 *
 * The hash covers everything but itself, and the parent's hash with it.  Where a part is read alone, its CRC is looked at.
 */
#ifndef WEFT_CMD_BLOCK_H
#define WEFT_CMD_BLOCK_H

#include "bytes.h"
#include "ledger.h"

enum {
    BLOCK_HEAD = 320,
    BLOCK_TXS_MAX = 1 << 20,
    BLOCK_SIZE_MAX = 128 << 20, /* no further transaction is begun beyond half of it */
};

enum step_kind { STEP_GET, STEP_PUT, STEP_DEL, STEP_EMIT, STEP_LOG, STEP_KINDS };
extern const char *const step_names[STEP_KINDS];

/* -- Making ------------------------------------------------------------------------------------------------------ */
struct block_maker {
    struct bytes bytes;  /* head and records, then the rest */
    struct bytes table;  /* grows beside it */
    size_t record;       /* offset of the one under way */
    size_t steps;        /* offset of its steps' size */
    uint32_t step_count; /* in it */
    uint32_t txs, failed;
};

void block_begin(struct block_maker *maker);
void block_record_begin(struct block_maker *maker, const hash32 *id, const void *tx, size_t size);
void block_step(struct block_maker *maker, enum step_kind kind, const void *key, size_t key_size, const void *value,
                size_t value_size);
void block_record_end(struct block_maker *maker, bool ok, uint64_t gas, const char *reason, const void *output,
                      size_t output_size);

struct block_write { /* one key of the diff */
    const void *key, *value; /* value NULL: gone */
    size_t key_size, value_size;
};
/* Close it: bytes.data is the block, *hash its hash.  0 or -ENOMEM. */
int block_end(struct block_maker *maker, const char *shard, const struct ledger_block *about,
              const struct block_write *diff, size_t count, hash32 *hash);
void block_maker_free(struct block_maker *maker);

/* -- Reading ------------------------------------------------------------------------------------------------------ */
struct block_view {
    const unsigned char *data;
    size_t size, table, diff;
    struct ledger_block about;
    char shard[64];
};
struct block_record {
    const unsigned char *raw; /* all of it */
    size_t raw_size;
    hash32 id;
    const void *tx;
    size_t tx_size;
    struct reader steps;
    uint32_t step_count;
    struct ledger_receipt receipt;
};

/* The head; the rest is not looked at.  0 or -EBADMSG. */
int block_open(const void *data, size_t size, struct block_view *out);
/* All of it: every CRC, every bound, the hash.  NULL, or what is wrong. */
const char *block_check(const struct block_view *view);
/* A transaction by its index, alone.  0; -ENOENT; -EBADMSG. */
int block_record_at(const struct block_view *view, uint32_t index, struct block_record *out);
/* The same of a block that was just made: without the CRC. */
int block_record_made(const struct block_view *view, uint32_t index, struct block_record *out);
/* Its bytes have been copied to there: it is read from the copy. */
void block_record_move(struct block_record *record, const unsigned char *to);
/* Its next step: false after the last, or when it is damaged (record->steps.bad). */
bool block_next_step(struct block_record *record, struct ledger_step *step);
/* The ids, with the table's CRC looked at; copied, since they are not aligned: the caller frees them, also after a failure (*out is NULL before).  0; -EBADMSG; -ENOMEM. */
int block_ids(const struct block_view *view, hash32 **out);
/* The diff's entries one by one, after its CRC was looked at: 0 or -EBADMSG, then true for each. */
int block_diff_begin(const struct block_view *view, struct reader *reader);
bool block_diff_next(struct reader *reader, struct block_write *write);

#endif
