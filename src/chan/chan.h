/* chan.h - the channel object, and what happens under its lock.  Internal.
 *
 * What.   A lock, a buffer, and two lists of waiters.  Everything is done under the lock, in a few dozen instructions; who is to be
 *         woken is woken after it.
 * Rules.  1 A receiver waits only while the buffer is empty, a sender only while it is full; so never both, but for records of
 *           selects that are over (wait.h), which whoever meets them takes out.
 *         2 A value for a receiver that waits goes straight to its slot; a waiting sender's value goes into the buffer as soon as there is
 *           room, by whoever made the room.  So order is kept, and who is woken has nothing left to do.
 *         3 Closed: nobody waits.
 *         4 The last touch of a server is giving the lock back, and who was served does not come back.  So a channel may be freed by who has
 *           the lock once, and then no more calls: wefti_chan_end.  Selects that have got something elsewhere do come by, and who has given up:
 *           `strays`.
 * Reactor.  A fiber of a runtime with a control thread that sends or receives, and may wait, resolves no waiter itself: it uses the buffer, or
 *         waits, and publishes the channel to its control thread, which resolves the waiters (control.c).  Meanwhile rules 1 and 2 do
 *         not hold: `pending`.  All others take the lock by way of wefti_chan_lock, which resolves what is pending first, so that for
 *         them the rules always hold.
 * Cells.  A poll task that waits has its value in a cell, which is the channel's: a value that was granted and never fetched goes back to the
 *         front, with its cell, and no memory is needed for it.  Cells are kept for the next one.
 * Checked by.  test/model/chan.c, test/model/chan_control.c
 */
#ifndef WEFTI_CHAN_CHAN_H
#define WEFTI_CHAN_CHAN_H

#include <string.h>
#include <weft/chan.h>

#include "base/refs.h"
#include "budget/cap.h"
#include "fiber/slice.h"
#include "fiber/wait.h"
#include "queue/bias.h"
#include "task/account.h"

#define WEFTI_CHAN_UNBOUNDED UINT32_MAX
#define WEFTI_CHAN_WAKES 16 /* how many are served in one turn under the lock */

/* A piece of an unbounded channel's buffer. */
struct wefti_block {
    struct wefti_block *next;
    _Alignas(16) char values[];
};

struct wefti_cell {
    struct wefti_cell *next;
    uint64_t turn; /* when it began to wait: returned values keep that order */
    _Alignas(16) char value[];
};

/* The capability that a channel was made with. */
struct wefti_chan_use {
    struct weft_runtime *rt;
    uint32_t use;
};

struct wefti_chan {
    struct wefti_bias lock;
    struct wefti_waiters receivers, senders;
    char *buffer;        /* capacity values; or the first block */
    uint32_t head, tail; /* index of the oldest value, and of the next one; in the first and the last block */
    uint32_t count;      /* of values, returned ones too */
    uint32_t capacity;   /* or WEFTI_CHAN_UNBOUNDED */
    union {
        struct {
            uint16_t size; /* of a value */
            bool closed;
            union {
                struct {
                    bool pending : 1;   /* rules 1 and 2 may not hold: resolve */
                    bool unbounded : 1; /* `capacity` is WEFTI_CHAN_UNBOUNDED */
                    bool gave_back : 1; /* `returned` is not NULL */
                };
                uint8_t unusual; /* one of them is set */
            };
        };
        uint32_t shape; /* all of these, for one comparison: wefti_chan_is_usual */
    };
    uint16_t block_values;  /* unbounded: in each block */
    _Atomic bool published; /* `link` is in a queue of a control thread; written under the lock */
    bool counted;           /* by a capability: a wefti_chan_use is at the end of its memory */

    /* Unbounded: all but the last block are full from `head` on. */
    struct wefti_block *last, *spare;

    struct wefti_cell *cells;    /* free */
    struct wefti_cell *returned; /* values granted and given back: older than the buffer's; by `turn` */
    uint64_t turns;
    uint32_t lent; /* cells in use */
    uint32_t
        strays; /* records of selects that are over and of who has given up, taken out before these have come by (wait.h) */
    _Atomic uint32_t refs;
    uint32_t bytes; /* of our memory; 0: the caller's */
    struct wefti_link link;
};
_Static_assert(sizeof(struct wefti_chan) <= sizeof(weft_chan), "room enough");

/* Is it bounded, are its values words, and has nothing of it to be resolved or taken from `returned`?  Open: and is it not closed? */
static inline bool wefti_chan_is_usual(const struct wefti_chan *ch, bool open) {
    const struct wefti_chan usual = {.size = 8}, mask = {.size = UINT16_MAX, .closed = open, .unusual = UINT8_MAX};
    return (ch->shape & mask.shape) == usual.shape;
}

/* Is the channel open, with nothing pending?  Then a caller that finds no value and no sender has to wait. */
static inline bool wefti_chan_is_settled(const struct wefti_chan *ch) {
    const struct wefti_chan mask = {.closed = true, .pending = true};
    return !(ch->shape & mask.shape);
}

static inline struct wefti_chan *wefti_chan_of(weft_chan *ch) { return (struct wefti_chan *)(void *)ch; }

/* How often in a row makes `w` the owner of the lock.  Where a control thread takes it for every value that is waited for: never. */
static inline uint32_t wefti_chan_streak(const struct wefti_worker *w) {
    return w && !w->central ? w->rt->bias_streak : 0;
}

/* The lock is held, and something is pending: resolve all that can be.  Lets go of the lock meanwhile. */
void wefti_chan_settle(struct wefti_chan *ch);

/* Only in functions that never wait, and are not inlined into one that does: a compiler may keep the address of a thread-local, and a
 * fiber may have come to another thread since. */
static inline void wefti_chan_lock_fast(struct wefti_chan *ch) {
    struct wefti_worker *w = wefti_worker_self();
    wefti_bias_take(&ch->lock, w, wefti_chan_streak(w));
    if (WEFTI_UNLIKELY(ch->pending))
        wefti_chan_settle(ch);
}
/* Anywhere; the caller deals with what is pending. */
static inline void wefti_chan_lock_only(struct wefti_chan *ch) {
    struct wefti_worker *w = wefti_worker_here();
    wefti_bias_take(&ch->lock, w, wefti_chan_streak(w));
}
/* Anywhere. */
static inline void wefti_chan_lock(struct wefti_chan *ch) {
    wefti_chan_lock_only(ch);
    if (WEFTI_UNLIKELY(ch->pending))
        wefti_chan_settle(ch);
}

/* May the caller make one without a capability?  0; -EPERM. */
static inline int wefti_chan_may_make(void) {
    struct weft_runtime *rt = weft_runtime_current();
    uint32_t use;
    return WEFTI_LIKELY(!rt || rt->profile != WEFT_PROFILE_SOVEREIGN) ? 0 : wefti_cap_channel(rt, NULL, 0, &use);
}

static inline void wefti_chan_copy(void *to, const void *from, uint32_t size) {
    if (WEFTI_LIKELY(size == 8))
        memcpy(to, from, 8);
    else if (size == 4)
        memcpy(to, from, 4);
    else if (size)
        memcpy(to, from, size);
}

/* -- buffer.c: unbounded ------------------------------------------------------------------------------------ */
/* Under the lock.  False: there is no block for it; then `more` without the lock, and try again. */
bool wefti_chan_put_block(struct wefti_chan *ch, const void *value);
/* Under the lock: free what it returns (may be NULL) after it. */
struct wefti_block *wefti_chan_take_block(struct wefti_chan *ch, void *value);
/* Without the lock.  0; -ENOMEM. */
int wefti_chan_more(struct wefti_chan *ch);
void wefti_chan_block_free(struct wefti_chan *ch, struct wefti_block *block);
/* Under the lock: a value that was given back. */
void wefti_chan_take_returned(struct wefti_chan *ch, void *value);

/* -- chan.c -------------------------------------------------------------------------------------------------- */
struct wefti_chan *wefti_chan_make(size_t value_size, size_t capacity, uint32_t refs, int *error);
/* The last use: be sure that nobody is inside, and free.  Nobody waits. */
void wefti_chan_end(struct wefti_chan *ch);

/* -- Under the lock ------------------------------------------------------------------------------------------ */

/* There is room in the buffer, or a value, of a channel that is not unbounded. */
static inline void wefti_chan_put_bounded(struct wefti_chan *ch, const void *value, uint32_t size) {
    uint32_t tail = ch->tail;
    wefti_chan_copy(ch->buffer + (size_t)tail * size, value, size);
    ch->tail = tail + 1 == ch->capacity ? 0 : tail + 1;
    ch->count++;
}
static inline void wefti_chan_take_bounded(struct wefti_chan *ch, void *value, uint32_t size) {
    uint32_t head = ch->head;
    wefti_chan_copy(value, ch->buffer + (size_t)head * size, size);
    ch->head = head + 1 == ch->capacity ? 0 : head + 1;
    ch->count--;
}

/* There is room in the buffer: false as wefti_chan_put_block. */
static inline bool wefti_chan_put(struct wefti_chan *ch, const void *value) {
    if (WEFTI_UNLIKELY(ch->capacity == WEFTI_CHAN_UNBOUNDED)) {
        if (!wefti_chan_put_block(ch, value))
            return false;
        ch->count++;
    } else {
        wefti_chan_put_bounded(ch, value, ch->size);
    }
    return true;
}

/* Send one value, if it can be done now: 0, and *waker (if not 0) is to be woken; -EPIPE; -EAGAIN; -ENOMEM: as
 * wefti_chan_put_block. */
static inline int wefti_chan_send_now(struct wefti_chan *ch, const void *value, wefti_waker *waker) {
    struct wefti_waiter *receiver;
    *waker = 0;
    if (WEFTI_UNLIKELY(ch->closed))
        return -EPIPE;
    if (ch->receivers.first && (receiver = wefti_waiters_take_count(&ch->receivers, &ch->strays))) {
        wefti_chan_copy(receiver->slot, value, ch->size);
        receiver->result = 0;
        *waker = wefti_waiter_serve(receiver);
        return 0;
    }
    if (ch->count >= ch->capacity)
        return -EAGAIN;
    return wefti_chan_put(ch, value) ? 0 : -ENOMEM;
}

/* There is a value: take it.  Returns a block to be freed, or NULL. */
static inline struct wefti_block *wefti_chan_take_only(struct wefti_chan *ch, void *value) {
    struct wefti_block *empty = NULL;
    if (WEFTI_LIKELY(!ch->unusual || (!ch->gave_back && !ch->unbounded))) {
        wefti_chan_take_bounded(ch, value, ch->size);
        return NULL;
    }
    if (ch->gave_back)
        wefti_chan_take_returned(ch, value);
    else
        empty = wefti_chan_take_block(ch, value);
    ch->count--;
    return empty;
}

/* The same, and let a sender that waits have the room. */
static inline struct wefti_block *wefti_chan_take(struct wefti_chan *ch, void *value, wefti_waker *waker) {
    struct wefti_block *empty = wefti_chan_take_only(ch, value);
    struct wefti_waiter *sender;
    if (ch->senders.first && ch->count < ch->capacity &&
        (sender = wefti_waiters_take_count(&ch->senders, &ch->strays))) {
        wefti_chan_put(ch, sender->slot);
        sender->result = 0;
        *waker = wefti_waiter_serve(sender);
    }
    return empty;
}

/* Receive one value, if it can be done now: 0, and *waker (if not 0) is to be woken, *empty to be freed; -EPIPE; -EAGAIN. */
static inline int wefti_chan_recv_now(struct wefti_chan *ch, void *value, wefti_waker *waker,
                                      struct wefti_block **empty) {
    struct wefti_waiter *sender;
    *waker = 0;
    *empty = NULL;
    if (ch->count) {
        *empty = wefti_chan_take(ch, value, waker);
        return 0;
    }
    if (ch->senders.first && (sender = wefti_waiters_take_count(&ch->senders, &ch->strays))) { /* a rendezvous */
        wefti_chan_copy(value, sender->slot, ch->size);
        sender->result = 0;
        *waker = wefti_waiter_serve(sender);
        return 0;
    }
    return ch->closed ? -EPIPE : -EAGAIN;
}

/* -- The same with the lock ---------------------------------------------------------------------------------- */

/* Give the lock back, and do what was left for afterwards. */
static inline void wefti_chan_unlock(struct wefti_chan *ch, wefti_waker waker) {
    wefti_bias_give(&ch->lock);
    if (waker)
        wefti_waiter_wake(waker);
}

/* 0; -EPIPE; -ENOMEM.  -EAGAIN: it would have to wait, and the lock is still held. */
int wefti_chan_send_locking(struct wefti_chan *ch, const void *value);
int wefti_chan_recv_locking(struct wefti_chan *ch, void *value);
/* Wait in `list`; the lock is held, and given back.  w: the calling worker, or NULL.  0 or -EPIPE: what the server says; else it has not been
 * served. */
int wefti_chan_wait(struct wefti_chan *ch, struct wefti_worker *w, struct wefti_waiters *list, void *slot,
                    weft_deadline until, const char *what);
/* -- control.c ------------------------------------------------------------------------------------------------ */

/* Does the caller leave all waiters to a control thread?  A fiber on worker `w` (or NULL) that may wait: a cancelled fiber, or one whose
 * deadline has passed, takes what is there at once, as with WEFT_NOW. */
bool wefti_chan_may_wait(const struct wefti_worker *w, weft_deadline until);
static inline bool wefti_chan_is_controlled(const struct wefti_worker *w, weft_deadline until) {
    return WEFTI_UNLIKELY(w && w->central) && until > 0 && wefti_chan_may_wait(w, until);
}
/* For such a caller, the lock is not held: 0; -EPIPE; -ENOMEM; or what a wait ends with. */
int wefti_chan_send_controlled(struct wefti_chan *ch, struct wefti_worker *w, const void *value, weft_deadline until);
int wefti_chan_recv_controlled(struct wefti_chan *ch, struct wefti_worker *w, void *value, weft_deadline until);
/* values[*sent] and those after it, as many as have room, or one that it had to wait for; *sent moves on.  Errors as send_controlled. */
int wefti_chan_send_many_controlled(struct wefti_chan *ch, struct wefti_worker *w, const char *values, size_t count,
                                    size_t *sent, weft_deadline until);
/* As many as are there: how many; or one that it had to wait for; or the error of that wait. */
int wefti_chan_recv_many_controlled(struct wefti_chan *ch, struct wefti_worker *w, char *values, size_t count,
                                    weft_deadline until);
/* Of a channel that is about to be freed, the lock is held, and held again: no control thread has it. */
void wefti_chan_unpublish(struct wefti_chan *ch);

#endif
