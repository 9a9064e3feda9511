/* supervisor.c - supervised children: who is started again, when, and when the supervisor gives up. */
#include <math.h>

#include "nursery.h"
#include "supervised.h"

struct run {
    weft_supervisor_config config;
    const weft_supervised_fiber *children;
    size_t count;
    int expect;
};

static int run_supervisor(void *arg) {
    struct run *run = arg;
    CHECK_EQ(weft_supervise(&run->config, run->children, run->count), run->expect);
    return 0;
}

static void supervise(weft_supervisor_config config, const weft_supervised_fiber *children, size_t count, int expect) {
    struct run run = {config, children, count, expect};
    CHECK_EQ(in_fiber(run_supervisor, &run), 0);
}

/* -- Restarts -------------------------------------------------------------------------------------------------------- */

/* A transient child is started again until it ends well; the pauses double, within the jitter. */
API_TEST(supervisor_back_off, "J3", .workers = {1, 2}) {
    const weft_supervised_fiber child = {"worker", fail_often, STATUS(9), WEFT_RESTART_TRANSIENT, 0};
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0), &child, 1, 0);
    CHECK_STR(story(), "S0 E0 S0 E0 S0 E0 S0 E0 S0 E0 S0 E0 S0 E0 S0 E0 S0 E0 S0 E0");
    int64_t pause = second();
    bool strayed = false;
    for (unsigned i = 1; i + 1 < told.count; i += 2) {
        int64_t took = told.event[i + 1].at - told.event[i].at;
        strayed |= took < pause;
        CHECK_EQ(told.event[i].status, -EIO);
        CHECK_GE(took, pause - pause / 10);
        if (fixture_on("sim"))
            CHECK_LE(took, pause + pause / 10 + 2000000); /* never more than a tick late */
        pause = 2 * pause < 90 * second() ? 2 * pause : 90 * second();
    }
    CHECK_EQ(pause, 90 * second());
    if (fixture_on("sim"))
        CHECK(strayed);
}

/* One that has run for 5 s begins anew. */
static int run_for_a_while(void *arg) {
    (void)arg;
    int run = atomic_fetch_add(&runs, 1);
    int why = weft_sleep(run == 3 ? 6 * second() : 0);
    return why ? why : run < 5 ? -EIO : 0;
}

API_TEST(supervisor_stable, "J3", .workers = {1}, .sched = "sim") {
    const weft_supervised_fiber child = {"worker", run_for_a_while, NULL, WEFT_RESTART_TRANSIENT, 0};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.backoff_jitter = -1;
    config.backoff_factor = 3;
    supervise(config, &child, 1, 0);
    static const int seconds[] = {1, 3, 9, 1, 3};
    for (unsigned i = 0; i < 5; i++) {
        int64_t took = told.event[2 * i + 2].at - told.event[2 * i + 1].at;
        CHECK_GE(took, seconds[i] * second());
        CHECK_LE(took, seconds[i] * second() + 2000000);
    }
}

/* Permanent: also after success.  Temporary: never. */
static int end_well(void *arg) {
    (void)arg;
    atomic_fetch_add(&runs, 1);
    return 0;
}

API_TEST(supervisor_kinds, "J3", .workers = {1, 2}) {
    const weft_supervised_fiber children[] = {{"t", fail_with, STATUS(-EBADF), WEFT_RESTART_TEMPORARY, 0},
                                              {"p", end_well, NULL, WEFT_RESTART_PERMANENT, 0},
                                              {"n", end_well, NULL, WEFT_RESTART_TRANSIENT, 0},
                                              {"c", fail_with, STATUS(-ECANCELED), WEFT_RESTART_TRANSIENT, 0}};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 3);
    config.backoff_min = -1;
    supervise(config, children, 4, -ELOOP);
    unsigned starts[4] = {0}, given_up = 0;
    for (unsigned i = 0; i < told.count; i++) {
        starts[told.event[i].child] += told.event[i].what == WEFT_SUPERVISED_STARTED;
        given_up += told.event[i].what == WEFT_SUPERVISED_GAVE_UP && told.event[i].child == 1;
    }
    CHECK_EQ(starts[0], 1);
    CHECK_EQ(starts[1], 4); /* three restarts were allowed */
    CHECK_EQ(starts[2], 1);
    CHECK_EQ(starts[3], 1);
    CHECK_EQ(given_up, 1); /* one of the others may end after that */
}

/* Each has its name. */
static int has_name(void *arg) {
    CHECK_STR(weft_task_name(weft_task_self()), (const char *)arg);
    return end_well(NULL);
}

API_TEST(supervisor_names, "J3", .workers = {1, 2}) {
    const weft_supervised_fiber children[] = {{"a", has_name, (void *)"a", WEFT_RESTART_TEMPORARY, 0},
                                              {NULL, has_name, (void *)"child", WEFT_RESTART_TEMPORARY, 0}};
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0), children, 2, 0);
    CHECK_EQ(runs, 2);
}

/* -- Strategies -------------------------------------------------------------------------------------------------------- */

/* Fails once the others are there, so often; then waits. */
static int fail_third(void *arg) {
    YIELD_UNTIL(did.entered >= 2);
    did.entered = 0;
    if (atomic_fetch_add(&runs, 1) < (int)(intptr_t)arg)
        return -EIO;
    return 0;
}

static int wait_quietly(void *arg) {
    (void)arg;
    atomic_fetch_add(&did.entered, 1);
    int why = weft_sleep_until(WEFT_NEVER);
    CHECK_EQ(weft_cancel_reason(), WEFT_REASON_FAILURE);
    return why;
}

static void strategy(weft_strategy strategy, unsigned bad, const char *expect) {
    weft_supervised_fiber children[3];
    for (unsigned i = 0; i < 3; i++)
        children[i] = (weft_supervised_fiber){"quiet", wait_quietly, NULL, WEFT_RESTART_PERMANENT, 0};
    children[bad] = (weft_supervised_fiber){"bad", fail_third, STATUS(2), WEFT_RESTART_PERMANENT, 0};
    weft_supervisor_config config = config_of(strategy, 1);
    supervise(config, children, 3, -EIO);
    CHECK_STR(story(), expect);
}

/* The second failure is one too many: all end, newest first. */
API_TEST(supervisor_one_for_all, "J3", .workers = {1, 2}) {
    strategy(WEFT_STRATEGY_ONE_FOR_ALL, 1, "S0 S1 S2 E1 E2 E0 S0 S1 S2 E1 G1 E2 E0");
}

API_TEST(supervisor_one_for_all_last, "J3", .workers = {1, 2}) {
    strategy(WEFT_STRATEGY_ONE_FOR_ALL, 2, "S0 S1 S2 E2 E1 E0 S0 S1 S2 E2 G2 E1 E0");
}

/* Who goes down with the others comes back with them, unless temporary: also a transient one that had ended well. */
static int end_then_tell(void *arg) {
    (void)arg;
    atomic_fetch_add(&did.returned, 1);
    return 0;
}

static int fail_once_ended(void *arg) {
    (void)arg;
    bool first = atomic_fetch_add(&runs, 1) == 0;
    YIELD_UNTIL(did.entered >= 1 && did.returned >= (first ? 1 : 2));
    return first ? -EIO : 0;
}

API_TEST(supervisor_group_of_kinds, "J3", .workers = {1, 2}) {
    const weft_supervised_fiber children[] = {{"done", end_then_tell, NULL, WEFT_RESTART_TRANSIENT, 0},
                                              {"guest", wait_quietly, NULL, WEFT_RESTART_TEMPORARY, 0},
                                              {"bad", fail_once_ended, NULL, WEFT_RESTART_TRANSIENT, 0}};
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ALL, 1), children, 3, 0);
    unsigned starts[3] = {0};
    for (unsigned i = 0; i < told.count; i++)
        starts[told.event[i].child] += told.event[i].what == WEFT_SUPERVISED_STARTED;
    CHECK(starts[0] == 2 && starts[1] == 1 && starts[2] == 2);
}

/* The one that was started again with the failed one fails in its turn: that is another restart, of all; and one more is too many. */
static int fail_on_run(void *arg) {
    int run = (int)(intptr_t)arg;
    static atomic_int of_first, of_second;
    int mine = atomic_fetch_add(run == 1 ? &of_first : &of_second, 1) + 1;
    if (mine >= run)
        return -EIO;
    return wait_quietly(NULL);
}

API_TEST(supervisor_others_fail_restart, "J3", .workers = {1, 2}) {
    const weft_supervised_fiber both[] = {{"first", fail_on_run, STATUS(1), WEFT_RESTART_PERMANENT, 0},
                                          {"later", fail_on_run, STATUS(2), WEFT_RESTART_PERMANENT, 0}};
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ALL, 2), both, 2, -EIO);
    unsigned starts[2] = {0}, given_up = 0;
    for (unsigned i = 0; i < told.count; i++) {
        starts[told.event[i].child] += told.event[i].what == WEFT_SUPERVISED_STARTED;
        given_up += told.event[i].what == WEFT_SUPERVISED_GAVE_UP;
    }
    CHECK(starts[0] == 3 && starts[1] == 3 && given_up == 1); /* however many of them fail at once, each time is one */
}

/* A cancelled caller: no order among the children, each is told at once.  The newest ends when the oldest has been told. */
static int end_after_oldest(void *arg) {
    weft_task *self = weft_task_self();
    if (!arg) {
        int why = wait_for_ever(NULL);
        atomic_store(&runs, 1);
        return why;
    }
    REQUIRE_EQ(weft_shield(self), 0);
    atomic_fetch_add(&did.entered, 1);
    YIELD_UNTIL(atomic_load(&runs) == 1);
    return weft_unshield(self);
}

static int supervise_in_no_order(void *arg) {
    (void)arg;
    const weft_supervised_fiber children[] = {{"oldest", end_after_oldest, NULL, WEFT_RESTART_PERMANENT, 0},
                                              {"newest", end_after_oldest, STATUS(1), WEFT_RESTART_PERMANENT, 0}};
    return weft_supervise(NULL, children, 2);
}

API_TEST(supervisor_cancelled_at_once, "J3 J24", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, supervise_in_no_order, NULL, &task), 0);
    REQUIRE_EVENTUALLY(did.entered == 2);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

static int fail_at_once(void *arg) {
    (void)arg;
    unsigned others = atomic_fetch_add(&runs, 1) ? 3 : 2; /* one of them has been started again */
    YIELD_UNTIL(did.entered >= others);
    return -EIO;
}

API_TEST(supervisor_rest_for_one, "J3", .workers = {1, 2}) {
    const weft_supervised_fiber children[] = {{"quiet", wait_quietly, NULL, WEFT_RESTART_PERMANENT, 0},
                                              {"bad", fail_at_once, NULL, WEFT_RESTART_PERMANENT, 0},
                                              {"quiet", wait_quietly, NULL, WEFT_RESTART_PERMANENT, 0}};
    supervise(config_of(WEFT_STRATEGY_REST_FOR_ONE, 1), children, 3, -EIO);
    CHECK_STR(story(), "S0 S1 S2 E1 E2 S1 S2 E1 G1 E2 E0");
}

API_TEST(supervisor_one_for_one, "J3", .workers = {1, 2}) {
    const weft_supervised_fiber children[] = {{"quiet", wait_quietly, NULL, WEFT_RESTART_PERMANENT, 0},
                                              {"bad", fail_often, STATUS(1000), WEFT_RESTART_PERMANENT, 0},
                                              {"quiet", wait_quietly, NULL, WEFT_RESTART_PERMANENT, 0}};
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ONE, 2), children, 3, -EIO);
    CHECK_EQ(runs, 3);
    const char *end = strstr(story(), "G1");
    REQUIRE(end);
    CHECK_STR(end, "G1 E2 E0");
}

/* -- Intensity --------------------------------------------------------------------------------------------------------- */

static int fail_after_a_second(void *arg) {
    (void)arg;
    atomic_fetch_add(&runs, 1);
    int why = weft_sleep(second());
    return why ? why : -EIO;
}

/* Exactly so many in the period: at one failure a second, four in 5 s are too many for three, and not for five. */
API_TEST(supervisor_intensity, "J3", .workers = {1}, .sched = "sim") {
    const weft_supervised_fiber child = {"worker", fail_after_a_second, NULL, WEFT_RESTART_PERMANENT, 0};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 3);
    config.backoff_min = -1;
    supervise(config, &child, 1, -EIO);
    CHECK_EQ(runs, 4);
}

static int stop_later(void *arg) {
    CHECK_EQ(weft_sleep(1000 * second()), 0);
    weft_task_cancel(*(weft_task **)arg);
    return 0;
}

static int intensity_held(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_fiber_go(NULL, stop_later, &self, NULL), 0);
    const weft_supervised_fiber child = {"worker", fail_after_a_second, NULL, WEFT_RESTART_PERMANENT, 0};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 5);
    config.backoff_min = -1;
    config.report = NULL;
    CHECK_EQ(weft_supervise(&config, &child, 1),
             -ECANCELED); /* still at it after 1,000 failures, when it was cancelled */
    CHECK_GT(runs, 990);
    return 0;
}

API_TEST(supervisor_intensity_held, "J3", .workers = {1}, .sched = "sim") {
    CHECK_EQ(in_fiber(intensity_held, NULL), 0);
}

/* -- Cancelled ------------------------------------------------------------------------------------------------------------ */

static int supervise_quietly(void *arg) {
    (void)arg;
    const weft_supervised_fiber children[] = {{"a", wait_for_ever, NULL, WEFT_RESTART_PERMANENT, 0},
                                              {"b", wait_for_ever, NULL, WEFT_RESTART_PERMANENT, 0}};
    return weft_supervise(NULL, children, 2);
}

API_TEST(supervisor_cancelled, "J3 J23 J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, supervise_quietly, NULL, &task), 0);
    REQUIRE_EVENTUALLY(did.entered == 2);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(did.cancelled, 2);
    fixture_end(rt);
}

/* While it pauses. */
static int supervise_failing(void *arg) {
    const weft_supervised_fiber child = {"a", fail_often, STATUS(1000), WEFT_RESTART_PERMANENT, 0};
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    config.backoff_min = INT64_MAX; /* with a jitter */
    config.backoff_max = (int64_t)(intptr_t)arg;
    config.report = note;
    return weft_supervise(&config, &child, 1);
}

API_TEST(supervisor_cancelled_in_pause, "J3 J25", .workers = {1, 2}, .sched = "ring deque fifo") {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    for (int i = 0; i < 2; i++) { /* the longest is said, or follows */
        REQUIRE_EQ(weft_fiber_go(rt, supervise_failing, (void *)(intptr_t)(i ? INT64_MAX : 0), &task), 0);
        REQUIRE_EVENTUALLY(runs == i + 1);
        weft_task_cancel(task);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        CHECK_EQ(runs, i + 1);
    }
    fixture_end(rt);
}

/* The nursery is cancelled by a child that is stopped before a pause: that is not waited for. */
static int cancel_all_when_stopped(void *arg) {
    int why = wait_for_ever(arg);
    weft_nursery_cancel(weft_nursery_parent());
    return why;
}

static int fail_beside(void *arg) {
    YIELD_UNTIL(did.entered >= 1);
    return fail_often(arg);
}

static int supervise_for_ages(void *arg) {
    const weft_supervised_fiber children[] = {{"a", cancel_all_when_stopped, NULL, WEFT_RESTART_PERMANENT, 0},
                                              {"b", fail_beside, STATUS(1000), WEFT_RESTART_PERMANENT, 0}};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ALL, 0);
    config.backoff_min = config.backoff_max = INT64_MAX / 4;
    (void)arg;
    CHECK_EQ(weft_supervise(&config, children, 2), -ECANCELED);
    CHECK_LT(weft_now() - told.event[3].at, config.backoff_min / 2); /* virtual, perhaps */
    return 0;
}

API_TEST(supervisor_all_cancelled_before_pause, "J3 J25", .workers = {1, 2}) {
    CHECK_EQ(in_fiber(supervise_for_ages, NULL), 0);
    CHECK_STR(story(), "S0 S1 E1 E0");
}

/* A child that does not want to end is given 10 s. */
static int stubborn(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_shield(self), 0);
    atomic_fetch_add(&did.entered, 2);
    int64_t began = weft_now();
    int why = weft_sleep_until(WEFT_NEVER);
    CHECK_EQ(why, -ECANCELED);
    CHECK_GE(weft_now() - began, 10 * second());
    CHECK_EQ(weft_unshield(self), 0);
    return why;
}

static int fail_once_there(void *arg) {
    (void)arg;
    YIELD_UNTIL(did.entered >= 2);
    return atomic_fetch_add(&runs, 1) ? 0 : -EIO;
}

API_TEST(supervisor_stop_timeout, "J3 J25", .workers = {1}, .sched = "sim") {
    const weft_supervised_fiber children[] = {{"stubborn", stubborn, NULL, WEFT_RESTART_TEMPORARY, 0},
                                              {"bad", fail_once_there, NULL, WEFT_RESTART_TRANSIENT, 0}};
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ALL, 1), children, 2, 0);
    CHECK_EQ(runs, 2);
}

/* -- Supervisors of supervisors --------------------------------------------------------------------------------------------- */

static int inner(void *arg) {
    (void)arg;
    const weft_supervised_fiber child = {"leaf", fail_often, STATUS(5), WEFT_RESTART_TRANSIENT, 0};
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    config.intensity = 1;
    config.period = INT64_MAX;
    config.backoff_min = -1;
    return weft_supervise(&config, &child, 1);
}

/* The inner one gives up after two failures; the outer one starts it again. */
API_TEST(supervisor_tree, "J3 J24", .workers = {1, 2}) {
    const weft_supervised_fiber child = {"supervisor", inner, NULL, WEFT_RESTART_TRANSIENT, 0};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.backoff_min = -1;
    supervise(config, &child, 1, 0);
    CHECK_EQ(runs, 6);
    CHECK_STR(story(), "S0 E0 S0 E0 S0 E0");
}

/* -- Siblings: a child starts others in the supervisor's nursery, which nobody supervises --------------------------------- */

static int start_siblings(void *arg) {
    weft_nursery *n = weft_nursery_parent();
    CHECK_EQ(weft_nursery_go(n, arg ? wait_for_ever : add_one, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_go(n, fail_with, STATUS(-EPERM), NULL), 0);
    YIELD_UNTIL(atomic_load(&did.entered) > (unsigned)atomic_load(&runs)); /* it has begun, if not ended */
    atomic_fetch_add(&runs, 1);
    return arg || atomic_load(&runs) < 3 ? -EIO : 0;
}

/* They end, or fail, without harm. */
API_TEST(supervisor_siblings, "J3 J24", .workers = {1, 2}) {
    const weft_supervised_fiber child = {"a", start_siblings, NULL, WEFT_RESTART_TRANSIENT, 0};
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0), &child, 1, 0);
    CHECK_EQ(did.entered, 3);
    CHECK_STR(story(), "S0 E0 S0 E0 S0 E0");
}

/* When it gives up, they are cancelled. */
API_TEST(supervisor_siblings_given_up, "J3 J24", .workers = {1, 2}) {
    const weft_supervised_fiber child = {"a", start_siblings, STATUS(1), WEFT_RESTART_TRANSIENT, 0};
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ONE, 1), &child, 1, -EIO);
    CHECK_EQ(did.entered, 2);
    CHECK_EQ(did.cancelled, 2);
    CHECK_STR(story(), "S0 E0 S0 E0 G0");
}

/* -- Refused ---------------------------------------------------------------------------------------------------------------- */

static int refused(void *arg) {
    (void)arg;
    weft_supervised_fiber child = {"a", NULL, NULL, WEFT_RESTART_TEMPORARY, 0};
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    CHECK_EQ(weft_supervise(NULL, &child, 1), -EINVAL);
    child.fn = end_well;
    CHECK_EQ(weft_supervise(NULL, &child, 0), -EINVAL);
    CHECK_EQ(weft_supervise(NULL, NULL, 1), -EINVAL);
    config.backoff_jitter = 2;
    CHECK_EQ(weft_supervise(&config, &child, 1), -EINVAL);
    config.backoff_jitter = NAN;
    CHECK_EQ(weft_supervise(&config, &child, 1), -EINVAL);
    config.backoff_jitter = 0;
    config.backoff_factor = NAN;
    CHECK_EQ(weft_supervise(&config, &child, 1), -EINVAL);
    config.backoff_factor = 0.5; /* shorter and shorter */
    CHECK_EQ(weft_supervise(&config, &child, 1), -EINVAL);
    config.backoff_factor = 0;
    config.backoff_min = 2;
    config.backoff_max = 1;
    CHECK_EQ(weft_supervise(&config, &child, 1), -EINVAL);
    config.backoff_max = -1;
    CHECK_EQ(weft_supervise(&config, &child, 1), -EINVAL);
    config.backoff_max = 0;
    config.stable = -1;
    CHECK_EQ(weft_supervise(&config, &child, 1), -EINVAL);
    config.stable = 0;
    config.period = -1;
    CHECK_EQ(weft_supervise(&config, &child, 1), -EINVAL);
    config.period = 0;
    config.strategy = (weft_strategy)(WEFT_STRATEGY_REST_FOR_ONE + 1);
    CHECK_EQ(weft_supervise(&config, &child, 1), -EINVAL);
    child.stack_size = SIZE_MAX; /* the first start fails */
    CHECK_EQ(weft_supervise(NULL, &child, 1), -EINVAL);
    child.stack_size = 0;
    weft_task_cancel(weft_task_self());
    CHECK_EQ(weft_supervise(NULL, &child, 1), -ECANCELED);
    CHECK_EQ(runs, 0);
    return 0;
}

API_TEST(supervisor_refused, "J3", .workers = {1}) { CHECK_EQ(in_fiber(refused, NULL), 0); }

TEST(supervisor_needs_a_fiber, "J3") {
    const weft_supervised_fiber child = {"a", end_well, NULL, WEFT_RESTART_TEMPORARY, 0};
    CHECK_EQ(weft_supervise(NULL, &child, 1), -EINVAL);
}

/* -- No restarts: a child that would have to be started again ends the supervisor. */

API_TEST(supervisor_no_restarts, "J3", .workers = {1, 2}) {
    const weft_supervised_fiber child = {"bad", fail_often, STATUS(1000), WEFT_RESTART_PERMANENT, 0};
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ONE, WEFT_INTENSITY_NONE), &child, 1, -EIO);
    CHECK_STR(story(), "S0 E0 G0");
}

/* -- Shields that hold for the grace: their times run side by side, after the first. */

enum { SHIELDED = 10 };

static atomic_int shielded;
static int stay_shielded(void *arg) {
    weft_task *self = weft_task_self();
    (void)arg;
    REQUIRE_EQ(weft_shield(self), 0);
    atomic_fetch_add(&shielded, 1);
    int error = weft_sleep_until(WEFT_NEVER);
    CHECK_EQ(weft_unshield(self), 0);
    return error;
}
static int fail_when_shielded(void *arg) {
    int error = 0;
    (void)arg;
    if (atomic_fetch_add(&runs, 1) > 0)
        return 0;
    while (!error && atomic_load(&shielded) < SHIELDED)
        error = weft_yield();
    return -EIO;
}
API_TEST(supervisor_shielded_together, "J3 J31", .workers = {1, 2}) {
    weft_supervised_fiber children[SHIELDED + 1];
    for (size_t i = 0; i < SHIELDED; i++)
        children[i] = (weft_supervised_fiber){"stays", stay_shielded, NULL, WEFT_RESTART_TEMPORARY, 0};
    children[SHIELDED] = (weft_supervised_fiber){"fails", fail_when_shielded, NULL, WEFT_RESTART_TRANSIENT, 0};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ALL, 0);
    config.grace = 10 * second();
    config.backoff_min = -1;
    supervise(config, children, SHIELDED + 1, 0);
    CHECK_EQ(told.count, 2 * (SHIELDED + 2));
    if (fixture_on("sim"))
        CHECK_LE(told.event[told.count - 1].at - told.event[SHIELDED + 1].at, 21 * second());
}
