/* send.c - sending: straight into the hands of a process that waits for it, or by its lane.
 *
 * What.   An idle process has nothing in its mailbox.  Who sends to it from a worker of its runtime claims its task (word.h), which makes
 *         all that is the process's own his, puts the message where the process will look, and queues it.  So a message between two that
 *         talk costs two read-modify-writes: this one, and that by which the receiver becomes idle again.
 * Race.   sender: D1 claim the task               others: S1 push, S2 wake (process.h)
 *                 D2 still that process,          process: P1, P2; the word to idle
 *                    and its lane empty?
 *                 D3 append to `pending`, queue
 * Claim.  As in process.h; and what one producer sends or tells, messages and system events, stays in order.
 * Why.    From D1 to D3 nobody runs the task, so it does not end.  Should it be another's by now: the old process closed its lane
 *         before that one could become idle, and D1 acquires it, so D2 sees that.  What the sender itself has pushed before is
 *         in the lane, and D2 sees it, or was taken before D1.  If D2 says no, somebody was woken for no reason, which every task
 *         allows.  A fiber that rests on the sender's worker (fiber/switch.h) has been claimed by that.
 * Alone.  The only worker of a runtime runs the sender, so it does not run the process, and nobody else does.  If that is `handed`, which
 *         is set at D3, and by that worker where it starts a class, then what it holds is the sender's too (D4), without a claim; it
 *         has been queued.  So it stays until it runs, or is refused, by that worker.  D2 is not needed either: who was that process
 *         before D1 is it after, and what has come into the lane meanwhile is from others.
 * Caches. A process that ran on another worker costs a line's way from there three times: its own, its task's, the task's state.  Each is asked for
 *         as soon as its address is known, and to be written; one that is queued or runs (`handed`, `receiving`) is not looked at
 *         further than its own line.
 * Not covered.  A control thread hands out all tasks (reactor), bounded mailboxes, who sends from outside: by the lane.
 * Checked by.  test/model/process.c
 */
#include "fiber/slice.h"
#include "plat/cache.h"
#include "process/relay.h"
#include "task/account.h"

/* By the lane: wefti_mailbox_send, or that and more. */
typedef int (*by_lane)(struct wefti_processes *table, struct wefti_process *process, weft_pid to,
                       struct wefti_message *message, int64_t until);

/* D2 says no: it is woken for no reason. */
static __attribute__((noinline)) int wake_stranger(struct weft_task *task, struct wefti_process *process, weft_pid to,
                                                   struct wefti_message *message, int64_t until, by_lane lane) {
    wefti_submit(task, WEFTI_SUBMIT_WAKE);
    return lane(process->table, process, to, message, until);
}

/* process: what the pid names, as far as can be seen.  w: a worker of its runtime.  All that is called is called last. */
static inline __attribute__((always_inline)) int deliver(struct wefti_processes *table, struct wefti_worker *w,
                                                         struct wefti_process *process, weft_pid to,
                                                         struct wefti_message *message, int64_t until, by_lane lane) {
    uint64_t open = wefti_lane_word(wefti_pid_generation(to), NULL);
    struct weft_task *task = load_relaxed(&process->task); /* of that process, if D2 says so */
    if (!task || load_relaxed(&process->messages) != open || w->elsewhere) /* a look */
        return lane(table, process, to, message, until);
    if (load_relaxed(&process->handed)) { /* a hint: it is queued; or where we are alone, ours */
        if (!w->alone)
            return lane(table, process, to, message, until);
        wefti_chain_append(&process->pending, &message->link); /* D4 */
        return 0;
    }
    if (!load_relaxed(&process->receiving)) /* a hint: it runs */
        return lane(table, process, to, message, until);
    if (!w->alone) {
        wefti_fetch_own(task);
        wefti_fetch_own(task + 1); /* its state, for the run */
    }
    if (!wefti_worker_take_resting(w, task) && !wefti_word_claim(&task->word)) /* D1 */
        return lane(table, process, to, message, until);
    if (!w->alone && WEFTI_UNLIKELY(load_relaxed(&process->messages) != open ||
                                    load_relaxed(&process->task) != task)) /* D2; D1 orders it */
        return wake_stranger(task, process, to, message, until, lane);
    wefti_chain_append(&process->pending, &message->link); /* D3 */
    store_relaxed(&process->handed, true); /* ours since D1 */
    if (WEFTI_LIKELY(!wefti_task_is_pinned(task)))
        w->sched->submit(w, task, WEFTI_SUBMIT_WAKE);
    else
        wefti_submit(task, WEFTI_SUBMIT_WAKE);
    return 0;
}

int wefti_message_send(struct wefti_processes *table, struct wefti_worker *w, weft_pid to,
                       struct wefti_message *message, int64_t until) {
    struct wefti_process *process = wefti_process_find(table, to);
    if (WEFTI_UNLIKELY(!process))
        return wefti_relay_send(table, to, message);
    return w && w->rt == table->rt ? deliver(table, w, process, to, message, until, wefti_mailbox_send)
                                   : wefti_mailbox_send(table, process, to, message, until);
}

/* The table to send into, or NULL and why not.  *w: the caller's worker.  A fiber that sends and sends lets others run now and then, and first of all those it
 * sends to: else they would not get to it, and their mailboxes grow. */
static inline struct wefti_processes *table_of(struct weft_runtime *rt, size_t size, int64_t until,
                                               struct wefti_worker **w, int *error) {
    wefti_slice_use_heavy(until);
    *w = wefti_worker_here();
    struct weft_runtime *to = rt || !*w ? rt : (*w)->rt;
    struct wefti_annex *annex = to ? wefti_annex(to, WEFTI_ANNEX_PROCESSES) : NULL;
    if (WEFTI_UNLIKELY(size > UINT32_MAX || !annex || (!*w && wefti_is_forked()))) {
        *error = size > UINT32_MAX ? -EMSGSIZE : wefti_no_processes(to, -ESRCH);
        return NULL;
    }
    if (WEFTI_UNLIKELY(load_relaxed(&wefti_accounts_exist))) { /* a hint */
        if ((*error = wefti_charge_channel_call(until)))
            return NULL;
        *w = wefti_worker_here(); /* paying may have suspended us */
    }
    return (struct wefti_processes *)(void *)annex; /* its first field */
}

static __attribute__((noinline)) int send_any(struct weft_runtime *rt, weft_pid to, uint64_t tag, const void *data,
                                              size_t size, int64_t until) {
    int error;
    struct wefti_worker *w;
    struct wefti_processes *table = table_of(rt, size, until, &w, &error);
    if (WEFTI_UNLIKELY(!table))
        return error;
    struct wefti_message *message = wefti_message_new_on(table, w, WEFT_MESSAGE, tag, data, size);
    if (WEFTI_UNLIKELY(!message))
        return -ENOMEM;
    error = wefti_message_send(table, w, to, message, until);
    if (WEFTI_UNLIKELY(error))
        wefti_message_free(table, message);
    return error;
}

/* The message has been filled, and is not to be handed over. */
static __attribute__((noinline)) int send_by_lane(struct wefti_processes *table, struct wefti_process *process,
                                                  weft_pid to, struct wefti_message *message, int64_t until) {
    int error = wefti_process_is(process, to) ? wefti_mailbox_send(table, process, to, message, until)
                                              : wefti_relay_send(table, to, message);
    if (WEFTI_UNLIKELY(error))
        wefti_message_free(table, message);
    return error;
}

/* What most are: few bytes, from a worker to a process of its runtime.  All that is called is called last, and so the values
 * are in registers that nobody has to save. */
static inline __attribute__((always_inline)) int send_copy(struct weft_runtime *rt, weft_pid to, uint64_t tag,
                                                           const void *data, size_t size, int64_t until) {
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(!w || (rt && rt != w->rt) || size > WEFTI_MESSAGE_INLINE || !w->messages.loaded.count ||
                       load_relaxed(&wefti_accounts_exist))) /* a hint */
        return send_any(rt, to, tag, data, size, until);
    struct wefti_processes *table = wefti_processes_here(w->rt);
    struct wefti_process_chunk *chunk = table ? wefti_process_chunk_of(table, wefti_pid_index(to)) : NULL;
    if (WEFTI_UNLIKELY(!chunk))
        return send_any(rt, to, tag, data, size, until);
    struct wefti_process *process = wefti_as_it_is(&chunk->process[wefti_pid_index(to) % WEFTI_PROCESS_CHUNK]);
    wefti_fetch_own(process); /* while the message is filled */
    struct weft_task *current = wefti_current(w);
    weft_pid from;
    if (WEFTI_LIKELY(current && current->poll == wefti_process_poll)) {
        from = wefti_process_pid(wefti_process_of_class(current));
    } else {
        if (wefti_slice_spend_heavy(w) && until != WEFT_NOW) /* as in table_of */
            return send_any(rt, to, tag, data, size, until);
        from = wefti_pid_of_task(current);
    }
    struct wefti_message *message = wefti_nodes_take_loaded(&w->messages);
    wefti_message_address(message, from, WEFT_MESSAGE, tag, size);
    wefti_message_copy(message->bytes, data, size);
    if (WEFTI_UNLIKELY(!wefti_process_is(process, to)))
        return send_by_lane(table, process, to, message, until);
    return deliver(table, w, process, to, message, until, send_by_lane);
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
    struct wefti_processes *table = table_of(rt, size, WEFT_NEVER, &w, &error);
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
