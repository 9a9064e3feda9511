/* bus.c - SIGBUS to -EIO (bus.h). */
#define _GNU_SOURCE
#include "bus.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

struct guard {
    sigjmp_buf at;
    struct guard *outer;
};
static __thread struct guard *innermost;
static struct sigaction before;

/* A map's page that cannot be read is BUS_ADRERR; memory that broke (BUS_MCEERR_AR) could be anybody's. */
static void on_bus(int number, siginfo_t *info, void *context) {
    struct guard *guard = innermost;
    if (guard && info->si_code == BUS_ADRERR) {
        sigset_t bus;
        sigemptyset(&bus);
        sigaddset(&bus, SIGBUS);
        pthread_sigmask(SIG_UNBLOCK, &bus, NULL); /* in case another handler, which passed it on, had it blocked */
        siglongjmp(guard->at, 1);
    }
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
    else if (before.sa_handler == SIG_DFL || info->si_code > 0) { /* a fault of its own cannot be ignored */
        signal(number, SIG_DFL);                                  /* the access is repeated, and ends the process */
        if (info->si_code <= 0)
            raise(number);
    }
}

static void install(void) {
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

void bus_begin(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}

/* The mask is not saved: the handler does not change it, and saving it would be a system call for each look. */
int bus_guard(int (*fn)(void *arg), void *arg, int *result) {
    struct guard guard;
    guard.outer = innermost;
    if (sigsetjmp(guard.at, 0)) {
        innermost = guard.outer;
        return -EIO;
    }
    innermost = &guard;
    *result = fn(arg);
    innermost = guard.outer;
    return 0;
}
