/* drive.c - running worker 0 on the caller's own thread, from the caller's own loop.
 *
 * Between two calls a driven worker is announced as asleep (idle.h, P1 to P4), so that whoever has work for it claims it and
 * calls the wake function; the next call takes the announcement back. */
#include "sched/sched.h"


/* Poll until nothing is ready or the limit is reached; true: the worker is announced as asleep. */
static bool poll_some(struct wefti_worker *w, unsigned max_polls, int *polls) {
    uint64_t start = load_own(&w->counters.polls);
    for (;;) {
        unsigned done = (unsigned)(load_own(&w->counters.polls) - start);
        *polls = (int)(done < INT32_MAX ? done : INT32_MAX);
        if (max_polls && done >= max_polls) {
            wefti_worker_found(w); /* we go away without having looked everywhere */
            return false;
        }
        if (wefti_worker_turn(w))
            continue;
        if (load_relaxed(&w->rt->phase) == WEFTI_STOPPED || wefti_worker_announce(w)) /* a look; nothing more comes */
            return true;
        wefti_worker_return(w);
    }
}

int weft_drive(weft_runtime *rt, unsigned max_polls) {
    struct wefti_worker *w = &rt->worker[0], *outer = wefti_worker_self(); /* the caller may be a worker of another runtime */
    int polls = 0;
    if (!rt->driven)
        return -EINVAL;
    if (outer && outer->rt == rt)
        return -EDEADLK;
    wefti_self_set(w);
    if (w->parking)
        wefti_worker_return(w);
    if (poll_some(w, max_polls, &polls)) {
        wefti_stop_check(rt);
        if (rt->sim)
            wefti_sim_idle(w, INT64_MAX);
    }
    wefti_self_set(outer);
    return polls;
}

int weft_drive_wait(weft_runtime *rt, unsigned max_polls, weft_deadline until) {
    for (;;) {
        int polls = weft_drive(rt, max_polls);
        if (polls)
            return polls;
        if (load_relaxed(&rt->phase) == WEFTI_STOPPED) /* a look; stopping it here and driving it there is a mistake */
            return -ESHUTDOWN;
        if (until != WEFT_NEVER && wefti_clock() >= until)
            return 0;
        struct wefti_worker *w = &rt->worker[0];
        wefti_park_sleep(&w->park, until);
    }
}
