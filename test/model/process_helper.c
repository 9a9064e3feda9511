/* process_helper.c - commands that wait (src/process/helper.h): the completion against the end of the process, and against its cancel. */
#include <weft/command.h>

#include <weft/weft.h>

#include "process/process.h"

#include "model.h"
#include "model_rt.h"

static weft_runtime *rt;
static weft_chan *chan;
static weft_pid pid;
static _Atomic int completions, cancels;

/* Waits for a value; with an argument it cancels that at once. */
static int ask(void *raw, const weft_message *events, size_t count, weft_step *out) {
    int *stage = raw;
    for (size_t i = 0; i < count; i++) {
        mc_assert(events[i].type == WEFT_MESSAGE_YIELD);
        if (events[i].tag == 1) {
            mc_assert(events[i].error ? events[i].error == -ECANCELED : *(const int *)events[i].data == 7);
            mc_assert(add_relaxed(&completions, 1) == 0); /* once */
        } else {
            mc_assert(events[i].error == 0 || events[i].error == -ESRCH);
            add_relaxed(&cancels, 1);
        }
    }
    out->status = WEFT_STEP_YIELD;
    if ((*stage)++ == 0) {
        weft_command_chan recv = {chan, sizeof(int), WEFT_NEVER};
        uint64_t one = 1;
        mc_assert(weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 1, &recv, sizeof recv) == 0);
        if (mc_arg())
            mc_assert(weft_yield_command(out, WEFT_COMMAND_CANCEL, 2, &one, sizeof one) == 0);
        return 0;
    }
    if (load_relaxed(&completions) && load_relaxed(&cancels) == mc_arg())
        out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class asking = {.size = sizeof asking, .state_size = sizeof(int), .step = ask};

static void send_seven(void *arg) {
    int seven = 7;
    (void)arg;
    mc_assert(weft_chan_send(chan, &seven, WEFT_NEVER) == 0);
}

static void begin(weft_task **task) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &asking;
    rt = model_open(WEFT_SCHED_FIFO, 1);
    mc_atomic_begin();
    mc_assert(weft_chan_create(sizeof(int), 1, &chan) == 0);
    mc_assert(weft_process_spawn(rt, &spec, &pid, task) == 0);
    mc_atomic_end();
}

static int finish(weft_task *task, int sender) {
    weft_result result;
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    weft_task_drop(task);
    mc_join(sender);
    model_close(rt); /* its helper has ended with it */
    mc_atomic_begin();
    weft_chan_drop(chan);
    mc_atomic_end();
    return result.status;
}

MC_TEST(process_helper_against_exit, .proves = "W6 W38", .bound = 2, .stale_counts = true, .max_exec = 10000,
        .outcomes = "completed ended") {
    weft_task *task;
    begin(&task);
    int other = mc_spawn(send_seven, NULL);
    int error = weft_process_exit(rt, pid, -EIO);
    mc_assert(error == 0 || error == -ESRCH);
    int status = finish(task, other);
    mc_outcome("%s", status ? "ended" : "completed");
}

MC_TEST(process_helper_against_cancel, .arg = 1, .proves = "W28 W39", .bound = 2, .stale_counts = true,
        .max_exec = 10000) {
    weft_task *task;
    begin(&task);
    int other = mc_spawn(send_seven, NULL);
    mc_assert(finish(task, other) == 0);
    mc_assert(load_relaxed(&completions) == 1 && load_relaxed(&cancels) == 1);
}
