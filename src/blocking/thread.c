/* thread.c - a pool's threads: what they do, when they are made and when they leave (pool.h has the design). */
#include "blocking/pool.h"

#include <stdio.h>

struct wefti_pool_thread *wefti_pool_take_idle(struct weft_pool *pool) {
    struct wefti_pool_thread *thread = pool->idle;
    if (thread) {
        pool->idle = thread->next;
        pool->idle_count--;
        thread->idle = false;
    }
    return thread;
}

static struct wefti_job *begin_job(struct weft_pool *pool) {
    struct wefti_job *job = pool->queue.first;
    while (job && (load_own(&job->held) || (pool->cut && !job->mandatory))) /* or it is about to be dropped */
        job = job->next;
    if (job) {
        wefti_job_unlink(&pool->queue, job);
        wefti_job_append(&pool->running, job);
        job->state = WEFTI_JOB_RUNNING;
        job->began = wefti_clock();
        job->thread = wefti_thread_id();
    }
    return job;
}

bool wefti_pool_is_here(struct weft_pool *pool) {
    uint64_t me = wefti_thread_id();
    wefti_lock_take(&pool->lock);
    struct wefti_job *job = pool->running.first;
    while (job && job->thread != me)
        job = job->next;
    wefti_lock_give(&pool->lock);
    return job;
}

/* Under the lock, which it gives back: this thread ends. */
static void leave(struct weft_pool *pool, struct wefti_pool_thread *self) {
    struct wefti_pool_thread *before = pool->dead;
    pool->dead = self;
    pool->threads--;
    if (pool->drainer)
        wefti_park_wake(pool->drainer); /* wake */
    wefti_lock_give(&pool->lock);
    if (before) {
        wefti_thread_join(&before->os);
        wefti_free(before, sizeof *before);
    }
}

/* B5: idle too long.  True: it has left the pool; false: it has been woken. */
static bool retire(struct weft_pool *pool, struct wefti_pool_thread *self) {
    wefti_lock_take(&pool->lock);
    if (!self->idle || pool->threads <= pool->min) { /* recheck: the token is on its way; or it is one of the least */
        wefti_lock_give(&pool->lock);
        wefti_park_sleep(&self->park, INT64_MAX);
        return false;
    }
    struct wefti_pool_thread **at = &pool->idle;
    while (*at != self)
        at = &(*at)->next;
    *at = self->next;
    pool->idle_count--;
    leave(pool, self);
    return true;
}

static void thread_main(void *arg) {
    struct wefti_pool_thread *self = arg;
    struct weft_pool *pool = self->pool;
    struct wefti_job *job = NULL;
    for (;;) {
        struct wefti_ended ended = {0, NULL, NULL, NULL, NULL};
        wefti_lock_take(&pool->lock);
        if (job) { /* B1 */
            wefti_job_unlink(&pool->running, job);
            pool->completed++;
            ended = wefti_job_end(pool, job);
        }
        job = begin_job(pool); /* B2 */
        if (!job && pool->ending) {
            leave(pool, self);
            wefti_job_tell(&ended);
            return;
        }
        if (!job) {
            self->idle = true;
            self->next = pool->idle;
            pool->idle = self;
            pool->idle_count++;
        }
        bool only = pool->idle_count == 1;
        wefti_lock_give(&pool->lock);
        wefti_job_tell(&ended);
        if (job) { /* B4 */
            job->result = job->fn(job->arg);
            if (job->drop)
                job->drop(job->arg);
            continue;
        }
        int64_t now = wefti_clock();
        int64_t until = pool->keep_alive < INT64_MAX - now ? now + pool->keep_alive : INT64_MAX;
        bool spare = only && pool->rt && wefti_has_spare_cpu(pool->rt);
        if (!wefti_nap_or_sleep(&self->nap, &self->park, until, spare) && retire(pool, self))
            return;
    }
}

int wefti_pool_start_thread(struct weft_pool *pool) {
    struct wefti_pool_thread *thread = wefti_alloc(sizeof *thread);
    if (!thread) {
        pool->refused++;
        return -EAGAIN;
    }
    char name[16];
    snprintf(name, sizeof name, "%s-%u", pool->name, (unsigned)(pool->started % 1000));
    thread->pool = pool;
    if (wefti_thread_start(&thread->os, thread_main, thread, name)) {
        pool->refused++;
        wefti_free(thread, sizeof *thread);
        return -EAGAIN;
    }
    pool->started++;
    pool->threads++;
    return 0;
}
