/* hash.h - BLAKE2b with 32 bytes of result (RFC 7693), and CRC-32C.
 *
 * The hash names transactions and chains blocks; the CRC guards what is read alone, where a hash of the whole block would take too long.
 */
#ifndef WEFT_CMD_HASH_H
#define WEFT_CMD_HASH_H

#include "ledger.h"

struct hash {
    uint64_t state[8];
    uint64_t count;
    unsigned char block[128];
    size_t filled;
};

/* `key` (64 bytes at most, may be none) sets uses apart: equal bytes under different keys have unrelated hashes. */
void hash_begin(struct hash *hash, const void *key, size_t key_size);
void hash_add(struct hash *hash, const void *data, size_t size);
hash32 hash_end(struct hash *hash);

/* Go on with a CRC; begin with 0. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

#endif
