/* stream.c - TLS streams between two of ours: bytes, ends, deadlines, cancels, closes. */
#define _GNU_SOURCE
#include "tls_fixture.h"

#define LOTS ((size_t)1 << 20)

/* -- Bytes ---------------------------------------------------------------------------------------------------------- */

/* Send LOTS in uneven pieces. */
static int send_lots(void *io) {
    static char piece[50000];
    for (size_t at = 0, size = 1; at < LOTS; at += size, size = size * 3 % 49999 + 1) {
        char *bytes = malloc(sizeof piece);
        REQUIRE(bytes);
        size = size < LOTS - at ? size : LOTS - at;
        io_fill(bytes, size, at);
        struct iovec parts[3] = {{bytes, size / 3}, {bytes + size / 3, 0}, {bytes + size / 3, size - size / 3}};
        REQUIRE_EQ(size % 2 ? weft_write(io, bytes, size, fixture_soon()) : weft_writev(io, parts, 3, fixture_soon()),
                   size);
        free(bytes);
    }
    return weft_shutdown(io, SHUT_WR);
}

static int receive_lots(void *io) {
    char *bytes = malloc(70000);
    REQUIRE(bytes);
    size_t at = 0;
    ssize_t n;
    for (size_t size = 1; (n = weft_read(io, bytes, size, fixture_soon())) > 0; size = size * 5 % 69999 + 1) {
        REQUIRE_LE(n, size);
        REQUIRE(io_is(bytes, (size_t)n, at));
        at += (size_t)n;
    }
    free(bytes);
    CHECK_EQ(n, 0); /* signed */
    CHECK_EQ(at, LOTS);
    return 0;
}

/* Both ways at once, four fibers; the handshake happens within. */
static int both_ways(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(.alpn = "h2,http/1.1"), *server = TLS_SERVER(.alpn = "http/1.1");
    struct tls_pair pair = tls_pair(client, server, "localhost");
    tls_free_both(client, server); /* the streams keep them */
    weft_fiber_fn fn[4] = {send_lots, receive_lots, send_lots, receive_lots};
    weft_io *io[4] = {pair.client, pair.client, pair.server, pair.server};
    weft_task *task[4];
    for (int i = 0; i < 4; i++)
        task[i] = io_go(NULL, fn[i], io[i]);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(io_join(task[i]), 0);
    char text[64];
    CHECK_STR(weft_tls_version(pair.client), "TLSv1.3");
    CHECK_EQ(weft_tls_protocol(pair.client, text, sizeof text), 8);
    CHECK_STR(text, "http/1.1");
    CHECK_GT(weft_tls_peer_name(pair.client, text, sizeof text), 0);
    CHECK_STR(text, "CN = localhost");
    CHECK_EQ(weft_tls_peer_name(pair.server, text, sizeof text), 0);
    CHECK_EQ(weft_close(pair.client), 0);
    CHECK_EQ(weft_close(pair.server), 0);
    CHECK_EQ(site_sockets(), 0);
    return 0;
}
API_TEST(tls_both_ways, "", .workers = {1, 2}) { io_run(both_ways, NULL); }

/* A plain thread at one end. */
static void thread_client(unsigned index, void *arg) {
    char text[6];
    (void)index;
    REQUIRE_EQ(weft_tls_handshake(arg, fixture_soon()), 0);
    REQUIRE_EQ(weft_write(arg, "hello", 5, fixture_soon()), 5);
    REQUIRE_EQ(weft_read_exact(arg, text, 5, fixture_soon()), 5);
    CHECK_EQ(memcmp(text, "HELLO", 5), 0);
    CHECK_EQ(weft_read(arg, text, 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_close(arg), 0);
}

static int shout(void *io) {
    char text[6];
    REQUIRE_EQ(weft_read_exact(io, text, 5, fixture_soon()), 5);
    REQUIRE_EQ(weft_write_some(io, "HELLO", 5, fixture_soon()), 5);
    CHECK_EQ(weft_read(io, text, 1, fixture_soon()), 0);
    return weft_close(io);
}

API_TEST(tls_thread, "", .workers = {2}, .sched = "ring deque fifo reactor") {
    weft_tls *client = TLS_CLIENT(), *server = TLS_SERVER();
    struct tls_pair pair = tls_pair(client, server, "127.0.0.1"); /* an address may be signed too */
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = io_go(rt, shout, pair.server);
    harness_threads(1, thread_client, pair.client);
    CHECK_EQ(io_join(task), 0);
    fixture_end(rt);
    tls_free_both(client, server);
}

/* -- Poll tasks ----------------------------------------------------------------------------------------------------- */

struct poller {
    weft_io *io;
    weft_wait wait;
    char *bytes;
    size_t got, sent;
    int phase;
    ssize_t error;
};

/* Take LOTS, then give them back, then the end. */
static weft_poll poll_echo(weft_task *self, void *state) {
    struct poller *p = state;
    ssize_t n = 1;
    while (p->got < LOTS && (n = weft_read_poll(p->io, self, &p->wait, p->bytes + p->got, LOTS - p->got)) > 0)
        p->got += (size_t)n;
    while (n > 0 && p->sent < LOTS &&
           (n = weft_write_poll(p->io, self, &p->wait, p->bytes + p->sent, LOTS - p->sent)) > 0)
        p->sent += (size_t)n;
    if (n == -EAGAIN)
        return WEFT_PENDING;
    p->error = n;
    weft_wait_end(&p->wait);
    return weft_done(self, n < 0 ? (int)n : weft_shutdown(p->io, SHUT_WR), NULL);
}

static int poll_task(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(), *server = TLS_SERVER();
    struct tls_pair pair = tls_pair(client, server, "localhost");
    struct poller poller = {.io = pair.server, .bytes = malloc(LOTS)};
    REQUIRE(poller.bytes);
    weft_task *task = NULL, *sender = io_go(NULL, send_lots, pair.client);
    REQUIRE_EQ(weft_go(NULL, poll_echo, &poller, &task), 0);
    CHECK_EQ(receive_lots(pair.client), 0);
    CHECK_EQ(io_join(sender), 0);
    CHECK_EQ(io_join(task), 0);
    CHECK_EQ(poller.sent, LOTS);
    free(poller.bytes);
    CHECK_EQ(weft_close(pair.client), 0);
    CHECK_EQ(weft_close(pair.server), 0);
    tls_free_both(client, server);
    return 0;
}
API_TEST(tls_poll_task, "", .workers = {1, 2}) { io_run(poll_task, NULL); }

/* -- Several writers --------------------------------------------------------------------------------------------------- */

enum { CALLS = 4, CALL_SIZE = 200000 };

struct letters {
    weft_io *io;
    char letter;
};

static int write_letters(void *arg) {
    struct letters *letters = arg;
    char *bytes = malloc(CALL_SIZE);
    REQUIRE(bytes);
    memset(bytes, letters->letter, CALL_SIZE);
    for (int i = 0; i < CALLS; i++)
        CHECK_EQ(weft_write(letters->io, bytes, CALL_SIZE, fixture_soon()), CALL_SIZE);
    free(bytes);
    return 0;
}

/* The bytes of each call stay together. */
static int several_writers(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(), *server = TLS_SERVER();
    struct tls_pair pair = tls_pair(client, server, "localhost");
    struct letters letters[3];
    weft_task *tasks[3];
    char bytes[5000];
    int last = -1;
    size_t run = 0;
    tls_shaken(&pair);
    for (int i = 0; i < 3; i++) {
        letters[i] = (struct letters){pair.client, (char)('a' + i)};
        tasks[i] = io_go(NULL, write_letters, &letters[i]);
    }
    for (size_t left = (size_t)3 * CALLS * CALL_SIZE; left;) {
        ssize_t n = weft_read(pair.server, bytes, left < sizeof bytes ? left : sizeof bytes, fixture_soon());
        REQUIRE_GT(n, 0);
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] != last)
                REQUIRE_EQ(run % CALL_SIZE, 0);
            run = bytes[i] == last ? run + 1 : 1;
            last = bytes[i];
        }
        left -= (size_t)n;
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(io_join(tasks[i]), 0);
    CHECK_EQ(weft_close(pair.client), 0);
    CHECK_EQ(weft_close(pair.server), 0);
    tls_free_both(client, server);
    return 0;
}
API_TEST(tls_writers, "", .workers = {1, 2}) { io_run(several_writers, NULL); }

struct poll_writer {
    weft_io *io;
    weft_wait wait;
    size_t sent;
    atomic_int error;
    atomic_bool waits;
};

static weft_poll write_much_poll(weft_task *self, void *state) {
    static const char zeros[16384];
    struct poll_writer *p = state;
    ssize_t n;
    while ((n = weft_write_poll(p->io, self, &p->wait, zeros, sizeof zeros)) > 0)
        p->sent += (size_t)n;
    if (n == -EAGAIN) {
        atomic_store(&p->waits, true);
        return WEFT_PENDING;
    }
    atomic_store(&p->error, (int)n);
    weft_wait_end(&p->wait);
    return WEFT_READY;
}

/* A poll task that has yet to hear of its bytes is not robbed of them by another. */
static int two_poll_tasks(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(), *server = TLS_SERVER();
    struct tls_pair pair = tls_pair(client, server, "localhost");
    struct poll_writer first = {.io = pair.client}, second = {.io = pair.client};
    weft_task *tasks[2];
    char bytes[5000];
    size_t got = 0;
    ssize_t n;
    tls_shaken(&pair);
    tasks[0] = fixture_go(NULL, write_much_poll, &first);
    UNTIL(atomic_load(&first.waits));
    io_until_it_waits(tasks[0]);
    tasks[1] = fixture_go(NULL, write_much_poll, &second);
    UNTIL(atomic_load(&second.error));
    CHECK_EQ(atomic_load(&second.error), -EBUSY);
    CHECK_EQ(second.sent, 0);
    (void)fixture_finish(tasks[1]);
    while (got < LOTS && (n = weft_read(pair.server, bytes, sizeof bytes, fixture_soon())) > 0)
        got += (size_t)n;
    CHECK_GE(got, LOTS);
    (void)weft_task_cancel(tasks[0]);
    (void)fixture_finish(tasks[0]);
    weft_wait_end(&first.wait);
    CHECK_EQ(weft_close(pair.client), 0);
    CHECK_EQ(weft_close(pair.server), 0);
    tls_free_both(client, server);
    return 0;
}
API_TEST(tls_two_poll_tasks, "", .workers = {1, 2}) { io_run(two_poll_tasks, NULL); }

/* -- Ends ----------------------------------------------------------------------------------------------------------- */

/* A signed end, a cut one, and one way closed only. */
static int ends(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(), *server = TLS_SERVER();
    char byte, text[64];
    struct tls_pair pair = tls_pair(client, server, "localhost");
    tls_shaken(&pair);
    REQUIRE_EQ(weft_write(pair.server, "x", 1, fixture_soon()), 1);
    CHECK_EQ(weft_close(pair.server), 0);
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), 1);
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), 0);
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), 0); /* stays */
    CHECK_EQ(weft_close(pair.client), 0);

    pair = tls_pair(client, server, "localhost");
    tls_shaken(&pair);
    REQUIRE_EQ(weft_write(pair.server, "x", 1, fixture_soon()), 1);
    CHECK_EQ(weft_shutdown(pair.plain_server, SHUT_WR), 0); /* somebody in between */
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), 1);
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), -ECONNRESET);
    CHECK_EQ(weft_write(pair.client, &byte, 1, fixture_soon()), -ECONNRESET); /* stays */
    CHECK_GT(weft_tls_why(pair.client, text, sizeof text), 0);
    CHECK_CONTAINS(text, "close_notify");
    CHECK_EQ(weft_close(pair.client), 0);
    CHECK_EQ(weft_close(pair.server), 0);

    /* The same where even the alert that answers it fails. */
    REQUIRE(io_pair(IO_SOCKETPAIR, &pair.plain_server, &pair.plain_client));
    REQUIRE_EQ(weft_tls_open(pair.plain_client, client, "localhost", &pair.client), 0);
    REQUIRE_EQ(weft_tls_open(pair.plain_server, server, NULL, &pair.server), 0);
    tls_shaken(&pair);
    REQUIRE_EQ(weft_write(pair.server, "x", 1, fixture_soon()), 1);
    CHECK_EQ(weft_shutdown(pair.plain_server, SHUT_RDWR), 0);
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), 1);
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), -ECONNRESET);
    CHECK_EQ(weft_close(pair.client), 0);
    CHECK_EQ(weft_close(pair.server), 0);

    pair = tls_pair(client, server, "localhost");
    tls_shaken(&pair);
    CHECK_EQ(weft_shutdown(pair.client, SHUT_WR), 0);
    CHECK_EQ(weft_write(pair.client, &byte, 1, fixture_soon()), -EPIPE);
    CHECK_EQ(weft_read(pair.server, &byte, 1, fixture_soon()), 0);
    REQUIRE_EQ(weft_write(pair.server, "y", 1, fixture_soon()), 1); /* the other way is open */
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), 1);
    CHECK_EQ(byte, 'y');
    CHECK_EQ(weft_close(pair.server), 0);
    CHECK_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), 0);
    CHECK_EQ(weft_close(pair.client), 0);
    tls_free_both(client, server);
    CHECK_EQ(site_sockets(), 0);
    return 0;
}
API_TEST(tls_ends, "", .workers = {1, 2}) { io_run(ends, NULL); }

static int sendfile_tls(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(), *server = TLS_SERVER();
    struct tls_pair pair = tls_pair(client, server, "localhost");
    FILE *file = tmpfile();
    char *bytes = malloc(LOTS);
    REQUIRE(file && bytes);
    io_fill(bytes, LOTS, 0);
    REQUIRE_EQ(fwrite(bytes, 1, LOTS, file), LOTS);
    fflush(file);
    weft_task *reader = io_go(NULL, receive_lots, pair.client);
    off_t offset = 0;
    CHECK_EQ(weft_sendfile(pair.server, fileno(file), &offset, 2 * LOTS, fixture_soon()), LOTS);
    CHECK_EQ(offset, LOTS);
    CHECK_EQ(weft_close(pair.server), 0);
    CHECK_EQ(io_join(reader), 0);
    CHECK_EQ(weft_close(pair.client), 0);
    fclose(file);
    free(bytes);
    tls_free_both(client, server);
    return 0;
}
API_TEST(tls_sendfile, "", .workers = {2}) { io_run(sendfile_tls, NULL); }

/* -- Deadlines, cancels, closes -------------------------------------------------------------------------------------- */

struct drained {
    weft_io *io;
    size_t size;
};

static int drain(void *arg) {
    struct drained *d = arg;
    char *bytes = malloc(LOTS);
    REQUIRE(bytes);
    for (size_t got = 0; got < d->size;) {
        ssize_t n = weft_read(d->io, bytes, LOTS, fixture_soon());
        REQUIRE_GT(n, 0);
        REQUIRE(io_is(bytes, (size_t)n, got));
        got += (size_t)n;
    }
    free(bytes);
    return 0;
}

/* Write until it is too late: the peer does not read.  Then it does, and what it gets is one good stream. */
static int late(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(), *server = TLS_SERVER();
    struct tls_pair pair = tls_pair(client, server, "localhost");
    char byte, *bytes = malloc(LOTS);
    REQUIRE(bytes);
    tls_shaken(&pair);
    CHECK_EQ(weft_read(pair.client, &byte, 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_read(pair.client, &byte, 1, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft_io_wait(pair.client, WEFT_FD_READ, weft_after(MS)), -ETIMEDOUT);
    size_t sent = 0;
    for (;;) { /* what is taken counts, whether there was time to send it or not */
        io_fill(bytes, 20000, sent);
        ssize_t n = weft_write_some(pair.server, bytes, 20000, weft_after(20 * MS));
        if (n < 0) {
            CHECK_EQ(n, -ETIMEDOUT);
            break;
        }
        sent += (size_t)n;
        REQUIRE_LT(sent, 100 * LOTS);
    }
    struct drained all = {pair.client, sent};
    weft_task *reader = io_go(NULL, drain, &all);
    CHECK_EQ(weft_io_wait(pair.server, WEFT_FD_WRITE, fixture_soon()), 0); /* the rest goes with any call */
    CHECK_EQ(io_join(reader), 0);
    REQUIRE_EQ(weft_write(pair.server, "z", 1, fixture_soon()), 1);
    REQUIRE_EQ(weft_read(pair.client, &byte, 1, fixture_soon()), 1);
    CHECK_EQ(byte, 'z');
    CHECK_EQ(weft_close(pair.client), 0);
    CHECK_EQ(weft_close(pair.server), 0);
    free(bytes);
    tls_free_both(client, server);
    return 0;
}
API_TEST(tls_late, "", .workers = {1, 2}) { io_run(late, NULL); }

/* A peer that says nothing, or goes in the middle of its handshake. */
static int silent(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(.handshake_timeout = 20 * MS), *server = TLS_SERVER();
    struct tls_pair pair = tls_pair(client, server, "localhost");
    char text[64];
    CHECK_EQ(weft_tls_handshake(pair.server, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft_tls_handshake(pair.server, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_tls_handshake(pair.client, fixture_soon()), -ETIMEDOUT); /* its own limit, which stays */
    CHECK_EQ(weft_write(pair.client, text, 1, fixture_soon()), -ETIMEDOUT);
    CHECK_GT(weft_tls_why(pair.client, text, sizeof text), 0);
    CHECK_CONTAINS(text, "too long");
    CHECK_EQ(weft_close(pair.client), 0);
    int error = weft_tls_handshake(pair.server, fixture_soon());
    CHECK(error == -ECONNRESET || error == -EPIPE); /* it has gone without a word */
    CHECK_EQ(weft_close(pair.server), 0);
    tls_free_both(client, server);
    return 0;
}
API_TEST(tls_silent, "", .workers = {1, 2}) { io_run(silent, NULL); }

static int read_one(void *io) {
    char byte;
    return (int)weft_read(io, &byte, 1, WEFT_NEVER);
}
static int write_much(void *io) {
    static const char zeros[65536];
    ssize_t n;
    while ((n = weft_write(io, zeros, sizeof zeros, WEFT_NEVER)) > 0)
        ;
    return (int)n;
}

/* Whoever waits, in whatever, is cancelled and goes; or is told of a close. */
static int interrupted(void *arg) {
    (void)arg;
    weft_tls *client = TLS_CLIENT(), *server = TLS_SERVER();
    weft_fiber_fn fn[3] = {tls_shake, read_one, write_much};
    for (int close = 0; close < 2; close++)
        for (int i = 0; i < 3; i++) {
            struct tls_pair pair = tls_pair(client, server, "localhost");
            if (i)
                tls_shaken(&pair);
            weft_task *task = io_go(NULL, fn[i], pair.client);
            io_until_it_waits(task);
            if (close)
                CHECK_EQ(weft_close(pair.client), 0);
            else
                (void)weft_task_cancel(task);
            CHECK_EQ(io_join(task), close ? -EBADF : -ECANCELED);
            if (!close)
                CHECK_EQ(weft_close(pair.client), 0);
            CHECK_EQ(weft_close(pair.server), 0);
        }
    tls_free_both(client, server);
    CHECK_EQ(site_sockets(), 0);
    return 0;
}
API_TEST(tls_interrupted, "", .workers = {1, 2}) { io_run(interrupted, NULL); }
