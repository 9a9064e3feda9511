/* http_server.c - the server: requests one after another, bodies both ways, errors and limits. */
#include <weft/stream.h>

#include "http_fixture.h"

#define POST(path, fields) "POST " path " HTTP/1.1\r\nHost: h\r\n" fields "\r\n"

/* -- One after another --------------------------------------------------------------------------------------- */

static int keep_alive(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site_open(&site);
    weft_io *io = dial(&site);
    for (int i = 0; i < 5; i++) {
        say(io, GET("/hello?q"));
        hear(io, HELLO);
    }
    const char *slowly = "\r\n" GET("/hello");
    for (size_t i = 0; slowly[i]; i++) {
        CHECK_EQ(weft_write(io, slowly + i, 1, fixture_soon()), 1);
        (void)weft_yield();
    }
    hear(io, HELLO);
    say(io, GET("http://h/hello"));
    hear(io, HELLO);
    say(io, "HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\n");
    hear(io, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/plain\r\n\r\n");
    say(io, GET("/nothing"));
    hear(io, "HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\nContent-Type: text/plain\r\n\r\nnot found\n");
    say(io, "HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    hear(io, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    say(io, GET("/long"));
    hear(io, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab");
    say(io, GET("/positive"));
    hear(io, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    say(io, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    hear(io,
         "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: keep-alive\r\nContent-Type: text/plain\r\n\r\nhello\n");
    say(io, "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" GET("/hello"));
    hear(io, HELLO_LAST);
    hear_end(io);
    ask_once(&site, "GET /hello HTTP/1.0\r\n\r\n", HELLO_LAST);
    ask_once(&site, "GET /stream HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    site_close(&site);
    return 0;
}
API_TEST(http_keep_alive, "", .workers = {1, 2}) { io_run(keep_alive, NULL); }

static int pipelined(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site_open(&site);
    weft_io *io = dial(&site);
    say(io, GET("/hello") POST("/echo", "Content-Length: 3\r\n") "abc" GET("/hello") "\r\n" POST(
                "/echo", "Transfer-Encoding: chunked\r\n") "2\r\nde\r\n0\r\n\r\n" GET("/hello") "GET /he");
    hear(io, HELLO "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc" HELLO
                   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nde" HELLO);
    say(io, "llo HTTP/1.1\r\nHost: h\r\n\r\n");
    hear(io, HELLO);
    for (int i = 0; i < 300; i++) /* more than the buffer takes */
        say(io, GET("/hello"));
    for (int i = 0; i < 300; i++)
        hear(io, HELLO);
    CHECK_EQ(weft_close(io), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_pipelined, "", .workers = {1, 2}) { io_run(pipelined, NULL); }

/* -- Errors --------------------------------------------------------------------------------------------------- */

static int errors(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site_open(&site);
    ask_once(&site, GET("/error") GET("/hello"),
             "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 6\r\nConnection: close\r\n"
             "Content-Type: text/plain\r\n\r\nerror\n");
    ask_once(&site, GET("/half") GET("/hello"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    ask_once(&site, GET("/short") GET("/hello"), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    /* Not a request, or not one for us. */
    ask_once(&site, "\n", REFUSED(400, "Bad Request"));
    ask_once(&site, GET("/hello") "x\r\n\r\n", HELLO REFUSED(400, "Bad Request"));
    ask_once(&site, "GET / HTTP/1.1\r\n\r\n", REFUSED(400, "Bad Request"));
    ask_once(&site, "GET / HTTP/2.0\r\n\r\n", REFUSED(505, "HTTP Version Not Supported"));
    ask_once(&site, POST("/", "Transfer-Encoding: gzip, chunked\r\n"), REFUSED(501, "Not Implemented"));
    ask_once(&site, POST("/", "Expect: gold\r\n"), REFUSED(417, "Expectation Failed"));
    ask_once(&site, POST("/", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), REFUSED(400, "Bad Request"));
    CHECK_EQ(site.entered, site.left);
    site_close(&site);
    return 0;
}
API_TEST(http_errors, "", .workers = {1, 2}) { io_run(errors, NULL); }

static int limited(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site.options.max_line = 100;
    site.options.max_head = 300;
    site.options.max_fields = 3;
    site.options.max_body = 10;
    site_open(&site);
    char text[2048], pad[1000];
    memset(pad, 'a', sizeof pad);
    snprintf(text, sizeof text, "GET /%.*s HTTP/1.1\r\nHost: h\r\n\r\n", 87, pad);
    ask_once(&site, text, REFUSED(414, "URI Too Long"));
    snprintf(text, sizeof text, "GET /%.*s", 500, pad);
    ask_once(&site, text, REFUSED(414, "URI Too Long"));
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: h\r\nA: %.*s\r\n\r\n", 300, pad);
    ask_once(&site, text, REFUSED(431, "Request Header Fields Too Large"));
    ask_once(&site, POST("/", "A: 1\r\nB: 1\r\nC: 1\r\n"), REFUSED(431, "Request Header Fields Too Large"));
#define TOO_LARGE                                                                                                      \
    "HTTP/1.1 413 Content Too Large\r\nContent-Length: 6\r\nConnection: close\r\nContent-Type: "                       \
    "text/plain\r\n\r\nerror\n"
    ask_once(&site, POST("/echo", "Content-Length: 11\r\n") "aaaaaaaaaaa", TOO_LARGE);
    CHECK_EQ(site.error, -EMSGSIZE);
    ask_once(&site, POST("/echo", "Transfer-Encoding: chunked\r\n") "6\r\naaaaaa\r\n5\r\naaaaa\r\n0\r\n\r\n",
             TOO_LARGE);
    ask_once(&site, POST("/echo", "Content-Length: 11\r\nExpect: 100-continue\r\n"), TOO_LARGE); /* without a 100 */
    weft_io *io = dial(&site);
    say(io, POST("/echo", "Content-Length: 10\r\n") "0123456789");
    hear(io, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
    say(io, POST("/echo", "Transfer-Encoding: chunked\r\n") "6\r\naaaaaa\r\n4\r\naaaa\r\n0\r\n\r\n");
    hear(io, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\naaaaaaaaaa");
    CHECK_EQ(weft_close(io), 0);
    site_close(&site);
    site.options.max_fields = 101;
    CHECK_EQ(weft_http_serve_one(site.listener, &site.options, serve_site, &site), -EINVAL);
    return 0;
}
API_TEST(http_limits, "", .workers = {1}) { io_run(limited, NULL); }

/* -- Bodies --------------------------------------------------------------------------------------------------- */

#define BAD_BODY                                                                                                       \
    "HTTP/1.1 400 Bad Request\r\nContent-Length: 6\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nerror\n"

static int bodies(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site_open(&site);
    weft_io *io = dial(&site);
    say(io, POST("/echo", "") POST("/echo", "Content-Length: 0\r\n"));
    hear(io, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    say(io, POST("/echo", "Transfer-Encoding: chunked\r\n"));
    const char *slowly = "3\r\nabc\r\n02;x=y\r\nde\r\nA\r\n0123456789\r\n0\r\nA: b\r\nC: d\r\n\r\n" GET("/hello");
    for (size_t i = 0; slowly[i]; i++) {
        CHECK_EQ(weft_write(io, slowly + i, 1, fixture_soon()), 1);
        (void)weft_yield();
    }
    hear(io, "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nabcde0123456789" HELLO);
    say(io, POST("/stream", "Content-Length: 3\r\n") "abc" GET("/hello"));
    hear(io, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" HELLO);
    /* Not read by the handler, and not taken for a request. */
    say(io, POST("/hello", "Content-Length: 18\r\n") "GET /1 HTTP/1.1\r\n\r" GET("/hello"));
    hear(io, HELLO HELLO);
    say(io, POST("/hello", "Transfer-Encoding: chunked\r\n") "5\r\nGET /\r\n0\r\n\r\n" GET("/hello"));
    hear(io, HELLO HELLO);
    CHECK_EQ(weft_close(io), 0);
    static const char *const bad[] = {
        "3\r\nabcX",      "3\r\nabc\n",         "3\r\nabc\rX",        "3\r\nabcd\r\n", "x",  "\r\n",
        "0x3\r\nabc\r\n", "3\r\nabc\r\n-1\r\n", "0\r\nA : b\r\n\r\n", "0\r\n\rX",      "3\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[200];
        snprintf(text, sizeof text, POST("/echo", "Transfer-Encoding: chunked\r\n") "%s%s", bad[i],
                 strchr(bad[i], 'x') == bad[i] ? "\r\n" : "");
        ask_once(&site, text, BAD_BODY);
        CHECK_EQ(site.error, -EBADMSG);
    }
    site_close(&site);
    return 0;
}
API_TEST(http_bodies, "", .workers = {1, 2}) { io_run(bodies, NULL); }

/* More than any buffer, both ways at once. */
struct flood {
    weft_io *io;
    size_t size;
    bool chunked;
};

static int flood_in(void *arg) {
    struct flood *flood = arg;
    char piece[5000], line[32];
    for (size_t at = 0; at < flood->size;) {
        size_t size = 1 + (at * 7 + 13) % sizeof piece;
        size = size < flood->size - at ? size : flood->size - at;
        io_fill(piece, size, at);
        if (flood->chunked) {
            snprintf(line, sizeof line, "%zx\r\n", size);
            say(flood->io, line);
        }
        REQUIRE_EQ(weft_write(flood->io, piece, size, fixture_soon()), size);
        if (flood->chunked)
            say(flood->io, "\r\n");
        at += size;
    }
    if (flood->chunked)
        say(flood->io, "0\r\n\r\n");
    return 0;
}

static int large_bodies(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    struct flood flood = {.size = 700000};
    site_open(&site);
    for (int i = 0; i < 4; i++) {
        weft_http_client *client;
        char buffer[4000], fields[64];
        size_t got = 0;
        ssize_t n;
        flood.io = dial(&site);
        flood.chunked = i % 2;
        /* The request by hand, the answer by the client. */
        snprintf(fields, sizeof fields, "Content-Length: %zu\r\n", flood.size);
        say(flood.io, i < 2 ? "POST /stream HTTP/1.1\r\nHost: h\r\n" : "POST /echo HTTP/1.1\r\nHost: h\r\n");
        say(flood.io, flood.chunked ? "Transfer-Encoding: chunked\r\n" : fields);
        say(flood.io, "\r\n");
        weft_task *writer = io_go(NULL, flood_in, &flood);
        if (i < 2) {
            hear(flood.io, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        } else {
            hear(flood.io, "HTTP/1.1 200 OK\r\nContent-Length: 700000\r\n\r\n");
        }
        REQUIRE_EQ(weft_http_client_open(flood.io, "h", &client), 0);
        if (i < 2) { /* chunks */
            weft_reader reader;
            char room[8192], *line;
            weft_reader_init(&reader, flood.io, room, sizeof room);
            while ((n = weft_read_until(&reader, '\n', &line, fixture_soon())) > 0) {
                size_t size = strtoul(line, NULL, 16);
                for (size_t part; size; size -= part, got += part) {
                    part = size < sizeof buffer ? size : sizeof buffer;
                    REQUIRE_EQ(weft_reader_read_exact(&reader, buffer, part, fixture_soon()), part);
                    REQUIRE(io_is(buffer, part, got));
                }
                REQUIRE_EQ(weft_reader_read_exact(&reader, buffer, 2, fixture_soon()), 2);
                if (got == flood.size)
                    break;
            }
        } else {
            while (got < flood.size && (n = weft_read(flood.io, buffer, sizeof buffer, fixture_soon())) > 0) {
                REQUIRE(io_is(buffer, (size_t)n, got));
                got += (size_t)n;
            }
        }
        CHECK_EQ(got, flood.size);
        CHECK_EQ(io_join(writer), 0);
        weft_http_client_close(client);
        CHECK_EQ(weft_close(flood.io), 0);
    }
    site_close(&site);
    return 0;
}
API_TEST(http_large_bodies, "", .workers = {1, 2}) { io_run(large_bodies, NULL); }

static int continues(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site_open(&site);
    weft_io *io = dial(&site);
    for (int i = 0; i < 2; i++) {
        say(io, POST("/echo", "Content-Length: 3\r\nExpect: 100-continue\r\n"));
        hear(io, "HTTP/1.1 100 Continue\r\n\r\n");
        say(io, "abc");
        hear(io, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
    }
    say(io, POST("/hello", "Content-Length: 0\r\nExpect: 100-continue\r\n"));
    hear(io, HELLO);
    /* Not wanted: whether the body comes is not known, so the connection ends, and the answer says so. */
    say(io, POST("/hello", "Content-Length: 3\r\nExpect: 100-continue\r\n"));
    hear(io, HELLO_LAST);
    hear_end(io);
    site_close(&site);
    return 0;
}
API_TEST(http_continue, "", .workers = {1, 2}) { io_run(continues, NULL); }

/* A body that nobody reads and is too large to be thrown away: the answer arrives all the same, and says that the connection ends. */
static int unread(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site_open(&site);
    struct flood flood = {.io = dial(&site), .size = 700000};
    say(flood.io, POST("/hello", "Content-Length: 700000\r\n"));
    weft_task *writer = io_go(NULL, flood_in, &flood);
    hear(flood.io, HELLO_LAST); /* which says that it is the last */
    CHECK_EQ(io_join(writer), 0);
    hear_end(flood.io);
    flood = (struct flood){.io = dial(&site), .size = 4000000}; /* ... which the client reads only when all is sent */
    say(flood.io, POST("/hello", "Content-Length: 4000000\r\n"));
    flood_in(&flood);
    hear(flood.io, HELLO_LAST);
    hear_end(flood.io);
    flood = (struct flood){.io = dial(&site), .size = 256 << 10}; /* as much as is thrown away */
    for (int i = 0; i < 2; i++) {
        say(flood.io, POST("/hello", "Content-Length: 262144\r\n"));
        flood_in(&flood);
        hear(flood.io, HELLO);
    }
    CHECK_EQ(weft_close(flood.io), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_unread_body, "", .workers = {1, 2}) { io_run(unread, NULL); }

/* The same by way of a network that brings a packet at a time: what counts is how much has come, not in how many pieces. */
static ssize_t packet_read(void *below, const weft_stream_call *call, const struct iovec *parts, int count) {
    (void)count;
    return weft_read(below, parts->iov_base, parts->iov_len < 100 ? parts->iov_len : 100, call->until);
}
static ssize_t packet_write(void *below, const weft_stream_call *call, const struct iovec *parts, int count) {
    return weft_writev(below, parts, count, call->until);
}
static int packet_wait(void *below, const weft_stream_call *call, int events) {
    return weft_stream_wait(below, call, events);
}
static int packet_shutdown(void *below, int how) { return weft_shutdown(below, how); }
static int packet_close(void *below) { return weft_close(below); }
static void packet_discard(void *below) { (void)below; }

static const weft_stream packets = {.size = sizeof(weft_stream),
                                    .read = packet_read,
                                    .write = packet_write,
                                    .wait = packet_wait,
                                    .shutdown = packet_shutdown,
                                    .close = packet_close,
                                    .discard = packet_discard};

static int upload_in(void *arg) {
    struct flood *flood = arg;
    say(flood->io, POST("/hello", "Content-Length: 1000000\r\n"));
    flood_in(flood);
    hear(flood->io, HELLO_LAST);
    hear_end(flood->io);
    return 0;
}

static int unread_packets(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    struct flood flood = {.size = 1000000};
    weft_io *below, *io;
    REQUIRE_EQ(weft_socketpair(&flood.io, &below), 0);
    REQUIRE_EQ(weft_stream_open(&packets, below, weft_io_fd(below), &io), 0);
    weft_task *client = io_go(NULL, upload_in, &flood);
    CHECK_EQ(weft_http_serve_one(io, &site.options, serve_site, &site), 0);
    CHECK_EQ(weft_close(io), 0);
    CHECK_EQ(io_join(client), 0);
    return 0;
}
API_TEST(http_unread_packets, "", .workers = {1, 2}) { io_run(unread_packets, NULL); }

/* A reply that fails has changed nothing: neither before the answer nor after it is the connection's end. */
static int fails_first(weft_http *x, void *arg) {
    struct site *site = arg;
    char buffer[3000];
    ssize_t n;
    bool whole = weft_text_is(weft_http_path(x), "/whole");
    if (whole)
        CHECK_EQ(weft_http_reply(x, 200, "text\n", "no", 2), -EINVAL);
    else
        CHECK_EQ(weft_http_begin(x, 200, 6), 0);
    CHECK_EQ(weft_http_reply(x, whole ? 20 : 200, NULL, "no", 2), -EINVAL);
    while ((n = weft_http_read(x, buffer, sizeof buffer)) > 0)
        ;
    site->error = (int)n;
    return whole ? weft_http_reply(x, 200, NULL, "answer", 6) : (int)weft_http_write(x, "answer", 6);
}

static int failed_replies(void *unused) {
    (void)unused;
    struct site site = SITE(fails_first);
    site_open(&site);
    struct flood flood = {.io = dial(&site), .size = 700000};
    for (int i = 0; i < 4; i++) {
        say(flood.io, i % 2 ? POST("/whole", "Content-Length: 700000\r\n") : POST("/", "Content-Length: 700000\r\n"));
        flood_in(&flood);
        hear(flood.io, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer");
        CHECK_EQ(site.error, 0);
    }
    CHECK_EQ(weft_close(flood.io), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_failed_replies, "", .workers = {1, 2}) { io_run(failed_replies, NULL); }

/* -- The answer ------------------------------------------------------------------------------------------------ */

static int with_fields(weft_http *x, void *unused) {
    (void)unused;
    char large[3100];
    memset(large, 'a', sizeof large);
    large[sizeof large - 1] = 0;
    CHECK_EQ(weft_http_set(x, "A", "b\r\nC: d"), -EINVAL);
    CHECK_EQ(weft_http_set(x, "A", "b\nC"), -EINVAL);
    CHECK_EQ(weft_http_set(x, "A b", "c"), -EINVAL);
    CHECK_EQ(weft_http_set(x, "A:", "c"), -EINVAL);
    CHECK_EQ(weft_http_set(x, "", "c"), -EINVAL);
    CHECK_EQ(weft_http_set(x, "content-length", "1"), -EINVAL);
    CHECK_EQ(weft_http_set(x, "Transfer-Encoding", "chunked"), -EINVAL);
    CHECK_EQ(weft_http_set(x, "Connection", "close"), -EINVAL);
    CHECK_EQ(weft_http_set(x, "A", large), -ENOBUFS);
    CHECK_EQ(weft_http_set(x, "A", "b"), 0);
    large[3072 - 6 - 5] = 0; /* all that is left: see many_fields */
    if (weft_text_is(weft_http_path(x), "/full")) {
        CHECK_EQ(weft_http_set(x, "L", large), 0);
        CHECK_EQ(weft_http_set(x, "M", ""), -ENOBUFS);
        return weft_http_reply(x, 505, NULL, "all", 3);
    }
    CHECK_EQ(weft_http_begin(x, 100, 0), -EINVAL);
    CHECK_EQ(weft_http_begin(x, 1000, 0), -EINVAL);
    CHECK_EQ(weft_http_begin(x, 200, -2), -EINVAL);
    CHECK_EQ(weft_http_write(x, "a", 1), -EINVAL);
    weft_text name, value;
    CHECK_EQ(weft_http_fields(x, 0, NULL, NULL), 2);
    CHECK_EQ(weft_http_fields(x, 1, &name, &value), 2);
    CHECK(weft_text_is(name, "X") && weft_text_is(value, "y z"));
    CHECK(weft_text_is(weft_http_field(x, "x"), "y z") && !weft_http_field(x, "z").at);
    CHECK(weft_text_is(weft_http_query(x), "1") && weft_text_is(weft_http_target(x), "/?1"));
    CHECK_EQ(weft_http_length(x), 0);
    return weft_http_reply(x, 204, NULL, "never sent", 10);
}

static int fields(void *unused) {
    (void)unused;
    struct site site = SITE(with_fields);
    site.options.server = "weft";
    site.options.max_answer_fields = 3072;
    site_open(&site);
    weft_io *io = dial(&site);
    say(io, "GET /?1 HTTP/1.1\r\nHost: h\r\nX:  y z \r\n\r\n");
    hear(io, "HTTP/1.1 204 No Content\r\nServer: weft\r\nA: b\r\n\r\n");
    char *filler = malloc(3100);
    REQUIRE(filler);
    memset(filler, 'a', 3100);
    filler[3072 - 6 - 5] = 0;
    say(io, "GET /full?1 HTTP/1.1\r\nHost: h\r\nX:  y z \r\n\r\n");
    hear(io, "HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Length: 3\r\nServer: weft\r\nA: b\r\nL: ");
    filler[1000] = 0;
    hear(io, filler), hear(io, filler), hear(io, filler);
    filler[61] = 0;
    hear(io, filler);
    hear(io, "\r\n\r\nall");
    free(filler);
    CHECK_EQ(weft_close(io), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_fields, "", .workers = {1}) { io_run(fields, NULL); }

/* As a proxy passes them on: more than the buffer of an exchange has room for. */
enum { FIELDS = 90, VALUE = 160, LIMIT = 16384 };

static int serve_many_fields(weft_http *x, void *arg) {
    struct site *site = arg;
    char name[16], value[LIMIT + 1];
    size_t used = 0;
    memset(value, 'v', sizeof value);
    value[VALUE] = 0;
    if (weft_text_is(weft_http_path(x), "/few"))
        return weft_http_reply(x, 200, "text/plain", "few", 3);
    for (int i = 0; i < FIELDS; i++) {
        used += (size_t)snprintf(name, sizeof name, "Field-%d", i) + VALUE + 4;
        CHECK_EQ(weft_http_set(x, name, value), 0);
    }
    value[VALUE] = 'v';
    value[LIMIT - used - 5] = 0; /* "F: " and the line's end */
    CHECK_EQ(weft_http_set(x, "FF", value), -ENOBUFS);
    if (weft_text_is(weft_http_path(x), "/type")) { /* a type counts as one */
        value[LIMIT - used - 5] = 'v';
        value[LIMIT - used - 16] = 0;
        CHECK_EQ(weft_http_reply(x, 200, value, "much", 4), 0);
    } else if (weft_text_is(weft_http_path(x), "/ws")) {
        site->error = weft_ws_accept(x);
    } else {
        CHECK_EQ(weft_http_set(x, "F", value), 0);
        CHECK_EQ(weft_http_reply(x, 200, "text/plain", "much", 4), -ENOBUFS);
        CHECK_EQ(weft_http_reply(x, 200, NULL, "much", 4), 0);
    }
    return 0;
}

static int many_fields(void *unused) {
    (void)unused;
    struct site site = SITE(serve_many_fields);
    weft_http_client *client;
    site_open(&site);
    weft_io *io = dial(&site);
    REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_http_ask(client, "GET", i ? "/type" : "/", NULL, NULL, 0, fixture_soon()), 200);
        CHECK_EQ(weft_http_answer_fields(client, 0, NULL, NULL), FIELDS + 2); /* and its length */
        CHECK_EQ(weft_http_answer_field(client, "field-89").size, VALUE);
        answer_is(client, "much");
        CHECK_EQ(weft_http_ask(client, "GET", "/few", NULL, NULL, 0, fixture_soon()), 200);
        answer_is(client, "few");
    }
    weft_http *ws;
    int kind;
    char byte;
    CHECK_EQ(weft_ws_open(client, "/ws", NULL, fixture_soon(), &ws), 0);
    CHECK_EQ(weft_ws_read(ws, &byte, 1, &kind, fixture_soon()), 0);
    CHECK_EQ(kind, WEFT_WS_CLOSE);
    CHECK_EQ(site.error, 0);
    weft_http_client_close(client);
    CHECK_EQ(weft_close(io), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_many_fields, "", .workers = {1, 2}) { io_run(many_fields, NULL); }

/* Several fibers write one body: each call is whole. */
struct body_writer {
    weft_http *x;
    char letter;
};

static int write_body(void *arg) {
    struct body_writer *writer = arg;
    char *bytes = malloc(100000);
    REQUIRE(bytes);
    memset(bytes, writer->letter, 100000);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_http_write(writer->x, bytes, 100000), 100000);
    free(bytes);
    return 0;
}

static int serve_by_several(weft_http *x, void *unused) {
    (void)unused;
    struct body_writer writers[3];
    weft_task *tasks[3];
    CHECK_EQ(weft_socket_buffers(weft_http_io(x), 4096, 0), 0);
    CHECK_EQ(weft_http_begin(x, 200, -1), 0);
    for (int i = 0; i < 3; i++) {
        writers[i] = (struct body_writer){x, (char)('a' + i)};
        tasks[i] = io_go(NULL, write_body, &writers[i]);
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(io_join(tasks[i]), 0);
    return 0;
}

static int several_writers(void *unused) {
    (void)unused;
    struct site site = SITE(serve_by_several);
    weft_http_client *client;
    char bytes[10000];
    ssize_t n;
    size_t all = 0, run = 0;
    int last = -1;
    site_open(&site);
    weft_io *io = dial(&site);
    REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
    CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), 200);
    while ((n = weft_http_answer_read(client, bytes, sizeof bytes, fixture_soon())) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] != last)
                REQUIRE_EQ(run % 100000, 0);
            run = bytes[i] == last ? run + 1 : 1;
            last = bytes[i];
        }
        all += (size_t)n;
    }
    CHECK_EQ(n, 0);
    CHECK_EQ(all, 3000000);
    weft_http_client_close(client);
    CHECK_EQ(weft_close(io), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_several_writers, "", .workers = {1, 2}) { io_run(several_writers, NULL); }

static int serve_events(weft_http *x, void *arg) {
    struct site *site = arg;
    int error = weft_http_events(x);
    CHECK_EQ(weft_http_event(x, "a\nb", "c"), -EINVAL);
    if (!error)
        error = weft_http_event(x, NULL, "one");
    if (!error)
        error = weft_http_event(x, "tick", "two\nlines\r\nand\rmore");
    while (!error && weft_text_is(weft_http_path(x), "/for-ever"))
        if (!(error = weft_http_event(x, NULL, "again")))
            error = weft_sleep(MS / 10);
    site->error = error;
    return error;
}

static int events(void *unused) {
    (void)unused;
    struct site site = SITE(serve_events);
    site_open(&site);
    ask_once(
        &site, "GET / HTTP/1.0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\r\n"
        "data: one\n\nevent: tick\ndata: two\ndata: lines\ndata: and\ndata: more\n\n");
    CHECK_EQ(site.error, 0);
    weft_io *io = dial(&site);
    say(io, GET("/for-ever"));
    hear(io, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\nCache-Control: "
             "no-store\r\n\r\n"
             "b\r\ndata: one\n\n\r\n38\r\nevent: tick\ndata: two\ndata: lines\ndata: and\ndata: more\n\n\r\n");
    CHECK_EQ(weft_close(io), 0);
    UNTIL(site.error); /* it learns that nobody listens */
    CHECK(site.error == -EPIPE || site.error == -ECONNRESET);
    site_close(&site);
    return 0;
}
API_TEST(http_events, "", .workers = {1, 2}) { io_run(events, NULL); }
