/* weft/cap.h - capabilities and profiles: what code may ask for at all.
 *
 * A profile is chosen for a runtime (weft_config.profile):
 *
 *     none       no limits; budgets where you give them (the default)
 *     core       no scheduling: every spawn, and every nursery, is refused with -EPERM
 *     service    every fiber has a budget, and gets more when it is exhausted: fair, not limited
 *     cluster    fibers that fibers start have a budget out of the runtime's fund; an exhausted one waits for its supervisor
 *     sovereign  as cluster, and without a capability nothing is spawned, recharged or transferred, no channel is made, and no
 *                thread runs a blocking call
 *
 * Processes belong to cluster and sovereign, and to runtimes without a profile; core and service
 * refuse them with -EPERM.
 *
 * Under sovereign the capability for a spawn comes from the spec of the fiber, process or poll task, else,
 * for a fiber, from the nursery (weft_nursery_config.cap), if its owner spawns.  weft_timeout_with and
 * weft_abi_nursery_create_with take one.  weft_supervise starts its children with the capability in its
 * config, weft_process_supervise with the one in each spec, weft_http_serve with the one in its options.
 *
 * Poll tasks and classes have no budget: nothing they do is charged.  The capability for one must not limit
 * the budget of a task (task_budget is WEFT_BUDGET_MAX, as that of the first capability); max_tasks counts them.
 *
 * Metered fibers let others run every 1,024 ops, under cluster and sovereign every 512.
 *
 * A capability is a key to a right with limits.  The first ones go to whoever creates the runtime (weft_config.caps); all others are
 * made from those, narrower or equal, never wider, and only if the one they are made from says `delegable`.  Revoking one
 * revokes all that were made from it.  What is refused for want of a capability returns -EPERM, has no effect, and is counted (weft_stats.denied).
 *
 * What this is for.  A key cannot be guessed, nor made from another key's numbers, and works only while its grant is there: code that
 * uses this interface, and no more, has the rights it was given: plug-ins in a safe language, scripts, generated code, and
 * mistakes.  It is not a wall against C code that writes to memory as it likes: for that, use processes.
 */
#ifndef WEFT_CAP_H
#define WEFT_CAP_H

#include <weft/base.h>
#include <weft/budget.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

typedef enum weft_profile {
    WEFT_PROFILE_NONE = 0,
    WEFT_PROFILE_CORE = 1,
    WEFT_PROFILE_SERVICE = 2,
    WEFT_PROFILE_CLUSTER = 3,
    WEFT_PROFILE_SOVEREIGN = 4,
} weft_profile;

typedef enum weft_cap_kind {
    WEFT_CAP_SPAWN = 1,    /* fibers */
    WEFT_CAP_BUDGET = 2,   /* recharging, transfers */
    WEFT_CAP_CHANNEL = 3,  /* channels */
    WEFT_CAP_EXECUTOR = 4, /* where work may run */
} weft_cap_kind;

/* A key: all zero is none.  Copying it passes the right on; keep it where only those can read it who are to have it. */
struct weft_cap {
    uint64_t id, secret;
};

/* A right and its limits.  Only the fields of its kind count. */
typedef struct weft_grant {
    size_t size; /* sizeof(weft_grant): set by WEFT_GRANT_INIT */
    weft_cap_kind kind;
    bool delegable; /* others may be made from it */

    uint32_t max_tasks; /* spawn: live fibers that were started with it, or with any made from it */
    weft_budget
        task_budget; /* spawn: what each may get at most; also those that get WEFT_BUDGET_CHILD because their spec names none */

    weft_budget limits; /* budget: what one recharge or transfer may move at most */
    bool recharge, transfer; /* budget: which of the two it allows */

    uint32_t max_channels; /* channel: open ones that were made with it, or with any made from it */
    uint32_t max_buffer; /* channel: elements in each */

    uint32_t allowed; /* executor: a set of WEFT_EXECUTOR_ bits */
} weft_grant;

#define WEFT_GRANT_INIT                                                                                                \
    {sizeof(weft_grant), WEFT_CAST(weft_cap_kind, 0), false, 0, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, false, false, 0, 0, 0}

/* Weft itself asks for BLOCKING (weft_blocking_spec.cap).  Workers are guarded by WEFT_CAP_SPAWN, and a lane of shards belongs to no
 * runtime: whoever accepts work for those on behalf of others looks with weft_cap_read. */
#define WEFT_EXECUTOR_WORKERS 1u /* the runtime's workers */
#define WEFT_EXECUTOR_BLOCKING 2u /* threads for calls that block */
#define WEFT_EXECUTOR_SHARDS 4u /* shards' threads */

/* What the creator of a runtime gets: without limits, delegable; and the runtime's fund, NULL if it has none. */
typedef struct weft_caps {
    weft_cap spawn, budget, channel, executor;
    weft_fund *fund;
} weft_caps;

/* Make a key to a part of the right that `from` is the key to.  Call from anywhere.
 * Returns 0; -EPERM (`from` is no key, was revoked, or is not delegable; `part` is of another kind, or wider in something);
 * -EINVAL; -E2BIG; -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_cap_delegate(weft_runtime *rt, const weft_cap *from, const weft_grant *part,
                                             weft_cap *cap);

/* The right is gone, and so are all that were made from it.  What was started with them goes on.
 * Returns 0; -EPERM (no key, or revoked before). */
WEFT_API int weft_cap_revoke(weft_runtime *rt, const weft_cap *cap);

/* What a key opens.  Returns 0; -EPERM (nothing). */
WEFT_API int weft_cap_read(weft_runtime *rt, const weft_cap *cap, weft_grant *grant);

WEFT_EXTERN_C_END
#endif
