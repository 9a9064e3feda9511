/* receive.c - a process that is a fiber takes its messages: in order, or those it wants; asking and replying. */
#include "fiber/slice.h"
#include "process/relay.h"
#include "task/account.h"

bool wefti_something_came(void *arg) {
    struct wefti_process *process = arg;
    return load_own(&process->handed) || !wefti_mailbox_is_empty(process);
}

/* How far a receive has looked: all up to `after` has been refused.  New messages come behind it. */
struct look {
    struct wefti_chain *chain;
    struct wefti_link *after; /* NULL: nothing yet */
};

static struct wefti_message *unlink_next(struct look *look) {
    struct wefti_chain *chain = look->chain;
    struct wefti_link **at = look->after ? &look->after->next : &chain->first, *item = *at;
    *at = item->next;
    if (chain->last == item)
        chain->last = look->after;
    chain->count--;
    return wefti_message_of(item);
}

static struct wefti_link *next_item(const struct look *look) {
    if (!look->chain->count)
        return NULL;
    return !look->after ? look->chain->first : look->after == look->chain->last ? NULL : look->after->next;
}

/* A reply that nobody waits for any more. */
static bool is_late(const struct wefti_process *self, const struct wefti_message *message) {
    return wefti_message_is_answer(message) && message->tag != wefti_rest(self)->asking;
}

static void use(struct wefti_process *self, const struct wefti_message *message) {
    if (message->type == WEFT_MESSAGE && !wefti_message_is_answer(message)) /* that was not counted */
        wefti_mailbox_used(self, 1, wefti_message_weight(message));
    else
        wefti_mailbox_heard(self, message);
}

/* As pick, of a chain that may have to be searched. */
static __attribute__((noinline)) struct wefti_message *pick_any(struct wefti_process *self, struct look *look,
                                                                weft_filter_fn filter, void *arg) {
    for (struct wefti_link *item; (item = next_item(look));) {
        struct wefti_message *message = wefti_message_of(item);
        if (WEFTI_UNLIKELY(is_late(self, message))) {
            unlink_next(look);
            wefti_message_free(self->table, message);
            continue;
        }
        if (filter) {
            weft_message shown;
            wefti_message_show(message, &shown);
            self->blocked = true; /* what we look at must stay as it is */
            bool wanted = filter(&shown, arg);
            self->blocked = false;
            if (!wanted) {
                look->after = item;
                continue;
            }
        }
        return unlink_next(look);
    }
    return NULL;
}

/* Take the next one that the filter wants out of a chain, or NULL. */
static inline struct wefti_message *pick(struct wefti_process *self, struct look *look, weft_filter_fn filter,
                                         void *arg) {
    if (!look->chain->count)
        return NULL;
    if (filter || is_late(self, wefti_message_of(look->chain->first)))
        return pick_any(self, look, filter, arg);
    return wefti_message_of(wefti_chain_take_first(look->chain));
}

static bool drops_oldest(const struct wefti_process *self) {
    return self->bounded && self->policy == WEFT_MAILBOX_DROP_OLDEST;
}

/* Its release function may be the user's, and must not receive: what that took would be ours. */
static __attribute__((noinline)) void release(struct wefti_process *self, struct wefti_message *message) {
    self->blocked = true;
    wefti_message_free(self->table, message);
    self->blocked = false;
}

/* after: the last message that cannot be wanted, or NULL. */
static inline int receive(struct wefti_process *self, weft_message *message, weft_filter_fn filter, void *arg,
                          struct wefti_link *after, int64_t until) {
    struct wefti_process_rest *rest = wefti_rest(self);
    if (rest->current) {
        struct wefti_message *old = rest->current;
        rest->current = NULL; /* first: release may end us */
        if (WEFTI_LIKELY(old->is_inline))
            wefti_message_free(self->table, old);
        else
            release(self, old);
    }
    struct look urgent = {&self->urgent, NULL}, pending = {&self->pending, after};
    for (;;) {
        store_relaxed(&self->handed, false); /* it lies in `pending`, behind what we have looked at */
        if (!wefti_mailbox_is_empty(self)) {
            wefti_mailbox_take(self);
            if (drops_oldest(self)) /* what we have looked at may be gone */
                pending.after = NULL;
        }
        struct wefti_message *found = pick(self, &urgent, filter, arg);
        if (!found)
            found = pick(self, &pending, filter, arg);
        if (found) {
            use(self, found);
            rest->current = found;
            wefti_message_show(found, message);
            return 0;
        }
        store_relaxed(&self->receiving, true); /* a hint, as the next */
        int error = wefti_fiber_wait(wefti_fiber_self(), wefti_something_came, self, until, "a message");
        store_relaxed(&self->receiving, false);
        if (error)
            return error; /* perhaps at once: the time had passed */
    }
}

/* The last of what has come by now, however much that is, for a receive that does not look at it. */
static struct wefti_link *last_so_far(const struct wefti_process *self) {
    return self->pending.count && !drops_oldest(self) ? self->pending.last : NULL;
}

int wefti_receive_told(struct wefti_process *self, weft_message *message, weft_filter_fn filter, void *arg,
                       int64_t until) {
    return receive(self, message, filter, arg, last_so_far(self), until);
}

void wefti_receive_firmly(struct wefti_process *self, const char *what) {
    wefti_fiber_wait_always(wefti_fiber_self(), wefti_something_came, self, what);
}

int weft_receive(weft_message *message, weft_filter_fn filter, void *arg, weft_deadline until) {
    struct wefti_process *self = wefti_process_self();
    if (!self || !self->is_fiber || !message)
        return -EINVAL;
    if (WEFTI_UNLIKELY(self->blocked))
        return -EDEADLK;
    wefti_slice_use(until);
    int error = wefti_charge_channel_call();
    if (!error && WEFTI_UNLIKELY(wefti_fiber_must_end(wefti_fiber_self())))
        error = -ECANCELED; /* first: messages that never cease must not keep it alive */
    return error ? error : receive(self, message, filter, arg, NULL, until);
}

/* -- Asking -------------------------------------------------------------------------------------------------- */

/* The number of a monitor is unique: it is the question's tag, and if the other ends first, that is the answer. */
static bool is_answer(const weft_message *message, void *arg) {
    const struct wefti_process *self = arg;
    return message->tag == wefti_rest(self)->asking;
}

/* 0: none any more.  The answer to this one may come, also into a mailbox that is full. */
static void set_question(struct wefti_process *self, uint64_t number) {
    if (WEFTI_UNLIKELY(self->bounded)) {
        wefti_lock_take(&self->lock);
        self->awaits = number != 0;
        wefti_rest(self)->asking = number;
        wefti_lock_give(&self->lock);
    } else {
        wefti_rest(self)->asking = number;
    }
}

/* Its end, and not an answer that came too late, by the same lane: that is thrown away when the next is looked for. */
static bool is_end(const weft_message *message, void *arg) {
    return message->type == WEFT_MESSAGE_DOWN && is_answer(message, arg);
}

/* The other has ended, and its end is on its way to us: nobody wants to know. */
static void forget_end(struct wefti_process *self) {
    struct look urgent = {&self->urgent, NULL};
    for (;;) {
        store_relaxed(&self->handed, false); /* the next receive looks at all */
        wefti_mailbox_take(self);
        struct wefti_message *found = pick(self, &urgent, is_end, self);
        if (found) {
            wefti_message_free(self->table, found);
            return;
        }
        wefti_fiber_wait_always(wefti_fiber_self(), wefti_something_came, self, "the end of a process");
    }
}

int weft_ask(weft_pid to, const void *data, size_t size, weft_message *reply, weft_deadline until) {
    wefti_slice_use_heavy(until);
    struct wefti_process *self = wefti_process_self();
    if (!self || !self->is_fiber || !reply)
        return -EINVAL;
    if (to == wefti_process_pid(self) || self->blocked)
        return -EDEADLK; /* who should answer? and its own question has the tag of the answer */
    int error = size > UINT32_MAX ? -EMSGSIZE : wefti_charge_channel_call();
    if (error)
        return error;
    struct wefti_processes *table = self->table;
    struct wefti_message *record = NULL, *message;
    uint64_t number = wefti_monitor_number(self, to);
    if (!(message = wefti_message_new(table, WEFT_MESSAGE, number, data, size)))
        return -ENOMEM;
    error = wefti_monitor_add(table, to, wefti_process_pid(self), number, &record);
    if (!error) {
        struct wefti_link *after = last_so_far(self); /* that is no answer */
        set_question(self, number); /* first: the answer may be there at once */
        error = wefti_message_send(table, wefti_worker_here(), to, message, until);
        bool sent = !error;
        if (sent)
            error = receive(self, reply, is_answer, self, after, until);
        bool ended = sent && !error && reply->type == WEFT_MESSAGE_DOWN; /* then the record is the reply */
        if (ended) /* what it sent before its end is there, and was overtaken */
            error = receive(self, reply, is_answer, self, after, WEFT_NOW) ? -ESRCH : 0;
        else if (wefti_pid_node(to) ? !wefti_relay_demonitor(table, to, wefti_process_pid(self), number)
                                    : !wefti_monitor_remove(table, to, record))
            forget_end(self);
        set_question(self, 0);
        if (sent)
            return error;
    }
    wefti_message_free(table, message);
    return error;
}

int weft_reply(const weft_message *to, const void *data, size_t size) {
    wefti_slice_use_heavy(WEFT_NEVER);
    struct wefti_processes *table = wefti_processes_of(NULL, false);
    if (!to || !to->from || !table)
        return -EINVAL;
    int error = size > UINT32_MAX ? -EMSGSIZE : wefti_charge_channel_call();
    if (error)
        return error;
    struct wefti_message *message = wefti_message_new(table, WEFT_MESSAGE, to->tag, data, size);
    if (!message)
        return -ENOMEM;
    message->is_reply = true;
    error = wefti_message_send(table, wefti_worker_here(), to->from, message, WEFT_NEVER);
    if (error)
        wefti_message_free(table, message);
    return error;
}
