/* process_order.c - messages and system events of one producer arrive in the order in which it produced them, on the whole runtime. */
#include "process/process.h"

#include "model.h"
#include "model_rt.h"

static weft_runtime *rt;
static weft_task *task;
static weft_pid pid;
static int seen; /* plain: the receiver's */
static int cancels; /* plain: likewise */

static void spawn(const weft_process_spec *spec) {
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, spec, &pid, &task) == 0);
    mc_atomic_end();
}

static void finish(void) {
    weft_result result;
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0 && result.status == 0);
    weft_task_drop(task);
    model_close(rt);
}

/* -- Two ask the process to end: one sends a message before, the other one after that.  Whether or not the requests are merged, one is read
 * behind the first message, and one before the second. */

enum { BEFORE = 1, AFTER = 2 };

/* True: all has been read that must come. */
static bool note(weft_message_type type, uint64_t tag) {
    static bool behind;
    if (type == WEFT_MESSAGE_CANCEL) {
        cancels++;
        behind = behind || (seen & BEFORE);
    } else {
        mc_assert(!(seen & (int)tag) && (tag == BEFORE || cancels));
        seen |= (int)tag;
    }
    return behind && seen == (BEFORE | AFTER);
}

static int hear(void *arg) {
    (void)arg;
    for (weft_message m;;) {
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
        if (note(m.type, m.tag))
            return 0;
    }
}
static int hear_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (note(events[i].type, events[i].tag))
            out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class hears = {.size = sizeof hears, .step = hear_step};

static void send_and_cancel(void *arg) {
    (void)arg;
    mc_assert(weft_send(rt, pid, BEFORE, NULL, 0) == 0);
    int error = weft_process_cancel(rt, pid);
    mc_assert(error == 0 || error == -ESRCH); /* the other's request may have been the last that was needed */
}

/* mc_arg(): 1: a class; 2: bounded. */
static void two_ask(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    if (mc_arg() & 1)
        spec.class_ = &hears;
    else
        spec.fn = hear;
    spec.max_messages = mc_arg() & 2;
    rt = model_open(WEFT_SCHED_FIFO, 1);
    spawn(&spec);
    int other = mc_spawn(send_and_cancel, NULL);
    mc_assert(weft_process_cancel(rt, pid) == 0);
    mc_assert(weft_send(rt, pid, AFTER, NULL, 0) == 0);
    mc_join(other);
    finish();
    mc_outcome("%s", cancels == 2 ? "two" : "one");
}
MC_CASE(process_order_two_ask, two_ask, .arg = 0, .proves = "W29 W33", .bound = 1, .stale_counts = true, .seconds = 2,
        .outcomes = "one two");
MC_CASE(process_order_two_ask_class, two_ask, .arg = 1, .proves = "W29 W33", .bound = 1, .stale_counts = true,
        .seconds = 2, .outcomes = "one two");
MC_CASE(process_order_two_ask_bounded, two_ask, .arg = 2, .proves = "W29 W33", .bound = 1, .stale_counts = true,
        .seconds = 2, .outcomes = "one two");
MC_CASE(process_order_two_ask_bounded_class, two_ask, .arg = 3, .proves = "W29 W33", .bound = 1, .stale_counts = true,
        .seconds = 2, .outcomes = "one two");
MC_CASE(process_order_two_ask_deep, two_ask, .arg = 0, .proves = "W29 W33", .bound = 2, .stale_counts = true,
        .seconds = 8, .outcomes = "one two");
MC_CASE(process_order_two_ask_class_deep, two_ask, .arg = 1, .proves = "W29 W33", .bound = 2, .stale_counts = true,
        .seconds = 8, .outcomes = "one two");

/* A request that has been read is not there any more, though its memory is that of the next message. */
static int ask_itself(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_process_cancel(NULL, weft_self()) == 0);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == 0 && m.type == WEFT_MESSAGE_CANCEL);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == -ETIMEDOUT); /* its memory is given back */
    mc_assert(weft_send(NULL, weft_self(), BEFORE, NULL, 0) == 0);
    mc_assert(weft_process_cancel(NULL, weft_self()) == 0);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == 0 && m.tag == BEFORE);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == 0 && m.type == WEFT_MESSAGE_CANCEL);
    return 0;
}

MC_TEST(process_order_ask_again, .proves = "W29", .max_exec = 100) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = ask_itself;
    rt = model_open(WEFT_SCHED_FIFO, 1);
    spawn(&spec);
    finish();
}

/* -- A child sends its results and ends: its parent reads them before the end, however they come. */

static int send_two(void *arg) {
    weft_pid to = *(weft_pid *)arg;
    for (uint64_t tag = 1; tag <= 2; tag++)
        mc_assert(weft_send(NULL, to, tag, NULL, 0) == 0);
    return 0;
}
static void start_child(weft_pid *self) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid child;
    uint64_t monitor;
    *self = weft_self();
    spec.fn = send_two;
    spec.arg = self;
    mc_assert(weft_process_spawn_monitored(&spec, &child, &monitor) == 0);
}
static bool is_end(const weft_message *m) {
    bool down = m->type == WEFT_MESSAGE_DOWN;
    mc_assert(down ? seen == 2 : m->tag == (uint64_t)++seen);
    return down;
}
static int parent(void *arg) {
    static weft_pid self;
    weft_message m;
    (void)arg;
    start_child(&self);
    do
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
    while (!is_end(&m));
    return 0;
}
static int parent_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    static weft_pid self;
    bool *started = state;
    if (!*started)
        start_child(&self);
    *started = true;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (is_end(&events[i]))
            out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class parents = {.size = sizeof parents, .state_size = sizeof(bool), .step = parent_step};

/* mc_arg(): 1: a class; 2: bounded; 4: the only worker. */
static void results_and_end(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    if (mc_arg() & 1)
        spec.class_ = &parents;
    else
        spec.fn = parent;
    spec.max_messages = mc_arg() & 2;
    rt = model_open(WEFT_SCHED_RING, mc_arg() & 4 ? 1 : 2);
    spawn(&spec);
    finish();
}
MC_CASE(process_order_end, results_and_end, .arg = 0, .proves = "W29 W40", .mode = MC_PCT, .max_exec = 2000);
MC_CASE(process_order_end_class, results_and_end, .arg = 1, .proves = "W29 W40", .mode = MC_PCT, .max_exec = 2000);
MC_CASE(process_order_end_bounded, results_and_end, .arg = 2, .proves = "W29 W40", .mode = MC_PCT, .max_exec = 2000);
MC_CASE(process_order_end_alone, results_and_end, .arg = 4, .proves = "W29 W40", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(process_order_end_alone_class, results_and_end, .arg = 5, .proves = "W29 W40", .bound = 2, .stale_counts = true,
        .seconds = 4);

/* -- A class that waits for a command: a message does not wake it, and the completion behind that does. */

static _Atomic int asked;
static int later(const weft_command *command, void *arg) {
    (void)command, (void)arg;
    store_relaxed(&asked, 1); /* nothing behind it */
    return 0;
}
static int wait_for_command(void *raw, const weft_message *events, size_t count, weft_step *out) {
    int *stage = raw;
    out->status = WEFT_STEP_YIELD;
    if ((*stage)++ == 0)
        return weft_yield_command(out, 1, 9, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        mc_assert(events[i].type == (seen ? WEFT_MESSAGE_YIELD : WEFT_MESSAGE));
        seen++;
    }
    if (seen == 2)
        out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class waiting = {.size = sizeof waiting, .state_size = sizeof(int), .step = wait_for_command};

static void message_then_completion(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &waiting;
    spec.max_messages = (uint32_t)mc_arg();
    rt = model_open(WEFT_SCHED_FIFO, 1);
    mc_atomic_begin();
    mc_assert(weft_command_register(rt, 1, later, NULL) == 0);
    mc_atomic_end();
    spawn(&spec);
    while (!load_relaxed(&asked))
        wefti_relax();
    mc_assert(weft_send(rt, pid, 1, NULL, 0) == 0);
    mc_assert(weft_command_complete(rt, pid, 9, 0, NULL, 0) == 0);
    finish();
}
MC_CASE(process_order_blocked, message_then_completion, .arg = 0, .proves = "W25 W29 W34", .bound = 2,
        .stale_counts = true, .seconds = 4);
MC_CASE(process_order_blocked_bounded, message_then_completion, .arg = 1, .proves = "W25 W29 W34", .bound = 2,
        .stale_counts = true, .seconds = 4);
