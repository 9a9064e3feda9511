/* slice_io.c - no call on descriptors, files, names, children or signals holds its worker longer than a slice. */
#include "slice.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/uio.h>

#include "io_fixture.h"

#define PAST ((weft_deadline)1) /* a deadline that has passed, and is not WEFT_NOW */

static int is(ssize_t found, ssize_t expected) { return found == expected ? 0 : found < 0 ? (int)found : -EPROTO; }

static weft_io *in, *out, *udp, *listener, *full, *full_end;
static weft_addr address, udp_address;
static char bytes[16];
static char many[4096], listener_path[64];
static weft_reader reader;
static char room[2 * sizeof many];
static int file;
static weft_file *stored;
static weft_signals *signals;
static weft_child *child;

/* -- Bytes ------------------------------------------------------------------------------------------------- */

static int read_bytes(void) {
    REQUIRE_EQ(weft_try_write(out, bytes, 16), 16);
    return is(weft_read(in, bytes, 16, WEFT_NEVER), 16);
}
static int readv_bytes(void) {
    struct iovec part = {bytes, 16};
    REQUIRE_EQ(weft_try_write(out, bytes, 16), 16);
    return is(weft_readv(in, &part, 1, WEFT_NEVER), 16);
}
static int read_exact(void) {
    REQUIRE_EQ(weft_try_write(out, bytes, 16), 16);
    return is(weft_read_exact(in, bytes, 16, WEFT_NEVER), 16);
}
static int read_nothing(void) { return is(weft_read(in, bytes, 0, WEFT_NEVER), 0); }
static int drain(void) { return is(weft_try_read(in, bytes, 16), 16); }
static int write_bytes(void) {
    int error = is(weft_write(out, bytes, 16, WEFT_NEVER), 16);
    return error ? error : drain();
}
static int writev_bytes(void) {
    struct iovec part = {bytes, 16};
    int error = is(weft_writev(out, &part, 1, WEFT_NEVER), 16);
    return error ? error : drain();
}
static int write_some(void) {
    int error = is(weft_write_some(out, bytes, 16, WEFT_NEVER), 16);
    return error ? error : drain();
}
static int write_nothing(void) { return is(weft_write(out, bytes, 0, WEFT_NEVER), 0); }
static int send_file(void) {
    off_t offset = 0;
    int error = is(weft_sendfile(out, file, &offset, 16, WEFT_NEVER), 16);
    return error ? error : drain();
}
static int io_wait(void) { return weft_io_wait(out, WEFT_FD_WRITE, WEFT_NEVER); }
static int fd_wait(void) { return is(weft_fd_wait(file, WEFT_FD_READ, WEFT_NEVER), WEFT_FD_READ); }

/* A reader that has a buffer full of lines. */
static void refill(void) {
    if (reader.from != reader.to)
        return;
    memset(many, '\n', sizeof many);
    memcpy(room, many, sizeof many);
    reader.from = 0, reader.to = sizeof many;
}
static int read_until(void) {
    char *piece;
    refill();
    return is(weft_read_until(&reader, '\n', &piece, WEFT_NEVER), 1);
}
static int reader_read(void) {
    refill();
    return is(weft_reader_read(&reader, bytes, 1, WEFT_NEVER), 1);
}
static int reader_read_exact(void) {
    refill();
    return is(weft_reader_read_exact(&reader, bytes, 1, WEFT_NEVER), 1);
}

/* -- Connections ------------------------------------------------------------------------------------------- */

static int finish(int error, weft_io *a) {
    weft_io *b = NULL;
    if (!error)
        error = weft_accept(listener, &b, NULL, WEFT_NEVER);
    weft_close(a);
    weft_close(b);
    return error;
}
static int connect_and_accept(void) {
    weft_io *a = NULL;
    int error = weft_connect(&address, &a, WEFT_NEVER);
    return finish(error, a);
}
static int unix_connect(void) {
    weft_io *a = NULL;
    int error = weft_unix_connect(listener_path, &a, WEFT_NEVER);
    return finish(error, a);
}
static int connect_any(void) {
    weft_io *a = NULL;
    int error = weft_connect_any(&address, 1, &a, WEFT_NEVER);
    return finish(error, a);
}
static int send_to(void) {
    int error = is(weft_send_to(udp, bytes, 16, &udp_address, WEFT_NEVER), 16);
    return error ? error : is(weft_recv_from(udp, bytes, 16, NULL, WEFT_NEVER), 16);
}
static int send_fds(void) {
    unsigned count = 1;
    int fd = -1, error = is(weft_send_fds(full, bytes, 1, &file, 1, WEFT_NEVER), 1);
    if (!error)
        error = is(weft_recv_fds(full_end, bytes, 1, &fd, &count, WEFT_NEVER), 1);
    if (fd >= 0)
        close(fd);
    return error;
}

/* -- The system -------------------------------------------------------------------------------------------- */

static int file_read(void) { return is(weft_file_read(stored, bytes, 16, 0, WEFT_NEVER), 16); }
static int file_readv(void) {
    struct iovec part = {bytes, 16};
    return is(weft_file_readv(stored, &part, 1, 0, WEFT_NEVER), 16);
}
static int resolve(void) {
    weft_addr found;
    return is(weft_resolve("127.0.0.1", "80", AF_INET, &found, 1, WEFT_NEVER), 1);
}
static int signal_wait(void) { return is(weft_signal_wait(signals, PAST), -ETIMEDOUT); }
static int child_wait(void) { return weft_child_wait(child, NULL, WEFT_NEVER); }

static const struct slice_call calls[] = {
    {"weft_read", read_bytes, SLICE_HEAVY},
    {"weft_read", read_nothing, SLICE_HEAVY},
    {"weft_readv", readv_bytes, SLICE_HEAVY},
    {"weft_read_exact", read_exact, SLICE_HEAVY},
    {"weft_write", write_bytes, SLICE_HEAVY},
    {"weft_write", write_nothing, SLICE_LIGHT},
    {"weft_writev", writev_bytes, SLICE_HEAVY},
    {"weft_write_some", write_some, SLICE_HEAVY},
    {"weft_sendfile", send_file, SLICE_HEAVY},
    {"weft_io_wait", io_wait, SLICE_HEAVY},
    {"weft_fd_wait", fd_wait, SLICE_HEAVY},
    {"weft_read_until", read_until, SLICE_LIGHT},
    {"weft_reader_read", reader_read, SLICE_LIGHT},
    {"weft_reader_read_exact", reader_read_exact, SLICE_LIGHT},
    {"weft_connect", connect_and_accept, SLICE_HEAVY},
    {"weft_accept", connect_and_accept, SLICE_HEAVY},
    {"weft_unix_connect", unix_connect, SLICE_HEAVY},
    {"weft_connect_any", connect_any, SLICE_HEAVY},
    {"weft_send_to", send_to, SLICE_HEAVY},
    {"weft_recv_from", send_to, SLICE_HEAVY},
    {"weft_file_read", file_read, SLICE_HEAVY},
    {"weft_file_readv", file_readv, SLICE_HEAVY},
    {"weft_resolve", resolve, SLICE_HEAVY},
    {"weft_signal_wait", signal_wait, SLICE_HEAVY},
    {"weft_child_wait", child_wait, SLICE_HEAVY},
};
/* Not in a simulated network, which passes no descriptors. */
static const struct slice_call passing[] = {
    {"weft_send_fds", send_fds, SLICE_HEAVY},
    {"weft_recv_fds", send_fds, SLICE_HEAVY},
};

static int check_all(void *unused) {
    (void)unused;
    char path[64];
    static const char *const program[] = {"true", NULL};
    weft_child_spec spec = WEFT_CHILD_SPEC_INIT;
    int number = SIGUSR1;
    io_path(path, sizeof path, false);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(file >= 0 && unlink(path) == 0 && write(file, many, sizeof many) == sizeof many);
    REQUIRE_EQ(weft_file_adopt(dup(file), &stored), 0);
    REQUIRE_EQ(weft_socketpair(&in, &out), 0);
    REQUIRE_EQ(weft_socketpair(&full, &full_end), 0);
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 0, &udp_address), 0);
    REQUIRE_EQ(weft_udp_open(&udp_address, AF_INET, &udp), 0);
    REQUIRE_EQ(weft_local_addr(udp, &udp_address), 0);
    io_path(listener_path, sizeof listener_path, true);
    REQUIRE_EQ(weft_unix_listen(listener_path, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &address), 0);
    weft_reader_init(&reader, in, room, sizeof room);
    REQUIRE_EQ(weft_signal_open(&number, 1, &signals), 0);
    spec.argv = program;
    REQUIRE_EQ(weft_child_start(&spec, &child, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_child_wait(child, NULL, WEFT_NEVER), 0);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        slice_check(&calls[i]);
    for (size_t i = 0; i < sizeof passing / sizeof *passing && !fixture_on("sim"); i++)
        slice_check(&passing[i]);
    weft_child_close(child);
    weft_signal_close(signals);
    weft_close(in), weft_close(out), weft_close(full), weft_close(full_end), weft_close(udp), weft_close(listener);
    CHECK_EQ(weft_file_close(stored), 0);
    close(file);
    return 0;
}

API_TEST(slice_of_every_io_call, "R10", .workers = {1}, .timeout = 240) { io_run(check_all, NULL); }
