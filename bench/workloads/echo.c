/* echo.c - 64-byte messages over TCP and back: messages a second, and CPU of the server a message, beside a bare epoll loop. */
#include <math.h>
#include <string.h>

#include "net.h"

enum { SIZE = 64, SIZES = 2 };
enum { RATE, CPU, RATIO, URING_CPU, URING_RATIO, FIGURES };

static struct bench_load measure(struct bench_run *run, enum bench_server kind, unsigned connections) {
    struct bench_load load = {0, 0};
    struct bench_net net;
    char message[SIZE];
    memset(message, 'x', SIZE);
    if (!bench_net_open(run, kind, SIZE, NULL, &net))
        return load;
    unsigned ms = run->quick ? 100 : 1000;
    bench_net_load(run, &net, connections, message, SIZE, SIZE, ms / 5); /* warm */
    double cpu = bench_net_cpu_us(&net);
    int64_t start = bench_now();
    uint64_t count = bench_net_load(run, &net, connections, message, SIZE, SIZE, ms);
    load.rate = (double)count / ((double)(bench_now() - start) / 1e9);
    load.cpu = count ? (bench_net_cpu_us(&net) - cpu) / (double)count : 0;
    bench_net_close(&net);
    return load;
}

static void echo(struct bench_run *run) {
    static const unsigned connections[SIZES] = {64, 256};
    for (int i = 0; i < SIZES; i++) {
        struct bench_load bare = measure(run, BENCH_SERVER_BARE, connections[i]);
        struct bench_load weft = measure(run, bench_net_measured(), connections[i]);
        run->value[i * FIGURES + RATE] = weft.rate;
        run->value[i * FIGURES + CPU] = weft.cpu;
        run->value[i * FIGURES + RATIO] = bare.cpu > 0 ? weft.cpu / bare.cpu : 0;
        run->value[i * FIGURES + URING_CPU] = run->value[i * FIGURES + URING_RATIO] = NAN;
        if (!bench_has_uring())
            continue;
        bare = measure(run, BENCH_SERVER_BARE_URING, connections[i]);
        weft = measure(run, BENCH_SERVER_FIBER_URING, connections[i]);
        run->value[i * FIGURES + URING_CPU] = weft.cpu;
        run->value[i * FIGURES + URING_RATIO] = bare.cpu > 0 ? weft.cpu / bare.cpu : 0;
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
