/* chars.h - characters of HTTP/1.1: what each may be part of.  Internal. */
#ifndef WEFTI_HTTP_CHARS_H
#define WEFTI_HTTP_CHARS_H

#include <string.h>
#include <weft/http.h>

enum {
    WEFTI_TOKEN = 1,  /* RFC 9110: a method, a field's name */
    WEFTI_VALUE = 2,  /* a field's value: also spaces, tabs and bytes above ASCII */
    WEFTI_TARGET = 4, /* visible ASCII, without a fragment */
    WEFTI_HOST =
        8, /* RFC 3986: a host's name, but for what is %-encoded.  No comma, though one may be there: two Host fields that were joined */
    WEFTI_CHAR_ALL = WEFTI_TOKEN | WEFTI_VALUE | WEFTI_TARGET | WEFTI_HOST,
};

extern const uint8_t wefti_http_classes[256];

static inline unsigned wefti_http_class(char c) { return wefti_http_classes[(unsigned char)c]; }

/* The first character from p on that is not of this class; or `end`. */
static inline const char *wefti_http_skip(const char *p, const char *end, unsigned class) {
    while (p < end && (wefti_http_class(*p) & class))
        p++;
    return p;
}

/* The same for a value, which may be long: eight bytes at a time.  `odd` has the highest bit of each byte that is a control character; above the lowest
 * such byte it may say so of others, too. */
#define WEFTI_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
static inline const char *wefti_http_skip_value(const char *p, const char *end) {
    for (; end - p >= 8; p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        uint64_t not_del = word ^ WEFTI_EACH(0x7f);
        uint64_t odd =
            (((word - WEFTI_EACH(0x20)) & ~word) | ((not_del - WEFTI_EACH(1)) & ~not_del)) & WEFTI_EACH(0x80);
        if (odd) {
            if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
                p += __builtin_ctzll(odd) / 8;
            break;
        }
    }
    return wefti_http_skip(p, end, WEFTI_VALUE); /* a tab is one */
}

static inline bool wefti_http_is_all(const char *text, size_t size, unsigned class) {
    return wefti_http_skip(text, text + size, class) == text + size;
}

static inline bool wefti_http_is_space(char c) { return c == ' ' || c == '\t'; }
static inline const char *wefti_http_skip_space(const char *p, const char *end) {
    while (p < end && wefti_http_is_space(*p))
        p++;
    return p;
}

static inline bool wefti_http_is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool wefti_http_is_hex(char c) {
    return wefti_http_is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}
static inline char wefti_http_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* An address as it stands between brackets in a URL or a Host field. */
bool wefti_http_is_ipv6(const char *text, size_t size);

/* A line that ends with CR LF: its length without them into *line.  1; 0: more bytes; -1: a line end that is none. */
int wefti_http_find_line(const char *bytes, size_t size, size_t *line);

#endif
