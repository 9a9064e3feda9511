/* addr.c - addresses of sockets: as text, of either end, and who is there. */
#define _GNU_SOURCE
#include "io/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

/* "fe80::1%eth0" or "fe80::1%2": an IPv6 address with its zone, an interface by name or number (RFC 4007). */
static bool parse_scoped(const char *text, struct sockaddr_in6 *out) {
    char host[INET6_ADDRSTRLEN], *end;
    const char *zone = strchr(text, '%');
    size_t size = zone ? (size_t)(zone - text) : 0;
    if (!zone || size >= sizeof host || !zone[1])
        return false;
    memcpy(host, text, size);
    host[size] = 0;
    if (inet_pton(AF_INET6, host, &out->sin6_addr) != 1)
        return false;
    out->sin6_scope_id = if_nametoindex(zone + 1);
    if (!out->sin6_scope_id && zone[1] >= '1' && zone[1] <= '9') {
        errno = 0;
        unsigned long number = strtoul(zone + 1, &end, 10);
        if (!*end && !errno && number <= UINT32_MAX)
            out->sin6_scope_id = (uint32_t)number;
    }
    return out->sin6_scope_id != 0;
}

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
    } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1 || parse_scoped(text, v6)) {
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
    switch (wefti_family_of(addr)) {
    case AF_INET:
        return snprintf(text, room, "%s:%u", inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host), ntohs(v4->sin_port));
    case AF_INET6: {
        char zone[IF_NAMESIZE + 1] = "%";
        if (!v6->sin6_scope_id)
            zone[0] = 0;
        else if (!if_indextoname(v6->sin6_scope_id, zone + 1))
            snprintf(zone + 1, sizeof zone - 1, "%u", v6->sin6_scope_id); /* the interface is gone */
        return snprintf(text, room, "[%s%s]:%u", inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host), zone,
                        ntohs(v6->sin6_port));
    }
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
    if (getsockname(io->fd, wefti_sockaddr_of(&addr), &addr.size))
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
    if (getpeername(io->fd, wefti_sockaddr_of(&addr), &addr.size))
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
    if (wefti_family_of(&local) == AF_INET ||
        wefti_family_of(&local) == AF_INET6) /* the system would say yes: it is nobody */
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
