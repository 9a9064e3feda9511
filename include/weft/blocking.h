/* weft/blocking.h - blocking work: run a function on a thread of its own while the fiber that asked for it waits.
 *
 * A worker that blocks (in getaddrinfo, in a library that reads files, in a long computation) cannot run its other tasks.  So such work
 * goes to a pool of threads, and only the caller waits:
 *
 *     struct lookup lookup = {.name = "example.org"};
 *     int found;
 *     int error = weft_blocking(resolve, &lookup, &found, WEFT_NEVER);    // other fibers run meanwhile
 *
 * Threads.  They start when there is work and none is idle, up to the pool's bound; more work waits in a queue, first come first served.  A
 * thread that was idle for 10 s ends, unless it is one of the least.  When the system refuses a thread, those that there are do the work.
 *
 * Late and cancelled callers.  A job that has not begun is taken out of the queue, and its function never runs.  One that runs cannot be
 * stopped: the call waits for it and returns its result as if nothing had been (the fiber learns of its cancellation at its next wait).
 * So the argument may lie on the caller's stack.  With `abandon` the call does return at once; the job goes on without it, which its
 * argument must survive.
 *
 * The end.  weft_runtime_stop lets jobs finish as it does tasks; when its time is over, those that have not begun are dropped, but for
 * mandatory ones.  Jobs that run are waited for; if none of them ends for 2 s (grace_ns of the runtime) they are named on stderr, and the stop is refused.
 *
 * In a `sim` runtime a job waits for its turn, which the seed draws as it does a task's.  It runs on a thread of the pool, but nothing else
 * runs meanwhile, and no virtual time passes: a run with jobs is repeated from its seed.  One that has not ended after 2 s (grace_ns of the pool, or of its runtime) may be
 * waiting for what only a task can give it: that is said on stderr, and the simulation goes on beside it, with a clock that keeps to
 * the real one until it ends.  From there on the order is not the seed's.  A turn is counted as a task (spawned, live); weft_drive waits
 * in one as the simulator's own thread does.
 */
#ifndef WEFT_BLOCKING_H
#define WEFT_BLOCKING_H

#include <weft/base.h>
#include <weft/cap.h>
#include <weft/runtime.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

/* What a job does.  It runs on a plain thread: it may block, and must not expect to be in a task.  A call of weft_blocking in it runs at
 * once, in the same thread, and so does one of weft_blocking_call that names the pool of the job: it would wait for a thread that waits for it.  What the caller wrote before is visible to it, and what it writes to the caller after. */
typedef int (*weft_blocking_fn)(void *arg);

/* Run fn(arg) on a thread of the runtime's pool, and wait for it.  `result` (may be NULL) receives what it returned.
 * Call from: a fiber (which suspends).  A plain thread calls fn itself.
 * Returns 0; -ETIMEDOUT, -ECANCELED (it was not begun); -EPERM (a task of a runtime with the profile `sovereign`, without a capability: see
 * weft_blocking_spec); -EAGAIN (there is no thread, and the system refuses one); -ENOMEM (for the
 * pool, at first use); -ESHUTDOWN (the pool is closed); -EINVAL (no function, or in a poll task).  On failure fn was not called. */
WEFT_API WEFT_MUST_USE int weft_blocking(weft_blocking_fn fn, void *arg, int *result, weft_deadline until);

typedef struct weft_pool weft_pool;

/* A job in full. */
typedef struct weft_blocking_spec {
    size_t size; /* sizeof(weft_blocking_spec): set by WEFT_BLOCKING_SPEC_INIT */
    weft_blocking_fn fn; /* required */
    void *arg;
    void (*drop)(
        void *
            arg); /* called once for a job that was accepted: after fn, or instead of it when the job was taken out of the
                                  queue; before the caller goes on; on any thread; may be NULL */
    const char *name; /* for reports: static, or valid as long as the job; NULL = "job" */
    weft_pool *pool; /* NULL: the runtime's */
    bool mandatory; /* once accepted it is run: it is not taken out for a late caller, nor when the pool is closed */
    bool abandon; /* a caller that is late or cancelled does not wait for fn to end */
    const weft_cap
        *cap; /* the right to WEFT_EXECUTOR_BLOCKING, see <weft/cap.h>: needed under the profile `sovereign` */
} weft_blocking_spec;

#define WEFT_BLOCKING_SPEC_INIT {sizeof(weft_blocking_spec), 0, 0, 0, 0, 0, false, false, 0}

/* As weft_blocking.  With `abandon`, -ETIMEDOUT and -ECANCELED do not say whether fn was begun, and it may still run: its argument
 * belongs to the job until `drop`.  A plain thread needs a pool in the spec (another one than it runs a job of), or calls fn itself.
 * Returns as weft_blocking; also -E2BIG; -ENOMEM; -EAGAIN (the pool's queue is full).  `drop` was called unless it returned one of
 * -EINVAL, -E2BIG, -EPERM, -ENOMEM, -EAGAIN and -ESHUTDOWN. */
WEFT_API WEFT_MUST_USE int weft_blocking_call(const weft_blocking_spec *spec, int *result, weft_deadline until);

/* The same from a poll: either fn has ended, or `self` will be woken when it has.  The first call of a wait starts the job; the spec of
 * later ones is not looked at.  A task that gives up (weft_wait_end) does not wait for fn: as with `abandon`, the argument must
 * not be part of the task's state.
 * Returns 0 and fills `result`; -EAGAIN (return WEFT_PENDING, and ask again when polled); -EBUSY (no thread, or the queue is full);
 * -ECANCELED (the pool was closed before it began); -ENOMEM; -ESHUTDOWN; -EINVAL (`self` is not the running poll task); -E2BIG. */
WEFT_API WEFT_MUST_USE int weft_blocking_poll(const weft_blocking_spec *spec, weft_task *self, weft_wait *wait,
                                              int *result);

/* Start a job that nobody waits for.  rt NULL means the runtime that is executing the caller; it is not needed when the spec names a pool.
 * Call from: anywhere.  Does not suspend.
 * Returns 0; -EAGAIN; -ENOMEM; -ESHUTDOWN; -EINVAL (no function, or neither pool nor runtime); -E2BIG. */
WEFT_API WEFT_MUST_USE int weft_blocking_start(weft_runtime *rt, const weft_blocking_spec *spec);

/* -- Pools ------------------------------------------------------------------------------------------- */

/* Set up with WEFT_POOL_CONFIG_INIT; 0 always means the default. */
typedef struct weft_pool_config {
    size_t size; /* sizeof(weft_pool_config): set by WEFT_POOL_CONFIG_INIT */
    const char *name; /* of its threads and in reports; copied, 11 characters at most; NULL = "pool" */
    unsigned threads_min; /* that do not end when they are idle; 0 = 4, or threads_max if that is less */
    unsigned threads_max; /* 0 = 512; at most 65,536 */
    unsigned queue_max; /* jobs that wait for a thread, then -EAGAIN; 0 = no bound */
    int64_t keep_alive_ns; /* how long a thread stays idle; 0 = 10 s, negative = for ever */
    int64_t
        grace_ns; /* how long weft_pool_destroy waits while no job ends, and `sim` for one job; 0 = 2 s, negative or WEFT_NEVER = for ever */
} weft_pool_config;

#define WEFT_POOL_CONFIG_INIT {sizeof(weft_pool_config), 0, 0, 0, 0, 0, 0}

/* A pool of one's own, for work that should not wait behind other work, or with another bound.  `config` may be NULL.  It starts no
 * threads, and belongs to no runtime.
 * Returns 0; -EINVAL (threads_min above threads_max, or too many); -E2BIG; -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_pool_create(const weft_pool_config *config, weft_pool **out);

/* Refuse new jobs, let the accepted ones finish until `until`, then drop those that have not begun and are not mandatory (their callers
 * get -ECANCELED), wait for the rest, end the threads, free the pool.  NULL is allowed.
 * Call from: a plain thread that is none of the pool's.
 * Returns 0; -ECANCELED when some jobs were dropped: the pool is gone in both cases.  -EBUSY when for 2 s (grace_ns) no job ended (they are
 * named on stderr), or callers have not gone (under sim also turns of jobs: of a driven runtime they go when that is driven, or stopped): it
 * is closed but still there, and a later call may succeed.  -EDEADLK (called from a task). */
WEFT_API int weft_pool_destroy(weft_pool *pool, weft_deadline until);

/* The pool of a runtime, made if need be; it ends with the runtime.  rt NULL: the caller's.  NULL when there is no runtime or no memory. */
WEFT_API weft_pool *weft_runtime_pool(weft_runtime *rt);

typedef struct weft_pool_stats {
    unsigned threads, idle; /* threads that there are, and of them without work */
    unsigned running; /* jobs */
    unsigned queued;
    uint64_t completed; /* jobs that have ended since the pool was made; without those that were dropped */
    uint64_t refused; /* threads that the system did not give us */
} weft_pool_stats;

/* A consistent look. */
WEFT_API void weft_pool_stats_read(weft_pool *pool, weft_pool_stats *stats);

WEFT_EXTERN_C_END
#endif
