/* sim_net.c - the network in memory: the same calls, faults on demand, and the same run from the same seed. */
#include <weft/http.h>

#include "io_fixture.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define ON_SIM .sched = "sim"

struct world {
    weft_sim_net net;
    weft_fiber_fn main;
    uint64_t hash;
    int status;
};

static int world_main(void *arg) {
    struct world *world = arg;
    REQUIRE_EQ(weft_sim_net_open(&world->net), 0);
    return world->main(NULL);
}

static void run_world(struct world *world, uint64_t seed) {
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = WEFT_SCHED_SIM;
    config.seed = seed;
    unsetenv("WEFT_SEED");
    weft_runtime *rt = fixture_begin(&config);
    world->status = fixture_finish(io_go(rt, world_main, world)).status;
    REQUIRE_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    world->hash = weft_sim_hash(rt);
    harness_on_hang(NULL, NULL);
    REQUIRE_EQ(weft_runtime_destroy(rt), 0);
}

static void run_net(weft_fiber_fn fn) {
    struct world world = {.net = WEFT_SIM_NET_INIT, .main = fn};
    run_world(&world, 1);
    CHECK_EQ(world.status, 0);
}

/* -- The same calls ------------------------------------------------------------------------------------------- */

enum { BULK = 200000 };

static int write_bulk(void *out) {
    static char bytes[BULK];
    io_fill(bytes, BULK, 0);
    CHECK_EQ(weft_write(out, bytes, BULK, WEFT_NEVER), BULK);
    return weft_close(out);
}

static int kinds(void *unused) {
    (void)unused;
    static char bytes[BULK];
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        char more;
        REQUIRE(io_pair((enum io_kind)kind, &in, &out));
        CHECK_EQ(weft_io_fd(in), -1);
        CHECK_EQ(weft_read(in, bytes, 8, WEFT_NOW), -ETIMEDOUT);
        CHECK_EQ(weft_read(in, bytes, 8, weft_after(MS)), -ETIMEDOUT);
        weft_task *writer = io_go(NULL, write_bulk, out);
        CHECK_EQ(weft_read_exact(in, bytes, BULK, WEFT_NEVER), BULK);
        CHECK(io_is(bytes, BULK, 0));
        CHECK_EQ(weft_read(in, &more, 1, WEFT_NEVER), 0); /* the end */
        CHECK_EQ(io_join(writer), 0);
        if (kind != IO_PIPE)
            CHECK_EQ(weft_write(in, "x", 1, WEFT_NEVER), -EPIPE);
        CHECK_EQ(weft_close(in), 0);
    }
    weft_io *a, *b; /* half a close */
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    CHECK_EQ(weft_shutdown(a, SHUT_WR), 0);
    CHECK_EQ(weft_read(b, bytes, 1, WEFT_NEVER), 0);
    CHECK_EQ(weft_write(b, "answer", 6, WEFT_NEVER), 6);
    CHECK_EQ(weft_read_exact(a, bytes, 6, WEFT_NEVER), 6);
    CHECK_EQ(weft_write(a, "x", 1, WEFT_NEVER), -EPIPE);
    weft_close(a), weft_close(b);
    REQUIRE(io_pair(IO_TCP, &a, &b)); /* a reset */
    CHECK_EQ(weft_socket_reset_on_close(a, true), 0);
    weft_close(a);
    CHECK_EQ(weft_read(b, bytes, 1, WEFT_NEVER), -ECONNRESET);
    weft_close(b);
    CHECK_EQ(weft_tcp_connect("127.0.0.1", 9, &a, WEFT_NEVER), -ECONNREFUSED);
    return 0;
}
API_TEST(sim_net_kinds, "", ON_SIM) { run_net(kinds); }

static int wait_to_read(void *arg) {
    char byte;
    return (int)weft_read(arg, &byte, 1, WEFT_NEVER);
}

/* Who waits hears of a close, a cancellation and a deadline. */
static int waits(void *unused) {
    (void)unused;
    weft_io *a, *b;
    for (int i = 0; i < 2; i++) {
        REQUIRE(io_pair(IO_TCP, &a, &b));
        weft_task *reader = io_go(NULL, wait_to_read, a);
        io_until_it_waits(reader);
        if (i)
            weft_close(a);
        else
            (void)weft_task_cancel(reader);
        CHECK_EQ(io_join(reader), i ? -EBADF : -ECANCELED);
        if (!i)
            weft_close(a);
        weft_close(b);
    }
    return 0;
}
API_TEST(sim_net_waits, "", ON_SIM) { run_net(waits); }

/* Descriptors from outside are real; both kinds at once. */
static int borrowed(void *unused) {
    (void)unused;
    int fd[2];
    weft_io *in, *out, *a, *b;
    char text[8];
    REQUIRE_EQ(pipe(fd), 0);
    REQUIRE_EQ(weft_io_open(fd[0], WEFT_IO_BORROW, &in), 0);
    REQUIRE_EQ(weft_io_open(fd[1], WEFT_IO_BORROW, &out), 0);
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    weft_task *reader = io_go(NULL, wait_to_read, in), *other = io_go(NULL, wait_to_read, a);
    io_until_it_waits(reader);
    CHECK_EQ(weft_write(out, "real", 4, fixture_soon()), 4);
    CHECK_EQ(io_join(reader), 0); /* 1 is its value, not its status */
    CHECK_EQ(weft_read(in, text, 8, fixture_soon()), 3);
    CHECK_EQ(weft_write(b, "x", 1, fixture_soon()), 1);
    CHECK_EQ(io_join(other), 0);
    weft_close(in), weft_close(out), weft_close(a), weft_close(b);
    close(fd[0]), close(fd[1]);
    return 0;
}
API_TEST(sim_net_borrowed, "", ON_SIM) { run_net(borrowed); }

/* An hour on the way takes no time at all. */
static int slow(void *unused) {
    (void)unused;
    weft_sim_net net = WEFT_SIM_NET_INIT;
    weft_io *a, *b;
    char text[8];
    net.delay_min = net.delay_max = 3600 * SECOND;
    net.whole = 1000000;
    REQUIRE_EQ(weft_sim_net_open(&net), 0);
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    int64_t before = weft_now();
    CHECK_EQ(weft_write(a, "word", 4, WEFT_NEVER), 4);
    CHECK_EQ(weft_read(b, text, 8, weft_after(3599 * SECOND)), -ETIMEDOUT);
    CHECK_EQ(weft_read(b, text, 8, WEFT_NEVER), 4);
    CHECK_GE(weft_now() - before, 3600 * SECOND);
    CHECK_LT(weft_now() - before, 3601 * SECOND);
    weft_close(a);
    CHECK_EQ(weft_read(b, text, 8, weft_after(3599 * SECOND)), -ETIMEDOUT); /* nor has the end come yet */
    CHECK_EQ(weft_read(b, text, 8, WEFT_NEVER), 0);
    return weft_close(b);
}
API_TEST(sim_net_delay, "", ON_SIM) { run_net(slow); }

/* -- A program, and faults ------------------------------------------------------------------------------------ */

#define CLIENTS 4
#define WORDS 6

static struct {
    weft_addr addr;
    unsigned served, asked, answered, broken;
} town;

static int serve(void *io) {
    char text[64];
    ssize_t n;
    while ((n = weft_read(io, text, sizeof text, weft_after(60 * SECOND))) > 0)
        if ((n = weft_write(io, text, (size_t)n, weft_after(60 * SECOND))) < 0)
            break;
    REQUIRE(n == 0 || n == -ECONNRESET || n == -EPIPE);
    town.served++;
    return weft_close(io);
}

static int accept_all(void *listener) {
    weft_io *io;
    int error;
    while ((error = weft_accept(listener, &io, NULL, WEFT_NEVER)) == 0)
        REQUIRE_EQ(weft_fiber_go(NULL, serve, io, NULL), 0);
    return error;
}

/* What comes back is what was sent, in order, or the connection is reset; never anything else, never silence. */
static int ask(void *unused) {
    (void)unused;
    weft_io *io;
    char text[64];
    if (weft_connect(&town.addr, &io, weft_after(60 * SECOND)))
        return 0;
    town.asked++;
    size_t at = 0;
    for (int i = 0; i < WORDS; i++) {
        size_t size = (size_t)i * 9 + 1;
        io_fill(text, size, at);
        ssize_t n = weft_write(io, text, size, weft_after(60 * SECOND));
        if (n == (ssize_t)size)
            n = weft_read_exact(io, text, size, weft_after(60 * SECOND));
        if (n != (ssize_t)size) {
            REQUIRE(n == -ECONNRESET || n == -EPIPE);
            town.broken++;
            break;
        }
        REQUIRE(io_is(text, size, at));
        at += size;
        town.answered += i == WORDS - 1;
    }
    return weft_close(io);
}

static int echo_town(void *unused) {
    (void)unused;
    weft_io *listener;
    weft_task *task[CLIENTS], *server;
    memset(&town, 0, sizeof town);
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &town.addr), 0);
    server = io_go(NULL, accept_all, listener);
    for (int i = 0; i < CLIENTS; i++)
        task[i] = io_go(NULL, ask, NULL);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ(io_join(task[i]), 0);
    while (town.served < town.asked) /* virtual time: a hang would be found */
        (void)weft_sleep(SECOND);
    (void)weft_task_cancel(server);
    CHECK_EQ(io_join(server), -ECANCELED);
    CHECK_EQ(town.answered + town.broken, town.asked);
    CHECK_EQ(town.served, town.asked);
    return weft_close(listener);
}

static const weft_sim_net hard = {.size = sizeof hard, .whole = 300000, .delay_max = 5 * MS, .reset = 5000};

API_TEST(sim_net_replay, "", ON_SIM) {
    struct world one = {.net = hard, .main = echo_town}, two = one;
    uint64_t before = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        run_world(&one, seed);
        unsigned answered = town.answered, broken = town.broken;
        run_world(&two, seed);
        CHECK_EQ(one.hash, two.hash);
        CHECK_EQ(town.answered, answered);
        CHECK_EQ(town.broken, broken);
        CHECK(one.hash != before);
        before = one.hash;
    }
}

API_TEST(sim_net_thousand_seeds, "", ON_SIM, .timeout = 120) {
    unsigned answered = 0, broken = 0;
    for (uint64_t seed = 1; seed <= (harness_is_slow() ? 250 : 1000); seed++) {
        struct world world = {.net = hard, .main = echo_town};
        run_world(&world, harness_seed() * 1000 + seed);
        REQUIRE_EQ(world.status, 0);
        answered += town.answered;
        broken += town.broken;
    }
    printf("%u answered, %u broken\n", answered, broken);
    CHECK_GT(answered, 0);
    CHECK_GT(broken, 0);
}

/* -- Datagrams ------------------------------------------------------------------------------------------------- */

#define DATAGRAMS 2000

static int datagrams(void *unused) {
    (void)unused;
    weft_sim_net net = WEFT_SIM_NET_INIT;
    weft_io *a, *b;
    weft_addr to, from, mine;
    static unsigned char seen[DATAGRAMS];
    unsigned lost = 0, twice = 0, overtaken = 0;
    int last = -1, number;
    net.loss = net.duplicate = net.reorder = 100000;
    net.delay_max = MS;
    REQUIRE_EQ(weft_sim_net_open(&net), 0);
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 0, &to), 0);
    REQUIRE_EQ(weft_udp_open(&to, 0, &b), 0);
    REQUIRE_EQ(weft_udp_open(NULL, AF_INET, &a), 0);
    REQUIRE_EQ(weft_local_addr(b, &to), 0);
    REQUIRE_EQ(weft_local_addr(a, &mine), 0);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < DATAGRAMS; i++) {
        CHECK_EQ(weft_send_to(a, &i, sizeof i, &to, WEFT_NEVER), sizeof i);
        if (i % 10 == 0)
            (void)weft_sleep(MS / 10);
    }
    while (weft_recv_from(b, &number, sizeof number, &from, weft_after(SECOND)) == sizeof number) {
        REQUIRE(number >= 0 && number < DATAGRAMS);
        seen[number]++;
        overtaken += number < last;
        last = number;
    }
    for (int i = 0; i < DATAGRAMS; i++) {
        lost += seen[i] == 0;
        twice += seen[i] == 2;
        REQUIRE_LE(seen[i], 2);
    }
    CHECK_GT(lost, DATAGRAMS / 20);
    CHECK_LT(lost, DATAGRAMS / 5);
    CHECK_GT(twice, DATAGRAMS / 20);
    CHECK_LT(twice, DATAGRAMS / 5);
    CHECK_GT(overtaken, 0);
    return weft_close(a), weft_close(b);
}
API_TEST(sim_net_datagrams, "", ON_SIM) { run_net(datagrams); }

/* -- Partitions and limits --------------------------------------------------------------------------------------- */

static int partition(void *unused) {
    (void)unused;
    weft_io *listener, *a, *b, *other;
    weft_addr addr, peer;
    char text[32];
    REQUIRE_EQ(weft_tcp_listen("10.0.0.1", 80, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    CHECK_EQ(weft_sim_node("10.0.0.2"), 0);
    REQUIRE_EQ(weft_connect(&addr, &a, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_accept(listener, &b, &peer, WEFT_NEVER), 0);
    weft_addr_format(&peer, text, sizeof text);
    CHECK(strncmp(text, "10.0.0.2:", 9) == 0);
    CHECK_EQ(weft_sim_partition("10.0.0.1", "10.0.0.2", true), 0);
    CHECK_EQ(weft_write(a, "word", 4, WEFT_NEVER), 4);
    CHECK_EQ(weft_read(b, text, 8, weft_after(10 * SECOND)), -ETIMEDOUT);
    CHECK_EQ(weft_connect(&addr, &other, weft_after(10 * SECOND)), -ETIMEDOUT);
    CHECK_EQ(weft_sim_node("10.0.0.3"), 0); /* from elsewhere it can be reached */
    REQUIRE_EQ(weft_connect(&addr, &other, weft_after(SECOND)), 0);
    weft_close(other);
    CHECK_EQ(weft_sim_partition("10.0.0.1", "10.0.0.2", false), 0);
    CHECK_EQ(weft_read_exact(b, text, 4, weft_after(SECOND)), 4);
    CHECK_EQ(weft_sim_node("somewhere"), -EINVAL);
    CHECK_EQ(weft_sim_partition("10.0.0.1", "", true), -EINVAL);
    weft_close(a), weft_close(b);
    return weft_close(listener);
}
API_TEST(sim_net_partition, "", ON_SIM) { run_net(partition); }

static int limits(void *unused) {
    (void)unused;
    weft_io *listener, *io[4], *in;
    weft_addr addr;
    weft_listen_options options = WEFT_LISTEN_INIT;
    weft_sim_net net = WEFT_SIM_NET_INIT;
    options.backlog = 2;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, &options, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    CHECK_EQ(weft_listen(&addr, NULL, &in), -EADDRINUSE);
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(weft_connect(&addr, &io[i], weft_after(SECOND)), 0);
    CHECK_EQ(weft_connect(&addr, &io[2], weft_after(SECOND)), -ETIMEDOUT); /* the queue is full */
    net.max_open = 4; /* the listener, two, and one more */
    REQUIRE_EQ(weft_sim_net_open(&net), 0);
    REQUIRE_EQ(weft_accept(listener, &in, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_socketpair(&io[2], &io[3]), -EMFILE);
    CHECK_EQ(weft_accept(listener, &io[2], NULL, weft_after(SECOND)), -ETIMEDOUT); /* turned away */
    char byte;
    CHECK_EQ(weft_read(io[1], &byte, 1, WEFT_NEVER), -ECONNRESET);
    weft_close(in), weft_close(io[0]), weft_close(io[1]);
    net.delay_min = 2, net.delay_max = 1;
    CHECK_EQ(weft_sim_net_open(&net), -EINVAL);
    return weft_close(listener);
}
API_TEST(sim_net_limits, "", ON_SIM) { run_net(limits); }

/* Two who wait for each other: nothing outside can help them. */
static int deadlock(void *unused) {
    (void)unused;
    weft_io *a, *b;
    char byte;
    REQUIRE_EQ(weft_sim_net_open(NULL), 0);
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    ssize_t n = weft_read(a, &byte, 1, WEFT_NEVER);
    weft_close(a), weft_close(b);
    return (int)n;
}
API_TEST(sim_net_deadlock, "", ON_SIM) {
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = WEFT_SCHED_SIM;
    CHECK_EQ(weft_fiber_run(&config, deadlock, NULL, NULL), -EDEADLK);
}

/* On a thread, and in a fiber of another scheduler, there is none. */
static int nowhere(void *unused) {
    (void)unused;
    CHECK_EQ(weft_sim_net_open(NULL), -EINVAL);
    CHECK_EQ(weft_sim_node("127.0.0.1"), -EINVAL);
    CHECK_EQ(weft_sim_partition("127.0.0.1", "127.0.0.2", true), -EINVAL);
    return 0;
}
API_TEST(sim_net_elsewhere, "", .sched = "ring deque fifo reactor") {
    nowhere(NULL);
    io_run(nowhere, NULL);
}

/* -- HTTP -------------------------------------------------------------------------------------------------------- */

static int hello(weft_http *x, void *unused) {
    (void)unused;
    return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
}

static int site(void *listener) { return weft_http_serve(listener, NULL, hello, NULL); }

static int http(void *unused) {
    (void)unused;
    weft_io *listener, *io;
    weft_addr addr;
    char text[512];
    size_t size = 0;
    weft_sim_net net = hard;
    net.reset = 0;
    REQUIRE_EQ(weft_sim_net_open(&net), 0);
    REQUIRE_EQ(weft_tcp_listen(NULL, 80, NULL, &listener), 0);
    REQUIRE_EQ(weft_addr_parse("::1", 80, &addr), 0);
    weft_task *server = io_go(NULL, site, listener);
    static const char request[] = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    REQUIRE_EQ(weft_connect(&addr, &io, WEFT_NEVER), 0);
    CHECK_EQ(weft_write(io, request, sizeof request - 1, WEFT_NEVER), sizeof request - 1);
    for (ssize_t n; size < sizeof text && (n = weft_read(io, text + size, sizeof text - size, WEFT_NEVER)) > 0;)
        size += (size_t)n;
    REQUIRE_GT(size, 6);
    CHECK(memcmp(text, "HTTP/1.1 200", 12) == 0 && memcmp(text + size - 6, "hello\n", 6) == 0);
    weft_close(io);
    (void)weft_task_cancel(server);
    CHECK_EQ(io_join(server), -ECANCELED);
    return weft_close(listener);
}
API_TEST(sim_net_http, "", ON_SIM) { run_net(http); }
