/* web.c - HTTP requests: who may ask, and where they go. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <weft/fiber.h>

#include "node.h"

#define THROTTLED INT64_C(1000000000)

static int say(weft_http *x, int status, const char *text) {
    return weft_http_reply(x, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* -- The page ----------------------------------------------------------------------------------------- */

#define NONCE "@NONCE@"

/* Its scripts and styles carry a nonce that is new each time; nothing else runs, and nothing is loaded from elsewhere. */
static int serve_page(weft_http *x) {
    unsigned char random[16];
    struct text page = {0}, nonce = {0}, policy = {0};
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return -EIO;
    text_hex(&nonce, random, sizeof random);
    text_add(&nonce, "", 1);
    for (const char *at = (const char *)node_page, *end = at + node_page_size; at < end;) {
        const char *mark = memmem(at, (size_t)(end - at), NONCE, strlen(NONCE));
        text_add(&page, at, (size_t)((mark ? mark : end) - at));
        if (mark && !nonce.failed)
            text_put(&page, nonce.at);
        at = mark ? mark + strlen(NONCE) : end;
    }
    text_format(&policy,
                "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; img-src data:; "
                "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                nonce.failed ? "" : nonce.at, nonce.failed ? "" : nonce.at);
    text_add(&policy, "", 1);
    int error = page.failed || nonce.failed || policy.failed ? -ENOMEM : 0;
    if (!error && !(error = weft_http_set(x, "Content-Security-Policy", policy.at)))
        error = weft_http_reply(x, 200, "text/html; charset=utf-8", page.at, page.size);
    text_free(&page);
    text_free(&nonce);
    text_free(&policy);
    return error;
}

/* -- Streams and figures ------------------------------------------------------------------------------ */

/* A value of the query, with %XX undone, or false.  `+` stays what it is. */
static bool query_value(weft_text query, const char *name, char *out, size_t room) {
    size_t size = strlen(name), used = 0;
    for (const char *at = query.at, *end = at + query.size; at && at < end;) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > size && !memcmp(at, name, size) && at[size] == '=') {
            for (at += size + 1; at < stop && used + 1 < room; at++) {
                char pair[3] = {0};
                if (*at == '%' && stop - at > 2 && strspn(memcpy(pair, at + 1, 2), "0123456789abcdefABCDEF") == 2) {
                    out[used++] = (char)strtoul(pair, NULL, 16);
                    at += 2;
                } else {
                    out[used++] = *at;
                }
            }
            out[used] = 0;
            return at == stop && !memchr(out, 0, used);
        }
        at = stop + 1;
    }
    return false;
}

static int serve_events(struct node *node, weft_http *x) {
    char shard[NODE_NAME + 2], number[24] = "";
    weft_text query = weft_http_query(x), last = weft_http_field(x, "Last-Event-ID");
    bool one = query_value(query, "shard", shard, sizeof shard);
    if (query.size && !one)
        return say(x, 400, "the only parameter is shard=NAME\n");
    if (one && !weft_shard_find(ledger_lane(node->ledger), shard))
        return say(x, 404, "Shard not found\n");
    if (last.size < sizeof number && last.size)
        memcpy(number, last.at, last.size);
    return feed_serve(&node->feed, x, one ? shard : NULL, strtoull(number, NULL, 10));
}

static int serve_metrics(struct node *node, weft_http *x) {
    struct text out = {0};
    node_metrics_text(node, &out);
    int error =
        out.failed ? -ENOMEM : weft_http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", out.at, out.size);
    text_free(&out);
    return error;
}

/* -- JSON-RPC ----------------------------------------------------------------------------------------- */

/* "application/json", with or without parameters.  A page of another site cannot send this type without asking first, and is refused then. */
static bool is_json(weft_text type) {
    const char *end = memchr(type.at, ';', type.size);
    size_t size = end ? (size_t)(end - type.at) : type.size;
    while (size && (type.at[size - 1] == ' ' || type.at[size - 1] == '\t'))
        size--;
    return weft_text_is_nocase((weft_text){type.at, size}, "application/json");
}

/* False: it was answered, with *error. */
static bool admit(struct node *node, weft_http *x, struct node_peer *peer, int *error) {
    weft_addr addr = {0};
    weft_text given = weft_http_field(x, "Authorization");
    if (!given.at)
        return true;
    weft_peer_addr(weft_http_io(x), &addr);
    switch (auth_check(&node->auth, given, auth_peer(&addr), weft_now())) {
    case AUTH_NONE: return true;
    case AUTH_RIGHT: peer->may_write = true; return true;
    case AUTH_WRONG:
        meter_count(&node->meter.unauthorized);
        weft_http_set(x, "WWW-Authenticate", "Bearer");
        *error = say(x, 401, "wrong token\n");
        return false;
    case AUTH_THROTTLED:
        meter_count(&node->meter.throttled);
        if ((*error = weft_sleep(THROTTLED))) /* so that a connection makes one try per second */
            return false;
        weft_http_set(x, "Retry-After", "1");
        *error = say(x, 429, "too many wrong tokens\n");
        return false;
    }
    return false;
}

static int serve_rpc(struct node *node, weft_http *x) {
    struct node_peer peer = {false};
    struct text out = {0};
    void *body;
    int error = 0;
    weft_text type = weft_http_field(x, "Content-Type");
    if (!type.at || !is_json(type))
        return say(x, 415, "Content-Type must be application/json\n");
    if (!admit(node, x, &peer, &error))
        return error;
    ssize_t size = weft_http_read_all(x, &body);
    if (size == -EMSGSIZE)
        return say(x, 413, "a request has at most 1 MiB\n");
    if (size < 0)
        return (int)size;
    int answer = rpc_answer(&node_service, node, &peer, body, (size_t)size, &out);
    if (out.failed)
        error = -ENOMEM;
    else if (answer == 0)
        error = weft_http_reply(x, 204, NULL, NULL, 0);
    else {
        if (answer == RPC_UNAUTHORIZED) {
            meter_count(&node->meter.unauthorized);
            weft_http_set(x, "WWW-Authenticate", "Bearer");
        }
        error = weft_http_reply(x, answer == RPC_UNAUTHORIZED ? 401 : 200, "application/json", out.at, out.size);
    }
    text_free(&out);
    return error;
}

/* -- Every request ------------------------------------------------------------------------------------ */

static int not_allowed(weft_http *x, const char *allowed) {
    weft_http_set(x, "Allow", allowed);
    return say(x, 405, "method not allowed\n");
}

int node_handle(weft_http *x, void *arg) {
    struct node *node = arg;
    weft_text host = weft_http_field(x, "Host"), path = weft_http_path(x), method = weft_http_method(x);
    bool get = weft_text_is(method, "GET") || weft_text_is(method, "HEAD"), post = weft_text_is(method, "POST");
    meter_count(&node->meter.http);
    weft_http_set(x, "X-Content-Type-Options", "nosniff");
    weft_http_set(x, "Cache-Control", "no-store");
    weft_http_set(x, "Referrer-Policy", "no-referrer");
    weft_http_set(x, "Cross-Origin-Resource-Policy", "same-origin");
    if (!auth_host_is_good(&node->auth, host)) {
        meter_count(&node->meter.refused_host);
        return say(x, 421, "unknown Host: start the node with --host NAME to allow it\n");
    }
    if (!auth_origin_is_good(weft_http_field(x, "Origin"), host)) {
        meter_count(&node->meter.refused_origin);
        return say(x, 403, "requests from other origins are refused\n");
    }
    if (weft_text_is(path, "/"))
        return post ? serve_rpc(node, x) : get ? serve_page(x) : not_allowed(x, "GET, HEAD, POST");
    if (weft_text_is(path, "/rpc"))
        return post ? serve_rpc(node, x) : not_allowed(x, "POST");
    if (weft_text_is(path, "/events"))
        return weft_text_is(method, "GET") ? serve_events(node, x) : not_allowed(x, "GET");
    if (weft_text_is(path, "/metrics"))
        return get ? serve_metrics(node, x) : not_allowed(x, "GET, HEAD");
    return say(x, 404, "not found\n");
}
