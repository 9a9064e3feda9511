/* profile.c - profiles: which limits a runtime starts with, and who may spawn. */
#include "budget/profile.h"

#include "budget/cap.h"
#include "budget/fund.h"

#define YIELD_OPS_CLUSTER 512u
#define GRACE_OPS 100000 /* about 100 slices, in which a fiber that was told can still clean up */

static const weft_budget service = WEFT_BUDGET_SERVICE, cluster = WEFT_BUDGET_CLUSTER;

int wefti_profile_init(struct weft_runtime *rt, const weft_config *config) {
    rt->profile = config->profile;
    rt->yield_ops = rt->profile >= WEFT_PROFILE_CLUSTER ? YIELD_OPS_CLUSTER : WEFTI_YIELD_OPS;
    rt->grace_ops = config->grace_ops > 0 ? config->grace_ops : config->grace_ops < 0 ? 0 : GRACE_OPS;
    store_relaxed(&rt->limited, rt->profile != WEFT_PROFILE_NONE); /* nobody looks yet */
    if (rt->profile >= WEFT_PROFILE_SERVICE) {
        rt->fund = wefti_fund_new(rt, NULL, rt->profile == WEFT_PROFILE_SERVICE ? &service : &cluster);
        if (!rt->fund)
            return -ENOMEM;
    }
    return rt->profile != WEFT_PROFILE_NONE || config->caps ? wefti_caps_init(rt, config->caps) : 0;
}

void wefti_profile_fini(struct weft_runtime *rt) {
    wefti_caps_fini(rt);
    if (rt->fund)
        wefti_fund_delete(rt->fund);
}

weft_fund *weft_runtime_fund(weft_runtime *rt) {
    rt = rt ? rt : weft_runtime_current();
    if (!rt || (rt->profile == WEFT_PROFILE_SOVEREIGN && wefti_worker_of(rt)))
        return NULL;
    return rt->fund;
}

int wefti_admit_nursery(struct weft_runtime *rt) {
    return rt->profile == WEFT_PROFILE_CORE && wefti_denied(rt) ? -EPERM : 0;
}

int wefti_admit_process(struct weft_runtime *rt) {
    bool forbidden = rt->profile == WEFT_PROFILE_CORE || rt->profile == WEFT_PROFILE_SERVICE;
    return forbidden && wefti_denied(rt) ? -EPERM : 0;
}

/* The fiber that spawns, if that is charged to it: it runs in the same runtime and has an account. */
static struct wefti_fiber *charged_self(struct weft_runtime *rt) {
    struct wefti_fiber *self = wefti_fiber_self();
    return self && self->account && self->account->fund->rt == rt ? self : NULL;
}

/* Is this the first task of weft_run?  Only once: whoever asks afterwards was started by that task, or knows of it. */
static bool is_first(struct weft_runtime *rt) {
    if (!rt->trusted)
        return false;
    rt->trusted = false;
    return true;
}

int wefti_admit_poll(struct weft_runtime *rt, const weft_cap *cap, uint32_t *use) {
    static const weft_budget unlimited = WEFT_BUDGET_MAX; /* nothing that the task does is charged */
    bool first = is_first(rt);
    weft_budget granted;
    *use = 0;
    if (rt->profile == WEFT_PROFILE_CORE || (rt->profile == WEFT_PROFILE_SOVEREIGN && !first && !cap)) {
        wefti_denied(rt);
        return -EPERM;
    }
    int error = cap ? wefti_cap_spawn(rt, cap, &unlimited, &granted, use) : 0;
    if (!error && (error = wefti_charge(charged_self(rt), &wefti_cost_spawn)))
        wefti_cap_end(rt, *use);
    return error;
}

void wefti_admit_refund(struct weft_runtime *rt, uint32_t use) {
    struct wefti_fiber *self = charged_self(rt);
    if (self)
        wefti_pay_back(self, &wefti_cost_spawn);
    wefti_cap_end(rt, use);
}

/* -- Accounts -------------------------------------------------------------------------------------------------- */

static const weft_budget child = WEFT_BUDGET_CHILD, one_op = {1, 0, 0, 0, 0}, one_spawn = {0, 0, 1, 0, 0};

/* What the budget is to come out of; NULL: out of nothing, there is none. */
static struct weft_fund *find_fund(struct weft_runtime *rt, const weft_fiber_spec *spec) {
    struct wefti_fiber *self = charged_self(rt);
    if (spec->fund || self)
        return spec->fund ? spec->fund : self->account->fund;
    /* The program's own threads, and what they start, may do as they like; what that starts may not. */
    bool free = rt->profile != WEFT_PROFILE_SERVICE && !wefti_worker_of(rt) && !spec->budget && !spec->cap;
    return free ? NULL : rt->fund;
}

/* What the spawner pays himself: the op, and the spawn unless the spec names a fund, which then pays it. */
static const weft_budget *own_cost(const weft_fiber_spec *spec) { return spec->fund ? &one_op : &wefti_cost_spawn; }

/* An account of the fund, counted as a user.  With the lock; NULL, without: there is no memory. */
static struct wefti_account *take_account(struct weft_fund *fund) {
    wefti_lock_take(&fund->lock);
    struct wefti_account *account = fund->unused;
    if (account) {
        fund->unused = account->next;
    } else {
        wefti_lock_give(&fund->lock);
        if (!(account = wefti_alloc(sizeof *account)))
            return NULL;
        account->fund = fund;
        wefti_lock_take(&fund->lock);
        account->older = fund->accounts;
        fund->accounts = account;
    }
    fund->users++;
    return account;
}

/* Takes out of the fund: the account with its budget, and the spawn if nobody else pays it. */
static int draw(struct weft_runtime *rt, struct weft_fund *fund, const weft_budget *granted, bool spawn,
                struct wefti_account **out) {
    struct wefti_account *account = take_account(fund);
    if (!account)
        return -ENOMEM;
    weft_budget one = spawn ? one_spawn : (weft_budget){0};
    if (rt->profile == WEFT_PROFILE_SERVICE) { /* there is always enough */
        wefti_fund_take_or_make(fund, granted);
        wefti_fund_take_or_make(fund, &one);
    } else if (!weft_budget_take(&fund->left, granted)) {
        goto refused;
    } else if (!weft_budget_take(&fund->left, &one)) {
        weft_budget_add(&fund->left, granted);
        goto refused;
    }
    account->left = *granted;
    account->closed = account->unpaid = account->killed = false;
    account->held = (struct wefti_held){0};
    wefti_lock_give(&fund->lock);
    *out = account;
    return 0;
refused:
    wefti_account_reuse(account);
    wefti_lock_give(&fund->lock);
    return -EDQUOT;
}

int wefti_account_open(struct weft_runtime *rt, const weft_fiber_spec *spec, struct wefti_account **out) {
    *out = NULL;
    if (spec->cap == &wefti_cap_library)
        return 0;
    if (rt->profile == WEFT_PROFILE_CORE) {
        wefti_denied(rt);
        return -EPERM;
    }
    struct weft_fund *fund = find_fund(rt, spec);
    if (fund ? fund->rt != rt : spec->budget || spec->cap) /* they need an account */
        return -EINVAL;
    uint32_t used = 0;
    weft_budget granted = child;
    int error = is_first(rt) ? 0 : wefti_cap_spawn(rt, spec->cap, spec->budget, &granted, &used);
    if (error)
        return error;
    struct wefti_fiber *self = charged_self(rt);
    if ((error = wefti_charge(self, own_cost(spec))))
        goto unpaid;
    if (fund) {
        /* From now on there is somebody to ask about; whoever is that has been spawned after this. */
        store_relaxed(&rt->limited, true);
        store_relaxed(&wefti_accounts_exist, true);
        error = draw(rt, fund, &granted, spec->fund || !self, out);
    }
    if (!error) {
        if (*out)
            (*out)->cap = used;
        return 0;
    }
    if (self)
        wefti_pay_back(self, own_cost(spec));
unpaid:
    wefti_cap_end(rt, used);
    return error;
}

/* Closes the account: `rest` goes back to the fund, and if the fiber was killed, what its memory was charged.  Pieces that outlive their
 * fiber otherwise stay charged, and keep the account, until they are freed. */
static void put_back(struct weft_runtime *rt, struct wefti_account *account, const weft_budget *rest) {
    struct weft_fund *fund = account->fund;
    uint32_t used = account->cap;
    wefti_lock_take(&fund->lock);
    weft_budget_add(&fund->left, rest);
    if (WEFTI_UNLIKELY(account->killed && account->pieces))
        weft_budget_add(&fund->left, &(weft_budget){.memory = wefti_pieces_disown(account)});
    if (account->pieces)
        account->closed = true;
    else
        wefti_account_reuse(account);
    wefti_lock_give(&fund->lock); /* the fund may be gone */
    wefti_cap_end(rt, used);
}

void wefti_account_return(struct weft_runtime *rt, const weft_fiber_spec *spec, struct wefti_account *account) {
    struct wefti_fiber *self = charged_self(rt);
    if (self)
        wefti_pay_back(self, own_cost(spec));
    if (!account)
        return;
    weft_budget rest = account->left;
    if (spec->fund || !self)
        weft_budget_add(&rest, &one_spawn);
    put_back(rt, account, &rest);
}

void wefti_account_close(struct wefti_fiber *fiber) {
    weft_budget rest = wefti_account_left(fiber);
    struct wefti_account *account = fiber->account;
    fiber->account = NULL;
    put_back(wefti_task_rt(&fiber->task), account, &rest);
}

void wefti_account_undo(struct wefti_fiber *fiber) {
    /* Only a spawn from outside is refused so late, and that is paid by the fund. */
    weft_budget rest = wefti_account_left(fiber);
    struct wefti_account *account = fiber->account;
    fiber->account = NULL;
    weft_budget_add(&rest, &one_spawn);
    put_back(wefti_task_rt(&fiber->task), account, &rest);
}
