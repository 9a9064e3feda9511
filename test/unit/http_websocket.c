/* http_websocket.c - SHA-1, base64, UTF-8 and the heads of frames. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "http/digest.h"
#include "http/ws.h"

static void sha1_is(const char *text, size_t size, const char *expected) {
    uint8_t digest[WEFTI_SHA1_SIZE];
    char hex[2 * WEFTI_SHA1_SIZE + 1];
    char *copy = malloc(size ? size : 1); /* not a byte behind it is read */
    memcpy(copy, text, size);
    wefti_sha1(copy, size, digest);
    free(copy);
    for (int i = 0; i < WEFTI_SHA1_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    CHECK_STR(hex, expected);
}

/* FIPS 180 and RFC 6455; every length around the end of a block has its own padding. */
TEST(http_sha1, "") {
    static char many[1000000];
    sha1_is("", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    sha1_is("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    sha1_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    memset(many, 'a', sizeof many);
    sha1_is(many, sizeof many, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    sha1_is(many, 55, "c1c8bbdc22796e28c0e15163d20899b65621d65a");
    sha1_is(many, 56, "c2db330f6083854c99d4b5bfb6e8f29f201be699");
    sha1_is(many, 63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
    sha1_is(many, 64, "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    sha1_is(many, 119, "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56");
}

TEST(http_base64, "") {
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    char text[32];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        CHECK_EQ(wefti_base64(pairs[i][0], strlen(pairs[i][0]), text), strlen(pairs[i][1]));
        CHECK_STR(text, pairs[i][1]);
        CHECK_EQ(wefti_base64_size(text, strlen(text)), strlen(pairs[i][0]));
    }
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Zg==Z", "Z===", "====", "Zh==", "Zm9=", "Zm 8", "Zm8=Zm8=", "Zm8-", "\xc3g=="};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(wefti_base64_size(bad[i], strlen(bad[i])), -1);
}

TEST(http_utf8, "") {
    static const struct {
        const char *text;
        int whole; /* -1: never */
    } cases[] = {
        {"", 0},
        {"a", 1},
        {"seven..", 7},
        {"eight...", 8},
        {"nine.....", 9},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xee\x80\x80", 3},
        {"\xef\xbf\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"seven..\xc3\xa4 and more of it", 24},
        {"\x80", -1},
        {"\xbf", -1},
        {"\xc0", -1}, /* whatever follows */
        {"\xc1", -1},
        {"\xc2z", -1},
        {"\xe0\x9f", -1},
        {"\xe1\x80z", -1},
        {"\xed\xa0", -1},
        {"\xf0\x8f", -1},
        {"\xf1\x80z", -1},
        {"\xf1\x80\x80z", -1},
        {"\xf4\x90", -1},
        {"\xf5", -1},
        {"\xff", -1},
        {"a\xfe", -1},
        {"eight...\xfe", -1},
        {"seven..\xfe", -1},
        {"\xc2", 0}, /* may become one */
        {"\xe0", 0},
        {"\xe0\xa0", 0},
        {"\xe1\x80", 0},
        {"\xed\x9f", 0},
        {"\xf0\x90", 0},
        {"\xf1\x80\x80", 0},
        {"\xf4\x8f\xbf", 0},
        {"a\xc3", 1},
        {"eight...\xc3", 8},
        {"\xc3\xa4\xc3", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = strlen(cases[i].text);
        char *copy = malloc(size ? size : 1); /* nothing behind it is looked at */
        memcpy(copy, cases[i].text, size);
        ssize_t whole = wefti_ws_utf8(copy, size);
        if (whole != cases[i].whole)
            harness_note(__FILE__, __LINE__, "%zu: expected %d, found %zd", i, cases[i].whole, whole);
        free(copy);
    }
}

#define M "\1\2\3\4"
#define T(text) text, sizeof(text) - 1

TEST(http_frames, "") {
    static const struct {
        const char *bytes;
        size_t size;
        int expected; /* 1: all of it */
        uint64_t length;
    } cases[] = {
        {T("\x81\x80" M), 1, 0},
        {T("\x82\xfd" M), 1, 125},
        {T("\x01\x85" M), 1, 5},
        {T("\x00\x85" M), 1, 5},
        {T("\x80\x85" M), 1, 5},
        {T("\x88\x82" M), 1, 2},
        {T("\x89\xfd" M), 1, 125},
        {T("\x8a\x80" M), 1, 0},
        {T("\x82\xfe\x00\x7e" M), 1, 126},
        {T("\x82\xfe\xff\xff" M), 1, 65535},
        {T("\x82\xff\0\0\0\0\0\1\0\0" M), 1, 65536},
        {T("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff" M), 1, INT64_MAX},
        {T("\x82\x05" M), -EPROTO, 0},           /* not masked */
        {T("\xc2\x85" M), -EPROTO, 0},           /* reserved bits */
        {T("\xa2\x85" M), -EPROTO, 0},
        {T("\x92\x85" M), -EPROTO, 0},
        {T("\x83\x85" M), -EPROTO, 0},           /* unknown */
        {T("\x87\x85" M), -EPROTO, 0},
        {T("\x8b\x85" M), -EPROTO, 0},
        {T("\x8f\x85" M), -EPROTO, 0},
        {T("\x08\x82" M), -EPROTO, 0},           /* control, in parts */
        {T("\x09\x80" M), -EPROTO, 0},
        {T("\x89\xfe\x00\x7e" M), -EPROTO, 0},   /* control, long */
        {T("\x88\xff\0\0\0\0\0\1\0\0" M), -EPROTO, 0},
        {T("\x82\xfe\x00\x7d" M), -EPROTO, 0},   /* longer than needed */
        {T("\x82\xff\0\0\0\0\0\0\xff\xff" M), -EPROTO, 0},
        {T("\x82\xff\x80\0\0\0\0\0\0\0" M), -EPROTO, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t size = 0; size <= cases[i].size; size++) {
            struct wefti_ws_frame frame;
            char *copy = malloc(size ? size : 1);
            memcpy(copy, cases[i].bytes, size);
            int found = wefti_ws_parse(copy, size, true, &frame);
            free(copy);
            bool whole = size == cases[i].size;
            int expected = !whole ? 0 : cases[i].expected < 0 ? cases[i].expected : (int)size;
            if (found != expected && !(!whole && cases[i].expected < 0 && found == -EPROTO))
                harness_note(__FILE__, __LINE__, "case %zu, %zu bytes: expected %d, found %d", i, size, expected,
                             found);
            if (found > 0)
                CHECK(frame.size == cases[i].length && !memcmp(frame.mask, M, 4));
        }
}
