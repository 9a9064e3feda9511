/* sim_select.c - selects over the network in memory: one case happens, when its bytes arrive in virtual time, and a seed repeats the run. */
#include "io_fixture.h"

#define MS INT64_C(1000000)
#define ON_SIM .sched = "sim"

static weft_runtime *begin(uint64_t seed) {
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = WEFT_SCHED_SIM;
    config.seed = seed;
    unsetenv("WEFT_SEED");
    return fixture_begin(&config);
}

static void delayed(int64_t ns) {
    weft_sim_net net = WEFT_SIM_NET_INIT;
    net.whole = 1000000;
    net.delay_min = net.delay_max = ns;
    REQUIRE_EQ(weft_sim_net_open(&net), 0);
}

/* -- What it does ---------------------------------------------------------------------------------------------- */

/* As on real descriptors (select_io.c): ready or not, of every kind. */
static int ready_or_not(void *unused) {
    (void)unused;
    delayed(0);
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        char text[8];
        REQUIRE(io_pair((enum io_kind)kind, &in, &out));
        weft_case cases[] = {weft_case_io(in, WEFT_FD_READ), {0}, weft_case_io(out, WEFT_FD_WRITE)};
        CHECK_EQ(weft_select(cases, 2, WEFT_NOW), -ETIMEDOUT);
        weft_deadline until = weft_after(3600000 * MS); /* which takes no time */
        CHECK_EQ(weft_select(cases, 2, until), -ETIMEDOUT);
        CHECK_GE(weft_now(), until);
        CHECK_EQ(weft_select(cases, 3, WEFT_NEVER), 2);
        CHECK_EQ(cases[2].result, WEFT_FD_WRITE);
        CHECK_EQ(weft_write(out, "word", 4, WEFT_NEVER), 4);
        CHECK_EQ(weft_select(cases, 2, WEFT_NEVER), 0);
        CHECK_EQ(cases[0].result, WEFT_FD_READ);
        CHECK_EQ(weft_select(cases, 1, WEFT_NOW), 0); /* still: nothing was read */
        CHECK_EQ(weft_read_exact(in, text, 4, WEFT_NOW), 4);
        CHECK_EQ(weft_select(cases, 2, weft_after(MS)), -ETIMEDOUT);
        CHECK_EQ(weft_close(out), 0);
        CHECK_EQ(weft_select(cases, 1, WEFT_NEVER), 0); /* the end can be read */
        CHECK_EQ(weft_read(in, text, 8, WEFT_NOW), 0);
        cases[1] = weft_case_io(in, WEFT_FD_READ | WEFT_FD_WRITE);
        CHECK_EQ(weft_select(cases + 1, 1, WEFT_NEVER), 0);
        CHECK_EQ(cases[1].result, -EINVAL);
        CHECK_EQ(weft_close(in), 0);
    }
    return 0;
}
API_TEST(sim_select_ready, "R27", ON_SIM) { io_run(ready_or_not, NULL); }

static int drain_one(void *io) {
    char bytes[100];
    return weft_read(io, bytes, sizeof bytes, WEFT_NEVER) > 0 ? 0 : -1;
}

/* Room to write, a connection to accept, a datagram, a reset, a shut direction. */
static int others(void *unused) {
    (void)unused;
    weft_sim_net net = WEFT_SIM_NET_INIT;
    net.buffer = 100;
    REQUIRE_EQ(weft_sim_net_open(&net), 0);
    weft_io *a, *b, *listener, *udp;
    weft_addr addr;
    char bytes[200] = {0};
    REQUIRE(io_pair(IO_TCP, &a, &b));
    while (weft_try_write(b, bytes, 100) > 0)
        ;
    weft_case room = weft_case_io(b, WEFT_FD_WRITE);
    CHECK_EQ(weft_select(&room, 1, weft_after(MS)), -ETIMEDOUT);
    weft_task *reader = io_go(NULL, drain_one, a);
    CHECK_EQ(weft_select(&room, 1, WEFT_NEVER), 0);
    CHECK_EQ(room.result, WEFT_FD_WRITE);
    CHECK_EQ(io_join(reader), 0);
    CHECK_EQ(weft_socket_reset_on_close(a, true), 0);
    CHECK_EQ(weft_close(a), 0);
    weft_case gone = weft_case_io(b, WEFT_FD_READ);
    CHECK_EQ(weft_select(&gone, 1, WEFT_NEVER), 0);
    CHECK_EQ(weft_read(b, bytes, 1, WEFT_NOW), -ECONNRESET);
    CHECK_EQ(weft_close(b), 0);

    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    weft_case in[] = {weft_case_io(listener, WEFT_FD_READ), weft_case_io(listener, WEFT_FD_WRITE)};
    CHECK_EQ(weft_select(in, 2, weft_after(MS)), -ETIMEDOUT);
    REQUIRE_EQ(weft_connect(&addr, &a, WEFT_NEVER), 0);
    CHECK_EQ(weft_select(in, 2, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_accept(listener, &b, NULL, WEFT_NOW), 0);
    CHECK_EQ(weft_select(in, 2, WEFT_NOW), -ETIMEDOUT);
    weft_close(a), weft_close(b), weft_close(listener);

    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 0, &addr), 0);
    REQUIRE_EQ(weft_udp_open(&addr, AF_INET, &udp), 0);
    REQUIRE_EQ(weft_local_addr(udp, &addr), 0);
    weft_case datagram = weft_case_io(udp, WEFT_FD_READ), send = weft_case_io(udp, WEFT_FD_WRITE);
    CHECK_EQ(weft_select(&send, 1, WEFT_NEVER), 0);
    CHECK_EQ(weft_select(&datagram, 1, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft_send_to(udp, "x", 1, &addr, WEFT_NEVER), 1);
    CHECK_EQ(weft_select(&datagram, 1, WEFT_NEVER), 0);
    CHECK_EQ(weft_recv_from(udp, bytes, 1, NULL, WEFT_NOW), 1);
    weft_close(udp);
    return 0;
}
API_TEST(sim_select_others, "R27", ON_SIM) { io_run(others, NULL); }

/* Bytes are there when they arrive, and not when they are sent; a timer before that comes first. */
static int arrival(void *unused) {
    (void)unused;
    delayed(10 * MS);
    weft_io *a, *b;
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    int64_t sent = weft_now();
    CHECK_EQ(weft_write(a, "x", 1, WEFT_NEVER), 1);
    weft_case cases[] = {weft_case_io(b, WEFT_FD_READ), weft_case_at(sent + 5 * MS), weft_case_at(sent + 50 * MS)};
    CHECK_EQ(weft_select(cases, 3, WEFT_NEVER), 1);
    CHECK_GE(weft_now(), sent + 5 * MS);
    CHECK_LT(weft_now(), sent + 10 * MS);
    cases[1].kind = NULL;
    CHECK_EQ(weft_select(cases, 3, WEFT_NEVER), 0);
    CHECK_GE(weft_now(), sent + 10 * MS);
    CHECK_LT(weft_now(), sent + 12 * MS); /* timers are a millisecond late at most */
    char byte;
    CHECK_EQ(weft_read(b, &byte, 1, WEFT_NOW), 1);
    CHECK_EQ(weft_select(cases, 3, WEFT_NEVER), 2);
    CHECK_GE(weft_now(), sent + 50 * MS);
    weft_close(a);
    CHECK_EQ(weft_select(cases, 1, weft_after(5 * MS)), -ETIMEDOUT); /* the end takes its time as well */
    CHECK_EQ(weft_select(cases, 1, WEFT_NEVER), 0);
    CHECK_EQ(weft_read(b, &byte, 1, WEFT_NOW), 0);
    weft_close(b);
    return 0;
}
API_TEST(sim_select_arrival, "R27", ON_SIM) { io_run(arrival, NULL); }

/* -- Ended otherwise --------------------------------------------------------------------------------------------- */

static int wait_for_it(void *io) {
    weft_case c = weft_case_io(io, WEFT_FD_READ);
    int index = weft_select(&c, 1, WEFT_NEVER);
    return index ? index : c.result;
}

static int ended(void *unused) {
    (void)unused;
    delayed(0);
    weft_io *a, *b;
    for (int i = 0; i < 2; i++) {
        REQUIRE_EQ(weft_socketpair(&a, &b), 0);
        weft_task *task = io_go(NULL, wait_for_it, a);
        io_until_it_waits(task);
        if (i)
            weft_close(a);
        else
            (void)weft_task_cancel(task);
        CHECK_EQ(io_join(task), i ? -EBADF : -ECANCELED);
        if (!i)
            weft_close(a);
        weft_close(b);
    }
    return 0;
}
API_TEST(sim_select_ended, "R27", ON_SIM) { io_run(ended, NULL); }

static void elsewhere(unsigned index, void *io) {
    (void)index;
    weft_case c = weft_case_io(io, WEFT_FD_READ);
    CHECK_EQ(weft_select(&c, 1, WEFT_NEVER), 0);
    CHECK_EQ(c.result, -EINVAL);
}

/* It is its runtime's: a plain thread is told so. */
static int strangers(void *unused) {
    (void)unused;
    delayed(0);
    weft_io *a, *b;
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    harness_threads(1, elsewhere, a);
    weft_close(a), weft_close(b);
    return 0;
}
API_TEST(sim_select_strangers, "", ON_SIM) { io_run(strangers, NULL); }

/* -- Two connections and a timer, from a seed ------------------------------------------------------------------------ */

enum { PIECES = 40 };
struct trial {
    weft_io *out[2];
    unsigned seen[3]; /* bytes of each connection, and times */
    uint64_t story; /* which case, and when */
};

static int write_pieces(void *io) {
    for (int i = 0; i < PIECES; i++) {
        CHECK_EQ(weft_sleep((i % 7) * 300000), 0);
        CHECK_EQ(weft_write(io, "x", 1, WEFT_NEVER), 1);
    }
    return weft_close(io);
}

static int trial(void *arg) {
    struct trial *t = arg;
    weft_sim_net net = WEFT_SIM_NET_INIT;
    net.delay_max = 2 * MS;
    REQUIRE_EQ(weft_sim_net_open(&net), 0);
    weft_io *in[2];
    weft_task *writer[2];
    weft_case cases[3] = {{0}, {0}, {0}};
    for (int i = 0; i < 2; i++) {
        REQUIRE(io_pair(IO_TCP, &in[i], &t->out[i]));
        writer[i] = io_go(NULL, write_pieces, t->out[i]);
        cases[i] = weft_case_io(in[i], WEFT_FD_READ);
    }
    for (int open = 2; open;) {
        char byte[2];
        cases[2] = weft_case_at(weft_after(500000));
        int index = weft_select(cases, 3, WEFT_NEVER);
        REQUIRE(index >= 0 && index < 3);
        t->story = (t->story ^ (uint64_t)(weft_now() + index)) * UINT64_C(0x100000001b3);
        if (index == 2) {
            CHECK_GE(weft_now(), cases[2].at);
            t->seen[2]++;
            continue;
        }
        CHECK_EQ(cases[index].result, WEFT_FD_READ);
        ssize_t n = weft_read(in[index], byte, 1, WEFT_NOW); /* it need not wait */
        REQUIRE(n == 0 || n == 1);
        t->seen[index] += (unsigned)n;
        if (n == 0) {
            cases[index].kind = NULL;
            open--;
        }
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(io_join(writer[i]), 0);
        CHECK_EQ(weft_close(in[i]), 0);
    }
    return 0;
}

static struct trial run_trial(uint64_t seed, uint64_t *hash) {
    struct trial t = {.story = 1};
    weft_runtime *rt = begin(seed);
    CHECK_EQ(fixture_finish(io_go(rt, trial, &t)).status, 0);
    REQUIRE_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    *hash = weft_sim_hash(rt);
    harness_on_hang(NULL, NULL);
    REQUIRE_EQ(weft_runtime_destroy(rt), 0);
    CHECK_EQ(t.seen[0], PIECES); /* nothing lost, nothing twice */
    CHECK_EQ(t.seen[1], PIECES);
    return t;
}

API_TEST(sim_select_replay, "R27", ON_SIM) {
    uint64_t last = 0, timers = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t one, two;
        struct trial first = run_trial(harness_seed() + seed, &one), second = run_trial(harness_seed() + seed, &two);
        CHECK_EQ(one, two);
        CHECK_EQ(first.story, second.story);
        CHECK(first.story != last); /* another seed, another run */
        last = first.story;
        timers += first.seen[2];
    }
    CHECK_GT(timers, 0);
}
