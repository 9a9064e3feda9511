/* park.h - one thread sleeps, any thread wakes it, and a wake that comes first is kept.
 *
 * Words.  UNPARKED, PARKED, NOTIFIED.  NOTIFIED is one token, however many gave it (B35).  A worker that has descriptors to watch
 *         sleeps in its poller instead of on the word: POLLING, and above it which descriptor ends that sleep.
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

enum { WEFTI_UNPARKED = 0, WEFTI_PARKED = 1, WEFTI_PARK_NOTIFIED = 2, WEFTI_POLLING = 3 };
#define WEFTI_POLLING_SHIFT 2

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

/* The owner, sleeping in a poller: P1 to P3 with a wait that a poke ends, and events besides.  *count: how many there are.
 * True: a token was taken. */
static inline bool wefti_park_poll(struct wefti_park *park, struct wefti_poller *poller,
                                   struct wefti_poll_event *events, int64_t until, int *count) {
    uint32_t found = WEFTI_UNPARKED, polling = WEFTI_POLLING | (uint32_t)poller->poke << WEFTI_POLLING_SHIFT;
    if (!cas_relaxed(&park->word, &found, polling)) /* P1 */
        until = 0; /* a token is there: look, but do not wait */
    *count = wefti_poller_wait(poller, events, until); /* P2 */
    return xchg_acquire(&park->word, WEFTI_UNPARKED) == WEFTI_PARK_NOTIFIED; /* P3, pairs with U1 */
}

/* The same for a plain thread that waits for some descriptors.  *state: as wefti_fds_sleep, 1 when there was a token.  poke may be -1:
 * then a token does not end the sleep. */
static inline bool wefti_park_fds(struct wefti_park *park, const struct wefti_fd_wish *wishes, unsigned count, int poke,
                                  int64_t until, int *state) {
    uint32_t found = WEFTI_UNPARKED, polling = WEFTI_POLLING | (uint32_t)poke << WEFTI_POLLING_SHIFT;
    *state = 1;
    if (poke < 0 || cas_relaxed(&park->word, &found, polling)) /* P1 */
        *state = wefti_fds_sleep(wishes, count, poke, until); /* P2 */
    return xchg_acquire(&park->word, WEFTI_UNPARKED) == WEFTI_PARK_NOTIFIED; /* P3, pairs with U1 */
}
static inline bool wefti_park_fd(struct wefti_park *park, int fd, uint32_t what, int poke, int64_t until, int *state) {
    struct wefti_fd_wish one = {fd, what};
    return wefti_park_fds(park, &one, 1, poke, until, state);
}

/* The owner, as a hint. */
static inline bool wefti_park_has_token(struct wefti_park *park) {
    return load_relaxed(&park->word) == WEFTI_PARK_NOTIFIED;
}

/* Anyone.  The park may be gone once its owner has seen the token: it is not touched after U1. */
static inline void wefti_park_wake(struct wefti_park *park) {
    uint32_t found = xchg_release(&park->word, WEFTI_PARK_NOTIFIED); /* U1, pairs with P3 */
    if (found == WEFTI_PARKED)
        wefti_futex_wake(&park->word, 1); /* U2: wake */
    else if ((found & WEFTI_POLLING) == WEFTI_POLLING)
        wefti_poke((int)(found >> WEFTI_POLLING_SHIFT)); /* U2: wake; a poke that comes late ends the next wait early */
}

#endif
