/* bell.h - waiting for a change that everyone is to learn of: what broadcasts and watches share.  Internal.
 *
 * Who waits is not given anything: being served means `look again`, and what there is to see stays.  So a wait that ends early
 * loses nothing.  There may be nothing new either: who rings lets go of the lock now and then, and when others leave meanwhile it
 * gets to some who have come since.
 */
#ifndef WEFTI_CHAN_BELL_H
#define WEFTI_CHAN_BELL_H

#include "base/refs.h"
#include "fiber/select.h"
#include "queue/lock.h"

struct wefti_bell {
    struct wefti_lock lock; /* of the whole thing */
    uint32_t waiting;       /* records in the list, at most */
    struct wefti_waiters waiters;
    _Atomic uint32_t refs;
    bool closed;
};

/* The lock is held, and given back: wait until it rings.  0: look again; or an error, and nothing has happened. */
int wefti_bell_wait(struct wefti_bell *bell, int64_t until, const char *what);
/* The lock is held, and given back: all who wait are to look again. */
void wefti_bell_ring(struct wefti_bell *bell);
/* Close, and ring. */
void wefti_bell_close(struct wefti_bell *bell);

/* A poll task's wait.  begin: the lock is held, and given back.  True: it waits; ask `waits` when it is polled again. */
void wefti_bell_poll_begin(struct wefti_bell *bell, struct weft_task *self, struct wefti_poll_wait *wait);
int wefti_bell_poll_waits(struct wefti_bell *bell, struct wefti_poll_wait *wait);

/* A case of a select.  begin: the lock is held, and given back. */
void wefti_bell_case_begin(struct wefti_bell *bell, struct wefti_waiter *waiter);
void wefti_bell_case_end(struct wefti_bell *bell, struct wefti_waiter *waiter);

static inline void wefti_bell_ref(struct wefti_bell *bell, const char *call) { wefti_refs_add(&bell->refs, call); }

/* True: it was the last; nobody is inside, and the caller frees. */
static inline bool wefti_bell_unref(struct wefti_bell *bell) {
    uint32_t found = sub_acq_rel(&bell->refs, 1); /* release: our use is over; acquire: so is everyone's */
    wefti_assert(found > 0, found);
    return found == 1;
}

#endif
