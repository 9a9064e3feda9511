/* process_mailbox.c - mailboxes: who is reached, bounds and their policies, large messages and references, the system's lane, pids. */
#include "process.h"

static weft_runtime *rt_;

/* A process that takes nothing before it is released, and then tells what it got. */
struct keeper {
    atomic_bool begun, release;
    atomic_uint got, cancels;
    uint64_t tag[64];
};

static int keep(void *arg) {
    struct keeper *keeper = arg;
    weft_message m;
    atomic_store(&keeper->begun, true);
    while (!atomic_load(&keeper->release))
        weft_yield();
    for (;;) {
        int error = weft_receive(&m, NULL, NULL, WEFT_NEVER);
        if (error)
            return error;
        if (m.type == WEFT_MESSAGE_CANCEL) {
            atomic_fetch_add(&keeper->cancels, 1);
            CHECK(m.error == -ESHUTDOWN || m.error == -ECANCELED);
            return 0;
        }
        keeper->tag[atomic_load(&keeper->got) % 64] = m.tag;
        atomic_fetch_add(&keeper->got, 1);
        if (m.tag == TAG_END)
            return 0;
    }
}

static weft_pid go_keeper(weft_runtime *rt, struct keeper *keeper, uint32_t max, uint64_t bytes,
                          weft_mailbox_policy policy, weft_task **task) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    spec.fn = keep;
    spec.arg = keeper;
    spec.max_messages = max;
    spec.max_bytes = bytes;
    spec.policy = policy;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, task), 0);
    REQUIRE_EVENTUALLY(atomic_load(&keeper->begun));
    return pid;
}

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

/* -- What is sent is what comes, of every size, and nothing beyond it is read. */

enum { SIZES = 48 };

/* The tag is the size; the bytes follow from it. */
static unsigned char byte_of(uint64_t size, size_t at) { return (unsigned char)(size * 7 + at * 3 + 1); }

static int check_sizes(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)out;
    unsigned *next = state;
    for (size_t i = 0; i < count; i++, ++*next) {
        CHECK_EQ(events[i].tag, *next % SIZES);
        REQUIRE_EQ(events[i].size, *next % SIZES);
        for (size_t at = 0; at < events[i].size; at++)
            REQUIRE_EQ(((const unsigned char *)events[i].data)[at], byte_of(events[i].tag, at));
    }
    out->status = *next == 3 * SIZES ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class sizes_class = {
    .size = sizeof sizes_class, .state_size = sizeof(unsigned), .step = check_sizes};

static int send_sizes(void *arg) {
    for (unsigned i = 0; i < 3 * SIZES; i++) {
        size_t size = i % SIZES;
        unsigned char *data = malloc(size ? size : 1); /* no larger: a checker sees who reads beyond it */
        REQUIRE(data);
        for (size_t at = 0; at < size; at++)
            data[at] = byte_of(size, at);
        CHECK_EQ(weft_send(NULL, *(weft_pid *)arg, size, data, size), 0);
        free(data);
        if (i < SIZES)
            weft_yield(); /* one at a time, and then many at once */
    }
    return 0;
}

API_TEST(process_every_size, "W29", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    weft_task *task, *sender;
    spec.class_ = &sizes_class;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    REQUIRE_EQ(weft_fiber_go(rt, send_sizes, &pid, &sender), 0);
    CHECK_EQ(fixture_finish(sender).status, 0);
    CHECK_EQ(fixture_finish(task).status, 0);
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

/* -- Bounds. */

API_TEST(process_bound_refuses, "W30", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct keeper keeper = {0};
    weft_task *task;
    weft_pid pid = go_keeper(rt, &keeper, 3, 0, WEFT_MAILBOX_REFUSE, &task);
    for (uint64_t i = 0; i < 3; i++)
        CHECK_EQ(weft_send(rt, pid, i, NULL, 0), 0);
    CHECK_EQ(weft_send(rt, pid, 3, NULL, 0), -ENOBUFS);
    CHECK_EQ(weft_try_send(rt, pid, 3, NULL, 0), -ENOBUFS);
    atomic_store(&keeper.release, true);
    REQUIRE_EVENTUALLY(atomic_load(&keeper.got) == 3);
    CHECK_EQ(weft_send(rt, pid, TAG_END, NULL, 0), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    for (uint64_t i = 0; i < 3; i++)
        CHECK_EQ(keeper.tag[i], i);
    /* By bytes. */
    keeper.begun = keeper.release = false;
    keeper.got = 0;
    pid = go_keeper(rt, &keeper, 0, 100, WEFT_MAILBOX_REFUSE, &task);
    char bytes[101] = {0};
    CHECK_EQ(weft_send(rt, pid, 0, bytes, 101), -EMSGSIZE);
    CHECK_EQ(weft_send(rt, pid, 0, bytes, 60), 0);
    CHECK_EQ(weft_send(rt, pid, 1, bytes, 60), -ENOBUFS);
    CHECK_EQ(weft_send(rt, pid, 1, bytes, 40), 0);
    CHECK_EQ(weft_send(rt, pid, 2, bytes, 1), -ENOBUFS);
    CHECK_EQ(weft_send(rt, pid, 2, NULL, 0), -ENOBUFS); /* counts as one byte: else it had no bound */
    atomic_store(&keeper.release, true);
    REQUIRE_EVENTUALLY(atomic_load(&keeper.got) == 2);
    CHECK_EQ(weft_send(rt, pid, TAG_END, bytes, 100), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

API_TEST(process_bound_drops, "W30", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int oldest = 0; oldest < 2; oldest++) {
        struct keeper keeper = {0};
        weft_task *task;
        weft_pid pid =
            go_keeper(rt, &keeper, 3, 0, oldest ? WEFT_MAILBOX_DROP_OLDEST : WEFT_MAILBOX_DROP_NEWEST, &task);
        for (uint64_t i = 0; i < 10; i++)
            CHECK_EQ(weft_send(rt, pid, i, NULL, 0), 0);
        atomic_store(&keeper.release, true);
        REQUIRE_EVENTUALLY(atomic_load(&keeper.got) == 3);
        CHECK_EQ(weft_send(rt, pid, TAG_END, NULL, 0), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
        CHECK_EQ(keeper.got, 4);
        for (uint64_t i = 0; i < 3; i++)
            CHECK_EQ(keeper.tag[i], oldest ? 7 + i : i);
    }
    /* Bytes: as many of the oldest as it takes. */
    struct keeper keeper = {0};
    weft_task *task;
    char bytes[100] = {0};
    weft_pid pid = go_keeper(rt, &keeper, 0, 100, WEFT_MAILBOX_DROP_OLDEST, &task);
    for (uint64_t i = 0; i < 5; i++)
        CHECK_EQ(weft_send(rt, pid, i, bytes, 20), 0);
    CHECK_EQ(weft_send(rt, pid, 5, bytes, 50), 0);
    atomic_store(&keeper.release, true);
    REQUIRE_EVENTUALLY(atomic_load(&keeper.got) == 3);
    CHECK_EQ(keeper.tag[0], 3);
    CHECK_EQ(keeper.tag[2], 5);
    CHECK_EQ(weft_send(rt, pid, TAG_END, NULL, 0), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* What a filter has passed over is unread still, and the oldest: it goes first. */
static bool is_fifty(const weft_message *m, void *arg) {
    (void)arg;
    return m->tag == 50;
}
static atomic_uint phase;
static int choosy(void *arg) {
    weft_message m;
    (void)arg;
    while (atomic_load(&phase) == 0)
        weft_yield();
    CHECK_EQ(weft_receive(&m, is_fifty, NULL, in_time()), 0);
    atomic_store(&phase, 2);
    while (atomic_load(&phase) == 2)
        weft_yield();
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQ(weft_receive(&m, NULL, NULL, in_time()), 0);
        CHECK_EQ(m.tag, 60 + i);
    }
    expect_none();
    return 0;
}

API_TEST(process_bound_counts_passed_over, "W30", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int policy = WEFT_MAILBOX_REFUSE; policy <= WEFT_MAILBOX_DROP_OLDEST; policy++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_pid pid;
        weft_task *task;
        bool oldest = policy == WEFT_MAILBOX_DROP_OLDEST;
        atomic_store(&phase, 0);
        spec.fn = choosy;
        spec.max_messages = 3;
        spec.policy = (weft_mailbox_policy)policy;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
        CHECK_EQ(weft_send(rt, pid, oldest ? 1 : 60, NULL, 0), 0);
        CHECK_EQ(weft_send(rt, pid, oldest ? 2 : 61, NULL, 0), 0);
        CHECK_EQ(weft_send(rt, pid, 50, NULL, 0), 0);
        atomic_store(&phase, 1);
        REQUIRE_EVENTUALLY(atomic_load(&phase) == 2); /* two are left */
        for (uint64_t i = oldest ? 0 : 2; i < 3; i++)
            CHECK_EQ(weft_send(rt, pid, 60 + i, NULL, 0), 0);
        if (!oldest)
            CHECK_EQ(weft_try_send(rt, pid, 70, NULL, 0), policy == WEFT_MAILBOX_DROP_NEWEST ? 0 : -ENOBUFS);
        atomic_store(&phase, 3);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    fixture_end(rt);
}

/* Block: threads and fibers wait, in order; a class is refused; cancelled ones leave; the end turns them away. */
static weft_pid full;
static atomic_int send_result[4];

static int send_blocking(void *arg) {
    uintptr_t i = (uintptr_t)arg;
    int error = weft_send(NULL, full, 10 + i, NULL, 0);
    atomic_store(&send_result[i], error ? error : 1);
    return error;
}
static void *send_blocking_thread(void *arg) {
    int error = weft_send(rt_, full, 10 + (uintptr_t)arg, NULL, 0);
    atomic_store(&send_result[(uintptr_t)arg], error ? error : 1);
    return NULL;
}
static weft_poll send_in_poll(weft_task *self, void *arg) {
    (void)arg;
    return weft_done(self, weft_send(NULL, full, 1, NULL, 0), NULL);
}

API_TEST(process_bound_blocks, "W29 W40", .workers = {2, 4}) {
    weft_runtime *rt = rt_ = fixture_begin_patient();
    for (int ends = 0; ends < 2; ends++) {
        struct keeper keeper = {0};
        weft_task *task, *fiber[3];
        pthread_t thread;
        memset(send_result, 0, sizeof send_result);
        full = go_keeper(rt, &keeper, 2, 0, WEFT_MAILBOX_BLOCK, &task);
        CHECK_EQ(weft_send(rt, full, 0, NULL, 0), 0);
        CHECK_EQ(weft_send(rt, full, 1, NULL, 0), 0);
        CHECK_EQ(weft_try_send(rt, full, 2, NULL, 0), -ENOBUFS);
        CHECK_EQ(fixture_finish(fixture_go(rt, send_in_poll, NULL)).status, -ENOBUFS);
        for (uintptr_t i = 0; i < 3; i++)
            REQUIRE_EQ(weft_fiber_go(rt, send_blocking, (void *)i, &fiber[i]), 0);
        REQUIRE_EQ(pthread_create(&thread, NULL, send_blocking_thread, (void *)3), 0);
        for (int i = 0; i < 3; i++)
            REQUIRE_EVENTUALLY(strcmp(weft_task_state(fiber[i]), "idle") == 0);
        weft_task_cancel(fiber[1]);
        CHECK_EQ(fixture_finish(fiber[1]).status, -ECANCELED);
        CHECK_EQ(atomic_load(&send_result[0]), 0);
        if (ends)
            CHECK_EQ(weft_process_exit(rt, full, -EIO), 0);
        atomic_store(&keeper.release, true);
        CHECK_EQ(fixture_finish(fiber[0]).status, ends ? -ESRCH : 0); /* one that is to end takes nothing more */
        CHECK_EQ(fixture_finish(fiber[2]).status, ends ? -ESRCH : 0);
        pthread_join(thread, NULL);
        int sent = atomic_load(&send_result[3]);
        CHECK_EQ(sent, ends ? -ESRCH : 1);
        CHECK_EQ(atomic_load(&send_result[1]), -ECANCELED);
        if (!ends) {
            REQUIRE_EVENTUALLY(atomic_load(&keeper.got) == 5);
            CHECK_EQ(weft_send(rt, full, TAG_END, NULL, 0), 0);
            CHECK_EQ(keeper.tag[0], 0);
            CHECK_EQ(keeper.tag[1], 1);
        }
        CHECK_EQ(fixture_finish(task).status, ends ? -ECANCELED : 0);
    }
    fixture_end(rt);
}

/* One that waits gives up: those behind it, who are smaller, do not wait for it any more.  Nobody else makes room: the receiver waits for theirs. */
static bool is_small(const weft_message *m, void *arg) {
    (void)arg;
    return m->tag == 3;
}
static int receive_small(void *arg) {
    weft_message m;
    int error = 0;
    for (uintptr_t i = (uintptr_t)arg; i > 0 && !error; i--)
        error = weft_receive(&m, is_small, NULL, in_time());
    return error;
}
static int send_large(void *arg) {
    static const char bytes[80];
    return weft_send(NULL, full, 2, bytes, (uintptr_t)arg);
}
static int send_small(void *arg) {
    static const char bytes[10];
    (void)arg;
    return weft_send(NULL, full, 3, bytes, sizeof bytes);
}
API_TEST(process_bound_block_gives_up, "W29 W40", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    static const char bytes[60];
    weft_task *task, *large, *small[3];
    spec.fn = receive_small;
    spec.arg = (void *)3;
    spec.max_bytes = 100;
    spec.policy = WEFT_MAILBOX_BLOCK;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &full, &task), 0);
    REQUIRE_EQ(weft_send(rt, full, 1, bytes, sizeof bytes), 0);
    REQUIRE_EQ(weft_fiber_go(rt, send_large, (void *)80, &large), 0);
    REQUIRE_EVENTUALLY(strcmp(weft_task_state(large), "idle") == 0);
    for (int i = 0; i < 3; i++) {
        REQUIRE_EQ(weft_fiber_go(rt, send_small, NULL, &small[i]), 0);
        REQUIRE_EVENTUALLY(strcmp(weft_task_state(small[i]), "idle") == 0);
    }
    weft_task_cancel(large);
    CHECK_EQ(fixture_finish(large).status, -ECANCELED);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fixture_finish(small[i]).status, 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* Nobody waits for room in its own mailbox. */
static int fill_own(void *arg) {
    weft_message m;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_send(NULL, weft_self(), 1, NULL, 0), 0);
        CHECK_EQ(weft_send(NULL, weft_self(), 2, NULL, 0), -ENOBUFS);
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), 0);
        CHECK_EQ(m.tag, 1);
    }
    return 0;
}
API_TEST(process_bound_block_own, "W30", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = fill_own;
    spec.max_messages = 1;
    spec.policy = WEFT_MAILBOX_BLOCK;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

static int never_receive(void *arg) {
    while (!atomic_load((atomic_bool *)arg))
        weft_yield();
    return 0;
}

API_TEST(process_bound_block_until_end, "W30", .workers = {2}) {
    weft_runtime *rt = rt_ = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    atomic_bool end = false;
    weft_task *task, *fiber[2];
    pthread_t thread;
    spec.fn = never_receive;
    spec.arg = &end;
    spec.max_messages = 1;
    spec.policy = WEFT_MAILBOX_BLOCK;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &full, &task), 0);
    CHECK_EQ(weft_send(rt, full, 0, NULL, 0), 0);
    for (uintptr_t i = 0; i < 2; i++)
        REQUIRE_EQ(weft_fiber_go(rt, send_blocking, (void *)i, &fiber[i]), 0);
    REQUIRE_EQ(pthread_create(&thread, NULL, send_blocking_thread, (void *)3), 0);
    for (int i = 0; i < 2; i++)
        REQUIRE_EVENTUALLY(strcmp(weft_task_state(fiber[i]), "idle") == 0);
    atomic_store(&end, true);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(fixture_finish(fiber[0]).status, -ESRCH);
    CHECK_EQ(fixture_finish(fiber[1]).status, -ESRCH);
    pthread_join(thread, NULL);
    CHECK_EQ(atomic_load(&send_result[3]), -ESRCH);
    fixture_end(rt);
}

/* Many senders through a narrow mailbox: all arrive, in each one's order. */
static struct {
    uint64_t next[8];
    uint64_t count;
} narrow;
static int narrow_receiver(void *arg) {
    weft_message m;
    for (uint64_t i = 0; i < *(uint64_t *)arg; i++) {
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
        REQUIRE_EQ(m.type, WEFT_MESSAGE);
        REQUIRE_EQ(*(const uint64_t *)m.data, narrow.next[m.tag]++);
        narrow.count++;
    }
    return 0;
}
static uint64_t narrow_each;
static void narrow_send(unsigned index, void *arg) {
    (void)arg;
    for (uint64_t i = 0; i < narrow_each; i++)
        REQUIRE_EQ(weft_send(rt_, full, index, &i, sizeof i), 0);
}
static int narrow_send_here(void *index) {
    for (uint64_t i = 0; i < narrow_each; i++)
        REQUIRE_EQ(weft_send(NULL, full, (uint64_t)(uintptr_t)index, &i, sizeof i), 0);
    return 0;
}

API_TEST(process_bound_block_many, "W29 W40", .workers = {1, 4}, .timeout = 60) {
    weft_runtime *rt = rt_ = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    narrow_each = fixture_is_slow() ? 50 : 500;
    uint64_t total = 6 * narrow_each;
    weft_task *task, *fiber[4];
    spec.fn = narrow_receiver;
    spec.arg = &total;
    spec.max_messages = 3;
    spec.policy = WEFT_MAILBOX_BLOCK;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &full, &task), 0);
    for (uintptr_t i = 0; i < 4; i++)
        REQUIRE_EQ(weft_fiber_go(rt, narrow_send_here, (void *)(2 + i), &fiber[i]), 0);
    harness_threads(2, narrow_send, NULL);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(fiber[i]).status, 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(narrow.count, total);
    fixture_end(rt);
}

/* -- Large messages, and references. */

static atomic_uint released;
static void release(void *data) {
    REQUIRE_EQ(*(unsigned char *)data, 0xab);
    *(unsigned char *)data = 0;
    atomic_fetch_add(&released, 1);
    free(data);
}
static unsigned char *block(size_t size) {
    unsigned char *data = malloc(size);
    REQUIRE(data);
    memset(data, 0xab, size);
    return data;
}

static int sizes(void *arg) {
    (void)arg;
    static const size_t all[] = {0, 1, 8, 23, 24, 25, 64, 1000, 100000};
    weft_pid server = go_process(NULL, echo_server, NULL);
    unsigned char *data = block(100000);
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        weft_message m;
        for (size_t j = 0; j < all[i]; j++)
            data[j] = (unsigned char)(j * 7 + i);
        REQUIRE_EQ(weft_send(NULL, server, i, data, all[i]), 0);
        memset(data, 0, 100000);
        m = expect(WEFT_MESSAGE);
        CHECK_EQ(m.from, server);
        CHECK_EQ(m.tag, i);
        CHECK_EQ(m.size, all[i]);
        for (size_t j = 0; j < all[i]; j++)
            REQUIRE_EQ(((const unsigned char *)m.data)[j], (unsigned char)(j * 7 + i));
    }
    free(data);
    end_server(NULL, server, 0);
    /* Released after the next receive. */
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 1, block(10), 10, release), 0);
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 2, block(10), 10, release), 0);
    weft_message m = expect(WEFT_MESSAGE);
    CHECK_EQ(((const unsigned char *)m.data)[9], 0xab);
    CHECK_EQ(atomic_load(&released), 0);
    m = expect(WEFT_MESSAGE);
    CHECK_EQ(atomic_load(&released), 1);
    CHECK_EQ(m.tag, 2);
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 3, block(10), 10, release), 0); /* never read */
    REQUIRE_EQ(weft_send_ref(NULL, weft_self(), 3, "static", 7, NULL), 0);
    return 0;
}

API_TEST(process_sizes_and_references, "W7", .workers = {1, 2}) {
    in_process(sizes, NULL);
    CHECK_EQ(atomic_load(&released), 3);
}

API_TEST(process_references_released_once, "W29", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    static const weft_mailbox_policy policies[] = {WEFT_MAILBOX_REFUSE, WEFT_MAILBOX_DROP_NEWEST,
                                                   WEFT_MAILBOX_DROP_OLDEST};
    unsigned expected = 0;
    for (int i = 0; i < 3; i++) {
        struct keeper keeper = {0};
        weft_task *task;
        weft_pid pid = go_keeper(rt, &keeper, 2, 0, policies[i], &task);
        for (int j = 0; j < 4; j++) {
            unsigned char *data = block(8);
            int error = weft_send_ref(rt, pid, 1, data, 8, release);
            if (error) {
                CHECK_EQ(error, -ENOBUFS);
                release(data); /* still ours */
            }
            expected++;
        }
        CHECK_EQ(weft_process_exit(rt, pid, -EIO), 0);
        atomic_store(&keeper.release, true);
        fixture_finish(task);
        CHECK_EQ(atomic_load(&released), expected);
        unsigned char *data = block(8);
        CHECK_EQ(weft_send_ref(rt, pid, 1, data, 8, release), -ESRCH);
        free(data);
    }
    fixture_end(rt);
}

/* What nobody reads is released at the end of a class, in its name still, and not in that of who has its place next. */
static weft_pid witness, spoke;
static void speak(void *data) {
    spoke = weft_self();
    CHECK_EQ(weft_send(NULL, witness, 1, NULL, 0), 0);
    CHECK_EQ(weft_send(NULL, *(weft_pid *)data, 1, NULL, 0), -ESRCH); /* it has ended */
}
static int end_unread(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)events;
    (void)count;
    *(weft_pid *)state = weft_self();
    CHECK_EQ(weft_send_ref(NULL, weft_self(), 1, state, sizeof(weft_pid), speak), 0);
    out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class unread_class = {
    .size = sizeof(weft_process_class), .name = "unread", .state_size = sizeof(weft_pid), .step = end_unread};

static int hear_unread(void *arg) {
    (void)arg;
    witness = weft_self();
    for (int i = 0; i < 3; i++) {
        weft_pid pid;
        REQUIRE_EQ(spawn_class(NULL, &unread_class, NULL, 0, &pid, NULL), 0);
        weft_message m = expect(WEFT_MESSAGE);
        CHECK_EQ(m.from, pid);
        CHECK_EQ(spoke, pid);
    }
    return 0;
}

API_TEST(process_unread_is_released_by_its_owner, "W29", .workers = {1, 2}) { in_process(hear_unread, NULL); }

/* -- The system's lane. */

static bool is_down(const weft_message *message, void *arg) {
    (void)arg;
    return message->type == WEFT_MESSAGE_DOWN;
}

static int system_first(void *arg) {
    (void)arg;
    weft_pid self = weft_self();
    weft_pid server = go_process(NULL, echo_server, NULL);
    uint64_t monitor;
    for (uint64_t i = 0; i < 3; i++)
        REQUIRE_EQ(weft_send(NULL, self, i, NULL, 0), 0);
    REQUIRE_EQ(weft_try_send(NULL, self, 9, NULL, 0), -ENOBUFS); /* full */
    REQUIRE_EQ(weft_monitor(server, &monitor), 0);
    end_server(NULL, server, -EPIPE);
    /* The first is taken out of the lane together with the messages; what comes after it is still behind it. */
    weft_message m;
    REQUIRE_EQ(weft_receive(&m, is_down, NULL, in_time()), 0); /* it comes a moment after the end */
    CHECK_EQ(m.tag, monitor);
    CHECK_EQ(m.error, -EPIPE);
    for (uint64_t i = 0; i < 5; i++)
        REQUIRE_EQ(weft_command_complete(weft_runtime_current(), self, 100 + i, 0, NULL, 0), 0);
    m = expect(WEFT_MESSAGE_YIELD);
    CHECK_EQ(m.tag, 100);
    for (uint64_t i = 5; i < 8; i++)
        REQUIRE_EQ(weft_command_complete(weft_runtime_current(), self, 100 + i, 0, NULL, 0), 0);
    for (uint64_t i = 1; i < 8; i++)
        CHECK_EQ(expect(WEFT_MESSAGE_YIELD).tag, 100 + i);
    for (uint64_t i = 0; i < 3; i++)
        CHECK_EQ(expect(WEFT_MESSAGE).tag, i);
    return 0;
}

API_TEST(process_system_first, "W29 W35", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = system_first;
    spec.max_messages = 3;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}
