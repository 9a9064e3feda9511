/* bytes.h - bytes that grow while they are written, and are read without ever going past their end.
 *
 * Integers are little endian.  A writer that runs out of memory, or a reader that runs out of bytes, stays failed: ask once, at the end.
 */
#ifndef WEFT_CMD_BYTES_H
#define WEFT_CMD_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plat/fault.h"

/* All memory of the ledger: the fault tests make any of it fail. */
static inline void *mem_resize(void *memory, size_t size) { return wefti_fault_here() ? NULL : realloc(memory, size); }
static inline void *mem_new(size_t size) { return wefti_fault_here() ? NULL : calloc(1, size); }

static inline void put32(unsigned char *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}
static inline void put64(unsigned char *at, uint64_t value) {
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}
static inline uint32_t get32(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static inline uint64_t get64(const unsigned char *at) { return get32(at) | (uint64_t)get32(at + 4) << 32; }

/* -- Writing -------------------------------------------------------------------------------------------------- */
struct bytes {
    unsigned char *data;
    size_t size, room;
    bool failed; /* no memory: what was added since is missing */
};

/* Room for `more` bytes at the end, which count as written; NULL: failed. */
static inline unsigned char *bytes_add(struct bytes *bytes, size_t more) {
    if (bytes->failed || more > SIZE_MAX / 4 - bytes->size) {
        bytes->failed = true;
        return NULL;
    }
    if (bytes->size + more > bytes->room) {
        size_t room = bytes->room ? bytes->room : 256;
        while (room < bytes->size + more)
            room *= 2;
        unsigned char *data = mem_resize(bytes->data, room);
        if (!data) {
            bytes->failed = true;
            return NULL;
        }
        bytes->data = data;
        bytes->room = room;
    }
    bytes->size += more;
    return bytes->data ? bytes->data + bytes->size - more : NULL; /* nothing to nothing */
}

static inline void bytes_put(struct bytes *bytes, const void *data, size_t size) {
    unsigned char *at = bytes_add(bytes, size);
    if (at && size)
        memcpy(at, data, size);
}
static inline void bytes_put8(struct bytes *bytes, unsigned value) {
    unsigned char *at = bytes_add(bytes, 1);
    if (at)
        *at = (unsigned char)value;
}
static inline void bytes_put32(struct bytes *bytes, uint32_t value) {
    unsigned char *at = bytes_add(bytes, 4);
    if (at)
        put32(at, value);
}
static inline void bytes_put64(struct bytes *bytes, uint64_t value) {
    unsigned char *at = bytes_add(bytes, 8);
    if (at)
        put64(at, value);
}
/* The length, then the bytes. */
static inline void bytes_put_sized(struct bytes *bytes, const void *data, size_t size) {
    bytes_put32(bytes, (uint32_t)size);
    bytes_put(bytes, data, size);
}
static inline void bytes_clear(struct bytes *bytes) { bytes->size = 0, bytes->failed = false; }
static inline void bytes_free(struct bytes *bytes) {
    free(bytes->data);
    *bytes = (struct bytes){0};
}

/* -- Reading -------------------------------------------------------------------------------------------------- */
struct reader {
    const unsigned char *at, *end;
    bool bad; /* something was missing: what was read since is 0 or NULL */
};

static inline struct reader reader_of(const void *data, size_t size) {
    const unsigned char *at = data;
    return (struct reader){at, at ? at + size : at, false};
}
/* The next bytes where they are, or NULL. */
static inline const unsigned char *reader_take(struct reader *reader, size_t size) {
    if (reader->bad || (size_t)(reader->end - reader->at) < size) {
        reader->bad = true;
        return NULL;
    }
    reader->at += size;
    return reader->at - size;
}
static inline unsigned reader_8(struct reader *reader) {
    const unsigned char *at = reader_take(reader, 1);
    return at ? *at : 0;
}
static inline uint32_t reader_32(struct reader *reader) {
    const unsigned char *at = reader_take(reader, 4);
    return at ? get32(at) : 0;
}
static inline uint64_t reader_64(struct reader *reader) {
    const unsigned char *at = reader_take(reader, 8);
    return at ? get64(at) : 0;
}
static inline const unsigned char *reader_sized(struct reader *reader, size_t *size) {
    *size = reader_32(reader);
    const unsigned char *at = reader_take(reader, *size);
    if (!at)
        *size = 0;
    return at;
}
/* All of it was read, and nothing was missing. */
static inline bool reader_is_done(const struct reader *reader) { return !reader->bad && reader->at == reader->end; }

#endif
