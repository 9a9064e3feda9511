/* sem.c - permits, first come first served.
 *
 * Words.  Permits times 2, and WEFTI_WAITERS (sync.h).  A waiter's `slot` says how many it wants.
 * Rule.   Under the lock, with somebody in the list, the first of them wants more than there are.  Whatever changes either side (a
 *         release, the first one leaving) serves until that is so again.
 * Checked by.  test/model/sync_sem.c
 */
#include "sync/sync.h"

#define PERMIT UINT64_C(2)

static struct wefti_sync *sync_of(const weft_sem *sem) { return wefti_sync_of(&sem->room); }
static uint64_t wants(const struct wefti_waiter *waiter) { return (uintptr_t)waiter->slot; }

/* Without the lock: true when that many were there, and nobody waits. */
static inline bool take(struct wefti_sync *s, uint64_t permits, uint64_t *found) {
    while (!(*found & WEFTI_WAITERS) && *found >= permits * PERMIT)
        if (cas_acquire(&s->word, found, *found - permits * PERMIT)) /* pairs with give */
            return true;
    return false;
}

/* Under the lock.  0: taken; -EAGAIN: into the list; -EINVAL. */
static int enter(struct wefti_sync *s, uint64_t permits) {
    uint64_t found = load_relaxed(&s->word); /* only compared */
    if (WEFTI_UNLIKELY(wefti_sync_is_dead(s)))
        return -EINVAL;
    do
        if (take(s, permits, &found))
            return 0;
    while (!(found & WEFTI_WAITERS) && !cas_relaxed(&s->word, &found, found | WEFTI_WAITERS)); /* a mark */
    return -EAGAIN;
}

/* Under the lock, which it gives back: serve who can be served. */
static void serve(struct wefti_sync *s) {
    struct wefti_wakes wakes = {.count = 0};
    for (struct wefti_waiter *first; (first = s->waiters.first);) { /* so the word stands still */
        if (load_acquire(&s->word) < wants(first) * PERMIT) /* what all of them gave; pairs with give */
            break;
        sub_relaxed(&s->word, wants(first) * PERMIT); /* being SERVED orders it for him */
        wefti_waiters_remove(&s->waiters, first);
        wefti_wakes_serve(&wakes, s, first);
    }
    wefti_sync_tidy(s);
    wefti_wakes_end(&wakes, s);
}

/* Under the lock: so many more.  False: too many. */
static bool add(struct wefti_sync *s, uint64_t permits) {
    uint64_t found = load_relaxed(&s->word); /* only compared */
    do
        if (found / PERMIT + permits > UINT32_MAX)
            return false;
    while (!cas_release(&s->word, &found, found + permits * PERMIT)); /* give: pairs with take, serve */
    return true;
}

static int try_now(struct wefti_sync *s, uint64_t found) {
    if (!(found & WEFTI_WAITERS))
        return -ETIMEDOUT;
    wefti_lock_take(&s->lock);
    int error = wefti_sync_is_dead(s) ? -EINVAL : -ETIMEDOUT;
    wefti_lock_give(&s->lock);
    return error;
}

int weft_sem_acquire(weft_sem *sem, uint32_t permits, weft_deadline until) {
    struct wefti_sync *s = sync_of(sem);
    struct wefti_waiter waiter;
    uint64_t found = load_relaxed(&s->word); /* only compared */
    if (WEFTI_LIKELY(take(s, permits, &found)))
        return 0;
    if (until <= 0)
        return try_now(s, found);
    int error = wefti_waiter_init(&waiter);
    if (error)
        return error;
    waiter.slot = (void *)(uintptr_t)permits;
    wefti_lock_take(&s->lock);
    error = enter(s, permits);
    if (error != -EAGAIN) {
        wefti_lock_give(&s->lock);
        return error;
    }
    wefti_waiters_append(&s->waiters, &waiter);
    error = wefti_sync_wait(s, &waiter, until, "a semaphore");
    if (error)
        serve(s); /* it may have stood in the way */
    return error;
}

int weft_sem_release(weft_sem *sem, uint32_t permits) {
    struct wefti_sync *s = sync_of(sem);
    uint64_t found = load_relaxed(&s->word); /* only compared */
    while (!(found & WEFTI_WAITERS)) {
        if (found / PERMIT + permits > UINT32_MAX)
            return -EOVERFLOW;
        if (WEFTI_LIKELY(cas_release(&s->word, &found, found + permits * PERMIT))) /* give: pairs with take */
            return 0;
    }
    wefti_lock_take(&s->lock);
    int error = wefti_sync_is_dead(s) ? -EINVAL : add(s, permits) ? 0 : -EOVERFLOW;
    if (error)
        wefti_lock_give(&s->lock);
    else
        serve(s);
    return error;
}

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

static void end_poll(struct wefti_poll_wait *poll) {
    struct wefti_sync *s = poll->thing;
    wefti_lock_take(&s->lock);
    bool left = wefti_waiters_remove(&s->waiters, &poll->waiter);
    poll->end = NULL;
    if (!left)
        add(s, wants(&poll->waiter)); /* what it was given goes back; it came from here, so there is room */
    serve(s);
}

int weft_sem_acquire_poll(weft_sem *sem, uint32_t permits, weft_task *self, weft_wait *wait) {
    struct wefti_sync *s = sync_of(sem);
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    int error = wefti_poll_begin(poll, end_poll, s);
    if (error)
        return error < 0 ? error : 0;
    uint64_t found = load_relaxed(&s->word); /* only compared */
    if (take(s, permits, &found))
        return 0;
    wefti_lock_take(&s->lock);
    error = enter(s, permits);
    if (error == -EAGAIN) {
        error = wefti_poll_wait(s, poll, self, end_poll, s);
        poll->waiter.slot = (void *)(uintptr_t)permits;
    }
    wefti_lock_give(&s->lock);
    return error;
}

/* -- Beginning and end ----------------------------------------------------------------------------------- */

void weft_sem_init(weft_sem *sem, uint32_t permits) { *sem = (weft_sem)WEFT_SEM_INIT(permits); }

int weft_sem_destroy(weft_sem *sem) {
    struct wefti_sync *s = sync_of(sem);
    wefti_sync_lock_alone(s);
    return wefti_sync_end(s, load_relaxed(&s->word)); /* whatever it is */
}

uint32_t weft_sem_permits(const weft_sem *sem) {
    return (uint32_t)(load_relaxed(&sync_of(sem)->word) / PERMIT); /* a figure */
}
