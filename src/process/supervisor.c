/* supervisor.c - supervised processes: a process that monitors others, and starts again what ends (supervise/policy.h).
 *
 * What.   Each child is monitored; its end comes as a DOWN, and the request that the supervisor end as a CANCEL.  All else stays in the
 *         mailbox, and is looked at once (wefti_receive_told).  A child that begins sets a flag and wakes the supervisor.  A supervisor ends only
 *         after its children: a cancelled one stops them first.
 * Cost.   A DOWN finds its child by the monitor's number in a hash table, and is read together with all the others that have come, so that the end of
 *         n children takes time in proportion to n.
 */
#include "fiber/slice.h"
#include "process/process.h"
#include "supervise/policy.h"

struct slot {
    const weft_process_child *child;
    weft_pid pid;
    uint64_t monitor; /* 0: it does not run; else the slot is in the table */
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
    uint32_t *table; /* open addressing, by the monitor: 1 + the slot's number; 0: free */
    size_t mask; /* of the table's size, a power of two and more than twice `count` */
    size_t ended; /* slots that have `ended` and were not reaped */
    bool asked; /* to end */
};

static struct supervisor *supervisor_of(struct wefti_sup *sup) { return (struct supervisor *)(void *)sup; }

/* -- Monitors ------------------------------------------------------------------------------------------------- */

static size_t home_of(const struct supervisor *sup, uint64_t monitor) {
    return (size_t)(wefti_monitor_count(monitor) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & sup->mask;
}

/* Where the monitor is in the table, or would be. */
static size_t find_monitor(const struct supervisor *sup, uint64_t monitor) {
    size_t at = home_of(sup, monitor);
    while (sup->table[at] && sup->slots[sup->table[at] - 1].monitor != monitor)
        at = (at + 1) & sup->mask;
    return at;
}

/* NULL: it is not a child's. */
static struct slot *slot_of(const struct supervisor *sup, uint64_t monitor) {
    uint32_t found = sup->table[find_monitor(sup, monitor)];
    return found ? &sup->slots[found - 1] : NULL;
}

/* The entries behind it move up, unless that would be before their home. */
static void remove_monitor(struct supervisor *sup, uint64_t monitor) {
    size_t hole = find_monitor(sup, monitor);
    for (size_t at = (hole + 1) & sup->mask; sup->table[at]; at = (at + 1) & sup->mask) {
        size_t home = home_of(sup, sup->slots[sup->table[at] - 1].monitor);
        if (((at - home) & sup->mask) >= ((at - hole) & sup->mask)) {
            sup->table[hole] = sup->table[at];
            hole = at;
        }
    }
    sup->table[hole] = 0;
}

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
    struct supervisor *self = supervisor_of(sup);
    struct slot *slot = &self->slots[at];
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
    int error = weft_process_spawn_monitored(&spec, &slot->pid, &slot->monitor);
    if (!error)
        self->table[find_monitor(self, slot->monitor)] = (uint32_t)at + 1; /* before its DOWN is read */
    return error;
}

static bool reap(struct wefti_sup *sup, size_t at, int *status) {
    struct supervisor *self = supervisor_of(sup);
    struct slot *slot = &self->slots[at];
    if (!slot->ended)
        return false;
    remove_monitor(self, slot->monitor);
    slot->monitor = 0;
    self->ended--;
    *status = slot->status;
    return true;
}

/* -- Waiting for them ------------------------------------------------------------------------------------------- */

static bool is_ours(const weft_message *message, void *arg) {
    return message->type == WEFT_MESSAGE_CANCEL || (message->type == WEFT_MESSAGE_DOWN && slot_of(arg, message->tag));
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
        sup->ended++;
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
    while (!error && !self->ended)
        error = self->asked ? -ECANCELED : hear(self, until);
    while (!error && !self->asked && !hear(self, WEFT_NOW))
        ; /* all that have ended by now: each pass over the children sees to many */
    return error;
}

static bool has_begun(struct wefti_sup *sup, size_t at) {
    return load_relaxed(&supervisor_of(sup)->slots[at].begun); /* as there */
}

/* Or something has come, which may be that it has ended. */
static bool has_begun_or_come(void *arg) {
    struct slot *slot = arg;
    return load_relaxed(&slot->begun) || wefti_something_came(wefti_process_self()); /* as there */
}

static void see_begin(struct wefti_sup *sup, size_t at) {
    struct supervisor *self = supervisor_of(sup);
    struct slot *slot = &self->slots[at];
    int error = 0;
    while (!error && !load_relaxed(&slot->begun) && !slot->ended && !self->asked) /* as there */
        if (hear(self, WEFT_NOW))
            error = wefti_fiber_wait(wefti_fiber_self(), has_begun_or_come, slot, WEFT_NEVER, "a child's begin");
}

static int ask(struct wefti_sup *sup, size_t at, int64_t until) {
    struct supervisor *self = supervisor_of(sup);
    weft_pid pid = self->slots[at].pid;
    (void)until;
    if (weft_process_cancel(self->self->table->rt, pid) == -ENOMEM)
        return -ENOMEM;
    wefti_process_interrupt(self->self->table, pid);
    return 0;
}

static int await(struct wefti_sup *sup, size_t at, int64_t until) {
    struct weft_task *task = &wefti_fiber_self()->task;
    bool shielded = wefti_word_shield(&task->word); /* we may have been cancelled, and go on until they have ended */
    int error = listen(supervisor_of(sup), at, until);
    if (shielded)
        wefti_word_unshield(&task->word);
    return error;
}

static void force(struct wefti_sup *sup, size_t at) {
    struct supervisor *self = supervisor_of(sup);
    wefti_process_force(self->self->table, self->slots[at].pid);
    while (await(sup, at, WEFT_NEVER)) /* our own time is over */
        wefti_receive_firmly(self->self, "a child");
}

static bool goes_on(struct wefti_sup *sup) {
    return !supervisor_of(sup)->asked && !wefti_fiber_must_end(wefti_fiber_self());
}

static const struct wefti_sup_kind processes = {start, see_begin, has_begun, reap, wait, ask, await,
                                                force, goes_on,   NULL,      NULL, NULL, NULL};

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

/* How long the child may take to end: as wefti_sup_child. */
static int64_t shutdown_of(const weft_process_child *child, int64_t grace) {
    const weft_process_spec *spec = &child->spec;
    int64_t asked = spec->size >= offsetof(weft_process_spec, shutdown) + sizeof spec->shutdown ? spec->shutdown : 0;
    if (asked == WEFT_SHUTDOWN_KILL)
        return 0;
    int64_t time = asked ? asked : grace;
    return time > 0 ? time : WEFT_NEVER;
}

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
    size_t allowed = wefti_sup_allowed(&sup.sup.config), size = 4;
    while (size <= 2 * count)
        size *= 2;
    size_t each = sizeof *sup.slots + sizeof *sup.sup.children + sizeof *sup.order;
    size_t bytes = count * each + allowed * sizeof(int64_t) + size * sizeof *sup.table;
    sup.slots = wefti_alloc(bytes);
    if (!sup.slots)
        return -ENOMEM;
    sup.sup.children = (struct wefti_sup_child *)(void *)(sup.slots + count);
    sup.order = (size_t *)(void *)(sup.sup.children + count);
    sup.sup.restarts = (int64_t *)(void *)(sup.order + count);
    sup.sup.told_as = sup.order;
    sup.table = (uint32_t *)(void *)(sup.sup.restarts + allowed);
    sup.mask = size - 1;
    error = sort(&sup, children);
    for (size_t i = 0; i < count && !error; i++) {
        const weft_process_child *child = &children[sup.order[i]];
        sup.slots[i] = (struct slot){.child = child};
        sup.sup.children[i] =
            (struct wefti_sup_child){.restart = child->restart, .shutdown = shutdown_of(child, sup.sup.config.grace)};
    }
    if (!error)
        error = wefti_sup_run(&sup.sup);
    wefti_free(sup.slots, bytes);
    return error;
}
