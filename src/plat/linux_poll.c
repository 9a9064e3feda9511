/* linux_poll.c - plat.h for Linux: descriptors; which poller; pokes; calls without signals. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "plat/fault.h"
#include "plat/poller.h"

int wefti_poke_open(void) {
    if (wefti_fault_here())
        return -EMFILE;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int wefti_poller_open(struct wefti_poller *poller, bool uring, uint32_t batch) {
    poller->batch = batch;
    poller->kind = &wefti_poller_uring;
    if (uring && poller->kind->open(poller) == 0)
        return 0;
    poller->kind = &wefti_poller_epoll; /* whatever the reason: that needs less */
    return poller->kind->open(poller);
}

void wefti_poller_quit(struct wefti_poller *poller) {
    if (poller->kind->quit)
        poller->kind->quit(poller);
}

void wefti_poller_close(struct wefti_poller *poller) { poller->kind->close(poller); }
const char *wefti_poller_name(const struct wefti_poller *poller) { return poller->kind->name; }

int wefti_poller_add(struct wefti_poller *poller, int fd, void *tag) {
    return wefti_fault_here() ? -ENOMEM : poller->kind->add(poller, fd, tag);
}

int wefti_poller_arm(struct wefti_poller *poller, int fd, void *tag, uint32_t what, bool again) {
    return wefti_fault_here() ? -ENOMEM : poller->kind->arm(poller, fd, tag, what, again);
}

void wefti_poller_remove(struct wefti_poller *poller, int fd) { poller->kind->remove(poller, fd); }

int wefti_poller_wait(struct wefti_poller *poller, struct wefti_poll_event *events, int64_t until) {
    return poller->kind->wait(poller, events, until);
}

bool wefti_poller_has_ops(const struct wefti_poller *poller) { return poller->kind->begin != NULL; }

bool wefti_poller_begin(struct wefti_poller *poller, const struct wefti_poll_op *op, void *tag) {
    return poller->kind->begin && !wefti_fault_here() && poller->kind->begin(poller, op, tag);
}

bool wefti_poller_cancel(struct wefti_poller *poller, void *tag) { return poller->kind->cancel(poller, tag); }

void wefti_poke(int poke) {
    uint64_t one = 1;
    while (syscall(SYS_write, poke, &one, sizeof one) < 0 && errno == EINTR) /* no cancellation point */
        ;
}

static int fds_sleep(const struct wefti_fd_wish *wishes, unsigned count, int poke, int64_t until) {
    struct pollfd set[WEFTI_WISHES_MAX + 1];
    count = count < WEFTI_WISHES_MAX ? count : WEFTI_WISHES_MAX;
    for (unsigned i = 0; i < count; i++) {
        set[i] = (struct pollfd){.fd = wishes[i].fd};
        set[i].events |= wishes[i].what & WEFTI_READABLE ? POLLIN | POLLRDHUP : 0;
        set[i].events |= wishes[i].what & WEFTI_WRITABLE ? POLLOUT : 0;
    }
    set[count] = (struct pollfd){.fd = poke, .events = POLLIN}; /* -1 is skipped */
    for (;;) {
        int64_t left = until == INT64_MAX ? 0 : until - wefti_clock();
        left = left > 0 ? left : 0;
        struct timespec timeout = {left / 1000000000, left % 1000000000};
        int ready = ppoll(set, count + 1, until == INT64_MAX ? NULL : &timeout, NULL);
        if (ready > 0 && (ready > 1 || !set[count].revents))
            return 0;
        if (ready > 0) {
            uint64_t used;
            while (read(poke, &used, sizeof used) < 0 && errno == EINTR)
                ;
            return 1;
        }
        if (ready <= 0 && left == 0 && until != INT64_MAX)
            return -ETIMEDOUT;
        if (ready < 0 && errno != EINTR) { /* no memory, or more descriptors than are allowed by now */
            struct timespec pause = {0, 1000000};
            nanosleep(&pause, NULL);
        }
    }
}

int wefti_fds_sleep(const struct wefti_fd_wish *wishes, unsigned count, int poke, int64_t until) {
    int cancel = wefti_cancel_off(); /* the caller's record is in a list, and its stack would be gone */
    int state = fds_sleep(wishes, count, poke, until);
    wefti_cancel_on(cancel);
    return state;
}

int wefti_fd_sleep(int fd, uint32_t what, int poke, int64_t until) {
    struct wefti_fd_wish one = {fd, what};
    return wefti_fds_sleep(&one, 1, poke, until);
}

int wefti_fd_state(int fd, uint32_t what) {
    struct pollfd one = {.fd = fd};
    one.events |= what & WEFTI_READABLE ? POLLIN : 0;
    one.events |= what & WEFTI_WRITABLE ? POLLOUT : 0;
    int cancel = wefti_self() ? 0 : wefti_cancel_off(); /* of a plain thread: as in wefti_fds_sleep */
    int count = poll(&one, 1, 0);
    if (!wefti_self())
        wefti_cancel_on(cancel);
    if (count <= 0)
        return 0;
    int ready = one.revents & (POLLERR | POLLHUP | POLLNVAL) ? (int)what : 0;
    ready |= one.revents & POLLIN ? WEFTI_READABLE : 0;
    ready |= one.revents & POLLOUT ? WEFTI_WRITABLE : 0;
    return ready;
}

#ifndef WEFTI_DIRECT_CALLS
ssize_t wefti_recv(int fd, void *bytes, size_t size) {
#if defined(WEFTI_CHECKED_CALLS) || !defined(SYS_recvfrom)
    ssize_t result = recv(fd, bytes, size, 0);
#else
    ssize_t result = syscall(SYS_recvfrom, fd, bytes, size, 0, NULL, NULL);
#endif
    return result < 0 ? -errno : result;
}

ssize_t wefti_send(int fd, const void *bytes, size_t size) {
#if defined(WEFTI_CHECKED_CALLS) || !defined(SYS_sendto)
    ssize_t result = send(fd, bytes, size, MSG_NOSIGNAL);
#else
    ssize_t result = syscall(SYS_sendto, fd, bytes, size, MSG_NOSIGNAL, NULL, 0);
#endif
    return result < 0 ? -errno : result;
}
#else
_Static_assert(SYS_recvfrom == 45 && SYS_sendto == 44 && MSG_NOSIGNAL == 0x4000, "transfer.h");
#endif

/* A pipe without a reader raises SIGPIPE, and unlike a socket has no flag against it: hold the signal back, and take away the one that
 * we caused.  A process that ignores the signal, as servers do, pays two system calls more; pipes are not where that matters. */
struct quiet {
    sigset_t pipe_only, before;
    bool was_pending;
};

static void quiet_begin(struct quiet *quiet) {
    sigset_t pending;
    sigemptyset(&quiet->pipe_only);
    sigaddset(&quiet->pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &quiet->pipe_only, &quiet->before);
    /* One that was held back already may be there; one that was not would have come. */
    quiet->was_pending =
        sigismember(&quiet->before, SIGPIPE) && sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE);
}

static ssize_t quiet_end(struct quiet *quiet, ssize_t result) {
    int error = errno;
    if (result < 0 && error == EPIPE && !quiet->was_pending) {
        struct timespec now = {0, 0};
        while (sigtimedwait(&quiet->pipe_only, NULL, &now) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
    errno = error;
    return result;
}

ssize_t wefti_write_quietly(int fd, const void *bytes, size_t size) {
    struct quiet quiet;
    quiet_begin(&quiet);
    return quiet_end(&quiet, write(fd, bytes, size));
}

ssize_t wefti_writev_quietly(int fd, const struct iovec *parts, int count) {
    struct quiet quiet;
    quiet_begin(&quiet);
    return quiet_end(&quiet, writev(fd, parts, count));
}

ssize_t wefti_sendfile_quietly(int fd, int file, off_t *offset, size_t size) {
    struct quiet quiet;
    quiet_begin(&quiet);
    return quiet_end(&quiet, sendfile(fd, file, offset, size));
}

ssize_t wefti_readv_now(int fd, const struct iovec *parts, int count, int64_t at) {
#ifdef RWF_NOWAIT
    ssize_t n = preadv2(fd, parts, count, at, RWF_NOWAIT);
    return n >= 0 ? n : errno == ENOSYS ? -EOPNOTSUPP : -errno;
#else
    (void)fd, (void)parts, (void)count, (void)at;
    return -EOPNOTSUPP;
#endif
}

/* cachestat, since Linux 6.5: how many pages of a range are in the page cache. Numbers from <linux/mman.h>, which older systems lack. */
static int cached_pages(int fd, int64_t at, size_t size, uint64_t *pages) {
    struct {
        uint64_t at, size;
    } range = {(uint64_t)at, size};
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } found;
    long error = syscall(451 /* SYS_cachestat */, fd, &range, &found, 0);
    *pages = found.cached;
    return error ? -errno : 0;
}

/* A page under readahead is in the page cache before its bytes are: so the last byte, whose page was asked for last, must be readable too. */
bool wefti_file_is_cached(int fd, int64_t at, size_t size) {
    char bytes[4096];
    struct iovec parts[64];
    uint64_t pages, page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (cached_pages(fd, at, size, &pages) == 0) {
        parts[0] = (struct iovec){bytes, 1};
        return pages >= ((uint64_t)at + size - 1) / page - (uint64_t)at / page + 1 &&
               wefti_readv_now(fd, parts, 1, at + (int64_t)size - 1) != -EAGAIN;
    }
    for (ssize_t n; size; at += n, size -= (size_t)n) { /* read it, without waiting */
        size_t count = 0, rest = size;
        for (; count < 64 && rest; count++, rest -= parts[count - 1].iov_len)
            parts[count] = (struct iovec){bytes, rest < sizeof bytes ? rest : sizeof bytes};
        n = wefti_readv_now(fd, parts, (int)count, at);
        if (n <= 0)
            return n != -EAGAIN;
    }
    return true;
}
