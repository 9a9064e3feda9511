/* datagram.c - UDP sockets. */
#define _GNU_SOURCE
#include "io/net.h"

#include <netinet/in.h>
#include <string.h>

int weft_udp_open(const weft_addr *addr, int family, weft_io **out) {
    if (!out)
        return -EINVAL;
    struct wefti_net *net = wefti_net_here();
    if (net) {
        weft_addr any;
        int error = weft_addr_parse(family == AF_INET6 ? "::" : "0.0.0.0", 0, &any);
        return error ? error : wefti_mem_bound(net, WEFTI_MEM_DATAGRAM, addr ? addr : &any, 0, out);
    }
    int fd = wefti_socket_open(addr ? wefti_family_of(addr) : family, SOCK_DGRAM);
    if (fd < 0)
        return fd;
    if (addr && bind(fd, wefti_sockaddr_of(addr), addr->size)) {
        int error = -errno;
        close(fd);
        return error;
    }
    return wefti_socket_adopt(fd, false, out);
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
    ssize_t n = sendto(io->fd, d->bytes, d->size, MSG_NOSIGNAL, d->addr ? wefti_sockaddr_of(d->addr) : NULL,
                       d->addr ? d->addr->size : 0);
    return n < 0 ? -errno : n;
}

static ssize_t recv_once(struct weft_io *io, void *arg) {
    struct datagram *d = arg;
    if (io->mem)
        return wefti_mem_recv_from(io->mem, d->bytes, d->size, d->addr);
    weft_addr from = {.size = sizeof from.storage};
    ssize_t n = recvfrom(io->fd, d->bytes, d->size, 0, wefti_sockaddr_of(&from), &from.size);
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
