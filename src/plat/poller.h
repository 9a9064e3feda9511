/* poller.h - what the two kinds of poller define (plat.h has what they promise).
 *
 * open    fills in all but `kind` and `batch`; on failure nothing is left.        wait    as wefti_poller_wait
 * close   also by another thread, when the owner's has ended.         begin, cancel    NULL: it tells of readiness only
 * quit    NULL: it holds on to no file
 * add, arm   the owner's thread.                                      remove  any thread, while the descriptor is open
 */
#ifndef WEFTI_PLAT_POLLER_H
#define WEFTI_PLAT_POLLER_H

#include <sys/epoll.h>

#include "base/assert.h"
#include "plat/plat.h"

struct wefti_poller_kind {
    const char *name;
    int (*open)(struct wefti_poller *poller);
    void (*quit)(struct wefti_poller *poller);
    void (*close)(struct wefti_poller *poller);
    int (*add)(struct wefti_poller *poller, int fd, void *tag);
    int (*arm)(struct wefti_poller *poller, int fd, void *tag, uint32_t what, bool again);
    void (*remove)(struct wefti_poller *poller, int fd);
    int (*wait)(struct wefti_poller *poller, struct wefti_poll_event *events, int64_t until);
    bool (*begin)(struct wefti_poller *poller, const struct wefti_poll_op *op, void *tag);
    bool (*cancel)(struct wefti_poller *poller, void *tag);
};

extern const struct wefti_poller_kind wefti_poller_epoll, wefti_poller_uring;

/* What poll and epoll say, as WEFTI_READABLE and so on. */
static inline uint32_t wefti_poll_ready(uint32_t bits) {
    uint32_t ready = (bits & EPOLLIN ? WEFTI_READABLE : 0) | (bits & EPOLLOUT ? WEFTI_WRITABLE : 0);
    if (WEFTI_UNLIKELY(bits & ~(uint32_t)(EPOLLIN | EPOLLOUT))) {
        ready |= bits & EPOLLPRI ? WEFTI_READABLE : 0;
        ready |= bits & EPOLLRDHUP ? WEFTI_READABLE | WEFTI_READ_ENDED : 0;
        ready |=
            bits & (EPOLLHUP | EPOLLERR) ? WEFTI_READABLE | WEFTI_WRITABLE | WEFTI_READ_ENDED | WEFTI_WRITE_ENDED : 0;
    }
    return ready;
}

#endif
