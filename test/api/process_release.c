/* process_release.c - the argument of a fiber is released once, however the fiber ends; the name of a process is copied. */
#include "nursery.h"
#include "process.h"

enum { JOBS = 20 };

struct job {
    atomic_uint entered, released;
};
static struct job jobs[JOBS];

static int work(void *arg) {
    struct job *job = arg;
    weft_message m;
    atomic_fetch_add(&job->entered, 1);
    (void)weft_receive(&m, NULL, NULL, WEFT_NEVER);
    CHECK_EQ(atomic_load(&job->released), 0); /* while it runs, the argument is its own */
    return 0;
}
static int enter(void *arg) {
    atomic_fetch_add(&((struct job *)arg)->entered, 1);
    return 0;
}

static void release(void *arg) { atomic_fetch_add(&((struct job *)arg)->released, 1); }

static weft_process_spec job_spec(struct job *job) {
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    spec.fn = work;
    spec.arg = job;
    spec.release = release;
    return spec;
}

static unsigned sum(bool entered) {
    unsigned count = 0;
    for (int i = 0; i < JOBS; i++)
        count += atomic_load(entered ? &jobs[i].entered : &jobs[i].released);
    return count;
}

/* Starts linked workers, and fails: they are ended before they were entered, or where they wait. */
static int fail_with_workers(void *arg) {
    for (int i = 0; i < JOBS; i++) {
        weft_process_spec spec = job_spec(&jobs[i]);
        weft_pid pid;
        REQUIRE_EQ(weft_process_spawn_linked(&spec, &pid), 0);
        if (arg && i % 2)
            UNTIL(atomic_load(&jobs[i].entered));
    }
    return -EIO;
}

static void run_failing(bool some_run) {
    weft_runtime *rt = fixture_begin_patient();
    go_process(rt, fail_with_workers, some_run ? rt : NULL);
    REQUIRE_EVENTUALLY(weft_process_count(rt) == 0);
    fixture_end(rt);
    CHECK_EQ(sum(false), JOBS);
    for (int i = 0; i < JOBS; i++) {
        CHECK_EQ(atomic_load(&jobs[i].released), 1);
        CHECK_LE(atomic_load(&jobs[i].entered), 1);
    }
}

API_TEST(process_release_never_entered, "W6", .workers = {1}) {
    run_failing(false);
    CHECK_EQ(sum(true), 0);
}
API_TEST(process_release_some_entered, "W6", .workers = {1, 2}) {
    run_failing(true);
    CHECK_GE(sum(true), JOBS / 2);
}

/* Told to end, or returned by itself; and released before others hear of the end. */
static int hear_ends(void *arg) {
    uint64_t monitor;
    (void)arg;
    for (int i = 0; i < JOBS; i++) {
        weft_process_spec spec = job_spec(&jobs[i]);
        weft_pid pid;
        REQUIRE_EQ(weft_process_spawn_monitored(&spec, &pid, &monitor), 0);
        if (i % 2)
            REQUIRE_EQ(weft_process_exit(NULL, pid, -EIO), 0);
        else
            REQUIRE_EQ(weft_send(NULL, pid, 1, NULL, 0), 0);
        CHECK_EQ(expect(WEFT_MESSAGE_DOWN).tag, monitor);
        CHECK_EQ(atomic_load(&jobs[i].released), 1);
    }
    return 0;
}
API_TEST(process_release_before_down, "W6 W29", .workers = {1, 2}) {
    in_process(hear_ends, NULL);
    CHECK_EQ(sum(false), JOBS);
}

/* A spawn that fails leaves the argument to its caller. */
API_TEST(process_release_not_on_failure, "W6", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.global_capacity = 4;
    weft_runtime *rt = fixture_begin(&config);
    static const weft_process_class class_ = {.size = sizeof class_};
    weft_process_spec spec = job_spec(&jobs[0]);
    weft_fiber_spec fiber = WEFT_FIBER_SPEC_INIT;
    struct blocker blocker = {0};
    weft_pid pid;
    int error = 0, spawned = 0;
    spec.registered = "taken";
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid, NULL), 0);
    REQUIRE_EVENTUALLY(atomic_load(&jobs[0].entered));
    spec.arg = &jobs[1];
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EEXIST);
    spec.registered = NULL;
    spec.stack_size = SIZE_MAX;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EINVAL);
    spec.stack_size = 0;
    spec.fn = NULL;
    spec.class_ = &class_;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EINVAL); /* a class has no argument */
    weft_task *task = fixture_go(rt, fixture_block, &blocker);
    REQUIRE_EVENTUALLY(atomic_load(&blocker.entered));
    fiber.fn = enter;
    fiber.arg = &jobs[1];
    fiber.release = release;
    for (; !error; spawned += !error) { /* until the global queue is full */
        error = weft_fiber_spawn(rt, &fiber, NULL);
        REQUIRE_LT(spawned, 1000);
    }
    CHECK_EQ(error, -EAGAIN);
    spec = job_spec(&jobs[2]);
    spec.name = "refused";
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EAGAIN);
    CHECK_EQ(sum(false), 0);
    atomic_store(&blocker.release, true);
    fixture_finish(task);
    REQUIRE_EQ(weft_send(rt, pid, 1, NULL, 0), 0);
    fixture_end(rt);
    CHECK_EQ(atomic_load(&jobs[0].released), 1);
    CHECK_EQ(atomic_load(&jobs[1].released), spawned);
    CHECK_EQ(atomic_load(&jobs[2].released), 0);
}

static int supervise_with_release(void *arg) {
    weft_process_child child = WEFT_PROCESS_CHILD("child", work, &jobs[0]);
    (void)arg;
    child.spec.release = release;
    CHECK_EQ(weft_process_supervise(NULL, &child, 1), -EINVAL);
    return 0;
}
API_TEST(process_release_not_supervised, "W6") { in_process(supervise_with_release, NULL); }

/* -- Plain fibers, and children of a nursery. */

/* Each fiber is cancelled before it begins, or runs. */
static int spawn_fibers(void *arg) {
    bool in_nursery = arg != NULL;
    weft_nursery *n = NULL;
    if (in_nursery)
        REQUIRE_EQ(weft_nursery_create(NULL, NULL, &n), 0);
    for (int i = 0; i < JOBS; i++) {
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        weft_task *task;
        spec.fn = enter;
        spec.arg = &jobs[i];
        spec.release = release;
        REQUIRE_EQ(in_nursery ? weft_nursery_spawn(n, &spec, &task) : weft_fiber_spawn(NULL, &spec, &task), 0);
        if (i % 2)
            weft_task_cancel(task);
        CHECK_EQ(weft_join(task, NULL, in_time()), 0);
        CHECK_EQ(atomic_load(&jobs[i].released), 1); /* before the result can be seen */
        CHECK_STR(weft_task_name(task), "fiber");
        weft_task_drop(task);
    }
    if (in_nursery) {
        (void)weft_nursery_await(n);
        (void)weft_nursery_destroy(n);
    }
    return 0;
}
API_TEST(fiber_release, "W6", .workers = {1, 2}) {
    in_process(spawn_fibers, NULL);
    CHECK_EQ(sum(false), JOBS);
}
API_TEST(fiber_release_in_nursery, "W6", .workers = {1, 2}) {
    in_process(spawn_fibers, jobs);
    CHECK_EQ(sum(false), JOBS);
}

/* A runtime that is stopped at once releases the arguments of fibers that never began. */
API_TEST(fiber_release_at_stop, "W6", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    struct blocker blocker = {0};
    weft_task *task = fixture_go(rt, fixture_block, &blocker);
    REQUIRE_EVENTUALLY(atomic_load(&blocker.entered));
    for (int i = 0; i < JOBS; i++) {
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        spec.fn = enter;
        spec.arg = &jobs[i];
        spec.release = release;
        REQUIRE_EQ(weft_fiber_spawn(rt, &spec, NULL), 0);
    }
    atomic_store(&blocker.release, true);
    weft_task_drop(task);
    int stopped = weft_runtime_stop(rt, WEFT_NOW);
    CHECK(stopped == 0 || stopped == -ECANCELED);
    CHECK_EQ(sum(false), JOBS);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* -- Names. */

static void show(void *rt) { CHECK_EQ(weft_dump(rt, STDERR_FILENO), 0); }

API_TEST(process_name_is_copied, "W36", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_task *fiber, *other;
    weft_pid pid[2];
    char *name = malloc(100);
    REQUIRE(name);
    snprintf(name, 100, "connection %d", 7);
    spec.fn = sit;
    spec.name = name;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid[0], &fiber), 0);
    memset(name, 'x', 99);
    name[99] = 0;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid[1], &other), 0);
    memset(name, 'y', 99);
    free(name);
    REQUIRE_EVENTUALLY(!strcmp(weft_task_state(fiber), "idle") && !strcmp(weft_task_state(other), "idle"));
    const char *said = fixture_said(show, rt);
    CHECK(strstr(said, "\"connection 7\""));
    CHECK(strstr(said, "\"xxxxxxxxxxxxxxxxxxxx"));
    CHECK(!strstr(said, "yyy"));
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(weft_process_exit(rt, pid[i], -EIO), 0);
    REQUIRE_EQ(weft_join(fiber, NULL, fixture_soon()), 0);
    REQUIRE_EQ(weft_join(other, NULL, fixture_soon()), 0);
    spec.name = "another";
    REQUIRE_EQ(weft_process_spawn(rt, &spec, &pid[0], NULL), 0);
    CHECK_STR(weft_task_name(fiber), "connection 7"); /* as long as the handle */
    CHECK_EQ(strlen(weft_task_name(other)), 47);
    weft_task_drop(fiber);
    weft_task_drop(other);
    REQUIRE_EQ(weft_process_cancel(rt, pid[0]), 0);
    fixture_end(rt);
}

static int step(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state, (void)events, (void)count;
    out->status = WEFT_STEP_IDLE;
    return 0;
}
static int refuse(void *state, weft_pid self, const char *method, const void *input, size_t size) {
    (void)state, (void)self, (void)method, (void)input, (void)size;
    return -EACCES;
}

/* Of a class, too, and of a process that does not listen to weft_process_stop_all. */
API_TEST(process_name_of_left, "W36", .workers = {1, 2}) {
    static const weft_process_class deaf = {.size = sizeof deaf, .name = "deaf", .step = step};
    static const weft_process_class refused = {.size = sizeof refused, .step = step, .init = refuse};
    weft_runtime *rt = fixture_begin_patient();
    weft_process_spec spec = WEFT_PROCESS_SPEC_INIT;
    weft_process_left left[2];
    char name[] = "client 9";
    spec.class_ = &refused;
    spec.name = name;
    CHECK_EQ(weft_process_spawn(rt, &spec, NULL, NULL), -EACCES);
    spec.class_ = &deaf;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, NULL), 0);
    memset(name, 'z', sizeof name - 1);
    spec.name = NULL;
    REQUIRE_EQ(weft_process_spawn(rt, &spec, NULL, NULL), 0);
    CHECK_EQ(weft_process_stop_all(rt, weft_after(1000000), left, 2), 2);
    for (int i = 0; i < 2; i++)
        CHECK(!strcmp(left[i].name, "client 9") || !strcmp(left[i].name, "deaf"));
    CHECK(strcmp(left[0].name, left[1].name));
    fixture_end(rt);
}
