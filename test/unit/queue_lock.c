/* queue_lock.c - the futex mutex: exclusion, no system call without contention, sleepers are woken. */
#define wefti_futex_wait unit_lock_wait /* count what the lock asks of the system */
#define wefti_futex_wake unit_lock_wake
#include "queue/lock.h"
#undef wefti_futex_wait
#undef wefti_futex_wake

#include "harness.h"

int wefti_futex_wait(_Atomic uint32_t *word, uint32_t expect, int64_t until);
int wefti_futex_wake(_Atomic uint32_t *word, int count);

static _Atomic unsigned waits, wakes;

int unit_lock_wait(_Atomic uint32_t *word, uint32_t expect, int64_t until) {
    add_relaxed(&waits, 1);
    return wefti_futex_wait(word, expect, until);
}

int unit_lock_wake(_Atomic uint32_t *word, int count) {
    add_relaxed(&wakes, 1);
    return wefti_futex_wake(word, count);
}

static struct wefti_lock lock;

TEST(lock_uncontended, "B24") {
    for (int i = 0; i < 10; i++) {
        wefti_lock_take(&lock);
        CHECK_EQ(load_relaxed(&lock.word), 1);
        wefti_lock_give(&lock);
        CHECK_EQ(load_relaxed(&lock.word), 0);
    }
    CHECK_EQ(waits, 0);
    CHECK_EQ(wakes, 0);
}

static void give(void *arg) { wefti_lock_give(arg); }

TEST(lock_give_unheld, "") { REQUIRE_ABORTS(give, &lock, "expected found != 0, found 0x0"); }

static struct {
    uint64_t counter; /* plain: the lock's */
    unsigned each;
} shared;

static void count_up(unsigned index, void *arg) {
    (void)index, (void)arg;
    for (unsigned i = 0; i < shared.each; i++) {
        wefti_lock_take(&lock);
        shared.counter++;
        wefti_lock_give(&lock);
    }
}

TEST(lock_excludes, "B24") {
    shared.each = harness_is_slow() ? 20000 : 200000;
    harness_threads(4, count_up, NULL);
    CHECK_EQ(shared.counter, 4 * shared.each);
    CHECK_EQ(load_relaxed(&lock.word), 0);
}

/* A holder that stays inside makes the others sleep, not spin; each is woken. */
static void hold(unsigned index, void *arg) {
    _Atomic unsigned *held = arg;
    if (index == 0) {
        wefti_lock_take(&lock);
        store_relaxed(held, 1);
        REQUIRE_EVENTUALLY(load_relaxed(&waits) >= 3); /* all the others are asleep, or about to be */
        wefti_lock_give(&lock);
    } else {
        REQUIRE_EVENTUALLY(load_relaxed(held));
        wefti_lock_take(&lock);
        shared.counter++;
        wefti_lock_give(&lock);
    }
}

TEST(lock_wakes_sleepers, "B24") {
    _Atomic unsigned held = 0;
    harness_threads(4, hold, &held);
    CHECK_EQ(shared.counter, 3);
    CHECK_GE(wakes, 1);
    CHECK_EQ(load_relaxed(&lock.word), 0);
}
