/* reactor_injector.c - the reactor's step 6: spawned tasks and tasks woken by a mutex come through the injector. */
#include "fixture.h"

#define ON_REACTOR .sched = "reactor"
#define TASKS 50

enum { RESULTS, SUBMISSIONS, COMPLETIONS, TIMERS, CHANNELS, INJECTOR };

static weft_reactor_stats figures(weft_runtime *rt) {
    weft_reactor_stats stats = {.size = sizeof stats};
    REQUIRE_EQ(weft_reactor_stats_read(rt, &stats), 0);
    return stats;
}

struct outside {
    weft_runtime *rt;
    atomic_uint ran;
};

static void spawn_some(unsigned index, void *arg) {
    struct outside *outside = arg;
    (void)index;
    for (int i = 0; i < TASKS; i++)
        REQUIRE_EQ(weft_go(outside->rt, fixture_count, &outside->ran, NULL), 0);
}

/* From four threads: each task once through the injector, and through nothing else. */
API_TEST(reactor_injects_spawned, "R9 R35", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct outside outside = {.rt = rt};
    harness_threads(4, spawn_some, &outside);
    REQUIRE_EVENTUALLY(outside.ran == 4 * TASKS && weft_stats_live(rt) == 0);
    weft_reactor_stats stats = figures(rt);
    CHECK_EQ(stats.items[INJECTOR], 4 * TASKS);
    CHECK_EQ(stats.items[COMPLETIONS] + stats.items[TIMERS] + stats.items[CHANNELS], 0);
    fixture_end(rt);
}

static weft_mutex mutex;
static atomic_uint waiting, had;

static int lock_once(void *arg) {
    (void)arg;
    waiting++;
    REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NEVER), 0);
    had++;
    return weft_mutex_unlock(&mutex);
}

static int hold(void *arg) {
    weft_task *tasks[TASKS];
    (void)arg;
    REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NEVER), 0);
    for (int i = 0; i < TASKS; i++)
        REQUIRE_EQ(weft_fiber_go(NULL, lock_once, NULL, &tasks[i]), 0);
    for (int i = 0; i < TASKS; i++)
        while (strcmp(weft_task_state(tasks[i]), "idle")) /* it waits for the mutex */
            weft_yield();
    weft_reactor_stats before = figures(weft_runtime_current());
    REQUIRE_EQ(weft_mutex_unlock(&mutex), 0);
    while (had < TASKS)
        weft_yield();
    weft_reactor_stats after = figures(weft_runtime_current());
    CHECK_GE(after.items[INJECTOR] - before.items[INJECTOR], TASKS); /* each waiter, woken by an unlock */
    CHECK_EQ(after.items[COMPLETIONS] + after.items[TIMERS] + after.items[CHANNELS],
             before.items[COMPLETIONS] + before.items[TIMERS] + before.items[CHANNELS]);
    for (int i = 0; i < TASKS; i++)
        weft_task_drop(tasks[i]);
    return 0;
}

API_TEST(reactor_injects_mutex_woken, "R9 R16", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    weft_mutex_init(&mutex, WEFT_MUTEX_FIFO);
    REQUIRE_EQ(weft_fiber_go(rt, hold, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}
