/* dns.c - a lookup that outlives its caller: who is last frees it, after all that the other did.  The source itself, with names that the
 * system cannot have. */
#include <netdb.h>
#include <netinet/in.h>
#include <weft/blocking.h>

#include "dns/dns.h"

#include "model.h"

static struct sockaddr_in address = {.sin_family = AF_INET};
static struct addrinfo answer = {
    .ai_family = AF_INET, .ai_addrlen = sizeof address, .ai_addr = (struct sockaddr *)(void *)&address};

static int answer_all(struct addrinfo **found) {
    *found = &answer;
    return 0;
}

#define weft_resolve model_resolve
#define getaddrinfo(name, service, hints, found) ((void)(hints), answer_all(found))
#define freeaddrinfo(found) ((void)(found))
#include "dns/resolve.c" /* NOLINT: its own functions, one by one */

static void run_job(void *lookup) {
    lookup_job(lookup);
    unref(lookup);
}

MC_TEST(dns_late_caller, .bound = 3) {
    struct lookup *lookup = wefti_alloc(sizeof *lookup);
    store_relaxed(&lookup->refs, 2);
    int a = mc_spawn(run_job, lookup);
    unref(lookup);
    mc_join(a);
}
