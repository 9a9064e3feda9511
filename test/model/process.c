/* process.c - processes on the whole runtime: messages against idling, ends, new owners of the slot, upgrades, full mailboxes, links.
 *
 * Sleeps never time out: a lost wake shows as a deadlock. */
#include "process/process.h"

#include "model.h"
#include "model_rt.h"

static weft_runtime *rt;
static weft_task *task;
static weft_pid pid;
static int payload; /* plain: what the sender wrote before it sent */
static _Atomic int heard; /* messages */
static _Atomic int yields; /* completions */

static void start(unsigned workers) { rt = model_open(WEFT_SCHED_FIFO, workers); }

static void spawn(const weft_process_spec *spec) {
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, spec, &pid, &task) == 0);
    mc_atomic_end();
}

static int join(void) {
    weft_result result;
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    weft_task_drop(task);
    return result.status;
}

static void stop(void) { model_close(rt); }

/* -- Send against idle (S1, S2, P1, P2). */

static int hear(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++) {
        mc_assert(events[i].type == WEFT_MESSAGE && events[i].size == 4 && *(const int *)events[i].data == 7);
        if (events[i].tag == 1)
            mc_assert(payload == 5);
        if (add_relaxed(&heard, 1) + 1 == mc_arg())
            out->status = WEFT_STEP_DONE;
    }
    return 0;
}
static const weft_process_class hearing = {.size = sizeof hearing, .step = hear};

static void send_seven(void *tag) {
    int seven = 7;
    if (tag)
        payload = 5;
    mc_assert(weft_send(rt, pid, (uint64_t)(uintptr_t)tag, &seven, sizeof seven) == 0);
}

static void send_against_idle(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &hearing;
    start(1);
    spawn(&spec);
    int other = mc_arg() > 1 ? mc_spawn(send_seven, NULL) : -1;
    send_seven((void *)1);
    mc_assert(join() == 0);
    if (other >= 0)
        mc_join(other);
    mc_assert(load_relaxed(&heard) == mc_arg());
    stop();
}
MC_CASE(process_send_against_idle, send_against_idle, .arg = 1, .proves = "W23 W31 W33", .bound = 2,
        .stale_counts = true, .seconds = 4);
MC_CASE(process_two_send_against_idle, send_against_idle, .arg = 2, .proves = "W29 W32", .bound = 2,
        .stale_counts = true, .seconds = 4);

static int receive_some(void *arg) {
    weft_message m;
    (void)arg;
    for (int i = 0; i < mc_arg(); i++) {
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE);
        mc_assert(*(const int *)m.data == 7);
        add_relaxed(&heard, 1);
    }
    return 0;
}

static void send_to_fiber(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = receive_some;
    start(1);
    spawn(&spec);
    int other = mc_arg() > 1 ? mc_spawn(send_seven, NULL) : -1;
    send_seven(NULL);
    mc_assert(join() == 0);
    if (other >= 0)
        mc_join(other);
    stop();
}
MC_CASE(process_send_to_fiber, send_to_fiber, .arg = 1, .proves = "W23", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(process_two_send_to_fiber, send_to_fiber, .arg = 2, .proves = "W29", .bound = 1, .stale_counts = true,
        .seconds = 4);

/* -- A message while it waits for a command, and the completion: both are delivered, whatever it was doing (W34, W25). */

static _Atomic int asked;
static int later(const weft_command *command, void *arg) {
    (void)command, (void)arg;
    store_relaxed(&asked, 1); /* nothing behind it */
    return 0;
}

static int block_once(void *raw, const weft_message *events, size_t count, weft_step *out) {
    int *stage = raw;
    for (size_t i = 0; i < count; i++)
        add_relaxed(events[i].type == WEFT_MESSAGE ? &heard : &yields, 1);
    if ((*stage)++ == 0) {
        out->status = WEFT_STEP_YIELD;
        return weft_yield_command(out, 1, 9, NULL, 0);
    }
    out->status = load_relaxed(&heard) && load_relaxed(&yields) ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class blocking = {.size = sizeof blocking, .state_size = sizeof(int), .step = block_once};

static void complete(void *arg) {
    (void)arg;
    while (!load_relaxed(&asked))
        wefti_relax();
    mc_assert(weft_command_complete(rt, pid, 9, 0, NULL, 0) == 0);
}

MC_TEST(process_blocked, .proves = "W25 W34", .bound = 2, .stale_counts = true, .max_exec = 10000) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &blocking;
    start(1);
    mc_atomic_begin();
    mc_assert(weft_command_register(rt, 1, later, NULL) == 0);
    mc_atomic_end();
    spawn(&spec);
    int other = mc_spawn(complete, NULL);
    send_seven(NULL);
    mc_assert(join() == 0);
    mc_join(other);
    mc_assert(load_relaxed(&heard) == 1 && load_relaxed(&yields) == 1);
    stop();
}

/* -- Send against the end, and the next owner of the slot. */

static int end_at_once(void *arg) {
    (void)arg;
    return 0;
}

static int only_own(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
    mc_assert(m.tag == 2); /* not what was for another */
    return 0;
}

static void send_old(void *old) {
    int error = weft_send(rt, *(weft_pid *)old, 1, NULL, 0);
    mc_assert(error == 0 || error == -ESRCH);
    store_relaxed(&heard, error ? 2 : 1);
}

static void send_against_end(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = end_at_once;
    spec.max_messages = mc_arg() & 1;
    start(1);
    spawn(&spec);
    weft_pid old = pid;
    int other = mc_spawn(send_old, &old);
    mc_assert(join() == 0);
    spec.fn = only_own;
    spec.max_messages = (uint32_t)mc_arg() >> 1;
    spawn(&spec);
    mc_assert(pid != old && wefti_pid_index(pid) == wefti_pid_index(old));
    mc_assert(weft_send(rt, pid, 2, NULL, 0) == 0);
    mc_assert(join() == 0);
    mc_join(other);
    mc_outcome("%s", load_relaxed(&heard) == 1 ? "sent" : "gone");
    stop();
}
MC_CASE(process_send_against_end, send_against_end, .arg = 0, .proves = "W10 W30 W38", .bound = 2, .stale_counts = true,
        .max_exec = 10000, .outcomes = "sent gone");
MC_CASE(process_send_against_end_bounded, send_against_end, .arg = 3, .proves = "W10 W30", .bound = 1,
        .stale_counts = true, .seconds = 4, .outcomes = "sent gone");
MC_CASE(process_send_against_end_to_bounded, send_against_end, .arg = 2, .proves = "W10 W30", .bound = 1,
        .stale_counts = true, .seconds = 4, .outcomes = "sent gone");
MC_CASE(process_send_against_end_of_bounded, send_against_end, .arg = 1, .proves = "W10 W30", .bound = 1,
        .stale_counts = true, .seconds = 4, .outcomes = "sent gone");

/* -- Its pid is known before it is a process: from init. */

static _Atomic uint64_t early;
static int tell_pid(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)state, (void)method, (void)input, (void)size;
    store_relaxed(&early, self); /* a number; nothing behind it */
    return 0;
}
static const weft_process_class telling = {.size = sizeof telling, .init = tell_pid, .step = hear};

static _Atomic int sent_early;

static void send_early(void *arg) {
    int seven = 7;
    (void)arg;
    for (int tries = 0; tries < 3 && !load_relaxed(&sent_early); tries++) { /* it may be there by then, or not */
        weft_pid to = load_relaxed(&early);
        if (to && weft_send(rt, to, 0, &seven, sizeof seven) == 0)
            store_relaxed(&sent_early, 1);
        else
            wefti_relax();
    }
}

MC_TEST(process_send_against_start, .arg = 1, .proves = "W2 W30 W33", .bound = 2, .stale_counts = true,
        .max_exec = 10000, .outcomes = "early late") {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &telling;
    start(1);
    int other = mc_spawn(send_early, NULL);
    mc_assert(weft_process_spawn(rt, &spec, &pid, &task) == 0);
    mc_join(other);
    mc_outcome("%s", load_relaxed(&sent_early) ? "early" : "late");
    int seven = 7;
    if (!load_relaxed(&sent_early))
        mc_assert(weft_send(rt, pid, 0, &seven, sizeof seven) == 0);
    mc_assert(join() == 0);
    mc_assert(load_relaxed(&heard) == 1);
    stop();
}

/* -- Upgrade against send: whichever class is there hears it. */

static const weft_process_class second;
static int upgrade(void *state, const weft_message *events, size_t count, weft_step *out) {
    if (count)
        return hear(state, events, count, out);
    out->status = WEFT_STEP_UPGRADE;
    out->upgrade = &second;
    return 0;
}
static const weft_process_class first = {.size = sizeof first, .step = upgrade};
static int hear_second(void *state, const weft_message *events, size_t count, weft_step *out) {
    add_relaxed(&yields, (int)count);
    return hear(state, events, count, out);
}
static const weft_process_class second = {.size = sizeof second, .step = hear_second};

MC_TEST(process_upgrade_against_send, .arg = 1, .proves = "W1 W33", .bound = 2, .stale_counts = true, .seconds = 4,
        .outcomes = "first second") {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &first;
    start(1);
    spawn(&spec);
    send_seven(NULL);
    mc_assert(join() == 0);
    mc_outcome("%s", load_relaxed(&yields) ? "second" : "first");
    stop();
}

/* -- A full mailbox: who waits for room against who takes, and against the end. */

static int take_two(void *arg) {
    weft_message m;
    (void)arg;
    for (int i = 0; i < mc_arg(); i++) {
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
        mc_assert(m.tag == (uint64_t)i);
    }
    return 0;
}

static void room_against_take(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = take_two;
    spec.max_messages = 1;
    spec.policy = WEFT_MAILBOX_BLOCK;
    start(1);
    spawn(&spec);
    int a = weft_send(rt, pid, 0, NULL, 0);
    int b = weft_send(rt, pid, 1, NULL, 0);
    mc_assert(mc_arg() > 0 ? a == 0 : a == 0 || a == -ESRCH);
    mc_assert(mc_arg() > 1 ? b == 0 : b == 0 || b == -ESRCH);
    mc_assert(join() == 0);
    mc_outcome("%s", b ? "gone" : "sent");
    stop();
}
MC_CASE(process_room_against_take, room_against_take, .arg = 2, .proves = "W29 W40", .bound = 2, .stale_counts = true,
        .seconds = 6, .outcomes = "sent");
MC_CASE(process_room_against_end, room_against_take, .arg = 1, .proves = "W30", .bound = 2, .stale_counts = true,
        .seconds = 6, .outcomes = "sent gone");
MC_CASE(process_room_against_end_at_once, room_against_take, .arg = 0, .proves = "W30", .bound = 2,
        .stale_counts = true, .seconds = 6, .outcomes = "gone");

/* A sender that is cancelled while it waits for room: its message is in, or still its own. */
static _Atomic int released;
static void release(void *data) {
    (void)data;
    add_relaxed(&released, 1);
}
static int take_any(void *arg) {
    weft_message m;
    (void)arg;
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}
static int send_ref(void *arg) {
    (void)arg;
    return weft_send_ref(NULL, pid, 1, &payload, 4, release);
}

MC_TEST(process_room_against_cancel, .proves = "W29", .bound = 1, .stale_counts = true, .seconds = 6,
        .outcomes = "sent not") {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = take_any;
    spec.max_messages = 1;
    spec.policy = WEFT_MAILBOX_BLOCK;
    start(1);
    spawn(&spec);
    weft_task *sender;
    mc_atomic_begin();
    mc_assert(weft_fiber_go(rt, send_ref, NULL, &sender) == 0);
    mc_atomic_end();
    int error = weft_send(rt, pid, 2, NULL, 0);
    mc_assert(error == 0 || error == -ESRCH);
    weft_task_cancel(sender);
    weft_result result;
    mc_assert(weft_join(sender, &result, WEFT_NEVER) == 0);
    weft_task_drop(sender);
    (void)join();
    mc_assert(load_relaxed(&released) == (result.status == 0));
    mc_outcome("%s", result.status ? "not" : "sent");
    stop();
}

/* -- Links: an end against who links, and against who unlinks. */

static int fail_at_once(void *arg) {
    (void)arg;
    return -EIO;
}
static weft_pid victim;

static int link_it(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_trap_exit(true) == 0);
    int error = weft_link(victim);
    mc_assert(error == 0 || error == -ESRCH);
    if (mc_arg() == 2) { /* who is linked already is told, whatever comes of linking again */
        int again = error ? error : weft_link(victim);
        mc_assert(again == 0 || again == -ESRCH);
        int told = 0; /* -EIO by its end, -ESRCH by a call that came after that */
        for (int left = again && !error ? 2 : 1; left; left--) {
            mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
            told += m.error;
        }
        mc_assert(told == (error ? 0 : -EIO) + (again ? -ESRCH : 0));
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == -ETIMEDOUT);
    } else if (mc_arg()) {
        mc_assert(weft_unlink(victim) == 0);
        int came = 0;
        while (weft_receive(&m, NULL, NULL, WEFT_NOW) == 0)
            came++;
        mc_assert(came <= 1);
        while (weft_process_is_alive(NULL, victim)) { /* on another worker, or this one */
            wefti_relax();
            weft_yield();
        }
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == -ETIMEDOUT);
    } else {
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
        mc_assert(m.type == WEFT_MESSAGE_EXIT && m.from == victim && m.error == (error ? -ESRCH : -EIO));
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == -ETIMEDOUT);
    }
    store_relaxed(&heard, error ? 2 : 1);
    return 0;
}

static void link_against_exit(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    start(2);
    mc_atomic_begin();
    mc_assert(weft_process_go(rt, fail_at_once, NULL, &victim) == 0);
    mc_atomic_end();
    spec.fn = link_it;
    spawn(&spec);
    mc_assert(join() == 0);
    mc_outcome("%s", load_relaxed(&heard) == 1 ? "linked" : "gone");
    stop();
}
MC_CASE(process_link_against_exit, link_against_exit, .arg = 0, .proves = "W6 W10", .bound = 1, .stale_counts = true,
        .seconds = 6, .outcomes = "linked gone");
MC_CASE(process_unlink_against_exit, link_against_exit, .arg = 1, .proves = "W6 W10", .bound = 1, .stale_counts = true,
        .seconds = 6, .outcomes = "linked gone");
MC_CASE(process_unlink_against_exit_deep, link_against_exit, .arg = 1, .proves = "W6 W10", .mode = MC_PCT, .depth = 5,
        .max_exec = 2000, .outcomes = "linked gone");
MC_CASE(process_link_twice_against_exit, link_against_exit, .arg = 2, .proves = "W6 W10", .mode = MC_PCT, .depth = 5,
        .max_exec = 2000, .outcomes = "linked gone");
MC_CASE(process_link_against_exit_deep, link_against_exit, .arg = 0, .proves = "W6 W10", .mode = MC_PCT,
        .max_exec = 4000, .outcomes = "linked gone");

/* -- Exit against everything: close is called once. */

static int closes; /* plain */
static void count_close(void *state) {
    (void)state;
    closes++;
}
static const weft_process_class closing = {.size = sizeof closing, .step = hear, .close = count_close};

MC_TEST(process_exit_against_send, .arg = 1, .proves = "W6 W24", .bound = 2, .stale_counts = true, .seconds = 6,
        .outcomes = "0 -125") {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &closing;
    start(1);
    spawn(&spec);
    int seven = 7, error = weft_send(rt, pid, 0, &seven, sizeof seven);
    mc_assert(error == 0);
    error = weft_process_exit(rt, pid, -EIO);
    mc_assert(error == 0 || error == -ESRCH);
    int status = join();
    mc_assert(closes == 1);
    mc_outcome("%d", status);
    stop();
}

/* -- Asking one that ends. */

static int maybe_reply(void *arg) {
    weft_message m;
    (void)arg;
    if (mc_arg()) {
        mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
        mc_assert(weft_reply(&m, "r", 1) == 0);
    }
    return 0;
}
static int ask(void *arg) {
    weft_message m;
    (void)arg;
    int error = weft_ask(victim, "q", 1, &m, WEFT_NEVER);
    mc_assert(mc_arg() ? error == 0 : error == -ESRCH);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == -ETIMEDOUT); /* no end is told */
    return 0;
}

static void ask_against_end(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    start(2);
    mc_atomic_begin();
    mc_assert(weft_process_go(rt, maybe_reply, NULL, &victim) == 0);
    mc_atomic_end();
    spec.fn = ask;
    spawn(&spec);
    mc_assert(join() == 0);
    stop();
}
MC_CASE(process_ask_against_end, ask_against_end, .arg = 0, .proves = "W10", .bound = 1, .stale_counts = true,
        .seconds = 6);
MC_CASE(process_reply_against_end, ask_against_end, .arg = 1, .proves = "W10 W40", .bound = 1, .stale_counts = true,
        .seconds = 6);

/* -- Stop against spawn: everyone is told, once. */

static int until_told(void *arg) {
    weft_message m;
    weft_pid child;
    if (arg)
        mc_assert(weft_process_go(NULL, until_told, NULL, &child) == 0);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type == WEFT_MESSAGE_CANCEL);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == -ETIMEDOUT);
    add_relaxed(&heard, 1);
    return 0;
}

MC_TEST(process_stop_against_spawn, .proves = "W35", .bound = 2, .stale_counts = true, .seconds = 6) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = until_told;
    spec.arg = &spec;
    start(1);
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, &spec, NULL, NULL) == 0);
    mc_atomic_end();
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_assert(load_relaxed(&heard) == 2);
    stop();
}
