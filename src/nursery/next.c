/* next.c - the ends of a nursery's children, one after the other.
 *
 * What.   With keep_results a child that has ended is put into a second list, with a reference, until the owner takes it, or has awaited.
 * Who.    `ended`, and `taker`, the one who waits for the next: under the nursery's lock.
 * Race.   child: C1 lock; unlink; into `ended`; SERVED the taker; COMPLETE     owner: N1 lock; take the first of `ended`: done
 *                C2 --live                                                            none, and no child: -ECHILD
 *                C3 unlock                                                            else append the taker; unlock
 *                C4 wake                                                       N2 suspend until SERVED; N1
 * Claim.  Each end is given once, in the order of C1 (of one that fails and cancels the others, of its second part, after that); who is given one finds the child COMPLETE, and who waits while none is left is told.
 * Why.    From `ended` on the child holds the lock until C3 (nursery.c): N1 sees the child in one of the two lists, or what it has left and its result.
 *         A child that is counted by N1 serves the taker in its own C1; one that could not be queued, and never begins, does so as it leaves.
 * Checked by.  test/model/nursery_next.c
 */
#include "fiber/slice.h"
#include "nursery/nursery.h"

wefti_waker wefti_nursery_serve_taker(struct wefti_nursery *n) {
    struct wefti_waiter *waiter = wefti_waiters_take(&n->taker);
    return waiter ? wefti_waiter_serve(waiter) : 0;
}

static wefti_waker keep(struct wefti_nursery *n, struct wefti_fiber *fiber) {
    wefti_word_ref(&fiber->task.word);
    fiber->next = NULL;
    *(n->ended_last ? &n->ended_last->next : &n->ended) = fiber;
    n->ended_last = fiber;
    return wefti_nursery_serve_taker(n);
}

const struct wefti_nursery_hooks wefti_nursery_keep = {keep, NULL};

void wefti_nursery_forget(struct wefti_nursery *n) {
    wefti_lock_take(&n->lock);
    struct wefti_fiber *fiber = n->ended;
    n->ended = n->ended_last = NULL;
    n->hooks = NULL;
    n->also = 0;
    wefti_lock_give(&n->lock);
    for (struct wefti_fiber *next; fiber; fiber = next) {
        next = fiber->next; /* before its slot may go */
        wefti_task_unref(&fiber->task, 0);
    }
}

/* N1, under the lock: 0 and the child; -ECHILD; -EAGAIN: wait. */
static int take(struct wefti_nursery *n, struct wefti_fiber **out) {
    struct wefti_fiber *fiber = *out = n->ended;
    if (!fiber)
        return n->live > n->pinned ? -EAGAIN : -ECHILD;
    if (!(n->ended = fiber->next))
        n->ended_last = NULL;
    return 0;
}

/* Without the lock. */
static void give(struct wefti_fiber *fiber, weft_result *result, const weft_task **which) {
    if (result)
        *result = wefti_task_result(&fiber->task); /* COMPLETE before C3 */
    if (which)
        *which = &fiber->task;
    wefti_task_unref(&fiber->task, 0);
}

/* The end of N1: the caller will wait, -EAGAIN; or why not. */
static int append(struct wefti_nursery *n, struct wefti_waiter *waiter, int64_t until) {
    if (until <= 0)
        return -ETIMEDOUT;
    int error = n->taker.first || n->waiters.first ? -EBUSY : wefti_waiter_init(waiter);
    if (error)
        return error;
    wefti_waiters_append(&n->taker, waiter);
    return -EAGAIN;
}

int weft_nursery_next(weft_nursery *nursery, weft_result *result, const weft_task **which, weft_deadline until) {
    wefti_slice_use(until);
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    struct wefti_worker *w = wefti_worker_here();
    struct wefti_fiber *fiber;
    struct wefti_waiter waiter;
    int error = n ? wefti_nursery_is_mine(n, w ? wefti_current(w) : NULL, false) : -EINVAL;
    if (error || !n->keep_results)
        return error ? error : -EINVAL;
    for (;;) {
        wefti_lock_take(&n->lock);
        error = take(n, &fiber);
        if (error == -EAGAIN)
            error = append(n, &waiter, until);
        wefti_lock_give(&n->lock);
        if (error != -EAGAIN)
            break;
        int why = wefti_waiter_wait(&waiter, until, "a child"); /* N2 */
        if (!why)
            continue;
        wefti_lock_take(&n->lock);
        bool gone = wefti_waiters_remove(&n->taker, &waiter);
        wefti_lock_give(&n->lock);
        if (gone)
            return why;
        wefti_waiter_settle(&waiter); /* served after all */
    }
    if (!error)
        give(fiber, result, which);
    return error;
}

/* weft_wait_end. */
static void end_wait(struct wefti_poll_wait *poll) {
    struct wefti_nursery *n = poll->thing;
    wefti_lock_take(&n->lock);
    wefti_waiters_remove(&n->taker, &poll->waiter);
    wefti_lock_give(&n->lock);
    poll->end = NULL;
}

int weft_nursery_next_poll(weft_nursery *nursery, weft_task *self, weft_wait *wait, weft_result *result,
                           const weft_task **which) {
    if (wefti_slice_poll(self))
        return -EAGAIN;
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    struct wefti_fiber *fiber;
    int error = n && self ? wefti_nursery_is_mine(n, self, true) : -EINVAL;
    if (error || !n->keep_results)
        return error ? error : -EINVAL;
    if (wefti_poll_wait_is_taken(poll, end_wait, n))
        return -EBUSY;
    wefti_lock_take(&n->lock);
    if (poll->end)
        wefti_waiters_remove(&n->taker, &poll->waiter); /* if it has not been served; should it wait on, it is new */
    poll->end = NULL;
    error = take(n, &fiber);
    if (error == -EAGAIN && (n->taker.first || n->waiters.first)) {
        error = -EBUSY;
    } else if (error == -EAGAIN) {
        wefti_waiter_init_task(&poll->waiter, self);
        wefti_waiters_append(&n->taker, &poll->waiter);
        poll->end = end_wait;
        poll->thing = n;
    }
    wefti_lock_give(&n->lock);
    if (error == -EAGAIN)
        return wefti_poll_waits(error, WEFTI_A_TASK);
    if (!error)
        give(fiber, result, which);
    return error;
}
