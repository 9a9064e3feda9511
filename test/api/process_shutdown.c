/* process_shutdown.c - children that are stopped wherever they wait, the time that each has, and children that do not end by themselves. */
#include <sys/socket.h>
#include <time.h>

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

/* No time is over before the test is. */
static weft_supervisor_config endless(void) {
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.grace = -1;
    return config;
}

/* Ends the supervisor when all the others have begun. */
static atomic_int ready;
static int end_boss(void *arg) {
    UNTIL(atomic_load(&ready) == (int)(intptr_t)arg);
    CHECK_EQ(weft_process_cancel(NULL, boss), 0);
    return sit(NULL);
}

/* -- Wherever it waits: each of these waits for ever, and the supervisor would, too. */

static weft_chan *empty;
static weft_pid silent;
static int pair[2];

static int in_sleep(void *arg) {
    (void)arg;
    atomic_fetch_add(&ready, 1);
    return weft_sleep_until(WEFT_NEVER);
}
static int in_read(void *arg) {
    char byte;
    weft_io *io;
    (void)arg;
    REQUIRE_EQ(weft_io_open(pair[0], 0, &io), 0);
    atomic_fetch_add(&ready, 1);
    ssize_t got = weft_read(io, &byte, 1, WEFT_NEVER);
    weft_close(io);
    return (int)got;
}
static int in_ask(void *arg) {
    weft_message reply;
    (void)arg;
    atomic_fetch_add(&ready, 1);
    return weft_ask(silent, NULL, 0, &reply, WEFT_NEVER);
}
static int in_channel(void *arg) {
    int value;
    (void)arg;
    atomic_fetch_add(&ready, 1);
    return weft_chan_recv(empty, &value, WEFT_NEVER);
}
static int in_select(void *arg) {
    int value;
    weft_case cases[] = {weft_case_recv(empty, &value)};
    (void)arg;
    atomic_fetch_add(&ready, 1);
    return weft_select(cases, 1, WEFT_NEVER);
}
static bool refuse_all(const weft_message *message, void *arg) {
    (void)message, (void)arg;
    return false;
}
static int in_receive_for_others(void *arg) {
    weft_message m;
    (void)arg;
    atomic_fetch_add(&ready, 1);
    return weft_receive(&m, refuse_all, NULL, WEFT_NEVER);
}
static int in_nursery(void *arg) {
    weft_nursery nursery;
    (void)arg;
    REQUIRE_EQ(weft_nursery_init(&nursery, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_go(&nursery, in_sleep, NULL, NULL), 0);
    return weft_nursery_await(&nursery);
}
static int in_yield(void *arg) {
    int error = 0;
    (void)arg;
    atomic_fetch_add(&ready, 1);
    while (!error)
        error = weft_yield();
    return error;
}
static int in_join(void *arg) {
    weft_task *task;
    (void)arg;
    REQUIRE_EQ(weft_fiber_go(NULL, in_sleep, NULL, &task), 0);
    int error = weft_join(task, NULL, WEFT_NEVER);
    weft_task_cancel(task);
    weft_task_drop(task);
    return error;
}

API_TEST(process_shutdown_anywhere, "W6 W36", .workers = {1, 2}) {
    weft_process_child children[] = {
        WEFT_PROCESS_CHILD("sleep", in_sleep, NULL),     WEFT_PROCESS_CHILD("read", in_read, NULL),
        WEFT_PROCESS_CHILD("ask", in_ask, NULL),         WEFT_PROCESS_CHILD("channel", in_channel, NULL),
        WEFT_PROCESS_CHILD("select", in_select, NULL),   WEFT_PROCESS_CHILD("receive", in_receive_for_others, NULL),
        WEFT_PROCESS_CHILD("nursery", in_nursery, NULL), WEFT_PROCESS_CHILD("yield", in_yield, NULL),
        WEFT_PROCESS_CHILD("join", in_join, NULL),       WEFT_PROCESS_CHILD("end", end_boss, (void *)9),
    };
    enum { COUNT = sizeof children / sizeof *children };
    weft_runtime *rt = fixture_begin_patient();
    struct run run = {endless(), children, COUNT, -ECANCELED};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    REQUIRE_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &empty), 0);
    silent = go_process(rt, in_receive_for_others, NULL);
    REQUIRE_EVENTUALLY(atomic_load(&ready) == 1);
    atomic_store(&ready, 0);
    spec.fn = run_supervisor;
    spec.arg = &run;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_STR(story(), "S0 S1 S2 S3 S4 S5 S6 S7 S8 S9 E9 E8 E7 E6 E5 E4 E3 E2 E1 E0");
    for (unsigned i = COUNT + 1; i < told.count; i++)
        CHECK_EQ(told.event[i].status, -ECANCELED);
    CHECK_EQ(weft_process_exit(rt, silent, -ECANCELED), 0);
    CHECK_EQ(weft_chan_destroy(empty), 0);
    close(pair[1]);
    fixture_end(rt);
}

/* So do those that weft_process_stop_all finds. */
API_TEST(process_stop_all_anywhere, "W35 W36", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    go_process(rt, in_sleep, NULL);
    go_process(rt, in_receive_for_others, NULL);
    go_process(rt, in_yield, NULL);
    REQUIRE_EVENTUALLY(atomic_load(&ready) == 3);
    CHECK_EQ(weft_process_stop_all(rt, WEFT_NEVER, NULL, 0), 0);
    CHECK_EQ(weft_process_count(rt), 0);
    fixture_end(rt);
}

/* -- What is left to those that want to end in order. */

/* The waits of a process that has read the request are as before. */
static atomic_int ended_well;
static int read_request_then_wait(void *arg) {
    CHECK_EQ(in_sleep(arg), -ECANCELED);
    CHECK(weft_task_is_cancelled(weft_task_self()));
    CHECK_EQ(weft_yield(), -ECANCELED); /* until it is read */
    expect(WEFT_MESSAGE_CANCEL);
    CHECK(!weft_task_is_cancelled(weft_task_self()));
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(weft_sleep(1000000), 0);
    atomic_fetch_add(&ended_well, 1);
    return 0;
}

/* A server with fibers of its own reads the request before anything happens to them. */
static atomic_int served;
static int serve_a_while(void *arg) {
    (void)arg;
    atomic_fetch_add(&ready, 1);
    CHECK_EQ(weft_sleep(20000000), 0);
    atomic_fetch_add(&served, 1);
    return 0;
}
static int drain(void *arg) {
    weft_nursery nursery;
    (void)arg;
    REQUIRE_EQ(weft_nursery_init(&nursery, NULL, NULL), 0);
    expect(WEFT_MESSAGE_CANCEL);
    REQUIRE_EQ(weft_nursery_go(&nursery, serve_a_while, NULL, NULL), 0);
    CHECK_EQ(weft_nursery_await(&nursery), 0);
    atomic_fetch_add(&ended_well, 1);
    return 0;
}

/* A shield puts it off. */
static int shielded_sleep(void *arg) {
    weft_task *self = weft_task_self();
    (void)arg;
    REQUIRE_EQ(weft_shield(self), 0);
    atomic_fetch_add(&ready, 1);
    CHECK_EQ(weft_sleep(20000000), 0);
    CHECK_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_sleep_until(WEFT_NEVER), -ECANCELED);
    atomic_fetch_add(&ended_well, 1);
    return 0;
}

/* Who traps exits gets the message only. */
static int trapping_sleep(void *arg) {
    (void)arg;
    atomic_fetch_add(&ready, 1);
    CHECK_EQ(weft_sleep(20000000), 0);
    expect(WEFT_MESSAGE_CANCEL);
    atomic_fetch_add(&ended_well, 1);
    return 0;
}

API_TEST(process_shutdown_in_order, "W6 W36", .workers = {1, 2}) {
    weft_process_child children[] = {
        WEFT_PROCESS_CHILD("reads", read_request_then_wait, NULL), WEFT_PROCESS_CHILD("drains", drain, NULL),
        WEFT_PROCESS_CHILD("shielded", shielded_sleep, NULL), WEFT_PROCESS_CHILD("traps", trapping_sleep, NULL),
        WEFT_PROCESS_CHILD("end", end_boss, (void *)3)};
    children[3].spec.trap_exit = true;
    supervise(endless(), children, 5, -ECANCELED);
    CHECK_EQ(atomic_load(&ended_well), 4);
    CHECK_EQ(atomic_load(&served), 1);
    CHECK_STR(story(), "S0 S1 S2 S3 S4 E4 E3 E2 E1 E0");
}

/* A process that was asked to end by another, and has read that, is not disturbed. */
static weft_pid asked_before;
static int end_slowly(void *arg) {
    (void)arg;
    asked_before = weft_self();
    expect(WEFT_MESSAGE_CANCEL);
    atomic_fetch_add(&ready, 1);
    CHECK_EQ(weft_sleep(20000000), 0);
    return 0;
}
static int ask_then_end_boss(void *arg) {
    CHECK_EQ(weft_process_cancel(NULL, asked_before), 0);
    return end_boss(arg);
}
API_TEST(process_shutdown_asked_before, "W6 W36", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("slow", end_slowly, NULL),
                                     WEFT_PROCESS_CHILD("end", ask_then_end_boss, (void *)1)};
    supervise(endless(), children, 2, -ECANCELED);
    CHECK_STR(story(), "S0 S1 E1 E0");
    CHECK_EQ(told.event[3].status, 0);
}

/* -- A time for each. */

static atomic_int heard;
static int deaf(void *arg) {
    weft_message m;
    int error;
    (void)arg;
    atomic_fetch_add(&ready, 1);
    while ((error = weft_receive(&m, NULL, NULL, WEFT_NEVER)) == 0)
        atomic_fetch_add(&heard, m.type == WEFT_MESSAGE_CANCEL);
    return error;
}

API_TEST(process_shutdown_kill, "W6 W36", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("deaf", deaf, NULL),
                                     WEFT_PROCESS_CHILD("end", end_boss, (void *)1)};
    children[0].spec.shutdown = WEFT_SHUTDOWN_KILL;
    supervise(endless(), children, 2, -ECANCELED);
    CHECK_STR(story(), "S0 S1 E1 E0");
    CHECK_EQ(told.event[3].status, -ECANCELED);
    CHECK_EQ(atomic_load(&heard), 0);
}

API_TEST(process_shutdown_own_time, "W6 W36", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("deaf", deaf, NULL),
                                     WEFT_PROCESS_CHILD("end", end_boss, (void *)1)};
    children[0].spec.shutdown = 5 * second();
    supervise(endless(), children, 2, -ECANCELED);
    CHECK_STR(story(), "S0 S1 E1 E0");
    CHECK_EQ(told.event[3].status, -ECANCELED);
    CHECK_EQ(atomic_load(&heard), 1);
    CHECK_GE(told.event[3].at - told.event[2].at, 5 * second());
}

static int end_late(void *arg) {
    (void)arg;
    atomic_fetch_add(&ready, 1);
    expect(WEFT_MESSAGE_CANCEL);
    return weft_sleep(20 * second());
}
API_TEST(process_shutdown_infinite, "W6 W36", .workers = {1, 2}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("late", end_late, NULL),
                                     WEFT_PROCESS_CHILD("end", end_boss, (void *)1)};
    weft_supervisor_config config = config_of(WEFT_STRATEGY_ONE_FOR_ONE, 0);
    config.grace = second();
    children[0].spec.shutdown = WEFT_SHUTDOWN_INFINITE;
    supervise(config, children, 2, -ECANCELED);
    CHECK_STR(story(), "S0 S1 E1 E0");
    CHECK_EQ(told.event[3].status, 0);
}

/* A spec of a header that had no such field: `grace` counts. */
API_TEST(process_shutdown_older_spec, "W6", .workers = {1}) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("late", end_late, NULL),
                                     WEFT_PROCESS_CHILD("end", end_boss, (void *)1)};
    children[0].spec.shutdown = WEFT_SHUTDOWN_KILL;
    children[0].spec.size = offsetof(weft_process_spec, shutdown);
    supervise(endless(), children, 2, -ECANCELED);
    CHECK_EQ(told.event[3].status, 0);
}

/* -- Many that do not end: their times run side by side.  Those that do have all of theirs. */

enum { DEAF = 20 };

static void many_deaf(weft_strategy strategy) {
    weft_process_child children[DEAF + 2];
    children[0] = (weft_process_child)WEFT_PROCESS_CHILD("late", end_late, NULL);
    children[0].spec.shutdown = WEFT_SHUTDOWN_INFINITE;
    for (size_t i = 1; i <= DEAF; i++)
        children[i] = (weft_process_child)WEFT_PROCESS_CHILD("deaf", deaf, NULL);
    children[DEAF + 1] = (weft_process_child)WEFT_PROCESS_CHILD("end", end_boss, (void *)(DEAF + 1));
    weft_supervisor_config config = config_of(strategy, 0);
    config.grace = 10 * second();
    supervise(config, children, DEAF + 2, -ECANCELED);
    REQUIRE_EQ(told.count, 2 * (DEAF + 2));
    CHECK_EQ(atomic_load(&heard), DEAF);
    for (unsigned i = 0; i < DEAF; i++)
        CHECK_EQ(told.event[DEAF + 3 + i].status, -ECANCELED);
    CHECK_EQ(told.event[told.count - 1].child, 0);
    CHECK_EQ(told.event[told.count - 1].status, 0);
    if (fixture_on("sim")) /* 10 s for the first, then 10 s for the others, and 20 s for the late one beside them */
        CHECK_LE(told.event[told.count - 1].at - told.event[DEAF + 2].at, 31 * second());
}
API_TEST(process_shutdown_together, "W36", .workers = {1, 2}) { many_deaf(WEFT_STRATEGY_ONE_FOR_ONE); }
API_TEST(process_shutdown_together_rest, "W36", .workers = {1, 2}) { many_deaf(WEFT_STRATEGY_REST_FOR_ONE); }

/* -- As many as there may be: in proportion to their number. */

enum { FEW = 1000, MANY = 16 * FEW };

static int end_when_asked(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            out->status = WEFT_STEP_DONE;
    return 0;
}

/* CPU time of all threads, ns. */
static int64_t stop_many(size_t count) {
    static const weft_process_class class_ = {.size = sizeof class_, .step = end_when_asked};
    static weft_process_child children[MANY + 1];
    struct timespec from, to;
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    for (size_t i = 0; i < count; i++) {
        children[i] = (weft_process_child)WEFT_PROCESS_CHILD(NULL, NULL, NULL);
        children[i].spec.class_ = &class_;
    }
    children[count] = (weft_process_child)WEFT_PROCESS_CHILD(NULL, end_boss, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    struct run run = {config, children, count + 1, -ECANCELED};
    run_supervisor(&run);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    return (to.tv_sec - from.tv_sec) * INT64_C(1000000000) + to.tv_nsec - from.tv_nsec;
}

static int stop_few_and_many(void *arg) {
    (void)arg;
    int64_t few = INT64_MAX, many = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        int64_t took = stop_many(FEW);
        few = took < few ? took : few;
        took = stop_many(MANY);
        many = took < many ? took : many;
    }
    CHECK_LT(many, 40 * few); /* 16 times as many; a search for each of them: more than 100 times */
    return 0;
}
API_TEST(process_shutdown_many, "W6", .workers = {1, 2}, .timeout = 60) { in_process(stop_few_and_many, NULL); }
