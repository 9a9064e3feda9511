/* nursery.c - opening, starting children, their end, awaiting (nursery.h has the protocol). */
#include "nursery/nursery.h"
#include "fiber/slice.h"

#include "budget/profile.h"
#include "task/waits.h"

static const char unnamed[] = "nursery";

/* -- Children ------------------------------------------------------------------------------------------------ */

static void link_child(struct wefti_nursery *n, struct wefti_fiber *fiber) {
    fiber->next = NULL;
    fiber->prev = n->last;
    *(n->last ? &n->last->next : &n->first) = fiber;
    n->last = fiber;
    n->live++;
}

/* Its count stays: wefti_nursery_leave. */
static void unlink_child(struct wefti_nursery *n, struct wefti_fiber *fiber) {
    if (WEFTI_UNLIKELY(n->cursor == fiber))
        n->cursor = fiber->next;
    *(fiber->prev ? &fiber->prev->next : &n->first) = fiber->next;
    *(fiber->next ? &fiber->next->prev : &n->last) = fiber->prev;
}

/* Nothing is left of one that takes no more. */
static void settle(struct wefti_nursery *n) {
    n->state = n->state == WEFT_NURSERY_CANCELLING ? WEFT_NURSERY_CANCELLED : WEFT_NURSERY_CLOSED;
}

void wefti_nursery_leave(struct wefti_nursery *n) {
    wefti_waker waker = 0;
    bool abandoned = false;
    struct wefti_fiber *lent = NULL;
    if (--n->live == 0) {
        struct wefti_waiter *waiter = wefti_waiters_take(&n->waiters);
        if (waiter || n->state != WEFT_NURSERY_OPEN)
            settle(n); /* C2 */
        if (waiter)
            waker = wefti_waiter_serve(waiter); /* C2 */
        abandoned = n->abandoned;
        lent = abandoned ? wefti_nursery_take_lent(n) : NULL;
    }
    wefti_lock_give(&n->lock); /* C3: unless abandoned, the last touch */
    if (waker)
        wefti_waiter_wake(waker); /* C4: wake */
    if (WEFTI_UNLIKELY(abandoned)) {
        wefti_free(n, sizeof *n);
        wefti_nursery_drop_lent(lent);
    }
}

/* Under the lock: a child has failed with this.  True: its siblings are to be cancelled. */
static bool note_failure(struct wefti_nursery *n, int status) {
    if (!n->error)
        n->error = status;
    return !n->keep_going && wefti_nursery_cancel_begin(n, WEFT_REASON_FAILURE);
}

/* Under the lock: a child has ended with this.  True: its siblings are to be cancelled. */
static bool has_failed(struct wefti_nursery *n, const struct wefti_fiber *fiber, int status) {
    if (status != -ECANCELED)
        return note_failure(n, status);
    n->refused |= weft_task_cancel_reason(&fiber->task) == WEFT_REASON_BUDGET;
    return false;
}

void wefti_nursery_refuse(struct wefti_nursery *n, int error) {
    if (!n || !n->rt || error == -ECANCELED)
        return;
    wefti_lock_take(&n->lock);
    bool cancel = n->state == WEFT_NURSERY_OPEN && note_failure(n, error);
    wefti_lock_give(&n->lock);
    if (cancel)
        wefti_nursery_cancel_begun(n);
}

/* C1, on the worker on which it has ended.  Returns with the lock. */
static void ended(struct wefti_fiber *fiber) {
    struct wefti_nursery *n = (struct wefti_nursery *)(void *)fiber->owner; /* owner is its first field */
    int status = load_own(&fiber->task.status);
    wefti_lock_take(&n->lock);
    unlink_child(n, fiber);
    if (WEFTI_UNLIKELY(status < 0) && has_failed(n, fiber, status)) {
        wefti_lock_give(&n->lock);
        wefti_nursery_cancel_begun(n);
        wefti_lock_take(&n->lock); /* our own count keeps it */
    }
    if (WEFTI_UNLIKELY(fiber->lent))
        wefti_nursery_keep_lent(n, fiber);
    if (WEFTI_UNLIKELY(n->hooks != NULL)) /* last: the lock is held from here on until it has left */
        n->also = n->hooks->ended(n, fiber);
}

/* C2 to C4: it is COMPLETE. */
static void left(struct wefti_owner *owner) {
    struct wefti_nursery *n = (struct wefti_nursery *)(void *)owner; /* its first field */
    wefti_waker waker = n->also; /* if there are hooks: they set it for each child */
    wefti_nursery_leave(n);
    if (WEFTI_UNLIKELY(waker != 0))
        wefti_waiter_wake(waker); /* wake */
}

/* On the child's own stack: it is in its fund's list of exhausted fibers. */
static bool exhausted(struct wefti_fiber *fiber, const char *what) {
    struct wefti_nursery *n = (struct wefti_nursery *)(void *)fiber->owner; /* owner is its first field */
    wefti_lock_take(&n->lock);
    const struct wefti_nursery_hooks *hooks = n->hooks;
    wefti_lock_give(&n->lock); /* the child keeps the nursery */
    return hooks && hooks->exhausted && hooks->exhausted(n, fiber, what);
}

static const struct wefti_owner_kind owner_kind = {ended, left, exhausted};

/* Is the caller the task that opened it, or a thread if a thread did? */
static bool is_owner(const struct wefti_nursery *n) {
    struct wefti_worker *w = wefti_worker_here();
    return n->made_by == (w ? wefti_current(w) : NULL);
}

/* The spec with what the nursery has for its children.  Its fund is for every child.  Its capability is only for those that the owner starts: a child can
 * find its nursery (weft_nursery_parent), and must not gain a right by that. */
static void complete(const struct wefti_nursery *n, weft_fiber_spec *spec) {
    if (!spec->fund)
        spec->fund = n->fund;
    if (!spec->cap && n->has_cap && is_owner(n))
        spec->cap = &n->cap;
}

/* lend: the handle is borrowed (lend.c). */
static int spawn(struct wefti_nursery *n, const weft_fiber_spec *spec, bool lend, weft_task **handle) {
    struct wefti_room room;
    weft_fiber_spec completed;
    if (WEFTI_UNLIKELY(!n || !n->rt)) /* none, or never opened */
        return -EINVAL;
    if (WEFTI_UNLIKELY(n->fund || n->has_cap)) {
        completed = *spec;
        complete(n, &completed);
        spec = &completed;
    }
    int error = wefti_fiber_make(n->rt, spec, &n->owner, &room);
    if (WEFTI_UNLIKELY(error))
        return error;
    struct wefti_fiber *fiber = wefti_fiber_of(room.task);
    if (lend)
        fiber->lent = true;
    wefti_lock_take(&n->lock);
    if (WEFTI_UNLIKELY(n->state != WEFT_NURSERY_OPEN))
        error = n->state == WEFT_NURSERY_CLOSING || n->state == WEFT_NURSERY_CLOSED ? -EPIPE : -ECANCELED;
    if (WEFTI_LIKELY(!error)) {
        wefti_word_spawn(&room.task->word,
                         handle != NULL); /* first: a canceller that finds it in the list takes a reference */
        if (lend)
            wefti_word_ref(&room.task->word);
        link_child(n, fiber);
    }
    wefti_lock_give(&n->lock);
    if (WEFTI_UNLIKELY(error)) {
        wefti_fiber_unmake(&room, spec);
        return error;
    }
    if (WEFTI_LIKELY(room.w && !room.w->parking))
        return wefti_spawn_submit_born(&room, handle); /* cannot fail; the nursery may be gone */
    wefti_word_ref(&room.task->word); /* until it is out of the list again */
    error = wefti_spawn_submit_born(&room, handle);
    if (error) {
        wefti_lock_take(&n->lock);
        unlink_child(n, fiber);
        wefti_waker waker = wefti_nursery_serve_taker(n); /* it may have been the last */
        wefti_nursery_leave(n);
        if (waker)
            wefti_waiter_wake(waker); /* wake */
        if (lend)
            wefti_task_unref(room.task, 0);
    }
    wefti_task_unref(room.task, 0);
    return error;
}

int weft_nursery_spawn(weft_nursery *nursery, const weft_fiber_spec *spec, weft_task **handle) {
    weft_fiber_spec known;
    int error = wefti_fiber_known(&spec, &known);
    return error ? error : spawn(wefti_nursery_of(nursery), spec, false, handle);
}

int weft_nursery_go(weft_nursery *nursery, weft_fiber_fn fn, void *arg, weft_task **handle) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    return spawn(wefti_nursery_of(nursery), &spec, false, handle);
}

int wefti_nursery_go_lent(struct wefti_nursery *n, weft_fiber_fn fn, void *arg, struct weft_task **handle) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    return spawn(n, &spec, true, handle);
}

void weft_nursery_close(weft_nursery *nursery) {
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    if (!n)
        return;
    wefti_lock_take(&n->lock);
    if (n->state == WEFT_NURSERY_OPEN)
        n->state = n->live ? WEFT_NURSERY_CLOSING : WEFT_NURSERY_CLOSED;
    wefti_lock_give(&n->lock);
}

/* -- Opening --------------------------------------------------------------------------------------------------- */

/* Its function has returned; the nursery is one that create made. */
static void owner_left(struct wefti_fiber *fiber) {
    weft_nursery_destroy((weft_nursery *)(void *)wefti_nursery_of_owned(fiber->owned));
}

static void list(struct wefti_owned *owned, wefti_visit_child *visit, void *arg) {
    struct wefti_nursery *n = wefti_nursery_of_owned(owned);
    wefti_lock_take(&n->lock);
    for (const struct wefti_fiber *child = n->first; child; child = child->next)
        visit(&child->task, n->name, arg);
    wefti_lock_give(&n->lock);
}

static void bind(struct wefti_nursery *n, struct wefti_fiber *fiber) {
    n->owned.cancelled = wefti_nursery_owner_cancelled;
    n->owned.unshielded = wefti_nursery_owner_unshielded;
    n->owned.left = owner_left;
    n->owned.list = list;
    n->shielded = load_relaxed(&fiber->task.word) & WEFTI_SHIELD_MASK; /* only the runner changes it */
    fiber->owned_in_frames += !n->heap;
    fiber->leaves = true;
    wefti_lock_take(&fiber->lock);
    n->owned.below = fiber->owned;
    fiber->owned = &n->owned;
    wefti_lock_give(&fiber->lock);
    if (wefti_fiber_is_cancelled(fiber)) /* recheck: who cancelled us before saw an older list */
        wefti_nursery_cancel(n, WEFT_REASON_PARENT);
}

/* A3, and nobody finds it any more. */
static void unbind(struct wefti_nursery *n) {
    n->bound = false;
    wefti_nursery_timer_end(n);
    if (WEFTI_UNLIKELY(n->keep_results))
        wefti_nursery_forget(n);
    if (n->kind != WEFTI_BY_FIBER)
        return;
    struct wefti_fiber *fiber = wefti_fiber_of(n->made_by);
    wefti_lock_take(&fiber->lock);
    fiber->owned = n->owned.below; /* ours is the newest: may_await */
    wefti_lock_give(&fiber->lock);
    fiber->owned_in_frames -= !n->heap;
}

static int open(struct wefti_nursery *n, struct weft_runtime *rt, const weft_nursery_config *given, bool heap) {
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    struct wefti_worker *w = wefti_worker_here();
    struct weft_task *self = w ? wefti_current(w) : NULL;
    if (given) {
        int error = wefti_known_struct(given, offsetof(weft_nursery_config, name), &config, sizeof config);
        if (error)
            return error;
    }
    if (!rt && !(rt = w ? w->rt : NULL))
        return -EINVAL;
    int error = wefti_admit_nursery(rt);
    if (error)
        return error;
    enum wefti_nursery_kind kind = !self ? WEFTI_BY_THREAD : wefti_task_is_fiber(self) ? WEFTI_BY_FIBER : WEFTI_BY_POLL;
    if ((kind == WEFTI_BY_POLL && !heap) || (w && !self))
        return -EINVAL;
    *n = (struct wefti_nursery){
        .owner = {&owner_kind},
        .rt = rt,
        .made_by = self,
        .name = config.name ? config.name : unnamed,
        .grace = config.grace > 0 ? config.grace : 0,
        .fund = config.fund,
        .kind = (uint8_t)kind,
        .heap = heap,
        .bound = true,
        .keep_going = config.keep_going,
        .keep_results = config.keep_results,
        .hooks = config.keep_results ? &wefti_nursery_keep : NULL,
        .has_cap = config.cap != NULL,
        .cap = config.cap ? *config.cap : (weft_cap){0, 0},
    };
    if (kind == WEFTI_BY_FIBER)
        bind(n, wefti_fiber_of(self));
    error = config.until ? weft_nursery_set_deadline((weft_nursery *)(void *)n, config.until) : 0;
    if (error)
        unbind(n);
    return error;
}

int weft_nursery_init(weft_nursery *n, weft_runtime *rt, const weft_nursery_config *config) {
    return n ? open(wefti_nursery_of(n), rt, config, false) : -EINVAL;
}

int weft_nursery_create(weft_runtime *rt, const weft_nursery_config *config, weft_nursery **out) {
    if (!out)
        return -EINVAL;
    struct wefti_nursery *n = wefti_alloc(sizeof *n);
    if (!n)
        return -ENOMEM;
    int error = open(n, rt, config, true);
    if (error)
        wefti_free(n, sizeof *n);
    else
        *out = (weft_nursery *)(void *)n;
    return error;
}

/* -- Awaiting -------------------------------------------------------------------------------------------------- */

static int result(const struct wefti_nursery *n) {
    if (n->error)
        return n->error;
    if (n->refused)
        return -EDQUOT;
    if (n->state == WEFT_NURSERY_CANCELLED)
        return n->reason == WEFT_REASON_TIMEOUT ? -ETIMEDOUT : -ECANCELED;
    return 0;
}

int wefti_nursery_is_mine(const struct wefti_nursery *n, const struct weft_task *self, bool poll) {
    if (!n->rt) /* never opened */
        return -EINVAL;
    if (self && wefti_task_is_fiber(self) && ((const struct wefti_fiber *)self)->owner == &n->owner)
        return -EDEADLK;
    if (n->made_by != self)
        return -EACCES;
    return (n->kind == WEFTI_BY_POLL) != poll || (!self && wefti_worker_here()) ? -EINVAL : 0;
}

static int may_await(const struct wefti_nursery *n, const struct weft_task *self, bool poll) {
    int error = wefti_nursery_is_mine(n, self, poll);
    if (error)
        return error;
    if (n->kind == WEFTI_BY_FIBER && n->bound && wefti_fiber_of(n->made_by)->owned != &n->owned)
        return -EBUSY; /* J38 */
    return 0;
}

/* For dumps, of who waits for all. */
static const char *words_of(const struct wefti_nursery *n) {
    return n->name == unnamed ? wefti_words(WEFTI_A_NURSERY) : n->name;
}

static bool is_served(void *waiter) { return wefti_waiter_is_served(waiter); }

/* A2: until all have ended, whatever happens. */
static void wait_for_all(struct wefti_nursery *n, struct wefti_waiter *waiter, int64_t until) {
    struct wefti_fiber *self = wefti_fiber_self();
    int why = wefti_waiter_wait(waiter, until, words_of(n));
    if (!why)
        return;
    wefti_nursery_cancel_own(n, why == -ETIMEDOUT ? WEFT_REASON_TIMEOUT : WEFT_REASON_PARENT);
    if (self)
        wefti_fiber_wait_always(self, is_served, waiter, words_of(n));
    else
        wefti_waiter_wait(waiter, WEFT_NEVER, words_of(n));
}

int wefti_nursery_await(struct wefti_nursery *n, int64_t until) {
    struct wefti_waiter waiter;
    wefti_lock_take(&n->lock); /* A1 */
    if (n->live) {
        int error = n->waiters.first || n->taker.first ? -EBUSY : wefti_waiter_init(&waiter);
        if (error) {
            wefti_lock_give(&n->lock);
            return error;
        }
        wefti_waiters_append(&n->waiters, &waiter);
        wefti_lock_give(&n->lock);
        wait_for_all(n, &waiter, until);
        wefti_lock_take(&n->lock); /* A3 */
    } else if (!wefti_nursery_is_over(n)) {
        settle(n);
    }
    struct wefti_fiber *lent = wefti_nursery_take_lent(n);
    wefti_lock_give(&n->lock);
    if (n->bound)
        unbind(n);
    if (WEFTI_UNLIKELY(lent != NULL))
        wefti_nursery_drop_lent(lent);
    return result(n);
}

int weft_nursery_await(weft_nursery *nursery) {
    wefti_slice_use(WEFT_NEVER);
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    struct wefti_worker *w = wefti_worker_here();
    int error = n ? may_await(n, w ? wefti_current(w) : NULL, false) : -EINVAL;
    return error ? error : wefti_nursery_await(n, WEFT_NEVER);
}

/* weft_wait_end. */
static void end_wait(struct wefti_poll_wait *poll) {
    struct wefti_nursery *n = poll->thing;
    wefti_lock_take(&n->lock);
    wefti_waiters_remove(&n->waiters, &poll->waiter);
    wefti_lock_give(&n->lock);
    poll->end = NULL;
}

int weft_nursery_await_poll(weft_nursery *nursery, weft_task *self, weft_wait *wait, int *out) {
    if (wefti_slice_poll(self))
        return -EAGAIN;
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    int error = n && self && out ? may_await(n, self, true) : -EINVAL;
    if (error)
        return error;
    if (wefti_poll_wait_is_taken(poll, end_wait, n))
        return -EBUSY;
    wefti_lock_take(&n->lock); /* A1, and A3 when it has been served */
    if (n->live) {
        if (!poll->end && (n->waiters.first || n->taker.first)) {
            error = -EBUSY;
        } else if (!poll->end) {
            wefti_waiter_init_task(&poll->waiter, self);
            wefti_waiters_append(&n->waiters, &poll->waiter);
            poll->end = end_wait;
            poll->thing = n;
        }
        wefti_lock_give(&n->lock);
        return wefti_poll_waits(error ? error : -EAGAIN, WEFTI_A_NURSERY);
    }
    if (!wefti_nursery_is_over(n))
        settle(n);
    struct wefti_fiber *lent = wefti_nursery_take_lent(n);
    wefti_lock_give(&n->lock);
    poll->end = NULL;
    if (n->bound)
        unbind(n);
    wefti_nursery_drop_lent(lent);
    *out = result(n);
    return 0;
}

/* A poll task cannot wait, least of all in its drop function: whoever is last frees. */
static void abandon(struct wefti_nursery *n) {
    if (n->bound)
        unbind(n);
    wefti_lock_take(&n->lock);
    struct wefti_waiters *list = n->waiters.first ? &n->waiters : &n->taker;
    struct wefti_waiter *waiter = list->first;
    if (waiter) { /* its room goes with the task */
        wefti_waiters_remove(list, waiter);
        ((struct wefti_poll_wait *)(void *)waiter)->end = NULL; /* waiter is its first field */
    }
    n->abandoned = n->live > 0;
    bool free = !n->abandoned, cancel = wefti_nursery_cancel_begin(n, WEFT_REASON_PARENT);
    struct wefti_fiber *lent = wefti_nursery_take_lent(n);
    wefti_lock_give(&n->lock);
    wefti_nursery_drop_lent(lent);
    if (cancel)
        wefti_nursery_cancel_begun(n);
    if (free)
        wefti_free(n, sizeof *n);
}

int weft_nursery_destroy(weft_nursery *nursery) {
    wefti_slice_use(WEFT_NEVER);
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    if (!n)
        return 0;
    if (n->kind == WEFTI_BY_POLL) {
        abandon(n);
        return 0;
    }
    struct wefti_worker *w = wefti_worker_here();
    int error = may_await(n, w ? wefti_current(w) : NULL, false);
    if (error)
        return error;
    wefti_lock_take(&n->lock);
    bool busy = n->waiters.first || n->taker.first; /* another thread awaits it, and would find it freed */
    bool cancel = !busy && n->live && wefti_nursery_cancel_begin(n, WEFT_REASON_EXPLICIT);
    wefti_lock_give(&n->lock);
    if (busy)
        return -EBUSY;
    if (cancel)
        wefti_nursery_cancel_begun(n);
    bool heap = n->heap;
    error = wefti_nursery_await(n, WEFT_NEVER);
    if (heap) /* else its memory is the caller's */
        wefti_free(n, sizeof *n);
    return error;
}

/* -- Looking ---------------------------------------------------------------------------------------------------- */

weft_nursery_state weft_nursery_state_of(weft_nursery *nursery) {
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    if (!n)
        return WEFT_NURSERY_CLOSED;
    wefti_lock_take(&n->lock);
    weft_nursery_state state = n->state;
    wefti_lock_give(&n->lock);
    return state;
}

weft_reason weft_nursery_reason(weft_nursery *nursery) {
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    if (!n)
        return WEFT_REASON_NONE;
    wefti_lock_take(&n->lock);
    weft_reason reason = n->reason;
    wefti_lock_give(&n->lock);
    return reason;
}

size_t weft_nursery_count(weft_nursery *nursery) {
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    if (!n)
        return 0;
    wefti_lock_take(&n->lock);
    size_t live = n->live - n->pinned;
    wefti_lock_give(&n->lock);
    return live;
}

weft_task *weft_nursery_owner(weft_nursery *nursery) {
    struct wefti_nursery *n = wefti_nursery_of(nursery);
    if (!n)
        return NULL;
    wefti_lock_take(&n->lock);
    struct weft_task *owner = wefti_nursery_is_over(n) ? NULL : n->made_by;
    wefti_lock_give(&n->lock);
    return owner;
}

weft_nursery *weft_nursery_current(void) {
    struct wefti_fiber *self = wefti_fiber_self();
    for (struct wefti_owned *owned = self ? self->owned : NULL; owned; owned = owned->below) {
        weft_nursery *n = (weft_nursery *)(void *)wefti_nursery_of_owned(owned);
        if (weft_nursery_owner(n))
            return n;
    }
    return NULL;
}

weft_nursery *weft_nursery_parent(void) {
    struct wefti_fiber *self = wefti_fiber_self();
    return self && self->owner && self->owner->kind == &owner_kind ? (weft_nursery *)(void *)self->owner : NULL;
}
