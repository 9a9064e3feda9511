/* budget.c - funds and keys when memory runs out: refused in order, and nothing of a budget is lost. */
#include "sweep.h"

static int pay(void *arg) {
    (void)arg;
    void *memory;
    int error = weft_alloc(100, &memory);
    if (!error)
        weft_free(memory);
    return error;
}

static void scenario(void) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_caps caps;
    weft_runtime *rt;
    config.profile = WEFT_PROFILE_CLUSTER;
    config.caps = &caps;
    config.workers = 1;
    int error = weft_runtime_create(&config, &rt);
    CHECK(sweep_is_clean(error));
    if (error)
        return;
    harness_on_hang(fixture_dump, rt);
    weft_budget before, after, budget = {100, 1000, 1, 0, 0};
    weft_fund *fund = NULL;
    weft_grant grant = WEFT_GRANT_INIT, found = WEFT_GRANT_INIT;
    grant.kind = WEFT_CAP_SPAWN;
    weft_fund_left(caps.fund, &before);
    for (int i = 0; i < 20; i++) { /* more than there is room for at first */
        weft_cap key = {0};
        error = weft_cap_delegate(rt, &caps.spawn, &grant, &key);
        CHECK(sweep_is_clean(error));
        if (!error)
            CHECK_EQ(weft_cap_read(rt, &key, &found), 0);
    }
    error = weft_fund_create(rt, caps.fund, &budget, &fund);
    CHECK(sweep_is_clean(error));
    if (!error) {
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        weft_task *task;
        weft_budget part = {10, 100, 0, 0, 0};
        spec.fn = pay;
        spec.fund = fund;
        spec.budget = &part;
        error = weft_fiber_spawn(rt, &spec, &task);
        CHECK(sweep_is_clean(error));
        if (!error)
            CHECK(sweep_is_clean(fixture_finish(task).status));
        REQUIRE_EVENTUALLY(weft_fund_destroy(fund) == 0); /* a moment after its last fiber */
    }
    weft_fund_left(caps.fund, &after);
    CHECK_EQ(after.memory, before.memory);
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

TEST(budget_out_of_memory, "J7 J10", .timeout = 120) { sweep(scenario); }
