/* http_fixture.h - a server to talk to, and a client that says and hears exact bytes. */
#ifndef WEFT_TEST_HTTP_FIXTURE_H
#define WEFT_TEST_HTTP_FIXTURE_H

#include <weft/http.h>

#include "io_fixture.h"

#define MS INT64_C(1000000)
#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define HELLO "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/plain\r\n\r\nhello\n"
#define HELLO_LAST                                                                                                     \
    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nhello\n"
#define REFUSED(status, reason)                                                                                        \
    "HTTP/1.1 " #status " " reason                                                                                     \
    "\r\nContent-Length: 4\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n" #status "\n"

struct site {
    weft_http_options options;
    weft_http_handler handler;
    void *arg;
    weft_io *listener;
    weft_addr addr;
    weft_task *task;
    int result;
    /* Of the handlers. */
    atomic_uint entered, left;
    atomic_int error;
    atomic_bool release;
};

/* Answers without a date: they can be compared. */
#define SITE(handler_) {.options = {.size = sizeof(weft_http_options), .no_date = true}, .handler = handler_}

static inline int site_main(void *arg) {
    struct site *site = arg;
    site->result = weft_http_serve(site->listener, &site->options, site->handler, site);
    return 0;
}

static inline void site_open(struct site *site) {
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &site->listener), 0);
    REQUIRE_EQ(weft_local_addr(site->listener, &site->addr), 0);
    site->task = io_go(NULL, site_main, site);
}

/* Sockets of this process that are open. */
static inline unsigned site_sockets(void) {
    unsigned count = 0;
    char path[300], to[64];
    DIR *fds = opendir("/proc/self/fd");
    REQUIRE(fds);
    for (struct dirent *entry; (entry = readdir(fds));) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t n = readlink(path, to, sizeof to - 1);
        count += n > 7 && memcmp(to, "socket:", 7) == 0;
    }
    closedir(fds);
    return count;
}

/* Cancel the server; it must end, and have closed everything. */
static inline void site_close(struct site *site) {
    (void)weft_task_cancel(site->task);
    CHECK_EQ(io_join(site->task), 0);
    CHECK_EQ(site->result, -ECANCELED);
    CHECK_EQ(weft_close(site->listener), 0);
    CHECK_EQ(site_sockets(), 0);
}

static inline weft_io *dial(struct site *site) {
    weft_io *io;
    REQUIRE_EQ(weft_connect(&site->addr, &io, fixture_soon()), 0);
    return io;
}

static inline void say(weft_io *io, const char *text) {
    REQUIRE_EQ(weft_write(io, text, strlen(text), fixture_soon()), strlen(text));
}

/* Exactly this comes next. */
#define hear(io, text) hear_at(__LINE__, io, text)
static inline void hear_at(int line, weft_io *io, const char *text) {
    char found[2048];
    size_t size = strlen(text), got = 0;
    REQUIRE_LT(size, sizeof found);
    while (got < size) {
        ssize_t n = weft_read(io, found + got, size - got, fixture_soon());
        if (n <= 0)
            harness_fail(__FILE__, line, "expected \"%s\", found \"%.*s\" and then %zd", text, (int)got, found, n);
        got += (size_t)n;
    }
    found[got] = 0;
    if (memcmp(found, text, size))
        harness_fail(__FILE__, line, "expected \"%s\", found \"%s\"", text, found);
}

/* And nothing more; then close our side. */
#define hear_end(io) hear_end_at(__LINE__, io)
static inline void hear_end_at(int line, weft_io *io) {
    char found[64];
    ssize_t n = weft_read(io, found, sizeof found - 1, fixture_soon());
    if (n != 0)
        harness_fail(__FILE__, line, "expected the end, found %zd, \"%.*s\"", n, n > 0 ? (int)n : 0, found);
    CHECK_EQ(weft_close(io), 0);
}

#define ask_once(site, request, answer) ask_once_at(__LINE__, site, request, answer)
static inline void ask_once_at(int line, struct site *site, const char *request, const char *answer) {
    weft_io *io = dial(site);
    say(io, request);
    hear_at(line, io, answer);
    hear_end_at(line, io);
}

/* -- Handlers ---------------------------------------------------------------------------------------------- */

/* In a fiber, also one that is cancelled and shielded: until somebody else has made it true. */
#define UNTIL(claim)                                                                                                   \
    do {                                                                                                               \
        weft_deadline until_ = fixture_soon();                                                                         \
        bool true_; /* asked once a turn: it may be true for a moment only */                                          \
        while (!(true_ = (claim)) && weft_now() < until_)                                                              \
            if (weft_sleep(MS) < 0)                                                                                    \
                break;                                                                                                 \
        if (!true_)                                                                                                    \
            REQUIRE(claim);                                                                                            \
    } while (0)

static inline int serve_path(weft_http *x, struct site *site, weft_text path) {
    void *all;
    char buffer[3000];
    ssize_t n;
    if (weft_text_is(path, "/hello"))
        return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
    if (weft_text_is(path, "/error"))
        return -EIO;
    if (weft_text_is(path, "/half")) {
        CHECK_EQ(weft_http_begin(x, 200, -1), 0);
        CHECK_EQ(weft_http_write(x, "abc", 3), 3);
        return -EIO;
    }
    if (weft_text_is(path, "/positive")) { /* what the last call returned */
        CHECK_EQ(weft_http_begin(x, 200, -1), 0);
        return (int)weft_http_write(x, "abc", 3);
    }
    if (weft_text_is(path, "/short")) {
        CHECK_EQ(weft_http_begin(x, 200, 10), 0);
        CHECK_EQ(weft_http_write(x, "abc", 3), 3);
        return 0;
    }
    if (weft_text_is(path, "/long")) {
        CHECK_EQ(weft_http_begin(x, 200, 2), 0);
        CHECK_EQ(weft_http_write(x, "abc", 3), -EMSGSIZE);
        CHECK_EQ(weft_http_write(x, "ab", 2), 2);
        CHECK_EQ(weft_http_end(x), 0);
        CHECK_EQ(weft_http_end(x), -EINVAL);
        CHECK_EQ(weft_http_begin(x, 200, 2), -EINVAL);
        return 0;
    }
    if (weft_text_is(path, "/echo")) { /* as a whole */
        n = weft_http_read_all(x, &all);
        site->error = n < 0 ? (int)n : 0;
        return n < 0 ? (int)n : weft_http_reply(x, 200, NULL, all, (size_t)n);
    }
    if (weft_text_is(path, "/stream")) { /* piece by piece */
        CHECK_EQ(weft_http_begin(x, 200, -1), 0);
        while ((n = weft_http_read(x, buffer, sizeof buffer)) > 0)
            if ((n = weft_http_write(x, buffer, (size_t)n)) < 0)
                break;
        site->error = n < 0 ? (int)n : 0;
        return n < 0 ? (int)n : 0;
    }
    if (weft_text_is(path, "/wait")) {
        int error = 0;
        while (!error && !site->release)
            error = weft_sleep(MS);
        site->error = error;
        return error ? error : weft_http_reply(x, 200, NULL, "waited", 6);
    }
    return 0;
}

static inline int serve_site(weft_http *x, void *arg) {
    struct site *site = arg;
    site->entered++;
    int result = serve_path(x, site, weft_http_path(x));
    site->left++;
    return result;
}

/* What is left of the answer is exactly this: read in small pieces. */
#define answer_is(client, text) answer_is_at(__FILE__, __LINE__, client, text)
static inline void answer_is_at(const char *file, int line, weft_http_client *client, const char *text) {
    char found[1000];
    size_t got = 0, piece = 7;
    ssize_t n = 1;
    while (got + piece < sizeof found && (n = weft_http_answer_read(client, found + got, piece, fixture_soon())) > 0)
        got += (size_t)n;
    found[got] = 0;
    if (n || strcmp(found, text))
        harness_fail(file, line, "expected \"%s\", found \"%s\" and %zd", text, found, n);
}

/* A listener for one whose server is played by the test itself. */
static inline weft_io *listen_here(char url[100]) {
    weft_io *listener;
    weft_addr addr;
    char at[64];
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    weft_addr_format(&addr, at, sizeof at);
    snprintf(url, 100, "http://%s/", at);
    return listener;
}

/* The next connection, whose first bytes have been read. */
static inline weft_io *next_request(weft_io *listener) {
    weft_io *io;
    char head[400];
    int error = weft_accept(listener, &io, NULL, fixture_soon());
    REQUIRE_EQ(error, 0);
    REQUIRE_GT(weft_read(io, head, sizeof head, fixture_soon()), 0);
    return io;
}

#endif
