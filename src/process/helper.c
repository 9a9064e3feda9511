/* helper.c - tasks that do something for a process (helper.h has the protocol). */
#include "process/helper.h"

int wefti_helper_attach(struct wefti_helper *helper, const weft_command *command, struct weft_task *task) {
    struct wefti_process *process = wefti_process_self(); /* the process that asks: we are called in its step */
    helper->table = process->table;
    helper->pid = command->from;
    helper->tag = command->tag;
    helper->task = task;
    helper->error = -ECANCELED; /* the rest is zeroed */
    helper->record = wefti_message_new(process->table, WEFTI_RECORD_HELPER, command->tag, NULL, 0);
    if (!helper->record)
        return -ENOMEM;
    helper->record->from = command->from;
    helper->record->record.to = (uintptr_t)task; /* with the handle */
    wefti_lock_take(&process->lock);
    struct wefti_message *left = wefti_record_put(process, helper->record);
    wefti_lock_give(&process->lock);
    wefti_records_free(process->table, left);
    return 0;
}

int wefti_helper_begin(struct wefti_helper *helper, const weft_command *command, struct wefti_room *room) {
    wefti_word_spawn(&room->task->word, true); /* from here on it can be cancelled */
    if (wefti_helper_attach(helper, command, room->task)) {
        wefti_spawn_refuse(room, true);
        return -ENOMEM;
    }
    weft_task *handle;
    int error = wefti_spawn_submit_born(room, &handle); /* the helper may be gone after this line */
    wefti_assert(!error, (unsigned)-error); /* only from outside of its workers it could be refused */
    return 0;
}

void wefti_helper_end(struct wefti_helper *helper) {
    struct wefti_processes *table = helper->table;
    struct wefti_message *record = helper->record;
    struct wefti_process *process = wefti_process_lock(table, helper->pid);
    if (!process) { /* E1 came first: the record and the handle are E2's */
        if (helper->large && helper->release)
            helper->release(helper->large);
        return;
    }
    wefti_record_take(process, record); /* H1 */
    wefti_lock_give(&process->lock);
    weft_task_drop(helper->task);
    record->type = WEFT_MESSAGE_YIELD;
    record->from = WEFT_PID_NONE;
    record->error = helper->error;
    record->size = helper->size;
    if (helper->large) {
        record->is_inline = false;
        record->outside.data = helper->large;
        record->outside.release = helper->release;
    } else {
        memcpy(record->bytes, helper->small, sizeof helper->small);
    }
    if (!wefti_mailbox_push_system(table, process, helper->pid, record)) /* H2 */
        wefti_message_free(table, record);
}

void wefti_helper_cancel(struct wefti_message *record) {
    struct weft_task *task = (struct weft_task *)(uintptr_t)record->record.to;
    wefti_cancel(task, WEFT_REASON_EXPLICIT);
    weft_task_drop(task);
}

bool wefti_helper_cancel_tag(struct wefti_process *process, uint64_t tag) {
    wefti_lock_take(&process->lock);
    struct wefti_message *record = wefti_record_find(process, WEFT_PID_NONE, tag);
    struct weft_task *task = record ? (struct weft_task *)(uintptr_t)record->record.to : NULL;
    if (task)
        wefti_word_ref(&task->word); /* the record has a handle, and is there */
    wefti_lock_give(&process->lock);
    if (!task)
        return false;
    wefti_cancel(task, WEFT_REASON_EXPLICIT);
    wefti_task_unref(task, 0);
    return true;
}

/* -- Fibers -------------------------------------------------------------------------------------------------- */

static int run(void *arg) {
    struct wefti_job_for *job = arg;
    job->fn(job);
    return 0;
}

/* Also when it was cancelled before it began. */
static void ended(struct wefti_fiber *fiber) {
    struct wefti_job_for *job = fiber->task.pointer;
    if (job->let_go)
        job->let_go(job->held);
    wefti_helper_end(&job->helper);
    wefti_free(job, job->bytes);
}

int wefti_helper_go(const weft_command *command, void (*fn)(struct wefti_job_for *job), const char *name) {
    return wefti_helper_go_with(command, fn, name, NULL, NULL);
}

int wefti_helper_go_with(const weft_command *command, void (*fn)(struct wefti_job_for *job), const char *name,
                         void *held, void (*let_go)(void *held)) {
    struct wefti_room room;
    size_t bytes = sizeof(struct wefti_job_for) + command->size;
    struct wefti_job_for *job = wefti_alloc(bytes);
    if (!job)
        return -ENOMEM;
    static const struct wefti_owner_kind kind = {ended, NULL, NULL};
    job->owner.kind = &kind;
    job->fn = fn;
    job->held = held;
    job->let_go = let_go;
    job->bytes = bytes;
    job->size = command->size;
    memcpy(job->data, command->data, command->size);
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = run;
    spec.arg = job;
    spec.name = name;
    int error = wefti_fiber_make(command->rt, &spec, &job->owner, &room);
    if (!error)
        error = wefti_helper_begin(&job->helper, command, &room);
    if (error)
        wefti_free(job, bytes);
    return error;
}
