/* call.c - handing a job to a pool, and waiting for it. */
#include "blocking/pool.h"
#include "budget/cap.h"
#include "fiber/slice.h"
#include "sched/spawn.h"

static int known(const weft_blocking_spec **spec, weft_blocking_spec *room) {
    struct weft_runtime *rt = weft_runtime_current();
    if (!*spec)
        return -EINVAL;
    int error = wefti_known_struct(*spec, offsetof(weft_blocking_spec, drop), room, sizeof *room);
    *spec = room;
    if (error || !room->fn)
        return error ? error : -EINVAL;
    return !rt || room->cap == &wefti_cap_library ? 0 : wefti_cap_executor(rt, room->cap, WEFT_EXECUTOR_BLOCKING);
}

static void fill(struct wefti_job *job, const weft_blocking_spec *spec) {
    *job = (struct wefti_job){.fn = spec->fn,
                              .arg = spec->arg,
                              .drop = spec->drop,
                              .name = spec->name ? spec->name : "job",
                              .mandatory = spec->mandatory,
                              .abandon = spec->abandon};
}

/* It was taken out of the queue: its caller does not wait for it any more. */
static void forget(struct wefti_job *job) {
    if (job->outside)
        wefti_sim_outside(job->sim, -1);
}

/* sim: the runtime of the task that asks, or the pool's own; it counts if it is simulated. */
static int submit(struct weft_pool *pool, struct wefti_job *job, struct weft_runtime *sim) {
    struct wefti_worker *w = wefti_worker_here();
    if (sim && sim->sim) {
        job->sim = sim;
        store_relaxed(&job->held, true);
    } else if (w && w->central) {
        job->control = w->rt;
        store_relaxed(&job->held, true);
        job->io.route = wefti_job_route;
        job->io.complete = wefti_job_return;
    }
    int error = wefti_pool_submit(pool, job);
    return error == -ENOMEM && load_own(&job->held) ? -EAGAIN : error; /* accepted, it may be gone */
}

static void drop(struct wefti_job *job) {
    if (job->drop)
        job->drop(job->arg);
}

/* -- Fibers and threads ------------------------------------------------------------------------------------------- */

static bool is_served(void *waiter) { return wefti_waiter_is_served(waiter); }

/* Late or cancelled (A4).  0: it has ended all the same.  *gone: it goes on without us, and has its memory. */
static int give_up(struct weft_pool *pool, struct wefti_job *job, struct wefti_fiber *fiber, int why, bool *gone) {
    if (wefti_pool_remove(pool, job)) {
        forget(job);
        drop(job);
        return why;
    }
    if (job->abandon && (*gone = wefti_pool_abandon(pool, job)))
        return why;
    if (fiber)
        wefti_fiber_wait_always(fiber, is_served, &job->waiter, "a blocking job that has begun");
    else
        wefti_waiter_settle(&job->waiter);
    return 0;
}

static int call(struct weft_pool *pool, struct wefti_job *job, struct wefti_fiber *fiber, int *result, int64_t until,
                bool *gone) {
    int error = wefti_waiter_init(&job->waiter);
    if (error)
        return error;
    if (until <= 0)
        return -ETIMEDOUT;
    if (fiber && wefti_fiber_must_end(fiber))
        return -ECANCELED;
    error = submit(pool, job, fiber ? wefti_worker_here()->rt : NULL);
    if (error)
        return error;
    error = wefti_waiter_wait(&job->waiter, until, wefti_words(WEFTI_A_JOB)); /* A3 */
    if (error)
        error = give_up(pool, job, fiber, error, gone);
    if (!error)
        error = job->error;
    if (!error && result)
        *result = job->result;
    wefti_pool_call_end(pool);
    return error;
}

/* Where the caller is: 0, and in which pool it runs; 1: here and now. */
static int find_pool(weft_pool **pool) {
    struct wefti_worker *w = wefti_worker_here();
    if (w && wefti_current(w) && !wefti_task_is_fiber(wefti_current(w)))
        return -EINVAL;
    if (!w || !wefti_current(w))
        return !*pool || wefti_pool_is_here(*pool);
    if (*pool)
        return 0;
    *pool = weft_runtime_pool(w->rt);
    return *pool ? 0 : -ENOMEM;
}

int weft_blocking_call(const weft_blocking_spec *spec, int *result, weft_deadline until) {
    wefti_slice_use_heavy(until);
    weft_blocking_spec room;
    int error = known(&spec, &room);
    weft_pool *pool = error ? NULL : spec->pool;
    if (!error)
        error = find_pool(&pool);
    if (error < 0)
        return error;
    if (error) {
        int returned = spec->fn(spec->arg);
        if (spec->drop)
            spec->drop(spec->arg);
        if (result)
            *result = returned;
        return 0;
    }
    struct wefti_job here, *job = spec->abandon ? wefti_alloc(sizeof *job) : &here;
    if (!job)
        return -ENOMEM;
    bool gone = false; /* the job has its memory now */
    fill(job, spec);
    error = call(pool, job, wefti_fiber_self(), result, until, &gone);
    /* Late or cancelled before it was even handed over: accepted and taken out at once. */
    if (!gone && job->state == WEFTI_JOB_NEW && (error == -ETIMEDOUT || error == -ECANCELED))
        drop(job);
    if (spec->abandon && !gone)
        wefti_free(job, sizeof *job);
    return error;
}

int weft_blocking(weft_blocking_fn fn, void *arg, int *result, weft_deadline until) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    return weft_blocking_call(&spec, result, until);
}

/* -- Poll tasks --------------------------------------------------------------------------------------------------- */

static void end_poll(struct wefti_poll_wait *poll) {
    struct wefti_job *job = poll->thing;
    struct weft_pool *pool = job->pool;
    poll->end = NULL;
    if (wefti_pool_remove(pool, job)) {
        forget(job);
        drop(job);
        wefti_free(job, sizeof *job);
    } else if (!wefti_pool_abandon(pool, job)) {
        wefti_free(job, sizeof *job); /* it has ended */
    }
    wefti_pool_call_end(pool);
}

int weft_blocking_poll(const weft_blocking_spec *spec, weft_task *self, weft_wait *wait, int *result) {
    if (wefti_slice_poll(self))
        return -EAGAIN;
    struct wefti_worker *w = wefti_worker_here();
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    struct wefti_job *job;
    int error;
    if (!w || !self || wefti_current(w) != self || wefti_task_is_fiber(self))
        return -EINVAL;
    if (poll->end) {
        job = poll->thing;
        if (poll->end != end_poll)
            return -EBUSY;
        if (!wefti_waiter_is_served(&job->waiter))
            return wefti_poll_waits(-EAGAIN, WEFTI_A_JOB);
        struct weft_pool *pool = job->pool;
        wefti_slice_poll_through();
        poll->end = NULL;
        error = job->error;
        if (!error && result)
            *result = job->result;
        wefti_free(job, sizeof *job);
        wefti_pool_call_end(pool);
        return error;
    }
    weft_blocking_spec room;
    if ((error = known(&spec, &room)))
        return error;
    struct weft_pool *pool = spec->pool ? spec->pool : weft_runtime_pool(w->rt);
    if (!pool || !(job = wefti_alloc(sizeof *job)))
        return -ENOMEM;
    fill(job, spec);
    wefti_waiter_init_task(&job->waiter, self);
    poll->thing = job;
    poll->end = end_poll;
    error = submit(pool, job, w->rt);
    if (!error)
        return wefti_poll_waits(-EAGAIN, WEFTI_A_JOB);
    poll->end = NULL;
    wefti_free(job, sizeof *job);
    return error == -EAGAIN ? -EBUSY : error;
}

/* -- Jobs that nobody waits for ------------------------------------------------------------------------------------ */

int weft_blocking_start(weft_runtime *rt, const weft_blocking_spec *spec) {
    weft_blocking_spec room;
    struct wefti_worker *w = wefti_worker_here();
    int error = known(&spec, &room);
    if (error)
        return error;
    rt = rt ? rt : w ? w->rt : NULL;
    if (!spec->pool && !rt)
        return -EINVAL;
    struct weft_pool *pool = spec->pool ? spec->pool : weft_runtime_pool(rt);
    if (!pool)
        return load_relaxed(&rt->phase) == WEFTI_STOPPED ? -ESHUTDOWN : -ENOMEM; /* a look */
    struct wefti_job *job = wefti_alloc(sizeof *job);
    if (!job)
        return -ENOMEM;
    fill(job, spec);
    job->detached = true;
    error = submit(pool, job, pool->rt ? pool->rt : w ? w->rt : NULL);
    if (error)
        wefti_free(job, sizeof *job);
    return error;
}
