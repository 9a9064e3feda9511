/* blocking_turn.c - a simulation that waits for a job, and for how long. */
#include "blocking/pool.h"

#include "model.h"
#include "sched/sched.h"

#define SOON INT64_C(1000000)

static weft_pool *pool;
static struct weft_runtime rt;
static struct wefti_worker worker;
static int wrote; /* plain: by the job, read by who waited for it */
static _Atomic int runs, drops;

static int job(void *arg) {
    *(int *)arg = 5;
    add_relaxed(&runs, 1);
    return 3;
}

static void on_drop(void *arg) {
    (void)arg;
    add_relaxed(&drops, 1);
}

static int nothing(void *arg) {
    (void)arg;
    return 0;
}

/* own: it is the runtime's.  idle: with a thread that is, or else one is to be started. */
static void begin(bool own, bool idle) {
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    config.threads_min = config.threads_max = 1;
    mc_assert(weft_pool_create(&config, &pool) == 0);
    rt.sched = &wefti_sched_sim;
    rt.workers = rt.idle.workers = 1;
    rt.worker = &worker;
    rt.driven = worker.driven = true;
    worker.rt = &rt;
    worker.sched = rt.sched;
    store_relaxed(&worker.timers_next, INT64_MAX);
    mc_assert(wefti_sim_init(&rt) == 0);
    if (own)
        pool->rt = &rt;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = nothing;
    spec.pool = pool;
    if (idle)
        mc_assert(weft_blocking_call(&spec, NULL, WEFT_NEVER) == 0);
}

/* As wefti_pool_submit, but for the turn: we are that. */
static void hold(void) {
    struct wefti_job *held = wefti_alloc(sizeof *held);
    *held = (struct wefti_job){.fn = job,
                               .arg = &wrote,
                               .drop = on_drop,
                               .name = "job",
                               .state = WEFTI_JOB_QUEUED,
                               .detached = true,
                               .pool = pool,
                               .sim = &rt,
                               .held = true};
    wefti_lock_take(&pool->lock);
    pool->queue = (struct wefti_job_list){held, held, 1};
    wefti_lock_give(&pool->lock);
}

static void end(void) {
    mc_assert(weft_pool_destroy(pool, WEFT_NEVER) == 0);
    mc_assert(load_relaxed(&runs) == 1 && load_relaxed(&drops) == 1);
    mc_assert(wefti_sim_idle(&worker, SOON)); /* nothing is outside any more: the clock is virtual again */
    mc_assert(wefti_sim_clock(&rt) == SOON);
    wefti_sim_fini(&rt);
}

enum { OWN = 1, IDLE = 2, CANCELLED = 4 };

static void turn(void) {
    struct wefti_gate *gate = wefti_alloc(sizeof *gate); /* so that a late use of it is seen */
    begin(mc_arg() & OWN, mc_arg() & IDLE);
    hold();
    mc_assert(wefti_pool_release(pool, &rt, gate));
    mc_assert(!wefti_pool_release(pool, &rt, gate)); /* there is one only */
    bool ended = wefti_turn_wait(pool, gate);
    wefti_free(gate, sizeof *gate);
    mc_assert(!ended || wrote == 5);
    mc_outcome("%s", ended ? "ended" : "late");
    end();
}
MC_CASE(blocking_turn, turn, .arg = OWN, .proves = "J7", .bound = 2, .stale_counts = true, .timeouts = 1, .seconds = 6,
        .outcomes = "ended late");
MC_CASE(blocking_turn_idle, turn, .arg = OWN | IDLE, .proves = "J7", .bound = 2, .stale_counts = true, .seconds = 4);
MC_CASE(blocking_turn_elsewhere, turn, .arg = 0, .proves = "J7", .bound = 2, .stale_counts = true, .timeouts = 1,
        .seconds = 6, .outcomes = "ended late");

/* A turn that was cancelled does not wait; nor does one come to a pool that is closed by who drives the runtime. */
static void no_turn(void) {
    begin(true, mc_arg() & IDLE);
    hold();
    if (mc_arg() & CANCELLED)
        mc_assert(wefti_pool_release(pool, &rt, NULL));
    end();
}
MC_CASE(blocking_turn_cancelled, no_turn, .arg = CANCELLED, .bound = 2, .stale_counts = true, .seconds = 4);
MC_CASE(blocking_turn_driven, no_turn, .arg = 0, .bound = 2, .stale_counts = true, .seconds = 4);
MC_CASE(blocking_turn_driven_idle, no_turn, .arg = IDLE, .bound = 2, .stale_counts = true, .seconds = 4);
