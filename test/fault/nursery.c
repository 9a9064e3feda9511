/* nursery.c - nurseries when memory runs out at any point: refused in order, and what was started is awaited. */
#include "sweep.h"

static atomic_uint ran;

static int child(void *arg) {
    (void)arg;
    atomic_fetch_add(&ran, 1);
    return 0;
}

static bool is_clean(int error) { return error == 0 || error == -ENOMEM || error == -EAGAIN; }

static void from_a_thread(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    unsigned accepted = 0, timers = 0;
    weft_nursery *n = NULL;
    ran = 0;
    int error = weft_nursery_create(rt, NULL, &n);
    REQUIRE(is_clean(error));
    if (!error) {
        error = weft_nursery_set_deadline(n, fixture_soon());
        REQUIRE(is_clean(error));
        timers = error == 0;
        for (int i = 0; i < 20; i++) {
            error = weft_nursery_go(n, child, NULL, NULL);
            REQUIRE(is_clean(error) || error == -ECANCELED); /* after one that found no stack */
            accepted += error == 0;
        }
        error = weft_nursery_await(n);
        /* No stack for a child: it ends with that.  Under sim the clock runs on to the deadline when the worker is idle: between any two calls of
         * ours. */
        CHECK(error == 0 || error == -ENOMEM || (error == -ETIMEDOUT && fixture_on("sim")));
        if (error == 0)
            CHECK_EQ(ran, accepted);
        CHECK_EQ(weft_nursery_destroy(n), error);
    }
    sweep_end(rt, accepted + timers);
}

API_TEST(nursery_thread_fails_anywhere, "J21 J36", .workers = {1, 2}) { sweep(from_a_thread); }

static unsigned spawned;

static int in_a_fiber(void *arg) {
    (void)arg;
    int status;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.until = fixture_soon();
    config.keep_going = true;
    WEFT_NURSERY_WITH(n, &status, &config) {
        spawned++; /* its deadline */
        for (int i = 0; i < 20; i++) {
            int error = weft_nursery_go(&n, child, NULL, NULL);
            REQUIRE(is_clean(error));
            spawned += error == 0;
        }
    }
    CHECK(is_clean(status));
    weft_nursery *n = NULL;
    int error = weft_nursery_create(NULL, NULL, &n);
    CHECK(is_clean(error));
    return error ? 0 : weft_nursery_destroy(n);
}

static void from_a_fiber(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    ran = spawned = 0;
    int error = weft_fiber_go(rt, in_a_fiber, NULL, NULL);
    REQUIRE(is_clean(error));
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    CHECK_LE(ran, spawned);
    sweep_end(rt, spawned + (error == 0));
}

API_TEST(nursery_fiber_fails_anywhere, "J21 J36", .workers = {1, 2}) { sweep(from_a_fiber); }

/* A child for which there is no stack ends before it has begun: the supervisor, which waits for that, goes on. */
static int supervise(void *arg) {
    const weft_supervised_fiber children[] = {{"one", child, NULL, WEFT_RESTART_TEMPORARY, 0},
                                              {"two", child, NULL, WEFT_RESTART_TEMPORARY, 0},
                                              {"large", child, NULL, WEFT_RESTART_TEMPORARY, 1 << 20}};
    CHECK(is_clean(weft_supervise(NULL, children, 3)));
    return (void)arg, 0;
}

static void supervised(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    ran = 0;
    int error = weft_fiber_go(rt, supervise, NULL, NULL);
    REQUIRE(is_clean(error));
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    CHECK_LE(ran, 3);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

API_TEST(nursery_supervisor_fails_anywhere, "J3", .workers = {1, 2}) { sweep(supervised); }
