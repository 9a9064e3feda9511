/* waiters.h - requests that wait until their transactions are in a block.
 *
 * Race.   request: A1 add the waiter              lane: B1 the receipt becomes visible
 *                  A2 look for the receipt              B2 look for a waiter
 * Claim.  A request whose transaction is in a block goes on.
 * Why.    A1 and B2 are under one lock.  A1 first: B2 finds the waiter.  B2 first: B1 was before it, so A2 finds the receipt.
 */
#ifndef WEFT_CMD_WAITERS_H
#define WEFT_CMD_WAITERS_H

#include <weft/sync.h>

#include "ledger.h"
#include "queue/lock.h"

enum { WAITERS_BUCKETS = 256 };

/* One transaction that somebody waits for; in the request's own memory. */
struct waiter {
    hash32 tx;
    bool waits;       /* it is in the table */
    weft_group *left; /* how many of the request's are not in a block yet */
    struct waiter *next, **at;
};

struct waiters {
    struct wefti_lock lock;
    size_t count;
    struct waiter *buckets[WAITERS_BUCKETS];
};

/* From now on waiters_told takes one off `left`, which is raised by `count`, for each of them. */
void waiters_add(struct waiters *waiters, struct waiter *of, const hash32 *txs, size_t count, weft_group *left);
/* This one no longer waits; if it still did, it is taken off `left`. */
void waiters_remove(struct waiters *waiters, struct waiter *waiter);
void waiters_told(struct waiters *waiters, const struct ledger_receipt *receipts, size_t count);

#endif
