/* echo.c - 64-byte messages over TCP and back: messages a second, and CPU of the server a message, beside a bare epoll loop. */
#include <math.h>
#include <string.h>

#include "net.h"

enum { SIZE = 64, SIZES = 2 };
enum { RATE, CPU, RATIO, URING_CPU, URING_RATIO, FIGURES };

static uint64_t load(struct bench_run *run, enum bench_server kind, struct bench_net *net, unsigned connections) {
    char message[SIZE];
    (void)kind;
    memset(message, 'x', SIZE);
    return bench_net_load(run, net, connections, message, SIZE, SIZE, 100);
}

static void echo(struct bench_run *run) {
    static const unsigned connections[SIZES] = {64, 256};
    const enum bench_server by_epoll[] = {BENCH_SERVER_BARE, bench_net_measured()};
    static const enum bench_server by_uring[] = {BENCH_SERVER_BARE_URING, BENCH_SERVER_FIBER_URING};
    unsigned rounds = run->quick ? 1 : 15; /* short ones: what disturbs one of two servers is rarely there for many */
    for (int i = 0; i < SIZES; i++) {
        double *value = &run->value[i * FIGURES];
        struct bench_load loads[2];
        if (!bench_net_compare(run, by_epoll, 2, SIZE, NULL, connections[i], rounds, load, loads))
            return;
        value[RATE] = loads[1].rate;
        value[CPU] = loads[1].cpu;
        value[RATIO] = loads[1].ratio;
        value[URING_CPU] = value[URING_RATIO] = NAN;
        if (bench_net_is_other() || !bench_has_uring())
            continue;
        if (!bench_net_compare(run, by_uring, 2, SIZE, NULL, connections[i], rounds, load, loads))
            return;
        value[URING_CPU] = loads[1].cpu;
        value[URING_RATIO] = loads[1].ratio;
    }
}

const struct bench_workload bench_echo = {
    .name = "echo",
    .about = "64-byte TCP echo, a fiber a connection, 64 and 256 of them: messages/s, server CPU a message, ratio to "
             "bare epoll; the same on io_uring, to a bare loop on that",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"echo_64", "/s", NULL},
                {"echo_64_cpu", "us", NULL},
                {"echo_64_cpu_ratio", "x", NULL},
                {"echo_64_uring_cpu", "us", NULL},
                {"echo_64_uring_cpu_ratio", "x", NULL},
                {"echo_256", "/s", NULL},
                {"echo_256_cpu", "us", NULL},
                {"echo_256_cpu_ratio", "x", NULL},
                {"echo_256_uring_cpu", "us", NULL},
                {"echo_256_uring_cpu_ratio", "x", NULL}},
    .skip = bench_skip_sim,
    .run = echo,
};
