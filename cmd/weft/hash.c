/* hash.c - BLAKE2b (RFC 7693) and CRC-32C (Castagnoli), in plain C. */
#include "hash.h"

#include "bytes.h"

static const uint64_t start[8] = {UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b),
                                  UINT64_C(0x3c6ef372fe94f82b), UINT64_C(0xa54ff53a5f1d36f1),
                                  UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
                                  UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179)};

static const unsigned char order[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}};

static inline uint64_t turn(uint64_t value, int by) { return value >> by | value << (64 - by); }

#define MIX(a, b, c, d, x, y)                                                                                          \
    do {                                                                                                               \
        v[a] += v[b] + (x), v[d] = turn(v[d] ^ v[a], 32);                                                              \
        v[c] += v[d], v[b] = turn(v[b] ^ v[c], 24);                                                                    \
        v[a] += v[b] + (y), v[d] = turn(v[d] ^ v[a], 16);                                                              \
        v[c] += v[d], v[b] = turn(v[b] ^ v[c], 63);                                                                    \
    } while (0)

static void compress(struct hash *hash, const unsigned char *block, bool last) {
    uint64_t v[16], m[16];
    for (int i = 0; i < 8; i++)
        v[i] = hash->state[i], v[i + 8] = start[i];
    for (int i = 0; i < 16; i++)
        m[i] = get64(block + 8 * i);
    v[12] ^= hash->count;
    v[14] ^= last ? UINT64_MAX : 0;
#pragma GCC unroll 12 /* so that the order is constants: a quarter fewer instructions */
    for (int round = 0; round < 12; round++) {
        const unsigned char *s = order[round];
        MIX(0, 4, 8, 12, m[s[0]], m[s[1]]);
        MIX(1, 5, 9, 13, m[s[2]], m[s[3]]);
        MIX(2, 6, 10, 14, m[s[4]], m[s[5]]);
        MIX(3, 7, 11, 15, m[s[6]], m[s[7]]);
        MIX(0, 5, 10, 15, m[s[8]], m[s[9]]);
        MIX(1, 6, 11, 12, m[s[10]], m[s[11]]);
        MIX(2, 7, 8, 13, m[s[12]], m[s[13]]);
        MIX(3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++)
        hash->state[i] ^= v[i] ^ v[i + 8];
}

void hash_begin(struct hash *hash, const void *key, size_t key_size) {
    memcpy(hash->state, start, sizeof start);
    hash->state[0] ^= UINT64_C(0x01010000) ^ (uint64_t)key_size << 8 ^ sizeof(hash32);
    hash->count = 0;
    hash->filled = 0;
    memset(hash->block, 0, sizeof hash->block);
    if (key_size) {
        memcpy(hash->block, key, key_size);
        hash->filled = sizeof hash->block;
    }
}

void hash_add(struct hash *hash, const void *data, size_t size) {
    const unsigned char *at = data;
    while (size) {
        if (hash->filled == sizeof hash->block) { /* only now: the last block is closed in another way */
            hash->count += sizeof hash->block;
            compress(hash, hash->block, false);
            hash->filled = 0;
        }
        if (hash->filled == 0 && size > sizeof hash->block) { /* without the copy */
            hash->count += sizeof hash->block;
            compress(hash, at, false);
            at += sizeof hash->block, size -= sizeof hash->block;
            continue;
        }
        size_t part = sizeof hash->block - hash->filled;
        part = part < size ? part : size;
        memcpy(hash->block + hash->filled, at, part);
        hash->filled += part, at += part, size -= part;
    }
}

hash32 hash_end(struct hash *hash) {
    hash32 out;
    hash->count += hash->filled;
    memset(hash->block + hash->filled, 0, sizeof hash->block - hash->filled);
    compress(hash, hash->block, true);
    for (int i = 0; i < 4; i++)
        put64(out.bytes + 8 * i, hash->state[i]);
    return out;
}

/* -- CRC-32C ----------------------------------------------------------------------------------------------------- */

/* Eight tables, made once at start: threads only read them. */
static uint32_t table[8][256];

__attribute__((constructor)) static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
        table[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

uint32_t crc32c(uint32_t crc, const void *data, size_t size) {
    const unsigned char *at = data;
    crc = ~crc;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t part = get64(at) ^ crc;
        crc = table[7][part & 255] ^ table[6][part >> 8 & 255] ^ table[5][part >> 16 & 255] ^
              table[4][part >> 24 & 255] ^ table[3][part >> 32 & 255] ^ table[2][part >> 40 & 255] ^
              table[1][part >> 48 & 255] ^ table[0][part >> 56];
    }
    for (; size; at++, size--)
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 255];
    return ~crc;
}
