/* mem_net.c - the network in memory: its chances, nodes and addresses, and datagrams (mem.h has the design). */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "io/mem.h"
#include "sched/spawn.h"

#define MILLION 1000000u
#define DATAGRAMS_MAX ((size_t)1 << 20) /* bytes that wait for one socket */
#define LATE INT64_C(1000000)

/* -- Beginning and end --------------------------------------------------------------------------------------- */

void wefti_net_unref(struct wefti_net *net) {
    if (--net->refs == 0)
        wefti_free(net, sizeof *net);
}

static int end(struct wefti_annex *annex) {
    struct wefti_net *net = (struct wefti_net *)(void *)annex; /* annex is its first field */
    net->rt = NULL; /* what is open still may be closed */
    wefti_net_unref(net);
    return 0;
}

static struct weft_runtime *sim_here(void) {
    struct wefti_worker *w = wefti_worker_here();
    return w && wefti_current(w) && w->rt->sim ? w->rt : NULL;
}

struct wefti_net *wefti_net_here(void) {
    struct weft_runtime *rt = sim_here();
    return rt ? (struct wefti_net *)(void *)wefti_annex(rt, WEFTI_ANNEX_NET) : NULL;
}

int weft_sim_net_open(const weft_sim_net *given) {
    weft_sim_net options = WEFT_SIM_NET_INIT;
    struct weft_runtime *rt = sim_here();
    int error = !rt     ? -EINVAL
                : given ? wefti_known_struct(given, offsetof(weft_sim_net, whole), &options, sizeof options)
                        : 0;
    if (error)
        return error;
    options.whole = options.whole ? options.whole : MILLION / 2;
    options.buffer = options.buffer ? options.buffer : 65536;
    if (options.whole > MILLION || options.reset > MILLION || options.loss > MILLION || options.duplicate > MILLION ||
        options.reorder > MILLION || options.delay_min < 0 || options.delay_min > options.delay_max)
        return -EINVAL;
    struct wefti_net *net = wefti_net_here();
    if (!net) {
        net = wefti_alloc(sizeof *net);
        if (!net)
            return -ENOMEM;
        net->annex.end = end;
        net->rt = rt;
        net->refs = 1;
        net->port = 49152;
        wefti_annex_hang(rt, WEFTI_ANNEX_NET, &net->annex); /* one thread: nobody is quicker */
    }
    net->options = options;
    return 0;
}

/* -- Chance -------------------------------------------------------------------------------------------------- */

static uint64_t draw(struct wefti_net *net, uint64_t below) {
    return below > UINT32_MAX
               ? wefti_sim_draw(net->rt, UINT32_MAX) * (below >> 32) + wefti_sim_draw(net->rt, UINT32_MAX)
               : wefti_sim_draw(net->rt, (uint32_t)below);
}

bool wefti_net_chance(struct wefti_net *net, unsigned millionths) {
    return millionths && wefti_sim_draw(net->rt, MILLION) < millionths;
}

size_t wefti_net_cut_short(struct wefti_net *net, size_t size) {
    return size < 2 || wefti_net_chance(net, net->options.whole) ? size : 1 + (size_t)draw(net, size - 1);
}

int64_t wefti_net_arrival(struct wefti_net *net) {
    int64_t range = net->options.delay_max - net->options.delay_min;
    return wefti_now(net->rt) + net->options.delay_min + (range ? (int64_t)draw(net, (uint64_t)range + 1) : 0);
}

/* -- Addresses ----------------------------------------------------------------------------------------------- */

static int family_of(const weft_addr *addr) { return wefti_addr_family(addr); }

/* By their bytes: what an address is, is not known to the compiler. */
static size_t port_at(const weft_addr *addr) {
    return family_of(addr) == AF_INET6 ? offsetof(struct sockaddr_in6, sin6_port)
                                       : offsetof(struct sockaddr_in, sin_port);
}

static uint16_t port_of(const weft_addr *addr) {
    uint16_t port;
    memcpy(&port, (const char *)addr->storage + port_at(addr), sizeof port);
    return ntohs(port);
}

static void set_port(weft_addr *addr, uint16_t port) {
    port = htons(port);
    memcpy((char *)addr->storage + port_at(addr), &port, sizeof port);
}

static const void *host_of(const weft_addr *addr, size_t *size) {
    bool v6 = family_of(addr) == AF_INET6;
    *size = v6 ? 16 : 4;
    return (const char *)addr->storage +
           (v6 ? offsetof(struct sockaddr_in6, sin6_addr) : offsetof(struct sockaddr_in, sin_addr));
}

static bool same_host(const weft_addr *a, const weft_addr *b) {
    size_t size, other;
    const void *one = host_of(a, &size), *two = host_of(b, &other);
    return family_of(a) == family_of(b) && memcmp(one, two, size) == 0;
}

static bool is_any(const weft_addr *addr) {
    static const char zero[16];
    size_t size;
    const void *host = host_of(addr, &size);
    return memcmp(host, zero, size) == 0;
}

/* Would something sent to `to` come to who has bound `bound`? */
static bool reaches(const weft_addr *to, const weft_addr *bound) {
    if (family_of(to) == AF_UNIX || family_of(bound) == AF_UNIX)
        return to->size == bound->size && memcmp(to->storage, bound->storage, to->size) == 0;
    return port_of(to) == port_of(bound) && (is_any(bound) || is_any(to) || same_host(to, bound));
}

struct wefti_mem *wefti_net_find(struct wefti_net *net, int kind, const weft_addr *addr) {
    for (struct wefti_mem *mem = net->all; mem; mem = mem->next)
        if (mem->kind == kind && mem->local.size && reaches(addr, &mem->local))
            return mem;
    return NULL;
}

static void free_port(struct wefti_net *net, weft_addr *addr) {
    set_port(addr, net->port);
    net->port = net->port == UINT16_MAX ? 49152 : (uint16_t)(net->port + 1);
}

int wefti_net_bind(struct wefti_mem *mem, const weft_addr *addr) {
    weft_addr local = *addr;
    if (family_of(addr) != AF_UNIX && port_of(&local) == 0)
        free_port(mem->net, &local);
    if (wefti_net_find(mem->net, mem->kind, &local))
        return -EADDRINUSE;
    mem->local = local;
    return 0;
}

/* -- Nodes --------------------------------------------------------------------------------------------------- */

static unsigned node_key; /* 1 + it; 0: none yet */

static void free_node(void *node) { wefti_free(node, sizeof(weft_addr)); }

int weft_sim_node(const char *host) {
    weft_addr addr;
    if (!wefti_net_here() || !weft_in_fiber() || weft_addr_parse(host, 0, &addr))
        return -EINVAL;
    unsigned key;
    if (!node_key) {
        if (weft_local_create(&key, free_node))
            return -ENOMEM;
        node_key = key + 1;
    }
    weft_addr *node = weft_local_get(node_key - 1);
    if (!node && (node = wefti_alloc(sizeof *node)) && weft_local_set(node_key - 1, node)) {
        wefti_free(node, sizeof *node);
        node = NULL;
    }
    if (!node)
        return -ENOMEM;
    *node = addr;
    return 0;
}

void wefti_net_own_address(struct wefti_net *net, int family, weft_addr *out) {
    const weft_addr *node = node_key ? weft_local_get(node_key - 1) : NULL;
    memset(out, 0, sizeof *out);
    if (family == AF_UNIX) {
        sa_family_t name = AF_UNIX; /* and no more: unnamed */
        memcpy((char *)out->storage + offsetof(struct sockaddr, sa_family), &name, sizeof name);
        out->size = offsetof(struct sockaddr, sa_family) + sizeof name;
        return;
    }
    if (node && family_of(node) == family)
        *out = *node;
    else if (weft_addr_parse(family == AF_INET6 ? "::1" : "127.0.0.1", 0, out))
        return;
    free_port(net, out);
}

bool wefti_net_is_cut(const struct wefti_net *net, const weft_addr *a, const weft_addr *b) {
    for (unsigned i = 0; i < net->cuts; i++)
        if ((same_host(a, &net->cut[i][0]) && same_host(b, &net->cut[i][1])) ||
            (same_host(a, &net->cut[i][1]) && same_host(b, &net->cut[i][0])))
            return true;
    return false;
}

int weft_sim_partition(const char *a, const char *b, bool cut) {
    struct wefti_net *net = wefti_net_here();
    weft_addr pair[2];
    if (!net || weft_addr_parse(a, 0, &pair[0]) || weft_addr_parse(b, 0, &pair[1]))
        return -EINVAL;
    unsigned i = 0;
    while (i < net->cuts && !(same_host(&pair[0], &net->cut[i][0]) && same_host(&pair[1], &net->cut[i][1])))
        i++;
    if (cut && i == net->cuts) {
        if (i == WEFTI_PARTITIONS)
            return -ENOSPC;
        memcpy(net->cut[net->cuts++], pair, sizeof pair);
    } else if (!cut && i < net->cuts) {
        memmove(net->cut[i], net->cut[net->cuts - 1], sizeof net->cut[i]);
        net->cuts--;
    }
    for (struct wefti_mem *mem = net->all; !cut && mem; mem = mem->next)
        wefti_mem_event(mem, WEFTI_READABLE); /* what was held back may be there */
    return 0;
}

/* -- Datagrams ----------------------------------------------------------------------------------------------- */

ssize_t wefti_mem_send_to(struct wefti_mem *mem, const void *bytes, size_t size, const weft_addr *to) {
    struct wefti_net *net = mem->net;
    if (wefti_net_here() != net || mem->kind != WEFTI_MEM_DATAGRAM)
        return -EINVAL;
    if (!to)
        return -EDESTADDRREQ;
    if (size > 65507)
        return -EMSGSIZE;
    struct wefti_mem *target = wefti_net_find(net, WEFTI_MEM_DATAGRAM, to);
    weft_addr from = mem->local;
    if (is_any(&from)) { /* from the node on which the sender is */
        uint16_t port = port_of(&from);
        wefti_net_own_address(net, family_of(&from), &from);
        set_port(&from, port);
    }
    if (!target || wefti_net_is_cut(net, &from, to) || wefti_net_chance(net, net->options.loss))
        return (ssize_t)size;
    for (int copies = 1 + wefti_net_chance(net, net->options.duplicate); copies; copies--) {
        int64_t at = wefti_net_arrival(net), late = net->options.delay_max ? 10 * net->options.delay_max : LATE;
        if (wefti_net_chance(net, net->options.reorder))
            at += (int64_t)draw(net, (uint64_t)late);
        if (target->queued + size <= DATAGRAMS_MAX)
            wefti_mem_send(target, bytes, size, &from, at, true); /* without memory for it, it is lost */
    }
    return (ssize_t)size;
}

ssize_t wefti_mem_recv_from(struct wefti_mem *mem, void *bytes, size_t size, weft_addr *from) {
    if (wefti_net_here() != mem->net || mem->kind != WEFTI_MEM_DATAGRAM)
        return -EINVAL;
    struct wefti_piece *piece = wefti_mem_arrived(mem);
    if (!piece)
        return -EAGAIN;
    size = size < piece->size ? size : piece->size;
    if (size)
        memcpy(bytes, piece->bytes, size);
    if (from)
        *from = piece->from;
    wefti_mem_take(mem);
    return (ssize_t)size;
}
