/* net.h - servers in a child process, and a client that loads them: for echo.c, http.c and idle_connections.c. */
#ifndef BENCH_WORKLOADS_NET_H
#define BENCH_WORKLOADS_NET_H

#include <sys/types.h>

#include "../harness/bench.h"

enum bench_server {
    BENCH_SERVER_BARE,  /* an epoll loop of one thread, without weft: the floor */
    BENCH_SERVER_FIBER, /* weft, a fiber a connection */
    BENCH_SERVER_POLL,  /* weft, a poll task a connection */
    BENCH_SERVER_BARE_URING,  /* the same floor on io_uring */
    BENCH_SERVER_FIBER_URING, /* weft on io_uring */
    BENCH_SERVER_HTTP, /* weft_http_serve: requests are parsed, answers have a Date */
    BENCH_SERVER_OTHER, /* the command in WEFT_BENCH_SERVER, which gets a name and the workers, and the listener as descriptor 3 */
};

struct bench_mark {
    double cpu; /* us that the server has used */
    int64_t at; /* when; 0: not yet */
};

struct bench_net {
    pid_t child;
    int port;
    struct bench_mark from, to; /* what counts of a load; one that connects first moves them */
};

/* The server to measure: a fiber a connection, or in its place the one of a peer (bench/compare). */
bool bench_net_is_other(void);
enum bench_server bench_net_measured(void);

/* Start a server that answers each message of `request` bytes with `answer` (NULL: with itself).  False after a failed check. */
bool bench_net_open(struct bench_run *run, enum bench_server kind, size_t request, const char *answer,
                    struct bench_net *net);
void bench_net_close(struct bench_net *net);
double bench_net_cpu_us(const struct bench_net *net); /* CPU time that the child has used */
double bench_net_rss(const struct bench_net *net); /* resident bytes of the child */

/* A blocking connection to it, or -1. */
int bench_net_connect(const struct bench_net *net);

/* Ask over so many connections, each with one question at a time, for so long.  Returns how many answers came; 0 after a failed check. */
uint64_t bench_net_load(struct bench_run *run, struct bench_net *net, unsigned connections, const char *request,
                        size_t request_size, size_t answer_size, unsigned ms);

/* bare_uring.c.  May this process use io_uring?  Serve with it; returns only when it cannot. */
bool bench_has_uring(void);
void bench_serve_uring(int listener, size_t question, const char *answer, size_t size);

/* What is measured of a server under load: questions a second, us of its CPU a question, and the latter against the first server's. */
struct bench_load {
    double rate, cpu, ratio;
};
#define BENCH_SERVERS_MAX 4u

/* Load several servers in turn, so that whatever slows the machine down for a while slows down all of them: each `rounds` times by
 * `load`, which returns how many answers came; the medians are taken.  False after a failed check. */
typedef uint64_t bench_load_fn(struct bench_run *run, enum bench_server kind, struct bench_net *net,
                               unsigned connections);
bool bench_net_compare(struct bench_run *run, const enum bench_server *kinds, unsigned count, size_t request,
                       const char *answer, unsigned connections, unsigned rounds, bench_load_fn *load,
                       struct bench_load *loads);

#endif
