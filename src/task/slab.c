/* slab.c - where task objects live (slab.h has the design). */
#include "task/slab.h"

#include "plat/plat.h"

const uint16_t wefti_slab_size[WEFTI_SLAB_CLASSES] = {64, 128, 192, 256, 384, 512};

#define UNIT WEFTI_SLAB_UNIT
#define CHUNK_HEADER                                                                                                   \
    ((sizeof(struct wefti_chunk) + 127) &                                                                              \
     ~(size_t)127) /* so that slots of 128 bytes are aligned, and fetched as a pair of lines */

static struct weft_task *chunk_slot(struct wefti_chunk *chunk, uint32_t index) {
    return (struct weft_task *)(void *)((char *)chunk + CHUNK_HEADER + (size_t)index * chunk->slot_size);
}

static uint32_t chunk_capacity(const struct wefti_chunk *chunk) {
    return (uint32_t)((WEFTI_SLAB_CHUNK - CHUNK_HEADER) / chunk->slot_size);
}

void wefti_slab_init(struct wefti_slab *slab, struct weft_runtime *rt) { *slab = (struct wefti_slab){.rt = rt}; }

void wefti_slab_fini(struct wefti_slab *slab) {
    struct wefti_chunk *chunk = load_relaxed(&slab->chunks); /* nobody else is left */
    while (chunk) {
        struct wefti_chunk *next = chunk->next;
        if (WEFTI_UNLIKELY(chunk->retired))
            wefti_unmap_reserve(chunk, WEFTI_SLAB_CHUNK);
        else
            wefti_unmap(chunk, WEFTI_SLAB_CHUNK);
        chunk = next;
    }
}

/* Under the lock: one slot never used before. */
static struct weft_task *carve(struct wefti_slab *slab, unsigned size_class) {
    struct wefti_slab_depot *depot = &slab->classes[size_class];
    struct wefti_chunk *chunk = depot->carving;
    if (!chunk || load_own(&chunk->carved) == chunk_capacity(chunk)) {
        chunk = wefti_map(WEFTI_SLAB_CHUNK);
        if (!chunk)
            return NULL;
        wefti_map_large(chunk, WEFTI_SLAB_CHUNK, depot->mapped);
        depot->mapped += WEFTI_SLAB_CHUNK;
        chunk->rt = slab->rt;
        chunk->slot_size = wefti_slab_size[size_class];
        chunk->next = load_own(&slab->chunks);
        store_release(&slab->chunks, chunk); /* pairs with walk */
        depot->carving = chunk;
    }
    uint32_t index = load_own(&chunk->carved);
    struct weft_task *task = chunk_slot(chunk, index);
    wefti_map_ahead(chunk, (size_t)((char *)task - (char *)chunk), chunk->slot_size, WEFTI_SLAB_CHUNK);
    wefti_memory_dead((char *)task + WEFTI_DEAD_FROM, wefti_slab_size[size_class] - WEFTI_DEAD_FROM);
    store_relaxed(&chunk->carved, index + 1); /* an empty slot is as it was mapped; a task is published by its word */
    return task;
}

/* Under the lock: up to so many of what the maps have, from the lowest address of a chunk on, to *end.  How many. */
static uint32_t find(struct wefti_slab_depot *depot, struct wefti_link ***end, uint32_t count) {
    uint32_t found = 0;
    for (struct wefti_chunk *chunk; found < count && (chunk = depot->open);) {
        for (; found < count && chunk->free.count; found++) {
            **end =
                (struct wefti_link *)(void *)((char *)chunk + (size_t)wefti_bits_take(&chunk->free, chunk->map) * UNIT);
            *end = &(**end)->next;
        }
        if (!chunk->free.count)
            depot->open = chunk->next_open;
    }
    return found;
}

/* Under the lock. */
static void put(struct wefti_slab *slab, unsigned size_class, struct wefti_link *slot) {
    uintptr_t address = (uintptr_t)slot;
    struct wefti_chunk *chunk = (struct wefti_chunk *)(address & ~(uintptr_t)(WEFTI_SLAB_CHUNK - 1));
    if (!chunk->free.count) {
        chunk->next_open = slab->classes[size_class].open;
        slab->classes[size_class].open = chunk;
    }
    wefti_bits_add(&chunk->free, chunk->map, (uint32_t)(address & (WEFTI_SLAB_CHUNK - 1)) / UNIT);
}

/* Under the lock: up to so many that were never used, to *end.  How many: few at a time, a carved slot is a touched page. */
static uint32_t carve_some(struct wefti_slab *slab, unsigned size_class, struct wefti_link ***end, uint32_t count) {
    uint32_t made = 0;
    for (struct weft_task *task; made < count && (task = carve(slab, size_class)); made++) {
        **end = &task->link;
        *end = &task->link.next;
    }
    return made;
}

/* The last magazine that came; or else free slots; or else new ones.  None: no memory. */
static struct wefti_magazine refill(struct wefti_slab *slab, unsigned size_class) {
    struct wefti_slab_depot *depot = &slab->classes[size_class];
    struct wefti_magazine magazine = {NULL, 0};
    struct wefti_link **end = &magazine.first;
    wefti_lock_take(&slab->lock);
    if (depot->recent_count)
        magazine = depot->recent[--depot->recent_count];
    else if ((magazine.count = find(depot, &end, WEFTI_SLAB_FEW)) ||
             (magazine.count = carve_some(slab, size_class, &end, WEFTI_SLAB_FEW)))
        *end = NULL;
    wefti_lock_give(&slab->lock);
    return magazine;
}

/* An outside thread has no cache: it leaves whole magazines to those who have one, while there is anything else that was used. */
struct wefti_link *wefti_slab_take_outside(struct wefti_slab *slab, unsigned size_class) {
    struct wefti_slab_depot *depot = &slab->classes[size_class];
    struct wefti_link *slot = NULL, **end = &slot;
    wefti_lock_take(&slab->lock);
    if (!find(depot, &end, 1)) {
        if (depot->recent_count) {
            struct wefti_magazine *last = &depot->recent[depot->recent_count - 1];
            slot = wefti_magazine_take(last);
            depot->recent_count -= !last->count;
        } else {
            carve_some(slab, size_class, &end, 1);
        }
    }
    wefti_lock_give(&slab->lock);
    return slot;
}

void wefti_slab_give_outside(struct wefti_slab *slab, unsigned size_class, struct wefti_link *slot) {
    wefti_lock_take(&slab->lock);
    store_relaxed(&wefti_task_of(slot)->word, WEFTI_FREE); /* under the lock: see wefti_slab_in_use */
    put(slab, size_class, slot);
    wefti_lock_give(&slab->lock);
}

void wefti_slab_retire(struct wefti_slab *slab, struct weft_task *task) {
    unsigned size_class = task->layout & WEFTI_LAYOUT_CLASS;
    struct wefti_chunk *chunk = (struct wefti_chunk *)((uintptr_t)task & ~(uintptr_t)(WEFTI_SLAB_CHUNK - 1));
    wefti_memory_dead((char *)task + WEFTI_DEAD_FROM, wefti_slab_size[size_class] - WEFTI_DEAD_FROM);
    wefti_lock_take(&slab->lock);
    store_relaxed(&task->word, WEFTI_FREE); /* under the lock: see wefti_slab_in_use */
    chunk->retired = true;
    wefti_lock_give(&slab->lock);
}

bool wefti_slab_refill(struct wefti_slab *slab, struct wefti_slab_cache *cache, unsigned size_class) {
    struct wefti_magazine *loaded = &cache->classes[size_class].loaded, *spare = &cache->classes[size_class].spare;
    if (spare->count) {
        *loaded = *spare;
        *spare = (struct wefti_magazine){NULL, 0};
    } else {
        *loaded = refill(slab, size_class);
        cache->classes[size_class].limit = WEFTI_SLAB_MAGAZINE;
    }
    return loaded->count != 0;
}

void wefti_slab_give_full(struct wefti_slab *slab, struct wefti_slab_cache *cache, unsigned size_class,
                          struct wefti_link *slot) {
    struct wefti_magazine *loaded = &cache->classes[size_class].loaded, *spare = &cache->classes[size_class].spare;
    if (!cache->classes[size_class].limit) {
        cache->classes[size_class].limit = WEFTI_SLAB_FEW;
        wefti_magazine_give(loaded, slot);
        return;
    }
    if (spare->count) {
        struct wefti_slab_depot *depot = &slab->classes[size_class];
        wefti_lock_take(&slab->lock);
        if (depot->recent_count < WEFTI_SLAB_RECENT)
            depot->recent[depot->recent_count++] = *spare;
        else
            for (struct wefti_link *each = spare->first, *next; spare->count; each = next, spare->count--) {
                next = each->next;
                put(slab, size_class, each);
            }
        wefti_lock_give(&slab->lock);
    }
    *spare = *loaded;
    *loaded = (struct wefti_magazine){NULL, 0};
    wefti_magazine_give(loaded, slot);
}

uint32_t wefti_slab_in_use(struct wefti_slab *slab, const char **names, uint32_t room) {
    uint32_t count = 0;
    wefti_lock_take(&slab->lock);
    for (struct wefti_chunk *chunk = load_own(&slab->chunks); chunk; chunk = chunk->next)
        for (uint32_t i = 0; i < load_own(&chunk->carved); i++)
            if (wefti_word_life(load_relaxed(&chunk_slot(chunk, i)->word)) != WEFTI_FREE) { /* the lock orders */
                if (count < room)
                    names[count] = chunk_slot(chunk, i)->name;
                count++;
            }
    wefti_lock_give(&slab->lock);
    return count;
}

bool wefti_slab_has_only_handles(struct wefti_slab *slab) {
    bool only = true;
    wefti_lock_take(&slab->lock);
    for (struct wefti_chunk *chunk = load_own(&slab->chunks); chunk; chunk = chunk->next)
        for (uint32_t i = 0; i < load_own(&chunk->carved); i++) {
            wefti_word *word = &chunk_slot(chunk, i)->word;
            bool used = wefti_word_life(load_relaxed(word)) != WEFTI_FREE; /* the lock orders, as above */
            only = only && (!used || wefti_word_is_only(word));
        }
    wefti_lock_give(&slab->lock);
    return only;
}

void wefti_slab_walk(struct wefti_slab *slab, void (*visit)(struct weft_task *task, void *arg), void *arg) {
    for (struct wefti_chunk *chunk = load_acquire(&slab->chunks); chunk; chunk = chunk->next) { /* pairs with carve */
        uint32_t carved = load_relaxed(&chunk->carved); /* as in carve */
        for (uint32_t i = 0; i < carved; i++) {
            struct weft_task *task = chunk_slot(chunk, i);
            if (wefti_word_try_ref(&task->word))
                visit(task, arg);
        }
    }
}
