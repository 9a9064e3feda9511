/* transfer.c - sending and receiving, one value or many (chan.h has the rules). */
#include "chan/chan.h"

/* -- The usual way ------------------------------------------------------------------------------------------- */

/* Of a channel with values of a word that the calling worker has for its own.  It calls nothing, so that it needs no frame; all else is in
 * functions that are called last. */

/* The first receiver, if it waits for nothing else, and is one of ours. */
static inline struct wefti_waiter *own_receiver(const struct wefti_chan *ch, const struct wefti_worker *w) {
    struct wefti_waiter *receiver = ch->receivers.first;
    return receiver && !receiver->choice && wefti_waiter_is_here(receiver, w) ? receiver : NULL;
}

/* As send_now, of a channel that is open. */
static inline struct weft_task *hand_over(struct wefti_chan *ch, struct wefti_waiter *receiver, const void *value,
                                          uint32_t size) {
    wefti_waiters_remove_first(&ch->receivers);
    wefti_chan_copy(receiver->slot, value, size);
    receiver->result = 0;
    return wefti_waiter_serve_here(receiver);
}

/* Inside, as the lock's owner.  True: it was sent, and the lock given back; false: try send_inside. */
static inline __attribute__((always_inline)) bool send_quickly(struct wefti_chan *ch, struct wefti_worker *w,
                                                               const void *value) {
    if (WEFTI_UNLIKELY(!wefti_chan_is_usual(ch, true)))
        return false;
    if (ch->receivers.first) {
        struct wefti_waiter *receiver = own_receiver(ch, w);
        if (WEFTI_UNLIKELY(!receiver))
            return false;
        struct weft_task *task = hand_over(ch, receiver, value, 8);
        wefti_bias_give_own(&ch->lock);
        wefti_waiter_wake_here(w, task);
        return true;
    }
    if (WEFTI_UNLIKELY(ch->count >= ch->capacity))
        return false;
    wefti_chan_put_bounded(ch, value, 8);
    wefti_bias_give_own(&ch->lock);
    return true;
}

/* The same for recv_inside. */
static inline __attribute__((always_inline)) bool recv_quickly(struct wefti_chan *ch, void *value) {
    if (WEFTI_UNLIKELY(!ch->count || !wefti_chan_is_usual(ch, false) || ch->senders.first))
        return false;
    wefti_chan_take_bounded(ch, value, 8);
    wefti_bias_give_own(&ch->lock);
    return true;
}

/* -- With the lock held ---------------------------------------------------------------------------------------- */

/* Given back, but for -EAGAIN. */
static __attribute__((noinline)) int send_inside(struct wefti_chan *ch, struct wefti_worker *w, const void *value) {
    if (WEFTI_UNLIKELY(ch->pending))
        wefti_chan_settle(ch);
    for (;;) {
        wefti_waker waker;
        struct wefti_waiter *receiver = w && !ch->closed ? own_receiver(ch, w) : NULL;
        if (receiver) {
            struct weft_task *task = hand_over(ch, receiver, value, ch->size);
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
        wefti_chan_lock_fast(ch);
    }
}

static __attribute__((noinline)) int recv_inside(struct wefti_chan *ch, void *value) {
    wefti_waker waker;
    struct wefti_block *empty;
    if (WEFTI_UNLIKELY(ch->pending))
        wefti_chan_settle(ch);
    int error = wefti_chan_recv_now(ch, value, &waker, &empty);
    if (WEFTI_UNLIKELY(error == -EAGAIN))
        return error;
    wefti_chan_unlock(ch, waker);
    if (WEFTI_UNLIKELY(empty != NULL))
        wefti_chan_block_free(ch, empty);
    return error;
}

static __attribute__((noinline)) int lock_and_send(struct wefti_chan *ch, struct wefti_worker *w, const void *value) {
    wefti_bias_take_slow(&ch->lock, w, wefti_chan_streak(w));
    return send_inside(ch, w, value);
}

static __attribute__((noinline)) int lock_and_recv(struct wefti_chan *ch, struct wefti_worker *w, void *value) {
    wefti_bias_take_slow(&ch->lock, w, wefti_chan_streak(w));
    return recv_inside(ch, value);
}

__attribute__((noinline)) int wefti_chan_send_locking(struct wefti_chan *ch, const void *value) {
    struct wefti_worker *w = wefti_worker_self(); /* as in wefti_chan_lock_fast */
    if (WEFTI_UNLIKELY(!wefti_bias_own(&ch->lock, w)))
        return lock_and_send(ch, w, value);
    return WEFTI_LIKELY(send_quickly(ch, w, value)) ? 0 : send_inside(ch, w, value);
}

__attribute__((noinline)) int wefti_chan_recv_locking(struct wefti_chan *ch, void *value) {
    struct wefti_worker *w = wefti_worker_self(); /* as in wefti_chan_lock_fast */
    if (WEFTI_UNLIKELY(!wefti_bias_own(&ch->lock, w)))
        return lock_and_recv(ch, w, value);
    return recv_quickly(ch, value) ? 0 : recv_inside(ch, value);
}

/* -- Waiting ------------------------------------------------------------------------------------------------- */

/* The lock is held, and given back. */
static inline void append_and_unlock(struct wefti_chan *ch, struct wefti_waiters *list, struct wefti_waiter *waiter,
                                     void *slot) {
    waiter->slot = slot;
    wefti_waiters_append(list, waiter);
    wefti_bias_give(&ch->lock);
}

/* It has waited, and that was late or cancelled. */
static __attribute__((noinline)) int give_up(struct wefti_chan *ch, struct wefti_waiters *list,
                                             struct wefti_waiter *waiter, int error) {
    if (!wefti_waiter_give_up(waiter)) /* served after all, and the channel may be gone */
        return (int)waiter->result;
    wefti_chan_lock_only(ch); /* settling could serve our own record, which has given up but is still in the list */
    ch->strays -= wefti_waiters_end(list, waiter);
    wefti_bias_give(&ch->lock);
    return error;
}

/* As wefti_chan_wait, of a thread; or of anybody who may not. */
static __attribute__((noinline)) int block_in(struct wefti_chan *ch, struct wefti_waiters *list, void *slot,
                                              weft_deadline until, const char *what) {
    struct wefti_waiter waiter;
    int error = until <= 0 ? -ETIMEDOUT : wefti_waiter_init(&waiter);
    if (error) {
        wefti_bias_give(&ch->lock);
        return error;
    }
    append_and_unlock(ch, list, &waiter, slot);
    error = wefti_waiter_wait(&waiter, until, what);
    return error ? give_up(ch, list, &waiter, error) : (int)waiter.result;
}

__attribute__((noinline)) int wefti_chan_wait(struct wefti_chan *ch, struct wefti_worker *w, struct wefti_waiters *list,
                                              void *slot, weft_deadline until, const char *what) {
    struct wefti_fiber *self = WEFTI_LIKELY(w != NULL) ? wefti_fiber_on(w) : NULL;
    if (WEFTI_UNLIKELY(!self || until <= 0))
        return block_in(ch, list, slot, until, what);
    struct wefti_waiter waiter;
    wefti_waiter_init_task(&waiter, &self->task);
    append_and_unlock(ch, list, &waiter, slot);
    int error = wefti_waiter_wait_fiber(&waiter, w, self, until, what);
    return WEFTI_UNLIKELY(error != 0) ? give_up(ch, list, &waiter, error) : (int)waiter.result;
}

static inline int send_waiting(struct wefti_chan *ch, struct wefti_worker *w, const void *value, weft_deadline until) {
    return wefti_chan_wait(ch, w, &ch->senders, (void *)(uintptr_t)value, until,
                           wefti_words(WEFTI_ROOM)); /* the server only reads */
}

static inline int recv_waiting(struct wefti_chan *ch, struct wefti_worker *w, void *value, weft_deadline until) {
    return wefti_chan_wait(ch, w, &ch->receivers, value, until, wefti_words(WEFTI_A_VALUE));
}

/* The slow path is taken when the slice has to be looked at, too.  A fiber that yields there resumes on *w; a fiber that
 * waits for its budget may resume on another worker. */
static inline int begin_slow(const struct wefti_chan *ch, struct wefti_worker **w, weft_deadline until) {
    if (*w && (*w)->calls_left < 0)
        wefti_slice_end(until);
    if (WEFTI_UNLIKELY(!ch))
        return -EINVAL;
    if (WEFTI_LIKELY(!load_relaxed(&wefti_accounts_exist))) /* as in wefti_charge_channel_call */
        return 0;
    int error = wefti_charge_channel_call(until);
    *w = wefti_worker_here();
    return error;
}

static __attribute__((noinline)) int send_slow(struct wefti_chan *ch, struct wefti_worker *w, const void *value,
                                               weft_deadline until) {
    int error = begin_slow(ch, &w, until);
    if (WEFTI_UNLIKELY(error != 0))
        return error;
    if (wefti_chan_is_controlled(w, until))
        return wefti_chan_send_controlled(ch, w, value, until);
    error = wefti_chan_send_locking(ch, value);
    return error == -EAGAIN ? send_waiting(ch, w, value, until) : error;
}

static __attribute__((noinline)) int recv_slow(struct wefti_chan *ch, struct wefti_worker *w, void *value,
                                               weft_deadline until) {
    int error = begin_slow(ch, &w, until);
    if (WEFTI_UNLIKELY(error != 0))
        return error;
    if (wefti_chan_is_controlled(w, until))
        return wefti_chan_recv_controlled(ch, w, value, until);
    error = wefti_chan_recv_locking(ch, value);
    return error == -EAGAIN ? recv_waiting(ch, w, value, until) : error;
}

static __attribute__((noinline)) int send_from_inside(struct wefti_chan *ch, struct wefti_worker *w, const void *value,
                                                      weft_deadline until) {
    int error = send_inside(ch, w, value);
    return error == -EAGAIN ? send_waiting(ch, w, value, until) : error;
}

static __attribute__((noinline)) int recv_from_inside(struct wefti_chan *ch, struct wefti_worker *w, void *value,
                                                      weft_deadline until) {
    int error = recv_inside(ch, value);
    return error == -EAGAIN ? recv_waiting(ch, w, value, until) : error;
}

/* The lock, as its owner, within the slice.  A fiber that pays for its calls is never within it (slice.h).  In weft_chan_send and _recv nothing comes after a
 * wait, so `w` may come from the thread-local. */
static inline bool enter_fast(struct wefti_chan *ch, struct wefti_worker *w) {
    return WEFTI_LIKELY(!wefti_slice_spend(w)) && WEFTI_LIKELY(ch != NULL) &&
           WEFTI_LIKELY(wefti_bias_enter(&ch->lock, w));
}

int weft_chan_send(weft_chan *handle, const void *value, weft_deadline until) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(!enter_fast(ch, w)))
        return send_slow(ch, w, value, until);
    if (WEFTI_LIKELY(send_quickly(ch, w, value)))
        return 0;
    wefti_bias_stay(&ch->lock);
    return send_from_inside(ch, w, value, until);
}

int weft_chan_recv(weft_chan *handle, void *value, weft_deadline until) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(!enter_fast(ch, w)))
        return recv_slow(ch, w, value, until);
    if (recv_quickly(ch, value))
        return 0;
    wefti_bias_stay(&ch->lock);
    if (WEFTI_LIKELY(!ch->count && !ch->senders.first && wefti_chan_is_settled(ch)))
        return recv_waiting(ch, w, value, until);
    return recv_from_inside(ch, w, value, until);
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
    wefti_slice_use(until);
    int error = count > INT32_MAX ? -EINVAL : wefti_charge_channel_call(until);
    while (!error && sent < count) {
        struct wefti_worker *w = wefti_worker_here();
        if (wefti_chan_is_controlled(w, until)) {
            error = wefti_chan_send_many_controlled(ch, w, values, count, &sent, until);
            continue;
        }
        error = send_some(ch, values, count, &sent);
        if (error == -EAGAIN &&
            !(error = send_waiting(ch, wefti_worker_here(), (const char *)values + sent * ch->size, until)))
            sent++;
    }
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
    wefti_slice_use(until);
    int error = wefti_charge_channel_call(until);
    if (error)
        return error;
    struct wefti_worker *w = wefti_worker_here();
    int got = wefti_chan_is_controlled(w, until) ? wefti_chan_recv_many_controlled(ch, w, values, count, until)
                                                 : recv_some(ch, values, count);
    if (got != -EAGAIN)
        return got;
    error = recv_waiting(ch, wefti_worker_here(), values, until);
    return error ? error
                 : 1; /* more may have come meanwhile; but with its last value the channel may have gone (rule 4) */
}
