/* reactor.c - the reactor scheduler: one control thread, N workers, I/O threads beside them. */
#define _GNU_SOURCE
#include "fiber.h"

#define ON_REACTOR .sched = "reactor"
#define MS INT64_C(1000000)

static weft_reactor_stats stats_of(weft_runtime *rt) {
    weft_reactor_stats stats = {.size = sizeof stats};
    REQUIRE_EQ(weft_reactor_stats_read(rt, &stats), 0);
    return stats;
}

/* -- Threads ------------------------------------------------------------------------------------------------- */

static weft_poll note_thread_name(weft_task *self, void *state) {
    char name[32] = "";
    atomic_uint *elsewhere = state;
    REQUIRE_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
    atomic_fetch_add(elsewhere, strncmp(name, "crew-", 5) != 0);
    return weft_done(self, 0, NULL);
}

/* One control thread, which runs no tasks. */
API_TEST(reactor_threads, "R1 R2", ON_REACTOR, .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    atomic_uint elsewhere = 0;
    REQUIRE_EVENTUALLY(fixture_threads("crew:ctl") == 1);
    REQUIRE_EVENTUALLY(fixture_threads("crew-") == weft_runtime_workers(rt));
    for (int i = 0; i < 500; i++)
        REQUIRE_EQ(weft_go(rt, note_thread_name, &elsewhere, NULL), 0);
    REQUIRE_EVENTUALLY(weft_stats_live(rt) == 0);
    CHECK_EQ(elsewhere, 0);
    fixture_end(rt);
    REQUIRE_EVENTUALLY(fixture_threads("crew") == 0);
}

/* -- Books ---------------------------------------------------------------------------------------------------- */

API_TEST(reactor_books, "R3 R11 R25", ON_REACTOR, .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static atomic_uint ran;
    for (int i = 0; i < 2000; i++)
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
    REQUIRE_EVENTUALLY(ran == 2000);
    REQUIRE_EVENTUALLY(stats_of(rt).active == 0);
    weft_reactor_stats stats = stats_of(rt);
    CHECK_GE(stats.active_max, 1);
    CHECK_LE(stats.active_max, weft_runtime_workers(rt));
    CHECK_EQ(stats.dispatched - stats.taken_back, 2000);
    CHECK_EQ(stats.ready, 0);
    fixture_end(rt);
    REQUIRE_EQ(ran, 2000);
}

/* Every step is made once a turn: read while it sleeps, all nine counts are the same. */
API_TEST(reactor_turns, "R3 R12", ON_REACTOR, .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    static atomic_uint ran;
    for (int i = 0; i < 100; i++)
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
    REQUIRE_EVENTUALLY(ran == 100 && stats_of(rt).active == 0);
    uint64_t first, last;
    REQUIRE_EVENTUALLY((first = stats_of(rt).steps[0], last = stats_of(rt).steps[8], first == last));
    weft_reactor_stats stats = stats_of(rt);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(stats.steps[i], stats.steps[0]);
    for (int i = 0; i < 10; i++)
        harness_nap();
    CHECK_EQ(stats_of(rt).steps[0], stats.steps[0]); /* nothing happens, and it does not look */
    fixture_end(rt);
}

/* Without any event it looks now and then, as configured. */
API_TEST(reactor_looks, "R12 B37", ON_REACTOR, .workers = {1}) {
    weft_runtime *rt = fixture_begin(NULL);
    uint64_t before = stats_of(rt).steps[0];
    int64_t start = harness_clock();
    REQUIRE_EVENTUALLY(stats_of(rt).steps[0] >= before + 20);
    CHECK_GE(harness_clock() - start, 18 * 9 * MS); /* asleep in between */
    fixture_end(rt);
}

/* As many as there are workers run; the others stay with the reactor, in order. */
API_TEST(reactor_never_more_than_workers, "R11", ON_REACTOR, .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    unsigned workers = weft_runtime_workers(rt);
    static struct blocker hold[4];
    static atomic_uint ran;
    for (unsigned i = 0; i < workers; i++)
        REQUIRE_EQ(weft_go(rt, fixture_block, &hold[i], NULL), 0);
    for (int i = 0; i < 50; i++)
        REQUIRE_EQ(weft_go(rt, fixture_count, &ran, NULL), 0);
    REQUIRE_EVENTUALLY(stats_of(rt).active == workers && stats_of(rt).ready == 50);
    CHECK_EQ(ran, 0);
    hold[0].release = true;
    REQUIRE_EVENTUALLY(ran == 50);
    REQUIRE_EVENTUALLY(stats_of(rt).active == workers - 1);
    for (unsigned i = 1; i < workers; i++)
        hold[i].release = true;
    fixture_end(rt);
}

/* -- Waiting --------------------------------------------------------------------------------------------------- */

static int fail_with(void *arg) { return -(int)(intptr_t)arg; }
static int wait_for_task(void *arg) {
    weft_result result = {0, NULL};
    int error = weft_join(arg, &result, WEFT_NEVER);
    return error ? error : result.status;
}

/* Who awaits is woken when the task ends, also when it fails; one that has ended is not waited for. */
API_TEST(reactor_await, "R13 R14 R34", ON_REACTOR, .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < 300; i++) {
        weft_task *failing = fiber_go(rt, fail_with, (void *)(intptr_t)(i % 2 ? 5 : 0));
        if (i % 3 == 0)
            REQUIRE_EVENTUALLY(weft_task_is_done(failing));
        weft_task *waiting = fiber_go(rt, wait_for_task, failing);
        CHECK_EQ(fixture_finish(waiting).status, i % 2 ? -5 : 0);
        weft_task_drop(failing);
    }
    fixture_end(rt);
}

static struct {
    pthread_mutex_t lock;
    int who[8];
    unsigned count;
} woke = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int sleep_long(void *arg) {
    int number = (int)(intptr_t)arg;
    weft_deadline until = weft_after(number * 30 * MS);
    CHECK_EQ(weft_sleep_until(until), 0);
    CHECK_GE(weft_now(), until); /* never early */
    pthread_mutex_lock(&woke.lock);
    woke.who[woke.count++] = number;
    pthread_mutex_unlock(&woke.lock);
    return 0;
}

API_TEST(reactor_sleepers, "R7 R15", ON_REACTOR, .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    static const int order[] = {3, 1, 4, 2};
    weft_task *task[4];
    for (int i = 0; i < 4; i++)
        task[i] = fiber_go(rt, sleep_long, (void *)(intptr_t)order[i]);
    for (int i = 0; i < 4; i++)
        fixture_finish(task[i]);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(woke.who[i], i + 1); /* 30 ms apart */
    fixture_end(rt);
}

static weft_mutex mutex = WEFT_MUTEX_INIT;
static unsigned guarded; /* plain */

static int lock_and_count(void *arg) {
    (void)arg;
    for (int i = 0; i < 200; i++) {
        REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NEVER), 0);
        unsigned seen = guarded;
        if (i % 8 == 0)
            weft_yield();
        guarded = seen + 1;
        REQUIRE_EQ(weft_mutex_unlock(&mutex), 0);
    }
    return 0;
}

/* The one who unlocks wakes the next, whatever the reactor knows of it by then. */
API_TEST(reactor_mutex_wakes, "R16 R19 R20", ON_REACTOR, .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[8];
    for (int i = 0; i < 8; i++)
        task[i] = fiber_go(rt, lock_and_count, NULL);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(guarded, 1600);
    fixture_end(rt);
}

static weft_chan *channel;
static int send_all(void *arg) {
    for (int i = 0; i < 500; i++)
        REQUIRE_EQ(weft_chan_send(channel, &i, WEFT_NEVER), 0);
    (void)arg;
    return 0;
}
static int receive_all(void *arg) {
    (void)arg;
    for (int i = 0; i < 500; i++) {
        int value = -1;
        REQUIRE_EQ(weft_chan_recv(channel, &value, WEFT_NEVER), 0);
        REQUIRE_EQ(value, i);
    }
    return 0;
}

/* A rendezvous: both wait for each other all the time. */
API_TEST(reactor_channel_wakes, "R17 R33", ON_REACTOR, .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_chan_create(sizeof(int), 0, &channel), 0);
    weft_task *receiver = fiber_go(rt, receive_all, NULL), *sender = fiber_go(rt, send_all, NULL);
    CHECK_EQ(fixture_finish(sender).status, 0);
    CHECK_EQ(fixture_finish(receiver).status, 0);
    CHECK_EQ(weft_chan_destroy(channel), 0);
    fixture_end(rt);
}

/* However it is woken, and by however many: never on two workers at once. */
static struct {
    atomic_bool inside, over;
    atomic_uint polls;
    weft_waker waker;
    atomic_bool ready;
} alone;

static weft_poll be_alone(weft_task *self, void *state) {
    (void)state;
    REQUIRE(!atomic_exchange(&alone.inside, true));
    if (!atomic_load(&alone.ready)) {
        alone.waker = weft_waker_of(self);
        atomic_store(&alone.ready, true);
    }
    unsigned polls = atomic_fetch_add(&alone.polls, 1);
    atomic_store(&alone.inside, false);
    if (atomic_load(&alone.over))
        return weft_done(self, 0, NULL);
    return polls % 3 == 0 ? WEFT_YIELD : WEFT_PENDING;
}

static void wake_often(unsigned index, void *arg) {
    (void)index, (void)arg;
    while (!atomic_load(&alone.ready))
        harness_nap();
    for (int i = 0; i < (harness_is_slow() ? 500 : 5000); i++)
        weft_waker_wake_keep(alone.waker);
}

API_TEST(reactor_one_worker_at_a_time, "R20 R33", ON_REACTOR, .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = fixture_go(rt, be_alone, NULL);
    harness_threads(3, wake_often, NULL);
    atomic_store(&alone.over, true);
    weft_waker_wake(alone.waker);
    fixture_finish(task);
    fixture_end(rt);
}

/* -- Preemption --------------------------------------------------------------------------------------------------- */

struct greedy {
    atomic_bool stop;
    atomic_uint rounds;
};

static int spin(void *arg) {
    struct greedy *greedy = arg;
    while (!atomic_load(&greedy->stop)) {
        atomic_fetch_add(&greedy->rounds, 1);
        int error = weft_checkpoint();
        if (error)
            return error;
    }
    return 0;
}

/* A fiber that never waits is asked, at its checkpoints, to let the next one run; it goes on after that. */
API_TEST(reactor_preempts, "R10 R32", ON_REACTOR, .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct greedy greedy;
    static atomic_uint ran;
    weft_task *task = fiber_go(rt, spin, &greedy);
    REQUIRE_EVENTUALLY(greedy.rounds > 0);
    for (int i = 0; i < 3; i++) {
        fixture_finish(fixture_go(rt, fixture_count, &ran));
        unsigned before = greedy.rounds;
        REQUIRE_EVENTUALLY(greedy.rounds > before);
    }
    CHECK_GE(stats_of(rt).preempts, 3);
    greedy.stop = true;
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- The end -------------------------------------------------------------------------------------------------------- */

static int sleep_for_ever(void *arg) {
    (void)arg;
    return weft_sleep(3600 * 1000 * MS);
}

/* Everything that waits is cancelled, and every thread is gone in time. */
API_TEST(reactor_shutdown, "R36", ON_REACTOR, .workers = {1, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct gate gate = GATE_INIT;
    static struct greedy greedy;
    for (int i = 0; i < 50; i++) {
        REQUIRE_EQ(weft_go(rt, fixture_wait_gate, &gate, NULL), 0);
        REQUIRE_EQ(weft_fiber_go(rt, sleep_for_ever, NULL, NULL), 0);
    }
    REQUIRE_EQ(weft_fiber_go(rt, spin, &greedy, NULL), 0);
    REQUIRE_EQ(weft_go(rt, fixture_yield_for_ever, NULL, NULL), 0);
    REQUIRE_EVENTUALLY(gate_waiting(&gate) == 50 && greedy.rounds > 0);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_EQ(weft_stats_live(rt), 0);
    REQUIRE_EVENTUALLY(fixture_threads("crew") == 0);
    gate_abandon(&gate);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}

/* A task that never returns from its poll cannot be stopped: that is said after 2 s, and the rest goes on. */
API_TEST(reactor_shutdown_is_bounded, "R36", ON_REACTOR, .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    static struct blocker blocker;
    REQUIRE_EQ(weft_go(rt, fixture_block, &blocker, NULL), 0);
    REQUIRE_EVENTUALLY(blocker.entered);
    int64_t start = harness_clock();
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -EBUSY);
    CHECK_GE(harness_clock() - start, 2000 * MS);
    blocker.release = true;
    CHECK_EQ(weft_runtime_stop(rt, fixture_soon()), 0);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
}
