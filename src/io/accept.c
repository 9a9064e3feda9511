/* accept.c - connections that come in, also when there are no descriptors or no memory left. */
#define _GNU_SOURCE
#include "io/net.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <weft/stream.h>

/* How long an accept waits, in ns, before it tries again without descriptors or memory. */
#define PAUSE INT64_C(100000000)

static ssize_t accept_once(struct weft_io *io, void *arg) {
    weft_addr *peer = arg;
    if (io->mem) {
        struct wefti_mem *mem;
        ssize_t error = wefti_mem_accept(io->mem, &mem);
        if (!error)
            memcpy(peer->storage, &mem, sizeof mem); /* for welcome */
        return error;
    }
    peer->size = sizeof peer->storage;
    int fd = accept4(io->fd, wefti_sockaddr_of(peer), &peer->size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* Errors of one connection that was gone before we got to it: the next may be good. */
static bool is_passing(int error) {
    return error == -ECONNABORTED || error == -EPROTO || error == -EPERM || error == -ENETDOWN ||
           error == -ENOPROTOOPT || error == -EHOSTDOWN || error == -ENONET || error == -EHOSTUNREACH ||
           error == -EOPNOTSUPP || error == -ENETUNREACH;
}

/* Sleeps for PAUSE, or until the deadline if that comes earlier. */
static void pause_until(int64_t until) {
    int64_t later = weft_after(PAUSE);
    weft_sleep_until(later < until ? later : until);
}

/* Out of descriptors: one is kept for this moment, to take the waiting connection and close it. */
static _Atomic int reserve = -1;

static void keep_reserve(void) {
    if (load_relaxed(&reserve) >= 0) /* a hint */
        return;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), none = -1;
    if (fd >= 0 && !cas_relaxed(&reserve, &none, fd)) /* a number */
        close(fd);
}

/* -1; or the connection's, if there have come to be enough of them meanwhile: then it may stay. */
static int turn_away(struct weft_io *listener, weft_addr *from, int64_t until) {
    if (listener->mem) {
        wefti_mem_turn_away(listener->mem);
        return -1;
    }
    int kept = xchg_relaxed(&reserve, -1); /* a number: whose it is follows from who got it */
    if (kept >= 0)
        close(kept);
    ssize_t fd = accept_once(listener, from);
    if (fd >= 0) {
        keep_reserve();
        if (load_relaxed(&reserve) >= 0) /* a hint */
            return (int)fd;
        close((int)fd);
    } else { /* nobody is there: the system looks for a number first */
        pause_until(until);
    }
    return -1;
}

/* A descriptor that was accepted, and what the caller gets. */
static int welcome(weft_io *listener, int fd, const weft_addr *from, weft_io **out, weft_addr *peer) {
    if (listener->mem) {
        struct wefti_mem *mem;
        memcpy(&mem, from->storage, sizeof mem);
        weft_addr remote = mem->remote;
        int error = wefti_mem_adopt(mem, out);
        if (!error && peer)
            *peer = remote;
        return error;
    }
    bool tcp = wefti_family_of(from) == AF_INET || wefti_family_of(from) == AF_INET6;
    if (tcp)
        wefti_socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    int error = wefti_socket_adopt(fd, tcp, out);
    if (!error && peer)
        *peer = *from;
    return error;
}

static int accept_next(weft_io *listener, weft_io **out, weft_addr *peer, weft_deadline until) {
    weft_addr from;
    for (;;) {
        keep_reserve();
        /* Never "all there was": a listener has more until it would block. */
        /* Not by an operation of the system: that takes its number before there is a connection, if the limit then allowed one. */
        ssize_t fd = wefti_desc_call(listener, WEFTI_IN, accept_once, &from, 0, until);
        if (fd >= 0)
            return welcome(listener, (int)fd, &from, out, peer);
        if (fd == -EMFILE || fd == -ENFILE) {
            if (wefti_desc_enter(listener))
                return -EBADF;
            int found = turn_away(listener, &from, until);
            wefti_desc_leave(listener);
            if (found >= 0)
                return welcome(listener, found, &from, out, peer);
            if (until != WEFT_NEVER && weft_now() >= until)
                return -ETIMEDOUT;
        } else if (!is_passing((int)fd)) {
            return (int)fd;
        }
    }
}

/* Lack of memory, ours or the kernel's, passes. A server that stopped accepting because of it would be down for good, so the
 * call tries again until its deadline. */
int weft_accept(weft_io *listener, weft_io **out, weft_addr *peer, weft_deadline until) {
    weft_stream_call call = {.until = until};
    if (!listener || !out)
        return -EINVAL;
    for (;;) {
        int error =
            listener->layer ? wefti_layer_accept(listener, &call, out, peer) : accept_next(listener, out, peer, until);
        if ((error != -ENOMEM && error != -ENOBUFS) || (until != WEFT_NEVER && weft_now() >= until))
            return error;
        pause_until(until);
    }
}

int weft_accept_poll(weft_io *listener, weft_task *self, weft_wait *wait, weft_io **out, weft_addr *peer) {
    weft_addr from;
    weft_stream_call call = {.self = self, .wait = wait};
    if (!listener || !out)
        return -EINVAL;
    if (listener->layer)
        return wefti_layer_accept(listener, &call, out, peer);
    for (;;) {
        keep_reserve();
        ssize_t fd = wefti_desc_poll(listener, self, wait, WEFTI_IN, accept_once, &from, 0);
        if (fd >= 0)
            return welcome(listener, (int)fd, &from, out, peer);
        if (!is_passing((int)fd))
            return (int)fd;
    }
}
