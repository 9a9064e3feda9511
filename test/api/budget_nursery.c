/* budget_nursery.c - nurseries with a fund; what channels, descriptors and the library's own tasks cost. */
#include <weft/weft.h>

#include "fixture.h"
#include "metered/code.h"

static weft_runtime *begin(weft_profile profile, weft_caps *caps) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = profile;
    config.caps = caps;
    return fixture_begin(&config);
}

static weft_fund *new_fund(weft_runtime *rt, weft_budget budget) {
    weft_fund *fund = NULL;
    REQUIRE_EQ(weft_fund_create(rt, NULL, &budget, &fund), 0);
    return fund;
}

static weft_budget left_in(weft_fund *fund) {
    weft_budget left;
    weft_fund_left(fund, &left);
    return left;
}

static weft_budget left_now(void) {
    weft_budget left = {0};
    REQUIRE_EQ(weft_budget_left(&left), 0);
    return left;
}

static void run_fiber(weft_runtime *rt, weft_fiber_fn fn, void *arg) {
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, fn, arg, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
}

/* -- A nursery's children are charged to its fund ---------------------------------------------------------------- */

static int count_child(void *arg) {
    atomic_fetch_add((atomic_uint *)arg, 1);
    weft_budget left = left_now();
    CHECK_EQ(left.ops, 10000);
    CHECK_EQ(left.spawns, 0);
    metered_sum(100);
    return 0;
}

struct nest {
    weft_fund *fund;
    atomic_uint ran;
    unsigned refused;
};

static int fill_nursery(void *arg) {
    struct nest *nest = arg;
    weft_nursery n;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.fund = nest->fund;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, &config), 0);
    for (int i = 0; i < 10; i++) {
        int error = weft_nursery_go(&n, count_child, &nest->ran, NULL);
        REQUIRE(error == 0 || error == -EDQUOT);
        nest->refused += error != 0;
    }
    return weft_nursery_await(&n);
}

API_TEST(nursery_fund, "J3 J39", .workers = {1, 2, 4}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER, NULL);
    struct nest nest = {.fund = new_fund(rt, (weft_budget){1000000, UINT64_C(100) << 20, 7, 10000, 1000})};
    run_fiber(rt, fill_nursery, &nest);
    CHECK_EQ(atomic_load(&nest.ran), 7); /* as many as there were spawns */
    CHECK_EQ(nest.refused, 3);
    weft_budget left = left_in(nest.fund);
    CHECK_EQ(left.spawns, 0);
    CHECK_EQ(left.memory, UINT64_C(100) << 20);
    CHECK_EQ(left.channel_ops, 10000);
    CHECK_LE(left.ops, 1000000 - 700);
    CHECK_GE(left.ops, 1000000 - 7 * 1000);
    REQUIRE_EQ(weft_fund_destroy(nest.fund), 0);
    fixture_end(rt);
}

/* Refused by the nursery after it was funded: all of it goes back, the spawner's op too. */
static int spawn_into_closed(void *arg) {
    weft_nursery n;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.fund = arg;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, &config), 0);
    weft_nursery_close(&n);
    weft_budget before = left_now(), in = left_in(arg);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_nursery_go(&n, count_child, NULL, NULL), -EPIPE);
    weft_budget after = left_now(), out = left_in(arg);
    CHECK_EQ(after.ops, before.ops);
    CHECK_EQ(after.spawns, before.spawns);
    CHECK(weft_budget_covers(&out, &in) && weft_budget_covers(&in, &out));
    return weft_nursery_await(&n);
}

API_TEST(nursery_fund_closed, "J21 J39", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER, NULL);
    weft_fund *fund = new_fund(rt, (weft_budget)WEFT_BUDGET_CLUSTER);
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    spec.fn = spawn_into_closed;
    spec.arg = spec.fund = fund;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    weft_budget left = left_in(fund);
    CHECK_EQ(left.ops, 1000000);
    CHECK_EQ(left.spawns, 999);
    REQUIRE_EQ(weft_fund_destroy(fund), 0);
    fixture_end(rt);
}

/* Cancelling a nursery ends exhausted children too. */
static int exhaust(void *arg) {
    (void)arg;
    for (;;) {
        int error = weft_checkpoint();
        if (error)
            return error;
    }
}

static int cancel_exhausted(void *arg) {
    weft_fund *fund = arg;
    weft_nursery n;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.fund = fund;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, &config), 0);
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(weft_nursery_go(&n, exhaust, NULL, NULL), 0);
    while (weft_fund_exhausted(fund, NULL, 0) < 3)
        weft_fund_wait_exhausted(fund, weft_after(1000000));
    weft_nursery_cancel(&n);
    CHECK_EQ(weft_nursery_await(&n), -ECANCELED);
    return 0;
}

API_TEST(nursery_cancel_exhausted, "J25 J34 J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER, NULL);
    weft_fund *fund = new_fund(rt, (weft_budget)WEFT_BUDGET_CLUSTER);
    run_fiber(rt, cancel_exhausted, fund);
    CHECK_EQ(left_in(fund).ops, 1000000 - 3 * 10000);
    REQUIRE_EQ(weft_fund_destroy(fund), 0);
    fixture_end(rt);
}

/* A child that is refused more budget is no success; its siblings go on, and what they return counts more. */
struct refusing {
    weft_fund *fund;
    int sibling; /* what the other child returns */
    int expected;
    atomic_bool gone; /* the refused one has ended */
};

static int want_more(void *arg) {
    int error;
    while ((error = weft_checkpoint()) == 0)
        ;
    atomic_store(&((struct refusing *)arg)->gone, true);
    return error;
}

static int go_on(void *arg) {
    struct refusing *r = arg;
    while (!atomic_load(&r->gone))
        if (weft_yield())
            return -EPROTO; /* nobody cancels it */
    return r->sibling;
}

static int refuse_child(void *arg) {
    struct refusing *r = arg;
    weft_nursery n;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget its = {100, 0, 0, 0, 0};
    weft_task *task = NULL;
    spec.fn = want_more;
    spec.arg = r;
    spec.fund = r->fund;
    spec.budget = &its;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_spawn(&n, &spec, &task), 0);
    REQUIRE_EQ(weft_nursery_go(&n, go_on, r, NULL), 0);
    REQUIRE_EQ(weft_fund_wait_exhausted(r->fund, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_fund_refuse(r->fund, task), 0);
    weft_task_drop(task);
    CHECK_EQ(weft_nursery_await(&n), r->expected);
    CHECK_EQ(weft_nursery_state_of(&n), r->sibling ? WEFT_NURSERY_CANCELLED : WEFT_NURSERY_CLOSED);
    return 0;
}

API_TEST(nursery_refused_child, "J33 J37 J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_NONE, NULL);
    static const int sibling[] = {0, -EDOM}, expected[] = {-EDQUOT, -EDOM};
    for (int i = 0; i < 2; i++) {
        struct refusing r = {new_fund(rt, (weft_budget){100, 0, 1, 0, 0}), sibling[i], expected[i], false};
        weft_task *task = NULL;
        REQUIRE_EQ(weft_fiber_go(rt, refuse_child, &r, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
        CHECK_EQ(weft_fund_destroy(r.fund), 0);
    }
    fixture_end(rt);
}

API_TEST(nursery_core, "J1", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CORE, NULL);
    weft_nursery n, *made;
    CHECK_EQ(weft_nursery_init(&n, rt, NULL), -EPERM);
    CHECK_EQ(weft_nursery_create(rt, NULL, &made), -EPERM);
    CHECK_EQ(fixture_stats(rt).denied, 2);
    fixture_end(rt);
}

/* Under sovereign a nursery may be opened by anybody; spawning needs the capability. */
static weft_caps caps;
static int sovereign_main(void *arg) {
    weft_nursery n;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    config.until = weft_after(INT64_C(3600000000000)); /* its timer is the library's own task */
    REQUIRE_EQ(weft_nursery_init(&n, NULL, &config), 0);
    spec.fn = count_child;
    spec.arg = arg;
    CHECK_EQ(weft_nursery_spawn(&n, &spec, NULL), -EPERM);
    const weft_supervised_fiber child = {"child", count_child, arg, WEFT_RESTART_TEMPORARY, 0};
    CHECK_EQ(weft_timeout(WEFT_NEVER, count_child, arg), -EPERM); /* these have no place for one */
    CHECK_EQ(weft_supervise(NULL, &child, 1), -EPERM);
    weft_nursery *compiled = weft_abi_nursery_create();
    CHECK_EQ(weft_abi_nursery_spawn(compiled, count_child, arg), NULL);
    CHECK_EQ(weft_abi_nursery_await(compiled), -EACCES); /* who has not looked at the pointer is told */
    weft_abi_nursery_destroy(compiled);
    spec.cap = &caps.spawn;
    CHECK_EQ(weft_nursery_spawn(&n, &spec, NULL), 0);
    return weft_nursery_await(&n);
}

API_TEST(nursery_sovereign, "J4 J7", .workers = {1, 2}, .sched = "ring deque fifo") {
    weft_config config = WEFT_CONFIG_INIT;
    atomic_uint ran = 0;
    config.profile = WEFT_PROFILE_SOVEREIGN;
    config.caps = &caps;
    CHECK_EQ(weft_fiber_run(&config, sovereign_main, &ran, NULL), 0);
    CHECK_EQ(atomic_load(&ran), 1);
}

/* -- Channels and descriptors -------------------------------------------------------------------------------------- */

#define CHECK_COST(call, o, c, y)                                                                                      \
    do {                                                                                                               \
        weft_budget cost_before = left_now();                                                                          \
        call;                                                                                                          \
        weft_budget cost_after = left_now();                                                                           \
        CHECK_EQ(cost_before.ops - cost_after.ops, o);                                                                 \
        CHECK_EQ(cost_before.channel_ops - cost_after.channel_ops, c);                                                 \
        CHECK_EQ(cost_before.syscalls - cost_after.syscalls, y);                                                       \
        CHECK_EQ(cost_before.spawns, cost_after.spawns);                                                               \
        CHECK_EQ(cost_before.memory, cost_after.memory);                                                               \
    } while (0)

static void add_one(size_t from, size_t to, void *arg) { atomic_fetch_add((atomic_uint *)arg, (unsigned)(to - from)); }

static int costs(void *arg) {
    weft_chan *chan;
    int value = 7, many[4] = {1, 2, 3, 4};
    (void)arg;
    REQUIRE_EQ(weft_chan_create(sizeof value, 10, &chan), 0);
    CHECK_COST(CHECK_EQ(weft_chan_send(chan, &value, WEFT_NEVER), 0), 1, 1, 0);
    CHECK_COST(CHECK_EQ(weft_chan_recv(chan, &value, WEFT_NEVER), 0), 1, 1, 0);
    CHECK_COST(CHECK_EQ(weft_chan_recv(chan, &value, WEFT_NOW), -ETIMEDOUT), 1, 1, 0);
    CHECK_COST(CHECK_EQ(weft_chan_send_many(chan, many, 4, WEFT_NEVER), 4), 1, 1, 0);
    CHECK_COST(CHECK_EQ(weft_chan_recv_many(chan, many, 4, WEFT_NEVER), 4), 1, 1, 0);
    weft_case cases[1] = {weft_case_recv(chan, &value)};
    CHECK_COST(CHECK_EQ(weft_select(cases, 1, WEFT_NOW), -ETIMEDOUT), 1, 1, 0);
    weft_chan_drop(chan);

    weft_broadcast *radio;
    weft_subscriber *listener;
    weft_watch *watch;
    uint64_t version = 0;
    REQUIRE_EQ(weft_broadcast_create(sizeof value, 1, &radio), 0);
    REQUIRE_EQ(weft_subscribe(radio, &listener), 0);
    CHECK_COST(CHECK_EQ(weft_subscriber_recv(listener, &value, NULL, WEFT_NOW), -ETIMEDOUT), 1, 1, 0);
    weft_unsubscribe(listener);
    weft_broadcast_drop(radio);
    REQUIRE_EQ(weft_watch_create(sizeof value, &value, &watch), 0);
    CHECK_COST(CHECK_EQ(weft_watch_wait(watch, &version, &value, WEFT_NOW), 0), 1, 1, 0);
    weft_watch_drop(watch);

    weft_io *in, *out;
    char byte = 'x';
    REQUIRE_EQ(weft_pipe(&in, &out), 0);
    CHECK_COST(CHECK_EQ(weft_write(out, &byte, 1, WEFT_NEVER), 1), 1, 0, 1);
    CHECK_COST(CHECK_EQ(weft_read(in, &byte, 1, WEFT_NEVER), 1), 1, 0, 1);
    REQUIRE_EQ(weft_close(in), 0);
    REQUIRE_EQ(weft_close(out), 0);

    atomic_uint sum = 0;
    CHECK_COST(CHECK_EQ(weft_parallel_for(NULL, 0, 100, 10, add_one, &sum), 0), 0, 0, 0); /* the library's own task */
    CHECK_EQ(atomic_load(&sum), 100);
    return 0;
}

API_TEST(budget_channel_and_io_costs, "J10 J11", .workers = {1, 2}, .sched = "ring deque fifo") {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER, NULL);
    weft_fund *fund = new_fund(rt, (weft_budget)WEFT_BUDGET_CLUSTER);
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    spec.fn = costs;
    spec.fund = fund;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    weft_budget left = left_in(fund);
    CHECK_EQ(left.channel_ops, 10000 - 8);
    CHECK_EQ(left.syscalls, 1000 - 2);
    REQUIRE_EQ(weft_fund_destroy(fund), 0);
    fixture_end(rt);
}

/* -- Messages ------------------------------------------------------------------------------------------------------ */

static int answer_one(void *arg) {
    weft_message m;
    (void)arg;
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
    return weft_reply(&m, NULL, 0);
}

static int message_costs(void *arg) {
    static char large[100];
    weft_pid server = *(weft_pid *)arg, self = weft_self();
    weft_message m;
    CHECK_COST(CHECK_EQ(weft_send(NULL, self, 1, large, 8), 0), 1, 1, 0);
    CHECK_COST(CHECK_EQ(weft_send(NULL, self, 2, large, sizeof large), 0), 1, 1, 0);
    CHECK_COST(CHECK_EQ(weft_try_send(NULL, self, 3, large, 8), 0), 1, 1, 0);
    CHECK_COST(CHECK_EQ(weft_send_ref(NULL, self, 4, large, sizeof large, NULL), 0), 1, 1, 0);
    for (uint64_t i = 1; i <= 4; i++) {
        CHECK_COST(CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0), 1, 1, 0);
        CHECK_EQ(m.tag, i);
    }
    CHECK_COST(CHECK_EQ(weft_reply(&m, NULL, 0), 0), 1, 1, 0);
    CHECK_COST(CHECK_EQ(weft_ask(server, NULL, 0, &m, WEFT_NEVER), 0), 1, 1, 0);
    CHECK_COST(CHECK_EQ(weft_send(NULL, WEFT_PID_NONE, 5, NULL, 0), -ESRCH), 1, 1, 0); /* it was looked for */
    return 0;
}

API_TEST(budget_message_costs, "J10 J11", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_NONE, NULL);
    weft_fund *fund = new_fund(rt, (weft_budget)WEFT_BUDGET_CLUSTER);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid server;
    weft_task *task;
    REQUIRE_EQ(weft_process_go(rt, answer_one, NULL, &server), 0);
    spec.fn = message_costs;
    spec.arg = &server;
    spec.fund = fund;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(left_in(fund).channel_ops, 10000 - 11);
    REQUIRE_EQ(weft_fund_destroy(fund), 0);
    fixture_end(rt);
}

/* An exhausted sender waits for its supervisor, not for room; nothing was sent. */
static int send_three(void *arg) {
    weft_chan *chan = arg;
    for (int i = 0; i < 3; i++) {
        int error = weft_chan_send(chan, &i, WEFT_NEVER);
        if (error)
            return error;
    }
    return 0;
}

API_TEST(budget_exhausted_sender, "J11 J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER, NULL);
    weft_fund *fund = new_fund(rt, (weft_budget){100, 0, 2, 10, 0});
    weft_chan *chan;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget two = {10, 0, 0, 2, 0}, one = {0, 0, 0, 1, 0};
    REQUIRE_EQ(weft_chan_create(sizeof(int), 10, &chan), 0);
    for (int cancel = 0; cancel < 2; cancel++) {
        weft_task *task;
        int value;
        spec.fn = send_three;
        spec.arg = chan;
        spec.fund = fund;
        spec.budget = &two;
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
        REQUIRE_EQ(weft_fund_wait_exhausted(fund, fixture_soon()), 0);
        for (int i = 0; i < 2; i++)
            REQUIRE_EQ(weft_chan_recv(chan, &value, WEFT_NOW), 0);
        CHECK_EQ(weft_chan_recv(chan, &value, WEFT_NOW), -ETIMEDOUT);
        if (cancel)
            weft_task_cancel(task);
        else
            CHECK_EQ(weft_fund_recharge(fund, task, &one, NULL), 0);
        CHECK_EQ(fixture_finish(task).status, cancel ? -ECANCELED : 0);
        CHECK_EQ(weft_chan_recv(chan, &value, WEFT_NOW), cancel ? -ETIMEDOUT : 0);
    }
    weft_chan_drop(chan);
    REQUIRE_EQ(weft_fund_destroy(fund), 0);
    fixture_end(rt);
}
