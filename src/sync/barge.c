/* barge.c - those who wait for a word that those who run may take before them (barge.h has the protocol). */
#include "sync/barge.h"

/* All waiters lie in a wefti_sync_poll; `slot` has what they want. */
static int64_t since_of(struct wefti_waiter *waiter) { return ((struct wefti_sync_poll *)(void *)waiter)->since; }
static uint64_t wants(const struct wefti_waiter *waiter) { return (uintptr_t)waiter->slot; }
static bool on_their_way(const struct wefti_sync *s) { return s->flags & WEFTI_WOKEN_MASK; }

/* -- Serving -------------------------------------------------------------------------------------------- */

/* Under the lock: from here on the word stands still.  What it is; what all who gave to it had done is seen. */
static uint64_t stop(struct wefti_sync *s) {
    return or_acquire(&s->word, WEFTI_WAITERS) & ~WEFTI_WAITERS; /* pairs with U1, U4 */
}

/* U3 and U4.  Under the lock, with WEFTI_WAITERS in the word and nobody on his way; the rest of the word is to be `word`. */
static void serve(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t word, int64_t now,
                  struct wefti_wakes *wakes) {
    uint64_t left = word; /* when all who try again get it */
    bool hand = true;
    for (struct wefti_waiter *first; (first = s->waiters.first) && wakes->count < WEFTI_WAKES;) {
        left = kind->with(left, wants(first));
        if (left == WEFTI_NONE)
            break;
        hand = hand && ((s->flags & WEFTI_FIFO) || now - since_of(first) >= WEFTI_BARGE_PATIENCE);
        if (hand)
            store_relaxed(&s->word, (word = left) | WEFTI_WAITERS); /* being SERVED orders it for him */
        else
            s->flags += WEFTI_WOKEN;
        first->result = hand ? WEFTI_OWNED : WEFTI_TRY_AGAIN;
        wefti_waiters_remove(&s->waiters, first);
        wakes->waker[wakes->count++] = wefti_sync_serve(s, first);
    }
    uint64_t tell = s->waiters.first && !on_their_way(s) ? WEFTI_WAITERS : 0;
    store_release(&s->word, word | tell); /* U4, pairs with L1 */
}

/* The same, and all of them; gives the lock back and wakes. */
static void serve_all(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t word, int64_t now) {
    struct wefti_wakes wakes = {.count = 0};
    serve(s, kind, word, now, &wakes);
    while (wakes.count == WEFTI_WAKES) {
        wefti_wakes_pause(&wakes, s);
        if (!on_their_way(s) && s->waiters.first)
            serve(s, kind, stop(s), now, &wakes);
    }
    wefti_wakes_end(&wakes, s);
}

/* Under the lock, which it gives back: one has arrived or left who may have been the only one to know of those in the list. */
static void look_after(struct wefti_sync *s, const struct wefti_barge *kind) {
    if (s->waiters.first && !on_their_way(s)) {
        serve_all(s, kind, stop(s), 0);
        return;
    }
    if (load_relaxed(&s->word) & WEFTI_WAITERS) /* only we change that */
        wefti_sync_tidy(s);
    wefti_lock_give(&s->lock);
}

int wefti_barge_give(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t want) {
    int64_t now = weft_now(); /* looked at before the lock is taken: it costs more than the rest */
    uint64_t next, found;
    int error = 0;
    wefti_lock_take(&s->lock);
    if (WEFTI_UNLIKELY(wefti_sync_is_dead(s))) {
        error = -EINVAL;
    } else if (s->waiters.first && !on_their_way(s)) {
        next = kind->without(stop(s), want); /* U2 */
        if (WEFTI_LIKELY(next != WEFTI_NONE)) {
            serve_all(s, kind, next, now);
            return 0;
        }
        error = kind->refused;
    } else { /* the last of them has left, or one is on his way */
        found = load_relaxed(&s->word); /* only compared */
        do
            next = kind->without(found & ~WEFTI_WAITERS, want);
        while (next != WEFTI_NONE && !cas_release(&s->word, &found, next)); /* U1, pairs with L1 */
        error = next == WEFTI_NONE ? kind->refused : 0;
    }
    wefti_lock_give(&s->lock);
    return error;
}

/* -- Getting --------------------------------------------------------------------------------------------- */

/* L2.  Under the lock.  0: it has it; -EAGAIN: into the list; -EINVAL. */
static int enter(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t want) {
    uint64_t found = load_relaxed(&s->word); /* only compared */
    if (WEFTI_UNLIKELY(wefti_sync_is_dead(s)))
        return -EINVAL;
    while (!(found & WEFTI_WAITERS)) {
        uint64_t next = kind->with(found, want);
        if (next != WEFTI_NONE) {
            if (cas_acquire(&s->word, &found, next)) /* pairs with U1, U4 */
                return 0;
        } else if (on_their_way(s) || cas_relaxed(&s->word, &found, found | WEFTI_WAITERS)) { /* a mark */
            break;
        }
    }
    return -EAGAIN;
}

/* Back to its place: before all who came later.  Only those are before it who were woken with it. */
static void put_back(struct wefti_sync *s, struct wefti_waiter *waiter) {
    struct wefti_waiter *next = s->waiters.first;
    while (next && since_of(next) < since_of(waiter))
        next = next->next;
    wefti_waiters_insert(&s->waiters, waiter, next);
}

/* L2, L3, L4.  0: it has it; -EAGAIN: it is in the list; -EINVAL. */
static int try(struct wefti_sync *s, const struct wefti_barge *kind, struct wefti_waiter *waiter, bool again) {
    wefti_lock_take(&s->lock);
    if (again)
        s->flags -= WEFTI_WOKEN; /* L4 */
    int error = enter(s, kind, wants(waiter));
    if (error == -EAGAIN && again)
        put_back(s, waiter);
    else if (error == -EAGAIN)
        wefti_waiters_append(&s->waiters, waiter);
    if (again && s->waiters.first != waiter) /* when it is first, L2 has seen that it can have nothing */
        look_after(s, kind);
    else
        wefti_lock_give(&s->lock);
    return error;
}

/* Most sections are over before a switch would be.  Not when the owner cannot run meanwhile, nor when others wait already, nor
 * when this worker has just met somebody: two that take it from each other again and again work at the pace of the line between
 * them, several times slower than one who has it for himself while the other's fibers wait. */
static bool spin(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t want, int64_t now) {
    struct wefti_worker *w = wefti_worker_self();
    if (w) {
        int64_t apart = now - w->met;
        w->met = now;
        if (w->rt->workers == 1 || apart < WEFTI_BARGE_APART)
            return false;
    }
    for (int looks = 0;;) {
        uint64_t found = load_relaxed(&s->word), next; /* a hint */
        if (found & WEFTI_WAITERS)
            return false;
        next = kind->with(found, want);
        if (next != WEFTI_NONE && cas_acquire(&s->word, &found, next)) /* L1 */
            return true;
        if (++looks == WEFTI_BARGE_SPIN)
            return false;
        wefti_relax();
    }
}

/* L2 to L4, until it has it or gives up. */
static int get_slowly(struct wefti_sync *s, const struct wefti_barge *kind, struct wefti_waiter *waiter, int64_t until,
                      const char *what) {
    for (bool again = false;; again = true) {
        int error = try(s, kind, waiter, again);
        if (error != -EAGAIN)
            return error;
        error = wefti_sync_sleep(s, waiter, until, what);
        if (error) {
            look_after(s, kind); /* it may have stood in the way */
            return error;
        }
        if (waiter->result == WEFTI_OWNED)
            return 0;
        store_relaxed(&waiter->state, WEFTI_WAITING); /* nobody knows of it */
        store_relaxed(&waiter->own.taken, 0); /* nor of that */
    }
}

int wefti_barge_get(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t want, int64_t until) {
    struct wefti_sync_poll record;
    struct wefti_waiter *waiter = &record.poll.waiter;
    record.since = weft_now();
    if (spin(s, kind, want, record.since))
        return 0;
    int error = wefti_waiter_init(waiter);
    if (error)
        return error;
    waiter->slot = (void *)(uintptr_t)want;
    struct wefti_fiber *self = wefti_fiber_self();
    if (!self || !kind->by)
        return get_slowly(s, kind, waiter, until, wefti_words(kind->what));
    struct wefti_kept kept = {wefti_words(kind->what), kind->by, s}; /* F1 (task/fiber.h) */
    error = get_slowly(s, kind, waiter, until, wefti_waits_kept(&kept)); /* F2, F3 */
    wefti_fiber_kept_end(self);
    return error;
}

int wefti_barge_too_late(struct wefti_sync *s, uint64_t found) {
    if (found != WEFTI_WAITERS)
        return -ETIMEDOUT;
    wefti_lock_take(&s->lock);
    int error = wefti_sync_is_dead(s) ? -EINVAL : -ETIMEDOUT;
    wefti_lock_give(&s->lock);
    return error;
}

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

int wefti_barge_poll(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t want, struct weft_task *self,
                     struct wefti_sync_poll *wait, void (*end)(struct wefti_poll_wait *), bool again) {
    struct wefti_waiter *waiter = &wait->poll.waiter;
    if (!again)
        wait->since = weft_now();
    wefti_waiter_init_task(waiter, self);
    waiter->slot = (void *)(uintptr_t)want;
    wait->poll.end = end;
    wait->poll.thing = s;
    int error = try(s, kind, waiter, again);
    if (error != -EAGAIN)
        wait->poll.end = NULL;
    return wefti_poll_waits(error, kind->what);
}

bool wefti_barge_end(struct wefti_poll_wait *poll, const struct wefti_barge *kind) {
    struct wefti_sync *s = poll->thing;
    wefti_lock_take(&s->lock);
    bool gone = !wefti_waiters_remove(&s->waiters, &poll->waiter);
    poll->end = NULL;
    if (gone && poll->waiter.result == WEFTI_OWNED) {
        wefti_lock_give(&s->lock);
        return true;
    }
    if (gone)
        s->flags -= WEFTI_WOKEN; /* L4 */
    look_after(s, kind);
    return false;
}
