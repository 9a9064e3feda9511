/* process_class.c - processes that are classes: init, step and close, events, upgrade. */
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
    unsigned count = fixture_is_slow() ? 300 : 3000;
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
    unsigned count = fixture_is_slow() ? 300 : 3000;
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

/* -- A step is shown messages and system events in the order in which one thread produced them. */

static weft_message_type in_step[4];
static size_t in_step_count;

static int note_types(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    in_step_count = count;
    for (size_t i = 0; i < count && i < 4; i++)
        in_step[i] = events[i].type;
    out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class noting_types = {.size = sizeof noting_types, .step = note_types};

/* Driven by us, so that all is there before it runs. */
API_TEST(process_class_system_in_order, "W29") {
    weft_config config = WEFT_CONFIG_INIT;
    weft_pid pid;
    weft_task *task;
    config.driven = true;
    config.workers = 1;
    weft_runtime *rt = fixture_begin(&config);
    REQUIRE_EQ(spawn_class(rt, &noting_types, NULL, 0, &pid, &task), 0);
    for (uint64_t tag = 1; tag <= 2; tag++)
        REQUIRE_EQ(weft_send(rt, pid, tag, NULL, 0), 0);
    REQUIRE_EQ(weft_process_cancel(rt, pid), 0);
    REQUIRE_EQ(weft_send(rt, pid, 3, NULL, 0), 0);
    while (!weft_task_is_done(task))
        REQUIRE_GE(weft_drive_wait(rt, 0, fixture_soon()), 0);
    weft_task_drop(task);
    CHECK_EQ(in_step_count, 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(in_step[i], i == 2 ? WEFT_MESSAGE_CANCEL : WEFT_MESSAGE);
    fixture_end(rt);
}

/* To a class with a smaller state, and back: the bytes in between are as they were. */

struct wide {
    int front, back[40];
};
static const weft_process_class wide_class, narrow_class, wider_class;
static atomic_uint wide_steps, narrow_steps;

static int wide_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    struct wide *wide = raw;
    int round = (int)atomic_fetch_add(&wide_steps, 1);
    (void)events, (void)count;
    CHECK_EQ(wide->front, round);
    for (int i = 0; i < 40; i++) {
        CHECK_EQ(wide->back[i], round * i);
        wide->back[i] += i;
    }
    out->status = WEFT_STEP_UPGRADE;
    out->upgrade = round < 3 ? &narrow_class : &wider_class;
    return 0;
}
static int narrow_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    (void)events, (void)count;
    ++*(int *)raw;
    atomic_fetch_add(&narrow_steps, 1);
    out->status = WEFT_STEP_UPGRADE;
    out->upgrade = &wide_class;
    return 0;
}
static const weft_process_class wide_class = {
    .size = sizeof wide_class, .state_size = sizeof(struct wide), .step = wide_step};
static const weft_process_class narrow_class = {
    .size = sizeof narrow_class, .state_size = sizeof(int), .step = narrow_step};
static const weft_process_class wider_class = {
    .size = sizeof wider_class, .state_size = sizeof(struct wide) + 1, .step = wide_step};

API_TEST(process_upgrade_and_back, "W1 W6", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    REQUIRE_EQ(spawn_class(rt, &wide_class, NULL, 0, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, -EINVAL); /* the last upgrade was to a larger state than it has */
    CHECK_EQ(atomic_load(&wide_steps), 4);
    CHECK_EQ(atomic_load(&narrow_steps), 3);
    fixture_end(rt);
}
