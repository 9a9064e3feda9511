/* parse.h - heads of HTTP/1.1 messages and chunk lines: strict, in place, without memory of its own.  Internal.
 *
 * Every parser looks at bytes from the beginning and says how many it has used, 0 when there are not enough yet, or why not: a negative
 * HTTP status.  What it accepts is what RFC 9112 lets a sender produce; where the RFC lets a receiver be lenient (line ends without CR,
 * folded lines, spaces before a colon), this one is not.
 */
#ifndef WEFTI_HTTP_PARSE_H
#define WEFTI_HTTP_PARSE_H

#include <weft/http.h>

struct wefti_http_field {
    weft_text name, value;
};

#define WEFTI_HTTP_CHUNKED INT64_C(-1)
#define WEFTI_HTTP_UNTIL_CLOSE INT64_C(-2) /* an answer without a length */

struct wefti_http_limits {
    size_t line, head;
    unsigned fields;
};

struct wefti_http_head {
    weft_text method, target; /* of a request */
    int status;               /* of an answer */
    int minor;                /* HTTP/1.minor */
    unsigned count;
    bool keep_alive, expects_continue, has_host;
    weft_text upgrade;        /* the Upgrade field, when Connection says so */
    int64_t length;           /* of the body, or one of the above */
    struct wefti_http_field field[WEFT_HTTP_FIELDS_MAX];
};

/* A request's head, with the empty line at its end.  Returns its size; 0: more bytes; -400, -414, -417, -431, -501, -505. */
int wefti_http_parse_request(const char *bytes, size_t size, const struct wefti_http_limits *limits,
                             struct wefti_http_head *head);
/* An answer's head.  Returns its size; 0; -400 (malformed); -431. */
int wefti_http_parse_answer(const char *bytes, size_t size, const struct wefti_http_limits *limits,
                            struct wefti_http_head *head);

/* The line before a chunk: its size into *length.  Returns the line's size; 0; -400. */
int wefti_http_parse_chunk(const char *bytes, size_t size, uint64_t *length);
/* The trailer after the last chunk, with its empty line; fields are checked and dropped.  Returns its size; 0; -400, -431. */
int wefti_http_parse_trailer(const char *bytes, size_t size, const struct wefti_http_limits *limits);

/* The path of a target that was accepted, also of an absolute one. */
weft_text wefti_http_path(weft_text target);

/* Does a list, "a, b, c", have this element? */
bool wefti_http_has_element(weft_text list, const char *element);

/* May this be a field's name, or its value?  For what the user sends. */
bool wefti_http_is_token(const char *text, size_t size);
bool wefti_http_is_value(const char *text, size_t size);

#endif
