/* fifo.c - the fifo scheduler: one shared queue, strict order, one wake a submit. */
#define _GNU_SOURCE
#include "fixture.h"

#include <sched.h>

#define ON_FIFO .sched = "fifo"

static struct {
    pthread_mutex_t lock;
    int who[4096];
    atomic_uint count;
} log_ = {.lock = PTHREAD_MUTEX_INITIALIZER};

static weft_poll note(weft_task *self, void *state) {
    pthread_mutex_lock(&log_.lock);
    log_.who[log_.count++] = (int)(intptr_t)state;
    pthread_mutex_unlock(&log_.lock);
    return weft_done(self, 0, NULL);
}

/* Run order is submit order, whoever submits. */
API_TEST(fifo_order_from_outside, "K1 K2 K8", ON_FIFO, .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    for (intptr_t i = 0; i < 1000; i++)
        REQUIRE_EQ(weft_go(rt, note, (void *)i, NULL), 0);
    fixture_end(rt);
    CHECK_EQ(log_.count, 1000);
    for (int i = 0; i < 1000; i++)
        REQUIRE_EQ(log_.who[i], i);
}

struct numbering {
    intptr_t number;
    int left;
};

static weft_poll spawn_and_yield(weft_task *self, void *state) {
    struct numbering *s = state;
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(weft_go(NULL, note, (void *)s->number++, NULL), 0);
    return --s->left ? WEFT_YIELD : weft_done(self, 0, NULL);
}

API_TEST(fifo_order_from_inside, "K2 K8", ON_FIFO, .workers = {1}) {
    struct numbering s = {0, 100};
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(fixture_go(rt, spawn_and_yield, &s));
    fixture_end(rt);
    CHECK_EQ(log_.count, 300);
    for (int i = 0; i < 300; i++)
        REQUIRE_EQ(log_.who[i], i);
}

/* Woken tasks go to the back like all others. */
struct sleeper {
    weft_waker waker;
    atomic_bool asleep;
    int number;
};

static weft_poll sleep_then_note(weft_task *self, void *state) {
    struct sleeper *s = state;
    if (!s->waker.target) {
        s->waker = weft_waker_of(self);
        atomic_store(&s->asleep, true);
        return WEFT_PENDING;
    }
    return note(self, (void *)(intptr_t)s->number);
}

API_TEST(fifo_order_of_wakes, "K2 K8", ON_FIFO, .workers = {1}) {
    static struct sleeper sleeper[100];
    struct blocker blocker = {0};
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 100; i++) {
        sleeper[i].number = i;
        REQUIRE_EQ(weft_go(rt, sleep_then_note, &sleeper[i], NULL), 0);
    }
    for (int i = 0; i < 100; i++)
        REQUIRE_EVENTUALLY(sleeper[i].asleep);
    REQUIRE_EQ(weft_go(rt, fixture_block, &blocker, NULL), 0);
    REQUIRE_EVENTUALLY(blocker.entered);
    for (int i = 0; i < 100; i++)
        weft_waker_wake_keep(sleeper[i * 37 % 100].waker);
    blocker.release = true;
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(log_.who[i], i * 37 % 100);
        weft_waker_drop(sleeper[i].waker);
    }
    fixture_end(rt);
}

/* T threads race to schedule one idle task: one queue entry. */
static struct sleeper raced;
static atomic_uint raced_polls;

static weft_poll count_raced(weft_task *self, void *state) {
    struct sleeper *s = state;
    if (!s->waker.target)
        s->waker = weft_waker_of(self);
    atomic_fetch_add(&raced_polls, 1);
    return atomic_load(&s->asleep) ? weft_done(self, 0, NULL) : WEFT_PENDING;
}

static void wake_raced(unsigned index, void *arg) {
    (void)index, (void)arg;
    for (int i = 0; i < 10; i++)
        weft_waker_wake_keep(raced.waker);
}

API_TEST(fifo_one_entry, "K4 K6 K7", ON_FIFO, .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = fixture_go(rt, count_raced, &raced);
    for (unsigned round = 1; round <= 30; round++) {
        struct blocker blocker = {0};
        REQUIRE_EVENTUALLY(raced_polls == round && strcmp(weft_task_state(task), "idle") == 0);
        weft_task *busy = fixture_go(rt, fixture_block, &blocker);
        REQUIRE_EVENTUALLY(blocker.entered);
        harness_threads(8, wake_raced, NULL);
        CHECK_STR(weft_task_state(task), "scheduled");
        blocker.release = true;
        fixture_finish(busy);
    }
    REQUIRE_EVENTUALLY(raced_polls == 31 && strcmp(weft_task_state(task), "idle") == 0);
    CHECK_EQ(fixture_stats(rt).polls, 31 + 30); /* each entry was one poll */
    raced.asleep = true;
    weft_waker_wake(raced.waker);
    fixture_finish(task);
    fixture_end(rt);
}

/* Scheduling a running task does not queue it; it runs again after this poll. */
static weft_poll wake_while_running(weft_task *self, void *state) {
    unsigned *polls = state;
    if (++*polls == 5)
        return weft_done(self, 0, NULL);
    weft_waker waker = weft_waker_of(self);
    for (int i = 0; i < 10; i++)
        weft_waker_wake_keep(waker);
    weft_waker_drop(waker);
    CHECK_STR(weft_task_state(self), "running"); /* before its first instruction, and still */
    return WEFT_PENDING;
}

API_TEST(fifo_running_not_queued, "K5 K7 K12 K13", ON_FIFO, .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned polls = 0;
    fixture_finish(fixture_go(rt, wake_while_running, &polls));
    CHECK_EQ(polls, 5);
    CHECK_EQ(fixture_stats(rt).polls, 5);
    fixture_end(rt);
}

/* A submit wakes exactly one of the waiting workers. */
static weft_poll wake_others_in_turn(weft_task *self, void *state) {
    weft_runtime *rt = state;
    for (unsigned i = 0; i < 3; i++) {
        REQUIRE_EVENTUALLY(weft_stats_parked(rt) == 3 && weft_stats_searching(rt) == 0);
        weft_stats before = fixture_stats(rt);
        REQUIRE_EQ(weft_go(NULL, note, NULL, NULL), 0);
        REQUIRE_EVENTUALLY(fixture_stats(rt).completed == before.completed + 1);
        REQUIRE_EVENTUALLY(weft_stats_parked(rt) == 3 && weft_stats_searching(rt) == 0);
        weft_stats after = fixture_stats(rt);
        CHECK_EQ(after.wakes, before.wakes + 1); /* by anyone */
    }
    return weft_done(self, 0, NULL);
}

API_TEST(fifo_wakes_exactly_one, "K3", ON_FIFO, .workers = {4}) {
    weft_runtime *rt = fixture_begin_patient();
    fixture_finish(fixture_go(rt, wake_others_in_turn, rt));
    fixture_end(rt);
}

/* -- Workers ---------------------------------------------------------------------------------------------------- */

API_TEST(fifo_default_workers, "K10 B57 W8", ON_FIFO) {
    cpu_set_t set;
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    CHECK_GE(weft_runtime_workers(rt), 1);
    CHECK_LE(weft_runtime_workers(rt), CPU_COUNT(&set));
    fixture_end(rt);
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    REQUIRE_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    rt = fixture_begin_patient();
    CHECK_EQ(weft_runtime_workers(rt), 1); /* the CPUs that this process may use */
    fixture_end(rt);
}

API_TEST(fifo_configured_workers, "K10", ON_FIFO) {
    for (unsigned workers = 1; workers <= 9; workers += 4) {
        weft_config config = WEFT_CONFIG_INIT;
        config.workers = workers;
        weft_runtime *rt = fixture_begin(&config);
        CHECK_EQ(weft_runtime_workers(rt), workers);
        fixture_end(rt);
    }
}

/* The same workers serve any number of tasks, and wait in between. */
static pthread_t first_thread;

static weft_poll same_thread(weft_task *self, void *state) {
    unsigned *count = state;
    if ((*count)++ == 0)
        first_thread = pthread_self();
    CHECK(pthread_equal(first_thread, pthread_self()));
    return weft_done(self, 0, NULL);
}

API_TEST(fifo_worker_survives, "K1 K11 K13", ON_FIFO, .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned count = 0;
    for (int i = 0; i < 2000; i++) {
        fixture_finish(fixture_go(rt, same_thread, &count));
        if (i % 100 == 0)
            REQUIRE_EVENTUALLY(weft_stats_parked(rt) == 1);
    }
    CHECK_EQ(count, 2000);
    CHECK(!pthread_equal(first_thread, pthread_self())); /* nobody else dequeues */
    fixture_end(rt);
}

/* Any thread schedules through its own copy of the handle, while the workers sleep. */
static void schedule_from(unsigned index, void *arg) {
    weft_runtime *rt = arg;
    weft_waker mine = weft_waker_clone(raced.waker);
    for (int i = 0; i < 200; i++) {
        REQUIRE_EQ(weft_go(rt, note, (void *)(intptr_t)index, NULL), 0);
        weft_waker_wake_keep(mine);
    }
    weft_waker_drop(mine);
}

API_TEST(fifo_any_thread_schedules, "K1 K36 K37", ON_FIFO, .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = fixture_go(rt, count_raced, &raced);
    REQUIRE_EVENTUALLY(raced_polls == 1 && weft_stats_parked(rt) == weft_runtime_workers(rt));
    harness_threads(4, schedule_from, rt);
    REQUIRE_EVENTUALLY(log_.count == 800);
    REQUIRE_EVENTUALLY(raced_polls > 1);
    raced.asleep = true;
    weft_waker_wake(raced.waker);
    fixture_finish(task);
    fixture_end(rt);
}

/* -- Shutdown ---------------------------------------------------------------------------------------------------- */

API_TEST(fifo_shutdown, "K38 K39 K41", ON_FIFO, .workers = {4}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EVENTUALLY(weft_stats_parked(rt) == 4 && fixture_threads("crew-") == 4);
    int64_t before = harness_clock();
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NEVER), 0);
    CHECK_LT(harness_clock() - before, 200000000); /* no slice of waiting */
    REQUIRE_EVENTUALLY(fixture_threads("crew-") == 0);
    CHECK_EQ(weft_go(rt, note, NULL, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}
