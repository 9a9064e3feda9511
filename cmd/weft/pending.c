/* pending.c - two hash tables: by id, by sender. */
#include "pending.h"

#include <errno.h>

#include "bytes.h"

static size_t id_slot(const hash32 *id, size_t buckets) { return get64(id->bytes) & (buckets - 1); }

static size_t name_slot(const char *name, size_t buckets) {
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        value = (value ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return (value ^ value >> 31) & (buckets - 1);
}

/* NULL, or the pointer that points at it. */
static struct pending_tx **find(const struct pending *pending, const hash32 *id) {
    if (!pending->buckets)
        return NULL;
    struct pending_tx **at = &pending->bucket[id_slot(id, pending->buckets)];
    while (*at && memcmp(&(*at)->id, id, sizeof *id))
        at = &(*at)->next;
    return *at ? at : NULL;
}

static struct pending_sender **find_sender(const struct pending *pending, const char *name) {
    if (!pending->sender_buckets)
        return NULL;
    struct pending_sender **at = &pending->senders[name_slot(name, pending->sender_buckets)];
    while (*at && strcmp((*at)->name, name))
        at = &(*at)->next;
    return *at ? at : NULL;
}

enum tx_status pending_status(const struct pending *pending, const hash32 *id) {
    struct pending_tx **at = find(pending, id);
    return !at ? TX_UNKNOWN : (*at)->sender ? TX_PENDING : TX_REFUSED;
}

struct pending_sender *pending_sender(const struct pending *pending, const char *name) {
    struct pending_sender **at = find_sender(pending, name);
    return at ? *at : NULL;
}

/* Twice the buckets; without memory, longer chains. */
static void grow(struct pending *pending) {
    size_t buckets = pending->buckets ? pending->buckets * 2 : 16;
    struct pending_tx **larger = pending->count < pending->buckets ? NULL : mem_new(buckets * sizeof *larger);
    if (larger) {
        for (size_t i = 0; i < pending->buckets; i++)
            for (struct pending_tx *tx = pending->bucket[i], *next; tx; tx = next) {
                next = tx->next;
                tx->next = larger[id_slot(&tx->id, buckets)];
                larger[id_slot(&tx->id, buckets)] = tx;
            }
        free(pending->bucket);
        pending->bucket = larger;
        pending->buckets = buckets;
    }
    buckets = pending->sender_buckets ? pending->sender_buckets * 2 : 16;
    struct pending_sender **wider =
        pending->sender_count < pending->sender_buckets ? NULL : mem_new(buckets * sizeof *wider);
    if (wider) {
        for (size_t i = 0; i < pending->sender_buckets; i++)
            for (struct pending_sender *sender = pending->senders[i], *next; sender; sender = next) {
                next = sender->next;
                sender->next = wider[name_slot(sender->name, buckets)];
                wider[name_slot(sender->name, buckets)] = sender;
            }
        free(pending->senders);
        pending->senders = wider;
        pending->sender_buckets = buckets;
    }
}

/* One transaction of the sender fewer. */
static void leave(struct pending *pending, struct pending_sender *sender) {
    if (--sender->count)
        return;
    struct pending_sender **at = find_sender(pending, sender->name);
    *at = sender->next;
    pending->sender_count--;
    free(sender);
}

static void forget(struct pending *pending, struct pending_tx **at) {
    struct pending_tx *tx = *at;
    *at = tx->next;
    pending->count--;
    if (tx->sender)
        leave(pending, tx->sender);
    free(tx);
}

int pending_add(struct pending *pending, const hash32 *id, const char *name, uint64_t nonce) {
    struct pending_tx **old = find(pending, id);
    if (old) { /* refused before: a second chance */
        struct pending_tx *gone = *old, **link = &pending->oldest, *before = NULL;
        while (*link != gone)
            before = *link, link = &before->newer;
        *link = gone->newer;
        pending->newest = pending->newest == gone ? before : pending->newest;
        pending->refused--;
        forget(pending, old);
    }
    grow(pending);
    struct pending_tx *tx = pending->buckets && pending->sender_buckets ? mem_new(sizeof *tx) : NULL;
    if (!tx)
        return -ENOMEM;
    struct pending_sender *sender = pending_sender(pending, name);
    if (!sender) {
        if (!(sender = mem_new(sizeof *sender + strlen(name) + 1))) {
            free(tx);
            return -ENOMEM;
        }
        strcpy(sender->name, name);
        size_t slot = name_slot(name, pending->sender_buckets);
        sender->next = pending->senders[slot];
        pending->senders[slot] = sender;
        pending->sender_count++;
    }
    sender->nonce = nonce + 1;
    sender->count++;
    tx->sender = sender;
    tx->id = *id;
    size_t slot = id_slot(id, pending->buckets);
    tx->next = pending->bucket[slot];
    pending->bucket[slot] = tx;
    pending->count++;
    return 0;
}

void pending_take_back(struct pending *pending, const hash32 *id) {
    struct pending_tx **at = find(pending, id);
    (*at)->sender->nonce--;
    forget(pending, at);
}

void pending_done(struct pending *pending, const hash32 *id) {
    struct pending_tx **at = find(pending, id);
    if (at && (*at)->sender)
        forget(pending, at);
}

int pending_why(const struct pending *pending, const hash32 *id) {
    struct pending_tx **at = find(pending, id);
    return at && !(*at)->sender ? (*at)->why : 0;
}

void pending_refuse(struct pending *pending, const hash32 *id, uint64_t nonce, int why) {
    struct pending_tx **at = find(pending, id), *tx = at ? *at : NULL;
    if (!tx || !tx->sender)
        return;
    tx->sender->nonce = nonce;
    leave(pending, tx->sender);
    tx->sender = NULL;
    tx->why = why;
    tx->newer = NULL;
    *(pending->newest ? &pending->newest->newer : &pending->oldest) = tx;
    pending->newest = tx;
    if (++pending->refused > PENDING_REFUSED_MAX) {
        struct pending_tx *first = pending->oldest;
        pending->oldest = first->newer;
        pending->refused--;
        forget(pending, find(pending, &first->id));
    }
}

void pending_free(struct pending *pending) {
    for (size_t i = 0; i < pending->buckets; i++)
        while (pending->bucket[i])
            forget(pending, &pending->bucket[i]);
    free(pending->bucket);
    free(pending->senders);
}
