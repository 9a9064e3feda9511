/* weft/supervisor.h - supervised children: started again when they end.
 *
 *     static const weft_supervised_fiber children[] = {
 *         {"database", keep_connection, NULL, WEFT_RESTART_PERMANENT, 0},
 *         {"server", serve, NULL, WEFT_RESTART_PERMANENT, 0},
 *     };
 *     weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
 *     config.strategy = WEFT_STRATEGY_REST_FOR_ONE;               // the server needs the connection
 *     int status = weft_supervise(&config, children, 2);          // as long as they live
 *
 * A supervisor is a nursery whose owner does nothing but watch.  It starts its children in order; when one ends, it starts it again, after a pause that
 * doubles while it keeps failing.  Should that happen too often in a short time (`intensity`), it gives up: it stops all children, in reverse order,
 * and returns, so that whoever started it can decide (often another supervisor).
 *
 * Starting.  A child has begun (its function has been entered, or a class's init has returned) before it counts as started, and before the next is
 * started.  What it does first may take longer: who needs another to have done something waits for that, asks it (weft_ask), or has an event that it sets.
 * A child that ends before its function was entered (no memory for its stack, killed) was not started.
 *
 * A restart that fails (no memory, an init that refuses) counts as one more end with that error.  Under WEFT_STRATEGY_REST_FOR_ONE and _ONE_FOR_ALL
 * the children behind it are not started before it is.  Under WEFT_STRATEGY_ONE_FOR_ONE each child is started again by itself.
 *
 * Stopping.  Children that are stopped together are stopped in reverse order: the last is asked to end first, and the one before it is asked when
 * that has ended.  A child has a time to end in (`grace`, or `shutdown` of weft_process_spec); one that does not keep it is ended by force.  From then on the
 * order is given up: all the others are asked at once, and their times run side by side.  So children that do not end by themselves cost twice the
 * longest time at most, however many they are.
 *
 * The list of children is fixed.  For others, as many as there are requests, use a nursery, or processes that are monitored.
 */
#ifndef WEFT_SUPERVISOR_H
#define WEFT_SUPERVISOR_H

#include <weft/base.h>
#include <weft/fiber.h>
#include <weft/process.h>

WEFT_EXTERN_C_BEGIN

/* When a child is started again. */
typedef enum weft_restart {
    WEFT_RESTART_PERMANENT = 0, /* whenever it ends */
    WEFT_RESTART_TRANSIENT = 1, /* when it fails: a negative status other than -ECANCELED */
    WEFT_RESTART_TEMPORARY = 2, /* never */
} weft_restart;

/* Which other children are restarted when a child is restarted.  They are stopped first, newest first.  A transient child that has returned 0 by then is
 * restarted, too; a temporary child is stopped with the others and not restarted. */
typedef enum weft_strategy {
    WEFT_STRATEGY_ONE_FOR_ONE = 0, /* nobody */
    WEFT_STRATEGY_ONE_FOR_ALL = 1, /* all */
    WEFT_STRATEGY_REST_FOR_ONE = 2, /* those that come after it in the list */
} weft_strategy;

typedef struct weft_supervised_fiber {
    const char *name; /* static, or valid as long as the runtime; NULL = "child" */
    weft_fiber_fn fn; /* required */
    void *arg;
    weft_restart restart;
    size_t stack_size; /* as weft_fiber_spec */
} weft_supervised_fiber;

/* What a supervisor tells. */
typedef enum weft_supervised {
    WEFT_SUPERVISED_STARTED = 0, /* the function of the child was entered, for the first time or after a restart */
    WEFT_SUPERVISED_ENDED = 1,
    WEFT_SUPERVISED_GAVE_UP = 2, /* this child has ended too often */
    WEFT_SUPERVISED_EXHAUSTED = 3, /* this child cannot pay for what it wants, and waits */
    WEFT_SUPERVISED_RECHARGED = 4, /* ... and was given more */
    WEFT_SUPERVISED_REFUSED = 5, /* ... and is not given more; status: 0 (config), or why it could not be */
} weft_supervised;

/* What weft_supervise does with an exhausted child, see <weft/budget.h>. */
typedef enum weft_exhausted_policy {
    /* Reports the child only: others recharge or refuse it (weft_fund_recharge, weft_fund_refuse). */
    WEFT_EXHAUSTED_REPORT = 0,
    /* Recharges the child out of the fund it comes from; refuses it if the fund has too little. */
    WEFT_EXHAUSTED_RECHARGE = 1,
    /* Refuses the child: it ends, and counts as failed with -EDQUOT. */
    WEFT_EXHAUSTED_REFUSE = 2,
} weft_exhausted_policy;

/* weft_supervisor_config.intensity: a child that would have to be started again makes the supervisor give up. */
#define WEFT_INTENSITY_NONE UINT32_MAX

/* 0 means the default.  Times in ns. */
typedef struct weft_supervisor_config {
    size_t size; /* sizeof(weft_supervisor_config): set by WEFT_SUPERVISOR_CONFIG_INIT */
    weft_strategy strategy;
    /* How many restarts are allowed in `period`; with one more the supervisor gives up.  0: any number; WEFT_INTENSITY_NONE: none. */
    uint32_t intensity;
    int64_t period; /* 0 = 5 s */
    int64_t backoff_min; /* the first pause before a restart; 0 = 1 s, or backoff_max if less; below 0: none */
    int64_t backoff_max; /* the longest, no less than the first; 0 = 90 s, or the first if that is longer */
    double backoff_factor; /* each further failure makes it so much longer, 1 or more; 0 = 2 */
    double backoff_jitter; /* ... and random by so much either way; 0 = 0.1; below 0: none */
    int64_t stable; /* a child that has run for so long begins anew with the first pause; 0 = 5 s */
    int64_t grace; /* how long a child may take to end when it is stopped; 0 = 10 s; below 0: without limit */
    /* Called for every start and end, and for exhausted children, on the supervisor's stack.  `status`
     * has a meaning for WEFT_SUPERVISED_ENDED and _REFUSED.  NULL: children that wait exhausted, and
     * refused ones, are reported on stderr.  It may wait, but must not receive messages: those are the
     * supervisor's. */
    void (*report)(void *arg, size_t child, weft_supervised what, int status);
    void *report_arg;

    /* For weft_supervise only; a supervised process has its own in its spec. */
    weft_fund *fund; /* as weft_fiber_spec, for each child; it also pays the spawns */
    const weft_budget *budget; /* as weft_fiber_spec, for each child, each time it is started */
    const weft_cap *cap; /* to spawn children with: needed under `sovereign` */
    weft_exhausted_policy on_exhausted;
    weft_budget recharge; /* how much a recharge gives; all 0 = WEFT_BUDGET_CHILD */
    int64_t recharge_period; /* the least time between two recharges of a child; 0 = none */
    const weft_cap *recharge_cap; /* to recharge with: needed under `sovereign` */
} weft_supervisor_config;

#define WEFT_SUPERVISOR_CONFIG_INIT                                                                                    \
    {sizeof(weft_supervisor_config), WEFT_STRATEGY_ONE_FOR_ONE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                 \
     WEFT_EXHAUSTED_REPORT,          {0, 0, 0, 0, 0},           0, 0}

/* Supervises these children; returns when none is left that runs or will run again.  `children` stays the caller's, and as it is, until then.
 * config may be NULL.  What a child starts in weft_nursery_parent() is not supervised, and how it ends does not matter: it is awaited at the end, or
 * cancelled if there was an error.
 *
 * Children with a budget may be exhausted; `on_exhausted` says what is done with them.  Whatever it says, each exhaustion is reported.
 *
 * Returns 0 (all have ended, as they may), or
 *   the status  of the child with which it gave up
 *   -ELOOP      it gave up with a child that had not failed
 *   -ECANCELED  the caller was cancelled; so were the children, all at once, as those of any nursery
 *   -EINVAL     no children, one without a function, not in a fiber, or an invalid config
 *   -E2BIG      a config of a newer version, with a field set that this one does not know
 *   -ENOMEM     no memory, for the supervisor or for the first start of a child; in that case none runs, as with those below
 *   -EPERM      the first start of a child needs a capability, or another one
 *   -EDQUOT     the fund or the capability allows no more for the first start of a child
 *   -ESHUTDOWN  the runtime is stopping
 * Call from a fiber.  May suspend. */
WEFT_API int weft_supervise(const weft_supervisor_config *config, const weft_supervised_fiber *children, size_t count);

/* -- Processes ---------------------------------------------------------------------------------------- */

/* A process (see <weft/process.h>) that a supervisor keeps alive.
 *
 *     static const char *const on_database[] = {"database", NULL};
 *     weft_process_child children[] = {WEFT_PROCESS_CHILD("server", serve, NULL), WEFT_PROCESS_CHILD("database", keep, NULL)};
 *     children[0].needs = on_database;
 *     return weft_process_supervise(NULL, children, 2);            // in a process
 *
 * They are started in order, those that need others after them; stopped the other way round.
 *
 * To stop a child it is sent a WEFT_MESSAGE_CANCEL.  If it is a fiber, all its waits but weft_receive fail with -ECANCELED until it has read the
 * message: a sleep, a read, an ask, a select, a receive whose filter refuses the message.  So a process ends at once wherever it waits, and one that has
 * something to do first reads the message, and then has the time that is left.  A shield puts the failing of waits off, and a process that traps
 * exits (trap_exit) gets the message only.  When its time is over the child is ended by force: shields do not protect it then, and if it is a
 * supervisor, its children are ended as well.
 *
 * A child that is a supervisor therefore needs more time than its own children have together: spec.shutdown = WEFT_SHUTDOWN_INFINITE. */
typedef struct weft_process_child {
    const char *name; /* in `needs` of others, and for dumps if the spec has none; NULL: nobody needs it */
    weft_process_spec spec; /* how it is started, each time; `release` is -EINVAL, since `arg` is for every start */
    weft_restart restart;
    const char *const *needs; /* names, ended by NULL; NULL: none */
} weft_process_child;

/* As an initialiser: a permanent child that is a fiber. */
#define WEFT_PROCESS_CHILD(name, fn, arg)                                                                              \
    {name,                                                                                                             \
     {sizeof(weft_process_spec),                                                                                       \
      fn,                                                                                                              \
      arg,                                                                                                             \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      WEFT_MAILBOX_REFUSE,                                                                                             \
      false,                                                                                                           \
      false,                                                                                                           \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0,                                                                                                               \
      0},                                                                                                              \
     WEFT_RESTART_PERMANENT,                                                                                           \
     0}

/* The calling process becomes a supervisor of processes, until none is left that runs or will run again, or it is asked to end
 * (WEFT_MESSAGE_CANCEL), or ended: then its children are stopped first.  Other messages stay in its mailbox.  A child of
 * this supervisor may be a supervisor: so there are trees.  WEFT_STRATEGY_REST_FOR_ONE: those that were started after it.
 * Call from: a process that is a fiber.  May suspend.
 * Returns as weft_supervise; -ECANCELED also when it was asked to end; -EINVAL also for a name in `needs` that no child has; -ELOOP
 * also when children need each other. */
WEFT_API int weft_process_supervise(const weft_supervisor_config *config, const weft_process_child *children,
                                    size_t count);

WEFT_EXTERN_C_END
#endif
