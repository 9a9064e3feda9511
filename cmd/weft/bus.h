/* bus.h - reading memory that is a file, when the disk cannot read the file.
 *
 * What.   A page of a map that cannot be read is no error code but a signal, SIGBUS, in the middle of whatever touches it.  bus_guard makes it an error
 *         code again: the function that touched the page is left where it was.
 * How.    The signal's handler jumps back (siglongjmp) to the guard that the thread is in.  A thread that is in none, or a SIGBUS of another kind, goes
 *         to whoever had the signal before.
 * Who.    Any thread, any fiber's stack: a guarded function does not suspend, so the fiber stays on its thread.  Guards nest.
 * So      what is guarded takes no lock that others need, and keeps nothing that only its frames know: that would be lost.
 */
#ifndef WEFT_CMD_BUS_H
#define WEFT_CMD_BUS_H

/* *result = fn(arg).  0; -EIO: it was left in the middle, and *result is as it was. */
int bus_guard(int (*fn)(void *arg), void *arg, int *result);
/* Once before the first guard; again: nothing.  The process's handler of SIGBUS is ours from then on. */
void bus_begin(void);

#endif
