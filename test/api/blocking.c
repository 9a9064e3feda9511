/* blocking.c - blocking work on pools of threads: results, bounds, late and cancelled callers, the end. */
#include "fixture.h"

#define MS INT64_C(1000000)

static weft_pool_stats stats_of(weft_pool *pool) {
    weft_pool_stats stats;
    weft_pool_stats_read(pool, &stats);
    return stats;
}

static weft_pool *begin_pool(unsigned min, unsigned max, unsigned queue, int64_t keep_alive) {
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    weft_pool *pool = NULL;
    config.name = "hands";
    config.threads_min = min;
    config.threads_max = max;
    config.queue_max = queue;
    config.keep_alive_ns = keep_alive;
    REQUIRE_EQ(weft_pool_create(&config, &pool), 0);
    return pool;
}

static void end_pool(weft_pool *pool) {
    CHECK_EQ(weft_pool_destroy(pool, fixture_soon()), 0);
    REQUIRE_EVENTUALLY(fixture_threads("hands-") == 0);
}

/* A job that stays in its thread until it is let go, and counts what was done with it. */
struct job {
    atomic_bool entered, release;
    atomic_uint ran, dropped;
};

static int hold(void *arg) {
    struct job *job = arg;
    atomic_store(&job->entered, true);
    while (!atomic_load(&job->release))
        harness_nap();
    return (int)atomic_fetch_add(&job->ran, 1) + 41;
}

static void on_drop(void *arg) { atomic_fetch_add(&((struct job *)arg)->dropped, 1); }

static weft_blocking_spec spec_of(weft_pool *pool, struct job *job) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = hold;
    spec.arg = job;
    spec.drop = on_drop;
    spec.name = "holder";
    spec.pool = pool;
    return spec;
}

/* Keep the one thread of a pool busy. */
static void occupy(weft_pool *pool, struct job *job) {
    weft_blocking_spec spec = spec_of(pool, job);
    REQUIRE_EQ(weft_blocking_start(NULL, &spec), 0);
    REQUIRE_EVENTUALLY(job->entered);
}

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
    weft_runtime *rt = fixture_begin_patient();
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

/* -- Late and cancelled callers ------------------------------------------------------------------------------------- */

struct asking {
    weft_blocking_spec spec;
    int64_t ns; /* 0: for ever */
    int error, result, after;
    atomic_bool asked, left;
};

static int ask(void *arg) {
    struct asking *a = arg;
    atomic_store(&a->asked, true);
    a->error = weft_blocking_call(&a->spec, &a->result, a->ns ? weft_after(a->ns) : WEFT_NEVER);
    atomic_store(&a->left, true);
    a->after = weft_sleep(1);
    return 0;
}

static weft_task *start_asking(weft_runtime *rt, struct asking *a) {
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, ask, a, &task), 0);
    return task;
}

API_TEST(blocking_late_in_queue, "", .workers = {1, 2}) {
    if (fixture_on("sim"))
        SKIP("its clock stands still while somebody waits for a job");
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job first = {0}, second = {0};
    occupy(pool, &first);
    struct asking a = {.spec = spec_of(pool, &second), .ns = 3 * MS};
    fixture_finish(start_asking(rt, &a));
    CHECK_EQ(a.error, -ETIMEDOUT);
    CHECK_EQ(a.after, 0);
    CHECK_EQ(second.dropped, 1);
    CHECK_EQ(weft_blocking_call(&a.spec, NULL, harness_clock() + 2 * MS), -ETIMEDOUT); /* a plain thread */
    CHECK_EQ(second.dropped, 2);
    CHECK_EQ(stats_of(pool).queued, 0);
    first.release = true;
    fixture_end(rt);
    end_pool(pool);
    CHECK_EQ(second.ran, 0);
    CHECK_EQ(first.ran, 1);
    CHECK_EQ(first.dropped, 1);
}

API_TEST(blocking_cancelled_in_queue, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job first = {0}, second = {0};
    occupy(pool, &first);
    struct asking a = {.spec = spec_of(pool, &second)};
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(stats_of(pool).queued == 1);
    weft_task_cancel(task);
    fixture_finish(task);
    CHECK_EQ(a.error, -ECANCELED);
    CHECK_EQ(a.after, -ECANCELED);
    CHECK_EQ(second.dropped, 1);
    first.release = true;
    fixture_end(rt);
    end_pool(pool);
    CHECK_EQ(second.ran, 0);
}

/* What runs is waited for: the argument is the caller's. */
API_TEST(blocking_cancelled_while_running, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job job = {0};
    struct asking a = {.spec = spec_of(pool, &job)};
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(job.entered);
    weft_task_cancel(task);
    for (int i = 0; i < 20; i++)
        harness_nap();
    CHECK(!a.left);
    job.release = true;
    fixture_finish(task);
    CHECK_EQ(a.error, 0);
    CHECK_EQ(a.result, 41);
    CHECK_EQ(a.after, -ECANCELED); /* it learns of it now */
    CHECK_EQ(job.dropped, 1);
    fixture_end(rt);
    end_pool(pool);
}

/* Unless it may be abandoned. */
API_TEST(blocking_abandoned, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job job = {0};
    struct asking a = {.spec = spec_of(pool, &job)};
    a.spec.abandon = true;
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(job.entered);
    weft_task_cancel(task);
    fixture_finish(task);
    CHECK_EQ(a.error, -ECANCELED);
    CHECK_EQ(job.dropped, 0);
    fixture_end(rt); /* the pool is not the runtime's */
    CHECK_EQ(weft_blocking_call(
                 &(weft_blocking_spec){.size = sizeof a.spec, .fn = hold, .arg = &job, .pool = pool, .abandon = true},
                 NULL, harness_clock() + 2 * MS),
             -ETIMEDOUT);
    job.release = true;
    end_pool(pool);
    CHECK_EQ(job.ran, 1);
    CHECK_EQ(job.dropped, 1);
}

/* A mandatory job is run whatever becomes of its caller. */
API_TEST(blocking_mandatory_cancelled, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job first = {0}, second = {.release = true};
    occupy(pool, &first);
    struct asking a = {.spec = spec_of(pool, &second)};
    a.spec.mandatory = true;
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(stats_of(pool).queued == 1);
    weft_task_cancel(task);
    for (int i = 0; i < 20; i++)
        harness_nap();
    CHECK(!a.left);
    first.release = true;
    fixture_finish(task);
    CHECK_EQ(a.error, 0);
    CHECK_EQ(second.ran, 1);
    fixture_end(rt);
    end_pool(pool);
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
    weft_pool *pool = begin_pool(1, 1, 1, 0);
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
    CHECK_EQ(stats_of(pool).completed, JOBS);
    CHECK_EQ(more.dropped, 0);
    /* And back again. */
    struct job again = {.release = true};
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

/* -- The end ---------------------------------------------------------------------------------------------------------- */

/* Everything accepted is done, if there is time. */
API_TEST(blocking_stop_waits, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct job job[8] = {{0}};
    for (int i = 0; i < 8; i++) {
        weft_blocking_spec spec = spec_of(NULL, &job[i]);
        job[i].release = i > 0;
        REQUIRE_EQ(weft_blocking_start(rt, &spec), 0);
        REQUIRE_EVENTUALLY(job[i].entered);
    }
    CHECK_EQ(weft_runtime_stop(rt, harness_clock() + MS), -EBUSY); /* the first one runs */
    CHECK_EQ(weft_blocking_start(rt, &(weft_blocking_spec){.size = sizeof(weft_blocking_spec), .fn = hold}),
             -ESHUTDOWN);
    job[0].release = true;
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(job[i].dropped, 1);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    REQUIRE_EVENTUALLY(fixture_threads("crew-") == 0);
}

/* What fn(arg) writes to stderr. */
static const char *said_by(void (*fn)(void *arg), void *arg) {
    static char text[4096];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    REQUIRE(file && before >= 0);
    dup2(fileno(file), STDERR_FILENO);
    fn(arg);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void stop_busy(void *rt) { CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -EBUSY); }
static void destroy_busy(void *pool) { CHECK_EQ(weft_pool_destroy(pool, WEFT_NOW), -EBUSY); }

/* A job that does not end is named: both when a fiber waits for it, and when nobody does. */
API_TEST(blocking_names_the_stuck, "R36", .workers = {2}, .timeout = 40) {
    weft_runtime *rt = fixture_begin_patient();
    struct job job = {0};
    struct asking a = {.spec = spec_of(NULL, &job)};
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(job.entered);
    REQUIRE_CONTAINS(said_by(stop_busy, rt), "job \"holder\" has been running for");
    job.release = true;
    fixture_finish(task);
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    weft_pool *pool = begin_pool(1, 1, 0, 0);
    struct job other = {0};
    occupy(pool, &other);
    REQUIRE_CONTAINS(said_by(destroy_busy, pool), "weft: pool \"hands\": job \"holder\" has been running for");
    other.release = true;
    end_pool(pool);
    CHECK_EQ(other.dropped, 1);
}

static void release_first(unsigned index, void *arg) {
    struct job *job = arg;
    if (index == 0) {
        CHECK_EQ(weft_pool_destroy(crowded, WEFT_NOW), -ECANCELED);
    } else {
        REQUIRE_EVENTUALLY(job[1].dropped == 1); /* dropped although nothing else has ended yet */
        CHECK_EQ(job[2].dropped, 0);
        job[0].release = true;
    }
}

/* Closed at once: what has not begun is dropped, but for what is mandatory. */
API_TEST(blocking_mandatory, "B57", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    crowded = begin_pool(1, 1, 0, 0);
    static struct job job[4];
    occupy(crowded, &job[0]);
    weft_blocking_spec spec = spec_of(crowded, &job[1]);
    REQUIRE_EQ(weft_blocking_start(rt, &spec), 0);
    spec = spec_of(crowded, &job[2]);
    spec.mandatory = true;
    job[2].release = true;
    REQUIRE_EQ(weft_blocking_start(rt, &spec), 0);
    struct asking a = {.spec = spec_of(crowded, &job[3])};
    weft_task *task = start_asking(rt, &a);
    REQUIRE_EVENTUALLY(stats_of(crowded).queued == 3);
    harness_threads(2, release_first, job);
    fixture_finish(task);
    CHECK_EQ(a.error, -ECANCELED); /* its job was dropped */
    CHECK_EQ(a.after, 0); /* it was not cancelled itself */
    CHECK_EQ(job[0].ran, 1);
    CHECK_EQ(job[1].ran, 0);
    CHECK_EQ(job[2].ran, 1);
    CHECK_EQ(job[3].ran, 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(job[i].dropped, 1);
    fixture_end(rt);
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
