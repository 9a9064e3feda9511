/* process_stop.c - what a stop of the runtime means for processes. */
#include "process.h"

static atomic_uint told, closed, seen_shutdown;

static int on_cancel(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (events[i].type == WEFT_MESSAGE_CANCEL) {
            CHECK_EQ(events[i].error, -ESHUTDOWN);
            atomic_fetch_add(&told, 1);
            out->status = WEFT_STEP_DONE;
        }
    return 0;
}
static void count_close(void *state) {
    (void)state;
    atomic_fetch_add(&closed, 1);
}
static const weft_process_class obedient = {.size = sizeof obedient, .step = on_cancel, .close = count_close};

/* Waits for a command that nobody completes. */
static int never_completed(const weft_command *command, void *arg) {
    (void)command, (void)arg;
    return 0;
}
static int ask_first(void *raw, const weft_message *events, size_t count, weft_step *out) {
    int *stage = raw;
    if ((*stage)++ == 0 && !count) { /* the runtime may stop before it has begun */
        out->status = WEFT_STEP_YIELD;
        return weft_yield_command(out, 1, 1, NULL, 0);
    }
    return on_cancel(NULL, events, count, out);
}
static const weft_process_class blocked = {
    .size = sizeof blocked, .state_size = sizeof(int), .step = ask_first, .close = count_close};

static int busy(void *arg) {
    weft_message m;
    (void)arg;
    for (;;) {
        weft_yield();
        if (weft_receive(&m, NULL, NULL, WEFT_NOW) == 0 && m.type == WEFT_MESSAGE_CANCEL) {
            atomic_fetch_add(&told, 1);
            return 0;
        }
    }
}

static int waiting(void *arg) {
    (void)arg;
    expect(WEFT_MESSAGE_CANCEL);
    atomic_fetch_add(&told, 1);
    expect_none(); /* once */
    return 0;
}

API_TEST(process_stop_tells_everyone, "W35 W36 W37", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    REQUIRE_EQ(weft_command_register(rt, 1, never_completed, NULL), 0);
    for (int i = 0; i < 10; i++) {
        spec.class_ = &obedient;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, NULL), 0);
        spec.class_ = &blocked;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, NULL), 0);
        go_process(rt, busy, NULL);
        go_process(rt, waiting, NULL);
    }
    fixture_end(rt); /* in time, and nothing was cancelled */
    CHECK_EQ(atomic_load(&told), 40);
    CHECK_EQ(atomic_load(&closed), 20);
}

/* Spawned while the runtime stops: told at once. */
static int spawn_when_told(void *arg) {
    uintptr_t depth = (uintptr_t)arg;
    expect(WEFT_MESSAGE_CANCEL);
    atomic_fetch_add(&told, 1);
    if (depth)
        go_process(NULL, spawn_when_told, (void *)(depth - 1));
    return 0;
}
API_TEST(process_stop_tells_new_ones, "W35", .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 5; i++)
        go_process(rt, spawn_when_told, (void *)4);
    fixture_end(rt);
    CHECK_EQ(atomic_load(&told), 25);
}

/* Who does not listen is ended by force; from outside nothing more comes in. */
static int deaf(void *arg) {
    weft_message m;
    int error;
    (void)arg;
    while ((error = weft_receive(&m, NULL, NULL, WEFT_NEVER)) == 0)
        if (m.type == WEFT_MESSAGE_CANCEL)
            atomic_fetch_add(&seen_shutdown, 1);
    return error;
}
static int deaf_step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    out->status = WEFT_STEP_IDLE;
    return 0;
}

API_TEST(process_stop_by_force, "W6 W36 W38", .workers = {1, 4}) {
    static const weft_process_class class_ = {.size = sizeof class_, .step = deaf_step, .close = count_close};
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_pid pid = 7, other;
    for (int i = 0; i < 10; i++) {
        spec.class_ = &class_;
        REQUIRE_EQ(weft_process_spawn(rt, &spec, &other, NULL), 0);
        pid = go_process(rt, deaf, NULL);
    }
    CHECK_EQ(weft_runtime_stop(rt, weft_after(20000000)), -ECANCELED);
    CHECK_EQ(atomic_load(&closed), 10);
    CHECK_LE(atomic_load(&seen_shutdown), 10);
    CHECK_EQ(weft_process_count(rt), 0);
    CHECK_EQ(weft_send(rt, pid, 1, NULL, 0), -ESRCH);
    weft_pid unused = 7;
    CHECK_EQ(weft_process_spawn(rt, &spec, &unused, NULL), -ESHUTDOWN);
    CHECK_EQ(unused, 7);
    CHECK_EQ(atomic_load(&closed), 11); /* its init had been called, if it had one */
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* A runtime that refuses spawns from outside for want of room. */
API_TEST(process_spawn_refused, "W6 W38", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.global_capacity = 4;
    weft_runtime *rt = fixture_begin(&config);
    struct blocker blocker = {0};
    weft_task *task = fixture_go(rt, fixture_block, &blocker);
    REQUIRE_EVENTUALLY(atomic_load(&blocker.entered));
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.class_ = &obedient;
    spec.registered = "last";
    int error = 0;
    unsigned made = 0;
    for (; !error; made += !error) {
        weft_pid pid = 0;
        error = weft_process_spawn(rt, &spec, &pid, NULL);
        if (!error)
            CHECK_EQ(weft_unregister(rt, "last"), 0);
        REQUIRE_LT(made, 1000);
    }
    CHECK_EQ(error, -EAGAIN);
    CHECK_EQ(weft_whereis(rt, "last"), WEFT_PID_NONE);
    CHECK_EQ(weft_process_count(rt), made);
    CHECK_EQ(atomic_load(&closed), 1);
    spec.class_ = NULL;
    spec.fn = sit;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EAGAIN);
    CHECK_EQ(weft_process_count(rt), made);
    atomic_store(&blocker.release, true);
    fixture_finish(task);
    fixture_end(rt);
    CHECK_EQ(atomic_load(&closed), made + 1);
}

/* -- weft_process_stop_all. */

/* Returns only after release functions have: also for a process that was not alive any more when it was called. */
static atomic_bool releasing, stop_called, has_released;
static void release_slowly(void *data) {
    (void)data;
    atomic_store(&releasing, true);
    while (!atomic_load(&stop_called))
        harness_nap();
    for (int i = 0; i < 100; i++) /* long enough for a stop that does not wait */
        harness_nap();
    atomic_store(&has_released, true);
}
static int sleep_only(void *arg) {
    (void)arg;
    return weft_sleep_until(WEFT_NEVER);
}
API_TEST(process_stop_all_waits_for_the_ending, "W36", .workers = {1, 2}) {
    static int value;
    weft_runtime *rt = fixture_begin_patient();
    weft_pid pid = go_process(rt, sleep_only, NULL);
    REQUIRE_EQ(weft_send_ref(rt, pid, 1, &value, sizeof value, release_slowly), 0);
    REQUIRE_EQ(weft_process_exit(rt, pid, -EIO), 0);
    REQUIRE_EVENTUALLY(atomic_load(&releasing));
    atomic_store(&stop_called, true);
    CHECK_GE(weft_process_stop_all(rt, weft_after(1000000), NULL, 0), 0);
    CHECK(atomic_load(&has_released));
    CHECK_EQ(weft_process_count(rt), 0);
    CHECK_EQ(weft_process_stop_all(rt, WEFT_NOW, NULL, 0), -EBUSY);
    fixture_end(rt);
}

/* A runtime that is so busy that it refuses spawns from outside can be stopped. */
struct stopping {
    weft_runtime *rt;
    atomic_bool done;
    int result;
};
static void *stop_all(void *arg) {
    struct stopping *stopping = arg;
    stopping->result = weft_process_stop_all(stopping->rt, fixture_soon(), NULL, 0);
    atomic_store(&stopping->done, true);
    return NULL;
}
API_TEST(process_stop_all_when_busy, "W36", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.global_capacity = 4;
    weft_runtime *rt = fixture_begin(&config);
    struct stopping stopping = {.rt = rt};
    struct blocker blocker = {0};
    weft_task *task = fixture_go(rt, fixture_block, &blocker);
    pthread_t thread;
    uint64_t made = 0;
    REQUIRE_EVENTUALLY(atomic_load(&blocker.entered));
    while (weft_process_go(rt, sit, NULL, NULL) == 0)
        REQUIRE_LT(++made, 1000);
    REQUIRE_EQ(weft_process_go(rt, sit, NULL, NULL), -EAGAIN);
    REQUIRE_EQ(pthread_create(&thread, NULL, stop_all, &stopping), 0);
    REQUIRE_EVENTUALLY(atomic_load(&stopping.done) || weft_process_count(rt) == made + 1);
    atomic_store(&blocker.release, true);
    fixture_finish(task);
    pthread_join(thread, NULL);
    CHECK_EQ(stopping.result, 0);
    CHECK_EQ(weft_process_count(rt), 0);
    fixture_end(rt);
}
