/* process.c - processes when memory runs out: what is refused is refused in order, and who was linked or monitored is told all the same. */
#include <weft/command.h>

#include "sweep.h"

static atomic_uint opened, closed, released;

static int open_it(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)state, (void)self, (void)method, (void)input, (void)size;
    atomic_fetch_add(&opened, 1);
    return 0;
}
static int step(void *state, const weft_message *events, size_t count, weft_step *out) {
    int *stage = state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            out->status = WEFT_STEP_DONE;
    if (out->status != WEFT_STEP_DONE && !(*stage)++)
        CHECK(sweep_is_clean(weft_yield_command(out, 1, 1, NULL, 0))); /* unknown */
    return 0;
}
static void close_it(void *state) {
    (void)state;
    atomic_fetch_add(&closed, 1);
}
static const weft_process_class class_ = {
    .size = sizeof class_, .state_size = sizeof(int), .init = open_it, .step = step, .close = close_it};

static void release(void *data) {
    (void)data;
    atomic_fetch_add(&released, 1);
}

static atomic_uint arguments, taken;
static void count_release(void *arg) { atomic_fetch_add((atomic_uint *)arg, 1); }

/* Ends at once. */
static int child(void *arg) {
    (void)arg;
    return -EIO;
}

/* Spawns, sends, monitors, asks: each may fail, but what succeeded is kept. */
static int work(void *arg) {
    weft_message m;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    uint64_t monitor;
    char large[300] = {0};
    static int there;
    unsigned expected = 0;
    (void)arg;
    spec.fn = child;
    spec.name = "child";
    spec.arg = &arguments;
    spec.release = count_release;
    int error = weft_process_spawn_monitored(&spec, &pid, &monitor);
    CHECK(sweep_is_clean(error));
    expected += !error;
    REQUIRE_EQ(weft_trap_exit(true), 0);
    atomic_store(&taken, !error);
    error = weft_process_spawn_linked(&spec, &pid);
    CHECK(sweep_is_clean(error));
    expected += !error;
    atomic_fetch_add(&taken, !error);
    error = weft_send(NULL, weft_self(), 1, large, sizeof large);
    CHECK(sweep_is_clean(error));
    expected += !error;
    error = weft_send_ref(NULL, weft_self(), 1, &there, sizeof there, release);
    CHECK(sweep_is_clean(error));
    expected += !error;
    unsigned references = !error;
    CHECK(sweep_is_clean(weft_register(NULL, "worker", weft_self())));
    CHECK(sweep_is_clean(weft_group_join(NULL, "workers", weft_self())));
    error = weft_publish(NULL, "workers", 2, NULL, 0);
    CHECK(error == 0 || error == 1 || error == -ENOMEM);
    expected += error == 1;
    for (; expected; expected--) /* each comes, though there may be no memory by now */
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, fixture_soon()), 0);
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(atomic_load(&released), references);
    error = weft_ask(12345, NULL, 0, &m, WEFT_NOW);
    CHECK(error == -ESRCH || error == -ENOMEM);
    return 0;
}

static void scenario(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task = NULL;
    weft_pid pid = 7;
    atomic_store(&opened, 0);
    atomic_store(&closed, 0);
    atomic_store(&released, 0);
    atomic_store(&arguments, 0);
    atomic_store(&taken, 0);
    spec.class_ = &class_;
    spec.registered = "one";
    spec.name = "the one";
    int error = weft_process_spawn(rt, &spec, &pid, NULL);
    CHECK(sweep_is_clean(error));
    CHECK_EQ(weft_process_count(rt), error ? 0 : 1);
    if (error)
        CHECK_EQ(pid, 7);
    spec = (weft_process_spec)WEFT_PROCESS_SPEC_INIT;
    spec.fn = work;
    error = weft_process_spawn(rt, &spec, &pid, &task);
    CHECK(sweep_is_clean(error));
    if (!error)
        CHECK(sweep_is_clean(fixture_finish(task).status)); /* no memory for its stack */
    /* Without memory for the message that asks it to end, the class is ended by force. */
    error = weft_runtime_stop(rt, weft_after(wefti_fault_count() ? 50000000 : harness_patience()));
    CHECK(error == 0 || error == -ECANCELED);
    CHECK_EQ(atomic_load(&opened), atomic_load(&closed));
    CHECK_EQ(atomic_load(&arguments), atomic_load(&taken)); /* those of spawns that failed are their callers' */
    CHECK_EQ(weft_process_count(rt), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

TEST(process_out_of_memory, "W4 W6 W30 W36", .timeout = 120) { sweep(scenario); }

/* -- A stop of all processes that fails for lack of memory may be repeated. */

static int wait_for_cancel(void *arg) {
    weft_message m;
    (void)arg;
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0)
        if (m.type == WEFT_MESSAGE_CANCEL)
            return 0;
    return -ECANCELED;
}
static void stop_scenario(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    for (int i = 0; i < 3; i++)
        CHECK(sweep_is_clean(weft_process_go(rt, wait_for_cancel, NULL, NULL)));
    int result = -ENOMEM;
    for (int i = 0; i < 2 && result < 0; i++) { /* the first may have failed at one allocation, which the second gets */
        result = weft_process_stop_all(rt, weft_after(50000000), NULL, 0);
        CHECK(result >= 0 || sweep_is_clean(result));
    }
    if (result >= 0)
        CHECK_EQ(weft_process_count(rt), 0);
    int stopped = weft_runtime_stop(rt, weft_after(result < 0 ? 50000000 : harness_patience()));
    CHECK(stopped == 0 || (stopped == -ECANCELED && result < 0));
    CHECK_EQ(weft_process_count(rt), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}
TEST(process_stop_all_out_of_memory, "W36", .timeout = 120) { sweep(stop_scenario); }

/* -- Commands that wait: each that was accepted completes, though there may be no memory by now. */

static weft_chan *chan;
struct asked {
    int stage, expected;
};
static int ask(void *state, const weft_message *events, size_t count, weft_step *out) {
    struct asked *asked = state;
    struct {
        weft_command_chan chan;
        uint64_t value[8];
    } payload = {{chan, 64, WEFT_NEVER}, {0}};
    weft_command_timer timer = {weft_after(1000000)};
    for (size_t i = 0; i < count; i++) {
        if (events[i].type != WEFT_MESSAGE_YIELD)
            return -ECANCELED; /* asked to end: a receiver waits for a value that could not be sent */
        CHECK(sweep_is_clean(events[i].error) || events[i].error == -ECANCELED); /* its time was over before it ran */
        asked->expected--;
    }
    out->status = WEFT_STEP_YIELD;
    if (asked->stage++ == 0) {
        asked->expected += weft_yield_command(out, WEFT_COMMAND_TIMER, 1, &timer, sizeof timer) == 0;
        asked->expected += weft_yield_command(out, WEFT_COMMAND_CHAN_SEND, 2, &payload, sizeof payload) == 0;
        asked->expected += weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 3, &payload, sizeof payload.chan) == 0;
        asked->expected += weft_yield_command(out, WEFT_COMMAND_CLOCK, 4, NULL, 0) == 0;
    }
    if (!asked->expected)
        out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class asking = {.size = sizeof asking, .state_size = sizeof(struct asked), .step = ask};

static void commands(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    int error = weft_chan_create(64, 1, &chan);
    CHECK(sweep_is_clean(error));
    spec.class_ = &asking;
    if (!error && (error = weft_process_spawn(rt, &spec, NULL, &task)) == 0)
        weft_task_drop(task);
    CHECK(sweep_is_clean(error));
    error = weft_runtime_stop(rt, weft_after(wefti_fault_count() ? 50000000 : harness_patience()));
    CHECK(error == 0 || error == -ECANCELED);
    CHECK_EQ(weft_process_count(rt), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    weft_chan_drop(chan);
    chan = NULL;
}

TEST(process_commands_out_of_memory, "W28 W39", .timeout = 120) { sweep(commands); }

/* -- Commands that are done at once: what fails has done nothing. */

static atomic_uint begun;
static int begin(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    atomic_fetch_add(&begun, 1);
    out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class beginning = {.size = sizeof beginning, .step = begin};
static struct {
    int expected, received, spawned, others;
    int many; /* commands: with as many as there are nodes at hand, the first that is done needs another */
} told;
static int ask_at_once(void *state, const weft_message *events, size_t count, weft_step *out) {
    int *stage = state;
    weft_command_chan receive = {chan, sizeof(int), WEFT_NOW};
    weft_command_spawn spawn = {WEFT_PROCESS_SPEC_INIT, false, false};
    spawn.spec.class_ = &beginning;
    for (size_t i = 0; i < count; i++) {
        if (events[i].type != WEFT_MESSAGE_YIELD)
            continue; /* asked to end: soon it does */
        CHECK(sweep_is_clean(events[i].error));
        told.expected--;
        *(events[i].tag == 1 ? &told.received : events[i].tag == 2 ? &told.spawned : &told.others) += !events[i].error;
    }
    if ((*stage)++ == 0) {
        told.expected += weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 1, &receive, sizeof receive) == 0;
        told.expected += weft_yield_command(out, WEFT_COMMAND_SPAWN, 2, &spawn, sizeof spawn) == 0;
        for (int i = 2; i < told.many; i++)
            told.expected += weft_yield_command(out, WEFT_COMMAND_CLOCK, 3, NULL, 0) == 0;
    }
    out->status = told.expected ? WEFT_STEP_YIELD : WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class at_once = {.size = sizeof at_once, .state_size = sizeof(int), .step = ask_at_once};

static void commands_at_once(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    int value = 7, error = weft_chan_create(sizeof value, 1, &chan);
    CHECK(sweep_is_clean(error));
    spec.class_ = &at_once;
    told.expected = told.received = told.spawned = 0;
    atomic_store(&begun, 0);
    if (!error) {
        REQUIRE_EQ(weft_chan_send(chan, &value, WEFT_NOW), 0);
        CHECK(sweep_is_clean(weft_process_spawn(rt, &spec, NULL, NULL)));
    }
    error = weft_runtime_stop(rt, weft_after(harness_patience()));
    CHECK(error == 0 || error == -ECANCELED);
    if (chan) {
        CHECK_EQ(told.expected, 0);
        CHECK_EQ(told.received, weft_chan_length(chan) == 0); /* it has the value, or the channel */
        int there = (int)atomic_load(&begun);
        CHECK_EQ(told.spawned, there);
    }
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    weft_chan_drop(chan);
    chan = NULL;
}

TEST(process_commands_at_once_out_of_memory, "W28 W39", .timeout = 120) {
    for (told.many = 32680; told.many <= 32725; told.many += 3) /* a chunk of nodes has about as many */
        sweep(commands_at_once);
}

/* -- A command that waits, when the last node has gone to a message: there is none for the record of its helper.  A timer; a
 * fiber, which may lack memory for its job before. */

static struct {
    bool fiber, has_job;
    unsigned messages;
    int error;
} last;

/* Nothing else is to fail: what it allocates before the record is there. */
static void ask_for_helper(weft_step *out, weft_deadline until) {
    weft_command_chan receive = {chan, sizeof(int), until};
    weft_command_timer timer = {until};
    if (last.fiber)
        REQUIRE_EQ(weft_yield_command(out, WEFT_COMMAND_CHAN_RECV, 1, &receive, sizeof receive), 0);
    else
        REQUIRE_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, 1, &timer, sizeof timer), 0);
}

static int ask_when_full(void *state, const weft_message *events, size_t count, weft_step *out) {
    int *stage = state;
    for (size_t i = 0; i < count; i++) {
        wefti_fault_set(-1, false);
        if (events[i].type == WEFT_MESSAGE_YIELD)
            last.error = events[i].error;
        else
            last.messages--;
    }
    out->status = WEFT_STEP_CONTINUE;
    if (*stage == 0) { /* so that tasks and stacks are there */
        ask_for_helper(out, weft_after(1));
        ++*stage;
    } else if (*stage == 1 && last.error != 1 && !count) { /* what came has been given back */
        last.error = 1;
        ask_for_helper(out, WEFT_NEVER);
        for (wefti_fault_set(0, true); weft_send(NULL, weft_self(), 0, NULL, 0) == 0;)
            last.messages++;
        wefti_fault_set(last.has_job, true);
        ++*stage;
    } else if (*stage == 2 && last.error != 1 && !last.messages) {
        out->status = WEFT_STEP_DONE;
    }
    return 0;
}
static const weft_process_class full = {.size = sizeof full, .state_size = sizeof(int), .step = ask_when_full};

TEST(process_helper_without_a_node, "W28 W39") {
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1; /* whose nodes are all that there are */
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &full;
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &chan), 0);
    for (int i = 0; i < 3; i++) {
        weft_runtime *rt = fixture_begin(&config);
        weft_task *task;
        last.fiber = i > 0;
        last.has_job = i > 1;
        last.error = 1;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
        CHECK_EQ(last.error, -ENOMEM);
        fixture_end(rt);
    }
    CHECK_EQ(weft_chan_destroy(chan), 0);
}

/* -- Asked to end without memory: one that was asked before, and to which nothing has come since, needs none; nor does one that has ended. */

static weft_pid unread, unasked;
static atomic_bool asked; /* until then they look at nothing */
static int ask_without_memory(void *arg) {
    unsigned messages = 0;
    weft_message m;
    CHECK_EQ(weft_process_cancel(NULL, unread), 0);
    for (wefti_fault_set(0, true); weft_send(NULL, weft_self(), 0, NULL, 0) == 0;)
        messages++; /* the last node goes */
    CHECK_EQ(weft_process_cancel(NULL, unread), 0);
    CHECK_EQ(weft_process_cancel(NULL, unasked), -ENOMEM);
    CHECK_EQ(weft_process_cancel(NULL, WEFT_PID_NONE), -ESRCH);
    wefti_fault_set(-1, false);
    CHECK_GT(messages, 0);
    CHECK_EQ(weft_process_cancel(NULL, unasked), 0); /* that one comes */
    CHECK_EQ(weft_send(NULL, unread, 1, NULL, 0), 0);
    CHECK_EQ(weft_send(NULL, unasked, 1, NULL, 0), 0);
    atomic_store(&asked, true);
    for (; messages; messages--)
        REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), 0);
    return (void)arg, 0;
}
static bool is_message(const weft_message *m, void *arg) { return (void)arg, m->type == WEFT_MESSAGE; }
static int read_one_cancel(void *arg) {
    weft_message m;
    while (!atomic_load(&asked))
        weft_yield();
    REQUIRE_EQ(weft_receive(&m, is_message, NULL, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_receive(&m, NULL, NULL, WEFT_NEVER), 0);
    CHECK_EQ(m.type, WEFT_MESSAGE_CANCEL);
    CHECK_EQ(weft_receive(&m, NULL, NULL, WEFT_NOW), -ETIMEDOUT);
    return (void)arg, 0;
}

TEST(process_asked_without_memory, "W35") {
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1; /* whose nodes are all that there are */
    weft_runtime *rt = fixture_begin(&config);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task[3];
    spec.fn = read_one_cancel;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &unread, &task[0]), 0);
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &unasked, &task[1]), 0);
    spec.fn = ask_without_memory;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task[2]), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* -- A supervisor, and children that need each other. */

static int end_at_once(void *arg) { return (void)arg, 0; }

static int supervise(void *arg) {
    static const char *const first[] = {"first", NULL};
    weft_process_child children[2] = {WEFT_PROCESS_CHILD("second", end_at_once, NULL),
                                      WEFT_PROCESS_CHILD("first", end_at_once, NULL)};
    children[0].needs = first;
    children[0].restart = children[1].restart = WEFT_RESTART_TEMPORARY;
    CHECK(sweep_is_clean(weft_process_supervise(NULL, children, 2)));
    return (void)arg, 0;
}

static void supervised(void) {
    weft_runtime *rt = sweep_begin(NULL);
    if (!rt)
        return;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.fn = supervise;
    int error = weft_process_spawn(rt, &spec, NULL, &task);
    CHECK(sweep_is_clean(error));
    if (!error)
        CHECK(sweep_is_clean(fixture_finish(task).status)); /* no memory for its stack */
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    CHECK_EQ(weft_process_count(rt), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

TEST(process_supervisor_out_of_memory, "W6", .timeout = 120) { sweep(supervised); }
