/* weft/cares.h - names looked up by c-ares instead of threads that wait in getaddrinfo(3).  A library of its own: -lweft-cares.
 *
 *     weft_cares *cares;
 *     weft_cares_create(NULL, &cares);                           // the system's name servers
 *     weft_cares_use(rt, cares);                                 // from now on weft_resolve, weft_tcp_connect and all who use them
 *     weft_cares_free(cares);                                    // the runtime keeps it
 *
 * Any number of lookups share one channel and its few sockets; a lookup costs no thread, and one whose caller left costs nothing any more when
 * the last of them has left.  Servers, search domains and options are those of /etc/resolv.conf at the time of weft_cares_create, /etc/hosts is
 * respected, and addresses are in the order of RFC 6724; of nsswitch.conf c-ares knows `files` and `dns` and no more: names that come from
 * elsewhere (mDNS, LDAP) are not found.  Addresses that this machine has no way to come last, where the system may leave them out.
 *
 * Time.      A server has `timeout` to answer, then others are asked, `tries` rounds of it, each waiting longer.  The caller's deadline comes first.
 * Stack.     A lookup needs some 16 KiB of stack: fibers of 64 KiB, the default, have them.
 * Files.     /etc/hosts is read in every lookup, by the caller; and /etc/services if the service is a name.
 * Sim.       Sockets are real, as all are that other libraries open: virtual time passes as real time does while a lookup waits.  The runtime must
 *            not share the channel with others: waiting for them takes no virtual time.
 */
#ifndef WEFT_CARES_H
#define WEFT_CARES_H

#include <weft/dns.h>

WEFT_EXTERN_C_BEGIN

/* A channel of c-ares.  Used by any number of fibers and threads, of any runtimes. */
typedef struct weft_cares weft_cares;

typedef struct weft_cares_options {
    size_t size; /* set by WEFT_CARES_OPTIONS_INIT */
    const char *servers; /* "192.0.2.1,192.0.2.2:5353,[2001:db8::1]:53", 30 at most; NULL: the system's */
    const char *domains; /* tried behind names that have few dots: "a.example,example"; "": none; NULL: the system's */
    int64_t timeout; /* ns, of one server in the first round; 0: the system's, or 5 s */
    int tries; /* rounds; 0: the system's, or 4 */
    bool no_hosts; /* do not look into /etc/hosts */
} weft_cares_options;

#define WEFT_CARES_OPTIONS_INIT {sizeof(weft_cares_options), 0, 0, 0, 0, false}

/* Make one.  options may be NULL.  Reads files.
 * Returns 0; -EINVAL (no such servers, domains, times); -E2BIG; -ENOMEM; -EIO (the system's settings cannot be read). */
WEFT_API WEFT_MUST_USE int weft_cares_create(const weft_cares_options *options, weft_cares **out);
/* Runtimes that use it, and lookups under way, keep it.  NULL is allowed. */
WEFT_API void weft_cares_free(weft_cares *cares);

/* weft_resolver_set of <weft/dns.h> with this one; NULL: the system again.  Returns 0; -EINVAL (no runtime); -ENOMEM. */
WEFT_API int weft_cares_use(weft_runtime *rt, weft_cares *cares);

/* As weft_resolve, by this one, whatever the runtime uses, on a plain thread too.
 * Call from: a fiber or a plain thread.  May suspend.
 * Returns how many there are in `addrs`, 1 to `room` and 16 at most; -ENOENT (there is no such name, or it has no address of the family); -EAGAIN
 * (no server answers, or all refuse or fail); -EIO (what they answer makes no sense); -EINVAL (no such service, no room; in a poll task);
 * -EAFNOSUPPORT; -ENAMETOOLONG; -ETIMEDOUT; -ECANCELED; -ENOMEM; -EMFILE, -ENFILE (there is no descriptor to wait with). */
WEFT_API WEFT_MUST_USE int weft_cares_resolve(weft_cares *cares, const char *name, const char *service, int family,
                                              weft_addr *addrs, size_t room, weft_deadline until);

WEFT_EXTERN_C_END
#endif
