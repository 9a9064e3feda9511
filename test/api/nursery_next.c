/* nursery_next.c - the ends of children one after the other: in order, once, with deadlines, cancels and failures, from fibers, threads and poll tasks. */
#include "nursery.h"

#define MS INT64_C(1000000)

static weft_nursery_config keeping(void) {
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.keep_results = config.keep_going = true;
    return config;
}

static int sleep_for(void *ms) {
    int why = weft_sleep((int64_t)(intptr_t)ms * MS);
    return why ? why : (int)(intptr_t)ms;
}

/* -- In order ------------------------------------------------------------------------------------------------------- */

static int in_order(void *arg) {
    (void)arg;
    weft_nursery_config config = keeping();
    weft_result result;
    int status;
    WEFT_NURSERY_WITH(n, &status, &config) {
        CHECK_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NEVER), -ECHILD);
        for (int round = 0; round < 2; round++) { /* it can be emptied, and filled again */
            static const int order[] = {30, 10, 20};
            for (int i = 0; i < 3; i++)
                REQUIRE_EQ(weft_nursery_go(&n, sleep_for, STATUS(order[i]), NULL), 0);
            CHECK_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NOW), -ETIMEDOUT);
            for (int i = 1; i <= 3; i++) {
                CHECK_EQ(weft_nursery_count(&n), 4 - i);
                REQUIRE_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NEVER), 0);
                CHECK(result.status == 0 && result.value == STATUS(10 * i));
            }
            CHECK_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NEVER), -ECHILD);
            CHECK_EQ(weft_nursery_state_of(&n), WEFT_NURSERY_OPEN);
        }
    }
    return status;
}

API_TEST(nursery_next_in_order, "J28 J29 J33", .sched = "sim") { CHECK_EQ(in_fiber(in_order, NULL), 0); }

/* -- Once each, whoever is first ---------------------------------------------------------------------------------------- */

#define CROWD 200

static int number(void *arg) {
    if ((intptr_t)arg % 3)
        weft_yield();
    return (int)(intptr_t)arg;
}

/* Two are kept running: as one ends the next is started. */
static int once_each(void *arg) {
    (void)arg;
    static unsigned seen[CROWD];
    weft_nursery_config config = keeping();
    weft_task *handle[CROWD];
    const weft_task *which;
    weft_result result;
    int status, started = 0, ended = 0;
    WEFT_NURSERY_WITH(n, &status, &config) {
        for (int error = 0; !error; ended += !error) {
            while (started < CROWD && started - ended < 2) {
                REQUIRE_EQ(weft_nursery_go(&n, number, STATUS(started), &handle[started]), 0);
                started++;
            }
            error = weft_nursery_next(&n, &result, &which, WEFT_NEVER);
            if (error) {
                CHECK_EQ(error, -ECHILD);
                break;
            }
            int child = (int)(intptr_t)result.value;
            REQUIRE_LT(child, CROWD);
            CHECK_EQ(seen[child]++, 0);
            CHECK_EQ(which, handle[child]);
            CHECK(weft_task_is_done(handle[child]));
            CHECK_EQ(weft_join(handle[child], &result, WEFT_NOW), 0); /* the handle still knows */
            CHECK_EQ(result.value, STATUS(child));
            weft_task_drop(handle[child]);
        }
    }
    CHECK_EQ(ended, CROWD);
    memset(seen, 0, sizeof seen);
    return status;
}

API_TEST(nursery_next_once_each, "J28 J29", .workers = {1, 2, 4}) { CHECK_EQ(in_fiber(once_each, NULL), 0); }

/* Children that start children: none is missed, and -ECHILD comes after the last. */
static int two_more(void *arg) {
    intptr_t depth = (intptr_t)arg;
    for (int i = 0; i < 2 && depth; i++)
        REQUIRE_EQ(weft_nursery_go(weft_nursery_parent(), two_more, STATUS(depth - 1), NULL), 0);
    weft_yield();
    return 0;
}

static int tree(void *arg) {
    (void)arg;
    weft_nursery_config config = keeping();
    int status, count = 0;
    WEFT_NURSERY_WITH(n, &status, &config) {
        REQUIRE_EQ(weft_nursery_go(&n, two_more, STATUS(6), NULL), 0);
        while (weft_nursery_next(&n, NULL, NULL, WEFT_NEVER) == 0)
            count++;
    }
    CHECK_EQ(count, 127);
    return status;
}

API_TEST(nursery_next_of_a_tree, "J17 J29", .workers = {1, 2, 4}) { CHECK_EQ(in_fiber(tree, NULL), 0); }

/* What nobody asks for is given back with the nursery: fixture_end would tell. */
static int unasked(void *arg) {
    (void)arg;
    weft_nursery_config config = keeping();
    weft_nursery *made;
    int status;
    WEFT_NURSERY_WITH(n, &status, &config) {
        for (int i = 0; i < 10; i++)
            REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
        CHECK_EQ(weft_nursery_next(&n, NULL, NULL, WEFT_NEVER), 0);
    }
    REQUIRE_EQ(weft_nursery_create(NULL, &config, &made), 0);
    REQUIRE_EQ(weft_nursery_go(made, add_one, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_await(made), 0);
    CHECK_EQ(weft_nursery_next(made, NULL, NULL, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_nursery_destroy(made), 0);
    return status;
}

API_TEST(nursery_next_unasked, "J8 J28", .workers = {1, 2}) { CHECK_EQ(in_fiber(unasked, NULL), 0); }

/* -- Failures and cancels --------------------------------------------------------------------------------------------------- */

/* All ends are told, also of those that were cancelled for it, queued or waiting; the failure first. */
static int failure(void *arg) {
    bool keep_going = arg != NULL;
    weft_nursery_config config = keeping();
    config.keep_going = keep_going;
    weft_result result;
    int status;
    WEFT_NURSERY_WITH(n, &status, &config) {
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        REQUIRE_EQ(weft_nursery_go(&n, fail_with, STATUS(-EIO), NULL), 0);
        REQUIRE_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NEVER), 0);
        if (!keep_going && result.status == -ECANCELED) /* cancelled before it began, and so at an end first */
            REQUIRE_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NEVER), 0);
        CHECK_EQ(result.status, -EIO);
        if (keep_going) {
            CHECK_EQ(weft_nursery_next(&n, NULL, NULL, WEFT_NOW), -ETIMEDOUT);
            weft_nursery_cancel(&n);
        }
        while (weft_nursery_next(&n, &result, NULL, WEFT_NEVER) == 0)
            CHECK(result.status == -ECANCELED && result.value == NULL);
        CHECK_EQ(weft_nursery_count(&n), 0);
    }
    return status;
}

API_TEST(nursery_next_failure, "J20 J33", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(failure, NULL), -EIO);
    CHECK_EQ(in_fiber(failure, STATUS(1)), -EIO);
}

/* A single child that is cancelled is one of the ends. */
static int one_cancelled(void *arg) {
    (void)arg;
    weft_nursery_config config = keeping();
    weft_task *handle;
    const weft_task *which = NULL;
    weft_result result;
    int status;
    WEFT_NURSERY_WITH(n, &status, &config) {
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, &handle), 0);
        CHECK_EQ(weft_nursery_next(&n, &result, &which, weft_after(MS)), -ETIMEDOUT);
        CHECK_EQ(which, NULL);
        weft_task_cancel(handle);
        REQUIRE_EQ(weft_nursery_next(&n, &result, &which, WEFT_NEVER), 0);
        CHECK(result.status == -ECANCELED && which == handle);
        weft_task_drop(handle);
        CHECK_EQ(weft_nursery_next(&n, &result, &which, weft_after(MS)), -ETIMEDOUT); /* the other goes on */
        weft_nursery_set_deadline(&n, WEFT_NOW);
        REQUIRE_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NEVER), 0);
        CHECK_EQ(result.status, -ECANCELED);
    }
    return status;
}

API_TEST(nursery_next_one_cancelled, "J31 J33", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(one_cancelled, NULL), -ETIMEDOUT);
}

/* The owner is cancelled: it still gets what there is, and waits no more unless it is shielded. */
static int owner_cancelled(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    weft_nursery_config config = keeping();
    weft_result result;
    int status;
    WEFT_NURSERY_WITH(n, &status, &config) {
        REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
        YIELD_UNTIL(weft_nursery_count(&n) == 0);
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        YIELD_UNTIL(did.entered == 2);
        REQUIRE_EQ(weft_shield(self), 0);
        weft_task_cancel(self);
        REQUIRE_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NEVER), 0);
        CHECK_EQ(result.status, 0);
        REQUIRE_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NEVER),
                   0); /* opened before the shield: it was cancelled */
        CHECK_EQ(result.status, -ECANCELED);
        CHECK_EQ(weft_unshield(self), 0);
        CHECK_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NEVER), -ECHILD);
    }
    return status;
}

static int owner_waits(void *arg) {
    weft_nursery_config config = keeping();
    int status, error = 1;
    WEFT_NURSERY_WITH(n, &status, &config) {
        REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
        error = weft_nursery_next(&n, NULL, NULL, arg ? weft_after(1000000 * MS) : WEFT_NEVER);
    }
    CHECK(error == -ECANCELED || error == 0); /* 0: its child was quicker */
    return status;
}

API_TEST(nursery_next_owner_cancelled, "J23 J25", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(owner_cancelled, NULL), -ECANCELED);
    for (int i = 0; i < (fixture_on("sim") ? 1 : 2); i++) { /* whose time would be over before we come */
        unsigned before = did.entered;
        weft_runtime *rt = fixture_begin_patient();
        weft_task *task = NULL;
        REQUIRE_EQ(weft_fiber_go(rt, owner_waits, i ? rt : NULL, &task), 0);
        REQUIRE_EVENTUALLY(did.entered == before + 1);
        weft_task_cancel(task);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        fixture_end(rt);
    }
}

/* -- Threads and poll tasks ---------------------------------------------------------------------------------------------------- */

API_TEST(nursery_next_of_a_thread, "J27 J29", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_nursery_config config = keeping();
    weft_nursery n;
    weft_result result;
    REQUIRE_EQ(weft_nursery_init(&n, rt, &config), 0);
    for (int i = 1; i <= 20; i++)
        REQUIRE_EQ(weft_nursery_go(&n, number, STATUS(i), NULL), 0);
    int sum = 0, error;
    while ((error = weft_nursery_next(&n, &result, NULL, WEFT_NEVER)) == 0)
        sum += (int)(intptr_t)result.value;
    CHECK_EQ(error, -ECHILD);
    CHECK_EQ(sum, 210);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_next(&n, &result, NULL, weft_after(MS)), -ETIMEDOUT);
    weft_nursery_cancel(&n);
    CHECK_EQ(weft_nursery_next(&n, &result, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_nursery_await(&n), -ECANCELED);
    fixture_end(rt);
}

/* One of two threads waits: the other is told so. */
static void take_one(unsigned index, void *arg) {
    weft_result result;
    int error;
    if (index == 0) {
        while ((error = weft_nursery_next(arg, &result, NULL, WEFT_NEVER)) == -EBUSY)
            harness_nap();
        CHECK_EQ(error, 0);
        CHECK_EQ(result.status, -ECANCELED);
        return;
    }
    REQUIRE_EVENTUALLY(weft_nursery_next(arg, &result, NULL, weft_after(MS)) == -EBUSY);
    CHECK_EQ(weft_nursery_await(arg), -EBUSY);
    weft_nursery_cancel(arg);
}

API_TEST(nursery_next_of_two_threads, "J27", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_nursery_config config = keeping();
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, rt, &config), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    harness_threads(2, take_one, &n);
    CHECK_EQ(weft_nursery_await(&n), -ECANCELED);
    fixture_end(rt);
}

/* A thread awaits the nursery, or takes its next result: another one cannot destroy it under that. */
static void destroy_or_wait(unsigned index, void *arg) {
    bool takes = ((void **)arg)[1] != NULL;
    weft_nursery *n = ((void **)arg)[0];
    weft_result result;
    int error;
    if (index == 0) {
        do
            error = takes ? weft_nursery_next(n, &result, NULL, WEFT_NEVER) : weft_nursery_await(n);
        while (error == -EBUSY); /* the other one looks */
        CHECK_EQ(error, takes ? 0 : -ECANCELED);
        return;
    }
    REQUIRE_EVENTUALLY(weft_nursery_next(n, &result, NULL, weft_after(MS)) == -EBUSY);
    CHECK_EQ(weft_nursery_destroy(n), -EBUSY);
    CHECK_EQ(weft_nursery_state_of(n), WEFT_NURSERY_OPEN);
    CHECK_EQ(weft_nursery_count(n), 1);
    weft_nursery_cancel(n);
}

API_TEST(nursery_destroy_while_awaited, "J27 J38", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_nursery_config config = keeping();
    for (int takes = 0; takes < 2; takes++) {
        weft_nursery *n;
        REQUIRE_EQ(weft_nursery_create(rt, &config, &n), 0);
        REQUIRE_EQ(weft_nursery_go(n, wait_for_ever, NULL, NULL), 0);
        harness_threads(2, destroy_or_wait, (void *[]){n, takes ? n : NULL});
        CHECK_EQ(weft_nursery_destroy(n), -ECANCELED);
    }
    fixture_end(rt);
}

struct poller {
    weft_nursery *n;
    weft_wait wait;
    int left, sum;
};

static weft_poll take_all(weft_task *self, void *state) {
    struct poller *p = state;
    weft_nursery_config config = keeping();
    weft_result result;
    int error, status;
    if (!p->n) {
        REQUIRE_EQ(weft_nursery_create(NULL, &config, &p->n), 0);
        for (int i = 1; i <= 20; i++)
            REQUIRE_EQ(weft_nursery_go(p->n, number, STATUS(i), NULL), 0);
        if (!p->left)
            REQUIRE_EQ(weft_nursery_go(p->n, wait_for_ever, NULL, NULL), 0);
    }
    while ((error = weft_nursery_next_poll(p->n, self, &p->wait, &result, NULL)) == 0)
        p->sum += (int)(intptr_t)result.value;
    if (error == -EAGAIN && weft_runtime_workers(weft_runtime_current()) > 1)
        return WEFT_PENDING; /* by now another may have ended, and we wait no more */
    if (error == -EAGAIN) {
        weft_wait other = {{0}};
        CHECK_EQ(weft_nursery_next_poll(p->n, self, &other, &result, NULL), -EBUSY);
        CHECK_EQ(weft_nursery_await_poll(p->n, self, &other, &status), -EBUSY);
        CHECK_EQ(weft_nursery_await_poll(p->n, self, &p->wait, &status), -EBUSY);
        return WEFT_PENDING;
    }
    CHECK_EQ(error, -ECHILD);
    CHECK_EQ(p->sum, 210);
    REQUIRE_EQ(weft_nursery_await_poll(p->n, self, &p->wait, &status), 0);
    return weft_done(self, status, NULL);
}

static void drop_poller(void *state) {
    struct poller *p = state;
    if (p->left) /* else destroy finds it waiting */
        weft_wait_end(&p->wait);
    weft_nursery_destroy(p->n);
}

API_TEST(nursery_next_poll, "J8 J9 J23 J26", .workers = {1, 2}) {
    fixture_without_points();
    weft_runtime *rt = fixture_begin_patient();
    struct poller p = {.left = 1};
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task;
    spec.poll = take_all;
    spec.drop = drop_poller;
    spec.state = &p;
    spec.state_size = sizeof p;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    p.left = 0; /* cancelled while it waits, with ends that nobody has taken */
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    REQUIRE_EVENTUALLY(did.entered == 1);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    REQUIRE_EVENTUALLY(did.cancelled == 1);
    fixture_end(rt);
}

/* Who waits for all may take those that have ended. */
static weft_poll take_while_waiting(weft_task *self, void *state) {
    struct poller *p = state;
    weft_nursery_config config = keeping();
    weft_wait other = {{0}};
    weft_result result;
    int status;
    if (!p->n) {
        REQUIRE_EQ(weft_nursery_create(NULL, &config, &p->n), 0);
        REQUIRE_EQ(weft_nursery_go(p->n, number, STATUS(7), NULL), 0);
        REQUIRE_EQ(weft_nursery_go(p->n, wait_for_ever, NULL, NULL), 0);
    }
    int error = weft_nursery_await_poll(p->n, self, &p->wait, &status);
    if (!error)
        return weft_done(self, status, NULL);
    CHECK_EQ(error, -EAGAIN);
    if (p->sum)
        return WEFT_PENDING;
    error = weft_nursery_next_poll(p->n, self, &other, &result, NULL);
    if (error) { /* none has */
        CHECK_EQ(error, -EBUSY);
        return WEFT_YIELD;
    }
    p->sum += (int)(intptr_t)result.value;
    CHECK_EQ(p->sum, 7);
    weft_nursery_cancel(p->n);
    return WEFT_PENDING;
}

API_TEST(nursery_next_poll_beside_await, "J23 J27", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct poller p = {.left = 1};
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task;
    spec.poll = take_while_waiting;
    spec.drop = drop_poller;
    spec.state = &p;
    spec.state_size = sizeof p;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

/* -- Refused -------------------------------------------------------------------------------------------------------------------- */

static int take_as_child(void *arg) {
    CHECK_EQ(weft_nursery_next(arg, NULL, NULL, WEFT_NOW), -EDEADLK);
    return 0;
}

static int take_as_other(void *arg) {
    CHECK_EQ(weft_nursery_next(arg, NULL, NULL, WEFT_NOW), -EACCES);
    return 0;
}

static int wrong(void *arg) {
    (void)arg;
    weft_nursery_config config = keeping();
    weft_task *task;
    int status;
    CHECK_EQ(weft_nursery_next(NULL, NULL, NULL, WEFT_NOW), -EINVAL);
    WEFT_NURSERY(plain, &status) { CHECK_EQ(weft_nursery_next(&plain, NULL, NULL, WEFT_NOW), -EINVAL); }
    WEFT_NURSERY_WITH(n, &status, &config) {
        REQUIRE_EQ(weft_fiber_go(NULL, take_as_other, &n, &task), 0);
        CHECK_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
        weft_task_drop(task);
        REQUIRE_EQ(weft_nursery_go(&n, take_as_child, &n, NULL), 0);
        WEFT_NURSERY(newer, NULL) {
            CHECK_EQ(weft_nursery_next(&n, NULL, NULL, WEFT_NEVER), 0); /* of any that is ours */
        }
    }
    return status;
}

API_TEST(nursery_next_refused, "J26 J38", .workers = {1}) { CHECK_EQ(in_fiber(wrong, NULL), 0); }

/* A child that could not be queued was counted for a moment: who waits for it then is told that none is left.  (What the queue has no room for is refused, from
 * outside.) */
static weft_nursery crowded;
static atomic_bool filled, over;

static void take_ends(unsigned index, void *arg) {
    weft_runtime *rt = arg;
    (void)rt;
    if (index) {
        unsigned made = 0, refused = 0;
        for (int i = 0; i < 20000 || (!refused && i < 2000000); i++) {
            int error = weft_nursery_go(&crowded, add_one, NULL, NULL);
            REQUIRE(error == 0 || error == -EAGAIN);
            made += !error;
            refused += error == -EAGAIN;
        }
        CHECK_GT(refused, 0);
        CHECK_GT(made, 0);
        atomic_store(&over, true);
        return;
    }
    unsigned taken = 0;
    for (int error; (error = weft_nursery_next(&crowded, NULL, NULL, WEFT_NEVER)) == 0 || !atomic_load(&over);)
        taken += !error;
    while (weft_nursery_next(&crowded, NULL, NULL, WEFT_NEVER) == 0)
        taken++;
    CHECK_EQ(taken, did.entered);
    atomic_store(&filled, true);
}

API_TEST(nursery_next_child_refused, "B57 J29", .workers = {1, 2}, .sched = "ring deque fifo reactor") {
    weft_config config = WEFT_CONFIG_INIT;
    weft_nursery_config keep = keeping();
    config.global_capacity = 1;
    config.park_timeout_ns = -1;
    weft_runtime *rt = fixture_begin(&config);
    REQUIRE_EQ(weft_nursery_init(&crowded, rt, &keep), 0);
    harness_threads(2, take_ends, rt);
    CHECK(atomic_load(&filled));
    CHECK_EQ(weft_nursery_await(&crowded), 0);
    fixture_end(rt);
}
