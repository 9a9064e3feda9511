/* link.c - links and monitors: who is told when a process ends.
 *
 * What.   A record lies in the list of the process whose end it tells of, under that process's lock, and becomes the message.  A link
 *         is two records, one on each side; never two locks at once.
 * Race.   link:   L1 my own record                 end:  E1 alive = false, the list taken, under the lock
 *                 L2 the other's, or it has ended:       E2 for each record, under the other's lock: has it a record
 *                    L3 take mine back                      of me?  It goes, and the message is put there
 *         unlink: U1 my own goes, U2 the other's
 * Claim.  An end is told to a linked process once, or not at all if that has unlinked before; never after it has unlinked.
 * Why.    L2 before E1: E2 finds L1.  L2 after E1: it fails, and L3 or E2 takes what L1 has put there; whoever does tells, which E2 can
 *         if the other linked us, too, or we it before.  One that was there before L1 is E2's, who may know nothing of it (the other's L2 came
 *         between our U1 and U2): so the call fails besides, as it would after E2.  After U1, E2 finds nothing.
 */
#include "process/helper.h"

static struct wefti_message *next_of(struct wefti_message *record) { return wefti_message_of(record->link.next); }

/* What lies in the list of `pid`, and tells `to`. */
static struct wefti_message *new_record(struct wefti_processes *table, weft_pid pid, weft_pid to, uint64_t monitor) {
    struct wefti_message *record =
        wefti_message_new(table, monitor ? WEFT_MESSAGE_DOWN : WEFT_MESSAGE_EXIT, monitor, NULL, 0);
    if (record) {
        record->from = pid;
        record->record.to = to;
    }
    return record;
}

/* -- Records --------------------------------------------------------------------------------------------------- */

/* Take the record of `to` out of the list of `pid`.  NULL: there is none. */
static struct wefti_message *take_out(struct wefti_processes *table, weft_pid pid, weft_pid to, uint64_t monitor) {
    struct wefti_process *process = wefti_process_lock(table, pid);
    if (!process)
        return NULL;
    struct wefti_message *record = wefti_record_find(process, to, monitor);
    if (record)
        wefti_record_take(process, record);
    wefti_lock_give(&process->lock);
    return record;
}

static bool drop(struct wefti_processes *table, weft_pid pid, weft_pid to, uint64_t monitor) {
    struct wefti_message *record = take_out(table, pid, to, monitor);
    if (record)
        wefti_message_free(table, record);
    return record != NULL;
}

int wefti_monitor_add(struct wefti_processes *table, weft_pid pid, weft_pid to, uint64_t monitor,
                      struct wefti_message **out) {
    struct wefti_message *record = new_record(table, pid, to, monitor);
    if (!record)
        return -ENOMEM;
    struct wefti_process *process = wefti_process_lock(table, pid);
    bool put_in = process && (monitor || !wefti_record_find(process, to, 0)); /* linked twice is linked */
    if (put_in)
        wefti_record_put(process, record);
    if (process)
        wefti_lock_give(&process->lock);
    if (!put_in)
        wefti_message_free(table, record);
    else if (out)
        *out = record;
    return process ? 0 : -ESRCH;
}

bool wefti_monitor_remove(struct wefti_processes *table, weft_pid pid, struct wefti_message *record) {
    struct wefti_process *process = wefti_process_lock(table, pid);
    if (!process)
        return false;
    wefti_record_take(process, record);
    wefti_lock_give(&process->lock);
    wefti_message_free(table, record);
    return true;
}

/* -- Ending ---------------------------------------------------------------------------------------------------- */

/* The record is the message. */
static void tell(struct wefti_processes *table, struct wefti_message *record, int reason) {
    weft_pid to = record->record.to;
    struct wefti_process *process = wefti_process_find(table, to);
    record->error = reason;
    if (!process || !wefti_mailbox_push_system(process, wefti_pid_generation(to), record))
        wefti_message_free(table, record);
}

/* E2.  Told under the lock: what comes, has come before a weft_unlink that finds nothing any more returns. */
static void tell_linked(struct wefti_processes *table, struct wefti_message *record, int reason) {
    weft_pid to = record->record.to;
    bool first = false, trap = false;
    struct wefti_message *others = NULL;
    struct wefti_process *process = wefti_process_lock(table, to);
    if (process) {
        others = wefti_record_find(process, record->from, 0);
        if (others)
            wefti_record_take(process, others);
        trap = others && process->trap_exit;
        record->error = reason;
        if (trap)
            first = wefti_mailbox_put_system(process, record);
        wefti_lock_give(&process->lock);
    }
    if (first)
        wefti_mailbox_wake(process);
    if (!trap)
        wefti_message_free(table, record);
    if (!others)
        return;
    wefti_message_free(table, others);
    if (!trap && reason)
        weft_process_exit(table->rt, to, reason);
}

void wefti_links_end(struct wefti_processes *table, struct wefti_message *links, int reason) {
    for (struct wefti_message *next; links; links = next) {
        next = next_of(links);
        if (links->type == WEFTI_RECORD_HELPER) {
            wefti_helper_cancel(links); /* helper.h, E2 */
            wefti_message_free(table, links);
        } else if (links->tag)
            tell(table, links, reason);
        else
            tell_linked(table, links, reason);
    }
}

void wefti_links_forget(struct wefti_processes *table, struct wefti_message *links) {
    for (struct wefti_message *next; links; links = next) {
        next = next_of(links);
        if (!links->tag)
            drop(table, links->record.to, links->from, 0);
        wefti_message_free(table, links);
    }
}

/* -- Links ------------------------------------------------------------------------------------------------------ */

int wefti_link_both(struct wefti_processes *table, weft_pid self, weft_pid other) {
    if (other == WEFT_PID_NONE)
        return -ESRCH; /* a record of it would not be found again: that is what helpers are about */
    struct wefti_message *mine = NULL; /* if they were not linked already */
    int error = wefti_monitor_add(table, self, other, 0, &mine); /* L1 */
    if (error)
        return error;
    error = wefti_monitor_add(table, other, self, 0, NULL); /* L2 */
    if (error == -ESRCH)
        return !mine || drop(table, self, other, 0) ? error : 0; /* L3: if not, E2 has told us, or will */
    if (error && mine)
        drop(table, self, other, 0);
    return error;
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
    drop(self->table, me, pid, 0); /* U1 */
    drop(self->table, pid, me, 0); /* U2 */
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

/* -- Monitors ---------------------------------------------------------------------------------------------------- */

/* Unique in its process, and among the tags of its messages: the highest bit.  It says whom it is about, for weft_demonitor. */
uint64_t wefti_monitor_number(struct wefti_process *self, weft_pid pid) {
    return WEFT_TAG_RESERVED | ++wefti_rest(self)->monitors << WEFTI_PROCESS_INDEX_BITS | wefti_pid_index(pid);
}

int weft_monitor(weft_pid pid, uint64_t *monitor) {
    struct wefti_process *self = wefti_process_self();
    if (!self || !monitor)
        return -EINVAL;
    weft_pid me = wefti_process_pid(self);
    uint64_t number = wefti_monitor_number(self, pid);
    int error = wefti_monitor_add(self->table, pid, me, number, NULL);
    if (error == -ESRCH)
        error = wefti_mailbox_tell(self->table, me, WEFT_MESSAGE_DOWN, number, pid, -ESRCH, NULL, 0);
    if (!error)
        *monitor = number;
    return error;
}

int weft_demonitor(uint64_t monitor) {
    struct wefti_process *self = wefti_process_self();
    if (!self || !(monitor & WEFT_TAG_RESERVED))
        return -EINVAL;
    weft_pid me = wefti_process_pid(self);
    struct wefti_process *process = wefti_process_at(self->table, wefti_pid_index(monitor));
    if (!process)
        return -ESRCH;
    wefti_lock_take(&process->lock);
    struct wefti_message *record =
        wefti_process_is_there(process) ? wefti_record_find(process, me, monitor) : NULL; /* else it has no list */
    if (record)
        wefti_record_take(process, record);
    wefti_lock_give(&process->lock);
    if (record)
        wefti_message_free(self->table, record);
    return record ? 0 : -ESRCH;
}
