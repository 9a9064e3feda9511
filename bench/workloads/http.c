/* http.c - HTTP/1.1 with keep-alive: requests a second, and CPU of the server a request, beside a bare epoll loop.
 * The load comes from wrk, when it is installed, or from net.c. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

enum { SIZES = 2 };
enum { RATE, CPU, RATIO, URING_CPU, URING_RATIO, FIGURES };

static const char own_request[] = "GET / HTTP/1.1\r\nHost: bench\r\n\r\n";
static const char response[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";

/* wrk's request is a little longer than ours; the servers answer once for what comes in one piece. */
enum { PIECE = 1 << 20 };

static bool have_wrk(void) { return system("command -v wrk >/dev/null 2>&1") == 0; }

static uint64_t load_by_wrk(struct bench_run *run, const struct bench_net *net, unsigned connections, unsigned ms) {
    char command[128], line[256];
    unsigned long long count = 0;
    bool errors = false;
    snprintf(command, sizeof command, "wrk -t1 -c%u -d%us http://127.0.0.1:%d/", connections, ms < 1000 ? 1 : ms / 1000,
             net->port);
    FILE *wrk = popen(command, "re");
    while (wrk && fgets(line, sizeof line, wrk)) {
        if (strstr(line, "requests in"))
            count = strtoull(line, NULL, 10);
        errors = errors || strstr(line, "Socket errors") || strstr(line, "Non-2xx");
    }
    if (wrk)
        pclose(wrk);
    bench_check(run, count && !errors, "wrk found errors");
    return count;
}

static struct bench_load measure(struct bench_run *run, enum bench_server kind, unsigned connections, bool wrk) {
    struct bench_load load = {0, 0};
    struct bench_net net;
    if (!bench_net_open(run, kind, PIECE, response, &net))
        return load;
    unsigned ms = run->quick ? 200 : 2000;
    size_t asked = sizeof own_request - 1, answered = sizeof response - 1;
    bench_net_load(run, &net, connections, own_request, asked, answered, 100); /* warm */
    double cpu = bench_net_cpu_us(&net);
    int64_t start = bench_now();
    uint64_t count = wrk ? load_by_wrk(run, &net, connections, ms)
                         : bench_net_load(run, &net, connections, own_request, asked, answered, ms);
    load.rate = (double)count / ((double)(bench_now() - start) / 1e9);
    load.cpu = count ? (bench_net_cpu_us(&net) - cpu) / (double)count : 0;
    bench_net_close(&net);
    return load;
}

static void http(struct bench_run *run) {
    static const unsigned connections[SIZES] = {64, 256};
    bool wrk = have_wrk();
    for (int i = 0; i < SIZES; i++) {
        struct bench_load bare = measure(run, BENCH_SERVER_BARE, connections[i], wrk);
        struct bench_load weft = measure(run, bench_net_measured(), connections[i], wrk);
        run->value[i * FIGURES + RATE] = weft.rate;
        run->value[i * FIGURES + CPU] = weft.cpu;
        run->value[i * FIGURES + RATIO] = bare.cpu > 0 ? weft.cpu / bare.cpu : 0;
        run->value[i * FIGURES + URING_CPU] = run->value[i * FIGURES + URING_RATIO] = NAN;
        if (!bench_has_uring())
            continue;
        bare = measure(run, BENCH_SERVER_BARE_URING, connections[i], wrk);
        weft = measure(run, BENCH_SERVER_FIBER_URING, connections[i], wrk);
        run->value[i * FIGURES + URING_CPU] = weft.cpu;
        run->value[i * FIGURES + URING_RATIO] = bare.cpu > 0 ? weft.cpu / bare.cpu : 0;
    }
}

const struct bench_workload bench_http = {
    .name = "http",
    .about =
        "HTTP/1.1 hello with keep-alive, 64 and 256 connections: requests/s, server CPU a request, ratio to bare epoll",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"http_64", "/s", NULL},
                {"http_64_cpu", "us", NULL},
                {"http_64_cpu_ratio", "x", NULL},
                {"http_64_uring_cpu", "us", NULL},
                {"http_64_uring_cpu_ratio", "x", NULL},
                {"http_256", "/s", NULL},
                {"http_256_cpu", "us", NULL},
                {"http_256_cpu_ratio", "x", NULL},
                {"http_256_uring_cpu", "us", NULL},
                {"http_256_uring_cpu_ratio", "x", NULL}},
    .skip = bench_skip_sim,
    .run = http,
};
