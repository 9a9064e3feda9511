/* transfer.c - sending and receiving, one value or many (chan.h has the rules). */
#include "chan/chan.h"

#define BLOCK_CALLS 32 /* a few microseconds */

/* A block of an unbounded channel is empty: it stands for the calls before. */
static __attribute__((noinline)) int emptied(struct wefti_chan *ch, struct wefti_block *empty) {
    struct wefti_worker *w = wefti_worker_self();
    wefti_chan_block_free(ch, empty);
    if (!w)
        return 0;
    w->calls_left -= BLOCK_CALLS;
    return wefti_turn_count(w) ? WEFTI_CHAN_TURN : 0;
}

__attribute__((noinline)) int wefti_chan_send_locking(struct wefti_chan *ch, const void *value) {
    struct wefti_worker *w = wefti_worker_self(); /* as in wefti_chan_lock_fast */
    for (;;) {
        wefti_waker waker;
        wefti_bias_take(&ch->lock, w, w ? w->rt->bias_streak : 0);
        struct wefti_waiter *receiver = ch->receivers.first;
        if (receiver && w && !receiver->choice && !ch->closed &&
            wefti_waiter_is_here(receiver, w)) { /* as send_now, for one of our own */
            wefti_waiters_remove(&ch->receivers, receiver);
            wefti_chan_copy(receiver->slot, value, ch->size);
            receiver->result = 0;
            struct weft_task *task = wefti_waiter_serve_here(receiver);
            wefti_bias_give(&ch->lock);
            wefti_waiter_wake_here(w, task);
            return 0;
        }
        int error = wefti_chan_send_now(ch, value, &waker);
        if (WEFTI_UNLIKELY(error == -EAGAIN))
            return error;
        wefti_chan_unlock(ch, waker);
        if (WEFTI_LIKELY(error != -ENOMEM))
            return error;
        if ((error = wefti_chan_more(ch)))
            return error;
    }
}

__attribute__((noinline)) int wefti_chan_recv_locking(struct wefti_chan *ch, void *value) {
    wefti_waker waker;
    struct wefti_block *empty;
    wefti_chan_lock_fast(ch);
    int error = wefti_chan_recv_now(ch, value, &waker, &empty);
    if (WEFTI_UNLIKELY(error == -EAGAIN))
        return error;
    wefti_chan_unlock(ch, waker);
    return WEFTI_UNLIKELY(empty != NULL) ? emptied(ch, empty) : error;
}

/* Wait in `list`; the lock is held, and given back.  0 or -EPIPE: what the server says; else it has not been served. */
static int wait_in(struct wefti_chan *ch, struct wefti_waiters *list, void *slot, weft_deadline until,
                   const char *what) {
    struct wefti_waiter waiter;
    struct wefti_fiber *self = wefti_fiber_self();
    int error = until <= 0 ? -ETIMEDOUT : 0;
    if (WEFTI_LIKELY(self != NULL))
        wefti_waiter_init_task(&waiter, &self->task);
    else if (!error)
        error = wefti_waiter_init(&waiter);
    if (WEFTI_UNLIKELY(error != 0)) {
        wefti_bias_give(&ch->lock);
        return error;
    }
    waiter.slot = slot;
    wefti_waiters_append(list, &waiter);
    wefti_bias_give(&ch->lock);
    error = WEFTI_LIKELY(self != NULL) ? wefti_waiter_wait_fiber(&waiter, self, until, what)
                                       : wefti_waiter_wait(&waiter, until, what);
    if (WEFTI_UNLIKELY(error != 0) &&
        wefti_waiter_give_up(&waiter)) { /* else served after all, and the channel may be gone */
        wefti_chan_lock(ch);
        ch->strays -= wefti_waiters_end(list, &waiter);
        wefti_bias_give(&ch->lock);
        return error;
    }
    return (int)waiter.result;
}

static __attribute__((noinline)) int end_turn(weft_deadline until) {
    wefti_turn_end(until);
    return 0;
}

static int send_waiting(struct wefti_chan *ch, const void *value, weft_deadline until) {
    return wait_in(ch, &ch->senders, (void *)(uintptr_t)value, until,
                   wefti_words(WEFTI_ROOM)); /* the server only reads */
}

static int recv_waiting(struct wefti_chan *ch, void *value, weft_deadline until) {
    return wait_in(ch, &ch->receivers, value, until, wefti_words(WEFTI_A_VALUE));
}

int weft_chan_send(weft_chan *handle, const void *value, weft_deadline until) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    int error = WEFTI_LIKELY(ch != NULL) ? wefti_charge_channel_call() : -EINVAL;
    if (WEFTI_UNLIKELY(error != 0))
        return error;
    error = wefti_chan_send_locking(ch, value);
    return error == -EAGAIN ? send_waiting(ch, value, until) : error;
}

int weft_chan_recv(weft_chan *handle, void *value, weft_deadline until) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    int error = WEFTI_LIKELY(ch != NULL) ? wefti_charge_channel_call() : -EINVAL;
    if (WEFTI_UNLIKELY(error != 0))
        return error;
    error = wefti_chan_recv_locking(ch, value);
    if (error == -EAGAIN)
        return recv_waiting(ch, value, until);
    return WEFTI_UNLIKELY(error == WEFTI_CHAN_TURN) ? end_turn(until) : error;
}

/* -- Many ---------------------------------------------------------------------------------------------------- */

/* Those to be woken after the lock was given back. */
struct wakes {
    wefti_waker waker[WEFTI_CHAN_WAKES];
    unsigned count;
};

static void wake_all(struct wakes *wakes) {
    for (unsigned i = 0; i < wakes->count; i++)
        wefti_waiter_wake(wakes->waker[i]);
}

/* As many as go now, and the error of the one that did not: 0, -EPIPE, -EAGAIN with the lock held, -ENOMEM. */
static int send_some(struct wefti_chan *ch, const char *values, size_t count, size_t *sent) {
    for (;;) {
        struct wakes wakes = {.count = 0};
        int error = 0;
        wefti_chan_lock(ch);
        while (!error && *sent < count && wakes.count < WEFTI_CHAN_WAKES) {
            wefti_waker *waker = &wakes.waker[wakes.count];
            if (!(error = wefti_chan_send_now(ch, values + *sent * ch->size, waker))) {
                wakes.count += *waker != 0;
                ++*sent;
            }
        }
        if (error == -EAGAIN && !wakes.count)
            return error;
        wefti_bias_give(&ch->lock);
        wake_all(&wakes);
        if (error == -ENOMEM)
            error = wefti_chan_more(ch);
        if ((error && error != -EAGAIN) || *sent == count)
            return error;
    }
}

int weft_chan_send_many(weft_chan *handle, const void *values, size_t count, weft_deadline until) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    size_t sent = 0;
    if (!ch)
        return -EINVAL;
    weft_deadline turn = ch->capacity == WEFTI_CHAN_UNBOUNDED ? WEFT_NOW : until;
    int error = count > INT32_MAX ? -EINVAL : wefti_charge_channel_call();
    while (!error && sent < count) {
        error = send_some(ch, values, count, &sent);
        if (error == -EAGAIN && !(error = send_waiting(ch, (const char *)values + sent * ch->size, until)))
            sent++;
    }
    wefti_turn_used(turn); /* the channel may be gone */
    return sent ? (int)sent : error;
}

/* As many as are there: how many, or if none -EPIPE, or -EAGAIN with the lock held. */
static int recv_some(struct wefti_chan *ch, char *values, size_t count) {
    size_t got = 0;
    int error = 0;
    while (got < count && !error) {
        struct wakes wakes = {.count = 0};
        struct wefti_block *empty = NULL;
        wefti_chan_lock(ch);
        while (got < count && wakes.count < WEFTI_CHAN_WAKES && !empty) {
            wefti_waker *waker = &wakes.waker[wakes.count];
            if ((error = wefti_chan_recv_now(ch, values + got * ch->size, waker, &empty)))
                break;
            wakes.count += *waker != 0;
            got++;
        }
        if (error == -EAGAIN && !got)
            return error;
        wefti_bias_give(&ch->lock);
        wake_all(&wakes);
        if (empty)
            wefti_chan_block_free(ch, empty);
    }
    return got ? (int)got : error;
}

int weft_chan_recv_many(weft_chan *handle, void *values, size_t count, weft_deadline until) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    if (!ch || count == 0 || count > INT32_MAX)
        return !ch || count ? -EINVAL : 0;
    int error = wefti_charge_channel_call();
    if (error)
        return error;
    int got = recv_some(ch, values, count);
    if (got != -EAGAIN) {
        wefti_turn_used(until);
        return got;
    }
    error = recv_waiting(ch, values, until);
    return error ? error
                 : 1; /* more may have come meanwhile; but with its last value the channel may have gone (rule 4) */
}
