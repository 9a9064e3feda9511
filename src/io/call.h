/* call.h - pieces of a call on a descriptor that call.c and quick.c share.  Internal. */
#ifndef WEFTI_IO_CALL_H
#define WEFTI_IO_CALL_H

#include "io/desc.h"

#define WEFTI_OP_SMALL 16384u /* bytes, whose sending takes about as long as the system call */

/* As wefti_desc_wait.  late: NULL, or what keeps the deadline. */
static inline __attribute__((always_inline)) int wefti_fiber_waits(struct weft_io *io, struct wefti_worker *w,
                                                                   int direction, uint32_t *seen, int64_t until,
                                                                   struct wefti_late *late) {
    struct wefti_waiter waiter;
    struct wefti_watch *watch = WEFTI_UNLIKELY(w->rt->sim != NULL) && !io->mem ? w->watch : NULL;
    wefti_waiter_init_task(&waiter, wefti_current(w));
    wefti_desc_append(io, direction, &waiter);
    wefti_desc_unlock(io);
    if (WEFTI_UNLIKELY(watch != NULL))
        watch->waiting++;
    const char *what = direction == WEFTI_IN ? "a descriptor to read" : "a descriptor to write";
    struct wefti_fiber *self = wefti_fiber_of(wefti_current(w));
    int error = late ? wefti_fiber_wait_late(self, &waiter.state, until, late, what)
                     : wefti_waiter_wait_fiber(&waiter, w, self, until, what);
    if (WEFTI_UNLIKELY(watch != NULL))
        watch->waiting--;
    if (WEFTI_UNLIKELY(error)) {
        wefti_desc_lock(io);
        bool was = wefti_waiters_remove(&io->waiting[direction], &waiter);
        wefti_desc_unlock(io);
        if (was)
            return error;
    }
    *seen = (uint32_t)(uintptr_t)waiter.slot;
    return (int)waiter.result;
}

/* C3, under the lock: what a call that was made when there had been `seen` events, and asked for `full` bytes, says about readiness. */
static inline void wefti_desc_note(struct weft_io *io, int direction, ssize_t result, size_t full, uint32_t seen) {
    if (WEFTI_UNLIKELY(io->events[direction] != seen))
        return;
    if (WEFTI_UNLIKELY(result == -EAGAIN)) {
        io->ready[direction] = io->always_ready;
        io->ended[direction] = false;
    } else if (result > 0 && (size_t)result < full && io->stream && !io->ended[direction]) {
        io->ready[direction] = false;
    }
}

/* An operation has ended.  Under the lock: is it worth to try again without one?  Who has the descriptor watched must not be told that it is
 * not ready by anything but what its protocol allows. */
static inline void wefti_desc_note_op(struct weft_io *io, int direction, ssize_t result, size_t full, uint32_t seen) {
    bool more = result >= 0 && (full == 0 || (size_t)result == full);
    if (more)
        io->ready[direction] = true;
    else if (!load_relaxed(&io->watcher) || /* the lock orders it */
             (io->events[direction] == seen && io->stream && result > 0 && !io->ended[direction]))
        io->ready[direction] = false;
}

#endif
