/* chunks.h - compiled contracts, so that a contract is not compiled at every call.
 *
 * The key is the hash of the source. A chunk is what lua_dump wrote on this node: it is never read from a disk or from a client. The cache is
 * bounded by entries and bytes, and evicts the chunk that was used longest ago. Gas does not depend on whether a chunk is found.
 */
#ifndef WEFT_CMD_CHUNKS_H
#define WEFT_CMD_CHUNKS_H

#include "bytes.h"
#include "hash.h"
#include "queue/lock.h"

enum { CHUNKS_MAX = 256, CHUNKS_BYTES = 16 << 20 };

struct chunk {
    hash32 source;
    _Atomic uint32_t refs;
    uint64_t used; /* under the cache's lock: when it was last found */
    size_t size;
    unsigned char code[];
};

struct chunks {
    struct wefti_lock lock;
    struct chunk *all[CHUNKS_MAX];
    size_t count, bytes;
    uint64_t clock;
};

/* The chunk of that source with a reference to it, or NULL. */
struct chunk *chunks_find(struct chunks *chunks, const hash32 *source);
/* A chunk with a reference to it, in the cache if it fits. NULL: no memory. */
struct chunk *chunks_add(struct chunks *chunks, const hash32 *source, const struct bytes *code);
void chunk_unref(struct chunk *chunk);
void chunks_free(struct chunks *chunks);

#endif
