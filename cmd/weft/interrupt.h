/* interrupt.h - end a function that uses too much CPU time, in the middle of whatever it does.
 *
 * What.   interrupt_run calls a function. A timer counts the CPU time of the calling thread and sends it a signal every INTERRUPT_TICK. When the
 *         function has used its limit, or `ending` is set, the signal handler jumps back to interrupt_run (siglongjmp). The function is abandoned where
 *         it was; a loop inside one C function is interrupted like any other.
 * Held.   Code that takes a lock, allocates from the process's heap or changes data that outlives the call runs between interrupt_hold and
 *         interrupt_release. A signal in between is noted, and interrupt_release performs the jump. Sections nest, and must be short.
 * So      everything else that the function allocates must be known to the caller, which frees it.
 * Who.    Any thread. A thread is in at most one interrupt_run.
 */
#ifndef WEFT_CMD_INTERRUPT_H
#define WEFT_CMD_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

/* Nanoseconds of CPU time between two looks: the limit is exceeded by at most this much, plus one tick of the kernel. */
#define INTERRUPT_TICK INT64_C(10000000)

enum { INTERRUPT_LATE = 1, INTERRUPT_ENDING = 2 };

/* Runs fn(arg) until interrupt_time() exceeds `until`, or *ending is true.
 *
 * Returns 0 if it returned, INTERRUPT_LATE or INTERRUPT_ENDING if it was abandoned, or
 *   -EAGAIN  the kernel has no timer left; fn was not called */
int interrupt_run(int64_t until, const _Atomic bool *ending, void (*fn)(void *arg), void *arg);
/* In fn, outside held sections: end it now if it is time. Loops that can call this do not depend on the signal, which ThreadSanitizer delays. */
void interrupt_look(void);
void interrupt_hold(void);
void interrupt_release(void);
/* CPU time of this thread in nanoseconds. Time during which other threads have the CPU does not count. */
int64_t interrupt_time(void);

#endif
