/* blocking_control.c - jobs that pass through a control thread: routed, completed, withdrawn, left, and closed. */
#include "blocking/pool.h"

#include "fake_reactor.h"

static weft_pool *pool;
static _Atomic int runs, served_all;

static int run(void *arg) {
    add_relaxed(&runs, 1);
    *(int *)arg = 5;
    return 3;
}

static void begin(void) {
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    config.threads_min = config.threads_max = 1;
    fake_begin(1);
    mc_assert(weft_pool_create(&config, &pool) == 0);
}

static void end(void) {
    mc_assert(weft_pool_destroy(pool, WEFT_NEVER) == 0);
    fake_end();
}

/* A job as a fiber of the fake runtime submits it; its caller is this thread. */
static struct wefti_job *submit(int *wrote, bool mandatory) {
    struct wefti_job *job = wefti_alloc(sizeof *job);
    *job = (struct wefti_job){
        .fn = run, .arg = wrote, .name = "mine", .mandatory = mandatory, .held = true, .control = &fake};
    job->io.route = wefti_job_route;
    job->io.complete = wefti_job_return;
    mc_assert(wefti_waiter_init(&job->waiter) == 0);
    mc_assert(wefti_pool_submit(pool, job) == 0);
    return job;
}

static void leave(struct wefti_job *job) {
    wefti_free(job, sizeof *job);
    wefti_pool_call_end(pool);
}

static void abandon(struct wefti_job *job) {
    if (wefti_pool_abandon(pool, job)) {
        wefti_pool_call_end(pool);
    } else {
        wefti_waiter_settle(&job->waiter);
        leave(job);
    }
}

/* Rounds until the caller has been served. */
static void control(void *unused) {
    (void)unused;
    while (!load_acquire(&served_all))
        wait_and_turn();
}

static void stop_control(int thread) {
    store_release(&served_all, 1);
    wefti_park_wake(&fake.control->park);
    mc_join(thread);
}

/* Accepted, routed, run, completed: each comes with a wake. */
MC_TEST(control_job, .proves = "R5 R6 R12 R18", .bound = 2, .seconds = 6) {
    begin();
    int wrote = 0, a = mc_spawn(control, NULL);
    struct wefti_job *job = submit(&wrote, false);
    mc_assert(wefti_waiter_wait(&job->waiter, WEFT_NEVER, "a job") == 0);
    mc_assert(job->result == 3 && wrote == 5 && job->state == WEFTI_JOB_ENDED);
    leave(job);
    stop_control(a);
    mc_assert(load_relaxed(&runs) == 1);
    mc_assert(load_relaxed(&fake.reactor->now_is.items[1]) == 1 && load_relaxed(&fake.reactor->now_is.items[2]) == 1);
    end();
}

/* Withdrawn while it is queued, on its way to the pool, or there: it never runs, and its memory may go; or it runs, and is waited for. */
MC_TEST(control_job_withdrawn, .proves = "R5", .bound = 3, .seconds = 6) {
    begin();
    int wrote = 0, a = mc_spawn(control, NULL);
    struct wefti_job *job = submit(&wrote, false);
    bool removed = wefti_pool_remove(pool, job);
    if (!removed)
        mc_assert(wefti_waiter_wait(&job->waiter, WEFT_NEVER, "a job") == 0);
    leave(job);
    mc_assert(load_relaxed(&runs) == !removed);
    stop_control(a);
    end();
    mc_outcome(removed ? "withdrawn" : "ran");
}

/* Left by its caller at any time: whoever ends it frees it. */
static void job_left(void) {
    begin();
    static int wrote;
    int a = mc_spawn(control, NULL);
    struct wefti_job *job = submit(&wrote, mc_arg());
    abandon(job);
    mc_assert(wefti_pool_close(pool, WEFT_NEVER) == 0);
    stop_control(a);
    mc_assert(load_relaxed(&runs) == 1);
    mc_assert(wefti_pool_end(pool) == 0);
    fake_end();
}
MC_CASE(control_job_left, job_left, .arg = 0, .bound = 2, .seconds = 4);
MC_CASE(control_job_left_mandatory, job_left, .arg = 1, .bound = 2, .seconds = 4);

/* The same in the runtime's own pool, where its end passes through the control thread though nobody waits for it. */
MC_TEST(control_job_left_own, .bound = 2, .seconds = 4) {
    begin();
    static int wrote;
    pool->rt = &fake;
    int a = mc_spawn(control, NULL);
    struct wefti_job *job = submit(&wrote, true);
    abandon(job);
    mc_assert(wefti_pool_close(pool, WEFT_NEVER) == 0);
    stop_control(a);
    mc_assert(load_relaxed(&runs) == 1);
    mc_assert(load_relaxed(&fake.reactor->now_is.items[2]) == 1);
    mc_assert(wefti_pool_end(pool) == 0);
    fake_end();
}

/* Closing drops what is queued, once the control thread has routed it, and the caller learns of it from step 3. */
static void close_now(void *unused) {
    (void)unused;
    int error = wefti_pool_close(pool, WEFT_NOW);
    mc_assert(error == 0 || error == -ECANCELED);
}

MC_TEST(control_job_dropped, .proves = "R6", .mode = MC_PCT, .max_exec = 10000) {
    begin();
    int wrote = 0, a = mc_spawn(control, NULL);
    struct wefti_job *job = submit(&wrote, false);
    int b = mc_spawn(close_now, NULL);
    mc_assert(wefti_waiter_wait(&job->waiter, WEFT_NEVER, "a job") == 0);
    mc_assert(job->error == 0 ? wrote == 5 : job->error == -ECANCELED && wrote == 0);
    leave(job);
    mc_join(b);
    stop_control(a);
    mc_assert(wefti_pool_end(pool) == 0);
    fake_end();
}

/* A thread that is idle is woken by the route. */
MC_TEST(control_job_wakes_idle, .proves = "R5", .bound = 2, .seconds = 6) {
    begin();
    int wrote = 0, a = mc_spawn(control, NULL);
    for (int i = 0; i < 2; i++) {
        struct wefti_job *job = submit(&wrote, false);
        mc_assert(wefti_waiter_wait(&job->waiter, WEFT_NEVER, "a job") == 0);
        leave(job);
    }
    stop_control(a);
    mc_assert(load_relaxed(&runs) == 2);
    end();
}
