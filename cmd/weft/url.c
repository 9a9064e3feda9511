/* url.c - http://HOST[:PORT][/PATH] (url.h). */
#include "url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int url_parse(const char *text, struct url *out) {
    if (strncmp(text, "http://", 7) != 0)
        return -EINVAL;
    const char *host = text + 7, *end = host + strcspn(host, "/?#"), *colon = memchr(host, ':', (size_t)(end - host));
    const char *bracket = *host == '[' ? memchr(host, ']', (size_t)(end - host)) : NULL;
    if (*host == '[') {
        if (!bracket || (bracket + 1 < end && bracket[1] != ':'))
            return -EINVAL;
        colon = bracket + 1 < end ? bracket + 1 : NULL;
    }
    size_t size = bracket ? (size_t)(bracket - host) - 1 : (size_t)((colon ? colon : end) - host);
    char *rest = NULL;
    long port = colon ? strtol(colon + 1, &rest, 10) : 80;
    if (size == 0 || size >= sizeof out->host || port < 1 || port > 65535 || (colon && rest != end) ||
        (size_t)(end - host) >= sizeof out->authority || strlen(end) + 2 > sizeof out->target)
        return -EINVAL;
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~')
            return -EINVAL;
    memcpy(out->host, host + (bracket ? 1 : 0), size);
    out->host[size] = 0;
    memcpy(out->authority, host, (size_t)(end - host));
    out->authority[end - host] = 0;
    out->port = (int)port;
    snprintf(out->target, sizeof out->target, "%s%s", *end == '/' ? "" : "/", end);
    return 0;
}

int url_connect(const struct url *url, weft_io **out, weft_deadline until, char *why, size_t room) {
    int error = weft_tcp_connect(url->host, url->port, out, until);
    if (error)
        snprintf(why, room, "%s: %s", url->authority, error == -ENOENT ? "no such name" : weft_strerror(error));
    return error;
}
