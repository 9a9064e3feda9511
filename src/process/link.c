/* link.c - links and monitors: who is told when a process ends.
 *
 * What.   A record lies in the list of the process whose end it tells of, under that process's lock, and becomes the message.  A link
 *         is two records, one on each side, that come and go together: under both locks, that of the lower slot first.  Nobody else
 *         has two.
 * Race.   link:   L1 both records, unless one is there     end:  E1 alive = false, the list taken, under the lock
 *                    or the other has ended                      E2 for each record, under the other's lock: has it a record
 *         unlink: U1 both go                                        of me?  It goes; the message is put there, or the reason
 *                                                                   for the other's end is noted
 *                                                                E3 then it is cancelled
 * Claim.  An end is told to a linked process once, or not at all if that has unlinked before.  After an unlink that returned 0 the other's end does
 *         nothing to us: what was to be told, has been.
 * Why.    Of one side's record alone there is no other than that which E1 has left for E2.  L1 before E1: E2 finds it.  L1 after E1: the other
 *         is gone, and the call fails; if there is a record still, they were linked, and E2 tells us.  U1 before E2: it finds nothing.
 *         U1 after E2: the message is there, or U1 finds the reason and says that we are to end; E3 may be still to come.
 * Checked by.  test/model/process_link.c
 */
#include "process/helper.h"
#include "process/relay.h"

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

static void free_record(struct wefti_processes *table, struct wefti_message *record) {
    if (record)
        wefti_message_free(table, record);
}

/* Under the lock: take the link's record that tells `to` out of a list.  NULL: there is none, or no process. */
static struct wefti_message *take_out(struct wefti_process *process, weft_pid to) {
    struct wefti_message *record = process ? wefti_record_find(process, to, 0) : NULL;
    if (record)
        wefti_record_take(process, record);
    return record;
}

int wefti_monitor_add(struct wefti_processes *table, weft_pid pid, weft_pid to, uint64_t monitor,
                      struct wefti_message **out) {
    if (WEFTI_UNLIKELY(wefti_pid_node(pid)))
        return wefti_relay_monitor(table, pid, to, monitor);
    struct wefti_message *record = new_record(table, pid, to, monitor);
    if (!record)
        return -ENOMEM;
    struct wefti_process *process = wefti_process_lock(table, pid);
    if (!process) {
        wefti_message_free(table, record);
        return -ESRCH;
    }
    struct wefti_message *left = wefti_record_put(process, record);
    wefti_lock_give(&process->lock);
    wefti_records_free(table, left);
    if (out)
        *out = record;
    return 0;
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
void wefti_monitor_tell(struct wefti_processes *table, struct wefti_message *record, int reason) {
    weft_pid to = record->record.to;
    if (WEFTI_UNLIKELY(wefti_pid_node(to))) {
        wefti_relay_down(table, record, reason);
        return;
    }
    struct wefti_process *process = wefti_process_find(table, to);
    record->error = reason;
    if (!process || !wefti_mailbox_push_system(table, process, to, record))
        wefti_message_free(table, record);
}

/* E2 and E3. */
static void tell_linked(struct wefti_processes *table, struct wefti_message *record, int reason) {
    weft_pid to = record->record.to;
    bool trap = false;
    struct weft_task *condemned = NULL;
    struct wefti_process *process = wefti_process_lock(table, to);
    struct wefti_message *others = take_out(process, record->from);
    if (process) {
        trap = others && process->trap_exit;
        record->error = reason;
        if (trap)
            wefti_mailbox_put_system(process, record);
        else if (others && reason)
            condemned = wefti_process_condemn(process, reason);
        wefti_lock_give(&process->lock);
    }
    if (trap)
        wefti_mailbox_wake(process);
    if (condemned)
        wefti_process_execute(condemned); /* E3 */
    if (!trap)
        wefti_message_free(table, record);
    free_record(table, others);
}

void wefti_links_end(struct wefti_processes *table, struct wefti_message *links, int reason) {
    for (struct wefti_message *next; links; links = next) {
        next = next_of(links);
        if (links->type == WEFTI_RECORD_HELPER) {
            wefti_helper_cancel(links); /* helper.h, E2 */
            wefti_message_free(table, links);
        } else if (links->type == WEFTI_RECORD_STREAM) {
            wefti_stream_end(links);
            wefti_message_free(table, links);
        } else if (links->tag)
            wefti_monitor_tell(table, links, reason);
        else
            tell_linked(table, links, reason);
    }
}

void wefti_links_forget(struct wefti_processes *table, struct wefti_message *links) {
    for (struct wefti_message *next; links; links = next) {
        next = next_of(links);
        struct wefti_process *other = links->tag ? NULL : wefti_process_lock(table, links->record.to);
        free_record(table, take_out(other, links->from));
        if (other)
            wefti_lock_give(&other->lock);
        wefti_message_free(table, links);
    }
}

/* -- Links ------------------------------------------------------------------------------------------------------ */

/* Both locks.  NULL: that one has ended.  (One slot has one owner at a time: it is not locked twice.) */
static void lock_both(struct wefti_processes *table, weft_pid a, weft_pid b, struct wefti_process **first,
                      struct wefti_process **second) {
    bool in_order = wefti_pid_index(a) < wefti_pid_index(b);
    *(in_order ? first : second) = wefti_process_lock(table, in_order ? a : b);
    *(in_order ? second : first) = wefti_process_lock(table, in_order ? b : a);
}

static void unlock_both(struct wefti_process *a, struct wefti_process *b) {
    if (a)
        wefti_lock_give(&a->lock);
    if (b)
        wefti_lock_give(&b->lock);
}

int wefti_link_both(struct wefti_processes *table, weft_pid self, weft_pid other) {
    if (other == WEFT_PID_NONE)
        return -ESRCH; /* a record of it would not be found again: that is what helpers are about */
    struct wefti_message *mine = new_record(table, self, other, 0), *others = new_record(table, other, self, 0);
    struct wefti_process *me, *it;
    int error = mine && others ? 0 : -ENOMEM;
    struct wefti_message *left[2] = {NULL, NULL};
    bool put_in = false;
    if (!error) {
        lock_both(table, self, other, &me, &it);
        bool linked = me && wefti_record_find(me, other, 0); /* and so it is, or E2 will tell us */
        error = !me || (!it && !linked) ? -ESRCH : 0;
        put_in = !error && !linked;
        if (put_in) { /* L1 */
            left[0] = wefti_record_put(me, mine);
            left[1] = wefti_record_put(it, others);
        }
        unlock_both(me, it);
    }
    for (int i = 0; i < 2; i++)
        wefti_records_free(table, left[i]);
    if (!put_in) {
        free_record(table, mine);
        free_record(table, others);
    }
    return error;
}

int weft_link(weft_pid pid) {
    struct wefti_process *self = wefti_process_self();
    if (!self)
        return wefti_no_process();
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
        return wefti_no_process();
    weft_pid own = wefti_process_pid(self);
    if (pid == own || pid == WEFT_PID_NONE)
        return 0;
    struct wefti_process *me, *it;
    lock_both(self->table, own, pid, &me, &it);
    struct wefti_message *mine = take_out(me, pid), *others = take_out(it, own); /* U1 */
    bool condemned = !mine && !it && self->reason; /* while it is there, E2 is still to come */
    unlock_both(me, it);
    free_record(self->table, mine);
    free_record(self->table, others);
    return condemned ? -ECANCELED : 0;
}

int weft_trap_exit(bool trap) {
    struct wefti_process *self = wefti_process_self();
    if (!self)
        return wefti_no_process();
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
        return wefti_no_process();
    weft_pid me = wefti_process_pid(self);
    uint64_t number = wefti_monitor_number(self, pid);
    int error = wefti_monitor_add(self->table, pid, me, number, NULL);
    if (error && error != -ENOMEM) /* it has ended; or its relay refuses, and nobody knows */
        error = wefti_mailbox_tell(self->table, me, WEFT_MESSAGE_DOWN, number, pid, error, NULL, 0);
    if (!error)
        *monitor = number;
    return error;
}

int weft_demonitor(uint64_t monitor) {
    struct wefti_process *self = wefti_process_self();
    if (!self || !(monitor & WEFT_TAG_RESERVED))
        return wefti_no_process();
    weft_pid me = wefti_process_pid(self);
    struct wefti_process *process = wefti_process_at(self->table, wefti_pid_index(monitor));
    struct wefti_message *record = NULL;
    if (process) {
        wefti_lock_take(&process->lock);
        record = wefti_process_is_there(process) ? wefti_record_find(process, me, monitor) : NULL; /* else no list */
        if (record)
            wefti_record_take(process, record);
        wefti_lock_give(&process->lock);
    }
    if (!record) /* or it is about a process behind a relay */
        return wefti_relay_demonitor(self->table, WEFT_PID_NONE, me, monitor) ? 0 : -ESRCH;
    wefti_message_free(self->table, record);
    return 0;
}
