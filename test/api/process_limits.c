/* process_limits.c - how many processes there may be, what they may use, and who did not stop. */
#include <weft/budget.h>
#include <weft/cap.h>
#include <weft/nursery.h>

#include "process.h"

/* -- How many. */

API_TEST(process_limit, "W2", .workers = {1, 2}) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_pid pid[10], one = 7;
    config.max_processes = 10;
    weft_runtime *rt = fixture_begin(&config);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++)
            pid[i] = go_process(rt, sit, NULL);
        CHECK_EQ(weft_process_go(rt, sit, NULL, &one), -EDQUOT);
        CHECK_EQ(one, 7);
        CHECK_EQ(weft_process_cancel(rt, pid[3]), 0);
        REQUIRE_EVENTUALLY(weft_process_count(rt) == 9);
        REQUIRE_EVENTUALLY(weft_process_go(rt, sit, NULL, &pid[3]) == 0); /* counted a moment later */
        for (int i = 0; i < 10; i++)
            CHECK_EQ(weft_process_cancel(rt, pid[i]), 0);
        REQUIRE_EVENTUALLY(weft_process_count(rt) == 0);
        REQUIRE_EVENTUALLY(fixture_stats(rt).completed == fixture_stats(rt).spawned);
    }
    fixture_end(rt);
}

/* As many as there may be are stopped, and reported, as others. */
API_TEST(process_limit_stop_all, "W35 W36", .workers = {1, 2}) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_pid pid;
    config.max_processes = 3;
    weft_runtime *rt = fixture_begin(&config);
    for (int i = 0; i < 3; i++)
        go_process(rt, sit, NULL);
    CHECK_EQ(weft_process_go(rt, sit, NULL, &pid), -EDQUOT);
    CHECK_EQ(weft_process_stop_all(rt, WEFT_NEVER, NULL, 0), 0);
    CHECK_EQ(weft_process_count(rt), 0);
    fixture_end(rt);
}

/* Who has heard of an end may have another in its place. */
static int end_at_once(void *arg) { return (int)(intptr_t)arg; }
static int replace_often(void *arg) {
    (void)arg;
    for (int i = 0; i < 200; i++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        uint64_t number;
        weft_pid pid;
        spec.fn = end_at_once;
        REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &number), 0);
        CHECK_EQ(expect(WEFT_MESSAGE_DOWN).tag, number);
        CHECK_EQ(weft_process_count(NULL), 1);
    }
    return 0;
}
API_TEST(process_limit_replaced, "W2", .workers = {1, 2, 4}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.max_processes = 2;
    weft_runtime *rt = fixture_begin(&config);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = replace_often;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* A refused one does not count. */
static int refuse(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)state, (void)self, (void)method, (void)input, (void)size;
    return -EDOM;
}
static int no_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count, (void)out;
    return -EIO;
}
API_TEST(process_limit_refused, "W4", .workers = {1}) {
    static const weft_process_class class_ = {.size = sizeof class_, .init = refuse, .step = no_step};
    weft_config config = WEFT_CONFIG_INIT;
    config.max_processes = 1;
    weft_runtime *rt = fixture_begin(&config);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &class_;
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EDOM);
    weft_pid pid = go_process(rt, sit, NULL);
    CHECK_EQ(weft_process_cancel(rt, pid), 0);
    fixture_end(rt);
}

/* -- Budgets: processes that a nursery's children start live on the nursery's fund. */

static int spend(void *arg) {
    weft_message m;
    (void)arg;
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}
static int spawn_until_refused(void *arg) {
    weft_pid pid[64];
    int count = 0, error = 0;
    while (count < 64 && (error = weft_process_go(NULL, spend, NULL, &pid[count])) == 0)
        count++;
    CHECK_EQ(error, -EDQUOT);
    *(int *)arg = count;
    for (int i = 0; i < count; i++)
        CHECK_EQ(weft_send(NULL, pid[i], 0, NULL, 0), 0);
    return 0;
}
static int in_nursery(void *arg) {
    const weft_budget all = {200000, UINT64_C(100) << 20, 100, 5000, 500}, own = {50000, 1u << 20, 80, 1000, 10};
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    weft_nursery n;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_fund *fund;
    int count = 0;
    (void)arg;
    REQUIRE_EQ(weft_fund_create(NULL, NULL, &all, &fund), 0);
    config.fund = fund;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, &config), 0);
    spec.fn = spawn_until_refused;
    spec.arg = &count;
    spec.budget = &own;
    REQUIRE_EQ(weft_nursery_spawn(&n, &spec, NULL), 0);
    CHECK_EQ(weft_nursery_await(&n), 0);
    CHECK_EQ(count, 15); /* as many children's budgets as were left in the fund */
    UNTIL(weft_process_count(NULL) == 0);
    UNTIL(weft_fund_destroy(fund) == 0);
    return 0;
}
API_TEST(process_budget_of_nursery, "W2 J3", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, in_nursery, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- Capabilities: nothing without one. */

static weft_caps caps;
static int with_and_without(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    (void)arg;
    spec.fn = sit;
    CHECK_EQ(weft_process_spawn(NULL, &spec, &pid, NULL), -EPERM);
    spec.cap = &caps.spawn;
    CHECK_EQ(weft_process_spawn(NULL, &spec, &pid, NULL), 0);
    CHECK_EQ(weft_process_cancel(NULL, pid), 0);
    static const weft_process_class class_ = {.size = sizeof class_, .step = no_step};
    spec.fn = NULL;
    spec.class_ = &class_;
    CHECK_EQ(weft_process_spawn(NULL, &spec, &pid, NULL), 0);
    CHECK_EQ(weft_process_exit(NULL, pid, -ECANCELED), 0);
    spec.cap = NULL;
    CHECK_EQ(weft_process_spawn(NULL, &spec, &pid, NULL), -EPERM);
    return 0;
}
API_TEST(process_capability, "W2 J4", .workers = {1, 2}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = WEFT_PROFILE_SOVEREIGN;
    config.caps = &caps;
    weft_result result;
    CHECK_EQ(weft_fiber_run(&config, with_and_without, NULL, &result), 0);
    CHECK_EQ(result.status, 0);
}

/* -- Who did not stop. */

static int deaf(void *arg) {
    weft_message m;
    int error;
    (void)arg;
    while ((error = weft_receive(&m, NULL, NULL, WEFT_NEVER)) == 0)
        ;
    return error;
}
static atomic_int late_told;
static int start_another(void *arg) {
    expect(WEFT_MESSAGE_CANCEL);
    atomic_fetch_add(&late_told, 1);
    if (arg)
        go_process(NULL, start_another, NULL);
    return 0;
}
/* False: those who obey had not the time to, on a busy machine. */
static bool stop_all_within(int64_t ns) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_process_left left[2] = {{7, "x"}, {7, "x"}};
    weft_pid pid, other;
    atomic_store(&late_told, 0);
    for (int i = 0; i < 20; i++)
        go_process(rt, sit, NULL);
    go_process(rt, start_another, (void *)1);
    spec.fn = deaf;
    spec.name = "deaf one";
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, NULL), 0);
    int forced = weft_process_stop_all(rt, weft_after(ns), left, 2);
    REQUIRE(forced > 0);
    if (forced == 1) {
        CHECK_EQ(left[0].pid, pid);
        CHECK_STR(left[0].name, "deaf one");
        CHECK_EQ(left[1].pid, 7);
        CHECK_EQ(atomic_load(&late_told), 2);
    }
    CHECK_EQ(weft_process_count(rt), 0);
    CHECK_EQ(weft_process_go(rt, sit, NULL, &other), -ESHUTDOWN);
    CHECK_EQ(weft_process_stop_all(rt, WEFT_NOW, NULL, 0), -EBUSY);
    fixture_end(rt);
    return forced == 1;
}
API_TEST(process_stop_all, "W35 W36 W38", .workers = {1, 2, 4}) {
    int64_t ns = 50000000;
    while (!stop_all_within(ns)) {
        ns *= 4;
        REQUIRE(ns < harness_patience());
    }
}
static int stop_own(void *arg) {
    (void)arg;
    CHECK_EQ(weft_process_stop_all(weft_runtime_current(), WEFT_NOW, NULL, 0), -EDEADLK);
    return 0;
}
/* A process waits for the job, and the stop would wait for the process. */
static int stop_in_job(void *rt) { return weft_process_stop_all(rt, WEFT_NOW, NULL, 0); }
static int wait_for_job(void *rt) {
    int result = 0;
    CHECK_EQ(weft_blocking(stop_in_job, rt, &result, WEFT_NEVER), 0);
    CHECK_EQ(result, -EDEADLK);
    return 0;
}
API_TEST(process_stop_all_in_a_job, "W35", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    go_process(rt, wait_for_job, rt);
    REQUIRE_EVENTUALLY(weft_process_count(rt) == 0);
    fixture_end(rt);
}
API_TEST(process_stop_all_obedient, "W35 W36", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(weft_process_stop_all(NULL, WEFT_NOW, NULL, 0), -EINVAL);
    CHECK_EQ(weft_process_stop_all(rt, WEFT_NOW, NULL, 1), -EINVAL);
    in_process(stop_own, NULL);
    for (int i = 0; i < 200; i++)
        go_process(rt, sit, NULL);
    CHECK_EQ(weft_process_stop_all(rt, WEFT_NOW, NULL, 0), 0);
    fixture_end(rt);
}
/* More than there is room for: all are counted, and no more are written. */
API_TEST(process_stop_all_many_left, "W36", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_left left[2] = {{7, "x"}, {7, "x"}};
    for (int i = 0; i < 3; i++)
        go_process(rt, deaf, NULL);
    CHECK_EQ(weft_process_stop_all(rt, 1, left, 1), 3);
    CHECK_NE(left[0].pid, 7);
    CHECK_EQ(left[1].pid, 7);
    CHECK_STR(left[1].name, "x");
    fixture_end(rt);
}
/* The default: 10 s. */
API_TEST(process_stop_all_default, "W36", .workers = {1}, .sched = "sim") {
    weft_runtime *rt = fixture_begin_patient();
    go_process(rt, deaf, NULL);
    CHECK_EQ(weft_process_stop_all(rt, WEFT_NOW, NULL, 0), 1);
    fixture_end(rt);
}
/* A time that has passed, however long ago. */
API_TEST(process_stop_all_past, "W36", .workers = {1, 2}) {
    static const weft_deadline past[] = {1, -1, INT64_MIN};
    for (size_t i = 0; i < sizeof past / sizeof *past; i++) {
        weft_runtime *rt = fixture_begin_patient();
        go_process(rt, deaf, NULL);
        CHECK_EQ(weft_process_stop_all(rt, past[i], NULL, 0), 1);
        fixture_end(rt);
    }
}
/* One that is never idle: time passes all the same, also where it is virtual. */
static int again(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    out->status = WEFT_STEP_CONTINUE;
    return 0;
}
static int yield_again(void *arg) {
    (void)arg;
    while (weft_yield() == 0)
        ;
    return 0;
}
API_TEST(process_stop_all_never_idle, "W36 W38", .workers = {1, 2}) {
    static const weft_process_class class_ = {.size = sizeof class_, .step = again};
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_process_left left[3];
    spec.class_ = &class_;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, NULL), 0);
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, NULL), 0);
    spec.class_ = NULL;
    spec.fn = yield_again;
    spec.trap_exit = true; /* else its yield would fail at once */
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, NULL), 0);
    CHECK_EQ(weft_process_stop_all(rt, weft_after(20000000), left, 3), 3);
    CHECK_EQ(weft_process_count(rt), 0);
    fixture_end(rt);
}
