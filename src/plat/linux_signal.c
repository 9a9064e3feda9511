/* linux_signal.c - plat.h for Linux: signals, forks and exit. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "plat/fault.h"
#include "plat/plat.h"

/* What was there before us; under the caller's lock. */
static struct sigaction before[WEFTI_SIGNALS];

int wefti_signal_catch(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigfillset(&action.sa_mask); /* it is short */
    if (wefti_fault_here())
        return -ENOMEM;
    return sigaction(number, &action, &before[number]) ? -errno : 0;
}

void wefti_signal_restore(int number, void (*handler)(int)) {
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == handler)
        sigaction(number, &before[number], NULL);
}

/* -- Forking --------------------------------------------------------------------------------------------- */

static _Atomic bool forked, watching;
static _Atomic uint32_t left_behind;

/* One thread is left of us, and it is no worker any more: whoever had the locks is gone.  Without anything that had threads, nobody is
 * missed. */
static void in_child(void) {
    if (load_relaxed(&left_behind)) /* alone */
        store_relaxed(&forked, true);
    wefti_self_set(NULL);
}

void wefti_fork_watch(void) {
    add_relaxed(&left_behind, 1); /* a fork at the same time may miss what it cannot know of */
    if (!xchg_acq_rel(&watching, true))
        pthread_atfork(NULL, NULL, in_child);
}

void wefti_fork_unwatch(void) { sub_relaxed(&left_behind, 1); } /* as above */

bool wefti_is_forked(void) { return load_relaxed(&forked); } /* set before there was a second thread */

/* -- Exit ------------------------------------------------------------------------------------------------- */

int wefti_at_exit(void (*fn)(void)) { return wefti_fault_here() || atexit(fn) ? -ENOMEM : 0; }
