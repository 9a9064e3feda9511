/* steal.c - work spreads over the workers, unless it must not. */
#include "fixture.h"

enum { TASKS = 400 };

static struct {
    atomic_uint by_thread[8]; /* tasks run by each worker */
    atomic_uint ran;
    pthread_t thread[8];
    pthread_mutex_t lock;
    unsigned threads;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_thread(void) {
    pthread_mutex_lock(&seen.lock);
    unsigned i = 0;
    while (i < seen.threads && !pthread_equal(seen.thread[i], pthread_self()))
        i++;
    REQUIRE_LT(i, 8);
    if (i == seen.threads)
        seen.thread[seen.threads++] = pthread_self();
    pthread_mutex_unlock(&seen.lock);
    atomic_fetch_add(&seen.by_thread[i], 1);
    atomic_fetch_add(&seen.ran, 1);
}

static weft_poll work(weft_task *self, void *state) {
    (void)state;
    for (int64_t until = harness_clock() + 100000; harness_clock() < until;)
        continue; /* 100 us */
    note_thread();
    return weft_done(self, 0, NULL);
}

/* One task makes all the others, on its own worker. */
static weft_poll produce(weft_task *self, void *state) {
    (void)state;
    for (int i = 0; i < TASKS; i++)
        REQUIRE_EQ(weft_go(NULL, work, NULL, NULL), 0);
    return weft_done(self, 0, NULL);
}

API_TEST(steal_spreads_skewed_load, "B1 W15", .sched = "ring deque fifo reactor", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    /* Who gets a core, and when, is the system's choice: on a busy one, give it several chances. */
    for (unsigned round = 1; round <= 20 && seen.threads < 2; round++) {
        REQUIRE_EQ(weft_go(rt, produce, NULL, NULL), 0);
        REQUIRE_EVENTUALLY(seen.ran == round * TASKS);
    }
    weft_stats stats = fixture_stats(rt);
    CHECK_GE(seen.threads, 2);
    if (!fixture_on("fifo") && !fixture_on("reactor")) {
        CHECK_GE(stats.steals + stats.global_fetches, 1); /* from each other, or from what overflowed */
        CHECK_GE(stats.stolen, stats.steals);
    }
    for (unsigned i = 0; i < seen.threads; i++) {
        printf("worker thread %u ran %u\n", i, seen.by_thread[i]);
        CHECK_GE(seen.by_thread[i], 1);
    }
    fixture_end(rt);
}

/* no_steal: what a worker has, it keeps. */
API_TEST(steal_forbidden, "B57", .sched = "ring deque", .workers = {2, 4}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.no_steal = true;
    config.park_timeout_ns = -1;
    weft_runtime *rt = fixture_begin(&config);
    REQUIRE_EQ(weft_go(rt, produce, NULL, NULL), 0);
    REQUIRE_EVENTUALLY(seen.ran == TASKS);
    CHECK_EQ(fixture_stats(rt).steals, 0);
    CHECK_EQ(fixture_stats(rt).stolen, 0);
    if (fixture_stats(rt).overflows == 0)
        CHECK_EQ(seen.threads, 1);
    fixture_end(rt);
}

/* Tasks behind a worker that is stuck in one poll are taken by the others: from its ring, and from its slot. */
struct stuck {
    struct blocker blocker;
    unsigned count;
    atomic_uint ran;
};

static weft_poll spawn_and_block(weft_task *self, void *state) {
    struct stuck *stuck = state;
    for (unsigned i = 0; i < stuck->count; i++)
        REQUIRE_EQ(weft_go(NULL, fixture_count, &stuck->ran, NULL), 0);
    return fixture_block(self, &stuck->blocker);
}

API_TEST(steal_from_stuck_worker, "B1", .sched = "ring fifo reactor", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    for (unsigned count = 1; count <= 40; count += 13) {
        struct stuck stuck = {.count = count};
        weft_task *task = fixture_go(rt, spawn_and_block, &stuck);
        REQUIRE_EVENTUALLY(stuck.ran == count); /* while the spawner is inside its poll */
        CHECK(!weft_task_is_done(task));
        stuck.blocker.release = true;
        fixture_finish(task);
    }
    fixture_end(rt);
}

/* On the deque the newest task is its owner's; all others are public at once. */
API_TEST(steal_from_stuck_worker_deque, "W16", .sched = "deque", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    for (unsigned count = 2; count <= 40; count += 13) {
        struct stuck stuck = {.count = count};
        weft_task *task = fixture_go(rt, spawn_and_block, &stuck);
        REQUIRE_EVENTUALLY(stuck.ran >= count - 1);
        stuck.blocker.release = true;
        fixture_finish(task);
        REQUIRE_EVENTUALLY(stuck.ran == count);
    }
    fixture_end(rt);
}

/* -- By a worker that is busy itself -------------------------------------------------------------------------- */

static struct {
    atomic_bool spawn, end;
    atomic_uint busy; /* tasks that have begun to keep a worker busy */
    struct stuck stuck;
} both;

static weft_poll block_then_spawn(weft_task *self, void *state) {
    (void)state;
    atomic_store(&both.stuck.blocker.entered, true);
    while (!atomic_load(&both.spawn))
        harness_nap();
    return spawn_and_block(self, &both.stuck);
}

static int yield_on(void *arg) {
    (void)arg;
    atomic_fetch_add(&both.busy, 1);
    while (!atomic_load(&both.end))
        weft_yield();
    return 0;
}

static int compute_on(void *arg) {
    (void)arg;
    atomic_fetch_add(&both.busy, 1);
    while (!atomic_load(&both.end))
        weft_checkpoint();
    return 0;
}

static void spin_until(int64_t until) {
    while (harness_clock() < until)
        continue;
}

/* state: ns that a poll takes. */
static weft_poll poll_on(weft_task *self, void *state) {
    atomic_fetch_add(&both.busy, 1);
    spin_until(harness_clock() + (intptr_t)state);
    return atomic_load(&both.end) ? weft_done(self, 0, NULL) : WEFT_YIELD;
}

/* One of two workers is stuck in a poll, with `count` tasks of its own; the other is busy with what is started here. */
static void expect_help(unsigned count, unsigned fibers, weft_fiber_fn fn, unsigned polls, intptr_t ns) {
    weft_runtime *rt = fixture_begin_patient();
    both.stuck.count = count;
    weft_task *task = fixture_go(rt, block_then_spawn, NULL);
    REQUIRE_EVENTUALLY(both.stuck.blocker.entered);
    for (unsigned i = 0; i < fibers; i++)
        REQUIRE_EQ(weft_fiber_go(rt, fn, NULL, NULL), 0);
    for (unsigned i = 0; i < polls; i++)
        REQUIRE_EQ(weft_go(rt, poll_on, (void *)ns, NULL), 0);
    REQUIRE_EVENTUALLY(both.busy >= fibers + polls);
    both.spawn = true;
    /* On the deque the newest task is its owner's. */
    REQUIRE_EVENTUALLY(both.stuck.ran >= count - fixture_on("deque"));
    CHECK(!weft_task_is_done(task));
    both.end = both.stuck.blocker.release = true;
    fixture_finish(task);
    fixture_end(rt);
    CHECK_EQ(both.stuck.ran, count);
}

#define ON_ALL .sched = "ring deque fifo reactor", .workers = {2}
API_TEST(steal_beside_yielding_fibers, "B46", ON_ALL) { expect_help(20, 4, yield_on, 0, 0); }
API_TEST(steal_beside_one_yielding_fiber, "B46", ON_ALL) { expect_help(20, 1, yield_on, 0, 0); }
API_TEST(steal_beside_computing_fibers, "B46", ON_ALL) { expect_help(20, 3, compute_on, 0, 0); }
API_TEST(steal_beside_yielding_polls, "B46", ON_ALL) { expect_help(20, 0, NULL, 3, 0); }
API_TEST(steal_beside_long_polls, "B46", ON_ALL) { expect_help(20, 0, NULL, 3, 2000000); }
/* The slot of the ring is taken as well. */
API_TEST(steal_slot_beside_yielding_fibers, "B46", .sched = "ring fifo reactor", .workers = {2}) {
    expect_help(1, 4, yield_on, 0, 0);
}
API_TEST(steal_slot_beside_yielding_polls, "B46", .sched = "ring fifo reactor", .workers = {2}) {
    expect_help(1, 0, NULL, 3, 0);
}

/* A task never runs on two workers at once, however often it is woken and by whom. */
static struct {
    atomic_uint inside[8];
    weft_waker waker[8];
    pthread_mutex_t lock;
    atomic_bool end;
    atomic_uint polls;
} alone = {.lock = PTHREAD_MUTEX_INITIALIZER};

static weft_poll be_alone(weft_task *self, void *state) {
    uintptr_t me = (uintptr_t)state;
    REQUIRE_EQ(atomic_fetch_add(&alone.inside[me], 1), 0);
    bool end = atomic_load(&alone.end);
    atomic_fetch_add(&alone.polls, 1);
    pthread_mutex_lock(&alone.lock);
    if (!alone.waker[me].target)
        alone.waker[me] = weft_waker_of(self);
    weft_waker other[3];
    for (int i = 0; i < 3; i++)
        other[i] = weft_waker_clone(alone.waker[(me + (unsigned)i) % 8]); /* itself and two others */
    pthread_mutex_unlock(&alone.lock);
    for (int i = 0; i < 3; i++)
        weft_waker_wake(other[i]);
    REQUIRE_EQ(atomic_fetch_sub(&alone.inside[me], 1), 1);
    return end ? weft_done(self, 0, NULL) : me % 2 ? WEFT_YIELD : WEFT_PENDING;
}

API_TEST(steal_never_two_at_once, "B15 B48", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    for (uintptr_t i = 0; i < 8; i++)
        REQUIRE_EQ(weft_go(rt, be_alone, (void *)i, NULL), 0);
    REQUIRE_EVENTUALLY(alone.polls > (fixture_is_slow() ? 2000 : 50000));
    alone.end = true;
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    for (int i = 0; i < 8; i++)
        weft_waker_drop(alone.waker[i]);
    fixture_end(rt);
}
