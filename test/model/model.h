/* model.h - what the model tests share: items that must come out exactly once, and a small runtime. */
#ifndef WEFT_TEST_MODEL_H
#define WEFT_TEST_MODEL_H

#include "base/atomic.h"
#include "base/link.h"
#include "mc/mc.h"

/* Something to queue.  `payload` is plain: reading it without a happens-before edge from the writer is reported. */
struct item {
    struct wefti_link link;
    int payload;
    _Atomic int seen;
};

#define ITEMS 8
static struct item items[ITEMS];

static inline struct wefti_link *make(int i) {
    items[i].payload = 100 + i;
    return &items[i].link;
}

/* An item came out: once, and with what its producer wrote. */
static inline void got(struct wefti_link *link) {
    if (!link)
        return;
    struct item *item = (struct item *)(void *)link;
    int index = (int)(item - items);
    mc_assert(index >= 0 && index < ITEMS);
    mc_assert(item->payload == 100 + index);
    mc_assert(add_relaxed(&item->seen, 1) == 0);
}

static inline void got_chain(struct wefti_chain chain) {
    for (struct wefti_link *item; (item = wefti_chain_take(&chain));)
        got(item);
}

static inline void all_came_out(int first, int count) {
    for (int i = first; i < first + count; i++)
        if (load_relaxed(&items[i].seen) != 1)
            mc_fail("item %d came out %d times", i, load_relaxed(&items[i].seen));
}

#endif
