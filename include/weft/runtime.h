/* weft/runtime.h - start, configure, drive and stop a runtime.
 *
 * A runtime is a set of workers (OS threads) and a scheduler that hands them tasks.  Several runtimes
 * may live in one process; they share nothing.  The short way is weft_run():
 *
 *     int main(void) { return weft_run(NULL, hello, NULL, NULL) < 0; }
 *
 * Fork.  A child of fork(2) has none of the workers, and locks that they held at that moment stay held.  It may only exec or exit; weft_child_start
 * does both in one.  Calls that need the runtime, its processes, a pool or a lane, and calls that would have to wait, return -ENOTRECOVERABLE there.
 * What could only hang (a lock whose owner is gone) ends the child with a message.  A call on an object in memory that need not wait, such as a
 * send into a channel with room, works on the child's own copy, which no task of the parent sees.  Should a fiber fork, its function must not return in the child.  A process that has no runtime, pool
 * or lane (any more), and has never opened signals nor looked up names, may fork: its children may have runtimes of their own.
 */
#ifndef WEFT_RUNTIME_H
#define WEFT_RUNTIME_H

#include <weft/base.h>
#include <weft/cap.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

/* How the workers find work.  WEFT_SCHED_DEFAULT is `ring` unless the environment says otherwise. */
typedef enum weft_sched {
    WEFT_SCHED_DEFAULT = 0,
    WEFT_SCHED_RING = 1,  /* a 256-slot queue and a LIFO slot a worker, half-steal: the default */
    WEFT_SCHED_DEQUE = 2, /* newest first on its own worker, oldest half stolen by others */
    WEFT_SCHED_FIFO = 3,  /* one shared queue in strict order */
    WEFT_SCHED_SIM = 4,   /* one thread, every choice drawn from a seed, virtual time */
    WEFT_SCHED_REACTOR = 5, /* a control thread of its own hands out every task, in nine steps; preempts after 10 ms */
} weft_sched;

/* How the workers wait for descriptors.  Both do the same; io_uring needs fewer system calls, and a kernel that allows it. */
typedef enum weft_poller {
    WEFT_POLLER_AUTO = 0, /* epoll */
    WEFT_POLLER_EPOLL = 1,
    WEFT_POLLER_URING = 2, /* where the kernel allows it (Linux 5.19 and later); else, and for a driven worker, epoll */
} weft_poller;

/* Called when a driven worker (see weft_drive) has work again.  Runs on any thread and must not block:
 * write to an eventfd, post to your loop.  May be called more often than needed. */
typedef void (*weft_wake_fn)(void *arg);

/* Set up with WEFT_CONFIG_INIT, change what you need; 0 always means the default.  The environment
 * overrides: WEFT_SCHED (ring, deque, fifo, sim, reactor), WEFT_WORKERS, WEFT_SEED, WEFT_IO (epoll, uring, auto),
 * WEFT_SIM_POINTS (0: never). */
typedef struct weft_config {
    size_t size; /* sizeof(weft_config): set by WEFT_CONFIG_INIT */
    weft_sched sched; /* which scheduler */
    unsigned
        workers; /* number of workers; 0 = usable CPUs (affinity, cgroup v1 or v2 quota, rounded up); at most 1,024 */
    uint64_t seed; /* random decisions; 0 = from the OS, or 1 under sim */
    uint32_t global_capacity; /* tasks waiting to be taken in from outside, then -EAGAIN; 0 = 65,536 */
    int64_t park_timeout_ns; /* how often an idle runtime looks for itself; 0 = 10 ms, negative = never */
    bool no_steal; /* true: workers never take each other's tasks */
    bool driven; /* true: worker 0 has no thread, the caller runs it with weft_drive */
    weft_wake_fn wake; /* for `driven`: told when worker 0 has work again; may be NULL */
    void *wake_arg;
    const char *name; /* prefix of thread names; copied; NULL = "weft" */
    size_t stack_size; /* of fibers that do not say; rounded up to a power of two; 0 = 64 KiB, at most 1 GiB */
    weft_profile profile; /* what tasks may do, see <weft/cap.h>; 0 = no limits */
    weft_caps
        *caps; /* filled in by weft_runtime_create, weft_run and weft_fiber_run: the first capabilities; may be NULL */
    weft_poller poller; /* how the workers wait for descriptors */
    uint32_t max_processes; /* alive at a time, then -EDQUOT, see <weft/process.h>; 0 = as many as fit, 16,777,216 */
    int64_t
        grace_ns; /* how long weft_runtime_stop and _destroy wait while nothing of what was cancelled ends; 0 = 2 s, negative or WEFT_NEVER = for ever */
    /* How many ops a metered fiber may do that is cancelled and cannot pay for them, before it is stopped for good, see <weft/budget.h>.
     * 0 = 100,000, negative = none. */
    int64_t grace_ops;
    /* How many I/O events a worker handles before it runs tasks again. 0 = 256, at most 65,536. */
    uint32_t max_io_completions;
    /* Under `sim`: one in `sim_points` calls that may suspend yields first, although it need not wait; the seed decides which.  0 = 8,
     * negative = no call. */
    int32_t sim_points;
} weft_config;

#define WEFT_CONFIG_INIT                                                                                               \
    {sizeof(weft_config),                                                                                              \
     WEFT_SCHED_DEFAULT,                                                                                               \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     false,                                                                                                            \
     false,                                                                                                            \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     WEFT_PROFILE_NONE,                                                                                                \
     0,                                                                                                                \
     WEFT_POLLER_AUTO,                                                                                                 \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     0}

/* Starts a runtime.  `config` may be NULL.  If the system refuses some of the threads, the runtime
 * starts with fewer workers, at least one (weft_runtime_workers tells).
 *
 * Returns 0, or, with nothing left running,
 *   -EINVAL  an unknown scheduler, profile or poller, more than 1,024 workers, more than 65,536 I/O
 *            completions, stacks above 1 GiB, or a malformed value, also in the environment; a line
 *            on stderr names it
 *   -E2BIG   a config of a newer header, with a field set that this library does not know
 *   -ENOMEM  no memory
 *   -EAGAIN  not a single thread could be started
 */
WEFT_API WEFT_MUST_USE int weft_runtime_create(const weft_config *config, weft_runtime **out);

/* Stop a runtime: refuse new tasks from outside, let the accepted ones finish until `until`, then
 * cancel what is left and wait for it (tasks under a shield finish first; a task that never returns from
 * its poll cannot be stopped).  Call from a plain thread, not from a task.  Calling it again is harmless.
 * Returns 0 when every task finished by itself; -ECANCELED when some had to be cancelled, and all have
 * ended; -EBUSY when for 2 s (grace_ns) none of the cancelled ones ended (they are named on stderr; the
 * runtime stays up, and a later call may succeed) or when another thread is stopping it now; -EDEADLK when called from
 * one of its own workers, or from a blocking job that its pool runs. */
WEFT_API int weft_runtime_stop(weft_runtime *rt, weft_deadline until);

/* Stop at once if still running, join every worker, free everything.  Handles and wakers of its tasks must be dropped: other
 * threads that are about to have 2 s (grace_ns) for it.  `rt` may be NULL.
 * If a fiber was stopped (<weft/budget.h>), handles that are left after that time are taken to be in its frames: they are named on stderr, and
 * the runtime is destroyed.
 * Returns 0; -EBUSY when some are still held (the tasks are named on stderr), or as weft_runtime_stop; -EDEADLK as weft_runtime_stop.
 * On failure the runtime still exists, and a later call may succeed. */
WEFT_API int weft_runtime_destroy(weft_runtime *rt);

/* Create a runtime (with threads of its own, never driven), run `poll` with `state` as its first task, wait for it, let
 * the rest finish, destroy.
 * `state` stays the caller's and outlives the run.  `result` may be NULL.
 * Returns 0, the task's own negative status, or what weft_runtime_create returned; -EDEADLK when `sim`
 * found that nothing can ever run again; -EBUSY when tasks or references would not go away at the end. */
WEFT_API int weft_run(const weft_config *config, weft_poll_fn poll, void *state, weft_result *result);

/* Run worker 0 of a `driven` runtime on the calling thread: poll tasks until none is ready for it, or
 * `max_polls` (0 = no limit) have been polled or ended by a cancel.  Does not wait for anything to become ready; with the `reactor`,
 * where only the control thread knows what is, it waits for one turn of that (microseconds, unless the machine is busy).  One thread at a time; not from a task.
 * When it returns `max_polls` more may be ready, and the wake function will not say so: call again.
 * Returns the number of tasks polled; -EINVAL (not driven); -EDEADLK (called from one of its own tasks);
 * -EBUSY (another thread is driving it). */
WEFT_API int weft_drive(weft_runtime *rt, unsigned max_polls);

/* As weft_drive, but sleeps while there is nothing to do, until something was polled or `until`.
 * Returns as weft_drive; 0 means that `until` passed; -ESHUTDOWN (it has been stopped). */
WEFT_API int weft_drive_wait(weft_runtime *rt, unsigned max_polls, weft_deadline until);

/* When worker 0 of a driven runtime wants to be driven again even if nobody wakes it: its next timer, or WEFT_NEVER.  Ask after
 * weft_drive, and let your own loop sleep no longer. */
WEFT_API weft_deadline weft_drive_next(weft_runtime *rt);

/* The runtime whose worker is executing the caller, or NULL on any other thread. */
WEFT_API weft_runtime *weft_runtime_current(void);

/* Number of workers, the scheduler's name ("ring", ...), and the poller's ("epoll", or "uring" when that was asked for and the kernel
 * allows it; a worker that then gets none all the same uses epoll). */
WEFT_API unsigned weft_runtime_workers(const weft_runtime *rt);
WEFT_API const char *weft_runtime_sched(const weft_runtime *rt);
WEFT_API const char *weft_runtime_poller(const weft_runtime *rt);

WEFT_EXTERN_C_END
#endif
