/* slab.h - where task objects live: size classes, a cache a worker, and a walk over all of them.
 *
 * What.   A runtime's tasks are slots of large chunks.  A worker takes and gives slots from its own cache without any
 *         atomic operation; caches exchange whole magazines (chains of 512 slots) with the depot under a lock.
 * Why.    One allocation a task, no header around it, and every task can be found without a list that each
 *         spawn and each end would have to lock: a walk looks at every slot ever carved, and takes a reference
 *         to those that hold a task (wefti_word_try_ref).  Slots stay slots until the runtime is destroyed, so
 *         looking at a dead one is safe.
 * Who.    A cache: its worker.  The depot: under its lock.  chunk->carved: grows under the lock, read by walks.
 */
#ifndef WEFTI_TASK_SLAB_H
#define WEFTI_TASK_SLAB_H

#include "queue/lock.h"
#include "task/task.h"

#define WEFTI_SLAB_CLASSES 5
#ifndef WEFTI_SLAB_MAGAZINE
#define WEFTI_SLAB_MAGAZINE 512u
#endif

/* A magazine: slots linked by link.next; in the depot, stacked through the first slot's rt. */
struct wefti_magazine {
    struct wefti_link *first;
    uint32_t count;
};

struct wefti_slab_cache {
    struct {
        struct wefti_magazine loaded, spare; /* spare is empty or full */
    } classes[WEFTI_SLAB_CLASSES];
};

struct wefti_chunk {
    struct wefti_chunk *next;
    uint32_t slot_size;
    _Atomic uint32_t carved; /* slots handed out so far; they begin at wefti_chunk_slot(chunk, 0) */
};

struct wefti_slab {
    struct wefti_lock lock;
    _Atomic(struct wefti_chunk *) chunks; /* all, newest first: pushed under the lock, walked without */
    struct {
        struct wefti_magazine open;  /* slots from outside threads, fewer than a magazine */
        struct wefti_link *full;     /* stack of full magazines */
        struct wefti_chunk *carving; /* chunk with room, or NULL */
    } classes[WEFTI_SLAB_CLASSES];
};

void wefti_slab_init(struct wefti_slab *slab);
/* Gives all memory back.  No task may be alive. */
void wefti_slab_fini(struct wefti_slab *slab);

/* A slot for a task with that much inline state, or NULL: no memory.  cache NULL: the caller is no worker.
 * The header is not initialised, but for size_class; the word is FREE. */
struct weft_task *wefti_slab_take(struct wefti_slab *slab, struct wefti_slab_cache *cache, size_t state_size);
/* Give a slot back, whose last reference is gone. */
void wefti_slab_give(struct wefti_slab *slab, struct wefti_slab_cache *cache, struct weft_task *task);

/* Call visit(task, arg) for every task that exists, holding a reference to it meanwhile; visit gives that reference
 * on or back.  Tasks that come or go during the walk may or may not be visited. */
void wefti_slab_walk(struct wefti_slab *slab, void (*visit)(struct weft_task *task, void *arg), void *arg);

#endif
