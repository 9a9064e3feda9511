/* chan.c - channels when memory runs out at any point: refused in order, nothing lost, nothing leaked. */
#include "sweep.h"

static bool refused(int error) {
    REQUIRE(error == 0 || error == -ENOMEM);
    return error != 0;
}

static void make_and_use(void) {
    weft_chan *untouched = (weft_chan *)(void *)&refused, *ch = untouched;
    if (refused(weft_chan_create(8, WEFT_UNBOUNDED, &ch))) {
        CHECK_EQ(ch, untouched);
        return;
    }
    uint64_t sent = 0, got = 0, value;
    for (uint64_t i = 0; i < 2000; i++) {
        value = sent;
        sent += !refused(weft_chan_send(ch, &value, WEFT_NOW));
    }
    uint64_t many[700];
    for (uint64_t i = 0; i < 700; i++)
        many[i] = sent + i;
    int more = weft_chan_send_many(ch, many, 700, WEFT_NOW);
    REQUIRE(more == -ENOMEM || more > 0);
    sent += more > 0 ? (uint64_t)more : 0;
    CHECK_EQ(weft_chan_length(ch), sent);
    while (weft_chan_recv(ch, &value, WEFT_NOW) == 0)
        CHECK_EQ(value, got++);
    CHECK_EQ(got, sent);
    weft_case c = weft_case_send(ch, &value);
    CHECK_EQ(weft_select(&c, 1, WEFT_NOW), 0);
    refused(c.result);
    CHECK_EQ(weft_chan_destroy(ch), 0);
}

TEST(chan_unbounded_fails_anywhere, "R26") { sweep(make_and_use); }

static void make_the_others(void) {
    weft_chan *ch;
    weft_oneshot_sender *sender;
    weft_oneshot_receiver *receiver;
    weft_broadcast *broadcast;
    weft_subscriber *subscriber;
    weft_watch *watch;
    int value = 1;
    if (!refused(weft_chan_create(8, 5, &ch)))
        CHECK_EQ(weft_chan_destroy(ch), 0);
    if (!refused(weft_oneshot_create(4, &sender, &receiver))) {
        CHECK_EQ(weft_oneshot_send(sender, &value), 0);
        weft_oneshot_receiver_drop(receiver);
    }
    if (!refused(weft_broadcast_create(4, 5, &broadcast))) {
        if (!refused(weft_subscribe(broadcast, &subscriber)))
            weft_unsubscribe(subscriber);
        weft_broadcast_drop(broadcast);
    }
    if (!refused(weft_watch_create(4, &value, &watch)))
        weft_watch_drop(watch);
}

TEST(chan_others_fail_anywhere, "R26 J35") { sweep(make_the_others); }

/* A poll task that finds no memory to wait with says so, and may try again. */
struct stubborn {
    weft_chan *ch;
    weft_wait wait;
};

static weft_poll insist(weft_task *self, void *state) {
    struct stubborn *s = state;
    int value, error = weft_chan_recv_poll(s->ch, self, &s->wait, &value);
    if (error == -ENOMEM)
        return WEFT_YIELD;
    if (error == -EAGAIN)
        return WEFT_PENDING;
    CHECK_EQ(error, 0);
    CHECK_EQ(value, 5);
    return weft_done(self, 0, NULL);
}

API_TEST(chan_poll_without_memory, "R28", .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    struct stubborn s = {.wait = {{0}}};
    REQUIRE_EQ(weft_chan_create(4, 0, &s.ch), 0);
    weft_task *task = NULL;
    struct blocker blocker = {false, false};
    weft_task *busy = fixture_go(rt, fixture_block, &blocker);
    REQUIRE_EVENTUALLY(blocker.entered);
    REQUIRE_EQ(weft_go(rt, insist, &s, &task), 0);
    wefti_fault_set(0, true); /* none at all */
    blocker.release = true;
    REQUIRE_EVENTUALLY(wefti_fault_count() > 5);
    wefti_fault_set(-1, false);
    REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0);
    int value = 5;
    CHECK_EQ(weft_chan_send(s.ch, &value, WEFT_NOW), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_finish(busy);
    CHECK_EQ(weft_chan_destroy(s.ch), 0);
    fixture_end(rt);
}
