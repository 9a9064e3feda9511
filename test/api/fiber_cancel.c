/* fiber_cancel.c - ending fibers from outside: before they begin, while they wait, behind a shield. */
#include "fiber.h"

static atomic_uint entered;

static int note_entry(void *arg) {
    (void)arg;
    atomic_fetch_add(&entered, 1);
    return 0;
}

/* -- Before it begins ------------------------------------------------------------------------------------------------ */

static int cancel_new(void *arg) {
    (void)arg;
    weft_task *task[10];
    for (int i = 0; i < 10; i++) {
        task[i] = fiber_go(NULL, note_entry, NULL);
        weft_task_cancel(task[i]);
        weft_task_cancel(task[i]); /* once or twice */
    }
    for (int i = 0; i < 10; i++) {
        weft_result result = {1, &entered};
        CHECK_EQ(weft_join(task[i], &result, WEFT_NEVER), 0);
        CHECK_EQ(result.status, -ECANCELED);
        CHECK_EQ(result.value, NULL);
        weft_task_drop(task[i]);
    }
    return 0;
}

API_TEST(fiber_cancel_before_start, "J31", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(fixture_finish(fiber_go(rt, cancel_new, NULL)).status, 0);
    CHECK_EQ(entered, 0);
    CHECK_EQ(fixture_stats(rt).cancelled, 10);
    fixture_end(rt);
}

/* With others about, each is entered and ends well, or is not entered and ends cancelled. */
API_TEST(fiber_cancel_against_start, "J31", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned done = 0;
    for (int i = 0; i < 300; i++) {
        weft_task *task = fiber_go(rt, note_entry, NULL);
        weft_task_cancel(task);
        int status = fixture_finish(task).status;
        CHECK(status == 0 || status == -ECANCELED);
        done += status == 0;
    }
    CHECK_EQ(entered, done);
    fixture_end(rt);
}

/* -- While it waits ---------------------------------------------------------------------------------------------------- */

static int wait_again(int first) {
    /* ... and so does every later wait. */
    struct event never = {0};
    CHECK_EQ(weft_yield(), -ECANCELED);
    CHECK_EQ(weft_sleep(1000000000), -ECANCELED);
    CHECK_EQ(weft_checkpoint(), -ECANCELED);
    CHECK_EQ(event_wait(&never, WEFT_NEVER), -ECANCELED);
    CHECK(weft_task_is_cancelled(weft_task_self()));
    return first;
}

static int wait_in_sleep(void *arg) {
    (void)arg;
    return wait_again(weft_sleep_until(WEFT_NEVER));
}

static int wait_in_join(void *arg) { return wait_again(weft_join(arg, NULL, WEFT_NEVER)); }
static int wait_in_event(void *arg) { return wait_again(event_wait(arg, WEFT_NEVER)); }
static int wait_in_yield(void *arg) {
    atomic_store((atomic_bool *)arg, true);
    return wait_again(fiber_yield_for_ever(NULL));
}
static int wait_with_deadline(void *arg) { return wait_again(event_wait(arg, weft_after(INT64_C(3600000000000)))); }

static void cancel_waiting(weft_runtime *rt, weft_fiber_fn fn, void *arg) {
    for (int migrate = 0; migrate < 2; migrate++) {
        weft_task *task = (migrate ? fiber_go_migrating : fiber_go)(rt, fn, arg);
        if (fn != wait_in_yield)
            REQUIRE_EVENTUALLY(!strcmp(weft_task_state(task), "idle"));
        else
            REQUIRE_EVENTUALLY(atomic_exchange((atomic_bool *)arg, false));
        weft_task_cancel(task);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    }
}

API_TEST(fiber_cancel_in_sleep, "J13 J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    cancel_waiting(rt, wait_in_sleep, NULL);
    fixture_end(rt);
}

API_TEST(fiber_cancel_in_join, "J13 J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct event event = {0};
    weft_task *other = fiber_go(rt, fiber_wait_event, &event);
    cancel_waiting(rt, wait_in_join, other);
    event_set(&event); /* the handle is as good as before */
    CHECK_EQ(fixture_finish(other).status, 0);
    fixture_end(rt);
}

API_TEST(fiber_cancel_in_wait, "J13 J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct event event = {0};
    cancel_waiting(rt, wait_in_event, &event);
    CHECK_EQ(event_waiting(&event), 0);
    if (!fixture_on("sim")) /* where the deadline comes at once */
        cancel_waiting(rt, wait_with_deadline, &event);
    CHECK_EQ(event_waiting(&event), 0);
    CHECK_EQ(event.waiters.first, NULL);
    fixture_end(rt);
}

API_TEST(fiber_cancel_in_yield, "J13", .workers = {1, 2}) {
    static atomic_bool begun;
    weft_runtime *rt = fixture_begin_patient();
    cancel_waiting(rt, wait_in_yield, &begun);
    fixture_end(rt);
}

/* A fiber may ignore it, and end as it likes. */
static int ignore(void *arg) {
    (void)arg;
    weft_fiber_result((void *)7);
    return weft_sleep_until(WEFT_NEVER) == -ECANCELED ? 0 : -1;
}

API_TEST(fiber_cancel_ignored, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = fiber_go(rt, ignore, NULL);
    REQUIRE_EVENTUALLY(!strcmp(weft_task_state(task), "idle"));
    weft_task_cancel(task);
    weft_result result = fixture_finish(task);
    CHECK_EQ(result.status, 0);
    CHECK_EQ((intptr_t)result.value, 7);
    fixture_end(rt);
}

static int cancel_self(void *arg) {
    (void)arg;
    weft_task_cancel(weft_task_self());
    return weft_yield();
}

API_TEST(fiber_cancel_self, "", .workers = {1}) { CHECK_EQ(fiber_run(cancel_self, NULL).status, -ECANCELED); }

/* -- Shields --------------------------------------------------------------------------------------------------------------- */

/* A yield tells of a cancel when the time of the shield is over, also one that is still up; beside others that do the same. */
static int yield_shielded(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    weft_task_cancel(self);
    REQUIRE_EQ(weft_shield_until(self, weft_after(3600 * INT64_C(1000000000))), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_yield(), 0);
    REQUIRE_EQ(weft_shield_until(self, WEFT_NOW), 0);
    CHECK_EQ(weft_yield(), -ECANCELED);
    REQUIRE_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_yield(), 0);
    REQUIRE_EQ(weft_unshield(self), 0);
    return weft_yield();
}

API_TEST(fiber_cancel_in_yield_shielded, "J13 B56", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[4];
    for (int i = 0; i < 4; i++)
        task[i] = fiber_go(rt, yield_shielded, NULL);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(task[i]).status, -ECANCELED);
    fixture_end(rt);
}

struct shielded {
    struct event inside, go;
    atomic_int steps;
};

static int work_shielded(void *arg) {
    struct shielded *s = arg;
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_shield(self), 0);
    REQUIRE_EQ(weft_shield(self), 0);
    event_set(&s->inside);
    CHECK_EQ(event_wait(&s->go, WEFT_NEVER), 0); /* cancelled meanwhile */
    atomic_fetch_add(&s->steps, 1);
    CHECK_EQ(weft_sleep(1000), 0);
    CHECK_EQ(weft_yield(), 0);
    REQUIRE_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_yield(), 0); /* one is left */
    CHECK_EQ(weft_checkpoint(), 0);
    REQUIRE_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_unshield(self), -EINVAL);
    CHECK_EQ(weft_sleep(1000), -ECANCELED);
    REQUIRE_EQ(weft_shield(self), 0); /* clean-up that waits */
    CHECK_EQ(weft_sleep(1000), 0);
    REQUIRE_EQ(weft_unshield(self), 0);
    return weft_yield();
}

API_TEST(fiber_cancel_shielded, "B56", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int migrate = 0; migrate < 2; migrate++) {
        struct shielded s = {.steps = 0};
        weft_task *task = (migrate ? fiber_go_migrating : fiber_go)(rt, work_shielded, &s);
        REQUIRE_EQ(event_wait(&s.inside, fixture_soon()), 0);
        REQUIRE_EVENTUALLY(!strcmp(weft_task_state(task), "idle"));
        weft_task_cancel(task);
        CHECK_EQ(s.steps, 0);
        event_set(&s.go);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        CHECK_EQ(s.steps, 1);
    }
    fixture_end(rt);
}

/* -- Races ---------------------------------------------------------------------------------------------------------------- */

/* A cancel and an event at the same time: served or not, never both, and nobody is left in the list. */
static int wait_once(void *arg) {
    int why = event_wait(arg, WEFT_NEVER);
    CHECK(why == 0 || why == -ECANCELED);
    return why;
}

struct race {
    weft_task *task;
    struct event event;
};

static void cancel_or_set(unsigned index, void *arg) {
    struct race *race = arg;
    if (index)
        weft_task_cancel(race->task);
    else
        event_set(&race->event);
}

API_TEST(fiber_cancel_against_wake, "J30", .workers = {1, 2}, .timeout = 60) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < (fixture_is_slow() ? 30 : 200); i++) {
        struct race race = {.event = {.set = false}};
        race.task = (i % 2 ? fiber_go : fiber_go_migrating)(rt, wait_once, &race.event);
        if (i % 3)
            REQUIRE_EVENTUALLY(event_waiting(&race.event) == 1);
        harness_threads(2, cancel_or_set, &race);
        fixture_finish(race.task);
        CHECK_EQ(race.event.waiters.first, NULL);
    }
    fixture_end(rt);
}

/* Many waiting fibers, all cancelled at once, from a task of the same runtime. */
static int cancel_thousand(void *arg) {
    (void)arg;
    struct event never = {0};
    static weft_task *task[1000];
    for (int i = 0; i < 1000; i++)
        task[i] = fiber_go(NULL, fiber_wait_event, &never);
    while (event_waiting(&never) < 1000)
        weft_yield();
    for (int i = 0; i < 1000; i++)
        weft_task_cancel(task[i]);
    for (int i = 0; i < 1000; i++) {
        weft_result result;
        CHECK_EQ(weft_join(task[i], &result, WEFT_NEVER), 0);
        CHECK_EQ(result.status, -ECANCELED);
        weft_task_drop(task[i]);
    }
    return 0;
}

API_TEST(fiber_cancel_many, "J25", .workers = {1, 2, 4}) { CHECK_EQ(fiber_run(cancel_thousand, NULL).status, 0); }
