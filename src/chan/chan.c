/* chan.c - channels: making, sharing, closing and freeing them. */
#include "chan/chan.h"

#define BLOCK_BYTES 2048u /* of an unbounded channel's buffer, about */
#define BLOCK_VALUES 8u   /* ... at least */

static bool is_sane(size_t value_size, size_t capacity) {
    return value_size <= WEFT_CHAN_VALUE_MAX && (capacity <= WEFT_CHAN_CAPACITY_MAX || capacity == WEFT_UNBOUNDED);
}

static void set_up(struct wefti_chan *ch, size_t value_size, size_t capacity, void *buffer, uint32_t refs) {
    ch->size = (uint16_t)value_size;
    ch->buffer = buffer;
    ch->capacity = (uint32_t)capacity;
    if (capacity == WEFT_UNBOUNDED) {
        uint32_t values = value_size ? BLOCK_BYTES / (uint32_t)value_size : BLOCK_BYTES;
        ch->capacity = WEFTI_CHAN_UNBOUNDED;
        ch->unbounded = true;
        ch->block_values = (uint16_t)(values > BLOCK_VALUES ? values : BLOCK_VALUES);
    }
    store_relaxed(&ch->refs, refs); /* nobody else knows it yet */
}

/* `more`: bytes at the end for somebody else. */
static struct wefti_chan *make(size_t value_size, size_t capacity, uint32_t refs, size_t more, int *error) {
    *error = -EINVAL;
    if (!is_sane(value_size, capacity))
        return NULL;
    size_t bytes =
        sizeof(weft_chan) + (capacity == WEFT_UNBOUNDED ? 0 : (capacity * value_size + 7) & ~(size_t)7) + more;
    if (bytes > UINT32_MAX)
        return NULL;
    struct wefti_chan *ch = wefti_alloc(bytes);
    *error = ch ? 0 : -ENOMEM;
    if (!ch)
        return NULL;
    set_up(ch, value_size, capacity, capacity == WEFT_UNBOUNDED ? NULL : (char *)ch + sizeof(weft_chan), refs);
    ch->bytes = (uint32_t)bytes;
    return ch;
}

struct wefti_chan *wefti_chan_make(size_t value_size, size_t capacity, uint32_t refs, int *error) {
    return make(value_size, capacity, refs, 0, error);
}

/* Of a channel that is `counted`. */
static struct wefti_chan_use *use_of(struct wefti_chan *ch) {
    return (struct wefti_chan_use *)(void *)((char *)ch + ch->bytes - sizeof(struct wefti_chan_use));
}

int weft_chan_create(size_t value_size, size_t capacity, weft_chan **out) {
    int error = out ? wefti_chan_may_make() : -EINVAL;
    struct wefti_chan *ch = error ? NULL : wefti_chan_make(value_size, capacity, 1, &error);
    if (ch)
        *out = (weft_chan *)(void *)ch;
    return error;
}

int weft_chan_create_with(weft_runtime *rt, const weft_cap *cap, size_t value_size, size_t capacity, weft_chan **out) {
    uint32_t use;
    rt = rt ? rt : weft_runtime_current();
    if (!rt || !cap || !out || !is_sane(value_size, capacity))
        return -EINVAL;
    int error = wefti_cap_channel(rt, cap, capacity == WEFT_UNBOUNDED ? UINT32_MAX : (uint32_t)capacity, &use);
    if (error)
        return error;
    struct wefti_chan *ch = make(value_size, capacity, 1, sizeof(struct wefti_chan_use), &error);
    if (!ch) {
        wefti_cap_end(rt, use);
        return error;
    }
    ch->counted = true;
    *use_of(ch) = (struct wefti_chan_use){rt, use};
    *out = (weft_chan *)(void *)ch;
    return 0;
}

int weft_chan_init(weft_chan *room, size_t value_size, size_t capacity, void *buffer) {
    bool needs_buffer = value_size > 0 && capacity > 0 && capacity != WEFT_UNBOUNDED;
    int error = room && is_sane(value_size, capacity) && (buffer || !needs_buffer) ? wefti_chan_may_make() : -EINVAL;
    if (error)
        return error;
    memset(room, 0, sizeof *room);
    set_up(wefti_chan_of(room), value_size, capacity, capacity == WEFT_UNBOUNDED ? NULL : buffer, 1);
    return 0;
}

/* -- Ending ------------------------------------------------------------------------------------------------ */

static void free_cells(struct wefti_chan *ch, struct wefti_cell *cell) {
    for (struct wefti_cell *next; cell; cell = next) {
        next = cell->next;
        wefti_free(cell, sizeof *cell + ch->size);
    }
}

static void free_all(struct wefti_chan *ch) {
    if (ch->capacity == WEFTI_CHAN_UNBOUNDED) {
        struct wefti_block *block = (struct wefti_block *)(void *)ch->buffer;
        for (struct wefti_block *next; block; block = next) {
            next = block->next;
            wefti_chan_block_free(ch, block);
        }
        if (ch->spare)
            wefti_chan_block_free(ch, ch->spare);
    }
    free_cells(ch, ch->cells);
    free_cells(ch, ch->returned);
    if (ch->counted)
        wefti_cap_end(use_of(ch)->rt, use_of(ch)->use);
    if (ch->bytes)
        wefti_free(ch, ch->bytes);
}

static bool is_waited_for(struct wefti_chan *ch) {
    return ch->receivers.first || ch->senders.first || ch->lent || ch->strays;
}

void wefti_chan_end(struct wefti_chan *ch) {
    wefti_chan_lock(ch); /* rule 4: who has served us may not have given it back yet */
    bool waited = is_waited_for(ch);
    wefti_chan_unpublish(ch);
    wefti_bias_give(&ch->lock);
    if (WEFTI_UNLIKELY(waited))
        wefti_misuse("weft_chan_drop", "the last handle is dropped while somebody waits for the channel");
    free_all(ch);
}

int weft_chan_destroy(weft_chan *handle) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    if (!ch)
        return 0;
    wefti_chan_lock(ch);
    /* Acquire: the others' use is over; pairs with weft_chan_drop. */
    bool busy = is_waited_for(ch) || load_acquire(&ch->refs) != 1;
    if (!busy)
        wefti_chan_unpublish(ch);
    wefti_bias_give(&ch->lock);
    if (busy)
        return -EBUSY;
    free_all(ch);
    return 0;
}

int weft_chan_fini(weft_chan *ch) { return weft_chan_destroy(ch); }

weft_chan *weft_chan_clone(weft_chan *handle) {
    if (!handle)
        return NULL;
    wefti_refs_add(&wefti_chan_of(handle)->refs, "weft_chan_clone");
    return handle;
}

void weft_chan_drop(weft_chan *handle) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    if (!ch)
        return;
    uint32_t found = sub_acq_rel(&ch->refs, 1); /* release: our use is over; acquire: so is everyone's */
    if (WEFTI_UNLIKELY(found == 0))
        wefti_misuse("weft_chan_drop", "the last handle of this channel has been dropped before");
    if (found == 1)
        wefti_chan_end(ch);
}

/* -- Closing ----------------------------------------------------------------------------------------------- */

void weft_chan_close(weft_chan *handle) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    if (!ch)
        return;
    wefti_waker wakers[WEFTI_CHAN_WAKES];
    unsigned count;
    do { /* once it is closed nobody joins the lists */
        struct wefti_waiter *waiter;
        count = 0;
        wefti_chan_lock(ch);
        ch->closed = true;
        while (count < WEFTI_CHAN_WAKES && ((waiter = wefti_waiters_take_count(&ch->receivers, &ch->strays)) ||
                                            (waiter = wefti_waiters_take_count(&ch->senders, &ch->strays)))) {
            waiter->result = -EPIPE;
            wakers[count++] = wefti_waiter_serve(waiter);
        }
        wefti_bias_give(&ch->lock);
        for (unsigned i = 0; i < count; i++)
            wefti_waiter_wake(wakers[i]);
    } while (count == WEFTI_CHAN_WAKES);
}

/* -- Looking ----------------------------------------------------------------------------------------------- */

bool weft_chan_is_closed(weft_chan *handle) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    if (!ch)
        return true;
    wefti_chan_lock(ch);
    bool closed = ch->closed;
    wefti_bias_give(&ch->lock);
    return closed;
}

size_t weft_chan_length(weft_chan *handle) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    if (!ch)
        return 0;
    wefti_chan_lock(ch);
    size_t count = ch->count;
    wefti_bias_give(&ch->lock);
    return count;
}

size_t weft_chan_capacity(const weft_chan *handle) {
    const struct wefti_chan *ch = (const struct wefti_chan *)(const void *)handle;
    if (!ch)
        return 0;
    return ch->capacity == WEFTI_CHAN_UNBOUNDED ? WEFT_UNBOUNDED : ch->capacity;
}
