/* stats.c - reading the workers' counters. */
#include "sched/sched.h"

#include <string.h>

static void add_worker(const struct wefti_counters *from, weft_stats *to) {
#define ADD(field) to->field += load_relaxed(&from->field) /* figures; nothing hangs on them */
    ADD(polls);
    ADD(spawned);
    ADD(completed);
    ADD(cancelled);
    ADD(lifo_hits);
    ADD(steals);
    ADD(stolen);
    ADD(searches);
    ADD(parks);
    ADD(wakes);
    ADD(overflows);
    ADD(global_fetches);
    ADD(ticks);
    ADD(jobs_stolen);
    ADD(exhausted);
    ADD(io_batches);
    ADD(io_events);
    ADD(failed);
#undef ADD
}

int weft_stats_read(const weft_runtime *rt, int worker, weft_stats *out) {
    if (!rt || !out || out->size < offsetof(weft_stats, spawned) || worker < -1 || worker >= (int)rt->workers)
        return -EINVAL;
    weft_stats stats;
    memset(&stats, 0, sizeof stats);
    for (uint32_t i = 0; i < rt->workers; i++)
        if (worker < 0 || (uint32_t)worker == i)
            add_worker(&rt->worker[i].counters, &stats);
    if (worker < 0) {
        stats.spawned += load_relaxed(&rt->inject.admitted);
        stats.denied = load_relaxed(&rt->denied);
    }
    stats.size = out->size < sizeof stats ? out->size : sizeof stats; /* what is filled */
    memcpy(out, &stats, stats.size);
    return 0;
}

unsigned weft_stats_parked(const weft_runtime *rt) {
    return !rt ? 0 : wefti_idle_parked((struct wefti_idle *)(uintptr_t)&rt->idle);
}

unsigned weft_stats_searching(const weft_runtime *rt) {
    return rt ? load_relaxed(&rt->idle.searching) : 0; /* a figure */
}

uint64_t weft_stats_live(const weft_runtime *rt) { return rt ? wefti_live(rt) : 0; }

uint64_t weft_sim_hash(const weft_runtime *rt) { return rt && rt->sim ? wefti_sim_hash(rt) : 0; }
