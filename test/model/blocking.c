/* blocking.c - the pool of threads: callers that wait, are late, or leave; threads that come and go; closing. */
#include "blocking/pool.h"

#include "model.h"
#include "model_rt.h"

static weft_pool *pool;
static int wrote;  /* plain: by the job, read by its caller */
static _Atomic int runs, drops;

static int job(void *arg) {
    add_relaxed(&runs, 1);
    if (arg)
        *(int *)arg = 5;
    return 3;
}

static void on_drop(void *arg) {
    (void)arg;
    add_relaxed(&drops, 1);
}

static void begin(unsigned max, unsigned min) {
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    config.threads_min = config.threads_max = max;
    mc_assert(weft_pool_create(&config, &pool) == 0);
    pool->min = min; /* also none */
}

static int call(void *arg, bool abandon, weft_deadline until) {
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = job;
    spec.arg = arg;
    spec.drop = on_drop;
    spec.pool = pool;
    spec.abandon = abandon;
    int result = 0, error = weft_blocking_call(&spec, &result, until);
    mc_assert(result == (error ? 0 : 3));
    return error;
}

static void call_one(void *unused) {
    (void)unused;
    int seen = 0; /* on the caller's stack */
    mc_assert(call(&seen, false, WEFT_NEVER) == 0);
    mc_assert(seen == 5);
}

static void destroy(void) { mc_assert(weft_pool_destroy(pool, WEFT_NEVER) == 0); }

/* -- Calls */

MC_TEST(blocking_call, .proves = "R2", .bound = 2, .seconds = 8) {
    begin(1, 1);
    mc_assert(call(&wrote, false, WEFT_NEVER) == 0);
    mc_assert(wrote == 5);
    mc_assert(call(NULL, false, WEFT_NEVER) == 0); /* the thread is idle, or about to be */
    destroy();
    mc_assert(load_relaxed(&runs) == 2 && load_relaxed(&drops) == 2);
}

static void two_callers(void) {
    begin((unsigned)mc_arg(), (unsigned)mc_arg());
    int other = mc_spawn(call_one, NULL);
    call_one(NULL);
    mc_join(other);
    destroy();
    mc_assert(load_relaxed(&runs) == 2 && load_relaxed(&drops) == 2);
}
MC_CASE(blocking_two_callers, two_callers, .arg = 1, .proves = "R2", .bound = 2, .stale_counts = true, .seconds = 8);
MC_CASE(blocking_two_threads, two_callers, .arg = 2, .proves = "R2", .mode = MC_PCT, .max_exec = 10000);

/* -- Threads that are idle too long, just when a job comes. */

static void keep_alive(void) {
    begin(1, 0);
    call_one(NULL);
    call_one(NULL);
    destroy();
    mc_assert(load_relaxed(&runs) == 2);
}
MC_CASE(blocking_keep_alive, keep_alive, .bound = 2, .stale_counts = true, .timeouts = 1, .seconds = 8);
MC_CASE(blocking_keep_alive_random, keep_alive, .mode = MC_PCT, .timeouts = 2, .max_exec = 10000);

/* The least stay, however long they are idle. */
MC_TEST(blocking_least_stay, .bound = 2, .stale_counts = true, .timeouts = 1, .seconds = 4) {
    begin(1, 1);
    call_one(NULL);
    wefti_thread_yield();
    weft_pool_stats stats;
    weft_pool_stats_read(pool, &stats);
    mc_assert(stats.threads == 1);
    destroy();
}

/* -- A caller that is late: taken out, or done; abandoned, or done. */

static void late(void) {
    begin(1, 1);
    int *memory = wefti_alloc(64);
    int error = call(mc_arg() ? NULL : memory, mc_arg(), 1000000000);
    wefti_free(memory, 64); /* nobody writes there any more */
    mc_assert(error == 0 || error == -ETIMEDOUT);
    destroy();
    mc_assert(load_relaxed(&drops) == 1); /* once, however it ended */
    mc_outcome("%s%s", error ? "late" : "done", load_relaxed(&runs) ? "-ran" : "");
}
MC_CASE(blocking_late, late, .arg = 0, .bound = 2, .stale_counts = true, .timeouts = 1, .seconds = 8,
        .outcomes = "late done-ran");
MC_CASE(blocking_abandon, late, .arg = 1, .bound = 2, .stale_counts = true, .timeouts = 1, .seconds = 8,
        .outcomes = "late late-ran done-ran");

/* -- No thread, or no second one. */

static void try_call(void *refused) {
    int error = call(NULL, false, WEFT_NEVER);
    mc_assert(error == 0 || error == -EAGAIN);
    *(int *)refused = error != 0;
}

MC_TEST(blocking_refused, .proves = "B57", .mode = MC_PCT, .failures = 2, .max_exec = 10000) {
    mc_atomic_begin();
    pool = wefti_alloc(sizeof *pool);
    mc_atomic_end();
    if (!pool)
        return;
    pool->max = 2;
    pool->keep_alive = INT64_MAX;
    int refused[2];
    int other = mc_spawn(try_call, &refused[0]);
    try_call(&refused[1]);
    mc_join(other);
    destroy();
    mc_assert(load_relaxed(&runs) == 2 - refused[0] - refused[1]);
}

/* -- Closing against a call. */

static void close_it(void *unused) {
    (void)unused;
    int error;
    do
        error = weft_pool_destroy(pool, WEFT_NOW);
    while (error == -EBUSY); /* time-outs strike when they like */
    mc_assert(error == 0 || error == -ECANCELED);
}

MC_TEST(blocking_close, .mode = MC_PCT, .timeouts = 3, .idle_timeouts = 20, .max_exec = 10000) {
    begin(1, 1);
    mc_atomic_begin(); /* who is refused must not come to a pool that is gone: two are accepted first */
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = job;
    spec.drop = on_drop;
    spec.pool = pool;
    mc_assert(weft_blocking_start(NULL, &spec) == 0);
    spec.mandatory = true;
    mc_assert(weft_blocking_start(NULL, &spec) == 0);
    mc_atomic_end();
    close_it(NULL);
    mc_assert(load_relaxed(&drops) == 2);
    mc_assert(load_relaxed(&runs) >= 1); /* the mandatory one */
}

/* Its caller waits, is told, and goes, while the pool is freed. */
static _Atomic int submitted;
static void call_or_be_dropped(void *unused) {
    (void)unused;
    struct wefti_job mine = {.fn = job, .drop = on_drop, .name = "mine"};
    mc_assert(wefti_waiter_init(&mine.waiter) == 0);
    mc_assert(wefti_pool_submit(pool, &mine) == 0);
    store_release(&submitted, 1);
    mc_assert(wefti_waiter_wait(&mine.waiter, WEFT_NEVER, "a job") == 0);
    mc_assert(mine.error == 0 || mine.error == -ECANCELED);
    mc_assert(load_relaxed(&runs) == (mine.error == 0));
    wefti_pool_call_end(pool);
}

MC_TEST(blocking_close_tells, .mode = MC_PCT, .timeouts = 2, .idle_timeouts = 20, .max_exec = 10000) {
    begin(1, 1);
    int caller = mc_spawn(call_or_be_dropped, NULL);
    while (!load_acquire(&submitted))
        wefti_relax();
    close_it(NULL);
    mc_join(caller);
    mc_assert(load_relaxed(&drops) == 1);
}

/* Who closes it waits for a job that its caller then takes out. */
static void call_late(void *unused) {
    (void)unused;
    struct wefti_job mine = {.fn = job, .name = "mine"};
    mc_assert(wefti_waiter_init(&mine.waiter) == 0);
    mc_assert(wefti_pool_submit(pool, &mine) == 0);
    store_release(&submitted, 1);
    if (wefti_waiter_wait(&mine.waiter, 1000000000, "a job") && !wefti_pool_remove(pool, &mine))
        wefti_waiter_settle(&mine.waiter);
    wefti_pool_call_end(pool);
}

MC_TEST(blocking_close_late, .bound = 2, .stale_counts = true, .timeouts = 1, .idle_timeouts = 20, .seconds = 8) {
    begin(1, 1);
    int caller = mc_spawn(call_late, NULL);
    while (!load_acquire(&submitted))
        wefti_relax();
    int error;
    while ((error = weft_pool_destroy(pool, WEFT_NEVER)) == -EBUSY)
        ;
    mc_assert(error == 0);
    mc_join(caller);
}

/* -- The runtime's pool is made once, by whoever comes first. */

static struct weft_runtime hand;

static void find_pool(void *found) {
    weft_pool *mine = weft_runtime_pool(&hand);
    mc_assert(mine && mine->max == 512 && mine->rt == &hand); /* plain: made before it was found */
    *(weft_pool **)found = mine;
}

MC_TEST(blocking_runtime_pool, .bound = 3) {
    weft_pool *found[3];
    int a = mc_spawn(find_pool, &found[0]), b = mc_spawn(find_pool, &found[1]);
    find_pool(&found[2]);
    mc_join(a);
    mc_join(b);
    mc_assert(found[0] == found[1] && found[1] == found[2]);
    mc_assert(found[0]->annex.stop(&found[0]->annex, WEFT_NOW) == 0 && found[0]->annex.end(&found[0]->annex) == 0);
}

/* -- With a runtime: a poll task waits, or is cancelled.  (Destroying it looks now and then for the last reference.) */

static weft_runtime *rt;
static int poll_saw;

struct polling {
    weft_wait wait;
};

static weft_poll poll_job(weft_task *self, void *state) {
    struct polling *p = state;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = job;
    spec.drop = on_drop;
    int result = 0, error = weft_blocking_poll(&spec, self, &p->wait, &result);
    if (error == -EAGAIN)
        return WEFT_PENDING;
    mc_assert(error == 0 && result == 3);
    poll_saw = result;
    return weft_done(self, 0, NULL);
}

static void end_polling(void *state) { weft_wait_end(&((struct polling *)state)->wait); }

static void poll_waits(void) {
    rt = model_open((weft_sched)(mc_arg() & 0xff), 1);
    weft_task *task;
    weft_spec spec = WEFT_SPEC_INIT;
    weft_result result;
    spec.poll = poll_job;
    spec.state_size = sizeof(struct polling);
    spec.drop = end_polling;
    mc_assert(weft_spawn(rt, &spec, &task) == 0);
    if (mc_arg() >> 8)
        weft_task_cancel(task);
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    mc_assert(result.status == -ECANCELED || poll_saw == 3);
    weft_task_drop(task);
    model_close(rt);
    mc_assert(load_relaxed(&drops) <= 1 && load_relaxed(&runs) <= load_relaxed(&drops));
}
MC_CASE(rt_blocking_poll, poll_waits, .arg = WEFT_SCHED_RING, .proves = "R23", .mode = MC_PCT, .max_exec = 5000,
        .idle_timeouts = 20);
MC_CASE(rt_blocking_poll_sim, poll_waits, .arg = WEFT_SCHED_SIM, .proves = "R23", .mode = MC_PCT, .max_exec = 5000,
        .idle_timeouts = 20);
MC_CASE(rt_blocking_cancel, poll_waits, .arg = 1 << 8 | WEFT_SCHED_RING, .mode = MC_PCT, .max_exec = 5000,
        .idle_timeouts = 20);
MC_CASE(rt_blocking_cancel_sim, poll_waits, .arg = 1 << 8 | WEFT_SCHED_SIM, .mode = MC_PCT, .max_exec = 5000,
        .idle_timeouts = 20);
MC_CASE(rt_blocking_poll_reactor, poll_waits, .arg = WEFT_SCHED_REACTOR, .proves = "R5 R6 R18 R23", .mode = MC_PCT,
        .max_exec = 2000, .idle_timeouts = 20);
MC_CASE(rt_blocking_cancel_reactor, poll_waits, .arg = 1 << 8 | WEFT_SCHED_REACTOR, .proves = "R5", .mode = MC_PCT,
        .max_exec = 2000, .idle_timeouts = 20);
