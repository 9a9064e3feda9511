/* weft/io.h - reading and writing descriptors without stopping a worker.
 *
 * A weft_io is an open descriptor: a socket, a pipe, a terminal.  Calls look as if they blocked.  In a fiber others run meanwhile; a plain
 * thread sleeps; a poll task has calls of its own (weft_read_poll) and gets -EINVAL from all others that take a deadline.
 *
 *     weft_io *in;
 *     weft_io_open(STDIN_FILENO, WEFT_IO_BORROW, &in);
 *     ssize_t n = weft_read(in, buffer, sizeof buffer, weft_after(1000000000));
 *
 * Every call has a deadline: WEFT_NEVER, WEFT_NOW (try once) or weft_after(ns).  Beside the errors of the system call it may return
 * -ETIMEDOUT; -ECANCELED (the fiber has been cancelled, also when it would not have had to wait); -EBADF (closed meanwhile);
 * -EINVAL (in a poll task); -ENOMEM, -EMFILE, -ENFILE when a worker waits for a descriptor for the first time; and with WEFT_NOW -EDQUOT (the
 * fiber has a budget that cannot pay).
 *
 * One fiber may read while another writes.  Several may read, and then share what comes as they happen to get it.
 * Several may write: the bytes of one call (weft_write, weft_writev, weft_sendfile) stay together, and the other calls wait for its end, in the
 * order in which they came.  weft_write_some writes part of its bytes, so what a loop of such calls writes may be mixed with others' bytes.
 * A buffer belongs to the call until it returns.  weft_close ends all calls on the same weft_io, which return -EBADF; its number is used
 * again only when they have.  A fiber that never has to wait lets others run now and then.
 *
 * A weft_io belongs to no runtime: it may be opened in one, used in another, and on plain threads.
 *
 * Files are always ready, so that reading one stops the worker for as long as the disk takes: <weft/file.h> has calls that do not.
 *
 * Under `sim` descriptors are real: what has come is taken in no time at all, and while nothing has, virtual time passes as real time does.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <sys/types.h>
#include <weft/base.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

struct iovec; /* <sys/uio.h> */
typedef struct weft_io weft_io;

enum {
    WEFT_IO_BORROW = 1, /* closing it leaves the descriptor open, and in the mode it was in */
};

/* Use an open descriptor, which becomes non-blocking, for every process that shares it (a terminal: borrow it).  It must not be used
 * otherwise meanwhile.
 * Returns 0; -EBADF; -ENOMEM; -EINVAL (unknown flags). */
WEFT_API WEFT_MUST_USE int weft_io_open(int fd, unsigned flags, weft_io **out);

/* Close.  NULL is allowed.  From anywhere; never waits.  Returns 0, or the error of close(2); it is closed in any case. */
WEFT_API int weft_close(weft_io *io);

/* The descriptor, for options and looking; -EINVAL of NULL. */
WEFT_API int weft_io_fd(const weft_io *io);

/* Read what is there, at least one byte.  Returns how many; 0 at the end; a negative error.
 * With size 0 it returns 0 at once, whatever is there, and takes no datagram; it is no end then.  (-ECANCELED, -EBADF, -EINVAL as ever.) */
WEFT_API ssize_t weft_read(weft_io *io, void *buffer, size_t size, weft_deadline until);
/* Into several parts, of which at most the first 1,024 are used. */
WEFT_API ssize_t weft_readv(weft_io *io, const struct iovec *parts, int count, weft_deadline until);
/* Read exactly so many.  Returns `size`; less at the end of the stream; a negative error (what was read before it is lost to
 * the caller: close). */
WEFT_API ssize_t weft_read_exact(weft_io *io, void *buffer, size_t size, weft_deadline until);

/* Write all of it.  Returns `size`; a negative error, after which an unknown part has been written.  Never raises SIGPIPE. */
WEFT_API ssize_t weft_write(weft_io *io, const void *bytes, size_t size, weft_deadline until);
/* Any number of parts. */
WEFT_API ssize_t weft_writev(weft_io *io, const struct iovec *parts, int count, weft_deadline until);
/* Write what can be written now, at least one byte. */
WEFT_API ssize_t weft_write_some(weft_io *io, const void *bytes, size_t size, weft_deadline until);

/* Send part of a file, from *offset, which moves on (NULL: from the file's position).  In a fiber, what is not in the page cache is read by the
 * runtime's blocking pool first, so that a slow disk holds up nobody else on the worker.  Returns how many bytes were sent: `size`, or
 * less at the file's end; a negative error. */
WEFT_API ssize_t weft_sendfile(weft_io *out, int file, off_t *offset, size_t size, weft_deadline until);

/* No more writing (how = SHUT_WR), reading (SHUT_RD), or both, on a socket.  Returns 0 or a negative error. */
WEFT_API int weft_shutdown(weft_io *io, int how);

/* Two connected pipe ends, or stream sockets.  Returns 0; -EMFILE, -ENFILE, -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_pipe(weft_io **in, weft_io **out);
WEFT_API WEFT_MUST_USE int weft_socketpair(weft_io **a, weft_io **b);

/* -- Without waiting ----------------------------------------------------------------------------------- */

/* Read or write what is possible now.  From anywhere, poll tasks and cancelled fibers included; never lets others run.
 * Returns as weft_read and weft_write_some; -EAGAIN: nothing is, or another call is writing. */
WEFT_API ssize_t weft_try_read(weft_io *io, void *buffer, size_t size);
WEFT_API ssize_t weft_try_write(weft_io *io, const void *bytes, size_t size);

enum {
    WEFT_FD_READ = 1,
    WEFT_FD_WRITE = 2,
};

/* Wait until a read (WEFT_FD_READ) or a write (WEFT_FD_WRITE) need not wait: one byte, or the end, is there, or there is room for one.  Others may
 * take it first, so try, and wait again.  WEFT_NOW: only look.
 * Returns 0, also when the read would give the end or an error; -EINVAL (not one of the two); -ETIMEDOUT, -ECANCELED, -EBADF, ... */
WEFT_API int weft_io_wait(weft_io *io, int events, weft_deadline until);

/* -- In poll tasks ------------------------------------------------------------------------------------ */

/* As weft_read and weft_write_some, once.  -EAGAIN: `self` will be woken when it is worth trying again: return WEFT_PENDING, and make the
 * same call when polled.  `wait` lies in the task's state; end it with weft_wait_end in the drop function.
 * -EINVAL: `self` is not the poll task that is running.  -EBUSY: `wait` is in use by another call; or the stream is TLS, and another poll task has
 * yet to make its call again. */
WEFT_API ssize_t weft_read_poll(weft_io *io, weft_task *self, weft_wait *wait, void *buffer, size_t size);
WEFT_API ssize_t weft_write_poll(weft_io *io, weft_task *self, weft_wait *wait, const void *bytes, size_t size);

/* -- Lines and the like -------------------------------------------------------------------------------- */

/* Reads through a buffer of the caller's, for input that is cut by marks.  Used by one fiber at a time; nothing to close. */
typedef struct weft_reader {
    weft_io *io;
    char *buffer;
    size_t room;
    size_t from, to; /* what has been read and not yet taken */
} weft_reader;

WEFT_API void weft_reader_init(weft_reader *reader, weft_io *io, void *buffer, size_t room);

/* Read up to and including the next `mark`.  *piece points into the buffer, and is good until the next call.
 * Returns its length; at the end of the stream what is left without a mark, then 0; -EMSGSIZE (the buffer is full, and there is no mark in it; nothing
 * is lost, weft_reader_read gets it); or as weft_read, after which the call may be repeated.
 * A piece that fills the buffer to the last byte, its mark, is good.  One without a mark must be shorter than the buffer, since the end of the stream
 * is seen only by reading on: -EMSGSIZE. */
WEFT_API ssize_t weft_read_until(weft_reader *reader, char mark, char **piece, weft_deadline until);
/* As weft_read and weft_read_exact, first from the buffer. */
WEFT_API ssize_t weft_reader_read(weft_reader *reader, void *buffer, size_t size, weft_deadline until);
WEFT_API ssize_t weft_reader_read_exact(weft_reader *reader, void *buffer, size_t size, weft_deadline until);

/* -- Descriptors of other libraries ------------------------------------------------------------------- */

/* Wait until a descriptor that weft does not own is readable or writable (`events`), or has an error.  Level-triggered, as poll(2).  When
 * it is closed meanwhile, the wait goes on for what it was, until the deadline; another one of the same number is not mistaken for it.
 * Returns what it is, WEFT_FD_READ | WEFT_FD_WRITE; -ETIMEDOUT; -ECANCELED; -EBADF; -EINVAL (no events; in a poll task); -EMFILE,
 * -ENFILE, -ENOMEM. */
WEFT_API int weft_fd_wait(int fd, int events, weft_deadline until);

/* -- In a loop of your own ------------------------------------------------------------------------------ */

/* A descriptor that is readable when worker 0 of a driven runtime has something to do, for the caller's own poll(2) or epoll: then call
 * weft_drive.  Sleep no longer than until weft_drive_next.  It belongs to the runtime.
 * Returns the descriptor; -EINVAL, -EDEADLK, -EBUSY as weft_drive; -EMFILE, -ENFILE, -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_drive_fd(weft_runtime *rt);

WEFT_EXTERN_C_END
#endif
