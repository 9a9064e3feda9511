/* layer.c - streams above a descriptor, by functions of another library (weft/stream.h).
 *
 * The weft_io of such a stream has no descriptor of its own to watch: of it, `lock`, `users` and `closed` are used, so that its state
 * outlives every call, `writing` and its list, so that one call writes at a time, and `fd` for those that only look.  weft_close closes what is below, which ends the calls under way; the last
 * of them frees the state. */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>
#include <weft/stream.h>

#include "fiber/slice.h"
#include "io/writer.h"

int weft_stream_open(const weft_stream *functions, void *state, int fd, weft_io **out) {
    if (!functions || functions->size != sizeof *functions || !functions->discard || !out)
        return -EINVAL;
    weft_io *io;
    int error = wefti_desc_new(fd, 0, &io);
    if (error)
        return error;
    io->layer = functions;
    io->layer_state = state;
    *out = io;
    return 0;
}

void *weft_stream_enter(weft_io *io, const weft_stream *functions) {
    return io && functions && io->layer == functions && !wefti_desc_enter(io) ? io->layer_state : NULL;
}

void weft_stream_leave(weft_io *io) {
    if (io)
        wefti_desc_leave(io);
}

int weft_stream_wait(weft_io *below, const weft_stream_call *call, int events) {
    if (!below || !call)
        return -EINVAL;
    if (below->layer)
        return wefti_layer_wait(below, call, events);
    int direction = events == WEFT_FD_READ ? WEFTI_IN : WEFTI_OUT;
    if (call->self)
        return wefti_desc_ready_poll(below, call->self, call->wait, direction, call->mark);
    return wefti_desc_ready(below, direction, call->mark, call->until);
}

uint32_t weft_stream_mark(weft_io *below, int events) {
    if (!below)
        return 0;
    wefti_desc_lock(below);
    uint32_t mark = below->events[events == WEFT_FD_READ ? WEFTI_IN : WEFTI_OUT];
    wefti_desc_unlock(below);
    return mark;
}

void weft_stream_again(weft_io *below, int events) {
    if (below && !below->layer)
        wefti_desc_event(below, events == WEFT_FD_READ ? WEFTI_READABLE : WEFTI_WRITABLE);
}

int weft_stream_accept(weft_io *below, const weft_stream_call *call, weft_io **out, weft_addr *peer) {
    if (!call)
        return -EINVAL;
    return call->self ? weft_accept_poll(below, call->self, call->wait, out, peer)
                      : weft_accept(below, out, peer, call->until);
}

/* May the call be made? Not in a poll task that should have used another. */
static int check(const weft_stream_call *call) {
    int error = 0;
    if (call->self) {
        struct wefti_worker *w = wefti_worker_here();
        error = w && wefti_current(w) == call->self && !wefti_task_is_fiber(call->self) ? 0 : -EINVAL;
        if (!error && wefti_slice_poll(call->self)) /* a wait of the stream below gives the unit back */
            error = -EAGAIN;
    } else {
        error = wefti_desc_begin(call->until);
        if (!error)
            error = wefti_charge_caller_until(&wefti_cost_syscall, call->until);
    }
    return error;
}

/* A call begins. */
static int enter(struct weft_io *io, const weft_stream_call *call) {
    int error = check(call);
    return error ? error : wefti_desc_enter(io);
}

ssize_t wefti_layer_read(struct weft_io *io, const weft_stream_call *call, const struct iovec *parts, int count) {
    ssize_t n = count < 0 ? -EINVAL : io->layer->read ? enter(io, call) : -EOPNOTSUPP;
    if (n)
        return n;
    n = io->layer->read(io->layer_state, call, parts, count);
    wefti_desc_leave(io);
    return n;
}

ssize_t wefti_layer_write(struct weft_io *io, const weft_stream_call *call, const struct iovec *parts, int count) {
    int error = count < 0 ? -EINVAL : io->layer->write ? check(call) : -EOPNOTSUPP;
    if (!error)
        error = call->self ? wefti_write_begin_poll(io, call->self, call->wait) : wefti_write_begin(io, call->until);
    if (error)
        return error;
    ssize_t n = io->layer->write(io->layer_state, call, parts, count);
    wefti_write_end(io);
    return n;
}

ssize_t wefti_layer_write_held(struct weft_io *io, const weft_stream_call *call, const struct iovec *parts, int count) {
    int error = io->layer->write ? check(call) : -EOPNOTSUPP;
    return error ? error : io->layer->write(io->layer_state, call, parts, count);
}

int wefti_layer_wait(struct weft_io *io, const weft_stream_call *call, int events) {
    int error = io->layer->wait ? enter(io, call) : -EOPNOTSUPP;
    if (error)
        return error;
    error = io->layer->wait(io->layer_state, call, events);
    wefti_desc_leave(io);
    return error;
}

int wefti_layer_accept(struct weft_io *io, const weft_stream_call *call, weft_io **out, weft_addr *peer) {
    int error = io->layer->accept ? enter(io, call) : -EOPNOTSUPP;
    if (error)
        return error;
    error = io->layer->accept(io->layer_state, call, out, peer);
    wefti_desc_leave(io);
    return error;
}

int wefti_layer_shutdown(struct weft_io *io, int how) {
    int error = io->layer->shutdown ? wefti_desc_enter(io) : -EOPNOTSUPP;
    if (error)
        return error;
    error = io->layer->shutdown(io->layer_state, how);
    wefti_desc_leave(io);
    return error;
}

int wefti_layer_close(struct weft_io *io) { return io->layer->close ? io->layer->close(io->layer_state) : 0; }
void wefti_layer_discard(struct weft_io *io) { io->layer->discard(io->layer_state); }
