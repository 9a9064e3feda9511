/* step.c - a process that is a class: called with what has come, until it has nothing to do. */
#include "process/command.h"
#include "process/helper.h"

#define EVENTS 64u /* a step, at most */
#define TURNS 8u   /* steps, before others have their turn */

/* May a class that waits for its commands go on? */
static bool is_released(struct wefti_process *process) {
    return process->has_urgent ||
           (process->pending.count && load_relaxed(&process->wake_blocked)); /* fixed while it lives */
}

/* Take what a step is to see, the system's first. */
static __attribute__((noinline)) struct wefti_chain gather(struct wefti_process *process) {
    struct wefti_chain taken = {NULL, NULL, 0};
    uint32_t messages = 0;
    uint64_t bytes = 0;
    for (struct wefti_link *item; taken.count < EVENTS;) {
        item = wefti_chain_take(process->urgent.count ? &process->urgent : &process->pending);
        if (!item)
            break;
        struct wefti_message *message = wefti_message_of(item);
        process->in_flight -= message->type == WEFT_MESSAGE_YIELD && process->in_flight;
        if (!message->is_inline && message->outside.release == wefti_socket_unseen)
            message->outside.release = wefti_large_free; /* the connection is the process's now */
        messages += message->type == WEFT_MESSAGE;
        bytes += message->type == WEFT_MESSAGE ? wefti_message_weight(message) : 0;
        wefti_chain_append(&taken, item);
    }
    process->has_urgent = process->urgent.count != 0;
    wefti_mailbox_used(process, messages, bytes);
    return taken;
}

/* One step with what is there. */
static inline int step(struct wefti_processes *table, struct wefti_process_header *header, weft_step *out) {
    struct wefti_process *process = header->process;
    weft_message events[EVENTS];
    struct wefti_chain taken;
    if (WEFTI_LIKELY(!process->has_urgent && process->pending.count <= EVENTS && !process->bounded)) {
        taken = process->pending; /* all, as they are */
        process->pending.count = 0;
    } else {
        taken = gather(process);
    }
    struct wefti_link *item = taken.first;
    for (uint32_t i = 0; i < taken.count; i++, item = item->next)
        wefti_message_show(wefti_message_of(item), &events[i]);
    int error = header->class_->step(header + 1, events, taken.count, out);
    if (taken.count)
        wefti_messages_free(table, &taken);
    return error;
}

static bool upgrade(struct wefti_process_header *header, const weft_process_class *next) {
    if (!next || !next->step || next->size < sizeof *next || next->state_size > header->class_->state_size)
        return false;
    header->class_ = next;
    return true;
}

weft_poll wefti_process_poll(struct weft_task *task, void *raw) {
    struct wefti_process_header *header = raw;
    struct wefti_process *process = header->process;
    struct wefti_processes *table = wefti_processes_here(wefti_task_rt(task)); /* process->table is on another line */
    store_relaxed(&process->handed, false); /* it runs; a hint to senders */
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        if (WEFTI_UNLIKELY(wefti_word_must_end(load_relaxed(&task->word)))) /* a flag; between two steps, it ends */
            return WEFT_PENDING;
        if (!wefti_mailbox_is_empty(process))
            wefti_mailbox_take(process);
        if (process->blocked) {
            if (!is_released(process))
                return WEFT_PENDING; /* what wakes it lies in a lane, or will */
            process->blocked = false;
            wefti_word_set_sub(&task->word, 0);
        } else if (process->idle && !process->has_urgent && !process->pending.count) {
            return WEFT_PENDING;
        }
        struct wefti_commands commands;
        commands.table = table;
        commands.asked.count = 0;
        weft_step out = {WEFT_STEP_CONTINUE, 0, NULL, (struct wefti_step *)(void *)&commands};
        int error = step(table, header, &out);
        if (WEFTI_UNLIKELY((unsigned)out.status >= WEFT_STEP_UPGRADE) && error >= 0 &&
            (out.status != WEFT_STEP_UPGRADE || !upgrade(header, out.upgrade)))
            error = -EINVAL; /* no status at all would be called for ever */
        if (error < 0 || out.status == WEFT_STEP_DONE) {
            wefti_messages_free(table, &commands.asked);
            return weft_done(task, error < 0 ? error : out.result < 0 ? out.result : 0, NULL);
        }
        if (WEFTI_UNLIKELY(commands.asked.count))
            process->in_flight += commands.asked.count;
        process->idle = out.status == WEFT_STEP_IDLE;
        /* Blocked before anything is dispatched: a command that completes at once releases it again (W26). */
        if (out.status == WEFT_STEP_YIELD && process->in_flight) {
            process->blocked = true;
            wefti_word_set_sub(&task->word, table->blocked);
        }
        if (WEFTI_UNLIKELY(commands.asked.count))
            wefti_commands_dispatch(&commands, wefti_process_pid(process));
    }
    return WEFT_YIELD;
}
