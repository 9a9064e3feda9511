/* chan_edges.c - channels at their edges: values of no size and of the largest, three worlds at a rendezvous, calls that never wait and must not
 * miss what is there. */
#include "chan.h"

/* -- Sizes --------------------------------------------------------------------------------------------------- */

#define LARGE WEFT_CHAN_VALUE_MAX

/* A value of any size that says which it is, in every byte. */
static void fill(char *value, size_t size, unsigned number) {
    if (size) /* else there is no memory */
        memset(value, (int)(number % 251) + 1, size);
}
static bool is_filled(const char *value, size_t size, unsigned number) {
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)value[i] != number % 251 + 1)
            return false;
    return true;
}

enum { VALUES = 24 };

/* Both ends of a line of values, one in each of two worlds. */
struct line {
    weft_chan *ch;
    size_t size;
    char *out, *in; /* NULL for values of no size */
    unsigned sent, received;
    weft_wait wait;
};

static int send_one(struct line *l) {
    weft_case c = weft_case_send(l->ch, l->out);
    fill(l->out, l->size, l->sent);
    switch (l->sent++ % 3) {
    case 0: return weft_chan_send(l->ch, l->out, WEFT_NEVER);
    case 1: return weft_select(&c, 1, WEFT_NEVER) ? -1 : c.result;
    default: return weft_chan_send_many(l->ch, l->out, 1, WEFT_NEVER) == 1 ? 0 : -1;
    }
}

static int sending(void *arg) {
    struct line *l = arg;
    while (l->sent < VALUES)
        REQUIRE_EQ(send_one(l), 0);
    return 0;
}

static int receiving(void *arg) {
    struct line *l = arg;
    while (l->received < VALUES) {
        weft_case c = weft_case_recv(l->ch, l->in);
        int error;
        switch (l->received % 3) {
        case 0: error = weft_chan_recv(l->ch, l->in, WEFT_NEVER); break;
        case 1: error = weft_select(&c, 1, WEFT_NEVER) ? -1 : c.result; break;
        default: error = weft_chan_recv_many(l->ch, l->in, 1, WEFT_NEVER) == 1 ? 0 : -1;
        }
        REQUIRE_EQ(error, 0);
        REQUIRE(is_filled(l->in, l->size, l->received));
        l->received++;
    }
    return 0;
}

static weft_poll sending_poll(weft_task *self, void *state) {
    struct line *l = state;
    while (l->sent < VALUES) {
        fill(l->out, l->size, l->sent);
        int error = weft_chan_send_poll(l->ch, self, &l->wait, l->out);
        if (error == -EAGAIN) {
            fill(l->out, l->size, 99); /* it need not outlive the call */
            return WEFT_PENDING;
        }
        REQUIRE_EQ(error, 0);
        l->sent++;
    }
    return weft_done(self, 0, NULL);
}

static weft_poll receiving_poll(weft_task *self, void *state) {
    struct line *l = state;
    while (l->received < VALUES) {
        int error = weft_chan_recv_poll(l->ch, self, &l->wait, l->in);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        REQUIRE_EQ(error, 0);
        REQUIRE(is_filled(l->in, l->size, l->received));
        l->received++;
    }
    return weft_done(self, 0, NULL);
}

static void *sending_thread(void *arg) { return (void *)(intptr_t)sending(arg); }
static void *receiving_thread(void *arg) { return (void *)(intptr_t)receiving(arg); }

/* Worlds: 0 a fiber, 1 a poll task, 2 a thread. */
static void between(weft_runtime *rt, int from, int to, size_t size, size_t capacity) {
    static char out[LARGE], in[LARGE];
    struct line sender = {.size = size, .out = size ? out : NULL, .in = size ? in : NULL}, receiver;
    REQUIRE_EQ(weft_chan_create(size, capacity, &sender.ch), 0);
    receiver = sender;
    weft_task *tasks[2] = {NULL, NULL};
    pthread_t threads[2];
    if (to == 2)
        REQUIRE_EQ(pthread_create(&threads[1], NULL, receiving_thread, &receiver), 0);
    else
        tasks[1] = to ? fixture_go(rt, receiving_poll, &receiver) : fiber_go(rt, receiving, &receiver);
    if (from == 2)
        REQUIRE_EQ(pthread_create(&threads[0], NULL, sending_thread, &sender), 0);
    else
        tasks[0] = from ? fixture_go(rt, sending_poll, &sender) : fiber_go(rt, sending, &sender);
    for (int i = 0; i < 2; i++) {
        if (tasks[i])
            CHECK_EQ(fixture_finish(tasks[i]).status, 0);
        else
            pthread_join(threads[i], NULL);
    }
    CHECK_EQ(receiver.received, VALUES);
    CHECK_EQ(weft_chan_length(sender.ch), 0);
    CHECK_EQ(weft_chan_destroy(sender.ch), 0);
}

API_TEST(chan_edge_sizes, "R26 R27 R33", .workers = {1, 2}) {
    static const size_t sizes[] = {0, 1, 7, LARGE}, capacities[] = {0, 1, 3, WEFT_UNBOUNDED};
    weft_runtime *rt = fixture_begin_patient();
    for (int worlds = 0; worlds < 9; worlds++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                if (sizes[i] != LARGE || j == 0 || worlds % 2 == 0) /* large ones take their time */
                    between(rt, worlds / 3, worlds % 3, sizes[i], capacities[j]);
    fixture_end(rt);
}

/* What is only a fact needs no memory, on either side. */
TEST(chan_edge_no_size, "R26") {
    weft_broadcast *broadcast = NULL;
    weft_subscriber *subscriber = NULL;
    weft_watch *watch = NULL;
    weft_oneshot_sender *sender = NULL;
    weft_oneshot_receiver *receiver = NULL;
    uint64_t missed = 9, version = 0;
    REQUIRE_EQ(weft_broadcast_create(0, 3, &broadcast), 0);
    REQUIRE_EQ(weft_subscribe(broadcast, &subscriber), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_broadcast_send(broadcast, NULL), 0);
    CHECK_EQ(weft_subscriber_recv(subscriber, NULL, &missed, WEFT_NOW), 0);
    CHECK_EQ(missed, 2);
    CHECK_EQ(weft_subscriber_recv(subscriber, NULL, NULL, WEFT_NOW), 0);
    CHECK_EQ(weft_subscriber_recv(subscriber, NULL, NULL, WEFT_NOW), 0);
    CHECK_EQ(weft_subscriber_recv(subscriber, NULL, NULL, WEFT_NOW), -ETIMEDOUT);
    weft_unsubscribe(subscriber);
    weft_broadcast_drop(broadcast);
    REQUIRE_EQ(weft_watch_create(0, NULL, &watch), 0);
    CHECK_EQ(weft_watch_set(watch, NULL), 0);
    CHECK_EQ(weft_watch_get(watch, NULL), 2);
    CHECK_EQ(weft_watch_wait(watch, &version, NULL, WEFT_NOW), 0);
    CHECK_EQ(weft_watch_wait(watch, &version, NULL, WEFT_NOW), -ETIMEDOUT);
    weft_watch_drop(watch);
    REQUIRE_EQ(weft_oneshot_create(0, &sender, &receiver), 0);
    CHECK_EQ(weft_oneshot_send(sender, NULL), 0);
    CHECK_EQ(weft_oneshot_recv(receiver, NULL, WEFT_NOW), 0);
    CHECK_EQ(weft_oneshot_recv(receiver, NULL, WEFT_NOW), -EPIPE);
    weft_oneshot_receiver_drop(receiver);
}

/* -- Never waiting ---------------------------------------------------------------------------------------------- */

/* Everyone puts one in and takes one out: there is always one for him, whoever took his. */
static int in_and_out(void *arg) {
    weft_chan *ch = arg;
    for (int i = 0; i < 2000; i++) {
        int value = i, none = 0;
        weft_case cases[] = {weft_case_recv(ch, &value), {0}};
        REQUIRE_EQ(weft_chan_send(ch, &value, WEFT_NOW), 0);
        if (i % 2)
            REQUIRE_EQ(weft_select(cases, 2, WEFT_NOW), 0);
        else
            REQUIRE_EQ(weft_chan_recv(ch, &value, i % 4 ? weft_after(0) : WEFT_NOW), none);
        if (i % 64 == 0)
            weft_yield();
    }
    return 0;
}

static void *in_and_out_thread(void *arg) { return (void *)(intptr_t)in_and_out(arg); }

API_TEST(chan_edge_now_misses_nothing, "R28 R29", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 2; i++) {
        weft_chan *ch = chan_of_ints(i ? WEFT_UNBOUNDED : 6);
        weft_task *tasks[5];
        pthread_t thread;
        REQUIRE_EQ(pthread_create(&thread, NULL, in_and_out_thread, ch), 0);
        for (int k = 0; k < 5; k++)
            tasks[k] = fiber_go(rt, in_and_out, ch);
        for (int k = 0; k < 5; k++)
            CHECK_EQ(fixture_finish(tasks[k]).status, 0);
        pthread_join(thread, NULL);
        CHECK_EQ(weft_chan_length(ch), 0);
        CHECK_EQ(weft_chan_destroy(ch), 0);
    }
    fixture_end(rt);
}

/* One of two channels always has something, or is closed: a select that looks once must find one of them. */
struct either {
    weft_chan *a, *b;
    atomic_int missed;
};

static int look_once(void *arg) {
    struct either *e = arg;
    int x;
    weft_case cases[] = {weft_case_recv(e->a, &x), weft_case_recv(e->b, &x)};
    atomic_fetch_add(&e->missed, weft_select(cases, 2, WEFT_NOW) < 0);
    return 0;
}

static int one_or_the_other(void *arg) {
    (void)arg;
    for (int i = 0; i < 300; i++) {
        struct either e = {.a = chan_of_ints(1), .b = chan_of_ints(1)};
        int x = 1;
        weft_task *task = NULL;
        REQUIRE_EQ(send_int(e.a, 1), 0);
        REQUIRE_EQ(weft_fiber_go(NULL, look_once, &e, &task), 0);
        if (i % 3 == 0)
            weft_yield();
        if (i % 2)
            weft_chan_close(e.b);
        else
            REQUIRE_EQ(send_int(e.b, 1), 0);
        weft_case c = weft_case_recv(e.a, &x);
        (void)!weft_select(&c, 1, WEFT_NOW);
        REQUIRE_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
        weft_task_drop(task);
        CHECK_EQ(atomic_load(&e.missed), 0);
        CHECK_EQ(weft_chan_destroy(e.a), 0);
        CHECK_EQ(weft_chan_destroy(e.b), 0);
    }
    return 0;
}

API_TEST(chan_edge_look_once, "R27 R30", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    fiber_run(rt, one_or_the_other, NULL);
    fixture_end(rt);
}

/* Two that both send and receive on one channel, by select: each gets what the other has sent. */
struct self {
    weft_chan *ch;
    int me;
    unsigned *got, *left;
};

static int send_or_receive(void *arg) {
    struct self *s = arg;
    int in, out = s->me;
    while (*s->left) {
        weft_case cases[] = {weft_case_send(s->ch, &out), weft_case_recv(s->ch, &in), weft_case_send(s->ch, &out)};
        int index = weft_select(cases, 3, WEFT_NEVER);
        REQUIRE_GE(index, 0);
        if (cases[index].result == -EPIPE)
            return 0;
        if (index == 1) {
            REQUIRE_EQ(in, !s->me);
            s->got[s->me]++;
            if (--*s->left == 0)
                weft_chan_close(s->ch);
        }
    }
    return 0;
}

static int both(void *arg) {
    weft_chan *ch = arg;
    unsigned got[2] = {0}, left = 1000;
    struct self selves[2] = {{ch, 0, got, &left}, {ch, 1, got, &left}};
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *other = NULL;
    spec.fn = send_or_receive;
    spec.arg = &selves[1];
    REQUIRE_EQ(weft_fiber_spawn(NULL, &spec, &other), 0);
    CHECK_EQ(send_or_receive(&selves[0]), 0);
    REQUIRE_EQ(weft_join(other, NULL, WEFT_NEVER), 0);
    weft_task_drop(other);
    CHECK_EQ(got[0] + got[1], 1000);
    CHECK_GT(got[0], 300); /* 16 a deviation */
    CHECK_GT(got[1], 300);
    return 0;
}

API_TEST(chan_edge_both_select, "R27 R29", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_chan *ch = chan_of_ints(0);
    fiber_run(rt, both, ch);
    CHECK_EQ(weft_chan_destroy(ch), 0);
    fixture_end(rt);
}
