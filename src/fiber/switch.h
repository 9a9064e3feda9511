/* switch.h - running fibers: the one way to suspend.  Internal.
 *
 * What.   A worker's loop runs on the thread's own stack.  Every other stack has a runner at its base, which calls fibers' functions:
 *         one that never waits costs no switch, since the runner goes on with the next new fiber on the same stack.  One that
 *         waits keeps the stack until it ends.
 *         Who leaves a stack picks what runs next and switches straight to it; the loop's stack is for polls, searching and sleeping.
 * Rule.   A fiber becomes wakeable only when its stack has been left: whoever is switched to makes it IDLE (wefti_arrived), and
 *         queues it again if it was woken meanwhile.
 * Rest.   The last of a worker's own fibers that was left to wait is not made IDLE before another is left so, or the loop is come to: it rests.
 *         (Left for another of our own, it is said to rest before the switch: nothing on this worker could wake it between.)
 *         Most often its own worker wakes it before that, with what runs next, and then neither costs a read-modify-write.  Who else
 *         wakes or cancels it meanwhile finds it SCHEDULED, and leaves a mark, which is seen when it is made IDLE: as if it had not
 *         been left yet.  Its worker looks for that mark before each choice of a next one, as it looks into its inbox: so it runs no later.
 * Yield.  A pinned fiber that yields waits in its worker's own queue, where nobody else can take it.
 */
#ifndef WEFTI_FIBER_SWITCH_H
#define WEFTI_FIBER_SWITCH_H

#include "sched/sched.h"
#include "task/fiber.h"

/* The poll function of every fiber. */
weft_poll wefti_fiber_poll(struct weft_task *task, void *state);

/* The fiber that the calling worker runs, or NULL; and that of the calling thread. */
static inline struct wefti_fiber *wefti_fiber_on(const struct wefti_worker *w) {
    struct weft_task *task = wefti_current(w);
    return task && wefti_task_is_fiber(task) ? wefti_fiber_of(task) : NULL;
}
static inline struct wefti_fiber *wefti_fiber_self(void) {
    struct wefti_worker *w = wefti_worker_here();
    return w ? wefti_fiber_on(w) : NULL;
}

/* How a task has ended.  Who asks has seen that it is COMPLETE. */
static inline weft_result wefti_task_result(struct weft_task *task) {
    return (weft_result){load_relaxed(&task->status), task->value}; /* written before COMPLETE */
}

/* It gives its worker up by itself. */
static inline void wefti_fiber_rested(struct wefti_fiber *self) {
    if (WEFTI_UNLIKELY(self->preempted) && self->preempted < WEFTI_PREEMPT_MAX)
        self->preempted = 0;
}

/* Suspend the running fiber until it is woken, or for no reason. */
void wefti_fiber_suspend(struct wefti_fiber *self);
/* Let others run first.  w: the calling worker. */
void wefti_fiber_yield(struct wefti_worker *w, struct wefti_fiber *self);

/* The same in the midst of code that does not expect it: it goes on on the same worker, also if it may move. */
void wefti_fiber_preempt(struct wefti_worker *w, struct wefti_fiber *self);
/* End the running fiber, which is discardable, here and now: nothing more of it runs. */
_Noreturn void wefti_fiber_discard(struct wefti_fiber *self);

/* End the running fiber with -EDQUOT, here and for good: its nurseries are cancelled and awaited, nothing more of its code runs, and its stack is
 * kept as it is, since others may use what lies in its frames. */
_Noreturn void wefti_fiber_stop(struct wefti_fiber *self);

/* Suspend the running fiber until ready(arg), for which somebody wakes it.  `what` is for dumps.
 * Returns 0; -ECANCELED; -ETIMEDOUT.  Then ready(arg) may still have become true: whoever owns the condition looks again. */
int wefti_fiber_wait(struct wefti_fiber *self, bool (*ready)(void *arg), void *arg, int64_t until, const char *what);

/* Say what it will wait for before the wait itself, which says the same: for whoever learns of it from what is done in between. */
void wefti_fiber_will_wait(struct wefti_fiber *self, const char *what);
/* The same until *flag is not 0, which whoever sets it releases.  What most waits are.  w: the calling worker. */
int wefti_fiber_wait_set(struct wefti_worker *w, struct wefti_fiber *self, _Atomic uint32_t *flag, int64_t until,
                         const char *what);

/* A deadline that is put off again and again before it comes, as that of a connection that has something to say now and then.  Its alarm stays
 * where it was set first; when it rings too early it is set anew.  So a wait with it costs no more than one without.
 * In the memory of who waits: cleared before that goes.  It may ring while its fiber waits for something else, which is woken for nothing. */
struct wefti_late {
    int64_t when; /* what the alarm is set to; WEFT_NEVER: it is not */
    struct wefti_alarm alarm;
};
static inline void wefti_late_init(struct wefti_late *late) { late->when = WEFT_NEVER; }
static inline void wefti_late_clear(struct wefti_late *late) {
    if (late->when != WEFT_NEVER)
        wefti_alarm_clear(&late->alarm);
    late->when = WEFT_NEVER;
}
/* As wefti_fiber_wait_set. */
int wefti_fiber_wait_late(struct wefti_fiber *self, _Atomic uint32_t *flag, int64_t until, struct wefti_late *late,
                          const char *what);

/* Suspend the running fiber until ready(arg), cancelled or not. */
void wefti_fiber_wait_always(struct wefti_fiber *self, bool (*ready)(void *arg), void *arg, const char *what);

/* The running fiber was cancelled, or its process has an unread request to end, and no shield protects it (any more): its waits fail. */
bool wefti_fiber_grace_is_over(struct wefti_fiber *self, uint64_t word);
static inline bool wefti_fiber_must_end(struct wefti_fiber *self) {
    uint64_t word = load_relaxed(&self->task.word); /* a flag, nothing behind it */
    return WEFTI_UNLIKELY(wefti_word_is_to_end(word)) && wefti_fiber_grace_is_over(self, word);
}
/* The same of a fiber that was cancelled, which is for good.  A request to end does not count. */
static inline bool wefti_fiber_is_cancelled(struct wefti_fiber *self) {
    uint64_t word = load_relaxed(&self->task.word); /* as there */
    return WEFTI_UNLIKELY(word & WEFTI_CANCELLED) && wefti_fiber_grace_is_over(self, word);
}

/* What the running task does from begin to end is not cut off by a cancellation, also when the time of its shields is over: others would be left
 * with half of it.  Nests; not for what waits for ever. */
struct wefti_steady {
    struct weft_task *task; /* NULL: a thread, which nobody cancels */
    bool shielded; /* false: it is, 255 times already */
    bool before;
};
static inline struct wefti_steady wefti_steady_begin(struct weft_task *task) {
    bool fiber = task && wefti_task_is_fiber(task);
    struct wefti_steady steady = {task, task && wefti_word_shield(&task->word), fiber && wefti_fiber_of(task)->steady};
    if (fiber)
        wefti_fiber_of(task)->steady = true;
    return steady;
}
static inline void wefti_steady_end(const struct wefti_steady *steady) {
    if (steady->task && wefti_task_is_fiber(steady->task))
        wefti_fiber_of(steady->task)->steady = steady->before;
    if (steady->shielded)
        weft_unshield(steady->task);
}

#endif
