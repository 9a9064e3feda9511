/* step.c - a process that is a class: called with what has come, until it has nothing to do. */
#include "process/command.h"
#include "process/process.h"

#define EVENTS 64u /* a step, at most */
#define TURNS 8u   /* steps, before others have their turn */

struct header {
    struct wefti_process *process;
    uint64_t align;
};

/* May a class that waits for its commands go on?  The system's messages lie in front. */
static bool is_released(const struct wefti_process *process) {
    if (!process->pending.count)
        return false;
    const struct wefti_message *first = (const struct wefti_message *)(const void *)process->pending.first;
    return process->wake_blocked || first->type != WEFT_MESSAGE;
}

/* One step with what is pending.  0; 1: it has ended with out->result; a negative error. */
static int step(struct wefti_process *process, void *state, struct wefti_commands *commands, weft_step *out) {
    weft_message events[EVENTS];
    struct wefti_message *taken[EVENTS];
    uint32_t count = 0;
    for (; count < EVENTS && process->pending.count; count++) {
        taken[count] = (struct wefti_message *)(void *)wefti_chain_take(&process->pending);
        process->in_flight -= taken[count]->type == WEFT_MESSAGE_YIELD && process->in_flight;
        wefti_message_show(taken[count], &events[count]);
    }
    int error = process->class_->step(state, events, count, out);
    for (uint32_t i = 0; i < count; i++) {
        wefti_mailbox_used(process, taken[i]);
        wefti_message_free(process->table, taken[i]);
    }
    (void)commands;
    return error;
}

weft_poll wefti_process_poll(struct weft_task *task, void *raw) {
    struct header *header = raw;
    struct wefti_process *process = header->process;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        if (!wefti_mailbox_is_empty(process))
            wefti_mailbox_take(process);
        if (process->blocked) {
            if (!is_released(process))
                return WEFT_PENDING; /* what wakes it lies in a lane, or will */
            process->blocked = false;
            wefti_word_set_sub(&task->word, 0);
        } else if (process->idle && !process->pending.count) {
            return WEFT_PENDING;
        }
        struct wefti_commands commands = {process->table, {NULL, NULL, 0}};
        weft_step out = {WEFT_STEP_CONTINUE, 0, NULL, (struct wefti_step *)(void *)&commands};
        int error = step(process, header + 1, &commands, &out);
        if (error < 0 || out.status == WEFT_STEP_DONE) {
            wefti_commands_forget(&commands);
            return weft_done(task, error < 0 ? error : out.result < 0 ? out.result : 0, NULL);
        }
        process->in_flight += commands.asked.count;
        /* Blocked before anything is dispatched: a command that completes at once releases it again (W26). */
        process->idle = out.status == WEFT_STEP_IDLE;
        if (out.status == WEFT_STEP_YIELD && process->in_flight) {
            process->blocked = true;
            wefti_word_set_sub(&task->word, WEFTI_SUB_BLOCKED);
        } else if (out.status == WEFT_STEP_UPGRADE && out.upgrade && out.upgrade->step &&
                   out.upgrade->state_size <= process->class_->state_size) {
            process->class_ = out.upgrade;
        }
        wefti_commands_dispatch(&commands, wefti_process_pid(process));
    }
    return WEFT_YIELD;
}
