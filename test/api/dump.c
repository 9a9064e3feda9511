/* dump.c - weft_dump says what every task does, and nothing a name can do forges a line. */
#include "dump_fixture.h"

static unsigned lines(void) {
    unsigned count = 0;
    for (const char *c = text; *c; c++)
        count += *c == '\n';
    return count;
}

/* Lines before the tasks: the runtime, the reactor if there is one, the workers. */
static unsigned head(weft_runtime *rt) { return 1 + fixture_on("reactor") + weft_runtime_workers(rt); }

static weft_task *go_named(weft_runtime *rt, weft_poll_fn poll, void *state, const char *name) {
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task = NULL;
    spec.poll = poll;
    spec.state = state;
    spec.name = name;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    return task;
}

static weft_poll never_woken(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_PENDING;
}

static weft_poll wait_for_rain(weft_task *self, void *state) {
    struct gate *gate = state;
    weft_task_waits_for(self, "rain");
    if (!gate_pass(gate, self))
        return WEFT_PENDING;
    weft_task_waits_for(self, NULL);
    return weft_done(self, 0, NULL);
}

struct careful {
    struct gate gate;
    bool shielded;
};

/* Cancelled under its shield, it ends when the gate is opened. */
static weft_poll be_careful(weft_task *self, void *state) {
    struct careful *careful = state;
    if (!careful->shielded)
        REQUIRE_EQ(weft_shield(self), 0);
    careful->shielded = true;
    if (gate_pass(&careful->gate, self))
        REQUIRE_EQ(weft_unshield(self), 0);
    return WEFT_PENDING;
}

static weft_poll join_other(weft_task *self, void *state) {
    return weft_join_poll(state, self, NULL) == -EAGAIN ? WEFT_PENDING : weft_done(self, 0, NULL);
}

static void until_idle(weft_task *task) { REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0); }

API_TEST(dump_tells, "", .workers = {2}) {
    static struct gate gate = GATE_INIT, rain = GATE_INIT;
    static struct careful careful = {.gate = GATE_INIT};
    char expected[160];
    weft_runtime *rt = fixture_begin_patient();
    dump(rt);
    snprintf(expected, sizeof expected, "scheduler %s, %u workers", harness_sched(), weft_runtime_workers(rt));
    CHECK_CONTAINS(text, expected);
    CHECK_CONTAINS(text, "0 live");
    CHECK_CONTAINS(text, "worker 0:");
    CHECK_EQ(lines(), head(rt));

    weft_task *task[6] = {
        go_named(rt, never_woken, NULL, "hopeless"),  go_named(rt, fixture_wait_gate, &gate, "patient"),
        go_named(rt, wait_for_rain, &rain, "farmer"), go_named(rt, be_careful, &careful, "careful"),
        go_named(rt, never_woken, NULL, NULL),        NULL,
    };
    for (int i = 0; i < 5; i++)
        until_idle(task[i]);
    task[5] = go_named(rt, join_other, task[1], "waiter");
    until_idle(task[5]);
    weft_task_cancel(task[3]);
    dump(rt);
    CHECK_EQ(lines(), head(rt) + 6);
    CHECK_CONTAINS(text, "6 live");
    CHECK_CONTAINS(text, "\"hopeless\" idle, waits for a waker that nobody holds");
    CHECK_CONTAINS(text, "\"patient\" idle joined, waits for a waker for ");
    CHECK_CONTAINS(text, "\"farmer\" idle, waits for rain for ");
    CHECK_CONTAINS(text, "\"careful\" idle cancelled shielded");
    CHECK_CONTAINS(text, "\"task\" idle");
    CHECK_CONTAINS(text, "\"waiter\" idle, waits for task \"patient\" for ");

    gate_open(&gate);
    gate_open(&rain);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 3);
    dump(rt);
    CHECK_EQ(lines(), head(rt) + 3); /* who has ended is not listed, held or not */
    CHECK(!strstr(text, "patient"));
    gate_open(&careful.gate);
    for (int i = 0; i < 6; i++) {
        weft_task_cancel(task[i]);
        fixture_finish(task[i]);
    }
    fixture_end(rt);
}

/* Of a fiber also for how long, and in whose nurseries. */
static int wait_in_vain(void *arg) { return weft_event_wait(arg, WEFT_NEVER); }

static int open_inner(void *event) {
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    int status;
    config.name = "queries";
    spec.fn = wait_in_vain;
    spec.arg = event;
    spec.name = "query\n";
    WEFT_NURSERY_WITH(n, &status, &config) REQUIRE_EQ(weft_nursery_spawn(&n, &spec, NULL), 0);
    return status;
}

/* So many nurseries, one in the other. */
struct deep {
    weft_event *event;
    int depth;
};

static int open_deep(void *arg) {
    struct deep *deep = arg;
    int status;
    if (deep->depth-- == 0)
        return open_inner(deep->event);
    WEFT_NURSERY(n, &status) weft_nursery_go(&n, open_deep, arg, NULL);
    return status;
}

API_TEST(dump_nursery_path, "", .workers = {2}) {
    static weft_event event = WEFT_EVENT_INIT;
    static struct deep deep = {&event, 3};
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_runtime *rt = fixture_begin_patient();
    weft_task *outer, *below;
    spec.fn = open_inner;
    spec.arg = &event;
    spec.name = "database";
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &outer), 0);
    REQUIRE_EVENTUALLY(strstr(dump(rt), "\"query?\" idle, waits for an event for ") &&
                       strstr(text, "\"database\" idle, waits for queries for "));
    CHECK_CONTAINS(text, " s, in \"database\" > \"queries\"\n");
    spec.fn = open_deep;
    spec.arg = &deep;
    spec.name = "deep";
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &below), 0);
    const char *shown =
        ", in \"deep\" > \"nursery\" > \"fiber\" > \"nursery\" > \"fiber\" > \"nursery\" > \"fiber\" > \"queries\"\n";
    REQUIRE_EVENTUALLY(strstr(dump(rt), shown));
    CHECK_CONTAINS(text, ", in \"deep\" > \"nursery\"\n");
    weft_event_set(&event);
    fixture_finish(outer);
    fixture_finish(below);
    weft_event_clear(&event);
    deep.depth = 9; /* more than is shown: the innermost four */
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &below), 0);
    shown = ", in ... > \"fiber\" > \"nursery\" > \"fiber\" > \"nursery\" > \"fiber\" > \"nursery\" > \"fiber\" > "
            "\"queries\"\n";
    REQUIRE_EVENTUALLY(strstr(dump(rt), shown));
    weft_event_set(&event);
    fixture_finish(below);
    weft_event_clear(&event);
    fixture_end(rt);
}

/* Who has been cancelled, and waits on since his child has a shield, says so. */
static int wait_shielded(void *event) {
    REQUIRE_EQ(weft_shield(weft_task_self()), 0);
    int error = weft_event_wait(event, WEFT_NEVER);
    weft_unshield(weft_task_self());
    return error;
}

static int wait_firmly(void *event) {
    int status;
    WEFT_NURSERY(n, &status) REQUIRE_EQ(weft_nursery_go(&n, wait_shielded, event, NULL), 0);
    return status;
}

API_TEST(dump_wait_always, "", .workers = {2}) {
    static weft_event event = WEFT_EVENT_INIT;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    spec.fn = wait_firmly;
    spec.arg = &event;
    spec.name = "firm";
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    REQUIRE_EVENTUALLY(strstr(dump(rt), " shielded, waits for an event for "));
    weft_task_cancel(task);
    REQUIRE_EVENTUALLY(strstr(dump(rt), "\"firm\" idle cancelled shielded, waits for a nursery for "));
    weft_event_set(&event);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

/* Virtual time: it stands still while nothing but this thread moves. */
static int sleep_then_wait(void *event) {
    REQUIRE_EQ(weft_sleep(INT64_C(1500000000)), 0);
    return weft_event_wait(event, WEFT_NEVER);
}

API_TEST(dump_since_virtual, "", .sched = "sim") {
    static weft_event event = WEFT_EVENT_INIT;
    weft_task *early, *late;
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_fiber_go(rt, wait_in_vain, &event, &early), 0);
    weft_task *polled = go_named(rt, never_woken, NULL, "polled");
    until_idle(polled);
    REQUIRE_EQ(weft_fiber_go(rt, sleep_then_wait, &event, &late), 0);
    /* Time moves once, by 1.5 s, perhaps while a dump is being written: all claims are about one that came after it. */
    REQUIRE_EVENTUALLY(strstr(dump(rt), "waits for an event for 1.50") &&
                       strstr(text, "waits for an event for 0.000 s") &&
                       (strstr(text, "\"polled\" idle, waits for a waker that nobody holds for 1.49") ||
                        strstr(text, "\"polled\" idle, waits for a waker that nobody holds for 1.50")));
    weft_task_cancel(polled);
    fixture_finish(polled);
    weft_event_set(&event);
    fixture_finish(early);
    fixture_finish(late);
    weft_event_clear(&event);
    fixture_end(rt);
}

/* Running and scheduled ones too, and what the queue holds. */
API_TEST(dump_busy, "", .workers = {1}) {
    struct blocker blocker = {0};
    atomic_uint ran = 0;
    weft_runtime *rt = fixture_begin_patient();
    weft_task *busy = go_named(rt, fixture_block, &blocker, "busy");
    REQUIRE_EVENTUALLY(blocker.entered);
    weft_task *queued = go_named(rt, fixture_count, &ran, "queued");
    dump(rt);
    CHECK_CONTAINS(text, "\"busy\" running");
    CHECK_CONTAINS(text, "\"queued\" scheduled");
    CHECK_CONTAINS(text, "1 in the global queue");
    blocker.release = true;
    fixture_finish(busy);
    fixture_finish(queued);
    fixture_end(rt);
}

/* Control bytes in names would forge lines or move a terminal's cursor. */
API_TEST(dump_escapes, "") {
    static struct gate gate = GATE_INIT;
    char name[300] = "evil\n  task 0x0 \"forged\" running\r\x1b[2J\x7f\t\x01\x80\xff";
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = go_named(rt, fixture_wait_gate, &gate, name);
    until_idle(task);
    dump(rt);
    CHECK_EQ(lines(), head(rt) + 1);
    for (const char *c = text; *c; c++)
        REQUIRE(*c == '\n' || (*c >= ' ' && *c < 127));
    CHECK_CONTAINS(text, "evil?  task 0x0");
    gate_open(&gate);
    fixture_finish(task);
    memset(name, 'n', sizeof name - 1); /* far longer than a line */
    gate.open = false;
    task = go_named(rt, fixture_wait_gate, &gate, name);
    until_idle(task);
    dump(rt);
    CHECK_EQ(lines(), head(rt) + 1);
    CHECK_CONTAINS(text, "nnnnnnnnnn");
    gate_open(&gate);
    fixture_finish(task);
    fixture_end(rt);
}

static weft_poll wait_evil(weft_task *self, void *state) {
    weft_task_waits_for(self, "a\nb\x1b[31m");
    return fixture_wait_gate(self, state);
}

API_TEST(dump_escapes_reasons, "") {
    static struct gate gate = GATE_INIT;
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = go_named(rt, wait_evil, &gate, "x");
    until_idle(task);
    CHECK_CONTAINS(dump(rt), "waits for a?b?[31m for ");
    CHECK_EQ(lines(), head(rt) + 1);
    gate_open(&gate);
    fixture_finish(task);
    fixture_end(rt);
}

/* More reasons than the table holds: the rest is waited for without a name. */
struct reasons {
    char (*reason)[8];
    unsigned next;
};

static weft_poll many_reasons(weft_task *self, void *state) {
    struct reasons *r = state;
    for (; r->next < 400; r->next++) {
        weft_task_waits_for(self, r->reason[r->next]);
        if (r->next == 10 || r->next == 399) {
            r->next++;
            return WEFT_PENDING;
        }
    }
    return weft_done(self, 0, NULL);
}

API_TEST(dump_many_reasons, "") {
    static char reason[400][8];
    struct reasons reasons = {reason, 0};
    for (int i = 0; i < 400; i++)
        snprintf(reason[i], sizeof reason[i], "r%d", i);
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = go_named(rt, many_reasons, &reasons, "x");
    until_idle(task);
    CHECK_CONTAINS(dump(rt), "waits for r10 for ");
    weft_task_cancel(task);
    fixture_finish(task);
    reasons.next = 11;
    task = go_named(rt, many_reasons, &reasons, "y");
    until_idle(task);
    CHECK_CONTAINS(dump(rt), "\"y\" idle, waits for a waker that nobody holds");
    weft_task_cancel(task);
    fixture_finish(task);
    fixture_end(rt);
}

API_TEST(dump_errors, "") {
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_EQ(weft_dump(rt, -1), -EBADF);
    int pipes[2], full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK_EQ(weft_dump(rt, full), -ENOSPC);
    REQUIRE_EQ(pipe(pipes), 0);
    CHECK_EQ(weft_dump(rt, pipes[0]), -EBADF); /* the end for reading */
    close(full);
    close(pipes[0]);
    close(pipes[1]);
    fixture_end(rt);
}

/* At any time, from any thread. */
static atomic_bool over;

static void churn_or_dump(unsigned index, void *arg) {
    static atomic_uint ran;
    if (index) {
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        while (!over)
            REQUIRE_EQ(weft_dump(arg, fd), 0);
        close(fd);
        return;
    }
    for (int i = 0; i < (fixture_is_slow() ? 500 : 3000); i++) {
        static struct gate gate = GATE_INIT;
        weft_task *task = fixture_go(arg, i % 3 ? fixture_count : fixture_wait_gate, i % 3 ? (void *)&ran : &gate);
        if (i % 3 == 0)
            weft_task_cancel(task);
        fixture_finish(task);
        gate_abandon(&gate);
    }
    over = true;
}

API_TEST(dump_while_running, "B54", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    harness_threads(3, churn_or_dump, rt);
    fixture_end(rt);
}

/* Nurseries and their children come and go while they are listed. */
static int yield_once(void *arg) {
    (void)arg;
    return weft_yield();
}

static int open_and_close(void *depth) {
    int status;
    WEFT_NURSERY(outer, &status) {
        for (int i = 0; i < 4; i++)
            weft_nursery_go(&outer, depth ? open_and_close : yield_once, NULL, NULL);
        WEFT_NURSERY(inner, NULL) weft_nursery_go(&inner, yield_once, NULL, NULL);
    }
    return status;
}

API_TEST(dump_while_nursing, "", .workers = {2}) { dump_beside(open_and_close, "deep"); }

/* What passes between two calls of a driver is not waited for by who begins to wait in the next. */
API_TEST(dump_driven_since, "", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    weft_runtime *rt = fixture_begin(&config);
    weft_event event = WEFT_EVENT_INIT;
    weft_task *task;
    for (int64_t from = harness_clock(); harness_clock() < from + 50000000;)
        harness_nap();
    int64_t before = harness_clock();
    REQUIRE_EQ(weft_fiber_go(rt, wait_in_vain, &event, &task), 0);
    REQUIRE_EVENTUALLY(weft_drive(rt, 0) >= 0 && strstr(dump(rt), "waits for an event for "));
    int64_t after = harness_clock();
    double seconds = strtod(strstr(text, "waits for an event for ") + 23, NULL);
    CHECK_LE((int64_t)(seconds * 1e9), after - before);
    weft_event_set(&event);
    REQUIRE_EVENTUALLY(weft_drive(rt, 0) >= 0 && weft_task_is_done(task));
    weft_task_drop(task);
    fixture_end(rt);
}
