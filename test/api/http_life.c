/* http_life.c - connections that are slow, silent, half, too many, or in the way of a server that ends. */
#include "http_fixture.h"

/* -- Slow ------------------------------------------------------------------------------------------------------ */

static int slow(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site.options.head_timeout = 20 * MS;
    site.options.idle_timeout = 40 * MS;
    site.options.body_timeout = 20 * MS;
    site_open(&site);
    weft_io *io = dial(&site);
    hear_end(io); /* says nothing */
    ask_once(&site, "GET /hello HTTP/1.1\r\nHo", REFUSED(408, "Request Timeout"));
    /* Without an end, but never silent: the deadline is of the whole head. */
    io = dial(&site);
    char found[200];
    ssize_t n = 0;
    say(io, "GET /hello HTTP/1.1\r\nA: ");
    for (int i = 0; i < 5000 && n <= 0; i++) {
        if (weft_write(io, "a", 1, fixture_soon()) < 0)
            break;
        n = weft_read(io, found, sizeof found, weft_after(2 * MS));
    }
    REQUIRE_GT(n, 12);
    CHECK(memcmp(found, "HTTP/1.1 408", 12) == 0);
    CHECK_EQ(weft_close(io), 0);
    /* Silent between two requests, and in a body. */
    io = dial(&site);
    say(io, GET("/hello"));
    hear(io, HELLO);
    hear_end(io);
#define LATE                                                                                                           \
    "HTTP/1.1 408 Request Timeout\r\nContent-Length: 6\r\nConnection: close\r\nContent-Type: "                         \
    "text/plain\r\n\r\nerror\n"
    ask_once(&site, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabc", LATE);
    CHECK_EQ(site.error, -ETIMEDOUT);
    ask_once(&site, "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5;aa", LATE);
    CHECK_EQ(site.error, -ETIMEDOUT);
    /* A body that nobody reads and that does not come. */
    io = dial(&site);
    say(io, "POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabc");
    hear(io, HELLO);
    hear_end(io);
    site_close(&site);
    return 0;
}
API_TEST(http_slow, "", .workers = {1, 2}) { io_run(slow, NULL); }

/* A descriptor that is no socket, and has nothing, is idle as any other. */
static int silent_pipe(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site.options.idle_timeout = 5 * MS;
    weft_io *in, *out;
    REQUIRE_EQ(weft_pipe(&in, &out), 0);
    CHECK_EQ(weft_http_serve_one(in, &site.options, serve_site, &site), 0);
    CHECK_EQ(site.entered, 0);
    CHECK_EQ(weft_close(in), 0);
    CHECK_EQ(weft_close(out), 0);
    return 0;
}
API_TEST(http_silent_pipe, "") { io_run(silent_pipe, NULL); }

/* Who says something now and then is not idle, however long that goes on; who stops is, from then on. */
static int talks(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    const int64_t idle = 200 * MS;
    site.options.idle_timeout = idle;
    site_open(&site);
    weft_io *io = dial(&site);
    int64_t began = weft_now(), last = began;
    for (int asked = 0; asked < 30 || last - began < 2 * idle; asked++) {
        if (asked >= 30)
            CHECK_EQ(weft_sleep(idle / 10), 0);
        if (weft_now() - last > idle / 2) { /* the machine is busy: it may have been closed by right */
            CHECK_EQ(weft_close(io), 0);
            io = dial(&site);
            began = weft_now();
            asked = 0;
        }
        say(io, GET("/hello"));
        hear(io, HELLO);
        last = weft_now();
    }
    hear_end(io);
    CHECK_GE(weft_now() - last, idle / 2);
    site_close(&site);
    return 0;
}
API_TEST(http_idle_from_the_last, "", .workers = {1, 2}) { io_run(talks, NULL); }

/* Nor is it idle while the handler works on after its answer. */
static _Atomic int64_t worked;

static int serve_and_work(weft_http *x, void *arg) {
    struct site *site = arg;
    int error = weft_http_reply(x, 200, "text/plain", "hello\n", 6);
    CHECK_EQ(weft_sleep(2 * site->options.idle_timeout), 0);
    worked = weft_now();
    return error;
}

static int works(void *unused) {
    (void)unused;
    struct site site = SITE(serve_and_work);
    site.options.idle_timeout = 100 * MS;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &site.listener), 0);
    REQUIRE_EQ(weft_local_addr(site.listener, &site.addr), 0);
    weft_io *io = dial(&site);
    say(io, GET("/")); /* before anybody waits for it: on a busy machine it might come too late */
    site.task = io_go(NULL, site_main, &site);
    hear(io, HELLO);
    hear_end(io);
    CHECK_GE(weft_now() - worked, site.options.idle_timeout / 2);
    site_close(&site);
    return 0;
}
API_TEST(http_idle_from_the_handlers_end, "", .workers = {1, 2}) { io_run(works, NULL); }

/* A client that does not read its answer. */
static int serve_much(weft_http *x, void *arg) {
    struct site *site = arg;
    static char much[100000];
    int error = weft_http_begin(x, 200, -1);
    while (error >= 0)
        error = (int)weft_http_write(x, much, sizeof much);
    site->error = error;
    return error;
}

static int slow_reader(void *unused) {
    (void)unused;
    struct site site = SITE(serve_much);
    site.options.body_timeout = 30 * MS;
    site_open(&site);
    weft_io *io = dial(&site);
    say(io, GET("/"));
    UNTIL(site.error);
    CHECK_EQ(site.error, -ETIMEDOUT);
    CHECK_EQ(weft_close(io), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_slow_reader, "", .workers = {1, 2}) { io_run(slow_reader, NULL); }

/* -- Half ------------------------------------------------------------------------------------------------------- */

static int half(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site_open(&site);
    static const char request[] =
        "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for (size_t size = 0; size < sizeof request - 1; size++) {
        weft_io *io = dial(&site);
        bool orderly = size % 2;
        if (!orderly)
            CHECK_EQ(weft_socket_reset_on_close(io, true), 0);
        CHECK_EQ(weft_write(io, request, size, fixture_soon()), size);
        if (orderly) { /* until we have heard the end */
            char found[200];
            CHECK_EQ(weft_shutdown(io, SHUT_WR), 0);
            ssize_t n;
            while ((n = weft_read(io, found, sizeof found, fixture_soon())) > 0)
                ;
            CHECK_EQ(n, 0);
        }
        CHECK_EQ(weft_close(io), 0);
    }
    weft_io *io = dial(&site); /* the others never mind */
    say(io, request);
    hear(io, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
    CHECK_EQ(weft_close(io), 0);
    site_close(&site);
    CHECK_EQ(site.entered, site.left); /* only now: before, those in the backlog still come in */
    return 0;
}
API_TEST(http_half_requests, "", .workers = {1, 2}) { io_run(half, NULL); }

/* -- The end of a server ------------------------------------------------------------------------------------------- */

/* Those without a request are closed at once, also those that never had one; the one under way is answered; nobody else gets in. */
static int drain(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site.options.drain = 3600 * 1000 * MS;
    site_open(&site);
    weft_io *fresh = dial(&site), *idle = dial(&site), *busy = dial(&site);
    say(idle, GET("/hello"));
    hear(idle, HELLO);
    say(busy, GET("/wait"));
    UNTIL(site.entered == 2);
    (void)weft_task_cancel(site.task);
    hear_end(idle);
    hear_end(fresh);
    CHECK_EQ(site.left, 1);
    site.release = true;
    hear(busy, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwaited");
    hear_end(busy);
    CHECK_EQ(site.error, 0);
    site_close(&site);
    return 0;
}
API_TEST(http_drain, "", .workers = {1, 2}) { io_run(drain, NULL); }

/* Also those whose fiber has not begun: they do not wait for the one under way. */
static int drain_unborn(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site.options.drain = 3600 * 1000 * MS;
    site_open(&site);
    weft_io *busy = dial(&site);
    say(busy, GET("/wait"));
    UNTIL(site.entered == 1);
    weft_io *fresh = dial(&site);
    while (site_sockets() < 5) /* the listener, and two of each: it has been accepted */
        (void)weft_yield();
    (void)weft_task_cancel(site.task);
    hear_end(fresh);
    CHECK_EQ(site.left, 0);
    site.release = true;
    hear(busy, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwaited");
    hear_end(busy);
    site_close(&site);
    return 0;
}
API_TEST(http_drain_unborn, "", .workers = {1, 2}) { io_run(drain_unborn, NULL); }

static int drain_deadline(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site.options.drain = 30 * MS;
    site_open(&site);
    weft_io *busy = dial(&site), *body = dial(&site), *head = dial(&site);
    say(busy, GET("/wait"));
    say(body, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabc");
    say(head, "GET /he");
    UNTIL(site.entered == 2);
    (void)weft_task_cancel(site.task);
    CHECK_EQ(io_join(site.task), 0);
    CHECK_EQ(site.result, -ECANCELED);
    CHECK_EQ(site.left, 2);
    CHECK_EQ(site.error, -ECANCELED);
    CHECK_EQ(weft_close(site.listener), 0);
    CHECK_EQ(weft_close(busy), 0);
    CHECK_EQ(weft_close(body), 0);
    CHECK_EQ(weft_close(head), 0);
    CHECK_EQ(site_sockets(), 0);
    return 0;
}
API_TEST(http_drain_deadline, "", .workers = {1, 2}) { io_run(drain_deadline, NULL); }

/* Closing the listener ends it as well. */
static int closed(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site_open(&site);
    weft_io *idle = dial(&site);
    say(idle, GET("/hello"));
    hear(idle, HELLO);
    CHECK_EQ(weft_close(site.listener), 0);
    hear_end(idle);
    CHECK_EQ(io_join(site.task), 0);
    CHECK_EQ(site.result, -EBADF);
    CHECK_EQ(site_sockets(), 0);
    return 0;
}
API_TEST(http_listener_closed, "", .workers = {1, 2}) { io_run(closed, NULL); }

static int one_connection(void *arg) {
    weft_io *io = arg;
    struct site site = SITE(serve_site);
    return weft_http_serve_one(io, &site.options, serve_site, &site);
}

/* One connection of the caller's, of another kind. */
static int one(void *unused) {
    (void)unused;
    weft_io *a, *b;
    REQUIRE_EQ(weft_socketpair(&a, &b), 0);
    weft_task *task = io_go(NULL, one_connection, b);
    for (int i = 0; i < 3; i++) {
        say(a, GET("/hello"));
        hear(a, HELLO);
    }
    CHECK_EQ(weft_close(a), 0);
    CHECK_EQ(io_join(task), 0);
    CHECK_EQ(weft_close(b), 0);
    return 0;
}
API_TEST(http_serve_one, "", .workers = {1, 2}) { io_run(one, NULL); }

/* -- Many ----------------------------------------------------------------------------------------------------------- */

static int too_many(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    site.options.max_connections = 2;
    site_open(&site);
    weft_io *a = dial(&site), *b = dial(&site), *c = dial(&site);
    char byte;
    say(a, GET("/hello"));
    say(b, GET("/hello"));
    say(c, GET("/hello"));
    hear(a, HELLO);
    hear(b, HELLO);
    CHECK_EQ(weft_read(c, &byte, 1, weft_after(20 * MS)), -ETIMEDOUT); /* waits in the backlog */
    CHECK_EQ(site.entered, 2);
    CHECK_EQ(weft_close(a), 0);
    hear(c, HELLO);
    CHECK_EQ(weft_close(b), 0);
    CHECK_EQ(weft_close(c), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_max_connections, "", .workers = {1, 2}) { io_run(too_many, NULL); }

/* Connections that wait for a request make room for others: of their address, and when there are as many as there may be. */
static int make_room(void *per_address) {
    struct site site = SITE(serve_site);
    if (per_address)
        site.options.max_per_address = 2;
    else
        site.options.max_connections = 2, site.options.close_waiting = true;
    site.options.head_timeout = 60000 * MS;
    site_open(&site);
    weft_io *slow = dial(&site);
    say(slow, "GET /hello HTTP/1.1\r\nHost: "); /* and no more */
    weft_io *idle = dial(&site);
    say(idle, GET("/hello"));
    hear(idle, HELLO);
    CHECK_EQ(weft_sleep(150 * MS), 0); /* they have waited long enough */
    weft_io *next = dial(&site);
    say(next, GET("/hello"));
    hear(next, HELLO);
    char text[512]; /* it is told, and closed */
    while (weft_read(slow, text, sizeof text, weft_after(10000 * MS)) > 0)
        ;
    CHECK_EQ(weft_read(slow, text, sizeof text, weft_after(10000 * MS)), 0);
    CHECK_EQ(weft_close(slow), 0);
    say(idle, GET("/hello")); /* had waited less long */
    hear(idle, HELLO);
    CHECK_EQ(weft_close(idle), 0);
    CHECK_EQ(weft_close(next), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_close_waiting, "", .workers = {1, 2}) { io_run(make_room, NULL); }
API_TEST(http_max_per_address, "", .workers = {1, 2}) { io_run(make_room, ""); }

#define CLIENTS 200

static int many_client(void *arg) {
    struct site *site = arg;
    weft_io *io = dial(site);
    for (int i = 0; i < 3; i++) {
        say(io, GET("/hello") "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
        hear(io, HELLO "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
    }
    site->release = true;
    say(io, GET("/wait"));
    hear(io, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwaited");
    CHECK_EQ(weft_close(io), 0);
    return 0;
}

static int many(void *unused) {
    (void)unused;
    struct site site = SITE(serve_site);
    weft_task *clients[CLIENTS];
    site_open(&site);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = io_go(NULL, many_client, &site);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ(io_join(clients[i]), 0);
    site_close(&site); /* a client may have its answer before the handler has returned */
    CHECK_EQ(site.left, CLIENTS * 7);
    return 0;
}
API_TEST(http_many, "", .workers = {1, 2, 4}) { io_run(many, NULL); }
