/* weft/net.h - sockets: listen, accept, connect.  Everything else is <weft/io.h>.
 *
 *     weft_io *server, *client;
 *     weft_tcp_listen("127.0.0.1", 8080, NULL, &server);
 *     while (weft_accept(server, &client, NULL, WEFT_NEVER) == 0)
 *         weft_fiber_go(NULL, serve, client, NULL);
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <weft/io.h>

WEFT_EXTERN_C_BEGIN

/* An address of any family: `size` bytes of a struct sockaddr_in, sockaddr_in6 or sockaddr_un. */
typedef struct weft_addr {
    uint32_t size;
    uint32_t reserved;
    uint64_t storage[16];
} weft_addr;

/* Reads a numeric address and a port, or with port -1 the path of a Unix socket ("@name" is an abstract one). An IPv6 address may have a
 * zone, which is the name or the number of an interface: "fe80::1%eth0".
 *
 * Returns 0, or
 *   -EINVAL        no address, no such interface, or no such port
 *   -ENAMETOOLONG  the path is longer than a Unix socket's may be
 * May be called from any thread. Does not suspend. */
WEFT_API int weft_addr_parse(const char *text, int port, weft_addr *out);
/* To text: "127.0.0.1:80", "[::1]:80" or a path.  Returns the length it has (as snprintf). */
WEFT_API int weft_addr_format(const weft_addr *addr, char *text, size_t room);

typedef struct weft_listen_options {
    size_t size; /* sizeof(weft_listen_options): set by WEFT_LISTEN_INIT */
    int backlog; /* 0 = 1,024 */
    bool reuse_port; /* several sockets may listen on the port; the kernel spreads connections */
    bool v6_only;
} weft_listen_options;
#define WEFT_LISTEN_INIT {sizeof(weft_listen_options), 0, false, false}

/* Listen on an address.  options may be NULL.  Returns 0; -EADDRINUSE, -EACCES, -EMFILE, ... */
WEFT_API WEFT_MUST_USE int weft_listen(const weft_addr *addr, const weft_listen_options *options, weft_io **out);
/* The short forms.  `host` is a numeric address, no name (-EINVAL); NULL = every address, of IPv4 too where the system has both (a peer of IPv4
 * then is "[::ffff:192.0.2.1]:80").  Port 0 = one that is free (weft_local_addr tells).  The file of a Unix socket stays when the listener is closed:
 * remove it, or the next one gets -EADDRINUSE; an abstract one ("@name") leaves none. */
WEFT_API WEFT_MUST_USE int weft_tcp_listen(const char *host, int port, const weft_listen_options *options,
                                           weft_io **out);
WEFT_API WEFT_MUST_USE int weft_unix_listen(const char *path, weft_io **out);

/* Take a connection; TCP connections come with TCP_NODELAY set.  `peer` may be NULL.
 * When the process is out of descriptors, waiting connections are turned away one by one (the peer sees a close), so that a full process does not
 * spin; it goes on when there are descriptors again. When the kernel or the process is out of memory, the call tries again every 100 ms.
 *
 * Returns 0, or
 *   -EINVAL     no listener, or no place for the result
 *   -ETIMEDOUT  no connection until the deadline
 *   -ENOMEM     no memory until the deadline
 *   -ENOBUFS    no memory in the kernel until the deadline
 *   -ECANCELED  the fiber was cancelled
 *   -EBADF      the listener was closed
 * May be called from a fiber or a plain thread. May suspend. */
WEFT_API WEFT_MUST_USE int weft_accept(weft_io *listener, weft_io **out, weft_addr *peer, weft_deadline until);
/* In a poll task: once, and -EAGAIN as weft_read_poll; -EMFILE, -ENFILE, -ENOMEM, -ENOBUFS: try again later. */
WEFT_API WEFT_MUST_USE int weft_accept_poll(weft_io *listener, weft_task *self, weft_wait *wait, weft_io **out,
                                            weft_addr *peer);

/* Connect.  Returns 0; -ECONNREFUSED, -ETIMEDOUT, -ECANCELED, ... */
WEFT_API WEFT_MUST_USE int weft_connect(const weft_addr *addr, weft_io **out, weft_deadline until);
/* By name or numeric address; a name with several addresses as <weft/dns.h> says.  -EINVAL also for a bad port; -ENOENT, -EAGAIN, ...: as weft_resolve. */
WEFT_API WEFT_MUST_USE int weft_tcp_connect(const char *host, int port, weft_io **out, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_unix_connect(const char *path, weft_io **out, weft_deadline until);

/* A datagram socket: of UDP, or with AF_UNIX or a path a Unix one.  It is bound to `addr`, or with NULL to none of its own of that family.
 * Returns 0; -EAFNOSUPPORT (no such family); errors as weft_listen.
 * One call is one datagram.  A received one that is longer than `size` is cut, and the rest lost; 0 is an empty one, no end; `from` may be NULL, and so may `to`
 * of a socket that was connected (connect(2) on weft_io_fd; then a port at which nobody listens is -ECONNREFUSED of a later call, and weft_read and
 * weft_write do as well).  Broadcast and multicast are options of weft_io_fd.  Returns the bytes sent or received; -EMSGSIZE (too large to send);
 * -EDESTADDRREQ (no `to`); errors as weft_read and weft_write. */
WEFT_API WEFT_MUST_USE int weft_udp_open(const weft_addr *addr, int family, weft_io **out);
WEFT_API ssize_t weft_send_to(weft_io *io, const void *bytes, size_t size, const weft_addr *to, weft_deadline until);
WEFT_API ssize_t weft_recv_from(weft_io *io, void *buffer, size_t size, weft_addr *from, weft_deadline until);

WEFT_API int weft_local_addr(const weft_io *io, weft_addr *out);
WEFT_API int weft_peer_addr(const weft_io *io, weft_addr *out);
/* Of a Unix socket's peer, when it connected; each may be NULL.  Returns 0; -EOPNOTSUPP (of another family); a negative error. */
WEFT_API int weft_peer_credentials(const weft_io *io, pid_t *pid, uid_t *uid, gid_t *gid);

/* -- Passing descriptors ------------------------------------------------------------------------------- */

/* Write all of `bytes`, at least one, over a Unix socket, and with the first of them up to 253 descriptors, of which the peer gets copies; ours stay
 * open.  Returns `size`; -EINVAL (no bytes, too many); -EOPNOTSUPP (no Unix socket of the system's); -EBADF (also: one of them is none);
 * -ETOOMANYREFS; errors as weft_write.  Of a failure the peer may have got them. */
WEFT_API ssize_t weft_send_fds(weft_io *io, const void *bytes, size_t size, const int *fds, unsigned count,
                               weft_deadline until);
/* Read as weft_read, and take what came with these bytes: *count is how many `fds` has room for, and then how many came; what has no room, or could not
 * be opened, is closed, and *count larger than the room; places for which none could be opened are then -1.  They are close-on-exec, and the caller's (weft_io_open).  A weft_read of the same bytes drops
 * them.  Returns as weft_read; -EINVAL (size 0); -EOPNOTSUPP. */
WEFT_API ssize_t weft_recv_fds(weft_io *io, void *buffer, size_t size, int *fds, unsigned *count, weft_deadline until);

/* -- Options ------------------------------------------------------------------------------------------- */

/* Send small writes at once (TCP; on unless turned off). */
WEFT_API int weft_tcp_nodelay(weft_io *io, bool on);
/* Ask a silent peer whether it is there: first after `idle` seconds, then every `every`, `tries` times; idle 0: never.
 * A peer that is gone ends all calls with -ETIMEDOUT.  Returns 0; -EINVAL (negative, or not what the system allows); a negative error. */
WEFT_API int weft_tcp_keepalive(weft_io *io, int idle, int every, int tries);
/* How long data that was written may stay unacknowledged, in milliseconds, before the connection is given up; 0: the system's. */
WEFT_API int weft_tcp_user_timeout(weft_io *io, unsigned ms);
/* Bytes that the system buffers in each direction; 0 leaves it. */
WEFT_API int weft_socket_buffers(weft_io *io, int send, int receive);
/* Closing it resets the connection instead of ending it in order. */
WEFT_API int weft_socket_reset_on_close(weft_io *io, bool on);

WEFT_EXTERN_C_END
#endif
