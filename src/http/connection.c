/* connection.c - one connection of a server: its requests, one after another (exchange.h has what a request needs). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/fiber.h>

#include "http/exchange.h"
#include "sched/spawn.h"

#define LINGER INT64_C(1000000000) /* ns that it may be silent ... */
#define LINGER_ALL (10 * LINGER)   /* ... and go on */
#define LINGER_MAX (80u << 20) /* bytes: a client that sends an upload of 64 MiB hears why it was refused */

/* An error before there is a request: answer it, and no more. */
static void refuse(struct weft_http *x, int status) {
    char text[64];
    x->phase = WEFTI_HTTP_HEAD;
    x->keep = false;
    x->is_head = false;
    x->head.minor = 1;
    x->head.expects_continue = false;
    x->body = (struct wefti_http_body){.ended = true};
    x->out_size = x->fields_size = 0;
    int size = snprintf(text, sizeof text, "%d\n", status);
    weft_http_reply(x, status, "text/plain", text, (size_t)size);
}

static int to_status(int error) {
    return error == -EMSGSIZE ? 413 : error == -EBADMSG ? 400 : error == -ETIMEDOUT ? 408 : 0;
}

static inline int parse_head(struct weft_http *x) {
    return WEFTI_LIKELY(x->in_to > x->in_from)
               ? wefti_http_parse_request(x->in + x->in_from, x->in_to - x->in_from, &x->limits, &x->head)
               : 0;
}

/* ... of which not all is there, or it is none. */
static __attribute__((noinline)) int read_rest(struct weft_http *x, int used) {
    int64_t until = WEFT_NOW; /* mostly it is there by now, and nobody has to look at the clock */
    for (;; used = parse_head(x)) {
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

/* The head of the next request is in the buffer, or comes.  Its size; 0: the connection has ended; a negative error, answered if it can be. */
static inline int read_head(struct weft_http *x) {
    int used = parse_head(x);
    return WEFTI_LIKELY(used > 0) ? used : read_rest(x, used);
}

/* What the handler has left of the body.  False: the connection cannot go on. */
static __attribute__((noinline)) bool discard_body(struct weft_http *x) {
    char buffer[512];
    size_t size = 0;
    if (x->head.expects_continue && !x->sent_continue)
        return false; /* will it send it or not? */
    int64_t until = weft_after(x->options->body_timeout); /* for all of it */
    while (size < WEFTI_HTTP_DISCARD) {
        ssize_t n = wefti_http_body_read(x, buffer, sizeof buffer, 0, until);
        if (n <= 0)
            return n == 0;
        size += (size_t)n;
    }
    return x->body.ended;
}

/* The handler has returned before all of its answer was out. */
static __attribute__((noinline)) void end_answer(struct weft_http *x, int error) {
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
}

/* What follows an answer of 200 to 299 is a tunnel's, to the client and to who is between: never another request. */
static inline bool is_connect(const struct wefti_http_head *head) {
    return WEFTI_UNLIKELY(head->method.size == 7 && memcmp(head->method.at, "CONNECT", 7) == 0);
}

/* A request whose head is there: call the handler, end the answer.  True: the connection goes on. */
static inline bool answer(struct weft_http *x, int used, weft_http_handler handler, void *arg) {
    /* The head stays where it is until the answer is out: the body is read from behind it, into the caller's buffer or the rest of
     * this one. */
    char *in = x->in;
    size_t before = x->in_from + (size_t)used;
    x->in += before;
    x->in_room -= before;
    x->in_to -= before;
    x->in_from = 0;
    x->phase = WEFTI_HTTP_HEAD;
    x->keep = x->head.keep_alive && !is_connect(&x->head);
    x->is_head = x->head.method.size == 4 && memcmp(x->head.method.at, "HEAD", 4) == 0;
    x->sent_continue = x->upgraded = x->prompt = false;
    x->out_size = x->fields_size = 0;
    x->chunked = false;
    wefti_http_body_begin(x, x->head.length);
    int error = handler(x, arg);
    error = error < 0 ? error : 0;
    if (WEFTI_UNLIKELY(x->upgraded || x->phase != WEFTI_HTTP_ENDED))
        end_answer(x, error);
    if (WEFTI_UNLIKELY(x->all != NULL)) {
        wefti_free(x->all, x->all_size);
        x->all = NULL;
    }
    if (WEFTI_UNLIKELY(x->more != NULL))
        wefti_http_fewer_fields(x); /* all of the answer is out */
    bool goes_on = x->keep && !error && (WEFTI_LIKELY(x->body.ended) || discard_body(x));
    if (WEFTI_UNLIKELY(x->in_to > x->in_from))
        memmove(in, x->in + x->in_from, x->in_to - x->in_from); /* what came behind it */
    x->in_to -= x->in_from;
    x->in_from = 0;
    x->in = in;
    x->in_room += before;
    return goes_on;
}

/* After an error: let the client read the answer before the connection is reset by what it still sends. */
static __attribute__((noinline)) void linger(struct weft_http *x) {
    int64_t last = weft_after(LINGER_ALL), until;
    ssize_t n = 1;
    if (weft_shutdown(x->io, SHUT_WR))
        return;
    for (size_t size = 0; n > 0 && size < LINGER_MAX; size += (size_t)n) { /* each may be as little as a packet */
        until = weft_after(LINGER);
        n = weft_read(x->io, x->in, x->in_room, until < last ? until : last);
    }
}

/* A connection between its requests. */
struct turn {
    struct wefti_next_read next;
    weft_io *io;
    const weft_http_options *options;
    weft_task *self; /* NULL: a plain thread */
    struct weft_http *x; /* while there is a request ... */
    bool shielded; /* ... which is: who cancels the server cancels those that wait for one */
};

static int turn_begin(struct wefti_next_read *next) {
    struct turn *turn = (struct turn *)(void *)next; /* next is its first field */
    struct weft_http *x = turn->x = wefti_http_take(turn->io, turn->options);
    if (!x)
        return -ENOMEM;
    turn->shielded = turn->self && weft_shield(turn->self) == 0;
    next->begun = true;
    next->bytes = x->in;
    next->size = x->in_room;
    return 0;
}

static void turn_end(struct turn *turn) {
    if (turn->shielded)
        weft_unshield(turn->self);
    wefti_http_give(turn->x);
    turn->next.begun = false;
}

/* Wait for a request, and have the first of its bytes if it can be done at once.  0, and it has begun; a negative error; 1: the connection has
 * ended. */
static int turn_wait(struct turn *turn, int64_t until) {
    ssize_t n = wefti_read_next(turn->io, &turn->next, until);
    if (WEFTI_LIKELY(n > 0)) {
        turn->x->in_to = (size_t)n;
        return 0;
    }
    if (turn->next.begun)
        turn_end(turn); /* for nothing */
    if (n != -EAGAIN)
        return n == 0 ? 1 : (int)n;
    int error = weft_io_wait(turn->io, WEFT_FD_READ, until); /* without a buffer, and without a shield */
    return error ? error : turn_begin(&turn->next);
}

/* Was the answer given in this very turn?  Else somebody was waited for: a client that reads slowly, a body, or what the handler still had to do. */
static bool is_prompt(const struct weft_http *x) {
    const struct wefti_worker *w = wefti_worker_here();
    return x->prompt && w == x->worker && load_own(&w->counters.polls) == x->turn;
}

int wefti_http_serve_io(weft_io *io, const weft_http_options *options, weft_http_handler handler, void *arg) {
    struct turn turn = {.next.begin = turn_begin, .io = io, .options = options, .self = weft_task_self()};
    int64_t until = weft_after(options->idle_timeout);
    wefti_late_init(&turn.next.late);
    int error;
    while (!(error = turn_wait(&turn, until))) {
        struct weft_http *x = turn.x;
        bool goes_on;
        do {
            int used = read_head(x);
            goes_on = used > 0 && answer(x, used, handler, arg);
            error = used < 0 ? used : 0;
            if (WEFTI_UNLIKELY(!goes_on) && (used > 0 || used == -EBADMSG || used == -ETIMEDOUT))
                linger(x);
        } while (goes_on && x->in_to > x->in_from);
        if (goes_on)
            until = is_prompt(x) && options->idle_timeout < INT64_MAX - x->began ? x->began + options->idle_timeout
                                                                                 : weft_after(options->idle_timeout);
        turn_end(&turn);
        if (!goes_on)
            break;
    }
    wefti_late_clear(&turn.next.late);
    return error == 1 || error == -EBADMSG || error == -ETIMEDOUT ? 0 : error;
}

int weft_http_serve_one(weft_io *io, const weft_http_options *given, weft_http_handler handler, void *arg) {
    weft_http_options options;
    int error = wefti_http_settle(given, &options);
    return error ? error : io && handler ? wefti_http_serve_io(io, &options, handler, arg) : -EINVAL;
}
