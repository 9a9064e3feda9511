/* io_fixture.h - what the I/O tests need: fibers that are checked, connected pairs of every kind. */
#ifndef WEFT_TEST_IO_FIXTURE_H
#define WEFT_TEST_IO_FIXTURE_H

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <weft/io.h>
#include <weft/net.h>

#include "fixture.h"

/* -- Fibers ------------------------------------------------------------------------------------------------- */

static inline weft_task *io_go(weft_runtime *rt, weft_fiber_fn fn, void *arg) {
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, fn, arg, &task), 0);
    return task;
}

/* fn(arg) as a fiber of a fresh runtime without park timeout; it must return 0. */
static inline void io_run(weft_fiber_fn fn, void *arg) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(fixture_finish(io_go(rt, fn, arg)).status, 0);
    fixture_end(rt);
}

/* In a fiber or on a thread: join, drop, and say how it ended. */
static inline int io_join(weft_task *task) { return fixture_finish(task).status; }

/* Let the others do what they can (a fiber that yields alone gets up to 16 turns in a row). */
static inline void io_rest(void) {
    for (int i = 0; i < 40; i++)
        (void)weft_yield();
}

/* In a fiber: until that task waits for something. */
static inline void io_until_it_waits(weft_task *task) {
    while (strcmp(weft_task_state(task), "idle"))
        (void)weft_yield();
}

/* -- Pairs -------------------------------------------------------------------------------------------------- */

enum io_kind { IO_PIPE, IO_SOCKETPAIR, IO_TCP, IO_TCP6, IO_UNIX, IO_ABSTRACT, IO_KINDS };

static inline void io_path(char *text, size_t room, bool abstract) {
    static atomic_uint number;
    snprintf(text, room, "%sweft-test-%d-%u", abstract ? "@" : "/tmp/", (int)getpid(), atomic_fetch_add(&number, 1));
}

static inline void io_connected(weft_io *listener, const weft_addr *addr, weft_io **a, weft_io **b) {
    REQUIRE_EQ(weft_connect(addr, a, fixture_soon()), 0);
    REQUIRE_EQ(weft_accept(listener, b, NULL, fixture_soon()), 0);
}

/* What is written to *out can be read from *in.  False: this system has no such thing. */
static inline bool io_pair(enum io_kind kind, weft_io **in, weft_io **out) {
    weft_io *listener;
    weft_addr addr;
    char path[64];
    switch (kind) {
    case IO_PIPE: REQUIRE_EQ(weft_pipe(in, out), 0); return true;
    case IO_SOCKETPAIR: REQUIRE_EQ(weft_socketpair(in, out), 0); return true;
    case IO_TCP: REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0); break;
    case IO_TCP6:
        if (weft_tcp_listen("::1", 0, NULL, &listener))
            return false;
        break;
    default: io_path(path, sizeof path, kind == IO_ABSTRACT); REQUIRE_EQ(weft_unix_listen(path, &listener), 0);
    }
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    io_connected(listener, &addr, out, in);
    CHECK_EQ(weft_close(listener), 0);
    if (kind == IO_UNIX)
        unlink(path);
    return true;
}

/* A piece of a stream that no two places of look alike. */
static inline unsigned char io_byte(size_t at) { return (unsigned char)(at * 131 + at / 256 * 7 + at / 65536); }
static inline void io_fill(void *bytes, size_t size, size_t from) {
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)bytes)[i] = io_byte(from + i);
}
static inline bool io_is(const void *bytes, size_t size, size_t from) {
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)bytes)[i] != io_byte(from + i))
            return false;
    return true;
}

#endif
