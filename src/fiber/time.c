/* time.c - sleeping in a poll, and intervals. */
#include <limits.h>
#include <weft/time.h>

#include "fiber/slice.h"
#include "fiber/wait.h"

/* -- Sleeping in a poll ------------------------------------------------------------------------------------- */

/* An alarm lies where the waiter of other waits lies. */
static struct wefti_alarm *alarm_of(struct wefti_poll_wait *poll) {
    _Static_assert(sizeof(struct wefti_alarm) <= sizeof poll->waiter, "room enough");
    return (struct wefti_alarm *)(void *)&poll->waiter;
}

static void end_sleep(struct wefti_poll_wait *poll) {
    wefti_alarm_clear(alarm_of(poll));
    poll->end = NULL;
}

#define FAR INT64_C(1000000000)

/* Is it known without a look at the clock that this need not be rung at once?  The last tick is in the past, so by what is close to it the clock decides.
 * Should that tick be long ago, and `until` over as well, the alarm is set all the same, and the next look at the wheel rings it. */
static bool is_far(const struct wefti_worker *w, int64_t until) {
    return until > w->measure_began + FAR && !w->rt->sim && !w->rt->control;
}

int weft_sleep_poll(weft_task *self, weft_wait *wait, weft_deadline until) {
    struct wefti_worker *w = wefti_worker_here();
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    if (!w || wefti_current(w) != self || !self || wefti_task_is_fiber(self))
        return -EINVAL;
    if (wefti_slice_poll(self))
        return -EAGAIN;
    if (wefti_poll_wait_is_taken(poll, end_sleep, poll->thing))
        return -EBUSY;
    if (poll->end) { /* asked before */
        if (!load_acquire(&alarm_of(poll)->timer.rang)) /* pairs with timers.c, R2 */
            return wefti_poll_waits(-EAGAIN, WEFTI_A_TIMER);
        poll->end = NULL;
        return 0;
    }
    if (until == WEFT_NEVER)
        return wefti_poll_waits(-EAGAIN, WEFTI_A_TIMER);
    if (!is_far(w, until) && until <= wefti_now(w->rt))
        return 0;
    poll->end = end_sleep;
    wefti_alarm_set(w, alarm_of(poll), self, until);
    return wefti_poll_waits(-EAGAIN, WEFTI_A_TIMER);
}

/* -- Intervals -------------------------------------------------------------------------------------------------- */

void weft_interval_init_at(weft_interval *interval, weft_deadline first, int64_t period) {
    *interval = (weft_interval){period > 0 ? period : 1, first};
}

void weft_interval_init(weft_interval *interval, int64_t period) {
    weft_interval_init_at(interval, weft_after(period > 0 ? period : 1), period);
}

/* It is interval->next or later: moves on to the next point after `now`, and returns how many have passed.  In unsigned numbers: from a point
 * below 0 until now it may be more than INT64_MAX. */
static int step(weft_interval *interval, int64_t now) {
    int64_t period = interval->period > 0 ? interval->period : 1; /* the field is the caller's, too */
    uint64_t since = now > interval->next ? (uint64_t)now - (uint64_t)interval->next : 0;
    uint64_t passed = since / (uint64_t)period; /* beside the one we waited for */
    int64_t last = (int64_t)((uint64_t)interval->next + passed * (uint64_t)period);
    interval->next = last < INT64_MAX - period ? last + period : WEFT_NEVER;
    return passed < INT_MAX ? (int)passed + 1 : INT_MAX;
}

int weft_interval_wait(weft_interval *interval) {
    int error = weft_sleep_until(interval->next);
    return error ? error : step(interval, weft_now());
}

int weft_interval_poll(weft_interval *interval, weft_task *self, weft_wait *wait) {
    int error = weft_sleep_poll(self, wait, interval->next);
    return error ? error : step(interval, weft_now());
}
