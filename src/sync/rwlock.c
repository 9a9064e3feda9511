/* rwlock.c - readers together, writers alone.
 *
 * Words.  bit 0  WEFTI_WAITERS (sync.h)
 *         bit 1  WRITER: the rest is the writer's number (sync.h, wefti_me); without it the rest is READER times the readers
 *         One wants to be the writer of that number, or with 0 a reader.
 * Race.   barge.h: L1 swaps 0 for the writer, or adds a reader; U1 takes it away.
 * Checked by.  test/model/sync_rwlock.c
 */
#include "sync/barge.h"
#include "task/account.h"

#define WRITER UINT64_C(2)
#define READER UINT64_C(4)
_Static_assert(WEFT_RWLOCK_FIFO == WEFTI_FIFO, "a flag of ours");

static struct wefti_sync *sync_of(const weft_rwlock *rwlock) { return wefti_sync_of(&rwlock->room); }

static inline uint64_t with(uint64_t word, uint64_t who) {
    if (who)
        return word ? WEFTI_NONE : who | WRITER;
    return word & WRITER ? WEFTI_NONE : word + READER;
}
static inline uint64_t without(uint64_t word, uint64_t who) {
    if (who)
        return word == (who | WRITER) ? 0 : WEFTI_NONE;
    return (word & WRITER) || word < READER ? WEFTI_NONE : word - READER;
}
static uint64_t by(const void *thing, uint64_t *many) {
    uint64_t word = load_relaxed(&((const struct wefti_sync *)thing)->word) & ~WEFTI_WAITERS; /* a look */
    *many = word & WRITER ? 0 : word / READER;
    return word & WRITER ? word & ~WRITER : 0;
}
static const struct wefti_barge reading = {with, without, -EPERM, WEFTI_A_READ_LOCK, by};
static const struct wefti_barge writing = {with, without, -EPERM, WEFTI_A_WRITE_LOCK, by};

/* -- Locking --------------------------------------------------------------------------------------------- */

/* L1.  True when it could go in, and nobody waits. */
static inline bool take(struct wefti_sync *s, uint64_t who, uint64_t *found) {
    for (uint64_t next; !(*found & WEFTI_WAITERS) && (next = with(*found, who)) != WEFTI_NONE;)
        if (WEFTI_LIKELY(cas_acquire(&s->word, found, next))) /* pairs with U1, U4 */
            return true;
    return false;
}

static inline bool is_writer(uint64_t word, uint64_t me) {
    return (word & WRITER) && (word & ~(WRITER | WEFTI_WAITERS)) == me;
}

static inline int locked(const struct wefti_sync *s, const struct wefti_barge *kind, uint64_t who) {
    if (who)
        wefti_owns(who);
    return wefti_note_lock(s, kind->what);
}

static __attribute__((noinline)) int lock_slow(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t who,
                                               uint64_t found, int64_t until) {
    if (is_writer(found, wefti_me()))
        return -EDEADLK;
    int error = until > 0 ? wefti_barge_get(s, kind, who, until) : wefti_barge_too_late(s, found);
    return error ? error : locked(s, kind, who);
}

static inline int lock(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t who, int64_t until) {
    uint64_t found = 0; /* a guess: a look first would have to wait for the swap before it */
    if (WEFTI_UNLIKELY(!take(s, who, &found)))
        return lock_slow(s, kind, who, found, until);
    return locked(s, kind, who);
}

static __attribute__((noinline)) int yield_and_read(struct wefti_sync *s, int64_t until) {
    wefti_slice_end(until);
    return lock(s, &reading, 0, until);
}

static __attribute__((noinline)) int yield_and_write(struct wefti_sync *s, int64_t until) {
    wefti_slice_end(until);
    return lock(s, &writing, wefti_me(), until);
}

int weft_rwlock_read(weft_rwlock *rwlock, weft_deadline until) {
    struct wefti_sync *s = sync_of(rwlock);
    return wefti_slice_spend(wefti_worker_self()) ? yield_and_read(s, until) : lock(s, &reading, 0, until);
}

int weft_rwlock_write(weft_rwlock *rwlock, weft_deadline until) {
    struct wefti_sync *s = sync_of(rwlock);
    struct wefti_worker *w = wefti_worker_self();
    return wefti_slice_spend(w) ? yield_and_write(s, until) : lock(s, &writing, wefti_me_on(w), until);
}

/* -- Unlocking ------------------------------------------------------------------------------------------- */

static inline int leave(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t who, uint64_t found) {
    for (;;) {
        uint64_t next = without(found & ~WEFTI_WAITERS, who);
        if (next == WEFTI_NONE)
            return -EPERM;
        if (found & WEFTI_WAITERS)
            return wefti_barge_give(s, kind, who);
        if (WEFTI_LIKELY(cas_release(&s->word, &found, next))) /* U1, pairs with L1 */
            return 0;
    }
}

static inline int unlocked(const struct wefti_sync *s, const struct wefti_barge *kind, uint64_t who) {
    if (who)
        wefti_owns_no_more(who);
    return wefti_note_unlock(s, kind->what); /* only its address: the rwlock may be gone */
}

static __attribute__((noinline)) int unlock_slow(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t who,
                                                 uint64_t found) {
    int error = leave(s, kind, who, found);
    return error ? error : unlocked(s, kind, who);
}

/* found: a guess, of a lock that nobody else has. */
static inline int unlock(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t who, uint64_t found) {
    if (WEFTI_UNLIKELY(!cas_release(&s->word, &found, 0))) /* U1, pairs with L1 */
        return unlock_slow(s, kind, who, found);
    return unlocked(s, kind, who);
}

int weft_rwlock_read_unlock(weft_rwlock *rwlock) {
    wefti_slice_note(wefti_worker_self());
    return unlock(sync_of(rwlock), &reading, 0, READER);
}

int weft_rwlock_write_unlock(weft_rwlock *rwlock) {
    struct wefti_worker *w = wefti_worker_self();
    uint64_t me = wefti_me_on(w);
    wefti_slice_note(w);
    return unlock(sync_of(rwlock), &writing, me, me | WRITER);
}

/* -- Poll tasks ------------------------------------------------------------------------------------------ */

static void end_poll(struct wefti_poll_wait *poll) {
    struct wefti_sync *s = poll->thing;
    if (wefti_barge_end(poll, &reading))
        wefti_barge_give(s, &reading, (uintptr_t)poll->waiter.slot);
}

static int lock_poll(struct wefti_sync *s, const struct wefti_barge *kind, uint64_t who, struct weft_task *self,
                     weft_wait *wait) {
    struct wefti_sync_poll *poll = wefti_sync_poll_of(wait);
    if (wefti_slice_poll(self))
        return -EAGAIN;
    int begun = wefti_barge_begin(&poll->poll, self, end_poll, s, kind);
    if (begun < 0 || begun == WEFTI_OWNED)
        return begun < 0 ? begun : 0;
    uint64_t found = load_relaxed(&s->word); /* only compared */
    if (!begun && take(s, who, &found))
        return 0;
    if (!begun && is_writer(found, (uint64_t)(uintptr_t)self))
        return -EDEADLK;
    return wefti_barge_poll(s, kind, who, self, poll, end_poll, begun);
}

int weft_rwlock_read_poll(weft_rwlock *rwlock, weft_task *self, weft_wait *wait) {
    return lock_poll(sync_of(rwlock), &reading, 0, self, wait);
}

int weft_rwlock_write_poll(weft_rwlock *rwlock, weft_task *self, weft_wait *wait) {
    int error = lock_poll(sync_of(rwlock), &writing, (uint64_t)(uintptr_t)self, self, wait);
    if (!error)
        wefti_owns((uint64_t)(uintptr_t)self);
    return error;
}

/* -- Beginning and end ----------------------------------------------------------------------------------- */

void weft_rwlock_init(weft_rwlock *rwlock) { *rwlock = (weft_rwlock)WEFT_RWLOCK_INIT; }

int weft_rwlock_init_with(weft_rwlock *rwlock, unsigned flags) {
    if (flags & ~WEFT_RWLOCK_FIFO)
        return -EINVAL;
    *rwlock = (weft_rwlock){WEFT_SYNC_ROOM_INIT(0, flags)};
    return 0;
}

int weft_rwlock_destroy(weft_rwlock *rwlock) {
    struct wefti_sync *s = sync_of(rwlock);
    wefti_sync_lock_alone(s);
    return wefti_sync_end(s, 0);
}
