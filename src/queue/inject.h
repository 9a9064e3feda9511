/* inject.h - the global queue: any thread puts items in, workers take batches out.
 *
 * What.   Two parts under one lock.  The line: what comes from outside, in strict order.  The spill: what workers' own queues had no room
 *         for, in pieces of 64 (deque: of 128), each in order.  Its length can be read without the lock: the idle protocol and the batch size need only
 *         that.
 * Order.  A worker that has run out takes the newest piece of the spill: it belongs to what has just been done, and is in the cache.  (A tree of
 *         tasks is walked in depth by that, and not in breadth: a tree of a million had 13,000 inner tasks alive at once, and has
 *         300.)  A worker that does not run out takes the oldest now and then, and so does every worker each millisecond
 *         (sched.h, wefti_global_is_due), so that nothing stays below for ever.  Beyond 128 pieces, the oldest become one.
 * Claim.  Every item comes out once; the line is FIFO, and so is each piece; a length above 0 that was published before a fence is seen after
 *         the partner fence (sched/idle.h).
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

#ifndef WEFTI_SPILLS
#define WEFTI_SPILLS 128u /* pieces that are told apart */
#endif
#define WEFTI_SPILL_LOOKS 16u /* how far a worker looks for its own */
#ifndef WEFTI_SPILL_SIZE
#define WEFTI_SPILL_SIZE 64u /* items that one piece is filled up to: as many as are fetched at once */
#endif

struct wefti_inject {
    _Alignas(64) struct wefti_lock lock;
    _Atomic uint32_t length;   /* of both parts; written under the lock */
    _Atomic uint32_t outside;  /* of the line alone; written under the lock */
    _Atomic uint32_t held;     /* items that one taker has taken out and not passed on; written by that taker */
    _Atomic uint64_t admitted; /* items that came through wefti_inject_admit; written under the lock */
    bool closed;               /* admits nothing any more */
    struct wefti_chain line;
    uint32_t oldest, pieces; /* spill[oldest], and those after it, round and round */
    struct wefti_spill {
        struct wefti_chain chain;
        const void *by; /* whose it was */
    } spill[WEFTI_SPILLS];
};

static inline uint32_t wefti_inject_length(struct wefti_inject *queue) {
    return load_relaxed(&queue->length); /* a hint, or after the idle protocol's fence */
}
static inline uint32_t wefti_inject_outside(struct wefti_inject *queue) {
    return load_relaxed(&queue->outside); /* a hint */
}

/* Items in the queue, and those that a taker holds. */
static inline uint32_t wefti_inject_waiting(struct wefti_inject *queue) {
    return load_relaxed(&queue->length) + load_relaxed(&queue->held); /* a hint */
}

/* Under the lock, after every change: `delta` items more. */
static inline void wefti_inject_changed(struct wefti_inject *queue, uint32_t delta) {
    store_relaxed(&queue->length, load_own(&queue->length) + delta); /* ordered by the lock, and by the idle fence */
    store_relaxed(&queue->outside, queue->line.count);               /* a hint */
}

/* Append a chain (count > 0): never refused. */
static inline void wefti_inject_push(struct wefti_inject *queue, struct wefti_chain chain) {
    wefti_lock_take(&queue->lock);
    wefti_chain_join(&queue->line, chain);
    wefti_inject_changed(queue, chain.count);
    wefti_lock_give(&queue->lock);
}

static inline void wefti_inject_push_one(struct wefti_inject *queue, struct wefti_link *item) {
    item->next = NULL;
    wefti_inject_push(queue, (struct wefti_chain){item, item, 1});
}

static inline struct wefti_spill *wefti_inject_piece(struct wefti_inject *queue, uint32_t i) {
    return &queue->spill[(queue->oldest + i) % WEFTI_SPILLS];
}

/* Under the lock: a chain (count > 0) of worker `by` is the newest. */
static inline void wefti_inject_add(struct wefti_inject *queue, struct wefti_chain chain, const void *by) {
    struct wefti_spill *newest = queue->pieces ? wefti_inject_piece(queue, queue->pieces - 1) : NULL;
    if (!newest || newest->by != by || newest->chain.count + chain.count > WEFTI_SPILL_SIZE) {
        if (queue->pieces == WEFTI_SPILLS) { /* the two oldest become one */
            struct wefti_spill *second = wefti_inject_piece(queue, 1);
            wefti_chain_join(&wefti_inject_piece(queue, 0)->chain, second->chain);
            second->chain = wefti_inject_piece(queue, 0)->chain;
            queue->oldest = (queue->oldest + 1) % WEFTI_SPILLS;
            queue->pieces--;
        }
        newest = wefti_inject_piece(queue, queue->pieces++);
        *newest = (struct wefti_spill){.by = by};
    }
    wefti_chain_join(&newest->chain, chain);
    wefti_inject_changed(queue, chain.count);
}

/* What the queue of worker `by` had no room for (each count > 0), in order: never refused. */
static inline void wefti_inject_spill(struct wefti_inject *queue, const struct wefti_chain *chain, uint32_t count,
                                      const void *by) {
    wefti_lock_take(&queue->lock);
    for (uint32_t i = 0; i < count; i++)
        wefti_inject_add(queue, chain[i], by);
    wefti_lock_give(&queue->lock);
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
        wefti_chain_append(&queue->line, item);
        wefti_inject_changed(queue, 1);
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

/* Under the lock, and there are pieces: the newest of `by` if that is not far, else the oldest. */
static inline uint32_t wefti_inject_choose(struct wefti_inject *queue, const void *by) {
    uint32_t far = queue->pieces > WEFTI_SPILL_LOOKS ? queue->pieces - WEFTI_SPILL_LOOKS : 0;
    for (uint32_t i = queue->pieces; by && i > far; i--)
        if (wefti_inject_piece(queue, i - 1)->by == by)
            return i - 1;
    return 0;
}

/* Take at most `count`: from the front of the line, and from the spill, half of each as far as there are as many.  `by`: a worker, which gets
 * its own newest; NULL: the oldest.  Does not lock an empty queue. */
static inline struct wefti_chain wefti_inject_take(struct wefti_inject *queue, uint32_t count, const void *by) {
    struct wefti_chain taken = {NULL, NULL, 0};
    if (wefti_inject_length(queue) == 0)
        return taken;
    wefti_lock_take(&queue->lock);
    uint32_t length = load_own(&queue->length), spilled = length - queue->line.count;
    if (count > length)
        count = length;
    uint32_t half = count - count / 2, line = count > spilled && count - spilled > half ? count - spilled : half;
    taken = wefti_chain_cut(&queue->line, line < queue->line.count ? line : queue->line.count);
    while (taken.count < count) {
        uint32_t i = wefti_inject_choose(queue, by), left = count - taken.count;
        struct wefti_chain *piece = &wefti_inject_piece(queue, i)->chain;
        wefti_chain_join(&taken, wefti_chain_cut(piece, left < piece->count ? left : piece->count));
        if (piece->count)
            break;
        if (i == 0)
            queue->oldest = (queue->oldest + 1) % WEFTI_SPILLS;
        else
            for (; i + 1 < queue->pieces; i++)
                *wefti_inject_piece(queue, i) = *wefti_inject_piece(queue, i + 1);
        queue->pieces--;
    }
    wefti_inject_changed(queue, -taken.count);
    wefti_lock_give(&queue->lock);
    return taken;
}

/* For a taker that is the only one, and puts them into a queue of its own, where nothing is ever spilled: take everything, which counts
 * against the capacity until the taker says otherwise. */
static inline struct wefti_chain wefti_inject_hold(struct wefti_inject *queue) {
    struct wefti_chain taken = {NULL, NULL, 0};
    if (wefti_inject_length(queue) == 0)
        return taken;
    wefti_lock_take(&queue->lock);
    taken = queue->line;
    queue->line.count = 0;
    wefti_inject_changed(queue, -taken.count);
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
