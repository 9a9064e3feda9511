/* chan_together.c - channels beside each other's rules: calls that may not wait any more, values that stay together, a channel that runtimes of two kinds share. */
#include "chan.h"

/* -- A deadline that has passed, and a fiber that is cancelled: what can be done at once is done ----------------------------- */

static weft_chan *channel;

/* `late`: the deadline of each call; `refused`: what those that would have to wait return. */
static void use_at_once(weft_deadline late, int refused) {
    int value = 0, values[4] = {10, 11, 12, 13}, got[4];
    CHECK_EQ(weft_chan_recv(channel, &value, late), refused);
    CHECK_EQ(weft_chan_recv_many(channel, got, 4, late), refused);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_chan_send(channel, &values[i], late), 0);
    CHECK_EQ(weft_chan_send_many(channel, values + 2, 2, late), 2); /* there is room for 4 */
    CHECK_EQ(weft_chan_send(channel, &value, late), refused);
    CHECK_EQ(weft_chan_send_many(channel, values, 4, late), refused);
    CHECK_EQ(weft_chan_recv(channel, &value, late), 0);
    CHECK_EQ(value, 10);
    CHECK_EQ(weft_chan_send_many(channel, values, 4, late), 1); /* as many as have room */
    CHECK_EQ(weft_chan_recv_many(channel, got, 4, late), 4);
    CHECK(got[0] == 11 && got[1] == 12 && got[2] == 13 && got[3] == 10);
    CHECK_EQ(weft_chan_recv(channel, &value, late), refused);
}

static int recv_one(void *arg) {
    (void)arg;
    return recv_int(channel);
}

/* The same beside a fiber that waits: it is served at once, and then the next one is. */
static void serve_waiter(weft_deadline late) {
    weft_task *waiter = fiber_go(weft_runtime_current(), recv_one, NULL);
    while (strcmp(weft_task_state(waiter), "idle"))
        weft_yield();
    int value = 77;
    CHECK_EQ(weft_chan_send(channel, &value, late), 0);
    weft_result result = {1, NULL};
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_shield(self), 0);
    REQUIRE_EQ(weft_join(waiter, &result, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_unshield(self), 0);
    weft_task_drop(waiter);
    CHECK_EQ((intptr_t)result.value, 77);
}

static int at_once(void *arg) {
    (void)arg;
    use_at_once(WEFT_NOW, -ETIMEDOUT);
    use_at_once(1, -ETIMEDOUT); /* long past */
    serve_waiter(1);
    serve_waiter(WEFT_NOW);
    weft_task_cancel(weft_task_self());
    use_at_once(WEFT_NEVER, -ECANCELED);
    return 0;
}

API_TEST(chan_at_once, "R26 R28", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    channel = chan_of_ints(4);
    fiber_run(rt, at_once, NULL);
    CHECK_EQ(weft_chan_destroy(channel), 0);
    fixture_end(rt);
}

static int cancelled_beside_waiter(void *arg) {
    weft_task *waiter = fiber_go(weft_runtime_current(), recv_one, NULL);
    while (strcmp(weft_task_state(waiter), "idle"))
        weft_yield();
    *(weft_task **)arg = waiter;
    weft_task_cancel(weft_task_self());
    int value = 78;
    return weft_chan_send(channel, &value, WEFT_NEVER);
}

/* Without a buffer, too: a cancelled fiber hands its value to one that waits. */
API_TEST(chan_at_once_rendezvous, "R27 R28", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *waiter = NULL;
    channel = chan_of_ints(0);
    fiber_run(rt, cancelled_beside_waiter, &waiter);
    CHECK_EQ((intptr_t)fixture_finish(waiter).value, 78);
    CHECK_EQ(weft_chan_destroy(channel), 0);
    fixture_end(rt);
}

/* -- Values of one call stay together ---------------------------------------------------------------------------------------- */

enum { SENDERS = 4, BATCHES = 2000, BATCH = 8, ALL = SENDERS * BATCHES * BATCH };

static atomic_int ready; /* senders that have begun: they begin together */

static int send_batches(void *number) {
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < SENDERS)
        weft_yield();
    for (int batch = 0; batch < BATCHES; batch++) {
        int values[BATCH];
        for (int i = 0; i < BATCH; i++)
            values[i] = ((int)(intptr_t)number * BATCHES + batch) * BATCH + i;
        REQUIRE_EQ(weft_chan_send_many(channel, values, BATCH, WEFT_NEVER), BATCH); /* there is always room */
    }
    return 0;
}

static int recv_batches(void *arg) {
    (void)arg;
    for (int at = 0, before = 0; at < ALL; at++) {
        int value = recv_int(channel);
        REQUIRE(value >= 0);
        if (at % BATCH == 0)
            REQUIRE_EQ(value % BATCH, 0); /* a batch begins */
        else
            REQUIRE_EQ(value, before + 1);
        before = value;
    }
    return 0;
}

API_TEST(chan_many_stays_together, "R26 R29", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int beside = 0; beside < 2; beside++) { /* they are received when all are there, or meanwhile */
        channel = chan_of_ints(ALL);
        atomic_store(&ready, 0);
        weft_task *receiver = beside ? fiber_go(rt, recv_batches, NULL) : NULL, *sender[SENDERS];
        for (int i = 0; i < SENDERS; i++)
            sender[i] = fiber_go(rt, send_batches, (void *)(intptr_t)i);
        for (int i = 0; i < SENDERS; i++)
            CHECK_EQ(fixture_finish(sender[i]).status, 0);
        if (!receiver)
            receiver = fiber_go(rt, recv_batches, NULL);
        CHECK_EQ(fixture_finish(receiver).status, 0);
        CHECK_EQ(weft_chan_destroy(channel), 0);
    }
    fixture_end(rt);
}

/* -- One channel, two runtimes: one with a control thread, one without -------------------------------------------------------- */

enum { RECEIVERS = 4, VALUES = 20000 };

static struct tally *tally;
static atomic_int got, sent;

/* Deadlines strike at any moment: also when a value lies in the buffer that the control thread is yet to give to the one who waits. */
static int recv_hastily(void *arg) {
    int value;
    (void)arg;
    for (unsigned turn = 0;; turn++) {
        int error = weft_chan_recv(channel, &value, weft_after(500 * (1 + turn % 40)));
        if (error == -EPIPE)
            return 0;
        REQUIRE(error == 0 || error == -ETIMEDOUT);
        if (!error) {
            tally_add(tally, value);
            atomic_fetch_add(&got, 1);
        }
    }
}

static int send_all(void *arg) {
    (void)arg;
    for (int value; (value = atomic_fetch_add(&sent, 1)) < VALUES;) {
        REQUIRE_EQ(send_int(channel, value), 0);
        for (volatile int spin = value % 1024; spin > 0; spin--) /* so that receivers wait */
            ;
    }
    return 0;
}

static weft_runtime *begin_as(weft_sched sched) { /* the environment would decide for both alike */
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = sched;
    config.workers = 2;
    return fixture_begin(&config);
}

static void share(weft_sched senders, weft_sched receivers) {
    weft_runtime *from = begin_as(senders), *to = begin_as(receivers);
    weft_task *sender[SENDERS], *receiver[RECEIVERS];
    channel = chan_of_ints(4);
    tally = tally_new(VALUES);
    atomic_store(&got, 0);
    atomic_store(&sent, 0);
    for (int i = 0; i < RECEIVERS; i++)
        receiver[i] = fiber_go(to, recv_hastily, NULL);
    for (int i = 0; i < SENDERS; i++)
        sender[i] = fiber_go(from, send_all, NULL);
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(fixture_finish(sender[i]).status, 0);
    REQUIRE_EVENTUALLY(atomic_load(&got) == VALUES); /* none was given to a receiver that had given up */
    weft_chan_close(channel);
    for (int i = 0; i < RECEIVERS; i++)
        CHECK_EQ(fixture_finish(receiver[i]).status, 0);
    tally_end(tally);
    CHECK_EQ(weft_chan_destroy(channel), 0);
    fixture_end(from);
    fixture_end(to);
}

TEST(chan_shared_with_reactor, "R26 R28 R29") {
    share(WEFT_SCHED_REACTOR, WEFT_SCHED_RING);
    share(WEFT_SCHED_RING, WEFT_SCHED_REACTOR);
    share(WEFT_SCHED_REACTOR, WEFT_SCHED_REACTOR);
}
