/* waiters.c - requests that wait until their transactions are in a block (waiters.h). */
#include "waiters.h"

#include <string.h>

static struct waiter **bucket(struct waiters *waiters, const hash32 *tx) {
    return &waiters->buckets[tx->bytes[8] % WAITERS_BUCKETS];
}

void waiters_add(struct waiters *waiters, struct waiter *of, const hash32 *txs, size_t count, weft_group *left) {
    weft_group_add(left, (int32_t)count);
    wefti_lock_take(&waiters->lock);
    waiters->count += count;
    for (size_t i = 0; i < count; i++) {
        struct waiter **first = bucket(waiters, &txs[i]);
        of[i] = (struct waiter){.tx = txs[i], .waits = true, .left = left, .next = *first, .at = first};
        if (*first)
            (*first)->at = &of[i].next;
        *first = &of[i];
    }
    wefti_lock_give(&waiters->lock);
}

/* The lock is held. */
static void take_out(struct waiters *waiters, struct waiter *waiter) {
    waiter->waits = false;
    *waiter->at = waiter->next;
    if (waiter->next)
        waiter->next->at = waiter->at;
    waiters->count--;
    weft_group_done(waiter->left); /* under the lock: its memory goes when it is no longer in the table */
}

void waiters_remove(struct waiters *waiters, struct waiter *waiter) {
    wefti_lock_take(&waiters->lock);
    if (waiter->waits)
        take_out(waiters, waiter);
    wefti_lock_give(&waiters->lock);
}

void waiters_told(struct waiters *waiters, const struct ledger_receipt *receipts, size_t count) {
    wefti_lock_take(&waiters->lock);
    for (size_t i = 0; i < count && waiters->count; i++)
        for (struct waiter *w = *bucket(waiters, &receipts[i].tx), *next; w; w = next) {
            next = w->next;
            if (!memcmp(&w->tx, &receipts[i].tx, sizeof w->tx))
                take_out(waiters, w);
        }
    wefti_lock_give(&waiters->lock);
}
