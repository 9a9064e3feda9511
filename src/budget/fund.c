/* fund.c - funds (fund.h has the rules). */
#include "budget/fund.h"

#include "budget/cap.h"
#include "budget/profile.h"

bool wefti_fund_take(struct weft_fund *fund, const weft_budget *amount, uint32_t more_users) {
    wefti_lock_take(&fund->lock);
    bool enough = weft_budget_take(&fund->left, amount);
    if (enough)
        fund->users += more_users;
    wefti_lock_give(&fund->lock);
    return enough;
}

void wefti_fund_give(struct weft_fund *fund, const weft_budget *amount, uint32_t fewer_users) {
    wefti_lock_take(&fund->lock);
    weft_budget_add(&fund->left, amount);
    wefti_assert(fund->users >= fewer_users, fund->users);
    fund->users -= fewer_users;
    wefti_lock_give(&fund->lock);
}

void wefti_fund_ref(struct weft_fund *fund) {
    wefti_lock_take(&fund->lock);
    fund->users++;
    wefti_lock_give(&fund->lock);
}

void wefti_fund_unref(struct weft_fund *fund) { wefti_fund_give(fund, &(weft_budget){0}, 1); }

void wefti_fund_make(struct weft_fund *fund, const weft_budget *amount) {
    weft_budget fits = wefti_budget_fitting(&fund->made, amount);
    weft_budget_add(&fund->made, &fits);
    weft_budget_add(&fund->left, &fits);
}

void wefti_fund_take_or_make(struct weft_fund *fund, const weft_budget *amount) {
    if (!weft_budget_take(&fund->left, amount))
        weft_budget_add(&fund->made, amount);
}

struct weft_fund *wefti_fund_new(struct weft_runtime *rt, struct weft_fund *parent, const weft_budget *budget) {
    struct weft_fund *fund = wefti_alloc(sizeof *fund);
    if (!fund)
        return NULL;
    fund->rt = rt;
    fund->parent = parent;
    if (parent)
        fund->left = *budget;
    else
        wefti_fund_make(fund, budget);
    return fund;
}

/* Of a runtime's own fund there may be memory left, which others free afterwards, or are freeing now. */
static void disown_all(struct wefti_account *account) {
    wefti_lock_take(&account->fund->lock);
    while (wefti_pieces_disown(account), account->pieces) {
        wefti_lock_give(&account->fund->lock);
        wefti_thread_yield();
        wefti_lock_take(&account->fund->lock);
    }
    wefti_lock_give(&account->fund->lock);
}

void wefti_fund_delete(struct weft_fund *fund) {
    for (struct wefti_account *account; (account = fund->accounts);) {
        disown_all(account);
        fund->accounts = account->older;
        wefti_free(account, sizeof *account);
    }
    wefti_free(fund, sizeof *fund);
}

void wefti_account_reuse(struct wefti_account *account) {
    struct weft_fund *fund = account->fund;
    account->next = fund->unused;
    fund->unused = account;
    wefti_assert(fund->users > 0, fund->users);
    fund->users--;
}

/* Under `sovereign`, what is made out of nothing is made by the program's own threads, not by tasks. */
static bool may_make(struct weft_runtime *rt) {
    return rt->profile != WEFT_PROFILE_SOVEREIGN || !wefti_worker_of(rt) || !wefti_denied(rt);
}

int weft_fund_create(weft_runtime *rt, weft_fund *parent, const weft_budget *budget, weft_fund **out) {
    rt = rt ? rt : weft_runtime_current();
    if (!rt || !budget || !out || (parent && parent->rt != rt))
        return -EINVAL;
    if (!parent && !may_make(rt))
        return -EPERM;
    struct weft_fund *fund = wefti_fund_new(rt, parent, budget);
    if (!fund)
        return -ENOMEM;
    if (parent && !wefti_fund_take(parent, budget, 1)) {
        wefti_fund_delete(fund);
        return -EDQUOT;
    }
    *out = fund;
    return 0;
}

int weft_fund_destroy(weft_fund *fund) {
    if (!fund)
        return 0;
    wefti_lock_take(&fund->lock);
    bool busy = fund->users || fund->supervisors.first;
    wefti_lock_give(&fund->lock);
    if (busy || fund == fund->rt->fund)
        return -EBUSY;
    if (fund->parent)
        wefti_fund_give(fund->parent, &fund->left, 1);
    wefti_fund_delete(fund);
    return 0;
}

int weft_fund_add(weft_fund *fund, const weft_budget *more) {
    if (!fund || fund->parent || !more)
        return -EINVAL;
    if (!may_make(fund->rt))
        return -EPERM;
    wefti_lock_take(&fund->lock);
    wefti_fund_make(fund, more);
    wefti_lock_give(&fund->lock);
    return 0;
}

static const struct weft_fund *root(const struct weft_fund *fund) {
    while (fund->parent)
        fund = fund->parent;
    return fund;
}

int weft_fund_transfer(weft_fund *from, weft_fund *to, const weft_budget *amount, const weft_cap *cap) {
    weft_budget moved;
    if (!from || !to || !amount || root(from) != root(to))
        return -EINVAL;
    int error = wefti_cap_budget(from->rt, cap, false, amount, &moved);
    if (error)
        return error;
    if (!wefti_fund_take(from, &moved, 0))
        return -EDQUOT;
    wefti_fund_give(to, &moved, 0);
    return 0;
}

void weft_fund_left(weft_fund *fund, weft_budget *left) {
    if (!fund || !left)
        return;
    wefti_lock_take(&fund->lock);
    *left = fund->left;
    wefti_lock_give(&fund->lock);
}
