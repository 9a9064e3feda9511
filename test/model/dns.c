/* dns.c - a lookup that outlives its caller, and a resolver that is replaced while it is asked: who is last frees it, after all that the
 * other did.  The sources themselves, with names that the system cannot have. */
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
#define wefti_names_pool model_names_pool
#define wefti_lookup model_lookup
#define wefti_resolver_is_own model_resolver_is_own
#define getaddrinfo(name, service, hints, found) ((void)(name), (void)(service), (void)(hints), answer_all(found))
#define freeaddrinfo(found) ((void)(found))
#include "dns/resolve.c" /* NOLINT: its own functions, one by one */

#define unref unref_chosen
#define weft_resolver_set model_resolver_set
#define wefti_resolver_ask model_resolver_ask
#include "dns/resolver.c" /* NOLINT */
#undef unref

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

static int answers; /* the resolver's own: no atomic */

static int answer_nothing(void *state, const char *name, const char *service, int family, weft_addr *addrs, size_t room,
                          weft_deadline until) {
    (void)state, (void)name, (void)service, (void)family, (void)addrs, (void)room, (void)until;
    answers++;
    return 0;
}

static void forget(void *state) {
    mc_assert(answers == *(int *)state);
    answers = 0;
}

static void ask_and_leave(void *chosen) {
    struct chosen *held = chosen;
    held->functions.resolve(held->state, NULL, NULL, 0, NULL, 0, WEFT_NEVER);
    unref_chosen(held);
}

MC_TEST(dns_resolver_replaced, .bound = 3) {
    int expect = 1;
    struct chosen *chosen = wefti_alloc(sizeof *chosen);
    store_relaxed(&chosen->refs, 2);
    chosen->functions = (weft_resolver){sizeof chosen->functions, answer_nothing, forget};
    chosen->state = &expect;
    int a = mc_spawn(ask_and_leave, chosen);
    unref_chosen(chosen); /* another has taken its seat */
    mc_join(a);
    mc_assert(answers == 0);
}
