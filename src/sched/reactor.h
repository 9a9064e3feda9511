/* reactor.h - the reactor: one control thread that decides everything, in nine steps.  Internal; reactor.c.
 *
 * What.   Workers run only what they are handed.  Everything that happens comes to the control thread through a queue, and is
 *         dealt with in the same order in every turn:
 *           1 results      seats that have been opened or closed; tasks that ended wake their joiners; tasks that yielded or were
 *                          preempted go behind the others
 *           2 submissions  blocking jobs that a pool has accepted are routed to its threads
 *           3 completions  tasks whose job has ended are resumed
 *           4 timers       sleepers whose deadline has passed are resumed, in the order of their deadlines
 *           5 channels     the waiters of channels that have changed are resolved; those that must wait on keep their places
 *           6 injector     spawned tasks, and tasks woken by other threads
 *           7 preemption   a task that has had its worker for 10 ms is asked to let others run
 *           8 dispatch     ready tasks go to open seats, the oldest first, a fiber that has begun to its own worker
 *           9 wait         until something happens, a timer is due, or it is time to look
 * Race.   anyone: E1 put something into a queue        reactor: W1 take out all that is there
 *                 E2 park_wake                                  W2 park_sleep
 *         a worker, with a task that is ready:
 *                 E1 put it into a queue                        A1 a seat is open: active -= 1
 *                 E3 fence F1                                   A2 fence F2
 *                 E4 active < workers: E2                       W1
 * Claim.  Nothing stays in a queue while the reactor sleeps, but what no worker could run, as no seat is open.
 * Why.    park.h: a wake since the last sleep ends the next one at once, and what came before it is seen.  E4 needs no wake if no seat is
 *         open: the next that opens wakes the reactor, T4.  F1 first: W1 sees the task.  F2 first: E4 sees the open seat.
 * End.    The control thread is stopped when the workers have left.  What tasks published before they ended may still be queued: a last
 *         pass over steps 1, 2, 3 and 5 handles it, because other runtimes, other pools and plain threads may wait for it.
 * Who.    The control thread alone touches what is not atomic here.
 */
#ifndef WEFTI_SCHED_REACTOR_H
#define WEFTI_SCHED_REACTOR_H

#include "sched/sched.h"
#include "sched/seat.h"

#define WEFTI_PREEMPT_AFTER INT64_C(10000000) /* R10 */
#define WEFTI_REACTOR_LOOK INT64_C(1000000)   /* R12: how long it waits while tasks are on workers */
#define WEFTI_BATCH_TIME 50000.0 /* ns that the tasks of a batch are expected to take together, at most */
#ifndef WEFTI_SEAT_SPIN
#define WEFTI_SEAT_SPIN                                                                                                \
    128u /* looks before a worker that has just run sleeps, and the reactor: less than a wake costs */
#endif

/* What the reactor knows of a worker. */
struct wefti_desk {
    struct wefti_chain pinned; /* fibers that only this worker may run, ready */
    bool busy;                 /* its seat is not open */
    uintptr_t lent;            /* in the seat of a driven worker, as far as we know, and may be taken back */
    uint64_t polls;            /* step 7: the run that was seen ... */
    int64_t since;             /* ... and when first */
    struct weft_task *first;   /* step 8: what is about to be handed over, and `staged` - 1 items in its seat */
    uint32_t staged, batch;    /* ... and how many it may be */
    uint32_t
        given; /* tasks that were handed over together last, less what was taken back; 0: the worker has reported since ... */
    int64_t given_at; /* ... and when */
    bool reclaimed; /* what it had not begun of them was taken back: nothing is left to take */
    double average; /* ns from there to the next news, per task */
};

struct wefti_reactor {
    struct weft_runtime *rt;
    struct wefti_seat *seat; /* a worker */
    struct wefti_desk *desk;

    struct wefti_mpsc news; /* seats */
    struct wefti_mpsc again; /* tasks that have run and want to again */
    struct wefti_mpsc returned; /* tasks that were handed over too late */
    struct wefti_mpsc ended; /* tasks that are COMPLETE, and whose joiner is a task */
    struct wefti_mpsc submitted; /* struct wefti_io: to be routed */
    struct wefti_mpsc completed; /* struct wefti_io: done */
    struct wefti_mpsc changed; /* channels whose waiters may be resolved */

    _Alignas(64) struct wefti_chain ready; /* tasks that any worker may run */
    uint64_t free[WEFTI_WORKERS_MAX / 64]; /* bit i: worker i is not busy */
    uint32_t own_ready; /* tasks in all desks */
    uint32_t order; /* of the next that becomes ready */
    int64_t now; /* of this turn */
    int64_t looked; /* when step 7 was last made in earnest */
    uint32_t spin; /* looks before sleeping; 0 on a single processor */
    int64_t idle_look; /* how long it waits while nothing is on workers */
    bool owes_answer;
    struct weft_reactor_stats_now {
        _Atomic uint64_t steps[9], dispatched, results, preempts, taken_back, active, active_max, ready, items[9];
    } now_is;

    _Alignas(64) _Atomic uint32_t stop;
    _Atomic uint64_t thread; /* the control thread, by wefti_thread_id; 0: it has not begun */
    _Atomic(wefti_resolve *) resolve; /* of what is in `changed`; NULL before anything was */
    _Atomic uint32_t asked; /* 1: the driven worker waits for a whole turn ... */
    struct wefti_park answer; /* ... here */
};

/* One of the steps, 1 to 9, by the control thread; for tests. */
void wefti_reactor_step(struct wefti_reactor *r, int step);

#endif
