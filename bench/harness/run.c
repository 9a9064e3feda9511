/* run.c - runs a workload, each time in a process of its own.
 *
 * Why a process.  Memory, threads and caches of one run do not help or hurt the next; a crash or a hang is
 * one bench that is not ok instead of the end of all; the peers are run the same way.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { TIME_LIMIT_MS = 120 * 1000 };

static void fail(struct bench_run *run, const char *why) {
    run->failures++;
    snprintf(run->why, sizeof run->why, "%s", why);
}

static void fresh(struct bench_run *run, const struct bench_run *ask) {
    *run = *ask;
    for (size_t f = 0; f < BENCH_FIGURES; f++)
        run->value[f] = NAN;
}

/* In the child: run, send, end.  The pipe takes a whole bench_run at once. */
static void child(const struct bench_workload *workload, struct bench_run *run, int out) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlive an interrupted weft-bench */
    workload->run(run);
    _exit(write(out, run, sizeof *run) == (ssize_t)sizeof *run ? 0 : 1);
}

/* In the parent: what the child sent, or why it sent nothing. */
static void collect(struct bench_run *run, pid_t pid, int in) {
    struct bench_run got;
    struct pollfd ready = {.fd = in, .events = POLLIN};
    int status = 0, polled;
    do
        polled = poll(&ready, 1, TIME_LIMIT_MS);
    while (polled < 0 && errno == EINTR);
    bool whole = polled > 0 && read(in, &got, sizeof got) == (ssize_t)sizeof got;
    if (polled == 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (whole)
        *run = got;
    else if (polled == 0)
        fail(run, "did not end within 120 s");
    else if (WIFSIGNALED(status))
        fail(run, strsignal(WTERMSIG(status)));
    else
        fail(run, "the process of the run ended without a result");
}

static void run_once(const struct bench_workload *workload, struct bench_run *run, bool in_process) {
    int ends[2];
    if (in_process) {
        workload->run(run);
        return;
    }
    fflush(NULL);
    if (pipe(ends) < 0) {
        fail(run, "no pipe to be had");
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child(workload, run, ends[1]);
    }
    close(ends[1]);
    if (pid < 0)
        fail(run, "no process to be had");
    else
        collect(run, pid, ends[0]);
    close(ends[0]);
}

void bench_execute(const struct bench_workload *workload, const struct bench_run *ask, unsigned runs, bool in_process,
                   struct bench_outcome *outcome) {
    struct bench_run run;
    memset(outcome, 0, sizeof *outcome);
    outcome->runs = runs;
    outcome->ok = true;
    for (unsigned r = 0; r < runs; r++) {
        fresh(&run, ask);
        run_once(workload, &run, in_process);
        for (size_t f = 0; f < BENCH_FIGURES; f++)
            outcome->value[f][r] = run.value[f];
        if (run.failures == 0 && run.checks > 0)
            continue;
        if (outcome->ok)
            snprintf(outcome->why, sizeof outcome->why, "%s", run.failures ? run.why : "the bench checked nothing");
        outcome->ok = false;
    }
}

double bench_floor(const char *name, unsigned workers) {
    static struct bench_outcome floors;
    int figure;
    if (!name)
        return NAN;
    if (strcmp(name, BENCH_IDEAL) == 0)
        return workers;
    const struct bench_workload *floor = bench_find(name, &figure);
    if (!floor || figure < 0)
        return NAN;
    if (floors.runs == 0) {
        struct bench_run ask = {.kind = BENCH_POLL, .workers = 1, .quick = true};
        bench_execute(floor, &ask, 3, false, &floors);
    }
    double values[BENCH_RUNS_MAX];
    memcpy(values, floors.value[figure], sizeof values);
    return bench_median(values, floors.runs);
}
