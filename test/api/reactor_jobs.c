/* reactor_jobs.c - the reactor routes blocking work to the pool, turns its end into a resume, and resumes joins and sleepers. */
#include "blocking.h"

#include <fcntl.h>
#include <weft/file.h>

#include "fiber.h"

#define ON_REACTOR .sched = "reactor"

static weft_reactor_stats reactor_of(weft_runtime *rt) {
    weft_reactor_stats stats = {.size = sizeof stats};
    REQUIRE_EQ(weft_reactor_stats_read(rt, &stats), 0);
    return stats;
}

/* Items that a step, counted from 1, has handled. */
static uint64_t items(weft_runtime *rt, int step) { return reactor_of(rt).items[step - 1]; }

/* -- Routed and completed ------------------------------------------------------------------------------------------- */

static int twice(void *arg) { return 2 * (int)(intptr_t)arg; }

static int call_twice(void *arg) {
    int result = -1;
    REQUIRE_EQ(weft_blocking(twice, arg, &result, WEFT_NEVER), 0);
    return result;
}

struct polled {
    weft_wait wait;
    int number;
};

static weft_poll poll_twice(weft_task *self, void *state) {
    struct polled *polled = state;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    int result = -1;
    spec.fn = twice;
    spec.arg = (void *)(intptr_t)polled->number;
    int error = weft_blocking_poll(&spec, self, &polled->wait, &result);
    if (error == -EAGAIN)
        return WEFT_PENDING;
    REQUIRE_EQ(error, 0);
    REQUIRE_EQ(result, 2 * polled->number);
    return weft_done(self, 0, NULL);
}

static atomic_uint started;
static int note_started(void *arg) {
    (void)arg;
    atomic_fetch_add(&started, 1);
    return 0;
}

static int start_some(void *arg) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = note_started;
    for (intptr_t i = 0; i < (intptr_t)arg; i++)
        REQUIRE_EQ(weft_blocking_start(NULL, &spec), 0);
    return 0;
}

/* 80 jobs, asked for in the three ways: steps 2 and 3 handle exactly 80.  A plain thread's job passes through neither. */
API_TEST(reactor_jobs_counted, "R5 R6 R18 R23 R24", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[40];
    static struct polled polled[20];
    for (int i = 0; i < 40; i++)
        task[i] = fiber_go(rt, call_twice, (void *)(intptr_t)i);
    for (int i = 0; i < 40; i++)
        CHECK_EQ((intptr_t)fixture_finish(task[i]).value, 2 * i); /* R24: the result is the caller's */
    for (int i = 0; i < 20; i++) {
        polled[i].number = i;
        task[i] = fixture_go(rt, poll_twice, &polled[i]);
    }
    for (int i = 0; i < 20; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_finish(fiber_go(rt, start_some, (void *)(intptr_t)20));
    REQUIRE_EVENTUALLY(started == 20 && items(rt, 3) == 80);
    CHECK_EQ(items(rt, 2), 80);
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = twice;
    spec.pool = weft_runtime_pool(rt);
    int result = -1;
    REQUIRE_EQ(weft_blocking_call(&spec, &result, WEFT_NEVER), 0);
    CHECK_EQ(stats_of(spec.pool).completed, 81);
    CHECK_EQ(items(rt, 2), 80);
    fixture_end(rt);
}

static int read_file(void *arg) {
    weft_file *file;
    char text[64];
    (void)arg;
    REQUIRE_EQ(weft_file_open("/proc/self/stat", O_RDONLY, 0, &file, WEFT_NEVER), 0);
    CHECK_GT(weft_file_read(file, text, sizeof text, 0, WEFT_NEVER), 0);
    return weft_file_close(file);
}

/* Files that the kernel reads only blocking go the same way. */
API_TEST(reactor_jobs_of_files, "R5 R6", ON_REACTOR, .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(fiber_go(rt, read_file, NULL));
    CHECK_GE(items(rt, 2), 1);
    CHECK_EQ(items(rt, 2), items(rt, 3));
    fixture_end(rt);
}

/* -- Withdrawn ------------------------------------------------------------------------------------------------------ */

static struct job held, queued[8];
static weft_pool *narrow;
static atomic_uint dropped;

static void note_drop(void *arg) {
    (void)arg;
    atomic_fetch_add(&dropped, 1);
}

static int hold_narrow(void *arg) {
    weft_blocking_spec spec = spec_of(narrow, arg);
    return weft_blocking_call(&spec, NULL, WEFT_NEVER);
}

static int wait_narrow(void *arg) {
    weft_blocking_spec spec = spec_of(narrow, arg);
    spec.drop = note_drop;
    return weft_blocking_call(&spec, NULL, WEFT_NEVER);
}

/* Jobs behind one that does not end: their cancelled callers withdraw them, whether they have been routed or not, and they never run. */
API_TEST(reactor_jobs_withdrawn, "R5", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    config.threads_max = 1;
    REQUIRE_EQ(weft_pool_create(&config, &narrow), 0);
    weft_task *holder = fiber_go(rt, hold_narrow, &held), *task[8];
    REQUIRE_EVENTUALLY(held.entered);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 8; i++)
            task[i] = fiber_go(rt, wait_narrow, &queued[i]);
        for (int i = 0; i < 8; i++)
            weft_task_cancel(task[i]); /* some before they begin, some while they wait */
        for (int i = 0; i < 8; i++)
            CHECK_EQ(fixture_finish(task[i]).status, -ECANCELED);
        CHECK_EQ(stats_of(narrow).queued, 0);
    }
    atomic_store(&held.release, true);
    CHECK_EQ(fixture_finish(holder).status, 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(queued[i].ran, 0);
    CHECK_LE(items(rt, 2), 1 + dropped);
    CHECK_EQ(items(rt, 3), 1);
    fixture_end(rt);
    CHECK_EQ(weft_pool_destroy(narrow, fixture_soon()), 0);
}

/* -- The end ---------------------------------------------------------------------------------------------------------- */

static struct job outlasting;

static int leave_job(void *arg) {
    weft_blocking_spec spec = spec_of(arg, &outlasting);
    return weft_blocking_start(NULL, &spec);
}

/* A job that nobody waits for, in a pool that is not the runtime's: it may end when the runtime is gone. */
API_TEST(reactor_job_outlives_runtime, "R36", ON_REACTOR, .workers = {1}) {
    weft_pool *pool;
    REQUIRE_EQ(weft_pool_create(NULL, &pool), 0);
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(fixture_finish(fiber_go(rt, leave_job, pool)).status, 0);
    fixture_end(rt);
    REQUIRE_EVENTUALLY(outlasting.entered);
    atomic_store(&outlasting.release, true);
    CHECK_EQ(weft_pool_destroy(pool, fixture_soon()), 0);
    CHECK_EQ(outlasting.ran, 1);
}

/* Mandatory jobs of tasks that have ended are run before the runtime stops, though the control thread has to route them first. */
static atomic_uint mandatory;
static int count_mandatory(void *arg) {
    (void)arg;
    atomic_fetch_add(&mandatory, 1);
    return 0;
}
static int start_mandatory(void *arg) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = count_mandatory;
    spec.mandatory = true;
    (void)arg;
    for (int i = 0; i < 10; i++)
        REQUIRE_EQ(weft_blocking_start(NULL, &spec), 0);
    return 0;
}

API_TEST(reactor_jobs_mandatory, "R36", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(weft_fiber_go(rt, start_mandatory, NULL, NULL), 0);
    int stopped = weft_runtime_stop(rt, weft_after(MS));
    CHECK(stopped == 0 || stopped == -ECANCELED);
    CHECK_EQ(mandatory % 10, 0); /* a fiber that began has started all of its jobs */
    CHECK_EQ(items(rt, 2), mandatory);
    CHECK_EQ(items(rt, 3), mandatory);
    fixture_end(rt);
}

/* -- Joins ------------------------------------------------------------------------------------------------------------ */

static int wait_a_little(void *arg) {
    (void)arg;
    weft_yield();
    return -5;
}

static int join_some(void *arg) {
    for (intptr_t i = 0; i < (intptr_t)arg; i++) {
        weft_result result = {0, NULL};
        weft_task *task = fiber_go(NULL, wait_a_little, NULL);
        REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
        CHECK_EQ(result.status, -5);
        weft_task_drop(task);
    }
    return 0;
}

/* A task that joins another is resumed in step 1: only spawned tasks come through the injector. */
API_TEST(reactor_join_resumed, "R9 R13 R14 R35", ON_REACTOR, .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(fixture_finish(fiber_go(rt, join_some, (void *)(intptr_t)100)).status, 0);
    CHECK_EQ(items(rt, 6), 101);
    fixture_end(rt);
}

/* -- Sleepers --------------------------------------------------------------------------------------------------------- */

enum { SLEEPERS = 40 };
static struct {
    weft_deadline from;
    int woke[SLEEPERS];
    unsigned count;
} night;

static int sleep_and_note(void *arg) {
    int number = (int)(intptr_t)arg;
    weft_deadline until = night.from + number * INT64_C(20000);
    CHECK_EQ(weft_sleep_until(until), 0);
    CHECK_GE(weft_now(), until);
    night.woke[night.count++] = number; /* one worker */
    return 0;
}

/* 40 deadlines in less than a millisecond, set in another order: they wake in the order of their deadlines. */
API_TEST(reactor_sleepers_in_order, "R7 R15", ON_REACTOR, .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[SLEEPERS];
    night.from = weft_after(100 * MS);
    for (int i = 0; i < SLEEPERS; i++)
        task[i] = fiber_go(rt, sleep_and_note, (void *)(intptr_t)(i * 17 % SLEEPERS));
    for (int i = 0; i < SLEEPERS; i++)
        fixture_finish(task[i]);
    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQ(night.woke[i], i);
    CHECK_EQ(items(rt, 4), SLEEPERS);
    fixture_end(rt);
}
