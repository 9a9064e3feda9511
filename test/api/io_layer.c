/* io_layer.c - calls that never wait, and streams of a library's own behind the calls of io.h. */
#define _GNU_SOURCE
#include <weft/stream.h>

#include "io_fixture.h"

/* -- Without waiting ------------------------------------------------------------------------------------------------ */

static int tries(void *arg) {
    weft_io *in, *out;
    char byte;
    (void)arg;
    REQUIRE_EQ(weft_socketpair(&in, &out), 0);
    CHECK_EQ(weft_io_wait(in, WEFT_FD_READ, WEFT_NOW), -ETIMEDOUT); /* a new one */
    CHECK_EQ(weft_io_wait(in, WEFT_FD_READ, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_io_wait(out, WEFT_FD_WRITE, WEFT_NOW), 0);
    CHECK_EQ(weft_try_read(in, &byte, 1), -EAGAIN);
    CHECK_EQ(weft_io_wait(in, WEFT_FD_READ, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_io_wait(in, WEFT_FD_READ, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_io_wait(in, 0, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_io_wait(in, WEFT_FD_READ | WEFT_FD_WRITE, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_try_write(out, "ab", 2), 2);
    CHECK_EQ(weft_io_wait(in, WEFT_FD_READ, WEFT_NOW), 0); /* although nobody may have been told yet */
    CHECK_EQ(weft_io_wait(in, WEFT_FD_READ, fixture_soon()), 0);
    CHECK_EQ(weft_try_read(in, &byte, 1), 1);
    CHECK_EQ(weft_io_wait(in, WEFT_FD_READ, fixture_soon()), 0);
    CHECK_EQ(weft_try_read(in, &byte, 1), 1);
    CHECK_EQ(byte, 'b');
    CHECK_EQ(weft_try_read(in, &byte, 1), -EAGAIN);
    CHECK_EQ(weft_io_wait(out, WEFT_FD_WRITE, fixture_soon()), 0);
    static char much[65536];
    while (weft_try_write(out, much, sizeof much) > 0)
        ;
    CHECK_EQ(weft_try_write(out, much, 1), -EAGAIN);
    CHECK_EQ(weft_io_wait(out, WEFT_FD_WRITE, weft_after(1000000)), -ETIMEDOUT);
    while (weft_try_read(in, much, sizeof much) > 0)
        ;
    CHECK_EQ(weft_io_wait(out, WEFT_FD_WRITE, fixture_soon()), 0);
    CHECK_EQ(weft_close(out), 0);
    CHECK_EQ(weft_io_wait(in, WEFT_FD_READ, fixture_soon()), 0);
    CHECK_EQ(weft_try_read(in, &byte, 1), 0);
    return weft_close(in);
}
API_TEST(io_try, "", .workers = {1, 2}) { io_run(tries, NULL); }
TEST(io_try_thread, "") { CHECK_EQ(tries(NULL), 0); }

/* What is read before the poller has told of it is no reason to return. */
static int told_late(void *unused) {
    (void)unused;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        char byte;
        if (!io_pair(kind, &in, &out))
            continue;
        CHECK_EQ(weft_io_wait(in, WEFT_FD_READ, weft_after(1000000)), -ETIMEDOUT); /* it is watched from now on */
        for (int i = 0; i < 20; i++) {
            REQUIRE_EQ(weft_write(out, "a", 1, fixture_soon()), 1);
            while (weft_try_read(in, &byte, 1) != 1)
                ;
            CHECK_EQ(weft_io_wait(in, WEFT_FD_READ, weft_after(1000000)), -ETIMEDOUT);
        }
        CHECK_EQ(weft_close(in), 0);
        CHECK_EQ(weft_close(out), 0);
    }
    return 0;
}
API_TEST(io_told_late, "", .workers = {1, 2}) { io_run(told_late, NULL); }

/* -- A stream that turns letters around ------------------------------------------------------------------------------ */

struct turned {
    weft_io *below;
    atomic_uint *discarded;
};

static void turn(char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        bytes[i] ^= 0x20;
}

static ssize_t turned_read(void *state, const weft_stream_call *call, const struct iovec *parts, int count) {
    struct turned *t = state;
    CHECK_GE(count, 1);
    for (;;) {
        ssize_t n = weft_try_read(t->below, parts->iov_base, parts->iov_len);
        if (n > 0)
            turn(parts->iov_base, (size_t)n);
        if (n != -EAGAIN)
            return n;
        int error = weft_stream_wait(t->below, call, WEFT_FD_READ);
        if (error)
            return error;
    }
}

static ssize_t turned_write(void *state, const weft_stream_call *call, const struct iovec *parts, int count) {
    struct turned *t = state;
    size_t done = 0;
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < parts[i].iov_len; at++) {
            char byte = ((const char *)parts[i].iov_base)[at];
            turn(&byte, 1);
            ssize_t n;
            while ((n = weft_try_write(t->below, &byte, 1)) == -EAGAIN) {
                int error = weft_stream_wait(t->below, call, WEFT_FD_WRITE);
                if (error)
                    return done ? (ssize_t)done : error;
            }
            if (n < 0)
                return n;
            done++;
            if (!call->all)
                return 1;
        }
    return (ssize_t)done;
}

static int turned_wait(void *state, const weft_stream_call *call, int events) {
    struct turned *t = state;
    return weft_stream_wait(t->below, call, events);
}

static int turned_close(void *state) {
    struct turned *t = state;
    return weft_close(t->below);
}

static void turned_discard(void *state) {
    struct turned *t = state;
    (*t->discarded)++;
    free(t);
}

static const weft_stream turned_functions = {.size = sizeof(weft_stream),
                                             .read = turned_read,
                                             .write = turned_write,
                                             .wait = turned_wait,
                                             .close = turned_close,
                                             .discard = turned_discard};

static weft_io *turned_open(weft_io *below, atomic_uint *discarded) {
    struct turned *t = malloc(sizeof *t);
    weft_io *io = NULL;
    REQUIRE(t);
    *t = (struct turned){below, discarded};
    REQUIRE_EQ(weft_stream_open(&turned_functions, t, weft_io_fd(below), &io), 0);
    return io;
}

static int read_for_ever(void *io) {
    char byte;
    return (int)weft_read(io, &byte, 1, WEFT_NEVER);
}

static int layered(void *arg) {
    weft_io *below, *peer, *listener;
    char text[8] = "";
    atomic_uint discarded = 0;
    (void)arg;
    REQUIRE_EQ(weft_socketpair(&below, &peer), 0);
    weft_io *io = turned_open(below, &discarded);
    struct iovec parts[2] = {{"He", 2}, {"llo", 3}};
    CHECK_EQ(weft_io_fd(io), weft_io_fd(below));
    CHECK_EQ(weft_writev(io, parts, 2, fixture_soon()), 5);
    CHECK_EQ(weft_read_exact(peer, text, 5, fixture_soon()), 5);
    CHECK_STR(text, "hELLO");
    CHECK_EQ(weft_write(peer, "Abc", 3, fixture_soon()), 3);
    CHECK_EQ(weft_io_wait(io, WEFT_FD_READ, fixture_soon()), 0);
    memset(text, 0, sizeof text);
    CHECK_EQ(weft_read_exact(io, text, 3, fixture_soon()), 3);
    CHECK_STR(text, "aBC");
    CHECK_EQ(weft_write_some(io, "xy", 2, fixture_soon()), 1);
    CHECK_EQ(weft_read(io, text, 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_read(io, text, 1, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_shutdown(io, SHUT_WR), -EOPNOTSUPP);
    CHECK_EQ(weft_accept(io, &listener, NULL, WEFT_NOW), -EOPNOTSUPP);
    CHECK_EQ(weft_try_read(io, text, 1), -EOPNOTSUPP);
    weft_case ready = weft_case_io(io, WEFT_FD_READ);
    CHECK_EQ(weft_select(&ready, 1, fixture_soon()), 0);
    CHECK_EQ(ready.result, -EOPNOTSUPP);
    /* Cancelled while it waits below; and told of a close, after which the state goes with the last call. */
    weft_task *task = io_go(NULL, read_for_ever, io);
    io_until_it_waits(task);
    (void)weft_task_cancel(task);
    CHECK_EQ(io_join(task), -ECANCELED);
    task = io_go(NULL, read_for_ever, io);
    io_until_it_waits(task);
    REQUIRE(weft_stream_enter(io, &turned_functions));
    CHECK_EQ(weft_close(io), 0);
    CHECK_EQ(io_join(task), -EBADF);
    CHECK_EQ(discarded, 0);
    weft_stream_leave(io);
    CHECK_EQ(discarded, 1);
    CHECK_EQ(weft_stream_enter(peer, &turned_functions), NULL);
    CHECK_EQ(weft_read(peer, text, 8, fixture_soon()), 1);
    CHECK_EQ(weft_read(peer, text, 8, fixture_soon()), 0);
    return weft_close(peer);
}
API_TEST(io_layer, "", .workers = {1, 2}) { io_run(layered, NULL); }

struct poller {
    weft_io *io;
    weft_wait wait;
    unsigned got;
};

static weft_poll poll_read(weft_task *self, void *state) {
    struct poller *p = state;
    char byte;
    ssize_t n;
    while ((n = weft_read_poll(p->io, self, &p->wait, &byte, 1)) == 1)
        p->got++;
    if (n == -EAGAIN)
        return WEFT_PENDING;
    weft_wait_end(&p->wait);
    return weft_done(self, (int)n, NULL);
}

/* A poll task waits below; byte by byte, then the end; or a close of its own. */
static int polled(void *arg) {
    (void)arg;
    for (int close = 0; close < 2; close++) {
        weft_io *below, *peer;
        atomic_uint discarded = 0;
        REQUIRE_EQ(weft_socketpair(&below, &peer), 0);
        struct poller poller = {.io = turned_open(below, &discarded)};
        weft_task *task = NULL;
        REQUIRE_EQ(weft_go(NULL, poll_read, &poller, &task), 0);
        for (int i = 0; i < 10; i++) {
            CHECK_EQ(weft_write(peer, "x", 1, fixture_soon()), 1);
            io_until_it_waits(task);
        }
        CHECK_EQ(weft_close(close ? poller.io : peer), 0);
        CHECK_EQ(io_join(task), close ? -EBADF : 0);
        CHECK_GE(poller.got, close ? 0 : 10);
        CHECK_EQ(weft_close(close ? peer : poller.io), 0);
        CHECK_EQ(discarded, 1);
    }
    return 0;
}
API_TEST(io_layer_poll, "", .workers = {1, 2}) { io_run(polled, NULL); }
