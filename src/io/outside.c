/* outside.c - a driven runtime's poller as a descriptor in its caller's own loop. */
#include "io/desc.h"

int weft_drive_fd(weft_runtime *rt) {
    int error = wefti_drive_begin(rt);
    if (error)
        return error;
    struct wefti_worker *w = &rt->worker[0];
    error = wefti_watch_begin(w);
    if (!error && !load_relaxed(&w->outside)) { /* only a driver writes it */
        int poke = w->watch->poller.poke;
        store_release(&w->outside, poke + 1); /* pairs with wefti_worker_wake */
        wefti_poke(poke); /* for a wake that has come before */
    }
    int fd = error ? error : w->watch->poller.poll;
    wefti_drive_end(rt);
    return fd;
}
