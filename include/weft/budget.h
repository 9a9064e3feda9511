/* weft/budget.h - how much a fiber may do: counted operations, preemption without timers.
 *
 * Metering.  Code that was compiled with `weft-cc` (a wrapper around your compiler, weft-cc(1)) counts its operations: one for each
 * basic block that it enters, so at least one for a call and one for a turn of a loop.  After 1,024 ops a fiber lets others run:
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
 * Cancellation.  A cancelled fiber learns of it where it waits, and from weft_checkpoint.  A metered loop that does neither yields for
 * ever, unless the fiber was spawned with `discard`: then it ends at the next place where it would yield, with -ECANCELED,
 * and nothing more of its code runs.  That is for fibers which own nothing: no memory, lock, file or handle, no forked jobs, no
 * weft object on their stack that others know of, no C++ object with a destructor; what it had of them would be lost.  Between weft_shield
 * and weft_unshield, and between weft_preempt_off and weft_preempt_on, it is not discarded.
 */
#ifndef WEFT_BUDGET_H
#define WEFT_BUDGET_H

#include <weft/base.h>

WEFT_EXTERN_C_BEGIN

/* Ops of the calling fiber so far; 0 outside fibers.  Never decreases. */
WEFT_API uint64_t weft_ops_used(void);

/* Between the two, metering does not make the calling fiber yield; what is due comes at the last weft_preempt_on.  Nests, up to
 * 255 deep.  Waiting is still allowed and is what it is.  Outside fibers nothing happens.  Must be balanced, or the process
 * is ended. */
WEFT_API void weft_preempt_off(void);
WEFT_API void weft_preempt_on(void);

WEFT_EXTERN_C_END
#endif
