/* nursery_lend.c - handles that a compiler borrows: valid until the nursery has been awaited,
 * dropped by it, never leaked. */
#include <weft/abi.h>

#include "nursery.h"

/* fixture_end checks that no handle is held: without the nursery's drop, weft_runtime_destroy is
 * -EBUSY. */

static int never_dropped(void *arg) {
    (void)arg;
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n);
    for (int i = 0; i < 20; i++)
        REQUIRE(weft_abi_nursery_spawn(n, add_one, NULL));
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    CHECK_EQ(did.entered, 20);
    weft_abi_nursery_destroy(n);
    return 0;
}

API_TEST(lend_never_dropped, "J32 J36", .workers = {1, 2, 4}) { CHECK_EQ(in_fiber(never_dropped, NULL), 0); }

/* A handle says what has become of its child for as long as it is borrowed, however long the child
 * has been gone. */
static int valid_until_await(void *arg) {
    (void)arg;
    weft_task *task[10];
    weft_result result;
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n);
    for (int i = 0; i < 10; i++)
        REQUIRE(task[i] = weft_abi_nursery_spawn(n, i % 2 ? fail_with : add_one, STATUS(-ECANCELED)));
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_join(task[i], &result, WEFT_NEVER), 0);
        CHECK_EQ(result.status, i % 2 ? -ECANCELED : 0);
    }
    for (int i = 0; i < 50; i++) /* their slots are not used again */
        REQUIRE_EQ(weft_nursery_go(n, add_one, NULL, NULL), 0);
    YIELD_UNTIL(did.entered == 55);
    for (int i = 0; i < 10; i++) {
        CHECK(weft_task_is_done(task[i]));
        weft_task_cancel(task[i]); /* no other task is hit */
    }
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    weft_abi_nursery_destroy(n);
    return 0;
}

API_TEST(lend_valid_until_await, "J36", .workers = {1, 2}) { CHECK_EQ(in_fiber(valid_until_await, NULL), 0); }

/* The spawner may drop a handle before the await; one that is owned stays its owner's. */
static int some_dropped(void *arg) {
    (void)arg;
    weft_task *owned, *early, *late;
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n);
    REQUIRE_EQ(weft_nursery_go(n, add_one, NULL, &owned), 0);
    early = weft_abi_nursery_spawn(n, wait_for_ever, NULL);
    late = weft_abi_nursery_spawn(n, add_one, NULL);
    REQUIRE(early && late);
    weft_task_cancel(early);
    weft_task_drop(early); /* it still runs */
    CHECK_EQ(weft_join(late, NULL, WEFT_NEVER), 0);
    weft_task_drop(late); /* it has ended */
    REQUIRE(weft_abi_nursery_spawn(n, add_one, NULL));
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    CHECK(weft_task_is_done(owned));
    weft_task_drop(owned);
    weft_abi_nursery_destroy(n);
    return 0;
}

API_TEST(lend_dropped_early, "J36", .workers = {1, 2}) { CHECK_EQ(in_fiber(some_dropped, NULL), 0); }

/* However the nursery ends: cancelled, failed, destroyed without an await, forgotten by its fiber.
 * */
static int forget(void *arg) {
    (void)arg;
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n && weft_abi_nursery_spawn(n, add_one, NULL) && weft_abi_nursery_spawn(n, wait_for_ever, NULL));
    return 0;
}

static int all_ends(void *arg) {
    (void)arg;
    for (int i = 0; i < 3; i++) {
        weft_nursery *n = weft_abi_nursery_create();
        REQUIRE(n && weft_abi_nursery_spawn(n, add_one, NULL) && weft_abi_nursery_spawn(n, wait_for_ever, NULL));
        if (i == 0)
            weft_abi_nursery_cancel(n);
        if (i == 1)
            REQUIRE(weft_abi_nursery_spawn(n, fail_with, STATUS(-7)));
        if (i < 2)
            CHECK_EQ(weft_abi_nursery_await(n), i ? -7 : WEFT_ABI_CANCELLED);
        weft_abi_nursery_destroy(n);
    }
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(NULL, forget, NULL, &task), 0);
    CHECK_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
    weft_task_drop(task);
    return 0;
}

API_TEST(lend_all_ends, "J20 J34 J36", .workers = {1, 2}) { CHECK_EQ(in_fiber(all_ends, NULL), 0); }

/* With keep_results a child is in two lists of the nursery. */
static int with_results(void *arg) {
    (void)arg;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    weft_nursery *n;
    const weft_task *which;
    config.keep_results = true;
    for (int asked = 0; asked <= 6; asked += 3) {
        weft_task *task[6];
        unsigned seen = 0;
        REQUIRE_EQ(weft_nursery_create(NULL, &config, &n), 0);
        for (int i = 0; i < 6; i++)
            REQUIRE(task[i] = weft_abi_nursery_spawn(n, add_one, NULL));
        for (int i = 0; i < asked; i++) {
            REQUIRE_EQ(weft_nursery_next(n, NULL, &which, WEFT_NEVER), 0);
            for (int k = 0; k < 6; k++)
                seen |= (unsigned)(which == task[k]) << k;
        }
        CHECK_EQ(__builtin_popcount(seen), asked);
        CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
        weft_abi_nursery_destroy(n);
    }
    return 0;
}

API_TEST(lend_with_results, "J36", .workers = {1, 2}) { CHECK_EQ(in_fiber(with_results, NULL), 0); }

/* A poll task's nursery: awaited, and abandoned while children run, whose handles are then dropped
 * by the last of them. */
struct poller {
    weft_wait wait;
    weft_nursery *n;
    bool abandon;
};

static weft_poll poll_owner(weft_task *self, void *state) {
    struct poller *p = state;
    int result;
    if (!p->n) {
        REQUIRE_EQ(weft_nursery_create(NULL, NULL, &p->n), 0);
        REQUIRE(weft_abi_nursery_spawn(p->n, add_one, NULL));
        REQUIRE(weft_abi_nursery_spawn(p->n, p->abandon ? wait_for_ever : add_one, NULL));
    }
    if (p->abandon)
        return weft_done(self, 0, NULL);
    int error = weft_nursery_await_poll(p->n, self, &p->wait, &result);
    if (error == -EAGAIN)
        return WEFT_PENDING;
    CHECK_EQ(error, 0);
    CHECK_EQ(result, 0);
    return weft_done(self, 0, NULL);
}

static void poll_drop(void *state) {
    struct poller *p = state;
    weft_wait_end(&p->wait);
    CHECK_EQ(weft_nursery_destroy(p->n), 0);
}

API_TEST(lend_poll_owner, "J36", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 2; i++) {
        struct poller state = {.abandon = i == 1};
        weft_spec spec = WEFT_SPEC_INIT;
        weft_task *task;
        spec.poll = poll_owner;
        spec.drop = poll_drop;
        spec.state = &state;
        spec.state_size = sizeof state;
        REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    fixture_end(rt);
}

/* -- A refused spawn: compiled code does not look at each pointer, so the await reports it. */

static int refused(void *arg) {
    (void)arg;
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n && weft_abi_nursery_spawn(n, wait_for_ever, NULL));
    CHECK(!weft_abi_nursery_spawn(n, NULL, NULL)); /* no function */
    CHECK(!weft_abi_nursery_spawn(n, add_one, NULL)); /* cancelled by that */
    CHECK_EQ(weft_abi_nursery_await(n), -EINVAL);
    weft_abi_nursery_destroy(n);

    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.keep_going = true;
    REQUIRE_EQ(weft_nursery_create(NULL, &config, &n), 0);
    CHECK(!weft_abi_nursery_spawn(n, NULL, NULL));
    REQUIRE(weft_abi_nursery_spawn(n, fail_with, STATUS(-7))); /* the first error counts */
    CHECK_EQ(weft_abi_nursery_await(n), -EINVAL);
    CHECK(!weft_abi_nursery_spawn(n, NULL, NULL)); /* too late to matter */
    CHECK_EQ(weft_abi_nursery_await(n), -EINVAL);
    weft_abi_nursery_destroy(n);

    n = weft_abi_nursery_create();
    weft_nursery_close(n);
    CHECK(!weft_abi_nursery_spawn(n, add_one, NULL)); /* closed: nothing is lost that was promised */
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    weft_abi_nursery_destroy(n);

    CHECK(!weft_abi_nursery_spawn(NULL, add_one, NULL));
    CHECK_EQ(weft_abi_nursery_await(NULL), -EINVAL);
    return 0;
}

API_TEST(lend_refused_spawn, "J21 J33 J37", .workers = {1, 2}) { CHECK_EQ(in_fiber(refused, NULL), 0); }
