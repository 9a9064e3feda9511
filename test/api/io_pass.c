/* io_pass.c - descriptors that are passed over Unix sockets. */
#include <sys/resource.h>
#include <sys/stat.h>

#include "io_fixture.h"

/* How many there are of this one's file. */
static unsigned copies(weft_io *io) {
    unsigned count = 0;
    struct stat one, other;
    REQUIRE_EQ(fstat(weft_io_fd(io), &one), 0);
    for (int fd = 0; fd < 200; fd++)
        count += fstat(fd, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
    return count;
}

static int take_two(void *arg) {
    char bytes[16];
    int fds[4] = {-1, -1, -1, -1};
    unsigned count = 4;
    weft_io *in;
    CHECK_EQ(weft_recv_fds(arg, bytes, sizeof bytes, fds, &count, fixture_soon()), 3); /* waits */
    CHECK(memcmp(bytes, "two", 3) == 0);
    REQUIRE_EQ(count, 2);
    CHECK(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    REQUIRE_EQ(weft_io_open(fds[0], 0, &in), 0);
    CHECK_EQ(weft_read(in, bytes, sizeof bytes, fixture_soon()), 5);
    CHECK(memcmp(bytes, "hello", 5) == 0);
    CHECK_EQ(weft_close(in), 0);
    CHECK_EQ(close(fds[1]), 0);
    return 0;
}

/* Without room for more descriptors: which places have none is told, and nothing is left open. */
static void pass_too_many(weft_io *a, weft_io *b, weft_io *in) {
    struct rlimit was, few;
    char bytes[16];
    int fds[4], got[4] = {77, 77, 77, 77};
    unsigned before = copies(in), count = 4;
    for (int i = 0; i < 4; i++)
        fds[i] = weft_io_fd(in);
    CHECK_EQ(weft_send_fds(a, "four", 4, fds, 4, fixture_soon()), 4);
    REQUIRE_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
    int next = dup(weft_io_fd(in)); /* the lowest that is free */
    REQUIRE_GE(next, 0);
    REQUIRE_EQ(close(next), 0);
    few = was;
    few.rlim_cur = (rlim_t)next + 1; /* room for one, or none if a thread takes it */
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    ssize_t n = weft_recv_fds(b, bytes, sizeof bytes, got, &count, fixture_soon());
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    CHECK_EQ(n, 4);
    CHECK_GT(count, 4);
    CHECK_EQ(got[1], -1);
    CHECK_EQ(got[2], -1);
    CHECK_EQ(got[3], -1);
    if (got[0] >= 0)
        CHECK_EQ(close(got[0]), 0);
    CHECK_EQ(copies(in), before);
}

static int pass(void *unused) {
    (void)unused;
    weft_io *a, *b, *in, *out, *tcp_in, *tcp_out;
    char bytes[16];
    int fds[3], none[1] = {-1};
    unsigned count = 0;
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    REQUIRE_EQ(weft_pipe(&in, &out), 0);
    REQUIRE(io_pair(IO_TCP, &tcp_in, &tcp_out));
    unsigned before = copies(in);
    fds[0] = fds[1] = fds[2] = weft_io_fd(in);
    CHECK_EQ(weft_write(out, "hello", 5, fixture_soon()), 5);

    weft_task *task = io_go(NULL, take_two, b);
    io_rest();
    CHECK_EQ(weft_send_fds(a, "two", 3, fds, 2, fixture_soon()), 3);
    CHECK_EQ(io_join(task), 0);
    CHECK_EQ(copies(in), before);

    /* What has no room is closed, and told. */
    CHECK_EQ(weft_send_fds(a, "three", 5, fds, 3, fixture_soon()), 5);
    count = 1;
    CHECK_EQ(weft_recv_fds(b, bytes, sizeof bytes, none, &count, fixture_soon()), 5);
    CHECK_EQ(count, 3);
    CHECK_EQ(close(none[0]), 0);
    CHECK_EQ(copies(in), before);
    /* None at all; and a read that drops them. */
    CHECK_EQ(weft_send_fds(a, "none", 4, NULL, 0, fixture_soon()), 4);
    count = 1;
    CHECK_EQ(weft_recv_fds(b, bytes, sizeof bytes, none, &count, fixture_soon()), 4);
    CHECK_EQ(count, 0);
    CHECK_EQ(weft_send_fds(a, "lost", 4, fds, 3, fixture_soon()), 4);
    CHECK_EQ(weft_read(b, bytes, sizeof bytes, fixture_soon()), 4);
    CHECK_EQ(copies(in), before);

    pass_too_many(a, b, in);
    count = 1;
    CHECK_EQ(weft_recv_fds(b, bytes, sizeof bytes, none, &count, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(count, 1); /* as it was */
    CHECK_EQ(weft_recv_fds(b, bytes, 0, none, &count, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_send_fds(a, "x", 0, fds, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_send_fds(a, "x", 1, fds, 254, WEFT_NOW), -EINVAL);
    fds[0] = -1;
    CHECK_EQ(weft_send_fds(a, "x", 1, fds, 1, WEFT_NOW), -EBADF);
    fds[0] = fds[1];
    CHECK_EQ(weft_send_fds(tcp_out, "x", 1, fds, 1, WEFT_NOW), -EOPNOTSUPP);
    CHECK_EQ(weft_recv_fds(tcp_in, bytes, 1, none, &count, WEFT_NOW), -EOPNOTSUPP);
    CHECK_EQ(weft_send_fds(out, "x", 1, fds, 1, WEFT_NOW), -EOPNOTSUPP); /* a pipe */
    CHECK_EQ(weft_close(a), 0);
    count = 1;
    CHECK_EQ(weft_recv_fds(b, bytes, 1, none, &count, fixture_soon()), 0); /* the end */
    CHECK_EQ(count, 0);
    weft_close(b);
    weft_close(in);
    weft_close(out);
    weft_close(tcp_in);
    weft_close(tcp_out);
    return 0;
}
API_TEST(io_pass, "", .workers = {1, 2}) { io_run(pass, NULL); }
