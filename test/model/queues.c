/* queues.c - the global queue, the MPSC queue, and the lock between them. */
#include "queue/inject.h"
#include "queue/mpsc.h"

#include "model.h"
#include "sched/park.h"

/* -- lock */

static struct wefti_lock lock;
static int guarded; /* plain: two inside at once is a race */

static void add_locked(void *unused) {
    (void)unused;
    wefti_lock_take(&lock);
    guarded++;
    wefti_lock_give(&lock);
}

MC_TEST(lock_excludes, .proves = "B24", .bound = 3) {
    int a = mc_spawn(add_locked, NULL), b = mc_spawn(add_locked, NULL);
    add_locked(NULL);
    mc_join(a), mc_join(b);
    mc_assert(guarded == 3);
}

static void add_twice(void *unused) {
    add_locked(unused);
    add_locked(unused);
}

MC_TEST(lock_wakes_every_sleeper, .proves = "B24", .bound = 2) {
    int a = mc_spawn(add_twice, NULL), b = mc_spawn(add_locked, NULL), c = mc_spawn(add_locked, NULL);
    mc_join(a), mc_join(b), mc_join(c);
    mc_assert(guarded == 4);
}

/* -- inject */

static struct wefti_inject inject;

static void push_pair(void *first) {
    int i = (int)(intptr_t)first;
    wefti_inject_push_one(&inject, make(i));
    wefti_inject_push_one(&inject, make(i + 1));
}

MC_TEST(inject_keeps_order, .proves = "B24 W13") {
    int a = mc_spawn(push_pair, (void *)0), b = mc_spawn(push_pair, (void *)2);
    int last[2] = {-1, -1};
    for (int look = 0; look < 3; look++) {
        if (look == 2)
            mc_join(a), mc_join(b);
        struct wefti_chain chain = wefti_inject_take(&inject, look == 2 ? 4 : 1, NULL);
        for (struct wefti_link *item; (item = wefti_chain_take(&chain));) {
            int index = (int)((struct item *)(void *)item - items);
            mc_assert(index > last[index / 2]); /* each producer's order */
            last[index / 2] = index;
            got(item);
        }
    }
    all_came_out(0, 4);
    mc_assert(wefti_inject_length(&inject) == 0);
}

static void take_some(void *unused) {
    (void)unused;
    got_chain(wefti_inject_take(&inject, 2, NULL));
}

MC_TEST(inject_two_consumers, .proves = "B26") {
    wefti_inject_push_one(&inject, make(0));
    wefti_inject_push_one(&inject, make(1));
    int a = mc_spawn(take_some, NULL);
    wefti_inject_push_one(&inject, make(2));
    take_some(NULL);
    mc_join(a);
    got_chain(wefti_inject_take(&inject, 4, NULL));
    all_came_out(0, 3);
}

static struct wefti_chain one(int i) {
    struct wefti_chain chain = {0};
    wefti_chain_append(&chain, make(i));
    return chain;
}

/* Two workers spill and fetch, while a thread puts in: pieces of two, no more than two of them. */
static void spill_and_take(void *first) {
    int i = (int)(intptr_t)first;
    struct wefti_chain chain[] = {one(i), one(i + 1), one(i + 2)};
    wefti_inject_spill(&inject, chain, 1, &items[i]);
    wefti_inject_spill(&inject, chain + 1, 2, &items[i]);
    got_chain(wefti_inject_take(&inject, 2, &items[i]));
}

MC_TEST(inject_spill_two, .proves = "B9 B24", .bound = 2) {
    int a = mc_spawn(spill_and_take, (void *)0), b = mc_spawn(spill_and_take, (void *)3);
    wefti_inject_push_one(&inject, make(6));
    mc_join(a), mc_join(b);
    got_chain(wefti_inject_take(&inject, 7, NULL));
    all_came_out(0, 7);
    mc_assert(wefti_inject_length(&inject) == 0 && wefti_inject_outside(&inject) == 0 && inject.pieces == 0);
}

static _Atomic int admitted;

static void admit(void *i) {
    if (wefti_inject_admit(&inject, make((int)(intptr_t)i), 2) == 0)
        add_relaxed(&admitted, 1);
}

MC_TEST(inject_capacity, .proves = "B57") {
    int a = mc_spawn(admit, (void *)0), b = mc_spawn(admit, (void *)1);
    admit((void *)2);
    mc_join(a), mc_join(b);
    mc_assert(load_relaxed(&admitted) == 2 && wefti_inject_length(&inject) == 2);
}

/* After close returned, nothing more is admitted: the count is final. */
MC_TEST(inject_close_is_final, .proves = "W38") {
    int a = mc_spawn(admit, (void *)0);
    wefti_inject_close(&inject);
    uint64_t final = load_relaxed(&inject.admitted);
    mc_join(a);
    mc_assert(load_relaxed(&inject.admitted) == final && load_relaxed(&admitted) == (int) final);
}

/* -- mpsc */

static struct wefti_mpsc mpsc;

static void send_pair(void *first) {
    int i = (int)(intptr_t)first;
    wefti_mpsc_push(&mpsc, make(i));
    wefti_mpsc_push(&mpsc, make(i + 1));
}

MC_TEST(mpsc_keeps_each_order, .proves = "W29", .bound = 3) {
    int a = mc_spawn(send_pair, (void *)0), b = mc_spawn(send_pair, (void *)2);
    int last[2] = {-1, -1};
    for (int look = 0; look < 3; look++) {
        if (look == 2)
            mc_join(a), mc_join(b);
        struct wefti_chain chain = wefti_mpsc_take(&mpsc);
        for (struct wefti_link *item; (item = wefti_chain_take(&chain));) {
            int index = (int)((struct item *)(void *)item - items);
            mc_assert(index > last[index / 2]);
            last[index / 2] = index;
            got(item);
        }
    }
    all_came_out(0, 4);
}

static struct wefti_park consumer;

static void send_and_wake(void *i) {
    if (wefti_mpsc_push(&mpsc, make((int)(intptr_t)i)))
        wefti_park_wake(&consumer);
}

/* Waking only on the push into an empty queue is enough. */
MC_TEST(mpsc_wake_on_first, .proves = "W29") {
    int a = mc_spawn(send_and_wake, (void *)0), b = mc_spawn(send_and_wake, (void *)1);
    for (uint32_t taken = 0; taken < 2;) {
        struct wefti_chain chain = wefti_mpsc_take(&mpsc);
        taken += chain.count;
        got_chain(chain);
        if (taken < 2)
            wefti_park_sleep(&consumer, INT64_MAX);
    }
    mc_join(a), mc_join(b);
    all_came_out(0, 2);
}
