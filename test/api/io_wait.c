/* io_wait.c - waiting for descriptors, and everything that ends it: deadlines, cancels, closes, signals. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/time.h>

#include "io_fixture.h"

/* -- Deadlines ---------------------------------------------------------------------------------------------- */

/* Until nothing more goes for a moment: TCP takes a while to be sure. */
static void fill_up(weft_io *out) {
    char *bytes = calloc(1, 65536);
    (void)weft_socket_buffers(out, 65536, 0);
    for (int full = 0; full < 3; full++) /* what is on its way to the other end makes room when it gets there */
        while (weft_write_some(out, bytes, 65536, weft_after(5000000)) > 0)
            full = 0;
    free(bytes);
}

static int deadlines(void *unused) {
    (void)unused;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        char text[8];
        if (!io_pair((enum io_kind)kind, &in, &out))
            continue;
        CHECK_EQ(weft_read(in, text, 8, WEFT_NOW), -ETIMEDOUT);
        weft_deadline until = weft_after(3000000);
        CHECK_EQ(weft_read(in, text, 8, until), -ETIMEDOUT);
        CHECK_GE(weft_now(), until); /* never early */
        CHECK_EQ(weft_read(in, text, 8, until), -ETIMEDOUT); /* passed before it began */
        /* What has come since is there, although nobody has been told: without a wait, and after a deadline. */
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(weft_write(out, "x", 1, WEFT_NEVER), 1);
            CHECK_EQ(weft_read(in, text, 8, i == 0 ? WEFT_NOW : i == 1 ? until : weft_after(0)), 1);
            CHECK_EQ(weft_read(in, text, 8, WEFT_NOW), -ETIMEDOUT);
        }
        fill_up(out);
        ssize_t n;
        do
            n = weft_write(out, "x", 1, until = weft_after(3000000));
        while (n == 1); /* there was room again */
        CHECK_EQ(n, -ETIMEDOUT);
        CHECK_GE(weft_now(), until);
        while ((n = weft_write(out, "x", 1, WEFT_NOW)) == 1)
            ;
        CHECK_EQ(n, -ETIMEDOUT);
        CHECK_EQ(weft_close(in), 0);
        CHECK_EQ(weft_close(out), 0);
    }
    weft_io *listener, *io;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    CHECK_EQ(weft_accept(listener, &io, NULL, WEFT_NOW), -ETIMEDOUT);
    weft_deadline until = weft_after(3000000);
    CHECK_EQ(weft_accept(listener, &io, NULL, until), -ETIMEDOUT);
    CHECK_GE(weft_now(), until);
    weft_close(listener);
    return 0;
}

API_TEST(io_deadlines, "", .workers = {1, 2}) { io_run(deadlines, NULL); }

static void deadlines_on_thread(unsigned index, void *unused) {
    (void)index;
    deadlines(unused);
}

TEST(io_deadlines_of_threads, "") { harness_threads(3, deadlines_on_thread, NULL); }

/* A deadline while others are busy with the same descriptor. */
static int read_once(void *arg) {
    char text[8];
    return (int)weft_read(arg, text, 8, weft_after(2000000));
}

static int many_deadlines(void *unused) {
    (void)unused;
    weft_io *in, *out;
    weft_task *task[20];
    REQUIRE(io_pair(IO_PIPE, &in, &out));
    for (int i = 0; i < 20; i++)
        task[i] = io_go(NULL, read_once, in);
    int got = 0, late = 0;
    for (int i = 0; i < 20; i++) {
        int status = io_join(task[i]);
        got += status == 0; /* a positive value is success */
        late += status == -ETIMEDOUT;
    }
    CHECK_EQ(got + late, 20);
    CHECK_EQ(late, 20);
    weft_close(in), weft_close(out);
    return 0;
}

API_TEST(io_many_deadlines, "", .workers = {1, 2}) { io_run(many_deadlines, NULL); }

/* -- Cancels ------------------------------------------------------------------------------------------------- */

static int wait_to_read(void *arg) {
    char text[8];
    return (int)weft_read(arg, text, 8, WEFT_NEVER);
}

static int wait_to_write(void *arg) { return (int)weft_write(arg, "x", 1, WEFT_NEVER); }

/* TCP makes room in a full socket when it likes. */
static int wait_to_write_more(void *arg) {
    int n;
    while ((n = wait_to_write(arg)) >= 0)
        ;
    return n;
}

static int wait_to_accept(void *arg) {
    weft_io *io;
    return weft_accept(arg, &io, NULL, WEFT_NEVER);
}

static int wait_for_foreign(void *arg) { return weft_fd_wait(weft_io_fd(arg), WEFT_FD_READ, WEFT_NEVER); }

static int cancelled_before(void *arg) {
    weft_task *self = weft_task_self();
    char text[8];
    weft_task_cancel(self);
    CHECK_EQ(weft_read(arg, text, 8, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_read(arg, text, 8, WEFT_NOW), -ECANCELED);
    CHECK_EQ(weft_shield(self), 0);
    CHECK_EQ(weft_read(arg, text, 8, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_unshield(self), 0);
    return (int)weft_read(arg, text, 8, WEFT_NEVER);
}

static int cancels(void *unused) {
    (void)unused;
    weft_io *in, *out, *listener;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        if (!io_pair((enum io_kind)kind, &in, &out))
            continue;
        fill_up(out);
        weft_io *none, *other;
        REQUIRE(io_pair((enum io_kind)kind, &none, &other));
        weft_task *task[4] = {io_go(NULL, wait_to_read, none), io_go(NULL, wait_to_write_more, out),
                              io_go(NULL, wait_for_foreign, none), io_go(NULL, cancelled_before, none)};
        io_rest();
        for (int i = 0; i < 3; i++)
            weft_task_cancel(task[i]);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(io_join(task[i]), -ECANCELED);
        weft_close(in), weft_close(out), weft_close(none), weft_close(other);
    }
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    weft_task *task = io_go(NULL, wait_to_accept, listener);
    io_rest();
    weft_task_cancel(task);
    CHECK_EQ(io_join(task), -ECANCELED);
    weft_close(listener);
    return 0;
}

API_TEST(io_cancel, "J25", .workers = {1, 2}) { io_run(cancels, NULL); }

/* Stopping a runtime ends all who wait. */
API_TEST(io_stop_cancels, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_io *in, *out;
    REQUIRE(io_pair(IO_PIPE, &in, &out));
    for (int i = 0; i < 10; i++)
        REQUIRE_EQ(weft_fiber_go(rt, i % 2 ? wait_to_read : wait_for_foreign, in, NULL), 0);
    CHECK_EQ(weft_runtime_stop(rt, weft_after(1000000)), -ECANCELED);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    weft_close(in), weft_close(out);
}

/* Data and cancel at once: the byte is read or it is still there. */
static int cancel_against_data(void *unused) {
    (void)unused;
    weft_io *in, *out;
    REQUIRE(io_pair(IO_SOCKETPAIR, &in, &out));
    for (int i = 0; i < (fixture_is_slow() ? 100 : 500); i++) {
        char byte;
        weft_task *task = io_go(NULL, wait_to_read, in);
        if (i % 3)
            io_rest();
        CHECK_EQ(weft_write(out, "x", 1, fixture_soon()), 1);
        weft_task_cancel(task);
        if (io_join(task) == -ECANCELED)
            CHECK_EQ(weft_read(in, &byte, 1, fixture_soon()), 1);
        CHECK_EQ(weft_read(in, &byte, 1, WEFT_NOW), -ETIMEDOUT);
    }
    weft_close(in), weft_close(out);
    return 0;
}

API_TEST(io_cancel_against_data, "", .workers = {1, 2, 4}) { io_run(cancel_against_data, NULL); }

/* -- Closes -------------------------------------------------------------------------------------------------- */

static int close_while_waiting(void *unused) {
    (void)unused;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        if (!io_pair((enum io_kind)kind, &in, &out))
            continue;
        fill_up(out);
        weft_io *none, *other;
        REQUIRE(io_pair((enum io_kind)kind, &none, &other));
        weft_task *task[20];
        for (int i = 0; i < 20; i++)
            task[i] = i % 2 ? io_go(NULL, wait_to_read, none) : io_go(NULL, wait_to_write_more, out);
        for (int i = 0; i < 20; i++)
            io_until_it_waits(task[i]);
        CHECK_EQ(weft_close(none), 0);
        CHECK_EQ(weft_close(out), 0);
        for (int i = 0; i < 20; i++)
            CHECK_EQ(io_join(task[i]), -EBADF);
        weft_close(in), weft_close(other);
    }
    weft_io *listener;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    weft_task *task = io_go(NULL, wait_to_accept, listener);
    io_until_it_waits(task);
    weft_close(listener);
    CHECK_EQ(io_join(task), -EBADF);
    return 0;
}

API_TEST(io_close_while_waiting, "", .workers = {1, 2}) { io_run(close_while_waiting, NULL); }

/* Threads, too; and the number is not free before they have gone. */
static struct {
    weft_io *none, *full;
    atomic_uint waiting;
} shared;

static void thread_waits(unsigned index, void *unused) {
    (void)unused;
    if (index == 0) {
        REQUIRE_EVENTUALLY(shared.waiting == 6);
        for (int i = 0; i < 20; i++) /* let them fall asleep; the answer is the same if they have not */
            harness_nap();
        CHECK_EQ(weft_close(shared.none), 0);
        CHECK_EQ(weft_close(shared.full), 0);
        return;
    }
    atomic_fetch_add(&shared.waiting, 1);
    CHECK_EQ(index % 2 ? wait_to_read(shared.none) : wait_to_write_more(shared.full), -EBADF);
}

TEST(io_close_while_threads_wait, "") {
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *other;
        if (!io_pair((enum io_kind)kind, &in, &shared.full))
            continue;
        REQUIRE(io_pair((enum io_kind)kind, &shared.none, &other));
        fill_up(shared.full);
        shared.waiting = 0;
        harness_threads(7, thread_waits, NULL);
        weft_close(in), weft_close(other);
    }
}

/* A closed number is used again at once: who waited for the old one gets nothing of the new. */
static int reuse(void *unused) {
    (void)unused;
    for (int i = 0; i < (fixture_is_slow() ? 50 : 300); i++) {
        weft_io *in, *out, *in2, *out2;
        char text[8];
        REQUIRE(io_pair(i % 2 ? IO_PIPE : IO_SOCKETPAIR, &in, &out));
        weft_task *old = io_go(NULL, wait_to_read, in);
        io_until_it_waits(old); /* using a weft_io after it was closed is the caller's mistake */
        if (i % 5 == 0)
            CHECK_EQ(weft_write(out, "old", 3, fixture_soon()), 3); /* an event that may come too late */
        CHECK_EQ(weft_close(in), 0);
        weft_close(out);
        REQUIRE(io_pair(i % 2 ? IO_SOCKETPAIR : IO_PIPE, &in2, &out2));
        CHECK_EQ(weft_read(in2, text, 8, WEFT_NOW), -ETIMEDOUT);
        weft_task *new = io_go(NULL, wait_to_read, in2);
        io_rest();
        CHECK_EQ(weft_write(out2, "new", 3, fixture_soon()), 3);
        weft_result result;
        REQUIRE_EQ(weft_join(new, &result, fixture_soon()), 0);
        CHECK_EQ((intptr_t)result.value, 3);
        weft_task_drop(new);
        REQUIRE_EQ(weft_join(old, &result, fixture_soon()), 0);
        if (i % 5)
            CHECK_EQ(result.status, -EBADF);
        else
            CHECK(result.status == -EBADF || (intptr_t)result.value == 3); /* "old" itself */
        weft_task_drop(old);
        weft_close(in2), weft_close(out2);
    }
    return 0;
}

API_TEST(io_reuse, "", .workers = {1, 2, 4}) { io_run(reuse, NULL); }

/* -- Signals ------------------------------------------------------------------------------------------------- */

static atomic_uint signals;
static void on_alarm(int number) {
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static int ping(void *arg) {
    weft_io **end = arg;
    char buffer[300];
    for (int i = 0; i < (fixture_is_slow() ? 200 : 2000) || signals < 50; i++) {
        size_t size = (size_t)i % 300 + 1;
        io_fill(buffer, size, (size_t)i);
        REQUIRE_EQ(weft_write(end[0], buffer, size, fixture_soon()), size);
        REQUIRE_EQ(weft_read_exact(end[0], buffer, size, fixture_soon()), size);
        REQUIRE(io_is(buffer, size, (size_t)i));
    }
    CHECK_EQ(weft_shutdown(end[0], SHUT_WR), 0);
    return 0;
}

static int pong(void *arg) {
    weft_io **end = arg;
    char buffer[300];
    for (ssize_t n; (n = weft_read(end[1], buffer, sizeof buffer, fixture_soon())) != 0;) {
        REQUIRE_GT(n, 0);
        REQUIRE_EQ(weft_write(end[1], buffer, (size_t)n, fixture_soon()), n);
    }
    return 0;
}

static void play(unsigned index, void *arg) { index ? ping(arg) : pong(arg); }

API_TEST(io_interrupted, "", .workers = {1, 2}) {
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART: every sleep is interrupted */
    struct itimerval every = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    weft_io *end[2];
    sigaction(SIGALRM, &action, NULL);
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE(io_pair(IO_TCP, &end[0], &end[1]));
    REQUIRE_EQ(setitimer(ITIMER_REAL, &every, NULL), 0);
    weft_task *a = io_go(rt, ping, end), *b = io_go(rt, pong, end);
    CHECK_EQ(io_join(a), 0);
    CHECK_EQ(io_join(b), 0);
    weft_close(end[0]), weft_close(end[1]);
    signals = 0;
    REQUIRE(io_pair(IO_SOCKETPAIR, &end[0], &end[1]));
    harness_threads(2, play, end); /* plain threads */
    weft_close(end[0]), weft_close(end[1]);
    setitimer(ITIMER_REAL, &none, NULL);
    fixture_end(rt);
}

/* -- Foreign descriptors --------------------------------------------------------------------------------------- */

static int wait_fd(void *arg) { return weft_fd_wait(*(int *)arg, WEFT_FD_READ, fixture_soon()); }

static int foreign(void *unused) {
    (void)unused;
    int fd[2], other[2];
    char byte;
    REQUIRE_EQ(pipe2(fd, O_CLOEXEC), 0); /* blocking: we do not own it */
    CHECK_EQ(weft_fd_wait(fd[0], WEFT_FD_READ, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_fd_wait(fd[0], WEFT_FD_READ, weft_after(2000000)), -ETIMEDOUT);
    CHECK_EQ(weft_fd_wait(fd[1], WEFT_FD_WRITE, WEFT_NEVER), WEFT_FD_WRITE);
    CHECK_EQ(weft_fd_wait(fd[1], WEFT_FD_READ | WEFT_FD_WRITE, WEFT_NEVER), WEFT_FD_WRITE);
    CHECK_EQ(weft_fd_wait(fd[0], 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_fd_wait(fd[0], 4, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_fd_wait(-1, WEFT_FD_READ, WEFT_NEVER), -EBADF);
    /* Level-triggered, and for as many as wait. */
    weft_task *task[5];
    for (int i = 0; i < 5; i++)
        task[i] = io_go(NULL, wait_fd, &fd[0]);
    io_rest();
    REQUIRE_EQ(write(fd[1], "ab", 2), 2);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(io_join(task[i]), 0);
    CHECK_EQ(weft_fd_wait(fd[0], WEFT_FD_READ, WEFT_NEVER), WEFT_FD_READ);
    REQUIRE_EQ(read(fd[0], &byte, 1), 1);
    CHECK_EQ(weft_fd_wait(fd[0], WEFT_FD_READ, WEFT_NEVER), WEFT_FD_READ);
    REQUIRE_EQ(read(fd[0], &byte, 1), 1);
    CHECK_EQ(weft_fd_wait(fd[0], WEFT_FD_READ, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(fcntl(fd[0], F_GETFL) & O_NONBLOCK, 0); /* left alone */
    /* Closed and reused while one waits: he hears of the old one only. */
    for (int i = 0; i < 50; i++) {
        int number = fd[0];
        task[0] = io_go(NULL, wait_fd, &number);
        io_until_it_waits(task[0]); /* it has its duplicate */
        REQUIRE_EQ(pipe2(other, O_CLOEXEC), 0);
        REQUIRE_EQ(dup3(other[0], number, O_CLOEXEC), number); /* closes the old one */
        REQUIRE_EQ(write(other[1], "x", 1), 1);
        io_rest();
        CHECK(!weft_task_is_done(task[0]));
        close(fd[1]); /* the last writer of the old one: now he hears */
        CHECK_EQ(io_join(task[0]), 0);
        close(other[0]);
        fd[1] = other[1];
        REQUIRE_EQ(read(number, &byte, 1), 1);
    }
    close(fd[1]);
    CHECK_EQ(weft_fd_wait(fd[0], WEFT_FD_READ, WEFT_NEVER), WEFT_FD_READ); /* the end is something to read */
    close(fd[0]);
    /* A file is always ready. */
    FILE *file = tmpfile();
    CHECK_EQ(weft_fd_wait(fileno(file), WEFT_FD_READ | WEFT_FD_WRITE, WEFT_NEVER), WEFT_FD_READ | WEFT_FD_WRITE);
    fclose(file);
    return 0;
}

API_TEST(io_foreign, "", .workers = {1, 2}) { io_run(foreign, NULL); }

static void foreign_on_thread(unsigned index, void *arg) {
    int *fd = arg;
    uint64_t one = 1;
    if (index) {
        CHECK_EQ(weft_fd_wait(fd[index - 1], WEFT_FD_READ, fixture_soon()), WEFT_FD_READ);
    } else {
        for (int i = 0; i < 3; i++)
            REQUIRE_EQ(write(fd[i], &one, sizeof one), (ssize_t)sizeof one);
    }
}

TEST(io_foreign_on_threads, "") {
    int fd[3];
    for (int i = 0; i < 3; i++)
        fd[i] = eventfd(0, EFD_CLOEXEC);
    CHECK_EQ(weft_fd_wait(fd[0], WEFT_FD_READ, weft_after(1000000)), -ETIMEDOUT);
    harness_threads(4, foreign_on_thread, fd);
}

/* -- Poll tasks ------------------------------------------------------------------------------------------------ */

static weft_poll try_all(weft_task *self, void *state) {
    weft_io **end = state, *io;
    char text[8];
    struct iovec part = {text, 8};
    off_t offset = 0;
    CHECK_EQ(weft_read(end[0], text, 8, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_read(end[0], text, 8, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_readv(end[0], &part, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_read_exact(end[0], text, 8, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_write(end[1], text, 8, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_writev(end[1], &part, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_sendfile(end[1], 0, &offset, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_accept(end[0], &io, NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_tcp_connect("127.0.0.1", 1, &io, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_fd_wait(weft_io_fd(end[0]), WEFT_FD_READ, WEFT_NEVER), -EINVAL);
    return weft_done(self, 0, NULL);
}

API_TEST(io_poll_tasks_are_refused, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_io *end[2];
    REQUIRE(io_pair(IO_SOCKETPAIR, &end[0], &end[1]));
    fixture_finish(fixture_go(rt, try_all, end));
    weft_close(end[0]), weft_close(end[1]);
    fixture_end(rt);
}
