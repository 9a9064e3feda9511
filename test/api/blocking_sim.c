/* blocking_sim.c - blocking work under the simulator: its order comes from the seed, and its deadlines act; elsewhere too. */
#include "fixture.h"

#define MS INT64_C(1000000)
#define ON_SIM .sched = "sim"

/* -- A program that replays ------------------------------------------------------------------------------------------ */

enum { CALLERS = 6, CALLS = 5, EVENTS = CALLERS * CALLS * 3 };

struct program {
    int event[EVENTS]; /* plain: one at a time */
    int count;
    int64_t end_time;
    uint64_t hash;
};
struct caller {
    struct program *program;
    int number, step;
    bool asked;
    weft_wait wait;
};

static void note(struct program *p, int what) {
    if (p->count < EVENTS)
        p->event[p->count] = what;
    p->count++;
}

/* It takes as long as it likes, and another time longer. */
static int work(void *arg) {
    struct caller *c = arg;
    static _Atomic uint64_t noise = 1;
    for (uint64_t i = atomic_fetch_add(&noise, 7919) % 8; i; i--)
        harness_nap();
    note(c->program, 1000 + c->number);
    return c->step;
}

static int call_often(void *arg) {
    struct caller *c = arg;
    for (c->step = 0; c->step < CALLS; c->step++) {
        int result = -1;
        note(c->program, c->number);
        REQUIRE_EQ(weft_blocking(work, c, &result, WEFT_NEVER), 0);
        CHECK_EQ(result, c->step);
        note(c->program, 2000 + c->number);
    }
    return 0;
}

static weft_poll poll_often(weft_task *self, void *arg) {
    struct caller *c = *(struct caller **)arg;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = work;
    spec.arg = c;
    for (;;) {
        if (!c->asked)
            note(c->program, c->number);
        c->asked = true;
        int result = -1, error = weft_blocking_poll(&spec, self, &c->wait, &result);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        REQUIRE_EQ(error, 0);
        CHECK_EQ(result, c->step);
        note(c->program, 2000 + c->number);
        c->asked = false;
        if (++c->step == CALLS)
            return weft_done(self, 0, NULL);
    }
}

static int run_program(void *arg) {
    struct program *p = arg;
    struct caller caller[CALLERS];
    weft_task *task[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        caller[i] = (struct caller){.program = p, .number = i};
        struct caller *at = &caller[i];
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = poll_often;
        spec.state = &at;
        spec.state_size = sizeof at;
        if (i % 2)
            REQUIRE_EQ(weft_spawn(NULL, &spec, &task[i]), 0);
        else
            REQUIRE_EQ(weft_fiber_go(NULL, call_often, at, &task[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        CHECK_EQ(weft_join(task[i], NULL, WEFT_NEVER), 0);
        weft_task_drop(task[i]);
    }
    p->end_time = weft_now();
    p->hash = weft_sim_hash(weft_runtime_current());
    return 0;
}

static struct program in_sim(uint64_t seed) {
    struct program p = {.count = 0};
    weft_config config = WEFT_CONFIG_INIT;
    config.sched = WEFT_SCHED_SIM;
    config.seed = seed;
    weft_runtime *rt = fixture_begin(&config);
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, run_program, &p, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
    CHECK_EQ(p.count, EVENTS);
    return p;
}

API_TEST(blocking_replays, "J6", ON_SIM) {
    bool differ = false;
    struct program first = in_sim(1);
    for (uint64_t seed = 1; seed <= (harness_is_slow() ? 3 : 8); seed++) {
        struct program a = in_sim(seed), b = in_sim(seed);
        CHECK_EQ(a.hash, b.hash);
        CHECK_EQ(a.end_time, b.end_time);
        CHECK_EQ(memcmp(a.event, b.event, sizeof a.event), 0);
        differ |= memcmp(a.event, first.event, sizeof a.event) != 0;
    }
    CHECK(differ);
}

/* -- Deadlines ------------------------------------------------------------------------------------------------------- */

struct counting {
    atomic_int ran, dropped;
    atomic_bool entered, release;
};

static int count_it(void *arg) {
    struct counting *c = arg;
    return atomic_fetch_add(&c->ran, 1);
}

static void on_drop(void *arg) { atomic_fetch_add(&((struct counting *)arg)->dropped, 1); }

/* Half a millisecond, when up to one is drawn until it begins: some are late, and those have not run. */
static int hurry(void *arg) {
    struct counting *c = arg;
    int late = 0;
    for (int i = 0; i < 100; i++) {
        weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
        spec.fn = count_it;
        spec.arg = c;
        spec.drop = on_drop;
        int before = atomic_load(&c->ran), result = -1;
        int error = weft_blocking_call(&spec, &result, weft_after(i % 2 ? 3600000 * MS : MS / 2));
        CHECK_EQ(atomic_load(&c->dropped), i + 1);
        if (error) {
            CHECK_EQ(error, -ETIMEDOUT);
            CHECK_EQ(atomic_load(&c->ran), before);
            late++;
        } else {
            CHECK_EQ(result, before);
            CHECK_EQ(atomic_load(&c->ran), before + 1);
        }
    }
    CHECK_GT(late, 0);
    CHECK_LE(late, 50);
    return 0;
}

API_TEST(blocking_sim_deadlines, "J6", ON_SIM) {
    weft_runtime *rt = fixture_begin_patient();
    struct counting c = {0};
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, hurry, &c, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* One that runs when its deadline passes is waited for; one that is queued behind it is taken out.  On every scheduler. */
static int hold(void *arg) {
    struct counting *c = arg;
    atomic_store(&c->entered, true);
    while (!atomic_load(&c->release))
        harness_nap();
    return atomic_fetch_add(&c->ran, 1) + 41;
}

struct two {
    struct counting running, queued;
    weft_pool *pool;
};

static int caller_of_running(void *arg) {
    struct two *two = arg;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    int result = -1;
    spec.fn = hold;
    spec.arg = &two->running;
    spec.drop = on_drop;
    spec.pool = two->pool;
    CHECK_EQ(weft_blocking_call(&spec, &result, weft_after(20 * MS)), 0);
    CHECK_EQ(result, 41);
    return 0;
}

static int caller_of_queued(void *arg) {
    struct two *two = arg;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = hold;
    spec.arg = &two->queued;
    spec.drop = on_drop;
    spec.pool = two->pool;
    CHECK_EQ(weft_blocking_call(&spec, NULL, weft_after(20 * MS)), -ETIMEDOUT);
    CHECK_EQ(two->queued.ran, 0);
    CHECK_EQ(two->queued.dropped, 1);
    CHECK_EQ(two->running.ran, 0);
    atomic_store(&two->running.release, true);
    return 0;
}

API_TEST(blocking_late_both, "", .workers = {1, 2}) {
    if (fixture_on("sim"))
        SKIP("a job that waits for the next one's deadline keeps virtual time where it is");
    weft_runtime *rt = fixture_begin_patient();
    weft_pool_config config = WEFT_POOL_CONFIG_INIT;
    config.threads_max = 1;
    struct two two = {.pool = NULL};
    REQUIRE_EQ(weft_pool_create(&config, &two.pool), 0);
    weft_task *first, *second;
    REQUIRE_EQ(weft_fiber_go(rt, caller_of_running, &two, &first), 0);
    REQUIRE_EVENTUALLY(two.running.entered);
    REQUIRE_EQ(weft_fiber_go(rt, caller_of_queued, &two, &second), 0);
    fixture_finish(second);
    fixture_finish(first);
    fixture_end(rt);
    CHECK_EQ(weft_pool_destroy(two.pool, fixture_soon()), 0);
    CHECK_EQ(two.running.ran, 1);
    CHECK_EQ(two.running.dropped, 1);
}

/* A caller that may leave does so at its deadline, also when the job does not end: virtual time goes there. */
static int leave_it(void *arg) {
    struct counting *c = arg;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    spec.fn = hold;
    spec.arg = c;
    spec.drop = on_drop;
    spec.abandon = true;
    CHECK_EQ(weft_blocking_call(&spec, NULL, weft_after(50 * MS)), -ETIMEDOUT);
    CHECK_EQ(c->ran, 0);
    return 0;
}

API_TEST(blocking_late_abandoned, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct counting c = {0};
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, leave_it, &c, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK(c.entered);
    c.release = true;
    fixture_end(rt);
    CHECK_EQ(c.ran, 1);
    CHECK_EQ(c.dropped, 1);
}
