/* interrupt.c - a CPU-time limit for a function that does not check one (interrupt.h). */
#define _GNU_SOURCE
#include "interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

struct frame {
    sigjmp_buf at;
    int64_t until;
    const _Atomic bool *ending;
    volatile sig_atomic_t held; /* depth of held sections */
    volatile sig_atomic_t due;  /* INTERRUPT_...: to be performed by interrupt_release */
};
static __thread struct frame *volatile current; /* read by the handler on the same thread */

int64_t interrupt_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

_Noreturn static void leave(struct frame *frame, int why) {
    current = NULL;
    siglongjmp(frame->at, why);
}

static int is_due(const struct frame *frame) {
    return load_relaxed(frame->ending)       ? INTERRUPT_ENDING /* a look */
           : interrupt_time() > frame->until ? INTERRUPT_LATE
                                             : 0;
}

void interrupt_look(void) {
    struct frame *frame = current;
    int why = frame ? is_due(frame) : 0;
    if (why)
        leave(frame, why);
}

static void on_tick(int number) {
    struct frame *frame = current;
    int before = errno, why;
    (void)number;
    if (!frame) /* sent just before the timer was deleted */
        return;
    why = is_due(frame);
    if (why && !frame->held)
        leave(frame, why);
    frame->due = why ? why : frame->due;
    errno = before;
}

void interrupt_hold(void) {
    struct frame *frame = current;
    if (frame)
        frame->held++;
    fence_light();
}

void interrupt_release(void) {
    struct frame *frame = current;
    fence_light();
    if (frame && --frame->held == 0 && frame->due)
        leave(frame, frame->due);
}

/* SIGVTALRM is the signal for CPU time. SA_NODEFER: the handler may be left by a jump, and the mask is not restored then. */
static void install(void) {
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGVTALRM, &action, NULL);
}

static int start_timer(timer_t *timer) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};
    struct itimerspec every = {{0, INTERRUPT_TICK}, {0, INTERRUPT_TICK}};
    sigset_t tick;
    event.sigev_notify_thread_id = gettid();
    sigemptyset(&tick);
    sigaddset(&tick, SIGVTALRM);
    pthread_sigmask(SIG_UNBLOCK, &tick, NULL);
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, timer))
        return -EAGAIN;
    timer_settime(*timer, 0, &every, NULL);
    return 0;
}

int interrupt_run(int64_t until, const _Atomic bool *ending, void (*fn)(void *arg), void *arg) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct frame frame = {.until = until, .ending = ending};
    timer_t timer;
    pthread_once(&once, install);
    int why = start_timer(&timer);
    if (why)
        return why;
    why = sigsetjmp(frame.at, 0);
    if (!why) {
        current = &frame;
        fn(arg);
        current = NULL;
    }
    timer_delete(timer);
    return why;
}
