/* sched_reactor_run.c - the reactor and a task that runs: it suspends while it is woken, waits inside its poll, is preempted. */
#include "sched_reactor.h"

#include <weft/fiber.h>
#include <weft/sync.h>

/* -- Wakes against suspending --------------------------------------------------------------------------------- */

/* The task has left its worker, and the reactor has not heard of it: a wake is neither lost nor made twice. */
TEST(reactor_wake_before_result, "R16 R19 R20 R21 R33") {
    struct weft_runtime *rt = begin(2);
    struct waiting waiting = {.need = 2};
    weft_task *task;
    REQUIRE_EQ(weft_go(rt, wait_to_be_woken, &waiting, &task), 0);
    turn(rt);
    REQUIRE(wefti_worker_turn(rig_be(rt, 0))); /* waits; the news is in the queue */
    CHECK_STR(weft_task_state(task), "idle");
    rig_be(rt, 1); /* another worker wakes it, without the reactor */
    for (int i = 0; i < 3; i++)
        weft_waker_wake_keep(waiting.waker);
    CHECK_STR(weft_task_state(task), "scheduled");
    CHECK_EQ(wefti_inject_length(&rt->inject), 1);
    rig_be(rt, -1);
    turn(rt);
    CHECK_EQ(stats(rt).active, 1); /* once */
    CHECK_EQ(stats(rt).ready, 0);
    run_all(rt);
    CHECK_EQ(waiting.polls, 2);
    weft_waker_drop(waiting.waker);
    weft_task_drop(task);
    rig_end(rt);
}

static weft_poll wake_myself(weft_task *self, void *state) {
    int *polls = state;
    if (++*polls == 3)
        return weft_done(self, 0, NULL);
    weft_waker_wake(weft_waker_of(self));
    CHECK_STR(weft_task_state(self), "running"); /* it is not in a queue, and cannot be on another worker */
    CHECK_EQ(wefti_inject_length(&wefti_worker_self()->rt->inject), 0);
    return WEFT_PENDING;
}

TEST(reactor_wake_while_running, "R19 R22 R33") {
    struct weft_runtime *rt = begin(2);
    int polls = 0;
    REQUIRE_EQ(weft_go(rt, wake_myself, &polls, NULL), 0);
    for (int i = 0; i < 3; i++) {
        turn(rt);
        CHECK_EQ(stats(rt).active, 1);
        REQUIRE(wefti_worker_turn(rig_be(rt, 0)));
        rig_be(rt, -1);
    }
    CHECK_EQ(polls, 3);
    turn(rt);
    CHECK_EQ(stats(rt).active, 0);
    rig_end(rt);
}

/* Ready, Running, Suspended, Resumed, Running, Completed; each made by whom it should be. */
TEST(reactor_states, "R21 R22") {
    struct weft_runtime *rt = begin(1);
    struct waiting waiting = {.need = 2};
    weft_task *task;
    REQUIRE_EQ(weft_go(rt, wait_to_be_woken, &waiting, &task), 0);
    CHECK_STR(weft_task_state(task), "scheduled");
    turn(rt);
    CHECK_STR(weft_task_state(task), "scheduled"); /* handed over: the worker makes it running */
    REQUIRE(wefti_worker_turn(rig_be(rt, 0)));
    CHECK_STR(weft_task_state(task), "idle");
    rig_be(rt, -1);
    turn(rt);
    weft_waker_wake(waiting.waker);
    CHECK_STR(weft_task_state(task), "scheduled"); /* by the waker, before the reactor knows */
    run_all(rt);
    CHECK_STR(weft_task_state(task), "complete");
    weft_task_drop(task);
    rig_end(rt);
}

/* -- A task that waits inside its poll ------------------------------------------------------------------------ */

static weft_poll help(weft_task *self, void *state) {
    struct wefti_worker *w = wefti_worker_self();
    struct weft_runtime *rt = w->rt;
    (void)state;
    CHECK_EQ(seated(rt, 0), -2);
    CHECK_EQ(stats(rt).active, 1);
    CHECK(!wefti_worker_turn(w)); /* as weft_join does: opens the seat */
    CHECK_EQ(seated(rt, 0), -1);
    turn(rt);
    CHECK_EQ(seated(rt, 0), 1); /* the reactor counts the one that helps as waiting */
    CHECK_EQ(stats(rt).active, 1);
    CHECK(wefti_worker_turn(w));
    CHECK_EQ(rig_log.length, 1);
    turn(rt);
    CHECK_EQ(seated(rt, 0), 2);
    w->sched->resume(w); /* too late for 2: it goes back, to the front */
    CHECK_EQ(seated(rt, 0), -2);
    w->sched->resume(w); /* harmless */
    turn(rt);
    CHECK_EQ(stats(rt).active, 1);
    CHECK_EQ(stats(rt).ready, 2);
    wefti_set_current(w, self); /* as help_end */
    return weft_done(self, 0, NULL);
}

TEST(reactor_join_that_helps, "R13 R25") {
    struct weft_runtime *rt = begin(1);
    REQUIRE_EQ(weft_go(rt, help, NULL, NULL), 0);
    rig_go_range(rt, 1, 4);
    turn(rt);
    REQUIRE(wefti_worker_turn(rig_be(rt, 0)));
    rig_be(rt, -1);
    run_all(rt);
    REQUIRE_EQ(rig_log.length, 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(rig_log.who[i], i + 1);
    CHECK_EQ(stats(rt).active, 0);
    rig_end(rt);
}

/* The worker closed its seat just before the reactor got to it. */
TEST(reactor_hands_too_late, "R25") {
    struct weft_runtime *rt = begin(1);
    rig_go(rt, rig_once, 1);
    wefti_seat_close(&rt->reactor->seat[0]); /* not told yet */
    turn(rt);
    CHECK_EQ(stats(rt).active, 1);
    CHECK_EQ(stats(rt).ready, 1);
    CHECK_EQ(stats(rt).dispatched, 0);
    wefti_seat_tell(&rt->reactor->seat[0], &rt->reactor->news);
    turn(rt);
    CHECK_EQ(stats(rt).active, 1);
    wefti_seat_open(&rt->reactor->seat[0], &rt->reactor->news);
    run_all(rt);
    CHECK_EQ(rig_log.length, 1);
    rig_end(rt);
}

/* -- Preemption ---------------------------------------------------------------------------------------------- */

static void look_at(struct weft_runtime *rt, int64_t now) {
    rt->reactor->now = now;
    wefti_reactor_step(rt->reactor, 7);
}

TEST(reactor_preempts_long_runs, "R10") {
    struct weft_runtime *rt = begin(2);
    struct wefti_worker *w = rig_be(rt, 0);
    rig_go_range(rt, 0, 3);
    turn(rt);
    wefti_count(&w->counters.polls, 1); /* it has begun to run */
    look_at(rt, 100 * MS);
    CHECK(!wefti_preempt_is_asked(w));
    look_at(rt, 110 * MS - 1);
    CHECK(!wefti_preempt_is_asked(w));
    look_at(rt, 110 * MS + MS);
    CHECK(wefti_preempt_is_asked(w));
    CHECK_EQ(stats(rt).preempts, 1); /* the other one has not begun */
    look_at(rt, 130 * MS);
    CHECK_EQ(stats(rt).preempts, 1); /* asked once */
    wefti_count(&w->counters.polls, 1); /* it yields, and its next run is another */
    CHECK(!wefti_preempt_is_asked(w));
    look_at(rt, 140 * MS);
    look_at(rt, 149 * MS);
    CHECK(!wefti_preempt_is_asked(w));
    look_at(rt, 150 * MS);
    CHECK(wefti_preempt_is_asked(w));
    run_all(rt);
    rig_end(rt);
}

/* A thousand short ones one after the other are no long one. */
TEST(reactor_spares_short_runs, "R10") {
    struct weft_runtime *rt = begin(1);
    for (int i = 0; i < 1000; i++) {
        rig_go(rt, rig_once, i);
        turn(rt);
        look_at(rt, 5 * MS * (2 * i + 1));
        look_at(rt, 5 * MS * (2 * i + 2));
        REQUIRE(wefti_worker_turn(rig_be(rt, 0)));
        rig_be(rt, -1);
    }
    CHECK_EQ(stats(rt).preempts, 0);
    rig_end(rt);
}

struct stubborn {
    int asked, rest_at, told;
};

/* Is asked at every checkpoint, as if 10 ms had gone by. */
static int never_wait(void *arg) {
    struct stubborn *stubborn = arg;
    while (!stubborn->told && stubborn->asked < 3000) {
        struct wefti_worker *w = wefti_worker_here();
        if (stubborn->asked == stubborn->rest_at)
            REQUIRE_EQ(weft_yield(), 0); /* by itself: begins anew */
        store_relaxed(&w->preempt, load_relaxed(&w->counters.polls));
        stubborn->asked++;
        stubborn->told = weft_checkpoint();
        REQUIRE_EQ(load_relaxed(&w->counters.polls) == load_relaxed(&w->preempt), false); /* it has yielded */
    }
    return 7;
}

TEST(reactor_fails_the_stubborn, "R32") {
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = WEFT_SCHED_REACTOR;
    config.workers = 1;
    weft_runtime *rt;
    REQUIRE_EQ(weft_runtime_create(&config, &rt), 0);
    for (int rest_at = -1; rest_at < 1000; rest_at += 500) {
        struct stubborn stubborn = {.rest_at = rest_at};
        weft_task *task;
        weft_result result;
        REQUIRE_EQ(weft_fiber_go(rt, never_wait, &stubborn, &task), 0);
        REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
        CHECK_EQ(result.status, -ETIME);
        CHECK_EQ(stubborn.told, -ECANCELED);
        CHECK_EQ(stubborn.asked, 1000 + (rest_at < 0 ? 0 : rest_at));
        weft_task_drop(task);
    }
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* -- Requests that a library call honours -------------------------------------------------------------------- */

struct caller {
    weft_mutex mutex;
    _Atomic bool ended;
    int yields, told;
};

static void be_asked(struct wefti_worker *w) { store_relaxed(&w->preempt, load_relaxed(&w->counters.polls)); }

static int make_calls(void *arg) {
    struct caller *caller = arg;
    struct wefti_worker *w = wefti_worker_here();
    for (int i = 0; i < 999; i++) { /* one more, and it has failed */
        be_asked(w);
        REQUIRE_EQ(weft_checkpoint(), 0);
    }
    for (int i = 0; i < 1500; i++) {
        be_asked(w);
        uint64_t before = load_relaxed(&w->counters.polls);
        REQUIRE_EQ(weft_mutex_lock(&caller->mutex, WEFT_NEVER), 0);
        caller->yields += load_relaxed(&w->counters.polls) != before;
        REQUIRE_EQ(weft_mutex_unlock(&caller->mutex), 0);
    }
    be_asked(w);
    caller->told = weft_checkpoint();
    store_relaxed(&caller->ended, true);
    return 0;
}

static int be_ready(void *arg) {
    struct caller *caller = arg;
    while (!load_relaxed(&caller->ended))
        REQUIRE_EQ(weft_yield(), 0);
    return 0;
}

/* A call yields when it is asked to, at once, as long as another task could run.  That neither counts as a preemption nor ends the count. */
TEST(reactor_asks_in_calls, "R10 R32") {
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = WEFT_SCHED_REACTOR;
    config.workers = 1;
    weft_runtime *rt;
    weft_task *task[2];
    weft_result result;
    struct caller caller = {.mutex = WEFT_MUTEX_INIT};
    REQUIRE_EQ(weft_runtime_create(&config, &rt), 0);
    REQUIRE_EQ(weft_fiber_go(rt, be_ready, &caller, &task[0]), 0);
    REQUIRE_EQ(weft_fiber_go(rt, make_calls, &caller, &task[1]), 0);
    for (int i = 0; i < 2; i++) {
        REQUIRE_EQ(weft_join(task[i], &result, WEFT_NEVER), 0);
        CHECK_EQ(result.status, i ? -ETIME : 0);
        weft_task_drop(task[i]);
    }
    CHECK_EQ(caller.yields, 1500);
    CHECK_EQ(caller.told, -ECANCELED);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}
