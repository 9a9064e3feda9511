/* bus.h - reading memory that is a file, when the disk cannot read the file, or its contents lead astray.
 *
 * What.   A page of a map that cannot be read is no error code but a signal, SIGBUS, in the middle of whatever touches it.  bus_guard makes it an error
 *         code again: the function that touched the page is left where it was.
 *         LMDB follows page numbers and offsets that it reads in the file. In a damaged file they may lead outside the map, which is SIGSEGV, or to what LMDB
 *         asserts against: bus_leave is for its assertions. Both are -EBADMSG.
 * How.    The signal's handler jumps back (siglongjmp) to the guard that the thread is in.  A thread that is in none, or a SIGBUS of another kind, goes
 *         to whoever had the signal before.
 * Who.    Any thread, any fiber's stack: a guarded function does not suspend, so the fiber stays on its thread.  Guards nest.
 * So      what is guarded takes no lock that others need, and keeps nothing that only its frames know: that would be lost.
 */
#ifndef WEFT_CMD_BUS_H
#define WEFT_CMD_BUS_H

/* *result = fn(arg). 0; -EIO or -EBADMSG: it was left in the middle, and *result is as it was. */
int bus_guard(int (*fn)(void *arg), void *arg, int *result);
/* Once before the first guard; again: nothing.  The process's handlers of SIGBUS and SIGSEGV are ours from then on. */
void bus_begin(void);
/* In a guarded function: leave it, as if it had met damage. Returns if there is no guard. */
void bus_leave(void);

#endif
