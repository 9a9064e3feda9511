/* timers.c - the timers of each worker, and who they wake.
 *
 * A timer belongs to the worker on which it was set.  That worker looks at its wheel while it runs, and sleeps no longer than until
 * the next one.  Others touch the wheel only to take a timer out, so its lock is nearly always free; a runtime with one worker
 * does without.
 */
#include "sched/sched.h"

#define LATE_FACTOR 4u /* looks at the clock a millisecond, while there are timers */

static void lock(struct wefti_worker *w) {
    if (w->rt->workers > 1)
        wefti_lock_take(&w->timers_lock);
}
static void unlock(struct wefti_worker *w) {
    if (w->rt->workers > 1)
        wefti_lock_give(&w->timers_lock);
}

int64_t wefti_now(const struct weft_runtime *rt) { return rt->sim ? wefti_sim_clock(rt) : wefti_clock(); }

void wefti_alarm_set(struct wefti_worker *w, struct wefti_alarm *alarm, struct weft_task *task, int64_t until) {
    alarm->task = task;
    alarm->worker = w;
    store_relaxed(&alarm->rang, false); /* before it is in the wheel */
    lock(w);
    wefti_wheel_add(&w->timers, &alarm->timer, until);
    unlock(w);
    if (!w->look_left)
        w->look_left = 1;
}

void wefti_alarm_clear(struct wefti_alarm *alarm) {
    struct wefti_worker *w = alarm->worker;
    if (load_acquire(&alarm->rang)) /* pairs with run: it is no longer in the wheel, and nobody touches it */
        return;
    lock(w);
    wefti_wheel_remove(&w->timers, &alarm->timer);
    unlock(w);
}

bool wefti_timers_run(struct wefti_worker *w, int64_t now) {
    bool any = false;
    for (;;) {
        lock(w);
        struct wefti_timer *timer = wefti_wheel_expire(&w->timers, now);
        if (!timer) {
            unlock(w);
            break;
        }
        struct wefti_alarm *alarm = (struct wefti_alarm *)(void *)timer; /* timer is its first field */
        struct weft_task *task = alarm->task;
        /* The task lives until it has cleared its alarm, which it cannot before `rang` or without the lock; after that it may be
         * gone, and the wake may meet nobody, or another in its place: wefti_wake_loosely. */
        store_release(&alarm->rang, true);
        unlock(w);
        wefti_wake_loosely(task);
        any = true;
    }
    return any;
}

void wefti_worker_look(struct wefti_worker *w) {
    if (w->timers.count)
        wefti_timers_run(w, wefti_now(w->rt));
    if (w->watch)
        wefti_watch_run(w);
    /* As often as the average poll allows, to be late by less than a tick. */
    w->look_left = w->timers.count || w->watch ? w->global_interval / LATE_FACTOR + 1 : 0;
    if (w->rt->sim && w->look_left)
        w->look_left = 1; /* nothing in a simulation may hang on how long a poll took */
}

int64_t wefti_timers_next(struct wefti_worker *w) {
    lock(w);
    int64_t next = wefti_wheel_next(&w->timers);
    unlock(w);
    return next;
}
