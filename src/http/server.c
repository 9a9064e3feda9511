/* server.c - connections, one request after another (exchange.h has what a request needs). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/fiber.h>
#include <weft/net.h>
#include <weft/nursery.h>
#include <weft/sync.h>

#include "http/exchange.h"
#include "io/mem.h"
#include "sched/spawn.h"

#define HEAD_MAX ((size_t)1 << 20)
#define DISCARD_MAX (256u << 10) /* of a body that nobody read, before the connection is closed instead */
#define LINGER INT64_C(1000000000)
#define LINGER_READS 4096 /* of 512 bytes */

/* -- Options --------------------------------------------------------------------------------------------------- */

static int settle(const weft_http_options *given, weft_http_options *options) {
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
    if (options->max_head > HEAD_MAX || options->max_line > options->max_head ||
        options->max_fields > WEFT_HTTP_FIELDS_MAX)
        return -EINVAL;
    if (options->server &&
        (strlen(options->server) > 128 || !wefti_http_is_value(options->server, strlen(options->server))))
        return -EINVAL;
    return 0;
}

/* -- The pool -------------------------------------------------------------------------------------------------- */

#define POOL_MAX 256u

static struct {
    struct wefti_lock lock;
    struct weft_http *free;
    uint32_t count;
} pool;

/* Not zeroed: it is large, and most of it is written before it is read. */
struct weft_http *wefti_http_take(weft_io *io, const weft_http_options *options) {
    size_t room = options->max_head + WEFTI_HTTP_OUT;
    wefti_lock_take(&pool.lock);
    struct weft_http *x = pool.free && pool.free->in_room >= room ? pool.free : NULL;
    if (x) {
        pool.free = x->next;
        pool.count--;
    }
    wefti_lock_give(&pool.lock);
    if (!x) {
        x = wefti_alloc_raw(sizeof *x + room); /* of which a client that sends a byte now and then uses two pages */
        if (!x)
            return NULL;
        x->in = (char *)(x + 1);
        x->in_room = room;
    }
    x->io = io;
    x->options = options;
    x->limits = (struct wefti_http_limits){options->max_line, options->max_head, options->max_fields};
    x->in_from = x->in_to = 0;
    x->all = NULL;
    return x;
}

void wefti_http_give(struct weft_http *x) {
    if (x->all)
        wefti_free(x->all, x->all_size);
    wefti_lock_take(&pool.lock);
    bool keep = pool.count < POOL_MAX;
    if (keep) {
        x->next = pool.free;
        pool.free = x;
        pool.count++;
    }
    wefti_lock_give(&pool.lock);
    if (!keep)
        wefti_free(x, sizeof *x + x->in_room);
}

/* -- The request ------------------------------------------------------------------------------------------------ */

weft_text weft_http_method(const weft_http *x) { return x->head.method; }
weft_text weft_http_target(const weft_http *x) { return x->head.target; }
weft_io *weft_http_io(const weft_http *x) { return x->io; }
int64_t weft_http_length(const weft_http *x) { return x->head.length; }

weft_text weft_http_path(const weft_http *x) { return wefti_http_path(x->head.target); }

weft_text weft_http_query(const weft_http *x) {
    weft_text target = x->head.target;
    const char *mark = memchr(target.at, '?', target.size);
    return mark ? (weft_text){mark + 1, target.size - (size_t)(mark + 1 - target.at)} : (weft_text){NULL, 0};
}

weft_text weft_http_field(const weft_http *x, const char *name) {
    for (unsigned i = 0; i < x->head.count; i++)
        if (weft_text_is_nocase(x->head.field[i].name, name))
            return x->head.field[i].value;
    return (weft_text){NULL, 0};
}

unsigned weft_http_fields(const weft_http *x, unsigned index, weft_text *name, weft_text *value) {
    if (index < x->head.count) {
        *name = x->head.field[index].name;
        *value = x->head.field[index].value;
    }
    return x->head.count;
}

ssize_t weft_http_read(weft_http *x, void *buffer, size_t size) {
    static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (x->head.length > 0 && (uint64_t)x->head.length > x->options->max_body)
        return x->body.error = -EMSGSIZE; /* do not let it begin */
    if (size && x->head.expects_continue && !x->sent_continue && x->phase == WEFTI_HTTP_HEAD && !x->body.ended) {
        x->sent_continue = true;
        ssize_t n = weft_write(x->io, go, sizeof go - 1, weft_after(x->options->body_timeout));
        if (n < 0)
            return n;
    }
    return wefti_http_body_read(x, buffer, size, x->options->max_body, weft_after(x->options->body_timeout));
}

ssize_t weft_http_read_all(weft_http *x, void **out) {
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

/* -- One after another -------------------------------------------------------------------------------------------- */

/* An error before there is a request: answer it, and no more. */
static void refuse(struct weft_http *x, int status) {
    char text[64];
    x->phase = WEFTI_HTTP_HEAD;
    x->keep = false;
    x->is_head = false;
    x->head.minor = 1;
    x->out_size = x->fields_size = 0;
    int size = snprintf(text, sizeof text, "%d\n", status);
    weft_http_reply(x, status, "text/plain", text, (size_t)size);
}

static int to_status(int error) {
    return error == -EMSGSIZE ? 413 : error == -EBADMSG ? 400 : error == -ETIMEDOUT ? 408 : 0;
}

/* The head of the next request is in the buffer, or comes.  Its size; 0: the connection has ended; a negative error, answered if it can be. */
static int read_head(struct weft_http *x) {
    int64_t until = WEFT_NOW; /* mostly it is there, and nobody has to look at the clock */
    for (;;) {
        int used = x->in_to > x->in_from
                       ? wefti_http_parse_request(x->in + x->in_from, x->in_to - x->in_from, &x->limits, &x->head)
                       : 0;
        if (used > 0)
            return used;
        if (used < 0) {
            refuse(x, -used);
            return -EBADMSG;
        }
        ssize_t n = wefti_http_fill(x, until);
        if (n == -ETIMEDOUT && until == WEFT_NOW) {
            until = weft_after(x->options->head_timeout);
            continue;
        }
        if (n == 0)
            return x->in_to > x->in_from ? -ECONNRESET : 0;
        if (n == -ETIMEDOUT)
            refuse(x, 408);
        else if (n == -ENOBUFS)
            refuse(x, 431);
        if (n < 0)
            return (int)n;
    }
}

/* What the handler has left of the body.  False: the connection cannot go on. */
static bool discard_body(struct weft_http *x) {
    char buffer[512];
    size_t size = 0;
    int64_t until = weft_after(x->options->body_timeout); /* for all of it */
    if (x->body.ended)
        return true;
    if (x->head.expects_continue && !x->sent_continue)
        return false; /* will it send it or not? */
    while (size < DISCARD_MAX) {
        ssize_t n = wefti_http_body_read(x, buffer, sizeof buffer, 0, until);
        if (n <= 0)
            return n == 0;
        size += (size_t)n;
    }
    return false;
}

/* A request whose head is there: call the handler, end the answer.  True: the connection goes on. */
static bool answer(struct weft_http *x, int used, weft_http_handler handler, void *arg) {
    /* The head stays where it is until the answer is out: the body is read from behind it, into the caller's buffer or the rest of
     * this one. */
    char *in = x->in;
    size_t before = x->in_from + (size_t)used;
    x->in += before;
    x->in_room -= before;
    x->in_to -= before;
    x->in_from = 0;
    x->phase = WEFTI_HTTP_HEAD;
    x->keep = x->head.keep_alive;
    x->is_head = weft_text_is(x->head.method, "HEAD");
    x->sent_continue = x->upgraded = x->prompt = false;
    x->out_size = x->fields_size = 0;
    x->chunked = false;
    wefti_http_body_begin(x, x->head.length);
    int error = handler(x, arg);
    if (error > 0)
        error = 0;
    if (x->upgraded) {
        wefti_ws_end(x, error);
    } else if (x->phase == WEFTI_HTTP_HEAD) {
        int status = error ? to_status(x->body.error) : 404;
        if (error)
            x->keep = false;
        x->fields_size = 0;
        weft_http_reply(x, status ? status : 500, "text/plain", status == 404 ? "not found\n" : "error\n",
                        status == 404 ? 10 : 6);
    } else if (x->phase == WEFTI_HTTP_BODY) {
        if (error) { /* half an answer: its end is the connection's */
            x->keep = false;
            x->chunked = false;
        }
        weft_http_end(x);
    }
    if (x->all) {
        wefti_free(x->all, x->all_size);
        x->all = NULL;
    }
    bool goes_on = x->keep && !error && discard_body(x);
    memmove(in, x->in + x->in_from, x->in_to - x->in_from); /* what came behind it */
    x->in_to -= x->in_from;
    x->in_from = 0;
    x->in = in;
    x->in_room += before;
    return goes_on;
}

static ssize_t peek(struct weft_io *io, void *arg) {
    if (io->mem)
        return wefti_mem_read(io->mem, arg, 1, true);
    ssize_t n = recv(io->fd, arg, 1, MSG_PEEK | MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

/* Wait for the first byte of a request, without a buffer.  0; a negative error.  A descriptor that was ready before may have nothing; who is
 * mistaken about that would wait for its head under a shield, and with a buffer. */
static int wait_request(weft_io *io, int64_t until) {
    bool waited;
    char byte;
    if (io->layer) /* which knows */
        return weft_io_wait(io, WEFT_FD_READ, until);
    int error = wefti_desc_ready(io, WEFTI_IN, NULL, &waited, until);
    if (error || waited || !io->socket)
        return error;
    ssize_t n = wefti_desc_call(io, WEFTI_IN, peek, &byte, 0, until);
    return n < 0 ? (int)n : 0;
}

/* After an error: let the client read the answer before the connection is reset by what it still sends. */
static void linger(weft_io *io) {
    char buffer[512];
    int64_t until = weft_after(LINGER);
    if (weft_shutdown(io, SHUT_WR))
        return;
    for (int i = 0; i < LINGER_READS; i++)
        if (weft_read(io, buffer, sizeof buffer, until) <= 0)
            break;
}

/* A request under way is shielded: who cancels the server cancels those that wait for one. */
static int serve(weft_io *io, const weft_http_options *options, weft_http_handler handler, void *arg) {
    weft_task *self = weft_task_self();
    int64_t until = weft_after(options->idle_timeout);
    for (;;) {
        int error = wait_request(io, until);
        if (error)
            return error == -ETIMEDOUT ? 0 : error;
        struct weft_http *x = wefti_http_take(io, options);
        if (!x)
            return -ENOMEM;
        bool goes_on, shielded = self && weft_shield(self) == 0;
        do {
            int used = read_head(x);
            goes_on = used > 0 && answer(x, used, handler, arg);
            error = used < 0 ? used : 0;
            if (!goes_on && (used > 0 || used == -EBADMSG || used == -ETIMEDOUT))
                linger(io);
        } while (goes_on && x->in_to > x->in_from);
        if (shielded)
            weft_unshield(self);
        until = goes_on && x->prompt && options->idle_timeout < INT64_MAX - x->began
                    ? x->began + options->idle_timeout
                    : weft_after(options->idle_timeout);
        wefti_http_give(x);
        if (!goes_on)
            return error == -EBADMSG || error == -ETIMEDOUT ? 0 : error;
    }
}

int weft_http_serve_one(weft_io *io, const weft_http_options *given, weft_http_handler handler, void *arg) {
    weft_http_options options;
    int error = settle(given, &options);
    return error ? error : handler ? serve(io, &options, handler, arg) : -EINVAL;
}

/* -- Many connections ---------------------------------------------------------------------------------------------- */

struct server {
    weft_http_options options;
    weft_http_handler handler;
    void *arg;
    weft_sem room; /* for connections */
    struct wefti_lock lock;
    struct connection *connections;
    struct connection *unborn; /* at the end: turned away before their fibers began */
};

struct connection {
    struct server *server;
    weft_io *io;
    struct connection *next, **at; /* in the server's list */
    bool begun, unborn; /* under the lock: whichever is first */
};

static void end_connection(struct connection *connection) {
    struct server *server = connection->server;
    weft_close(connection->io);
    wefti_lock_take(&server->lock);
    *connection->at = connection->next;
    if (connection->next)
        connection->next->at = connection->at;
    wefti_lock_give(&server->lock);
    wefti_free(connection, sizeof *connection);
    weft_sem_release(&server->room, 1);
}

static int connection_main(void *arg) {
    struct connection *connection = arg;
    struct server *server = connection->server;
    wefti_lock_take(&server->lock);
    bool unborn = connection->unborn;
    connection->begun = true;
    wefti_lock_give(&server->lock);
    if (unborn)
        return 0; /* the server's */
    serve(connection->io, &server->options, server->handler, server->arg);
    end_connection(connection);
    return 0;
}

static int start(struct server *server, weft_nursery *nursery, weft_io *io) {
    struct connection *connection = wefti_alloc(sizeof *connection);
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    if (!connection) {
        weft_close(io);
        weft_sem_release(&server->room, 1);
        return -ENOMEM;
    }
    wefti_lock_take(&server->lock);
    *connection = (struct connection){server, io, server->connections, &server->connections, false, false};
    if (connection->next)
        connection->next->at = &connection->next;
    server->connections = connection;
    wefti_lock_give(&server->lock);
    spec.fn = connection_main;
    spec.arg = connection;
    spec.name = "http connection";
    spec.stack_size = server->options.stack_size;
    int error = weft_nursery_spawn(nursery, &spec, NULL);
    if (error)
        end_connection(connection);
    return error;
}

/* Cancelled before it began, a fiber closes nothing: its peer must not wait for those that are under way. */
static void close_unborn(struct server *server) {
    struct connection *next;
    wefti_lock_take(&server->lock);
    for (struct connection *connection = server->connections; connection; connection = next) {
        next = connection->next;
        if (connection->begun)
            continue;
        *connection->at = next;
        if (next)
            next->at = connection->at;
        connection->unborn = true;
        connection->next = server->unborn;
        server->unborn = connection;
    }
    wefti_lock_give(&server->lock);
    for (struct connection *connection = server->unborn; connection; connection = connection->next)
        weft_close(connection->io);
}

int weft_http_serve(weft_io *listener, const weft_http_options *given, weft_http_handler handler, void *arg) {
    struct server server = {.handler = handler, .arg = arg};
    int error = settle(given, &server.options);
    if (error || !listener || !handler || !weft_in_fiber())
        return error ? error : -EINVAL;
    weft_sem_init(&server.room, server.options.max_connections);
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.name = "http server";
    config.grace = server.options.drain;
    config.keep_going = true;
    weft_nursery nursery;
    error = weft_nursery_init(&nursery, NULL, &config);
    if (error)
        return error;
    while (!(error = weft_sem_acquire(&server.room, 1, WEFT_NEVER))) {
        weft_io *io;
        error = weft_accept(listener, &io, NULL, WEFT_NEVER);
        if (error)
            break;
        start(&server, &nursery, io); /* without memory for it, it is turned away */
    }
    weft_nursery_cancel(&nursery);
    close_unborn(&server);
    weft_nursery_await(&nursery);
    for (struct connection *connection; (connection = server.unborn);) {
        server.unborn = connection->next;
        wefti_free(connection, sizeof *connection);
    }
    weft_sem_destroy(&server.room);
    return error;
}
