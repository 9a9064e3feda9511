/* weft/time.h - time for tasks: sleeping in a poll, and intervals that do not drift.
 *
 * Deadlines and weft_now() are in <weft/base.h>, weft_sleep() for fibers in <weft/fiber.h>.
 *
 * Clock.  The monotonic one: setting the wall clock changes nothing.  In a `sim` runtime it is virtual: it moves on only when nothing can
 * run, and then at once to the next timer.  A deadline belongs to the clock of where it was made: do not carry one from a plain thread
 * into a `sim` runtime.
 *
 * When.  Nothing is woken early; at most a millisecond late, plus the time until a worker is free.  The timers of a worker that is stuck in a
 * long poll are rung by the others, if stealing is on; its fibers still have to wait for it.
 *
 * Cost.  Setting and clearing a timer take constant time, however many there are, and no memory beside the task's own.
 */
#ifndef WEFT_TIME_H
#define WEFT_TIME_H

#include <weft/base.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

/* Sleep in a poll: either it is time, or `self` will be woken then.  To change the deadline, call weft_wait_end first.
 *
 *     static weft_poll blink(weft_task *self, void *state) {
 *         struct blink *b = state;
 *         if (!b->until)
 *             b->until = weft_after(1000000);
 *         if (weft_sleep_poll(self, &b->wait, b->until) == -EAGAIN)
 *             return WEFT_PENDING;
 *         ...
 *
 * Call from: the poll of `self`.  Its drop function calls weft_wait_end(&b->wait).
 * Returns 0 (it is `until`, and `wait` is free again); -EAGAIN (return WEFT_PENDING and ask again when polled); -EINVAL (`self` is
 * not the running poll task). */
WEFT_API WEFT_MUST_USE int weft_sleep_poll(weft_task *self, weft_wait *wait, weft_deadline until);

/* Points in time at equal distances.  However late a wait returns, the next ones are where they would have been. */
typedef struct weft_interval {
    int64_t period;     /* ns, at least 1 */
    weft_deadline next; /* the point that the next wait is for */
} weft_interval;

/* The first point is one period from now.  A period below 1 counts as 1. */
WEFT_API void weft_interval_init(weft_interval *interval, int64_t period);
/* The first point is `first`: for several intervals in step, or one that begins at once.  `first` may be in the past, also below 0. */
WEFT_API void weft_interval_init_at(weft_interval *interval, weft_deadline first, int64_t period);

/* Wait for the next point.  Points that have passed meanwhile are not made up for, but counted: the result is how many have passed since
 * the last one, so a loop that keeps up always gets 1.
 * Call from: a fiber, or a plain thread (which sleeps).  May suspend.
 * Returns 1 or more, at most INT_MAX; -ECANCELED (the interval is unchanged); -EINVAL (in a poll task). */
WEFT_API WEFT_MUST_USE int weft_interval_wait(weft_interval *interval);
/* The same in a poll: as weft_sleep_poll.  Returns 1 or more; -EAGAIN; -EINVAL. */
WEFT_API WEFT_MUST_USE int weft_interval_poll(weft_interval *interval, weft_task *self, weft_wait *wait);

WEFT_EXTERN_C_END
#endif
