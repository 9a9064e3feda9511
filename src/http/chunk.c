/* chunk.c - the line before a chunk (parse.h has the rules). */
#include "http/chars.h"
#include "http/parse.h"

#define CHUNK_LINE_MAX 256u

static int hex(char c) {
    c = wefti_http_lower(c);
    return wefti_http_is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Behind the quote at p; NULL: there is no other. */
static const char *skip_quoted(const char *p, const char *end) {
    for (p++; p < end && *p != '"'; p++) {
        p += *p == '\\';
        if (p == end || !(wefti_http_class(*p) & WEFTI_VALUE))
            return NULL;
    }
    return p < end ? p + 1 : NULL;
}

/* Extensions of a chunk: `; name` or `; name = value`, any number of them, with spaces that no sender may write and every receiver must bear
 * (RFC 9112, 7.1.1; RFC 9110, 5.6.3).  They are ignored, but must be some. */
static bool are_extensions(const char *p, size_t size) {
    const char *end = p + size, *name;
    while (p < end) {
        p = wefti_http_skip_space(p, end);
        if (p == end || *p != ';')
            return false;
        name = wefti_http_skip_space(p + 1, end);
        p = wefti_http_skip(name, end, WEFTI_TOKEN);
        if (p == name)
            return false;
        const char *sign = wefti_http_skip_space(p, end);
        if (sign == end || *sign != '=')
            continue; /* a space at the end is found by the next turn */
        const char *value = wefti_http_skip_space(sign + 1, end);
        p = value < end && *value == '"' ? skip_quoted(value, end) : wefti_http_skip(value, end, WEFTI_TOKEN);
        if (!p || p == value)
            return false;
    }
    return true;
}

int wefti_http_parse_chunk(const char *bytes, size_t size, uint64_t *length) {
    size_t line, digits = 0;
    int found = wefti_http_find_line(bytes, size, &line);
    if (found < 0)
        return -400;
    if (found == 0)
        return size > CHUNK_LINE_MAX + 1 ? -400 : 0;
    uint64_t value = 0;
    for (; digits < line && hex(bytes[digits]) >= 0; digits++)
        value = value << 4 | (unsigned)hex(bytes[digits]);
    if (digits == 0 || digits > 15 || line > CHUNK_LINE_MAX)
        return -400;
    if (digits < line && !are_extensions(bytes + digits, line - digits))
        return -400;
    *length = value;
    return (int)line + 2;
}
