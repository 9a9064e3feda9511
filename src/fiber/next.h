/* next.h - what runs next: what the runner at the base of a stack (runner.c) and who leaves one (switch.c) share.  Internal. */
#ifndef WEFTI_FIBER_NEXT_H
#define WEFTI_FIBER_NEXT_H

#include "fiber/switch.h"

#define WEFTI_LINE 64u /* bytes of a cache line */
#define WEFTI_PREFETCH 384u /* bytes of a stack that a fiber uses at once */

/* Has the one that rests been woken or cancelled by others?  That is seen nowhere else; it is ready then, as what lies in the inbox.  Asked
 * before each choice of a next one, so that it waits for its turn and not for the loop, from which many long turns may keep us. */
static inline void wefti_look_at_resting(struct wefti_worker *w) {
    struct weft_task *task = load_own(&w->resting);
    if (task && WEFTI_UNLIKELY(load_relaxed(&task->word) & (WEFTI_NOTIFIED | WEFTI_CANCELLED))) /* a hint */
        wefti_worker_unrest(w);
}

/* The fiber that was left to get here, if it was not one of our own for another of our own. */
void wefti_settle_left(struct wefti_worker *w);
static inline void wefti_arrived(struct wefti_worker *w) {
    if (WEFTI_UNLIKELY(w->left != NULL))
        wefti_settle_left(w);
}

/* Where to go.  By value: it fits into two registers, and an address of one's own is dear. */
struct wefti_goal {
    struct wefti_stack *stack;
    struct weft_task *task; /* the fiber that goes on there; NULL: the loop */
};

/* The next fiber, which is w->current already, and its stack; or the loop's.  `next`: a task that has been taken out of a queue, or NULL.
 * `here`: a stack that is free, which a new fiber may use.  The worker does not search: it has found what leaves now (worker.c, turn). */
struct wefti_goal wefti_go_on(struct wefti_worker *w, struct wefti_stack *here, struct weft_task *next);

/* Many that are woken together, as by a poller or a timer, run one after another on stacks that have left the caches since: while one runs,
 * have what the next needs first brought in; of the one behind it, what is needed to find that.  All in our own queue have begun, and
 * have been left. */
static inline void wefti_prefetch_next(const struct wefti_worker *w, uint32_t count) {
    if (count < 3)
        return;
    struct weft_task *next = wefti_task_of(w->pinned.first), *second = wefti_task_of(next->link.next);
    const char *frames = wefti_fiber_of(next)->stack->ctx.sp, *third = (const char *)second->link.next;
    __builtin_prefetch(third);
    __builtin_prefetch(third + WEFTI_LINE);
    __builtin_prefetch(wefti_fiber_of(second)->stack);
#pragma GCC unroll 8
    for (unsigned at = 0; at < WEFTI_PREFETCH; at += WEFTI_LINE)
        __builtin_prefetch(frames + at);
}

/* Leave `from` for `to`, in a program with C++.  Exceptions that are being thrown or handled belong to the stack that they are on, but
 * are kept a thread.  So whoever leaves a stack in the midst of some takes them along: a thread that arrives anywhere has none.  Returns
 * the worker on which it is back. */
struct wefti_worker *wefti_switch_exceptions(struct wefti_worker *w, struct wefti_stack *from, struct wefti_stack *to,
                                             struct weft_task *next, bool migrate);

#endif
