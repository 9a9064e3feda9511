/* fiber_yield.c - fibers take turns: order, fairness between fibers and polls, checkpoints. */
#include "fiber.h"

/* -- Order on one worker ---------------------------------------------------------------------------------------- */

static struct {
    char text[256];
    size_t length;
} order; /* plain: one worker */

static int say(void *arg) {
    for (int i = 0; i < 5; i++) {
        order.text[order.length++] = *(const char *)arg;
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

static int start_two(void *arg) {
    (void)arg;
    weft_task *a = fiber_go(NULL, say, (void *)"a"), *b = fiber_go(NULL, say, (void *)"b");
    CHECK_EQ(weft_join(a, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_join(b, NULL, WEFT_NEVER), 0);
    weft_task_drop(a);
    weft_task_drop(b);
    return 0;
}

API_TEST(fiber_yield_alternates, "J5 J9", .workers = {1}) {
    CHECK_EQ(fiber_run(start_two, NULL).status, 0);
    order.text[order.length] = 0;
    CHECK_EQ(order.length, 10);
    unsigned repeats = 0;
    for (size_t i = 1; i < order.length; i++)
        repeats += order.text[i] == order.text[i - 1];
    if (!fixture_on("sim")) /* which draws */
        CHECK_EQ(repeats, 0);
}

static int count_turns(void *arg) {
    unsigned *turns = arg;
    while (!weft_yield())
        if (++*turns == 1000)
            return 0;
    return -1;
}

/* Ten that all have the same to do end within a turn of each other. */
static unsigned turns[10];
static int start_ten(void *arg) {
    (void)arg;
    weft_task *task[10];
    for (int i = 0; i < 10; i++)
        task[i] = fiber_go(NULL, count_turns, &turns[i]);
    CHECK_EQ(weft_join(task[0], NULL, WEFT_NEVER), 0);
    for (int i = 1; i < 10 && !fixture_on("sim"); i++)
        CHECK_GE(turns[i], 990);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_join(task[i], NULL, WEFT_NEVER), 0);
        weft_task_drop(task[i]);
    }
    return 0;
}

API_TEST(fiber_yield_is_fair, "J5", .workers = {1}) { CHECK_EQ(fiber_run(start_ten, NULL).status, 0); }

/* Each of their turns counts, however short the way from one to the next. */
API_TEST(fiber_yield_is_counted, "B34", .workers = {1}) {
    static unsigned mine[3];
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[3];
    for (int i = 0; i < 3; i++)
        task[i] = fiber_go(rt, count_turns, &mine[i]);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(fixture_stats(rt).polls, 3 * (1 + 1000)); /* the first, and one after each yield */
    fixture_end(rt);
}

/* A fiber alone gets its turn again at once, for any number of turns. */
static int yield_many(void *arg) {
    (void)arg;
    for (int i = 0; i < (fixture_on("reactor") ? 10000 : 100000); i++) /* there, each goes through the control thread */
        if (weft_yield())
            return -1;
    return 0;
}

API_TEST(fiber_yield_alone, "", .workers = {1, 2}) { CHECK_EQ(fiber_run(yield_many, NULL).status, 0); }

/* -- Nobody starves ------------------------------------------------------------------------------------------------ */

static weft_poll count_polls(weft_task *self, void *state) {
    atomic_fetch_add((atomic_ulong *)state, 1);
    return weft_task_is_cancelled(self) ? WEFT_READY : WEFT_YIELD;
}

static int count_yields(void *arg) {
    int error;
    while (!(error = weft_yield()))
        atomic_fetch_add((atomic_ulong *)arg, 1);
    return error;
}

API_TEST(fiber_yield_and_polls_share, "J5", .workers = {1, 2}) {
    static atomic_ulong polls[3], yields[3];
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[6];
    for (int i = 0; i < 3; i++) {
        task[i] = fixture_go(rt, count_polls, &polls[i]);
        task[3 + i] = fiber_go(rt, count_yields, &yields[i]);
    }
    for (int i = 0; i < 3; i++) { /* all go on, none is left behind for ever */
        REQUIRE_EVENTUALLY(polls[i] > 1000);
        REQUIRE_EVENTUALLY(yields[i] > 1000);
    }
    for (int i = 0; i < 6; i++)
        weft_task_cancel(task[i]);
    for (int i = 0; i < 6; i++)
        fixture_finish(task[i]);
    fixture_end(rt);
}

/* Work from outside gets in while all workers are busy with fibers that yield for ever. */
API_TEST(fiber_yield_lets_outside_in, "B28", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *busy[4];
    atomic_uint ran = 0;
    for (int i = 0; i < 4; i++)
        busy[i] = fiber_go(rt, fiber_yield_for_ever, NULL);
    for (int i = 0; i < 50; i++)
        fixture_finish(fixture_go(rt, fixture_count, &ran));
    CHECK_EQ(ran, 50);
    for (int i = 0; i < 4; i++) {
        weft_task_cancel(busy[i]);
        CHECK_EQ(fixture_finish(busy[i]).status, -ECANCELED);
    }
    fixture_end(rt);
}

/* A fiber that was woken gets its turn among fibers that yield for ever; timers, too. */
static int sleep_often(void *arg) {
    (void)arg;
    for (int i = 0; i < 5; i++)
        REQUIRE_EQ(weft_sleep(100000), 0);
    return 0;
}

API_TEST(fiber_yield_lets_timers_ring, "J5", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *busy[4];
    for (int i = 0; i < 4; i++)
        busy[i] = fiber_go(rt, fiber_yield_for_ever, NULL);
    CHECK_EQ(fixture_finish(fiber_go(rt, sleep_often, NULL)).status, 0);
    struct event event = {0};
    weft_task *woken = fiber_go(rt, fiber_wait_event, &event);
    REQUIRE_EVENTUALLY(event_waiting(&event) == 1);
    event_set(&event);
    CHECK_EQ(fixture_finish(woken).status, 0);
    for (int i = 0; i < 4; i++) {
        weft_task_cancel(busy[i]);
        CHECK_EQ(fixture_finish(busy[i]).status, -ECANCELED);
    }
    fixture_end(rt);
}

/* Fibers that end and spawn the next, for ever, do not starve one that yields. */
static atomic_bool enough;

static int respawn(void *arg) {
    (void)arg;
    if (!atomic_load(&enough))
        REQUIRE_EQ(weft_fiber_go(NULL, respawn, NULL, NULL), 0);
    return 0;
}

API_TEST(fiber_yield_among_new_ones, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(weft_fiber_go(rt, respawn, NULL, NULL), 0);
    unsigned mine = 0;
    CHECK_EQ(fixture_finish(fiber_go(rt, count_turns, &mine)).status, 0);
    CHECK_EQ(mine, 1000);
    atomic_store(&enough, true);
    fixture_end(rt);
}

/* The same beside fibers that yield for ever, which take every other turn: an old task gets one, too. */
API_TEST(fiber_yield_old_tasks_run, "B46", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *busy[2];
    atomic_uint polls = 0;
    for (int i = 0; i < 2; i++)
        busy[i] = fiber_go(rt, fiber_yield_for_ever, NULL);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(weft_fiber_go(rt, respawn, NULL, NULL), 0);
    for (int i = 0; i < 20; i++)
        fixture_finish(fixture_go(rt, fixture_count, &polls));
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++) {
        weft_task_cancel(busy[i]);
        CHECK_EQ(fixture_finish(busy[i]).status, -ECANCELED);
    }
    fixture_end(rt);
}

/* -- Checkpoints --------------------------------------------------------------------------------------------------- */

static atomic_bool stop_computing;

static int compute(void *arg) {
    (void)arg;
    int error = 0;
    while (!atomic_load(&stop_computing) && !(error = weft_checkpoint()))
        ;
    return error;
}

static int stop_others(void *arg) {
    (void)arg;
    atomic_store(&stop_computing, true);
    return 0;
}

/* A loop that never waits lets others run. */
API_TEST(fiber_checkpoint_lets_others_run, "J5", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *loop = fiber_go(rt, compute, NULL);
    CHECK_EQ(fixture_finish(fiber_go(rt, stop_others, NULL)).status, 0);
    CHECK_EQ(fixture_finish(loop).status, 0);
    atomic_store(&stop_computing, false); /* a poll task gets in, too */
    loop = fiber_go(rt, compute, NULL);
    atomic_uint ran = 0;
    fixture_finish(fixture_go(rt, fixture_count, &ran));
    CHECK_EQ(ran, 1);
    atomic_store(&stop_computing, true);
    CHECK_EQ(fixture_finish(loop).status, 0);
    fixture_end(rt);
}

API_TEST(fiber_checkpoint_tells_of_cancel, "J31", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *loop = fiber_go(rt, compute, NULL);
    REQUIRE_EVENTUALLY(strcmp(weft_task_state(loop), "scheduled"));
    weft_task_cancel(loop);
    CHECK_EQ(fixture_finish(loop).status, -ECANCELED);
    fixture_end(rt);
}

/* -- Simulation ------------------------------------------------------------------------------------------------------ */

static struct {
    uint64_t hash;
} seen;

static int record(void *arg) {
    for (int i = 0; i < 30; i++) {
        seen.hash = (seen.hash ^ (uintptr_t)arg) * UINT64_C(0x100000001b3) + (uint64_t)weft_now();
        for (volatile int spin = rand() % 2000; spin > 0; spin--) /* real time must not matter */
            ;
        if (i % 7 == (int)(uintptr_t)arg % 7)
            weft_sleep((int64_t)(uintptr_t)arg * 300000);
        else if (i % 3 == 0)
            weft_yield();
        else
            weft_checkpoint();
    }
    return 0;
}

static int record_all(void *arg) {
    (void)arg;
    weft_task *task[8];
    for (uintptr_t i = 0; i < 8; i++)
        task[i] = fiber_go(NULL, record, (void *)(i + 1));
    for (int i = 0; i < 8; i++) {
        weft_join(task[i], NULL, WEFT_NEVER);
        weft_task_drop(task[i]);
    }
    return 0;
}

static uint64_t simulate(uint64_t seed) {
    weft_config config = WEFT_CONFIG_INIT;
    config.seed = seed;
    seen.hash = 1;
    REQUIRE_EQ(weft_fiber_run(&config, record_all, NULL, NULL), 0);
    return seen.hash;
}

/* Yields, timers, checkpoints: the same seed gives the same order and the same times. */
API_TEST(fiber_sim_repeats, "J6", .sched = "sim") {
    for (uint64_t seed = 1; seed < 20; seed++) {
        uint64_t first = simulate(seed);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(simulate(seed), first);
    }
    CHECK_NE(simulate(1), simulate(2));
}
