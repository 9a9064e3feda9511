/* http_url.c - URLs of any bytes (libFuzzer): nothing is read outside them, and what is accepted makes a Host field and a target that our own
 * server accepts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct wefti_http_limits limits = {8000, 16384, 20};
static struct wefti_http_head head;

static void expect(bool claim) {
    if (!claim)
        abort();
}

static bool lies_in(weft_text text, const char *from, size_t size) {
    return text.at >= from && text.at + text.size <= from + size;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char *text = malloc(size + 1), request[8192];
    weft_url url;
    expect(text != NULL);
    memcpy(text, bytes, size);
    text[size] = 0;
    if (weft_url_parse(text, &url) == 0) {
        expect(url.port > 0 && url.host.size > 0 && url.target.size > 0 && url.target.at[0] == '/');
        expect(lies_in(url.scheme, text, size) && lies_in(url.authority, text, size));
        expect(lies_in(url.host, url.authority.at, url.authority.size));
        int n = snprintf(request, sizeof request, "GET %.*s HTTP/1.1\r\nHost: %.*s\r\n\r\n", (int)url.target.size,
                         url.target.at, (int)url.authority.size, url.authority.at);
        if (n < 7000)
            expect(wefti_http_parse_request(request, (size_t)n, &limits, &head) == n && head.count == 1);
    }
    /* The same bytes as a reference: whatever comes out is a URL, and means itself. */
    char joined[512], again[512];
    int length = weft_url_join("http://a/b/c/d?e", (weft_text){text, size}, joined, sizeof joined);
    if (length >= 0) {
        expect(strlen(joined) == (size_t)length && weft_url_parse(joined, &url) == 0 && !strchr(joined, '#'));
        expect(weft_url_join("https://x/y", (weft_text){joined, (size_t)length}, again, sizeof again) == length);
        expect(strcmp(joined, again) == 0);
    }
    free(text);
    return 0;
}
