/* sched_reactor.c - the reactor, one step at a time: its order, its seats, its books. */
#include "sched_reactor.h"

#include <weft/fiber.h>
#include <weft/fork.h>

/* -- The nine steps ----------------------------------------------------------------------------------------- */

static struct {
    struct weft_runtime *rt;
    int routed, resolved;
} order;

/* All steps up to this one have been made once more than those after it. */
static void expect_in_step(int step) {
    weft_reactor_stats now = stats(order.rt);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(now.steps[i], now.steps[0] - (i < step ? 0 : 1));
}

static uint64_t route(struct wefti_io *io) {
    (void)io;
    expect_in_step(2);
    order.routed++;
    return 1;
}

struct done {
    struct wefti_io io; /* first */
    wefti_waker waker;
};

static void complete(struct wefti_io *io) {
    expect_in_step(3);
    wefti_wake(((struct done *)(void *)io)->waker);
}

static uint64_t resolve(struct wefti_link *link) {
    (void)link;
    expect_in_step(5);
    /* By now those of steps 3 and 4 have been woken, and lie in the injector behind what was there. */
    CHECK_EQ(wefti_inject_length(&order.rt->inject), 3);
    order.resolved++;
    return 7;
}

/* One of each kind of event: a turn deals with all, in the order of the steps. */
TEST(reactor_steps_in_order, "R1 R3 R5 R6 R8 R9") {
    struct weft_runtime *rt = order.rt = begin(4);
    struct waiting io = {.need = 2}, timer = {.need = 2};
    weft_task *by_io, *by_timer;
    REQUIRE_EQ(weft_go(rt, wait_to_be_woken, &io, &by_io), 0);
    REQUIRE_EQ(weft_go(rt, wait_to_be_woken, &timer, &by_timer), 0);
    rig_go(rt, rig_again, 1);
    turn(rt);
    for (int i = 0; i < 3; i++)
        REQUIRE(wefti_worker_turn(rig_be(rt, i))); /* two wait, the third yields */
    rig_be(rt, -1);
    rig_go(rt, rig_once, 2);
    struct wefti_io submitted = {.route = route};
    struct done done = {{.complete = complete}, wefti_waker_task(io.waker.target)};
    wefti_io_submit(rt, &submitted);
    wefti_io_complete(rt, &done.io);
    struct wefti_alarm alarm;
    wefti_alarm_set(&rt->worker[0], &alarm, by_timer, wefti_clock());
    while (wefti_clock() < load_relaxed(&rt->control->timers_next) + MS)
        wefti_thread_yield();
    struct wefti_link changed;
    wefti_control_resolve(rt, &changed, resolve);
    weft_reactor_stats before = stats(rt);
    turn(rt);
    CHECK_EQ(order.routed, 1);
    CHECK_EQ(order.resolved, 1);
    expect_in_step(9);
    static const uint64_t items[9] = {4, 1, 1, 1, 7, 3, 0, 4, 1}; /* step 1: three seats, and one task that yielded */
    for (int i = 0; i < 9; i++)
        CHECK_EQ(stats(rt).items[i] - before.items[i], items[i]);
    /* Handed out in the order in which the steps found them: 1, 6 (what was there), 3, 4. */
    CHECK_EQ(seated(rt, 0), 1);
    CHECK_EQ(seated(rt, 1), 2);
    CHECK_EQ(load_relaxed(&rt->reactor->seat[2].slot), (uintptr_t)by_io);
    CHECK_EQ(load_relaxed(&rt->reactor->seat[3].slot), (uintptr_t)by_timer);
    run_all(rt);
    CHECK(weft_task_is_done(by_io) && weft_task_is_done(by_timer));
    weft_waker_drop(timer.waker);
    weft_task_drop(by_io);
    weft_task_drop(by_timer);
    rig_end(rt);
}

/* Step 1 takes whatever is there, and step 6 too. */
TEST(reactor_drains_all, "R4 R9 R25") {
    struct weft_runtime *rt = begin(8);
    rig_go_range(rt, 0, 20);
    turn(rt);
    CHECK_EQ(stats(rt).active, 8);
    CHECK_EQ(stats(rt).ready, 12);
    CHECK_EQ(wefti_inject_length(&rt->inject), 0);
    for (int i = 0; i < 8; i++)
        REQUIRE(wefti_worker_turn(rig_be(rt, i)));
    wefti_reactor_step(rt->reactor, 1);
    CHECK_EQ(stats(rt).active, 0);
    CHECK_EQ(stats(rt).results, 8);
    run_all(rt);
    rig_end(rt);
}

/* Step 9 ends at once when something has happened, and by itself while tasks are on workers. */
TEST(reactor_waits_briefly, "R12") {
    struct weft_runtime *rt = begin(1);
    rt->reactor->idle_look = MS; /* so that it would not wait for ever */
    rig_go(rt, rig_once, 0);
    turn(rt);
    int64_t before = wefti_clock();
    rt->reactor->now = before;
    wefti_reactor_step(rt->reactor, 9);
    CHECK_GE(wefti_clock(), before + WEFTI_REACTOR_LOOK);
    rt->reactor->idle_look = INT64_MAX; /* nobody to preempt: now only an event ends it */
    rig_go(rt, rig_once, 1);
    wefti_reactor_step(rt->reactor, 9);
    struct wefti_alarm alarm;
    wefti_alarm_set(&rt->worker[0], &alarm, wefti_task_of(rt->inject.line.first), wefti_clock() + MS);
    wefti_reactor_step(rt->reactor, 9); /* or a timer */
    wefti_alarm_clear(&alarm);
    run_all(rt);
    rig_end(rt);
}

/* -- Books -------------------------------------------------------------------------------------------------- */

TEST(reactor_active_is_exact, "R2 R11 R25") {
    struct weft_runtime *rt = begin(2);
    rig_go_range(rt, 0, 5);
    turn(rt);
    for (int left = 5; left > 0; left--) {
        uint64_t active = left < 2 ? 1 : 2;
        CHECK_EQ(stats(rt).active, active);
        CHECK_EQ(stats(rt).ready, left - (int)active);
        turn(rt); /* changes nothing */
        CHECK_EQ(stats(rt).active, active);
        int worker = seated(rt, 0) >= 0 ? 0 : 1;
        REQUIRE(wefti_worker_turn(rig_be(rt, worker)));
        CHECK(!wefti_worker_turn(rig_be(rt, worker))); /* it has no other before the reactor says so */
        rig_be(rt, -1);
        turn(rt);
    }
    CHECK_EQ(stats(rt).active, 0);
    CHECK_EQ(stats(rt).active_max, 2);
    CHECK_EQ(stats(rt).dispatched, 5);
    CHECK_EQ(stats(rt).results, 5);
    CHECK_EQ(rig_log.length, 5);
    rig_end(rt);
}

/* What the reactor has taken in still counts against the capacity of the global queue. */
TEST(reactor_back_pressure, "R11 B57") {
    struct weft_runtime *rt = begin(1);
    rt->global_capacity = 3;
    rig_go(rt, rig_once, 0);
    turn(rt); /* on its worker: counts no more */
    rig_go_range(rt, 1, 4);
    CHECK_EQ(weft_go(rt, rig_once, NULL, NULL), -EAGAIN);
    turn(rt);
    CHECK_EQ(weft_go(rt, rig_once, NULL, NULL), -EAGAIN);
    rig_run(rt, 0);
    rig_be(rt, -1);
    turn(rt);
    rig_go(rt, rig_once, 4);
    run_all(rt);
    rig_end(rt);
}

/* -- Order -------------------------------------------------------------------------------------------------- */

/* Spawned by workers and by other threads, woken or new: one line. */
TEST(reactor_fifo, "R9 R11 R35") {
    struct weft_runtime *rt = begin(2);
    for (int i = 0; i < 2; i++)
        rt->reactor->desk[i].average =
            1e18; /* one task at a time: in this test a worker runs all it has before the other */
    for (int i = 0; i < 30; i++) {
        rig_be(rt, i % 3 - 1);
        rig_go(rt, rig_once, i);
    }
    rig_be(rt, -1);
    run_all(rt);
    for (int i = 0; i < 30; i++)
        CHECK_EQ(rig_log.who[i], i);
    rig_end(rt);
}

/* -- Batches ------------------------------------------------------------------------------------------------ */

/* Tasks are short on every worker. */
static void be_short(struct weft_runtime *rt) {
    for (uint32_t i = 0; i < rt->workers; i++)
        rt->reactor->desk[i].average = 100;
}

/* The open seats get tasks in turn, each up to its share. */
TEST(reactor_batch, "R11 R25") {
    struct weft_runtime *rt = begin(2);
    be_short(rt);
    rig_go_range(rt, 0, 7);
    turn(rt);
    CHECK_EQ(stats(rt).active, 2);
    CHECK_EQ(stats(rt).dispatched, 7);
    CHECK_EQ(stats(rt).ready, 0);
    CHECK_EQ(wefti_seat_length(&rt->reactor->seat[0]), 3);
    CHECK_EQ(wefti_seat_length(&rt->reactor->seat[1]), 2);
    CHECK(!wefti_control_has_more(&rt->worker[1])); /* it has not taken any */
    for (int i = 0; i < 3; i++) {
        REQUIRE(wefti_worker_turn(rig_be(rt, 1)));
        CHECK_EQ(wefti_control_has_more(&rt->worker[1]), i < 2);
    }
    CHECK(!wefti_worker_turn(rig_be(rt, 1)));
    for (int i = 0; i < 4; i++)
        REQUIRE(wefti_worker_turn(rig_be(rt, 0)));
    static const int expected[] = {1, 3, 5, 0, 2, 4, 6};
    for (int i = 0; i < 7; i++)
        CHECK_EQ(rig_log.who[i], expected[i]);
    rig_be(rt, -1);
    turn(rt);
    CHECK_EQ(stats(rt).active, 0);
    CHECK_EQ(stats(rt).results, 2);
    rig_end(rt);
}

/* A batch has an end: what it is expected to take, and the room in a seat. */
TEST(reactor_batch_bounds, "R11") {
    struct weft_runtime *rt = begin(1);
    rt->reactor->desk[0].average = WEFTI_BATCH_TIME / 5;
    rig_go_range(rt, 0, 20);
    turn(rt);
    CHECK_EQ(stats(rt).dispatched, 5);
    run_all(rt);
    be_short(rt);
    rt->reactor->desk[0].average = 1;
    rig_go_range(rt, 0, 2 * (int)WEFTI_SEAT_ITEMS);
    turn(rt);
    CHECK_EQ(stats(rt).dispatched, 20 + WEFTI_SEAT_ITEMS);
    run_all(rt);
    for (unsigned i = 20; i < rig_log.length; i++)
        CHECK_EQ(rig_log.who[i], (int)i - 20);
    rig_end(rt);
}

/* A worker is free, and another has been in its batch for too long: the rest goes back, in order and before newer tasks. */
TEST(reactor_batch_reclaimed, "R11") {
    struct weft_runtime *rt = begin(2);
    struct wefti_reactor *r = rt->reactor;
    be_short(rt);
    rig_go_range(rt, 0, 8);
    turn(rt);
    r->desk[0].average = r->desk[1].average = 1e18;
    REQUIRE(wefti_worker_turn(rig_be(rt, 0))); /* 0: its next is not begun for long */
    for (int i = 0; i < 4; i++)
        REQUIRE(wefti_worker_turn(rig_be(rt, 1))); /* 1, 3, 5, 7 */
    rig_be(rt, -1);
    rig_go(rt, rig_once, 8);
    r->desk[0].given_at = wefti_clock() + 1000 * MS;
    turn(rt);
    CHECK_EQ(stats(rt).taken_back, 0);
    CHECK_EQ(seated(rt, 1), 8);
    REQUIRE(wefti_worker_turn(rig_be(rt, 1)));
    rig_be(rt, -1);
    rig_go(rt, rig_once, 9);
    r->desk[0].given_at = wefti_clock() - 1000 * MS;
    turn(rt);
    CHECK_EQ(stats(rt).taken_back, 3);
    CHECK_EQ(seated(rt, 1), 2);
    CHECK_EQ(stats(rt).ready, 3);
    run_all(rt);
    static const int expected[] = {0, 1, 3, 5, 7, 8, 2, 4, 6, 9};
    REQUIRE_EQ(rig_log.length, 10);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(rig_log.who[i], expected[i]);
    rig_end(rt);
}

/* While a worker is free, the reactor waits no longer than a batch should take. */
TEST(reactor_batch_is_looked_at, "R11 R12") {
    struct weft_runtime *rt = begin(2);
    be_short(rt);
    rt->reactor->idle_look = INT64_MAX;
    rig_go_range(rt, 0, 4);
    turn(rt);
    for (int i = 0; i < 2; i++)
        REQUIRE(wefti_worker_turn(rig_be(rt, 1)));
    rig_be(rt, -1);
    rt->reactor->desk[0].given_at = wefti_clock() + 200 * MS; /* not due in this turn, however slow it is */
    turn(rt);
    CHECK_EQ(stats(rt).taken_back, 0);
    wefti_reactor_step(rt->reactor, 9); /* hangs otherwise */
    for (int step = 1; step <= 8; step++)
        wefti_reactor_step(rt->reactor, step);
    CHECK_EQ(stats(rt).taken_back, 1);
    run_all(rt);
    rig_end(rt);
}

/* A poll that goes on while its worker has a new batch gives all of it back, in order. */
TEST(reactor_batch_returned, "R13 R25 R33") {
    struct weft_runtime *rt = begin(2);
    struct wefti_worker *w = &rt->worker[0];
    be_short(rt);
    store_relaxed(&rt->reactor->seat[0].slot, WEFTI_SEAT_CLOSED);
    rig_be(rt, 0);
    CHECK(!rt->sched->next(w)); /* it waits, and opens its seat */
    rig_be(rt, -1);
    store_relaxed(&rt->reactor->seat[1].slot, WEFTI_SEAT_CLOSED);
    wefti_seat_tell(&rt->reactor->seat[1], &rt->reactor->news);
    rig_go_range(rt, 0, 6);
    turn(rt);
    CHECK_EQ(wefti_seat_length(&rt->reactor->seat[0]), 2);
    rig_be(rt, 0);
    rt->sched->resume(w);
    rig_be(rt, -1);
    turn(rt);
    CHECK_EQ(stats(rt).ready, 6);
    CHECK_EQ(stats(rt).active, 2);
    rig_be(rt, 1);
    rt->sched->done(&rt->worker[1]);
    rig_be(rt, 0);
    rt->sched->done(w);
    rig_be(rt, -1);
    rt->reactor->desk[0].average = rt->reactor->desk[1].average = 1e18;
    run_all(rt);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(rig_log.who[i], i);
    rig_end(rt);
}

TEST(reactor_yield_goes_behind, "R32") {
    struct weft_runtime *rt = begin(1);
    rig_go(rt, rig_again, 1);
    rig_go(rt, rig_again, 2);
    run_all(rt);
    REQUIRE_EQ(rig_log.length, 200);
    for (int i = 0; i < 200; i++)
        REQUIRE_EQ(rig_log.who[i], 1 + i % 2);
    rig_end(rt);
}

/* What has begun as a fiber goes to its own worker; it keeps its place in the line, and nobody waits behind it. */
TEST(reactor_pinned_to_its_worker, "R11 R33") {
    struct weft_runtime *rt = begin(2);
    rig_go_range(rt, 0, 7);
    struct wefti_link *link = rt->inject.line.first;
    for (int i = 0; i < 7; i++, link = link->next)
        if (i == 0 || i == 2 || i == 3 || i == 5)
            wefti_task_of(link)->home = 2; /* worker 1's, as if it had begun there */
    turn(rt);
    CHECK_EQ(seated(rt, 0), 1); /* 0 is not for worker 0 */
    CHECK_EQ(seated(rt, 1), 0);
    REQUIRE_EQ(rig_run(rt, 0), 1);
    turn(rt);
    CHECK_EQ(seated(rt, 0), 4); /* past 2 and 3 */
    REQUIRE_EQ(rig_run(rt, 1), 1);
    turn(rt);
    CHECK_EQ(seated(rt, 1), 2);
    REQUIRE_EQ(rig_run(rt, 1), 1);
    turn(rt);
    REQUIRE_EQ(rig_run(rt, 1), 1);
    turn(rt);
    CHECK_EQ(seated(rt, 1), 5); /* before 6, which anyone may run */
    run_all(rt);
    for (unsigned i = 0; i < rig_log.length; i++)
        if (rig_log.who[i] == 0 || rig_log.who[i] == 2 || rig_log.who[i] == 3 || rig_log.who[i] == 5)
            CHECK_EQ(rig_log.worker[i], 1);
    CHECK_EQ(rig_log.length, 7);
    rig_end(rt);
}

/* The worker that is handed a task is woken, and no other. */
TEST(reactor_wakes_whom_it_hands, "R11 B42") {
    struct weft_runtime *rt = begin(4);
    for (uint32_t i = 0; i < 4; i++)
        REQUIRE(wefti_worker_announce(&rt->worker[i]));
    for (uint32_t i = 0; i < 4; i++) {
        rig_go(rt, rig_once, (int)i);
        CHECK_EQ(wefti_idle_parked(&rt->idle), 4 - i); /* a spawn wakes the reactor alone */
        CHECK_EQ(load_relaxed(&rt->control->park.word), WEFTI_PARK_NOTIFIED);
        turn(rt);
        CHECK_EQ(wefti_idle_parked(&rt->idle), 3 - i);
        CHECK_EQ(load_relaxed(&rt->worker[i].claimed), 1);
        CHECK_EQ(load_relaxed(&rt->worker[i].park.word), WEFTI_PARK_NOTIFIED);
    }
    for (int i = 0; i < 4; i++) {
        wefti_worker_return(rig_be(rt, i));
        REQUIRE(wefti_worker_turn(&rt->worker[i]));
    }
    CHECK_EQ(load_relaxed(&rt->idle.searching), 0);
    rig_end(rt);
}

/* -- Timers ----------------------------------------------------------------------------------------- */

TEST(reactor_timers_earliest_first, "R7 R15") {
    struct weft_runtime *rt = begin(1);
    struct wefti_worker *w = rig_be(rt, 0);
    enum { ALARMS = 6 };
    static const int after[ALARMS] = {40, 10, 30, 3600000, 20, 50}; /* ms */
    struct waiting waiting[ALARMS];
    struct wefti_alarm alarm[ALARMS];
    for (int i = 0; i < ALARMS; i++) {
        waiting[i] = (struct waiting){.need = 2};
        REQUIRE_EQ(weft_go(rt, wait_to_be_woken, &waiting[i], NULL), 0);
    }
    run_all(rt);
    rig_be(rt, 0);
    int64_t from = wefti_clock() - 100 * MS; /* so that all but one are due */
    for (int i = 0; i < ALARMS; i++)
        wefti_alarm_set(w, &alarm[i], waiting[i].waker.target, from + after[i] * MS);
    CHECK(!wefti_timers_any(w)); /* not the worker's: the reactor's */
    rig_be(rt, -1);
    wefti_reactor_step(rt->reactor, 4);
    static const int expected[] = {1, 4, 2, 0, 5};
    struct wefti_link *link = rt->inject.line.first;
    REQUIRE_EQ(wefti_inject_length(&rt->inject), 5);
    for (int i = 0; i < 5; i++, link = link->next)
        CHECK_EQ(link, &((struct weft_task *)waiting[expected[i]].waker.target)->link);
    CHECK(!load_relaxed(&alarm[3].timer.rang));
    wefti_alarm_clear(&alarm[3]);
    weft_waker_wake_keep(waiting[3].waker);
    for (int i = 0; i < ALARMS; i++)
        weft_waker_drop(waiting[i].waker);
    run_all(rt);
    rig_end(rt);
}

/* -- Driven workers, jobs ------------------------------------------------------------------------------------- */

TEST(reactor_takes_back, "R11") {
    struct weft_runtime *rt = begin(2);
    rt->driven = rt->worker[0].driven = true;
    rig_go_range(rt, 0, 3);
    turn(rt);
    CHECK_EQ(seated(rt, 1), 0); /* who has a thread comes first */
    CHECK_EQ(seated(rt, 0), 1);
    REQUIRE(wefti_worker_turn(rig_be(rt, 1)));
    rig_be(rt, -1);
    turn(rt);
    CHECK_EQ(seated(rt, 1), 1); /* worker 0 is not being driven */
    CHECK_EQ(seated(rt, 0), 2);
    CHECK_EQ(stats(rt).taken_back, 1);
    CHECK_EQ(stats(rt).active, 2);
    uintptr_t lent = rt->reactor->desk[0].lent;
    REQUIRE_EQ(wefti_seat_take(&rt->reactor->seat[0]), lent); /* worker 0 has it now */
    REQUIRE(wefti_worker_turn(rig_be(rt, 1)));
    rig_be(rt, -1);
    turn(rt);
    CHECK_EQ(seated(rt, 1), -1);
    CHECK_EQ(stats(rt).active, 1);
    store_relaxed(&rt->reactor->seat[0].slot, lent); /* and gives it to us again */
    rt->driven = rt->worker[0].driven = false;
    run_all(rt);
    rig_end(rt);
}

static void nothing(void *unused) { (void)unused; }

static weft_poll fork_one(weft_task *self, void *state) {
    struct weft_runtime *rt = state;
    weft_job job;
    weft_fork(&job, nothing, NULL);
    turn(rt);
    CHECK_EQ(load_relaxed(&rt->reactor->seat[1].slot), WEFTI_SEAT_JOBS);
    CHECK(!wefti_worker_turn(&rt->worker[1])); /* runs the job */
    CHECK_EQ(load_relaxed(&rt->worker[1].counters.jobs_stolen), 1);
    CHECK_EQ(seated(rt, 1), -1);
    weft_join_job(&job);
    return weft_done(self, 0, NULL);
}

/* Forked jobs are pieces of a running task: a worker takes them when it is told to, and at no other time. */
TEST(reactor_hands_out_jobs, "R1 R2") {
    struct weft_runtime *rt = begin(2);
    REQUIRE_EQ(weft_go(rt, fork_one, rt, NULL), 0);
    turn(rt);
    REQUIRE(wefti_worker_turn(rig_be(rt, 0)));
    rig_be(rt, -1);
    run_all(rt);
    rig_end(rt);
}

/* -- Looking -------------------------------------------------------------------------------------------------- */

TEST(reactor_stats_versions, "") {
    struct weft_runtime *rt = begin(1);
    struct {
        weft_reactor_stats known;
        uint64_t more;
    } newer = {.known = {.size = sizeof newer}, .more = 77};
    CHECK_EQ(weft_reactor_stats_read(rt, &newer.known), 0);
    CHECK_EQ(newer.more, 77);
    CHECK_EQ(newer.known.size, sizeof(weft_reactor_stats));
    weft_reactor_stats small = {.size = 8};
    CHECK_EQ(weft_reactor_stats_read(rt, &small), -EINVAL);
    CHECK_EQ(weft_reactor_stats_read(rt, NULL), -EINVAL);
    rig_end(rt);
    rt = rig_begin(&wefti_sched_fifo, 1);
    CHECK_EQ(weft_reactor_stats_read(rt, &newer.known), -EINVAL);
    rig_end(rt);
}
