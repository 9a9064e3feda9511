/* deque.h - a split deque: the owner works on its private end for free, thieves take half of the public end.
 *
 * What.   Slots [top, split) are public, [split, bottom) private.  The owner pushes and pops at the bottom,
 *         newest first, without any atomic read-modify-write while the private part lasts.  A thief takes the
 *         older half of the public part with one compare-and-swap.  The owner moves `split` to publish or take back.
 * Words.  shared = {tag, split, top}: 32 + 16 + 16 bits, counts modulo 2^16.  tag counts publishes.
 * Who.    bottom, split_own: owner only.  shared: compare-and-swap by owner and thieves.  slots: written by the owner.
 * Race.   thief: T1 read shared, slots      owner: O1 take back: split -= k       O3 publish: split += k
 *                T2 swap: top += k                  O2 pop, push over the slots
 * Claim.  Every pushed item comes out exactly once.
 * Why.    T2 fails if anything changed since T1, and a take-back that is followed by a new publish has another tag:
 *         without the tag the same {split, top} could cover other items (A-B-A), which would run the old ones twice
 *         and lose the new ones.  A plain Chase-Lev deque cannot do this at all: its owner pops without a
 *         compare-and-swap, so a thief's half may contain what the owner has just popped.
 *         O3 releases the slots, T1 acquires them.  T2 releases and push acquires `shared` before it reuses a slot:
 *         the thief has read it by then.
 * Why not growing.  Replacing the buffer under thieves is where the published deques broke.  A full deque gives its
 *         older half to the global queue, and nothing is lost.
 * Checked by.  test/model/deque.c, test/unit/queue_deque.c
 */
#ifndef WEFTI_QUEUE_DEQUE_H
#define WEFTI_QUEUE_DEQUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"

#ifndef WEFTI_DEQUE_CAP
#define WEFTI_DEQUE_CAP 256u /* a power of two, at most 2^15; tests shrink it */
#endif

struct wefti_deque {
    _Alignas(64) _Atomic uint64_t shared;
    _Alignas(64) uint16_t bottom;
    uint16_t split_own;         /* equals the split in `shared` */
    uint16_t top_seen;          /* a top that was read before: never ahead of the real one */
    _Atomic(void *) slot[WEFTI_DEQUE_CAP];
};

static inline uint64_t wefti_deque_pack(uint32_t tag, uint16_t split, uint16_t top) {
    return (uint64_t)tag << 32 | (uint32_t)split << 16 | top;
}
static inline uint16_t wefti_deque_top_of(uint64_t shared) { return (uint16_t)shared; }
static inline uint16_t wefti_deque_split_of(uint64_t shared) { return (uint16_t)(shared >> 16); }
static inline uint32_t wefti_deque_tag_of(uint64_t shared) { return (uint32_t)(shared >> 32); }

/* Any thread: is something public?  (Private items are their owner's business, who is awake.) */
static inline bool wefti_deque_has_public(struct wefti_deque *deque) {
    uint64_t shared = load_relaxed(&deque->shared); /* a hint, or after the idle protocol's fence */
    return wefti_deque_split_of(shared) != wefti_deque_top_of(shared);
}

/* Owner: how many, private and public. */
static inline uint32_t wefti_deque_length(struct wefti_deque *deque) {
    return (uint16_t)(deque->bottom - wefti_deque_top_of(load_relaxed(&deque->shared)));
}
static inline uint32_t wefti_deque_private(const struct wefti_deque *deque) {
    return (uint16_t)(deque->bottom - deque->split_own);
}

/* Owner.  False when full: nothing was pushed. */
static inline bool wefti_deque_push(struct wefti_deque *deque, void *item) {
    uint16_t bottom = deque->bottom;
    if (WEFTI_UNLIKELY((uint16_t)(bottom - deque->top_seen) >= WEFTI_DEQUE_CAP)) {
        /* Acquire, pairs with T2: slots below this top have been read by their thief. */
        deque->top_seen = wefti_deque_top_of(load_acquire(&deque->shared));
        if ((uint16_t)(bottom - deque->top_seen) >= WEFTI_DEQUE_CAP)
            return false;
    }
    store_relaxed(&deque->slot[bottom % WEFTI_DEQUE_CAP], item); /* private until O3 */
    deque->bottom = (uint16_t)(bottom + 1);
    return true;
}

/* Owner.  Take back up to half of the public part, at least one item, at most `most`; false when there is none. */
static inline bool wefti_deque_take_back(struct wefti_deque *deque, uint32_t most) {
    uint64_t shared = load_relaxed(&deque->shared); /* only compared; the items are our own stores */
    for (;;) {
        uint16_t split = wefti_deque_split_of(shared), top = wefti_deque_top_of(shared);
        uint16_t count = (uint16_t)(split - top);
        if (count == 0)
            return false;
        uint32_t back = (count + 1u) / 2;
        uint16_t lower = (uint16_t)(split - (back < most ? back : most));
        if (cas_relaxed(&deque->shared, &shared, wefti_deque_pack(wefti_deque_tag_of(shared), lower, top))) {
            deque->split_own = lower; /* O1; relaxed: nothing is handed over, only taken out of reach */
            return true;
        }
    }
}

/* Owner.  The newest item, or NULL.  When the private part is empty, at most `most` items become private. */
static inline void *wefti_deque_pop(struct wefti_deque *deque, uint32_t most) {
    if (WEFTI_UNLIKELY(deque->bottom == deque->split_own) && !wefti_deque_take_back(deque, most))
        return NULL;
    deque->bottom--;
    return load_own(&deque->slot[deque->bottom % WEFTI_DEQUE_CAP]);
}

/* Owner.  Make the `count` oldest private items public (count <= private). */
static inline void wefti_deque_publish(struct wefti_deque *deque, uint32_t count) {
    uint64_t shared = load_relaxed(&deque->shared); /* only compared */
    uint16_t split = (uint16_t)(deque->split_own + count);
    while (!cas_release(&deque->shared, &shared, /* O3, pairs with T1 */
                        wefti_deque_pack(wefti_deque_tag_of(shared) + 1, split, wefti_deque_top_of(shared))))
        ;
    deque->split_own = split;
}

/* Owner.  Take out the oldest `count` items, or as many as there are, oldest first, into `out`. */
static inline void wefti_deque_take_oldest(struct wefti_deque *deque, uint32_t count, void **out, uint32_t *taken) {
    uint64_t shared = load_relaxed(&deque->shared); /* only compared */
    uint16_t top, next, split;
    do {
        top = wefti_deque_top_of(shared);
        uint16_t length = (uint16_t)(deque->bottom - top);
        *taken = count < length ? count : length; /* thieves may have been here since the caller looked */
        next = (uint16_t)(top + *taken);
        split = (uint16_t)(deque->split_own - top) < *taken ? next : deque->split_own;
    } while (!cas_relaxed(&deque->shared, &shared, wefti_deque_pack(wefti_deque_tag_of(shared), split, next)));
    deque->split_own = split;
    for (uint32_t i = 0; i < *taken; i++)
        out[i] = load_own(&deque->slot[(uint16_t)(top + i) % WEFTI_DEQUE_CAP]);
}

/* Any thread but the owner.  Takes max(1, n/2) of the n public items into `out` (at most `room`), oldest first, and
 * returns how many: 0 when there are none or the swap was lost. */
static inline uint32_t wefti_deque_steal(struct wefti_deque *victim, void **out, uint32_t room) {
    uint64_t shared = load_acquire(&victim->shared); /* T1, pairs with O3 */
    uint16_t split = wefti_deque_split_of(shared), top = wefti_deque_top_of(shared);
    uint32_t count = (uint16_t)(split - top);
    if (count == 0)
        return 0;
    count = count == 1 ? 1 : count / 2;
    if (count > room)
        count = room;
    for (uint32_t i = 0; i < count; i++)
        out[i] = load_relaxed(&victim->slot[(uint16_t)(top + i) % WEFTI_DEQUE_CAP]); /* T1: published by O3 */
    /* T2: release, so that our reads are over before the slots are reused (pairs with push). */
    return cas_release(&victim->shared, &shared,
                       wefti_deque_pack(wefti_deque_tag_of(shared), split, (uint16_t)(top + count)))
               ? count
               : 0;
}

#endif
