/* http_long.c - answers, messages and bodies that take longer than body_timeout, of clients that are slow and of ones that are too slow; in virtual time. */
#include "http_fixture.h"

enum { LONG = 4 << 20 };

static int serve_long(weft_http *x, void *arg) {
    int *result = arg;
    char *bytes = malloc(LONG);
    REQUIRE(bytes);
    io_fill(bytes, LONG, 0);
    *result = weft_http_reply(x, 200, NULL, bytes, LONG);
    free(bytes);
    return *result;
}

static weft_io *long_listener;
static int serve_long_main(void *arg) {
    weft_http_options options = WEFT_HTTP_OPTIONS_INIT;
    options.body_timeout = (1000 * MS);
    CHECK_EQ(weft_http_serve(long_listener, &options, serve_long, arg), -EBADF);
    return 0;
}

/* 500 KB a second are enough, however long it takes; 100 KB a second are not. */
static int long_answer(void *unused) {
    (void)unused;
    REQUIRE_EQ(weft_sim_net_open(NULL), 0);
    for (int slow = 0; slow < 2; slow++) {
        weft_io *io;
        weft_addr addr;
        weft_http_client *client;
        char *found = malloc(40000);
        ssize_t n = 0;
        size_t got = 0;
        int result = 1;
        REQUIRE(found);
        REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &long_listener), 0);
        REQUIRE_EQ(weft_local_addr(long_listener, &addr), 0);
        weft_task *task = io_go(NULL, serve_long_main, &result);
        REQUIRE_EQ(weft_connect(&addr, &io, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
        CHECK_EQ(weft_http_ask(client, "GET", "/", NULL, NULL, 0, WEFT_NEVER), 200);
        while ((n = weft_http_answer_read(client, found, 40000, WEFT_NEVER)) > 0) {
            got += (size_t)n;
            CHECK_EQ(weft_sleep((slow ? 10 : 2) * (1000 * MS) * n / 1000000), 0);
        }
        CHECK_EQ(n, slow ? -ECONNRESET : 0);
        CHECK_EQ(got == LONG, !slow);
        CHECK_EQ(result, slow ? -ETIMEDOUT : 0);
        weft_http_client_close(client);
        weft_close(io);
        weft_close(long_listener);
        CHECK_EQ(io_join(task), 0);
        free(found);
    }
    return 0;
}
API_TEST(http_long_answer, "", .sched = "sim") { io_run(long_answer, NULL); }

/* -- Messages of a WebSocket ----------------------------------------------------------------------------------------- */

static int send_long(weft_http *x, void *arg) {
    int *result = arg;
    char *bytes = malloc(LONG);
    REQUIRE(bytes);
    io_fill(bytes, LONG, 0);
    REQUIRE_EQ(weft_ws_accept(x), 0);
    *result = weft_ws_write(x, WEFT_WS_BINARY, bytes, LONG);
    CHECK_EQ(weft_ws_write(x, WEFT_WS_TEXT, "end", 3), *result ? -EPIPE : 0);
    free(bytes);
    return 0;
}

static int send_long_main(void *arg) {
    weft_http_options options = WEFT_HTTP_OPTIONS_INIT;
    options.body_timeout = (1000 * MS);
    CHECK_EQ(weft_http_serve(long_listener, &options, send_long, arg), -EBADF);
    return 0;
}

/* A client that takes 40 KB in half of body_timeout gets a message that takes 50 times body_timeout; one that stops reading does not. */
static int long_message(void *unused) {
    (void)unused;
    REQUIRE_EQ(weft_sim_net_open(NULL), 0);
    for (int stops = 0; stops < 2; stops++) {
        weft_addr addr;
        weft_io *io;
        weft_http_client *client;
        weft_http *ws;
        int result = 1;
        size_t got = 0, room = LONG;
        char *bytes = malloc(room);
        ssize_t n;
        REQUIRE(bytes);
        REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &long_listener), 0);
        REQUIRE_EQ(weft_local_addr(long_listener, &addr), 0);
        weft_task *task = io_go(NULL, send_long_main, &result);
        REQUIRE_EQ(weft_connect(&addr, &io, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
        CHECK_EQ(weft_ws_open(client, "/", NULL, WEFT_NEVER, &ws), 0);
        int64_t began = weft_now();
        while (got <
               (stops ? LONG / 2 : LONG - 70000)) { /* the frame as it comes; some of it is in the client's buffer */
            n = weft_read(io, bytes, 40000, WEFT_NEVER);
            REQUIRE_GT(n, 0);
            got += (size_t)n;
            CHECK_EQ(weft_sleep(500 * MS * n / 40000), 0);
        }
        CHECK_GT(weft_now() - began, (stops ? 25 : 50) * 1000 * MS);
        if (stops)
            CHECK_EQ(weft_sleep(5000 * MS), 0);
        while ((n = weft_read(io, bytes, 40000, WEFT_NEVER)) > 0)
            ;
        CHECK_EQ(result, stops ? -ETIMEDOUT : 0);
        weft_http_client_close(client);
        weft_close(io);
        weft_close(long_listener);
        CHECK_EQ(io_join(task), 0);
        free(bytes);
    }
    return 0;
}
API_TEST(http_ws_long_message, "", .sched = "sim") { io_run(long_message, NULL); }

/* -- Bodies of requests ---------------------------------------------------------------------------------------------- */

struct slow_body {
    ssize_t result;
    int64_t took, total;
    int64_t thinks; /* ns that the handler takes before each read */
};

static int read_slow_body(weft_http *x, void *arg) {
    struct slow_body *slow = arg;
    char bytes[100];
    int64_t began = weft_now();
    do {
        CHECK_EQ(weft_sleep(slow->thinks), 0);
        slow->result = weft_http_read(x, bytes, sizeof bytes);
    } while (slow->result > 0);
    slow->took = weft_now() - began;
    return slow->result < 0 ? (int)slow->result : weft_http_reply(x, 200, NULL, "ok", 2);
}

static int read_slow_main(void *arg) {
    struct slow_body *slow = arg;
    weft_http_options options = WEFT_HTTP_OPTIONS_INIT;
    options.body_timeout = 5000 * MS;
    options.body_total_timeout = slow->total;
    CHECK_EQ(weft_http_serve(long_listener, &options, read_slow_body, arg), -EBADF);
    return 0;
}

/* A client that sends a byte a second is cut off after body_total_timeout, although no read takes body_timeout. What the handler takes itself
 * does not count, and by default a body may take 5 minutes. */
static int slow_bodies(void *unused) {
    (void)unused;
    struct slow_body cases[] = {{.total = 20000 * MS}, {.total = 20000 * MS, .thinks = 1500 * MS}, {.total = 0}};
    static const int bytes[] = {100, 100, 400}, statuses[] = {408, 200, 408}, most[] = {22, 110, 302},
                     least[] = {20, 100, 300};
    REQUIRE_EQ(weft_sim_net_open(NULL), 0);
    for (int i = 0; i < 3; i++) {
        weft_addr addr;
        weft_io *io;
        weft_http_client *client;
        REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &long_listener), 0);
        REQUIRE_EQ(weft_local_addr(long_listener, &addr), 0);
        weft_task *task = io_go(NULL, read_slow_main, &cases[i]);
        REQUIRE_EQ(weft_connect(&addr, &io, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_http_client_open(io, "h", &client), 0);
        REQUIRE_EQ(weft_http_ask_begin(client, "POST", "/", NULL, bytes[i], WEFT_NEVER), 0);
        for (int k = 0; k < bytes[i] && weft_http_ask_write(client, "a", 1, WEFT_NEVER) == 1; k++)
            CHECK_EQ(weft_sleep(1000 * MS), 0);
        CHECK_EQ(weft_http_ask_end(client, WEFT_NEVER), statuses[i]);
        CHECK_EQ(cases[i].result, statuses[i] == 200 ? 0 : -ETIMEDOUT);
        CHECK_GE(cases[i].took, least[i] * 1000 * MS);
        CHECK_LE(cases[i].took, most[i] * 1000 * MS);
        weft_http_client_close(client);
        weft_close(io);
        weft_close(long_listener);
        CHECK_EQ(io_join(task), 0);
    }
    return 0;
}
API_TEST(http_slow_bodies, "", .sched = "sim") { io_run(slow_bodies, NULL); }
