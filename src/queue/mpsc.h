/* mpsc.h - many producers, one consumer: an intrusive stack that the consumer takes as a whole, in order.
 *
 * What.   A producer pushes on top with a compare-and-swap; the consumer exchanges the top for NULL and reverses.
 * Claim.  Every item comes out once, in each producer's order.
 * Why.    The push releases the item and what the producer wrote; the exchange acquires them.  A producer's
 *         items lie in its order from bottom to top, and the reversal keeps that.  No node is ever between two
 *         states, so an empty answer means empty: an algorithm with a tail pointer has a window there in which
 *         a producer that was stopped hides everything behind it.
 * Why not A-B-A.  Only whole stacks are removed: a top that looks unchanged has the same items below.
 * Checked by.  test/model/queues.c
 */
#ifndef WEFTI_QUEUE_MPSC_H
#define WEFTI_QUEUE_MPSC_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/link.h"

struct wefti_mpsc {
    _Alignas(64) _Atomic(struct wefti_link *) top;
};

/* Any thread.  True when the queue was empty: the caller wakes the consumer. */
static inline bool wefti_mpsc_push(struct wefti_mpsc *queue, struct wefti_link *item) {
    struct wefti_link *top = load_relaxed(&queue->top); /* only compared */
    do
        item->next = top;
    while (!cas_release(&queue->top, &top, item)); /* pairs with take */
    return top == NULL;
}

static inline bool wefti_mpsc_is_empty(struct wefti_mpsc *queue) { return load_relaxed(&queue->top) == NULL; }

/* Consumer.  Everything queued so far, oldest first. */
static inline struct wefti_chain wefti_mpsc_take(struct wefti_mpsc *queue) {
    struct wefti_chain chain = {NULL, NULL, 0};
    if (wefti_mpsc_is_empty(queue))
        return chain;
    struct wefti_link *item = xchg_acquire(&queue->top, NULL); /* pairs with push */
    chain.last = item;
    while (item) {
        struct wefti_link *below = item->next;
        item->next = chain.first;
        chain.first = item;
        chain.count++;
        item = below;
    }
    return chain;
}

#endif
