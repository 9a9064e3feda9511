/* lookup.c - one lookup: from the question to addresses in our own shape. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cares/cares.h"

static int error_of(int status) {
    switch (status) {
    case ARES_ENODATA:
    case ARES_ENOTFOUND:
    case ARES_EBADNAME: return -ENOENT;
    case ARES_ETIMEOUT:
    case ARES_ECONNREFUSED: /* also what c-ares says when all servers have failed or refused */
    case ARES_ESERVFAIL:
    case ARES_EREFUSED: return -EAGAIN;
    case ARES_ENOMEM: return -ENOMEM;
    case ARES_ESERVICE:
    case ARES_EBADFLAGS: return -EINVAL;
    case ARES_EBADFAMILY: return -EAFNOSUPPORT;
    case ARES_ECANCELLED:
    case ARES_EDESTRUCTION: return -ECANCELED;
    default: return -EIO;
    }
}

static int copy(const struct ares_addrinfo *found, weft_addr *addrs) {
    unsigned count = 0;
    for (const struct ares_addrinfo_node *at = found->nodes; at && count < WEFTI_CARES_ADDRS; at = at->ai_next) {
        weft_addr *addr = &addrs[count];
        if (at->ai_addrlen > sizeof addr->storage || (at->ai_family != AF_INET && at->ai_family != AF_INET6))
            continue;
        addr->size = at->ai_addrlen;
        memcpy(addr->storage, at->ai_addr, at->ai_addrlen);
        count++;
    }
    return count ? (int)count : -ENOENT;
}

/* A callback of c-ares. */
static void answered(void *arg, int status, int timeouts, struct ares_addrinfo *found) {
    struct wefti_cares_lookup *lookup = arg;
    (void)timeouts;
    int result = status == ARES_SUCCESS ? copy(found, lookup->addrs) : error_of(status);
    if (found)
        ares_freeaddrinfo(found);
    lookup->cares->asked--;
    wefti_cares_done(lookup, result);
}

void wefti_cares_start(struct wefti_cares_lookup *lookup) {
    struct ares_addrinfo_hints hints = {.ai_family = lookup->family, .ai_socktype = SOCK_STREAM};
    ares_getaddrinfo(lookup->cares->channel, lookup->name, lookup->service, &hints, answered, lookup);
}

void wefti_cares_unref(struct wefti_cares_lookup *lookup) {
    struct weft_cares *cares = lookup->cares;
    pthread_mutex_lock(&cares->lock);
    bool last = --lookup->refs == 0;
    pthread_mutex_unlock(&cares->lock);
    if (!last)
        return;
    weft_event_destroy(&lookup->changed);
    free(lookup);
}

/* What the name is, if it is an address in figures: c-ares 1.18 would ask a server for one whose family is open.  0: it is none. */
static int numeric_family(const char *name) {
    weft_addr addr;
    return weft_addr_parse(name, 0, &addr) ? 0 : addr.size == sizeof(struct sockaddr_in) ? AF_INET : AF_INET6;
}

static int check(const char *name, const char *service, int family, const weft_addr *addrs, size_t room) {
    weft_task *self = weft_task_self();
    if (!name || !*name || !addrs || !room || (self && !weft_in_fiber()))
        return -EINVAL;
    if (self && weft_task_is_cancelled(self))
        return -ECANCELED;
    if (family != AF_UNSPEC && family != AF_INET && family != AF_INET6)
        return -EAFNOSUPPORT;
    return strlen(name) >= WEFTI_CARES_NAME || (service && strlen(service) >= WEFTI_CARES_SERVICE) ? -ENAMETOOLONG : 0;
}

int weft_cares_resolve(weft_cares *cares, const char *name, const char *service, int family, weft_addr *addrs,
                       size_t room, weft_deadline until) {
    int error = cares ? check(name, service, family, addrs, room) : -EINVAL;
    if (error)
        return error;
    int numeric = numeric_family(name);
    if (numeric && family != AF_UNSPEC && family != numeric)
        return -ENOENT;
    struct wefti_cares_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return -ENOMEM;
    lookup->cares = wefti_cares_ref(cares);
    lookup->refs = 2;
    lookup->family = numeric ? numeric : family;
    snprintf(lookup->name, sizeof lookup->name, "%s", name);
    snprintf(lookup->service_text, sizeof lookup->service_text, "%s", service ? service : "");
    lookup->service = service ? lookup->service_text : NULL;
    error = wefti_cares_run(lookup, until);
    int result = error ? error : lookup->result;
    if (result > 0) {
        result = (size_t)result < room ? result : (int)room;
        memcpy(addrs, lookup->addrs, (size_t)result * sizeof *addrs);
    }
    wefti_cares_unref(lookup);
    weft_cares_free(cares);
    return result;
}
