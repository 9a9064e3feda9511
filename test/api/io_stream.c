/* io_stream.c - reading and writing: every kind of stream, every cut, every end. */
#define _GNU_SOURCE
#include <signal.h>
#include <termios.h>

#include "io_fixture.h"

/* -- Cuts --------------------------------------------------------------------------------------------------- */

#define MESSAGE 48

struct cut {
    weft_io *in, *out;
    size_t at;
    atomic_size_t got;
};

static int read_in_pieces(void *arg) {
    struct cut *cut = arg;
    char buffer[MESSAGE];
    while (cut->got < MESSAGE) {
        ssize_t n = weft_read(cut->in, buffer, sizeof buffer, fixture_soon());
        REQUIRE_GT(n, 0);
        CHECK(io_is(buffer, (size_t)n, cut->got));
        cut->got += (size_t)n;
    }
    return 0;
}

static int read_whole(void *arg) {
    struct cut *cut = arg;
    char buffer[MESSAGE];
    CHECK_EQ(weft_read_exact(cut->in, buffer, MESSAGE, fixture_soon()), MESSAGE);
    CHECK(io_is(buffer, MESSAGE, 0));
    return 0;
}

static int cut_everywhere(void *kind) {
    struct cut cut;
    char message[MESSAGE];
    io_fill(message, MESSAGE, 0);
    if (!io_pair((enum io_kind)(intptr_t)kind, &cut.in, &cut.out))
        return 0;
    for (cut.at = 0; cut.at <= MESSAGE; cut.at++)
        for (int whole = 0; whole < 2; whole++) {
            cut.got = 0;
            weft_task *reader = io_go(NULL, whole ? read_whole : read_in_pieces, &cut);
            io_rest(); /* it waits */
            CHECK_EQ(weft_write(cut.out, message, cut.at, fixture_soon()), cut.at);
            io_rest(); /* it has seen the first part, or not */
            CHECK_EQ(weft_write(cut.out, message + cut.at, MESSAGE - cut.at, fixture_soon()), MESSAGE - cut.at);
            CHECK_EQ(io_join(reader), 0);
        }
    CHECK_EQ(weft_close(cut.out), 0);
    CHECK_EQ(weft_read(cut.in, message, 1, fixture_soon()), 0);
    CHECK_EQ(weft_close(cut.in), 0);
    return 0;
}

API_TEST(io_cut_pipe, "", .workers = {1, 2}) { io_run(cut_everywhere, (void *)IO_PIPE); }
API_TEST(io_cut_socketpair, "", .workers = {1, 2}) { io_run(cut_everywhere, (void *)IO_SOCKETPAIR); }
API_TEST(io_cut_tcp, "", .workers = {1, 2}) { io_run(cut_everywhere, (void *)IO_TCP); }
API_TEST(io_cut_tcp6, "", .workers = {1}) { io_run(cut_everywhere, (void *)IO_TCP6); }
API_TEST(io_cut_unix, "", .workers = {1, 2}) { io_run(cut_everywhere, (void *)IO_UNIX); }
API_TEST(io_cut_abstract, "", .workers = {1}) { io_run(cut_everywhere, (void *)IO_ABSTRACT); }

/* -- Much --------------------------------------------------------------------------------------------------- */

struct bulk {
    weft_io *in, *out;
    size_t size;
    uint64_t random;
};

static int read_bulk(void *arg) {
    struct bulk *bulk = arg;
    static _Thread_local char unused; /* stays on this worker */
    (void)unused;
    uint64_t random = bulk->random + 1;
    char *buffer = malloc(20000);
    size_t got = 0;
    for (;;) {
        size_t most = harness_random(&random) % (harness_random(&random) % 4 ? 20000 : 50) + 1;
        ssize_t n = weft_read(bulk->in, buffer, most, fixture_soon());
        REQUIRE_GE(n, 0);
        if (n == 0)
            break;
        REQUIRE(io_is(buffer, (size_t)n, got));
        got += (size_t)n;
    }
    free(buffer);
    CHECK_EQ(got, bulk->size);
    return 0;
}

static int write_bulk(void *arg) {
    struct bulk *bulk = arg;
    uint64_t random = bulk->random + 2;
    char *bytes = malloc(bulk->size);
    io_fill(bytes, bulk->size, 0);
    for (size_t done = 0; done < bulk->size;) {
        size_t most = harness_random(&random) % (harness_random(&random) % 4 ? 200000 : 50) + 1;
        most = most < bulk->size - done ? most : bulk->size - done;
        bool some = harness_random(&random) % 2;
        ssize_t n = some ? weft_write_some(bulk->out, bytes + done, most, fixture_soon())
                         : weft_write(bulk->out, bytes + done, most, fixture_soon());
        REQUIRE_GT(n, 0);
        CHECK(some || n == (ssize_t)most);
        done += (size_t)n;
    }
    free(bytes);
    CHECK_EQ(weft_close(bulk->out), 0);
    return 0;
}

static int bulk_of_all_kinds(void *unused) {
    (void)unused;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        struct bulk bulk = {.size = fixture_is_slow() ? 300000 : 2000000, .random = harness_seed()};
        if (!io_pair((enum io_kind)kind, &bulk.in, &bulk.out))
            continue;
        if (kind != IO_PIPE)
            CHECK_EQ(weft_socket_buffers(bulk.out, 4096, 0), 0);
        weft_task *reader = io_go(NULL, read_bulk, &bulk), *writer = io_go(NULL, write_bulk, &bulk);
        CHECK_EQ(io_join(writer), 0);
        CHECK_EQ(io_join(reader), 0);
        CHECK_EQ(weft_close(bulk.in), 0);
    }
    return 0;
}

API_TEST(io_bulk, "", .workers = {1, 2}) { io_run(bulk_of_all_kinds, NULL); }

/* -- Parts -------------------------------------------------------------------------------------------------- */

#define PARTS 3000

static int write_parts(void *arg) {
    struct bulk *bulk = arg;
    struct iovec *parts = malloc(PARTS * sizeof *parts);
    uint64_t random = bulk->random;
    size_t at = 0;
    for (int i = 0; i < PARTS; i++) {
        size_t size = i % 7 == 0 ? 0 : i % 500 == 3 ? 100000 : harness_random(&random) % 100;
        parts[i] = (struct iovec){malloc(size + 1), size};
        io_fill(parts[i].iov_base, size, at);
        at += size;
    }
    bulk->size = at;
    CHECK_EQ(weft_writev(bulk->out, parts, PARTS, fixture_soon()), at);
    CHECK_EQ(weft_writev(bulk->out, parts, 0, fixture_soon()), 0);
    CHECK_EQ(weft_writev(bulk->out, parts, 1, fixture_soon()), 0); /* an empty one */
    CHECK_EQ(weft_writev(bulk->out, parts, -1, fixture_soon()), -EINVAL);
    for (int i = 0; i < PARTS; i++)
        free(parts[i].iov_base);
    free(parts);
    CHECK_EQ(weft_close(bulk->out), 0);
    return 0;
}

static int read_parts(void *arg) {
    struct bulk *bulk = arg;
    char *buffer = malloc(2000 * 17);
    struct iovec *parts = malloc(2000 * sizeof *parts);
    for (int i = 0; i < 2000; i++)
        parts[i] = (struct iovec){buffer + i * 17, 17};
    size_t got = 0;
    for (ssize_t n; (n = weft_readv(bulk->in, parts, 2000, fixture_soon())) != 0;) {
        REQUIRE_GT(n, 0);
        REQUIRE(io_is(buffer, (size_t)n, got));
        got += (size_t)n;
    }
    CHECK_EQ(weft_readv(bulk->in, parts, -1, fixture_soon()), -EINVAL);
    free(buffer);
    free(parts);
    bulk->size -= got;
    return 0;
}

static int parts_of_all_kinds(void *unused) {
    (void)unused;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        struct bulk bulk = {.random = harness_seed()};
        if (!io_pair((enum io_kind)kind, &bulk.in, &bulk.out))
            continue;
        if (kind != IO_PIPE)
            CHECK_EQ(weft_socket_buffers(bulk.out, 4096, 0), 0);
        weft_task *writer = io_go(NULL, write_parts, &bulk), *reader = io_go(NULL, read_parts, &bulk);
        CHECK_EQ(io_join(writer), 0);
        CHECK_EQ(io_join(reader), 0);
        CHECK_EQ(bulk.size, 0);
        CHECK_EQ(weft_close(bulk.in), 0);
    }
    return 0;
}

API_TEST(io_parts, "", .workers = {1, 2}) { io_run(parts_of_all_kinds, NULL); }

/* -- Files -------------------------------------------------------------------------------------------------- */

#define FILE_SIZE 400000

static int send_file(void *arg) {
    struct bulk *bulk = arg;
    FILE *file = tmpfile();
    REQUIRE(file);
    char *bytes = malloc(FILE_SIZE);
    io_fill(bytes, FILE_SIZE, 0);
    REQUIRE_EQ(fwrite(bytes, 1, FILE_SIZE, file), FILE_SIZE);
    REQUIRE_EQ(fflush(file), 0);
    free(bytes);
    off_t offset = 0;
    CHECK_EQ(weft_sendfile(bulk->out, fileno(file), &offset, 1000, fixture_soon()), 1000);
    CHECK_EQ(offset, 1000);
    CHECK_EQ(weft_sendfile(bulk->out, fileno(file), &offset, FILE_SIZE, fixture_soon()), FILE_SIZE - 1000); /* less */
    CHECK_EQ(offset, FILE_SIZE);
    CHECK_EQ(weft_sendfile(bulk->out, fileno(file), &offset, 1, fixture_soon()), 0);
    fclose(file);
    CHECK_EQ(weft_close(bulk->out), 0);
    return 0;
}

static int send_files(void *unused) {
    (void)unused;
    for (int kind = 0; kind < IO_KINDS; kind++) {
        struct bulk bulk = {.size = FILE_SIZE};
        if (!io_pair((enum io_kind)kind, &bulk.in, &bulk.out))
            continue;
        weft_task *writer = io_go(NULL, send_file, &bulk), *reader = io_go(NULL, read_bulk, &bulk);
        CHECK_EQ(io_join(writer), 0);
        CHECK_EQ(io_join(reader), 0);
        CHECK_EQ(weft_close(bulk.in), 0);
    }
    return 0;
}

API_TEST(io_sendfile, "", .workers = {1, 2}) { io_run(send_files, NULL); }

/* -- Ends --------------------------------------------------------------------------------------------------- */

static int half_close(void *unused) {
    (void)unused;
    for (int kind = IO_SOCKETPAIR; kind < IO_KINDS; kind++) {
        weft_io *a, *b;
        char text[8];
        if (!io_pair((enum io_kind)kind, &a, &b))
            continue;
        for (int round = 0; round < 2; round++) { /* one way, then the other */
            weft_io *from = round ? b : a, *to = round ? a : b;
            CHECK_EQ(weft_write(from, "last", 4, fixture_soon()), 4);
            CHECK_EQ(weft_shutdown(from, SHUT_WR), 0);
            CHECK_EQ(weft_write(from, "x", 1, fixture_soon()), -EPIPE);
            CHECK_EQ(weft_read_exact(to, text, 8, fixture_soon()), 4);
            CHECK_EQ(weft_read(to, text, 8, fixture_soon()), 0);
            CHECK_EQ(weft_read(to, text, 8, fixture_soon()), 0);
        }
        CHECK_EQ(weft_close(a), 0);
        CHECK_EQ(weft_close(b), 0);
    }
    return 0;
}

API_TEST(io_half_close, "", .workers = {1, 2}) { io_run(half_close, NULL); }

/* The last bytes and the end come as one event: reading less than was asked must not hide the end. */
struct ending {
    weft_io *in;
    size_t expected;
};

static int read_to_end(void *arg) {
    struct ending *ending = arg;
    char buffer[64];
    size_t got = 0;
    for (ssize_t n; (n = weft_read(ending->in, buffer, sizeof buffer, fixture_soon())) != 0; got += (size_t)n)
        REQUIRE_GT(n, 0);
    CHECK_EQ(got, ending->expected);
    return 0;
}

static int end_with_data(void *unused) {
    (void)unused;
    for (int kind = 0; kind < IO_KINDS; kind++)
        for (size_t size = 0; size < 3; size++)
            for (int closing = 0; closing < 2; closing++) {
                weft_io *in, *out;
                if (!io_pair((enum io_kind)kind, &in, &out))
                    continue;
                struct ending ending = {in, size};
                weft_task *reader = io_go(NULL, read_to_end, &ending);
                io_rest(); /* it waits, and is watched */
                CHECK_EQ(weft_write(out, "12", size, fixture_soon()), size);
                if (closing || kind == IO_PIPE) {
                    CHECK_EQ(weft_close(out), 0);
                    CHECK_EQ(io_join(reader), 0);
                } else {
                    CHECK_EQ(weft_shutdown(out, SHUT_WR), 0);
                    CHECK_EQ(io_join(reader), 0);
                    CHECK_EQ(weft_close(out), 0);
                }
                CHECK_EQ(weft_close(in), 0);
            }
    return 0;
}

API_TEST(io_end_with_data, "", .workers = {1, 2}) { io_run(end_with_data, NULL); }

static int reader_is_reset(void *arg) {
    char text[8];
    CHECK_EQ(weft_read(arg, text, 8, fixture_soon()), -ECONNRESET);
    CHECK_EQ(weft_write(arg, text, 8, fixture_soon()), -EPIPE);
    CHECK_EQ(weft_read(arg, text, 8, fixture_soon()), 0);
    return 0;
}

static int writer_is_reset(void *arg) {
    char *bytes = calloc(1, 100000);
    ssize_t n;
    do
        n = weft_write(arg, bytes, 100000, fixture_soon());
    while (n == 100000);
    CHECK(n == -ECONNRESET || n == -EPIPE);
    free(bytes);
    return 0;
}

static int peer_resets(void *unused) {
    (void)unused;
    for (int writing = 0; writing < 2; writing++) {
        weft_io *a, *b;
        REQUIRE(io_pair(IO_TCP, &a, &b));
        weft_task *task = io_go(NULL, writing ? writer_is_reset : reader_is_reset, a);
        io_rest();
        CHECK_EQ(weft_socket_reset_on_close(b, true), 0);
        CHECK_EQ(weft_close(b), 0);
        CHECK_EQ(io_join(task), 0);
        CHECK_EQ(weft_close(a), 0);
    }
    return 0;
}

API_TEST(io_peer_resets, "", .workers = {1, 2}) { io_run(peer_resets, NULL); }

/* SIGPIPE has its default meaning here: one of them would end the process. */
static int write_to_nobody(void *unused) {
    (void)unused;
    FILE *file = tmpfile();
    REQUIRE(file);
    REQUIRE_EQ(fputs("some text", file), 1);
    fflush(file);
    for (int kind = 0; kind < IO_KINDS; kind++) {
        weft_io *in, *out;
        struct iovec part = {"x", 1};
        off_t offset = 0;
        if (!io_pair((enum io_kind)kind, &in, &out))
            continue;
        CHECK_EQ(weft_close(in), 0);
        while (weft_write(out, "x", 1, fixture_soon()) == 1) /* TCP learns it from the answer */
            (void)weft_sleep(100000);
        CHECK_EQ(weft_write(out, "x", 1, fixture_soon()), -EPIPE);
        CHECK_EQ(weft_writev(out, &part, 1, fixture_soon()), -EPIPE);
        CHECK_EQ(weft_sendfile(out, fileno(file), &offset, 4, fixture_soon()), -EPIPE);
        CHECK_EQ(weft_close(out), 0);
    }
    fclose(file);
    return 0;
}

API_TEST(io_no_sigpipe, "", .workers = {1, 2}) {
    signal(SIGPIPE, SIG_DFL);
    io_run(write_to_nobody, NULL);
}

/* One that was pending before stays pending. */
TEST(io_sigpipe_of_others_stays, "") {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    weft_io *in, *out;
    for (int pending = 0; pending < 2; pending++) {
        REQUIRE(io_pair(IO_PIPE, &in, &out));
        weft_close(in);
        if (pending)
            raise(SIGPIPE);
        CHECK_EQ(weft_write(out, "x", 1, WEFT_NEVER), -EPIPE);
        sigset_t now;
        sigpending(&now);
        CHECK_EQ(sigismember(&now, SIGPIPE), pending);
        weft_close(out);
    }
}

/* -- Lines -------------------------------------------------------------------------------------------------- */

static int feed(void *arg) {
    static const char text[] = "one\ntwo\n\nlonger than the buffer\nafter 5bytesrest";
    for (size_t i = 0; i < sizeof text - 1; i++) { /* a byte at a time */
        CHECK_EQ(weft_write(arg, text + i, 1, fixture_soon()), 1);
        if (i % 3 == 0)
            io_rest();
    }
    CHECK_EQ(weft_close(arg), 0);
    return 0;
}

static int read_lines(void *unused) {
    (void)unused;
    weft_io *in, *out;
    REQUIRE(io_pair(IO_PIPE, &in, &out));
    weft_task *writer = io_go(NULL, feed, out);
    char room[16], *piece, text[32];
    weft_reader reader;
    weft_reader_init(&reader, in, room, sizeof room);
    CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), 4);
    CHECK(!memcmp(piece, "one\n", 4));
    CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), 4);
    CHECK(!memcmp(piece, "two\n", 4));
    CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), 1);
    CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), -EMSGSIZE);
    CHECK_EQ(weft_reader_read_exact(&reader, text, 22, fixture_soon()), 22); /* nothing was lost */
    CHECK(!memcmp(text, "longer than the buffer", 22));
    CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), 1);
    CHECK_EQ(weft_read_until(&reader, ' ', &piece, fixture_soon()), 6);
    CHECK(!memcmp(piece, "after ", 6));
    CHECK_EQ(weft_reader_read_exact(&reader, text, 6, fixture_soon()), 6);
    CHECK(!memcmp(text, "5bytes", 6));
    CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), 4); /* the end has no mark */
    CHECK(!memcmp(piece, "rest", 4));
    CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), 0);
    CHECK_EQ(weft_reader_read(&reader, text, 6, fixture_soon()), 0);
    CHECK_EQ(io_join(writer), 0);
    CHECK_EQ(weft_close(in), 0);
    /* Too late, and again in time. */
    REQUIRE(io_pair(IO_TCP, &in, &out));
    weft_reader_init(&reader, in, room, sizeof room);
    CHECK_EQ(weft_write(out, "ha", 2, fixture_soon()), 2);
    CHECK_EQ(weft_read_until(&reader, '\n', &piece, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_write(out, "lf\n", 3, fixture_soon()), 3);
    CHECK_EQ(weft_read_until(&reader, '\n', &piece, fixture_soon()), 5);
    CHECK(!memcmp(piece, "half\n", 5));
    CHECK_EQ(weft_close(in), 0);
    CHECK_EQ(weft_close(out), 0);
    return 0;
}

API_TEST(io_lines, "", .workers = {1, 2}) { io_run(read_lines, NULL); }

/* A terminal gives a line at a time: less than was asked, and yet there is more. */
static int read_terminal(void *unused) {
    (void)unused;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master))
        SKIP("no terminals here");
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    REQUIRE_GE(slave, 0);
    weft_io *keyboard, *terminal;
    char line[64];
    REQUIRE_EQ(weft_io_open(master, 0, &keyboard), 0);
    REQUIRE_EQ(weft_io_open(slave, WEFT_IO_BORROW, &terminal), 0);
    CHECK_EQ(weft_read(terminal, line, sizeof line, weft_after(1000000)), -ETIMEDOUT); /* watched from now on */
    CHECK_EQ(weft_write(keyboard, "one\nthree\n", 10, fixture_soon()), 10);
    CHECK_EQ(weft_read(terminal, line, sizeof line, fixture_soon()), 4);
    CHECK_EQ(weft_read(terminal, line, sizeof line, fixture_soon()), 6);
    CHECK_EQ(weft_read(terminal, line, sizeof line, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_close(terminal), 0);
    CHECK_EQ(fcntl(slave, F_GETFL) & O_NONBLOCK, 0); /* as it was */
    close(slave);
    CHECK_EQ(weft_close(keyboard), 0);
    return 0;
}

API_TEST(io_terminal, "", .workers = {1, 2}) { io_run(read_terminal, NULL); }

/* -- Always ready ------------------------------------------------------------------------------------------- */

static int read_zeros(void *arg) {
    atomic_uint *reads = arg;
    weft_io *zero;
    char byte;
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    REQUIRE_EQ(weft_io_open(fd, 0, &zero), 0);
    ssize_t n;
    while ((n = weft_read(zero, &byte, 1, WEFT_NEVER)) == 1)
        atomic_fetch_add(reads, 1);
    CHECK_EQ(weft_close(zero), 0);
    return (int)n;
}

static int stop_reading(void *unused) {
    (void)unused;
    atomic_uint reads = 0;
    weft_task *task = io_go(NULL, read_zeros, &reads);
    while (reads < 10000) /* both get their turn, on one worker */
        CHECK_EQ(weft_yield(), 0);
    weft_task_cancel(task);
    CHECK_EQ(io_join(task), -ECANCELED);
    return 0;
}

API_TEST(io_endless_reader_shares, "", .workers = {1, 2}) { io_run(stop_reading, NULL); }

static int read_file(void *unused) {
    (void)unused;
    weft_io *file;
    char text[64];
    FILE *temporary = tmpfile();
    REQUIRE(temporary);
    fputs("a file", temporary);
    fflush(temporary);
    lseek(fileno(temporary), 0, SEEK_SET);
    REQUIRE_EQ(weft_io_open(fileno(temporary), WEFT_IO_BORROW, &file), 0);
    CHECK_EQ(weft_read(file, text, sizeof text, fixture_soon()), 6);
    CHECK_EQ(weft_read(file, text, sizeof text, fixture_soon()), 0);
    CHECK_EQ(weft_write(file, "more", 4, fixture_soon()), 4);
    CHECK_EQ(weft_close(file), 0);
    fclose(temporary);
    CHECK_EQ(weft_io_open(-1, 0, &file), -EBADF);
    CHECK_EQ(weft_io_open(0, 0x80, &file), -EINVAL);
    CHECK_EQ(weft_close(NULL), 0);
    return 0;
}

API_TEST(io_file, "", .workers = {1}) { io_run(read_file, NULL); }
