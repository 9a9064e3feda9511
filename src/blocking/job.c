/* job.c - a job: how it comes to a pool's queue, how it is taken out, and how it ends (pool.h has the design). */
#include "blocking/pool.h"

/* -- Lists, under the lock ------------------------------------------------------------------------------------- */

void wefti_job_append(struct wefti_job_list *list, struct wefti_job *job) {
    job->next = NULL;
    job->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = job;
    list->last = job;
    list->count++;
}

void wefti_job_unlink(struct wefti_job_list *list, struct wefti_job *job) {
    *(job->prev ? &job->prev->next : &list->first) = job->next;
    *(job->next ? &job->next->prev : &list->last) = job->prev;
    list->count--;
}

/* -- Its end ----------------------------------------------------------------------------------------------------- */

struct wefti_ended wefti_job_end(struct weft_pool *pool, struct wefti_job *job) {
    struct wefti_ended ended = {0, NULL, NULL, NULL, job->gate};
    job->state = WEFTI_JOB_ENDED;
    if (job->gate)
        job->gate->job = NULL;
    if (pool->drainer)
        wefti_park_wake(pool->drainer); /* wake */
    if (job->detached || job->abandoned) {
        if (job->outside)
            wefti_sim_outside(job->sim,
                              -1); /* under the lock: who closes the pool, and then ends the runtime, comes later */
        ended.memory = job;
        return ended;
    }
    if (job->outside) {
        ended.sim = job->sim;
        ended.task = (struct weft_task *)job->waiter.waker;
        wefti_word_ref(&ended.task->word);
    }
    ended.waker = wefti_waiter_serve(&job->waiter);
    return ended;
}

/* B3.  The simulation goes on when the task is ready, not before. */
void wefti_job_tell(struct wefti_ended *ended) {
    if (ended->waker)
        wefti_waiter_wake(ended->waker); /* wake */
    if (ended->sim) {
        wefti_sim_outside(ended->sim, -1);
        wefti_task_unref(ended->task, 0);
    }
    if (ended->gate)
        wefti_park_wake(&ended->gate->park); /* wake */
    if (ended->memory)
        wefti_free(ended->memory, sizeof *ended->memory);
}

/* -- Its way in and out -------------------------------------------------------------------------------------------- */

/* Under the lock, and no thread is free.  For a job that is held all threads without a job are free, whether the system has got as far as
 * to let them be idle or not: so no seed hangs on that. */
static bool is_full(const struct weft_pool *pool, const struct wefti_job *job) {
    uint64_t bound = (uint64_t)pool->queue_max + (job->held ? pool->max - pool->running.count : 0);
    return pool->queue_max && pool->queue.count >= bound;
}

/* Under the lock.  0, and it has a turn, or is not held any more. */
static int give_turn(struct weft_pool *pool, struct wefti_job *job) {
    int error = wefti_turn_spawn(pool, job->sim);
    if (error != -ESHUTDOWN)
        return error;
    job->held = false; /* its runtime spawns nothing any more, but lets tasks and jobs finish */
    wefti_turn_leave(pool, job);
    return 0;
}

int wefti_pool_submit(struct weft_pool *pool, struct wefti_job *job) {
    struct wefti_pool_thread *idle = NULL;
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    wefti_lock_take(&pool->lock); /* A1 */
    int error = pool->closed ? -ESHUTDOWN : job->held && is_full(pool, job) ? -EAGAIN : 0;
    if (!error && !pool->idle && !(pool->threads < pool->max && wefti_pool_start_thread(pool) == 0))
        error = !pool->threads || is_full(pool, job) ? -EAGAIN : 0;
    if (!error && job->held)
        error = give_turn(pool, job);
    if (!error) {
        idle = job->held ? NULL : wefti_pool_take_idle(pool);
        job->pool = pool;
        job->state = WEFTI_JOB_QUEUED;
        wefti_job_append(&pool->queue, job);
        add_relaxed(&pool->calls, !job->detached + job->held); /* under the lock, which destroy takes before it looks */
    }
    wefti_lock_give(&pool->lock);
    if (idle)
        wefti_park_wake(&idle->park); /* A2: wake */
    return error;
}

bool wefti_pool_release(struct weft_pool *pool, const struct weft_runtime *sim, struct wefti_gate *gate) {
    wefti_lock_take(&pool->lock); /* A1 */
    struct wefti_job *job = pool->queue.first;
    while (job && !(job->held && job->sim == sim))
        job = job->next;
    struct wefti_pool_thread *idle = job ? wefti_pool_take_idle(pool) : NULL;
    if (job) {
        job->held = false;
        if ((job->gate = gate))
            gate->job = job;
        else
            wefti_turn_leave(pool, job);
        if (!idle && pool->threads < pool->max) /* else one that is busy comes to it */
            wefti_pool_start_thread(pool);
    }
    wefti_lock_give(&pool->lock);
    if (idle)
        wefti_park_wake(&idle->park); /* A2: wake */
    return job;
}

bool wefti_pool_remove(struct weft_pool *pool, struct wefti_job *job) {
    wefti_lock_take(&pool->lock); /* A4 */
    bool queued = job->state == WEFTI_JOB_QUEUED && !job->mandatory;
    if (queued) { /* recheck */
        wefti_job_unlink(&pool->queue, job);
        job->state = WEFTI_JOB_ENDED;
        if (pool->drainer)
            wefti_park_wake(pool->drainer); /* wake */
    }
    wefti_lock_give(&pool->lock);
    return queued;
}

bool wefti_pool_abandon(struct weft_pool *pool, struct wefti_job *job) {
    wefti_lock_take(&pool->lock); /* A4 */
    bool left = job->state != WEFTI_JOB_ENDED; /* else it has been served */
    struct weft_runtime *sim = left && job->outside ? job->sim : NULL;
    job->abandoned = left;
    job->outside = job->outside && !left; /* nobody waits for it any more */
    wefti_lock_give(&pool->lock);
    if (sim)
        wefti_sim_outside(sim, -1);
    return left;
}
