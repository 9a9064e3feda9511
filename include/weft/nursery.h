/* weft/nursery.h - nurseries: fibers that cannot outlive the block that started them.
 *
 *     static int fetch_both(void *arg) {
 *         int status;
 *         WEFT_NURSERY(n, &status) {
 *             weft_nursery_go(&n, fetch, "a", NULL);
 *             weft_nursery_go(&n, fetch, "b", NULL);
 *         }                                       // both have ended here, however the block was left
 *         return status;                          // 0, or the first error
 *     }
 *
 * A nursery belongs to the task or thread that made it, its owner, and has children: fibers.  The owner awaits it before it goes on, so
 * tasks form a tree, and whoever gets a result back knows that nothing of it is still running.
 *
 * Failure.  When a child ends with a negative status, its siblings are cancelled, and the status is what await returns: the first one, and it
 * counts more than any cancellation.  -ECANCELED is not a failure: a child that is cancelled by itself leaves the others alone.  So does a child
 * that was refused for lack of budget, but await returns -EDQUOT then, unless another child has failed.
 * The owner is not cancelled, neither by a failure nor by a deadline: what it waits for between opening and awaiting goes on.  What only a child can
 * bring, it waits for in a child, too, or with a deadline.
 *
 * Cancellation.  Cancelling a nursery cancels its children, and the nurseries of theirs, to any depth, at once.  Cancelling a fiber does that to every
 * nursery it owns, except those it opened under a shield: these go on while the shield lasts.  Each cancelled task can
 * ask why: weft_cancel_reason().
 *
 * States.  OPEN takes children.  close: CLOSING, then CLOSED when none is left.  cancel, a failure, a deadline: CANCELLING, then CANCELLED when
 * none is left.  CLOSED and CANCELLED are final.
 *
 *             close               last child ends
 *     OPEN ----------> CLOSING ------------------> CLOSED        (OPEN and empty: CLOSED at once)
 *       \                 \
 *        +-----------------+-> CANCELLING -------> CANCELLED     (empty: CANCELLED at once)
 *
 * The root.  Tasks that are started without a nursery belong to the runtime, which awaits or cancels them when it is stopped
 * (weft_runtime_stop): there are no orphans.
 */
#ifndef WEFT_NURSERY_H
#define WEFT_NURSERY_H

#include <weft/base.h>
#include <weft/fiber.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

/* In the caller's memory, which must stay where it is until await has returned.  Its contents are the library's. */
typedef struct weft_nursery {
    void *room[32];
} weft_nursery;

typedef enum weft_nursery_state {
    WEFT_NURSERY_OPEN = 0,
    WEFT_NURSERY_CLOSING = 1,
    WEFT_NURSERY_CLOSED = 2,
    WEFT_NURSERY_CANCELLING = 3,
    WEFT_NURSERY_CANCELLED = 4,
} weft_nursery_state;

typedef struct weft_nursery_config {
    size_t size;         /* sizeof(weft_nursery_config): set by WEFT_NURSERY_CONFIG_INIT */
    const char *name;    /* for errors; as weft_spec; NULL = "nursery" */
    weft_deadline until; /* as weft_nursery_set_deadline; 0 or WEFT_NEVER: none */
    int64_t
        grace; /* ns for which the shields of children, and of all that is cancelled with them, hold; 0, below 0 or WEFT_NEVER: as long as they want */
    bool keep_going; /* a child's failure does not cancel the others; await still returns the first */
    weft_fund *
        fund; /* what its children's budgets come out of, and each spawn is paid from (see <weft/budget.h>); NULL: the spawner's */
    bool
        keep_results; /* for weft_nursery_next: how each child has ended is kept, a slot of memory each, until it is asked for or awaited */
    /* The right to spawn (see <weft/cap.h>) of every child that the owner starts without one in its spec; copied.  Children that others start, the
     * children themselves for instance, need one of their own.  NULL: none; under `sovereign` each spec then names one. */
    const weft_cap *cap;
} weft_nursery_config;

#define WEFT_NURSERY_CONFIG_INIT {sizeof(weft_nursery_config), 0, 0, 0, false, 0, false, 0}

/* Open a nursery in the caller's memory.  rt NULL: the runtime that is executing the caller.  config may be NULL.  The caller is its owner: a fiber or
 * a plain thread.  A fiber that has been cancelled, and is not shielded, gets one that is CANCELLED.
 * Returns 0; -EINVAL (no runtime; in a poll task: use weft_nursery_create); -E2BIG; with `until` also what
 * weft_nursery_set_deadline returns. */
WEFT_API WEFT_MUST_USE int weft_nursery_init(weft_nursery *n, weft_runtime *rt, const weft_nursery_config *config);

/* The same in memory of its own, given back with weft_nursery_destroy; also for poll tasks.  Returns also -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_nursery_create(weft_runtime *rt, const weft_nursery_config *config, weft_nursery **out);

/* Frees a nursery of weft_nursery_create.  If it has not been awaited, its children are cancelled,
 * and awaited.
 *
 * In a poll task, or in its drop function, nothing is awaited: the nursery is freed when its last
 * child has ended.  NULL is allowed; so is a nursery of weft_nursery_init, whose memory stays the
 * caller's.  A fiber that ends without destroying its nurseries does so then.
 *
 * Returns 0 in a poll task and for NULL, else as weft_nursery_await: -ECANCELED if there were
 * children to cancel, and none failed.  After -EACCES, -EDEADLK, -EBUSY and -EINVAL the nursery
 * still exists.
 * Call from the owner.  May suspend. */
WEFT_API int weft_nursery_destroy(weft_nursery *n);

/* Start a child.  As weft_fiber_spawn, but it belongs to the nursery.  Dropping the handle does not detach it.
 * Call from: anywhere, as long as the nursery is there: its owner, its children (also while the owner awaits: it then stays OPEN until none is
 * left), other threads that are known to be done before.
 * Returns 0; -EPIPE (closed); -ECANCELED (cancelled); -EINVAL (never opened, all zero); what weft_fiber_spawn returns. */
WEFT_API WEFT_MUST_USE int weft_nursery_spawn(weft_nursery *n, const weft_fiber_spec *spec, weft_task **handle);

/* The short form. */
WEFT_API int weft_nursery_go(weft_nursery *n, weft_fiber_fn fn, void *arg, weft_task **handle);

/* Waits until every child has ended.  Then the nursery is CLOSED or CANCELLED, and its memory is
 * the caller's.
 *
 * If the owner is cancelled while it waits, the children are cancelled, and still waited for.
 * Awaiting again returns the same.  A fiber awaits its newest nursery first.  A nursery that a
 * plain thread opened may be awaited by any plain thread, but not by one that drives the runtime,
 * since the children would not run then.  After the wait every child's handle reports the end:
 * weft_task_is_done is true, and weft_join does not wait.
 *
 * Returns 0, the negative status of the first child that failed, or
 *   -EDQUOT     a child was refused for lack of budget (weft_fund_refuse) and ended with -ECANCELED
 *   -ETIMEDOUT  the deadline of the nursery, or of a weft_timeout, has passed
 *   -ECANCELED  the nursery was cancelled
 * or, without having waited or changed anything (weft_nursery_state_of tells these from a child's),
 *   -EDEADLK    the caller is one of the children
 *   -EACCES     the caller is not the owner
 *   -EBUSY      another thread awaits it, or a newer nursery of this fiber is open
 *   -EINVAL     in a poll task, or the nursery was never opened (all zero)
 * Call from the owner, a fiber or a plain thread.  May suspend. */
WEFT_API int weft_nursery_await(weft_nursery *n);

/* Await in a poll task, which made it: `wait` is in its state (weft_wait_end in its drop function, then weft_nursery_destroy).
 * Returns 0 and fills *result with what weft_nursery_await returns; -EAGAIN (return WEFT_PENDING, and ask again when polled); -EDEADLK, -EACCES,
 * -EBUSY as above; -EINVAL (made by a fiber or a thread). */
WEFT_API int weft_nursery_await_poll(weft_nursery *n, weft_task *self, weft_wait *wait, int *result);

/* Wait for the next child to end, and take how it did: each end is given once, in the order in which they came, those before the call first.
 *
 *     config.keep_results = config.keep_going = true;           // a failure is one of the results
 *     while (weft_nursery_next(n, &result, NULL, WEFT_NEVER) == 0)
 *         ...                                                   // and start another, perhaps
 *
 * Whatever it is, failed or cancelled, it is given; without keep_going the siblings of one that has failed are cancelled as always: it comes when they have been
 * told, and one that fails at the same time may come before it.  Of *which, the child,
 * nothing is given but its address, to compare with the handle that was got from weft_nursery_spawn, if the caller still has that.  Both may be NULL.
 * What has not been asked for is gone when the nursery has been awaited.
 * Call from: as weft_nursery_await, but newer nurseries may be open.
 * Suspends: unless one has ended already.  A cancelled owner still gets these; where it would have to wait, it gets -ECANCELED.
 *
 * Returns 0, or
 *   -EINVAL     in a poll task, without keep_results, or the nursery was never opened (all zero)
 *   -ECHILD     no child is left whose end has not been given
 *   -ETIMEDOUT  no child ended before the deadline
 *   -ECANCELED  the owner was cancelled, and no child has ended
 *   -EBUSY      another thread waits
 *   -EDEADLK    the caller is one of the children
 *   -EACCES     the caller is not the owner
 */
WEFT_API WEFT_MUST_USE int weft_nursery_next(weft_nursery *n, weft_result *result, const weft_task **which,
                                             weft_deadline until);
/* The same in a poll task, as weft_nursery_await_poll: -EAGAIN (return WEFT_PENDING, and ask again when polled). */
WEFT_API WEFT_MUST_USE int weft_nursery_next_poll(weft_nursery *n, weft_task *self, weft_wait *wait,
                                                  weft_result *result, const weft_task **which);

/* No more children.  Idempotent; does nothing when cancelled.  Call from where weft_nursery_spawn may be called. */
WEFT_API void weft_nursery_close(weft_nursery *n);

/* Cancel every child, and what belongs to them.  Idempotent; does nothing when nothing is left.  Call from where weft_nursery_spawn may be called. */
WEFT_API void weft_nursery_cancel(weft_nursery *n);

/* Cancels the nursery at `until`, with WEFT_REASON_TIMEOUT, whatever the owner is doing then; await
 * returns -ETIMEDOUT.  A deadline that has passed cancels before this call returns.
 *
 * A second call replaces the deadline, and WEFT_NEVER removes it.  A deadline that has passed
 * meanwhile is neither replaced nor removed.
 *
 * Returns 0, or
 *   -EINVAL     the nursery was never opened (all zero)
 *   -EACCES     the caller is not the owner
 *   -ENOMEM     no memory; the nursery has no deadline then
 *   -EAGAIN     as weft_spawn; the nursery has no deadline then
 *   -ESHUTDOWN  the runtime is stopping; the nursery has no deadline then
 * Call from the owner. */
WEFT_API int weft_nursery_set_deadline(weft_nursery *n, weft_deadline until);

/* -- Looking ---------------------------------------------------------------------------------------- */

WEFT_API weft_nursery_state weft_nursery_state_of(weft_nursery *n);
/* Why it was cancelled. */
WEFT_API weft_reason weft_nursery_reason(weft_nursery *n);
/* Children that have not ended. */
WEFT_API size_t weft_nursery_count(weft_nursery *n);
/* The owner; NULL: a thread, or nothing is left to wait for and it takes no more. */
WEFT_API weft_task *weft_nursery_owner(weft_nursery *n);
/* The newest nursery that the calling fiber owns and that can still run something, or NULL. */
WEFT_API weft_nursery *weft_nursery_current(void);
/* The nursery that the calling fiber is a child of, or NULL: to start siblings. */
WEFT_API weft_nursery *weft_nursery_parent(void);

/* -- Time limits ------------------------------------------------------------------------------------ */

/* Run fn(arg) in a child, and cancel it when `ns` have passed; returns when it has ended.
 * Call from: a fiber.  May suspend.
 * Returns what fn returned; -ETIMEDOUT (it was cancelled for that, and has returned no other error: also when it took no notice, under a shield, and
 * came to its end); -ECANCELED (the caller was cancelled, likewise); -EINVAL (not in a fiber); what weft_nursery_spawn returns. */
WEFT_API int weft_timeout(int64_t ns, weft_fiber_fn fn, void *arg);

/* The same with a capability, the right to spawn the child (see <weft/cap.h>): required under `sovereign`. */
WEFT_API int weft_timeout_with(const weft_cap *cap, int64_t ns, weft_fiber_fn fn, void *arg);

/* -- The block -------------------------------------------------------------------------------------- */

#if defined(__GNUC__) && !defined(__cplusplus)
/* WEFT_NURSERY(n, &status) { ... }: a block with a nursery `n`, a variable of type weft_nursery, that cannot be left without awaiting it: not at its end, nor
 * by break, return or goto.  (Not by longjmp or pthread_exit: do not.)  `status` (an int *, may be NULL) receives what weft_nursery_await
 * returned, or why the nursery could not be opened: then the block is not entered.  In `return e;` inside the block, e is
 * evaluated before the children are awaited.  Leaving early does not cancel them (it may be all that the block had to do): if they are not wanted any
 * more, call weft_nursery_cancel first.
 * GNU C (gcc, clang).  Elsewhere: weft_nursery_init and weft_nursery_await. */
#define WEFT_NURSERY(n, status) WEFT_NURSERY_WITH(n, status, (const weft_nursery_config *)0)
/* The same with a config. */
#define WEFT_NURSERY_WITH(n, status, config)                                                                           \
    for (weft_nursery n __attribute__((cleanup(weft_nursery_leave))),                                                  \
         *weft_once_##n = weft_nursery_enter(&n, (config), (status));                                                  \
         weft_once_##n; weft_once_##n = (weft_nursery *)0)
#endif

/* What the block is made of.  enter: NULL on failure. */
WEFT_API weft_nursery *weft_nursery_enter(weft_nursery *n, const weft_nursery_config *config, int *status);
WEFT_API void weft_nursery_leave(weft_nursery *n);

WEFT_EXTERN_C_END
#endif
