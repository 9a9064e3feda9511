/* fiber_join.c - waiting for a task to end, in a fiber and for a fiber, from everywhere. */
#include <sys/mman.h>

#include "fiber.h"

static int return_arg(void *arg) { return (int)(intptr_t)arg; }

static int yield_then_return(void *arg) {
    for (int i = 0; i < 10; i++)
        weft_yield();
    return (int)(intptr_t)arg;
}

static int join_both_kinds(void *arg) {
    weft_fiber_fn fn = *(weft_fiber_fn *)arg;
    CHECK_EQ((intptr_t)fiber_call(fn, (void *)17).value, 17);
    CHECK_EQ(fiber_call(fn, (void *)-EBADF).status, -EBADF);
    return 3;
}

API_TEST(fiber_join_result, "J9", .workers = {1, 2, 4}) {
    static weft_fiber_fn at_once = return_arg, later = yield_then_return;
    CHECK_EQ((intptr_t)fiber_run(join_both_kinds, &at_once).value, 3);
    CHECK_EQ((intptr_t)fiber_run(join_both_kinds, &later).value, 3);
}

/* The result stays until the handle is dropped. */
static int join_again(void *arg) {
    (void)arg;
    weft_result result;
    weft_task *task = fiber_go(NULL, yield_then_return, (void *)5);
    for (int i = 0; i < 3; i++) {
        result = (weft_result){1, NULL};
        CHECK_EQ(weft_join(task, &result, i == 2 ? WEFT_NOW : WEFT_NEVER), 0);
        CHECK_EQ((intptr_t)result.value, 5);
    }
    CHECK(weft_task_is_done(task));
    weft_task_drop(task);
    return 0;
}

API_TEST(fiber_join_twice, "", .workers = {1, 2}) { CHECK_EQ(fiber_run(join_again, NULL).status, 0); }

/* -- Deadlines -------------------------------------------------------------------------------------------------------- */

static int join_with_deadlines(void *arg) {
    struct event *event = arg;
    weft_task *task = fiber_go(NULL, fiber_wait_event, event);
    weft_result result = {1, NULL};
    CHECK_EQ(weft_join(task, &result, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_join(task, &result, weft_now()), -ETIMEDOUT);
    int64_t before = weft_now();
    CHECK_EQ(weft_join(task, &result, weft_after(3000000)), -ETIMEDOUT);
    CHECK_GE(weft_now() - before, 3000000);
    CHECK_EQ(result.status, 1); /* untouched */
    event_set(event);
    CHECK_EQ(weft_join(task, &result, WEFT_NEVER), 0);
    CHECK_EQ(result.status, 0);
    weft_task_drop(task);
    return 0;
}

API_TEST(fiber_join_deadline, "", .workers = {1, 2}) {
    struct event event = {0};
    CHECK_EQ(fiber_run(join_with_deadlines, &event).status, 0);
}

/* Deadlines that come at about the time when the task ends: never lost, never both. */
static int end_at_some_time(void *arg) {
    weft_sleep((int64_t)(uintptr_t)arg);
    return 1;
}

static int join_at_some_time(void *arg) {
    uint64_t seed = (uintptr_t)arg;
    for (int i = 0; i < (fixture_is_slow() ? 20 : 60); i++) {
        uint64_t ns = harness_random(&seed) % 2000000;
        weft_task *task = fiber_go(NULL, end_at_some_time, (void *)ns);
        weft_result result = {1, NULL};
        int error = weft_join(task, &result, weft_after((int64_t)(harness_random(&seed) % 2000000)));
        CHECK(error == 0 || error == -ETIMEDOUT);
        if (error)
            CHECK_EQ(weft_join(task, &result, WEFT_NEVER), 0);
        CHECK_EQ((intptr_t)result.value, 1);
        weft_task_drop(task);
    }
    return 0;
}

API_TEST(fiber_join_deadline_races, "B33", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[6];
    uint64_t seed = harness_seed();
    for (int i = 0; i < 6; i++)
        task[i] = (i % 2 ? fiber_go : fiber_go_migrating)(rt, join_at_some_time,
                                                          (void *)(uintptr_t)(seed % 1000 + (uint64_t)i));
    for (int i = 0; i < 6; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* -- Errors ------------------------------------------------------------------------------------------------------------ */

static int join_self(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    CHECK_EQ(weft_join(self, NULL, WEFT_NEVER), -EDEADLK);
    return 0;
}

API_TEST(fiber_join_self, "", .workers = {1}) { CHECK_EQ(fiber_run(join_self, NULL).status, 0); }

static int join_handle(void *arg) { return weft_join(arg, NULL, WEFT_NEVER); }

API_TEST(fiber_join_two_waiters, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct event event = {0};
    weft_task *waiting = fiber_go(rt, fiber_wait_event, &event), *first = fiber_go(rt, join_handle, waiting);
    REQUIRE_EVENTUALLY(!strcmp(weft_task_state(first), "idle"));
    CHECK_EQ(fixture_finish(fiber_go(rt, join_handle, waiting)).status, -EBUSY);
    CHECK_EQ(weft_join(waiting, NULL, fixture_soon()), -EBUSY);
    event_set(&event);
    CHECK_EQ(fixture_finish(first).status, 0);
    CHECK_EQ(fixture_finish(waiting).status, 0);
    fixture_end(rt);
}

/* -- Fibers and polls ---------------------------------------------------------------------------------------------------- */

static int join_polls(void *arg) {
    (void)arg;
    atomic_uint ran = 0;
    weft_task *task[20];
    for (int i = 0; i < 20; i++)
        task[i] = fixture_go(NULL, fixture_count, &ran);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_join(task[i], NULL, WEFT_NEVER), 0);
        weft_task_drop(task[i]);
    }
    return (int)ran;
}

API_TEST(fiber_join_polls, "J9", .workers = {1, 2, 4}) { CHECK_EQ((intptr_t)fiber_run(join_polls, NULL).value, 20); }

struct poller {
    weft_task *fiber;
    int result;
};

static weft_poll poll_fiber(weft_task *self, void *state) {
    struct poller *poller = state;
    weft_result result;
    if (!poller->fiber)
        poller->fiber = fiber_go(NULL, yield_then_return, (void *)9);
    int error = weft_join_poll(poller->fiber, self, &result);
    if (error == -EAGAIN)
        return WEFT_PENDING;
    REQUIRE_EQ(error, 0);
    poller->result = (int)(intptr_t)result.value;
    weft_task_drop(poller->fiber);
    return weft_done(self, 0, NULL);
}

API_TEST(fiber_join_by_poll, "B33", .workers = {1, 2}) {
    struct poller poller = {NULL, 0};
    CHECK_EQ(weft_run(NULL, poll_fiber, &poller, NULL), 0);
    CHECK_EQ(poller.result, 9);
}

/* A poll that helps while it waits runs fibers, which come and go. */
static weft_poll help_fibers(weft_task *self, void *state) {
    (void)state;
    weft_task *task[10];
    for (intptr_t i = 0; i < 10; i++)
        task[i] = fiber_go(NULL, yield_then_return, (void *)i);
    for (intptr_t i = 0; i < 10; i++) {
        weft_result result;
        CHECK_EQ(weft_join(task[i], &result, WEFT_NEVER), 0);
        CHECK_EQ((intptr_t)result.value, i);
        weft_task_drop(task[i]);
    }
    CHECK_EQ(weft_task_self(), self);
    return weft_done(self, 0, NULL);
}

API_TEST(fiber_join_helping, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[8];
    for (int i = 0; i < 8; i++)
        task[i] = fixture_go(rt, help_fibers, NULL);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* A fiber may wait for a poll that is helping below it: when the fiber waits, the poll goes on. */
struct below {
    weft_task *_Atomic poll, *_Atomic child;
    atomic_int error;
};

static int wait_for_poll(void *arg) {
    struct below *below = arg;
    weft_task *poll;
    while (!(poll = atomic_load(&below->poll)))
        weft_yield();
    atomic_store(&below->error, weft_join(poll, NULL, WEFT_NEVER));
    return 0;
}

static weft_poll help_below(weft_task *self, void *state) {
    struct below *below = state;
    while (!atomic_load(&below->child)) /* another thread gives it, or has */
        harness_nap();
    CHECK_EQ(weft_join(below->child, NULL, WEFT_NEVER), 0);
    return weft_done(self, 0, NULL);
}

API_TEST(fiber_join_poll_below, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct below below = {NULL, NULL, 1};
    weft_task *fiber = fiber_go(rt, wait_for_poll, &below);
    weft_task *child = fiber_go(rt, yield_then_return, (void *)0);
    atomic_store(&below.child, child);
    weft_task *poll = fixture_go(rt, help_below, &below);
    atomic_store(&below.poll, poll);
    CHECK_EQ(fixture_finish(fiber).status, 0);
    CHECK_EQ(below.error, 0);
    REQUIRE_EVENTUALLY(weft_task_is_done(poll));
    weft_task_drop(poll);
    weft_task_drop(child);
    fixture_end(rt);
}

/* -- Across runtimes ---------------------------------------------------------------------------------------------------- */

static int join_elsewhere(void *arg) {
    for (int i = 0; i < 50; i++) {
        weft_task *task = fiber_go(arg, yield_then_return, (void *)(intptr_t)i);
        weft_result result = {1, NULL};
        CHECK_EQ(weft_join(task, &result, WEFT_NEVER), 0);
        CHECK_EQ((intptr_t)result.value, i);
        weft_task_drop(task);
    }
    return 0;
}

API_TEST(fiber_join_lost_wake_across_runtimes, "J9", .workers = {1, 2}) {
    weft_runtime *a = fixture_begin_patient(), *b = fixture_begin_patient();
    weft_task *x = fiber_go(a, join_elsewhere, b), *y = fiber_go(b, join_elsewhere, a),
              *z = fiber_go(a, join_elsewhere, b);
    CHECK_EQ(fixture_finish(x).status, 0);
    CHECK_EQ(fixture_finish(y).status, 0);
    CHECK_EQ(fixture_finish(z).status, 0);
    fixture_end(a);
    fixture_end(b);
}

/* -- Trees and chains ------------------------------------------------------------------------------------------------------ */

static int fib(void *arg) {
    intptr_t n = (intptr_t)arg;
    if (n < 2)
        return (int)n;
    weft_task *task = fiber_go(NULL, fib, (void *)(n - 1));
    weft_result left = fiber_call(fib, (void *)(n - 2)), right;
    CHECK_EQ(weft_join(task, &right, WEFT_NEVER), 0);
    weft_task_drop(task);
    return (int)((intptr_t)left.value + (intptr_t)right.value);
}

API_TEST(fiber_join_tree, "J9", .workers = {1, 2, 4}) { CHECK_EQ((intptr_t)fiber_run(fib, (void *)15).value, 610); }

/* A chain of a thousand, each waiting for the next: no stack grows. */
static int chain(void *arg) {
    if (!arg)
        return 0;
    weft_result result = fiber_call(chain, (void *)((uintptr_t)arg - 1));
    return (int)(intptr_t)result.value + 1;
}

API_TEST(fiber_join_chain, "J9", .workers = {1, 2}) { CHECK_EQ((intptr_t)fiber_run(chain, (void *)1000).value, 1000); }

/* -- Under sim: a wait that nobody will ever end is said so -------------------------------------------------------------- */

static int wait_for_nobody(void *arg) { return event_wait(arg, WEFT_NEVER); }

API_TEST(fiber_join_deadlock_is_found, "J6", .sched = "sim") {
    struct event event = {0};
    CHECK_EQ(weft_fiber_run(NULL, wait_for_nobody, &event, NULL), -EDEADLK);
}

/* -- Where nobody can wait: what is called at a fiber's end runs on its stack, and is no task -------------------------------- */

static struct {
    weft_task *waited_for;
    _Atomic int said;
} release_join = {.said = 1};

static void join_in_release(void *data) {
    (void)data;
    atomic_store(&release_join.said, weft_join(release_join.waited_for, NULL, WEFT_NEVER));
}

static int send_to_self(void *arg) { /* and end without reading it */
    return weft_send_ref(NULL, weft_self(), 1, arg, 1, join_in_release);
}

static int join_at_the_end_of_another(void *arg) {
    static struct event event;
    static char data[1];
    weft_pid pid;
    release_join.waited_for = fiber_go(NULL, wait_for_nobody, &event);
    REQUIRE_EQ(weft_process_go(NULL, send_to_self, data, &pid), 0);
    while (atomic_load(&release_join.said) == 1)
        CHECK_EQ(weft_sleep(100000), 0);
    event_set(&event);
    CHECK_EQ(weft_join(release_join.waited_for, NULL, WEFT_NEVER), 0);
    weft_task_drop(release_join.waited_for);
    return (void)arg, 0;
}

API_TEST(fiber_join_on_its_stack_is_refused, "", .workers = {1}) {
    size_t room = (size_t)1 << 32; /* stacks of fibers come to lie above those of the workers, which is rare */
    void *above = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EVENTUALLY(fixture_threads("crew") >= 1);
    if (above != MAP_FAILED)
        munmap(above, room);
    CHECK_EQ(fixture_finish(fiber_go(rt, join_at_the_end_of_another, NULL)).status, 0);
    CHECK_EQ(atomic_load(&release_join.said), -EDEADLK);
    fixture_end(rt);
}
