/* weft/stream.h - streams of your own behind the calls of <weft/io.h>: encryption, compression, counting.
 *
 * A library that puts something between a program and its descriptor gives weft these functions, and gets a weft_io: weft_read, weft_write,
 * weft_accept, weft_http_serve and all others take it as they take a socket.  <weft/tls.h> is made so.
 *
 * Your functions use the weft_io below with weft_try_read, weft_try_write and weft_io_wait, and keep no lock while they wait.
 * A plain weft_io pays one predictable branch for this.
 */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include <weft/net.h>

WEFT_EXTERN_C_BEGIN

/* How a call may wait: with weft_stream_wait, which knows. */
typedef struct weft_stream_call {
    weft_deadline until;
    weft_task *self; /* a poll task, which must not wait; NULL: a fiber or a thread */
    weft_wait *wait; /* of `self` */
    bool all;        /* a write: all of it; else at least one byte */
    const uint32_t *mark; /* of weft_stream_wait only; may be NULL */
} weft_stream_call;

/* Functions that are NULL are refused with -EOPNOTSUPP; `discard` must be there. */
typedef struct weft_stream {
    size_t size; /* sizeof(weft_stream) */
    /* As weft_readv and weft_writev; -EAGAIN in a poll task.  One call of `write` at a time: the others wait for its end. */
    ssize_t (*read)(void *state, const weft_stream_call *call, const struct iovec *parts, int count);
    ssize_t (*write)(void *state, const weft_stream_call *call, const struct iovec *parts, int count);
    /* Until a read (WEFT_FD_READ) or a write would not have to wait; as weft_io_wait. */
    int (*wait)(void *state, const weft_stream_call *call, int events);
    /* Of a listener. */
    int (*accept)(void *state, const weft_stream_call *call, weft_io **out, weft_addr *peer);
    /* As weft_shutdown: never waits. */
    int (*shutdown)(void *state, int how);
    /* It is being closed: end the calls under way, by closing what is below.  Never waits.  No call begins after this. */
    int (*close)(void *state);
    /* The last call has returned: free the state. */
    void (*discard)(void *state);
} weft_stream;

/* A weft_io for it.  `functions` lives as long as it; `fd` is what weft_io_fd, weft_peer_addr and the socket options use.
 * Returns 0; -EINVAL; -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_stream_open(const weft_stream *functions, void *state, int fd, weft_io **out);

/* A call of your own begins: the state behind a weft_io, which stays until weft_stream_leave; NULL: it is closed, or was made by other
 * functions. */
WEFT_API void *weft_stream_enter(weft_io *io, const weft_stream *functions);
WEFT_API void weft_stream_leave(weft_io *io);

/* Wait until `below` is readable or writable, as the call may: weft_io_wait, or in a poll task -EAGAIN when it will be woken.
 * When several calls of one stream use `below`, what one is waiting for may be taken, and turned into something for both, by another.  So it
 * takes a mark before it looks, under the stream's lock, and passes that on: it does not wait if anything has come since.  And whoever
 * changes what others wait for without anything new to come says so: then they look again.  (Of a stream above another: neither.) */
WEFT_API int weft_stream_wait(weft_io *below, const weft_stream_call *call, int events);
WEFT_API uint32_t weft_stream_mark(weft_io *below, int events);
WEFT_API void weft_stream_again(weft_io *below, int events);
/* As weft_accept or weft_accept_poll. */
WEFT_API int weft_stream_accept(weft_io *below, const weft_stream_call *call, weft_io **out, weft_addr *peer);

WEFT_EXTERN_C_END
#endif
