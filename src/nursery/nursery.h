/* nursery.h - the nursery object, and what its files tell each other.  Internal.
 *
 * What.   A nursery is a list of fibers under a lock, and `live`: how many things keep it from ending.  A child counts one, and so does whoever
 *         works on it and is neither a child nor the owner (a pin).  Who brings `live` to 0 settles the state and serves the waiter.
 * Words.  state OPEN, CLOSING, CLOSED, CANCELLING, CANCELLED; OPEN and CLOSING with a child, CANCELLING with a child or pin, CLOSED and CANCELLED with
 *         neither.  `cursor`: the first child that the canceller has not yet come to.  Since only OPEN takes children, the list only shrinks meanwhile.
 * Who.    All fields but the first block: under the lock.  A child is in the list from before it is queued until its `ended`; its `next`
 *         and `prev` are the nursery's.  The waiter: wait.h.
 * Race.   child: C1 lock; unlink; COMPLETE                  owner: A1 lock; live > 0: append the waiter; unlock
 *                C2 --live; 0: settle, SERVED                      A2 suspend until SERVED
 *                C3 unlock                                         A3 lock, unlock
 *                C4 wake                                           A4 the memory is the caller's again
 *         canceller: K1 lock; CANCELLING; pin; unlock
 *                    K2 lock; take the child at the cursor, with a reference; unlock
 *                    K3 cancel it; lock the fiber; K1 for each nursery that it owns, which are then next; unlock
 *                    K4 all done, under the lock of the last K2: C2 to C4 for the pin
 * Claim.  The owner goes on when, and only when, all children have ended and nobody touches the nursery any more; their handles say so, too.
 *         A child of a cancelled nursery is cancelled, or has ended, and so has all that hangs on it.
 * Why.    A1 and C1 to C3 hold one lock: A1 sees 0, or C2 sees the waiter; and the COMPLETE of C1 comes before what the owner sees, without a
 *         second lock to count after it.  A3: whoever served holds the lock until C3.  A spawn locks and finds OPEN before K1, and
 *         then the cursor will come to it; or it is refused.  K3: a nursery leaves its owner's list (under the fiber's lock) only after A3; so what is
 *         found there can be locked and pinned.  An owner puts its new nursery into the list, then looks at its own CANCELLED;
 *         a canceller sets CANCELLED, then looks at the list: both under the fiber's lock, so one sees the other.
 *         The same of an owner that removes its last shield: it lays its nurseries open, then looks; a canceller sets CANCELLED, then looks for open ones.
 *         Grace: a limit for the owner that comes when its nursery is CANCELLING already is for the children, too: the cursor goes back to the first.  K2 reads
 *         the limit after the cursor, and K4 does not let go of the lock in which it found none: no child is left with the old one.
 *         No lock is held while a task is cancelled, and depth is a list, not a recursion.
 * Locks.  fiber, then nursery; the timer's, then the nursery's.
 * Checked by.  test/model/nursery.c
 */
#ifndef WEFTI_NURSERY_NURSERY_H
#define WEFTI_NURSERY_NURSERY_H

#include <weft/nursery.h>

#include "fiber/fiber.h"
#include "fiber/wait.h"

struct wefti_nursery;
struct wefti_nursery_timer;

enum wefti_nursery_kind {
    WEFTI_BY_THREAD,
    WEFTI_BY_FIBER,
    WEFTI_BY_POLL,
};

/* What the owner of some nurseries wants to know of their children. */
struct wefti_nursery_hooks {
    /* A child has ended.  Under the lock.  Returns who is to be woken for that, or 0. */
    wefti_waker (*ended)(struct wefti_nursery *n, struct wefti_fiber *fiber);
    /* A child waits for a recharge from now on, on its own stack, without the lock.  Returns true if the owner sees to it.  May be NULL. */
    bool (*exhausted)(struct wefti_nursery *n, struct wefti_fiber *fiber, const char *what);
};

struct wefti_nursery {
    struct wefti_owner owner; /* first: a child's fiber->owner points here */

    /* Set when it is made, or the owner's. */
    struct wefti_owned owned; /* in the owner's list, if that is a fiber */
    struct weft_runtime *rt;
    struct weft_task *made_by; /* NULL: a thread */
    const char *name;
    int64_t grace;
    struct weft_fund *fund; /* what its children's budgets come out of; NULL: the spawner's */
    struct wefti_nursery_timer *timer; /* NULL: no deadline was ever set */
    int *status; /* of the block */
    uint8_t kind;
    bool heap; /* made by create */
    bool bound; /* in the owner's list, or not yet awaited */
    bool
        shielded; /* opened under a shield that is up: cancelling the owner does not reach it; under the owner's lock */
    bool keep_going;
    bool keep_results; /* next.c */
    bool has_cap; /* `cap` is one */

    struct wefti_lock lock;
    uint8_t state, reason;
    bool abandoned; /* nobody awaits it: the last one out frees */
    bool pinned; /* by its canceller, of whom there is one at most */
    int error; /* the first child's */
    bool refused; /* a child was refused for lack of budget, and ended with -ECANCELED */
    size_t live;
    struct wefti_fiber *first, *last, *cursor;
    struct wefti_waiters waiters; /* one at most */
    struct wefti_nursery *next; /* in a canceller's list of work */
    struct wefti_fiber *ended, *ended_last; /* children whose end has not been given (next.c); each with a reference */
    struct wefti_waiters taker; /* who waits for the next of these; one at most */

    const struct wefti_nursery_hooks *hooks; /* NULL: none */
    wefti_waker also; /* what hooks->ended has returned: to be woken when the child has left */

    struct wefti_fiber *lent; /* ended children whose handles the nursery drops (lend.c), linked by `prev` */
    weft_cap cap; /* of children that the owner starts without a capability; set when it is made */
};
_Static_assert(sizeof(struct wefti_nursery) <= sizeof(weft_nursery), "room enough");
_Static_assert(_Alignof(struct wefti_nursery) <= _Alignof(weft_nursery), "aligned enough");

static inline struct wefti_nursery *wefti_nursery_of(weft_nursery *n) { return (struct wefti_nursery *)(void *)n; }
static inline struct wefti_nursery *wefti_nursery_of_owned(struct wefti_owned *owned) {
    return (struct wefti_nursery *)(void *)((char *)owned - offsetof(struct wefti_nursery, owned));
}

/* CLOSED or CANCELLED.  Under the lock. */
static inline bool wefti_nursery_is_over(const struct wefti_nursery *n) {
    return n->state == WEFT_NURSERY_CLOSED || n->state == WEFT_NURSERY_CANCELLED;
}

/* -- nursery.c --------------------------------------------------------------------------------------- */
/* One thing less that keeps it from ending.  Takes the lock with it; the nursery may be gone afterwards. */
void wefti_nursery_leave(struct wefti_nursery *n);
/* Starts fn(arg) as weft_nursery_go does, with a handle that the nursery drops when it has been awaited. */
int wefti_nursery_go_lent(struct wefti_nursery *n, weft_fiber_fn fn, void *arg, struct weft_task **handle);
/* A spawn was refused with this, and the spawner will not look: as if a child had failed with it.  n may be NULL. */
void wefti_nursery_refuse(struct wefti_nursery *n, int error);
/* 0: the caller, `self`, may wait for it; as weft_nursery_await, but for -EBUSY. */
int wefti_nursery_is_mine(const struct wefti_nursery *n, const struct weft_task *self, bool poll);
/* Await with a limit, after which the children are cancelled (and awaited). */
int wefti_nursery_await(struct wefti_nursery *n, int64_t until);

/* -- cancel.c ---------------------------------------------------------------------------------------- */
/* K1, under the lock.  True: the caller is to call wefti_nursery_cancel_begun without it. */
bool wefti_nursery_cancel_begin(struct wefti_nursery *n, enum weft_reason why);
void wefti_nursery_cancel_begun(struct wefti_nursery *n);
/* Both. */
void wefti_nursery_cancel(struct wefti_nursery *n, enum weft_reason why);
/* By the owner that waits no longer: also those that were cancelled before get the limit that its own shields had. */
void wefti_nursery_cancel_own(struct wefti_nursery *n, enum weft_reason why);
/* A fiber was cancelled: its nurseries are. */
void wefti_nursery_owner_cancelled(struct wefti_fiber *fiber);
/* It has removed its last shield: what it opened under it can be reached from now on.  On its own stack. */
void wefti_nursery_owner_unshielded(struct wefti_fiber *fiber);

/* -- next.c ------------------------------------------------------------------------------------------ */
/* Of a nursery with keep_results: `ended` keeps how each child has ended. */
extern const struct wefti_nursery_hooks wefti_nursery_keep;
/* Under the lock: there is one child less, or an end more. */
wefti_waker wefti_nursery_serve_taker(struct wefti_nursery *n);
/* Nobody wants to know of ends any more, of those that are kept nor of others. */
void wefti_nursery_forget(struct wefti_nursery *n);

/* -- lend.c ------------------------------------------------------------------------------------------ */
/* Under the lock: a child with a borrowed handle has ended. */
void wefti_nursery_keep_lent(struct wefti_nursery *n, struct wefti_fiber *fiber);
/* Under the lock: the children whose handles can be dropped now, for wefti_nursery_drop_lent. */
static inline struct wefti_fiber *wefti_nursery_take_lent(struct wefti_nursery *n) {
    struct wefti_fiber *lent = n->lent;
    n->lent = NULL;
    return lent;
}
/* Without the lock. */
void wefti_nursery_drop_lent(struct wefti_fiber *lent);

/* -- default.c --------------------------------------------------------------------------------------- */
/* The runtime for nurseries that plain threads open without naming one; it starts at the first call.  NULL: it cannot be started, has been stopped by
 * exit, or belongs to the parent of this forked process. */
struct weft_runtime *wefti_default_runtime(void);

/* -- timer.c ----------------------------------------------------------------------------------------- */
/* By the owner: it is awaited, and nobody knows of it any more. */
void wefti_nursery_timer_end(struct wefti_nursery *n);

#endif
