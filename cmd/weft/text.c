/* text.c - text that grows (text.h). */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char digits[] = "0123456789abcdef";

void text_free(struct text *text) {
    free(text->at);
    *text = (struct text){0};
}

char *text_room(struct text *text, size_t more) {
    if (text->failed || more > SIZE_MAX / 4 || text->size > SIZE_MAX / 4) {
        text->failed = true;
        return NULL;
    }
    if (text->room - text->size < more) {
        size_t room = text->room ? 2 * text->room : 512;
        while (room - text->size < more)
            room *= 2;
        char *at = realloc(text->at, room);
        if (!at) {
            text->failed = true;
            return NULL;
        }
        text->at = at;
        text->room = room;
    }
    return text->at + text->size;
}

void text_add(struct text *text, const void *bytes, size_t size) {
    char *at = text_room(text, size);
    if (at && size) {
        memcpy(at, bytes, size);
        text->size += size;
    }
}

void text_format(struct text *text, const char *format, ...) {
    va_list list;
    char *at = text_room(text, 256);
    if (!at)
        return;
    va_start(list, format);
    int size = vsnprintf(at, 256, format, list);
    va_end(list);
    if (size >= 256 && (at = text_room(text, (size_t)size + 1))) {
        va_start(list, format);
        vsnprintf(at, (size_t)size + 1, format, list);
        va_end(list);
    }
    if (at && size > 0)
        text->size += (size_t)size;
}

void text_u64(struct text *text, uint64_t number) {
    char decimal[20];
    size_t at = sizeof decimal;
    do
        decimal[--at] = (char)('0' + number % 10);
    while (number /= 10);
    text_add(text, decimal + at, sizeof decimal - at);
}

void text_hex(struct text *text, const void *bytes, size_t size) {
    const unsigned char *from = bytes;
    char *at = text_room(text, 2 * size);
    if (!at)
        return;
    for (size_t i = 0; i < size; i++) {
        *at++ = digits[from[i] >> 4];
        *at++ = digits[from[i] & 15];
    }
    text->size += 2 * size;
}

/* -- JSON -------------------------------------------------------------------------------------------- */

size_t text_utf8(const void *bytes, size_t left) {
    const unsigned char *at = bytes;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (left && at[0] < 0x80)
        return 1;
    if (left < 2)
        return 0;
    size_t length = at[0] >= 0xc2 && at[0] < 0xe0   ? 2
                    : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                    : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                    : 0;
    if (length == 0 || length > left)
        return 0;
    uint32_t point = at[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (at[i] & 0x3f);
    }
    return point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ? 0 : length;
}

size_t text_harmless(const void *bytes, size_t left) {
    const unsigned char *at = bytes;
    size_t length = left ? text_utf8(at, left) : 0;
    bool c1 = length == 2 && at[0] == 0xc2 && at[1] < 0xa0;
    return length == 1 && (at[0] < 0x20 || at[0] == 0x7f) ? 0 : c1 ? 0 : length;
}

static bool is_utf8(const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    for (size_t i = 0, length; i < size; i += length)
        if (!(length = text_utf8(at + i, size - i)))
            return false;
    return true;
}

void text_json(struct text *text, const void *bytes, size_t size) {
    const unsigned char *from = bytes;
    text_add(text, "\"", 1);
    for (size_t i = 0, plain = 0, length; i <= size; i += length) {
        unsigned char c = i < size ? from[i] : 0;
        length = i < size ? text_utf8(from + i, size - i) : 1;
        /* C1 controls (U+0080 ... U+009F) too: a terminal may take them for escapes. */
        bool c1 = length == 2 && c == 0xc2 && from[i + 1] < 0xa0;
        if (i < size && length && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && !c1)
            continue;
        text_add(text, from + plain, i - plain);
        if (i == size)
            break;
        if (!length)
            text_add(text, "\xef\xbf\xbd", 3);
        else if (c == '"' || c == '\\')
            text_add(text, (char[]){'\\', (char)c}, 2);
        else if (c == '\n' || c == '\t' || c == '\r')
            text_add(text, c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r", 2);
        else
            text_format(text, "\\u%04x", c1 ? from[i + 1] : c);
        length = length ? length : 1;
        plain = i + length;
    }
    text_add(text, "\"", 1);
}

void text_name(struct text *text, const char *name) {
    char last = text->size ? text->at[text->size - 1] : '{';
    if (last != '{' && last != '[')
        text_add(text, ",", 1);
    text_add(text, "\"", 1);
    text_put(text, name);
    text_add(text, "\":", 2);
}

void text_name_u64(struct text *text, const char *name, uint64_t value) {
    text_name(text, name);
    text_u64(text, value);
}

void text_name_string(struct text *text, const char *name, const char *value) {
    text_name(text, name);
    text_json(text, value, strlen(value));
}

void text_name_hex(struct text *text, const char *name, const void *bytes, size_t size) {
    text_name(text, name);
    text_add(text, "\"", 1);
    text_hex(text, bytes, size);
    text_add(text, "\"", 1);
}

void text_bytes(struct text *text, const void *bytes, size_t size) {
    if (is_utf8(bytes, size)) {
        text_json(text, bytes, size);
        return;
    }
    text_put(text, "{\"hex\":\"");
    text_hex(text, bytes, size);
    text_put(text, "\"}");
}
