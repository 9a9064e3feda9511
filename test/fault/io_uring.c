/* io_uring.c - the poller on io_uring where the system refuses it, and where it has little room. */
#define _GNU_SOURCE
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

/* Refused only when the workers come to make theirs. */
API_TEST(io_uring_is_refused_late, "", .workers = {2}) {
    require_uring();
    weft_runtime *rt = begin(WEFT_POLLER_URING);
    CHECK_STR(weft_runtime_poller(rt), "uring");
    wefti_uring_limit(ENOMEM, 0);
    talk(rt);
    fixture_end(rt);
}

/* Any step of making one. */
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
        if (weft_fiber_go(rt, answer, in, &task) == 0) {
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
}

/* -- Little room ------------------------------------------------------------------------------------------------- */

/* Eight completions: the rest overflows, polls end and are armed again, and nobody misses anything. */
API_TEST(io_uring_overflows, "B57", .workers = {1, 2}) {
    require_uring();
    wefti_uring_limit(0, 8);
    weft_runtime *rt = begin(WEFT_POLLER_URING);
    for (int i = 0; i < 5; i++)
        talk(rt);
    fixture_end(rt);
}

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
