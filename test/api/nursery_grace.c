/* nursery_grace.c - for how long shields hold when a nursery with a grace is cancelled: of its children, and of all below. */
#include <weft/supervisor.h>

#include "nursery.h"

#define MS INT64_C(1000000)

/* The nursery's own limit: a child that will not end is made to. */
static int stubborn(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_shield(self), 0);
    int why = wait_for_ever(NULL);
    CHECK_EQ(weft_unshield(self), 0);
    return why;
}

/* A nursery with a grace of 3 ms, and such a child: who is stubborn, `count` of them, learns of the cancel when that is over, and not before. */
static int with_grace(weft_fiber_fn child, void *arg, unsigned count, _Atomic(weft_nursery *) *failing) {
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.grace = 3 * MS;
    int status;
    int64_t began = weft_now();
    WEFT_NURSERY_WITH(n, &status, &config) {
        REQUIRE_EQ(weft_nursery_go(&n, child, arg, NULL), 0);
        YIELD_UNTIL(did.entered == count);
        if (failing)
            YIELD_UNTIL(weft_nursery_state_of(atomic_load(failing)) == WEFT_NURSERY_CANCELLING);
        weft_nursery_cancel(&n);
    }
    CHECK_GE(weft_now() - began, 3 * MS);
    CHECK_EQ(did.cancelled, count);
    did.entered = did.cancelled = 0;
    return status;
}

static int grace(void *arg) { return with_grace(stubborn, arg, 1, NULL); }

API_TEST(nursery_grace, "J25", .workers = {1, 2}) { CHECK_EQ(in_fiber(grace, NULL), -ECANCELED); }

/* It holds for all below: a grandchild that will not end, whose own nursery has no limit, opened before or under a shield. */
static int stubborn_below(void *arg) {
    weft_task *self = weft_task_self();
    int status;
    if (arg)
        REQUIRE_EQ(weft_shield(self), 0);
    WEFT_NURSERY(n, &status)
    WEFT_NURSERY(inner, NULL) {
        CHECK_EQ(weft_nursery_go(&n, stubborn, NULL, NULL), 0);
        CHECK_EQ(weft_nursery_go(&inner, stubborn, NULL, NULL), 0);
    }
    if (arg)
        CHECK_EQ(weft_unshield(self), 0);
    return status;
}

static int grace_below(void *arg) { return with_grace(stubborn_below, arg, 2, NULL); }

API_TEST(nursery_grace_below, "J24 J25", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(grace_below, NULL), -ECANCELED);
    CHECK_EQ(in_fiber(grace_below, STATUS(1)), -ECANCELED);
}

/* ... also for those that were cancelled before, when there was no limit: a sibling of theirs has failed.  Opened under a shield, or not. */
static _Atomic(weft_nursery *) failing;

static int fails(void *arg) {
    (void)arg;
    YIELD_UNTIL(did.entered == 2);
    return -EIO;
}

static int failed_before(void *arg) {
    weft_task *self = weft_task_self();
    int status;
    if (arg)
        REQUIRE_EQ(weft_shield(self), 0);
    WEFT_NURSERY(n, &status) {
        atomic_store(&failing, &n);
        CHECK_EQ(weft_nursery_go(&n, stubborn, NULL, NULL), 0);
        CHECK_EQ(weft_nursery_go(&n, stubborn, NULL, NULL), 0);
        CHECK_EQ(weft_nursery_go(&n, fails, NULL, NULL), 0);
    }
    CHECK_EQ(status, -EIO);
    if (arg)
        CHECK_EQ(weft_unshield(self), 0);
    return 0;
}

static int grace_later(void *arg) { return with_grace(failed_before, arg, 2, &failing); }

API_TEST(nursery_grace_later, "J24 J25", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(grace_later, NULL), -ECANCELED);
    CHECK_EQ(in_fiber(grace_later, STATUS(1)), -ECANCELED);
}

/* ... also for those that were opened under a shield whose own time was over before, when there was no limit. */
static int shield_is_over(void *arg) {
    weft_task *self = weft_task_self();
    int status;
    (void)arg;
    REQUIRE_EQ(weft_shield_until(self, weft_after(MS)), 0);
    WEFT_NURSERY(n, &status) {
        atomic_store(&failing, &n);
        CHECK_EQ(weft_nursery_go(&n, stubborn, NULL, NULL), 0);
        YIELD_UNTIL(did.entered == 1);
        weft_task_cancel(self);
    }
    CHECK_EQ(status, -ECANCELED);
    CHECK_EQ(weft_unshield(self), 0);
    return 0;
}

static int grace_after_a_shield(void *arg) { return with_grace(shield_is_over, arg, 1, &failing); }

API_TEST(nursery_grace_after_a_shield, "J24 J25", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(grace_after_a_shield, NULL), -ECANCELED);
}

/* ... also for supervised ones, whose supervisor is under a shield and has no limit; also when they were cancelled before (arg). */
static int cancel_all_once_there(void *arg) {
    if (!arg)
        return 0;
    YIELD_UNTIL(did.entered == 2);
    atomic_store(&failing, weft_nursery_parent());
    weft_nursery_cancel(weft_nursery_parent());
    return 0;
}

static int supervise_under_a_shield(void *arg) {
    weft_task *self = weft_task_self();
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    weft_supervised_fiber children[] = {{"a", stubborn, NULL, WEFT_RESTART_PERMANENT, 0},
                                        {"b", stubborn, NULL, WEFT_RESTART_PERMANENT, 0},
                                        {"c", cancel_all_once_there, arg, WEFT_RESTART_TEMPORARY, 0}};
    config.grace = -1;
    REQUIRE_EQ(weft_shield(self), 0);
    CHECK_EQ(weft_supervise(&config, children, 3), -ECANCELED);
    CHECK_EQ(weft_unshield(self), 0);
    return 0;
}

static int grace_supervised(void *arg) {
    atomic_store(&failing, NULL);
    return with_grace(supervise_under_a_shield, arg, 2, arg ? &failing : NULL);
}

API_TEST(nursery_grace_supervised, "J24 J25", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(grace_supervised, NULL), -ECANCELED);
    CHECK_EQ(in_fiber(grace_supervised, STATUS(1)), -ECANCELED);
}

/* One that is longer than time itself, or below 0 as a runtime's or a pool's, is none. */
static int takes_its_time(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_shield(self), 0);
    did.entered = 1;
    CHECK_EQ(weft_sleep(2 * MS), 0);
    CHECK_EQ(weft_unshield(self), 0);
    return 0;
}

static int grace_for_ever(void *arg) {
    static const int64_t graces[] = {WEFT_NEVER, WEFT_NEVER - 1, 0, -1, INT64_MIN};
    (void)arg;
    for (size_t i = 0; i < sizeof graces / sizeof *graces; i++) {
        weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
        config.grace = graces[i];
        int status;
        WEFT_NURSERY_WITH(n, &status, &config) {
            REQUIRE_EQ(weft_nursery_go(&n, takes_its_time, NULL, NULL), 0);
            YIELD_UNTIL(did.entered == 1);
            weft_nursery_cancel(&n);
        }
        CHECK_EQ(status, -ECANCELED);
        did.entered = 0;
    }
    return 0;
}

API_TEST(nursery_grace_for_ever, "J25", .workers = {1}) { CHECK_EQ(in_fiber(grace_for_ever, NULL), 0); }
