/* process_step.c - classes: what a step says, and what it is shown. */
#include <weft/command.h>

#include "process.h"

/* -- How it ends. */

struct saying {
    int status, returns, result;
    const weft_process_class *upgrade;
};
static int copy_saying(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)self, (void)method;
    memcpy(state, input, size);
    return 0;
}
static int say(void *state, const weft_message *events, size_t count, weft_step *out) {
    const struct saying *saying = state;
    (void)events, (void)count;
    out->status = (weft_step_status)saying->status;
    out->result = saying->result;
    out->upgrade = saying->upgrade;
    return saying->returns;
}
static const weft_process_class once = {
    .size = sizeof once, .state_size = sizeof(struct saying), .init = copy_saying, .step = say};

API_TEST(process_step_says, "W5 W22", .workers = {1, 2}) {
    static const weft_process_class no_step = {.size = sizeof no_step};
    static const weft_process_class short_one = {.size = offsetof(weft_process_class, init_ctx) - 1, .step = say};
    static const struct {
        struct saying saying;
        int expected;
    } all[] = {
        {{WEFT_STEP_IDLE, -EPROTO, 0, NULL}, -EPROTO},
        {{77, -EPROTO, 0, NULL}, -EPROTO},
        {{WEFT_STEP_DONE, 0, 5, NULL}, 0},
        {{WEFT_STEP_DONE, -EPROTO, -EIO, NULL}, -EPROTO},
        {{WEFT_STEP_UPGRADE, 0, 0, NULL}, -EINVAL},
        {{WEFT_STEP_UPGRADE, 0, 0, &no_step}, -EINVAL},
        {{WEFT_STEP_UPGRADE, 0, 0, &short_one}, -EINVAL},
    };
    weft_runtime *rt = fixture_begin_patient();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
        weft_task *task;
        spec.class_ = &once;
        spec.input = &all[i].saying;
        spec.input_size = sizeof all[i].saying;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
        CHECK_EQ(fixture_finish(task).status, all[i].expected);
    }
    fixture_end(rt);
}

/* -- When it is called, and with what.  Driven by us, so that all is there before it runs. */

static int calls, events_seen, refs;
static weft_step_status (*next)(size_t count);

static int count_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events;
    calls++;
    events_seen += (int)count;
    out->status = next(count);
    return 0;
}
static const weft_process_class counting = {.size = sizeof counting, .step = count_step};

static weft_runtime *rt_;
static weft_pid begin(weft_process_spec spec, weft_step_status (*says)(size_t count), weft_task **task) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_pid pid;
    config.driven = true;
    config.workers = 1;
    rt_ = fixture_begin(&config);
    next = says;
    spec.class_ = &counting;
    REQUIRE_EQ(weft_process_spawn(rt_, &spec, &pid, task), 0);
    return pid;
}
#define DRIVE_UNTIL(claim)                                                                                             \
    while (!(claim))                                                                                                   \
    REQUIRE_GE(weft_drive_wait(rt_, 0, fixture_soon()), 0)

static void end(weft_task *task) {
    DRIVE_UNTIL(weft_task_is_done(task));
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt_);
}
static const weft_process_spec plain = WEFT_PROCESS_SPEC_INIT;

/* It had nothing to do, and has again. */
static weft_step_status idle_then_go_on(size_t count) {
    return calls == 1 ? WEFT_STEP_IDLE : count ? WEFT_STEP_CONTINUE : WEFT_STEP_DONE;
}
API_TEST(process_step_goes_on, "W22 W23") {
    weft_task *task;
    weft_pid pid = begin(plain, idle_then_go_on, &task);
    DRIVE_UNTIL(calls == 1);
    CHECK_EQ(weft_send(rt_, pid, 1, NULL, 0), 0);
    end(task);
    CHECK_EQ(calls, 3);
}

/* More of the system's than a step is shown at once: it is idle, and called for the rest. */
static weft_step_status idle_until_many(size_t count) {
    (void)count;
    return events_seen == 150 ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
}
API_TEST(process_step_of_many, "W22 W28") {
    weft_task *task;
    weft_pid pid = begin(plain, idle_until_many, &task);
    for (uint64_t i = 0; i < 150; i++)
        REQUIRE_EQ(weft_command_complete(rt_, pid, i, 0, NULL, 0), 0);
    end(task);
}

/* What a message carries is released, whatever the next is. */
static void count_ref(void *data) { (void)data, refs++; }
static weft_step_status done_with_two(size_t count) { return count == 2 ? WEFT_STEP_DONE : WEFT_STEP_IDLE; }
API_TEST(process_step_releases, "W29") {
    static int there;
    weft_task *task;
    weft_pid pid = begin(plain, done_with_two, &task);
    REQUIRE_EQ(weft_send_ref(rt_, pid, 1, &there, sizeof there, count_ref), 0);
    REQUIRE_EQ(weft_send(rt_, pid, 2, NULL, 0), 0);
    end(task);
    CHECK_EQ(refs, 1);
}

/* A completion that nothing waited for is not one less of those that are waited for. */
static weft_step_status yield_for_nothing(size_t count) {
    (void)count;
    return calls == 3 ? WEFT_STEP_DONE : calls == 1 ? WEFT_STEP_IDLE : WEFT_STEP_YIELD;
}
API_TEST(process_step_unasked_completion, "W28 W38") {
    weft_task *task;
    weft_pid pid = begin(plain, yield_for_nothing, &task);
    DRIVE_UNTIL(calls == 1);
    CHECK_EQ(weft_command_complete(rt_, pid, 1, 0, NULL, 0), 0);
    end(task);
    CHECK_EQ(calls, 3);
}

/* What the system says makes no room in a bounded mailbox, for it took none. */
static weft_step_status idle_until_nine(size_t count) {
    (void)count;
    return events_seen == 9 ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
}
API_TEST(process_step_of_the_system, "W29 W30") {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.max_messages = 2;
    spec.max_bytes = 10;
    weft_pid pid = begin(spec, idle_until_nine, &task);
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < 3; i++)
            CHECK_EQ(weft_command_complete(rt_, pid, i, 0, "three", 5), 0);
        CHECK_EQ(weft_try_send(rt_, pid, 1, "three", 5), 0);
        DRIVE_UNTIL(events_seen == 4 * (round + 1));
    }
    CHECK_EQ(weft_try_send(rt_, pid, 1, "ten bytes", 10), 0);
    CHECK_EQ(weft_try_send(rt_, pid, 1, "", 1), -ENOBUFS);
    end(task);
}
