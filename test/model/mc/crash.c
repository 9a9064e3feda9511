/* crash.c - a crash of the code under test is a bug of that execution like any other.
 *
 * The handlers run on their own stack, note the fault and go back to the search, which never returns to the
 * broken thread.  A timer looks whether visible steps are still being made: a loop without any cannot be
 * interrupted otherwise.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "internal.h"

enum { HANG_SECONDS = 10 };

static void on_crash(int sig, siginfo_t *info, void *context) {
    if (!mc.running) {
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] + 1;
    switch (sig) {
    case SIGABRT: mc_fail_at(mc_me()->op.pc, 0, "aborted, in T%d, after the operation at", mc.run);
    case SIGSEGV:
    case SIGBUS: mc_fail_at(pc, 0, "crash: signal %d, address %p, in T%d", sig, info->si_addr, mc.run);
    default: mc_fail_at(pc, 0, "crash: signal %d in T%d", sig, mc.run);
    }
}

static void on_alarm(int sig, siginfo_t *info, void *context) {
    static uint64_t before;
    (void)sig, (void)info;
    uint64_t done = mc.total_steps + (uint64_t)mc.steps;
    if (mc.running && done == before)
        mc_fail_at((uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] + 1, 0,
                   "hangs: T%d made no visible step for %d s", mc.run, HANG_SECONDS);
    before = done;
}

void mc_watch_crashes(void) {
    size_t size = 64 << 10;
    stack_t stack = {.ss_sp = malloc(size), .ss_size = size};
    sigaltstack(&stack, NULL);
    struct sigaction act = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &act, NULL);
    act.sa_sigaction = on_alarm;
    act.sa_flags |= SA_RESTART;
    sigaction(SIGALRM, &act, NULL);
    struct itimerval every = {{HANG_SECONDS, 0}, {HANG_SECONDS, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
}
