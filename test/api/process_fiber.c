/* process_fiber.c - processes that are fibers: receiving, filters, asking and replying. */
#include "process.h"

/* -- Receiving. */

static int not_a_process(void *arg) {
    weft_message m;
    (void)arg;
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_ask(1, NULL, 0, &m, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_self(), WEFT_PID_NONE);
    CHECK_EQ(weft_link(1), -EINVAL);
    CHECK_EQ(weft_unlink(1), -EINVAL);
    CHECK_EQ(weft_trap_exit(true), -EINVAL);
    uint64_t monitor;
    CHECK_EQ(weft_monitor(1, &monitor), -EINVAL);
    CHECK_EQ(weft_demonitor(1), -EINVAL);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = sit;
    CHECK_EQ(weft_process_spawn_linked(&spec, NULL), -EINVAL);
    CHECK_EQ(weft_process_spawn_monitored(&spec, NULL, &monitor), -EINVAL);
    return 0;
}

API_TEST(process_calls_of_others, "W10", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, not_a_process, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    not_a_process(NULL);
    weft_message m = {.from = WEFT_PID_NONE};
    CHECK_EQ(weft_reply(&m, NULL, 0), -EINVAL);
    CHECK_EQ(weft_reply(NULL, NULL, 0), -EINVAL);
    fixture_end(rt);
}

static int waits(void *arg) {
    weft_message m;
    (void)arg;
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_receive(&m, NULL, NULL, weft_after(2000000)), -ETIMEDOUT);
    CHECK_EQ(weft_receive(NULL, NULL, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_send(NULL, weft_self(), 5, "x", 1), 0);
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), 0);
    CHECK_EQ(m.from, weft_self());
    CHECK_EQ(m.tag, 5);
    CHECK_EQ(*(const char *)m.data, 'x');
    return 0;
}
API_TEST(process_receive_waits, "W23", .workers = {1, 2}) { in_process(waits, NULL); }

/* Its mailbox is never empty, so it never waits: others run all the same. */
static int never_empty(void *arg) {
    atomic_bool *enough = arg;
    weft_message m;
    CHECK_EQ(weft_send(NULL, weft_self(), 0, NULL, 0), 0);
    while (!atomic_load(enough)) {
        CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
        CHECK_EQ(weft_send(NULL, weft_self(), 0, NULL, 0), 0);
    }
    return 0;
}
static int says_enough(void *arg) {
    for (int i = 0; i < 3; i++)
        weft_yield();
    atomic_store((atomic_bool *)arg, true);
    return 0;
}
API_TEST(process_receive_fair, "W23", .workers = {1, 2}) {
    atomic_bool enough = false;
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *process, *fiber;
    spec.fn = never_empty;
    spec.arg = &enough;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &process), 0);
    REQUIRE_EQ(weft_fiber_go(rt, says_enough, &enough, &fiber), 0);
    CHECK_EQ(fixture_finish(fiber).status, 0);
    CHECK_EQ(fixture_finish(process).status, 0);
    fixture_end(rt);
}

static bool wants(const weft_message *m, void *arg) { return m->tag == *(uint64_t *)arg; }
static bool counts_calls(const weft_message *m, void *arg) {
    ++*(unsigned *)arg;
    return m->tag == 1000;
}

static int filters(void *arg) {
    weft_message m;
    (void)arg;
    for (uint64_t i = 0; i < 10; i++)
        REQUIRE_EQ(weft_send(NULL, weft_self(), i, &i, sizeof i), 0);
    static const uint64_t order[] = {9, 0, 5, 4};
    for (int i = 0; i < 4; i++) {
        uint64_t want = order[i];
        REQUIRE_EQ(weft_receive(&m, wants, &want, WEFT_NOW), 0);
        CHECK_EQ(*(const uint64_t *)m.data, want);
        CHECK_EQ(weft_receive(&m, wants, &want, WEFT_NOW), -ETIMEDOUT);
    }
    REQUIRE_EQ(weft_send(NULL, weft_self(), 10, NULL, 0), 0);
    static const uint64_t rest[] = {1, 2, 3, 6, 7, 8, 10};
    for (int i = 0; i < 7; i++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, rest[i]);
    expect_none();
    /* Nobody is asked about a message twice in one call. */
    unsigned calls = 0;
    for (uint64_t i = 0; i < 5; i++)
        REQUIRE_EQ(weft_send(NULL, weft_self(), i, NULL, 0), 0);
    CHECK_EQ(weft_receive(&m, counts_calls, &calls, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(calls, 5);
    return 0;
}
API_TEST(process_receive_filters, "W29 W40", .workers = {1, 2}) { in_process(filters, NULL); }

/* It waits for one kind while others come in, one by one. */
static weft_pid chooser;
static int send_mixture(void *arg) {
    (void)arg;
    for (uint64_t i = 0; i < 50; i++) {
        REQUIRE_EQ(weft_send(NULL, chooser, i, NULL, 0), 0);
        if (i % 3 == 0)
            weft_yield();
    }
    REQUIRE_EQ(weft_send(NULL, chooser, 1000, NULL, 0), 0);
    return 0;
}
static int choose(void *arg) {
    weft_message m;
    unsigned calls = 0;
    (void)arg;
    chooser = weft_self();
    go_process(NULL, send_mixture, NULL);
    REQUIRE_EQ(weft_receive(&m, counts_calls, &calls, in_time()), 0);
    CHECK_EQ(m.tag, 1000);
    CHECK_EQ(calls, 51);
    for (uint64_t i = 0; i < 50; i++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, i);
    return 0;
}
API_TEST(process_receive_selective_wait, "W29 W33 W40", .workers = {1, 2, 4}) { in_process(choose, NULL); }

/* Cancelled where it waits. */
static int wait_for_ever(void *arg) {
    weft_message m;
    (void)arg;
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}
API_TEST(process_receive_cancelled, "W6", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int how = 0; how < 3; how++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_task *task;
        weft_pid pid;
        spec.fn = wait_for_ever;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
        if (how) /* 0: perhaps before it has begun */
            REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0);
        if (how == 2)
            weft_task_cancel(task);
        else
            CHECK_EQ(weft_process_exit(rt, pid, -EIO), 0);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        CHECK(!weft_process_is_alive(rt, pid));
    }
    fixture_end(rt);
}

/* -- Ping-pong, and a ring. */

static int pong(void *arg) {
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE && m.tag != TAG_END)
        REQUIRE_EQ(weft_send(NULL, m.from, m.tag + 1, m.data, m.size), 0);
    return 0;
}
static int ping(void *arg) {
    weft_pid other = go_process(NULL, pong, NULL);
    uint64_t rounds = fixture_is_slow() ? 300 : 2000; /* on a busy machine each may wait for a thread's turn */
    (void)arg;
    for (uint64_t i = 0; i < rounds; i++) {
        REQUIRE_EQ(weft_send(NULL, other, 2 * i + 1000, &i, sizeof i), 0);
        weft_message m = expect(WEFT_MESSAGE);
        REQUIRE_EQ(m.tag, 2 * i + 1001);
        REQUIRE_EQ(m.from, other);
    }
    REQUIRE_EQ(weft_send(NULL, other, TAG_END, NULL, 0), 0);
    return 0;
}
API_TEST(process_ping_pong, "W23 W31 W33", .workers = {1, 2, 4}) { in_process(ping, NULL); }

/* -- Asking. */

static int slow_server(void *arg) {
    weft_message m, kept[4];
    int count = 0;
    (void)arg;
    for (;;) {
        int error = weft_receive(&m, NULL, NULL, WEFT_NEVER);
        if (error || m.type == WEFT_MESSAGE_CANCEL)
            return error;
        if (m.tag & WEFT_TAG_RESERVED) { /* a question: kept, until somebody says so */
            REQUIRE_LT(count, 4);
            kept[count++] = m;
        } else if (m.tag == 1) {
            for (int i = 0; i < count; i++)
                weft_reply(&kept[i], "late", 5);
            count = 0;
        } else {
            return m.tag == 2 ? 0 : -EPIPE;
        }
    }
}

static int asks(void *arg) {
    weft_pid server = go_process(NULL, echo_server, NULL), slow = go_process(NULL, slow_server, NULL);
    weft_message reply, m;
    (void)arg;
    REQUIRE_EQ(weft_send(NULL, weft_self(), 7, NULL, 0), 0); /* waits meanwhile */
    for (uint64_t i = 0; i < 100; i++) {
        REQUIRE_EQ(weft_ask(server, &i, sizeof i, &reply, in_time()), 0);
        REQUIRE_EQ(reply.size, sizeof i);
        REQUIRE_EQ(*(const uint64_t *)reply.data, i);
        REQUIRE_EQ(reply.from, server);
    }
    CHECK_EQ(weft_ask(server, NULL, 0, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_ask(weft_self(), "q", 1, &reply, in_time()), -EDEADLK); /* not its own question as the answer */
    /* Too late: what comes then is not seen, nor taken for the answer to the next one. */
    CHECK_EQ(weft_ask(slow, "q", 1, &reply, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_ask(slow, "q", 1, &reply, WEFT_NOW), -ETIMEDOUT);
    REQUIRE_EQ(weft_send(NULL, slow, 1, NULL, 0), 0);
    REQUIRE_EQ(weft_ask(server, "x", 1, &reply, in_time()), 0);
    CHECK_EQ(reply.size, 1);
    /* It ends instead of replying. */
    REQUIRE_EQ(weft_send(NULL, slow, 3, NULL, 0), 0);
    CHECK_EQ(weft_ask(slow, "q", 1, &reply, in_time()), -ESRCH);
    CHECK_EQ(weft_ask(slow, "q", 1, &reply, in_time()), -ESRCH);
    end_server(NULL, server, 0);
    CHECK_EQ(weft_ask(server, "q", 1, &reply, in_time()), -ESRCH);
    CHECK_EQ(expect(WEFT_MESSAGE).tag, 7);
    expect_none(); /* no DOWN, no late reply */
    /* A reply to an ordinary message is one. */
    m.from = weft_self();
    m.tag = 12;
    CHECK_EQ(weft_reply(&m, NULL, 0), 0);
    CHECK_EQ(expect(WEFT_MESSAGE).tag, 12);
    return 0;
}
API_TEST(process_ask, "W7", .workers = {1, 2, 4}) { in_process(asks, NULL); }

/* Ends as soon as it has replied: the asker sees the reply, and nothing else. */
static int reply_and_end(void *arg) {
    weft_message m = expect(WEFT_MESSAGE);
    if (!arg || weft_self() % 2)
        REQUIRE_EQ(weft_reply(&m, "ok", 2), 0);
    return 0;
}
static int ask_the_dying(void *arg) {
    unsigned count = fixture_is_slow() ? 100 : 1000;
    for (unsigned i = 0; i < count; i++) {
        weft_message reply;
        weft_pid pid = go_process(NULL, reply_and_end, arg);
        int error = weft_ask(pid, "q", 1, &reply, in_time());
        REQUIRE(error == 0 || (arg && error == -ESRCH));
        if (!error)
            REQUIRE_EQ(reply.size, 2);
    }
    expect_none();
    return 0;
}
API_TEST(process_ask_against_end, "W10", .workers = {1, 2, 4}) {
    in_process(ask_the_dying, NULL);
    in_process(ask_the_dying, (void *)1);
}

static int ask_cancelled(void *arg) {
    weft_message reply;
    return weft_ask(*(weft_pid *)arg, "q", 1, &reply, WEFT_NEVER);
}
API_TEST(process_ask_cancelled, "W6", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid slow = go_process(rt, slow_server, NULL);
    weft_task *task;
    spec.fn = ask_cancelled;
    spec.arg = &slow;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

/* Many ask one. */
static weft_pid oracle;
static int ask_often(void *arg) {
    uint64_t mine = (uintptr_t)arg;
    for (uint64_t i = 0; i < (fixture_is_slow() ? 30u : 300u); i++) {
        weft_message reply;
        uint64_t question = mine << 32 | i;
        REQUIRE_EQ(weft_ask(oracle, &question, sizeof question, &reply, in_time()), 0);
        REQUIRE_EQ(*(const uint64_t *)reply.data, question);
    }
    return 0;
}
API_TEST(process_many_ask, "W29 W40", .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[20];
    oracle = go_process(rt, echo_server, NULL);
    for (uintptr_t i = 0; i < 20; i++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        spec.fn = ask_often;
        spec.arg = (void *)i;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task[i]), 0);
    }
    for (int i = 0; i < 20; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* Asking one whose mailbox is full waits no longer than it may. */
static int hear_nothing(void *arg) {
    while (!atomic_load((atomic_bool *)arg))
        weft_yield();
    return 0;
}
static int ask_full(void *arg) {
    (void)arg;
    atomic_bool end = false;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    weft_message reply;
    spec.fn = hear_nothing;
    spec.arg = &end;
    spec.max_messages = 1;
    spec.policy = WEFT_MAILBOX_BLOCK;
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &pid, NULL), 0);
    REQUIRE_EQ(weft_send(NULL, pid, 1, NULL, 0), 0);
    CHECK_EQ(weft_ask(pid, "q", 1, &reply, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_ask(pid, "q", 1, &reply, WEFT_NOW), -ENOBUFS);
    atomic_store(&end, true);
    UNTIL(!weft_process_is_alive(NULL, pid));
    expect_none();
    return 0;
}
API_TEST(process_ask_full, "W30", .workers = {1, 2}) { in_process(ask_full, NULL); }

/* -- A filter that receives would pull the list from under the receive that has called it. */

static bool receives_itself(const weft_message *message, void *arg) {
    weft_message m;
    weft_pid *other = arg;
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), -EDEADLK);
    CHECK_EQ(weft_ask(*other, NULL, 0, &m, WEFT_NOW), -EDEADLK);
    CHECK_EQ(weft_send(NULL, weft_self(), 9, NULL, 0), 0); /* that it may */
    return message->tag == 2;
}

static int filter_receives(void *arg) {
    weft_message m;
    weft_pid other = go_process(NULL, sit, NULL);
    (void)arg;
    for (uint64_t tag = 1; tag <= 3; tag++)
        REQUIRE_EQ(weft_send(NULL, weft_self(), tag, NULL, 0), 0);
    REQUIRE_EQ(weft_receive(&m, receives_itself, &other, in_time()), 0);
    CHECK_EQ(m.tag, 2);
    CHECK_EQ(expect(WEFT_MESSAGE).tag, 1);
    CHECK_EQ(expect(WEFT_MESSAGE).tag, 3);
    CHECK_EQ(expect(WEFT_MESSAGE).tag, 9);
    CHECK_EQ(expect(WEFT_MESSAGE).tag, 9);
    expect_none();
    return weft_process_cancel(NULL, other);
}

API_TEST(process_filter_receives, "W29 W40", .workers = {1, 2}) { in_process(filter_receives, NULL); }
