/* http_chars.c - values and names that are looked at several bytes at a time: the same as one by one. */
#include "http/chars.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "http/parse.h"

/* In memory that ends where the bytes do. */
static size_t skip(const char *bytes, size_t size) {
    char *copy = malloc(size ? size : 1);
    REQUIRE(copy);
    memcpy(copy, bytes, size);
    size_t found = (size_t)(wefti_http_skip_value(copy, copy + size) - copy);
    free(copy);
    return found;
}

/* Every byte at every place, in a value of any length, behind and before every kind of neighbour. */
TEST(http_value_every_byte, "") {
    static const char neighbours[] = {'a', ' ', '~', '!', '\t', '\x1f', '\x7f', '\x80', '\xff', '\0'};
    char text[20];
    for (size_t n = 0; n < sizeof neighbours; n++)
        for (size_t size = 1; size <= sizeof text; size++)
            for (size_t at = 0; at < size; at++)
                for (int byte = 0; byte < 256; byte++) {
                    size_t expected = 0;
                    memset(text, 'a', sizeof text);
                    text[at] = (char)byte;
                    if (at + 1 < size)
                        text[at + 1] = neighbours[n];
                    if (at > 1)
                        text[at - 2] = '~';
                    while (expected < size && (wefti_http_class(text[expected]) & WEFTI_VALUE))
                        expected++;
                    REQUIRE_EQ(skip(text, size), expected);
                }
}

/* What the field of that name says: 1, 2 and so on, or 0, nothing. */
static int said(const char *name, const char *value) {
    static const struct wefti_http_limits limits = {100, 400, 8};
    static struct wefti_http_head head;
    char text[200];
    int size = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n%s: %s\r\n\r\n", name, value);
    int used = wefti_http_parse_request(text, (size_t)size, &limits, &head);
    if (used < 0)
        return 1; /* two hosts; an expectation that nobody knows */
    REQUIRE_EQ(used, size);
    return !head.keep_alive ? 2 : head.length == WEFTI_HTTP_CHUNKED ? 3 : head.length == 7 ? 4 : 0;
}

/* A name in any case, and with any one character changed. */
TEST(http_names_every_character, "") {
    static const struct {
        const char *name, *value;
        int says;
    } names[] = {{"host", "b", 1},
                 {"expect", "x", 1},
                 {"connection", "close", 2},
                 {"transfer-encoding", "chunked", 3},
                 {"content-length", "7", 4}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t at = 0; at < strlen(names[i].name); at++) {
            char name[32];
            snprintf(name, sizeof name, "%s", names[i].name);
            CHECK_EQ(said(name, names[i].value), names[i].says);
            if (name[at] == '-')
                continue;
            name[at] = (char)(name[at] - 32);
            CHECK_EQ(said(name, names[i].value), names[i].says);
            name[at] = name[at] == 'Q' ? 'Z' : 'Q';
            CHECK_EQ(said(name, names[i].value), 0);
        }
}
