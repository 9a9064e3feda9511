/* process.c - starting and ending processes. */
#include "process/process.h"

#include <string.h>

/* In front of a class's own state. */
struct header {
    struct wefti_process *process;
    uint64_t align;
};

/* -- Who am I ---------------------------------------------------------------------------------------------- */

static void fiber_ended(struct wefti_fiber *fiber);

static struct wefti_process *process_of(struct weft_task *task) {
    if (wefti_task_is_fiber(task)) {
        struct wefti_owner *owner = wefti_fiber_of(task)->owner;
        return owner && owner->ended == fiber_ended
                   ? (struct wefti_process *)(void *)((char *)owner - offsetof(struct wefti_process, owner))
                   : NULL;
    }
    return task->poll == wefti_process_poll ? ((struct header *)wefti_task_state(task))->process : NULL;
}

struct wefti_process *wefti_process_self(void) {
    struct wefti_worker *w = wefti_worker_here();
    return w && w->current ? process_of(w->current) : NULL;
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

uint64_t weft_process_count(weft_runtime *rt) {
    struct wefti_processes *table = wefti_processes_of(rt, false);
    return table ? load_relaxed(&table->alive) : 0; /* a figure */
}

/* -- Ending ------------------------------------------------------------------------------------------------ */

/* On a worker, once, when the task is over.  Whoever looks for the pid from now on finds nothing. */
void wefti_process_ended(struct wefti_process *process, int status) {
    struct wefti_waiters senders;
    wefti_lock_take(&process->lock);
    weft_pid pid = wefti_process_pid(process);
    int reason = process->reason ? process->reason : status;
    struct wefti_link_record *links = process->links;
    process->links = NULL;
    process->alive = false;
    senders = process->senders;
    process->senders = (struct wefti_waiters){NULL, NULL};
    store_relaxed(&process->task, NULL); /* a late sender wakes nobody, or whoever is there next */
    wefti_mailbox_close(process);
    for (struct wefti_waiter *waiter; (waiter = wefti_waiters_take(&senders));) {
        waiter->result = -ESRCH;
        wefti_waiter_wake(wefti_waiter_serve(waiter)); /* under the lock: the few that block on a process that ends */
    }
    wefti_lock_give(&process->lock);
    wefti_names_end(process, pid);
    wefti_links_end(process, links, pid, reason);
    sub_relaxed(&process->table->alive, 1); /* a figure */
    wefti_process_give(process);
}

static void fiber_ended(struct wefti_fiber *fiber) {
    wefti_process_ended(process_of(&fiber->task), fiber->task.status);
}

/* The drop function of a class's task. */
static void class_ended(void *state) {
    struct header *header = state;
    struct wefti_process *process = header->process;
    struct weft_task *task = load_own(&process->task);
    if (process->class_->close)
        process->class_->close(header + 1);
    wefti_process_ended(process, task->status);
}

static int end(struct weft_runtime *rt, weft_pid pid, int reason) {
    struct wefti_process *process = wefti_process_lock(wefti_processes_of(rt, false), pid);
    if (!process)
        return -ESRCH;
    if (!process->reason)
        process->reason = reason;
    weft_task_cancel(load_own(&process->task)); /* alive while we hold the lock */
    wefti_lock_give(&process->lock);
    return 0;
}

int weft_process_exit(weft_runtime *rt, weft_pid pid, int reason) {
    return reason >= 0 ? -EINVAL : end(rt, pid, reason);
}

int weft_process_cancel(weft_runtime *rt, weft_pid pid) {
    struct wefti_processes *table = wefti_processes_of(rt, false);
    return table ? wefti_mailbox_tell(table, pid, WEFT_MESSAGE_CANCEL, 0, weft_self(), -ECANCELED, NULL, 0) : -ESRCH;
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

/* A slot that nobody knows yet becomes this process. */
static void settle_in(struct wefti_process *process, const weft_process_spec *spec) {
    wefti_lock_take(&process->lock);
    process->owner.ended = fiber_ended;
    process->class_ = spec->class_;
    process->max_messages = spec->max_messages;
    process->max_bytes = spec->max_bytes;
    process->policy = (uint8_t)spec->policy;
    process->wake_blocked = spec->wake_blocked_on_message;
    process->is_fiber = spec->fn != NULL;
    process->blocked = process->idle = false;
    process->trap_exit = spec->trap_exit;
    process->reason = 0;
    process->in_flight = 0;
    process->named = false;
    process->current = NULL;
    process->pending = process->ordered = (struct wefti_chain){NULL, NULL, 0};
    process->ordered_bytes = 0;
    wefti_lock_give(&process->lock);
}

static int make_fiber(struct weft_runtime *rt, struct wefti_process *process, const weft_process_spec *spec,
                      struct wefti_room *room) {
    weft_fiber_spec fiber = WEFT_FIBER_SPEC_INIT;
    fiber.fn = spec->fn;
    fiber.arg = spec->arg;
    fiber.name = spec->name ? spec->name : "process";
    fiber.stack_size = spec->stack_size;
    return wefti_fiber_make(rt, &fiber, &process->owner, room);
}

/* A class: init runs here, in the caller, so that its refusal is the caller's error (W4). */
static int make_class(struct weft_runtime *rt, struct wefti_process *process, const weft_process_spec *spec,
                      struct wefti_room *room) {
    const weft_process_class *class_ = spec->class_;
    int error = wefti_spawn_room(rt, sizeof(struct header) + class_->state_size, room);
    if (error)
        return error;
    struct weft_task *task = room->task;
    task->name = spec->name ? spec->name : class_->name ? class_->name : "process";
    task->poll = wefti_process_poll;
    task->drop = class_ended;
    task->home = 0;
    task->layout = WEFTI_STATE_LARGE;
    struct header *header = wefti_task_state(task);
    header->process = process;
    memset(header + 1, 0, class_->state_size);
    if (class_->init)
        error = class_->init(header + 1, wefti_process_pid(process), spec->method, spec->input, spec->input_size);
    if (error)
        wefti_slab_give(&room->rt->slab, room->w ? &room->w->cache : NULL, task);
    return error < 0 ? error : error ? -EINVAL : 0;
}

/* It exists from here on: messages may come before it has run. */
static int appear(struct wefti_process *process, const weft_process_spec *spec, struct weft_task *task, weft_pid linked,
                  uint64_t monitor) {
    weft_pid pid = wefti_process_pid(process);
    struct wefti_processes *table = process->table;
    wefti_lock_take(&process->lock);
    process->alive = true;
    store_relaxed(&process->task, task); /* wakes before it is a task find it FREE */
    wefti_lock_give(&process->lock);
    add_relaxed(&table->alive, 1); /* a figure */
    int error = spec->registered ? weft_register(table->rt, spec->registered, pid) : 0;
    if (!error && linked)
        error = monitor ? wefti_monitor_by(table, linked, pid, monitor) : wefti_link_both(table, linked, pid);
    return error;
}

/* It never began, and ends as one that nobody hears of. */
static void disappear(struct wefti_process *process) {
    weft_pid pid = wefti_process_pid(process);
    wefti_lock_take(&process->lock);
    struct wefti_link_record *links = process->links;
    process->links = NULL;
    process->alive = false;
    store_relaxed(&process->task, NULL);
    wefti_mailbox_close(process);
    wefti_lock_give(&process->lock);
    wefti_names_end(process, pid);
    wefti_links_forget(process->table, links, pid);
    sub_relaxed(&process->table->alive, 1);
}

/* A class whose init has run, and which is not started after all. */
static void close_class(struct weft_task *task) {
    struct header *header = wefti_task_state(task);
    if (header->process->class_->close)
        header->process->class_->close(header + 1);
}

static int spawn(struct weft_runtime *rt, const weft_process_spec *given, weft_pid linked, uint64_t *monitor,
                 weft_pid *pid, weft_task **handle) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    struct wefti_room room;
    if (!given)
        return -EINVAL;
    int error = wefti_known_struct(given, offsetof(weft_process_spec, arg), &spec, sizeof spec);
    if (error)
        return error;
    if (!spec.fn == !spec.class_ || (unsigned)spec.policy > WEFT_MAILBOX_DROP_OLDEST)
        return -EINVAL;
    if (spec.class_ && (!spec.class_->step || !has_method(spec.class_, spec.method) ||
                        spec.class_->state_size > WEFT_STATE_MAX - sizeof(struct header)))
        return -EINVAL;
    if (!rt && !wefti_worker_self())
        return -EINVAL;
    struct wefti_processes *table = wefti_processes_of(rt, true);
    struct wefti_process *process = table ? wefti_process_take(table) : NULL;
    if (!process)
        return -ENOMEM;
    settle_in(process, &spec);
    uint64_t number = monitor ? wefti_monitor_number(table, process->index) : 0;
    error = spec.fn ? make_fiber(rt, process, &spec, &room) : make_class(rt, process, &spec, &room);
    if (error) {
        wefti_process_give(process);
        return error;
    }
    weft_pid before = pid ? *pid : WEFT_PID_NONE;
    if (pid)
        *pid = wefti_process_pid(process); /* first: it may run at once */
    room.undo = spec.class_ ? close_class : NULL;
    error = appear(process, &spec, room.task, linked, number);
    if (error) {
        if (room.undo)
            room.undo(room.task);
        wefti_slab_give(&room.rt->slab, room.w ? &room.w->cache : NULL, room.task);
    } else {
        error = wefti_spawn_submit(&room, handle);
    }
    if (error) {
        disappear(process);
        wefti_process_give(process);
        if (pid)
            *pid = before;
    } else if (monitor) {
        *monitor = number;
    }
    return error;
}

int weft_process_spawn(weft_runtime *rt, const weft_process_spec *spec, weft_pid *pid, weft_task **handle) {
    return spawn(rt, spec, WEFT_PID_NONE, NULL, pid, handle);
}

int weft_process_go(weft_runtime *rt, weft_fiber_fn fn, void *arg, weft_pid *pid) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    return spawn(rt, &spec, WEFT_PID_NONE, NULL, pid, NULL);
}

int weft_process_spawn_linked(const weft_process_spec *spec, weft_pid *pid) {
    weft_pid self = weft_self();
    return self ? spawn(NULL, spec, self, NULL, pid, NULL) : -EINVAL;
}

int weft_process_spawn_monitored(const weft_process_spec *spec, weft_pid *pid, uint64_t *monitor) {
    struct wefti_process *self = wefti_process_self();
    if (!self || !monitor)
        return -EINVAL;
    return spawn(NULL, spec, wefti_process_pid(self), monitor, pid, NULL);
}
