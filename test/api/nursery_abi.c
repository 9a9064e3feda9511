/* nursery_abi.c - what compilers call: codes of their own, async calls. */
#include <weft/abi.h>

#include "nursery.h"

static weft_nursery *start(weft_fiber_fn fn, void *arg) {
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n);
    weft_task *task = weft_abi_nursery_spawn(n, fn, arg);
    REQUIRE(task);
    weft_task_drop(task);
    return n;
}

static int codes(void *arg) {
    (void)arg;
    static const int own[] = {-5, -7, -1000, WEFT_ABI_PANIC, WEFT_ABI_BUDGET, -ETIMEDOUT};
    weft_nursery *n = start(add_one, NULL);
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    CHECK_EQ(weft_abi_nursery_spawn(n, add_one, NULL), NULL); /* J21 */
    weft_abi_nursery_destroy(n);
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
        n = start(fail_with, STATUS(own[i]));
        CHECK_EQ(weft_abi_nursery_await(n), own[i]);
        weft_abi_nursery_destroy(n);
    }
    n = start(fail_with, STATUS(-EDQUOT));
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_BUDGET);
    weft_abi_nursery_destroy(n);
    n = start(wait_for_ever, NULL);
    weft_abi_nursery_cancel(n);
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_CANCELLED);
    weft_abi_nursery_destroy(n);
    n = start(wait_for_ever, NULL);
    REQUIRE_EQ(weft_nursery_set_deadline(n, WEFT_NOW), 0);
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_CANCELLED);
    weft_abi_nursery_destroy(n);
    weft_abi_nursery_destroy(start(wait_for_ever, NULL)); /* not awaited */
    weft_abi_nursery_destroy(NULL);
    return 0;
}

API_TEST(abi_codes, "J21 J36 J37", .workers = {1, 2}) { CHECK_EQ(in_fiber(codes, NULL), 0); }

/* A child that wants more than it may is refused, and ends: that is no success. */
static int take_too_much(void *arg) {
    (void)arg;
    void *memory;
    return weft_alloc(1000, &memory);
}

static int refused(void *arg) {
    (void)arg;
    weft_budget all = {100, 100, 2, 0, 0}, its = {10, 10, 0, 0, 0};
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_nursery *n = start(add_one, NULL);
    weft_task *task;
    REQUIRE_EQ(weft_fund_create(NULL, NULL, &all, &spec.fund), 0);
    spec.fn = take_too_much;
    spec.budget = &its;
    REQUIRE_EQ(weft_nursery_spawn(n, &spec, &task), 0);
    REQUIRE_EQ(weft_fund_wait_exhausted(spec.fund, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_fund_refuse(spec.fund, task), 0);
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_BUDGET);
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_BUDGET);
    weft_abi_nursery_destroy(n);
    weft_task_drop(task);
    n = start(wait_for_ever, NULL); /* an error counts more */
    REQUIRE_EQ(weft_nursery_spawn(n, &spec, &task), 0);
    REQUIRE_EQ(weft_fund_wait_exhausted(spec.fund, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_fund_refuse(spec.fund, task), 0);
    CHECK_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
    weft_task_drop(task);
    REQUIRE_EQ(weft_nursery_go(n, fail_with, STATUS(-7), NULL), 0);
    CHECK_EQ(weft_abi_nursery_await(n), -7);
    weft_abi_nursery_destroy(n);
    return weft_fund_destroy(spec.fund);
}

API_TEST(abi_refused, "J37 J40", .workers = {1, 2}) { CHECK_EQ(in_fiber(refused, NULL), 0); }

static weft_poll create_in_poll(weft_task *self, void *state) {
    (void)state;
    CHECK_EQ(weft_abi_nursery_create(), NULL);
    return weft_done(self, 0, NULL);
}

API_TEST(abi_not_of_a_poll_task, "J36", .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task = NULL;
    spec.poll = create_in_poll;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* Each wrong use ends the process, and says what it is. */
static int await_it(void *n) { return weft_abi_nursery_await(n); }
static int destroy_it(void *n) { return weft_abi_nursery_destroy(n), 0; }

static weft_poll await_in_poll(weft_task *self, void *arg) {
    weft_nursery *n = arg;
    return weft_done(self, weft_nursery_create(NULL, NULL, &n) == 0 ? weft_abi_nursery_await(n) : 0, NULL);
}

static int by_child(void *fn) {
    weft_nursery *n = weft_abi_nursery_create();
    weft_task_drop(weft_abi_nursery_spawn(n, (weft_fiber_fn)(uintptr_t)fn, n));
    return weft_abi_nursery_await(n);
}

static int by_stranger(void *fn) {
    weft_task *task;
    if (weft_fiber_go(NULL, (weft_fiber_fn)(uintptr_t)fn, weft_abi_nursery_create(), &task) == 0)
        weft_join(task, NULL, WEFT_NEVER);
    return 0;
}

static int outer_first(void *arg) {
    (void)arg;
    weft_nursery *outer = weft_abi_nursery_create(), *inner = weft_abi_nursery_create();
    return inner ? weft_abi_nursery_await(outer) : 0;
}

static void child_awaits(void *arg) { weft_fiber_run(NULL, by_child, (void *)(uintptr_t)await_it, arg); }
static void child_destroys(void *arg) { weft_fiber_run(NULL, by_child, (void *)(uintptr_t)destroy_it, arg); }
static void stranger_awaits(void *arg) { weft_fiber_run(NULL, by_stranger, (void *)(uintptr_t)await_it, arg); }
static void stranger_destroys(void *arg) { weft_fiber_run(NULL, by_stranger, (void *)(uintptr_t)destroy_it, arg); }
static void poll_awaits(void *arg) { weft_run(NULL, await_in_poll, NULL, arg); }
static void outer_awaited(void *arg) { weft_fiber_run(NULL, outer_first, NULL, arg); }

API_TEST(abi_misuse, "J36 J38", .workers = {1, 2}) {
    REQUIRE_ABORTS(child_awaits, NULL, "weft_abi_nursery_await: the caller is one of the nursery's children");
    REQUIRE_ABORTS(child_destroys, NULL, "weft_abi_nursery_destroy: the caller is one of the nursery's children");
    REQUIRE_ABORTS(stranger_awaits, NULL, "weft_abi_nursery_await: the caller does not own the nursery");
    REQUIRE_ABORTS(stranger_destroys, NULL, "weft_abi_nursery_destroy: the caller does not own the nursery");
    REQUIRE_ABORTS(poll_awaits, NULL, "weft_abi_nursery_await: called in a poll task");
    REQUIRE_ABORTS(outer_awaited, NULL, "weft_abi_nursery_await: a newer nursery of the caller is still open");
}

/* -- Async calls --------------------------------------------------------------------------------------------- */

static int twice(void *arg) {
    weft_yield();
    return 2 * (int)(intptr_t)arg;
}

static int pointer_of(void *arg) {
    weft_fiber_result(arg);
    return 0;
}

static int async_calls(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status) {
        weft_async calls[20];
        void *value;
        for (int i = 0; i < 20; i++)
            REQUIRE_EQ(weft_async_call(&n, twice, STATUS(i), &calls[i]), 0);
        for (int i = 20; i-- > 0;) {
            value = NULL;
            CHECK_EQ(weft_async_await(&calls[i], &value), 0);
            CHECK_EQ((intptr_t)value, 2 * i);
            value = &n;
            CHECK_EQ(weft_async_await(&calls[i], &value), -EINVAL); /* once */
            CHECK_EQ(value, (void *)&n);
        }
        REQUIRE_EQ(weft_async_call(&n, pointer_of, &status, &calls[0]), 0);
        CHECK_EQ(weft_async_await(&calls[0], &value), 0);
        CHECK_EQ(value, (void *)&status);
        REQUIRE_EQ(weft_async_call(&n, twice, STATUS(1), &calls[0]), 0);
        weft_async_drop(&calls[0]);
        weft_async_drop(&calls[0]);
        CHECK_EQ(weft_async_await(&calls[0], NULL), -EINVAL);
    }
    return status;
}

API_TEST(async_value_once, "J35 J41", .workers = {1, 2, 4}) { CHECK_EQ(in_fiber(async_calls, NULL), 0); }

static int async_fails(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status) {
        weft_async call;
        void *value = &n;
        REQUIRE_EQ(weft_async_call(&n, fail_with, STATUS(-EIO), &call), 0);
        CHECK_EQ(weft_async_await(&call, &value), -EIO);
        CHECK_EQ(value, (void *)&n);
        CHECK_EQ(call.task, NULL);
    }
    CHECK_EQ(status, -EIO);
    WEFT_NURSERY(n, &status) {
        weft_async call;
        weft_nursery_cancel(&n);
        CHECK_EQ(weft_async_call(&n, add_one, NULL, &call), -ECANCELED);
        CHECK_EQ(call.task, NULL);
    }
    return 0;
}

API_TEST(async_errors, "J33 J35", .workers = {1, 2}) { CHECK_EQ(in_fiber(async_fails, NULL), 0); }

/* The caller is cancelled while it waits for the value: the value is not lost. */
static int async_cancelled(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status) {
        weft_async call;
        REQUIRE_EQ(weft_async_call(&n, wait_for_ever, NULL, &call), 0);
        int error = weft_async_await(&call, NULL); /* the call has been cancelled too: it may end first */
        CHECK(error == -EAGAIN ? call.task != NULL : error == -ECANCELED && !call.task);
        weft_async_drop(&call);
    }
    return status;
}

API_TEST(async_caller_cancelled, "J23 J35", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, async_cancelled, NULL, &task), 0);
    REQUIRE_EVENTUALLY(did.entered == 1);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

/* The same, and the call is shielded: it goes on, and its value can be asked for again. */
static weft_event go_on;
static int shielded_call(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_shield(weft_task_self()), 0);
    atomic_fetch_add(&did.entered, 1);
    CHECK_EQ(weft_event_wait(&go_on, WEFT_NEVER), 0);
    weft_unshield(weft_task_self());
    return 42;
}

static int async_asked_again(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status) {
        weft_async call;
        void *value = NULL;
        REQUIRE_EQ(weft_async_call(&n, shielded_call, NULL, &call), 0);
        CHECK_EQ(weft_async_await(&call, &value), -EAGAIN);
        CHECK(call.task);
        CHECK_EQ(weft_event_set(&go_on), 0);
        REQUIRE_EQ(weft_shield(weft_task_self()), 0);
        CHECK_EQ(weft_async_await(&call, &value), 0);
        CHECK_EQ((intptr_t)value, 42);
        weft_unshield(weft_task_self());
    }
    return status;
}

API_TEST(async_asked_again, "J23 J35", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    weft_event_init(&go_on);
    REQUIRE_EQ(weft_fiber_go(rt, async_asked_again, NULL, &task), 0);
    REQUIRE_EVENTUALLY(did.entered == 1);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(weft_event_destroy(&go_on), 0);
    fixture_end(rt);
}

/* A call that makes calls. */
static int fibonacci(void *arg) {
    int n = (int)(intptr_t)arg, status;
    if (n < 2)
        return n;
    void *a = NULL, *b = NULL;
    WEFT_NURSERY(nursery, &status) {
        weft_async left, right;
        REQUIRE_EQ(weft_async_call(&nursery, fibonacci, STATUS(n - 1), &left), 0);
        REQUIRE_EQ(weft_async_call(&nursery, fibonacci, STATUS(n - 2), &right), 0);
        CHECK_EQ(weft_async_await(&right, &b), 0);
        CHECK_EQ(weft_async_await(&left, &a), 0);
    }
    return status ? status : (int)((intptr_t)a + (intptr_t)b);
}

static int fibonacci_is_right(void *arg) {
    CHECK_EQ(fibonacci(arg), 377);
    return 0;
}

API_TEST(async_nested, "J35 J41", .workers = {1, 2, 4}) { CHECK_EQ(in_fiber(fibonacci_is_right, STATUS(14)), 0); }
