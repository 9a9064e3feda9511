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

/* -- Sleeping in a poller ------------------------------------------------------------------------------------ */

static struct wefti_poller poller;

static bool sleep_in_poller(int64_t until) {
    int count;
    return wefti_park_poll(&park, &poller, NULL, until, &count);
}

/* A poke may be left over from an earlier round, and end a sleep early; a token is never lost. */
static void sleep_until_token(void) {
    while (!sleep_in_poller(INT64_MAX))
        ;
}

MC_TEST(park_poll_wake_is_kept, .proves = "B35 B36 B41", .bound = 3) {
    mc_assert(wefti_poller_open(&poller, false, 1) == 0);
    int a = mc_spawn(set_and_wake, (void *)0);
    sleep_until_token();
    mc_assert(load_relaxed(&flag[0]) == 1);
    mc_join(a);
}

MC_TEST(park_poll_two_wakers, .proves = "B35 B36", .bound = 3) {
    mc_assert(wefti_poller_open(&poller, false, 1) == 0);
    int a = mc_spawn(set_and_wake, (void *)0), b = mc_spawn(set_and_wake, (void *)1);
    while (!load_relaxed(&flag[0]) || !load_relaxed(&flag[1]))
        sleep_until_token();
    mc_join(a), mc_join(b);
}

MC_TEST(park_poll_timeout_against_wake, .proves = "B37", .timeouts = 2, .spurious = 1) {
    mc_assert(wefti_poller_open(&poller, false, 1) == 0);
    int a = mc_spawn(set_and_wake, (void *)0);
    while (!load_relaxed(&flag[0]))
        sleep_in_poller(wefti_clock() + 1000000);
    mc_join(a);
}

/* Now in the poller, now on the word, as a worker that gets its first descriptor between two sleeps does. */
MC_TEST(park_poll_then_sleep, .proves = "B35", .bound = 3) {
    mc_assert(wefti_poller_open(&poller, false, 1) == 0);
    int a = mc_spawn(set_and_wake, (void *)0), b = mc_spawn(set_and_wake, (void *)1);
    for (bool in_poller = true; !load_relaxed(&flag[0]) || !load_relaxed(&flag[1]); in_poller = !in_poller)
        in_poller ? (void)sleep_in_poller(INT64_MAX) : (void)wefti_park_sleep(&park, INT64_MAX);
    mc_join(a), mc_join(b);
}

/* A plain thread and one descriptor, which never becomes ready: only the token ends it. */
MC_TEST(park_fd_wake_is_kept, .proves = "B35", .bound = 3) {
    int poke = wefti_poke_open(), state = 1;
    int a = mc_spawn(set_and_wake, (void *)0);
    while (!wefti_park_fd(&park, 0, WEFTI_READABLE, poke, INT64_MAX, &state))
        mc_assert(state == 1);
    mc_assert(load_relaxed(&flag[0]) == 1);
    mc_join(a);
}
