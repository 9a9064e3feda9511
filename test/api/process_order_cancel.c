/* process_order_cancel.c - requests to end that meet: none is read before the messages that its sender sent before it; a supervisor among messages. */
#include "process.h"

static bool is_message(const weft_message *m, void *arg) {
    (void)arg;
    return m->type == WEFT_MESSAGE;
}
static bool is_cancel(const weft_message *m, void *arg) {
    (void)arg;
    return m->type == WEFT_MESSAGE_CANCEL;
}

static void in_bounded(weft_fiber_fn fn, uint32_t max_messages, weft_mailbox_policy policy) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = fn;
    spec.max_messages = max_messages;
    spec.policy = policy;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- One asks, another sends and asks: the second request is read behind the second one's message, and the first one in its place. */

static int send_and_cancel(void *arg) {
    weft_pid to = *(weft_pid *)arg;
    REQUIRE_EQ(weft_send(NULL, to, 1, NULL, 0), 0);
    return weft_process_cancel(NULL, to);
}
static int only_cancel(void *arg) { return weft_process_cancel(NULL, *(weft_pid *)arg); }
static void run(weft_fiber_fn fn) {
    weft_pid self = weft_self();
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(NULL, fn, &self, &task), 0);
    REQUIRE_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
    weft_task_drop(task);
}

static int two_ask(void *arg) {
    weft_message m;
    (void)arg;
    for (int round = 0; round < 2; round++) {
        run(only_cancel);
        if (round) /* it has been taken out, and not read */
            CHECK_EQ(weft_receive(&m, is_message, NULL, WEFT_NOW), -ETIMEDOUT);
        run(send_and_cancel);
        run(only_cancel); /* nothing has come since */
        expect(WEFT_MESSAGE_CANCEL);
        expect(WEFT_MESSAGE);
        expect(WEFT_MESSAGE_CANCEL);
        expect_none();
    }
    return 0;
}
API_TEST(process_order_merged_cancel, "W29 W40", .workers = {1, 2, 4}) {
    in_bounded(two_ask, 0, WEFT_MAILBOX_REFUSE);
    in_bounded(two_ask, 1, WEFT_MAILBOX_REFUSE);
    in_bounded(two_ask, 1, WEFT_MAILBOX_DROP_OLDEST);
}

/* -- Many ask, each after its own messages; the reader knows by counting that it has seen the last of each. */

enum { ASKERS = 4 };
static struct {
    int seen[ASKERS], cancels;
} book;

static int turns(void) { return fixture_is_slow() ? 100 : 2000; }
static int send_and_ask(void *arg) {
    int which = *(const int *)arg;
    weft_pid to = weft_whereis(NULL, "asked");
    for (int i = 1; i <= turns(); i++) {
        int error = weft_send(NULL, to, (uint64_t)which, &i, sizeof i);
        REQUIRE_EQ(error, 0);
        error = weft_process_cancel(NULL, to);
        REQUIRE(error == 0 || (error == -ESRCH && i == turns())); /* another's may have been the last that was needed */
        if (i % 16 == which)
            weft_yield();
    }
    return 0;
}
/* True: a request has been read, and all that was sent. */
static bool note(const weft_message *m) {
    if (m->type == WEFT_MESSAGE) {
        CHECK_EQ(*(const int *)m->data, ++book.seen[m->tag]);
        return false;
    }
    REQUIRE_EQ(m->type, WEFT_MESSAGE_CANCEL);
    book.cancels++;
    bool all = true;
    for (int i = 0; i < ASKERS; i++)
        all &= book.seen[i] == turns();
    return all;
}
static int hear(void *arg) {
    weft_message m;
    (void)arg;
    do
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
    while (!note(&m));
    return 0;
}
static int hear_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (note(&events[i]))
            out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class hears = {.size = sizeof hears, .step = hear_step};

API_TEST(process_order_many_ask, "W29 W33 W40", .workers = {1, 2, 4}) {
    static const int number[ASKERS] = {0, 1, 2, 3};
    for (int kind = 0; kind < 4; kind++) {
        weft_runtime *rt = fixture_begin_patient();
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_task *asked, *asker[ASKERS];
        memset(&book, 0, sizeof book);
        spec.registered = "asked";
        spec.max_messages = kind & 2 ? 5 : 0;
        spec.policy = WEFT_MAILBOX_BLOCK;
        if (kind & 1)
            spec.class_ = &hears;
        else
            spec.fn = hear;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &asked), 0);
        for (int i = 0; i < ASKERS; i++)
            REQUIRE_EQ(weft_fiber_go(rt, send_and_ask, (void *)(uintptr_t)&number[i], &asker[i]), 0);
        for (int i = 0; i < ASKERS; i++)
            CHECK_EQ(fixture_finish(asker[i]).status, 0);
        CHECK_EQ(fixture_finish(asked).status, 0);
        CHECK_LE(book.cancels, ASKERS * turns());
        fixture_end(rt);
    }
}

/* -- A process that never reads the requests keeps few of them. */

static bool count_cancels(const weft_message *m, void *arg) {
    *(int *)arg += m->type == WEFT_MESSAGE_CANCEL;
    return false;
}
static int cancels_unread(void) {
    weft_message m;
    int count = 0;
    CHECK_EQ(weft_receive(&m, count_cancels, &count, WEFT_NOW), -ETIMEDOUT);
    return count;
}
static int read_only_messages(void *arg) {
    weft_pid self = weft_self();
    weft_message m;
    (void)arg;
    for (int i = 0; i < 100; i++) {
        REQUIRE_EQ(weft_process_cancel(NULL, self), 0);
        REQUIRE_EQ(weft_send(NULL, self, 1, NULL, 0), 0);
        REQUIRE_EQ(weft_process_cancel(NULL, self), 0);
        REQUIRE_EQ(weft_receive(&m, is_message, NULL, WEFT_NOW), 0);
        REQUIRE_EQ(weft_process_cancel(NULL, self), 0);
        CHECK_EQ(cancels_unread(), 1);
    }
    expect(WEFT_MESSAGE_CANCEL);
    expect_none();
    return 0;
}
static int read_nothing(void *arg) {
    weft_pid self = weft_self();
    (void)arg;
    for (int i = 0; i < 100; i++) {
        REQUIRE_EQ(weft_send(NULL, self, 1, NULL, 0), 0);
        REQUIRE_EQ(weft_process_cancel(NULL, self), 0);
        if (i % 10 == 9)
            CHECK_LE(cancels_unread(), 3); /* of a mailbox for two messages */
    }
    while (cancels_unread()) {
        weft_message m;
        REQUIRE_EQ(weft_receive(&m, is_cancel, NULL, WEFT_NOW), 0);
    }
    expect(WEFT_MESSAGE);
    expect(WEFT_MESSAGE);
    expect_none();
    return 0;
}
API_TEST(process_order_cancels_are_few, "W29 W30", .workers = {1, 2}) {
    in_bounded(read_only_messages, 0, WEFT_MAILBOX_REFUSE);
    in_bounded(read_only_messages, 2, WEFT_MAILBOX_REFUSE);
    in_bounded(read_only_messages, 2, WEFT_MAILBOX_DROP_OLDEST);
    in_bounded(read_nothing, 2, WEFT_MAILBOX_DROP_OLDEST);
}

/* -- A supervisor among messages that are not for it: ends and requests are found, and the messages are there when it returns, in order.  Its
 * report function reads some of them. */

enum { JUNK = 1000 };
static int taken_by_report;

static int end_at_once(void *arg) {
    (void)arg;
    return -EIO;
}
static void report(void *arg, size_t child, weft_supervised what, int status) {
    weft_message m;
    (void)arg, (void)child, (void)what, (void)status;
    if (weft_receive(&m, is_message, NULL, WEFT_NOW) == 0)
        CHECK_EQ(m.tag, (uint64_t)taken_by_report++);
}
static int supervise_in_junk(void *arg) {
    weft_process_child children[] = {WEFT_PROCESS_CHILD("one", end_at_once, NULL),
                                     WEFT_PROCESS_CHILD("two", sit, NULL)};
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    uint64_t junk = arg ? 20 : JUNK;
    taken_by_report = 0;
    config.intensity = 10;
    config.period = INT64_C(3600000000000);
    config.backoff_min = 1;
    config.backoff_max = 1;
    config.report = report;
    for (uint64_t i = 0; i < junk; i++)
        REQUIRE_EQ(weft_send(NULL, weft_self(), i, NULL, 0), 0);
    CHECK_LT(weft_process_supervise(&config, children, 2), 0); /* it has failed too often */
    CHECK_GT(taken_by_report, 0);
    for (uint64_t i = (uint64_t)taken_by_report; i < junk; i++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, i);
    expect_none();
    return 0;
}
static int supervise_few(void *arg) {
    (void)arg;
    return supervise_in_junk(&taken_by_report);
}
API_TEST(process_order_supervisor, "W6 W29", .workers = {1, 2}) {
    in_bounded(supervise_in_junk, 0, WEFT_MAILBOX_REFUSE);
    in_bounded(supervise_few, 20, WEFT_MAILBOX_REFUSE);
    in_bounded(supervise_few, 20, WEFT_MAILBOX_DROP_OLDEST);
}
