/* chan_poll.c - poll tasks on channels: they wait without suspending, and what was granted to one that ends goes back. */
#include "chan.h"

static bool is_idle(weft_task *task) { return strcmp(weft_task_state(task), "idle") == 0; }

/* -- Exactly once ------------------------------------------------------------------------------------------ */

struct shared {
    weft_chan *ch;
    struct tally *tally;
    atomic_uint next, senders;
};

struct talker {
    struct shared *shared;
    weft_wait wait;
    int number; /* that is being sent, or -1 */
    unsigned turns;
};

static void end_wait(void *state) { weft_wait_end(&((struct talker *)state)->wait); }

static weft_task *talk(weft_runtime *rt, weft_poll_fn poll, struct shared *shared) {
    struct talker talker = {.shared = shared, .number = -1};
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task = NULL;
    spec.poll = poll;
    spec.state = &talker;
    spec.state_size = sizeof talker;
    spec.drop = end_wait;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    return task;
}

static weft_poll poll_send(weft_task *self, void *state) {
    struct talker *t = state;
    for (;;) {
        if (t->number < 0) {
            t->number = (int)atomic_fetch_add(&t->shared->next, 1);
            if ((unsigned)t->number >= t->shared->tally->count) {
                atomic_fetch_sub(&t->shared->senders, 1);
                return weft_done(self, 0, NULL);
            }
        }
        int copy = t->number; /* the channel does not look at it after the call */
        int error = weft_chan_send_poll(t->shared->ch, self, &t->wait, &copy);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        REQUIRE_EQ(error, 0);
        t->number = -1;
    }
}

static weft_poll poll_recv(weft_task *self, void *state) {
    struct talker *t = state;
    for (;;) {
        int number, error = weft_chan_recv_poll(t->shared->ch, self, &t->wait, &number);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        if (error == -EPIPE)
            return weft_done(self, 0, NULL);
        REQUIRE_EQ(error, 0);
        tally_add(t->shared->tally, number);
        if (++t->turns % 7 == 0)
            return WEFT_YIELD;
    }
}

static int fiber_send(void *arg) {
    struct shared *shared = arg;
    for (unsigned number; (number = atomic_fetch_add(&shared->next, 1)) < shared->tally->count;)
        REQUIRE_EQ(send_int(shared->ch, (int)number), 0);
    atomic_fetch_sub(&shared->senders, 1);
    return 0;
}

static int fiber_recv(void *arg) {
    struct shared *shared = arg;
    for (int number; (number = recv_int(shared->ch)) != -EPIPE;)
        tally_add(shared->tally, number);
    return 0;
}

static void exchange(weft_runtime *rt, size_t capacity) {
    struct shared shared = {
        .ch = chan_of_ints(capacity), .tally = tally_new(fixture_is_slow() ? 600 : 6000), .senders = 6};
    weft_task *tasks[12];
    for (int i = 0; i < 3; i++) {
        tasks[4 * i] = talk(rt, poll_recv, &shared);
        tasks[4 * i + 1] = talk(rt, poll_send, &shared);
        tasks[4 * i + 2] = fiber_go(rt, fiber_recv, &shared);
        tasks[4 * i + 3] = fiber_go(rt, fiber_send, &shared);
    }
    REQUIRE_EVENTUALLY(shared.senders == 0);
    weft_chan_close(shared.ch);
    for (int i = 0; i < 12; i++)
        CHECK_EQ(fixture_finish(tasks[i]).status, 0);
    CHECK_EQ(weft_chan_destroy(shared.ch), 0);
    tally_end(shared.tally);
}

API_TEST(chan_lost_wake_poll_tasks, "R27 R29 R33", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    exchange(rt, 0);
    exchange(rt, 1);
    exchange(rt, 10);
    exchange(rt, WEFT_UNBOUNDED);
    fixture_end(rt);
}

/* -- A task that is cancelled ------------------------------------------------------------------------------ */

/* Woken by hand, it looks again and still has to wait. */
static weft_poll recv_forgetful(weft_task *self, void *state) {
    struct talker *t = state;
    int number;
    CHECK_EQ(weft_chan_recv_poll(t->shared->ch, self, &t->wait, &number), -EAGAIN);
    return WEFT_PENDING;
}

/* Its worker is kept busy, so that it is served, then cancelled, and only then could have been polled. */
API_TEST(chan_granted_value_goes_back, "R29", .workers = {1}, .sched = "ring deque fifo") {
    for (size_t capacity = 0; capacity < 3; capacity++) {
        weft_runtime *rt = fixture_begin_patient();
        struct shared shared = {.ch = chan_of_ints(capacity)};
        weft_task *waiters[4];
        for (int i = 0; i < 4; i++) {
            waiters[i] = talk(rt, recv_forgetful, &shared);
            REQUIRE_EVENTUALLY(is_idle(waiters[i]));
        }
        struct blocker blocker = {false, false};
        weft_task *busy = fixture_go(rt, fixture_block, &blocker);
        REQUIRE_EVENTUALLY(blocker.entered);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(send_int(shared.ch, i), 0); /* one to each */
        CHECK_EQ(weft_chan_length(shared.ch), 0);
        CHECK_EQ(weft_chan_destroy(shared.ch), -EBUSY);
        for (size_t i = 0; i < capacity; i++)
            CHECK_EQ(send_int(shared.ch, 10 + (int)i), 0); /* and the buffer is full */
        for (int i = 3; i >= 0; i--)
            weft_task_cancel(waiters[i]);
        blocker.release = true;
        for (int i = 0; i < 4; i++)
            CHECK_EQ(fixture_finish(waiters[i]).status, -ECANCELED);
        fixture_finish(busy);
        CHECK_EQ(weft_chan_length(shared.ch), 4 + capacity);
        int more = 99;
        CHECK_EQ(weft_chan_send(shared.ch, &more, WEFT_NOW), -ETIMEDOUT);
        weft_chan_close(shared.ch);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(recv_int(shared.ch), i);
        for (size_t i = 0; i < capacity; i++)
            CHECK_EQ(recv_int(shared.ch), 10 + (int)i);
        CHECK_EQ(recv_int(shared.ch), -EPIPE);
        CHECK_EQ(weft_chan_destroy(shared.ch), 0);
        fixture_end(rt);
    }
}

/* Cancelled at any moment: every number arrives all the same. */
API_TEST(chan_cancelled_poll_tasks_lose_nothing, "R29 R30", .workers = {1, 2, 4}) {
    for (size_t capacity = 0; capacity < 3; capacity++) {
        weft_runtime *rt = fixture_begin_patient();
        struct shared shared = {
            .ch = chan_of_ints(capacity), .tally = tally_new(fixture_is_slow() ? 300 : 2000), .senders = 2};
        weft_task *senders[2] = {talk(rt, poll_send, &shared), fiber_go(rt, fiber_send, &shared)};
        weft_task *receivers[6] = {NULL};
        uint64_t random = harness_seed();
        while (tally_sum(shared.tally) < shared.tally->count) {
            weft_task **one = &receivers[harness_random(&random) % 6];
            if (*one) {
                weft_task_cancel(*one);
                fixture_finish(*one);
            }
            *one = talk(rt, poll_recv, &shared);
        }
        weft_chan_close(shared.ch);
        for (int i = 0; i < 6; i++)
            if (receivers[i])
                fixture_finish(receivers[i]);
        for (int i = 0; i < 2; i++)
            fixture_finish(senders[i]);
        CHECK_EQ(weft_chan_destroy(shared.ch), 0);
        tally_end(shared.tally);
        fixture_end(rt);
    }
}

/* A sender that ends while it waits has not sent. */
static weft_poll send_five(weft_task *self, void *state) {
    struct talker *t = state;
    int five = 5;
    int error = weft_chan_send_poll(t->shared->ch, self, &t->wait, &five);
    if (error == -EAGAIN)
        return WEFT_PENDING;
    return weft_done(self, error, NULL);
}

API_TEST(chan_poll_sender_ends_or_closes, "R29 R30", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    struct shared shared = {.ch = chan_of_ints(1)};
    CHECK_EQ(send_int(shared.ch, 1), 0);
    weft_task *a = talk(rt, send_five, &shared);
    REQUIRE_EVENTUALLY(is_idle(a));
    weft_task_cancel(a);
    CHECK_EQ(fixture_finish(a).status, -ECANCELED);
    CHECK_EQ(recv_int(shared.ch), 1);
    CHECK_EQ(weft_chan_length(shared.ch), 0);
    CHECK_EQ(send_int(shared.ch, 2), 0);
    a = talk(rt, send_five, &shared);
    REQUIRE_EVENTUALLY(is_idle(a));
    weft_chan_close(shared.ch);
    CHECK_EQ(fixture_finish(a).status, -EPIPE);
    CHECK_EQ(recv_int(shared.ch), 2);
    CHECK_EQ(weft_chan_destroy(shared.ch), 0);
    fixture_end(rt);
}

/* Several waits at once: a select of poll tasks. */
struct either {
    weft_chan *a, *b;
    weft_wait wait_a, wait_b;
};

static void end_either(void *state) {
    weft_wait_end(&((struct either *)state)->wait_a);
    weft_wait_end(&((struct either *)state)->wait_b);
}

static weft_poll recv_either(weft_task *self, void *state) {
    struct either *e = state;
    int value;
    int error = weft_chan_recv_poll(e->a, self, &e->wait_a, &value);
    if (error == -EAGAIN)
        error = weft_chan_recv_poll(e->b, self, &e->wait_b, &value);
    if (error == -EAGAIN)
        return WEFT_PENDING;
    return weft_done(self, error, (void *)(intptr_t)value);
}

API_TEST(chan_poll_waits_for_two, "R29", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct either either = {.a = chan_of_ints(1), .b = chan_of_ints(1)};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = recv_either;
    spec.state = &either;
    spec.state_size = sizeof either;
    spec.drop = end_either;
    for (int i = 0; i < 100; i++) {
        weft_task *task = NULL;
        REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
        CHECK_EQ(send_int(either.a, 1), 0);
        CHECK_EQ(send_int(either.b, 2), 0);
        int got = (int)(intptr_t)fixture_finish(task).value;
        CHECK(got == 1 || got == 2);
        CHECK_EQ(recv_int(got == 1 ? either.b : either.a), 3 - got); /* the other one is still there */
        CHECK_EQ(weft_chan_length(either.a) + weft_chan_length(either.b), 0);
    }
    CHECK_EQ(weft_chan_destroy(either.a), 0);
    CHECK_EQ(weft_chan_destroy(either.b), 0);
    fixture_end(rt);
}

/* -- A wait that was ended is as if it had never begun: nothing is in the channel, and its room serves again ---------------- */

static weft_poll end_and_begin_again(weft_task *self, void *state) {
    weft_chan *ch = state;
    weft_wait wait = {{0}};
    int value = 0;
    for (int round = 1; round < 4; round++) {
        CHECK_EQ(weft_chan_recv_poll(ch, self, &wait, &value), -EAGAIN);
        weft_wait_end(&wait);
        CHECK_EQ(weft_chan_length(ch), 0);
        CHECK_EQ(weft_chan_send_poll(ch, self, &wait, &round), 0); /* not to who has gone */
        CHECK_EQ(weft_chan_length(ch), 1);
        CHECK_EQ(weft_chan_send_poll(ch, self, &wait, &(int){100}), -EAGAIN);
        weft_wait_end(&wait);
        CHECK_EQ(weft_chan_recv_poll(ch, self, &wait, &value), 0);
        CHECK_EQ(value, round);
        CHECK_EQ(weft_chan_length(ch), 0); /* what was not sent does not come */
    }
    return weft_done(self, 0, NULL);
}

API_TEST(chan_poll_wait_begins_again, "R29", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_chan *ch = chan_of_ints(1);
    CHECK_EQ(fixture_finish(fixture_go(rt, end_and_begin_again, ch)).status, 0);
    weft_chan_drop(ch);
    fixture_end(rt);
}
