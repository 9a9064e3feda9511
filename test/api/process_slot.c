/* process_slot.c - the next owner of a slot knows nothing of the one before.  One worker: the slot is the last that was given back. */
#include <weft/command.h>

#include "process.h"
#include "process/process.h"

static weft_task *begin(const weft_process_spec *spec, weft_pid *pid) {
    weft_task *task = NULL;
    REQUIRE_EQ(weft_process_spawn(NULL, spec, pid, &task), 0);
    return task;
}
static void finish(weft_task *task) {
    UNTIL(weft_task_is_done(task));
    weft_task_drop(task);
}
static void end_it(weft_pid pid, weft_task *task) {
    CHECK_EQ(weft_process_exit(NULL, pid, -EIO), 0);
    finish(task);
}
static void same_slot(weft_pid before, weft_pid now) { REQUIRE_EQ(wefti_pid_index(before), wefti_pid_index(now)); }

/* -- A class that waited for a command; and was to be woken by messages, which the next is not. */

static int calls, events_seen;
static int block(void *state, const weft_message *events, size_t count, weft_step *out) {
    weft_command_timer timer = {WEFT_NEVER - 1};
    (void)state, (void)events;
    events_seen += (int)count;
    out->status = calls++ ? WEFT_STEP_DONE : WEFT_STEP_YIELD;
    return calls == 1 ? weft_yield_command(out, WEFT_COMMAND_TIMER, 1, &timer, sizeof timer) : 0;
}
static const weft_process_class blocking = {.size = sizeof blocking, .step = block};

static int after_blocked(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid before, now;
    (void)arg;
    spec.class_ = &blocking;
    spec.wake_blocked_on_message = true;
    weft_task *task = begin(&spec, &before);
    UNTIL(calls == 1);
    end_it(before, task);
    calls = 0;
    spec.wake_blocked_on_message = false;
    task = begin(&spec, &now);
    same_slot(before, now);
    UNTIL(calls == 1);
    CHECK_EQ(weft_send(NULL, now, 2, NULL, 0), 0);
    for (int i = 0; i < 100; i++)
        weft_yield();
    CHECK_EQ(calls, 1);
    CHECK_EQ(weft_command_complete(NULL, now, 1, 0, NULL, 0), 0);
    finish(task);
    CHECK_EQ(calls, 2);
    CHECK_EQ(events_seen, 2); /* both at once */
    return 0;
}
API_TEST(process_slot_after_blocked, "W34 W38", .workers = {1}) { in_process(after_blocked, NULL); }

/* -- What the system said to the one before, what was asked of it, and how it took that. */

static int read_one_of_two(void *arg) {
    uint64_t monitor;
    (void)arg;
    CHECK_EQ(weft_monitor(12345, &monitor), 0);
    CHECK_EQ(weft_monitor(12345, &monitor), 0);
    expect(WEFT_MESSAGE_DOWN);
    return 0;
}
static int hear_nothing(void *arg) {
    (void)arg;
    expect_none();
    return 0;
}
static bool refuse(const weft_message *message, void *arg) { return (void)message, (void)arg, false; }
static int read_nothing(void *arg) {
    weft_message m;
    (void)arg;
    return weft_receive(&m, refuse, NULL, WEFT_NEVER);
}
static weft_pid partner;
static int link_and_fail(void *arg) {
    (void)arg;
    CHECK_EQ(weft_link(partner), 0);
    return -EIO;
}

static int after_told(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid before, now;
    (void)arg;
    spec.fn = read_one_of_two;
    finish(begin(&spec, &before));
    spec.fn = hear_nothing;
    finish(begin(&spec, &now));
    same_slot(before, now);
    /* It has not read that it should end; the next reads it. */
    spec.fn = read_nothing;
    spec.trap_exit = true;
    weft_task *task = begin(&spec, &before);
    CHECK_EQ(weft_process_cancel(NULL, before), 0);
    end_it(before, task);
    spec.fn = sit;
    spec.trap_exit = false;
    task = begin(&spec, &now);
    same_slot(before, now);
    CHECK_EQ(weft_process_cancel(NULL, now), 0);
    finish(task);
    /* It trapped the ends of others; the next does not. */
    task = begin(&spec, &partner);
    same_slot(before, partner);
    go_process(NULL, link_and_fail, NULL);
    finish(task);
    return 0;
}
API_TEST(process_slot_after_told, "W6 W35 W38", .workers = {1}) { in_process(after_told, NULL); }

/* -- Another bound. */

static int after_bound(void *arg) {
    static const char bytes[100];
    weft_pid before = WEFT_PID_NONE, now;
    (void)arg;
    for (int round = 0; round < 4; round++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        spec.fn = read_nothing;
        spec.max_messages = round % 2 ? 0 : 2;
        spec.max_bytes = round % 2 ? 50 : 0;
        weft_task *task = begin(&spec, &now);
        if (round)
            same_slot(before, now);
        for (int i = 0; i < 6; i++)
            CHECK_EQ(weft_try_send(NULL, now, 1, bytes, round % 2 ? 10 : 100), i < (round % 2 ? 5 : 2) ? 0 : -ENOBUFS);
        end_it(now, task);
        before = now;
    }
    return 0;
}
API_TEST(process_slot_after_bound, "W30 W38", .workers = {1}) { in_process(after_bound, NULL); }
