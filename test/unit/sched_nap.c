/* sched_nap.c - who was woken soon, and often, looks before it sleeps. */
#define wefti_futex_wait unit_nap_wait /* time passes only here, and the token comes when it is due */
#define wefti_clock unit_nap_clock
#include "sched/nap.h"
#undef wefti_futex_wait
#undef wefti_clock

#include "harness.h"

static struct wefti_park park;
static struct wefti_nap nap;
static int64_t now, due;
static unsigned waits;

static void pass(int64_t ns) {
    now += ns;
    if (now >= due) {
        due = INT64_MAX;
        wefti_park_wake(&park);
    }
}

int64_t unit_nap_clock(void) {
    pass(100);
    return now;
}

int unit_nap_wait(_Atomic uint32_t *word, uint32_t expect, int64_t until) {
    (void)expect;
    waits++;
    if (due > until) {
        now = until;
        return -ETIMEDOUT;
    }
    pass(due - now);
    CHECK_EQ(load_relaxed(word), WEFTI_PARK_NOTIFIED);
    return 0;
}

/* Slept until the token came after that long. */
static void sleep_for(int64_t ns, bool spare) {
    due = now + ns;
    CHECK(wefti_nap_or_sleep(&nap, &park, INT64_MAX, spare));
}

TEST(nap_after_short_sleeps, "W19") {
    for (unsigned i = 0; i < WEFTI_NAP_STREAK; i++)
        sleep_for(10000, true);
    CHECK_EQ(waits, WEFTI_NAP_STREAK);
    for (unsigned i = 0; i < 100; i++)
        sleep_for(10000, true); /* found while it looked: nobody called the system */
    CHECK_EQ(waits, WEFTI_NAP_STREAK);
}

TEST(nap_in_vain_begins_again, "W19") {
    for (unsigned i = 0; i < WEFTI_NAP_STREAK; i++)
        sleep_for(10000, true);
    waits = 0;
    int64_t before = now;
    sleep_for(10 * WEFTI_NAP, true); /* it looks, and sleeps the rest */
    CHECK_EQ(waits, 1);
    CHECK(now - before >= 10 * WEFTI_NAP);
    sleep_for(10000, true);
    CHECK_EQ(waits, 2);
    CHECK_EQ(nap.streak, 1);
}

TEST(nap_not_after_long_sleeps, "W19") {
    for (unsigned i = 0; i < 10; i++)
        sleep_for(2 * WEFTI_NAP_SHORT, true);
    CHECK_EQ(waits, 10);
    CHECK_EQ(nap.streak, 0);
}

TEST(nap_needs_a_cpu, "W19") {
    for (unsigned i = 0; i < 10; i++)
        sleep_for(10000, false);
    CHECK_EQ(waits, 10);
}

TEST(nap_ends_in_time, "W19") {
    nap.streak = WEFTI_NAP_STREAK;
    due = INT64_MAX;
    int64_t until = now + 5000;
    CHECK(!wefti_nap_or_sleep(&nap, &park, until, true));
    CHECK(now >= until && now < until + WEFTI_NAP / 2);
}
