/* fiber.h - the fiber object: a task with a function, and a stack while it runs.
 * Three cache lines; the second has what every run touches, the third what few fibers use. */
#ifndef WEFTI_TASK_FIBER_H
#define WEFTI_TASK_FIBER_H

#include <weft/fiber.h>

#include "queue/lock.h"
#include "task/task.h"

struct wefti_stack;

/* What it may use, of a fiber with a budget (account.h). */
struct wefti_account;

/* What a fiber may belong to, its nursery or process: a field of it.  Both are called on the worker on which the fiber has ended, nothing
 * else of the owner's comes between them, and `ended` may leave the owner locked for `left`. */
struct wefti_fiber;
struct wefti_owner {
    const struct wefti_owner_kind *kind;
};
struct wefti_owner_kind {
    /* The fiber has ended with task.status; before anybody who joins it learns of it.  Without `left` the owner may be gone afterwards. */
    void (*ended)(struct wefti_fiber *fiber);
    /* It is COMPLETE, and may be gone.  So may the owner be afterwards.  May be NULL. */
    void (*left)(struct wefti_owner *owner);
    /* The running fiber waits for a recharge from now on; `what` it lacks is static.  Returns true if the owner sees to it.  May be NULL. */
    bool (*exhausted)(struct wefti_fiber *fiber, const char *what);
};

/* What a fiber has open, newest first: its nurseries.  The list is under the fiber's lock; only the fiber itself changes it. */
typedef void wefti_visit_child(const struct weft_task *child, const char *name, void *arg);
struct wefti_owned {
    struct wefti_owned *below;
    /* The fiber has been cancelled.  Who calls holds a reference to it, and not the lock; `this` may be gone. */
    void (*cancelled)(struct wefti_fiber *fiber);
    /* Its last shield has been removed.  On its own stack. */
    void (*unshielded)(struct wefti_fiber *fiber);
    /* Its function has returned with this still open.  On its own stack. */
    void (*left)(struct wefti_fiber *fiber);
    /* For dumps: each of its children, with its own name.  Under the fiber's lock; `visit` takes no locks. */
    void (*list)(struct wefti_owned *owned, wefti_visit_child *visit, void *arg);
};

struct wefti_fiber {
    struct weft_task task; /* task.pointer: the argument */

    /* Zero at first, up to `waits_since`. */
    struct wefti_stack *stack; /* NULL: not begun, or ended */
    _Atomic(const char *) waits; /* for dumps: what it waits for; or a struct wefti_kept, see there */
    void **locals; /* table of fiber-locals, or NULL */
    struct wefti_owned *owned; /* the newest thing it has open; under the lock */
    struct wefti_lock lock; /* `owned` */
    uint32_t owned_in_frames : 22; /* how many of `owned` are in the caller's memory, perhaps on our stack */
    uint32_t preempted : 10; /* in a row, without having waited or yielded by itself */

    uint8_t stack_log2;
    union {
        struct {
            bool migrate : 1, has_value : 1;
            bool discard : 1; /* may be ended in the midst of metered code */
            bool steady : 1; /* shields hold for as long as it wants, whatever limits they have */
            bool leaves : 1; /* may have something to see to when it ends: `locals`, `owned`, `preempted` */
            bool lent : 1; /* its nursery has a reference, and drops its handle (nursery/lend.c) */
        };
        uint8_t unusual; /* one of them is set */
    };
    uint8_t preempt_off; /* depth of weft_preempt_off */
    int8_t look_after; /* how often calls look at its slice (fiber/slice.h); -1: it has an account */
    int32_t ops_left; /* metering (fiber/meter.h): until something is due; below 0: it is, and as many are owed */
    _Atomic int64_t waits_since; /* for dumps, to a tick */
    void *value; /* weft_fiber_result */

    weft_fiber_fn fn;
    struct wefti_owner *owner; /* NULL: the runtime */
    struct wefti_account *account; /* NULL: nothing it does is charged */
    uint64_t ops_end; /* all ops it will have used when `ops_left` is 0 */
    struct wefti_fiber *next, *prev; /* the owner's list */
    _Atomic int64_t shield_until; /* weft_shield_until: its own limit for shields ... */
    _Atomic int64_t grace; /* ... and that of whoever cancelled it */
};

/* What a fiber waits for that somebody has, who can be named: in its own frame.  Such a wait has wefti_waits_kept() in `waits`.
 * Race.   fiber: F1 fill in kept              dump: D1 take the fiber's lock
 *                F2 waits = kept (release)          D2 look at waits (acquire); kept, and the thing, are there
 *                F3 wait; waits = NULL              D3 give the lock back
 *                F4 take and give its lock
 *                F5 leave the frame
 * Claim.  D2 reads no frame that was left, and no thing that is gone.
 * Why.    Until F5 the fiber is a user of the thing.  D3 before F4: so is D2 before F5.  F4 before D1: D2 sees what F3 wrote, or later. */
struct wefti_kept {
    const char *what; /* static */
    /* Who has it: a task's address, or a thread's number; 0: nobody, or *many, which is 0 before. */
    uint64_t (*by)(const void *thing, uint64_t *many);
    const void *thing;
};
#define WEFTI_WAITS_KEPT (UINT64_C(1) << 63) /* no address of a program has that bit */
static inline const char *wefti_waits_kept(const struct wefti_kept *kept) {
    return (const char *)((uintptr_t)kept | WEFTI_WAITS_KEPT);
}

/* What an exhausted fiber waits for. */
extern const char wefti_waits_budget[];

_Static_assert(sizeof(struct wefti_fiber) == 192, "three cache lines");
_Static_assert(offsetof(struct wefti_fiber, waits_since) == 112, "zero before that");

/* D1 to D3: what it waits for, or NULL; *by and *many are only set when somebody has that.  Names are static. */
static inline const char *wefti_fiber_describe(struct wefti_fiber *fiber, uint64_t *by, uint64_t *many) {
    wefti_lock_take(&fiber->lock);
    const char *waits = load_acquire(&fiber->waits); /* pairs with F2 */
    if ((uintptr_t)waits & WEFTI_WAITS_KEPT) {
        const struct wefti_kept *kept = (const struct wefti_kept *)((uintptr_t)waits & ~WEFTI_WAITS_KEPT);
        *by = kept->by(kept->thing, many);
        waits = kept->what;
    }
    wefti_lock_give(&fiber->lock);
    return waits;
}

/* F4, by the fiber itself. */
static inline void wefti_fiber_kept_end(struct wefti_fiber *self) {
    wefti_lock_take(&self->lock);
    wefti_lock_give(&self->lock);
}

static inline struct wefti_fiber *wefti_fiber_of(struct weft_task *task) {
    return (struct wefti_fiber *)(void *)task; /* task is the first field */
}

/* Who is about to cancel it: its shields hold until then, or an earlier time that another has said. */
static inline void wefti_fiber_limit(struct wefti_fiber *fiber, int64_t limit) {
    int64_t found = load_relaxed(&fiber->grace); /* only compared */
    while (limit < found && !cas_relaxed(&fiber->grace, &found, limit)) /* the word, which is next, orders it */
        ;
}

/* The running fiber, cancelled, whose word is that: when is it to end?  0: now; WEFT_NEVER: when it takes its shield away. */
static inline int64_t wefti_fiber_grace(struct wefti_fiber *self, uint64_t word) {
    if (!(word & WEFTI_SHIELD_MASK))
        return 0;
    if (self->steady)
        return WEFT_NEVER;
    int64_t own = load_own(&self->shield_until);
    int64_t given = load_relaxed(&self->grace); /* set before CANCELLED */
    return own < given ? own : given;
}

#endif
