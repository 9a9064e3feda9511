/* chan_many.c - several values in one call. */
#include "chan.h"

TEST(chan_many_takes_what_is_there, "R26 R29") {
    weft_chan *ch = chan_of_ints(10);
    int values[20], got[20];
    for (int i = 0; i < 20; i++)
        values[i] = i;
    CHECK_EQ(weft_chan_send_many(ch, values, 0, WEFT_NEVER), 0);
    CHECK_EQ(weft_chan_recv_many(ch, got, 0, WEFT_NEVER), 0);
    CHECK_EQ(weft_chan_recv_many(ch, got, 5, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_chan_send_many(ch, values, 7, WEFT_NEVER), 7);
    CHECK_EQ(weft_chan_send_many(ch, values + 7, 13, WEFT_NOW), 3); /* what there is room for */
    CHECK_EQ(weft_chan_send_many(ch, values + 10, 10, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_chan_recv_many(ch, got, 4, WEFT_NEVER), 4);
    CHECK_EQ(weft_chan_recv_many(ch, got + 4, 16, WEFT_NEVER), 6);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(got[i], i);
    CHECK_EQ(weft_chan_send_many(ch, values, 2, WEFT_NEVER), 2);
    weft_chan_close(ch);
    CHECK_EQ(weft_chan_send_many(ch, values, 2, WEFT_NEVER), -EPIPE);
    CHECK_EQ(weft_chan_recv_many(ch, got, 20, WEFT_NEVER), 2);
    CHECK_EQ(weft_chan_recv_many(ch, got, 20, WEFT_NEVER), -EPIPE);
    CHECK_EQ(weft_chan_send_many(ch, values, (size_t)1 << 40, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_chan_recv_many(ch, got, (size_t)1 << 40, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_chan_destroy(ch), 0);
}

TEST(chan_many_unbounded, "R26 R29") {
    weft_chan *ch = chan_of_ints(WEFT_UNBOUNDED);
    static int values[5000], got[5000];
    for (int i = 0; i < 5000; i++)
        values[i] = i;
    CHECK_EQ(weft_chan_send_many(ch, values, 5000, WEFT_NOW), 5000);
    CHECK_EQ(weft_chan_recv_many(ch, got, 1, WEFT_NOW), 1);
    CHECK_EQ(weft_chan_recv_many(ch, got + 1, 9999, WEFT_NOW), 4999);
    CHECK_EQ(memcmp(values, got, sizeof got), 0);
    CHECK_EQ(weft_chan_destroy(ch), 0);
}

#define BATCH 37

struct stream {
    weft_chan *ch;
    int count, batch;
    atomic_int got;
};

static int send_stream(void *arg) {
    struct stream *s = arg;
    int values[BATCH];
    for (int at = 0; at < s->count;) {
        int n = s->count - at < s->batch ? s->count - at : s->batch;
        for (int i = 0; i < n; i++)
            values[i] = at + i;
        REQUIRE_EQ(weft_chan_send_many(s->ch, values, (size_t)n, WEFT_NEVER), n);
        at += n;
    }
    weft_chan_close(s->ch);
    return 0;
}

static int recv_stream(void *arg) {
    struct stream *s = arg;
    int values[BATCH], at = 0;
    for (int n; (n = weft_chan_recv_many(s->ch, values, (size_t)s->batch, WEFT_NEVER)) != -EPIPE;) {
        REQUIRE(n > 0 && n <= s->batch);
        for (int i = 0; i < n; i++)
            REQUIRE_EQ(values[i], at++);
    }
    REQUIRE_EQ(at, s->count);
    return 0;
}

API_TEST(chan_many_in_order, "R29", .workers = {1, 2}) {
    static const size_t capacities[] = {0, 1, 10, 100, WEFT_UNBOUNDED};
    weft_runtime *rt = fixture_begin_patient();
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++)
        for (int batch = 1; batch <= BATCH; batch += 9) {
            struct stream s = {.ch = chan_of_ints(capacities[i]), .count = 1000, .batch = batch};
            weft_task *receiver = fiber_go(rt, recv_stream, &s);
            weft_task *sender = fiber_go(rt, send_stream, &s);
            fixture_finish(receiver);
            fixture_finish(sender);
            CHECK_EQ(weft_chan_destroy(s.ch), 0);
        }
    fixture_end(rt);
}

/* One call serves more receivers, or takes from more senders, than are woken in one turn. */
static int recv_a_one(void *arg) {
    struct stream *s = arg;
    REQUIRE_EQ(recv_int(s->ch), 1);
    atomic_fetch_add(&s->got, 1);
    return 0;
}

static int send_a_one(void *arg) {
    struct stream *s = arg;
    REQUIRE_EQ(send_int(s->ch, 1), 0);
    atomic_fetch_add(&s->got, 1);
    return 0;
}

static bool are_idle(weft_task **tasks, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(weft_task_state(tasks[i]), "idle") != 0)
            return false;
    return true;
}

API_TEST(chan_many_meets_many, "R27 R29", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct stream s = {.ch = chan_of_ints(0)};
    weft_task *tasks[100];
    int ones[100];
    for (int i = 0; i < 100; i++) {
        ones[i] = 1;
        tasks[i] = fiber_go(rt, recv_a_one, &s);
    }
    REQUIRE_EVENTUALLY(are_idle(tasks, 100));
    CHECK_EQ(weft_chan_send_many(s.ch, ones, 100, WEFT_NOW), 100);
    for (int i = 0; i < 100; i++)
        fixture_finish(tasks[i]);
    CHECK_EQ(s.got, 100);
    for (int i = 0; i < 100; i++)
        tasks[i] = fiber_go(rt, send_a_one, &s);
    REQUIRE_EVENTUALLY(are_idle(tasks, 100));
    CHECK_EQ(weft_chan_recv_many(s.ch, ones, 100, WEFT_NOW), 100);
    for (int i = 0; i < 100; i++)
        fixture_finish(tasks[i]);
    CHECK_EQ(s.got, 200);
    CHECK_EQ(weft_chan_destroy(s.ch), 0);
    fixture_end(rt);
}

/* Part of it was sent when the channel is closed, or the sender is late: it says how much. */
static int send_thirty(void *arg) {
    struct stream *s = arg;
    int values[30] = {0};
    weft_fiber_result((void *)(intptr_t)weft_chan_send_many(s->ch, values, 30, WEFT_NEVER));
    return 0;
}

API_TEST(chan_many_in_part, "R30", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct stream s = {.ch = chan_of_ints(10)};
    weft_task *sender = fiber_go(rt, send_thirty, &s);
    REQUIRE_EVENTUALLY(are_idle(&sender, 1));
    weft_chan_close(s.ch);
    CHECK_EQ((intptr_t)fixture_finish(sender).value, 10);
    CHECK_EQ(weft_chan_length(s.ch), 10);
    CHECK_EQ(weft_chan_destroy(s.ch), 0);
    s.ch = chan_of_ints(10);
    sender = fiber_go(rt, send_thirty, &s);
    REQUIRE_EVENTUALLY(are_idle(&sender, 1));
    CHECK_EQ(recv_int(s.ch), 0);
    REQUIRE_EVENTUALLY(are_idle(&sender, 1));
    weft_task_cancel(sender);
    CHECK_EQ((intptr_t)fixture_finish(sender).value, 11);
    CHECK_EQ(weft_chan_destroy(s.ch), 0);
    fixture_end(rt);
}

/* -- The end ------------------------------------------------------------------------------------------------ */

static int take_many(void *arg) {
    int got[4];
    REQUIRE_EQ(weft_chan_recv_many(arg, got, 4, WEFT_NEVER), 1);
    CHECK_EQ(got[0], 7);
    return 0;
}

/* Who has sent the last value may free the channel, whatever the receiver had room for. */
static int give_and_free(void *arg) {
    (void)arg;
    for (int i = 0; i < 100; i++) {
        weft_chan *ch = chan_of_ints(i % 2 ? 0 : 4);
        weft_task *task = NULL;
        REQUIRE_EQ(weft_fiber_go(NULL, take_many, ch, &task), 0);
        while (strcmp(weft_task_state(task), "idle") != 0)
            weft_yield();
        REQUIRE_EQ(send_int(ch, 7), 0);
        int error;
        while ((error = weft_chan_destroy(ch)) == -EBUSY)
            weft_yield(); /* its value is still in the channel */
        CHECK_EQ(error, 0);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    return 0;
}

API_TEST(chan_many_ends_with_its_last_value, "R27", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    fiber_run(rt, give_and_free, NULL);
    fixture_end(rt);
}
