/* process_many.c - one process with many links, monitors, names and commands: each is found, and none is told twice or for ever. */
#include <time.h>
#include <weft/supervisor.h>

#include "process.h"

enum { MANY = 600 };

static uint64_t random_below(uint64_t below) {
    static uint64_t state;
    if (!state)
        state = harness_seed() | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* Each number once, in some order. */
static void shuffle(unsigned *order) {
    for (unsigned i = 0; i < MANY; i++)
        order[i] = i;
    for (unsigned i = MANY - 1; i > 0; i--) {
        unsigned other = (unsigned)random_below(i + 1), was = order[i];
        order[i] = order[other];
        order[other] = was;
    }
}

static int until_told(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events;
    out->status = count ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class waiting = {.size = sizeof waiting, .step = until_told};

/* -- Links. */

static unsigned number_of(const weft_pid *pid, weft_pid of) {
    for (unsigned i = 0; i < MANY; i++)
        if (pid[i] == of)
            return i;
    return MANY;
}

static int many_links(void *arg) {
    static weft_pid pid[MANY];
    static unsigned order[MANY], told[MANY];
    static bool linked[MANY];
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    unsigned expected = 0;
    (void)arg;
    spec.class_ = &waiting;
    weft_trap_exit(true);
    for (unsigned i = 0; i < MANY; i++) {
        REQUIRE_EQ(weft_process_spawn_linked(&spec, &pid[i]), 0);
        linked[i] = true;
    }
    shuffle(order);
    for (unsigned i = 0; i < MANY; i++)
        if (random_below(3) == 0) {
            REQUIRE_EQ(weft_unlink(pid[order[i]]), 0);
            linked[order[i]] = random_below(2);
            for (int again = 0; again < 2 && linked[order[i]]; again++)
                REQUIRE_EQ(weft_link(pid[order[i]]), 0); /* twice is once */
        }
    shuffle(order);
    for (unsigned i = 0; i < MANY; i++) {
        expected += linked[i];
        REQUIRE_EQ(weft_send(NULL, pid[order[i]], 0, NULL, 0), 0);
    }
    for (unsigned i = 0; i < expected; i++) {
        weft_message m = expect(WEFT_MESSAGE_EXIT);
        unsigned number = number_of(pid, m.from);
        REQUIRE(number < MANY && linked[number]);
        CHECK_EQ(told[number]++, 0);
    }
    UNTIL(weft_process_count(NULL) == 1);
    expect_none();
    return 0;
}

API_TEST(process_many_links, "W6 W7", .workers = {1, 2}) { in_process(many_links, NULL); }

/* -- Monitors, all of one process; some are taken back. */

static int many_monitors(void *arg) {
    static uint64_t monitor[MANY];
    static unsigned order[MANY];
    static bool watched[MANY];
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    unsigned left = MANY;
    (void)arg;
    spec.class_ = &waiting;
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &pid, NULL), 0);
    for (unsigned i = 0; i < MANY; i++) {
        REQUIRE_EQ(weft_monitor(pid, &monitor[i]), 0);
        watched[i] = true;
    }
    shuffle(order);
    for (unsigned i = 0; i < MANY - 20; i++, left--) {
        CHECK_EQ(weft_demonitor(monitor[order[i]]), 0);
        CHECK_EQ(weft_demonitor(monitor[order[i]]), -ESRCH);
        watched[order[i]] = false;
    }
    REQUIRE_EQ(weft_send(NULL, pid, 0, NULL, 0), 0);
    for (; left; left--) {
        weft_message m = expect(WEFT_MESSAGE_DOWN);
        unsigned number = 0;
        while (number < MANY && monitor[number] != m.tag)
            number++;
        REQUIRE(number < MANY && watched[number]);
        watched[number] = false;
    }
    expect_none();
    return 0;
}

API_TEST(process_many_monitors, "W7 W10", .workers = {1, 2}) { in_process(many_monitors, NULL); }

/* -- Names and groups. */

static const char *name_of(unsigned i) {
    static char text[32];
    snprintf(text, sizeof text, "name %u", i);
    return text;
}

static int many_names(void *arg) {
    static weft_pid pid[MANY];
    static unsigned order[MANY];
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    (void)arg;
    spec.class_ = &waiting;
    for (unsigned i = 0; i < MANY; i++) {
        spec.registered = name_of(i);
        REQUIRE_EQ(weft_process_spawn(NULL, &spec, &pid[i], NULL), 0);
        REQUIRE_EQ(weft_group_join(NULL, "all", pid[i]), 0);
        REQUIRE_EQ(weft_group_join(NULL, i % 2 ? "odd" : "even", pid[i]), 0);
        REQUIRE_EQ(weft_group_join(NULL, "all", pid[i]), -EEXIST);
    }
    shuffle(order);
    for (unsigned i = 0; i < MANY; i++) {
        CHECK_EQ(weft_whereis(NULL, name_of(order[i])), pid[order[i]]);
        CHECK_EQ(weft_register(NULL, name_of(order[i]), pid[0]), -EEXIST);
    }
    for (unsigned i = 0; i < MANY / 2; i++) {
        CHECK_EQ(weft_unregister(NULL, name_of(order[i])), 0);
        CHECK_EQ(weft_unregister(NULL, name_of(order[i])), -ESRCH);
        CHECK_EQ(weft_whereis(NULL, name_of(order[i])), WEFT_PID_NONE);
        CHECK_EQ(weft_group_leave(NULL, "all", pid[order[i]]), 0);
        CHECK_EQ(weft_group_leave(NULL, "all", pid[order[i]]), -ESRCH);
    }
    CHECK_EQ(weft_publish(NULL, "odd", 1, NULL, 0), MANY / 2);
    UNTIL(weft_process_count(NULL) == MANY / 2 + 1);
    CHECK_EQ(weft_publish(NULL, "odd", 1, NULL, 0), 0);
    for (unsigned i = 0; i < MANY; i++) {
        weft_pid there = weft_whereis(NULL, name_of(order[i]));
        CHECK_EQ(there, order[i] % 2 || i < MANY / 2 ? WEFT_PID_NONE : pid[order[i]]);
    }
    CHECK_EQ(weft_publish(NULL, "even", 1, NULL, 0), MANY / 2);
    UNTIL(weft_process_count(NULL) == 1);
    CHECK_EQ(weft_publish(NULL, "all", 1, NULL, 0), 0);
    return 0;
}

API_TEST(process_many_names, "W10", .workers = {1, 2}) { in_process(many_names, NULL); }

/* -- Commands: handlers of any number; timers, each of which is cancelled by its tag. */

static int complete_with_number(const weft_command *command, void *arg) {
    uint64_t number = command->command + (uint64_t)(uintptr_t)arg;
    return weft_command_complete(command->rt, command->from, command->tag, 0, &number, sizeof number);
}

struct asker {
    unsigned left;
    bool cancelled[MANY];
};
static struct asker asker;

static int ask_many(void *state, const weft_message *events, size_t count, weft_step *out) {
    bool *begun = state;
    out->status = WEFT_STEP_YIELD;
    for (size_t i = 0; i < count; i++) {
        REQUIRE_EQ(events[i].type, WEFT_MESSAGE_YIELD);
        asker.left--;
        if (events[i].tag >= 3 * MANY) { /* a number's */
            REQUIRE_EQ(events[i].error, 0);
            REQUIRE_EQ(*(const uint64_t *)events[i].data, 2 * (events[i].tag - 3 * MANY) * 1000 + 300);
        } else if (events[i].tag >= 2 * MANY) {
            REQUIRE_EQ(events[i].error, 0); /* the cancelling itself */
        } else {
            REQUIRE_EQ(events[i].error, -ECANCELED);
            REQUIRE(!asker.cancelled[events[i].tag - MANY]);
            asker.cancelled[events[i].tag - MANY] = true;
        }
    }
    for (uint64_t i = 0; i < MANY && !*begun; i++) {
        weft_command_timer timer = {WEFT_NEVER};
        REQUIRE_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, MANY + i, &timer, sizeof timer), 0);
        REQUIRE_EQ(weft_yield_command(out, (unsigned)(i * 1000 + 300), 3 * MANY + i, NULL, 0), 0);
    }
    for (uint64_t i = 0; i < MANY && !*begun; i++) {
        uint64_t tag = MANY + (i * 7) % MANY;
        REQUIRE_EQ(weft_yield_command(out, WEFT_COMMAND_CANCEL, 2 * MANY + i, &tag, sizeof tag), 0);
    }
    *begun = true;
    if (!asker.left)
        out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class asking = {.size = sizeof asking, .state_size = sizeof(bool), .step = ask_many};

API_TEST(process_many_commands, "W28 W39", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task = NULL;
    asker = (struct asker){.left = 3 * MANY};
    for (uintptr_t i = 0; i < MANY; i++) {
        unsigned number = (unsigned)(i * 1000 + 300);
        REQUIRE_EQ(weft_command_register(rt, number, complete_with_number, (void *)(i * 1000)), 0);
        REQUIRE_EQ(weft_command_register(rt, number, complete_with_number, NULL), -EEXIST);
    }
    spec.class_ = &asking;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- A question, while a great many messages wait: those keep their places, and the answer is found behind them. */

static int ask_behind_many(void *arg) {
    weft_message m;
    weft_pid echo = go_process(NULL, echo_server, NULL);
    (void)arg;
    for (unsigned i = 0; i < MANY; i++)
        REQUIRE_EQ(weft_send(NULL, weft_self(), i + 1, NULL, 0), 0);
    for (unsigned i = 0; i < MANY; i++) {
        REQUIRE_EQ(weft_ask(echo, &i, sizeof i, &m, in_time()), 0);
        REQUIRE_EQ(*(const unsigned *)m.data, i);
        if (i % 3 == 0)
            CHECK_EQ(expect(WEFT_MESSAGE).tag, i / 3 + 1);
        if (i % 100 == 50) { /* mostly too late: its reply is thrown away then */
            int error = weft_ask(echo, &i, sizeof i, &m, WEFT_NOW);
            CHECK(error == -ETIMEDOUT || (error == 0 && *(const unsigned *)m.data == i));
        }
    }
    for (unsigned i = MANY / 3; i < MANY; i++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, i + 1);
    expect_none();
    return weft_process_cancel(NULL, echo);
}

API_TEST(process_ask_behind_many, "W29 W40", .workers = {1, 2}) { in_process(ask_behind_many, NULL); }

/* -- Empty messages fill a mailbox that is bounded by bytes alone. */

static int flood_with_nothing(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    (void)arg;
    spec.fn = sit;
    spec.max_bytes = 100;
    /* The process does not run before this one suspends: there is one worker, and weft_try_send never yields. */
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &pid, NULL), 0);
    for (unsigned i = 0; i < 100; i++)
        CHECK_EQ(weft_try_send(NULL, pid, i, NULL, 0), 0);
    CHECK_EQ(weft_try_send(NULL, pid, 100, NULL, 0), -ENOBUFS);
    CHECK_EQ(weft_try_send(NULL, pid, 100, "x", 1), -ENOBUFS);
    UNTIL(weft_send(NULL, pid, 100, NULL, 0) == 0); /* once it has read them */
    return weft_process_cancel(NULL, pid);
}

API_TEST(process_bound_of_nothing, "W30", .workers = {1}) { in_process(flood_with_nothing, NULL); }

/* -- Messages that a supervisor does not read: starting and seeing ends takes no longer. */

enum { SUPERVISED = 300, UNREAD = 100000 };

static int end_at_once(void *arg) {
    (void)arg;
    return 0;
}

/* CPU time of all threads, ns. */
static int64_t supervise_many(void) {
    static weft_process_child children[SUPERVISED];
    struct timespec from, to;
    for (size_t i = 0; i < SUPERVISED; i++) {
        children[i] = (weft_process_child)WEFT_PROCESS_CHILD(NULL, end_at_once, NULL);
        children[i].restart = WEFT_RESTART_TEMPORARY;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    CHECK_EQ(weft_process_supervise(NULL, children, SUPERVISED), 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    return (to.tv_sec - from.tv_sec) * INT64_C(1000000000) + to.tv_nsec - from.tv_nsec;
}

static int many_unread(void *arg) {
    (void)arg;
    int64_t before = supervise_many();
    for (unsigned i = 0; i < UNREAD; i++)
        REQUIRE_EQ(weft_send(NULL, weft_self(), 1, NULL, 0), 0);
    CHECK_LT(supervise_many(), 60 * before); /* looking at all of them for each child: some hundred times */
    weft_message m;
    for (unsigned i = 0; i < UNREAD; i++)
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), 0);
    return 0;
}

API_TEST(process_many_unread, "W6", .workers = {1, 2}) { in_process(many_unread, NULL); }
