/* poll.c - calls on descriptors, of poll tasks: either they are through, or the task will be woken (desc.h has the protocol). */
#include "fiber/slice.h"
#include "io/mem.h"

static void end_poll(struct wefti_poll_wait *wait) {
    struct weft_io *io = wait->thing;
    struct wefti_worker *w = wefti_worker_here();
    wefti_desc_lock(io);
    wefti_waiters_remove(&io->waiting[wait->waiter.index], &wait->waiter);
    wefti_desc_unlock(io);
    if (w && w->rt->sim && w->watch && !io->mem)
        w->watch->waiting--;
    wait->end = NULL;
}

/* For dumps. */
static int waits(int error, int direction) {
    return wefti_poll_waits(error, direction == WEFTI_IN ? WEFTI_TO_READ : WEFTI_TO_WRITE);
}

/* A poll task begins a call.  0; -EAGAIN: it waits on; what the wait gave; -EBUSY: it waits for something else; -EINVAL. */
static int begin_poll(struct weft_io *io, weft_task *self, struct wefti_poll_wait *poll, int direction) {
    struct wefti_worker *w = wefti_worker_here();
    if (!w || wefti_current(w) != self || wefti_task_is_fiber(self))
        return -EINVAL;
    if (!poll->end)
        return 0;
    if (wefti_poll_wait_is_taken(poll, end_poll, io) || poll->waiter.index != (uint32_t)direction)
        return -EBUSY;
    if (!wefti_waiter_is_served(&poll->waiter))
        return waits(-EAGAIN, direction); /* polled for another reason */
    end_poll(poll);
    return (int)poll->waiter.result;
}

/* Under the lock, the descriptor is watched: be woken. */
static void append_poll(struct weft_io *io, weft_task *self, struct wefti_poll_wait *poll, int direction) {
    struct wefti_worker *w = wefti_worker_here();
    wefti_waiter_init_task(&poll->waiter, self);
    poll->waiter.index = (uint32_t)direction; /* it is in no choice */
    poll->thing = io;
    poll->end = end_poll;
    wefti_waiters_append(&io->waiting[direction], &poll->waiter);
    if (w->rt->sim && !io->mem)
        w->watch->waiting++;
    waits(-EAGAIN, direction);
}

ssize_t wefti_desc_poll(struct weft_io *io, weft_task *self, weft_wait *wait, int direction, wefti_desc_fn *call,
                        void *arg, size_t full) {
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    if (wefti_slice_poll(self))
        return -EAGAIN;
    ssize_t result = begin_poll(io, self, poll, direction);
    if (result)
        return result;
    struct wefti_worker *w = wefti_worker_here(); /* which a poll does not leave */
    wefti_desc_lock_by(io, w);
    if (io->closed) {
        wefti_desc_unlock(io);
        return -EBADF;
    }
    io->users++;
    do { /* until it is told, not ready, or closed */
        result = io->closed ? -EBADF : -EAGAIN;
        if (result == -EAGAIN && io->ready[direction]) {
            uint32_t seen = io->events[direction]; /* C1 */
            wefti_desc_unlock(io);
            result = wefti_desc_try_call(io, w, direction, call, arg, full, seen);
        }
        if (result == -EAGAIN && !io->ready[direction] && !io->closed) {
            int error = wefti_desc_watch(io, w);
            result = error ? error : -EAGAIN;
            io->ready[direction] |= io->always_ready || (io->mem && wefti_mem_hurry(io->mem));
        }
    } while (result == -EAGAIN && (io->ready[direction] || io->closed));
    if (result == -EAGAIN)
        append_poll(io, self, poll, direction);
    else
        wefti_slice_poll_through();
    wefti_desc_leave_locked(io);
    return result;
}

int wefti_desc_ready_poll(struct weft_io *io, weft_task *self, weft_wait *wait, int direction, const uint32_t *mark) {
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    if (poll->end == end_poll && (poll->thing != io || poll->waiter.index != (uint32_t)direction))
        end_poll(poll); /* it waited for the other direction */
    bool waited = poll->end != NULL;
    int result = begin_poll(io, self, poll, direction);
    if (result || waited)
        return result;
    wefti_desc_lock(io);
    result = io->closed                                 ? -EBADF
             : wefti_desc_is_worth(io, direction, mark) ? 0
                                                        : wefti_desc_watch(io, wefti_worker_here());
    if (!result && io->always_ready)
        io->ready[direction] = true;
    if (!result && !wefti_desc_is_worth(io, direction, mark)) {
        append_poll(io, self, poll, direction);
        result = -EAGAIN;
    }
    wefti_desc_unlock(io);
    return result;
}
