/* http_url.c - clients by URL, and the client's side of WebSocket: against our server, and against peers that say what they like. */
#include <weft/dns.h>

#include "http_fixture.h"

static void url_of(struct site *site, const char *scheme, char *text, size_t room) {
    char where[64];
    weft_addr_format(&site->addr, where, sizeof where);
    snprintf(text, room, "%s://%s/x?y", scheme, where);
}

/* -- By URL ---------------------------------------------------------------------------------------------------------- */

/* The system's answer would do as well, but when the machine is busy it is asked several times (<weft/dns.h>), and who was too late has a socket of
 * libc's open for a while: site_close counts them all. */
static int by_name(void *asked, const char *name, const char *service, int family, weft_addr *addrs, size_t room,
                   weft_deadline until) {
    (void)family, (void)room, (void)until;
    CHECK_STR(name, "some.name");
    ++*(int *)asked;
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", atoi(service), addrs), 0);
    return 1;
}

static int by_url(void *unused) {
    (void)unused;
    static const weft_resolver resolver = {sizeof resolver, by_name, NULL};
    static int asked;
    struct site site = SITE(serve_site);
    weft_http_client *client;
    char url[100], named[128], text[16];
    REQUIRE_EQ(weft_resolver_set(NULL, &resolver, &asked), 0);
    site_open(&site);
    url_of(&site, "http", url, sizeof url);
    REQUIRE_EQ(weft_http_connect(url, fixture_soon(), &client), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_http_answer_status(client), i ? 200 : 0);
        CHECK_EQ(weft_http_ask(client, "GET", "/hello", NULL, NULL, 0, fixture_soon()), 200);
        CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 6);
        CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 0);
    }
    CHECK_GT(weft_io_fd(weft_http_client_io(client)), 0);
    weft_http_client_close(client); /* with its connection */
    CHECK_EQ(asked, 0);
    snprintf(named, sizeof named, "http://some.name%s", strrchr(url, ':'));
    REQUIRE_EQ(weft_http_connect(named, fixture_soon(), &client), 0);
    CHECK_EQ(weft_http_ask(client, "GET", "/hello", NULL, NULL, 0, fixture_soon()), 200);
    CHECK_EQ(asked, 1);
    weft_http_client_close(client);
    CHECK_EQ(weft_http_connect("gopher://h/", fixture_soon(), &client), -EINVAL);
    CHECK_EQ(weft_http_connect("http://127.0.0.1:1/", fixture_soon(), &client), -ECONNREFUSED);
    url_of(&site, "https", url, sizeof url);
    CHECK_EQ(weft_http_connect(url, fixture_soon(), &client), -EPROTONOSUPPORT); /* nobody said how */
    site_close(&site);
    return 0;
}
API_TEST(http_by_url, "", .workers = {1, 2}) { io_run(by_url, NULL); }

/* -- WebSocket, with our server -------------------------------------------------------------------------------------- */

static int echo(weft_http *x, void *arg) {
    struct site *site = arg;
    static char buffer[200000];
    int kind = 0, error = weft_ws_accept(x);
    ssize_t n = error;
    if (error)
        return error == -EPROTO ? 0 : error;
    while ((n = weft_ws_read(x, buffer, sizeof buffer, &kind, fixture_soon())) >= 0 && kind != WEFT_WS_CLOSE)
        CHECK_EQ(weft_ws_write(x, kind, buffer, (size_t)n), 0);
    site->error = (int)n;
    if (n >= 0) { /* what the client said */
        weft_text text;
        CHECK_EQ(weft_ws_reason(x, &text), weft_ws_reason(x, NULL));
        site->entered = (unsigned)weft_ws_reason(x, NULL);
        if (site->entered == 4001)
            CHECK(weft_text_is(text, "enough"));
        else
            CHECK_EQ(text.size, 0);
    } else {
        CHECK_EQ(weft_ws_reason(x, NULL), 0);
    }
    site->left++;
    return 0;
}

static int ws_client(void *unused) {
    (void)unused;
    struct site site = SITE(echo);
    weft_http_client *client;
    weft_http *ws;
    char url[100], *sent = malloc(150000), *found = malloc(150000);
    int kind;
    REQUIRE(sent && found);
    io_fill(sent, 150000, 0);
    site_open(&site);
    url_of(&site, "ws", url, sizeof url);
    REQUIRE_EQ(weft_http_connect(url, fixture_soon(), &client), 0);
    REQUIRE_EQ(weft_ws_open(client, "/x?y", "Sec-WebSocket-Protocol: a\r\n", fixture_soon(), &ws), 0);
    static const size_t sizes[] = {0, 1, 125, 126, 4081, 4082, 4083, 65535, 65536, 150000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_EQ(weft_ws_write(ws, WEFT_WS_BINARY, sent, sizes[i]), 0);
        CHECK_EQ(weft_ws_read(ws, found, 150000, &kind, fixture_soon()), sizes[i]);
        CHECK_EQ(kind, WEFT_WS_BINARY);
        CHECK(!memcmp(found, sent, sizes[i]));
    }
    CHECK_EQ(weft_ws_write(ws, WEFT_WS_TEXT, "gr\xc3\xbc\xc3\x9f", 6), 0);
    CHECK_EQ(weft_ws_read(ws, found, 150000, &kind, fixture_soon()), 6);
    CHECK_EQ(kind, WEFT_WS_TEXT);
    CHECK_EQ(weft_ws_read(ws, found, 150000, &kind, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_ws_open(client, "/", NULL, fixture_soon(), &ws), -EBUSY);
    CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()),
             -ECONNRESET); /* it is something else now */
    CHECK_EQ(weft_ws_write(ws, WEFT_WS_CLOSE, "\x03\xe8", 2), 0);
    CHECK_EQ(weft_ws_read(ws, found, 150000, &kind, fixture_soon()), 0);
    CHECK_EQ(kind, WEFT_WS_CLOSE);
    CHECK_EQ(weft_ws_write(ws, WEFT_WS_TEXT, "a", 1), -EPIPE);
    weft_http_client_close(client);
    UNTIL(site.left == 1);
    CHECK_EQ(site.error, 0);
    /* Gone without a close; and with a field as long as tokens are. */
    static char field[7000];
    memset(field, 'a', sizeof field);
    memcpy(field, "A: ", 3);
    memcpy(field + sizeof field - 3, "\r\n", 3);
    REQUIRE_EQ(weft_http_connect(url, fixture_soon(), &client), 0);
    REQUIRE_EQ(weft_ws_open(client, "/", field, fixture_soon(), &ws), 0);
    weft_http_client_close(client);
    UNTIL(site.left == 2);
    CHECK_EQ(site.error, -ECONNRESET);
    site_close(&site);
    free(sent), free(found);
    return 0;
}
API_TEST(http_ws_client, "", .workers = {1, 2}) { io_run(ws_client, NULL); }

/* Pings are answered, and heard; each side learns why the other has closed. */
static int ws_ping(void *unused) {
    (void)unused;
    static const struct {
        const char *close;
        size_t size;
        int reason;
    } ends[] = {{"", 0, 1005},
                {"\x03\xe8", 2, 1000},
                {"\x0f\xa1"
                 "enough",
                 8, 4001}};
    struct site site = SITE(echo);
    weft_http_client *client;
    weft_http *ws;
    char url[100], bytes[126] = "";
    int kind;
    site_open(&site);
    url_of(&site, "ws", url, sizeof url);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        REQUIRE_EQ(weft_http_connect(url, fixture_soon(), &client), 0);
        REQUIRE_EQ(weft_ws_open(client, "/", NULL, fixture_soon(), &ws), 0);
        int64_t before = weft_ws_heard(ws);
        CHECK_GT(before, 0);
        CHECK_EQ(weft_ws_write(ws, WEFT_WS_PING, bytes, 126), -EINVAL);
        CHECK_EQ(weft_ws_write(ws, WEFT_WS_PING, bytes, 125), 0);
        CHECK_EQ(weft_ws_write(ws, WEFT_WS_PING, NULL, 0), 0);
        UNTIL(weft_ws_read(ws, bytes, sizeof bytes, &kind, WEFT_NOW) == -ETIMEDOUT && weft_ws_heard(ws) > before);
        CHECK_EQ(weft_ws_reason(ws, NULL), 0);
        CHECK_EQ(weft_ws_write(ws, WEFT_WS_TEXT, "still", 5), 0);
        CHECK_EQ(weft_ws_read(ws, bytes, sizeof bytes, &kind, fixture_soon()), 5);
        CHECK_EQ(weft_ws_write(ws, WEFT_WS_CLOSE, ends[i].close, ends[i].size), 0);
        CHECK_EQ(weft_ws_read(ws, bytes, sizeof bytes, &kind, fixture_soon()), 0);
        CHECK_EQ(weft_ws_reason(ws, NULL), ends[i].reason); /* it says the same */
        UNTIL(site.left == i + 1);
        CHECK_EQ(site.entered, ends[i].reason);
        weft_http_client_close(client);
    }
    site_close(&site);
    return 0;
}
API_TEST(http_ws_ping, "", .workers = {1, 2}) { io_run(ws_ping, NULL); }

/* -- WebSocket, with a peer that says what it likes ------------------------------------------------------------------- */

struct peer {
    weft_io *io;
    const char *answer; /* %s: the right digest */
    char asked[1024];
};

void wefti_ws_digest(const char *key, char accept[32]); /* which unit tests know to be right */

static int say_what_it_likes(void *arg) {
    struct peer *peer = arg;
    char accept[32], answer[512];
    size_t size = 0;
    ssize_t n;
    while (!strstr(peer->asked, "\r\n\r\n") &&
           (n = weft_read(peer->io, peer->asked + size, sizeof peer->asked - 1 - size, fixture_soon())) > 0)
        size += (size_t)n;
    const char *key = strstr(peer->asked, "Sec-WebSocket-Key: ");
    REQUIRE(key);
    wefti_ws_digest(key + 19, accept);
    snprintf(answer, sizeof answer, peer->answer, accept);
    say(peer->io, answer);
    return 0;
}

static const char *offers; /* fields of the request */

static int with_peer(const char *answer, int expected, int status) {
    struct peer peer = {.answer = answer};
    weft_io *io;
    weft_http_client *client;
    weft_http *ws;
    REQUIRE_EQ(weft_socketpair(&peer.io, &io), 0);
    weft_task *task = io_go(NULL, say_what_it_likes, &peer);
    REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
    int found = weft_ws_open(client, "/", offers, fixture_soon(), &ws);
    CHECK_EQ(io_join(task), 0);
    if (found != expected || weft_http_answer_status(client) != status)
        harness_note(__FILE__, __LINE__, "\"%s\": expected %d (%d), found %d (%d)", answer, expected, status, found,
                     weft_http_answer_status(client));
    char text[64];
    int kind;
    found = found ? found : (int)weft_ws_read(ws, text, sizeof text, &kind, fixture_soon());
    weft_http_client_close(client);
    CHECK_EQ(weft_close(io), 0);
    CHECK_EQ(weft_close(peer.io), 0);
    return found;
}

#define SWITCH "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
#define GOOD SWITCH "Sec-WebSocket-Accept: %s\r\n\r\n"

static int refusals(void *unused) {
    (void)unused;
    CHECK_EQ(with_peer(GOOD "\x81\x02hi", 0, 101), 2); /* and a message right behind it */
    CHECK_EQ(with_peer("HTTP/1.1 100 Continue\r\n\r\n" GOOD "\x89\x01p\x81\x01h", 0, 101), 1);
    CHECK_EQ(with_peer(GOOD "\x81\x82"
                            "abcdhi",
                       0, 101),
             -EPROTO); /* a server masks nothing */
    CHECK_EQ(with_peer(GOOD "\xc1\x02hi", 0, 101), -EPROTO);
    CHECK_EQ(with_peer(GOOD "\x81\x7e\x01\x01", 0, 101), -EMSGSIZE);
    (void)with_peer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", -EPROTO, 200);
    (void)with_peer("HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n", -EPROTO, 403);
    (void)with_peer(SWITCH "\r\n", -EPROTO, 101);
    (void)with_peer(SWITCH "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n", -EPROTO, 101);
    (void)with_peer(SWITCH "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n", -EPROTO,
                    101);
    (void)with_peer("HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                    -EPROTO, 101);
    (void)with_peer("HTTP/1.1 101 x\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", -EPROTO, 101);
    (void)with_peer("SSH-2.0-x\r\n", -EBADMSG, 0);
    return 0;
}
API_TEST(http_ws_client_refuses, "", .workers = {1, 2}) { io_run(refusals, NULL); }

/* RFC 6455, 4.1: the server chooses one of the protocols that were asked for, or none. */
static int protocols(void *unused) {
    (void)unused;
    static const struct {
        const char *asks, *answers;
        int expected;
    } cases[] = {
        {NULL, "", 0},
        {NULL, "Sec-WebSocket-Protocol: a\r\n", -EPROTO},
        {"Sec-WebSocket-Protocol: a\r\n", "", 0},
        {"Sec-WebSocket-Protocol: a\r\n", "Sec-WebSocket-Protocol: a\r\n", 0},
        {"Sec-WebSocket-Protocol: a\r\n", "Sec-WebSocket-Protocol: b\r\n", -EPROTO},
        {"Sec-WebSocket-Protocol: a\r\n", "Sec-WebSocket-Protocol: A\r\n", -EPROTO},
        {"Sec-WebSocket-Protocol: a\r\n", "Sec-WebSocket-Protocol: \r\n", -EPROTO},
        {"Sec-WebSocket-Protocol: a\r\n", "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: a\r\n", -EPROTO},
        {"sec-websocket-protocol:aa ,\tb,c\r\nX: d\r\n", "Sec-WebSocket-Protocol: aa\r\n", 0},
        {"sec-websocket-protocol:aa ,\tb,c\r\nX: d\r\n", "sec-websocket-protocol: b\r\n", 0},
        {"sec-websocket-protocol:aa ,\tb,c\r\nX: d\r\n", "Sec-WebSocket-Protocol: c\r\n", 0},
        {"sec-websocket-protocol:aa ,\tb,c\r\nX: d\r\n", "Sec-WebSocket-Protocol: a\r\n", -EPROTO},
        {"sec-websocket-protocol:aa ,\tb,c\r\nX: d\r\n", "Sec-WebSocket-Protocol: b,c\r\n", -EPROTO},
        {"sec-websocket-protocol:aa ,\tb,c\r\nX: d\r\n", "Sec-WebSocket-Protocol: d\r\n", -EPROTO},
        {"Sec-WebSocket-Protocol: a\r\nX: y\r\nSec-WebSocket-Protocol: , b\r\n", "Sec-WebSocket-Protocol: b\r\n", 0},
        {"X: Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol:\r\n", "Sec-WebSocket-Protocol: a\r\n", -EPROTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char answer[300];
        snprintf(answer, sizeof answer, "%sSec-WebSocket-Accept: %%s\r\n%s\r\n\x81\x01h", SWITCH, cases[i].answers);
        offers = cases[i].asks;
        CHECK_EQ(with_peer(answer, cases[i].expected, 101), cases[i].expected ? cases[i].expected : 1);
    }
    offers = NULL;
    return 0;
}
API_TEST(http_ws_protocols, "", .workers = {1}) { io_run(protocols, NULL); }
