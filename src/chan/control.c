/* control.c - channels under a scheduler with a control thread, which resolves the waiters of each channel that has changed.
 *
 * What.   A fiber of such a runtime that sends or receives, and may wait, serves no other waiter.  A sender leaves its value in the buffer, a
 *         receiver takes one out of it; if that is impossible, or others wait before it, the fiber joins the list.  If a waiter can
 *         then be resolved, it publishes the channel: `pending`, and a place in the control thread's queue, once.  In step 5 the
 *         control thread takes the lock and resolves in three phases:
 *           1  a receiver that waits takes a value from the buffer, a sender that waits uses free room
 *           2  the first sender that waits hands its value to the first receiver that waits
 *           3  the others keep their places
 * Others. Threads, poll tasks, selects, WEFT_NOW, weft_chan_close, and fibers of other runtimes cannot wait for a control thread, or promise to
 *         answer at once.  They make the three phases themselves before they do anything else (wefti_chan_settle), in the same order.
 * Race.   fiber: P1 lock, pending, push, unlock       control: Q1 take out of the queue
 *                P2 wake the control thread                    Q2 lock, not published any more, resolve
 *         last user: F1 lock; published: unlock, yield         Q3 unlock (last touch), wake the waiters
 *                       while it is, lock; unlock, free
 * Claim.  A waiter that can be resolved is resolved in the control thread's next round at the latest, in order of arrival, and no control
 *         thread touches a channel that was freed.
 * Why.    P1 and Q2 hold one lock: what becomes possible after Q2 is published anew.  Between P1 and Q2 the channel is published, and F1 waits.
 *         F1 need not wake anybody: P2 follows P1 on a thread that is running.
 * Pairs.  Phase 2 must claim two records (wait.h), of which either may turn out to have given up or to be served elsewhere.  One that was
 *         claimed for nothing is let go again.  Only a fiber that waits for nothing else can be let go: a thread that was claimed waits for its
 *         token, and a select has told its other things that it is over.  At least one of two that meet here is such a fiber,
 *         because everybody else serves the other side when it arrives.
 * Checked by.  test/model/chan_control.c
 */
#include "chan/chan.h"

/* -- Resolving, under the lock ----------------------------------------------------------------------------------- */

/* What is to be done when the lock has been given back. */
struct resolved {
    wefti_waker waker[WEFTI_CHAN_WAKES];
    unsigned count;
    struct wefti_block *empty;
};

static void serve(struct resolved *resolved, struct wefti_waiter *waiter) {
    waiter->result = 0;
    resolved->waker[resolved->count++] = wefti_waiter_serve(waiter);
}

/* Phase 1.  False: neither is possible. */
static bool use_buffer(struct wefti_chan *ch, struct resolved *resolved) {
    struct wefti_waiter *waiter;
    if (ch->count && (waiter = wefti_waiters_take_count(&ch->receivers, &ch->strays))) {
        resolved->empty = wefti_chan_take_only(ch, waiter->slot);
        serve(resolved, waiter);
        return true;
    }
    if (ch->count < ch->capacity && (waiter = wefti_waiters_take_count(&ch->senders, &ch->strays))) {
        wefti_chan_put(ch, waiter->slot); /* bounded: no sender waits for an unbounded channel */
        serve(resolved, waiter);
        return true;
    }
    return false;
}

static bool can_be_let_go(const struct wefti_waiter *waiter) { return !waiter->choice && !(waiter->waker & 1); }

/* False: it is a stray now. */
static bool claim(struct wefti_chan *ch, struct wefti_waiters *list, struct wefti_waiter *waiter) {
    if (waiter->choice ? wefti_waiter_claim(waiter) : wefti_waiter_claim_own(waiter))
        return true;
    wefti_waiters_remove(list, waiter);
    ch->strays++;
    return false;
}

/* Claim the first that can be; NULL: none. */
static struct wefti_waiter *claim_first(struct wefti_chan *ch, struct wefti_waiters *list) {
    struct wefti_waiter *waiter;
    while ((waiter = list->first) && !claim(ch, list, waiter))
        ;
    return waiter;
}

static struct wefti_waiter *first_to_let_go(const struct wefti_waiters *list) {
    struct wefti_waiter *waiter = list->first;
    while (waiter && !can_be_let_go(waiter))
        waiter = waiter->next;
    return waiter;
}

/* Phase 2.  False: no two can be paired.  Of the two, the one that can be let go is claimed first.  It waits for nothing else, so the other,
 * which may be a select, is not the same task. */
static bool pair(struct wefti_chan *ch, struct resolved *resolved) {
    while (ch->senders.first && ch->receivers.first) {
        struct wefti_waiter *sender = first_to_let_go(&ch->senders), *receiver = first_to_let_go(&ch->receivers);
        bool by_sender = sender && (sender == ch->senders.first || !receiver);
        struct wefti_waiter *waiter = by_sender ? sender : receiver;
        if (!waiter)
            return false; /* a select that would both send and receive */
        if (!claim(ch, by_sender ? &ch->senders : &ch->receivers, waiter))
            continue;
        struct wefti_waiter *other = claim_first(ch, by_sender ? &ch->receivers : &ch->senders);
        if (!other) {
            wefti_waiter_unclaim(waiter);
            return false;
        }
        sender = by_sender ? waiter : other;
        receiver = by_sender ? other : waiter;
        wefti_waiters_remove(&ch->senders, sender);
        wefti_waiters_remove(&ch->receivers, receiver);
        wefti_chan_copy(receiver->slot, sender->slot, ch->size);
        serve(resolved, sender);
        serve(resolved, receiver);
        return true;
    }
    return false;
}

/* False: nothing is pending any more; the rest keeps its places (phase 3). */
static bool resolve_some(struct wefti_chan *ch, struct resolved *resolved) {
    resolved->count = 0;
    resolved->empty = NULL;
    while (resolved->count + 2 <= WEFTI_CHAN_WAKES && !resolved->empty)
        if (!use_buffer(ch, resolved) && !pair(ch, resolved))
            return ch->pending = false;
    return true;
}

/* -- Resolving, from outside ------------------------------------------------------------------------------------- */

static void wake_all(struct wefti_chan *ch, struct resolved *resolved) {
    for (unsigned i = 0; i < resolved->count; i++)
        wefti_waiter_wake(resolved->waker[i]);
    if (resolved->empty)
        wefti_chan_block_free(ch, resolved->empty);
}

void wefti_chan_settle(struct wefti_chan *ch) {
    struct resolved resolved;
    while (ch->pending) {
        resolve_some(ch, &resolved);
        if (!resolved.count)
            return;
        wefti_bias_give(&ch->lock);
        wake_all(ch, &resolved); /* the caller is a user of the channel, and keeps it */
        wefti_chan_lock_only(ch);
    }
}

/* Step 5. */
static uint64_t resolve(struct wefti_link *link) {
    struct wefti_chan *ch = (struct wefti_chan *)(void *)((char *)link - offsetof(struct wefti_chan, link));
    struct resolved resolved;
    uint64_t count = 0;
    bool more;
    do {
        wefti_chan_lock_only(ch); /* Q2 */
        more = resolve_some(ch, &resolved);
        store_relaxed(&ch->published, more); /* the lock orders it */
        wefti_bias_give(&ch->lock); /* Q3: unless there is more, which an empty block implies, it may be gone now */
        wake_all(ch, &resolved);
        count += resolved.count;
    } while (more);
    return count;
}

void wefti_chan_unpublish(struct wefti_chan *ch) {
    if (WEFTI_LIKELY(!load_own(&ch->published)) || wefti_is_forked()) /* a child process has no control thread */
        return;
    wefti_bias_give(&ch->lock);
    while (load_relaxed(&ch->published)) /* F1; the lock orders the rest */
        wefti_thread_yield(); /* to a thread that is making a round */
    wefti_chan_lock_only(ch); /* it may not have given it back */
}

bool wefti_chan_may_wait(const struct wefti_worker *w, weft_deadline until) {
    struct wefti_fiber *self = wefti_fiber_on(w);
    return self && !wefti_fiber_must_end(self) && (until == WEFT_NEVER || until > wefti_now(w->rt));
}

/* -- Sending and receiving ---------------------------------------------------------------------------------------- */

/* Under the lock: some waiter may be resolved.  True: wake the control thread. */
static bool publish(struct wefti_chan *ch, struct wefti_worker *w) {
    ch->pending = true;
    if (load_own(&ch->published))
        return false; /* whoever published it wakes */
    store_relaxed(&ch->published, true); /* the lock orders it */
    wefti_control_resolve(w->rt, &ch->link, resolve); /* P1 */
    return true;
}

/* The lock is held, and given back: wait behind the others.  `hopeful`: some waiter may be resolved now. */
static int wait_controlled(struct wefti_chan *ch, struct wefti_worker *w, bool is_sender, bool hopeful, void *slot,
                           weft_deadline until) {
    if (hopeful && publish(ch, w))
        wefti_notify(w->rt, w); /* P2 */
    return wefti_chan_wait(ch, w, is_sender ? &ch->senders : &ch->receivers, slot, until,
                           wefti_words(is_sender ? WEFTI_ROOM : WEFTI_A_VALUE));
}

static void unlock_and_notify(struct wefti_chan *ch, struct wefti_worker *w, bool changed) {
    bool wake = changed && publish(ch, w);
    wefti_bias_give(&ch->lock);
    if (wake)
        wefti_notify(w->rt, w); /* P2 */
}

int wefti_chan_send_many_controlled(struct wefti_chan *ch, struct wefti_worker *w, const char *values, size_t count,
                                    size_t *sent, weft_deadline until) {
    for (;;) {
        size_t before = *sent;
        bool full = false;
        wefti_chan_lock_only(ch);
        if (ch->closed) {
            wefti_bias_give(&ch->lock);
            return -EPIPE;
        }
        if (ch->senders.first || ch->count >= ch->capacity) {
            int error = wait_controlled(ch, w, true, ch->receivers.first || ch->count < ch->capacity,
                                        (void *)(uintptr_t)(values + before * ch->size), until); /* only read */
            *sent += !error;
            return error;
        }
        while (*sent < count && ch->count < ch->capacity && !full) {
            full = !wefti_chan_put(ch, values + *sent * ch->size);
            *sent += !full;
        }
        unlock_and_notify(ch, w, *sent > before && ch->receivers.first);
        if (!full)
            return 0;
        int error = wefti_chan_more(ch);
        if (error)
            return error;
    }
}

int wefti_chan_send_controlled(struct wefti_chan *ch, struct wefti_worker *w, const void *value, weft_deadline until) {
    size_t sent = 0;
    return wefti_chan_send_many_controlled(ch, w, value, 1, &sent, until);
}

/* The lock is held, and given back: nothing can be received without waiting. */
static int recv_waiting(struct wefti_chan *ch, struct wefti_worker *w, void *value, weft_deadline until) {
    if (!ch->closed)
        return wait_controlled(ch, w, false, ch->count || ch->senders.first, value, until);
    wefti_bias_give(&ch->lock); /* nobody waits, so it is empty */
    return -EPIPE;
}

/* Under the lock: a value, for which nobody waits before us. */
static bool has_value(const struct wefti_chan *ch) { return ch->count && !ch->receivers.first; }

int wefti_chan_recv_controlled(struct wefti_chan *ch, struct wefti_worker *w, void *value, weft_deadline until) {
    wefti_chan_lock_only(ch);
    if (!has_value(ch))
        return recv_waiting(ch, w, value, until);
    struct wefti_block *empty = wefti_chan_take_only(ch, value);
    unlock_and_notify(ch, w, ch->senders.first);
    if (WEFTI_UNLIKELY(empty != NULL))
        wefti_chan_block_free(ch, empty);
    return 0;
}

int wefti_chan_recv_many_controlled(struct wefti_chan *ch, struct wefti_worker *w, char *values, size_t count,
                                    weft_deadline until) {
    struct wefti_block *empty;
    size_t got = 0;
    do {
        empty = NULL;
        wefti_chan_lock_only(ch);
        if (!got && !has_value(ch)) {
            int error = recv_waiting(ch, w, values, until);
            return error ? error : 1;
        }
        while (got < count && !empty && has_value(ch))
            empty = wefti_chan_take_only(ch, values + got++ * ch->size);
        unlock_and_notify(ch, w, ch->senders.first);
        if (empty)
            wefti_chan_block_free(ch, empty);
    } while (empty && got < count);
    return (int)got;
}
