/* process_bound.c - mailboxes with bounds: who is refused, what is dropped, who waits. */
#include "process_keeper.h"

static weft_runtime *rt_;

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
static void take_fifty(void) {
    weft_message m;
    while (atomic_load(&phase) == 0)
        weft_yield();
    CHECK_EQ(weft_receive(&m, is_fifty, NULL, in_time()), 0);
    atomic_store(&phase, 2);
    while (atomic_load(&phase) == 2)
        weft_yield();
}
static int choosy(void *arg) {
    weft_message m;
    (void)arg;
    take_fifty();
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQ(weft_receive(&m, NULL, NULL, in_time()), 0);
        CHECK_EQ(m.tag, 60 + i);
    }
    expect_none();
    return 0;
}

/* What a filter has passed over is gone for good when a message came that left no room for it, also if that one is gone, too, before the next look. */
static int choosy_of_bytes(void *arg) {
    weft_message m;
    (void)arg;
    take_fifty();
    CHECK_EQ(weft_receive(&m, NULL, NULL, in_time()), 0);
    CHECK_EQ(m.tag, 61);
    expect_none();
    return 0;
}

API_TEST(process_bound_drops_in_order, "W30", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    weft_task *task;
    char bytes[100] = {0};
    atomic_store(&phase, 0);
    spec.fn = choosy_of_bytes;
    spec.max_bytes = 100;
    spec.policy = WEFT_MAILBOX_DROP_OLDEST;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    CHECK_EQ(weft_send(rt, pid, 1, bytes, 10), 0);
    CHECK_EQ(weft_send(rt, pid, 50, bytes, 10), 0);
    atomic_store(&phase, 1);
    REQUIRE_EVENTUALLY(atomic_load(&phase) == 2); /* 1 is left */
    CHECK_EQ(weft_send(rt, pid, 60, bytes, 100), 0);
    CHECK_EQ(weft_send(rt, pid, 61, bytes, 10), 0);
    atomic_store(&phase, 3);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
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
