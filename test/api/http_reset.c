/* http_reset.c - clients that reset their connection, at every point of a request and of its answer. */
#include "http_fixture.h"

static void reset(weft_io *io) {
    CHECK_EQ(weft_socket_reset_on_close(io, true), 0);
    CHECK_EQ(weft_close(io), 0);
}

/* In a body, of a length and in chunks; the handler is told, and nobody else notices. */
static int in_body(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site_open(&site);
    static const char *half[] = {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc",
                                 "POST /stream HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc",
                                 "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
                                 "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"};
    for (unsigned i = 0; i < sizeof half / sizeof *half; i++) {
        weft_io *io = dial(&site);
        site.error = 0;
        say(io, half[i]);
        UNTIL(site.entered == i + 1);
        reset(io);
        UNTIL(site.left == i + 1);
        CHECK(site.error == -ECONNRESET || site.error == -EPIPE); /* /stream may have been writing */
    }
    ask_once(&site, "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", HELLO_LAST);
    site_close(&site);
    return 0;
}
API_TEST(http_reset_in_body, "", .workers = {1, 2}) { io_run(in_body, NULL); }

/* While it is being answered. */
static int serve_endless(weft_http *x, void *arg) {
    static char much[100000];
    struct site *site = arg;
    int error = weft_http_begin(x, 200, -1);
    site->entered++;
    while (error >= 0)
        error = (int)weft_http_write(x, much, sizeof much);
    site->error = error;
    site->left++;
    return error;
}

static int in_answer(void *unused) {
    (void)unused;
    struct site site = SITE(serve_endless);
    char some[1000];
    site_open(&site);
    for (unsigned i = 0; i < 10; i++) {
        weft_io *io = dial(&site);
        say(io, GET("/"));
        CHECK_GT(weft_read(io, some, sizeof some, fixture_soon()), 0);
        reset(io);
        UNTIL(site.left == i + 1);
        CHECK(site.error == -ECONNRESET || site.error == -EPIPE);
    }
    site_close(&site);
    return 0;
}
API_TEST(http_reset_in_answer, "", .workers = {1, 2}) { io_run(in_answer, NULL); }

/* A storm of them: right after the connect, after every byte of a request, after the answer. */
static int storm(void *unused) {
    (void)unused;
    static const char request[] = GET("/hello");
    struct site site = SITE(serve_site);
    site_open(&site);
    for (int round = 0; round < (fixture_is_slow() ? 3 : 20); round++)
        for (size_t size = 0; size < sizeof request; size++) {
            weft_io *io = dial(&site);
            if (size)
                REQUIRE_EQ(weft_write(io, request, size, fixture_soon()), size);
            if (size == sizeof request - 1 && round % 2)
                hear(io, HELLO);
            reset(io);
        }
    ask_once(&site, "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", HELLO_LAST);
    UNTIL(site.entered == site.left);
    UNTIL(site_sockets() == 1); /* the listener: nothing is left of them */
    site_close(&site);
    return 0;
}
API_TEST(http_reset_storm, "", .workers = {1, 2}) { io_run(storm, NULL); }
