/* meter.h - counting a fiber's ops.  Internal.
 *
 * What.   An op is a basic block of code that was compiled with weft-cc (which calls the hook below at the beginning of each), or a
 *         call that costs one.  A fiber gets a slice of ops; when it wants one more than that, something is due: others are to run,
 *         a bill is to be paid, its cancellation has come.
 * Who.    Both words are the running fiber's, no atomics: the hook is a load of the worker, of its current task, a look whether that is
 *         a fiber, and a decrement.
 * Where.  The hook may be called at any place of a user's code, so it yields only where a call of weft_yield would do: on the
 *         fiber's own stack (not in a signal handler on another), not between weft_preempt_off and _on, and not while forked jobs
 *         of this worker wait for their join, since these are joined newest first.  Code that weft itself calls in the midst of
 *         something (drop functions, wake callbacks) has no current fiber.  What is due then waits until it can be done: the
 *         count goes on below 0.
 *         It goes on on the same worker, always: no code expects a call between any two of its lines to change its thread.
 */
#ifndef WEFTI_FIBER_METER_H
#define WEFTI_FIBER_METER_H

#include "fiber/switch.h"

/* Below 0 for so long that it might overflow: then some are forgotten. */
#define WEFTI_OWED_MAX (INT32_MIN / 2)

/* By the running fiber, whose ops_left is below 0.  budget/meter.c. */
void wefti_meter_due(struct wefti_fiber *self);
/* The same in a call of weft, which can say that the fiber is cancelled: it is not discarded. */
void wefti_meter_due_in_call(struct wefti_fiber *self);
/* The same in a call that has paid: a new slice. */
void wefti_meter_next(struct wefti_fiber *self);
/* The same in a call that must not yield. */
void wefti_meter_refill(struct wefti_fiber *self);
/* Let others run, if it may be here. */
void wefti_meter_yield(struct wefti_fiber *self);

/* All ops of a fiber so far. */
static inline uint64_t wefti_meter_used(const struct wefti_fiber *fiber) {
    return fiber->ops_end - (uint64_t)(int64_t)fiber->ops_left;
}

#endif
