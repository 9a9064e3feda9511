/* process_supervisor_stop.c - supervisors of processes that are asked to end at a bad moment; children that cannot be started, or do not want to end. */
#include "process.h"
#include "supervised.h"

struct run {
    weft_supervisor_config config;
    weft_process_child *children;
    size_t count;
    int expect;
};

static weft_pid boss;
static int run_supervisor(void *arg) {
    struct run *run = arg;
    boss = weft_self();
    CHECK_EQ(weft_process_supervise(&run->config, run->children, run->count), run->expect);
    return 0;
}

static void supervise(weft_supervisor_config config, weft_process_child *children, size_t count, int expect) {
    struct run run = {config, children, count, expect};
    in_process(run_supervisor, &run);
}

static weft_supervisor_config without_pause(weft_strategy strategy, uint32_t intensity) {
    weft_supervisor_config config = config_of(strategy, intensity);
    config.backoff_min = -1;
    return config;
}

/* -- Asked to end while it stops those that are to start again with another. */

/* When it is asked to end, so is the supervisor. */
static int take_boss_along(void *arg) {
    (void)arg;
    expect(WEFT_MESSAGE_CANCEL);
    CHECK_EQ(weft_process_cancel(NULL, boss), 0);
    return 0;
}

static void asked_while_stopping(weft_supervisor_config config) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("bad", fail_often, (void *)99),
                                     WEFT_PROCESS_CHILD("other", take_boss_along, NULL)};
    supervise(config, children, 2, -ECANCELED);
    CHECK_STR(story(), "S0 S1 E0 E1"); /* and nobody is started again */
}

API_TEST(process_supervisor_asked_while_stopping, "W6", .workers = {1, 2}) {
    asked_while_stopping(without_pause(WEFT_STRATEGY_REST_FOR_ONE, 0));
}

API_TEST(process_supervisor_asked_before_pause, "W6", .workers = {1, 2}) {
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ALL, 0);
    config.backoff_min = config.backoff_max = INT64_MAX / 4; /* not waited for */
    asked_while_stopping(config);
}

/* -- Shields: they hold for the grace, and no longer. */

static atomic_int shielded;
static int stay(void *arg) {
    weft_task *self = weft_task_self();
    weft_message m;
    (void)arg;
    REQUIRE_EQ(weft_shield(self), 0);
    atomic_fetch_add(&shielded, 1);
    int error;
    while ((error = weft_receive(&m, NULL, NULL, WEFT_NEVER)) == 0)
        ;
    CHECK_EQ(weft_unshield(self), 0);
    return error;
}

static int cancel_boss(void *arg) {
    UNTIL(atomic_load(&shielded) == (int)(intptr_t)arg);
    CHECK_EQ(weft_process_cancel(NULL, boss), 0);
    return sit(NULL);
}

API_TEST(process_supervisor_shielded, "W6 W36", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("stays", stay, NULL),
                                     WEFT_PROCESS_CHILD("b", cancel_boss, (void *)1)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.grace = 10 * second();
    supervise(config, children, 2, -ECANCELED);
    CHECK_STR(story(), "S0 S1 E1 E0");
    CHECK_GE(told.event[3].at - told.event[2].at, 10 * second());
}

/* The grace of the upper one is for all that is below: the lower one would wait for ever. */
static int lower(void *arg) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", stay, NULL), WEFT_PROCESS_CHILD("b", stay, NULL)};
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    (void)arg;
    config.grace = -1;
    return weft_process_supervise(&config, children, 2);
}

API_TEST(process_supervisor_shielded_below, "W6 W36", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("lower", lower, NULL),
                                     WEFT_PROCESS_CHILD("b", cancel_boss, (void *)2)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.grace = 10 * second();
    supervise(config, children, 2, -ECANCELED);
    CHECK_STR(story(), "S0 S1 E1 E0");
    CHECK_EQ(told.event[3].status, -ECANCELED);
}

API_TEST(process_stop_all_shielded, "W36", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_left left;
    weft_pid pid = go_process(rt, stay, NULL);
    REQUIRE_EVENTUALLY(atomic_load(&shielded) == 1);
    CHECK_EQ(weft_process_stop_all(rt, weft_after(2000000), &left, 1), 1);
    CHECK_EQ(left.pid, pid);
    CHECK_EQ(weft_process_count(rt), 0);
    fixture_end(rt);
}

/* -- A class whose init refuses. */

static atomic_uint inits;
static struct {
    unsigned from, to; /* those that are refused */
    int with;
} refuse;

static int may_refuse(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)state, (void)self, (void)method, (void)input, (void)size;
    unsigned now = atomic_fetch_add(&inits, 1) + 1;
    return now >= refuse.from && now <= refuse.to ? refuse.with : 0;
}
static int fail_first(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    out->status = inits == 1 ? WEFT_STEP_CONTINUE : WEFT_STEP_DONE;
    return inits == 1 ? -EIO : 0;
}
static const weft_process_class refusing = {.size = sizeof refusing, .init = may_refuse, .step = fail_first};

static weft_process_child child_that_refuses(unsigned from, unsigned to, int with) {
    weft_process_child child = {"refusing", WEFT_PROCESS_SPEC_INIT, WEFT_RESTART_TRANSIENT, NULL};
    child.spec.class_ = &refusing;
    refuse.from = from;
    refuse.to = to;
    refuse.with = with;
    return child;
}

/* At first: it does not begin, and who runs is stopped. */
API_TEST(process_supervisor_first_start_refused, "W4 W6", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", sit, NULL), child_that_refuses(1, 1, -EACCES)};
    supervise(config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0), children, 2, -EACCES);
    CHECK_STR(story(), "S0 E0");
}

/* Later it counts as an end with that error, which is tried again, as often as others are. */
API_TEST(process_supervisor_restart_refused, "W4 W6", .workers = {1, 2}) {
    weft_process_child child = child_that_refuses(2, 4, -EACCES);
    supervise(without_pause(WEFT_STRATEGY_ONE_FOR_ONE, 0), &child, 1, 0);
    CHECK_EQ(inits, 5);
    CHECK_STR(story(), "S0 E0 S0 E0");
}

API_TEST(process_supervisor_restart_refused_too_often, "W4 W6", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("a", sit, NULL), child_that_refuses(2, 99, -EACCES)};
    supervise(without_pause(WEFT_STRATEGY_ONE_FOR_ALL, 3), children, 2, -EACCES);
    CHECK_EQ(inits, 4);
}

/* -ECANCELED is the child's word, not the supervisor's. */
API_TEST(process_supervisor_restart_refused_cancelled, "W4 W6", .workers = {1, 2}) {
    weft_process_child child = child_that_refuses(2, 2, -ECANCELED);
    child.restart = WEFT_RESTART_PERMANENT;
    supervise(without_pause(WEFT_STRATEGY_ONE_FOR_ONE, 2), &child, 1, -ELOOP);
    CHECK_EQ(inits, 3);
}

/* For ever and without pause: the others run all the same. */
static int cancel_boss_later(void *arg) {
    (void)arg;
    UNTIL(atomic_load(&inits) >= 50);
    CHECK_EQ(weft_process_cancel(NULL, boss), 0);
    return 0;
}
API_TEST(process_supervisor_restart_refused_for_ever, "W4 W23", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("later", cancel_boss_later, NULL),
                                     child_that_refuses(2, UINT32_MAX, -EACCES)};
    children[0].restart = WEFT_RESTART_TEMPORARY;
    supervise(without_pause(WEFT_STRATEGY_ONE_FOR_ONE, 0), children, 2, -ECANCELED);
}

/* -- A restart that is refused: those behind the child, which may need it, wait for it. */

static const char *const on_first[] = {"refusing", NULL};
static atomic_int without;
static int check_first(void *arg) {
    (void)arg;
    if (atomic_load(&inits) > 1) /* at first it may have failed again by now */
        atomic_fetch_add(&without, weft_whereis(NULL, "first") == WEFT_PID_NONE);
    if (atomic_load(&inits) >= 4)
        CHECK_EQ(weft_process_cancel(NULL, boss), 0);
    return sit(NULL);
}
/* Fails when it was started for the first time; else it stays. */
static int fail_first_then_stay(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            out->status = WEFT_STEP_DONE;
    return atomic_load(&inits) == 1 && count && events[0].type == WEFT_MESSAGE ? -EIO : 0;
}
static int fail_the_first(void *arg) {
    if (atomic_load(&inits) == 1)
        CHECK_EQ(weft_send(NULL, weft_whereis(NULL, "first"), 1, NULL, 0), 0);
    return sit(arg);
}

static void refused_before_others(weft_strategy strategy, int64_t pause) {
    static const weft_process_class class_ = {.size = sizeof class_, .init = may_refuse, .step = fail_first_then_stay};
    weft_process_child children[] = {child_that_refuses(2, 3, -EAGAIN), WEFT_PROCESS_CHILD("b", check_first, NULL),
                                     WEFT_PROCESS_CHILD("c", fail_the_first, NULL)};
    weft_supervisor_config config = without_pause(strategy, 0);
    config.backoff_min = pause;
    config.backoff_max = pause > 0 ? pause : 0;
    children[0].spec.class_ = &class_;
    children[0].spec.registered = "first";
    children[1].needs = on_first;
    supervise(config, children, 3, -ECANCELED);
    CHECK_EQ(atomic_load(&without), 0);
    CHECK_EQ(atomic_load(&inits), 4);
    /* The cancel is read when the third has begun, or before it is started. */
    CHECK(!strcmp(story(), "S0 S1 S2 E0 E2 E1 S0 S1 E1 E0") || !strcmp(story(), "S0 S1 S2 E0 E2 E1 S0 S1 S2 E2 E1 E0"));
}
API_TEST(process_supervisor_refused_before_rest, "W4 W6", .workers = {1, 2}) {
    refused_before_others(WEFT_STRATEGY_REST_FOR_ONE, -1);
}
API_TEST(process_supervisor_refused_before_all, "W4 W6", .workers = {1, 2}) {
    refused_before_others(WEFT_STRATEGY_ONE_FOR_ALL, -1);
}
/* The same with a pause that is over before the loop comes to the next. */
API_TEST(process_supervisor_refused_short_pause, "W4 W6", .workers = {1, 2}) {
    refused_before_others(WEFT_STRATEGY_REST_FOR_ONE, 1);
}

/* -- No restarts. */

API_TEST(process_supervisor_no_restarts, "W6", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("quiet", sit, NULL),
                                     WEFT_PROCESS_CHILD("worker", fail_often, (void *)99)};
    supervise(without_pause(WEFT_STRATEGY_ONE_FOR_ONE, WEFT_INTENSITY_NONE), children, 2, -EIO);
    CHECK_STR(story(), "S0 S1 E1 G1 E0");
}
/* Those that may end do so. */
API_TEST(process_supervisor_no_restarts_needed, "W6", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("temporary", fail_often, (void *)99),
                                     WEFT_PROCESS_CHILD("transient", fail_often, NULL)};
    children[0].restart = WEFT_RESTART_TEMPORARY;
    children[1].restart = WEFT_RESTART_TRANSIENT;
    supervise(without_pause(WEFT_STRATEGY_ONE_FOR_ONE, WEFT_INTENSITY_NONE), children, 2, 0);
    CHECK_EQ(told.count, 4);
}
