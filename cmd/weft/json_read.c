/* json_read.c - JSON text to jansson's values (json_read.h). */
#include "json_read.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

struct reader {
    const char *at, *end;
    unsigned depth; /* brackets that may still be opened */
    size_t values;  /* values that may still come */
    unsigned id_depth; /* the value of `depth` inside a request; UINT_MAX: the text has no requests */
    bool is_id;        /* the next value is a request's id */
    const char *why;
    char *room; /* for strings with escapes; as long as the longest so far */
    size_t room_size;
};

static json_t *fail(struct reader *r, const char *why) {
    if (!r->why)
        r->why = why;
    return NULL;
}

static void skip_space(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

/* -- Strings ------------------------------------------------------------------------------------------ */

/* Four hexadecimal digits; -1. */
static int hex4(const char *at, const char *end) {
    int value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static size_t put_utf8(uint32_t point, char *out) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)((0xf00u >> length & 0xff) | point);
    return length;
}

/* Behind a backslash.  Its bytes to `out`; how many, 0: no such escape. */
static size_t take_escape(struct reader *r, char *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found = r->at < r->end && *r->at ? strchr(from, *r->at) : NULL;
    if (found) {
        r->at++;
        *out = to[found - from];
        return 1;
    }
    if (r->at == r->end || *r->at != 'u')
        return 0;
    int high = hex4(r->at + 1, r->end);
    if (high < 0)
        return 0;
    r->at += 5;
    if (high < 0xd800 || high > 0xdfff)
        return put_utf8((uint32_t)high, out);
    if (high > 0xdbff || r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
        return 0; /* half a pair */
    int low = hex4(r->at + 2, r->end);
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    r->at += 6;
    return put_utf8(0x10000 + ((uint32_t)(high - 0xd800) << 10 | (uint32_t)(low - 0xdc00)), out);
}

/* A string that has more than plain ASCII, from its beginning. */
static const char *take_mixed(struct reader *r, const char *from, size_t *size) {
    const char *quote = from;
    while (quote < r->end && *quote != '"') /* where it ends: decoded it is no longer */
        quote += *quote == '\\' && r->end - quote > 1 ? 2 : 1;
    if (quote == r->end)
        return (const char *)fail(r, "a string without an end");
    size_t need = (size_t)(quote - from) + 1, used = 0;
    if (need > r->room_size) {
        free(r->room);
        r->room = malloc(2 * need);
        r->room_size = r->room ? 2 * need : 0;
        if (!r->room)
            return (const char *)fail(r, "no memory");
    }
    r->at = from;
    while (*r->at != '"') {
        size_t length;
        if (*r->at == '\\') {
            r->at++;
            if (!(length = take_escape(r, r->room + used)))
                return (const char *)fail(r, "no such escape");
        } else {
            if ((unsigned char)*r->at < 0x20)
                return (const char *)fail(r, "a control character");
            if (!(length = text_utf8(r->at, (size_t)(r->end - r->at))))
                return (const char *)fail(r, "not UTF-8");
            memcpy(r->room + used, r->at, length);
            r->at += length;
        }
        used += length;
    }
    r->at++;
    *size = used;
    return r->room;
}

/* Behind its first quote.  In the text itself, or in `room` until the next. */
static const char *take_string(struct reader *r, size_t *size) {
    const char *from = r->at, *at = from;
    while (at < r->end && *at != '"' && *at != '\\' && (signed char)*at >= 0x20)
        at++;
    if (at == r->end || *at != '"')
        return take_mixed(r, from, size);
    r->at = at + 1;
    *size = (size_t)(at - from);
    return from;
}

/* -- Numbers ------------------------------------------------------------------------------------------ */

/* An id keeps a number that is too large; anything else must not have one. */
static json_t *too_large(struct reader *r, const char *from, size_t size, bool is_id, const char *why) {
    char small[64], *copy = size < sizeof small ? small : malloc(size + 1);
    if (!is_id || !copy) {
        if (copy != small)
            free(copy);
        return fail(r, is_id ? "no memory" : why);
    }
    copy[0] = JSON_AS_WRITTEN;
    memcpy(copy + 1, from, size);
    json_t *value = json_stringn_nocheck(copy, size + 1);
    if (copy != small)
        free(copy);
    return value;
}

static json_t *real_of(struct reader *r, const char *from, size_t size, bool is_id) {
    char small[64], *copy = size < sizeof small ? small : malloc(size + 1);
    if (!copy)
        return fail(r, "no memory");
    memcpy(copy, from, size);
    copy[size] = 0;
    double value = strtod(copy, NULL);
    if (copy != small)
        free(copy);
    return isinf(value) ? too_large(r, from, size, is_id, "a number beyond a double") : json_real(value);
}

static const char *digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

static json_t *take_number(struct reader *r, bool is_id) {
    const char *from = r->at, *end = r->end, *whole = from + (*from == '-'), *at = digits(whole, end);
    if (at == whole || (*whole == '0' && at > whole + 1))
        return fail(r, "not a number");
    bool real = false;
    if (at < end && *at == '.') {
        const char *fraction = at + 1;
        at = digits(fraction, end);
        if (at == fraction)
            return fail(r, "not a number");
        real = true;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        const char *exponent = at + 1;
        exponent += exponent < end && (*exponent == '+' || *exponent == '-');
        at = digits(exponent, end);
        if (at == exponent)
            return fail(r, "not a number");
        real = true;
    }
    r->at = at;
    if (real)
        return real_of(r, from, (size_t)(at - from), is_id);
    uint64_t value = 0, most = (uint64_t)INT64_MAX + (*from == '-');
    for (; whole < at; whole++) {
        unsigned digit = (unsigned)(*whole - '0');
        if (value > (most - digit) / 10)
            return too_large(r, from, (size_t)(at - from), is_id, "an integer beyond 64 bits");
        value = value * 10 + digit;
    }
    return json_integer(*from == '-' ? (json_int_t)(0 - value) : (json_int_t)value);
}

/* -- Values ------------------------------------------------------------------------------------------- */

static json_t *take_value(struct reader *r);

/* Behind an opening bracket: may there be one more? */
static bool open_bracket(struct reader *r) {
    if (!r->depth) {
        fail(r, "nested too deep");
        return false;
    }
    r->depth--;
    skip_space(r);
    return true;
}

/* A comma: 1.  The closing bracket: 0.  Else: -1. */
static int go_on(struct reader *r, char close) {
    skip_space(r);
    if (r->at < r->end && (*r->at == ',' || *r->at == close))
        return *r->at++ == ',';
    fail(r, close == ']' ? "expected , or ]" : "expected , or }");
    return -1;
}

static json_t *take_array(struct reader *r) {
    json_t *array = json_array();
    if (!array || !open_bracket(r)) {
        json_decref(array);
        return fail(r, "no memory");
    }
    int more = 1;
    if (r->at < r->end && *r->at == ']') {
        r->at++;
        more = 0;
    }
    while (more > 0) {
        json_t *value = take_value(r);
        if (!value || json_array_append_new(array, value)) {
            fail(r, "no memory");
            more = -1;
        } else {
            more = go_on(r, ']');
        }
    }
    r->depth++;
    if (more == 0)
        return array;
    json_decref(array);
    return NULL;
}

/* "name": value.  False: it is none, or it was there before. */
static bool take_member(struct reader *r, json_t *object) {
    char name[64], *copy = name;
    size_t size, before = json_object_size(object);
    skip_space(r);
    if (r->at == r->end || *r->at != '"')
        return fail(r, "expected a name");
    r->at++;
    const char *text = take_string(r, &size);
    if (!text)
        return false;
    if (memchr(text, 0, size))
        return fail(r, "a zero byte in a name");
    if (size >= sizeof name && !(copy = malloc(size + 1)))
        return fail(r, "no memory");
    memcpy(copy, text, size);
    copy[size] = 0;
    skip_space(r);
    json_t *value = NULL;
    if (r->at < r->end && *r->at == ':') {
        r->at++;
        r->is_id = r->depth == r->id_depth && !strcmp(copy, "id");
        value = take_value(r);
    } else {
        fail(r, "expected :");
    }
    bool good = value && !json_object_set_new_nocheck(object, copy, value);
    if (copy != name)
        free(copy);
    if (good && json_object_size(object) == before)
        return fail(r, "a name that was there before");
    return good || fail(r, "no memory");
}

static json_t *take_object(struct reader *r) {
    json_t *object = json_object();
    if (!object || !open_bracket(r)) {
        json_decref(object);
        return fail(r, "no memory");
    }
    int more = 1;
    if (r->at < r->end && *r->at == '}') {
        r->at++;
        more = 0;
    }
    while (more > 0)
        more = take_member(r, object) ? go_on(r, '}') : -1;
    r->depth++;
    if (more == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *take_word(struct reader *r, const char *word, size_t size, json_t *value) {
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, word, size) != 0)
        return fail(r, "not a value");
    r->at += size;
    return value;
}

/* Recurses at most `depth` times. */
static json_t *take_value(struct reader *r) {
    size_t size;
    const char *text;
    json_t *value;
    bool is_id = r->is_id;
    r->is_id = false;
    skip_space(r);
    if (r->at == r->end)
        return fail(r, "it ends too early");
    if (!r->values--)
        return r->values = 0, fail(r, "too many values");
    switch (*r->at) {
    case '"':
        r->at++;
        text = take_string(r, &size);
        value = text ? json_stringn_nocheck(text, size) : NULL;
        return value ? value : fail(r, "no memory");
    case '{': r->at++; return take_object(r);
    case '[': r->at++; return take_array(r);
    case 't': return take_word(r, "true", 4, json_true());
    case 'f': return take_word(r, "false", 5, json_false());
    case 'n': return take_word(r, "null", 4, json_null());
    default:
        if (*r->at != '-' && (*r->at < '0' || *r->at > '9'))
            return fail(r, "not a value");
        value = take_number(r, is_id);
        return value ? value : fail(r, "no memory");
    }
}

json_t *json_read(const char *text, size_t size, const struct json_limits *limits, const char **why, size_t *where) {
    struct reader r = {
        .at = text, .end = text + size, .depth = limits->depth, .values = limits->values, .id_depth = UINT_MAX};
    skip_space(&r);
    if (limits->requests && limits->depth > 2)
        r.id_depth = limits->depth - (r.at < r.end && *r.at == '[' ? 2 : 1);
    json_t *value = take_value(&r);
    if (value) {
        skip_space(&r);
        if (r.at < r.end) {
            json_decref(value);
            value = fail(&r, "something behind its end");
        }
    }
    free(r.room);
    if (!value) {
        *why = r.why;
        *where = (size_t)(r.at - text);
    }
    return value;
}
