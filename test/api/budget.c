/* budget.c - fibers with a budget: what is charged, being exhausted. */
#include "budget.h"

/* -- What is charged ---------------------------------------------------------------------------------------- */

#define CHECK_COST(call, o, m, s, c, y)                                                                                \
    do {                                                                                                               \
        weft_budget cost_before = left_now();                                                                          \
        call;                                                                                                          \
        weft_budget cost_after = left_now();                                                                           \
        CHECK_EQ(cost_before.ops - cost_after.ops, o);                                                                 \
        CHECK_EQ(cost_before.memory - cost_after.memory, m);                                                           \
        CHECK_EQ(cost_before.spawns - cost_after.spawns, s);                                                           \
        CHECK_EQ(cost_before.channel_ops - cost_after.channel_ops, c);                                                 \
        CHECK_EQ(cost_before.syscalls - cost_after.syscalls, y);                                                       \
    } while (0)

static int costs(void *arg) {
    weft_fund *fund = arg;
    void *memory = NULL;
    struct wefti_fiber *self = wefti_fiber_of(weft_task_self());
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = nop;
    spec.fund = fund;
    CHECK_COST(REQUIRE_EQ(weft_checkpoint(), 0), 1, 0, 0, 0, 0);
    CHECK_COST(REQUIRE_EQ(weft_yield(), 0), 0, 0, 0, 0, 0);
    CHECK_COST(REQUIRE_EQ(weft_alloc(1000, &memory), 0), 1, 1000, 0, 0, 0);
    for (int i = 0; i < 1000; i++)
        REQUIRE_EQ(((char *)memory)[i], 0);
    CHECK_COST(weft_free(memory), 0, -1000, 0, 0, 0);
    CHECK_COST(weft_free(NULL), 0, 0, 0, 0, 0);
    CHECK_COST(REQUIRE_EQ(weft_go(NULL, nothing, NULL, NULL), 0), 1, 0, 1, 0, 0);
    CHECK_COST(REQUIRE_EQ(weft_fiber_go(NULL, nop, NULL, NULL), 0), 1, 0, 1, 0, 0);
    CHECK_COST(REQUIRE_EQ(weft_fiber_spawn(NULL, &spec, NULL), 0), 1, 0, 0, 0, 0); /* the fund pays the spawn */
    weft_nursery n;
    weft_async call;
    const weft_supervised_fiber child = {"child", nop, NULL, WEFT_RESTART_TEMPORARY, 0};
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    CHECK_COST(REQUIRE_EQ(weft_nursery_go(&n, nop, NULL, NULL), 0), 1, 0, 1, 0, 0);
    CHECK_COST(REQUIRE_EQ(weft_async_call(&n, nop, NULL, &call), 0), 1, 0, 1, 0, 0);
    CHECK_COST(CHECK_EQ(weft_nursery_await(&n), 0), 0, 0, 0, 0, 0);
    weft_async_drop(&call);
    CHECK_COST(CHECK_EQ(weft_timeout(WEFT_NEVER, nop, NULL), 0), 1, 0, 1, 0, 0);
    CHECK_COST(CHECK_EQ(weft_supervise(NULL, &child, 1), 0), 1, 0, 1, 0, 0);
    CHECK_COST(REQUIRE_EQ(wefti_charge_channel(self), 0), 1, 0, 0, 1, 0);
    CHECK_COST(REQUIRE_EQ(wefti_charge_syscall(self), 0), 1, 0, 0, 0, 1);
    uint64_t ops = weft_ops_used();
    CHECK_COST(metered_sum(777), weft_ops_used() - ops, 0, 0, 0, 0);
    CHECK_GE(weft_ops_used() - ops, 777);
    CHECK_COST(REQUIRE_EQ(weft_fiber_spawn(NULL, NULL, NULL), -EINVAL), 0, 0, 0, 0, 0);
    return 0;
}

API_TEST(budget_costs, "J10 J11", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_NONE);
    weft_fund *fund = new_fund(rt, (weft_budget)WEFT_BUDGET_CLUSTER);
    CHECK_EQ(fixture_finish(charged(rt, fund, (weft_budget){100000, 100000, 10, 10, 10}, costs, fund)).status, 0);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    weft_budget left;
    weft_fund_left(fund, &left);
    CHECK_EQ(left.memory, UINT64_C(100) << 20);
    CHECK_EQ(left.spawns, 1000 - 8); /* the fiber, six by itself, one by its fund */
    CHECK_EQ(left.channel_ops, 10000 - 1);
    CHECK_EQ(left.syscalls, 1000 - 1);
    CHECK_LT(left.ops, 1000000 - 777);
    end_fund(fund);
    fixture_end(rt);
}

static int uncharged(void *arg) {
    (void)arg;
    weft_budget left;
    void *memory;
    CHECK_EQ(weft_budget_left(&left), -ENOENT);
    REQUIRE_EQ(weft_alloc(10, &memory), 0);
    weft_free(memory);
    REQUIRE_EQ(weft_alloc(0, &memory), 0);
    weft_free(memory);
    CHECK_EQ(weft_alloc(SIZE_MAX, &memory), -ENOMEM);
    CHECK_EQ(weft_checkpoint(), 0);
    return 0;
}

/* -- A long life ---------------------------------------------------------------------------------------------- */

#define MESSAGES 70000 /* more than 16 bits can count */

static int send_many(void *arg) {
    for (int i = 0; i < MESSAGES; i++) {
        int value, error = weft_chan_send(arg, &i, WEFT_NEVER);
        if (!error)
            error = weft_chan_recv(arg, &value, WEFT_NEVER);
        if (error || value != i)
            return error ? error : -EPROTO;
    }
    return 0;
}

/* One budget lasts for more operations than 16 bits can count: none of them is exhausted on the way. */
API_TEST(budget_long_lived, "J10 J11", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_budget all = {3 * MESSAGES, 0, 1, 3 * MESSAGES, 0}, its = {2 * MESSAGES, 0, 0, 2 * MESSAGES, 0};
    weft_fund *fund = new_fund(rt, all);
    weft_chan *chan = NULL;
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &chan), 0);
    CHECK_EQ(fixture_finish(charged(rt, fund, its, send_many, chan)).status, 0);
    CHECK_HOLDS(fund, MESSAGES, 0, 0, MESSAGES, 0);
    weft_stats stats = {.size = sizeof stats};
    REQUIRE_EQ(weft_stats_read(rt, -1, &stats), 0);
    CHECK_EQ(stats.exhausted, 0);
    weft_chan_drop(chan);
    end_fund(fund);
    fixture_end(rt);
}

API_TEST(budget_none, "J11", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_NONE);
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, uncharged, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    uncharged(NULL);
    CHECK(!weft_runtime_fund(rt));
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget budget = WEFT_BUDGET_CHILD;
    spec.fn = nop;
    spec.budget = &budget;
    CHECK_EQ(weft_fiber_spawn(rt, &spec, NULL), -EINVAL); /* out of what? */
    fixture_end(rt);
}

/* Where there is a fund of the runtime, a budget without another comes out of that, also a thread's. */
static int has_budget(void *arg) {
    CHECK_EQ(weft_runtime_fund(NULL), arg);
    CHECK_EQ(left_now().syscalls, 7);
    return 0;
}

API_TEST(budget_from_the_runtime, "J10", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    CHECK(weft_runtime_fund(rt) != NULL);
    weft_budget budget = {1000, 0, 0, 0, 7};
    CHECK_EQ(fixture_finish(charged(rt, NULL, budget, has_budget, weft_runtime_fund(rt))).status, 0);
    fixture_end(rt);
}

/* -- Exhausted ------------------------------------------------------------------------------------------------ */

static void recharge_each(weft_runtime *rt, weft_fund *fund, enum what what) {
    struct wanting w = {.what = what, .want = 8};
    weft_budget more = scarce(what, 3), none = {0};
    weft_task *task = charged(rt, fund, scarce(what, 2), want, &w);
    unsigned rounds = 0;
    while (!weft_task_is_done(task)) {
        REQUIRE_EVENTUALLY(is_exhausted(fund, task) || weft_task_is_done(task));
        if (!is_exhausted(fund, task))
            break;
        CHECK_STR(weft_task_state(task), "exhausted");
        unsigned got = atomic_load(&w.got);
        REQUIRE_EQ(weft_fund_recharge(fund, task, &none, NULL), 0); /* not enough: it stays */
        REQUIRE_EVENTUALLY(is_exhausted(fund, task));
        CHECK_EQ(atomic_load(&w.got), got);
        REQUIRE_EQ(weft_fund_recharge(fund, task, &more, NULL), 0);
        rounds++;
    }
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(atomic_load(&w.got), 8);
    for (int i = 0; i < 8; i++)
        weft_free(w.memory[i]);
    CHECK_GE(rounds, 2);
    CHECK_GE(fixture_stats(rt).exhausted, rounds);
}

API_TEST(budget_recharge_each, "J11 J13 J40", .workers = {1, 2}, .timeout = 60) {
    weft_runtime *rt = begin(WEFT_PROFILE_NONE);
    weft_fund *fund = new_fund(rt, (weft_budget)WEFT_BUDGET_MAX);
    for (int what = 0; what < WHATS; what++)
        recharge_each(rt, fund, (enum what)what);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    end_fund(fund);
    fixture_end(rt);
}

/* Cancelled while it waits in a checkpoint: that tells, also one who may be discarded, which is not done in a call. */
static int until_told(void *arg) {
    int error;
    while ((error = weft_checkpoint()) == 0)
        ;
    atomic_store((atomic_bool *)arg, true);
    return error;
}

API_TEST(budget_checkpoint_tells, "J11 J25", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_NONE);
    weft_fund *fund = new_fund(rt, (weft_budget)WEFT_BUDGET_MAX);
    weft_budget budget = {10, 0, 0, 0, 0};
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    atomic_bool told = false;
    spec.fn = until_told;
    spec.arg = &told;
    spec.fund = fund;
    spec.budget = &budget;
    spec.discard = true;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    REQUIRE_EVENTUALLY(is_exhausted(fund, task));
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK(atomic_load(&told));
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    end_fund(fund);
    fixture_end(rt);
}

/* Exactly paid is not exhausted, and 0 of something is no reason to stop (J11). */
static int spend_all(void *arg) {
    (void)arg;
    for (int i = 0; i < 5; i++)
        REQUIRE_EQ(wefti_charge_channel(wefti_fiber_of(weft_task_self())), 0);
    weft_budget left = left_now();
    CHECK_EQ(left.ops + left.memory + left.spawns + left.channel_ops + left.syscalls, 0);
    return weft_yield();
}

API_TEST(budget_spent_to_zero, "J11", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){5, 0, 1, 5, 0});
    CHECK_EQ(fixture_finish(charged(rt, fund, (weft_budget){5, 0, 0, 5, 0}, spend_all, NULL)).status, 0);
    CHECK_EQ(fixture_stats(rt).exhausted, 0);
    CHECK_HOLDS(fund, 0, 0, 0, 0, 0);
    end_fund(fund);
    fixture_end(rt);
}

/* All or nothing: too little of one thing, and nothing of the others is taken. */
static int too_dear(void *arg) {
    (void)arg;
    void *memory;
    weft_budget before = left_now();
    CHECK_EQ(weft_alloc(2000, &memory), -ECANCELED);
    weft_budget after = left_now();
    CHECK(weft_budget_covers(&after, &before));
    CHECK_EQ(weft_alloc(500, &memory), 0); /* this it can pay, also now */
    weft_free(memory);
    return -ECANCELED;
}

API_TEST(budget_cancel_exhausted, "J11 J25 J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){1000, 10000, 10, 0, 0});
    for (int way = 0; way < 2; way++) {
        weft_task *task = charged(rt, fund, (weft_budget){100, 1000, 0, 0, 0}, too_dear, NULL);
        REQUIRE_EVENTUALLY(is_exhausted(fund, task));
        if (way == 0)
            weft_task_cancel(task);
        else
            REQUIRE_EQ(weft_fund_refuse(fund, task), 0);
        CHECK_EQ(weft_task_cancel_reason(task), way == 0 ? WEFT_REASON_EXPLICIT : WEFT_REASON_BUDGET);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        CHECK_EQ(weft_fund_refuse(fund, NULL), -ENOENT);
    }
    CHECK_HOLDS(fund, 1000 - 2, 10000, 8, 0, 0); /* one allocation each was paid for: 1 op */
    end_fund(fund);
    fixture_end(rt);
}

/* A metered loop that is exhausted, then cancelled: it may run on, unpaid, to where it can end; or is discarded. */
struct runner {
    atomic_bool cancelled, after;
};
static int run_dry(void *arg) {
    struct runner *r = arg;
    while (!atomic_load(&r->cancelled))
        metered_sum(100);
    atomic_store(&r->after, true);
    return weft_yield();
}

API_TEST(budget_metered_cancel, "J11 J25", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){100000, 0, 10, 0, 0});
    for (int discard = 0; discard < 2; discard++)
        for (int migrate = 0; migrate < 2; migrate++) {
            struct runner r = {0};
            weft_budget budget = {5000, 0, 0, 0, 0};
            weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
            weft_task *task;
            spec.fn = run_dry;
            spec.arg = &r;
            spec.fund = fund;
            spec.budget = &budget;
            spec.discard = discard;
            spec.migrate = migrate;
            REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
            REQUIRE_EVENTUALLY(is_exhausted(fund, task));
            CHECK(!atomic_load(&r.after));
            atomic_store(&r.cancelled, true);
            CHECK(is_exhausted(fund, task)); /* it does not run before it is recharged or cancelled */
            weft_task_cancel(task);
            CHECK_EQ(fixture_finish(task).status, -ECANCELED);
            CHECK_EQ(atomic_load(&r.after), !discard);
        }
    CHECK_HOLDS(fund, 100000 - 4 * 5000, 0, 6, 0, 0);
    end_fund(fund);
    fixture_end(rt);
}

/* Discarded by its worker, while others of that run, and waiting once more at its end. */
static unsigned last_key;
static void wait_at_end(void *value) {
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_yield(), -ECANCELED);
        CHECK_EQ(weft_shield(weft_task_self()), 0);
        CHECK_EQ(weft_sleep(1000), 0);
        CHECK_EQ(weft_unshield(weft_task_self()), 0);
    }
    atomic_store(&((struct runner *)value)->after, true);
}

static int run_dry_with_local(void *arg) {
    REQUIRE_EQ(weft_local_set(last_key, arg), 0);
    for (;;)
        metered_sum(100);
}

static int yield_until_after(void *arg) {
    while (!atomic_load(&((struct runner *)arg)->after))
        CHECK_EQ(weft_yield(), 0);
    return 0;
}

API_TEST(budget_discard_waits, "J11 J25", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){100000, 0, 10, 0, 0});
    REQUIRE_EQ(weft_local_create(&last_key, wait_at_end), 0);
    for (int migrate = 0; migrate < 2; migrate++) {
        struct runner r = {0};
        weft_budget budget = {5000, 0, 0, 0, 0};
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        weft_task *task, *others[4];
        spec.fn = run_dry_with_local;
        spec.arg = &r;
        spec.fund = fund;
        spec.budget = &budget;
        spec.discard = true;
        spec.migrate = migrate;
        for (int i = 0; i < 4; i++)
            REQUIRE_EQ(weft_fiber_go(rt, yield_until_after, &r, &others[i]), 0);
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
        REQUIRE_EVENTUALLY(is_exhausted(fund, task));
        weft_task_cancel(task);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        CHECK(atomic_load(&r.after));
        for (int i = 0; i < 4; i++)
            CHECK_EQ(fixture_finish(others[i]).status, 0);
    }
    end_fund(fund);
    fixture_end(rt);
}
