/* link.h - the one intrusive list link, and chains of them.
 * Everything that can be queued begins with a link; a chain is a list in order, handed over as a whole. */
#ifndef WEFTI_BASE_LINK_H
#define WEFTI_BASE_LINK_H

#include <stddef.h>
#include <stdint.h>

struct wefti_link {
    struct wefti_link *next;
};

/* count == 0: first and last mean nothing. */
struct wefti_chain {
    struct wefti_link *first, *last;
    uint32_t count;
};

static inline void wefti_chain_append(struct wefti_chain *chain, struct wefti_link *item) {
    item->next = NULL;
    if (chain->count++)
        chain->last->next = item;
    else
        chain->first = item;
    chain->last = item;
}

static inline struct wefti_link *wefti_chain_take(struct wefti_chain *chain) {
    if (!chain->count)
        return NULL;
    struct wefti_link *item = chain->first;
    chain->first = item->next;
    chain->count--;
    return item;
}

#endif
