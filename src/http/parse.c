/* parse.c - heads of HTTP/1.1 messages (parse.h has the rules). */
#include "http/parse.h"

#include "base/assert.h"
#include "http/chars.h"

/* -- Versions --------------------------------------------------------------------------------------------------- */

/* "HTTP/1.0" or "HTTP/1.1"; the minor version, or a negative status.  A higher minor version is 1 (RFC 9110, 2.5). */
static int parse_version(const char *at) {
    if (memcmp(at, "HTTP/1.1", 8) == 0)
        return 1;
    if (memcmp(at, "HTTP/", 5) || !wefti_http_is_digit(at[5]) || at[6] != '.' || !wefti_http_is_digit(at[7]))
        return -400;
    return at[5] != '1' ? -505 : at[7] != '0';
}

/* -- Fields -------------------------------------------------------------------------------------------------- */

static weft_text trim(const char *at, size_t size) {
    while (size && (*at == ' ' || *at == '\t'))
        at++, size--;
    while (size && (at[size - 1] == ' ' || at[size - 1] == '\t'))
        size--;
    return (weft_text){at, size};
}

/* RFC 9110, 7.2: a host and perhaps a port; or nothing. */
static bool is_host(const char *at, size_t size) {
    const char *p = at, *end = at + size;
    if (p < end && *p == '[') {
        p = memchr(at, ']', size);
        if (!p || !wefti_http_is_ipv6(at + 1, (size_t)(p - at - 1)))
            return false;
        p++;
    } else {
        while ((p = wefti_http_skip(p, end, WEFTI_HOST)) < end && *p == '%') {
            if (end - p < 3 || !wefti_http_is_hex(p[1]) || !wefti_http_is_hex(p[2]))
                return false;
            p += 3;
        }
    }
    if (p < end && p > at && *p == ':')
        while (++p < end && wefti_http_is_digit(*p))
            continue;
    return p == end;
}

/* A token of the same length as `other`, which is in lower case, and four or more: of a token's characters only a letter becomes one by that bit.
 * Four at a time, the last of them perhaps twice. */
static inline bool is_name_of(const char *name, const char *other, size_t size) {
    for (size_t at = 0;; at = at + 8 <= size ? at + 4 : size - 4) {
        uint32_t some, wanted;
        memcpy(&some, name + at, 4);
        memcpy(&wanted, other + at, 4);
        if ((some | 0x20202020) != wanted)
            return false;
        if (at + 4 == size)
            return true;
    }
}
#define is_name(name, other) is_name_of((name).at, (other), sizeof(other) - 1)

/* "name: value" and its line end at `at`.  Its size; 0: more bytes; -400. */
static int parse_field(const char *at, const char *end, struct wefti_http_field *field) {
    const char *p = wefti_http_skip(at, end, WEFTI_TOKEN);
    if (WEFTI_UNLIKELY(p == end))
        return 0;
    if (WEFTI_UNLIKELY(*p != ':' || p == at)) /* no space before it, no folded line */
        return -400;
    field->name = (weft_text){at, (size_t)(p - at)};
    const char *value = p = wefti_http_skip_space(p + 1, end);
    p = wefti_http_skip_value(p, end);
    if (WEFTI_UNLIKELY(end - p < 2))
        return p < end && *p != '\r' ? -400 : 0;
    if (WEFTI_UNLIKELY(p[0] != '\r' || p[1] != '\n'))
        return -400;
    const char *last = p;
    while (last > value && wefti_http_is_space(last[-1]))
        last--;
    field->value = (weft_text){value, (size_t)(last - value)};
    return (int)(p + 2 - at);
}

/* Of a list that is not empty; what is left of it. */
static weft_text next_element(weft_text *list) {
    const char *comma = memchr(list->at, ',', list->size), *end = list->at + list->size;
    weft_text element = trim(list->at, (size_t)((comma ? comma : end) - list->at));
    list->at = comma ? comma + 1 : end;
    list->size = (size_t)(end - list->at);
    return element;
}

bool wefti_http_has_element(weft_text list, const char *element) {
    while (list.size)
        if (weft_text_is_nocase(next_element(&list), element))
            return true;
    return false;
}

/* Decimal digits only.  False: malformed, or above 2^62. */
static bool parse_length(weft_text text, int64_t *length) {
    int64_t value = 0;
    if (!text.size || text.size > 18)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (!wefti_http_is_digit(text.at[i]))
            return false;
        value = 10 * value + (text.at[i] - '0');
    }
    *length = value;
    return true;
}

/* How long "http://host" or "https://host" is; 0: it is none.  RFC 9110, 4.2: a host must be there, a user must not. */
static size_t authority_end(weft_text target) {
    static const char scheme[] = "https://";
    size_t i = 0;
    while (i < 4 && i < target.size && wefti_http_lower(target.at[i]) == scheme[i])
        i++;
    if (i < 4)
        return 0;
    if (i < target.size && wefti_http_lower(target.at[i]) == 's')
        i++;
    if (target.size - i < 4 || memcmp(target.at + i, "://", 3))
        return 0;
    size_t host = i += 3;
    while (i < target.size && target.at[i] != '/' && target.at[i] != '?')
        i++;
    return i > host && target.at[host] != ':' && is_host(target.at + host, i - host) ? i : 0;
}

/* An absolute target names the host, too, and is right (RFC 9112, 3.2.2): nobody is to see the other. */
static void use_host_of(weft_text target, weft_text *host) {
    size_t end = target.size && target.at[0] != '/' ? authority_end(target) : 0;
    if (end) { /* else it names none */
        size_t begin = (size_t)((const char *)memchr(target.at, ':', target.size) - target.at) + 3;
        *host = (weft_text){target.at + begin, end - begin};
    }
}

struct facts {
    bool has_length, has_coding, upgrades, closes, keeps;
    weft_text upgrade;
};

/* The Transfer-Encoding of a request that is not just "chunked". Without chunked as the last coding, the body has no known end: 400
 * (RFC 9112, 6.3). Other codings before it are well formed, but none is implemented: 501. */
static int refuse_coding(weft_text codings) {
    bool chunked = false;
    if (codings.size && codings.at[codings.size - 1] == ',')
        return -400;
    for (weft_text coding; codings.size;) {
        coding = next_element(&codings);
        if (chunked || !wefti_http_is_token(coding.at, coding.size))
            return -400;
        chunked = weft_text_is_nocase(coding, "chunked");
    }
    return chunked ? -501 : -400;
}

/* One field that may say something about the message itself.  0 or a negative status. */
static int understand_field(struct wefti_http_head *head, bool request, struct facts *facts,
                            struct wefti_http_field *field) {
    weft_text name = field->name, value = field->value;
    switch (name.size) {
    case 4:
        if (!request || !is_name(name, "host"))
            break;
        if (WEFTI_UNLIKELY(head->has_host || !is_host(value.at, value.size)))
            return -400;
        head->has_host = true;
        if (WEFTI_UNLIKELY(head->target.at[0] != '/'))
            use_host_of(head->target, &field->value);
        break;
    case 6:
        if (!request || head->minor == 0 || !is_name(name, "expect"))
            break;
        if (!weft_text_is_nocase(value, "100-continue"))
            return -417;
        head->expects_continue = true;
        break;
    case 7:
        if (is_name(name, "upgrade"))
            facts->upgrade = value;
        break;
    case 10:
        if (!is_name(name, "connection"))
            break;
        for (weft_text element; value.size;) {
            element = next_element(&value);
            facts->closes |= weft_text_is_nocase(element, "close");
            facts->keeps |= weft_text_is_nocase(element, "keep-alive");
            facts->upgrades |= weft_text_is_nocase(element, "upgrade");
        }
        break;
    case 14:
        if (!is_name(name, "content-length"))
            break;
        if (facts->has_length || !parse_length(value, &head->length)) /* twice, even the same, is one too many */
            return -400;
        facts->has_length = true;
        break;
    case 17:
        if (!is_name(name, "transfer-encoding"))
            break;
        if (facts->has_coding)
            return -400;
        if (!weft_text_is_nocase(value, "chunked"))
            return request ? refuse_coding(value) : -400;
        facts->has_coding = true;
        break;
    default: break;
    }
    return 0;
}

/* What they say together.  0 or a negative status. */
static int understand(struct wefti_http_head *head, bool request, const struct facts *facts) {
    if (facts->has_coding && (facts->has_length || head->minor == 0)) /* whose end is it? */
        return -400;
    if (request && head->minor == 1 && !head->has_host)
        return -400;
    head->keep_alive = (head->minor == 1 || facts->keeps) && !facts->closes; /* whoever says so, and wherever */
    if (facts->has_coding)
        head->length = WEFTI_HTTP_CHUNKED;
    else if (!facts->has_length && !request)
        head->length = WEFTI_HTTP_UNTIL_CLOSE;
    if (facts->upgrades && head->minor == 1)
        head->upgrade = facts->upgrade;
    return 0;
}

/* The lines from `at` to the empty one; without a head they are dropped.  Their size with it; 0; a negative status: what is malformed first, then what is not understood. */
static int parse_fields(const char *bytes, size_t size, size_t at, const struct wefti_http_limits *limits,
                        struct wefti_http_head *head, bool request) {
    struct facts facts = {.has_length = false};
    struct wefti_http_field dropped;
    unsigned count = 0;
    int error = 0;
    for (;;) {
        const char *p = bytes + at, *end = bytes + size;
        if (p < end && *p == '\r') {
            if (WEFTI_UNLIKELY(p + 1 == end || p[1] != '\n' || at + 2 > limits->head))
                return p + 1 < end && p[1] != '\n' ? -400 : size >= limits->head ? -431 : 0;
            break;
        }
        if (WEFTI_UNLIKELY(count == limits->fields) && p < end)
            return -431;
        struct wefti_http_field *field = head ? &head->field[count] : &dropped;
        int used = parse_field(p, end, field);
        if (WEFTI_UNLIKELY(used <= 0))
            return used < 0 ? used : size >= limits->head ? -431 : 0;
        at += (size_t)used;
        if (WEFTI_UNLIKELY(at > limits->head))
            return -431;
        count++;
        if (head && !error)
            error = understand_field(head, request, &facts, field);
    }
    if (head && !error) {
        head->count = count;
        error = understand(head, request, &facts);
    }
    return error ? error : (int)(at + 2);
}

/* -- Heads --------------------------------------------------------------------------------------------------- */

/* "host:port". */
static bool is_authority(weft_text target) {
    size_t digits = 0;
    while (digits < target.size && wefti_http_is_digit(target.at[target.size - 1 - digits]))
        digits++;
    return digits >= 1 && digits <= 5 && target.size > digits + 1 && target.at[target.size - 1 - digits] == ':' &&
           is_host(target.at, target.size);
}

weft_text wefti_http_path(weft_text target) {
    size_t from = target.size && target.at[0] == '/' ? 0 : authority_end(target);
    const char *mark = memchr(target.at, '?', target.size);
    size_t to = mark ? (size_t)(mark - target.at) : target.size;
    return from && from == to ? (weft_text){"/", 1} : (weft_text){target.at + from, to - from};
}

/* A target, of characters that may be in one: "/...", "*" for OPTIONS, "host:port" for CONNECT, or an absolute one (for proxies, and to be accepted). */
static bool parse_target(weft_text target, weft_text method) {
    if (method.size == 7 && weft_text_is(method, "CONNECT"))
        return is_authority(target);
    if (target.size && target.at[0] == '/')
        return true;
    if (weft_text_is(target, "*"))
        return weft_text_is(method, "OPTIONS");
    return authority_end(target) > 0;
}

/* The version at the end of the request line, of which `size` bytes have come: can it become one? */
static bool may_be_version(const char *at, size_t size) {
    static const char like[] = "HTTP/0.0\r\n";
    for (size_t i = 0; i < size; i++)
        if (like[i] == '0' ? !wefti_http_is_digit(at[i]) : at[i] != like[i])
            return false;
    return true;
}

/* The line's size with its end; 0; a negative status. */
static int parse_request_line(const char *line, size_t size, size_t most, struct wefti_http_head *head) {
    const char *p = line, *end = line + size, *target;
    p = wefti_http_skip(p, end, WEFTI_TOKEN);
    head->method = (weft_text){line, (size_t)(p - line)};
    if (WEFTI_UNLIKELY(p < end && (*p != ' ' || p == line)))
        return head->method.size > most ? -414 : -400;
    target = p += p < end;
    p = wefti_http_skip(p, end, WEFTI_TARGET);
    head->target = (weft_text){target, (size_t)(p - target)};
    if (WEFTI_UNLIKELY(p < end && *p != ' '))
        return (size_t)(p - line) > most ? -414 : -400;
    p += p < end;
    size_t left = (size_t)(end - p);
    if (WEFTI_UNLIKELY(left < 10)) {
        if (size > most + 1) /* a CR may be the last that came */
            return -414;
        return may_be_version(p, left) ? 0 : -400;
    }
    if (WEFTI_UNLIKELY((size_t)(p + 8 - line) > most))
        return -414;
    head->minor = parse_version(p);
    if (WEFTI_UNLIKELY(head->minor < 0 || p[8] != '\r' || p[9] != '\n'))
        return may_be_version(p, 10) ? head->minor : -400;
    return parse_target(head->target, head->method) ? (int)(p + 10 - line) : -400;
}

static void begin_head(struct wefti_http_head *head) { memset(head, 0, offsetof(struct wefti_http_head, field)); }

int wefti_http_parse_request(const char *bytes, size_t size, const struct wefti_http_limits *limits,
                             struct wefti_http_head *head) {
    size_t at = 0;
    begin_head(head);
    if (WEFTI_UNLIKELY(
            size &&
            bytes[0] ==
                '\r')) { /* RFC 9112, 2.2: one empty line before a request, of clients that end a body with one too many */
        if (size == 1)
            return 0;
        if (bytes[1] != '\n')
            return -400;
        at = 2;
    }
    int line = parse_request_line(bytes + at, size - at, limits->line, head);
    return line <= 0 ? line : parse_fields(bytes, size, at + (size_t)line, limits, head, true);
}

int wefti_http_parse_answer(const char *bytes, size_t size, const struct wefti_http_limits *limits,
                            struct wefti_http_head *head) {
    size_t line;
    begin_head(head);
    int found = wefti_http_find_line(bytes, size, &line);
    if (found <= 0)
        return found < 0 ? -400 : size > limits->line + 1 ? -431 : 0;
    if (line > limits->line)
        return -431;
    if (line < 12 || bytes[8] != ' ' || !wefti_http_is_digit(bytes[9]) || !wefti_http_is_digit(bytes[10]) ||
        !wefti_http_is_digit(bytes[11]) || (line > 12 && bytes[12] != ' ') ||
        !wefti_http_is_value(bytes + 12, line - 12))
        return -400;
    head->minor = parse_version(bytes);
    if (head->minor < 0)
        return -400;
    head->status = (bytes[9] - '0') * 100 + (bytes[10] - '0') * 10 + (bytes[11] - '0');
    if (head->status < 100)
        return -400;
    int used = parse_fields(bytes, size, line + 2, limits, head, false);
    if (used <= 0)
        return used;
    if (head->status < 200 || head->status == 204 || head->status == 304)
        head->length = 0;
    return used;
}

int wefti_http_parse_trailer(const char *bytes, size_t size, const struct wefti_http_limits *limits) {
    return parse_fields(bytes, size, 0, limits, NULL, false);
}
