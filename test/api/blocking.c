/* blocking.c - blocking work on pools of threads: results, bounds, callers that are fibers and poll tasks. */
#include "blocking.h"

/* -- Results ------------------------------------------------------------------------------------------------------- */

struct square {
    int n, in_thread;
    pthread_t caller;
};

static int square(void *arg) {
    struct square *s = arg;
    s->in_thread = !pthread_equal(s->caller, pthread_self());
    CHECK_EQ(weft_runtime_current(), NULL);
    CHECK(!weft_in_fiber());
    int inner = -1;
    CHECK_EQ(weft_blocking(hold, &(struct job){.release = true}, &inner, WEFT_NEVER), 0); /* here and now */
    CHECK_EQ(inner, 41);
    return s->n * s->n;
}

static int ask_square(void *arg) {
    for (int i = 0; i < 5; i++) {
        struct square s = {(int)(intptr_t)arg + i, 0, pthread_self()};
        int result = -1;
        CHECK_EQ(weft_blocking(square, &s, &result, WEFT_NEVER), 0);
        CHECK_EQ(result, s.n * s.n);
        CHECK(s.in_thread);
    }
    return 0;
}

API_TEST(blocking_result, "R2 R5", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (intptr_t i = 0; i < 40; i++)
        REQUIRE_EQ(weft_fiber_go(rt, ask_square, (void *)i, NULL), 0);
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    CHECK_EQ(stats_of(weft_runtime_pool(rt)).completed, 200);
    fixture_end(rt);
    REQUIRE_EVENTUALLY(fixture_threads("crew-") == 0);
}

static struct job shared;

static int wait_for_other(void *arg) {
    int result = 0;
    CHECK_EQ(weft_blocking(hold, arg, &result, WEFT_NEVER), 0);
    CHECK_EQ(result, 41);
    return 0;
}

static int let_go(void *arg) {
    while (!atomic_load(&((struct job *)arg)->entered))
        weft_yield();
    atomic_store(&((struct job *)arg)->release, true);
    return 0;
}

/* While a job blocks, its worker runs others: here the one that lets it go. */
API_TEST(blocking_spares_worker, "R23", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_hasty();
    REQUIRE_EQ(weft_fiber_go(rt, wait_for_other, &shared, NULL), 0);
    REQUIRE_EQ(weft_fiber_go(rt, let_go, &shared, NULL), 0);
    fixture_end(rt);
}

static weft_poll in_poll(weft_task *self, void *state) {
    struct job job = {.release = true};
    weft_wait wait = {{0}};
    weft_blocking_spec spec = spec_of(NULL, &job);
    (void)state;
    CHECK_EQ(weft_blocking(hold, &job, NULL, WEFT_NEVER), -EINVAL); /* it would stop the worker */
    CHECK_EQ(weft_blocking_poll(&spec, NULL, &wait, NULL), -EINVAL);
    spec.fn = NULL;
    CHECK_EQ(weft_blocking_poll(&spec, self, &wait, NULL), -EINVAL);
    CHECK_EQ(job.ran, 0);
    return weft_done(self, 0, NULL);
}

static int edges(void *arg) {
    struct job job = {.release = true};
    weft_wait wait = {{0}};
    int result = 7;
    weft_blocking_spec spec = spec_of(NULL, &job);
    CHECK_EQ(weft_blocking(NULL, NULL, &result, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_blocking_call(NULL, &result, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_blocking_poll(&spec, weft_task_self(), &wait, NULL), -EINVAL);
    CHECK_EQ(weft_blocking_poll(&spec, arg, &wait, NULL), -EINVAL);
    CHECK_EQ(weft_blocking(hold, &job, &result, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(job.ran, 0);
    CHECK_EQ(result, 7);
    CHECK_EQ(weft_blocking_call(&spec, &result, WEFT_NOW), -ETIMEDOUT); /* accepted, and dropped at once */
    CHECK_EQ(job.dropped, 1);
    CHECK_EQ(weft_blocking_call(&spec, NULL, WEFT_NEVER), 0);
    CHECK_EQ(job.dropped, 2);
    CHECK_EQ(job.ran, 1);
    struct {
        weft_blocking_spec spec;
        int more;
    } newer = {spec, 1};
    newer.spec.size = sizeof newer;
    CHECK_EQ(weft_blocking_call(&newer.spec, NULL, WEFT_NEVER), -E2BIG);
    return 0;
}

API_TEST(blocking_edges, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = fixture_go(rt, in_poll, NULL), *fiber;
    REQUIRE_EQ(weft_fiber_go(rt, edges, task, &fiber), 0);
    fixture_finish(fiber);
    fixture_finish(task);
    /* A plain thread does it itself, or has a pool do it. */
    struct square s = {9, 1, pthread_self()};
    int result = 0;
    CHECK_EQ(weft_blocking(square, &s, &result, WEFT_NEVER), 0);
    CHECK_EQ(result, 81);
    CHECK(!s.in_thread);
    struct job job = {.release = true};
    weft_blocking_spec spec = spec_of(weft_runtime_pool(rt), &job);
    CHECK_EQ(weft_blocking_call(&spec, &result, WEFT_NEVER), 0);
    CHECK_EQ(result, 41);
    CHECK_EQ(weft_runtime_pool(NULL), NULL);
    spec.pool = NULL;
    CHECK_EQ(weft_blocking_start(NULL, &spec), -EINVAL);
    weft_pool *pool = NULL;
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    config.threads_min = 5;
    config.threads_max = 4;
    CHECK_EQ(weft_pool_create(&config, &pool), -EINVAL);
    config.threads_max = 100000;
    CHECK_EQ(weft_pool_create(&config, &pool), -EINVAL);
    CHECK_EQ(weft_pool_create(&config, NULL), -EINVAL);
    CHECK_EQ(weft_pool_destroy(NULL, WEFT_NOW), 0);
    REQUIRE_EQ(weft_pool_create(NULL, &pool), 0); /* never used */
    CHECK_EQ(weft_pool_destroy(pool, WEFT_NOW), 0);
    fixture_end(rt);
}

/* -- Poll tasks ------------------------------------------------------------------------------------------------------- */

struct polling {
    weft_wait wait;
    weft_blocking_spec spec;
    int *error, *result;
};

static weft_poll poll_job(weft_task *self, void *state) {
    struct polling *p = state;
    *p->error = weft_blocking_poll(&p->spec, self, &p->wait, p->result);
    return *p->error == -EAGAIN ? WEFT_PENDING : weft_done(self, 0, NULL);
}

static void end_polling(void *state) { weft_wait_end(&((struct polling *)state)->wait); }

static weft_task *start_polling(weft_runtime *rt, weft_blocking_spec job, int *error, int *result) {
    struct polling p = {.spec = job, .error = error, .result = result};
    weft_task *task;
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = poll_job;
    spec.state = &p;
    spec.state_size = sizeof p;
    spec.drop = end_polling;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    return task;
}

API_TEST(blocking_poll, "R23", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct job job = {0};
    int error = 1, result = 0;
    weft_task *task = start_polling(rt, spec_of(NULL, &job), &error, &result);
    REQUIRE_EVENTUALLY(job.entered);
    CHECK(!weft_task_is_done(task));
    job.release = true;
    fixture_finish(task);
    CHECK_EQ(error, 0);
    CHECK_EQ(result, 41);
    CHECK_EQ(job.dropped, 1);
    fixture_end(rt);
}

API_TEST(blocking_poll_cancelled, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool_hasty(1);
    struct job running = {0}, queued = {0}, refused = {0};
    int error[3] = {1, 1, 1};
    weft_task *first = start_polling(rt, spec_of(pool, &running), &error[0], NULL);
    REQUIRE_EVENTUALLY(running.entered);
    weft_task *second = start_polling(rt, spec_of(pool, &queued), &error[1], NULL);
    REQUIRE_EVENTUALLY(stats_of(pool).queued == 1);
    fixture_finish(start_polling(rt, spec_of(pool, &refused), &error[2], NULL));
    CHECK_EQ(error[2], -EBUSY); /* the queue is full */
    CHECK_EQ(refused.dropped, 0);
    weft_task_cancel(second);
    CHECK_EQ(fixture_finish(second).status, -ECANCELED);
    CHECK_EQ(queued.dropped, 1);
    weft_task_cancel(first); /* it does not wait for what runs */
    CHECK_EQ(fixture_finish(first).status, -ECANCELED);
    CHECK_EQ(running.dropped, 0);
    running.release = true;
    fixture_end(rt);
    end_pool(pool);
    CHECK_EQ(running.dropped, 1);
    CHECK_EQ(queued.ran, 0);
}

/* -- Bounds ---------------------------------------------------------------------------------------------------------- */

API_TEST(blocking_bounds, "B57", .workers = {1, 2}) {
    enum { JOBS = 12, THREADS = 3 };
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, THREADS, JOBS - THREADS, 2 * MS);
    struct job job[JOBS] = {{0}}, more = {0};
    for (int i = 0; i < JOBS; i++) {
        weft_blocking_spec spec = spec_of(pool, &job[i]);
        REQUIRE_EQ(weft_blocking_start(rt, &spec), 0);
        if (i < THREADS)
            REQUIRE_EVENTUALLY(job[i].entered); /* in order */
    }
    weft_pool_stats stats = stats_of(pool);
    CHECK_EQ(stats.threads, THREADS);
    CHECK_EQ(stats.running, THREADS);
    CHECK_EQ(stats.queued, JOBS - THREADS);
    CHECK_EQ(stats.idle, 0);
    weft_blocking_spec spec = spec_of(pool, &more);
    CHECK_EQ(weft_blocking_start(rt, &spec), -EAGAIN);
    for (int i = 0; i < JOBS; i++) {
        REQUIRE_EVENTUALLY(job[i].entered); /* first come, first served */
        for (int later = i + THREADS; later < JOBS; later++)
            CHECK(!job[later].entered);
        job[i].release = true;
        REQUIRE_EVENTUALLY(job[i].dropped == 1);
    }
    REQUIRE_EVENTUALLY(stats_of(pool).threads == 1); /* the others were idle too long */
    REQUIRE_EVENTUALLY(stats_of(pool).idle == 1);
    CHECK_EQ(stats_of(pool).completed, JOBS);
    CHECK_EQ(more.dropped, 0);
    /* And back again. */
    struct job again = {0};
    occupy(pool, &again);
    CHECK_EQ(stats_of(pool).idle, 0);
    again.release = true;
    spec = spec_of(pool, &again);
    CHECK_EQ(weft_blocking_call(&spec, NULL, WEFT_NEVER), 0);
    fixture_end(rt);
    end_pool(pool);
}

/* Many callers, few threads, short jobs: everyone is told. */
static weft_pool *crowded;
static atomic_uint counted;

static int count_job(void *arg) {
    (void)arg;
    return (int)atomic_fetch_add(&counted, 1);
}

static int ask_often(void *arg) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    uint64_t random = (uintptr_t)arg;
    spec.fn = count_job;
    spec.pool = crowded;
    int ran = 0;
    for (int i = 0; i < 50; i++) {
        weft_deadline until = fixture_on("sim") || harness_random(&random) % 2
                                  ? WEFT_NEVER
                                  : weft_after((int64_t)(harness_random(&random) % (uint64_t)(2 * MS)));
        int error = weft_blocking_call(&spec, NULL, until);
        if (error)
            REQUIRE_EQ(error, -ETIMEDOUT);
        ran += !error;
    }
    return ran;
}

API_TEST(blocking_lost_wake, "", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    crowded = begin_pool(1, 3, 0, MS / 2); /* threads come and go */
    weft_task *task[20];
    uint64_t random = harness_seed();
    int ran = 0;
    for (int i = 0; i < 20; i++)
        REQUIRE_EQ(weft_fiber_go(rt, ask_often, (void *)(uintptr_t)harness_random(&random), &task[i]), 0);
    for (int i = 0; i < 20; i++)
        ran += (int)(intptr_t)fixture_finish(task[i]).value;
    CHECK_EQ(ran, counted); /* a call that failed has not run */
    fixture_end(rt);
    CHECK_EQ(stats_of(crowded).completed, counted);
    end_pool(crowded);
}

/* -- The simulator ------------------------------------------------------------------------------------------------------ */

static struct {
    atomic_bool entered;
    int order;
    int job_at, sleep_at;
} sim;

static int real_work(void *arg) {
    (void)arg;
    sim.entered = true;
    for (int i = 0; i < 5; i++)
        harness_nap();
    return 0;
}

static int sim_works(void *arg) {
    (void)arg;
    CHECK_EQ(weft_blocking(real_work, NULL, NULL, weft_after(3600000 * MS)), 0);
    sim.job_at = ++sim.order;
    return 0;
}

static int sim_sleeps(void *arg) {
    (void)arg;
    CHECK_EQ(weft_sleep(MS), 0);
    sim.sleep_at = ++sim.order;
    return 0;
}

/* A millisecond of virtual time does not pass while a job takes longer than that; and it is no deadlock. */
API_TEST(blocking_virtual_time_waits, "J7", .sched = "sim") {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *works, *sleeps;
    REQUIRE_EQ(weft_fiber_go(rt, sim_works, NULL, &works), 0);
    REQUIRE_EVENTUALLY(sim.entered);
    REQUIRE_EQ(weft_fiber_go(rt, sim_sleeps, NULL, &sleeps), 0);
    CHECK_EQ(weft_join(works, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_join(sleeps, NULL, WEFT_NEVER), 0);
    weft_task_drop(works);
    weft_task_drop(sleeps);
    CHECK_EQ(sim.job_at, 1);
    CHECK_EQ(sim.sleep_at, 2);
    fixture_end(rt);
}

/* A driven simulator too, with the wake function as only stimulus. */
API_TEST(blocking_driven, "", .workers = {1}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    weft_runtime *rt = fixture_begin(&config);
    REQUIRE_EQ(weft_fiber_go(rt, ask_square, (void *)3, NULL), 0);
    while (weft_stats_live(rt))
        CHECK_GE(weft_drive_wait(rt, 0, fixture_soon()), 0);
    fixture_end(rt);
}

/* -- A job that asks for another ---------------------------------------------------------------------------------- */

static int inner_job(void *arg) { return (int)(intptr_t)arg; }

/* In a pool of one thread, which this is. */
static int outer_job(void *arg) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    int result = 0;
    spec.pool = arg;
    spec.fn = inner_job;
    spec.arg = (void *)7;
    CHECK_EQ(weft_blocking_call(&spec, &result, WEFT_NEVER), 0);
    spec.abandon = spec.mandatory = true;
    CHECK_EQ(weft_blocking_call(&spec, NULL, WEFT_NEVER), 0);
    return result;
}

static int ask_for_both(void *arg) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    int result = 0;
    spec.pool = spec.arg = arg;
    spec.fn = outer_job;
    CHECK_EQ(weft_blocking_call(&spec, &result, WEFT_NEVER), 0);
    CHECK_EQ(result, 7);
    return 0;
}

API_TEST(blocking_nested_at_the_bound, "B57", .workers = {1, 2}) {
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    weft_pool *pool = NULL;
    config.threads_max = 1;
    REQUIRE_EQ(weft_pool_create(&config, &pool), 0);
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, ask_for_both, pool, &task), 0);
    fixture_finish(task);
    ask_for_both(pool); /* in a thread */
    fixture_end(rt);
    weft_pool_stats stats;
    weft_pool_stats_read(pool, &stats);
    CHECK_EQ(stats.completed, 2);
    CHECK_EQ(weft_pool_destroy(pool, WEFT_NEVER), 0);
}
