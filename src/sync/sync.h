/* sync.h - what the synchronisation objects share: the word, the list of waiters, the lock.  Internal.
 *
 * What.   Every object is a word, and a list of waiters (fiber/wait.h) under a lock.  Calls that need not wait, and find nobody waiting,
 *         change the word and nothing else.
 * Words.  WEFTI_WAITERS, the lowest bit, means the same in all: somebody is in the list, or may be, and the word is changed only under
 *         the lock.  Set before one is in the list, cleared when the list is empty; so under the lock, with somebody in the list, the
 *         word stands still.  (barge.h says what else it allows.)
 *         WEFTI_STRAY, times: of an event only, selects that are over and have yet to come by (wait.h).
 * Claim.  Nobody stays in the list who could be served.
 * Why.    A waiter sets the bit under the lock with a read-modify-write that sees why it must wait.  Whoever ends that reason comes later
 *         in the order of the word, finds the bit, takes the lock, and finds the waiter.
 * Orders. Fast paths acquire when they get and release when they give; all are read-modify-writes, so what several gave is seen
 *         by who gets the sum.  Under the lock too: the bit may have gone before the lock was had.
 * End.    A call touches the object last when it gives the lock back, or with its one change of the word.  So whoever takes the lock once
 *         after that, as destroy does, may free the memory.  A call that serves many lets go of the lock in between; it counts
 *         itself in `flags` meanwhile, and destroy waits for it.  So does it for one that was late or cancelled, and served on its way to the lock.
 * Checked by.  test/model/sync_*.c
 */
#ifndef WEFTI_SYNC_SYNC_H
#define WEFTI_SYNC_SYNC_H

#include <weft/sync.h>

#include "fiber/slice.h"
#include "fiber/wait.h"
#include "queue/lock.h"

#ifndef WEFTI_WAKES
#define WEFTI_WAKES 32u /* served under one hold of the lock */
#endif

#define WEFTI_WAITERS UINT64_C(1)
#define WEFTI_STRAY UINT64_C(4)

/* What lies in a weft_sync_room. */
struct wefti_sync {
    _Atomic uint64_t word;
    struct wefti_waiters waiters;
    struct wefti_lock lock;
    uint32_t flags; /* under the lock */
};
#define WEFTI_FIFO 1u            /* WEFT_MUTEX_FIFO and so on */
#define WEFTI_WOKEN 2u           /* times: barge.h */
#define WEFTI_WOKEN_MASK 0x7eu
#define WEFTI_SYNC_DEAD 0x80u    /* destroyed; the word is WEFTI_WAITERS, which sends everyone here */
#define WEFTI_SYNC_SERVER                                                                                              \
    0x100u /* times: calls that have let go of the lock while they serve, or that were served when they had given up */

_Static_assert(WEFTI_WAKES *WEFTI_WOKEN <= WEFTI_WOKEN_MASK, "as many as are woken at once");
_Static_assert(sizeof(struct wefti_sync) == sizeof(weft_sync_room), "the public room");
_Static_assert(_Alignof(struct wefti_sync) <= _Alignof(weft_sync_room), "the public room");

static inline struct wefti_sync *wefti_sync_of(const weft_sync_room *room) {
    return (struct wefti_sync *)(uintptr_t)room;
}

/* -- Who ------------------------------------------------------------------------------------------------ */

/* The caller: the running task's address, or the thread's number.  Not 0, and a multiple of 8.  w: the calling worker, or NULL. */
static inline uint64_t wefti_me_on(const struct wefti_worker *w) {
    uint64_t task = WEFTI_LIKELY(w != NULL) ? (uint64_t)(uintptr_t)wefti_current(w) : 0;
    return WEFTI_LIKELY(task != 0) ? task : wefti_thread_id();
}
static inline uint64_t wefti_me(void) { return wefti_me_on(wefti_worker_self()); }

/* An object's word names `me`, the caller, as its owner from now on, or no longer.  A task is named by its address.  One that ends while it is named
 * somewhere leaves that address to nobody (task/slab.h): a later task there would be taken for the owner. */
static inline void wefti_owns(uint64_t me) {
    struct weft_task *task = (struct weft_task *)(uintptr_t)me;
    if (WEFTI_LIKELY(!(me & WEFTI_THREAD) && task->owns < WEFTI_OWNS_MANY))
        task->owns += WEFTI_OWNS_ONE;
}
static inline void wefti_owns_no_more(uint64_t me) {
    struct weft_task *task = (struct weft_task *)(uintptr_t)me;
    if (WEFTI_LIKELY(!(me & WEFTI_THREAD) && task->owns < WEFTI_OWNS_MANY))
        task->owns -= WEFTI_OWNS_ONE;
}

/* -- Waiting -------------------------------------------------------------------------------------------- */

/* The caller's record is in the list, and the lock has been given back: wait.
 * 0: served.  Else it has left the list, and the lock is held. */
int wefti_sync_sleep(struct wefti_sync *sync, struct wefti_waiter *waiter, int64_t until, const char *what);
/* The lock is held: give it back, and the same. */
static inline int wefti_sync_wait(struct wefti_sync *sync, struct wefti_waiter *waiter, int64_t until,
                                  const char *what) {
    wefti_lock_give(&sync->lock);
    return wefti_sync_sleep(sync, waiter, until, what);
}

/* What lies in a weft_wait that is used here. */
struct wefti_sync_poll {
    struct wefti_poll_wait poll;
    int64_t since; /* barge.h: when it began to wait */
    void *passes_on; /* mutex: the condition whose signal it would take with it */
};
_Static_assert(sizeof(struct wefti_sync_poll) <= sizeof(weft_wait), "room enough");
static inline struct wefti_sync_poll *wefti_sync_poll_of(weft_wait *wait) {
    return (struct wefti_sync_poll *)(void *)wait;
}

/* A call of some _poll begins.  0: it does not wait yet; 1: it was served, and waits no more; -EAGAIN: it waits for this; -EBUSY:
 * for something else; -EINVAL: there is nobody to wake. */
static inline int wefti_poll_begin(struct wefti_poll_wait *poll, const struct weft_task *self,
                                   void (*end)(struct wefti_poll_wait *), void *thing, enum wefti_waits what) {
    if (!self)
        return -EINVAL;
    if (!poll->end)
        return 0;
    if (wefti_poll_wait_is_taken(poll, end, thing))
        return -EBUSY;
    if (!wefti_waiter_is_served(&poll->waiter))
        return wefti_poll_waits(-EAGAIN, what);
    poll->end = NULL;
    return 1;
}

/* Under the lock: it waits from now on.  -EAGAIN. */
static inline int wefti_poll_wait(struct wefti_sync *sync, struct wefti_poll_wait *poll, struct weft_task *self,
                                  void (*end)(struct wefti_poll_wait *), void *thing, enum wefti_waits what) {
    wefti_waiter_init_task(&poll->waiter, self);
    poll->end = end;
    poll->thing = thing;
    wefti_waiters_append(&sync->waiters, &poll->waiter);
    return wefti_poll_waits(-EAGAIN, what);
}

/* The `end` of objects that grant nothing: leave the list, if still there. */
void wefti_poll_leave(struct wefti_poll_wait *poll);

/* -- Serving -------------------------------------------------------------------------------------------- */

/* Under the lock: it has been taken out of the list and filled in, and is served.  One who has given up, and is on his way to the lock, is counted
 * until he has come by. */
wefti_waker wefti_sync_serve(struct wefti_sync *sync, struct wefti_waiter *waiter);

/* Whom to wake when the lock is given back. */
struct wefti_wakes {
    uint32_t count;
    wefti_waker waker[WEFTI_WAKES];
};

/* Under the lock: it has been taken out of the list and filled in.  May let go of the lock for a moment. */
void wefti_wakes_serve(struct wefti_wakes *wakes, struct wefti_sync *sync, struct wefti_waiter *waiter);
/* Under the lock: let go of it, wake them, and take it again. */
void wefti_wakes_pause(struct wefti_wakes *wakes, struct wefti_sync *sync);
/* Give the lock back, and wake them. */
void wefti_wakes_end(struct wefti_wakes *wakes, struct wefti_sync *sync);

/* Under the lock: nobody is in the list? then the word is everybody's again. */
static inline void wefti_sync_tidy(struct wefti_sync *sync) {
    if (!sync->waiters.first)
        and_relaxed(&sync->word,
                    ~WEFTI_WAITERS); /* a read-modify-write: what the rest of it publishes, it still does */
}

/* Waiters of one turn are all served together; `result` has the number of the turn in which one came.  Under the lock: serve those
 * of `turn` and before, and clear WEFTI_WAITERS when nobody is left.  Gives the lock back. */
void wefti_sync_serve_turn(struct wefti_sync *sync, uint64_t turn);
static inline void wefti_sync_in_turn(struct wefti_waiter *waiter, uint64_t turn) { waiter->result = (intptr_t)turn; }

/* -- The end -------------------------------------------------------------------------------------------- */

/* Take the lock when no call is serving. */
void wefti_sync_lock_alone(struct wefti_sync *sync);
/* Under that lock, which it gives back: 0 and dead; -EBUSY (somebody waits or is on his way, or the word is not `expect`); -EINVAL (dead already). */
int wefti_sync_end(struct wefti_sync *sync, uint64_t expect);

static inline bool wefti_sync_is_dead(const struct wefti_sync *sync) { return sync->flags & WEFTI_SYNC_DEAD; }

/* -- mutex.c -------------------------------------------------------------------------------------------- */
/* As weft_mutex_lock_poll; a task that ends before it has the mutex passes the signal of `cond` on (may be NULL). */
int wefti_mutex_lock_poll(weft_mutex *mutex, struct weft_task *self, struct wefti_sync_poll *wait, weft_cond *cond);
/* Is it waiting, or has been, for this mutex? */
bool wefti_mutex_polls(const weft_mutex *mutex, const struct wefti_sync_poll *wait);

#endif
