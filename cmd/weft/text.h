/* text.h - text that grows: what answers, pages and metrics are put together in. */
#ifndef WEFT_CMD_TEXT_H
#define WEFT_CMD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* All zero is an empty one.  Without memory it stops growing, and `failed` says so: look once, at the end. */
struct text {
    char *at;
    size_t size, room;
    bool failed;
};

void text_free(struct text *text);
/* Room for so many more bytes; NULL without memory.  The caller writes at the result and adds to `size`. */
char *text_room(struct text *text, size_t more);
void text_add(struct text *text, const void *bytes, size_t size);
static inline void text_put(struct text *text, const char *string) { text_add(text, string, strlen(string)); }
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_u64(struct text *text, uint64_t number);
void text_hex(struct text *text, const void *bytes, size_t size);

/* How long the character is that begins here: 1 to 4 bytes of well-formed UTF-8; 0 if none does. */
size_t text_utf8(const void *bytes, size_t left);
/* The same, but 0 also for one that a terminal might obey (C0, DEL, C1). */
size_t text_harmless(const void *bytes, size_t left);

/* -- JSON -------------------------------------------------------------------------------------------- */

/* A string with its quotes.  Bytes that are no UTF-8 become U+FFFD; control characters and DEL are escaped, so that it is
 * harmless on a terminal and in a log too. */
void text_json(struct text *text, const void *bytes, size_t size);
/* "name": before a value; with a comma, unless it is the first behind a bracket. */
void text_name(struct text *text, const char *name);
void text_name_u64(struct text *text, const char *name, uint64_t value);
void text_name_string(struct text *text, const char *name, const char *value);
void text_name_hex(struct text *text, const char *name, const void *bytes, size_t size);
/* Any bytes: a string if they are UTF-8, else {"hex": "..."}. */
void text_bytes(struct text *text, const void *bytes, size_t size);

#endif
