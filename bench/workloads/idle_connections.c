/* idle_connections.c - resident bytes of the server for a connection that is open, has been used, and waits. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net.h"

enum { FIBER, POLL, MOST = 10000, SIZE = 64, FIRST = 100 };

static bool ask_once(int fd) {
    char text[SIZE];
    memset(text, 'x', SIZE);
    return send(fd, text, SIZE, MSG_NOSIGNAL) == SIZE && recv(fd, text, SIZE, MSG_WAITALL) == SIZE;
}

static double measure(struct bench_run *run, enum bench_server kind) {
    struct bench_net net;
    struct rlimit limit;
    if (!bench_net_open(run, kind, SIZE, NULL, &net)) /* raises the limit */
        return 0;
    getrlimit(RLIMIT_NOFILE, &limit);
    int count = run->quick ? 1000 : MOST, opened = 0;
    count = limit.rlim_cur < (rlim_t)count + 200 ? (int)limit.rlim_cur - 200 : count;
    int *fd = calloc((size_t)count, sizeof *fd);
    double before = 0;
    bool good = true;
    for (; good && opened < count; opened++) {
        if (opened == FIRST)
            before = bench_net_rss(&net);
        fd[opened] = bench_net_connect(&net);
        good = fd[opened] >= 0 && ask_once(fd[opened]);
    }
    double after = bench_net_rss(&net);
    bench_check(run, good && before > 0, "connection %d of %d failed", opened, count);
    for (int i = 0; i < opened; i++)
        close(fd[i]);
    free(fd);
    bench_net_close(&net);
    return (after - before) / (count - FIRST);
}

static void idle_connections(struct bench_run *run) {
    run->value[FIBER] = measure(run, BENCH_SERVER_FIBER);
    run->value[POLL] = measure(run, BENCH_SERVER_POLL);
}

const struct bench_workload bench_idle_connections = {
    .name = "idle_connections",
    .about = "10,000 keep-alive connections that wait: resident bytes of the server for each, with fibers and with "
             "poll tasks",
    .kinds = BENCH_POLL | BENCH_FIBER,
    .figures = {{"idle_connection_fiber", "bytes", NULL}, {"idle_connection_poll", "bytes", NULL}},
    .skip = bench_skip_sim,
    .run = idle_connections,
};
