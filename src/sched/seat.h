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
 * Batch.  Several short tasks may be handed over together: one in the slot, with the bit MORE, the others in `item`.  more = {next,
 *         end}, two free-running 32-bit counts in one word: items [next, end) have not begun.
 *                  B1 fill item, more                          B3 next += 1: run that one
 *                  B2 H1, with MORE                            B4 next == end: T2
 *                  B5 take back: next = end
 * Claim.  A task that was put there is run once, or goes back once.  A seat that stays open is seen to be open.
 * Why.    All changes of `slot` from OPEN or from a task are read-modify-writes: one gets it.  T3 and N2 act on one word: if
 *         T3 comes first, N2 acquires T2 and N3 sees it; if N2 comes first, T3 finds 0 and the seat is queued again.  N2 also
 *         releases the link, which N1 has read, to T3.
 *         B1 is done while the seat is open, when nobody else looks at `more`; H1 releases it, T1 acquires it.  B3 and B5 swap one word
 *         whose counts only grow, so each item has one taker, and a word that looks unchanged is unchanged.  They are relaxed: the loser
 *         does not touch the task, and the reactor takes back what it has written itself.
 * Checked by.  test/model/reactor.c, test/unit/sched_reactor.c
 */
#ifndef WEFTI_SCHED_SEAT_H
#define WEFTI_SCHED_SEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/mpsc.h"
#include "task/task.h"

enum { WEFTI_SEAT_OPEN = 0, WEFTI_SEAT_CLOSED = 1, WEFTI_SEAT_JOBS = 2, WEFTI_SEAT_MORE = 4 }; /* above: a task */

#ifndef WEFTI_SEAT_ITEMS
#define WEFTI_SEAT_ITEMS 256u /* a power of two; tests shrink it */
#endif

struct wefti_seat {
    _Alignas(64) struct wefti_link link; /* first: the queue of news */
    _Atomic uintptr_t slot;
    _Atomic uint32_t told;
    bool in_batch; /* the worker's own: the tasks in `item` are its, until it has found none left */
    _Alignas(64) _Atomic uint64_t more;
    _Atomic(struct weft_task *) item[WEFTI_SEAT_ITEMS];
};

static inline uint64_t wefti_seat_pack(uint32_t next, uint32_t end) { return (uint64_t)next << 32 | end; }
static inline uint32_t wefti_seat_next_of(uint64_t more) { return (uint32_t)(more >> 32); }
static inline uint32_t wefti_seat_end_of(uint64_t more) { return (uint32_t)more; }

/* The reactor and the worker: how many items have not begun.  A hint. */
static inline uint32_t wefti_seat_length(struct wefti_seat *seat) {
    uint64_t more = load_relaxed(&seat->more);
    return wefti_seat_end_of(more) - wefti_seat_next_of(more);
}

static inline uintptr_t wefti_seat_of_task(struct weft_task *task) { return (uintptr_t)(void *)task; }

/* -- The reactor ------------------------------------------------------------------------------------------- */

/* B1: item number `i` of those that are about to be handed over.  The seat is open. */
static inline void wefti_seat_stage(struct wefti_seat *seat, uint32_t i, struct weft_task *task) {
    uint32_t end = wefti_seat_end_of(load_relaxed(&seat->more)); /* B2 orders all of this */
    store_relaxed(&seat->item[(end + i) % WEFTI_SEAT_ITEMS], task);
}

static inline struct weft_task *wefti_seat_staged(struct wefti_seat *seat, uint32_t i) {
    uint32_t end = wefti_seat_end_of(load_relaxed(&seat->more)); /* as there */
    return load_relaxed(&seat->item[(end + i) % WEFTI_SEAT_ITEMS]);
}

/* B1, B2.  The task, and so many staged items behind it.  False: as wefti_seat_hand. */
static inline bool wefti_seat_hand_batch(struct wefti_seat *seat, struct weft_task *task, uint32_t count) {
    uintptr_t open = WEFTI_SEAT_OPEN;
    uint32_t end = wefti_seat_end_of(load_relaxed(&seat->more)); /* B2 orders all of this */
    if (count)
        store_relaxed(&seat->more, wefti_seat_pack(end, end + count));
    if (cas_release(&seat->slot, &open, /* H1, pairs with T1, C1: the task, its link, the batch */
                    wefti_seat_of_task(task) | (count ? WEFTI_SEAT_MORE : 0)))
        return true;
    store_relaxed(&seat->more, wefti_seat_pack(end, end)); /* nobody has looked at it; the staged items stay readable */
    return false;
}

/* B5.  The items that had not begun, the last one first.  Returns their number. */
static inline uint32_t wefti_seat_reclaim(struct wefti_seat *seat, struct weft_task *last_first[WEFTI_SEAT_ITEMS]) {
    uint64_t more = load_relaxed(&seat->more);
    uint32_t next, end;
    do {
        next = wefti_seat_next_of(more);
        end = wefti_seat_end_of(more);
    } while (next != end && !cas_relaxed(&seat->more, &more, wefti_seat_pack(end, end)));
    for (uint32_t i = 0; i < end - next; i++)
        last_first[i] = load_relaxed(&seat->item[(end - 1 - i) % WEFTI_SEAT_ITEMS]);
    return end - next;
}

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
    xchg_acq_rel(&seat->told, 0); /* N2, pairs with T3 both ways */
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

/* What came out of the slot, without MORE. */
static inline uintptr_t wefti_seat_found(struct wefti_seat *seat, uintptr_t found) {
    if (found & WEFTI_SEAT_MORE)
        seat->in_batch = true;
    return found & ~(uintptr_t)WEFTI_SEAT_MORE;
}

/* T1.  What is there, and closed; or OPEN. */
static inline uintptr_t wefti_seat_take(struct wefti_seat *seat) {
    uintptr_t found = load_relaxed(&seat->slot); /* only compared */
    while (found != WEFTI_SEAT_OPEN && !cas_acquire(&seat->slot, &found, WEFTI_SEAT_CLOSED)) /* pairs with H1 */
        ;
    return wefti_seat_found(seat, found);
}

/* B3, B4.  The next item, or NULL: the batch is used up, or was taken back. */
static inline struct weft_task *wefti_seat_pop(struct wefti_seat *seat) {
    uint64_t more = load_relaxed(&seat->more);
    for (;;) {
        uint32_t next = wefti_seat_next_of(more), end = wefti_seat_end_of(more);
        if (next == end)
            break;
        struct weft_task *task = load_relaxed(&seat->item[next % WEFTI_SEAT_ITEMS]);
        if (cas_relaxed(&seat->more, &more, wefti_seat_pack(next + 1, end)))
            return task;
    }
    seat->in_batch = false;
    return NULL;
}

/* C1.  What was there. */
static inline uintptr_t wefti_seat_close(struct wefti_seat *seat) {
    /* Pairs with H1: the link that the task goes back by. */
    return wefti_seat_found(seat, xchg_acquire(&seat->slot, WEFTI_SEAT_CLOSED));
}

#endif
