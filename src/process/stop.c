/* stop.c - stopping all processes, and who did not stop: a process that tells, monitors and ends all the others. */
#include "budget/cap.h"
#include "process/process.h"

#include <stdio.h>

#define STOP_TIMEOUT INT64_C(10000000000) /* W36 */
#define LOOK_AGAIN INT64_C(200000)        /* ns, between two looks at a process that is ending */

struct stop {
    struct wefti_processes *table;
    int64_t patience; /* ns; INT64_MAX: for ever.  The caller's clock and ours are two in a simulation */
    int64_t until; /* on ours */
    weft_process_left *left;
    size_t room;
    int forced;
};

/* Notes a process that has to be ended by force, and ends it. */
static void note(struct stop *stop, weft_pid pid) {
    struct wefti_process *process = wefti_process_lock(stop->table, pid);
    if (!process)
        return;
    if ((size_t)stop->forced < stop->room) {
        weft_process_left *left = &stop->left[stop->forced];
        left->pid = pid;
        snprintf(left->name, sizeof left->name, "%s",
                 load_own(&process->task)->name); /* alive while we hold the lock */
    }
    stop->forced++;
    wefti_lock_give(&process->lock);
    wefti_process_force(stop->table, pid);
}

/* One pass over all processes: tells each of them, or (late) ends it by force, and waits for their ends.  Returns how many there were. */
static int pass(struct stop *stop, weft_pid self, bool late, int *error) {
    int count = 0;
    weft_pid pid;
    uint64_t before = wefti_rest(wefti_process_self())->monitors; /* those of earlier passes may still come */
    for (uint32_t i = 0; wefti_process_visit(stop->table, i, &pid, NULL); i++) {
        uint64_t monitor;
        if (pid == WEFT_PID_NONE || pid == self)
            continue;
        if ((*error = weft_monitor(pid, &monitor)))
            return count;
        count++;
        if (late)
            note(stop, pid);
        else if (wefti_process_tell_stop(stop->table, pid)) /* Z3 */
            wefti_process_interrupt(stop->table,
                                    pid); /* only if it can read the request: else its receives would fail, too */
    }
    int64_t until = late ? WEFT_NEVER : stop->until;
    for (int ended = 0; ended < count && !*error;) {
        weft_message message;
        *error = weft_receive(&message, NULL, NULL, until);
        ended += !*error && message.type == WEFT_MESSAGE_DOWN && wefti_monitor_count(message.tag) > before;
    }
    return count;
}

/* A process that was not alive when the pass came by, but is still ending, takes no monitor: waits until its release functions have returned.
 * Looking now and then will do, since those must not block.  *waited: there was one. */
static int wait_for_ending(struct stop *stop, bool *waited) {
    int error = 0;
    weft_pid pid;
    bool ending;
    *waited = false;
    for (uint32_t i = 0; !error && wefti_process_visit(stop->table, i, &pid, &ending); i += !ending)
        if (ending) {
            *waited = true;
            error = weft_sleep(LOOK_AGAIN);
        }
    return error;
}

static int stop_them(void *arg) {
    struct stop *stop = arg;
    int error = 0;
    bool late = false, more = true;
    if (xchg_relaxed(&stop->table->closing, true)) /* Z1 */
        return -EBUSY;
    wefti_processes_fence(stop->table);
    stop->until = weft_after(stop->patience);
    while (more && !error) { /* they may have started others, also while we waited */
        more = pass(stop, weft_self(), late, &error);
        late = late || error == -ETIMEDOUT;
        if (error == -ETIMEDOUT)
            error = 0;
        else if (!error && !more)
            error = wait_for_ending(stop, &more);
    }
    if (error)
        store_relaxed(&stop->table->closing, false); /* a flag: the caller may try again */
    return error;
}

int weft_process_stop_all(weft_runtime *rt, weft_deadline until, weft_process_left *left, size_t room) {
    if (!rt || (room && !left))
        return -EINVAL;
    if (wefti_worker_self() || wefti_thread_serves == rt) /* a process may wait for the caller */
        return -EDEADLK;
    struct wefti_processes *table = wefti_processes_of(rt, true);
    if (!table)
        return wefti_no_processes(rt, -ENOMEM);
    if (load_relaxed(&table->closing)) /* a flag */
        return -EBUSY;
    int64_t now = wefti_clock(), patience = until > now ? until - now : 0;
    if (until == WEFT_NOW || until == WEFT_NEVER)
        patience = until == WEFT_NOW ? STOP_TIMEOUT : INT64_MAX;
    struct stop stop = {table, patience, 0, left, room, 0};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    weft_result result;
    spec.fn = stop_them;
    spec.arg = &stop;
    spec.name = "stop";
    spec.cap = &wefti_cap_library; /* also under a profile that refuses processes, or asks for a capability */
    int error = wefti_process_spawn_own(rt, &spec, &task);
    if (error)
        return error;
    error = weft_join(task, &result, WEFT_NEVER);
    weft_task_drop(task);
    return error ? error : result.status ? result.status : stop.forced;
}
