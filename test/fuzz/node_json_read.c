/* node_json_read.c - our reader of JSON against jansson's, on any bytes (libFuzzer): both refuse it, or both read the same. */
#include "json_read.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void expect(bool claim) {
    if (!claim)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const struct json_limits limits = {64, 1000, false};
    json_error_t error;
    const char *why = NULL;
    size_t where = 0;
    char *text = malloc(size + !size); /* ends where the bytes do */
    expect(text != NULL);
    memcpy(text, bytes, size);
    json_t *ours = json_read(text, size, &limits, &why, &where);
    json_t *theirs = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (ours) {
        expect(theirs && json_equal(ours, theirs));
    } else {
        expect(why && where <= size);
        /* Our limits; and jansson 2.14 overlooks a zero byte behind a number. */
        expect(!theirs || !strcmp(why, "nested too deep") || !strcmp(why, "too many values") || memchr(text, 0, size));
    }
    json_decref(ours);
    json_decref(theirs);
    free(text);
    return 0;
}
