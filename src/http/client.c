/* client.c - asking a server: one request after another on a connection. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <weft/net.h>

#include "http/digest.h"
#include "http/exchange.h"
#include "io/mem.h"

#define HEAD_MAX 65536u
#define REQUEST_MAX 8192u
#define INTERIM_MAX 16 /* 1xx before an answer */
#define BODY_TIMEOUT INT64_C(30000000000) /* for frames of a WebSocket */
#define KEY_SIZE 24u

struct weft_http_client {
    struct weft_http *x; /* its reading side */
    weft_io *own;        /* the connection, if it is ours to close */
    int status;          /* of the last answer */
    weft_http_options options;
    size_t before; /* bytes of the buffer that the head of the answer takes; x->in begins behind it */
    bool open;
    char host[256];
};

int weft_http_client_open(weft_io *connection, const char *host, weft_http_client **out) {
    if (!connection || !host || strlen(host) >= 256 || !wefti_http_is_value(host, strlen(host)))
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

/* The head stays where it is while the body is read, so that its fields can be asked for. */
static void keep_head(struct weft_http_client *client, size_t size) {
    struct weft_http *x = client->x;
    client->before = size;
    x->in += size;
    x->in_room -= size;
    x->in_to -= size;
    x->in_from = 0;
}

/* And goes before the next comes; no byte of the last answer is left. */
static void drop_head(struct weft_http_client *client) {
    struct weft_http *x = client->x;
    x->in -= client->before;
    x->in_room += client->before;
    x->in_from = x->in_to = 0;
    x->head.count = 0;
    client->before = 0;
}

void weft_http_client_close(weft_http_client *client) {
    if (!client)
        return;
    if (client->x->upgraded)
        weft_mutex_destroy(&client->x->ws.lock); /* without a word: this never waits */
    drop_head(client);
    wefti_http_give(client->x);
    weft_close(client->own);
    wefti_free(client, sizeof *client);
}

/* -- By URL ---------------------------------------------------------------------------------------------------- */

static struct {
    struct wefti_lock lock;
    weft_http_secure_fn fn;
    void *arg;
} secure;

void weft_http_secure(weft_http_secure_fn fn, void *arg) {
    wefti_lock_take(&secure.lock);
    secure.fn = fn;
    secure.arg = arg;
    wefti_lock_give(&secure.lock);
}

/* Closes the connection when it fails. */
static int make_secure(weft_io **io, const char *host, int64_t until) {
    wefti_lock_take(&secure.lock);
    weft_http_secure_fn fn = secure.fn;
    void *arg = secure.arg;
    wefti_lock_give(&secure.lock);
    if (fn)
        return fn(*io, host, until, arg, io);
    weft_close(*io);
    return -EPROTONOSUPPORT;
}

int weft_http_connect(const char *text, weft_deadline until, weft_http_client **out) {
    char host[256], authority[280];
    weft_url url;
    weft_io *io;
    int error = weft_url_parse(text, &url);
    if (error || url.authority.size >= sizeof authority)
        return -EINVAL;
    memcpy(host, url.host.at, url.host.size);
    host[url.host.size] = 0;
    memcpy(authority, url.authority.at, url.authority.size);
    authority[url.authority.size] = 0;
    error = weft_tcp_connect(host, url.port, &io, until);
    if (!error && url.secure)
        error = make_secure(&io, host, until);
    if (error)
        return error;
    error = weft_http_client_open(io, authority, out);
    if (error)
        weft_close(io);
    else
        (*out)->own = io;
    return error;
}

weft_io *weft_http_client_io(const weft_http_client *client) { return client->x->io; }
int weft_http_answer_status(const weft_http_client *client) { return client->status; }

/* Nothing may come between two answers: what has is the end, an error, or an answer to nothing. */
static bool is_silent(weft_io *io) {
    char byte;
    if (io->layer || !io->socket || wefti_desc_enter(io))
        return true; /* nobody knows */
    bool silent = io->mem ? !wefti_mem_is_ready(io->mem, WEFTI_IN)
                          : recv(io->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
    wefti_desc_leave(io);
    return silent;
}

bool weft_http_client_is_open(const weft_http_client *client) {
    return client->open && (!client->x->body.ended || is_silent(client->x->io));
}

static int send_request(struct weft_http_client *client, const char *method, const char *target, const char *fields,
                        const void *body, size_t size, int64_t until) {
    char head[REQUEST_MAX];
    bool has_body = size || !strcmp(method, "POST") || !strcmp(method, "PUT") || !strcmp(method, "PATCH");
    char length[48] = "";
    if (has_body)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", size);
    int n = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n", method, target, client->host, length,
                     fields ? fields : "");
    if (n < 0 || (size_t)n >= sizeof head)
        return -EMSGSIZE;
    /* By our own rules: nothing in it ends the head early, adds a second length or host, or makes another length of the body. */
    struct wefti_http_limits limits = {REQUEST_MAX, REQUEST_MAX, WEFT_HTTP_FIELDS_MAX};
    struct wefti_http_head *check = &client->x->head;
    if (wefti_http_parse_request(head, (size_t)n, &limits, check) != n || check->length != (int64_t)size ||
        !weft_text_is(check->method, method) || !weft_text_is(check->target, target) ||
        !weft_text_is(check->field[0].value, client->host) || !strcmp(method, "CONNECT")) {
        check->count = 0;
        return -EINVAL;
    }
    struct iovec parts[2] = {{head, (size_t)n}, {(void *)(uintptr_t)body, size}};
    ssize_t sent = weft_writev(client->x->io, parts, size ? 2 : 1, until);
    return sent < 0 ? (int)sent : 0;
}

/* The next head that is not a 1xx.  Its size; a negative error. */
static int read_head(struct weft_http *x, int64_t until) {
    for (int interim = 0;;) {
        int used = x->in_to > x->in_from
                       ? wefti_http_parse_answer(x->in + x->in_from, x->in_to - x->in_from, &x->limits, &x->head)
                       : 0;
        if (used < 0)
            return -EBADMSG;
        if (used > 0 && (x->head.status >= 200 || x->head.status == 101))
            return used;
        if (used > 0) {
            x->in_from += (size_t)used;
            if (++interim > INTERIM_MAX)
                return -EBADMSG;
            continue;
        }
        ssize_t n = wefti_http_fill(x, until);
        if (n <= 0)
            return n == 0 ? -ECONNRESET : n == -ENOBUFS ? -EBADMSG : (int)n;
    }
}

int weft_http_ask(weft_http_client *client, const char *method, const char *target, const char *fields,
                  const void *body, size_t size, weft_deadline until) {
    struct weft_http *x = client->x;
    if (!client->open)
        return -ECONNRESET;
    if (!x->body.ended)
        return -EBUSY; /* the last answer has not been read to its end */
    if (x->in_to > x->in_from) {
        client->open = false; /* an answer to nothing must not become that of the next request */
        return -EBADMSG;
    }
    drop_head(client);
    int error = send_request(client, method, target, fields, body, size, until);
    if (error == -EINVAL || error == -EMSGSIZE)
        return error; /* nothing was sent */
    client->open = false; /* until all went well */
    client->status = 0;
    if (error && error != -EPIPE && error != -ECONNRESET) /* a server that has closed may have said why */
        return error;
    bool closes = !x->head.keep_alive, upgrades = x->head.upgrade.at != NULL; /* we said so */
    x->head.count = 0;
    int used = read_head(x, until);
    if (used >= 0 && x->head.status == 101 && !upgrades)
        used = -EBADMSG; /* what follows would be of a protocol that nobody asked for */
    if (used < 0) {
        x->head.count = 0;
        return error ? error : used;
    }
    client->status = x->head.status;
    keep_head(client, x->in_from + (size_t)used);
    wefti_http_body_begin(x, !strcmp(method, "HEAD") ? 0 : x->head.length);
    client->open = !error && !closes && x->head.keep_alive && x->head.status != 101 &&
                   (x->head.length != WEFTI_HTTP_UNTIL_CLOSE || x->body.ended);
    return x->head.status;
}

weft_text weft_http_answer_field(const weft_http_client *client, const char *name) {
    return weft_http_field(client->x, name);
}
unsigned weft_http_answer_fields(const weft_http_client *client, unsigned index, weft_text *name, weft_text *value) {
    return weft_http_fields(client->x, index, name, value);
}

ssize_t weft_http_answer_read(weft_http_client *client, void *buffer, size_t size, weft_deadline until) {
    ssize_t n = wefti_http_body_read(client->x, buffer, size, 0, until);
    if (n < 0)
        client->open = false;
    return n;
}

/* -- WebSocket ------------------------------------------------------------------------------------------------- */

int weft_ws_open(weft_http_client *client, const char *target, const char *fields, weft_deadline until,
                 weft_http **out) {
    struct weft_http *x = client->x;
    char key[KEY_SIZE + 1], expected[32], *all;
    uint64_t random[2] = {wefti_random_seed(), wefti_random_seed()};
    if (x->upgraded)
        return -EBUSY;
    wefti_base64(random, sizeof random, key);
    wefti_ws_digest(key, expected);
    if (!(all = wefti_alloc(REQUEST_MAX)))
        return -ENOMEM;
    int size = snprintf(all, REQUEST_MAX,
                        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: %s\r\n%s",
                        key, fields ? fields : "");
    bool fits = size >= 0 && (size_t)size < REQUEST_MAX;
    int status = fits ? weft_http_ask(client, "GET", target, all, NULL, 0, until) : -EMSGSIZE;
    wefti_free(all, REQUEST_MAX);
    if (status < 0)
        return status;
    if (status != 101 || !wefti_http_has_element(x->head.upgrade, "websocket") ||
        !weft_text_is(weft_http_field(x, "Sec-WebSocket-Accept"), expected) ||
        weft_http_field(x, "Sec-WebSocket-Extensions").at) /* we asked for none */
        return -EPROTO;
    wefti_ws_begin(x, true);
    *out = x;
    return 0;
}
