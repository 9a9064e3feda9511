/* weft/select.h - waiting for whichever of several things comes first.
 *
 *     int request, done = 0;
 *     weft_case cases[] = {
 *         weft_case_recv(requests, &request),
 *         weft_case_send(results, &done),
 *         weft_case_at(weft_after(1000000)),
 *     };
 *     switch (weft_select(cases, 3, WEFT_NEVER)) {
 *     case 0: ...cases[0].result is 0, or -EPIPE when the channel is closed
 *     }
 *
 * Things are channels, events, times, and descriptors.  Exactly one case happens.  When several could, one of them is drawn, all with the same chance.
 */
#ifndef WEFT_SELECT_H
#define WEFT_SELECT_H

#include <weft/base.h>
#include <weft/chan.h>
#include <weft/io.h>
#include <weft/sync.h>

WEFT_EXTERN_C_BEGIN

#define WEFT_SELECT_MAX 64 /* cases in one select */

/* What a case is; opaque. */
struct weft_case_kind;

/* One of the things to wait for.  Made by the functions below; may be used again. */
typedef struct weft_case {
    const struct weft_case_kind *kind; /* NULL: this case never happens */
    void *thing;
    void *value;
    weft_deadline at; /* when, or for what */
    uint64_t *extra;
    int result; /* of the case that happened: what the call of its own would have returned */
} weft_case;

/* A value comes out of the channel, or it is closed and empty (-EPIPE). */
WEFT_API weft_case weft_case_recv(weft_chan *ch, void *value);
/* The value went into the channel, or it is closed (-EPIPE), or (-ENOMEM, unbounded only) there is no memory for it. */
WEFT_API weft_case weft_case_send(weft_chan *ch, const void *value);
/* The answer has come (0), or never will (-EPIPE). */
WEFT_API weft_case weft_case_oneshot(weft_oneshot_receiver *receiver, void *value);
/* As weft_subscriber_recv. */
WEFT_API weft_case weft_case_subscriber(weft_subscriber *subscriber, void *value, uint64_t *missed);
/* As weft_watch_wait. */
WEFT_API weft_case weft_case_watch(weft_watch *watch, uint64_t *version, void *value);
/* The event is set (0), and stays so; -EINVAL when it has been destroyed. */
WEFT_API weft_case weft_case_event(weft_event *event);
/* The descriptor is ready: for reading, which is also the end of the stream, a connection to accept, or an error (WEFT_FD_READ), or for writing
 * (WEFT_FD_WRITE); for both use two cases.  Nothing is read or written: make the call afterwards, with WEFT_NOW if others might be quicker.
 * The result is what it is ready for; -EBADF (closed meanwhile); -EINVAL (neither or both; a socket in memory, of <weft/sim.h>, of another runtime); -EOPNOTSUPP (a stream above a descriptor, such as TLS:
 * read it in a fiber of its own, which sends what comes through a channel). */
WEFT_API weft_case weft_case_io(weft_io *io, int events);
/* The same for a descriptor of another library, as weft_fd_wait: WEFT_FD_READ, WEFT_FD_WRITE or both. */
WEFT_API weft_case weft_case_fd(int fd, int events);
/* A time has come. */
WEFT_API weft_case weft_case_at(weft_deadline at);

/* Wait until one of the cases happens, and say which.  With WEFT_NOW it never waits; it returns -ETIMEDOUT only if there was a moment during the
 * call at which no channel, event or time could happen.  (Descriptors are asked one after another: the system has no such moment.)
 * Call from: a fiber or a plain thread; with WEFT_NOW also in a poll.  May suspend.  (A poll task uses several calls that end in _poll, each with a
 * weft_wait of its own, and ends the others when one has succeeded.)
 * Returns the index of the case, whose `result` is set; -ETIMEDOUT; -ECANCELED (the fiber has been cancelled, and would have to wait);
 * -EINVAL (would wait in a poll task; more than WEFT_SELECT_MAX cases); with descriptors also -ENOMEM, -EMFILE, -ENFILE, when they would
 * have to be waited for; with WEFT_NOW also -EDQUOT (the fiber has a budget that cannot pay).  On failure none has happened. */
WEFT_API WEFT_MUST_USE int weft_select(weft_case *cases, size_t count, weft_deadline until);

WEFT_EXTERN_C_END
#endif
