/* sched_lifo.c - the LIFO slot and the batch buffer, and the thief that looks into both. */
#include "harness.h"
#include "sched/lifo.h"

#include <stdio.h>
#include <stdlib.h>

static struct wefti_lifo lifo;
static struct wefti_link item[64];

TEST(lifo_slot_holds_the_newest, "B3 B17") {
    wefti_lifo_enter(&lifo);
    CHECK_EQ(wefti_lifo_take(&lifo), NULL);
    CHECK_EQ(wefti_lifo_put(&lifo, &item[0]), NULL);
    CHECK_EQ(wefti_lifo_put(&lifo, &item[1]), &item[0]); /* the one before is the caller's */
    CHECK_EQ(wefti_lifo_put(&lifo, &item[2]), &item[1]);
    CHECK_EQ(wefti_lifo_take(&lifo), &item[2]);
    CHECK_EQ(wefti_lifo_take(&lifo), NULL);
    wefti_lifo_leave(&lifo);
}

TEST(lifo_batch, "B4 B27") {
    wefti_lifo_enter(&lifo);
    CHECK_EQ(wefti_lifo_take_batched(&lifo), NULL);
    for (int size = 0; size < 40; size += 13) { /* none, and some, one after the other */
        struct wefti_chain chain = {NULL, NULL, 0};
        for (int i = 0; i < size; i++)
            wefti_chain_append(&chain, &item[i]);
        wefti_lifo_fill(&lifo, &chain);
        CHECK_EQ(load_own(&lifo.batch_left), size);
        for (int i = 0; i < size; i++)
            CHECK_EQ(wefti_lifo_take_batched(&lifo), &item[i]);
        CHECK_EQ(wefti_lifo_take_batched(&lifo), NULL);
    }
    wefti_lifo_leave(&lifo);
}

static void need_fence(void) {
    if (wefti_fence_heavy_init() != 0)
        SKIP("no membarrier here");
}

TEST(lifo_steal, "B3") {
    need_fence();
    struct wefti_chain chain = {NULL, NULL, 0};
    CHECK_EQ(wefti_lifo_steal(&lifo), NULL);
    wefti_chain_append(&chain, &item[1]);
    wefti_chain_append(&chain, &item[2]);
    wefti_lifo_enter(&lifo);
    wefti_lifo_put(&lifo, &item[0]);
    wefti_lifo_fill(&lifo, &chain);
    CHECK_EQ(wefti_lifo_steal(&lifo), NULL); /* the owner is inside */
    wefti_lifo_leave(&lifo);
    CHECK_EQ(wefti_lifo_steal(&lifo), &item[1]); /* the batch first: it is older */
    CHECK_EQ(wefti_lifo_steal(&lifo), &item[2]);
    CHECK_EQ(wefti_lifo_steal(&lifo), &item[0]);
    CHECK_EQ(wefti_lifo_steal(&lifo), NULL);
    CHECK_EQ(load_relaxed(&lifo.thief), 0);
}

TEST(lifo_one_thief, "B14") {
    need_fence();
    wefti_lifo_put(&lifo, &item[0]);
    store_relaxed(&lifo.thief, 1);
    CHECK_EQ(wefti_lifo_steal(&lifo), NULL); /* fails rather than waits */
    store_relaxed(&lifo.thief, 0);
    CHECK_EQ(wefti_lifo_steal(&lifo), &item[0]);
}

/* -- All at once ------------------------------------------------------------------------------------------ */

static struct {
    struct wefti_link *item;
    _Atomic unsigned char *seen;
    unsigned count;
    _Atomic unsigned done, stolen;
} crowd;

static void see(struct wefti_link *link) {
    if (!link)
        return;
    REQUIRE_EQ(add_relaxed(&crowd.seen[link - crowd.item], 1), 0);
    add_relaxed(&crowd.done, 1);
}

static void own_or_steal(unsigned index, void *arg) {
    (void)arg;
    if (index) {
        while (load_relaxed(&crowd.done) < crowd.count) {
            struct wefti_link *link = wefti_lifo_steal(&lifo);
            if (link)
                add_relaxed(&crowd.stolen, 1);
            see(link);
        }
        return;
    }
    uint64_t random = harness_seed();
    for (unsigned next = 0; next < crowd.count;) {
        struct wefti_link *a = NULL, *b = NULL;
        wefti_lifo_enter(&lifo);
        if (harness_random(&random) % 8 == 0 && load_own(&lifo.batch_left) == 0) {
            struct wefti_chain chain = {NULL, NULL, 0};
            while (chain.count < 5 && next < crowd.count)
                wefti_chain_append(&chain, &crowd.item[next++]);
            wefti_lifo_fill(&lifo, &chain);
        } else {
            a = wefti_lifo_put(&lifo, &crowd.item[next++]);
            b = harness_random(&random) % 2 ? wefti_lifo_take_batched(&lifo) : wefti_lifo_take(&lifo);
        }
        wefti_lifo_leave(&lifo);
        see(a);
        see(b);
    }
    while (load_relaxed(&crowd.done) < crowd.count) { /* what is left, whoever gets it */
        wefti_lifo_enter(&lifo);
        struct wefti_link *a = wefti_lifo_take_batched(&lifo), *b = wefti_lifo_take(&lifo);
        wefti_lifo_leave(&lifo);
        see(a);
        see(b);
    }
}

TEST(lifo_each_item_once, "B3 B15") {
    need_fence();
    crowd.count = harness_is_slow() ? 20000 : 1000000;
    crowd.item = calloc(crowd.count, sizeof *crowd.item);
    crowd.seen = calloc(crowd.count, 1);
    REQUIRE(crowd.item && crowd.seen);
    harness_threads(3, own_or_steal, NULL);
    for (unsigned i = 0; i < crowd.count; i++)
        REQUIRE_EQ(load_relaxed(&crowd.seen[i]), 1);
    printf("%u stolen\n", crowd.stolen);
    free(crowd.item);
    free((void *)crowd.seen);
}
