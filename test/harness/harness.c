/* harness.c - runs the registered tests, each in a process of its own, and counts.
 *
 * The parent only forks, waits and prints.  What a child has to say beyond its exit status is in a page that both
 * share (struct report); what it prints goes to a file in memory and is shown when it failed.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77, EXIT_HUNG = 124, TIMEOUT_S = 30, DUMP_S = 2, FILTERS_MAX = 16 };
static const char *const schedulers[] = {"ring", "deque", "fifo", "sim", "reactor"};

/* One test with the scheduler and the worker count it runs on. */
struct run {
    struct harness_test *test;
    const char *sched; /* "" for a TEST */
    unsigned workers;
    unsigned failures;
    bool crashed; /* at least one of them was a crash, or a checker's report */
    char name[160];
    char claim[300]; /* why the last failure was one */
};

/* Written by the child, read by the parent after it ended. */
struct report {
    atomic_uint failures;
    atomic_bool seed_used;
    char reason[512]; /* of the first failure, or of skipping; its writer is the one that moved `failures` from 0 */
};

/* A child process. */
struct slot {
    struct run *run; /* NULL: free */
    struct report *report;
    pid_t pid;
    int output;
    uint64_t seed;
    int64_t started, deadline;
    unsigned timeout;
    bool dumping; /* it took too long and has been asked to say why */
};

static struct {
    const char *filters[FILTERS_MAX];
    int filter_count;
    const char *sched;
    unsigned jobs, repeat, timeout, again;
    uint64_t seed;
    bool has_seed, verbose, list, most_workers;
} options;
static struct harness_test *tests;
static struct {
    unsigned passed, failed, skipped;
} totals;

/* What the child knows about itself. */
static struct slot *me;
static void (*hang_hook)(void *);
static void *hang_arg;

/* -- What tests call ---------------------------------------------------------------------------------- */

void harness_register(struct harness_test *test) {
    test->next = tests;
    tests = test;
}

static void report_failure(const char *file, int line, const char *format, va_list args) {
    char message[400], text[512];
    vsnprintf(message, sizeof message, format, args);
    snprintf(text, sizeof text, "%s:%d: %s", file, line, message);
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' '; /* one failure, one line */
    dprintf(STDERR_FILENO, "%s\n", text);
    if (me && atomic_fetch_add(&me->report->failures, 1) == 0)
        memcpy(me->report->reason, text, sizeof text);
}

void harness_note(const char *file, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    report_failure(file, line, format, args);
    va_end(args);
}

void harness_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    report_failure(file, line, format, args);
    va_end(args);
    _exit(EXIT_FAILURE);
}

void harness_skip(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(me->report->reason, sizeof me->report->reason, format, args);
    va_end(args);
    _exit(EXIT_SKIPPED);
}

static int64_t seconds(int64_t count) { return count * INT64_C(1000000000) * (harness_is_slow() ? 4 : 1); }
int64_t harness_patience(void) { return seconds(25); } /* within the 30 that a test may take */

const char *harness_sched(void) { return me->run->sched; }
unsigned harness_workers(void) { return me->run->workers; }

uint64_t harness_seed(void) {
    if (!atomic_exchange(&me->report->seed_used, true))
        printf("seed %llu\n", (unsigned long long)me->seed);
    return me->seed;
}

void harness_on_hang(void (*hook)(void *), void *arg) {
    hang_hook = hook;
    hang_arg = arg;
}

/* -- One child ---------------------------------------------------------------------------------------- */

static void on_hang(int signal) {
    (void)signal;
    static const char text[] = "harness: this took too long\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0 || !hang_hook)
        _exit(EXIT_HUNG);
    hang_hook(hang_arg);
    _exit(EXIT_HUNG);
}

/* A shell, nohup or a job runner may leave signals ignored, and that survives exec: a test starts with their defaults. */
static void restore_signals(void) {
    static const int inherited[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2, SIGALRM};
    for (size_t i = 0; i < sizeof inherited / sizeof *inherited; i++)
        signal(inherited[i], SIG_DFL);
}

/* Run the test of a slot; never returns. */
static void child_main(struct slot *slot) {
    const struct run *run = slot->run;
    char workers[16];
    sigset_t none;

    me = slot;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    dup2(slot->output, STDOUT_FILENO);
    dup2(slot->output, STDERR_FILENO);
    setvbuf(stdout, NULL, _IOLBF, 0);
    restore_signals();
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_hang}, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);

    unsetenv("WEFT_SCHED");
    unsetenv("WEFT_WORKERS");
    unsetenv("WEFT_SEED");
    snprintf(workers, sizeof workers, "%u", run->workers);
    if (*run->sched)
        setenv("WEFT_SCHED", run->sched, 1);
    if (run->workers)
        setenv("WEFT_WORKERS", workers, 1);

    run->test->fn();
    /* exit, not _exit: the leak check of the sanitizers runs there. */
    exit(atomic_load(&slot->report->failures) ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void slot_start(struct slot *slot, struct run *run, uint64_t seed) {
    memset(slot->report, 0, sizeof *slot->report);
    slot->run = run;
    slot->seed = seed;
    slot->dumping = false;
    slot->started = harness_clock();
    slot->timeout = options.timeout ? options.timeout : run->test->timeout ? run->test->timeout : TIMEOUT_S;
    slot->deadline = slot->started + seconds(slot->timeout);
    slot->output = memfd_create("output", MFD_CLOEXEC);
    fflush(NULL);
    slot->pid = fork();
    if (slot->pid < 0 || slot->output < 0) {
        perror("harness: cannot start a test");
        exit(2);
    }
    if (slot->pid == 0)
        child_main(slot);
    setpgid(slot->pid, slot->pid);
}

/* Too slow: ask for a dump, later kill. */
static void slot_late(struct slot *slot) {
    if (slot->dumping) {
        kill(-slot->pid, SIGKILL);
        slot->deadline = INT64_MAX;
    } else {
        kill(slot->pid, SIGUSR1);
        slot->dumping = true;
        slot->deadline = harness_clock() + seconds(DUMP_S);
    }
}

/* What the child printed, unless it is only the line that was shown already. */
static void show_output(const struct slot *slot) {
    char *text = harness_read_back(slot->output), *rest = text;
    size_t reason = strlen(slot->report->reason);
    bool known = text && reason && strncmp(text, slot->report->reason, reason) == 0 && !text[reason + 1];
    for (char *line; text && !known && (line = strsep(&rest, "\n"));)
        if (*line || rest)
            printf("    | %s\n", line);
    free(text);
}

static double in_seconds(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

/* The child has ended: judge, print, free the slot. */
static void slot_end(struct slot *slot, int status, const struct rusage *used) {
    const struct report *report = slot->report;
    const char *name = slot->run->name;
    double took = (double)(harness_clock() - slot->started) / 1e9;
    char reason[600] = "";

    if (slot->dumping)
        snprintf(reason, sizeof reason, "took longer than %jd s", (intmax_t)seconds(slot->timeout) / 1000000000);
    else if (atomic_load(&report->failures))
        snprintf(reason, sizeof reason, "%s", report->reason);
    else if (WIFSIGNALED(status))
        snprintf(reason, sizeof reason, "ended by signal %s", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != EXIT_SKIPPED)
        snprintf(reason, sizeof reason, "exit status %d", WEXITSTATUS(status));

    if (reason[0]) {
        totals.failed++;
        slot->run->failures++;
        snprintf(slot->run->claim, sizeof slot->run->claim, "%s", reason);
        slot->run->crashed |= !slot->dumping && !atomic_load(&report->failures);
        printf("FAIL %s: %s", name, reason);
        if (atomic_load(&report->seed_used))
            printf(" (--seed %llu)", (unsigned long long)slot->seed);
        printf("\n");
    } else if (WEXITSTATUS(status) == EXIT_SKIPPED) {
        totals.skipped++;
        if (options.verbose)
            printf("skip %s: %s\n", name, report->reason);
    } else {
        totals.passed++;
        if (options.verbose)
            printf("ok   %s (%.3f s, CPU %.3f s)\n", name, took,
                   in_seconds(used->ru_utime) + in_seconds(used->ru_stime));
    }
    if (reason[0] || options.verbose)
        show_output(slot);
    fflush(stdout);
    kill(-slot->pid, SIGKILL); /* whatever it left behind */
    close(slot->output);
    slot->run = NULL;
}

/* -- All of them -------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const struct harness_test *x = *(struct harness_test *const *)a, *y = *(struct harness_test *const *)b;
    int file = strcmp(x->file, y->file);
    return file ? file : x->line - y->line;
}

static bool is_wanted(const struct run *run) {
    if (options.sched && strcmp(options.sched, run->sched) != 0)
        return false;
    for (int i = 0; i < options.filter_count; i++)
        if (fnmatch(options.filters[i], run->name, 0) == 0)
            return true;
    return options.filter_count == 0;
}

/* "ring.push_full", "join.result@deque", "join.result@deque/2" */
static void name_run(struct run *run) {
    const char *file = strrchr(run->test->file, '/') ? strrchr(run->test->file, '/') + 1 : run->test->file;
    int length = snprintf(run->name, sizeof run->name, "%.*s.%s", (int)strcspn(file, "."), file, run->test->name);
    size_t used = (size_t)length < sizeof run->name ? (size_t)length : sizeof run->name - 1;
    if (run->workers)
        snprintf(run->name + used, sizeof run->name - used, "@%s/%u", run->sched, run->workers);
    else if (*run->sched)
        snprintf(run->name + used, sizeof run->name - used, "@%s", run->sched);
}

/* All wanted runs, in the order of the source.  In a mapping of their own, not in the heap, all of which every child's leak check reads. */
static struct run *plan(size_t *count) {
    size_t n = 0, room = 0;
    for (struct harness_test *test = tests; test; test = test->next)
        n++;
    struct harness_test **sorted = calloc(n + 1, sizeof(struct harness_test *));
    room = (n + 1) * (sizeof schedulers / sizeof *schedulers) * HARNESS_WORKERS_MAX;
    struct run *runs =
        mmap(NULL, room * sizeof *runs, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!sorted || runs == MAP_FAILED)
        abort();
    n = 0;
    for (struct harness_test *test = tests; test; test = test->next)
        sorted[n++] = test;
    qsort(sorted, n, sizeof *sorted, by_place);

    *count = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t s = 0; s < (sorted[i]->api ? sizeof schedulers / sizeof *schedulers : 1); s++) {
            const char *sched = sorted[i]->api ? schedulers[s] : "";
            if (sorted[i]->api && sorted[i]->sched && !strstr(sorted[i]->sched, sched))
                continue;
            bool is_sim = strcmp(sched, "sim") == 0; /* has one worker, whatever is asked for */
            for (size_t w = 0; w < (is_sim ? 1 : HARNESS_WORKERS_MAX) && (w == 0 || sorted[i]->workers[w]); w++) {
                struct run *run = &runs[*count];
                if (options.most_workers && !is_sim && w + 1 < HARNESS_WORKERS_MAX && sorted[i]->workers[w + 1])
                    continue;
                unsigned workers = is_sim && sorted[i]->workers[w] ? 1 : sorted[i]->workers[w];
                *run = (struct run){.test = sorted[i], .sched = sched, .workers = workers};
                name_run(run);
                *count += is_wanted(run);
            }
        }
    }
    free(sorted);
    return runs;
}

/* Sleep until a child ended or the nearest deadline came; then look after every slot. */
static void attend(struct slot *slots) {
    int64_t until = INT64_MAX, now = harness_clock();
    sigset_t child;
    for (unsigned i = 0; i < options.jobs; i++)
        if (slots[i].run && slots[i].deadline < until)
            until = slots[i].deadline;
    int64_t wait = until == INT64_MAX ? seconds(1) : until > now ? until - now : 0;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigtimedwait(&child, NULL, &(struct timespec){wait / 1000000000, wait % 1000000000});

    for (unsigned i = 0; i < options.jobs; i++) {
        int status;
        struct rusage used;
        if (!slots[i].run)
            continue;
        if (wait4(slots[i].pid, &status, WNOHANG, &used) == slots[i].pid)
            slot_end(&slots[i], status, &used);
        else if (harness_clock() >= slots[i].deadline)
            slot_late(&slots[i]);
    }
}

/* A checker's own tables are globals of many megabytes, never written for the most part, which it reads in every child: at its start, and
 * when it looks for leaks.  Pages that the parent has read are there in its children; else each of them faults on all again. */
static void read_globals(void) {
    extern char __bss_start[], _end[]; /* from the linker */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)__bss_start & -page;
    if (harness_is_slow())
        madvise((void *)first, (uintptr_t)_end - first, MADV_POPULATE_READ); /* since Linux 5.14; without it, slower */
}

static void run_all(struct run *runs, size_t count) {
    uint64_t seeds = (uint64_t)harness_clock() ^ (uint64_t)getpid() << 32;
    size_t total = count * options.repeat, started = 0, active;
    struct slot *slots = calloc(options.jobs, sizeof *slots);
    struct report *reports =
        mmap(NULL, options.jobs * sizeof *reports, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sigset_t child;
    if (!slots || reports == MAP_FAILED)
        abort();
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    do {
        active = 0;
        for (unsigned i = 0; i < options.jobs; i++) {
            if (!slots[i].run && started < total) {
                slots[i].report = &reports[i];
                uint64_t seed = options.has_seed ? options.seed : harness_random(&seeds) >> 32;
                slot_start(&slots[i], &runs[started++ % count], seed);
            }
            active += slots[i].run != NULL;
        }
        if (active)
            attend(slots);
    } while (active || started < total);
    munmap(reports, options.jobs * sizeof *reports);
    free(slots);
}

/* Each test whose claims failed, or that was late, by itself on a machine that does nothing else: one that depends on how busy it is
 * passes now.  That is a defect of the test, or of what it tests, and is said so; it does not count as a failure.  A crash always does. */
static void run_failed_again(struct run *runs, size_t count) {
    unsigned jobs = options.jobs, repeat = options.repeat;
    options.jobs = options.repeat = 1;
    for (size_t i = 0; i < count; i++) {
        unsigned failures = runs[i].failures, passed = totals.passed, failed = totals.failed, good = 0;
        if (!failures || runs[i].crashed)
            continue;
        for (; good < options.again && runs[i].failures == failures; good += runs[i].failures == failures)
            run_all(&runs[i], 1);
        bool unstable = good == options.again;
        totals.passed = passed + (unstable ? failures : 0);
        totals.failed = failed - (unstable ? failures : 0);
        if (unstable)
            printf("UNSTABLE %s: failed, then passed %u times by itself: %s\n", runs[i].name, good, runs[i].claim);
    }
    options.jobs = jobs;
    options.repeat = repeat;
}

static void usage(const char *program) {
    printf("usage: %s [options]\n"
           "  --list           print the tests and the requirements they prove\n"
           "  --filter GLOB    only tests whose name matches: 'ring.*', '*@sim*' (may be repeated)\n"
           "  --sched NAME     only API tests, on this scheduler\n"
           "  --jobs N         tests at a time (default: number of CPUs)\n"
           "  --repeat N       run everything N times\n"
           "  --again N        repeat what failed N times by itself; if it then passes, say so, and do not count it\n"
           "  --most-workers   API tests only with the last of their numbers of workers\n"
           "  --timeout S      seconds a test may take (default 30, times 4 in sanitizer builds)\n"
           "  --seed N         seed of tests that use random numbers\n"
           "  --verbose        show passing tests and what they print\n",
           program);
}

static unsigned number(const char *text) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value == 0 || value > 1000000) {
        fprintf(stderr, "harness: expected a number above 0, found '%s'\n", text);
        exit(2);
    }
    return (unsigned)value;
}

static void parse(int argc, char **argv) {
    cpu_set_t cpus;
    options.jobs = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
    options.repeat = 1;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--list") == 0) {
            options.list = true;
        } else if (strcmp(name, "--verbose") == 0) {
            options.verbose = true;
        } else if (strcmp(name, "--most-workers") == 0) {
            options.most_workers = true;
        } else if (strcmp(name, "--help") == 0) {
            usage(argv[0]);
            exit(0);
        } else if (!value) {
            fprintf(stderr, "harness: unknown option or missing value: %s (see --help)\n", name);
            exit(2);
        } else if (strcmp(name, "--filter") == 0 && options.filter_count < FILTERS_MAX) {
            options.filters[options.filter_count++] = value, i++;
        } else if (strcmp(name, "--sched") == 0) {
            options.sched = value, i++;
        } else if (strcmp(name, "--jobs") == 0) {
            options.jobs = number(value), i++;
        } else if (strcmp(name, "--repeat") == 0) {
            options.repeat = number(value), i++;
        } else if (strcmp(name, "--again") == 0) {
            options.again = number(value), i++;
        } else if (strcmp(name, "--timeout") == 0) {
            options.timeout = number(value), i++;
        } else if (strcmp(name, "--seed") == 0) {
            options.seed = strtoull(value, NULL, 0), options.has_seed = true, i++;
        } else {
            fprintf(stderr, "harness: unknown option %s (see --help)\n", name);
            exit(2);
        }
    }
}

int main(int argc, char **argv) {
    size_t count;
    parse(argc, argv);
    struct run *runs = plan(&count);
    if (options.list) {
        for (size_t i = 0; i < count; i++)
            printf("%s\t%s\n", runs[i].name, runs[i].test->ids);
    } else {
        if (count == 0)
            printf("no test to run\n");
        read_globals();
        run_all(runs, count);
        if (options.again && totals.failed)
            run_failed_again(runs, count);
        printf("%u passed, %u failed", totals.passed, totals.failed);
        printf(totals.skipped ? ", %u skipped\n" : "\n", totals.skipped);
    }
    /* A run without a test proves nothing: it must not look like a success. */
    return options.list ? 0 : totals.failed || count == 0;
}
