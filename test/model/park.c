/* park.c - sleeping and waking one thread. */
#include "sched/park.h"

#include "model.h"

static struct wefti_park park;
static _Atomic int flag[2];

static void set_and_wake(void *i) {
    store_relaxed(&flag[(intptr_t)i], 1); /* only the token makes it visible */
    wefti_park_wake(&park);
}

MC_TEST(park_wake_is_kept, .proves = "B35 B36 B41", .bound = 3) {
    int a = mc_spawn(set_and_wake, (void *)0);
    mc_assert(wefti_park_sleep(&park, INT64_MAX));
    mc_assert(load_relaxed(&flag[0]) == 1);
    mc_join(a);
}

/* Two wakers give one token or two; whatever was set before a token that is gone has been seen. */
MC_TEST(park_two_wakers, .proves = "B35 B36", .bound = 3) {
    int a = mc_spawn(set_and_wake, (void *)0), b = mc_spawn(set_and_wake, (void *)1);
    while (!load_relaxed(&flag[0]) || !load_relaxed(&flag[1]))
        wefti_park_sleep(&park, INT64_MAX);
    mc_join(a), mc_join(b);
}

/* Time-outs and wakes for no reason: the token is not lost with them. */
MC_TEST(park_timeout_against_wake, .proves = "B37", .timeouts = 2, .spurious = 1) {
    int a = mc_spawn(set_and_wake, (void *)0);
    while (!load_relaxed(&flag[0]))
        wefti_park_sleep(&park, wefti_clock() + 1000000);
    mc_join(a);
}

/* The waker does not touch a park whose owner has gone: it may be on a stack, or freed. */
static struct wefti_park *heap_park;

static void wake_heap(void *unused) {
    (void)unused;
    wefti_park_wake(heap_park);
}

MC_TEST(park_not_touched_after_token, .proves = "B36", .bound = 3) {
    heap_park = wefti_alloc(sizeof *heap_park);
    int a = mc_spawn(wake_heap, NULL);
    wefti_park_sleep(heap_park, INT64_MAX);
    wefti_free(heap_park, sizeof *heap_park);
    mc_join(a);
}
