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

/* A piece as long as the buffer: with its mark it fits; without one, nobody can see that it is the last. */
static int full_buffer(void *unused) {
    (void)unused;
    static const char *const texts[] = {"abcdefg\n", "abcdefgh", "abcdefgh\n", "abcdefg"};
    for (size_t i = 0; i < 4; i++) {
        weft_io *in, *out;
        REQUIRE_EQ(weft_pipe(&in, &out), 0);
        char room[8], *piece = NULL, rest[16];
        size_t size = strlen(texts[i]);
        weft_reader reader;
        weft_reader_init(&reader, in, room, sizeof room);
        REQUIRE_EQ(weft_write(out, texts[i], size, fixture_soon()), size);
        CHECK_EQ(weft_close(out), 0);
        bool fits = i == 0 || i == 3;
        CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), fits ? (ssize_t)size : -EMSGSIZE);
        if (fits) {
            CHECK(!memcmp(piece, texts[i], size));
        } else { /* again, and then nothing is lost */
            CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), -EMSGSIZE);
            CHECK_EQ(piece, NULL);
            CHECK_EQ(weft_reader_read_exact(&reader, rest, sizeof rest, fixture_soon()), size);
            CHECK(!memcmp(rest, texts[i], size));
        }
        CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), 0);
        CHECK_EQ(weft_close(in), 0);
    }
    return 0;
}

API_TEST(io_line_fills_buffer, "", .workers = {1}) { io_run(full_buffer, NULL); }

/* Asked for nothing, it gives nothing: at once, whether there is something, nothing, or the end. */
static int read_nothing(void *unused) {
    (void)unused;
    char byte;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        weft_reader reader;
        if (!io_pair((enum io_kind)kind, &in, &out))
            continue;
        weft_reader_init(&reader, in, &byte, 1);
        for (int state = 0; state < 3; state++) {
            if (state == 1)
                CHECK_EQ(weft_write(out, "x", 1, fixture_soon()), 1);
            else if (state == 2)
                CHECK_EQ(weft_close(out), 0);
            CHECK_EQ(weft_read(in, &byte, 0, WEFT_NEVER), 0);
            CHECK_EQ(weft_read(in, NULL, 0, WEFT_NOW), 0);
            CHECK_EQ(weft_try_read(in, &byte, 0), 0);
            CHECK_EQ(weft_read_exact(in, &byte, 0, WEFT_NEVER), 0);
            CHECK_EQ(weft_reader_read(&reader, &byte, 0, WEFT_NEVER), 0);
        }
        CHECK_EQ(weft_read(in, &byte, 1, fixture_soon()), 1); /* it was not taken */
        CHECK_EQ(weft_close(in), 0);
    }
    weft_addr addr;
    weft_io *udp;
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 0, &addr), 0);
    REQUIRE_EQ(weft_udp_open(&addr, AF_INET, &udp), 0);
    REQUIRE_EQ(weft_local_addr(udp, &addr), 0);
    CHECK_EQ(weft_send_to(udp, "x", 1, &addr, fixture_soon()), 1);
    CHECK_EQ(weft_read(udp, &byte, 0, fixture_soon()), 0);
    CHECK_EQ(weft_recv_from(udp, &byte, 1, NULL, fixture_soon()), 1); /* nor a datagram */
    weft_close(udp);
    if (weft_task_self()) {
        weft_io *in, *out;
        REQUIRE_EQ(weft_pipe(&in, &out), 0);
        weft_task_cancel(weft_task_self());
        CHECK_EQ(weft_read(in, &byte, 0, WEFT_NEVER), -ECANCELED);
        weft_close(in), weft_close(out);
    }
    return 0;
}

API_TEST(io_read_nothing, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(io_go(rt, read_nothing, NULL)); /* it has cancelled itself */
    fixture_end(rt);
}
TEST(io_read_nothing_thread, "") { CHECK_EQ(read_nothing(NULL), 0); }

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
