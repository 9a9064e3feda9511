/* send.c - sending: straight into the hands of a process that waits for it, or by its lane.
 *
 * What.   An idle process has nothing in its mailbox.  Who sends to it from a worker of its runtime claims its task (word.h), which makes
 *         all that is the process's own his, puts the message where the process will look, and queues it.  So a message between two that
 *         talk costs two read-modify-writes: this one, and that by which the receiver becomes idle again.
 * Race.   sender: D1 claim the task               others: S1 push, S2 wake (process.h)
 *                 D2 still that process,          process: P1, P2; the word to idle
 *                    and its lane empty?
 *                 D3 append to `pending`, queue
 * Claim.  As in process.h; and the messages of one sender stay in order.
 * Why.    From D1 to D3 nobody runs the task, so it does not end.  Should it be another's by now: the old process closed its lane
 *         before that one could become idle, and D1 acquires it, so D2 sees that.  What the sender itself has pushed before is
 *         in the lane, and D2 sees it, or was taken before D1.  If D2 says no, somebody was woken for no reason, which every task
 *         allows.
 * Alone.  The only worker of a runtime runs the sender, so it does not run the process, and nobody else does.  If that is `handed`, which
 *         is set at D3, and by that worker where it starts a class, then what it holds is the sender's too (D4), without a claim; it
 *         has been queued.  So it stays until it runs, or is refused, by that worker.
 * Caches. A process that ran on another worker costs a line's way from there three times: its own, its task's, the task's state.  Each is asked for
 *         as soon as its address is known, and to be written; one that is queued or runs (`handed`, `receiving`) is not looked at
 *         further than its own line.
 * Not covered.  A control thread hands out all tasks (reactor), bounded mailboxes, who sends from outside: by the lane.
 * Checked by.  test/model/process.c
 */
#include "plat/cache.h"
#include "process/process.h"
#include "task/account.h"

/* False: by the lane. */
static inline __attribute__((always_inline)) bool hand_over(struct wefti_process *process, struct wefti_worker *w,
                                                            uint32_t generation, struct wefti_message *message) {
    uint64_t open = wefti_lane_word(generation, NULL);
    struct weft_task *task = load_relaxed(&process->task); /* of that process, if D2 says so */
    if (!task || load_relaxed(&process->messages) != open || (w->central | w->parking)) /* a look */
        return false;
    if (load_relaxed(&process->handed)) { /* a hint: it is queued; or where we are alone, ours */
        if (!wefti_sends_alone(w))
            return false;
        wefti_chain_append(&process->pending, &message->link); /* D4 */
        return true;
    }
    if (!load_relaxed(&process->receiving)) /* a hint: it runs */
        return false;
    wefti_fetch_own(task);
    wefti_fetch_own(task + 1); /* its state, for the run */
    if (load_own(&w->resting) == task)
        wefti_worker_unrest(w);
    if (!wefti_word_claim(&task->word)) /* D1 */
        return false;
    bool same = load_relaxed(&process->messages) == open && load_relaxed(&process->task) == task; /* D2; D1 orders it */
    if (WEFTI_LIKELY(same)) {
        wefti_chain_append(&process->pending, &message->link); /* D3 */
        store_relaxed(&process->handed, true); /* ours since D1 */
    }
    if (WEFTI_LIKELY(!wefti_task_is_pinned(task)))
        w->sched->submit(w, task, WEFTI_SUBMIT_WAKE);
    else
        wefti_submit(task, WEFTI_SUBMIT_WAKE);
    return same;
}

/* process: what is at the pid's place. */
static inline __attribute__((always_inline)) int deliver(struct wefti_processes *table, struct wefti_worker *w,
                                                         struct wefti_process *process, weft_pid to,
                                                         struct wefti_message *message, int64_t until) {
    if (WEFTI_UNLIKELY(!wefti_process_is(process, to)))
        return -ESRCH;
    if (w && w->rt == table->rt && hand_over(process, w, wefti_pid_generation(to), message))
        return 0;
    return wefti_mailbox_send(table, process, to, message, until);
}

int wefti_message_send(struct wefti_processes *table, struct wefti_worker *w, weft_pid to,
                       struct wefti_message *message, int64_t until) {
    return deliver(table, w, wefti_process_at(table, wefti_pid_index(to)), to, message, until);
}

/* The table to send into, or NULL and why not.  *w: the caller's worker. */
static inline struct wefti_processes *table_of(struct weft_runtime *rt, size_t size, struct wefti_worker **w,
                                               int *error) {
    *w = wefti_worker_here();
    struct weft_runtime *to = rt || !*w ? rt : (*w)->rt;
    struct wefti_annex *annex = to ? wefti_annex(to, WEFTI_ANNEX_PROCESSES) : NULL;
    if (WEFTI_UNLIKELY(size > UINT32_MAX || !annex)) {
        *error = size > UINT32_MAX ? -EMSGSIZE : to ? -ESRCH : -EINVAL;
        return NULL;
    }
    if (WEFTI_UNLIKELY(load_relaxed(&wefti_accounts_exist))) { /* a hint */
        if ((*error = wefti_charge_channel_call()))
            return NULL;
        *w = wefti_worker_here(); /* paying may have suspended us */
    }
    return (struct wefti_processes *)(void *)annex; /* its first field */
}

static inline __attribute__((always_inline)) int send_copy(struct weft_runtime *rt, weft_pid to, uint64_t tag,
                                                           const void *data, size_t size, int64_t until) {
    int error;
    struct wefti_worker *w;
    struct wefti_processes *table = table_of(rt, size, &w, &error);
    if (WEFTI_UNLIKELY(!table))
        return error;
    struct wefti_process *there = wefti_process_at(table, wefti_pid_index(to));
    if (WEFTI_LIKELY(there != NULL))
        wefti_fetch_own(there); /* while the message is filled */
    struct wefti_message *message = wefti_message_new_on(table, w, WEFT_MESSAGE, tag, data, size);
    if (WEFTI_UNLIKELY(!message))
        return -ENOMEM;
    error = deliver(table, w, there, to, message, until);
    if (WEFTI_UNLIKELY(error))
        wefti_message_free(table, message);
    return error;
}

int weft_send(weft_runtime *rt, weft_pid to, uint64_t tag, const void *data, size_t size) {
    return send_copy(rt, to, tag, data, size, WEFT_NEVER);
}

int weft_try_send(weft_runtime *rt, weft_pid to, uint64_t tag, const void *data, size_t size) {
    return send_copy(rt, to, tag, data, size, WEFT_NOW);
}

int weft_send_ref(weft_runtime *rt, weft_pid to, uint64_t tag, void *data, size_t size, void (*release)(void *data)) {
    int error;
    struct wefti_worker *w;
    struct wefti_processes *table = table_of(rt, size, &w, &error);
    if (!table)
        return error;
    struct wefti_message *message = wefti_message_new_on(table, w, WEFT_MESSAGE, tag, NULL, 0);
    if (!message)
        return -ENOMEM;
    message->is_inline = false;
    message->size = (uint32_t)size;
    message->outside.data = data;
    message->outside.release = release;
    error = wefti_message_send(table, w, to, message, WEFT_NEVER);
    if (error) {
        message->is_inline = true; /* on failure it stays the caller's */
        wefti_message_free(table, message);
    }
    return error;
}
