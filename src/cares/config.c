/* config.c - making a channel of c-ares, as it was asked for, and giving it to a runtime. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/known.h"
#include "cares/cares.h"

#define MILLISECOND INT64_C(1000000)
#define DOMAINS_MAX 16u

static int known(const weft_cares_options *given, weft_cares_options *options) {
    *options = (weft_cares_options)WEFT_CARES_OPTIONS_INIT;
    int error = given ? wefti_known_struct(given, offsetof(weft_cares_options, servers) + sizeof given->servers,
                                           options, sizeof *options)
                      : 0;
    return error                                                                                    ? error
           : options->timeout < 0 || options->tries < 0 || options->timeout / MILLISECOND > INT_MAX ? -EINVAL
                                                                                                    : 0;
}

static int error_of(int status) {
    return status == ARES_SUCCESS                               ? 0
           : status == ARES_ENOMEM                              ? -ENOMEM
           : status == ARES_EBADSTR || status == ARES_ENOTFOUND ? -EINVAL
                                                                : -EIO;
}

/* "a,b" into words, in place.  How many; -EINVAL. */
static int split(char *text, char **words) {
    unsigned count = 0;
    for (char *comma = text; *text && comma; text = comma + 1) {
        comma = strchr(text, ',');
        if (comma)
            *comma = 0;
        if (!*text || count == DOMAINS_MAX)
            return -EINVAL;
        words[count++] = text;
        if (!comma)
            break;
        if (!comma[1]) /* nothing behind it */
            return -EINVAL;
    }
    return (int)count;
}

/* c-ares counts its users, but not under a lock. */
static int begin_library(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool begun;
    pthread_mutex_lock(&lock);
    int status = begun ? ARES_SUCCESS : ares_library_init(ARES_LIB_INIT_ALL);
    begun |= status == ARES_SUCCESS; /* and never ended: others in the process may use it */
    pthread_mutex_unlock(&lock);
    return error_of(status);
}

static int open_channel(struct weft_cares *cares, const weft_cares_options *options, char **domains, int count) {
    static char dns_only[] = "b";
    struct ares_options with = {.sock_state_cb = wefti_cares_socket_changed, .sock_state_cb_data = cares};
    int mask = ARES_OPT_SOCK_STATE_CB;
    int64_t ms = (options->timeout + MILLISECOND - 1) / MILLISECOND;
    if (options->timeout)
        mask |= ARES_OPT_TIMEOUTMS, with.timeout = (int)ms;
    if (options->tries)
        mask |= ARES_OPT_TRIES, with.tries = options->tries;
    if (options->no_hosts)
        mask |= ARES_OPT_LOOKUPS, with.lookups = dns_only;
    if (options->domains)
        mask |= ARES_OPT_DOMAINS, with.domains = domains, with.ndomains = count;
    return error_of(ares_init_options(&cares->channel, &with, mask));
}

static int set_servers(struct weft_cares *cares, const char *servers) {
    struct ares_addr_port_node *all = NULL;
    int error = *servers ? error_of(ares_set_servers_ports_csv(cares->channel, servers)) : -EINVAL;
    if (!error)
        error = error_of(ares_get_servers_ports(cares->channel, &all));
    unsigned count = 0;
    for (struct ares_addr_port_node *at = all; at; at = at->next)
        count++;
    if (all)
        ares_free_data(all);
    return error ? error : count == 0 || count > WEFTI_CARES_SERVERS ? -EINVAL : 0;
}

static int settle(struct weft_cares *cares, const weft_cares_options *options) {
    char *words[DOMAINS_MAX], *domains = options->domains ? strdup(options->domains) : NULL;
    if (options->domains && !domains)
        return -ENOMEM;
    int count = domains ? split(domains, words) : 0;
    int error = count < 0 ? count : open_channel(cares, options, words, count);
    free(domains);
    return error || !options->servers ? error : set_servers(cares, options->servers);
}

int weft_cares_create(const weft_cares_options *given, weft_cares **out) {
    weft_cares_options options;
    int error = out ? known(given, &options) : -EINVAL;
    error = error ? error : begin_library();
    if (error)
        return error;
    struct weft_cares *cares = calloc(1, sizeof *cares);
    if (!cares)
        return -ENOMEM;
    store_relaxed(&cares->refs, 1); /* nobody else has it */
    pthread_mutex_init(&cares->lock, NULL); /* cannot fail on Linux */
    cares->last = &cares->waiting;
    cares->freshest = &cares->fresh;
    error = settle(cares, &options);
    if (error)
        weft_cares_free(cares);
    else
        *out = cares;
    return error;
}

struct weft_cares *wefti_cares_ref(struct weft_cares *cares) {
    add_relaxed(&cares->refs, 1); /* from one that we have */
    return cares;
}

void weft_cares_free(weft_cares *cares) {
    if (!cares || sub_acq_rel(&cares->refs, 1) > 1) /* all uses come before the last one's free */
        return;
    if (cares->channel)
        ares_destroy(cares->channel); /* which has no lookup any more: those who asked had a reference */
    weft_event_destroy(&cares->news);
    pthread_mutex_destroy(&cares->lock);
    free(cares);
}

static int resolve(void *state, const char *name, const char *service, int family, weft_addr *addrs, size_t room,
                   weft_deadline until) {
    return weft_cares_resolve(state, name, service, family, addrs, room, until);
}

static void drop(void *state) { weft_cares_free(state); }

int weft_cares_use(weft_runtime *rt, weft_cares *cares) {
    static const weft_resolver resolver = {sizeof resolver, resolve, drop};
    if (!cares)
        return weft_resolver_set(rt, NULL, NULL);
    int error = weft_resolver_set(rt, &resolver, wefti_cares_ref(cares));
    if (error)
        weft_cares_free(cares);
    return error;
}
