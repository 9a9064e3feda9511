/* switch.c - running fibers (switch.h has the design). */
#include "fiber/switch.h"

#include <setjmp.h>

#define CACHE_MAX 64u   /* free stacks that a worker keeps */
#define FRESH_MAX 16u   /* new fibers in a row on one stack ... */
#define FRESH_SHORT 2e3 /* ... while the average poll is shorter than this, ns */

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

/* `stack` is the one that we are about to leave.  Ours first; when there are too many, the others go to the pool. */
static void give_stack(struct wefti_worker *w, struct wefti_stack *stack) {
    if (WEFTI_UNLIKELY(w->stacks.count >= CACHE_MAX || (w->stacks.first && w->stacks.first->log2 != stack->log2))) {
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

/* -- Leaving and arriving ---------------------------------------------------------------------------------- */

/* The fiber that was left to get here. */
static inline void arrived(struct wefti_worker *w) {
    struct weft_task *task = w->left;
    if (!task)
        return;
    w->left = NULL;
    if (w->left_said == WEFT_YIELD) {
        wefti_word_to_yielded(&task->word);
        w->sched->submit(w, task, WEFTI_SUBMIT_AGAIN);
    } else if (wefti_word_to_idle(&task->word)) {
        if (wefti_task_is_pinned(task))
            wefti_chain_append(&w->pinned, &task->link);
        else
            w->sched->submit(w, task, WEFTI_SUBMIT_AGAIN);
    }
}

/* May fibers follow each other without the loop?  A driver counts polls, a helping join waits for its turn, and the loop must
 * come by now and then. */
static inline bool may_go_on(const struct wefti_worker *w) {
    return !w->driven && w->help_depth == 0 && w->tick_left > 1;
}

/* It begins on this stack. */
static inline void bind(struct wefti_worker *w, struct weft_task *task, struct wefti_stack *stack) {
    struct wefti_fiber *fiber = wefti_fiber_of(task);
    fiber->stack = stack;
    task->home = fiber->migrate || w->rt->sim ? WEFTI_HOME_ANY : (uint16_t)(w->index + 1);
}

/* The stack of the next fiber, which is RUNNING and w->current already; or the loop's.  `here`: a stack that is free, which a new
 * fiber may use; then *task is that fiber and `here` is returned. */
static struct wefti_stack *go_on(struct wefti_worker *w, struct wefti_stack *here, struct weft_task **task) {
    *task = NULL;
    while (may_go_on(w)) {
        struct weft_task *next = NULL;
        if (here && w->fresh_left) { /* new fibers are cheapest one after the other */
            w->fresh_left--;
            next = w->sched->next(w);
        }
        if (!next && !(next = wefti_worker_pick(w)))
            break;
        struct wefti_fiber *fiber = wefti_fiber_of(next);
        uint32_t log2 = wefti_task_is_fiber(next) ? fiber->stack_log2 : 0;
        if (log2 == 0 || (!next->home && log2 != w->rt->stack_log2)) {
            w->handoff = next; /* not for us */
            break;
        }
        wefti_worker_spend(w);
        if (WEFTI_UNLIKELY(w->searching | w->owes_watch))
            wefti_worker_found(w);
        if (!wefti_worker_begin(w, next))
            continue;
        *task = next;
        if (next->home)
            return fiber->stack;
        struct wefti_stack *stack = here && here->log2 == log2 ? here : take_stack(w, log2);
        if (WEFTI_UNLIKELY(!stack)) {
            wefti_worker_finish(w, next, (weft_result){-ENOMEM, NULL});
            *task = NULL;
            continue;
        }
        bind(w, next, stack);
        return stack;
    }
    w->current = NULL;
    return &w->native;
}

/* A fiber that may be ended where it is.  Of its frames nothing is left then but ours. */
static __attribute__((noinline)) int run_discardable(struct wefti_fiber *fiber) {
    jmp_buf out;
    fiber->stack->escape = &out;
    return setjmp(out) ? -ECANCELED : fiber->fn(fiber->task.pointer);
}

void wefti_fiber_discard(struct wefti_fiber *self) { longjmp(*(jmp_buf *)self->stack->escape, 1); }

/* At the base of every stack but the threads' own: run one fiber after another. */
static void runner(void *pass) {
    struct weft_task *task = pass;
    wefti_stack_begun();
    for (;;) {
        struct wefti_worker *w = wefti_worker_here();
        struct wefti_stack *stack, *to;
        arrived(w);
        w->fresh_left = w->average < FRESH_SHORT ? FRESH_MAX : 0;
        do {
            struct wefti_fiber *fiber = wefti_fiber_of(task);
            stack = fiber->stack;
            int status = WEFTI_UNLIKELY(fiber->discard) ? run_discardable(fiber) : fiber->fn(task->pointer);
            w = wefti_worker_here(); /* it may have come to another */
            weft_result result = {status < 0 ? status : 0, fiber->has_value ? fiber->value : (void *)(intptr_t)status};
            fiber->stack = NULL;
            wefti_worker_finish(w, task, result);
            to = go_on(w, stack, &task);
        } while (to == stack);
        give_stack(w, stack);
        task = wefti_stack_switch(stack, to, task);
    }
}

weft_poll wefti_fiber_poll(struct weft_task *task, void *state) {
    (void)state;
    struct wefti_worker *w = wefti_worker_self();
    struct wefti_fiber *fiber = wefti_fiber_of(task);
    struct wefti_stack *stack = fiber->stack;
    if (!stack) {
        if (!(stack = take_stack(w, fiber->stack_log2))) {
            w->done = (weft_result){-ENOMEM, NULL};
            return WEFT_READY;
        }
        bind(w, task, stack);
    }
    wefti_stack_switch(&w->native, stack, task);
    arrived(w); /* the loop's stack is never left for another thread's */
    return WEFTI_HANDLED;
}

/* Leave `self` for `to`, and be back on whatever worker it is by then.  errno belongs to the thread; each fiber has its own as far
 * as it can see. */
static inline void switch_to(struct wefti_worker *w, struct wefti_fiber *self, struct wefti_stack *to,
                             struct weft_task *next) {
    int saved = *w->errno_at;
    wefti_stack_switch(self->stack, to, next);
    if (WEFTI_UNLIKELY(self->migrate))
        w = wefti_worker_here();
    *w->errno_at = saved;
    arrived(w);
}

static void leave(struct wefti_worker *w, struct wefti_fiber *self) {
    struct weft_task *next;
    w->current = NULL; /* until go_on has found another: timers and drop functions run meanwhile */
    struct wefti_stack *to = go_on(w, NULL, &next);
    if (to != self->stack) /* else nobody else is there: it is its turn again */
        switch_to(w, self, to, next);
}

void wefti_fiber_suspend(struct wefti_fiber *self) {
    struct wefti_worker *w = wefti_worker_here();
    w->left = &self->task;
    w->left_said = WEFT_PENDING;
    leave(w, self);
}

/* Behind our own fibers: it stays RUNNING, and here. */
static inline void yield_here(struct wefti_worker *w, struct wefti_fiber *self) {
    wefti_chain_append(&w->pinned, &self->task.link);
    /* What go_on would do, when our own next fiber is next anyway. */
    if (WEFTI_LIKELY(may_go_on(w) && w->pinned_left && !w->timers_left && wefti_mpsc_is_empty(&w->inbox))) {
        struct weft_task *next = wefti_task_of(wefti_chain_take(&w->pinned));
        w->pinned_left--;
        w->tick_left--;
        if (wefti_word_life(load_relaxed(&next->word)) != WEFTI_RUNNING) /* as in wefti_worker_begin */
            wefti_word_to_running(&next->word);
        wefti_count(&w->counters.polls, 1);
        if (next == &self->task)
            return;
        w->current = next;
        switch_to(w, self, wefti_fiber_of(next)->stack, next);
        return;
    }
    leave(w, self);
}

static void yield_anywhere(struct wefti_worker *w, struct wefti_fiber *self) {
    w->left = &self->task;
    w->left_said = WEFT_YIELD;
    leave(w, self);
}

void wefti_fiber_yield(struct wefti_worker *w, struct wefti_fiber *self) {
    if (WEFTI_LIKELY(wefti_task_is_pinned(&self->task)))
        yield_here(w, self);
    else
        yield_anywhere(w, self);
}

void wefti_fiber_preempt(struct wefti_worker *w, struct wefti_fiber *self) {
    if (w->rt->sim) /* where there is but one worker, and the seed decides who is next */
        yield_anywhere(w, self);
    else
        yield_here(w, self);
}

int wefti_fiber_wait(struct wefti_fiber *self, bool (*ready)(void *arg), void *arg, int64_t until, const char *what) {
    struct wefti_alarm alarm;
    bool set = false;
    int error;
    store_relaxed(&self->waits, what); /* for dumps */
    store_relaxed(&self->waits_since, wefti_worker_here()->measure_began);
    for (;;) {
        error = 0;
        if (ready(arg))
            break;
        error = -ECANCELED;
        if (wefti_fiber_must_end(self))
            break;
        if (until != WEFT_NEVER) {
            error = -ETIMEDOUT;
            struct wefti_worker *w = wefti_worker_here();
            if (set ? load_acquire(&alarm.rang) : until <= wefti_now(w->rt)) /* pairs with wefti_timers_run */
                break;
            if (!set)
                wefti_alarm_set(w, &alarm, &self->task, until);
            set = true;
        }
        wefti_fiber_suspend(self);
    }
    if (set)
        wefti_alarm_clear(&alarm);
    store_relaxed(&self->waits, NULL);
    return error;
}
