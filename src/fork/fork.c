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

/* Somebody took it, or it was run at the fork: wait, doing other work. */
static __attribute__((noinline)) void wait_done(struct wefti_worker *w, weft_job *job) {
    _Atomic uint32_t *state = wefti_job_state(job);
    for (uint32_t spin = 0; spin < WEFTI_JOB_SPIN; spin++) {
        if (load_acquire(state) == WEFTI_JOB_DONE) /* pairs with T2 */
            return;
        if (wefti_jobs_run_stolen(w))
            spin = 0;
        else
            wefti_relax();
    }
    struct wefti_help help;
    bool helping = wefti_help_begin(w, &help), waited = false;
    while (load_acquire(state) != WEFTI_JOB_DONE) { /* pairs with T2 */
        uint32_t found = WEFTI_JOB_NEW;
        if (helping && wefti_worker_turn(w))
            continue;
        if (!waited)
            waited = cas_relaxed(state, &found, WEFTI_JOB_WAITED); /* J1, and look at everything once more */
        else if (helping)
            wefti_worker_sleep(w, INT64_MAX); /* J2 */
        else
            wefti_park_sleep(&w->park, INT64_MAX); /* J2, nested too deep to help */
    }
    if (helping)
        wefti_help_end(w, &help);
}

void weft_join_job(weft_job *job) {
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(!w)) {
        job->fn(job->arg);
        return;
    }
    if (WEFTI_UNLIKELY(load_relaxed(wefti_job_state(job)) == WEFTI_JOB_DONE)) { /* run at the fork, or by a thief: */
        wait_done(w, job);                                                      /* which acquires */
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
