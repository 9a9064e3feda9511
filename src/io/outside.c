/* outside.c - a driven runtime's poller as a descriptor in its caller's own loop.
 *
 * Race.   driver: D1 outside = the poke              waker: W1 what it wakes for
 *                 D2 poke                                   W2 fence, in wefti_worker_wake
 *                 D3 fence: P3 of idle.h, in each drive     W3 outside?  poke
 *                 D4 look; sleep in the poller
 * Claim.  Whoever sleeps there is poked for every wake that he did not see when he looked.
 * Why.    One fence comes first, so D4 sees W1 or W3 sees D1.  D2 brings about a drive, and so a D3, after D1.
 *         The descriptor itself is passed from D1 to W3.
 * Checked by.  test/model/sim.c (sim_outside_pokes)
 */
#include "io/desc.h"

int weft_drive_fd(weft_runtime *rt) {
    int error = wefti_drive_begin(rt);
    if (error)
        return error;
    struct wefti_worker *w = &rt->worker[0];
    error = wefti_watch_begin(w);
    if (!error && !load_relaxed(&w->outside)) { /* only a driver writes it */
        int poke = w->watch->poller.poke;
        store_release(&w->outside, poke + 1); /* D1, pairs with W3: it has been opened; D3 orders the rest */
        wefti_poke(poke); /* D2: for a wake that has come before */
    }
    int fd = error ? error : w->watch->poller.poll;
    wefti_drive_end(rt);
    return fd;
}
