/* net.c - servers in a child process, and a client that loads them. */
#define _GNU_SOURCE
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1024, EVENTS = 256 };

/* Of the child: what it answers. */
static size_t question_size;
static const char *answer;
static size_t answer_size;

/* -- The floor ---------------------------------------------------------------------------------------------- */

static void serve_bare(int listener) {
    prctl(PR_SET_NAME, "bare"); /* for profiles */
    static char buffer[BUFFER];
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN, .data.fd = listener};
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd, one = 1;
            if (fd == listener) {
                while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    event = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
                    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
                }
                continue;
            }
            ssize_t n = recv(fd, buffer, sizeof buffer, 0);
            if (n <= 0) {
                close(fd);
                continue;
            }
            for (ssize_t done = 0; done < n; done += (ssize_t)question_size)
                if (send(fd, answer ? answer : buffer + done, answer_size, MSG_NOSIGNAL) < 0)
                    break;
        }
    }
}

/* -- Fibers --------------------------------------------------------------------------------------------------- */

static int serve_fiber(void *arg) {
    char buffer[BUFFER];
    ssize_t n;
    while ((n = weft_read(arg, buffer, sizeof buffer, WEFT_NEVER)) > 0)
        for (ssize_t done = 0; done < n; done += (ssize_t)question_size)
            if (weft_write(arg, answer ? answer : buffer + done, answer_size, WEFT_NEVER) < 0)
                break;
    weft_close(arg);
    return 0;
}

/* -- Poll tasks ------------------------------------------------------------------------------------------------ */

struct connection {
    weft_io *io;
    weft_wait wait;
};

static weft_poll serve_poll(weft_task *self, void *state) {
    struct connection *c = state;
    char buffer[BUFFER];
    ssize_t n;
    while ((n = weft_read_poll(c->io, self, &c->wait, buffer, sizeof buffer)) > 0)
        for (ssize_t done = 0; done < n; done += (ssize_t)question_size) {
            weft_wait none = {{NULL}};
            if (weft_write_poll(c->io, self, &none, answer ? answer : buffer + done, answer_size) < 0) {
                weft_wait_end(&none); /* the answers are small: there is room */
                break;
            }
        }
    return n == -EAGAIN ? WEFT_PENDING : weft_done(self, 0, NULL);
}

static void end_poll(void *state) {
    struct connection *c = state;
    weft_wait_end(&c->wait);
    weft_close(c->io);
}

struct weft_server {
    enum bench_server kind;
    weft_io *listener;
};

static int accept_all(void *arg) {
    struct weft_server *server = arg;
    struct connection connection = {.io = NULL};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = serve_poll;
    spec.drop = end_poll;
    spec.state = &connection;
    spec.state_size = sizeof connection;
    int error;
    while ((error = weft_accept(server->listener, &connection.io, NULL, WEFT_NEVER)) == 0)
        if (server->kind == BENCH_SERVER_POLL ? weft_spawn(NULL, &spec, NULL)
                                              : weft_fiber_go(NULL, serve_fiber, connection.io, NULL))
            weft_close(connection.io);
    return error;
}

static void serve_weft(const struct bench_run *run, enum bench_server kind, int listener) {
    struct weft_server server = {.kind = kind};
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = run->workers;
    config.sched = run->sched;
    config.poller = kind == BENCH_SERVER_FIBER_URING ? WEFT_POLLER_URING : WEFT_POLLER_AUTO;
    if (weft_io_open(listener, 0, &server.listener) == 0)
        weft_fiber_run(&config, accept_all, &server, NULL);
}

static int hello(weft_http *x, void *unused) {
    (void)unused;
    return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
}
static int serve_hello(void *listener) { return weft_http_serve(listener, NULL, hello, NULL); }

static void serve_http(const struct bench_run *run, int fd) {
    weft_io *listener;
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = run->workers;
    config.sched = run->sched;
    if (weft_io_open(fd, 0, &listener) == 0)
        weft_fiber_run(&config, serve_hello, listener, NULL);
}

/* -- The child ------------------------------------------------------------------------------------------------- */

static void more_descriptors(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* A peer's, on the listener. */
static void serve_other(const struct bench_run *run, int listener) {
    char command[512];
    int flags = fcntl(listener, F_GETFL);
    snprintf(command, sizeof command, "exec %s %s %u", getenv("WEFT_BENCH_SERVER"), answer ? "http" : "echo",
             run->workers);
    fcntl(listener, F_SETFL, flags & ~O_NONBLOCK);
    if (listener == 3 ? fcntl(3, F_SETFD, 0) == 0 : dup2(listener, 3) == 3)
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
}

bool bench_net_is_other(void) { return getenv("WEFT_BENCH_SERVER") != NULL; }
enum bench_server bench_net_measured(void) { return bench_net_is_other() ? BENCH_SERVER_OTHER : BENCH_SERVER_FIBER; }

/* A server of one worker has a CPU, and whoever loads it another.  Left to the system, the two are now on one and now on two, where a message
 * costs half as much again, and a server that sleeps a little more than the other is taken together more often.  False: there are no two CPUs. */
static bool keep_apart(const struct bench_run *run, bool server) {
    cpu_set_t all, one;
    int cpu = server ? CPU_SETSIZE - 1 : 0;
    if (run->workers != 1 || sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2)
        return false;
    while (!CPU_ISSET(cpu, &all))
        cpu += server ? -1 : 1;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}
static bool apart; /* the client has a CPU of its own */

bool bench_net_open(struct bench_run *run, enum bench_server kind, size_t request, const char *said,
                    struct bench_net *net) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof addr;
    more_descriptors();
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!bench_check(run,
                     listener >= 0 && !bind(listener, (struct sockaddr *)&addr, size) && !listen(listener, 1024) &&
                         !getsockname(listener, (struct sockaddr *)&addr, &size),
                     "no socket to listen on"))
        return false;
    net->port = ntohs(addr.sin_port);
    net->child = fork();
    if (net->child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        keep_apart(run, true);
        question_size = request;
        answer = said;
        answer_size = said ? strlen(said) : request;
        if (kind == BENCH_SERVER_BARE)
            serve_bare(listener);
        else if (kind == BENCH_SERVER_BARE_URING)
            bench_serve_uring(listener, question_size, answer, answer_size);
        else if (kind == BENCH_SERVER_OTHER)
            serve_other(run, listener);
        else if (kind == BENCH_SERVER_HTTP)
            serve_http(run, listener);
        else
            serve_weft(run, kind, listener);
        _exit(1);
    }
    close(listener);
    return bench_check(run, net->child > 0, "no process for the server");
}

void bench_net_close(struct bench_net *net) {
    kill(net->child, SIGKILL);
    waitpid(net->child, NULL, 0);
}

double bench_net_cpu_us(const struct bench_net *net) {
    clockid_t clock;
    struct timespec time = {0, 0};
    if (clock_getcpuclockid(net->child, &clock) == 0)
        clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

double bench_net_rss(const struct bench_net *net) {
    char path[64];
    unsigned long all = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)net->child);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* -- The client -------------------------------------------------------------------------------------------------- */

int bench_net_connect(const struct bench_net *net) {
    struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)net->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr)) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Answers that have come: with a CPU of its own, the client looks for them without sleeping.  Whoever sends to one that sleeps has to wake it on
 * its CPU, which costs as much as several answers where the machine is virtual; how often that happens hangs on which of the two happens to be
 * quicker, and would be counted as the server's work.  0: none for 10 s. */
static int answers_of(int epoll, struct epoll_event *events) {
    int count;
    if (!apart)
        return epoll_wait(epoll, events, EVENTS, 10000);
    int64_t late = bench_now() + INT64_C(10000000000);
    while ((count = epoll_wait(epoll, events, EVENTS, 0)) == 0 && bench_now() < late)
        continue;
    return count;
}

static struct bench_mark mark(const struct bench_net *net) {
    return (struct bench_mark){bench_net_cpu_us(net), bench_now()};
}

uint64_t bench_net_load(struct bench_run *run, struct bench_net *net, unsigned connections, const char *request,
                        size_t request_size, size_t size, unsigned ms) {
    struct peer {
        int fd;
        size_t got;
    } *peers = calloc(connections, sizeof *peers);
    char buffer[BUFFER];
    ssize_t n;
    struct epoll_event events[EVENTS];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    uint64_t answers = 0;
    bool good = peers && epoll >= 0;
    for (unsigned i = 0; good && i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &peers[i]};
        peers[i].fd = bench_net_connect(net);
        good = peers[i].fd >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, peers[i].fd, &event);
    }
    for (unsigned i = 0; good && i < connections; i++) /* each is known to the server when it has answered once */
        good = send(peers[i].fd, request, request_size, MSG_NOSIGNAL) == (ssize_t)request_size;
    for (unsigned i = 0; good && i < connections; i++)
        for (size_t got = 0; good && got < size; got += (size_t)n) {
            n = recv(peers[i].fd, buffer, size - got, 0); /* blocks */
            good = n > 0;
        }
    net->from = mark(net);
    for (unsigned i = 0; good && i < connections; i++)
        good = send(peers[i].fd, request, request_size, MSG_NOSIGNAL) == (ssize_t)request_size;
    for (int64_t end = net->from.at + ms * INT64_C(1000000); good && bench_now() < end;) {
        int count = answers_of(epoll, events);
        if (count < 0 && errno == EINTR) /* the server before this one has ended */
            continue;
        good = bench_check(run, count > 0, "no answer for 10 s");
        for (int i = 0; good && i < count; i++) {
            struct peer *peer = events[i].data.ptr;
            n = recv(peer->fd, buffer, sizeof buffer, 0);
            good = n > 0 && (peer->got += (size_t)n) <= size;
            if (peer->got == size) {
                peer->got = 0;
                answers++;
                good = send(peer->fd, request, request_size, MSG_NOSIGNAL) == (ssize_t)request_size;
            }
        }
    }
    net->to = mark(net);
    bench_check(run, good && answers, "the server ended a connection, or did not accept one");
    for (unsigned i = 0; peers && i < connections; i++)
        if (peers[i].fd > 0)
            close(peers[i].fd);
    close(epoll);
    free(peers);
    return good ? answers : 0;
}

/* -- Several servers ---------------------------------------------------------------------------------------------- */

static double median(double *values, unsigned count) {
    for (unsigned i = 1; i < count; i++)
        for (unsigned j = i; j > 0 && values[j] < values[j - 1]; j--) {
            double swap = values[j];
            values[j] = values[j - 1];
            values[j - 1] = swap;
        }
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static bool compare(struct bench_run *run, const enum bench_server *kinds, unsigned count, size_t request,
                    const char *said, unsigned connections, unsigned rounds, bench_load_fn *load,
                    struct bench_load *loads) {
    enum { ROUNDS_MAX = 16 };
    struct bench_net net[BENCH_SERVERS_MAX];
    double rate[BENCH_SERVERS_MAX][ROUNDS_MAX], cpu[BENCH_SERVERS_MAX][ROUNDS_MAX], ratio[ROUNDS_MAX];
    bool good = true;
    unsigned open = 0;
    for (; good && open < count; open += good)
        good = bench_net_open(run, kinds[open], request, said, &net[open]);
    apart = keep_apart(run, false);
    for (unsigned i = 0; good && i < count; i++)
        good = load(run, kinds[i], &net[i], connections) > 0; /* warm */
    for (unsigned round = 0; good && round < rounds; round++)
        for (unsigned i = 0; good && i < count; i++) {
            net[i].from = mark(&net[i]);
            net[i].to.at = 0;
            uint64_t answers = load(run, kinds[i], &net[i], connections);
            struct bench_mark from = net[i].from, to = net[i].to.at ? net[i].to : mark(&net[i]);
            good = answers > 0;
            rate[i][round] = (double)answers / ((double)(to.at - from.at) / 1e9);
            cpu[i][round] = good ? (to.cpu - from.cpu) / (double)answers : 0;
        }
    for (unsigned i = 0; good && i < count; i++) {
        for (unsigned round = 0; round < rounds; round++)
            ratio[round] = cpu[i][round] / cpu[0][round];
        loads[i].ratio = median(ratio, rounds);
    }
    for (unsigned i = 0; good && i < count; i++) {
        loads[i].rate = median(rate[i], rounds);
        loads[i].cpu = median(cpu[i], rounds);
    }
    while (open > 0)
        bench_net_close(&net[--open]);
    return good;
}

bool bench_net_compare(struct bench_run *run, const enum bench_server *kinds, unsigned count, size_t request,
                       const char *said, unsigned connections, unsigned rounds, bench_load_fn *load,
                       struct bench_load *loads) {
    cpu_set_t before;
    sched_getaffinity(0, sizeof before, &before);
    bool good = compare(run, kinds, count, request, said, connections, rounds, load, loads);
    sched_setaffinity(0, sizeof before, &before);
    return good;
}
