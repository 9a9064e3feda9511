/* step.c - a process that is a class: called with what has come, until it has nothing to do. */
#include "process/command.h"
#include "process/helper.h"

#define EVENTS 64u /* a step, at most */
#define TURNS 8u   /* steps, before others have their turn */

/* May a class that waits for its commands go on? */
static bool is_released(struct wefti_process *process) {
    return process->has_system ||
           (process->pending.count && load_relaxed(&process->wake_blocked)); /* fixed while it lives */
}

/* Takes what a step is to see, in order. */
static __attribute__((noinline)) struct wefti_chain gather(struct wefti_process *process) {
    struct wefti_chain taken = {NULL, NULL, 0};
    uint32_t messages = 0;
    uint64_t bytes = 0;
    for (struct wefti_link *item; taken.count < EVENTS;) {
        if (!(item = wefti_chain_take(&process->pending)))
            break;
        struct wefti_message *message = wefti_message_of(item);
        process->in_flight -= message->type == WEFT_MESSAGE_YIELD && process->in_flight;
        if (!message->is_inline && message->outside.release == wefti_socket_unseen)
            message->outside.release = wefti_large_free; /* the connection is the process's now */
        bool system = message->type != WEFT_MESSAGE;
        process->system_count -= system;
        messages += !system;
        bytes += system ? 0 : wefti_message_weight(message);
        wefti_chain_append(&taken, item);
    }
    process->has_system = process->system_count != 0;
    wefti_mailbox_used(process, messages, bytes);
    return taken;
}

/* Show so many of a list.  True: one of them carries something that is not in it.  *last: of them, if there are any. */
static inline bool show(struct wefti_link *item, uint32_t count, weft_message *events, struct wefti_link **last) {
    bool all_inline = true;
    for (uint32_t i = 0; i < count; i++, item = item->next) {
        wefti_message_show(wefti_message_of(item), &events[i]);
        all_inline &= wefti_message_of(item)->is_inline;
        *last = item;
    }
    return !all_inline;
}

/* Back where they came from, with what they carry. */
static __attribute__((noinline)) void release(struct wefti_process *process, struct wefti_chain taken) {
    wefti_messages_free(process->table, &taken);
}

/* Returns false if the process cannot become one of that class.  A smaller state leaves the bytes behind it as they are, for a later
 * class that has them again. */
static bool upgrade(struct wefti_process_header *header, const weft_process_class *next) {
    if (!next || !next->step || next->size < WEFTI_CLASS_SIZE_MIN || next->state_size > header->process->state_room)
        return false;
    header->class_ = next;
    return true;
}

static inline bool has_come(struct wefti_process *process) {
    return load_relaxed(&process->messages) & WEFTI_LANE_POINTER; /* a look */
}

/* Nothing has come, and nothing is the matter. */
static inline bool is_quiet(struct wefti_process *process) { return !has_come(process) && !process->unusual; }

/* Take what has come.  False: there is nothing to do. */
static __attribute__((noinline)) bool take(struct weft_task *task, struct wefti_process *process) {
    if (!wefti_mailbox_is_empty(process))
        wefti_mailbox_take(process);
    if (!process->blocked)
        return !process->idle || process->pending.count;
    if (!is_released(process))
        return false; /* what wakes it is in the lane, or will be */
    process->blocked = false;
    wefti_word_set_sub(&task->word, 0);
    return true;
}

/* What a step says, other than that it is idle.  True: it is over, with *error. */
static __attribute__((noinline)) bool is_over(struct weft_task *task, const weft_step *out,
                                              struct wefti_commands *commands, int *error) {
    struct wefti_process_header *header = (struct wefti_process_header *)(void *)(task + 1);
    struct wefti_process *process = header->process;
    if ((unsigned)out->status >= WEFT_STEP_UPGRADE && *error >= 0 &&
        (out->status != WEFT_STEP_UPGRADE || !upgrade(header, out->upgrade)))
        *error = -EINVAL; /* no status at all would be called for ever */
    if (*error < 0 || out->status == WEFT_STEP_DONE) {
        wefti_messages_free(process->table, &commands->asked);
        *error = *error < 0 ? *error : out->result < 0 ? out->result : 0;
        return true;
    }
    process->in_flight += commands->asked.count;
    process->idle = out->status == WEFT_STEP_IDLE;
    /* Blocked before anything is dispatched: a command that completes at once releases it again (W26). */
    if (out->status == WEFT_STEP_YIELD && process->in_flight) {
        process->blocked = true;
        wefti_word_set_sub(&task->word, process->table->blocked);
    }
    wefti_commands_dispatch(commands, wefti_process_pid(process));
    return false;
}

/* One step with what is there.  What is alive over the call of the user's are six values: so many registers are kept. */
static inline __attribute__((always_inline)) int step(struct weft_task *task, weft_step *out) {
    struct wefti_process *process = wefti_process_of_class(task);
    weft_message events[EVENTS];
    struct wefti_link *first = process->pending.first, *last = NULL;
    uint32_t count = process->pending.count;
    if (WEFTI_LIKELY(!process->unusual && count <= EVENTS)) {
        process->pending.count = 0; /* all, as they are */
    } else {
        struct wefti_chain some = gather(process);
        first = some.first;
        count = some.count;
    }
    bool outside = show(first, count, events, &last);
    struct wefti_process_header *header = (struct wefti_process_header *)(void *)(task + 1);
    int error = header->class_->step(header + 1, events, count, out);
    struct wefti_chain used = {first, last, count};
    if (WEFTI_LIKELY(count) && WEFTI_UNLIKELY(outside || !wefti_nodes_give_chain(&wefti_worker_self()->messages,
                                                                                 used))) /* it does not leave it */
        release(wefti_process_of_class(task), used);
    return error;
}

weft_poll wefti_process_poll(struct weft_task *task, void *raw) {
    (void)raw; /* behind the task */
    struct wefti_process *process = wefti_process_of_class(task);
    store_relaxed(&process->handed, false); /* it runs; a hint to senders */
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        if (WEFTI_LIKELY(is_quiet(process)) ? process->idle && !process->pending.count : !take(task, process))
            return WEFT_PENDING;
        struct wefti_commands commands;
        commands.asked.count = 0;
        weft_step out = {WEFT_STEP_CONTINUE, 0, NULL, (struct wefti_step *)(void *)&commands};
        int error = step(task, &out);
        process = wefti_process_of_class(task); /* the same */
        if (WEFTI_LIKELY(out.status == WEFT_STEP_IDLE && error >= 0 && !commands.asked.count)) {
            process->idle = true;
            if (WEFTI_LIKELY(!has_come(process) && !(process->unusual | process->pending.count)))
                return WEFT_PENDING;
        } else if (is_over(task, &out, &commands, &error)) {
            return weft_done(task, error, (void *)(uintptr_t)wefti_failure_is_known); /* to links and monitors */
        }
        if (WEFTI_UNLIKELY(wefti_word_must_end(load_relaxed(&task->word)))) /* a flag; between two steps, it ends */
            return WEFT_PENDING;
    }
    return WEFT_YIELD;
}
