/* bench.h - what a workload is, and what the harness gives it.
 *
 * Words.  A workload is a program with a checked answer; one run of it gives one value for each of its
 *         figures.  A figure is what a line of output shows: "wake" is a workload, "wake_p50" a figure of it.
 *         A floor is a figure of the machine alone, below which no figure that leans on it can go.
 * Who.    main.c reads the command line and picks; run.c runs a workload in a process of its own;
 *         report.c prints; machine.c says where and with what; workloads/ has one file a workload.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

enum { BENCH_FIGURES = 14, BENCH_RUNS_MAX = 100 };

/* What the tasks of a workload are. */
enum bench_kind { BENCH_POLL = 1, BENCH_FIBER = 2 };

/* Stands for a floor that is the number of workers: the ideal of a speed-up. */
#define BENCH_IDEAL "ideal"

struct bench_figure {
    const char *name;  /* NULL ends the list */
    const char *unit;  /* "ns/task", "us", "x", ... */
    const char *floor; /* the figure it is read against: of the workload "floor", BENCH_IDEAL, or NULL */
};

/* One run: what is asked, and what came of it.  Travels through a pipe, so it holds no pointers. */
struct bench_run {
    enum bench_kind kind;
    weft_sched sched;
    unsigned workers;
    bool quick;                  /* a tenth of the work: is it alive, not how fast is it */
    double value[BENCH_FIGURES]; /* NAN: this machine cannot measure it */
    unsigned checks, failures;   /* ok means: at least one check, and none failed */
    char why[200];               /* the first failed check */
};

struct bench_workload {
    const char *name;
    const char *about; /* one line, for --list */
    unsigned kinds;    /* BENCH_POLL | BENCH_FIBER: those it has */
    bool of_machine;   /* measures the machine, not weft: once, whatever workers and scheduler */
    struct bench_figure figures[BENCH_FIGURES];
    /* NULL when the run makes sense, else the reason why not.  May be NULL. */
    const char *(*skip)(const struct bench_run *run);
    void (*run)(struct bench_run *run);
};

/* registry.c: every workload, in the order of --list; NULL ends it. */
extern const struct bench_workload *const bench_workloads[];

/* -- For workloads ---------------------------------------------------------------------------------- */

/* Check a part of the answer.  Returns `good`.  A run without a single check is not ok. */
bool bench_check(struct bench_run *run, bool good, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A fresh runtime as the run asks, or NULL after a failed check. */
weft_runtime *bench_open(struct bench_run *run);
/* As bench_open, with further settings; workers and scheduler are the run's. */
weft_runtime *bench_open_with(struct bench_run *run, weft_config config);
/* Let the tasks end, check that each that was spawned has ended by itself, destroy.  `tasks` is how many there
 * must have been, 0 when the library may have spawned some of its own. */
void bench_close(struct bench_run *run, weft_runtime *rt, uint64_t tasks);
/* bench_open, run `poll` with `state` as a task, bench_close.  False after a failed check. */
bool bench_in_task(struct bench_run *run, weft_poll_fn poll, void *state, uint64_t tasks);
/* The same with a fiber; and with whichever the run asks for. */
bool bench_in_fiber(struct bench_run *run, weft_fiber_fn fn, void *arg, uint64_t tasks);
bool bench_in_kind(struct bench_run *run, weft_poll_fn poll, weft_fiber_fn fn, void *arg, uint64_t tasks);

int64_t bench_now(void);         /* the monotonic clock, ns; never a virtual one */
void bench_sleep_us(unsigned us);
double bench_rss(void);          /* resident bytes of this process */
double bench_cpu_ms(void);       /* CPU time of this process, user and system */
unsigned bench_cpus(void);       /* CPUs this process may use */

double bench_median(double *values, size_t count);           /* sorts */
double bench_percentile(int64_t *values, size_t count, unsigned percent); /* sorts */

/* Burn CPU without touching memory or the clock. */
void bench_spin(uint64_t turns);
uint64_t bench_spin_calibrate(void); /* turns in 100 us on an undisturbed core */

/* Reasons to skip that several workloads share. */
const char *bench_skip_sim(const struct bench_run *run);
const char *bench_skip_sim_or_alone(const struct bench_run *run);
const char *bench_skip_not_alone(const struct bench_run *run);

/* -- Between the harness's files -------------------------------------------------------------------- */

struct bench_options {
    const char **names; /* of workloads or figures; empty = all */
    size_t name_count;
    enum bench_kind kind;
    weft_sched sched;
    const char *sched_name;
    unsigned workers; /* 0 = one and two */
    unsigned runs;
    bool json, quick, list, in_process;
};

/* options.c: 0 to go on, else exit with the code + 1 (help was asked for, or the arguments are wrong). */
int bench_options_read(struct bench_options *options, int argc, char **argv);

/* registry.c: the workload that a name means; *figure is the index of its one figure, or -1 for all. */
const struct bench_workload *bench_find(const char *name, int *figure);

/* All runs of one workload with one setting. */
struct bench_outcome {
    unsigned runs;
    double value[BENCH_FIGURES][BENCH_RUNS_MAX];
    bool ok;
    char why[200];
};
/* run.c */
void bench_execute(const struct bench_workload *workload, const struct bench_run *ask, unsigned runs, bool in_process,
                   struct bench_outcome *outcome);
/* run.c: the value of a floor on this machine, measured when first asked for; NAN when there is none. */
double bench_floor(const char *name, unsigned workers);

/* report.c: print one workload's figures (all, or one), as a row or as a JSON line each. */
void bench_report_header(const struct bench_options *options);
void bench_report(const struct bench_options *options, const struct bench_workload *workload, int figure,
                  unsigned workers, const struct bench_outcome *outcome);
void bench_report_skip(const struct bench_options *options, const struct bench_workload *workload, unsigned workers,
                       const char *reason);

/* machine.c */
void bench_machine_print(void);

#endif
