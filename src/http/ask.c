/* ask.c - requests to a server, one after another on a connection: at once, or with a body piece by piece; their answers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "fiber/slice.h"
#include "http/client.h"

#define INTERIM_MAX 16 /* 1xx before an answer */

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
void wefti_client_drop_head(struct weft_http_client *client) {
    struct weft_http *x = client->x;
    x->in -= client->before;
    x->in_room += client->before;
    x->in_from = x->in_to = 0;
    x->head.count = 0;
    client->before = 0;
}

/* The next head that is not a 1xx.  Its size; a negative error. */
static int read_head(struct weft_http_client *client, int64_t until) {
    struct weft_http *x = client->x;
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
        client->said = true;
    }
}

/* -- The request -------------------------------------------------------------------------------------------------- */

/* Into `head`.  Its size; -EMSGSIZE; -EINVAL.  By our own rules: nothing in it ends the head early, adds a second length or host, or makes another
 * length of the body. */
static int write_head(struct weft_http_client *client, char head[WEFTI_REQUEST_MAX], const char *method,
                      const char *target, const char *fields, int64_t length) {
    bool has_body = length || !strcmp(method, "POST") || !strcmp(method, "PUT") || !strcmp(method, "PATCH");
    char framing[48] = "";
    if (length < 0)
        snprintf(framing, sizeof framing, "Transfer-Encoding: chunked\r\n");
    else if (has_body)
        snprintf(framing, sizeof framing, "Content-Length: %lld\r\n", (long long)length);
    int n = snprintf(head, WEFTI_REQUEST_MAX, "%s %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n", method, target, client->host,
                     framing, fields ? fields : "");
    if (n < 0 || (size_t)n >= WEFTI_REQUEST_MAX)
        return -EMSGSIZE;
    struct wefti_http_limits limits = {WEFTI_REQUEST_MAX, WEFTI_REQUEST_MAX, WEFT_HTTP_FIELDS_MAX};
    struct wefti_http_head *check = &client->x->head;
    if (wefti_http_parse_request(head, (size_t)n, &limits, check) == n &&
        check->length == (length < 0 ? WEFTI_HTTP_CHUNKED : length) && weft_text_is(check->method, method) &&
        weft_text_is(check->target, target) && weft_text_is(check->field[0].value, client->host) &&
        strcmp(method, "CONNECT"))
        return n;
    check->count = 0;
    return -EINVAL;
}

/* A server that has closed may have said why: its answer is read all the same. */
static bool may_have_said(int error) { return error == -EPIPE || error == -ECONNRESET; }

/* There is no answer: whoever reads it is told why. */
static int no_answer(struct weft_http_client *client, int error) {
    client->x->head.count = 0;
    return client->x->body.error = error == -EPIPE ? -ECONNRESET : error; /* the peer is gone, whoever noticed */
}

/* The head, and `size` bytes of the body. */
static int begin(struct weft_http_client *client, const char *method, const char *target, const char *fields,
                 int64_t length, const void *body, size_t size, int64_t until) {
    if (!client || !method || !target)
        return -EINVAL;
    struct weft_http *x = client->x;
    char head[WEFTI_REQUEST_MAX];
    if (client->asks || (client->open && !x->body.ended))
        return -EBUSY; /* the last answer has not been read to its end */
    if (!client->open)
        return x->body.ended ? no_answer(client, -ECONNRESET) : -ECONNRESET;
    if (x->in_to > x->in_from) {
        client->open = false; /* an answer to nothing must not become that of the next request */
        return no_answer(client, -EBADMSG);
    }
    wefti_client_drop_head(client);
    int n = write_head(client, head, method, target, fields, length);
    if (n < 0)
        return n; /* nothing was sent */
    client->closes = !x->head.keep_alive;
    client->upgrades = x->head.upgrade.at != NULL;
    client->is_head = !strcmp(method, "HEAD");
    client->chunked = length < 0;
    client->left = length < 0 ? -1 : length - (int64_t)size;
    client->open = false; /* until all went well */
    client->status = 0;
    client->said = false;
    x->head.count = 0;
    struct iovec parts[2] = {{head, (size_t)n}, {(void *)(uintptr_t)body, size}};
    ssize_t sent = weft_writev(x->io, parts, size ? 2 : 1, until);
    client->sent = sent < 0 ? (int)sent : 0;
    if (client->sent && !may_have_said(client->sent))
        return no_answer(client, client->sent);
    client->asks = true;
    return 0;
}

static int send_parts(struct weft_http_client *client, const struct iovec *parts, int count, int64_t until) {
    if (client->sent)
        return client->sent;
    ssize_t n = weft_writev(client->x->io, parts, count, until);
    if (n >= 0)
        return 0;
    client->sent = (int)n;
    client->asks = may_have_said(client->sent);
    return client->asks ? client->sent : no_answer(client, client->sent);
}

int weft_http_ask_begin(weft_http_client *client, const char *method, const char *target, const char *fields,
                        int64_t length, weft_deadline until) {
    return length < -1 ? -EINVAL : begin(client, method, target, fields, length, NULL, 0, until);
}

ssize_t weft_http_ask_write(weft_http_client *client, const void *bytes, size_t size, weft_deadline until) {
    wefti_slice_use(until);
    char line[20];
    if (!client || !client->asks)
        return -EINVAL;
    if (!size)
        return 0; /* in chunks it would be the end */
    if (!client->chunked && (uint64_t)client->left < size)
        return -EMSGSIZE;
    struct iovec parts[3] = {{line, 0}, {(void *)(uintptr_t)bytes, size}, {(void *)(uintptr_t)"\r\n", 2}};
    if (client->chunked)
        parts[0].iov_len = (size_t)snprintf(line, sizeof line, "%zx\r\n", size);
    else
        client->left -= (int64_t)size;
    int error = client->chunked ? send_parts(client, parts, 3, until) : send_parts(client, &parts[1], 1, until);
    return error ? error : (ssize_t)size;
}

/* -- The answer --------------------------------------------------------------------------------------------------- */

int weft_http_ask_end(weft_http_client *client, weft_deadline until) {
    if (!client)
        return -EINVAL;
    struct weft_http *x = client->x;
    struct iovec last = {(void *)(uintptr_t)"0\r\n\r\n", 5};
    if (!client->asks || (client->left > 0 && !client->sent))
        return -EINVAL;
    int error = client->chunked ? send_parts(client, &last, 1, until) : client->sent;
    if (error && !may_have_said(error))
        return error;
    client->asks = false;
    int used = read_head(client, until);
    if (used >= 0 && x->head.status == 101 && !client->upgrades)
        used = -EBADMSG; /* what follows would be of a protocol that nobody asked for */
    if (used < 0)
        return no_answer(client, error ? error : used);
    client->status = x->head.status;
    keep_head(client, x->in_from + (size_t)used);
    wefti_http_body_begin(x, client->is_head ? 0 : x->head.length);
    client->open = !error && !client->closes && x->head.keep_alive && x->head.status != 101 &&
                   (x->head.length != WEFTI_HTTP_UNTIL_CLOSE || x->body.ended);
    return x->head.status;
}

int weft_http_ask(weft_http_client *client, const char *method, const char *target, const char *fields,
                  const void *body, size_t size, weft_deadline until) {
    if (size > INT64_MAX)
        return -EINVAL;
    int error = begin(client, method, target, fields, (int64_t)size, body, size, until);
    return error ? error : weft_http_ask_end(client, until);
}

int weft_http_answer_status(const weft_http_client *client) { return client ? client->status : 0; }

weft_text weft_http_answer_field(const weft_http_client *client, const char *name) {
    return weft_http_field(client ? client->x : NULL, name);
}
unsigned weft_http_answer_fields(const weft_http_client *client, unsigned index, weft_text *name, weft_text *value) {
    return weft_http_fields(client ? client->x : NULL, index, name, value);
}

ssize_t weft_http_answer_read(weft_http_client *client, void *buffer, size_t size, weft_deadline until) {
    wefti_slice_use(until);
    if (!client)
        return -EINVAL;
    ssize_t n = client->asks ? -EINVAL : wefti_http_body_read(client->x, buffer, size, 0, until);
    if (n < 0)
        client->open = false;
    return n;
}
