/* receive.c - a process that is a fiber takes its messages: in order, or those it wants; asking and replying. */
#include "fiber/slice.h"
#include "process/relay.h"
#include "task/account.h"

bool wefti_something_came(void *arg) {
    struct wefti_process *process = arg;
    return load_own(&process->handed) || !wefti_mailbox_is_empty(process);
}

/* `after`, in what follows, is how far a receive has looked at `pending`: all up to it has been refused.  NULL: nothing has.  New messages come
 * behind it. */

static struct wefti_message *unlink_next(struct wefti_process *self, struct wefti_link *after) {
    struct wefti_chain merged = {NULL, NULL, 0};
    struct wefti_message *message = wefti_mailbox_unlink(&self->pending, after, &merged);
    if (WEFTI_UNLIKELY(merged.count)) {
        self->system_count -= merged.count;
        wefti_messages_free(self->table, &merged);
    }
    return message;
}

static struct wefti_link *next_item(const struct wefti_process *self, const struct wefti_link *after) {
    if (!self->pending.count)
        return NULL;
    return after ? after->next : self->pending.first;
}

/* A reply that nobody waits for any more. */
static bool is_late(const struct wefti_process *self, const struct wefti_message *message) {
    return wefti_message_is_answer(message) && message->tag != wefti_rest(self)->asking;
}

/* After a wait that failed with -ECANCELED: was it for a request to end that came meanwhile?  The request was put into the mailbox, under
 * the lock, before the wait was made to fail. */
static __attribute__((noinline)) bool was_asked(struct wefti_process *self) {
    if (wefti_fiber_is_cancelled(wefti_fiber_self()))
        return false;
    wefti_lock_take(&self->lock);
    wefti_lock_give(&self->lock);
    return wefti_something_came(self);
}

static void use(struct wefti_process *self, const struct wefti_message *message) {
    if (WEFTI_UNLIKELY(message->type == WEFT_MESSAGE_CANCEL))
        wefti_process_heard(self);
    if (message->type != WEFT_MESSAGE)
        self->system_count--;
    else if (!wefti_message_is_answer(message)) /* an answer was not counted */
        wefti_mailbox_used(self, 1, wefti_message_weight(message));
}

/* As pick, where `pending` may have to be searched. */
static __attribute__((noinline)) struct wefti_message *pick_any(struct wefti_process *self, struct wefti_link **after,
                                                                weft_filter_fn filter, void *arg) {
    for (struct wefti_link *item; (item = next_item(self, *after));) {
        struct wefti_message *message = wefti_message_of(item);
        if (WEFTI_UNLIKELY(is_late(self, message))) {
            unlink_next(self, *after);
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
                *after = item;
                continue;
            }
        }
        return unlink_next(self, *after);
    }
    return NULL;
}

/* Takes the next one that the filter wants out of `pending`.  Returns NULL if there is none. */
static inline struct wefti_message *pick(struct wefti_process *self, struct wefti_link **after, weft_filter_fn filter,
                                         void *arg) {
    if (!self->pending.count)
        return NULL;
    if (filter || is_late(self, wefti_message_of(self->pending.first)))
        return pick_any(self, after, filter, arg);
    return wefti_message_of(wefti_chain_take_first(&self->pending));
}

/* Its release function may be the user's, and must not receive: what that took would be ours. */
static __attribute__((noinline)) void release(struct wefti_process *self, struct wefti_message *message) {
    self->blocked = true;
    wefti_message_free(self->table, message);
    self->blocked = false;
}

/* *keep is the message that the last such call returned: it is freed now, and the new one is kept there.  On return *after is how far
 * the call has looked. */
static inline int receive(struct wefti_process *self, weft_message *message, weft_filter_fn filter, void *arg,
                          struct wefti_link **after, int64_t until, struct wefti_message **keep) {
    if (*keep) {
        struct wefti_message *old = *keep;
        *keep = NULL; /* first: release may end us */
        if (WEFTI_LIKELY(old->is_inline))
            wefti_message_free(self->table, old);
        else
            release(self, old);
    }
    for (;;) {
        store_relaxed(&self->handed, false); /* it lies in `pending`, behind what we have looked at */
        if (!wefti_mailbox_is_empty(self) && wefti_mailbox_take(self))
            *after = NULL; /* what we have looked at may be gone, and something may be in front of it */
        struct wefti_message *found = pick(self, after, filter, arg);
        if (found) {
            use(self, found);
            *keep = found;
            wefti_message_show(found, message);
            return 0;
        }
        store_relaxed(&self->receiving, true); /* a hint, as the next */
        int error = wefti_fiber_wait(wefti_fiber_self(), wefti_something_came, self, until, "a message");
        store_relaxed(&self->receiving, false);
        if (error && !(error == -ECANCELED && was_asked(self)))
            return error; /* perhaps at once: the time had passed */
    }
}

/* The last of what has come by now, however much that is, for a receive that does not look at it. */
static struct wefti_link *last_so_far(const struct wefti_process *self) {
    return self->pending.count ? self->pending.last : NULL;
}

int wefti_receive_told(struct wefti_process *self, weft_message *message, weft_filter_fn filter, void *arg,
                       int64_t until) {
    struct wefti_link *after = self->passed;
    int error = receive(self, message, filter, arg, &after, until, &wefti_rest(self)->current);
    self->passed = after;
    return error;
}

void wefti_receive_firmly(struct wefti_process *self, const char *what) {
    wefti_fiber_wait_always(wefti_fiber_self(), wefti_something_came, self, what);
}

int weft_receive(weft_message *message, weft_filter_fn filter, void *arg, weft_deadline until) {
    struct wefti_process *self = wefti_process_self();
    if (!self || !self->is_fiber || !message)
        return wefti_no_process();
    if (WEFTI_UNLIKELY(self->blocked))
        return -EDEADLK;
    wefti_slice_use(until);
    int error = wefti_charge_channel_call(until);
    if (!error && WEFTI_UNLIKELY(wefti_fiber_is_cancelled(wefti_fiber_self())))
        error =
            -ECANCELED; /* first: messages that never cease must not keep it alive.  A request to end is read in its place. */
    struct wefti_link *after = self->passed = NULL; /* this may take out what has been passed */
    return error ? error : receive(self, message, filter, arg, &after, until, &wefti_rest(self)->current);
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

/* Its end, and not an answer that came too late: that is thrown away when the next is looked for. */
static bool is_end(const weft_message *message, void *arg) {
    return message->type == WEFT_MESSAGE_DOWN && is_answer(message, arg);
}

/* The other has ended, and its DOWN, which nobody wants, has come or is coming, behind `after`. */
static void forget_end(struct wefti_process *self, struct wefti_link *after) {
    for (;;) {
        store_relaxed(&self->handed, false); /* the next receive looks at all */
        if (wefti_mailbox_take(self)) /* as in receive */
            after = NULL;
        struct wefti_message *found = pick(self, &after, is_end, self);
        if (found) {
            use(self, found);
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
        return wefti_no_process();
    if (to == wefti_process_pid(self) || self->blocked)
        return -EDEADLK; /* who should answer? and its own question has the tag of the answer */
    int error = size > UINT32_MAX ? -EMSGSIZE : wefti_charge_channel_call(until);
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
        self->passed = NULL; /* as in weft_receive */
        set_question(self, number); /* first: the answer may be there at once */
        error = wefti_message_send(table, wefti_worker_here(), to, message, until);
        bool sent = !error;
        if (sent)
            error = receive(self, reply, is_answer, self, &after, until, &self->answer);
        bool ended = sent && !error && reply->type == WEFT_MESSAGE_DOWN; /* then the record is the reply */
        if (ended)
            error = -ESRCH;
        else if (wefti_pid_node(to) ? !wefti_relay_demonitor(table, to, wefti_process_pid(self), number)
                                    : !wefti_monitor_remove(table, to, record))
            forget_end(self, after);
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
        return wefti_no_process();
    int error = size > UINT32_MAX ? -EMSGSIZE : wefti_charge_channel_call(WEFT_NEVER);
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
