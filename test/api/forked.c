/* forked.c - a child made by fork(2): calls that need the runtime say so, and nothing hangs. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>

#include "io_fixture.h"

static struct {
    weft_runtime *rt;
    weft_task *task;
    weft_chan *empty;
    weft_mutex held;
    weft_event event;
    weft_sem none;
    weft_pool *pool;
    weft_io *in;
    weft_pid pid;
    unsigned node; /* of a relay */
    weft_lane *lane;
    weft_shard *shard;
} world;

static int nothing(void *unused) {
    (void)unused;
    return 0;
}

/* In the child; 0, or the line that was not as it should be. */
#define DEAD(call)                                                                                                     \
    if ((call) != -ENOTRECOVERABLE)                                                                                    \
    return __LINE__ % 200 + 1

static int calls(void) {
    weft_runtime *rt;
    weft_task *task = NULL;
    int value;
    char text[4];
    weft_blocking_spec job = WEFT_BLOCKING_SPEC_INIT;
    job.fn = nothing;
    job.pool = world.pool;
    DEAD(weft_runtime_create(NULL, &rt));
    DEAD(weft_run(NULL, fixture_yield_for_ever, NULL, NULL));
    DEAD(weft_go(world.rt, fixture_yield_for_ever, NULL, &task));
    DEAD(weft_go(NULL, fixture_yield_for_ever, NULL, &task));
    DEAD(weft_fiber_go(world.rt, nothing, NULL, &task));
    DEAD(weft_join(world.task, NULL, WEFT_NEVER));
    DEAD(weft_chan_recv(world.empty, &value, WEFT_NEVER));
    DEAD(weft_mutex_lock(&world.held, WEFT_NEVER));
    DEAD(weft_event_wait(&world.event, WEFT_NEVER));
    DEAD(weft_sem_acquire(&world.none, 1, WEFT_NEVER));
    DEAD(weft_read(world.in, text, 4, WEFT_NEVER));
    DEAD(weft_blocking_call(&job, &value, WEFT_NEVER));
    DEAD(weft_blocking_start(NULL, &job));
    DEAD(weft_pool_destroy(world.pool, WEFT_NEVER));
    weft_case c = weft_case_io(world.in, WEFT_FD_READ);
    DEAD(weft_select(&c, 1, WEFT_NEVER));
    weft_task_cancel(world.task); /* does nothing */
    DEAD(weft_runtime_stop(world.rt, WEFT_NEVER));
    DEAD(weft_runtime_destroy(world.rt));
    return 0;
}

/* Fork, and see that the child ends well, and in time. */
static void fork_and(int (*what)(void)) {
    pid_t child = fork();
    REQUIRE_GE(child, 0);
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(10);
        _exit(what());
    }
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

static void fork_once(void) { fork_and(calls); }

static int wait_here(void *unused) {
    (void)unused;
    return weft_event_wait(&world.event, WEFT_NEVER);
}

static int hold_it(void *unused) {
    (void)unused;
    CHECK_EQ(weft_mutex_lock(&world.held, WEFT_NEVER), 0);
    CHECK_EQ(weft_event_wait(&world.event, WEFT_NEVER), 0);
    CHECK_EQ(weft_mutex_unlock(&world.held), 0);
    return 0;
}

/* Something that always runs, and takes locks. */
static atomic_bool enough;
static int keep_busy(void *unused) {
    (void)unused;
    while (!atomic_load(&enough)) {
        weft_task *task;
        if (weft_fiber_go(NULL, nothing, NULL, &task) == 0) {
            (void)weft_join(task, NULL, WEFT_NEVER);
            weft_task_drop(task);
        }
    }
    return 0;
}

static int fork_in_fiber(void *unused) {
    (void)unused;
    for (int i = 0; i < 10; i++)
        fork_once();
    return 0;
}

API_TEST(forked_child_is_told, "", .workers = {2}, .timeout = 120) {
    weft_io *out;
    world.rt = fixture_begin_patient();
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &world.empty), 0);
    REQUIRE_EQ(weft_mutex_init(&world.held, 0), 0);
    weft_event_init(&world.event);
    weft_sem_init(&world.none, 0);
    REQUIRE_EQ(weft_pool_create(NULL, &world.pool), 0);
    REQUIRE_EQ(weft_pipe(&world.in, &out), 0);
    world.task = io_go(world.rt, wait_here, NULL);
    weft_task *holder = io_go(world.rt, hold_it, NULL), *busy = io_go(world.rt, keep_busy, NULL);
    REQUIRE_EVENTUALLY(!strcmp(weft_task_state(world.task), "idle") && !strcmp(weft_task_state(holder), "idle"));
    for (int i = 0; i < (fixture_is_slow() ? 5 : 20); i++)
        fork_once();
    weft_task *forker = io_go(world.rt, fork_in_fiber, NULL);
    CHECK_EQ(fixture_finish(forker).status, 0);
    /* The parent has noticed nothing. */
    atomic_store(&enough, true);
    weft_event_set(&world.event);
    CHECK_EQ(fixture_finish(world.task).status, 0);
    CHECK_EQ(fixture_finish(holder).status, 0);
    CHECK_EQ(fixture_finish(busy).status, 0);
    weft_close(world.in), weft_close(out);
    CHECK_EQ(weft_pool_destroy(world.pool, WEFT_NEVER), 0);
    weft_chan_drop(world.empty);
    fixture_end(world.rt);
}

/* -- Processes: none of them runs in the child, so that no call about them says 0. */

static int step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    out->status = WEFT_STEP_IDLE;
    return 0;
}
static const weft_process_class class_ = {.size = sizeof class_, .step = step};
static int take(void *state, const weft_parcel *parcel) {
    (void)state, (void)parcel;
    return 0;
}
static int handle(const weft_command *command, void *arg) {
    (void)command, (void)arg;
    return 0;
}

static int process_calls(void) {
    weft_runtime *rt = world.rt;
    weft_message message = {.type = WEFT_MESSAGE, .from = world.pid};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_relay relay = WEFT_RELAY_INIT;
    weft_parcel parcel = WEFT_PARCEL_INIT;
    weft_pid pid = world.pid;
    uint64_t monitor = WEFT_TAG_RESERVED | 1;
    unsigned node;
    spec.fn = nothing;
    relay.send = take;
    parcel.to = pid;
    DEAD(weft_send(rt, pid, 1, NULL, 0));
    DEAD(weft_try_send(rt, pid, 1, NULL, 0));
    DEAD(weft_send_ref(rt, pid, 1, &node, sizeof node, NULL));
    DEAD(weft_send(NULL, pid, 1, NULL, 0));
    DEAD(weft_send(rt, weft_relay_pid(world.node, pid), 1, NULL, 0));
    DEAD(weft_send_name(rt, "known", 1, NULL, 0));
    DEAD(weft_send_name(NULL, "known", 1, NULL, 0));
    DEAD(weft_publish(rt, "group", 1, NULL, 0));
    DEAD(weft_process_cancel(rt, pid));
    DEAD(weft_process_exit(rt, pid, -EIO));
    DEAD(weft_register(rt, "other", pid));
    DEAD(weft_unregister(rt, "known"));
    DEAD(weft_group_join(rt, "others", pid));
    DEAD(weft_group_leave(rt, "group", pid));
    DEAD(weft_process_spawn(rt, &spec, NULL, NULL));
    DEAD(weft_process_go(rt, nothing, NULL, NULL));
    DEAD(weft_process_go(NULL, nothing, NULL, NULL));
    spec.fn = NULL;
    spec.class_ = &class_;
    DEAD(weft_process_spawn(rt, &spec, NULL, NULL));
    DEAD(weft_process_spawn_linked(&spec, &pid));
    DEAD(weft_process_spawn_monitored(&spec, &pid, &monitor));
    DEAD(weft_process_stop_all(rt, WEFT_NOW, NULL, 0));
    DEAD(weft_command_register(rt, 300, handle, NULL));
    DEAD(weft_command_complete(rt, pid, 1, 0, NULL, 0));
    DEAD(weft_relay_attach(rt, &relay, NULL, &node));
    DEAD(weft_relay_deliver(rt, world.node, &parcel, WEFT_NOW));
    DEAD(weft_relay_deliver(rt, 0, &parcel, WEFT_NOW));
    DEAD(weft_relay_detach(rt, world.node, 0));
    DEAD(weft_ask(pid, NULL, 0, &message, WEFT_NOW));
    DEAD(weft_reply(&message, NULL, 0));
    DEAD(weft_receive(&message, NULL, NULL, WEFT_NOW));
    DEAD(weft_link(pid));
    DEAD(weft_unlink(pid));
    DEAD(weft_trap_exit(true));
    DEAD(weft_monitor(pid, &monitor));
    DEAD(weft_demonitor(monitor));
    if (weft_process_is_alive(rt, pid) || weft_process_count(rt) || weft_whereis(rt, "known") || weft_self())
        return 1;
    return 0;
}

static int fork_and_sit(void *unused) {
    weft_message m;
    (void)unused;
    fork_and(process_calls);
    while (weft_receive(&m, NULL, NULL, WEFT_NEVER) == 0 && m.type != WEFT_MESSAGE_CANCEL)
        ;
    return 0;
}

static weft_step *forked_step;
static int yield_in_child(void) {
    DEAD(weft_yield_command(forked_step, WEFT_COMMAND_TIMER, 1, NULL, 0));
    return process_calls();
}
static int fork_in_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    forked_step = out;
    fork_and(yield_in_child);
    out->status = WEFT_STEP_DONE;
    return 0;
}

API_TEST(forked_child_has_no_processes, "", .workers = {1, 2}, .timeout = 120) {
    static const weft_process_class forking = {.size = sizeof forking, .step = fork_in_step};
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_relay relay = WEFT_RELAY_INIT;
    weft_task *task;
    world.rt = fixture_begin_patient();
    relay.send = take;
    spec.fn = fork_and_sit;
    spec.registered = "known";
    REQUIRE_EQ(weft_relay_attach(world.rt, &relay, NULL, &world.node), 0);
    REQUIRE_EQ(weft_process_spawn(world.rt, &spec, &world.pid, &task), 0);
    REQUIRE_EQ(weft_group_join(world.rt, "group", world.pid), 0);
    fork_and(process_calls);
    spec.fn = NULL;
    spec.class_ = &forking;
    spec.registered = NULL;
    weft_task *class_task;
    REQUIRE_EQ(weft_process_spawn(world.rt, &spec, NULL, &class_task), 0);
    CHECK_EQ(fixture_finish(class_task).status, 0);
    CHECK_EQ(weft_process_cancel(world.rt, world.pid), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(world.rt);
}

/* -- What has threads of its own: pools, lanes, signals, and fibers that wait for a recharge. */

static int other_calls(void) {
    weft_lane *lane;
    weft_pool *pool;
    weft_signals *signals;
    weft_shard *shard;
    weft_addr addr;
    const int numbers[] = {SIGUSR1};
    const weft_budget amount = {.ops = 1};
    uint64_t id;
    DEAD(weft_pool_create(NULL, &pool));
    DEAD(weft_lane_create(NULL, &lane));
    DEAD(weft_shard_submit(world.shard, "tx", 2, &id));
    DEAD(weft_shard_get(world.lane, "new", &shard));
    DEAD(weft_shard_restart(world.shard, NULL, NULL));
    DEAD(weft_signal_open(numbers, 1, &signals));
    DEAD(weft_resolve("localhost", NULL, 0, &addr, 1, WEFT_NEVER));
    DEAD(weft_fund_recharge(weft_runtime_fund(world.rt), world.task, &amount, NULL));
    DEAD(weft_fund_refuse(weft_runtime_fund(world.rt), world.task));
    weft_lane_shutdown(world.lane); /* does nothing */
    weft_lane_destroy(world.lane);
    return 0;
}

API_TEST(forked_child_has_no_threads, "", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.profile = WEFT_PROFILE_CLUSTER;
    world.rt = fixture_begin(&config);
    REQUIRE(weft_runtime_fund(world.rt));
    REQUIRE_EQ(weft_lane_create(NULL, &world.lane), 0);
    REQUIRE_EQ(weft_shard_get(world.lane, "shard", &world.shard), 0);
    fork_and(other_calls);
    weft_lane_destroy(world.lane);
    fixture_end(world.rt);
}

/* What could only hang ends with a message. */
static void wait_for_ever(void *unused) {
    (void)unused;
    (void)weft_sleep_until(WEFT_NEVER);
}

TEST(forked_child_never_hangs, "") {
    weft_runtime *rt = fixture_begin(NULL);
    REQUIRE_ABORTS(wait_for_ever, NULL, "a forked child would wait for ever");
    fixture_end(rt);
}

/* A parent that has no runtime any more has nothing that a child could miss. */
static struct {
    weft_chan *ch; /* used by workers that are gone */
    weft_mutex lock;
} heirloom;

static int use_all(void *unused) {
    int value = 7, found;
    for (int i = 0; i < 1000; i++) {
        REQUIRE_EQ(weft_chan_send(heirloom.ch, &value, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_chan_recv(heirloom.ch, &found, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_mutex_lock(&heirloom.lock, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_mutex_unlock(&heirloom.lock), 0);
    }
    REQUIRE_EQ(weft_blocking(nothing, NULL, &found, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_sleep(1000000), 0);
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(NULL, nothing, unused, &task), 0);
    REQUIRE_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
    weft_task_drop(task);
    return 0;
}

/* Its own children are told again, while it has a runtime. */
static int in_child(void) {
    weft_runtime *rt, *none;
    if (weft_fiber_run(NULL, use_all, NULL, NULL) || weft_runtime_create(NULL, &rt))
        return 1;
    pid_t child = fork();
    if (child == 0)
        _exit(weft_runtime_create(NULL, &none) == -ENOTRECOVERABLE ? 0 : 2);
    int status = 1;
    if (waitpid(child, &status, 0) != child || status || weft_runtime_destroy(rt))
        return 3;
    return weft_fiber_run(NULL, use_all, NULL, NULL) ? 4 : 0;
}

API_TEST(forked_after_the_last_runtime, "", .workers = {2}) {
    weft_pool *pool;
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &heirloom.ch), 0);
    REQUIRE_EQ(weft_pool_create(NULL, &pool), 0);
    REQUIRE_EQ(weft_fiber_run(NULL, use_all, NULL, NULL), 0);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        REQUIRE_GE(child, 0);
        if (child == 0) {
            signal(SIGALRM, SIG_DFL);
            alarm(20);
            weft_runtime *none;
            _exit(i > 0 ? in_child() : weft_runtime_create(NULL, &none) == -ENOTRECOVERABLE ? 0 : 5);
        }
        int status;
        REQUIRE_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        if (i == 0) /* a pool was left */
            REQUIRE_EQ(weft_pool_destroy(pool, WEFT_NEVER), 0);
    }
    CHECK_EQ(weft_chan_destroy(heirloom.ch), 0);
}
