/* mailbox.c - the lane that messages and system events wait in, and bounded mailboxes (process.h has the protocol). */
#include <string.h>

#include "process/process.h"
#include "task/account.h"

/* -- The lane ------------------------------------------------------------------------------------------------ */

/* table: for a message; NULL: for a system event, which also wakes a class that waits for commands. */
static void wake(struct wefti_processes *table, struct wefti_process *process) {
    struct weft_task *task =
        load_relaxed(&process->task); /* after O2; should it have ended, any task that was there will do */
    if (!task)
        return;
    if (!table || load_relaxed(&process->wake_blocked)) /* as `task` */
        wefti_wake_loosely(task);                       /* S2: wake */
    else
        wefti_wake_unless(task, table->blocked); /* S2: wake; W34 */
}

/* False: the lane is closed, or another's.  *first: S2 is to follow. */
static inline bool put(wefti_lane *lane, uint32_t generation, struct wefti_message *message, bool *first) {
    uint64_t found = load_relaxed(lane); /* only compared */
    do {
        if (found >> WEFTI_LANE_SHIFT != (generation & WEFTI_LANE_TAG))
            return false;
        message->link.next = wefti_lane_first(found);
        /* S1.  Release: the message, to P1.  Acquire: the task, from O2. */
    } while (!cas_acq_rel(lane, &found, wefti_lane_word(generation, message)));
    *first = !(found & WEFTI_LANE_POINTER);
    return true;
}

/* Appends a lane's items, which lie newest first, to `into`, oldest first.  Returns 0 if all of them are messages. */
static inline uint8_t append_lane(struct wefti_link *item, struct wefti_chain *into) {
    struct wefti_link *first = NULL, *last = item;
    uint32_t count = 0;
    uint8_t others = 0;
    for (struct wefti_link *below; item; item = below, count++) {
        others |= wefti_message_of(item)->type ^ WEFT_MESSAGE;
        below = item->next;
        item->next = first;
        first = item;
    }
    if (!count)
        return 0;
    *(into->count ? &into->last->next : &into->first) = first;
    into->last = last;
    into->count += count;
    return others;
}

/* -- Requests to end, of which two side by side are one -------------------------------------------------------- */

/* That of a runtime that stops comes once, and is not merged. */
static bool is_request(const struct wefti_link *item) {
    const struct wefti_message *message = (const struct wefti_message *)(const void *)item;
    return message->type == WEFT_MESSAGE_CANCEL && message->error == -ECANCELED;
}

static struct wefti_link *unlink_behind(struct wefti_chain *chain, struct wefti_link *before) {
    struct wefti_link **at = before ? &before->next : &chain->first, *item = *at;
    *at = item->next;
    if (chain->last == item)
        chain->last = before;
    chain->count--;
    return item;
}

struct wefti_message *wefti_mailbox_unlink(struct wefti_chain *chain, struct wefti_link *before,
                                           struct wefti_chain *merged) {
    struct wefti_link *item = unlink_behind(chain, before);
    if (before && before->next && is_request(before) && is_request(before->next))
        wefti_chain_append(merged, unlink_behind(chain, before));
    return wefti_message_of(item);
}

/* -- System events ----------------------------------------------------------------------------------------------- */

static bool is_stop(const struct wefti_message *message) {
    return message->type == WEFT_MESSAGE_CANCEL && message->error == -ESHUTDOWN;
}

/* The item behind `before` goes to the front. */
static void move_to_front(struct wefti_chain *chain, struct wefti_link *before) {
    struct wefti_link *item = unlink_behind(chain, before);
    item->next = chain->first;
    chain->first = item;
    chain->count++;
}

struct came {
    bool request; /* a request to end */
    bool
        stop; /* the runtime stops: that is in front of all now, for a long queue must not keep the program from ending */
};

/* Counts the system events in `pending` behind `before` (NULL: in all of it), which have just come.  A request that came right behind another goes
 * to `merged`. */
static struct came count_system(struct wefti_process *process, struct wefti_link *before, struct wefti_chain *merged) {
    struct came came = {false, false};
    for (struct wefti_link *item = before ? before->next : process->pending.first, *next; item; item = next) {
        const struct wefti_message *message = wefti_message_of(item);
        next = item->next;
        came.request |= is_request(item);
        if (before && is_request(before) && is_request(item)) {
            wefti_chain_append(merged, unlink_behind(&process->pending, before));
            continue;
        }
        process->system_count += message->type != WEFT_MESSAGE;
        came.stop |= is_stop(message);
        if (before && is_stop(message))
            move_to_front(&process->pending, before);
        else
            before = item;
    }
    process->has_system = process->system_count != 0;
    return came;
}

/* The lane had system events in it.  As wefti_mailbox_take. */
static __attribute__((noinline)) bool see_system(struct wefti_process *process, struct wefti_link *before) {
    struct wefti_chain merged = {NULL, NULL, 0};
    struct came came = count_system(process, before, &merged);
    if (came.request) {
        wefti_lock_take(&process->lock);
        process->newest_cancel = NULL; /* R1 */
        wefti_lock_give(&process->lock);
    }
    wefti_messages_free(process->table, &merged);
    return came.stop;
}

/* As wefti_mailbox_take. */
static inline bool take_lane(struct wefti_process *process) {
    uint64_t found = load_relaxed(&process->messages); /* only the process itself empties it */
    if (!(found & WEFTI_LANE_POINTER))
        return false;
    found = xchg_acquire(&process->messages, found & ~WEFTI_LANE_POINTER); /* P1, pairs with S1 */
    struct wefti_link *before = process->pending.count ? process->pending.last : NULL;
    return WEFTI_UNLIKELY(append_lane(wefti_lane_first(found), &process->pending)) && see_system(process, before);
}

static void append_chain(struct wefti_chain *into, struct wefti_chain *from) {
    if (!from->count)
        return;
    *(into->count ? &into->last->next : &into->first) = from->first;
    into->last = from->last;
    into->count += from->count;
    from->count = 0;
}

void wefti_mailbox_open(struct wefti_process *process, bool handed) {
    uint64_t open = wefti_lane_word(wefti_pid_generation(load_own(&process->pid)), NULL);
    store_relaxed(&process->handed, handed); /* published by the next, or by A1 */
    if (!process->bounded)
        store_release(&process->messages, handed ? open : open | WEFTI_LANE_QUEUED); /* O2, pairs with S1 */
}

/* -- Bounded mailboxes: under the lock ----------------------------------------------------------------------- */

static bool fits(const struct wefti_process_rest *box, uint32_t count, uint64_t bytes) {
    return (!box->max_messages || count <= box->max_messages) && (!box->max_bytes || bytes <= box->max_bytes);
}

static bool has_room(const struct wefti_process_rest *box, const struct wefti_message *message) {
    return fits(box, box->queued + 1, box->queued_bytes + wefti_message_weight(message));
}

/* Whether it takes up room.  System events do not, nor does the answer that a fiber waits for (send_answer). */
static bool counts(const struct wefti_process *process, const struct wefti_message *message) {
    return message->type == WEFT_MESSAGE && !(process->is_fiber && wefti_message_is_answer(message));
}

/* Something that takes up no room.  Returns true if it is the first. */
static bool append_free(struct wefti_process_rest *box, struct wefti_message *message) {
    bool first = box->ordered.count == 0;
    wefti_chain_append(&box->ordered, &message->link);
    store_relaxed(&box->ordered_count, box->ordered.count); /* a look; the wake orders it */
    return first;
}

/* Returns true if it is the first, and the process is to be woken. */
static bool append(struct wefti_process_rest *box, struct wefti_message *message) {
    box->queued++;
    box->queued_bytes += wefti_message_weight(message);
    return append_free(box, message);
}

/* Which messages of a chain are dropped, and what is known of the chain. */
struct trim {
    struct wefti_chain *chain;
    struct wefti_link *
        *to; /* what takes up no room at the front of the chain has been passed over up to here; NULL: nothing has */
    uint32_t *count; /* of messages that take up room */
    uint64_t *bytes; /* ... and theirs */
    struct wefti_chain *dropped, *merged;
};

/* The oldest messages go until the rest fits; all: every one.  What takes up no room stays. */
static void drop_oldest(const struct wefti_process *process, struct trim trim, bool all) {
    while (*trim.count && (all || !fits(wefti_rest(process), *trim.count, *trim.bytes))) {
        struct wefti_link *oldest = *trim.to ? (*trim.to)->next : trim.chain->first;
        if (!counts(process, wefti_message_of(oldest))) {
            *trim.to = oldest;
            continue;
        }
        wefti_mailbox_unlink(trim.chain, *trim.to, trim.merged);
        *trim.count -= 1;
        *trim.bytes -= wefti_message_weight(wefti_message_of(oldest));
        wefti_chain_append(trim.dropped, oldest);
    }
}

/* dropped: empty. */
static void drop_oldest_ordered(struct wefti_process *process, struct wefti_chain *dropped) {
    struct wefti_process_rest *box = wefti_rest(process);
    drop_oldest(process,
                (struct trim){&box->ordered, &process->trimmed_to, &box->queued, &box->queued_bytes, dropped, dropped},
                false);
    process->outdated |= dropped->count != 0; /* the newest has not gone: ordered_count is not 0 */
}

static void drop_oldest_pending(struct wefti_process *process, bool all, struct wefti_chain *dropped) {
    struct wefti_link *to = NULL;
    struct wefti_chain merged = {NULL, NULL, 0};
    drop_oldest(process,
                (struct trim){&process->pending, &to, &process->pending_count, &wefti_rest(process)->pending_bytes,
                              dropped, &merged},
                all);
    process->system_count -= merged.count;
    append_chain(dropped, &merged);
}

/* The first of those who wait, if there is room for it now.  Under the lock, which is given back.  False: it was not so, or the process has ended, and
 * they are about to be turned away.  *first: as append. */
static bool let_in(struct wefti_process *process, bool *first) {
    struct wefti_process_rest *box = wefti_rest(process);
    if (!wefti_process_is_there(process) || !box->senders.first || !has_room(box, box->senders.first->slot)) {
        wefti_lock_give(&process->lock);
        return false;
    }
    struct wefti_waiter *waiter = wefti_waiters_take(&box->senders);
    *first |= append(box, waiter->slot);
    waiter->result = 0;
    wefti_waker waker = wefti_waiter_serve(waiter);
    wefti_lock_give(&process->lock);
    wefti_waiter_wake(waker);
    return true;
}

/* Wait for room: whoever makes some puts our message in. */
static int wait_for_room(struct wefti_processes *table, struct wefti_process *process, weft_pid to,
                         struct wefti_waiter *waiter, int64_t until) {
    bool first = false;
    int why = wefti_waiter_wait(waiter, until, "room in a mailbox");
    if (!why)
        return (int)waiter->result;
    wefti_lock_take(&process->lock);
    if (!wefti_waiters_remove(&wefti_rest(process)->senders, waiter)) {
        wefti_lock_give(&process->lock);
        wefti_waiter_settle(waiter); /* it is in, or the process has ended */
        return (int)waiter->result;
    }
    while (let_in(process, &first)) /* who came behind us may be smaller */
        if (!wefti_process_lock(table, to))
            break;
    if (first)
        wake(table, process);
    return why;
}

/* Under the lock, which is given back.  In a bounded mailbox the one answer that is waited for takes up no room, as a system event: a full mailbox
 * would keep it out, and the process waits for nothing else.  It is no larger than a message may be: whoever answers must not fill the memory of a
 * process that has a bound. */
static int send_answer(struct wefti_processes *table, struct wefti_process *process, struct wefti_message *message) {
    bool awaited = process->awaits && wefti_rest(process)->asking == message->tag;
    uint64_t most = wefti_rest(process)->max_bytes;
    bool fits_in = !most || message->size <= most, first = false;
    if (awaited && fits_in) {
        process->awaits = false;
        first = append_free(wefti_rest(process), message);
    }
    wefti_lock_give(&process->lock);
    if (first)
        wake(table, process);
    if (!awaited)
        wefti_message_free(table, message); /* too late, or a second one */
    return awaited && !fits_in ? -EMSGSIZE : 0; /* it may say something shorter */
}

/* The lane was closed: a bounded mailbox, or none. */
static int send_bounded(struct wefti_processes *table, weft_pid to, struct wefti_message *message, int64_t until) {
    struct wefti_chain dropped = {NULL, NULL, 0};
    struct wefti_waiter waiter;
    struct wefti_process *process = wefti_process_lock(table, to);
    if (!process)
        return -ESRCH;
    struct wefti_process_rest *box = wefti_rest(process);
    int error = 0;
    bool first = false;
    if (process->bounded && process->is_fiber && wefti_message_is_answer(message))
        return send_answer(table, process, message);
    if (!process->bounded) {
        error = -ESRCH; /* it had not begun when we looked */
    } else if (box->max_bytes && message->size > box->max_bytes) {
        error = -EMSGSIZE;
    } else if (process->policy == WEFT_MAILBOX_DROP_OLDEST) {
        first = append(box, message);
        drop_oldest_ordered(process, &dropped);
    } else if (!box->senders.first && has_room(box, message)) {
        first = append(box, message);
    } else if (process->policy == WEFT_MAILBOX_DROP_NEWEST) {
        wefti_chain_append(&dropped, &message->link);
    } else if (process->policy == WEFT_MAILBOX_REFUSE || until == WEFT_NOW || process == wefti_process_self() ||
               wefti_waiter_init(&waiter)) {
        error = -ENOBUFS; /* also: a class must not wait, and nobody for himself */
    } else {
        waiter.slot = message;
        wefti_waiters_append(&box->senders, &waiter);
        wefti_lock_give(&process->lock);
        return wait_for_room(table, process, to, &waiter, until);
    }
    wefti_lock_give(&process->lock);
    if (first)
        wake(table, process);
    wefti_messages_free(table, &dropped);
    return error;
}

void wefti_mailbox_make_room(struct wefti_process *process, uint32_t count, uint64_t bytes) {
    struct wefti_process_rest *box = wefti_rest(process);
    box->pending_bytes -= bytes;
    process->pending_count -= count;
    if (process->policy == WEFT_MAILBOX_DROP_OLDEST)
        return;
    wefti_lock_take(&process->lock);
    box->queued -= count;
    box->queued_bytes -= bytes;
    bool first = false; /* we run: no wake */
    while (let_in(process, &first))
        wefti_lock_take(&process->lock);
}

/* As wefti_mailbox_take. */
static bool take_ordered(struct wefti_process *process) {
    struct wefti_chain dropped = {NULL, NULL, 0};
    struct wefti_process_rest *box = wefti_rest(process);
    wefti_lock_take(&process->lock); /* R1 */
    if (process->outdated) { /* a large message may have been the end of these, and have gone itself */
        drop_oldest_pending(process, true, &dropped);
        process->outdated = false;
    }
    for (struct wefti_link *item = box->ordered.count ? box->ordered.first : NULL; item; item = item->next)
        if (counts(process, wefti_message_of(item))) {
            box->pending_bytes += wefti_message_weight(wefti_message_of(item));
            process->pending_count++;
        }
    struct wefti_link *before = process->pending.count ? process->pending.last : NULL;
    append_chain(&process->pending, &box->ordered);
    bool changed = count_system(process, before, &dropped).stop;
    store_relaxed(&box->ordered_count, 0); /* a look */
    process->trimmed_to = NULL;
    if (process->policy == WEFT_MAILBOX_DROP_OLDEST) { /* what was unread before counts as well */
        box->queued = 0;
        box->queued_bytes = 0;
        drop_oldest_pending(process, false, &dropped);
        changed = true;
    }
    wefti_lock_give(&process->lock);
    if (!dropped.count)
        return changed;
    bool blocked = process->blocked; /* of a fiber false: as in its filter, a release function must not receive */
    process->blocked |= process->is_fiber;
    wefti_messages_free(process->table, &dropped);
    process->blocked = blocked;
    return changed;
}

/* -- The process --------------------------------------------------------------------------------------------- */

bool wefti_mailbox_take(struct wefti_process *process) {
    if (WEFTI_LIKELY(!process->bounded))
        return take_lane(process);
    return load_relaxed(&wefti_rest(process)->ordered_count) && take_ordered(process); /* a look; the sender wakes us */
}

void wefti_mailbox_close(struct wefti_process *process, struct wefti_chain *unread) {
    struct wefti_process_rest *rest = wefti_rest(process);
    append_lane(wefti_lane_first(xchg_acquire(&process->messages, WEFTI_LANE_CLOSED)), unread); /* X1, pairs with S1 */
    append_chain(unread, &process->pending);
    process->has_system = false;
    process->system_count = process->pending_count = 0;
    process->newest_cancel = NULL; /* and trimmed_to */
    process->passed = NULL;
    if (process->is_fiber && rest->current) {
        wefti_chain_append(unread, &rest->current->link);
        rest->current = NULL;
    }
    if (process->answer) {
        wefti_chain_append(unread, &process->answer->link);
        process->answer = NULL;
    }
    if (process->bounded) {
        append_chain(unread, &rest->ordered);
        store_relaxed(&rest->ordered_count, 0); /* a look */
        rest->queued = 0;
        rest->queued_bytes = rest->pending_bytes = 0;
    }
}

void wefti_mailbox_turn_away(struct wefti_process *process) {
    for (;;) {
        wefti_lock_take(&process->lock);
        struct wefti_waiter *waiter = wefti_waiters_take(&wefti_rest(process)->senders);
        wefti_waker waker = 0;
        if (waiter) {
            waiter->result = -ESRCH;
            waker = wefti_waiter_serve(waiter);
        }
        wefti_lock_give(&process->lock);
        if (!waiter)
            return;
        wefti_waiter_wake(waker);
    }
}

int wefti_mailbox_tell(struct wefti_processes *table, weft_pid to, uint8_t type, uint64_t tag, weft_pid from, int error,
                       const void *data, size_t size) {
    struct wefti_process *process = wefti_process_find(table, to);
    if (!process)
        return -ESRCH;
    if (size > UINT32_MAX)
        return -EMSGSIZE;
    struct wefti_message *message = wefti_message_new(table, type, tag, data, size);
    if (!message)
        return -ENOMEM;
    message->from = from;
    message->error = error;
    if (wefti_mailbox_push_system(table, process, to, message))
        return 0;
    wefti_message_free(table, message);
    return -ESRCH;
}

/* C1: whether the newest thing in the mailbox is a request to end that has not been taken out.  (One that has been taken out, and whose R1 is still
 * to come, may be seen here: it will be read after that.  Until R1 its memory is not used again.) */
static bool ends_in_request(struct wefti_process *process) {
    if (process->bounded) {
        const struct wefti_chain *ordered = &wefti_rest(process)->ordered;
        return ordered->count && is_request(ordered->last);
    }
    return process->newest_cancel &&
           wefti_lane_first(load_relaxed(&process->messages)) == &process->newest_cancel->link; /* R1 orders it */
}

int wefti_mailbox_ask_to_end(struct wefti_processes *table, weft_pid to, weft_pid from) {
    struct wefti_message *message = wefti_message_new(table, WEFT_MESSAGE_CANCEL, 0, NULL, 0); /* not under the lock */
    struct wefti_process *process = wefti_process_lock(table, to);
    bool needed = process && !ends_in_request(process); /* C1 */
    int error = !process ? -ESRCH : needed && !message ? -ENOMEM : 0;
    if (needed && message) {
        message->from = from;
        message->error = -ECANCELED;
        wefti_mailbox_put_system(process, message);
        if (!process->bounded)
            process->newest_cancel = message;
    }
    if (process)
        wefti_lock_give(&process->lock);
    if (needed && message)
        wake(NULL, process); /* C2 */
    else if (message)
        wefti_message_free(table, message);
    return error;
}

int wefti_mailbox_send(struct wefti_processes *table, struct wefti_process *process, weft_pid to,
                       struct wefti_message *message, int64_t until) {
    bool first;
    if (WEFTI_UNLIKELY(!put(&process->messages, wefti_pid_generation(to), message, &first)))
        return send_bounded(table, to, message, until);
    if (first)
        wake(table, process);
    return 0;
}

void wefti_mailbox_put_system(struct wefti_process *process, struct wefti_message *message) {
    if (process->bounded) {
        append_free(wefti_rest(process), message);
        return;
    }
    bool first;
    uint32_t generation = wefti_pid_generation(wefti_process_pid(process));
    bool open = put(&process->messages, generation, message, &first);
    wefti_assert(open, generation); /* it is alive */
}

bool wefti_mailbox_push_system(struct wefti_processes *table, struct wefti_process *process, weft_pid to,
                               struct wefti_message *message) {
    bool first;
    if (WEFTI_UNLIKELY(!put(&process->messages, wefti_pid_generation(to), message, &first))) {
        process = wefti_process_lock(table, to); /* bounded, or none */
        if (!process)
            return false;
        bool bounded = process->bounded; /* else it had not begun when we looked */
        if (bounded)
            append_free(wefti_rest(process), message);
        wefti_lock_give(&process->lock);
        if (!bounded)
            return false;
    }
    wake(NULL, process);
    return true;
}

void wefti_mailbox_wake(struct wefti_process *process) { wake(NULL, process); }
