/* meter.c - metered code: exact counts, yields without a timer, preemption off, ending a loop that never does. */
#include <weft/budget.h>

#include "fixture.h"
#include "metered/code.h"

static weft_task *fiber(weft_runtime *rt, weft_fiber_fn fn, void *arg, bool migrate, bool discard) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task = NULL;
    spec.fn = fn;
    spec.arg = arg;
    spec.migrate = migrate;
    spec.discard = discard;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    return task;
}

/* -- Counting -------------------------------------------------------------------------------------------- */

static int count_sum(void *turns) {
    uint64_t before = weft_ops_used();
    metered_sum((uint64_t)(uintptr_t)turns);
    return (int)(weft_ops_used() - before);
}

static int ops_of(weft_runtime *rt, weft_fiber_fn fn, uintptr_t arg) {
    return (int)(intptr_t)fixture_finish(fiber(rt, fn, (void *)arg, false, false)).value;
}

API_TEST(meter_count_exact, "J5 J11", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    int none = ops_of(rt, count_sum, 0), one = ops_of(rt, count_sum, 1), two = ops_of(rt, count_sum, 2);
    int turn = two - one; /* depends on the compiler; then no longer */
    CHECK_GT(none, 0);
    CHECK_GE(turn, 1);
    for (uintptr_t n = 3; n < 5000; n = 2 * n + 1)
        for (int again = 0; again < 3; again++)
            CHECK_EQ(ops_of(rt, count_sum, n), one + (int)(n - 1) * turn);
    fixture_end(rt);
}

static int count_calls(void *depth) {
    uint64_t before = weft_ops_used();
    metered_calls((uint64_t)(uintptr_t)depth);
    return (int)(weft_ops_used() - before);
}

API_TEST(meter_call_counts, "J11", .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_GE(ops_of(rt, count_calls, 60), ops_of(rt, count_calls, 10));
    CHECK_GT(ops_of(rt, count_calls, 0), 0);
    fixture_end(rt);
}

static weft_poll poll_metered(weft_task *self, void *state) {
    (void)state;
    metered_sum(10000);
    return weft_done(self, weft_ops_used() ? -EPROTO : 0, NULL);
}

static void metered_thread(unsigned index, void *arg) {
    (void)index, (void)arg;
    weft_preempt_off();
    metered_sum(10000);
    weft_preempt_on();
    CHECK_EQ(weft_ops_used(), 0);
}

API_TEST(meter_elsewhere_is_free, "J5", .workers = {1, 2}) {
    metered_sum(10000); /* before there is any runtime */
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_EQ(fixture_finish(fixture_go(rt, poll_metered, NULL)).status, 0);
    harness_threads(2, metered_thread, NULL);
    fixture_end(rt);
}

/* -- Yielding -------------------------------------------------------------------------------------------- */

struct spin {
    atomic_bool stop, began;
    uint64_t ops;
};

static int spin(void *arg) {
    struct spin *spin = arg;
    atomic_store(&spin->began, true);
    metered_spin(&spin->stop);
    spin->ops = weft_ops_used();
    return 0;
}

static int stop_spin(void *arg) {
    atomic_store(&((struct spin *)arg)->stop, true);
    return 0;
}

/* On one worker the second fiber runs only if the first, which never waits, lets it. */
API_TEST(meter_yields_without_timer, "J5", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int migrate = 0; migrate < 2; migrate++) {
        struct spin s = {0};
        weft_task *a = fiber(rt, spin, &s, migrate, false), *b = fiber(rt, stop_spin, &s, migrate, false);
        CHECK_EQ(fixture_finish(a).status, 0);
        CHECK_EQ(fixture_finish(b).status, 0);
    }
    fixture_end(rt);
}

static weft_poll stop_spin_poll(weft_task *self, void *state) {
    atomic_store(&((struct spin *)state)->stop, true);
    return weft_done(self, 0, NULL);
}

API_TEST(meter_yields_to_polls, "J5", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct spin s = {0};
    weft_task *a = fiber(rt, spin, &s, false, false);
    REQUIRE_EVENTUALLY(atomic_load(&s.began));
    weft_task *b = fixture_go(rt, stop_spin_poll, &s);
    CHECK_EQ(fixture_finish(b).status, 0);
    CHECK_EQ(fixture_finish(a).status, 0);
    fixture_end(rt);
}

/* One that may move waits among those that may not when it is preempted; when it yields by itself it may move again. */
static int yield_until_stopped(void *arg) {
    while (!atomic_load(&((struct spin *)arg)->stop))
        weft_yield();
    return 0;
}

static int preempted_and_yielding(void *arg) {
    for (int i = 0; i < 100; i++) {
        metered_sum(3000);
        CHECK_EQ(weft_yield(), 0);
        CHECK_EQ(weft_yield(), 0);
    }
    return stop_spin(arg);
}

API_TEST(meter_yield_after_preemption, "J5 J15", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    struct spin s = {0};
    weft_task *others[3], *moving;
    for (int i = 0; i < 3; i++)
        others[i] = fiber(rt, yield_until_stopped, &s, false, false);
    moving = fiber(rt, preempted_and_yielding, &s, true, false);
    CHECK_EQ(fixture_finish(moving).status, 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fixture_finish(others[i]).status, 0);
    fixture_end(rt);
}

/* Two fibers on one worker that note, each in its turn, how many ops they had done: turns alternate, each 1,024 ops long. */
struct turns {
    unsigned fibers, last, changes;
    uint64_t since[2], longest, shortest;
    atomic_uint ready;
    unsigned done;
};
struct turn_taker {
    struct turns *turns;
    unsigned index;
};

static int note_turn(void *arg) {
    struct turn_taker *me = arg;
    struct turns *t = me->turns;
    if (t->last != me->index && !t->done) {
        unsigned other = 1 - me->index;
        uint64_t ops = t->since[other]; /* what the other had done at its last note of its turn */
        if (t->changes++ > 2 && ops > t->longest)
            t->longest = ops;
        t->last = me->index;
        t->since[me->index] = 0;
    }
    return 0;
}

static int take_turns(void *arg) {
    struct turn_taker *me = arg;
    struct turns *t = me->turns;
    atomic_fetch_add(&t->ready, 1);
    while (atomic_load(&t->ready) < 2)
        weft_yield();
    for (int i = 0; i < 20000; i++) {
        uint64_t before = weft_ops_used();
        metered_call(note_turn, me, 0);
        t->since[me->index] += weft_ops_used() - before;
    }
    t->done++;
    return 0;
}

API_TEST(meter_turns_are_even, "J5", .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    struct turns turns = {.last = 2};
    turns.last = 0;
    struct turn_taker taker[2] = {{&turns, 0}, {&turns, 1}};
    weft_task *a = fiber(rt, take_turns, &taker[0], false, false), *b = fiber(rt, take_turns, &taker[1], false, false);
    CHECK_EQ(fixture_finish(a).status, 0);
    CHECK_EQ(fixture_finish(b).status, 0);
    CHECK_GT(turns.changes, 20);
    if (!fixture_on("sim")) /* where the seed may choose the same again */
        CHECK_LE(turns.longest, 1024 + 16);
    fixture_end(rt);
}

/* -- Preemption off --------------------------------------------------------------------------------------- */

struct locked {
    pthread_mutex_t lock;
    unsigned inside, entered, overlaps;
};

static int count_locked(void *arg) {
    struct locked *locked = arg;
    for (int i = 0; i < 20; i++) {
        weft_preempt_off();
        pthread_mutex_lock(&locked->lock);
        weft_preempt_off(); /* nests */
        locked->overlaps += locked->inside++;
        metered_sum(3000);
        locked->inside--;
        weft_preempt_on();
        metered_sum(100);
        locked->entered++;
        pthread_mutex_unlock(&locked->lock);
        weft_preempt_on();
    }
    return 0;
}

/* Without the two calls, a fiber that is preempted with the lock held stops its worker, where the next one locks. */
API_TEST(meter_preempt_off, "J5", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    struct locked locked = {.lock = PTHREAD_MUTEX_INITIALIZER};
    weft_task *task[8];
    for (int i = 0; i < 8; i++)
        task[i] = fiber(rt, count_locked, &locked, false, false);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(locked.entered, 8 * 20);
    CHECK_EQ(locked.overlaps, 0);
    fixture_end(rt);
}

static int off_counts(void *arg) {
    (void)arg;
    uint64_t a = weft_ops_used();
    metered_sum(5000);
    uint64_t b = weft_ops_used();
    weft_preempt_off();
    metered_sum(5000);
    uint64_t c = weft_ops_used();
    weft_preempt_on();
    metered_sum(5000);
    uint64_t d = weft_ops_used();
    CHECK_EQ(c - b, b - a);
    CHECK_EQ(d - c, b - a);
    return 0;
}

API_TEST(meter_off_counts_on, "J11", .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_EQ(fixture_finish(fiber(rt, off_counts, NULL, false, false)).status, 0);
    fixture_end(rt);
}

static int just_on(void *arg) {
    (void)arg;
    weft_preempt_on();
    return 0;
}

static void on_without_off(void *arg) {
    (void)arg;
    weft_fiber_run(NULL, just_on, NULL, NULL);
}

TEST(meter_preempt_on_unmatched, "J5") { REQUIRE_ABORTS(on_without_off, NULL, "weft_preempt_on: there was no"); }

static int just_off(void *arg) {
    for (intptr_t left = (intptr_t)arg; left > 0; left--)
        weft_preempt_off();
    return 0;
}

static void off_too_often(void *arg) {
    (void)arg;
    weft_fiber_run(NULL, just_off, (void *)(intptr_t)256, NULL);
}

TEST(meter_preempt_off_too_deep, "J5") { REQUIRE_ABORTS(off_too_often, NULL, "weft_preempt_off: 255 deep"); }

/* errno between a call and the look at it. */
static int keep_errno(void *arg) {
    (void)arg;
    unsigned bad = 0;
    for (int i = 0; i < 100; i++) {
        errno = 1000 + i;
        metered_sum(2000);
        bad += *weft_errno() != 1000 + i;
    }
    return -(int)bad;
}

API_TEST(meter_keeps_errno, "J15", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task[6];
    for (int i = 0; i < 6; i++)
        task[i] = fiber(rt, keep_errno, NULL, i & 1, false);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* -- Forked jobs ------------------------------------------------------------------------------------------ */

static uint64_t metered_fork(uint64_t n);
static void fork_job(void *arg) { *(uint64_t *)arg = metered_fork(*(uint64_t *)arg); }
static uint64_t metered_fork(uint64_t n) {
    if (n < 2)
        return metered_sum(200) > 0 ? n : 0;
    uint64_t a = n - 1;
    weft_job job;
    weft_fork(&job, fork_job, &a);
    uint64_t b = metered_fork(n - 2);
    weft_join_job(&job);
    return a + b;
}

static int fork_fiber(void *arg) {
    (void)arg;
    return metered_fork(12) == 144 ? 0 : -EPROTO;
}

API_TEST(meter_with_jobs, "J5", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin(NULL);
    weft_task *task[6];
    for (int i = 0; i < 6; i++)
        task[i] = fiber(rt, fork_fiber, NULL, false, false);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* -- Ending a loop that never does ------------------------------------------------------------------------- */

static int endless(void *arg) {
    if (arg)
        atomic_fetch_add((atomic_uint *)arg, 1);
    metered_endless();
}

/* Forgotten: the next fiber, perhaps in the same memory and on the same stack, is preempted as ever. */
API_TEST(meter_preempt_off_forgotten, "J5", .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    CHECK_EQ(fixture_finish(fiber(rt, just_off, (void *)(intptr_t)255, false, false)).status, 0);
    weft_task *loop = fiber(rt, endless, NULL, false, true), *other = fiber(rt, just_off, NULL, false, false);
    CHECK_EQ(fixture_finish(other).status, 0);
    weft_task_cancel(loop);
    CHECK_EQ(fixture_finish(loop).status, -ECANCELED);
    fixture_end(rt);
}

API_TEST(meter_discard, "J5 J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    atomic_uint began = 0;
    weft_task *task[4];
    for (int round = 0; round < 20; round++) {
        atomic_store(&began, 0);
        for (int i = 0; i < 4; i++)
            task[i] = fiber(rt, endless, &began, i & 1, true);
        REQUIRE_EVENTUALLY(atomic_load(&began) == 4); /* on one worker: they let each other begin */
        for (int i = 0; i < 4; i++)
            weft_task_cancel(task[i]);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(fixture_finish(task[i]).status, -ECANCELED);
    }
    fixture_end(rt);
}

static unsigned key;
static atomic_uint destroyed;
static void destroy(void *value) {
    (void)value;
    metered_sum(5000); /* at the fiber's end: no yield */
    atomic_fetch_add(&destroyed, 1);
}

static int endless_shielded(void *arg) {
    struct spin *spin = arg;
    weft_local_set(key, arg);
    weft_shield(weft_task_self());
    weft_task_cancel(weft_task_self());
    metered_sum(10000);
    weft_unshield(weft_task_self());
    weft_preempt_off();
    metered_sum(10000);
    atomic_store(&spin->began, true); /* still here */
    weft_preempt_on();
    spin->stop = true; /* not reached: due at weft_preempt_on */
    return 0;
}

API_TEST(meter_discard_shielded, "J5", .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    struct spin s = {0};
    atomic_store(&destroyed, 0);
    REQUIRE_EQ(weft_local_create(&key, destroy), 0);
    CHECK_EQ(fixture_finish(fiber(rt, endless_shielded, &s, false, true)).status, -ECANCELED);
    CHECK(atomic_load(&s.began));
    CHECK(!s.stop);
    CHECK_EQ(atomic_load(&destroyed), 1);
    fixture_end(rt);
}

/* A stop ends it too. */
API_TEST(meter_discard_stop, "J5 R36", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    atomic_uint began = 0;
    weft_task_drop(fiber(rt, endless, &began, false, true));
    REQUIRE_EVENTUALLY(atomic_load(&began) == 1);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* Without `discard` a checkpoint tells. */
static int until_cancelled(void *arg) {
    atomic_fetch_add((atomic_uint *)arg, 1);
    while (weft_checkpoint() == 0)
        metered_sum(100);
    return -ECANCELED;
}

API_TEST(meter_checkpoint_cancel, "J25", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    atomic_uint began = 0;
    weft_task *task = fiber(rt, until_cancelled, &began, false, false);
    REQUIRE_EVENTUALLY(atomic_load(&began) == 1);
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
    fixture_end(rt);
}

/* -- Code that weft calls ---------------------------------------------------------------------------------- */

static void drop_metered(void *state) {
    (void)state;
    CHECK(!weft_in_fiber());
    metered_sum(5000);
    atomic_fetch_add(&destroyed, 1);
}

static weft_poll never_polled(weft_task *self, void *state) {
    (void)state;
    return weft_done(self, 0, NULL);
}

/* Drop functions of cancelled tasks run wherever a worker comes across them: also on the stack of a fiber that is being left. */
static int cancel_some(void *arg) {
    (void)arg;
    for (int i = 0; i < 50; i++) {
        weft_spec spec = WEFT_SPEC_INIT;
        weft_task *task = NULL;
        spec.poll = never_polled;
        spec.drop = drop_metered;
        if (weft_spawn(NULL, &spec, &task) < 0)
            return -EPROTO;
        weft_task_cancel(task);
        weft_task_drop(task);
        metered_sum(700);
        if (i % 3 == 0)
            weft_yield();
    }
    return 0;
}

API_TEST(meter_in_drop, "J5 J31", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin(NULL);
    atomic_store(&destroyed, 0);
    weft_task *task[4];
    for (int i = 0; i < 4; i++)
        task[i] = fiber(rt, cancel_some, NULL, false, false);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
    CHECK_EQ(atomic_load(&destroyed), 200);
}

static void wake_metered(void *arg) {
    (void)arg;
    metered_sum(3000);
}

static int spawn_some(void *arg) {
    for (int i = 0; i < 200; i++) {
        int error = weft_go(NULL, fixture_count, arg, NULL);
        if (error)
            return error;
        metered_sum(50);
    }
    return 0;
}

API_TEST(meter_in_wake, "J5", .workers = {2}) {
    weft_config config = WEFT_CONFIG_INIT;
    config.driven = true;
    config.wake = wake_metered;
    weft_runtime *rt = fixture_begin(&config);
    atomic_uint count = 0;
    weft_task *a = fiber(rt, spawn_some, &count, false, false), *b = fiber(rt, spawn_some, &count, false, false);
    while (!weft_task_is_done(a) || !weft_task_is_done(b) || atomic_load(&count) < 400)
        REQUIRE_GE(weft_drive(rt, 10), 0);
    CHECK_EQ(fixture_finish(a).status, 0);
    CHECK_EQ(fixture_finish(b).status, 0);
    fixture_end(rt);
}
