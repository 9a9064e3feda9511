/* idle.c - workers with nothing to do: they sleep, cost nothing, and are counted right. */
#include "fixture.h"

#include <time.h>
#include <weft/fiber.h>
#include <weft/sync.h>

static int64_t cpu_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void sleep_ns(int64_t ns) { nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL); }

API_TEST(idle_quiescence, "B43", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint ran = 0;
    for (unsigned round = 1; round <= 20; round++) {
        for (int i = 0; i < 50; i++)
            REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
        REQUIRE_EVENTUALLY(ran == 50 * round);
        /* All asleep, nobody counted as searching, and so it stays. */
        REQUIRE_EVENTUALLY(weft_stats_parked(rt) == weft_runtime_workers(rt) && weft_stats_searching(rt) == 0);
        weft_stats before = fixture_stats(rt);
        for (int i = 0; i < 10; i++)
            harness_nap();
        weft_stats after = fixture_stats(rt);
        CHECK_EQ(weft_stats_parked(rt), weft_runtime_workers(rt));
        CHECK_EQ(weft_stats_searching(rt), 0);
        CHECK_LE(after.parks - before.parks,
                 weft_runtime_workers(rt)); /* a sleeper is announced before it is counted */
        CHECK_EQ(after.searches, before.searches);
    }
    fixture_end(rt);
}

/* Blocked workers use no processor; with the default timeout, next to none. */
API_TEST(idle_cpu, "K11 B35 R12", .workers = {1, 4}) {
    for (int patient = 0; patient < 2; patient++) {
        weft_runtime *rt = patient ? fixture_begin_patient() : fixture_begin(NULL);
        atomic_uint ran = 0;
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
        REQUIRE_EVENTUALLY(ran == 1 && weft_stats_parked(rt) == weft_runtime_workers(rt));
        int64_t before = cpu_time();
        sleep_ns(200000000);
        int64_t used = cpu_time() - before;
        printf("%s: %lld us in 200 ms\n", patient ? "no timeout" : "default", (long long)used / 1000);
        CHECK_LT(used, patient ? 10000000 : harness_is_slow() ? 100000000 : 40000000);
        fixture_end(rt);
    }
}

/* Without any notification a worker looks again every 10 ms. */
API_TEST(idle_park_timeout, "B37", .sched = "ring deque fifo sim", .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    REQUIRE_EVENTUALLY(fixture_stats(rt).parks >= 1);
    uint64_t before = fixture_stats(rt).parks;
    int64_t start = harness_clock();
    REQUIRE_EVENTUALLY(fixture_stats(rt).parks >= before + 20);
    int64_t took = harness_clock() - start;
    printf("20 parks in %lld us\n", (long long)took / 1000);
    CHECK_GE(took, 19 * INT64_C(9000000)); /* asleep in between */
    CHECK_LE(took, 20 * INT64_C(100000000));
    fixture_end(rt);
}

/* Configured otherwise: a short timeout, and none at all. */
API_TEST(idle_park_timeout_set, "B37", .sched = "ring deque fifo sim", .workers = {2}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.park_timeout_ns = 100000;
    weft_runtime *rt = fixture_begin(&config);
    REQUIRE_EVENTUALLY(fixture_stats(rt).parks >= 100);
    fixture_end(rt);
    rt = fixture_begin_patient();
    REQUIRE_EVENTUALLY(weft_stats_parked(rt) == weft_runtime_workers(rt));
    REQUIRE_EVENTUALLY(fixture_stats(rt).parks >=
                       weft_runtime_workers(rt)); /* counted a moment after it is announced */
    uint64_t before = fixture_stats(rt).parks;
    sleep_ns(50000000);
    CHECK_EQ(fixture_stats(rt).parks, before);
    fixture_end(rt);
}

/* Workers are threads of the runtime from its creation to its end. */
API_TEST(idle_threads, "B32 K41", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EVENTUALLY(fixture_threads("crew-") == weft_runtime_workers(rt));
    fixture_end(rt);
    REQUIRE_EVENTUALLY(fixture_threads("crew-") == 0);
}

/* A burst wakes one sleeper; that one, finding more, the next: soon all work, and no task waits beside a sleeper. */
static struct blocker hold[4];
static atomic_uint holding;

static weft_poll take_one(weft_task *self, void *state) {
    (void)state;
    return fixture_block(self, &hold[atomic_fetch_add(&holding, 1)]);
}

static void expect_all_at_work(weft_runtime *rt) {
    REQUIRE_EVENTUALLY(weft_stats_parked(rt) == 4);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(weft_go(rt, take_one, NULL, NULL), 0);
    unsigned enough = fixture_on("deque") ? 3 : 4; /* there the newest of a batch is its fetcher's alone */
    REQUIRE_EVENTUALLY(holding >= enough);
    for (int i = 0; i < 4; i++)
        hold[i].release = true;
    fixture_end(rt);
}

API_TEST(idle_chain_of_wakes, "B38 B39", .sched = "ring deque fifo reactor", .workers = {4}) {
    expect_all_at_work(fixture_begin_patient()); /* by wakes alone */
}

API_TEST(idle_no_task_beside_sleepers, "B1", .sched = "ring deque fifo reactor", .workers = {4}) {
    expect_all_at_work(fixture_begin(NULL));
}

/* Of all sleepers one watches.  Whose fibers are woken again and again hands that on once, and then leaves the others asleep. */
struct woken {
    weft_event go;
    atomic_uint turns;
    atomic_uint *begun;
    atomic_bool over;
};

static int be_woken(void *arg) {
    struct woken *self = arg;
    atomic_fetch_add(self->begun, 1);
    while (atomic_load(self->begun) < 2) /* keeps its worker: the other one begins elsewhere */
        harness_nap();
    while (!self->over) {
        CHECK_EQ(weft_event_wait(&self->go, WEFT_NEVER), 0);
        weft_event_clear(&self->go);
        self->turns++;
    }
    return 0;
}

API_TEST(idle_watch_is_kept, "B37", .sched = "ring deque fifo", .workers = {2}) {
    weft_runtime *rt = fixture_begin(NULL);
    static struct woken woken[2];
    static atomic_uint begun;
    weft_task *task[2];
    for (int i = 0; i < 2; i++) {
        woken[i].begun = &begun;
        weft_event_init(&woken[i].go);
        REQUIRE_EQ(weft_fiber_go(rt, be_woken, &woken[i], &task[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        REQUIRE_EVENTUALLY(begun == 2 && weft_stats_parked(rt) == 2 && weft_stats_searching(rt) == 0);
        uint64_t before = fixture_stats(rt).wakes; /* by workers: ours are not counted */
        for (unsigned round = 1; round <= 100; round++) {
            weft_event_set(&woken[i].go);
            REQUIRE_EVENTUALLY(woken[i].turns == round && weft_stats_parked(rt) == 2 && weft_stats_searching(rt) == 0);
        }
        CHECK_LE(fixture_stats(rt).wakes - before, 10);
    }
    for (int i = 0; i < 2; i++) {
        woken[i].over = true;
        weft_event_set(&woken[i].go);
        CHECK_EQ(fixture_finish(task[i]).status, 0);
        weft_event_destroy(&woken[i].go);
    }
    fixture_end(rt);
}
