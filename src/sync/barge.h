/* barge.h - how those who wait for a word get it, while those who run may take it before them: mutex, semaphore, rwlock.  Internal.
 *
 * What.   One who can have what he wants takes it with a swap of the word, also when others wait (barging): nothing is slower than to keep
 *         for somebody who must first wake what somebody else who runs could use.  Who waits is woken to try again, and if he
 *         finds nothing goes back to his place in the list.  Once he has waited for a millisecond he is not made to try: what comes
 *         free is his at once (hand-off).  With WEFTI_FIFO everyone is handed what he wants, in order.
 * Words.  The object's word, with WEFTI_WAITERS when whoever gives something back is to look at the list.
 *         flags: how many have been woken to try again and are on their way (WEFTI_WOKEN times).
 * Who.    1 A word with WEFTI_WAITERS is changed under the lock only: nobody barges past those whom nobody has woken.
 *         2 While one is on his way nobody need be told of those in the list: he will see to it.  So the word has no WEFTI_WAITERS then.
 * Race.   get:  L1 swap: had                          give: U1 swap, when there is no WAITERS: done
 *               L2 lock; can be had: swap, had              U2 lock; what is free now?
 *                  else set WAITERS, unless one is          U3 for the first in the list, and the next, while there is enough:
 *                  on his way                                  he has waited long: it is his
 *               L3 into the list; unlock; wait                 else: he is to try again, and is on his way
 *               L4 to try again: lock; one less on          U4 the word, with WAITERS if somebody is left and nobody on his way;
 *                  his way; L2, but to his old place;          unlock; wake
 *                  the last one: U3 for those in the list
 * Claim.  Nobody waits for what he could have: (A) somebody in the list => WAITERS in the word, or one is on his way;  (B) the first in
 *         the list can have what he wants => one is on his way.  And who has waited a millisecond is passed over at most once
 *         more: by those who barge while he wakes.
 * Why.    L2 swaps: it either gets it, or sees why not in the same step that makes U1 fail.  All else is under the lock: U4 ends WAITERS
 *         only where U3 has sent somebody, or nobody is left; the last who arrives sets it, or sends others.  Who leaves (a deadline, a
 *         cancel) does what L4 does: he may have been the one on his way, or have stood in front of one who wants less.
 *         Hand-off: WAITERS stays in the word from before U2 until U4, so L1 cannot come between.
 *         L4 never serves himself: what he could not have in L2, U3 does not make more of.
 * Many.   One who wants much is not overtaken for long by those who want little: while he is first, and nobody on his way, all that
 *         comes back stays there for him (rule 1).
 * Spin.   Before L2 one looks a few times, unless his worker has met somebody just now (docs/internals/mutex.md).
 * Checked by.  test/model/sync_mutex.c, sync_sem.c, sync_rwlock.c
 */
#ifndef WEFTI_SYNC_BARGE_H
#define WEFTI_SYNC_BARGE_H

#include "sync/sync.h"

#ifndef WEFTI_BARGE_PATIENCE
#define WEFTI_BARGE_PATIENCE 1000000 /* ns of waiting after which it is handed over */
#endif
#ifndef WEFTI_BARGE_SPIN
#define WEFTI_BARGE_SPIN 32 /* looks before it waits; most sections are shorter than a switch */
#endif

#ifndef WEFTI_BARGE_APART
#define WEFTI_BARGE_APART 1000 /* ns between two such looks of a worker */
#endif

#define WEFTI_NONE UINT64_MAX

/* An object: what its word becomes, which is given without WEFTI_WAITERS, when one gets what he wants, and when he gives it back; WEFTI_NONE:
 * it cannot.  Who cannot have it now could not either when others had got theirs. */
struct wefti_barge {
    uint64_t (*with)(uint64_t word, uint64_t want);
    uint64_t (*without)(uint64_t word, uint64_t want);
    int refused; /* the error of a give that cannot be */
    enum wefti_waits what;
    /* For dumps: who has it, as in struct wefti_kept; `thing` is the wefti_sync.  NULL: nobody can be named. */
    uint64_t (*by)(const void *thing, uint64_t *many);
};

/* After L1 has failed: look a few times, then wait.  0; -ETIMEDOUT; -ECANCELED; -EINVAL. */
int wefti_barge_get(struct wefti_sync *sync, const struct wefti_barge *kind, uint64_t want, int64_t until);
/* After U1 has failed.  0; kind->refused; -EINVAL: dead. */
int wefti_barge_give(struct wefti_sync *sync, const struct wefti_barge *kind, uint64_t want);
/* L1 has failed at `found`, and the deadline is now: -ETIMEDOUT, or -EINVAL. */
int wefti_barge_too_late(struct wefti_sync *sync, uint64_t found);

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

enum { WEFTI_TRY_AGAIN = 1, WEFTI_OWNED = 2 }; /* waiter.result */

/* A call of some _poll begins.  0: it does not wait yet; WEFTI_TRY_AGAIN; WEFTI_OWNED: it has what it wanted; -EAGAIN; -EBUSY; -EINVAL. */
static inline int wefti_barge_begin(struct wefti_poll_wait *poll, const struct weft_task *self,
                                    void (*end)(struct wefti_poll_wait *), struct wefti_sync *sync,
                                    const struct wefti_barge *kind) {
    int begun = wefti_poll_begin(poll, self, end, sync, kind->what);
    return begun == 1 ? (int)poll->waiter.result : begun;
}
/* After the first two of those.  0: it has it; -EAGAIN: it waits; -EINVAL. */
int wefti_barge_poll(struct wefti_sync *sync, const struct wefti_barge *kind, uint64_t want, struct weft_task *self,
                     struct wefti_sync_poll *wait, void (*end)(struct wefti_poll_wait *), bool again);
/* The first part of its `end`.  True: it had been handed what it wanted, which is to be given back. */
bool wefti_barge_end(struct wefti_poll_wait *poll, const struct wefti_barge *kind);

#endif
