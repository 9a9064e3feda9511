/* inject.h - the global queue: any thread puts chains in, workers take batches out, in strict order.
 *
 * What.   A linked list under a lock.  Its length can be read without the lock: the idle protocol and the
 *         batch size need only that.
 * Claim.  FIFO; every item comes out once; a length above 0 that was published before a fence is seen after the
 *         partner fence (sched/idle.h).
 * Why a lock.  One acquisition moves a whole batch; everything that is hot stays in the workers' own queues.
 * Checked by.  test/model/queues.c, test/unit/queue_inject.c
 */
#ifndef WEFTI_QUEUE_INJECT_H
#define WEFTI_QUEUE_INJECT_H

#include <errno.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "base/link.h"
#include "queue/lock.h"

struct wefti_inject {
    _Alignas(64) struct wefti_lock lock;
    _Atomic uint32_t length;   /* written under the lock */
    _Atomic uint32_t held;     /* items that one taker has taken out and not passed on; written by that taker */
    _Atomic uint64_t admitted; /* items that came through wefti_inject_admit; written under the lock */
    bool closed;               /* admits nothing any more */
    struct wefti_chain chain;
};

static inline uint32_t wefti_inject_length(struct wefti_inject *queue) {
    return load_relaxed(&queue->length); /* a hint, or after the idle protocol's fence */
}

/* Under the lock. */
static inline void wefti_inject_append(struct wefti_inject *queue, struct wefti_chain chain) {
    uint32_t length = load_own(&queue->length);
    chain.last->next = NULL;
    if (length)
        queue->chain.last->next = chain.first;
    else
        queue->chain.first = chain.first;
    queue->chain.last = chain.last;
    store_relaxed(&queue->length, length + chain.count); /* ordered by the lock, and by the idle fence */
}

/* Append a chain (count > 0): never refused. */
static inline void wefti_inject_push(struct wefti_inject *queue, struct wefti_chain chain) {
    wefti_lock_take(&queue->lock);
    wefti_inject_append(queue, chain);
    wefti_lock_give(&queue->lock);
}

static inline void wefti_inject_push_one(struct wefti_inject *queue, struct wefti_link *item) {
    wefti_inject_push(queue, (struct wefti_chain){item, item, 1});
}

/* Append an item that comes from outside: -EAGAIN when `capacity` items wait already, -ESHUTDOWN once closed. */
static inline int wefti_inject_admit(struct wefti_inject *queue, struct wefti_link *item, uint32_t capacity) {
    int result = 0;
    wefti_lock_take(&queue->lock);
    if (queue->closed) {
        result = -ESHUTDOWN;
    } else if (load_own(&queue->length) + load_relaxed(&queue->held) >=
               capacity) { /* a figure; hold has the lock too */
        result = -EAGAIN;
    } else {
        wefti_inject_append(queue, (struct wefti_chain){item, item, 1});
        store_relaxed(&queue->admitted, load_own(&queue->admitted) + 1); /* ordered by the lock */
    }
    wefti_lock_give(&queue->lock);
    return result;
}

/* Admit nothing from now on: when this returns, `admitted` is final. */
static inline void wefti_inject_close(struct wefti_inject *queue) {
    wefti_lock_take(&queue->lock);
    queue->closed = true;
    wefti_lock_give(&queue->lock);
}

/* Take at most `count` from the front, oldest first.  Does not lock an empty queue. */
static inline struct wefti_chain wefti_inject_take(struct wefti_inject *queue, uint32_t count) {
    struct wefti_chain taken = {NULL, NULL, 0};
    if (wefti_inject_length(queue) == 0)
        return taken;
    wefti_lock_take(&queue->lock);
    uint32_t length = load_own(&queue->length);
    if (count > length)
        count = length;
    if (count) {
        taken.first = taken.last = queue->chain.first;
        for (taken.count = 1; taken.count < count; taken.count++)
            taken.last = taken.last->next;
        queue->chain.first = taken.last->next;
        taken.last->next = NULL;
        store_relaxed(&queue->length, length - count); /* as in push */
    }
    wefti_lock_give(&queue->lock);
    return taken;
}

/* For a taker that is the only one, and puts them into a queue of its own: take everything, which counts against the capacity
 * until the taker says otherwise. */
static inline struct wefti_chain wefti_inject_hold(struct wefti_inject *queue) {
    struct wefti_chain taken = {NULL, NULL, 0};
    if (wefti_inject_length(queue) == 0)
        return taken;
    wefti_lock_take(&queue->lock);
    taken = queue->chain;
    taken.count = load_own(&queue->length);
    store_relaxed(&queue->length, 0); /* as in push */
    store_relaxed(&queue->held, load_own(&queue->held) + taken.count); /* ordered by the lock */
    wefti_lock_give(&queue->lock);
    return taken;
}
/* So many of them are left. */
static inline void wefti_inject_held(struct wefti_inject *queue, uint32_t left) {
    store_relaxed(&queue->held, left); /* a figure */
}

/* How many one of `workers` workers fetches from a queue of `length` (B25): a fair share, between 4 and 64. */
static inline uint32_t wefti_inject_share(uint32_t length, uint32_t workers) {
    uint32_t share = length / workers;
    share = share > 64 ? 64 : share < 4 ? 4 : share;
    return share < length ? share : length;
}

#endif
