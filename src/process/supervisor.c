/* supervisor.c - supervised processes: a process that monitors others, and starts again what ends (supervise/policy.h).
 *
 * What.   Each child is monitored; its end comes as a DOWN, and the request that the supervisor end as a CANCEL.  All else stays in the
 *         mailbox, and is looked at once (wefti_receive_told).  A child that begins sets a flag and wakes the supervisor.  A supervisor ends only
 *         after its children: a cancelled one stops them first.
 */
#include "fiber/slice.h"
#include "process/process.h"
#include "supervise/policy.h"

struct slot {
    const weft_process_child *child;
    weft_pid pid;
    uint64_t monitor; /* 0: it does not run */
    _Atomic uint32_t begun;
    bool ended;
    int status;
    struct weft_task *supervisor; /* who does not leave before the child has ended */
};

struct supervisor {
    struct wefti_sup sup; /* first */
    struct wefti_process *self;
    struct slot *slots; /* in the order in which they are started */
    size_t *order; /* the caller's number of each */
    bool asked; /* to end */
};

static struct supervisor *supervisor_of(struct wefti_sup *sup) { return (struct supervisor *)(void *)sup; }

/* -- Children ------------------------------------------------------------------------------------------------- */

static int run_child(void *arg) {
    struct slot *slot = arg;
    const weft_process_spec *spec = &slot->child->spec;
    wefti_fiber_self()->fn = spec->fn; /* for reports */
    store_relaxed(&slot->begun, true); /* a flag, nothing behind it; the wake orders it */
    wefti_wake_loosely(slot->supervisor);
    return spec->fn(spec->arg);
}

static int start(struct wefti_sup *sup, size_t at) {
    struct slot *slot = &supervisor_of(sup)->slots[at];
    weft_process_spec spec = slot->child->spec;
    spec.name = spec.name ? spec.name : slot->child->name;
    store_relaxed(&slot->begun, !spec.fn); /* nobody else has it yet; a class has, when init returns */
    slot->ended = false;
    slot->monitor = 0;
    slot->supervisor = &wefti_fiber_self()->task;
    if (spec.fn) {
        spec.fn = run_child;
        spec.arg = slot;
    }
    return weft_process_spawn_monitored(&spec, &slot->pid, &slot->monitor);
}

static bool reap(struct wefti_sup *sup, size_t at, int *status) {
    struct slot *slot = &supervisor_of(sup)->slots[at];
    if (!slot->ended)
        return false;
    slot->monitor = 0;
    *status = slot->status;
    return true;
}

/* -- Waiting for them ------------------------------------------------------------------------------------------- */

static struct slot *slot_of(struct supervisor *sup, uint64_t monitor) {
    for (size_t i = 0; i < sup->sup.count; i++)
        if (sup->slots[i].monitor == monitor)
            return &sup->slots[i];
    return NULL;
}

static bool is_ours(const weft_message *message, void *arg) {
    return message->type == WEFT_MESSAGE_CANCEL || (message->type == WEFT_MESSAGE_DOWN && slot_of(arg, message->tag));
}

static bool any_ended(const struct supervisor *sup) {
    for (size_t i = 0; i < sup->sup.count; i++)
        if (sup->slots[i].monitor && sup->slots[i].ended)
            return true;
    return false;
}

/* One message that is for us.  0; why none came. */
static int hear(struct supervisor *sup, int64_t until) {
    weft_message message;
    int error = wefti_receive_told(sup->self, &message, is_ours, sup, until);
    if (error)
        return error;
    if (message.type == WEFT_MESSAGE_CANCEL) {
        sup->asked = true;
    } else {
        struct slot *slot = slot_of(sup, message.tag);
        slot->ended = true;
        slot->status = message.error;
    }
    return 0;
}

/* Until that child has ended. */
static int listen(struct supervisor *sup, size_t at, int64_t until) {
    int error = 0;
    while (!error && !sup->slots[at].ended)
        error = hear(sup, until);
    return error;
}

static int wait(struct wefti_sup *sup, int64_t until) {
    struct supervisor *self = supervisor_of(sup);
    int error = 0;
    while (!error && !any_ended(self))
        error = self->asked ? -ECANCELED : hear(self, until);
    return error;
}

/* Or something has come, which may be that it has ended. */
static bool has_begun(void *arg) {
    struct slot *slot = arg;
    return load_relaxed(&slot->begun) || wefti_something_came(wefti_process_self()); /* as there */
}

static void see_begin(struct wefti_sup *sup, size_t at) {
    struct supervisor *self = supervisor_of(sup);
    struct slot *slot = &self->slots[at];
    int error = 0;
    while (!error && !load_relaxed(&slot->begun) && !slot->ended && !self->asked) /* as there */
        if (hear(self, WEFT_NOW))
            error = wefti_fiber_wait(wefti_fiber_self(), has_begun, slot, WEFT_NEVER, "a child's begin");
}

static void stop(struct wefti_sup *sup, size_t at) {
    struct supervisor *self = supervisor_of(sup);
    struct slot *slot = &self->slots[at];
    struct weft_task *task = &wefti_fiber_self()->task;
    bool shielded = wefti_word_shield(&task->word); /* we may have been cancelled, and go on until they have ended */
    int64_t until = sup->config.grace ? weft_after(sup->config.grace) : WEFT_NEVER;
    if (weft_process_cancel(self->self->table->rt, slot->pid) == -ENOMEM)
        until = WEFT_NOW;
    if (listen(self, at, until)) {
        wefti_process_force(self->self->table, slot->pid);
        while (listen(self, at, WEFT_NEVER)) /* our own grace is over: firmly */
            wefti_receive_firmly(self->self, "a child");
    }
    if (shielded)
        wefti_word_unshield(&task->word);
}

static bool goes_on(struct wefti_sup *sup) {
    return !supervisor_of(sup)->asked && !wefti_fiber_must_end(wefti_fiber_self());
}

static const struct wefti_sup_kind processes = {start, see_begin, reap, wait, stop, goes_on, NULL, NULL, NULL, NULL};

/* -- Order ---------------------------------------------------------------------------------------------------------- */

/* Which child has that name; count: none. */
static size_t find(const weft_process_child *children, size_t count, const char *name) {
    size_t i = 0;
    while (i < count && (!children[i].name || strcmp(children[i].name, name) != 0))
        i++;
    return i;
}

/* What each child needs: the numbers of those of child i are at[first(i)] to at[first(i + 1) - 1]. */
struct needs {
    size_t *at;
    size_t count;
};

static int find_needs(const weft_process_child *children, size_t count, struct needs *needs, struct slot *slots) {
    size_t total = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        for (const char *const *need = children[i].needs; need && *need; need++)
            total++;
    *needs = (struct needs){total ? wefti_alloc(total * sizeof *needs->at) : NULL, total};
    if (total && !needs->at)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        slots[i].monitor = at; /* first(i), until it is filled in */
        for (const char *const *need = children[i].needs; need && *need; need++)
            if ((needs->at[at++] = find(children, count, *need)) == count)
                return -EINVAL;
    }
    return 0;
}

/* The given order, but each after those that it needs.  slots[i].ended: child i has its place. */
static int place(struct supervisor *sup, const struct needs *needs) {
    struct slot *slots = sup->slots;
    size_t count = sup->sup.count, first = 0;
    for (size_t placed = 0; placed < count; placed++) {
        size_t next = first;
        for (; next < count; next++) {
            size_t at = slots[next].monitor, end = next + 1 < count ? slots[next + 1].monitor : needs->count;
            while (!slots[next].ended && at < end && slots[needs->at[at]].ended)
                at++;
            if (!slots[next].ended && at == end)
                break;
        }
        if (next == count)
            return -ELOOP;
        slots[next].ended = true;
        sup->order[placed] = next;
        while (first < count && slots[first].ended)
            first++;
    }
    return 0;
}

static int sort(struct supervisor *sup, const weft_process_child *children) {
    struct needs needs;
    int error = find_needs(children, sup->sup.count, &needs, sup->slots);
    if (!error)
        error = place(sup, &needs);
    if (needs.at)
        wefti_free(needs.at, needs.count * sizeof *needs.at);
    return error;
}

/* -- The call ------------------------------------------------------------------------------------------------------- */

int weft_process_supervise(const weft_supervisor_config *given, const weft_process_child *children, size_t count) {
    wefti_slice_use_heavy(WEFT_NEVER);
    struct supervisor sup = {.sup = {.kind = &processes, .count = count}, .self = wefti_process_self()};
    int error = wefti_sup_config(given, &sup.sup.config);
    if (error)
        return error;
    if (!sup.self || !sup.self->is_fiber || !children || count == 0 || count > INT32_MAX)
        return -EINVAL;
    for (size_t i = 0; i < count; i++)
        if ((unsigned)children[i].restart > WEFT_RESTART_TEMPORARY ||
            wefti_process_spec_releases(&children[i].spec)) /* the argument is for every start */
            return -EINVAL;
    size_t each = sizeof *sup.slots + sizeof *sup.sup.children + sizeof *sup.order;
    size_t bytes = count * each + sup.sup.config.intensity * sizeof(int64_t);
    sup.slots = wefti_alloc(bytes);
    if (!sup.slots)
        return -ENOMEM;
    sup.sup.children = (struct wefti_sup_child *)(void *)(sup.slots + count);
    sup.order = (size_t *)(void *)(sup.sup.children + count);
    sup.sup.restarts = (int64_t *)(void *)(sup.order + count);
    sup.sup.told_as = sup.order;
    error = sort(&sup, children);
    for (size_t i = 0; i < count && !error; i++) {
        const weft_process_child *child = &children[sup.order[i]];
        sup.slots[i] = (struct slot){.child = child};
        sup.sup.children[i] = (struct wefti_sup_child){.restart = child->restart};
    }
    if (!error)
        error = wefti_sup_run(&sup.sup);
    wefti_free(sup.slots, bytes);
    return error;
}
