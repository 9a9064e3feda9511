/* simulated.c - jobs of tasks of a simulator: begun and ended when the seed says.
 *
 * What.   A job is kept in the queue (held) for a virtual time that is drawn.  Then it begins, on a thread of its pool as ever, and the
 *         simulator's worker stands still until it has ended; its caller goes on after another time that is drawn.  So jobs run one at
 *         a time, between two steps of the tasks, and in an order that comes from the seed alone.
 * Stuck.  A job may wait for what one of those tasks will do, or its pool may have no thread for it.  If it was found asleep at every look
 *         for a while, the simulator goes on beside it.  What happens then is no longer drawn.  Virtual time stands still for it
 *         (wefti_sim_outside), unless its caller may leave it: then a deadline strikes.
 * Who.    All but `held`, `waker` and `sim`, which are under the pool's lock, is the caller's, on the simulator's worker.
 * Waker.  While the worker stands still, its thread is who waits (a park, as for any plain thread).  A wake of the task would come whenever
 *         it likes.  When it does not stand still any more, and the job has not ended, the task becomes who is woken.
 * Checked by.  test/model/blocking.c
 */
#include "blocking/pool.h"

#ifndef WEFTI_JOB_LOOKS
#define WEFTI_JOB_LOOKS 10         /* so often found asleep */
#define LOOK_TIME INT64_C(20000000) /* ns between */
#define TOO_LONG 500                /* looks: it does something, but what? */
#else
#define LOOK_TIME INT64_C(1000)
#define TOO_LONG WEFTI_JOB_LOOKS
#endif
#define DRAWN_MAX 1000000u /* ns */

int64_t wefti_job_time(struct weft_runtime *rt) { return wefti_now(rt) + 1 + wefti_sim_draw(rt, DRAWN_MAX); }

void wefti_job_stay(struct wefti_job *job, struct weft_runtime *rt) {
    wefti_lock_take(&job->pool->lock);
    if (job->state != WEFTI_JOB_ENDED && !job->sim) {
        job->sim = rt;
        wefti_sim_outside(rt, +1); /* before it can end */
    }
    wefti_lock_give(&job->pool->lock);
}

/* Has nothing come of it since the last look? */
static bool is_stuck(struct wefti_job *job) {
    wefti_lock_take(&job->pool->lock);
    bool running = job->state == WEFTI_JOB_RUNNING;
    int tid = job->tid;
    wefti_lock_give(&job->pool->lock);
    return !running || wefti_tid_sleeps(tid);
}

/* It does not end.  True: it has, just now. */
static bool go_on(struct wefti_job *job, struct weft_task *task, int64_t until) {
    wefti_lock_take(&job->pool->lock);
    bool ended = job->state == WEFTI_JOB_ENDED;
    if (!ended) {
        job->waiter.waker = wefti_waker_task(task);
        bool may_leave = job->abandon || (job->state == WEFTI_JOB_QUEUED && !job->mandatory);
        if (until == WEFT_NEVER || !may_leave) {
            job->sim = wefti_task_rt(task);
            wefti_sim_outside(job->sim, +1); /* before it can end */
        }
    }
    wefti_lock_give(&job->pool->lock);
    if (ended)
        wefti_park_sleep(&job->waiter.park, INT64_MAX); /* the token is on its way */
    return ended;
}

bool wefti_job_run(struct wefti_job *job, struct weft_task *task, int64_t until) {
    struct wefti_park *park = &job->waiter.park;
    wefti_lock_take(&job->pool->lock);
    bool mine = job->state == WEFTI_JOB_QUEUED && job->held; /* else who closes the pool has taken it out */
    if (mine) {
        store_relaxed(&park->word, WEFTI_UNPARKED); /* published by the lock */
        job->waiter.waker = wefti_waker_thread(park);
    }
    wefti_lock_give(&job->pool->lock);
    if (!mine) {
        wefti_job_stay(job, wefti_task_rt(task));
        return false;
    }
    wefti_pool_release(job->pool, job);
    int asleep = 0;
    for (int looks = 0; asleep < WEFTI_JOB_LOOKS && looks < TOO_LONG; looks++) {
        if (wefti_park_sleep(park, wefti_clock() + LOOK_TIME))
            return true;
        asleep = is_stuck(job) ? asleep + 1 : 0;
    }
    return go_on(job, task, until);
}
