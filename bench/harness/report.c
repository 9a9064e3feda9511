/* report.c - prints figures: a table for people, or one JSON object a line. */
#include <math.h>
#include <stdio.h>

#include "bench.h"

/* One figure of one outcome, ready to print. */
struct line {
    const char *bench, *kind, *sched, *unit, *floor;
    unsigned workers, runs;
    double median, min, max; /* NAN when no run had a value */
    bool ok;
};

void bench_report_header(const struct bench_options *options) {
    if (options->json)
        return;
    bench_machine_print();
    printf("runs      %u a figure, each in a process of its own%s\n", options->runs,
           options->quick ? "; quick: a tenth of the work, not to be quoted" : "");
    printf("ratio     median / floor of this machine, or the share of the ideal speed-up\n\n");
    printf("%-20s %-6s %3s %12s %12s %12s  %-8s %8s  %s\n", "bench", "sched", "w", "median", "min", "max", "unit",
           "ratio", "to");
    fflush(stdout);
}

/* JSON has no NAN. */
static void print_number(const char *name, double value) {
    if (isnan(value))
        printf("\"%s\":null,", name);
    else
        printf("\"%s\":%.4g,", name, value);
}

static void print_json(const struct line *line) {
    printf("{\"bench\":\"%s\",\"kind\":\"%s\",\"sched\":\"%s\",\"workers\":%u,\"runs\":%u,\"unit\":\"%s\",",
           line->bench, line->kind, line->sched, line->workers, line->runs, line->unit);
    print_number("median", line->median);
    print_number("min", line->min);
    print_number("max", line->max);
    printf("\"ok\":%s}\n", line->ok ? "true" : "false");
}

static void print_row(const struct line *line) {
    printf("%-20s %-6s %3u %12.4g %12.4g %12.4g  %-8s", line->bench, line->sched, line->workers, line->median,
           line->min, line->max, line->unit);
    double floor = bench_floor(line->floor, line->workers);
    if (!isnan(floor) && floor > 0)
        printf(" %8.2f  %s", line->median / floor, line->floor);
    printf("%s\n", line->ok ? "" : "  NOT OK");
}

/* Fill in the statistics over the runs that have a value. */
static void summarise(struct line *line, const double *values, unsigned count) {
    double known[BENCH_RUNS_MAX];
    unsigned n = 0;
    for (unsigned r = 0; r < count; r++)
        if (!isnan(values[r]))
            known[n++] = values[r];
    line->median = bench_median(known, n); /* sorts */
    line->min = n ? known[0] : NAN;
    line->max = n ? known[n - 1] : NAN;
}

void bench_report(const struct bench_options *options, const struct bench_workload *workload, int figure,
                  unsigned workers, const struct bench_outcome *outcome) {
    bool of_machine = workload->of_machine;
    for (int f = 0; f < BENCH_FIGURES && workload->figures[f].name; f++) {
        if (figure >= 0 && f != figure)
            continue;
        struct line line = {
            .bench = workload->figures[f].name,
            .kind = of_machine                     ? "none"
                    : options->kind == BENCH_FIBER ? "fiber"
                                                   : "poll",
            .sched = of_machine ? "none" : options->sched_name,
            .unit = workload->figures[f].unit,
            .floor = workload->figures[f].floor,
            .workers = workers,
            .runs = outcome->runs,
            .ok = outcome->ok,
        };
        summarise(&line, outcome->value[f], outcome->runs);
        if (isnan(line.median) && outcome->ok)
            fprintf(stderr, "weft-bench: %s: cannot be measured on this machine\n", line.bench);
        else if (options->json)
            print_json(&line);
        else
            print_row(&line);
    }
    fflush(stdout);
    if (!outcome->ok)
        fprintf(stderr, "weft-bench: %s, workers %u: NOT OK: %s\n", workload->name, workers, outcome->why);
}

void bench_report_skip(const struct bench_options *options, const struct bench_workload *workload, unsigned workers,
                       const char *reason) {
    if (options->json)
        fprintf(stderr, "weft-bench: %s, workers %u: skipped: %s\n", workload->name, workers, reason);
    else
        printf("%-20s %-6s %3u   skipped: %s\n", workload->name, options->sched_name, workers, reason);
    fflush(stdout);
}
