/* bias.h - a lock that costs its usual user nothing: one worker enters without a read-modify-write, until another thread comes.
 *
 * What.   Two locked instructions an operation are most of what a channel costs, and most channels are used by one worker at a time.
 *         So a lock that the same worker has taken several times in a row becomes its own.  Whoever else comes takes it
 *         back, once, which costs a heavy fence; then it is an ordinary lock again, and must prove itself for longer.
 * Words.  lock: the ordinary lock.  owner: the worker that may enter without it, or NULL.  busy: the owner is inside.
 * Who.    owner is set by its worker, cleared by anyone else, both inside.  busy is the owner's.  The rest: who is inside.
 * Race.   owner: O1 busy = 1                     other: T0 take the lock
 *                O2 light fence                         T1 owner = NULL
 *                O3 still the owner: inside             T2 heavy fence
 *                   else busy = 0, take the lock        T3 wait while busy: inside
 *                O4 busy = 0                            T4 give the lock back
 * Claim.  One thread is inside at a time, and the last touch of who leaves is O4 or T4.
 * Why.    The heavy fence is a full fence on every thread.  If the owner passes its share of T2 after O1, T3 sees busy, and waits for O4; if
 *         before, O3 comes after T1 and sees that it is the owner no more.  O4 releases to T3; T4 releases to the next taker, and the owner becomes
 *         owner only with the lock.
 * Not covered.  Where the system has no heavy fence, nobody becomes owner.
 * Checked by.  test/model/bias.c
 */
#ifndef WEFTI_QUEUE_BIAS_H
#define WEFTI_QUEUE_BIAS_H

#include "queue/lock.h"

/* A heavy fence costs about as much as some hundred locked instructions: who has taken the lock so often in a row may bet a fence on
 * taking it as often again.  Where there is one worker, few others ever come. */
#ifndef WEFTI_BIAS_STREAK
#define WEFTI_BIAS_STREAK 256u /* times in a row, before it becomes the worker's own ... */
#endif
#ifndef WEFTI_BIAS_STREAK_ALONE
#define WEFTI_BIAS_STREAK_ALONE 8u /* ... if that is the only one ... */
#endif
#define WEFTI_BIAS_GROWTH 4u /* ... and after each loss, 2^4 times as many ... */
#define WEFTI_BIAS_LOSSES 3u /* ... and after three, never */

struct wefti_bias {
    struct wefti_lock lock;
    _Atomic uint32_t busy;
    _Atomic(void *) owner;
    /* Who is inside. */
    void *last; /* the worker that was inside the last time */
    uint32_t streak; /* how often in a row */
    uint8_t losses;
    bool by_owner; /* it came in without the lock */
};

/* The rest of take, for all but the owner. */
void wefti_bias_take_slow(struct wefti_bias *bias, void *self, uint32_t streak);
/* Not inside: make it what it was at first, nobody's and without a past.  The owner gives it up without a heavy fence: he knows that he is
 * not inside. */
void wefti_bias_reset(struct wefti_bias *bias, void *self);

/* O1 to O3.  True: inside, as its owner.  Leave with wefti_bias_give_own; or call wefti_bias_stay, and leave with wefti_bias_give. */
static inline bool wefti_bias_enter(struct wefti_bias *bias, void *self) {
    if (WEFTI_UNLIKELY(load_relaxed(&bias->owner) != self || !self)) /* a hint; O3 decides */
        return false;
    store_relaxed(&bias->busy, 1); /* O1 */
    fence_light(); /* O2, pairs with T2 */
    if (WEFTI_LIKELY(load_relaxed(&bias->owner) == self)) /* O3: what others did before we became it, we know */
        return true;
    store_release(&bias->busy, 0); /* pairs with T3 */
    return false;
}
static inline void wefti_bias_stay(struct wefti_bias *bias) { bias->by_owner = true; }

/* Both: leave with wefti_bias_give. */
static inline bool wefti_bias_own(struct wefti_bias *bias, void *self) {
    if (WEFTI_UNLIKELY(!wefti_bias_enter(bias, self)))
        return false;
    wefti_bias_stay(bias);
    return true;
}

/* self: the calling worker, or NULL; streak: how often in a row makes it the owner, 0: never. */
static inline void wefti_bias_take(struct wefti_bias *bias, void *self, uint32_t streak) {
    if (WEFTI_UNLIKELY(!wefti_bias_own(bias, self)))
        wefti_bias_take_slow(bias, self, streak);
}

/* T4. */
void wefti_bias_give_slow(struct wefti_bias *bias);

/* By one who knows that he came in as its owner. */
static inline void wefti_bias_give_own(struct wefti_bias *bias) {
    store_release(&bias->busy, 0); /* O4, pairs with T3 */
}

static inline void wefti_bias_give(struct wefti_bias *bias) {
    if (WEFTI_LIKELY(bias->by_owner))
        wefti_bias_give_own(bias);
    else
        wefti_bias_give_slow(bias);
}

#endif
