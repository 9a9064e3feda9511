/* chunks.c - the cache of compiled contracts (chunks.h). */
#include "chunks.h"

void chunk_unref(struct chunk *chunk) {
    if (chunk &&
        sub_acq_rel(&chunk->refs, 1) == 1) /* pairs with the other references' end: their reads come before the free */
        free(chunk);
}

struct chunk *chunks_find(struct chunks *chunks, const hash32 *source) {
    struct chunk *found = NULL;
    wefti_lock_take(&chunks->lock);
    for (size_t i = 0; i < chunks->count && !found; i++)
        if (!memcmp(&chunks->all[i]->source, source, sizeof *source))
            found = chunks->all[i];
    if (found) {
        found->used = ++chunks->clock;
        add_relaxed(&found->refs, 1); /* the cache has a reference, under the lock */
    }
    wefti_lock_give(&chunks->lock);
    return found;
}

/* Under the lock. */
static void evict_oldest(struct chunks *chunks) {
    size_t oldest = 0;
    for (size_t i = 1; i < chunks->count; i++)
        if (chunks->all[i]->used < chunks->all[oldest]->used)
            oldest = i;
    chunks->bytes -= chunks->all[oldest]->size;
    chunk_unref(chunks->all[oldest]);
    chunks->all[oldest] = chunks->all[--chunks->count];
}

struct chunk *chunks_add(struct chunks *chunks, const hash32 *source, const struct bytes *code) {
    struct chunk *chunk = mem_resize(NULL, sizeof *chunk + code->size);
    if (!chunk)
        return NULL;
    *chunk = (struct chunk){.source = *source, .size = code->size};
    memcpy(chunk->code, code->data, code->size);
    bool fits = code->size <= CHUNKS_BYTES / 4;
    store_relaxed(&chunk->refs, fits ? 2 : 1); /* nobody else has it */
    wefti_lock_take(&chunks->lock);
    while (fits && (chunks->count == CHUNKS_MAX || chunks->bytes + chunk->size > CHUNKS_BYTES))
        evict_oldest(chunks);
    if (fits) { /* two threads that compiled the same source add it twice: the older copy is evicted in time */
        chunk->used = ++chunks->clock;
        chunks->bytes += chunk->size;
        chunks->all[chunks->count++] = chunk;
    }
    wefti_lock_give(&chunks->lock);
    return chunk;
}

void chunks_free(struct chunks *chunks) {
    while (chunks->count)
        chunk_unref(chunks->all[--chunks->count]);
}
