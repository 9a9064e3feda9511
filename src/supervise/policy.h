/* policy.h - who is started again, when, and when to give up: what supervisors of fibers and of processes have in common.  Internal.
 *
 * What.   A supervisor is one fiber that makes all decisions, one after the other.  What a child is, how it is started and asked to end, and how one
 *         waits for its end, its kind says.
 * Order.  Children are started first to last: a child that has begun (its function was entered, or its init has returned) before the next.  If one
 *         cannot be started, those behind it that are to be started with it wait for it.
 *         They are stopped last to first, each awaited before the next is asked to end, so that a child can rely on those before it while it ends.  A
 *         child that does not end in its time is ended by force, and then the order is given up: all the others are asked at once, and
 *         their times run side by side.  So however many children do not end by themselves, they cost twice the longest time at most, and
 *         those that do end in their time have all of it.  (To keep the order even then, they would have to wait one after another, or be
 *         left without time to end.)
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
    /* Returns true if the child that was started has begun. */
    bool (*has_begun)(struct wefti_sup *sup, size_t child);
    /* Has it ended?  Then what is left of it is given back, and *status is how. */
    bool (*reap)(struct wefti_sup *sup, size_t child, int *status);
    /* Until a child has ended, or `until`: 0; -ETIMEDOUT; -ECANCELED (the supervisor is to end). */
    int (*wait)(struct wefti_sup *sup, int64_t until);
    /* Asks the child, which runs, to end.  `until`: its time.  Returns 0, or an error if it could not be asked. */
    int (*ask)(struct wefti_sup *sup, size_t child, int64_t until);
    /* Until the child has ended, or `until`: 0; -ETIMEDOUT; another error: the supervisor's own time is over.  A supervisor that is to end waits. */
    int (*await)(struct wefti_sup *sup, size_t child, int64_t until);
    /* Ends the child by force, and waits until it has ended, whatever happens. */
    void (*force)(struct wefti_sup *sup, size_t child);
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
    bool told; /* that it has begun */
    int64_t began, due;
    int64_t shutdown; /* how long it may take to end, ns; WEFT_NEVER: as long as it wants; 0: it is not asked */
    int64_t end_by; /* of one that has been asked */
    int64_t pause; /* the last one; 0: none yet */
    const char *lacks; /* it is exhausted, and waits for its recharge at `recharge_at`; NULL: it does not */
    int64_t recharge_at; /* when it may be recharged again */
};

struct wefti_sup {
    const struct wefti_sup_kind *kind;
    weft_supervisor_config config; /* with the defaults filled in */
    size_t count;
    struct wefti_sup_child
        *children; /* in the order in which they are started; zeroed but for `restart` and `shutdown` */
    int64_t *restarts; /* room for wefti_sup_allowed: when the last ones were */
    uint64_t restarted;
    const size_t *told_as; /* the number of each for `report`; NULL: as they are */
};

/* The caller's config with defaults.  0; -EINVAL; -E2BIG. */
int wefti_sup_config(const weft_supervisor_config *given, weft_supervisor_config *config);
/* How many restarts are allowed in a period, as far as they are counted. */
static inline size_t wefti_sup_allowed(const weft_supervisor_config *config) {
    return config->intensity == WEFT_INTENSITY_NONE ? 0 : config->intensity;
}
/* Until none is left that runs or will run again; as weft_supervise. */
int wefti_sup_run(struct wefti_sup *sup);

#endif
