/* link.c - links and monitors: who is told when a process ends.
 * Both sides of a link have a record, each under its own process's lock; never two locks at once, so that ends may cross: an
 * end that meets a record of a process that has gone tells nobody. */
#include "process/process.h"

/* Under the lock of `process`.  False: no memory. */
static bool add(struct wefti_process *process, weft_pid pid, uint64_t monitor) {
    for (struct wefti_link_record *record = process->links; record; record = record->next)
        if (record->pid == pid && record->monitor == monitor)
            return true;
    struct wefti_link_record *record = wefti_alloc(sizeof *record);
    if (!record)
        return false;
    *record = (struct wefti_link_record){process->links, pid, monitor};
    process->links = record;
    return true;
}

static void drop(struct wefti_process *process, weft_pid pid, uint64_t monitor) {
    for (struct wefti_link_record **at = &process->links; *at; at = &(*at)->next)
        if ((!pid || (*at)->pid == pid) && (*at)->monitor == monitor) {
            struct wefti_link_record *record = *at;
            *at = record->next;
            wefti_free(record, sizeof *record);
            return;
        }
}

/* A linked process has ended with `reason`: pass it on, or tell. */
static void linked_ended(struct wefti_processes *table, weft_pid to, weft_pid pid, int reason) {
    struct wefti_process *process = wefti_process_lock(table, to);
    if (!process)
        return;
    bool trap = process->trap_exit;
    drop(process, pid, 0);
    wefti_lock_give(&process->lock);
    if (trap)
        wefti_mailbox_tell(table, to, WEFT_MESSAGE_EXIT, 0, pid, reason, NULL, 0);
    else if (reason)
        weft_process_exit(table->rt, to, reason);
}

void wefti_links_end(struct wefti_process *process, struct wefti_link_record *links, weft_pid pid, int reason) {
    struct wefti_processes *table = process->table;
    for (struct wefti_link_record *next; links; links = next) {
        next = links->next;
        if (links->monitor)
            wefti_mailbox_tell(table, links->pid, WEFT_MESSAGE_DOWN, links->monitor, pid, reason, NULL, 0);
        else
            linked_ended(table, links->pid, pid, reason);
        wefti_free(links, sizeof *links);
    }
}

void wefti_links_forget(struct wefti_processes *table, struct wefti_link_record *links, weft_pid pid) {
    for (struct wefti_link_record *next; links; links = next) {
        next = links->next;
        struct wefti_process *other = links->monitor ? NULL : wefti_process_lock(table, links->pid);
        if (other) {
            drop(other, pid, 0);
            wefti_lock_give(&other->lock);
        }
        wefti_free(links, sizeof *links);
    }
}

static int link_one(struct wefti_processes *table, weft_pid from, weft_pid to, uint64_t monitor) {
    struct wefti_process *process = wefti_process_lock(table, from);
    if (!process)
        return -ESRCH;
    bool done = add(process, to, monitor);
    wefti_lock_give(&process->lock);
    return done ? 0 : -ENOMEM;
}

static void unlink_one(struct wefti_processes *table, weft_pid from, weft_pid to, uint64_t monitor) {
    struct wefti_process *process = wefti_process_lock(table, from);
    if (!process)
        return;
    drop(process, to, monitor);
    wefti_lock_give(&process->lock);
}

/* The other's record first: should it end in between, it tells us, and finds that we know nothing of it yet, or do. */
int wefti_link_both(struct wefti_processes *table, weft_pid a, weft_pid b) {
    int error = link_one(table, b, a, 0);
    if (error)
        return error;
    error = link_one(table, a, b, 0);
    if (error)
        unlink_one(table, b, a, 0);
    return error;
}

int wefti_monitor_by(struct wefti_processes *table, weft_pid by, weft_pid pid, uint64_t monitor) {
    return link_one(table, pid, by, monitor);
}

int weft_link(weft_pid pid) {
    struct wefti_process *self = wefti_process_self();
    if (!self)
        return -EINVAL;
    weft_pid me = wefti_process_pid(self);
    if (pid == me)
        return 0;
    int error = wefti_link_both(self->table, me, pid);
    if (error == -ESRCH && self->trap_exit)
        wefti_mailbox_tell(self->table, me, WEFT_MESSAGE_EXIT, 0, pid, -ESRCH, NULL, 0);
    return error;
}

int weft_unlink(weft_pid pid) {
    struct wefti_process *self = wefti_process_self();
    if (!self)
        return -EINVAL;
    weft_pid me = wefti_process_pid(self);
    unlink_one(self->table, pid, me, 0);
    unlink_one(self->table, me, pid, 0);
    return 0;
}

int weft_trap_exit(bool trap) {
    struct wefti_process *self = wefti_process_self();
    if (!self)
        return -EINVAL;
    wefti_lock_take(&self->lock);
    self->trap_exit = trap;
    wefti_lock_give(&self->lock);
    return 0;
}

/* The number of a monitor also says whom it is about, for weft_demonitor: the slot's index in the lower half. */
uint64_t wefti_monitor_number(struct wefti_processes *table, uint32_t index) {
    return add_relaxed(&table->next_monitor, 1) << 32 | index; /* a number */
}

int weft_monitor(weft_pid pid, uint64_t *monitor) {
    struct wefti_process *self = wefti_process_self();
    if (!self || !monitor)
        return -EINVAL;
    weft_pid me = wefti_process_pid(self);
    *monitor = wefti_monitor_number(self->table, (uint32_t)pid);
    int error = wefti_monitor_by(self->table, me, pid, *monitor);
    return error == -ESRCH ? wefti_mailbox_tell(self->table, me, WEFT_MESSAGE_DOWN, *monitor, pid, -ESRCH, NULL, 0)
                           : error;
}

int weft_demonitor(uint64_t monitor) {
    struct wefti_process *self = wefti_process_self();
    if (!self)
        return -EINVAL;
    struct wefti_process *process = wefti_process_at(self->table, (uint32_t)monitor);
    if (process) {
        wefti_lock_take(&process->lock);
        drop(process, WEFT_PID_NONE, monitor);
        wefti_lock_give(&process->lock);
    }
    return 0;
}
