/* sched_idle.c - the bitmap of sleepers and the count of searchers. */
#include "harness.h"
#include "sched/idle.h"

static struct wefti_idle idle;

TEST(idle_lowest_first, "B42") {
    static const uint32_t workers[] = {1023, 64, 5, 700, 63, 0, 128};
    static const int expected[] = {0, 5, 63, 64, 128, 700, 1023};
    idle.workers = 1024;
    CHECK_EQ(wefti_idle_claim(&idle, false), -1);
    for (size_t i = 0; i < 7; i++)
        wefti_idle_announce(&idle, workers[i]);
    CHECK_EQ(wefti_idle_parked(&idle), 7);
    for (size_t i = 0; i < 7; i++) {
        CHECK(wefti_idle_has_parked(&idle));
        CHECK_EQ(wefti_idle_claim(&idle, false), expected[i]); /* and its bit is gone */
    }
    CHECK_EQ(wefti_idle_claim(&idle, false), -1);
    CHECK(!wefti_idle_has_parked(&idle));
}

TEST(idle_retract, "B42 B43") {
    idle.workers = 1024;
    for (uint32_t i = 0; i < 1024; i++) {
        wefti_idle_announce(&idle, i);
        CHECK_EQ(wefti_idle_parked(&idle), 1);
        CHECK(wefti_idle_retract(&idle, i)); /* nobody was faster */
        CHECK_EQ(wefti_idle_parked(&idle), 0);
        wefti_idle_announce(&idle, i);
        CHECK_EQ(wefti_idle_claim(&idle, false), i);
        CHECK(!wefti_idle_retract(&idle, i)); /* claimed: wait for the waker */
    }
}

static void announce_twice(void *arg) {
    wefti_idle_announce(&idle, (uint32_t)(uintptr_t)arg);
    wefti_idle_announce(&idle, (uint32_t)(uintptr_t)arg);
}

TEST(idle_announced_once, "B43") {
    idle.workers = 128;
    REQUIRE_ABORTS(announce_twice, (void *)70, "weft: broken invariant");
}

/* At most about half of the workers search. */
TEST(idle_search_cap, "B44") {
    for (uint32_t workers = 1; workers <= 64; workers++) {
        uint32_t searching = 0;
        idle.workers = workers;
        while (wefti_idle_try_search(&idle))
            searching++;
        CHECK_EQ(searching, (workers + 1) / 2); /* refused as soon as 2 * searching >= workers */
        CHECK_EQ(load_relaxed(&idle.searching), searching);
        while (searching)
            CHECK_EQ(wefti_idle_end_search(&idle), --searching == 0); /* the last is told that it was */
        CHECK_EQ(load_relaxed(&idle.searching), 0);
    }
}

static void end_search(void *arg) { wefti_idle_end_search(arg); }

TEST(idle_search_count_checked, "B43") {
    idle.workers = 4;
    REQUIRE_ABORTS(end_search, &idle, "found > 0");
    store_relaxed(&idle.searching, 1000);
    REQUIRE_ABORTS(end_search, &idle, "idle->workers");
}

/* -- Two wakers never get the same worker ------------------------------------------------------------------- */

#define WORKERS 200

static struct {
    _Atomic uint32_t asleep[WORKERS]; /* 1: may be claimed */
    _Atomic uint64_t claims;
    _Atomic unsigned announcing; /* announcers that are not done */
    unsigned each;
} race;

static void claim_or_announce(unsigned index, void *arg) {
    (void)arg;
    uint64_t random = harness_seed() + index;
    bool claimer = index < 2, last = false;
    while (claimer && !last) { /* as long as there are announcers, and once more */
        last = load_acquire(&race.announcing) == 0;
        int found = wefti_idle_claim(&idle, false);
        if (found >= 0) {
            REQUIRE_EQ(xchg_acq_rel(&race.asleep[found], 0), 1);
            add_relaxed(&race.claims, 1);
        }
    }
    for (unsigned i = 0; !claimer && i < race.each; i++) { /* each announcer owns every second worker */
        uint32_t me = (uint32_t)(harness_random(&random) % (WORKERS / 2)) * 2 + index % 2;
        if (load_acquire(&race.asleep[me]) == 0) {
            store_release(&race.asleep[me], 1);
            wefti_idle_announce(&idle, me);
        } else if (wefti_idle_retract(&idle, me)) {
            REQUIRE_EQ(xchg_acq_rel(&race.asleep[me], 0), 1);
        }
    }
    if (!claimer)
        sub_release(&race.announcing, 1);
}

TEST(idle_each_claimed_once, "B42") {
    idle.workers = WORKERS;
    race.each = harness_is_slow() ? 20000 : 200000;
    race.announcing = 2;
    harness_threads(4, claim_or_announce, NULL);
    uint32_t asleep = 0;
    for (int i = 0; i < WORKERS; i++)
        asleep += load_relaxed(&race.asleep[i]);
    CHECK_EQ(wefti_idle_parked(&idle), asleep); /* the number of sleepers is the number of bits */
    CHECK_GT(race.claims, 0);
}
