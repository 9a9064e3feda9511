/* pool.c - a pool of threads for blocking work (pool.h has the design). */
#include "blocking/pool.h"

#include <stdio.h>

#include "sched/spawn.h"

#define THREADS_MIN 4u
#define THREADS_MAX 512u
#define THREADS_LIMIT 65536u
#define KEEP_ALIVE INT64_C(10000000000)

struct wefti_pool_thread {
    struct wefti_pool_thread *next; /* in the idle list; or the one that ended before */
    struct weft_pool *pool;
    struct wefti_thread os;
    struct wefti_park park;
    struct wefti_nap nap;
    bool idle; /* in the list; under the lock */
};

/* -- Lists, under the lock ------------------------------------------------------------------------------------- */

static void append(struct wefti_job_list *list, struct wefti_job *job) {
    job->next = NULL;
    job->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = job;
    list->last = job;
    list->count++;
}

static void unlink_job(struct wefti_job_list *list, struct wefti_job *job) {
    *(job->prev ? &job->prev->next : &list->first) = job->next;
    *(job->next ? &job->next->prev : &list->last) = job->prev;
    list->count--;
}

static struct wefti_pool_thread *take_idle(struct weft_pool *pool) {
    struct wefti_pool_thread *thread = pool->idle;
    if (thread) {
        pool->idle = thread->next;
        pool->idle_count--;
        thread->idle = false;
    }
    return thread;
}

/* -- The end of a job ------------------------------------------------------------------------------------------- */

/* What is to be done about it when the lock has been given back. */
struct ended {
    wefti_waker waker;
    struct wefti_job *memory;
    struct weft_runtime *sim;
    struct weft_task *task; /* with a reference, which keeps `sim` alive */
    struct wefti_gate *gate;
};

/* B1, under the lock: it is in no list any more. */
static struct ended end_job(struct weft_pool *pool, struct wefti_job *job) {
    struct ended ended = {0, NULL, NULL, NULL, job->gate};
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
static void tell(struct ended *ended) {
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

/* -- Threads ----------------------------------------------------------------------------------------------------- */

static struct wefti_job *begin_job(struct weft_pool *pool) {
    struct wefti_job *job = pool->queue.first;
    while (job && (job->held || (pool->cut && !job->mandatory))) /* or it is about to be dropped */
        job = job->next;
    if (job) {
        unlink_job(&pool->queue, job);
        append(&pool->running, job);
        job->state = WEFTI_JOB_RUNNING;
        job->began = wefti_clock();
        job->thread = wefti_thread_id();
    }
    return job;
}

bool wefti_pool_is_here(struct weft_pool *pool) {
    uintptr_t me = wefti_thread_id();
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
        struct ended ended = {0, NULL, NULL, NULL, NULL};
        wefti_lock_take(&pool->lock);
        if (job) { /* B1 */
            unlink_job(&pool->running, job);
            pool->completed++;
            ended = end_job(pool, job);
        }
        job = begin_job(pool); /* B2 */
        if (!job && pool->ending) {
            leave(pool, self);
            tell(&ended);
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
        tell(&ended);
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

/* Under the lock.  0; -EAGAIN. */
static int start_thread(struct weft_pool *pool) {
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

/* -- Jobs ---------------------------------------------------------------------------------------------------------- */

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
    if (!error && !pool->idle && !(pool->threads < pool->max && start_thread(pool) == 0))
        error = !pool->threads || is_full(pool, job) ? -EAGAIN : 0;
    if (!error && job->held)
        error = give_turn(pool, job);
    if (!error) {
        idle = job->held ? NULL : take_idle(pool);
        job->pool = pool;
        job->state = WEFTI_JOB_QUEUED;
        append(&pool->queue, job);
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
    struct wefti_pool_thread *idle = job ? take_idle(pool) : NULL;
    if (job) {
        job->held = false;
        if ((job->gate = gate))
            gate->job = job;
        else
            wefti_turn_leave(pool, job);
        if (!idle && pool->threads < pool->max) /* else one that is busy comes to it */
            start_thread(pool);
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
        unlink_job(&pool->queue, job);
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

/* -- Closing ------------------------------------------------------------------------------------------------------- */

/* Under the lock, which it lets go of: take out what need not be run.  True: there was something. */
static bool drop_queued(struct weft_pool *pool) {
    bool any = false;
    pool->cut = true;
    for (;;) {
        struct wefti_job *job = pool->queue.first;
        while (job && job->mandatory)
            job = job->next;
        if (!job)
            return any;
        any = true;
        /* From here on its caller cannot take it out, and is not told before it has ended. */
        unlink_job(&pool->queue, job);
        append(&pool->running, job);
        job->state = WEFTI_JOB_RUNNING;
        job->began = wefti_clock();
        job->error = -ECANCELED;
        wefti_lock_give(&pool->lock);
        if (job->drop)
            job->drop(job->arg);
        wefti_lock_take(&pool->lock);
        unlink_job(&pool->running, job);
        struct ended ended = end_job(pool, job);
        wefti_lock_give(&pool->lock);
        tell(&ended);
        wefti_lock_take(&pool->lock);
    }
}

/* Under the lock. */
static void report_running(struct weft_pool *pool) {
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
        if (!job->held || !job->sim->driven)
            continue;
        struct wefti_pool_thread *idle = take_idle(pool);
        job->held = false;
        wefti_turn_leave(pool, job);
        if (idle)
            wefti_park_wake(&idle->park); /* A2: wake */
        else if (pool->threads < pool->max)
            start_thread(pool);
    }
}

/* No more jobs, and wait until there are none.  0; -ECANCELED; -EBUSY. */
static int close_pool(struct weft_pool *pool, int64_t until) {
    struct wefti_park park = {0};
    int result = 0;
    int64_t progress = 0;
    uint32_t left = 0;
    wefti_lock_take(&pool->lock);
    pool->closed = true;
    pool->drainer = &park;
    free_driven(pool);
    while (pool->queue.count + pool->running.count) {
        int64_t now = wefti_clock(), limit = until;
        if (now >= until) {
            if (drop_queued(pool))
                result = -ECANCELED;
            uint32_t jobs = pool->queue.count + pool->running.count;
            if (!progress || jobs < left) {
                left = jobs;
                progress = now;
            }
            limit = progress + pool->grace;
            if (jobs && now >= limit) {
                report_running(pool);
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
    for (struct wefti_pool_thread *thread; (thread = take_idle(pool));)
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

/* Closed: end it. */
static int end_pool(struct weft_pool *pool) {
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
    int result = close_pool(pool, until);
    if (result == -EBUSY)
        return result;
    return end_pool(pool) ? -EBUSY : result;
}

/* -- Making -------------------------------------------------------------------------------------------------------- */

static int make(const weft_pool_config *given, struct weft_pool **out) {
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    if (given) {
        int error = wefti_known_struct(given, offsetof(weft_pool_config, threads_min), &config, sizeof config);
        if (error)
            return error;
    }
    uint32_t max = config.threads_max ? config.threads_max : THREADS_MAX;
    uint32_t min = config.threads_min ? config.threads_min : max < THREADS_MIN ? max : THREADS_MIN;
    if (min > max || max > THREADS_LIMIT)
        return -EINVAL;
    struct weft_pool *pool = wefti_alloc(sizeof *pool);
    if (!pool)
        return -ENOMEM;
    wefti_fork_watch();
    pool->min = min;
    pool->max = max;
    pool->queue_max = config.queue_max;
    pool->keep_alive = config.keep_alive_ns == 0  ? KEEP_ALIVE
                       : config.keep_alive_ns < 0 ? INT64_MAX
                                                  : config.keep_alive_ns;
    pool->grace = wefti_grace(config.grace_ns);
    snprintf(pool->name, sizeof pool->name, "%s", config.name ? config.name : "pool");
    *out = pool;
    return 0;
}

int weft_pool_create(const weft_pool_config *config, weft_pool **out) { return out ? make(config, out) : -EINVAL; }

void weft_pool_stats_read(weft_pool *pool, weft_pool_stats *stats) {
    if (!pool || !stats)
        return;
    wefti_lock_take(&pool->lock);
    *stats = (weft_pool_stats){.threads = pool->threads,
                               .idle = pool->idle_count,
                               .running = pool->running.count,
                               .queued = pool->queue.count,
                               .completed = pool->completed,
                               .refused = pool->refused};
    wefti_lock_give(&pool->lock);
}

/* -- The runtime's own --------------------------------------------------------------------------------------------- */

static struct weft_pool *pool_of(struct wefti_annex *annex) {
    return (struct weft_pool *)(void *)annex; /* annex is the first field */
}

static int annex_stop(struct wefti_annex *annex, int64_t until) { return close_pool(pool_of(annex), until); }
static int annex_end(struct wefti_annex *annex) { return end_pool(pool_of(annex)); }
static void annex_report(struct wefti_annex *annex) {
    struct weft_pool *pool = pool_of(annex);
    wefti_lock_take(&pool->lock);
    report_running(pool);
    wefti_lock_give(&pool->lock);
}

weft_pool *weft_runtime_pool(weft_runtime *rt) {
    struct wefti_worker *w = wefti_worker_here();
    rt = rt ? rt : w ? w->rt : NULL;
    if (!rt)
        return NULL;
    struct wefti_annex *found = wefti_annex(rt, WEFTI_ANNEX_POOL);
    struct weft_pool *made;
    if (found)
        return pool_of(found);
    if (load_relaxed(&rt->phase) == WEFTI_STOPPED || make(NULL, &made)) /* a look: destroy looks for it again */
        return NULL;
    made->annex = (struct wefti_annex){NULL, annex_stop, annex_report, annex_end, NULL};
    made->rt = rt;
    made->grace = wefti_grace(rt->grace);
    snprintf(made->name, sizeof made->name, "%s", rt->name);
    found = wefti_annex_hang(rt, WEFTI_ANNEX_POOL, &made->annex);
    if (found == &made->annex)
        return made;
    wefti_free(made, sizeof *made);
    return pool_of(found);
}
