/* barrier.c - so many parties wait for each other.
 *
 * All under the lock, since all but the last have to wait anyway.  `arrived` counts those in the list of this turn; the last one begins
 * the next turn, and serves them.  Who leaves takes himself out of the count, if his turn is not over.
 * Checked by.  test/model/sync_barrier.c
 */
#include "sync/sync.h"

static struct wefti_sync *sync_of(const weft_barrier *barrier) { return wefti_sync_of(&barrier->room); }

/* Under the lock, which it gives back unless it returns -EAGAIN: into the list.  1: the last, and all have been served; -EINVAL. */
static int arrive(weft_barrier *barrier) {
    struct wefti_sync *s = sync_of(barrier);
    if (wefti_sync_is_dead(s) || barrier->parties == 0) {
        wefti_lock_give(&s->lock);
        return -EINVAL;
    }
    if (++barrier->arrived < barrier->parties)
        return -EAGAIN;
    barrier->arrived = 0;
    wefti_sync_serve_turn(s, barrier->turn++);
    return 1;
}

int weft_barrier_wait(weft_barrier *barrier, weft_deadline until) {
    struct wefti_sync *s = sync_of(barrier);
    struct wefti_waiter waiter;
    wefti_slice_use(until);
    int no_wait = until > 0 ? wefti_waiter_init(&waiter) : -ETIMEDOUT;
    wefti_lock_take(&s->lock);
    int error = arrive(barrier);
    if (error != -EAGAIN)
        return error;
    error = no_wait;
    if (!error) {
        wefti_sync_in_turn(&waiter, barrier->turn);
        wefti_waiters_append(&s->waiters, &waiter);
        error = wefti_sync_wait(s, &waiter, until, wefti_words(WEFTI_A_BARRIER));
        if (!error)
            return 0;
    }
    barrier->arrived--; /* not served: its turn is not over */
    wefti_lock_give(&s->lock);
    return error;
}

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

static void end_poll(struct wefti_poll_wait *poll) {
    weft_barrier *barrier = poll->thing;
    struct wefti_sync *s = sync_of(barrier);
    wefti_lock_take(&s->lock);
    if (wefti_waiters_remove(&s->waiters, &poll->waiter)) /* recheck */
        barrier->arrived--;
    wefti_lock_give(&s->lock);
    poll->end = NULL;
}

int weft_barrier_wait_poll(weft_barrier *barrier, weft_task *self, weft_wait *wait) {
    struct wefti_sync *s = sync_of(barrier);
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    if (wefti_slice_poll(self))
        return -EAGAIN;
    int error = wefti_poll_begin(poll, self, end_poll, barrier, WEFTI_A_BARRIER);
    if (error)
        return error < 0 ? error : 0;
    wefti_lock_take(&s->lock);
    error = arrive(barrier);
    if (error == -EAGAIN) {
        wefti_poll_wait(s, poll, self, end_poll, barrier, WEFTI_A_BARRIER);
        wefti_sync_in_turn(&poll->waiter, barrier->turn);
        wefti_lock_give(&s->lock);
    }
    return error;
}

/* -- Beginning and end ----------------------------------------------------------------------------------- */

int weft_barrier_init(weft_barrier *barrier, uint32_t parties) {
    if (parties == 0)
        return -EINVAL;
    *barrier = (weft_barrier)WEFT_BARRIER_INIT(parties);
    return 0;
}

int weft_barrier_destroy(weft_barrier *barrier) {
    struct wefti_sync *s = sync_of(barrier);
    wefti_sync_lock_alone(s);
    return wefti_sync_end(s, load_relaxed(&s->word)); /* the list says it all */
}
