/* model_rt.h - a whole runtime in a model test: its setting up is no part of what is explored, and its sleeps never time out, so that
 * a lost wake shows as a deadlock. */
#ifndef WEFT_TEST_MODEL_RT_H
#define WEFT_TEST_MODEL_RT_H

#include <weft/weft.h>

#include "mc/mc.h"

static inline weft_config model_config(weft_sched sched, unsigned workers) {
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = sched;
    config.workers = workers;
    config.seed = 1;
    config.park_timeout_ns = -1;
    return config;
}

static inline weft_runtime *model_create(const weft_config *config) {
    weft_runtime *rt;
    mc_atomic_begin();
    mc_assert(weft_runtime_create(config, &rt) == 0);
    mc_atomic_end();
    return rt;
}

static inline weft_runtime *model_open(weft_sched sched, unsigned workers) {
    weft_config config = model_config(sched, workers);
    return model_create(&config);
}

/* All its tasks are to have ended; that is no part either. */
static inline void model_close(weft_runtime *rt) {
    mc_atomic_begin();
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_assert(weft_stats_live(rt) == 0 && weft_process_count(rt) == 0);
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}

#endif
