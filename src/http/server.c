/* server.c - connections, one request after another (exchange.h has what a request needs). */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/fiber.h>
#include <weft/net.h>
#include <weft/nursery.h>
#include <weft/sync.h>

#include "http/exchange.h"
#include "sched/spawn.h"

#define HEAD_MAX ((size_t)1 << 20)
#define LINGER INT64_C(1000000000) /* ns that it may be silent ... */
#define LINGER_ALL (10 * LINGER)   /* ... and go on */
#define LINGER_MAX (80u << 20) /* bytes: a client that sends an upload of 64 MiB hears why it was refused */

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

/* -- One after another -------------------------------------------------------------------------------------------- */

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

static int serve(weft_io *io, const weft_http_options *options, weft_http_handler handler, void *arg) {
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
    int error = settle(given, &options);
    return error ? error : io && handler ? serve(io, &options, handler, arg) : -EINVAL;
}

/* -- Many connections ---------------------------------------------------------------------------------------------- */

#define ADDRESSES 256u /* buckets */
#define PATIENCE INT64_C(10000000) /* ns that a connection may wait for a request before it is closed for another */

struct server {
    weft_http_options options;
    weft_http_handler handler;
    void *arg;
    weft_sem room; /* for connections */
    struct wefti_lock lock;
    struct connection *connections;
    struct connection *unborn; /* at the end: turned away before their fibers began */
    unsigned leaving; /* under the lock: evicted, and not yet gone */
    struct connection *address[ADDRESSES]; /* with max_per_address: by the hash of the address */
};

/* What a connection does, where connections are closed for others. Only one word: nothing is passed by it. */
enum { WAITING, ANSWERING, EVICTED };

struct connection {
    struct server *server;
    weft_io *io;
    struct connection *next, **at; /* in the server's list */
    bool begun, unborn; /* under the lock: whichever is first */
    uint64_t peer; /* a hash of its address; 0: it has none */
    struct connection *same, **same_at; /* in its bucket */
    weft_task *task; /* set when begun, valid while it is in the list */
    _Atomic uint32_t phase;
    _Atomic int64_t since; /* when it began to wait */
};

static bool is_limited(const struct server *server) {
    return server->options.max_per_address || server->options.close_waiting;
}

/* The address without its port; never 0. */
static uint64_t peer_of(weft_io *io) {
    weft_addr addr;
    struct sockaddr_storage any = {0};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const unsigned char *at = (const unsigned char *)&any;
    if (weft_peer_addr(io, &addr))
        return 0;
    memcpy(&any, addr.storage, addr.size < sizeof any ? addr.size : sizeof any);
    if (any.ss_family != AF_INET && any.ss_family != AF_INET6)
        return 0;
    ((struct sockaddr_in *)&any)->sin_port = 0; /* the same place in both families */
    for (size_t i = 0; i < sizeof(struct sockaddr_in6); i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash ? hash : 1;
}

/* Under the lock: the one of two that has waited longer, if it has waited long enough. */
static struct connection *more_patient(struct connection *best, struct connection *other, int64_t now) {
    int64_t since = load_relaxed(&other->since); /* a hint */
    if (!other->begun || load_relaxed(&other->phase) != WAITING || now - since < PATIENCE)
        return best;
    return best && load_relaxed(&best->since) <= since ? best : other;
}

/* Under the lock. It may have begun to answer meanwhile. */
static bool evict(struct connection *connection) {
    uint32_t waiting = WAITING;
    if (!connection || !cas_relaxed(&connection->phase, &waiting, EVICTED))
        return false;
    connection->server->leaving++;
    if (connection->io->layer) /* whose shutdown could suspend; in the middle of a head it waits for head_timeout */
        weft_task_cancel(connection->task);
    else
        weft_shutdown(connection->io, SHUT_RD); /* an answer that is still being written is finished */
    return true;
}

/* One more of that address? At its limit, another of its connections is closed. */
static bool admit(struct server *server, uint64_t peer) {
    struct connection *best = NULL;
    unsigned count = 0;
    int64_t now = weft_now();
    if (!peer || !server->options.max_per_address)
        return true;
    wefti_lock_take(&server->lock);
    for (struct connection *other = server->address[peer % ADDRESSES]; other; other = other->same)
        if (other->peer == peer && load_relaxed(&other->phase) != EVICTED) { /* a hint */
            count++;
            best = more_patient(best, other, now);
        }
    bool admitted = count < server->options.max_per_address || evict(best);
    wefti_lock_give(&server->lock);
    return admitted;
}

/* Room for a connection that was accepted. */
static int make_room(struct server *server) {
    unsigned tries = 0;
    int error;
    while ((error = weft_sem_acquire(&server->room, 1, weft_after(0))) == -ETIMEDOUT) {
        struct connection *best = NULL;
        int64_t now = weft_now();
        wefti_lock_take(&server->lock);
        for (struct connection *other = server->connections; other; other = other->next)
            best = more_patient(best, other, now);
        if (!server->leaving || tries++ % 40 == 39) /* one for one, unless that one takes a second to leave */
            evict(best);
        wefti_lock_give(&server->lock);
        error = weft_sem_acquire(&server->room, 1, weft_after(25000000)); /* its room, or another's */
        if (error != -ETIMEDOUT)
            break;
    }
    return error;
}

/* The handler, where connections are closed for others: only those that wait for a request are. */
static int answer_limited(weft_http *x, void *arg) {
    struct connection *connection = arg;
    struct server *server = connection->server;
    uint32_t phase = WAITING;
    if (!cas_relaxed(&connection->phase, &phase, ANSWERING))
        return -ECANCELED; /* evicted */
    int result = server->handler(x, server->arg);
    store_relaxed(&connection->since, weft_now()); /* a hint */
    store_relaxed(&connection->phase, WAITING);
    return result;
}

/* Under the lock. */
static void leave_bucket(struct connection *connection) {
    if (!connection->same_at)
        return;
    *connection->same_at = connection->same;
    if (connection->same)
        connection->same->same_at = connection->same_at;
    connection->same_at = NULL;
}

static void enter_bucket(struct connection *connection) {
    struct connection **bucket = &connection->server->address[connection->peer % ADDRESSES];
    connection->same = *bucket;
    connection->same_at = bucket;
    if (connection->same)
        connection->same->same_at = &connection->same;
    *bucket = connection;
}

static void end_connection(struct connection *connection) {
    struct server *server = connection->server;
    weft_close(connection->io);
    wefti_lock_take(&server->lock);
    *connection->at = connection->next;
    if (connection->next)
        connection->next->at = connection->at;
    leave_bucket(connection);
    server->leaving -= load_relaxed(&connection->phase) == EVICTED; /* written under the lock */
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
    connection->task = weft_task_self();
    wefti_lock_give(&server->lock);
    if (unborn)
        return 0; /* the server's */
    if (is_limited(server))
        serve(connection->io, &server->options, answer_limited, connection);
    else
        serve(connection->io, &server->options, server->handler, server->arg);
    end_connection(connection);
    return 0;
}

static int start(struct server *server, weft_nursery *nursery, weft_io *io, uint64_t peer) {
    struct connection *connection = wefti_alloc(sizeof *connection);
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    if (!connection) {
        weft_close(io);
        weft_sem_release(&server->room, 1);
        return -ENOMEM;
    }
    wefti_lock_take(&server->lock);
    *connection = (struct connection){.server = server,
                                      .io = io,
                                      .next = server->connections,
                                      .at = &server->connections,
                                      .peer = peer,
                                      .since = is_limited(server) ? weft_now() : 0};
    if (peer)
        enter_bucket(connection);
    if (connection->next)
        connection->next->at = &connection->next;
    server->connections = connection;
    wefti_lock_give(&server->lock);
    spec.fn = connection_main;
    spec.arg = connection;
    spec.name = "http connection";
    spec.stack_size = server->options.stack_size;
    spec.cap = server->options.cap;
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
        leave_bucket(connection);
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
    /* With close_waiting a connection is accepted first: only then another is closed for it. */
    bool first = !server.options.close_waiting;
    while (!first || !(error = weft_sem_acquire(&server.room, 1, WEFT_NEVER))) {
        weft_io *io;
        error = weft_accept(listener, &io, NULL, WEFT_NEVER);
        if (error)
            break;
        uint64_t peer = server.options.max_per_address ? peer_of(io) : 0;
        bool admitted = admit(&server, peer);
        if (admitted && !first && (error = make_room(&server))) {
            weft_close(io);
            break;
        }
        if (admitted) {
            error = start(&server, &nursery, io, peer); /* without memory for it, it is turned away */
            if (error == -EPERM)
                break; /* so would all the others be */
        } else {
            weft_close(io);
            if (first)
                weft_sem_release(&server.room, 1);
        }
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
