/* watch.c - the descriptors that a worker watches: it sleeps in its poller, and looks there now and then while it is busy.
 * Events are collected first and dispatched when the worker's own queues are open (B21). */
#include "sched/sched.h"

bool wefti_worker_doze(struct wefti_worker *w, int64_t until) {
    struct wefti_watch *watch = w->watch;
    if (watch)
        return wefti_park_poll(&w->park, &watch->poller, watch->events, until, &watch->count);
    /* While another runs, what there is to do is his; when all sleep, it comes from outside. */
    bool spare = w->rt->cpus > 1 && wefti_idle_parked(&w->rt->idle) == w->rt->workers;
    return wefti_nap_or_sleep(&w->nap, &w->park, until, spare);
}

bool wefti_watch_dispatch(struct wefti_worker *w) {
    struct wefti_watch *watch = w->watch;
    if (!watch || !watch->count)
        return false;
    wefti_count(&w->counters.io_batches, 1);
    wefti_count(&w->counters.io_events, (uint64_t)watch->count);
    watch->dispatch(w, watch->events, watch->count);
    watch->count = 0;
    return true;
}

bool wefti_watch_run(struct wefti_worker *w) {
    struct wefti_watch *watch = w->watch;
    if (!watch)
        return false;
    if (watch->count) /* collected before: first these */
        return wefti_watch_dispatch(w);
    watch->count = wefti_poller_wait(&watch->poller, watch->events, 0);
    return wefti_watch_dispatch(w);
}
