/* weft/budget.h - how much a fiber may do: counted operations, preemption without timers, budgets, funds.
 *
 * Metering.  Code that was compiled with `weft-cc` (a wrapper around your compiler, weft-cc(1)) counts its operations: one for each
 * basic block that it enters, so about one for a call and one for a turn of a loop (as compiled: inlined, unrolled).  After 1,024 ops a fiber lets others run:
 * a loop that never waits is no longer a worker's end.  No timer and no signal is involved, and the count is
 * exact: the same program does the same number of ops in every run, and yields at the same places.
 * Ops of code that was compiled otherwise (libraries, weft itself) are not counted; poll tasks and plain threads are not either.
 *
 * What may not be interrupted.  A metered fiber may stop at any line of its own metered code while other fibers run on the same
 * thread (it goes on on that thread, also one spawned with `migrate`).  Around a lock that is not weft's, which another fiber
 * of the thread would wait for in vain, say so:
 *
 *     weft_preempt_off();
 *     pthread_mutex_lock(&lock);
 *     table[n]++;
 *     pthread_mutex_unlock(&lock);
 *     weft_preempt_on();
 *
 * Signal handlers must not be metered: compile them with the plain compiler.
 *
 * Cancellation.  A cancelled fiber learns of it where it waits, and from weft_checkpoint.  A metered loop that does neither goes on, in
 * turns with others, as long as it can pay for its ops.
 *
 * A fiber that was spawned with `discard` ends at the next place where it would yield, with -ECANCELED, and nothing more of its code runs,
 * but for the destructors of its fiber-locals.  That is for fibers which own nothing: no memory other than weft_alloc's, no lock, file or
 * handle, no forked jobs, no weft object on their stack that others know of, no C++ object with a destructor; these would be lost.  Between
 * weft_shield and weft_unshield, and between weft_preempt_off and weft_preempt_on, it is not discarded.
 *
 * Budgets.  A fiber may be given a budget, and pays for what it does:
 *
 *     a metered op, weft_checkpoint             1 op
 *     weft_alloc(n)                             1 op, n bytes of memory (which weft_free gives back)
 *     weft_spawn, weft_fiber_spawn              1 op, 1 spawn (one that names a fund, or into a nursery with one: the fund pays the spawn);
 *                                               also weft_nursery_spawn, weft_timeout, weft_async_call, each start of a supervised child
 *     weft_chan_send and _recv, weft_select, receiving from a broadcast, waiting for a watch   1 op, 1 channel_op
 *     weft_send, weft_receive, weft_ask, weft_reply, weft_relay_deliver (<weft/process.h>, <weft/relay.h>), and weft_publish
 *     for each member                                                                          1 op, 1 channel_op
 *     input or output (<weft/io.h>)             1 op, 1 syscall
 *     weft_yield, waiting                       nothing
 *
 * It is exhausted when it wants something that it cannot pay: whole, or not at all.  Having 0 of something is no reason to stop
 * as long as none is wanted.  What happens then depends on the runtime's profile (weft_config): under `service` it gets more, and lets
 * others run first; under `cluster` and `sovereign`, and without a profile, it waits, "exhausted" in weft_task_state and waiting for "budget" in a
 * dump, until it is recharged (weft_fund_recharge, weft_supervise) or cancelled: then the call returns -ECANCELED.  A call that must not wait
 * (weft_try_send, or a deadline of WEFT_NOW) returns -EDQUOT instead, and under `service` gets more without letting others run.  Nothing waits silently: if
 * no supervisor sees to the fiber and nobody has ever asked for exhausted fibers of its fund, the first one is reported on stderr.
 *
 * Metered code has no call that could return -ECANCELED.  If it is cancelled while it is exhausted it goes on without paying, for a grace
 * period of 100,000 ops (weft_config.grace_ops), in which it can clean up and return.  After that it is stopped for good, also under a shield,
 * but not between weft_preempt_off and weft_preempt_on: its nurseries are cancelled and awaited, it ends with -EDQUOT, and no code of its
 * runs any more.  Its stack is kept until the runtime is destroyed, since others may use what lies in its frames, and the mutexes and
 * rwlocks that it holds stay locked: a line on stderr names the fiber and these.
 *
 * Funds.  The budget of a fiber comes out of a fund, and what is left of it goes back there when the fiber ends; a fund may come out of another
 * in the same way.  Nothing is made or lost on the way, so a fund's budget bounds all that is done on its account.  (Memory that a killed
 * fiber has not freed is credited to the fund, see weft_alloc.)  A fiber's children come out of the fund that it came from, unless
 * their spec names another.
 */
#ifndef WEFT_BUDGET_H
#define WEFT_BUDGET_H

#include <weft/base.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

typedef struct weft_fund weft_fund;
typedef struct weft_cap weft_cap; /* <weft/cap.h> */

/* -- Budgets ---------------------------------------------------------------------------------------- */

typedef struct weft_budget {
    uint64_t ops;
    uint64_t memory; /* bytes */
    uint64_t spawns;
    uint64_t channel_ops;
    uint64_t syscalls;
} weft_budget;

/* What a fiber gets that is spawned without a budget of its own, and the funds of two profiles. */
#define WEFT_BUDGET_CHILD {10000, UINT64_C(1) << 20, 0, 100, 10}
#define WEFT_BUDGET_SERVICE {100000, UINT64_C(10) << 20, 100, 1000, 100}
#define WEFT_BUDGET_CLUSTER {1000000, UINT64_C(100) << 20, 1000, 10000, 1000}
#define WEFT_BUDGET_MAX {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}

/* Is there enough of everything? */
WEFT_API bool weft_budget_covers(const weft_budget *have, const weft_budget *cost);
/* Take all of `cost` away, or nothing.  False: there is too little of something. */
WEFT_API WEFT_MUST_USE bool weft_budget_take(weft_budget *from, const weft_budget *cost);
/* Add; what does not fit is lost: the largest number stays. */
WEFT_API void weft_budget_add(weft_budget *to, const weft_budget *more);

/* What the calling fiber has left.  Returns 0; -ENOENT (it has no budget: nothing it does is charged, or not a fiber). */
WEFT_API int weft_budget_left(weft_budget *left);

/* Allocates zeroed memory, aligned for any type, and charges it to the calling fiber if that has a budget.
 *
 * Free it with weft_free, anywhere.  A fiber that frees its own memory gets the charge back; otherwise the fund does that the fiber comes
 * out of.  Memory may outlive its fiber, and stays charged to the fund; but the charge of a killed fiber (refused, discarded or stopped)
 * returns to the fund when the fiber ends.  Its memory stays valid and can still be freed.
 *
 * Returns 0, or
 *   -EINVAL     `memory` is NULL
 *   -ENOMEM     no memory
 *   -ECANCELED  the fiber was cancelled while it could not pay
 * May be called from any thread.  May suspend. */
WEFT_API WEFT_MUST_USE int weft_alloc(size_t size, void **memory);
/* Frees what weft_alloc has allocated.  NULL is allowed.  May be called from any thread.  Does not suspend. */
WEFT_API void weft_free(void *memory);

/* -- Metering --------------------------------------------------------------------------------------- */

/* Ops of the calling fiber so far; 0 outside fibers.  Never decreases. */
WEFT_API uint64_t weft_ops_used(void);

/* Between the two, metering does not make the calling fiber yield; what is due comes at the last weft_preempt_on.  Nests, up to
 * 255 deep.  Waiting is still allowed and is what it is.  Outside fibers nothing happens.  More than that, or an `on` without its
 * `off`, ends the process; what is still off when the fiber's function returns ends with the fiber. */
WEFT_API void weft_preempt_off(void);
WEFT_API void weft_preempt_on(void);

/* -- Funds ------------------------------------------------------------------------------------------ */

/* The runtime's own: under `service`, `cluster` and `sovereign` the one that fibers come out of whose spec names none and whose spawner
 * has none; else NULL.  Under `sovereign` also NULL for code that runs on a worker: who is to have it is given it (weft_caps). */
WEFT_API weft_fund *weft_runtime_fund(weft_runtime *rt);

/* A fund with that budget, taken out of `parent`; with parent NULL out of nothing.  rt NULL: that of the caller.
 * Returns 0; -EDQUOT (the parent has too little); -EINVAL (no runtime, or parent is another's); -ENOMEM;
 * -EPERM (parent NULL, under `sovereign`, on a worker). */
WEFT_API WEFT_MUST_USE int weft_fund_create(weft_runtime *rt, weft_fund *parent, const weft_budget *budget,
                                            weft_fund **fund);

/* What is left goes back to the parent.  Before the runtime is destroyed.  NULL is allowed.
 * Returns 0; -EBUSY (fibers or funds that came out of it still exist, or memory allocated on its account). */
WEFT_API int weft_fund_destroy(weft_fund *fund);

/* More, out of nothing, for a fund without a parent.  Returns 0; -EINVAL (it has a parent); -EPERM (as create). */
WEFT_API int weft_fund_add(weft_fund *fund, const weft_budget *more);

/* Move that much, or nothing.  `cap` may be NULL but under `sovereign`; with one, no more than its limits is moved.
 * Returns 0; -EDQUOT (too little there); -EINVAL (they do not come out of the same first fund); -EPERM (no capability, or without `transfer`). */
WEFT_API int weft_fund_transfer(weft_fund *from, weft_fund *to, const weft_budget *amount, const weft_cap *cap);

/* Reads what is in the fund now. */
WEFT_API void weft_fund_left(weft_fund *fund, weft_budget *left);

/* -- Supervision ------------------------------------------------------------------------------------ */

/* The fibers of this fund that are exhausted: the longest waiting ones into `tasks`, up to `room`.  They are no handles: good for
 * comparing, and for the two calls below.
 * Returns how many there are. */
WEFT_API unsigned weft_fund_exhausted(weft_fund *fund, weft_task **tasks, unsigned room);

/* Wait until there is one.  Call from: a fiber, or a plain thread.  May suspend.
 * Returns 0; -ETIMEDOUT; -ECANCELED (also when there is one: nothing is taken by this call); -EINVAL (in a poll task). */
WEFT_API int weft_fund_wait_exhausted(weft_fund *fund, weft_deadline until);

/* Gives an exhausted fiber of this fund more, out of the fund, and lets it go on.  `cap` as in weft_fund_transfer, with `recharge`.
 *
 * Returns 0, or
 *   -EINVAL  no fund or no amount
 *   -EPERM   no capability, or one without `recharge`
 *   -ENOENT  no such fiber is exhausted
 *   -EDQUOT  the fund has too little; nothing is given
 * May be called from any thread.  Does not suspend. */
WEFT_API int weft_fund_recharge(weft_fund *fund, weft_task *task, const weft_budget *amount, const weft_cap *cap);

/* Cancels an exhausted fiber of this fund instead, with WEFT_REASON_BUDGET.  The call that it could not pay for returns -ECANCELED, also
 * under a shield.  If the fiber then ends with -ECANCELED, its nursery's await returns -EDQUOT, and weft_supervise counts it as failed.
 *
 * Returns 0, or
 *   -EINVAL  no fund
 *   -ENOENT  no such fiber is exhausted
 * May be called from any thread.  Does not suspend. */
WEFT_API int weft_fund_refuse(weft_fund *fund, weft_task *task);

WEFT_EXTERN_C_END
#endif
