/* stop.c - stopping a runtime: what still runs, what is refused, what is cancelled, how long it takes. */
#include <weft/sync.h>

#include "fixture.h"

static atomic_uint ran;

/* -- Graceful -------------------------------------------------------------------------------------------------- */

/* Everything that was accepted is run, also what was still queued. */
API_TEST(stop_drains_queue, "W37", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 5000; i++)
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    CHECK_EQ(ran, 5000);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0); /* again: harmless */
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), 0);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

API_TEST(stop_refuses_from_outside, "W38", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = (weft_task *)(void *)&ran;
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    CHECK_EQ(weft_go(rt, fixture_count, &ran, &task), -ESHUTDOWN);
    CHECK_EQ(task, &ran);
    CHECK_EQ(weft_stats_live(rt), 0);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    CHECK_EQ(ran, 0);
}

struct stopping {
    weft_runtime *rt;
    struct gate gate;
    atomic_bool stopped;
    int result;
};

static weft_poll spawn_when_open(weft_task *self, void *state) {
    struct stopping *s = state;
    if (!gate_pass(&s->gate, self))
        return WEFT_PENDING;
    for (int i = 0; i < 10; i++) /* tasks of the runtime may still start others */
        REQUIRE_EQ(weft_go(NULL, fixture_count, &ran, NULL), 0);
    return weft_done(self, 0, NULL);
}

static void stop_or_refuse(unsigned index, void *arg) {
    struct stopping *s = arg;
    if (index == 0) {
        s->result = weft_runtime_stop(s->rt, WEFT_NEVER);
        s->stopped = true;
        return;
    }
    int error; /* refused as soon as the stop has begun, although it has not ended */
    while ((error = weft_go(s->rt, fixture_count, &ran, NULL)) == 0)
        harness_nap();
    CHECK_EQ(error, -ESHUTDOWN);
    CHECK(!s->stopped);
    CHECK_EQ(weft_runtime_stop(s->rt, WEFT_NOW), -EBUSY); /* somebody is stopping it already */
    gate_open(&s->gate);
}

/* A graceful stop waits for tasks that wait, and for what they start. */
API_TEST(stop_waits, "W36 W37 W38", .workers = {1, 2, 4}) {
    static struct stopping s = {.gate = GATE_INIT};
    s.rt = fixture_begin_patient();
    REQUIRE_EQ(weft_go(s.rt, spawn_when_open, &s, NULL), 0);
    REQUIRE_EVENTUALLY(gate_waiting(&s.gate) == 1);
    harness_threads(2, stop_or_refuse, &s);
    CHECK_EQ(s.result, 0);
    weft_stats stats = fixture_stats(s.rt);
    CHECK_EQ(stats.spawned, stats.completed);
    CHECK_EQ(stats.cancelled, 0);
    CHECK_EQ(ran, stats.completed - 1);
    CHECK_EQ(weft_runtime_destroy(s.rt), 0);
}

/* -- Immediate, and after a deadline ---------------------------------------------------------------------------- */

/* Waiting tasks are woken by it, so that they end: idle ones as well as those that never stop yielding. */
API_TEST(stop_cancels, "W35 W36", .workers = {1, 2, 4}) {
    static struct gate gate = GATE_INIT;
    for (int soon = 0; soon < 2; soon++) {
        weft_runtime *rt = fixture_begin_patient();
        weft_task *task[60];
        for (int i = 0; i < 60; i++)
            task[i] = fixture_go(rt, i % 2 ? fixture_wait_gate : fixture_yield_for_ever, &gate);
        REQUIRE_EVENTUALLY(gate_waiting(&gate) == 30);
        int64_t before = harness_clock();
        CHECK_EQ(weft_runtime_stop(rt, soon ? weft_after(20000000) : WEFT_NOW), -ECANCELED);
        int64_t took = harness_clock() - before;
        if (soon)
            CHECK_GE(took, 20000000); /* until then they had time */
        CHECK_LT(took, INT64_C(1500000000));
        for (int i = 0; i < 60; i++) {
            weft_result result = {1, NULL};
            CHECK_EQ(weft_join(task[i], &result, WEFT_NOW), 0);
            CHECK_EQ(result.status, -ECANCELED);
            weft_task_drop(task[i]);
        }
        CHECK_EQ(fixture_stats(rt).cancelled, 60);
        gate_abandon(&gate);
        CHECK_EQ(weft_runtime_destroy(rt), 0);
    }
}

/* What is queued behind a running task when the runtime is stopped at once is never entered. */
enum { QUEUED = 1000 };

static struct {
    weft_runtime *rt;
    struct blocker blocker;
    weft_task *task[QUEUED];
} queued;

static void stop_or_release(unsigned index, void *arg) {
    (void)arg;
    if (index == 0) {
        CHECK_EQ(weft_runtime_stop(queued.rt, WEFT_NOW), -ECANCELED);
        return;
    }
    for (int i = 0; i < QUEUED; i++)
        REQUIRE_EVENTUALLY(weft_task_is_cancelled(queued.task[i]));
    queued.blocker.release = true;
}

API_TEST(stop_enters_nothing_queued, "J31 K40", .workers = {1}) {
    queued.rt = fixture_begin_patient();
    REQUIRE_EQ(weft_go(queued.rt, fixture_block, &queued.blocker, NULL), 0);
    REQUIRE_EVENTUALLY(queued.blocker.entered);
    for (int i = 0; i < QUEUED; i++)
        queued.task[i] = fixture_go(queued.rt, fixture_count, &ran);
    harness_threads(2, stop_or_release, NULL);
    CHECK_EQ(ran, 0);
    CHECK_EQ(fixture_stats(queued.rt).cancelled, QUEUED);
    for (int i = 0; i < QUEUED; i++)
        weft_task_drop(queued.task[i]);
    CHECK_EQ(weft_runtime_destroy(queued.rt), 0);
}

/* A running poll finishes first. */
static weft_poll finish_slowly(weft_task *self, void *state) {
    struct blocker *b = state;
    atomic_store(&b->entered, true);
    for (int i = 0; i < 400; i++)
        harness_nap();
    atomic_store(&b->release, true);
    return weft_done(self, 0, NULL);
}

API_TEST(stop_lets_polls_finish, "K41", .workers = {1, 2}) {
    struct blocker blocker = {0};
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = fixture_go(rt, finish_slowly, &blocker);
    REQUIRE_EVENTUALLY(blocker.entered);
    int result = weft_runtime_stop(rt, WEFT_NOW);
    CHECK(result == -ECANCELED || result == 0);
    CHECK(blocker.release);
    CHECK(weft_task_is_done(task));
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* Shielded work finishes before the end. */
static weft_poll shielded_steps(weft_task *self, void *state) {
    unsigned *steps = state;
    if (++*steps == 1)
        REQUIRE_EQ(weft_shield(self), 0);
    if (*steps < 1000)
        return WEFT_YIELD;
    if (*steps == 1000)
        REQUIRE_EQ(weft_unshield(self), 0);
    return WEFT_YIELD; /* for ever, were it not cancelled */
}

API_TEST(stop_waits_for_shields, "B56", .workers = {1, 2}) {
    unsigned steps = 0;
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = fixture_go(rt, shielded_steps, &steps);
    REQUIRE_EVENTUALLY(fixture_stats(rt).polls > 0);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_GE(steps, 1000);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* -- A task that does not end ------------------------------------------------------------------------------------ */

static void stop_busy(void *rt) { CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -EBUSY); }
static void destroy_busy(void *rt) { CHECK_EQ(weft_runtime_destroy(rt), -EBUSY); }

API_TEST(stop_names_the_stubborn, "W36", .workers = {2}, .timeout = 20) {
    struct blocker blocker = {0};
    weft_spec spec = WEFT_SPEC_INIT;
    weft_runtime *rt = fixture_begin_hasty();
    spec.poll = fixture_block;
    spec.state = &blocker;
    spec.name = "stubborn";
    REQUIRE_EQ(weft_spawn(rt, &spec, NULL), 0);
    REQUIRE_EVENTUALLY(blocker.entered);
    const char *text = fixture_said(stop_busy, rt);
    CHECK_CONTAINS(text, "do not end");
    CHECK_CONTAINS(text, "\"stubborn\" running");
    CHECK_EQ(weft_go(rt, fixture_count, &ran, NULL), -ESHUTDOWN);
    if (fixture_on("ring")) /* the same again, a grace later */
        CHECK_CONTAINS(fixture_said(destroy_busy, rt), "\"stubborn\" running");
    blocker.release = true; /* the runtime has stayed up, and a later call succeeds */
    int result = weft_runtime_stop(rt, fixture_soon());
    CHECK(result == 0 || result == -ECANCELED);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* -- References ---------------------------------------------------------------------------------------------------- */

static weft_poll leave_waker(weft_task *self, void *state) {
    *(weft_waker *)state = weft_waker_of(self);
    return weft_done(self, 0, NULL);
}

static struct {
    weft_runtime *rt;
    weft_waker waker;
    atomic_bool destroying;
} late;

static void destroy_or_drop(unsigned index, void *arg) {
    (void)arg;
    if (index == 0) {
        atomic_store(&late.destroying, true);
        CHECK_EQ(weft_runtime_destroy(late.rt), 0);
        return;
    }
    REQUIRE_EVENTUALLY(late.destroying);
    for (int i = 0; i < 20; i++)
        weft_waker_wake_keep(late.waker); /* its task is over; the waker is still good */
    weft_waker_drop(late.waker);
}

/* Destroying waits for wakers that other threads are about to drop. */
API_TEST(stop_destroy_waits_for_references, "B54", .workers = {1, 2}) {
    for (int i = 0; i < 20; i++) {
        late.rt = fixture_begin_patient();
        late.destroying = false;
        fixture_finish(fixture_go(late.rt, leave_waker, &late.waker));
        harness_on_hang(NULL, NULL);
        harness_threads(2, destroy_or_drop, NULL);
    }
}

/* As long as it takes, however that is said. */
static void destroy_or_drop_late(unsigned index, void *arg) {
    if (index == 1) {
        REQUIRE_EVENTUALLY(late.destroying && fixture_threads("crew-") == 0); /* nothing else is left to wait for */
        for (int i = 0; i < 5; i++)
            harness_nap();
    }
    destroy_or_drop(index, arg);
}

API_TEST(stop_destroy_waits_for_ever, "B54", .workers = {1}) {
    static const int64_t grace[] = {-1, INT64_MIN, WEFT_NEVER, WEFT_NEVER - 1};
    for (int i = 0; i < 4; i++) {
        weft_config config = WEFT_CONFIG_INIT;
        config.grace_ns = grace[i];
        config.name = "crew";
        late.rt = fixture_begin(&config);
        late.destroying = false;
        fixture_finish(fixture_go(late.rt, leave_waker, &late.waker));
        harness_on_hang(NULL, NULL);
        harness_threads(2, destroy_or_drop_late, NULL);
    }
}

/* What is held on to for longer keeps the runtime, and is named: some of it, if it is much. */
API_TEST(stop_destroy_refuses_while_held, "B54", .workers = {1}) {
    weft_waker waker;
    weft_runtime *rt = fixture_begin_hasty();
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task, *others[20];
    spec.poll = leave_waker;
    spec.state = &waker;
    spec.name = "keeper\n";
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    REQUIRE_EQ(weft_join(task, NULL, fixture_soon()), 0);
    CHECK_CONTAINS(fixture_said(destroy_busy, rt), "are still held (1): \"keeper?\"\n");
    weft_task_drop(task);
    weft_waker_drop(waker);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    if (!fixture_on("ring"))
        return;
    char longest[300]; /* far longer than is shown */
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    rt = fixture_begin_hasty();
    for (unsigned i = 0; i < 20; i++) {
        atomic_uint polls = 0;
        spec.poll = fixture_count;
        spec.state = &polls;
        spec.name = longest;
        REQUIRE_EQ(weft_spawn(rt, &spec, &others[i]), 0);
        REQUIRE_EQ(weft_join(others[i], NULL, fixture_soon()), 0);
    }
    spec.poll = leave_waker;
    spec.state = &waker;
    spec.name = "waker";
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    fixture_finish(task);
    const char *said = fixture_said(destroy_busy, rt);
    CHECK_CONTAINS(said, "are still held (21): \"nnnn");
    CHECK_CONTAINS(said, "nnnn\", ...\n");
    for (unsigned i = 0; i < 20; i++)
        weft_task_drop(others[i]);
    CHECK_CONTAINS(fixture_said(destroy_busy, rt), "are still held (1): \"waker\"\n");
    weft_waker_drop(waker);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* -- How long it takes --------------------------------------------------------------------------------------------- */

API_TEST(stop_is_prompt, "K38 K39 K41", .workers = {1, 2, 4}) {
    for (int i = 0; i < 10; i++) {
        weft_runtime *rt = fixture_begin_patient();
        if (i % 2)
            REQUIRE_EVENTUALLY(weft_stats_parked(rt) == weft_runtime_workers(rt));
        int64_t before = harness_clock();
        CHECK_EQ(weft_runtime_stop(rt, i % 3 ? WEFT_NEVER : WEFT_NOW), 0);
        CHECK_LT(harness_clock() - before, 200000000);
        REQUIRE_EVENTUALLY(fixture_threads("crew-") == 0); /* all joined */
        CHECK_EQ(weft_runtime_destroy(rt), 0);
    }
}

/* -- From the wrong place -------------------------------------------------------------------------------------------- */

static weft_poll stop_from_task(weft_task *self, void *state) {
    CHECK_EQ(weft_runtime_stop(state, WEFT_NOW), -EDEADLK);
    CHECK_EQ(weft_runtime_destroy(state), -EDEADLK);
    return weft_done(self, 0, NULL);
}

/* Nor from a blocking job that its pool runs. */
static int stop_in_job(void *rt) {
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -EDEADLK);
    return 0;
}
static int stop_by_job(void *rt) {
    int result = -1;
    CHECK_EQ(weft_blocking(stop_in_job, rt, &result, WEFT_NEVER), 0);
    return result;
}
API_TEST(stop_from_job, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, stop_by_job, rt, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

API_TEST(stop_from_task, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    fixture_finish(fixture_go(rt, stop_from_task, rt));
    fixture_end(rt);
}

API_TEST(stop_destroy_null, "") { CHECK_EQ(weft_runtime_destroy(NULL), 0); }

/* Destroying without stopping cancels. */
API_TEST(stop_destroy_cancels, "W35", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 10; i++)
        REQUIRE_EQ(weft_go(rt, fixture_yield_for_ever, NULL, NULL), 0);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* Tasks that are being spawned while a stop cancels are refused or cancelled, never forgotten. */
static weft_poll breed(weft_task *self, void *state) {
    int error = weft_go(NULL, breed, state, NULL);
    CHECK(error == 0 || error == -ESHUTDOWN);
    atomic_fetch_add(&ran, 1);
    return error ? weft_done(self, 0, NULL) : WEFT_YIELD;
}

API_TEST(stop_ends_breeding, "W35 W36 W38", .workers = {1, 2, 4}) {
    for (int i = 0; i < 5; i++) {
        weft_runtime *rt = fixture_begin_patient();
        ran = 0;
        for (int k = 0; k < 3; k++) {
            int error = weft_go(rt, breed, NULL, NULL);
            CHECK(error == 0 || (k > 0 && error == -EAGAIN)); /* the first may have filled the queue with its brood */
        }
        REQUIRE_EVENTUALLY(ran >= 100);
        CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
        weft_stats stats = fixture_stats(rt);
        CHECK_EQ(stats.spawned, stats.completed);
        CHECK_EQ(weft_runtime_destroy(rt), 0);
    }
}

/* -- Shielded fibers ------------------------------------------------------------------------------------------ */

static weft_event shielded_go;
static atomic_bool shielded_began;

static int wait_shielded(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_shield(weft_task_self()), 0);
    atomic_store(&shielded_began, true);
    return weft_event_wait(&shielded_go, WEFT_NEVER);
}

/* While a stop waits for a shielded fiber, that is entered once for the cancel, and not again and again: here for 300 ms. */
API_TEST(stop_leaves_shielded_alone, "B56 R36", .workers = {1, 2}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.grace_ns = 300000000;
    weft_runtime *rt = fixture_begin(&config);
    weft_task *task = NULL;
    shielded_go = (weft_event)WEFT_EVENT_INIT;
    REQUIRE_EQ(weft_fiber_go(rt, wait_shielded, NULL, &task), 0);
    REQUIRE_EVENTUALLY(atomic_load(&shielded_began));
    harness_on_hang(NULL, NULL);
    CHECK_CONTAINS(fixture_said(stop_busy, rt), "these tasks do not end");
    CHECK_LE(fixture_stats(rt).polls, 3); /* its begin, the cancel, and a wake that came before it had left its stack */
    weft_event_set(&shielded_go);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}
