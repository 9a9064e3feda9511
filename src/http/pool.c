/* pool.c - connections that wait for the next request to the same server.
 *
 * A connection is known by what the URL says of its server, and by whether it is secured, and by whom.  The newest is used first, so that those too many are never
 * used, and go when they are too old: at the next look of anybody, there is no timer.  Clients that are out refer to the pool. */
#include <errno.h>
#include <string.h>
#include <weft/time.h>

#include "base/atomic.h"
#include "http/client.h"
#include "sched/spawn.h"

struct idle {
    struct idle *next; /* the one that was put here before it */
    weft_io *io;
    int64_t since;
    uint64_t secure;
    char authority[WEFTI_AUTHORITY_MAX];
};

struct weft_http_pool {
    _Atomic uint32_t refs; /* the user's, and one a client */
    weft_http_pool_options options;
    struct wefti_lock lock;
    struct idle *newest;
    unsigned count;
    bool closed;
};

int weft_http_pool_open(const weft_http_pool_options *given, weft_http_pool **out) {
    weft_http_pool_options options = WEFT_HTTP_POOL_INIT;
    int error =
        given ? wefti_known_struct(given, offsetof(weft_http_pool_options, max_idle), &options, sizeof options) : 0;
    if (error || !out)
        return error ? error : -EINVAL;
    if (options.idle_timeout < 0)
        return -EINVAL;
    options.max_idle = options.max_idle ? options.max_idle : 64;
    options.max_idle_host = options.max_idle_host ? options.max_idle_host : 8;
    options.max_redirects = options.max_redirects ? options.max_redirects : 10;
    options.idle_timeout = options.idle_timeout ? options.idle_timeout : INT64_C(30000000000);
    weft_http_pool *pool = wefti_alloc(sizeof *pool);
    if (!pool)
        return -ENOMEM;
    store_relaxed(&pool->refs, 1); /* nobody else knows it */
    pool->options = options;
    *out = pool;
    return 0;
}

unsigned wefti_http_pool_redirects(const weft_http_pool *pool) { return pool ? pool->options.max_redirects : 10; }

/* Out of their list: without the lock. */
static void end_all(struct idle *idle) {
    for (struct idle *next; idle; idle = next) {
        next = idle->next;
        weft_close(idle->io);
        wefti_free(idle, sizeof *idle);
    }
}

static bool is_to(const struct idle *idle, const char *authority, uint64_t secure) {
    return idle->secure == secure &&
           weft_text_is_nocase((weft_text){idle->authority, strlen(idle->authority)}, authority);
}

/* Under the lock: those too old or too many, as a list.  The newest come first, so that they stay.  given: the one that has come, or NULL; only of its server
 * may there be too many. */
static struct idle *take_excess(weft_http_pool *pool, const struct idle *given, int64_t now) {
    struct idle *excess = NULL;
    unsigned kept = 0, same = 0;
    for (struct idle **at = &pool->newest, *idle; (idle = *at);) {
        bool another = given && is_to(idle, given->authority, given->secure);
        bool stays = !pool->closed && kept < pool->options.max_idle &&
                     !(another && same == pool->options.max_idle_host) &&
                     now - idle->since < pool->options.idle_timeout;
        if (stays) {
            kept++;
            same += another;
            at = &idle->next;
            continue;
        }
        *at = idle->next;
        idle->next = excess;
        excess = idle;
    }
    pool->count = kept;
    return excess;
}

static void unref(weft_http_pool *pool) {
    if (sub_acq_rel(&pool->refs, 1) == 1) /* the last one sees all that the others did */
        wefti_free(pool, sizeof *pool);
}

void wefti_http_pool_ref(weft_http_pool *pool) { add_relaxed(&pool->refs, 1); /* from one that the caller has */ }

weft_io *wefti_http_pool_take(weft_http_pool *pool, const char *authority, uint64_t secure) {
    for (;;) {
        int64_t now = weft_now();
        wefti_lock_take(&pool->lock);
        struct idle *excess = take_excess(pool, NULL, now), *found = NULL;
        for (struct idle **at = &pool->newest; *at; at = &(*at)->next)
            if (is_to(*at, authority, secure)) {
                found = *at;
                *at = found->next;
                pool->count--;
                break;
            }
        wefti_lock_give(&pool->lock);
        end_all(excess);
        if (!found)
            return NULL;
        weft_io *io = found->io;
        wefti_free(found, sizeof *found);
        if (wefti_io_is_silent(io))
            return io;
        weft_close(io); /* the server has ended it meanwhile, or said what nobody has asked */
    }
}

void wefti_http_pool_give(weft_http_pool *pool, const char *authority, uint64_t secure, weft_io *io) {
    struct idle *idle = io ? wefti_alloc(sizeof *idle) : NULL;
    if (idle) {
        idle->io = io;
        idle->since = weft_now();
        idle->secure = secure;
        memcpy(idle->authority, authority, strlen(authority) + 1);
        wefti_lock_take(&pool->lock);
        idle->next = pool->newest;
        pool->newest = idle;
        pool->count++;
        struct idle *excess = take_excess(pool, idle, idle->since);
        wefti_lock_give(&pool->lock);
        end_all(excess);
    } else {
        weft_close(io);
    }
    unref(pool);
}

unsigned weft_http_pool_idle(weft_http_pool *pool) {
    int64_t now = weft_now();
    if (!pool)
        return 0;
    wefti_lock_take(&pool->lock);
    struct idle *excess = take_excess(pool, NULL, now);
    unsigned count = pool->count;
    wefti_lock_give(&pool->lock);
    end_all(excess);
    return count;
}

void weft_http_pool_close(weft_http_pool *pool) {
    if (!pool)
        return;
    wefti_lock_take(&pool->lock);
    pool->closed = true;
    struct idle *all = take_excess(pool, NULL, 0);
    wefti_lock_give(&pool->lock);
    end_all(all);
    unref(pool);
}
