/* http_pool.c - connections that are used again. */
#include "http_fixture.h"

static int reuse(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    weft_http_pool *pool;
    weft_http_pool_options options = WEFT_HTTP_POOL_INIT;
    weft_http_client *client[4];
    char url[100], at[64], byte[8];
    options.max_idle_host = 2;
    REQUIRE_EQ(weft_http_pool_open(&options, &pool), 0);
    site_open(&site);
    weft_addr_format(&site.addr, at, sizeof at);
    snprintf(url, sizeof url, "http://%s/hello", at);
    CHECK_EQ(weft_http_pool_connect(NULL, url, fixture_soon(), &client[0]), -EINVAL);
    CHECK_EQ(weft_http_pool_connect(pool, "gopher://x/", fixture_soon(), &client[0]), -EINVAL);
    int first = -1;
    for (int i = 0; i < 5; i++) {
        REQUIRE_EQ(weft_http_pool_connect(pool, url, fixture_soon(), &client[0]), 0);
        int fd = weft_io_fd(weft_http_client_io(client[0]));
        CHECK_EQ(fd, first < 0 ? fd : first); /* the same one */
        first = fd;
        CHECK_EQ(weft_http_ask(client[0], "GET", "/hello", NULL, NULL, 0, fixture_soon()), 200);
        answer_is(client[0], "hello\n");
        CHECK_EQ(weft_http_pool_idle(pool), 0);
        weft_http_client_close(client[0]);
        CHECK_EQ(weft_http_pool_idle(pool), 1);
    }
    /* One whose answer was not read is not used again. */
    REQUIRE_EQ(weft_http_pool_connect(pool, url, fixture_soon(), &client[0]), 0);
    CHECK_EQ(weft_http_ask(client[0], "GET", "/hello", NULL, NULL, 0, fixture_soon()), 200);
    CHECK_EQ(weft_http_answer_read(client[0], byte, 1, fixture_soon()), 1);
    weft_http_client_close(client[0]);
    CHECK_EQ(weft_http_pool_idle(pool), 0);
    /* Two of four are kept. */
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(weft_http_pool_connect(pool, url, fixture_soon(), &client[i]), 0);
    for (int i = 0; i < 4; i++)
        weft_http_client_close(client[i]);
    CHECK_EQ(weft_http_pool_idle(pool), 2);
    /* The pool goes first. */
    REQUIRE_EQ(weft_http_pool_connect(pool, url, fixture_soon(), &client[0]), 0);
    weft_http_pool_close(pool);
    CHECK_EQ(weft_http_ask(client[0], "GET", "/hello", NULL, NULL, 0, fixture_soon()), 200);
    answer_is(client[0], "hello\n");
    weft_http_client_close(client[0]);
    site_close(&site);
    options.idle_timeout = -1;
    CHECK_EQ(weft_http_pool_open(&options, &pool), -EINVAL);
    return 0;
}
API_TEST(http_pool, "", .workers = {1, 2}) { io_run(reuse, NULL); }

/* A server that ends its connections while they wait, or just when they are used again. */
static int ends_them(void *arg) {
    weft_io *listener = arg, *io;
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for (int i = 0; i < 4; i++) {
        char head[200];
        int error = weft_accept(listener, &io, NULL, fixture_soon());
        REQUIRE_EQ(error, 0);
        REQUIRE_GT(weft_read(io, head, sizeof head, fixture_soon()), 0);
        say(io, answer);
        if (i % 2 && weft_read(io, head, sizeof head, fixture_soon()) > 0) /* the next one gets no answer */
            CHECK(memcmp(head, "GET ", 4) == 0 || memcmp(head, "POST", 4) == 0);
        CHECK_EQ(weft_close(io), 0);
    }
    return 0;
}

static int stale(void *unused) {
    (void)unused;
    weft_http_pool *pool;
    weft_http_client *client;
    char url[100];
    weft_io *listener = listen_here(url);
    REQUIRE_EQ(weft_http_pool_open(NULL, &pool), 0);
    weft_task *task = io_go(NULL, ends_them, listener);
    for (int i = 0; i < 3; i++) { /* the second on a new one; the third is tried on the second's, which ends then */
        CHECK_EQ(weft_http_fetch(pool, "GET", url, NULL, NULL, 0, fixture_soon(), &client), 200);
        answer_is(client, "ok");
        weft_io *io = weft_http_client_io(client);
        if (i == 0 || i == 2)
            CHECK_EQ(weft_io_wait(io, WEFT_FD_READ, fixture_soon()), 0); /* its end has come */
        weft_http_client_close(client);
        CHECK_EQ(weft_http_pool_idle(pool), i == 1);
    }
    CHECK_EQ(weft_http_fetch(pool, "GET", url, NULL, NULL, 0, fixture_soon(), &client), 200);
    answer_is(client, "ok");
    weft_http_client_close(client);
    CHECK_EQ(weft_http_pool_idle(pool), 1);
    /* What must not be done twice is not tried again. */
    CHECK_EQ(weft_http_fetch(pool, "POST", url, NULL, "x", 1, fixture_soon(), &client), -ECONNRESET);
    CHECK_EQ(io_join(task), 0);
    CHECK_EQ(weft_http_pool_idle(pool), 0);
    weft_http_pool_close(pool);
    weft_close(listener);
    return 0;
}
API_TEST(http_pool_stale, "", .workers = {1, 2}) { io_run(stale, NULL); }

/* Half an answer, on a connection that was used before: nobody asks again. */
static int says_half(void *listener) {
    char head[400];
    for (int i = 0; i < 2; i++) {
        weft_io *io = next_request(listener);
        say(io, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        REQUIRE_GT(weft_read(io, head, sizeof head, fixture_soon()), 0);
        say(io, i ? "HTTP/1.1 100 Continue\r\n\r\n" : "HTTP/1.1 200");
        CHECK_EQ(weft_shutdown(io, SHUT_WR), 0);
        CHECK_EQ(weft_read(io, head, 1, fixture_soon()), 0);
        CHECK_EQ(weft_close(io), 0);
    }
    weft_io *more;
    CHECK_EQ(weft_accept(listener, &more, NULL, WEFT_NOW), -ETIMEDOUT);
    return 0;
}

static int half(void *unused) {
    (void)unused;
    weft_http_pool *pool;
    weft_http_client *client;
    char url[100];
    weft_io *listener = listen_here(url);
    REQUIRE_EQ(weft_http_pool_open(NULL, &pool), 0);
    weft_task *task = io_go(NULL, says_half, listener);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_http_fetch(pool, "GET", url, NULL, NULL, 0, fixture_soon(), &client), 200);
        answer_is(client, "ok");
        weft_http_client_close(client);
        CHECK_EQ(weft_http_pool_idle(pool), 1);
        CHECK_EQ(weft_http_fetch(pool, "GET", url, NULL, NULL, 0, fixture_soon(), &client), -ECONNRESET);
    }
    CHECK_EQ(io_join(task), 0);
    weft_http_pool_close(pool);
    weft_close(listener);
    return 0;
}
API_TEST(http_pool_half, "", .workers = {1, 2}) { io_run(half, NULL); }

/* -- By other rules ------------------------------------------------------------------------------------------------- */

static int as_it_is(weft_io *connection, const char *host, weft_deadline until, void *arg, weft_io **out) {
    (void)host, (void)until;
    ++*(unsigned *)arg;
    *out = connection;
    return 0;
}

/* A connection that was made secure by the rules of one is not used again when there is another, nor as a plain one. */
static int rules(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    weft_http_pool *pool;
    weft_http_client *client;
    unsigned made[2] = {0, 0};
    char url[100], at[64];
    REQUIRE_EQ(weft_http_pool_open(NULL, &pool), 0);
    site_open(&site);
    weft_addr_format(&site.addr, at, sizeof at);
    for (int i = 0; i < 6; i++) {
        if (i == 0 || i == 2)
            weft_http_secure(as_it_is, &made[i / 2]);
        snprintf(url, sizeof url, "%s://%s/hello", i < 4 ? "https" : "http", at);
        CHECK_EQ(weft_http_fetch(pool, "GET", url, NULL, NULL, 0, fixture_soon(), &client), 200);
        answer_is(client, "hello\n");
        weft_http_client_close(client);
        CHECK_EQ(weft_http_pool_idle(pool), i / 2 + 1);
    }
    CHECK_EQ(made[0], 1);
    CHECK_EQ(made[1], 1);
    weft_http_secure(NULL, NULL);
    snprintf(url, sizeof url, "https://%s/hello", at);
    CHECK_EQ(weft_http_fetch(pool, "GET", url, NULL, NULL, 0, fixture_soon(), &client), -EPROTONOSUPPORT);
    weft_http_pool_close(pool);
    site_close(&site);
    return 0;
}
API_TEST(http_pool_rules, "", .workers = {1, 2}) { io_run(rules, NULL); }
