/* sem.c - permits.
 *
 * Words.  Permits times 2, and WEFTI_WAITERS (sync.h).
 * Race.   barge.h: L1 takes so many off, U1 adds them.
 * Checked by.  test/model/sync_sem.c
 */
#include "sync/barge.h"

#define PERMIT UINT64_C(2)
_Static_assert(WEFT_SEM_FIFO == WEFTI_FIFO, "a flag of ours");

static struct wefti_sync *sync_of(const weft_sem *sem) { return wefti_sync_of(&sem->room); }

static uint64_t with(uint64_t word, uint64_t permits) {
    return word >= permits * PERMIT ? word - permits * PERMIT : WEFTI_NONE;
}
static uint64_t without(uint64_t word, uint64_t permits) {
    return word / PERMIT + permits <= UINT32_MAX ? word + permits * PERMIT : WEFTI_NONE;
}
static const struct wefti_barge kind = {with, without, -EOVERFLOW, WEFTI_A_SEMAPHORE, NULL};

/* L1.  True when that many were there, and nobody waits. */
static inline bool take(struct wefti_sync *s, uint64_t permits, uint64_t *found) {
    while (!(*found & WEFTI_WAITERS) && *found >= permits * PERMIT)
        if (WEFTI_LIKELY(cas_acquire(&s->word, found, *found - permits * PERMIT))) /* pairs with U1, U4 */
            return true;
    return false;
}

static inline int acquire(struct wefti_sync *s, uint32_t permits, int64_t until) {
    uint64_t found = load_relaxed(&s->word); /* only compared */
    if (WEFTI_LIKELY(take(s, permits, &found)))
        return 0;
    return until > 0 ? wefti_barge_get(s, &kind, permits, until) : wefti_barge_too_late(s, found);
}

static __attribute__((noinline)) int yield_and_acquire(struct wefti_sync *s, uint32_t permits, int64_t until) {
    wefti_slice_end(until);
    return acquire(s, permits, until);
}

int weft_sem_acquire(weft_sem *sem, uint32_t permits, weft_deadline until) {
    struct wefti_sync *s = sync_of(sem);
    return wefti_slice_spend(wefti_worker_self()) ? yield_and_acquire(s, permits, until) : acquire(s, permits, until);
}

int weft_sem_release(weft_sem *sem, uint32_t permits) {
    struct wefti_sync *s = sync_of(sem);
    wefti_slice_note(wefti_worker_self());
    uint64_t found = load_relaxed(&s->word); /* only compared */
    while (!(found & WEFTI_WAITERS)) {
        if (found / PERMIT + permits > UINT32_MAX)
            return -EOVERFLOW;
        if (WEFTI_LIKELY(cas_release(&s->word, &found, found + permits * PERMIT))) /* U1, pairs with L1 */
            return 0;
    }
    return wefti_barge_give(s, &kind, permits);
}

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

static void end_poll(struct wefti_poll_wait *poll) {
    struct wefti_sync *s = poll->thing;
    if (wefti_barge_end(poll, &kind))
        wefti_barge_give(s, &kind, (uintptr_t)poll->waiter.slot); /* it came from here, so there is room */
}

int weft_sem_acquire_poll(weft_sem *sem, uint32_t permits, weft_task *self, weft_wait *wait) {
    struct wefti_sync *s = sync_of(sem);
    struct wefti_sync_poll *poll = wefti_sync_poll_of(wait);
    if (wefti_slice_poll(self))
        return -EAGAIN;
    int begun = wefti_barge_begin(&poll->poll, self, end_poll, s, &kind);
    if (begun < 0 || begun == WEFTI_OWNED)
        return begun < 0 ? begun : 0;
    uint64_t found = load_relaxed(&s->word); /* only compared */
    if (!begun && take(s, permits, &found))
        return 0;
    return wefti_barge_poll(s, &kind, permits, self, poll, end_poll, begun);
}

/* -- Beginning and end ----------------------------------------------------------------------------------- */

void weft_sem_init(weft_sem *sem, uint32_t permits) { *sem = (weft_sem)WEFT_SEM_INIT(permits); }

int weft_sem_init_with(weft_sem *sem, uint32_t permits, unsigned flags) {
    if (flags & ~WEFT_SEM_FIFO)
        return -EINVAL;
    *sem = (weft_sem){WEFT_SYNC_ROOM_INIT(permits * PERMIT, flags)};
    return 0;
}

int weft_sem_destroy(weft_sem *sem) {
    struct wefti_sync *s = sync_of(sem);
    wefti_sync_lock_alone(s);
    return wefti_sync_end(s, load_relaxed(&s->word)); /* whatever it is */
}

uint32_t weft_sem_permits(const weft_sem *sem) {
    return (uint32_t)(load_relaxed(&sync_of(sem)->word) / PERMIT); /* a figure */
}
