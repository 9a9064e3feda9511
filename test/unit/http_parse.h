/* http_parse.h - tables of bytes for the parsers of HTTP, and what each of them must say, however they arrive. */
#ifndef WEFT_TEST_UNIT_HTTP_PARSE_H
#define WEFT_TEST_UNIT_HTTP_PARSE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "http/parse.h"

#define OK 1
#define MORE 0
#define G "GET / HTTP/1.1\r\n"
#define H "Host: a\r\n"
#define E "\r\n"

static const struct wefti_http_limits limits = {100, 400, 8};
static struct wefti_http_head head;

struct given {
    const char *bytes;
    size_t size;
    int expected; /* OK, MORE or a negative status */
};
#define T(text) text, sizeof(text) - 1

enum kind { REQUEST, ANSWER, CHUNK, TRAILER };

/* In memory that ends where the bytes do. */
static inline int parse(enum kind kind, const char *bytes, size_t size) {
    char *copy = malloc(size ? size : 1);
    uint64_t length;
    REQUIRE(copy);
    memcpy(copy, bytes, size);
    int used = kind == REQUEST  ? wefti_http_parse_request(copy, size, &limits, &head)
               : kind == ANSWER ? wefti_http_parse_answer(copy, size, &limits, &head)
               : kind == CHUNK  ? wefti_http_parse_chunk(copy, size, &length)
                                : wefti_http_parse_trailer(copy, size, &limits);
    free(copy);
    return used;
}

/* Whole; then byte by byte: what is accepted is not understood before its last byte, what is refused is so at some byte, and for good. */
static inline void check(enum kind kind, const struct given *given, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t size = given[i].size;
        int expected = given[i].expected == OK ? (int)size : given[i].expected;
        int found = parse(kind, given[i].bytes, size), refused = 0;
        if (found != expected)
            harness_note(__FILE__, __LINE__, "kind %d, case %zu (\"%.60s\"): expected %d, found %d", kind, i,
                         given[i].bytes, expected, found);
        for (size_t part = 0; part < size; part++) {
            found = parse(kind, given[i].bytes, part);
            if (found > 0 || (found < 0 && expected >= 0) || (refused < 0 && found >= 0))
                harness_note(__FILE__, __LINE__, "kind %d, case %zu (\"%.60s\"), %zu bytes: found %d", kind, i,
                             given[i].bytes, part, found);
            refused = found;
        }
        /* What follows is not looked at. */
        if (given[i].expected == OK) {
            char more[1024];
            memcpy(more, given[i].bytes, size);
            memcpy(more + size, "\0\r\rX", 4);
            CHECK_EQ(parse(kind, more, size + 4), expected);
        }
    }
}
#define CHECK_ALL(kind, table) check(kind, table, sizeof table / sizeof *table)

#endif
