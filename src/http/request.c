/* request.c - what a handler may ask of its request, and its body. */
#include <errno.h>
#include <string.h>

#include "fiber/slice.h"
#include "http/exchange.h"

#define NOTHING ((weft_text){NULL, 0})

weft_text weft_http_method(const weft_http *x) { return x ? x->head.method : NOTHING; }
weft_text weft_http_target(const weft_http *x) { return x ? x->head.target : NOTHING; }
weft_io *weft_http_io(const weft_http *x) { return x ? x->io : NULL; }
int64_t weft_http_length(const weft_http *x) { return x ? x->head.length : 0; }

weft_text weft_http_path(const weft_http *x) { return x ? wefti_http_path(x->head.target) : NOTHING; }

weft_text weft_http_query(const weft_http *x) {
    if (!x)
        return NOTHING;
    weft_text target = x->head.target;
    const char *mark = memchr(target.at, '?', target.size);
    return mark ? (weft_text){mark + 1, target.size - (size_t)(mark + 1 - target.at)} : NOTHING;
}

weft_text weft_http_field(const weft_http *x, const char *name) {
    for (unsigned i = 0; x && name && i < x->head.count; i++)
        if (weft_text_is_nocase(x->head.field[i].name, name))
            return x->head.field[i].value;
    return NOTHING;
}

unsigned weft_http_fields(const weft_http *x, unsigned index, weft_text *name, weft_text *value) {
    if (!x)
        return 0;
    if (index < x->head.count) {
        if (name)
            *name = x->head.field[index].name;
        if (value)
            *value = x->head.field[index].value;
    }
    return x->head.count;
}

/* Within body_timeout, and what is left of body_total_timeout. */
static ssize_t read_body(struct weft_http *x, void *buffer, size_t size) {
    if (x->body.ended || (x->in_to > x->in_from && !x->body.chunked)) /* it does not wait: no look at the clock */
        return wefti_http_body_read(x, buffer, size, x->options->max_body, WEFT_NOW);
    int64_t left = x->options->body_total_timeout - x->body.waited, now = weft_now();
    int64_t most = left < x->options->body_timeout ? left : x->options->body_timeout;
    ssize_t n = wefti_http_body_read(x, buffer, size, x->options->max_body,
                                     most <= 0                ? WEFT_NOW
                                     : most < INT64_MAX - now ? now + most
                                                              : WEFT_NEVER);
    x->body.waited += weft_now() - now;
    return n;
}

ssize_t weft_http_read(weft_http *x, void *buffer, size_t size) {
    wefti_slice_use(WEFT_NEVER);
    static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!x)
        return -EINVAL;
    if (x->head.length > 0 && (uint64_t)x->head.length > x->options->max_body)
        return x->body.error = -EMSGSIZE; /* do not let it begin */
    if (size && x->head.expects_continue && !x->sent_continue && x->phase == WEFTI_HTTP_HEAD && !x->body.ended) {
        x->sent_continue = true;
        ssize_t n = weft_write(x->io, go, sizeof go - 1, weft_after(x->options->body_timeout));
        if (n < 0)
            return n;
    }
    return read_body(x, buffer, size);
}

ssize_t weft_http_read_all(weft_http *x, void **out) {
    if (!x || !out)
        return -EINVAL;
    size_t room = x->head.length >= 0 ? (size_t)x->head.length + 1 : 4096, size = 0;
    if (x->head.length > 0 && (uint64_t)x->head.length > x->options->max_body)
        return x->body.error = -EMSGSIZE;
    if (x->all)
        return -EINVAL; /* once */
    char *all = wefti_alloc(room);
    if (!all)
        return -ENOMEM;
    for (;;) {
        if (size + 1 >= room && x->body.chunked) {
            char *larger = wefti_alloc(2 * room);
            if (larger)
                memcpy(larger, all, size);
            wefti_free(all, room);
            if (!(all = larger))
                return -ENOMEM;
            room *= 2;
        }
        ssize_t n = size + 1 < room ? weft_http_read(x, all + size, room - size - 1) : weft_http_read(x, NULL, 0);
        if (n < 0) {
            wefti_free(all, room);
            return n;
        }
        if (n == 0)
            break;
        size += (size_t)n;
    }
    all[size] = 0;
    x->all = *out = all;
    x->all_size = room;
    return (ssize_t)size;
}
