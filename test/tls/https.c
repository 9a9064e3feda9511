/* https.c - https and wss by URL; HTTP over TLS: drain, slow handshakes beside others. */
#define _GNU_SOURCE
#include "tls_fixture.h"

static int serve_both(weft_http *x, void *arg) {
    if (!weft_text_is(weft_http_path(x), "/ws"))
        return serve_site(x, arg);
    char text[64];
    int kind, error = weft_ws_accept(x);
    ssize_t n = error ? error : weft_ws_read(x, text, sizeof text, &kind, fixture_soon());
    return n < 0 ? (int)n : weft_ws_write(x, kind, text, (size_t)n);
}

static void secure_open(struct site *site, weft_tls *tls) {
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &site->listener), 0);
    REQUIRE_EQ(weft_local_addr(site->listener, &site->addr), 0);
    REQUIRE_EQ(weft_tls_listen(site->listener, tls, &site->listener), 0);
    site->task = io_go(NULL, site_main, site);
}

static void url_of(struct site *site, const char *scheme, char *text, size_t room) {
    char where[64];
    weft_addr_format(&site->addr, where, sizeof where);
    snprintf(text, room, "%s://%s/", scheme, where);
}

static int by_url(void *unused) {
    (void)unused;
    struct site site = SITE(serve_both);
    weft_tls *server = TLS_SERVER(), *client_tls = TLS_CLIENT();
    weft_http_client *client;
    weft_http *ws;
    char url[100], text[16];
    int kind;
    secure_open(&site, server);
    CHECK_EQ(weft_tls_use(server), -EINVAL);
    REQUIRE_EQ(weft_tls_use(client_tls), 0);
    weft_tls_free(client_tls); /* kept */
    url_of(&site, "https", url, sizeof url);
    for (int i = 0; i < 3; i++) {
        REQUIRE_EQ(weft_http_connect(url, fixture_soon(), &client), 0);
        CHECK_EQ(weft_tls_is_resumed(weft_http_client_io(client)), i > 0);
        for (int j = 0; j < 3; j++) {
            CHECK_EQ(weft_http_ask(client, "POST", "/echo", NULL, "abc", 3, fixture_soon()), 200);
            CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 3);
            CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 0);
        }
        weft_http_client_close(client);
    }
    url_of(&site, "wss", url, sizeof url);
    REQUIRE_EQ(weft_http_connect(url, fixture_soon(), &client), 0);
    REQUIRE_EQ(weft_ws_open(client, "/ws", NULL, fixture_soon(), &ws), 0);
    CHECK_EQ(weft_ws_write(ws, WEFT_WS_TEXT, "secret", 6), 0);
    CHECK_EQ(weft_ws_read(ws, text, sizeof text, &kind, fixture_soon()), 6);
    CHECK_EQ(weft_ws_read(ws, text, sizeof text, &kind, fixture_soon()), 0);
    CHECK_EQ(kind, WEFT_WS_CLOSE);
    weft_http_client_close(client);
    /* Somebody whose certificate is not good is not spoken to. */
    REQUIRE_EQ(weft_tls_use(client_tls = tls_make(false, TLS_OPTIONS(.ca_file = tls_file("alone.pem")))), 0);
    weft_tls_free(client_tls);
    CHECK_EQ(weft_http_connect(url, fixture_soon(), &client), -EKEYREJECTED);
    REQUIRE_EQ(weft_tls_use(NULL), 0);
    CHECK_EQ(weft_http_connect(url, fixture_soon(), &client), -EPROTONOSUPPORT);
    UNTIL(site_sockets() == 1);
    site_close(&site);
    weft_tls_free(server);
    return 0;
}
API_TEST(tls_https_by_url, "", .workers = {1, 2}) { io_run(by_url, NULL); }

/* A server that has ended a connection which waits: a request that must not be sent twice goes to another. */
static weft_event end_it;

static int ends_them(void *listener) {
    for (int i = 0; i < 3; i++) {
        weft_io *io;
        char head[400];
        int error = weft_accept(listener, &io, NULL, fixture_soon());
        REQUIRE_EQ(error, 0);
        REQUIRE_GT(weft_read(io, head, sizeof head, fixture_soon()), 0);
        say(io, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        CHECK_EQ(weft_event_wait(&end_it, fixture_soon()), 0);
        weft_event_clear(&end_it);
        if (i == 2)
            say(io, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"); /* as some do */
        CHECK_EQ(weft_close(io), 0);
    }
    return 0;
}

static int stale(void *unused) {
    (void)unused;
    weft_tls *server = TLS_SERVER(), *client_tls = TLS_CLIENT();
    weft_http_pool *pool;
    weft_http_client *client;
    weft_io *listener;
    weft_addr addr;
    char url[100], at[64], text[16];
    weft_event_init(&end_it);
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    REQUIRE_EQ(weft_tls_listen(listener, server, &listener), 0);
    REQUIRE_EQ(weft_tls_use(client_tls), 0);
    weft_tls_free(client_tls);
    REQUIRE_EQ(weft_http_pool_open(NULL, &pool), 0);
    weft_addr_format(&addr, at, sizeof at);
    snprintf(url, sizeof url, "https://%s/", at);
    weft_task *task = io_go(NULL, ends_them, listener);
    for (int i = 0; i < 3; i++) { /* the first ends before it is given back, the others while they wait */
        REQUIRE_EQ(weft_http_fetch(pool, "POST", url, NULL, "abc", 3, fixture_soon(), &client), 200);
        CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 2);
        CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 0);
        CHECK(weft_http_client_is_open(client));
        weft_io *io = weft_http_client_io(client);
        for (int step = 0; step < 2; step++) {
            if (step == (i == 0)) {
                weft_http_client_close(client);
                CHECK_EQ(weft_http_pool_idle(pool), i > 0);
                continue;
            }
            CHECK_EQ(weft_event_set(&end_it), 0);
            CHECK_EQ(weft_io_wait(io, WEFT_FD_READ, fixture_soon()), 0);
        }
    }
    CHECK_EQ(io_join(task), 0);
    CHECK_EQ(weft_close(listener), 0);
    CHECK_EQ(weft_http_fetch(pool, "POST", url, NULL, "abc", 3, fixture_soon(), &client), -ECONNREFUSED);
    weft_http_pool_close(pool);
    REQUIRE_EQ(weft_tls_use(NULL), 0);
    weft_event_destroy(&end_it);
    weft_tls_free(server);
    return 0;
}
API_TEST(tls_https_stale, "", .workers = {1, 2}) { io_run(stale, NULL); }

static weft_io *secure_dial(struct site *site, weft_tls *tls) {
    weft_io *io;
    REQUIRE_EQ(weft_tls_connect(dial(site), tls, "localhost", fixture_soon(), &io), 0);
    return io;
}

/* Whoever is cancelled: those without a request, or without a handshake, are closed with a signed end; the one under way is answered. */
static int drain(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    weft_tls *server = TLS_SERVER(), *client = TLS_CLIENT();
    site.options.drain = 3600 * 1000 * MS;
    secure_open(&site, server);
    weft_io *silent = dial(&site); /* never says a word of TLS, and keeps nobody waiting */
    weft_io *fresh = secure_dial(&site, client), *idle = secure_dial(&site, client), *busy = secure_dial(&site, client);
    say(idle, GET("/hello"));
    hear(idle, HELLO);
    say(busy, GET("/wait"));
    UNTIL(site.entered == 2);
    (void)weft_task_cancel(site.task);
    hear_end(idle);
    char byte;
    ssize_t n = weft_read(fresh, &byte, 1, fixture_soon());
    CHECK(n == 0 || n == -ECONNRESET); /* the server may not have heard the last of its handshake */
    CHECK_EQ(weft_close(fresh), 0);
    hear_end(silent);
    site.release = true;
    hear(busy, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwaited");
    hear_end(busy);
    site_close(&site);
    tls_free_both(client, server);
    return 0;
}
API_TEST(tls_https_drain, "", .workers = {1, 2}) { io_run(drain, NULL); }

/* A server that answers, reads nothing of the body, and resets the connection: its answer is heard all the same. */
static int answer_and_reset(void *listener) {
    weft_io *io;
    char head[4096];
    REQUIRE_EQ(weft_accept(listener, &io, NULL, fixture_soon()), 0);
    CHECK_GT(weft_read(io, head, sizeof head, fixture_soon()), 0); /* and so the handshake */
    say(io, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig");
    CHECK_GE(weft_fd_wait(weft_io_fd(io), WEFT_FD_READ, fixture_soon()), 0); /* bytes that nobody will have read */
    CHECK_EQ(weft_close(io), 0);
    return 0;
}

static int cut_off(void *unused) {
    (void)unused;
    weft_tls *server = TLS_SERVER(), *client_tls = TLS_CLIENT();
    size_t size = 32u << 20; /* more than the buffers of both sides take */
    char *body = calloc(1, size), text[8];
    struct site site = {.arg = NULL};
    weft_http_client *client;
    REQUIRE(body);
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &site.listener), 0);
    REQUIRE_EQ(weft_local_addr(site.listener, &site.addr), 0);
    REQUIRE_EQ(weft_tls_listen(site.listener, server, &site.listener), 0);
    weft_task *task = io_go(NULL, answer_and_reset, site.listener);
    weft_io *io = secure_dial(&site, client_tls);
    REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
    CHECK_EQ(weft_http_ask(client, "POST", "/", NULL, body, size, fixture_soon()), 413);
    CHECK_EQ(weft_http_answer_read(client, text, sizeof text, fixture_soon()), 3);
    CHECK(!weft_http_client_is_open(client));
    int error = (int)weft_write(io, text, 1, fixture_soon());
    CHECK(error == -EPIPE || error == -ECONNRESET);
    CHECK_EQ(io_join(task), 0);
    weft_http_client_close(client);
    CHECK_EQ(weft_close(io), 0);
    CHECK_EQ(weft_close(site.listener), 0);
    tls_free_both(client_tls, server);
    free(body);
    return 0;
}
API_TEST(tls_https_cut_off, "", .workers = {1, 2}) { io_run(cut_off, NULL); }
