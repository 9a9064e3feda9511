/* wake.c - an outside thread submits one task each millisecond to a parked runtime: from just before the
 * submit to the first line of the task, p50 and p99. */
#include <string.h>

#include "../harness/bench.h"

enum { SAMPLES = 2000 };

struct sample {
    int64_t submitted, entered;
};

static weft_poll stamp(weft_task *self, void *state) {
    ((struct sample *)state)->entered = bench_now();
    (void)self;
    return WEFT_READY;
}

static void wake(struct bench_run *run) {
    static struct sample samples[SAMPLES];
    static int64_t latency[SAMPLES];
    size_t count = run->quick ? SAMPLES / 10 : SAMPLES;
    uint64_t refused = 0, missed = 0;
    weft_runtime *rt = bench_open(run);
    if (!rt)
        return;
    memset(samples, 0, sizeof samples); /* so that no page of it is first touched in a measured time */
    bench_sleep_us(50000);
    for (size_t i = 0; i < count; i++) {
        bench_sleep_us(1000);
        samples[i].submitted = bench_now();
        refused += weft_go(rt, stamp, &samples[i], NULL) != 0;
    }
    bench_close(run, rt, count);
    for (size_t i = 0; i < count; i++) {
        latency[i] = samples[i].entered - samples[i].submitted;
        missed += latency[i] < 0;
    }
    bench_check(run, refused == 0, "%llu tasks were refused", (unsigned long long)refused);
    bench_check(run, missed == 0, "%llu tasks never ran", (unsigned long long)missed);
    run->value[0] = bench_percentile(latency, count, 50) / 1e3;
    run->value[1] = bench_percentile(latency, count, 99) / 1e3;
}

const struct bench_workload bench_wake = {
    .name = "wake",
    .about = "a task submitted from outside each ms to a parked runtime, until it runs: p50 and p99 us",
    .kinds = BENCH_POLL,
    .figures = {{"wake_p50", "us", "floor_futex_p50"}, {"wake_p99", "us", "floor_futex_p99"}},
    .skip = bench_skip_sim,
    .run = wake,
};
