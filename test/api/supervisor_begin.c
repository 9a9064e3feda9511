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

/* The supervisor is cancelled while it waits for one that has not begun: that one never does, nor are others started. */
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

API_TEST(supervisor_cancelled_before_a_begin, "J3 J31", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    weft_result result;
    REQUIRE_EQ(weft_fiber_go(rt, supervise_and_be_cancelled, NULL, &task), 0);
    REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
    weft_task_drop(task);
    CHECK_STR(story(), "S0 E0");
    CHECK_LE(atomic_load(&begun.count), 1); /* another worker may have had it already */
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

/* One is ended before it has begun: that is its end, and the others are started. */
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

API_TEST(process_supervisor_ended_before_its_begin, "W6 W27", .workers = {1, 2}) {
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
