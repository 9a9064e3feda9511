/* pool.c - a pool of threads for blocking work: how it is made, and a runtime's own (pool.h has the design). */
#include "blocking/pool.h"

#include <stdio.h>

#include "base/known.h"

#define THREADS_MIN 4u
#define THREADS_MAX 512u
#define THREADS_LIMIT 65536u
#define KEEP_ALIVE INT64_C(10000000000)

static int make(const weft_pool_config *given, struct weft_pool **out) {
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    if (given) {
        int error = wefti_known_struct(given, offsetof(weft_pool_config, threads_min), &config, sizeof config);
        if (error)
            return error;
    }
    uint32_t max = config.threads_max ? config.threads_max : THREADS_MAX;
    uint32_t min = config.threads_min ? config.threads_min : max < THREADS_MIN ? max : THREADS_MIN;
    if (min > max || max > THREADS_LIMIT)
        return -EINVAL;
    struct weft_pool *pool = wefti_alloc(sizeof *pool);
    if (!pool)
        return -ENOMEM;
    wefti_fork_watch();
    pool->min = min;
    pool->max = max;
    pool->queue_max = config.queue_max;
    pool->keep_alive = config.keep_alive_ns == 0  ? KEEP_ALIVE
                       : config.keep_alive_ns < 0 ? INT64_MAX
                                                  : config.keep_alive_ns;
    pool->grace = wefti_grace(config.grace_ns);
    snprintf(pool->name, sizeof pool->name, "%s", config.name ? config.name : "pool");
    *out = pool;
    return 0;
}

int weft_pool_create(const weft_pool_config *config, weft_pool **out) {
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    return out ? make(config, out) : -EINVAL;
}

void weft_pool_stats_read(weft_pool *pool, weft_pool_stats *stats) {
    if (!pool || !stats)
        return;
    wefti_lock_take(&pool->lock);
    *stats = (weft_pool_stats){.threads = pool->threads,
                               .idle = pool->idle_count,
                               .running = pool->running.count,
                               .queued = pool->queue.count,
                               .completed = pool->completed,
                               .refused = pool->refused};
    wefti_lock_give(&pool->lock);
}

/* -- The runtime's own --------------------------------------------------------------------------------------------- */

static struct weft_pool *pool_of(struct wefti_annex *annex) {
    return (struct weft_pool *)(void *)annex; /* annex is the first field */
}

static int annex_stop(struct wefti_annex *annex, int64_t until) { return wefti_pool_close(pool_of(annex), until); }
static int annex_end(struct wefti_annex *annex) { return wefti_pool_end(pool_of(annex)); }
static void annex_report(struct wefti_annex *annex) {
    struct weft_pool *pool = pool_of(annex);
    wefti_lock_take(&pool->lock);
    wefti_pool_report(pool);
    wefti_lock_give(&pool->lock);
}

weft_pool *weft_runtime_pool(weft_runtime *rt) {
    struct wefti_worker *w = wefti_worker_here();
    rt = rt ? rt : w ? w->rt : NULL;
    if (!rt)
        return NULL;
    struct wefti_annex *found = wefti_annex(rt, WEFTI_ANNEX_POOL);
    struct weft_pool *made;
    if (found)
        return pool_of(found);
    if (load_relaxed(&rt->phase) == WEFTI_STOPPED || make(NULL, &made)) /* a look: destroy looks for it again */
        return NULL;
    made->annex = (struct wefti_annex){NULL, annex_stop, annex_report, annex_end, NULL};
    made->rt = rt;
    made->grace = wefti_grace(rt->grace);
    snprintf(made->name, sizeof made->name, "%s", rt->name);
    found = wefti_annex_hang(rt, WEFTI_ANNEX_POOL, &made->annex);
    if (found == &made->annex)
        return made;
    wefti_free(made, sizeof *made);
    return pool_of(found);
}
