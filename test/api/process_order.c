/* process_order.c - messages and system events of one producer arrive in the order in which it produced them (W29). */
#include <weft/command.h>

#include "process.h"

static weft_process_spec of_fiber(weft_fiber_fn fn, void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    return spec;
}
static weft_process_spec of_class(const weft_process_class *class_) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = class_;
    return spec;
}
static int rounds(int usual) { return fixture_is_slow() ? usual / 10 : usual; }

/* -- A child sends its results and ends: they are read before its end. */

enum { RESULTS = 3 };
static weft_pid parent_;

static int send_results(void *arg) {
    (void)arg;
    for (uint64_t i = 0; i < RESULTS; i++)
        REQUIRE_EQ(weft_send(NULL, parent_, i, NULL, 0), 0);
    return -EIO;
}
static int send_results_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    out->status = WEFT_STEP_DONE;
    return send_results(NULL);
}
/* The last one comes from close. */
static void send_last(void *state) {
    (void)state;
    REQUIRE_EQ(weft_send(NULL, parent_, RESULTS, NULL, 0), 0);
}
static const weft_process_class sender_class = {
    .size = sizeof sender_class, .step = send_results_step, .close = send_last};

/* kind: 1: a class; 2: linked instead of monitored. */
static void start_child(int kind) {
    weft_process_spec spec = kind & 1 ? of_class(&sender_class) : of_fiber(send_results, NULL);
    weft_pid pid;
    uint64_t monitor;
    if (kind & 2)
        REQUIRE_EQ(weft_process_spawn_linked(&spec, &pid), 0);
    else
        REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &monitor), 0);
}

static int results_then_end(void *arg) {
    (void)arg;
    parent_ = weft_self();
    REQUIRE_EQ(weft_trap_exit(true), 0);
    for (int i = 0; i < rounds(400); i++) {
        int kind = i % 4;
        start_child(kind);
        for (uint64_t tag = 0; tag < RESULTS + (uint64_t)(kind & 1); tag++)
            CHECK_EQ(expect(WEFT_MESSAGE).tag, tag);
        CHECK_EQ(expect(kind & 2 ? WEFT_MESSAGE_EXIT : WEFT_MESSAGE_DOWN).error, -EIO);
    }
    expect_none();
    return 0;
}
API_TEST(process_order_result_before_end, "W29 W40", .workers = {1, 2, 4}) { in_process(results_then_end, NULL); }

/* The same, many at once, to a parent that is a class. */
enum { CHILDREN = 64 };
static struct {
    unsigned results[CHILDREN];
    unsigned ended;
    weft_pid pid[CHILDREN];
} family;

static int send_as(void *arg) {
    uint64_t which = (uintptr_t)arg;
    for (uint64_t i = 0; i < RESULTS; i++)
        REQUIRE_EQ(weft_send(NULL, parent_, which << 8 | i, NULL, 0), 0);
    return 0;
}
static int count_family(void *state, const weft_message *events, size_t count, weft_step *out) {
    int *started = state;
    if (!*started)
        parent_ = weft_self();
    for (; *started < CHILDREN; ++*started) {
        weft_process_spec spec = of_fiber(send_as, (void *)(uintptr_t)*started);
        uint64_t monitor;
        REQUIRE_EQ(weft_process_spawn_monitored(&spec, &family.pid[*started], &monitor), 0);
    }
    for (size_t i = 0; i < count; i++) {
        if (events[i].type == WEFT_MESSAGE) {
            CHECK_EQ(events[i].tag & 0xff, family.results[events[i].tag >> 8]++);
            continue;
        }
        REQUIRE_EQ(events[i].type, WEFT_MESSAGE_DOWN);
        int which = 0;
        while (family.pid[which] != events[i].from)
            which++;
        CHECK_EQ(family.results[which], RESULTS);
        family.ended++;
    }
    out->status = family.ended == CHILDREN ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class family_class = {
    .size = sizeof family_class, .state_size = sizeof(int), .step = count_family};

API_TEST(process_order_results_of_many, "W29 W40", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = of_class(&family_class);
    weft_task *task;
    memset(&family, 0, sizeof family);
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- A sender's messages, then its request to end; from a fiber, a thread, and another runtime. */

enum { LINES = 100 };
static atomic_int lines_read;

static int log_lines(void *arg) {
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type != WEFT_MESSAGE_CANCEL)
        atomic_fetch_add(&lines_read, 1);
    return 0;
}
static int log_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count && out->status == WEFT_STEP_IDLE; i++)
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            out->status = WEFT_STEP_DONE;
        else
            atomic_fetch_add(&lines_read, 1);
    return 0;
}
static const weft_process_class log_class = {.size = sizeof log_class, .step = log_step};

static weft_runtime *log_rt;
static weft_pid log_pid;
static int write_lines(void *arg) {
    (void)arg;
    for (int i = 0; i < LINES; i++)
        REQUIRE_EQ(weft_send(log_rt, log_pid, 1, "line", 5), 0);
    CHECK_EQ(weft_process_cancel(log_rt, log_pid), 0);
    return 0;
}

/* from: the writer's runtime; NULL: this thread. */
static void log_and_cancel(weft_runtime *to, weft_runtime *from, uint32_t bound) {
    for (int i = 0; i < rounds(40) + 2; i++) {
        weft_process_spec spec = i % 2 ? of_class(&log_class) : of_fiber(log_lines, NULL);
        weft_task *logger, *writer;
        log_rt = to;
        atomic_store(&lines_read, 0);
        spec.max_messages = bound;
        spec.policy = WEFT_MAILBOX_BLOCK;
        REQUIRE_EQ(weft_process_spawn(to, &spec, &log_pid, &logger), 0);
        if (from) {
            REQUIRE_EQ(weft_fiber_go(from, write_lines, NULL, &writer), 0);
            CHECK_EQ(fixture_finish(writer).status, 0);
        } else {
            write_lines(NULL);
        }
        CHECK_EQ(fixture_finish(logger).status, 0);
        CHECK_EQ(atomic_load(&lines_read), LINES);
    }
}
API_TEST(process_order_lines_before_cancel, "W29 W40", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    log_and_cancel(rt, rt, 0);
    log_and_cancel(rt, NULL, 0);
    log_and_cancel(rt, rt, 7);
    log_and_cancel(rt, NULL, 7);
    fixture_end(rt);
}
API_TEST(process_order_lines_from_another_runtime, "W29 W40", .workers = {1, 2}) {
    weft_runtime *to = fixture_begin_patient(), *from = fixture_begin_patient();
    log_and_cancel(to, from, 0);
    log_and_cancel(to, from, 7);
    fixture_end(from);
    fixture_end(to);
}

/* -- A handler's messages, its completion, and what it sends after that. */

enum { STREAM = 7 };
static int stream(const weft_command *c, void *arg) {
    (void)arg;
    for (uint64_t i = 1; i <= 3; i++)
        REQUIRE_EQ(weft_send(c->rt, c->from, i, NULL, 0), 0);
    REQUIRE_EQ(weft_command_complete(c->rt, c->from, 4, 0, NULL, 0), 0);
    return weft_send(c->rt, c->from, 5, NULL, 0);
}
static int stream_in_fiber(void *arg) {
    weft_command c = *(weft_command *)arg;
    return stream(&c, NULL);
}
static int stream_later(const weft_command *c, void *arg) {
    static weft_command later;
    (void)arg;
    later = *c;
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(c->rt, stream_in_fiber, &later, &task), 0);
    weft_task_drop(task);
    return 0;
}
struct streamed {
    uint32_t seen, left;
    bool asked;
};
static int begin_stream(void *raw, weft_pid self, const char *method, const void *input, size_t size) {
    (void)self, (void)method;
    memcpy(&((struct streamed *)raw)->left, input, size);
    return 0;
}
static int hear_stream(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct streamed *state = raw;
    for (size_t i = 0; i < count; i++) {
        REQUIRE_EQ(events[i].tag, ++state->seen);
        REQUIRE_EQ(events[i].type, state->seen == 4 ? WEFT_MESSAGE_YIELD : WEFT_MESSAGE);
    }
    out->status = state->seen >= 4 ? WEFT_STEP_IDLE : WEFT_STEP_YIELD;
    if (state->seen == 5) {
        state->seen = 0;
        state->asked = false;
        if (!--state->left)
            out->status = WEFT_STEP_DONE;
        else
            out->status = WEFT_STEP_CONTINUE;
    } else if (!state->asked) {
        state->asked = true;
        return weft_yield_command(out, STREAM, 9, NULL, 0);
    }
    return 0;
}
static const weft_process_class streaming = {
    .size = sizeof streaming, .state_size = sizeof(struct streamed), .init = begin_stream, .step = hear_stream};

static void stream_by(weft_command_fn handler, uint32_t bound, bool wake_blocked) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = of_class(&streaming);
    weft_task *task;
    uint32_t times = (uint32_t)rounds(200);
    REQUIRE_EQ(weft_command_register(rt, STREAM, handler, NULL), 0);
    spec.input = &times;
    spec.input_size = sizeof times;
    spec.max_messages = bound;
    spec.wake_blocked_on_message = wake_blocked;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}
API_TEST(process_order_messages_before_completion, "W25 W26 W29", .workers = {1, 2, 4}) {
    for (uint32_t bound = 0; bound <= 4; bound += 4)
        for (int wakes = 0; wakes < 2; wakes++) {
            stream_by(stream, bound, wakes);
            stream_by(stream_later, bound, wakes);
        }
}

/* -- A class that waits for a command is woken by an end: it sees the messages before that in the same step. */

enum { NEVER_DONE = 8, UNREAD = 10 };
static atomic_int blocked_steps;
static int do_nothing(const weft_command *c, void *arg) {
    (void)c, (void)arg;
    return 0;
}
static int blocked_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    int *stage = state;
    out->status = WEFT_STEP_YIELD;
    if ((*stage)++ == 0) {
        weft_process_spec spec = of_fiber(sit, NULL);
        weft_pid pid;
        uint64_t monitor;
        spec.registered = "watched";
        REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &monitor), 0);
        return weft_yield_command(out, NEVER_DONE, 1, NULL, 0);
    }
    REQUIRE_EQ(count, UNREAD + 1);
    for (size_t i = 0; i < UNREAD; i++)
        CHECK_EQ(events[i].tag, i);
    CHECK_EQ(events[UNREAD].type, WEFT_MESSAGE_DOWN);
    atomic_fetch_add(&blocked_steps, 1);
    out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class blocked_class = {
    .size = sizeof blocked_class, .state_size = sizeof(int), .step = blocked_step};

API_TEST(process_order_blocked, "W29 W34", .workers = {1, 2, 4}) {
    for (uint32_t bound = 0; bound <= UNREAD; bound += UNREAD) {
        weft_runtime *rt = fixture_begin_patient();
        weft_process_spec spec = of_class(&blocked_class);
        weft_pid pid, watched = WEFT_PID_NONE;
        weft_task *task;
        atomic_store(&blocked_steps, 0);
        REQUIRE_EQ(weft_command_register(rt, NEVER_DONE, do_nothing, NULL), 0);
        spec.max_messages = bound;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
        REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0);
        watched = weft_whereis(rt, "watched");
        for (uint64_t i = 0; i < UNREAD; i++)
            REQUIRE_EQ(weft_send(rt, pid, i, NULL, 0), 0);
        REQUIRE_EQ(weft_process_cancel(rt, watched), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
        CHECK_EQ(atomic_load(&blocked_steps), 1);
        fixture_end(rt);
    }
}

/* More than one step is shown at once: the messages come in steps of their own, then the end. */
static int blocked_by_many(void *state, const weft_message *events, size_t count, weft_step *out) {
    uint64_t *next = state;
    out->status = WEFT_STEP_YIELD;
    if (!count)
        return weft_yield_command(out, NEVER_DONE, 1, NULL, 0);
    for (size_t i = 0; i < count; i++, ++*next)
        if (*next < 1000)
            REQUIRE_EQ(events[i].tag, *next);
        else
            REQUIRE_EQ(events[i].type, WEFT_MESSAGE_YIELD);
    if (*next == 1001)
        out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class many_class = {
    .size = sizeof many_class, .state_size = sizeof(uint64_t), .step = blocked_by_many};

API_TEST(process_order_blocked_by_many, "W29 W34", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = of_class(&many_class);
    weft_pid pid;
    weft_task *task;
    REQUIRE_EQ(weft_command_register(rt, NEVER_DONE, do_nothing, NULL), 0);
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0);
    for (uint64_t i = 0; i < 1000; i++)
        REQUIRE_EQ(weft_send(rt, pid, i, NULL, 0), 0);
    REQUIRE_EQ(weft_command_complete(rt, pid, 1, 0, NULL, 0), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- A system event passes through a full mailbox, and stays where it came. */

static void fill(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++) {
        int error = weft_try_send(NULL, weft_self(), i, NULL, 0);
        CHECK(error == 0 || error == -ENOBUFS);
    }
}
static void complete(uint64_t tag) {
    REQUIRE_EQ(weft_command_complete(weft_runtime_current(), weft_self(), tag, 0, NULL, 0), 0);
}
static void expect_tags(const uint64_t *tags) {
    for (; *tags; tags++) {
        weft_message m = {.tag = 0};
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), 0);
        CHECK_EQ(m.tag, *tags);
        CHECK_EQ(m.type, *tags > 100 ? WEFT_MESSAGE_YIELD : WEFT_MESSAGE);
    }
    expect_none();
}
static bool is_tag(const weft_message *m, void *arg) { return m->tag == *(uint64_t *)arg; }

/* A mailbox of two messages: 1 to 5, with events before, between and behind them. */
static int events_among_messages(void *arg) {
    static const uint64_t first[] = {101, 1, 2, 102, 103, 104, 105, 0};
    static const uint64_t last[] = {101, 102, 103, 4, 104, 5, 105, 0};
    weft_mailbox_policy policy = *(weft_mailbox_policy *)arg;
    const uint64_t *expected = policy == WEFT_MAILBOX_DROP_OLDEST ? last : first;
    for (int looks = 0; looks < 3; looks++) {
        uint64_t nothing = 77;
        weft_message m;
        complete(101);
        fill(1, 3);
        if (looks == 1) /* what is dropped has been looked at, or not */
            CHECK_EQ(weft_receive(&m, is_tag, &nothing, WEFT_NOW), -ETIMEDOUT);
        complete(102);
        fill(3, 4);
        complete(103);
        if (looks == 2)
            CHECK_EQ(weft_receive(&m, is_tag, &nothing, WEFT_NOW), -ETIMEDOUT);
        fill(4, 5);
        complete(104);
        fill(5, 6);
        complete(105);
        expect_tags(expected);
    }
    return 0;
}
API_TEST(process_order_events_in_full_mailbox, "W29 W30", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (weft_mailbox_policy policy = WEFT_MAILBOX_REFUSE; policy <= WEFT_MAILBOX_DROP_OLDEST; policy++) {
        weft_process_spec spec = of_fiber(events_among_messages, &policy);
        weft_task *task;
        spec.max_messages = 2;
        spec.policy = policy;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    fixture_end(rt);
}

/* Many events in front of a flood that drops the oldest: each message that is dropped costs the same. */
static int events_before_flood(void *arg) {
    int events = rounds(20000), messages = rounds(20000);
    (void)arg;
    for (int i = 0; i < events; i++)
        complete(101);
    for (int i = 0; i < messages; i++)
        REQUIRE_EQ(weft_try_send(NULL, weft_self(), 1, NULL, 0), 0);
    for (int i = 0; i < events; i++)
        expect(WEFT_MESSAGE_YIELD);
    for (int i = 0; i < 2; i++)
        expect(WEFT_MESSAGE);
    expect_none();
    return 0;
}
API_TEST(process_order_events_before_flood, "W29 W30", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = of_fiber(events_before_flood, NULL);
    weft_task *task;
    spec.max_messages = 2;
    spec.policy = WEFT_MAILBOX_DROP_OLDEST;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* The runtime's stop is no event of a producer: it is read before the messages, however many there are. */
static atomic_bool filled;
static _Atomic weft_pid youngest; /* told after the others, since it is the youngest */
static int stopped_when_full(void *arg) {
    (void)arg;
    fill(1, 1000);
    atomic_store(&filled, true);
    weft_message m;
    uint64_t nothing = 0;
    REQUIRE_EQ(weft_receive(&m, is_tag, &nothing, WEFT_NEVER), 0); /* a CANCEL has no tag */
    CHECK_EQ(m.error, -ESHUTDOWN);
    CHECK_EQ(expect(WEFT_MESSAGE).tag, 1);
    return 0;
}
static int stopped_at_once(void *arg) {
    (void)arg;
    fill(1, 1000);
    atomic_store(&filled, true);
    weft_message m;
    while (!atomic_load(&youngest) || weft_process_is_alive(NULL, atomic_load(&youngest)))
        weft_yield();
    REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
    CHECK_EQ(m.type, WEFT_MESSAGE_CANCEL);
    return 0;
}
API_TEST(process_order_stop_comes_first, "W35", .workers = {1, 2}) {
    for (uint32_t bound = 0; bound <= 10; bound += 10) {
        weft_runtime *rt = fixture_begin_patient();
        weft_process_spec spec;
        weft_pid pid;
        atomic_store(&youngest, 0);
        static const weft_fiber_fn fns[] = {stopped_when_full, stopped_at_once};
        for (int i = 0; i < 2; i++) {
            spec = of_fiber(fns[i], NULL);
            spec.max_messages = bound;
            spec.policy = i ? WEFT_MAILBOX_DROP_OLDEST : WEFT_MAILBOX_REFUSE;
            if (bound && i)
                continue; /* the oldest of it have gone */
            atomic_store(&filled, false);
            REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, NULL), 0);
            REQUIRE_EVENTUALLY(atomic_load(&filled));
        }
        spec = of_fiber(sit, NULL);
        REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, NULL), 0);
        atomic_store(&youngest, pid);
        CHECK_EQ(weft_process_stop_all(rt, fixture_soon(), NULL, 0), 0);
        fixture_end(rt);
    }
}
