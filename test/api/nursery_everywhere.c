/* nursery_everywhere.c - a program that uses all of it, cancelled at its first suspension, its second, and so on, until it runs through.
 *
 * Whenever the cancel comes, every clean-up runs exactly once, every child has ended before its owner goes on, and nothing is left. */
#include <weft/abi.h>

#include "nursery.h"

#define THINGS 64
#define US INT64_C(1000)

static struct {
    atomic_uint taken, given[THINGS];
    atomic_uint alive; /* children that are in their function */
} ledger;

static unsigned take(void) {
    unsigned i = atomic_fetch_add(&ledger.taken, 1);
    REQUIRE_LT(i, THINGS);
    return i;
}

/* Clean-up that waits itself. */
static void give(unsigned i) {
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_shield(self), 0);
    CHECK_EQ(weft_sleep(US), 0);
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(atomic_fetch_add(&ledger.given[i], 1), 0);
    REQUIRE_EQ(weft_unshield(self), 0);
}

static int leaf(void *arg) {
    atomic_fetch_add(&ledger.alive, 1);
    unsigned mine = take();
    int why = weft_sleep((intptr_t)arg * US);
    if (!why)
        why = weft_yield();
    give(mine);
    atomic_fetch_sub(&ledger.alive, 1);
    return why;
}

static int branch(void *arg) {
    (void)arg;
    atomic_fetch_add(&ledger.alive, 1);
    unsigned mine = take();
    int status;
    WEFT_NURSERY(n, &status) {
        for (intptr_t i = 1; i <= 2; i++) {
            int error = weft_nursery_go(&n, leaf, STATUS(i), NULL);
            CHECK(error == 0 || error == -ECANCELED);
        }
        weft_yield();
    }
    give(mine);
    atomic_fetch_sub(&ledger.alive, 1);
    return status;
}

static int twice(void *arg) {
    weft_yield();
    return 2 * (int)(intptr_t)arg;
}

static int program(void *arg) {
    (void)arg;
    int status, timed;
    void *value = NULL;
    unsigned mine = take();
    WEFT_NURSERY(n, &status) {
        weft_async call;
        weft_task *handle = NULL;
        int error = weft_nursery_go(&n, branch, NULL, &handle);
        CHECK(error == 0 || error == -ECANCELED);
        error = weft_async_call(&n, twice, STATUS(21), &call);
        CHECK(error == 0 || error == -ECANCELED);
        if (weft_async_await(&call, &value) == 0)
            CHECK_EQ((intptr_t)value, 42);
        weft_async_drop(&call);
        timed = weft_timeout(3 * US, leaf, STATUS(1000000)); /* passes, unless cancelled before */
        CHECK(timed == -ETIMEDOUT || timed == -ECANCELED);
        timed = weft_timeout(1000000 * US, branch, NULL);
        CHECK(timed == 0 || timed == -ECANCELED);
        weft_task_drop(handle);
    }
    CHECK_EQ(ledger.alive, 0); /* nothing outlives the block */
    give(mine);
    return status;
}

/* Starts the program, lets it run so many times, then cancels it. */
struct canceller {
    atomic_bool done; /* the program has run through */
    weft_task *target;
    unsigned left;
    bool fired;
};

static int run_program(void *arg) {
    struct canceller *c = arg;
    int status = program(NULL);
    atomic_store(&c->done, true);
    return status;
}

static weft_poll cancel_after(weft_task *self, void *state) {
    struct canceller *c = state;
    if (!c->target)
        REQUIRE_EQ(weft_fiber_go(NULL, run_program, c, &c->target), 0);
    if (atomic_load(&c->done))
        return weft_done(self, 0, NULL);
    if (c->left-- > 0)
        return WEFT_YIELD;
    c->fired = true;
    weft_task_cancel(c->target);
    return weft_done(self, 0, NULL);
}

/* True: it was cancelled before it had run through. */
static bool cancel_at(unsigned k, uint64_t seed) {
    weft_config config = WEFT_CONFIG_INIT;
    config.seed = seed;
    config.park_timeout_ns = -1;
    weft_runtime *rt = fixture_begin(&config);
    struct canceller c = {false, NULL, k, false};
    memset(&ledger, 0, sizeof ledger);
    fixture_finish(fixture_go(rt, cancel_after, &c));
    int status = fixture_finish(c.target).status;
    CHECK(status == 0 || (c.fired && status == -ECANCELED));
    CHECK_EQ(ledger.alive, 0);
    for (unsigned i = 0; i < ledger.taken; i++)
        CHECK_EQ(ledger.given[i], 1);
    fixture_end(rt); /* every task has ended, no reference is left */
    return c.fired;
}

/* Under sim every point is the same in each run up to the cancel: all of them, in turn.  Elsewhere they are chance. */
API_TEST(nursery_cancelled_everywhere, "J23 J24 J25 J31 J34", .workers = {1, 2}, .timeout = 120) {
    bool sim = fixture_on("sim");
    unsigned most = sim ? 100000 : fixture_is_slow() ? 40 : 200, step = sim && harness_is_slow() ? 16 : 1, k = 0;
    uint64_t seed = harness_seed() | 1;
    for (bool fired = true; fired && k < most; k += step)
        fired = cancel_at(k, seed);
    printf("%u points\n", k / step);
    if (sim)
        CHECK_GT(k, 100);
}
