/* blocking.c - blocking work when memory or threads run out at any point: done, or refused in order; never a hang. */
#include "sweep.h"

static atomic_uint ran, dropped, accepted, refused;

static int count(void *arg) {
    (void)arg;
    atomic_fetch_add(&ran, 1);
    return 0;
}

static void on_drop(void *arg) {
    (void)arg;
    atomic_fetch_add(&dropped, 1);
}

static weft_blocking_spec spec_of(weft_pool *pool, bool abandon) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = count;
    spec.drop = on_drop;
    spec.pool = pool;
    spec.abandon = abandon;
    return spec;
}

static void expect(int error) {
    REQUIRE(sweep_is_clean(error));
    atomic_fetch_add(error ? &refused : &accepted, 1);
}

static int call_some(void *arg) {
    for (int i = 0; i < 4; i++) {
        weft_blocking_spec spec = spec_of(arg, i % 2);
        int result = 7, error = weft_blocking_call(&spec, &result, WEFT_NEVER);
        expect(error);
        CHECK_EQ(result, error ? 7 : 0);
        expect(weft_blocking_start(NULL, &spec));
    }
    return 0;
}

struct polling {
    weft_wait wait;
    weft_pool *pool;
};

static weft_poll poll_once(weft_task *self, void *state) {
    struct polling *p = state;
    weft_blocking_spec spec = spec_of(p->pool, false);
    int error = weft_blocking_poll(&spec, self, &p->wait, NULL);
    if (error == -EAGAIN)
        return WEFT_PENDING;
    expect(error == -EBUSY ? -EAGAIN : error);
    return weft_done(self, 0, NULL);
}

static void scenario(bool own_pool) {
    ran = dropped = accepted = refused = 0;
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    weft_pool *pool = NULL;
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    config.threads_max = 2;
    config.name = "hands";
    if (own_pool) {
        int error = weft_pool_create(&config, &pool);
        REQUIRE(error == 0 || error == -ENOMEM);
        if (error)
            CHECK_EQ(pool, NULL);
    }
    unsigned tasks = 0;
    for (int i = 0; i < 3; i++) {
        struct polling p = {.pool = pool};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = poll_once;
        spec.state = &p;
        spec.state_size = sizeof p;
        tasks += weft_fiber_go(rt, call_some, pool, NULL) == 0;
        tasks += weft_spawn(rt, &spec, NULL) == 0;
    }
    sweep_end_turns(rt, tasks, 3 * 8 + 3);
    CHECK_EQ(weft_pool_destroy(pool, fixture_soon()), 0);
    CHECK_EQ(ran, accepted);
    CHECK_EQ(dropped, accepted);
    REQUIRE_EVENTUALLY(fixture_threads("hands-") == 0);
    REQUIRE_EVENTUALLY(fixture_threads("crew-") == 0);
}

static void in_runtime_pool(void) { scenario(false); }
static void in_own_pool(void) { scenario(true); }

API_TEST(blocking_fails_anywhere, "B57", .workers = {1, 2}, .timeout = 60) { sweep(in_runtime_pool); }
API_TEST(blocking_pool_fails_anywhere, "B57", .workers = {1, 2}, .timeout = 60) { sweep(in_own_pool); }

static int hold(void *arg) {
    struct blocker *blocker = arg;
    blocker->entered = true;
    while (!blocker->release)
        harness_nap();
    return 0;
}

/* The system gives no second thread: the first one does it all.  And none at all is an error, until there is one again. */
API_TEST(blocking_with_fewer_threads, "B57", .workers = {1}) {
    weft_pool *pool;
    weft_pool_stats stats;
    struct blocker blocker = {0};
    weft_blocking_spec spec = spec_of(NULL, false);
    REQUIRE_EQ(weft_pool_create(NULL, &pool), 0);
    spec.pool = pool;
    for (int i = 0; i < 2; i++) { /* the allocation for it, or the thread itself */
        wefti_fault_set(1 + i, true);
        CHECK_EQ(weft_blocking_start(NULL, &spec), -EAGAIN);
        wefti_fault_set(i, true);
        CHECK_EQ(weft_blocking_call(&spec, NULL, WEFT_NEVER), -EAGAIN);
        wefti_fault_set(-1, false);
    }
    CHECK_EQ(dropped, 0);
    weft_pool_stats_read(pool, &stats);
    CHECK_EQ(stats.refused, 4);
    CHECK_EQ(stats.threads, 0);
    weft_blocking_spec holder = spec_of(pool, false);
    holder.fn = hold;
    holder.arg = &blocker;
    REQUIRE_EQ(weft_blocking_start(NULL, &holder), 0);
    REQUIRE_EVENTUALLY(blocker.entered);
    for (int i = 0; i < 10; i++) {
        wefti_fault_set(1, true); /* its own memory is there */
        CHECK_EQ(weft_blocking_start(NULL, &spec), 0);
        wefti_fault_set(-1, false);
    }
    weft_pool_stats_read(pool, &stats);
    CHECK_EQ(stats.threads, 1);
    CHECK_EQ(stats.queued, 10);
    blocker.release = true;
    CHECK_EQ(weft_pool_destroy(pool, fixture_soon()), 0);
    CHECK_EQ(ran, 10);
}
