/* http.c - HTTP/1.1 with keep-alive: requests a second, and CPU of the server a request, beside a bare epoll loop.
 * The load comes from net.c, in many short rounds; requests a second are those of wrk, when it is installed. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

enum { SIZES = 2 };
enum { RATE, CPU, RATIO, URING_CPU, URING_RATIO, SERVER_CPU, SERVER_RATIO, FIGURES };

static const char own_request[] = "GET / HTTP/1.1\r\nHost: bench\r\n\r\n";
static const char response[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";

/* wrk's request is a little longer than ours; the servers answer once for what comes in one piece. */
enum { PIECE = 1 << 20 };

static bool have_wrk(void) { return system("command -v wrk >/dev/null 2>&1") == 0; }

static uint64_t load_by_wrk(struct bench_run *run, enum bench_server kind, struct bench_net *net,
                            unsigned connections) {
    char command[128], line[256];
    unsigned long long count = 0;
    bool errors = false;
    (void)kind;
    snprintf(command, sizeof command, "wrk -t1 -c%u -d1s http://127.0.0.1:%d/", connections, net->port);
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

static uint64_t load(struct bench_run *run, enum bench_server kind, struct bench_net *net, unsigned connections) {
    size_t date = kind == BENCH_SERVER_HTTP ? sizeof "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" - 1 : 0;
    return bench_net_load(run, net, connections, own_request, sizeof own_request - 1, sizeof response - 1 + date, 100);
}

static void http(struct bench_run *run) {
    static const unsigned connections[SIZES] = {64, 256};
    const enum bench_server by_epoll[] = {BENCH_SERVER_BARE, bench_net_measured(), BENCH_SERVER_HTTP};
    static const enum bench_server by_uring[] = {BENCH_SERVER_BARE_URING, BENCH_SERVER_FIBER_URING};
    unsigned rounds = run->quick ? 1 : 15, served = bench_net_is_other() ? 2 : 3; /* short ones, as in echo.c */
    bool wrk = have_wrk();
    for (int i = 0; i < SIZES; i++) {
        double *value = &run->value[i * FIGURES];
        struct bench_load loads[3], by_wrk;
        if (!bench_net_compare(run, by_epoll, served, PIECE, response, connections[i], rounds, load, loads))
            return;
        if (wrk && !bench_net_compare(run, &by_epoll[1], 1, PIECE, response, connections[i], run->quick ? 1 : 3,
                                      load_by_wrk, &by_wrk))
            return;
        value[RATE] = wrk ? by_wrk.rate : loads[1].rate;
        value[CPU] = loads[1].cpu;
        value[RATIO] = loads[1].ratio;
        value[SERVER_CPU] = served == 3 ? loads[2].cpu : NAN;
        value[SERVER_RATIO] = served == 3 ? loads[2].ratio : NAN;
        value[URING_CPU] = value[URING_RATIO] = NAN;
        if (bench_net_is_other() || !bench_has_uring())
            continue;
        if (!bench_net_compare(run, by_uring, 2, PIECE, response, connections[i], rounds, load, loads))
            return;
        value[URING_CPU] = loads[1].cpu;
        value[URING_RATIO] = loads[1].ratio;
    }
}

const struct bench_workload bench_http = {
    .name = "http",
    .about = "HTTP/1.1 hello with keep-alive, 64 and 256 connections: requests/s, server CPU a request, ratio to bare "
             "epoll; the same on io_uring, to a bare loop on that; and of weft_http_serve, to bare epoll",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"http_64", "/s", NULL},
                {"http_64_cpu", "us", NULL},
                {"http_64_cpu_ratio", "x", NULL},
                {"http_64_uring_cpu", "us", NULL},
                {"http_64_uring_cpu_ratio", "x", NULL},
                {"http_64_server_cpu", "us", NULL},
                {"http_64_server_cpu_ratio", "x", NULL},
                {"http_256", "/s", NULL},
                {"http_256_cpu", "us", NULL},
                {"http_256_cpu_ratio", "x", NULL},
                {"http_256_uring_cpu", "us", NULL},
                {"http_256_uring_cpu_ratio", "x", NULL},
                {"http_256_server_cpu", "us", NULL},
                {"http_256_server_cpu_ratio", "x", NULL}},
    .skip = bench_skip_sim,
    .run = http,
};
