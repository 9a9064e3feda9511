/* mutex.c - one owner at a time.
 *
 * Words.  0 free; else the owner's number (sync.h, wefti_me), with WEFTI_WAITERS when its unlock is to look at the list.
 *         flags: WOKEN, one who waited has been woken to try again and is on his way.
 * Who.    1 A free word is taken by a swap, by anyone at any time, also when others wait (barging).
 *         2 A word with WEFTI_WAITERS is changed under the lock only.
 *         3 While WOKEN nobody need be told of those in the list: he who is on his way will see to it.
 * Race.   lock: L1 swap 0 for me: locked            unlock: U1 swap me for 0: done
 *               L2 lock; set WAITERS (unless WOKEN,         U2 it has WAITERS: lock; take the first out of the list
 *                  or it is free: locked)                   U3 he has waited long: the word is his (hand-off)
 *               L3 into the list; unlock; wait                 else: the word is 0, WOKEN, and he is to try again
 *               L4 to try again: lock; not WOKEN; L2,       U4 serve him; unlock; wake
 *                  but to the front
 * Claim.  Nobody waits for a free mutex: (A) somebody in the list => WAITERS in the word, or WOKEN;  (B) the word is 0 and somebody in
 *         the list => WOKEN.  And who has waited a millisecond is not overtaken any more.
 * Why.    L2 swaps: it either finds the word free, or the owner's U1 fails.  All else is under the lock: U3 ends WAITERS where it begins
 *         WOKEN; L4 ends WOKEN where L2 begins WAITERS, or takes the word with WAITERS if there are others.  Who leaves on the way
 *         (a deadline, a cancel) does L4 first, so WOKEN never stays behind.  Hand-off: U3 never lets the word be 0, so L1 cannot
 *         come between.
 * Why two ways.  A hand-off costs a wake and a switch for each turn of the lock, since the one who has it does not run yet; letting those
 *         who run barge in costs a swap.  But then one who is slow to wake would never get it.
 * Checked by.  test/model/sync_mutex.c
 */
#include "sync/sync.h"

#define WOKEN 2u
_Static_assert(WEFT_MUTEX_FIFO == 1u, "a flag of ours");

#ifndef WEFTI_MUTEX_PATIENCE
#define WEFTI_MUTEX_PATIENCE 1000000 /* ns of waiting after which it is handed over */
#endif
#ifndef WEFTI_MUTEX_SPIN
#define WEFTI_MUTEX_SPIN 32 /* looks before it waits; most sections are shorter than a switch */
#endif

enum { TRY_AGAIN, OWNED }; /* result */

/* All waiters lie in a wefti_sync_poll; `slot` has the number. */
static int64_t since_of(struct wefti_waiter *waiter) { return ((struct wefti_sync_poll *)(void *)waiter)->since; }

static struct wefti_sync *sync_of(const weft_mutex *mutex) { return wefti_sync_of(&mutex->room); }

/* -- Locking --------------------------------------------------------------------------------------------- */

/* L2.  Under the lock.  0: locked; -EAGAIN: into the list; -EINVAL. */
static int enter(struct wefti_sync *m, uint64_t me) {
    uint64_t found = load_relaxed(&m->word); /* only compared */
    if (WEFTI_UNLIKELY(wefti_sync_is_dead(m)))
        return -EINVAL;
    for (;;) {
        if (found == 0) {
            uint64_t tell = m->waiters.first && !(m->flags & WOKEN) ? WEFTI_WAITERS : 0;
            if (cas_acquire(&m->word, &found, me | tell)) /* pairs with U1, U3 */
                return 0;
        } else if ((found & WEFTI_WAITERS) || (m->flags & WOKEN)) {
            return -EAGAIN;
        } else if (cas_relaxed(&m->word, &found,
                               found | WEFTI_WAITERS)) { /* a mark for the owner; the lock orders the rest */
            return -EAGAIN;
        }
    }
}

/* Most sections are over before a switch would be.  Not when the owner cannot run meanwhile, nor when others wait already. */
static bool spin(struct wefti_sync *m, uint64_t me) {
    struct wefti_worker *w = wefti_worker_self();
    if (w && w->rt->workers == 1)
        return false;
    for (int looks = 0;;) {
        uint64_t found = load_relaxed(&m->word); /* a hint */
        if (found & WEFTI_WAITERS)
            return false;
        if (found == 0 && cas_acquire(&m->word, &found, me)) /* L1 */
            return true;
        if (++looks == WEFTI_MUTEX_SPIN)
            return false;
        wefti_relax();
    }
}

static __attribute__((noinline)) int lock_slowly(struct wefti_sync *m, uint64_t me, uint64_t found, int64_t until) {
    struct wefti_sync_poll record;
    struct wefti_waiter *waiter = &record.poll.waiter;
    if ((found & ~WEFTI_WAITERS) == me)
        return -EDEADLK;
    if (until <= 0)
        return found == WEFTI_WAITERS ? -EINVAL : -ETIMEDOUT; /* nobody's, and not free: dead */
    if (spin(m, me))
        return 0;
    int error = wefti_waiter_init(waiter);
    if (error)
        return error;
    record.since = weft_now();
    waiter->slot = (void *)(uintptr_t)me;
    for (bool again = false;; again = true) {
        wefti_lock_take(&m->lock);
        if (again)
            m->flags &= ~WOKEN; /* L4 */
        error = enter(m, me);
        if (error == -EAGAIN) {
            (again ? wefti_waiters_prepend : wefti_waiters_append)(&m->waiters, waiter); /* L3, L4 */
            error = wefti_sync_wait(m, waiter, until, "a mutex");
            if (!error && waiter->result == OWNED)
                return 0;
            if (!error) {
                store_relaxed(&waiter->state, WEFTI_WAITING); /* nobody knows of it */
                continue;
            }
        }
        wefti_lock_give(&m->lock);
        return error;
    }
}

int weft_mutex_lock(weft_mutex *mutex, weft_deadline until) {
    struct wefti_sync *m = sync_of(mutex);
    uint64_t me = wefti_me(), found = 0;
    if (WEFTI_LIKELY(cas_acquire(&m->word, &found, me))) /* L1, pairs with U1, U3 */
        return 0;
    return lock_slowly(m, me, found, until);
}

/* -- Unlocking ------------------------------------------------------------------------------------------- */

/* Under the lock: the mutex is free, or about to be, and nobody has been woken.  The first is to try again.  Whom to wake. */
static wefti_waker wake_first(struct wefti_sync *m) {
    struct wefti_waiter *first = m->waiters.first;
    m->flags |= WOKEN;
    wefti_waiters_remove(&m->waiters, first);
    first->result = TRY_AGAIN;
    return wefti_waiter_serve(first);
}

/* The lock is held; give it back, and wake. */
static void give_and_wake(struct wefti_sync *m, wefti_waker waker) {
    wefti_lock_give(&m->lock);
    if (waker)
        wefti_waiter_wake(waker); /* U4 */
}

/* U2 to U4.  The word is the caller's, with WEFTI_WAITERS. */
static __attribute__((noinline)) void unlock_slowly(struct wefti_sync *m) {
    int64_t now = weft_now(); /* looked at before the lock is taken: it costs more than the rest */
    wefti_waker waker = 0;
    wefti_lock_take(&m->lock);
    struct wefti_waiter *first = m->waiters.first;
    if (!first) {
        store_release(&m->word, 0); /* the last of them has left; pairs with L1 */
    } else if ((m->flags & WEFT_MUTEX_FIFO) || now - since_of(first) >= WEFTI_MUTEX_PATIENCE) {
        wefti_waiters_remove(&m->waiters, first);
        first->result = OWNED;
        uint64_t tell = m->waiters.first ? WEFTI_WAITERS : 0;
        store_relaxed(&m->word, (uint64_t)(uintptr_t)first->slot | tell); /* U3; being SERVED orders it for him */
        waker = wefti_waiter_serve(first);
    } else {
        store_release(&m->word, 0); /* U3, pairs with L1 */
        waker = wake_first(m);
    }
    give_and_wake(m, waker);
}

int weft_mutex_unlock(weft_mutex *mutex) {
    struct wefti_sync *m = sync_of(mutex);
    uint64_t me = wefti_me(), found = me;
    if (WEFTI_LIKELY(cas_release(&m->word, &found, 0))) /* U1, pairs with L1 */
        return 0;
    if (found != (me | WEFTI_WAITERS))
        return -EPERM;
    unlock_slowly(m);
    return 0;
}

bool weft_mutex_is_mine(const weft_mutex *mutex) {
    return (load_relaxed(&sync_of(mutex)->word) & ~WEFTI_WAITERS) == wefti_me(); /* only we write our number */
}

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

static void end_poll(struct wefti_poll_wait *poll) {
    struct wefti_sync *m = poll->thing;
    weft_cond *cond = ((struct wefti_sync_poll *)(void *)poll)->passes_on;
    wefti_lock_take(&m->lock);
    bool gone = wefti_waiters_remove(&m->waiters, &poll->waiter);
    poll->end = NULL;
    if (!gone && poll->waiter.result == OWNED) {
        wefti_lock_give(&m->lock);
        uint64_t found = (uint64_t)(uintptr_t)poll->waiter.slot;
        if (!cas_release(&m->word, &found, 0)) /* U1 */
            unlock_slowly(m);
    } else if (!gone) { /* it was to try again: L4, and another is to */
        m->flags &= ~WOKEN;
        uint64_t found = load_relaxed(&m->word); /* only compared */
        wefti_waker waker = 0;
        if (m->waiters.first)
            while (found && !cas_relaxed(&m->word, &found, found | WEFTI_WAITERS)) /* L2: there is an owner to tell */
                ;
        if (m->waiters.first && !found)
            waker = wake_first(m);
        give_and_wake(m, waker);
    } else {
        wefti_lock_give(&m->lock);
    }
    if (cond)
        weft_cond_signal(cond);
}

bool wefti_mutex_polls(const weft_mutex *mutex, const struct wefti_sync_poll *wait) {
    return wait->poll.end == end_poll && wait->poll.thing == sync_of(mutex);
}

int wefti_mutex_lock_poll(weft_mutex *mutex, struct weft_task *self, struct wefti_sync_poll *wait, weft_cond *cond) {
    struct wefti_sync *m = sync_of(mutex);
    uint64_t me = (uint64_t)(uintptr_t)self, found = 0;
    struct wefti_waiter *waiter = &wait->poll.waiter;
    int begun = wefti_poll_begin(&wait->poll, end_poll, m);
    if (begun < 0 || (begun && waiter->result == OWNED))
        return begun < 0 ? begun : 0;
    if (!begun) {
        if (cas_acquire(&m->word, &found, me)) /* L1 */
            return 0;
        if ((found & ~WEFTI_WAITERS) == me)
            return -EDEADLK;
        wait->since = weft_now();
        wait->passes_on = cond;
    }
    wefti_lock_take(&m->lock);
    if (begun)
        m->flags &= ~WOKEN; /* L4 */
    int error = enter(m, me);
    if (error == -EAGAIN) {
        wefti_waiter_init_task(waiter, self);
        waiter->slot = self;
        wait->poll.end = end_poll;
        wait->poll.thing = m;
        (begun ? wefti_waiters_prepend : wefti_waiters_append)(&m->waiters, waiter); /* L3, L4 */
    }
    wefti_lock_give(&m->lock);
    return error;
}

int weft_mutex_lock_poll(weft_mutex *mutex, weft_task *self, weft_wait *wait) {
    return wefti_mutex_lock_poll(mutex, self, wefti_sync_poll_of(wait), NULL);
}

/* -- Beginning and end ----------------------------------------------------------------------------------- */

int weft_mutex_init(weft_mutex *mutex, unsigned flags) {
    if (flags & ~WEFT_MUTEX_FIFO)
        return -EINVAL;
    *mutex = (weft_mutex){WEFT_SYNC_ROOM_INIT(0, flags)};
    return 0;
}

int weft_mutex_destroy(weft_mutex *mutex) {
    struct wefti_sync *m = sync_of(mutex);
    wefti_sync_lock_alone(m);
    if (m->flags & WOKEN) { /* somebody is about to try */
        wefti_lock_give(&m->lock);
        return -EBUSY;
    }
    return wefti_sync_end(m, 0);
}
