/* cap.c - capabilities: grants, their keys, delegation and revocation (cap.h has the rules). */
#include "budget/cap.h"

#include <string.h>

#include "budget/budget.h"
#include "budget/profile.h"
#include "sched/spawn.h"

struct grant {
    weft_grant is;
    uint64_t secret;
    uint32_t generation;
    uint32_t parent; /* 1 + index, as all that follow; 0: one of the first */
    uint32_t child;  /* the newest that was made from it, and is not free; 0: none */
    uint32_t newer, older; /* made from the same one */
    uint32_t uses; /* of it, and of those made from it */
    uint32_t next; /* free one; of those that are being revoked */
    bool used, revoked;
};

struct wefti_caps {
    struct wefti_lock lock;
    struct grant *grant;
    uint32_t room, length;
    uint32_t free; /* 1 + index */
};

/* -- The table, under its lock ----------------------------------------------------------------------------- */

/* A free place, or NULL when there is no memory. */
static struct grant *new_grant(struct wefti_caps *caps) {
    if (caps->free) {
        struct grant *grant = &caps->grant[caps->free - 1];
        caps->free = grant->next;
        return grant;
    }
    if (caps->length == caps->room) {
        uint32_t room = caps->room ? 2 * caps->room : 8;
        struct grant *more = wefti_alloc(room * sizeof *more);
        if (!more)
            return NULL;
        if (caps->grant) {
            memcpy(more, caps->grant, caps->length * sizeof *more);
            wefti_free(caps->grant, caps->room * sizeof *more);
        }
        caps->grant = more;
        caps->room = room;
    }
    return &caps->grant[caps->length++];
}

static uint32_t place_of(const struct wefti_caps *caps, const struct grant *grant) {
    return (uint32_t)(grant - caps->grant) + 1;
}

static weft_cap fill(struct wefti_caps *caps, struct grant *grant, const weft_grant *is, uint32_t parent) {
    grant->is = *is;
    grant->is.size = sizeof *is;
    grant->secret = wefti_random_seed();
    grant->generation++;
    grant->parent = parent;
    grant->child = grant->newer = grant->older = grant->uses = 0;
    grant->used = true;
    grant->revoked = false;
    if (parent) {
        uint32_t *child = &caps->grant[parent - 1].child;
        grant->older = *child;
        *child = place_of(caps, grant);
        if (grant->older)
            caps->grant[grant->older - 1].newer = *child;
    }
    return (weft_cap){(uint64_t)grant->generation << 32 | (place_of(caps, grant) - 1), grant->secret};
}

static struct grant *find(struct wefti_caps *caps, const weft_cap *cap) {
    uint32_t index = (uint32_t)cap->id;
    if (index >= caps->length)
        return NULL;
    struct grant *grant = &caps->grant[index];
    return grant->used && !grant->revoked && grant->generation == cap->id >> 32 && grant->secret == cap->secret ? grant
                                                                                                                : NULL;
}

/* Free it if nobody can use it any more. */
static bool free_one(struct wefti_caps *caps, struct grant *grant) {
    if (!grant->revoked || grant->child || grant->uses)
        return false;
    if (grant->newer)
        caps->grant[grant->newer - 1].older = grant->older;
    else if (grant->parent)
        caps->grant[grant->parent - 1].child = grant->older;
    if (grant->older)
        caps->grant[grant->older - 1].newer = grant->newer;
    grant->used = false;
    grant->next = caps->free;
    caps->free = place_of(caps, grant);
    return true;
}

/* ... and those above it. */
static void free_unused(struct wefti_caps *caps, struct grant *grant) {
    while (grant && free_one(caps, grant))
        grant = grant->parent ? &caps->grant[grant->parent - 1] : NULL;
}

static void count_uses(struct wefti_caps *caps, struct grant *grant, int change) {
    for (; grant; grant = grant->parent ? &caps->grant[grant->parent - 1] : NULL)
        grant->uses += (uint32_t)change;
}

static uint32_t most_uses(const weft_grant *grant) {
    return grant->kind == WEFT_CAP_SPAWN ? grant->max_tasks : grant->max_channels;
}

/* One more of this grant and all above it, unless one of them has as many as it allows. */
static bool use(struct wefti_caps *caps, struct grant *grant) {
    for (struct grant *at = grant; at; at = at->parent ? &caps->grant[at->parent - 1] : NULL)
        if (at->uses >= most_uses(&at->is))
            return false;
    count_uses(caps, grant, +1);
    return true;
}

static bool is_part(const weft_grant *part, const weft_grant *whole) {
    if (part->kind != whole->kind)
        return false;
    switch (part->kind) {
    case WEFT_CAP_SPAWN:
        return part->max_tasks <= whole->max_tasks && weft_budget_covers(&whole->task_budget, &part->task_budget);
    case WEFT_CAP_BUDGET:
        return weft_budget_covers(&whole->limits, &part->limits) && part->recharge <= whole->recharge &&
               part->transfer <= whole->transfer;
    case WEFT_CAP_CHANNEL: return part->max_channels <= whole->max_channels && part->max_buffer <= whole->max_buffer;
    case WEFT_CAP_EXECUTOR: return (part->allowed & ~whole->allowed) == 0;
    }
    return false;
}

/* -- Made and ended with the runtime ------------------------------------------------------------------------ */

int wefti_caps_init(struct weft_runtime *rt, weft_caps *first) {
    struct wefti_caps *caps = rt->caps = wefti_alloc(sizeof *caps);
    if (!caps)
        return -ENOMEM;
    if (!first)
        return 0;
    weft_cap *keys[] = {&first->spawn, &first->budget, &first->channel, &first->executor};
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        weft_grant is = {.kind = (weft_cap_kind)(WEFT_CAP_SPAWN + i),
                         .delegable = true,
                         .max_tasks = UINT32_MAX,
                         .task_budget = WEFT_BUDGET_MAX,
                         .limits = WEFT_BUDGET_MAX,
                         .recharge = true,
                         .transfer = true,
                         .max_channels = UINT32_MAX,
                         .max_buffer = UINT32_MAX,
                         .allowed = UINT32_MAX};
        struct grant *grant = new_grant(caps);
        if (!grant)
            return -ENOMEM;
        *keys[i] = fill(caps, grant, &is, 0);
    }
    first->fund = rt->fund;
    return 0;
}

void wefti_caps_fini(struct weft_runtime *rt) {
    struct wefti_caps *caps = rt->caps;
    if (!caps)
        return;
    if (caps->grant)
        wefti_free(caps->grant, caps->room * sizeof *caps->grant);
    wefti_free(caps, sizeof *caps);
}

/* -- The public calls ---------------------------------------------------------------------------------------- */

static int denied(struct weft_runtime *rt) {
    wefti_denied(rt);
    return -EPERM;
}

int weft_cap_delegate(weft_runtime *rt, const weft_cap *from, const weft_grant *part, weft_cap *cap) {
    weft_grant known;
    rt = rt ? rt : weft_runtime_current();
    if (!rt || !from || !part || !cap)
        return -EINVAL;
    int error = wefti_known_struct(part, offsetof(weft_grant, max_tasks), &known, sizeof known);
    if (error)
        return error;
    struct wefti_caps *caps = rt->caps;
    if (!caps)
        return denied(rt);
    wefti_lock_take(&caps->lock);
    struct grant *whole = find(caps, from);
    uint32_t parent = (uint32_t)from->id + 1;
    if (!whole || !whole->is.delegable || !is_part(&known, &whole->is)) {
        error = -EPERM;
    } else {
        struct grant *grant = new_grant(caps); /* `whole` may have moved */
        if (grant)
            *cap = fill(caps, grant, &known, parent);
        else
            error = -ENOMEM;
    }
    wefti_lock_give(&caps->lock);
    return error == -EPERM ? denied(rt) : error;
}

/* It, and all that were made from it: each is seen once, however many others there are. */
static void revoke(struct wefti_caps *caps, struct grant *top) {
    uint32_t found = place_of(caps, top), seen = 0;
    top->next = 0;
    while (found) {
        struct grant *grant = &caps->grant[found - 1];
        uint32_t next = grant->next;
        grant->revoked = true;
        grant->next = seen;
        seen = found;
        found = next;
        for (uint32_t at = grant->child; at; at = caps->grant[at - 1].older)
            if (!caps->grant[at - 1].revoked) { /* else so is all below it */
                caps->grant[at - 1].next = found;
                found = at;
            }
    }
    while (seen) { /* those below come first */
        struct grant *grant = &caps->grant[seen - 1];
        seen = grant->next;
        free_one(caps, grant);
    }
}

int weft_cap_revoke(weft_runtime *rt, const weft_cap *cap) {
    rt = rt ? rt : weft_runtime_current();
    if (!rt || !cap)
        return -EINVAL;
    struct wefti_caps *caps = rt->caps;
    if (!caps)
        return denied(rt);
    wefti_lock_take(&caps->lock);
    struct grant *grant = find(caps, cap);
    if (grant)
        revoke(caps, grant);
    wefti_lock_give(&caps->lock);
    return grant ? 0 : denied(rt);
}

int weft_cap_read(weft_runtime *rt, const weft_cap *cap, weft_grant *out) {
    rt = rt ? rt : weft_runtime_current();
    if (!rt || !cap || !out)
        return -EINVAL;
    struct wefti_caps *caps = rt->caps;
    if (!caps)
        return denied(rt);
    wefti_lock_take(&caps->lock);
    struct grant *grant = find(caps, cap);
    if (grant)
        *out = grant->is;
    wefti_lock_give(&caps->lock);
    return grant ? 0 : denied(rt);
}

/* -- Uses ------------------------------------------------------------------------------------------------------ */

/* Without a key: only where none is needed. */
static int without(struct weft_runtime *rt) { return rt->profile == WEFT_PROFILE_SOVEREIGN ? denied(rt) : 0; }

/* The grant of that kind, with the lock taken; or NULL, without. */
static struct grant *open_kind(struct weft_runtime *rt, const weft_cap *cap, weft_cap_kind kind) {
    if (!rt->caps)
        return NULL;
    wefti_lock_take(&rt->caps->lock);
    struct grant *grant = find(rt->caps, cap);
    if (grant && grant->is.kind == kind)
        return grant;
    wefti_lock_give(&rt->caps->lock);
    return NULL;
}

int wefti_cap_spawn(struct weft_runtime *rt, const weft_cap *cap, const weft_budget *wanted, weft_budget *granted,
                    uint32_t *used) {
    *used = 0;
    if (!cap) {
        if (wanted)
            *granted = *wanted;
        return without(rt);
    }
    struct grant *grant = open_kind(rt, cap, WEFT_CAP_SPAWN);
    if (!grant)
        return denied(rt);
    int error = wanted && !weft_budget_covers(&grant->is.task_budget, wanted) ? -EPERM
                : !use(rt->caps, grant)                                       ? -EDQUOT
                                                                              : 0;
    if (!error) {
        *granted = wanted ? *wanted : wefti_budget_least(granted, &grant->is.task_budget);
        *used = (uint32_t)cap->id + 1;
    }
    wefti_lock_give(&rt->caps->lock);
    return error == -EPERM ? denied(rt) : error;
}

int wefti_cap_channel(struct weft_runtime *rt, const weft_cap *cap, uint32_t buffer, uint32_t *used) {
    *used = 0;
    if (!cap)
        return without(rt);
    struct grant *grant = open_kind(rt, cap, WEFT_CAP_CHANNEL);
    if (!grant)
        return denied(rt);
    int error = buffer > grant->is.max_buffer ? -EPERM : !use(rt->caps, grant) ? -EDQUOT : 0;
    if (!error)
        *used = (uint32_t)cap->id + 1;
    wefti_lock_give(&rt->caps->lock);
    return error == -EPERM ? denied(rt) : error;
}

void wefti_cap_end(struct weft_runtime *rt, uint32_t used) {
    if (!used)
        return;
    struct wefti_caps *caps = rt->caps;
    wefti_lock_take(&caps->lock);
    struct grant *grant = &caps->grant[used - 1];
    count_uses(caps, grant, -1);
    free_unused(caps, grant);
    wefti_lock_give(&caps->lock);
}

int wefti_cap_budget(struct weft_runtime *rt, const weft_cap *cap, bool recharge, const weft_budget *amount,
                     weft_budget *moved) {
    *moved = *amount;
    if (!cap)
        return without(rt);
    struct grant *grant = open_kind(rt, cap, WEFT_CAP_BUDGET);
    if (!grant)
        return denied(rt);
    bool allowed = recharge ? grant->is.recharge : grant->is.transfer;
    *moved = wefti_budget_least(amount, &grant->is.limits);
    wefti_lock_give(&rt->caps->lock);
    return allowed ? 0 : denied(rt);
}

const weft_cap wefti_cap_library;

int wefti_cap_executor(struct weft_runtime *rt, const weft_cap *cap, uint32_t where) {
    if (!cap)
        return without(rt);
    struct grant *grant = open_kind(rt, cap, WEFT_CAP_EXECUTOR);
    if (!grant)
        return denied(rt);
    bool allowed = (grant->is.allowed & where) == where;
    wefti_lock_give(&rt->caps->lock);
    return allowed ? 0 : denied(rt);
}
