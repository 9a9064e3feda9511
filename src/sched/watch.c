/* watch.c - the descriptors that a worker watches: it sleeps in its poller, and looks there now and then while it is busy.
 * Events are collected first and dispatched when the worker's own queues are open (B21). */
#include "sched/sched.h"

bool wefti_worker_doze(struct wefti_worker *w, int64_t until) {
    struct wefti_watch *watch = w->watch;
    return watch ? wefti_park_poll(&w->park, &watch->poller, watch->events, WEFTI_EVENTS_MAX, until, &watch->count)
                 : wefti_park_sleep(&w->park, until);
}

bool wefti_watch_dispatch(struct wefti_worker *w) {
    struct wefti_watch *watch = w->watch;
    if (!watch || !watch->count)
        return false;
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
    watch->count = wefti_poller_wait(&watch->poller, watch->events, WEFTI_EVENTS_MAX, 0);
    return wefti_watch_dispatch(w);
}
