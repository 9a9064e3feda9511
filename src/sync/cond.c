/* cond.c - wait until somebody says that something has changed.
 *
 * Words.  0, or WEFTI_WAITERS: somebody is in the list.  A waiter's `slot` is the mutex it has released.
 * Race.   waiter: C1 (has the mutex, looks, must wait)      signaller: S1 lock the mutex, change, unlock
 *                 C2 into the list, WAITERS                            S2 WAITERS: take the first out of the list, serve it
 *                 C3 unlock the mutex, wait
 *                 C4 lock the mutex, whatever happened
 * Claim.  A change that C1 has not seen is signalled to somebody who waits, or will look again.
 * Why.    S1 comes after C3 in the mutex's order, so S2 sees C2 even without taking the lock.  A waiter that leaves is out of the list
 *         under the lock: S2 takes the next.  One that is served returns 0, also when it is late or cancelled.
 * Checked by.  test/model/sync_cond.c
 */
#include "sync/sync.h"

static struct wefti_sync *sync_of(const weft_cond *cond) { return wefti_sync_of(&cond->room); }

/* Under the lock. */
static void left(struct wefti_sync *s) {
    if (!s->waiters.first)
        store_relaxed(&s->word, 0); /* under the lock, or only a look */
}

/* C4. */
static int relock(weft_mutex *mutex) {
    struct wefti_fiber *self = wefti_fiber_self();
    struct wefti_steady steady = wefti_steady_begin(self ? &self->task : NULL);
    int error = weft_mutex_lock(mutex, WEFT_NEVER);
    wefti_steady_end(&steady);
    return error;
}

/* Under the lock: may a waiter with this mutex come in? */
static int enter(struct wefti_sync *s, const weft_mutex *mutex) {
    if (WEFTI_UNLIKELY(wefti_sync_is_dead(s)))
        return -EINVAL;
    if (s->waiters.first && s->waiters.first->slot != mutex)
        return -EBUSY;
    store_relaxed(&s->word, WEFTI_WAITERS); /* C2; the mutex orders it for S2 */
    return 0;
}

int weft_cond_wait(weft_cond *cond, weft_mutex *mutex, weft_deadline until) {
    struct wefti_sync *s = sync_of(cond);
    struct wefti_waiter waiter;
    if (!weft_mutex_is_mine(mutex))
        return -EPERM;
    wefti_slice_note(wefti_worker_self()); /* a wait with the mutex held: no yield before it is released */
    int no_wait = until > 0 ? wefti_waiter_init(&waiter) : -ETIMEDOUT;
    wefti_lock_take(&s->lock);
    int why = wefti_sync_is_dead(s) ? -EINVAL : no_wait ? no_wait : enter(s, mutex);
    if (!why) {
        waiter.slot = mutex;
        wefti_sync_in_turn(&waiter, cond->turn);
        wefti_waiters_append(&s->waiters, &waiter); /* C2 */
    }
    wefti_lock_give(&s->lock);
    if (why)
        return why;
    weft_mutex_unlock(mutex); /* C3 */
    why = wefti_waiter_wait(&waiter, until, wefti_words(WEFTI_A_CONDITION));
    if (why && !wefti_waiter_give_up(&waiter))
        why = 0; /* signalled after all, and it may be gone */
    if (why) {
        wefti_lock_take(&s->lock);
        bool gone = wefti_waiters_remove(&s->waiters, &waiter);
        s->flags -= gone ? 0 : WEFTI_SYNC_SERVER; /* as wefti_sync_sleep */
        left(s);
        wefti_lock_give(&s->lock);
        if (!gone) {
            wefti_waiter_settle(&waiter); /* signalled after all */
            why = 0;
        }
    }
    int error = relock(mutex);
    return error ? error : why;
}

int weft_cond_signal(weft_cond *cond) {
    struct wefti_sync *s = sync_of(cond);
    wefti_slice_note(wefti_worker_self());
    if (load_relaxed(&s->word) == 0) /* S2 */
        return 0;
    struct wefti_wakes wakes = {.count = 0};
    wefti_lock_take(&s->lock);
    int error = wefti_sync_is_dead(s) ? -EINVAL : 0;
    struct wefti_waiter *first = s->waiters.first;
    if (first) {
        wefti_waiters_remove(&s->waiters, first);
        wakes.waker[wakes.count++] = wefti_sync_serve(s, first);
        left(s);
    }
    wefti_wakes_end(&wakes, s);
    return error;
}

int weft_cond_broadcast(weft_cond *cond) {
    struct wefti_sync *s = sync_of(cond);
    wefti_slice_note(wefti_worker_self());
    if (load_relaxed(&s->word) == 0) /* S2 */
        return 0;
    wefti_lock_take(&s->lock);
    if (wefti_sync_is_dead(s)) {
        wefti_lock_give(&s->lock);
        return -EINVAL;
    }
    wefti_sync_serve_turn(s, cond->turn++);
    return 0;
}

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

static void end_poll(struct wefti_poll_wait *poll) {
    weft_cond *cond = poll->thing;
    struct wefti_sync *s = sync_of(cond);
    wefti_lock_take(&s->lock);
    bool gone = wefti_waiters_remove(&s->waiters, &poll->waiter);
    left(s);
    wefti_lock_give(&s->lock);
    poll->end = NULL;
    if (!gone)
        weft_cond_signal(cond); /* it was for somebody who goes on */
}

int weft_cond_wait_poll(weft_cond *cond, weft_mutex *mutex, weft_task *self, weft_wait *wait) {
    struct wefti_sync *s = sync_of(cond);
    struct wefti_sync_poll *room = wefti_sync_poll_of(wait);
    wefti_slice_note(wefti_worker_self()); /* a call that waits gets its unit back: wefti_poll_waits */
    if (wefti_mutex_polls(mutex, room))
        return wefti_mutex_lock_poll(mutex, self, room, cond); /* C4, again */
    int error = wefti_poll_begin(&room->poll, self, end_poll, cond, WEFTI_A_CONDITION);
    if (error == 1)
        return wefti_mutex_lock_poll(mutex, self, room, cond); /* C4 */
    if (error)
        return error;
    if (!weft_mutex_is_mine(mutex))
        return -EPERM;
    wefti_lock_take(&s->lock);
    error = enter(s, mutex);
    if (!error) {
        error = wefti_poll_wait(s, &room->poll, self, end_poll, cond, WEFTI_A_CONDITION); /* C2 */
        wefti_sync_in_turn(&room->poll.waiter, cond->turn);
        room->poll.waiter.slot = mutex;
    }
    wefti_lock_give(&s->lock);
    if (error == -EAGAIN)
        weft_mutex_unlock(mutex); /* C3 */
    return error;
}

/* -- Beginning and end ----------------------------------------------------------------------------------- */

void weft_cond_init(weft_cond *cond) { *cond = (weft_cond)WEFT_COND_INIT; }

int weft_cond_destroy(weft_cond *cond) {
    struct wefti_sync *s = sync_of(cond);
    wefti_sync_lock_alone(s);
    return wefti_sync_end(s, load_relaxed(&s->word)); /* the list says it all */
}
