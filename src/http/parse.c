/* parse.c - heads of HTTP/1.1 messages (parse.h has the rules). */
#include "http/parse.h"

#include <string.h>

/* -- Characters -------------------------------------------------------------------------------------------- */

/* What a character may be part of. */
enum {
    TOKEN = 1,  /* RFC 9110: a method, a field's name */
    VALUE = 2,  /* a field's value: also spaces, tabs and bytes above ASCII */
    TARGET = 4, /* visible ASCII, without a fragment */
    HOST =
        8, /* RFC 3986: a host with a port.  No comma, although it would be allowed: two Host fields that were joined */
    ALL = TOKEN | VALUE | TARGET | HOST,
};

static const uint8_t classes[256] = {
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['!'] = ALL,
    ['"'] = VALUE | TARGET,
    ['#'] = TOKEN | VALUE,
    ['$' ... '\''] = ALL,
    ['(' ... ')'] = VALUE | TARGET | HOST,
    ['*' ... '+'] = ALL,
    [','] = VALUE | TARGET,
    ['-' ... '.'] = ALL,
    ['/'] = VALUE | TARGET,
    ['0' ... '9'] = ALL,
    [':' ... ';'] = VALUE | TARGET | HOST,
    ['<'] = VALUE | TARGET,
    ['='] = VALUE | TARGET | HOST,
    ['>' ... '@'] = VALUE | TARGET,
    ['A' ... 'Z'] = ALL,
    ['['] = VALUE | TARGET | HOST,
    ['\\'] = VALUE | TARGET,
    [']'] = VALUE | TARGET | HOST,
    ['^'] = TOKEN | VALUE | TARGET,
    ['_'] = ALL,
    ['`'] = TOKEN | VALUE | TARGET,
    ['a' ... 'z'] = ALL,
    ['{'] = VALUE | TARGET,
    ['|'] = TOKEN | VALUE | TARGET,
    ['}'] = VALUE | TARGET,
    ['~'] = ALL,
    [128 ... 255] = VALUE,
};

/* Nothing but these characters. */
static bool is_all(const char *text, size_t size, unsigned class) {
    unsigned all = class;
    for (size_t i = 0; i < size; i++)
        all &= classes[(unsigned char)text[i]];
    return all;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

bool weft_text_is(weft_text text, const char *other) {
    return strlen(other) == text.size && (text.size == 0 || memcmp(text.at, other, text.size) == 0);
}

/* Of the same length, and in lower case. */
static bool is_name(weft_text name, const char *other) {
    for (size_t i = 0; i < name.size; i++)
        if (lower(name.at[i]) != other[i])
            return false;
    return true;
}

bool weft_text_is_nocase(weft_text text, const char *other) {
    size_t i = 0;
    for (; i < text.size && other[i]; i++)
        if (lower(text.at[i]) != lower(other[i]))
            return false;
    return i == text.size && !other[i];
}

bool wefti_http_is_token(const char *text, size_t size) { return size > 0 && is_all(text, size, TOKEN); }
bool wefti_http_is_value(const char *text, size_t size) { return is_all(text, size, VALUE); }

/* -- Lines --------------------------------------------------------------------------------------------------- */

/* A line that ends with CR LF: its length without them into *line.  1; 0: more bytes; -1: a line end that is none. */
static int find_line(const char *bytes, size_t size, size_t *line) {
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

/* "HTTP/1.0" or "HTTP/1.1"; the minor version, or a negative status. */
static int parse_version(const char *at, size_t size) {
    if (size != 8 || memcmp(at, "HTTP/", 5) || !is_digit(at[5]) || at[6] != '.' || !is_digit(at[7]))
        return -400;
    return at[5] == '1' && at[7] <= '1' ? at[7] - '0' : -505;
}

/* -- Fields -------------------------------------------------------------------------------------------------- */

static weft_text trim(const char *at, size_t size) {
    while (size && (*at == ' ' || *at == '\t'))
        at++, size--;
    while (size && (at[size - 1] == ' ' || at[size - 1] == '\t'))
        size--;
    return (weft_text){at, size};
}

/* "name: value".  False: malformed. */
static bool parse_field(const char *line, size_t size, struct wefti_http_field *field) {
    const char *colon = memchr(line, ':', size);
    if (!colon || !wefti_http_is_token(line, (size_t)(colon - line))) /* no space before it, no folded line */
        return false;
    field->name = (weft_text){line, (size_t)(colon - line)};
    field->value = trim(colon + 1, size - field->name.size - 1);
    return wefti_http_is_value(field->value.at, field->value.size);
}

bool wefti_http_has_element(weft_text list, const char *element) {
    while (list.size) {
        const char *comma = memchr(list.at, ',', list.size);
        size_t size = comma ? (size_t)(comma - list.at) : list.size;
        if (weft_text_is_nocase(trim(list.at, size), element))
            return true;
        list.at += size + (comma ? 1 : 0);
        list.size -= size + (comma ? 1 : 0);
    }
    return false;
}

/* Decimal digits only.  False: malformed, or above 2^62. */
static bool parse_length(weft_text text, int64_t *length) {
    int64_t value = 0;
    if (!text.size || text.size > 18)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (!is_digit(text.at[i]))
            return false;
        value = 10 * value + (text.at[i] - '0');
    }
    *length = value;
    return true;
}

static bool is_host(const char *at, size_t size) { return is_all(at, size, HOST); }

/* How long "http://host" or "https://host" is; 0: it is none.  RFC 9110, 4.2: a host must be there, a user must not. */
static size_t authority_end(weft_text target) {
    static const char scheme[] = "https://";
    size_t i = 0;
    while (i < 4 && i < target.size && lower(target.at[i]) == scheme[i])
        i++;
    if (i < 4)
        return 0;
    if (i < target.size && lower(target.at[i]) == 's')
        i++;
    if (target.size - i < 4 || memcmp(target.at + i, "://", 3))
        return 0;
    size_t host = i += 3;
    while (i < target.size && target.at[i] != '/' && target.at[i] != '?')
        i++;
    return i > host && target.at[host] != ':' && is_host(target.at + host, i - host) ? i : 0;
}

/* An absolute target names the host, too: a client says the same twice (RFC 9112, 3.2), and who does not, means to deceive somebody. */
static bool same_host(weft_text target, weft_text host) {
    size_t end = target.size && target.at[0] != '/' ? authority_end(target) : 0;
    if (!end)
        return true; /* names none */
    size_t begin = (size_t)((const char *)memchr(target.at, ':', target.size) - target.at) + 3;
    if (end - begin != host.size)
        return false;
    for (size_t i = 0; i < host.size; i++)
        if (lower(target.at[begin + i]) != lower(host.at[i]))
            return false;
    return true;
}

struct facts {
    bool has_length, has_coding, upgrades, closes;
    weft_text upgrade;
};

/* One field that says something about the message itself.  0 or a negative status. */
static int understand_field(struct wefti_http_head *head, bool request, struct facts *facts, weft_text name,
                            weft_text value) {
    switch (name.size) {
    case 4:
        if (!request || !is_name(name, "host"))
            break;
        if (head->has_host || !is_host(value.at, value.size) || !same_host(head->target, value))
            return -400;
        head->has_host = true;
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
        facts->closes |= wefti_http_has_element(value, "close");
        head->keep_alive |= wefti_http_has_element(value, "keep-alive");
        facts->upgrades |= wefti_http_has_element(value, "upgrade");
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
            return request ? -501 : -400;
        facts->has_coding = true;
        break;
    default: break;
    }
    return 0;
}

/* What the fields say about the message itself.  0 or a negative status. */
static int understand(struct wefti_http_head *head, bool request) {
    struct facts facts = {.has_length = false};
    head->length = 0;
    head->keep_alive = head->minor == 1;
    head->expects_continue = head->has_host = false;
    for (unsigned i = 0; i < head->count; i++) {
        int error = understand_field(head, request, &facts, head->field[i].name, head->field[i].value);
        if (error)
            return error;
    }
    if (facts.has_coding && (facts.has_length || head->minor == 0)) /* whose end is it? */
        return -400;
    if (request && head->minor == 1 && !head->has_host)
        return -400;
    head->keep_alive &= !facts.closes; /* whoever says so, and wherever */
    if (facts.has_coding)
        head->length = WEFTI_HTTP_CHUNKED;
    else if (!facts.has_length && !request)
        head->length = WEFTI_HTTP_UNTIL_CLOSE;
    if (facts.upgrades && head->minor == 1)
        head->upgrade = facts.upgrade;
    return 0;
}

/* The lines from `at` to the empty one.  Their size with it; 0; a negative status. */
static int parse_fields(const char *bytes, size_t size, size_t at, const struct wefti_http_limits *limits,
                        struct wefti_http_head *head) {
    head->count = 0;
    for (;;) {
        size_t line;
        int found = find_line(bytes + at, size - at, &line);
        if (found < 0)
            return -400;
        if (found == 0)
            return size >= limits->head ? -431 : 0;
        if (at + line + 2 > limits->head)
            return -431;
        if (line == 0)
            return (int)(at + 2);
        if (head->count == limits->fields)
            return -431;
        if (!parse_field(bytes + at, line, &head->field[head->count]))
            return -400;
        head->count++;
        at += line + 2;
    }
}

/* -- Heads --------------------------------------------------------------------------------------------------- */

/* "host:port". */
static bool is_authority(weft_text target) {
    size_t digits = 0;
    while (digits < target.size && is_digit(target.at[target.size - 1 - digits]))
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

/* A target: "/...", "*" for OPTIONS, "host:port" for CONNECT, or an absolute one (for proxies, and to be accepted). */
static bool parse_target(weft_text target, weft_text method) {
    if (!is_all(target.at, target.size, TARGET))
        return false;
    if (weft_text_is(method, "CONNECT"))
        return is_authority(target);
    if (target.size && target.at[0] == '/')
        return true;
    if (weft_text_is(target, "*"))
        return weft_text_is(method, "OPTIONS");
    return authority_end(target) > 0;
}

static int parse_request_line(const char *line, size_t size, struct wefti_http_head *head) {
    const char *first = memchr(line, ' ', size);
    if (!first)
        return -400;
    const char *target = first + 1, *second = memchr(target, ' ', size - (size_t)(target - line));
    if (!second)
        return -400;
    head->method = (weft_text){line, (size_t)(first - line)};
    head->target = (weft_text){target, (size_t)(second - target)};
    if (!wefti_http_is_token(head->method.at, head->method.size))
        return -400;
    int minor = parse_version(second + 1, size - (size_t)(second + 1 - line));
    if (minor < 0)
        return minor;
    head->minor = minor;
    return parse_target(head->target, head->method) ? 0 : -400;
}

int wefti_http_parse_request(const char *bytes, size_t size, const struct wefti_http_limits *limits,
                             struct wefti_http_head *head) {
    size_t at = 0, line;
    memset(head, 0, offsetof(struct wefti_http_head, field));
    if (size >= 2 && bytes[0] == '\r' && bytes[1] == '\n')
        at = 2; /* RFC 9112, 2.2: one empty line before a request, of clients that end a body with one too many */
    int found = find_line(bytes + at, size - at, &line);
    if (found < 0)
        return -400;
    if (found == 0)
        return size - at > limits->line + 1 ? -414 : 0; /* a CR may be the last that came */
    if (line > limits->line)
        return -414;
    int error = parse_request_line(bytes + at, line, head);
    if (error)
        return error;
    int used = parse_fields(bytes, size, at + line + 2, limits, head);
    if (used <= 0)
        return used;
    error = understand(head, true);
    return error ? error : used;
}

int wefti_http_parse_answer(const char *bytes, size_t size, const struct wefti_http_limits *limits,
                            struct wefti_http_head *head) {
    size_t line;
    memset(head, 0, offsetof(struct wefti_http_head, field));
    int found = find_line(bytes, size, &line);
    if (found <= 0)
        return found < 0 ? -400 : size > limits->line + 1 ? -431 : 0;
    if (line > limits->line)
        return -431;
    if (line < 12 || bytes[8] != ' ' || !is_digit(bytes[9]) || !is_digit(bytes[10]) || !is_digit(bytes[11]) ||
        (line > 12 && bytes[12] != ' ') || !wefti_http_is_value(bytes + 12, line - 12))
        return -400;
    head->minor = parse_version(bytes, 8);
    if (head->minor < 0)
        return -400;
    head->status = (bytes[9] - '0') * 100 + (bytes[10] - '0') * 10 + (bytes[11] - '0');
    if (head->status < 100)
        return -400;
    int used = parse_fields(bytes, size, line + 2, limits, head);
    if (used <= 0)
        return used;
    int error = understand(head, false);
    if (error)
        return error;
    if (head->status < 200 || head->status == 204 || head->status == 304)
        head->length = 0;
    return used;
}

/* -- Chunks -------------------------------------------------------------------------------------------------- */

#define CHUNK_LINE_MAX 256u

static int hex(char c) {
    c = lower(c);
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int wefti_http_parse_chunk(const char *bytes, size_t size, uint64_t *length) {
    size_t line, digits = 0;
    int found = find_line(bytes, size, &line);
    if (found < 0)
        return -400;
    if (found == 0)
        return size > CHUNK_LINE_MAX + 1 ? -400 : 0;
    uint64_t value = 0;
    for (; digits < line && hex(bytes[digits]) >= 0; digits++)
        value = value << 4 | (unsigned)hex(bytes[digits]);
    if (digits == 0 || digits > 15 || line > CHUNK_LINE_MAX)
        return -400;
    /* Extensions are allowed and ignored. */
    size_t at = digits;
    if (at < line && bytes[at++] != ';')
        return -400;
    while (at < line && (bytes[at] == ' ' || bytes[at] == '\t'))
        at++;
    if (digits < line &&
        (at == line || !(classes[(unsigned char)bytes[at]] & TOKEN) || !wefti_http_is_value(bytes + at, line - at)))
        return -400;
    *length = value;
    return (int)line + 2;
}

int wefti_http_parse_trailer(const char *bytes, size_t size, const struct wefti_http_limits *limits) {
    struct wefti_http_head ignored;
    return parse_fields(bytes, size, 0, limits, &ignored);
}
