/* process_system.c - what the system says to a process, by the lane that is never full: against its start, and against its end. */
#include "process/process.h"

#include "model.h"
#include "model_rt.h"

static weft_runtime *rt;
static weft_task *task;
static weft_pid pid;
static _Atomic uint64_t early;
static _Atomic int told;

static void start(void) { rt = model_open(WEFT_SCHED_FIFO, 1); }

static void finish_with(int status) {
    weft_result result;
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0 && result.status == status);
    weft_task_drop(task);
    model_close(rt);
}

static void finish(void) { finish_with(0); }

/* -- Its pid is known from init. */

static int tell_pid(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)state, (void)method, (void)input, (void)size;
    store_relaxed(&early, self); /* a number; nothing behind it */
    return 0;
}
static int hear_cancel(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = count && events[0].type == WEFT_MESSAGE_CANCEL ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class cancellable = {.size = sizeof cancellable, .init = tell_pid, .step = hear_cancel};

static void cancel_early(void *arg) {
    (void)arg;
    for (int tries = 0; tries < 3 && !load_relaxed(&told); tries++) {
        weft_pid to = load_relaxed(&early);
        if (to && weft_process_cancel(rt, to) == 0)
            store_relaxed(&told, 1);
        else
            wefti_relax();
    }
}

MC_TEST(process_cancel_against_start, .proves = "W2 W30 W35", .bound = 2, .stale_counts = true, .max_exec = 10000,
        .outcomes = "early late") {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &cancellable;
    start();
    int other = mc_spawn(cancel_early, NULL);
    mc_assert(weft_process_spawn(rt, &spec, &pid, &task) == 0);
    mc_join(other);
    mc_outcome("%s", load_relaxed(&told) ? "early" : "late");
    if (!load_relaxed(&told))
        mc_assert(weft_process_cancel(rt, pid) == 0);
    finish();
}

/* Who has its lock finds it not begun, or all of it (A1): its task, and no reason yet. */
static void exit_early(void *arg) {
    (void)arg;
    for (int tries = 0; tries < 3 && !load_relaxed(&told); tries++) {
        weft_pid to = load_relaxed(&early);
        if (to && weft_process_exit(rt, to, -5) == 0)
            store_relaxed(&told, 1);
        else
            wefti_relax();
    }
}

MC_TEST(process_exit_against_start, .proves = "W2 W6 W10", .bound = 2, .stale_counts = true, .max_exec = 10000,
        .outcomes = "early late") {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &cancellable;
    start();
    int other = mc_spawn(exit_early, NULL);
    mc_assert(weft_process_spawn(rt, &spec, &pid, &task) == 0);
    mc_join(other);
    mc_outcome("%s", load_relaxed(&told) ? "early" : "late");
    if (!load_relaxed(&told))
        mc_assert(weft_process_exit(rt, pid, -5) == 0);
    finish_with(-ECANCELED);
}

/* -- Two ask it to end: one message stands for both, or each has its own.  Who reads the last sees what both did before. */

static _Atomic int said[2];
static _Atomic int read_so_far;

static bool both_have_said(size_t more) {
    int messages = load_relaxed(&read_so_far) + (int)more;
    store_relaxed(&read_so_far, messages); /* by the process only */
    mc_assert(messages <= 2);
    return load_relaxed(&said[0]) && load_relaxed(&said[1]); /* ordered by what was read: else it would wait for ever */
}

static void ask_to_end(void *arg) {
    store_relaxed(&said[(intptr_t)arg], 1); /* before the call, that is all */
    int error = weft_process_cancel(rt, pid);
    mc_assert(error == 0 || error == -ESRCH); /* the other's message has shown both */
}

static int hear_all(void *arg) {
    (void)arg;
    for (weft_message m;;) {
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE_CANCEL);
        if (both_have_said(1))
            return 0;
    }
}
static int step_until_all(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    for (size_t i = 0; i < count; i++)
        mc_assert(events[i].type == WEFT_MESSAGE_CANCEL);
    out->status = count && both_have_said(count) ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class hears_all = {.size = sizeof hears_all, .step = step_until_all};

static void two_ask(weft_process_spec spec) {
    start();
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, &spec, &pid, &task) == 0);
    mc_atomic_end();
    int other = mc_spawn(ask_to_end, (void *)1);
    ask_to_end(NULL);
    mc_join(other);
    weft_result result;
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0 && result.status == 0);
    weft_task_drop(task);
    mc_outcome("%s", load_relaxed(&read_so_far) == 2 ? "two" : "one");
    model_close(rt);
}

MC_TEST(process_cancel_stands_for_all, .proves = "W29 W33", .bound = 2, .stale_counts = true, .seconds = 5,
        .outcomes = "one two") {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = hear_all;
    two_ask(spec);
}

MC_TEST(process_cancel_stands_for_all_class, .proves = "W29 W33", .bound = 2, .stale_counts = true, .seconds = 5,
        .outcomes = "one two") {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &hears_all;
    two_ask(spec);
}

/* -- It ends with that unread. */

static int end_at_once(void *arg) {
    (void)arg;
    return 0;
}
static void complete(void *arg) {
    static const char bytes[40]; /* more than a message has room for */
    (void)arg;
    int error = weft_command_complete(rt, pid, 1, 0, bytes, sizeof bytes);
    mc_assert(error == 0 || error == -ESRCH);
    store_relaxed(&told, error ? 2 : 1);
}

MC_TEST(process_complete_against_end, .proves = "W25 W38", .bound = 2, .stale_counts = true, .seconds = 5,
        .outcomes = "told gone") {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = end_at_once;
    start();
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, &spec, &pid, &task) == 0);
    mc_atomic_end();
    int other = mc_spawn(complete, NULL);
    mc_join(other);
    mc_outcome("%s", load_relaxed(&told) == 1 ? "told" : "gone");
    finish();
}
