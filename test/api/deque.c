/* deque.c - the deque scheduler: newest first on its own worker, oldest half for the others. */
#include "fixture.h"

#define ON_DEQUE .sched = "deque"

static struct {
    pthread_mutex_t lock;
    int who[8192];
    atomic_uint count; /* entries that are complete */
} log_ = {.lock = PTHREAD_MUTEX_INITIALIZER};

static weft_poll note(weft_task *self, void *state) {
    pthread_mutex_lock(&log_.lock);
    log_.who[log_.count] = (int)(intptr_t)state;
    log_.count++;
    pthread_mutex_unlock(&log_.lock);
    return weft_done(self, 0, NULL);
}

static weft_poll spawn_ten(weft_task *self, void *state) {
    (void)state;
    for (intptr_t i = 0; i < 10; i++)
        REQUIRE_EQ(weft_go(NULL, note, (void *)i, NULL), 0);
    return weft_done(self, 0, NULL);
}

API_TEST(deque_newest_first, "W9 W12 J14", ON_DEQUE, .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_go(rt, spawn_ten, NULL, NULL), 0);
    fixture_end(rt);
    CHECK_EQ(log_.count, 10);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(log_.who[i], 9 - i);
}

/* From outside: the global queue in order, one to run and 16 more for the deque at a time. */
API_TEST(deque_batches_of_seventeen, "W9 W13 W14", ON_DEQUE, .workers = {1}) {
    struct blocker blocker = {0};
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_go(rt, fixture_block, &blocker, NULL), 0);
    REQUIRE_EVENTUALLY(blocker.entered);
    uint64_t fetches = fixture_stats(rt).global_fetches;
    for (intptr_t i = 0; i < 20; i++)
        REQUIRE_EQ(weft_go(rt, note, (void *)i, NULL), 0);
    blocker.release = true;
    REQUIRE_EVENTUALLY(log_.count == 20 && weft_stats_live(rt) == 0);
    /* 0 first, then 16 newest first; the look at the global queue that is due now and then may bring the last three in
     * between, each batch oldest first. */
    CHECK_EQ(fixture_stats(rt).global_fetches, fetches + 2);
    CHECK_EQ(log_.who[0], 0);
    CHECK_EQ(log_.who[1] == 16 || log_.who[1] == 17, true);
    CHECK_EQ(log_.count, 20);
    fixture_end(rt);
}

/* A task that spawns ten from its worker, and stays there until it is released. */
static atomic_bool spawned, stay;

static weft_poll spawn_ten_and_stay(weft_task *self, void *state) {
    atomic_store((atomic_bool *)state, true);
    while (stay)
        harness_nap();
    stay = true;
    spawn_ten(self, NULL);
    spawned = true;
    while (stay)
        harness_nap();
    return weft_done(self, 0, NULL);
}

/* Its own deque first: what the worker spawned runs before what came from outside meanwhile. */
API_TEST(deque_own_before_global, "W11", ON_DEQUE, .workers = {1}) {
    static atomic_bool entered;
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_go(rt, spawn_ten_and_stay, &entered, NULL), 0);
    REQUIRE_EVENTUALLY(spawned);
    REQUIRE_EQ(weft_go(rt, note, (void *)100, NULL), 0);
    stay = false;
    fixture_end(rt);
    REQUIRE_EQ(log_.count, 11);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(log_.who[i], 9 - i);
    CHECK_EQ(log_.who[10], 100);
}

/* Then the global queue, then a steal: the older half of the other's deque, oldest first. */
API_TEST(deque_global_before_steal, "W11 W16 W17 J14", ON_DEQUE, .workers = {2}) {
    static atomic_bool entered;
    struct blocker blocker = {0};
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_go(rt, fixture_block, &blocker, NULL), 0);
    REQUIRE_EVENTUALLY(blocker.entered);
    stay = true;
    REQUIRE_EQ(weft_go(rt, spawn_ten_and_stay, &entered, NULL), 0);
    REQUIRE_EVENTUALLY(entered);
    stay = false;
    REQUIRE_EVENTUALLY(spawned);
    REQUIRE_EQ(weft_go(rt, note, (void *)100, NULL), 0);
    blocker.release = true;
    REQUIRE_EVENTUALLY(log_.count >= 6);
    stay = false;
    fixture_end(rt);
    CHECK_EQ(log_.count, 11);
    CHECK_EQ(log_.who[0], 100);
    CHECK_EQ(log_.who[1], 0); /* the oldest; the other four of the half went to the thief's deque */
    for (int i = 2; i <= 5; i++)
        CHECK_EQ(log_.who[i], 6 - i);
}

static weft_poll spawn_thousands(weft_task *self, void *state) {
    (void)state;
    for (intptr_t i = 0; i < 5000; i++)
        REQUIRE_EQ(weft_go(NULL, note, (void *)i, NULL), 0);
    return weft_done(self, 0, NULL);
}

/* Far more than a deque holds, while others steal: each runs once. */
API_TEST(deque_overflow_beside_thieves, "W17 W18", ON_DEQUE, .workers = {1, 2, 4}) {
    static unsigned char seen[5000];
    weft_runtime *rt = fixture_begin(NULL);
    REQUIRE_EQ(weft_go(rt, spawn_thousands, NULL, NULL), 0);
    fixture_end(rt);
    CHECK_EQ(log_.count, 5000);
    for (unsigned i = 0; i < log_.count; i++)
        REQUIRE_EQ(seen[log_.who[i]]++, 0);
}

/* A worker that finds nothing spins, yields, and then sleeps: with work every now and then it is found soon again. */
API_TEST(deque_sleeps_after_search, "W19", ON_DEQUE, .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (intptr_t i = 0; i < 20; i++) {
        REQUIRE_EVENTUALLY(weft_stats_parked(rt) == 2);
        weft_stats before = fixture_stats(rt);
        REQUIRE_EQ(weft_go(rt, note, (void *)i, NULL), 0);
        REQUIRE_EVENTUALLY(fixture_stats(rt).completed == (uint64_t)i + 1);
        REQUIRE_EVENTUALLY(weft_stats_parked(rt) == 2 && fixture_stats(rt).parks > before.parks);
        CHECK_GT(fixture_stats(rt).searches, before.searches); /* it looked around before it slept */
    }
    fixture_end(rt);
}
