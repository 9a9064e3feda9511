/* fair.c - nobody starves: not behind tasks that never stop, not in the global queue, not in a worker's slot. */
#include "fixture.h"

static atomic_bool stop;

static weft_poll yield_on(weft_task *self, void *state) {
    (void)state;
    return atomic_load(&stop) ? weft_done(self, 0, NULL) : WEFT_YIELD;
}

static weft_poll wake_self(weft_task *self, void *state) {
    (void)state;
    if (atomic_load(&stop))
        return weft_done(self, 0, NULL);
    weft_waker_wake(weft_waker_of(self));
    return WEFT_PENDING; /* and is ready again at once */
}

static weft_poll respawn(weft_task *self, void *state) {
    if (!atomic_load(&stop))
        REQUIRE_EQ(weft_go(NULL, respawn, state, NULL), 0);
    return weft_done(self, 0, NULL);
}

struct pair {
    pthread_mutex_t lock;
    weft_waker waker[2];
};

static weft_poll ping_pong(weft_task *self, struct pair *pair, int me) {
    bool end = atomic_load(&stop);
    pthread_mutex_lock(&pair->lock);
    if (!pair->waker[me].target)
        pair->waker[me] = weft_waker_of(self);
    weft_waker other = weft_waker_clone(pair->waker[!me]);
    pthread_mutex_unlock(&pair->lock);
    weft_waker_wake(other);
    if (!end)
        return WEFT_PENDING;
    pthread_mutex_lock(&pair->lock);
    weft_waker mine = pair->waker[me];
    pair->waker[me].target = NULL;
    pthread_mutex_unlock(&pair->lock);
    weft_waker_drop(mine);
    return weft_done(self, 0, NULL);
}
static weft_poll ping(weft_task *self, void *state) { return ping_pong(self, state, 0); }
static weft_poll pong(weft_task *self, void *state) { return ping_pong(self, state, 1); }

struct turns {
    atomic_uint *done;
    unsigned taken;
};

/* Yields a hundred times, then counts. */
static weft_poll take_turns(weft_task *self, void *state) {
    struct turns *turns = state;
    return ++turns->taken < 100 ? WEFT_YIELD : fixture_count(self, turns->done);
}

struct mix {
    weft_poll_fn busy;
    unsigned count;
    atomic_uint done;
    struct pair pair;
};

/* Starts the busy tasks and, before and after them, tasks that want to get done: all in one worker's own queue. */
static weft_poll start_mix(weft_task *self, void *state) {
    struct mix *mix = state;
    struct turns turns = {&mix->done, 0};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = take_turns;
    spec.state = &turns;
    spec.state_size = sizeof turns;
    REQUIRE_EQ(weft_spawn(NULL, &spec, NULL), 0);
    for (unsigned i = 0; i < mix->count; i++)
        REQUIRE_EQ(weft_go(NULL, mix->busy, &mix->pair, NULL), 0);
    if (mix->busy == ping)
        REQUIRE_EQ(weft_go(NULL, pong, &mix->pair, NULL), 0);
    REQUIRE_EQ(weft_spawn(NULL, &spec, NULL), 0);
    return weft_done(self, 0, NULL);
}

/* Two tasks beside the busy ones, and one from outside, all get done. */
static void expect_progress(weft_poll_fn busy, unsigned count) {
    weft_runtime *rt = fixture_begin_patient();
    struct mix mix = {.busy = busy, .count = count, .pair = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    stop = false;
    REQUIRE_EQ(weft_go(rt, start_mix, &mix, NULL), 0);
    REQUIRE_EVENTUALLY(mix.done == 2);
    REQUIRE_EQ(weft_go(rt, fixture_count, &mix.done, NULL), 0);
    REQUIRE_EVENTUALLY(mix.done == 3);
    stop = true;
    fixture_end(rt);
}

API_TEST(fair_beside_yielders, "B46", .workers = {1, 2, 4}) { expect_progress(yield_on, 8); }
API_TEST(fair_beside_self_wakers, "B19 B46", .workers = {1, 2, 4}) { expect_progress(wake_self, 8); }
API_TEST(fair_beside_ping_pong, "B19 B20", .workers = {1, 2, 4}) { expect_progress(ping, 1); }
API_TEST(fair_beside_spawners, "B30", .workers = {1, 2, 4}) { expect_progress(respawn, 4); }

/* -- What comes from outside does not wait long ------------------------------------------------------------- */

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static weft_poll note_time(weft_task *self, void *state) {
    atomic_store((_Atomic int64_t *)state, harness_clock());
    return weft_done(self, 0, NULL);
}

/* All workers busy with short tasks of their own; the target is 1 ms, the bound is what a busy machine may add. */
API_TEST(fair_global_latency, "B30", .workers = {1, 2}) {
    enum { ROUNDS = 51 };
    weft_runtime *rt = fixture_begin_patient();
    int64_t took[ROUNDS];
    for (int i = 0; i < 16; i++)
        REQUIRE_EQ(weft_go(rt, i % 2 ? wake_self : yield_on, NULL, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        _Atomic int64_t ran = 0;
        int64_t before = harness_clock();
        REQUIRE_EQ(weft_go(rt, note_time, &ran, NULL), 0);
        REQUIRE_EVENTUALLY(ran != 0);
        took[i] = ran - before;
    }
    qsort(took, ROUNDS, sizeof *took, by_time);
    printf("median %lld us, worst %lld us\n", (long long)took[ROUNDS / 2] / 1000, (long long)took[ROUNDS - 1] / 1000);
    CHECK_LT(took[ROUNDS / 2], harness_is_slow() ? 100000000 : 10000000);
    stop = true;
    fixture_end(rt);
}

/* -- Older tasks do not wait long for newer ones ------------------------------------------------------------- */

static struct {
    atomic_uint polls, done;
    weft_waker waker[2];
} newer;

/* Two tasks that wake each other.  Each poll takes 1 ms. */
static weft_poll wake_other(weft_task *self, void *state) {
    intptr_t me = (intptr_t)state;
    for (int64_t until = harness_clock() + 1000000; harness_clock() < until;)
        continue;
    atomic_fetch_add(&newer.polls, 1);
    if (!newer.waker[me].target)
        newer.waker[me] = weft_waker_of(self);
    if (!newer.waker[!me].target)
        return WEFT_YIELD;
    weft_waker_wake_keep(newer.waker[!me]);
    return atomic_load(&stop) ? weft_done(self, 0, NULL) : WEFT_PENDING;
}

static weft_poll start_older(weft_task *self, void *state) {
    for (uintptr_t i = 0; i < (uintptr_t)state; i++)
        REQUIRE_EQ(weft_go(NULL, fixture_count, &newer.done, NULL), 0);
    for (intptr_t i = 0; i < 2; i++)
        REQUIRE_EQ(weft_go(NULL, wake_other, (void *)i, NULL), 0);
    return weft_done(self, 0, NULL);
}

/* One old task per tick of 128 polls would make 7680 polls. */
API_TEST(fair_beside_long_newer_tasks, "B46", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_go(rt, start_older, (void *)60, NULL), 0);
    REQUIRE_EVENTUALLY(newer.done == 60 || newer.polls > 600);
    CHECK_EQ(newer.done, 60);
    printf("the last of 60 after %u polls\n", newer.polls);
    stop = true;
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    for (int i = 0; i < 2; i++)
        weft_waker_drop(newer.waker[i]);
    fixture_end(rt);
}

/* -- The order on one worker of the ring ---------------------------------------------------------------------- */

static struct {
    int ran[16], count;
} order;

static weft_poll note_number(weft_task *self, void *state) {
    order.ran[order.count++] = (int)(intptr_t)state;
    return weft_done(self, 0, NULL);
}

static weft_poll spawn_four(weft_task *self, void *state) {
    (void)state;
    for (intptr_t i = 1; i <= 4; i++)
        REQUIRE_EQ(weft_go(NULL, note_number, (void *)i, NULL), 0);
    return weft_done(self, 0, NULL);
}

/* The newest first, from the slot; those it pushed out in the order they came. */
API_TEST(fair_newest_runs_first, "B17 B18", .sched = "ring", .workers = {1}) {
    static const int expected[] = {4, 1, 2, 3};
    weft_runtime *rt = fixture_begin(NULL);
    REQUIRE_EQ(weft_go(rt, spawn_four, NULL, NULL), 0);
    fixture_end(rt);
    CHECK_EQ(order.count, 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(order.ran[i], expected[i]);
}
