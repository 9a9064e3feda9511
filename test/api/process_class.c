/* process_class.c - processes that are classes: init, step and close, events, commands, upgrade. */
#include <fcntl.h>

#include "process.h"

/* -- What was called, in order. */

static pthread_mutex_t book_lock = PTHREAD_MUTEX_INITIALIZER;
static char book[4096];

static void note(const char *text) {
    pthread_mutex_lock(&book_lock);
    strncat(book, text, sizeof book - strlen(book) - 1);
    pthread_mutex_unlock(&book_lock);
}

struct state {
    weft_pid self;
    int steps;
    int want; /* steps, or messages */
    char method[8];
};

static atomic_uint inits, steps, closes, inside;

static int note_init(void *raw, weft_pid self, const char *method, const void *input, size_t size) {
    struct state *state = raw;
    CHECK_EQ(state->steps, 0);
    CHECK_EQ(state->want, 0);
    state->self = self;
    state->want = size == sizeof(int) ? *(const int *)input : 3;
    snprintf(state->method, sizeof state->method, "%s", method ? method : "-");
    atomic_fetch_add(&inits, 1);
    note("i");
    return state->want == -1 ? -EDOM : 0;
}

static int note_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct state *state = raw;
    (void)events;
    CHECK_EQ(atomic_fetch_add(&inside, 1), 0);
    CHECK_EQ(count, 0);
    CHECK_EQ(weft_self(), state->self);
    atomic_fetch_add(&steps, 1);
    note(state->method);
    atomic_fetch_sub(&inside, 1);
    if (++state->steps < state->want)
        return 0;
    if (state->want == 2)
        return -EILSEQ;
    out->status = WEFT_STEP_DONE;
    out->result = state->want == 4 ? -ERANGE : 0;
    return 0;
}

static void note_close(void *raw) {
    struct state *state = raw;
    CHECK_EQ(weft_self(), state->self);
    atomic_fetch_add(&closes, 1);
    note("c");
}

static const char *const methods[] = {"a", "b", NULL};
static const weft_process_class noting = {.size = sizeof noting,
                                          .name = "noting",
                                          .methods = methods,
                                          .state_size = sizeof(struct state),
                                          .init = note_init,
                                          .step = note_step,
                                          .close = note_close};

static int spawn_class(weft_runtime *rt, const weft_process_class *class_, const char *method, int input, weft_pid *pid,
                       weft_task **task) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = class_;
    spec.method = method;
    spec.input = &input;
    spec.input_size = sizeof input;
    return weft_process_spawn(rt, &spec, pid, task);
}

API_TEST(process_init_step_close, "W1 W2 W3 W5 W6 W10 W20 W22 W24", .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static const struct {
        const char *method;
        int want, status;
        const char *book;
    } cases[] = {{"a", 1, 0, "iac"},
                 {"b", 3, 0, "ibbbc"},
                 {"a", 2, -EILSEQ, "iaac"},
                 {"b", 4, -ERANGE, "ibbbbc"},
                 {"a", 100, 0, NULL}}; /* more than a poll makes */
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_pid pid = 7;
        weft_task *task;
        book[0] = 0;
        REQUIRE_EQ(spawn_class(rt, &noting, cases[i].method, cases[i].want, &pid, &task), 0);
        CHECK_NE(pid, 7);
        CHECK_EQ(fixture_finish(task).status, cases[i].status);
        CHECK(!weft_process_is_alive(rt, pid));
        CHECK_EQ(weft_send(rt, pid, 0, NULL, 0), -ESRCH);
        if (cases[i].book)
            CHECK_STR(book, cases[i].book);
    }
    CHECK_EQ(atomic_load(&inits), 5);
    CHECK_EQ(atomic_load(&closes), 5);
    CHECK_EQ(atomic_load(&steps), 110);
    CHECK_EQ(weft_process_count(rt), 0);
    fixture_end(rt);
}

static weft_pid init_pid;
static int leak_init(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)state, (void)method, (void)input, (void)size;
    init_pid = self;
    CHECK_EQ(weft_send(NULL, self, 1, NULL, 0), -EINVAL); /* no runtime here */
    return *(const int *)input;
}

API_TEST(process_wrong_method_refused, "W3 W4 W10", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pid pid = 7;
    weft_task *task = NULL;
    CHECK_EQ(spawn_class(rt, &noting, "c", 1, &pid, &task), -EINVAL);
    CHECK_EQ(spawn_class(rt, &noting, NULL, 1, &pid, &task), -EINVAL);
    CHECK_EQ(spawn_class(rt, &noting, "a", -1, &pid, &task), -EDOM);
    CHECK_EQ(pid, 7);
    CHECK_EQ(task, NULL);
    CHECK_STR(book, "i"); /* neither step nor close */
    CHECK_EQ(weft_process_count(rt), 0);

    weft_process_class other = noting;
    other.init = leak_init;
    int no = -EDOM;
    CHECK_EQ(spawn_class(rt, &other, "a", no, NULL, NULL), -EDOM);
    weft_pid leaked = init_pid;
    CHECK(!weft_process_is_alive(rt, leaked));
    CHECK_EQ(weft_send(rt, leaked, 1, NULL, 0), -ESRCH);
    CHECK_EQ(spawn_class(rt, &other, "a", 5, NULL, NULL), -EINVAL); /* neither 0 nor an error */
    /* The next process in that slot is another one. */
    weft_pid sitter = go_process(rt, sit, NULL);
    CHECK_NE(sitter, leaked);
    CHECK_NE(init_pid, leaked);
    CHECK_EQ(weft_send(rt, leaked, 1, NULL, 0), -ESRCH);
    CHECK_EQ(weft_send(rt, sitter, 1, NULL, 0), 0);

    other = noting;
    other.state_size = WEFT_PROCESS_STATE_MAX + 1;
    CHECK_EQ(spawn_class(rt, &other, "a", 1, NULL, NULL), -EINVAL);
    other = noting;
    other.size = 8;
    CHECK_EQ(spawn_class(rt, &other, "a", 1, NULL, NULL), -EINVAL);
    other = noting;
    other.step = NULL;
    CHECK_EQ(spawn_class(rt, &other, "a", 1, NULL, NULL), -EINVAL);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EINVAL);
    spec.class_ = &noting;
    spec.method = "a";
    spec.fn = sit;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EINVAL);
    spec.fn = NULL;
    spec.policy = (weft_mailbox_policy)4;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_process_spawn(rt, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_process_spawn(NULL, &spec, NULL, NULL), -EINVAL);
    fixture_end(rt);
}

/* -- Exit: close, once, whatever it was doing. */

static int idle_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct state *state = raw;
    state->steps++;
    atomic_fetch_add(&steps, 1);
    for (size_t i = 0; i < count; i++)
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            out->status = WEFT_STEP_DONE;
        else if (events[i].tag == 5)
            CHECK_EQ(weft_process_exit(NULL, weft_self(), -EBADMSG), 0); /* and goes on */
    if (out->status != WEFT_STEP_DONE)
        out->status = state->want == 1 ? WEFT_STEP_CONTINUE : WEFT_STEP_IDLE;
    return 0;
}

API_TEST(process_exit_closes_once, "W6 W36", .workers = {1, 4}) {
    weft_process_class class_ = noting;
    class_.step = idle_step;
    weft_runtime *rt = fixture_begin_patient();
    for (int kind = 0; kind < 2; kind++) { /* idle; never idle */
        weft_pid pid;
        weft_task *task;
        unsigned before = atomic_load(&steps);
        REQUIRE_EQ(spawn_class(rt, &class_, "a", kind, &pid, &task), 0);
        REQUIRE_EVENTUALLY(atomic_load(&steps) > before);
        CHECK_EQ(weft_process_exit(rt, pid, 0), -EINVAL);
        CHECK_EQ(weft_process_exit(rt, pid, -EXDEV), 0);
        CHECK_EQ(fixture_finish(task).status, -ECANCELED);
        CHECK_EQ(weft_process_exit(rt, pid, -EXDEV), -ESRCH);
    }
    CHECK_EQ(atomic_load(&closes), 2);
    /* It ends itself: no step follows. */
    weft_pid pid;
    weft_task *task;
    REQUIRE_EQ(spawn_class(rt, &class_, "a", 1, &pid, &task), 0);
    REQUIRE_EQ(weft_send(rt, pid, 5, NULL, 0), 0);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    CHECK_EQ(atomic_load(&closes), 3);
    fixture_end(rt);
}

/* -- Messages as events. */

static struct {
    atomic_uint count, bad;
    uint64_t next[8];
} heard;

static int hear_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct state *state = raw;
    CHECK_EQ(atomic_fetch_add(&inside, 1), 0);
    out->status = WEFT_STEP_IDLE;
    CHECK(count > 0 || state->steps == 0);
    CHECK_LE(count, 64);
    state->steps++;
    for (size_t i = 0; i < count; i++) {
        if (events[i].type == WEFT_MESSAGE_CANCEL) {
            out->status = WEFT_STEP_DONE;
            continue;
        }
        CHECK_EQ(events[i].type, WEFT_MESSAGE);
        CHECK_EQ(events[i].error, 0);
        CHECK_EQ(events[i].size, sizeof(uint64_t));
        uint64_t number;
        memcpy(&number, events[i].data, sizeof number);
        if (heard.next[events[i].tag]++ != number) /* W40 */
            atomic_fetch_add(&heard.bad, 1);
        if (atomic_fetch_add(&heard.count, 1) + 1 == (unsigned)state->want)
            out->status = WEFT_STEP_DONE;
    }
    atomic_fetch_sub(&inside, 1);
    return 0;
}

static weft_pid hearing;
static weft_runtime *hearing_rt;

static void send_numbers(unsigned index, void *arg) {
    unsigned count = *(unsigned *)arg;
    for (uint64_t i = 0; i < count; i++)
        REQUIRE_EQ(weft_send(hearing_rt, hearing, index, &i, sizeof i), 0);
}

static int send_numbers_here(void *index) {
    unsigned count = harness_is_slow() ? 300 : 3000;
    for (uint64_t i = 0; i < count; i++) {
        REQUIRE_EQ(weft_send(NULL, hearing, (uint64_t)(uintptr_t)index, &i, sizeof i), 0);
        if (i % 7 == 0)
            weft_yield();
    }
    return 0;
}

API_TEST(process_many_senders_in_order, "W23 W24 W29 W33 W40", .workers = {1, 2, 4}) {
    weft_process_class class_ = noting;
    class_.step = hear_step;
    unsigned count = harness_is_slow() ? 300 : 3000;
    weft_runtime *rt = hearing_rt = fixture_begin_patient();
    weft_task *task, *fiber[4];
    REQUIRE_EQ(spawn_class(rt, &class_, "a", (int)(8 * count), &hearing, &task), 0);
    for (uintptr_t i = 0; i < 4; i++)
        REQUIRE_EQ(weft_fiber_go(rt, send_numbers_here, (void *)(4 + i), &fiber[i]), 0);
    harness_threads(4, send_numbers, &count);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(fiber[i]).status, 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(atomic_load(&heard.count), 8 * count);
    CHECK_EQ(atomic_load(&heard.bad), 0);
    CHECK_EQ(atomic_load(&closes), 1);
    fixture_end(rt);
}

/* -- N sends to an idle process while its worker is busy: one turn. */

static void send_one(unsigned index, void *arg) {
    uint64_t zero = 0;
    (void)arg;
    REQUIRE_EQ(weft_send(hearing_rt, hearing, index, &zero, sizeof zero), 0);
}

API_TEST(process_concurrent_sends_enqueue_once, "W31 W32", .workers = {1}) {
    weft_process_class class_ = noting;
    class_.step = hear_step;
    weft_runtime *rt = hearing_rt = fixture_begin_patient();
    weft_task *task, *busy;
    struct blocker blocker = {0};
    REQUIRE_EQ(spawn_class(rt, &class_, "a", 8, &hearing, &task), 0);
    REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0);
    busy = fixture_go(rt, fixture_block, &blocker);
    REQUIRE_EVENTUALLY(atomic_load(&blocker.entered));
    uint64_t polls = fixture_stats(rt).polls;
    harness_threads(8, send_one, NULL);
    CHECK_STR(weft_task_state(task), "scheduled");
    atomic_store(&blocker.release, true);
    fixture_finish(busy);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(atomic_load(&heard.count), 8);
    CHECK_EQ(fixture_stats(rt).polls, polls + 1); /* the blocker's was counted before */
    fixture_end(rt);
}

/* -- Commands. */

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
    uint64_t total = harness_is_slow() ? 200 : 2000;
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
    CHECK_EQ(atomic_load(&completed), harness_is_slow() ? 800 : 8000);
    fixture_end(rt);
}

/* Commands of a step that ends the process are not dispatched. */
static int ask_and_end(void *raw, const weft_message *events, size_t count, weft_step *out) {
    (void)raw, (void)events, (void)count;
    REQUIRE_EQ(weft_yield_command(out, DO_LATER, 1, book, sizeof book), 0);
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

/* -- Upgrade: the same process goes on as another class. */

static weft_pid upgraded;
static const weft_process_class second_class, too_large;

static int second_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct state *state = raw;
    CHECK_EQ(weft_self(), upgraded);
    CHECK_EQ(state->want, 42);
    note("2");
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (events[i].tag == 2) {
            note("!");
            out->status = WEFT_STEP_UPGRADE;
            out->upgrade = &too_large;
        } else {
            CHECK_EQ(events[i].tag, 1);
            note("m");
        }
    return 0;
}
static void second_close(void *raw) {
    (void)raw;
    note("C");
}
static const weft_process_class second_class = {.size = sizeof second_class,
                                                .state_size = sizeof(struct state),
                                                .init = note_init,
                                                .step = second_step,
                                                .close = second_close};
static const weft_process_class too_large = {
    .size = sizeof too_large, .state_size = sizeof(struct state) + 1, .step = second_step};

static int first_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct state *state = raw;
    (void)events;
    note("1");
    out->status = WEFT_STEP_IDLE;
    if (count) {
        state->want = 42;
        for (uint64_t i = 0; i < 3; i++)
            CHECK_EQ(weft_send(NULL, weft_self(), 1, NULL, 0), 0);
        out->status = WEFT_STEP_UPGRADE;
        out->upgrade = &second_class;
    }
    return 0;
}

API_TEST(process_upgrade, "W1 W6", .workers = {1, 2}) {
    weft_process_class class_ = noting;
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    class_.step = first_step;
    REQUIRE_EQ(spawn_class(rt, &class_, "a", 0, &upgraded, &task), 0);
    REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0);
    CHECK_EQ(weft_send(rt, upgraded, 1, NULL, 0), 0);
    REQUIRE_EVENTUALLY(strchr(book, 'm'));
    CHECK_EQ(weft_send(rt, upgraded, 2, NULL, 0), 0);
    CHECK_EQ(fixture_finish(task).status, -EINVAL);
    CHECK_EQ(strncmp(book, "i112mmm", 7), 0);
    CHECK_STR(strchr(book, '!'), "!C");
    CHECK_EQ(atomic_load(&closes), 0);
    fixture_end(rt);
}
