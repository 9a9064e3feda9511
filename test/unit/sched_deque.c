/* sched_deque.c - the deque scheduler, one step at a time. */
#include "rig.h"

TEST(deque_newest_first, "W9 W12") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, 1);
    struct wefti_worker *w = rig_be(rt, 0);
    rig_go_range(rt, 0, 5);
    CHECK_EQ(wefti_deque_length(&w->deque), 5);
    CHECK_EQ(wefti_inject_length(&rt->inject), 0);
    rig_run(rt, 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(rig_log.who[i], 4 - i);
    rig_end(rt);
}

/* What comes from outside, or from a worker of another runtime, goes to the one global queue, in order. */
TEST(deque_outside_is_global, "W9 W13") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, 2), *other = rig_begin(&wefti_sched_deque, 1);
    rig_be(rt, -1);
    rig_go_range(rt, 0, 5);
    rig_be(other, 0);
    rig_go_range(rt, 5, 10);
    CHECK_EQ(wefti_inject_length(&rt->inject), 10);
    struct wefti_link *link = rt->inject.line.first;
    for (int i = 0; i < 10; i++, link = link->next)
        CHECK_EQ(rig_number(link), i);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(wefti_deque_length(&rt->worker[i].deque), 0);
    rig_run(rt, 0);
    rig_end(other);
    rig_end(rt);
}

/* Own deque, then the global queue, then others. */
TEST(deque_order_of_looking, "W11") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, 2);
    rig_be(rt, 1);
    rig_go_range(rt, 20, 22); /* the victim's: 20 is public */
    rig_be(rt, -1);
    rig_go(rt, rig_once, 10);
    struct wefti_worker *w = rig_be(rt, 0);
    rig_go_range(rt, 0, 2);
    for (int i = 0; i < 4; i++)
        REQUIRE(wefti_worker_turn(w));
    static const int expected[] = {1, 0, 10, 20};
    for (int i = 0; i < 4; i++)
        CHECK_EQ(rig_log.who[i], expected[i]);
    CHECK_EQ(load_own(&w->counters.steals), 1);
    wefti_worker_found(w);
    rig_run(rt, 1);
    rig_end(rt);
}

/* 20 queued: one runs, 16 move to the local deque, 3 are left. */
TEST(deque_transfer, "W14") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, 1);
    struct wefti_worker *w = rig_be(rt, -1);
    rig_go_range(rt, 0, 20);
    w = rig_be(rt, 0);
    REQUIRE(wefti_worker_turn(w));
    CHECK_EQ(rig_log.who[0], 0);
    CHECK_EQ(wefti_deque_length(&w->deque), 16);
    CHECK_EQ(wefti_inject_length(&rt->inject), 3);
    CHECK_EQ(load_own(&w->counters.global_fetches), 1);
    CHECK_EQ(rig_run(rt, 0), 19);
    rig_end(rt);
}

/* Short tasks: the newest of them stays with its owner. */
static struct weft_runtime *begin_short(unsigned workers) {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, workers);
    for (unsigned i = 0; i < workers; i++)
        rt->worker[i].average = 1000;
    return rt;
}

/* All but the newest task are public at once; a thief takes the older half of them. */
TEST(deque_steals_half, "W15 W16 W17 J14") {
    struct weft_runtime *rt = begin_short(2);
    struct wefti_worker *owner = rig_be(rt, 0);
    rig_go_range(rt, 0, 13); /* 0 to 11 public, 12 private */
    CHECK_EQ(wefti_deque_private(&owner->deque), 1);
    struct wefti_worker *thief = rig_be(rt, 1);
    REQUIRE(wefti_worker_turn(thief));
    CHECK_EQ(rig_log.who[0], 0); /* the oldest */
    CHECK_EQ(load_own(&thief->counters.stolen), 6);
    CHECK_EQ(wefti_deque_length(&thief->deque), 5);
    CHECK_EQ(wefti_deque_length(&owner->deque), 7);
    wefti_worker_found(thief);
    CHECK_EQ(rig_run(rt, 0) + rig_run(rt, 1), 12);
    rig_end(rt);
}

/* Every victim is found, in an order that is not always the same; never the thief itself. */
TEST(deque_random_victim, "W15") {
    unsigned first_seen = 0;
    for (int seed = 0; seed < 40; seed++) {
        struct weft_runtime *rt = begin_short(4);
        for (int victim = 1; victim < 4; victim++) {
            rig_be(rt, victim);
            rig_go_range(rt, victim * 10, victim * 10 + 2); /* one public */
        }
        struct wefti_worker *w = rig_be(rt, 0);
        wefti_random_init(&w->random, (uint64_t)seed);
        rig_log.length = 0;
        for (int i = 0; i < 3; i++)
            REQUIRE(wefti_worker_turn(w));
        unsigned seen = 0;
        for (int i = 0; i < 3; i++)
            seen |= 1u << rig_log.who[i] / 10;
        CHECK_EQ(seen, 0xe);
        first_seen |= 1u << rig_log.who[0] / 10;
        rig_go_range(rt, 1, 3); /* own tasks, of which one is public, are not stolen */
        CHECK_EQ(w->sched->steal(w, true), NULL);
        wefti_worker_found(w);
        for (int i = 0; i < 4; i++)
            rig_run(rt, i);
        rig_end(rt);
    }
    CHECK_EQ(first_seen, 0xe);
}

/* A full deque gives its older half to the global queue, in order; nothing is dropped. */
TEST(deque_overflow, "W18") {
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct weft_runtime *rt = rig_begin(&wefti_sched_deque, workers);
        struct wefti_worker *w = rig_be(rt, 0);
        rig_go_range(rt, 0, 257);
        CHECK_EQ(wefti_deque_length(&w->deque), 129);
        CHECK_EQ(wefti_inject_length(&rt->inject), 128);
        CHECK_EQ(load_own(&w->counters.overflows), 1);
        struct wefti_link *link = rt->inject.spill[rt->inject.oldest].chain.first;
        for (int i = 0; i < 128; i++, link = link->next)
            REQUIRE_EQ(rig_number(link), i);
        rig_log.length = 0;
        CHECK_EQ(rig_run(rt, 0), 257);
        unsigned char seen[257] = {0};
        for (unsigned i = 0; i < 257; i++)
            seen[rig_log.who[i]]++;
        for (unsigned i = 0; i < 257; i++)
            REQUIRE_EQ(seen[i], 1);
        rig_end(rt);
    }
}

/* Newest first must not starve what waits globally, nor a yielding task its neighbours. */
TEST(deque_yield_goes_behind, "B30 B46") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, 1);
    rig_be(rt, 0);
    rig_go(rt, rig_again, 1);
    rig_go(rt, rig_again, 2);
    rig_go(rt, rig_once, 3);
    rig_run(rt, 0);
    REQUIRE_EQ(rig_log.length, 201);
    CHECK_EQ(rig_log.who[0], 3);
    for (unsigned i = 1; i + 4 < 200; i += 4) { /* in any four polls each has its turns */
        unsigned ones = 0;
        for (unsigned k = 0; k < 4; k++)
            ones += rig_log.who[i + k] == 1;
        REQUIRE_EQ(ones, 2);
    }
    rig_end(rt);
}

static weft_poll respawn(weft_task *self, void *left) {
    rig_note(7);
    if (--*(int *)left)
        REQUIRE_EQ(weft_go(NULL, respawn, left, NULL), 0);
    return weft_done(self, 0, NULL);
}

/* A chain of spawns keeps the local deque busy for ever; the global queue still gets its turn. */
TEST(deque_global_not_starved, "B30") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, 1);
    struct wefti_worker *w = rig_be(rt, 0);
    int left = 400;
    REQUIRE_EQ(weft_go(rt, respawn, &left, NULL), 0);
    rig_be(rt, -1);
    rig_go(rt, rig_once, 1);
    rig_be(rt, 0);
    unsigned polls = 0;
    do
        REQUIRE(wefti_worker_turn(w));
    while (rig_log.who[polls++] != 1);
    CHECK_LE(polls, 20); /* the first interval: 1 ms at 50 us a poll */
    rig_run(rt, 0);
    rig_end(rt);
}

TEST(deque_unshared, "B57") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, 2);
    wefti_worker_share(&rt->worker[0], false); /* no_steal */
    wefti_worker_share(&rt->worker[1], false);
    rig_be(rt, 0);
    rig_go_range(rt, 0, 10);
    CHECK(!wefti_deque_has_public(&rt->worker[0].deque));
    CHECK_EQ(rig_run(rt, 1), 0);
    CHECK_EQ(rig_run(rt, 0), 10);
    rig_end(rt);
}

TEST(deque_has_work, "B40") {
    struct weft_runtime *rt = rig_begin(&wefti_sched_deque, 3);
    for (int owner = -1; owner < 3; owner++) {
        rig_be(rt, owner);
        rig_go_range(rt, 0, 2);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(rt->sched->has_work(&rt->worker[i]), i != owner);
        rig_run(rt, owner < 0 ? 0 : owner);
        for (int i = 0; i < 3; i++)
            CHECK(!rt->sched->has_work(&rt->worker[i]));
    }
    rig_end(rt);
}
