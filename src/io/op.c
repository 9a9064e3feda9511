/* op.c - operations that the system carries out: a call of a fiber on a worker whose poller can do more than tell of readiness.
 *
 * What.   The call is written into the worker's ring, and told to the system with all others of this turn.  Its fiber waits for two things:
 *         that it is done, and that somebody closes the descriptor.  The buffer is the system's until the operation is done, so a
 *         deadline, a cancellation or a close only asks for its end, and the call returns when that has come.  Data that came first is
 *         returned, not lost.
 * Who.    Pinned fibers only.  Their worker's thread writes the operation, hears that it is done, and runs the fiber: `done` needs no lock.
 *         Who closes may be anyone: `closed` stands in the descriptor's list of those who wait.
 *         (Under the simulator no fiber is pinned: there are no operations.)
 * Files.  Nobody closes one under a call (file/file.c), so there is only `done`.
 * Checked by.  test/api/io_op.c, test/fault/io_uring.c
 */
#include "io/desc.h"

void wefti_op_done(struct wefti_worker *w, const struct wefti_poll_event *event) {
    struct wefti_op *op = event->tag;
    op->done.result = event->result;
    if (WEFTI_LIKELY(wefti_waiter_is_here(&op->done, w)))
        wefti_waiter_wake_here(w, wefti_waiter_serve_here(&op->done));
    else
        wefti_waiter_wake(wefti_waiter_serve(&op->done));
}

static bool is_done(void *arg) { return wefti_waiter_is_served(&((struct wefti_op *)arg)->done); }
static bool is_over(void *arg) { return is_done(arg) || wefti_waiter_is_served(&((struct wefti_op *)arg)->closed); }

struct wefti_watch *wefti_op_ring(struct wefti_worker *w) {
    if (!w->rt->uring || w->driven || !wefti_current(w) || !wefti_task_is_pinned(wefti_current(w)) ||
        (!w->watch && wefti_watch_begin(w)))
        return NULL;
    return wefti_poller_has_ops(&w->watch->poller) ? w->watch : NULL;
}

/* Have it end: it is not done, and is when this returns. */
static void end_op(struct wefti_watch *ring, struct wefti_fiber *self, struct wefti_op *op) {
    while (!wefti_poller_cancel(&ring->poller, op))
        wefti_fiber_yield(wefti_worker_here(), self);
    wefti_fiber_wait_always(self, is_done, op, "an operation to end");
}

/* Wait until it is done, or asked to end by `until`, a cancellation or a close.  0 or why it was asked.  The lock is held afterwards. */
static int wait_over(struct weft_io *io, int direction, struct wefti_watch *ring, struct wefti_op *op, int64_t until,
                     const char *what) {
    struct wefti_fiber *self = wefti_fiber_self();
    int why = wefti_fiber_wait(self, is_over, op, until, what);
    wefti_desc_lock(io);
    /* Not in the list: somebody served it.  A close says so; an event in that direction means others. */
    bool served = !wefti_waiters_remove(&io->waiting[direction], &op->closed);
    if (served)
        why = op->closed.result ? (int)op->closed.result : -EAGAIN;
    if (is_done(op))
        return why == -EBADF ? why : 0;
    if (why == -EAGAIN)
        return why;
    wefti_desc_unlock(io);
    end_op(ring, self, op);
    wefti_desc_lock(io);
    return why;
}

ssize_t wefti_op_call(struct weft_io *io, int direction, struct wefti_watch *ring, void *bytes, size_t size,
                      int64_t until) {
    struct wefti_poll_op what = {direction == WEFTI_IN ? WEFTI_OP_RECV : WEFTI_OP_SEND, io->fd, bytes, size, 0};
    struct wefti_op op;
    int why = -EAGAIN;
    const char *words = wefti_words(direction == WEFTI_IN ? WEFTI_TO_READ : WEFTI_TO_WRITE);
    struct weft_task *task = &wefti_fiber_self()->task;
    wefti_waiter_init_task(&op.done, task);
    if (WEFTI_UNLIKELY(!wefti_poller_begin(&ring->poller, &what, &op)))
        return -ENOBUFS;
    ring->waiting++;
    while (why == -EAGAIN) {
        wefti_waiter_init_task(&op.closed, task);
        if (io->closed) { /* since the last turn */
            op.closed.result = -EBADF;
            wefti_waiter_serve(&op.closed); /* nobody but us knows of it */
        } else {
            wefti_desc_append(io, direction, &op.closed);
        }
        wefti_desc_unlock(io);
        why = wait_over(io, direction, ring, &op, until, words);
    }
    ring->waiting--;
    /* Data that came before the deadline is the caller's; before a close it is nobody's, as in any other wait. */
    return why == -EBADF || (why && op.done.result == -ECANCELED) ? why : op.done.result;
}

bool wefti_op_run(const struct wefti_poll_op *what, int64_t until, const char *words, ssize_t *result) {
    struct wefti_worker *w = wefti_worker_here();
    struct wefti_watch *ring = w ? wefti_op_ring(w) : NULL;
    struct wefti_op op;
    if (!ring || wefti_waiter_init(&op.done) || !wefti_poller_begin(&ring->poller, what, &op))
        return false;
    struct wefti_fiber *self = wefti_fiber_self();
    int why = wefti_fiber_wait(self, is_done, &op, until, words);
    if (why && !is_done(&op))
        end_op(ring, self, &op);
    ssize_t n = op.done.result;
    *result = why && (n == -ECANCELED || n == -EINTR) ? why : n;
    return true;
}
