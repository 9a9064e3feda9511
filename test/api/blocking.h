/* blocking.h - what the tests of blocking work need: pools, jobs that stay until they are let go, fibers that ask for one. */
#ifndef WEFT_TEST_BLOCKING_H
#define WEFT_TEST_BLOCKING_H

#include "fixture.h"

#define MS INT64_C(1000000)

static inline weft_pool_stats stats_of(weft_pool *pool) {
    weft_pool_stats stats;
    weft_pool_stats_read(pool, &stats);
    return stats;
}

static inline weft_pool *begin_pool_with(unsigned min, unsigned max, unsigned queue, int64_t keep_alive,
                                         int64_t grace) {
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    weft_pool *pool = NULL;
    config.name = "hands";
    config.threads_min = min;
    config.threads_max = max;
    config.queue_max = queue;
    config.keep_alive_ns = keep_alive;
    config.grace_ns = grace;
    REQUIRE_EQ(weft_pool_create(&config, &pool), 0);
    return pool;
}

static inline weft_pool *begin_pool(unsigned min, unsigned max, unsigned queue, int64_t keep_alive) {
    return begin_pool_with(min, max, queue, keep_alive, 0);
}

/* One thread, for a test in which a job does not end, or not before a task has been let go (see fixture_begin_hasty). */
static inline weft_pool *begin_pool_hasty(unsigned queue) { return begin_pool_with(1, 1, queue, 0, FIXTURE_GRACE); }

static inline void end_pool(weft_pool *pool) {
    CHECK_EQ(weft_pool_destroy(pool, fixture_soon()), 0);
    REQUIRE_EVENTUALLY(fixture_threads("hands-") == 0);
}

/* A job that stays in its thread until it is let go, and counts what was done with it. */
struct job {
    atomic_bool entered, release;
    atomic_uint ran, dropped;
};

static inline int hold(void *arg) {
    struct job *job = arg;
    atomic_store(&job->entered, true);
    while (!atomic_load(&job->release))
        harness_nap();
    return (int)atomic_fetch_add(&job->ran, 1) + 41;
}

static inline void on_drop(void *arg) { atomic_fetch_add(&((struct job *)arg)->dropped, 1); }

static inline weft_blocking_spec spec_of(weft_pool *pool, struct job *job) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = hold;
    spec.arg = job;
    spec.drop = on_drop;
    spec.name = "holder";
    spec.pool = pool;
    return spec;
}

/* Keep the one thread of a pool busy. */
static inline void occupy(weft_pool *pool, struct job *job) {
    weft_blocking_spec spec = spec_of(pool, job);
    REQUIRE_EQ(weft_blocking_start(NULL, &spec), 0);
    REQUIRE_EVENTUALLY(job->entered);
}

/* -- Fibers that ask ----------------------------------------------------------------------------------------------- */

struct asking {
    weft_blocking_spec spec;
    int64_t ns; /* 0: for ever */
    int error, result, after;
    atomic_bool asked, left;
};

static inline int ask(void *arg) {
    struct asking *a = arg;
    atomic_store(&a->asked, true);
    a->error = weft_blocking_call(&a->spec, &a->result, a->ns ? weft_after(a->ns) : WEFT_NEVER);
    atomic_store(&a->left, true);
    a->after = weft_sleep(1);
    return 0;
}

static inline weft_task *start_asking(weft_runtime *rt, struct asking *a) {
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, ask, a, &task), 0);
    return task;
}

#endif
