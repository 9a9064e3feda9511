/* fork.c - weft_fork and weft_join_job: the forker's side (sched/jobs.h has the protocol). */
#include "sched/jobs.h"

#ifndef WEFTI_JOB_SPIN
#define WEFTI_JOB_SPIN 256u /* looks at a stolen job before the forker sleeps: about as long as a wake costs */
#endif

void weft_fork(weft_job *job, weft_job_fn fn, void *arg) {
    struct wefti_worker *w = wefti_worker_self();
    job->fn = fn;
    job->arg = arg;
    store_relaxed(wefti_job_state(job), WEFTI_JOB_NEW); /* published with the job */
    if (WEFTI_UNLIKELY(!w))
        return; /* no worker: the join runs it */
    if (WEFTI_UNLIKELY(!wefti_deque_push(&w->jobs, job))) {
        fn(arg); /* 256 forks deep: enough is on offer */
        store_relaxed(wefti_job_state(job), WEFTI_JOB_DONE);
        return;
    }
    if (w->shared && !wefti_deque_has_public(&w->jobs))
        wefti_jobs_publish(w);
}

/* Somebody took it, or it was run at the fork: wait, running other jobs.  No tasks: one that waits for the task below us would
 * keep us from ever getting back to it. */
static __attribute__((noinline)) void wait_done(struct wefti_worker *w, weft_job *job) {
    _Atomic uint32_t *state = wefti_job_state(job);
    /* A fiber's stack is for the fiber's own code: it sleeps, with its worker, as one that is nested too deep. */
    bool deep = (wefti_current(w) && wefti_task_is_fiber(wefti_current(w))) ||
                (uintptr_t)__builtin_frame_address(0) < w->stack_limit;
    bool waited = false;
    for (uint32_t spin = 0; load_acquire(state) != WEFTI_JOB_DONE; spin++) { /* pairs with T2 */
        uint32_t found = WEFTI_JOB_NEW;
        if (!deep && wefti_jobs_run_stolen(w)) {
            spin = 0;
        } else if (spin < WEFTI_JOB_SPIN) {
            wefti_relax();
        } else if (!waited) {
            waited = cas_relaxed(state, &found, WEFTI_JOB_WAITED); /* J1 */
        } else {
            if (!deep)
                wefti_idle_set_forking(&w->rt->idle, w->index);
            if (deep || !wefti_jobs_public(w))
                wefti_park_sleep(&w->park, INT64_MAX); /* J2: T3 wakes us, or a job to take */
            wefti_idle_clear_forking(&w->rt->idle, w->index);
        }
    }
}

void weft_join_job(weft_job *job) {
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(!w)) {
        job->fn(job->arg);
        return;
    }
    if (WEFTI_UNLIKELY(load_relaxed(wefti_job_state(job)) == WEFTI_JOB_DONE)) { /* run at the fork, or by a thief: */
        wait_done(w, job); /* which acquires */
        return;
    }
    weft_job *newest = wefti_deque_pop(&w->jobs, WEFTI_DEQUE_CAP);
    if (WEFTI_LIKELY(newest == job)) {
        job->fn(job->arg);
        return;
    }
    wefti_assert(newest == NULL, (uintptr_t)newest); /* forks are joined newest first */
    wait_done(w, job);
}
