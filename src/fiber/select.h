/* select.h - what a thing must define so that weft_select can wait for it.  Internal.
 *
 * What.   A select first tries every case, in random order.  If none can happen now it puts a record into the list of every thing; the
 *         records share a choice (wait.h), so one of them at most is served.  Then it waits, and takes the others out again.
 * Race.   Two selects, each a sender of what the other receives, put in their records one after the other; who is second must not
 *         sleep.  But it may have been served already through one of its earlier records, and the other side too: two choices would have to be won
 *         at once.  So a thing that finds, while a record is put in, that the case could happen, leaves it out and says so.  The
 *         select then takes all its records out; if none was served, it belongs to nobody, and tries again from the beginning.
 * Now.    With WEFT_NOW a select that has tried all cases has looked at each of them at another moment: a value may have moved from a thing that was yet
 *         to be tried into one that had been tried.  So it puts in its records, too, and gives up at once.  While all records are in, whatever comes is
 *         served to one of them, or to somebody who came before; so if none is served, there was a moment when no case could happen.  Descriptors have no such
 *         moment: they are asked once more while the records are in.
 * Claim.  Exactly one case happens, and a case that can happen is not slept on.  A select that reports that nothing can happen is right about some moment of
 *         the call, for all of its cases but descriptors at once.
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

/* How a plain thread sleeps when one of the cases is about a descriptor, which nobody watches for it. */
struct wefti_case_sleep {
    void *(*begin)(void); /* what it needs; before any record is put in; may be NULL */
    void (*end)(void *aid);
    /* 0: the park's token was taken; -ETIMEDOUT; -EAGAIN: one of the descriptors may be ready, or for no reason. */
    int (*sleep)(void *aid, struct wefti_park *park, weft_case *cases, unsigned count, int64_t until);
};

/* All take the thing's lock themselves, and never wait. */
struct weft_case_kind {
    const char *what; /* for dumps */
    /* Do it, if it can be done now: true, with c->result set. */
    bool (*try_now)(weft_case *c);
    /* Put the record, which is initialised but for slot, into the thing's list: 1.  0: it could happen now, and was not put in.
     * A negative error: nor can it be.  NULL: the select itself wakes up, at c->at. */
    int (*begin)(weft_case *c, struct wefti_waiter *waiter);
    /* Take the record out, if it is still in.  The thing must be there: see Select in wait.h.  True: something that came for the record was kept until the
     * select had given up, so it tries again from the beginning.  Things that serve at once return false. */
    bool (*end)(weft_case *c, struct wefti_waiter *waiter);
    /* The record was served: set c->result.  False: for no reason, and the select tries again from the beginning. */
    bool (*served)(weft_case *c, struct wefti_waiter *waiter);
    /* Of a descriptor.  The select begins, and is over: the thing must not go meanwhile.  NULL: its owner sees to that. */
    void (*hold)(weft_case *c);
    void (*drop)(weft_case *c);
    /* When it can happen without anybody serving the record; WEFT_NEVER: not so.  NULL: never so.  Asked before the records are put in, by
     * things that only tasks of one thread can change meanwhile. */
    int64_t (*when)(const weft_case *c);
    const struct wefti_case_sleep *sleep; /* NULL: whoever serves the record wakes the thread */
};

/* Under the thing's lock: does somebody wait in the list who could be served, other than ourselves?  Takes out records of selects that
 * are over, and counts them in *strays. */
bool wefti_waiters_has_other(struct wefti_waiters *list, const struct wefti_choice *ours, uint32_t *strays);

/* Of a thing that is NULL: it happens at once, and the result is -EINVAL. */
extern const struct weft_case_kind wefti_no_case;

#endif
