/* weft/dns.h - names of machines, and connecting by name.
 *
 *     weft_io *io;
 *     weft_tcp_connect("example.org", 80, &io, weft_after(5000000000));
 *
 * Names are looked up with getaddrinfo(3), so /etc/hosts, nsswitch.conf and the rest are respected, on threads of their own that the whole process
 * shares ("dns", up to 64, and for names that take long "dns-late", up to 16): slow name servers keep no other blocking work waiting.  A runtime may have
 * another resolver, such as c-ares (<weft/cares.h>), which needs no threads.
 */
#ifndef WEFT_DNS_H
#define WEFT_DNS_H

#include <weft/net.h>

WEFT_EXTERN_C_BEGIN

/* The addresses of a name, best first as the system orders them.  In figures, both of them, nothing has to wait.  `service` is a port number or a name as in
 * /etc/services; NULL: port 0.  `family` is AF_INET, AF_INET6, or 0 for both.
 * Call from: a fiber or a plain thread.  May suspend.  A caller that is late or cancelled returns at once; the system goes on looking without it.
 * Returns how many there are in `addrs`, 1 to `room`, of which there may be more; -ENOENT (there is no such name, or it has no address of the
 * family); -EAGAIN (the name servers do not answer now, or there is no thread); -EIO (they say that they cannot); -EINVAL (no such service, no room;
 * in a poll task); -EAFNOSUPPORT; -ENAMETOOLONG; -ETIMEDOUT; -ECANCELED; -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_resolve(const char *name, const char *service, int family, weft_addr *addrs,
                                        size_t room, weft_deadline until);

/* Connect to whichever of several addresses of one machine answers first ("happy eyeballs", RFC 8305): one after the other, the families in turn,
 * each 250 ms after the one before or as soon as that has failed, until one succeeds; the others are closed.  Of more than 16 the first 16.
 * Call from: a fiber or a plain thread.  May suspend.
 * Returns 0; the error of the first address when all have failed; -ETIMEDOUT; -ECANCELED; -EINVAL (none; in a poll task); as weft_connect. */
WEFT_API WEFT_MUST_USE int weft_connect_any(const weft_addr *addrs, size_t count, weft_io **out, weft_deadline until);

/* weft_resolve and weft_connect_any: in <weft/net.h>.  A name server that answers for one kind of address only keeps nobody waiting: when the system has
 * not answered within 50 ms, each kind is asked for by itself, too; addresses of IPv6 are then used at once, those of IPv4 50 ms later, and what is
 * found meanwhile joins.  (Not with a resolver of the runtime's own, and not under `sim`.)
 * WEFT_API int weft_tcp_connect(const char *host, int port, weft_io **out, weft_deadline until); */

/* -- Another resolver ------------------------------------------------------------------------------------ */

/* Who looks up names for the fibers of a runtime. */
typedef struct weft_resolver {
    size_t size; /* sizeof(weft_resolver) */
    /* As weft_resolve, whose arguments have been looked at; in a fiber, which has not been cancelled yet.  Names in figures come here only with a service that is
     * not.  Of a failure nothing is left in `addrs`.  Several calls at once, on any worker. */
    int (*resolve)(void *state, const char *name, const char *service, int family, weft_addr *addrs, size_t room,
                   weft_deadline until);
    /* It is used no longer: another took its place, or the runtime is destroyed, and no call is under way.  May be NULL.  Must not wait. */
    void (*drop)(void *state);
} weft_resolver;

/* weft_resolve in the fibers of `rt` (NULL: the caller's), and with it every call that connects by name, asks `resolver` from now on; NULL: the
 * system again.  Calls under way end with the one that they have begun with.  Plain threads always ask the system.
 * Call from: anywhere.  Returns 0; -EINVAL (no runtime; no function); -E2BIG; -ENOMEM: then `state` is still the caller's. */
WEFT_API WEFT_MUST_USE int weft_resolver_set(weft_runtime *rt, const weft_resolver *resolver, void *state);

WEFT_EXTERN_C_END
#endif
