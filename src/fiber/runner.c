/* runner.c - the runner at the base of every stack: which fiber is next, and running it to its end (switch.h has the design). */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "fiber/local.h"
#include "fiber/next.h"
#include "fiber/slice.h"

#define CACHE_MAX 64u /* free stacks that a worker keeps */
#define LOOP_TICKS 8u /* ticks until fibers that follow each other come by the loop */
#define FRESH_MAX 32u /* new fibers in a row on one stack ... */
#define FRESH_SHORT 1e3 /* ... while the average poll is shorter than this, ns */

static void runner(void *pass);

/* -- Stacks ---------------------------------------------------------------------------------------------- */

static struct wefti_stack *take_stack(struct wefti_worker *w, uint32_t log2) {
    struct wefti_stack *stack = w->stacks.first;
    if (WEFTI_LIKELY(stack && stack->log2 == log2)) {
        w->stacks.first = stack->next;
        w->stacks.count--;
        return stack;
    }
    return wefti_stack_pool_take(&w->rt->stacks, log2, runner);
}

/* `stack` is the one that we are about to leave.  Ours first; when there are too many, or the system has no more, the others go to
 * the pool. */
static void give_stack(struct wefti_worker *w, struct wefti_stack *stack) {
    bool refused = load_relaxed(&w->rt->stacks.refused); /* a hint */
    if (WEFTI_UNLIKELY(w->stacks.count >= CACHE_MAX || refused ||
                       (w->stacks.first && w->stacks.first->log2 != stack->log2))) {
        if (refused)
            store_relaxed(&w->rt->stacks.refused, false); /* a hint: one has come back */
        for (struct wefti_stack *other; (other = w->stacks.first);) {
            w->stacks.first = other->next;
            wefti_stack_pool_give(&w->rt->stacks, other);
        }
        w->stacks.count = 0;
    }
    stack->next = w->stacks.first;
    w->stacks.first = stack;
    w->stacks.count++;
}

/* -- Choosing ----------------------------------------------------------------------------------------------- */

void wefti_settle_left(struct wefti_worker *w) {
    struct weft_task *task = w->left;
    w->left = NULL;
    if (WEFTI_UNLIKELY(w->left_said == WEFT_YIELD)) {
        w->sched->submit(w, task, WEFTI_SUBMIT_AGAIN);
    } else if (WEFTI_LIKELY(wefti_worker_keeps(w, task))) {
        if (load_own(&w->resting))
            wefti_worker_unrest(w);
        store_relaxed(&w->resting,
                      task); /* to others, for a look; whether it was woken meanwhile, at the next choice */
    } else if (wefti_word_to_idle(&task->word)) {
        w->sched->submit(w, task, WEFTI_SUBMIT_AGAIN);
    }
}

/* May fibers follow each other without the loop?  A driver counts polls, a control thread wants to hear of each, a helping join
 * waits for its turn, and the loop must come by now and then, at the end of some ticks. */
static inline bool comes_by_loop(const struct wefti_worker *w) {
    return load_own(&w->counters.ticks) % LOOP_TICKS == 0;
}
static inline bool tick_allows(const struct wefti_worker *w) { return w->tick_left > 2 || !comes_by_loop(w); }
static inline bool may_go_on(const struct wefti_worker *w) { return !w->loop_only && tick_allows(w); }

/* So many of our own may follow each other before any count asks for more than a switch: the scheduler's turn, a look at the clock and the
 * descriptors, the last poll of a tick, at which the scheduler is always asked; none while tasks come first.  Not 0 only while one of our own runs: `next`, to begin with. */
static inline void give(struct wefti_worker *w, const struct weft_task *next) {
    uint32_t kept = comes_by_loop(w) ? 2 : 1;
    uint32_t most =
        w->owed_until || w->loop_only || w->tick_left < kept || !wefti_task_is_pinned(next) ? 0 : w->tick_left - kept;
    most = w->pinned_left < most ? w->pinned_left : most;
    if (w->look_left && w->look_left - 1 < most)
        most = w->look_left - 1;
    w->own_given = w->own_left = most;
}

/* It begins on this stack. */
static inline void bind(struct wefti_worker *w, struct weft_task *task, struct wefti_stack *stack) {
    struct wefti_fiber *fiber = wefti_fiber_of(task);
    fiber->stack = stack;
    task->home = WEFTI_UNLIKELY(fiber->migrate) ? WEFTI_HOME_ANY : w->home;
}

struct wefti_goal wefti_go_on(struct wefti_worker *w, struct wefti_stack *here, struct weft_task *next) {
    wefti_worker_settle(w);
    for (; may_go_on(w); next = NULL) {
        if (!next && !(next = wefti_worker_pick(w)))
            break;
        struct wefti_fiber *fiber = wefti_fiber_of(next);
        uint32_t log2 = wefti_task_is_fiber(next) ? fiber->stack_log2 : 0;
        if (log2 == 0 || (!next->home && log2 != w->rt->stack_log2)) {
            w->handoff = next; /* not for us */
            break;
        }
        wefti_worker_spend(w);
        if (!wefti_worker_begin(w, next))
            continue;
        wefti_slice_begin(w, fiber);
        if (next->home) {
            give(w, next);
            return (struct wefti_goal){fiber->stack, next};
        }
        struct wefti_stack *stack = here && here->log2 == log2 ? here : take_stack(w, log2);
        if (WEFTI_UNLIKELY(!stack)) {
            wefti_task_failed(w, &fiber->task, -ENOMEM);
            wefti_worker_finish(w, next, (weft_result){-ENOMEM, NULL});
            continue;
        }
        bind(w, next, stack);
        give(w, next);
        return (struct wefti_goal){stack, next};
    }
    wefti_set_current(w, NULL);
    return (struct wefti_goal){&w->native, NULL};
}

/* -- Running ------------------------------------------------------------------------------------------------ */

/* The function has returned with something open.  What lies in its frames is lost, and may be in use by others. */
static __attribute__((noinline)) void left_open(struct wefti_fiber *fiber) {
    if (fiber->owned_in_frames) {
        char text[256];
        int size = snprintf(text, sizeof text, "weft: fiber \"%s\" has returned without awaiting its nursery\n",
                            fiber->task.name);
        wefti_write(2, text, size > 0 && (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
        abort();
    }
    while (fiber->owned)
        fiber->owned->left(fiber);
}

/* A fiber that may be ended where it is.  Of its frames nothing is left then but ours. */
static __attribute__((noinline)) int run_discardable(struct wefti_fiber *fiber) {
    jmp_buf out;
    fiber->stack->escape = &out;
    if (setjmp(out) == 0)
        return fiber->fn(fiber->task.pointer);
    struct wefti_exceptions *here = wefti_worker_here()->exceptions;
    if (here) /* the handlers are gone with the frames */
        *here = (struct wefti_exceptions){0};
    return -ECANCELED;
}

void wefti_fiber_discard(struct wefti_fiber *self) { longjmp(*(jmp_buf *)self->stack->escape, 1); }

void wefti_fiber_stop(struct wefti_fiber *self) {
    while (self->owned)
        self->owned->left(self); /* may suspend */
    if (self->locals)
        wefti_locals_forget(self);
    struct wefti_worker *w = wefti_worker_here();
    struct wefti_stack *stack = self->stack;
    if (w->exceptions) /* nobody handles them any more */
        *w->exceptions = (struct wefti_exceptions){0};
    self->stack = NULL;
    store_relaxed(&w->rt->fiber_was_stopped, true); /* read when the workers have ended */
    wefti_worker_finish(w, &self->task, (weft_result){-EDQUOT, NULL});
    wefti_look_at_resting(w);
    struct wefti_goal to = wefti_go_on(w, NULL, NULL);
    wefti_stack_switch(stack, to.stack, to.task); /* for good: the stack goes with the runtime */
    wefti_assert(false, (uintptr_t)stack);
    abort();
}

/* After the end of a fiber on `here`: the same, but new fibers come first for a while, since they are cheapest one after the other. */
static inline struct wefti_goal go_on_fresh(struct wefti_worker *w, struct wefti_stack *here) {
    struct weft_task *next = NULL;
    wefti_look_at_resting(w);
    wefti_worker_settle(w);
    while (!w->unusual && tick_allows(w)) {
        if (w->fresh_left)
            w->fresh_left--;
        else if (w->pinned.count || !wefti_mpsc_is_empty(&w->inbox)) /* else nobody has to wait for them */
            break;
        next = w->sched->next(w);
        if (WEFTI_UNLIKELY(!next || !wefti_task_is_fiber(next) || next->home ||
                           wefti_fiber_of(next)->stack_log2 != here->log2))
            break;
        wefti_worker_spend(w);
        if (WEFTI_LIKELY(wefti_worker_begin(w, next))) {
            bind(w, next, here);
            wefti_slice_begin(w, wefti_fiber_of(next));
            if (w->pinned.count) /* else there is nobody to follow it, and most end without waiting */
                give(w, next);
            return (struct wefti_goal){here, next};
        }
        next = NULL;
    }
    return wefti_go_on(w, here, next);
}

static inline weft_result result_of(int status) {
    return (weft_result){status < 0 ? status : 0, status < 0 ? NULL : (void *)(intptr_t)status};
}

/* The function has returned, and may have left something to be seen to. */
static __attribute__((noinline)) weft_result end_unusual(struct wefti_fiber *fiber, int status) {
    if (fiber->locals) {
        fiber->discard = false; /* what it would go back to has returned */
        wefti_locals_end(fiber);
    }
    if (fiber->owned) /* its own: others only read it */
        left_open(fiber);
    weft_result result = result_of(fiber->preempted == WEFTI_PREEMPT_MAX ? -ETIME : status); /* R32 */
    if (fiber->has_value)
        result.value = fiber->value;
    return result;
}

/* At the base of every stack but the threads' own: run one fiber after another. */
static void runner(void *pass) {
    struct weft_task *task = pass;
    wefti_stack_begun();
    for (;;) {
        struct wefti_worker *w = wefti_worker_here();
        struct wefti_stack *stack;
        struct wefti_goal to;
        wefti_arrived(w);
        w->fresh_left = w->average < FRESH_SHORT ? FRESH_MAX : 0;
        do {
            struct wefti_fiber *fiber = wefti_fiber_of(task);
            stack = fiber->stack;
            int status = WEFTI_UNLIKELY(fiber->discard) ? run_discardable(fiber) : fiber->fn(task->pointer);
            weft_result result = result_of(status);
            if (WEFTI_UNLIKELY(fiber->unusual)) {
                result = end_unusual(fiber, status);
                w = wefti_worker_here(); /* it may have come to another */
            }
            if (WEFTI_UNLIKELY(result.status < 0))
                wefti_task_failed(w, task, result.status);
            fiber->stack = NULL;
            wefti_worker_finish(w, task, result);
            to = go_on_fresh(w, stack);
            task = to.task;
        } while (to.stack == stack);
        wefti_prefetch_next(w, w->pinned.count);
        give_stack(w, stack);
        task = wefti_stack_switch(stack, to.stack, task);
    }
}

weft_poll wefti_fiber_poll(struct weft_task *task, void *state) {
    (void)state;
    struct wefti_worker *w = wefti_worker_self();
    struct wefti_fiber *fiber = wefti_fiber_of(task);
    struct wefti_stack *stack = fiber->stack;
    if (!stack) {
        if (!(stack = take_stack(w, fiber->stack_log2))) {
            wefti_task_failed(w, &fiber->task, -ENOMEM);
            w->done = (weft_result){-ENOMEM, NULL};
            return WEFT_READY;
        }
        bind(w, task, stack);
    }
    give(w, task);
    w->calls_left = w->central ? 0 : fiber->look_after;
    if (w->exceptions) { /* whoever drives us, or waits in a poll, may be handling some */
        wefti_switch_exceptions(w, &w->native, stack, task, false);
    } else {
        wefti_stack_switch(&w->native, stack, task);
        wefti_arrived(w); /* the loop's stack is never left for another thread's */
    }
    wefti_worker_settle(w);
    if (load_own(&w->resting))
        wefti_worker_unrest(w); /* before we search, sleep, or run what may take long */
    return WEFTI_HANDLED;
}
