/* ask.c - the command that asks another process: a process of the library's own, which sends the question and waits for the reply.
 *
 * What.   weft_ask is a call of a process that is a fiber, since a reply is a message and needs a mailbox that is looked into for it.  A class
 *         sees its own messages in its step, and a reply among them would not be a completion.  So the question comes from a process
 *         of its own, a class without a stack, that monitors the other side and is a helper of the process that asks: it completes the
 *         command when it ends, and is cancelled when that process ends.
 * Rejected.  A fiber that is a process: it needs a stack.  Turning replies into completions in the mailbox: every message would be looked at.
 */
#include <string.h>

#include "process/helper.h"

enum { SENT = 1, LATE = 2 }; /* tags of its commands */

struct asking {
    struct wefti_helper helper; /* first: wefti_process_spawn_helper */
    struct wefti_message *question; /* not sent yet */
    weft_pid to;
    weft_deadline until;
    uint64_t monitor; /* and the question's tag; 0: none */
    bool begun;
};
_Static_assert(sizeof(struct asking) <= WEFT_PROCESS_STATE_MAX, "room enough");

/* The process that asks calls this, in its step. */
static int asking_init(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)self, (void)method, (void)size;
    memcpy(state, input, sizeof(struct asking));
    return 0;
}

/* The mailbox is full, and may be one that blocks its senders: as a command, which waits. */
static int send_later(struct asking *asking, weft_step *out) {
    weft_message shown;
    wefti_message_show(asking->question, &shown);
    size_t size = sizeof(weft_command_send) + shown.size;
    weft_command_send *send = wefti_alloc(size);
    if (!send)
        return -ENOMEM;
    *send = (weft_command_send){asking->to, asking->monitor, asking->until};
    if (shown.size)
        memcpy(send + 1, shown.data, shown.size);
    int error = weft_yield_command(out, WEFT_COMMAND_SEND, SENT, send, size);
    wefti_free(send, size);
    return error;
}

static int begin(struct asking *asking, weft_step *out) {
    asking->begun = true;
    int error = weft_monitor(asking->to, &asking->monitor);
    if (error)
        return error;
    if (asking->until != WEFT_NEVER) {
        weft_command_timer timer = {asking->until};
        error = weft_yield_command(out, WEFT_COMMAND_TIMER, LATE, &timer, sizeof timer);
        if (error)
            return error;
    }
    asking->question->tag = asking->monitor;
    asking->question->from = weft_self();
    error = wefti_message_send(asking->helper.table, wefti_worker_here(), asking->to, asking->question, WEFT_NOW);
    if (error == -ENOBUFS && asking->until != WEFT_NOW)
        return send_later(asking, out);
    if (!error)
        asking->question = NULL;
    return error;
}

/* The reply's bytes are the completion's. */
static int keep_reply(struct wefti_helper *helper, const weft_message *reply) {
    if (reply->size > sizeof helper->small) {
        helper->large = wefti_large_new(reply->size);
        helper->release = wefti_large_free;
        if (!helper->large)
            return -ENOMEM;
    }
    if (reply->size)
        memcpy(helper->large ? helper->large : helper->small, reply->data, reply->size);
    helper->size = (uint32_t)reply->size;
    return 0;
}

static int asking_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    struct asking *asking = state;
    int error = asking->begun ? 0 : begin(asking, out);
    bool done = error != 0;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count && !done; i++) /* a reply counts, whatever came with it */
        if (events[i].type == WEFT_MESSAGE && events[i].tag == asking->monitor) {
            error = keep_reply(&asking->helper, &events[i]);
            done = true;
        }
    for (size_t i = 0; i < count && !done; i++) {
        const weft_message *event = &events[i];
        if (event->type == WEFT_MESSAGE_DOWN)
            error = -ESRCH;
        else if (event->type == WEFT_MESSAGE_YIELD)
            error = event->tag == SENT ? event->error : event->error == 0 ? -ETIMEDOUT : event->error;
        done = error != 0; /* a request to end is none: the process that asks decides */
    }
    if (done) {
        asking->helper.error = error;
        out->status = WEFT_STEP_DONE;
    }
    return 0;
}

static void asking_close(void *state) {
    struct asking *asking = state;
    if (asking->monitor)
        (void)weft_demonitor(asking->monitor);
    if (!asking->helper.record)
        return; /* it never appeared: the question is its asker's still */
    if (asking->question)
        wefti_message_free(asking->helper.table, asking->question);
    wefti_helper_end(&asking->helper);
}

int wefti_command_ask(const weft_command *command, void *arg) {
    static const weft_process_class class_ = {.size = sizeof class_,
                                              .name = "ask",
                                              .state_size = sizeof(struct asking),
                                              .init = asking_init,
                                              .step = asking_step,
                                              .close = asking_close};
    (void)arg;
    const weft_command_ask *asked = command->data;
    if (command->size < sizeof *asked)
        return -EINVAL;
    if (asked->to == command->from)
        return -EDEADLK;
    struct wefti_processes *table = wefti_process_self()->table;
    struct asking asking = {.to = asked->to, .until = asked->until};
    asking.question = wefti_message_new(table, WEFT_MESSAGE, 0, asked + 1, command->size - sizeof *asked);
    if (!asking.question)
        return -ENOMEM;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &class_;
    spec.input = &asking;
    spec.input_size = sizeof asking;
    int error = wefti_process_spawn_helper(&spec, command);
    if (error)
        wefti_message_free(table, asking.question);
    return error;
}
