/* chan_wait.c - waiting on channels: who is served first, close, deadlines, cancellation; nothing is lost, nothing comes twice. */
#include "chan.h"

static bool is_idle(weft_task *task) { return strcmp(weft_task_state(task), "idle") == 0; }

/* -- Order of waiters -------------------------------------------------------------------------------------- */

#define QUEUE 20

struct queued {
    weft_chan *ch;
    int number, got;
    int result;
};

static int queue_recv(void *arg) {
    struct queued *q = arg;
    q->result = weft_chan_recv(q->ch, &q->got, WEFT_NEVER);
    return 0;
}

static int queue_send(void *arg) {
    struct queued *q = arg;
    q->result = weft_chan_send(q->ch, &q->number, WEFT_NEVER);
    return 0;
}

static void start_queue(weft_runtime *rt, weft_chan *ch, weft_fiber_fn fn, struct queued *queue, weft_task **tasks) {
    for (int i = 0; i < QUEUE; i++) {
        queue[i] = (struct queued){ch, i, -1, 1};
        tasks[i] = fiber_go(rt, fn, &queue[i]);
        REQUIRE_EVENTUALLY(is_idle(tasks[i])); /* so they come one after the other */
    }
}

API_TEST(chan_receivers_in_arrival_order, "R29", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (size_t capacity = 0; capacity < 3; capacity++) {
        weft_chan *ch = chan_of_ints(capacity);
        struct queued queue[QUEUE];
        weft_task *tasks[QUEUE];
        start_queue(rt, ch, queue_recv, queue, tasks);
        weft_task_cancel(tasks[3]); /* one leaves from the middle, one from the end: the order of the others stays */
        fixture_finish(tasks[3]);
        weft_task_cancel(tasks[QUEUE - 1]);
        fixture_finish(tasks[QUEUE - 1]);
        for (int i = 0; i < QUEUE; i++)
            if (i != 3 && i != QUEUE - 1)
                CHECK_EQ(send_int(ch, 100 + i), 0);
        for (int i = 0; i < QUEUE; i++)
            if (i != 3 && i != QUEUE - 1) {
                fixture_finish(tasks[i]);
                CHECK_EQ(queue[i].got, 100 + i);
                CHECK_EQ(queue[i].result, 0);
            } else {
                CHECK_EQ(queue[i].got, -1);
                CHECK_EQ(queue[i].result, -ECANCELED);
            }
        CHECK_EQ(weft_chan_destroy(ch), 0);
    }
    fixture_end(rt);
}

API_TEST(chan_senders_in_arrival_order, "R29", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (size_t capacity = 0; capacity < 3; capacity++) {
        weft_chan *ch = chan_of_ints(capacity);
        struct queued queue[QUEUE];
        weft_task *tasks[QUEUE];
        for (size_t i = 0; i < capacity; i++)
            CHECK_EQ(send_int(ch, -2), 0);
        start_queue(rt, ch, queue_send, queue, tasks);
        weft_task_cancel(tasks[5]);
        fixture_finish(tasks[5]);
        CHECK_EQ(queue[5].result, -ECANCELED);
        for (size_t i = 0; i < capacity; i++)
            CHECK_EQ(recv_int(ch), -2);
        for (int i = 0; i < QUEUE; i++)
            if (i != 5) {
                CHECK_EQ(recv_int(ch), i);
                fixture_finish(tasks[i]);
                CHECK_EQ(queue[i].result, 0);
            }
        CHECK_EQ(weft_chan_length(ch), 0);
        CHECK_EQ(weft_chan_destroy(ch), 0);
    }
    fixture_end(rt);
}

/* -- Close with many waiters --------------------------------------------------------------------------------- */

#define MANY 1000

struct crowd {
    weft_chan *ch;
    bool send;
    atomic_uint waiting, released;
};

static int wait_for_close(void *arg) {
    struct crowd *crowd = arg;
    atomic_fetch_add(&crowd->waiting, 1);
    int value = 1;
    int error =
        crowd->send ? weft_chan_send(crowd->ch, &value, WEFT_NEVER) : weft_chan_recv(crowd->ch, &value, WEFT_NEVER);
    CHECK_EQ(error, -EPIPE);
    atomic_fetch_add(&crowd->released, 1);
    return 0;
}

static void crowd_thread(unsigned index, void *arg) {
    struct crowd *crowd = arg;
    if (index < 3) {
        wait_for_close(crowd);
        return;
    }
    REQUIRE_EVENTUALLY(crowd->waiting == MANY + 3);
    weft_chan_close(crowd->ch);
    weft_chan_close(crowd->ch);
}

API_TEST(chan_close_with_a_thousand_waiters, "R30", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int send = 0; send < 2; send++) {
        struct crowd crowd = {.ch = chan_of_ints((size_t)send), .send = send};
        if (send)
            CHECK_EQ(send_int(crowd.ch, 0), 0); /* full */
        for (int i = 0; i < MANY; i++)
            REQUIRE_EQ(weft_fiber_go(rt, wait_for_close, &crowd, NULL), 0);
        harness_threads(4, crowd_thread, &crowd);
        REQUIRE_EVENTUALLY(crowd.released == MANY + 3);
        CHECK_EQ(recv_int(crowd.ch), send ? 0 : -EPIPE);
        REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
        CHECK_EQ(weft_chan_destroy(crowd.ch), 0);
    }
    fixture_end(rt);
}

/* -- Deadlines ------------------------------------------------------------------------------------------------- */

static int deadlines(void *arg) {
    weft_chan *ch = arg;
    int value = 1;
    REQUIRE_EQ(weft_chan_recv(ch, &value, WEFT_NOW), -ETIMEDOUT);
    REQUIRE_EQ(weft_chan_recv(ch, &value, 1), -ETIMEDOUT); /* long ago */
    int64_t began = weft_now();
    REQUIRE_EQ(weft_chan_recv(ch, &value, weft_after(2000000)), -ETIMEDOUT);
    REQUIRE_GE(weft_now() - began, 2000000);
    while (weft_chan_send(ch, &value, WEFT_NOW) == 0)
        ;
    REQUIRE_EQ(weft_chan_send(ch, &value, 1), -ETIMEDOUT);
    began = weft_now();
    REQUIRE_EQ(weft_chan_send(ch, &value, weft_after(2000000)), -ETIMEDOUT);
    REQUIRE_GE(weft_now() - began, 2000000);
    return 0;
}

API_TEST(chan_deadlines, "R28", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (size_t capacity = 0; capacity < 2; capacity++) {
        weft_chan *ch = chan_of_ints(capacity);
        fiber_run(rt, deadlines, ch);
        CHECK_EQ(weft_chan_length(ch), capacity);
        CHECK_EQ(weft_chan_destroy(ch), 0);
    }
    fixture_end(rt);
}

static weft_poll must_not_wait(weft_task *self, void *state) {
    int value = 0;
    CHECK_EQ(weft_chan_recv(state, &value, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_chan_send(state, &value, WEFT_NOW), 0);
    CHECK_EQ(weft_chan_send(state, &value, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_chan_recv(state, &value, WEFT_NEVER), 0);
    CHECK_EQ(weft_chan_recv(state, &value, WEFT_NOW), -ETIMEDOUT);
    return weft_done(self, 0, NULL);
}

API_TEST(chan_does_not_stop_a_poll, "R28", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_chan *ch = chan_of_ints(1);
    fixture_finish(fixture_go(rt, must_not_wait, ch));
    CHECK_EQ(weft_chan_destroy(ch), 0);
    fixture_end(rt);
}

/* -- A cancelled fiber ------------------------------------------------------------------------------------------- */

static int cancelled(void *arg) {
    weft_chan *ch = arg;
    int value = 3;
    weft_task_cancel(weft_task_self());
    REQUIRE_EQ(weft_chan_send(ch, &value, WEFT_NEVER), 0); /* there is room: it does not wait */
    REQUIRE_EQ(weft_chan_send(ch, &value, WEFT_NEVER), -ECANCELED);
    REQUIRE_EQ(weft_chan_recv(ch, &value, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_chan_recv(ch, &value, WEFT_NEVER), -ECANCELED);
    REQUIRE_EQ(weft_shield(weft_task_self()), 0);
    REQUIRE_EQ(weft_chan_recv(ch, &value, weft_after(1000)), -ETIMEDOUT);
    REQUIRE_EQ(weft_unshield(weft_task_self()), 0);
    return 0;
}

API_TEST(chan_in_a_cancelled_fiber, "R28", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_chan *ch = chan_of_ints(1);
    fiber_run(rt, cancelled, ch);
    CHECK_EQ(weft_chan_destroy(ch), 0);
    fixture_end(rt);
}

/* -- Nothing is lost: hand-over against cancel, deadline, close ---------------------------------------------------- */

struct race {
    weft_chan *ch;
    struct tally *tally;
    pthread_mutex_t lock;
    unsigned next; /* number to send */
    unsigned unsent[32]; /* ... after these, whose senders were cancelled */
    unsigned unsent_count;
    atomic_uint senders;
    bool hasty;
};

static int race_number(struct race *race) {
    pthread_mutex_lock(&race->lock);
    int number = race->unsent_count                ? (int)race->unsent[--race->unsent_count]
                 : race->next < race->tally->count ? (int)race->next++
                                                   : -1;
    pthread_mutex_unlock(&race->lock);
    return number;
}

static int race_send(void *arg) {
    struct race *race = arg;
    for (int number, error; (number = race_number(race)) >= 0;) {
        do
            error = weft_chan_send(race->ch, &number, race->hasty ? hasty() : WEFT_NEVER);
        while (error == -ETIMEDOUT);
        if (error) { /* not sent: somebody else has to */
            REQUIRE(error == -ECANCELED);
            pthread_mutex_lock(&race->lock);
            race->unsent[race->unsent_count++] = (unsigned)number;
            pthread_mutex_unlock(&race->lock);
            break;
        }
    }
    atomic_fetch_sub(&race->senders, 1);
    return 0;
}

static int race_recv(void *arg) {
    struct race *race = arg;
    for (;;) {
        int value = -1, error = weft_chan_recv(race->ch, &value, race->hasty ? hasty() : WEFT_NEVER);
        if (error == 0)
            tally_add(race->tally, value);
        else if (error != -ETIMEDOUT) {
            REQUIRE(error == -EPIPE || error == -ECANCELED);
            break;
        }
    }
    return 0;
}

static void hand_over_against_cancel(weft_runtime *rt, size_t capacity) {
    unsigned count = fixture_is_slow() ? 500 : 3000;
    struct race race = {.ch = chan_of_ints(capacity), .tally = tally_new(count), .lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t random = harness_seed();
    weft_task *tasks[16] = {NULL};
    while (tally_sum(race.tally) < count) {
        unsigned i = (unsigned)harness_random(&random) % 16;
        if (tasks[i]) {
            weft_task_cancel(tasks[i]);
            fixture_finish(tasks[i]);
        }
        bool send = i % 2;
        tasks[i] = fiber_go(rt, send ? race_send : race_recv, &race);
    }
    weft_chan_close(race.ch);
    for (int i = 0; i < 16; i++)
        if (tasks[i])
            fixture_finish(tasks[i]);
    CHECK_EQ(weft_chan_destroy(race.ch), 0);
    tally_end(race.tally);
}

API_TEST(chan_cancel_loses_nothing, "R29 R30", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    hand_over_against_cancel(rt, 0);
    hand_over_against_cancel(rt, 1);
    hand_over_against_cancel(rt, 5);
    fixture_end(rt);
}

/* Four take part; the fifth closes when all is sent. */
static void race_thread(unsigned index, void *arg) {
    struct race *race = arg;
    if (index < 4) {
        (index % 2 ? race_send : race_recv)(race);
        return;
    }
    REQUIRE_EVENTUALLY(race->senders == 0);
    weft_chan_close(race->ch);
}

/* Fibers and threads, in a hurry or not, on one channel. */
static void mixed(weft_runtime *rt, size_t capacity, bool hasty) {
    unsigned count = fixture_is_slow() ? 1000 : 10000;
    struct race race = {
        .ch = chan_of_ints(capacity), .tally = tally_new(count), .lock = PTHREAD_MUTEX_INITIALIZER, .hasty = hasty};
    weft_task *tasks[12];
    race.senders = 8;
    for (int i = 0; i < 12; i++)
        tasks[i] = fiber_go(rt, i % 2 ? race_send : race_recv, &race);
    harness_threads(5, race_thread, &race);
    for (int i = 0; i < 12; i++)
        fixture_finish(tasks[i]);
    CHECK_EQ(weft_chan_destroy(race.ch), 0);
    tally_end(race.tally);
}

API_TEST(chan_lost_wake_mixed, "R27 R29 R33", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    mixed(rt, 0, false);
    mixed(rt, 1, false);
    mixed(rt, 16, false);
    mixed(rt, WEFT_UNBOUNDED, false);
    fixture_end(rt);
}

API_TEST(chan_deadline_loses_nothing, "R28 R29", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    mixed(rt, 0, true);
    mixed(rt, 1, true);
    mixed(rt, 16, true);
    fixture_end(rt);
}

/* -- Two runtimes ------------------------------------------------------------------------------------------------- */

API_TEST(chan_between_runtimes, "R33", .workers = {1, 2}) {
    weft_runtime *a = fixture_begin_patient(), *b = fixture_begin_patient();
    struct race race = {
        .ch = chan_of_ints(0), .tally = tally_new(fixture_is_slow() ? 500 : 5000), .lock = PTHREAD_MUTEX_INITIALIZER};
    weft_task *tasks[8];
    race.senders = 4;
    for (int i = 0; i < 8; i++)
        tasks[i] = fiber_go(i < 4 ? a : b, i % 2 ? race_send : race_recv, &race);
    REQUIRE_EVENTUALLY(race.senders == 0);
    weft_chan_close(race.ch);
    for (int i = 0; i < 8; i++)
        fixture_finish(tasks[i]);
    CHECK_EQ(weft_chan_destroy(race.ch), 0);
    tally_end(race.tally);
    fixture_end(b);
    fixture_end(a);
}
