/* sync.h - what the model tests of synchronisation share: a runtime, and fibers and poll tasks that are cancelled. */
#ifndef WEFT_TEST_MODEL_SYNC_H
#define WEFT_TEST_MODEL_SYNC_H

#include "mc/mc.h"
#include "model_rt.h"
#include "sync/barge.h"

static weft_runtime *rt;
static int data;         /* plain: ordered by the object, or the race is reported */
static _Atomic int faint; /* relaxed: the same for what is only read */
static _Atomic int count;

/* A time that may come at any moment, as often as the test says. */
#define SOON (wefti_clock() + 1000000)

static inline void rt_start(unsigned workers) { rt = model_open(WEFT_SCHED_RING, workers); }

static inline void rt_stop(void) {
    mc_atomic_begin();
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}

static inline weft_task *rt_fiber(weft_fiber_fn fn, void *arg) {
    weft_task *task;
    mc_assert(weft_fiber_go(rt, fn, arg, &task) == 0);
    return task;
}

static inline int rt_finish(weft_task *task) {
    weft_result result;
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    weft_task_drop(task);
    return result.status;
}

/* A poll task that makes one step, which returns -EAGAIN while it waits; dropped, it ends the wait. */
struct poller {
    int (*step)(weft_task *self, weft_wait *wait);
    weft_wait wait;
};

static inline weft_poll poller_step(weft_task *self, void *state) {
    struct poller *p = state;
    int said = p->step(self, &p->wait);
    return said == -EAGAIN ? WEFT_PENDING : weft_done(self, said < 0 ? said : 0, NULL);
}

static inline void poller_drop(void *state) { weft_wait_end(&((struct poller *)state)->wait); }

static inline weft_task *rt_poller(int (*step)(weft_task *, weft_wait *)) {
    struct poller p = {step, {{0}}};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = poller_step;
    spec.drop = poller_drop;
    spec.state = &p;
    spec.state_size = sizeof p;
    weft_task *task;
    mc_assert(weft_spawn(rt, &spec, &task) == 0);
    return task;
}

/* In the list, or about to be, with the lock held. */
static inline bool somebody_waits(weft_sync_room *room) {
    return load_relaxed(&wefti_sync_of(room)->word) & WEFTI_WAITERS;
}

static inline void until_waits(weft_sync_room *room) {
    while (!somebody_waits(room))
        wefti_relax();
}

/* The same; and whoever was in the list by then has waited for longer than a waiter has to. */
static inline void until_waits_long(weft_sync_room *room) {
    until_waits(room);
    mc_atomic_begin();
    for (int64_t from = wefti_clock(); wefti_clock() - from <= WEFTI_BARGE_PATIENCE;)
        ;
    mc_atomic_end();
}

/* How many are in the list. */
static inline int waiting(weft_sync_room *room) {
    struct wefti_sync *sync = wefti_sync_of(room);
    int count_of = 0;
    wefti_lock_take(&sync->lock);
    for (struct wefti_waiter *waiter = sync->waiters.first; waiter; waiter = waiter->next)
        count_of++;
    wefti_lock_give(&sync->lock);
    return count_of;
}

static inline void until_waiting(weft_sync_room *room, int many) {
    while (waiting(room) < many)
        wefti_relax();
}

#endif
