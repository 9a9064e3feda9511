/* sync.h - what the tests of synchronisation need: a first fiber, groups of fibers, waiting until somebody waits. */
#ifndef WEFT_TEST_SYNC_H
#define WEFT_TEST_SYNC_H

#include "fixture.h"
#include "sync/sync.h"

#define MANY 1000

/* Run fn(arg) as a fiber of a new runtime, and check both. */
static inline void in_fiber(weft_fiber_fn fn, void *arg) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, fn, arg, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

static inline weft_task *go_fiber(weft_fiber_fn fn, void *arg) {
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(NULL, fn, arg, &task), 0);
    return task;
}

static inline weft_task *go_poll(weft_poll_fn poll, const void *state, size_t size, void (*drop)(void *)) {
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = poll;
    spec.state = state;
    spec.state_size = size;
    spec.drop = drop;
    weft_task *task = NULL;
    REQUIRE_EQ(weft_spawn(NULL, &spec, &task), 0);
    return task;
}

/* In a fiber: join, drop, and say how it ended. */
static inline int finish(weft_task *task) {
    weft_result result = {1, NULL};
    REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
    weft_task_drop(task);
    return result.status < 0 ? result.status : (int)(intptr_t)result.value;
}

/* In a fiber: let others run until the claim is true. */
#define UNTIL(claim)                                                                                                   \
    do {                                                                                                               \
        int64_t until_ = harness_clock() + harness_patience();                                                         \
        while (!(claim)) {                                                                                             \
            if (harness_clock() > until_)                                                                              \
                harness_fail(__FILE__, __LINE__, "expected in time: %s", #claim);                                      \
            weft_yield();                                                                                              \
        }                                                                                                              \
    } while (0)

/* How many are in the list of an object. */
static inline unsigned waiting(weft_sync_room *room) {
    struct wefti_sync *sync = wefti_sync_of(room);
    unsigned count = 0;
    wefti_lock_take(&sync->lock);
    for (struct wefti_waiter *waiter = sync->waiters.first; waiter; waiter = waiter->next)
        count++;
    wefti_lock_give(&sync->lock);
    return count;
}

/* A poll task that waits by `step`, which returns -EAGAIN meanwhile; its drop function ends the wait. */
struct poller {
    int (*step)(weft_task *self, weft_wait *wait, void *arg);
    void *arg;
    weft_wait wait;
};

static inline weft_poll poll_step(weft_task *self, void *state) {
    struct poller *p = state;
    int said = p->step(self, &p->wait, p->arg);
    return said == -EAGAIN ? WEFT_PENDING : weft_done(self, said < 0 ? said : 0, (void *)(intptr_t)said);
}

static inline void poll_drop(void *state) { weft_wait_end(&((struct poller *)state)->wait); }

static inline weft_task *go_poller(int (*step)(weft_task *, weft_wait *, void *), void *arg) {
    struct poller p = {step, arg, {{0}}};
    return go_poll(poll_step, &p, sizeof p, poll_drop);
}

/* MANY wait: cancel every other one, which ends so; and once they may go on, see the rest end well. */
static inline void cancel_half(weft_task **task) {
    for (int i = 0; i < MANY; i += 2)
        weft_task_cancel(task[i]);
    for (int i = 0; i < MANY; i += 2)
        CHECK_EQ(finish(task[i]), -ECANCELED);
}
static inline void finish_half(weft_task **task) {
    for (int i = 1; i < MANY; i += 2)
        CHECK_EQ(finish(task[i]), 0);
}

/* Cancels strike a crowd at any moment, until all have ended, in one way or the other. */
#define STORM 200
static inline void cancel_any(weft_task **task, uint64_t *random) {
    for (int i = 0; i < STORM / 2; i++) {
        weft_task_cancel(task[harness_random(random) % STORM]);
        weft_yield();
    }
    for (int i = 0; i < STORM; i++) {
        int status = finish(task[i]);
        CHECK(status == 0 || status == -ECANCELED);
    }
}

#endif
