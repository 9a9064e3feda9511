/* metered.c - code as a user of weft-cc writes it: how many ops it takes, and loops that never end.  C, and C++.
 * Prints the ops of one fiber; of eight at once each takes as many. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

#define FIBERS 8

static volatile unsigned sink;
static uint64_t used[FIBERS];

static unsigned steps(unsigned n) {
    unsigned count = 0;
    for (; n != 1; count++)
        n = n & 1 ? 3 * n + 1 : n / 2;
    return count;
}

static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static int work(void *arg) {
    int values[200];
    for (int i = 0; i < 200; i++)
        values[i] = i * 7919 % 211;
    qsort(values, 200, sizeof *values, order);
    for (unsigned i = 1; i < 500; i++)
        sink += steps(i);
    switch (values[5] % 4) {
    case 0: sink++; break;
    case 1: sink += 2; break;
    default: sink += values[1] > 3 ? 1 : 2;
    }
    *(uint64_t *)arg = weft_ops_used();
    return 0;
}

static int endless_empty(void *arg) {
    (void)arg;
    for (;;) {
    }
    return 0;
}

static int endless_goto(void *arg) {
    volatile int local = 0;
    *(volatile int **)arg = (volatile int *)&local;
again:
    goto again;
    return 0;
}

static int endless_calls(void *arg) {
    (void)arg;
    for (;;)
        sink = steps(27);
    return 0;
}

/* It lets others run, us among them, and ends when it is cancelled. */
static int ends(weft_fiber_fn fn, void *arg) {
    weft_nursery n;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    spec.discard = true;
    if (weft_nursery_init(&n, NULL, NULL) || weft_nursery_spawn(&n, &spec, NULL))
        return -EIO;
    for (int i = 0; i < 50; i++)
        weft_yield();
    weft_nursery_cancel(&n);
    return weft_nursery_await(&n) == -ECANCELED ? 0 : -EIO;
}

static int first(void *arg) {
    volatile int *local;
    weft_nursery n;
    (void)arg;
    if (weft_nursery_init(&n, NULL, NULL))
        return -EIO;
    for (int i = 0; i < FIBERS; i++)
        if (weft_nursery_go(&n, work, &used[i], NULL))
            return -EIO;
    if (weft_nursery_await(&n))
        return -EIO;
    for (int i = 1; i < FIBERS; i++)
        if (used[i] != used[0] || used[0] < 10000)
            return -EIO;
    if (ends(endless_empty, NULL) || ends(endless_goto, &local) || ends(endless_calls, NULL))
        return -EIO;
    return 0;
}

int main(void) {
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1; /* what never ends has it */
    if (weft_fiber_run(&config, first, NULL, NULL))
        return 1;
    printf("%llu\n", (unsigned long long)used[0]);
    return 0;
}
