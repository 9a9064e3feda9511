/* once.c - something that is done once.
 *
 * Words.  0 not done; the runner's number (sync.h, wefti_me) with RUNNING, and WEFTI_WAITERS; DONE.
 * Cancelled runners.  The function runs under a shield, whose time is never over: half a start would leave the others with nothing, and a
 *         second start is not what was asked for.
 * Checked by.  test/model/sync_rounds.c
 */
#include "sync/sync.h"

#define DONE UINT64_C(2)
#define RUNNING UINT64_C(4)

static struct wefti_sync *sync_of(const weft_once *once) { return wefti_sync_of(&once->room); }

static bool is_done(struct wefti_sync *s) { return load_acquire(&s->word) == DONE; } /* pairs with run */

/* Be the one to run it. */
static bool claim(struct wefti_sync *s, uint64_t me, uint64_t *found) {
    *found = 0;
    return cas_acquire(&s->word, found, me | RUNNING); /* nobody was before us; or DONE: pairs with run */
}

static void run(struct wefti_sync *s, uint64_t me, void (*fn)(void *), void *arg) {
    struct wefti_steady steady = wefti_steady_begin(weft_task_self());
    wefti_owns(me);
    fn(arg);
    wefti_owns_no_more(me);
    wefti_steady_end(&steady);
    uint64_t found = me | RUNNING;
    if (cas_release(&s->word, &found, DONE)) /* pairs with is_done, claim */
        return;
    wefti_lock_take(&s->lock);
    store_release(&s->word, DONE); /* pairs with is_done, claim */
    wefti_sync_serve_turn(s, 0);
}

/* Under the lock.  0: done; -EAGAIN: into the list; -EINVAL. */
static int enter(struct wefti_sync *s) {
    uint64_t found = load_acquire(&s->word); /* pairs with run */
    if (WEFTI_UNLIKELY(wefti_sync_is_dead(s)))
        return -EINVAL;
    while (!(found & (DONE | WEFTI_WAITERS)) &&
           !cas_acquire(&s->word, &found, found | WEFTI_WAITERS)) /* pairs with run */
        ;
    return found & DONE ? 0 : -EAGAIN;
}

int weft_once_run(weft_once *once, void (*fn)(void *arg), void *arg, weft_deadline until) {
    struct wefti_sync *s = sync_of(once);
    struct wefti_waiter waiter;
    wefti_slice_use(until);
    if (WEFTI_LIKELY(is_done(s)))
        return 0;
    if (!fn)
        return -EINVAL;
    uint64_t me = wefti_me(), found;
    if (claim(s, me, &found)) {
        run(s, me, fn, arg);
        return 0;
    }
    if (found == DONE)
        return 0;
    if ((found & ~WEFTI_WAITERS) == (me | RUNNING))
        return -EDEADLK;
    int no_wait = until > 0 ? wefti_waiter_init(&waiter) : -ETIMEDOUT;
    wefti_lock_take(&s->lock);
    int error = enter(s);
    if (error == -EAGAIN && no_wait) {
        error = no_wait;
    } else if (error == -EAGAIN) {
        wefti_sync_in_turn(&waiter, 0);
        wefti_waiters_append(&s->waiters, &waiter);
        error = wefti_sync_wait(s, &waiter, until, wefti_words(WEFTI_DONE_ONCE));
        if (!error)
            return 0;
    }
    wefti_lock_give(&s->lock);
    return error;
}

int weft_once_run_poll(weft_once *once, void (*fn)(void *arg), void *arg, weft_task *self, weft_wait *wait) {
    struct wefti_sync *s = sync_of(once);
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    uint64_t me = (uint64_t)(uintptr_t)self, found;
    if (wefti_slice_poll(self))
        return -EAGAIN;
    int error = wefti_poll_begin(poll, self, wefti_poll_leave, s, WEFTI_DONE_ONCE);
    if (error)
        return error < 0 ? error : 0;
    if (is_done(s))
        return 0;
    if (!fn)
        return -EINVAL;
    if (claim(s, me, &found)) {
        run(s, me, fn, arg);
        return 0;
    }
    if ((found & ~WEFTI_WAITERS) == (me | RUNNING))
        return -EDEADLK;
    wefti_lock_take(&s->lock);
    error = enter(s);
    if (error == -EAGAIN) {
        wefti_poll_wait(s, poll, self, wefti_poll_leave, s, WEFTI_DONE_ONCE);
        wefti_sync_in_turn(&poll->waiter, 0);
    }
    wefti_lock_give(&s->lock);
    return error;
}

bool weft_once_is_done(const weft_once *once) { return is_done(sync_of(once)); }

/* -- Beginning and end ----------------------------------------------------------------------------------- */

void weft_once_init(weft_once *once) { *once = (weft_once)WEFT_ONCE_INIT; }

int weft_once_destroy(weft_once *once) {
    struct wefti_sync *s = sync_of(once);
    wefti_sync_lock_alone(s);
    uint64_t found = load_relaxed(&s->word); /* compared again by the swap */
    if (found & RUNNING) {
        wefti_lock_give(&s->lock);
        return -EBUSY;
    }
    return wefti_sync_end(s, found);
}
