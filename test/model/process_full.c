/* process_full.c - full mailboxes on the whole runtime: what is dropped while it is read; an answer that finds no room, or comes too late. */
#include "process/process.h"

#include "model.h"
#include "model_rt.h"

static weft_runtime *rt;
static weft_task *task;
static weft_pid pid;

static void spawn(weft_fiber_fn fn, weft_mailbox_policy policy) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = fn;
    spec.max_messages = 1;
    spec.policy = policy;
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, &spec, &pid, &task) == 0);
    mc_atomic_end();
}

static void finish(void) {
    weft_result result;
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0 && result.status == 0);
    weft_task_drop(task);
    model_close(rt);
}

/* -- Dropping against taking: what is not read was dropped, and is released; the newest, or the first, is read. */

enum { SENT = 3 };
static _Atomic int released[SENT];
static _Atomic int seen; /* a bit each */

static void release(void *data) { add_relaxed((_Atomic int *)data, 1); }

static int read_all(void *arg) {
    weft_message m;
    bool asked = false;
    uint64_t least = 0;
    int error;
    (void)arg;
    while (!(error = weft_receive(&m, NULL, NULL, asked ? WEFT_NOW : WEFT_NEVER)))
        if (m.type == WEFT_MESSAGE) {
            mc_assert(m.tag >= least); /* in order */
            least = m.tag + 1;
            store_relaxed(&seen, load_relaxed(&seen) | 1 << m.tag);
        } else {
            asked = true; /* all have been sent */
        }
    mc_assert(asked && error == -ETIMEDOUT);
    return 0;
}

static void drop_against_take(void) {
    bool newest = mc_arg() == WEFT_MAILBOX_DROP_NEWEST;
    rt = model_open(WEFT_SCHED_FIFO, 1);
    spawn(read_all, (weft_mailbox_policy)mc_arg());
    for (uint64_t tag = 0; tag < SENT; tag++)
        mc_assert(weft_send_ref(rt, pid, tag, (void *)&released[tag], 4, release) == 0);
    mc_assert(weft_process_cancel(rt, pid) == 0);
    finish();
    int bits = load_relaxed(&seen);
    mc_assert(bits & (newest ? 1 : 1 << (SENT - 1)));
    for (int i = 0; i < SENT; i++)
        mc_assert(load_relaxed(&released[i]) == 1);
    mc_outcome("%s", bits == (1 << SENT) - 1 ? "all" : "some");
}
MC_CASE(process_drop_oldest_against_take, drop_against_take, .arg = WEFT_MAILBOX_DROP_OLDEST, .proves = "W29 W40",
        .bound = 2, .stale_counts = true, .seconds = 6, .outcomes = "all some");
MC_CASE(process_drop_newest_against_take, drop_against_take, .arg = WEFT_MAILBOX_DROP_NEWEST, .proves = "W29 W40",
        .bound = 2, .stale_counts = true, .seconds = 6, .outcomes = "all some");

/* -- One that waits for room gives up: the one behind it, which fits, is let in, whoever comes first; mc_arg() 1: or the process ends meanwhile. */

static weft_task *large;

static int send_large(void *arg) {
    (void)arg;
    return weft_send(NULL, pid, 2, "ab", 2); /* there will never be room for that */
}
static int cancel_large(void *arg) {
    (void)arg;
    weft_task_cancel(large);
    int error = mc_arg() ? weft_process_exit(NULL, pid, -EIO) : 0;
    mc_assert(error == 0 || error == -ESRCH);
    return 0;
}
static bool is_small(const weft_message *m, void *arg) {
    (void)arg;
    return m->tag == 3;
}
static int take_small(void *arg) {
    weft_message m;
    (void)arg;
    int error = weft_receive(&m, is_small, NULL, WEFT_NEVER);
    mc_assert(error == 0 || (mc_arg() && error == -ECANCELED));
    return error;
}

static void room_given_up(void) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_result result;
    weft_task *canceller;
    spec.fn = take_small;
    spec.max_bytes = 4;
    spec.policy = WEFT_MAILBOX_BLOCK;
    rt = model_open(WEFT_SCHED_FIFO, mc_arg() ? 2 : 1);
    mc_atomic_begin();
    mc_assert(weft_process_spawn(rt, &spec, &pid, &task) == 0);
    mc_assert(weft_send(rt, pid, 1, "abc", 3) == 0);
    mc_assert(weft_fiber_go(rt, send_large, NULL, &large) == 0);
    mc_assert(weft_fiber_go(rt, cancel_large, NULL, &canceller) == 0);
    mc_atomic_end();
    int error = weft_send_ref(rt, pid, 3, (void *)&released[0], 1, release);
    mc_assert(error == 0 || (mc_arg() && error == -ESRCH));
    mc_assert(weft_join(canceller, NULL, WEFT_NEVER) == 0); /* it has the other's handle, too */
    weft_task_drop(canceller);
    mc_assert(weft_join(large, &result, WEFT_NEVER) == 0);
    mc_assert(result.status == -ECANCELED || result.status == -ESRCH);
    weft_task_drop(large);
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    mc_assert(result.status == 0 || mc_arg());
    weft_task_drop(task);
    model_close(rt);
    mc_assert(load_relaxed(&released[0]) == !error); /* read or not, it is not forgotten */
    mc_outcome("%s", error ? "gone" : "sent");
}
MC_CASE(process_room_given_up, room_given_up, .arg = 0, .proves = "W29", .bound = 2, .stale_counts = true, .seconds = 6,
        .outcomes = "sent");
MC_CASE(process_room_given_up_against_end, room_given_up, .arg = 1, .proves = "W29 W30", .bound = 1,
        .stale_counts = true, .seconds = 6, .outcomes = "sent gone");
MC_CASE(process_room_given_up_against_end_deep, room_given_up, .arg = 1, .proves = "W29 W30", .mode = MC_PCT,
        .max_exec = 4000);

/* -- An answer to one whose mailbox is full, and a second one, which is none. */

static weft_pid server;

static int answer_twice(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
    mc_assert(weft_reply(&m, "a", 1) == 0);
    int error = weft_reply(&m, "b", 1);
    mc_assert(error == 0 || error == -ESRCH); /* who has asked may have ended */
    return 0;
}

static int ask_when_full(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_send(NULL, weft_self(), 7, NULL, 0) == 0);
    mc_assert(weft_ask(server, NULL, 0, &m, WEFT_NEVER) == 0);
    mc_assert(m.size == 1 && *(const char *)m.data == 'a');
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.tag == 7);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == -ETIMEDOUT);
    mc_assert(weft_try_send(NULL, weft_self(), 8, NULL, 0) == 0); /* the answer has not been counted */
    mc_assert(weft_try_send(NULL, weft_self(), 9, NULL, 0) == -ENOBUFS);
    return 0;
}

static void answer_when_full(void) {
    rt = model_open(WEFT_SCHED_FIFO, 2);
    mc_atomic_begin();
    mc_assert(weft_process_go(rt, answer_twice, NULL, &server) == 0);
    mc_atomic_end();
    spawn(ask_when_full, WEFT_MAILBOX_BLOCK);
    finish();
}
MC_CASE(process_answer_when_full, answer_when_full, .proves = "W29 W30", .bound = 1, .stale_counts = true,
        .seconds = 6);
MC_CASE(process_answer_when_full_deep, answer_when_full, .proves = "W29 W30", .mode = MC_PCT, .max_exec = 2000);

/* -- An answer that comes too late, of one that ends: neither is heard of later. */

static int answer_and_end(void *arg) {
    weft_message m;
    (void)arg;
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0);
    int error = m.type == WEFT_MESSAGE ? weft_reply(&m, "a", 1) : 0; /* or all is over already */
    mc_assert(error == 0 || error == -ESRCH); /* who has asked may have ended */
    return 0;
}

static int ask_in_haste(void *arg) {
    weft_message m;
    (void)arg;
    int error = weft_ask(server, NULL, 0, &m, WEFT_NOW);
    mc_assert(error == 0 || error == -ETIMEDOUT);
    mc_assert(weft_receive(&m, NULL, NULL, WEFT_NOW) == -ETIMEDOUT);
    return 0;
}

static void answer_too_late(void) {
    rt = model_open(WEFT_SCHED_FIFO, 2);
    mc_atomic_begin();
    mc_assert(weft_process_go(rt, answer_and_end, NULL, &server) == 0);
    mc_atomic_end();
    spawn(ask_in_haste, WEFT_MAILBOX_REFUSE);
    finish();
}
MC_CASE(process_answer_too_late, answer_too_late, .proves = "W30", .mode = MC_PCT, .max_exec = 2000);
