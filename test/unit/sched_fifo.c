/* sched_fifo.c - the fifo scheduler, one step at a time: one queue, strict order, one wake a submit. */
#include "rig.h"

static weft_poll wait_to_be_woken(weft_task *self, void *state) {
    weft_waker *waker = state;
    if (waker->target)
        return weft_done(self, 0, NULL);
    *waker = weft_waker_of(self);
    return WEFT_PENDING;
}

/* From outside, from a worker, woken or new: the queue has one back, and everybody takes from its front. */
TEST(fifo_one_queue, "K1 K2 K8") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_fifo, 2);
    for (int i = 0; i < 30; i++) {
        rig_be(rt, i % 3 - 1);
        rig_go(rt, rig_once, i);
        CHECK_EQ(rig_number(rt->inject.line.last), i);
    }
    CHECK_EQ(wefti_inject_length(&rt->inject), 30);
    for (int i = 0; i < 30; i++)
        REQUIRE(wefti_worker_turn(rig_be(rt, i % 2)));
    for (int i = 0; i < 30; i++)
        CHECK_EQ(rig_log.who[i], i);
    rig_end(rt);
}

/* A task is queued by the wake that finds it idle, and by no other. */
TEST(fifo_queued_once, "K2 K4 K5 K7") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_fifo, 1);
    struct wefti_worker *w = rig_be(rt, 0);
    weft_waker waker = {NULL};
    weft_task *task = NULL;
    REQUIRE_EQ(weft_go(rt, wait_to_be_woken, &waker, &task), 0);
    CHECK_EQ(wefti_inject_length(&rt->inject), 1);
    REQUIRE(wefti_worker_turn(w));
    CHECK_STR(weft_task_state(task), "idle");
    for (int i = 0; i < 5; i++) {
        weft_waker_wake_keep(waker); /* the first queues it, the others find it scheduled */
        CHECK_EQ(wefti_inject_length(&rt->inject), 1);
        CHECK_STR(weft_task_state(task), "scheduled");
    }
    weft_waker_drop(waker);
    REQUIRE(wefti_worker_turn(w));
    CHECK(weft_task_is_done(task));
    weft_task_drop(task);
    rig_end(rt);
}

/* Each submit wakes exactly one sleeper, the lowest, although another is on its way already. */
TEST(fifo_wakes_one_each, "K3 B42") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_fifo, 4);
    for (uint32_t i = 0; i < 4; i++)
        wefti_idle_announce(&rt->idle, i);
    rig_be(rt, -1);
    for (uint32_t i = 0; i < 4; i++) {
        rig_go(rt, rig_once, (int)i);
        CHECK_EQ(wefti_idle_parked(&rt->idle), 3 - i);
        CHECK_EQ(load_relaxed(&rt->worker[i].claimed), 1);
        CHECK_EQ(load_relaxed(&rt->worker[i].park.word), WEFTI_PARK_NOTIFIED);
        CHECK_EQ(load_relaxed(&rt->idle.searching), i + 1);
    }
    rig_go(rt, rig_once, 4); /* nobody is left to wake */
    for (int i = 0; i < 4; i++) {
        struct wefti_worker *w = rig_be(rt, i);
        wefti_worker_return(w);
        REQUIRE(wefti_worker_turn(w));
    }
    CHECK_EQ(load_relaxed(&rt->idle.searching), 0);
    CHECK_EQ(rig_run(rt, 0), 1);
    rig_end(rt);
}

/* No-op wakes wake nobody either. */
TEST(fifo_noop_wakes_nobody, "K4 K5") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_fifo, 2);
    struct wefti_worker *w = rig_be(rt, 0);
    weft_waker waker = {NULL};
    REQUIRE_EQ(weft_go(rt, wait_to_be_woken, &waker, NULL), 0);
    REQUIRE(wefti_worker_turn(w));
    weft_waker_wake_keep(waker);
    wefti_idle_announce(&rt->idle, 1);
    weft_waker_wake_keep(waker); /* scheduled already */
    CHECK_EQ(wefti_idle_parked(&rt->idle), 1);
    CHECK_EQ(load_relaxed(&rt->worker[1].park.word), WEFTI_UNPARKED);
    CHECK(wefti_idle_retract(&rt->idle, 1));
    weft_waker_drop(waker);
    CHECK_EQ(rig_run(rt, 0), 1);
    rig_end(rt);
}

TEST(fifo_yield_goes_behind, "K8 B46") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_fifo, 1);
    rig_be(rt, 0);
    rig_go(rt, rig_again, 1);
    rig_go(rt, rig_again, 2);
    rig_run(rt, 0);
    REQUIRE_EQ(rig_log.length, 200);
    for (int i = 0; i < 200; i++)
        REQUIRE_EQ(rig_log.who[i], 1 + i % 2);
    rig_end(rt);
}
