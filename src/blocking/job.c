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

/* The caller is served, or the memory is to be freed. */
static struct wefti_ended end_now(struct weft_pool *pool, struct wefti_job *job) {
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

struct wefti_ended wefti_job_end(struct weft_pool *pool, struct wefti_job *job) {
    if (!job->control)
        return end_now(pool, job);
    job->state = WEFTI_JOB_RETURNING;
    pool->returning++;
    add_relaxed(&pool->calls, 1); /* as in submit */
    /* Under the lock: the control thread takes it before it serves the caller, who may then end the runtime. */
    wefti_io_complete(job->control, &job->io);
    return (struct wefti_ended){0, NULL, NULL, NULL, NULL};
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

/* -- Its way through a control thread ---------------------------------------------------------------------------- */

static struct wefti_job *job_of(struct wefti_io *io) {
    return (struct wefti_job *)(void *)io; /* io is its first field */
}

/* Nobody waits for it, nor does its runtime: that may be gone when it ends. */
static bool outlives_runtime(const struct wefti_job *job) {
    return (job->detached || job->abandoned) && job->pool->rt != job->control;
}

uint64_t wefti_job_route(struct wefti_io *io) {
    struct wefti_job *job = job_of(io);
    struct weft_pool *pool = job->pool;
    struct wefti_pool_thread *idle = NULL;
    wefti_lock_take(&pool->lock); /* C1 */
    bool queued = job->state == WEFTI_JOB_QUEUED; /* else it was withdrawn */
    if (queued) {
        idle = wefti_pool_take_idle(pool);
        if (!idle && pool->queue.count + pool->running.count > pool->threads && pool->threads < pool->max)
            wefti_pool_start_thread(pool); /* else one that is busy comes to it */
        if (outlives_runtime(job))
            job->control = NULL;
    }
    store_release(&job->held, false); /* to A4, which may free it then */
    wefti_lock_give(&pool->lock);
    if (idle)
        wefti_park_wake(&idle->park); /* A2: wake */
    wefti_pool_call_end(pool);
    return queued;
}

void wefti_job_return(struct wefti_io *io) {
    struct wefti_job *job = job_of(io);
    struct weft_pool *pool = job->pool;
    wefti_lock_take(&pool->lock); /* C2 */
    pool->returning--;
    struct wefti_ended ended = end_now(pool, job);
    wefti_lock_give(&pool->lock);
    wefti_job_tell(&ended);
    wefti_pool_call_end(pool);
}

/* -- Its way in and out -------------------------------------------------------------------------------------------- */

/* Under the lock, and no thread is free.  For a job that is held all threads without a job are free, whether the system has got as far as
 * to let them be idle or not: so no seed hangs on that. */
static bool is_full(const struct weft_pool *pool, const struct wefti_job *job) {
    uint32_t threads = job->control ? pool->threads : load_own(&job->held) ? pool->max : pool->running.count;
    return pool->queue_max && pool->queue.count >= (uint64_t)pool->queue_max + threads - pool->running.count;
}

/* Under the lock: no thread is free for it, and none can be started.  Jobs that are held for a control thread have been promised a thread each,
 * though these are still idle. */
static bool has_no_thread(struct weft_pool *pool, const struct wefti_job *job) {
    bool is_free = job->control ? pool->queue.count + pool->running.count < pool->threads : pool->idle != NULL;
    return !is_free && !(pool->threads < pool->max && wefti_pool_start_thread(pool) == 0);
}

/* Under the lock.  0, and it has a turn, or is not held any more. */
static int give_turn(struct weft_pool *pool, struct wefti_job *job) {
    int error = wefti_turn_spawn(pool, job->sim);
    if (error != -ESHUTDOWN)
        return error;
    store_relaxed(&job->held, false); /* its runtime spawns nothing any more, but lets tasks and jobs finish */
    wefti_turn_leave(pool, job);
    return 0;
}

int wefti_pool_submit(struct weft_pool *pool, struct wefti_job *job) {
    struct wefti_pool_thread *idle = NULL;
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    wefti_lock_take(&pool->lock); /* A1 */
    int error = pool->closed ? -ESHUTDOWN : job->sim && is_full(pool, job) ? -EAGAIN : 0;
    if (!error && has_no_thread(pool, job))
        error = !pool->threads || is_full(pool, job) ? -EAGAIN : 0;
    if (!error && job->sim)
        error = give_turn(pool, job);
    if (!error) {
        idle = load_own(&job->held) ? NULL : wefti_pool_take_idle(pool);
        job->pool = pool;
        job->state = WEFTI_JOB_QUEUED;
        wefti_job_append(&pool->queue, job);
        add_relaxed(&pool->calls,
                    !job->detached + load_own(&job->held)); /* under the lock, which destroy takes before it looks */
    }
    struct weft_runtime *control = error ? NULL : job->control;
    if (control)
        wefti_io_submit(control, &job->io);
    wefti_lock_give(&pool->lock);
    if (control)
        wefti_notify(control, NULL); /* the caller's runtime */
    if (idle)
        wefti_park_wake(&idle->park); /* A2: wake */
    return error;
}

bool wefti_pool_release(struct weft_pool *pool, const struct weft_runtime *sim, struct wefti_gate *gate) {
    wefti_lock_take(&pool->lock); /* A1 */
    struct wefti_job *job = pool->queue.first;
    while (job && !(load_own(&job->held) && job->sim == sim))
        job = job->next;
    struct wefti_pool_thread *idle = job ? wefti_pool_take_idle(pool) : NULL;
    if (job) {
        store_relaxed(&job->held, false);
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
    while (queued && job->control && !wefti_is_forked() &&
           load_acquire(&job->held)) /* pairs with C1, which finds it to be withdrawn */
        wefti_thread_yield(); /* to a thread that is making a round */
    return queued;
}

bool wefti_pool_abandon(struct weft_pool *pool, struct wefti_job *job) {
    wefti_lock_take(&pool->lock); /* A4 */
    bool left = job->state != WEFTI_JOB_ENDED; /* else it has been served; RETURNING: C2 frees it */
    struct weft_runtime *sim = left && job->outside ? job->sim : NULL;
    job->abandoned = left;
    job->outside = job->outside && !left; /* nobody waits for it any more */
    if (!load_own(&job->held) && job->state != WEFTI_JOB_RETURNING && outlives_runtime(job))
        job->control = NULL; /* else the control thread has it, and will see */
    wefti_lock_give(&pool->lock);
    if (sim)
        wefti_sim_outside(sim, -1);
    return left;
}
