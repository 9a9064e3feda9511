/* url.c - URLs of HTTP and WebSocket, taken apart: strict, in place. */
#include <errno.h>
#include <string.h>

#include "http/chars.h"
#include "http/parse.h"

static const struct scheme {
    const char *name;
    uint16_t port;
    bool secure;
} schemes[] = {{"http", 80, false}, {"https", 443, true}, {"ws", 80, false}, {"wss", 443, true}};

/* Digits of a port, 1 to 65535; none are the scheme's (RFC 3986, 3.2.3).  -1: malformed. */
static int parse_port(const char *at, size_t size, int port) {
    if (size)
        port = 0;
    for (size_t i = 0; i < size; i++) {
        if (size > 5 || at[i] < '0' || at[i] > '9')
            return -1;
        port = 10 * port + (at[i] - '0');
    }
    return port >= 1 && port <= 65535 ? port : -1;
}

/* A name, a numeric address, or one in brackets: [::1].  Nothing else can be in a Host field. */
static bool parse_host(weft_text host, weft_text *out) {
    if (host.size && host.at[0] == '[') {
        *out = (weft_text){host.at + 1, host.size - 2};
        return host.size > 2 && host.at[host.size - 1] == ']' && wefti_http_is_ipv6(out->at, out->size);
    }
    for (size_t i = 0; i < host.size; i++) {
        char c = host.at[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
              c == '_'))
            return false;
    }
    *out = host;
    return host.size > 0 && host.size < 256;
}

int weft_url_parse(const char *text, weft_url *out) {
    weft_url url = {.port = 0};
    if (!text || !out)
        return -EINVAL;
    size_t size = strcspn(text, ":");
    url.scheme = (weft_text){text, size};
    const struct scheme *scheme = NULL;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (weft_text_is_nocase(url.scheme, schemes[i].name))
            scheme = &schemes[i];
    if (!scheme || strncmp(text + size, "://", 3))
        return -EINVAL;
    const char *at = text + size + 3;
    url.secure = scheme->secure;
    url.port = scheme->port;
    size = strcspn(at, "/?#"); /* the host and its port */
    url.authority = (weft_text){at, size};
    size_t host = at[0] == '[' ? strcspn(at, "]") + 1 : strcspn(at, ":/?#");
    if (host > size || !parse_host((weft_text){at, host}, &url.host))
        return -EINVAL;
    if (host < size) {
        int port = at[host] == ':' ? parse_port(at + host + 1, size - host - 1, scheme->port) : -1;
        if (port < 0)
            return -EINVAL;
        url.port = (uint16_t)port;
    }
    at += size;
    url.target = (weft_text){at, strcspn(at, "#")}; /* what is behind a # is the client's own business */
    for (size_t i = 0; at[i]; i++)
        if (at[i] <= ' ' || at[i] >= 127)
            return -EINVAL;
    if (url.target.size == 0)
        url.target = (weft_text){"/", 1};
    else if (*at == '?')
        return -EINVAL; /* "http://a?b" would need a "/" that is not there */
    *out = url;
    return 0;
}
