/* command.c - commands: the registry of their handlers, dispatching, completing. */
#include "process/command.h"

#include <string.h>

#include "process/helper.h"

#define DIRECT 256u  /* handlers found by number; WEFTI_COMMAND_FIRST to _END are the library's own */
#define BUCKETS 256u /* the others: by hash */

struct handler {
    weft_command_fn fn;
    void *arg;
    unsigned command;
    struct handler *next; /* of a number from DIRECT on: in its bucket */
};

struct wefti_handlers {
    struct handler direct[DIRECT];
    struct handler *others[BUCKETS];
};

static struct handler **bucket_of(struct wefti_handlers *handlers, unsigned command) {
    return &handlers->others[command * 2654435769u >> 24];
}

int weft_yield_command(weft_step *step, unsigned command, uint64_t tag, const void *data, size_t size) {
    struct wefti_commands *commands = step ? (struct wefti_commands *)(void *)step->internal : NULL;
    if (!commands)
        return -EINVAL;
    if (size > UINT32_MAX)
        return -EMSGSIZE;
    struct wefti_processes *table = wefti_processes_of(NULL, false);
    if (!table)
        return wefti_no_process(); /* a step that has forked */
    struct wefti_message *message = wefti_message_new(table, WEFT_MESSAGE_YIELD, tag, data, size);
    if (!message)
        return -ENOMEM;
    message->error = (int)command;
    wefti_chain_append(&commands->asked, &message->link);
    return 0;
}

static const struct handler *find(struct wefti_processes *table, unsigned command) {
    struct wefti_handlers *handlers = load_relaxed(&table->handlers); /* frozen: the table's lock came between */
    if (!handlers)
        return NULL;
    if (command < DIRECT)
        return handlers->direct[command].fn ? &handlers->direct[command] : NULL;
    struct handler *handler = *bucket_of(handlers, command);
    while (handler && handler->command != command)
        handler = handler->next;
    return handler;
}

/* The request becomes its completion: that never lacks memory. */
static void answer(struct wefti_processes *table, weft_pid pid, struct wefti_message *message, int error,
                   const void *data, size_t size) {
    if (!message->is_inline)
        message->outside.release(message->outside.data);
    message->is_inline = true;
    message->size = (uint32_t)size;
    wefti_message_copy(message->bytes, data, size);
    message->from = WEFT_PID_NONE;
    message->error = error;
    struct wefti_process *process = wefti_process_find(table, pid); /* it is in its step */
    bool open = process && wefti_mailbox_push_system(table, process, pid, message);
    wefti_assert(open, pid);
}

int wefti_command_done(const weft_command *command, int error, const void *data, size_t size) {
    struct wefti_request *request = (struct wefti_request *)(uintptr_t)command; /* its first field */
    if (error)
        return error;
    struct wefti_message *message = request->message;
    request->message = NULL;
    answer(request->table, command->from, message, 0, data, size);
    return 0;
}

void wefti_commands_dispatch(struct wefti_commands *commands, weft_pid pid) {
    struct wefti_processes *table = wefti_processes_of(NULL, false);
    for (struct wefti_link *item; (item = wefti_chain_take(&commands->asked));) {
        struct wefti_message *message = wefti_message_of(item);
        weft_message shown;
        wefti_message_show(message, &shown);
        unsigned number = (unsigned)message->error;
        const struct handler *handler = find(table, number);
        weft_command_fn fn = handler ? handler->fn : wefti_builtin(number);
        struct wefti_request request = {{table->rt, pid, number, shown.tag, shown.data, shown.size}, table, message};
        int error = fn ? fn(&request.command, handler ? handler->arg : NULL) : -ENOSYS; /* W39 */
        if (error < 0)
            answer(table, pid, message, error, NULL, 0);
        else if (request.message)
            wefti_message_free(table, message);
    }
}

int weft_command_complete(weft_runtime *rt, weft_pid pid, uint64_t tag, int error, const void *data, size_t size) {
    struct wefti_processes *table = wefti_processes_of(rt, false);
    return table ? wefti_mailbox_tell(table, pid, WEFT_MESSAGE_YIELD, tag, WEFT_PID_NONE, error, data, size)
                 : wefti_no_processes(rt, -ESRCH);
}

int weft_command_register(weft_runtime *rt, unsigned command, weft_command_fn fn, void *arg) {
    if (!fn)
        return -EINVAL;
    if (command >= WEFTI_COMMAND_FIRST && command < WEFTI_COMMAND_END)
        return -EEXIST;
    struct wefti_processes *table = wefti_processes_of(rt, true);
    if (!table)
        return wefti_no_processes(rt, -ENOMEM);
    wefti_lock_take(&table->lock);
    int error = table->made ? -EBUSY : 0; /* frozen: handlers are read without a lock */
    struct wefti_handlers *handlers = load_own(&table->handlers);
    if (!error && !handlers) {
        handlers = wefti_alloc(sizeof *handlers);
        error = handlers ? 0 : -ENOMEM;
    }
    if (!error && find(table, command)) {
        error = -EEXIST;
    } else if (!error && command < DIRECT) {
        handlers->direct[command] = (struct handler){fn, arg, command, NULL};
    } else if (!error) {
        struct handler *handler = wefti_alloc(sizeof *handler);
        error = handler ? 0 : -ENOMEM;
        if (handler) {
            struct handler **bucket = bucket_of(handlers, command);
            *handler = (struct handler){fn, arg, command, *bucket};
            *bucket = handler;
        }
    }
    if (handlers)
        store_relaxed(&table->handlers, handlers); /* the first process takes the lock after us */
    wefti_lock_give(&table->lock);
    return error;
}

void wefti_handlers_fini(struct wefti_handlers *handlers) {
    if (!handlers)
        return;
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct handler *handler = handlers->others[i], *next; handler; handler = next) {
            next = handler->next;
            wefti_free(handler, sizeof *handler);
        }
    wefti_free(handlers, sizeof *handlers);
}
