/* http_long.c - an answer that takes longer than body_timeout, to clients that are slow and to ones that are too slow; in virtual time. */
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
