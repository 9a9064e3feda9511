/* create.c - starting a runtime when memory or threads run out at any point: in order, or with fewer workers, or not at all. */
#define _GNU_SOURCE
#include "sweep.h"

#include "queue/bias.h"
#include "sched/runtime.h"

#include <sys/resource.h>

static unsigned fewest, most;

static void create_and_use(void) {
    unsigned asked = harness_workers();
    weft_runtime *rt = sweep_begin(&asked);
    if (!rt)
        return;
    unsigned workers = weft_runtime_workers(rt);
    fewest = workers < fewest ? workers : fewest;
    most = workers > most ? workers : most;
    CHECK_EQ(rt->lifo_stealing,
             workers > 1 && rt->heavy_fence); /* by how many there are, not by how many were asked for */
    CHECK(rt->bias_streak == (!rt->heavy_fence ? 0 : workers > 1 ? WEFTI_BIAS_STREAK : WEFTI_BIAS_STREAK_ALONE));
    atomic_uint ran = 0;
    unsigned accepted = 0;
    for (int i = 0; i < 20; i++) {
        int error = weft_go(rt, fixture_count, &ran, NULL);
        REQUIRE(error == 0 || error == -ENOMEM);
        accepted += error == 0;
    }
    sweep_end(rt, accepted);
    CHECK_EQ(ran, accepted);
}

API_TEST(create_fails_anywhere, "B32 B57", .workers = {1, 4}) {
    fewest = 1000;
    sweep(create_and_use);
    if (!fixture_on("sim")) { /* all of them, or any smaller number */
        CHECK_EQ(most, harness_workers());
        CHECK_EQ(fewest, 1);
    }
}

static weft_poll leave(weft_task *self, void *state) { return weft_done(self, -7, state); }

static void run_one(void) {
    weft_result result = {5, NULL};
    int thing, error = weft_run(NULL, leave, &thing, &result);
    REQUIRE(error == -7 || error == -ENOMEM || error == -EAGAIN);
    CHECK_EQ(result.status, error == -7 ? -7 : 5); /* on failure outputs are untouched */
    CHECK_EQ(result.value, error == -7 ? &thing : NULL);
    REQUIRE_EVENTUALLY(fixture_threads("weft-0") == 0);
}

API_TEST(create_run_fails_anywhere, "", .workers = {1, 3}) { sweep(run_one); }

static void create_driven(void) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt = NULL;
    config.driven = true;
    config.workers = harness_workers();
    int error = weft_runtime_create(&config, &rt);
    REQUIRE(sweep_is_clean(error));
    if (error)
        return;
    CHECK_GE(weft_runtime_workers(rt), 1); /* the caller's own thread is always there */
    atomic_uint ran = 0;
    if (weft_go(rt, fixture_count, &ran, NULL) == 0)
        while (!ran)
            REQUIRE_GE(weft_drive_wait(rt, 0, weft_after(100000)), 0);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

API_TEST(create_driven_fails_anywhere, "", .workers = {1, 3}) { sweep(create_driven); }

/* The system's own refusal: no address space for so many stacks. */
API_TEST(create_without_address_space, "", .sched = "ring") {
    if (harness_is_slow())
        SKIP("sanitizers need the address space");
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt = NULL;
    struct rlimit limit = {400u << 20, 400u << 20};
    config.workers = 1024;
    REQUIRE_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    int error = weft_runtime_create(&config, &rt);
    REQUIRE(sweep_is_clean(error));
    if (error)
        return;
    printf("%u workers\n", weft_runtime_workers(rt));
    CHECK_LT(weft_runtime_workers(rt), 1024);
    atomic_uint ran = 0;
    error = weft_go(rt, fixture_count, &ran, NULL); /* the workers may have taken the last of it */
    CHECK(error == 0 || error == -ENOMEM);
    fixture_end(rt);
    CHECK_EQ(ran, error == 0);
}
