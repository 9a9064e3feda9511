/* nursery_cancel.c - cancellation down the tree, reasons, shields. */
#include "nursery.h"

#define HOUR INT64_C(3600000000000)
#define MS INT64_C(1000000)

/* -- The cascade ------------------------------------------------------------------------------------------------ */

/* A level: as many below it as are left, and two workers beside. */
static int level(void *arg) {
    int left = (int)(intptr_t)arg, status;
    WEFT_NURSERY(n, &status) {
        if (left > 1)
            REQUIRE_EQ(weft_nursery_go(&n, level, STATUS(left - 1), NULL), 0);
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    }
    CHECK_EQ(status, -ECANCELED);
    CHECK_NE(weft_cancel_reason(), WEFT_REASON_NONE);
    return status;
}

static void cancel_levels(int levels) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, level, STATUS(levels), &task), 0);
    REQUIRE_EVENTUALLY(did.entered == 2 * (unsigned)levels);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(did.cancelled, 2 * (unsigned)levels);
    fixture_end(rt);
}

API_TEST(nursery_cascade, "J23 J24 J25 J34", .workers = {1, 2}) { cancel_levels(2); }
API_TEST(nursery_cascade_deep, "J24 J34", .workers = {1, 2}) { cancel_levels(fixture_is_slow() ? 200 : 1000); }

/* The owner does not await, and does not wait for anything either: its children end all the same. */
struct busy {
    atomic_bool ready, release;
    weft_reason child_saw;
};

static int record_reason(void *arg) {
    struct busy *busy = arg;
    int why = wait_for_ever(NULL);
    busy->child_saw = weft_cancel_reason();
    return why;
}

static int busy_owner(void *arg) {
    struct busy *busy = arg;
    int status;
    WEFT_NURSERY(n, &status) {
        REQUIRE_EQ(weft_nursery_go(&n, record_reason, busy, NULL), 0);
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        YIELD_UNTIL(did.entered == 2);
        atomic_store(&busy->ready, true);
        while (!atomic_load(&busy->release))
            harness_nap(); /* stays on its worker */
        CHECK_EQ(weft_nursery_reason(&n), WEFT_REASON_PARENT);
        CHECK_EQ(weft_nursery_go(&n, add_one, NULL, NULL), -ECANCELED);
    }
    return status;
}

/* Those on the owner's own worker can only end when it lets go; but they are cancelled. */
API_TEST(nursery_owner_is_busy, "J23 J25", .workers = {2, 4}, .sched = "ring deque fifo") {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    struct busy busy = {false, false, WEFT_REASON_NONE};
    REQUIRE_EQ(weft_fiber_go(rt, busy_owner, &busy, &task), 0);
    REQUIRE_EVENTUALLY(busy.ready);
    weft_task_cancel(task);
    atomic_store(&busy.release, true);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(did.cancelled, 2);
    CHECK_EQ(busy.child_saw, WEFT_REASON_PARENT);
    fixture_end(rt);
}

/* The owner waits for something else inside the block. */
static int sleeping_owner(void *arg) {
    (void)arg;
    int status, slept = 1;
    WEFT_NURSERY(n, &status) {
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        slept = weft_sleep_until(WEFT_NEVER);
        CHECK_EQ(weft_nursery_reason(&n), WEFT_REASON_PARENT);
    }
    CHECK_EQ(slept, -ECANCELED);
    return status;
}

API_TEST(nursery_owner_sleeps, "J23 J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, sleeping_owner, NULL, &task), 0);
    REQUIRE_EVENTUALLY(did.entered == 1);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

/* Several nurseries of one owner, all reached. */
static int several(void *arg) {
    (void)arg;
    weft_nursery n[3];
    for (int i = 0; i < 3; i++) {
        REQUIRE_EQ(weft_nursery_init(&n[i], NULL, NULL), 0);
        REQUIRE_EQ(weft_nursery_go(&n[i], wait_for_ever, NULL, NULL), 0);
    }
    int status = 0;
    for (int i = 3; i-- > 0;) {
        status = weft_nursery_await(&n[i]);
        CHECK_EQ(status, -ECANCELED);
    }
    return status;
}

API_TEST(nursery_owner_of_several, "J23 J38", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, several, NULL, &task), 0);
    REQUIRE_EVENTUALLY(did.entered == 3);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

/* A nursery that is opened by a fiber that has been cancelled. */
static int open_late(void *arg) {
    (void)arg;
    weft_task_cancel(weft_task_self());
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_CANCELLED);
    CHECK_EQ(weft_nursery_go(&n, add_one, NULL, NULL), -ECANCELED);
    return weft_nursery_await(&n);
}

API_TEST(nursery_opened_when_cancelled, "J21 J23", .workers = {1}) {
    CHECK_EQ(in_fiber(open_late, NULL), -ECANCELED);
    CHECK_EQ(did.entered, 0);
}

/* A failure far below takes down everything up to where it is handled. */
static int fail_deep(void *arg) {
    int left = (int)(intptr_t)arg, status;
    WEFT_NURSERY(n, &status) {
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        if (left)
            REQUIRE_EQ(weft_nursery_go(&n, fail_deep, STATUS(left - 1), NULL), 0);
        else
            REQUIRE_EQ(weft_nursery_go(&n, fail_with, STATUS(-EIO), NULL), 0);
    }
    return status;
}

API_TEST(nursery_failure_goes_up, "J20 J24 J33", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(fail_deep, STATUS(20)), -EIO);
    CHECK_EQ(did.returned, did.entered); /* those that had begun */
}

/* -- Shutdown ------------------------------------------------------------------------------------------------------ */

static weft_reason seen_reason;

static int see_reason(void *arg) {
    (void)arg;
    int why = wait_for_ever(NULL);
    seen_reason = weft_cancel_reason();
    return why;
}

static int own_one(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status) { REQUIRE_EQ(weft_nursery_go(&n, see_reason, NULL, NULL), 0); }
    return status;
}

/* What belongs to the runtime itself is cancelled by its stop. */
API_TEST(nursery_shutdown, "J8 J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_fiber_go(rt, see_reason, NULL, NULL), 0);
    REQUIRE_EVENTUALLY(did.entered == 1);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_EQ(seen_reason, WEFT_REASON_SHUTDOWN);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

API_TEST(nursery_shutdown_tree, "J8 J24 J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_fiber_go(rt, own_one, NULL, NULL), 0);
    REQUIRE_EVENTUALLY(did.entered == 1);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK(seen_reason == WEFT_REASON_SHUTDOWN || seen_reason == WEFT_REASON_PARENT); /* whom the walk met first */
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* Nothing can ever run again: sim says so, and who waits above is told. */
static int stuck(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status) { REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0); }
    return status;
}

API_TEST(nursery_deadlock, "J26", .workers = {1}, .sched = "sim") {
    CHECK_EQ(weft_fiber_run(NULL, stuck, NULL, NULL), -EDEADLK);
    CHECK_EQ(did.cancelled, 1);
}

/* -- Shields ---------------------------------------------------------------------------------------------------------- */

/* Clean-up with a nursery of its own, under a shield: it is not reached, although its owner has been cancelled. */
static atomic_uint cleaned;

static int clean_part(void *arg) {
    (void)arg;
    CHECK_EQ(weft_sleep(MS), 0);
    atomic_fetch_add(&cleaned, 1);
    return 0;
}

static int clean_up_shielded(void *arg) {
    (void)arg;
    int why = wait_for_ever(NULL), status;
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_shield(self), 0);
    WEFT_NURSERY(n, &status) {
        for (int i = 0; i < 3; i++)
            REQUIRE_EQ(weft_nursery_go(&n, clean_part, NULL, NULL), 0);
    }
    CHECK_EQ(status, 0);
    CHECK_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_sleep(1), -ECANCELED);
    return why;
}

static int shield_parent(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status) {
        REQUIRE_EQ(weft_nursery_go(&n, clean_up_shielded, NULL, NULL), 0);
        YIELD_UNTIL(did.entered == 1);
        weft_nursery_cancel(&n);
    }
    CHECK_EQ(cleaned, 3);
    return status;
}

API_TEST(nursery_shielded_clean_up, "J23 J25", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(shield_parent, NULL), -ECANCELED);
}

/* What was open before the shield is reached; the owner itself only when the shield is gone. */
static int shield_after(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    int status;
    WEFT_NURSERY(n, &status) {
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        REQUIRE_EQ(weft_shield(self), 0);
        YIELD_UNTIL(did.entered == 1);
        weft_task_cancel(self);
        YIELD_UNTIL(did.cancelled == 1);
        CHECK_EQ(weft_sleep(1), 0);
        CHECK_EQ(weft_unshield(self), 0);
        CHECK_EQ(weft_sleep(1), -ECANCELED);
    }
    return status;
}

API_TEST(nursery_shield_after, "J23", .workers = {1, 2}) { CHECK_EQ(in_fiber(shield_after, NULL), -ECANCELED); }

/* A shield with a limit: waits are protected until then. */
static int shield_limited(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    int64_t began = weft_now();
    REQUIRE_EQ(weft_shield_until(self, began + 5 * MS), 0);
    weft_task_cancel(self);
    CHECK_EQ(weft_cancel_reason(), WEFT_REASON_EXPLICIT);
    int slept = weft_sleep(MS);
    CHECK(slept == 0 || weft_now() >= began + 5 * MS);
    CHECK_EQ(weft_sleep(HOUR), -ECANCELED);
    int64_t took = weft_now() - began;
    CHECK_GE(took, 5 * MS);
    CHECK_LT(took, HOUR);
    CHECK_EQ(weft_sleep(1), -ECANCELED);
    CHECK_EQ(weft_yield(), -ECANCELED);
    CHECK(weft_task_is_cancelled(self)); /* as its waits say */
    CHECK_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_unshield(self), -EINVAL);
    REQUIRE_EQ(weft_shield(self), 0); /* the limit went with the shield */
    CHECK_EQ(weft_sleep(MS), 0);
    CHECK_EQ(weft_unshield(self), 0);
    return 0;
}

API_TEST(nursery_shield_until, "J25", .workers = {1, 2}) { CHECK_EQ(in_fiber(shield_limited, NULL), 0); }

/* Limits in each other: the earliest counts, and goes with its shield.  So a function that limits its own clean-up may be called under any shield. */
static int shields_nested(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    int64_t began = weft_now();
    weft_task_cancel(self);
    REQUIRE_EQ(weft_shield(self), 0);
    REQUIRE_EQ(weft_shield_until(self, began + HOUR), 0);
    REQUIRE_EQ(weft_shield_until(self, WEFT_NOW), 0);
    REQUIRE_EQ(weft_shield_until(self, began + HOUR), 0); /* later than the one around it: does nothing */
    REQUIRE_EQ(weft_shield(self), 0); /* nor does one without any */
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_yield(), -ECANCELED);
        CHECK(weft_task_is_cancelled(self));
        CHECK_EQ(weft_unshield(self), 0);
    }
    CHECK_EQ(weft_yield(), 0); /* as it was before */
    CHECK(!weft_task_is_cancelled(self));
    for (int i = 0; i < 3; i++) /* with the hour of before */
        REQUIRE_EQ(weft_shield_until(self, began + HOUR - 1 - i), 0);
    CHECK_EQ(weft_shield_until(self, began + HOUR - 9), -EOVERFLOW);
    CHECK_EQ(weft_sleep(1), 0); /* it was not put up, and does not count */
    for (int i = 0; i < 4; i++)
        CHECK_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_sleep(1), 0); /* the first has none */
    CHECK_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_unshield(self), -EINVAL);
    CHECK_EQ(weft_yield(), -ECANCELED);
    REQUIRE_EQ(weft_shield_until(self, WEFT_NOW), 0); /* left up: the next fiber on this stack has nothing of it */
    return 0;
}

static int shields_twice(void *arg) {
    weft_task *task;
    for (int i = 0; i < 2; i++) {
        REQUIRE_EQ(weft_fiber_go(NULL, shields_nested, arg, &task), 0);
        CHECK_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
        weft_task_drop(task);
    }
    return 0;
}

API_TEST(nursery_shields_nested, "J25 B56", .workers = {1, 2}) { CHECK_EQ(in_fiber(shields_twice, NULL), 0); }

/* It already waits when the cancel comes, from outside. */
static int shield_waiting(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_shield_until(self, WEFT_NOW), 0); /* over from the start, but not cancelled */
    CHECK_EQ(weft_sleep(MS), 0);
    return wait_for_ever(NULL);
}

API_TEST(nursery_shield_wakes, "J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, shield_waiting, NULL, &task), 0);
    REQUIRE_EVENTUALLY(did.entered == 1);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

static weft_poll shield_poll(weft_task *self, void *state) {
    (void)state;
    CHECK_EQ(weft_shield_until(self, WEFT_NEVER), -EINVAL);
    return weft_done(self, 0, NULL);
}

API_TEST(nursery_shield_until_is_for_fibers, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(fixture_go(rt, shield_poll, NULL));
    fixture_end(rt);
}

/* -- A nursery that is older than the end of its shield ------------------------------------------------------------- */

/* arg: cancelled while the shield is up.  "These go on while the shield lasts", and no longer, whatever the owner does. */
static int outlives_its_shield(void *arg) {
    weft_task *self = weft_task_self();
    weft_nursery n;
    REQUIRE_EQ(weft_shield(self), 0);
    REQUIRE_EQ(weft_shield(self), 0);
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    YIELD_UNTIL(did.entered == 1);
    if (arg)
        weft_task_cancel(self);
    REQUIRE_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_OPEN); /* one is left */
    REQUIRE_EQ(weft_unshield(self), 0);
    if (!arg) {
        CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_OPEN);
        weft_task_cancel(self);
    }
    CHECK_EQ(weft_nursery_reason(&n), WEFT_REASON_PARENT);
    REQUIRE_EQ(weft_shield(self), 0); /* too late for it */
    CHECK_EQ(weft_nursery_await(&n), -ECANCELED);
    REQUIRE_EQ(weft_unshield(self), 0);
    return 0;
}

API_TEST(nursery_outlives_its_shield, "J23 J31", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(outlives_its_shield, STATUS(1)), 0);
    did.entered = 0;
    CHECK_EQ(in_fiber(outlives_its_shield, NULL), 0);
}

static void open_one(void *arg) {
    REQUIRE_EQ(weft_nursery_create(NULL, NULL, arg), 0);
    REQUIRE_EQ(weft_nursery_go(*(weft_nursery **)arg, wait_for_ever, NULL, NULL), 0);
}

/* What weft_once runs is shielded. */
static int opened_once(void *arg) {
    (void)arg;
    weft_once once;
    weft_nursery *n = NULL;
    weft_once_init(&once);
    REQUIRE_EQ(weft_once_run(&once, open_one, &n, WEFT_NEVER), 0);
    weft_task_cancel(weft_task_self());
    CHECK_EQ(weft_nursery_reason(n), WEFT_REASON_PARENT);
    REQUIRE_EQ(weft_once_destroy(&once), 0);
    return weft_nursery_destroy(n);
}

API_TEST(nursery_opened_once, "J23", .workers = {1, 2}) { CHECK_EQ(in_fiber(opened_once, NULL), -ECANCELED); }

/* -- Counting while somebody cancels ---------------------------------------------------------------------------------- */

#define COUNTED 500
static weft_nursery counted;
static atomic_bool cancelling;

static int cancel_counted(void *arg) {
    (void)arg;
    atomic_store(&cancelling, true);
    weft_nursery_cancel(&counted);
    return 0;
}

/* A thread's nursery; who cancels it is one of its children.  The canceller's own hold on it is not counted. */
API_TEST(nursery_count_while_cancelled, "J34", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int round = 0; round < (fixture_is_slow() ? 5 : 20); round++) {
        atomic_store(&cancelling, false);
        did.entered = 0;
        REQUIRE_EQ(weft_nursery_init(&counted, rt, NULL), 0);
        for (int i = 0; i < COUNTED; i++)
            REQUIRE_EQ(weft_nursery_go(&counted, wait_for_ever, NULL, NULL), 0);
        REQUIRE_EVENTUALLY(did.entered == COUNTED);
        REQUIRE_EQ(weft_nursery_go(&counted, cancel_counted, NULL, NULL), 0);
        size_t most = 0, now;
        while ((now = weft_nursery_count(&counted)) > 0 || !atomic_load(&cancelling))
            most = now > most ? now : most;
        CHECK_LE(most, COUNTED + 1);
        CHECK_EQ(weft_nursery_await(&counted), -ECANCELED);
    }
    fixture_end(rt);
}
