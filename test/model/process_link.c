/* process_link.c - links of two processes on the whole runtime: one unlinks while the other links, and ends. */
#include "process/process.h"

#include "model.h"
#include "model_rt.h"

static weft_pid one, other;

static int link_and_fail(void *arg) {
    (void)arg;
    int error = weft_link(one);
    mc_assert(error == 0 || error == -ESRCH);
    return -EIO;
}

/* Whatever is left of a link: who links to one that has ended hears of it. */
static int unlink_and_link(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_unlink(other) == 0);
    while (weft_process_is_alive(NULL, other)) { /* on another worker, or this one */
        wefti_relax();
        weft_yield();
    }
    int error = weft_link(other);
    mc_assert(error == 0 || error == -ESRCH);
    do
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
    while (error && m.error != -ESRCH); /* its end may be told besides */
    return 0;
}

static void link_against_unlink(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_runtime *rt = model_open(WEFT_SCHED_FIFO, 2);
    weft_task *task;
    weft_result result;
    spec.fn = unlink_and_link;
    spec.trap_exit = true;
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, &spec, &one, &task) == 0);
    mc_assert(weft_process_go(rt, link_and_fail, NULL, &other) == 0);
    mc_atomic_end();
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0 && result.status == 0);
    weft_task_drop(task);
    model_close(rt);
}
MC_CASE(process_link_against_unlink, link_against_unlink, .proves = "W6 W10", .mode = MC_PCT, .depth = 5,
        .max_exec = 2000);
