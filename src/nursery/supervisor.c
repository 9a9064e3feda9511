/* supervisor.c - supervised children: a nursery whose owner starts again what ends.
 *
 * What.   The supervisor is the fiber that calls weft_supervise; all decisions are made there, one after the other (supervise/policy.h).  A child that
 *         begins or ends marks its slot and serves the supervisor, under the nursery's lock (an end: nursery.h, C1, just before it leaves).
 *         So does one that is exhausted, with a user's claim on its fund, which may be destroyed when the child has ended otherwise.
 * Who.    A slot's `begun`, `ended`, `news`, `status`, `lacks` and `fund`, and `news` and `waiters`: under the nursery's lock.  All else is the
 *         supervisor's.
 */
#include "budget/fund.h"
#include "fiber/slice.h"
#include "nursery/nursery.h"
#include "supervise/policy.h"

struct slot {
    struct supervisor *sup;
    const weft_supervised_fiber *child;
    struct weft_task *task; /* a handle; NULL: it does not run */
    bool begun, ended;
    bool news; /* `ended` or `lacks`, and the supervisor does not know yet */
    int status;
    const char *lacks; /* it is exhausted, and the supervisor does not know yet */
    struct weft_fund *fund; /* of one that was exhausted: counted as a user of it; NULL: none */
};

struct supervisor {
    struct wefti_sup sup; /* first */
    weft_nursery nursery;
    struct wefti_waiters waiters; /* the supervisor, if it waits */
    size_t news; /* slots that have some */
    struct slot *slots;
};

static struct supervisor *supervisor_of(struct wefti_sup *sup) { return (struct supervisor *)(void *)sup; }

/* -- Children ------------------------------------------------------------------------------------------------- */

/* Under the nursery's lock: whom to wake. */
static wefti_waker serve(struct supervisor *sup) {
    struct wefti_waiter *waiter = wefti_waiters_take(&sup->waiters);
    return waiter ? wefti_waiter_serve(waiter) : 0;
}

static void set_news(struct slot *slot) {
    slot->sup->news += !slot->news;
    slot->news = true;
}

static void clear_news(struct slot *slot) {
    slot->sup->news -= slot->news;
    slot->news = false;
}

static int run_slot(void *arg) {
    struct slot *slot = arg;
    wefti_fiber_self()->fn = slot->child->fn; /* for reports */
    struct wefti_nursery *n = wefti_nursery_of(&slot->sup->nursery);
    wefti_lock_take(&n->lock);
    slot->begun = true;
    wefti_waker waker = serve(slot->sup);
    wefti_lock_give(&n->lock);
    if (waker)
        wefti_waiter_wake(waker);
    return slot->child->fn(slot->child->arg);
}

static struct supervisor *supervisor_with(struct wefti_nursery *n) {
    return (struct supervisor *)(void *)((char *)n -
                                         offsetof(struct supervisor, nursery)); /* as weft_supervise made it */
}

/* NULL: a sibling that a child has started, which nobody supervises. */
static struct slot *slot_of(const struct supervisor *sup, const struct wefti_fiber *fiber) {
    uintptr_t slots = (uintptr_t)sup->slots, given = (uintptr_t)fiber->task.pointer;
    return given - slots < sup->sup.count * sizeof *sup->slots ? fiber->task.pointer : NULL;
}

/* On the stack of a child that waits for a recharge from now on. */
static bool is_exhausted(struct wefti_nursery *n, struct wefti_fiber *fiber, const char *what) {
    struct supervisor *sup = supervisor_with(n);
    struct slot *slot = slot_of(sup, fiber);
    if (!slot)
        return false;
    struct weft_fund *fund = fiber->account->fund;
    if (!slot->fund) /* ours until we have ended; else it has been claimed before */
        wefti_fund_ref(fund);
    wefti_lock_take(&n->lock);
    slot->lacks = what;
    slot->fund = fund;
    set_news(slot);
    wefti_waker waker = serve(sup);
    wefti_lock_give(&n->lock);
    if (waker)
        wefti_waiter_wake(waker);
    return true;
}

/* Under the nursery's lock, when a child has ended; whom to wake. */
static wefti_waker has_ended_now(struct wefti_nursery *n, struct wefti_fiber *fiber) {
    struct supervisor *sup = supervisor_with(n);
    struct slot *slot = slot_of(sup, fiber);
    if (!slot)
        return 0;
    slot->status = load_own(&fiber->task.status);
    if (slot->status == -ECANCELED && weft_task_cancel_reason(&fiber->task) == WEFT_REASON_BUDGET)
        slot->status = -EDQUOT; /* it was refused, which is a failure here */
    slot->ended = true;
    set_news(slot);
    return serve(slot->sup);
}

static const struct wefti_nursery_hooks hooks = {has_ended_now, is_exhausted};

static int start(struct wefti_sup *sup, size_t at) {
    struct slot *slot = &supervisor_of(sup)->slots[at];
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = run_slot;
    spec.arg = slot;
    spec.name = slot->child->name ? slot->child->name : "child";
    spec.stack_size = slot->child->stack_size;
    spec.fund = sup->config.fund;
    spec.budget = sup->config.budget;
    spec.cap = sup->config.cap;
    slot->begun = slot->ended = false; /* nobody else has it yet */
    slot->lacks = NULL;
    return weft_nursery_spawn(&supervisor_of(sup)->nursery, &spec, &slot->task);
}

/* -- Waiting for them ------------------------------------------------------------------------------------------- */

static bool is_served(void *waiter) { return wefti_waiter_is_served(waiter); }

/* Has it ended?  Then its handle is given back. */
static bool reap(struct wefti_sup *sup, size_t at, int *status) {
    struct slot *slot = &supervisor_of(sup)->slots[at];
    struct wefti_nursery *n = wefti_nursery_of(&supervisor_of(sup)->nursery);
    wefti_lock_take(&n->lock);
    bool ended = slot->ended;
    if (ended)
        clear_news(slot);
    wefti_lock_give(&n->lock);
    if (!ended)
        return false;
    weft_task_drop(slot->task);
    slot->task = NULL;
    if (slot->fund)
        wefti_fund_unref(slot->fund);
    slot->fund = NULL;
    *status = slot->status;
    return true;
}

/* What the supervisor may wait for, under the nursery's lock: of that child, or of any. */
typedef bool sup_event(const struct supervisor *sup, size_t at);
static bool has_ended(const struct supervisor *sup, size_t at) { return sup->slots[at].ended; }
static bool has_begun_or_ended(const struct supervisor *sup, size_t at) {
    return sup->slots[at].begun || sup->slots[at].ended;
}
static bool any_news(const struct supervisor *sup, size_t at) {
    (void)at;
    return sup->news;
}

/* Until it has come about, or something else has: then *early.  `firmly`: also when the supervisor is cancelled. */
static int wait_once(struct supervisor *sup, sup_event *event, size_t at, int64_t until, bool firmly, bool *early) {
    struct wefti_nursery *n = wefti_nursery_of(&sup->nursery);
    struct wefti_waiter waiter;
    int why = 0;
    wefti_lock_take(&n->lock);
    *early = !event(sup, at);
    if (!*early) {
        wefti_lock_give(&n->lock);
        return 0;
    }
    wefti_waiter_init(&waiter);
    wefti_waiters_append(&sup->waiters, &waiter);
    wefti_lock_give(&n->lock);
    if (firmly)
        wefti_fiber_wait_always(wefti_fiber_self(), is_served, &waiter, "a child");
    else
        why = wefti_waiter_wait(&waiter, until, "children");
    if (!why)
        return 0;
    wefti_lock_take(&n->lock);
    wefti_waiters_remove(&sup->waiters,
                         &waiter); /* or it was served after all: who is late, or to end, is so all the same */
    wefti_lock_give(&n->lock);
    return why;
}

/* Until it has come about. */
static int wait_for(struct supervisor *sup, sup_event *event, size_t at, int64_t until, bool firmly) {
    int why;
    bool early;
    do
        why = wait_once(sup, event, at, until, firmly, &early);
    while (!why && early);
    return why;
}

static int wait(struct wefti_sup *sup, int64_t until) {
    return wait_for(supervisor_of(sup), any_news, 0, until, false);
}

static void see_begin(struct wefti_sup *sup, size_t at) {
    wait_for(supervisor_of(sup), has_begun_or_ended, at, WEFT_NEVER, false);
}

static bool has_begun(struct wefti_sup *sup, size_t at) {
    struct wefti_nursery *n = wefti_nursery_of(&supervisor_of(sup)->nursery);
    wefti_lock_take(&n->lock);
    bool begun = supervisor_of(sup)->slots[at].begun;
    wefti_lock_give(&n->lock);
    return begun;
}

static bool goes_on(struct wefti_sup *sup) {
    return weft_nursery_state_of(&supervisor_of(sup)->nursery) == WEFT_NURSERY_OPEN;
}

/* A fiber is cancelled wherever it waits; its shields hold until then. */
static int ask(struct wefti_sup *sup, size_t at, int64_t until) {
    struct slot *slot = &supervisor_of(sup)->slots[at];
    if (until != WEFT_NEVER) /* as in cancel.c */
        wefti_fiber_limit(wefti_fiber_of(slot->task), until);
    wefti_cancel(slot->task, WEFT_REASON_FAILURE);
    return 0;
}

static int await(struct wefti_sup *sup, size_t at, int64_t until) {
    return wait_for(supervisor_of(sup), has_ended, at, until, false);
}

/* Its time is over, or the supervisor is to end. */
static void force(struct wefti_sup *sup, size_t at) {
    if (!await(sup, at, WEFT_NEVER))
        return;
    /* We are to end, and so are all of them, also if a shield was over us: theirs hold no longer than that. */
    struct wefti_nursery *n = wefti_nursery_of(&supervisor_of(sup)->nursery);
    if (n->shielded) /* else who has cancelled us tells them */
        wefti_nursery_cancel_own(n, WEFT_REASON_PARENT);
    wait_for(supervisor_of(sup), has_ended, at, WEFT_NEVER, true);
}

/* -- Exhausted children ------------------------------------------------------------------------------------------- */

static const char *exhausted(struct wefti_sup *sup, size_t at) {
    struct slot *slot = &supervisor_of(sup)->slots[at];
    struct wefti_nursery *n = wefti_nursery_of(&supervisor_of(sup)->nursery);
    wefti_lock_take(&n->lock);
    const char *lacks = slot->lacks;
    slot->lacks = NULL;
    if (!slot->ended)
        clear_news(slot);
    wefti_lock_give(&n->lock);
    return lacks;
}

/* The fund is there: the claim is given back when the child is reaped. */
static int recharge(struct wefti_sup *sup, size_t at) {
    struct slot *slot = &supervisor_of(sup)->slots[at];
    return weft_fund_recharge(slot->fund, slot->task, &sup->config.recharge, sup->config.recharge_cap);
}

static void refuse(struct wefti_sup *sup, size_t at) {
    struct slot *slot = &supervisor_of(sup)->slots[at];
    weft_fund_refuse(slot->fund, slot->task);
}

static void complain(struct wefti_sup *sup, size_t at, const char *what, const char *then) {
    const char *name = supervisor_of(sup)->slots[at].child->name;
    wefti_report_exhausted(name ? name : "child", what, then);
}

static const struct wefti_sup_kind fibers = {start, see_begin, has_begun, reap,     wait,   ask,     await,
                                             force, goes_on,   exhausted, recharge, refuse, complain};

/* -- The call ------------------------------------------------------------------------------------------------------- */

int weft_supervise(const weft_supervisor_config *given, const weft_supervised_fiber *children, size_t count) {
    wefti_slice_use_heavy(WEFT_NEVER);
    struct supervisor sup = {.sup = {.kind = &fibers, .count = count}};
    int error = wefti_sup_config(given, &sup.sup.config);
    if (error)
        return error;
    if (!wefti_fiber_self() || !children || count == 0 || count > INT32_MAX)
        return -EINVAL;
    for (size_t i = 0; i < count; i++)
        if (!children[i].fn || (unsigned)children[i].restart > WEFT_RESTART_TEMPORARY)
            return -EINVAL;
    size_t allowed = wefti_sup_allowed(&sup.sup.config);
    size_t bytes = count * (sizeof *sup.slots + sizeof *sup.sup.children) + allowed * sizeof(int64_t);
    sup.slots = wefti_alloc(bytes);
    if (!sup.slots)
        return -ENOMEM;
    sup.sup.children = (struct wefti_sup_child *)(void *)(sup.slots + count);
    sup.sup.restarts = (int64_t *)(void *)(sup.sup.children + count);
    for (size_t i = 0; i < count; i++) {
        sup.slots[i] = (struct slot){.sup = &sup, .child = &children[i]};
        int64_t grace = sup.sup.config.grace ? sup.sup.config.grace : WEFT_NEVER;
        sup.sup.children[i] = (struct wefti_sup_child){.restart = children[i].restart, .shutdown = grace};
    }
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.name = "a supervisor";
    config.keep_going = true;
    config.grace = sup.sup.config.grace;
    error = weft_nursery_init(&sup.nursery, NULL, &config);
    if (!error) {
        wefti_nursery_of(&sup.nursery)->hooks = &hooks;
        error = wefti_sup_run(&sup.sup);
        if (error) /* what its children have started here */
            weft_nursery_cancel(&sup.nursery);
        int ended = weft_nursery_await(&sup.nursery);
        wefti_assert(!wefti_nursery_of(&sup.nursery)->bound,
                     (unsigned)-ended); /* else a child has left something open on our stack */
    }
    wefti_free(sup.slots, bytes);
    return error;
}
