/* lifo.h - what a worker keeps for itself: the newest task, and a batch from the global queue.
 *
 * What.   One LIFO slot and the rest of a batch.  The owner uses both all the time; a thief only looks when the owner has been
 *         stuck in one poll for a while.  So the owner pays no atomic read-modify-write: the lock between them is biased.
 * Words.  busy: the owner is inside.  thief: a thief is, or wants to be.
 * Race.   owner: O1 busy = 1                     thief: T1 thief: 0 -> 1
 *                O2 light fence                         T2 heavy fence
 *                O3 thief == 0: inside                  T3 busy == 0: inside
 *                O4 busy = 0                            T4 thief = 0
 * Claim.  Owner and thief are never inside together; an item comes out once.
 * Why.    The heavy fence is a full fence on every thread.  If the owner passes its share of T2 after O1, T3 sees
 *         busy; if before O1, then O3 comes after T1 and sees the thief.  O4 and T4 release, T3 and O3 acquire.
 *         Where the system has no such fence, thieves leave these alone.
 * Why a thief at all.  A task that wakes another and then computes on keeps it waiting in its slot.
 * Checked by.  test/model/lifo.c
 */
#ifndef WEFTI_SCHED_LIFO_H
#define WEFTI_SCHED_LIFO_H

#include "base/assert.h"
#include "base/link.h"
#include "plat/plat.h"

struct wefti_lifo {
    _Alignas(64) _Atomic uint32_t busy;
    _Atomic uint32_t thief;
    /* Written inside only; read from anywhere as a hint. */
    _Atomic(struct wefti_link *) slot;
    _Atomic uint32_t batch_left;
    struct wefti_link *batch; /* the next of them, which has the others behind it */
};

/* False: a thief is there. */
static inline bool wefti_lifo_try_enter(struct wefti_lifo *lifo) {
    store_relaxed(&lifo->busy, 1);                     /* O1 */
    fence_light();                                     /* O2, pairs with T2 */
    if (WEFTI_LIKELY(load_acquire(&lifo->thief) == 0)) /* O3, pairs with T4 */
        return true;
    store_release(&lifo->busy, 0);
    return false;
}

static inline void wefti_lifo_enter(struct wefti_lifo *lifo) {
    while (!wefti_lifo_try_enter(lifo))
        for (unsigned spin = 0; load_relaxed(&lifo->thief); spin++) /* a few instructions of another thread ... */
            if (spin < 64)
                wefti_relax();
            else
                wefti_thread_yield(); /* ... that does not run just now */
}

static inline void wefti_lifo_leave(struct wefti_lifo *lifo) { store_release(&lifo->busy, 0); } /* O4, pairs with T3 */

/* The rest: owner, inside. */

/* Put an item into the slot; what it held before, or NULL, is the caller's. */
static inline struct wefti_link *wefti_lifo_put(struct wefti_lifo *lifo, struct wefti_link *item) {
    struct wefti_link *evicted = load_own(&lifo->slot);
    store_relaxed(&lifo->slot, item); /* ordered by the lock */
    return evicted;
}

static inline struct wefti_link *wefti_lifo_take(struct wefti_lifo *lifo) { return wefti_lifo_put(lifo, NULL); }

static inline struct wefti_link *wefti_lifo_take_batched(struct wefti_lifo *lifo) {
    uint32_t left = load_own(&lifo->batch_left);
    if (left == 0)
        return NULL;
    store_relaxed(&lifo->batch_left, left - 1); /* ordered by the lock */
    struct wefti_link *item = lifo->batch;
    lifo->batch = item->next;
    __builtin_prefetch(lifo->batch, 1); /* it is next, most likely */
    return item;
}

/* There is no batch: now it is what this chain holds. */
static inline void wefti_lifo_fill(struct wefti_lifo *lifo, const struct wefti_chain *chain) {
    lifo->batch = chain->first;
    store_relaxed(&lifo->batch_left, chain->count); /* ordered by the lock */
}

/* Anyone: a hint. */
static inline bool wefti_lifo_holds(struct wefti_lifo *lifo) {
    return load_relaxed(&lifo->slot) != NULL || load_relaxed(&lifo->batch_left) != 0;
}

/* A thief.  The batch's next item, else the slot's, or NULL: nothing there, or the owner is inside, or no such fence. */
static inline struct wefti_link *wefti_lifo_steal(struct wefti_lifo *lifo) {
    if (!wefti_lifo_holds(lifo))
        return NULL;
    uint32_t nobody = 0;
    if (!cas_acquire(&lifo->thief, &nobody, 1)) /* T1; acquire, pairs with T4 of the thief before */
        return NULL;
    struct wefti_link *item = NULL;
    if (wefti_fence_heavy() == 0 && load_acquire(&lifo->busy) == 0) { /* T2, T3, pairs with O4 */
        item = wefti_lifo_take_batched(lifo);
        if (!item)
            item = wefti_lifo_take(lifo);
    }
    store_release(&lifo->thief, 0); /* T4, pairs with O3 and T1 */
    return item;
}

#endif
