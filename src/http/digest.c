/* digest.c - SHA-1 (FIPS 180-4) and base64 (RFC 4648). */
#include "http/digest.h"

#include <string.h>

static uint32_t rotate(uint32_t x, int n) { return x << n | x >> (32 - n); }

static void sha1_block(uint32_t h[5], const uint8_t *block) {
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t f = i < 20 ? (b & c) | (~b & d) : i >= 40 && i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
        uint32_t k = i < 20 ? 0x5a827999u : i < 40 ? 0x6ed9eba1u : i < 60 ? 0x8f1bbcdcu : 0xca62c1d6u;
        uint32_t next = rotate(a, 5) + f + e + k + w[i];
        e = d, d = c, c = rotate(b, 30), b = a, a = next;
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
}

void wefti_sha1(const void *bytes, size_t size, uint8_t digest[WEFTI_SHA1_SIZE]) {
    uint32_t h[5] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u};
    const uint8_t *at = bytes;
    size_t left = size;
    for (; left >= 64; left -= 64, at += 64)
        sha1_block(h, at);
    /* The rest, a bit, zeros, and the length in bits: one block more, or two. */
    uint8_t last[128] = {0};
    size_t end = left < 56 ? 64 : 128;
    if (left)
        memcpy(last, at, left);
    last[left] = 0x80;
    for (int i = 0; i < 8; i++)
        last[end - 1 - (size_t)i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
    sha1_block(h, last);
    if (end == 128)
        sha1_block(h, last + 64);
    for (int i = 0; i < WEFTI_SHA1_SIZE; i++)
        digest[i] = (uint8_t)(h[i / 4] >> 8 * (3 - i % 4));
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t wefti_base64(const void *bytes, size_t size, char *text) {
    const uint8_t *from = bytes;
    size_t length = 0;
    for (size_t i = 0; i < size; i += 3) {
        size_t rest = size - i;
        uint32_t three =
            (uint32_t)from[i] << 16 | (rest > 1 ? (uint32_t)from[i + 1] << 8 : 0) | (rest > 2 ? from[i + 2] : 0);
        text[length++] = letters[three >> 18];
        text[length++] = letters[three >> 12 & 63];
        text[length++] = rest > 1 ? letters[three >> 6 & 63] : '=';
        text[length++] = rest > 2 ? letters[three & 63] : '=';
    }
    text[length] = 0;
    return length;
}

int wefti_base64_size(const char *text, size_t size) {
    size_t pads = 0;
    if (size % 4 || size > 1u << 20)
        return -1;
    while (pads < 2 && pads < size && text[size - 1 - pads] == '=')
        pads++;
    uint32_t last = 0;
    for (size_t i = 0; i < size - pads; i++) {
        const char *letter = text[i] ? strchr(letters, text[i]) : NULL;
        if (!letter)
            return -1;
        last = (uint32_t)(letter - letters);
    }
    if (pads && (last & (pads == 2 ? 15u : 3u))) /* bits that stand for nothing */
        return -1;
    return (int)(size / 4 * 3 - pads);
}
