/* http_fetch.c - bodies that are sent piece by piece, redirects, references (http_pool.c: connections that are used again). */
#include "http_fixture.h"

/* -- Uploads ------------------------------------------------------------------------------------------------------ */

static int upload(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    weft_http_client *client;
    site_open(&site);
    weft_io *io = dial(&site);
    REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
    CHECK_EQ(weft_http_ask_write(client, "a", 1, fixture_soon()), -EINVAL); /* not begun */
    CHECK_EQ(weft_http_ask_end(client, fixture_soon()), -EINVAL);
    for (int chunked = 0; chunked < 2; chunked++) {
        CHECK_EQ(weft_http_ask_begin(client, "POST", "/stream", "A: b\r\n", chunked ? -1 : 7, fixture_soon()), 0);
        CHECK_EQ(weft_http_ask_begin(client, "POST", "/stream", NULL, 7, fixture_soon()), -EBUSY);
        CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), -EBUSY);
        CHECK(!weft_http_client_is_open(client));
        CHECK_EQ(weft_http_ask_write(client, "some ", 5, fixture_soon()), 5);
        CHECK_EQ(weft_http_ask_write(client, "", 0, fixture_soon()), 0);
        if (!chunked) {
            CHECK_EQ(weft_http_ask_write(client, "bytes", 5, fixture_soon()), -EMSGSIZE);
            CHECK_EQ(weft_http_ask_end(client, fixture_soon()), -EINVAL); /* too little */
        }
        CHECK_EQ(weft_http_ask_write(client, "by", 2, fixture_soon()), 2);
        CHECK_EQ(weft_http_ask_end(client, fixture_soon()), 200);
        CHECK_EQ(weft_http_ask_end(client, fixture_soon()), -EINVAL);
        answer_is(client, "some by");
        CHECK(weft_http_client_is_open(client));
    }
    CHECK_EQ(weft_http_ask_begin(client, "PUT", "/echo", NULL, 0, fixture_soon()), 0);
    CHECK_EQ(weft_http_ask_end(client, fixture_soon()), 200);
    answer_is(client, "");
    CHECK_EQ(weft_http_ask_begin(client, "PUT", "/echo", NULL, -2, fixture_soon()), -EINVAL);
    CHECK_EQ(weft_http_ask_begin(client, "PUT", "/echo", "Transfer-Encoding: chunked\r\n", -1, fixture_soon()),
             -EINVAL);
    CHECK_EQ(weft_http_ask_begin(client, "PUT", "/echo", "Content-Length: 1\r\n", -1, fixture_soon()), -EINVAL);
    CHECK_EQ(weft_http_ask(client, "GET", "/hello", NULL, NULL, 0, fixture_soon()), 200); /* nothing was sent */
    answer_is(client, "hello\n");
    weft_http_client_close(client);
    weft_close(io);
    site_close(&site);
    return 0;
}
API_TEST(http_upload, "", .workers = {1, 2}) { io_run(upload, NULL); }

/* A server that has had enough: its answer is read, although writing fails. */
static int upload_refused(void *unused) {
    (void)unused;
    static char much[65536];
    weft_http_client *client;
    weft_io *a, *b;
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    REQUIRE_EQ(weft_http_client_open(a, "h", &client), 0);
    CHECK_EQ(weft_http_ask_begin(client, "PUT", "/", NULL, -1, fixture_soon()), 0);
    say(b, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    CHECK_EQ(weft_shutdown(b, SHUT_RD), 0);
    CHECK_EQ(weft_http_ask_write(client, much, sizeof much, fixture_soon()), -EPIPE);
    CHECK_EQ(weft_http_ask_write(client, much, sizeof much, fixture_soon()), -EPIPE);
    CHECK_EQ(weft_http_ask_end(client, fixture_soon()), 413);
    answer_is(client, "no");
    CHECK(!weft_http_client_is_open(client));
    weft_http_client_close(client);
    weft_close(a);
    weft_close(b);
    /* One that says nothing, and reads nothing. */
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    REQUIRE_EQ(weft_http_client_open(a, "h", &client), 0);
    CHECK_EQ(weft_http_ask_begin(client, "PUT", "/", NULL, -1, fixture_soon()), 0);
    ssize_t n;
    while ((n = weft_http_ask_write(client, much, sizeof much, weft_after(20 * MS))) > 0)
        ;
    CHECK_EQ(n, -ETIMEDOUT);
    CHECK_EQ(weft_http_ask_end(client, fixture_soon()), -EINVAL);
    CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, fixture_soon()), -ECONNRESET);
    weft_http_client_close(client);
    weft_close(a);
    weft_close(b);
    return 0;
}
API_TEST(http_upload_refused, "", .workers = {1, 2}) { io_run(upload_refused, NULL); }

/* -- Redirects ---------------------------------------------------------------------------------------------------- */

static struct site *other; /* to which the first one sends people */

static int send_away(weft_http *x, int status, const char *where) {
    char url[128];
    if (strstr(where, "%s")) {
        char at[64];
        weft_addr_format(&other->addr, at, sizeof at);
        snprintf(url, sizeof url, "http://%s/tell?from", at);
        where = url;
    }
    CHECK_EQ(weft_http_set(x, "Location", where), 0);
    return weft_http_reply(x, status, "text/plain", "moved", 5);
}

/* What the request was. */
static int tell(weft_http *x) {
    char text[500];
    void *body = NULL;
    ssize_t n = weft_http_read_all(x, &body);
    weft_text method = weft_http_method(x), target = weft_http_target(x), secret = weft_http_field(x, "Authorization"),
              type = weft_http_field(x, "Content-Type"), plain = weft_http_field(x, "A");
    int size = snprintf(text, sizeof text, "%.*s %.*s %.*s|%.*s|%.*s|%.*s", (int)method.size, method.at,
                        (int)target.size, target.at, (int)secret.size, secret.at ? secret.at : "", (int)type.size,
                        type.at ? type.at : "", (int)plain.size, plain.at ? plain.at : "", (int)n, (char *)body);
    return weft_http_reply(x, 200, "text/plain", text, (size_t)size);
}

static int serve_moves(weft_http *x, void *arg) {
    struct site *site = arg;
    weft_text path = weft_http_path(x), query = weft_http_query(x);
    site->entered++;
    if (weft_text_is(path, "/tell") || weft_text_is(path, "/a/tell") || weft_text_is(path, "/"))
        return tell(x);
    if (weft_text_is(path, "/loop"))
        return send_away(x, 302, "loop?again");
    if (weft_text_is(path, "/a/b"))
        return send_away(x, 301, "./tell?x#part");
    if (weft_text_is(path, "/up"))
        return send_away(x, 303, "a/b/../../tell");
    if (weft_text_is(path, "/same"))
        return send_away(x, query.size == 3 && query.at[0] == '3' ? 307 : 308, "/tell");
    if (weft_text_is(path, "/other"))
        return send_away(x, 307, "%s");
    if (weft_text_is(path, "/bad"))
        return send_away(x, 302, "gopher://x/");
    if (weft_text_is(path, "/socket"))
        return send_away(x, 302, "ws://127.0.0.1:1/");
    if (weft_text_is(path, "/plain"))
        return send_away(x, 302, "/tell?\xc3\xa4 b%20c~");
    if (weft_text_is(path, "/host"))
        return send_away(x, 302, "http://\xc3\xa4/");
    if (weft_text_is(path, "/far")) { /* three times as long when it is encoded */
        char far[2000];
        memset(far, '\xff', sizeof far - 1);
        far[0] = '/';
        far[query.size == 1 ? 1400 : 1300] = 0;
        return send_away(x, 302, far);
    }
    if (weft_text_is(path, "/part")) { /* which is the client's own, however long it is */
        char part[3000];
        memset(part, '\xff', sizeof part - 1);
        memcpy(part, "/tell#", 6);
        part[sizeof part - 1] = 0;
        return send_away(x, 302, part);
    }
    if (weft_text_is(path, "/nowhere"))
        return weft_http_reply(x, 302, NULL, "?", 1);
    return 0;
}

static void fetch_is(struct site *site, weft_http_pool *pool, const char *method, const char *target, int status,
                     const char *text) {
    static const char fields[] = "Authorization: secret\r\nContent-Type: text/x\r\nA: b\r\n";
    bool body = !strcmp(method, "POST") || !strcmp(method, "PUT");
    weft_http_client *client;
    char url[200], at[64];
    weft_addr_format(&site->addr, at, sizeof at);
    snprintf(url, sizeof url, "http://%s%s", at, target);
    int found = weft_http_fetch(pool, method, url, fields, body ? "body" : NULL, body ? 4 : 0, fixture_soon(), &client);
    CHECK_EQ(found, status);
    if (found < 0)
        return;
    answer_is(client, text);
    weft_http_client_close(client);
}

/* site_close looks whether all sockets are closed, so the first one must go without. */
static void close_both(struct site *first, struct site *second) {
    (void)weft_task_cancel(first->task);
    CHECK_EQ(io_join(first->task), 0);
    CHECK_EQ(weft_close(first->listener), 0);
    site_close(second);
}

static int redirects(void *unused) {
    (void)unused;
    struct site site = SITE(serve_moves), second = SITE(serve_moves);
    weft_http_pool *pool;
    REQUIRE_EQ(weft_http_pool_open(NULL, &pool), 0);
    site_open(&site);
    site_open(&second);
    other = &second;
    for (int turn = 0; turn < 2; turn++) {
        weft_http_pool *with = turn ? pool : NULL;
        fetch_is(&site, with, "GET", "/tell", 200, "GET /tell secret|text/x|b|");
        fetch_is(&site, with, "GET", "?x", 200, "GET /?x secret|text/x|b|"); /* a query without a path */
        fetch_is(&site, with, "GET", "#x?y://", 200, "GET / secret|text/x|b|");
        fetch_is(&site, with, "GET", "/a/b", 200, "GET /a/tell?x secret|text/x|b|");
        fetch_is(&site, with, "POST", "/a/b", 200, "GET /a/tell?x secret||b|");
        fetch_is(&site, with, "PUT", "/a/b", 200, "PUT /a/tell?x secret|text/x|b|body");
        fetch_is(&site, with, "PUT", "/up", 200, "GET /tell secret||b|");
        fetch_is(&site, with, "HEAD", "/up", 200, "");
        fetch_is(&site, with, "POST", "/same?307", 200, "POST /tell secret|text/x|b|body");
        fetch_is(&site, with, "POST", "/same?8", 200, "POST /tell secret|text/x|b|body");
        fetch_is(&site, with, "POST", "/other", 200, "POST /tell?from |text/x|b|body"); /* without the secret */
        fetch_is(&site, with, "GET", "/loop", -ELOOP, NULL);
        fetch_is(&site, with, "GET", "/bad", 302, "moved");
        fetch_is(&site, with, "GET", "/socket", 302, "moved");
        fetch_is(&site, with, "GET", "/nowhere", 302, "?");
        fetch_is(&site, with, "GET", "/plain", 200, "GET /tell?%C3%A4%20b%20c~ secret|text/x|b|");
        fetch_is(&site, with, "GET", "/host", 302, "moved");
        fetch_is(&site, with, "GET", "/far", 404, "not found\n");
        fetch_is(&site, with, "GET", "/far?x", 302, "moved"); /* 4 KiB are the most */
        fetch_is(&site, with, "GET", "/part", 200, "GET /tell secret|text/x|b|");
        fetch_is(&site, with, "GET", "/none", 404, "not found\n");
    }
    CHECK_EQ(weft_http_pool_idle(pool), 2);
    weft_http_pool_close(pool);
    weft_http_pool_options options = WEFT_HTTP_POOL_INIT;
    options.max_redirects = WEFT_HTTP_NO_REDIRECTS;
    REQUIRE_EQ(weft_http_pool_open(&options, &pool), 0);
    fetch_is(&site, pool, "GET", "/a/b", 301, "moved");
    fetch_is(&site, pool, "GET", "/tell", 200, "GET /tell secret|text/x|b|");
    CHECK_EQ(weft_http_pool_idle(pool), 1);
    weft_http_pool_close(pool);
    close_both(&site, &second);
    return 0;
}
API_TEST(http_redirects, "", .workers = {1, 2}) { io_run(redirects, NULL); }

/* -- Servers that say too little ----------------------------------------------------------------------------------- */

/* The body of a redirect does not come; nobody wants it. */
static int keeps_body(void *listener) {
    for (int i = 0; i < 2; i++) {
        char byte;
        weft_io *first = next_request(listener);
        say(first, i ? "HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: /b\r\n\r\n"
                     : "HTTP/1.1 302 Found\r\nContent-Length: 5\r\nLocation: /b\r\n\r\n");
        weft_io *second = next_request(listener);
        say(second, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        CHECK_LE(weft_read(second, &byte, 1, fixture_soon()), 0);
        CHECK_EQ(weft_close(first), 0);
        CHECK_EQ(weft_close(second), 0);
    }
    return 0;
}

static int unread_redirect(void *unused) {
    (void)unused;
    weft_http_pool *pool;
    weft_http_client *client;
    char url[100];
    weft_io *listener = listen_here(url);
    REQUIRE_EQ(weft_http_pool_open(NULL, &pool), 0);
    weft_task *task = io_go(NULL, keeps_body, listener);
    for (int i = 0; i < 2; i++) { /* without a pool; and with one, on a connection that is not for the next */
        CHECK_EQ(weft_http_fetch(i ? pool : NULL, "GET", url, NULL, NULL, 0, WEFT_NEVER, &client), 200);
        answer_is(client, "ok");
        weft_http_client_close(client);
        if (i)
            weft_http_pool_close(pool);
    }
    CHECK_EQ(io_join(task), 0);
    weft_close(listener);
    return 0;
}
API_TEST(http_redirect_unread, "", .workers = {1, 2}, .timeout = 20) { io_run(unread_redirect, NULL); }

/* -- References ---------------------------------------------------------------------------------------------------- */

/* RFC 3986, 5.4, as far as it is HTTP, and more. */
TEST(url_join, "") {
    static const char base[] = "http://a/b/c/d;p?q";
    static const struct {
        const char *reference, *means; /* NULL: -EINVAL */
    } cases[] = {
        {"http://x/y", "http://x/y"},
        {"HTTPS://x/y#z", "HTTPS://x/y"},
        {"http://x", "http://x"},
        {"http://x?y", "http://x/?y"},
        {"//x?y", "http://x/?y"},
        {"//x/y/../z?q/../r", "http://x/z?q/../r"},
        {"https://x/./y/..", "https://x/"},
        {"g", "http://a/b/c/g"},
        {"./g", "http://a/b/c/g"},
        {"g/", "http://a/b/c/g/"},
        {"/g", "http://a/g"},
        {"//g", "http://g"},
        {"?y", "http://a/b/c/d;p?y"},
        {"g?y", "http://a/b/c/g?y"},
        {"#s", "http://a/b/c/d;p?q"},
        {"g#s", "http://a/b/c/g"},
        {"g?y#s", "http://a/b/c/g?y"},
        {";x", "http://a/b/c/;x"},
        {"g;x", "http://a/b/c/g;x"},
        {"", "http://a/b/c/d;p?q"},
        {".", "http://a/b/c/"},
        {"./", "http://a/b/c/"},
        {"..", "http://a/b/"},
        {"../", "http://a/b/"},
        {"../g", "http://a/b/g"},
        {"../..", "http://a/"},
        {"../../", "http://a/"},
        {"../../g", "http://a/g"},
        {"../../../g", "http://a/g"},
        {"../../../../g", "http://a/g"},
        {"/./g", "http://a/g"},
        {"/../g", "http://a/g"},
        {"g.", "http://a/b/c/g."},
        {".g", "http://a/b/c/.g"},
        {"g..", "http://a/b/c/g.."},
        {"..g", "http://a/b/c/..g"},
        {"./../g", "http://a/b/g"},
        {"./g/.", "http://a/b/c/g/"},
        {"g/./h", "http://a/b/c/g/h"},
        {"g/../h", "http://a/b/c/h"},
        {"g;x=1/./y", "http://a/b/c/g;x=1/y"},
        {"g;x=1/../y", "http://a/b/c/y"},
        {"g?y/./x", "http://a/b/c/g?y/./x"},
        {"g?y/../x", "http://a/b/c/g?y/../x"},
        {"mailto:x", NULL},
        {"g:h", NULL},
        {"http:g", NULL},
        {"//", NULL},
        {"a b", NULL},
        {"\xc3\xa4", NULL},
    };
    char out[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_text reference = {cases[i].reference, strlen(cases[i].reference)};
        int size = weft_url_join(base, reference, out, sizeof out);
        CHECK_EQ(size, cases[i].means ? (int)strlen(cases[i].means) : -EINVAL);
        if (cases[i].means && size > 0 && strcmp(out, cases[i].means))
            harness_fail(__FILE__, __LINE__, "%s is %s", cases[i].reference, out);
    }
    CHECK_EQ(weft_url_join("http://a", (weft_text){"b", 1}, out, sizeof out), 10);
    CHECK(strcmp(out, "http://a/b") == 0);
    CHECK_EQ(weft_url_join("http://a", (weft_text){"b", 1}, out, 11), 10); /* and its zero */
    CHECK_EQ(weft_url_join("http://a", (weft_text){"b", 1}, out, 10), -EMSGSIZE);
    CHECK_EQ(weft_url_join("http://a", (weft_text){"a\0b", 3}, out, sizeof out), -EINVAL);
    CHECK_EQ(weft_url_join("a", (weft_text){"b", 1}, out, sizeof out), -EINVAL);
}
