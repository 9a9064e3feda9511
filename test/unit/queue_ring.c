/* queue_ring.c - the 256-slot ring: order, half-steal, overflow, wrap-around. */
#include "harness.h"
#include "queue/inject.h"
#include "queue/ring.h"

#include <stdlib.h>

static struct wefti_ring ring, thief;
static struct wefti_link item[2048];

static intmax_t index_of(const struct wefti_link *link) { return link ? link - item : -1; }

/* A ring whose counts begin anywhere. */
static void start_at(struct wefti_ring *r, uint32_t count) {
    store_relaxed(&r->head, wefti_ring_pack(count, count));
    store_relaxed(&r->tail, count);
}

static void push_range(struct wefti_ring *r, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        REQUIRE(wefti_ring_push(r, &item[i]));
}

static void expect_range(struct wefti_ring *r, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        REQUIRE_EQ(index_of(wefti_ring_pop(r, true)), i);
    REQUIRE_EQ(wefti_ring_pop(r, true), NULL);
}

/* What a thief does first: claim `count` items and not yet release them. */
static void claim(struct wefti_ring *r, uint32_t count) {
    uint64_t head = load_relaxed(&r->head);
    uint32_t real = wefti_ring_real_of(head);
    REQUIRE_EQ(wefti_ring_steal_of(head), real);
    store_relaxed(&r->head, wefti_ring_pack(real, real + count));
}

/* ... and last. */
static void release(struct wefti_ring *r) {
    uint32_t real = wefti_ring_real_of(load_relaxed(&r->head));
    store_relaxed(&r->head, wefti_ring_pack(real, real));
}

TEST(ring_layout, "B4 B7") {
    CHECK_EQ(WEFTI_RING_CAP, 256);
    CHECK_EQ(sizeof ring.head, 8);
    CHECK_EQ(sizeof ring.slot / sizeof ring.slot[0], 256);
    CHECK_EQ(offsetof(struct wefti_ring, head) % 64, 0);
    CHECK_EQ(offsetof(struct wefti_ring, tail) % 64, 0);
    CHECK_EQ(offsetof(struct wefti_ring, slot) % 64, 0);
    CHECK_GE(offsetof(struct wefti_ring, tail) - offsetof(struct wefti_ring, head), 64);
    CHECK_GE(offsetof(struct wefti_ring, slot) - offsetof(struct wefti_ring, tail), 64);
    uint64_t head = wefti_ring_pack(0xdeadbeef, 0xffffffff);
    CHECK_EQ(wefti_ring_steal_of(head), 0xdeadbeef);
    CHECK_EQ(wefti_ring_real_of(head), 0xffffffff);
}

TEST(ring_fifo, "B8 B10") {
    CHECK_EQ(wefti_ring_pop(&ring, true), NULL);
    push_range(&ring, 0, 3);
    CHECK_EQ(wefti_ring_length(&ring), 3);
    CHECK_EQ(index_of(wefti_ring_pop(&ring, true)), 0);
    push_range(&ring, 3, 5);
    expect_range(&ring, 1, 5);
    CHECK_EQ(wefti_ring_length(&ring), 0);
}

/* NULL if and only if the real head has reached the tail, whoever else is looking. */
TEST(ring_pop_null_iff_empty, "B10") {
    for (uint32_t n = 0; n <= 256; n++) {
        start_at(&ring, n * 7919);
        push_range(&ring, 0, n);
        expect_range(&ring, 0, n);
        uint64_t head = load_relaxed(&ring.head);
        CHECK_EQ(wefti_ring_real_of(head), load_relaxed(&ring.tail));
        CHECK_EQ(wefti_ring_steal_of(head), wefti_ring_real_of(head));
    }
}

TEST(ring_pop_unshared, "B10") {
    start_at(&ring, UINT32_MAX - 3);
    push_range(&ring, 0, 256);
    for (uint32_t i = 0; i < 256; i++)
        REQUIRE_EQ(index_of(wefti_ring_pop(&ring, false)), i);
    CHECK_EQ(wefti_ring_pop(&ring, false), NULL);
}

TEST(ring_full_refuses, "B4 B8") {
    push_range(&ring, 0, 256);
    uint64_t head = load_relaxed(&ring.head);
    uint32_t tail = load_relaxed(&ring.tail);
    CHECK(!wefti_ring_push(&ring, &item[256])); /* looks first, then writes */
    CHECK_EQ(load_relaxed(&ring.head), head);
    CHECK_EQ(load_relaxed(&ring.tail), tail);
    expect_range(&ring, 0, 256);
}

static void expect_overflow(uint32_t from) {
    struct wefti_chain chain[2];
    REQUIRE_EQ(wefti_ring_overflow(&ring, chain), 128);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(chain[i].count, 64);
        CHECK_EQ(index_of(chain[i].last), from + 63);
        CHECK_EQ(chain[i].last->next, NULL);
        for (uint32_t end = from + 64; from < end; from++)
            REQUIRE_EQ(index_of(wefti_chain_take(&chain[i])), from);
    }
}

TEST(ring_overflow_moves_oldest_half, "B9") {
    start_at(&ring, 200); /* the half wraps around the array's end */
    push_range(&ring, 0, 256);
    expect_overflow(0);
    push_range(&ring, 256, 257);
    CHECK_EQ(wefti_ring_length(&ring), 129);
    expect_range(&ring, 128, 257);
}

TEST(ring_overflow_only_when_full, "B9") {
    struct wefti_chain chain[2];
    push_range(&ring, 0, 255);
    CHECK_EQ(wefti_ring_overflow(&ring, chain), 0);
    expect_range(&ring, 0, 255);
}

/* -- Stealing -------------------------------------------------------------------------------------------- */

TEST(ring_steal_half, "B12 B13") {
    for (uint32_t n = 0; n <= 256; n++) {
        uint32_t taken = 0, half = (n + 1) / 2;
        start_at(&ring, n * 31);
        start_at(&thief, n * 17 + 250);
        push_range(&ring, 0, n);
        struct wefti_link *first = wefti_ring_steal(&ring, &thief, &taken);
        REQUIRE_EQ(index_of(first), n ? 0 : -1);
        REQUIRE_EQ(taken, half);
        REQUIRE_LE(taken, 128);
        if (n)
            expect_range(&thief, 1, half); /* the others, oldest first */
        uint64_t head = load_relaxed(&ring.head);
        REQUIRE_EQ(wefti_ring_steal_of(head), wefti_ring_real_of(head)); /* released */
        expect_range(&ring, half, n);
    }
}

/* A thief with more than half a ring of its own could not hold the loot. */
TEST(ring_steal_needs_room, "B12") {
    uint32_t taken = 0;
    push_range(&ring, 0, 256);
    push_range(&thief, 500, 629);
    CHECK_EQ(wefti_ring_steal(&ring, &thief, &taken), NULL);
    CHECK_EQ(wefti_ring_length(&ring), 256);
    CHECK_EQ(wefti_ring_length(&thief), 129);
    CHECK_EQ(index_of(wefti_ring_pop(&thief, true)), 500);
    CHECK_EQ(index_of(wefti_ring_steal(&ring, &thief, &taken)), 0);
    CHECK_EQ(taken, 128);
    CHECK_EQ(wefti_ring_length(&thief), 128 + 127);
}

/* Slots that a thief of ours still copies are not free for what we steal. */
TEST(ring_steal_respects_own_thief, "B12 B15") {
    uint32_t taken = 0;
    push_range(&thief, 500, 700);
    claim(&thief, 100); /* 100 left, but 200 slots in use */
    push_range(&ring, 0, 4);
    CHECK_EQ(wefti_ring_steal(&ring, &thief, &taken), NULL);
    release(&thief);
    CHECK_EQ(index_of(wefti_ring_steal(&ring, &thief, &taken)), 0);
    CHECK_EQ(taken, 2);
}

TEST(ring_second_thief_fails, "B14") {
    uint32_t taken = 77;
    push_range(&ring, 0, 10);
    claim(&ring, 5);
    CHECK_EQ(wefti_ring_steal(&ring, &thief, &taken), NULL);
    CHECK_EQ(taken, 77);
    CHECK_EQ(wefti_ring_length(&thief), 0);
    release(&ring);
    CHECK_EQ(index_of(wefti_ring_steal(&ring, &thief, &taken)), 5);
    CHECK_EQ(taken, 3);
}

TEST(ring_pop_beside_thief, "B11") {
    push_range(&ring, 0, 10);
    claim(&ring, 5);
    uint32_t steal = wefti_ring_steal_of(load_relaxed(&ring.head));
    for (uint32_t i = 5; i < 10; i++) {
        REQUIRE_EQ(index_of(wefti_ring_pop(&ring, true)), i);
        REQUIRE_EQ(wefti_ring_steal_of(load_relaxed(&ring.head)), steal); /* still the thief's */
    }
    CHECK_EQ(wefti_ring_pop(&ring, true), NULL);
    release(&ring);
    push_range(&ring, 10, 11);
    CHECK_EQ(index_of(wefti_ring_pop(&ring, true)), 10);
    uint64_t head = load_relaxed(&ring.head);
    CHECK_EQ(wefti_ring_steal_of(head), wefti_ring_real_of(head)); /* nobody steals: moved along */
}

TEST(ring_push_beside_thief, "B15 B16") {
    push_range(&ring, 0, 256);
    claim(&ring, 128);
    for (int i = 0; i < 10; i++)
        REQUIRE(wefti_ring_pop(&ring, true));
    CHECK(!wefti_ring_push(&ring, &item[256])); /* 118 queued, but the copied slots are not free */
    release(&ring);
    push_range(&ring, 256, 257);
    expect_range(&ring, 138, 257);
}

TEST(ring_overflow_beside_thief, "B16") {
    struct wefti_chain chain[2];
    push_range(&ring, 0, 256);
    claim(&ring, 128);
    uint64_t head = load_relaxed(&ring.head);
    CHECK_EQ(wefti_ring_overflow(&ring, chain), 0); /* the caller sends the new item to the global queue */
    CHECK_EQ(load_relaxed(&ring.head), head);
    release(&ring);
    expect_range(&ring, 128, 256);
}

/* The ring was full when the owner looked, and a thief has come and gone since: it must look again. */
TEST(ring_overflow_after_thief, "B9 B16") {
    struct wefti_chain chain[2];
    uint32_t taken;
    push_range(&ring, 0, 256);
    CHECK(!wefti_ring_push(&ring, &item[256]));
    CHECK_EQ(index_of(wefti_ring_steal(&ring, &thief, &taken)), 0);
    CHECK_EQ(wefti_ring_overflow(&ring, chain), 0);
    push_range(&ring, 256, 257);
    expect_range(&ring, 128, 257);
    expect_range(&thief, 1, 128);
}

/* -- Counts run over --------------------------------------------------------------------------------------- */

TEST(ring_wraps, "B15") {
    for (uint32_t before = 0; before <= 256; before += 32) {
        uint32_t taken;
        start_at(&ring, 0u - before);
        start_at(&thief, 0u - before / 2);
        push_range(&ring, 0, 256);
        CHECK(!wefti_ring_push(&ring, &item[256]));
        CHECK_EQ(wefti_ring_length(&ring), 256);
        CHECK_EQ(index_of(wefti_ring_steal(&ring, &thief, &taken)), 0);
        CHECK_EQ(taken, 128);
        push_range(&ring, 256, 384);
        expect_overflow(128);
        expect_range(&ring, 256, 384);
        expect_range(&thief, 1, 128);
    }
}

/* -- All at once ------------------------------------------------------------------------------------------ */

#define MEMBERS 3

struct crowd {
    struct wefti_ring ring[MEMBERS];
    struct wefti_inject overflow;
    struct wefti_link *item;
    _Atomic unsigned char *seen;
    uint32_t count;
    _Atomic uint32_t done;
};

static void crowd_push(struct crowd *crowd, unsigned me, struct wefti_link *link) {
    while (!wefti_ring_push(&crowd->ring[me], link)) {
        struct wefti_chain chain[2];
        if (wefti_ring_overflow(&crowd->ring[me], chain)) {
            wefti_inject_push(&crowd->overflow, chain[0]);
            wefti_inject_push(&crowd->overflow, chain[1]);
        } else if (!wefti_ring_push(&crowd->ring[me], link)) {
            wefti_inject_push_one(&crowd->overflow, link);
            return;
        } else {
            return;
        }
    }
}

static struct wefti_link *crowd_find(struct crowd *crowd, unsigned me, uint64_t *random) {
    struct wefti_link *link = wefti_ring_pop(&crowd->ring[me], true);
    uint32_t taken, victim = (me + 1 + harness_random(random) % (MEMBERS - 1)) % MEMBERS;
    if (!link)
        link = wefti_ring_steal(&crowd->ring[victim], &crowd->ring[me], &taken);
    if (link)
        return link;
    struct wefti_chain chain = wefti_inject_take(&crowd->overflow, 1, NULL);
    return wefti_chain_take(&chain);
}

static void crowd_member(unsigned me, void *arg) {
    struct crowd *crowd = arg;
    uint64_t random = harness_seed() + me;
    uint32_t next = 0;
    while (load_relaxed(&crowd->done) < crowd->count) {
        /* The first produces in bursts, everyone consumes. */
        for (uint64_t burst = me ? 0 : harness_random(&random) % 600; burst && next < crowd->count; burst--)
            crowd_push(crowd, me, &crowd->item[next++]);
        for (int tries = 0; tries < 100; tries++) {
            struct wefti_link *link = crowd_find(crowd, me, &random);
            if (!link)
                break;
            REQUIRE_EQ(add_relaxed(&crowd->seen[link - crowd->item], 1), 0);
            add_relaxed(&crowd->done, 1);
        }
    }
}

TEST(ring_each_item_once, "B11 B13 B14 B15") {
    static struct crowd crowd;
    crowd.count = harness_is_slow() ? 50000 : 1000000;
    crowd.item = calloc(crowd.count, sizeof *crowd.item);
    crowd.seen = calloc(crowd.count, 1);
    REQUIRE(crowd.item && crowd.seen);
    for (unsigned i = 0; i < MEMBERS; i++)
        start_at(&crowd.ring[i], 0u - 1000 * i); /* and across the wrap */
    harness_threads(MEMBERS, crowd_member, &crowd);
    CHECK_EQ(load_relaxed(&crowd.done), crowd.count);
    for (unsigned i = 0; i < MEMBERS; i++)
        CHECK_EQ(wefti_ring_length(&crowd.ring[i]), 0);
    for (uint32_t i = 0; i < crowd.count; i++)
        REQUIRE_EQ(load_relaxed(&crowd.seen[i]), 1);
    free(crowd.item);
    free((void *)crowd.seen);
}
