/* writer.h - one call at a time writes to a weft_io, so that the bytes of a call stay together.  Internal.
 *
 * What.   weft_write goes on until all is written, and suspends when the system has taken a part. Another writer must not get its bytes in
 *         between. So every call that writes first takes `writing`, and gives it back at its end; the others wait in the order in which they came.
 * Words.  FREE: nobody writes. HELD: one call does. WANTED: one does, and others wait.
 *         A record in waiting[WEFTI_OUT] waits either for room in the descriptor, or for its turn to write (WEFTI_FOR_TURN). Those for room are
 *         first in the list: an event serves these, and stops at the first of the others.
 * Who.    `writing` and the list: under the descriptor's lock.
 * Race.   holder: H1 lock, HELD, unlock               other: W1 lock, not FREE: WANTED, append, unlock
 *                 H2 system calls, suspends                  W2 suspend until served
 *                 H3 lock; FREE, or if WANTED:               W3 not served: lock, and unless served by now: remove, unlock
 *                    take the first, serve, unlock               served: it is the holder
 *                 H4 wake
 * Claim.  At most one call is between H1 and H3, every holder comes to H3, and whoever waits becomes the holder, is late or cancelled, or hears
 *         of a close.
 * Why.    H1, H3, W1 and W3 hold one lock. H3 passes `writing` on without freeing it, so nobody can come in between: a fiber that writes in a loop
 *         does not starve the others.
 * Rejected.  -EBUSY for the second writer: two fibers that log to one pipe would fail only when it is full. A mutex in every weft_io: two
 *         more locked instructions per write; this is a byte in a cache line that the call has anyway.
 * Poll tasks. A poll task that finds another at it is told when that one ends, and tries again: it may be dropped and never come, so nothing is
 *         passed on to it, and fibers that wait are first.
 * Checked by.  test/model/io.c, test/api/io_writers.c
 */
#ifndef WEFTI_IO_WRITER_H
#define WEFTI_IO_WRITER_H

#include "io/desc.h"

/* A call that writes begins: it has entered, and is the only one until wefti_write_end.
 * 0; -EBADF (closed); -ETIMEDOUT, -ECANCELED; -EINVAL (in a poll task, when another writes). */
int wefti_write_begin(struct weft_io *io, int64_t until);
void wefti_write_end(struct weft_io *io);

/* poll.c: the same in a poll task, of a stream above a descriptor.  -EAGAIN: it will be woken. */
int wefti_write_begin_poll(struct weft_io *io, weft_task *self, weft_wait *wait);

/* H3, under the lock, which is held afterwards, and given back meanwhile when others wait. */
void wefti_write_pass(struct weft_io *io);
static inline void wefti_write_release(struct weft_io *io) {
    if (WEFTI_UNLIKELY(io->writing == WEFTI_WRITE_WANTED))
        wefti_write_pass(io);
    else
        io->writing = WEFTI_WRITE_FREE;
}

/* stream.c, between begin and end: at least one byte; and all but the first `done` bytes, with the end. */
ssize_t wefti_write_held(struct weft_io *io, const void *bytes, size_t size, int64_t until);
ssize_t wefti_write_rest(struct weft_io *io, const void *bytes, size_t done, size_t size, int64_t until);

#endif
