/* process_wrong.c - processes whose own code is wrong, or is called from where it does not belong. */
#include <weft/budget.h>
#include <weft/command.h>

#include "process.h"

/* -- What a step says ---------------------------------------------------------------------------------------- */

static atomic_uint steps, closes;

static int say(void *raw, const weft_message *events, size_t count, weft_step *out) {
    (void)events, (void)count;
    REQUIRE_LT(atomic_fetch_add(&steps, 1), 1000); /* it is not called for ever */
    out->status = (weft_step_status) * (int *)raw;
    return 0;
}
static int say_init(void *raw, weft_pid self, const char *method, const void *input, size_t size) {
    (void)self, (void)method;
    memcpy(raw, input, size);
    return 0;
}
static void say_close(void *raw) {
    (void)raw;
    atomic_fetch_add(&closes, 1);
}
static const weft_process_class saying = {
    .size = sizeof saying, .state_size = sizeof(int), .init = say_init, .step = say, .close = say_close};

API_TEST(process_unknown_status, "W5 W6", .workers = {1, 2}) {
    static const int unknown[] = {5, 77, -1, INT32_MIN, INT32_MAX};
    weft_runtime *rt = fixture_begin_patient();
    for (unsigned i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        weft_task *task;
        atomic_store(&steps, 0);
        REQUIRE_EQ(spawn_class(rt, &saying, NULL, unknown[i], NULL, &task), 0);
        CHECK_EQ(fixture_finish(task).status, -EINVAL);
        CHECK_EQ(atomic_load(&steps), 1);
        CHECK_EQ(atomic_load(&closes), i + 1);
    }
    fixture_end(rt);
}

/* Who writes the whole struct takes the library's part of it away. */
static int overwrite(void *raw, const weft_message *events, size_t count, weft_step *out) {
    (void)raw, (void)events, (void)count;
    CHECK_EQ(weft_yield_command(NULL, WEFT_COMMAND_CLOCK, 1, NULL, 0), -EINVAL);
    CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_CLOCK, 1, "", (size_t)UINT32_MAX + 1), -EMSGSIZE);
    CHECK_EQ(weft_command_complete(NULL, weft_self(), 1, 0, "", (size_t)UINT32_MAX + 1), -EMSGSIZE);
    *out = (weft_step){.status = WEFT_STEP_DONE};
    out->result = weft_yield_command(out, WEFT_COMMAND_CLOCK, 1, NULL, 0);
    return 0;
}

API_TEST(process_step_overwritten, "W5", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_class class_ = saying;
    weft_task *task;
    class_.step = overwrite;
    REQUIRE_EQ(spawn_class(rt, &class_, NULL, 0, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, -EINVAL);
    fixture_end(rt);
}

/* A class does not wait. */
static int wait_in_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    weft_message m;
    (void)raw, (void)events, (void)count;
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_ask(weft_self() + 1, NULL, 0, &m, WEFT_NEVER), -EINVAL);
    out->status = WEFT_STEP_DONE;
    return 0;
}
API_TEST(process_step_waits, "W5", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_class class_ = saying;
    weft_task *task;
    class_.step = wait_in_step;
    REQUIRE_EQ(spawn_class(rt, &class_, NULL, 0, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- Specs that contradict themselves, and sizes that do not fit. */

static int never(void *arg) {
    REQUIRE(!arg && !"never");
    return 0;
}
static int ask_wrong(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_message m = {.from = weft_self()};
    weft_pid pid = 7;
    (void)arg;
    spec.fn = never;
    CHECK_EQ(weft_process_spawn_monitored(&spec, &pid, NULL), -EINVAL);
    CHECK_EQ(pid, 7);
    CHECK_EQ(weft_ask(weft_self() + 1, "", (size_t)UINT32_MAX + 1, &m, WEFT_NEVER), -EMSGSIZE);
    CHECK_EQ(weft_reply(&m, "", (size_t)UINT32_MAX + 1), -EMSGSIZE);
    return 0;
}
API_TEST(process_wrong_arguments, "W2 W4", .workers = {1}) {
    static const weft_process_class largest = {
        .size = sizeof largest, .state_size = WEFT_PROCESS_STATE_MAX, .init = say_init, .step = say, .name = "largest"};
    const weft_budget budget = {1, 1, 1, 1, 1};
    const int done = WEFT_STEP_DONE;
    weft_runtime *rt = fixture_begin_patient();
    weft_process_class larger = largest;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_message m = {.from = 1};
    weft_fund *fund;
    weft_task *task;
    spec.class_ = &largest;
    spec.budget = &budget;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EINVAL);
    spec.budget = NULL;
    REQUIRE_EQ(weft_fund_create(rt, NULL, &budget, &fund), 0);
    spec.fund = fund;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EINVAL);
    spec.fund = NULL;
    CHECK_EQ(weft_fund_destroy(fund), 0);
    larger.state_size++;
    spec.class_ = &larger;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EINVAL);
    spec.class_ = &largest;
    CHECK_EQ(weft_process_spawn(NULL, &spec, NULL, NULL), -EINVAL); /* no runtime */
    CHECK_EQ(weft_reply(&m, NULL, 0), -EINVAL);
    spec.name = "own";
    spec.input = &done;
    spec.input_size = sizeof done;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_STR(weft_task_name(task), "own");
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
    in_process(ask_wrong, NULL);
}

/* -- From another runtime, where the caller's pid is another's ------------------------------------------------- */

struct abroad {
    weft_runtime *rt;
    weft_task *hears;
    weft_pid pid;
};

static int hear_from_abroad(void *arg) {
    weft_message m;
    (void)arg;
    CHECK_EQ(weft_receive(&m, NULL, NULL, in_time()), 0);
    CHECK_EQ(m.type, WEFT_MESSAGE_CANCEL);
    CHECK_EQ(m.from, WEFT_PID_NONE);
    CHECK_EQ(weft_receive(&m, NULL, NULL, in_time()), 0);
    CHECK_EQ(m.type, WEFT_MESSAGE);
    CHECK_EQ(m.tag, 1);
    CHECK_EQ(m.from, WEFT_PID_NONE);
    CHECK_EQ(weft_reply(&m, NULL, 0), -EINVAL);
    CHECK_EQ(weft_receive(&m, NULL, NULL, in_time()), 0);
    CHECK_EQ(m.tag, 2);
    CHECK_EQ(m.from, WEFT_PID_NONE);
    return 0;
}

/* Also when messages to its own like go the short way. */
static int call_abroad(void *arg) {
    struct abroad *abroad = arg;
    weft_message m;
    CHECK_EQ(weft_self(), abroad->pid); /* the same number here */
    CHECK_EQ(weft_process_cancel(abroad->rt, abroad->pid), 0);
    if (!fixture_on("sim")) /* where the other's time stands still while we run */
        UNTIL(strcmp(weft_task_state(abroad->hears), "idle") == 0);
    CHECK_EQ(weft_send(abroad->rt, abroad->pid, 1, "a longer message, not inline", 29), 0);
    CHECK_EQ(weft_send(NULL, weft_self(), 3, NULL, 0), 0);
    CHECK_EQ(weft_send(abroad->rt, abroad->pid, 2, "short", 6), 0);
    CHECK_EQ(spawn_class(abroad->rt, &saying, NULL, WEFT_STEP_DONE, NULL, NULL), 0);
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), 0);
    CHECK_EQ(m.tag, 3);
    expect_none();
    return 0;
}

API_TEST(process_from_another_runtime, "W10 W30", .workers = {1, 2}) {
    weft_runtime *here = fixture_begin_patient();
    struct abroad abroad = {.rt = fixture_begin_patient()};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *calls;
    spec.fn = hear_from_abroad;
    REQUIRE_EQ(weft_process_spawn(abroad.rt, &spec, &abroad.pid, &abroad.hears), 0);
    spec.fn = call_abroad;
    spec.arg = &abroad;
    REQUIRE_EQ(weft_process_spawn(here, &spec, NULL, &calls), 0);
    CHECK_EQ(fixture_finish(calls).status, 0);
    CHECK_EQ(fixture_finish(abroad.hears).status, 0);
    fixture_end(here);
    fixture_end(abroad.rt);
}

/* -- From nowhere: a plain thread that names no runtime --------------------------------------------------------- */

API_TEST(process_no_runtime, "W30", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(weft_send(NULL, 1, 1, NULL, 0), -EINVAL);
    CHECK_EQ(weft_process_cancel(NULL, 1), -EINVAL);
    CHECK_EQ(weft_process_exit(NULL, 1, -EIO), -EINVAL);
    CHECK_EQ(weft_command_complete(NULL, 1, 1, 0, NULL, 0), -EINVAL);
    CHECK_EQ(weft_process_cancel(rt, 1), -ESRCH); /* there have been no processes */
    CHECK_EQ(weft_process_exit(rt, 1, -EIO), -ESRCH);
    CHECK_EQ(weft_command_complete(rt, 1, 1, 0, NULL, 0), -ESRCH);
    fixture_end(rt);
}

/* -- A release function that receives --------------------------------------------------------------------------- */

static atomic_uint released;

static void release_and_receive(void *data) {
    weft_message m;
    int wanted = *(int *)data;
    atomic_fetch_add(&released, 1);
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), wanted);
    CHECK_EQ(weft_ask(weft_self() + 1, NULL, 0, &m, WEFT_NOW), wanted); /* not itself: it would be -ESRCH */
}

static int own_released(void *arg) {
    static int deadlock = -EDEADLK, ended = -EINVAL;
    weft_message m;
    (void)arg;
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(weft_send_ref(NULL, weft_self(), i, &deadlock, sizeof deadlock, release_and_receive), 0);
    for (unsigned i = 0; i < 3; i++) { /* none is taken by another's release, and so lost */
        CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), 0);
        CHECK_EQ(m.tag, i);
        CHECK_EQ(atomic_load(&released), i);
    }
    expect_none();
    CHECK_EQ(atomic_load(&released), 3);
    CHECK_EQ(weft_send_ref(NULL, weft_self(), 3, &ended, sizeof ended, release_and_receive), 0); /* unread at its end */
    return 0;
}

API_TEST(process_release_receives, "W29", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    atomic_store(&released, 0);
    spec.fn = own_released;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
    CHECK_EQ(atomic_load(&released), 4);
}

/* The same for one that is thrown away while it lies unread. */
static atomic_bool looked;
static int send_over(void *arg) {
    static int deadlock = -EDEADLK;
    weft_pid to = *(weft_pid *)arg;
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(weft_send_ref(NULL, to, i, &deadlock, sizeof deadlock, release_and_receive), 0);
        UNTIL(atomic_load(&looked)); /* it has the first before it, and does not want it */
    }
    return 0;
}
static bool tag_is_one(const weft_message *message, void *arg) {
    (void)arg;
    atomic_store(&looked, true);
    return message->tag == 1;
}
static int own_dropped(void *arg) {
    weft_message m;
    (void)arg;
    CHECK_EQ(weft_receive(&m, tag_is_one, NULL, in_time()), 0);
    CHECK_EQ(m.tag, 1);
    CHECK_EQ(atomic_load(&released), 1);
    expect_none();
    return 0;
}

API_TEST(process_release_of_dropped_receives, "W29", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task, *sender;
    weft_pid pid;
    atomic_store(&released, 0);
    atomic_store(&looked, false);
    spec.fn = own_dropped;
    spec.max_messages = 1;
    spec.policy = WEFT_MAILBOX_DROP_OLDEST;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    REQUIRE_EQ(weft_fiber_go(rt, send_over, &pid, &sender), 0);
    CHECK_EQ(fixture_finish(sender).status, 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
    CHECK_EQ(atomic_load(&released), 2);
}
