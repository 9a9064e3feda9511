/* bias.c - a lock that costs its usual user nothing (bias.h has the protocol). */
#include "queue/bias.h"

#define SPINS 64 /* looks at `busy` before letting another thread run */

/* With the lock: it has an owner, and that is not us. */
static void revoke(struct wefti_bias *bias) {
    store_relaxed(&bias->owner, NULL); /* T1 */
    wefti_fence_heavy();               /* T2 */
    for (unsigned spin = 0; load_acquire(&bias->busy); spin++) /* T3, pairs with O4 */
        if (spin < SPINS)
            wefti_relax(); /* a few dozen instructions of another thread ... */
        else if (WEFTI_LIKELY(!wefti_is_forked()))
            wefti_thread_yield(); /* ... that does not run just now ... */
        else
            wefti_futex_wait(&bias->busy, 1, INT64_MAX); /* ... or never again: ends the process, and says why */
    bias->losses++;
}

void wefti_bias_take_slow(struct wefti_bias *bias, void *self, uint32_t streak) {
    wefti_lock_take(&bias->lock); /* T0 */
    if (load_relaxed(&bias->owner))  /* changed only with the lock */
        revoke(bias);
    bias->by_owner = false;
    if (!streak || self != bias->last) {
        bias->last = self;
        bias->streak = 0;
    } else if (++bias->streak >= streak << WEFTI_BIAS_GROWTH * bias->losses && bias->losses < WEFTI_BIAS_LOSSES) {
        bias->streak = 0;
        store_relaxed(&bias->owner, self); /* to ourselves, and to who takes the lock after us */
    }
}

void wefti_bias_give_slow(struct wefti_bias *bias) { wefti_lock_give(&bias->lock); /* T4 */ }

void wefti_bias_reset(struct wefti_bias *bias, void *self) {
    wefti_lock_take(&bias->lock); /* T0 */
    void *owner = load_relaxed(&bias->owner); /* changed only with the lock */
    if (owner && owner == self)
        store_relaxed(&bias->owner, NULL); /* T1; T2 and T3 are not needed: busy is ours, and 0 */
    else if (owner)
        revoke(bias);
    bias->last = NULL;
    bias->streak = 0;
    bias->losses = 0;
    wefti_lock_give(&bias->lock); /* T4 */
}
