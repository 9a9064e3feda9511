/* queue_inject.c - the global queue: strict order, spill, batches, fair shares, admission. */
#include "harness.h"
#include "queue/inject.h"

#include <stdlib.h>

static struct wefti_inject queue;
static struct wefti_link item[2048];

static intmax_t index_of(const struct wefti_link *link) { return link ? link - item : -1; }

static struct wefti_chain chain_of(uint32_t from, uint32_t to) {
    struct wefti_chain chain = {NULL, NULL, 0};
    for (uint32_t i = from; i < to; i++)
        wefti_chain_append(&chain, &item[i]);
    return chain;
}

static void expect_take(uint32_t count, uint32_t from, uint32_t to) {
    struct wefti_chain chain = wefti_inject_take(&queue, count, NULL);
    REQUIRE_EQ(chain.count, to - from);
    if (chain.count)
        REQUIRE_EQ(chain.last->next, NULL);
    for (uint32_t i = from; i < to; i++)
        REQUIRE_EQ(index_of(wefti_chain_take(&chain)), i);
    REQUIRE_EQ(wefti_chain_take(&chain), NULL);
}

TEST(inject_fifo, "B24 W13") {
    expect_take(1, 0, 0);
    for (uint32_t i = 0; i < 100; i++)
        wefti_inject_push_one(&queue, &item[i]);
    CHECK_EQ(wefti_inject_length(&queue), 100);
    for (uint32_t i = 0; i < 100; i++)
        expect_take(1, i, i + 1);
    CHECK_EQ(wefti_inject_length(&queue), 0);
    wefti_inject_push_one(&queue, &item[7]); /* it can be used again after it ran empty */
    expect_take(9, 7, 8);
}

/* An overflow arrives as one chain and stays in order. */
TEST(inject_chains, "B9 B24 W13") {
    wefti_inject_push_one(&queue, &item[0]);
    wefti_inject_push(&queue, chain_of(1, 129));
    wefti_inject_push_one(&queue, &item[129]);
    CHECK_EQ(wefti_inject_length(&queue), 130);
    expect_take(64, 0, 64);
    expect_take(64, 64, 128);
    expect_take(64, 128, 130);
    expect_take(64, 0, 0);
}

static void spill(uint32_t from, uint32_t to, const void *by) {
    struct wefti_chain chain = chain_of(from, to);
    wefti_inject_spill(&queue, &chain, 1, by);
}

static void expect_own(uint32_t count, const void *by, uint32_t from, uint32_t to) {
    struct wefti_chain chain = wefti_inject_take(&queue, count, by);
    REQUIRE_EQ(chain.count, to - from);
    for (uint32_t i = from; i < to; i++)
        REQUIRE_EQ(index_of(wefti_chain_take(&chain)), i);
}

/* What workers spill: each gets its own newest piece back, in order; who has none, or asks for nobody's, the oldest. */
TEST(inject_spill, "B9 B24") {
    static int one, two, three, nobody;
    spill(0, 128, &one); /* more than a piece usually has */
    spill(128, 192, &two);
    wefti_inject_spill(&queue, (struct wefti_chain[]){chain_of(192, 250), chain_of(250, 256)}, 2, &two); /* one piece */
    wefti_inject_spill(&queue, (struct wefti_chain[]){chain_of(256, 320), chain_of(320, 384)}, 2, &one);
    spill(384, 385, &three);
    spill(385, 387, &three); /* fills the piece up */
    CHECK_EQ(wefti_inject_length(&queue), 387);
    CHECK_EQ(wefti_inject_outside(&queue), 0);
    expect_own(64, &one, 320, 384);
    expect_own(64, &two, 192, 256);
    expect_own(2, &three, 384, 386);
    expect_own(10, NULL, 0, 10);
    expect_own(10, &nobody, 10, 20);
    expect_own(64, &one, 256, 320);
    expect_own(64, &one, 20, 84);
    expect_own(1, &three, 386, 387);
    expect_own(64, &two, 128, 192);
    expect_own(64, &two, 84, 128); /* its own are used up */
    CHECK_EQ(wefti_inject_length(&queue), 0);
    expect_own(1, &two, 0, 0);
}

/* Half from the line and half from the spill, as far as there are as many. */
TEST(inject_halves, "B26 B30") {
    static const struct {
        uint32_t line, spill, count, from_line, from_spill;
    } row[] = {{10, 10, 4, 2, 2}, {10, 10, 5, 3, 2}, {1, 10, 8, 1, 7},  {10, 1, 8, 7, 1}, {10, 0, 8, 8, 0},
               {0, 10, 8, 0, 8},  {3, 3, 9, 3, 3},   {10, 10, 1, 1, 0}, {5, 5, 10, 5, 5}, {0, 0, 3, 0, 0}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (row[i].line)
            wefti_inject_push(&queue, chain_of(0, row[i].line));
        if (row[i].spill)
            spill(1000, 1000 + row[i].spill, &queue);
        CHECK_EQ(wefti_inject_outside(&queue), row[i].line);
        struct wefti_chain chain = wefti_inject_take(&queue, row[i].count, NULL);
        REQUIRE_EQ(chain.count, row[i].from_line + row[i].from_spill);
        for (uint32_t k = 0; k < row[i].from_line; k++)
            CHECK_EQ(index_of(wefti_chain_take(&chain)), k);
        for (uint32_t k = 0; k < row[i].from_spill; k++)
            CHECK_EQ(index_of(wefti_chain_take(&chain)), 1000 + k);
        chain = wefti_inject_take(&queue, UINT32_MAX, NULL);
        CHECK_EQ(chain.count, row[i].line + row[i].spill - row[i].from_line - row[i].from_spill);
        CHECK_EQ(wefti_inject_length(&queue), 0);
        CHECK_EQ(queue.pieces, 0);
    }
}

/* More pieces than are told apart: the oldest become one, and nothing is lost or out of order in it. */
TEST(inject_spill_much, "B9 W18") {
    enum { PIECE = WEFTI_SPILL_SIZE, PIECES = WEFTI_SPILLS + 9 };
    struct wefti_link *all = calloc(PIECES * PIECE, sizeof *all);
    REQUIRE(all);
    static int mine;
    for (uint32_t round = 0; round < 3; round++) { /* round and round */
        for (uint32_t p = 0; p < PIECES; p++) {
            struct wefti_chain chain = {NULL, NULL, 0};
            for (uint32_t i = 0; i < PIECE; i++)
                wefti_chain_append(&chain, &all[p * PIECE + i]);
            wefti_inject_spill(&queue, &chain, 1, &mine);
        }
        CHECK_EQ(queue.pieces, WEFTI_SPILLS);
        struct wefti_chain newest = wefti_inject_take(&queue, 5, &mine);
        for (uint32_t i = 0; i < 5; i++)
            CHECK_EQ(wefti_chain_take(&newest) - all, (PIECES - 1) * PIECE + i);
        struct wefti_chain rest = wefti_inject_take(&queue, UINT32_MAX, NULL);
        CHECK_EQ(rest.count, PIECES * PIECE - 5);
        for (uint32_t at = 0; rest.count; at++)
            if (at < (PIECES - 1) * PIECE || at >= (PIECES - 1) * PIECE + 5)
                REQUIRE_EQ(wefti_chain_take(&rest) - all, at);
    }
    free(all);
}

/* batch = min(length / workers, 64), at least 4, never more than there are */
TEST(inject_share, "B25") {
    static const struct {
        uint32_t length, workers, share;
    } row[] = {
        {1000, 4, 64}, {40, 4, 10}, {8, 4, 4},   {3, 4, 3},      {0, 4, 0},      {1, 1, 1},
        {4, 1024, 4},  {5, 1, 5},   {64, 1, 64}, {65, 1, 64},    {65536, 1, 64}, {255, 4, 63},
        {256, 4, 64},  {16, 4, 4},  {20, 4, 5},  {4096, 64, 64}, {4095, 64, 63},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        CHECK_EQ(wefti_inject_share(row[i].length, row[i].workers), row[i].share);
}

/* Who comes first leaves work for the others. */
TEST(inject_fair_share, "B26") {
    wefti_inject_push(&queue, chain_of(0, 100));
    uint32_t from = 0;
    for (uint32_t worker = 0; worker < 4; worker++) {
        uint32_t share = wefti_inject_share(wefti_inject_length(&queue), 4);
        CHECK_GE(share, 4);
        CHECK_LE(share, 25);
        expect_take(share, from, from + share);
        from += share;
    }
    CHECK_GT(wefti_inject_length(&queue), 0);
}

TEST(inject_admit_capacity, "B57") {
    for (uint32_t i = 0; i < 8; i++)
        CHECK_EQ(wefti_inject_admit(&queue, &item[i], 8), 0);
    CHECK_EQ(wefti_inject_admit(&queue, &item[8], 8), -EAGAIN);
    CHECK_EQ(wefti_inject_length(&queue), 8);
    CHECK_EQ(load_relaxed(&queue.admitted), 8);
    wefti_inject_push_one(&queue, &item[8]); /* wakes and overflow are never refused */
    CHECK_EQ(wefti_inject_admit(&queue, &item[9], 8), -EAGAIN);
    expect_take(2, 0, 2);
    CHECK_EQ(wefti_inject_admit(&queue, &item[9], 8), 0);
    CHECK_EQ(load_relaxed(&queue.admitted), 9);
    expect_take(100, 2, 10);
}

TEST(inject_closed, "W38") {
    CHECK_EQ(wefti_inject_admit(&queue, &item[0], 8), 0);
    wefti_inject_close(&queue);
    CHECK_EQ(wefti_inject_admit(&queue, &item[1], 8), -ESHUTDOWN);
    wefti_inject_push_one(&queue, &item[1]); /* wakes of accepted tasks still come in */
    CHECK_EQ(load_relaxed(&queue.admitted), 1);
    expect_take(9, 0, 2);
}

/* -- All at once ------------------------------------------------------------------------------------------ */

#define PRODUCERS 2
#define CONSUMERS 2

struct numbered {
    struct wefti_link link; /* first */
    unsigned producer, number;
};

struct crowd {
    struct wefti_inject queue;
    struct numbered *item[PRODUCERS];
    unsigned each;
    _Atomic unsigned taken;
    unsigned last[CONSUMERS][PRODUCERS];
    _Atomic unsigned char *seen[PRODUCERS];
};

static void crowd_member(unsigned me, void *arg) {
    struct crowd *crowd = arg;
    uint64_t random = harness_seed() + me;
    if (me < PRODUCERS) {
        for (unsigned next = 0; next < crowd->each;) {
            struct wefti_chain chain = {NULL, NULL, 0};
            for (uint64_t left = 1 + harness_random(&random) % 5; left && next < crowd->each; left--)
                wefti_chain_append(&chain, &crowd->item[me][next++].link);
            wefti_inject_push(&crowd->queue, chain);
        }
        return;
    }
    unsigned *last = crowd->last[me - PRODUCERS];
    while (load_relaxed(&crowd->taken) < PRODUCERS * crowd->each) {
        struct wefti_chain chain = wefti_inject_take(&crowd->queue, 1 + (uint32_t)(harness_random(&random) % 9), NULL);
        add_relaxed(&crowd->taken, chain.count);
        for (struct wefti_link *link; (link = wefti_chain_take(&chain));) {
            struct numbered *found = (struct numbered *)(void *)link;
            REQUIRE_GT(found->number, last[found->producer]); /* FIFO: what one consumer sees of a producer ascends */
            last[found->producer] = found->number;
            REQUIRE_EQ(add_relaxed(&crowd->seen[found->producer][found->number - 1], 1), 0);
        }
    }
}

TEST(inject_many_threads, "B24 W13") {
    static struct crowd crowd;
    crowd.each = harness_is_slow() ? 20000 : 300000;
    for (unsigned p = 0; p < PRODUCERS; p++) {
        crowd.item[p] = calloc(crowd.each, sizeof *crowd.item[p]);
        crowd.seen[p] = calloc(crowd.each, 1);
        REQUIRE(crowd.item[p] && crowd.seen[p]);
        for (unsigned i = 0; i < crowd.each; i++)
            crowd.item[p][i] = (struct numbered){.producer = p, .number = i + 1};
    }
    harness_threads(PRODUCERS + CONSUMERS, crowd_member, &crowd);
    CHECK_EQ(wefti_inject_length(&crowd.queue), 0);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        for (unsigned i = 0; i < crowd.each; i++)
            REQUIRE_EQ(load_relaxed(&crowd.seen[p][i]), 1);
        free(crowd.item[p]);
        free((void *)crowd.seen[p]);
    }
}
