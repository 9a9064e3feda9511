/* weft/abi.h - nurseries and async calls for compilers.
 *
 * A compiler that targets weft lowers its structured concurrency to these calls:
 *
 *     source                opcode            runtime target
 *     nursery { ... }       Nursery_Begin     n = weft_abi_nursery_create()
 *                           Nursery_End n     weft_abi_nursery_await(n), weft_abi_nursery_destroy(n)
 *     spawn f(x)            Spawn @f, x       weft_abi_nursery_spawn(n, f, x)
 *     await                 Await n           weft_abi_nursery_await(n); Nursery_End implies it
 *     async f(x)            Async_Call @f, x  weft_async_call(n, f, x, &call)
 *     await of that call    Await call        weft_async_await(&call, &value)
 *
 * Under the profile `sovereign` Nursery_Begin has a capability as its operand, and its target is
 * weft_abi_nursery_create_with(rt, cap, fund).  The other opcodes stay the same.
 *
 * <weft/janus.h> has the four nursery calls under the names that a Janus compiler emits.  A
 * weft_nursery of weft_nursery_create, with a config, is the same thing, and all of these take it.
 *
 * Where.  In a fiber, or on a plain thread, such as the one that runs main().  A nursery that a
 * fiber creates belongs to that fiber, one that a plain thread creates to all plain threads.
 *
 * Default runtime.  The nurseries of plain threads run on the default runtime.  The first
 * weft_abi_nursery_create on a plain thread starts it, with the default configuration and the WEFT_
 * variables of the environment; exit(3) stops it.  Tasks that still run then are cancelled, and the
 * process waits up to 2 s for them.  An exit(3) that a fiber of the default runtime calls stops
 * nothing.  weft_abi_nursery_create returns NULL after the stop (in functions that were registered
 * with atexit(3) before the start), and in a child of fork(2).
 *
 * Errors.  Compiled code need not check each call.  A nursery that is NULL accepts no children, and
 * awaiting it returns -EINVAL.  A refused spawn fails the nursery, as a failing child does.
 *
 * Results are codes of their own, not errno values:
 *
 *      0  WEFT_ABI_OK         every child succeeded, or was cancelled by itself
 *     -1  WEFT_ABI_CANCELLED  cancelled, or the deadline passed
 *     -2  WEFT_ABI_PANIC      a child panicked: it returned this
 *     -3  WEFT_ABI_BUDGET     a child was refused more budget (weft_fund_refuse) and ended; a child
 *                             returned this or -EDQUOT; a spawn was refused with -EDQUOT
 *     else                    the negative code that the first failed child returned, or the error
 *                             of the first refused spawn: -EACCES if the profile forbids it or a
 *                             capability is missing, else as weft_nursery_spawn
 *
 * A child's own code may be any negative number but -ECANCELED, by which weft knows that it ended
 * because it was cancelled.
 */
#ifndef WEFT_ABI_H
#define WEFT_ABI_H

#include <weft/nursery.h>

WEFT_EXTERN_C_BEGIN

#define WEFT_ABI_OK 0
#define WEFT_ABI_CANCELLED (-1)
#define WEFT_ABI_PANIC (-2)
#define WEFT_ABI_BUDGET (-3)

/* Opens a nursery that belongs to the calling fiber or thread.
 *
 * Returns NULL in a poll task, if memory is short, if the profile forbids nurseries, and on a plain
 * thread if the default runtime cannot be started or has been stopped.
 * May be called in a fiber, and on any plain thread.  Does not suspend. */
WEFT_API weft_nursery *weft_abi_nursery_create(void);

/* The same with a runtime, a capability and a fund: the explicit form, which the profile
 * `sovereign` requires.
 *
 * `rt` NULL is the runtime that executes the caller, and on a plain thread the default runtime.
 * `cap` is the right to spawn (see <weft/cap.h>) of every child that the owner starts in this
 * nursery; it is copied; NULL: none.  It is not passed on: a child that opens a nursery needs a
 * capability of its own, in its argument for instance.  `fund` (see <weft/budget.h>) pays for the
 * spawns and the children's budgets; NULL: the owner pays, which a child with the default budget
 * cannot, since that has no spawns.
 *
 * Returns as weft_abi_nursery_create.  A capability that is wrong is noticed by the first spawn. */
WEFT_API weft_nursery *weft_abi_nursery_create_with(weft_runtime *rt, const weft_cap *cap, weft_fund *fund);

/* Starts fn(arg) as a child.
 *
 * The result is borrowed from the nursery: it is a handle (weft_task_cancel, weft_join, ...) until
 * the nursery has been awaited or destroyed, which drops it.  weft_task_drop before that is
 * allowed, and not needed.  Each child keeps 192 bytes until then: a nursery that lives long, and whose code
 * uses no handles, starts its children with weft_nursery_go(n, fn, arg, NULL).
 *
 * Returns NULL if the nursery is NULL, or not open any more, and if the spawn is refused, for what
 * weft_fiber_spawn says.  That counts as a child that failed with this error: the siblings are
 * cancelled, and weft_abi_nursery_await returns it.
 * May be called from where weft_nursery_spawn may be.  Suspends only to pay, see <weft/budget.h>. */
WEFT_API weft_task *weft_abi_nursery_spawn(weft_nursery *n, int (*fn)(void *arg), void *arg);

/* Waits for all children, drops their borrowed handles, and returns the result.  Calling it again
 * returns the same.
 *
 * A fiber suspends; a plain thread sleeps on a futex until the last child has ended.
 *
 * Returns a code as above, or
 *   -EINVAL           the nursery is NULL: weft_abi_nursery_create has failed
 *   -ENOTRECOVERABLE  called in a child of fork(2), and children were running in the parent
 * Misuse ends the process with a message, since the compiler is wrong: the caller is a child, or
 * not the owner; a newer nursery is open; another thread awaits it.  May suspend. */
WEFT_API int weft_abi_nursery_await(weft_nursery *n);

/* Cancels all children.  They still have to be awaited. */
WEFT_API void weft_abi_nursery_cancel(weft_nursery *n);

/* Frees it.  Children that were not awaited are cancelled, and awaited.  NULL is allowed.  Misuse
 * as in weft_abi_nursery_await.  May suspend. */
WEFT_API void weft_abi_nursery_destroy(weft_nursery *n);

/* -- Async calls -------------------------------------------------------------------------------- */

/* A call that runs beside its caller: a child of a nursery, and a place for one value.  Unlike the
 * result of weft_abi_nursery_spawn, the handle in it is owned: each call is awaited or dropped on
 * every path.  Both are allowed after its nursery has been awaited. */
typedef struct weft_async {
    weft_task *task; /* NULL: no value is left to take */
} weft_async;

/* Starts fn(arg).  Its value is what it leaves with weft_fiber_result, or what it returns.  Under
 * `sovereign` it needs the nursery's capability, as weft_abi_nursery_spawn does.
 *
 * Returns 0, or what weft_nursery_spawn returns; then call->task is NULL. */
WEFT_API int weft_async_call(weft_nursery *n, weft_fiber_fn fn, void *arg, weft_async *call);

/* Waits for the call's value, which is handed over exactly once.  `value` may be NULL.
 *
 * Returns 0 and the value, or the call's own negative status and no value, or
 *   -EINVAL   the value has been taken
 *   -EAGAIN   the caller has been cancelled and must not wait; the value can be asked for again
 *   -EBUSY    another task or thread waits for the value; it can be asked for again
 *   -EDEADLK  the caller is the call itself
 * May suspend. */
WEFT_API int weft_async_await(weft_async *call, void **value);

/* Gives up the value; the call goes on.  Does nothing when the value has been taken. */
WEFT_API void weft_async_drop(weft_async *call);

WEFT_EXTERN_C_END
#endif
