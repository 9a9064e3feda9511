/* budget.h - what the tests of budgets share: funds, fibers that are charged, what is left. */
#ifndef WEFT_TEST_BUDGET_H
#define WEFT_TEST_BUDGET_H

#include <weft/budget.h>

#include "fixture.h"
#include "metered/code.h"
#include "task/account.h"

static inline weft_runtime *begin(weft_profile profile) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = profile;
    return fixture_begin(&config);
}

static inline weft_fund *new_fund(weft_runtime *rt, weft_budget budget) {
    weft_fund *fund = NULL;
    REQUIRE_EQ(weft_fund_create(rt, NULL, &budget, &fund), 0);
    return fund;
}

static inline weft_task *charged(weft_runtime *rt, weft_fund *fund, weft_budget budget, weft_fiber_fn fn, void *arg) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task = NULL;
    spec.fn = fn;
    spec.arg = arg;
    spec.fund = fund;
    spec.budget = &budget;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    return task;
}

static inline bool holds(weft_fund *fund, weft_budget expected) {
    weft_budget left;
    weft_fund_left(fund, &left);
    return weft_budget_covers(&left, &expected) && weft_budget_covers(&expected, &left);
}
#define CHECK_HOLDS(fund, ...) CHECK(holds(fund, (weft_budget){__VA_ARGS__}))

static inline void end_fund(weft_fund *fund) { REQUIRE_EQ(weft_fund_destroy(fund), 0); }

static inline weft_poll nothing(weft_task *self, void *state) {
    (void)state;
    return weft_done(self, 0, NULL);
}

static inline int nop(void *arg) {
    (void)arg;
    return 0;
}

static inline weft_budget left_now(void) {
    weft_budget left = {0};
    REQUIRE_EQ(weft_budget_left(&left), 0);
    return left;
}

/* -- Fibers that want something, again and again ------------------------------------------------------------- */

enum what { OPS, CHECKPOINTS, MEMORY, SPAWNS, CHANNEL_OPS, SYSCALLS, WHATS };

struct wanting {
    enum what what;
    atomic_uint got; /* how often it could pay */
    unsigned want;
    int error;
    void *memory[8];
};

static inline int want_one(enum what what, void **memory) {
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

static inline int want(void *arg) {
    struct wanting *w = arg;
    for (unsigned i = 0; i < w->want; i++) {
        w->error = want_one(w->what, &w->memory[i % 8]);
        if (w->error)
            return w->error;
        atomic_fetch_add(&w->got, 1);
    }
    return 0;
}

static inline bool is_exhausted(weft_fund *fund, const weft_task *task) {
    weft_task *found[4] = {0};
    unsigned count = weft_fund_exhausted(fund, found, 4);
    for (unsigned i = 0; i < count && i < 4; i++)
        if (found[i] == task)
            return true;
    return false;
}

__attribute__((unused)) static const weft_budget plenty = {100000, 100000, 100, 100, 100};

/* Plenty of all but one thing, of which there is enough for `times`. */
static inline weft_budget scarce(enum what what, unsigned times) {
    weft_budget budget = plenty;
    switch (what) {
    case OPS: budget.ops = 1500 * times; break; /* 1,000 turns cost 1,000 to 3,000 */
    case CHECKPOINTS: budget.ops = 1000 * times; break;
    case MEMORY: budget.memory = 1000 * times; break;
    case SPAWNS: budget.spawns = times; break;
    case CHANNEL_OPS: budget.channel_ops = times; break;
    default: budget.syscalls = times; break;
    }
    return budget;
}

#endif
