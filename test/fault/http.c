/* http.c - a server and a client of HTTP when memory fails at any point: an answer, an error, or a closed connection; nothing leaks. */
#define _GNU_SOURCE
#include "../api/http_fixture.h"
#include "sweep.h"

static int answer(weft_http *x, void *arg) {
    void *all;
    (void)arg;
    if (weft_text_is(weft_http_path(x), "/ws")) {
        char text[64];
        int kind, error = weft_ws_accept(x);
        ssize_t n = error ? error : weft_ws_read(x, text, sizeof text, &kind, weft_after(1000 * MS));
        return n > 0 ? weft_ws_write(x, kind, text, (size_t)n) : (int)n;
    }
    ssize_t n = weft_http_read_all(x, &all);
    return n < 0 ? (int)n : weft_http_reply(x, 200, "text/plain", all, (size_t)n);
}

static int serve(void *listener) {
    weft_http_options options = WEFT_HTTP_OPTIONS_INIT;
    options.drain = 50 * MS;
    int error = weft_http_serve(listener, &options, answer, NULL);
    REQUIRE(error == -ECANCELED || error == -ENOMEM || error == -EMFILE || error == -EBADF);
    return 0;
}

static bool is_refusal(ssize_t error) {
    return error == -ENOMEM || error == -EMFILE || error == -ETIMEDOUT || error == -ECONNRESET || error == -EPIPE ||
           error == 0 || error == -EAGAIN || error == -ECONNREFUSED;
}

/* By URL, twice, with a pool. */
static void fetch(const weft_addr *addr, weft_deadline until) {
    char where[64], url[100];
    weft_http_pool *pool;
    weft_http_client *client;
    weft_addr_format(addr, where, sizeof where);
    snprintf(url, sizeof url, "http://%s/x", where);
    int status = weft_http_pool_open(NULL, &pool);
    if (status) {
        REQUIRE_EQ(status, -ENOMEM);
        return;
    }
    for (int i = 0; i < 2; i++) {
        status = weft_http_fetch(pool, "PUT", url, NULL, "body", 4, until, &client);
        REQUIRE(status == 200 || status == 500 || is_refusal(status));
        if (status > 0) {
            char text[16];
            (void)weft_http_answer_read(client, text, sizeof text, until);
            weft_http_client_close(client);
        }
    }
    weft_http_pool_close(pool);
}

/* One connection: a body of a length, one in chunks that grows past its first buffer, then a WebSocket. */
static int ask(void *arg) {
    static char body[9000];
    char text[256];
    weft_io *io;
    weft_http_client *client;
    weft_deadline until = weft_after(50 * MS); /* a server that could not start leaves us in its backlog */
    int error = weft_connect(arg, &io, until);
    if (error) {
        REQUIRE(is_refusal(error));
        return 0;
    }
    if (weft_http_client_open(io, "h", &client) == 0) {
        ssize_t status = weft_http_ask(client, "POST", "/", NULL, body, sizeof body, until), n = status;
        while (status == 200 && (n = weft_http_answer_read(client, text, sizeof text, until)) > 0)
            ;
        REQUIRE(status == 200 || status == 500 || is_refusal(status));
        REQUIRE(n == 0 || status != 200 || is_refusal(n));
        weft_http_client_close(client);
    }
    weft_close(io);
    fetch(arg, until);
    if (weft_connect(arg, &io, until))
        return 0;
    static const char chunked[] = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n";
    ssize_t n = weft_write(io, chunked, sizeof chunked - 1, until);
    if (n > 0)
        n = weft_write(io, body, 0x2000, until);
    if (n > 0)
        n = weft_write(io, "\r\n0\r\n\r\n", 7, until);
    if (n > 0)
        n = weft_read(io, text, sizeof text, until);
    REQUIRE(n > 0 ? !memcmp(text, "HTTP/1.1 200", 12) || !memcmp(text, "HTTP/1.1 500", 12) : is_refusal(n));
    weft_close(io);
    if (weft_connect(arg, &io, until))
        return 0;
    if (weft_http_client_open(io, "h", &client) == 0) {
        weft_http *ws;
        int kind;
        error = weft_ws_open(client, "/ws", NULL, until, &ws);
        if (!error)
            error = weft_ws_write(ws, WEFT_WS_TEXT, "abc", 3);
        n = error ? error : weft_ws_read(ws, text, sizeof text, &kind, until);
        REQUIRE(n == 3 || n == -EPROTO || is_refusal(n));
        weft_http_client_close(client);
    }
    weft_close(io);
    return 0;
}

static void served(void) {
    weft_io *listener;
    weft_addr addr;
    weft_task *server = NULL, *client = NULL;
    if (weft_tcp_listen("127.0.0.1", 0, NULL, &listener))
        return;
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    weft_runtime *rt = sweep_begin(NULL);
    if (rt) {
        bool serving = weft_fiber_go(rt, serve, listener, &server) == 0;
        if (serving && weft_fiber_go(rt, ask, &addr, &client) == 0) {
            REQUIRE_EQ(weft_join(client, NULL, fixture_soon()), 0);
            weft_task_drop(client);
        }
        if (serving) {
            (void)weft_task_cancel(server);
            REQUIRE_EQ(weft_join(server, NULL, fixture_soon()), 0);
            weft_task_drop(server);
        }
        CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
        CHECK_EQ(fixture_stats(rt).spawned, fixture_stats(rt).completed);
        harness_on_hang(NULL, NULL);
        CHECK_EQ(weft_runtime_destroy(rt), 0);
    }
    weft_close(listener);
    CHECK_EQ(site_sockets(), 0);
}

API_TEST(http_fails_anywhere, "", .workers = {1}, .timeout = 120) { sweep(served); }
