/* slice_http.c - no call of an HTTP or WebSocket client holds its worker longer than a slice. */
#include "slice.h"

#include "http_fixture.h"

static char url[96];
static weft_http_client *client;
static weft_http_pool *pool;
static weft_http *socket_;
static int port;

/* Answers each request; under /ws says every message again. */
static int answer(weft_http *x, void *unused) {
    (void)unused;
    char buffer[64];
    int kind = 0;
    if (weft_http_path(x).size != 3)
        return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
    int error = weft_ws_accept(x);
    while (!error && kind != WEFT_WS_CLOSE) {
        ssize_t n = weft_ws_read(x, buffer, sizeof buffer, &kind, WEFT_NEVER);
        error = n < 0 ? (int)n : kind == WEFT_WS_CLOSE ? 0 : weft_ws_write(x, kind, buffer, (size_t)n);
    }
    return 0;
}

static int read_answer(weft_http_client *from) {
    char bytes[64];
    ssize_t n, size = 0;
    while ((n = weft_http_answer_read(from, bytes, sizeof bytes, WEFT_NEVER)) > 0)
        size += n;
    return n < 0 ? (int)n : size == 6 ? 0 : -EPROTO;
}
static int tcp_connect(void) {
    weft_io *io;
    int error = weft_tcp_connect("127.0.0.1", port, &io, WEFT_NEVER);
    return error ? error : weft_close(io);
}
static int http_connect(void) {
    weft_http_client *one;
    int error = weft_http_connect(url, WEFT_NEVER, &one);
    if (!error)
        weft_http_client_close(one);
    return error;
}
static int http_ask(void) {
    int error = weft_http_ask(client, "GET", "/", NULL, NULL, 0, WEFT_NEVER);
    return error < 0 ? error : read_answer(client);
}
static int http_ask_in_pieces(void) {
    int error = weft_http_ask_begin(client, "POST", "/", NULL, -1, WEFT_NEVER);
    ssize_t n = error < 0 ? error : weft_http_ask_write(client, "abc", 3, WEFT_NEVER);
    error = n < 0 ? (int)n : weft_http_ask_end(client, WEFT_NEVER);
    return error < 0 ? error : read_answer(client);
}
static int http_pool_connect(void) {
    weft_http_client *one;
    int error = weft_http_pool_connect(pool, url, WEFT_NEVER, &one);
    if (error)
        return error;
    error = weft_http_ask(one, "GET", "/", NULL, NULL, 0, WEFT_NEVER);
    error = error < 0 ? error : read_answer(one);
    weft_http_client_close(one);
    return error;
}
static int http_fetch(void) {
    weft_http_client *one;
    int error = weft_http_fetch(pool, "GET", url, NULL, NULL, 0, WEFT_NEVER, &one);
    if (error < 0)
        return error;
    error = read_answer(one);
    weft_http_client_close(one);
    return error;
}
static int ws_open(void) {
    weft_http_client *one;
    weft_http *x;
    int error = weft_http_connect(url, WEFT_NEVER, &one);
    if (error)
        return error;
    error = weft_ws_open(one, "/ws", NULL, WEFT_NEVER, &x);
    weft_http_client_close(one);
    return error;
}
static int ws_read(void) {
    char bytes[16];
    int kind, error = weft_ws_write(socket_, WEFT_WS_TEXT, "abc", 3);
    if (error)
        return error;
    ssize_t n = weft_ws_read(socket_, bytes, sizeof bytes, &kind, WEFT_NEVER);
    return n == 3 ? 0 : n < 0 ? (int)n : -EPROTO;
}

static const struct slice_call calls[] = {
    {"weft_tcp_connect", tcp_connect, SLICE_HEAVY},
    {"weft_http_connect", http_connect, SLICE_HEAVY},
    {"weft_http_ask", http_ask, SLICE_HEAVY},
    {"weft_http_answer_read", http_ask, SLICE_HEAVY},
    {"weft_http_ask_begin", http_ask_in_pieces, SLICE_HEAVY},
    {"weft_http_ask_write", http_ask_in_pieces, SLICE_HEAVY},
    {"weft_http_ask_end", http_ask_in_pieces, SLICE_HEAVY},
    {"weft_http_pool_connect", http_pool_connect, SLICE_HEAVY},
    {"weft_http_fetch", http_fetch, SLICE_HEAVY},
    {"weft_ws_open", ws_open, SLICE_HEAVY},
    {"weft_ws_read", ws_read, SLICE_HEAVY},
};

static int check_all(void *unused) {
    (void)unused;
    struct site site = SITE(answer);
    char text[64];
    site_open(&site);
    REQUIRE(weft_addr_format(&site.addr, text, sizeof text) > 0);
    port = atoi(strrchr(text, ':') + 1);
    snprintf(url, sizeof url, "http://%s/", text);
    REQUIRE_EQ(weft_http_pool_open(NULL, &pool), 0);
    REQUIRE_EQ(weft_http_connect(url, fixture_soon(), &client), 0);
    for (size_t i = 0; i + 1 < sizeof calls / sizeof *calls; i++)
        slice_check(&calls[i]);
    REQUIRE_EQ(weft_ws_open(client, "/ws", NULL, fixture_soon(), &socket_), 0);
    slice_check(&calls[sizeof calls / sizeof *calls - 1]);
    weft_http_client_close(client);
    weft_http_pool_close(pool);
    site_close(&site);
    return 0;
}

API_TEST(slice_of_every_http_call, "R10", .workers = {1}, .timeout = 240) { io_run(check_all, NULL); }
