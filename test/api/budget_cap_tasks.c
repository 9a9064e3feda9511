/* budget_cap_tasks.c - tasks without a budget under `sovereign`, poll tasks and classes, and a server: each with a capability. */
#include <weft/command.h>

#include "http_fixture.h"

static weft_caps caps;

static weft_runtime *begin(weft_profile profile) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = profile;
    config.caps = &caps;
    return fixture_begin(&config);
}

/* A part of the right to spawn. */
static weft_cap part(weft_runtime *rt, uint32_t max_tasks, weft_budget each) {
    weft_grant grant = WEFT_GRANT_INIT;
    weft_cap cap = {0, 0};
    grant.kind = WEFT_CAP_SPAWN;
    grant.max_tasks = max_tasks;
    grant.task_budget = each;
    REQUIRE_EQ(weft_cap_delegate(rt, &caps.spawn, &grant, &cap), 0);
    return cap;
}

static const weft_budget unlimited = WEFT_BUDGET_MAX;

/* -- Poll tasks. */

struct state {
    unsigned char bytes[WEFT_STATE_MAX];
};
static struct {
    atomic_bool release;
    atomic_uint polled, dropped;
    size_t expect; /* bytes of inline state */
} world;

static void check_state(const void *state) {
    const unsigned char *bytes = state;
    if (world.expect == 0)
        CHECK(state == (void *)&world);
    else
        CHECK_EQ((uintptr_t)state % _Alignof(max_align_t), 0);
    for (size_t i = 0; i < world.expect; i++)
        REQUIRE_EQ(bytes[i], (unsigned char)(i + 1));
}
static weft_poll until_released(weft_task *self, void *state) {
    check_state(state);
    atomic_fetch_add(&world.polled, 1);
    return atomic_load(&world.release) ? weft_done(self, 0, NULL) : WEFT_YIELD;
}
static void drop(void *state) {
    check_state(state);
    atomic_fetch_add(&world.dropped, 1);
}

static int spawn_poll(weft_runtime *rt, const weft_cap *cap, size_t size, weft_task **task) {
    struct state state;
    weft_spec spec = WEFT_SPEC_INIT;
    for (size_t i = 0; i < sizeof state; i++)
        state.bytes[i] = (unsigned char)(i + 1);
    spec.poll = until_released;
    spec.drop = drop;
    spec.state = size ? (void *)&state : (void *)&world;
    spec.state_size = size;
    spec.cap = cap;
    return weft_spawn(rt, &spec, task);
}

static void poll_tasks(weft_profile profile) {
    weft_runtime *rt = begin(profile);
    weft_task *task, *other;
    weft_cap one = part(rt, 1, unlimited), narrow = part(rt, 9, (weft_budget)WEFT_BUDGET_CHILD), none = {0, 0};
    static const size_t sizes[] = {0, 1, 8, 100, WEFT_STATE_MAX_CAP};
    if (profile == WEFT_PROFILE_SOVEREIGN)
        CHECK_EQ(spawn_poll(rt, NULL, 0, NULL), -EPERM);
    CHECK_EQ(spawn_poll(rt, &none, 0, NULL), -EPERM);
    CHECK_EQ(spawn_poll(rt, &caps.budget, 0, NULL), -EPERM);
    CHECK_EQ(spawn_poll(rt, &narrow, 0, NULL), -EPERM); /* what it does would not be limited */
    CHECK_EQ(spawn_poll(rt, &one, WEFT_STATE_MAX_CAP + 1, NULL), -EINVAL);
    CHECK_EQ(world.dropped, 0);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        world.expect = sizes[i]; /* no task is there */
        atomic_store(&world.release, false);
        atomic_store(&world.polled, 0);
        REQUIRE_EQ(spawn_poll(rt, &one, sizes[i], &task), 0);
        CHECK_EQ(spawn_poll(rt, &one, sizes[i], &other), -EDQUOT);
        REQUIRE_EVENTUALLY(atomic_load(&world.polled) > 1);
        if (i % 2)
            weft_task_cancel(task);
        else
            atomic_store(&world.release, true);
        CHECK_EQ(fixture_finish(task).status, i % 2 ? -ECANCELED : 0);
        CHECK_EQ(atomic_load(&world.dropped), i + 1);
    }
    CHECK_EQ(weft_cap_revoke(rt, &one), 0);
    CHECK_EQ(spawn_poll(rt, &one, 0, NULL), -EPERM);
    fixture_end(rt);
}
API_TEST(cap_poll_task, "J4 J7 J24", .workers = {1, 2}) { poll_tasks(WEFT_PROFILE_SOVEREIGN); }
/* Where none is needed, one that is given counts. */
API_TEST(cap_poll_task_unlimited, "J7 J24", .workers = {1, 2}) { poll_tasks(WEFT_PROFILE_NONE); }

/* -- Classes. */

static int may_refuse(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)state, (void)self, (void)method, (void)size;
    return *(const int *)input;
}
/* A command of the library works as well. */
static int sleep_then_wait(void *state, const weft_message *events, size_t count, weft_step *out) {
    int *phase = state;
    if ((*phase)++ == 0) {
        weft_command_timer timer = {weft_after(1000000)};
        out->status = WEFT_STEP_YIELD;
        return weft_yield_command(out, WEFT_COMMAND_TIMER, 1, &timer, sizeof timer);
    }
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++) {
        if (events[i].type == WEFT_MESSAGE_YIELD) {
            CHECK_EQ(events[i].error, 0);
            atomic_fetch_add(&world.polled, 1);
        }
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            out->status = WEFT_STEP_DONE;
    }
    return 0;
}
static const weft_process_class class_ = {
    .size = sizeof class_, .state_size = sizeof(int), .init = may_refuse, .step = sleep_then_wait};

static int spawn_class(weft_runtime *rt, const weft_cap *cap, const char *name, int init, weft_pid *pid,
                       weft_task **task) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &class_;
    spec.input = &init;
    spec.input_size = sizeof init;
    spec.registered = name;
    spec.cap = cap;
    return weft_process_spawn(rt, &spec, pid, task);
}

API_TEST(cap_class, "J4 J7 J24", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_cap one = part(rt, 1, unlimited), two = part(rt, 2, unlimited);
    weft_cap narrow = part(rt, 9, (weft_budget)WEFT_BUDGET_CHILD);
    weft_task *task;
    weft_pid pid;
    CHECK_EQ(spawn_class(rt, NULL, NULL, 0, NULL, NULL), -EPERM);
    CHECK_EQ(spawn_class(rt, &narrow, NULL, 0, NULL, NULL), -EPERM);
    CHECK_EQ(spawn_class(rt, &one, NULL, -EIO, NULL, NULL), -EIO); /* and does not count */
    for (unsigned i = 0; i < 3; i++) {
        REQUIRE_EQ(spawn_class(rt, &one, "name", 0, &pid, &task), 0);
        CHECK_EQ(spawn_class(rt, &one, NULL, 0, NULL, NULL), -EDQUOT);
        CHECK_EQ(spawn_class(rt, &two, "name", 0, NULL, NULL),
                 -EEXIST); /* nor does this, or the third would be too many */
        REQUIRE_EVENTUALLY(atomic_load(&world.polled) == i + 1);
        CHECK_EQ(weft_process_cancel(rt, pid), 0);
        CHECK_EQ(fixture_finish(task).status, 0);
    }
    fixture_end(rt);
}

/* What the library does for a class needs no further right; a thread for a call that blocks does. */
static int never(void *arg) {
    (void)arg;
    CHECK(false);
    return 0;
}
static int two_commands(void *state, const weft_message *events, size_t count, weft_step *out) {
    int *phase = state;
    out->status = WEFT_STEP_YIELD;
    for (size_t i = 0; i < count; i++) {
        if (events[i].tag == 1)
            CHECK_NE(events[i].error, -EPERM); /* nobody listens there */
        if (events[i].tag == 2)
            CHECK_EQ(events[i].error, -EPERM);
        CHECK_LT(events[i].error, 0);
    }
    *phase += count ? (int)count : 0;
    if (*phase == 2)
        out->status = WEFT_STEP_DONE;
    if (count)
        return 0;
    weft_command_connect connect = {.until = fixture_soon()};
    weft_command_blocking blocking = {never, NULL, WEFT_NEVER};
    REQUIRE_EQ(weft_addr_parse("127.0.0.1", 1, &connect.addr), 0);
    REQUIRE_EQ(weft_yield_command(out, WEFT_COMMAND_CONNECT, 1, &connect, sizeof connect), 0);
    return weft_yield_command(out, WEFT_COMMAND_BLOCKING, 2, &blocking, sizeof blocking);
}

API_TEST(cap_class_commands, "J4 J7", .workers = {1, 2}) {
    static const weft_process_class commands = {
        .size = sizeof commands, .state_size = sizeof(int), .step = two_commands};
    weft_runtime *rt = begin(WEFT_PROFILE_SOVEREIGN);
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *task;
    spec.class_ = &commands;
    spec.cap = &caps.spawn;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- A server. */

static int hello(weft_http *x, void *arg) {
    (void)arg;
    return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
}

static int spawn_with(weft_fiber_fn fn, void *arg, weft_task **task) {
    static const weft_budget some = {10000, UINT64_C(1) << 20, 10, 100, 100};
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = fn;
    spec.arg = arg;
    spec.cap = &caps.spawn;
    spec.budget = &some;
    return weft_fiber_spawn(NULL, &spec, task);
}

static int serve_with_and_without(void *arg) {
    struct site site = SITE(hello);
    (void)arg;
    site.options.cap = &caps.spawn;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &site.listener), 0);
    REQUIRE_EQ(weft_local_addr(site.listener, &site.addr), 0);
    REQUIRE_EQ(spawn_with(site_main, &site, &site.task), 0);
    weft_io *io = dial(&site);
    say(io, GET("/"));
    hear(io, HELLO);
    CHECK_EQ(weft_close(io), 0);
    weft_task_cancel(site.task);
    CHECK_EQ(io_join(site.task), 0);
    CHECK_EQ(site.result, -ECANCELED);
    site.options.cap = NULL;
    REQUIRE_EQ(spawn_with(site_main, &site, &site.task), 0);
    io = dial(&site);
    CHECK_EQ(io_join(site.task), 0);
    CHECK_EQ(site.result, -EPERM);
    CHECK_EQ(weft_close(site.listener), 0);
    hear_end(io);
    return 0;
}

API_TEST(cap_http_serve, "J4 J7", .workers = {1, 2}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = WEFT_PROFILE_SOVEREIGN;
    config.caps = &caps;
    CHECK_EQ(weft_fiber_run(&config, serve_with_and_without, NULL, NULL), 0);
}
