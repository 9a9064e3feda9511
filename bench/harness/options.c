/* options.c - the command line of weft-bench. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char help[] =
    "usage: weft-bench [NAME...] [options]\n"
    "\n"
    "Runs benchmarks and checks their answers.  NAME is a workload or one of its figures (see --list);\n"
    "without a name, everything is run.\n"
    "\n"
    "  --list          names and what they measure\n"
    "  --kind K        poll (default) or fiber: what the tasks are\n"
    "  --workers N     with N workers; without it, with one and with two\n"
    "  --sched S       ring, deque, fifo, sim or reactor; without it WEFT_SCHED, or ring\n"
    "  --runs K        runs of each, 5 unless told; the median, least and greatest are shown\n"
    "  --json          one JSON object a line\n"
    "  --quick         a tenth of the work: to see that it works, not how fast\n"
    "  --in-process    no process of its own for each run: for a debugger\n"
    "  --help          this text\n"
    "\n"
    "Exit: 0 all answers were right, 1 one was wrong, 2 wrong arguments.\n";

static int bad(const char *what, const char *value) {
    fprintf(stderr, "weft-bench: %s '%s'\n", what, value);
    return 2 + 1;
}

static int read_number(const char *text, unsigned least, unsigned most, unsigned *out) {
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || value < least || value > most)
        return -EINVAL;
    *out = (unsigned)value;
    return 0;
}

static int read_sched(struct bench_options *options, const char *name) {
    static const struct {
        const char *name;
        weft_sched sched;
    } known[] = {
        {"ring", WEFT_SCHED_RING}, {"deque", WEFT_SCHED_DEQUE},     {"fifo", WEFT_SCHED_FIFO},
        {"sim", WEFT_SCHED_SIM},   {"reactor", WEFT_SCHED_REACTOR},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            options->sched = known[i].sched;
            options->sched_name = known[i].name;
            return 0;
        }
    return bad("unknown scheduler (ring, deque, fifo, sim, reactor):", name);
}

static int read_kind(struct bench_options *options, const char *name) {
    if (strcmp(name, "poll") == 0) {
        options->kind = BENCH_POLL;
        return 0;
    }
    if (strcmp(name, "fiber") == 0) {
        options->kind = BENCH_FIBER;
        return 0;
    }
    return bad("unknown kind (poll, fiber):", name);
}

static int read_valued(struct bench_options *options, const char *name, const char *value) {
    if (strcmp(name, "--kind") == 0)
        return read_kind(options, value);
    if (strcmp(name, "--sched") == 0)
        return read_sched(options, value);
    if (strcmp(name, "--workers") == 0)
        return read_number(value, 1, 1024, &options->workers) ? bad("--workers wants 1 to 1024, not", value) : 0;
    return read_number(value, 1, BENCH_RUNS_MAX, &options->runs) ? bad("--runs wants 1 to 100, not", value) : 0;
}

static bool *flag_of(struct bench_options *options, const char *name) {
    if (strcmp(name, "--json") == 0)
        return &options->json;
    if (strcmp(name, "--quick") == 0)
        return &options->quick;
    if (strcmp(name, "--list") == 0)
        return &options->list;
    if (strcmp(name, "--in-process") == 0)
        return &options->in_process;
    return NULL;
}

static bool takes_value(const char *name) {
    return strcmp(name, "--kind") == 0 || strcmp(name, "--workers") == 0 || strcmp(name, "--sched") == 0 ||
           strcmp(name, "--runs") == 0;
}

/* One argument, at argv[*i]; may take the next one too. */
static int read_argument(struct bench_options *options, int argc, char **argv, int *i) {
    char *name = argv[*i];
    if (name[0] != '-') {
        int figure;
        if (!bench_find(name, &figure))
            return bad("no such bench (see --list):", name);
        options->names[options->name_count++] = name;
        return 0;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        fputs(help, stdout);
        return 0 + 1;
    }
    bool *flag = flag_of(options, name);
    if (flag) {
        *flag = true;
        return 0;
    }
    char *equals = strchr(name, '=');
    if (equals) {
        *equals = '\0';
        return takes_value(name) ? read_valued(options, name, equals + 1) : bad("unknown option", name);
    }
    if (!takes_value(name))
        return bad("unknown option", name);
    if (++*i == argc)
        return bad("a value is missing after", name);
    return read_valued(options, name, argv[*i]);
}

int bench_options_read(struct bench_options *options, int argc, char **argv) {
    memset(options, 0, sizeof *options);
    options->kind = BENCH_POLL;
    options->runs = 5;
    options->names = calloc((size_t)argc + 1, sizeof *options->names);
    if (!options->names)
        return 1 + 1;
    int stop = 0;
    for (int i = 1; i < argc && !stop; i++)
        stop = read_argument(options, argc, argv, &i);
    if (!stop && !options->sched_name) {
        const char *named = getenv("WEFT_SCHED");
        stop = read_sched(options, named && *named ? named : "ring");
    }
    /* The environment would override the config that each run sets, and the label would lie. */
    unsetenv("WEFT_SCHED");
    unsetenv("WEFT_WORKERS");
    if (stop)
        free(options->names);
    return stop;
}
