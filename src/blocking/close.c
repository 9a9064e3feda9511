/* close.c - the end of a pool: no more jobs, those it has are run or dropped, and its threads end (pool.h has the design). */
#include "blocking/pool.h"

#include <stdio.h>

/* Under the lock, which it lets go of: take out what need not be run.  True: there was something. */
static bool drop_queued(struct weft_pool *pool) {
    bool any = false;
    pool->cut = true;
    for (;;) {
        struct wefti_job *job = pool->queue.first;
        bool passing = false;
        while (job && (job->mandatory || (job->control && load_own(&job->held)))) {
            passing |= !job->mandatory;
            job = job->next;
        }
        if (!job && !passing)
            return any;
        if (!job) { /* a control thread is about to route the rest */
            wefti_lock_give(&pool->lock);
            wefti_thread_yield();
            wefti_lock_take(&pool->lock);
            continue;
        }
        any = true;
        /* From here on its caller cannot take it out, and is not told before it has ended. */
        wefti_job_unlink(&pool->queue, job);
        wefti_job_append(&pool->running, job);
        job->state = WEFTI_JOB_RUNNING;
        job->error = -ECANCELED;
        wefti_lock_give(&pool->lock);
        if (job->drop)
            job->drop(job->arg);
        wefti_lock_take(&pool->lock);
        wefti_job_unlink(&pool->running, job);
        struct wefti_ended ended = wefti_job_end(pool, job);
        wefti_lock_give(&pool->lock);
        wefti_job_tell(&ended);
        wefti_lock_take(&pool->lock);
    }
}

void wefti_pool_report(struct weft_pool *pool) {
    int64_t now = wefti_clock();
    for (struct wefti_job *job = pool->running.first; job; job = job->next) {
        char text[256];
        int size = snprintf(text, sizeof text, "weft: pool \"%s\": job \"%s\" has been running for %lld ms\n",
                            pool->name, job->name, (long long)((now - job->began) / 1000000));
        wefti_write(2, text, size > 0 && (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
    }
}

/* Under the lock.  Turns of a driven runtime come when it is driven, perhaps by who closes the pool, and so never: its jobs go without. */
static void free_driven(struct weft_pool *pool) {
    for (struct wefti_job *job = pool->queue.first; job; job = job->next) {
        if (!load_own(&job->held) || !job->sim || !job->sim->driven)
            continue;
        struct wefti_pool_thread *idle = wefti_pool_take_idle(pool);
        store_relaxed(&job->held, false);
        wefti_turn_leave(pool, job);
        if (idle)
            wefti_park_wake(&idle->park); /* A2: wake */
        else if (pool->threads < pool->max)
            wefti_pool_start_thread(pool);
    }
}

int wefti_pool_close(struct weft_pool *pool, int64_t until) {
    struct wefti_park park = {0};
    int result = 0;
    int64_t progress = 0;
    uint32_t left = 0;
    wefti_lock_take(&pool->lock);
    pool->closed = true;
    pool->drainer = &park;
    free_driven(pool);
    while (pool->queue.count + pool->running.count + pool->returning) {
        int64_t now = wefti_clock(), limit = until;
        if (now >= until) {
            if (drop_queued(pool))
                result = -ECANCELED;
            uint32_t jobs = pool->queue.count + pool->running.count + pool->returning;
            if (!progress || jobs < left) {
                left = jobs;
                progress = now;
            }
            limit = progress + pool->grace;
            if (jobs && now >= limit) {
                wefti_pool_report(pool);
                result = -EBUSY;
                break;
            }
            if (!jobs)
                break;
        }
        wefti_lock_give(&pool->lock);
        wefti_park_sleep(&park, limit);
        wefti_lock_take(&pool->lock);
    }
    pool->drainer = NULL;
    wefti_lock_give(&pool->lock);
    return result;
}

/* All threads end.  Nothing is left to do. */
static void end_threads(struct weft_pool *pool) {
    struct wefti_park park = {0};
    wefti_lock_take(&pool->lock);
    pool->ending = true;
    pool->drainer = &park;
    for (struct wefti_pool_thread *thread; (thread = wefti_pool_take_idle(pool));)
        wefti_park_wake(&thread->park); /* wake */
    while (pool->threads) {
        wefti_lock_give(&pool->lock);
        wefti_park_sleep(&park, INT64_MAX);
        wefti_lock_take(&pool->lock);
    }
    pool->drainer = NULL;
    struct wefti_pool_thread *last = pool->dead;
    pool->dead = NULL;
    wefti_lock_give(&pool->lock);
    if (last) {
        wefti_thread_join(&last->os);
        wefti_free(last, sizeof *last);
    }
}

/* Callers that were told may not have left yet. */
static bool wait_calls(struct weft_pool *pool) {
    struct wefti_park park = {0};
    int64_t give_up = wefti_clock() + pool->grace, pause = 10000;
    while (load_acquire(&pool->calls)) { /* pairs with call_end */
        int64_t now = wefti_clock();
        if (now >= give_up)
            return false;
        wefti_park_sleep(&park, now + pause);
        pause = pause < 1000000 ? 2 * pause : pause;
    }
    return true;
}

int wefti_pool_end(struct weft_pool *pool) {
    if (!wait_calls(pool)) {
        char text[128];
        int size = snprintf(text, sizeof text, "weft: pool \"%s\": callers have not gone\n", pool->name);
        wefti_write(2, text, size > 0 ? (size_t)size : 0);
        return -EBUSY;
    }
    end_threads(pool);
    wefti_free(pool, sizeof *pool);
    wefti_fork_unwatch();
    return 0;
}

int weft_pool_destroy(weft_pool *pool, weft_deadline until) {
    if (!pool)
        return 0;
    if (wefti_worker_here())
        return -EDEADLK;
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    int result = wefti_pool_close(pool, until);
    if (result == -EBUSY)
        return result;
    return wefti_pool_end(pool) ? -EBUSY : result;
}
