/* sched_park.c - one sleeper and its token. */
#define wefti_futex_wait unit_park_wait /* count what a park asks of the system */
#define wefti_futex_wake unit_park_wake
#include "sched/park.h"
#undef wefti_futex_wait
#undef wefti_futex_wake

#include "harness.h"

int wefti_futex_wait(_Atomic uint32_t *word, uint32_t expect, int64_t until);
int wefti_futex_wake(_Atomic uint32_t *word, int count);

static _Atomic unsigned waits, wakes;

int unit_park_wait(_Atomic uint32_t *word, uint32_t expect, int64_t until) {
    add_relaxed(&waits, 1);
    return wefti_futex_wait(word, expect, until);
}

int unit_park_wake(_Atomic uint32_t *word, int count) {
    add_relaxed(&wakes, 1);
    CHECK_EQ(count, 1);
    return wefti_futex_wake(word, count);
}

static struct wefti_park park;

TEST(park_words, "B35") {
    CHECK_EQ(WEFTI_UNPARKED, 0);
    CHECK_EQ(WEFTI_PARKED, 1);
    CHECK_EQ(WEFTI_PARK_NOTIFIED, 2);
}

TEST(park_keeps_a_wake, "B35") {
    wefti_park_wake(&park);
    CHECK_EQ(load_relaxed(&park.word), WEFTI_PARK_NOTIFIED);
    CHECK(wefti_park_sleep(&park, INT64_MAX)); /* at once */
    CHECK_EQ(waits, 0);
    CHECK_EQ(load_relaxed(&park.word), WEFTI_UNPARKED);
}

TEST(park_several_wakes_one_token, "B35") {
    for (int i = 0; i < 5; i++)
        wefti_park_wake(&park);
    CHECK(wefti_park_sleep(&park, INT64_MAX));
    CHECK(!wefti_park_sleep(&park, wefti_clock() + 1000000)); /* the second sleep sleeps */
    CHECK_EQ(waits, 1);
}

TEST(park_no_call_without_sleeper, "B36") {
    for (int i = 0; i < 5; i++)
        wefti_park_wake(&park);
    CHECK_EQ(wakes, 0);
    store_relaxed(&park.word, WEFTI_PARKED);
    wefti_park_wake(&park);
    CHECK_EQ(wakes, 1);
    wefti_park_wake(&park);
    CHECK_EQ(wakes, 1);
}

TEST(park_times_out, "B37") {
    int64_t before = wefti_clock();
    CHECK(!wefti_park_sleep(&park, before + 10000000));
    CHECK_GE(wefti_clock() - before, 10000000);
    CHECK_EQ(load_relaxed(&park.word), WEFTI_UNPARKED);
    CHECK(!wefti_park_sleep(&park, 0)); /* a time that is over */
}

static unsigned rounds;
static struct wefti_park reply;

/* Two threads wake each other in turn: one lost token and they hang. */
static void ping(unsigned index, void *arg) {
    (void)arg;
    for (unsigned i = 0; i < rounds; i++) {
        if (index == 0)
            wefti_park_wake(&reply);
        CHECK(wefti_park_sleep(index == 0 ? &park : &reply, INT64_MAX));
        if (index == 1)
            wefti_park_wake(&park);
    }
}

TEST(park_ping_pong, "B35 B36") {
    rounds = 5000;
    harness_threads(2, ping, NULL);
    CHECK_LE(wakes, 2 * rounds); /* one a token at most; of those, who had not yet asked the system has not waited */
}
