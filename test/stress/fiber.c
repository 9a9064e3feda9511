/* fiber.c - many fibers: a million alive, a million one after the other, and a storm of all that can happen to them. */
#include "../api/fiber.h"

/* -- A million ---------------------------------------------------------------------------------------------------------------- */

/* As many as half of the free memory holds, a page and a little each. */
static unsigned how_many(unsigned full) {
    size_t free_pages = (size_t)sysconf(_SC_AVPHYS_PAGES), fit = free_pages / 2 / 2;
    unsigned count = harness_is_slow() ? full / 100 : full;
    return fit < count ? (unsigned)fit : count;
}

static struct event crowd, complete;
static atomic_uintptr_t here;

/* The last of `arg` says that all are here; a moment later it waits as well. */
static int join_crowd(void *arg) {
    if (atomic_fetch_add(&here, 1) + 1 == (uintptr_t)arg)
        event_set(&complete);
    return event_wait(&crowd, WEFT_NEVER);
}

static int spawn_crowd(void *arg) {
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++) {
        REQUIRE_EQ(weft_fiber_go(NULL, join_crowd, arg, NULL), 0);
        if (i % 1000 == 0)
            weft_yield();
    }
    return 0;
}

API_TEST(fiber_million_alive, "J9", .sched = "ring", .workers = {2}, .timeout = 240) {
    unsigned count = how_many(1000000);
    weft_runtime *rt = fixture_begin(NULL);
    size_t before = harness_rss();
    weft_task *spawner = fiber_go(rt, spawn_crowd, (void *)(uintptr_t)count);
    REQUIRE_EQ(weft_join(spawner, NULL, weft_after(INT64_C(120000000000))), 0);
    weft_task_drop(spawner);
    REQUIRE_EQ(event_wait(&complete, weft_after(INT64_C(60000000000))), 0);
    REQUIRE_EVENTUALLY(event_waiting(&crowd) == count);
    size_t each = (harness_rss() - before) / count;
    printf("%u fibers, %zu bytes each\n", count, each);
    if (!harness_is_slow())
        CHECK_LE(each, 4608);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED); /* and all are cancelled */
    CHECK_EQ(event_waiting(&crowd), 0);
    weft_stats stats = fixture_stats(rt);
    CHECK_EQ(stats.completed, count + 1);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    if (!harness_is_slow())
        CHECK_LT(harness_rss(), before + (size_t)count * 1024);
}

static atomic_uint ran;

static int count_one(void *arg) {
    if (arg)
        weft_yield();
    atomic_fetch_add(&ran, 1);
    return 0;
}

static int spawn_groups(void *arg) {
    uint64_t seed = 1;
    for (uintptr_t i = 0; i < (uintptr_t)arg / 100; i++) {
        weft_task *task[100];
        for (int k = 0; k < 100; k++)
            task[k] = fiber_go(NULL, count_one, (void *)(uintptr_t)(harness_random(&seed) % 2));
        for (int k = 0; k < 100; k++) {
            CHECK_EQ(weft_join(task[k], NULL, WEFT_NEVER), 0);
            weft_task_drop(task[k]);
        }
    }
    return 0;
}

API_TEST(fiber_million_in_groups, "J9", .workers = {1, 2, 4}, .timeout = 120) {
    unsigned count = harness_is_slow()       ? 10000
                     : fixture_on("reactor") ? 25000
                                             : 250000; /* it hands over each by itself */
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[4];
    for (int i = 0; i < 4; i++)
        task[i] = fiber_go(rt, spawn_groups, (void *)(uintptr_t)count);
    for (int i = 0; i < 4; i++) {
        REQUIRE_EQ(weft_join(task[i], NULL, weft_after(INT64_C(100000000000))), 0);
        weft_task_drop(task[i]);
    }
    CHECK_EQ(ran, 4 * count);
    fixture_end(rt);
}

/* -- A storm ---------------------------------------------------------------------------------------------------------------- */

enum { THREADS = 3, SLOTS = 24 };

static struct {
    weft_runtime *rt;
    struct event event; /* never set: served now and then */
    unsigned rounds, key;
    atomic_uint entered, left, destroyed, spawned;
} storm;

static void on_destroy(void *value) {
    (void)value;
    atomic_fetch_add(&storm.destroyed, 1);
}

static atomic_uint with_local;

static int live(void *arg) {
    uint64_t seed = (uintptr_t)arg;
    atomic_fetch_add(&storm.entered, 1);
    int error = 0;
    volatile uint64_t canary = seed;
    if (seed % 4 == 0) {
        atomic_fetch_add(&with_local, 1);
        REQUIRE_EQ(weft_local_set(storm.key, (void *)&storm), 0);
    }
    for (unsigned i = 0; i < seed % 16 && !error; i++) {
        switch (harness_random(&seed) % 8) {
        case 0: error = weft_sleep((int64_t)(harness_random(&seed) % 300000)); break;
        case 1: error = event_wait(&storm.event, weft_after((int64_t)(harness_random(&seed) % 200000))); break;
        case 2: {
            weft_task *child;
            if (weft_fiber_go(NULL, live, (void *)(uintptr_t)(harness_random(&seed) % 8), &child))
                break;
            atomic_fetch_add(&storm.spawned, 1);
            if (harness_random(&seed) % 2)
                weft_task_cancel(child);
            error = weft_join(child, NULL, harness_random(&seed) % 2 ? WEFT_NEVER : weft_after(50000));
            weft_task_drop(child);
            break;
        }
        case 3: {
            weft_task *self = weft_task_self();
            REQUIRE_EQ(weft_shield(self), 0);
            CHECK_EQ(weft_yield(), 0);
            CHECK_EQ(weft_sleep(1000), 0);
            REQUIRE_EQ(weft_unshield(self), 0);
            break;
        }
        case 4: error = weft_checkpoint(); break;
        default: error = weft_yield();
        }
        CHECK(error == 0 || error == -ETIMEDOUT || error == -ECANCELED);
        error = error == -ETIMEDOUT ? 0 : error;
    }
    CHECK_EQ(canary, (uintptr_t)arg);
    atomic_fetch_add(&storm.left, 1);
    return error;
}

static void be_a_driver(unsigned index, void *arg) {
    (void)arg;
    uint64_t random = harness_seed() * THREADS + index;
    weft_task *slot[SLOTS] = {NULL};
    for (unsigned i = 0; i < storm.rounds; i++) {
        weft_task **task = &slot[harness_random(&random) % SLOTS];
        uint64_t dice = harness_random(&random) % 16;
        if (!*task) {
            weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
            spec.fn = live;
            spec.arg = (void *)(uintptr_t)(harness_random(&random) >> 8);
            spec.migrate = dice % 2;
            spec.stack_size = dice == 5 ? 1 << 18 : 0;
            int error = weft_fiber_spawn(storm.rt, &spec, task);
            REQUIRE(error == 0 || error == -EAGAIN);
            atomic_fetch_add(&storm.spawned, !error);
            continue;
        }
        if (dice < 4)
            weft_task_cancel(*task);
        if (dice < 8)
            event_serve(&storm.event);
        weft_result result;
        int error = weft_join(*task, &result, dice % 3 ? WEFT_NOW : weft_after(100000));
        REQUIRE(error == 0 || error == -ETIMEDOUT);
        if (!error) {
            CHECK(result.status == 0 || result.status == -ECANCELED);
            weft_task_drop(*task);
            *task = NULL;
        }
    }
    for (int i = 0; i < SLOTS; i++)
        if (slot[i])
            fixture_finish(slot[i]);
}

API_TEST(fiber_storm, "J13 J31", .workers = {1, 2, 4}, .timeout = 120) {
    storm.rounds = harness_is_slow() ? 2000 : 20000;
    REQUIRE_EQ(weft_local_create(&storm.key, on_destroy), 0);
    storm.rt = fixture_begin_patient();
    harness_threads(THREADS, be_a_driver, NULL);
    CHECK_EQ(weft_runtime_stop(storm.rt, fixture_soon()), 0);
    weft_stats stats = fixture_stats(storm.rt);
    printf("%u spawned, %u entered, %llu polls\n", storm.spawned, storm.entered, (unsigned long long)stats.polls);
    CHECK_EQ(stats.spawned, storm.spawned);
    CHECK_EQ(stats.completed, storm.spawned);
    CHECK_EQ(storm.entered, storm.left);
    CHECK_EQ(storm.entered + stats.cancelled, storm.spawned); /* entered, or cancelled before */
    CHECK_EQ(storm.destroyed, with_local);
    CHECK_EQ(storm.event.waiters.first, NULL);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(storm.rt), 0);
}
