/* net.c - sockets: addresses, listen, accept, connect, datagrams. */
#define _GNU_SOURCE
#include <weft/net.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <weft/stream.h>

#include "io/mem.h"
#include "sched/spawn.h"

#define BACKLOG 1024
#define CONNECT_PAUSE INT64_C(1000000) /* ns, between two looks at a Unix socket whose queue is full */
#define CONNECT_MEM INT64_C(1000000000)
#define PAUSE INT64_C(100000000) /* ns, when there are no descriptors and nothing can be done about it */

/* -- Addresses ---------------------------------------------------------------------------------------------- */

_Static_assert(sizeof(struct sockaddr_storage) <= sizeof(((weft_addr *)NULL)->storage), "any address");

static struct sockaddr *sockaddr_of(const weft_addr *addr) { return (struct sockaddr *)(uintptr_t)addr->storage; }
static int family_of(const weft_addr *addr) { return sockaddr_of(addr)->sa_family; }

int weft_addr_parse(const char *text, int port, weft_addr *out) {
    weft_addr addr = {.size = 0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&addr.storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&addr.storage;
    struct sockaddr_un *local = (struct sockaddr_un *)(void *)&addr.storage;
    if (!text || !out || port < -1 || port > 65535)
        return -EINVAL;
    if (port == -1) {
        size_t size = strlen(text);
        if (size == 0)
            return -EINVAL;
        if (size + (text[0] != '@') > sizeof local->sun_path) /* a path ends with a zero byte */
            return -ENAMETOOLONG;
        local->sun_family = AF_UNIX;
        memcpy(local->sun_path, text, size);
        addr.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + 1);
        if (text[0] == '@') { /* abstract: begins with a zero byte, and its length counts */
            local->sun_path[0] = 0;
            addr.size--;
        }
    } else if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        addr.size = sizeof *v4;
    } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        addr.size = sizeof *v6;
    } else {
        return -EINVAL;
    }
    *out = addr;
    return 0;
}

int weft_addr_format(const weft_addr *addr, char *text, size_t room) {
    if (!addr || (room && !text))
        return -EINVAL;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&addr->storage;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&addr->storage;
    const struct sockaddr_un *local = (const struct sockaddr_un *)(const void *)&addr->storage;
    char host[INET6_ADDRSTRLEN];
    switch (family_of(addr)) {
    case AF_INET:
        return snprintf(text, room, "%s:%u", inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host), ntohs(v4->sin_port));
    case AF_INET6:
        return snprintf(text, room, "[%s]:%u", inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host),
                        ntohs(v6->sin6_port));
    case AF_UNIX: {
        int size = (int)addr->size - (int)offsetof(struct sockaddr_un, sun_path);
        if (size <= 0)
            return snprintf(text, room, "unnamed");
        if (local->sun_path[0] == 0)
            return snprintf(text, room, "@%.*s", size - 1, local->sun_path + 1);
        return snprintf(text, room, "%.*s", (int)strnlen(local->sun_path, (size_t)size), local->sun_path);
    }
    default: return snprintf(text, room, "unknown");
    }
}

int weft_local_addr(const weft_io *io, weft_addr *out) {
    weft_addr addr = {.size = sizeof addr.storage};
    if (!io || !out)
        return -EINVAL;
    if (io->mem) {
        *out = io->mem->local;
        return 0;
    }
    if (getsockname(io->fd, sockaddr_of(&addr), &addr.size))
        return -errno;
    *out = addr;
    return 0;
}

int weft_peer_addr(const weft_io *io, weft_addr *out) {
    weft_addr addr = {.size = sizeof addr.storage};
    if (!io || !out)
        return -EINVAL;
    if (io->mem) {
        if (!io->mem->remote.size)
            return -ENOTCONN;
        *out = io->mem->remote;
        return 0;
    }
    if (getpeername(io->fd, sockaddr_of(&addr), &addr.size))
        return -errno;
    *out = addr;
    return 0;
}

int weft_peer_credentials(const weft_io *io, pid_t *pid, uid_t *uid, gid_t *gid) {
    struct ucred who = {getpid(), getuid(), getgid()}; /* of a socket in memory */
    socklen_t size = sizeof who;
    weft_addr local;
    int error = weft_local_addr(io, &local);
    if (error)
        return error;
    if (family_of(&local) == AF_INET || family_of(&local) == AF_INET6) /* the system would say yes: it is nobody */
        return -EOPNOTSUPP;
    if (!io->mem && getsockopt(io->fd, SOL_SOCKET, SO_PEERCRED, &who, &size))
        return -errno;
    if (pid)
        *pid = who.pid;
    if (uid)
        *uid = who.uid;
    if (gid)
        *gid = who.gid;
    return 0;
}

/* -- Opening ------------------------------------------------------------------------------------------------ */

static int open_socket(int family, int type) {
    int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -errno : fd;
}

static void set(int fd, int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value); /* wishes: a socket that has no such option is as good */
}

/* The descriptor becomes a weft_io, or is closed.  `stream`: of TCP. */
static int adopt(int fd, bool stream, weft_io **out) {
    int error = wefti_desc_new(fd, WEFTI_SOCKET | (stream ? WEFTI_STREAM : 0), out);
    if (error)
        close(fd);
    return error;
}

/* A socket of that kind in memory, with that address. */
static int mem_bound(struct wefti_net *net, int kind, const weft_addr *addr, int backlog, weft_io **out) {
    struct wefti_mem *mem = wefti_mem_new(net, kind);
    int error = mem ? wefti_net_bind(mem, addr) : -ENOMEM;
    if (!error) {
        mem->backlog = (unsigned)backlog;
        return wefti_mem_adopt(mem, out);
    }
    if (mem)
        wefti_mem_close(mem);
    return error;
}

int weft_listen(const weft_addr *addr, const weft_listen_options *given, weft_io **out) {
    weft_listen_options options = WEFT_LISTEN_INIT;
    if (!addr || !out)
        return -EINVAL;
    int error = given ? wefti_known_struct(given, offsetof(weft_listen_options, backlog), &options, sizeof options) : 0;
    if (error)
        return error;
    struct wefti_net *net = wefti_net_here();
    if (net)
        return mem_bound(net, WEFTI_MEM_LISTENER, addr, options.backlog > 0 ? options.backlog : BACKLOG, out);
    int family = family_of(addr), fd = open_socket(family, SOCK_STREAM);
    if (fd < 0)
        return fd;
    if (family != AF_UNIX)
        set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (options.reuse_port)
        set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (family == AF_INET6)
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, options.v6_only);
    if (bind(fd, sockaddr_of(addr), addr->size) || listen(fd, options.backlog > 0 ? options.backlog : BACKLOG)) {
        error = -errno;
        close(fd);
        return error;
    }
    return adopt(fd, false, out);
}

int weft_tcp_listen(const char *host, int port, const weft_listen_options *options, weft_io **out) {
    weft_addr addr;
    int error = port < 0 ? -EINVAL : weft_addr_parse(host ? host : "::", port, &addr);
    if (!error)
        error = weft_listen(&addr, options, out);
    if (!host && (error == -EAFNOSUPPORT || error == -EADDRNOTAVAIL)) { /* a system without IPv6 */
        error = weft_addr_parse("0.0.0.0", port, &addr);
        return error ? error : weft_listen(&addr, options, out);
    }
    return error;
}

int weft_unix_listen(const char *path, weft_io **out) {
    weft_addr addr;
    int error = weft_addr_parse(path, -1, &addr);
    return error ? error : weft_listen(&addr, NULL, out);
}

/* -- Accepting ---------------------------------------------------------------------------------------------- */

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
    int fd = accept4(io->fd, sockaddr_of(peer), &peer->size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* Errors of one connection that was gone before we got to it: the next may be good. */
static bool is_passing(int error) {
    return error == -ECONNABORTED || error == -EPROTO || error == -EPERM || error == -ENETDOWN ||
           error == -ENOPROTOOPT || error == -EHOSTDOWN || error == -ENONET || error == -EHOSTUNREACH ||
           error == -EOPNOTSUPP || error == -ENETUNREACH;
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
        int64_t later = weft_after(PAUSE);
        weft_sleep_until(later < until ? later : until);
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
    bool tcp = family_of(from) == AF_INET || family_of(from) == AF_INET6;
    if (tcp)
        set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    int error = adopt(fd, tcp, out);
    if (!error && peer)
        *peer = *from;
    return error;
}

int weft_accept(weft_io *listener, weft_io **out, weft_addr *peer, weft_deadline until) {
    weft_addr from;
    weft_stream_call call = {.until = until};
    if (!listener || !out)
        return -EINVAL;
    if (listener->layer)
        return wefti_layer_accept(listener, &call, out, peer);
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

/* -- Connecting ---------------------------------------------------------------------------------------------- */

/* The second call tells how the first went, and cannot be misled by an event that meant an earlier owner of this weft_io. */
static ssize_t connect_once(struct weft_io *io, void *arg) {
    const weft_addr *addr = arg;
    if (!connect(io->fd, sockaddr_of(addr), addr->size) || errno == EISCONN)
        return 0;
    return errno == EINPROGRESS || errno == EALREADY ? -EAGAIN : errno == EAGAIN ? -EBUSY : -errno;
}

static int open_for(const weft_addr *addr, weft_io **io) {
    bool local = family_of(addr) == AF_UNIX;
    int fd = open_socket(family_of(addr), SOCK_STREAM);
    if (fd < 0)
        return fd;
    if (!local)
        set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    return adopt(fd, !local, io);
}

int wefti_connect_end(weft_io *io, const weft_addr *addr) {
    weft_addr to = *addr;
    int error;
    do
        error = (int)connect_once(io, &to);
    while (error == -EINTR);
    return error == -EAGAIN ? -EINPROGRESS : error == -EBUSY ? -EAGAIN : error;
}

int wefti_connect_begin(const weft_addr *addr, weft_io **out, int64_t until) {
    weft_io *io;
    if (wefti_net_here()) { /* there is nothing that could be waited for meanwhile */
        int64_t limit = weft_after(CONNECT_MEM);
        return wefti_mem_connect(addr, out, limit < until ? limit : until);
    }
    int error = open_for(addr, &io);
    if (error)
        return error;
    error = wefti_connect_end(io, addr);
    if (error && error != -EINPROGRESS)
        weft_close(io);
    else
        *out = io;
    return error;
}

int weft_connect(const weft_addr *addr, weft_io **out, weft_deadline until) {
    if (!addr || !out)
        return -EINVAL;
    if (wefti_net_here())
        return wefti_mem_connect(addr, out, until);
    bool local = family_of(addr) == AF_UNIX;
    weft_io *io;
    int error = open_for(addr, &io);
    if (error)
        return error;
    for (;;) {
        weft_addr to = *addr;
        error = (int)wefti_desc_call(io, WEFTI_OUT, connect_once, &to, 0, until);
        if (error != -EBUSY || !local) /* EAGAIN of TCP: out of ports */
            break;
        /* A Unix socket whose listener has a full queue: nothing tells when there is room. */
        int64_t later = weft_after(CONNECT_PAUSE);
        error =
            until != WEFT_NEVER && weft_now() >= until ? -ETIMEDOUT : weft_sleep_until(later < until ? later : until);
        if (error)
            break;
    }
    if (error == -EBUSY)
        error = -EAGAIN;
    if (error)
        weft_close(io);
    else
        *out = io;
    return error;
}

int weft_unix_connect(const char *path, weft_io **out, weft_deadline until) {
    weft_addr addr;
    int error = weft_addr_parse(path, -1, &addr);
    return error ? error : weft_connect(&addr, out, until);
}

/* -- Datagrams ----------------------------------------------------------------------------------------------- */

int weft_udp_open(const weft_addr *addr, int family, weft_io **out) {
    if (!out)
        return -EINVAL;
    struct wefti_net *net = wefti_net_here();
    if (net) {
        weft_addr any;
        int error = weft_addr_parse(family == AF_INET6 ? "::" : "0.0.0.0", 0, &any);
        return error ? error : mem_bound(net, WEFTI_MEM_DATAGRAM, addr ? addr : &any, 0, out);
    }
    int fd = open_socket(addr ? family_of(addr) : family, SOCK_DGRAM);
    if (fd < 0)
        return fd;
    if (addr && bind(fd, sockaddr_of(addr), addr->size)) {
        int error = -errno;
        close(fd);
        return error;
    }
    return adopt(fd, false, out);
}

struct datagram {
    void *bytes;
    size_t size;
    weft_addr *addr;
};

static ssize_t send_once(struct weft_io *io, void *arg) {
    struct datagram *d = arg;
    if (io->mem)
        return wefti_mem_send_to(io->mem, d->bytes, d->size, d->addr);
    ssize_t n = sendto(io->fd, d->bytes, d->size, MSG_NOSIGNAL, d->addr ? sockaddr_of(d->addr) : NULL,
                       d->addr ? d->addr->size : 0);
    return n < 0 ? -errno : n;
}

static ssize_t recv_once(struct weft_io *io, void *arg) {
    struct datagram *d = arg;
    if (io->mem)
        return wefti_mem_recv_from(io->mem, d->bytes, d->size, d->addr);
    weft_addr from = {.size = sizeof from.storage};
    ssize_t n = recvfrom(io->fd, d->bytes, d->size, 0, sockaddr_of(&from), &from.size);
    if (n >= 0 && d->addr)
        *d->addr = from;
    return n < 0 ? -errno : n;
}

ssize_t weft_send_to(weft_io *io, const void *bytes, size_t size, const weft_addr *to, weft_deadline until) {
    struct datagram arg = {(void *)(uintptr_t)bytes, size, (weft_addr *)(uintptr_t)to};
    return WEFTI_LIKELY(io) ? wefti_desc_call(io, WEFTI_OUT, send_once, &arg, 0, until) : -EINVAL;
}

ssize_t weft_recv_from(weft_io *io, void *buffer, size_t size, weft_addr *from, weft_deadline until) {
    struct datagram arg = {buffer, size, from};
    return WEFTI_LIKELY(io) ? wefti_desc_call(io, WEFTI_IN, recv_once, &arg, 0, until) : -EINVAL;
}

/* -- Options -------------------------------------------------------------------------------------------------- */

static int demand(weft_io *io, int level, int option, const void *value, socklen_t size) {
    int error = io ? wefti_desc_enter(io) : -EINVAL;
    if (error)
        return error;
    if (io->mem && level == SOL_SOCKET && option == SO_LINGER)
        io->mem->reset_on_close = ((const struct linger *)value)->l_onoff;
    error = io->mem ? 0 : setsockopt(io->fd, level, option, value, size) ? -errno : 0;
    wefti_desc_leave(io);
    return error;
}

static int demand_int(weft_io *io, int level, int option, int value) {
    return demand(io, level, option, &value, sizeof value);
}

int weft_tcp_nodelay(weft_io *io, bool on) { return demand_int(io, IPPROTO_TCP, TCP_NODELAY, on); }

int weft_tcp_keepalive(weft_io *io, int idle, int every, int tries) {
    int error = idle < 0 ? -EINVAL : 0;
    if (idle > 0) {
        error = demand_int(io, IPPROTO_TCP, TCP_KEEPIDLE, idle);
        if (!error)
            error = demand_int(io, IPPROTO_TCP, TCP_KEEPINTVL, every);
        if (!error)
            error = demand_int(io, IPPROTO_TCP, TCP_KEEPCNT, tries);
    }
    return error ? error : demand_int(io, SOL_SOCKET, SO_KEEPALIVE, idle > 0);
}

int weft_tcp_user_timeout(weft_io *io, unsigned ms) {
    return demand(io, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

int weft_socket_buffers(weft_io *io, int send_bytes, int receive) {
    if (!io)
        return -EINVAL;
    int error = send_bytes > 0 ? demand_int(io, SOL_SOCKET, SO_SNDBUF, send_bytes) : 0;
    return error || receive <= 0 ? error : demand_int(io, SOL_SOCKET, SO_RCVBUF, receive);
}

int weft_socket_reset_on_close(weft_io *io, bool on) {
    struct linger linger = {.l_onoff = on, .l_linger = 0};
    return demand(io, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}
