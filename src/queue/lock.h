/* lock.h - the internal mutex: a futex word, for short sections that never wait, call users, or switch.
 *
 * Words.  0 free, 1 held, 2 held and somebody may sleep.
 * Race.   lock: L1 find it held            unlock: U1 exchange to 0
 *               L2 exchange to 2                   U2 wake one if it was 2
 *               L3 sleep while it is 2
 * Claim.  Mutual exclusion; no sleeper stays when the lock is free.
 * Why.    L2 and U1 act on one word.  If U1 comes first, L2 takes the lock.  If L2 comes first, U1 sees 2 and wakes;
 *         L3 does not sleep unless the word is still 2.  Who was woken takes it as 2, for others that may sleep.
 * Spin.   Every look takes the line from whoever works with it.  So looks become rarer: who has the lock, and takes it again and again, gets
 *         a few dozen turns in between, and then so does the other.  (Looking at every pause, a channel between two cores moved a
 *         value in the time of two cache misses, five times as long as on one core.)
 * Checked by.  test/model/queues.c
 */
#ifndef WEFTI_QUEUE_LOCK_H
#define WEFTI_QUEUE_LOCK_H

#include "base/assert.h"
#include "plat/plat.h"

#ifndef WEFTI_LOCK_SPIN
#define WEFTI_LOCK_SPIN 6 /* looks before sleeping, each after twice as long: 63 pauses in all */
#endif

struct wefti_lock {
    _Atomic uint32_t word;
};

static inline void wefti_lock_take(struct wefti_lock *lock) {
    uint32_t found = 0;
    if (WEFTI_LIKELY(cas_acquire(&lock->word, &found, 1))) /* pairs with U1 */
        return;
    for (int spin = 0; spin < WEFTI_LOCK_SPIN; spin++) {
        for (int pause = 0; pause < 1 << spin; pause++)
            wefti_relax();
        found = 0;
        if (load_relaxed(&lock->word) == 0 && cas_acquire(&lock->word, &found, 1)) /* a hint, then the swap */
            return;
    }
    while (xchg_acquire(&lock->word, 2) != 0) /* L2, pairs with U1 */
        wefti_futex_wait(&lock->word, 2, INT64_MAX);
}

static inline void wefti_lock_give(struct wefti_lock *lock) {
    uint32_t found = xchg_release(&lock->word, 0); /* U1 */
    wefti_assert(found != 0, found);
    if (WEFTI_UNLIKELY(found == 2))
        wefti_futex_wake(&lock->word, 1); /* U2: wake */
}

#endif
