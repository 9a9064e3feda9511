/* main.c - the command line of a model test program: chooses tests and runs each in a process of its own. */
#define _GNU_SOURCE
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "search.h"

extern const struct mc_test *const __start_mc_tests[], *const __stop_mc_tests[]; /* from the linker */

static const char usage[] =
    "usage: %s [options] [NAME or glob]...\n"
    "  --list             the tests, with what they prove\n"
    "  --bound K          at most K preemptions (-1: no limit)\n"
    "  --sleep-sets       all executions, without equivalent ones\n"
    "  --pct D            random priorities, D - 1 changes     --seed S  --execs N (100000)\n"
    "  --random           random walk                          --seed S  --execs N\n"
    "  --then-pct N       when a search meets its limit, go on with N executions of pct\n"
    "  --max-exec N       stop a search after N executions, --seconds S of CPU time (both per test)\n"
    "  --stale-reads K    at most K loads of an execution return an old value\n"
    "  --stale-counts     a load of an old value counts as a preemption\n"
    "  --replay STRING    run one execution, as printed with a bug\n"
    "  --expect-bug       succeed if a bug is found, fail if not\n"
    "  --outcomes         also print what mc_outcome() recorded\n"
    "  --quiet            only failures and the last line\n";

static struct {
    bool list, quiet, stale_counts, expect_bug, outcomes, has_mode, has_bound;
    enum mc_mode mode;
    int bound, depth, stale_reads;
    const char *replay, *program;
    uint64_t max_exec;
    double seconds;
} opt;

/* -- Outcomes ---------------------------------------------------------------------------------------- */
enum { OUTCOMES = 4096 };
static char outcomes[OUTCOMES][64];
static int outcome_count;

/* Is `word` one of the space-separated words in `set`? */
static bool is_in(const char *set, const char *word) {
    size_t n = strlen(word);
    for (const char *s = set; (s = strstr(s, word)) != NULL; s++)
        if ((s == set || s[-1] == ' ') && (s[n] == 0 || s[n] == ' '))
            return true;
    return false;
}

void mc_outcome(const char *format, ...) {
    char text[64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (int i = 0; i < outcome_count; i++)
        if (strcmp(outcomes[i], text) == 0)
            return;
    if (mc.test->outcomes && !is_in(mc.test->outcomes, text))
        mc_fail_at((uintptr_t)__builtin_return_address(0), 0, "outcome %s, not one of: %s", text, mc.test->outcomes);
    if (outcome_count < OUTCOMES)
        memcpy(outcomes[outcome_count++], text, sizeof text);
}

static bool all_outcomes_seen(char *missing, size_t size) {
    const char *s = mc.test->outcomes;
    while (s && *s) {
        size_t n = strcspn(s, " ");
        snprintf(missing, size, "%.*s", (int)n, s);
        bool seen = n == 0;
        for (int i = 0; i < outcome_count; i++)
            seen |= strcmp(outcomes[i], missing) == 0;
        if (!seen)
            return false;
        s += n + (s[n] != 0);
    }
    return true;
}

/* -- One test ---------------------------------------------------------------------------------------- */
static void configure(const struct mc_test *test) {
    mc.test = test;
    mc.mode = opt.has_mode ? opt.mode : test->mode;
    mc.bound = opt.has_bound ? opt.bound : test->bound ? test->bound : 2;
    mc.replaying = opt.replay;
    if (opt.replay && !mc_choices_parse(opt.replay)) {
        fprintf(stderr, "%s: not a replay string: %s\n", opt.program, opt.replay);
        exit(2);
    }
    mc.depth = opt.depth ? opt.depth : test->depth ? test->depth : 3;
    mc.max_steps = test->max_steps ? test->max_steps : 20000;
    mc.stale_depth = test->stale_depth < 0 ? 0 : test->stale_depth ? test->stale_depth : MC_RING - 1;
    if (mc.stale_depth > MC_RING - 1)
        mc.stale_depth = MC_RING - 1;
    mc_limits.stale_counts = test->stale_counts || opt.stale_counts;
    mc.spins = test->spins ? test->spins : 2;
    mc.stale_limit = opt.stale_reads ? opt.stale_reads : test->stale_reads;
    mc_limits.max_exec = opt.max_exec ? opt.max_exec : test->max_exec;
    mc_limits.seconds = opt.seconds > 0 ? opt.seconds : test->seconds;
}

static void print_command(char *text, size_t size) {
    int n = snprintf(text, size, "%s %s ", opt.program, mc.test->name);
    if (opt.stale_reads)
        n += snprintf(text + n, size - (size_t)n, "--stale-reads %d ", opt.stale_reads);
    n += snprintf(text + n, size - (size_t)n, "--replay ");
    mc_choices_print(text + n, size - (size_t)n);
}

/* Run the failing choices again, now writing down what happens. */
static void explain(void) {
    static char command[1 << 16];
    if (mc_is_random())
        mc_minimise();
    struct mc_fault first = mc.fault;
    mc.list->length = mc.list->position < mc.list->length ? mc.list->position : mc.list->length;
    print_command(command, sizeof command);
    mc_trace_reset();
    mc.fault.found = false;
    mc.replaying = mc.tracing = true;
    mc_execute();
    mc.tracing = false;
    if (mc.fault.found != first.found || (first.found && strcmp(mc.fault.message, first.message) != 0)) {
        printf("  the second run of the same choices gave: %s\n", mc.fault.found ? mc.fault.message : "no error");
        mc.fault = first;
    }
    mc_report(command);
}

/* In the child: the exit code is 0 for a pass. */
static int run_test(const struct mc_test *test) {
    mc_engine_init();
    mc_memory_init();
    mc_shadow_init();
    mc_heap_init();
    configure(test);
    mc_watch_crashes();
    struct mc_result r = mc_search();
    bool bug = mc.fault.found, ok = test->expect ? bug && strstr(mc.fault.message, test->expect) : !bug;
    char why[200] = "", missing[64];
    if (test->expect && !bug)
        snprintf(why, sizeof why, ": no bug found, expected \"%s\"", test->expect);
    else if (!bug && r.complete && !all_outcomes_seen(missing, sizeof missing))
        ok = false, snprintf(why, sizeof why, ": outcome %s never seen", missing);
    if (!ok || !opt.quiet) {
        printf("%-4s %-36s %9llu executions ", ok ? "ok" : "FAIL", test->name, (unsigned long long)r.executions);
        if (r.pruned)
            printf("(+%llu pruned) ", (unsigned long long)r.pruned);
        printf("%10llu steps %7.3f s  %s%s%s%s\n", (unsigned long long)r.steps, r.seconds, r.mode,
               bug                                    ? (test->expect ? ", bug found as expected" : ", bug found")
               : r.complete || r.random || opt.replay ? ""
                                                      : ", incomplete",
               test->proves ? "  proves " : "", test->proves ? test->proves : "");
        if (why[0])
            printf("  %s%s\n", test->name, why);
    }
    for (int i = 0; opt.outcomes && i < outcome_count; i++)
        printf("  outcome %s\n", outcomes[i]);
    if ((bug && !ok) || opt.replay)
        explain();
    fflush(stdout);
    mc.list->finished = true;
    return (opt.expect_bug ? bug : ok) ? 0 : 1;
}

static bool run_in_child(const struct mc_test *test) {
    fflush(stdout);
    mc.list->length = mc.list->finished = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_test(test));
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    if (mc.list->finished)
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    static char command[1 << 16];
    mc.test = test;
    mc.mode = mc.list->mode;
    mc.bound = mc.list->bound;
    mc.stale_counts = mc.list->stale_counts;
    print_command(command, sizeof command);
    printf("FAIL %-36s the process ended: %s %d\n  replay: %s\n", test->name,
           WIFSIGNALED(status) ? "signal" : "exit code", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
           command);
    return opt.expect_bug;
}

/* -- Command line ------------------------------------------------------------------------------------ */
static void set_mode(enum mc_mode mode) {
    opt.mode = mode;
    opt.has_mode = true;
}

static const char *value_of(int argc, char **argv, int *i) {
    if (*i + 1 >= argc) {
        fprintf(stderr, "%s: %s needs a value\n", argv[0], argv[*i]);
        exit(2);
    }
    return argv[++*i];
}

/* Moves the names to the front of argv and returns how many there are. */
static int parse(int argc, char **argv) {
    int names = 0;
    opt.program = argv[0];
    mc_limits.execs = 100000;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (a[0] != '-') {
            argv[names++] = argv[i];
        } else if (strcmp(a, "--list") == 0) {
            opt.list = true;
        } else if (strcmp(a, "--quiet") == 0) {
            opt.quiet = true;
        } else if (strcmp(a, "--outcomes") == 0) {
            opt.outcomes = true;
        } else if (strcmp(a, "--expect-bug") == 0) {
            opt.expect_bug = true;
        } else if (strcmp(a, "--bound") == 0) {
            opt.bound = atoi(value_of(argc, argv, &i));
            opt.has_bound = true;
            set_mode(MC_BOUNDED);
        } else if (strcmp(a, "--sleep-sets") == 0) {
            set_mode(MC_SLEEP_SETS);
        } else if (strcmp(a, "--random") == 0) {
            set_mode(MC_RANDOM);
        } else if (strcmp(a, "--pct") == 0) {
            opt.depth = atoi(value_of(argc, argv, &i));
            set_mode(MC_PCT);
        } else if (strcmp(a, "--seed") == 0) {
            mc_limits.seed = strtoull(value_of(argc, argv, &i), NULL, 0);
        } else if (strcmp(a, "--execs") == 0) {
            mc_limits.execs = strtoull(value_of(argc, argv, &i), NULL, 0);
        } else if (strcmp(a, "--then-pct") == 0) {
            mc_limits.then_pct = strtoull(value_of(argc, argv, &i), NULL, 0);
        } else if (strcmp(a, "--max-exec") == 0) {
            opt.max_exec = strtoull(value_of(argc, argv, &i), NULL, 0);
        } else if (strcmp(a, "--seconds") == 0) {
            opt.seconds = atof(value_of(argc, argv, &i));
        } else if (strcmp(a, "--stale-reads") == 0) {
            opt.stale_reads = atoi(value_of(argc, argv, &i));
        } else if (strcmp(a, "--stale-counts") == 0) {
            opt.stale_counts = true;
        } else if (strcmp(a, "--replay") == 0) {
            opt.replay = value_of(argc, argv, &i);
        } else {
            bool help = strcmp(a, "--help") == 0;
            fprintf(help ? stdout : stderr, usage, opt.program);
            exit(help ? 0 : 2);
        }
    }
    return names;
}

static bool selected(const struct mc_test *test, char **names, int count) {
    for (int i = 0; i < count; i++)
        if (fnmatch(names[i], test->name, 0) == 0)
            return true;
    return count == 0;
}

int main(int argc, char **argv) {
    int names = parse(argc, argv), passed = 0, failed = 0;
    mc.list = mmap(NULL, sizeof *mc.list + MC_CHOICES * sizeof mc.list->c[0], PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mc.list == MAP_FAILED)
        return 2;
    for (const struct mc_test *const *t = __start_mc_tests; t < __stop_mc_tests; t++) {
        if (!selected(*t, argv, names))
            continue;
        if (opt.list) {
            printf("%-36s %s\n", (*t)->name, (*t)->proves ? (*t)->proves : "");
            passed++;
            continue;
        }
        if (opt.expect_bug && (*t)->expect)
            continue;
        bool ok = run_in_child(*t);
        passed += ok;
        failed += !ok;
        if (opt.expect_bug && ok)
            break; /* one is enough */
    }
    if (opt.list)
        return 0;
    if (opt.expect_bug) {
        printf("%s\n", passed ? "bug found" : "NO BUG FOUND");
        return passed ? 0 : 1;
    }
    if (passed + failed == 0)
        fprintf(stderr, "%s: no such test\n", opt.program);
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed ? 1 : 0;
}
