/* dns.h - names and the order of addresses.  Internal. */
#ifndef WEFTI_DNS_DNS_H
#define WEFTI_DNS_DNS_H

#include <weft/dns.h>

#define WEFTI_ADDRS_MAX 16

/* Addresses in the order in which they are tried: the families in turn, beginning with that of the first (RFC 8305, 4). */
void wefti_addrs_interleave(const weft_addr *addrs, size_t count, weft_addr *out);

/* resolve.c: ask the system, on a thread: as weft_resolve.  And where that is done (late: for one kind of address by itself); NULL: no memory. */
int wefti_lookup(const char *name, const char *service, int family, weft_addr addrs[WEFTI_ADDRS_MAX]);
struct weft_pool *wefti_names_pool(bool late);

/* resolver.c: has the calling fiber's runtime one of its own? */
bool wefti_resolver_is_own(void);
/* resolver.c: let the resolver of the calling fiber's runtime answer.  False: it has none, or the caller is no fiber. */
bool wefti_resolver_ask(const char *name, const char *service, int family, weft_addr *addrs, size_t room,
                        weft_deadline until, int *result);

#endif
