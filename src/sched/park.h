/* park.h - one thread sleeps, any thread wakes it, and a wake that comes first is kept.
 *
 * Words.  UNPARKED, PARKED, NOTIFIED.  NOTIFIED is one token, however many gave it (B35).
 * Race.   sleeper: P1 UNPARKED -> PARKED          waker: U1 exchange for NOTIFIED
 *                  P2 sleep while PARKED                 U2 it was PARKED: wake
 *                  P3 exchange for UNPARKED
 * Claim.  A wake after the last P3 ends the next sleep; the system call is made only for a sleeper (B36).
 * Why.    U1 before P1: P1 fails.  U1 after P1: U2 wakes, or P2 finds the word changed.  P3 is an exchange: a second waker
 *         may have come since the word was read, and what it wrote must be seen.
 * Checked by.  test/model/park.c
 */
#ifndef WEFTI_SCHED_PARK_H
#define WEFTI_SCHED_PARK_H

#include <errno.h>

#include "plat/plat.h"

enum { WEFTI_UNPARKED = 0, WEFTI_PARKED = 1, WEFTI_PARK_NOTIFIED = 2 };

struct wefti_park {
    _Atomic uint32_t word;
};

/* The owner.  True: a token was taken; false: `until` came first. */
static inline bool wefti_park_sleep(struct wefti_park *park, int64_t until) {
    uint32_t found = WEFTI_UNPARKED;
    if (cas_relaxed(&park->word, &found, WEFTI_PARKED)) /* P1: P3 does the acquiring */
        while (load_relaxed(&park->word) == WEFTI_PARKED)
            if (wefti_futex_wait(&park->word, WEFTI_PARKED, until) == -ETIMEDOUT) /* P2 */
                break;
    return xchg_acquire(&park->word, WEFTI_UNPARKED) == WEFTI_PARK_NOTIFIED; /* P3, pairs with U1 */
}

/* Anyone.  The park may be gone once its owner has seen the token: it is not touched after U1. */
static inline void wefti_park_wake(struct wefti_park *park) {
    if (xchg_release(&park->word, WEFTI_PARK_NOTIFIED) == WEFTI_PARKED) /* U1, pairs with P3 */
        wefti_futex_wake(&park->word, 1);                               /* U2: wake */
}

#endif
