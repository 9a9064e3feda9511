/* nursery_cap.c - compiled code under `sovereign`: a nursery has the capability that its owner's
 * children are started with. */
#include <weft/abi.h>

#include "nursery.h"

static weft_caps caps;

static int in_sovereign_fiber(weft_fiber_fn fn) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = WEFT_PROFILE_SOVEREIGN;
    config.caps = &caps;
    return weft_fiber_run(&config, fn, NULL, NULL);
}

static weft_cap delegated(uint32_t max_tasks) {
    weft_grant part = WEFT_GRANT_INIT;
    weft_cap cap;
    part.kind = WEFT_CAP_SPAWN;
    part.max_tasks = max_tasks;
    part.task_budget = (weft_budget)WEFT_BUDGET_CHILD;
    REQUIRE_EQ(weft_cap_delegate(NULL, &caps.spawn, &part, &cap), 0);
    return cap;
}

/* -- Every call of abi.h, with and without */

static int twice(void *arg) { return 2 * (int)(intptr_t)arg; }

static int with_a_cap(void *arg) {
    (void)arg;
    weft_nursery *n = weft_abi_nursery_create_with(NULL, &caps.spawn, NULL);
    weft_async call;
    void *value = NULL;
    REQUIRE(n);
    for (int i = 0; i < 5; i++)
        REQUIRE(weft_abi_nursery_spawn(n, add_one, NULL));
    REQUIRE_EQ(weft_async_call(n, twice, STATUS(21), &call), 0);
    CHECK_EQ(weft_async_await(&call, &value), 0);
    CHECK_EQ((intptr_t)value, 42);
    CHECK_EQ(weft_nursery_go(n, add_one, NULL, NULL), 0);
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    CHECK_EQ(did.entered, 6);
    weft_abi_nursery_destroy(n);
    return 0;
}

API_TEST(cap_abi_with, "J4 J7 J35 J36", .workers = {1, 2}) { CHECK_EQ(in_sovereign_fiber(with_a_cap), 0); }

static int without_a_cap(void *arg) {
    (void)arg;
    weft_cap zero = {0, 0};
    weft_async call;
    for (int i = 0; i < 3; i++) { /* none, one that is no key, one of another kind */
        weft_nursery *n = weft_abi_nursery_create_with(NULL, i == 0 ? NULL : i == 1 ? &zero : &caps.channel, NULL);
        REQUIRE(n);
        CHECK(!weft_abi_nursery_spawn(n, add_one, NULL));
        CHECK_EQ(weft_abi_nursery_await(n), -EACCES); /* not WEFT_ABI_CANCELLED, which is -EPERM */
        weft_abi_nursery_destroy(n);
    }
    weft_nursery *n = weft_abi_nursery_create();
    REQUIRE(n);
    CHECK_EQ(weft_async_call(n, twice, NULL, &call), -EPERM);
    CHECK(!call.task);
    weft_abi_nursery_destroy(n);
    CHECK_EQ(did.entered, 0);
    return 0;
}

API_TEST(cap_abi_without, "J4 J7 J37", .workers = {1, 2}) { CHECK_EQ(in_sovereign_fiber(without_a_cap), 0); }

/* -- The nursery's capability is its owner's, not its children's */

static weft_nursery *shared;
static int use_the_parents(void *arg) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    CHECK_EQ(weft_nursery_parent(), shared);
    CHECK_EQ(weft_nursery_go(weft_nursery_parent(), add_one, NULL, NULL), -EPERM);
    spec.fn = add_one;
    spec.cap = arg; /* its own */
    spec.fund = caps.fund; /* ... and who pays */
    CHECK_EQ(weft_nursery_spawn(weft_nursery_parent(), &spec, NULL), 0);
    return 0;
}

static int children_need_their_own(void *arg) {
    (void)arg;
    weft_cap part = delegated(2);
    REQUIRE(shared = weft_abi_nursery_create_with(NULL, &caps.spawn, NULL));
    REQUIRE(weft_abi_nursery_spawn(shared, use_the_parents, &part));
    CHECK_EQ(weft_abi_nursery_await(shared), WEFT_ABI_OK);
    CHECK_EQ(did.entered, 1);
    weft_abi_nursery_destroy(shared);
    return 0;
}

API_TEST(cap_abi_not_inherited, "J4 J7", .workers = {1, 2}) {
    CHECK_EQ(in_sovereign_fiber(children_need_their_own), 0);
}

/* -- Copied, limited, revoked, overruled by the spec's */

static int limits(void *arg) {
    (void)arg;
    weft_cap two = delegated(2), gone = delegated(1);
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_nursery *n = weft_abi_nursery_create_with(NULL, &two, NULL);
    weft_cap key = two;
    two = (weft_cap){0, 0}; /* the nursery has a copy */
    REQUIRE(n && weft_abi_nursery_spawn(n, wait_for_ever, NULL) && weft_abi_nursery_spawn(n, wait_for_ever, NULL));
    CHECK_EQ(weft_nursery_go(n, wait_for_ever, NULL, NULL), -EDQUOT);
    spec.fn = add_one;
    spec.cap = &caps.spawn;
    CHECK_EQ(weft_nursery_spawn(n, &spec, NULL), 0);
    CHECK(!weft_abi_nursery_spawn(n, wait_for_ever, NULL)); /* max_tasks are there: fails the nursery */
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_BUDGET);
    weft_abi_nursery_destroy(n);

    n = weft_abi_nursery_create_with(NULL, &key, NULL); /* they have ended */
    REQUIRE(n && weft_abi_nursery_spawn(n, add_one, NULL));
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    weft_abi_nursery_destroy(n);

    n = weft_abi_nursery_create_with(NULL, &gone, NULL);
    CHECK_EQ(weft_cap_revoke(NULL, &gone), 0);
    CHECK(n && !weft_abi_nursery_spawn(n, add_one, NULL));
    CHECK_EQ(weft_abi_nursery_await(n), -EACCES);
    weft_abi_nursery_destroy(n);
    return 0;
}

API_TEST(cap_abi_limits, "J7 J37 J39", .workers = {1, 2}) { CHECK_EQ(in_sovereign_fiber(limits), 0); }

/* -- A tree: each level has its capability and its fund from the level above */

struct level {
    weft_cap cap;
    weft_fund *fund;
    int depth;
};

static int grow(void *arg) {
    struct level below = *(const struct level *)arg;
    atomic_fetch_add(&did.entered, 1);
    if (--below.depth < 0)
        return 0;
    weft_nursery *n = weft_abi_nursery_create_with(NULL, &below.cap, below.fund);
    weft_abi_nursery_spawn(n, grow, &below);
    weft_abi_nursery_spawn(n, grow, &below);
    int result = weft_abi_nursery_await(n);
    weft_abi_nursery_destroy(n);
    return result;
}

static int tree(void *arg) {
    (void)arg;
    struct level top = {delegated(100), caps.fund, 4};
    CHECK_EQ(grow(&top), 0);
    CHECK_EQ(did.entered, 31);
    return 0;
}

API_TEST(cap_abi_tree, "J4 J24 J39", .workers = {1, 2, 4}) { CHECK_EQ(in_sovereign_fiber(tree), 0); }

/* -- On a plain thread */

API_TEST(cap_abi_thread, "J4 J7 J27", .workers = {1, 2}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = WEFT_PROFILE_SOVEREIGN;
    config.caps = &caps;
    weft_runtime *rt = fixture_begin(&config);
    weft_nursery *n = weft_abi_nursery_create_with(rt, &caps.spawn, NULL);
    REQUIRE(n && weft_abi_nursery_spawn(n, add_one, NULL) && weft_abi_nursery_spawn(n, add_one, NULL));
    CHECK_EQ(weft_abi_nursery_await(n), WEFT_ABI_OK);
    weft_abi_nursery_destroy(n);
    n = weft_abi_nursery_create_with(rt, NULL, NULL);
    CHECK(n && !weft_abi_nursery_spawn(n, add_one, NULL));
    CHECK_EQ(weft_abi_nursery_await(n), -EACCES);
    weft_abi_nursery_destroy(n);
    CHECK_EQ(did.entered, 2);
    CHECK_EQ(fixture_stats(rt).denied, 1);
    fixture_end(rt);
}

/* -- weft_timeout */

static int late(void *arg) { return weft_timeout_with(arg, 1000000, wait_for_ever, NULL); }

static int timeouts(void *arg) {
    (void)arg;
    weft_cap part = delegated(3);
    CHECK_EQ(weft_timeout(INT64_C(1000000000), twice, STATUS(1)), -EPERM);
    CHECK_EQ(weft_timeout_with(NULL, INT64_C(1000000000), twice, STATUS(1)), -EPERM);
    CHECK_EQ(weft_timeout_with(&part, WEFT_NEVER, twice, STATUS(4)), 8);
    CHECK_EQ(late(&part), -ETIMEDOUT);
    CHECK_EQ(weft_timeout_with(&part, 1, NULL, NULL), -EINVAL);
    return 0;
}

API_TEST(cap_timeout, "J4 J7", .workers = {1, 2}) { CHECK_EQ(in_sovereign_fiber(timeouts), 0); }

/* -- Elsewhere a capability is not needed, but must be one */

static int elsewhere(void *arg) {
    (void)arg;
    weft_cap zero = {0, 0};
    weft_nursery *n = weft_abi_nursery_create_with(NULL, &zero, NULL);
    CHECK(n && !weft_abi_nursery_spawn(n, add_one, NULL));
    CHECK_EQ(weft_abi_nursery_await(n), -EINVAL); /* this runtime has no fund that a budget could come out of */
    weft_abi_nursery_destroy(n);
    CHECK_EQ(did.entered, 0);
    return 0;
}

API_TEST(cap_abi_elsewhere, "J7", .workers = {1}) { CHECK_EQ(in_fiber(elsewhere, NULL), 0); }
