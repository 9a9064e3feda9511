/* exchange.c - options of a server, and the exchanges of requests, kept for the next ones (exchange.h). */
#include "http/exchange.h"

#include <errno.h>
#include <string.h>

#include "sched/spawn.h"

#define HEAD_MAX ((size_t)1 << 20)
#define SECOND INT64_C(1000000000)
#define TOTAL_LEAST (300 * SECOND)
#define TOTAL_RATE 16384 /* bytes per second */

/* -- Options --------------------------------------------------------------------------------------------------- */

static int64_t total_timeout(uint64_t body) {
    uint64_t seconds = body / TOTAL_RATE;
    return seconds >= INT64_MAX / SECOND             ? INT64_MAX
           : (int64_t)seconds * SECOND < TOTAL_LEAST ? TOTAL_LEAST
                                                     : (int64_t)seconds * SECOND;
}

int wefti_http_settle(const weft_http_options *given, weft_http_options *options) {
    *options = (weft_http_options)WEFT_HTTP_OPTIONS_INIT;
    int error = given ? wefti_known_struct(given, offsetof(weft_http_options, max_line), options, sizeof *options) : 0;
    if (error)
        return error;
    options->max_line = options->max_line ? options->max_line : 8000;
    options->max_head = options->max_head ? options->max_head : 16384;
    options->max_fields = options->max_fields ? options->max_fields : WEFT_HTTP_FIELDS_MAX;
    options->max_body = options->max_body ? options->max_body : (uint64_t)1 << 20;
    options->head_timeout = options->head_timeout ? options->head_timeout : INT64_C(10000000000);
    options->idle_timeout = options->idle_timeout ? options->idle_timeout : INT64_C(60000000000);
    options->body_timeout = options->body_timeout ? options->body_timeout : INT64_C(30000000000);
    options->max_connections = options->max_connections ? options->max_connections : 100000;
    options->drain = options->drain ? options->drain : INT64_C(5000000000);
    options->max_answer_fields = options->max_answer_fields ? options->max_answer_fields : 16384;
    options->body_total_timeout =
        options->body_total_timeout ? options->body_total_timeout : total_timeout(options->max_body);
    if (options->max_head > HEAD_MAX || options->max_answer_fields > HEAD_MAX ||
        options->max_line > options->max_head || options->max_fields > WEFT_HTTP_FIELDS_MAX)
        return -EINVAL;
    if (options->server &&
        (strlen(options->server) > 128 || !wefti_http_is_value(options->server, strlen(options->server))))
        return -EINVAL;
    return 0;
}

/* -- The pool -------------------------------------------------------------------------------------------------- */

#define POOL_MAX 256u

static struct {
    struct wefti_bias lock; /* every request takes and gives */
    struct weft_http *free;
    uint32_t count;
} pool;

static void pool_lock(void) {
    struct wefti_worker *w = wefti_worker_here();
    wefti_bias_take(&pool.lock, w, w ? w->rt->bias_streak : 0);
}

/* Not zeroed: it is large, and most of it is written before it is read. */
struct weft_http *wefti_http_take(weft_io *io, const weft_http_options *options) {
    size_t room = options->max_head + WEFTI_HTTP_OUT;
    pool_lock();
    struct weft_http *x = pool.free && pool.free->in_room >= room ? pool.free : NULL;
    if (x) {
        pool.free = x->next;
        pool.count--;
    }
    wefti_bias_give(&pool.lock);
    if (!x) {
        x = wefti_alloc_raw(sizeof *x + room); /* of which a client that sends a byte now and then uses two pages */
        if (!x)
            return NULL;
        x->in = (char *)(x + 1);
        x->in_room = room;
        x->more = NULL;
    }
    weft_mutex_init(&x->lock, 0); /* one that was closed under a writer may have been left locked */
    x->io = io;
    x->options = options;
    wefti_http_fewer_fields(x);
    x->limits = (struct wefti_http_limits){options->max_line, options->max_head, options->max_fields};
    x->in_from = x->in_to = 0;
    x->all = NULL;
    return x;
}

void wefti_http_give(struct weft_http *x) {
    if (x->all)
        wefti_free(x->all, x->all_size);
    if (WEFTI_UNLIKELY(x->more != NULL))
        wefti_http_fewer_fields(x);
    pool_lock();
    bool keep = pool.count < POOL_MAX;
    if (keep) {
        x->next = pool.free;
        pool.free = x;
        pool.count++;
    }
    wefti_bias_give(&pool.lock);
    if (!keep)
        wefti_free(x, sizeof *x + x->in_room);
}

/* -- Many fields ----------------------------------------------------------------------------------------------- */

int wefti_http_more_fields(struct weft_http *x, size_t size) {
    size_t room = 2 * x->fields_room > size ? 2 * x->fields_room : size, most = x->options->max_answer_fields;
    if (size > most)
        return -ENOBUFS;
    room = room < most ? room : most;
    size_t all = 2 * room + WEFTI_HTTP_OUT; /* they are copied into `out`, behind the rest of the head */
    char *bytes = wefti_alloc_raw(all);
    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, x->fields, x->fields_size);
    memcpy(bytes + room, x->out, x->out_size);
    if (x->more)
        wefti_free(x->more, x->more_size);
    x->more = x->fields = bytes;
    x->more_size = all;
    x->fields_room = room;
    x->out = bytes + room;
    x->out_room = room + WEFTI_HTTP_OUT;
    return 0;
}

void wefti_http_fewer_fields(struct weft_http *x) {
    if (x->more)
        wefti_free(x->more, x->more_size);
    size_t most = x->options->max_answer_fields;
    x->more = NULL;
    x->fields = x->fields_here;
    x->fields_room = most < sizeof x->fields_here ? most : sizeof x->fields_here;
    x->out = x->out_here;
    x->out_room = sizeof x->out_here;
}
