/* bus.c - SIGBUS to -EIO, SIGSEGV to -EBADMSG (bus.h). */
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
static struct sigaction before_bus, before_segv;

_Noreturn static void leave(struct guard *guard, int error) { siglongjmp(guard->at, -error); }

void bus_leave(void) {
    if (innermost)
        leave(innermost, -EBADMSG);
}

/* A map's page that cannot be read is BUS_ADRERR; memory that broke (BUS_MCEERR_AR) could be anybody's. */
static void on_fault(int number, siginfo_t *info, void *context) {
    struct guard *guard = innermost;
    const struct sigaction *before = number == SIGBUS ? &before_bus : &before_segv;
    if (guard && (number == SIGBUS ? info->si_code == BUS_ADRERR : info->si_code > 0)) { /* > 0: not sent by somebody */
        sigset_t fault;
        sigemptyset(&fault);
        sigaddset(&fault, number);
        pthread_sigmask(SIG_UNBLOCK, &fault, NULL); /* in case another handler, which passed it on, had it blocked */
        leave(guard, number == SIGBUS ? -EIO : -EBADMSG);
    }
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(number, info, context);
    else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
        before->sa_handler(number);
    else if (before->sa_handler == SIG_DFL || info->si_code > 0) { /* a fault of its own cannot be ignored */
        signal(number, SIG_DFL); /* the access is repeated, and ends the process */
        if (info->si_code <= 0)
            raise(number);
    }
}

static void install(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before_bus);
    sigaction(SIGSEGV, &action, &before_segv);
}

void bus_begin(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}

/* The mask is not saved: the handler does not change it, and saving it would be a system call for each look. */
int bus_guard(int (*fn)(void *arg), void *arg, int *result) {
    struct guard guard;
    guard.outer = innermost;
    int left = sigsetjmp(guard.at, 0);
    if (left) {
        innermost = guard.outer;
        return -left;
    }
    innermost = &guard;
    *result = fn(arg);
    innermost = guard.outer;
    return 0;
}
