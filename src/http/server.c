/* server.c - many connections: accepted, limited in number, and ended in order (connection.c has what each does). */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/fiber.h>
#include <weft/net.h>
#include <weft/nursery.h>
#include <weft/sync.h>

#include "http/exchange.h"
#include "sched/spawn.h"

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
        wefti_http_serve_io(connection->io, &server->options, answer_limited, connection);
    else
        wefti_http_serve_io(connection->io, &server->options, server->handler, server->arg);
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
    int error = wefti_http_settle(given, &server.options);
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
            start(&server, &nursery, io, peer); /* without memory for it, it is turned away */
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
