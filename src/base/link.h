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

/* There is one. */
static inline struct wefti_link *wefti_chain_take_first(struct wefti_chain *chain) {
    struct wefti_link *item = chain->first;
    chain->first = item->next;
    chain->count--;
    return item;
}

static inline struct wefti_link *wefti_chain_take(struct wefti_chain *chain) {
    return chain->count ? wefti_chain_take_first(chain) : NULL;
}

/* `more` behind it. */
static inline void wefti_chain_join(struct wefti_chain *chain, struct wefti_chain more) {
    if (!more.count)
        return;
    if (chain->count)
        chain->last->next = more.first;
    else
        chain->first = more.first;
    chain->last = more.last;
    chain->count += more.count;
}

/* The first `count` of it, which has as many. */
static inline struct wefti_chain wefti_chain_cut(struct wefti_chain *chain, uint32_t count) {
    struct wefti_chain cut = {chain->first, chain->first, count};
    if (!count)
        return cut;
    if (count == chain->count) { /* no walk */
        cut.last = chain->last;
        chain->count = 0;
        return cut;
    }
    for (uint32_t i = 1; i < count; i++)
        cut.last = cut.last->next;
    chain->first = cut.last->next;
    chain->count -= count;
    cut.last->next = NULL;
    return cut;
}

#endif
