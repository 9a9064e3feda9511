/* slice.c - the end of a slice: in library calls, and in weft_checkpoint (slice.h has the rules). */
#include "fiber/slice.h"

#include "fiber/meter.h"
#include "fiber/next.h"
#include "task/account.h"

#define SLICE INT64_C(1000000)  /* ns */
#define LOOK_TIME (SLICE / 8)   /* ns between two looks at the clock, about */
#define LOOK_AFTER_MAX 127 /* units; WEFTI_SLICE_UNITS would need more room in a fiber than there is */
#define METERED_LOOK 16 /* units that a metered fiber spends between two looks */
#define LOOK_MAX 1024 /* checkpoints between two looks, at most */
#define SIM_CHECKPOINT 16 /* under sim, 1 in 16 checkpoints yields */
#define OWED_MAX 256 /* tasks that come first after a yield: twice the heavy calls of a slice */

/* -- The slice ------------------------------------------------------------------------------------------------ */

/* Under sim nothing may depend on how long something took.  The control thread keeps the time of its workers. */
static int64_t slice_clock(const struct wefti_worker *w) { return w->rt->sim || w->central ? 0 : wefti_clock(); }

/* A central worker looks in each call whether it has been asked: that is two loads, and no clock. */
static int64_t units_to_look(const struct wefti_worker *w, int8_t look_after) {
    return w->central ? 1 : look_after + INT64_C(1);
}

/* The first look in this slice.  What was spent before it is counted from units_to_look. */
static void begin(struct wefti_worker *w, int64_t now, int8_t look_after) {
    w->slice_polls = load_own(&w->counters.polls);
    w->slice_began = w->slice_looked = now;
    w->slice_spent = 0;
    w->slice_given = units_to_look(w, look_after) - 1;
    w->slice_looks = w->slice_left = 1;
}

static bool is_new(const struct wefti_worker *w) { return w->slice_polls != load_own(&w->counters.polls); }

/* Units until the next look.  fast: the last look_after units were measured and took less than LOOK_TIME; at the largest distance there
 * is no other look before the end of the slice then. */
static void give_units(struct wefti_worker *w, int8_t look_after, bool fast) {
    int64_t rest = WEFTI_SLICE_UNITS - w->slice_spent, units = units_to_look(w, look_after);
    bool all = units > rest || (fast && look_after == LOOK_AFTER_MAX);
    w->calls_left = w->slice_given = (all ? rest : units) - 1;
}

/* So many units took so long: how many fit between two looks? */
static int8_t adapt(int8_t look_after, int64_t units, int64_t took) {
    if (took < LOOK_TIME)
        return look_after < LOOK_AFTER_MAX ? (int8_t)(2 * look_after + 1) : look_after;
    while (look_after && took * (look_after + 1) > units * LOOK_TIME)
        look_after /= 2;
    return look_after;
}

/* The units have run out.  True: so has the slice.  False: calls_left is set anew. */
static bool look(struct wefti_worker *w, int8_t *look_after) {
    int64_t now = slice_clock(w);
    bool fresh = is_new(w);
    if (fresh)
        begin(w, now, *look_after);
    int64_t units = w->slice_given - w->calls_left;
    units = units < WEFTI_SLICE_UNITS ? units : WEFTI_SLICE_UNITS; /* many calls that never suspend */
    if (!w->central &&
        *look_after >= 0) /* a fresh one has not been measured: taken to be fast, until there is a second look */
        *look_after = adapt(*look_after, units, fresh ? 0 : now - w->slice_looked);
    w->slice_looked = now;
    w->slice_spent += units;
    w->calls_left = w->slice_given = -1; /* counted, should the slice not be renewed */
    if (w->slice_spent >= WEFTI_SLICE_UNITS || now - w->slice_began >= SLICE ||
        (w->central && wefti_preempt_is_asked(w)))
        return true;
    give_units(w, *look_after, !fresh);
    return false;
}

static void renew(struct wefti_worker *w, int64_t now, int8_t look_after) {
    begin(w, now, look_after);
    give_units(w, look_after, false);
}

/* A long slice is over: what waits for the clock or a descriptor has waited for that long. */
static void look_soon(struct wefti_worker *w) {
    wefti_worker_help(w, wefti_clock()); /* a tick of such slices takes long */
    if (w->look_left <= 1)
        return;
    wefti_worker_settle(w);
    w->look_left = 1;
}

/* Could another task run here?  If not, a yield would find the caller again, at the price of several calls.  Timers and descriptors are
 * looked at only between tasks; a driver, or a join that helps, goes on only there. */
static bool others_wait(struct wefti_worker *w) {
    if (w->look_left || w->driven || w->help || w->rt->sim)
        return true;
    if (w->central)
        return wefti_inject_waiting(&w->rt->inject) != 0 || wefti_control_has_more(w);
    if (w->unusual)
        return true;
    wefti_look_at_resting(w);
    return w->pinned.count || !wefti_mpsc_is_empty(&w->inbox) || load_own(&w->lifo.slot) ||
           (w->sched->waiting ? w->sched->waiting(w) != 0 : w->sched->has_work(w));
}

/* -- The simulator -------------------------------------------------------------------------------------------- */

/* Elsewhere another worker may do anything between two calls of a task.  Under sim one thread runs from one wait to the next: two fibers that lock two
 * mutexes in different orders would never meet.  So some calls let others run first although they need not wait.  If nobody else is ready nothing is
 * drawn: time does not move for a task that is alone. */

/* A fiber's call, each of which looks here: a point in one of rt->sim_points cases. */
static bool is_point(struct wefti_worker *w) {
    w->calls_left = 0; /* look again in the next call */
    return w->sched->has_work(w) && wefti_sim_draw(w->rt, w->rt->sim_points) == 0;
}

/* A poll task's call.  At most one in a poll is a point, and in half of the polls none, up to the end of the slice: a task that makes many calls in each poll
 * gets through all of them.  The first call draws which one it will be. */
static bool is_poll_point(struct wefti_worker *w) {
    bool first = is_new(w);
    uint32_t ahead = 0;
    if (first) {
        w->slice_polls = load_own(&w->counters.polls);
        ahead = w->sched->has_work(w) ? wefti_sim_draw(w->rt, 2 * w->rt->sim_points) : UINT32_MAX;
    }
    w->calls_left = first && ahead && ahead < w->rt->sim_points ? ahead - 1 : WEFTI_SLICE_UNITS;
    return !first || !ahead;
}

/* -- Library calls -------------------------------------------------------------------------------------------- */

static void yield_slice(struct wefti_worker *w, struct wefti_fiber *self) {
    if (w->slice_looked - w->slice_began >= LOOK_TIME)
        look_soon(w);
    if (w->sched->waiting) {
        wefti_worker_owe(w, OWED_MAX);
    } else {
        wefti_worker_settle(w);
        w->pinned_left = 0; /* the scheduler's tasks first */
    }
    wefti_fiber_preempt(w, self);
    renew(w, slice_clock(w), self->look_after);
}

/* A poll task, in a call that would suspend a fiber: it cannot yield here.  What it has spent is counted, and its next _poll call after at
 * most one slice more finds the slice used up. */
static void count_only(struct wefti_worker *w) {
    if (look(w, &w->look_after))
        w->calls_left = w->slice_given = w->central ? 0 : WEFTI_SLICE_UNITS;
}

void wefti_slice_end(weft_deadline until) {
    struct wefti_worker *w = wefti_worker_here();
    struct weft_task *task = w && until > 0 ? wefti_current(w) : NULL;
    if (!task)
        return;
    if (!wefti_task_is_fiber(task)) {
        if (!w->rt->sim_points)
            count_only(w);
        return;
    }
    struct wefti_fiber *self = wefti_fiber_of(task);
    if (WEFTI_UNLIKELY(w->rt->sim_points)) {
        if (!self->preempt_off && !wefti_deque_length(&w->jobs) && is_point(w))
            wefti_fiber_preempt(w, self);
        return;
    }
    if (self->look_after < 0 && w->calls_left >= -METERED_LOOK && !w->central) /* it comes here in each call */
        return;
    if (!look(w, &self->look_after))
        return;
    if (!self->preempt_off && !wefti_deque_length(&w->jobs) && others_wait(w))
        yield_slice(w, self);
    else
        renew(w, w->slice_looked, self->look_after);
}

/* The units of a poll task have run out: is its slice used up, and could another task run? */
static bool poll_must_yield(struct wefti_worker *w) {
    if (!look(w, &w->look_after))
        return false;
    if (!others_wait(w)) {
        renew(w, w->slice_looked, w->look_after);
        return false;
    }
    if (w->slice_looked - w->slice_began >= LOOK_TIME)
        look_soon(w);
    return true;
}

bool wefti_slice_poll_end(struct wefti_worker *w, struct weft_task *self) {
    if (!w || !self || wefti_current(w) != self || wefti_task_is_fiber(self))
        return false;
    bool yields = WEFTI_UNLIKELY(w->rt->sim_points) ? is_poll_point(w) : poll_must_yield(w);
    if (yields)
        wefti_wake_loosely(self); /* it is alive: it runs */
    return yields;
}

/* -- Checkpoints ---------------------------------------------------------------------------------------------- */

/* Reading the clock costs as much as a switch, so it is read every so many checkpoints: as many as fit into LOOK_TIME. */
static bool slice_is_over(struct wefti_worker *w, const struct wefti_fiber *self) {
    int64_t now = wefti_clock();
    if (is_new(w)) {
        begin(w, now, self->look_after);
        return false;
    }
    int64_t took = now - w->slice_began;
    if (took >= SLICE)
        return true;
    w->slice_looks = took < LOOK_TIME && w->slice_looks < LOOK_MAX ? 2 * w->slice_looks : w->slice_looks;
    w->slice_left = w->slice_looks;
    return false;
}

/* The scheduler asked (R32).  A fiber that has been asked WEFTI_PREEMPT_MAX times in a row without ever suspending has failed: it is
 * cancelled, and its status will be -ETIME (runner.c). */
static __attribute__((noinline)) void preempt(struct wefti_worker *w, struct wefti_fiber *self) {
    if (self->preempted < WEFTI_PREEMPT_MAX && ++self->preempted == WEFTI_PREEMPT_MAX) {
        self->leaves = true;
        wefti_cancel(&self->task, WEFT_REASON_BUDGET);
    }
    wefti_fiber_yield(w, self);
}

int weft_checkpoint(void) {
    struct wefti_worker *w = wefti_worker_here();
    struct weft_task *task = w ? wefti_current(w) : NULL;
    if (!task)
        return 0;
    if (!wefti_task_is_fiber(task))
        return -EINVAL;
    struct wefti_fiber *self = wefti_fiber_of(task);
    if (WEFTI_UNLIKELY(self->account != NULL) && --self->ops_left < 0) {
        wefti_meter_due_in_call(self);
        return wefti_fiber_must_end(self) ? -ECANCELED : 0;
    }
    if (WEFTI_UNLIKELY(w->rt->sim)) { /* nothing may depend on how long it took: now and then */
        if (wefti_random_below(&w->random, SIM_CHECKPOINT) == 0 && !self->preempt_off)
            wefti_fiber_yield(w, self);
    } else if (w->central && WEFTI_UNLIKELY(wefti_preempt_is_asked(w))) {
        if (!self->preempt_off)
            preempt(w, self);
    } else if (WEFTI_UNLIKELY(w->calls_left < 0)) { /* spent by calls that did not suspend */
        wefti_slice_end(WEFT_NEVER);
    } else if (!w->central && (is_new(w) || --w->slice_left == 0) && slice_is_over(w, self) && !self->preempt_off) {
        look_soon(w);
        wefti_fiber_yield(w, self);
    }
    return wefti_fiber_must_end(self) ? -ECANCELED : 0;
}
