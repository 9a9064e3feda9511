/* process_room.c - bounded mailboxes: who waits for room, what a receive has looked at, what the next owner of the slot has. */
#include "process.h"

static char bytes[100];

static weft_task *go_bounded(weft_fiber_fn fn, void *arg, weft_mailbox_policy policy, weft_runtime *rt, weft_pid *pid) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task = NULL;
    spec.fn = fn;
    spec.arg = arg;
    spec.max_bytes = sizeof bytes;
    spec.policy = policy;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, pid, &task), 0);
    return task;
}

/* -- Room for several. */

struct sender {
    weft_pid to;
    uint64_t tag;
    size_t size;
};

static int send_it(void *arg) {
    struct sender *s = arg;
    return weft_send(NULL, s->to, s->tag, bytes, s->size);
}

static weft_task *let_send(struct sender *sender) {
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(NULL, send_it, sender, &task), 0);
    UNTIL(strcmp(weft_task_state(task), "idle") == 0);
    return task;
}

static int has_room_for(void *arg) {
    struct sender first = {weft_self(), 2, 50}, second = {weft_self(), 3, 30};
    weft_task *task[2];
    (void)arg;
    CHECK_EQ(weft_try_send(NULL, weft_self(), 1, bytes, 60), 0);
    task[0] = let_send(&first);
    CHECK_EQ(weft_try_send(NULL, weft_self(), 9, bytes, 10), -ENOBUFS); /* it would fit, but another waits */
    task[1] = let_send(&second);
    CHECK_EQ(expect(WEFT_MESSAGE).tag, 1);
    for (int i = 0; i < 2; i++) { /* room for both, by one that has gone */
        UNTIL(weft_task_is_done(task[i]));
        weft_task_drop(task[i]);
    }
    CHECK_EQ(weft_try_send(NULL, weft_self(), 4, bytes, 21), -ENOBUFS);
    CHECK_EQ(weft_try_send(NULL, weft_self(), 4, bytes, 20), 0);
    for (uint64_t tag = 2; tag <= 4; tag++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, tag);
    expect_none();
    return 0;
}

API_TEST(process_room_waited_for, "W29 W40", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(fixture_finish(go_bounded(has_room_for, NULL, WEFT_MAILBOX_BLOCK, rt, NULL)).status, 0);
    fixture_end(rt);
}

/* A class, of messages: as many as a step has seen. */
static unsigned seen;
static int count_messages(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events;
    seen += (unsigned)count;
    out->status = seen == 9 ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static int send_three_by_three(void *arg) {
    static const weft_process_class class_ = {.size = sizeof class_, .step = count_messages};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    (void)arg;
    spec.class_ = &class_;
    spec.max_messages = 3;
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &pid, NULL), 0);
    for (unsigned round = 1; round <= 3; round++) {
        for (uint64_t tag = 0; tag < 3; tag++) /* for one step: one worker */
            CHECK_EQ(weft_try_send(NULL, pid, tag, NULL, 0), 0);
        CHECK_EQ(weft_try_send(NULL, pid, 3, NULL, 0), -ENOBUFS);
        UNTIL(seen == 3 * round);
    }
    return 0;
}
API_TEST(process_room_of_a_step, "W29 W30", .workers = {1}) { in_process(send_three_by_three, NULL); }

/* A class, of bytes: what a step has seen has gone. */
static atomic_uint stepped;

static int count_bytes(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events;
    out->status = atomic_fetch_add(&stepped, (unsigned)count) + count == 3 ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class counting = {.size = sizeof counting, .step = count_bytes};

API_TEST(process_room_of_a_class, "W29 W30", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    weft_task *task;
    spec.class_ = &counting;
    spec.max_bytes = sizeof bytes;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    for (unsigned i = 1; i <= 3; i++) {
        CHECK_EQ(weft_send(rt, pid, i, bytes, sizeof bytes), 0);
        REQUIRE_EVENTUALLY(atomic_load(&stepped) == i);
    }
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- The next owner. */

static unsigned looked;

static bool refuse(const weft_message *message, void *arg) {
    (void)message, (void)arg;
    looked++;
    return false;
}

/* Reads nothing, though it has it (arg), or not even that. */
static int read_nothing(void *arg) {
    weft_message m;
    while (!arg)
        if (weft_yield())
            return 0;
    return weft_receive(&m, refuse, NULL, WEFT_NEVER);
}

static int read_four(void *arg) {
    (void)arg;
    for (uint64_t tag = 1; tag <= 4; tag++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, tag);
    return 0;
}

static int one_after_the_other(void *arg) {
    (void)arg;
    for (weft_mailbox_policy policy = WEFT_MAILBOX_REFUSE; policy <= WEFT_MAILBOX_DROP_OLDEST; policy++)
        for (int round = 0; round < 3; round++) {
            static const weft_fiber_fn fn[] = {read_nothing, read_nothing, read_four};
            weft_pid pid;
            looked = 0;
            weft_task *task = go_bounded(fn[round], round == 1 ? &looked : NULL, policy, NULL, &pid);
            for (uint64_t tag = 1; tag <= 4; tag++)
                CHECK_EQ(weft_try_send(NULL, pid, tag, bytes, 25), 0);
            if (round == 1)
                UNTIL(looked >= 4);
            if (round < 2)
                CHECK_EQ(weft_process_exit(NULL, pid, -EIO), 0);
            UNTIL(weft_task_is_done(task));
            weft_task_drop(task);
        }
    return 0;
}

/* One worker: each has the slot of the one before. */
API_TEST(process_room_of_the_next, "W29 W38", .workers = {1}) { in_process(one_after_the_other, NULL); }

/* -- What was looked at is dropped, and as much is new. */

static uint64_t last_seen;

static bool is_nine(const weft_message *message, void *arg) {
    (void)arg;
    last_seen = message->tag;
    return message->tag == 9;
}

static int want_nine(void *arg) {
    weft_message m;
    (void)arg;
    CHECK_EQ(weft_receive(&m, is_nine, NULL, in_time()), 0);
    for (uint64_t tag = 6; tag <= 8; tag++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, tag);
    expect_none();
    return 0;
}

static int send_twice_four(void *arg) {
    weft_pid pid;
    weft_task *task = go_bounded(want_nine, NULL, WEFT_MAILBOX_DROP_OLDEST, NULL, &pid);
    (void)arg;
    for (uint64_t tag = 1; tag <= 4; tag++)
        CHECK_EQ(weft_send(NULL, pid, tag, bytes, 25), 0);
    UNTIL(last_seen == 4);
    for (uint64_t tag = 6; tag <= 9; tag++) /* all of them before it looks again: one worker */
        CHECK_EQ(weft_send(NULL, pid, tag, bytes, 25), 0);
    UNTIL(weft_task_is_done(task));
    weft_task_drop(task);
    return 0;
}

API_TEST(process_room_drop_looked_at, "W29 W30", .workers = {1}) { in_process(send_twice_four, NULL); }

/* What was looked at goes once: what is new then stays, and counts for itself. */
static int drop_once(void *arg) {
    weft_message m;
    (void)arg;
    for (uint64_t tag = 1; tag <= 4; tag++)
        CHECK_EQ(weft_try_send(NULL, weft_self(), tag, bytes, 25), 0);
    CHECK_EQ(weft_receive(&m, refuse, NULL, WEFT_NOW), -ETIMEDOUT);
    for (uint64_t tag = 5; tag <= 9; tag++)
        CHECK_EQ(weft_try_send(NULL, weft_self(), tag, bytes, 25), 0);
    CHECK_EQ(weft_receive(&m, is_nine, NULL, WEFT_NOW), 0);
    CHECK_EQ(weft_try_send(NULL, weft_self(), 10, bytes, 25), 0);
    for (uint64_t tag = 6; tag <= 10; tag++)
        if (tag != 9)
            CHECK_EQ(expect(WEFT_MESSAGE).tag, tag);
    expect_none();
    return 0;
}
API_TEST(process_room_drop_once, "W29 W30", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(fixture_finish(go_bounded(drop_once, NULL, WEFT_MAILBOX_DROP_OLDEST, rt, NULL)).status, 0);
    fixture_end(rt);
}
