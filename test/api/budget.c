/* budget.c - fibers with a budget: what is charged, being exhausted, recharge, refusal, refunds. */
#include <weft/budget.h>

#include "fixture.h"
#include "metered/code.h"
#include "task/account.h"

static weft_runtime *begin(weft_profile profile) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = profile;
    return fixture_begin(&config);
}

static weft_fund *new_fund(weft_runtime *rt, weft_budget budget) {
    weft_fund *fund = NULL;
    REQUIRE_EQ(weft_fund_create(rt, NULL, &budget, &fund), 0);
    return fund;
}

static weft_task *charged(weft_runtime *rt, weft_fund *fund, weft_budget budget, weft_fiber_fn fn, void *arg) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task = NULL;
    spec.fn = fn;
    spec.arg = arg;
    spec.fund = fund;
    spec.budget = &budget;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    return task;
}

static bool holds(weft_fund *fund, weft_budget expected) {
    weft_budget left;
    weft_fund_left(fund, &left);
    return weft_budget_covers(&left, &expected) && weft_budget_covers(&expected, &left);
}
#define CHECK_HOLDS(fund, ...) CHECK(holds(fund, (weft_budget){__VA_ARGS__}))

static void end_fund(weft_fund *fund) { REQUIRE_EQ(weft_fund_destroy(fund), 0); }

/* -- What is charged ---------------------------------------------------------------------------------------- */

static weft_poll nothing(weft_task *self, void *state) {
    (void)state;
    return weft_done(self, 0, NULL);
}

static int nop(void *arg) {
    (void)arg;
    return 0;
}

static weft_budget left_now(void) {
    weft_budget left = {0};
    REQUIRE_EQ(weft_budget_left(&left), 0);
    return left;
}

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
    CHECK_EQ(left.spawns, 1000 - 4); /* the fiber, two by itself, one by its fund */
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

/* -- Exhausted ------------------------------------------------------------------------------------------------ */

enum what { OPS, CHECKPOINTS, MEMORY, SPAWNS, CHANNEL_OPS, SYSCALLS, WHATS };

struct wanting {
    enum what what;
    atomic_uint got; /* how often it could pay */
    unsigned want;
    int error;
    void *memory[8];
};

static int want_one(enum what what, void **memory) {
    struct wefti_fiber *self = wefti_fiber_of(weft_task_self());
    switch (what) {
    case OPS: metered_sum(1000); return 0;
    case CHECKPOINTS:
        for (int i = 0; i < 1000; i++)
            if (weft_checkpoint())
                return -ECANCELED;
        return 0;
    case MEMORY: return weft_alloc(1000, memory);
    case SPAWNS: return weft_go(NULL, nothing, NULL, NULL);
    case CHANNEL_OPS: return wefti_charge_channel(self);
    default: return wefti_charge_syscall(self);
    }
}

static int want(void *arg) {
    struct wanting *w = arg;
    for (unsigned i = 0; i < w->want; i++) {
        w->error = want_one(w->what, &w->memory[i % 8]);
        if (w->error)
            return w->error;
        atomic_fetch_add(&w->got, 1);
    }
    return 0;
}

static bool is_exhausted(weft_fund *fund, const weft_task *task) {
    weft_task *found[4] = {0};
    unsigned count = weft_fund_exhausted(fund, found, 4);
    for (unsigned i = 0; i < count && i < 4; i++)
        if (found[i] == task)
            return true;
    return false;
}

static const weft_budget plenty = {100000, 100000, 100, 100, 100};

/* Plenty of all but one thing, of which there is enough for `times`. */
static weft_budget scarce(enum what what, unsigned times) {
    weft_budget budget = plenty;
    switch (what) {
    case OPS: budget.ops = 1500 * times; break; /* 1,000 turns cost 1,000 to 3,000 */
    case CHECKPOINTS: budget.ops = 1000 * times; break;
    case MEMORY: budget.memory = 1000 * times; break;
    case SPAWNS: budget.spawns = (uint16_t)times; break;
    case CHANNEL_OPS: budget.channel_ops = (uint16_t)times; break;
    default: budget.syscalls = (uint16_t)times; break;
    }
    return budget;
}

static void recharge_each(weft_runtime *rt, weft_fund *fund, enum what what) {
    struct wanting w = {.what = what, .want = 8};
    weft_budget more = scarce(what, 3), none = {0};
    weft_task *task = charged(rt, fund, scarce(what, 2), want, &w);
    unsigned rounds = 0;
    while (!weft_task_is_done(task)) {
        REQUIRE_EVENTUALLY(is_exhausted(fund, task) || weft_task_is_done(task));
        if (!is_exhausted(fund, task))
            break;
        REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "exhausted") == 0); /* in the list a moment before it waits */
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

/* -- Recharge ------------------------------------------------------------------------------------------------- */

API_TEST(budget_recharge_rules, "J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){1000, 0, 1, 7, 0}),
              *other = new_fund(rt, (weft_budget)WEFT_BUDGET_CLUSTER);
    struct wanting w = {.what = CHANNEL_OPS, .want = 6};
    weft_budget more = {0, 0, 0, 4, 0}, too_much = {0, 0, 0, 6, 0};
    weft_task *task = charged(rt, fund, (weft_budget){900, 0, 0, 2, 0}, want, &w);
    REQUIRE_EVENTUALLY(is_exhausted(fund, task));
    CHECK_EQ(weft_fund_recharge(other, task, &more, NULL), -ENOENT); /* not of this fund */
    CHECK_EQ(weft_fund_recharge(fund, task, &too_much, NULL), -EDQUOT); /* the fund has 5 */
    CHECK_HOLDS(fund, 100, 0, 0, 5, 0);
    CHECK(is_exhausted(fund, task));
    CHECK_EQ(weft_fund_destroy(fund), -EBUSY);
    CHECK_EQ(weft_fund_recharge(fund, task, &more, NULL), 0);
    CHECK_EQ(weft_join(task, NULL, fixture_soon()), 0);
    CHECK_EQ(weft_fund_recharge(fund, task, &more, NULL), -ENOENT); /* not exhausted */
    weft_task_drop(task);
    CHECK_EQ(atomic_load(&w.got), 6);
    CHECK_HOLDS(fund, 1000 - 6, 0, 0, 1, 0); /* deducted from the fund */
    end_fund(fund);
    end_fund(other);
    fixture_end(rt);
}

/* A supervisor as a fiber: waits for exhausted children, and recharges them out of its fund, or cancels them when that is empty. */
struct supervised {
    weft_fund *fund;
    weft_task *child[8];
    unsigned recharged, refused;
    struct wanting w[8];
};

static int supervise(void *arg) {
    struct supervised *s = arg;
    weft_budget more = {100, 0, 0, 5, 0};
    for (unsigned done = 0; done < 8;) {
        int error = weft_fund_wait_exhausted(s->fund, weft_after(1000000));
        REQUIRE(error == 0 || error == -ETIMEDOUT);
        weft_task *task[3];
        unsigned count = weft_fund_exhausted(s->fund, task, 3);
        for (unsigned i = 0; i < count && i < 3; i++) {
            error = weft_fund_recharge(s->fund, task[i], &more, NULL);
            s->recharged += error == 0;
            if (error == -EDQUOT)
                s->refused += weft_fund_refuse(s->fund, task[i]) == 0;
        }
        done = 0;
        for (unsigned i = 0; i < 8; i++)
            done += weft_task_is_done(s->child[i]);
    }
    return 0;
}

API_TEST(budget_supervisor, "J3 J13 J40", .workers = {1, 2, 4}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    struct supervised s = {.fund = new_fund(rt, (weft_budget){10000, 0, 8, 8 * 5 + 12 * 5, 0})};
    for (int i = 0; i < 8; i++) {
        s.w[i] = (struct wanting){.what = CHANNEL_OPS, .want = 20};
        s.child[i] = charged(rt, s.fund, (weft_budget){100, 0, 0, 5, 0}, want, &s.w[i]);
    }
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, supervise, &s, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    unsigned got = 0, ended = 0, cancelled = 0;
    for (int i = 0; i < 8; i++) {
        weft_result result = fixture_finish(s.child[i]);
        got += atomic_load(&s.w[i].got);
        ended += result.status == 0;
        cancelled += result.status == -ECANCELED;
    }
    CHECK_EQ(ended + cancelled, 8);
    CHECK_EQ(cancelled, s.refused);
    CHECK_EQ(s.recharged, 12);
    CHECK_LE(got, 100);
    weft_budget left;
    weft_fund_left(s.fund, &left);
    CHECK_EQ(left.channel_ops, 100 - got); /* nothing made, nothing lost */
    end_fund(s.fund);
    fixture_end(rt);
}

/* A plain thread supervises. */
API_TEST(budget_supervisor_thread, "J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){1000, 0, 1, 10, 0});
    CHECK_EQ(weft_fund_wait_exhausted(fund, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_fund_wait_exhausted(fund, weft_after(1000)), -ETIMEDOUT);
    struct wanting w = {.what = CHANNEL_OPS, .want = 3};
    weft_task *task = charged(rt, fund, (weft_budget){10, 0, 0, 1, 0}, want, &w), *found;
    REQUIRE_EQ(weft_fund_wait_exhausted(fund, fixture_soon()), 0);
    REQUIRE_EQ(weft_fund_exhausted(fund, &found, 1), 1);
    CHECK(found == task);
    CHECK_EQ(weft_fund_recharge(fund, found, &(weft_budget){0, 0, 0, 2, 0}, NULL), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_HOLDS(fund, 1000 - 3, 0, 0, 7, 0);
    end_fund(fund);
    fixture_end(rt);
}

/* Recharge against cancel, many times: whoever comes first, the sum stays. */
struct race {
    weft_fund *fund;
    weft_task *task;
};
static int recharge_once(void *arg) {
    struct race *race = arg;
    weft_fund_wait_exhausted(race->fund, weft_after(100000));
    weft_fund_recharge(race->fund, race->task, &(weft_budget){0, 0, 0, 1, 0}, NULL);
    return 0;
}
static int cancel_once(void *arg) {
    struct race *race = arg;
    weft_fund_wait_exhausted(race->fund, weft_after(100000));
    weft_task_cancel(race->task);
    return 0;
}

API_TEST(budget_recharge_or_cancel, "J30 J40", .workers = {1, 2, 4}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    unsigned paid = 0, cancelled = 0;
    for (int i = 0; i < 300; i++) {
        weft_fund *fund = new_fund(rt, (weft_budget){100, 0, 1, 5, 0});
        struct wanting w = {.what = CHANNEL_OPS, .want = 2};
        weft_task *a, *b, *task = charged(rt, fund, (weft_budget){10, 0, 0, 1, 0}, want, &w);
        struct race race = {fund, task};
        REQUIRE_EQ(weft_fiber_go(rt, recharge_once, &race, &a), 0);
        REQUIRE_EQ(weft_fiber_go(rt, cancel_once, &race, &b), 0);
        fixture_finish(a);
        fixture_finish(b);
        int status = fixture_finish(task).status;
        unsigned got = atomic_load(&w.got);
        CHECK(status == 0 ? got == 2 : status == -ECANCELED && got <= 1);
        CHECK_HOLDS(fund, 100 - got, 0, 0, (uint16_t)(5 - got), 0);
        status ? cancelled++ : paid++;
        end_fund(fund);
    }
    CHECK_EQ(paid + cancelled, 300);
    fixture_end(rt);
}

/* -- Spawning out of a fund ------------------------------------------------------------------------------------ */

API_TEST(budget_spawn_refused, "J39", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){100, 0, 3, 0, 0});
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget each = {40, 0, 0, 0, 0}, whole = {101, 0, 0, 0, 0};
    weft_task *task[3];
    spec.fn = nop;
    spec.fund = fund;
    spec.budget = &whole;
    CHECK_EQ(weft_fiber_spawn(rt, &spec, NULL), -EDQUOT); /* too little for the child */
    CHECK_HOLDS(fund, 100, 0, 3, 0, 0); /* and nothing was taken */
    spec.budget = &each;
    for (int i = 0; i < 3; i++) {
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task[i]), 0);
        CHECK_EQ(fixture_finish(task[i]).status, 0); /* what it did not use goes back */
    }
    CHECK_EQ(weft_fiber_spawn(rt, &spec, NULL), -EDQUOT); /* no spawn left */
    CHECK_HOLDS(fund, 100, 0, 0, 0, 0);
    CHECK_EQ(fixture_stats(rt).completed, fixture_stats(rt).spawned);
    end_fund(fund);
    fixture_end(rt);
}

/* A child's children come out of the fund it came from. */
struct family {
    weft_fund *fund;
    unsigned depth;
};
static int breed(void *arg) {
    struct family *f = arg;
    if (!f->depth)
        return 0;
    struct family below = {f->fund, f->depth - 1};
    weft_budget budget = {1000, 1000, 2, 10, 0};
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task[2];
    spec.fn = breed;
    spec.arg = &below;
    spec.budget = &budget;
    for (int i = 0; i < 2; i++) {
        int error = weft_fiber_spawn(NULL, &spec, &task[i]);
        if (error)
            return error;
    }
    metered_sum(50);
    for (int i = 0; i < 2; i++) {
        weft_result result;
        REQUIRE_EQ(weft_join(task[i], &result, WEFT_NEVER), 0);
        weft_task_drop(task[i]);
        if (result.status)
            return result.status;
    }
    return 0;
}

API_TEST(budget_tree_of_fibers, "J11 J39", .workers = {1, 2, 4}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){100000, 100000, 200, 1000, 0});
    struct family f = {fund, 5};
    CHECK_EQ(fixture_finish(charged(rt, fund, (weft_budget){1000, 1000, 2, 10, 0}, breed, &f)).status, 0);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    weft_budget left;
    weft_fund_left(fund, &left);
    CHECK_EQ(left.memory, 100000);
    CHECK_EQ(left.channel_ops, 1000);
    CHECK_EQ(left.spawns, 200 - 63); /* 1 + 2 + 4 + ... + 32 */
    CHECK_LT(left.ops, 100000);
    end_fund(fund);
    fixture_end(rt);
}

static int charge_nothing(void *arg) {
    (void)arg;
    return 0;
}

/* Cancelled before it began, and refused at the door: all of it goes back. */
API_TEST(budget_never_began, "J31 J39", .workers = {1, 2}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = WEFT_PROFILE_CLUSTER;
    config.global_capacity = 2;
    weft_runtime *rt = fixture_begin(&config);
    weft_fund *fund = new_fund(rt, (weft_budget){100000, 0, 1000, 0, 0});
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget each = {10, 0, 0, 0, 0};
    spec.fn = charge_nothing;
    spec.fund = fund;
    spec.budget = &each;
    unsigned spawned = 0, refused = 0;
    for (int i = 0; i < 500; i++) {
        weft_task *task = NULL;
        int error = weft_fiber_spawn(rt, &spec, &task);
        if (error == -EAGAIN) {
            refused++;
            continue;
        }
        REQUIRE_EQ(error, 0);
        spawned++;
        weft_task_cancel(task);
        weft_task_drop(task);
    }
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    CHECK_HOLDS(fund, 100000, 0, (uint16_t)(1000 - spawned), 0, 0);
    CHECK_EQ(spawned + refused, 500);
    end_fund(fund);
    fixture_end(rt);
}

/* -- Memory ------------------------------------------------------------------------------------------------------ */

static int alloc_for_others(void *arg) { return weft_alloc(300, arg); }

API_TEST(budget_memory_handed_over, "J11", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){100, 1000, 1, 0, 0});
    void *memory = NULL;
    CHECK_EQ(fixture_finish(charged(rt, fund, (weft_budget){10, 1000, 0, 0, 0}, alloc_for_others, &memory)).status, 0);
    CHECK_HOLDS(fund, 99, 700, 0, 0, 0); /* it has outlived its fiber, and still counts */
    CHECK_EQ(weft_fund_destroy(fund), -EBUSY);
    weft_free(memory); /* by a thread */
    CHECK_HOLDS(fund, 99, 1000, 0, 0, 0);
    end_fund(fund);
    fixture_end(rt);
}

/* -- Profiles ------------------------------------------------------------------------------------------------------ */

static int service_fiber(void *arg) {
    struct wefti_fiber *self = wefti_fiber_of(weft_task_self());
    weft_budget left = left_now();
    CHECK_EQ(left.ops, 10000);
    CHECK_EQ(left.memory, 1 << 20);
    CHECK_EQ(left.spawns, 0);
    for (int i = 0; i < 1000; i++)
        REQUIRE_EQ(wefti_charge_channel(self), 0);
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
