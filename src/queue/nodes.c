/* nodes.c - the depot of small blocks (nodes.h has the design). */
#include "queue/nodes.h"

#include "base/bits.h"

#define BYTES ((size_t)WEFTI_NODES_CHUNK * WEFTI_NODE_SIZE)
#define CHUNK_BYTES (BYTES < 4096 ? 4096 : BYTES) /* in the model less than a page */

/* In front of its nodes, in the place of the first few.  Under the depot's lock. */
struct wefti_nodes_chunk {
    struct wefti_nodes_chunk *next;     /* of all */
    struct wefti_nodes_chunk *next_open; /* of those that have free ones */
    uint32_t made; /* nodes, from the first, that were ever taken */
    struct wefti_bits free; /* of them */
    uint64_t map[WEFTI_BITS_WORDS(WEFTI_NODES_CHUNK)];
};
#define FIRST ((uint32_t)((sizeof(struct wefti_nodes_chunk) + WEFTI_NODE_SIZE - 1) / WEFTI_NODE_SIZE))

_Static_assert((CHUNK_BYTES & (CHUNK_BYTES - 1)) == 0, "a node's address says whose it is");
_Static_assert(WEFTI_NODES_CHUNK >= 2 && FIRST < WEFTI_NODES_CHUNK, "there is room for nodes");

static struct wefti_link *node_of(struct wefti_nodes_chunk *chunk, uint32_t index) {
    return (struct wefti_link *)(void *)((char *)chunk + (size_t)index * WEFTI_NODE_SIZE);
}
static struct wefti_nodes_chunk *chunk_of(const void *node) {
    return (struct wefti_nodes_chunk *)((uintptr_t)node & ~(uintptr_t)(CHUNK_BYTES - 1));
}

void wefti_nodes_fini(struct wefti_nodes *nodes) {
    for (struct wefti_nodes_chunk *next; nodes->chunks; nodes->chunks = next) {
        next = nodes->chunks->next;
        wefti_unmap(nodes->chunks, CHUNK_BYTES);
    }
    nodes->open = NULL;
    nodes->mapped = 0;
    nodes->recent_count = 0;
}

/* Those never used: the newest chunk has some, or there is a new one, or there is no memory. */
static void carve(struct wefti_nodes *nodes, struct wefti_chain *into, uint32_t count) {
    struct wefti_nodes_chunk *chunk = nodes->chunks;
    if (!chunk || chunk->made == WEFTI_NODES_CHUNK) {
        if (!(chunk = wefti_map(CHUNK_BYTES)))
            return;
        wefti_map_large(chunk, CHUNK_BYTES, nodes->mapped);
        nodes->mapped += CHUNK_BYTES;
        chunk->made = FIRST;
        chunk->next = nodes->chunks;
        nodes->chunks = chunk;
    }
    for (; into->count < count && chunk->made < WEFTI_NODES_CHUNK; chunk->made++) {
        wefti_map_ahead(chunk, (size_t)chunk->made * WEFTI_NODE_SIZE, WEFTI_NODE_SIZE, CHUNK_BYTES);
        wefti_chain_append(into, node_of(chunk, chunk->made));
    }
}

/* Free ones, in the order of their addresses. */
static void collect(struct wefti_nodes *nodes, struct wefti_chain *into, uint32_t count) {
    for (struct wefti_nodes_chunk *chunk; into->count < count && (chunk = nodes->open);) {
        while (into->count < count && chunk->free.count)
            wefti_chain_append(into, node_of(chunk, wefti_bits_take(&chunk->free, chunk->map)));
        if (!chunk->free.count)
            nodes->open = chunk->next_open;
    }
}

/* The last magazine that came, or some of it. */
static void take_recent(struct wefti_nodes *nodes, struct wefti_chain *into, uint32_t count) {
    struct wefti_chain *last = &nodes->recent[nodes->recent_count - 1];
    if (!into->count && last->count <= count) {
        *into = *last;
        last->count = 0;
    }
    while (into->count < count && last->count)
        wefti_chain_append(into, wefti_chain_take(last));
    nodes->recent_count -= !last->count;
}

bool wefti_nodes_refill(struct wefti_nodes *nodes, struct wefti_chain *into, uint32_t count) {
    uint32_t before = into->count;
    wefti_lock_take(&nodes->lock);
    if (nodes->recent_count)
        take_recent(nodes, into, count);
    else
        collect(nodes, into, count);
    if (!into->count)
        carve(nodes, into, count);
    nodes->out += into->count - before;
    wefti_lock_give(&nodes->lock);
    return into->count != 0;
}

void wefti_nodes_drain(struct wefti_nodes *nodes, struct wefti_chain *from) {
    wefti_lock_take(&nodes->lock);
    nodes->out -= from->count;
    if (from->count == WEFTI_NODES_MAGAZINE && nodes->recent_count < WEFTI_NODES_RECENT) {
        nodes->recent[nodes->recent_count++] = *from;
        from->count = 0;
    }
    for (struct wefti_link *node; (node = wefti_chain_take(from));) {
        struct wefti_nodes_chunk *chunk = chunk_of(node);
        if (!chunk->free.count) {
            chunk->next_open = nodes->open;
            nodes->open = chunk;
        }
        wefti_bits_add(&chunk->free, chunk->map, (uint32_t)(((uintptr_t)node - (uintptr_t)chunk) / WEFTI_NODE_SIZE));
    }
    wefti_lock_give(&nodes->lock);
}

void *wefti_nodes_take_outside(struct wefti_nodes *nodes) {
    struct wefti_chain one = {NULL, NULL, 0};
    return wefti_nodes_refill(nodes, &one, 1) ? one.first : NULL;
}

void wefti_nodes_give_outside(struct wefti_nodes *nodes, void *node) {
    struct wefti_chain one = {NULL, NULL, 0};
    wefti_nodes_push(&one, node);
    wefti_nodes_drain(nodes, &one);
}
