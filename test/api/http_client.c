/* http_client.c - the client, against our server and against peers that say what they like. */
#include "http_fixture.h"

/* -- Our server -------------------------------------------------------------------------------------------------- */

static int client_asks(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    weft_http_client *client;
    site_open(&site);
    weft_io *io = dial(&site);
    REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
    CHECK(!weft_http_answer_field(client, "A").at);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_http_ask(client, "GET", "/hello", NULL, NULL, 0, fixture_soon()), 200);
        CHECK_EQ(weft_http_ask(client, "GET", "/hello", NULL, NULL, 0, fixture_soon()), -EBUSY);
        answer_is(client, "hello\n");
        CHECK(weft_text_is(weft_http_answer_field(client, "content-type"), "text/plain")); /* also behind the body */
        CHECK_EQ(weft_http_ask(client, "POST", "/stream", "A: b\r\n", "some bytes", 10, fixture_soon()), 200);
        answer_is(client, "some bytes");
        CHECK(weft_text_is(weft_http_answer_field(client, "Transfer-Encoding"), "chunked"));
        CHECK_EQ(weft_http_ask(client, "HEAD", "/hello", NULL, NULL, 0, fixture_soon()), 200);
        answer_is(client, "");
        CHECK_EQ(weft_http_ask(client, "GET", "/nothing", NULL, NULL, 0, fixture_soon()), 404);
        answer_is(client, "not found\n");
        CHECK_EQ(weft_http_ask(client, "POST", "/echo", "Expect: 100-continue\r\n", "abc", 3, fixture_soon()), 200);
        answer_is(client, "abc");
    }
    /* Nothing is sent that could be understood in another way. */
    static const char *const bad[][3] = {
        {"GET", "/ HTTP/1.1\r\nX: y", NULL},
        {"GET", "/a b", NULL},
        {"GET", "", NULL},
        {"G T", "/", NULL},
        {"", "/", NULL},
        {"GET", "/", "A: b"},
        {"GET", "/", "A: b\r\n\r\n"},
        {"GET", "/", "A: b\n"},
        {"GET", "/", "Host: b\r\n"},
        {"GET", "/", "Content-Length: 5\r\n"},
        {"GET", "/", "A : b\r\n"},
        {"GET", "/", "Transfer-Encoding: chunked\r\n"},
        {"CONNECT", "a:1", NULL},
        {"GET", "/#a", NULL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(weft_http_ask(client, bad[i][0], bad[i][1], bad[i][2], NULL, 0, fixture_soon()), -EINVAL);
    weft_text name, value;
    CHECK_EQ(weft_http_ask(client, "GET", "/hello", "Connection: close\r\n", NULL, 0, fixture_soon()), 200);
    CHECK_EQ(weft_http_answer_fields(client, 2, &name, &value), 3); /* a length, the close, */
    CHECK(weft_text_is(name, "Content-Type") && weft_text_is(value, "text/plain"));
    answer_is(client, "hello\n");
    CHECK(!weft_http_client_is_open(client));
    CHECK_EQ(weft_http_ask(client, "GET", "/hello", NULL, NULL, 0, fixture_soon()), -ECONNRESET);
    weft_http_client_close(client);
    CHECK_EQ(weft_close(io), 0);
    io = dial(&site);
    REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
    CHECK_EQ(weft_http_ask(client, "GET", "/half", NULL, NULL, 0, fixture_soon()), 200);
    char found[10];
    CHECK_EQ(weft_http_answer_read(client, found, 10, fixture_soon()), 3);
    CHECK_EQ(weft_http_answer_read(client, found, 10, fixture_soon()), -ECONNRESET);
    CHECK(!weft_http_client_is_open(client));
    weft_http_client_close(client);
    CHECK_EQ(weft_close(io), 0);
    CHECK_EQ(weft_http_client_open(io, "a\r\nb", &client), -EINVAL);
    site_close(&site);
    return 0;
}
API_TEST(http_client_asks, "", .workers = {1, 2}) { io_run(client_asks, NULL); }

/* A server that is gone is -ECONNRESET, whichever call notices it; and so says who reads the answer that there is not. */
static int no_answer(void *unused) {
    (void)unused;
    static char much[1 << 20];
    for (int kind = IO_SOCKETPAIR; kind <= IO_TCP; kind++)
        for (size_t size = 0; size <= sizeof much; size += sizeof much / 2) {
            weft_http_client *client;
            weft_io *a, *b;
            char byte;
            REQUIRE(io_pair(kind, &a, &b));
            REQUIRE_EQ(weft_http_client_open(a, "h", &client), 0);
            CHECK_EQ(weft_close(b), 0);
            CHECK_EQ(weft_io_wait(a, WEFT_FD_READ, fixture_soon()), 0);
            CHECK_EQ(weft_http_ask(client, "POST", "/", NULL, much, size, fixture_soon()), -ECONNRESET);
            CHECK_EQ(weft_http_answer_status(client), 0);
            CHECK_EQ(weft_http_answer_read(client, &byte, 1, fixture_soon()), -ECONNRESET);
            CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), -ECONNRESET);
            weft_http_client_close(client);
            CHECK_EQ(weft_close(a), 0);
        }
    weft_http_client *client;
    weft_io *a, *b;
    char byte;
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    REQUIRE_EQ(weft_http_client_open(a, "h", &client), 0);
    CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft_http_answer_read(client, &byte, 1, fixture_soon()), -ETIMEDOUT);
    weft_http_client_close(client);
    CHECK_EQ(weft_close(a), 0);
    return weft_close(b);
}
API_TEST(http_no_answer, "", .workers = {1, 2}) { io_run(no_answer, NULL); }

/* -- Any server -------------------------------------------------------------------------------------------------- */

struct peer {
    const char *says;
    int status; /* expected of the request */
    const char *body; /* expected, if it was not negative */
    int ends; /* what the last read returns */
    bool open; /* afterwards */
};

static const struct peer peers[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", 0, true},
    {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", 200, "abc", -ECONNRESET, false},
    {"HTTP/1.1 200 OK\r\n\r\nabc", 200, "abc", 0, false}, /* until it closes */
    {"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", 0, false},
    {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", 0, true},
    {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", 0, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x\r\nbc\r\n0\r\nT: u\r\n\r\n", 200, "abc", 0,
     true},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", 200, "a", -ECONNRESET, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 200, "a", -EBADMSG, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nab\r\n", 200, "", -EBADMSG, false},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 204, "", 0, true},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", 304, "", 0, true},
    {"HTTP/1.1 101 Switching\r\n\r\n", -EBADMSG, NULL, 0, false}, /* nobody asked */
    {"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", -EBADMSG, NULL, 0, false},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 S\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", -EBADMSG, NULL, 0, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", -EBADMSG, NULL, 0, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", -EBADMSG, NULL, 0, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", -EBADMSG, NULL, 0, false},
    {"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", -EBADMSG, NULL, 0, false},
    {"HTTP/2.0 200 OK\r\n\r\n", -EBADMSG, NULL, 0, false},
    {"SSH-2.0-OpenSSH\r\n", -EBADMSG, NULL, 0, false},
    {"HTTP/1.1 200 OK\r\nContent-", -ECONNRESET, NULL, 0, false},
    {"", -ECONNRESET, NULL, 0, false},
};

struct meeting {
    weft_io *io;
    const char *says;
    bool stays;
};

/* Hear a request out, say it byte by byte, close unless it could go on. */
static int peer_main(void *arg) {
    struct meeting *meeting = arg;
    hear(meeting->io, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    for (const char *byte = meeting->says; *byte; byte++) {
        REQUIRE_EQ(weft_write(meeting->io, byte, 1, fixture_soon()), 1);
        (void)weft_yield();
    }
    if (!meeting->stays)
        CHECK_EQ(weft_shutdown(meeting->io, SHUT_WR), 0);
    return 0;
}

static int client_hears(void *unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        const struct peer *peer = &peers[i];
        struct meeting meeting = {.says = peer->says, .stays = peer->open};
        weft_http_client *client;
        weft_io *io;
        char found[64] = "";
        size_t got = 0;
        ssize_t n = 0;
        REQUIRE_EQ(weft_socketpair(&io, &meeting.io), 0);
        weft_task *task = io_go(NULL, peer_main, &meeting);
        REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
        int status = weft_http_ask(client, "GET", "/x", NULL, NULL, 0, fixture_soon());
        if (status > 0)
            while ((n = weft_http_answer_read(client, found + got, 10, fixture_soon())) > 0)
                got += (size_t)n;
        if (status != peer->status || n != peer->ends || (peer->body && strcmp(found, peer->body)) ||
            weft_http_client_is_open(client) != peer->open)
            harness_note(__FILE__, __LINE__, "case %zu: found status %d, \"%s\", then %zd, open %d", i, status, found,
                         n, weft_http_client_is_open(client));
        CHECK_EQ(io_join(task), 0);
        weft_http_client_close(client);
        CHECK_EQ(weft_close(io), 0);
        CHECK_EQ(weft_close(meeting.io), 0);
    }
    CHECK_EQ(site_sockets(), 0);
    return 0;
}
API_TEST(http_client_hears, "", .workers = {1, 2}) { io_run(client_hears, NULL); }

/* Deadlines, an answer to nothing, and interim answers without end. */
static int client_refuses(void *unused) {
    (void)unused;
    for (int i = 0; i < 6; i++) {
        weft_http_client *client;
        weft_io *io, *peer;
        char byte;
        REQUIRE_EQ(weft_socketpair(&io, &peer), 0);
        REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
        if (i == 0) {
            CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, weft_after(10 * MS)), -ETIMEDOUT);
        } else if (i == 1) {
            say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
            CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), 200);
            CHECK_EQ(weft_http_answer_read(client, &byte, 1, fixture_soon()), 1);
            CHECK_EQ(weft_http_answer_read(client, &byte, 1, weft_after(10 * MS)), -ETIMEDOUT);
        } else if (i == 2) {
            say(peer, "HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), 204);
            CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), -EBADMSG);
        } else if (i == 3) { /* one that was asked for: the stream is the other protocol's */
            say(peer, "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
            CHECK_EQ(
                weft_http_ask(client, "GET", "/", "Connection: Upgrade\r\nUpgrade: x\r\n", NULL, 0, fixture_soon()),
                101);
            CHECK_EQ(weft_http_answer_status(client), 101);
            CHECK_EQ(weft_http_answer_read(client, &byte, 1, fixture_soon()), 0);
        } else if (i == 4) { /* half asked for */
            say(peer, "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
            CHECK_EQ(weft_http_ask(client, "GET", "/", "Upgrade: x\r\n", NULL, 0, fixture_soon()), -EBADMSG);
            CHECK_EQ(weft_http_answer_status(client), 0);
            CHECK(!weft_http_answer_field(client, "Upgrade").at);
        } else {
            for (int n = 0; n < 20; n++)
                say(peer, "HTTP/1.1 100 Continue\r\n\r\n");
            CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), -EBADMSG);
        }
        CHECK(!weft_http_client_is_open(client));
        weft_http_client_close(client);
        CHECK_EQ(weft_close(io), 0);
        CHECK_EQ(weft_close(peer), 0);
    }
    return 0;
}
API_TEST(http_client_refuses, "", .workers = {1, 2}) { io_run(client_refuses, NULL); }

/* A server that answers, reads nothing of the body, and resets the connection: its answer is heard all the same. */
static int answer_and_reset(void *listener) {
    weft_io *io;
    REQUIRE_EQ(weft_accept(listener, &io, NULL, fixture_soon()), 0);
    say(io, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig");
    CHECK_EQ(weft_io_wait(io, WEFT_FD_READ, fixture_soon()), 0);
    CHECK_EQ(weft_sleep(2 * MS), 0); /* mostly it waits for room by then, and finds -ECONNRESET; else -EPIPE */
    CHECK_EQ(weft_close(io), 0); /* with bytes that nobody has read */
    return 0;
}

static int client_is_cut_off(void *unused) {
    (void)unused;
    size_t size = 32u << 20; /* more than the buffers of both sides take */
    char *body = calloc(1, size), text[8];
    weft_io *listener, *io;
    weft_addr addr;
    weft_http_client *client;
    REQUIRE(body);
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    weft_task *task = io_go(NULL, answer_and_reset, listener);
    REQUIRE_EQ(weft_connect(&addr, &io, fixture_soon()), 0);
    REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
    CHECK_EQ(weft_http_ask(client, "POST", "/", NULL, body, size, fixture_soon()), 413);
    CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 3);
    CHECK(!weft_http_client_is_open(client));
    CHECK_EQ(io_join(task), 0);
    weft_http_client_close(client);
    CHECK_EQ(weft_close(io), 0);
    CHECK_EQ(weft_close(listener), 0);
    free(body);
    return 0;
}
API_TEST(http_client_cut_off, "", .workers = {1, 2}) { io_run(client_is_cut_off, NULL); }

/* A server that closes an idle connection is seen before the next request is wasted on it. */
static int answer_once_and_close(void *arg) {
    weft_io *io;
    char text[200];
    REQUIRE_EQ(weft_accept(arg, &io, NULL, fixture_soon()), 0);
    CHECK_GT(weft_read(io, text, sizeof text, fixture_soon()), 0);
    say(io, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    CHECK_EQ(weft_read(io, text, 1, fixture_soon()), 1); /* when it is told to */
    CHECK_EQ(weft_close(io), 0);
    return 0;
}

static int server_closes(void *unused) {
    (void)unused;
    weft_io *listener, *io;
    weft_addr addr;
    weft_http_client *client;
    char text[8];
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    weft_task *task = io_go(NULL, answer_once_and_close, listener);
    REQUIRE_EQ(weft_connect(&addr, &io, fixture_soon()), 0);
    REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
    CHECK(weft_http_client_is_open(client));
    CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), 200);
    CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 2);
    CHECK(weft_http_client_is_open(client));
    say(io, "x");
    CHECK_EQ(io_join(task), 0);
    UNTIL(!weft_http_client_is_open(client));
    weft_http_client_close(client);
    CHECK_EQ(weft_close(io), 0);
    CHECK_EQ(weft_close(listener), 0);
    return 0;
}
/* Bytes that follow an answer unasked: the client may have read them together with the answer. */
static int answer_twice(void *unused) {
    (void)unused;
    weft_io *near, *far;
    weft_http_client *client;
    char text[8];
    REQUIRE_EQ(weft_socketpair(&near, &far), 0);
    REQUIRE_EQ(weft_http_client_open(near, "h", &client), 0);
    say(far, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), 200);
    CHECK(weft_http_client_is_open(client)); /* the answer is not read yet */
    CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 2);
    CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 0);
    CHECK(!weft_http_client_is_open(client));
    weft_http_client_close(client);
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(weft_close(far), 0);
    return 0;
}
API_TEST(http_client_unasked_bytes, "") { io_run(answer_twice, NULL); }

API_TEST(http_client_server_closes, "", .workers = {1, 2}) { io_run(server_closes, NULL); }
