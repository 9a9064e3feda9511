/* weft/io.h - reading and writing descriptors without stopping a worker.
 *
 * A weft_io is an open descriptor: a socket, a pipe, a terminal.  Calls look as if they blocked.  In a fiber others run meanwhile; a plain
 * thread sleeps; a poll task must not call them.
 *
 *     weft_io *in;
 *     weft_io_open(STDIN_FILENO, WEFT_IO_BORROW, &in);
 *     ssize_t n = weft_read(in, buffer, sizeof buffer, weft_after(1000000000));
 *
 * Every call has a deadline: WEFT_NEVER, WEFT_NOW (try once) or weft_after(ns).  Beside the errors of the system call it may return
 * -ETIMEDOUT, -ECANCELED (the fiber has been cancelled) and -EBADF (closed meanwhile).
 *
 * One fiber may read while another writes.  Several may read, and then share what comes as they happen to get it.
 * A buffer belongs to the call until it returns.  weft_close ends all calls on the same weft_io, which return -EBADF.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <sys/types.h>
#include <weft/base.h>

WEFT_EXTERN_C_BEGIN

struct iovec; /* <sys/uio.h> */
typedef struct weft_io weft_io;

enum {
    WEFT_IO_BORROW = 1, /* closing it leaves the descriptor open, and in the mode it was in */
};

/* Use an open descriptor, which becomes non-blocking.  It must not be used otherwise meanwhile.
 * Returns 0; -EBADF; -ENOMEM; -EINVAL (unknown flags). */
WEFT_API WEFT_MUST_USE int weft_io_open(int fd, unsigned flags, weft_io **out);

/* Close.  NULL is allowed.  Returns 0, or the error of close(2); it is closed in any case. */
WEFT_API int weft_close(weft_io *io);

/* The descriptor, for options and looking. */
WEFT_API int weft_io_fd(const weft_io *io);

/* Read what is there, at least one byte.  Returns how many; 0 at the end; a negative error. */
WEFT_API ssize_t weft_read(weft_io *io, void *buffer, size_t size, weft_deadline until);
WEFT_API ssize_t weft_readv(weft_io *io, const struct iovec *parts, int count, weft_deadline until);
/* Read exactly so many.  Returns `size`; less at the end of the stream; a negative error (what was read before it is lost to
 * the caller: close). */
WEFT_API ssize_t weft_read_exact(weft_io *io, void *buffer, size_t size, weft_deadline until);

/* Write all of it.  Returns `size`; a negative error, after which an unknown part has been written.  Never raises SIGPIPE. */
WEFT_API ssize_t weft_write(weft_io *io, const void *bytes, size_t size, weft_deadline until);
WEFT_API ssize_t weft_writev(weft_io *io, const struct iovec *parts, int count, weft_deadline until);
/* Write what can be written now, at least one byte. */
WEFT_API ssize_t weft_write_some(weft_io *io, const void *bytes, size_t size, weft_deadline until);

/* Send part of a file.  Returns how many bytes were sent: `size`, or less at the file's end; a negative error. */
WEFT_API ssize_t weft_sendfile(weft_io *out, int file, off_t *offset, size_t size, weft_deadline until);

/* No more writing (how = SHUT_WR), reading (SHUT_RD), or both, on a socket.  Returns 0 or a negative error. */
WEFT_API int weft_shutdown(weft_io *io, int how);

/* Two connected pipe ends, or stream sockets.  Returns 0; -EMFILE, -ENFILE, -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_pipe(weft_io **in, weft_io **out);
WEFT_API WEFT_MUST_USE int weft_socketpair(weft_io **a, weft_io **b);

/* -- Descriptors of other libraries ------------------------------------------------------------------- */

enum {
    WEFT_FD_READ = 1,
    WEFT_FD_WRITE = 2,
};

/* Wait until a descriptor that weft does not own is readable or writable (`events`), or has an error.  Level-triggered, as poll(2).
 * Returns what it is, WEFT_FD_READ | WEFT_FD_WRITE; -ETIMEDOUT; -ECANCELED; -EBADF; -EINVAL (no events; in a poll task). */
WEFT_API int weft_fd_wait(int fd, int events, weft_deadline until);

WEFT_EXTERN_C_END
#endif
