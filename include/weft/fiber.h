/* weft/fiber.h - fibers: plain C functions that may wait anywhere.
 *
 * A fiber is a function on a small stack of its own.  When it waits (for another task, a timer, a channel) its worker runs
 * something else; the code reads as if it blocked.
 *
 *     static int greet(void *arg) {
 *         weft_sleep(1000000);                        // others run meanwhile
 *         printf("hello, %s\n", (const char *)arg);
 *         return 0;                                   // or a negative error
 *     }
 *     int main(void) { return weft_fiber_run(NULL, greet, "world", NULL) < 0; }
 *
 * A fiber is a task: handles, weft_join, weft_task_cancel, shields and names are those of <weft/task.h>.
 *
 * Workers.  Once started, a fiber stays on its worker: compilers keep the addresses of thread-locals in registers across calls, so
 * code that wakes up on another thread is broken in ways nobody can see.  A fiber spawned with `migrate` may move; what it
 * may then not do is written there.
 *
 * Stacks.  64 KiB of address space unless asked otherwise, of which only touched pages cost memory.  Below each lies a guard page:
 * running over it ends the process with the fiber's name, its function (by name if the program exports it, as with -rdynamic; else as
 * PROGRAM+0xOFFSET, for addr2line) and a backtrace.  Compile with -fstack-clash-protection, or a single frame larger than a
 * page can jump over the guard (gcc on aarch64: also --param=stack-clash-protection-guard-size=12, since it thinks that guards are larger
 * there).
 *
 * Floating point.  A fiber begins with the rounding mode of the thread that created the runtime, and keeps its own; one that changes it
 * sets it back before it returns, as any function does.  So with the other modes (precision, flushing to zero, traps).  The flags of exceptions that
 * have occurred are not kept over a wait.
 *
 * C++.  An exception must not leave the fiber's function.  Each fiber has its own: it may wait while it handles one, or in a destructor that
 * runs because of one.  For that the C++ runtime (libstdc++, libc++abi) must be there when weft is loaded; a C program that later
 * dlopens something in C++ has fibers that must not wait then.
 *
 * Slices.  A fiber runs until it suspends, or until its slice is used up.  Every library call spends 1 unit of the slice, or 8 if it makes a
 * system call or sends to a process; a slice has 1,024 units, and about 1 ms.  When it is used up, the next call that may suspend lets
 * others run first, whether or not it has to wait: a loop over a mutex that is always free does not keep its worker.  Calls that
 * never suspend (an unlock, a release, a try_ call, a deadline of WEFT_NOW) spend, and do not yield.  In a poll task a call that ends in
 * _poll returns -EAGAIN then, and the task is polled again.  A fiber does not yield so between a fork and its join, nor between
 * weft_preempt_off and weft_preempt_on; in a shield it does.  A fiber that may migrate stays on its worker.  Code that makes no
 * library calls calls weft_checkpoint.
 *
 * Cancellation.  A cancelled fiber that has not begun never does.  One that waits is woken: the call returns -ECANCELED, and so
 * does every later wait, until it returns.  Clean-up that must wait itself goes between weft_shield and weft_unshield.
 */
#ifndef WEFT_FIBER_H
#define WEFT_FIBER_H

#include <weft/base.h>
#include <weft/cap.h>
#include <weft/runtime.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

/* What a fiber runs.  A negative return value is its status; 0 or more is success, and also its result's value (as a pointer)
 * unless it has left another with weft_fiber_result. */
typedef int (*weft_fiber_fn)(void *arg);

typedef struct weft_fiber_spec {
    size_t size; /* sizeof(weft_fiber_spec): set by WEFT_FIBER_SPEC_INIT */
    weft_fiber_fn fn; /* required */
    void *arg;
    const char *name; /* as weft_spec; NULL = "fiber" */
    size_t stack_size; /* rounded up to a power of two; 0 = the runtime's, at most 1 GiB */
    bool migrate; /* it may move to another worker whenever it waits: then its code, and all it calls, must not use
                          thread-locals (errno included: use weft_errno) on both sides of a wait */
    bool discard; /* owns nothing: when cancelled, it may be ended in the midst of metered code, see <weft/budget.h> */
    weft_fund *fund; /* what its budget comes out of; NULL: its spawner's, or the runtime's; without any it has none */
    const weft_budget *budget; /* NULL: WEFT_BUDGET_CHILD, if it has one */
    const weft_cap *cap; /* the right to spawn, see <weft/cap.h>; required under `sovereign` */
    /* Called once with `arg` when the fiber has ended: after its function has returned, or without that, if the fiber was cancelled before it
     * began or was ended by force.  So `arg` is released in every case.  Before the fiber's result can be seen.  Not called if the spawn fails:
     * then `arg` is still the caller's.  It runs on a worker, outside of any fiber: it must not block.  NULL: nothing is called. */
    void (*release)(void *arg);
} weft_fiber_spec;

#define WEFT_FIBER_SPEC_INIT {sizeof(weft_fiber_spec), 0, 0, 0, 0, false, false, 0, 0, 0, 0}

/* Starts a fiber; as weft_spawn in every other way.
 *
 * The stack is bound when the fiber first runs.  If no stack can be had, the fiber ends with -ENOMEM
 * without being entered.  A fiber without a handle that ends with an error other than -ECANCELED is
 * counted (weft_stats.failed), and the first one of a runtime is reported on stderr.  In a nursery
 * the owner's await returns the error instead.
 *
 * Returns 0, or
 *   -EINVAL     no function, no runtime, a stack larger than 1 GiB, a budget or capability without
 *               a fund that it could come out of, or a fund of another runtime
 *   -E2BIG      a spec of a newer header, with a field set that this library does not know
 *   -ENOMEM     no memory, or the system has refused a stack and none has been given back since
 *   -EAGAIN     from outside, and the global queue is at its capacity; retry later
 *   -ESHUTDOWN  the runtime is stopping
 *   -EDQUOT     the fund has too little, or as many tasks as the capability's max_tasks exist
 *   -EPERM      the profile or the capability does not allow it, see <weft/cap.h>
 *   -ECANCELED  the spawner could not pay, and was cancelled while it waited
 */
WEFT_API WEFT_MUST_USE int weft_fiber_spawn(weft_runtime *rt, const weft_fiber_spec *spec, weft_task **handle);

/* The short form. */
WEFT_API WEFT_MUST_USE int weft_fiber_go(weft_runtime *rt, weft_fiber_fn fn, void *arg, weft_task **handle);

/* Create a runtime, run fn(arg) as its first fiber, wait for it, let the rest finish, destroy.  Returns as weft_run. */
WEFT_API int weft_fiber_run(const weft_config *config, weft_fiber_fn fn, void *arg, weft_result *result);

/* In a fiber: leave a result's value for the joiner.  Elsewhere it ends the process with a message. */
WEFT_API void weft_fiber_result(void *value);

/* Let others run.  Fibers of this worker that have begun come first; what else is queued here may have to wait for some dozens of yields.
 * Returns 0; -ECANCELED (the fiber has been cancelled); -EINVAL (in a poll task).  On a plain thread it lets
 * other threads run. */
WEFT_API int weft_yield(void);

/* Waits.  Never ends early; at most 1 ms late, plus scheduling delay.
 *
 * In a fiber others run meanwhile; a plain thread sleeps, and pthread_cancel ends that.  With a time of 0, or one that has
 * passed, the call yields only if the slice is used up.  To yield at once, call weft_yield.
 *
 * Returns 0, or
 *   -EINVAL     in a poll task, whose worker it would stop; see weft_sleep_poll
 *   -ECANCELED  the fiber has been cancelled
 * May suspend. */
WEFT_API int weft_sleep(int64_t ns);
WEFT_API int weft_sleep_until(weft_deadline until);

/* Lets others run if the fiber has had its worker for about 1 ms, and reports a cancellation: for
 * loops that never wait.  Costs a few nanoseconds.
 *
 * Under `reactor` it yields when the control thread requests it, after 10 ms.  A fiber that gets
 * 1,000 requests in a row, without waiting or yielding by itself, has failed: it is cancelled, and
 * its status is -ETIME.  Other library calls honour such a request as well, but are not counted.
 *
 * Returns 0, or
 *   -EINVAL     in a poll task
 *   -ECANCELED  the fiber has been cancelled
 */
WEFT_API int weft_checkpoint(void);

/* A shield with an end: as weft_shield, but from `until` on the fiber's waits return -ECANCELED all the same, if it has been
 * cancelled.  For clean-up that must not take for ever.  Of several the earliest counts, until it is removed, with
 * weft_unshield: what encloses it is as it was.  `self` is the running fiber.  (Not cut off: awaiting a nursery, the function of weft_once_run, having the mutex back in
 * weft_cond_wait.)
 * Returns 0; -EOVERFLOW (255 shields, or within 4 limits, each earlier than the one around it); -EINVAL (not a fiber). */
WEFT_API int weft_shield_until(weft_task *self, weft_deadline until);

/* True inside a fiber. */
WEFT_API bool weft_in_fiber(void);

/* `errno` that is safe to use on both sides of a wait in a fiber that migrates. */
WEFT_API int *weft_errno(void);

/* -- Fiber-locals ----------------------------------------------------------------------------------- */

/* A key, under which every fiber has a pointer of its own, NULL at first; plain threads and poll tasks have none.  `destroy` (may
 * be NULL) is called when a fiber ends, for each pointer that is not NULL, newest key first; it finds those of older keys still there, and what it
 * sets is destroyed as well, up to four times.  Children do not inherit any.  Keys live as long as the process; there are at most 64.
 * Returns 0; -ENOSPC (64 are in use). */
WEFT_API int weft_local_create(unsigned *key, void (*destroy)(void *value));
/* Returns 0; -EINVAL (no such key, or not in a fiber); -ENOMEM. */
WEFT_API int weft_local_set(unsigned key, void *value);
/* NULL when unset, or not in a fiber. */
WEFT_API void *weft_local_get(unsigned key);

WEFT_EXTERN_C_END
#endif
