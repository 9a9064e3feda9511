/* buffer.c - the buffer of an unbounded channel: a list of blocks; and values that were given back. */
#include "chan/chan.h"

static size_t block_bytes(const struct wefti_chan *ch) {
    return sizeof(struct wefti_block) + (size_t)ch->block_values * ch->size;
}

void wefti_chan_block_free(struct wefti_chan *ch, struct wefti_block *block) { wefti_free(block, block_bytes(ch)); }

bool wefti_chan_put_block(struct wefti_chan *ch, const void *value) {
    if (!ch->last || ch->tail == ch->block_values) {
        struct wefti_block *block = ch->spare;
        if (!block)
            return false;
        ch->spare = NULL;
        block->next = NULL;
        if (ch->last)
            ch->last->next = block;
        else
            ch->buffer = (char *)block;
        ch->last = block;
        ch->tail = 0;
    }
    wefti_chan_copy(ch->last->values + (size_t)ch->tail++ * ch->size, value, ch->size);
    return true;
}

struct wefti_block *wefti_chan_take_block(struct wefti_chan *ch, void *value) {
    struct wefti_block *block = (struct wefti_block *)(void *)ch->buffer;
    wefti_chan_copy(value, block->values + (size_t)ch->head++ * ch->size, ch->size);
    if (block == ch->last) {
        if (ch->head == ch->tail) /* empty: begin anew in the same block */
            ch->head = ch->tail = 0;
        return NULL;
    }
    if (ch->head < ch->block_values)
        return NULL;
    ch->buffer = (char *)block->next;
    ch->head = 0;
    if (ch->spare)
        return block;
    ch->spare = block;
    return NULL;
}

int wefti_chan_more(struct wefti_chan *ch) {
    struct wefti_block *block = wefti_alloc(block_bytes(ch));
    if (!block)
        return -ENOMEM;
    wefti_chan_lock(ch);
    if (!ch->spare) {
        ch->spare = block;
        block = NULL;
    }
    wefti_bias_give(&ch->lock);
    if (block) /* somebody else was as busy */
        wefti_chan_block_free(ch, block);
    return 0;
}

void wefti_chan_take_returned(struct wefti_chan *ch, void *value) {
    struct wefti_cell *cell = ch->returned;
    ch->returned = cell->next;
    ch->gave_back = ch->returned != NULL;
    wefti_chan_copy(value, cell->value, ch->size);
    cell->next = ch->cells;
    ch->cells = cell;
}
