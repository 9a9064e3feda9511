/* io_faults.c - storms: signals, resets, no descriptors.  Nothing fails that should not, and nothing is left. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "io_fixture.h"

static unsigned descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 400; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* -- EINTR, a thousand times a second ------------------------------------------------------------------------------- */

static atomic_uint alarms;
static void on_alarm(int number) {
    (void)number;
    atomic_fetch_add(&alarms, 1);
}

/* Reads and writes on each scheduler, 10^5 in all; WEFT_TEST_OPERATIONS asks for more (a million, say). */
static long operations_wanted(void) {
    const char *text = getenv("WEFT_TEST_OPERATIONS");
    return text ? atol(text) : harness_is_slow() ? 4000 : 20000;
}

static struct {
    atomic_long left;
    weft_io *end[IO_KINDS][4]; /* in, out, and back */
} interrupted;

static int ask_and_hear(void *arg) {
    weft_io **end = arg;
    char text[40];
    while (atomic_fetch_sub(&interrupted.left, 4) > 0 || atomic_load(&alarms) < 20) {
        REQUIRE_EQ(weft_write(end[1], "0123456789", 10, fixture_soon()), 10);
        REQUIRE_EQ(weft_read_exact(end[2], text, 10, fixture_soon()), 10);
        REQUIRE(memcmp(text, "0123456789", 10) == 0);
    }
    weft_close(end[1]);
    return 0;
}

static int answer(void *arg) {
    weft_io **end = arg;
    char text[40];
    for (ssize_t n; (n = weft_read(end[0], text, sizeof text, fixture_soon())) != 0;) {
        REQUIRE_GT(n, 0);
        REQUIRE_EQ(weft_write(end[3], text, (size_t)n, fixture_soon()), n);
    }
    return 0;
}

API_TEST(io_interrupted_much, "", .workers = {2}, .timeout = 120) {
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct itimerval every = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    weft_task *task[2 * IO_KINDS];
    int tasks = 0;
    weft_runtime *rt = fixture_begin_patient();
    atomic_store(&interrupted.left, operations_wanted());
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io **end = interrupted.end[kind];
        if (!io_pair((enum io_kind)kind, &end[0], &end[1]) || !io_pair((enum io_kind)kind, &end[2], &end[3]))
            end[0] = NULL;
    }
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int kind = 0; kind < IO_KINDS; kind++)
        if (interrupted.end[kind][0]) {
            task[tasks++] = io_go(rt, answer, interrupted.end[kind]);
            task[tasks++] = io_go(rt, ask_and_hear, interrupted.end[kind]);
        }
    for (int i = 0; i < tasks; i++) {
        weft_result result = {1, NULL};
        REQUIRE_EQ(weft_join(task[i], &result, WEFT_NEVER), 0); /* as long as it takes */
        CHECK_EQ(result.status, 0);
        weft_task_drop(task[i]);
    }
    setitimer(ITIMER_REAL, &none, NULL);
    CHECK_GT(atomic_load(&alarms), 10);
    for (int kind = 0; kind < IO_KINDS; kind++)
        if (interrupted.end[kind][0])
            weft_close(interrupted.end[kind][0]), weft_close(interrupted.end[kind][2]),
                weft_close(interrupted.end[kind][3]);
    fixture_end(rt);
}

/* -- Resets ------------------------------------------------------------------------------------------------------------ */

static struct {
    weft_io *listener;
    weft_addr addr;
    atomic_uint served;
    unsigned clients;
    uint64_t seed;
} resets;

static int serve_one(void *arg) {
    char text[64];
    ssize_t n;
    while ((n = weft_read(arg, text, sizeof text, fixture_soon())) > 0)
        if ((n = weft_write(arg, text, (size_t)n, fixture_soon())) < 0)
            break;
    REQUIRE(n == 0 || n == -ECONNRESET || n == -EPIPE);
    CHECK_EQ(weft_close(arg), 0);
    atomic_fetch_add(&resets.served, 1);
    return 0;
}

static int serve(void *unused) {
    (void)unused;
    weft_io *client;
    int error;
    while ((error = weft_accept(resets.listener, &client, NULL, fixture_soon())) == 0)
        REQUIRE_EQ(weft_fiber_go(NULL, serve_one, client, NULL), 0);
    return error == -EBADF ? 0 : error;
}

/* A client that goes at any moment: at once, after it has written, in the middle of an answer. */
static int reset_one(void *arg) {
    uint64_t how = (uintptr_t)arg;
    weft_io *io;
    char text[64];
    memset(text, 'x', sizeof text);
    REQUIRE_EQ(weft_connect(&resets.addr, &io, fixture_soon()), 0);
    REQUIRE_EQ(weft_socket_reset_on_close(io, true), 0);
    if (how & 1)
        CHECK_EQ(weft_write(io, text, sizeof text, fixture_soon()), sizeof text);
    if (how & 2)
        (void)weft_yield();
    if ((how & 5) == 5)
        CHECK_GT(weft_read(io, text, how % 32 + 1, fixture_soon()), 0);
    CHECK_EQ(weft_close(io), 0);
    return 0;
}

static int reset_storm(void *unused) {
    (void)unused;
    unsigned before = descriptors();
    resets.seed = harness_seed();
    resets.clients = fixture_is_slow() ? 200 : 2000;
    atomic_store(&resets.served, 0);
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &resets.listener), 0);
    REQUIRE_EQ(weft_local_addr(resets.listener, &resets.addr), 0);
    weft_task *server = io_go(NULL, serve, NULL), *client[20];
    for (unsigned i = 0; i < resets.clients; i += 20) {
        for (int k = 0; k < 20; k++)
            client[k] = io_go(NULL, reset_one, (void *)(uintptr_t)harness_random(&resets.seed));
        for (int k = 0; k < 20; k++)
            CHECK_EQ(io_join(client[k]), 0);
    }
    /* A connection that was reset before it was accepted may or may not be told of: the count settles, and all is closed. */
    weft_deadline until = weft_after(INT64_C(1000000000));
    weft_io *last;
    REQUIRE_EQ(weft_connect(&resets.addr, &last, fixture_soon()), 0); /* the server still serves */
    char text[4];
    CHECK_EQ(weft_write(last, "ping", 4, fixture_soon()), 4);
    CHECK_EQ(weft_read_exact(last, text, 4, fixture_soon()), 4);
    weft_close(last);
    while (descriptors() > before + 2 && weft_now() < until) /* the listener, and the reserve */
        (void)weft_sleep(1000000);
    CHECK_LE(descriptors(), before + 2); /* back within a second */
    weft_close(resets.listener);
    CHECK_EQ(io_join(server), 0);
    CHECK_LE(atomic_load(&resets.served), resets.clients + 1);
    return 0;
}

static int watch_first(void *fn) { /* the worker's poller is there before descriptors are counted */
    weft_io *a, *b;
    char text[1];
    REQUIRE_EQ(weft_pipe(&a, &b), 0);
    CHECK_EQ(weft_read(a, text, 1, weft_after(1000)), -ETIMEDOUT);
    weft_close(a), weft_close(b);
    return ((weft_fiber_fn)fn)(NULL);
}

API_TEST(io_reset_storm, "", .workers = {1}, .timeout = 60) { io_run(watch_first, reset_storm); }

/* -- No descriptors, not even the reserve -------------------------------------------------------------------------------- */

static int64_t cpu_ns(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static int accept_late(void *listener) {
    weft_io *io;
    int error = weft_accept(listener, &io, NULL, fixture_soon());
    if (!error)
        weft_close(io);
    return error;
}

API_TEST(io_accept_backs_off, "", .sched = "ring deque fifo reactor", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct rlimit was, none;
    weft_io *listener;
    weft_addr addr;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    weft_task *task = io_go(rt, accept_late, listener);
    REQUIRE_EVENTUALLY(!strcmp(weft_task_state(task), "idle"));
    REQUIRE_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    none = was;
    none.rlim_cur = 3; /* what is open stays open */
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    REQUIRE_EQ(connect(fd, (struct sockaddr *)addr.storage, addr.size), 0);
    for (int i = 0; i < 100; i++) /* it has seen the first */
        harness_nap();
    weft_stats before = fixture_stats(rt);
    int64_t cpu = cpu_ns(), began = harness_clock();
    (void)weft_sleep(INT64_C(600000000));
    int64_t took = harness_clock() - began;
    weft_stats after = fixture_stats(rt);
    CHECK_LE(after.polls - before.polls, (uint64_t)(took / 100000000) + 2); /* one wake in 100 ms */
    CHECK_LT((cpu_ns() - cpu) * 100 / took, harness_is_slow() ? 50 : 5); /* per cent */
    CHECK(!weft_task_is_done(task));
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    began = harness_clock();
    REQUIRE_EVENTUALLY(weft_task_is_done(task)); /* the connection that waited is taken */
    CHECK_LT(harness_clock() - began, INT64_C(1000000000));
    CHECK_EQ(fixture_finish(task).status, 0);
    close(fd);
    weft_close(listener);
    fixture_end(rt);
}
