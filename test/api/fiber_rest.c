/* fiber_rest.c - a fiber that waits while others of its worker run: what is seen of it, and who wakes it. */
#include "fiber.h"

static struct {
    weft_chan *chan;
    weft_task *waiting;
    _Atomic int state; /* what the thread outside is to do: 1 send; 2 cancel; 3 it has */
} rest;

static int receive(void *arg) {
    (void)arg;
    int value = 0, error = weft_chan_recv(rest.chan, &value, WEFT_NEVER);
    return error ? error : value;
}

static bool is_idle(void) { return strcmp(weft_task_state(rest.waiting), "idle") == 0; }

/* Start it, and let it come to its wait. */
static void let_wait(void) {
    rest.waiting = fiber_go(NULL, receive, NULL);
    while (!is_idle())
        CHECK_EQ(weft_yield(), 0);
    CHECK_STR(weft_task_state(weft_task_self()), "running");
}

static weft_result end(void) {
    weft_result result = {1, NULL};
    CHECK_EQ(weft_join(rest.waiting, &result, WEFT_NEVER), 0);
    weft_task_drop(rest.waiting);
    return result;
}

static int talk(void *arg) {
    (void)arg;
    int value = 7;
    let_wait(); /* woken by who runs after it */
    CHECK_EQ(weft_chan_send(rest.chan, &value, WEFT_NEVER), 0);
    CHECK(!is_idle());
    CHECK_EQ((intptr_t)end().value, 7);
    let_wait(); /* cancelled by him */
    weft_task_cancel(rest.waiting);
    CHECK_EQ(end().status, -ECANCELED);
    return 0;
}

API_TEST(fiber_rest_own_worker, "J30 J31 B49", .workers = {1}) {
    REQUIRE_EQ(weft_chan_create(sizeof(int), 0, &rest.chan), 0);
    CHECK_EQ(fiber_run(talk, NULL).status, 0);
    CHECK_EQ(weft_chan_destroy(rest.chan), 0);
}

/* Its worker never sleeps, and never stops running another of its fibers: it goes on all the same. */
static int keep_busy(void *arg) {
    for (int what = 1; what <= 2; what++) {
        let_wait();
        atomic_store(&rest.state, what);
        while (!weft_task_is_done(rest.waiting) || (what == 2 && atomic_load(&rest.state) != 3))
            CHECK_EQ(weft_yield(), 0);
        weft_result result = end();
        CHECK_EQ(result.status, what == 1 ? 0 : -ECANCELED);
        CHECK_EQ((intptr_t)result.value, what == 1 ? 9 : 0);
    }
    return (void)arg, 0;
}

static void outside(unsigned index, void *arg) {
    (void)index, (void)arg;
    int value = 9;
    REQUIRE_EVENTUALLY(atomic_load(&rest.state) == 1);
    CHECK_EQ(weft_chan_send(rest.chan, &value, WEFT_NEVER), 0);
    REQUIRE_EVENTUALLY(atomic_load(&rest.state) == 2);
    weft_task_cancel(rest.waiting);
    atomic_store(&rest.state, 3); /* done with it */
}

API_TEST(fiber_rest_from_outside, "J30 J31 B52", .workers = {1, 2}) {
    REQUIRE_EQ(weft_chan_create(sizeof(int), 0, &rest.chan), 0);
    weft_runtime *rt = fixture_begin_patient();
    weft_task *busy = fiber_go(rt, keep_busy, NULL);
    harness_threads(1, outside, NULL);
    CHECK_EQ(fixture_finish(busy).status, 0);
    fixture_end(rt);
    CHECK_EQ(weft_chan_destroy(rest.chan), 0);
}

/* Woken or cancelled from outside it has its turn among the others, not when its worker comes to its loop: turns may be long. */
#define ROUNDS 8
#define SOON 20u /* turns of others: new fibers may come in a row first */

static struct {
    _Atomic unsigned asked, done; /* how often the thread outside was asked to wake the one that waits, and has */
    unsigned turns;
} late;

static void wake_outside(unsigned index, void *arg) {
    (void)index;
    for (unsigned i = 1; i <= ROUNDS; i++) {
        int value = (int)i;
        REQUIRE_EVENTUALLY(atomic_load(&late.asked) == i);
        if (arg)
            weft_task_cancel(rest.waiting);
        else
            CHECK_EQ(weft_chan_send(rest.chan, &value, WEFT_NEVER), 0);
        atomic_store(&late.done, i);
    }
}

/* In one turn: have it woken. */
static void have_it_woken(void) {
    unsigned asked = atomic_fetch_add(&late.asked, 1) + 1;
    while (atomic_load(&late.done) != asked)
        harness_nap();
}

static int yield_beside(void *arg) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        let_wait();
        have_it_woken();
        unsigned turns = 0;
        for (; !weft_task_is_done(rest.waiting); turns++)
            CHECK_EQ(weft_yield(), 0);
        CHECK_LE(turns, SOON);
        CHECK_EQ(end().status, arg ? -ECANCELED : 0);
    }
    return 0;
}

typedef weft_task *(*go_fn)(weft_runtime *rt, weft_fiber_fn fn, void *arg);

static void run_late(go_fn go, weft_fiber_fn fn, void *arg) {
    atomic_store(&late.asked, 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 0, &rest.chan), 0);
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = go(rt, fn, arg);
    harness_threads(1, wake_outside, arg);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
    CHECK_EQ(weft_chan_destroy(rest.chan), 0);
}

API_TEST(fiber_rest_beside_yields, "J5 J30", .workers = {1}) { run_late(fiber_go, yield_beside, NULL); }
API_TEST(fiber_rest_cancelled_beside_yields, "J5 J31", .workers = {1}) { run_late(fiber_go, yield_beside, &late); }

static int take_a_turn(void *arg) {
    if (late.turns++ == 0)
        have_it_woken();
    return (void)arg, 0;
}

static int start_many(void *arg) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        int value = 0;
        late.turns = 0;
        for (unsigned k = 0; k < 5 * SOON; k++)
            REQUIRE_EQ(weft_fiber_go(NULL, take_a_turn, NULL, NULL), 0);
        CHECK_EQ(weft_chan_recv(rest.chan, &value, WEFT_NEVER), 0);
        if (!fixture_on("sim") && !fixture_on("reactor")) /* the seed decides; first come, first served */
            CHECK_LE(late.turns, SOON);
        while (late.turns < 5 * SOON)
            CHECK_EQ(weft_yield(), 0);
    }
    return (void)arg, 0;
}

API_TEST(fiber_rest_beside_new_ones, "J30", .workers = {1}) { run_late(fiber_go, start_many, NULL); }

/* Fibers that may move talk to each other: they leave their worker by waiting, and do not rest. */
static weft_chan *ask, *answer;

static int answer_all(void *arg) {
    int value;
    while (weft_chan_recv(ask, &value, WEFT_NEVER) == 0)
        CHECK_EQ(weft_chan_send(answer, &value, WEFT_NEVER), 0);
    return (void)arg, 0;
}

static int ask_beside(void *arg) {
    weft_task *other = fiber_go_migrating(NULL, answer_all, NULL);
    for (unsigned i = 0; i < ROUNDS; i++) {
        let_wait();
        have_it_woken();
        int turns = 0, value;
        for (; !weft_task_is_done(rest.waiting); turns++) {
            CHECK_EQ(weft_chan_send(ask, &turns, WEFT_NEVER), 0);
            CHECK_EQ(weft_chan_recv(answer, &value, WEFT_NEVER), 0);
        }
        CHECK_LE(turns, SOON);
        CHECK_EQ(end().status, 0);
    }
    weft_chan_close(ask);
    CHECK_EQ(weft_join(other, NULL, WEFT_NEVER), 0);
    weft_task_drop(other);
    return (void)arg, 0;
}

API_TEST(fiber_rest_beside_waits, "J30", .workers = {1}) {
    REQUIRE_EQ(weft_chan_create(sizeof(int), 0, &ask), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 0, &answer), 0);
    run_late(fiber_go_migrating, ask_beside, NULL);
    CHECK_EQ(weft_chan_destroy(ask), 0);
    CHECK_EQ(weft_chan_destroy(answer), 0);
}
