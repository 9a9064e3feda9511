/* ring.h - a worker's local queue: bounded, FIFO, half of it stolen at once.
 *
 * What.   256 slots.  The owner pushes at the tail and pops at the head; any thief takes the older half.
 * Words.  head = {steal, real}, two free-running 32-bit counts in one word.  Slots [real, tail) are queued.
 *         Slots [steal, real) are being copied by a thief; steal == real means nobody is stealing.
 *         steal <= real <= tail <= steal + capacity (as distances).
 * Who.    tail: written by the owner.  head: compare-and-swap by owner and thieves.  slots: written by the
 *         owner at the tail only (a thief writes the slots of its own ring, whose owner it is).
 * Race.   thief: T1 read head, tail          owner: O1 pop: move real past a slot
 *                T2 claim: real += n                O2 push: fill the slot behind the tail
 *                T3 copy the n slots                O3 overflow: move steal and real by half
 *                T4 release: steal = real
 * Claim.  Every pushed item comes out exactly once.
 * Why.    T2, O1 and O3 compare-and-swap the same word, so each index has one taker; counts have 32 bits, so a head
 *         that looks unchanged is unchanged.  Between T2 and T4 `steal` stays behind the copied slots, and O2 never
 *         fills a slot within capacity of `steal`: the copy is of what was published.  T4 releases, O2 acquires
 *         head: the copy is over before the slot is filled again.  T1 acquires tail: the slots it covers are filled.
 *         T1 acquires head before tail, O1 releases it: the tail is never older than the head.
 * Not covered.  Fairness between thieves: one of them wins, the others go elsewhere (B14).
 * Checked by.  test/model/ring.c, test/unit/queue_ring.c
 */
#ifndef WEFTI_QUEUE_RING_H
#define WEFTI_QUEUE_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/link.h"

#ifndef WEFTI_RING_CAP
#define WEFTI_RING_CAP 256u /* a power of two; tests shrink it */
#endif
#define WEFTI_RING_HALF (WEFTI_RING_CAP / 2)

struct wefti_ring {
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint32_t tail;
    _Alignas(64) _Atomic(struct wefti_link *) slot[WEFTI_RING_CAP];
};

static inline uint64_t wefti_ring_pack(uint32_t steal, uint32_t real) { return (uint64_t)steal << 32 | real; }
static inline uint32_t wefti_ring_steal_of(uint64_t head) { return (uint32_t)(head >> 32); }
static inline uint32_t wefti_ring_real_of(uint64_t head) { return (uint32_t)head; }

/* How many are queued.  Exact for the owner while nobody steals; otherwise a recent value. */
static inline uint32_t wefti_ring_length(struct wefti_ring *ring) {
    /* Acquire: the tail read next is then no older than this head (pairs with O1). */
    uint64_t head = load_acquire(&ring->head);
    return load_relaxed(&ring->tail) - wefti_ring_real_of(head);
}

/* Owner.  False when full: nothing was pushed. */
static inline bool wefti_ring_push(struct wefti_ring *ring, struct wefti_link *item) {
    uint32_t tail = load_own(&ring->tail);
    uint64_t head = load_acquire(&ring->head); /* O2, pairs with T4: the copied slots may be overwritten */
    if (WEFTI_UNLIKELY(tail - wefti_ring_steal_of(head) >= WEFTI_RING_CAP))
        return false;
    store_relaxed(&ring->slot[tail % WEFTI_RING_CAP], item); /* ordered by the tail */
    store_release(&ring->tail, tail + 1);                    /* pairs with T1 */
    return true;
}

/* Owner.  The oldest item, or NULL.  `shared` false promises that no thief exists, ever. */
static inline struct wefti_link *wefti_ring_pop(struct wefti_ring *ring, bool shared) {
    uint32_t tail = load_own(&ring->tail);
    uint64_t head = load_relaxed(&ring->head); /* only compared; slots before the tail are our own stores */
    for (;;) {
        uint32_t steal = wefti_ring_steal_of(head), real = wefti_ring_real_of(head);
        if (real == tail)
            return NULL;
        if (!shared) {
            store_relaxed(&ring->head, wefti_ring_pack(real + 1, real + 1)); /* nobody else looks at the slots */
            return load_own(&ring->slot[real % WEFTI_RING_CAP]);
        }
        uint64_t next = wefti_ring_pack(steal == real ? real + 1 : steal, real + 1);
        if (cas_release(&ring->head, &head, next)) /* O1, pairs with T1 */
            return load_own(&ring->slot[real % WEFTI_RING_CAP]);
    }
}

/* Items of a full ring, the first of them at `real`, as a chain. */
static inline struct wefti_chain wefti_ring_chain(struct wefti_ring *ring, uint32_t real, uint32_t count) {
    struct wefti_link *first = load_own(&ring->slot[real % WEFTI_RING_CAP]), *last = first;
    for (uint32_t i = 1; i < count; i++, last = last->next)
        last->next = load_own(&ring->slot[(real + i) % WEFTI_RING_CAP]);
    last->next = NULL;
    return (struct wefti_chain){first, last, count};
}

/* Owner of a ring that was full.  Move the oldest half out, in order: two chains.  Returns HALF, or 0 when a thief is copying
 * or has just been: then the ring may have room again, and must not be moved past its tail. */
static inline uint32_t wefti_ring_overflow(struct wefti_ring *ring, struct wefti_chain chain[2]) {
    uint64_t head = load_relaxed(&ring->head); /* only compared */
    uint32_t real = wefti_ring_real_of(head);
    if (load_own(&ring->tail) - real < WEFTI_RING_CAP) /* so while a thief copies: tail <= steal + CAP < real + CAP */
        return 0;
    uint64_t next = wefti_ring_pack(real + WEFTI_RING_HALF, real + WEFTI_RING_HALF);
    if (!cas_release(&ring->head, &head, next)) /* O3, pairs with T1 */
        return 0;
    chain[0] = wefti_ring_chain(ring, real, WEFTI_RING_HALF / 2);
    chain[1] = wefti_ring_chain(ring, real + WEFTI_RING_HALF / 2, WEFTI_RING_HALF / 2);
    return WEFTI_RING_HALF;
}

/* Any thread but the victim's owner; `mine` is the caller's own ring.  Takes ceil(n/2) of the victim's n items: the
 * oldest is returned, the others are pushed to `mine`.  *taken receives their number.  NULL when there is nothing,
 * another thief is at work, or `mine` has no room for half a ring. */
static inline struct wefti_link *wefti_ring_steal(struct wefti_ring *victim, struct wefti_ring *mine, uint32_t *taken) {
    uint32_t my_tail = load_own(&mine->tail);
    /* Acquire: as in push, slots that a thief of ours copied may be overwritten (pairs with T4). */
    if (my_tail - wefti_ring_steal_of(load_acquire(&mine->head)) > WEFTI_RING_CAP - WEFTI_RING_HALF)
        return NULL;
    uint64_t head = load_acquire(&victim->head); /* T1, pairs with O1 and O3 */
    uint32_t real, count;
    for (;;) {
        real = wefti_ring_real_of(head);
        if (wefti_ring_steal_of(head) != real)
            return NULL; /* B14 */
        count = load_acquire(&victim->tail) - real; /* T1, pairs with push */
        count -= count / 2;
        if (count == 0)
            return NULL;
        if (cas_acquire(&victim->head, &head, wefti_ring_pack(real, real + count))) /* T2; a failure reads as T1 */
            break;
    }
    wefti_assert(count <= WEFTI_RING_HALF, count); /* an older head could have given more, but fails the swap */
    struct wefti_link *first = load_relaxed(&victim->slot[real % WEFTI_RING_CAP]); /* T3: published by the tail */
    for (uint32_t i = 1; i < count; i++) {
        struct wefti_link *item = load_relaxed(&victim->slot[(real + i) % WEFTI_RING_CAP]);
        store_relaxed(&mine->slot[(my_tail + i - 1) % WEFTI_RING_CAP], item); /* ordered by our tail, below */
    }
    head = load_relaxed(&victim->head); /* only compared; the owner may have popped on */
    do
        real = wefti_ring_real_of(head);
    while (!cas_release(&victim->head, &head, wefti_ring_pack(real, real))); /* T4, pairs with O2 */
    if (count > 1)
        store_release(&mine->tail, my_tail + count - 1); /* pairs with T1 of thieves of ours */
    *taken = count;
    return first;
}

#endif
