/* supervisor_begin.c - the order in which supervised children begin.  On one worker: elsewhere the next may be at its first statement when the one before
 * is, too. */
#include "nursery.h"
#include "process.h"
#include "supervised.h"

enum { COUNT = 12 };

/* Those that have begun, in that order. */
static struct {
    atomic_uint count;
    atomic_intptr_t child[EVENTS];
} begun;

static bool begun_in_order(unsigned count) {
    bool so = atomic_load(&begun.count) == count;
    for (unsigned i = 0; so && i < count; i++)
        so = atomic_load(&begun.child[i]) == (intptr_t)(i % COUNT);
    return so;
}
static void note_begin(void *child) {
    unsigned at = atomic_fetch_add(&begun.count, 1);
    REQUIRE_LT(at, EVENTS);
    atomic_store(&begun.child[at], (intptr_t)child);
}

/* -- Fibers ---------------------------------------------------------------------------------------------------------- */

/* Each begins before the next is started, whatever a scheduler would run first. */
static int begin_and_end(void *arg) {
    note_begin(arg);
    return 0;
}

static int supervise_fibers(void *children) {
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    return weft_supervise(&config, children, COUNT);
}

API_TEST(supervisor_begin_in_order, "J3", .workers = {1}) {
    weft_supervised_fiber children[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        children[i] = (weft_supervised_fiber){"child", begin_and_end, STATUS(i), WEFT_RESTART_TEMPORARY, 0};
    CHECK_EQ(in_fiber(supervise_fibers, children), 0);
    CHECK(begun_in_order(COUNT));
}

/* ... also when all are started again: the last fails when it has begun for the first time, the others wait until then. */
static int begin_twice(void *arg) {
    note_begin(arg);
    if (atomic_load(&begun.count) > COUNT)
        return 0;
    return (intptr_t)arg == COUNT - 1 ? -EIO : weft_sleep_until(WEFT_NEVER);
}

static int supervise_fibers_twice(void *children) {
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ALL, 0);
    return weft_supervise(&config, children, COUNT);
}

API_TEST(supervisor_begin_in_order_again, "J3", .workers = {1}) {
    weft_supervised_fiber children[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        children[i] = (weft_supervised_fiber){"child", begin_twice, STATUS(i), WEFT_RESTART_TRANSIENT, 0};
    CHECK_EQ(in_fiber(supervise_fibers_twice, children), 0);
    CHECK(begun_in_order(2 * COUNT));
}

/* The supervisor is cancelled when the first child has begun: no others are started. */
static weft_task *cancelled;
static void cancel_first(void *arg, size_t child, weft_supervised what, int status) {
    note(arg, child, what, status);
    if (what == WEFT_SUPERVISED_STARTED)
        weft_task_cancel(cancelled);
}

static int supervise_and_be_cancelled(void *arg) {
    (void)arg;
    weft_supervised_fiber children[3];
    for (size_t i = 0; i < 3; i++)
        children[i] = (weft_supervised_fiber){"child", begin_and_end, STATUS(i), WEFT_RESTART_PERMANENT, 0};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.report = cancel_first;
    cancelled = weft_task_self();
    CHECK_EQ(weft_supervise(&config, children, 3), -ECANCELED);
    return 0;
}

API_TEST(supervisor_cancelled_at_a_begin, "J3 J31", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    weft_result result;
    REQUIRE_EQ(weft_fiber_go(rt, supervise_and_be_cancelled, NULL, &task), 0);
    REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
    weft_task_drop(task);
    CHECK_STR(story(), "S0 E0");
    CHECK_EQ(atomic_load(&begun.count), 1);
    fixture_end(rt);
}

/* -- Processes -------------------------------------------------------------------------------------------------------- */

/* Each begins after those that it needs, whatever a scheduler would run first. */
static int supervise_processes(void *children) {
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    CHECK_EQ(weft_process_supervise(&config, children, COUNT), 0);
    return 0;
}

API_TEST(process_supervisor_begin_in_order, "W6", .workers = {1}) {
    static const char *const names[COUNT] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    const char *needs[COUNT][2] = {{NULL}};
    weft_process_child children[COUNT];
    for (size_t i = 0; i < COUNT;
         i++) { /* given the other way round: the last is needed by the one before, and so on */
        size_t nth = COUNT - 1 - i;
        children[i] = (weft_process_child)WEFT_PROCESS_CHILD(names[nth], begin_and_end, (void *)nth);
        children[i].restart = WEFT_RESTART_TEMPORARY;
        if (nth) {
            needs[i][0] = names[nth - 1];
            children[i].needs = needs[i];
        }
    }
    in_process(supervise_processes, children);
    CHECK(begun_in_order(COUNT));
}

static int supervise_processes_twice(void *children) {
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ALL, 0);
    CHECK_EQ(weft_process_supervise(&config, children, COUNT), 0);
    return 0;
}

static int begin_process_twice(void *arg) {
    note_begin(arg);
    if (atomic_load(&begun.count) > COUNT)
        return 0;
    return (intptr_t)arg == COUNT - 1 ? -EIO : sit(NULL);
}

API_TEST(process_supervisor_begin_in_order_again, "W6", .workers = {1}) {
    weft_process_child children[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        children[i] = (weft_process_child)WEFT_PROCESS_CHILD("child", begin_process_twice, (void *)i);
        children[i].restart = WEFT_RESTART_TRANSIENT;
    }
    in_process(supervise_processes_twice, children);
    CHECK(begun_in_order(2 * COUNT));
}

/* One is ended when it has begun: the others are started. */
static void end_first(void *arg, size_t child, weft_supervised what, int status) {
    note(arg, child, what, status);
    if (what == WEFT_SUPERVISED_STARTED && child == 0)
        CHECK_EQ(weft_process_exit(NULL, weft_whereis(NULL, "first"), -EIO), 0);
}

static int supervise_two(void *children) {
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.report = end_first;
    CHECK_EQ(weft_process_supervise(&config, children, 2), 0);
    return 0;
}

API_TEST(process_supervisor_ended_at_its_begin, "W6 W27", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("first", sit, NULL),
                                     WEFT_PROCESS_CHILD("second", begin_and_end, NULL)};
    children[0].spec.registered = "first";
    children[0].restart = children[1].restart = WEFT_RESTART_TEMPORARY;
    in_process(supervise_two, children);
    CHECK_EQ(atomic_load(&begun.count), 1);
    unsigned ends = 0;
    for (unsigned i = 0; i < told.count; i++)
        if (told.event[i].what == WEFT_SUPERVISED_ENDED)
            ends += told.event[i].status == (told.event[i].child ? 0 : -EIO);
    CHECK_EQ(ends, 2);
}

/* A child counts as started when its function has been entered, not before.  On one worker: with two, the report may come between the flag and
 * the call behind it. */
static atomic_bool entered[COUNT];
static void check_entered(void *arg, size_t child, weft_supervised what, int status) {
    note(arg, child, what, status);
    if (what == WEFT_SUPERVISED_STARTED)
        CHECK(atomic_load(&entered[child]));
}
static int enter(void *arg) {
    atomic_store(&entered[(size_t)(intptr_t)arg], true);
    return 0;
}

static int supervise_entered(void *children) {
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.report = check_entered;
    return weft_supervise(&config, children, COUNT);
}
API_TEST(supervisor_started_is_entered, "J3", .workers = {1}) {
    weft_supervised_fiber children[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        children[i] = (weft_supervised_fiber){"child", enter, STATUS(i), WEFT_RESTART_TEMPORARY, 0};
    CHECK_EQ(in_fiber(supervise_entered, children), 0);
    CHECK_EQ(told.count, 2 * COUNT);
}

static int supervise_entered_processes(void *children) {
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.report = check_entered;
    CHECK_EQ(weft_process_supervise(&config, children, COUNT), 0);
    return 0;
}
API_TEST(process_supervisor_started_is_entered, "W6", .workers = {1}) {
    weft_process_child children[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        children[i] = (weft_process_child)WEFT_PROCESS_CHILD("child", enter, (void *)i);
        children[i].restart = WEFT_RESTART_TEMPORARY;
    }
    in_process(supervise_entered_processes, children);
    CHECK_EQ(told.count, 2 * COUNT);
}

/* One that is killed before its function was entered has not been started, and the supervisor fails with its reason. */
static int kill_second(void *arg) {
    weft_pid second;
    (void)arg;
    UNTIL((second = weft_whereis(NULL, "second")) != WEFT_PID_NONE);
    CHECK_EQ(weft_process_exit(NULL, second, -EIO), 0);
    return sit(NULL);
}
static int enter_and_sit(void *arg) {
    enter(arg);
    return sit(NULL);
}
static int end_boss(void *boss) {
    CHECK_EQ(weft_process_cancel(NULL, *(weft_pid *)boss), 0);
    return sit(NULL);
}
static int supervise_killed(void *arg) {
    weft_pid boss = weft_self();
    weft_process_child children[] = {WEFT_PROCESS_CHILD("first", kill_second, NULL),
                                     WEFT_PROCESS_CHILD("second", enter_and_sit, (void *)1),
                                     WEFT_PROCESS_CHILD("third", end_boss, &boss)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    (void)arg;
    config.backoff_min = -1;
    children[1].spec.registered = "second";
    children[1].restart = WEFT_RESTART_TEMPORARY;
    int error = weft_process_supervise(&config, children, 3);
    bool begun_in_time = atomic_load(&entered[1]); /* a scheduler may run it before the first */
    CHECK_EQ(error, begun_in_time ? -ECANCELED : -EIO);
    CHECK_STR(story(), begun_in_time ? "S0 S1 S2 E2 E1 E0" : "S0 E0");
    return 0;
}
API_TEST(process_supervisor_killed_before_its_begin, "W6 W27", .workers = {1}) { in_process(supervise_killed, NULL); }
