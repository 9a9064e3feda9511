/* bell.c - waiting for a change that everyone is to learn of (bell.h). */
#include "chan/bell.h"

#define WAKES 16u /* how many are served in one turn under the lock */

static void append(struct wefti_bell *bell, struct wefti_waiter *waiter) {
    wefti_waiters_append(&bell->waiters, waiter);
    bell->waiting++;
}

/* True: it was still there. */
static bool leave(struct wefti_bell *bell, struct wefti_waiter *waiter) {
    wefti_lock_take(&bell->lock);
    bool removed = wefti_waiters_remove(&bell->waiters, waiter);
    bell->waiting -= removed;
    wefti_lock_give(&bell->lock);
    return removed;
}

int wefti_bell_wait(struct wefti_bell *bell, int64_t until, const char *what) {
    struct wefti_waiter waiter;
    int error = until <= 0 ? -ETIMEDOUT : wefti_waiter_init(&waiter);
    if (error) {
        wefti_lock_give(&bell->lock);
        return error;
    }
    append(bell, &waiter);
    wefti_lock_give(&bell->lock);
    error = wefti_waiter_wait(&waiter, until, what);
    if (error && !leave(bell, &waiter)) {
        wefti_waiter_settle(&waiter);
        error = 0;
    }
    return error;
}

void wefti_bell_ring(struct wefti_bell *bell) {
    uint32_t left =
        bell->waiting; /* at least those; who comes while we are at it has seen the change, and need not hear of it */
    for (;;) {
        wefti_waker wakers[WAKES];
        unsigned count = 0;
        while (left && count < WAKES && bell->waiters.first) {
            struct wefti_waiter *waiter = bell->waiters.first;
            wefti_waiters_remove(&bell->waiters, waiter);
            bell->waiting--;
            left--;
            if (wefti_waiter_claim(waiter))
                wakers[count++] = wefti_waiter_serve(waiter);
        }
        bool more = left && bell->waiters.first;
        wefti_lock_give(&bell->lock);
        for (unsigned i = 0; i < count; i++)
            wefti_waiter_wake(wakers[i]);
        if (!more)
            return;
        wefti_lock_take(&bell->lock);
    }
}

void wefti_bell_close(struct wefti_bell *bell) {
    wefti_lock_take(&bell->lock);
    bell->closed = true;
    wefti_bell_ring(bell);
}

/* -- Poll tasks ------------------------------------------------------------------------------------------------ */

static void end(struct wefti_poll_wait *wait) {
    leave(wait->thing, &wait->waiter);
    wait->end = NULL;
}

void wefti_bell_poll_begin(struct wefti_bell *bell, struct weft_task *self, struct wefti_poll_wait *wait) {
    wefti_waiter_init_task(&wait->waiter, self);
    wait->thing = bell;
    wait->end = end;
    append(bell, &wait->waiter);
    wefti_lock_give(&bell->lock);
}

int wefti_bell_poll_waits(struct wefti_bell *bell, struct wefti_poll_wait *wait) {
    if (wefti_poll_wait_is_taken(wait, end, bell))
        return -EBUSY;
    if (wait->end && !wefti_waiter_is_served(&wait->waiter))
        return -EAGAIN;
    wait->end = NULL;
    return 0;
}

/* -- Select ------------------------------------------------------------------------------------------------------ */

void wefti_bell_case_begin(struct wefti_bell *bell, struct wefti_waiter *waiter) {
    append(bell, waiter);
    wefti_lock_give(&bell->lock);
}

void wefti_bell_case_end(struct wefti_bell *bell, struct wefti_waiter *waiter) { leave(bell, waiter); }
