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

/* K1 for those that a cancelled fiber owns: in front of the list of work. */
static void add_owned(struct wefti_fiber *fiber, struct wefti_nursery **work) {
    wefti_lock_take(&fiber->lock);
    for (struct wefti_owned *owned = fiber->owned; owned; owned = owned->below) {
        struct wefti_nursery *n = wefti_nursery_of_owned(owned);
        if (n->shielded)
            continue;
        wefti_lock_take(&n->lock);
        if (wefti_nursery_cancel_begin(n, WEFT_REASON_PARENT)) {
            n->next = *work;
            *work = n;
        }
        wefti_lock_give(&n->lock);
    }
    wefti_lock_give(&fiber->lock);
}

/* K2: the next child, with a reference. */
static struct wefti_fiber *take_next(struct wefti_nursery *n) {
    wefti_lock_take(&n->lock);
    struct wefti_fiber *fiber = n->cursor;
    if (fiber) {
        n->cursor = fiber->next;
        wefti_word_ref(&fiber->task.word);
    }
    wefti_lock_give(&n->lock);
    return fiber;
}

/* Until when the shields of its children hold: as its grace says, and no longer than those of its owner, if that is cancelled with a limit.  The pin keeps the
 * owner where it is. */
static int64_t limit_of(const struct wefti_nursery *n) {
    int64_t limit = n->grace ? wefti_now(n->rt) + n->grace : WEFT_NEVER, given = WEFT_NEVER;
    if (n->kind == WEFTI_BY_FIBER && (load_acquire(&n->made_by->word) & WEFTI_CANCELLED)) /* pairs with cancel_for */
        given = load_relaxed(&wefti_fiber_of(n->made_by)->grace); /* set before CANCELLED */
    return limit < given ? limit : given;
}

static void carry_out(struct wefti_nursery *work) {
    for (struct wefti_nursery *n; (n = work);) {
        work = n->next;
        int64_t limit = limit_of(n);
        for (struct wefti_fiber *fiber; (fiber = take_next(n));) {
            wefti_fiber_limit(fiber, limit);
            bool queue = wefti_word_cancel_for(&fiber->task.word, n->reason); /* K3 */
            add_owned(fiber, &work);
            wefti_cancel_wake(&fiber->task, queue); /* K3: wake */
            wefti_task_unref(&fiber->task, 0);
        }
        wefti_lock_take(&n->lock);
        n->pinned = false;
        wefti_nursery_leave(n); /* K4 */
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
    if (some && wefti_fiber_must_end(fiber)) /* recheck: who cancelled us before left them alone */
        wefti_nursery_owner_cancelled(fiber);
}

void wefti_nursery_owner_cancelled(struct wefti_fiber *fiber) {
    struct wefti_nursery *work = NULL;
    add_owned(fiber, &work);
    carry_out(work);
}
