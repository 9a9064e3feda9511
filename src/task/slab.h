/* slab.h - where task objects live: size classes, a cache a worker, and a walk over all of them.
 *
 * What.   A runtime's tasks are slots of large chunks.  A worker takes and gives slots from its own cache without any
 *         atomic operation; caches give whole magazines (chains of 512 slots) to the depot, and get such a one there, or 64 slots, under a lock.
 *         A worker that only ends what others have made gives 64 at a time: else a thread outside, or another worker, would have new
 *         memory touched for the first thousand.
 * Why.    One allocation a task, no header around it, and every task can be found without a list that each
 *         spawn and each end would have to lock: a walk looks at every slot ever carved, and takes a reference
 *         to those that hold a task (wefti_word_try_ref).  Slots stay slots until the runtime is destroyed, so
 *         looking at a dead one is safe.
 * Order.  The depot keeps a few magazines as they came, and hands them out whole, the last first: tasks that one worker makes and another ends
 *         cost a copy of two words in 512.  Of the others it has a map of bits in each chunk, and hands them out in the order of addresses: as
 *         does nodes.h, which says why.
 * Retired. Mutexes, write locks and once objects know their owner by its address.  The slot of a task that ended while it owned one is
 *         not used again, nor is its address by a later runtime: another task there would be taken for the owner.
 * Who.    A cache: its worker.  The depot: under its lock.  chunk->carved: grows under the lock, read by walks.
 */
#ifndef WEFTI_TASK_SLAB_H
#define WEFTI_TASK_SLAB_H

#include "base/bits.h"
#include "plat/cache.h"
#include "queue/lock.h"
#include "task/task.h"

#define WEFTI_SLAB_CLASSES 6
#ifndef WEFTI_SLAB_CHUNK
#define WEFTI_SLAB_CHUNK ((size_t)1 << 21) /* a power of two: chunks are aligned to it */
#endif
#ifndef WEFTI_SLAB_MAGAZINE
#define WEFTI_SLAB_MAGAZINE 512u
#endif

/* Slots that are fetched at a time, and given by a worker that never takes any. */
#define WEFTI_SLAB_FEW (WEFTI_SLAB_MAGAZINE < 8 ? 1 : WEFTI_SLAB_MAGAZINE / 8)
#define WEFTI_SLAB_RECENT 16u /* magazines */
#define WEFTI_SLAB_UNIT 64u /* bytes: sizes are multiples of it */

/* A magazine: slots linked by link.next. */
struct wefti_magazine {
    struct wefti_link *first;
    uint32_t count;
};

struct wefti_slab_cache {
    struct {
        struct wefti_magazine loaded, spare; /* spare is empty or full */
        uint32_t limit; /* of both: WEFTI_SLAB_FEW, or of who has taken some, WEFTI_SLAB_MAGAZINE; 0: not known yet */
    } classes[WEFTI_SLAB_CLASSES];
};

struct wefti_chunk {
    struct wefti_chunk *next;
    struct weft_runtime *rt; /* of every task in it */
    uint32_t slot_size;
    _Atomic uint32_t carved; /* slots handed out so far; they begin behind this header */
    /* Of the depot, under its lock; on a line that others do not look at. */
    _Alignas(64) struct wefti_chunk *next_open; /* that has free slots of its class */
    bool retired; /* one of its slots is: its addresses stay reserved */
    struct wefti_bits free; /* a bit for each unit, so that nobody divides: that of a free slot's first one */
    uint64_t map[WEFTI_BITS_WORDS(WEFTI_SLAB_CHUNK / WEFTI_SLAB_UNIT)];
};

/* What is free of one class, under the lock. */
struct wefti_slab_depot {
    struct wefti_chunk *open;    /* chunks that have free slots */
    struct wefti_chunk *carving; /* chunk with room, or NULL */
    size_t mapped; /* bytes, of all its chunks */
    struct wefti_magazine recent[WEFTI_SLAB_RECENT]; /* none of them empty */
    uint32_t recent_count;
};

struct wefti_slab {
    struct weft_runtime *rt;
    struct wefti_lock lock;
    _Atomic(struct wefti_chunk *) chunks; /* all, newest first: pushed under the lock, walked without */
    struct wefti_slab_depot classes[WEFTI_SLAB_CLASSES];
};

void wefti_slab_init(struct wefti_slab *slab, struct weft_runtime *rt);
/* Gives all memory back.  No task may be alive. */
void wefti_slab_fini(struct wefti_slab *slab);

/* The runtime a task belongs to: its chunk says. */
static inline struct weft_runtime *wefti_task_rt(const struct weft_task *task) {
    return ((struct wefti_chunk *)((uintptr_t)task & ~(uintptr_t)(WEFTI_SLAB_CHUNK - 1)))->rt;
}

/* -- The inner parts; use take and give below. */

extern const uint16_t wefti_slab_size[WEFTI_SLAB_CLASSES];
/* Load a magazine into an empty cache.  False: no memory. */
bool wefti_slab_refill(struct wefti_slab *slab, struct wefti_slab_cache *cache, unsigned size_class);
/* Put a dead slot into a cache whose loaded magazine is full. */
void wefti_slab_give_full(struct wefti_slab *slab, struct wefti_slab_cache *cache, unsigned size_class,
                          struct wefti_link *slot);
struct wefti_link *wefti_slab_take_outside(struct wefti_slab *slab, unsigned size_class);
void wefti_slab_give_outside(struct wefti_slab *slab, unsigned size_class, struct wefti_link *slot);
/* The task has ended while locks name it as their owner: its slot is never used again. */
void wefti_slab_retire(struct wefti_slab *slab, struct weft_task *task);

/* The part of a dead slot that checkers guard: all but link, word, name and joiner. */
#define WEFTI_DEAD_FROM offsetof(struct weft_task, poll)

static inline struct wefti_link *wefti_magazine_take(struct wefti_magazine *magazine) {
    struct wefti_link *slot = magazine->first;
    magazine->first = slot->next;
    magazine->count--;
    wefti_fetch_own(magazine->first); /* the next; of the last, nothing that matters */
    return slot;
}

static inline void wefti_magazine_give(struct wefti_magazine *magazine, struct wefti_link *slot) {
    slot->next = magazine->first;
    magazine->first = slot;
    magazine->count++;
}

/* The smallest class for an object of that size, at most 512: a constant where that is one. */
static inline unsigned wefti_slab_class(size_t size) {
    return size <= 64 ? 0 : size <= 128 ? 1 : size <= 192 ? 2 : size <= 256 ? 3 : size <= 384 ? 4 : 5;
}

/* -- Taking and giving. */

static inline struct weft_task *wefti_slab_born(struct wefti_link *slot, unsigned size_class) {
    struct weft_task *task = wefti_task_of(slot);
    wefti_memory_live((char *)task + WEFTI_DEAD_FROM, wefti_slab_size[size_class] - WEFTI_DEAD_FROM);
    task->layout = (uint8_t)size_class;
    task->owns = 0;
    return task;
}

/* The next, if it is there already; NULL: ask wefti_slab_take. */
static inline struct weft_task *wefti_slab_take_loaded(struct wefti_slab_cache *cache, size_t state_size) {
    unsigned size_class = wefti_slab_class(wefti_task_size(state_size));
    struct wefti_magazine *loaded = &cache->classes[size_class].loaded;
    return WEFTI_LIKELY(loaded->count) ? wefti_slab_born(wefti_magazine_take(loaded), size_class) : NULL;
}

/* A slot for a task with that much inline state, or NULL: no memory.  cache NULL: the caller is no worker.
 * The header is not initialised, but for the size class in `layout`, and `owns`; the word is FREE. */
static inline struct weft_task *wefti_slab_take(struct wefti_slab *slab, struct wefti_slab_cache *cache,
                                                size_t state_size) {
    unsigned size_class = wefti_slab_class(wefti_task_size(state_size));
    struct wefti_link *slot;
    if (WEFTI_LIKELY(cache != NULL)) {
        struct wefti_magazine *loaded = &cache->classes[size_class].loaded;
        if (WEFTI_UNLIKELY(loaded->count == 0) && !wefti_slab_refill(slab, cache, size_class))
            return NULL;
        slot = wefti_magazine_take(loaded);
    } else if (!(slot = wefti_slab_take_outside(slab, size_class))) {
        return NULL;
    }
    return wefti_slab_born(slot, size_class);
}

/* Give a slot back, whose last reference is gone.  The cache is there. */
static inline void wefti_slab_give_here(struct wefti_slab *slab, struct wefti_slab_cache *cache,
                                        struct weft_task *task) {
    unsigned size_class = task->layout & WEFTI_LAYOUT_CLASS;
    struct wefti_magazine *loaded = &cache->classes[size_class].loaded;
    if (WEFTI_UNLIKELY(task->owns)) {
        wefti_slab_retire(slab, task);
        return;
    }
    wefti_memory_dead((char *)task + WEFTI_DEAD_FROM, wefti_slab_size[size_class] - WEFTI_DEAD_FROM);
    store_relaxed(&task->word, WEFTI_FREE); /* we hold the last reference; walks do not take FREE slots */
    if (WEFTI_UNLIKELY(loaded->count == cache->classes[size_class].limit))
        wefti_slab_give_full(slab, cache, size_class, &task->link); /* the last call: it needs no frame of ours */
    else
        wefti_magazine_give(loaded, &task->link);
}

/* The same with or without. */
static inline void wefti_slab_give(struct wefti_slab *slab, struct wefti_slab_cache *cache, struct weft_task *task) {
    if (WEFTI_LIKELY(cache != NULL)) {
        wefti_slab_give_here(slab, cache, task);
        return;
    }
    if (WEFTI_UNLIKELY(task->owns)) {
        wefti_slab_retire(slab, task);
        return;
    }
    unsigned size_class = task->layout & WEFTI_LAYOUT_CLASS;
    wefti_memory_dead((char *)task + WEFTI_DEAD_FROM, wefti_slab_size[size_class] - WEFTI_DEAD_FROM);
    wefti_slab_give_outside(slab, size_class, &task->link);
}

/* How many slots are not free; the names of the first `room` of them.  When no worker is left, 0 means that nobody holds a reference to anything here, and that
 * whoever gave the last one back is done with the slab: outside threads make a slot FREE under its lock. */
uint32_t wefti_slab_in_use(struct wefti_slab *slab, const char **names, uint32_t room);
/* Every slot in use has a task that has ended, and of which one handle is left and nothing else. */
bool wefti_slab_has_only_handles(struct wefti_slab *slab);

/* Call visit(task, arg) for every task that exists, holding a reference to it meanwhile; visit gives that reference
 * on or back.  Tasks that come or go during the walk may or may not be visited. */
void wefti_slab_walk(struct wefti_slab *slab, void (*visit)(struct weft_task *task, void *arg), void *arg);

#endif
