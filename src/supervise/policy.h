/* policy.h - who is started again, when, and when to give up: what supervisors of fibers and of processes have in common.  Internal.
 *
 * What.   A supervisor is one fiber that makes all decisions, one after the other.  What a child is, how it is started and asked to end, and how one
 *         waits for its end, its kind says.
 * Order.  Children are started first to last, and stopped last to first, each awaited before the next.
 */
#ifndef WEFTI_SUPERVISE_POLICY_H
#define WEFTI_SUPERVISE_POLICY_H

#include <weft/supervisor.h>

#include "fiber/switch.h"

struct wefti_sup;

struct wefti_sup_kind {
    /* 0, or why not. */
    int (*start)(struct wefti_sup *sup, size_t child);
    /* Until the child that was started has begun, or has ended; or the supervisor is to end. */
    void (*see_begin)(struct wefti_sup *sup, size_t child);
    /* Has it ended?  Then what is left of it is given back, and *status is how. */
    bool (*reap)(struct wefti_sup *sup, size_t child, int *status);
    /* Until a child has ended, or `until`: 0; -ETIMEDOUT; -ECANCELED (the supervisor is to end). */
    int (*wait)(struct wefti_sup *sup, int64_t until);
    /* End it, and wait until it has, also when the supervisor is to end.  It has been started, and not been reaped. */
    void (*stop)(struct wefti_sup *sup, size_t child);
    /* The supervisor is not to end. */
    bool (*goes_on)(struct wefti_sup *sup);

    /* Returns what the child lacks, once for each time that it is exhausted, or NULL.  A kind without budgets has NULL here. */
    const char *(*exhausted)(struct wefti_sup *sup, size_t child);
    /* Gives the exhausted child config.recharge: 0; -ENOENT (it is not exhausted any more); -EDQUOT; -EPERM. */
    int (*recharge)(struct wefti_sup *sup, size_t child);
    /* Refuses the exhausted child.  No effect if it is not exhausted any more. */
    void (*refuse)(struct wefti_sup *sup, size_t child);
    /* Reports on stderr that the child lacks `what`, and what happens then. */
    void (*complain)(struct wefti_sup *sup, size_t child, const char *what, const char *then);
};

enum wefti_sup_state {
    WEFTI_SUP_DOWN, /* will not run again, unless others take it with them */
    WEFTI_SUP_UP, /* runs */
    WEFTI_SUP_WAITING, /* will be started at `due` */
};

struct wefti_sup_child {
    enum wefti_sup_state state;
    weft_restart restart;
    int status;
    int64_t began, due;
    int64_t pause; /* the last one; 0: none yet */
    const char *lacks; /* it is exhausted, and waits for its recharge at `recharge_at`; NULL: it does not */
    int64_t recharge_at; /* when it may be recharged again */
};

struct wefti_sup {
    const struct wefti_sup_kind *kind;
    weft_supervisor_config config; /* with the defaults filled in */
    size_t count;
    struct wefti_sup_child *children; /* in the order in which they are started; zeroed but for `restart` */
    int64_t *restarts; /* room for config.intensity: when the last ones were */
    uint64_t restarted;
    const size_t *told_as; /* the number of each for `report`; NULL: as they are */
};

/* The caller's config with defaults.  0; -EINVAL; -E2BIG. */
int wefti_sup_config(const weft_supervisor_config *given, weft_supervisor_config *config);
/* Until none is left that runs or will run again; as weft_supervise. */
int wefti_sup_run(struct wefti_sup *sup);

#endif
