/* process.c - starting and ending processes. */
#include <string.h>

#include "budget/profile.h"
#include "process/context.h"
#include "process/helper.h"
#include "sched/label.h"

/* -- Who am I ---------------------------------------------------------------------------------------------- */

struct wefti_process *wefti_process_self(void) {
    struct wefti_worker *w = wefti_worker_here();
    return w && wefti_current(w) ? wefti_process_of(wefti_current(w)) : NULL;
}

weft_pid weft_self(void) {
    struct wefti_process *self = wefti_process_self();
    return self ? wefti_process_pid(self) : WEFT_PID_NONE;
}

bool weft_process_is_alive(weft_runtime *rt, weft_pid pid) {
    struct wefti_process *process = wefti_process_lock(wefti_processes_of(rt, false), pid);
    if (process)
        wefti_lock_give(&process->lock);
    return process != NULL;
}

/* -- Ending ------------------------------------------------------------------------------------------------ */

/* Whoever looks for the pid from now on finds nothing.  Returns its links; *reason: how it ended. */
static struct wefti_message *leave(struct wefti_process *process, int *reason) {
    struct wefti_chain unread = {NULL, NULL, 0};
    wefti_lock_take(&process->lock);
    bool named = process->named;
    if (WEFTI_UNLIKELY(named)) { /* names go with it: who finds it ended finds them free.  Their lock comes first. */
        wefti_lock_give(&process->lock);
        wefti_lock_take(&process->table->names_lock);
        wefti_lock_take(&process->lock);
        wefti_names_end(process);
    }
    struct wefti_message *links = wefti_records_take_all(process);
    store_relaxed(&process->alive, false); /* the lock orders it, as the next */
    store_relaxed(&process->ending, true);
    *reason = process->reason ? process->reason : *reason;
    store_relaxed(&process->task, NULL); /* a late sender wakes nobody, or whoever is there next */
    wefti_mailbox_close(process, &unread);
    bool waited_for =
        process->bounded && wefti_rest(process)->senders.first; /* nobody comes after this: it is not alive */
    wefti_lock_give(&process->lock);
    if (WEFTI_UNLIKELY(named))
        wefti_lock_give(&process->table->names_lock);
    if (WEFTI_UNLIKELY(waited_for))
        wefti_mailbox_turn_away(process);
    if (unread.count)
        wefti_messages_free(process->table, &unread);
    return links;
}

/* On a worker, once, when the task is over. */
static void ended(struct wefti_process *process, int status) {
    struct wefti_processes *table = process->table;
    struct wefti_message *links = leave(process, &status);
    struct wefti_worker *w = wefti_worker_here(); /* release functions are the user's */
    wefti_process_count(table, w, -1);
    wefti_process_give(process, w);
    if (links) /* last: who hears of its end may have another in its place */
        wefti_links_end(table, links, status);
}

static void fiber_ended(struct wefti_fiber *fiber) {
    ended(wefti_process_of(&fiber->task), load_own(&fiber->task.status));
}
const struct wefti_owner_kind wefti_process_owner = {fiber_ended, NULL, NULL};

/* The drop function of a class's task. */
static void class_ended(void *state) {
    struct wefti_process_header *header = state;
    struct wefti_process *process = header->process;
    struct weft_task *task = load_own(&process->task);
    if (header->class_->close)
        header->class_->close(header + 1);
    wefti_start_free(task->pointer);
    ended(process, load_own(&task->status));
}

const char *wefti_process_describe(struct weft_task *task) { return task->drop == class_ended ? "a message" : NULL; }

struct weft_task *wefti_process_condemn(struct wefti_process *process, int reason) {
    if (!process->reason)
        process->reason = reason;
    struct weft_task *task = load_own(&process->task); /* alive while the lock is held */
    wefti_word_ref(&task->word);
    return task;
}

void wefti_process_execute(struct weft_task *task) {
    wefti_cancel(task, WEFT_REASON_EXPLICIT);
    wefti_task_unref(task, 0);
}

static int end(struct wefti_processes *table, weft_pid pid, int reason, bool force) {
    struct wefti_process *process = wefti_process_lock(table, pid);
    if (!process)
        return -ESRCH;
    struct weft_task *task = wefti_process_condemn(process, reason);
    wefti_lock_give(&process->lock);
    if (force && wefti_task_is_fiber(task))
        wefti_fiber_limit(wefti_fiber_of(task), weft_after(0));
    wefti_process_execute(task);
    return 0;
}

int weft_process_exit(weft_runtime *rt, weft_pid pid, int reason) {
    struct wefti_processes *table = wefti_processes_of(rt, false);
    if (reason >= 0)
        return -EINVAL;
    return table ? end(table, pid, reason, false) : wefti_no_processes(rt, -ESRCH);
}

void wefti_process_force(struct wefti_processes *table, weft_pid pid) { end(table, pid, -ECANCELED, true); }

int weft_process_cancel(weft_runtime *rt, weft_pid pid) {
    struct wefti_processes *table = wefti_processes_of(rt, false);
    if (!table)
        return wefti_no_processes(rt, -ESRCH);
    struct wefti_process *self = wefti_process_self();
    weft_pid from = self && self->table == table ? wefti_process_pid(self)
                                                 : WEFT_PID_NONE; /* one of another runtime has no pid here */
    return wefti_mailbox_ask_to_end(table, pid, from);
}

/* -- Starting ---------------------------------------------------------------------------------------------- */

static bool has_method(const weft_process_class *class_, const char *method) {
    if (!class_->methods)
        return true;
    for (const char *const *known = class_->methods; method && *known; known++)
        if (!strcmp(*known, method))
            return true;
    return false;
}

/* A class of an earlier header has no such field. */
static bool has_init_ctx(const weft_process_class *class_) {
    return class_->size >= sizeof *class_ && class_->init_ctx != NULL;
}

/* The payloads: one of two forms, and a list only for a class that takes one. */
static bool has_bad_inputs(const weft_process_spec *spec) {
    return spec->input_count && (!spec->class_ || !spec->inputs || spec->input || spec->input_size ||
                                 (spec->input_count > 1 && !has_init_ctx(spec->class_)));
}

static int check(const weft_process_spec *spec) {
    const weft_process_class *class_ = spec->class_;
    if (!spec->fn == !class_ || (unsigned)spec->policy > WEFT_MAILBOX_DROP_OLDEST)
        return -EINVAL;
    if (class_ && (spec->fund || spec->budget || spec->cap || spec->release || class_->size < WEFTI_CLASS_SIZE_MIN ||
                   !class_->step || class_->state_size > WEFT_PROCESS_STATE_MAX || !has_method(class_, spec->method)))
        return -EINVAL;
    return has_bad_inputs(spec) || (spec->context && !class_) ? -EINVAL : 0;
}

/* A slot that nobody knows yet becomes this process; its lane is closed. */
static void settle_in(struct wefti_process *process, const weft_process_spec *spec) {
    process->is_fiber = spec->fn != NULL;
    process->state_room = spec->class_ ? (uint16_t)spec->class_->state_size : 0;
    process->blocked = process->idle = false;
    process->in_flight = 0;
    process->links = NULL;
    process->bounded = spec->max_messages || spec->max_bytes;
    process->policy = (uint8_t)spec->policy;
    process->trap_exit = spec->trap_exit;
    process->told = process->awaits = process->outdated = process->heard = false;
    process->reason = 0;
    store_relaxed(&process->wake_blocked, spec->wake_blocked_on_message); /* O2 publishes it, and the next */
    store_relaxed(&process->receiving, !process->is_fiber);
    if (process->is_fiber) {
        wefti_rest(process)->owner.kind = &wefti_process_owner;
        wefti_rest(process)->asking = 0; /* the one before may have been left in the midst of it */
    }
    if (WEFTI_UNLIKELY(process->bounded)) {
        wefti_rest(process)->max_messages = spec->max_messages;
        wefti_rest(process)->max_bytes = spec->max_bytes;
    }
}

/* The caller's name, which may be gone soon, is copied; a class's name stays as long as the class.  False: no memory. */
static bool copy_name(const weft_process_spec *spec, const struct wefti_room *room) {
    return !spec->name || (room->task->owns & WEFTI_LABELLED) || wefti_label_put(room->rt, room->task, NULL);
}

static int make_fiber(struct weft_runtime *rt, struct wefti_process *process, const weft_process_spec *spec,
                      struct wefti_room *room) {
    weft_fiber_spec fiber = WEFT_FIBER_SPEC_INIT;
    fiber.fn = spec->fn;
    fiber.arg = spec->arg;
    fiber.name = spec->name ? spec->name : "process";
    fiber.stack_size = spec->stack_size;
    fiber.fund = spec->fund;
    fiber.budget = spec->budget;
    fiber.cap = spec->cap;
    fiber.release = spec->release;
    int error = wefti_fiber_make(rt, &fiber, &wefti_rest(process)->owner, room);
    if (error || copy_name(spec, room))
        return error;
    wefti_fiber_unmake(room, &fiber);
    return -ENOMEM;
}

static void *class_state(struct weft_task *task) {
    return (struct wefti_process_header *)(void *)(task + 1) + 1; /* WEFTI_STATE_LARGE */
}

/* Calls init, or init_ctx with a copy of what the spec points to, which the task then has: NULL if there is nothing to copy. */
static int call_init(const weft_process_spec *spec, struct weft_task *task, weft_pid self, void *state) {
    static const weft_context empty = {.size = sizeof empty, .deadline = WEFT_NEVER};
    const weft_process_class *class_ = spec->class_;
    bool takes_context = has_init_ctx(class_);
    struct wefti_start *start = NULL;
    int error = 0;
    task->pointer = NULL;
    if (WEFTI_UNLIKELY(spec->context || spec->input_count || (takes_context && (spec->input || spec->input_size))))
        error = wefti_start_copy(spec, &start);
    if (error)
        return error;
    if (takes_context)
        error = class_->init_ctx(state, self, spec->method, start ? &start->context : &empty,
                                 start ? start->inputs : NULL, start ? start->input_count : 0);
    else if (class_->init && start && start->input_count)
        error = class_->init(state, self, spec->method, start->inputs[0].data, start->inputs[0].size);
    else if (class_->init)
        error = class_->init(state, self, spec->method, spec->input, spec->input_size);
    if (error)
        wefti_start_free(start);
    else
        task->pointer = start; /* its state lies behind the task, so that the field is free */
    return error;
}

/* A class: init runs here, in the caller, so that its refusal is the caller's error (W4). */
static int make_class(struct weft_runtime *rt, struct wefti_process *process, const weft_process_spec *spec,
                      struct wefti_room *room) {
    const weft_process_class *class_ = spec->class_;
    bool limited = load_relaxed(&rt->limited) && !process->own; /* set before there is anybody to ask about */
    int error = limited ? wefti_admit_poll(rt) : 0;
    if (error)
        return error;
    error = wefti_spawn_room(rt, sizeof(struct wefti_process_header) + class_->state_size, room);
    if (error)
        goto refused;
    struct weft_task *task = room->task;
    task->name = spec->name ? spec->name : class_->name ? class_->name : "process";
    task->poll = wefti_process_poll;
    task->drop = class_ended;
    task->home = 0;
    task->layout |= WEFTI_STATE_LARGE;
    struct wefti_process_header *header = wefti_task_state(task);
    header->process = process;
    header->class_ = class_;
    memset(header + 1, 0, class_->state_size);
    error = copy_name(spec, room) ? call_init(spec, task, wefti_process_pid(process), header + 1) : -ENOMEM;
    struct wefti_worker *w = wefti_worker_here(); /* init may have waited, and be on another by now */
    room->w = w && w->rt == rt ? w : NULL;
    if (!error)
        return 0;
    wefti_spawn_unroom(room);
refused:
    if (limited)
        wefti_admit_refund(rt);
    return error < 0 ? error : -EINVAL;
}

/* What a process has from the first moment: a link, a monitor, a command that it completes. */
struct ties {
    struct wefti_process *linked; /* NULL: no link, no monitor */
    uint64_t *monitor; /* not NULL: a monitor instead of a link */
    const weft_command *command;
};

/* It exists from here on, O1 and O2: messages may come before it has run.  On failure it is to be refused. */
static inline int appear(struct wefti_process *process, const weft_process_spec *spec, const struct wefti_room *room,
                         const struct ties *ties, uint64_t monitor) {
    struct wefti_process *linked = ties->linked;
    struct wefti_processes *table = process->table;
    weft_pid pid = wefti_process_pid(process);
    store_relaxed(&process->task, room->task); /* O2 publishes it */
    wefti_mailbox_open(process, !process->is_fiber && room->w && room->w->alone);
    store_release(&process->alive, true); /* A1, pairs with wefti_process_lock and the others that have the lock */
    int error = WEFTI_UNLIKELY(spec->registered != NULL) ? weft_register(table->rt, spec->registered, pid) : 0;
    if (!error && linked)
        error = monitor ? wefti_monitor_add(table, pid, wefti_process_pid(linked), monitor, NULL)
                        : wefti_link_both(table, wefti_process_pid(linked), pid);
    if (!error && WEFTI_UNLIKELY(ties->command != NULL))
        error = wefti_helper_attach(class_state(room->task), ties->command, room->task);
    if (WEFTI_UNLIKELY(wefti_process_is_late(table)) && !error)
        wefti_process_tell_stop(table, pid);
    return error;
}

/* It never began, and ends as one that nobody hears of. */
static void disappear(struct weft_task *task) {
    int reason = 0;
    struct wefti_process *process = wefti_process_of(task);
    wefti_links_forget(process->table, leave(process, &reason));
    struct wefti_process_header *header = process->is_fiber ? NULL : wefti_task_state(task);
    if (header && header->class_->close)
        header->class_->close(header + 1);
    if (header)
        wefti_start_free(task->pointer);
}

static int spawn(struct weft_runtime *rt, const weft_process_spec *spec, bool own, struct ties ties, weft_pid *pid,
                 weft_task **handle) {
    weft_process_spec known;
    struct wefti_room room;
    struct wefti_worker *w = wefti_worker_self();
    rt = rt ? rt : w ? w->rt : NULL;
    if (!spec || !rt || (!w && WEFTI_UNLIKELY(wefti_is_forked())))
        return wefti_no_process();
    int error = 0;
    if (WEFTI_UNLIKELY(spec->size != sizeof known)) {
        error = wefti_known_struct(spec, offsetof(weft_process_spec, arg), &known, sizeof known);
        spec = &known;
    }
    if (error || (error = check(spec)))
        return error;
    if (WEFTI_UNLIKELY(load_relaxed(&rt->limited)) && !own &&
        (error = wefti_admit_process(rt))) /* set with the profile */
        return error;
    struct wefti_processes *table = wefti_processes_of(rt, true);
    if (!table)
        return -ENOMEM;
    if (load_relaxed(&table->closing) && !(w && w->rt == rt)) /* a flag, as the runtime's phase */
        return -ESHUTDOWN;
    struct wefti_process *process;
    if ((error = wefti_process_take(table, w, own, &process)))
        return error;
    settle_in(process, spec);
    weft_pid self = wefti_process_pid(process), before = pid ? *pid : WEFT_PID_NONE;
    uint64_t number = ties.monitor ? wefti_monitor_number(ties.linked, self) : 0;
    error = spec->fn ? make_fiber(rt, process, spec, &room) : make_class(rt, process, spec, &room);
    if (error) { /* init knew its pid, but its lane is closed, and it was not alive */
        wefti_process_give(process, wefti_worker_here());
        return error;
    }
    if (pid)
        *pid = self; /* first: it may run at once */
    room.undo = disappear;
    room.urgent = own; /* a stop of all processes is not refused because there are too many of them */
    wefti_word_spawn(&room.task->word, handle != NULL); /* O1: who finds it may wake and cancel it */
    wefti_process_count(table, room.w, 1);
    error = appear(process, spec, &room, &ties, number);
    if (error)
        wefti_spawn_refuse(&room, handle != NULL);
    else
        error = wefti_spawn_submit_born(&room, handle);
    if (error) {
        w = wefti_worker_here();
        wefti_process_count(table, w, -1);
        wefti_process_give(process, w);
        if (pid)
            *pid = before;
    } else if (ties.monitor) {
        *ties.monitor = number;
    }
    return error;
}

bool wefti_process_spec_releases(const weft_process_spec *spec) {
    return spec->size >= offsetof(weft_process_spec, release) + sizeof spec->release && spec->release;
}

int weft_process_spawn(weft_runtime *rt, const weft_process_spec *spec, weft_pid *pid, weft_task **handle) {
    return spawn(rt, spec, false, (struct ties){0}, pid, handle);
}

int wefti_process_spawn_own(struct weft_runtime *rt, const weft_process_spec *spec, weft_task **handle) {
    return spawn(rt, spec, true, (struct ties){0}, NULL, handle);
}

int wefti_process_spawn_helper(const weft_process_spec *spec, const weft_command *command) {
    weft_task *handle;
    return spawn(command->rt, spec, true, (struct ties){.command = command}, NULL, &handle);
}

int weft_process_go(weft_runtime *rt, weft_fiber_fn fn, void *arg, weft_pid *pid) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    return spawn(rt, &spec, false, (struct ties){0}, pid, NULL);
}

int weft_process_spawn_linked(const weft_process_spec *spec, weft_pid *pid) {
    struct wefti_process *self = wefti_process_self();
    return self ? spawn(self->table->rt, spec, false, (struct ties){.linked = self}, pid, NULL) : wefti_no_process();
}

int weft_process_spawn_monitored(const weft_process_spec *spec, weft_pid *pid, uint64_t *monitor) {
    struct wefti_process *self = wefti_process_self();
    if (!self || !monitor)
        return wefti_no_process();
    return spawn(self->table->rt, spec, false, (struct ties){.linked = self, .monitor = monitor}, pid, NULL);
}
