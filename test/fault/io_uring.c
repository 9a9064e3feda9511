/* io_uring.c - the poller on io_uring where the system refuses it, where others close what it watches, deadlines against data. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../api/io_fixture.h"
#include "sweep.h"

static weft_runtime *begin(weft_poller poller) {
    weft_config config = WEFT_CONFIG_INIT;
    config.park_timeout_ns = -1;
    config.poller = poller;
    unsetenv("WEFT_IO");
    return fixture_begin(&config);
}

static void require_uring(void) {
    int error = wefti_uring_probe();
    if (error)
        SKIP("no io_uring here: %s", strerror(-error));
}

/* -- Many who talk ---------------------------------------------------------------------------------------------- */

#define PAIRS 40
#define WORDS 50

static int answer(void *arg) {
    char text[64];
    ssize_t n;
    while ((n = weft_read(arg, text, sizeof text, fixture_soon())) > 0)
        REQUIRE_EQ(weft_write(arg, text, (size_t)n, fixture_soon()), n);
    CHECK_EQ(n, 0);
    CHECK_EQ(weft_close(arg), 0);
    return 0;
}

static int ask(void *arg) {
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

/* All kinds of pairs, and waits for foreign descriptors. */
static void talk(weft_runtime *rt) {
    weft_task *task[2 * PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        weft_io *a, *b;
        static const enum io_kind kind[] = {IO_TCP, IO_SOCKETPAIR, IO_UNIX};
        REQUIRE(io_pair(kind[i % 3], &a, &b));
        task[2 * i] = io_go(rt, answer, a);
        task[2 * i + 1] = io_go(rt, ask, b);
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
}

/* -- Refused ---------------------------------------------------------------------------------------------------- */

API_TEST(io_uring_is_chosen, "B57", .workers = {2}) {
    weft_runtime *rt = begin(WEFT_POLLER_AUTO);
    CHECK_STR(weft_runtime_poller(rt), "epoll");
    fixture_end(rt);
    rt = begin(WEFT_POLLER_EPOLL);
    CHECK_STR(weft_runtime_poller(rt), "epoll");
    fixture_end(rt);
    require_uring();
    rt = begin(WEFT_POLLER_URING);
    CHECK_STR(weft_runtime_poller(rt), "uring");
    talk(rt);
    fixture_end(rt);
}

/* Absent, forbidden, too old, no memory, no descriptors: epoll does it all. */
API_TEST(io_uring_is_refused, "", .workers = {2}) {
    static const int errors[] = {ENOSYS, EPERM, EACCES, EINVAL, ENOMEM, EMFILE, ENFILE};
    for (unsigned i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        wefti_uring_limit(errors[i], 0);
        weft_runtime *rt = begin(WEFT_POLLER_URING);
        CHECK_STR(weft_runtime_poller(rt), "epoll");
        if (i == 0)
            talk(rt);
        fixture_end(rt);
    }
}

/* A filter that allows to make rings, and forbids to use them: it stays until the test's process ends. */
static void forbid(long call, unsigned error) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        SKIP("no filters of system calls here");
}

API_TEST(io_uring_cannot_be_entered, "", .workers = {2}) {
    forbid(SYS_io_uring_enter, EPERM);
    weft_runtime *rt = begin(WEFT_POLLER_URING);
    CHECK_STR(weft_runtime_poller(rt), "epoll");
    talk(rt);
    fixture_end(rt);
}

/* Refused only when the workers come to make theirs. */
API_TEST(io_uring_is_refused_late, "", .workers = {2}) {
    require_uring();
    weft_runtime *rt = begin(WEFT_POLLER_URING);
    CHECK_STR(weft_runtime_poller(rt), "uring");
    wefti_uring_limit(ENOMEM, 0);
    talk(rt);
    fixture_end(rt);
}

/* Any step of making one.  The reader always gets to where it needs its worker's poller: nothing is there before it waits or has failed. */
static bool made; /* whoever waits has a poller */

static int read_or_fail(void *arg) {
    char byte;
    ssize_t n = weft_read(arg, &byte, 1, fixture_soon());
    CHECK(n == 0 || n == -ENOMEM || n == -EMFILE);
    CHECK_EQ(weft_close(arg), 0);
    return 0;
}

static void one_pair(void) {
    weft_io *in, *out;
    weft_config config = WEFT_CONFIG_INIT;
    weft_runtime *rt;
    weft_task *task;
    config.workers = 1;
    config.poller = WEFT_POLLER_URING;
    if (weft_socketpair(&in, &out))
        return;
    if (weft_runtime_create(&config, &rt) == 0) {
        if (weft_fiber_go(rt, read_or_fail, in, &task) == 0) {
            REQUIRE_EVENTUALLY(weft_task_is_done(task) || !strcmp(weft_task_state(task), "idle"));
            made |= !weft_task_is_done(task);
            CHECK_EQ(weft_shutdown(out, SHUT_WR), 0);
            weft_result result;
            REQUIRE_EQ(weft_join(task, &result, fixture_soon()), 0);
            weft_task_drop(task);
            if (result.status) /* -ENOMEM: it never began */
                weft_close(in);
        } else {
            weft_close(in);
        }
        CHECK_EQ(weft_runtime_destroy(rt), 0);
    } else {
        weft_close(in);
    }
    weft_close(out);
}

TEST(io_uring_fails_anywhere, "") {
    unsetenv("WEFT_IO");
    sweep(one_pair);
    CHECK(made);
}

/* -- Closing ---------------------------------------------------------------------------------------------------- */

/* A worker that is asleep lets go of what others close. */
static int read_end(void *arg) {
    char byte;
    return (int)weft_read(arg, &byte, 1, fixture_soon());
}

API_TEST(io_uring_closed_by_others, "", .workers = {1, 2}) {
    require_uring();
    weft_runtime *rt = begin(WEFT_POLLER_URING);
    for (int i = 0; i < 100; i++) {
        weft_io *a, *b;
        REQUIRE(io_pair(IO_TCP, &a, &b));
        weft_task *reader = io_go(rt, read_end, a);
        while (strcmp(weft_task_state(reader), "idle"))
            harness_nap();
        CHECK_EQ(weft_close(a), 0);
        CHECK_EQ(fixture_finish(reader).status, -EBADF);
        CHECK_EQ(read_end(b), 0); /* its peer hears of it */
        CHECK_EQ(weft_close(b), 0);
    }
    fixture_end(rt);
}

/* A port is free again as soon as its listener is closed. */
static int listen_again(void *unused) {
    (void)unused;
    weft_addr addr;
    weft_io *listener, *io;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(weft_accept(listener, &io, NULL, weft_after(1000)), -ETIMEDOUT);
        CHECK_EQ(weft_close(listener), 0);
        REQUIRE_EQ(weft_listen(&addr, NULL, &listener), 0);
    }
    return weft_close(listener);
}

API_TEST(io_uring_listens_again, "", .workers = {1, 2}) {
    require_uring();
    weft_runtime *rt = begin(WEFT_POLLER_URING);
    CHECK_EQ(fixture_finish(io_go(rt, listen_again, NULL)).status, 0);
    fixture_end(rt);
}

/* -- Operations -------------------------------------------------------------------------------------------------- */

/* A deadline against data that comes at about the same time: every byte is read once, in order, whoever wins; the
 * buffer is on the stack of a call that has returned, so ASan sees what comes late. */
static struct {
    weft_io *in, *out;
    size_t read, late, total;
    atomic_uint random; /* reader and writer draw from it */
} race;

static uint32_t draw(uint32_t below) {
    uint32_t drawn = atomic_fetch_add(&race.random, 0x9e3779b9u);
    drawn = (drawn ^ drawn >> 16) * 0x85ebca6bu;
    return (drawn >> 8) % below;
}

static int __attribute__((noinline)) read_one(weft_deadline until) {
    unsigned char bytes[32];
    memset(bytes, 0xee, sizeof bytes);
    ssize_t n = weft_read(race.in, bytes, sizeof bytes, until);
    if (n > 0) {
        REQUIRE(io_is(bytes, (size_t)n, race.read));
        CHECK_EQ(n < 32 ? bytes[n] : 0xee, 0xee);
        race.read += (size_t)n;
    }
    race.late += n == -ETIMEDOUT;
    REQUIRE(n > 0 || n == -ETIMEDOUT);
    return (int)n;
}

static int write_sometimes(void *unused) {
    (void)unused;
    for (size_t i = 0; i < race.total; i++) {
        unsigned char byte = io_byte(i);
        for (uint32_t yields = draw(4); yields; yields--)
            (void)weft_yield();
        REQUIRE_EQ(weft_write(race.out, &byte, 1, fixture_soon()), 1);
    }
    return 0;
}

static int deadline_race(void *unused) {
    (void)unused;
    weft_task *writer = io_go(NULL, write_sometimes, NULL);
    while (race.read < race.total)
        (void)read_one(weft_after(draw(20000)));
    return io_join(writer);
}

static void run_race(weft_fiber_fn fn, bool tcp) {
    require_uring();
    weft_runtime *rt = begin(WEFT_POLLER_URING);
    race.random = (uint32_t)harness_seed();
    race.read = race.late = 0;
    race.total = harness_is_slow() ? 3000 : 10000;
    REQUIRE(io_pair(tcp ? IO_TCP : IO_SOCKETPAIR, &race.in, &race.out));
    CHECK_EQ(fixture_finish(io_go(rt, fn, NULL)).status, 0);
    weft_close(race.in), weft_close(race.out);
    printf("%zu reads came too late\n", race.late);
    if (!fixture_on("sim"))
        CHECK_GT(race.late, 0);
    fixture_end(rt);
}

API_TEST(io_uring_deadline_against_data, "", .workers = {1, 2}) {
    run_race(deadline_race, true);
    run_race(deadline_race, false);
}

/* A close, from any worker or thread, while both directions are under way. */
static int read_long(void *arg) {
    char bytes[100];
    ssize_t n;
    while ((n = weft_read(arg, bytes, sizeof bytes, WEFT_NEVER)) > 0)
        ;
    return (int)n;
}

static int write_long(void *arg) {
    char bytes[5000];
    ssize_t n;
    memset(bytes, 'x', sizeof bytes);
    while ((n = weft_write(arg, bytes, sizeof bytes, WEFT_NEVER)) > 0)
        ;
    return (int)n;
}

API_TEST(io_uring_close_against_all, "", .workers = {1, 2}) {
    require_uring();
    weft_runtime *rt = begin(WEFT_POLLER_URING);
    uint32_t rounds = harness_is_slow() ? 100 : 400;
    race.random = (uint32_t)harness_seed();
    for (uint32_t i = 0; i < rounds; i++) {
        weft_io *a, *b;
        REQUIRE(io_pair(i % 2 ? IO_TCP : IO_SOCKETPAIR, &a, &b));
        weft_task *task[4] = {io_go(rt, read_long, a), io_go(rt, write_long, a), io_go(rt, read_long, b),
                              io_go(rt, write_long, b)};
        for (int k = 0; k < 4; k++) /* a call on what is closed already is the caller's mistake */
            while (!strcmp(weft_task_state(task[k]), "scheduled") && !weft_task_is_done(task[k]))
                harness_nap();
        for (uint32_t naps = draw(3); naps; naps--)
            harness_nap();
        CHECK_EQ(weft_close(a), 0);
        int status[4];
        for (int k = 0; k < 4; k++)
            status[k] = fixture_finish(task[k]).status;
        CHECK_EQ(status[0], -EBADF);
        CHECK_EQ(status[1], -EBADF);
        CHECK(status[2] == 0 || status[2] == -ECONNRESET);
        CHECK(status[3] == -EPIPE || status[3] == -ECONNRESET);
        CHECK_EQ(weft_close(b), 0);
    }
    fixture_end(rt);
}

/* -- The end of a runtime, and of children ---------------------------------------------------------------------- */

/* Stopped while operations are under way: they have ended when it has, and take nothing of what comes later. */
API_TEST(io_uring_stopped_in_flight, "", .workers = {1, 2}) {
    require_uring();
    for (uint32_t i = 0; i < 10; i++) {
        weft_runtime *rt = begin(WEFT_POLLER_URING);
        weft_io *a[8], *b[8];
        weft_task *reader[8], *writer[8];
        char byte = 0;
        for (int k = 0; k < 8; k++) {
            REQUIRE(io_pair(k % 2 ? IO_TCP : IO_SOCKETPAIR, &a[k], &b[k]));
            reader[k] = io_go(rt, read_long, a[k]);
            writer[k] = io_go(rt, write_long, a[k]);
        }
        for (int k = 0; k < 8; k++)
            while (strcmp(weft_task_state(reader[k]), "idle"))
                harness_nap();
        CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
        for (int k = 0; k < 8; k++) {
            CHECK_EQ(fixture_finish(reader[k]).status, -ECANCELED);
            CHECK_EQ(fixture_finish(writer[k]).status, -ECANCELED);
            if (k % 2) /* before, and after, it is destroyed */
                REQUIRE_EQ(weft_write(b[k], "x", 1, fixture_soon()), 1);
        }
        harness_on_hang(NULL, NULL);
        CHECK_EQ(weft_runtime_destroy(rt), 0);
        for (int k = 0; k < 8; k++) {
            if (k % 2 == 0)
                REQUIRE_EQ(weft_write(b[k], "x", 1, fixture_soon()), 1);
            CHECK_EQ(weft_read(a[k], &byte, 1, fixture_soon()), 1);
            CHECK_EQ(byte, 'x');
            CHECK_EQ(weft_close(a[k]), 0);
            CHECK_EQ(weft_close(b[k]), 0);
        }
    }
}

/* A runtime that is gone holds on to no file: the port of a listener that it watched is free when that is closed. */
static int accept_none(void *listener) {
    weft_io *io;
    CHECK_EQ(weft_accept(listener, &io, NULL, weft_after(1000)), -ETIMEDOUT);
    return 0;
}

API_TEST(io_uring_lets_go, "", .workers = {1, 2}) {
    require_uring();
    weft_addr addr;
    weft_io *listener;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    for (int i = 0; i < 20; i++) {
        weft_runtime *rt = begin(WEFT_POLLER_URING);
        CHECK_EQ(fixture_finish(io_go(rt, accept_none, listener)).status, 0);
        fixture_end(rt);
        CHECK_EQ(weft_close(listener), 0);
        REQUIRE_EQ(weft_listen(&addr, NULL, &listener), 0);
    }
    CHECK_EQ(weft_close(listener), 0);
}

/* Children have the rings' descriptors until they end; nothing of ours ends with them. */
API_TEST(io_uring_forked, "", .workers = {2}) {
    require_uring();
    weft_runtime *rt = begin(WEFT_POLLER_URING);
    weft_io *a, *b;
    REQUIRE(io_pair(IO_TCP, &a, &b));
    weft_task *task[2] = {io_go(rt, answer, a), io_go(rt, ask, b)};
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        REQUIRE_GE(child, 0);
        if (child == 0)
            _exit(0);
        REQUIRE_EQ(waitpid(child, NULL, 0), child);
    }
    CHECK_EQ(fixture_finish(task[0]).status, 0);
    CHECK_EQ(fixture_finish(task[1]).status, 0);
    fixture_end(rt);
}
