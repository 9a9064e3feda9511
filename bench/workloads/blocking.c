/* blocking.c - a no-op run on the blocking pool and awaited, one after the other: us. */
#include <errno.h>

#include "../harness/bench.h"

struct caller {
    uint64_t left, wrong;
    int ran; /* by the job; ordered by the call */
    int64_t start, end;
    weft_wait wait;
    weft_blocking_spec spec;
};

static int nothing(void *arg) { return ++((struct caller *)arg)->ran; }

static int call_all(void *arg) {
    struct caller *c = arg;
    c->start = bench_now();
    for (uint64_t i = 0; i < c->left; i++) {
        int result = 0, error = weft_blocking(nothing, c, &result, WEFT_NEVER);
        c->wrong += error != 0 || result != (int)i + 1;
    }
    c->end = bench_now();
    return 0;
}

static weft_poll poll_all(weft_task *self, void *state) {
    struct caller *c = state;
    if (!c->start)
        c->start = bench_now();
    while (c->left) {
        int before = c->ran, result = 0, error = weft_blocking_poll(&c->spec, self, &c->wait, &result);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        c->wrong += error != 0 || result < before;
        c->left--;
    }
    c->end = bench_now();
    return weft_done(self, 0, NULL);
}

static void blocking(struct bench_run *run) {
    uint64_t count = run->quick ? 2000 : 50000;
    struct caller c = {.left = count, .spec = WEFT_BLOCKING_SPEC_INIT};
    c.spec.fn = nothing;
    c.spec.arg = &c;
    if (run->kind == BENCH_POLL) {
        bench_in_task(run, poll_all, &c, 1);
    } else {
        weft_task *task;
        weft_runtime *rt = bench_open(run);
        if (!rt)
            return;
        if (bench_check(run, weft_fiber_go(rt, call_all, &c, &task) == 0, "weft_fiber_go")) {
            bench_check(run, weft_join(task, NULL, WEFT_NEVER) == 0, "weft_join");
            weft_task_drop(task);
        }
        bench_close(run, rt, 1);
    }
    bench_check(run, c.wrong == 0 && c.ran == (int)count, "%llu calls failed, %d of %llu ran",
                (unsigned long long)c.wrong, c.ran, (unsigned long long)count);
    run->value[0] = (double)(c.end - c.start) / (double)count / 1e3;
}

const struct bench_workload bench_blocking = {
    .name = "blocking",
    .about = "a no-op run on the blocking pool and awaited: us",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"blocking", "us", "floor_futex_p50"}},
    .skip = bench_skip_sim,
    .run = blocking,
};
