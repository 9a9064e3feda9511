/* desc.h - an open descriptor: what it is ready for, who waits for it, which worker watches it.  Internal.
 *
 * What.   The poller tells of changes (edge-triggered), so what it said is remembered: `ready`.  A call that finds the descriptor ready tries
 *         the system call; when that would block, or gave less than was asked, the descriptor is no longer ready, unless an event
 *         came since (`events`), and the call waits.
 * Race.   call: C1 note `events`                     worker: E1 an event: ready, events + 1
 *               C2 system call: would block                  E2 serve all who wait for it
 *               C3 `events` as noted: not ready; append
 * Claim.  Who waits is served by every event after its own look at the descriptor.
 * Why.    C1, C3 and E1 hold the lock.  An event after C2 comes with E1 after C1: C3 sees another number, and tries again; or after C3:
 *         E2 serves it.
 * Served. Who is served learns the number of events from E2, and has so made its C1.
 * Less.   "Less than was asked means that there is no more" saves a system call a message, and is true of TCP and pipes only (a terminal gives
 *         a line, a Unix socket stops at passed descriptors), and not at the end: the event that told of the end may have come with the
 *         last bytes, and there is no other.  So an end that was told is remembered (`ended`), and then only EAGAIN counts.
 * Watched by.  The worker on which a fiber first waits for it; events of a fiber's own descriptors then come to its own worker.  When a
 *         task of another runtime waits for it, the watch moves there.
 * Threads. A plain thread asks the system itself, about the descriptor and about a poke with which a close ends its sleep.
 * Memory. Descriptors are never given back to the system, only reused: an event that was collected just before a close meets an open
 *         or a free one, and at worst makes a call try for nothing.
 * Checked by.  test/model/io.c, test/api/io_*.c, test/fault/io.c; the sleep in a poller: test/model/park.c
 */
#ifndef WEFTI_IO_DESC_H
#define WEFTI_IO_DESC_H

#include <weft/io.h>
#include <weft/net.h>

#include "fiber/wait.h"
#include "queue/bias.h"
#include "task/account.h"

enum { WEFTI_IN = 0, WEFTI_OUT = 1 }; /* directions */

/* What a descriptor is. */
enum {
    WEFTI_SOCKET = 1,
    WEFTI_STREAM = 2, /* TCP or a pipe: less than was asked means that there is no more */
};

/* Does a call write, and do others wait for it to end?  (writer.h) */
enum { WEFTI_WRITE_FREE, WEFTI_WRITE_HELD, WEFTI_WRITE_WANTED };

/* Two cache lines.  The lock is biased: who calls, and who hears of events, is nearly always one worker. */
struct weft_io {
    struct wefti_bias lock;
    int fd;
    uint32_t users;     /* calls under way; the last one out of a closed descriptor closes it */
    uint32_t events[2]; /* that came, by direction */
    bool ready[2], ended[2];
    bool closed, borrowed, socket, stream, always_ready;
    bool either;   /* fd.c: whoever waits, as a reader, wants to know of anything */
    bool plain;    /* a socket of the system's: neither in memory nor a layer */
    uint8_t writing; /* one of the below (writer.h) */
    int was_flags; /* of a borrowed one: F_GETFL before us */
    struct wefti_waiters waiting[2];
    _Atomic(struct wefti_worker *)
        watcher; /* NULL: none yet; under the lock, but for a look of the watcher itself (forget) */
    /* Not a descriptor but a stream above one (layer.c): then nothing above but lock, users, closed, writing and the list of those who wait for
     * their turn to write is used. */
    const struct weft_stream *layer;
    union {
        void *layer_state;
        struct weft_io *next; /* free */
    };
    struct wefti_mem *mem; /* in memory, under the simulator (mem.h): `fd` is -1 */
};
_Static_assert(sizeof(void *) != 8 || sizeof(struct weft_io) == 128, "two cache lines");

/* w: the calling worker, or NULL. */
void wefti_desc_lock_slow(struct weft_io *io, struct wefti_worker *w);
static inline void wefti_desc_lock_by(struct weft_io *io, struct wefti_worker *w) {
    if (WEFTI_UNLIKELY(!wefti_bias_own(&io->lock, w)))
        wefti_desc_lock_slow(io, w);
}
static inline void wefti_desc_lock(struct weft_io *io) { wefti_desc_lock_by(io, wefti_worker_here()); }
static inline void wefti_desc_unlock(struct weft_io *io) { wefti_bias_give(&io->lock); }

/* The lock is held, and given back.  True: it is for the caller to finish the close. */
static inline bool wefti_desc_leave_and_unlock(struct weft_io *io) {
    io->users--;
    bool last = WEFTI_UNLIKELY(io->closed) && io->users == 0;
    wefti_desc_unlock(io);
    return last;
}
/* Nobody uses it any more.  0, or what the system says. */
int wefti_desc_finish(struct weft_io *io);
static inline void wefti_desc_leave_locked(struct weft_io *io) {
    if (WEFTI_UNLIKELY(wefti_desc_leave_and_unlock(io)))
        (void)wefti_desc_finish(io);
}

/* A record without a choice waits for the call that writes, not for the descriptor: its index. (That of a poll task is a direction.) */
#define WEFTI_FOR_TURN 2u
static inline bool wefti_waits_for_turn(const struct wefti_waiter *waiter) {
    return !waiter->choice && waiter->index == WEFTI_FOR_TURN;
}
/* Under the lock: wait for the descriptor. Events serve those who do, and stop at the first who waits for his turn to write. */
static inline void wefti_desc_append(struct weft_io *io, int direction, struct wefti_waiter *waiter) {
    struct wefti_waiters *list = &io->waiting[direction];
    wefti_waiters_insert(list, waiter, direction == WEFTI_IN ? NULL : list->first);
}
/* E2: all who wait for the descriptor; with an error, all who wait.  The lock is held, and given back. */
void wefti_desc_serve_and_unlock(struct weft_io *io, bool in, bool out, int result);

/* One for an open, non-blocking descriptor.  0; -ENOMEM. */
int wefti_desc_new(int fd, int what, struct weft_io **out);

/* E1, E2: it has become ready for WEFTI_READABLE, WEFTI_WRITABLE, or has ended. */
void wefti_desc_event(struct weft_io *io, uint32_t ready);

/* A call begins: 0; -EBADF (closed).  Then it ends. */
int wefti_desc_enter(struct weft_io *io);
void wefti_desc_leave(struct weft_io *io);

/* op.c.  The poller of the running fiber's worker, if it can carry out operations for it; or NULL. */
struct wefti_watch *wefti_op_ring(struct wefti_worker *w);
/* Carry out a recv (WEFTI_IN) or a send, in a call that has entered.  The lock is held, given back meanwhile, and held afterwards.  What it returned; -EBADF (closed), -ETIMEDOUT,
 * -ECANCELED: then it did nothing; -ENOBUFS: it was not begun. */
ssize_t wefti_op_call(struct weft_io *io, int direction, struct wefti_watch *ring, void *bytes, size_t size,
                      int64_t until);
/* Any operation, for what nobody closes under us, and without a lock: a file's.  False: it was not begun, and nothing has changed.  Else *result:
 * what it returned; -ETIMEDOUT, -ECANCELED: it was asked to end, and did nothing. */
bool wefti_op_run(const struct wefti_poll_op *op, int64_t until, const char *words, ssize_t *result);
/* A poller's event that is DONE; its tag is one of these. */
struct wefti_op {
    struct wefti_waiter done, closed;
};
void wefti_op_done(struct wefti_worker *w, const struct wefti_poll_event *event);

/* The worker will watch descriptors.  0; -ENOMEM, -EMFILE, -ENFILE. */
int wefti_watch_begin(struct wefti_worker *w);

/* Under the lock: see that a worker of w's runtime watches it.  0 or a negative error; or it is always_ready. */
int wefti_desc_watch(struct weft_io *io, struct wefti_worker *w);

/* Under the lock, when the worker watches: have its poller tell of `what` once, for a descriptor that is nobody's otherwise (fd.c).  0 or a
 * negative error. */
int wefti_desc_arm(struct weft_io *io, struct wefti_worker *w, uint32_t what);

/* Something with which a plain thread's sleep in the system is ended; NULL: there is none.  Kept for others when given back. */
struct wefti_poke {
    struct wefti_poke *next;
    int fd;
};
struct wefti_poke *wefti_poke_take(void);
void wefti_poke_give(struct wefti_poke *poke);

/* Append the calling fiber of that worker, and wait until it is served.  The lock is held, and given back; the descriptor is watched.
 * 0 and the number of events there were when it was served; or what close says: -EBADF; -ETIMEDOUT; -ECANCELED. */
int wefti_desc_wait(struct weft_io *io, struct wefti_worker *w, int direction, uint32_t *seen, int64_t until);
/* The same for a plain thread (thread.c), whatever watches it. */
int wefti_thread_wait(struct weft_io *io, int direction, uint32_t *seen, int64_t until);

/* Under the lock: is it worth trying?  mark (may be NULL): an earlier number of events. */
static inline bool wefti_desc_is_worth(const struct weft_io *io, int direction, const uint32_t *mark) {
    return io->ready[direction] || (mark && io->events[direction] != *mark);
}

/* Wait until it may be ready, without a system call.  0; a negative error.  mark (may be NULL): an earlier number of events; if there have been
 * more, it does not wait. */
int wefti_desc_ready(struct weft_io *io, int direction, const uint32_t *mark, int64_t until);

/* The same in a poll task: -EAGAIN when it has to wait. */
int wefti_desc_ready_poll(struct weft_io *io, weft_task *self, weft_wait *wait, int direction, const uint32_t *mark);

/* A fiber begins a call: it lets others run now and then.  0; -ECANCELED; -EINVAL in a poll task. */
int wefti_desc_begin(int64_t until);

/* net.c: a socket that begins to connect.  0 (it is, already) or -EINPROGRESS, and *out; another negative error.  Waits in a network in memory
 * only, a second at most. */
int wefti_connect_begin(const weft_addr *addr, weft_io **out, int64_t until);
/* ... and how it went, when it is writable: 0; -EINPROGRESS (it is still at it); a negative error. */
int wefti_connect_end(weft_io *io, const weft_addr *addr);

/* A system call, which returns its result or -errno. */
typedef ssize_t wefti_desc_fn(struct weft_io *io, void *arg);

/* C2 and C3 of it, without the waiting.  The lock is not held, and held when it returns.  w: the calling worker, or NULL. */
ssize_t wefti_desc_try_call(struct weft_io *io, struct wefti_worker *w, int direction, wefti_desc_fn *call, void *arg,
                            size_t full, uint32_t seen);
/* Repeat it until it does not block.  `full`: how much was asked; 0: less means nothing. */
ssize_t wefti_desc_call(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full, int64_t until);
/* Once, without waiting: -EAGAIN. */
ssize_t wefti_desc_try(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full);
/* A socket's recv and send, which on a ring are carried out by the system: a read instead of waiting, a small write instead of the call as
 * well. */
ssize_t wefti_desc_recv(struct weft_io *io, void *bytes, size_t size, int64_t until);
ssize_t wefti_desc_send(struct weft_io *io, const void *bytes, size_t size, int64_t until);
/* quick.c: a fiber waits until there is something to read, then for room, and reads: whoever is idle has no buffer.  -EAGAIN: it could not be
 * done so, or there was nothing; `begun` says whether `begin` was called, which is so after 0 and more as well.  Else as weft_read; a deadline
 * that has passed is -ETIMEDOUT without a look. */
struct wefti_next_read {
    int (*begin)(struct wefti_next_read *next); /* sets bytes and size; 0 or a negative error; does not wait */
    void *bytes;
    size_t size;
    bool begun; /* by `begin` */
    struct wefti_late late; /* of the connection: keeps `until` from one read to the next */
};
ssize_t wefti_read_next(struct weft_io *io, struct wefti_next_read *next, int64_t until);
/* stream.c: has nothing come that could be read, not even the end?  Of a layer that cannot say, or to who is cancelled, true. */
bool wefti_io_is_silent(struct weft_io *io);
/* stream.c: weft_read and weft_write of any weft_io in any case. */
ssize_t wefti_read_slow(struct weft_io *io, void *buffer, size_t size, int64_t until);
/* stream.c: as weft_write_some, of several parts. */
ssize_t wefti_writev_some(struct weft_io *io, const struct iovec *parts, int count, int64_t until);
ssize_t wefti_write_slow(struct weft_io *io, const void *bytes, size_t size, int64_t until);
/* The same in a poll task: -EAGAIN when it has to wait. */
ssize_t wefti_desc_poll(struct weft_io *io, weft_task *self, weft_wait *wait, int direction, wefti_desc_fn *call,
                        void *arg, size_t full);

/* -- Streams above a descriptor (layer.c) ---------------------------------------------------------------- */

struct weft_addr;
struct weft_stream_call;
ssize_t wefti_layer_read(struct weft_io *io, const struct weft_stream_call *call, const struct iovec *parts, int count);
ssize_t wefti_layer_write(struct weft_io *io, const struct weft_stream_call *call, const struct iovec *parts,
                          int count);
/* The same between wefti_write_begin and wefti_write_end. */
ssize_t wefti_layer_write_held(struct weft_io *io, const struct weft_stream_call *call, const struct iovec *parts,
                               int count);
int wefti_layer_wait(struct weft_io *io, const struct weft_stream_call *call, int events);
int wefti_layer_accept(struct weft_io *io, const struct weft_stream_call *call, struct weft_io **out,
                       struct weft_addr *peer);
int wefti_layer_shutdown(struct weft_io *io, int how);
/* The two halves of a close. */
int wefti_layer_close(struct weft_io *io);
void wefti_layer_discard(struct weft_io *io);

#endif
