/* call.c - calls on descriptors, of fibers and plain threads: tried, and waited for (desc.h has the protocol). */
#include "io/mem.h"

#define CALLS_MAX 128u /* that a fiber makes in a row without waiting, before others get their turn */

/* -- Waiting ----------------------------------------------------------------------------------------------- */

int wefti_desc_wait(struct weft_io *io, int direction, uint32_t *seen, int64_t until) {
    struct wefti_waiter waiter;
    struct wefti_worker *w = wefti_worker_here();
    struct wefti_watch *watch = w->rt->sim && !io->mem ? w->watch : NULL;
    int error = wefti_waiter_init(&waiter);
    if (error) {
        wefti_lock_give(&io->lock);
        return error;
    }
    wefti_waiters_append(&io->waiting[direction], &waiter);
    wefti_lock_give(&io->lock);
    if (watch)
        watch->waiting++;
    error = wefti_waiter_wait(&waiter, until, direction == WEFTI_IN ? "a descriptor to read" : "a descriptor to write");
    if (watch)
        watch->waiting--;
    if (error) {
        wefti_lock_take(&io->lock);
        bool was = wefti_waiters_remove(&io->waiting[direction], &waiter);
        wefti_lock_give(&io->lock);
        if (was)
            return error;
    }
    *seen = (uint32_t)(uintptr_t)waiter.slot;
    return (int)waiter.result;
}

/* As wefti_desc_wait, until the next piece arrives. */
static int mem_wait(struct weft_io *io, int direction, uint32_t *seen, int64_t until) {
    int64_t arrival = wefti_mem_next(io->mem, direction);
    int error = wefti_desc_wait(io, direction, seen, arrival < until ? arrival : until);
    if (error != -ETIMEDOUT || arrival >= until)
        return error;
    wefti_lock_take(&io->lock);
    *seen = io->events[direction];
    io->ready[direction] = true;
    wefti_lock_give(&io->lock);
    return 0;
}

/* The lock is held, and given back.  0: it is worth trying; *seen is C1. */
static int wait_and_unlock(struct weft_io *io, int direction, uint32_t *seen, int64_t until) {
    struct wefti_worker *w = wefti_worker_here();
    bool fiber = w && w->current;
    int error = until <= 0 ? -ETIMEDOUT : fiber ? wefti_desc_watch(io, w) : 0;
    if (error || (fiber && io->always_ready)) {
        io->ready[direction] |= io->always_ready;
        *seen = io->events[direction];
        wefti_lock_give(&io->lock);
        return error;
    }
    if (io->mem)
        return mem_wait(io, direction, seen, until);
    return fiber ? wefti_desc_wait(io, direction, seen, until) : wefti_thread_wait(io, direction, seen, until);
}

/* -- Calls ------------------------------------------------------------------------------------------------- */

/* A fiber that always finds its descriptor ready must still let others run, and learn that it is cancelled. */
int wefti_desc_begin(void) {
    struct wefti_worker *w = wefti_worker_here();
    struct weft_task *task = w ? w->current : NULL;
    if (!task)
        return 0;
    if (!wefti_task_is_fiber(task))
        return -EINVAL;
    struct wefti_fiber *self = wefti_fiber_of(task);
    if (w->calls_turn != load_own(&w->counters.polls)) {
        w->calls_turn = load_own(&w->counters.polls);
        w->calls_left = CALLS_MAX;
    } else if (WEFTI_UNLIKELY(--w->calls_left == 0)) {
        w->calls_left = CALLS_MAX;
        if (!self->preempt_off)
            wefti_fiber_yield(w, self);
    }
    return wefti_fiber_must_end(self) ? -ECANCELED : 0;
}

int wefti_desc_ready(struct weft_io *io, int direction, const uint32_t *mark, bool *waited, int64_t until) {
    uint32_t seen;
    int error = wefti_desc_begin();
    *waited = false;
    if (error)
        return error;
    wefti_lock_take(&io->lock);
    if (io->closed) {
        wefti_lock_give(&io->lock);
        return -EBADF;
    }
    io->users++;
    *waited = !wefti_desc_is_worth(io, direction, mark);
    if (*waited) {
        error = wait_and_unlock(io, direction, &seen, until);
        wefti_lock_take(&io->lock);
    }
    wefti_desc_leave_locked(io);
    return error;
}

ssize_t wefti_desc_try_call(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full,
                            uint32_t seen) {
    ssize_t result;
    do
        result = call(io, arg); /* C2 */
    while (result == -EINTR);
    wefti_lock_take(&io->lock);
    if (io->events[direction] != seen) /* C3 */
        return result;
    if (result == -EAGAIN) {
        io->ready[direction] = io->always_ready;
        io->ended[direction] = false;
    } else if (result > 0 && (size_t)result < full && io->stream && !io->ended[direction]) {
        io->ready[direction] = false;
    }
    return result;
}

/* An operation has ended.  Under the lock: is it worth to try again without one?  Who has the descriptor watched must not be told that it is
 * not ready by anything but what its protocol allows. */
static void note_op(struct weft_io *io, int direction, ssize_t result, size_t full, uint32_t seen) {
    bool more = result >= 0 && (full == 0 || (size_t)result == full);
    if (more)
        io->ready[direction] = true;
    else if (!io->watcher || (io->events[direction] == seen && io->stream && result > 0 && !io->ended[direction]))
        io->ready[direction] = false;
}

ssize_t wefti_desc_call(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full, int64_t until) {
    return wefti_desc_op(io, direction, call, arg, full, NULL, false, until);
}

ssize_t wefti_desc_op(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full,
                      const struct wefti_poll_op *op, bool eager, int64_t until) {
    ssize_t result = wefti_desc_begin();
    if (result || (result = wefti_charge_syscall_call()))
        return result;
    wefti_lock_take(&io->lock);
    if (io->closed) {
        wefti_lock_give(&io->lock);
        return -EBADF;
    }
    io->users++;
    struct wefti_worker *w = op ? wefti_worker_here() : NULL;
    struct wefti_watch *ring = w && until > 0 && !io->mem ? wefti_op_ring(w) : NULL;
    for (bool tried = false, late = false;; tried = true) {
        uint32_t seen = io->events[direction]; /* C1 */
        if (ring && (eager || !io->ready[direction])) {
            result = wefti_op_call(io, direction, ring, op, until);
            wefti_lock_take(&io->lock);
            if (result == -EINTR)
                continue;
            if (result != -ENOBUFS) {
                if (!eager)
                    note_op(io, direction, result, full, seen);
                break;
            }
            ring = NULL; /* as if there were none */
        }
        if (io->ready[direction]) {
            wefti_lock_give(&io->lock);
        } else {
            result = wait_and_unlock(io, direction, &seen, until);
            /* Too late, but what has come since the last event was told is still ours: one look. */
            late = result == -ETIMEDOUT;
            if (result && (tried || !late)) {
                wefti_lock_take(&io->lock);
                break;
            }
        }
        result = wefti_desc_try_call(io, direction, call, arg, full, seen);
        if (result != -EAGAIN)
            break;
        result = io->closed ? -EBADF : -ETIMEDOUT;
        if (io->closed || late)
            break;
    }
    wefti_desc_leave_locked(io);
    return result;
}

ssize_t wefti_desc_try(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full) {
    ssize_t result = -EBADF;
    wefti_lock_take(&io->lock);
    if (io->closed) {
        wefti_lock_give(&io->lock);
        return result;
    }
    io->users++;
    uint32_t seen = io->events[direction]; /* C1 */
    wefti_lock_give(&io->lock);
    result = wefti_desc_try_call(io, direction, call, arg, full, seen);
    wefti_desc_leave_locked(io);
    return result;
}
