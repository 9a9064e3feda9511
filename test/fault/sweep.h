/* sweep.h - run a scenario with its first allocation failing, then its second, and so on, until none is reached. */
#ifndef WEFT_TEST_SWEEP_H
#define WEFT_TEST_SWEEP_H

#include "../api/fixture.h"
#include "plat/plat.h"

/* Allocations, maps and thread starts are counted alike.  Once with a single failure, once with all later ones failing too.
 * The scenario is called with the faults armed, and must end in order whatever fails. */
static inline void sweep(void (*scenario)(void)) {
    for (int persistent = 0; persistent < 2; persistent++) {
        int64_t nth = 0;
        bool reached = true;
        for (; reached; nth++) {
            REQUIRE_LT(nth, 2000);
            wefti_fault_set(nth, persistent);
            scenario();
            reached = wefti_fault_count() > nth;
            wefti_fault_set(-1, false);
        }
        printf("%lld points, %s\n", (long long)nth - 1, persistent ? "persistent" : "one-shot");
        CHECK_GT(nth, 1); /* there was something to fail */
    }
}

static inline bool sweep_is_clean(int error) { return error == 0 || error == -ENOMEM || error == -EAGAIN; }

/* A runtime, or NULL: then it was refused in order, and nothing is left of it. */
static inline weft_runtime *sweep_begin(unsigned *asked) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *untouched = (weft_runtime *)(void *)&config, *rt = untouched;
    config.park_timeout_ns = -1;
    config.name = "crew";
    int error = weft_runtime_create(&config, &rt);
    REQUIRE(sweep_is_clean(error));
    if (error) {
        CHECK_EQ(rt, untouched);
        REQUIRE_EVENTUALLY(fixture_threads("crew-") == 0);
        return NULL;
    }
    harness_on_hang(fixture_dump, rt);
    CHECK_GE(weft_runtime_workers(rt), 1);
    if (asked && *asked)
        CHECK_LE(weft_runtime_workers(rt), *asked);
    return rt;
}

/* Every accepted task ends by itself, and all memory goes back.  turns: of jobs, which are tasks too under sim. */
static inline void sweep_end_turns(weft_runtime *rt, uint64_t accepted, uint64_t turns) {
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    weft_stats stats = fixture_stats(rt);
    CHECK_GE(stats.spawned, accepted);
    CHECK_LE(stats.spawned, accepted + (fixture_on("sim") ? turns : 0));
    CHECK_EQ(stats.completed, stats.spawned);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

static inline void sweep_end(weft_runtime *rt, uint64_t accepted) { sweep_end_turns(rt, accepted, 0); }

#endif
