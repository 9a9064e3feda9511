/* fund.h - funds: where budgets come from and go back to.  Internal.
 *
 * What.   A fund has an amount of each thing.  Whoever comes out of it (a fiber, another fund) takes his budget along, and brings
 *         back at his end what he has not used.
 * Who.    Everything is under the fund's lock, never two at once.  The account of a fiber is the fiber's own; only while the
 *         fiber waits in the fund's list of exhausted ones, it is the lock's.
 * Claim.  What is in the funds of a tree, in the accounts that came out of them, and allocated, plus what was used, is constant,
 *         but for what was added out of nothing.
 * Why.    Each move subtracts from one place and adds the same numbers to another.  An addition does not overflow: no fund or account of a
 *         tree has more than was ever made at its root, and that is kept below 2^64 of each thing.
 */
#ifndef WEFTI_BUDGET_FUND_H
#define WEFTI_BUDGET_FUND_H

#include "budget/budget.h"
#include "fiber/wait.h"
#include "task/account.h"

struct weft_fund {
    struct weft_runtime *rt;
    struct weft_fund *parent; /* NULL: out of nothing */
    struct wefti_lock lock;   /* all below */
    uint32_t users;           /* funds that came out of it, and accounts that are not in `unused` */
    weft_budget left;
    weft_budget made; /* ever added out of nothing */
    struct wefti_waiters exhausted;   /* slot: the fiber */
    struct wefti_waiters supervisors; /* wait for one of these */
    bool watched; /* somebody has asked for exhausted fibers, or has been told of one on stderr */
    struct wefti_account *accounts; /* all of them */
    struct wefti_account *unused;
};

/* Take that much, or nothing.  `more_users` come out of it. */
bool wefti_fund_take(struct weft_fund *fund, const weft_budget *amount, uint32_t more_users);
void wefti_fund_give(struct weft_fund *fund, const weft_budget *amount, uint32_t fewer_users);
/* One user more, or less, who takes nothing: the fund cannot be destroyed meanwhile. */
void wefti_fund_ref(struct weft_fund *fund);
void wefti_fund_unref(struct weft_fund *fund);
/* Under the lock: adds that much out of nothing. */
void wefti_fund_make(struct weft_fund *fund, const weft_budget *amount);
/* Under the lock, for `service`: takes that much, out of nothing if the fund has too little. */
void wefti_fund_take_or_make(struct weft_fund *fund, const weft_budget *amount);

/* Under the lock: the account, which has no pieces, is for the next fiber of the fund. */
void wefti_account_reuse(struct wefti_account *account);
/* Under the lock: takes the account's pieces off it, all but those that are being freed.  Returns how many bytes these were.  alloc.c. */
uint64_t wefti_pieces_disown(struct wefti_account *account);

/* The running fiber cannot pay: it gets more, or waits until it does.  0; -ECANCELED.  charge.c. */
int wefti_exhausted(struct wefti_fiber *self, const weft_budget *cost);

/* The fiber is cancelled and exhausted, and its grace period is over. */
static inline bool wefti_grace_is_used(const struct wefti_fiber *fiber) {
    return fiber->account && fiber->account->unpaid && fiber->account->grace <= 0;
}
/* Stops the running fiber for good: reports it with the locks it holds, and ends it with -EDQUOT.  stop.c. */
_Noreturn void wefti_budget_stop(struct wefti_fiber *self);

/* Reports on stderr that a fiber has used up `what`, and what happens then. */
void wefti_report_exhausted(const char *fiber, const char *what, const char *then);

/* A fund that counts as its runtime's part: made and ended with it. */
struct weft_fund *wefti_fund_new(struct weft_runtime *rt, struct weft_fund *parent, const weft_budget *budget);
void wefti_fund_delete(struct weft_fund *fund);

#endif
