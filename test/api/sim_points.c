/* sim_points.c - under sim, calls that need not wait let others run now and then: what that finds, that it is replayed, and what it leaves alone. */
#include "fixture.h"

#define SEEDS 200

struct run {
    weft_fiber_fn fn;
    uint64_t seed;
    int32_t points;
    int status; /* of weft_fiber_run */
    uint64_t hash; /* of the simulation, before its last end */
};

static struct run now;

static int remember(void *arg) {
    int status = now.fn(arg);
    now.hash = weft_sim_hash(weft_runtime_current());
    return status;
}

static void simulate(void *arg) {
    weft_config config = WEFT_CONFIG_INIT;
    (void)arg;
    config.sched = WEFT_SCHED_SIM;
    config.seed = now.seed;
    config.sim_points = now.points;
    weft_result result = {0, NULL};
    now.hash = 0;
    now.status = weft_fiber_run(&config, remember, NULL, &result);
}

/* What it writes when it finds a deadlock. */
static const char *run(weft_fiber_fn fn, uint64_t seed, int32_t points) {
    now = (struct run){.fn = fn, .seed = seed, .points = points};
    return fixture_said(simulate, NULL);
}

static weft_task *go(weft_fiber_fn fn, void *arg) {
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(NULL, fn, arg, &task), 0);
    return task;
}

static int finish(weft_task *task) {
    weft_result result = {1, NULL};
    int error = weft_join(task, &result, WEFT_NEVER);
    weft_task_drop(task);
    return error ? error : result.status;
}

/* -- Two locks in different orders ------------------------------------------------------------------------------------- */

static weft_mutex first, second;

static int lock_both(void *swapped) {
    weft_mutex *a = swapped ? &second : &first, *b = swapped ? &first : &second;
    for (int i = 0; i < 20; i++) {
        int error = weft_mutex_lock(a, WEFT_NEVER);
        if (error)
            return error;
        error = weft_mutex_lock(b, WEFT_NEVER);
        if (!error)
            weft_mutex_unlock(b);
        weft_mutex_unlock(a);
        if (error)
            return error;
    }
    return 0;
}

static int two_orders(void *arg) {
    (void)arg;
    weft_task *one = go(lock_both, NULL), *two = go(lock_both, &first);
    int status = finish(one);
    finish(two);
    return status;
}

static int deadlocks(int32_t points) {
    int found = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        first = second = (weft_mutex)WEFT_MUTEX_INIT;
        found += strstr(run(two_orders, seed, points), "weft: deadlock") != NULL;
    }
    return found;
}

TEST(sim_points_find_lock_order, "J6 J7") {
    CHECK_GT(deadlocks(0), SEEDS * 3 / 4); /* by default */
    CHECK_EQ(deadlocks(-1), 0);
}

/* -- The same of poll tasks ---------------------------------------------------------------------------------------------- */

struct both {
    weft_mutex *lock[2];
    int held;
    weft_wait wait;
};

static weft_poll poll_both(weft_task *self, void *state) {
    struct both *both = state;
    for (int error; both->held < 2; both->held++)
        if ((error = weft_mutex_lock_poll(both->lock[both->held], self, &both->wait)))
            return error == -EAGAIN ? WEFT_PENDING : weft_done(self, error, NULL);
    weft_mutex_unlock(both->lock[1]);
    weft_mutex_unlock(both->lock[0]);
    both->held = 0;
    return weft_done(self, 0, NULL);
}

static void end_both(void *state) {
    struct both *both = state;
    weft_wait_end(&both->wait);
    while (both->held)
        weft_mutex_unlock(both->lock[--both->held]);
}

static int two_polls(void *arg) {
    (void)arg;
    int status = 0;
    for (int i = 0; i < 20 && !status; i++) {
        weft_task *task[2];
        for (int k = 0; k < 2; k++) {
            struct both both = {{k ? &second : &first, k ? &first : &second}, 0, {{0}}};
            weft_spec spec = WEFT_SPEC_INIT;
            spec.poll = poll_both;
            spec.drop = end_both;
            spec.state = &both;
            spec.state_size = sizeof both;
            REQUIRE_EQ(weft_spawn(NULL, &spec, &task[k]), 0);
        }
        status = finish(task[0]);
        finish(task[1]);
    }
    return status;
}

TEST(sim_points_in_polls, "J6 J7") {
    int found = 0;
    for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
        first = second = (weft_mutex)WEFT_MUTEX_INIT;
        found += strstr(run(two_polls, seed, 0), "weft: deadlock") != NULL;
    }
    CHECK_GT(found, SEEDS / 20);
}

/* -- Replay ------------------------------------------------------------------------------------------------------------- */

static weft_chan *values;
static int log_of[64], logged;

static int produce(void *number) {
    for (int i = 0; i < 16; i++) {
        int value = (int)(intptr_t)number;
        REQUIRE_EQ(weft_chan_send(values, &value, WEFT_NEVER), 0); /* it has room: it need not wait */
    }
    return 0;
}

static int producers(void *arg) {
    (void)arg;
    weft_task *task[4];
    logged = 0;
    REQUIRE_EQ(weft_chan_create(sizeof(int), 64, &values), 0);
    for (int i = 0; i < 4; i++)
        task[i] = go(produce, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(finish(task[i]), 0);
    while (weft_chan_recv(values, &log_of[logged], WEFT_NOW) == 0)
        logged++;
    return weft_chan_destroy(values);
}

TEST(sim_points_replay, "J6") {
    uint64_t hashes[20];
    int orders[20][64], mixed = 0;
    for (int i = 0; i < 20; i++) {
        for (int again = 0; again < 2; again++) {
            run(producers, (uint64_t)i + 1, 0);
            REQUIRE_EQ(now.status, 0);
            REQUIRE_EQ(logged, 64);
            if (again) {
                CHECK_EQ(now.hash, hashes[i]);
                CHECK(!memcmp(orders[i], log_of, sizeof log_of));
            }
            hashes[i] = now.hash;
            memcpy(orders[i], log_of, sizeof log_of);
        }
        int runs = 1;
        for (int k = 1; k < 64; k++)
            runs += log_of[k] != log_of[k - 1];
        mixed += runs > 4; /* one producer was interrupted by another */
    }
    CHECK_EQ(mixed, 20);
    run(producers, 1, -1);
    for (int k = 1; k < 64; k++)
        CHECK(k % 16 == 0 || log_of[k] == log_of[k - 1]); /* without points each is alone until it ends */
}

/* -- What never suspends, and whoever is alone ---------------------------------------------------------------------------- */

static atomic_bool ran;
static int run_once(void *arg) {
    (void)arg;
    atomic_store(&ran, true);
    return 0;
}

static int never_suspends(void *arg) {
    (void)arg;
    weft_mutex mutex = WEFT_MUTEX_INIT;
    weft_sem sem;
    weft_sem_init(&sem, 0);
    atomic_store(&ran, false);
    weft_task *other = go(run_once, NULL);
    for (int i = 0; i < 1000; i++) {
        REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NOW), 0);
        REQUIRE_EQ(weft_mutex_unlock(&mutex), 0);
        REQUIRE_EQ(weft_sem_release(&sem, 1), 0);
    }
    weft_preempt_off();
    for (int i = 0; i < 1000; i++) {
        REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_mutex_unlock(&mutex), 0);
    }
    weft_preempt_on();
    CHECK(!atomic_load(&ran));
    for (int i = 0; i < 1000 && !atomic_load(&ran); i++) {
        REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_mutex_unlock(&mutex), 0);
    }
    CHECK(atomic_load(&ran));
    REQUIRE_EQ(finish(other), 0);
    int64_t before = weft_now();
    for (int i = 0; i < 1000; i++) {
        REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_mutex_unlock(&mutex), 0);
    }
    CHECK_EQ(weft_now(), before); /* virtual time stands still */
    return 0;
}

TEST(sim_points_where_none_are, "J6 R32") {
    run(never_suspends, 1, 0);
    CHECK_EQ(now.status, 0);
}

/* -- The environment ---------------------------------------------------------------------------------------------------- */

TEST(sim_points_from_the_environment, "") {
    weft_runtime *rt;
    weft_config config = WEFT_CONFIG_INIT;
    setenv("WEFT_SIM_POINTS", "0", 1);
    run(producers, 1, 2);
    for (int k = 1; k < 64; k++)
        CHECK(k % 16 == 0 || log_of[k] == log_of[k - 1]);
    setenv("WEFT_SIM_POINTS", "many", 1);
    CHECK_EQ(weft_runtime_create(&config, &rt), -EINVAL);
    setenv("WEFT_SIM_POINTS", "2147483648", 1);
    CHECK_EQ(weft_runtime_create(&config, &rt), -EINVAL);
}
