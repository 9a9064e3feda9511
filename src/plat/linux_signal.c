/* linux_signal.c - plat.h for Linux: catching signals, and knowing that we are a forked child. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>

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

/* One thread is left of us, and it is no worker any more: whoever had the locks is gone. */
static void in_child(void) {
    store_relaxed(&forked, true); /* alone */
    wefti_self_set(NULL);
}

void wefti_fork_watch(void) {
    if (!xchg_acq_rel(&watching, true))
        pthread_atfork(NULL, NULL, in_child);
}

bool wefti_is_forked(void) { return load_relaxed(&forked); } /* set before there was a second thread */
