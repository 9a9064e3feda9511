/* sched_reactor.h - a reactor whose control thread is the test: its steps, one at a time or all nine. */
#ifndef WEFT_TEST_SCHED_REACTOR_H
#define WEFT_TEST_SCHED_REACTOR_H

#include "rig.h"
#include "sched/reactor.h"

#define MS INT64_C(1000000)

static inline struct weft_runtime *begin(uint32_t workers) { return rig_begin(&wefti_sched_reactor, workers); }

/* Steps 1 to 8, and 9 without waiting. */
static inline void turn(struct weft_runtime *rt) {
    wefti_park_wake(&rt->control->park);
    for (int step = 1; step <= 9; step++)
        wefti_reactor_step(rt->reactor, step);
}

static inline weft_reactor_stats stats(struct weft_runtime *rt) {
    weft_reactor_stats stats = {.size = sizeof stats};
    REQUIRE_EQ(weft_reactor_stats_read(rt, &stats), 0);
    return stats;
}

/* The number of the task that lies in a worker's seat; -1: it is open, -2: closed. */
static inline int seated(struct weft_runtime *rt, int worker) {
    uintptr_t slot = load_relaxed(&rt->reactor->seat[worker].slot);
    return slot == WEFTI_SEAT_OPEN     ? -1
           : slot == WEFTI_SEAT_CLOSED ? -2
                                       : (int)(intptr_t)wefti_task_state((struct weft_task *)slot);
}

/* Turns and runs until nothing is left, worker 0 first. */
static inline void run_all(struct weft_runtime *rt) {
    do {
        for (int i = 0; i < (int)rt->workers; i++)
            rig_run(rt, i);
        rig_be(rt, -1);
        turn(rt);
    } while (load_relaxed(&rt->reactor->now_is.active));
}

struct waiting {
    weft_waker waker;
    int polls, need; /* waits until it has been polled so often */
};

static inline weft_poll wait_to_be_woken(weft_task *self, void *state) {
    struct waiting *waiting = state;
    if (++waiting->polls >= waiting->need)
        return weft_done(self, 0, NULL);
    if (!waiting->waker.target)
        waiting->waker = weft_waker_of(self);
    return WEFT_PENDING;
}

#endif
