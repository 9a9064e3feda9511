/* http_parse.c - heads of requests: what is accepted, what is refused and what it means (http_parse_answer.c has the rest). */
#include "http_parse.h"

static const struct given request_lines[] = {
    {T(G H E), OK},
    {T("\r\n" G H E), OK}, /* one empty line before it */
    {T("\r\n\r\n" G H E), -400},
    {T("\n" G H E), -400},
    {T("\r" G H E), -400},
    {T(" " G H E), -400},
    {T(""), MORE},
    {T("G"), MORE},
    {T("\r\n"), MORE},
    {T("GET / HTTP/1.1"), MORE},
    {T("GET / HTTP/1.1\r"), MORE},
    {T(G), MORE},
    {T(G H), MORE},
    {T(G H "\r"), MORE},
    {T("M-SEARCH /a HTTP/1.1\r\n" H E), OK},
    {T("get / HTTP/1.1\r\n" H E), OK}, /* another method: the handler's business */
    {T("GET  / HTTP/1.1\r\n" H E), -400},
    {T("GET /  HTTP/1.1\r\n" H E), -400},
    {T("GET / HTTP/1.1 \r\n" H E), -400},
    {T("GET\t/ HTTP/1.1\r\n" H E), -400},
    {T("GET /\tHTTP/1.1\r\n" H E), -400},
    {T("GET / \r\n" H E), -400},
    {T("GET /\r\n" H E), -400}, /* HTTP/0.9 */
    {T("GET\r\n" H E), -400},
    {T(" / HTTP/1.1\r\n" H E), -400},
    {T("G(T / HTTP/1.1\r\n" H E), -400},
    {T("G\xc3T / HTTP/1.1\r\n" H E), -400},
    {T("G\0T / HTTP/1.1\r\n" H E), -400},
    {T("GET / HTTP/1.1\n" H E), -400},
    {T("GET / HTTP/1.1\r" H E), -400},
    {T("GET / HTTP/1.1\r\r\n" H E), -400},
    {T("GET /\rX HTTP/1.1\r\n" H E), -400},
    /* Versions. */
    {T("GET / HTTP/1.0\r\n\r\n"), OK}, /* without a host */
    {T("GET / HTTP/1.2\r\n" H E), OK}, /* as 1.1 */
    {T("GET / HTTP/1.9\r\n" H E), OK},
    {T("GET / HTTP/1.2\r\n" E), -400}, /* without a host, too */
    {T("GET / HTTP/3.1\r\n" H E), -505},
    {T("GET / HTTP/0.1\r\n" H E), -505},
    {T("GET / HTTP/1.1\r"), MORE},
    {T("GET / HTT\rP"), -400},
    {T("GET / HTTP/1\r\n"), -400},
    {T("GET / HTTP/2.0\r\n" H E), -505},
    {T("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), -505},
    {T("GET / HTTP/0.9\r\n" H E), -505},
    {T("GET / HTTP/9.9\r\n" H E), -505},
    {T("GET / HTTP/11.1\r\n" H E), -400},
    {T("GET / HTTP/1.10\r\n" H E), -400},
    {T("GET / HTTP/1\r\n" H E), -400},
    {T("GET / HTTP/1,1\r\n" H E), -400},
    {T("GET / HTTP/1.\r\n" H E), -400},
    {T("GET / HTTP/+.1\r\n" H E), -400},
    {T("GET / http/1.1\r\n" H E), -400},
    {T("GET / HTPP/1.1\r\n" H E), -400},
    {T("GET / HTTP/1.1x\r\n" H E), -400},
    /* Targets. */
    {T("GET /a/b?c=d&e#f HTTP/1.1\r\n" H E), -400},
    {T("GET /# HTTP/1.1\r\n" H E), -400},
    {T("GET /a%20b?x=\"y\" HTTP/1.1\r\n" H E), OK},
    {T("GET //a HTTP/1.1\r\n" H E), OK},
    {T("GET a HTTP/1.1\r\n" H E), -400},
    {T("GET ?a HTTP/1.1\r\n" H E), -400},
    {T("GET * HTTP/1.1\r\n" H E), -400},
    {T("OPTIONS * HTTP/1.1\r\n" H E), OK},
    {T("OPTIONS ** HTTP/1.1\r\n" H E), -400},
    {T("GET http://a/b HTTP/1.1\r\n" H E), OK},
    {T("GET HTTPS://a:1/b HTTP/1.1\r\nHost: a:1\r\n" E), OK},
    {T("GET http://A/b HTTP/1.1\r\n" H E), OK},
    {T("GET http://b/b HTTP/1.1\r\n" H E), OK}, /* another host than Host: the target is right */
    {T("GET http://a:1/b HTTP/1.1\r\n" H E), OK},
    {T("GET http://a/ HTTP/1.1\r\nHost:\r\n" E), OK},
    {T("GET http://b/b HTTP/1.1\r\n" E), -400}, /* ... but one Host must be there, and be one */
    {T("GET http://b/b HTTP/1.1\r\n" H H E), -400},
    {T("GET http://b/b HTTP/1.1\r\nHost: a/b\r\n" E), -400},
    {T("GET http://a:b/ HTTP/1.1\r\n" H E), -400},
    {T("GET http://[a/ HTTP/1.1\r\n" H E), -400},
    {T("GET http://a%2/ HTTP/1.1\r\n" H E), -400},
    {T("GET http://a HTTP/1.1\r\n" H E), OK},
    {T("GET http://a?b HTTP/1.1\r\n" H E), OK},
    {T("GET http://[::1]:80/ HTTP/1.1\r\nHost: [::1]:80\r\n" E), OK},
    {T("GET http:///b HTTP/1.1\r\n" H E), -400},
    {T("GET http://:80/b HTTP/1.1\r\n" H E), -400},
    {T("GET http://u@a/b HTTP/1.1\r\n" H E), -400},
    {T("GET http:// HTTP/1.1\r\n" H E), -400},
    {T("GET http:/a HTTP/1.1\r\n" H E), -400},
    {T("GET http HTTP/1.1\r\n" H E), -400},
    {T("GET httpss://a/ HTTP/1.1\r\n" H E), -400},
    {T("GET a HTTP/1.0\r\n" E), -400},
    {T("GET ftp://a/ HTTP/1.1\r\n" H E), -400},
    {T("GET file:///etc HTTP/1.1\r\n" H E), -400},
    {T("CONNECT a:443 HTTP/1.1\r\n" H E), OK},
    {T("CONNECT a:1 HTTP/1.1\r\n" H E), OK},
    {T("CONNECT a:65535 HTTP/1.1\r\n" H E), OK},
    {T("CONNECT 1 HTTP/1.1\r\n" H E), -400},
    {T("CONNECT a1 HTTP/1.1\r\n" H E), -400},
    {T("CONNECT u@a:1 HTTP/1.1\r\n" H E), -400},
    {T("CONNECT a HTTP/1.1\r\n" H E), -400},
    {T("CONNECT a: HTTP/1.1\r\n" H E), -400},
    {T("CONNECT :1 HTTP/1.1\r\n" H E), -400},
    {T("CONNECT a:123456 HTTP/1.1\r\n" H E), -400},
    {T("CONNECT / HTTP/1.1\r\n" H E), -400},
    {T("CONNECT http://a/ HTTP/1.1\r\n" H E), -400},
    {T("GET a:443 HTTP/1.1\r\n" H E), -400},
    {T("GET /\x01 HTTP/1.1\r\n" H E), -400},
    {T("GET /\x7f HTTP/1.1\r\n" H E), -400},
    {T("GET /\xc3\xa4 HTTP/1.1\r\n" H E), -400},
    {T("GET /\0 HTTP/1.1\r\n" H E), -400},
};

static const struct given request_fields[] = {
    {T(G "HOST:a\r\n" E), OK},
    {T(G "Host:\t a \t\r\n" E), OK},
    {T(G H "A:\r\n" E), OK},
    {T(G H "A: \r\n" E), OK},
    {T(G H "A: b: c\r\n" E), OK},
    {T(G H "A: \xc3\xa4\tb\r\n" E), OK},
    {T(G H "!#$%&'*+-.^_`|~09azAZ: b\r\n" E), OK},
    {T(G H ": b\r\n" E), -400},
    {T(G H "A\r\n" E), -400},
    {T(G H "A : b\r\n" E), -400},
    {T(G H "A\t: b\r\n" E), -400},
    {T(G H " A: b\r\n" E), -400},
    {T(G " " H E), -400},
    {T(G "\t" H E), -400},
    {T(G H "A: b\r\n c\r\n" E), -400}, /* folded */
    {T(G H "A: b\r\n\tc: d\r\n" E), -400},
    {T(G H "A: b\r\n \r\n" E), -400},
    {T(G H "A B: c\r\n" E), -400},
    {T(G H "A(B): c\r\n" E), -400},
    {T(G H "A\xc3: c\r\n" E), -400},
    {T(G H "A: b\n" E), -400},
    {T(G H "A: b\n\n"), -400},
    {T(G H "\n"), -400},
    {T(G H "A: b\rc\r\n" E), -400},
    {T(G H "A: b\r\r\n" E), -400},
    {T(G H "A: b\x01\r\n" E), -400},
    {T(G H "A: b\x0b\r\n" E), -400},
    {T(G H "A: b\x1b[0m\r\n" E), -400},
    {T(G H "A: b\x7f\r\n" E), -400},
    {T(G H "A: b\0c\r\n" E), -400},
    {T(G H "A\0: b\r\n" E), -400},
    /* Host. */
    {T(G E), -400},
    {T(G H H E), -400},
    {T(G H "host: b\r\n" E), -400},
    {T("GET / HTTP/1.0\r\n" H H E), -400},
    {T(G "Host: a, b\r\n" E), -400},
    {T(G "Host: a b\r\n" E), -400},
    {T(G "Host: a\tb\r\n" E), -400},
    {T(G "Host: a/b\r\n" E), -400},
    {T(G "Host: u@a\r\n" E), -400},
    {T(G "Host: a?b\r\n" E), -400},
    {T(G "Host: \xc3\xa4\r\n" E), -400},
    {T(G "Host:\r\n" E), OK},
    {T(G "Host: [::1]:80\r\n" E), OK},
    {T(G "Host: azAZ09-._~%4f!$&'()*+;=\r\n" E), OK},
    {T(G "Host: a:80\r\n" E), OK},
    {T(G "Host: a:\r\n" E), OK},
    {T(G "Host: [1:2::3.4]\r\n" E), -400},
    {T(G "Host: a:80:80\r\n" E), -400},
    {T(G "Host: a:8o\r\n" E), -400},
    {T(G "Host: a:-1\r\n" E), -400},
    {T(G "Host: :80\r\n" E), -400},
    {T(G "Host: a%\r\n" E), -400},
    {T(G "Host: a%4\r\n" E), -400},
    {T(G "Host: a%4g\r\n" E), -400},
    {T(G "Host: [\r\n" E), -400},
    {T(G "Host: []\r\n" E), -400},
    {T(G "Host: [:]\r\n" E), -400},
    {T(G "Host: [::1\r\n" E), -400},
    {T(G "Host: [::1]a\r\n" E), -400},
    {T(G "Host: [::1]:a\r\n" E), -400},
    {T(G "Host: [::g]\r\n" E), -400},
    {T(G "Host: [:::]\r\n" E), -400},
    {T(G "Host: [1.2.3.4]\r\n" E), -400},
    {T(G "Host: [0::0::0]\r\n" E), -400},
    {T(G "Host: [::127.0.0.0.1]\r\n" E), -400},
    {T(G "Host: [0:1:2:3:4:5:6:7:8]\r\n" E), -400},
    {T(G "Host: [::ffff:1.2.3.4]\r\n" E), OK},
    {T(G "Host: [ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535\r\n" E), OK},
    {T(G "Host: a]\r\n" E), -400},
    {T(G "Host: a[::1]\r\n" E), -400},
    {T(G "TRANSFER-ENCODING: GZIP\r\nHOST: a\r\n" E), -400},
    /* Lengths. */
    {T(G H "Content-Length: 0\r\n" E), OK},
    {T(G H "Content-Length: 5\r\n" E), OK},
    {T(G H "Content-Length: 007\r\n" E), OK},
    {T(G H "Content-Length: 999999999999999999\r\n" E), OK},
    {T(G H "Content-Length: 1000000000000000000\r\n" E), -400},
    {T(G H "Content-Length: 18446744073709551616\r\n" E), -400},
    {T(G H "Content-Length: 99999999999999999999999999\r\n" E), -400},
    {T(G H "Content-Length:\r\n" E), -400},
    {T(G H "Content-Length: \r\n" E), -400},
    {T(G H "Content-Length: +5\r\n" E), -400},
    {T(G H "Content-Length: -5\r\n" E), -400},
    {T(G H "Content-Length: -0\r\n" E), -400},
    {T(G H "Content-Length: 5, 5\r\n" E), -400},
    {T(G H "Content-Length: 5,\r\n" E), -400},
    {T(G H "Content-Length: 5 5\r\n" E), -400},
    {T(G H "Content-Length: 5;\r\n" E), -400},
    {T(G H "Content-Length: 0x5\r\n" E), -400},
    {T(G H "Content-Length: 5a\r\n" E), -400},
    {T(G H "Content-Length: 5.0\r\n" E), -400},
    {T(G H "Content-Length: \"5\"\r\n" E), -400},
    {T(G H "Content-Length: \xb2\r\n" E), -400},
    {T(G H "Content-Length: 5\r\nContent-Length: 5\r\n" E), -400},
    {T(G H "Content-Length: 5\r\ncontent-length: 6\r\n" E), -400},
    {T(G H "Content-Length : 5\r\n" E), -400},
    {T(G H "Content-Length: 5\n" E), -400},
    /* Codings. */
    {T(G H "Transfer-Encoding: chunked\r\n" E), OK},
    {T(G H "transfer-encoding: Chunked\r\n" E), OK},
    {T(G H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" E), -400},
    {T(G H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" E), -400},
    {T(G H "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n" E), -400},
    {T("POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n" E), -400},
    {T(G H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" E), -400},
    {T(G H "Transfer-Encoding: chunked, chunked\r\n" E), -400},
    {T(G H "Transfer-Encoding: gzip, chunked\r\n" E), -501},
    {T(G H "Transfer-Encoding: chunked, gzip\r\n" E), -400},
    {T(G H "Transfer-Encoding: gzip\r\n" E), -400},
    {T(G H "Transfer-Encoding: identity\r\n" E), -400},
    {T(G H "Transfer-Encoding:\r\n" E), -400},
    {T(G H "Transfer-Encoding: ,chunked\r\n" E), -400},
    {T(G H "Transfer-Encoding: chunked;q=1\r\n" E), -400},
    {T(G H "Transfer-Encoding: xchunked\r\n" E), -400},
    {T(G H "Transfer-Encoding: \"chunked\"\r\n" E), -400},
    {T(G H "Transfer-Encoding: \x0b"
           "chunked\r\n" E),
     -400},
    {T(G H "Transfer-Encoding : chunked\r\n" E), -400},
    {T(G H "Transfer-Encoding\r\n : chunked\r\n" E), -400},
    {T(G H "Transfer-Encoding:\r\n chunked\r\n" E), -400},
    {T(G H "Content-Length: 5\r\nTransfer-Encoding: gzip\r\n" E), -400},
    /* Expectations. */
    {T(G H "Expect: 100-Continue\r\n" E), OK},
    {T(G H "Expect: 200-ok\r\n" E), -417},
    {T(G H "Expect: 100-continue, x\r\n" E), -417},
    {T("GET / HTTP/1.0\r\nExpect: x\r\n" E), OK}, /* HTTP/1.0 knows none */
};

TEST(http_parse_request_lines, "") { CHECK_ALL(REQUEST, request_lines); }
TEST(http_parse_fields, "") { CHECK_ALL(REQUEST, request_fields); }

/* Exactly at a limit, and one above it. */
TEST(http_parse_limits, "") {
    char text[1024], pad[512];
    memset(pad, 'a', sizeof pad);
    for (int over = 0; over <= 1; over++) {
        snprintf(text, sizeof text, "GET /%.*s HTTP/1.1\r\n" H E, 100 - 14 + over, pad);
        struct given line = {text, strlen(text), over ? -414 : OK};
        check(REQUEST, &line, 1);
        snprintf(text, sizeof text, G H "A: %.*s\r\n" E, 400 - 16 - 9 - 3 - 4 + over, pad);
        struct given whole = {text, strlen(text), over ? -431 : OK};
        check(REQUEST, &whole, 1);
        snprintf(text, sizeof text, "HTTP/1.1 200 %.*s\r\n\r\n", 100 - 13 + over, pad);
        struct given answer = {text, strlen(text), over ? -431 : OK};
        check(ANSWER, &answer, 1);
        snprintf(text, sizeof text, "5;%.*s\r\n", 254 + over, pad);
        struct given chunk = {text, strlen(text), over ? -400 : OK};
        check(CHUNK, &chunk, 1);
        snprintf(text, sizeof text, G H "%s%s" E, "A: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\nA: 5\r\nA: 6\r\nA: 7\r\n",
                 over ? "A: 8\r\n" : "");
        struct given fields = {text, strlen(text), over ? -431 : OK};
        check(REQUEST, &fields, 1);
    }
    memset(pad, '1', sizeof pad); /* without any end */
    CHECK_EQ(parse(REQUEST, pad, sizeof pad), -414);
    CHECK_EQ(parse(ANSWER, pad, sizeof pad), -431);
    CHECK_EQ(parse(CHUNK, pad, sizeof pad), -400);
    CHECK_EQ(parse(TRAILER, pad, sizeof pad), -431);
}

TEST(http_text, "") {
    weft_text none = {NULL, 0}, some = {"aZ", 2};
    CHECK(weft_text_is(none, "") && weft_text_is_nocase(none, "") && !weft_text_is(none, "a") &&
          !weft_text_is_nocase(none, "a"));
    CHECK(weft_text_is(some, "aZ") && !weft_text_is(some, "az") && !weft_text_is(some, "aZb") &&
          !weft_text_is(some, "a"));
    CHECK(weft_text_is_nocase(some, "Az") && !weft_text_is_nocase(some, "Azb") && !weft_text_is_nocase(some, "A"));
    CHECK(!weft_text_is_nocase((weft_text){"[", 1}, "{") && !weft_text_is_nocase((weft_text){"@", 1}, "`"));
}

static void understand(const char *text) {
    int used = wefti_http_parse_request(text, strlen(text), &limits, &head);
    CHECK_EQ(used, strlen(text));
}

TEST(http_parse_meaning, "") {
    understand("POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n");
    CHECK(weft_text_is(head.method, "POST") && weft_text_is(head.target, "/a?b"));
    CHECK_EQ(head.length, 12);
    CHECK(head.keep_alive && head.has_host && !head.expects_continue);
    CHECK_EQ(head.count, 2);
    CHECK(weft_text_is(head.field[0].name, "Host") && weft_text_is(head.field[0].value, "h"));
    understand(G H "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    CHECK_EQ(head.length, WEFTI_HTTP_CHUNKED);
    CHECK(head.expects_continue);
    static const struct {
        const char *text;
        bool keep;
    } keeps[] = {
        {G H "Connection: close\r\n" E, false},
        {G H "Connection: a, CLOSE ,b\r\n" E, false},
        {G H "Connection: closed\r\n" E, true},
        {G H "Connection: close\r\nConnection: keep-alive\r\n" E, false},
        {G H "Connection: keep-alive\r\nConnection: close\r\n" E, false},
        {"GET / HTTP/1.0\r\n" E, false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n" E, true},
        {"GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n" E, false},
        {"GET / HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n" E, false},
    };
    for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++) {
        understand(keeps[i].text);
        if (head.keep_alive != keeps[i].keep)
            harness_note(__FILE__, __LINE__, "keep %zu: found %d", i, head.keep_alive);
    }
    understand("GET / HTTP/1.7\r\n" H "Transfer-Encoding: chunked\r\n" E);
    CHECK_EQ(head.minor, 1);
    CHECK_EQ(head.length, WEFTI_HTTP_CHUNKED);
    CHECK(head.keep_alive);
    understand("GET HTTP://b:8/c HTTP/1.1\r\nA: b\r\nHost: a\r\n" E);
    CHECK(weft_text_is(head.field[1].name, "Host") && weft_text_is(head.field[1].value, "b:8"));
    understand("GET /http://b/c HTTP/1.1\r\n" H E);
    CHECK(weft_text_is(head.field[0].value, "a"));
    understand(G H "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" E);
    CHECK(weft_text_is(head.upgrade, "websocket"));
    understand(G H "Upgrade: websocket\r\n" E);
    CHECK_EQ(head.upgrade.size, 0);
    static const struct {
        const char *target, *path;
    } paths[] = {{"/a?b", "/a"},    {"/", "/"},           {"/?", "/"}, {"http://a/b?c", "/b"},
                 {"http://a", "/"}, {"http://a?/x", "/"}, {"*", "*"},  {"//a", "//a"}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        CHECK(weft_text_is(wefti_http_path((weft_text){paths[i].target, strlen(paths[i].target)}), paths[i].path));
}

/* Bytes at random, and good heads with a byte changed: nothing is read outside (ASan), nothing is half understood. */
TEST(http_parse_random, "") {
    static const char good[] = "\r\nPOST /a?b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n";
    static const char some[] = "\r\n \t:;,0159afHTP/.-+\x01\x7f\xff*#";
    uint64_t random = harness_seed();
    char text[sizeof good];
    for (int i = 0; i < (harness_is_slow() ? 20000 : 200000); i++) {
        size_t size = sizeof good - 1;
        memcpy(text, good, sizeof good);
        for (uint64_t n = harness_random(&random) % 4; n-- > 0;)
            text[harness_random(&random) % size] = some[harness_random(&random) % sizeof some];
        if (harness_random(&random) % 8 == 0)
            for (size_t at = 0; at < size; at++)
                text[at] = some[harness_random(&random) % sizeof some];
        size_t part = harness_random(&random) % (size + 1), from = harness_random(&random) % (part + 1);
        for (int kind = REQUEST; kind <= TRAILER; kind++) {
            int used = parse((enum kind)kind, text + from, part - from);
            REQUIRE(used <= (int)(part - from) && used > -600);
            if (used > 0)
                REQUIRE_EQ(parse((enum kind)kind, text + from, (size_t)used), used);
        }
    }
}
