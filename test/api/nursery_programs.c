/* nursery_programs.c - programs as people write them, cancelled at each of their suspensions in turn: what they promise holds all the same.
 *
 * A pool of connections with clean-up that waits, a pipeline whose stages flush under a shield, requests with a spare where the first error wins, time limits in each
 * other.  Under sim every point is tried, elsewhere as many as chance gives. */
#include "nursery.h"

#define US INT64_C(1000)

/* -- The sweep ---------------------------------------------------------------------------------------------------- */

struct sweep {
    weft_fiber_fn program;
    weft_task *target;
    atomic_bool done;
    unsigned left;
    bool fired;
};

static int run_through(void *arg) {
    struct sweep *sweep = arg;
    int status = sweep->program(NULL);
    atomic_store(&sweep->done, true);
    return status;
}

static weft_poll cancel_after(weft_task *self, void *state) {
    struct sweep *sweep = state;
    if (!sweep->target)
        REQUIRE_EQ(weft_fiber_go(NULL, run_through, sweep, &sweep->target), 0);
    if (atomic_load(&sweep->done))
        return weft_done(self, 0, NULL);
    if (sweep->left-- > 0)
        return WEFT_YIELD;
    sweep->fired = true;
    weft_task_cancel(sweep->target);
    return weft_done(self, 0, NULL);
}

/* Cancel it at the 0th, 1st, ... point until it runs through.  begin and end look after its things; end is told its status, and whether it was cancelled. */
static void everywhere(weft_fiber_fn program, void (*begin)(void), void (*end)(int status, bool fired)) {
    unsigned most = fixture_on("sim") ? 20000 : fixture_is_slow() ? 10 : 40;
    unsigned step = fixture_on("sim") && harness_is_slow() ? 8 : 1, k = 0;
    weft_config config = WEFT_CONFIG_INIT;
    config.seed = harness_seed() | 1;
    config.park_timeout_ns = -1;
    for (bool fired = true; fired && k < most; k += step) {
        weft_runtime *rt = fixture_begin(&config);
        struct sweep sweep = {.program = program, .left = k};
        begin();
        fixture_finish(fixture_go(rt, cancel_after, &sweep));
        end(fixture_finish(sweep.target).status, fired = sweep.fired);
        fixture_end(rt);
    }
    if (fixture_on("sim"))
        CHECK_GT(k, 20);
}

/* -- A pool of connections ------------------------------------------------------------------------------------------ */

#define CONNECTIONS 2
#define CLIENTS 4
static struct {
    weft_sem free;
    weft_mutex lock;
    unsigned idle; /* bits; under the lock */
    atomic_uint users[CONNECTIONS], dirty[CONNECTIONS], served;
} pool;

static void pool_begin(void) {
    memset(&pool, 0, sizeof pool);
    weft_sem_init(&pool.free, CONNECTIONS);
    pool.idle = (1u << CONNECTIONS) - 1;
}

/* Clean-up: what has begun is rolled back, which takes its time; then the next may have it. */
static void give_connection(int i) {
    weft_task *self = weft_task_self();
    REQUIRE_EQ(weft_shield(self), 0);
    if (atomic_load(&pool.dirty[i]))
        CHECK_EQ(weft_sleep(3 * US), 0);
    atomic_store(&pool.dirty[i], 0);
    CHECK_EQ(atomic_fetch_sub(&pool.users[i], 1), 1);
    REQUIRE_EQ(weft_mutex_lock(&pool.lock, WEFT_NEVER), 0);
    pool.idle |= 1u << i;
    CHECK_EQ(weft_yield(), 0); /* with the lock */
    CHECK_EQ(weft_mutex_unlock(&pool.lock), 0);
    weft_sem_release(&pool.free, 1);
    REQUIRE_EQ(weft_unshield(self), 0);
}

static int pool_client(void *arg) {
    int error = weft_sem_acquire(&pool.free, 1, WEFT_NEVER), i = 0;
    if (error)
        return error;
    if ((error = weft_mutex_lock(&pool.lock, WEFT_NEVER)) != 0) { /* had to wait, and was cancelled */
        weft_sem_release(&pool.free, 1);
        return error;
    }
    while (!(pool.idle & 1u << i))
        REQUIRE_LT(++i, CONNECTIONS);
    pool.idle &= ~(1u << i);
    CHECK_EQ(weft_mutex_unlock(&pool.lock), 0);
    CHECK_EQ(atomic_fetch_add(&pool.users[i], 1), 0);
    CHECK_EQ(atomic_exchange(&pool.dirty[i], 1), 0);
    error = weft_sleep((intptr_t)arg * US);
    if (!error && !(error = weft_yield())) {
        atomic_store(&pool.dirty[i], 0); /* committed */
        atomic_fetch_add(&pool.served, 1);
    }
    give_connection(i);
    return error;
}

static int pool_program(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status)
    for (intptr_t i = 1; i <= CLIENTS; i++)
        weft_nursery_go(&n, pool_client, STATUS(i), NULL);
    return status;
}

static void pool_end(int status, bool fired) {
    CHECK(status == 0 ? atomic_load(&pool.served) == CLIENTS : fired && status == -ECANCELED);
    CHECK_EQ(pool.idle, (1u << CONNECTIONS) - 1);
    for (int i = 0; i < CONNECTIONS; i++)
        CHECK(atomic_load(&pool.users[i]) == 0 && atomic_load(&pool.dirty[i]) == 0);
    CHECK_EQ(weft_sem_acquire(&pool.free, CONNECTIONS, WEFT_NOW), 0); /* all permits are back */
    CHECK_EQ(weft_mutex_destroy(&pool.lock), 0);
}

API_TEST(program_connection_pool, "J23 J25 J34", .workers = {1, 2}, .timeout = 120) {
    everywhere(pool_program, pool_begin, pool_end);
}

/* -- A pipeline ------------------------------------------------------------------------------------------------------ */

#define VALUES 12
static struct {
    weft_chan *numbers, *squares;
    atomic_uint mappers, made, taken, stored, flushed, dropped;
    atomic_uint seen[VALUES];
} line;

static void pipeline_begin(void) {
    memset(&line, 0, sizeof line);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 2, &line.numbers), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 0, &line.squares), 0);
    line.mappers = 2;
}

static int source(void *arg) {
    (void)arg;
    int error = 0;
    for (int i = 0; i < VALUES && !(error = weft_chan_send(line.numbers, &i, WEFT_NEVER)); i++)
        atomic_fetch_add(&line.made, 1);
    weft_chan_close(line.numbers);
    return error;
}

/* What it has taken it passes on, also when it has been cancelled meanwhile: for a while, then it is given up. */
static int mapper(void *arg) {
    weft_task *self = weft_task_self();
    int value, error;
    while ((error = weft_chan_recv(line.numbers, &value, WEFT_NEVER)) == 0) {
        atomic_fetch_add(&line.taken, 1);
        value = value * 2 + 1;
        REQUIRE_EQ(weft_shield_until(self, weft_after(50 * US)), 0);
        int sent = weft_chan_send(line.squares, &value, WEFT_NEVER);
        REQUIRE_EQ(weft_unshield(self), 0);
        CHECK(sent == 0 || sent == -ECANCELED || sent == -EPIPE);
        if (sent)
            atomic_fetch_add(&line.dropped, 1);
    }
    if (atomic_fetch_sub(&line.mappers, 1) == 1)
        weft_chan_close(line.squares);
    (void)arg;
    return error == -EPIPE ? 0 : error;
}

/* Stores what comes, the rest under a shield when it is cancelled. */
static int sink(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    int value, error;
    while ((error = weft_chan_recv(line.squares, &value, WEFT_NEVER)) == 0) {
        CHECK_EQ(atomic_fetch_add(&line.seen[value / 2], 1), 0);
        atomic_fetch_add(&line.stored, 1);
    }
    REQUIRE_EQ(weft_shield(self), 0);
    weft_chan_close(line.squares); /* nobody shall wait for us any more */
    CHECK_EQ(weft_sleep(5 * US), 0);
    atomic_fetch_add(&line.flushed, 1);
    REQUIRE_EQ(weft_unshield(self), 0);
    return error == -EPIPE ? 0 : error;
}

static int pipeline(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status) {
        static const weft_fiber_fn stages[] = {sink, mapper, mapper, source};
        for (unsigned i = 0; i < 4; i++)
            if (weft_nursery_go(&n, stages[i], NULL, NULL) < 0 && stages[i] == mapper)
                atomic_fetch_sub(&line.mappers, 1);
    }
    return status;
}

static void pipeline_end(int status, bool fired) {
    CHECK(status == 0 ? line.stored == VALUES && line.dropped == 0 : fired && status == -ECANCELED);
    CHECK_LE(line.flushed, 1);
    CHECK(line.stored == 0 || line.flushed == 1);
    CHECK_EQ(line.taken, line.stored + line.dropped); /* none is in between */
    CHECK_LE(line.taken, line.made + 1);
    weft_chan_drop(line.numbers);
    weft_chan_drop(line.squares);
}

API_TEST(program_pipeline, "J23 J25 J34", .workers = {1, 2}, .timeout = 120) {
    everywhere(pipeline, pipeline_begin, pipeline_end);
}

/* -- Requests with a spare: the first answer of each, and the first error of all -------------------------------------------- */

static struct {
    atomic_uint asked, ended, answers;
    int fails; /* the request that does */
} gather;

struct request {
    intptr_t number;
    weft_nursery *both;
    atomic_uint answers;
};

static int ask(void *arg, int64_t ns) {
    struct request *request = arg;
    atomic_fetch_add(&gather.asked, 1);
    int error = weft_sleep(ns);
    atomic_fetch_add(&gather.ended, 1);
    if (error)
        return error;
    if (request->number == gather.fails)
        return -EIO;
    if (atomic_fetch_add(&request->answers, 1) == 0)
        weft_nursery_cancel(request->both); /* the other one is not wanted any more */
    return 0;
}
static int first_try(void *arg) { return ask(arg, 10 * US); }
static int spare(void *arg) {
    int error = weft_sleep(7 * US);
    return error ? error : ask(arg, ((struct request *)arg)->number * US);
}

static int request(void *arg) {
    int status;
    struct request both = {.number = (intptr_t)arg};
    WEFT_NURSERY(n, &status) {
        both.both = &n;
        weft_nursery_go(&n, first_try, &both, NULL);
        weft_nursery_go(&n, spare, &both, NULL);
    }
    unsigned answers = atomic_load(&both.answers);
    atomic_fetch_add(&gather.answers, answers > 0);
    if (answers && status == -ECANCELED)
        status = 0; /* that was us */
    return status;
}

static int gather_all(void *arg) {
    (void)arg;
    int status;
    WEFT_NURSERY(n, &status)
    for (intptr_t i = 1; i <= 4; i++)
        weft_nursery_go(&n, request, STATUS(i), NULL);
    CHECK_EQ(atomic_load(&gather.asked), atomic_load(&gather.ended));
    return status;
}

static void gather_begin(void) { memset(&gather, 0, sizeof gather); }
static void gather_begin_failing(void) {
    gather_begin();
    gather.fails = 2;
}
static void gather_end(int status, bool fired) {
    CHECK(status == 0 ? gather.answers == 4 : fired && status == -ECANCELED);
}
static void gather_end_failing(int status, bool fired) {
    CHECK(status == -EIO || (fired && status == -ECANCELED));
    CHECK_LE(gather.answers, 3);
}

API_TEST(program_gather, "J23 J33 J34", .workers = {1, 2}, .timeout = 120) {
    everywhere(gather_all, gather_begin, gather_end);
    everywhere(gather_all, gather_begin_failing, gather_end_failing);
}

/* -- Time limits in each other ------------------------------------------------------------------------------------------------ */

static struct {
    int64_t unit, inner;
    int inside; /* what the inner one said */
    atomic_uint entered, left;
} limits;

static int long_work(void *arg) {
    (void)arg;
    atomic_fetch_add(&limits.entered, 1);
    int error = weft_sleep(INT64_C(3600000000000));
    REQUIRE_EQ(weft_shield(weft_task_self()), 0);
    CHECK_EQ(weft_yield(), 0);
    REQUIRE_EQ(weft_unshield(weft_task_self()), 0);
    atomic_fetch_add(&limits.left, 1);
    return error;
}
static int limited(void *arg) {
    (void)arg;
    limits.inside = weft_timeout(limits.inner, long_work, NULL);
    return limits.inside;
}

/* In units of `limits.unit`: outer 30; the inner one later, earlier, the same, at once. */
static int nested_limits(void *arg) {
    (void)arg;
    static const int64_t inner[] = {40, 20, 30, 0, -1};
    for (unsigned i = 0; i < 5; i++) {
        limits.inner = inner[i] * limits.unit;
        limits.inside = 1;
        int status = weft_timeout(30 * limits.unit, limited, NULL);
        CHECK_EQ(atomic_load(&limits.entered), atomic_load(&limits.left));
        if (weft_task_is_cancelled(weft_task_self()))
            return -ECANCELED;
        CHECK_EQ(status, -ETIMEDOUT);
        if (limits.unit > US && i != 2) /* a millisecond is the same to a timer; so are the two of the third */
            CHECK_EQ(limits.inside, i == 0 ? -ECANCELED : -ETIMEDOUT);
    }
    return 0;
}

static void limits_begin(void) {
    memset(&limits, 0, sizeof limits);
    limits.unit = US;
}
static void limits_end(int status, bool fired) {
    CHECK(status == 0 || (fired && status == -ECANCELED));
    CHECK_EQ(limits.entered, limits.left);
}

API_TEST(program_nested_limits, "J23 J34", .workers = {1, 2}, .timeout = 120) {
    everywhere(nested_limits, limits_begin, limits_end);
}

API_TEST(nested_limits_earlier_one, "J34", .sched = "sim") {
    limits.unit = 1000 * US;
    CHECK_EQ(in_fiber(nested_limits, NULL), 0);
    CHECK_EQ(atomic_load(&limits.entered), 3); /* not those without any time */
}
