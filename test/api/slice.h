/* slice.h - one call in a loop that never has to wait, next to a fiber that is always ready and a ticker. */
#ifndef WEFT_TEST_SLICE_H
#define WEFT_TEST_SLICE_H

#include "fixture.h"

/* As documented: light calls in a slice, and those that make a system call or send to a process. */
enum { SLICE_LIGHT = 1024, SLICE_HEAVY = 128 };

/* `call` makes the call once: 0, or the test fails.  tools/suspending reads these names. */
struct slice_call {
    const char *name;
    int (*call)(void);
    unsigned most; /* calls in a slice */
};

static struct {
    bool stop;
    unsigned long calls, last; /* of the loop; when the other fiber last ran */
    unsigned long gap;         /* the most between two runs of it */
    unsigned ran, ticked;
} slice;

static inline int slice_other(void *unused) {
    (void)unused;
    for (; !slice.stop; slice.ran++) {
        unsigned long gap = slice.calls - slice.last;
        slice.gap = gap > slice.gap ? gap : slice.gap;
        slice.last = slice.calls;
        REQUIRE_EQ(weft_yield(), 0);
    }
    return 0;
}

static inline int slice_ticker(void *unused) {
    (void)unused;
    for (; !slice.stop; slice.ticked++)
        REQUIRE_EQ(weft_sleep(1000000), 0);
    return 0;
}

/* The others have run often enough.  Under sim each run takes 1 us of virtual time, so that a tick would take 1,000 slices: the other fiber
 * alone is waited for. */
static inline bool slice_is_enough(void) { return slice.ran >= 8 && (slice.ticked >= 2 || fixture_on("sim")); }

/* So many calls are never needed: a loop that reaches this holds its worker. */
static inline unsigned long slice_limit(unsigned most) { return (unsigned long)most << (harness_is_slow() ? 12 : 15); }

/* In a fiber.  The loop goes on until the others have run often enough. */
static inline void slice_check(const struct slice_call *c) {
    weft_task *other, *ticker;
    memset(&slice, 0, sizeof slice);
    REQUIRE_EQ(weft_fiber_go(NULL, slice_other, NULL, &other), 0);
    REQUIRE_EQ(weft_fiber_go(NULL, slice_ticker, NULL, &ticker), 0);
    while (slice.ran < 2)
        REQUIRE_EQ(weft_yield(), 0);
    slice.ran = 0;
    while (!slice_is_enough() && slice.calls < slice_limit(c->most)) {
        int error = c->call();
        if (error) {
            harness_note(__FILE__, __LINE__, "%s: %s after %lu calls", c->name, weft_strerror(error), slice.calls);
            break;
        }
        slice.calls++;
    }
    /* Under sim the seed decides who runs after a yield, and it may be the loop again, several times. */
    if (!slice_is_enough() || slice.gap > (fixture_on("sim") ? 50 : 2) * c->most)
        harness_note(__FILE__, __LINE__, "%s: %lu calls, the other ran %u times, after up to %lu, the ticker %u times",
                     c->name, slice.calls, slice.ran, slice.gap, slice.ticked);
    slice.stop = true;
    CHECK_EQ(fixture_finish(other).status, 0);
    CHECK_EQ(fixture_finish(ticker).status, 0);
}

#endif
