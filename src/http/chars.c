/* chars.c - characters of HTTP/1.1, texts, addresses and lines of them. */
#include "http/chars.h"

#include <arpa/inet.h>

#include "http/parse.h"

const uint8_t wefti_http_classes[256] = {
    ['\t'] = WEFTI_VALUE,
    [' '] = WEFTI_VALUE,
    ['!'] = WEFTI_CHAR_ALL,
    ['"'] = WEFTI_VALUE | WEFTI_TARGET,
    ['#'] = WEFTI_TOKEN | WEFTI_VALUE,
    ['$'] = WEFTI_CHAR_ALL,
    ['%'] = WEFTI_TOKEN | WEFTI_VALUE | WEFTI_TARGET,
    ['&' ... '\''] = WEFTI_CHAR_ALL,
    ['(' ... ')'] = WEFTI_VALUE | WEFTI_TARGET | WEFTI_HOST,
    ['*' ... '+'] = WEFTI_CHAR_ALL,
    [','] = WEFTI_VALUE | WEFTI_TARGET,
    ['-' ... '.'] = WEFTI_CHAR_ALL,
    ['/'] = WEFTI_VALUE | WEFTI_TARGET,
    ['0' ... '9'] = WEFTI_CHAR_ALL,
    [':'] = WEFTI_VALUE | WEFTI_TARGET,
    [';'] = WEFTI_VALUE | WEFTI_TARGET | WEFTI_HOST,
    ['<'] = WEFTI_VALUE | WEFTI_TARGET,
    ['='] = WEFTI_VALUE | WEFTI_TARGET | WEFTI_HOST,
    ['>' ... '@'] = WEFTI_VALUE | WEFTI_TARGET,
    ['A' ... 'Z'] = WEFTI_CHAR_ALL,
    ['['] = WEFTI_VALUE | WEFTI_TARGET,
    ['\\'] = WEFTI_VALUE | WEFTI_TARGET,
    [']'] = WEFTI_VALUE | WEFTI_TARGET,
    ['^'] = WEFTI_TOKEN | WEFTI_VALUE | WEFTI_TARGET,
    ['_'] = WEFTI_CHAR_ALL,
    ['`'] = WEFTI_TOKEN | WEFTI_VALUE | WEFTI_TARGET,
    ['a' ... 'z'] = WEFTI_CHAR_ALL,
    ['{'] = WEFTI_VALUE | WEFTI_TARGET,
    ['|'] = WEFTI_TOKEN | WEFTI_VALUE | WEFTI_TARGET,
    ['}'] = WEFTI_VALUE | WEFTI_TARGET,
    ['~'] = WEFTI_CHAR_ALL,
    [128 ... 255] = WEFTI_VALUE,
};

bool weft_text_is(weft_text text, const char *other) {
    return other && strlen(other) == text.size && (text.size == 0 || memcmp(text.at, other, text.size) == 0);
}

bool weft_text_is_nocase(weft_text text, const char *other) {
    size_t i = 0;
    if (!other)
        return false;
    for (; i < text.size && other[i]; i++)
        if (wefti_http_lower(text.at[i]) != wefti_http_lower(other[i]))
            return false;
    return i == text.size && !other[i];
}

bool wefti_http_is_token(const char *text, size_t size) {
    return size > 0 && wefti_http_is_all(text, size, WEFTI_TOKEN);
}
bool wefti_http_is_value(const char *text, size_t size) {
    return wefti_http_skip_value(text, text + size) == text + size;
}

bool wefti_http_is_ipv6(const char *text, size_t size) {
    struct in6_addr addr;
    char copy[INET6_ADDRSTRLEN];
    if (size >= sizeof copy || memchr(text, 0, size))
        return false;
    memcpy(copy, text, size);
    copy[size] = 0;
    return inet_pton(AF_INET6, copy, &addr) == 1;
}

int wefti_http_find_line(const char *bytes, size_t size, size_t *line) {
    const char *end = memchr(bytes, '\n', size);
    if (!end) {
        /* A CR that no LF follows is wrong as soon as it can be seen. */
        const char *cr = memchr(bytes, '\r', size);
        return cr && cr + 1 < bytes + size ? -1 : 0;
    }
    size_t length = (size_t)(end - bytes);
    if (length == 0 || bytes[length - 1] != '\r') /* one before it is refused by whoever looks at the characters */
        return -1;
    *line = length - 1;
    return 1;
}
