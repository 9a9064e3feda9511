/* queue_deque.c - the split deque: newest first for the owner, oldest half for thieves, tags against A-B-A. */
#include "harness.h"
#include "queue/deque.h"
#include "queue/lock.h"

#include <stdlib.h>

static struct wefti_deque deque;
static char item[4096]; /* items are addresses in here */

static intmax_t index_of(const void *found) { return found ? (const char *)found - item : -1; }

static void start_at(struct wefti_deque *d, uint32_t tag, uint16_t count) {
    store_relaxed(&d->shared, wefti_deque_pack(tag, count, count));
    d->bottom = d->split_own = d->top_seen = count;
}

static void push_range(struct wefti_deque *d, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        REQUIRE(wefti_deque_push(d, &item[i]));
}

/* Pops `from` down to `to`, and then nothing. */
static void expect_down(struct wefti_deque *d, int from, int to) {
    for (int i = from; i >= to; i--)
        REQUIRE_EQ(index_of(wefti_deque_pop(d, WEFTI_DEQUE_CAP)), i);
    REQUIRE_EQ(wefti_deque_pop(d, WEFTI_DEQUE_CAP), NULL);
}

TEST(deque_words, "W12 J14") {
    CHECK_EQ(WEFTI_DEQUE_CAP, 256);
    uint64_t shared = wefti_deque_pack(0xdeadbeef, 0xcafe, 0xf00d);
    CHECK_EQ(wefti_deque_tag_of(shared), 0xdeadbeef);
    CHECK_EQ(wefti_deque_split_of(shared), 0xcafe);
    CHECK_EQ(wefti_deque_top_of(shared), 0xf00d);
    CHECK_GE(offsetof(struct wefti_deque, bottom) - offsetof(struct wefti_deque, shared), 64);
}

TEST(deque_owner_lifo, "W12 W16 J14") {
    CHECK_EQ(wefti_deque_pop(&deque, WEFTI_DEQUE_CAP), NULL);
    push_range(&deque, 0, 3); /* A, B, C */
    CHECK_EQ(wefti_deque_length(&deque), 3);
    uint64_t shared = load_relaxed(&deque.shared);
    expect_down(&deque, 2, 0);                     /* C, B, A */
    CHECK_EQ(load_relaxed(&deque.shared), shared); /* no atomic write for private items */
}

TEST(deque_lifo_through_public, "W12 J14") {
    for (uint32_t n = 1; n <= 256; n++)
        for (uint32_t public = 0; public <= n; public += 1 + n / 8) {
            push_range(&deque, 0, n);
            wefti_deque_publish(&deque, public);
            REQUIRE_EQ(wefti_deque_private(&deque), n - public);
            REQUIRE_EQ(wefti_deque_has_public(&deque), public != 0);
            REQUIRE_EQ(wefti_deque_length(&deque), n);
            expect_down(&deque, (int)n - 1, 0);
        }
}

/* max(1, n/2) of the public items, oldest first; private ones are out of reach. */
TEST(deque_steal_half, "W16 W17 J14") {
    void *out[256];
    for (uint32_t n = 0; n <= 256; n++) {
        uint32_t expected = n == 0 ? 0 : n == 1 ? 1 : n / 2;
        start_at(&deque, 5, (uint16_t)(n * 251));
        push_range(&deque, 0, n);
        REQUIRE_EQ(wefti_deque_steal(&deque, out, 256), 0);
        wefti_deque_publish(&deque, n);
        REQUIRE_EQ(wefti_deque_steal(&deque, out, 256), expected);
        for (uint32_t i = 0; i < expected; i++)
            REQUIRE_EQ(index_of(out[i]), i);
        expect_down(&deque, (int)n - 1, (int)expected);
    }
}

TEST(deque_steal_room, "W17") {
    void *out[1];
    push_range(&deque, 0, 100);
    wefti_deque_publish(&deque, 100);
    for (int i = 0; i < 100; i++) {
        REQUIRE_EQ(wefti_deque_steal(&deque, out, 1), 1);
        REQUIRE_EQ(index_of(out[0]), i);
    }
    CHECK_EQ(wefti_deque_steal(&deque, out, 1), 0);
    CHECK_EQ(wefti_deque_pop(&deque, WEFTI_DEQUE_CAP), NULL);
}

/* The owner takes back half of the public part at a time, so that thieves are not left with nothing. */
TEST(deque_take_back, "W16") {
    push_range(&deque, 0, 9);
    wefti_deque_publish(&deque, 9);
    CHECK_EQ(index_of(wefti_deque_pop(&deque, WEFTI_DEQUE_CAP)), 8);
    uint64_t shared = load_relaxed(&deque.shared);
    CHECK_EQ((uint16_t)(wefti_deque_split_of(shared) - wefti_deque_top_of(shared)), 4);
    CHECK_EQ(wefti_deque_private(&deque), 4);
    expect_down(&deque, 7, 0);
    CHECK(!wefti_deque_take_back(&deque, WEFTI_DEQUE_CAP));
}

/* A plan that a thief made before the owner popped, pushed and published again must fail, although top and split
 * look the same: items 1 and 0 would run twice and the new ones would be lost. */
TEST(deque_stale_plan_fails, "W16 W17") {
    push_range(&deque, 0, 4);
    wefti_deque_publish(&deque, 4);
    uint64_t plan = load_relaxed(&deque.shared);
    for (int i = 3; i >= 1; i--)
        CHECK_EQ(index_of(wefti_deque_pop(&deque, WEFTI_DEQUE_CAP)), i);
    push_range(&deque, 11, 14);
    wefti_deque_publish(&deque, wefti_deque_private(&deque));
    uint64_t now = load_relaxed(&deque.shared);
    CHECK_EQ(wefti_deque_split_of(now), wefti_deque_split_of(plan));
    CHECK_EQ(wefti_deque_top_of(now), wefti_deque_top_of(plan));
    CHECK_NE(wefti_deque_tag_of(now), wefti_deque_tag_of(plan));
    uint64_t expect = plan;
    CHECK(!cas_release(&deque.shared, &expect, wefti_deque_pack(0, 0, 2))); /* what the thief would do */
    void *out[2];
    CHECK_EQ(wefti_deque_steal(&deque, out, 2), 2);
    CHECK_EQ(index_of(out[0]), 0);
    CHECK_EQ(index_of(out[1]), 11);
    expect_down(&deque, 13, 12);
}

TEST(deque_full, "W18") {
    void *out[128];
    push_range(&deque, 0, 256);
    CHECK(!wefti_deque_push(&deque, &item[256]));
    CHECK_EQ(wefti_deque_length(&deque), 256);
    wefti_deque_publish(&deque, 255);
    CHECK(!wefti_deque_push(&deque, &item[256]));
    CHECK_EQ(wefti_deque_steal(&deque, out, 128), 127);
    push_range(&deque, 256, 256 + 127); /* as many as were stolen */
    CHECK(!wefti_deque_push(&deque, &item[500]));
    expect_down(&deque, 256 + 126, 127);
}

/* Overflow: the oldest come out in order, whether public, private or both. */
TEST(deque_take_oldest, "W18 J14") {
    void *out[128];
    uint32_t taken;
    for (uint32_t public = 0; public <= 256; public += 32) {
        start_at(&deque, UINT32_MAX, (uint16_t)(0u - 100));
        push_range(&deque, 0, 256);
        wefti_deque_publish(&deque, public);
        wefti_deque_take_oldest(&deque, 128, out, &taken);
        REQUIRE_EQ(taken, 128);
        for (uint32_t i = 0; i < 128; i++)
            REQUIRE_EQ(index_of(out[i]), i);
        REQUIRE_EQ(wefti_deque_length(&deque), 128);
        REQUIRE_EQ(wefti_deque_has_public(&deque), public > 128);
        push_range(&deque, 256, 384);
        expect_down(&deque, 383, 128);
    }
}

/* Thieves have been there since the owner saw that it was full: there may be less than half left. */
TEST(deque_take_oldest_of_few, "W18") {
    void *out[128], *loot[256];
    uint32_t taken;
    push_range(&deque, 0, 256);
    wefti_deque_publish(&deque, 256);
    CHECK_EQ(wefti_deque_steal(&deque, loot, 256), 128);
    CHECK_EQ(wefti_deque_steal(&deque, loot, 256), 64);
    wefti_deque_take_oldest(&deque, 128, out, &taken);
    CHECK_EQ(taken, 64);
    CHECK_EQ(index_of(out[0]), 192);
    CHECK_EQ(index_of(out[63]), 255);
    CHECK_EQ(wefti_deque_length(&deque), 0);
    push_range(&deque, 0, 256);
    expect_down(&deque, 255, 0);
}

/* Counts have 16 bits: go round several times, in every phase. */
TEST(deque_wraps, "W17 W18") {
    void *out[128];
    uint32_t taken = 0, next = 0;
    start_at(&deque, UINT32_MAX - 2, 0xff00);
    for (uint32_t round = 0; round < 2000; round++) {
        push_range(&deque, 0, 200);
        wefti_deque_publish(&deque, 150);
        REQUIRE_EQ(wefti_deque_steal(&deque, out, 128), 75);
        REQUIRE_EQ(index_of(out[74]), 74);
        wefti_deque_take_oldest(&deque, 25, out, &taken);
        REQUIRE_EQ(index_of(out[24]), 99);
        expect_down(&deque, 199, 100);
        next += 200;
    }
    CHECK_GT(next, 3 * 65536);
}

/* -- All at once ------------------------------------------------------------------------------------------ */

struct crowd {
    struct wefti_deque deque;
    _Atomic unsigned char *seen;
    uint32_t count;
    _Atomic uint32_t done;
};

static void see(struct crowd *crowd, void *found) {
    REQUIRE_EQ(add_relaxed(&crowd->seen[(uintptr_t)found - 1], 1), 0);
    add_relaxed(&crowd->done, 1);
}

static void crowd_owner(struct crowd *crowd, uint64_t *random) {
    void *out[128], *found;
    uint32_t next = 0, taken;
    while (next < crowd->count) {
        for (uint64_t burst = 1 + harness_random(random) % 300; burst && next < crowd->count; burst--) {
            while (!wefti_deque_push(&crowd->deque, (void *)(uintptr_t)(next + 1))) {
                wefti_deque_take_oldest(&crowd->deque, 128, out, &taken);
                for (uint32_t i = 0; i < taken; i++)
                    see(crowd, out[i]);
            }
            next++;
            uint32_t own = wefti_deque_private(&crowd->deque);
            if (own > 1 && harness_random(random) % 4 == 0)
                wefti_deque_publish(&crowd->deque, 1 + (uint32_t)(harness_random(random) % own));
        }
        for (uint64_t pops = harness_random(random) % 300;
             pops && (found = wefti_deque_pop(&crowd->deque, WEFTI_DEQUE_CAP)); pops--)
            see(crowd, found);
    }
    while ((found = wefti_deque_pop(&crowd->deque, WEFTI_DEQUE_CAP)))
        see(crowd, found);
}

static void crowd_member(unsigned me, void *arg) {
    struct crowd *crowd = arg;
    uint64_t random = harness_seed() + me;
    void *out[128];
    if (me == 0) {
        crowd_owner(crowd, &random);
        return;
    }
    while (load_relaxed(&crowd->done) < crowd->count) {
        uint32_t room = harness_random(&random) % 3 ? 128 : 1;
        uint32_t count = wefti_deque_steal(&crowd->deque, out, room);
        for (uint32_t i = 0; i < count; i++)
            see(crowd, out[i]);
        if (!count)
            wefti_relax();
    }
}

TEST(deque_each_item_once, "W16 W17 W18 J14") {
    static struct crowd crowd;
    crowd.count = harness_is_slow() ? 50000 : 1000000;
    crowd.seen = calloc(crowd.count, 1);
    REQUIRE(crowd.seen);
    start_at(&crowd.deque, UINT32_MAX - 100, 0xfff0);
    harness_threads(3, crowd_member, &crowd);
    CHECK_EQ(load_relaxed(&crowd.done), crowd.count);
    for (uint32_t i = 0; i < crowd.count; i++)
        REQUIRE_EQ(load_relaxed(&crowd.seen[i]), 1);
    free((void *)crowd.seen);
}
