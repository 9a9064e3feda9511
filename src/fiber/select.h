/* select.h - what a thing must define so that weft_select can wait for it.  Internal.
 *
 * What.   A select first tries every case, in random order.  If none can happen now it puts a record into the list of every thing; the
 *         records share a choice (wait.h), so one of them at most is served.  Then it waits, and takes the others out again.
 * Race.   Two selects, each a sender of what the other receives, put in their records one after the other; who is second must not
 *         sleep.  But it may have been served already through one of its earlier records, and the other side too: two choices would have to be won
 *         at once.  So a thing that finds, while a record is put in, that the case could happen, leaves it out and says so.  The
 *         select then takes all its records out; if none was served, it belongs to nobody, and tries again from the beginning.
 * Claim.  Exactly one case happens, and a case that can happen is not slept on.
 * Why.    Records are put in, served and taken out under the lock of their thing.  Under the lock of a thing that two selects share, one record
 *         goes in first, and the other select sees it.  While a select tries, it has no records anywhere: only it decides.
 * Rejected.  All locks at once, in order of address, as Go does: things here have locks of their own kinds.  A claim that can be
 *         taken back: whoever meets it must wait for its end, under a lock.
 * Checked by.  test/model/select.c
 */
#ifndef WEFTI_FIBER_SELECT_H
#define WEFTI_FIBER_SELECT_H

#include <weft/select.h>

#include "fiber/wait.h"

/* All take the thing's lock themselves, and never wait. */
struct weft_case_kind {
    const char *what; /* for dumps */
    /* Do it, if it can be done now: true, with c->result set. */
    bool (*try_now)(weft_case *c);
    /* Put the record, which is initialised but for slot, into the thing's list.  False: it could happen now, and was not put in. */
    bool (*begin)(weft_case *c, struct wefti_waiter *waiter);
    /* Take the record out, if it is still in. */
    void (*end)(weft_case *c, struct wefti_waiter *waiter);
    /* The record was served: set c->result. */
    void (*served)(weft_case *c, struct wefti_waiter *waiter);
};

/* Under the thing's lock: does somebody wait in the list who could be served, other than ourselves?  Takes out records of selects that
 * are over. */
bool wefti_waiters_has_other(struct wefti_waiters *list, const struct wefti_choice *ours);

#endif
