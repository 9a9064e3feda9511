/* fiber_sleep.c - sleeping fibers: order, never early, virtual time under sim. */
#include "fiber.h"

static struct {
    int at[64];
    unsigned count;
} woken; /* plain: one worker */

static int sleep_for(void *arg) {
    int64_t before = weft_now(), ns = (int64_t)(intptr_t)arg * 3000000;
    CHECK_EQ(weft_sleep(ns), 0);
    CHECK_GE(weft_now() - before, ns);
    woken.at[woken.count++] = (int)(intptr_t)arg;
    return 0;
}

static int start_sleepers(void *arg) {
    (void)arg;
    static const int order[] = {7, 2, 9, 4, 1, 8, 3, 6, 5};
    for (unsigned i = 0; i < 9; i++)
        REQUIRE_EQ(weft_fiber_go(NULL, sleep_for, (void *)(intptr_t)order[i], NULL), 0);
    return 0;
}

API_TEST(fiber_sleep_order, "J9", .workers = {1}) {
    CHECK_EQ(fiber_run(start_sleepers, NULL).status, 0);
    REQUIRE_EQ(woken.count, 9);
    if (fixture_on("sim")) /* which begins them in any order, but moves time on only when all sleep */
        for (int i = 0; i < 9; i++)
            CHECK_EQ(woken.at[i], i + 1);
}

/* A day goes by at once. */
static int sleep_a_day(void *arg) {
    (void)arg;
    int64_t day = INT64_C(86400000000000), before = weft_now();
    CHECK_EQ(weft_sleep(day), 0);
    CHECK_GE(weft_now() - before, day);
    CHECK_LT(weft_now() - before, day + 10000000);
    return 0;
}

API_TEST(fiber_sleep_virtual_time, "J6", .sched = "sim") {
    int64_t before = weft_now();
    CHECK_EQ(fiber_run(sleep_a_day, NULL).status, 0);
    CHECK_LT(weft_now() - before, INT64_C(20000000000));
}

static int sleep_in_the_past(void *arg) {
    (void)arg;
    CHECK_EQ(weft_sleep(0), 0);
    CHECK_EQ(weft_sleep(-5), 0);
    CHECK_EQ(weft_sleep_until(WEFT_NOW), 0);
    CHECK_EQ(weft_sleep_until(weft_now() - 1000), 0);
    return 0;
}

API_TEST(fiber_sleep_not_at_all, "", .workers = {1}) { CHECK_EQ(fiber_run(sleep_in_the_past, NULL).status, 0); }

/* Many sleepers on all workers, each with its own time, some of which move. */
static int sleep_randomly(void *arg) {
    uint64_t seed = (uintptr_t)arg;
    for (int i = 0; i < 10; i++) {
        int64_t before = weft_now(), ns = (int64_t)(harness_random(&seed) % 3000000);
        REQUIRE_EQ(weft_sleep(ns), 0);
        CHECK_GE(weft_now() - before, ns);
    }
    return 0;
}

API_TEST(fiber_sleep_many, "J9", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    uint64_t seed = harness_seed();
    weft_task *task[100];
    for (uintptr_t i = 0; i < 100; i++)
        task[i] =
            (i % 2 ? fiber_go : fiber_go_migrating)(rt, sleep_randomly, (void *)(uintptr_t)(harness_random(&seed) | 1));
    for (int i = 0; i < 100; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* Sleeping costs no CPU: the worker is parked until the first is due. */
API_TEST(fiber_sleep_parks_the_worker, "J9", .sched = "ring deque fifo", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[50];
    for (int i = 0; i < 50; i++)
        task[i] = fiber_go(rt, sleep_randomly, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < 50; i++)
        fixture_finish(task[i]);
    CHECK_LT(fixture_stats(rt).polls, 50 * 10 * 4);
    fixture_end(rt);
}
