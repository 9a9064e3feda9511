/* body.c - bodies as they come in: of a declared length, in chunks, or until the connection ends. */
#include <errno.h>
#include <string.h>

#include "http/exchange.h"

#define WASTE_MAX 16384u

ssize_t wefti_http_read_some(weft_io *io, void *bytes, size_t size, int64_t until) {
    ssize_t n = weft_read(io, bytes, size, until);
    return n == -EPIPE ? -ECONNRESET : n;
}

ssize_t wefti_http_fill(struct weft_http *x, int64_t until) {
    if (x->in_from) {
        memmove(x->in, x->in + x->in_from, x->in_to - x->in_from);
        x->in_to -= x->in_from;
        x->in_from = 0;
    }
    if (x->in_to == x->in_room)
        return -ENOBUFS;
    ssize_t n = wefti_http_read_some(x->io, x->in + x->in_to, x->in_room - x->in_to, until);
    if (n > 0)
        x->in_to += (size_t)n;
    return n;
}

void wefti_http_body_begin(struct weft_http *x, int64_t length) {
    x->body = (struct wefti_http_body){.left = length};
    x->body.chunked = length == WEFTI_HTTP_CHUNKED;
    if (x->body.chunked)
        x->body.left = 0;
    x->body.ended = length == 0;
}

static ssize_t fail(struct weft_http *x, int error) {
    x->body.error = error;
    return error;
}

/* More bytes for a parser that wants them. */
static int more(struct weft_http *x, int64_t until) {
    ssize_t n = wefti_http_fill(x, until);
    return n > 0 ? 0 : n == 0 ? -ECONNRESET : n == -ENOBUFS ? -EBADMSG : (int)n;
}

/* Up to the next chunk's data.  0; a negative error.  At the last chunk: body.ended. */
static int next_chunk(struct weft_http *x, int64_t until) {
    struct wefti_http_body *body = &x->body;
    for (;;) {
        const char *bytes = x->in + x->in_from;
        size_t size = x->in_to - x->in_from;
        int used = 0;
        if (body->between) {
            used = size < 2 ? 0 : bytes[0] == '\r' && bytes[1] == '\n' ? 2 : -400;
            if (used == 0 && size == 1 && bytes[0] != '\r')
                used = -400;
            if (used > 0)
                body->between = false;
        } else {
            uint64_t length;
            used = wefti_http_parse_chunk(bytes, size, &length);
            if (used > 0 && length == 0) {
                /* The trailer; its empty line ends the body. */
                int trailer = wefti_http_parse_trailer(bytes + used, size - (size_t)used, &x->limits);
                if (trailer > 0) {
                    x->in_from += (size_t)(used + trailer);
                    body->ended = true;
                    return 0;
                }
                used = trailer;
            } else if (used > 0) {
                x->in_from += (size_t)used;
                body->left = (int64_t)length;
                /* A body may be mostly extensions: a megabyte on the wire for each 4 KiB of it.  Some are fine. */
                body->wasted += (uint64_t)used > 16 ? (uint64_t)used - 16 : 0;
                return body->wasted > WASTE_MAX ? -EBADMSG : 0;
            }
        }
        if (used < 0)
            return -EBADMSG;
        x->in_from += (size_t)used;
        int error = used ? 0 : more(x, until);
        if (error)
            return error;
    }
}

ssize_t wefti_http_body_read(struct weft_http *x, void *buffer, size_t size, uint64_t most, int64_t until) {
    struct wefti_http_body *body = &x->body;
    if (body->error)
        return body->error;
    if (size == 0)
        return 0;
    while (!body->ended && body->chunked && body->left == 0) {
        int error = next_chunk(x, until);
        if (error)
            return fail(x, error);
    }
    if (body->ended)
        return 0;
    if (body->left >= 0 && most && body->so_far + (uint64_t)body->left > most)
        return fail(x, -EMSGSIZE);
    if (body->left >= 0 && (uint64_t)body->left < size)
        size = (size_t)body->left;
    size_t there = x->in_to - x->in_from;
    ssize_t n;
    if (there) {
        n = (ssize_t)(there < size ? there : size);
        memcpy(buffer, x->in + x->in_from, (size_t)n);
        x->in_from += (size_t)n;
    } else {
        n = wefti_http_read_some(x->io, buffer, size, until);
        if (n < 0)
            return fail(x, (int)n);
        if (n == 0 && body->left != WEFTI_HTTP_UNTIL_CLOSE)
            return fail(x, -ECONNRESET);
    }
    body->so_far += (uint64_t)n;
    if (body->left == WEFTI_HTTP_UNTIL_CLOSE) {
        body->ended = n == 0;
        return most && body->so_far > most ? fail(x, -EMSGSIZE) : n;
    }
    body->left -= n;
    if (body->left == 0) {
        body->between = body->chunked;
        body->ended = !body->chunked;
    }
    return n;
}
