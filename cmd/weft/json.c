/* json.c - texts as JSON writes them. */
#include <stdarg.h>
#include <stdio.h>

#include "exec.h"

void json_put_text(struct bytes *out, const char *text) { bytes_put(out, text, strlen(text)); }

void json_format(struct bytes *out, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof text)
        out->failed = true;
    else
        bytes_put(out, text, (size_t)size);
}

static void put_hex(struct bytes *out, const unsigned char *data, size_t size) {
    json_put_text(out, "{\"hex\":\"");
    unsigned char *at = bytes_add(out, 2 * size);
    for (size_t i = 0; at && i < size; i++) {
        at[2 * i] = (unsigned char)"0123456789abcdef"[data[i] >> 4];
        at[2 * i + 1] = (unsigned char)"0123456789abcdef"[data[i] & 15];
    }
    json_put_text(out, "\"}");
}

void json_put(struct bytes *out, const void *data, size_t size) {
    const unsigned char *at = data;
    if (!text_is_utf8(data, size)) {
        put_hex(out, at, size);
        return;
    }
    bytes_put8(out, '"');
    for (size_t i = 0; i < size; i++)
        if (at[i] == '"' || at[i] == '\\') {
            bytes_put8(out, '\\');
            bytes_put8(out, at[i]);
        } else if (at[i] < 0x20 || at[i] == 0x7f) {
            json_format(out, "\\u%04x", at[i]);
        } else {
            bytes_put8(out, at[i]);
        }
    bytes_put8(out, '"');
}
