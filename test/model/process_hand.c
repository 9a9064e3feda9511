/* process_hand.c - messages straight into the hands of an idle process (src/process/send.c), from other tasks of its runtime. */
#include "process/process.h"

#include "model.h"
#include "model_rt.h"

static weft_runtime *rt;
static weft_task *task;
static weft_pid pid;
static int payload[4]; /* plain: what a sender wrote before it sent */
static int heard; /* plain: the receiver's */

static void start(unsigned workers) { rt = model_open(WEFT_SCHED_RING, workers); }

static void start_apart(void) {
    weft_config config = model_config(WEFT_SCHED_RING, 2);
    config.no_steal = true;
    rt = model_create(&config);
}

static void spawn(const weft_process_spec *spec) {
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, spec, &pid, &task) == 0);
    mc_atomic_end();
}

static int join(weft_task *of) {
    weft_result result;
    mc_assert(weft_join(of, &result, WEFT_NEVER) == 0);
    weft_task_drop(of);
    return result.status;
}

static void stop(void) { model_close(rt); }

/* -- Order, and what was written before: sender s sends s*2, then s*2 + 1. */

static void take(uint64_t tag) {
    static const int bit[] = {1, 2, 4, 8};
    mc_assert(payload[tag] == (int)tag + 1);
    mc_assert(!(heard & bit[tag]));
    if (tag % 2)
        mc_assert(heard & bit[tag - 1]); /* W40 */
    heard |= bit[tag];
}

static int all(void) { return mc_arg() > 1 ? 15 : 3; }

static int hear(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    for (size_t i = 0; i < count; i++)
        take(events[i].tag);
    out->status = heard == all() ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class hearing = {.size = sizeof hearing, .step = hear};

static int receive(void *arg) {
    (void)arg;
    for (weft_message m; heard != all();) {
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
        take(m.tag);
    }
    return 0;
}

static int send_two(void *arg) {
    uint64_t first = (uintptr_t)arg;
    for (uint64_t tag = first; tag < first + 2; tag++) {
        payload[tag] = (int)tag + 1;
        mc_assert(weft_send(NULL, pid, tag, NULL, 0) == 0);
    }
    return 0;
}

static void send_from_outside(void) {
    for (uint64_t tag = 2; tag < 4; tag++) {
        payload[tag] = (int)tag + 1;
        mc_assert(weft_send(rt, pid, tag, NULL, 0) == 0);
    }
}

/* workers: 0: two that take nothing from each other. */
static void hand_over(bool fiber, unsigned workers) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *sender[2] = {NULL, NULL};
    int inside = workers == 1 ? 1 : mc_arg();
    if (fiber)
        spec.fn = receive;
    else
        spec.class_ = &hearing;
    if (workers)
        start(workers);
    else
        start_apart();
    spawn(&spec);
    mc_atomic_begin();
    for (int i = 0; i < inside; i++)
        mc_assert(weft_fiber_go(rt, send_two, (void *)(uintptr_t)(2 * i), &sender[i]) == 0);
    mc_atomic_end();
    if (inside < mc_arg())
        send_from_outside();
    for (int i = 0; i < inside; i++)
        mc_assert(join(sender[i]) == 0);
    mc_assert(join(task) == 0);
    mc_assert(heard == all());
    stop();
}
static void to_class(void) { hand_over(false, 2); }
static void to_fiber(void) { hand_over(true, 2); }
static void to_class_apart(void) { hand_over(false, 0); }
/* The only worker needs no claim; two of the four come from outside. */
static void to_class_alone(void) { hand_over(false, 1); }
static void to_fiber_alone(void) { hand_over(true, 1); }

MC_CASE(process_hand_to_class, to_class, .arg = 1, .proves = "W40 W33", .bound = 2, .stale_counts = true,
        .max_exec = 20000);
MC_CASE(process_hand_to_class_two, to_class, .arg = 2, .proves = "W40", .bound = 1, .stale_counts = true,
        .max_exec = 90000);
MC_CASE(process_hand_to_class_apart, to_class_apart, .arg = 2, .proves = "W40", .mode = MC_PCT, .max_exec = 6000);
MC_CASE(process_hand_to_class_deep, to_class, .arg = 2, .proves = "W40", .mode = MC_PCT, .max_exec = 3000);
MC_CASE(process_hand_to_fiber, to_fiber, .arg = 1, .proves = "W40", .bound = 1, .stale_counts = true, .seconds = 20);
MC_CASE(process_hand_alone_to_class, to_class_alone, .arg = 2, .proves = "W40", .bound = 3, .stale_counts = true,
        .seconds = 4);
MC_CASE(process_hand_alone_to_fiber, to_fiber_alone, .arg = 2, .proves = "W40", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(process_hand_to_fiber_deep, to_fiber, .arg = 2, .proves = "W40", .mode = MC_PCT, .max_exec = 3000);

/* -- The process ends meanwhile, and both its slot and its task have another owner. */

static int end_at_one(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events;
    out->status = count ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class ending = {.size = sizeof ending, .step = end_at_one};

static int only_own(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    for (size_t i = 0; i < count; i++)
        mc_assert(events[i].tag == 9);
    out->status = count ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class owning = {.size = sizeof owning, .step = only_own};

static int send_old(void *arg) {
    for (int i = 0; i < 2; i++) {
        int error = weft_send(NULL, *(weft_pid *)arg, 1, NULL, 0);
        mc_assert(error == 0 || error == -ESRCH);
    }
    return 0;
}

static void against_end(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *sender;
    spec.class_ = &ending;
    start((unsigned)mc_arg());
    spawn(&spec);
    weft_pid old = pid;
    mc_atomic_begin();
    mc_assert(weft_fiber_go(rt, send_old, &old, &sender) == 0);
    mc_atomic_end();
    mc_assert(join(task) == 0);
    spec.class_ = &owning;
    spawn(&spec);
    mc_assert(weft_send(rt, pid, 9, NULL, 0) == 0);
    mc_assert(join(task) == 0);
    mc_assert(join(sender) == 0);
    stop();
}
MC_CASE(process_hand_against_end, against_end, .arg = 2, .proves = "W30 W38", .bound = 1, .stale_counts = true,
        .max_exec = 90000);
MC_CASE(process_hand_against_end_deep, against_end, .arg = 2, .proves = "W30 W38", .mode = MC_PCT, .max_exec = 3000);
MC_CASE(process_hand_alone_against_end, against_end, .arg = 1, .proves = "W30 W38", .bound = 3, .stale_counts = true,
        .seconds = 4);

/* -- It is told to end between the claim and its run: it does not run, and what was handed over is thrown away. */

static _Atomic int released;
static void release(void *data) {
    (void)data;
    add_relaxed(&released, 1);
}
static int send_ref(void *arg) {
    (void)arg;
    int error = weft_send_ref(NULL, pid, 1, &payload[0], 4, release);
    mc_assert(error == 0 || error == -ESRCH);
    return error;
}

static void against_exit(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *sender;
    spec.class_ = &ending;
    start((unsigned)mc_arg());
    spawn(&spec);
    mc_atomic_begin();
    mc_assert(weft_fiber_go(rt, send_ref, NULL, &sender) == 0);
    mc_atomic_end();
    int error = weft_process_exit(rt, pid, -EIO);
    mc_assert(error == 0 || error == -ESRCH);
    int sent = join(sender) == 0;
    int status = join(task);
    mc_assert(load_relaxed(&released) == sent);
    mc_outcome("%s", status ? "ended" : "heard");
    stop();
}
MC_CASE(process_hand_against_exit, against_exit, .arg = 2, .proves = "W6 W30", .bound = 2, .stale_counts = true,
        .max_exec = 12000, .outcomes = "ended heard");
MC_CASE(process_hand_alone_against_exit, against_exit, .arg = 1, .proves = "W6 W30", .bound = 3, .stale_counts = true,
        .seconds = 4, .outcomes = "ended heard");

/* -- D2: it has ended since the sender looked, and its task is another process's, which is idle. */

static void against_another(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *sender;
    spec.class_ = &ending;
    start(2);
    spawn(&spec);
    mc_atomic_begin();
    mc_assert(weft_fiber_go(rt, send_ref, NULL, &sender) == 0);
    mc_atomic_end();
    weft_pid old = pid;
    int error = weft_send(rt, old, 1, NULL, 0);
    mc_assert(error == 0 || error == -ESRCH);
    mc_assert(join(task) == 0);
    spec.class_ = &owning;
    weft_pid next;
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, &spec, &next, &task) == 0);
    mc_atomic_end();
    int sent = join(sender) == 0;
    mc_assert(load_relaxed(&released) == sent);
    mc_assert(weft_send(rt, next, 9, NULL, 0) == 0);
    mc_assert(join(task) == 0);
    mc_outcome("%s", sent ? "sent" : "late");
    stop();
}
MC_CASE(process_hand_against_another, against_another, .proves = "W30 W38", .mode = MC_PCT, .max_exec = 10000,
        .outcomes = "sent late");
