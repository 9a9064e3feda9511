/* budget_stop.c - a cancelled, exhausted, metered fiber does not run on for free: it is stopped for good. */
#include <string.h>

#include <weft/nursery.h>
#include <weft/sync.h>

#include "budget.h"

#define OPS 5000u

static struct {
    weft_fund *fund;
    weft_mutex mutex;
    weft_rwlock rwlock;
    weft_fiber_fn fn;
    bool migrate, discard;
    int status; /* of the owner's await */
    atomic_ullong ops;
    atomic_uint began, ended;
    void *memory; /* that the fiber has not freed */
} world;

static int owner(void *arg) {
    (void)arg;
    weft_nursery n;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget its = {OPS, 1000, 1, 0, 0};
    spec.fn = world.fn;
    spec.name = "endless";
    spec.fund = world.fund;
    spec.budget = &its;
    spec.migrate = world.migrate;
    spec.discard = world.discard;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_spawn(&n, &spec, NULL), 0);
    REQUIRE_EQ(weft_fund_wait_exhausted(world.fund, WEFT_NEVER), 0);
    weft_nursery_cancel(&n);
    world.status = weft_nursery_await(&n);
    return 0;
}

static void run(int64_t grace_ops, weft_fiber_fn fn) {
    weft_config config = WEFT_CONFIG_INIT;
    config.grace_ops = grace_ops;
    weft_runtime *rt = fixture_begin(&config);
    weft_task *task = NULL;
    world.fn = fn;
    world.fund = new_fund(rt, (weft_budget){OPS, 10000, 10, 0, 0});
    world.status = 0;
    REQUIRE_EQ(weft_fiber_go(rt, owner, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    weft_budget left;
    weft_fund_left(world.fund, &left);
    CHECK_EQ(left.memory, 10000); /* also what it held */
    end_fund(world.fund);
    fixture_end(rt);
    weft_free(world.memory); /* its charge is in the fund, and it is still there */
    world.memory = NULL;
}

/* -- The bound ----------------------------------------------------------------------------------------------------- */

static int spin(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_alloc(100, &world.memory), 0);
    atomic_store(&world.ops, 0);
    for (;;) {
        metered_sum(10);
        atomic_store(&world.ops, weft_ops_used());
    }
}

/* It gets as many ops as the config says, and a slice at most, and then no more; its owner learns why. */
API_TEST(budget_stop_bound, "J11 J25 J33", .workers = {1, 2}) {
    static const int64_t grace[] = {-1, 1, 20000, 0};
    for (unsigned i = 0; i < 4; i++)
        for (int migrate = 0; migrate < 2; migrate++) {
            world.migrate = migrate;
            run(grace[i], spin);
            CHECK_EQ(world.status, -EDQUOT);
            uint64_t free = atomic_load(&world.ops) - OPS, most = grace[i] < 0 ? 0
                                                                  : grace[i]   ? (uint64_t)grace[i]
                                                                               : 100000;
            CHECK_LE(free, most + 1024);
            CHECK_GE(free + 64, most);
        }
}

/* With `discard` nothing has changed: it ends at once, and is cancelled. */
API_TEST(budget_stop_discard, "J11 J25", .workers = {1, 2}) {
    world.discard = true;
    run(0, spin);
    CHECK_EQ(world.status, -ECANCELED);
    CHECK_LE(atomic_load(&world.ops), OPS + 64);
}

/* A shield does not make it endless, nor does asking weft_checkpoint and not listening. */
static int spin_shielded(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_shield(weft_task_self()), 0);
    metered_endless();
}

static int ask_and_ignore(void *arg) {
    (void)arg;
    while (weft_checkpoint() <= 0)
        ;
    return 0;
}

static int refuser(void *arg) {
    weft_task *task = charged(NULL, world.fund, (weft_budget){OPS, 0, 0, 0, 0}, arg, NULL);
    REQUIRE_EQ(weft_fund_wait_exhausted(world.fund, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_fund_refuse(world.fund, task), 0);
    weft_result result;
    REQUIRE_EQ(weft_join(task, &result, WEFT_NEVER), 0);
    weft_task_drop(task);
    return result.status;
}

API_TEST(budget_stop_refused, "J25 J40", .workers = {1, 2}) {
    weft_runtime *rt = begin(WEFT_PROFILE_NONE);
    static int (*const fn[])(void *) = {spin_shielded, ask_and_ignore};
    for (unsigned i = 0; i < 2; i++) {
        weft_task *task = NULL;
        world.fund = new_fund(rt, (weft_budget){OPS, 0, 1, 0, 0});
        REQUIRE_EQ(weft_fiber_go(rt, refuser, (void *)(uintptr_t)fn[i], &task), 0);
        CHECK_EQ(fixture_finish(task).status, -EDQUOT);
        end_fund(world.fund);
    }
    fixture_end(rt);
}

/* -- What it leaves behind -------------------------------------------------------------------------------------------- */

static int spin_locked(void *arg) {
    (void)arg;
    weft_mutex other = WEFT_MUTEX_INIT;
    REQUIRE_EQ(weft_mutex_lock(&other, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_mutex_lock(&world.mutex, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_mutex_unlock(&other), 0);
    REQUIRE_EQ(weft_rwlock_write(&world.rwlock, WEFT_NEVER), 0);
    metered_endless();
}

static void run_locked(void *arg) {
    (void)arg;
    run(0, spin_locked);
}

/* Its stack is kept, its locks stay locked, and the report names them. */
API_TEST(budget_stop_reports_locks, "J25", .workers = {1, 2}) {
    world.mutex = (weft_mutex)WEFT_MUTEX_INIT;
    world.rwlock = (weft_rwlock)WEFT_RWLOCK_INIT;
    const char *text = fixture_said(run_locked, NULL);
    char expected[256];
    CHECK(strstr(text, "weft: fiber \"endless\" is stopped: its budget is exhausted, it was cancelled"));
    snprintf(expected, sizeof expected, "it holds a mutex (%p), a write lock (%p)\n", (void *)&world.mutex,
             (void *)&world.rwlock);
    CHECK(strstr(text, expected));
}

/* More locks than the report has room for are counted. */
static weft_mutex many_locks[11];

static int spin_with_many_locks(void *arg) {
    (void)arg;
    for (size_t i = 0; i < 11; i++)
        REQUIRE_EQ(weft_mutex_lock(&many_locks[i], WEFT_NEVER), 0);
    REQUIRE_EQ(weft_mutex_unlock(&many_locks[9]), 0); /* not listed ... */
    REQUIRE_EQ(weft_mutex_unlock(&many_locks[2]), 0); /* ... and listed */
    metered_endless();
}
static void run_many_locks(void *arg) {
    (void)arg;
    run(0, spin_with_many_locks);
}

API_TEST(budget_stop_reports_many_locks, "J25", .workers = {1, 2}) {
    for (size_t i = 0; i < 11; i++)
        many_locks[i] = (weft_mutex)WEFT_MUTEX_INIT;
    const char *text = fixture_said(run_many_locks, NULL);
    char expected[512];
    int size = snprintf(expected, sizeof expected, "it holds");
    static const int listed[] = {0, 1, 7, 3, 4, 5, 6}; /* the last listed one takes the place of the one that went */
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++)
        size += snprintf(expected + size, sizeof expected - (size_t)size, "%s a mutex (%p)", i ? "," : "",
                         (void *)&many_locks[listed[i]]);
    snprintf(expected + size, sizeof expected - (size_t)size, " and 2 locks that are not listed\n");
    CHECK_CONTAINS(text, expected);
}

/* Handles in its frames are never dropped: the runtime can be destroyed all the same. */
static int spin_with_handle(void *arg) {
    weft_task *task = NULL;
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget none = {0};
    (void)arg;
    spec.fn = nop;
    spec.name = "forgotten";
    spec.fund = world.fund;
    spec.budget = &none;
    REQUIRE_EQ(weft_fiber_spawn(NULL, &spec, &task), 0);
    metered_endless();
}

static void destroy_with_handle(void *arg) {
    weft_config config = WEFT_CONFIG_INIT;
    config.grace_ns = 50000000; /* how long others have to drop theirs */
    weft_runtime *rt = fixture_begin(&config);
    weft_task *task = NULL, *kept = NULL;
    (void)arg;
    world.fn = spin_with_handle;
    world.fund = new_fund(rt, (weft_budget){OPS, 10000, 10, 0, 0});
    REQUIRE_EQ(weft_fiber_go(rt, owner, NULL, &kept), 0);
    weft_waker waker = {NULL};
    REQUIRE_EQ(weft_fiber_go(rt, nop, NULL, &task), 0);
    waker = weft_waker_of(task);
    CHECK_EQ(fixture_finish(kept).status, 0);
    CHECK_EQ(world.status, -EDQUOT);
    end_fund(world.fund);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(weft_runtime_destroy(rt), -EBUSY); /* a waker is somebody's who will use it */
    weft_waker_drop(waker);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

API_TEST(budget_stop_handle, "J25", .workers = {1, 2}) {
    const char *text = fixture_said(destroy_with_handle, NULL);
    CHECK_CONTAINS(text, "weft: destroy: handles or wakers of tasks are still held (2):");
    CHECK_CONTAINS(text, "weft: destroy: handles of tasks that a stopped fiber has not dropped (1): \"forgotten\"\n");
}

/* -- Its own children ----------------------------------------------------------------------------------------------- */

static int wait_for_end(void *arg) {
    (void)arg;
    atomic_fetch_add(&world.began, 1);
    int error = weft_sleep_until(WEFT_NEVER);
    atomic_fetch_add(&world.ended, 1);
    return error;
}

static int spin_with_children(void *arg) {
    (void)arg;
    weft_nursery outer, *inner;
    REQUIRE_EQ(weft_nursery_init(&outer, NULL, NULL), 0);
    REQUIRE_EQ(weft_nursery_create(NULL, NULL, &inner), 0);
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_budget none = {0};
    spec.fn = wait_for_end;
    spec.fund = world.fund;
    spec.budget = &none;
    REQUIRE_EQ(weft_nursery_spawn(&outer, &spec, NULL), 0);
    REQUIRE_EQ(weft_nursery_spawn(inner, &spec, NULL), 0);
    while (atomic_load(&world.began) < 2) /* else they are never entered */
        REQUIRE_EQ(weft_yield(), 0);
    metered_endless();
}

/* Its nurseries are cancelled and awaited before it counts as ended: no orphans. */
API_TEST(budget_stop_awaits_children, "J8 J25 J34", .workers = {1, 2}) {
    atomic_store(&world.began, 0);
    atomic_store(&world.ended, 0);
    run(0, spin_with_children);
    CHECK_EQ(world.status, -EDQUOT);
    CHECK_EQ(atomic_load(&world.ended), 2);
}

/* Other fibers go on where it was, also new ones, and a stop of the runtime needs no help. */
static int spin_once(void *arg) {
    (void)arg;
    metered_endless();
}

static int many(void *arg) {
    (void)arg;
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    for (int i = 0; i < 20; i++) {
        weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
        weft_budget its = {100, 0, 0, 0, 0};
        spec.fn = i % 2 ? spin_once : nop;
        spec.fund = world.fund;
        spec.budget = &its;
        REQUIRE_EQ(weft_nursery_spawn(&n, &spec, NULL), 0);
    }
    while (weft_fund_exhausted(world.fund, NULL, 0) < 10)
        weft_yield();
    weft_nursery_cancel(&n);
    return weft_nursery_await(&n);
}

API_TEST(budget_stop_many, "J11 J25", .workers = {1, 2, 4}) {
    weft_runtime *rt = begin(WEFT_PROFILE_CLUSTER);
    world.fund = new_fund(rt, (weft_budget){2000, 0, 20, 0, 0});
    weft_task *task = NULL;
    REQUIRE_EQ(weft_fiber_go(rt, many, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, -EDQUOT);
    end_fund(world.fund);
    fixture_end(rt);
}
