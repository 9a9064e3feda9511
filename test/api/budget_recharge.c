/* budget_recharge.c - recharge, refusal and refunds: what goes out of a fund and comes back. */
#include "budget.h"

/* -- Recharge ------------------------------------------------------------------------------------------------- */

API_TEST(budget_recharge_rules, "J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){1000, 0, 1, 7, 0}),
              *other = new_fund(rt, (weft_budget)WEFT_BUDGET_CLUSTER);
    struct wanting w = {.what = CHANNEL_OPS, .want = 6};
    weft_budget more = {0, 0, 0, 4, 0}, too_much = {0, 0, 0, 6, 0};
    weft_task *task = charged(rt, fund, (weft_budget){900, 0, 0, 2, 0}, want, &w);
    REQUIRE_EVENTUALLY(is_exhausted(fund, task));
    CHECK_EQ(weft_fund_exhausted(fund, NULL, 1), 1); /* only how many */
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
        CHECK_HOLDS(fund, 100 - got, 0, 0, 5 - got, 0);
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
    CHECK_HOLDS(fund, 100000, 0, 1000 - spawned, 0, 0);
    CHECK_EQ(spawned + refused, 500);
    end_fund(fund);
    fixture_end(rt);
}

/* -- Memory ------------------------------------------------------------------------------------------------------ */

static int alloc_for_others(void *arg) { return weft_alloc(300, arg); }

static int free_of_others(void *memory) {
    weft_free(memory);
    return 0;
}

/* Whoever frees it: it goes back to the fund that it came from. */
API_TEST(budget_memory_freed_by_others, "J11", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *mine = new_fund(rt, (weft_budget){100, 1000, 1, 0, 0});
    weft_fund *other = new_fund(rt, (weft_budget){100, 1000, 1, 0, 0});
    void *memory = NULL;
    CHECK_EQ(fixture_finish(charged(rt, mine, (weft_budget){10, 1000, 0, 0, 0}, alloc_for_others, &memory)).status, 0);
    CHECK_EQ(fixture_finish(charged(rt, other, (weft_budget){10, 500, 0, 0, 0}, free_of_others, memory)).status, 0);
    CHECK_HOLDS(mine, 99, 1000, 0, 0, 0);
    CHECK_HOLDS(other, 100, 1000, 0, 0, 0);
    end_fund(mine);
    end_fund(other);
    fixture_end(rt);
}

/* A fund may hold more than a budget can say.  What is left of it goes back to its parent, all of it. */
API_TEST(budget_wide_fund_ends, "J39", .workers = {1}) {
    static const weft_budget half[] = {
        {UINT32_MAX, 0, 0, 0, 0}, {0, 0, 60000, 0, 0}, {0, 0, 0, 60000, 0}, {0, 0, 0, 0, 60000}};
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    for (int i = 0; i < 4; i++) {
        weft_fund *fund = new_fund(rt, half[i]), *child[2];
        REQUIRE_EQ(weft_fund_add(fund, &half[i]), 0);
        REQUIRE_EQ(weft_fund_create(rt, fund, &half[i], &child[0]), 0);
        REQUIRE_EQ(weft_fund_transfer(fund, child[0], &half[i], NULL), 0);
        CHECK_HOLDS(fund, 0, 0, 0, 0, 0);
        end_fund(child[0]);
        for (int k = 0; k < 2; k++)
            REQUIRE_EQ(weft_fund_create(rt, fund, &half[i], &child[k]), 0);
        CHECK_HOLDS(fund, 0, 0, 0, 0, 0);
        end_fund(child[0]);
        end_fund(child[1]);
        end_fund(fund);
    }
    fixture_end(rt);
}

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

/* By a sibling: it is not that one's, and not lost either.  The fund has it, for whom it is given to. */
static int alloc_again(void *arg) {
    void **memory = arg, *more;
    int error = weft_alloc(300, memory);
    if (error)
        return error;
    error = weft_alloc(300, &more); /* only when it is given more */
    if (!error)
        weft_free(more);
    weft_budget left;
    REQUIRE_EQ(weft_budget_left(&left), 0);
    CHECK_EQ(left.memory, 300);
    return error;
}

static int free_for_a_sibling(void *arg) {
    weft_budget before, after;
    REQUIRE_EQ(weft_budget_left(&before), 0);
    weft_free(arg);
    REQUIRE_EQ(weft_budget_left(&after), 0);
    CHECK_EQ(after.memory, before.memory);
    return 0;
}

API_TEST(budget_memory_freed_by_a_sibling, "J11 J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){100, 400, 2, 0, 0});
    weft_budget more = {0, 300, 0, 0, 0};
    void *memory = NULL;
    weft_task *task = charged(rt, fund, (weft_budget){10, 300, 0, 0, 0}, alloc_again, &memory);
    REQUIRE_EQ(weft_fund_wait_exhausted(fund, fixture_soon()), 0);
    CHECK_EQ(weft_fund_recharge(fund, task, &more, NULL), -EDQUOT);
    CHECK_EQ(fixture_finish(charged(rt, fund, (weft_budget){10, 100, 0, 0, 0}, free_for_a_sibling, memory)).status, 0);
    CHECK_HOLDS(fund, 90, 400, 0, 0, 0);
    CHECK_EQ(weft_fund_recharge(fund, task, &more, NULL), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_HOLDS(fund, 98, 400, 0, 0, 0);
    end_fund(fund);
    fixture_end(rt);
}

/* The place of one that has ended is another's: which gets nothing of what the first has left. */
API_TEST(budget_memory_of_one_before, "J11", .workers = {1}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){100, 1000, 2, 0, 0});
    void *memory = NULL;
    CHECK_EQ(fixture_finish(charged(rt, fund, (weft_budget){10, 1000, 0, 0, 0}, alloc_for_others, &memory)).status, 0);
    CHECK_EQ(fixture_finish(charged(rt, fund, (weft_budget){10, 100, 0, 0, 0}, free_for_a_sibling, memory)).status, 0);
    CHECK_HOLDS(fund, 99, 1000, 0, 0, 0);
    end_fund(fund);
    fixture_end(rt);
}

/* -- How it looks -------------------------------------------------------------------------------------------------- */

static int want_op(void *arg) {
    (void)arg;
    return weft_checkpoint();
}

static int look_each(void *arg) {
    weft_fund *fund = arg;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget none = {0};
    spec.fn = want_op;
    spec.fund = fund;
    spec.budget = &none;
    for (int i = 0; i < 2000; i++) {
        weft_task *task, *found = NULL;
        REQUIRE_EQ(weft_fiber_spawn(NULL, &spec, &task), 0);
        REQUIRE_EQ(weft_fund_wait_exhausted(fund, fixture_soon()), 0);
        REQUIRE_EQ(weft_fund_exhausted(fund, &found, 1), 1);
        REQUIRE_EQ(found, task);
        REQUIRE_STR(weft_task_state(task), "exhausted");
        REQUIRE_EQ(weft_fund_refuse(fund, task), 0);
        weft_task_drop(task);
    }
    return 0;
}

/* Whoever is told of an exhausted fiber sees that it is, also if that has not got to sleep yet. */
API_TEST(budget_exhausted_is_seen, "J13 J40", .workers = {1, 2, 4}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){0, 0, 2000, 0, 0});
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, look_each, fund, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    REQUIRE_EVENTUALLY(weft_fund_destroy(fund) == 0);
    fixture_end(rt);
}

/* -- A supervisor that is to end ----------------------------------------------------------------------------------- */

static int supervise_in_vain(void *arg) {
    weft_fund *fund = arg;
    weft_task *self = weft_task_self(), *task;
    REQUIRE_EQ(weft_fund_wait_exhausted(fund, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_fund_wait_exhausted(fund, WEFT_NOW), 0); /* as often as it likes */
    weft_task_cancel(self);
    CHECK_EQ(weft_fund_wait_exhausted(fund, WEFT_NEVER), -ECANCELED); /* else its loop would never end */
    CHECK_EQ(weft_fund_wait_exhausted(fund, WEFT_NOW), -ECANCELED);
    REQUIRE_EQ(weft_shield(self), 0);
    CHECK_EQ(weft_fund_wait_exhausted(fund, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_unshield(self), 0);
    REQUIRE_EQ(weft_fund_exhausted(fund, &task, 1), 1); /* looking is no wait */
    return weft_fund_refuse(fund, task);
}

API_TEST(budget_supervisor_cancelled, "J25 J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    weft_fund *fund = new_fund(rt, (weft_budget){0, 0, 1, 0, 0});
    weft_task *poor = charged(rt, fund, (weft_budget){0}, want_op, NULL), *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, supervise_in_vain, fund, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(fixture_finish(poor).status, -ECANCELED);
    end_fund(fund);
    fixture_end(rt);
}
