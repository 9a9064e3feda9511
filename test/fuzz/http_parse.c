/* http_parse.c - the parsers of HTTP on any bytes (libFuzzer): nothing is read outside them, and what is accepted does not depend on how it arrives.
 *
 * The first byte says which parser.  Copies end where the bytes do, so that the sanitizer sees a byte too far. */
#include "http/parse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct wefti_http_limits limits = {200, 1000, 20};
static struct wefti_http_head head;

static void expect(bool claim) {
    if (!claim)
        abort();
}

static int parse(unsigned kind, const uint8_t *bytes, size_t size) {
    char *copy = malloc(size ? size : 1);
    uint64_t length;
    expect(copy != NULL);
    memcpy(copy, bytes, size);
    int used = kind == 0   ? wefti_http_parse_request(copy, size, &limits, &head)
               : kind == 1 ? wefti_http_parse_answer(copy, size, &limits, &head)
               : kind == 2 ? wefti_http_parse_chunk(copy, size, &length)
                           : wefti_http_parse_trailer(copy, size, &limits);
    if (used > 0 && kind < 2) { /* every text lies within the head */
        expect(head.count <= limits.fields && head.length >= WEFTI_HTTP_UNTIL_CLOSE);
        for (unsigned i = 0; i < head.count; i++) {
            expect(head.field[i].name.at >= copy && head.field[i].value.at >= copy);
            expect(head.field[i].value.at + head.field[i].value.size <= copy + used);
        }
        if (kind == 0)
            expect(wefti_http_path(head.target).size > 0 && (head.minor == 0 || head.has_host));
    }
    free(copy);
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size == 0)
        return 0;
    unsigned kind = bytes[0] & 3;
    bytes++, size--;
    int used = parse(kind, bytes, size), before = 0;
    expect(used <= (int)size && used > -600);
    if (used > 0)
        expect(parse(kind, bytes, (size_t)used) == used);
    for (size_t part = 0; part < (used > 0 ? (size_t)used : size) && part < 300; part++) {
        int found = parse(kind, bytes, part);
        expect(found <= 0 && (used < 0 || found == 0) && (before == 0 || found < 0));
        before = found;
    }
    return 0;
}
