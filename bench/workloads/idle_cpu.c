/* idle_cpu.c - a parked runtime: CPU milliseconds it burns a second, with the default longest sleep of a
 * worker and without any limit. */
#include "../harness/bench.h"

static weft_poll touch(weft_task *self, void *state) {
    ++*(int *)state;
    return weft_done(self, 0, NULL);
}

/* Proves that the runtime is alive.  False after a failed check. */
static bool alive(struct bench_run *run, weft_runtime *rt) {
    int touched = 0;
    weft_task *task = NULL;
    int code = weft_go(rt, touch, &touched, &task);
    if (!bench_check(run, code == 0, "weft_go: %s", weft_strerror(code)))
        return false;
    code = weft_join(task, NULL, WEFT_NEVER);
    weft_task_drop(task);
    return bench_check(run, code == 0 && touched == 1, "the runtime is dead: %s", weft_strerror(code));
}

static double burnt(struct bench_run *run, int64_t park_timeout_ns) {
    weft_config config = WEFT_CONFIG_INIT;
    config.park_timeout_ns = park_timeout_ns;
    weft_runtime *rt = bench_open_with(run, config);
    if (!rt)
        return 0;
    double ms = 0;
    if (alive(run, rt)) {
        bench_sleep_us(100000);
        int64_t start = bench_now();
        double cpu = bench_cpu_ms();
        bench_sleep_us(run->quick ? 200000 : 2000000);
        ms = (bench_cpu_ms() - cpu) / ((double)(bench_now() - start) / 1e9);
        alive(run, rt);
    }
    bench_close(run, rt, 2);
    return ms;
}

static void idle_cpu(struct bench_run *run) {
    run->value[0] = burnt(run, 0);
    run->value[1] = burnt(run, -1);
}

const struct bench_workload bench_idle_cpu = {
    .name = "idle_cpu",
    .about = "a runtime with nothing to do for 2 s, default and unlimited sleeps: CPU ms a second",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"idle_cpu", "ms/s", NULL}, {"idle_cpu_unlimited", "ms/s", NULL}},
    .skip = bench_skip_sim,
    .run = idle_cpu,
};
