/* io_worlds.c - the same calls on plain threads, in poll tasks, in driven runtimes, and in several runtimes at once. */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/epoll.h>

#include "io_fixture.h"

/* -- Threads --------------------------------------------------------------------------------------------------- */

#define WORDS 300

static int say(void *arg) {
    char text[64];
    for (size_t i = 0; i < WORDS; i++) {
        size_t size = i % 64 + 1;
        io_fill(text, size, i);
        REQUIRE_EQ(weft_write(arg, text, size, fixture_soon()), size);
        REQUIRE_EQ(weft_read_exact(arg, text, size, fixture_soon()), size);
        REQUIRE(io_is(text, size, i));
    }
    CHECK_EQ(weft_close(arg), 0);
    return 0;
}

static int answer(void *arg) {
    char text[64];
    ssize_t n;
    while ((n = weft_read(arg, text, sizeof text, fixture_soon())) > 0)
        REQUIRE_EQ(weft_write(arg, text, (size_t)n, fixture_soon()), n);
    CHECK(n == 0 || n == -ECONNRESET);
    CHECK_EQ(weft_close(arg), 0);
    return 0;
}

static struct {
    weft_runtime *rt;
    weft_io *end[6][2];
} talk;

static void thread_talks(unsigned index, void *unused) {
    (void)unused;
    weft_task *task;
    if (index < 2) /* with a thread */
        index ? say(talk.end[0][0]) : answer(talk.end[0][1]);
    else { /* with a fiber, in either role */
        task = io_go(talk.rt, index % 2 ? say : answer, talk.end[index - 1][0]);
        index % 2 ? answer(talk.end[index - 1][1]) : say(talk.end[index - 1][1]);
        CHECK_EQ(io_join(task), 0);
    }
}

API_TEST(io_threads_and_fibers, "", .workers = {1, 2}) {
    talk.rt = fixture_begin_patient();
    for (int kind = IO_SOCKETPAIR; kind < IO_KINDS; kind++) {
        bool there = true;
        for (int i = 0; i < 6; i++)
            there = io_pair((enum io_kind)kind, &talk.end[i][0], &talk.end[i][1]) && there;
        if (there) {
            harness_threads(6, thread_talks, NULL);
            weft_close(talk.end[5][0]), weft_close(talk.end[5][1]);
        }
    }
    fixture_end(talk.rt);
}

/* -- Poll tasks ------------------------------------------------------------------------------------------------ */

struct connection {
    weft_io *io;
    weft_wait wait;
    size_t at, size; /* what is still to be written */
    char text[64];
};

static struct {
    weft_io *listener;
    weft_addr addr;
    unsigned expected, accepted;
    atomic_uint ended;
} served;

static weft_poll echo(weft_task *self, void *state) {
    struct connection *c = state;
    for (;;) {
        ssize_t n = c->at < c->size ? weft_write_poll(c->io, self, &c->wait, c->text + c->at, c->size - c->at)
                                    : weft_read_poll(c->io, self, &c->wait, c->text, sizeof c->text);
        if (n == -EAGAIN)
            return WEFT_PENDING;
        if (n <= 0)
            return weft_done(self, (int)n, NULL);
        if (c->at < c->size) {
            c->at += (size_t)n;
        } else {
            c->at = 0;
            c->size = (size_t)n;
        }
    }
}

static void end_connection(void *state) {
    struct connection *c = state;
    weft_wait_end(&c->wait);
    CHECK_EQ(weft_close(c->io), 0);
    atomic_fetch_add(&served.ended, 1);
}

struct server {
    weft_wait wait;
};

static weft_poll serve(weft_task *self, void *state) {
    struct server *server = state;
    while (served.accepted < served.expected) {
        struct connection connection = {.io = NULL};
        int error = weft_accept_poll(served.listener, self, &server->wait, &connection.io, NULL);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        REQUIRE_EQ(error, 0);
        served.accepted++;
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = echo;
        spec.state = &connection;
        spec.state_size = sizeof connection;
        spec.drop = end_connection;
        REQUIRE_EQ(weft_spawn(NULL, &spec, NULL), 0);
    }
    return weft_done(self, 0, NULL);
}

static int client(void *unused) {
    (void)unused;
    weft_io *io;
    REQUIRE_EQ(weft_connect(&served.addr, &io, fixture_soon()), 0);
    return say(io);
}

API_TEST(io_poll_tasks_serve, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    struct server server = {.wait = {{NULL}}};
    served.expected = 20;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &served.listener), 0);
    REQUIRE_EQ(weft_local_addr(served.listener, &served.addr), 0);
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = serve;
    spec.state = &server;
    spec.state_size = sizeof server;
    weft_task *task, *asks[20];
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    for (int i = 0; i < 20; i++)
        asks[i] = io_go(rt, client, NULL);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(io_join(asks[i]), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    REQUIRE_EVENTUALLY(served.ended == 20);
    weft_close(served.listener);
    fixture_end(rt);
}

static weft_poll read_one(weft_task *self, void *state) {
    struct connection *c = state;
    ssize_t n = weft_read_poll(c->io, self, &c->wait, c->text, sizeof c->text);
    return n == -EAGAIN ? WEFT_PENDING : weft_done(self, n < 0 ? (int)n : 0, (void *)(intptr_t)n);
}

static void stop_waiting(void *state) { weft_wait_end(&((struct connection *)state)->wait); }

static weft_task *go_read(weft_runtime *rt, weft_io *io) {
    struct connection connection = {.io = io};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = read_one;
    spec.state = &connection;
    spec.state_size = sizeof connection;
    spec.drop = stop_waiting;
    weft_task *task;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    return task;
}

static bool is_idle(weft_task *task) { return !strcmp(weft_task_state(task), "idle"); }

/* Cancelled, closed, woken for no reason, served. */
API_TEST(io_poll_tasks_end, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        if (!io_pair((enum io_kind)kind, &in, &out))
            continue;
        weft_task *a = go_read(rt, in), *b = go_read(rt, in);
        REQUIRE_EVENTUALLY(is_idle(a) && is_idle(b));
        weft_task_cancel(a);
        CHECK_EQ(fixture_finish(a).status, -ECANCELED);
        CHECK_EQ(weft_write(out, "123", 3, fixture_soon()), 3);
        CHECK_EQ((intptr_t)fixture_finish(b).value, 3);
        a = go_read(rt, in), b = go_read(rt, in);
        REQUIRE_EVENTUALLY(is_idle(a) && is_idle(b));
        CHECK_EQ(weft_close(in), 0);
        CHECK_EQ(fixture_finish(a).status, -EBADF);
        CHECK_EQ(fixture_finish(b).status, -EBADF);
        CHECK_EQ(weft_close(out), 0);
    }
    char text[8];
    weft_wait wait = {{NULL}};
    weft_io *in, *out;
    REQUIRE(io_pair(IO_PIPE, &in, &out));
    CHECK_EQ(weft_read_poll(in, NULL, &wait, text, 8), -EINVAL); /* not in a poll task */
    weft_wait_end(&wait); /* waits for nothing */
    weft_close(in), weft_close(out);
    fixture_end(rt);
}

/* -- Driven ---------------------------------------------------------------------------------------------------- */

static weft_runtime *begin_driven(void) {
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    config.park_timeout_ns = -1;
    return fixture_begin(&config);
}

static void two_talk(weft_runtime *rt, weft_task **a, weft_task **b) {
    weft_io *one, *two;
    REQUIRE(io_pair(IO_TCP, &one, &two));
    *a = io_go(rt, say, one);
    *b = io_go(rt, answer, two);
}

static void both_ended(weft_task *a, weft_task *b) {
    CHECK_EQ(fixture_finish(a).status, 0);
    CHECK_EQ(fixture_finish(b).status, 0);
}

API_TEST(io_driven, "", .workers = {1, 2}) {
    weft_runtime *rt = begin_driven();
    weft_task *a, *b;
    two_talk(rt, &a, &b);
    while (!weft_task_is_done(a) || !weft_task_is_done(b))
        REQUIRE_GE(weft_drive(rt, 0), 0);
    both_ended(a, b);
    two_talk(rt, &a, &b);
    while (!weft_task_is_done(a) || !weft_task_is_done(b))
        REQUIRE_GE(weft_drive(rt, 3), 0);
    both_ended(a, b);
    two_talk(rt, &a, &b);
    while (!weft_task_is_done(a) || !weft_task_is_done(b))
        REQUIRE_GE(weft_drive_wait(rt, 0, weft_after(1000000000)), 0);
    both_ended(a, b);
    fixture_end(rt);
}

/* A driver that sleeps for ever in its own loop, and is told of everything by one descriptor. */
static void drive_by_fd(weft_runtime *rt, weft_task *a, weft_task *b, bool nested) {
    int fd = weft_drive_fd(rt), outer = -1;
    REQUIRE_GE(fd, 0);
    CHECK_EQ(weft_drive_fd(rt), fd);
    if (nested) {
        struct epoll_event event = {.events = EPOLLIN};
        outer = epoll_create1(EPOLL_CLOEXEC);
        REQUIRE_EQ(epoll_ctl(outer, EPOLL_CTL_ADD, fd, &event), 0);
    }
    while (!weft_task_is_done(a) || !weft_task_is_done(b)) {
        REQUIRE_GE(weft_drive(rt, 0), 0);
        if (weft_task_is_done(a) && weft_task_is_done(b))
            break;
        weft_deadline next = weft_drive_next(rt);
        int ms = next == WEFT_NEVER ? (int)(harness_patience() / 1000000) : 1 + (int)((next - weft_now()) / 1000000);
        struct pollfd one = {.fd = fd, .events = POLLIN};
        struct epoll_event event;
        int count = nested ? epoll_wait(outer, &event, 1, ms > 0 ? ms : 0) : poll(&one, 1, ms > 0 ? ms : 0);
        if (next == WEFT_NEVER)
            REQUIRE_EQ(count, 1); /* else nobody has told us */
    }
    if (nested)
        close(outer);
}

API_TEST(io_drive_fd, "", .workers = {1}) {
    weft_runtime *rt = begin_driven();
    weft_task *a, *b;
    for (int nested = 0; nested < 2; nested++) {
        two_talk(rt, &a, &b);
        drive_by_fd(rt, a, b, nested);
        both_ended(a, b);
    }
    fixture_end(rt);
    rt = fixture_begin(NULL);
    CHECK_EQ(weft_drive_fd(rt), -EINVAL);
    fixture_end(rt);
}

/* Woken by plain threads, with nothing else to read. */
static struct {
    struct gate gate;
    weft_runtime *rt;
    weft_task *task;
} driven = {.gate = GATE_INIT};

static void drive_or_open(unsigned index, void *unused) {
    (void)unused;
    if (index) {
        REQUIRE_EVENTUALLY(gate_waiting(&driven.gate) == 1);
        gate_open(&driven.gate);
    } else {
        drive_by_fd(driven.rt, driven.task, driven.task, false);
    }
}

API_TEST(io_drive_fd_hears_wakes, "", .workers = {1}) {
    driven.rt = begin_driven();
    for (int i = 0; i < 50; i++) {
        driven.gate.open = false;
        driven.task = fixture_go(driven.rt, fixture_wait_gate, &driven.gate);
        harness_threads(2, drive_or_open, NULL);
        fixture_finish(driven.task);
    }
    fixture_end(driven.rt);
}

/* -- Several runtimes ------------------------------------------------------------------------------------------ */

static int read_word(void *arg) {
    char text[8];
    ssize_t n = weft_read(arg, text, sizeof text, fixture_soon());
    return n == 4 && !memcmp(text, "word", 4) ? 0 : -EPROTO;
}

static int write_word(void *arg) { return weft_write(arg, "word", 4, fixture_soon()) == 4 ? 0 : -EPROTO; }

/* One that is watched by a runtime that is destroyed goes on in another. */
API_TEST(io_outlives_its_runtime, "", .workers = {1, 2}) {
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        if (!io_pair((enum io_kind)kind, &in, &out))
            continue;
        for (int i = 0; i < 3; i++) {
            weft_runtime *rt = fixture_begin_patient();
            weft_task *reader = io_go(rt, read_word, in);
            REQUIRE_EVENTUALLY(is_idle(reader));
            CHECK_EQ(fixture_finish(io_go(rt, write_word, out)).status, 0);
            CHECK_EQ(fixture_finish(reader).status, 0);
            fixture_end(rt);
        }
        CHECK_EQ(write_word(out), 0);
        CHECK_EQ(read_word(in), 0); /* and on a thread */
        weft_close(in), weft_close(out);
    }
}

/* Who waits in one runtime when the other, which watches the descriptor, is destroyed. */
API_TEST(io_watcher_is_destroyed, "", .workers = {1, 2}) {
    for (int i = 0; i < 20; i++) {
        weft_runtime *one = fixture_begin_patient(), *two = fixture_begin_patient();
        weft_io *in, *out;
        REQUIRE(io_pair(i % 2 ? IO_PIPE : IO_TCP, &in, &out));
        weft_task *a = io_go(two, read_word, in);
        REQUIRE_EVENTUALLY(is_idle(a));
        weft_task *b = io_go(one, read_word, in); /* the watch moves */
        REQUIRE_EVENTUALLY(is_idle(b));
        weft_task_cancel(b);
        CHECK_EQ(fixture_finish(b).status, -EPROTO);
        harness_on_hang(NULL, NULL);
        fixture_end(one);
        CHECK_EQ(write_word(out), 0);
        CHECK_EQ(fixture_finish(a).status, 0);
        fixture_end(two);
        weft_close(in), weft_close(out);
    }
}

/* Two runtimes and threads on both ends of many connections, closed by whoever is last. */
API_TEST(io_two_runtimes_talk, "", .workers = {1, 2}) {
    weft_runtime *one = fixture_begin_patient(), *two = fixture_begin_patient();
    weft_task *task[20];
    for (int i = 0; i < 20; i += 2) {
        weft_io *a, *b;
        REQUIRE(io_pair(i % 4 ? IO_UNIX : IO_TCP, &a, &b));
        task[i] = io_go(i % 8 < 4 ? one : two, say, a);
        task[i + 1] = io_go(i % 8 < 4 ? two : one, answer, b);
    }
    for (int i = 0; i < 20; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(one);
    fixture_end(two);
}

/* A descriptor that a task of another runtime waited for last is watched there; when that runtime is stopped, and not yet destroyed, whoever
 * still waits for it is told by his own.  (A pipe: on io_uring a socket's reads are operations.) */
static int read_a_byte(void *in) {
    char byte;
    return weft_read(in, &byte, 1, WEFT_NEVER) == 1 ? 0 : -EIO;
}

static int read_in_vain(void *in) {
    char byte;
    return (int)weft_read(in, &byte, 1, weft_after(1000000));
}

API_TEST(io_stopped_world_lets_go, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient(), *other = fixture_begin_patient();
    weft_io *in, *out;
    REQUIRE(io_pair(IO_PIPE, &in, &out));
    weft_task *reader = io_go(rt, read_a_byte, in);
    while (strcmp(weft_task_state(reader), "idle"))
        harness_nap();
    CHECK_EQ(fixture_finish(io_go(other, read_in_vain, in)).status, -ETIMEDOUT);
    CHECK_EQ(weft_runtime_stop(other, fixture_soon()), 0);
    CHECK_EQ(weft_write(out, "x", 1, fixture_soon()), 1);
    CHECK_EQ(fixture_finish(reader).status, 0);
    weft_close(in), weft_close(out);
    CHECK_EQ(weft_runtime_destroy(other), 0);
    fixture_end(rt);
}
