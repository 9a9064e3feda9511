/* process_shutdown.c - a request to end against a process that waits, or is about to, on the whole runtime (process/shutdown.c). */
#include "process/process.h"

#include "model.h"
#include "model_rt.h"

static weft_pid pid;

static void run(weft_fiber_fn fn) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_runtime *rt = model_open(WEFT_SCHED_FIFO, 2);
    weft_result result;
    weft_task *task;
    spec.fn = fn;
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, &spec, &pid, &task) == 0);
    mc_atomic_end();
    mc_assert(weft_process_cancel(rt, pid) == 0); /* D1 */
    wefti_process_interrupt(wefti_processes_of(rt, false), pid);
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    mc_assert(result.status == 0);
    weft_task_drop(task);
    model_close(rt);
}

/* The wait fails, and the request can be read; afterwards waits are as before. */
static int sleep_then_read(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_sleep_until(WEFT_NEVER) == -ECANCELED);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE_CANCEL);
    return weft_yield();
}
static void sleeping(void) { run(sleep_then_read); }
MC_CASE(process_shutdown_sleeping, sleeping, .proves = "W36", .bound = 1, .stale_counts = true, .seconds = 20);
MC_CASE(process_shutdown_sleeping_deep, sleeping, .proves = "W36", .mode = MC_PCT, .depth = 4, .max_exec = 2000);

/* A receive that takes it does not fail, whatever comes first; nor does a wait after it. */
static int read_then_yield(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE_CANCEL);
    int error = 0;
    for (int i = 0; i < 3 && !error; i++)
        error = weft_yield();
    return error;
}
static void receiving(void) { run(read_then_yield); }
MC_CASE(process_shutdown_receiving, receiving, .proves = "W36", .bound = 1, .stale_counts = true, .seconds = 20);
MC_CASE(process_shutdown_receiving_deep, receiving, .proves = "W36", .mode = MC_PCT, .depth = 4, .max_exec = 2000);

/* A receive that does not take it fails. */
static bool refuse(const weft_message *message, void *arg) {
    (void)arg;
    return message->type == WEFT_MESSAGE;
}
static int refuse_then_read(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_receive(&m, refuse, NULL, WEFT_NEVER) == -ECANCELED);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == 0 && m.type == WEFT_MESSAGE_CANCEL);
    return 0;
}
static void refusing(void) { run(refuse_then_read); }
MC_CASE(process_shutdown_refusing, refusing, .proves = "W36", .bound = 1, .stale_counts = true, .seconds = 20);
