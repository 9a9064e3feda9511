/* net.c - sockets: listening, connecting, options. */
#define _GNU_SOURCE
#include "io/net.h"
#include "fiber/slice.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "sched/spawn.h"

#define BACKLOG 1024
#define CONNECT_PAUSE INT64_C(1000000) /* ns, between two looks at a Unix socket whose queue is full */
#define CONNECT_MEM INT64_C(1000000000)

/* -- Listening ---------------------------------------------------------------------------------------------- */

int weft_listen(const weft_addr *addr, const weft_listen_options *given, weft_io **out) {
    weft_listen_options options = WEFT_LISTEN_INIT;
    if (!addr || !out)
        return -EINVAL;
    int error = given ? wefti_known_struct(given, offsetof(weft_listen_options, backlog), &options, sizeof options) : 0;
    if (error)
        return error;
    struct wefti_net *net = wefti_net_here();
    if (net)
        return wefti_mem_bound(net, WEFTI_MEM_LISTENER, addr, options.backlog > 0 ? options.backlog : BACKLOG, out);
    int family = wefti_family_of(addr), fd = wefti_socket_open(family, SOCK_STREAM);
    if (fd < 0)
        return fd;
    if (family != AF_UNIX)
        wefti_socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (options.reuse_port)
        wefti_socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (family == AF_INET6)
        wefti_socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, options.v6_only);
    if (bind(fd, wefti_sockaddr_of(addr), addr->size) || listen(fd, options.backlog > 0 ? options.backlog : BACKLOG)) {
        error = -errno;
        close(fd);
        return error;
    }
    return wefti_socket_adopt(fd, false, out);
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

/* -- Connecting ---------------------------------------------------------------------------------------------- */

/* The second call tells how the first went, and cannot be misled by an event that meant an earlier owner of this weft_io. */
static ssize_t connect_once(struct weft_io *io, void *arg) {
    const weft_addr *addr = arg;
    if (!connect(io->fd, wefti_sockaddr_of(addr), addr->size) || errno == EISCONN)
        return 0;
    return errno == EINPROGRESS || errno == EALREADY ? -EAGAIN : errno == EAGAIN ? -EBUSY : -errno;
}

static int open_for(const weft_addr *addr, weft_io **io) {
    bool local = wefti_family_of(addr) == AF_UNIX;
    int fd = wefti_socket_open(wefti_family_of(addr), SOCK_STREAM);
    if (fd < 0)
        return fd;
    if (!local)
        wefti_socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    return wefti_socket_adopt(fd, !local, io);
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
    wefti_slice_use_heavy(until);
    if (!addr || !out)
        return -EINVAL;
    if (wefti_net_here())
        return wefti_mem_connect(addr, out, until);
    bool local = wefti_family_of(addr) == AF_UNIX;
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
