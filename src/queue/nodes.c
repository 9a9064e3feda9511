/* nodes.c - the depot of small blocks (nodes.h has the design). */
#include "queue/nodes.h"

void wefti_nodes_fini(struct wefti_nodes *nodes) {
    while (nodes->blocks) {
        struct wefti_link *block = nodes->blocks;
        nodes->blocks = block->next;
        wefti_free(block, WEFTI_NODES_BLOCK * WEFTI_NODE_SIZE);
    }
}

static bool make(struct wefti_nodes *nodes) {
    char *block = wefti_alloc_raw(WEFTI_NODES_BLOCK * WEFTI_NODE_SIZE);
    if (!block)
        return false;
    wefti_map_now(block, WEFTI_NODES_BLOCK * WEFTI_NODE_SIZE);
    struct wefti_link *own = (struct wefti_link *)(void *)block;
    own->next = nodes->blocks;
    nodes->blocks = own;
    for (uint32_t i = WEFTI_NODES_BLOCK - 1; i > 0; i--)
        wefti_nodes_push(&nodes->free, (struct wefti_link *)(void *)(block + (size_t)i * WEFTI_NODE_SIZE));
    return true;
}

bool wefti_nodes_refill(struct wefti_nodes *nodes, struct wefti_chain *into, uint32_t count) {
    wefti_lock_take(&nodes->lock);
    if (nodes->free.count || make(nodes))
        while (into->count < count && nodes->free.count)
            wefti_nodes_push(into, wefti_chain_take(&nodes->free));
    wefti_lock_give(&nodes->lock);
    return into->count != 0;
}

void wefti_nodes_drain(struct wefti_nodes *nodes, struct wefti_chain *from) {
    wefti_lock_take(&nodes->lock);
    if (nodes->free.count)
        from->last->next = nodes->free.first;
    else
        nodes->free.last = from->last;
    nodes->free.first = from->first;
    nodes->free.count += from->count;
    wefti_lock_give(&nodes->lock);
    from->count = 0;
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
