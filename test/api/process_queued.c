/* process_queued.c - messages to a process that is queued and has not had its turn: on one worker they need no atomic step. */
#include "process.h"

enum { MESSAGES = 100, OLD = 1000 };

static atomic_uint steps, released;
static uint64_t seen; /* the receiver's */
static bool wrong;

static void release(void *data) {
    (void)data;
    atomic_fetch_add(&released, 1);
}

/* Numbers from 0 on. */
static int count_up(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    atomic_fetch_add(&steps, 1);
    for (size_t i = 0; i < count; i++)
        wrong |= events[i].type != WEFT_MESSAGE || events[i].tag != seen++;
    out->status = seen == MESSAGES ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class counting = {.size = sizeof counting, .name = "counting", .step = count_up};

static int count_up_as_fiber(void *arg) {
    (void)arg;
    for (weft_message m; seen < MESSAGES;) {
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
        wrong |= m.tag != seen++;
    }
    return 0;
}

/* The first ones before it has run, the others while it is idle, runs or is queued. */
static void send_to(weft_process_spec *spec) {
    weft_task *task;
    weft_pid pid;
    seen = 0;
    REQUIRE_EQ(weft_process_spawn(NULL, spec, &pid, &task), 0);
    for (uint64_t tag = 0; tag < MESSAGES; tag++) {
        REQUIRE_EQ(weft_send(NULL, pid, tag, NULL, 0), 0);
        if (tag > MESSAGES / 2 && tag % 3 == 0)
            weft_yield();
    }
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(seen, MESSAGES);
    CHECK(!wrong);
}
static int in_order(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    (void)arg;
    spec.class_ = &counting;
    send_to(&spec);
    spec.class_ = NULL;
    spec.fn = count_up_as_fiber;
    send_to(&spec);
    return 0;
}
API_TEST(process_queued_in_order, "W20 W29 W40", .workers = {1, 2}) { in_process(in_order, NULL); }

/* -- It is ended before its turn: what it was given is given up, once, and goes to no later owner of its place. */

static int never_runs(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    (void)arg;
    spec.class_ = &counting;
    for (unsigned round = 0; round < 3; round++) {
        weft_task *task;
        weft_pid pid;
        atomic_store(&steps, 0);
        REQUIRE_EQ(weft_process_spawn(NULL, &spec, &pid, &task), 0);
        for (int i = 0; i < MESSAGES; i++)
            REQUIRE_EQ(weft_send_ref(NULL, pid, OLD, &released, 1, release), 0);
        REQUIRE_EQ(weft_process_exit(NULL, pid, -EIO), 0);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        CHECK_EQ(weft_send(NULL, pid, OLD, NULL, 0), -ESRCH);
        CHECK_EQ(atomic_load(&released), (round + 1) * MESSAGES);
        CHECK_EQ(atomic_load(&steps), 0);
    }
    wrong = false;
    send_to(&spec);
    return 0;
}
API_TEST(process_queued_ended, "W6 W30 W38", .workers = {1}, .sched = "ring deque fifo sim") {
    fixture_without_points();
    in_process(never_runs, NULL);
}
