/* process_ask.c - asking, by one whose own mailbox is bounded and full. */
#include "process.h"
#include "process/process.h"

enum { FULL = 2 };

/* Answers three times; only the first is an answer. */
static int answer_thrice(void *arg) {
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE)
        for (int i = 0; i < 3; i++)
            CHECK_EQ(weft_reply(&m, i ? "late" : m.data, i ? 4 : m.size), 0);
    return 0;
}

/* Its mailbox is full: answers come, all else stays as it was. */
static int ask_when_full(void *arg) {
    weft_mailbox_policy policy = *(weft_mailbox_policy *)arg;
    weft_pid server = go_process(NULL, answer_thrice, NULL);
    weft_message m;
    for (uint64_t tag = 1; tag <= FULL; tag++)
        REQUIRE_EQ(weft_send(NULL, weft_self(), tag, "four", 4), 0);
    for (int i = 0; i < 50; i++) {
        REQUIRE_EQ(weft_ask(server, &i, sizeof i, &m, in_time()), 0);
        REQUIRE_EQ(m.size, sizeof i);
        CHECK_EQ(*(const int *)m.data, i);
        CHECK_LE(wefti_process_self()->pending.count, FULL); /* late answers do not stay there */
    }
    if (policy == WEFT_MAILBOX_REFUSE || policy == WEFT_MAILBOX_BLOCK)
        CHECK_EQ(weft_try_send(NULL, weft_self(), 9, NULL, 0), -ENOBUFS);
    REQUIRE_EQ(weft_process_cancel(NULL, server), 0);
    UNTIL(!weft_process_is_alive(NULL, server)); /* all it sent is here, or was thrown away */
    CHECK_EQ(weft_ask(server, NULL, 0, &m, in_time()), -ESRCH);
    for (uint64_t tag = 1; tag <= FULL; tag++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, tag);
    expect_none();
    for (int round = 0; round < 3; round++) { /* answers have not been counted */
        for (int i = 0; i < FULL; i++)
            CHECK_EQ(weft_try_send(NULL, weft_self(), 5, "four", 4), 0);
        if (policy == WEFT_MAILBOX_REFUSE || policy == WEFT_MAILBOX_BLOCK)
            CHECK_EQ(weft_try_send(NULL, weft_self(), 9, NULL, 0), -ENOBUFS);
        for (int i = 0; i < FULL; i++)
            CHECK_EQ(expect(WEFT_MESSAGE).tag, 5);
        expect_none();
    }
    return 0;
}

static void ask_bounded(uint32_t max_messages, uint64_t max_bytes) {
    for (weft_mailbox_policy policy = WEFT_MAILBOX_REFUSE; policy <= WEFT_MAILBOX_DROP_OLDEST; policy++) {
        weft_runtime *rt = fixture_begin_patient();
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_task *task;
        spec.fn = ask_when_full;
        spec.arg = &policy;
        spec.max_messages = max_messages;
        spec.max_bytes = max_bytes;
        spec.policy = policy;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
        fixture_end(rt);
    }
}
API_TEST(process_ask_own_full, "W29 W30", .workers = {1, 2}) { ask_bounded(FULL, 0); }
API_TEST(process_ask_own_full_bytes, "W29 W30", .workers = {1}) { ask_bounded(0, FULL * 4); }

/* Without a bound they come, and are thrown away. */
static int ask_unbounded(void *arg) {
    weft_pid server = go_process(NULL, answer_thrice, NULL);
    weft_message m;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        REQUIRE_EQ(weft_ask(server, &i, sizeof i, &m, in_time()), 0);
        CHECK_EQ(*(const int *)m.data, i);
    }
    REQUIRE_EQ(weft_process_cancel(NULL, server), 0);
    UNTIL(!weft_process_is_alive(NULL, server));
    expect_none();
    return 0;
}
API_TEST(process_ask_answered_thrice, "W29", .workers = {1, 2}) { in_process(ask_unbounded, NULL); }

/* An answer that is larger than the whole mailbox is refused, as a message is; a shorter one may follow. */
static int answer_at_length(void *arg) {
    static const char text[100];
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE) {
        CHECK_EQ(weft_reply(&m, text, 9), -EMSGSIZE);
        CHECK_EQ(weft_reply(&m, text, sizeof text), -EMSGSIZE);
        CHECK_EQ(weft_reply(&m, text, 8), 0);
        CHECK_EQ(weft_reply(&m, text, 8), 0); /* too late: thrown away */
    }
    return 0;
}
static int ask_at_length(void *arg) {
    weft_pid server = go_process(NULL, answer_at_length, NULL);
    weft_message m;
    (void)arg;
    for (int i = 0; i < 10; i++) {
        REQUIRE_EQ(weft_ask(server, NULL, 0, &m, in_time()), 0);
        CHECK_EQ(m.size, 8);
    }
    REQUIRE_EQ(weft_process_cancel(NULL, server), 0);
    UNTIL(!weft_process_is_alive(NULL, server));
    expect_none();
    return 0;
}
API_TEST(process_ask_larger_than_mailbox, "W29 W30", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = ask_at_length;
    spec.max_messages = 3;
    spec.max_bytes = 8;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* A flood drops the oldest again and again; never an answer. */
static atomic_bool over;
static weft_pid flooded;

static int flood(void *arg) {
    (void)arg;
    while (!atomic_load(&over)) {
        weft_try_send(NULL, flooded, 1, NULL, 0);
        weft_yield();
    }
    return 0;
}
static int ask_flooded(void *arg) {
    weft_pid server = go_process(NULL, echo_server, NULL);
    weft_message m;
    (void)arg;
    flooded = weft_self();
    for (int i = 0; i < 4; i++)
        go_process(NULL, flood, NULL);
    for (int i = 0; i < (fixture_is_slow() ? 100 : 1000); i++) {
        REQUIRE_EQ(weft_ask(server, &i, sizeof i, &m, in_time()), 0);
        CHECK_EQ(*(const int *)m.data, i);
    }
    atomic_store(&over, true);
    return weft_process_cancel(NULL, server);
}
API_TEST(process_ask_flooded, "W29 W40", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = ask_flooded;
    spec.max_messages = 1;
    spec.policy = WEFT_MAILBOX_DROP_OLDEST;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- What was received stays valid while its receiver asks another process, and a reply while it receives. */

static atomic_uint given_back;
static void count_given_back(void *data) {
    (void)data;
    atomic_fetch_add(&given_back, 1);
}

static int ask_for_request(void *arg) {
    static char text[] = "by reference";
    weft_message by_reference, small, reply, second;
    weft_pid server = *(weft_pid *)arg;
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 1, text, sizeof text, count_given_back), 0);
    REQUIRE_EQ(weft_send(NULL, weft_self(), 2, "request", 8), 0);
    by_reference = expect(WEFT_MESSAGE);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_ask(server, "a longer question than fits into a node", 40, &reply, in_time()), 0);
    CHECK_EQ(atomic_load(&given_back), 0); /* the request is still ours */
    CHECK_STR((const char *)by_reference.data, "by reference");
    small = expect(WEFT_MESSAGE); /* which gives the first one back, and not the reply */
    CHECK_EQ(atomic_load(&given_back), 1);
    REQUIRE_EQ(reply.size, 40);
    CHECK_STR((const char *)reply.data, "a longer question than fits into a node");
    CHECK_EQ(weft_ask(server, reply.data, reply.size, &second, in_time()), 0); /* the old reply is the question */
    CHECK_STR((const char *)second.data, "a longer question than fits into a node");
    CHECK_STR((const char *)small.data, "request");
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 1, text, sizeof text, count_given_back), 0);
    by_reference = expect(WEFT_MESSAGE);
    return 0; /* its end gives back what it has */
}
API_TEST(process_ask_keeps_messages, "W28", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    weft_pid server = go_process(rt, echo_server, NULL);
    spec.fn = ask_for_request;
    spec.arg = &server;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(atomic_load(&given_back), 2);
    end_server(rt, server, 0);
    fixture_end(rt);
}
