/* nursery.h - what the nursery tests share: a test in a fiber, children that wait, fail or count. */
#ifndef WEFT_TEST_NURSERY_H
#define WEFT_TEST_NURSERY_H

#include "fixture.h"

/* Run fn(arg) as a fiber of a runtime that sleeps without limit, and is checked afterwards. */
static inline int in_fiber(weft_fiber_fn fn, void *arg) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, fn, arg, &task), 0);
    int status = fixture_finish(task).status;
    fixture_end(rt);
    return status;
}

/* What the children of a test have done. */
static struct {
    atomic_uint entered, returned, cancelled;
} did;

/* Waits until it is cancelled. */
static inline int wait_for_ever(void *arg) {
    (void)arg;
    atomic_fetch_add(&did.entered, 1);
    int why = weft_sleep_until(WEFT_NEVER);
    atomic_fetch_add(&did.returned, 1);
    atomic_fetch_add(&did.cancelled, why == -ECANCELED);
    return why;
}

static inline int add_one(void *arg) {
    (void)arg;
    atomic_fetch_add(&did.entered, 1);
    return 0;
}

/* arg: the status, as a pointer. */
static inline int fail_with(void *arg) { return (int)(intptr_t)arg; }
#define STATUS(code) ((void *)(intptr_t)(code))

/* Let others run until it is true; in a fiber. */
#define YIELD_UNTIL(claim)                                                                                             \
    do {                                                                                                               \
        int64_t yield_until = harness_clock() + harness_patience();                                                    \
        while (!(claim)) {                                                                                             \
            REQUIRE_LT(harness_clock(), yield_until);                                                                  \
            weft_yield();                                                                                              \
        }                                                                                                              \
    } while (0)

#endif
