/* timers.c - the timers of each worker, and who they wake.
 *
 * What.   A timer belongs to the worker on which it was set.  That worker looks at its wheel while it runs, and sleeps no longer than
 *         until the next one.  Others touch the wheel to take a timer out, and to ring what a worker that is stuck in a long
 *         poll has left overdue; so its lock is nearly always free.  A runtime with one worker does without.
 *         Where a control thread hands out the tasks, all timers are its.
 * Words.  wheel, alarm->timer: under the lock.  alarm->timer.rang: set once, under the lock, the ringer's last touch.
 *         timers_next: no timer in the wheel is due before; written under the lock, by others read as a hint.
 * Race.   ringer: R1 lock, take the timer out          task: C1 woken for any reason; rang? then the alarm is its own
 *                 R2 note the task, set rang                 C2 else lock, take the timer out if it is there, unlock
 *                 R3 unlock, wake the task                   C3 the alarm's memory goes
 * Claim.  After C1 or C2 nobody touches the alarm; a task whose time has come is woken after `rang` can be seen.
 * Why.    R1 and C2 hold one lock: either C2 finds the timer, and no ringer will; or it comes after R2.  R3 uses the task that
 *         R2 noted, which may have ended since: wefti_wake_loosely.
 * Checked by.  test/model/timers.c
 */
#include "sched/sched.h"

#define LATE_FACTOR 4u           /* looks at the clock a millisecond, while there are timers */
#define BATCH 32u                /* tasks that are woken for one turn of the lock */
#define OVERDUE WEFTI_WHEEL_TICK /* so late a timer must be before others ring it */

static bool is_shared(const struct wefti_worker *w) { return w->rt->workers > 1 || w->rt->control; }
static void lock(struct wefti_worker *w) {
    if (is_shared(w))
        wefti_lock_take(&w->timers_lock);
}
static void unlock(struct wefti_worker *w) {
    if (is_shared(w))
        wefti_lock_give(&w->timers_lock);
}

int64_t wefti_now(const struct weft_runtime *rt) { return rt->sim ? wefti_sim_clock(rt) : wefti_clock(); }

void wefti_alarm_set(struct wefti_worker *w, struct wefti_alarm *alarm, struct weft_task *task, int64_t until) {
    struct wefti_worker *keeper = w->rt->control ? w->rt->control : w;
    alarm->task = task;
    alarm->worker = keeper;
    store_relaxed(&alarm->timer.rang, false); /* before it is in the wheel */
    lock(keeper);
    wefti_wheel_add(&keeper->timers, &alarm->timer, until);
    if (until < load_relaxed(&keeper->timers_next)) /* the lock orders it */
        store_relaxed(&keeper->timers_next, until); /* a hint to others */
    unlock(keeper);
    if (keeper == w) /* a control thread looks when it hears that the task waits, or soon */
        wefti_worker_look_soon(w);
}

void wefti_alarm_clear(struct wefti_alarm *alarm) {
    struct wefti_worker *w = alarm->worker;
    if (load_acquire(&alarm->timer.rang)) /* C1, pairs with R2: it is no longer in the wheel, and nobody touches it */
        return;
    lock(w); /* C2 */
    wefti_wheel_remove(&w->timers, &alarm->timer);
    unlock(w);
}

uint64_t wefti_timers_run(struct wefti_worker *owner, int64_t now) {
    struct weft_task *task[BATCH];
    uint32_t count;
    uint64_t rang = 0;
    do {
        count = 0;
        lock(owner);
        for (struct wefti_timer *timer; count < BATCH && (timer = wefti_wheel_expire(&owner->timers, now));) { /* R1 */
            struct wefti_alarm *alarm = (struct wefti_alarm *)(void *)timer; /* timer is its first field */
            __builtin_prefetch(alarm->task); /* it has most likely left the caches */
            task[count++] = alarm->task;
            store_release(&alarm->timer.rang, true); /* R2, pairs with C1 */
        }
        if (count < BATCH)
            store_relaxed(&owner->timers_next, wefti_wheel_next(&owner->timers)); /* a hint to others */
        unlock(owner);
        for (uint32_t i = 0; i < count; i++)
            wefti_wake_loosely(task[i]); /* R3: wake */
        rang += count;
    } while (count == BATCH);
    return rang;
}

void wefti_worker_look(struct wefti_worker *w) {
    if (wefti_timers_any(w))
        wefti_timers_run(w, wefti_now(w->rt));
    if (w->watch)
        wefti_watch_run(w);
    /* As often as the average poll allows, to be late by less than a tick. */
    w->look_left = wefti_timers_any(w) || w->watch ? w->global_interval / LATE_FACTOR + 1 : 0;
    if (w->rt->sim && w->look_left)
        w->look_left = 1; /* nothing in a simulation may hang on how long a poll took */
}

int64_t wefti_timers_next(struct wefti_worker *w) {
    return wefti_timers_any(w) ? load_relaxed(&w->timers_next)
                               : INT64_MAX; /* only we make it earlier; or we are told */
}

static bool is_overdue(struct wefti_worker *other, int64_t now) {
    return load_relaxed(&other->timers_next) <= now - OVERDUE; /* a hint; run looks under the lock */
}

bool wefti_timers_overdue(struct wefti_worker *w, int64_t now) {
    struct wefti_worker *other;
    for (struct wefti_others o = wefti_others_from(w, 0); (other = wefti_others_next(&o));)
        if (is_overdue(other, now))
            return true;
    return false;
}

bool wefti_timers_help(struct wefti_worker *w, int64_t now) {
    struct wefti_worker *other;
    bool any = false;
    for (struct wefti_others o = wefti_others_from(w, 0); (other = wefti_others_next(&o));)
        if (is_overdue(other, now))
            any = wefti_timers_run(other, now) || any;
    return any;
}

void wefti_timers_help_one(struct wefti_worker *w, int64_t now) {
    w->timers_helped = w->timers_helped + 1 < w->rt->workers ? w->timers_helped + 1 : 0;
    struct wefti_worker *other = &w->rt->worker[w->timers_helped];
    if (other != w && is_overdue(other, now))
        wefti_timers_run(other, now);
}

int64_t wefti_real(const struct weft_runtime *rt, int64_t when) {
    if (!rt->sim || when == INT64_MAX)
        return when;
    int64_t clock = wefti_sim_clock(rt), now = wefti_clock();
    if (when <= clock) /* first: their difference may be no number */
        return now;
    return when - clock < INT64_MAX - now ? now + (when - clock) : INT64_MAX;
}
