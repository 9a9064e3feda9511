/* profile.c - profiles: which limits a runtime starts with, and who may spawn. */
#include "budget/profile.h"

#include "budget/cap.h"
#include "budget/fund.h"

#define YIELD_OPS_CLUSTER 512u

static const weft_budget service = WEFT_BUDGET_SERVICE, cluster = WEFT_BUDGET_CLUSTER;

int wefti_profile_init(struct weft_runtime *rt, const weft_config *config) {
    rt->profile = config->profile;
    rt->yield_ops = rt->profile >= WEFT_PROFILE_CLUSTER ? YIELD_OPS_CLUSTER : WEFTI_YIELD_OPS;
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

int wefti_admit_poll(struct weft_runtime *rt) {
    bool first = is_first(rt);
    if (rt->profile == WEFT_PROFILE_CORE || (rt->profile == WEFT_PROFILE_SOVEREIGN && !first)) {
        wefti_denied(rt);
        return -EPERM;
    }
    return wefti_charge(charged_self(rt), &wefti_cost_spawn);
}

void wefti_admit_refund(struct weft_runtime *rt) {
    struct wefti_fiber *self = charged_self(rt);
    if (self)
        wefti_pay_back(self, &wefti_cost_spawn);
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

/* Out of the fund: the account with its budget, and the spawn if nobody else pays it. */
static int draw(struct weft_runtime *rt, struct weft_fund *fund, const weft_budget *granted, bool spawn,
                struct wefti_account **out) {
    wefti_lock_take(&fund->lock);
    struct wefti_account *account = fund->unused;
    if (account)
        fund->unused = account->next;
    wefti_lock_give(&fund->lock);
    if (!account && !(account = wefti_alloc(sizeof *account)))
        return -ENOMEM;
    weft_budget one = spawn ? one_spawn : (weft_budget){0};
    wefti_lock_take(&fund->lock);
    if (rt->profile == WEFT_PROFILE_SERVICE) { /* there is always enough */
        if (fund->left.spawns < one.spawns)
            wefti_fund_make(fund, &one);
        if (!wefti_amount_take(&fund->left, granted)) {
            wefti_fund_make(fund, granted);
            wefti_amount_take(&fund->left, granted);
        }
        wefti_amount_take(&fund->left, &one);
    } else if (!wefti_amount_take(&fund->left, granted)) {
        goto refused;
    } else if (!wefti_amount_take(&fund->left, &one)) {
        wefti_amount_give(&fund->left, granted);
        goto refused;
    }
    fund->users++;
    *account = (struct wefti_account){.fund = fund, .left = *granted, .number = ++fund->accounts};
    wefti_lock_give(&fund->lock);
    *out = account;
    return 0;
refused:
    account->next = fund->unused;
    fund->unused = account;
    wefti_lock_give(&fund->lock);
    return -EDQUOT;
}

int wefti_account_open(struct weft_runtime *rt, const weft_fiber_spec *spec, struct wefti_account **out) {
    *out = NULL;
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

/* The account is closed, and empty: into the fund's list. */
static void put_back(struct weft_runtime *rt, struct wefti_account *account, const struct wefti_amount *rest) {
    struct weft_fund *fund = account->fund;
    uint32_t used = account->cap;
    wefti_lock_take(&fund->lock);
    fund->left.ops += rest->ops;
    fund->left.memory += rest->memory; /* it came from here, or was made for somebody of here: it fits */
    fund->left.spawns += rest->spawns;
    fund->left.channel_ops += rest->channel_ops;
    fund->left.syscalls += rest->syscalls;
    account->next = fund->unused;
    fund->unused = account;
    wefti_assert(fund->users > 0, fund->users);
    fund->users--;
    wefti_lock_give(&fund->lock); /* the fund may be gone */
    wefti_cap_end(rt, used);
}

static struct wefti_amount widened(const weft_budget *budget) {
    return (struct wefti_amount){budget->ops, budget->memory, budget->spawns, budget->channel_ops, budget->syscalls};
}

void wefti_account_return(struct weft_runtime *rt, const weft_fiber_spec *spec, struct wefti_account *account) {
    struct wefti_fiber *self = charged_self(rt);
    if (self)
        wefti_pay_back(self, own_cost(spec));
    if (!account)
        return;
    struct wefti_amount rest = widened(&account->left);
    rest.spawns += spec->fund || !self;
    put_back(rt, account, &rest);
}

/* What it has left, its slice included; what it owes is paid as far as it can be. */
static struct wefti_amount rest_of(const struct wefti_fiber *fiber) {
    const struct wefti_account *account = fiber->account;
    struct wefti_amount rest = widened(&account->left);
    if (!account->unpaid) {
        int64_t ops = (int64_t)rest.ops + fiber->ops_left;
        rest.ops = ops > 0 ? (uint64_t)ops : 0;
    }
    return rest;
}

void wefti_account_close(struct wefti_fiber *fiber) {
    struct wefti_amount rest = rest_of(fiber);
    struct wefti_account *account = fiber->account;
    fiber->account = NULL;
    put_back(wefti_task_rt(&fiber->task), account, &rest);
}

void wefti_account_undo(struct wefti_fiber *fiber) {
    /* Only a spawn from outside is refused so late, and that is paid by the fund. */
    struct wefti_amount rest = rest_of(fiber);
    struct wefti_account *account = fiber->account;
    fiber->account = NULL;
    rest.spawns++;
    put_back(wefti_task_rt(&fiber->task), account, &rest);
}
