/* overlay.h - a batch's changes over a keep's contents: read through, write here, undo one transaction.
 *
 * Values that were read stay here too, so a batch asks the keep once for each key.  Keys begin with the keep's letter ('s' or 'n').
 */
#ifndef WEFT_CMD_OVERLAY_H
#define WEFT_CMD_OVERLAY_H

#include "block.h"
#include "keep.h"

struct overlay_entry {
    uint64_t hash;
    size_t key, value; /* offsets in `text` */
    uint32_t key_size, value_size;
    bool present, dirty;
};
struct overlay_undo {
    uint32_t entry;
    struct overlay_entry before;
};

struct overlay {
    struct keep_view *view;
    struct bytes text;    /* keys and values */
    struct bytes entries; /* struct overlay_entry */
    struct bytes undo;    /* of the transaction under way */
    uint32_t *slot;       /* index + 1 of an entry */
    size_t slots;
};

void overlay_begin(struct overlay *overlay, struct keep_view *view);
/* 1 and the value, valid until the next call; 0: there is none; -ENOMEM, -EBADMSG (the keep's is damaged). */
int overlay_get(struct overlay *overlay, const void *key, size_t key_size, const void **value, size_t *size);
/* value NULL: away with it.  `value` must not be of the overlay.  0 or as get. */
int overlay_put(struct overlay *overlay, const void *key, size_t key_size, const void *value, size_t size);
void overlay_settle(struct overlay *overlay); /* the transaction's changes stay */
void overlay_undo(struct overlay *overlay);   /* they do not */
/* What changed, in the order in which keys were first seen; the caller frees it.  0 or -ENOMEM. */
int overlay_diff(struct overlay *overlay, struct block_write **out, size_t *count);
void overlay_free(struct overlay *overlay);

/* A state's value as the keep has it: a CRC of key and value before it. */
uint32_t state_crc(const void *key, size_t key_size, const void *value, size_t size);
/* Read it: 0 or -EBADMSG. */
int state_open(const void *key, size_t key_size, const void **value, size_t *size);

#endif
