/* supervisor.c - supervised children: a nursery whose owner starts again what ends.
 *
 * What.   The supervisor is the fiber that calls weft_supervise; all decisions are made there, one after the other.  A child that ends marks its
 *         slot and serves the supervisor, under the nursery's lock (nursery.h, C1, just before it leaves).
 * Who.    A slot's `ended` and `status`, and `waiters`: under the nursery's lock.  All else is the supervisor's.
 */
#include <weft/supervisor.h>

#include "nursery/nursery.h"

#define SECOND INT64_C(1000000000)

enum state {
    DOWN,    /* will not run again, unless others take it with them */
    UP,      /* has a fiber */
    WAITING, /* will be started at `due` */
};

struct slot {
    struct supervisor *sup;
    const weft_child *child;
    struct weft_task *task; /* a handle; NULL: not UP */
    enum state state;
    int64_t began, due;
    int64_t pause; /* the last one; 0: none yet */
    bool ended;
    int status;
};

struct supervisor {
    weft_supervisor_config config;
    weft_nursery nursery;
    struct wefti_waiters waiters; /* the supervisor, if it waits */
    size_t count;
    struct slot *slots;
    int64_t *restarts; /* times of the last ones, a ring of config.intensity */
    uint64_t restarted;
    size_t bytes; /* of both */
};

/* -- Children ------------------------------------------------------------------------------------------------- */

static int run_slot(void *arg) {
    struct slot *slot = arg;
    return slot->child->fn(slot->child->arg);
}

/* Under the nursery's lock, when a child has ended; whom to wake. */
static wefti_waker told(struct wefti_nursery *n, struct wefti_fiber *fiber) {
    (void)n;
    struct slot *slot = fiber->task.pointer;
    slot->status = fiber->task.status;
    slot->ended = true;
    struct wefti_waiter *waiter = wefti_waiters_take(&slot->sup->waiters);
    return waiter ? wefti_waiter_serve(waiter) : 0;
}

static void report(struct supervisor *sup, struct slot *slot, weft_supervised what, int status) {
    if (sup->config.report)
        sup->config.report(sup->config.report_arg, (size_t)(slot - sup->slots), what, status);
}

static int start(struct supervisor *sup, struct slot *slot) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = run_slot;
    spec.arg = slot;
    spec.name = slot->child->name ? slot->child->name : "child";
    spec.stack_size = slot->child->stack_size;
    slot->ended = false; /* nobody else has it yet */
    slot->began = weft_now();
    int error = weft_nursery_spawn(&sup->nursery, &spec, &slot->task);
    slot->state = error ? DOWN : UP;
    if (!error)
        report(sup, slot, WEFT_SUPERVISED_STARTED, 0);
    return error;
}

/* -- Waiting for them ------------------------------------------------------------------------------------------- */

static bool is_served(void *waiter) { return wefti_waiter_is_served(waiter); }

/* Has it ended?  Then its handle is given back. */
static bool reap(struct supervisor *sup, struct slot *slot) {
    struct wefti_nursery *n = wefti_nursery_of(&sup->nursery);
    wefti_lock_take(&n->lock);
    bool ended = slot->ended;
    wefti_lock_give(&n->lock);
    if (!ended)
        return false;
    weft_task_drop(slot->task);
    slot->task = NULL;
    slot->state = DOWN;
    report(sup, slot, WEFT_SUPERVISED_ENDED, slot->status);
    return true;
}

/* Until `slot` has ended (any of them, if NULL), or `until`.  `firmly`: also when the supervisor is cancelled.  0; -ETIMEDOUT; -ECANCELED. */
static int wait_for(struct supervisor *sup, struct slot *slot, int64_t until, bool firmly) {
    struct wefti_nursery *n = wefti_nursery_of(&sup->nursery);
    struct wefti_waiter waiter;
    int why = 0;
    wefti_lock_take(&n->lock);
    bool ended = slot && slot->ended;
    for (size_t i = 0; !slot && i < sup->count && !ended; i++)
        ended = sup->slots[i].state == UP && sup->slots[i].ended;
    if (ended) {
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
    bool gone = wefti_waiters_remove(&sup->waiters, &waiter);
    wefti_lock_give(&n->lock);
    return gone ? why : 0; /* else: served after all */
}

/* End it, and wait until it has. */
static void end(struct supervisor *sup, struct slot *slot) {
    if (slot->state == UP) {
        int64_t grace = sup->config.grace;
        if (grace) /* as in cancel.c */
            store_relaxed(&wefti_fiber_of(slot->task)->grace, weft_after(grace));
        wefti_cancel(slot->task, WEFT_REASON_FAILURE);
        while (!reap(sup, slot))
            wait_for(sup, slot, WEFT_NEVER, true);
    }
    slot->state = DOWN;
}

/* Those from `first` on, newest first. */
static void end_from(struct supervisor *sup, size_t first) {
    for (size_t i = sup->count; i-- > first;)
        end(sup, &sup->slots[i]);
}

/* -- Starting again ---------------------------------------------------------------------------------------------- */

/* One more restart now: is that too many? */
static bool too_often(struct supervisor *sup, int64_t now) {
    const weft_supervisor_config *config = &sup->config;
    if (config->intensity == 0)
        return false;
    int64_t *oldest = &sup->restarts[sup->restarted % config->intensity];
    if (sup->restarted >= config->intensity && now - *oldest < config->period)
        return true;
    *oldest = now;
    sup->restarted++;
    return false;
}

/* How long to wait before it is started again. */
static int64_t pause(struct supervisor *sup, struct slot *slot, int64_t now) {
    const weft_supervisor_config *config = &sup->config;
    if (config->backoff_min < 0)
        return 0;
    if (now - slot->began >= config->stable)
        slot->pause = 0;
    double next = slot->pause ? (double)slot->pause * config->backoff_factor : (double)config->backoff_min;
    slot->pause = next < (double)config->backoff_max ? (int64_t)next : config->backoff_max;
    if (config->backoff_jitter < 0)
        return slot->pause;
    double random = (double)wefti_random_below(&wefti_worker_here()->random, 1u << 20) / (double)(1u << 19) - 1.0;
    return slot->pause + (int64_t)((double)slot->pause * config->backoff_jitter * random);
}

/* The slot has ended.  0; or it gives up, with this. */
static int handle(struct supervisor *sup, struct slot *slot) {
    if (weft_nursery_state_of(&sup->nursery) != WEFT_NURSERY_OPEN)
        return -ECANCELED; /* we have been cancelled, and it was for that */
    weft_restart restart = slot->child->restart;
    bool failed = slot->status < 0 && slot->status != -ECANCELED;
    if (restart == WEFT_RESTART_TEMPORARY || (restart == WEFT_RESTART_TRANSIENT && !failed))
        return 0;
    int64_t now = weft_now();
    if (too_often(sup, now)) {
        report(sup, slot, WEFT_SUPERVISED_GAVE_UP, slot->status);
        return failed ? slot->status : -ELOOP;
    }
    int64_t due = now + pause(sup, slot, now);
    size_t at = (size_t)(slot - sup->slots), first = at, last = at;
    if (sup->config.strategy != WEFT_STRATEGY_ONE_FOR_ONE) {
        first = sup->config.strategy == WEFT_STRATEGY_ONE_FOR_ALL ? 0 : at;
        last = sup->count - 1;
        end_from(sup, first);
    }
    for (size_t i = first; i <= last; i++)
        if (sup->slots[i].child->restart != WEFT_RESTART_TEMPORARY) {
            sup->slots[i].state = WAITING;
            sup->slots[i].due = due;
        }
    return 0;
}

/* Start what is due, in order.  *next: when to come back; *left: something runs, or will.  0; or it gives up. */
static int start_due(struct supervisor *sup, int64_t *next, bool *left) {
    *next = WEFT_NEVER;
    *left = false;
    for (size_t i = 0; i < sup->count; i++) {
        struct slot *slot = &sup->slots[i];
        if (slot->state == WAITING && slot->due <= weft_now()) {
            int error = start(sup, slot);
            if (error == -ECANCELED)
                return error;
            if (error) { /* as if it had begun and failed */
                slot->status = error;
                if ((error = handle(sup, slot)))
                    return error;
            }
        }
        *left |= slot->state != DOWN;
        if (slot->state == WAITING && slot->due < *next)
            *next = slot->due;
    }
    return 0;
}

static int supervise(struct supervisor *sup) {
    int error = 0;
    for (size_t i = 0; i < sup->count && !error; i++)
        error = start(sup, &sup->slots[i]);
    for (int64_t next; !error;) {
        bool left;
        for (size_t i = 0; i < sup->count && !error; i++)
            if (sup->slots[i].state == UP && reap(sup, &sup->slots[i]))
                error = handle(sup, &sup->slots[i]);
        if (error || (error = start_due(sup, &next, &left)) || !left)
            break;
        int why = wait_for(sup, NULL, next, false);
        if (why == -ECANCELED)
            error = why;
    }
    end_from(sup, 0);
    return error;
}

/* -- The call ------------------------------------------------------------------------------------------------------- */

static int read_config(const weft_supervisor_config *given, weft_supervisor_config *config) {
    *config = (weft_supervisor_config)WEFT_SUPERVISOR_CONFIG_INIT;
    int error =
        given ? wefti_known_struct(given, offsetof(weft_supervisor_config, strategy), config, sizeof *config) : 0;
    if (error)
        return error;
    if ((unsigned)config->strategy > WEFT_STRATEGY_REST_FOR_ONE || config->period < 0 || config->backoff_max < 0 ||
        config->backoff_factor < 0 || config->backoff_jitter > 1 || config->stable < 0)
        return -EINVAL;
    config->period = config->period ? config->period : 5 * SECOND;
    config->backoff_min = config->backoff_min ? config->backoff_min : SECOND;
    config->backoff_max = config->backoff_max ? config->backoff_max : 90 * SECOND;
    config->backoff_factor = config->backoff_factor > 0 ? config->backoff_factor : 2;
    config->backoff_jitter = config->backoff_jitter > 0 || config->backoff_jitter < 0 ? config->backoff_jitter : 0.1;
    config->stable = config->stable ? config->stable : 5 * SECOND;
    config->grace = config->grace < 0 ? 0 : config->grace ? config->grace : 10 * SECOND;
    return 0;
}

int weft_supervise(const weft_supervisor_config *given, const weft_child *children, size_t count) {
    struct supervisor sup = {.count = count};
    int error = read_config(given, &sup.config);
    if (error)
        return error;
    if (!wefti_fiber_self() || !children || count == 0 || count > INT32_MAX)
        return -EINVAL;
    for (size_t i = 0; i < count; i++)
        if (!children[i].fn || (unsigned)children[i].restart > WEFT_RESTART_TEMPORARY)
            return -EINVAL;
    sup.bytes = count * sizeof *sup.slots + sup.config.intensity * sizeof *sup.restarts;
    sup.slots = wefti_alloc(sup.bytes);
    if (!sup.slots)
        return -ENOMEM;
    sup.restarts = (int64_t *)(void *)(sup.slots + count);
    for (size_t i = 0; i < count; i++)
        sup.slots[i] = (struct slot){.sup = &sup, .child = &children[i]};
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.name = "a supervisor";
    config.keep_going = true;
    config.grace = sup.config.grace;
    error = weft_nursery_init(&sup.nursery, NULL, &config);
    if (!error) {
        wefti_nursery_of(&sup.nursery)->told = told;
        error = supervise(&sup);
        int ended = weft_nursery_await(&sup.nursery);
        wefti_assert(!wefti_nursery_of(&sup.nursery)->bound,
                     (unsigned)-ended); /* else a child has left something open on our stack */
    }
    wefti_free(sup.slots, sup.bytes);
    return error;
}
