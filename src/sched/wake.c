/* wake.c - waking, cancelling, references: the calls that act on a task from anywhere. */
#include "sched/label.h"
#include "sched/sched.h"
#include "task/fiber.h"

#include <stdio.h>
#include <stdlib.h>

void wefti_handle_is_dropped(const struct weft_task *task, const char *call) {
    char text[128], name[WEFTI_NAME_ROOM];
    snprintf(text, sizeof text, "handle of task \"%s\" used after it was dropped",
             wefti_printable(task->name ? task->name : "?", name, sizeof name));
    wefti_misuse(call, text);
}

void wefti_poll_says_nothing(const struct weft_task *task, weft_poll said) {
    char text[192], name[WEFTI_NAME_ROOM];
    snprintf(text, sizeof text, "that of task \"%s\" has returned %d: neither WEFT_PENDING, WEFT_READY nor WEFT_YIELD",
             wefti_printable(task->name ? task->name : "?", name, sizeof name), (int)said);
    wefti_misuse("poll", text);
}

#ifdef WEFTI_DEBUG
void wefti_check_handle(const struct weft_task *task, const char *call, uint64_t needs) {
    uint64_t word = task ? load_relaxed((wefti_word *)(uintptr_t)&task->word) : 0; /* a check, best effort */
    if (task && (wefti_word_life(word) == WEFTI_FREE || (word & needs) != needs))
        wefti_handle_is_dropped(task, call);
}
#endif

void wefti_submit(struct weft_task *task, enum wefti_submit why) {
    struct weft_runtime *rt = wefti_task_rt(task);
    struct wefti_worker *w = wefti_worker_of(rt);
    if (!w && WEFTI_UNLIKELY(wefti_is_forked())) /* nobody will run it, and whoever had the locks is gone */
        return;
    if (wefti_task_is_pinned(task) && !rt->sched->central) {
        struct wefti_worker *home = &rt->worker[task->home - 1];
        if (home == w && !w->parking) {
            wefti_chain_append(&w->pinned, &task->link);
        } else {
            wefti_mpsc_push(&home->inbox, &task->link);
            wefti_notify_one(rt, w, home);
        }
        return;
    }
    if (w && !w->parking) { /* B21: between announcing and being back, a worker's own queues are closed */
        rt->sched->submit(w, task, why);
        return;
    }
    if (!w && rt->reactor && wefti_control_resume(rt, task))
        return;
    wefti_inject_push_one(&rt->inject, &task->link);
    wefti_notify(rt, w);
}

static inline void free_slot(struct weft_task *task) {
    struct weft_runtime *rt = wefti_task_rt(task);
    struct wefti_worker *w = wefti_worker_of(rt);
    if (WEFTI_LIKELY(w != NULL))
        wefti_slab_give_here(&rt->slab, &w->cache, task);
    else
        wefti_slab_give(&rt->slab, NULL, task);
}

/* It has a label, or locks name it as their owner. */
static __attribute__((noinline)) void free_unusual(struct weft_task *task) {
    if (task->owns & WEFTI_LABELLED)
        wefti_label_take(wefti_task_rt(task), task);
    free_slot(task);
}

/* All that calls others comes last, so that the usual way needs no frame. */
static inline void free_task(struct weft_task *task) {
    if (WEFTI_UNLIKELY(task->owns))
        free_unusual(task);
    else
        free_slot(task);
}

static inline void unref(struct weft_task *task, uint64_t clear) {
    if (wefti_word_unref(&task->word, clear))
        free_task(task);
}

void wefti_task_unref(struct weft_task *task, uint64_t clear) { unref(task, clear); }

/* One that rests on the calling worker needs no more than to be queued. */
static bool wake_resting(struct weft_task *task) {
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_LIKELY(!w || !wefti_worker_take_resting(w, task)))
        return false;
    wefti_chain_append(&w->pinned, &task->link);
    return true;
}

void wefti_wake(wefti_waker waker) {
    if (waker & 1) {
        wefti_park_wake((struct wefti_park *)(waker - 1));
        return;
    }
    struct weft_task *task = (struct weft_task *)waker;
    if (!task)
        return;
    if (!wake_resting(task) && wefti_word_wake(&task->word))
        wefti_submit(task, WEFTI_SUBMIT_WAKE);
    wefti_task_unref(task, 0);
}

void wefti_wake_loosely(struct weft_task *task) {
    if (!wake_resting(task) && wefti_word_wake(&task->word))
        wefti_submit(task, WEFTI_SUBMIT_WAKE);
}

void wefti_wake_unless(struct weft_task *task, uint16_t sub) {
    struct wefti_worker *w = wefti_worker_self();
    if (w && load_own(&w->resting) == task)
        wefti_worker_unrest(w); /* it may sleep through this */
    if (wefti_word_wake_unless(&task->word, sub))
        wefti_submit(task, WEFTI_SUBMIT_WAKE);
}

/* -- Wakers ---------------------------------------------------------------------------------------------- */

weft_waker weft_waker_of(weft_task *self) {
    CHECK_ALIVE(self);
    if (self)
        wefti_word_ref(&self->word);
    return (weft_waker){self};
}

weft_waker weft_waker_clone(weft_waker waker) {
    if (waker.target) {
        CHECK_ALIVE((struct weft_task *)waker.target);
        wefti_word_ref(&((struct weft_task *)waker.target)->word);
    }
    return waker;
}

void weft_waker_drop(weft_waker waker) {
    if (waker.target) {
        CHECK_ALIVE((struct weft_task *)waker.target);
        wefti_task_unref(waker.target, 0);
    }
}

void weft_waker_wake(weft_waker waker) {
    if (waker.target) {
        CHECK_ALIVE((struct weft_task *)waker.target);
        wefti_wake(wefti_waker_task(waker.target));
    }
}

void weft_waker_wake_keep(weft_waker waker) { weft_waker_wake(weft_waker_clone(waker)); }

/* -- Cancellation ---------------------------------------------------------------------------------------- */

void wefti_cancel_wake(struct weft_task *task, bool queue) {
    struct wefti_worker *w = wefti_worker_self();
    if (w && load_own(&w->resting) == task)
        wefti_worker_unrest(w);
    if (queue)
        wefti_submit(task, WEFTI_SUBMIT_WAKE);
    else if (wefti_task_is_fiber(task) &&
             (load_relaxed(&task->word) & WEFTI_SHIELD_MASK)) /* ordered by the swap before */
        wefti_wake_loosely(task); /* its shield may have a limit, which counts from now on */
}

void wefti_cancel(struct weft_task *task, enum weft_reason why) {
    bool queue = wefti_word_cancel_for(&task->word, why);
    if (wefti_task_is_fiber(task)) {
        struct wefti_fiber *fiber = wefti_fiber_of(task);
        wefti_lock_take(&fiber->lock);
        void (*cancelled)(struct wefti_fiber *) = fiber->owned ? fiber->owned->cancelled : NULL;
        wefti_lock_give(&fiber->lock);
        if (cancelled)
            cancelled(fiber); /* before it goes on itself */
    }
    wefti_cancel_wake(task, queue);
}

void weft_task_cancel(weft_task *task) {
    CHECK_ALIVE(task);
    if (task)
        wefti_cancel(task, WEFT_REASON_EXPLICIT);
}

int weft_shield(weft_task *self) {
    if (!self) /* weft_task_self() of a plain thread, which nobody cancels */
        return -EINVAL;
    CHECK_ALIVE(self);
    return wefti_word_shield(&self->word) ? 0 : -EOVERFLOW;
}

/* A shield was removed: those limits that came with it, or within, no longer count. */
static void shield_limits_end(struct wefti_fiber *fiber) {
    if (WEFTI_LIKELY(load_own(&fiber->shield_until) == WEFT_NEVER))
        return;
    struct wefti_limits *limits = &fiber->stack->limits;
    uint64_t shields = load_relaxed(&fiber->task.word) & WEFTI_SHIELD_MASK; /* only the runner changes it */
    for (; limits->count && limits->at[limits->count - 1].shields > shields; limits->count--)
        store_relaxed(&fiber->shield_until, limits->at[limits->count - 1].before); /* its own */
}

int weft_unshield(weft_task *self) {
    if (!self)
        return -EINVAL;
    CHECK_ALIVE(self);
    if (!wefti_word_unshield(&self->word))
        return -EINVAL;
    if (wefti_task_is_fiber(self))
        shield_limits_end(wefti_fiber_of(self));
    if (wefti_task_is_fiber(self) &&
        !(load_relaxed(&self->word) & WEFTI_SHIELD_MASK)) { /* only the runner changes it */
        struct wefti_fiber *fiber = wefti_fiber_of(self);
        if (WEFTI_UNLIKELY(fiber->owned != NULL)) /* its own: others only read it */
            fiber->owned->unshielded(fiber);
    }
    return 0;
}

bool weft_task_is_cancelled(const weft_task *task) {
    CHECK_ALIVE(task);
    if (!task)
        return false;
    uint64_t word = load_relaxed((wefti_word *)(uintptr_t)&task->word); /* a flag, nothing behind it */
    if (WEFTI_LIKELY(!wefti_word_is_to_end(word) || !(word & WEFTI_SHIELD_MASK)))
        return wefti_word_is_to_end(word);
    struct wefti_worker *w = wefti_worker_here();
    if (!w || wefti_current(w) != task || !wefti_task_is_fiber(task)) /* its limits are its own */
        return false;
    return wefti_fiber_grace(wefti_fiber_of(wefti_current(w)), word) <= wefti_now(w->rt);
}

weft_reason weft_task_cancel_reason(const weft_task *task) {
    CHECK_ALIVE(task);
    if (!task)
        return WEFT_REASON_NONE;
    return (weft_reason)wefti_word_why(load_relaxed((wefti_word *)(uintptr_t)&task->word)); /* as above */
}

weft_reason weft_cancel_reason(void) {
    struct weft_task *self = weft_task_self();
    return self ? weft_task_cancel_reason(self) : WEFT_REASON_NONE;
}

/* -- Handles --------------------------------------------------------------------------------------------- */

bool weft_task_is_done(const weft_task *handle) {
    CHECK_HANDLE(handle);
    return handle && wefti_word_is_complete((wefti_word *)(uintptr_t)&handle->word);
}

static __attribute__((noinline)) void drop_handle(struct weft_task *handle) {
    /* A waiter that was registered by weft_join_poll and never came back. */
    uint64_t word = load_relaxed(&handle->word); /* set by whoever has the handle: us */
    if (WEFTI_UNLIKELY(!(word & WEFTI_JOINABLE))) /* as far as one can see: another task may live there by now */
        wefti_handle_is_dropped(handle, "weft_task_drop");
    if ((word & WEFTI_JOINED) && wefti_word_join_unregister(&handle->word))
        wefti_task_unref((struct weft_task *)load_own(&handle->joiner), 0);
    unref(handle, WEFTI_JOINABLE);
}

/* Most have ended, and nobody else knows of them: that needs no frame. */
void weft_task_drop(weft_task *handle) {
    if (!handle)
        return;
    CHECK_HANDLE(handle);
    if (WEFTI_LIKELY(wefti_word_is_only(&handle->word)))
        free_task(handle);
    else
        drop_handle(handle);
}

weft_task *weft_task_self(void) {
    struct wefti_worker *w = wefti_worker_self();
    return w ? wefti_current(w) : NULL;
}

const char *weft_task_name(const weft_task *task) {
    CHECK_ALIVE(task);
    return task ? task->name : NULL;
}

enum wefti_life wefti_task_life(const struct weft_task *task) {
    enum wefti_life life = wefti_word_life(load_relaxed((wefti_word *)(uintptr_t)&task->word)); /* a look */
    const struct weft_runtime *rt = wefti_task_rt(task);
    for (uint32_t i = 0; life == WEFTI_SCHEDULED && i < rt->workers; i++)
        if (load_relaxed(&rt->worker[i].current) == task) /* a look */
            life = WEFTI_RUNNING;
        else if (load_relaxed(&rt->worker[i].resting) == task) /* a look */
            life = WEFTI_IDLE;
    return life;
}

const char *weft_task_state(const weft_task *task) {
    CHECK_ALIVE(task);
    if (!task)
        return "free";
    static const char *const names[] = {"free", "idle", "scheduled", "running", "complete"};
    if (wefti_task_is_fiber(task) &&
        load_relaxed(&((struct wefti_fiber *)(uintptr_t)task)->waits) == wefti_waits_budget)
        return "exhausted"; /* a look */
    return names[wefti_task_life(task)];
}

/* The string's number in the runtime's table goes into the word's sub-state; 0 is none. */
void weft_task_waits_for(weft_task *self, const char *what) {
    if (self)
        wefti_word_set_sub(&self->word, what ? wefti_reason(wefti_task_rt(self), what) : 0);
}

weft_poll weft_done(weft_task *self, int status, void *value) {
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(!w || !self || wefti_current(w) != self))
        wefti_misuse("weft_done", "`self` is not the task that is running here");
    if (WEFTI_UNLIKELY(status > 0))
        wefti_misuse("weft_done", "the status is neither 0 nor a negative error");
    w->done = (weft_result){status, value};
    return WEFT_READY;
}
