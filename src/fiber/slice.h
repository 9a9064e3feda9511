/* slice.h - how long a fiber or a poll task may run before others do.
 *
 * Why.    A fiber whose lock is always free, or whose channel always has a value, never suspends.  Without a limit it keeps its
 *         worker: no other fiber of that worker runs, and no timer rings there.
 * What.   Every library call spends some of the slice: 1 unit, or WEFTI_SLICE_HEAVY if it makes a system call or sends to a process.
 *         The slice is used up after WEFTI_SLICE_UNITS, after 1 ms, or, under a scheduler with a control thread, when that thread
 *         asks.  Then
 *           - a call that may suspend yields first, if another task could run,
 *           - a call that never suspends (an unlock, a try_ call, a deadline of WEFT_NOW) goes on and leaves the yield to the next call,
 *           - a _poll call wakes its task again and returns -EAGAIN.
 *         A fiber does not yield here between a fork and its join, nor with preemption off, nor outside its own code (drop functions).
 *         Such a yield does not count as a preemption (R32).  A fiber that may migrate comes back to the same worker: the code
 *         around the call does not expect a move.
 *         Under sim a slice has one unit: every call looks, and a draw decides whether it yields (slice.c, docs/internals/sim.md).
 * Words.  calls_left  the worker's: units that calls may spend before the next look.  The call that takes it below 0 looks.  Set when a
 *                     task begins to run, written by the worker alone.
 *         look_after  the fiber's (the worker's, for poll tasks): what calls_left is set to, 2^n - 1.  It adapts, so that looks are about
 *                     1/8 ms apart while calls are slow, and a slice has two looks while they are fast: a loop with 1 ms of its own
 *                     work between two calls is noticed, and the clock is not read in each call.  The first look in a slice cannot
 *                     tell how long the calls before it took, and doubles the distance: a fiber that suspends after a few calls has no
 *                     look at all.  A metered fiber has -1: each of its calls takes the slow path, where it pays, and one in 16 looks.
 * Bound.  In time a slice has about 1 ms and two calls, with one exception: calls that become slower are noticed at the next look.
 *         That is up to 896 units away, for a new fiber 2 * (WEFTI_SLICE_START + 1).
 */
#ifndef WEFTI_FIBER_SLICE_H
#define WEFTI_FIBER_SLICE_H

#include "fiber/fiber.h"
#include "sched/sched.h"

#define WEFTI_SLICE_UNITS 1024
#define WEFTI_SLICE_HEAVY 8

/* A fiber begins to run on `w`: a new slice. */
static inline void wefti_slice_begin(struct wefti_worker *w, const struct wefti_fiber *fiber) {
    w->calls_left = fiber->look_after;
}

/* A call spends.  True: call wefti_slice_end, if the call may suspend.  w: the calling worker, or NULL, of which it says true as well: a
 * plain thread takes the slow path, where it finds that it has no slice. */
static inline bool wefti_slice_spend(struct wefti_worker *w) { return WEFTI_UNLIKELY(!w || --w->calls_left < 0); }
static inline bool wefti_slice_spend_heavy(struct wefti_worker *w) {
    return WEFTI_UNLIKELY(!w || (w->calls_left -= WEFTI_SLICE_HEAVY) < 0);
}

/* A call that never suspends spends. */
static inline void wefti_slice_note(struct wefti_worker *w) {
    if (WEFTI_LIKELY(w != NULL))
        w->calls_left--;
}

/* Yield if the slice is used up and another task could run.  By a call that may suspend, before anything else.  until: the caller's
 * deadline; with WEFT_NOW nothing happens. */
void wefti_slice_end(weft_deadline until);

/* Both, for calls of which nothing is inlined. */
static inline void wefti_slice_use(weft_deadline until) {
    if (wefti_slice_spend(wefti_worker_here()))
        wefti_slice_end(until);
}
static inline void wefti_slice_use_heavy(weft_deadline until) {
    if (wefti_slice_spend_heavy(wefti_worker_here()))
        wefti_slice_end(until);
}

/* The same for a _poll call of `self`, before anything else.  True: the slice is used up, `self` will be polled again, and the call
 * returns -EAGAIN.  A call that then has to wait gets its unit back (wefti_poll_waits); a heavy one spends the rest when it is through. */
bool wefti_slice_poll_end(struct wefti_worker *w, struct weft_task *self);
static inline bool wefti_slice_poll(struct weft_task *self) {
    struct wefti_worker *w = wefti_worker_self();
    return wefti_slice_spend(w) && wefti_slice_poll_end(w, self);
}
static inline void wefti_slice_poll_through(void) { wefti_worker_self()->calls_left -= WEFTI_SLICE_HEAVY - 1; }

#endif
