/* process_supervisor.c - a supervisor of processes on the whole runtime: that a child begins, or has ended before it could, is seen whenever it comes. */
#include "process/process.h"

#include "model.h"
#include "model_rt.h"

static weft_runtime *rt;

/* Nothing but its begin lets the supervisor go on: it ends when the next has been started. */
static int sit(void *arg) {
    weft_message m;
    (void)arg;
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}
static int end_the_other(void *arg) {
    (void)arg;
    return weft_send(NULL, weft_whereis(NULL, "first"), 0, NULL, 0);
}

static int supervisor(void *arg) {
    (void)arg;
    weft_process_child children[] = {WEFT_PROCESS_CHILD("first", sit, NULL),
                                     WEFT_PROCESS_CHILD("second", end_the_other, NULL)};
    children[0].spec.registered = "first";
    children[0].restart = children[1].restart = WEFT_RESTART_TEMPORARY;
    return weft_process_supervise(NULL, children, 2);
}

static void begins(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    weft_result result;
    rt = model_open(WEFT_SCHED_FIFO, (unsigned)mc_arg());
    spec.fn = supervisor;
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, &spec, NULL, &task) == 0);
    mc_atomic_end();
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0 && result.status == 0);
    weft_task_drop(task);
    model_close(rt);
}
MC_CASE(process_supervisor_begins, begins, .arg = 1, .proves = "W6", .bound = 1, .max_exec = 400);
MC_CASE(process_supervisor_begins_beside, begins, .arg = 2, .proves = "W6", .mode = MC_PCT, .max_exec = 1000);
