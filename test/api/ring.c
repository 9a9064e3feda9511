/* ring.c - the ring scheduler, seen from outside: where a worker looks first, how much it takes, when it sleeps. */
#include "fixture.h"

#define ON_RING .sched = "ring"

static struct {
    pthread_mutex_t lock;
    int who[2048];
    uint64_t fetches[2048];
    atomic_uint count; /* entries that are complete */
} log_ = {.lock = PTHREAD_MUTEX_INITIALIZER};

static weft_stats sum(void) { return fixture_stats(weft_runtime_current()); }

/* Writes its number down, and how often the global queue has been fetched from by then. */
static weft_poll note(weft_task *self, void *state) {
    pthread_mutex_lock(&log_.lock);
    log_.who[log_.count] = (int)(intptr_t)state;
    log_.fetches[log_.count] = sum().global_fetches;
    log_.count++;
    pthread_mutex_unlock(&log_.lock);
    return weft_done(self, 0, NULL);
}

static void go_note(weft_runtime *rt, intptr_t number) { REQUIRE_EQ(weft_go(rt, note, (void *)number, NULL), 0); }

/* A task that spawns some from its worker, and stays there until it is released. */
struct spawner {
    struct blocker blocker;
    atomic_bool go, spawned;
    int first, count;
};

static weft_poll spawn_and_stay(weft_task *self, void *state) {
    struct spawner *spawner = state;
    atomic_store(&spawner->blocker.entered, true);
    while (!atomic_load(&spawner->go))
        harness_nap();
    for (int i = 0; i < spawner->count; i++)
        go_note(NULL, spawner->first + i);
    atomic_store(&spawner->spawned, true);
    while (!atomic_load(&spawner->blocker.release))
        harness_nap();
    return weft_done(self, 0, NULL);
}

/* The global batch, then the LIFO slot, then the ring, then the global queue. */
API_TEST(ring_looks_in_order, "B3 B5 B6 B10 B27", ON_RING, .workers = {1}) {
    static const int order[] = {1, 2, 3, 4, 5, 12, 10, 11, 20};
    struct blocker blocker = {0};
    struct spawner spawner = {.first = 10, .count = 3, .go = true};
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_go(rt, fixture_block, &blocker, NULL), 0);
    REQUIRE_EVENTUALLY(blocker.entered);
    /* One batch: the spawner and five more. */
    REQUIRE_EQ(weft_go(rt, spawn_and_stay, &spawner, NULL), 0);
    for (int i = 1; i <= 5; i++)
        go_note(rt, i);
    blocker.release = true;
    REQUIRE_EVENTUALLY(spawner.spawned); /* 12 is in the slot, 10 and 11 are in the ring */
    uint64_t fetches = fixture_stats(rt).global_fetches;
    go_note(rt, 20);
    spawner.blocker.release = true;
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    REQUIRE_EQ(log_.count, 9);
    for (int i = 0; i < 9; i++) {
        CHECK_EQ(log_.who[i], order[i]);
        CHECK_EQ(log_.fetches[i], fetches + (i == 8)); /* the batch is used up without another look */
    }
    fixture_end(rt);
}

/* Two workers are held, one with 39 tasks in its ring.  The other, once released, takes the global one first, then half of these. */
API_TEST(ring_steals_half_last, "B5 B12", ON_RING, .workers = {2}) {
    struct blocker blocker = {0};
    struct spawner spawner = {.first = 1, .count = 40};
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_go(rt, fixture_block, &blocker, NULL), 0);
    REQUIRE_EVENTUALLY(blocker.entered);
    REQUIRE_EQ(weft_go(rt, spawn_and_stay, &spawner, NULL), 0);
    REQUIRE_EVENTUALLY(spawner.blocker.entered);
    spawner.go = true;
    REQUIRE_EVENTUALLY(spawner.spawned);
    go_note(rt, 100);
    weft_stats before = fixture_stats(rt);
    blocker.release = true;
    REQUIRE_EVENTUALLY(log_.count >= 21);
    weft_stats after = fixture_stats(rt);
    CHECK_EQ(log_.who[0], 100);
    for (int i = 1; i <= 20; i++)
        CHECK_EQ(log_.who[i], i); /* the older half, in order */
    CHECK_GE(after.stolen - before.stolen, 20);
    spawner.blocker.release = true;
    REQUIRE_EVENTUALLY(log_.count == 41);
    fixture_end(rt);
}

/* Four workers are held, and `queued` tasks wait in the global queue.  Returns how many of them the one that is released takes first. */
static unsigned first_batch(unsigned queued) {
    struct blocker blockers[4] = {0};
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 4; i++) {
        REQUIRE_EQ(weft_go(rt, fixture_block, &blockers[i], NULL), 0);
        REQUIRE_EVENTUALLY(blockers[i].entered);
    }
    uint64_t before = fixture_stats(rt).global_fetches;
    log_.count = 0;
    for (unsigned i = 0; i < queued; i++)
        go_note(rt, (int)i);
    blockers[0].release = true;
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 3);
    REQUIRE_EQ(log_.count, queued);
    unsigned first = queued;
    for (unsigned i = 0; i < queued && first == queued; i++)
        if (log_.fetches[i] == before + 2) /* it begins the second batch, and they are queued in order */
            first = (unsigned)log_.who[i];
    for (int i = 1; i < 4; i++)
        blockers[i].release = true;
    fixture_end(rt);
    return first;
}

API_TEST(ring_takes_its_share, "B25 B26", ON_RING, .workers = {4}) {
    CHECK_EQ(first_batch(1000), 64); /* at most */
    CHECK_EQ(first_batch(40), 10); /* a fourth */
    CHECK_EQ(first_batch(8), 4); /* at least */
    CHECK_EQ(first_batch(3), 3); /* all there is */
}

/* Each leaves the next in the worker's slot and ends. */
static weft_poll chain(weft_task *self, void *state) {
    atomic_uint *left = state;
    if (atomic_fetch_sub(left, 1) > 1)
        REQUIRE_EQ(weft_go(NULL, chain, left, NULL), 0);
    return weft_done(self, 0, NULL);
}

API_TEST(ring_never_sleeps_on_its_slot, "B22", ON_RING, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    static atomic_uint left;
    for (unsigned links = 1; links <= 50; links++) {
        left = links;
        REQUIRE_EVENTUALLY(weft_stats_parked(rt) == weft_runtime_workers(rt));
        REQUIRE_EQ(weft_go(rt, chain, &left, NULL), 0);
        REQUIRE_EVENTUALLY(left == 0 && weft_stats_live(rt) == 0);
    }
    fixture_end(rt);
}

/* Running, searching, parked, and running again. */
API_TEST(ring_worker_lifecycle, "B31", ON_RING, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (unsigned i = 1; i <= 20; i++) {
        REQUIRE_EVENTUALLY(weft_stats_parked(rt) == weft_runtime_workers(rt));
        CHECK_EQ(weft_stats_searching(rt), 0);
        weft_stats before = fixture_stats(rt);
        go_note(rt, 0);
        REQUIRE_EVENTUALLY(fixture_stats(rt).polls == before.polls + 1); /* it ran */
        REQUIRE_EVENTUALLY(fixture_stats(rt).parks > before.parks && weft_stats_parked(rt) == weft_runtime_workers(rt));
        CHECK_GT(fixture_stats(rt).searches, before.searches); /* between the two it searched */
    }
    fixture_end(rt);
}
