/* poll.c - calls on descriptors, of poll tasks: either they are through, or the task will be woken (desc.h has the protocol). */
#include "fiber/slice.h"
#include "io/mem.h"
#include "io/writer.h"

static void end_poll(struct wefti_poll_wait *wait) {
    struct weft_io *io = wait->thing;
    struct wefti_worker *w = wefti_worker_here();
    wefti_desc_lock(io);
    wefti_waiters_remove(&io->waiting[wait->waiter.index], &wait->waiter);
    wefti_desc_unlock(io);
    if (w && w->rt->sim && w->watch && !io->mem && !io->layer)
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

/* Under the lock, the descriptor is watched or a layer: be woken. */
static void append_poll(struct weft_io *io, weft_task *self, struct wefti_poll_wait *poll, int direction) {
    struct wefti_worker *w = wefti_worker_here();
    wefti_waiter_init_task(&poll->waiter, self);
    poll->waiter.index = (uint32_t)direction; /* it is in no choice */
    poll->thing = io;
    poll->end = end_poll;
    wefti_desc_append(io, direction, &poll->waiter);
    if (w->rt->sim && !io->mem && !io->layer)
        w->watch->waiting++;
    waits(-EAGAIN, direction);
}

/* Under the lock: is a call worth trying, and may it be made now?  Whoever writes will say when he has ended. */
static bool may_try(struct weft_io *io, int direction) {
    bool taken = direction == WEFTI_OUT && io->writing != WEFTI_WRITE_FREE;
    if (taken)
        io->writing = WEFTI_WRITE_WANTED;
    return io->ready[direction] && !taken;
}

/* Under the lock, which is given back meanwhile: the call. */
static ssize_t try_now(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full) {
    uint32_t seen = io->events[direction]; /* C1 */
    if (direction == WEFTI_OUT)
        io->writing = WEFTI_WRITE_HELD;
    wefti_desc_unlock(io);
    ssize_t result = wefti_desc_try_call(io, wefti_worker_here(), direction, call, arg, full, seen);
    if (direction == WEFTI_OUT)
        wefti_write_release(io);
    return result;
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
        if (result == -EAGAIN && may_try(io, direction))
            result = try_now(io, direction, call, arg, full);
        if (result == -EAGAIN && !io->closed && !may_try(io, direction)) {
            int error = wefti_desc_watch(io, w);
            result = error ? error : -EAGAIN;
            io->ready[direction] |= io->always_ready || (io->mem && wefti_mem_hurry(io->mem));
        }
    } while (result == -EAGAIN && (io->closed || may_try(io, direction)));
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

int wefti_write_begin_poll(struct weft_io *io, weft_task *self, weft_wait *wait) {
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    if (poll->end == end_poll && poll->thing == io) { /* it waited for its turn */
        int result = begin_poll(io, self, poll, WEFTI_OUT);
        if (result)
            return result;
    }
    wefti_desc_lock(io);
    if (io->writing != WEFTI_WRITE_FREE && poll->end) { /* it waits for what is below, of an earlier call */
        wefti_desc_unlock(io);
        if (poll->end != end_poll)
            return -EBUSY;
        end_poll(poll);
        wefti_desc_lock(io);
    }
    int result = io->closed ? -EBADF : io->writing != WEFTI_WRITE_FREE ? -EAGAIN : 0;
    if (result == -EAGAIN) {
        io->writing = WEFTI_WRITE_WANTED;
        append_poll(io, self, poll, WEFTI_OUT);
    } else if (!result) {
        io->writing = WEFTI_WRITE_HELD;
        io->users++;
    }
    wefti_desc_unlock(io);
    return result;
}
