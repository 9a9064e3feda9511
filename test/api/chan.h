/* chan.h - what the tests of channels share: fibers that are joined in time, numbers that must arrive exactly once. */
#ifndef WEFT_TEST_CHAN_H
#define WEFT_TEST_CHAN_H

#include "fixture.h"

static inline weft_chan *chan_of_ints(size_t capacity) {
    weft_chan *ch = NULL;
    REQUIRE_EQ(weft_chan_create(sizeof(int), capacity, &ch), 0);
    return ch;
}

static inline weft_task *fiber_go(weft_runtime *rt, weft_fiber_fn fn, void *arg) {
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, fn, arg, &task), 0);
    return task;
}

/* Run one fiber to its end. */
static inline void fiber_run(weft_runtime *rt, weft_fiber_fn fn, void *arg) {
    CHECK_EQ(fixture_finish(fiber_go(rt, fn, arg)).status, 0);
}

static inline int send_int(weft_chan *ch, int value) { return weft_chan_send(ch, &value, WEFT_NEVER); }
static inline int recv_int(weft_chan *ch) {
    int value = -1000, error = weft_chan_recv(ch, &value, WEFT_NEVER);
    return error ? error : value;
}

/* A deadline that is too soon most of the time: from 1 us to 2 ms. */
static inline weft_deadline hasty(void) {
    static atomic_uint calls;
    return weft_after(INT64_C(1000) << atomic_fetch_add(&calls, 1) % 12);
}

/* -- Numbers 0 ... count - 1, each of which must arrive once. */

struct tally {
    unsigned count;
    atomic_uint seen[];
};

static inline struct tally *tally_new(unsigned count) {
    struct tally *tally = calloc(1, sizeof *tally + count * sizeof *tally->seen);
    REQUIRE(tally);
    tally->count = count;
    return tally;
}
static inline void tally_add(struct tally *tally, int number) {
    REQUIRE(number >= 0 && (unsigned)number < tally->count);
    REQUIRE_EQ(atomic_fetch_add(&tally->seen[number], 1), 0);
}
static inline unsigned tally_sum(struct tally *tally) {
    unsigned sum = 0;
    for (unsigned i = 0; i < tally->count; i++)
        sum += atomic_load(&tally->seen[i]);
    return sum;
}
static inline void tally_end(struct tally *tally) {
    for (unsigned i = 0; i < tally->count; i++)
        REQUIRE_EQ(atomic_load(&tally->seen[i]), 1);
    free(tally);
}

#endif
