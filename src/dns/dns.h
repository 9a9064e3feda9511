/* dns.h - names and the order of addresses.  Internal. */
#ifndef WEFTI_DNS_DNS_H
#define WEFTI_DNS_DNS_H

#include <weft/dns.h>

#define WEFTI_ADDRS_MAX 16

/* Addresses in the order in which they are tried: the families in turn, beginning with that of the first (RFC 8305, 4). */
void wefti_addrs_interleave(const weft_addr *addrs, size_t count, weft_addr *out);

/* resolver.c: let the resolver of the calling fiber's runtime answer.  False: it has none, or the caller is no fiber. */
bool wefti_resolver_ask(const char *name, const char *service, int family, weft_addr *addrs, size_t room,
                        weft_deadline until, int *result);

#endif
