/* fiber_pin.c - where fibers run: a started one on its own worker always, one that may migrate anywhere; wakes from everywhere. */
#define _GNU_SOURCE
#include "fiber.h"

/* -- Always the same thread --------------------------------------------------------------------------------------------- */

static int stay(void *arg) {
    uint64_t seed = (uintptr_t)arg;
    pthread_t mine = fiber_thread();
    for (int i = 0; i < 200; i++) {
        switch (harness_random(&seed) % 4) {
        case 0: weft_sleep((int64_t)(harness_random(&seed) % 100000)); break;
        case 1: {
            atomic_uint ran = 0;
            weft_task *task = fixture_go(NULL, fixture_count, &ran); /* which another worker may run */
            REQUIRE_EQ(weft_join(task, NULL, WEFT_NEVER), 0);
            weft_task_drop(task);
            break;
        }
        default: weft_yield();
        }
        if (!pthread_equal(fiber_thread(), mine))
            return -1;
    }
    return 0;
}

API_TEST(fiber_pin_same_thread, "J15", .workers = {2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    uint64_t seed = harness_seed();
    weft_task *task[40];
    for (int i = 0; i < 40; i++)
        task[i] = fiber_go(rt, stay, (void *)(uintptr_t)(harness_random(&seed) | 1));
    for (int i = 0; i < 40; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* Thread-locals of the program keep their values across waits. */
static _Thread_local unsigned mine;

static int use_thread_local(void *arg) {
    (void)arg;
    for (int i = 0; i < 100; i++) {
        unsigned *before = &mine;
        weft_yield();
        CHECK_EQ(&mine, before);
    }
    return 0;
}

API_TEST(fiber_pin_thread_locals, "J15", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[10];
    for (int i = 0; i < 10; i++)
        task[i] = fiber_go(rt, use_thread_local, NULL);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}

/* -- Migration ------------------------------------------------------------------------------------------------------------- */

static atomic_uint moves;

static int move(void *arg) {
    uint64_t seed = (uintptr_t)arg, sum = 0;
    pthread_t last = fiber_thread();
    char text[64];
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "%d", i);
        sum += (uint64_t)i;
        if (harness_random(&seed) % 8)
            weft_yield();
        else
            weft_sleep((int64_t)(harness_random(&seed) % 50000));
        pthread_t now = fiber_thread();
        atomic_fetch_add(&moves, !pthread_equal(now, last));
        last = now;
        CHECK_EQ(atoi(text), i);
    }
    CHECK_EQ(sum, 300 * 299 / 2);
    return 0;
}

API_TEST(fiber_migrate_moves, "J15", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    uint64_t seed = harness_seed();
    bool may_move = harness_workers() > 1 && !fixture_on("sim");
    for (int round = 0; round < 100 && (round == 0 || (may_move && !moves)); round++) {
        weft_task *task[40];
        for (int i = 0; i < 40; i++)
            task[i] = fiber_go_migrating(rt, move, (void *)(uintptr_t)(harness_random(&seed) | 1));
        for (int i = 0; i < 40; i++)
            CHECK_EQ(fixture_finish(task[i]).status, 0);
    }
    if (may_move)
        CHECK_GT(moves, 0);
    else
        CHECK_EQ(moves, 0);
    fixture_end(rt);
}

/* One that waits while its worker is stuck goes on elsewhere; a pinned one waits for its worker. */
struct stuck {
    struct event event;
    struct blocker blocker;
    atomic_uint passed;
};

static int pass_event(void *arg) {
    struct stuck *stuck = arg;
    CHECK_EQ(event_wait(&stuck->event, WEFT_NEVER), 0);
    atomic_fetch_add(&stuck->passed, 1);
    return 0;
}

static int block_worker(void *arg) {
    struct stuck *stuck = arg;
    atomic_store(&stuck->blocker.entered, true);
    while (!atomic_load(&stuck->blocker.release))
        harness_nap();
    return 0;
}

API_TEST(fiber_migrate_from_stuck_worker, "", .sched = "ring deque fifo", .workers = {2}) {
    weft_runtime *rt = fixture_begin(NULL);
    struct stuck stuck = {.passed = 0};
    weft_task *task[8], *block;
    for (int i = 0; i < 8; i++)
        task[i] = fiber_go_migrating(rt, pass_event, &stuck);
    REQUIRE_EVENTUALLY(event_waiting(&stuck.event) == 8);
    block = fiber_go(rt, block_worker, &stuck);
    REQUIRE_EVENTUALLY(stuck.blocker.entered);
    event_set(&stuck.event);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    atomic_store(&stuck.blocker.release, true);
    CHECK_EQ(fixture_finish(block).status, 0);
    fixture_end(rt);
}

/* Fibers that have not begun are stolen from a stuck worker as tasks are. */
static int spawn_and_block(void *arg) {
    struct stuck *stuck = arg;
    for (int i = 0; i < 20; i++)
        REQUIRE_EQ(weft_fiber_go(NULL, pass_event, stuck, NULL), 0);
    return block_worker(stuck);
}

API_TEST(fiber_pin_new_ones_are_stolen, "", .sched = "ring deque fifo", .workers = {2}) {
    weft_runtime *rt = fixture_begin(NULL);
    struct stuck stuck = {.event = {.set = true}};
    weft_task *block = fiber_go(rt, spawn_and_block, &stuck);
    REQUIRE_EVENTUALLY(stuck.passed == 20);
    atomic_store(&stuck.blocker.release, true);
    CHECK_EQ(fixture_finish(block).status, 0);
    fixture_end(rt);
}

/* -- Wakes ------------------------------------------------------------------------------------------------------------------- */

/* Fibers and threads pass a token around a ring of events: a wake that is lost stops it. */
enum { RING = 6, ROUNDS = 200 };

struct place {
    struct event event[RING];
    atomic_uint passed;
};

static struct {
    struct place place;
    unsigned rounds;
} token;

static bool take_token(unsigned index) {
    if (event_wait(&token.place.event[index], weft_in_fiber() ? WEFT_NEVER : fixture_soon()))
        return false;
    atomic_fetch_add(&token.place.passed, 1);
    event_post(&token.place.event[(index + 1) % RING]);
    return true;
}

static int pass_token(void *arg) {
    for (unsigned i = 0; i < token.rounds; i++)
        CHECK(take_token((unsigned)(uintptr_t)arg));
    return 0;
}

static void pass_token_on_thread(unsigned index, void *arg) {
    (void)arg;
    for (unsigned i = 0; i < token.rounds; i++)
        REQUIRE(take_token(2 * index + 1));
}

static void pass_around(bool threads, bool two_runtimes) {
    weft_runtime *rt[2] = {fixture_begin_patient(), NULL};
    rt[1] = two_runtimes ? fixture_begin_patient() : rt[0];
    token.rounds = fixture_is_slow() ? 50 : ROUNDS;
    weft_task *task[RING];
    for (uintptr_t i = 0; i < RING; i++)
        task[i] =
            threads && i % 2 ? NULL : (i % 3 ? fiber_go : fiber_go_migrating)(rt[i % 4 < 2], pass_token, (void *)i);
    event_post(&token.place.event[0]);
    if (threads)
        harness_threads(RING / 2, pass_token_on_thread, NULL);
    for (int i = 0; i < RING; i++)
        if (task[i])
            CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(token.place.passed, RING * token.rounds);
    fixture_end(rt[0]);
    if (two_runtimes)
        fixture_end(rt[1]);
}

API_TEST(fiber_lost_wake_between_workers, "J30 B21 B36", .workers = {1, 2, 4}) { pass_around(false, false); }
API_TEST(fiber_lost_wake_from_threads, "J30 B21 B36", .workers = {1, 2}) { pass_around(true, false); }
API_TEST(fiber_lost_wake_between_runtimes, "J30 B21", .workers = {1, 2}) { pass_around(false, true); }
API_TEST(fiber_lost_wake_from_all, "J30 B21", .workers = {2}) { pass_around(true, true); }

/* Bursts: many fibers of all workers woken at once by several threads. */
static struct {
    struct event event;
    atomic_uint passed;
} burst;

static int wait_often(void *arg) {
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++) {
        CHECK_EQ(event_wait(&burst.event, WEFT_NEVER), 0);
        atomic_fetch_add(&burst.passed, 1);
    }
    return 0;
}

static void serve_all(unsigned index, void *arg) {
    (void)index;
    while (atomic_load(&burst.passed) < (uintptr_t)arg)
        if (!event_serve(&burst.event))
            harness_nap();
}

API_TEST(fiber_lost_wake_bursts, "J30", .workers = {1, 2, 4}) {
    weft_runtime *rt = fixture_begin_patient();
    enum { FIBERS = 50, TIMES = 40 };
    weft_task *task[FIBERS];
    for (int i = 0; i < FIBERS; i++)
        task[i] = (i % 5 ? fiber_go : fiber_go_migrating)(rt, wait_often, (void *)TIMES);
    harness_threads(3, serve_all, (void *)(FIBERS * TIMES));
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    fixture_end(rt);
}
