/* budget.c - exhausted fibers: recharged, cancelled, refused; sums stay, nobody sleeps on. */
#include <weft/weft.h>

#include "budget/fund.h"
#include "model.h"

static weft_runtime *rt;
static weft_fund *fund;
static weft_task *task;
static _Atomic int paid;

static void begin(void) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_budget all = {100, 1000, 2, 10, 0};
    store_relaxed(&wefti_accounts_exist, true); /* in every execution */
    config.workers = 1;
    config.park_timeout_ns = -1;
    mc_assert(weft_runtime_create(&config, &rt) == 0);
    mc_assert(weft_fund_create(rt, NULL, &all, &fund) == 0);
}

/* What is in the fund is what was there, less what was used. */
static void end(void) {
    weft_result result;
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_assert(wefti_word_refs(load_relaxed(&task->word)) == 1); /* the handle: who woke it has left */
    weft_task_drop(task);
    int got = load_relaxed(&paid);
    mc_assert(result.status == 0 ? got == 2 : result.status == -ECANCELED && got == 1);
    mc_assert(fund->left.channel_ops == 10 - (uint64_t)got && fund->left.ops == 100 - (uint64_t)got);
    mc_assert(fund->left.spawns == 1 && fund->users == 0 && !fund->exhausted.first && !fund->supervisors.first);
    mc_assert(weft_fund_destroy(fund) == 0);
    mc_assert(weft_runtime_destroy(rt) == 0);
}

/* Two channel operations, with a budget for one. */
static int pay_twice(void *arg) {
    (void)arg;
    for (int i = 0; i < 2; i++) {
        int error = wefti_charge_channel(wefti_fiber_self());
        if (error)
            return error;
        add_relaxed(&paid, 1);
    }
    return 0;
}

static void spawn(void) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget one = {10, 0, 0, 1, 0};
    spec.fn = pay_twice;
    spec.fund = fund;
    spec.budget = &one;
    mc_assert(weft_fiber_spawn(rt, &spec, &task) == 0);
}

static const weft_budget more = {0, 0, 0, 1, 0};

/* A supervisor who waits is told, and what it gives is used. */
MC_TEST(budget_recharged, .proves = "J13 J40", .bound = 2, .stale_counts = true, .seconds = 5) {
    begin();
    spawn();
    mc_assert(weft_fund_wait_exhausted(fund, WEFT_NEVER) == 0);
    mc_assert(weft_fund_recharge(fund, task, &more, NULL) == 0);
    end();
}

/* Exhausted twice, by a supervisor that is quicker than what tells it: each time it is told there is somebody. */
MC_TEST(budget_recharged_twice, .proves = "J40", .mode = MC_PCT, .max_exec = 3000) {
    begin();
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget none = {10, 0, 0, 0, 0};
    spec.fn = pay_twice;
    spec.fund = fund;
    spec.budget = &none;
    mc_assert(weft_fiber_spawn(rt, &spec, &task) == 0);
    for (int i = 0; i < 2; i++) {
        mc_assert(weft_fund_wait_exhausted(fund, WEFT_NEVER) == 0);
        mc_assert(weft_fund_recharge(fund, task, &more, NULL) == 0);
    }
    end();
}

static void recharge(void *unused) {
    (void)unused;
    int error = weft_fund_recharge(fund, task, &more, NULL);
    mc_assert(error == 0 || error == -ENOENT);
}

/* Recharged and cancelled at once: it goes on with what it was given, or has got nothing. */
MC_TEST(budget_recharged_against_cancel, .proves = "J30 J40", .mode = MC_PCT, .max_exec = 5000) {
    begin();
    spawn();
    mc_assert(weft_fund_wait_exhausted(fund, WEFT_NEVER) == 0);
    int other = mc_spawn(recharge, NULL);
    weft_task_cancel(task);
    mc_join(other);
    end();
}

/* Recharged and refused at once. */
MC_TEST(budget_recharged_against_refuse, .proves = "J30 J40", .mode = MC_PCT, .max_exec = 5000) {
    begin();
    spawn();
    mc_assert(weft_fund_wait_exhausted(fund, WEFT_NEVER) == 0);
    int other = mc_spawn(recharge, NULL);
    int error = weft_fund_refuse(fund, task);
    mc_assert(error == 0 || error == -ENOENT);
    mc_join(other);
    end();
}

/* Memory that is freed while the fund is about to be destroyed: the last touch comes before. */
static void *memory;

static int alloc_one(void *arg) {
    (void)arg;
    add_relaxed(&paid, 1);
    return weft_alloc(8, &memory);
}

static void free_one(void *unused) {
    (void)unused;
    weft_free(memory);
}

MC_TEST(budget_free_against_destroy, .proves = "J11", .bound = 2, .stale_counts = true, .seconds = 5) {
    begin();
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget some = {10, 8, 0, 0, 0};
    spec.fn = alloc_one;
    spec.fund = fund;
    spec.budget = &some;
    mc_assert(weft_fiber_spawn(rt, &spec, &task) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    int other = mc_spawn(free_one, NULL);
    int error = weft_fund_destroy(fund);
    mc_assert(error == 0 || error == -EBUSY);
    mc_join(other);
    if (error) {
        mc_assert(fund->left.memory == 1000);
        mc_assert(weft_fund_destroy(fund) == 0);
    }
    mc_assert(weft_runtime_destroy(rt) == 0);
}

/* The same while the fiber that it is charged to is refused, and ends: it is credited once, whoever comes first. */
static int alloc_two(void *arg) {
    (void)arg;
    void *second;
    int error = weft_alloc(8, &memory);
    return error ? error : weft_alloc(8, &second);
}

MC_TEST(budget_free_against_kill, .proves = "J11 J40", .mode = MC_PCT, .max_exec = 5000) {
    begin();
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget some = {10, 8, 0, 0, 0};
    spec.fn = alloc_two;
    spec.fund = fund;
    spec.budget = &some;
    mc_assert(weft_fiber_spawn(rt, &spec, &task) == 0);
    mc_assert(weft_fund_wait_exhausted(fund, WEFT_NEVER) == 0);
    int other = mc_spawn(free_one, NULL);
    mc_assert(weft_fund_refuse(fund, task) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    int error = weft_fund_destroy(fund);
    mc_assert(error == 0 || error == -EBUSY);
    mc_join(other);
    if (error) {
        mc_assert(fund->left.memory == 1000 && fund->users == 0);
        mc_assert(weft_fund_destroy(fund) == 0);
    }
    mc_assert(weft_runtime_destroy(rt) == 0);
}

/* -- A supervisor of fibers recharges its child ------------------------------------------------------------------- */

/* weft_supervise waits for its children, of which one is exhausted meanwhile: it is woken for that, too.  The other suspends, so that the
 * supervisor is not the fiber that its worker suspended last, which would be looked at without a wake. */
static weft_event over;

static int pay_and_tell(void *arg) {
    for (int i = 0; i < 3; i++) /* the supervisor, which was told that it has begun, waits again */
        mc_assert(weft_yield() == 0);
    int error = pay_twice(arg);
    weft_event_set(&over);
    return error;
}

static int wait_for_it(void *arg) {
    (void)arg;
    return weft_event_wait(&over, WEFT_NEVER);
}

static int supervise_two(void *arg) {
    (void)arg;
    static const weft_budget one = {10, 0, 0, 1, 0};
    static const weft_supervised_fiber children[] = {{"pays", pay_and_tell, NULL, WEFT_RESTART_TEMPORARY, 0},
                                                     {"waits", wait_for_it, NULL, WEFT_RESTART_TEMPORARY, 0}};
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    config.fund = fund;
    config.budget = &one;
    config.on_exhausted = WEFT_EXHAUSTED_RECHARGE;
    config.recharge = more;
    return weft_supervise(&config, children, 2);
}

MC_TEST(budget_supervised_child_recharged, .proves = "J3 J40", .mode = MC_PCT, .max_exec = 2000) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *supervisor;
    weft_result result;
    begin();
    over = (weft_event)WEFT_EVENT_INIT;
    spec.fn = supervise_two;
    mc_assert(weft_fiber_spawn(rt, &spec, &supervisor) == 0);
    mc_assert(weft_join(supervisor, &result, WEFT_NEVER) == 0 && result.status == 0);
    weft_task_drop(supervisor);
    mc_assert(load_relaxed(&paid) == 2);
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_assert(weft_fund_destroy(fund) == 0);
    mc_assert(weft_runtime_destroy(rt) == 0);
}
