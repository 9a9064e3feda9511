/* inject.c - an outside thread pushes 1 M empty tasks through the global queue, until the last has ended:
 * ns a task.  When the queue is full the thread sleeps a little and tries again, as a program should. */
#include <errno.h>

#include "../harness/bench.h"

static weft_poll empty(weft_task *self, void *state) {
    (void)self;
    (void)state;
    return WEFT_READY;
}

static int submit(weft_runtime *rt) {
    int code;
    while ((code = weft_go(rt, empty, NULL, NULL)) == -EAGAIN)
        bench_sleep_us(20);
    return code;
}

static void inject(struct bench_run *run) {
    uint64_t count = run->quick ? 100000 : 1000000, spawned = 0;
    int code = 0;
    weft_runtime *rt = bench_open(run);
    if (!rt)
        return;
    int64_t start = bench_now();
    for (; spawned < count && code == 0; spawned++)
        code = submit(rt);
    while (weft_stats_live(rt) > 0)
        bench_sleep_us(20);
    run->value[0] = (double)(bench_now() - start) / (double)count;
    bench_check(run, code == 0, "weft_go: %s", weft_strerror(code));
    bench_close(run, rt, count);
}

const struct bench_workload bench_inject = {
    .name = "inject",
    .about = "1 M empty tasks from an outside thread through the global queue: ns/task",
    .kinds = BENCH_POLL,
    .figures = {{"inject", "ns/task", "floor_locked_add"}},
    .skip = bench_skip_sim,
    .run = inject,
};
