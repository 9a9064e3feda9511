/* nodes.h - small blocks of one size that travel between workers: a cache a worker, magazines exchanged through a depot.
 *
 * What.   A message is made on one worker and unmade on another.  Each works on its own cache without atomics; caches that run full or
 *         empty exchange whole magazines with the depot under its lock, once in 64 blocks.
 * Order.  A few magazines are kept as they came, the last of them to be handed out first: what goes to and fro is warm, and costs a copy of three words.
 *         Of the others the depot knows by a map of bits which are free, and hands them out in the order of their addresses.  In that of their coming they would lie
 *         a little more at random each time round: of 200,000 processes made and ended again and again, each with a message, one took
 *         a third longer after the tenth time, on two workers three times as long.
 * Who.    A cache: its worker.  The depot: under its lock.  A block: whoever took it, until he gives it.
 */
#ifndef WEFTI_QUEUE_NODES_H
#define WEFTI_QUEUE_NODES_H

#include "base/link.h"
#include "plat/cache.h"
#include "queue/lock.h"

#ifndef WEFTI_NODES_MAGAZINE
#define WEFTI_NODES_MAGAZINE 64u
#define WEFTI_NODES_CHUNK 32768u /* 2 MiB, touched as they are used */
#endif
#define WEFTI_NODES_RECENT 16u /* magazines */
#define WEFTI_NODE_SIZE 64u

struct wefti_nodes_cache {
    struct wefti_chain loaded;
    struct wefti_chain spare; /* empty or a whole magazine */
};

struct wefti_nodes_chunk;

struct wefti_nodes {
    struct wefti_lock lock;
    struct wefti_nodes_chunk *chunks; /* all, the newest first: only that has nodes that were never taken */
    struct wefti_nodes_chunk *open; /* those that have free ones */
    struct wefti_chain recent[WEFTI_NODES_RECENT]; /* none of them empty */
    uint32_t recent_count;
    uint32_t out; /* nodes that are not here */
    size_t mapped; /* bytes, of all chunks */
};

/* Every node must have been given back. */
void wefti_nodes_fini(struct wefti_nodes *nodes);

/* The inner parts. */
bool wefti_nodes_refill(struct wefti_nodes *nodes, struct wefti_chain *into, uint32_t count);
void wefti_nodes_drain(struct wefti_nodes *nodes, struct wefti_chain *from);
void *wefti_nodes_take_outside(struct wefti_nodes *nodes);
void wefti_nodes_give_outside(struct wefti_nodes *nodes, void *node);

static inline void wefti_nodes_push(struct wefti_chain *chain, struct wefti_link *node) {
    node->next = chain->first;
    if (!chain->count++)
        chain->last = node;
    chain->first = node;
}

/* There is one. */
static inline void *wefti_nodes_take_loaded(struct wefti_nodes_cache *cache) {
    struct wefti_link *node = wefti_chain_take_first(&cache->loaded);
    wefti_fetch_own(cache->loaded.first); /* the next; of the last, nothing that matters */
    return node;
}

/* A block of WEFTI_NODE_SIZE bytes, or NULL: no memory.  cache NULL: the caller is no worker. */
static inline void *wefti_nodes_take(struct wefti_nodes *nodes, struct wefti_nodes_cache *cache) {
    if (WEFTI_UNLIKELY(!cache))
        return wefti_nodes_take_outside(nodes);
    if (WEFTI_UNLIKELY(!cache->loaded.count)) {
        if (cache->spare.count) {
            cache->loaded = cache->spare;
            cache->spare.count = 0;
        } else if (!wefti_nodes_refill(nodes, &cache->loaded, WEFTI_NODES_MAGAZINE)) {
            return NULL;
        }
    }
    return wefti_nodes_take_loaded(cache);
}

static inline void wefti_nodes_give(struct wefti_nodes *nodes, struct wefti_nodes_cache *cache, void *node) {
    if (WEFTI_UNLIKELY(!cache)) {
        wefti_nodes_give_outside(nodes, node);
        return;
    }
    if (WEFTI_UNLIKELY(cache->loaded.count == WEFTI_NODES_MAGAZINE)) {
        if (cache->spare.count)
            wefti_nodes_drain(nodes, &cache->spare);
        cache->spare = cache->loaded;
        cache->loaded.count = 0;
    }
    wefti_nodes_push(&cache->loaded, node);
}

/* A chain that is not empty, as a whole.  False: there is no room, and it is still the caller's. */
static inline bool wefti_nodes_give_chain(struct wefti_nodes_cache *cache, struct wefti_chain chain) {
    if (WEFTI_UNLIKELY(cache->loaded.count + chain.count > WEFTI_NODES_MAGAZINE))
        return false;
    chain.last->next = cache->loaded.first; /* of an empty one: whatever */
    if (!cache->loaded.count)
        cache->loaded.last = chain.last;
    cache->loaded.first = chain.first;
    cache->loaded.count += chain.count;
    return true;
}

#endif
