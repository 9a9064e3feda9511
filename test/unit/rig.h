/* rig.h - a runtime whose workers have no threads: the test is every worker in turn, so that each step can be looked at.
 *
 *     struct weft_runtime *rt = rig_begin(&wefti_sched_ring, 2);
 *     rig_be(rt, 0);                     // from here on this thread is worker 0
 *     weft_go(rt, poll, state, NULL);    // so this is a spawn by worker 0
 *     wefti_worker_turn(&rt->worker[0]); // and this runs one task
 */
#ifndef WEFT_TEST_RIG_H
#define WEFT_TEST_RIG_H

#include "harness.h"
#include "sched/sched.h"

/* As weft_runtime_create, without threads.  Every worker is awake. */
static inline struct weft_runtime *rig_begin(const struct wefti_sched *sched, uint32_t workers) {
    struct weft_runtime *rt = wefti_alloc(sizeof *rt);
    REQUIRE(rt);
    rt->sched = sched;
    rt->workers = rt->idle.workers = workers;
    rt->allocated = workers + (sched->control ? 1 : 0);
    rt->worker = wefti_alloc(rt->allocated * sizeof *rt->worker);
    REQUIRE(rt->worker);
    rt->global_capacity = 65536;
    rt->park_timeout = INT64_MAX;
    rt->seed = 1;
    wefti_slab_init(&rt->slab, rt);
    rt->lifo_stealing = workers > 1 && wefti_fence_heavy_init() == 0;
    for (uint32_t i = 0; i < rt->allocated; i++) {
        struct wefti_worker *w = &rt->worker[i];
        w->rt = rt;
        w->index = i;
        wefti_worker_share(w, workers > 1);
        w->central = sched->central;
        w->tick_left = WEFTI_TICK_POLLS;
        w->average = w->length = WEFTI_AVERAGE_START;
        w->global_interval = w->global_left = (uint32_t)(WEFTI_GLOBAL_TARGET / WEFTI_AVERAGE_START);
        w->watched_polls = UINT64_MAX;
        store_relaxed(&w->timers_next, INT64_MAX);
        wefti_random_init(&w->random, i);
    }
    if (sched->control) {
        rt->control = &rt->worker[workers];
        REQUIRE_EQ(sched->init(rt), 0);
    }
    return rt;
}

/* This thread is worker `index` from now on, or with -1 no worker. */
static inline struct wefti_worker *rig_be(struct weft_runtime *rt, int index) {
    struct wefti_worker *w = index < 0 ? NULL : &rt->worker[index];
    wefti_self_set(w);
    return w;
}

/* Every task must have ended. */
static inline void rig_end(struct weft_runtime *rt) {
    rig_be(rt, -1);
    CHECK_EQ(wefti_live(rt), 0);
    if (rt->control)
        rt->sched->fini(rt);
    wefti_slab_fini(&rt->slab);
    wefti_free(rt->worker, rt->allocated * sizeof *rt->worker);
    wefti_free(rt, sizeof *rt);
}

/* -- A log of who ran ------------------------------------------------------------------------------------ */

#define RIG_LOG 4096

static struct {
    unsigned length;
    int who[RIG_LOG], worker[RIG_LOG];
} rig_log __attribute__((unused));

static inline void rig_note(int who) {
    REQUIRE_LT(rig_log.length, RIG_LOG);
    rig_log.worker[rig_log.length] = (int)wefti_worker_self()->index;
    rig_log.who[rig_log.length++] = who;
}

/* Notes its number and ends. */
static inline weft_poll rig_once(weft_task *self, void *number) {
    rig_note((int)(intptr_t)number);
    return weft_done(self, 0, NULL);
}

/* Notes its number and yields, 100 times. */
static inline weft_poll rig_again(weft_task *self, void *number) {
    static int polls[64];
    rig_note((int)(intptr_t)number);
    if (++polls[(intptr_t)number] < 100)
        return WEFT_YIELD;
    polls[(intptr_t)number] = 0;
    return weft_done(self, 0, NULL);
}

static inline void rig_go(struct weft_runtime *rt, weft_poll_fn poll, int number) {
    REQUIRE_EQ(weft_go(rt, poll, (void *)(intptr_t)number, NULL), 0);
}

static inline void rig_go_range(struct weft_runtime *rt, int from, int to) {
    for (int i = from; i < to; i++)
        rig_go(rt, rig_once, i);
}

/* The number of a task that a queue holds. */
static inline int rig_number(struct wefti_link *link) {
    return link ? (int)(intptr_t)wefti_task_state(wefti_task_of(link)) : -1;
}

/* Run everything that worker `index` finds by itself; returns how many. */
static inline unsigned rig_run(struct weft_runtime *rt, int index) {
    struct wefti_worker *w = rig_be(rt, index);
    unsigned count = 0;
    while (wefti_worker_turn(w))
        count++;
    wefti_worker_found(w); /* leave the search as a worker that goes to sleep does */
    return count;
}

#endif
