/* runtime.c - opens and closes the runtime of a run, and checks what every workload must check. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "bench.h"

bool bench_check(struct bench_run *run, bool good, const char *format, ...) {
    run->checks++;
    if (good)
        return true;
    if (run->failures++ == 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(run->why, sizeof run->why, format, args);
        va_end(args);
    }
    return false;
}

weft_runtime *bench_open_with(struct bench_run *run, weft_config config) {
    weft_runtime *rt = NULL;
    config.sched = run->sched;
    config.workers = run->workers;
    int code = weft_runtime_create(&config, &rt);
    if (!bench_check(run, code == 0, "weft_runtime_create: %s", weft_strerror(code)))
        return NULL;
    /* Fewer workers than asked for is no error of weft's, but the figure would be labelled wrong. */
    unsigned got = weft_runtime_workers(rt);
    if (bench_check(run, got == run->workers, "asked for %u workers, got %u", run->workers, got))
        return rt;
    weft_runtime_destroy(rt);
    return NULL;
}

weft_runtime *bench_open(struct bench_run *run) {
    weft_config config = WEFT_CONFIG_INIT;
    return bench_open_with(run, config);
}

void bench_close(struct bench_run *run, weft_runtime *rt, uint64_t tasks) {
    weft_stats stats = {.size = sizeof stats};
    int code = weft_runtime_stop(rt, weft_after(10 * INT64_C(1000000000)));
    bench_check(run, code == 0, "weft_runtime_stop: %s", weft_strerror(code));
    code = weft_stats_read(rt, -1, &stats);
    bench_check(run, code == 0, "weft_stats_read: %s", weft_strerror(code));
    bench_check(run, stats.completed == stats.spawned && stats.cancelled == 0,
                "%llu tasks spawned, %llu completed, %llu cancelled", (unsigned long long)stats.spawned,
                (unsigned long long)stats.completed, (unsigned long long)stats.cancelled);
    bench_check(run, tasks == 0 || stats.completed == tasks, "%llu tasks expected, %llu completed",
                (unsigned long long)tasks, (unsigned long long)stats.completed);
    code = weft_runtime_destroy(rt);
    bench_check(run, code == 0, "weft_runtime_destroy: %s", weft_strerror(code));
}

/* poll NULL: fn. */
static bool in_first(struct bench_run *run, weft_poll_fn poll, weft_fiber_fn fn, void *arg, uint64_t tasks) {
    weft_task *task = NULL;
    weft_result result = {0, NULL};
    weft_runtime *rt = bench_open(run);
    if (!rt)
        return false;
    int code = poll ? weft_go(rt, poll, arg, &task) : weft_fiber_go(rt, fn, arg, &task);
    if (bench_check(run, code == 0, "the first task is refused: %s", weft_strerror(code))) {
        code = weft_join(task, &result, WEFT_NEVER);
        bench_check(run, code == 0, "weft_join of the first task: %s", weft_strerror(code));
        bench_check(run, result.status == 0, "the first task: %s", weft_strerror(result.status));
        weft_task_drop(task);
    }
    bench_close(run, rt, tasks);
    return run->failures == 0;
}

bool bench_in_task(struct bench_run *run, weft_poll_fn poll, void *state, uint64_t tasks) {
    return in_first(run, poll, NULL, state, tasks);
}

bool bench_in_fiber(struct bench_run *run, weft_fiber_fn fn, void *arg, uint64_t tasks) {
    return in_first(run, NULL, fn, arg, tasks);
}

bool bench_in_kind(struct bench_run *run, weft_poll_fn poll, weft_fiber_fn fn, void *arg, uint64_t tasks) {
    return in_first(run, run->kind == BENCH_FIBER ? NULL : poll, fn, arg, tasks);
}

const char *bench_skip_sim(const struct bench_run *run) {
    return run->sched == WEFT_SCHED_SIM ? "sim has one thread and virtual time: there is nothing to measure" : NULL;
}

const char *bench_skip_sim_or_alone(const struct bench_run *run) {
    return run->workers == 1 ? "a speed-up needs more than one worker" : bench_skip_sim(run);
}

const char *bench_skip_not_alone(const struct bench_run *run) {
    return run->workers != 1 ? "measured on one worker only" : NULL;
}
