/* process_command.c - the commands of classes: done at once, later, or not; and what a process does until they are. */
#include <fcntl.h>

#include "process.h"

enum { DO_NOW = 1, DO_LATER, DO_FAIL, DO_NOTHING_KNOWN, DO_OFTEN = 1000 };

static struct {
    pthread_mutex_t lock;
    weft_pid pid[64];
    uint64_t tag[64];
    unsigned count;
} later = {.lock = PTHREAD_MUTEX_INITIALIZER};
static unsigned later_count(void) {
    pthread_mutex_lock(&later.lock);
    unsigned count = later.count;
    pthread_mutex_unlock(&later.lock);
    return count;
}

static int do_now(const weft_command *c, void *arg) {
    CHECK_EQ(c->command, (unsigned)(uintptr_t)arg);
    CHECK_EQ(c->size, 4);
    CHECK_EQ(memcmp(c->data, "ping", 4), 0);
    CHECK_EQ(c->from, weft_self());
    CHECK_EQ(weft_command_complete(c->rt, c->from, c->tag, 0, "pong!", 5), 0);
    return 0;
}
static int do_later(const weft_command *c, void *arg) {
    (void)arg;
    pthread_mutex_lock(&later.lock);
    later.pid[later.count] = c->from;
    later.tag[later.count++] = c->tag;
    pthread_mutex_unlock(&later.lock);
    return 0;
}
static int do_fail(const weft_command *c, void *arg) {
    (void)c, (void)arg;
    return -ENXIO;
}

struct asker {
    int stage;
    uint64_t seen; /* bits of the tags that have completed */
};
static atomic_uint asker_stage, asker_messages, asker_steps;

static weft_runtime *begin_commands(void) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_command_register(rt, DO_NOW, do_now, (void *)DO_NOW), 0);
    REQUIRE_EQ(weft_command_register(rt, DO_LATER, do_later, NULL), 0);
    REQUIRE_EQ(weft_command_register(rt, DO_FAIL, do_fail, NULL), 0);
    REQUIRE_EQ(weft_command_register(rt, DO_OFTEN, do_now, (void *)DO_OFTEN), 0);
    REQUIRE_EQ(weft_command_register(rt, DO_OFTEN + 1, do_fail, NULL), 0);
    CHECK_EQ(weft_command_register(rt, DO_OFTEN, do_fail, NULL), -EEXIST);
    CHECK_EQ(weft_command_register(rt, DO_NOW, do_fail, NULL), -EEXIST);
    CHECK_EQ(weft_command_register(rt, 7, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_command_register(NULL, 7, do_fail, NULL), -EINVAL);
    return rt;
}

static int ask_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct asker *asker = raw;
    atomic_fetch_add(&asker_steps, 1);
    out->status = WEFT_STEP_YIELD;
    switch (asker->stage++) {
    case 0:
        CHECK_EQ(count, 0);
        CHECK_EQ(weft_yield_command(out, DO_NOW, 11, "ping", 4), 0);
        break;
    case 1: /* W26: completed in the handler */
        REQUIRE_EQ(count, 1);
        CHECK_EQ(events[0].type, WEFT_MESSAGE_YIELD);
        CHECK_EQ(events[0].tag, 11);
        CHECK_EQ(events[0].error, 0);
        CHECK_EQ(events[0].from, WEFT_PID_NONE);
        CHECK_EQ(events[0].size, 5);
        CHECK_EQ(memcmp(events[0].data, "pong!", 5), 0);
        CHECK_EQ(weft_yield_command(out, DO_FAIL, 12, NULL, 0), 0);
        CHECK_EQ(weft_yield_command(out, DO_NOTHING_KNOWN, 13, NULL, 0), 0);
        CHECK_EQ(weft_yield_command(out, DO_OFTEN + 1, 14, NULL, 0), 0);
        CHECK_EQ(weft_yield_command(out, DO_OFTEN + 2, 15, NULL, 0), 0);
        break;
    case 2: /* W39, in order since one thread completed them */
        REQUIRE_EQ(count, 4);
        for (unsigned i = 0; i < 4; i++) {
            CHECK_EQ(events[i].type, WEFT_MESSAGE_YIELD);
            CHECK_EQ(events[i].tag, 12 + i);
            CHECK_EQ(events[i].error, i % 2 ? -ENOSYS : -ENXIO);
        }
        for (uint64_t i = 0; i < 32; i++) /* W28 */
            CHECK_EQ(weft_yield_command(out, DO_LATER, i, NULL, 0), 0);
        break;
    default:
        CHECK_GT(count, 0);
        for (size_t i = 0; i < count; i++) {
            if (events[i].type == WEFT_MESSAGE) {
                atomic_fetch_add(&asker_messages, 1);
                continue;
            }
            CHECK_EQ(events[i].type, WEFT_MESSAGE_YIELD);
            REQUIRE_LT(events[i].tag, 32);
            CHECK(!(asker->seen >> events[i].tag & 1));
            CHECK_EQ(events[i].error, events[i].tag % 3 ? 0 : -EIO);
            CHECK_EQ(events[i].size, sizeof(uint64_t));
            CHECK_EQ(memcmp(events[i].data, &events[i].tag, sizeof(uint64_t)), 0);
            asker->seen |= UINT64_C(1) << events[i].tag;
        }
        if (asker->seen == UINT32_MAX)
            out->status = WEFT_STEP_DONE;
    }
    atomic_store(&asker_stage, (unsigned)asker->stage);
    return 0;
}

static const weft_process_class asking = {
    .size = sizeof asking, .name = "asking", .state_size = sizeof(struct asker), .step = ask_step};

static weft_runtime *commands_rt;
static void complete_some(unsigned index, void *arg) {
    (void)arg;
    for (unsigned i = index; i < 32; i += 4)
        CHECK_EQ(weft_command_complete(commands_rt, later.pid[31 - i], later.tag[31 - i],
                                       later.tag[31 - i] % 3 ? 0 : -EIO, &later.tag[31 - i], sizeof(uint64_t)),
                 0);
}

API_TEST(process_commands, "W5 W7 W22 W23 W25 W26 W28 W34 W38 W39", .workers = {1, 2, 4}) {
    weft_runtime *rt = commands_rt = begin_commands();
    weft_pid pid;
    weft_task *task;
    REQUIRE_EQ(spawn_class(rt, &asking, "any", 0, &pid, &task), 0);
    CHECK_EQ(weft_command_register(rt, 8, do_fail, NULL), -EBUSY);
    REQUIRE_EVENTUALLY(later_count() == 32 && strcmp(weft_task_state(task), "idle") == 0);
    /* W34: blocked, so messages wait with it. */
    unsigned made = atomic_load(&asker_steps);
    uint64_t polls = fixture_stats(rt).polls;
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_send(rt, pid, 1, NULL, 0), 0);
    CHECK_STR(weft_task_state(task), "idle");
    CHECK_EQ(fixture_stats(rt).polls, polls);
    CHECK_EQ(atomic_load(&asker_steps), made);
    int nowhere = open("/dev/null", O_WRONLY);
    CHECK_EQ(weft_dump(rt, nowhere), 0);
    close(nowhere);
    harness_threads(4, complete_some, NULL);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(atomic_load(&asker_messages), 10);
    /* W38: it has ended. */
    CHECK_EQ(weft_command_complete(rt, pid, 3, 0, NULL, 0), -ESRCH);
    weft_pid next = go_process(rt, sit, NULL); /* in its slot */
    CHECK_EQ(weft_command_complete(rt, pid, 3, 0, NULL, 0), -ESRCH);
    CHECK_NE(next, pid);
    fixture_end(rt);
}

/* The same, but messages wake it. */
static int impatient_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct asker *asker = raw;
    out->status = WEFT_STEP_YIELD;
    if (asker->stage++ == 0)
        return weft_yield_command(out, DO_LATER, 1, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        if (events[i].type == WEFT_MESSAGE) {
            CHECK_EQ(events[i].tag, 77);
            atomic_fetch_add(&asker_messages, 1);
        } else {
            CHECK_EQ(events[i].type, WEFT_MESSAGE_YIELD);
            out->status = WEFT_STEP_DONE;
        }
    }
    return 0;
}

API_TEST(process_blocked_woken_if_asked, "W34", .workers = {1, 4}) {
    weft_runtime *rt = begin_commands();
    weft_process_class class_ = asking;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    weft_task *task;
    class_.step = impatient_step;
    spec.class_ = &class_;
    spec.wake_blocked_on_message = true;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    REQUIRE_EVENTUALLY(later_count() == 1);
    for (unsigned i = 1; i <= 3; i++) {
        CHECK_EQ(weft_send(rt, pid, 77, NULL, 0), 0);
        REQUIRE_EVENTUALLY(atomic_load(&asker_messages) == i);
    }
    CHECK_EQ(later_count(), 1);
    CHECK_EQ(weft_command_complete(rt, pid, 1, 0, NULL, 0), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* Many commands, completed by threads while the process runs: none is lost, and the process is never left behind (W27). */
struct worker_state {
    uint64_t asked, done;
};
static atomic_bool completers_end;
static atomic_ulong completed;

static int work_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct worker_state *state = raw;
    uint64_t total = fixture_is_slow() ? 200 : 2000;
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(events[i].type, WEFT_MESSAGE_YIELD);
        state->done++;
    }
    if (state->done == total) {
        out->status = WEFT_STEP_DONE;
        return 0;
    }
    for (; state->asked < total && state->asked - state->done < 3; state->asked++)
        REQUIRE_EQ(weft_yield_command(out, DO_LATER, state->asked, NULL, 0), 0);
    out->status = WEFT_STEP_YIELD;
    return 0;
}

static void complete_all(unsigned index, void *arg) {
    (void)index;
    while (!atomic_load(&completers_end)) {
        weft_pid pid = 0;
        uint64_t tag = 0;
        pthread_mutex_lock(&later.lock);
        if (later.count) {
            pid = later.pid[--later.count];
            tag = later.tag[later.count];
        }
        pthread_mutex_unlock(&later.lock);
        if (pid) {
            REQUIRE_EQ(weft_command_complete(arg, pid, tag, 0, NULL, 0), 0);
            atomic_fetch_add(&completed, 1);
        } else {
            harness_nap();
        }
    }
}

static void *join_all(void *raw) {
    weft_task **task = raw;
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    atomic_store(&completers_end, true);
    return NULL;
}

API_TEST(process_completions_race_steps, "W25 W27 W28", .workers = {1, 2}) {
    weft_process_class class_ = asking;
    class_.state_size = sizeof(struct worker_state);
    class_.step = work_step;
    weft_runtime *rt = begin_commands();
    weft_task *task[4];
    pthread_t joiner;
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(spawn_class(rt, &class_, "any", 0, NULL, &task[i]), 0);
    REQUIRE_EQ(pthread_create(&joiner, NULL, join_all, task), 0);
    harness_threads(3, complete_all, rt);
    pthread_join(joiner, NULL);
    CHECK_EQ(atomic_load(&completed), fixture_is_slow() ? 800 : 8000);
    fixture_end(rt);
}

/* Commands of a step that ends the process are not dispatched. */
static int ask_and_end(void *raw, const weft_message *events, size_t count, weft_step *out) {
    (void)raw, (void)events, (void)count;
    REQUIRE_EQ(weft_yield_command(out, DO_LATER, 1, "a command", 9), 0);
    out->status = WEFT_STEP_DONE;
    return 0;
}
static int yield_nothing(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct asker *asker = raw;
    (void)events, (void)count;
    out->status = asker->stage++ < 20 ? WEFT_STEP_YIELD : WEFT_STEP_DONE;
    return 0;
}

API_TEST(process_commands_of_the_last_step, "W22", .workers = {1}) {
    weft_runtime *rt = begin_commands();
    weft_process_class class_ = asking;
    weft_task *task;
    class_.step = ask_and_end;
    REQUIRE_EQ(spawn_class(rt, &class_, "any", 0, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(later_count(), 0);
    class_.step = yield_nothing;
    REQUIRE_EQ(spawn_class(rt, &class_, "any", 0, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- After a command: it is idle, and what comes from a thread wakes it; it is not called for nothing. */

static atomic_uint calls;
static atomic_bool was_told;

static int ask_then_idle(void *state, const weft_message *events, size_t count, weft_step *out) {
    unsigned call = atomic_fetch_add(&calls, 1);
    (void)state;
    out->status = call ? WEFT_STEP_IDLE : WEFT_STEP_YIELD;
    if (call == 0)
        return weft_yield_command(out, WEFT_COMMAND_CLOCK, 1, NULL, 0);
    CHECK_EQ(count, 1);
    if (call == 1) { /* idle with one on its way */
        weft_command_timer timer = {weft_after(1000000)};
        CHECK_EQ(weft_yield_command(out, WEFT_COMMAND_TIMER, 2, &timer, sizeof timer), 0);
    } else if (call == 2) {
        CHECK_EQ(events[0].tag, 2);
        atomic_store(&was_told, true);
    } else {
        CHECK_EQ(events[0].tag, 3);
        out->status = WEFT_STEP_DONE;
    }
    return 0;
}
static const weft_process_class idling = {.size = sizeof idling, .step = ask_then_idle};

API_TEST(process_idle_after_command, "W26 W31 W33", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    weft_pid pid;
    REQUIRE_EQ(spawn_class(rt, &idling, NULL, 0, &pid, &task), 0);
    REQUIRE_EVENTUALLY(atomic_load(&was_told));
    REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0);
    CHECK_EQ(weft_send(rt, pid, 3, NULL, 0), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(atomic_load(&calls), 4);
    fixture_end(rt);
}

/* The next owner of the slot knows nothing of that: it has its first step, and nothing on its way. */
static int ask_and_idle(void *state, const weft_message *events, size_t count, weft_step *out) {
    weft_command_timer timer = {WEFT_NEVER - 1};
    (void)state, (void)events, (void)count;
    atomic_fetch_add(&calls, 1);
    out->status = WEFT_STEP_IDLE;
    return weft_yield_command(out, WEFT_COMMAND_TIMER, 1, &timer, sizeof timer);
}
static const weft_process_class leaving = {.size = sizeof leaving, .step = ask_and_idle};

static int yield_for_nothing(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    out->status = atomic_fetch_add(&calls, 1) == 2 ? WEFT_STEP_DONE : WEFT_STEP_YIELD;
    return 0;
}
static const weft_process_class yielding = {.size = sizeof yielding, .step = yield_for_nothing};

static int one_after_the_other(void *arg) {
    weft_task *task;
    weft_pid pid;
    (void)arg;
    REQUIRE_EQ(spawn_class(NULL, &leaving, NULL, 0, &pid, &task), 0);
    UNTIL(atomic_load(&calls) == 1);
    UNTIL(strcmp(weft_task_state(task), "idle") == 0);
    CHECK_EQ(weft_process_exit(NULL, pid, -EIO), 0);
    UNTIL(weft_task_is_done(task));
    weft_task_drop(task);
    REQUIRE_EQ(spawn_class(NULL, &yielding, NULL, 0, &pid, &task), 0);
    UNTIL(weft_task_is_done(task));
    weft_task_drop(task);
    CHECK_EQ(atomic_load(&calls), 3);
    return 0;
}

API_TEST(process_slot_after_command, "W38", .workers = {1}) { in_process(one_after_the_other, NULL); }
