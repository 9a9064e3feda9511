/* weft/task.h - poll tasks: spawn, wake, join, cancel.
 *
 * A poll task is a function with a little state that is called again whenever it was woken, until it
 * says it is done.  It has no stack of its own: whatever must survive between two calls is in its state.
 *
 *     static weft_poll count(weft_task *self, void *state) {
 *         int *left = state;
 *         if (--*left > 0)
 *             return WEFT_YIELD;                       // let others run, then call me again
 *         return weft_done(self, 0, "counted");        // finished: this is my result
 *     }
 *
 * Life.  A task is idle (waiting to be woken), scheduled, running, or complete.  However often it is woken
 * before it runs, it runs once; a wake during its poll makes it run once more.  It never runs on two
 * workers at once.
 *
 * Wakes.  A poll that returns WEFT_PENDING must have arranged to be woken: it gave a waker to something, or
 * asked for a join.  Being called without reason is allowed, so check the condition again.
 */
#ifndef WEFT_TASK_H
#define WEFT_TASK_H

#include <weft/base.h>

WEFT_EXTERN_C_BEGIN

typedef struct weft_runtime weft_runtime;
typedef struct weft_task weft_task;

/* What a poll says.  Anything else ends the process with a message: an error of the task's own goes into weft_done. */
typedef enum weft_poll {
    WEFT_PENDING = 0, /* waiting; call me when I am woken */
    WEFT_READY = 1,   /* finished; use weft_done() to leave a result */
    WEFT_YIELD = 2,   /* not finished; call me again after the others */
} weft_poll;

/* `self` is the running task, valid during the call; `state` is its inline state (or the caller's pointer,
 * see weft_spec).  Runs on a worker; must not block. */
typedef weft_poll (*weft_poll_fn)(weft_task *self, void *state);

/* How a task ended: status 0 or a negative errno value of its own, -ECANCELED when it was cancelled;
 * value is whatever the task left, NULL when cancelled. */
typedef struct weft_result {
    int status;
    void *value;
} weft_result;

/* What to spawn.  With state_size > 0 that many bytes are copied from `state` into the task (all zero when
 * `state` is NULL), aligned for any type; with state_size 0 the pointer itself is passed to the poll. */
typedef struct weft_spec {
    size_t size;               /* sizeof(weft_spec): set by WEFT_SPEC_INIT */
    weft_poll_fn poll;         /* required */
    const void *state;
    size_t state_size;         /* at most WEFT_STATE_MAX */
    void (*drop)(void *state); /* called once when the task has ended, also when it was cancelled
                                  without ever being polled; before its result can be seen; may be NULL */
    const char *name;          /* for dumps and errors; static, or valid as long as the runtime; NULL = "task" */
} weft_spec;

#define WEFT_SPEC_INIT {sizeof(weft_spec), 0, 0, 0, 0, 0}
#define WEFT_STATE_MAX 448 /* the whole task object is at most 512 bytes */

/* Start a task.  rt NULL means the runtime that is executing the caller.  When `handle` is not NULL it
 * receives a join handle that must be dropped with weft_task_drop; without one the task is detached, and
 * still owned by the runtime: weft_runtime_stop waits for it or cancels it.  A detached task that ends with an error other
 * than -ECANCELED is counted (weft_stats.failed), and the first one of a runtime is reported on stderr.
 * Call from: anywhere.  What the caller wrote before is visible to the task.
 * Returns 0; -EINVAL (no poll, state too large, no runtime); -E2BIG (spec from a newer header); -ENOMEM;
 * -EAGAIN (from outside, and the global queue is at its capacity: try later); -ESHUTDOWN (stopping); -EPERM (the runtime's profile is
 * core or sovereign: poll tasks have no budget); -ECANCELED (a fiber with a budget that could not pay, see <weft/budget.h>). */
WEFT_API WEFT_MUST_USE int weft_spawn(weft_runtime *rt, const weft_spec *spec, weft_task **handle);

/* The short form: `weft_go(rt, poll, ptr, &handle)`. */
WEFT_API WEFT_MUST_USE int weft_go(weft_runtime *rt, weft_poll_fn poll, void *state, weft_task **handle);

/* Leave a result and finish: `return weft_done(self, status, value);`.  status <= 0.  Of another task than the one that is running, or none, it
 * ends the process with a message. */
WEFT_API weft_poll weft_done(weft_task *self, int status, void *value);

/* -- Join ------------------------------------------------------------------------------------------- */

/* Wait until the task has ended.  The result stays readable until the handle is dropped, so joining again
 * returns at once.  One waiter at a time.
 * Call from: a plain thread (it sleeps), or a task's poll (the worker runs other tasks meanwhile, on top of
 * this one's stack; prefer weft_join_poll there).
 * Returns 0 and fills `result` (may be NULL); -ETIMEDOUT (not ended, handle still good); -EDEADLK (it is this task,
 * or one on whose stack this one is helping; the stack is nearly used up by helping; or `sim` found that nothing can
 * ever run again); -EBUSY (another waiter is registered).
 * Helping has a price: the task below goes on only when the one on top has ended, so tasks that wait for each other should
 * use weft_join_poll.  A thread that drives a runtime must not sleep here for one of its tasks: nobody would drive it. */
WEFT_API int weft_join(weft_task *handle, weft_result *result, weft_deadline until);

/* Join from a poll: either the task has ended, or `self` will be woken when it does.
 * Returns 0 and fills `result`; -EAGAIN (return WEFT_PENDING and ask again when woken); -EDEADLK (self);
 * -EBUSY (another waiter is registered). */
WEFT_API int weft_join_poll(weft_task *handle, weft_task *self, weft_result *result);

/* True once the task has ended. */
WEFT_API bool weft_task_is_done(const weft_task *handle);

/* Give the handle back.  The task goes on (it is the runtime's); its result is lost.  NULL is allowed.
 * Using a handle after this is an error that debug builds report and abort on; others where they see it, in this call and in weft_join. */
WEFT_API void weft_task_drop(weft_task *handle);

/* -- Wakers ----------------------------------------------------------------------------------------- */

/* A counted reference with which anyone may wake a task, from any thread (not from a signal handler), at any time: also
 * after the task has ended (nothing happens).  Every waker is dropped or spent exactly once, before the runtime is
 * destroyed.  All zero means none. */
typedef struct weft_waker {
    void *target;
} weft_waker;

/* A waker for the running task. */
WEFT_API WEFT_MUST_USE weft_waker weft_waker_of(weft_task *self);
WEFT_API WEFT_MUST_USE weft_waker weft_waker_clone(weft_waker waker);
WEFT_API void weft_waker_drop(weft_waker waker);
/* Wake and give the waker back. */
WEFT_API void weft_waker_wake(weft_waker waker);
/* Wake and keep the waker. */
WEFT_API void weft_waker_wake_keep(weft_waker waker);

/* -- Waiting in a poll ------------------------------------------------------------------------------- */

/* Room in which a poll task waits for a semaphore, a channel, a timer, ...: part of its state, all zero at first, and not moved while it
 * waits.  A call that takes one returns -EAGAIN while the task has to wait: return WEFT_PENDING, and make the same call again
 * when polled.  So it does when the task has used up its slice (<weft/fiber.h>): then nothing has happened, and the task is woken at
 * once.  One wait at a time in each: any other call in a room that still waits returns -EBUSY, and does nothing. */
typedef struct weft_wait {
    void *room[12];
} weft_wait;

/* Stop waiting, if it does; what was granted meanwhile goes back.  Call it in the task's drop function, and before waiting for something
 * else in the same room. */
WEFT_API void weft_wait_end(weft_wait *wait);

/* -- Cancellation ----------------------------------------------------------------------------------- */

/* Why a task was asked to end.  The first reason stays. */
typedef enum weft_reason {
    WEFT_REASON_NONE = 0, /* it was not */
    WEFT_REASON_EXPLICIT = 1, /* weft_task_cancel, weft_nursery_cancel */
    WEFT_REASON_TIMEOUT = 2, /* its nursery's deadline passed */
    WEFT_REASON_PARENT = 3, /* the task that owns its nursery was cancelled */
    WEFT_REASON_FAILURE = 4, /* a sibling failed */
    WEFT_REASON_SHUTDOWN = 5, /* the runtime is stopping */
    WEFT_REASON_BUDGET = 6, /* it may not use more */
} weft_reason;

/* Ask a task to end.  It is never polled again (a poll that is running finishes first); its drop function
 * runs and its status is -ECANCELED.  While it is shielded the request waits.  Idempotent; harmless on a task
 * that has ended.  Call from anywhere with a handle, or with `self`. */
WEFT_API void weft_task_cancel(weft_task *task);

/* Put off cancellation of the running task, for a piece of work that must not stop half-way: it is
 * polled on until every shield is removed.  Nests up to 255 deep.
 * Returns 0; -EOVERFLOW (255 deep already); -EINVAL (NULL, which weft_task_self is on a plain thread: nobody cancels that).
 * weft_unshield: 0; -EINVAL (not shielded, or NULL). */
WEFT_API int weft_shield(weft_task *self);
WEFT_API int weft_unshield(weft_task *self);

/* True when the task has been asked to end and no shield puts it off; of the running fiber also when the time of its shields is over. */
WEFT_API bool weft_task_is_cancelled(const weft_task *task);

/* Why it was asked to end, also while a shield puts that off, and after it has ended.  weft_cancel_reason: of the running task. */
WEFT_API weft_reason weft_task_cancel_reason(const weft_task *task);
WEFT_API weft_reason weft_cancel_reason(void);

/* -- Looking ---------------------------------------------------------------------------------------- */

/* The task whose poll is running on this thread, or NULL. */
WEFT_API weft_task *weft_task_self(void);
WEFT_API const char *weft_task_name(const weft_task *task);
/* The state in words: "idle", "scheduled", "running" (also of one that has yielded, until its next turn), "complete"; "exhausted" for a
 * fiber that waits for more budget. */
WEFT_API const char *weft_task_state(const weft_task *task);
/* Say what the running task waits for, in a dump: a static string, NULL to clear. */
WEFT_API void weft_task_waits_for(weft_task *self, const char *what);

WEFT_EXTERN_C_END
#endif
