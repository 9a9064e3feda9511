/* sched_worker.c - the worker's loop: time keeping, spinning, searching, sleeping.
 *
 * src/sched/worker.c is compiled into this file under other names, so that its static functions can be called and what it
 * asks of the system can be counted. */
#define wefti_relax unit_relax
#define wefti_thread_yield unit_yield
#define wefti_clock unit_clock
#define wefti_worker_turn unit_worker_turn
#define wefti_worker_found unit_worker_found
#define wefti_worker_sleep unit_worker_sleep
#define wefti_worker_announce unit_worker_announce
#define wefti_worker_return unit_worker_return
#define wefti_worker_main unit_worker_main
#define wefti_worker_wake unit_worker_wake
#define wefti_notify unit_notify
#define wefti_notify_one unit_notify_one
#define wefti_worker_skip unit_worker_skip
#define wefti_worker_finish unit_worker_finish
#define wefti_worker_tick unit_worker_tick
#define wefti_worker_pick unit_worker_pick
#define wefti_worker_here unit_worker_here
#define wefti_worker_owe unit_worker_owe
#define wefti_worker_help unit_worker_help
#define wefti_notify_if_worth unit_notify_if_worth
#include "sched/worker.c"

#include "rig.h"

static unsigned relaxes, yields, looks;
static int64_t now;

void unit_relax(void) { relaxes++; }
void unit_yield(void) { yields++; }
int64_t unit_clock(void) {
    looks++;
    return now;
}

/* -- The interval at which the global queue is looked at first ---------------------------------------------- */

static uint32_t interval_at(double average) {
    struct wefti_worker w = {.average = average, .measure_began = 1, .counters.polls = 1000};
    measure(&w, 1 + (int64_t)(average * 1000)); /* the sample is the average: it stays */
    CHECK((w.average - average) / average < 1e-9 && (average - w.average) / average < 1e-9);
    return w.global_interval;
}

TEST(worker_interval_table, "B28") {
    CHECK_EQ(interval_at(1000), 255); /* 1 us */
    CHECK_EQ(interval_at(10000), 100);
    CHECK_EQ(interval_at(50000), 20);
    CHECK_EQ(interval_at(100000), 10);
    CHECK_EQ(interval_at(1000000), 8); /* 1 ms and above */
    CHECK_EQ(interval_at(5000000), 8);
    CHECK_EQ(interval_at(1e12), 8);
    CHECK_EQ(interval_at(1), 255);
    CHECK_EQ(interval_at(3900), 255);
    CHECK_EQ(interval_at(4000), 250);
    CHECK_EQ(interval_at(125000), 8);
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 1);
    CHECK_EQ(rt->worker[0].global_interval, 20); /* before anything was measured */
    rig_end(rt);
}

/* average = 0.1 * sample + 0.9 * before */
TEST(worker_moving_average, "B29") {
    struct wefti_worker w = {.average = 50000, .measure_began = 1000, .counters.polls = 10};
    measure(&w, 1000 + 10 * 20000);
    CHECK_EQ((int64_t)(w.average + 0.5), 47000);
    CHECK_EQ(w.measured_from, 10);
    CHECK_EQ(w.measure_began, 1000 + 10 * 20000);
    wefti_count(&w.counters.polls, 100);
    measure(&w, w.measure_began + 100 * 1000);
    CHECK_EQ((int64_t)(w.average + 0.5), 42400);
    CHECK_EQ(w.global_interval, 23);
    for (int i = 0; i < 200; i++) {
        wefti_count(&w.counters.polls, 128);
        measure(&w, w.measure_began + 128 * 1000);
    }
    CHECK_EQ(w.global_interval, 255); /* and it gets there */
    uint32_t interval = w.global_interval;
    measure(&w, w.measure_began + 1000000000); /* no polls: no sample */
    CHECK_EQ(w.global_interval, interval);
    w.measure_began = 0, wefti_count(&w.counters.polls, 5);
    measure(&w, 5000000000); /* not measuring: the time asleep is nobody's */
    CHECK_EQ(w.global_interval, interval);
}

/* -- Ticks -------------------------------------------------------------------------------------------------- */

/* Each poll costs one unit; the 128th resets the budget and makes a maintenance pass. */
TEST(worker_ticks, "B34 B45") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 1);
    struct wefti_worker *w = rig_be(rt, 0);
    CHECK_EQ(WEFTI_TICK_POLLS, 128);
    for (int i = 0; i < 6; i++)
        rig_go(rt, rig_again, i);
    w->measure_began = now = 1;
    for (unsigned polls = 1; polls <= 600; polls++) {
        now += 10000; /* each poll seems to take 10 us */
        REQUIRE(wefti_worker_turn(w));
        REQUIRE_EQ(load_own(&w->counters.ticks), polls / 128);
        REQUIRE_EQ(w->tick_left, 128 - polls % 128);
        REQUIRE_EQ(load_own(&w->counters.polls) - w->measured_from, polls % 128);
        if (polls % 128 == 0)
            REQUIRE_EQ(w->measure_began, now);
    }
    /* Four samples of 10 us into 50 us: 50 * 0.9^4 + 10 * (1 - 0.9^4) = 36.2 us */
    CHECK_EQ((int64_t)(w->average / 100), 362);
    CHECK_EQ(w->global_interval, 27);
    rig_end(rt);
}

/* -- Searching ------------------------------------------------------------------------------------------------ */

/* Four tight turns, twelve that give the core away, and then the worker goes to sleep. */
TEST(worker_spins_then_yields, "W19") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, 2);
    struct wefti_worker *w = rig_be(rt, 0);
    for (int round = 1; round <= 3; round++) { /* the count begins anew each time */
        CHECK(!wefti_worker_turn(w));
        CHECK_EQ(relaxes, 4 * round);
        CHECK_EQ(yields, 12 * round);
        CHECK_EQ(load_own(&w->counters.searches), round);
        rig_go(rt, rig_once, round);
        CHECK(wefti_worker_turn(w)); /* work found */
    }
    rig_end(rt);
}

/* Work that appears in the fifth turn is found in the sixth. */
static struct weft_runtime *appear_in;
static unsigned appear_at;

static struct weft_task *next_that_appears(struct wefti_worker *w) {
    if (relaxes + yields == appear_at && wefti_inject_length(&appear_in->inject) == 0) {
        rig_be(appear_in, -1);
        rig_go(appear_in, rig_once, 1);
        rig_be(appear_in, 0);
    }
    return wefti_sched_fifo.next(w);
}

TEST(worker_search_ends_at_work, "B31 B39 W19") {
    struct wefti_sched sched = wefti_sched_fifo;
    sched.next = next_that_appears;
    struct weft_runtime *rt = appear_in = rig_begin(&sched, 2);
    struct wefti_worker *w = rig_be(rt, 0);
    appear_at = 5;
    CHECK(wefti_worker_turn(w));
    CHECK_EQ(relaxes, 4);
    CHECK_EQ(yields, 1);
    CHECK_EQ(rig_log.length, 1);
    CHECK(!w->searching);
    CHECK_EQ(load_relaxed(&rt->idle.searching), 0);
    rig_end(rt);
}

TEST(worker_search_cap, "B44") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 4);
    store_relaxed(&rt->idle.searching, 2); /* half of four search already */
    struct wefti_worker *w = rig_be(rt, 0);
    CHECK(!wefti_worker_turn(w));
    CHECK_EQ(relaxes + yields, 0); /* the third goes straight to sleep */
    CHECK(!w->searching);
    store_relaxed(&rt->idle.searching, 1);
    CHECK(!wefti_worker_turn(w));
    CHECK(w->searching);
    CHECK_EQ(load_relaxed(&rt->idle.searching), 2);
    store_relaxed(&rt->idle.searching, 0);
    rig_end(rt);
}

/* -- Waking ----------------------------------------------------------------------------------------------------- */

TEST(worker_notify_wakes_one, "B38 B42") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 4);
    struct wefti_worker *w = rig_be(rt, 0);
    wefti_notify(rt, w); /* nobody sleeps */
    CHECK_EQ(load_relaxed(&rt->idle.searching), 0);
    for (uint32_t i = 1; i < 4; i++)
        wefti_idle_announce(&rt->idle, i);
    wefti_notify(rt, w);
    CHECK_EQ(load_relaxed(&rt->idle.searching), 1); /* it was counted in before it runs */
    CHECK_EQ(load_relaxed(&rt->worker[1].claimed), 1);
    CHECK_EQ(load_relaxed(&rt->worker[1].park.word), WEFTI_PARK_NOTIFIED);
    CHECK_EQ(wefti_idle_parked(&rt->idle), 2);
    CHECK_EQ(load_own(&w->counters.wakes), 1);
    wefti_notify(rt, w); /* with a searcher present nobody is woken */
    CHECK_EQ(wefti_idle_parked(&rt->idle), 2);
    CHECK_EQ(load_own(&w->counters.wakes), 1);
    store_relaxed(&rt->idle.searching, 0);
    rig_end(rt);
}

/* A spawn from outside is such a notify. */
TEST(worker_outside_spawn_wakes, "B24 B38") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    wefti_idle_announce(&rt->idle, 0);
    wefti_idle_announce(&rt->idle, 1);
    rig_be(rt, -1);
    rig_go_range(rt, 0, 3);
    CHECK_EQ(wefti_idle_parked(&rt->idle), 1); /* one searcher is enough for three */
    struct wefti_worker *w = rig_be(rt, 0);
    wefti_worker_return(w);
    CHECK(w->searching);
    CHECK(wefti_idle_retract(&rt->idle, 1));
    while (load_own(&w->counters.polls) < 3)
        REQUIRE(wefti_worker_turn(w));
    rig_end(rt);
}

/* The last searcher that finds work wakes the next sleeper, if work is left. */
TEST(worker_chain_of_wakes, "B39") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, 3);
    rig_be(rt, -1);
    rig_go_range(rt, 0, 40); /* more than one batch of the deque scheduler */
    wefti_idle_announce(&rt->idle, 1);
    wefti_idle_announce(&rt->idle, 2);
    struct wefti_worker *w = rig_be(rt, 0);
    w->searching = true; /* as one that was woken */
    store_relaxed(&rt->idle.searching, 1);
    REQUIRE(wefti_worker_turn(w));
    CHECK(!w->searching);
    CHECK_EQ(load_relaxed(&rt->worker[1].claimed), 1); /* worker 1 is the searcher now */
    CHECK_EQ(load_relaxed(&rt->idle.searching), 1);
    CHECK_EQ(wefti_idle_parked(&rt->idle), 1);
    store_relaxed(&rt->idle.searching, 0);
    CHECK(wefti_idle_retract(&rt->idle, 2));
    while (load_own(&w->counters.polls) < 40)
        REQUIRE(wefti_worker_turn(w));
    rig_end(rt);
}

/* ... and not, if there is none, or others search on. */
TEST(worker_chain_ends, "B39") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 3);
    rig_be(rt, -1);
    rig_go(rt, rig_once, 0);
    wefti_idle_announce(&rt->idle, 2);
    store_relaxed(&rt->idle.searching, 2);
    struct wefti_worker *w = rig_be(rt, 0);
    w->searching = true;
    REQUIRE(wefti_worker_turn(w)); /* not the last searcher */
    CHECK_EQ(load_relaxed(&rt->idle.searching), 1);
    CHECK_EQ(wefti_idle_parked(&rt->idle), 1);
    rig_be(rt, -1);
    rig_go(rt, rig_once, 1); /* nobody is woken: somebody searches */
    w = rig_be(rt, 1);
    w->searching = true;
    REQUIRE(wefti_worker_turn(w)); /* the last, and nothing is left */
    CHECK_EQ(load_relaxed(&rt->idle.searching), 0);
    CHECK_EQ(wefti_idle_parked(&rt->idle), 1);
    CHECK(wefti_idle_retract(&rt->idle, 2));
    rig_end(rt);
}

/* -- Sleeping ------------------------------------------------------------------------------------------------- */

TEST(worker_life_cycle, "B23 B31 B40 B43") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    struct wefti_worker *w = rig_be(rt, 0);
    CHECK(!wefti_worker_turn(w)); /* running -> searching */
    CHECK(w->searching);
    CHECK_EQ(load_relaxed(&rt->idle.searching), 1);
    CHECK(wefti_worker_announce(w)); /* searching -> parked */
    CHECK(!w->searching && w->parking);
    CHECK_EQ(load_relaxed(&rt->idle.searching), 0);
    CHECK_EQ(wefti_idle_parked(&rt->idle), 1);
    rig_be(rt, -1);
    rig_go(rt, rig_once, 1);
    CHECK_EQ(wefti_idle_parked(&rt->idle), 0);
    rig_be(rt, 0);
    wefti_worker_return(w); /* parked -> searching, counted in by its waker */
    CHECK(w->searching && !w->parking);
    CHECK_EQ(load_relaxed(&w->claimed), 0);
    CHECK(wefti_worker_turn(w)); /* searching -> running */
    CHECK(!w->searching);
    CHECK_EQ(load_relaxed(&rt->idle.searching), 0);
    CHECK_EQ(rig_log.length, 1);
    rig_end(rt);
}

/* The last searcher looks at every queue before it sleeps, and stays if there is anything. */
TEST(worker_last_look, "B40") {
    static const int places[] = {-1, 1, 2}; /* the global queue, or another worker's */
    for (int place = 0; place < 3; place++) {
        struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 3);
        struct wefti_worker *w = rig_be(rt, 0);
        CHECK(!wefti_worker_turn(w)); /* found nothing; now a task comes that wakes nobody */
        rig_be(rt, places[place]);
        rig_go_range(rt, 0, 2);
        rig_be(rt, 0);
        CHECK(!wefti_worker_announce(w));
        wefti_worker_return(w);
        CHECK_EQ(wefti_idle_parked(&rt->idle), 0);
        CHECK(wefti_worker_turn(w));
        for (int i = 0; i < 3; i++)
            rig_run(rt, i);
        rig_end(rt);
    }
}

/* While another searches, the look is left to it. */
TEST(worker_trusts_searcher, "B40") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 3);
    rig_be(rt, -1);
    rig_go(rt, rig_once, 1);
    struct wefti_worker *w = rig_be(rt, 0);
    store_relaxed(&rt->idle.searching, 1);
    CHECK(wefti_worker_announce(w));
    wefti_worker_return(w);
    store_relaxed(&rt->idle.searching, 0);
    CHECK_EQ(rig_run(rt, 0), 1);
    rig_end(rt);
}

/* A stopped runtime is not slept in. */
TEST(worker_sees_stop, "K39") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    struct wefti_worker *w = rig_be(rt, 0);
    store_relaxed(&rt->phase, WEFTI_STOPPED);
    CHECK(!wefti_worker_announce(w));
    wefti_worker_return(w);
    wefti_worker_main(w); /* and its loop ends at once */
    CHECK_EQ(wefti_idle_parked(&rt->idle), 0);
    rig_end(rt);
}

/* -- Tasks before fibers ------------------------------------------------------------------------------------ */

static struct weft_task owed_task, own_fiber;
static uint32_t owed_waiting, owed_left;
static int64_t owed_lasts; /* each of them, ns */

static uint32_t count_owed(struct wefti_worker *w) {
    (void)w;
    return owed_waiting;
}
static struct weft_task *next_of_owed(struct wefti_worker *w) {
    (void)w;
    if (!owed_left)
        return NULL;
    owed_left--;
    now += owed_lasts;
    return &owed_task;
}

static const struct wefti_sched owed_sched = {.name = "owed", .next = next_of_owed, .waiting = count_owed};
static double owed_average; /* ns a poll, lately */
static uint32_t owed_pinned = 5;

/* How many tasks come before the worker's own fiber, if so many wait and so many may. */
static unsigned come_first(uint32_t there, uint32_t most, int64_t last) {
    struct weft_runtime rt = {.workers = 1};
    struct wefti_worker w = {.rt = &rt, .sched = &owed_sched, .tick_left = 100, .pinned_left = owed_pinned};
    unsigned count = 0;
    now += 1;
    w.length = owed_average;
    owed_waiting = owed_left = there;
    owed_lasts = last;
    w.pinned = (struct wefti_chain){&own_fiber.link, &own_fiber.link, 1};
    wefti_worker_owe(&w, most);
    looks = 0;
    while (wefti_worker_pick(&w) == &owed_task)
        count++;
    CHECK_EQ(w.owed, 0);
    CHECK_EQ(w.owed_until, 0);
    CHECK_EQ(w.pinned.count, 0);
    CHECK_EQ(w.pinned_left, owed_pinned ? owed_pinned - 1 : 0);
    return count;
}

TEST(worker_owes_tasks, "") {
    CHECK_EQ(come_first(0, 256, 0), 0);
    CHECK_EQ(come_first(1, 256, 0), 1);
    CHECK_EQ(come_first(100, 256, 0), 100); /* who waits now, once */
    CHECK_EQ(looks, 1 + 7 + 2 + 1); /* 0; 1 to 64; 48, 80, 96; and 0 and 16 to 64 are among these */
    CHECK_EQ(come_first(1000, 256, 0), 256);
    CHECK_EQ(come_first(100, 256, WEFTI_OWED_TIME), 1); /* a long one, and no other */
    CHECK_EQ(come_first(100, 256, WEFTI_OWED_TIME - 1), 2);
    CHECK_EQ(come_first(100, 256, WEFTI_OWED_TIME / 3), 4); /* looked at before the third and the fifth */
    CHECK_EQ(come_first(256, 256, WEFTI_OWED_TIME / 20), 32); /* before each sixteenth */
    owed_average = 1001; /* lately they were long */
    CHECK_EQ(come_first(256, 256, WEFTI_OWED_TIME / 20), 20); /* before each */
    owed_average = 1000;
    CHECK_EQ(come_first(256, 256, WEFTI_OWED_TIME / 20), 32);
    owed_average = 0;
    owed_pinned = 0; /* it was the scheduler's turn: it has had that */
    CHECK_EQ(come_first(100, 10, 0), 10);
    CHECK_EQ(come_first(100, 256, WEFTI_OWED_TIME), 1);
    owed_pinned = 5;
}

static struct wefti_worker owing(struct weft_runtime *rt) {
    struct wefti_worker w = {.rt = rt, .sched = &owed_sched, .tick_left = 100, .pinned_left = 5};
    now += 1;
    owed_waiting = owed_left = 10;
    owed_lasts = 0;
    w.pinned = (struct wefti_chain){&own_fiber.link, &own_fiber.link, 1};
    return w;
}

/* One that came before the worker's own, and has used up its turn, too, does not make others come first: one of the worker's own has its turn before. */
TEST(worker_owes_once, "") {
    struct weft_runtime rt = {.workers = 1};
    struct wefti_worker w = owing(&rt);
    w.own_given = 3;
    w.own_left = 2;
    wefti_worker_owe(&w, 2);
    CHECK_EQ(w.own_left, 0); /* no fiber follows another */
    CHECK_EQ(w.pinned_left, 4);
    CHECK(wefti_worker_pick(&w) == &owed_task);
    wefti_worker_owe(&w, 2);
    CHECK_EQ(w.owed, 1);
    CHECK(wefti_worker_pick(&w) == &owed_task);
    wefti_worker_owe(&w, 2);
    CHECK_EQ(w.owed, 0);
    CHECK(wefti_worker_pick(&w) == &own_fiber);
    CHECK_EQ(w.owed_made, 2);
    wefti_worker_owe(&w, 2);
    CHECK_EQ(w.owed, 2);
    CHECK_EQ(w.owed_made, 0);
}

/* Also without one in the queue that others could take from: the newest. */
TEST(worker_owes_newest, "") {
    struct weft_runtime rt = {.workers = 1};
    struct wefti_worker w = owing(&rt);
    owed_waiting = 0;
    wefti_worker_owe(&w, 256);
    CHECK_EQ(w.owed, 0);
    CHECK_EQ(w.owed_until, 0);
    store_relaxed(&w.lifo.slot, &owed_task.link);
    wefti_worker_owe(&w, 256);
    CHECK_EQ(w.owed, 1);
    w.owed_until = 0;
    owed_waiting = 10;
    wefti_worker_owe(&w, 256);
    CHECK_EQ(w.owed, 11);
}

/* Where a scheduler does not say how many wait, they and the fibers take turns as ever; and while tasks come first, no fiber follows another. */
TEST(worker_owes_nothing, "") {
    static const struct wefti_sched sched = {.name = "silent", .next = next_of_owed};
    struct weft_runtime rt = {.workers = 1};
    struct wefti_worker w = {.rt = &rt, .sched = &sched, .own_given = 7, .own_left = 5};
    wefti_worker_owe(&w, 256);
    CHECK_EQ(w.owed, 0);
    CHECK_EQ(w.own_left, 5);
}
