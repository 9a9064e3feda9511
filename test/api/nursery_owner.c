/* nursery_owner.c - who may do what with a nursery, and who may have one: fibers, threads, poll tasks; made, destroyed, forgotten. */
#include <weft/abi.h>

#include "nursery.h"

/* -- Who may do what -------------------------------------------------------------------------------------------------- */

static int await_parent(void *arg) {
    (void)arg;
    CHECK_EQ(weft_nursery_await(weft_nursery_parent()), -EDEADLK);
    CHECK_EQ(weft_nursery_set_deadline(weft_nursery_parent(), WEFT_NOW), -EACCES);
    return 0;
}

static int await_other(void *arg) {
    CHECK_EQ(weft_nursery_await(arg), -EACCES);
    return 0;
}

static int wrong_waiters(void *arg) {
    (void)arg;
    weft_nursery outer, inner;
    REQUIRE_EQ(weft_nursery_init(&outer, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_init(&inner, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&outer, await_parent, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&outer, await_other, &inner, NULL), 0);
    CHECK_EQ(weft_nursery_await(&outer), -EBUSY); /* J38 */
    CHECK_EQ(weft_nursery_state_of(&outer), WEFT_NURSERY_OPEN);
    YIELD_UNTIL(weft_nursery_count(&outer) == 0);
    CHECK_EQ(weft_nursery_await(&inner), 0);
    CHECK_EQ(weft_nursery_await(&outer), 0);
    return 0;
}

API_TEST(nursery_wrong_waiters, "J26 J38", .workers = {1, 2}) { CHECK_EQ(in_fiber(wrong_waiters, NULL), 0); }

/* J22 */
static int binding(void *arg) {
    (void)arg;
    weft_nursery a, b;
    weft_task *self = weft_task_self();
    CHECK_EQ(weft_nursery_current(), NULL);
    REQUIRE_EQ(weft_nursery_init(&a, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_current(), &a);
    CHECK_EQ(weft_nursery_owner(&a), self);
    REQUIRE_EQ(weft_nursery_init(&b, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_current(), &b);
    weft_nursery_close(&b); /* complete: cleared */
    CHECK_EQ(weft_nursery_owner(&b), NULL);
    CHECK_EQ(weft_nursery_current(), &a);
    CHECK_EQ(weft_nursery_await(&b), 0);
    CHECK_EQ(weft_nursery_await(&a), 0);
    CHECK_EQ(weft_nursery_owner(&a), NULL);
    CHECK_EQ(weft_nursery_current(), NULL);
    return 0;
}

API_TEST(nursery_binding, "J22 J38", .workers = {1}) { CHECK_EQ(in_fiber(binding, NULL), 0); }

static int bad_arguments(void *arg) {
    (void)arg;
    weft_nursery n;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    struct {
        weft_nursery_config known;
        char more[8];
    } newer = {WEFT_NURSERY_CONFIG_INIT, "x"};
    newer.known.size = sizeof newer;
    config.size = 3;
    CHECK_EQ(weft_nursery_init(&n, NULL, &config), -EINVAL);
    CHECK_EQ(weft_nursery_init(&n, NULL, &newer.known), -E2BIG);
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_go(&n, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_nursery_spawn(&n, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_nursery_count(&n), 0);
    CHECK_EQ(weft_nursery_await(&n), 0);
    CHECK_EQ(weft_nursery_destroy(NULL), 0);
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_destroy(&n), -ECANCELED); /* not awaited, and in our own memory */
    return 0;
}

API_TEST(nursery_bad_arguments, "J36", .workers = {1}) { CHECK_EQ(in_fiber(bad_arguments, NULL), 0); }

/* All zero, and never opened: there is no owner that the caller could be. */
static int never_opened(void *arg) {
    weft_nursery n = {{0}};
    CHECK_EQ(weft_nursery_await(&n), -EINVAL);
    CHECK_EQ(weft_nursery_next(&n, NULL, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_nursery_set_deadline(&n, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_nursery_destroy(&n), -EINVAL);
    CHECK_EQ(weft_abi_nursery_await(&n), -EINVAL);
    CHECK_EQ(weft_abi_nursery_spawn(&n, add_one, NULL), NULL);
    return (void)arg, 0;
}

API_TEST(nursery_never_opened, "J36", .workers = {1}) {
    never_opened(NULL); /* a plain thread */
    CHECK_EQ(in_fiber(never_opened, NULL), 0);
}

/* Nothing was cancelled: destroying a nursery without children that run is a success, or the failure of one that has ended. */
static int destroy_unused(void *arg) {
    weft_runtime *rt = arg;
    weft_nursery *n;
    weft_task *task;
    weft_nursery in_frame;
    REQUIRE_EQ(weft_nursery_create(rt, NULL, &n), 0);
    CHECK_EQ(weft_nursery_destroy(n), 0);
    REQUIRE_EQ(weft_nursery_init(&in_frame, rt, NULL), 0);
    CHECK_EQ(weft_nursery_destroy(&in_frame), 0);
    CHECK_EQ(weft_nursery_state_of(&in_frame), WEFT_NURSERY_CLOSED);
    for (int i = 0; i < 2; i++) {
        REQUIRE_EQ(weft_nursery_create(rt, NULL, &n), 0);
        REQUIRE_EQ(weft_nursery_go(n, fail_with, STATUS(i ? -EIO : 0), &task), 0);
        CHECK_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
        weft_task_drop(task);
        CHECK_EQ(weft_nursery_destroy(n), i ? -EIO : 0);
    }
    REQUIRE_EQ(weft_nursery_create(rt, NULL, &n), 0);
    weft_nursery_cancel(n); /* by its owner's wish */
    CHECK_EQ(weft_nursery_destroy(n), -ECANCELED);
    return 0;
}

API_TEST(nursery_destroy_unused, "J18 J36", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    destroy_unused(rt);
    fixture_end(rt);
    CHECK_EQ(in_fiber(destroy_unused, NULL), 0);
}

TEST(nursery_outside_of_a_runtime, "J27") {
    weft_nursery n, *created = NULL;
    CHECK_EQ(weft_nursery_init(&n, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_nursery_create(NULL, NULL, &created), -EINVAL);
    CHECK_EQ(created, NULL);
    CHECK_EQ(weft_timeout(1000, add_one, NULL), -EINVAL);
}

/* -- Other owners -------------------------------------------------------------------------------------------------------- */

/* A plain thread. */
API_TEST(nursery_thread, "J27 J33 J36", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_nursery n;
    for (int round = 0; round < 50; round++) {
        REQUIRE_EQ(weft_nursery_init(&n, rt, NULL), 0);
        CHECK_EQ(weft_nursery_owner(&n), NULL);
        for (int i = 0; i < 4; i++)
            REQUIRE_EQ(weft_nursery_go(&n, add_one, NULL, NULL), 0);
        CHECK_EQ(weft_nursery_await(&n), 0);
        CHECK_EQ(did.entered, 4 * (round + 1));
    }
    REQUIRE_EQ(weft_nursery_init(&n, rt, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, fail_with, STATUS(-EIO), NULL), 0);
    CHECK_EQ(weft_nursery_await(&n), -EIO);
    REQUIRE_EQ(weft_nursery_init(&n, rt, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    weft_nursery_cancel(&n);
    CHECK_EQ(weft_nursery_await(&n), -ECANCELED);
    REQUIRE_EQ(weft_nursery_init(&n, rt, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&n, wait_for_ever, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_destroy(&n), -ECANCELED); /* its memory is ours, before and after */
    CHECK_EQ(weft_nursery_destroy(&n), -ECANCELED);
    fixture_end(rt);
}

static void await_too(unsigned index, void *arg) {
    (void)index;
    static atomic_int first;
    int status = weft_nursery_await(arg); /* one of the two waits, the other is told so, or comes too late to wait */
    if (status == -EBUSY)
        weft_nursery_cancel(arg);
    else
        CHECK_EQ(atomic_fetch_add(&first, 1), 0);
}

API_TEST(nursery_two_waiters, "J26 J29", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_nursery *n = NULL;
    REQUIRE_EQ(weft_nursery_create(rt, NULL, &n), 0);
    REQUIRE_EQ(weft_nursery_go(n, wait_for_ever, NULL, NULL), 0);
    harness_threads(2, await_too, n);
    CHECK_EQ(weft_nursery_destroy(n), -ECANCELED);
    fixture_end(rt);
}

/* A poll task. */
struct poller {
    weft_nursery *n;
    weft_wait wait;
    int *result;
    bool cancel;
    atomic_uint *dropped;
};

static weft_poll poll_owner(weft_task *self, void *state) {
    struct poller *p = state;
    if (!p->n) {
        weft_nursery in_frame;
        CHECK_EQ(weft_nursery_init(&in_frame, NULL, NULL), -EINVAL);
        REQUIRE_EQ(weft_nursery_create(NULL, NULL, &p->n), 0);
        CHECK_EQ(weft_nursery_owner(p->n), self);
        for (int i = 0; i < 10; i++)
            REQUIRE_EQ(weft_nursery_go(p->n, p->cancel ? wait_for_ever : add_one, NULL, NULL), 0);
        CHECK_EQ(weft_nursery_await(p->n), -EINVAL);
    }
    int error = weft_nursery_await_poll(p->n, self, &p->wait, p->result);
    if (error == -EAGAIN)
        return WEFT_PENDING;
    REQUIRE_EQ(error, 0);
    return weft_done(self, 0, NULL);
}

static void poll_drop(void *state) {
    struct poller *p = state;
    weft_wait_end(&p->wait);
    weft_nursery_destroy(p->n);
    atomic_fetch_add(p->dropped, 1);
}

static weft_task *poll_spawn(weft_runtime *rt, struct poller poller) {
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task = NULL;
    spec.poll = poll_owner;
    spec.drop = poll_drop;
    spec.state = &poller;
    spec.state_size = sizeof poller;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    return task;
}

API_TEST(nursery_poll_task, "J9 J26", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint dropped = 0;
    int result = 1;
    CHECK_EQ(fixture_finish(poll_spawn(rt, (struct poller){.result = &result, .dropped = &dropped})).status, 0);
    CHECK_EQ(result, 0);
    CHECK_EQ(did.entered, 10);
    CHECK_EQ(dropped, 1);
    fixture_end(rt);
}

/* Its children do not outlive the runtime, and end with it: the nursery frees itself. */
API_TEST(nursery_poll_task_cancelled, "J8 J23 J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint dropped = 0;
    int result = 1;
    weft_task *task = poll_spawn(rt, (struct poller){.result = &result, .dropped = &dropped, .cancel = true});
    REQUIRE_EVENTUALLY(did.entered == 10);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(dropped, 1);
    REQUIRE_EVENTUALLY(did.cancelled == 10);
    CHECK_EQ(result, 1);
    fixture_end(rt);
}

/* -- Made and destroyed ---------------------------------------------------------------------------------------------------- */

static int created(void *arg) {
    (void)arg;
    weft_nursery *n = NULL;
    REQUIRE_EQ(weft_nursery_create(NULL, NULL, &n), 0);
    REQUIRE_EQ(weft_nursery_go(n, add_one, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_await(n), 0);
    CHECK_EQ(weft_nursery_destroy(n), 0);
    REQUIRE_EQ(weft_nursery_create(NULL, NULL, &n), 0);
    REQUIRE_EQ(weft_nursery_go(n, wait_for_ever, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_destroy(n), -ECANCELED);
    return 0;
}

API_TEST(nursery_create_destroy, "J36", .workers = {1, 2}) { CHECK_EQ(in_fiber(created, NULL), 0); }

/* A fiber that forgets them: they end with it, and nothing is lost. */
static int forget(void *arg) {
    (void)arg;
    for (int i = 0; i < 3; i++) {
        weft_nursery *n = NULL;
        REQUIRE_EQ(weft_nursery_create(NULL, NULL, &n), 0);
        REQUIRE_EQ(weft_nursery_go(n, wait_for_ever, NULL, NULL), 0);
    }
    YIELD_UNTIL(did.entered == 3);
    return 0;
}

API_TEST(nursery_forgotten, "J8", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, forget, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(did.cancelled, 3);
    fixture_end(rt);
}

static int lose(void *arg) {
    (void)arg;
    weft_nursery n;
    return weft_nursery_init(&n, NULL, NULL);
}

static void lose_in_frame(void *arg) {
    (void)arg;
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1;
    weft_fiber_run(&config, lose, NULL, NULL);
}

TEST(nursery_lost_in_a_frame, "J8") { REQUIRE_ABORTS(lose_in_frame, NULL, "without awaiting its nursery"); }

/* -- Several at once ---------------------------------------------------------------------------------------------------------- */

static void spawn_from_thread(unsigned index, void *arg) {
    (void)index;
    for (int i = 0; i < 500; i++)
        REQUIRE_EVENTUALLY(weft_nursery_go(arg, add_one, NULL, NULL) == 0);
}

/* Spawns from many threads, ends on many workers. */
API_TEST(nursery_crowd, "J28 J29", .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_nursery *n = NULL;
    REQUIRE_EQ(weft_nursery_create(rt, NULL, &n), 0);
    harness_threads(4, spawn_from_thread, n);
    CHECK_EQ(weft_nursery_await(n), 0);
    CHECK_EQ(did.entered, 2000);
    CHECK_EQ(weft_nursery_destroy(n), 0);
    fixture_end(rt);
}

/* Refused from outside: counted out again. */
API_TEST(nursery_refused, "J21", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.global_capacity = 2;
    weft_runtime *rt = fixture_begin(&config);
    struct blocker blocker = {false, false};
    weft_task *task = fixture_go(rt, fixture_block, &blocker);
    REQUIRE_EVENTUALLY(blocker.entered);
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, rt, NULL), 0);
    unsigned taken = 0;
    int error;
    while ((error = weft_nursery_go(&n, add_one, NULL, NULL)) == 0)
        taken++;
    CHECK_EQ(error, -EAGAIN);
    CHECK_EQ(weft_nursery_count(&n), taken);
    atomic_store(&blocker.release, true);
    fixture_finish(task);
    CHECK_EQ(weft_nursery_await(&n), 0);
    CHECK_EQ(did.entered, taken);
    fixture_end(rt);
}
