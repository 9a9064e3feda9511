/* chan_slice.c - a fiber whose channel always has something does not keep the others from running. */
#include "fiber.h"

enum { VALUES = 1000000 };

static struct {
    weft_chan *ch, *other;
    weft_subscriber *subscriber;
    atomic_uint taken;
    unsigned seen; /* taken, when the other had run */
    int way;
} crowd;

static int one_value(void) {
    int values[2], none;
    switch (crowd.way) {
    case 0: return weft_chan_recv(crowd.ch, values, WEFT_NEVER);
    case 1: return weft_chan_recv_many(crowd.ch, values, 1, WEFT_NEVER) == 1 ? 0 : -1;
    case 2: {
        weft_case cases[] = {weft_case_recv(crowd.ch, values), weft_case_recv(crowd.other, &none)};
        return weft_select(cases, 2, WEFT_NEVER);
    }
    default: return weft_subscriber_recv(crowd.subscriber, values, NULL, WEFT_NEVER);
    }
}

static int take_all(void *arg) {
    for (unsigned left = *(unsigned *)arg; left; left--) {
        REQUIRE_EQ(one_value(), 0);
        atomic_fetch_add(&crowd.taken, 1);
    }
    return 0;
}

static int run_sometimes(void *unused) {
    (void)unused;
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(weft_yield(), 0);
    crowd.seen = atomic_load(&crowd.taken);
    return 0;
}

static int drain(void *arg) {
    weft_task *other, *taker;
    REQUIRE_EQ(weft_fiber_go(NULL, run_sometimes, NULL, &other), 0);
    REQUIRE_EQ(weft_fiber_go(NULL, take_all, arg, &taker), 0);
    CHECK_EQ(fixture_finish(other).status, 0);
    CHECK_EQ(fixture_finish(taker).status, 0);
    return 0;
}

API_TEST(chan_slice_ends, "", .workers = {1}) {
    weft_broadcast *broadcast;
    unsigned count = harness_is_slow() ? VALUES / 4 : VALUES;
    REQUIRE_EQ(weft_chan_create(sizeof(int), WEFT_UNBOUNDED, &crowd.ch), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 0, &crowd.other), 0);
    REQUIRE_EQ(weft_broadcast_create(sizeof(int), VALUES, &broadcast), 0);
    REQUIRE_EQ(weft_subscribe(broadcast, &crowd.subscriber), 0);
    for (crowd.way = 0; crowd.way < 4; crowd.way++) {
        for (unsigned i = 0; i < count; i++)
            REQUIRE_EQ(crowd.way < 3 ? weft_chan_send(crowd.ch, &i, WEFT_NOW) : weft_broadcast_send(broadcast, &i), 0);
        atomic_store(&crowd.taken, 0);
        REQUIRE_EQ(weft_fiber_run(NULL, drain, &count, NULL), 0);
        CHECK_EQ(crowd.taken, count);
        if (crowd.seen >= count / 4)
            harness_note(__FILE__, __LINE__, "way %d: the others waited for %u values", crowd.way, crowd.seen);
    }
    weft_unsubscribe(crowd.subscriber);
    weft_broadcast_drop(broadcast);
    CHECK_EQ(weft_chan_destroy(crowd.ch), 0);
    CHECK_EQ(weft_chan_destroy(crowd.other), 0);
}

/* A call with a deadline of WEFT_NOW never yields. */
static int never_yields(void *unused) {
    (void)unused;
    weft_task *other;
    int value = 0;
    REQUIRE_EQ(weft_fiber_go(NULL, run_sometimes, NULL, &other), 0);
    for (int i = 0; i < 20000; i++) {
        REQUIRE_EQ(weft_chan_send(crowd.ch, &value, WEFT_NOW), 0);
        REQUIRE_EQ(weft_chan_recv(crowd.ch, &value, WEFT_NOW), 0);
        weft_case c = weft_case_recv(crowd.ch, &value);
        REQUIRE_EQ(weft_select(&c, 1, WEFT_NOW), -ETIMEDOUT);
        atomic_fetch_add(&crowd.taken, 1);
    }
    CHECK(!weft_task_is_done(other));
    CHECK_EQ(fixture_finish(other).status, 0);
    CHECK_EQ(crowd.seen, 20000);
    return 0;
}

API_TEST(chan_now_keeps_the_slice, "", .workers = {1}) {
    REQUIRE_EQ(weft_chan_create(sizeof(int), WEFT_UNBOUNDED, &crowd.ch), 0);
    REQUIRE_EQ(weft_fiber_run(NULL, never_yields, NULL, NULL), 0);
    CHECK_EQ(weft_chan_destroy(crowd.ch), 0);
}

/* Calls with WEFT_NOW spend the slice: the calls between them, which may suspend, yield. */
static int now_and_then(void *unused) {
    (void)unused;
    weft_task *other;
    int value = 0;
    REQUIRE_EQ(weft_fiber_go(NULL, run_sometimes, NULL, &other), 0);
    atomic_store(&crowd.taken, 0);
    for (int i = 0; i < 20000; i++) {
        REQUIRE_EQ(weft_chan_send_many(crowd.ch, &value, 1, WEFT_NOW), 1);
        REQUIRE_EQ(weft_chan_recv_many(crowd.ch, &value, 1, WEFT_NEVER), 1);
        atomic_fetch_add(&crowd.taken, 1);
    }
    CHECK(weft_task_is_done(other));
    CHECK_EQ(fixture_finish(other).status, 0);
    CHECK_LT(crowd.seen, 20000);
    return 0;
}

API_TEST(chan_slice_is_spent_by_others, "", .workers = {1}) {
    REQUIRE_EQ(weft_chan_create(sizeof(int), WEFT_UNBOUNDED, &crowd.ch), 0);
    REQUIRE_EQ(weft_fiber_run(NULL, now_and_then, NULL, NULL), 0);
    CHECK_EQ(weft_chan_destroy(crowd.ch), 0);
}
