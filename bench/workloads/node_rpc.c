/* node_rpc.c - transactions a second through the node's front door: JSON-RPC over HTTP, in batches, each in a durable block.
 *
 * The node and the client that loads it (`weft tx load`) are children, and share the machine: what is measured is both.  A transaction counts when its receipt was
 * read.  The shards are made before, with a transaction each: that takes syncs of its own.  The program `weft` is looked for beside this one, or is $WEFT.  The store is made where the program runs, or in $WEFT_BENCH_DIR.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../harness/bench.h"

enum { CONNECTIONS = 8, BATCH = 100 };

static char program[300];

static bool find_program(struct bench_run *run) {
    const char *given = getenv("WEFT");
    char self[280];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    self[size > 0 ? size : 0] = 0;
    char *slash = strrchr(self, '/');
    snprintf(program, sizeof program, "%.*s/weft", slash ? (int)(slash - self) : 0, self);
    if (given)
        snprintf(program, sizeof program, "%s", given);
    return bench_check(run, access(program, X_OK) == 0, "there is no %s; WEFT names another", program);
}

/* The node's port, and its process; 0 after a failed check. */
static int start(struct bench_run *run, const char *dir, pid_t *child) {
    int ends[2], port = 0;
    char line[300] = "", workers[16];
    snprintf(workers, sizeof workers, "%u", run->workers);
    if (!bench_check(run, pipe(ends) == 0, "pipe: %s", strerror(errno)))
        return 0;
    *child = fork();
    if (*child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it must not outlive us */
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]), close(ends[1]);
        execl(program, program, "node", "--listen", "127.0.0.1:0", "--workers", workers, dir ? "--data" : "--memory",
              dir, (char *)NULL); /* the first NULL ends it */
        _exit(127);
    }
    close(ends[1]);
    FILE *out = fdopen(ends[0], "r"); /* stays open: the node may say more */
    char *at = out && fgets(line, sizeof line, out) ? strstr(line, "http://127.0.0.1:") : NULL;
    port = at ? atoi(at + 17) : 0;
    bench_check(run, port > 0, "the node said: %s", line);
    return port;
}

static void stop(struct bench_run *run, pid_t child) {
    int status = -1;
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    bench_check(run, WIFEXITED(status) && WEXITSTATUS(status) == 0, "the node ended with %x", (unsigned)status);
}

static double number(const char *json, const char *name) {
    char quoted[40];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(json, quoted);
    return at ? strtod(at + strlen(quoted), NULL) : NAN;
}

static bool submit(struct bench_run *run, int port, unsigned shards, unsigned batch, unsigned count, char answer[600]) {
    char command[600];
    snprintf(command, sizeof command,
             "'%s' tx load --node http://127.0.0.1:%d --shards %u --connections %d --batch %u --count %u --time 60s",
             program, port, shards, CONNECTIONS, batch, count);
    FILE *client = popen(command, "r");
    bool read = client && fgets(answer, 600, client);
    int status = client ? pclose(client) : -1;
    return bench_check(run, read && status == 0 && number(answer, "txs") >= count && number(answer, "failed") == 0,
                       "weft tx load: %d %s", status, answer);
}

static void load(struct bench_run *run, const char *dir, unsigned shards, unsigned count, double *rate, double *p50,
                 double *p99) {
    char answer[600] = "";
    pid_t node = -1;
    int port = start(run, dir, &node);
    if (port && submit(run, port, shards, 1, shards * 2, answer) && submit(run, port, shards, BATCH, count, answer)) {
        *rate = number(answer, "txs_per_s");
        if (p50)
            *p50 = number(answer, "p50_us") / 1000, *p99 = number(answer, "p99_us") / 1000;
    }
    if (node > 0)
        stop(run, node);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void node_rpc(struct bench_run *run) {
    static const unsigned shards[] = {1, 16, 256};
    const char *above = getenv("WEFT_BENCH_DIR");
    unsigned count = run->quick ? 10000 : 200000;
    if (!find_program(run))
        return;
    for (int i = 0; i < 3; i++) {
        char dir[300];
        snprintf(dir, sizeof dir, "%s/weft-bench-XXXXXX", above ? above : ".");
        if (!bench_check(run, mkdtemp(dir) != NULL, "%s cannot be made", dir))
            return;
        load(run, dir, shards[i], count, &run->value[i], i == 1 ? &run->value[4] : NULL, &run->value[5]);
        nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    load(run, NULL, 16, count, &run->value[3], NULL, NULL);
}

const struct bench_workload bench_node_rpc = {
    .name = "node_rpc",
    .about = "durable transactions through JSON-RPC over HTTP, 8 connections, batches of 100: transactions/s",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"node_rpc_1", "tx/s", NULL},
                {"node_rpc_16", "tx/s", NULL},
                {"node_rpc_256", "tx/s", NULL},
                {"node_rpc_memory_16", "tx/s", NULL},
                {"node_rpc_16_p50", "ms", NULL},
                {"node_rpc_16_p99", "ms", NULL}},
    .skip = bench_skip_sim,
    .run = node_rpc,
};
