/* json_read.h - JSON text to jansson's values: strict, and five times as fast as jansson's own reader.
 *
 * RFC 8259, and besides refused: names that occur twice in an object, a zero byte in a name, integers beyond 64 bits, reals beyond a double, more than
 * `depth` brackets inside each other, more than `values` values.  Otherwise it is json_loadb with JSON_REJECT_DUPLICATES,
 * JSON_DECODE_ANY and JSON_ALLOW_NUL: test/fuzz/node_json_read.c holds the two against each other.
 *
 * With `requests` the text is a JSON-RPC request or a batch of them, whose "id" may be any number, since an answer only repeats it: one that is beyond
 * 64 bits or a double becomes a string of JSON_AS_WRITTEN and the number as it was written.
 */
#ifndef WEFT_CMD_JSON_READ_H
#define WEFT_CMD_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>

struct json_limits {
    unsigned depth;
    size_t values;
    bool requests;
};

#define JSON_AS_WRITTEN '\xff' /* which is in no UTF-8 */

/* A new reference, or NULL: *why says what is wrong, *where at which byte. */
json_t *json_read(const char *text, size_t size, const struct json_limits *limits, const char **why, size_t *where);

#endif
