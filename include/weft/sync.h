/* weft/sync.h - waiting for each other: mutex, rwlock, condition, semaphore, event, barrier, once, wait group.
 *
 *     static weft_mutex lock = WEFT_MUTEX_INIT;
 *
 *     if (weft_mutex_lock(&lock, WEFT_NEVER) == 0) {
 *         ...                                             // may wait: the others suspend, their workers go on
 *         weft_mutex_unlock(&lock);
 *     }
 *
 * Who.       Fibers suspend, plain threads sleep, and all meet at one object.  A poll task must not wait inside its poll: it uses the
 *            form that ends in _poll, or a deadline of WEFT_NOW.  A forked job must not wait at all.
 * Slices.    A call that may suspend yields when the caller's slice is used up, before it takes anything (<weft/fiber.h>); the _poll form
 *            then returns -EAGAIN, and its task is polled again.  Calls that never suspend, and WEFT_NOW, only spend the slice.
 * Deadlines. Each wait ends at `until` with -ETIMEDOUT.  WEFT_NOW tries and never waits; WEFT_NEVER has no limit.
 * Cancelled  fibers get -ECANCELED where they would have to wait; what can be had without waiting they still get.  A wait that fails
 *            has taken nothing: what was about to be granted to it goes to the next waiter.
 * Polls.     weft_x_poll(&x, self, &wait) returns -EAGAIN while the task has to wait: return WEFT_PENDING and call it again when polled.
 *            `wait` lies in the task's state, all zero at first; its drop function calls weft_wait_end(&wait), which gives back
 *            what was granted to a task that was cancelled before it knew.  What a task has taken (a mutex, a permit) it gives back
 *            itself, in its drop function too.  -EBUSY: `wait` still waits for something else.
 * Memory.    Objects are the caller's, and may be part of others; all zero bytes are a good object, as the _INIT macros say.  They never
 *            allocate, and no call here can fail for want of memory.  Before the memory of one goes or is used for something
 *            else, destroy it: that also waits for calls that are just about to return.  One with users is not destroyed (-EBUSY); one
 *            that was destroyed is refused (-EINVAL).  Objects are not copied.
 * Ordering.  What was written before an unlock, release, signal, set, done or arrival is visible to whoever goes on because of it.
 *
 * Errors of every waiting call: -ETIMEDOUT; -ECANCELED; -EINVAL (destroyed; or in a poll task that would have to wait).  They are not
 * repeated below.
 */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/base.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

/* What every object here begins with; weft's. */
typedef struct weft_sync_room {
    uint64_t word;
    void *waiters[2];
    uint32_t lock, flags;
} weft_sync_room;

#define WEFT_SYNC_ROOM_INIT(word, flags) {word, {0, 0}, 0, flags}

/* -- Mutex ------------------------------------------------------------------------------------------- */

/* One owner at a time: a fiber, a poll task or a thread.  Not re-entrant.  May be held across waits.  Only the owner can unlock it: if the owner ends
 * before that, the mutex stays locked.
 * Order.  Whoever asks at the right moment gets it, also before those who wait; but one who has waited for a millisecond is handed it
 * by the next unlock.  With WEFT_MUTEX_FIFO every unlock hands it to who waits longest: fair to the letter, and much slower when
 * several workers want it, since each hand-over costs a wake. */
typedef struct weft_mutex {
    weft_sync_room room;
} weft_mutex;

#define WEFT_MUTEX_FIFO 1u
#define WEFT_MUTEX_INIT {WEFT_SYNC_ROOM_INIT(0, 0)}
#define WEFT_MUTEX_FIFO_INIT {WEFT_SYNC_ROOM_INIT(0, WEFT_MUTEX_FIFO)}

/* flags: 0 or WEFT_MUTEX_FIFO.  Returns 0; -EINVAL. */
WEFT_API int weft_mutex_init(weft_mutex *mutex, unsigned flags);
/* Returns 0; -EBUSY (locked, or somebody waits); -EINVAL (destroyed already). */
WEFT_API int weft_mutex_destroy(weft_mutex *mutex);
/* May suspend.  Returns 0: locked; -EDEADLK (the caller has it). */
WEFT_API WEFT_MUST_USE int weft_mutex_lock(weft_mutex *mutex, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_mutex_lock_poll(weft_mutex *mutex, weft_task *self, weft_wait *wait);
/* Never suspends.  Returns 0; -EPERM (not locked by the caller; nothing has changed). */
WEFT_API int weft_mutex_unlock(weft_mutex *mutex);
/* Does the caller have it? */
WEFT_API bool weft_mutex_is_mine(const weft_mutex *mutex);

/* -- Readers and writers ------------------------------------------------------------------------------ */

/* Any number of readers, or one writer.
 * Order.  As with a mutex: whoever asks at the right moment gets in, also before those who have just been woken; but one who has waited
 * for a millisecond is let in by the next unlock that makes it possible.  Readers that come while a writer waits go behind it.  So
 * neither side starves; a reader must therefore not ask for a second read lock, and nobody can turn a read lock into a write lock.
 * With WEFT_RWLOCK_FIFO everyone gets in strictly in order of arrival, which is much slower when several workers want it. */
typedef struct weft_rwlock {
    weft_sync_room room;
} weft_rwlock;

#define WEFT_RWLOCK_FIFO 1u
#define WEFT_RWLOCK_INIT {WEFT_SYNC_ROOM_INIT(0, 0)}
#define WEFT_RWLOCK_FIFO_INIT {WEFT_SYNC_ROOM_INIT(0, WEFT_RWLOCK_FIFO)}

WEFT_API void weft_rwlock_init(weft_rwlock *rwlock);
/* flags: 0 or WEFT_RWLOCK_FIFO.  Returns 0; -EINVAL. */
WEFT_API int weft_rwlock_init_with(weft_rwlock *rwlock, unsigned flags);
/* Returns 0; -EBUSY (locked, or somebody waits); -EINVAL. */
WEFT_API int weft_rwlock_destroy(weft_rwlock *rwlock);
/* May suspend.  Returns 0: locked; -EDEADLK (the caller has the write lock). */
WEFT_API WEFT_MUST_USE int weft_rwlock_read(weft_rwlock *rwlock, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_rwlock_write(weft_rwlock *rwlock, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_rwlock_read_poll(weft_rwlock *rwlock, weft_task *self, weft_wait *wait);
WEFT_API WEFT_MUST_USE int weft_rwlock_write_poll(weft_rwlock *rwlock, weft_task *self, weft_wait *wait);
/* Returns 0; -EPERM (nobody reads; or for a write lock, the caller does not have it). */
WEFT_API int weft_rwlock_read_unlock(weft_rwlock *rwlock);
WEFT_API int weft_rwlock_write_unlock(weft_rwlock *rwlock);

/* -- Condition ---------------------------------------------------------------------------------------- */

/* Wait, with a mutex released meanwhile, until somebody says that what it protects has changed.  A wait may also return for no
 * reason: wait in a loop.
 *     while (!queue->count && !error)
 *         error = weft_cond_wait(&queue->filled, &queue->lock, until); */
typedef struct weft_cond {
    weft_sync_room room;
    uint64_t turn;
} weft_cond;

#define WEFT_COND_INIT {WEFT_SYNC_ROOM_INIT(0, 0), 0}

WEFT_API void weft_cond_init(weft_cond *cond);
/* Returns 0; -EBUSY (somebody waits); -EINVAL. */
WEFT_API int weft_cond_destroy(weft_cond *cond);
/* May suspend.  The mutex is the caller's before and after, also when this fails: having it back is waited for without limit, and
 * even when cancelled.
 * Returns 0: signalled, or for no reason; -EPERM (the mutex is not the caller's); -EBUSY (others wait with another mutex). */
WEFT_API int weft_cond_wait(weft_cond *cond, weft_mutex *mutex, weft_deadline until);
/* 0: and the mutex is locked again.  -EAGAIN: it is not; weft_wait_end leaves it so. */
WEFT_API WEFT_MUST_USE int weft_cond_wait_poll(weft_cond *cond, weft_mutex *mutex, weft_task *self, weft_wait *wait);
/* Let one go on, who has waited longest, or all who wait now.  The mutex need not be held, if what it protects was changed under it.
 * Returns 0; -EINVAL (destroyed). */
WEFT_API int weft_cond_signal(weft_cond *cond);
WEFT_API int weft_cond_broadcast(weft_cond *cond);

/* -- Semaphore ---------------------------------------------------------------------------------------- */

/* Permits that are acquired and released, by anyone.
 * Order.  As with a mutex: whoever asks at the right moment gets them, also before one who has just been woken; but to one who has waited
 * for a millisecond they are handed as soon as there are enough.  While one waits who wants many, what is released is kept for
 * him, and those who want few go behind.  With WEFT_SEM_FIFO permits are handed out strictly in order of arrival: fair to the
 * letter, and much slower when several workers want them. */
typedef struct weft_sem {
    weft_sync_room room;
} weft_sem;

#define WEFT_SEM_FIFO 1u
/* At first 0 to 2^32 - 1 permits. */
#define WEFT_SEM_INIT(permits) {WEFT_SYNC_ROOM_INIT((uint64_t)(permits) << 1, 0)}
#define WEFT_SEM_FIFO_INIT(permits) {WEFT_SYNC_ROOM_INIT((uint64_t)(permits) << 1, WEFT_SEM_FIFO)}

WEFT_API void weft_sem_init(weft_sem *sem, uint32_t permits);
/* flags: 0 or WEFT_SEM_FIFO.  Returns 0; -EINVAL. */
WEFT_API int weft_sem_init_with(weft_sem *sem, uint32_t permits, unsigned flags);
/* Returns 0; -EBUSY (somebody waits); -EINVAL. */
WEFT_API int weft_sem_destroy(weft_sem *sem);
/* May suspend.  All of them, or none. */
WEFT_API WEFT_MUST_USE int weft_sem_acquire(weft_sem *sem, uint32_t permits, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_sem_acquire_poll(weft_sem *sem, uint32_t permits, weft_task *self, weft_wait *wait);
/* Never suspends.  Returns 0; -EOVERFLOW (there would be 2^32 or more; nothing has changed); -EINVAL (destroyed). */
WEFT_API int weft_sem_release(weft_sem *sem, uint32_t permits);
/* How many there were just now. */
WEFT_API uint32_t weft_sem_permits(const weft_sem *sem);

/* -- Event -------------------------------------------------------------------------------------------- */

/* Something that has happened or not: set wakes all who wait, and lets everyone through until it is cleared. */
typedef struct weft_event {
    weft_sync_room room;
    uint64_t turn;
} weft_event;

#define WEFT_EVENT_INIT {WEFT_SYNC_ROOM_INIT(0, 0), 0}

WEFT_API void weft_event_init(weft_event *event);
/* Returns 0; -EBUSY (somebody waits, or a select over it has not yet returned); -EINVAL. */
WEFT_API int weft_event_destroy(weft_event *event);
/* May suspend.  0: it is set, or was when this was woken. */
WEFT_API int weft_event_wait(weft_event *event, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_event_wait_poll(weft_event *event, weft_task *self, weft_wait *wait);
/* All who wait now go on, even if it is cleared at once.  Returns 0; -EINVAL (destroyed). */
WEFT_API int weft_event_set(weft_event *event);
/* What was written before a set that this undoes is visible afterwards.  Returns 1: it was set; 0; -EINVAL (destroyed). */
WEFT_API int weft_event_clear(weft_event *event);
WEFT_API bool weft_event_is_set(const weft_event *event);

/* -- Barrier ------------------------------------------------------------------------------------------ */

/* So many parties wait for each other, again and again. */
typedef struct weft_barrier {
    weft_sync_room room;
    uint64_t turn;
    uint32_t parties, arrived;
} weft_barrier;

#define WEFT_BARRIER_INIT(parties) {WEFT_SYNC_ROOM_INIT(0, 0), 0, parties, 0}

/* Returns 0; -EINVAL (no parties). */
WEFT_API int weft_barrier_init(weft_barrier *barrier, uint32_t parties);
/* Returns 0; -EBUSY (somebody waits); -EINVAL. */
WEFT_API int weft_barrier_destroy(weft_barrier *barrier);
/* May suspend, unless the caller is the last.  Who gives up has not arrived, and the others wait for another.
 * Returns 0; 1 for one of the parties of each round, the last. */
WEFT_API int weft_barrier_wait(weft_barrier *barrier, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_barrier_wait_poll(weft_barrier *barrier, weft_task *self, weft_wait *wait);

/* -- Once --------------------------------------------------------------------------------------------- */

/* Something that is done by the first who wants it done, and waited for by the others. */
typedef struct weft_once {
    weft_sync_room room;
} weft_once;

#define WEFT_ONCE_INIT {WEFT_SYNC_ROOM_INIT(0, 0)}

WEFT_API void weft_once_init(weft_once *once);
/* Returns 0; -EBUSY (it is being done, or somebody waits for it); -EINVAL. */
WEFT_API int weft_once_destroy(weft_once *once);
/* May suspend.  The first caller runs fn(arg), which may itself wait in a fiber; a cancellation of that caller waits until it has
 * returned, also when the time of its shields is over (weft_shield_until, a nursery's grace): others would be left with half of it.  0: it has been done, and what it wrote is visible.  -EDEADLK (called by fn itself);
 * -EINVAL (it has not, and there is no fn). */
WEFT_API int weft_once_run(weft_once *once, void (*fn)(void *arg), void *arg, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_once_run_poll(weft_once *once, void (*fn)(void *arg), void *arg, weft_task *self,
                                              weft_wait *wait);
WEFT_API bool weft_once_is_done(const weft_once *once);

/* -- Wait group --------------------------------------------------------------------------------------- */

/* Counts what is under way, and lets those go on who wait for all of it to be done. */
typedef struct weft_group {
    weft_sync_room room;
    uint64_t turn;
} weft_group;

#define WEFT_GROUP_INIT {WEFT_SYNC_ROOM_INIT(0, 0), 0}

WEFT_API void weft_group_init(weft_group *group);
/* Returns 0; -EBUSY (something is under way, or somebody waits); -EINVAL. */
WEFT_API int weft_group_destroy(weft_group *group);
/* So many more are under way (fewer, when negative).  Add before what is added can be done.
 * Returns 0; -ERANGE (fewer than none), -EOVERFLOW (2^31 or more): nothing has changed; -EINVAL (destroyed). */
WEFT_API int weft_group_add(weft_group *group, int32_t more);
/* One is done: weft_group_add(group, -1). */
WEFT_API int weft_group_done(weft_group *group);
/* May suspend.  0: there was a moment when none was under way. */
WEFT_API int weft_group_wait(weft_group *group, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_group_wait_poll(weft_group *group, weft_task *self, weft_wait *wait);
/* How many there were just now. */
WEFT_API uint32_t weft_group_count(const weft_group *group);

WEFT_EXTERN_C_END
#endif
