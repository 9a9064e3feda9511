/* switch.c - leaving a fiber: waiting and yielding (switch.h has the design). */
#include "fiber/next.h"
#include "fiber/slice.h"

struct wefti_worker *wefti_switch_exceptions(struct wefti_worker *w, struct wefti_stack *from, struct wefti_stack *to,
                                             struct weft_task *next, bool migrate) {
    struct wefti_exceptions mine = *w->exceptions;
    bool some = mine.caught || mine.uncaught;
    if (WEFTI_UNLIKELY(some))
        *w->exceptions = (struct wefti_exceptions){0};
    wefti_stack_switch(from, to, next);
    if (WEFTI_UNLIKELY(migrate))
        w = wefti_worker_here();
    wefti_arrived(w);
    if (WEFTI_UNLIKELY(some))
        *w->exceptions = mine;
    return w;
}

/* As wefti_worker_begin, of one that has begun before: it enters when it has been come to, and looks at its word anyway. */
static inline void begin_own(struct wefti_worker *w, struct weft_task *next) {
    wefti_check_alone(w, next);
    wefti_count(&w->counters.polls, 1);
    wefti_set_current(w, next);
    wefti_slice_begin(w, wefti_fiber_of(next));
}

/* Is the first of our own fibers next anyway, whatever go_on would look at?  Then one of our own runs. */
static inline bool own_waits(struct wefti_worker *w) { return w->pinned.count && wefti_mpsc_is_empty(&w->inbox); }
static inline bool own_is_next(struct wefti_worker *w) { return WEFTI_LIKELY(w->own_left && own_waits(w)); }

/* It is the current one now. */
static inline struct wefti_goal own_next(struct wefti_worker *w) {
    w->own_left--;
    struct weft_task *next = wefti_task_of(wefti_chain_take_first(&w->pinned));
    begin_own(w, next);
    return (struct wefti_goal){wefti_fiber_of(next)->stack, next};
}

static __attribute__((noinline)) struct wefti_goal find_next(struct wefti_worker *w) {
    wefti_set_current(w, NULL); /* until go_on has found another: timers and drop functions run meanwhile */
    return wefti_go_on(w, NULL, NULL);
}

/* Leave `self` for another stack, and be back, on the worker that is returned. */
static inline __attribute__((always_inline)) struct wefti_worker *
switch_to(struct wefti_worker *w, struct wefti_fiber *self, struct wefti_goal to) {
    wefti_prefetch_next(w, w->pinned.count);
    if (WEFTI_UNLIKELY(w->exceptions != NULL)) {
        w = wefti_switch_exceptions(w, self->stack, to.stack, to.task, self->migrate);
    } else {
        wefti_stack_switch(self->stack, to.stack, to.task);
        if (WEFTI_UNLIKELY(self->migrate))
            w = wefti_worker_here();
        wefti_arrived(w);
    }
    wefti_word_enter(&self->task.word); /* see begin_own */
    return w;
}

/* Leave `self`, and be back on whatever worker it is by then.  errno belongs to the thread: each fiber has its own as far as it can see.
 * However the next one was found, the switch is this one: the processor takes it that a return goes to the last call, and is right when all
 * who wait have left by the same calls. */
static inline __attribute__((always_inline)) struct wefti_worker *leave(struct wefti_worker *w,
                                                                        struct wefti_fiber *self) {
    int saved = *w->errno_at; /* first: go_on rings timers, looks at descriptors, ends tasks */
    wefti_look_at_resting(w);
    struct wefti_goal to = own_is_next(w) ? own_next(w) : find_next(w);
    if (WEFTI_LIKELY(to.stack != self->stack))
        w = switch_to(w, self, to);
    else
        wefti_word_enter(&self->task.word); /* nobody else is there: it is its turn again */
    *w->errno_at = saved; /* last: what arrived calls may change it */
    return w;
}

static __attribute__((noinline)) struct wefti_goal leave_and_find(struct wefti_worker *w, struct wefti_fiber *self) {
    w->left = &self->task;
    w->left_said = WEFT_PENDING;
    wefti_look_at_resting(w);
    return find_next(w);
}

/* As leave, of one that waits.  If it is left for another of our own, it is one itself, and rests at once: nothing between that and the switch
 * could wake it here. */
static inline __attribute__((always_inline)) struct wefti_worker *suspend(struct wefti_worker *w,
                                                                          struct wefti_fiber *self) {
    int saved = *w->errno_at;
    struct wefti_goal to;
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

static __attribute__((noinline)) struct wefti_goal queue_and_find(struct wefti_worker *w, struct wefti_fiber *self) {
    if (w->central) { /* whoever is arrived at tells the control thread */
        w->left = &self->task;
        w->left_said = WEFT_YIELD;
        wefti_fiber_rested(self);
    } else {
        wefti_chain_append(&w->pinned, &self->task.link);
    }
    return find_next(w);
}

/* Back from a yield, and woken, cancelled or asked to end meanwhile. */
static __attribute__((noinline)) int enter_marked(struct wefti_fiber *self) {
    wefti_word_enter(&self->task.word);
    return wefti_fiber_must_end(self) ? -ECANCELED : 0;
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
    struct wefti_goal to;
    wefti_look_at_resting(w);
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
        wefti_prefetch_next(w, w->pinned.count);
        to = (struct wefti_goal){wefti_fiber_of(next)->stack, next};
    } else {
        if (!wefti_task_is_pinned(task)) /* only fibers are */
            return yield_otherwise(w, task);
        to = queue_and_find(w, self);
        if (to.stack == self->stack)
            goto back;
    }
    if (WEFTI_UNLIKELY(w->exceptions != NULL)) {
        wefti_switch_exceptions(w, self->stack, to.stack, to.task, false);
    } else {
        wefti_stack_switch(self->stack, to.stack, to.task);
        wefti_arrived(w);
    }
back:
    *w->errno_at = saved;
    return WEFTI_LIKELY(wefti_word_enter_plain(&task->word)) ? 0 : enter_marked(self); /* see begin_own */
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

void wefti_fiber_will_wait(struct wefti_fiber *self, const char *what) { wait_begin(wefti_worker_here(), self, what); }

/* The rest of wefti_fiber_wait: with an alarm, or of a fiber that is to end. */
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
        bool rang = set != WEFT_NEVER && load_relaxed(&alarm->timer.rang); /* wefti_alarm_clear acquires */
        uint64_t word = load_acquire(&self->task.word); /* pairs with wefti_word_cancel_for: `grace` */
        if (WEFTI_UNLIKELY(wefti_word_is_to_end(word))) {
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
        if (WEFTI_UNLIKELY(wefti_word_is_to_end(load_relaxed(&self->task.word)))) /* a hint; it looks again */
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
        if (WEFTI_UNLIKELY(wefti_word_is_to_end(load_relaxed(&self->task.word)))) /* a hint; it looks again */
            return wait_at_most(self, is_set, flag, until);
        bool rang = late->when != WEFT_NEVER && load_relaxed(&late->alarm.timer.rang); /* wefti_late_clear acquires */
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
