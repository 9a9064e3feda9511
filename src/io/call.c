/* call.c - calls on descriptors, of fibers and plain threads: tried, and waited for (desc.h has the protocol). */
#include "io/call.h"
#include "fiber/slice.h"
#include "io/mem.h"
#include "io/writer.h"

/* -- Waiting ----------------------------------------------------------------------------------------------- */

int wefti_desc_wait(struct weft_io *io, struct wefti_worker *w, int direction, uint32_t *seen, int64_t until) {
    return wefti_fiber_waits(io, w, direction, seen, until, NULL);
}

/* As wefti_desc_wait, until the next piece arrives. */
static int mem_wait(struct weft_io *io, struct wefti_worker *w, int direction, uint32_t *seen, int64_t until) {
    int64_t arrival = wefti_mem_next(io->mem, direction);
    int error = wefti_desc_wait(io, w, direction, seen, arrival < until ? arrival : until);
    if (error != -ETIMEDOUT || arrival >= until)
        return error;
    wefti_desc_lock(io);
    *seen = io->events[direction];
    io->ready[direction] = true;
    wefti_desc_unlock(io);
    return 0;
}

/* The lock is held, and given back.  0: it is worth trying; *seen is C1. */
static int wait_and_unlock(struct weft_io *io, struct wefti_worker *w, int direction, uint32_t *seen, int64_t until) {
    bool fiber = w && wefti_current(w);
    int error = until <= 0 ? -ETIMEDOUT : fiber ? wefti_desc_watch(io, w) : 0;
    if (error || (fiber && io->always_ready)) {
        io->ready[direction] |= io->always_ready;
        *seen = io->events[direction];
        wefti_desc_unlock(io);
        return error;
    }
    if (io->mem)
        return mem_wait(io, w, direction, seen, until);
    return fiber ? wefti_desc_wait(io, w, direction, seen, until) : wefti_thread_wait(io, direction, seen, until);
}

/* -- Calls ------------------------------------------------------------------------------------------------- */

/* A fiber that always finds its descriptor ready must still let others run, and learn that it is cancelled.  It stays on its worker. */
static inline int begin(struct wefti_worker *w, int64_t until) {
    struct weft_task *task = w ? wefti_current(w) : NULL;
    if (WEFTI_UNLIKELY(!task))
        return 0;
    if (WEFTI_UNLIKELY(!wefti_task_is_fiber(task)))
        return -EINVAL;
    struct wefti_fiber *self = wefti_fiber_of(task);
    if (wefti_slice_spend_heavy(w))
        wefti_slice_end(until);
    return wefti_fiber_must_end(self) ? -ECANCELED : 0;
}

int wefti_desc_begin(int64_t until) {
    struct wefti_worker *w = wefti_worker_here();
    return begin(w, until);
}

int wefti_desc_ready(struct weft_io *io, int direction, const uint32_t *mark, int64_t until) {
    uint32_t seen;
    struct wefti_worker *w = wefti_worker_here();
    int error = begin(w, until);
    if (error)
        return error;
    wefti_desc_lock_by(io, w);
    if (io->closed) {
        wefti_desc_unlock(io);
        return -EBADF;
    }
    io->users++;
    if (!wefti_desc_is_worth(io, direction, mark)) {
        error = wait_and_unlock(io, w, direction, &seen, until);
        wefti_desc_lock(io);
    }
    wefti_desc_leave_locked(io);
    return error;
}

ssize_t wefti_desc_try_call(struct weft_io *io, struct wefti_worker *w, int direction, wefti_desc_fn *call, void *arg,
                            size_t full, uint32_t seen) {
    ssize_t result;
    do
        result = call(io, arg); /* C2 */
    while (WEFTI_UNLIKELY(result == -EINTR));
    wefti_desc_lock_by(io, w);
    wefti_desc_note(io, direction, result, full, seen);
    return result;
}

struct bytes {
    void *at;
    size_t size;
};

/* What a call does on a ring (op.c): nothing else, `arg` is a struct bytes and it is an operation instead of waiting, or of the call as
 * well. */
enum on_ring { AS_ELSEWHERE, WHEN_IT_WOULD_WAIT, ALWAYS };

static ssize_t call_on(struct wefti_worker *w, struct weft_io *io, int direction, wefti_desc_fn *call, void *arg,
                       size_t full, enum on_ring on_ring, int64_t until) {
    ssize_t result = begin(w, until);
    if (WEFTI_UNLIKELY(result))
        return result;
    if (WEFTI_UNLIKELY(load_relaxed(&wefti_accounts_exist))) { /* a hint */
        if ((result = wefti_charge_caller_until(&wefti_cost_syscall, until)))
            return result;
        w = wefti_worker_here();
    }
    wefti_desc_lock_by(io, w);
    if (WEFTI_UNLIKELY(io->closed)) {
        wefti_desc_unlock(io);
        return -EBADF;
    }
    io->users++;
    struct wefti_watch *ring = on_ring && w && w->rt->uring && until > 0 && !io->mem ? wefti_op_ring(w) : NULL;
    for (bool tried = false, late = false;; tried = true) {
        uint32_t seen = io->events[direction]; /* C1 */
        if (ring && (on_ring == ALWAYS || !io->ready[direction])) {
            struct bytes *bytes = arg;
            result = wefti_op_call(io, direction, ring, bytes->at, bytes->size, until);
            w = wefti_worker_here();
            if (result == -EINTR)
                continue;
            if (result != -ENOBUFS) {
                if (on_ring != ALWAYS)
                    wefti_desc_note_op(io, direction, result, full, seen);
                break;
            }
            ring = NULL; /* as if there were none */
        }
        if (io->ready[direction]) {
            wefti_desc_unlock(io);
        } else {
            result = wait_and_unlock(io, w, direction, &seen, until);
            w = wefti_worker_here();
            /* Too late, but what has come since the last event was told is still ours: one look. */
            late = result == -ETIMEDOUT;
            if (WEFTI_UNLIKELY(result) && (tried || !late)) {
                wefti_desc_lock_by(io, w);
                break;
            }
        }
        result = wefti_desc_try_call(io, w, direction, call, arg, full, seen);
        if (WEFTI_LIKELY(result != -EAGAIN))
            break;
        result = io->closed ? -EBADF : -ETIMEDOUT;
        if (io->closed || late)
            break;
    }
    wefti_desc_leave_locked(io);
    return result;
}

/* A plain thread that is cancelled in the midst of it would stay a user of the descriptor. */
static ssize_t do_call(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full,
                       enum on_ring on_ring, int64_t until) {
    struct wefti_worker *w = wefti_worker_here();
    int cancel = WEFTI_LIKELY(w != NULL) ? 0 : wefti_cancel_off();
    ssize_t result = call_on(w, io, direction, call, arg, full, on_ring, until);
    if (WEFTI_UNLIKELY(!w))
        wefti_cancel_on(cancel);
    return result;
}

ssize_t wefti_desc_call(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full, int64_t until) {
    return do_call(io, direction, call, arg, full, AS_ELSEWHERE, until);
}

/* -- A socket's read and write ------------------------------------------------------------------------------ */

static ssize_t recv_once(struct weft_io *io, void *arg) {
    struct bytes *bytes = arg;
    return wefti_recv(io->fd, bytes->at, bytes->size);
}

static ssize_t send_once(struct weft_io *io, void *arg) {
    struct bytes *bytes = arg;
    return wefti_send(io->fd, bytes->at, bytes->size);
}

ssize_t wefti_desc_recv(struct weft_io *io, void *bytes, size_t size, int64_t until) {
    struct bytes arg = {bytes, size};
    return do_call(io, WEFTI_IN, recv_once, &arg, size, size ? WHEN_IT_WOULD_WAIT : AS_ELSEWHERE, until);
}

ssize_t wefti_desc_send(struct weft_io *io, const void *bytes, size_t size, int64_t until) {
    struct bytes arg = {(void *)(uintptr_t)bytes, size};
    return do_call(io, WEFTI_OUT, send_once, &arg, size, size && size <= WEFTI_OP_SMALL ? ALWAYS : AS_ELSEWHERE, until);
}

ssize_t wefti_desc_try(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full) {
    struct wefti_worker *w = wefti_worker_here();
    ssize_t result = -EBADF;
    wefti_slice_note(w);
    wefti_desc_lock_by(io, w);
    if (io->closed) {
        wefti_desc_unlock(io);
        return result;
    }
    if (direction == WEFTI_OUT) {
        if (io->writing != WEFTI_WRITE_FREE) {
            wefti_desc_unlock(io);
            return -EAGAIN;
        }
        io->writing = WEFTI_WRITE_HELD;
    }
    io->users++;
    uint32_t seen = io->events[direction]; /* C1 */
    wefti_desc_unlock(io);
    int cancel = w ? 0 : wefti_cancel_off(); /* as do_call */
    result = wefti_desc_try_call(io, w, direction, call, arg, full, seen);
    if (direction == WEFTI_OUT)
        wefti_write_release(io);
    wefti_desc_leave_locked(io);
    if (!w)
        wefti_cancel_on(cancel);
    return result;
}
