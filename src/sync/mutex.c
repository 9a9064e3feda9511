/* mutex.c - one owner at a time.
 *
 * Words.  0 free; else the owner's number (sync.h, wefti_me), with WEFTI_WAITERS when its unlock is to look at the list.
 * Race.   barge.h: L1 swaps 0 for me, U1 swaps me for 0.
 * Checked by.  test/model/sync_mutex.c
 */
#include "sync/barge.h"
#include "task/account.h"

_Static_assert(WEFT_MUTEX_FIFO == WEFTI_FIFO, "a flag of ours");

static struct wefti_sync *sync_of(const weft_mutex *mutex) { return wefti_sync_of(&mutex->room); }

static uint64_t with(uint64_t word, uint64_t me) { return word == 0 ? me : WEFTI_NONE; }
static uint64_t without(uint64_t word, uint64_t me) { return word == me ? 0 : WEFTI_NONE; }
static uint64_t by(const void *thing, uint64_t *many) {
    (void)many;
    return load_relaxed(&((const struct wefti_sync *)thing)->word) & ~WEFTI_WAITERS; /* a look */
}
static const struct wefti_barge kind = {with, without, -EPERM, WEFTI_A_MUTEX, by};

/* -- Locking --------------------------------------------------------------------------------------------- */

/* `me` has been counted as the owner already. */
static __attribute__((noinline)) int lock_slow(struct wefti_sync *m, uint64_t me, uint64_t found, int64_t until) {
    wefti_owns_no_more(me);
    if ((found & ~WEFTI_WAITERS) == me)
        return -EDEADLK;
    int error = until > 0 ? wefti_barge_get(m, &kind, me, until) : wefti_barge_too_late(m, found);
    if (error)
        return error;
    wefti_owns(me);
    return wefti_note_lock(m, WEFTI_A_MUTEX);
}

static inline int lock(struct wefti_sync *m, uint64_t me, int64_t until) {
    uint64_t found = 0;
    wefti_owns(
        me); /* before the swap, which waits for this store and the slice's together: after it, the next swap would wait */
    if (WEFTI_UNLIKELY(!cas_acquire(&m->word, &found, me))) /* L1, pairs with U1, U4 */
        return lock_slow(m, me, found, until);
    return wefti_note_lock(m, WEFTI_A_MUTEX);
}

/* For threads that run no task, too: they have no slice. */
static __attribute__((noinline)) int yield_and_lock(struct wefti_sync *m, int64_t until) {
    wefti_slice_end(until);
    return lock(m, wefti_me(), until);
}

int weft_mutex_lock(weft_mutex *mutex, weft_deadline until) {
    struct wefti_sync *m = sync_of(mutex);
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(wefti_slice_spend(w) || !wefti_current(w)))
        return yield_and_lock(m, until);
    return lock(m, (uint64_t)(uintptr_t)wefti_current(w), until);
}

/* -- Unlocking ------------------------------------------------------------------------------------------- */

/* `me` has been counted off already. */
static __attribute__((noinline)) int unlock_slow(struct wefti_sync *m, uint64_t me, uint64_t found) {
    wefti_owns(me);
    int error = found == (me | WEFTI_WAITERS) ? wefti_barge_give(m, &kind, me) : -EPERM;
    if (error)
        return error;
    wefti_owns_no_more(me);
    return wefti_note_unlock(m, WEFTI_A_MUTEX);
}

static inline int unlock(struct wefti_sync *m, uint64_t me) {
    uint64_t found = me;
    wefti_owns_no_more(me);
    if (WEFTI_UNLIKELY(!cas_release(&m->word, &found, 0))) /* U1, pairs with L1 */
        return unlock_slow(m, me, found);
    return wefti_note_unlock(m, WEFTI_A_MUTEX); /* only its address: the mutex may be gone */
}

static __attribute__((noinline)) int unlock_by_thread(struct wefti_sync *m) { return unlock(m, wefti_me()); }

int weft_mutex_unlock(weft_mutex *mutex) {
    struct wefti_sync *m = sync_of(mutex);
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(!w || !wefti_current(w)))
        return unlock_by_thread(m);
    wefti_slice_note(w);
    return unlock(m, (uint64_t)(uintptr_t)wefti_current(w));
}

bool weft_mutex_is_mine(const weft_mutex *mutex) {
    return (load_relaxed(&sync_of(mutex)->word) & ~WEFTI_WAITERS) == wefti_me(); /* only we write our number */
}

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

static void end_poll(struct wefti_poll_wait *poll) {
    struct wefti_sync *m = poll->thing;
    weft_cond *cond = ((struct wefti_sync_poll *)(void *)poll)->passes_on;
    if (wefti_barge_end(poll, &kind))
        wefti_barge_give(m, &kind, (uintptr_t)poll->waiter.slot);
    if (cond)
        weft_cond_signal(cond);
}

bool wefti_mutex_polls(const weft_mutex *mutex, const struct wefti_sync_poll *wait) {
    return wait->poll.end == end_poll && wait->poll.thing == sync_of(mutex);
}

static int lock_poll(struct wefti_sync *m, struct weft_task *self, struct wefti_sync_poll *wait, weft_cond *cond) {
    uint64_t me = (uint64_t)(uintptr_t)self, found = 0;
    int begun = wefti_barge_begin(&wait->poll, self, end_poll, m, &kind);
    if (begun < 0 || begun == WEFTI_OWNED)
        return begun < 0 ? begun : 0;
    if (!begun) {
        if (cas_acquire(&m->word, &found, me)) /* L1 */
            return 0;
        if ((found & ~WEFTI_WAITERS) == me)
            return -EDEADLK;
        wait->passes_on = cond;
    }
    return wefti_barge_poll(m, &kind, me, self, wait, end_poll, begun);
}

int wefti_mutex_lock_poll(weft_mutex *mutex, struct weft_task *self, struct wefti_sync_poll *wait, weft_cond *cond) {
    int error = lock_poll(sync_of(mutex), self, wait, cond);
    if (!error)
        wefti_owns((uint64_t)(uintptr_t)self);
    return error;
}

int weft_mutex_lock_poll(weft_mutex *mutex, weft_task *self, weft_wait *wait) {
    if (wefti_slice_poll(self))
        return -EAGAIN;
    return wefti_mutex_lock_poll(mutex, self, wefti_sync_poll_of(wait), NULL);
}

/* -- Beginning and end ----------------------------------------------------------------------------------- */

int weft_mutex_init(weft_mutex *mutex, unsigned flags) {
    if (flags & ~WEFT_MUTEX_FIFO)
        return -EINVAL;
    *mutex = (weft_mutex){WEFT_SYNC_ROOM_INIT(0, flags)};
    return 0;
}

int weft_mutex_destroy(weft_mutex *mutex) {
    struct wefti_sync *m = sync_of(mutex);
    wefti_sync_lock_alone(m);
    return wefti_sync_end(m, 0);
}
