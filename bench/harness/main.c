/* main.c - weft-bench: pick workloads, run each with each number of workers, report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static void list(void) {
    for (size_t i = 0; bench_workloads[i]; i++) {
        const struct bench_workload *w = bench_workloads[i];
        printf("%-16s %s\n", w->name, w->about);
        if (w->figures[1].name == NULL && strcmp(w->figures[0].name, w->name) == 0)
            continue;
        printf("%-16s  figures:", "");
        for (size_t f = 0; f < BENCH_FIGURES && w->figures[f].name; f++)
            printf(" %s", w->figures[f].name);
        printf("\n");
    }
}

/* False when the workload was run and is not ok. */
static bool run_one(const struct bench_options *options, const struct bench_workload *workload, int figure,
                    unsigned workers) {
    static struct bench_outcome outcome;
    struct bench_run ask = {0};
    ask.kind = options->kind;
    ask.sched = options->sched;
    ask.workers = workers;
    ask.quick = options->quick;
    const char *reason = NULL;
    if ((workload->kinds & (unsigned)options->kind) == 0)
        reason = "has no such kind";
    else if (options->sched == WEFT_SCHED_SIM && workers > 1 && !workload->of_machine)
        reason = "sim has one worker";
    else if (workload->skip)
        reason = workload->skip(&ask);
    if (reason) {
        bench_report_skip(options, workload, workers, reason);
        return true;
    }
    bench_execute(workload, &ask, options->runs, options->in_process, &outcome);
    bench_report(options, workload, figure, workers, &outcome);
    return outcome.ok;
}

static bool run_name(const struct bench_options *options, const struct bench_workload *workload, int figure) {
    if (workload->of_machine)
        return run_one(options, workload, figure, 1);
    if (options->workers)
        return run_one(options, workload, figure, options->workers);
    bool one = run_one(options, workload, figure, 1);
    bool two = run_one(options, workload, figure, 2);
    return one && two;
}

int main(int argc, char **argv) {
    struct bench_options options;
    int stop = bench_options_read(&options, argc, argv);
    if (stop)
        return stop - 1;
    if (options.list) {
        list();
        return 0;
    }
    bench_report_header(&options);
    bool ok = true;
    if (options.name_count == 0)
        for (size_t i = 0; bench_workloads[i]; i++)
            ok &= run_name(&options, bench_workloads[i], -1);
    for (size_t i = 0; i < options.name_count; i++) {
        int figure;
        const struct bench_workload *workload = bench_find(options.names[i], &figure);
        ok &= run_name(&options, workload, figure);
    }
    free(options.names);
    return ok ? 0 : 1;
}
