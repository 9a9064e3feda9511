/* seat.h - where the reactor hands a worker its next task, and hears that it may hand it another.
 *
 * What.   A word a worker, so that N workers never have more than N tasks.  A worker that has nothing to run opens its seat; the
 *         reactor puts a task there; the worker closes the seat by taking it, and opens it again when the task has ended, waits
 *         or yields.  A poll that waits in weft_join opens the seat above itself, and closes it to go on.
 * Words.  slot: OPEN, CLOSED, JOBS (the order to run forked jobs), or a task.  told: the seat is in the queue of news.
 * Who.    The reactor makes it a task, and takes back what it has put there; the worker does everything else.  How often the
 *         seat was opened and closed is nobody's business: the reactor looks at what it is.
 * Race.   reactor: H1 slot: OPEN -> task               worker: T1 slot: task -> CLOSED, run it
 *                  H2 wake the worker, if it sleeps            T2 slot: CLOSED -> OPEN
 *                     (idle.h, S2 to S6)                       T3 told: -> 1; it was 0: queue the seat
 *                  N1 take the seat out of the queue           T4 wake the reactor
 *                  N2 told: -> 0
 *                  N3 look at the slot
 *         worker, to go on with the task below: C1 slot: -> CLOSED, what was there goes back; then T3, T4
 * Claim.  A task that was put there is run once, or goes back once.  A seat that stays open is seen to be open.
 * Why.    All changes of `slot` from OPEN or from a task are read-modify-writes: one gets it.  T3 and N2 act on one word: if
 *         T3 comes first, N2 acquires T2 and N3 sees it; if N2 comes first, T3 finds 0 and the seat is queued again.  N2 also
 *         releases the link, which N1 has read, to T3.
 * Checked by.  test/model/reactor.c, test/unit/sched_reactor.c
 */
#ifndef WEFTI_SCHED_SEAT_H
#define WEFTI_SCHED_SEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/mpsc.h"
#include "task/task.h"

enum { WEFTI_SEAT_OPEN = 0, WEFTI_SEAT_CLOSED = 1, WEFTI_SEAT_JOBS = 2 }; /* above: a task */

struct wefti_seat {
    _Alignas(64) struct wefti_link link; /* first: the queue of news */
    _Atomic uintptr_t slot;
    _Atomic uint32_t told;
};

static inline uintptr_t wefti_seat_of_task(struct weft_task *task) { return (uintptr_t)(void *)task; }

/* -- The reactor ------------------------------------------------------------------------------------------- */

/* H1.  False: it has been closed, the worker goes on with something. */
static inline bool wefti_seat_hand(struct wefti_seat *seat, uintptr_t what) {
    uintptr_t open = WEFTI_SEAT_OPEN;
    return cas_release(&seat->slot, &open, what); /* pairs with T1, C1: the task and its link */
}

/* False: too late. */
static inline bool wefti_seat_take_back(struct wefti_seat *seat, uintptr_t what) {
    return cas_relaxed(&seat->slot, &what, WEFTI_SEAT_OPEN); /* nobody else has seen it */
}

/* N2, N3, after N1.  True: it is open. */
static inline bool wefti_seat_hear(struct wefti_seat *seat) {
    xchg_acq_rel(&seat->told, 0);                          /* N2, pairs with T3 both ways */
    return load_relaxed(&seat->slot) == WEFTI_SEAT_OPEN; /* N3; N2 orders it */
}

/* -- The worker -------------------------------------------------------------------------------------------- */

/* T3. */
static inline void wefti_seat_tell(struct wefti_seat *seat, struct wefti_mpsc *news) {
    if (xchg_acq_rel(&seat->told, 1) == 0) /* pairs with N2 both ways */
        wefti_mpsc_push(news, &seat->link);
}

/* T2, T3. */
static inline void wefti_seat_open(struct wefti_seat *seat, struct wefti_mpsc *news) {
    store_relaxed(&seat->slot, WEFTI_SEAT_OPEN); /* T3 releases it */
    wefti_seat_tell(seat, news);
}

/* T1.  What is there, and closed; or OPEN. */
static inline uintptr_t wefti_seat_take(struct wefti_seat *seat) {
    uintptr_t found = load_relaxed(&seat->slot); /* only compared */
    while (found != WEFTI_SEAT_OPEN && !cas_acquire(&seat->slot, &found, WEFTI_SEAT_CLOSED)) /* pairs with H1 */
        ;
    return found;
}

/* C1.  What was there. */
static inline uintptr_t wefti_seat_close(struct wefti_seat *seat) {
    return xchg_acquire(&seat->slot, WEFTI_SEAT_CLOSED); /* pairs with H1: the link that the task goes back by */
}

#endif
