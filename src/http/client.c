/* client.c - connections to servers: opened, secured, closed or kept for the next; WebSockets (ask.c has the requests). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <weft/net.h>

#include "http/client.h"
#include "http/digest.h"

#define HEAD_MAX 65536u
#define BODY_TIMEOUT INT64_C(30000000000) /* for frames of a WebSocket */
#define KEY_SIZE 24u

int weft_http_client_open(weft_io *connection, const char *host, weft_http_client **out) {
    if (!connection || !host || !out || strlen(host) >= WEFTI_AUTHORITY_MAX || !wefti_http_is_value(host, strlen(host)))
        return -EINVAL;
    struct weft_http_client *client = wefti_alloc(sizeof *client);
    if (!client)
        return -ENOMEM;
    client->options = (weft_http_options)WEFT_HTTP_OPTIONS_INIT;
    client->options.max_head = HEAD_MAX;
    client->options.max_line = 8192;
    client->options.max_fields = WEFT_HTTP_FIELDS_MAX;
    client->options.body_timeout = BODY_TIMEOUT;
    client->x = wefti_http_take(connection, &client->options);
    if (!client->x) {
        wefti_free(client, sizeof *client);
        return -ENOMEM;
    }
    client->open = true;
    client->before = 0;
    client->x->upgraded = false;
    client->x->head.count = 0;
    client->x->body.ended = true;
    client->x->body.error = 0;
    memcpy(client->host, host, strlen(host) + 1);
    *out = client;
    return 0;
}

void weft_http_client_close(weft_http_client *client) {
    if (!client)
        return;
    struct weft_http *x = client->x;
    bool again = client->pool && client->open && x->body.ended && x->in_to == x->in_from && wefti_io_is_silent(x->io);
    wefti_client_drop_head(client);
    wefti_http_give(x);
    if (client->pool)
        wefti_http_pool_give(client->pool, client->host, client->secure, again ? client->own : NULL);
    if (!again)
        weft_close(client->own);
    wefti_free(client, sizeof *client);
}

/* -- By URL ---------------------------------------------------------------------------------------------------- */

static struct {
    struct wefti_lock lock;
    weft_http_secure_fn fn;
    void *arg;
    uint64_t turn; /* how often it was set: what another has made secure, by other rules, is not used again */
} secure;

void weft_http_secure(weft_http_secure_fn fn, void *arg) {
    wefti_lock_take(&secure.lock);
    secure.fn = fn;
    secure.arg = arg;
    secure.turn++;
    wefti_lock_give(&secure.lock);
}

/* Closes the connection when it fails.  *turn: who has done it. */
static int make_secure(weft_io **io, const char *host, int64_t until, uint64_t *turn) {
    wefti_lock_take(&secure.lock);
    weft_http_secure_fn fn = secure.fn;
    void *arg = secure.arg;
    *turn = secure.turn;
    wefti_lock_give(&secure.lock);
    if (fn)
        return fn(*io, host, until, arg, io);
    weft_close(*io);
    return -EPROTONOSUPPORT;
}

/* What a connection that waits must be, to be used for this. */
static uint64_t secure_turn(const weft_url *url) {
    wefti_lock_take(&secure.lock);
    uint64_t turn = secure.turn;
    wefti_lock_give(&secure.lock);
    return url->secure ? turn : 0;
}

/* Its parts as C strings.  0; -EINVAL. */
static int take_apart(const char *text, weft_url *url, char host[256], char authority[WEFTI_AUTHORITY_MAX]) {
    int error = weft_url_parse(text, url);
    if (error || url->authority.size >= WEFTI_AUTHORITY_MAX)
        return -EINVAL;
    memcpy(host, url->host.at, url->host.size);
    host[url->host.size] = 0;
    memcpy(authority, url->authority.at, url->authority.size);
    authority[url->authority.size] = 0;
    return 0;
}

/* A client that owns its connection, which it closes when it fails. */
static int own(weft_io *io, const char *authority, uint64_t is_secure, weft_http_client **out) {
    int error = weft_http_client_open(io, authority, out);
    if (error) {
        weft_close(io);
        return error;
    }
    (*out)->own = io;
    (*out)->secure = is_secure;
    return 0;
}

int weft_http_connect(const char *text, weft_deadline until, weft_http_client **out) {
    char host[256], authority[WEFTI_AUTHORITY_MAX];
    weft_url url;
    weft_io *io;
    uint64_t turn = 0;
    int error = out ? take_apart(text, &url, host, authority) : -EINVAL;
    if (!error)
        error = weft_tcp_connect(host, url.port, &io, until);
    if (!error && url.secure)
        error = make_secure(&io, host, until, &turn);
    return error ? error : own(io, authority, turn, out);
}

int wefti_http_pool_connect(weft_http_pool *pool, const char *text, bool fresh, int64_t until, weft_http_client **out,
                            bool *used) {
    char host[256], authority[WEFTI_AUTHORITY_MAX];
    weft_url url;
    weft_http_client *client;
    int error = take_apart(text, &url, host, authority);
    uint64_t turn = error ? 0 : secure_turn(&url);
    bool none = error || !pool || fresh || (url.secure && !turn); /* nobody has ever made one secure */
    weft_io *io = none ? NULL : wefti_http_pool_take(pool, authority, turn);
    *used = io != NULL;
    if (!error)
        error = io ? own(io, authority, turn, &client) : weft_http_connect(text, until, &client);
    if (error)
        return error;
    if (pool)
        wefti_http_pool_ref(client->pool = pool);
    *out = client;
    return 0;
}

int weft_http_pool_connect(weft_http_pool *pool, const char *url, weft_deadline until, weft_http_client **out) {
    bool used;
    return pool && out ? wefti_http_pool_connect(pool, url, false, until, out, &used) : -EINVAL;
}

weft_io *weft_http_client_io(const weft_http_client *client) { return client ? client->x->io : NULL; }

/* Nothing may come between two answers: what has is the end, an error, or an answer to nothing. It may be in our own buffer already. */
bool weft_http_client_is_open(const weft_http_client *client) {
    if (!client || !client->open)
        return false;
    const struct weft_http *x = client->x;
    return !x->body.ended || (x->in_from == x->in_to && wefti_io_is_silent(x->io));
}

/* -- WebSocket ------------------------------------------------------------------------------------------------- */

#define PROTOCOL "Sec-WebSocket-Protocol"

/* Is it one of those that these fields, which are well formed, have asked for?  Case counts. */
static bool is_offered(const char *fields, weft_text protocol) {
    static const size_t name = sizeof PROTOCOL - 1;
    for (const char *at = fields; at && *at; at = strchr(at, '\n') + 1) {
        if (strncasecmp(at, PROTOCOL ":", name + 1))
            continue;
        for (at += name; *at != '\r';) {
            at += 1 + strspn(at + 1, " \t");
            size_t size = strcspn(at, ", \t\r");
            if (size && size == protocol.size && !memcmp(at, protocol.at, size))
                return true;
            at += size + strcspn(at + size, ",\r");
        }
    }
    return false;
}

/* A server may choose one protocol of those, or none (RFC 6455, 4.1). */
static bool is_choice(const struct weft_http *x, const char *fields) {
    unsigned count = 0;
    for (unsigned i = 0; i < x->head.count; i++)
        if (weft_text_is_nocase(x->head.field[i].name, PROTOCOL) &&
            (count++ || !is_offered(fields, x->head.field[i].value)))
            return false;
    return true;
}

int weft_ws_open(weft_http_client *client, const char *target, const char *fields, weft_deadline until,
                 weft_http **out) {
    if (!client || !out)
        return -EINVAL;
    struct weft_http *x = client->x;
    char key[KEY_SIZE + 1], expected[32], *all;
    uint64_t random[2] = {wefti_random_seed(), wefti_random_seed()};
    if (x->upgraded)
        return -EBUSY;
    wefti_base64(random, sizeof random, key);
    wefti_ws_digest(key, expected);
    if (!(all = wefti_alloc(WEFTI_REQUEST_MAX)))
        return -ENOMEM;
    int size = snprintf(all, WEFTI_REQUEST_MAX,
                        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: %s\r\n%s",
                        key, fields ? fields : "");
    bool fits = size >= 0 && (size_t)size < WEFTI_REQUEST_MAX;
    int status = fits ? weft_http_ask(client, "GET", target, all, NULL, 0, until) : -EMSGSIZE;
    wefti_free(all, WEFTI_REQUEST_MAX);
    if (status < 0)
        return status;
    if (status != 101 || !wefti_http_has_element(x->head.upgrade, "websocket") ||
        !weft_text_is(weft_http_field(x, "Sec-WebSocket-Accept"), expected) ||
        weft_http_field(x, "Sec-WebSocket-Extensions").at || /* we asked for none */
        !is_choice(x, fields))
        return -EPROTO;
    wefti_ws_begin(x, true);
    *out = x;
    return 0;
}
