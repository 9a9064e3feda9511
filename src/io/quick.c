/* quick.c - weft_read and weft_write of a socket as servers make them, in as little code as possible.
 *
 * Why.    A call returns from the kernel to cold caches: what it costs on our side is the number of lines of code and data that it touches,
 *         more than instructions.  So the way of nearly all calls is here in one piece: of a fiber that nothing is the matter with, on the
 *         worker that has the descriptor's lock for its own, and watches it.  Everything else goes to call.c, from the
 *         beginning: nothing has happened yet.
 * Steps.  C1 to C3 of desc.h.
 */
#include <weft/io.h>

#include "fiber/slice.h"
#include "io/call.h"
#include "io/writer.h"

/* True: the lock is held.  Nothing here waits, so `w` may come from the thread-local. */
static inline bool begin_quickly(struct weft_io *io, struct wefti_worker *w) {
    struct weft_task *task = w ? wefti_current(w) : NULL;
    if (WEFTI_UNLIKELY(!io->plain || !task || !wefti_task_is_fiber(task) ||
                       wefti_word_is_to_end(load_relaxed(&task->word)) || /* a flag, nothing behind it */
                       load_relaxed(&wefti_accounts_exist) || /* a hint */
                       wefti_slice_spend_heavy(w) || !wefti_bias_own(&io->lock, w)))
        return false;
    if (WEFTI_LIKELY(!io->closed))
        return true;
    wefti_desc_unlock(io);
    return false;
}

static inline void leave_quickly(struct weft_io *io) {
    if (WEFTI_UNLIKELY(wefti_desc_leave_and_unlock(io)))
        wefti_desc_finish(io);
}

/* With io_uring: an operation, in a call that has entered, which a read leaves.  The lock is held, and given back.  False: it was none, and the call
 * has not left: make it in another way. */
static __attribute__((noinline)) bool by_ring(struct weft_io *io, struct wefti_worker *w, int direction, void *bytes,
                                              size_t size, int64_t until, ssize_t *result) {
    bool read = direction == WEFTI_IN, small = read || size <= WEFTI_OP_SMALL;
    struct wefti_watch *ring = until > 0 && size && small && !(read && io->ready[direction]) ? wefti_op_ring(w) : NULL;
    if (!ring) {
        wefti_desc_unlock(io);
        return false;
    }
    uint32_t seen = io->events[direction]; /* C1 */
    *result = wefti_op_call(io, direction, ring, bytes, size, until);
    bool made = *result != -ENOBUFS && *result != -EINTR;
    if (made && read) {
        wefti_desc_note_op(io, direction, *result, size, seen);
        leave_quickly(io);
    } else {
        wefti_desc_unlock(io);
    }
    return made;
}

/* The rest of a read that has entered, and leaves only now: closed in between, the descriptor could be another connection's by then. */
static __attribute__((noinline)) ssize_t read_on(weft_io *io, void *bytes, size_t size, weft_deadline until) {
    ssize_t result = wefti_read_slow(io, bytes, size, until);
    wefti_desc_leave(io);
    return result;
}

ssize_t weft_read(weft_io *io, void *bytes, size_t size, weft_deadline until) {
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(!io || !size || !begin_quickly(io, w))) /* of nothing, not even a wait */
        return wefti_read_slow(io, bytes, size, until);
    ssize_t result;
    if (w->rt->uring) {
        io->users++;
        return by_ring(io, w, WEFTI_IN, bytes, size, until, &result) ? result : read_on(io, bytes, size, until);
    }
    uint32_t seen = io->events[WEFTI_IN]; /* C1 */
    int error = 0;
    bool waits = !io->ready[WEFTI_IN];
    if (WEFTI_UNLIKELY(waits && (load_relaxed(&io->watcher) != w || until <= 0))) { /* the lock orders it */
        wefti_desc_unlock(io);
        return wefti_read_slow(io, bytes, size, until);
    }
    io->users++;
    if (waits) {
        error = wefti_fiber_waits(io, w, WEFTI_IN, &seen, until, NULL);
        w = wefti_worker_here();
    } else {
        wefti_desc_unlock(io);
    }
    result = WEFTI_LIKELY(!error) ? wefti_recv(io->fd, bytes, size) : error; /* C2 */
    wefti_desc_lock_by(io, w);
    if (WEFTI_LIKELY(!error))
        wefti_desc_note(io, WEFTI_IN, result, size, seen); /* C3 */
    if (WEFTI_UNLIKELY(result == -EAGAIN || result == -EINTR || error == -ETIMEDOUT)) { /* too late: it looks once */
        wefti_desc_unlock(io);
        return read_on(io, bytes, size, until);
    }
    leave_quickly(io);
    return result;
}

/* A fiber that may be discarded, or stopped for its budget, must leave no alarm in its frames. */
static bool may_be_ended(const struct wefti_worker *w) {
    const struct wefti_fiber *self = wefti_fiber_of(wefti_current(w));
    return self->discard || self->account;
}

ssize_t wefti_read_next(struct weft_io *io, struct wefti_next_read *next, int64_t until) {
    struct wefti_worker *w = wefti_worker_self();
    next->begun = false;
    if (WEFTI_UNLIKELY(!begin_quickly(io, w)))
        return -EAGAIN;
    uint32_t seen = io->events[WEFTI_IN]; /* C1, and so when it is served */
    bool waits = !io->ready[WEFTI_IN];
    if (WEFTI_UNLIKELY(until <= 0 || w->rt->sim ||
                       (waits && (load_relaxed(&io->watcher) != w || /* the lock orders it */
                                  may_be_ended(w))))) {
        wefti_desc_unlock(io);
        return -EAGAIN;
    }
    io->users++;
    int error = 0;
    if (WEFTI_LIKELY(waits))
        error = wefti_fiber_waits(io, w, WEFTI_IN, &seen, until, &next->late);
    else
        wefti_desc_unlock(io);
    if (WEFTI_LIKELY(!error))
        error = next->begin(next);
    ssize_t result = WEFTI_LIKELY(!error) ? wefti_recv(io->fd, next->bytes, next->size) : error; /* C2 */
    wefti_desc_lock(io);
    if (WEFTI_LIKELY(!error))
        wefti_desc_note(io, WEFTI_IN, result, next->size, seen); /* C3 */
    leave_quickly(io);
    return WEFTI_UNLIKELY(result == -EINTR) ? -EAGAIN : result;
}

ssize_t weft_write(weft_io *io, const void *bytes, size_t size, weft_deadline until) {
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(!io || !size || !begin_quickly(io, w))) /* of nothing, not even a system call */
        return wefti_write_slow(io, bytes, size, until);
    ssize_t result;
    uint32_t seen = io->events[WEFTI_OUT]; /* C1 */
    if (WEFTI_UNLIKELY(io->writing | (!io->ready[WEFTI_OUT] & !w->rt->uring))) {
        wefti_desc_unlock(io);
        return wefti_write_slow(io, bytes, size, until);
    }
    io->users++;
    io->writing = WEFTI_WRITE_HELD; /* H1 of writer.h */
    if (w->rt->uring) {
        if (!by_ring(io, w, WEFTI_OUT, (void *)(uintptr_t)bytes, size, until, &result))
            result = 0;
        if (result >= 0)
            return wefti_write_rest(io, bytes, (size_t)result, size, until);
        wefti_write_end(io);
        return result;
    }
    wefti_desc_unlock(io);
    result = wefti_send(io->fd, bytes, size); /* C2 */
    wefti_desc_lock_by(io, w);
    wefti_desc_note(io, WEFTI_OUT, result, size, seen); /* C3 */
    if (WEFTI_UNLIKELY(result != (ssize_t)size && (result >= 0 || result == -EAGAIN || result == -EINTR))) {
        wefti_desc_unlock(io);
        return wefti_write_rest(io, bytes, result > 0 ? (size_t)result : 0, size, until); /* nobody comes in between */
    }
    wefti_write_release(io);
    leave_quickly(io);
    return result;
}
