/* sched_ring.c - the ring scheduler, one step at a time: slot, batch, ring, global queue, stealing. */
#include <string.h>

#include "rig.h"

static void expect_log(const int *who, unsigned count) {
    REQUIRE_EQ(rig_log.length, count);
    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(rig_log.who[i], who[i]);
}
#define EXPECT_LOG(...) expect_log((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* One worker, with both sets of functions: as if there were others who might take something, and as one that is alone.  Tasks are short. */
#define EITHER_WAY(test)                                                                                               \
    for (int shared = 0; shared < 2; shared++) {                                                                       \
        struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 1);                                                     \
        wefti_worker_share(&rt->worker[0], shared);                                                                    \
        rt->worker[0].average = 10;                                                                                    \
        rig_log.length = 0;                                                                                            \
        test(rt, rig_be(rt, 0));                                                                                       \
        rig_end(rt);                                                                                                   \
    }

static void slot_first(struct weft_runtime *rt, struct wefti_worker *w) {
    rig_go_range(rt, 1, 5);
    CHECK_EQ(rig_number(load_own(&w->lifo.slot)), 4); /* the newest; the others went to the back, in order */
    CHECK_EQ(wefti_ring_length(&w->ring), 3);
    rig_run(rt, 0);
    EXPECT_LOG(4, 1, 2, 3);
    CHECK_EQ(load_own(&w->counters.lifo_hits), 1);
}
TEST(ring_slot_first, "B3 B17 B18") { EITHER_WAY(slot_first) }

/* Batch buffer, slot, ring, global queue. */
static void order_of_looking(struct weft_runtime *rt, struct wefti_worker *w) {
    rig_be(rt, -1);
    rig_go_range(rt, 1, 5); /* from outside */
    rig_be(rt, 0);
    REQUIRE(wefti_worker_turn(w)); /* one batch of four: 1 runs, the others are buffered */
    CHECK_EQ(load_own(&w->lifo.batch_left), 3);
    rig_go_range(rt, 20, 22); /* 21 in the slot, 20 in the ring */
    rig_be(rt, -1);
    rig_go_range(rt, 10, 12); /* global */
    uint64_t fetches = load_own(&w->counters.global_fetches);
    rig_be(rt, 0);
    for (int i = 0; i < 5; i++)
        REQUIRE(wefti_worker_turn(w));
    CHECK_EQ(load_own(&w->counters.global_fetches), fetches); /* the buffer needs no lock */
    CHECK_EQ(wefti_inject_length(&rt->inject), 2);
    rig_run(rt, 0);
    EXPECT_LOG(1, 2, 3, 4, 21, 20, 10, 11);
}
TEST(ring_order_of_looking, "B5 B6 B27") { EITHER_WAY(order_of_looking) }

/* The 257th push: 129 stay, the oldest 128 go to the global queue in order, in one batch. */
static void overflow(struct weft_runtime *rt, struct wefti_worker *w) {
    rig_go_range(rt, 0, 258); /* one in the slot, 257 pushed to the ring */
    CHECK_EQ(wefti_ring_length(&w->ring), 129);
    CHECK_EQ(wefti_inject_length(&rt->inject), 128);
    CHECK_EQ(load_own(&w->counters.overflows), 1);
    REQUIRE_EQ(rt->inject.pieces, 2);
    for (int p = 0; p < 2; p++) {
        struct wefti_chain *piece = &rt->inject.spill[rt->inject.oldest + (uint32_t)p].chain;
        CHECK_EQ(piece->count, 64);
        struct wefti_link *link = piece->first;
        for (int i = 0; i < 64; i++, link = link->next)
            REQUIRE_EQ(rig_number(link), 64 * p + i);
    }
    uint32_t real = wefti_ring_real_of(load_relaxed(&w->ring.head));
    for (int i = 0; i < 129; i++)
        REQUIRE_EQ(rig_number(load_relaxed(&w->ring.slot[(real + (uint32_t)i) % 256])), 128 + i);
    CHECK_EQ(rig_run(rt, 0), 258);
}
TEST(ring_overflow, "B9"){EITHER_WAY(overflow)}

/* While a thief copies, the new task goes to the global queue. */
TEST(ring_overflow_beside_thief, "B16") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    struct wefti_worker *w = rig_be(rt, 0);
    rig_go_range(rt, 0, 257); /* ring full, slot full */
    uint64_t head = load_relaxed(&w->ring.head);
    uint32_t real = wefti_ring_real_of(head);
    store_relaxed(&w->ring.head, wefti_ring_pack(real, real + 128)); /* a thief has claimed half */
    rig_go_range(rt, 257, 258); /* evicts 256 */
    CHECK_EQ(wefti_inject_length(&rt->inject), 1);
    CHECK_EQ(rig_number(rt->inject.spill[rt->inject.oldest].chain.first), 256);
    CHECK_EQ(rig_number(load_own(&w->lifo.slot)), 257);
    store_relaxed(&w->ring.head, head); /* the thief gives up: nothing is lost */
    CHECK_EQ(rig_run(rt, 0), 258);
    rig_end(rt);
}

/* -- The slot's cap ---------------------------------------------------------------------------------------- */

struct pair {
    weft_waker other[2]; /* [i]: wakes task i */
    int polls, limit;
};

static weft_poll ping_pong(weft_task *self, void *state, int me) {
    struct pair *pair = state;
    rig_note(100 + me);
    if (!pair->other[me].target)
        pair->other[me] = weft_waker_of(self);
    if (pair->polls++ >= pair->limit) {
        weft_waker_wake(pair->other[!me]);
        pair->other[!me] = (weft_waker){NULL};
        return weft_done(self, 0, NULL);
    }
    if (pair->other[!me].target)
        weft_waker_wake_keep(pair->other[!me]);
    return WEFT_PENDING;
}
static weft_poll ping(weft_task *self, void *state) { return ping_pong(self, state, 0); }
static weft_poll pong(weft_task *self, void *state) { return ping_pong(self, state, 1); }

/* Two tasks that wake each other live in the slot; the ring gets its turn after three of their polls, and they lose
 * nothing but that turn. */
static void slot_cap(struct weft_runtime *rt, struct wefti_worker *w) {
    struct pair pair = {.limit = 60};
    rig_go(rt, rig_again, 1);
    rig_go(rt, rig_again, 2);
    REQUIRE_EQ(weft_go(rt, ping, &pair, NULL), 0);
    REQUIRE_EQ(weft_go(rt, pong, &pair, NULL), 0);
    unsigned row = 0, longest = 0;
    for (uint64_t before = 0, hits; wefti_worker_turn(w); before = hits) {
        hits = load_own(&w->counters.lifo_hits);
        row = hits > before ? row + 1 : 0;
        longest = row > longest ? row : longest;
    }
    CHECK_EQ(longest, 3);
    CHECK_GT(pair.polls, 60); /* both went on to their end */
    unsigned others = 0;
    for (unsigned i = 0; i < rig_log.length; i++)
        others += rig_log.who[i] < 100;
    CHECK_EQ(others, 200);
    wefti_worker_found(w);
}
TEST(ring_slot_cap, "B19 B20") { EITHER_WAY(slot_cap) }

/* A task that wakes itself while it runs goes behind the others. */
static weft_poll wake_self(weft_task *self, void *state) {
    int *left = state;
    rig_note(7);
    weft_waker_wake(weft_waker_of(self));
    return --*left ? WEFT_PENDING : weft_done(self, 0, NULL);
}

static void self_waker_goes_behind(struct weft_runtime *rt, struct wefti_worker *w) {
    (void)w;
    int left = 3;
    rig_go_range(rt, 1, 4);
    REQUIRE_EQ(weft_go(rt, wake_self, &left, NULL), 0);
    rig_run(rt, 0);
    EXPECT_LOG(7, 1, 2, 3, 7, 7);
}
TEST(ring_self_waker_goes_behind, "B19 B46 B50 B51") { EITHER_WAY(self_waker_goes_behind) }

static void yield_goes_behind(struct weft_runtime *rt, struct wefti_worker *w) {
    (void)w;
    rig_go(rt, rig_again, 1);
    rig_go(rt, rig_again, 2);
    rig_run(rt, 0);
    REQUIRE_EQ(rig_log.length, 200);
    for (int i = 0; i < 200; i++)
        REQUIRE_EQ(rig_log.who[i], i % 2 ? 1 : 2); /* in turn */
}
TEST(ring_yield_goes_behind, "B46"){EITHER_WAY(yield_goes_behind)}

/* -- The global queue ------------------------------------------------------------------------------------- */

/* min(length / workers, 64), at least 4; one runs, 32 go into the buffer, the rest into the ring. */
TEST(ring_fetch_batches, "B25 B26 B27") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    struct wefti_worker *w = &rt->worker[0];
    w->average = 10; /* short tasks, which are worth buffering */
    w->global_left = 255;
    rig_be(rt, -1);
    rig_go_range(rt, 0, 100);
    rig_be(rt, 0);
    REQUIRE(wefti_worker_turn(w)); /* a share of 50 */
    CHECK_EQ(wefti_inject_length(&rt->inject), 50);
    CHECK_EQ(load_own(&w->lifo.batch_left), 32);
    CHECK_EQ(wefti_ring_length(&w->ring), 17);
    for (int i = 1; i < 50; i++) {
        REQUIRE(wefti_worker_turn(w));
        REQUIRE_EQ(wefti_inject_length(&rt->inject), 50);
    }
    CHECK_EQ(load_own(&w->counters.global_fetches), 1); /* one lock for fifty tasks */
    for (int i = 0; i < 50; i++)
        REQUIRE_EQ(rig_log.who[i], i);
    CHECK_EQ(rig_run(rt, 0), 50);
    rig_end(rt);
}

/* Nobody else could take them: all are kept. */
TEST(ring_fetch_alone, "B25 B27") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 1);
    struct wefti_worker *w = rig_be(rt, -1);
    rig_go_range(rt, 0, 100);
    w = rig_be(rt, 0);
    rig_go(rt, rig_once, 200); /* in the slot */
    w->global_left = 1;
    REQUIRE(wefti_worker_turn(w));
    CHECK_EQ(load_own(&w->lifo.batch_left), 63);
    CHECK_EQ(wefti_ring_length(&w->ring), 0);
    for (int i = 1; i < 65; i++)
        REQUIRE(wefti_worker_turn(w));
    CHECK_EQ(load_own(&w->counters.global_fetches), 1);
    for (int i = 0; i < 64; i++)
        REQUIRE_EQ(rig_log.who[i], i);
    CHECK_EQ(rig_log.who[64], 200);
    CHECK_EQ(rig_run(rt, 0), 36);
    rig_end(rt);
}

/* Who runs out gets what it has spilled last: a tree of tasks is walked in depth. */
static void spill_newest_first(struct weft_runtime *rt, struct wefti_worker *w) {
    w->global_left = 100000;
    rig_go_range(rt, 0, 600);
    CHECK_EQ(wefti_inject_length(&rt->inject), 384);
    CHECK_EQ(rig_run(rt, 0), 600);
    static const int from[] = {599, 384, 320, 256, 192, 128, 64, 0}, to[] = {600, 599, 384, 320, 256, 192, 128, 64};
    for (unsigned i = 0, at = 0; i < 8; i++)
        for (int number = from[i]; number < to[i]; number++)
            REQUIRE_EQ(rig_log.who[at++], number);
}
TEST(ring_spill_newest_first, "B9 B24") { EITHER_WAY(spill_newest_first) }

static unsigned turns[1000];
static bool enough;
static weft_poll yields(weft_task *self, void *number) {
    turns[(intptr_t)number]++;
    return enough ? weft_done(self, 0, NULL) : WEFT_YIELD;
}

/* Who does not run out comes to the oldest all the same. */
static void spill_is_not_starved(struct weft_runtime *rt, struct wefti_worker *w) {
    w->global_interval = w->global_left = 255;
    memset(turns, 0, sizeof turns);
    enough = false;
    for (int i = 0; i < 1000; i++)
        rig_go(rt, yields, i);
    for (int i = 0; i < 20000; i++)
        REQUIRE(wefti_worker_turn(w));
    for (int i = 0; i < 1000; i++)
        CHECK_GT(turns[i], 0);
    enough = true;
    rig_run(rt, 0);
}
TEST(ring_spill_is_not_starved, "B30 B46") { EITHER_WAY(spill_is_not_starved) }

/* Who runs out all the time, and spills more all the time, comes to the oldest once a millisecond. */
static void spill_oldest_in_time(struct weft_runtime *rt, struct wefti_worker *w) {
    w->global_interval = 8;
    w->global_left = 1000;
    rig_go_range(rt, 0, 600); /* 0 is the oldest that was spilled */
    for (int i = 0; i < 400; i++)
        REQUIRE(wefti_worker_turn(w));
    w->global_left = 1;
    w->spill_seen = w->measure_began;
    REQUIRE(wefti_worker_turn(w)); /* it ran out not long ago, and looked at the oldest just now */
    CHECK_GT(rig_log.who[rig_log.length - 1], 127);
    while (load_own(&w->lifo.batch_left))
        REQUIRE(wefti_worker_turn(w));
    w->global_left = 1;
    w->spill_seen = w->measure_began - (int64_t)WEFTI_GLOBAL_TARGET;
    REQUIRE(wefti_worker_turn(w));
    CHECK_EQ(rig_log.who[rig_log.length - 1], 0);
    CHECK_EQ(w->spill_seen, w->measure_began);
    rig_run(rt, 0);
}
TEST(ring_spill_oldest_in_time, "B30"){EITHER_WAY(spill_oldest_in_time)}

/* Buffered tasks are invisible to others, so long ones are not buffered. */
TEST(ring_fetch_long_tasks, "B1 B27") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    struct wefti_worker *w = rig_be(rt, -1);
    rig_go_range(rt, 0, 100);
    w = rig_be(rt, 0);
    w->average = 50000;
    REQUIRE(wefti_worker_turn(w));
    CHECK_EQ(load_own(&w->lifo.batch_left), 0);
    CHECK_EQ(wefti_ring_length(&w->ring), 49);
    rig_run(rt, 0);
    rig_end(rt);
}

static weft_poll yield_on(weft_task *self, void *stop) { return *(bool *)stop ? weft_done(self, 0, NULL) : WEFT_YIELD; }

/* However busy the local queue: after `interval` polls, at the latest, the global one is looked at first. */
TEST(ring_global_not_starved, "B28 B30") {
    for (uint32_t interval = 8; interval <= 255; interval += 13) {
        struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 1);
        struct wefti_worker *w = rig_be(rt, 0);
        bool stop = false;
        w->global_interval = w->global_left = interval;
        for (int i = 0; i < 10; i++)
            REQUIRE_EQ(weft_go(rt, yield_on, &stop, NULL), 0);
        rig_log.length = 0;
        for (uint32_t i = 0; i < interval / 3; i++) /* at any point of the interval */
            REQUIRE(wefti_worker_turn(w));
        w->global_interval = interval; /* whatever a maintenance pass has made of it */
        rig_be(rt, -1);
        rig_go(rt, rig_once, 1);
        rig_be(rt, 0);
        uint32_t polls = 0;
        while (rig_log.length == 0 && polls <= interval) {
            REQUIRE(wefti_worker_turn(w));
            polls++;
        }
        CHECK_EQ(rig_log.length, 1);
        CHECK_LE(polls, interval);
        stop = true;
        rig_run(rt, 0);
        rig_end(rt);
    }
}

static unsigned own_polls;
static weft_poll count_on(weft_task *self, void *stop) {
    own_polls++;
    return yield_on(self, stop);
}
static weft_poll end_at_once(weft_task *self, void *unused) {
    (void)unused;
    return weft_done(self, 0, NULL);
}

/* However much comes from outside, and whatever the interval: between two batches the worker's own tasks have theirs. */
TEST(ring_own_not_starved, "B27 B28 B30") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 1);
    struct wefti_worker *w = rig_be(rt, 0);
    for (uint32_t interval = 8; interval <= 255; interval++) {
        bool stop = false;
        unsigned none = 0, some = 0;
        w->global_left = interval;
        REQUIRE_EQ(weft_go(rt, count_on, &stop, NULL), 0);
        rig_be(rt, -1);
        for (int i = 0; i < 1000; i++)
            REQUIRE_EQ(weft_go(rt, end_at_once, NULL, NULL), 0);
        rig_be(rt, 0);
        while (wefti_inject_length(&rt->inject) > 100) {
            unsigned before = own_polls;
            w->global_interval = interval; /* whatever a maintenance pass has made of it */
            REQUIRE(wefti_worker_turn(w));
            some = own_polls > before ? some + 1 : 0;
            none = own_polls > before ? 0 : none + 1;
            REQUIRE_LE(none, 64);
            REQUIRE_LT(some, interval);
        }
        stop = true;
        rig_run(rt, 0);
    }
    rig_end(rt);
}

/* -- Stealing --------------------------------------------------------------------------------------------- */

TEST(ring_steals_half, "B1 B12") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    rig_be(rt, 0);
    rig_go_range(rt, 0, 12); /* 11 in the ring, 11 in the slot */
    struct wefti_worker *thief = rig_be(rt, 1);
    REQUIRE(wefti_worker_turn(thief));
    CHECK_EQ(load_own(&thief->counters.steals), 1);
    CHECK_EQ(load_own(&thief->counters.stolen), 6);
    CHECK_EQ(wefti_ring_length(&thief->ring), 5);
    CHECK_EQ(wefti_ring_length(&rt->worker[0].ring), 5);
    CHECK_EQ(rig_number(load_relaxed(&rt->worker[0].lifo.slot)), 11); /* not in the ordinary passes */
    EXPECT_LOG(0);
    CHECK_EQ(rig_run(rt, 1) + rig_run(rt, 0), 11);
    rig_end(rt);
}

TEST(ring_never_steals_from_itself, "B12 W15") {
    for (uint32_t workers = 1; workers <= 4; workers++) {
        struct weft_runtime *rt = rig_begin(&wefti_sched_ring, workers);
        struct wefti_worker *w = rig_be(rt, 0);
        rig_go_range(rt, 0, 10);
        for (int i = 0; i < 100; i++)
            REQUIRE_EQ(wefti_sched_ring.steal(w, i % 16 == 15), NULL);
        CHECK_EQ(rig_run(rt, 0), 10);
        rig_end(rt);
    }
}

TEST(ring_steals_from_all, "B1 W15") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 8);
    unsigned seen = 0;
    for (int victim = 1; victim < 8; victim++) {
        rig_be(rt, victim);
        rig_go_range(rt, victim * 10, victim * 10 + 2); /* one in the ring */
    }
    struct wefti_worker *w = rig_be(rt, 0);
    for (unsigned i = 0; i < 7; i++) {
        REQUIRE(wefti_worker_turn(w));
        seen |= 1u << rig_log.who[i] / 10;
    }
    wefti_worker_found(w);
    CHECK_EQ(seen, 0xfe);
    for (int i = 0; i < 8; i++)
        rig_run(rt, i);
    rig_end(rt);
}

static void expect_stolen(struct wefti_worker *thief, struct weft_task *task, int number) {
    REQUIRE(task);
    CHECK_EQ(rig_number(&task->link), number);
    thief->sched->submit(thief, task, WEFTI_SUBMIT_AGAIN); /* to be run with the others */
}

/* Decision 10: a few that are young stay with their owner while he gets to them. */
TEST(ring_leaves_young_alone, "") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    struct wefti_worker *owner = rig_be(rt, 0), *thief = &rt->worker[1];
    rig_go_range(rt, 0, 4); /* three in the ring */
    rig_be(rt, 1);
    for (int look = 0; look < 20; look++) {
        REQUIRE_EQ(wefti_sched_ring.steal(thief, false), NULL);
        wefti_count(&owner->counters.polls, 1);
    }
    REQUIRE_EQ(wefti_sched_ring.steal(thief, false), NULL);
    expect_stolen(thief, wefti_sched_ring.steal(thief, false), 0); /* he has stood still since */
    CHECK_EQ(load_own(&thief->counters.stolen), 2);
    CHECK_EQ(rig_run(rt, 1) + rig_run(rt, 0), 4);
    rig_end(rt);
}

/* ... but not before a thief goes to sleep, nor when they are many. */
TEST(ring_takes_young_at_last, "B1") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    struct wefti_worker *thief = &rt->worker[1];
    rig_be(rt, 0);
    rig_go_range(rt, 0, 2);
    rig_be(rt, 1);
    expect_stolen(thief, wefti_sched_ring.steal(thief, true), 0);
    rig_be(rt, 0);
    rig_go_range(rt, 2, 8); /* one more than a few, with the one that was in the slot */
    rig_be(rt, 1);
    expect_stolen(thief, wefti_sched_ring.steal(thief, false), 1);
    CHECK_EQ(rig_run(rt, 1) + rig_run(rt, 0), 8);
    rig_end(rt);
}

/* A worker that is stuck in one poll does not keep the task in its slot from the others. */
TEST(ring_steals_old_slot, "B1") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    if (!rt->lifo_stealing)
        SKIP("no membarrier here");
    struct wefti_worker *w = rig_be(rt, 0);
    rig_go(rt, rig_once, 5); /* in the slot; its owner does not get to it */
    rig_be(rt, 1);
    bool ran = false;
    for (int i = 0; i < 20 && !ran; i++)
        ran = wefti_worker_turn(&rt->worker[1]); /* suspicion in one search, theft in the same or a later one */
    EXPECT_LOG(5);
    CHECK_EQ(rig_log.worker[0], 1);
    CHECK_EQ(load_own(&w->lifo.slot), NULL);
    wefti_worker_found(&rt->worker[1]);
    rig_end(rt);
}

/* Whichever way it comes to its ring, the owner leaves what a thief is copying there. */
TEST(ring_pops_beside_thief, "B10 B15 B20") {
    for (int way = 0; way < 3; way++) { /* its slot is empty; it has had its turns; it is the global queue's turn */
        struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
        struct wefti_worker *w = rig_be(rt, 0);
        rig_go_range(rt, 0, 6); /* 0 to 4 in the ring, 5 in the slot */
        if (way != 1)
            REQUIRE(wefti_worker_turn(w));
        store_relaxed(&w->ring.head, wefti_ring_pack(0, 1)); /* a thief has claimed one */
        w->lifo_polls = WEFTI_LIFO_MAX;
        w->global_left = way == 2 ? 1 : 100;
        REQUIRE(wefti_worker_turn(w));
        CHECK_EQ(rig_log.who[rig_log.length - 1], 1);
        CHECK_EQ(load_own(&w->ring.head), wefti_ring_pack(0, 2));
        REQUIRE(wefti_ring_push(&rt->worker[1].ring, load_own(&w->ring.slot[0])));
        store_relaxed(&w->ring.head, wefti_ring_pack(2, 2)); /* it has it, and lets go */
        CHECK_EQ(rig_run(rt, 0) + rig_run(rt, 1), way == 1 ? 5 : 4);
        rig_end(rt);
    }
}

TEST(ring_unshared_never_steals, "B57") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    wefti_worker_share(&rt->worker[0], false); /* no_steal */
    wefti_worker_share(&rt->worker[1], false);
    rig_be(rt, 0);
    rig_go_range(rt, 0, 10);
    CHECK_EQ(rig_run(rt, 1), 0);
    CHECK_EQ(rig_run(rt, 0), 10);
    rig_end(rt);
}

/* -- Sleeping --------------------------------------------------------------------------------------------- */

TEST(ring_flush, "B22 B23") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    struct wefti_worker *w = rig_be(rt, -1);
    rt->worker[0].average = 10;
    rig_go_range(rt, 0, 20);
    w = rig_be(rt, 0);
    REQUIRE(wefti_worker_turn(w)); /* a batch of ten: nine buffered */
    rig_go(rt, rig_once, 99); /* and one in the slot */
    w->sched->flush(w);
    CHECK_EQ(load_own(&w->lifo.slot), NULL);
    CHECK_EQ(load_own(&w->lifo.batch_left), 0);
    CHECK_EQ(wefti_ring_length(&w->ring), 10);
    CHECK_EQ(rig_run(rt, 1), 20); /* now another worker can have them all */
    rig_end(rt);
}

/* With a task in its slot a worker does not fall asleep on it: it is in the ring before the worker is announced. */
TEST(ring_announce_flushes, "B22 B23") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    struct wefti_worker *w = rig_be(rt, 0);
    rig_go(rt, rig_once, 1);
    wefti_worker_announce(w);
    CHECK_EQ(load_own(&w->lifo.slot), NULL);
    CHECK_EQ(wefti_ring_length(&w->ring), 1);
    CHECK(rt->sched->has_work(&rt->worker[1]));
    CHECK(w->parking); /* set before, cleared on the way back */
    wefti_worker_return(w);
    CHECK(!w->parking);
    CHECK_EQ(rig_run(rt, 0), 1);
    rig_end(rt);
}

/* Between announcing and being back a worker's own queues are closed: what it schedules goes to the global one. */
TEST(ring_parking_schedules_globally, "B21") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
    struct wefti_worker *w = rig_be(rt, 0);
    weft_task *task = NULL;
    w->parking = true;
    REQUIRE_EQ(weft_go(rt, rig_once, (void *)1, &task), 0);
    CHECK_EQ(wefti_inject_length(&rt->inject), 1);
    CHECK_EQ(load_own(&w->lifo.slot), NULL);
    CHECK_EQ(wefti_ring_length(&w->ring), 0);
    w->parking = false;
    weft_task_drop(task);
    CHECK_EQ(rig_run(rt, 0), 1);
    rig_end(rt);
}

TEST(ring_has_work, "B40") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 3);
    for (int owner = -1; owner < 3; owner++) {
        struct wefti_worker *w = rig_be(rt, owner);
        rig_go_range(rt, 0, 2);
        if (w)
            w->sched->flush(w);
        for (int i = 0; i < 3; i++) /* seen by everyone but, on its own ring, the owner (who would have run it) */
            CHECK_EQ(rt->sched->has_work(&rt->worker[i]), i != owner);
        rig_run(rt, owner < 0 ? 0 : owner);
        for (int i = 0; i < 3; i++)
            CHECK(!rt->sched->has_work(&rt->worker[i]));
    }
    rig_end(rt);
}
