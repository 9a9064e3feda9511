/* budget_now.c - calls that must not wait do not wait for a recharge, either. */
#include <weft/relay.h>

#include "budget.h"

static struct {
    weft_chan *chan;
    weft_watch *watch;
    weft_broadcast *broadcast;
    weft_subscriber *subscriber;
    weft_io *in, *out;
    weft_pid server;
} world;

/* Makes each call once, without a channel_op or a syscall in its budget: `expected` is what those return that could be made at once. */
static int call_all(void *arg) {
    int expected = *(int *)arg, value = 7;
    uint64_t version = 0, missed;
    char byte = 1;
    weft_message m;
    weft_parcel parcel = WEFT_PARCEL_INIT;
    weft_case c = weft_case_at(0);
    parcel.to = weft_self();
    CHECK_EQ(weft_try_send(NULL, weft_self(), 1, NULL, 0), expected);
    CHECK_EQ(weft_relay_deliver(NULL, 0, &parcel, WEFT_NOW), expected);
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), expected);
    CHECK_EQ(weft_chan_send(world.chan, &value, WEFT_NOW), expected);
    CHECK_EQ(weft_chan_recv(world.chan, &value, WEFT_NOW), expected);
    CHECK_EQ(weft_chan_send_many(world.chan, &value, 1, WEFT_NOW), expected ? expected : 1);
    CHECK_EQ(weft_chan_recv_many(world.chan, &value, 1, WEFT_NOW), expected ? expected : 1);
    CHECK_EQ(weft_select(&c, 1, WEFT_NOW), expected);
    CHECK_EQ(weft_watch_wait(world.watch, &version, &value, WEFT_NOW), expected);
    CHECK_EQ(weft_subscriber_recv(world.subscriber, &value, &missed, WEFT_NOW), expected);
    CHECK_EQ(weft_write(world.out, &byte, 1, WEFT_NOW), expected ? expected : 1);
    CHECK_EQ(weft_read(world.in, &byte, 1, WEFT_NOW), expected ? expected : 1);
    if (expected)
        CHECK_EQ(weft_ask(world.server, NULL, 0, &m, WEFT_NOW), expected);
    return 0;
}

static void call_under(weft_profile profile, int expected) {
    weft_runtime *rt = begin(profile);
    weft_fund *fund = new_fund(rt, (weft_budget){10000, 0, 1, 0, 0});
    weft_budget budget = {1000, 0, 0, 0, 0};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    int value = 3;
    REQUIRE_EQ(weft_chan_create(sizeof value, 4, &world.chan), 0);
    REQUIRE_EQ(weft_watch_create(sizeof value, &value, &world.watch), 0);
    REQUIRE_EQ(weft_broadcast_create(sizeof value, 4, &world.broadcast), 0);
    REQUIRE_EQ(weft_subscribe(world.broadcast, &world.subscriber), 0);
    REQUIRE_EQ(weft_broadcast_send(world.broadcast, &value), 0);
    REQUIRE_EQ(weft_pipe(&world.in, &world.out), 0);
    spec.fn = call_all;
    spec.arg = &expected;
    spec.fund = fund;
    spec.budget = &budget;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    weft_chan_drop(world.chan);
    weft_unsubscribe(world.subscriber);
    weft_broadcast_drop(world.broadcast);
    weft_watch_drop(world.watch);
    weft_close(world.in), weft_close(world.out);
    end_fund(fund);
    fixture_end(rt);
}

API_TEST(budget_now_does_not_wait, "J13", .workers = {1, 2}) { call_under(WEFT_PROFILE_CLUSTER, -EDQUOT); }
API_TEST(budget_now_without_a_profile, "J13", .workers = {1}) { call_under(WEFT_PROFILE_NONE, -EDQUOT); }

/* Under `service` a fiber gets more; here, too. */
static int call_channels(void *arg) {
    int value = 7;
    (void)arg;
    for (int i = 0; i < 10000; i++) {
        REQUIRE_EQ(weft_chan_send(world.chan, &value, WEFT_NOW), 0);
        REQUIRE_EQ(weft_chan_recv(world.chan, &value, WEFT_NOW), 0);
    }
    return 0;
}
API_TEST(budget_now_under_service, "J2", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SERVICE);
    weft_fund *fund = new_fund(rt, (weft_budget){10000, 0, 1, 0, 0});
    REQUIRE_EQ(weft_chan_create(sizeof(int), 4, &world.chan), 0);
    weft_task *task = charged(rt, fund, (weft_budget){10, 0, 0, 0, 0}, call_channels, NULL);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_GE(fixture_stats(rt).exhausted, 1);
    weft_chan_drop(world.chan);
    end_fund(fund);
    fixture_end(rt);
}

/* weft_publish may suspend: a fiber that cannot pay for a member waits, and no member is left out. */
static int publish(void *arg) {
    (void)arg;
    return weft_publish(NULL, "group", 1, NULL, 0);
}
static int hear_one(void *arg) {
    weft_message m;
    (void)arg;
    return weft_receive(&m, NULL, NULL,
                        fixture_on("sim") ? WEFT_NEVER : fixture_soon()); /* virtual time passes at once */
}
API_TEST(budget_publish_waits, "J13", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){10000, 0, 4, 10, 0});
    weft_budget more = {0, 0, 0, 5, 0};
    weft_task *member[4];
    for (int i = 0; i < 4; i++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_pid pid;
        spec.fn = hear_one;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &member[i]), 0);
        REQUIRE_EQ(weft_group_join(rt, "group", pid), 0);
    }
    weft_task *task = charged(rt, fund, (weft_budget){1000, 0, 0, 2, 0}, publish, NULL);
    REQUIRE_EVENTUALLY(is_exhausted(fund, task));
    CHECK_EQ(weft_fund_recharge(fund, task, &more, NULL), 0);
    weft_result result = fixture_finish(task);
    CHECK_EQ((intptr_t)result.value, 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(member[i]).status, 0);
    end_fund(fund);
    fixture_end(rt);
}

/* A fiber that has nothing left is charged in every call, also after calls that give a unit of the slice back. */
static weft_chan *words;
static int use_words(void *unused) {
    (void)unused;
    uint64_t value = 1;
    for (int i = 0; i < 300; i++) { /* so that its lock becomes the worker's own */
        REQUIRE_EQ(weft_chan_send(words, &value, WEFT_NOW), 0);
        REQUIRE_EQ(weft_chan_recv(words, &value, WEFT_NOW), 0);
    }
    return 0;
}
static int wait_and_send(void *unused) {
    (void)unused;
    weft_mutex mutex = WEFT_MUTEX_INIT;
    weft_cond cond = WEFT_COND_INIT;
    weft_wait wait = {0};
    uint64_t value = 1;
    REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NOW), 0);
    for (int i = 0; i < 100; i++)
        REQUIRE_EQ(weft_cond_wait_poll(&cond, &mutex, weft_task_self(), &wait), -EAGAIN);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_chan_send(words, &value, WEFT_NOW), -EDQUOT);
    weft_wait_end(&wait);
    return 0;
}
API_TEST(budget_now_after_poll_calls, "J13", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_NONE);
    weft_fund *fund = new_fund(rt, (weft_budget){10000, 0, 1, 0, 0});
    weft_budget budget = {1000, 0, 0, 0, 0};
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    REQUIRE_EQ(weft_chan_create(sizeof(uint64_t), 16, &words), 0);
    REQUIRE_EQ(weft_fiber_go(rt, use_words, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    spec.fn = wait_and_send;
    spec.fund = fund;
    spec.budget = &budget;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    weft_chan_drop(words);
    end_fund(fund);
    fixture_end(rt);
}
