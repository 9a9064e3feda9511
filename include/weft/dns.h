/* weft/dns.h - names of machines, and connecting by name.
 *
 *     weft_io *io;
 *     weft_tcp_connect("example.org", 80, &io, weft_after(5000000000));
 *
 * Names are looked up with getaddrinfo(3), so /etc/hosts, nsswitch.conf and the rest are respected, on a pool of threads of its own ("dns", up to
 * 16) that the whole process shares: slow name servers keep no other blocking work waiting.
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

/* weft_resolve and weft_connect_any: in <weft/net.h>.
 * WEFT_API int weft_tcp_connect(const char *host, int port, weft_io **out, weft_deadline until); */

WEFT_EXTERN_C_END
#endif
