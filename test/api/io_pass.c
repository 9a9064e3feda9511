/* io_pass.c - descriptors that are passed over Unix sockets. */
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
