/* account.h - what a fiber with a budget may still use, and paying from it.
 *
 * Layers below the budget's call wefti_charge and its kin; what is done when there is something to pay is in budget/charge.c: the
 * linker joins them.  Of a fiber without an account that is one test of a field that its caller has in its cache.
 */
#ifndef WEFTI_TASK_ACCOUNT_H
#define WEFTI_TASK_ACCOUNT_H

#include <weft/budget.h>

#include "task/fiber.h"
#include "task/waits.h"

struct wefti_piece; /* of memory: budget/alloc.c */

/* The locks that a fiber with a budget holds, for a report if it is stopped (budget/stop.c).  Only the fiber touches it. */
#define WEFTI_HELD 8u
struct wefti_held {
    uint32_t count; /* in `lock` */
    uint32_t more; /* that had no room there */
    struct {
        const void *address;
        enum wefti_waits kind;
    } lock[WEFTI_HELD];
};

/* Belongs to the fiber while that runs, and to its fund, under the fund's lock, while the fiber waits exhausted. */
struct wefti_account {
    struct weft_fund *fund; /* set once: an account is used again by fibers of the same fund only */
    struct wefti_account *older; /* in the fund's list of all its accounts; set once */
    struct wefti_account *next; /* in the fund's list of unused ones */
    struct wefti_piece *pieces; /* memory that is charged to it; under the fund's lock */
    bool closed; /* its fiber has ended, and it has pieces; under the fund's lock */
    bool unpaid; /* its fiber was cancelled while it could not pay: nothing is charged any more */
    bool killed; /* its fiber was refused, discarded or stopped */
    uint32_t cap; /* 1 + index of the capability it was spawned with; 0: none */
    weft_budget left; /* without the ops of its slice: those are in fiber->ops_left */
    int64_t grace; /* if unpaid: ops until it is stopped; 0 or below: none */
    struct wefti_held held;
};

/* What is left with its slice.  What the fiber owes is deducted, as far as there is something.  By the fiber itself, or after its end. */
static inline weft_budget wefti_account_left(const struct wefti_fiber *fiber) {
    weft_budget left = fiber->account->left;
    uint64_t owed = fiber->ops_left < 0 ? (uint64_t)-(int64_t)fiber->ops_left : 0;
    if (fiber->account->unpaid)
        return left;
    if (owed)
        left.ops -= owed < left.ops ? owed : left.ops;
    else
        weft_budget_add(&left, &(weft_budget){.ops = (uint64_t)fiber->ops_left});
    return left;
}

extern const weft_budget wefti_cost_spawn, wefti_cost_channel, wefti_cost_syscall;

/* Pay.  May suspend, so not with a lock held; afterwards a fiber that migrates may be on another worker.
 * Returns 0; -ECANCELED (it could not, and was cancelled): nothing was paid. */
int wefti_pay(struct wefti_fiber *self, const weft_budget *cost);
/* The same, but neither waits nor yields.  Returns 0; -EDQUOT (it cannot pay); -ECANCELED. */
int wefti_pay_now(struct wefti_fiber *self, const weft_budget *cost);
/* What was paid for did not come about. */
void wefti_pay_back(struct wefti_fiber *self, const weft_budget *cost);

/* There has ever been an account in this process: until then, nobody looks further. */
extern _Atomic bool wefti_accounts_exist;

/* self: the running fiber, or NULL. */
static inline int wefti_charge(struct wefti_fiber *self, const weft_budget *cost) {
    return !self || WEFTI_LIKELY(!self->account) ? 0 : wefti_pay(self, cost);
}
static inline int wefti_charge_channel(struct wefti_fiber *self) { return wefti_charge(self, &wefti_cost_channel); }
static inline int wefti_charge_syscall(struct wefti_fiber *self) { return wefti_charge(self, &wefti_cost_syscall); }
/* The same for the calling task: one test, unless there are accounts. */
int wefti_charge_caller(const weft_budget *cost);
/* The same of a call with that deadline: with WEFT_NOW it does not wait for a recharge, but returns -EDQUOT. */
int wefti_charge_caller_until(const weft_budget *cost, int64_t until);
static inline int wefti_charge_channel_call(int64_t until) {
    return WEFTI_LIKELY(!load_relaxed(&wefti_accounts_exist)) /* a hint */
               ? 0
               : wefti_charge_caller_until(&wefti_cost_channel, until);
}
static inline int wefti_charge_syscall_call(void) {
    return WEFTI_LIKELY(!load_relaxed(&wefti_accounts_exist)) ? 0
                                                              : wefti_charge_caller(&wefti_cost_syscall); /* as above */
}

/* The calling task has locked, or unlocked, a mutex or rwlock.  Returns 0, so that it can be the last call of a lock function, which then needs no
 * frame.  budget/stop.c. */
int wefti_held_add(const void *lock, enum wefti_waits kind);
int wefti_held_remove(const void *lock, enum wefti_waits kind);
static inline int wefti_note_lock(const void *lock, enum wefti_waits kind) {
    if (WEFTI_UNLIKELY(load_relaxed(&wefti_accounts_exist))) /* a hint: set before a fiber with an account runs */
        return wefti_held_add(lock, kind);
    return 0;
}
static inline int wefti_note_unlock(const void *lock, enum wefti_waits kind) {
    if (WEFTI_UNLIKELY(load_relaxed(&wefti_accounts_exist))) /* as above */
        return wefti_held_remove(lock, kind);
    return 0;
}

/* A fiber is to be spawned into rt: may it, and what is its budget?  The spawner pays.  *account may be NULL: nothing is charged to it.
 * May suspend, as wefti_pay.  Returns 0; -EPERM; -EDQUOT; -EINVAL; -ENOMEM; -ECANCELED. */
int wefti_account_open(struct weft_runtime *rt, const weft_fiber_spec *spec, struct wefti_account **account);
/* It never came to be: the account as it was opened goes back, and what the spawner paid. */
void wefti_account_return(struct weft_runtime *rt, const weft_fiber_spec *spec, struct wefti_account *account);
/* The fiber has ended: what is left goes back. */
void wefti_account_close(struct wefti_fiber *fiber);
/* The fiber was made, and then not admitted. */
void wefti_account_undo(struct wefti_fiber *fiber);

#endif
