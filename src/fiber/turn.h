/* turn.h - calls that may wait and did not have to: so many in one turn, and others have theirs.
 *
 * Why.    A fiber whose channel or descriptor always has something would keep its worker for ever, and with it all fibers that have begun
 *         there: nothing takes the worker from it.  So would one that sends to processes, and these would not get to what they are sent.
 * What.   Each such call counts down.  At 0 the fiber yields, unless there has been another turn since the last 0.  The tasks that wait then, which it
 *         may well have made ready, come before it (wefti_worker_owe).
 * Who.    The words are the worker's own.
 */
#ifndef WEFTI_FIBER_TURN_H
#define WEFTI_FIBER_TURN_H

#include "fiber/fiber.h"

#define WEFTI_TURN_CALLS 128 /* or up to twice as many */

/* A call was made.  True: it is time to look. */
static inline bool wefti_turn_count(struct wefti_worker *w) { return WEFTI_UNLIKELY(--w->calls_left <= 0); }

/* Look, and let others run if it was not; in a call that may suspend, before or after all that it does.  until: the caller's; with WEFT_NOW it
 * must not.  Not between a fork and its join, as far as can be seen, nor with preemption off; and who may move stays where it is. */
void wefti_turn_end(weft_deadline until);

/* All of it. */
static inline void wefti_turn_used(weft_deadline until) {
    struct wefti_worker *w = wefti_worker_here();
    if (w && wefti_turn_count(w))
        wefti_turn_end(until);
}

#endif
