/* process_supervisor.c - supervised processes: strategies, pauses, order, trees; under sim the defaults, in virtual time. */
#include "process.h"
#include "supervised.h"

struct run {
    weft_supervisor_config config;
    const weft_process_child *children;
    size_t count;
    int expect;
};

static int run_supervisor(void *arg) {
    struct run *run = arg;
    CHECK_EQ(weft_process_supervise(&run->config, run->children, run->count), run->expect);
    return 0;
}

static void supervise(weft_supervisor_config config, const weft_process_child *children, size_t count, int expect) {
    struct run run = {config, children, count, expect};
    in_process(run_supervisor, &run);
}

/* -- Children. */

/* Sits until the other has failed once, which it waits for. */
static int fail_once(void *arg) {
    (void)arg;
    return atomic_fetch_add(&runs, 1) == 0 ? -EIO : sit(NULL);
}

/* Ends the supervisor when it has been started so often. */
static weft_pid boss;
static atomic_int starts;
static int end_all(void *arg) {
    if (atomic_fetch_add(&starts, 1) + 1 == (int)(intptr_t)arg)
        weft_process_cancel(NULL, boss);
    return sit(NULL);
}

static int run_as_boss(void *arg) {
    boss = weft_self();
    return run_supervisor(arg);
}

static void supervise_as_boss(weft_supervisor_config config, const weft_process_child *children, size_t count) {
    struct run run = {config, children, count, -ECANCELED};
    in_process(run_as_boss, &run);
}

/* -- Restarts. */

API_TEST(process_supervisor_back_off, "W6", .workers = {1, 2}) {
    weft_process_child child = WEFT_PROCESS_CHILD("worker", fail_often, (void *)8);
    child.restart = WEFT_RESTART_TRANSIENT;
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0), &child, 1, 0);
    CHECK_STR(story(), "S0 E0 S0 E0 S0 E0 S0 E0 S0 E0 S0 E0 S0 E0 S0 E0 S0 E0");
    int64_t pause = second();
    for (unsigned i = 1; i + 1 < told.count; i += 2) {
        int64_t took = told.event[i + 1].at - told.event[i].at;
        CHECK_EQ(told.event[i].status, -EIO);
        CHECK_GE(took, pause - pause / 10);
        if (fixture_on("sim"))
            CHECK_LE(took, pause + pause / 10 + 2000000);
        pause = 2 * pause < 90 * second() ? 2 * pause : 90 * second();
    }
}

API_TEST(process_supervisor_gives_up, "W6", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("quiet", sit, NULL),
                                     WEFT_PROCESS_CHILD("worker", fail_often, (void *)99)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 3);
    config.backoff_min = -1;
    supervise(config, children, 2, -EIO);
    CHECK_STR(story(), "S0 S1 E1 S1 E1 S1 E1 S1 E1 G1 E0");
}

/* Permanent: also after success.  Temporary: never. */
static int end_well(void *arg) {
    (void)arg;
    return 0;
}
API_TEST(process_supervisor_restart, "W6", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("temporary", fail_often, (void *)99),
                                     WEFT_PROCESS_CHILD("permanent", end_well, NULL)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 2);
    config.backoff_min = -1;
    children[0].restart = WEFT_RESTART_TEMPORARY;
    supervise(config, children, 2, -ELOOP);
    unsigned started[2] = {0, 0};
    for (unsigned i = 0; i < told.count; i++)
        started[told.event[i].child] += told.event[i].what == WEFT_SUPERVISED_STARTED;
    CHECK_EQ(started[0], 1);
    CHECK_EQ(started[1], 3);
}

/* -- Strategies: the second of three fails once. */

static void three(weft_strategy strategy, const char *expected) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", sit, NULL), WEFT_PROCESS_CHILD("b", fail_once, NULL),
                                     WEFT_PROCESS_CHILD("c", end_all, (void *)2)};
    weft_supervisor_config config = config_of(strategy, 0);
    config.backoff_min = -1;
    supervise_as_boss(config, children, 3);
    CHECK_STR(story(), expected);
}
API_TEST(process_supervisor_one_for_all, "W6", .workers = {1, 2}) {
    three(WEFT_STRATEGY_ONE_FOR_ALL, "S0 S1 S2 E1 E2 E0 S0 S1 S2 E2 E1 E0");
}
API_TEST(process_supervisor_rest_for_one, "W6", .workers = {1, 2}) {
    three(WEFT_STRATEGY_REST_FOR_ONE, "S0 S1 S2 E1 E2 S1 S2 E2 E1 E0");
}

static int fail_once_then_end_all(void *arg) {
    (void)arg;
    if (atomic_fetch_add(&runs, 1) == 0)
        return -EIO;
    weft_process_cancel(NULL, boss);
    return sit(NULL);
}
API_TEST(process_supervisor_one_for_one, "W6", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", sit, NULL),
                                     WEFT_PROCESS_CHILD("b", fail_once_then_end_all, NULL),
                                     WEFT_PROCESS_CHILD("c", sit, NULL)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.backoff_min = -1;
    supervise_as_boss(config, children, 3);
    CHECK_STR(story(), "S0 S1 S2 E1 S1 E2 E1 E0");
}

/* Its own name, or that by which others need it. */
static int has_name(void *arg) {
    CHECK_STR(weft_task_name(weft_task_self()), (const char *)arg);
    atomic_fetch_add(&runs, 1);
    return 0;
}

API_TEST(process_supervisor_names, "W6", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", has_name, (void *)"a"),
                                     WEFT_PROCESS_CHILD("b", has_name, (void *)"own")};
    children[1].spec.name = "own";
    children[0].restart = children[1].restart = WEFT_RESTART_TEMPORARY;
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0), children, 2, 0);
    CHECK_EQ(runs, 2);
}

/* -- Asked or made to end. */

/* Has others end the supervisor while that stops it. */
static int end_all_when_stopped(void *arg) {
    int error = sit(arg);
    weft_process_cancel(NULL, boss);
    return error;
}

API_TEST(process_supervisor_asked_by_whom_it_stops, "W6", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", fail_once, NULL),
                                     WEFT_PROCESS_CHILD("b", end_all_when_stopped, NULL)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ALL, 0);
    config.backoff_min = -1;
    supervise_as_boss(config, children, 2);
    CHECK_STR(story(), "S0 S1 E0 E1");
}

/* Ended by force it still asks its children, and gives them their time; also after it has stopped one before. */
static atomic_int ended_well;

static int end_in_time(void *arg) {
    int error = sit(arg);
    atomic_fetch_add(&ended_well, weft_sleep(1000000) == 0);
    return error;
}

static int fail_once_then_kill(void *arg) {
    if (atomic_fetch_add(&runs, 1) == 0)
        return -EIO;
    CHECK_EQ(weft_process_exit(NULL, boss, -EIO), 0);
    return end_in_time(arg);
}

API_TEST(process_supervisor_ended_by_force, "W6", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", end_in_time, NULL),
                                     WEFT_PROCESS_CHILD("b", fail_once_then_kill, NULL)}; /* the last to be started */
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ALL, 0);
    config.backoff_min = -1;
    supervise_as_boss(config, children, 2);
    CHECK_STR(story(), "S0 S1 E1 E0 S0 S1 E1 E0");
    CHECK_EQ(atomic_load(&ended_well), 3);
}

/* -- Order. */

API_TEST(process_supervisor_needs, "W6", .workers = {1, 2}) {
    static const char *const on_c[] = {"c", NULL}, *const on_a[] = {"a", NULL};
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", sit, NULL), WEFT_PROCESS_CHILD("b", end_all, (void *)1),
                                     WEFT_PROCESS_CHILD("c", sit, NULL)};
    children[0].needs = on_c;
    children[1].needs = on_a;
    supervise_as_boss(config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0), children, 3);
    CHECK_STR(story(), "S2 S0 S1 E1 E0 E2");
}

/* Each needs the next: started from the last to the first, stopped the other way round. */
API_TEST(process_supervisor_needs_many, "W6", .workers = {1, 2}) {
    enum { COUNT = 60 };
    static char name[COUNT][8];
    static const char *needs[COUNT][2];
    static weft_process_child children[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(name[i], sizeof name[i], "%d", i);
        children[i] = (weft_process_child)WEFT_PROCESS_CHILD(name[i], i ? sit : end_all, (void *)1);
        if (i) {
            needs[i - 1][0] = name[i];
            children[i - 1].needs = needs[i - 1];
        }
    }
    supervise_as_boss(config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0), children, COUNT);
    CHECK_EQ(told.count, 2 * COUNT);
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        CHECK_EQ(told.event[i].what, i < COUNT ? WEFT_SUPERVISED_STARTED : WEFT_SUPERVISED_ENDED);
        CHECK_EQ(told.event[i].child, i < COUNT ? COUNT - 1 - i : i - COUNT);
    }
}

static int refused(void *arg) {
    static const char *const on_b[] = {"b", NULL}, *const on_a[] = {"a", NULL}, *const on_x[] = {"x", NULL};
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", sit, NULL), WEFT_PROCESS_CHILD("b", sit, NULL)};
    (void)arg;
    children[0].needs = on_b;
    children[1].needs = on_a;
    CHECK_EQ(weft_process_supervise(NULL, children, 2), -ELOOP);
    children[1].needs = on_x;
    CHECK_EQ(weft_process_supervise(NULL, children, 2), -EINVAL);
    children[1].needs = NULL;
    children[0].needs = on_x;
    children[1].name = NULL; /* nobody's */
    CHECK_EQ(weft_process_supervise(NULL, children, 2), -EINVAL);
    children[0].needs = NULL;
    children[1].restart = (weft_restart)(WEFT_RESTART_TEMPORARY + 1);
    CHECK_EQ(weft_process_supervise(NULL, children, 2), -EINVAL);
    children[1].restart = WEFT_RESTART_PERMANENT;
    CHECK_EQ(weft_process_supervise(NULL, children, (size_t)INT32_MAX + 1), -EINVAL);
    CHECK_EQ(weft_process_supervise(NULL, children, 0), -EINVAL);
    CHECK_EQ(weft_process_supervise(NULL, NULL, 2), -EINVAL);
    children[1].spec.fn = NULL; /* the second start fails: the first, which it needs, is stopped */
    CHECK_EQ(weft_process_supervise(NULL, children, 2), -EINVAL);
    CHECK_EQ(weft_process_count(NULL), 1);
    return 0;
}
API_TEST(process_supervisor_refused, "W6", .workers = {1, 2}) { in_process(refused, NULL); }

/* Only a process that is a fiber can. */
static int supervise_nothing(void *arg) {
    weft_process_child child = WEFT_PROCESS_CHILD("a", sit, NULL);
    (void)arg;
    return weft_process_supervise(NULL, &child, 1);
}
static int supervise_in_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count, (void)out;
    return supervise_nothing(NULL);
}
API_TEST(process_supervisor_is_a_fiber, "W6", .workers = {1}) {
    static const weft_process_class class_ = {.size = sizeof class_, .step = supervise_in_step};
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    CHECK_EQ(supervise_nothing(NULL), -EINVAL);
    REQUIRE_EQ(weft_fiber_go(rt, supervise_nothing, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, -EINVAL);
    REQUIRE_EQ(spawn_class(rt, &class_, NULL, 0, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, -EINVAL);
    fixture_end(rt);
}

/* A grace below 0 is without end. */
static int end_late(void *arg) {
    int error = sit(arg);
    CHECK_EQ(weft_sleep(20000000), 0);
    return error;
}
API_TEST(process_supervisor_endless_grace, "W6 W36", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("late", end_late, NULL),
                                     WEFT_PROCESS_CHILD("b", end_all, (void *)1)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.grace = -1;
    supervise_as_boss(config, children, 2);
    CHECK_EQ(told.event[3].status, 0);
}

/* -- Stopping: by force who does not listen; and when the supervisor itself is ended. */

static int deaf(void *arg) {
    weft_message m;
    int error;
    (void)arg;
    while ((error = weft_receive(&m, NULL, NULL, WEFT_NEVER)) == 0)
        ;
    return error;
}
API_TEST(process_supervisor_force, "W6 W36", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("deaf", deaf, NULL),
                                     WEFT_PROCESS_CHILD("b", end_all, (void *)1)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.grace = fixture_on("sim") ? 0 : 10 * second();
    supervise_as_boss(config, children, 2);
    CHECK_STR(story(), "S0 S1 E1 E0");
    CHECK_EQ(told.event[3].status, -ECANCELED);
    if (fixture_on("sim"))
        CHECK_GE(told.event[3].at - told.event[2].at, 10 * second());
}

static int boss_of_two(void *arg) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", sit, NULL), WEFT_PROCESS_CHILD("b", sit, NULL)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    (void)arg;
    return weft_process_supervise(&config, children, 2);
}
API_TEST(process_supervisor_is_ended, "W6", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    weft_pid pid;
    spec.fn = boss_of_two;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    REQUIRE_EVENTUALLY(weft_process_count(rt) == 3);
    CHECK_EQ(weft_process_exit(rt, pid, -EPERM), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(weft_process_count(rt), 0);
    CHECK_STR(story(), "S0 S1 E1 E0");
    fixture_end(rt);
}

/* -- A tree: the lower supervisor gives up, and the upper one starts it again. */

static atomic_int lower_runs, leaf_runs;
static int leaf(void *arg) {
    (void)arg;
    return atomic_fetch_add(&leaf_runs, 1) < 5 ? -EIO : sit(NULL);
}
static int lower(void *arg) {
    weft_process_child child = WEFT_PROCESS_CHILD("leaf", leaf, NULL);
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    (void)arg;
    config.intensity = 2;
    config.period = 60 * INT64_C(1000000000);
    config.backoff_min = -1;
    atomic_fetch_add(&lower_runs, 1);
    return weft_process_supervise(&config, &child, 1);
}
static int upper(void *arg) {
    weft_process_child child = WEFT_PROCESS_CHILD("lower", lower, NULL);
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    (void)arg;
    config.backoff_min = -1;
    return weft_process_supervise(&config, &child, 1);
}
API_TEST(process_supervisor_tree, "W6 W35", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = upper;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    REQUIRE_EVENTUALLY(atomic_load(&leaf_runs) == 6 && weft_process_count(rt) == 3);
    CHECK_EQ(atomic_load(&lower_runs), 2);
    weft_process_left left[4];
    CHECK_EQ(weft_process_stop_all(rt, weft_after(INT64_C(60000000000)), left, 4),
             0); /* from the top, all by themselves */
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}
