/* http_malformed.c - requests that must be refused, each by a server that then closes, with another request right behind it that must not be
 * served: whoever sees the end of the first one elsewhere could slip it in. */
#include "http_fixture.h"

#define G "GET /hello HTTP/1.1\r\n"
#define P "POST /echo HTTP/1.1\r\n"
#define H "Host: h\r\n"
#define E "\r\n"
#define CHUNKED P H "Transfer-Encoding: chunked\r\n\r\n"
#define T(text) text, sizeof(text) - 1
#define A100 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct given {
    const char *bytes;
    size_t size;
    int status;
} given[] = {
    /* Two lengths, or one that is none. */
    {T(P H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Content-Length: 0\r\ntransfer-encoding: CHUNKED\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5\r\ncontent-length: 0\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5, 5\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5,5\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5, 6\r\n\r\nhello"), 400},
    {T(P H "Content-Length: ,5\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5,\r\n\r\nhello"), 400},
    {T(P H "Content-Length: +5\r\n\r\nhello"), 400},
    {T(P H "Content-Length: -5\r\n\r\nhello"), 400},
    {T(P H "Content-Length: -0\r\n\r\n"), 400},
    {T(P H "Content-Length: 0x5\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 0b1\r\n\r\nh"), 400},
    {T(P H "Content-Length: 5_0\r\n\r\nhello"), 400},
    {T(P H "Content-Length: _5\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5 0\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5\t0\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5.0\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5e0\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5;\r\n\r\nhello"), 400},
    {T(P H "Content-Length: \"5\"\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5h\r\n\r\nhello"), 400},
    {T(P H "Content-Length: five\r\n\r\nhello"), 400},
    {T(P H "Content-Length:\r\n\r\n"), 400},
    {T(P H "Content-Length: \r\n\r\n"), 400},
    {T(P H "Content-Length: \xd9\xa5\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5\0\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 18446744073709551621\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 4294967301000000000000\r\n\r\nhello"), 400},
    {T(P H "Content-Length : 5\r\n\r\nhello"), 400},
    {T(P H "Content-Length\t: 5\r\n\r\nhello"), 400},
    {T(P H " Content-Length: 5\r\n\r\nhello"), 400},
    {T(P H "Content-Length:\r\n 5\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 5\n\r\nhello"), 400},
    {T(P H "Content-Length: 5\r\r\n\r\nhello"), 400},
    {T(P H "Content-Length: 2000000\r\n\r\n"), 413},
    /* Codings other than exactly one. */
    {T(P H "Transfer-Encoding: gzip\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: identity\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 501},
    {T(P H "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunked;\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: 'chunked'\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding:\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: \x0b"
           "chunked\r\n\r\n0\r\n\r\n"),
     400},
    {T(P H "Transfer-Encoding: chunked\x0c\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding\r\n: chunked\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "Transfer-Encoding:\n chunked\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {T(P H "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {T("POST /echo HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {T("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), 400},
    /* Chunks. */
    {T(CHUNKED "+5\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "-5\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "0x5\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5_\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED " 5\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5 \r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5\t\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "g\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5,\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5.0\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "\"5\"\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5\0\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "10000000000000005\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "ffffffffffffffff\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "fffffffffffffff\r\nhello\r\n0\r\n\r\n"), 413},
    {T(CHUNKED "5\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5\rhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5\r\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5;\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5 a\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5;a \r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5;a=\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5;a=\"b\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5;;a\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "0 \r\n\r\n"), 400},
    {T(CHUNKED "5;a\nb\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5;a\rb\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5;a\0b\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5;" A100 A100 A100 "\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5\r\nhello0\r\n\r\n"), 400},
    {T(CHUNKED "5\r\nhello\n0\r\n\r\n"), 400},
    {T(CHUNKED "5\r\nhello\r0\r\n\r\n"), 400},
    {T(CHUNKED "5\r\nhello!\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "4\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "6\r\nhello\r\n0\r\n\r\n"), 400},
    {T(CHUNKED "5\r\nhello\r\n\r\n"), 400},
    {T(CHUNKED "5\r\nhello\r\n0\n\n"), 400},
    {T(CHUNKED "5\r\nhello\r\n0\r\n\n"), 400},
    {T(CHUNKED "5\r\nhello\r\n0\r\n\rX"), 400},
    {T(CHUNKED "5\r\nhello\r\n-0\r\n\r\n"), 400},
    /* Trailers. */
    {T(CHUNKED "0\r\nA\r\n\r\n"), 400},
    {T(CHUNKED "0\r\nA : b\r\n\r\n"), 400},
    {T(CHUNKED "0\r\n A: b\r\n\r\n"), 400},
    {T(CHUNKED "0\r\nA: b\r\n c\r\n\r\n"), 400},
    {T(CHUNKED "0\r\nA: b\n\r\n"), 400},
    {T(CHUNKED "0\r\nA: \0\r\n\r\n"), 400},
    {T(CHUNKED "0\r\n: b\r\n\r\n"), 400},
    /* Line ends, NUL, folding, spaces. */
    {T("GET /hello HTTP/1.1\n" H E), 400},
    {T("GET /hello HTTP/1.1\r" H E), 400},
    {T("\nGET /hello HTTP/1.1\r\n" H E), 400},
    {T("\r\n\r\n" G H E), 400},
    {T("\rGET /hello HTTP/1.1\r\n" H E), 400},
    {T(" " G H E), 400},
    {T(G "Host: h\n" E), 400},
    {T(G "Host: h\r" E), 400},
    {T(G H "\n"), 400},
    {T(G H "A: b\n\n"), 400},
    {T(G H "A: b\rc\r\n" E), 400},
    {T(G H "A: b\0c\r\n" E), 400},
    {T(G H "A\0b: c\r\n" E), 400},
    {T("GET /he\0llo HTTP/1.1\r\n" H E), 400},
    {T("G\0T /hello HTTP/1.1\r\n" H E), 400},
    {T(G H "A: b\r\n c\r\n" E), 400},
    {T(G H "A: b\r\n\tc\r\n" E), 400},
    {T(G " " H E), 400},
    {T(G H "A : b\r\n" E), 400},
    {T(G H "A\t: b\r\n" E), 400},
    {T(G H "A b: c\r\n" E), 400},
    {T(G H "A\r\n" E), 400},
    {T(G H ": b\r\n" E), 400},
    {T(G H "\xc3\xa4: b\r\n" E), 400},
    {T(G H "A: b\x7f\r\n" E), 400},
    {T(G H "A: b\x08\r\n" E), 400},
    /* Hosts. */
    {T(G E), 400},
    {T(G H H E), 400},
    {T(G H "host: other\r\n" E), 400},
    {T(G "Host: h, other\r\n" E), 400},
    {T(G "Host: h other\r\n" E), 400},
    {T(G "Host: u@h\r\n" E), 400},
    {T(G "Host: h/x\r\n" E), 400},
    {T(G "Host: h\r\n other\r\n" E), 400},
    {T(G "Host : h\r\n" E), 400},
    {T(G "Host: h:80:80\r\n" E), 400},
    {T(G "Host: h:port\r\n" E), 400},
    {T(G "Host: :80\r\n" E), 400},
    {T(G "Host: h%\r\n" E), 400},
    {T(G "Host: [::1\r\n" E), 400},
    {T(G "Host: [::1]h\r\n" E), 400},
    {T("GET http://h/hello HTTP/1.1\r\n" H "Host: other\r\n" E), 400},
    {T("GET http://h:p/hello HTTP/1.1\r\n" H E), 400},
    {T("GET http://u@h/hello HTTP/1.1\r\n" H E), 400},
    {T("GET http:///hello HTTP/1.1\r\n" H E), 400},
    {T("GET http://h/hello HTTP/1.1\r\n" E), 400},
    /* Request lines. */
    {T("GET /hello\r\n" H E), 400},
    {T("GET\r\n\r\n"), 400},
    {T("GET /hello HTTP/1.1 x\r\n" H E), 400},
    {T("GET  /hello HTTP/1.1\r\n" H E), 400},
    {T("GET /hello  HTTP/1.1\r\n" H E), 400},
    {T("GET\t/hello\tHTTP/1.1\r\n" H E), 400},
    {T("GET /he llo HTTP/1.1\r\n" H E), 400},
    {T("GET hello HTTP/1.1\r\n" H E), 400},
    {T("GET /hello#x HTTP/1.1\r\n" H E), 400},
    {T("GET /h\xc3\xa4llo HTTP/1.1\r\n" H E), 400},
    {T("GET * HTTP/1.1\r\n" H E), 400},
    {T("G\"T /hello HTTP/1.1\r\n" H E), 400},
    {T("/hello HTTP/1.1\r\n" H E), 400},
    {T("CONNECT /hello HTTP/1.1\r\n" H E), 400},
    {T("CONNECT h HTTP/1.1\r\n" H E), 400},
    {T("GET /hello HTTP/1.1x\r\n" H E), 400},
    {T("GET /hello HTTP/1\r\n" H E), 400},
    {T("GET /hello HTTP/01.1\r\n" H E), 400},
    {T("GET /hello HTTP/1.01\r\n" H E), 400},
    {T("GET /hello http/1.1\r\n" H E), 400},
    {T("GET /hello HTTP /1.1\r\n" H E), 400},
    {T("GET /hello HTTP/0.9\r\n" H E), 505},
    {T("GET /hello HTTP/3.0\r\n" H E), 505},
    {T("GET /hello HTTP/1.2\r\n" E), 400},
    {T("POST /echo HTTP/1.2\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {T("GET /hello HTTP/2.0\r\n" H E), 505},
    {T("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505},
    {T("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"), 400}, /* TLS */
    {T(P H "Expect: 200-ok\r\nContent-Length: 0\r\n" E), 417},
};
enum { CASES = sizeof given / sizeof *given };

static int serve_or_slip(weft_http *x, void *arg) {
    struct site *site = arg;
    if (weft_text_is(weft_http_path(x), "/slip"))
        site->release = true; /* it got through */
    return serve_site(x, arg);
}

/* The answer's status; all of it is read to the end of the connection. */
static int status_of(struct site *site, const struct given *one) {
    char found[1024];
    size_t size = 0;
    ssize_t n;
    weft_io *io = dial(site);
    REQUIRE_EQ(weft_write(io, one->bytes, one->size, fixture_soon()), one->size);
    say(io, GET("/slip"));
    while (size < sizeof found - 1 && (n = weft_read(io, found + size, sizeof found - 1 - size, fixture_soon())) > 0)
        size += (size_t)n;
    found[size] = 0;
    CHECK_EQ(weft_close(io), 0);
    if (!strstr(found, "Connection: close") || (strstr(found + 1, "HTTP/1.1 ")))
        harness_note(__FILE__, __LINE__, "case %d: expected one answer and a close, found \"%s\"", (int)(one - given),
                     found);
    return size > 12 && !memcmp(found, "HTTP/1.1 ", 9) ? atoi(found + 9) : -1;
}

static int refuse_all(void *unused) {
    (void)unused;
    struct site site = SITE(serve_or_slip);
    site_open(&site);
    for (int i = 0; i < CASES; i++) {
        int status = status_of(&site, &given[i]);
        if (status != given[i].status || site.release)
            harness_note(__FILE__, __LINE__, "case %d, \"%.100s\": expected %d, found %d%s", i, given[i].bytes,
                         given[i].status, status, site.release ? ", and the next request got through" : "");
        site.release = false;
    }
    ask_once(&site, "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", HELLO_LAST); /* it goes on */
    site_close(&site);
    return 0;
}
_Static_assert(CASES >= 120, "at least so many");
API_TEST(http_malformed, "", .workers = {1, 2}, .timeout = 60) { io_run(refuse_all, NULL); }

/* What looks odd, and has one meaning only: it is served, and so is what follows. */
static const struct odd {
    const char *says, *hears;
} odd[] = {
    {"GET /hello HTTP/1.2\r\n" H E, HELLO}, /* RFC 9110, 2.5: as HTTP/1.1 */
    {"GET /hello HTTP/1.9\r\n" H E, HELLO},
    {"\r\n" G H E, HELLO},
    {"GET http://h/hello HTTP/1.1\r\n" H E, HELLO},
    {"GET HTTP://other:1/hello HTTP/1.1\r\n" H E, HELLO}, /* RFC 9112, 3.2.2: the target is right */
    {"GET /host HTTP/1.1\r\n" H E, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nh"},
    {"GET http://other:1/host HTTP/1.1\r\n" H E, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nother:1"},
    {CHUNKED "5 ;a\r\nhello\r\n0 ; b = \"c\"\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
    {CHUNKED "005\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
    {P H "Content-Length: 005\r\n\r\nhello", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
    {P H "Transfer-Encoding:\tCHUNKED \r\n\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
};

static int serve_odd(weft_http *x, void *arg) {
    if (!weft_text_is(weft_http_path(x), "/host"))
        return serve_site(x, arg);
    weft_text host = weft_http_field(x, "Host");
    return weft_http_reply(x, 200, NULL, host.at, host.size);
}

static int serve_all(void *unused) {
    (void)unused;
    struct site site = SITE(serve_odd);
    site_open(&site);
    weft_io *io = dial(&site);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        say(io, odd[i].says);
        hear(io, odd[i].hears);
    }
    CHECK_EQ(weft_close(io), 0);
    site_close(&site);
    return 0;
}
API_TEST(http_odd, "", .workers = {1, 2}) { io_run(serve_all, NULL); }

/* Behind an answer to CONNECT is a tunnel, to whoever is between: no request is taken out of it. */
static int serve_any(weft_http *x, void *arg) {
    struct site *site = arg;
    site->entered++;
    return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
}

static int connect_once(void *unused) {
    (void)unused;
    struct site site = SITE(serve_any);
    site_open(&site);
    ask_once(&site, "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n" GET("/slip"), HELLO_LAST);
    CHECK_EQ(site.entered, 1);
    site_close(&site);
    return 0;
}
API_TEST(http_connect_is_the_last, "", .workers = {1}) { io_run(connect_once, NULL); }
