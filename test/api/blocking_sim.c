/* blocking_sim.c - blocking work in the simulator: begun and ended in the order of the seed, and never waited for without end. */
#include "fixture.h"

#include <pthread.h>

#include "blocking/pool.h"

#define MS INT64_C(1000000)

static struct {
    pthread_t worker;
    unsigned written; /* plain: by jobs and fibers, of which one runs at a time */
    uint64_t trace;
    int64_t clock[2];
} seen;

static void note(uint64_t what) {
    seen.written++;
    seen.trace = (seen.trace ^ what) * UINT64_C(0x100000001b3);
}

/* -- One seed, one order ------------------------------------------------------------------------------------------------ */

static int job(void *arg) {
    CHECK(!weft_in_fiber());
    CHECK(!pthread_equal(pthread_self(), seen.worker));
    note(100 + (uintptr_t)arg);
    if ((uintptr_t)arg % 3 == 0)
        harness_nap(); /* how long it takes changes nothing */
    note(200 + (uintptr_t)arg);
    return 7;
}

static int nested(void *arg) {
    int result = 0;
    CHECK_EQ(weft_blocking(job, arg, &result, WEFT_NEVER), 0);
    return result;
}

static int asks(void *arg) {
    uintptr_t i = (uintptr_t)arg;
    int result = 0;
    for (int round = 0; round < 3; round++) {
        note(300 + i);
        CHECK_EQ(weft_blocking(i % 4 ? job : nested, arg, &result, weft_after(1 + MS)), 0);
        CHECK_EQ(result, 7);
        note(400 + i);
        if (i % 2)
            CHECK_EQ(weft_sleep((int64_t)i * MS), 0);
    }
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = job;
    spec.arg = (void *)(i + 50);
    CHECK_EQ(weft_blocking_start(NULL, &spec), 0); /* nobody waits for it */
    return 0;
}

static int all(void *unused) {
    (void)unused;
    weft_task *task[8];
    seen.worker = pthread_self();
    for (uintptr_t i = 0; i < 8; i++)
        REQUIRE_EQ(weft_fiber_go(NULL, asks, (void *)i, &task[i]), 0);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_join(task[i], NULL, WEFT_NEVER), 0);
        weft_task_drop(task[i]);
    }
    return 0;
}

static uint64_t run_with(uint64_t seed, uint64_t *hash) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_task *task;
    config.seed = seed;
    memset(&seen, 0, sizeof seen);
    weft_runtime *rt = fixture_begin(&config);
    REQUIRE_EQ(weft_fiber_go(rt, all, NULL, &task), 0);
    fixture_finish(task);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    *hash = weft_sim_hash(rt);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    CHECK_EQ(seen.written, 8 * (3 * 4 + 2));
    return seen.trace;
}

API_TEST(blocking_sim_order, "J6 J7", .sched = "sim") {
    unsetenv("WEFT_SEED");
    uint64_t hash[3], trace[3];
    trace[0] = run_with(harness_seed(), &hash[0]);
    trace[1] = run_with(harness_seed(), &hash[1]);
    trace[2] = run_with(harness_seed() + 1, &hash[2]);
    CHECK_EQ(trace[0], trace[1]);
    CHECK_EQ(hash[0], hash[1]);
    CHECK(trace[0] != trace[2]);
}

/* -- Bounds, several simulations, and the end ------------------------------------------------------------------------------- */

static weft_pool *one_thread(unsigned queue_max) {
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    weft_pool *pool;
    config.threads_min = config.threads_max = 1;
    config.queue_max = queue_max;
    config.grace_ns = FIXTURE_GRACE;
    REQUIRE_EQ(weft_pool_create(&config, &pool), 0);
    return pool;
}

static int nothing(void *arg) {
    (void)arg;
    return 0;
}

static int adds_one(void *arg) {
    ++*(unsigned *)arg;
    return 0;
}

struct asker {
    weft_pool *pool;
    unsigned ran;
};

static int asks_pool(void *arg) {
    struct asker *asker = arg;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = adds_one;
    spec.arg = &asker->ran;
    spec.pool = asker->pool;
    return weft_blocking_call(&spec, NULL, WEFT_NEVER);
}

/* Two simulations and one pool: a turn begins a job of its own simulation, though another's has waited for longer. */
API_TEST(blocking_sim_own_turn, "J6", .sched = "sim") {
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    weft_runtime *first = fixture_begin(&config), *second = fixture_begin(&config);
    weft_pool *pool = one_thread(0);
    struct asker asker[2] = {{pool, 0}, {pool, 0}};
    REQUIRE_EQ(weft_fiber_go(first, asks_pool, &asker[0], NULL), 0);
    REQUIRE_EQ(weft_fiber_go(second, asks_pool, &asker[1], NULL), 0);
    CHECK_EQ(weft_drive(first, 1), 1); /* it has asked, and its turn has not come */
    CHECK_EQ(weft_drive(second, 0), 3);
    CHECK_EQ(asker[1].ran, 1);
    CHECK_EQ(asker[0].ran, 0);
    CHECK_EQ(weft_drive(first, 0), 2);
    CHECK_EQ(asker[0].ran, 1);
    CHECK_EQ(weft_pool_destroy(pool, WEFT_NEVER), 0);
    fixture_end(first);
    fixture_end(second);
}

static int fills(void *pool) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = nothing;
    spec.pool = pool;
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(weft_blocking_start(NULL, &spec), 0); /* for the thread, if it is as far as that or not */
        CHECK_EQ(weft_blocking_start(NULL, &spec), 0);
        CHECK_EQ(weft_blocking_start(NULL, &spec), 0);
        CHECK_EQ(weft_blocking_start(NULL, &spec), -EAGAIN);
        CHECK_EQ(weft_blocking_call(&spec, NULL, WEFT_NEVER), -EAGAIN);
        weft_pool_stats stats;
        do {
            CHECK_EQ(weft_yield(), 0);
            weft_pool_stats_read(pool, &stats);
        } while (stats.queued);
        CHECK_EQ(stats.running, 0);
        CHECK_EQ(stats.completed, 3 * (round + 1));
    }
    return 0;
}

API_TEST(blocking_sim_bound, "R2 J7", .sched = "sim") {
    weft_pool *pool = one_thread(2);
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, fills, pool, &task), 0);
    fixture_finish(task);
    fixture_end(rt);
    CHECK_EQ(weft_pool_destroy(pool, WEFT_NEVER), 0);
}

static weft_pool *common;

static int shares(void *arg) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = nothing;
    spec.pool = common;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_blocking_call(&spec, NULL, weft_after(MS)), 0);
        CHECK_EQ(weft_blocking_start(NULL, &spec), 0);
    }
    return (int)(intptr_t)arg;
}

/* Each has its own turns, whatever the other does. */
API_TEST(blocking_sim_two, "J6 J7", .sched = "sim") {
    unsetenv("WEFT_SEED");
    weft_runtime *rt[2];
    weft_config config = WEFT_CONFIG_INIT;
    weft_task *task[2];
    config.seed = harness_seed();
    common = one_thread(0);
    for (int i = 0; i < 2; i++) {
        rt[i] = fixture_begin(&config);
        REQUIRE_EQ(weft_fiber_go(rt[i], shares, NULL, &task[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        fixture_finish(task[i]);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_runtime_stop(rt[i], WEFT_NEVER), 0);
    CHECK_EQ(weft_sim_hash(rt[0]), weft_sim_hash(rt[1]));
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_runtime_destroy(rt[i]), 0);
    CHECK_EQ(weft_pool_destroy(common, WEFT_NEVER), 0);
}

static atomic_uint ran;

static int counts(void *arg) {
    (void)arg;
    ran++;
    return 0;
}

static int counts_slowly(void *arg) {
    harness_nap();
    return counts(arg);
}

/* Told to end, it still has something to do. */
static int cleans_up(void *arg) {
    CHECK_EQ(weft_shield(weft_task_self()), 0);
    *(atomic_bool *)arg = true;
    while (!weft_cancel_reason())
        weft_yield();
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = counts;
    weft_deadline hour = weft_after(3600000 * MS); /* time does not run away from a job */
    CHECK_EQ(weft_blocking(counts_slowly, NULL, NULL, hour), 0);
    CHECK_LT(weft_now(), hour);
    CHECK_EQ(weft_blocking_start(NULL, &spec), 0); /* ran, or was dropped */
    weft_unshield(weft_task_self());
    return 0;
}

/* No more turns, but jobs. */
API_TEST(blocking_cancelled_shielded, "R2 B57") {
    static atomic_bool there;
    weft_runtime *rt = fixture_begin(NULL);
    REQUIRE_EQ(weft_fiber_go(rt, cleans_up, &there, NULL), 0);
    REQUIRE_EVENTUALLY(there);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_GE(ran, 1);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

static atomic_bool go_on;
static int starts_another(void *arg) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = counts;
    while (!go_on)
        harness_nap();
    CHECK_EQ(weft_blocking_start(arg, &spec), 0);
    return 0;
}

static void *stops(void *rt) {
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    return NULL;
}

/* A job begins another, when the runtime takes no tasks any more.  (Elsewhere the pool may be closed by then.) */
API_TEST(blocking_sim_job_starts_job, "R2 B57", .sched = "sim") {
    weft_runtime *rt = fixture_begin(NULL);
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    weft_task *task;
    pthread_t stopper;
    int error;
    spec.fn = starts_another;
    spec.arg = rt;
    REQUIRE_EQ(weft_blocking_start(rt, &spec), 0);
    pthread_create(&stopper, NULL, stops, rt);
    while ((error = weft_fiber_go(rt, nothing, NULL, &task)) == 0) { /* until it is closed */
        weft_task_drop(task);
        harness_nap();
    }
    CHECK_EQ(error, -ESHUTDOWN);
    go_on = true;
    pthread_join(stopper, NULL);
    CHECK_EQ(ran, 1);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* -- Jobs that need a task -------------------------------------------------------------------------------------------------- */

static weft_event event = WEFT_EVENT_INIT;

static int waits_for_event(void *arg) {
    (void)arg;
    return weft_event_wait(&event, WEFT_NEVER);
}

static int sets_later(void *arg) {
    (void)arg;
    CHECK_EQ(weft_sleep(5 * MS), 0); /* time passes, though a job goes on */
    seen.clock[0] = weft_now();
    CHECK_EQ(weft_event_set(&event), 0);
    return 0;
}

static int asks_for_event(void *arg) {
    (void)arg;
    int result = -1;
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(NULL, sets_later, NULL, &task), 0);
    CHECK_EQ(weft_blocking(waits_for_event, NULL, &result, WEFT_NEVER), 0);
    CHECK_EQ(result, 0);
    CHECK_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
    weft_task_drop(task);
    CHECK_GE(seen.clock[0], 5 * MS);
    return 0;
}

static void runs_it(void *rt) {
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, asks_for_event, NULL, &task), 0);
    fixture_finish(task);
}

/* It is said, and works. */
API_TEST(blocking_sim_needs_a_task, "J7", .sched = "sim") {
    weft_runtime *rt = fixture_begin_hasty();
    CHECK_CONTAINS(fixture_said(runs_it, rt),
                   "has not ended for 500 ms, and may wait for a task: the simulation goes on beside it");
    fixture_end(rt);
}

static atomic_bool let_go;
static int stays(void *arg) {
    (void)arg;
    while (!let_go)
        harness_nap();
    ran++;
    return 0;
}

static int leaves_one(void *pool) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = stays;
    spec.pool = pool;
    CHECK_EQ(weft_blocking_start(NULL, &spec), 0);
    return 0;
}

/* Nobody waits for a job in another's pool: it may outlive the simulation. */
API_TEST(blocking_sim_outlived, "J7", .sched = "sim") {
    weft_pool *pool = one_thread(0);
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, leaves_one, pool, &task), 0);
    fixture_finish(task);
    fixture_end(rt);
    CHECK_EQ(ran, 0);
    let_go = true;
    CHECK_EQ(weft_pool_destroy(pool, WEFT_NEVER), 0);
    CHECK_EQ(ran, 1);
}

/* A job waits for one that the simulator asks for: that has a thread of its own, when its turn comes, or (arg) when the pool is closed. */
static int lets_go(void *arg) {
    (void)arg;
    let_go = true;
    return 0;
}

static int asks_to_let_go(void *pool) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = lets_go;
    spec.pool = pool;
    return weft_blocking_call(&spec, NULL, WEFT_NEVER);
}

static bool has_one_thread(weft_pool *pool) {
    weft_pool_stats stats;
    weft_pool_stats_read(pool, &stats);
    return stats.threads == 1;
}

static void needs_a_second(bool close) {
    weft_config config = WEFT_CONFIG_INIT;
    weft_pool_config pool_config = WEFT_POOL_CONFIG_INIT;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    weft_pool *pool;
    weft_task *task;
    config.driven = true;
    weft_runtime *rt = fixture_begin(&config);
    pool_config.threads_min = 1;
    pool_config.threads_max = 2;
    pool_config.keep_alive_ns = 1;
    REQUIRE_EQ(weft_pool_create(&pool_config, &pool), 0);
    spec.fn = stays;
    spec.pool = pool;
    let_go = false;
    REQUIRE_EQ(weft_blocking_start(NULL, &spec), 0);
    REQUIRE_EQ(weft_fiber_go(rt, asks_to_let_go, pool, &task), 0);
    CHECK_EQ(weft_drive(rt, 1), 1);
    REQUIRE_EVENTUALLY(has_one_thread(pool)); /* which is busy */
    if (close)
        CHECK_EQ(wefti_pool_close(pool, INT64_MAX), 0);
    while (!weft_task_is_done(task))
        REQUIRE_GE(weft_drive_wait(rt, 0, fixture_soon()), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_pool_destroy(pool, WEFT_NEVER), 0);
    fixture_end(rt);
}

API_TEST(blocking_sim_second_thread, "J7", .sched = "sim") { needs_a_second(false); }
API_TEST(blocking_sim_second_thread_closed, "J7", .sched = "sim") { needs_a_second(true); }
