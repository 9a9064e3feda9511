/* budget_caps.c - capabilities: needed under sovereign, narrowed, revoked, unforgeable, counted. */
#include <weft/cap.h>

#include "budget/cap.h"
#include "fixture.h"

static weft_caps caps;

static weft_runtime *begin(weft_profile profile) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = profile;
    config.caps = &caps;
    return fixture_begin(&config);
}

static int nop(void *arg) {
    if (arg)
        atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

static int spawn_with(weft_runtime *rt, const weft_cap *cap, const weft_budget *budget, weft_fiber_fn fn, void *arg,
                      weft_task **task) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    spec.cap = cap;
    spec.budget = budget;
    return weft_fiber_spawn(rt, &spec, task);
}

static weft_grant spawn_grant(uint32_t max_tasks) {
    weft_grant grant = WEFT_GRANT_INIT;
    grant.kind = WEFT_CAP_SPAWN;
    grant.delegable = true;
    grant.max_tasks = max_tasks;
    grant.task_budget = (weft_budget)WEFT_BUDGET_CHILD;
    return grant;
}

static weft_cap made(weft_runtime *rt, const weft_cap *from, weft_grant grant) {
    weft_cap cap = {0, 0};
    REQUIRE_EQ(weft_cap_delegate(rt, from, &grant, &cap), 0);
    return cap;
}

/* -- Without a capability nothing runs ------------------------------------------------------------------------ */

static weft_poll count_poll(weft_task *self, void *state) {
    atomic_fetch_add((atomic_uint *)state, 1);
    return weft_done(self, 0, NULL);
}

static int try_without(void *arg) {
    weft_fund *fund;
    weft_budget budget = WEFT_BUDGET_CHILD;
    CHECK_EQ(weft_fiber_go(NULL, nop, arg, NULL), -EPERM);
    CHECK_EQ(weft_go(NULL, count_poll, arg, NULL), -EPERM);
    CHECK(!weft_runtime_fund(NULL));
    CHECK_EQ(weft_fund_create(NULL, NULL, &budget, &fund), -EPERM); /* nothing out of nothing */
    return 0;
}

API_TEST(cap_needed, "J4 J7", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    atomic_uint ran = 0;
    weft_task *task;
    weft_cap none = {0, 0};
    CHECK_EQ(weft_fiber_go(rt, nop, &ran, NULL), -EPERM);
    CHECK_EQ(weft_go(rt, count_poll, &ran, NULL), -EPERM);
    CHECK_EQ(spawn_with(rt, &none, NULL, nop, &ran, NULL), -EPERM);
    CHECK_EQ(spawn_with(rt, &caps.budget, NULL, nop, &ran, NULL), -EPERM); /* of another kind */
    CHECK_EQ(fixture_stats(rt).denied, 4);
    CHECK_EQ(fixture_stats(rt).spawned, 0);
    REQUIRE_EQ(spawn_with(rt, &caps.spawn, NULL, try_without, &ran, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(fixture_stats(rt).denied, 7);
    CHECK_EQ(fixture_stats(rt).spawned, 1);
    CHECK_EQ(atomic_load(&ran), 0);
    fixture_end(rt);
}

/* The first fiber is the program's own; it has the keys if it was given them. */
static void *thread_without(void *rt) {
    CHECK_EQ(weft_fiber_go(rt, nop, NULL, NULL), -EPERM);
    return NULL;
}
static int run_main(void *arg) {
    weft_task *task;
    pthread_t thread; /* a plain thread is not trusted either */
    REQUIRE_EQ(pthread_create(&thread, NULL, thread_without, weft_runtime_current()), 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_fiber_go(NULL, nop, arg, NULL), -EPERM);
    int error = spawn_with(NULL, &caps.spawn, NULL, nop, arg, &task);
    if (!error) {
        error = weft_join(task, NULL, WEFT_NEVER);
        weft_task_drop(task);
    }
    return error;
}

API_TEST(cap_run, "J4 J7", .workers = {1, 2}) {
    weft_config config = WEFT_CONFIG_INIT;
    atomic_uint ran = 0;
    config.profile = WEFT_PROFILE_SOVEREIGN;
    config.caps = &caps;
    CHECK_EQ(weft_fiber_run(&config, run_main, &ran, NULL), 0);
    CHECK_EQ(atomic_load(&ran), 1);
    CHECK_EQ(weft_run(&config, count_poll, &ran, NULL), 0);
    CHECK_EQ(atomic_load(&ran), 2);
}

/* -- Forgery ------------------------------------------------------------------------------------------------------ */

API_TEST(cap_unforgeable, "J7", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_cap real = made(rt, &caps.spawn, spawn_grant(5));
    uint64_t random = harness_seed();
    weft_grant grant;
    unsigned before = (unsigned)fixture_stats(rt).denied;
    for (int i = 0; i < 10000; i++) {
        weft_cap forged = real;
        switch (i % 4) {
        case 0: forged.secret ^= UINT64_C(1) << (i / 4 % 64); break;
        case 1: forged.id ^= UINT64_C(1) << (i / 4 % 64); break; /* another index, or generation */
        case 2: forged = (weft_cap){harness_random(&random) % 8, harness_random(&random)}; break;
        default: forged = (weft_cap){harness_random(&random), real.secret}; break;
        }
        CHECK_EQ(weft_cap_read(rt, &forged, &grant), -EPERM);
    }
    CHECK_EQ(fixture_stats(rt).denied, before + 10000);
    CHECK_EQ(weft_cap_read(rt, &real, &grant), 0);
    CHECK_EQ(grant.max_tasks, 5);
    weft_cap again = made(rt, &caps.spawn, spawn_grant(5));
    CHECK_NE(again.secret, real.secret);
    /* Another runtime's is none. */
    weft_caps mine = caps;
    weft_runtime *other = begin(WEFT_PROFILE_SOVEREIGN);
    CHECK_EQ(weft_cap_read(other, &mine.spawn, &grant), -EPERM);
    fixture_end(other);
    fixture_end(rt);
}

/* -- Narrowing ---------------------------------------------------------------------------------------------------- */

static int delegate(weft_runtime *rt, const weft_cap *from, weft_grant grant) {
    weft_cap cap;
    return weft_cap_delegate(rt, from, &grant, &cap);
}

API_TEST(cap_narrow, "J7", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_grant base = spawn_grant(10), g;
    weft_cap spawn = made(rt, &caps.spawn, base);
    CHECK_EQ(delegate(rt, &spawn, base), 0); /* equal */
    g = base, g.max_tasks = 11;
    CHECK_EQ(delegate(rt, &spawn, g), -EPERM);
    g = base, g.task_budget.ops++;
    CHECK_EQ(delegate(rt, &spawn, g), -EPERM);
    g = base, g.task_budget.spawns = 1; /* wider in one thing, narrower in others */
    g.task_budget.ops = 1;
    CHECK_EQ(delegate(rt, &spawn, g), -EPERM);
    g = base, g.kind = WEFT_CAP_BUDGET;
    CHECK_EQ(delegate(rt, &spawn, g), -EPERM);
    g = base, g.kind = (weft_cap_kind)0;
    CHECK_EQ(delegate(rt, &spawn, g), -EPERM);
    g = base, g.delegable = false;
    weft_cap last = made(rt, &spawn, g);
    CHECK_EQ(delegate(rt, &last, g), -EPERM); /* not delegable, which is the default */
    g = (weft_grant)WEFT_GRANT_INIT;
    CHECK(!g.delegable);
    g.size = sizeof g + 1000000;
    CHECK_EQ(delegate(rt, &spawn, g), -EINVAL);

    weft_grant b = WEFT_GRANT_INIT;
    b.kind = WEFT_CAP_BUDGET;
    b.delegable = true;
    b.limits = (weft_budget){100, 100, 1, 1, 1};
    b.recharge = true;
    weft_cap budget = made(rt, &caps.budget, b);
    g = b, g.transfer = true;
    CHECK_EQ(delegate(rt, &budget, g), -EPERM);
    g = b, g.limits.syscalls = 2;
    CHECK_EQ(delegate(rt, &budget, g), -EPERM);
    g = b, g.recharge = false;
    CHECK_EQ(delegate(rt, &budget, g), 0);

    weft_grant c = WEFT_GRANT_INIT;
    c.kind = WEFT_CAP_CHANNEL;
    c.delegable = true;
    c.max_channels = 2;
    c.max_buffer = 8;
    weft_cap channel = made(rt, &caps.channel, c);
    g = c, g.max_buffer = 9;
    CHECK_EQ(delegate(rt, &channel, g), -EPERM);
    g = c, g.max_channels = 3;
    CHECK_EQ(delegate(rt, &channel, g), -EPERM);

    weft_grant e = WEFT_GRANT_INIT;
    e.kind = WEFT_CAP_EXECUTOR;
    e.delegable = true;
    e.allowed = WEFT_EXECUTOR_WORKERS | WEFT_EXECUTOR_SHARDS;
    weft_cap executor = made(rt, &caps.executor, e);
    g = e, g.allowed = WEFT_EXECUTOR_WORKERS | WEFT_EXECUTOR_BLOCKING;
    CHECK_EQ(delegate(rt, &executor, g), -EPERM);
    g = e, g.allowed = WEFT_EXECUTOR_SHARDS;
    CHECK_EQ(delegate(rt, &executor, g), 0);
    CHECK_EQ(wefti_cap_executor(rt, &executor, WEFT_EXECUTOR_SHARDS), 0);
    CHECK_EQ(wefti_cap_executor(rt, &executor, WEFT_EXECUTOR_BLOCKING), -EPERM);
    CHECK_EQ(wefti_cap_executor(rt, NULL, WEFT_EXECUTOR_WORKERS), -EPERM);
    CHECK_EQ(wefti_cap_executor(rt, &channel, WEFT_EXECUTOR_WORKERS), -EPERM);
    fixture_end(rt);
}

/* -- Limits --------------------------------------------------------------------------------------------------------- */

static int wait_cancelled(void *arg) {
    (void)arg;
    while (weft_yield() == 0)
        ;
    return -ECANCELED;
}

static void end_all(weft_task **task, int count) {
    for (int i = 0; i < count; i++) {
        weft_task_cancel(task[i]);
        CHECK_EQ(fixture_finish(task[i]).status, -ECANCELED);
    }
}

/* A use counts for the grant and all above it: delegating does not multiply. */
API_TEST(cap_max_tasks, "J39", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_cap three = made(rt, &caps.spawn, spawn_grant(3)), a = made(rt, &three, spawn_grant(2)),
             b = made(rt, &three, spawn_grant(3));
    weft_task *task[4];
    for (int round = 0; round < 3; round++) {
        REQUIRE_EQ(spawn_with(rt, &a, NULL, wait_cancelled, NULL, &task[0]), 0);
        REQUIRE_EQ(spawn_with(rt, &a, NULL, wait_cancelled, NULL, &task[1]), 0);
        CHECK_EQ(spawn_with(rt, &a, NULL, wait_cancelled, NULL, &task[2]), -EDQUOT); /* 2 of a */
        REQUIRE_EQ(spawn_with(rt, &b, NULL, wait_cancelled, NULL, &task[2]), 0);
        CHECK_EQ(spawn_with(rt, &b, NULL, wait_cancelled, NULL, &task[3]), -EDQUOT); /* 3 of three */
        CHECK_EQ(spawn_with(rt, &three, NULL, wait_cancelled, NULL, &task[3]), -EDQUOT); /* ... its own, too */
        end_all(task, 3); /* and when they have ended, there is room again */
    }
    fixture_end(rt);
}

API_TEST(cap_task_budget, "J39", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_grant grant = spawn_grant(10);
    grant.task_budget.ops = 50;
    weft_cap cap = made(rt, &caps.spawn, grant);
    weft_budget more = {51, 0, 0, 0, 0}, less = {49, 0, 0, 0, 0};
    weft_task *task;
    CHECK_EQ(spawn_with(rt, &cap, &more, nop, NULL, NULL), -EPERM);
    CHECK_EQ(spawn_with(rt, &cap, &less, nop, NULL, &task), 0);
    fixture_finish(task);
    fixture_end(rt);
}

static int look_at_budget(void *arg) { return weft_budget_left(arg); }

API_TEST(cap_default_budget, "J12 J39", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_grant grant = spawn_grant(10);
    grant.task_budget.ops = 50;
    weft_cap cap = made(rt, &caps.spawn, grant);
    weft_budget left;
    weft_task *task;
    REQUIRE_EQ(spawn_with(rt, &cap, NULL, look_at_budget, &left, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(left.ops, 50);
    CHECK_EQ(left.channel_ops, 100);
    REQUIRE_EQ(spawn_with(rt, &caps.spawn, NULL, look_at_budget, &left, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(left.ops, 10000);
    fixture_end(rt);
}

struct channels {
    weft_cap cap;
    weft_runtime *rt;
};

static int make_channels(void *arg) {
    struct channels *c = arg;
    weft_chan *first, *second, *third;
    weft_chan room;
    weft_oneshot_sender *sender;
    weft_oneshot_receiver *receiver;
    weft_broadcast *broadcast;
    weft_watch *watch;
    CHECK_EQ(weft_chan_create(8, 1, &first), -EPERM);
    CHECK_EQ(weft_chan_init(&room, 8, 0, NULL), -EPERM);
    CHECK_EQ(weft_oneshot_create(8, &sender, &receiver), -EPERM);
    CHECK_EQ(weft_broadcast_create(8, 4, &broadcast), -EPERM);
    CHECK_EQ(weft_watch_create(8, NULL, &watch), -EPERM);
    CHECK_EQ(weft_chan_create_with(NULL, &c->cap, 8, 9, &first), -EPERM); /* a wider buffer */
    CHECK_EQ(weft_chan_create_with(NULL, &c->cap, 8, WEFT_UNBOUNDED, &first), -EPERM);
    CHECK_EQ(weft_chan_create_with(NULL, &caps.spawn, 8, 1, &first), -EPERM); /* another kind */
    REQUIRE_EQ(weft_chan_create_with(NULL, &c->cap, 3, 7, &first), 0);
    REQUIRE_EQ(weft_chan_create_with(c->rt, &c->cap, 8, 0, &second), 0);
    CHECK_EQ(weft_chan_create_with(NULL, &c->cap, 8, 0, &third), -EDQUOT);
    CHECK_EQ(weft_chan_send(first, "abc", WEFT_NOW), 0);
    CHECK_EQ(weft_chan_destroy(first), 0); /* its place is free again */
    REQUIRE_EQ(weft_chan_create_with(NULL, &c->cap, 8, 8, &third), 0);
    CHECK_EQ(weft_cap_revoke(c->rt, &c->cap), 0);
    weft_chan_drop(third); /* what was made stays, and is counted to its end */
    CHECK_EQ(weft_chan_create_with(NULL, &c->cap, 8, 0, &third), -EPERM);
    CHECK_EQ(weft_chan_destroy(second), 0);
    return 0;
}

API_TEST(cap_channels, "J4 J7", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_grant c = WEFT_GRANT_INIT;
    c.kind = WEFT_CAP_CHANNEL;
    c.max_channels = 2;
    c.max_buffer = 8;
    struct channels channels = {made(rt, &caps.channel, c), rt};
    weft_task *task;
    REQUIRE_EQ(spawn_with(rt, &caps.spawn, NULL, make_channels, &channels, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    weft_chan *outside;
    REQUIRE_EQ(weft_chan_create(8, 1, &outside), 0); /* who is no task of it is not asked */
    CHECK_EQ(weft_chan_destroy(outside), 0);
    fixture_end(rt);
}

static int count_job(void *arg) {
    ++*(int *)arg;
    return 0;
}

static int block_with(void *arg) {
    const weft_cap *executor = arg;
    int ran = 0;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = count_job;
    spec.arg = &ran;
    CHECK_EQ(weft_blocking(count_job, &ran, NULL, WEFT_NEVER), -EPERM);
    CHECK_EQ(weft_blocking_start(NULL, &spec), -EPERM);
    spec.cap = &executor[0]; /* to workers and shards only */
    CHECK_EQ(weft_blocking_call(&spec, NULL, WEFT_NEVER), -EPERM);
    CHECK_EQ(ran, 0);
    spec.cap = &executor[1];
    CHECK_EQ(weft_blocking_call(&spec, NULL, WEFT_NEVER), 0);
    CHECK_EQ(ran, 1);
    return 0;
}

API_TEST(cap_blocking, "J4 J7", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_grant e = WEFT_GRANT_INIT;
    e.kind = WEFT_CAP_EXECUTOR;
    e.allowed = WEFT_EXECUTOR_WORKERS | WEFT_EXECUTOR_SHARDS;
    weft_cap executor[2] = {made(rt, &caps.executor, e)};
    e.allowed = WEFT_EXECUTOR_BLOCKING;
    executor[1] = made(rt, &caps.executor, e);
    weft_task *task;
    REQUIRE_EQ(spawn_with(rt, &caps.spawn, NULL, block_with, executor, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- Budgets ----------------------------------------------------------------------------------------------------------- */

static int pay_two(void *arg) {
    (void)arg;
    return weft_checkpoint() || weft_checkpoint() || weft_checkpoint();
}

API_TEST(cap_recharge, "J4 J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_fund *fund = caps.fund, *part;
    weft_budget one = {1, 0, 0, 0, 0}, ten = {10, 0, 0, 0, 0}, before, after;
    weft_grant g = WEFT_GRANT_INIT;
    g.kind = WEFT_CAP_BUDGET;
    g.limits = (weft_budget){2, 0, 0, 0, 0};
    g.recharge = true;
    weft_cap may_recharge = made(rt, &caps.budget, g);
    g.recharge = false;
    g.transfer = true;
    weft_cap may_transfer = made(rt, &caps.budget, g);
    weft_task *task;
    REQUIRE_EQ(spawn_with(rt, &caps.spawn, &one, pay_two, NULL, &task), 0);
    REQUIRE_EQ(weft_fund_wait_exhausted(fund, fixture_soon()), 0);
    weft_fund_left(fund, &before);
    CHECK_EQ(weft_fund_recharge(fund, task, &ten, NULL), -EPERM);
    CHECK_EQ(weft_fund_recharge(fund, task, &ten, &may_transfer), -EPERM);
    CHECK_EQ(weft_fund_recharge(fund, task, &ten, &caps.spawn), -EPERM);
    CHECK_EQ(weft_fund_recharge(fund, task, &ten, &may_recharge), 0); /* clamped to 2: just enough */
    CHECK_EQ(fixture_finish(task).status, 0);
    weft_fund_left(fund, &after);
    CHECK_EQ(after.ops, before.ops - 2);

    REQUIRE_EQ(weft_fund_create(rt, fund, &ten, &part), 0);
    CHECK_EQ(weft_fund_transfer(fund, part, &ten, NULL), -EPERM);
    CHECK_EQ(weft_fund_transfer(fund, part, &ten, &may_recharge), -EPERM);
    CHECK_EQ(weft_fund_transfer(fund, part, &ten, &may_transfer), 0);
    weft_fund_left(part, &after);
    CHECK_EQ(after.ops, 12);
    REQUIRE_EQ(weft_fund_destroy(part), 0);
    fixture_end(rt);
}

/* -- Revoking ------------------------------------------------------------------------------------------------------------ */

API_TEST(cap_revoke_subtree, "J7", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_grant grant;
    weft_cap a = made(rt, &caps.spawn, spawn_grant(9)), sibling = made(rt, &caps.spawn, spawn_grant(9));
    weft_cap b = made(rt, &a, spawn_grant(8)), c = made(rt, &b, spawn_grant(7)), d = made(rt, &a, spawn_grant(6));
    weft_task *task;
    REQUIRE_EQ(spawn_with(rt, &c, NULL, wait_cancelled, NULL, &task), 0);
    CHECK_EQ(weft_cap_revoke(rt, &a), 0);
    CHECK_EQ(weft_cap_revoke(rt, &a), -EPERM);
    weft_cap *gone[] = {&a, &b, &c, &d};
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_cap_read(rt, gone[i], &grant), -EPERM);
        CHECK_EQ(spawn_with(rt, gone[i], NULL, nop, NULL, NULL), -EPERM);
        CHECK_EQ(delegate(rt, gone[i], spawn_grant(1)), -EPERM);
    }
    CHECK_EQ(weft_cap_read(rt, &sibling, &grant), 0);
    CHECK_EQ(weft_cap_read(rt, &caps.spawn, &grant), 0);
    CHECK(!weft_task_is_done(task)); /* what was started goes on */
    /* New ones in their places: the old keys open nothing. */
    weft_cap fresh[8];
    for (int i = 0; i < 8; i++)
        fresh[i] = made(rt, &sibling, spawn_grant(1));
    for (int i = 0; i < 4; i++)
        CHECK_EQ(weft_cap_read(rt, gone[i], &grant), -EPERM);
    end_all(&task, 1);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(weft_cap_read(rt, &fresh[i], &grant), 0);
    fixture_end(rt);
}

/* What revoking costs depends on what is revoked.  Places that were free in the order of their numbers are used again in the other: each of a
 * chain of grants is then before the one that it was made from. */
API_TEST(cap_revoke_chain, "J7", .workers = {1}, .sched = "ring", .timeout = 20) {
    enum { LONG = 100000 };
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_grant grant;
    weft_cap *chain = calloc(LONG, sizeof *chain), top = made(rt, &caps.spawn, spawn_grant(9));
    REQUIRE(chain);
    for (int i = 0; i < LONG; i++)
        chain[i] = made(rt, &top, spawn_grant(9));
    for (int i = 0; i < LONG; i++)
        REQUIRE_EQ(weft_cap_revoke(rt, &chain[i]), 0);
    for (int i = 0; i < LONG; i++)
        chain[i] = made(rt, i ? &chain[i - 1] : &top, spawn_grant(9));
    REQUIRE_LT((uint32_t)chain[1].id, (uint32_t)chain[0].id);
    CHECK_EQ(weft_cap_revoke(rt, &chain[1]), 0);
    for (int i = 1; i < LONG; i++)
        REQUIRE_EQ(weft_cap_read(rt, &chain[i], &grant), -EPERM);
    CHECK_EQ(weft_cap_read(rt, &chain[0], &grant), 0);
    free(chain);
    fixture_end(rt);
}

/* Those in the midst of their siblings, with uses that outlive them: what is left of the tree still holds together. */
API_TEST(cap_revoke_siblings, "J7", .workers = {1, 2}) {
    enum { MANY = 60 };
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_grant grant;
    uint64_t random = harness_seed();
    for (int round = 0; round < 20; round++) {
        weft_cap tree[MANY] = {made(rt, &caps.spawn, spawn_grant(1000))};
        int parent[MANY] = {-1}, gone[MANY] = {0};
        weft_task *task[MANY];
        unsigned tasks = 0;
        for (int i = 1; i < MANY; i++) {
            parent[i] = (int)(harness_random(&random) % (unsigned)i);
            tree[i] = made(rt, &tree[parent[i]], spawn_grant(1000));
        }
        for (int step = 0; step < 12; step++) {
            int at = 1 + (int)(harness_random(&random) % (MANY - 1));
            weft_task *started = NULL;
            int error = spawn_with(rt, &tree[at], NULL, wait_cancelled, NULL, &started);
            REQUIRE_EQ(error, gone[at] ? -EPERM : 0);
            if (!error)
                task[tasks++] = started;
            at = 1 + (int)(harness_random(&random) % (MANY - 1));
            REQUIRE_EQ(weft_cap_revoke(rt, &tree[at]), gone[at] ? -EPERM : 0);
            gone[at] = 1;
            for (int i = 1; i < MANY; i++) { /* whose parent comes before it */
                gone[i] |= gone[parent[i]];
                REQUIRE_EQ(weft_cap_read(rt, &tree[i], &grant), gone[i] ? -EPERM : 0);
            }
        }
        end_all(task, tasks);
        REQUIRE_EQ(weft_cap_revoke(rt, &tree[0]), 0);
        weft_cap next = made(rt, &caps.spawn, spawn_grant(1));
        REQUIRE_LT((uint32_t)next.id, 8 + MANY); /* all places are free again */
        REQUIRE_EQ(weft_cap_revoke(rt, &next), 0);
    }
    fixture_end(rt);
}

/* A place is free when nobody can use it any more: not before its subtree, and not twice. */
API_TEST(cap_places, "J7", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_grant grant;
    weft_cap a = made(rt, &caps.spawn, spawn_grant(9)), fresh[6];
    made(rt, &a, spawn_grant(8)), made(rt, &a, spawn_grant(8));
    CHECK_EQ(weft_cap_revoke(rt, &a), 0);
    for (int i = 0; i < 6; i++) {
        fresh[i] = made(rt, &caps.spawn, spawn_grant(1));
        for (int k = 0; k < i; k++)
            REQUIRE_NE((uint32_t)fresh[k].id, (uint32_t)fresh[i].id);
    }
    for (int i = 0; i < 6; i++)
        CHECK_EQ(weft_cap_read(rt, &fresh[i], &grant), 0);
    for (int i = 0; i < 20; i++) { /* revoked in the midst of a use, whose end makes it free */
        weft_cap used = made(rt, &caps.spawn, spawn_grant(1));
        weft_task *task;
        REQUIRE_LT((uint32_t)used.id, 16);
        REQUIRE_EQ(spawn_with(rt, &used, NULL, wait_cancelled, NULL, &task), 0);
        CHECK_EQ(weft_cap_revoke(rt, &used), 0);
        end_all(&task, 1);
        weft_cap next = made(rt, &caps.spawn, spawn_grant(1));
        CHECK_EQ((uint32_t)next.id, (uint32_t)used.id);
        CHECK_EQ(weft_cap_revoke(rt, &next), 0);
    }
    CHECK_EQ(weft_cap_revoke(rt, NULL), -EINVAL);
    CHECK_EQ(weft_cap_revoke(rt, &caps.spawn), 0); /* the first of all, and with it the rest */
    CHECK_EQ(weft_cap_read(rt, &fresh[0], &grant), -EPERM);
    fixture_end(rt);
}

/* A runtime that was made without capabilities has none to give. */
API_TEST(cap_none_there, "J7", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = WEFT_PROFILE_CLUSTER;
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN), *bare = fixture_begin(&config);
    weft_cap cap = made(rt, &caps.spawn, spawn_grant(1));
    CHECK_EQ(delegate(bare, &cap, spawn_grant(1)), -EPERM);
    CHECK_EQ(delegate(NULL, &cap, spawn_grant(1)), -EINVAL); /* no runtime here */
    CHECK_EQ(weft_cap_revoke(bare, &cap), -EPERM);
    CHECK_EQ(weft_cap_revoke(NULL, &cap), -EINVAL);
    CHECK_EQ(spawn_with(bare, &cap, NULL, nop, NULL, NULL), -EPERM);
    CHECK_EQ(weft_cap_revoke(rt, &cap), 0);
    fixture_end(bare);
    fixture_end(rt);
}

/* In a fiber: from a fund that it was given, and a key of the runtime it runs on. */
static int make_part(void *parent) {
    weft_budget budget = {10, 0, 0, 0, 0};
    weft_fund *fund;
    REQUIRE_EQ(weft_fund_create(NULL, parent, &budget, &fund), 0); /* it makes nothing: what it takes, the parent had */
    CHECK_EQ(weft_fund_create(NULL, NULL, &budget, &fund), -EPERM);
    CHECK_EQ(weft_fund_destroy(fund), 0);
    weft_cap cap = made(NULL, &caps.spawn, spawn_grant(1));
    CHECK_EQ(weft_cap_revoke(NULL, &cap), 0);
    return 0;
}

API_TEST(cap_fund_of_a_fund, "J4 J7", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_budget budget = {100, 0, 0, 0, 0};
    weft_fund *parent;
    weft_task *task;
    REQUIRE_EQ(weft_fund_create(rt, NULL, &budget, &parent), 0);
    REQUIRE_EQ(spawn_with(rt, &caps.spawn, NULL, make_part, parent, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_fund_destroy(parent), 0);
    fixture_end(rt);
}

/* Places are used again: a million grants take the room of a few. */
API_TEST(cap_reuse, "J7", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    for (int i = 0; i < 20000; i++) {
        weft_cap a = made(rt, &caps.spawn, spawn_grant(9)), b = made(rt, &a, spawn_grant(8));
        REQUIRE_LT((uint32_t)b.id, 8);
        REQUIRE_EQ(weft_cap_revoke(rt, i % 2 ? &a : &b), 0);
        if (i % 2 == 0)
            REQUIRE_EQ(weft_cap_revoke(rt, &a), 0);
    }
    fixture_end(rt);
}

/* Threads delegate, use and revoke at once. */
struct storm {
    weft_runtime *rt;
    weft_cap top;
};
static void storm(unsigned index, void *arg) {
    struct storm *s = arg;
    uint64_t random = harness_seed() + index;
    for (int i = 0; i < 300; i++) {
        weft_cap cap = made(s->rt, &s->top, spawn_grant(4));
        weft_task *task = NULL;
        if (harness_random(&random) % 2)
            REQUIRE_EQ(weft_cap_revoke(s->rt, &cap), 0);
        int error = spawn_with(s->rt, &cap, NULL, nop, NULL, &task);
        REQUIRE(error == 0 || error == -EPERM || error == -EDQUOT || error == -EAGAIN);
        if (!error)
            fixture_finish(task);
        weft_cap_revoke(s->rt, &cap);
    }
}

API_TEST(cap_storm, "J7", .workers = {2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    REQUIRE_EQ(weft_fund_add(caps.fund, &(weft_budget){1000000, UINT64_C(1) << 40, 60000, 60000, 60000}), 0);
    struct storm s = {rt, made(rt, &caps.spawn, spawn_grant(1000))};
    harness_threads(4, storm, &s);
    fixture_end(rt);
}
