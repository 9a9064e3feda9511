/* net.h - sockets: what listening, accepting, connecting and datagrams share.  Internal. */
#ifndef WEFTI_IO_NET_H
#define WEFTI_IO_NET_H

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/net.h>

#include "io/mem.h"

_Static_assert(sizeof(struct sockaddr_storage) <= sizeof(((weft_addr *)NULL)->storage), "any address");

static inline struct sockaddr *wefti_sockaddr_of(const weft_addr *addr) {
    return (struct sockaddr *)(uintptr_t)addr->storage;
}
static inline int wefti_family_of(const weft_addr *addr) { return wefti_sockaddr_of(addr)->sa_family; }

static inline int wefti_socket_open(int family, int type) {
    int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -errno : fd;
}

static inline void wefti_socket_set(int fd, int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value); /* wishes: a socket that has no such option is as good */
}

/* The descriptor becomes a weft_io, or is closed.  `stream`: of TCP. */
static inline int wefti_socket_adopt(int fd, bool stream, weft_io **out) {
    int error = wefti_desc_new(fd, WEFTI_SOCKET | (stream ? WEFTI_STREAM : 0), out);
    if (error)
        close(fd);
    return error;
}

/* A socket of that kind in memory, with that address. */
static inline int wefti_mem_bound(struct wefti_net *net, int kind, const weft_addr *addr, int backlog, weft_io **out) {
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

#endif
