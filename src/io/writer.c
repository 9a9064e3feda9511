/* writer.c - one call at a time writes (writer.h has the protocol). */
#include "io/writer.h"

/* W1 to W3, in a call that has entered.  The lock is held, and given back. */
static int wait_and_unlock(struct weft_io *io, int64_t until) {
    struct wefti_waiter waiter;
    int error = until <= 0 ? -ETIMEDOUT : wefti_waiter_init(&waiter);
    if (error) {
        wefti_desc_unlock(io);
        return error;
    }
    io->writing = WEFTI_WRITE_WANTED;
    waiter.index = WEFTI_FOR_TURN; /* it is in no choice */
    wefti_waiters_append(&io->waiting[WEFTI_OUT], &waiter);
    wefti_desc_unlock(io);
    error = wefti_waiter_wait(&waiter, until, "others that write"); /* W2 */
    if (error) {
        wefti_desc_lock(io);
        bool was = wefti_waiters_remove(&io->waiting[WEFTI_OUT], &waiter); /* W3 */
        wefti_desc_unlock(io);
        if (was)
            return error;
        wefti_waiter_settle(&waiter);
    }
    return (int)waiter.result; /* 0, or what a close says */
}

int wefti_write_begin(struct weft_io *io, int64_t until) {
    wefti_desc_lock(io);
    if (WEFTI_UNLIKELY(io->closed)) {
        wefti_desc_unlock(io);
        return -EBADF;
    }
    io->users++;
    if (WEFTI_LIKELY(io->writing == WEFTI_WRITE_FREE)) {
        io->writing = WEFTI_WRITE_HELD; /* H1 */
        wefti_desc_unlock(io);
        return 0;
    }
    int error = wait_and_unlock(io, until);
    if (error)
        wefti_desc_leave(io);
    return error;
}

/* Behind the records that wait for room. */
static struct wefti_waiter *first_for_turn(struct weft_io *io) {
    struct wefti_waiter *waiter = io->waiting[WEFTI_OUT].first;
    while (waiter && !wefti_waits_for_turn(waiter))
        waiter = waiter->next;
    return waiter;
}

void wefti_write_pass(struct weft_io *io) {
    struct wefti_waiter *next = first_for_turn(io);
    wefti_waker waker = 0;
    if (next) {
        wefti_waiters_remove(&io->waiting[WEFTI_OUT], next);
        next->result = 0;
        waker = wefti_waiter_serve(next); /* which holds it now */
    }
    bool more = io->waiting[WEFTI_OUT].first != NULL;
    io->writing = !next ? WEFTI_WRITE_FREE : more ? WEFTI_WRITE_WANTED : WEFTI_WRITE_HELD;
    if (io->ready[WEFTI_OUT])
        wefti_desc_serve_and_unlock(io, false, true, 0); /* poll tasks: they look again */
    else
        wefti_desc_unlock(io); /* an event will tell them */
    if (next)
        wefti_waiter_wake(waker); /* H4 */
    wefti_desc_lock(io);
}

void wefti_write_end(struct weft_io *io) {
    wefti_desc_lock(io);
    wefti_write_release(io);
    wefti_desc_leave_locked(io);
}
