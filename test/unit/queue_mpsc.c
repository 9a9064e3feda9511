/* queue_mpsc.c - many producers, one consumer: nothing lost, nothing twice, each producer's order kept. */
#include "harness.h"
#include "plat/plat.h"
#include "queue/mpsc.h"

#include <stdlib.h>

static struct wefti_mpsc queue;

TEST(mpsc_takes_all_in_order, "W29") {
    struct wefti_link item[100];
    CHECK(wefti_mpsc_is_empty(&queue));
    CHECK_EQ(wefti_mpsc_take(&queue).count, 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(wefti_mpsc_push(&queue, &item[i]), i == 0); /* the first is told to wake the consumer */
    CHECK(!wefti_mpsc_is_empty(&queue));
    struct wefti_chain chain = wefti_mpsc_take(&queue);
    CHECK(wefti_mpsc_is_empty(&queue));
    CHECK_EQ(chain.count, 100);
    CHECK_EQ(chain.last, &item[99]);
    for (int i = 0; i < 100; i++)
        REQUIRE_EQ(wefti_chain_take(&chain), &item[i]);
    CHECK(wefti_mpsc_push(&queue, &item[0]));
    CHECK_EQ(wefti_mpsc_take(&queue).first, &item[0]);
}

#define PRODUCERS 3

struct numbered {
    struct wefti_link link; /* first */
    unsigned producer, number;
};

struct crowd {
    struct wefti_mpsc queue;
    struct numbered *item;
    unsigned each, wakes, batches;
    _Atomic unsigned told; /* pushes that found it empty */
};

static void crowd_member(unsigned me, void *arg) {
    struct crowd *crowd = arg;
    if (me < PRODUCERS) {
        for (unsigned i = 0; i < crowd->each; i++) {
            struct numbered *one = &crowd->item[me * crowd->each + i];
            *one = (struct numbered){.producer = me, .number = i}; /* published by the push */
            if (wefti_mpsc_push(&crowd->queue, &one->link))
                add_relaxed(&crowd->told, 1);
        }
        return;
    }
    unsigned next[PRODUCERS] = {0}, taken = 0;
    while (taken < PRODUCERS * crowd->each) {
        struct wefti_chain chain = wefti_mpsc_take(&crowd->queue);
        crowd->batches += chain.count != 0;
        taken += chain.count;
        for (struct wefti_link *link; (link = wefti_chain_take(&chain));) {
            struct numbered *found = (struct numbered *)(void *)link;
            REQUIRE_EQ(found->number, next[found->producer]++);
        }
    }
}

TEST(mpsc_many_producers, "W29") {
    static struct crowd crowd;
    crowd.each = harness_is_slow() ? 20000 : 300000;
    crowd.item = calloc(PRODUCERS * crowd.each, sizeof *crowd.item);
    REQUIRE(crowd.item);
    harness_threads(PRODUCERS + 1, crowd_member, &crowd);
    CHECK(wefti_mpsc_is_empty(&crowd.queue));
    CHECK_EQ(crowd.told, crowd.batches); /* one wake a batch: none too few, none too many */
    free(crowd.item);
}
