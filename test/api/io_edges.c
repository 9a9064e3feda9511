/* io_edges.c - calls of <weft/io.h> and <weft/net.h> at the edges of what they promise. */
#include <sys/un.h>

#include "io_fixture.h"

/* The last piece has no mark, and the buffer is full: it is moved to the front before the end is seen. */
static int last_piece(void *unused) {
    (void)unused;
    static const char text[] = "\n\nbcdefgh";
    for (size_t taken = 0; taken < 3; taken++) {
        weft_io *in, *out;
        REQUIRE_EQ(weft_pipe(&in, &out), 0);
        char room[8], *piece;
        weft_reader reader;
        weft_reader_init(&reader, in, room, sizeof room);
        REQUIRE_EQ(weft_write(out, text + 2 - taken, sizeof room, fixture_soon()), sizeof room);
        CHECK_EQ(weft_close(out), 0);
        for (size_t i = 0; i < taken; i++)
            CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), 1);
        if (taken) {
            CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), sizeof room - taken);
            CHECK(!memcmp(piece, text + 2, sizeof room - taken));
            CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), 0);
        }
        CHECK_EQ(weft_close(in), 0);
    }
    return 0;
}

API_TEST(io_last_line_moved, "", .workers = {1}) { io_run(last_piece, NULL); }

/* "The rest of it", however much that is. */
static int send_rest(void *unused) {
    (void)unused;
    FILE *file = tmpfile();
    REQUIRE(file);
    off_t end = ((off_t)5 << 30) + 3, offset = end - 3;
    REQUIRE_EQ(pwrite(fileno(file), "end", 3, offset), 3); /* a hole before it */
    weft_io *in, *out;
    char bytes[8];
    REQUIRE_EQ(weft_socketpair(&in, &out), 0);
    CHECK_EQ(weft_sendfile(out, fileno(file), &offset, SIZE_MAX, fixture_soon()), 3);
    CHECK_EQ(offset, end);
    CHECK_EQ(weft_sendfile(out, fileno(file), &offset, SIZE_MAX, fixture_soon()), 0);
    CHECK_EQ(weft_read_exact(in, bytes, 3, fixture_soon()), 3);
    CHECK(!memcmp(bytes, "end", 3));
    fclose(file);
    weft_close(in), weft_close(out);
    return 0;
}

API_TEST(io_sendfile_rest, "", .workers = {1}) { io_run(send_rest, NULL); }

/* Only a Unix socket knows who connected; of others the system says user -1, which is no answer. */
static int nobody(void *unused) {
    (void)unused;
    weft_io *a, *b;
    pid_t pid = 7;
    uid_t uid = 7;
    gid_t gid = 7;
    REQUIRE(io_pair(IO_TCP, &a, &b));
    CHECK_EQ(weft_peer_credentials(a, &pid, &uid, &gid), -EOPNOTSUPP);
    weft_close(a), weft_close(b);
    REQUIRE(io_pair(IO_PIPE, &a, &b));
    CHECK_EQ(weft_peer_credentials(a, &pid, &uid, &gid), -ENOTSOCK);
    weft_close(a), weft_close(b);
    CHECK_EQ(pid, 7);
    CHECK_EQ(uid, 7);
    CHECK_EQ(gid, 7);
    REQUIRE(io_pair(IO_SOCKETPAIR, &a, &b));
    CHECK_EQ(weft_peer_credentials(a, &pid, &uid, &gid), 0);
    CHECK_EQ(pid, getpid());
    weft_close(a), weft_close(b);
    return 0;
}

API_TEST(io_credentials_of_nobody, "", .workers = {1}) { io_run(nobody, NULL); }

/* The longest names: a path has a zero byte behind it, an abstract name has one before it, which is its '@'. */
static int long_names(void *unused) {
    (void)unused;
    char name[200], text[200];
    weft_addr addr;
    size_t room = sizeof((struct sockaddr_un *)NULL)->sun_path;
    snprintf(name, sizeof name, "@weft-test-%d-%0150d", (int)getpid(), 0);
    name[room + 1] = 0;
    CHECK_EQ(weft_addr_parse(name, -1, &addr), -ENAMETOOLONG);
    name[room] = 0;
    REQUIRE_EQ(weft_addr_parse(name, -1, &addr), 0);
    CHECK_EQ(weft_addr_format(&addr, text, sizeof text), room);
    CHECK(!strcmp(text, name));
    weft_io *listener, *a, *b;
    REQUIRE_EQ(weft_unix_listen(name, &listener), 0);
    io_connected(listener, &addr, &a, &b);
    weft_close(a), weft_close(b), weft_close(listener);
    name[0] = '/';
    CHECK_EQ(weft_addr_parse(name, -1, &addr), -ENAMETOOLONG);
    name[room - 1] = 0;
    REQUIRE_EQ(weft_addr_parse(name, -1, &addr), 0);
    CHECK_EQ(weft_addr_format(&addr, text, sizeof text), room - 1);
    CHECK(!strcmp(text, name));
    return 0;
}

API_TEST(io_long_names, "", .workers = {1}) { io_run(long_names, NULL); }
