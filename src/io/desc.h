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
 * Watched by.  The worker on which a fiber first waits for it; events of a fiber's own descriptors then come to its own worker.
 * Memory. Descriptors are never given back to the system, only reused: an event that was collected just before a close meets an open
 *         or a free one, and at worst makes a call try for nothing.
 */
#ifndef WEFTI_IO_DESC_H
#define WEFTI_IO_DESC_H

#include <weft/io.h>

#include "fiber/wait.h"

enum { WEFTI_IN = 0, WEFTI_OUT = 1 }; /* directions */

struct weft_io {
    struct wefti_lock lock;
    int fd;
    uint32_t users;      /* calls under way; the last one out of a closed descriptor closes it */
    uint32_t events[2];  /* that came, by direction */
    bool ready[2];
    bool closed, borrowed, socket, always_ready;
    bool either; /* fd.c: whoever waits wants to know of anything */
    int was_flags;                /* of a borrowed one: F_GETFL before us */
    struct wefti_worker *watcher; /* NULL: none yet */
    struct wefti_waiters waiting[2];
    struct weft_io *next; /* free */
};

/* One for an open, non-blocking descriptor.  0; -ENOMEM. */
int wefti_desc_new(int fd, bool socket, struct weft_io **out);

/* A call begins: 0; -EBADF (closed).  Then it ends. */
int wefti_desc_enter(struct weft_io *io);
void wefti_desc_leave(struct weft_io *io);

/* Before a system call: wait until it may be worth trying, and note the events.  0 or a negative error. */
int wefti_desc_ready(struct weft_io *io, int direction, uint32_t *seen, int64_t until);
/* After it: it would block, or has used up all there was. */
void wefti_desc_exhausted(struct weft_io *io, int direction, uint32_t seen);

/* The worker will watch descriptors.  0; -ENOMEM, -EMFILE, -ENFILE. */
int wefti_watch_begin(struct wefti_worker *w);

/* A system call that is to be repeated until it does not block: `call` returns its result or -errno. */
ssize_t wefti_desc_call(struct weft_io *io, int direction, ssize_t (*call)(struct weft_io *io, void *arg), void *arg,
                        size_t full, int64_t until);

#endif
