/* chan_broadcast.c - every value to every subscriber; those that fall behind are told. */
#include "chan.h"

static weft_broadcast *broadcast_new(size_t capacity) {
    weft_broadcast *broadcast = NULL;
    REQUIRE_EQ(weft_broadcast_create(sizeof(int), capacity, &broadcast), 0);
    return broadcast;
}

static weft_subscriber *subscribe(weft_broadcast *broadcast) {
    weft_subscriber *subscriber = NULL;
    REQUIRE_EQ(weft_subscribe(broadcast, &subscriber), 0);
    return subscriber;
}

static int next(weft_subscriber *subscriber, uint64_t *missed) {
    int value = -1, error = weft_subscriber_recv(subscriber, &value, missed, WEFT_NOW);
    return error ? error : value;
}

TEST(broadcast_lag_is_reported, "R29") {
    weft_broadcast *b = broadcast_new(4);
    weft_subscriber *early = subscribe(b), *late;
    uint64_t missed = 99;
    CHECK_EQ(next(early, &missed), -ETIMEDOUT);
    CHECK_EQ(missed, 99);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(weft_broadcast_send(b, &i), 0);
    late = subscribe(b);
    CHECK_EQ(next(early, &missed), 0);
    CHECK_EQ(missed, 0);
    for (int i = 4; i < 11; i++)
        CHECK_EQ(weft_broadcast_send(b, &i), 0);
    CHECK_EQ(next(early, &missed), 7); /* 1 to 6 are gone */
    CHECK_EQ(missed, 6);
    CHECK_EQ(next(early, &missed), 8);
    CHECK_EQ(missed, 0);
    CHECK_EQ(next(late, &missed), 7); /* 4 to 6: it never saw 0 to 3 */
    CHECK_EQ(missed, 3);
    weft_broadcast_close(b);
    int more = 1;
    CHECK_EQ(weft_broadcast_send(b, &more), -EPIPE);
    for (int i = 8; i < 11; i++)
        CHECK_EQ(next(late, NULL), i);
    CHECK_EQ(next(late, NULL), -EPIPE);
    weft_broadcast_close(b);
    weft_broadcast_drop(b); /* subscribers keep it */
    CHECK_EQ(next(early, NULL), 9);
    weft_unsubscribe(early);
    weft_unsubscribe(late);
    weft_unsubscribe(NULL);
    weft_broadcast_drop(NULL);
    CHECK_EQ(weft_broadcast_create(4, 0, &b), -EINVAL);
    CHECK_EQ(weft_broadcast_create(4, WEFT_UNBOUNDED, &b), -EINVAL);
    CHECK_EQ(weft_broadcast_create(WEFT_CHAN_VALUE_MAX + 1, 1, &b), -EINVAL);
}

struct listener {
    weft_subscriber *subscriber;
    int count;
    uint64_t got, missed;
    weft_wait wait;
    int last;
    bool hasty;
};

static void heard(struct listener *l, int value, uint64_t missed) {
    REQUIRE_EQ(value, l->last + 1 + (int)missed);
    l->last = value;
    l->got++;
    l->missed += missed;
}

static int listen(void *arg) {
    struct listener *l = arg;
    for (;;) {
        int value;
        uint64_t missed;
        int error = weft_subscriber_recv(l->subscriber, &value, &missed, l->hasty ? weft_after(1000) : WEFT_NEVER);
        if (error == -EPIPE)
            return 0;
        if (error == 0)
            heard(l, value, missed);
        else
            REQUIRE(error == -ETIMEDOUT && l->hasty);
    }
}

static weft_poll listen_poll(weft_task *self, void *state) {
    struct listener *l = state;
    for (;;) {
        int value;
        uint64_t missed;
        int error = weft_subscriber_recv_poll(l->subscriber, self, &l->wait, &value, &missed);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        if (error == -EPIPE)
            return weft_done(self, 0, NULL);
        REQUIRE_EQ(error, 0);
        heard(l, value, missed);
    }
}

#define LISTENERS 40

static int announce(void *arg) {
    struct {
        weft_broadcast *b;
        int count;
    } *a = arg;
    for (int i = 0; i < a->count; i++) {
        REQUIRE_EQ(weft_broadcast_send(a->b, &i), 0);
        if (i % 64 == 0)
            weft_yield();
    }
    weft_broadcast_close(a->b);
    return 0;
}

/* Each hears everything, or is told how much it missed. */
static void everybody(weft_runtime *rt, size_t capacity, int count) {
    struct {
        weft_broadcast *b;
        int count;
    } a = {broadcast_new(capacity), count};
    static struct listener listeners[LISTENERS];
    weft_task *tasks[LISTENERS];
    for (int i = 0; i < LISTENERS; i++) {
        listeners[i] = (struct listener){.subscriber = subscribe(a.b), .last = -1, .hasty = i % 3 == 0};
        tasks[i] = i % 2 ? fiber_go(rt, listen, &listeners[i]) : fixture_go(rt, listen_poll, &listeners[i]);
    }
    fiber_run(rt, announce, &a);
    for (int i = 0; i < LISTENERS; i++) {
        fixture_finish(tasks[i]);
        CHECK_EQ(listeners[i].got + listeners[i].missed, count);
        if (capacity >= (size_t)count)
            CHECK_EQ(listeners[i].missed, 0);
        weft_unsubscribe(listeners[i].subscriber);
    }
    weft_broadcast_drop(a.b);
}

API_TEST(broadcast_lost_wake, "R29 R30", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    everybody(rt, 1, 300);
    everybody(rt, 16, 1000);
    everybody(rt, 1000, 1000);
    fixture_end(rt);
}

/* A poll task that waits and ends leaves the list. */
static weft_poll listen_for_ever(weft_task *self, void *state) {
    struct listener *l = state;
    int value;
    CHECK_EQ(weft_subscriber_recv_poll(l->subscriber, self, &l->wait, &value, NULL), -EAGAIN);
    return WEFT_PENDING;
}
static void end_listener(void *state) { weft_wait_end(&((struct listener *)state)->wait); }

API_TEST(broadcast_poll_task_ends, "R30", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_broadcast *b = broadcast_new(2);
    struct listener l = {.subscriber = subscribe(b)};
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task = NULL;
    spec.poll = listen_for_ever;
    spec.state = &l;
    spec.drop = end_listener;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    int value = 4;
    CHECK_EQ(weft_broadcast_send(b, &value), 0);
    CHECK_EQ(next(l.subscriber, NULL), 4);
    weft_unsubscribe(l.subscriber);
    weft_broadcast_drop(b);
    fixture_end(rt);
}
