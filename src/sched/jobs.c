/* jobs.c - forked jobs, the side of those who take them (jobs.h has the protocol). */
#include "sched/jobs.h"

void wefti_job_run(weft_job *job, struct wefti_worker *forker) {
    job->fn(job->arg);                                                          /* T1 */
    if (xchg_release(wefti_job_state(job), WEFTI_JOB_DONE) == WEFTI_JOB_WAITED) /* T2, pairs with weft_join_job */
        wefti_worker_wake(forker);                                              /* T3: wake */
}

bool wefti_jobs_run_stolen(struct wefti_worker *w) {
    struct wefti_others others = wefti_others_randomly(w);
    for (struct wefti_worker *victim; (victim = wefti_others_next(&others));) {
        void *job;
        if (wefti_deque_steal(&victim->jobs, &job, 1)) { /* one: the oldest is the largest */
            wefti_count(&w->counters.jobs_stolen, 1);
            wefti_worker_found(w);
            wefti_job_run(job, victim);
            return true;
        }
    }
    return false;
}

bool wefti_jobs_public(struct wefti_worker *w) {
    struct wefti_others others = wefti_others_from(w, 0);
    for (struct wefti_worker *other; (other = wefti_others_next(&others));)
        if (wefti_deque_has_public(&other->jobs))
            return true;
    return false;
}

void wefti_jobs_publish(struct wefti_worker *w) {
    wefti_deque_publish(&w->jobs, (wefti_deque_private(&w->jobs) + 1) / 2);
    /* Hints: a sleeper that is missed leaves the job to us, who will join it. */
    struct wefti_idle *idle = &w->rt->idle;
    int forking;
    if (wefti_idle_has_parked(idle)) {
        if (!load_relaxed(&idle->searching))
            wefti_notify(w->rt, w);
    } else if ((forking = wefti_idle_take_forking(idle)) >= 0) {
        wefti_worker_wake(&w->rt->worker[forking]);
    }
}
