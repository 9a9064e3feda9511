/* meter.c - the hook in metered code, and what is due when a slice is used up (fiber/meter.h has the rules). */
#include "fiber/meter.h"

#include "budget/fund.h"

/* gcc and clang insert a call of this at every basic block: -fsanitize-coverage=trace-pc.  Anywhere: before main, on any thread.
 * Weak, because libFuzzer defines the same name: a program linked with libweft.a and libFuzzer uses libFuzzer's. */
WEFT_API __attribute__((weak)) void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    struct wefti_worker *w = wefti_self();
    if (!w || !wefti_current(w) || !wefti_task_is_fiber(wefti_current(w)))
        return;
    struct wefti_fiber *self = wefti_fiber_of(wefti_current(w));
    if (WEFTI_UNLIKELY(--self->ops_left < 0))
        wefti_meter_due(self);
}

static bool is_on_its_stack(const struct wefti_fiber *self) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), base = (uintptr_t)self->stack->base;
    return here - base < self->stack->size;
}

/* A new slice; the first ops of it are those owed, which an account must be able to pay, or which use up the grace period. */
static void refill(struct wefti_worker *w, struct wefti_fiber *self) {
    struct wefti_account *account = self->account;
    uint32_t owed = (uint32_t)-self->ops_left, slice = w->rt->yield_ops > owed ? w->rt->yield_ops : owed;
    if (account && !account->unpaid) {
        slice = account->left.ops < slice ? (uint32_t)account->left.ops : slice;
        account->left.ops -= slice;
    } else if (account) {
        account->grace -= slice;
    }
    self->ops_left = (int32_t)(slice - owed);
    self->ops_end += slice;
}

/* Waits until the account can pay what is owed.  A fiber that is cancelled meanwhile goes on without paying, since no call of its own could
 * return -ECANCELED, but only for its grace period. */
static void see_to_payment(struct wefti_fiber *self) {
    struct wefti_account *account = self->account;
    while (account && !account->unpaid && account->left.ops < (uint32_t)-self->ops_left) {
        weft_budget cost = {(uint32_t)-self->ops_left, 0, 0, 0, 0};
        if (wefti_exhausted(self, &cost)) {
            account->unpaid = true;
            account->grace = wefti_worker_here()->rt->grace_ops;
        }
    }
}

/* Now, in the midst of its code? */
static bool may_yield(struct wefti_worker *w, const struct wefti_fiber *self) {
    return !self->preempt_off && self->stack && is_on_its_stack(self) && !wefti_deque_length(&w->jobs);
}

void wefti_meter_yield(struct wefti_fiber *self) {
    struct wefti_worker *w = wefti_worker_here();
    if (may_yield(w, self))
        wefti_fiber_yield(w, self);
}

void wefti_meter_refill(struct wefti_fiber *self) { refill(wefti_worker_here(), self); }

void wefti_meter_next(struct wefti_fiber *self) {
    wefti_meter_refill(self);
    wefti_meter_yield(self);
}

static inline void due(struct wefti_fiber *self, bool discard) {
    struct wefti_worker *w = wefti_worker_here();
    if (self->ops_left < WEFTI_OWED_MAX)
        self->ops_left = WEFTI_OWED_MAX;
    if (!may_yield(w, self))
        return;
    int saved = *w->errno_at; /* the caller's code does not know that it made a call */
    uint16_t home = self->task.home;
    if (self->migrate && !w->rt->sim)
        self->task.home = (uint16_t)(w->index + 1); /* nor that it may come to another worker, if it waits now */
    see_to_payment(self);
    self->task.home = home;
    if (self->migrate)
        wefti_worker_settle(w); /* it may have come back as one that is pinned: see give (fiber/runner.c) */
    if (discard && self->discard && wefti_fiber_must_end(self)) {
        if (self->account)
            self->account->killed = true;
        wefti_fiber_discard(self);
    }
    if (WEFTI_UNLIKELY(wefti_grace_is_used(self)))
        wefti_budget_stop(self);
    refill(w, self);
    wefti_fiber_preempt(w, self);
    *wefti_worker_here()->errno_at = saved;
}

void wefti_meter_due(struct wefti_fiber *self) { due(self, true); }
void wefti_meter_due_in_call(struct wefti_fiber *self) { due(self, false); }

uint64_t weft_ops_used(void) {
    struct wefti_fiber *self = wefti_fiber_self();
    return self ? wefti_meter_used(self) : 0;
}

void weft_preempt_off(void) {
    struct wefti_fiber *self = wefti_fiber_self();
    if (!self)
        return;
    if (self->preempt_off == UINT8_MAX)
        wefti_misuse("weft_preempt_off", "255 deep already: each needs a weft_preempt_on");
    self->preempt_off++;
}

void weft_preempt_on(void) {
    struct wefti_fiber *self = wefti_fiber_self();
    if (!self)
        return;
    if (!self->preempt_off)
        wefti_misuse("weft_preempt_on", "there was no weft_preempt_off before");
    if (--self->preempt_off == 0 && self->ops_left < 0)
        wefti_meter_due(self);
}
