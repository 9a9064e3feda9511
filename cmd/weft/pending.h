/* pending.h - transactions of a shard that are not in a block yet, and the last ones that never will be.
 *
 * Who.    All under the shard's lock.
 * Nonces. A sender's entry lives as long as it has transactions here, and says which nonce comes next; without one, the store says it.
 */
#ifndef WEFT_CMD_PENDING_H
#define WEFT_CMD_PENDING_H

#include "ledger.h"

enum { PENDING_REFUSED_MAX = 1024 };

struct pending_sender {
    struct pending_sender *next;
    uint64_t nonce; /* the next one */
    uint32_t count; /* transactions here that wait */
    char name[];
};
struct pending_tx {
    struct pending_tx *next;  /* in its bucket */
    struct pending_tx *newer; /* of those refused */
    struct pending_sender *sender; /* NULL: refused */
    int why; /* it was refused: a negative error */
    hash32 id;
};
struct pending {
    struct pending_tx **bucket;
    struct pending_sender **senders;
    size_t buckets, sender_buckets, count, sender_count;
    struct pending_tx *oldest, *newest; /* refused */
    size_t refused;
};

enum tx_status pending_status(const struct pending *pending, const hash32 *id); /* TX_PENDING, TX_REFUSED, TX_UNKNOWN */
/* NULL: it has nothing here. */
struct pending_sender *pending_sender(const struct pending *pending, const char *name);
/* Add one whose nonce was found right.  `nonce` is the sender's next one without it.  0 or -ENOMEM. */
int pending_add(struct pending *pending, const hash32 *id, const char *sender, uint64_t nonce);
/* The last one added is not to be, after all. */
void pending_take_back(struct pending *pending, const hash32 *id);
/* It is in a block. */
void pending_done(struct pending *pending, const hash32 *id);
/* It will not be, because of that error. Its sender goes on with `nonce`. */
void pending_refuse(struct pending *pending, const hash32 *id, uint64_t nonce, int why);
/* Why it was refused: a negative error; 0: it was not, or that is forgotten. */
int pending_why(const struct pending *pending, const hash32 *id);
void pending_free(struct pending *pending);

#endif
