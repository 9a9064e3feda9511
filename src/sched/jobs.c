/* jobs.c - forked jobs, the side of those who take them (jobs.h has the protocol). */
#include "sched/jobs.h"

void wefti_job_run(weft_job *job) {
    job->fn(job->arg);                                                          /* T1 */
    if (xchg_release(wefti_job_state(job), WEFTI_JOB_DONE) == WEFTI_JOB_WAITED) /* T2, pairs with weft_join_job */
        wefti_futex_wake(wefti_job_state(job), 1);                              /* T3: wake */
}

bool wefti_jobs_run_stolen(struct wefti_worker *w) {
    struct weft_runtime *rt = w->rt;
    if (!w->shared)
        return false;
    uint32_t start = wefti_random_below(&w->random, rt->workers);
    for (uint32_t i = 0; i < rt->workers; i++) {
        struct wefti_worker *victim = &rt->worker[(start + i) % rt->workers];
        void *job;
        if (victim == w)
            continue;
        if (wefti_deque_steal(&victim->jobs, &job, 1)) { /* one: the oldest is the largest */
            wefti_count(&w->counters.jobs_stolen, 1);
            wefti_worker_found(w);
            wefti_job_run(job);
            return true;
        }
        if (!load_relaxed(&victim->jobs.want)) /* a hint */
            store_relaxed(&victim->jobs.want, 1);
    }
    return false;
}

bool wefti_jobs_public(struct wefti_worker *w) {
    struct weft_runtime *rt = w->rt;
    for (uint32_t i = 0; w->shared && i < rt->workers; i++)
        if (&rt->worker[i] != w && wefti_deque_has_public(&rt->worker[i].jobs))
            return true;
    return false;
}

void wefti_jobs_want(struct wefti_worker *w) {
    struct weft_runtime *rt = w->rt;
    for (uint32_t i = 0; w->shared && i < rt->workers; i++)
        if (&rt->worker[i] != w && !load_relaxed(&rt->worker[i].jobs.want)) /* a hint */
            store_relaxed(&rt->worker[i].jobs.want, 1);
}

void wefti_jobs_publish(struct wefti_worker *w) {
    uint32_t own = wefti_deque_private(&w->jobs);
    store_relaxed(&w->jobs.want, 0); /* a hint; who is still hungry says so again */
    wefti_deque_publish(&w->jobs, (own + 1) / 2);
    wefti_notify(w->rt, w);
}
