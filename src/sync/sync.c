/* sync.c - what the synchronisation objects share (sync.h has the design). */
#include "sync/sync.h"

int wefti_sync_sleep(struct wefti_sync *sync, struct wefti_waiter *waiter, int64_t until, const char *what) {
    int why = wefti_waiter_wait(waiter, until, what);
    if (!why || !wefti_waiter_give_up(waiter)) /* served, and it may be gone */
        return 0;
    wefti_lock_take(&sync->lock);
    if (wefti_waiters_remove(&sync->waiters, waiter)) /* recheck */
        return why;
    sync->flags -= WEFTI_SYNC_SERVER; /* who served us has counted us */
    wefti_lock_give(&sync->lock);
    wefti_waiter_settle(waiter); /* served after all */
    return 0;
}

void wefti_poll_leave(struct wefti_poll_wait *poll) {
    struct wefti_sync *sync = poll->thing;
    wefti_lock_take(&sync->lock);
    wefti_waiters_remove(&sync->waiters, &poll->waiter);
    wefti_lock_give(&sync->lock);
    poll->end = NULL;
}

static void wake_all(struct wefti_wakes *wakes) {
    for (uint32_t i = 0; i < wakes->count; i++)
        wefti_waiter_wake(wakes->waker[i]);
    wakes->count = 0;
}

wefti_waker wefti_sync_serve(struct wefti_sync *sync, struct wefti_waiter *waiter) {
    if (!waiter->choice && !wefti_waiter_claim_own(waiter))
        sync->flags += WEFTI_SYNC_SERVER;
    return wefti_waiter_serve(waiter);
}

void wefti_wakes_serve(struct wefti_wakes *wakes, struct wefti_sync *sync, struct wefti_waiter *waiter) {
    wakes->waker[wakes->count++] = wefti_sync_serve(sync, waiter);
    if (wakes->count == WEFTI_WAKES)
        wefti_wakes_pause(wakes, sync);
}

void wefti_wakes_pause(struct wefti_wakes *wakes, struct wefti_sync *sync) {
    sync->flags += WEFTI_SYNC_SERVER;
    wefti_lock_give(&sync->lock);
    wake_all(wakes);
    wefti_lock_take(&sync->lock);
    sync->flags -= WEFTI_SYNC_SERVER;
}

void wefti_wakes_end(struct wefti_wakes *wakes, struct wefti_sync *sync) {
    wefti_lock_give(&sync->lock);
    wake_all(wakes);
}

void wefti_sync_serve_turn(struct wefti_sync *sync, uint64_t turn) {
    struct wefti_wakes wakes = {.count = 0};
    for (struct wefti_waiter *first; (first = sync->waiters.first);) {
        if ((intptr_t)((uintptr_t)turn - (uintptr_t)first->result) < 0) /* it came later; the number may wrap */
            break;
        wefti_waiters_remove(&sync->waiters, first);
        if (wefti_waiter_claim(first))
            wefti_wakes_serve(&wakes, sync, first);
        else /* a select that has chosen something else */
            add_relaxed(&sync->word, WEFTI_STRAY); /* under the lock, but for the rest of the word */
    }
    wefti_sync_tidy(sync);
    wefti_wakes_end(&wakes, sync);
}

void wefti_sync_lock_alone(struct wefti_sync *sync) {
    wefti_lock_take(&sync->lock);
    while (sync->flags >= WEFTI_SYNC_SERVER) { /* on another thread, and it does not wait */
        wefti_lock_give(&sync->lock);
        wefti_thread_yield();
        wefti_lock_take(&sync->lock);
    }
}

int wefti_sync_end(struct wefti_sync *sync, uint64_t expect) {
    int error = wefti_sync_is_dead(sync) ? -EINVAL : 0;
    /* Acquire: all that others did before they let go of it. */
    if (!error &&
        (sync->waiters.first || (sync->flags & WEFTI_WOKEN_MASK) || !cas_acquire(&sync->word, &expect, WEFTI_WAITERS)))
        error = -EBUSY;
    if (!error)
        sync->flags |= WEFTI_SYNC_DEAD;
    wefti_lock_give(&sync->lock);
    return error;
}
