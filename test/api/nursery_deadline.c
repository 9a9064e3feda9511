/* nursery_deadline.c - nurseries with a deadline, and functions with a time limit. */
#include "nursery.h"

#define HOUR INT64_C(3600000000000)
#define MS INT64_C(1000000)

/* -- Deadlines ---------------------------------------------------------------------------------------------------------- */

static int deadline(void *arg) {
    (void)arg;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    weft_task *task = NULL;
    int status;
    for (int64_t ns = 2 * MS; !task; ns *= 4) { /* on a busy machine it may pass before there is a child */
        config.until = weft_after(ns);
        WEFT_NURSERY_WITH(n, &status, &config) {
            int error = weft_nursery_go(&n, wait_for_ever, NULL, &task);
            REQUIRE(error == 0 || (error == -ECANCELED && weft_now() >= config.until));
        }
    }
    CHECK_EQ(status, -ETIMEDOUT);
    CHECK_GE(weft_now(), config.until);
    CHECK_EQ(weft_task_cancel_reason(task), WEFT_REASON_TIMEOUT);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);

    config.until = weft_after(HOUR); /* not reached: leaves nothing behind */
    WEFT_NURSERY_WITH(n, &status, &config) { REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0); }
    CHECK_EQ(status, 0);
    CHECK_LT(weft_now(), config.until);
    return 0;
}

API_TEST(nursery_deadline, "J25 J34", .workers = {1, 2}) { CHECK_EQ(in_fiber(deadline, NULL), 0); }

/* The owner is elsewhere when it passes. */
static int deadline_unawaited(void *arg) {
    (void)arg;
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_set_deadline(&n, weft_after(2 * MS)), 0);
    while (weft_nursery_reason(&n) == WEFT_REASON_NONE) /* the child may not even have begun */
        CHECK_EQ(weft_sleep(MS), 0); /* the owner is not cancelled */
    CHECK_EQ(weft_nursery_reason(&n), WEFT_REASON_TIMEOUT);
    CHECK_EQ(weft_nursery_await(&n), -ETIMEDOUT);
    return 0;
}

API_TEST(nursery_deadline_unawaited, "J25", .workers = {1, 2}) { CHECK_EQ(in_fiber(deadline_unawaited, NULL), 0); }

/* Moved, both ways, and taken away. */
static int deadline_moves(void *arg) {
    (void)arg;
    weft_nursery n;
    for (int round = 0; round < 20; round++) {
        REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
        REQUIRE_EQ(weft_nursery_set_deadline(&n, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        REQUIRE_EQ(weft_nursery_set_deadline(&n, weft_after(HOUR)), 0);
        if (round % 2)
            weft_yield();
        REQUIRE_EQ(weft_nursery_set_deadline(&n, weft_after(MS / 4)), 0);
        CHECK_EQ(weft_nursery_await(&n), -ETIMEDOUT);
    }
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_set_deadline(&n, weft_after(HOUR)), 0);
    REQUIRE_EQ(weft_nursery_set_deadline(&n, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_await(&n), 0);
    REQUIRE_EQ(weft_nursery_set_deadline(&n, WEFT_NOW), 0); /* too late to matter */
    CHECK_EQ(weft_nursery_await(&n), 0);
    return 0;
}

API_TEST(nursery_deadline_moves, "J25", .workers = {1, 2}) { CHECK_EQ(in_fiber(deadline_moves, NULL), 0); }

/* Whoever comes first: the last child or the deadline; nothing is left either way. */
static int sleep_for(void *arg) {
    int why = weft_sleep((intptr_t)arg);
    return why;
}

static int deadline_race(void *arg) {
    (void)arg;
    uint64_t random = harness_seed();
    for (int round = 0; round < 200; round++) {
        weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
        config.until = weft_after((int64_t)(harness_random(&random) % 400000));
        int status;
        WEFT_NURSERY_WITH(n, &status, &config) {
            int error = weft_nursery_go(&n, sleep_for, STATUS(harness_random(&random) % 400000), NULL);
            CHECK(error == 0 || error == -ECANCELED);
        }
        CHECK(status == 0 || status == -ETIMEDOUT);
    }
    return 0;
}

API_TEST(nursery_deadline_race, "J29 J30", .workers = {1, 2}) { CHECK_EQ(in_fiber(deadline_race, NULL), 0); }

/* A thread, which is not in await when it passes, and one which is. */
API_TEST(nursery_deadline_of_a_thread, "J27", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_nursery n;
    for (int awaiting = 0; awaiting < 2; awaiting++) {
        weft_deadline soon =
            fixture_on("sim") ? WEFT_NOW : weft_after(MS); /* a thread has no virtual clock to add to */
        REQUIRE_EQ(weft_nursery_init(&n, rt, NULL), 0);
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        REQUIRE_EQ(weft_nursery_set_deadline(&n, soon), 0);
        if (!awaiting)
            REQUIRE_EVENTUALLY(weft_nursery_state_of(&n) == WEFT_NURSERY_CANCELLED);
        CHECK_EQ(weft_nursery_await(&n), -ETIMEDOUT);
    }
    fixture_end(rt);
}

/* One that has passed is not moved, though its only worker has been busy, and nobody has been told yet. */
static int deadline_passed_unseen(void *arg) {
    (void)arg;
    weft_nursery n;
    for (int taken_away = 0; taken_away < 2; taken_away++) {
        weft_deadline until = weft_after(MS);
        REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
        REQUIRE_EQ(weft_nursery_set_deadline(&n, until), 0);
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        while (weft_now() < until)
            harness_nap(); /* not a wait of ours: the worker is kept */
        REQUIRE_EQ(weft_nursery_set_deadline(&n, taken_away ? WEFT_NEVER : weft_after(HOUR)), 0);
        CHECK_EQ(weft_nursery_reason(&n), WEFT_REASON_TIMEOUT);
        CHECK_EQ(weft_nursery_await(&n), -ETIMEDOUT);
    }
    return 0;
}

API_TEST(nursery_deadline_passed_unseen, "J25", .sched = "ring deque fifo reactor", .workers = {1}) {
    CHECK_EQ(in_fiber(deadline_passed_unseen, NULL), 0);
}

/* One that has passed acts at once: nobody runs, and no time passes. */
static int deadline_passed(void *arg) {
    (void)arg;
    weft_nursery n;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.until = 1;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, &config), 0);
    CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_CANCELLED);
    CHECK_EQ(weft_nursery_reason(&n), WEFT_REASON_TIMEOUT);
    CHECK_EQ(weft_nursery_go(&n, add_one, NULL, NULL), -ECANCELED);
    CHECK_EQ(weft_nursery_await(&n), -ETIMEDOUT);

    for (int later = 0; later < 2; later++) { /* with a timer that keeps a later one, and without */
        unsigned entered = did.entered;
        REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
        if (later)
            REQUIRE_EQ(weft_nursery_set_deadline(&n, weft_after(HOUR)), 0);
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        YIELD_UNTIL(did.entered == entered + 1);
        weft_deadline now = weft_now();
        REQUIRE_EQ(weft_nursery_set_deadline(&n, now), 0);
        CHECK(weft_nursery_state_of(&n) == WEFT_NURSERY_CANCELLING ||
              weft_nursery_state_of(&n) == WEFT_NURSERY_CANCELLED);
        CHECK_EQ(weft_nursery_go(&n, add_one, NULL, NULL), -ECANCELED);
        CHECK_EQ(weft_nursery_await(&n), -ETIMEDOUT);
        if (fixture_on("sim"))
            CHECK_LT(weft_now() - now, MS); /* a microsecond a poll */
        CHECK_EQ(weft_cancel_reason(), WEFT_REASON_NONE); /* ours is another tree */
    }
    return 0;
}

API_TEST(nursery_deadline_passed, "J25 J34", .workers = {1, 2}) { CHECK_EQ(in_fiber(deadline_passed, NULL), 0); }

API_TEST(nursery_deadline_passed_of_a_thread, "J27", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, rt, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_set_deadline(&n, WEFT_NOW), 0);
    CHECK_NE(weft_nursery_state_of(&n), WEFT_NURSERY_OPEN);
    CHECK_EQ(weft_nursery_await(&n), -ETIMEDOUT);
    fixture_end(rt);
}

/* Nothing that waits needs a tick to learn that it is late already. */
static int waits_are_late(void *arg) {
    (void)arg;
    static weft_mutex mutex = WEFT_MUTEX_INIT, mine = WEFT_MUTEX_INIT;
    static weft_rwlock rwlock = WEFT_RWLOCK_INIT;
    static weft_cond cond = WEFT_COND_INIT;
    static weft_sem sem = WEFT_SEM_INIT(0);
    static weft_event event = WEFT_EVENT_INIT;
    weft_task *other = NULL;
    weft_chan *ch = NULL;
    int value = 0;
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_chan_create(sizeof value, 0, &ch), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, &other), 0);
    YIELD_UNTIL(did.entered == 1);
    REQUIRE_EQ(weft_mutex_lock(&mine, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_rwlock_read(&rwlock, WEFT_NEVER), 0);
    weft_deadline now = weft_now();
    for (weft_deadline until = 0; until <= now; until += now / 2 ? now / 2 : 1) {
        weft_case cases[] = {weft_case_recv(ch, &value), weft_case_send(ch, &value)};
        CHECK_EQ(weft_join(other, NULL, until), -ETIMEDOUT);
        CHECK_EQ(weft_chan_recv(ch, &value, until), -ETIMEDOUT);
        CHECK_EQ(weft_chan_send(ch, &value, until), -ETIMEDOUT);
        CHECK_EQ(weft_select(cases, 2, until), -ETIMEDOUT);
        CHECK_EQ(weft_sem_acquire(&sem, 1, until), -ETIMEDOUT);
        CHECK_EQ(weft_event_wait(&event, until), -ETIMEDOUT);
        CHECK_EQ(weft_rwlock_write(&rwlock, until), -ETIMEDOUT);
        CHECK_EQ(weft_cond_wait(&cond, &mine, until), -ETIMEDOUT);
        CHECK_EQ(weft_sleep_until(until), 0);
        REQUIRE_EQ(weft_mutex_lock(&mutex, until), 0); /* what can be had is had */
        CHECK_EQ(weft_mutex_unlock(&mutex), 0);
        CHECK_EQ(weft_timeout(until - now, add_one, NULL), -ETIMEDOUT);
    }
    CHECK_EQ(did.entered, 1); /* what was late when it was started never ran */
    if (fixture_on("sim"))
        CHECK_LT(weft_now() - now, MS); /* a microsecond a poll */
    CHECK_EQ(weft_rwlock_read_unlock(&rwlock), 0);
    CHECK_EQ(weft_mutex_unlock(&mine), 0);
    weft_nursery_cancel(&n);
    CHECK_EQ(weft_nursery_await(&n), -ECANCELED);
    weft_task_drop(other);
    CHECK_EQ(weft_chan_destroy(ch), 0);
    return 0;
}

API_TEST(deadline_passed_everywhere, "J9", .workers = {1}) { CHECK_EQ(in_fiber(waits_are_late, NULL), 0); }

/* -- weft_timeout --------------------------------------------------------------------------------------------------------- */

static int answer(void *arg) {
    (void)arg;
    return 42;
}

static int fail_when_late(void *arg) {
    (void)arg;
    return weft_sleep(HOUR) == -ECANCELED ? -EBADF : 0;
}

static int takes_no_notice(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_shield(self), 0);
    while (weft_task_cancel_reason(self) == WEFT_REASON_NONE)
        CHECK_EQ(weft_sleep(MS), 0);
    CHECK_EQ(weft_cancel_reason(), WEFT_REASON_TIMEOUT);
    CHECK_EQ(weft_unshield(self), 0);
    did.entered = 1;
    return 42;
}

static int timeouts(void *arg) {
    (void)arg;
    CHECK_EQ(weft_timeout(HOUR, answer, NULL), 42);
    CHECK_EQ(weft_timeout(HOUR, fail_with, STATUS(-EIO)), -EIO);
    CHECK_EQ(weft_timeout(MS, wait_for_ever, NULL), -ETIMEDOUT);
    CHECK_EQ(weft_timeout(0, wait_for_ever, NULL), -ETIMEDOUT);
    int result = -ETIMEDOUT;
    for (int64_t ns = MS; result == -ETIMEDOUT && ns < HOUR; ns *= 2) /* until it has begun when its time is up */
        result = weft_timeout(ns, fail_when_late, NULL);
    CHECK_EQ(result, -EBADF);
    did.entered = 0;
    CHECK_EQ(weft_timeout(HOUR, NULL, NULL), -EINVAL);
    for (int64_t ns = MS; !did.entered && ns < HOUR; ns *= 2)
        CHECK_EQ(weft_timeout(ns, takes_no_notice, NULL), -ETIMEDOUT); /* though it came to its end */
    weft_task_cancel(weft_task_self());
    CHECK_EQ(weft_timeout(HOUR, answer, NULL), -ECANCELED);
    return 0;
}

API_TEST(nursery_timeout, "J33 J34", .workers = {1, 2}) { CHECK_EQ(in_fiber(timeouts, NULL), 0); }

static int nested_timeouts(void *arg) {
    int left = (int)(intptr_t)arg;
    return left ? weft_timeout(HOUR, nested_timeouts, STATUS(left - 1)) : wait_for_ever(NULL);
}

static int outer_timeout(void *arg) {
    CHECK_EQ(weft_timeout(2 * MS, nested_timeouts, arg), -ETIMEDOUT);
    CHECK_EQ(did.cancelled, did.entered); /* the innermost one, if it was reached in time */
    return 0;
}

API_TEST(nursery_timeout_nested, "J24", .workers = {1, 2}) { CHECK_EQ(in_fiber(outer_timeout, STATUS(10)), 0); }
