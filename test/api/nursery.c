/* nursery.c - children, states, results. */
#include "nursery.h"

/* -- Children and the block ---------------------------------------------------------------------------------- */

static int block_awaits(void *arg) {
    (void)arg;
    int status = 1;
    WEFT_NURSERY(n, &status) {
        for (int i = 0; i < 100; i++)
            REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
        CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_OPEN); /* J17 */
    }
    CHECK_EQ(did.entered, 100);
    return status;
}

API_TEST(nursery_block_awaits, "J8 J17 J32 J41", .workers = {1, 2, 4}) { CHECK_EQ(in_fiber(block_awaits, NULL), 0); }

static int leave_by_return(int *status) {
    WEFT_NURSERY(n, status) {
        REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
        return 7;
    }
    return 8;
}

static int block_left_early(void *arg) {
    (void)arg;
    int status = 1;
    CHECK_EQ(leave_by_return(&status), 7);
    CHECK_EQ(did.entered, 1);
    CHECK_EQ(status, 0);
    for (int i = 0; i < 3; i++)
        WEFT_NURSERY(n, &status) {
            REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
            if (i == 1)
                break;
            REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
        }
    CHECK_EQ(did.entered, 6);
    WEFT_NURSERY(n, &status) {
        REQUIRE_EQ(weft_nursery_go(&n, fail_with, STATUS(-EIO), NULL), 0);
        goto out;
    }
out:
    CHECK_EQ(status, -EIO);
    WEFT_NURSERY(n, NULL) { REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0); }
    CHECK_EQ(did.entered, 7);
    return 0;
}

API_TEST(nursery_block_left_early, "J32", .workers = {1, 2}) { CHECK_EQ(in_fiber(block_left_early, NULL), 0); }

/* Outside of a runtime there is nothing to run children on: the block is not entered. */
TEST(nursery_block_refused, "J32") {
    int status = 1;
    bool entered = false;
    WEFT_NURSERY(n, &status) { entered = true; }
    CHECK(!entered);
    CHECK_EQ(status, -EINVAL);
    /* Nor is it left, whatever was in its memory before. */
    weft_nursery n;
    memset(&n, 1, sizeof n);
    CHECK_EQ(weft_nursery_enter(&n, NULL, NULL), NULL);
    weft_nursery_leave(&n);
}

static int worker_runs_others(void *arg) {
    (void)arg;
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    for (int i = 0; i < 20; i++)
        REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
    return weft_nursery_await(&n);
}

/* One worker: the children can only run because await lets it go, and nobody is polled without need. */
API_TEST(nursery_await_suspends, "J9 J26", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, worker_runs_others, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(did.entered, 20);
    CHECK_LE(fixture_stats(rt).polls, 20 + 4); /* each child once, the owner before and after */
    fixture_end(rt);
}

static int many(void *arg) {
    unsigned count = *(unsigned *)arg;
    int status;
    WEFT_NURSERY(n, &status) {
        for (unsigned i = 0; i < count; i++)
            REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
    }
    CHECK_EQ(did.entered, count);
    return status;
}

API_TEST(nursery_many_children, "J28 J29", .workers = {1, 4}) {
    unsigned count = fixture_is_slow() ? 10000 : 100000;
    CHECK_EQ(in_fiber(many, &count), 0);
}

/* Waiting ones: each has a stack. */
static int many_waiting(void *arg) {
    unsigned count = *(unsigned *)arg;
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    for (unsigned i = 0; i < count; i++)
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    YIELD_UNTIL(did.entered == count);
    CHECK_EQ(weft_nursery_count(&n), count);
    weft_nursery_cancel(&n);
    CHECK_EQ(weft_nursery_await(&n), -ECANCELED);
    CHECK_EQ(did.cancelled, count);
    return 0;
}

API_TEST(nursery_many_waiting, "J25 J34", .workers = {1, 2}) {
    unsigned count = fixture_is_slow() ? 500 : 10000;
    CHECK_EQ(in_fiber(many_waiting, &count), 0);
}

/* Children that start siblings while the owner awaits. */
static int split(void *arg) {
    int depth = (int)(intptr_t)arg;
    atomic_fetch_add(&did.entered, 1);
    for (int i = 0; depth > 0 && i < 2; i++)
        REQUIRE_EQ(weft_nursery_go(weft_nursery_parent(), split, STATUS(depth - 1), NULL), 0);
    return 0;
}

static int siblings(void *arg) {
    (void)arg;
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, split, STATUS(9), NULL), 0);
    int status = weft_nursery_await(&n);
    CHECK_EQ(did.entered, 1023);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_CLOSED);
    CHECK_EQ(weft_nursery_parent(), NULL);
    return status;
}

API_TEST(nursery_siblings, "J17 J28 J29", .workers = {1, 2, 4}) { CHECK_EQ(in_fiber(siblings, NULL), 0); }

/* Joining and dropping handles changes nothing for the nursery. */
static int value_of(void *arg) {
    weft_fiber_result(arg);
    return 0;
}

static int handles(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status) {
        weft_task *a = NULL, *b = NULL;
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        spec.fn = value_of;
        spec.arg = &n;
        spec.name = "child";
        REQUIRE_EQ(weft_nursery_spawn(&n, &spec, &a), 0);
        REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, &b), 0);
        weft_task_drop(b);
        weft_result result;
        REQUIRE_EQ(weft_join(a, &result, WEFT_NEVER), 0);
        CHECK_EQ(result.value, (void *)&n);
        CHECK_STR(weft_task_name(a), "child");
        weft_task_drop(a);
    }
    CHECK_EQ(did.entered, 1);
    return status;
}

API_TEST(nursery_handles, "J8", .workers = {1, 2}) { CHECK_EQ(in_fiber(handles, NULL), 0); }

/* Who has awaited finds every child's handle done. */
static int handles_are_done(void *arg) {
    (void)arg;
    for (int round = 0; round < (fixture_is_slow() ? 100 : 1000); round++) {
        weft_task *task[8];
        weft_nursery n;
        bool fail = round % 4 == 3;
        REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
        for (int i = 0; i < 8; i++)
            REQUIRE_EQ(weft_nursery_go(&n, i == 7 && fail ? fail_with : add_one, STATUS(-EIO), &task[i]), 0);
        CHECK_EQ(weft_nursery_await(&n), fail ? -EIO : 0);
        for (int i = 0; i < 8; i++) {
            CHECK(weft_task_is_done(task[i]));
            CHECK_EQ(weft_join(task[i], NULL, WEFT_NOW), 0);
            weft_task_drop(task[i]);
        }
    }
    return 0;
}

API_TEST(nursery_handles_are_done, "J28 J29", .workers = {1, 2, 4}) { CHECK_EQ(in_fiber(handles_are_done, NULL), 0); }

API_TEST(nursery_handles_are_done_to_a_thread, "J27 J28", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int round = 0; round < (fixture_is_slow() ? 100 : 1000); round++) {
        weft_task *task = NULL;
        weft_nursery n;
        REQUIRE_EQ(weft_nursery_init(&n, rt, NULL), 0);
        REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, &task), 0);
        CHECK_EQ(weft_nursery_await(&n), 0);
        CHECK(weft_task_is_done(task));
        weft_task_drop(task);
    }
    fixture_end(rt);
}

/* -- States ---------------------------------------------------------------------------------------------------- */

static int states(void *arg) {
    (void)arg;
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0); /* J18 */
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_OPEN);
    weft_nursery_close(&n);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_CLOSED);
    weft_nursery_close(&n);
    weft_nursery_cancel(&n); /* J21: final */
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_CLOSED);
    CHECK_EQ(weft_nursery_go(&n, add_one, NULL, NULL), -EPIPE);
    CHECK_EQ(weft_nursery_await(&n), 0);
    CHECK_EQ(weft_nursery_await(&n), 0); /* the same again */

    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0); /* J19 */
    REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
    weft_nursery_close(&n);
    weft_nursery_close(&n);
    weft_nursery_state now = weft_nursery_state_of(&n); /* another worker may have run it already */
    CHECK(now == WEFT_NURSERY_CLOSING || now == WEFT_NURSERY_CLOSED);
    CHECK_EQ(weft_nursery_go(&n, add_one, NULL, NULL), -EPIPE);
    CHECK_EQ(weft_nursery_await(&n), 0);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_CLOSED);

    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0); /* J20, closing first */
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    weft_nursery_close(&n);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_CLOSING);
    weft_nursery_cancel(&n);
    weft_nursery_cancel(&n);
    now = weft_nursery_state_of(&n);
    CHECK(now == WEFT_NURSERY_CANCELLING || now == WEFT_NURSERY_CANCELLED);
    weft_nursery_close(&n);
    CHECK_NE(weft_nursery_state_of(&n), WEFT_NURSERY_CLOSED);
    CHECK_EQ(weft_nursery_go(&n, add_one, NULL, NULL), -ECANCELED);
    CHECK_EQ(weft_nursery_await(&n), -ECANCELED);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_CANCELLED);
    CHECK_EQ(weft_nursery_reason(&n), WEFT_REASON_EXPLICIT);
    CHECK_EQ(weft_nursery_go(&n, add_one, NULL, NULL), -ECANCELED);

    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0); /* empty */
    weft_nursery_cancel(&n);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_CANCELLED);
    CHECK_EQ(weft_nursery_await(&n), -ECANCELED);
    CHECK_EQ(did.entered - did.returned, 1); /* of those that were started, add_one */
    return 0;
}

API_TEST(nursery_states, "J17 J18 J19 J20 J21", .workers = {1, 2}) { CHECK_EQ(in_fiber(states, NULL), 0); }

/* -- Results ----------------------------------------------------------------------------------------------------- */

static int first_error(void *arg) {
    (void)arg;
    weft_nursery n;
    weft_task *victim = NULL;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, &victim), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    YIELD_UNTIL(did.entered == 2);
    REQUIRE_EQ(weft_nursery_go(&n, fail_with, STATUS(-EIO), NULL), 0);
    CHECK_EQ(weft_nursery_await(&n), -EIO);
    CHECK_EQ(did.cancelled, 2);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_CANCELLED);
    CHECK_EQ(weft_nursery_reason(&n), WEFT_REASON_FAILURE);
    CHECK_EQ(weft_task_cancel_reason(victim), WEFT_REASON_FAILURE);
    CHECK_EQ(fixture_finish(victim).status, -ECANCELED);
    return 0;
}

API_TEST(nursery_first_error, "J20 J28 J33", .workers = {1, 2}) { CHECK_EQ(in_fiber(first_error, NULL), 0); }

/* A child that fails because it was cancelled: that counts more than the cancellation. */
static int fail_when_cancelled(void *arg) {
    wait_for_ever(NULL);
    return (int)(intptr_t)arg;
}

static int error_beats_cancel(void *arg) {
    (void)arg;
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, fail_when_cancelled, STATUS(-EBADF), NULL), 0);
    YIELD_UNTIL(did.entered == 1);
    weft_nursery_cancel(&n);
    CHECK_EQ(weft_nursery_await(&n), -EBADF);
    CHECK_EQ(weft_nursery_reason(&n), WEFT_REASON_EXPLICIT);
    return 0;
}

API_TEST(nursery_error_beats_cancel, "J33", .workers = {1, 2}) { CHECK_EQ(in_fiber(error_beats_cancel, NULL), 0); }

/* A child that is cancelled by itself is no failure. */
static int one_cancelled(void *arg) {
    (void)arg;
    weft_nursery n;
    weft_task *task = NULL;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, &task), 0);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_OPEN);
    REQUIRE_EQ(weft_nursery_go(&n, value_of, NULL, NULL), 0);
    return weft_nursery_await(&n);
}

API_TEST(nursery_one_cancelled, "J31 J33", .workers = {1, 2}) { CHECK_EQ(in_fiber(one_cancelled, NULL), 0); }

static int keep_going(void *arg) {
    (void)arg;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.keep_going = true;
    int status;
    WEFT_NURSERY_WITH(n, &status, &config) {
        REQUIRE_EQ(weft_nursery_go(&n, fail_with, STATUS(-EIO), NULL), 0);
        YIELD_UNTIL(weft_nursery_count(&n) == 0);
        REQUIRE_EQ(weft_nursery_go(&n, fail_with, STATUS(-EBADF), NULL), 0);
        REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
    }
    CHECK_EQ(status, -EIO);
    CHECK_EQ(did.entered, 1);
    return 0;
}

API_TEST(nursery_keep_going, "J33", .workers = {1, 2}) { CHECK_EQ(in_fiber(keep_going, NULL), 0); }

/* -- Never entered ------------------------------------------------------------------------------------------------- */

static int cancel_queued(void *arg) {
    (void)arg;
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    for (int i = 0; i < 50; i++)
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    weft_nursery_cancel(&n);
    return weft_nursery_await(&n);
}

/* One worker, so none of them can have begun. */
API_TEST(nursery_cancel_queued, "J31 J34", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, cancel_queued, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(did.entered, 0);
    CHECK_EQ(fixture_stats(rt).cancelled, 50);
    fixture_end(rt);
}
