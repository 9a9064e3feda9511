/* http_parse_answer.c - heads of answers, chunk lines and trailers: what is accepted and what is refused. */
#include "http_parse.h"

static const struct given answers[] = {
    {T("HTTP/1.1 200 OK\r\n\r\n"), OK},
    {T("HTTP/1.0 200 OK\r\n\r\n"), OK},
    {T("HTTP/1.1 200 \r\n\r\n"), OK},
    {T("HTTP/1.1 200\r\n\r\n"), OK},
    {T("HTTP/1.1 404 Not \xc3\xa4 Found\r\nA: b\r\n\r\n"), OK},
    {T("HTTP/1.1 999 x\r\n\r\n"), OK},
    {T("HTTP/1.1 200"), MORE},
    {T("HTTP/1.1 200 OK\r\nA: b\r\n"), MORE},
    {T("HTTP/1.1 099 x\r\n\r\n"), -400},
    {T("HTTP/1.1 20 OK\r\n\r\n"), -400},
    {T("HTTP/1.1 2000 OK\r\n\r\n"), -400},
    {T("HTTP/1.1 +20 OK\r\n\r\n"), -400},
    {T("HTTP/1.1 2x0 OK\r\n\r\n"), -400},
    {T("HTTP/1.1  200 OK\r\n\r\n"), -400},
    {T("HTTP/1.1 200OK\r\n\r\n"), -400},
    {T("HTTP/1.1\t200 OK\r\n\r\n"), -400},
    {T("HTTP/2.0 200 OK\r\n\r\n"), -400},
    {T("HTTP/1.2 200 OK\r\n\r\n"), OK}, /* as 1.1 */
    {T("HTTP/0.9 200 OK\r\n\r\n"), -400},
    {T("http/1.1 200 OK\r\n\r\n"), -400},
    {T("ICY 200 OK abc\r\n\r\n"), -400},
    {T("\r\nHTTP/1.1 200 OK\r\n\r\n"), -400},
    {T("HTTP/1.1 200 O\x01K\r\n\r\n"), -400},
    {T("HTTP/1.1 200 OK\n\n"), -400},
    {T("HTTP/1.1 200 OK\r\nA : b\r\n\r\n"), -400},
    {T("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"), -400},
    {T("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n"), -400},
    {T("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), -400},
    {T("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), -400},
    {T("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"), -400},
    {T("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), -400},
    {T("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), OK},
};
TEST(http_parse_answers, "") { CHECK_ALL(ANSWER, answers); }

static const struct given chunks[] = {
    {T("0\r\n"), OK},
    {T("5\r\n"), OK},
    {T("aF\r\n"), OK},
    {T("005\r\n"), OK},
    {T("fffffffffffffff\r\n"), OK},
    {T("5;a\r\n"), OK},
    {T("5;a=b\r\n"), OK},
    {T("5; a=\"b c\"\r\n"), OK},
    {T("5;a;b=c\r\n"), OK},
    {T("5 ;a\r\n"), OK}, /* spaces that a receiver must bear */
    {T("5\t ; a\t=\tb ;c = \"d\"\r\n"), OK},
    {T("5;a=\"b;c=\\\"d\\\\\"\r\n"), OK},
    {T("5;a=\"\"\r\n"), OK},
    {T(""), MORE},
    {T("5"), MORE},
    {T("5\r"), MORE},
    {T("\r\n"), -400},
    {T("10000000000000000\r\n"), -400},
    {T("ffffffffffffffff\r\n"), -400},
    {T("fffffffffffffffff\r\n"), -400},
    {T("0000000000000000005\r\n"), -400},
    {T("+5\r\n"), -400},
    {T("-5\r\n"), -400},
    {T("0x5\r\n"), -400},
    {T(" 5\r\n"), -400},
    {T("5 \r\n"), -400},
    {T("5 a\r\n"), -400},
    {T("5;a \r\n"), -400},
    {T("5;a b\r\n"), -400},
    {T("5;a=\r\n"), -400},
    {T("5;a=b c\r\n"), -400},
    {T("5;a=b=c\r\n"), -400},
    {T("5;a=\"b\r\n"), -400},
    {T("5;a=\"b\\\"\r\n"), -400},
    {T("5;a=\"b\\\r\n"), -400},
    {T("5;a=\"b\"c\r\n"), -400},
    {T("5;a=\"\x01\"\r\n"), -400},
    {T("5;a,b\r\n"), -400},
    {T("5;;a\r\n"), -400},
    {T("5\t\r\n"), -400},
    {T("5 5\r\n"), -400},
    {T("5,\r\n"), -400},
    {T("5;\r\n"), -400},
    {T("5; \r\n"), -400},
    {T("5;=b\r\n"), -400},
    {T("5;a\x01\r\n"), -400},
    {T("5;a\0\r\n"), -400},
    {T("5\0\r\n"), -400},
    {T("5;a\rb\r\n"), -400},
    {T("5;a\nb\r\n"), -400},
    {T("5\n"), -400},
    {T("5\rX"), -400},
    {T("g\r\n"), -400},
    {T(";a\r\n"), -400},
    {T("\xb2\r\n"), -400},
};
TEST(http_parse_chunks, "") { CHECK_ALL(CHUNK, chunks); }

static const struct given trailers[] = {
    {T("\r\n"), OK},
    {T("A: b\r\n\r\n"), OK},
    {T("A: b\r\nC: d\r\n\r\n"), OK},
    {T("Content-Length: 9\r\n\r\n"), OK}, /* dropped */
    {T(""), MORE},
    {T("\r"), MORE},
    {T("A: b\r\n"), MORE},
    {T("\n"), -400},
    {T("\rX"), -400},
    {T("A\r\n\r\n"), -400},
    {T("A : b\r\n\r\n"), -400},
    {T(" A: b\r\n\r\n"), -400},
    {T("A: b\r\n c\r\n\r\n"), -400},
    {T("A: b\x01\r\n\r\n"), -400},
    {T("A: b\n\n"), -400},
    {T(": b\r\n\r\n"), -400},
    {T("A: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\nA: 5\r\nA: 6\r\nA: 7\r\nA: 8\r\n\r\n"), OK},
    {T("A: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\nA: 5\r\nA: 6\r\nA: 7\r\nA: 8\r\nA: 9\r\n\r\n"), -431},
};
TEST(http_parse_trailers, "") { CHECK_ALL(TRAILER, trailers); }

static int64_t answer_length(const char *text) {
    int used = wefti_http_parse_answer(text, strlen(text), &limits, &head);
    CHECK_EQ(used, strlen(text));
    return head.length;
}

TEST(http_parse_answer_meaning, "") {
    CHECK_EQ(answer_length("HTTP/1.1 200 OK\r\n\r\n"), WEFTI_HTTP_UNTIL_CLOSE);
    CHECK_EQ(answer_length("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 0);
    CHECK_EQ(answer_length("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"), 7);
    CHECK_EQ(answer_length("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), WEFTI_HTTP_CHUNKED);
    CHECK_EQ(answer_length("HTTP/1.1 204 x\r\n\r\n"), 0);
    CHECK_EQ(answer_length("HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n"), 0);
    CHECK_EQ(answer_length("HTTP/1.1 100 x\r\n\r\n"), 0);
    CHECK_EQ(head.status, 100);
}
