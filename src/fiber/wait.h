/* wait.h - waiting for something that somebody will do: the one waiter record.  Internal.
 *
 * What.   A waiter is a record on the waiting stack (or in a poll task's state), in the list of the thing it waits for, under that
 *         thing's lock.  Whoever can serve it takes it out of the list, fills in what it gets, marks it SERVED and wakes it.
 *         A deadline or a cancellation only wakes: the waiter itself then takes the lock, and leaves the list if it is still there.
 *         So nothing is ever given to somebody who has gone, and nothing is lost.
 * Race.   waiter: A1 lock, append, unlock            server: B1 lock, take the first, (claim), fill in
 *                 A2 suspend until SERVED,                   B2 SERVED (last touch), unlock
 *                    woken, or late                          B3 wake
 *                 A3 not SERVED: lock, and unless
 *                    SERVED by now: remove, unlock
 * Claim.  A waiter returns either served, and nothing else was given to it, or not served, and nobody knows of it any more.
 * Why.    B1 and A3 hold one lock.  After B2 the record may be gone: B3 uses the waker that B1 read.  A task needs no
 *         reference for B3 when the server is a worker of its runtime (wefti_wake_loosely); others take one at B1, when the task
 *         still waits.  A thread does not leave before it has the token of B3, since its park lies on its stack.
 * Select. Several records, each in another thing's list, share a choice.  Who serves one must first win the choice (claim), and skips
 *         the record when another has: under the lock of its own thing, so the record is still there.  The select still comes by that thing
 *         afterwards, to see that the record is out: a thing that its users may free counts such strays until then, and is busy.
 *         A select that is late or cancelled wins the choice itself before it comes by, or learns who has: whoever serves it may free the thing.
 *         For the same reason who waits for such a thing only has a choice of one: A3 begins with give_up.
 *
 *         wefti_lock_take(&sem->lock);
 *         if (sem->count > 0) { sem->count--; wefti_lock_give(&sem->lock); return 0; }
 *         struct wefti_waiter waiter;
 *         wefti_waiter_init(&waiter);                  // -EINVAL in a poll task: it must not block
 *         wefti_waiters_append(&sem->waiters, &waiter);
 *         wefti_lock_give(&sem->lock);
 *         int why = wefti_waiter_wait(&waiter, until, "a semaphore");
 *         if (why) {
 *             wefti_lock_take(&sem->lock);
 *             if (wefti_waiters_remove(&sem->waiters, &waiter)) { wefti_lock_give(&sem->lock); return why; }
 *             wefti_lock_give(&sem->lock);
 *             wefti_waiter_settle(&waiter);            // served after all
 *         }
 *         return 0;
 *
 * Checked by.  test/model/wait.c
 */
#ifndef WEFTI_FIBER_WAIT_H
#define WEFTI_FIBER_WAIT_H

#include "fiber/switch.h"

enum { WEFTI_WAITING = 0, WEFTI_SERVED = 1 };

/* Shared by the records of one select. */
struct wefti_choice {
    _Atomic uint32_t taken; /* 0, or 1 + index of the record that was claimed, or WEFTI_GIVEN_UP */
};
#define WEFTI_GIVEN_UP UINT32_MAX

struct wefti_waiter {
    struct wefti_waiter *next, *prev;
    bool linked;                 /* in a list; under the thing's lock */
    struct wefti_park park;      /* of a waiting thread */
    _Atomic uint32_t state;
    union {
        uint32_t index;          /* in its choice */
        struct wefti_choice own; /* of one without: things that count strays ask this before they serve it */
    };
    struct wefti_choice *choice; /* NULL: waits for one thing only */
    wefti_waker waker;           /* whom to wake */
    void *slot;                  /* where a value is to go, or comes from; the thing's */
    intptr_t result;             /* what the server says; the thing's */
};

struct wefti_waiters {
    struct wefti_waiter *first, *last;
};

/* -- The waiting side ------------------------------------------------------------------------------------ */

/* The calling fiber or thread is to wait.  0; -EINVAL (in a poll task).  Cheap: also for waits that turn out to be none. */
int wefti_waiter_init(struct wefti_waiter *waiter);
/* The same of a caller that will give up at once: a poll task, too. */
int wefti_waiter_init_now(struct wefti_waiter *waiter);
/* The same for a task that is known: a fiber, or a poll task, whose record lives in its state. */
static inline void wefti_waiter_init_task(struct wefti_waiter *waiter, struct weft_task *self) {
    waiter->linked = false;
    waiter->choice = NULL;
    store_relaxed(&waiter->own.taken, 0); /* as `state` */
    waiter->waker = wefti_waker_task(self);
    store_relaxed(&waiter->state, WEFTI_WAITING); /* published by the thing's lock */
}
/* Appended, and unlocked: wait.  0: served; -ETIMEDOUT, -ECANCELED: then remove it, or if it is no longer in the list, settle. */
int wefti_waiter_wait(struct wefti_waiter *waiter, int64_t until, const char *what);
/* The same of a fiber that is known: the running one of the calling worker. */
static inline int wefti_waiter_wait_fiber(struct wefti_waiter *waiter, struct wefti_worker *w, struct wefti_fiber *self,
                                          int64_t until, const char *what) {
    return wefti_fiber_wait_set(w, self, &waiter->state, until, what);
}
/* The same for the records of a choice, of which one is served. */
int wefti_waiter_wait_any(struct wefti_waiter *waiters, struct wefti_choice *choice, int64_t until, const char *what);
/* After one that failed: nobody is to win the choice any more.  False: somebody has, and the record is served by now. */
bool wefti_choice_give_up(struct wefti_choice *choice, struct wefti_waiter *waiters);
/* The same of a record without a choice, for a thing that counts strays. */
static inline bool wefti_waiter_give_up(struct wefti_waiter *waiter) {
    return wefti_choice_give_up(&waiter->own, waiter);
}
/* After a wait that failed, when the record was found to be served: be sure that the server is done with it. */
void wefti_waiter_settle(struct wefti_waiter *waiter);
/* Has it been served?  What the server filled in may then be read. */
static inline bool wefti_waiter_is_served(struct wefti_waiter *waiter) {
    return load_acquire(&waiter->state) == WEFTI_SERVED; /* pairs with serve */
}

/* -- A poll task's room ------------------------------------------------------------------------------------ */

/* What lies in a weft_wait. */
struct wefti_poll_wait {
    struct wefti_waiter waiter;
    /* Set while it waits: take it out of the list, or if it was served, give back what it got.  Then `end` is NULL. */
    void (*end)(struct wefti_poll_wait *wait);
    void *thing; /* what it waits for */
};
_Static_assert(sizeof(struct wefti_poll_wait) <= sizeof(weft_wait), "room enough");
static inline struct wefti_poll_wait *wefti_poll_wait_of(weft_wait *wait) {
    return (struct wefti_poll_wait *)(void *)wait;
}
/* What a _poll call returns, for this thing: on -EAGAIN a dump will say so, should the poll end with WEFT_PENDING.  The last such call of a
 * poll counts; several for different things are told as "and others". */
static inline int wefti_poll_waits(int error, enum wefti_waits what) {
    struct wefti_worker *w = error == -EAGAIN ? wefti_worker_self() : NULL;
    if (w) {
        w->calls_left++; /* what wefti_slice_poll spent: a task may wait for more things than a slice has units */
        w->waits = (uint8_t)(what | (w->waits & WEFTI_WAITS_OTHERS) |
                             (w->waits && (w->waits & WEFTI_WAITS_MASK) != what ? WEFTI_WAITS_OTHERS : 0));
    }
    return error;
}
/* Does it wait, and not in this way for this thing?  Then the call is refused with -EBUSY: what lies there is another's. */
static inline bool wefti_poll_wait_is_taken(const struct wefti_poll_wait *poll, void (*end)(struct wefti_poll_wait *),
                                            const void *thing) {
    return poll->end && (poll->end != end || poll->thing != thing);
}

/* -- Under the thing's lock -------------------------------------------------------------------------------- */

static inline void wefti_waiters_append(struct wefti_waiters *list, struct wefti_waiter *waiter) {
    waiter->next = NULL;
    waiter->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = waiter;
    list->last = waiter;
    waiter->linked = true;
}

/* Before `next`, which is in the list, or at the end when that is NULL: for one who was there before. */
static inline void wefti_waiters_insert(struct wefti_waiters *list, struct wefti_waiter *waiter,
                                        struct wefti_waiter *next) {
    waiter->next = next;
    waiter->prev = next ? next->prev : list->last;
    *(waiter->prev ? &waiter->prev->next : &list->first) = waiter;
    *(next ? &next->prev : &list->last) = waiter;
    waiter->linked = true;
}

/* True: it was there. */
static inline bool wefti_waiters_remove(struct wefti_waiters *list, struct wefti_waiter *waiter) {
    if (!waiter->linked)
        return false;
    *(waiter->prev ? &waiter->prev->next : &list->first) = waiter->next;
    *(waiter->next ? &waiter->next->prev : &list->last) = waiter->prev;
    waiter->linked = false;
    return true;
}

/* Take out the first; there is one. */
static inline void wefti_waiters_remove_first(struct wefti_waiters *list) {
    struct wefti_waiter *waiter = list->first, *next = waiter->next;
    list->first = next;
    *(next ? &next->prev : &list->last) = NULL;
    waiter->linked = false;
}

/* May this record be served?  It has been taken out of its list.  False: its choice has been made elsewhere; try the next one. */
static inline bool wefti_waiter_claim(struct wefti_waiter *waiter) {
    uint32_t nobody = 0;
    return !waiter->choice ||
           cas_relaxed(&waiter->choice->taken, &nobody, waiter->index + 1); /* `state` and the locks order the rest */
}

/* The same of one without a choice, for a thing that is told who has given up.  A fiber that only we may run has not: it would have come by. */
bool wefti_waiter_claim_own(struct wefti_waiter *waiter);
/* Let go of a fiber that was claimed by claim_own, is still in its list, and got nothing: it may give up now, or be claimed again. */
static inline void wefti_waiter_unclaim(struct wefti_waiter *waiter) {
    store_relaxed(&waiter->own.taken, 0); /* as claim */
}
/* Take out the first that can be served, and claim it; NULL: nobody waits. */
struct wefti_waiter *wefti_waiters_take(struct wefti_waiters *list);
/* The same, and count in *strays the records it has taken out of selects that are over, and of others that have given up: these have not come by
 * yet. */
struct wefti_waiter *wefti_waiters_take_count(struct wefti_waiters *list, uint32_t *strays);
/* A record of a select that is over, or of whoever has given up, which has come by: true when it was counted as a stray. */
static inline bool wefti_waiters_end(struct wefti_waiters *list, struct wefti_waiter *waiter) {
    return !wefti_waiters_remove(list, waiter) && !wefti_waiter_is_served(waiter);
}

/* B2: everything is filled in.  The waker is to be woken after the lock was given back. */
wefti_waker wefti_waiter_serve(struct wefti_waiter *waiter);

/* -- After it ---------------------------------------------------------------------------------------------- */

/* B3. */
void wefti_waiter_wake(wefti_waker waker);

/* -- Both, of one's own ------------------------------------------------------------------------------------ */

/* Is it of a fiber that only `w`, the calling worker, may run, and could queue now?  Then B2 is `serve_here` and B3 `wake_here`, and between
 * the two the fiber cannot go on. */
static inline bool wefti_waiter_is_here(const struct wefti_waiter *waiter, const struct wefti_worker *w) {
    struct weft_task *task = (struct weft_task *)waiter->waker;
    if (load_own(&w->resting) == task) /* as all that rest */
        return true;
    return !(waiter->waker & 1) && task->home == w->index + 1 && wefti_task_rt(task) == w->rt &&
           !(w->central | w->parking);
}
static inline struct weft_task *wefti_waiter_serve_here(struct wefti_waiter *waiter) {
    struct weft_task *task = (struct weft_task *)waiter->waker;
    store_relaxed(&waiter->state, WEFTI_SERVED); /* B2: to its own thread */
    return task;
}
static inline void wefti_waiter_wake_here(struct wefti_worker *w, struct weft_task *task) {
    if (WEFTI_LIKELY(wefti_worker_take_resting(w, task)) || wefti_word_wake_here(&task->word))
        wefti_chain_append(&w->pinned, &task->link);
}

#endif
