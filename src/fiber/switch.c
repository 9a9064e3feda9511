/* switch.c - running fibers (switch.h has the design). */
#include "fiber/switch.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "fiber/local.h"

#define CACHE_MAX 64u   /* free stacks that a worker keeps */
#define LINE 64u        /* bytes of a cache line */
#define PREFETCH 384u   /* bytes of a stack that a fiber uses at once */
#define LOOP_TICKS 8u   /* ticks until fibers that follow each other come by the loop */
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

/* -- Leaving and arriving ---------------------------------------------------------------------------------- */

/* Has the one that rests been woken or cancelled by others?  That is seen nowhere else; it is ready then, as what lies in the inbox.  Asked
 * before each choice of a next one, so that it waits for its turn and not for the loop, from which many long turns may keep us. */
static inline void look_at_resting(struct wefti_worker *w) {
    struct weft_task *task = load_own(&w->resting);
    if (task && WEFTI_UNLIKELY(load_relaxed(&task->word) & (WEFTI_NOTIFIED | WEFTI_CANCELLED))) /* a hint */
        wefti_worker_unrest(w);
}

/* The fiber that was left to get here, if it was not one of our own for another of our own. */
static __attribute__((noinline)) void settle_left(struct wefti_worker *w) {
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

static inline void arrived(struct wefti_worker *w) {
    if (WEFTI_UNLIKELY(w->left != NULL))
        settle_left(w);
}

/* May fibers follow each other without the loop?  A driver counts polls, a control thread wants to hear of each, a helping join
 * waits for its turn, and the loop must come by now and then, at the end of some ticks. */
static inline bool comes_by_loop(const struct wefti_worker *w) {
    return load_own(&w->counters.ticks) % LOOP_TICKS == 0;
}
static inline bool may_go_on(const struct wefti_worker *w) {
    return !w->loop_only && (w->tick_left > 2 || !comes_by_loop(w));
}

/* So many of our own may follow each other before any count asks for more than a switch: the scheduler's turn, a look at the clock and the
 * descriptors, the last poll of a tick, at which the scheduler is always asked.  Not 0 only while one of our own runs: `next`, to begin with. */
static inline void give(struct wefti_worker *w, const struct weft_task *next) {
    uint32_t kept = comes_by_loop(w) ? 2 : 1;
    uint32_t most = w->loop_only || w->tick_left < kept || !wefti_task_is_pinned(next) ? 0 : w->tick_left - kept;
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

/* Where to go.  By value: it fits into two registers, and an address of one's own is dear. */
struct goal {
    struct wefti_stack *stack;
    struct weft_task *task; /* the fiber that goes on there; NULL: the loop */
};

/* The next fiber, which is w->current already, and its stack; or the loop's.  `next`: a task that has been taken out of a queue, or NULL.
 * `here`: a stack that is free, which a new fiber may use. */
static struct goal go_on(struct wefti_worker *w, struct wefti_stack *here, struct weft_task *next) {
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
        if (WEFTI_UNLIKELY(w->searching | w->owes_watch))
            wefti_worker_found(w);
        if (!wefti_worker_begin(w, next))
            continue;
        if (next->home) {
            give(w, next);
            return (struct goal){fiber->stack, next};
        }
        struct wefti_stack *stack = here && here->log2 == log2 ? here : take_stack(w, log2);
        if (WEFTI_UNLIKELY(!stack)) {
            wefti_worker_finish(w, next, (weft_result){-ENOMEM, NULL});
            continue;
        }
        bind(w, next, stack);
        give(w, next);
        return (struct goal){stack, next};
    }
    wefti_set_current(w, NULL);
    return (struct goal){&w->native, NULL};
}

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

/* After the end of a fiber on `here`: the same, but new fibers come first for a while, since they are cheapest one after the other. */
static inline struct goal go_on_fresh(struct wefti_worker *w, struct wefti_stack *here) {
    struct weft_task *next = NULL;
    look_at_resting(w);
    wefti_worker_settle(w);
    while (may_go_on(w)) {
        if (w->fresh_left)
            w->fresh_left--;
        else if (w->pinned.count || !wefti_mpsc_is_empty(&w->inbox)) /* else nobody has to wait for them */
            break;
        next = w->sched->next(w);
        if (WEFTI_UNLIKELY(!next || !wefti_task_is_fiber(next) || next->home ||
                           wefti_fiber_of(next)->stack_log2 != here->log2 || w->searching | w->owes_watch))
            break;
        wefti_worker_spend(w);
        if (WEFTI_LIKELY(wefti_worker_begin(w, next))) {
            bind(w, next, here);
            if (w->pinned.count) /* else there is nobody to follow it, and most end without waiting */
                give(w, next);
            return (struct goal){here, next};
        }
        next = NULL;
    }
    return go_on(w, here, next);
}

/* Many that are woken together, as by a poller or a timer, run one after another on stacks that have left the caches since: while one runs,
 * have what the next needs first brought in; of the one behind it, what is needed to find that.  All in our own queue have begun, and
 * have been left. */
static inline void prefetch_next(const struct wefti_worker *w, uint32_t count) {
    if (count < 3)
        return;
    struct weft_task *next = wefti_task_of(w->pinned.first), *second = wefti_task_of(next->link.next);
    const char *frames = wefti_fiber_of(next)->stack->ctx.sp, *third = (const char *)second->link.next;
    __builtin_prefetch(third);
    __builtin_prefetch(third + LINE);
    __builtin_prefetch(wefti_fiber_of(second)->stack);
#pragma GCC unroll 8
    for (unsigned at = 0; at < PREFETCH; at += LINE)
        __builtin_prefetch(frames + at);
}

/* At the base of every stack but the threads' own: run one fiber after another. */
static void runner(void *pass) {
    struct weft_task *task = pass;
    wefti_stack_begun();
    for (;;) {
        struct wefti_worker *w = wefti_worker_here();
        struct wefti_stack *stack;
        struct goal to;
        arrived(w);
        w->fresh_left = w->average < FRESH_SHORT ? FRESH_MAX : 0;
        do {
            struct wefti_fiber *fiber = wefti_fiber_of(task);
            stack = fiber->stack;
            int status = WEFTI_UNLIKELY(fiber->discard) ? run_discardable(fiber) : fiber->fn(task->pointer);
            if (WEFTI_UNLIKELY(fiber->locals != NULL)) {
                fiber->discard = false; /* what it would go back to has returned */
                wefti_locals_end(fiber);
            }
            if (WEFTI_UNLIKELY(fiber->owned != NULL)) /* its own: others only read it */
                left_open(fiber);
            if (WEFTI_UNLIKELY(fiber->preempted == WEFTI_PREEMPT_MAX))
                status = -ETIME; /* R32 */
            weft_result result = {status < 0 ? status : 0, status < 0 ? NULL : (void *)(intptr_t)status};
            if (WEFTI_UNLIKELY(fiber->migrate | fiber->has_value)) {
                w = wefti_worker_here(); /* it may have come to another */
                result.value = fiber->has_value ? fiber->value : result.value;
            }
            fiber->stack = NULL;
            wefti_worker_finish(w, task, result);
            to = go_on_fresh(w, stack);
            task = to.task;
        } while (to.stack == stack);
        prefetch_next(w, w->pinned.count);
        give_stack(w, stack);
        task = wefti_stack_switch(stack, to.stack, task);
    }
}

/* Leave `from` for `to`, in a program with C++.  Exceptions that are being thrown or handled belong to the stack that they are on, but
 * are kept a thread.  So whoever leaves a stack in the midst of some takes them along: a thread that arrives anywhere has none.  Returns
 * the worker on which it is back. */
static __attribute__((noinline)) struct wefti_worker *switch_exceptions(struct wefti_worker *w,
                                                                        struct wefti_stack *from,
                                                                        struct wefti_stack *to, struct weft_task *next,
                                                                        bool migrate) {
    struct wefti_exceptions mine = *w->exceptions;
    bool some = mine.caught || mine.uncaught;
    if (WEFTI_UNLIKELY(some))
        *w->exceptions = (struct wefti_exceptions){0};
    wefti_stack_switch(from, to, next);
    if (WEFTI_UNLIKELY(migrate))
        w = wefti_worker_here();
    arrived(w);
    if (WEFTI_UNLIKELY(some))
        *w->exceptions = mine;
    return w;
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
    give(w, task);
    if (w->exceptions) { /* whoever drives us, or waits in a poll, may be handling some */
        switch_exceptions(w, &w->native, stack, task, false);
    } else {
        wefti_stack_switch(&w->native, stack, task);
        arrived(w); /* the loop's stack is never left for another thread's */
    }
    wefti_worker_settle(w);
    if (load_own(&w->resting))
        wefti_worker_unrest(w); /* before we search, sleep, or run what may take long */
    return WEFTI_HANDLED;
}

/* As wefti_worker_begin, of one that has begun before. */
static inline void begin_own(struct wefti_worker *w, struct weft_task *next) {
    wefti_check_alone(w, next);
    wefti_word_enter(&next->word);
    wefti_count(&w->counters.polls, 1);
    wefti_set_current(w, next);
}

/* Is the first of our own fibers next anyway, whatever go_on would look at?  Then one of our own runs. */
static inline bool own_waits(struct wefti_worker *w) { return w->pinned.count && wefti_mpsc_is_empty(&w->inbox); }
static inline bool own_is_next(struct wefti_worker *w) { return WEFTI_LIKELY(w->own_left && own_waits(w)); }

/* It is the current one now. */
static inline struct goal own_next(struct wefti_worker *w) {
    w->own_left--;
    struct weft_task *next = wefti_task_of(wefti_chain_take_first(&w->pinned));
    begin_own(w, next);
    return (struct goal){wefti_fiber_of(next)->stack, next};
}

static __attribute__((noinline)) struct goal find_next(struct wefti_worker *w) {
    wefti_set_current(w, NULL); /* until go_on has found another: timers and drop functions run meanwhile */
    return go_on(w, NULL, NULL);
}

/* Leave `self` for another stack, and be back, on the worker that is returned. */
static inline __attribute__((always_inline)) struct wefti_worker *switch_to(struct wefti_worker *w,
                                                                            struct wefti_fiber *self, struct goal to) {
    prefetch_next(w, w->pinned.count);
    if (WEFTI_UNLIKELY(w->exceptions != NULL))
        return switch_exceptions(w, self->stack, to.stack, to.task, self->migrate);
    wefti_stack_switch(self->stack, to.stack, to.task);
    if (WEFTI_UNLIKELY(self->migrate))
        w = wefti_worker_here();
    arrived(w);
    return w;
}

/* Leave `self`, and be back on whatever worker it is by then.  errno belongs to the thread: each fiber has its own as far as it can see.
 * However the next one was found, the switch is this one: the processor takes it that a return goes to the last call, and is right when all
 * who wait have left by the same calls. */
static inline __attribute__((always_inline)) struct wefti_worker *leave(struct wefti_worker *w,
                                                                        struct wefti_fiber *self) {
    int saved = *w->errno_at; /* first: go_on rings timers, looks at descriptors, ends tasks */
    look_at_resting(w);
    struct goal to = own_is_next(w) ? own_next(w) : find_next(w);
    if (WEFTI_LIKELY(to.stack != self->stack)) /* else nobody else is there: it is its turn again */
        w = switch_to(w, self, to);
    *w->errno_at = saved; /* last: what arrived calls may change it */
    return w;
}

static __attribute__((noinline)) struct goal leave_and_find(struct wefti_worker *w, struct wefti_fiber *self) {
    w->left = &self->task;
    w->left_said = WEFT_PENDING;
    look_at_resting(w);
    return find_next(w);
}

/* As leave, of one that waits.  If it is left for another of our own, it is one itself, and rests at once: nothing between that and the switch
 * could wake it here. */
static inline __attribute__((always_inline)) struct wefti_worker *suspend(struct wefti_worker *w,
                                                                          struct wefti_fiber *self) {
    int saved = *w->errno_at;
    struct goal to;
    wefti_fiber_rested(self);
    bool own = w->own_left != 0;
    if (own && WEFTI_UNLIKELY(load_own(&w->resting) != NULL))
        wefti_worker_unrest(w); /* two cannot */
    if (WEFTI_LIKELY(own && own_waits(w))) {
#ifdef WEFTI_DEBUG
        wefti_assert(wefti_worker_keeps(w, &self->task), w->own_left); /* see give */
#endif
        store_relaxed(&w->resting, &self->task); /* to others, for a look; whether it was woken, at the next choice */
        to = own_next(w);
    } else {
        to = leave_and_find(w, self);
    }
    w = switch_to(w, self, to);
    *w->errno_at = saved; /* last, as there */
    return w;
}

__attribute__((noinline)) void wefti_fiber_suspend(struct wefti_fiber *self) { suspend(wefti_worker_here(), self); }

/* Behind our own fibers: it stays here. */
static inline void yield_here(struct wefti_worker *w, struct wefti_fiber *self) {
    wefti_chain_append(&w->pinned, &self->task.link);
    leave(w, self);
}

static __attribute__((noinline)) void yield_anywhere(struct wefti_worker *w, struct wefti_fiber *self) {
    w->left = &self->task;
    w->left_said = WEFT_YIELD;
    leave(w, self);
}

/* Not in a fiber, or in one that does not stay on its worker. */
static __attribute__((noinline)) int yield_otherwise(struct wefti_worker *w, struct weft_task *task) {
    if (!task) {
        wefti_thread_yield();
        return 0;
    }
    if (!wefti_task_is_fiber(task))
        return -EINVAL;
    struct wefti_fiber *self = wefti_fiber_of(task);
    wefti_fiber_rested(self);
    yield_anywhere(w, self);
    return wefti_fiber_must_end(self) ? -ECANCELED : 0;
}

static __attribute__((noinline)) struct goal queue_and_find(struct wefti_worker *w, struct wefti_fiber *self) {
    if (w->central) { /* whoever is arrived at tells the control thread */
        w->left = &self->task;
        w->left_said = WEFT_YIELD;
        wefti_fiber_rested(self);
    } else {
        wefti_chain_append(&w->pinned, &self->task.link);
    }
    return find_next(w);
}

/* What yield_here does, in fewer steps when the first of our own fibers is next and it is not alone: one goes out at the front, one in at the
 * back.  Again there is one switch for all. */
__attribute__((noinline)) int weft_yield(void) {
    struct wefti_worker *w = wefti_worker_self(); /* asked once, before any switch: no need of wefti_worker_here */
    struct weft_task *task = w ? wefti_current(w) : NULL;
    if (WEFTI_UNLIKELY(!task))
        return yield_otherwise(w, task);
    struct wefti_fiber *self = wefti_fiber_of(task); /* if it is one */
    int saved = *w->errno_at;
    struct goal to;
    look_at_resting(w);
    if (WEFTI_LIKELY(w->own_left && w->pinned.count && wefti_mpsc_is_empty(&w->inbox))) {
        struct weft_task *next = wefti_task_of(w->pinned.first);
#ifdef WEFTI_DEBUG
        wefti_assert(wefti_worker_keeps(w, task), w->own_left); /* see give */
#endif
        w->own_left--;
        task->link.next = NULL;
        w->pinned.last->next = &task->link;
        w->pinned.last = &task->link;
        begin_own(w, next);
        w->pinned.first =
            next->link.next; /* apart from `last`: gcc makes one store of two neighbours, for which the loads wait */
        prefetch_next(w, w->pinned.count);
        to = (struct goal){wefti_fiber_of(next)->stack, next};
    } else {
        if (!wefti_task_is_pinned(task)) /* only fibers are */
            return yield_otherwise(w, task);
        to = queue_and_find(w, self);
        if (to.stack == self->stack)
            goto back;
    }
    if (WEFTI_UNLIKELY(w->exceptions != NULL)) {
        switch_exceptions(w, self->stack, to.stack, to.task, false);
    } else {
        wefti_stack_switch(self->stack, to.stack, to.task);
        arrived(w);
    }
back:
    *w->errno_at = saved;
    return wefti_fiber_must_end(self) ? -ECANCELED : 0;
}

void wefti_fiber_yield(struct wefti_worker *w, struct wefti_fiber *self) {
    if (WEFTI_LIKELY(wefti_worker_keeps(w, &self->task)))
        yield_here(w, self);
    else
        yield_anywhere(w, self);
}

void wefti_fiber_preempt(struct wefti_worker *w, struct wefti_fiber *self) {
    if (w->rt->sim) { /* where there is but one worker, and the seed decides who is next */
        yield_anywhere(w, self);
    } else if (w->central) {
        uint16_t home = self->task.home;
        self->task.home = (uint16_t)(w->index + 1); /* the control thread gives it back to us */
        yield_anywhere(w, self);
        self->task.home = home;
    } else {
        yield_here(w, self);
        if (self->migrate)
            wefti_worker_settle(w); /* one that is not pinned runs, though it came out of `pinned`: see give */
    }
}

bool wefti_fiber_grace_is_over(struct wefti_fiber *self, uint64_t word) {
    int64_t grace = wefti_fiber_grace(self, word);
    return grace == 0 || (grace != WEFT_NEVER && grace <= wefti_now(wefti_worker_here()->rt));
}

static inline void wait_begin(struct wefti_worker *w, struct wefti_fiber *self, const char *what) {
    store_release(&self->waits, what); /* for dumps: pairs with D2 (task/fiber.h) */
    store_relaxed(&self->waits_since, WEFTI_UNLIKELY(w->rt->sim != NULL) ? wefti_now(w->rt) : w->measure_began);
}

/* The rest of wefti_fiber_wait: with an alarm, or cancelled. */
static __attribute__((noinline)) int wait_at_most(struct wefti_fiber *self, bool (*ready)(void *arg), void *arg,
                                                  int64_t until) {
    struct wefti_alarm *alarm = &self->stack->alarm;
    int64_t set = WEFT_NEVER; /* what the alarm is set to */
    int error;
    for (;;) {
        error = 0;
        if (ready(arg))
            break;
        int64_t next = until; /* when to look again */
        bool rang = set != WEFT_NEVER && load_relaxed(&alarm->rang); /* wefti_alarm_clear acquires */
        uint64_t word = load_acquire(&self->task.word); /* pairs with wefti_word_cancel_for: `grace` */
        if (WEFTI_UNLIKELY(word & WEFTI_CANCELLED)) {
            error = -ECANCELED;
            int64_t grace = wefti_fiber_grace(self, word);
            if (grace == 0 || (rang && grace == set))
                break;
            if (grace != WEFT_NEVER && grace <= wefti_now(wefti_worker_here()->rt))
                break;
            next = grace < until ? grace : until;
        }
        if (next != WEFT_NEVER) {
            struct wefti_worker *w = wefti_worker_here();
            error = -ETIMEDOUT;
            if (until != WEFT_NEVER && (set == until ? rang : until <= wefti_now(w->rt)))
                break;
            if (set != next) {
                if (WEFTI_UNLIKELY(set != WEFT_NEVER))
                    wefti_alarm_clear(alarm);
                wefti_alarm_set(w, alarm, &self->task, next);
                set = next;
            }
        }
        wefti_fiber_suspend(self);
    }
    if (set != WEFT_NEVER)
        wefti_alarm_clear(alarm);
    wefti_assert(!alarm->timer.at, set); /* the next fiber on this stack has it, too */
    store_relaxed(&self->waits, NULL);
    return error;
}

static inline __attribute__((always_inline)) int wait_for(struct wefti_worker *w, struct wefti_fiber *self,
                                                          bool (*ready)(void *arg), void *arg, int64_t until,
                                                          const char *what) {
    wait_begin(w, self, what);
    if (until != WEFT_NEVER)
        return wait_at_most(self, ready, arg, until);
    while (!ready(arg)) {
        if (WEFTI_UNLIKELY(load_relaxed(&self->task.word) & WEFTI_CANCELLED)) /* a hint; it looks again */
            return wait_at_most(self, ready, arg, until);
        w = suspend(w, self);
    }
    store_relaxed(&self->waits, NULL);
    return 0;
}

int wefti_fiber_wait(struct wefti_fiber *self, bool (*ready)(void *arg), void *arg, int64_t until, const char *what) {
    return wait_for(wefti_worker_here(), self, ready, arg, until, what);
}

static bool is_set(void *flag) { return load_acquire((_Atomic uint32_t *)flag); /* pairs with whoever sets it */ }

int wefti_fiber_wait_set(struct wefti_worker *w, struct wefti_fiber *self, _Atomic uint32_t *flag, int64_t until,
                         const char *what) {
    return wait_for(w, self, is_set, flag, until, what);
}

int wefti_fiber_wait_late(struct wefti_fiber *self, _Atomic uint32_t *flag, int64_t until, struct wefti_late *late,
                          const char *what) {
    struct wefti_worker *w = wefti_worker_here();
    int error = 0;
    wait_begin(w, self, what);
    while (!is_set(flag)) {
        if (WEFTI_UNLIKELY(load_relaxed(&self->task.word) & WEFTI_CANCELLED)) /* a hint; it looks again */
            return wait_at_most(self, is_set, flag, until);
        bool rang = late->when != WEFT_NEVER && load_relaxed(&late->alarm.rang); /* wefti_late_clear acquires */
        if (WEFTI_UNLIKELY(rang || late->when > until)) {
            wefti_late_clear(late);
            if (rang && until <= wefti_now(w->rt)) {
                error = -ETIMEDOUT;
                break;
            }
            if (until != WEFT_NEVER) {
                wefti_alarm_set(w, &late->alarm, &self->task, until);
                late->when = until;
            }
        }
        w = suspend(w, self);
    }
    store_relaxed(&self->waits, NULL);
    return error;
}

void wefti_fiber_wait_always(struct wefti_fiber *self, bool (*ready)(void *arg), void *arg, const char *what) {
    bool shielded =
        wefti_word_shield(&self->task.word); /* else a cancelled fiber does not get to sleep; false: it is, deep */
    wait_begin(wefti_worker_here(), self, what);
    while (!ready(arg))
        wefti_fiber_suspend(self);
    store_relaxed(&self->waits, NULL);
    if (shielded)
        wefti_word_unshield(&self->task.word);
}
