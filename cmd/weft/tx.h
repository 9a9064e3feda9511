/* tx.h - a transaction as bytes: made by clients, kept in blocks.
 *
 *     1 byte    the format: 1
 *     1 byte    how many arguments
 *     8, 8      nonce, gas (0: the node's limit)
 *     executor, method, sender: 1 byte of length, the bytes, a zero byte
 *     each argument: 4 bytes of length, the bytes
 *
 * One transaction has exactly one encoding, so its hash names it.
 */
#ifndef WEFT_CMD_TX_H
#define WEFT_CMD_TX_H

#include "bytes.h"
#include "ledger.h"

enum {
    TX_NAME_MAX = 32,   /* executor, method: a-z 0-9 _ - */
    TX_SENDER_MAX = 64, /* printable, UTF-8 */
    TX_ARGS_MAX = 16,
    TX_SIZE_MAX = 256 * 1024,
};

struct tx_arg {
    const void *data;
    size_t size;
};

struct tx {
    const char *executor, *method, *sender; /* strings */
    uint64_t nonce, gas;
    unsigned count;
    struct tx_arg args[TX_ARGS_MAX];
};

/* Append its bytes.  0; -EINVAL (a name, the nonce or the size is not allowed: *why says which); -ENOMEM.  On failure nothing is appended. */
int tx_encode(const struct tx *tx, struct bytes *out, const char **why);
/* The texts and arguments point into `data`.  0; -EINVAL, and *why. */
int tx_decode(const void *data, size_t size, struct tx *out, const char **why);
/* Its id in a shard. */
hash32 tx_id(const char *shard, const void *data, size_t size);

/* 64 digits and a zero byte; and back: false if it is not that. */
void hash_to_text(const hash32 *hash, char text[65]);
bool hash_from_text(const char *text, hash32 *out);

/* 1 to 63 bytes of UTF-8 without control characters. */
bool shard_name_is_valid(const char *name);
/* Valid UTF-8 without control characters. */
bool text_is_printable(const char *text, size_t size);
/* Valid UTF-8. */
bool text_is_utf8(const char *text, size_t size);

#endif
