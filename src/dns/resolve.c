/* resolve.c - looking up names, in jobs that may outlive their callers.
 *
 * getaddrinfo cannot be stopped, and may take half a minute.  So a job has memory of its own, with a copy of the question; the caller and the
 * job have a reference each, and who is last frees it. */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/blocking.h>

#include "base/atomic.h"
#include "budget/cap.h"
#include "dns/dns.h"
#include "fiber/slice.h"
#include "plat/plat.h"
#include "queue/lock.h"
#include "task/account.h"

#define THREADS_MAX 64 /* names that nobody answers for may take as many, before others have to wait */
#define LATE_MAX 16
#define NAME_MAX_SIZE 1026 /* NI_MAXHOST, and a byte */
#define SERVICE_SIZE 64

struct lookup {
    _Atomic uint32_t refs;
    int family;
    int result; /* how many addresses, or a negative error */
    bool has_service;
    char name[NAME_MAX_SIZE], service[SERVICE_SIZE];
    weft_addr addrs[WEFTI_ADDRS_MAX];
};

/* -- The pool -------------------------------------------------------------------------------------------------- */

static struct {
    struct wefti_lock lock;
    weft_pool *pool[2]; /* made at first use, and never ended: a lookup may hang for ever */
} names;

weft_pool *wefti_names_pool(bool late) {
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    config.name = late ? "dns-late" : "dns";
    config.threads_min = 1;
    config.threads_max = late ? LATE_MAX : THREADS_MAX;
    wefti_lock_take(&names.lock);
    if (!names.pool[late] && weft_pool_create(&config, &names.pool[late]))
        names.pool[late] = NULL;
    weft_pool *pool = names.pool[late];
    wefti_lock_give(&names.lock);
    return pool;
}

/* -- The job --------------------------------------------------------------------------------------------------- */

static int error_of(int code) {
    switch (code) {
    case EAI_NONAME:
#ifdef EAI_NODATA
    case EAI_NODATA:
#endif
#ifdef EAI_ADDRFAMILY
    case EAI_ADDRFAMILY:
#endif
        return -ENOENT;
    case EAI_AGAIN: return -EAGAIN;
    case EAI_MEMORY: return -ENOMEM;
    case EAI_FAMILY: return -EAFNOSUPPORT;
    case EAI_SERVICE:
    case EAI_SOCKTYPE: return -EINVAL;
    case EAI_SYSTEM: return errno ? -errno : -EIO;
    default: return -EIO;
    }
}

/* On a thread: a fiber's stack may be too small for what libc loads. */
static int ask(const char *name, const char *service, int family, int flags, weft_addr *addrs) {
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found = NULL;
    int code = getaddrinfo(name, service, &hints, &found), count = 0;
    if (code)
        return error_of(code);
    for (struct addrinfo *at = found; at && count < WEFTI_ADDRS_MAX; at = at->ai_next) {
        weft_addr *addr = &addrs[count];
        if (at->ai_addrlen > sizeof addr->storage || (at->ai_family != AF_INET && at->ai_family != AF_INET6))
            continue;
        addr->size = at->ai_addrlen;
        memcpy(addr->storage, at->ai_addr, at->ai_addrlen);
        count++;
    }
    freeaddrinfo(found);
    return count ? count : -ENOENT;
}

int wefti_lookup(const char *name, const char *service, int family, weft_addr addrs[WEFTI_ADDRS_MAX]) {
    int result = ask(name, service, family, AI_ADDRCONFIG, addrs);
    /* A machine with no network but its own has names too. */
    return result == -ENOENT ? ask(name, service, family, 0, addrs) : result;
}

static int lookup_job(void *arg) {
    struct lookup *lookup = arg;
    lookup->result =
        wefti_lookup(lookup->name, lookup->has_service ? lookup->service : NULL, lookup->family, lookup->addrs);
    return 0;
}

static void unref(void *arg) {
    struct lookup *lookup = arg;
    if (sub_acq_rel(&lookup->refs, 1) == 1) /* the last one sees all that the other did */
        wefti_free(lookup, sizeof *lookup);
}

/* -- The call -------------------------------------------------------------------------------------------------- */

static int look_up(struct lookup *lookup, weft_deadline until) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.cap = &wefti_cap_library;
    spec.fn = lookup_job;
    spec.arg = lookup;
    spec.drop = unref;
    spec.name = "look up a name";
    spec.pool = wefti_names_pool(false);
    spec.abandon = true;
    int error = spec.pool ? wefti_charge_syscall_call() : wefti_is_forked() ? -ENOTRECOVERABLE : -ENOMEM;
    if (error) {
        unref(lookup);
        return error;
    }
    error = weft_blocking_call(&spec, NULL, until);
    if (error == -EINVAL || error == -E2BIG || error == -ENOMEM || error == -EAGAIN || error == -ESHUTDOWN ||
        error == -ENOTRECOVERABLE)
        unref(lookup); /* it was not accepted */
    return error ? error : lookup->result;
}

static int copy_out(const struct lookup *lookup, int result, weft_addr *addrs, size_t room) {
    if (result > 0) {
        result = (size_t)result < room ? result : (int)room;
        memcpy(addrs, lookup->addrs, (size_t)result * sizeof *addrs);
    }
    return result;
}

/* An address and a port in figures need nobody to be asked.  1; 0: they are not; a negative error. */
static int numeric(const char *name, const char *service, int family, weft_addr *addr) {
    weft_addr found;
    long port = 0;
    for (const char *at = service ? service : ""; *at; at++) {
        if (*at < '0' || *at > '9')
            return 0;
        port = port < 100000 ? port * 10 + (*at - '0') : port;
    }
    if (weft_addr_parse(name, 0, &found))
        return 0;
    if (port > 65535 || weft_addr_parse(name, (int)port, &found))
        return -EINVAL;
    bool v4 = found.size == sizeof(struct sockaddr_in);
    if ((family == AF_INET && !v4) || (family == AF_INET6 && v4))
        return -ENOENT;
    *addr = found;
    return 1;
}

int weft_resolve(const char *name, const char *service, int family, weft_addr *addrs, size_t room,
                 weft_deadline until) {
    wefti_slice_use_heavy(until);
    if (!name || !*name || !addrs || !room)
        return -EINVAL;
    if (family != AF_UNSPEC && family != AF_INET && family != AF_INET6)
        return -EAFNOSUPPORT;
    if (strlen(name) >= NAME_MAX_SIZE || (service && strlen(service) >= SERVICE_SIZE))
        return -ENAMETOOLONG;
    int result = numeric(name, service, family, addrs);
    if (result || wefti_resolver_ask(name, service, family, addrs, room, until, &result))
        return result;
    struct lookup *lookup = wefti_alloc(sizeof *lookup);
    if (!lookup)
        return -ENOMEM;
    store_relaxed(&lookup->refs, 2); /* published with the job */
    lookup->family = family;
    lookup->has_service = service != NULL;
    snprintf(lookup->name, sizeof lookup->name, "%s", name);
    snprintf(lookup->service, sizeof lookup->service, "%s", service ? service : "");
    result = copy_out(lookup, look_up(lookup, until), addrs, room);
    unref(lookup);
    return result;
}
