/* charge.c - paying, being exhausted, and being recharged.
 *
 * A fiber that cannot pay waits in its fund's list (fiber/wait.h has the protocol).  Who recharges it writes to its account under
 * the fund's lock, while it is still in the list: the fiber itself touches its account again only when it was SERVED, or has
 * taken itself out of the list under the same lock.
 */
#include "budget/fund.h"
#include "fiber/slice.h"

#include "budget/cap.h"
#include "fiber/meter.h"

#include <stdio.h>

const weft_budget wefti_cost_spawn = {1, 0, 1, 0, 0}, wefti_cost_channel = {1, 0, 0, 1, 0},
                  wefti_cost_syscall = {1, 0, 0, 0, 1};
const char wefti_waits_budget[] = "budget";
static const weft_budget child = WEFT_BUDGET_CHILD;

/* -- Exhausted --------------------------------------------------------------------------------------------- */

/* Everybody who waits for somebody exhausted.  Who has recharged us meanwhile, and waits for the next, is not told of us. */
static void tell_supervisors(struct weft_fund *fund) {
    for (;;) {
        wefti_lock_take(&fund->lock);
        struct wefti_waiter *waiter = fund->exhausted.first ? wefti_waiters_take(&fund->supervisors) : NULL;
        wefti_waker waker = waiter ? wefti_waiter_serve(waiter) : 0;
        wefti_lock_give(&fund->lock);
        if (!waiter)
            return;
        wefti_waiter_wake(waker); /* E3: wake */
    }
}

/* The first thing of which there is too little. */
static const char *lacking(const struct wefti_fiber *self, const weft_budget *cost) {
    weft_budget left = wefti_account_left(self);
    return left.memory < cost->memory             ? "memory"
           : left.spawns < cost->spawns           ? "spawns"
           : left.channel_ops < cost->channel_ops ? "channel_ops"
           : left.syscalls < cost->syscalls       ? "syscalls"
                                                  : "ops";
}

void wefti_report_exhausted(const char *fiber, const char *what, const char *then) {
    char text[384], name[WEFTI_NAME_ROOM];
    int size = snprintf(text, sizeof text, "weft: fiber \"%s\" has no %s left in its budget, and %s\n",
                        wefti_printable(fiber, name, sizeof name), what, then);
    wefti_write(2, text, size > 0 && (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

/* Nobody has ever asked for exhausted fibers of the fund, nor heard of one. */
static bool is_unwatched(struct weft_fund *fund) {
    wefti_lock_take(&fund->lock);
    bool unwatched = !fund->watched;
    fund->watched = true;
    wefti_lock_give(&fund->lock);
    return unwatched;
}

/* The fiber is in the list.  Its owner is told, and whoever watches the fund; if nobody does, it is reported, once for each fund. */
static void tell_exhausted(struct wefti_fiber *self, const char *what) {
    const struct wefti_owner_kind *owner = self->owner ? self->owner->kind : NULL;
    bool seen = owner && owner->exhausted && owner->exhausted(self, what);
    if (!seen && is_unwatched(self->account->fund))
        wefti_report_exhausted(self->task.name, what, "waits to be recharged: nobody watches its fund");
    tell_supervisors(self->account->fund);
}

static int wait_for_recharge(struct wefti_fiber *self, const weft_budget *cost) {
    struct weft_fund *fund = self->account->fund;
    struct wefti_waiter waiter;
    wefti_waiter_init(&waiter);
    waiter.slot = self;
    waiter.result = 0;
    const char *what = lacking(self, cost); /* from here on the account is the fund's */
    wefti_fiber_will_wait(self, wefti_waits_budget); /* who finds it in the list finds it exhausted (J13) */
    wefti_lock_take(&fund->lock);
    wefti_waiters_append(&fund->exhausted, &waiter);
    wefti_lock_give(&fund->lock);
    tell_exhausted(self, what);
    int why = wefti_waiter_wait(&waiter, WEFT_NEVER, wefti_waits_budget);
    if (why) {
        wefti_lock_take(&fund->lock);
        bool waits = wefti_waiters_remove(&fund->exhausted, &waiter);
        wefti_lock_give(&fund->lock);
        if (waits)
            return why;
    }
    return (int)waiter.result;
}

/* `service`: as much as a child is born with, or as the thing costs; out of the fund, or out of nothing. */
static void recharge_self(struct wefti_fiber *self, const weft_budget *cost) {
    struct wefti_account *account = self->account;
    weft_budget more = wefti_budget_most(&child, cost);
    more = wefti_budget_fitting(&account->left, &more);
    wefti_lock_take(&account->fund->lock);
    wefti_fund_take_or_make(account->fund, &more);
    wefti_lock_give(&account->fund->lock);
    weft_budget_add(&account->left, &more);
}

int wefti_exhausted(struct wefti_fiber *self, const weft_budget *cost) {
    struct wefti_worker *w = wefti_worker_here();
    wefti_count(&w->counters.exhausted, 1);
    if (w->rt->profile != WEFT_PROFILE_SERVICE)
        return wait_for_recharge(self, cost);
    recharge_self(self, cost);
    return 0;
}

/* -- Paying ------------------------------------------------------------------------------------------------ */

/* Takes the whole cost, or nothing.  Ops come out of the slice first; ops_left below 0 is what the slice lacks, which the account has. */
static bool take(struct wefti_fiber *self, const weft_budget *cost) {
    weft_budget *left = &self->account->left;
    int64_t lacking = (int64_t)cost->ops - self->ops_left; /* a cost has few ops */
    if ((lacking > 0 && left->ops < (uint64_t)lacking) || left->memory < cost->memory || left->spawns < cost->spawns ||
        left->channel_ops < cost->channel_ops || left->syscalls < cost->syscalls)
        return false;
    self->ops_left -= (int32_t)cost->ops;
    left->memory -= cost->memory;
    left->spawns -= cost->spawns;
    left->channel_ops -= cost->channel_ops;
    left->syscalls -= cost->syscalls;
    return true;
}

/* A cancelled fiber that pays no more uses up its grace period instead. */
static int pay_with_grace(struct wefti_fiber *self, const weft_budget *cost) {
    if (self->account->grace <= 0)
        return -ECANCELED;
    self->ops_left -= (int32_t)cost->ops;
    return 0;
}

int wefti_pay(struct wefti_fiber *self, const weft_budget *cost) {
    bool waited = false;
    int error = 0;
    if (WEFTI_UNLIKELY(self->account->unpaid))
        error = pay_with_grace(self, cost);
    else
        for (; !take(self, cost) && !error; waited = true)
            error = wefti_exhausted(self, cost);
    if (error)
        return error;
    if (self->ops_left < 0)
        wefti_meter_next(self);
    if (waited) /* under `service`, which did not */
        wefti_meter_yield(self);
    return 0;
}

int wefti_pay_now(struct wefti_fiber *self, const weft_budget *cost) {
    if (WEFTI_UNLIKELY(self->account->unpaid))
        return pay_with_grace(self, cost);
    bool paid = take(self, cost);
    if (!paid && wefti_worker_here()->rt->profile == WEFT_PROFILE_SERVICE) {
        wefti_count(&wefti_worker_here()->counters.exhausted, 1);
        recharge_self(self, cost);
        paid = take(self, cost);
    }
    if (!paid)
        return -EDQUOT;
    if (self->ops_left < 0)
        wefti_meter_refill(self);
    return 0;
}

_Atomic bool wefti_accounts_exist;

int wefti_charge_caller(const weft_budget *cost) { return wefti_charge(wefti_fiber_self(), cost); }

int wefti_charge_caller_until(const weft_budget *cost, int64_t until) {
    struct wefti_fiber *self = wefti_fiber_self();
    if (until > WEFT_NOW || !self || !self->account)
        return wefti_charge(self, cost);
    return wefti_pay_now(self, cost);
}

void wefti_pay_back(struct wefti_fiber *self, const weft_budget *cost) {
    if (!self->account->unpaid)
        weft_budget_add(&self->account->left, cost);
}

int weft_budget_left(weft_budget *left) {
    struct wefti_fiber *self = wefti_fiber_self();
    if (!left)
        return -EINVAL;
    if (!self || !self->account)
        return -ENOENT;
    *left = wefti_account_left(self);
    return 0;
}

/* -- Supervision --------------------------------------------------------------------------------------------- */

unsigned weft_fund_exhausted(weft_fund *fund, weft_task **tasks, unsigned room) {
    unsigned count = 0;
    if (!fund)
        return 0;
    wefti_lock_take(&fund->lock);
    fund->watched = true;
    for (struct wefti_waiter *waiter = fund->exhausted.first; waiter; waiter = waiter->next, count++)
        if (count < room && tasks)
            tasks[count] = &((struct wefti_fiber *)waiter->slot)->task;
    wefti_lock_give(&fund->lock);
    return count;
}

int weft_fund_wait_exhausted(weft_fund *fund, weft_deadline until) {
    wefti_slice_use(until);
    struct wefti_waiter waiter;
    int error = fund ? wefti_waiter_init(&waiter) : -EINVAL;
    if (error)
        return error;
    wefti_lock_take(&fund->lock);
    bool there = fund->exhausted.first != NULL;
    fund->watched = true;
    if (!there && until > 0)
        wefti_waiters_append(&fund->supervisors, &waiter);
    wefti_lock_give(&fund->lock);
    if (there) { /* who asks again and again, and recharges nobody, lets the others run at least, and learns that it is to end */
        struct wefti_fiber *self = wefti_fiber_self();
        if (self)
            wefti_meter_yield(self);
        return self && wefti_fiber_must_end(self) ? -ECANCELED : 0;
    }
    if (until <= 0)
        return -ETIMEDOUT;
    int why = wefti_waiter_wait(&waiter, until, "an exhausted fiber");
    if (!why)
        return 0;
    wefti_lock_take(&fund->lock);
    bool waits = wefti_waiters_remove(&fund->supervisors, &waiter);
    wefti_lock_give(&fund->lock);
    if (!waits)
        wefti_waiter_settle(&waiter);
    return waits ? why : 0;
}

/* Under the lock. */
static struct wefti_waiter *find_exhausted(struct weft_fund *fund, const weft_task *task) {
    struct wefti_waiter *waiter = fund->exhausted.first;
    while (waiter && &((struct wefti_fiber *)waiter->slot)->task != task)
        waiter = waiter->next;
    return waiter;
}

int weft_fund_recharge(weft_fund *fund, weft_task *task, const weft_budget *amount, const weft_cap *cap) {
    weft_budget moved;
    if (!fund || !amount)
        return -EINVAL;
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    int error = wefti_cap_budget(fund->rt, cap, true, amount, &moved);
    if (error)
        return error;
    wefti_lock_take(&fund->lock);
    struct wefti_waiter *waiter = find_exhausted(fund, task);
    struct wefti_account *account = waiter ? ((struct wefti_fiber *)waiter->slot)->account : NULL;
    if (account) {
        moved = wefti_budget_fitting(&account->left, &moved);
        if (!weft_budget_take(&fund->left, &moved))
            error = -EDQUOT;
    } else {
        error = -ENOENT;
    }
    wefti_waker waker = 0;
    if (!error) {
        weft_budget_add(&account->left, &moved);
        wefti_waiters_remove(&fund->exhausted, waiter);
        waker = wefti_waiter_serve(waiter);
    }
    wefti_lock_give(&fund->lock);
    if (!error)
        wefti_waiter_wake(waker);
    return error;
}

int weft_fund_refuse(weft_fund *fund, weft_task *task) {
    if (!fund)
        return -EINVAL;
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    wefti_lock_take(&fund->lock);
    struct wefti_waiter *waiter = find_exhausted(fund, task);
    wefti_waker waker = 0;
    if (waiter) {
        wefti_word_ref(&task->word); /* it cannot end before it has left the list */
        wefti_waiters_remove(&fund->exhausted, waiter);
        waiter->result = -ECANCELED;
        ((struct wefti_fiber *)waiter->slot)->account->killed = true;
        waker = wefti_waiter_serve(waiter);
    }
    wefti_lock_give(&fund->lock);
    if (!waiter)
        return -ENOENT;
    wefti_cancel(task, WEFT_REASON_BUDGET);
    wefti_waiter_wake(waker);
    wefti_task_unref(task, 0);
    return 0;
}
