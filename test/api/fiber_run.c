/* fiber_run.c - fibers begin, compute, end: arguments, results, names, what they may be asked. */
#include <fenv.h>

#include "fiber.h"

static int return_arg(void *arg) { return (int)(intptr_t)arg; }

API_TEST(fiber_run_argument, "J16", .workers = {1, 2}) {
    weft_result result = {1, NULL};
    CHECK_EQ(weft_fiber_run(NULL, return_arg, (void *)42, &result), 0);
    CHECK_EQ(result.status, 0);
    CHECK_EQ((intptr_t)result.value, 42);
}

API_TEST(fiber_run_status, "J16", .workers = {1}) {
    weft_result result = {1, NULL};
    CHECK_EQ(weft_fiber_run(NULL, return_arg, (void *)-EIO, &result), -EIO);
    CHECK_EQ(result.status, -EIO);
    CHECK_EQ(result.value, NULL);
}

static int leave_value(void *arg) {
    weft_fiber_result(arg);
    weft_yield();
    return 7; /* the value that was left wins */
}

API_TEST(fiber_run_value, "J16", .workers = {1, 2}) {
    static int thing;
    weft_result result = fiber_run(leave_value, &thing);
    CHECK_EQ(result.status, 0);
    CHECK_EQ(result.value, &thing);
}

static int fail_with_value(void *arg) {
    weft_fiber_result(arg);
    return -EPROTO;
}

API_TEST(fiber_run_status_and_value, "", .workers = {1}) {
    static int thing;
    weft_result result = fiber_run(fail_with_value, &thing);
    CHECK_EQ(result.status, -EPROTO);
    CHECK_EQ(result.value, &thing);
}

static int begin_with(void *arg) {
    (void)arg;
    struct {
        char first;
        _Alignas(16) char room[64];
    } frame;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    CHECK_EQ((uintptr_t)frame.room % 16, 0);
    CHECK_EQ(here % 16, 0); /* rbp, after the return address and itself were pushed; so are the others' frames */
    /* The widest aligned moves the compiler may use for doubles. */
    volatile long double sum = 0;
    for (int i = 0; i < 10; i++)
        sum += i;
    CHECK_EQ((int)sum, 45);
    return 0;
}

API_TEST(fiber_run_alignment, "J16", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (size_t size = 1; size <= (size_t)1 << 20; size *= 8) {
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        weft_task *task;
        spec.fn = begin_with;
        spec.stack_size = size;
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    fixture_end(rt);
}

/* Everything a call preserves survives waits, wherever the fiber comes back: many live values, in registers and on the stack. */
static int keep_values(void *arg) {
    uint64_t seed = (uintptr_t)arg, a = harness_random(&seed), b = a * 3, c = a * 5, d = a * 7, e = a * 11, f = a * 13;
    double x = (double)(a >> 12), y = x / 3, z = y / 7;
    char text[64];
    snprintf(text, sizeof text, "%llu", (unsigned long long)a);
    for (int i = 0; i < 50; i++) {
        uint64_t sum = a + b + c + d + e + f;
        double product = x * y * z;
        weft_yield();
        CHECK_EQ(a + b + c + d + e + f, sum);
        CHECK(x * y * z == product);
        CHECK_EQ(b, a * 3);
        CHECK_EQ(f, a * 13);
    }
    char again[64];
    snprintf(again, sizeof again, "%llu", (unsigned long long)a);
    CHECK_STR(again, text);
    return 0;
}

API_TEST(fiber_run_registers_survive, "J15", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[20];
    for (uintptr_t i = 0; i < 20; i++)
        task[i] = (i % 2 ? fiber_go : fiber_go_migrating)(rt, keep_values, (void *)(i + 1));
    for (int i = 0; i < 20; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* The rounding mode is the fiber's own. */
static int round_up(void *arg) {
    CHECK_EQ(fegetround(), FE_TONEAREST);
    REQUIRE_EQ(fesetround((int)(intptr_t)arg), 0);
    for (int i = 0; i < 20; i++) {
        weft_yield();
        CHECK_EQ(fegetround(), (intptr_t)arg);
    }
    return fesetround(FE_TONEAREST);
}

API_TEST(fiber_run_rounding_modes, "J15", .workers = {1, 2}) {
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[8];
    for (int i = 0; i < 8; i++)
        task[i] = fiber_go(rt, round_up, (void *)(intptr_t)modes[i % 4]);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

static int look_at_self(void *arg) {
    weft_task *self = weft_task_self();
    REQUIRE(self);
    CHECK(weft_in_fiber());
    CHECK_STR(weft_task_name(self), arg);
    CHECK_STR(weft_task_state(self), "running");
    CHECK(weft_runtime_current());
    weft_yield();
    CHECK_EQ(weft_task_self(), self);
    weft_sleep(1);
    CHECK_EQ(weft_task_self(), self);
    return 0;
}

API_TEST(fiber_run_self_and_name, "J13", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    spec.fn = look_at_self;
    spec.arg = (void *)"reader";
    spec.name = "reader";
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    CHECK_STR(weft_task_name(task), "reader");
    CHECK_EQ(fixture_finish(task).status, 0);
    spec.name = NULL;
    spec.arg = (void *)"fiber";
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK(!weft_in_fiber());
    fixture_end(rt);
    CHECK_EQ(weft_fiber_run(NULL, look_at_self, (void *)"main", NULL), 0);
}

static weft_poll not_in_a_poll(weft_task *self, void *state) {
    (void)state;
    unsigned key;
    CHECK(!weft_in_fiber());
    CHECK_EQ(weft_yield(), -EINVAL);
    CHECK_EQ(weft_sleep(1), -EINVAL);
    CHECK_EQ(weft_sleep_until(WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_checkpoint(), -EINVAL);
    REQUIRE_EQ(weft_local_create(&key, NULL), 0);
    CHECK_EQ(weft_local_set(key, self), -EINVAL);
    CHECK_EQ(weft_local_get(key), NULL);
    return weft_done(self, 0, NULL);
}

API_TEST(fiber_run_calls_in_a_poll, "", .workers = {1}) { CHECK_EQ(weft_run(NULL, not_in_a_poll, NULL, NULL), 0); }

TEST(fiber_run_calls_on_a_thread, "") {
    CHECK(!weft_in_fiber());
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(weft_checkpoint(), 0);
    int64_t before = weft_now();
    CHECK_EQ(weft_sleep(2000000), 0);
    CHECK_GE(weft_now() - before, 2000000);
    CHECK_EQ(weft_sleep(-1), 0);
    CHECK_EQ(weft_errno(), &errno);
}

API_TEST(fiber_run_bad_specs, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *untouched = (weft_task *)(void *)&rt, *task = untouched;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    CHECK_EQ(weft_fiber_spawn(rt, NULL, &task), -EINVAL);
    CHECK_EQ(weft_fiber_spawn(rt, &spec, &task), -EINVAL);
    spec.fn = return_arg;
    CHECK_EQ(weft_fiber_spawn(NULL, &spec, &task), -EINVAL);
    spec.stack_size = ((size_t)1 << 30) + 1;
    CHECK_EQ(weft_fiber_spawn(rt, &spec, &task), -EINVAL);
    spec.stack_size = SIZE_MAX;
    CHECK_EQ(weft_fiber_spawn(rt, &spec, &task), -EINVAL);
    spec.stack_size = 0;
    spec.size = sizeof(size_t);
    CHECK_EQ(weft_fiber_spawn(rt, &spec, &task), -EINVAL);
    struct {
        weft_fiber_spec spec;
        size_t more;
    } newer = {WEFT_FIBER_SPEC_INIT, 1};
    newer.spec.size = sizeof newer;
    newer.spec.fn = return_arg;
    CHECK_EQ(weft_fiber_spawn(rt, &newer.spec, &task), -E2BIG);
    CHECK_EQ(task, untouched);
    newer.more = 0;
    REQUIRE_EQ(weft_fiber_spawn(rt, &newer.spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    spec.size = offsetof(weft_fiber_spec, name); /* from an older header: the rest counts as 0 */
    spec.arg = (void *)5;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    CHECK_EQ((intptr_t)fixture_finish(task).value, 5);
    fixture_end(rt);
}

API_TEST(fiber_run_config_stack, "", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt = NULL;
    config.stack_size = ((size_t)1 << 30) + 1;
    CHECK_EQ(weft_runtime_create(&config, &rt), -EINVAL);
    CHECK_EQ(rt, NULL);
}

/* errno is the fiber's own as long as it stays on its worker. */
static int keep_errno(void *arg) {
    for (int i = 0; i < 50; i++) {
        errno = (int)(intptr_t)arg;
        if (i % 5 == 0)
            weft_sleep(1000);
        else
            weft_yield();
        CHECK_EQ(errno, (intptr_t)arg);
        CHECK_EQ(*weft_errno(), (intptr_t)arg);
    }
    return 0;
}

API_TEST(fiber_run_errno, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[10];
    for (intptr_t i = 0; i < 10; i++)
        task[i] = fiber_go(rt, keep_errno, (void *)(i + 1));
    for (int i = 0; i < 10; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* Detached fibers, spawned from everywhere, each exactly once. */
static atomic_uint ran;

static int count_and_spawn(void *arg) {
    atomic_fetch_add(&ran, 1);
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++)
        REQUIRE_EQ(weft_fiber_go(NULL, count_and_spawn, (void *)((uintptr_t)arg - 1), NULL), 0);
    return 0;
}

API_TEST(fiber_run_spawns_fibers, "J31", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(weft_fiber_go(rt, count_and_spawn, (void *)5, NULL), 0);
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0); /* they spawn on while it stops */
    CHECK_EQ(ran, 3 * 326); /* 1 + 5 + 20 + 60 + 120 + 120 */
    fixture_end(rt);
}

API_TEST(fiber_run_fair_dump, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct event event = {0};
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    spec.fn = fiber_wait_event;
    spec.arg = &event;
    spec.name = "patient";
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    REQUIRE_EVENTUALLY(event_waiting(&event) == 1 && !strcmp(weft_task_state(task), "idle"));
    int pipe_fd[2];
    char text[4096] = "";
    REQUIRE_EQ(pipe(pipe_fd), 0);
    CHECK_EQ(weft_dump(rt, pipe_fd[1]), 0);
    close(pipe_fd[1]);
    REQUIRE_GT(read(pipe_fd[0], text, sizeof text - 1), 0);
    close(pipe_fd[0]);
    CHECK_CONTAINS(text, "\"patient\" idle");
    CHECK_CONTAINS(text, "an event");
    event_set(&event);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- Failures that nobody could hear of ------------------------------------------------------------------------ */

static int fail_with(void *status) { return (int)(intptr_t)status; }

static void fail_detached(void *rt) {
    static const int status[] = {-ECANCELED, 0, 7, -EIO, -EIO};
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, fail_with, (void *)(intptr_t)-EIO, &task), 0);
    CHECK_EQ(fixture_finish(task).status, -EIO); /* who has a handle knows */
    for (unsigned i = 0; i < 5; i++) {
        REQUIRE_EQ(weft_fiber_go(rt, fail_with, (void *)(intptr_t)status[i], NULL), 0);
        REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    }
}

static weft_poll fail_poll(weft_task *self, void *status) { return weft_done(self, (int)(intptr_t)status, NULL); }

static void fail_detached_polls(void *rt) {
    static const int status[] = {-ECANCELED, 0, -EIO, -EIO};
    weft_task *task = fixture_go(rt, fail_poll, (void *)(intptr_t)-EIO);
    CHECK_EQ(fixture_finish(task).status, -EIO); /* who has a handle knows */
    for (unsigned i = 0; i < 4; i++) {
        REQUIRE_EQ(weft_go(rt, fail_poll, (void *)(intptr_t)status[i], NULL), 0);
        REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    }
}

/* The failure of a detached poll task is reported and counted as that of a fiber. */
API_TEST(poll_failure_detached, "J33", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    char expected[256];
    snprintf(expected, sizeof expected, "weft: task \"task\" has failed, and nobody has its handle: %s (%s)\n",
             weft_strerror(-EIO), "weft_stats.failed counts the next ones");
    CHECK_STR(fixture_said(fail_detached_polls, rt), expected);
    CHECK_EQ(fixture_stats(rt).failed, 2);
    CHECK_STR(fixture_said(fail_detached, rt), ""); /* one report per runtime */
    CHECK_EQ(fixture_stats(rt).failed, 4);
    fixture_end(rt);
}

/* The same of a process: those that it is linked to learn of it. */
static int fail_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count, (void)out;
    return -EIO;
}
static const weft_process_class failing = {.size = sizeof(weft_process_class), .name = "failing", .step = fail_step};

static void fail_process(void *rt) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &failing;
    weft_pid pid;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, NULL), 0);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
}

API_TEST(process_failure_is_known, "J33") {
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_STR(fixture_said(fail_process, rt), "");
    CHECK_EQ(fixture_stats(rt).failed, 0);
    fixture_end(rt);
}

/* The failure of a detached fiber is reported, once, and counted. */
API_TEST(fiber_failure_detached, "J33", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    char expected[256];
    snprintf(expected, sizeof expected, "weft: fiber \"fiber\" has failed, and nobody has its handle: %s (%s)\n",
             weft_strerror(-EIO), "weft_stats.failed counts the next ones");
    CHECK_STR(fixture_said(fail_detached, rt), expected);
    CHECK_EQ(fixture_stats(rt).failed, 2);
    fixture_end(rt);
}
