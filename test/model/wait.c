/* wait.c - the one waiter record: served, late, cancelled, chosen; by threads, fibers and poll tasks. */
#include "fiber/wait.h"

#include "model.h"
#include "model_rt.h"

/* The smallest thing to wait for: a number of items, as in the comment of wait.h. */
struct thing {
    struct wefti_lock lock;
    struct wefti_waiters waiters;
    int items;
};

static struct thing thing, other;
static int payload;         /* plain: what the server wrote before it served */
static _Atomic int relaxed; /* the same, for those who are ordered by nothing else */
static _Atomic int served, late;

static void give(struct thing *t) {
    wefti_lock_take(&t->lock);
    struct wefti_waiter *waiter = wefti_waiters_take(&t->waiters);
    wefti_waker waker = 0;
    if (waiter) {
        waiter->result = 7;
        waker = wefti_waiter_serve(waiter);
    } else {
        t->items++;
    }
    wefti_lock_give(&t->lock);
    if (waker)
        wefti_waiter_wake(waker);
}

/* 0: got one. */
static int take(struct thing *t, int64_t until) {
    struct wefti_waiter waiter;
    wefti_lock_take(&t->lock);
    if (t->items > 0) {
        t->items--;
        wefti_lock_give(&t->lock);
        return 0;
    }
    mc_assert(wefti_waiter_init(&waiter) == 0);
    wefti_waiters_append(&t->waiters, &waiter);
    wefti_lock_give(&t->lock);
    int why = wefti_waiter_wait(&waiter, until, "a thing");
    if (why) {
        wefti_lock_take(&t->lock);
        bool gone = wefti_waiters_remove(&t->waiters, &waiter);
        wefti_lock_give(&t->lock);
        if (gone)
            return why;
        wefti_waiter_settle(&waiter);
    }
    mc_assert(waiter.result == 7 && wefti_waiter_is_served(&waiter));
    return 0;
}

/* -- Threads ------------------------------------------------------------------------------------------- */

static void giver(void *t) {
    payload = 5;
    store_relaxed(&relaxed, 5); /* only being served makes it visible */
    give(t);
}

static void taker(void *unused) {
    (void)unused;
    mc_assert(take(&thing, INT64_MAX) == 0);
    mc_assert(load_relaxed(&relaxed) == 5);
    add_relaxed(&served, 1);
}

MC_TEST(wait_served, .proves = "B52", .bound = 3) {
    int a = mc_spawn(taker, NULL);
    giver(&thing);
    mc_join(a);
    mc_assert(payload == 5 && load_relaxed(&served) == 1 && thing.items == 0 && !thing.waiters.first);
}

/* One gives up: it has nothing, or all; its stack is not touched afterwards. */
static void taker_late(void *unused) {
    (void)unused;
    int why = take(&thing, wefti_clock() + 1000000);
    mc_assert(why == 0 || why == -ETIMEDOUT);
    add_relaxed(why ? &late : &served, 1);
}

MC_TEST(wait_served_against_timeout, .proves = "B52", .bound = 3, .timeouts = 1, .spurious = 1,
        .outcomes = "got late") {
    int a = mc_spawn(taker_late, NULL);
    giver(&thing);
    mc_join(a);
    mc_assert(load_relaxed(&served) + thing.items == 1 && !thing.waiters.first);
    mc_outcome("%s", load_relaxed(&served) ? "got" : "late");
}

/* Two wait, one of them gives up: what was for it goes to the other. */
MC_TEST(wait_two_one_late, .proves = "B52", .bound = 2, .timeouts = 1, .stale_counts = true) {
    int a = mc_spawn(taker_late, NULL), b = mc_spawn(taker, NULL);
    giver(&thing);
    give(&thing);
    mc_join(a), mc_join(b);
    mc_assert(load_relaxed(&served) + thing.items == 2 && !thing.waiters.first);
}

/* -- Select ------------------------------------------------------------------------------------------- */

/* One of two.  Returns which. */
static int take_any(int64_t until) {
    struct wefti_choice choice = {0};
    struct wefti_waiter waiter[2];
    struct thing *things[2] = {&thing, &other};
    int which = -1;
    for (uint32_t i = 0; i < 2; i++) {
        mc_assert(wefti_waiter_init(&waiter[i]) == 0);
        waiter[i].choice = &choice;
        waiter[i].index = i;
        waiter[i].waker = waiter[0].waker;
    }
    int put = 0, why = 0;
    for (; put < 2 && which < 0; put++) {
        wefti_lock_take(&things[put]->lock);
        if (things[put]->items && wefti_waiter_claim(&waiter[put])) {
            things[put]->items--;
            which = put;
        } else {
            wefti_waiters_append(&things[put]->waiters, &waiter[put]);
        }
        wefti_lock_give(&things[put]->lock);
    }
    if (which < 0)
        why = wefti_waiter_wait_any(waiter, &choice, until, "one of two");
    for (int i = 0; i < put; i++)
        if (i != which) {
            wefti_lock_take(&things[i]->lock);
            wefti_waiters_remove(&things[i]->waiters, &waiter[i]);
            wefti_lock_give(&things[i]->lock);
        }
    if (which < 0 && load_relaxed(&choice.taken)) {
        which = (int)load_relaxed(&choice.taken) - 1;
        mc_assert(wefti_waiter_is_served(&waiter[which]) && waiter[which].result == 7);
        if (why)
            wefti_waiter_settle(&waiter[which]);
    }
    return which;
}

static void give_it(void *t) { give(t); }

static void chooser(void *until) {
    if (take_any(until ? wefti_clock() + 1000000 : INT64_MAX) >= 0)
        add_relaxed(&served, 1);
}

MC_TEST(wait_select_claim, .proves = "B52", .bound = 2) {
    int a = mc_spawn(chooser, NULL), b = mc_spawn(give_it, &thing);
    give(&other);
    mc_join(a), mc_join(b);
    mc_assert(load_relaxed(&served) == 1 && thing.items + other.items == 1);
    mc_assert(!thing.waiters.first && !other.waiters.first);
}

MC_TEST(wait_select_late, .proves = "B52", .bound = 2, .timeouts = 1) {
    int a = mc_spawn(chooser, (void *)1), b = mc_spawn(give_it, &thing);
    give(&other);
    mc_join(a), mc_join(b);
    mc_assert(load_relaxed(&served) + thing.items + other.items == 2);
}

/* -- Fibers and poll tasks ---------------------------------------------------------------------------- */

static weft_runtime *rt;

static void start(unsigned workers) { rt = model_open(WEFT_SCHED_RING, workers); }

static void stop(void) { model_close(rt); }

static int fiber_takes(void *until) {
    int why = take(&thing, (int64_t)(intptr_t)until);
    if (!why) {
        mc_assert(load_relaxed(&relaxed) == 5);
        add_relaxed(&served, 1);
    }
    return why;
}
#define NEVER ((void *)(intptr_t)INT64_MAX)

/* Served by a plain thread, which takes a reference: the fiber may have ended before it is woken. */
MC_TEST(wait_fiber_served, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4) {
    weft_task *task;
    start(1);
    mc_assert(weft_fiber_go(rt, fiber_takes, NEVER, &task) == 0);
    giver(&thing);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    stop();
    mc_assert(load_relaxed(&served) == 1);
}

static void giver_thread(void *unused) {
    (void)unused;
    giver(&thing);
}

MC_TEST(wait_fiber_served_against_cancel, .proves = "B52", .bound = 2, .stale_counts = true, .max_exec = 10000) {
    weft_task *task;
    weft_result result;
    start(1);
    int a = mc_spawn(giver_thread, NULL);
    mc_assert(weft_fiber_go(rt, fiber_takes, NEVER, &task) == 0);
    weft_task_cancel(task);
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    mc_assert(result.status == 0 || result.status == -ECANCELED);
    weft_task_drop(task);
    mc_join(a);
    mc_assert(load_relaxed(&served) + thing.items == 1 && !thing.waiters.first);
    stop();
}

/* The server is slow to wake it: meanwhile the fiber has ended, and the runtime is about to go.  The server's reference holds it. */
MC_TEST(wait_fiber_outlived, .proves = "B52", .mode = MC_PCT, .idle_timeouts = 40, .max_exec = 4000) {
    weft_task *task;
    start(1);
    int a = mc_spawn(giver_thread, NULL);
    mc_assert(weft_fiber_go(rt, fiber_takes, NEVER, &task) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    stop();
    mc_join(a);
    mc_assert(load_relaxed(&served) == 1);
}
