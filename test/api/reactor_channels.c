/* reactor_channels.c - the reactor resolves the waiters of channels: from the buffer, in pairs, in order; and those it does not serve. */
#include "fiber.h"

#define ON_REACTOR .sched = "reactor"

/* Waiters that step 5 has resolved. */
static uint64_t resolved(weft_runtime *rt) {
    weft_reactor_stats stats = {.size = sizeof stats};
    REQUIRE_EQ(weft_reactor_stats_read(rt, &stats), 0);
    return stats.items[4];
}

static weft_chan *channel;
static atomic_uint waiting; /* fibers that are about to wait */

static int send_number(void *arg) {
    intptr_t number = (intptr_t)arg;
    atomic_fetch_add(&waiting, 1);
    return weft_chan_send(channel, &number, WEFT_NEVER);
}

static int recv_number(void *arg) {
    (void)arg;
    intptr_t number = -1;
    atomic_fetch_add(&waiting, 1);
    int error = weft_chan_recv(channel, &number, WEFT_NEVER);
    return error ? error : (int)number;
}

/* Start one that waits: it is in line when this returns. */
static weft_task *go_and_wait(weft_runtime *rt, weft_fiber_fn fn, intptr_t number) {
    atomic_store(&waiting, 0);
    weft_task *task = fiber_go(rt, fn, (void *)number);
    REQUIRE_EVENTUALLY(waiting == 1 && strcmp(weft_task_state(task), "idle") == 0);
    return task;
}

static intptr_t value_of(weft_task *task) { return (intptr_t)fixture_finish(task).value; }

/* -- Three phases ------------------------------------------------------------------------------------------------------ */

/* Phase 1: what is sent lies in the buffer, and step 5 gives it to the receivers that wait, in their order; a sender that waits gets the room that a
 * receiver made. */
API_TEST(reactor_channel_buffer, "R8 R17 R26 R29", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[4];
    REQUIRE_EQ(weft_chan_create(sizeof(intptr_t), 4, &channel), 0);
    for (int i = 0; i < 4; i++)
        task[i] = go_and_wait(rt, recv_number, 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(fiber_go(rt, send_number, (void *)(intptr_t)(10 + i))).status, 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(value_of(task[i]), 10 + i);
    CHECK_EQ(resolved(rt), 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(fiber_go(rt, send_number, (void *)(intptr_t)(20 + i))).status, 0);
    for (int i = 0; i < 4; i++)
        task[i] = go_and_wait(rt, send_number, 24 + i); /* it is full */
    for (int i = 0; i < 8; i++)
        CHECK_EQ(value_of(fiber_go(rt, recv_number, NULL)), 20 + i);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(resolved(rt), 8);
    CHECK_EQ(weft_chan_destroy(channel), 0);
    fixture_end(rt);
}

/* Phase 2: without a buffer, the first sender that waits meets the first receiver that waits, and both are resolved. */
API_TEST(reactor_channel_pairs, "R8 R17 R27 R29", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[5];
    REQUIRE_EQ(weft_chan_create(sizeof(intptr_t), 0, &channel), 0);
    for (int i = 0; i < 5; i++)
        task[i] = go_and_wait(rt, send_number, 30 + i);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(value_of(fiber_go(rt, recv_number, NULL)), 30 + i);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    for (int i = 0; i < 5; i++)
        task[i] = go_and_wait(rt, recv_number, 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(fixture_finish(fiber_go(rt, send_number, (void *)(intptr_t)(40 + i))).status, 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(value_of(task[i]), 40 + i);
    CHECK_EQ(resolved(rt), 20);
    CHECK_EQ(weft_chan_destroy(channel), 0);
    fixture_end(rt);
}

/* Phase 3: receivers for which there is nothing keep their places, and cost nothing while they wait. */
API_TEST(reactor_channel_keeps, "R8 R28 R29", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[6];
    REQUIRE_EQ(weft_chan_create(sizeof(intptr_t), 2, &channel), 0);
    for (int i = 0; i < 6; i++)
        task[i] = go_and_wait(rt, recv_number, 0);
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(fixture_finish(fiber_go(rt, send_number, (void *)(intptr_t)i)).status, 0);
        REQUIRE_EVENTUALLY(resolved(rt) == (uint64_t)i + 1);
        CHECK_EQ(value_of(task[i]), i);
        for (int j = i + 1; j < 6; j++)
            CHECK_STR(weft_task_state(task[j]), "idle");
    }
    CHECK_EQ(weft_chan_destroy(channel), 0);
    fixture_end(rt);
}

static int send_all(void *arg) {
    for (intptr_t i = 0; i < 2000; i++)
        REQUIRE_EQ(weft_chan_send(channel, &i, WEFT_NEVER), 0);
    (void)arg;
    return 0;
}
static int recv_all(void *arg) {
    (void)arg;
    for (intptr_t i = 0; i < 2000; i++) {
        intptr_t value = -1;
        REQUIRE_EQ(weft_chan_recv(channel, &value, WEFT_NEVER), 0);
        REQUIRE_EQ(value, i);
    }
    return 0;
}

/* 2,000 values without a buffer: two waiters each. */
API_TEST(reactor_channel_counted, "R17 R27", ON_REACTOR, .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_chan_create(sizeof(intptr_t), 0, &channel), 0);
    weft_task *receiver = fiber_go(rt, recv_all, NULL), *sender = fiber_go(rt, send_all, NULL);
    CHECK_EQ(fixture_finish(sender).status, 0);
    CHECK_EQ(fixture_finish(receiver).status, 0);
    CHECK_EQ(resolved(rt), 4000);
    CHECK_EQ(weft_chan_destroy(channel), 0);
    fixture_end(rt);
}

/* -- Those who do not wait for the reactor ------------------------------------------------------------------------------ */

/* Calls that promise to answer at once serve a fiber that waits themselves; so does a close. */
API_TEST(reactor_channel_direct, "R17 R30", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    intptr_t value = 50;
    REQUIRE_EQ(weft_chan_create(sizeof(intptr_t), 0, &channel), 0);
    CHECK_EQ(weft_chan_send(channel, &value, WEFT_NOW), -ETIMEDOUT);
    weft_task *task = go_and_wait(rt, recv_number, 0);
    CHECK_EQ(weft_chan_send(channel, &value, WEFT_NOW), 0);
    CHECK_EQ(value_of(task), 50);
    task = go_and_wait(rt, send_number, 51);
    CHECK_EQ(weft_chan_recv(channel, &value, WEFT_NOW), 0);
    CHECK_EQ(value, 51);
    CHECK_EQ(fixture_finish(task).status, 0);
    task = go_and_wait(rt, recv_number, 0);
    weft_chan_close(channel);
    CHECK_EQ(fixture_finish(task).status, -EPIPE);
    CHECK_EQ(resolved(rt), 0);
    CHECK_EQ(weft_chan_destroy(channel), 0);
    fixture_end(rt);
}

enum { EACH = 300 };
static atomic_uint sum;

static int send_many(void *arg) {
    (void)arg;
    for (intptr_t i = 1; i <= EACH; i++)
        REQUIRE_EQ(weft_chan_send(channel, &i, WEFT_NEVER), 0);
    return 0;
}

static int recv_many(void *arg) {
    (void)arg;
    for (int i = 0; i < EACH; i++) {
        intptr_t value = 0;
        REQUIRE_EQ(weft_chan_recv(channel, &value, WEFT_NEVER), 0);
        atomic_fetch_add(&sum, (unsigned)value);
    }
    return 0;
}

static int select_many(void *arg) {
    for (int i = 0; i < EACH; i++) {
        intptr_t value = i + 1;
        weft_case c = arg ? weft_case_send(channel, &value) : weft_case_recv(channel, &value);
        REQUIRE_EQ(weft_select(&c, 1, WEFT_NEVER), 0);
        if (!arg)
            atomic_fetch_add(&sum, (unsigned)value);
    }
    return 0;
}

static void by_thread(unsigned index, void *arg) {
    (void)arg;
    (index % 2 ? send_many : recv_many)(NULL);
}

/* Fibers of two reactors, selects, and plain threads on one channel: each value arrives once. */
API_TEST(reactor_channel_shared, "R29 R33", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient(), *other;
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = WEFT_SCHED_REACTOR;
    config.workers = 1;
    REQUIRE_EQ(weft_runtime_create(&config, &other), 0);
    for (size_t capacity = 0; capacity < 3; capacity++) {
        weft_task *task[8];
        atomic_store(&sum, 0);
        REQUIRE_EQ(weft_chan_create(sizeof(intptr_t), capacity, &channel), 0);
        for (int i = 0; i < 2; i++) {
            task[4 * i] = fiber_go(i ? other : rt, send_many, NULL);
            task[4 * i + 1] = fiber_go(i ? rt : other, recv_many, NULL);
            task[4 * i + 2] = fiber_go(rt, select_many, (void *)1);
            task[4 * i + 3] = fiber_go(other, select_many, NULL);
        }
        harness_threads(2, by_thread, NULL);
        for (int i = 0; i < 8; i++)
            CHECK_EQ(fixture_finish(task[i]).status, 0);
        CHECK_EQ(sum, 5u * (EACH * (EACH + 1) / 2));
        CHECK_EQ(weft_chan_destroy(channel), 0);
    }
    CHECK_EQ(weft_runtime_stop(other, fixture_soon()), 0);
    CHECK_EQ(weft_runtime_destroy(other), 0);
    fixture_end(rt);
}

/* -- Giving up, and the end ---------------------------------------------------------------------------------------------- */

static int send_late(void *arg) {
    intptr_t value = (intptr_t)arg;
    int error = weft_chan_send(channel, &value, weft_after((int64_t)value % 7 * 10000));
    return error == -ETIMEDOUT ? 0 : error ? error : 1;
}

static int recv_late(void *arg) {
    intptr_t value = 0;
    int error = weft_chan_recv(channel, &value, weft_after((int64_t)(intptr_t)arg % 5 * 10000));
    return error == -ETIMEDOUT ? 0 : error ? error : 1;
}

/* Deadlines against pairing: what was sent was received, no more and no less. */
API_TEST(reactor_channel_late, "R27 R28", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_chan_create(sizeof(intptr_t), 0, &channel), 0);
    for (int round = 0; round < 20; round++) {
        weft_task *sender[10], *receiver[10];
        intptr_t sent = 0, received = 0;
        for (int i = 0; i < 10; i++) {
            sender[i] = fiber_go(rt, send_late, (void *)(intptr_t)(round * 10 + i));
            receiver[i] = fiber_go(rt, recv_late, (void *)(intptr_t)(round * 10 + i));
        }
        for (int i = 0; i < 10; i++) {
            weft_result of_sender = fixture_finish(sender[i]), of_receiver = fixture_finish(receiver[i]);
            CHECK(of_sender.status == 0 && of_receiver.status == 0);
            sent += (intptr_t)of_sender.value;
            received += (intptr_t)of_receiver.value;
        }
        CHECK_EQ(sent, received);
    }
    CHECK_EQ(weft_chan_destroy(channel), 0);
    fixture_end(rt);
}

static int send_on(void *arg) {
    intptr_t value = 60;
    weft_chan *ch = arg;
    int error = weft_chan_send(ch, &value, WEFT_NEVER);
    weft_chan_drop(ch);
    return error;
}

static int recv_on(void *arg) {
    intptr_t value = 0;
    weft_chan *ch = arg;
    int error = weft_chan_recv(ch, &value, WEFT_NEVER);
    weft_chan_drop(ch);
    return error ? error : (int)value;
}

/* The last user frees the channel while it may still be published: the control thread does not touch it any more. */
API_TEST(reactor_channel_freed, "R17", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 300; i++) {
        weft_chan *ch;
        intptr_t value = 0;
        REQUIRE_EQ(weft_chan_create(sizeof(intptr_t), (size_t)i % 3, &ch), 0);
        weft_task *sender = fiber_go(rt, send_on, weft_chan_clone(ch)), *receiver = NULL;
        if (i % 2) {
            REQUIRE_EQ(weft_chan_recv(ch, &value, WEFT_NEVER), 0);
            CHECK_EQ(value, 60);
        } else {
            receiver = fiber_go(rt, recv_on, weft_chan_clone(ch));
        }
        weft_chan_drop(ch);
        CHECK_EQ(fixture_finish(sender).status, 0);
        if (receiver)
            CHECK_EQ(value_of(receiver), 60);
    }
    fixture_end(rt);
}
