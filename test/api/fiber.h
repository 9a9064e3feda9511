/* fiber.h - what the tests of fibers need: fibers that are checked, and an event they wait for. */
#ifndef WEFT_TEST_FIBER_H
#define WEFT_TEST_FIBER_H

#include "fiber/wait.h"
#include "fixture.h"

static inline weft_task *fiber_go(weft_runtime *rt, weft_fiber_fn fn, void *arg) {
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, fn, arg, &task), 0);
    return task;
}

static inline weft_task *fiber_go_migrating(weft_runtime *rt, weft_fiber_fn fn, void *arg) {
    weft_task *task = NULL;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    spec.migrate = true;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    return task;
}

/* A runtime without time-outs, fn(arg) in it, and the end of both. */
static inline weft_result fiber_run(weft_fiber_fn fn, void *arg) {
    weft_runtime *rt = fixture_begin_patient();
    weft_result result = fixture_finish(fiber_go(rt, fn, arg));
    fixture_end(rt);
    return result;
}

/* In a fiber: start another and wait for it. */
static inline weft_result fiber_call(weft_fiber_fn fn, void *arg) {
    weft_result result = {1, NULL};
    weft_task *task = fiber_go(NULL, fn, arg);
    REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
    weft_task_drop(task);
    return result;
}

/* -- An event: fibers and threads wait, anybody sets it --------------------------------------------------------- */

struct event {
    struct wefti_lock lock;
    struct wefti_waiters waiters;
    bool set;
    unsigned waiting, tokens; /* under the lock */
};

static inline int event_wait(struct event *event, weft_deadline until) {
    struct wefti_waiter waiter;
    wefti_lock_take(&event->lock);
    if (event->set || event->tokens) {
        event->tokens -= !event->set;
        wefti_lock_give(&event->lock);
        return 0;
    }
    REQUIRE_EQ(wefti_waiter_init(&waiter), 0);
    wefti_waiters_append(&event->waiters, &waiter);
    event->waiting++;
    wefti_lock_give(&event->lock);
    int why = wefti_waiter_wait(&waiter, until, "an event");
    if (why) {
        wefti_lock_take(&event->lock);
        bool there = wefti_waiters_remove(&event->waiters, &waiter);
        event->waiting -= there;
        wefti_lock_give(&event->lock);
        if (there)
            return why;
        wefti_waiter_settle(&waiter);
    }
    return 0;
}

/* One waiter, the first; false: there was none. */
static inline bool event_serve(struct event *event) {
    wefti_lock_take(&event->lock);
    struct wefti_waiter *waiter = wefti_waiters_take(&event->waiters);
    wefti_waker waker = 0;
    if (waiter) {
        event->waiting--;
        waker = wefti_waiter_serve(waiter);
    }
    wefti_lock_give(&event->lock);
    if (waiter)
        wefti_waiter_wake(waker);
    return waiter;
}

/* Let one pass: who waits, or the next who comes. */
static inline void event_post(struct event *event) {
    wefti_lock_take(&event->lock);
    struct wefti_waiter *waiter = wefti_waiters_take(&event->waiters);
    wefti_waker waker = 0;
    if (waiter) {
        event->waiting--;
        waker = wefti_waiter_serve(waiter);
    } else {
        event->tokens++;
    }
    wefti_lock_give(&event->lock);
    if (waiter)
        wefti_waiter_wake(waker);
}

static inline void event_set(struct event *event) {
    wefti_lock_take(&event->lock);
    event->set = true;
    wefti_lock_give(&event->lock);
    while (event_serve(event))
        ;
}

static inline unsigned event_waiting(struct event *event) {
    wefti_lock_take(&event->lock);
    unsigned waiting = event->waiting;
    wefti_lock_give(&event->lock);
    return waiting;
}

/* arg: an event. */
static inline int fiber_wait_event(void *arg) { return event_wait(arg, WEFT_NEVER); }

static inline int fiber_yield_for_ever(void *arg) {
    (void)arg;
    int error;
    while (!(error = weft_yield()))
        ;
    return error;
}

/* The thread that runs us, asked anew. */
static __attribute__((noinline, unused)) pthread_t fiber_thread(void) {
    __asm__ volatile("");
    return pthread_self();
}

#endif
