/* drive.c - running worker 0 on the caller's own thread, from the caller's own loop.
 *
 * Between two calls (unless the limit of polls ended the last one) a driven worker is announced as asleep (idle.h, P1 to P4), so that whoever has work for it claims it and
 * calls the wake function; the next call takes the announcement back. */
#include "sched/sched.h"

/* Run until nothing is ready or the limit is reached; true: the worker is announced as asleep. */
static bool poll_some(struct wefti_worker *w, unsigned max_polls, int *polls) {
    uint64_t start = load_own(&w->counters.polls) + load_own(&w->counters.cancelled);
    for (;;) {
        uint64_t done = load_own(&w->counters.polls) + load_own(&w->counters.cancelled) - start;
        *polls = (int)(done < INT32_MAX ? done : INT32_MAX);
        if (max_polls && done >= max_polls) {
            wefti_worker_found(w); /* we go away without having looked everywhere */
            return false;
        }
        if (wefti_worker_turn(w) || (wefti_timers_any(w) && wefti_timers_run(w, wefti_now(w->rt))) ||
            wefti_watch_run(w))
            continue;
        if (load_relaxed(&w->rt->phase) == WEFTI_STOPPED || wefti_worker_announce(w)) /* a look; nothing more comes */
            return true;
        wefti_worker_return(w);
    }
}

int wefti_drive_begin(struct weft_runtime *rt) {
    struct wefti_worker *self = wefti_worker_self();
    uint32_t nobody = 0;
    if (!rt || !rt->driven)
        return -EINVAL;
    if (self && self->rt == rt)
        return -EDEADLK;
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    return cas_acquire(&rt->driver, &nobody, 1) ? 0 : -EBUSY; /* pairs with end: the worker's own fields */
}

void wefti_drive_end(struct weft_runtime *rt) { store_release(&rt->driver, 0); } /* pairs with begin */

int wefti_drive_inside(struct weft_runtime *rt, unsigned max_polls) {
    struct wefti_worker *w = &rt->worker[0],
                        *outer = wefti_worker_self(); /* the caller may be a worker of another runtime */
    int polls = 0;
    bool again = false;
    wefti_self_set(w);
    w->stack_limit = wefti_stack_limit();
    w->stack_top = (uintptr_t)__builtin_frame_address(0);
    w->errno_at = wefti_errno_at();
    w->exceptions = wefti_exceptions_at();
    wefti_stack_adopt(&w->native); /* each time: it may be another thread */
    bool signals = load_relaxed(&rt->has_fibers) && wefti_signal_stack_begin(&w->signal_stack); /* a hint */
    w->measured_from = load_own(&w->counters.polls);
    w->measure_began = wefti_clock(); /* what its caller did meanwhile is not polling */
    do {
        if (w->parking)
            wefti_worker_return(w);
        wefti_watch_dispatch(w);
        if (!poll_some(w, max_polls, &polls))
            break;
        wefti_stop_check(rt);
        again = rt->sim && wefti_sim_idle(w, wefti_timers_next(w)) && polls == 0;
    } while (again);
    if (signals)
        wefti_signal_stack_end();
    wefti_self_set(outer);
    return polls;
}

int weft_drive(weft_runtime *rt, unsigned max_polls) {
    int result = wefti_drive_begin(rt);
    if (result)
        return result;
    result = wefti_drive_inside(rt, max_polls);
    wefti_drive_end(rt);
    return result;
}

weft_deadline weft_drive_next(weft_runtime *rt) {
    if (wefti_drive_begin(rt))
        return WEFT_NEVER;
    int64_t next = wefti_real(rt, wefti_timers_next(rt->control ? rt->control : &rt->worker[0]));
    wefti_drive_end(rt);
    return next;
}

int weft_drive_wait(weft_runtime *rt, unsigned max_polls, weft_deadline until) {
    int result = wefti_drive_begin(rt);
    if (result)
        return result;
    while ((result = wefti_drive_inside(rt, max_polls)) == 0) {
        if (load_relaxed(&rt->phase) == WEFTI_STOPPED) { /* the stopper's token orders it */
            result = -ESHUTDOWN;
            break;
        }
        if (until != WEFT_NEVER && wefti_clock() >= until)
            break;
        int64_t next = wefti_real(rt, wefti_timers_next(&rt->worker[0]));
        wefti_worker_doze(&rt->worker[0], next < until ? next : until); /* drive_inside dispatches */
    }
    wefti_drive_end(rt);
    return result;
}
