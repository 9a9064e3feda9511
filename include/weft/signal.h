/* weft/signal.h - signals of the process, as something that fibers wait for.
 *
 *     static const int wanted[] = {SIGTERM, SIGHUP};
 *     weft_signals *signals;
 *     weft_signal_open(wanted, 2, &signals);
 *     int number = weft_signal_wait(signals, WEFT_NEVER);      // SIGTERM or SIGHUP
 *
 * While it is open its signals do nothing else: what they did before (their disposition) comes back when the last weft_signals for one of them is
 * closed, unless somebody has changed it meanwhile.
 *
 * Several may be open for one signal, and each is told.  Several fibers may wait on one weft_signals, and each signal is told to one of them.  Each
 * arrival is told once; as always, the system makes one of equal signals that come while one is pending.
 *
 * Threads and masks.  A signal is caught on whatever thread the system picks among those that do not block it, also a worker's: catching it
 * takes a few instructions and a write, and the code there goes on; system calls that were interrupted are repeated (SA_RESTART where the
 * system can; weft's own calls always).  A signal that all threads block never comes: do not block the signals you open.  (Threads
 * inherit the mask of the one that made them, so a mask that was set before the runtime was created is in all its workers.)
 *
 * Children made by fork(2) inherit the catching but tell nobody; those of weft_child_start begin with every signal as the system has it.
 */
#ifndef WEFT_SIGNAL_H
#define WEFT_SIGNAL_H

#include <weft/base.h>
#include <weft/select.h>

WEFT_EXTERN_C_BEGIN

typedef struct weft_signals weft_signals;

/* Catch these signals from now on.  Never waits; from anywhere.
 * Returns 0; -EINVAL (none, no such signal, or one that cannot be waited for: SIGKILL, SIGSTOP, and those of faults, SIGSEGV, SIGBUS, SIGFPE, SIGILL);
 * -EBUSY (64 are open); -EMFILE, -ENFILE, -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_signal_open(const int *numbers, size_t count, weft_signals **out);

/* Wait for the next of them.  Call from: a fiber or a plain thread.  May suspend.
 * Returns its number; -ETIMEDOUT; -ECANCELED; -EBADF (closed meanwhile); -EINVAL (in a poll task); -EMFILE, -ENFILE, -ENOMEM as weft_read. */
WEFT_API WEFT_MUST_USE int weft_signal_wait(weft_signals *signals, weft_deadline until);

/* In a select: one has come; the result is its number, or -EBADF. */
WEFT_API weft_case weft_case_signal(weft_signals *signals);

/* Close.  NULL is allowed.  Who waits gets -EBADF.  Signals that nobody was told yet are lost.  Never waits; from anywhere. */
WEFT_API void weft_signal_close(weft_signals *signals);

WEFT_EXTERN_C_END
#endif
