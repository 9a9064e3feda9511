/* weft/abi.h - nurseries and async calls for compilers: plain functions, small numbers, no structs to fill in.
 *
 * A language whose compiler targets weft emits calls to these.  Results are its own codes, not errno values:
 *
 *      0  WEFT_ABI_OK          every child succeeded, or was cancelled by itself
 *     -1  WEFT_ABI_CANCELLED   cancelled, or the deadline passed
 *     -2  WEFT_ABI_PANIC       a child panicked: it returned this
 *     -3  WEFT_ABI_BUDGET      a child may not use more: it was refused that (weft_fund_refuse) and ended, or returned this, or -EDQUOT
 *     else                     what the first child that failed returned: its negative code
 *
 * A child's own code may be any negative number but -ECANCELED, by which weft knows that it ended because it was cancelled.
 */
#ifndef WEFT_ABI_H
#define WEFT_ABI_H

#include <weft/nursery.h>

WEFT_EXTERN_C_BEGIN

#define WEFT_ABI_OK 0
#define WEFT_ABI_CANCELLED (-1)
#define WEFT_ABI_PANIC (-2)
#define WEFT_ABI_BUDGET (-3)

/* Open a nursery that belongs to the calling fiber.  NULL: not in a fiber, or no memory. */
WEFT_API weft_nursery *weft_abi_nursery_create(void);

/* Start fn(arg) in it.  Returns a handle, to be given back with weft_task_drop (the child goes on); NULL: the nursery is not open, or there is no
 * memory. */
WEFT_API weft_task *weft_abi_nursery_spawn(weft_nursery *n, int (*fn)(void *arg), void *arg);

/* Wait for all children, and return the result; -EINVAL of NULL, which weft_abi_nursery_create returns when it fails.  May suspend.  Calling it again
 * returns the same.
 * Misuse (the caller is a child, or not the owner, or a newer nursery is open) ends the process: the compiler is wrong. */
WEFT_API int weft_abi_nursery_await(weft_nursery *n);

/* Cancel all children.  They still have to be awaited. */
WEFT_API void weft_abi_nursery_cancel(weft_nursery *n);

/* Free it.  Children that were not awaited are cancelled, and awaited. */
WEFT_API void weft_abi_nursery_destroy(weft_nursery *n);

/* -- Async calls ------------------------------------------------------------------------------------ */

/* A call that runs beside its caller: a child of a nursery, and a place for one value. */
typedef struct weft_async {
    weft_task *task; /* NULL: nothing to be had (any more) */
} weft_async;

/* Start fn(arg).  Its value is what it leaves with weft_fiber_result, or what it returns.
 * Returns 0; what weft_nursery_spawn returns, and then call->task is NULL. */
WEFT_API int weft_async_call(weft_nursery *n, weft_fiber_fn fn, void *arg, weft_async *call);

/* Wait for its value, which is handed over exactly once.  May suspend.  `value` may be NULL.
 * Returns 0 and the value; the call's own negative status, and no value; -EINVAL (it has been taken).  Not taken, and to be asked for again:
 * -EAGAIN (the caller has been cancelled and must not wait), -EBUSY (somebody else waits for it), -EDEADLK (it is the caller). */
WEFT_API int weft_async_await(weft_async *call, void **value);

/* Not interested any more: the call goes on, its value is lost.  Harmless when it was taken. */
WEFT_API void weft_async_drop(weft_async *call);

WEFT_EXTERN_C_END
#endif
