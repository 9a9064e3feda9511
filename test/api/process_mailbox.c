/* process_mailbox.c - mailboxes: who is reached, pids that are used again, the system's lane (process_bound.c and process_sizes.c have the rest). */
#include "process.h"

static weft_runtime *rt_;

/* -- Who is reached. */

API_TEST(process_unknown_pid, "W10 W30", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(weft_send(rt, 12345, 1, NULL, 0), -ESRCH); /* there has been no process */
    CHECK_EQ(weft_send(NULL, 12345, 1, NULL, 0), -EINVAL);
    CHECK_EQ(weft_process_count(rt), 0);
    weft_pid pid = go_process(rt, echo_server, NULL);
    CHECK(weft_process_is_alive(rt, pid));
    CHECK_EQ(weft_process_count(rt), 1);
    for (int bit = 0; bit < 64; bit++) {
        CHECK(!weft_process_is_alive(rt, pid ^ UINT64_C(1) << bit));
        CHECK_EQ(weft_send(rt, pid ^ UINT64_C(1) << bit, TAG_END, NULL, 0), -ESRCH);
        CHECK_EQ(weft_process_cancel(rt, pid ^ UINT64_C(1) << bit), -ESRCH);
        CHECK_EQ(weft_process_exit(rt, pid ^ UINT64_C(1) << bit, -EIO), -ESRCH);
    }
    CHECK_EQ(weft_send(rt, WEFT_PID_NONE, 1, NULL, 0), -ESRCH);
    CHECK(weft_process_is_alive(rt, pid));
    CHECK_EQ(weft_self(), WEFT_PID_NONE);
    CHECK_EQ(weft_send(rt, pid, 1, "", (size_t)UINT32_MAX + 1), -EMSGSIZE);
    end_server(rt, pid, 0);
    REQUIRE_EVENTUALLY(!weft_process_is_alive(rt, pid));
    CHECK_EQ(weft_send(rt, pid, 1, NULL, 0), -ESRCH);
    fixture_end(rt);
}

/* A slot is used again and again: an old pid never reaches the new process. */
static int end_at_once(void *arg) {
    weft_message m;
    int error = weft_receive(&m, NULL, NULL, WEFT_NEVER);
    if (!error && m.type == WEFT_MESSAGE)
        CHECK_EQ(m.tag, (uint64_t)(uintptr_t)arg);
    return 0;
}

API_TEST(process_pid_reuse, "W10 W30 W38", .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned count = fixture_is_slow() ? 200 : 2000;
    weft_pid *old = calloc(count, sizeof *old);
    REQUIRE(old);
    for (unsigned i = 0; i < count; i++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_task *task;
        spec.fn = end_at_once;
        spec.arg = (void *)(uintptr_t)i;
        spec.max_messages = i % 3; /* some are bounded */
        REQUIRE_EQ(weft_process_spawn(rt, &spec, &old[i], &task), 0);
        for (unsigned j = i > 20 ? i - 20 : 0; j < i; j++) {
            REQUIRE_NE(old[j], old[i]);
            REQUIRE_EQ(weft_send(rt, old[j], 1000000, NULL, 0), -ESRCH);
            REQUIRE_EQ(weft_command_complete(rt, old[j], 1000000, 0, NULL, 0), -ESRCH);
        }
        REQUIRE_EQ(weft_send(rt, old[i], i, NULL, 0), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    free(old);
    fixture_end(rt);
}

/* Senders against ends and new owners of the slot, all at once: what arrives was for whom it reached. */
static _Atomic weft_pid target;
static atomic_bool senders_end;
static atomic_ulong sent_ok, wrong, arrived;

static int only_mine(void *arg) {
    weft_message m;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        int error = weft_receive(&m, NULL, NULL, WEFT_NEVER);
        if (error || m.type != WEFT_MESSAGE)
            return error;
        weft_pid to;
        memcpy(&to, m.data, sizeof to);
        if (to != weft_self())
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&arrived, 1);
    }
    return 0;
}

static void send_to_target(unsigned index, void *arg) {
    (void)arg;
    while (!atomic_load(&senders_end)) {
        weft_pid pid = atomic_load(&target);
        int error = weft_send(rt_, pid, index, &pid, sizeof pid);
        REQUIRE(error == 0 || error == -ESRCH);
        if (!error)
            atomic_fetch_add(&sent_ok, 1);
        if (index)
            harness_nap();
    }
}

static void *spawn_targets(void *arg) {
    int count = fixture_is_slow() ? 100 : 300;
    (void)arg;
    for (int i = 0; i < count; i++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_task *task;
        weft_pid pid;
        spec.fn = only_mine;
        spec.max_messages = i % 2 ? 4 : 0;
        spec.policy = (weft_mailbox_policy)(i / 2 % 4);
        if (spec.policy == WEFT_MAILBOX_REFUSE)
            spec.max_messages = 0;
        REQUIRE_EQ(weft_process_spawn(rt_, &spec, &pid, &task), 0);
        atomic_store(&target, pid);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    atomic_store(&senders_end, true);
    return NULL;
}

API_TEST(process_send_against_reuse, "W10 W30", .workers = {1, 4}, .timeout = 60) {
    weft_runtime *rt = rt_ = fixture_begin_patient();
    pthread_t spawner;
    REQUIRE_EQ(pthread_create(&spawner, NULL, spawn_targets, NULL), 0);
    harness_threads(3, send_to_target, NULL);
    pthread_join(spawner, NULL);
    CHECK_EQ(atomic_load(&wrong), 0);
    CHECK_GE(atomic_load(&sent_ok), atomic_load(&arrived));
    fixture_end(rt);
}

/* -- System events: not refused by a full mailbox, and in order with the messages. */

static bool is_down(const weft_message *message, void *arg) {
    (void)arg;
    return message->type == WEFT_MESSAGE_DOWN;
}

static int system_when_full(void *arg) {
    (void)arg;
    weft_pid self = weft_self();
    weft_pid server = go_process(NULL, echo_server, NULL);
    uint64_t monitor;
    for (uint64_t i = 0; i < 3; i++)
        REQUIRE_EQ(weft_send(NULL, self, i, NULL, 0), 0);
    REQUIRE_EQ(weft_try_send(NULL, self, 9, NULL, 0), -ENOBUFS); /* full */
    REQUIRE_EQ(weft_monitor(server, &monitor), 0);
    end_server(NULL, server, -EPIPE);
    weft_message m;
    REQUIRE_EQ(weft_receive(&m, is_down, NULL, in_time()), 0); /* it comes a moment after the end */
    CHECK_EQ(m.tag, monitor);
    CHECK_EQ(m.error, -EPIPE);
    for (uint64_t i = 0; i < 5; i++)
        REQUIRE_EQ(weft_command_complete(weft_runtime_current(), self, 100 + i, 0, NULL, 0), 0);
    CHECK_EQ(expect(WEFT_MESSAGE).tag, 0);
    for (uint64_t i = 5; i < 8; i++)
        REQUIRE_EQ(weft_command_complete(weft_runtime_current(), self, 100 + i, 0, NULL, 0), 0);
    REQUIRE_EQ(weft_try_send(NULL, self, 3, NULL, 0), 0);
    REQUIRE_EQ(weft_try_send(NULL, self, 9, NULL, 0), -ENOBUFS); /* what the system says made no room */
    for (uint64_t i = 1; i < 3; i++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, i);
    for (uint64_t i = 0; i < 8; i++)
        CHECK_EQ(expect(WEFT_MESSAGE_YIELD).tag, 100 + i);
    CHECK_EQ(expect(WEFT_MESSAGE).tag, 3);
    expect_none();
    return 0;
}

API_TEST(process_system_when_full, "W29 W35", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = system_when_full;
    spec.max_messages = 3;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}
