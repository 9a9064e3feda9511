/* receive.c - a process that is a fiber takes its messages: in order, or those it wants. */
#include "process/process.h"

static bool something_came(void *process) { return !wefti_mailbox_is_empty(process); }

/* Take the first that the filter wants out of `pending`, beginning behind `after` (NULL: at the first).  NULL: none; then *after is
 * the last one looked at. */
static struct wefti_message *pick(struct wefti_process *self, struct wefti_link **after, weft_filter_fn filter,
                                  void *arg) {
    struct wefti_chain *pending = &self->pending;
    if (!pending->count)
        return NULL;
    struct wefti_link *before = *after, *item = before ? before->next : pending->first;
    for (; item; before = item, item = item->next) {
        struct wefti_message *message = (struct wefti_message *)(void *)item;
        if (filter) {
            weft_message shown;
            wefti_message_show(message, &shown);
            if (!filter(&shown, arg))
                continue;
        }
        if (before)
            before->next = item->next;
        else
            pending->first = item->next;
        if (pending->last == item)
            pending->last = before;
        pending->count--;
        return message;
    }
    *after = before;
    return NULL;
}

static int receive(struct wefti_process *self, weft_message *message, weft_filter_fn filter, void *arg, int64_t until) {
    if (self->current) {
        wefti_message_free(self->table, self->current);
        self->current = NULL;
    }
    struct wefti_link *after = NULL;
    for (;;) {
        if (!wefti_mailbox_is_empty(self)) {
            wefti_mailbox_take(self);
            after = NULL; /* the system's came in front */
        }
        struct wefti_message *found = pick(self, &after, filter, arg);
        if (found) {
            self->current = found;
            wefti_mailbox_used(self, found);
            wefti_message_show(found, message);
            return 0;
        }
        int error = wefti_fiber_wait(wefti_fiber_self(), something_came, self, until, "a message");
        if (error)
            return error;
    }
}

int weft_receive(weft_message *message, weft_filter_fn filter, void *arg, weft_deadline until) {
    struct wefti_process *self = wefti_process_self();
    return self && self->is_fiber && message ? receive(self, message, filter, arg, until) : -EINVAL;
}

/* -- Asking -------------------------------------------------------------------------------------------------- */

struct answer {
    uint64_t tag;
    weft_pid from;
};

static bool is_answer(const weft_message *message, void *arg) {
    const struct answer *answer = arg;
    return message->tag == answer->tag && message->from == answer->from &&
           (message->type == WEFT_MESSAGE || message->type == WEFT_MESSAGE_DOWN);
}

int weft_ask(weft_pid to, const void *data, size_t size, weft_message *reply, weft_deadline until) {
    struct wefti_process *self = wefti_process_self();
    if (!self || !self->is_fiber || !reply)
        return -EINVAL;
    /* The number of a monitor is unique: it is the question's tag, and if the other ends first, the answer. */
    struct answer answer = {0, to};
    int error = weft_monitor(to, &answer.tag);
    if (!error) {
        error = weft_send(self->table->rt, to, answer.tag, data, size);
        int waited =
            receive(self, reply, is_answer, &answer, error ? WEFT_NOW : until); /* a DOWN may be there already */
        weft_demonitor(answer.tag);
        error = error ? error : waited;
    }
    return !error && reply->type == WEFT_MESSAGE_DOWN ? -ESRCH : error;
}

int weft_reply(const weft_message *to, const void *data, size_t size) {
    return to && to->from ? weft_send(NULL, to->from, to->tag, data, size) : -EINVAL;
}
