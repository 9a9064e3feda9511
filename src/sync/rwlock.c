/* rwlock.c - readers together, writers alone, in order of arrival.
 *
 * Words.  bit 0  WEFTI_WAITERS (sync.h)
 *         bit 1  WRITER: the rest is the writer's number (sync.h, wefti_me); without it the rest is READER times the readers
 *         A waiter's `slot` is the writer's number, or NULL for a reader.
 * Rule.   Under the lock, with somebody in the list, the first of them cannot go on.  Whatever changes that (an unlock, the first one
 *         leaving) grants until it is so again: a writer alone, or all readers up to the next writer.
 * Checked by.  test/model/sync_rwlock.c
 */
#include "sync/sync.h"

#define WRITER UINT64_C(2)
#define READER UINT64_C(4)

static struct wefti_sync *sync_of(const weft_rwlock *rwlock) { return wefti_sync_of(&rwlock->room); }

/* What the word becomes when `who` (0: a reader) goes in; 0: it cannot. */
static inline uint64_t with(uint64_t word, uint64_t who) {
    uint64_t held = word & ~WEFTI_WAITERS;
    if (who)
        return held ? 0 : word | who | WRITER;
    return held & WRITER ? 0 : word + READER;
}

/* Without the lock: true when it could go in, and nobody waits. */
static inline bool take(struct wefti_sync *s, uint64_t who, uint64_t *found) {
    for (uint64_t next; !(*found & WEFTI_WAITERS) && (next = with(*found, who));)
        if (cas_acquire(&s->word, found, next)) /* pairs with out */
            return true;
    return false;
}

/* Under the lock.  0: it is in; -EAGAIN: into the list; -EINVAL. */
static int enter(struct wefti_sync *s, uint64_t who) {
    uint64_t found = load_relaxed(&s->word); /* only compared */
    if (WEFTI_UNLIKELY(wefti_sync_is_dead(s)))
        return -EINVAL;
    do
        if (take(s, who, &found))
            return 0;
    while (!(found & WEFTI_WAITERS) && !cas_relaxed(&s->word, &found, found | WEFTI_WAITERS)); /* a mark */
    return -EAGAIN;
}

/* Under the lock, which it gives back: let in who can go in. */
static void grant(struct wefti_sync *s) {
    struct wefti_wakes wakes = {.count = 0};
    for (struct wefti_waiter *first; (first = s->waiters.first);) { /* so the word stands still */
        uint64_t found = load_acquire(&s->word); /* all who were in before; pairs with out */
        uint64_t next = with(found, (uintptr_t)first->slot);
        if (!next)
            break;
        add_relaxed(&s->word, next - found); /* being SERVED orders it for him */
        wefti_waiters_remove(&s->waiters, first);
        wefti_wakes_serve(&wakes, s, first);
    }
    wefti_sync_tidy(s);
    wefti_wakes_end(&wakes, s);
}

static int lock(struct wefti_sync *s, uint64_t who, int64_t until, const char *what) {
    struct wefti_waiter waiter;
    uint64_t found = load_relaxed(&s->word); /* only compared */
    if (WEFTI_LIKELY(take(s, who, &found)))
        return 0;
    if ((found & WRITER) && (found & ~(WRITER | WEFTI_WAITERS)) == wefti_me())
        return -EDEADLK;
    int error = until > 0 ? wefti_waiter_init(&waiter) : 0;
    if (error)
        return error;
    waiter.slot = (void *)(uintptr_t)who;
    wefti_lock_take(&s->lock);
    error = until > 0 ? enter(s, who) : wefti_sync_is_dead(s) ? -EINVAL : -ETIMEDOUT;
    if (error != -EAGAIN) {
        wefti_lock_give(&s->lock);
        return error;
    }
    wefti_waiters_append(&s->waiters, &waiter);
    error = wefti_sync_wait(s, &waiter, until, what);
    if (error)
        grant(s); /* it may have stood in the way */
    return error;
}

int weft_rwlock_read(weft_rwlock *rwlock, weft_deadline until) {
    return lock(sync_of(rwlock), 0, until, "a read lock");
}

int weft_rwlock_write(weft_rwlock *rwlock, weft_deadline until) {
    return lock(sync_of(rwlock), wefti_me(), until, "a write lock");
}

/* -- Unlocking ------------------------------------------------------------------------------------------- */

/* What the word becomes when `who` goes out; UINT64_MAX: he is not in. */
static inline uint64_t without(uint64_t word, uint64_t who) {
    if (who)
        return (word & ~WEFTI_WAITERS) == (who | WRITER) ? word & WEFTI_WAITERS : UINT64_MAX;
    return (word & WRITER) || word < READER ? UINT64_MAX : word - READER;
}

/* 0; -EPERM; -EAGAIN: somebody waits, and the lock is not held. */
static inline int out(struct wefti_sync *s, uint64_t who, bool locked) {
    uint64_t found = load_relaxed(&s->word), next; /* only compared */
    do {
        if (!locked && (found & WEFTI_WAITERS))
            return -EAGAIN;
        next = without(found, who);
        if (next == UINT64_MAX)
            return -EPERM;
    } while (WEFTI_UNLIKELY(!cas_release(&s->word, &found, next))); /* pairs with take, grant */
    return 0;
}

static int leave(struct wefti_sync *s, uint64_t who) {
    int error = out(s, who, false);
    if (WEFTI_LIKELY(error != -EAGAIN))
        return error;
    wefti_lock_take(&s->lock);
    error = out(s, who, true);
    if (error)
        wefti_lock_give(&s->lock);
    else
        grant(s);
    return error;
}

int weft_rwlock_read_unlock(weft_rwlock *rwlock) { return leave(sync_of(rwlock), 0); }

int weft_rwlock_write_unlock(weft_rwlock *rwlock) { return leave(sync_of(rwlock), wefti_me()); }

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

static void end_poll(struct wefti_poll_wait *poll) {
    struct wefti_sync *s = poll->thing;
    wefti_lock_take(&s->lock);
    bool left = wefti_waiters_remove(&s->waiters, &poll->waiter);
    poll->end = NULL;
    if (left) {
        grant(s);
    } else {
        wefti_lock_give(&s->lock);
        leave(s, (uintptr_t)poll->waiter.slot);
    }
}

static int lock_poll(struct wefti_sync *s, uint64_t who, struct weft_task *self, weft_wait *wait) {
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    int error = wefti_poll_begin(poll, end_poll, s);
    if (error)
        return error < 0 ? error : 0;
    uint64_t found = load_relaxed(&s->word); /* only compared */
    if (take(s, who, &found))
        return 0;
    if ((found & WRITER) && (found & ~(WRITER | WEFTI_WAITERS)) == (uint64_t)(uintptr_t)self)
        return -EDEADLK;
    wefti_lock_take(&s->lock);
    error = enter(s, who);
    if (error == -EAGAIN) {
        error = wefti_poll_wait(s, poll, self, end_poll, s);
        poll->waiter.slot = (void *)(uintptr_t)who;
    }
    wefti_lock_give(&s->lock);
    return error;
}

int weft_rwlock_read_poll(weft_rwlock *rwlock, weft_task *self, weft_wait *wait) {
    return lock_poll(sync_of(rwlock), 0, self, wait);
}

int weft_rwlock_write_poll(weft_rwlock *rwlock, weft_task *self, weft_wait *wait) {
    return lock_poll(sync_of(rwlock), (uint64_t)(uintptr_t)self, self, wait);
}

/* -- Beginning and end ----------------------------------------------------------------------------------- */

void weft_rwlock_init(weft_rwlock *rwlock) { *rwlock = (weft_rwlock)WEFT_RWLOCK_INIT; }

int weft_rwlock_destroy(weft_rwlock *rwlock) {
    struct wefti_sync *s = sync_of(rwlock);
    wefti_sync_lock_alone(s);
    return wefti_sync_end(s, 0);
}
