/* budget_profile.c - profiles: what fibers get, and what happens when they have used it. */
#include "budget.h"

/* -- Profiles ------------------------------------------------------------------------------------------------------ */

static int service_fiber(void *arg) {
    weft_chan *ch;
    int value = 0;
    weft_budget left = left_now();
    CHECK_EQ(left.ops, 10000);
    CHECK_EQ(left.memory, 1 << 20);
    CHECK_EQ(left.spawns, 0);
    REQUIRE_EQ(weft_chan_create(sizeof value, 1, &ch), 0);
    for (int i = 0; i < 500; i++) { /* 1,000 channel operations; it has 100 at a time */
        REQUIRE_EQ(weft_chan_send(ch, &i, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_chan_recv(ch, &value, WEFT_NEVER), 0);
        REQUIRE_EQ(value, i);
    }
    REQUIRE_EQ(weft_chan_destroy(ch), 0);
    for (int i = 0; i < 50; i++)
        REQUIRE_EQ(weft_fiber_go(NULL, nop, NULL, NULL), 0);
    metered_sum(50000);
    void *memory;
    REQUIRE_EQ(weft_alloc(50 << 20, &memory), 0);
    weft_free(memory);
    atomic_store((atomic_bool *)arg, true);
    return 0;
}

API_TEST(profile_service, "J2 J11", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SERVICE);
    atomic_bool done = false;
    weft_task *task;
    CHECK(weft_runtime_fund(rt) != NULL);
    CHECK_EQ(weft_fund_destroy(weft_runtime_fund(rt)), -EBUSY);
    REQUIRE_EQ(weft_fiber_go(rt, service_fiber, &done, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK(atomic_load(&done));
    CHECK_GE(fixture_stats(rt).exhausted, 10);
    for (int i = 0; i < 300; i++) /* more than any default allows */
        REQUIRE_EVENTUALLY(weft_fiber_go(rt, nop, NULL, NULL) == 0);
    fixture_end(rt);
}

/* Who is exhausted lets others run before it goes on. */
struct seen {
    atomic_uint turns;
    atomic_bool stop;
};
static int count_own_turns(void *arg) {
    struct seen *seen = arg;
    while (!atomic_load(&seen->stop)) {
        atomic_fetch_add(&seen->turns, 1);
        weft_yield();
    }
    return 0;
}
static int exhaust_and_look(void *arg) {
    struct seen *seen = arg;
    while (!atomic_load(&seen->turns))
        weft_yield();
    unsigned changes = 0;
    for (int i = 0; i < 1000; i++) { /* 100 channel ops each time: exhausted 9 times */
        unsigned before = atomic_load(&seen->turns);
        REQUIRE_EQ(wefti_charge_channel(wefti_fiber_of(weft_task_self())), 0);
        changes += atomic_load(&seen->turns) != before;
    }
    CHECK_EQ(changes, 9);
    atomic_store(&seen->stop, true);
    return 0;
}

API_TEST(profile_service_yields, "J2 J11", .workers = {1}, .sched = "ring deque fifo") {
    weft_runtime *rt = begin(WEFT_PROFILE_SERVICE);
    struct seen seen = {0};
    weft_task *a, *b;
    REQUIRE_EQ(weft_fiber_go(rt, count_own_turns, &seen, &a), 0);
    REQUIRE_EQ(weft_fiber_go(rt, exhaust_and_look, &seen, &b), 0);
    CHECK_EQ(fixture_finish(b).status, 0);
    CHECK_EQ(fixture_finish(a).status, 0);
    CHECK_EQ(fixture_stats(rt).exhausted, 9);
    fixture_end(rt);
}

static int cluster_child(void *arg) {
    (void)arg;
    weft_budget left = left_now();
    CHECK_EQ(left.ops, 10000);
    CHECK_EQ(left.channel_ops, 100);
    CHECK_EQ(left.syscalls, 10);
    return 0;
}

static int cluster_main(void *arg) {
    weft_runtime *rt = arg;
    weft_fund *fund = weft_runtime_fund(rt);
    weft_budget left;
    CHECK_EQ(weft_budget_left(&left), -ENOENT); /* the program's own */
    CHECK_HOLDS(fund, 1000000, UINT64_C(100) << 20, 1000, 10000, 1000);
    weft_task *task;
    weft_result result;
    REQUIRE_EQ(weft_fiber_go(NULL, cluster_child, NULL, &task), 0);
    REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
    weft_task_drop(task);
    CHECK_HOLDS(fund, 1000000, UINT64_C(100) << 20, 999, 10000, 1000);
    for (int i = 0; i < 999; i++) {
        REQUIRE_EQ(weft_fiber_go(NULL, nop, NULL, &task), 0);
        REQUIRE_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
        weft_task_drop(task);
    }
    CHECK_EQ(weft_fiber_go(NULL, nop, NULL, NULL), -EDQUOT);
    CHECK_EQ(weft_fund_add(fund, &(weft_budget){0, 0, 1, 0, 0}), 0);
    CHECK_EQ(weft_fiber_go(NULL, nop, NULL, NULL), 0);
    return 0;
}

API_TEST(profile_cluster, "J3 J12 J39", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, cluster_main, rt, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

struct two_turns {
    atomic_uint turn;
    uint64_t longest;
};
static int long_turn(void *arg) {
    struct two_turns *t = arg;
    while (!atomic_load(&t->turn)) /* until the other has begun */
        weft_yield();
    unsigned seen = atomic_load(&t->turn);
    uint64_t since = weft_ops_used();
    while (atomic_load(&t->turn) < 20) {
        metered_sum(1);
        if (atomic_load(&t->turn) != seen) {
            uint64_t now = weft_ops_used();
            if (now - since > t->longest)
                t->longest = now - since;
            since = now;
            seen = atomic_load(&t->turn);
        }
    }
    return 0;
}
static int count_turns(void *arg) {
    struct two_turns *t = arg;
    for (int i = 0; i < 20; i++) {
        atomic_fetch_add(&t->turn, 1);
        weft_yield();
    }
    return 0;
}

/* The interval: 1,024 ops, or 512. */
API_TEST(profile_yield_interval, "J5", .workers = {1}, .sched = "ring deque") {
    for (int profile = WEFT_PROFILE_NONE; profile <= WEFT_PROFILE_CLUSTER; profile++) {
        if (profile == WEFT_PROFILE_CORE)
            continue;
        weft_runtime *rt = begin((weft_profile)profile);
        struct two_turns t = {0};
        weft_task *a, *b;
        REQUIRE_EQ(weft_fiber_go(rt, long_turn, &t, &a), 0);
        REQUIRE_EQ(weft_fiber_go(rt, count_turns, &t, &b), 0);
        fixture_finish(a);
        fixture_finish(b);
        uint64_t interval = profile == WEFT_PROFILE_CLUSTER ? 512 : 1024;
        CHECK_GT(t.longest, interval / 2);
        CHECK_LE(t.longest, interval + 8);
        fixture_end(rt);
    }
}

API_TEST(profile_core, "J1", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CORE);
    CHECK_EQ(weft_go(rt, nothing, NULL, NULL), -EPERM);
    CHECK_EQ(weft_fiber_go(rt, nop, NULL, NULL), -EPERM);
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = nothing;
    CHECK_EQ(weft_spawn(rt, &spec, NULL), -EPERM);
    CHECK_EQ(fixture_stats(rt).denied, 3);
    CHECK_EQ(fixture_stats(rt).spawned, 0);
    fixture_end(rt);
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = WEFT_PROFILE_CORE;
    CHECK_EQ(weft_fiber_run(&config, nop, NULL, NULL), -EPERM);
    config.profile = (weft_profile)5;
    CHECK_EQ(weft_fiber_run(&config, nop, NULL, NULL), -EINVAL);
}
