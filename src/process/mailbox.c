/* mailbox.c - the lanes that messages wait in, and bounded mailboxes (process.h has the protocol). */
#include <string.h>

#include "process/process.h"
#include "task/account.h"

/* -- Lanes --------------------------------------------------------------------------------------------------- */

/* table: of a message; NULL: the system says something. */
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

static inline bool push(struct wefti_processes *table, struct wefti_process *process, wefti_lane *lane,
                        uint32_t generation, struct wefti_message *message) {
    bool first;
    if (!put(lane, generation, message, &first))
        return false;
    if (first)
        wake(table, process);
    return true;
}

bool wefti_mailbox_push_system(struct wefti_process *process, uint32_t generation, struct wefti_message *message) {
    return push(NULL, process, &process->system, generation, message);
}

bool wefti_mailbox_put_system(struct wefti_process *process, struct wefti_message *message) {
    bool first = false;
    uint32_t generation = wefti_pid_generation(wefti_process_pid(process));
    bool open = put(&process->system, generation, message, &first);
    wefti_assert(open, generation); /* it is alive */
    return first;
}

void wefti_mailbox_wake(struct wefti_process *process) { wake(NULL, process); }

/* Behind `into`: newest first as they lie there, turned round. */
static inline void append_lane(struct wefti_link *item, struct wefti_chain *into) {
    struct wefti_link *first = NULL, *last = item;
    uint32_t count = 0;
    for (struct wefti_link *below; item; item = below, count++) {
        below = item->next;
        item->next = first;
        first = item;
    }
    if (!count)
        return;
    *(into->count ? &into->last->next : &into->first) = first;
    into->last = last;
    into->count += count;
}

static inline void take_lane(wefti_lane *lane, struct wefti_chain *into) {
    uint64_t found = load_relaxed(lane); /* only the process itself empties it */
    if (found & WEFTI_LANE_POINTER) {
        found = xchg_acquire(lane, found & ~WEFTI_LANE_POINTER); /* P1, pairs with S1 */
        append_lane(wefti_lane_first(found), into);
    }
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
    store_relaxed(&process->handed, handed); /* published by the next two */
    store_release(&process->system, open); /* O2, pairs with S1 */
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

/* True: it is the first, and the process is to be woken. */
static bool append(struct wefti_process_rest *box, struct wefti_message *message) {
    bool first = box->ordered.count == 0;
    wefti_chain_append(&box->ordered, &message->link);
    box->queued++;
    box->queued_bytes += wefti_message_weight(message);
    store_relaxed(&box->ordered_count, box->ordered.count); /* a look; the wake orders it */
    return first;
}

/* The oldest go, until the rest fits. */
static void trim(const struct wefti_process_rest *box, struct wefti_chain *chain, uint64_t *bytes,
                 struct wefti_chain *dropped) {
    while (!fits(box, chain->count, *bytes)) {
        struct wefti_link *oldest = wefti_chain_take(chain);
        *bytes -= wefti_message_weight(wefti_message_of(oldest));
        wefti_chain_append(dropped, oldest);
    }
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

/* Under the lock, which is given back.  To a bounded mailbox the one answer that is waited for comes as what the system says does, or else a full
 * one would keep it out, and the process waits for nothing else.  It is no larger than a message may be: whoever answers must not fill the memory of one
 * that has a bound. */
static int send_answer(struct wefti_processes *table, struct wefti_process *process, weft_pid to,
                       struct wefti_message *message) {
    bool awaited = process->awaits && wefti_rest(process)->asking == message->tag;
    uint64_t most = wefti_rest(process)->max_bytes;
    bool fits_in = !most || message->size <= most;
    process->awaits &= !(awaited && fits_in);
    wefti_lock_give(&process->lock);
    if (awaited && !fits_in)
        return -EMSGSIZE; /* it may say something shorter */
    if (awaited)
        return wefti_mailbox_push_system(process, wefti_pid_generation(to), message) ? 0 : -ESRCH;
    wefti_message_free(table, message); /* too late, or a second one */
    return 0;
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
        return send_answer(table, process, to, message);
    if (!process->bounded) {
        error = -ESRCH; /* it had not begun when we looked */
    } else if (box->max_bytes && message->size > box->max_bytes) {
        error = -EMSGSIZE;
    } else if (process->policy == WEFT_MAILBOX_DROP_OLDEST) {
        first = append(box, message);
        trim(box, &box->ordered, &box->queued_bytes, &dropped);
        process->outdated |= dropped.count != 0; /* it has not gone itself: ordered_count is not 0 */
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
    if (process->policy == WEFT_MAILBOX_DROP_OLDEST)
        return;
    wefti_lock_take(&process->lock);
    box->queued -= count;
    box->queued_bytes -= bytes;
    bool first = false; /* we run: no wake */
    while (let_in(process, &first))
        wefti_lock_take(&process->lock);
}

static void take_ordered(struct wefti_process *process) {
    struct wefti_chain dropped = {NULL, NULL, 0};
    struct wefti_process_rest *box = wefti_rest(process);
    wefti_lock_take(&process->lock);
    if (process->outdated) { /* a large message may have been the end of these, and have gone itself */
        append_chain(&dropped, &process->pending);
        box->pending_bytes = 0;
        process->outdated = false;
    }
    for (struct wefti_link *item = box->ordered.count ? box->ordered.first : NULL; item; item = item->next)
        box->pending_bytes += wefti_message_weight(wefti_message_of(item));
    append_chain(&process->pending, &box->ordered);
    store_relaxed(&box->ordered_count, 0); /* a look */
    if (process->policy == WEFT_MAILBOX_DROP_OLDEST) { /* what was unread before counts as well */
        box->queued_bytes = 0;
        trim(box, &process->pending, &box->pending_bytes, &dropped);
    }
    wefti_lock_give(&process->lock);
    if (!dropped.count)
        return;
    bool blocked = process->blocked; /* of a fiber false: as in its filter, a release function must not receive */
    process->blocked |= process->is_fiber;
    wefti_messages_free(process->table, &dropped);
    process->blocked = blocked;
}

/* -- The process --------------------------------------------------------------------------------------------- */

void wefti_mailbox_take(struct wefti_process *process) {
    if (WEFTI_UNLIKELY(load_relaxed(&process->system) & WEFTI_LANE_POINTER)) { /* a look, as in take_lane */
        take_lane(&process->system, &process->urgent);
        process->has_urgent = true;
    }
    take_lane(&process->messages, &process->pending);
    if (WEFTI_UNLIKELY(process->bounded) &&
        load_relaxed(&wefti_rest(process)->ordered_count)) /* a look; who makes it so wakes us */
        take_ordered(process);
}

void wefti_mailbox_close(struct wefti_process *process, struct wefti_chain *unread) {
    struct wefti_process_rest *rest = wefti_rest(process);
    append_lane(wefti_lane_first(xchg_acquire(&process->system, WEFTI_LANE_CLOSED)), unread); /* X1, pairs with S1 */
    append_lane(wefti_lane_first(xchg_acquire(&process->messages, WEFTI_LANE_CLOSED)), unread); /* X1, pairs with S1 */
    append_chain(unread, &process->urgent);
    process->has_urgent = false;
    append_chain(unread, &process->pending);
    if (process->is_fiber && rest->current) {
        wefti_chain_append(unread, &rest->current->link);
        rest->current = NULL;
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
    if (wefti_mailbox_push_system(process, wefti_pid_generation(to), message))
        return 0;
    wefti_message_free(table, message);
    return -ESRCH;
}

int wefti_mailbox_ask_to_end(struct wefti_processes *table, weft_pid to, weft_pid from) {
    struct wefti_message *message = wefti_message_new(table, WEFT_MESSAGE_CANCEL, 0, NULL, 0); /* not under the lock */
    struct wefti_process *process = wefti_process_lock(table, to);
    bool needed = process && !process->asked, first = false;
    int error = !process ? -ESRCH : needed && !message ? -ENOMEM : 0;
    if (needed && message) { /* C1 */
        message->from = from;
        message->error = -ECANCELED;
        process->asked = true;
        first = wefti_mailbox_put_system(process, message);
    }
    if (process)
        wefti_lock_give(&process->lock);
    if (first)
        wake(NULL, process); /* C2 */
    if (!needed && message)
        wefti_message_free(table, message);
    return error;
}

void wefti_mailbox_heard(struct wefti_process *process, const struct wefti_message *message) {
    if (WEFTI_LIKELY(message->type != WEFT_MESSAGE_CANCEL) || message->error != -ECANCELED) /* that of a stop: `told` */
        return;
    wefti_lock_take(&process->lock);
    process->asked = false; /* R1 */
    wefti_lock_give(&process->lock);
}

int wefti_mailbox_send(struct wefti_processes *table, struct wefti_process *process, weft_pid to,
                       struct wefti_message *message, int64_t until) {
    if (WEFTI_LIKELY(push(table, process, &process->messages, wefti_pid_generation(to), message)))
        return 0;
    return send_bounded(table, to, message, until);
}
