/* process_context.c - what init_ctx gets: the context with its parents, the list of payloads, and for how long. */
#include "process.h"

struct kept {
    weft_pid self;
    const weft_context *context;
    const weft_payload *inputs;
    size_t count;
};

static struct kept seen; /* by the init of the one process of a test */
static char method[8];
static atomic_uint inits, closes;

static int keep_ctx(void *raw, weft_pid self, const char *name, const weft_context *context, const weft_payload *inputs,
                    size_t count) {
    struct kept *kept = raw;
    *kept = seen = (struct kept){self, context, inputs, count};
    snprintf(method, sizeof method, "%s", name ? name : "-");
    atomic_fetch_add(&inits, 1);
    return count && inputs[0].size == 4 && !memcmp(inputs[0].data, "fail", 4) ? -EDOM : 0;
}

static char in_step[64], in_close[64];

static void describe(const struct kept *kept, char *text, size_t room) {
    const weft_context_value *user = weft_context_find(kept->context, "user");
    snprintf(text, room, "%.*s %.*s", user ? (int)user->size : 0, user ? (const char *)user->data : "",
             kept->count ? (int)kept->inputs[kept->count - 1].size : 0,
             kept->count ? (const char *)kept->inputs[kept->count - 1].data : "");
}
/* The first message ends it. */
static int look(void *raw, const weft_message *events, size_t count, weft_step *out) {
    (void)events;
    out->status = count ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    if (count)
        describe(raw, in_step, sizeof in_step);
    return 0;
}
static void look_again(void *raw) {
    describe(raw, in_close, sizeof in_close);
    atomic_fetch_add(&closes, 1);
}
static int never_init(void *raw, weft_pid self, const char *name, const void *input, size_t size) {
    (void)raw, (void)self, (void)name, (void)input, (void)size;
    CHECK(!"init_ctx is called instead");
    return 0;
}

static const weft_process_class keeping = {.size = sizeof keeping,
                                           .name = "keeping",
                                           .state_size = sizeof(struct kept),
                                           .init = never_init,
                                           .step = look,
                                           .close = look_again,
                                           .init_ctx = keep_ctx};

static void finish(weft_runtime *rt, weft_pid pid, weft_task *task) {
    REQUIRE_EQ(weft_send(rt, pid, 1, NULL, 0), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
}

/* The caller's memory is overwritten after the spawn: the class has copies, until close has returned. */
API_TEST(process_context_kept, "W1 W2", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    char key[] = "user", value[] = "ada", one[] = "first", two[] = "second";
    weft_context_value values[] = {{key, value, 3}};
    weft_payload inputs[] = {{one, 5}, {NULL, 0}, {two, 6}};
    weft_context context = WEFT_CONTEXT_INIT;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    weft_task *task;
    context.deadline = weft_after(INT64_C(3600000000000));
    int64_t deadline = context.deadline;
    context.values = values;
    context.value_count = 1;
    for (int i = 0; i < 16; i++)
        context.trace_id[i] = (uint8_t)(i + 1);
    context.span_id[7] = 9;
    context.trace_flags = 1;
    spec.class_ = &keeping;
    spec.method = "go";
    spec.context = &context;
    spec.inputs = inputs;
    spec.input_count = 3;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    CHECK_EQ(seen.self, pid);
    CHECK_STR(method, "go");
    REQUIRE_EQ(seen.count, 3);
    CHECK_EQ(seen.inputs[0].size, 5);
    CHECK_EQ(seen.inputs[1].size, 0);
    CHECK_EQ(memcmp(seen.inputs[0].data, "first", 5), 0);
    CHECK_EQ(seen.context->deadline, deadline);
    CHECK_EQ(seen.context->parent, NULL);
    CHECK_EQ(seen.context->size, sizeof context);
    CHECK_EQ(memcmp(seen.context->trace_id, context.trace_id, 16), 0);
    CHECK_EQ(memcmp(seen.context->span_id, context.span_id, 8), 0);
    CHECK_EQ(seen.context->trace_flags, 1);
    memset(key, 'x', sizeof key - 1);
    memset(value, 'x', sizeof value);
    memset(two, 'x', sizeof two);
    memset(values, 0, sizeof values);
    memset(inputs, 0, sizeof inputs);
    memset(&context, 0, sizeof context);
    finish(rt, pid, task);
    CHECK_STR(in_step, "ada second");
    CHECK_STR(in_close, "ada second");
    CHECK_EQ(atomic_load(&closes), 1);
    fixture_end(rt);
}

/* The chain becomes one context: near values hide far ones, the earliest deadline counts, the nearest trace is taken. */
API_TEST(process_context_parents, "W2") {
    weft_runtime *rt = fixture_begin_patient();
    weft_context_value far_values[] = {{"user", "ada", 3}, {"role", "far", 3}}, near_values[] = {{"role", "near", 4}};
    weft_context_value twice[] = {{"role", "own", 3}, {"role", "later", 5}, {"empty", NULL, 0}};
    weft_context far = WEFT_CONTEXT_INIT, near = WEFT_CONTEXT_INIT, own = WEFT_CONTEXT_INIT;
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    weft_task *task;
    far.values = far_values;
    far.value_count = 2;
    far.deadline = weft_after(INT64_C(3600000000000));
    far.trace_id[0] = 1;
    near.parent = &far;
    near.values = near_values;
    near.value_count = 1;
    near.deadline = far.deadline + 1;
    near.trace_id[0] = 2;
    near.span_id[0] = 3;
    own.parent = &near;
    spec.class_ = &keeping;
    spec.context = &own;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    CHECK_EQ(seen.count, 0);
    CHECK_EQ(seen.inputs, NULL);
    CHECK_EQ(seen.context->deadline, far.deadline);
    CHECK_EQ(seen.context->trace_id[0], 2);
    CHECK_EQ(seen.context->span_id[0], 3);
    CHECK_EQ(seen.context->value_count, 2);
    const weft_context_value *role = weft_context_find(seen.context, "role");
    REQUIRE(role != NULL);
    CHECK_EQ(role->size, 4);
    CHECK_EQ(weft_context_find(&own, "role")->size, 4); /* the caller's chain says the same */
    CHECK_EQ(weft_context_find(&own, "none"), NULL);
    CHECK_EQ(weft_context_find(NULL, "role"), NULL);
    CHECK_EQ(weft_context_find(&own, NULL), NULL);
    finish(rt, pid, task);
    CHECK_STR(in_step, "ada ");
    own.values = twice;
    own.value_count = 3;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    CHECK_EQ(seen.context->value_count, 3);
    CHECK_EQ(weft_context_find(seen.context, "role")->size, 3);
    CHECK_EQ(weft_context_find(seen.context, "empty")->size, 0);
    finish(rt, pid, task);
    fixture_end(rt);
}

/* Nothing is inherited from the spawner, and no context is an empty one. */
static int spawn_without(void *arg) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    weft_task *task;
    (void)arg;
    spec.class_ = &keeping;
    spec.input = "one";
    spec.input_size = 3;
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &pid, &task), 0);
    REQUIRE_EQ(seen.count, 1);
    CHECK_EQ(memcmp(seen.inputs[0].data, "one", 3), 0);
    CHECK(seen.inputs[0].data != spec.input);
    REQUIRE(seen.context != NULL);
    CHECK_EQ(seen.context->deadline, WEFT_NEVER);
    CHECK_EQ(seen.context->value_count, 0);
    REQUIRE_EQ(weft_send(NULL, pid, 1, NULL, 0), 0);
    CHECK_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
    weft_task_drop(task);
    spec.input = NULL;
    spec.input_size = 0;
    REQUIRE_EQ(weft_process_spawn(NULL, &spec, &pid, &task), 0);
    CHECK_EQ(seen.count, 0);
    REQUIRE(seen.context != NULL);
    CHECK_EQ(seen.context->deadline, WEFT_NEVER);
    REQUIRE_EQ(weft_send(NULL, pid, 1, NULL, 0), 0);
    CHECK_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
    weft_task_drop(task);
    return 0;
}
API_TEST(process_context_none, "W2", .workers = {1, 2}) { in_process(spawn_without, NULL); }

static int wait_for_message(void *arg) {
    weft_message m;
    (void)arg;
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}

/* What is refused has started nothing and called nothing. */
API_TEST(process_context_refused, "W2 W4") {
    weft_runtime *rt = fixture_begin_patient();
    weft_context context = WEFT_CONTEXT_INIT, other = WEFT_CONTEXT_INIT;
    weft_context_value bad[] = {{NULL, "x", 1}}, no_data[] = {{"key", NULL, 1}};
    weft_payload inputs[] = {{"a", 1}, {"b", 1}}, no_bytes[] = {{NULL, 1}}, large[] = {{"a", (size_t)UINT32_MAX + 1}};
    weft_process_class plain = {.size = offsetof(weft_process_class, init_ctx), .step = look};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid = 7;
    spec.class_ = &keeping;
    spec.context = &context;
    context.deadline = 1;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -ETIMEDOUT);
    context.deadline = 0;
    other.deadline = 1;
    context.parent = &other;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -ETIMEDOUT);
    other.deadline = -1;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    other.deadline = 0;
    other.parent = &context; /* a cycle */
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    CHECK_EQ(weft_context_find(&context, "x"), NULL);
    other.parent = NULL;
    context.value_count = 1;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    context.values = bad;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    CHECK_EQ(weft_context_find(&context, "x"), NULL);
    context.values = no_data;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    context.value_count = 0;
    context.size = 1;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    context.size = sizeof context;
    spec.input_count = 1;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    spec.inputs = no_bytes;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    spec.inputs = large;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EMSGSIZE);
    spec.inputs = inputs;
    spec.input = "c";
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    spec.input = NULL;
    spec.input_count = 2;
    spec.class_ = &plain;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    spec.class_ = NULL;
    spec.fn = wait_for_message;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    spec.input_count = 0;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, NULL), -EINVAL);
    CHECK_EQ(pid, 7);
    CHECK_EQ(atomic_load(&inits), 0);
    CHECK_EQ(atomic_load(&closes), 0);
    CHECK_EQ(weft_process_count(rt), 0);
    fixture_end(rt);
}

/* init_ctx refuses: close is not called. */
API_TEST(process_context_init_fails, "W4") {
    weft_runtime *rt = fixture_begin_patient();
    weft_payload inputs[] = {{"fail", 4}, {"x", 1}};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &keeping;
    spec.inputs = inputs;
    spec.input_count = 2;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EDOM);
    /* It appears, and is refused since its name is taken: then close is called. */
    weft_pid pid;
    weft_task *task;
    inputs[0].data = "fine";
    spec.registered = "kept";
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    CHECK_EQ(atomic_load(&closes), 0);
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EEXIST);
    CHECK_EQ(atomic_load(&closes), 1);
    finish(rt, pid, task);
    CHECK_EQ(atomic_load(&closes), 2);
    fixture_end(rt);
}

/* -- A class of an earlier header: no such field, and whatever lies behind it is not looked at. */

static char plain_input[16];
static int plain_init(void *raw, weft_pid self, const char *name, const void *input, size_t size) {
    (void)raw, (void)self, (void)name;
    snprintf(plain_input, sizeof plain_input, "%.*s", (int)size, size ? (const char *)input : "");
    return 0;
}
static int plain_step(void *raw, const weft_message *events, size_t count, weft_step *out) {
    (void)raw, (void)events;
    out->status = count ? WEFT_STEP_DONE : WEFT_STEP_IDLE;
    return 0;
}
API_TEST(process_context_earlier_class, "W1 W2") {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_class earlier = {
        .size = offsetof(weft_process_class, init_ctx), .init = plain_init, .step = plain_step, .init_ctx = keep_ctx};
    weft_context context = WEFT_CONTEXT_INIT;
    weft_payload one[] = {{"list", 4}};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid;
    weft_task *task;
    spec.class_ = &earlier;
    spec.input = "alone";
    spec.input_size = 5;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    CHECK_STR(plain_input, "alone");
    finish(rt, pid, task);
    spec.context = &context; /* accepted, and of its fields only the deadline counts */
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    CHECK_STR(plain_input, "alone");
    finish(rt, pid, task);
    spec.input = NULL;
    spec.input_size = 0;
    spec.inputs = one;
    spec.input_count = 1;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, &task), 0);
    CHECK_STR(plain_input, "list");
    finish(rt, pid, task);
    context.deadline = 1;
    CHECK_EQ(weft_process_spawn(rt, &spec, &pid, &task), -ETIMEDOUT);
    CHECK_EQ(atomic_load(&inits), 0);
    fixture_end(rt);
}
