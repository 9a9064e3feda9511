/* cancel.c - cancelling a nursery, and everything that hangs on it (nursery.h, K1 to K4). */
#include "nursery/nursery.h"

bool wefti_nursery_cancel_begin(struct wefti_nursery *n, enum weft_reason why) {
    if (n->state != WEFT_NURSERY_OPEN && n->state != WEFT_NURSERY_CLOSING)
        return false;
    n->reason = (uint8_t)why;
    n->state = n->live ? WEFT_NURSERY_CANCELLING : WEFT_NURSERY_CANCELLED;
    if (!n->live)
        return false;
    n->live++;
    n->pinned = true;
    n->cursor = n->first;
    return true;
}

/* Until when the shields of its children hold: as its grace says (`limit`), and no longer than those of its owner, if that is cancelled with a limit.  The pin, or
 * the owner's lock, keeps the owner where it is.  One that is not seen here yet is no loss: who set it comes by with the lock (add_owned), and begins
 * again; or he found the nursery under a shield, and the owner's lock, with which that was taken away, shows it. */
static int64_t limit_of(const struct wefti_nursery *n, int64_t limit) {
    int64_t given = WEFT_NEVER;
    if (n->kind == WEFTI_BY_FIBER && (load_relaxed(&n->made_by->word) & WEFTI_CANCELLED)) /* as said above */
        given = load_relaxed(&wefti_fiber_of(n->made_by)->grace); /* the same */
    return limit < given ? limit : given;
}

/* K1 once more, under the lock, if the owner's shields have a limit: those that were cancelled before, when there was none, are to have it, too.  True as
 * there; who is at it already comes to the first child again. */
static bool begin_again(struct wefti_nursery *n) {
    if (n->state != WEFT_NURSERY_CANCELLING || limit_of(n, WEFT_NEVER) == WEFT_NEVER)
        return false;
    n->cursor = n->first;
    if (n->pinned)
        return false;
    n->live++;
    n->pinned = true;
    return true;
}

/* K1 for those that a cancelled fiber owns: in front of the list of work. */
static void add_owned(struct wefti_fiber *fiber, struct wefti_nursery **work) {
    wefti_lock_take(&fiber->lock);
    for (struct wefti_owned *owned = fiber->owned; owned; owned = owned->below) {
        struct wefti_nursery *n = wefti_nursery_of_owned(owned);
        if (n->shielded)
            continue;
        wefti_lock_take(&n->lock);
        if (wefti_nursery_cancel_begin(n, WEFT_REASON_PARENT) || begin_again(n)) {
            n->next = *work;
            *work = n;
        }
        wefti_lock_give(&n->lock);
    }
    wefti_lock_give(&fiber->lock);
}

/* K2: the next child, with a reference.  NULL: there is none, and the nursery is not ours any more. */
static struct wefti_fiber *take_next(struct wefti_nursery *n) {
    wefti_lock_take(&n->lock);
    struct wefti_fiber *fiber = n->cursor;
    if (!fiber) {
        n->pinned = false;
        wefti_nursery_leave(n); /* K4 */
        return NULL;
    }
    n->cursor = fiber->next;
    wefti_word_ref(&fiber->task.word);
    wefti_lock_give(&n->lock);
    return fiber;
}

/* Its own, from now on. */
static int64_t grace_of(const struct wefti_nursery *n) {
    int64_t now = n->grace ? wefti_now(n->rt) : 0;
    return n->grace && n->grace < WEFT_NEVER - now ? now + n->grace : WEFT_NEVER;
}

static void carry_out(struct wefti_nursery *work) {
    for (struct wefti_nursery *n; (n = work);) {
        work = n->next;
        int64_t grace = grace_of(n);
        for (struct wefti_fiber *fiber; (fiber = take_next(n));) {
            wefti_fiber_limit(fiber, limit_of(n, grace)); /* each time: begin_again */
            bool queue = wefti_word_cancel_for(&fiber->task.word, n->reason); /* K3 */
            add_owned(fiber, &work);
            wefti_cancel_wake(&fiber->task, queue); /* K3: wake */
            wefti_task_unref(&fiber->task, 0);
        }
    }
}

void wefti_nursery_cancel_begun(struct wefti_nursery *n) {
    n->next = NULL;
    carry_out(n);
}

void wefti_nursery_cancel(struct wefti_nursery *n, enum weft_reason why) {
    wefti_lock_take(&n->lock);
    bool begun = wefti_nursery_cancel_begin(n, why);
    wefti_lock_give(&n->lock);
    if (begun)
        wefti_nursery_cancel_begun(n);
}

void wefti_nursery_cancel_own(struct wefti_nursery *n, enum weft_reason why) {
    if (n->shielded) { /* that is over: a limit that its owner is given later is for them, too (add_owned) */
        struct wefti_fiber *owner = wefti_fiber_of(n->made_by);
        wefti_lock_take(&owner->lock);
        n->shielded = false;
        wefti_lock_give(&owner->lock);
    }
    wefti_lock_take(&n->lock);
    bool begun = wefti_nursery_cancel_begin(n, why) || begin_again(n);
    wefti_lock_give(&n->lock);
    if (begun)
        wefti_nursery_cancel_begun(n);
}

void weft_nursery_cancel(weft_nursery *n) {
    if (n)
        wefti_nursery_cancel(wefti_nursery_of(n), WEFT_REASON_EXPLICIT);
}

void wefti_nursery_owner_unshielded(struct wefti_fiber *fiber) {
    bool some = false;
    wefti_lock_take(&fiber->lock);
    for (struct wefti_owned *owned = fiber->owned; owned; owned = owned->below) {
        struct wefti_nursery *n = wefti_nursery_of_owned(owned);
        some = some || n->shielded;
        n->shielded = false;
    }
    wefti_lock_give(&fiber->lock);
    if (some && wefti_fiber_is_cancelled(fiber)) /* recheck: who cancelled us before left them alone */
        wefti_nursery_owner_cancelled(fiber);
}

void wefti_nursery_owner_cancelled(struct wefti_fiber *fiber) {
    struct wefti_nursery *work = NULL;
    add_owned(fiber, &work);
    carry_out(work);
}
