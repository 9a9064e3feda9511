/* timer.c - a nursery's deadline: a poll task that waits for it, and cancels the nursery.
 *
 * What.   The owner may be anywhere when the deadline passes, also computing, or a thread that does something else; so somebody else keeps the time.
 * Who.    The timer lives in its task's state; the nursery has the handle.  `nursery` and `until`: under its lock.
 * Race.   timer: T1 lock; late, and nursery != NULL: K1 (a pin); unlock        owner: O1 lock; nursery = NULL; unlock
 *                T2 cancel, K4                                                 O2 cancel the task, drop the handle
 * Claim.  The timer never touches a nursery that has been given back.
 * Why.    T1 first: the pin is taken; but then the owner has been served before, so live is 0 and the state is final: K1 does nothing.  O1 first: T1 finds NULL.
 */
#include "nursery/nursery.h"

struct wefti_nursery_timer {
    struct wefti_alarm alarm; /* the task's */
    bool set;
    int64_t set_to;
    struct weft_task *task; /* its own */
    struct wefti_lock lock;
    struct wefti_nursery *nursery; /* NULL: it has ended */
    int64_t until;
};
_Static_assert(sizeof(struct wefti_nursery_timer) <= WEFT_STATE_MAX, "room enough");

static void clear(struct wefti_nursery_timer *timer) {
    if (timer->set)
        wefti_alarm_clear(&timer->alarm);
    timer->set = false;
}

static weft_poll poll(weft_task *self, void *state) {
    struct wefti_nursery_timer *timer = state;
    struct wefti_worker *w = wefti_worker_self();
    wefti_lock_take(&timer->lock);
    struct wefti_nursery *n = timer->nursery;
    int64_t until = timer->until;
    bool cancel = false, late = until <= wefti_now(w->rt);
    if (n && late) {
        wefti_lock_take(&n->lock);
        cancel = wefti_nursery_cancel_begin(n, WEFT_REASON_TIMEOUT); /* T1 */
        wefti_lock_give(&n->lock);
    }
    wefti_lock_give(&timer->lock);
    if (cancel)
        wefti_nursery_cancel_begun(n); /* T2 */
    if (!n)
        return WEFT_READY;
    if (timer->set && (timer->set_to != until || late))
        clear(timer);
    if (!timer->set && !late && until != WEFT_NEVER) {
        wefti_alarm_set(w, &timer->alarm, self, until);
        timer->set = true;
        timer->set_to = until;
    }
    return WEFT_PENDING; /* until it is moved, or the nursery ends */
}

static void drop(void *state) { clear(state); }

static int start(struct wefti_nursery *n, int64_t until) {
    struct wefti_nursery_timer timer = {.nursery = n, .until = until};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = poll;
    spec.drop = drop;
    spec.state = &timer;
    spec.state_size = sizeof timer;
    spec.name = "deadline";
    weft_task *task;
    int error = wefti_spawn_freely(n->rt, &spec, &task);
    if (!error) {
        n->timer = wefti_task_state(task);
        n->timer->task = task; /* the owner's: the poll has no use for it */
    }
    return error;
}

int weft_nursery_set_deadline(weft_nursery *nursery, weft_deadline until) {
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    struct wefti_worker *w = wefti_worker_here();
    if (!n || !n->rt) /* none, or never opened */
        return -EINVAL;
    if (n->made_by != (w ? wefti_current(w) : NULL))
        return -EACCES;
    struct wefti_nursery_timer *timer = n->timer;
    if (!n->bound || (!timer && until == WEFT_NEVER))
        return 0;
    /* No need to ask anybody; should there be a timer, it will find nothing to do.  The one before may have passed while no worker was free for its task;
     * nobody else changes it. */
    int64_t now = wefti_now(n->rt);
    if (until <= now || (timer && timer->until <= now)) {
        wefti_nursery_cancel(n, WEFT_REASON_TIMEOUT);
        return 0;
    }
    if (!timer)
        return start(n, until);
    wefti_lock_take(&timer->lock);
    timer->until = until;
    wefti_lock_give(&timer->lock);
    wefti_word_ref(&timer->task->word);
    wefti_wake(wefti_waker_task(timer->task));
    return 0;
}

void wefti_nursery_timer_end(struct wefti_nursery *n) {
    struct wefti_nursery_timer *timer = n->timer;
    if (!timer)
        return;
    n->timer = NULL;
    struct weft_task *task = timer->task;
    wefti_lock_take(&timer->lock);
    timer->nursery = NULL; /* O1 */
    wefti_lock_give(&timer->lock);
    weft_task_cancel(task); /* O2 */
    weft_task_drop(task);
}
