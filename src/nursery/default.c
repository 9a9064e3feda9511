/* default.c - the default runtime, for nurseries that compiled code opens on a plain thread.
 *
 * What.   The first such nursery starts a runtime with the default configuration, the WEFT_
 *         variables of the environment and no limit of queued spawns.  It is stopped by a function
 *         that exit(3) calls: after the handlers that were registered later, before those that were
 *         registered earlier.
 * Who.    All of `shared`: under its lock.
 * Fork.   A child of fork(2) never takes the lock, which another thread may have held: from before
 *         the lock is first taken until it is released for good, the process counts as one that has
 *         threads (wefti_fork_watch), and a child knows that it is forked.
 * Exit.   The runtime is stopped, not freed: another thread may still be about to use a nursery of
 *         it.
 */
#include "nursery/nursery.h"

static struct {
    struct wefti_lock lock;
    struct weft_runtime *rt;
    bool registered, stopped;
} shared;

/* Called by exit(3).  On one of the runtime's own workers, in a blocking job of its pool, and in a
 * forked child, weft_runtime_stop refuses, and nothing is stopped. */
static void stop_at_exit(void) {
    if (wefti_is_forked())
        return;
    wefti_lock_take(&shared.lock);
    struct weft_runtime *rt = shared.rt;
    shared.stopped = true;
    wefti_lock_give(&shared.lock);
    if (rt)
        weft_runtime_stop(rt, WEFT_NOW);
}

/* Under the lock. */
static struct weft_runtime *start(void) {
    if (shared.rt || shared.stopped)
        return shared.stopped ? NULL : shared.rt;
    if (!shared.registered && wefti_at_exit(stop_at_exit))
        return NULL;
    shared.registered = true;
    weft_config config = WEFT_CONFIG_INIT;
    config.global_capacity = UINT32_MAX; /* as in a fiber, a spawn is refused for lack of memory only */
    return weft_runtime_create(&config, &shared.rt) == 0 ? shared.rt : NULL;
}

struct weft_runtime *wefti_default_runtime(void) {
    if (wefti_is_forked())
        return NULL;
    wefti_fork_watch();
    wefti_lock_take(&shared.lock);
    struct weft_runtime *rt = start();
    wefti_lock_give(&shared.lock);
    wefti_fork_unwatch();
    return rt;
}
