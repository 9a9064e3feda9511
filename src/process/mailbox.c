/* mailbox.c - messages, and the lanes that they wait in (process.h has the protocol). */
#include <string.h>

#include "process/process.h"

#define TAG_SHIFT 48
#define POINTER ((UINT64_C(1) << TAG_SHIFT) - 1)

static struct wefti_nodes_cache *cache_of(struct wefti_processes *table) {
    struct wefti_worker *w = wefti_worker_of(table->rt);
    return w ? &w->messages : NULL;
}

/* A larger message is copied into one block, with its size before it for giving it back. */
struct large {
    size_t size;
    uint64_t align;
};

static void free_large(void *data) {
    struct large *large = (struct large *)data - 1;
    wefti_free(large, large->size);
}

struct wefti_message *wefti_message_new(struct wefti_processes *table, uint8_t type, uint64_t tag, const void *data,
                                        size_t size) {
    if (size > UINT32_MAX)
        return NULL;
    struct wefti_message *message = wefti_nodes_take(&table->nodes, cache_of(table));
    if (!message)
        return NULL;
    struct wefti_process *self = wefti_process_self();
    message->type = type;
    message->tag = tag;
    message->from = self && self->table == table ? wefti_process_pid(self) : WEFT_PID_NONE;
    message->size = (uint32_t)size;
    message->error = 0;
    message->is_inline = size <= WEFTI_MESSAGE_INLINE;
    if (message->is_inline) {
        if (size == 8)
            memcpy(message->bytes, data, 8);
        else if (size)
            memcpy(message->bytes, data, size);
    } else {
        struct large *large = wefti_alloc(sizeof *large + size);
        if (!large) {
            wefti_nodes_give(&table->nodes, cache_of(table), message);
            return NULL;
        }
        large->size = sizeof *large + size;
        message->outside.data = memcpy(large + 1, data, size);
        message->outside.release = free_large;
    }
    return message;
}

void wefti_message_free(struct wefti_processes *table, struct wefti_message *message) {
    if (!message->is_inline && message->outside.release)
        message->outside.release(message->outside.data);
    wefti_nodes_give(&table->nodes, cache_of(table), message);
}

void wefti_message_show(struct wefti_message *message, weft_message *out) {
    *out = (weft_message){
        .type = (weft_message_type)message->type,
        .error = message->error,
        .tag = message->tag,
        .from = message->from,
        .data = message->is_inline ? message->bytes : message->outside.data,
        .size = message->size,
    };
}

static void wake(struct wefti_process *process, bool system) {
    struct weft_task *task = load_relaxed(&process->task); /* any task that was there will do */
    if (!task)
        return;
    if (system || process->wake_blocked)
        wefti_wake_loosely(task); /* S2: wake */
    else
        wefti_wake_unless(task, WEFTI_SUB_BLOCKED); /* S2: wake; W34 */
}

/* A full mailbox that drops the oldest has to have them in order: under the lock. */
static bool push_ordered(struct wefti_process *process, uint32_t generation, struct wefti_message *message) {
    struct wefti_chain dropped = {NULL, NULL, 0};
    wefti_lock_take(&process->lock);
    bool there = process->alive && load_own(&process->generation) == generation, first = false;
    if (there) {
        first = process->ordered.count == 0;
        wefti_chain_append(&process->ordered, &message->link);
        process->ordered_bytes += message->size;
        while (process->ordered.count > 1 &&
               ((process->max_messages && process->ordered.count > process->max_messages) ||
                (process->max_bytes && process->ordered_bytes > process->max_bytes))) {
            struct wefti_link *oldest = wefti_chain_take(&process->ordered);
            process->ordered_bytes -= ((struct wefti_message *)(void *)oldest)->size;
            wefti_chain_append(&dropped, oldest);
        }
        store_relaxed(&process->ordered_count, process->ordered.count); /* a look; the wake orders it */
    }
    wefti_lock_give(&process->lock);
    for (struct wefti_link *item; (item = wefti_chain_take(&dropped));)
        wefti_message_free(process->table, (struct wefti_message *)(void *)item);
    if (first)
        wake(process, false);
    return there;
}

bool wefti_mailbox_push(struct wefti_process *process, uint32_t generation, bool system,
                        struct wefti_message *message) {
    if (!system && process->policy == WEFT_MAILBOX_DROP_OLDEST)
        return push_ordered(process, generation, message);
    wefti_lane *lane = system ? &process->system : &process->messages;
    uint64_t found = load_relaxed(lane), tag = (uint64_t)(uint16_t)generation; /* only compared */
    do {
        if (found >> TAG_SHIFT != tag)
            return false;
        message->link.next = (struct wefti_link *)(uintptr_t)(found & POINTER);
    } while (!cas_release(lane, &found, tag << TAG_SHIFT | (uintptr_t)message)); /* S1, pairs with P1 */
    if (!(found & POINTER))
        wake(process, system);
    return true;
}

/* P1: newest first as they lie there, turned round. */
static void take_lane(wefti_lane *lane, struct wefti_chain *into) {
    uint64_t found = load_relaxed(lane); /* only the process itself empties it */
    if (!(found & POINTER))
        return;
    found = xchg_acquire(lane, found & ~POINTER); /* P1, pairs with S1 */
    struct wefti_link *item = (struct wefti_link *)(uintptr_t)(found & POINTER), *first = NULL, *last = item;
    uint32_t count = 0;
    for (struct wefti_link *below; item; item = below, count++) {
        below = item->next;
        item->next = first;
        first = item;
    }
    if (into->count)
        into->last->next = first;
    else
        into->first = first;
    into->last = last;
    into->count += count;
}

void wefti_mailbox_take(struct wefti_process *process) {
    struct wefti_chain system = {NULL, NULL, 0};
    take_lane(&process->system, &system);
    if (system.count) { /* before everything else */
        system.last->next = process->pending.count ? process->pending.first : NULL;
        if (!process->pending.count)
            process->pending.last = system.last;
        process->pending.first = system.first;
        process->pending.count += system.count;
    }
    take_lane(&process->messages, &process->pending);
    if (load_relaxed(&process->ordered_count)) { /* a look; who makes it so wakes us */
        wefti_lock_take(&process->lock);
        for (struct wefti_link *item; (item = wefti_chain_take(&process->ordered));)
            wefti_chain_append(&process->pending, item);
        process->ordered_bytes = 0;
        store_relaxed(&process->ordered_count, 0);
        wefti_lock_give(&process->lock);
    }
}

/* It no longer counts against the bound.  Every message that was counted is uncounted once, also when the process has ended and the
 * slot has another owner. */
static bool uncount(struct wefti_process *process, const struct wefti_message *message) {
    if (!(process->max_messages | process->max_bytes) || message->type != WEFT_MESSAGE ||
        process->policy == WEFT_MAILBOX_DROP_OLDEST)
        return false;
    sub_relaxed(&process->queued, 1); /* a bound, not a handshake: who waits is served under the lock */
    sub_relaxed(&process->queued_bytes, message->size);
    return true;
}

void wefti_mailbox_used(struct wefti_process *process, const struct wefti_message *message) {
    if (!uncount(process, message) || process->policy != WEFT_MAILBOX_BLOCK)
        return;
    wefti_lock_take(&process->lock);
    struct wefti_waiter *waiter = wefti_waiters_take(&process->senders);
    wefti_waker waker = 0;
    if (waiter) {
        waiter->result = 0;
        waker = wefti_waiter_serve(waiter);
    }
    wefti_lock_give(&process->lock);
    if (waiter)
        wefti_waiter_wake(waker);
}

static void throw_away(struct wefti_process *process, struct wefti_chain *chain) {
    for (struct wefti_link *item; (item = wefti_chain_take(chain));) {
        uncount(process, (struct wefti_message *)(void *)item);
        wefti_message_free(process->table, (struct wefti_message *)(void *)item);
    }
}

void wefti_mailbox_close(struct wefti_process *process) {
    uint32_t next = (load_own(&process->generation) + 1) & 0xffffff;
    next += next == 0;
    store_relaxed(&process->generation, next); /* a hint to find; under the lock */
    for (int i = 0; i < 2; i++) {
        wefti_lane *lane = i ? &process->system : &process->messages;
        uint64_t found = xchg_acquire(lane, (uint64_t)(uint16_t)next << TAG_SHIFT); /* X1, pairs with S1 */
        for (struct wefti_link *item = (struct wefti_link *)(uintptr_t)(found & POINTER), *below; item; item = below) {
            below = item->next;
            uncount(process, (struct wefti_message *)(void *)item);
            wefti_message_free(process->table, (struct wefti_message *)(void *)item);
        }
    }
    throw_away(process, &process->pending);
    throw_away(process, &process->ordered);
    store_relaxed(&process->ordered_count, 0);
    if (process->current)
        wefti_message_free(process->table, process->current);
    process->current = NULL;
}

int wefti_mailbox_tell(struct wefti_processes *table, weft_pid to, uint8_t type, uint64_t tag, weft_pid from, int error,
                       const void *data, size_t size) {
    struct wefti_process *process = wefti_process_find(table, to);
    if (!process)
        return -ESRCH;
    struct wefti_message *message = wefti_message_new(table, type, tag, data, size);
    if (!message)
        return -ENOMEM;
    message->from = from;
    message->error = error;
    if (wefti_mailbox_push(process, wefti_pid_generation(to), true, message))
        return 0;
    wefti_message_free(table, message);
    return -ESRCH;
}

/* -- Sending ------------------------------------------------------------------------------------------------- */

/* Room for one more in a bounded mailbox?  1: counted, send it; 0: throw it away; else a negative error. */
static int room_for(struct wefti_process *process, weft_pid to, size_t size, bool may_wait) {
    for (;;) {
        uint32_t queued = add_relaxed(&process->queued, 1); /* a bound */
        uint64_t bytes = add_relaxed(&process->queued_bytes, size);
        if ((!process->max_messages || queued < process->max_messages) &&
            (!process->max_bytes || bytes + size <= process->max_bytes))
            return 1;
        sub_relaxed(&process->queued, 1);
        sub_relaxed(&process->queued_bytes, size);
        if (process->policy == WEFT_MAILBOX_DROP_NEWEST)
            return 0;
        if (process->policy != WEFT_MAILBOX_BLOCK || !may_wait)
            return -ENOBUFS;
        if (process->max_bytes && size > process->max_bytes)
            return -EMSGSIZE;
        struct wefti_waiter waiter;
        int error = wefti_waiter_init(&waiter);
        if (error)
            return -ENOBUFS; /* a class must not block */
        if (!wefti_process_lock(process->table, to))
            return -ESRCH;
        if (load_relaxed(&process->queued) < process->max_messages || !process->max_messages) {
            if (!process->max_bytes || load_relaxed(&process->queued_bytes) + size <= process->max_bytes) {
                wefti_lock_give(&process->lock); /* some has come meanwhile */
                continue;
            }
        }
        wefti_waiters_append(&process->senders, &waiter);
        wefti_lock_give(&process->lock);
        error = wefti_waiter_wait(&waiter, WEFT_NEVER, "room in a mailbox");
        if (error) {
            wefti_lock_take(&process->lock);
            bool was = wefti_waiters_remove(&process->senders, &waiter);
            wefti_lock_give(&process->lock);
            if (was)
                return error;
            wefti_waiter_settle(&waiter);
        }
        if (waiter.result)
            return (int)waiter.result;
    }
}

static int send(struct wefti_processes *table, weft_pid to, struct wefti_message *message, bool may_wait) {
    struct wefti_process *process = wefti_process_find(table, to);
    int error = process ? 0 : -ESRCH;
    bool bounded =
        process && (process->max_messages | process->max_bytes) && process->policy != WEFT_MAILBOX_DROP_OLDEST;
    if (WEFTI_UNLIKELY(bounded)) {
        int room = room_for(process, to, message->size, may_wait);
        if (room == 0) {
            wefti_message_free(table, message);
            return 0;
        }
        error = room < 0 ? room : 0;
    }
    if (!error && !wefti_mailbox_push(process, wefti_pid_generation(to), false, message)) {
        error = -ESRCH;
        if (bounded) {
            sub_relaxed(&process->queued, 1);
            sub_relaxed(&process->queued_bytes, message->size);
        }
    }
    return error;
}

static int send_copy(struct weft_runtime *rt, weft_pid to, uint64_t tag, const void *data, size_t size, bool may_wait) {
    struct wefti_processes *table = wefti_processes_of(rt, false);
    if (!table)
        return rt || wefti_worker_self() ? -ESRCH : -EINVAL;
    struct wefti_message *message = wefti_message_new(table, WEFT_MESSAGE, tag, data, size);
    if (!message)
        return -ENOMEM;
    int error = send(table, to, message, may_wait);
    if (error)
        wefti_message_free(table, message);
    return error;
}

int weft_send(weft_runtime *rt, weft_pid to, uint64_t tag, const void *data, size_t size) {
    return send_copy(rt, to, tag, data, size, true);
}

int weft_try_send(weft_runtime *rt, weft_pid to, uint64_t tag, const void *data, size_t size) {
    return send_copy(rt, to, tag, data, size, false);
}

int weft_send_ref(weft_runtime *rt, weft_pid to, uint64_t tag, void *data, size_t size, void (*release)(void *data)) {
    struct wefti_processes *table = wefti_processes_of(rt, false);
    if (!table)
        return rt || wefti_worker_self() ? -ESRCH : -EINVAL;
    if (size > UINT32_MAX)
        return -EMSGSIZE;
    struct wefti_message *message = wefti_message_new(table, WEFT_MESSAGE, tag, NULL, 0);
    if (!message)
        return -ENOMEM;
    message->is_inline = false;
    message->size = (uint32_t)size;
    message->outside.data = data;
    message->outside.release = release;
    int error = send(table, to, message, true);
    if (error) {
        message->is_inline = true; /* on failure it stays the caller's */
        wefti_message_free(table, message);
    }
    return error;
}
