/* http_websocket.c - WebSocket: the handshake, messages in every cut, control between them, the end. */
#include "http_fixture.h"

#define UPGRADE(fields)                                                                                                \
    "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"        \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" fields "\r\n"
#define UPGRADED                                                                                                       \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"                                \
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n" /* the example of RFC 6455 */

/* Says every message again, until the client closes. */
static int echo(weft_http *x, void *arg) {
    struct site *site = arg;
    char buffer[200];
    int kind, error = weft_ws_accept(x);
    ssize_t n;
    if (error)
        return error == -EPROTO ? 0 : error;
    do {
        n = weft_ws_read(x, buffer, sizeof buffer, &kind, weft_after(MS)); /* short: a message may take many */
        if (n >= 0 && kind != WEFT_WS_CLOSE)
            CHECK_EQ(weft_ws_write(x, kind, buffer, (size_t)n), 0);
    } while (n == -ETIMEDOUT || (n >= 0 && kind != WEFT_WS_CLOSE));
    site->error = (int)n;
    if (n != -ECONNRESET)
        CHECK_EQ(weft_ws_read(x, buffer, sizeof buffer, &kind, WEFT_NEVER), n); /* for good */
    CHECK_EQ(weft_ws_write(x, WEFT_WS_TEXT, "a", 1), n == -ECONNRESET ? 0 : -EPIPE);
    site->left++;
    return 0;
}

/* A frame of the client's: first byte, payload; masked. */
static size_t frame(char *out, int first, const void *payload, size_t size) {
    static const unsigned char mask[4] = {0x12, 0x80, 0xff, 7};
    size_t at = 2;
    out[0] = (char)first;
    out[1] = (char)(0x80 | (size < 126 ? size : 126));
    if (size >= 126) {
        out[at++] = (char)(size >> 8);
        out[at++] = (char)size;
    }
    memcpy(out + at, mask, 4);
    for (size_t i = 0; i < size; i++)
        out[at + 4 + i] = (char)(((const unsigned char *)payload)[i] ^ mask[i % 4]);
    return at + 4 + size;
}

static void send_frame(weft_io *io, int first, const char *text) {
    char out[1000];
    size_t size = frame(out, first, text, strlen(text));
    REQUIRE_EQ(weft_write(io, out, size, fixture_soon()), size);
}

static weft_io *open_socket(struct site *site) {
    weft_io *io = dial(site);
    say(io, UPGRADE(""));
    hear(io, UPGRADED);
    return io;
}

static int messages(void *unused) {
    (void)unused;
    struct site site = SITE(echo);
    site_open(&site);
    weft_io *io = open_socket(&site);
    send_frame(io, 0x81, "hello");
    hear(io, "\x81\x05hello");
    send_frame(io, 0x82, "\xff\xfe");
    hear(io, "\x82\x02\xff\xfe");
    send_frame(io, 0x89, "are you there");
    hear(io, "\x8a\x0d"
             "are you there");
    send_frame(io, 0x8a, "nobody asked");
    send_frame(io, 0x01, "one, "); /* in parts, with a ping between them */
    send_frame(io, 0x89, "?");
    hear(io, "\x8a\x01?");
    send_frame(io, 0x00, "");
    send_frame(io, 0x00, "two \xc3"); /* a character in two frames */
    send_frame(io, 0x80, "\xa4");
    hear(io, "\x81\x0bone, two \xc3\xa4");
    char text[200];
    memset(text, 'x', 199);
    text[199] = 0;
    send_frame(io, 0x81, text);
    char head[4];
    REQUIRE_EQ(weft_read_exact(io, head, 4, fixture_soon()), 4);
    CHECK(memcmp(head, "\x81\x7e\x00\xc7", 4) == 0);
    hear(io, text);
    /* Byte by byte. */
    size_t size = frame(text, 0x81, "slow", 4);
    for (size_t i = 0; i < size; i++) {
        CHECK_EQ(weft_write(io, text + i, 1, fixture_soon()), 1);
        REQUIRE_EQ(weft_sleep(MS / 2), 0);
    }
    hear(io, "\x81\x04slow");
    send_frame(io, 0x88, "\x03\xe8 bye");
    hear(io, "\x88\x02\x03\xe8");
    hear_end(io);
    CHECK_EQ(site.error, 0);
    /* Frames that come with the request. */
    io = dial(&site);
    char both[400];
    size = (size_t)snprintf(both, sizeof both, "%s", UPGRADE(""));
    size += frame(both + size, 0x81, "early", 5);
    CHECK_EQ(weft_write(io, both, size, fixture_soon()), size);
    hear(io, UPGRADED "\x81\x05"
                      "early");
    send_frame(io, 0x88, ""); /* without a reason */
    char end[2];
    REQUIRE_EQ(weft_read_exact(io, end, 2, fixture_soon()), 2);
    CHECK(memcmp(end, "\x88\x00", 2) == 0);
    hear_end(io);
    io = open_socket(&site); /* gone without a word */
    site.error = 0;
    CHECK_EQ(weft_close(io), 0);
    UNTIL(site.left == 3);
    CHECK_EQ(site.error, -ECONNRESET);
    site_close(&site);
    return 0;
}
API_TEST(http_ws_messages, "", .workers = {1, 2}) { io_run(messages, NULL); }

static int malformed(void *unused) {
    (void)unused;
    struct site site = SITE(echo);
    site_open(&site);
    static const struct {
        int first;
        const char *text, *answer;
        int error;
    } cases[] = {
        {0x80, "a", "\x88\x02\x03\xea", -EPROTO}, /* more of nothing */
        {0xc1, "a", "\x88\x02\x03\xea", -EPROTO},        {0x83, "a", "\x88\x02\x03\xea", -EPROTO},
        {0x09, "a", "\x88\x02\x03\xea", -EPROTO},        {0x88, "a", "\x88\x02\x03\xea", -EPROTO},
        {0x88, "\x03\xed", "\x88\x02\x03\xea", -EPROTO}, /* 1005 is not said */
        {0x88, "\x01\x01", "\x88\x02\x03\xea", -EPROTO}, {0x88, "\x03\xe8\xff", "\x88\x02\x03\xef", -EPROTO},
        {0x81, "\xff", "\x88\x02\x03\xef", -EPROTO}, /* not UTF-8 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_io *io = open_socket(&site);
        send_frame(io, cases[i].first, cases[i].text);
        hear(io, cases[i].answer);
        hear_end(io);
        CHECK_EQ(site.error, cases[i].error);
    }
    weft_io *io = open_socket(&site);
    send_frame(io, 0x01, "a"); /* a message within a message */
    send_frame(io, 0x81, "b");
    hear(io, "\x88\x02\x03\xea");
    hear_end(io);
    io = open_socket(&site);
    say(io, "\x81\x01"
            "a"); /* not masked */
    hear(io, "\x88\x02\x03\xea");
    hear_end(io);
    char text[300];
    memset(text, 'x', sizeof text - 1);
    text[201] = 0;
    io = open_socket(&site); /* longer than the buffer, in one and in parts */
    send_frame(io, 0x81, text);
    hear(io, "\x88\x02\x03\xf1");
    hear_end(io);
    CHECK_EQ(site.error, -EMSGSIZE);
    io = open_socket(&site);
    send_frame(io, 0x01, text + 1);
    send_frame(io, 0x80, "x");
    hear(io, "\x88\x02\x03\xf1");
    hear_end(io);
    /* No text: refused by the byte after which it cannot become one, though neither frame nor message have ended. */
    static const struct {
        const char *before, *byte;
    } early[] = {{"\xce\xba\xe1\xbd\xb9\xf4", "\x90"}, {"eight...\xe1\x80", "z"}, {"\xed", "\xa0"}, {"", "\xff"}};
    for (size_t i = 0; i < 2 * (sizeof early / sizeof *early); i++) {
        const char *before = early[i / 2].before, *byte = early[i / 2].byte;
        char out[64], all[32];
        size_t size;
        snprintf(all, sizeof all, "%s%sxxxx", before, byte);
        if (i % 2) { /* in a frame of its own */
            size = frame(out, 0x01, before, strlen(before));
            size += frame(out + size, 0x00, byte, 1);
        } else {
            size = frame(out, 0x81, all, strlen(all)) - 4;
        }
        io = open_socket(&site);
        CHECK_EQ(weft_write(io, out, size, fixture_soon()), size);
        hear(io, "\x88\x02\x03\xef");
        hear_end(io);
        CHECK_EQ(site.error, -EPROTO);
    }
    /* No handshake. */
#define NONE "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    static const char *const none[] = {
        GET("/ws"),
        "GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        "dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
        "13\r\nSec-WebSocket-Key: short\r\n\r\n",
        "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
        "POST /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
        "13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        UPGRADE("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
        UPGRADE("Content-Length: 1\r\n") "x",
    };
    io = dial(&site);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        say(io, none[i]);
        hear(io, NONE);
    }
    say(io, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
            "8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    hear(io, "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "Sec-WebSocket-Version: 13\r\n\r\n");
    CHECK_EQ(weft_close(io), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_ws_malformed, "", .workers = {1, 2}) { io_run(malformed, NULL); }

/* The server closes: by a frame of its own, by returning, by failing. */
static int leave(weft_http *x, void *arg) {
    struct site *site = arg;
    char buffer[10];
    int kind;
    CHECK_EQ(weft_ws_read(x, buffer, 10, &kind, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_ws_write(x, WEFT_WS_TEXT, "a", 1), -EINVAL);
    CHECK_EQ(weft_ws_accept(x), 0);
    CHECK_EQ(weft_ws_accept(x), -EINVAL);
    CHECK_EQ(weft_ws_write(x, 3, "a", 1), -EINVAL);
    CHECK_EQ(weft_ws_write(x, WEFT_WS_CLOSE, "a", 1), -EINVAL);
    if (site->left++ == 0) {
        CHECK_EQ(weft_ws_write(x, WEFT_WS_CLOSE, "\x0f\xa0why", 5), 0);
        CHECK_EQ(weft_ws_write(x, WEFT_WS_TEXT, "a", 1), -EPIPE);
        CHECK_EQ(weft_ws_read(x, buffer, 10, &kind, fixture_soon()), 4); /* what it said before it knew */
        CHECK_EQ(weft_ws_read(x, buffer, 10, &kind, fixture_soon()), 0);
        CHECK_EQ(kind, WEFT_WS_CLOSE);
    }
    return site->left == 3 ? -EIO : 0;
}

static int leaving(void *unused) {
    (void)unused;
    struct site site = SITE(leave);
    site_open(&site);
    weft_io *io = open_socket(&site);
    hear(io, "\x88\x05\x0f\xa0why");
    send_frame(io, 0x89, "ping");
    send_frame(io, 0x81, "last");
    send_frame(io, 0x88, "\x0f\xa0");
    hear_end(io);
    io = open_socket(&site);
    hear(io, "\x88\x02\x03\xe8");
    hear_end(io);
    io = open_socket(&site);
    hear(io, "\x88\x02\x03\xf3");
    hear_end(io);
    site_close(&site);
    return 0;
}
API_TEST(http_ws_leaving, "", .workers = {1, 2}) { io_run(leaving, NULL); }

/* Several fibers write while one reads and answers pings: no frame ends up inside another. */
struct crowd {
    weft_http *x;
    char letter;
};

static int write_many(void *arg) {
    struct crowd *crowd = arg;
    char text[5000];
    memset(text, crowd->letter, sizeof text);
    for (int i = 0; i < 30; i++)
        CHECK_EQ(weft_ws_write(crowd->x, WEFT_WS_BINARY, text, sizeof text), 0);
    return 0;
}

static int serve_crowd(weft_http *x, void *unused) {
    (void)unused;
    char buffer[10];
    int kind;
    REQUIRE_EQ(weft_ws_accept(x), 0);
    CHECK_EQ(weft_socket_buffers(weft_http_io(x), 4096, 0), 0);
    struct crowd crowds[3] = {{x, 'a'}, {x, 'b'}, {x, 'c'}};
    weft_task *writers[3];
    for (int i = 0; i < 3; i++)
        writers[i] = io_go(NULL, write_many, &crowds[i]);
    CHECK_EQ(weft_ws_read(x, buffer, sizeof buffer, &kind, fixture_soon()), 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(io_join(writers[i]), 0);
    return 0;
}

static int ping_many(void *arg) {
    for (int i = 0; i < 50; i++)
        send_frame(arg, 0x89, "p");
    send_frame(arg, 0x81, "end");
    return 0;
}

static int crowded(void *unused) {
    (void)unused;
    struct site site = SITE(serve_crowd);
    site_open(&site);
    weft_io *io = open_socket(&site);
    weft_task *pinger = io_go(NULL, ping_many, io);
    unsigned pongs = 0, frames = 0;
    char head[4], bytes[5000];
    while (pongs < 50 || frames < 90) {
        REQUIRE_EQ(weft_read_exact(io, head, 2, fixture_soon()), 2);
        if (head[0] == '\x8a') {
            REQUIRE_EQ(weft_read_exact(io, bytes, 1, fixture_soon()), 1);
            pongs++;
            continue;
        }
        REQUIRE(head[0] == '\x82' && head[1] == 126);
        REQUIRE_EQ(weft_read_exact(io, head, 2, fixture_soon()), 2);
        REQUIRE_EQ(weft_read_exact(io, bytes, 5000, fixture_soon()), 5000);
        for (int i = 1; i < 5000; i++)
            REQUIRE(bytes[i] == bytes[0]);
        frames++;
    }
    CHECK_EQ(io_join(pinger), 0);
    hear(io, "\x88\x02\x03\xe8");
    hear_end(io);
    site_close(&site);
    return 0;
}
API_TEST(http_ws_crowd, "", .workers = {1, 2}) { io_run(crowded, NULL); }
