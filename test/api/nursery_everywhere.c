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
        timed = weft_timeout(3 * US, leaf, STATUS(50)); /* passes, unless cancelled before */
        CHECK(timed == -ETIMEDOUT || timed == -ECANCELED);
        timed = weft_timeout(1000000 * US, branch, NULL);
        CHECK(timed == 0 || timed == -ECANCELED);
        weft_task_drop(handle);
    }
    CHECK_EQ(ledger.alive, 0); /* nothing outlives the block */
    give(mine);
    return status;
}

/* Lets others run so many times, then cancels. */
struct canceller {
    atomic_bool *done;
    weft_task *target;
    unsigned left;
    bool fired;
};

static weft_poll cancel_after(weft_task *self, void *state) {
    struct canceller *c = state;
    if (atomic_load(c->done))
        return weft_done(self, 0, NULL);
    if (c->left-- > 0)
        return WEFT_YIELD;
    c->fired = true;
    weft_task_cancel(c->target);
    return weft_done(self, 0, NULL);
}

struct program {
    atomic_bool done, go;
};

static int run_program(void *arg) {
    struct program *p = arg;
    int status = program(NULL);
    atomic_store(&p->done, true);
    return status;
}

/* True: it was cancelled before it had run through. */
static bool cancel_at(unsigned k, uint64_t seed) {
    weft_config config = WEFT_CONFIG_INIT;
    config.seed = seed;
    config.park_timeout_ns = -1;
    weft_runtime *rt = fixture_begin(&config);
    struct program p = {false, false};
    weft_task *task = NULL, *other = NULL;
    memset(&ledger, 0, sizeof ledger);
    REQUIRE_EQ(weft_fiber_go(rt, run_program, &p, &task), 0);
    struct canceller c = {&p.done, task, k, false};
    REQUIRE_EQ(weft_go(rt, cancel_after, &c, &other), 0);
    weft_result result;
    REQUIRE_EQ(weft_join(task, &result, fixture_soon()), 0);
    atomic_store(&p.done, true); /* it may never have begun */
    fixture_finish(other);
    weft_task_drop(task);
    CHECK(result.status == 0 || (c.fired && result.status == -ECANCELED));
    CHECK_EQ(ledger.alive, 0);
    for (unsigned i = 0; i < ledger.taken; i++)
        CHECK_EQ(ledger.given[i], 1);
    fixture_end(rt); /* every task has ended, no reference is left */
    return c.fired;
}

API_TEST(nursery_cancelled_everywhere, "J23 J24 J25 J31 J34", .workers = {1, 2}, .timeout = 120) {
    bool sim = fixture_on("sim");
    unsigned seeds = sim ? harness_is_slow() ? 2 : 20 : 1,
             most = sim                 ? 100000
                    : harness_is_slow() ? 40
                                        : 200,
             total = 0;
    uint64_t seed = harness_seed();
    for (unsigned s = 0; s < seeds; s++) {
        unsigned k = 0;
        uint64_t same = harness_random(&seed) | 1;
        for (bool fired = true; fired && k < most; k++)
            fired = cancel_at(k, same);
        total += k;
    }
    if (sim)
        CHECK_GT(total, 20 * seeds);
    printf("%u points\n", total);
}
