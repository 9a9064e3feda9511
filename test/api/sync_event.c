/* sync_event.c - the event, the barrier, once and the wait group. */
#include "sync.h"

static weft_event event;
static weft_barrier barrier;
static weft_once once;
static weft_group group;
static atomic_int counter;
static weft_task *task[MANY];

static int wait_event(void *until) { return weft_event_wait(&event, (weft_deadline)(intptr_t)until); }
static int wait_event_poll(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    return weft_event_wait_poll(&event, self, wait);
}
#define NEVER ((void *)(intptr_t)WEFT_NEVER)

/* -- Event: all who wait go on, even if it is cleared at once; then nobody does. */

static int event_all(void *arg) {
    (void)arg;
    weft_event_init(&event);
    CHECK(!weft_event_is_set(&event));
    CHECK_EQ(weft_event_wait(&event, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_event_wait(&event, weft_after(1000)), -ETIMEDOUT);
    CHECK_EQ(weft_event_clear(&event), 0);
    CHECK_EQ(weft_event_set(&event), 0);
    CHECK_EQ(weft_event_set(&event), 0);
    CHECK(weft_event_is_set(&event));
    CHECK_EQ(weft_event_wait(&event, WEFT_NOW), 0);
    CHECK_EQ(weft_event_clear(&event), 1);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++)
            task[i] = i % 5 ? go_fiber(wait_event, NEVER) : go_poller(wait_event_poll, NULL);
        UNTIL(waiting(&event.room) == MANY);
        CHECK_EQ(weft_event_destroy(&event), -EBUSY);
        for (int i = 0; i < 100; i++)
            weft_task_cancel(task[i]);
        for (int i = 0; i < 100; i++)
            CHECK_EQ(finish(task[i]), -ECANCELED);
        CHECK_EQ(weft_event_set(&event), 0);
        CHECK_EQ(weft_event_clear(&event), 1);
        for (int i = 100; i < MANY; i++)
            CHECK_EQ(finish(task[i]), 0);
        CHECK_EQ(weft_event_wait(&event, WEFT_NOW), -ETIMEDOUT);
    }
    CHECK_EQ(weft_event_destroy(&event), 0);
    CHECK_EQ(weft_event_destroy(&event), -EINVAL);
    CHECK_EQ(weft_event_set(&event), -EINVAL);
    CHECK_EQ(weft_event_clear(&event), -EINVAL);
    CHECK_EQ(weft_event_wait(&event, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_event_wait(&event, WEFT_NOW), -EINVAL);
    return 0;
}

API_TEST(event_all, "B52", .workers = {1, 2, 4}) { in_fiber(event_all, NULL); }

/* A set that finds many waiters is not over when the first of them goes on: destroy waits for it. */
static int free_it(void *arg) {
    weft_event *mine = arg;
    CHECK_EQ(weft_event_wait(mine, WEFT_NEVER), 0);
    if (atomic_fetch_sub(&counter, 1) == 1) {
        REQUIRE_EQ(weft_event_destroy(mine), 0);
        free(mine);
    }
    return 0;
}

static int event_freed(void *arg) {
    (void)arg;
    for (int round = 0; round < 20; round++) {
        weft_event *mine = malloc(sizeof *mine);
        REQUIRE(mine);
        weft_event_init(mine);
        atomic_store(&counter, 70);
        for (int i = 0; i < 70; i++)
            task[i] = go_fiber(free_it, mine);
        UNTIL(waiting(&mine->room) == 70);
        weft_event_set(mine);
        for (int i = 0; i < 70; i++)
            CHECK_EQ(finish(task[i]), 0);
    }
    return 0;
}

API_TEST(event_freed, "B52", .workers = {1, 2, 4}) { in_fiber(event_freed, NULL); }

static int set_event(void *arg) {
    (void)arg;
    return weft_event_set(&event);
}

static void wait_as_thread(unsigned index, void *rt) {
    if (index == 0) {
        REQUIRE_EVENTUALLY(waiting(&event.room) == 3);
        weft_task *setter;
        REQUIRE_EQ(weft_fiber_go(rt, set_event, NULL, &setter), 0);
        CHECK_EQ(fixture_finish(setter).status, 0);
    } else {
        CHECK_EQ(weft_event_wait(&event, fixture_soon()), 0);
    }
}

API_TEST(event_threads, "B52", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_event_init(&event);
    CHECK_EQ(weft_event_wait(&event, weft_after(1000)), -ETIMEDOUT);
    harness_threads(4, wait_as_thread, rt);
    CHECK_EQ(weft_event_destroy(&event), 0);
    fixture_end(rt);
}

/* -- Barrier: nobody is a round ahead, and one in each round is told. */

#define PARTIES 20
static atomic_int arrived[100], serial[100];

static int rounds(void *arg) {
    (void)arg;
    for (int i = 0; i < 100; i++) {
        atomic_fetch_add(&arrived[i], 1);
        int said = weft_barrier_wait(&barrier, WEFT_NEVER);
        REQUIRE(said == 0 || said == 1);
        atomic_fetch_add(&serial[i], said);
        REQUIRE_EQ(atomic_load(&arrived[i]), PARTIES);
    }
    return 0;
}

static int wait_barrier(void *until) { return weft_barrier_wait(&barrier, (weft_deadline)(intptr_t)until); }
static int wait_barrier_poll(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    return weft_barrier_wait_poll(&barrier, self, wait);
}
static weft_poll barrier_in_poll(weft_task *self, void *arg) {
    (void)arg;
    return weft_done(self, weft_barrier_wait(&barrier, WEFT_NEVER), NULL);
}

static int barriers(void *arg) {
    (void)arg;
    CHECK_EQ(weft_barrier_init(&barrier, 0), -EINVAL);
    REQUIRE_EQ(weft_barrier_init(&barrier, PARTIES), 0);
    for (int i = 0; i < PARTIES; i++)
        task[i] = go_fiber(rounds, NULL);
    for (int i = 0; i < PARTIES; i++)
        CHECK_EQ(finish(task[i]), 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(atomic_load(&serial[i]), 1);
    CHECK_EQ(weft_barrier_destroy(&barrier), 0);
    CHECK_EQ(weft_barrier_destroy(&barrier), -EINVAL);
    CHECK_EQ(weft_barrier_wait(&barrier, WEFT_NEVER), -EINVAL);

    /* Those who give up have not arrived. */
    barrier = (weft_barrier)WEFT_BARRIER_INIT(3);
    CHECK_EQ(weft_barrier_wait(&barrier, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_barrier_wait(&barrier, weft_after(1000)), -ETIMEDOUT);
    weft_task *poll;
    REQUIRE_EQ(weft_go(NULL, barrier_in_poll, NULL, &poll), 0);
    CHECK_EQ(finish(poll), -EINVAL);
    task[0] = go_fiber(wait_barrier, NEVER);
    task[1] = go_poller(wait_barrier_poll, NULL);
    UNTIL(waiting(&barrier.room) == 2);
    CHECK_EQ(weft_barrier_destroy(&barrier), -EBUSY);
    weft_task_cancel(task[0]);
    weft_task_cancel(task[1]);
    CHECK_EQ(finish(task[0]), -ECANCELED);
    CHECK_EQ(finish(task[1]), -ECANCELED);
    task[0] = go_fiber(wait_barrier, NEVER);
    task[1] = go_poller(wait_barrier_poll, NULL);
    UNTIL(waiting(&barrier.room) == 2);
    CHECK_EQ(weft_barrier_wait(&barrier, WEFT_NOW), 1); /* the last need not wait */
    CHECK_EQ(finish(task[0]), 0);
    CHECK_EQ(finish(task[1]), 0);
    CHECK_EQ(weft_barrier_destroy(&barrier), 0);
    return 0;
}

API_TEST(barrier_rounds, "B52", .workers = {1, 2, 4}) { in_fiber(barriers, NULL); }

static void barrier_thread(unsigned index, void *arg) {
    (void)index, (void)arg;
    rounds(NULL);
}

API_TEST(barrier_threads, "B52", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    REQUIRE_EQ(weft_barrier_init(&barrier, PARTIES), 0);
    for (int i = 0; i < PARTIES - 2; i++)
        REQUIRE_EQ(weft_fiber_go(rt, rounds, NULL, &task[i]), 0);
    harness_threads(2, barrier_thread, NULL);
    for (int i = 0; i < PARTIES - 2; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(weft_barrier_destroy(&barrier), 0);
    fixture_end(rt);
}

/* -- Once */

static int done; /* plain: written by the one who runs it */

static void slow_start(void *arg) {
    atomic_fetch_add(&counter, 1);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(weft_yield(), 0); /* also when it is cancelled meanwhile */
    CHECK_EQ(weft_once_run(&once, slow_start, arg, WEFT_NEVER), -EDEADLK);
    done = 42;
}

static int run_once(void *until) {
    int error = weft_once_run(&once, slow_start, NULL, (weft_deadline)(intptr_t)until);
    if (error == 0)
        CHECK_EQ(done, 42);
    return error;
}

static void quick_start(void *arg) { (void)arg; }

static int run_once_poll(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    return weft_once_run_poll(&once, quick_start, NULL, self, wait);
}

static int runs_once(void *arg) {
    (void)arg;
    for (int round = 0; round < 10; round++) {
        weft_once_init(&once);
        done = 0;
        atomic_store(&counter, 0);
        task[0] = go_fiber(run_once, NEVER);
        UNTIL(atomic_load(&counter) == 1);
        for (int i = 1; i < 100; i++)
            task[i] = i % 5 ? go_fiber(run_once, NEVER) : go_poller(run_once_poll, NULL);
        weft_task_cancel(task[0]);
        for (int i = 50; i < 60; i++)
            weft_task_cancel(task[i]);
        int said = weft_once_run(&once, slow_start, NULL, WEFT_NOW);
        CHECK(said == 0 || said == -ETIMEDOUT);
        CHECK_EQ(finish(task[0]), 0); /* the runner: it was done, whatever was asked of it */
        for (int i = 1; i < 100; i++) {
            int status = finish(task[i]);
            CHECK(status == 0 || (status == -ECANCELED && i >= 50 && i < 60));
        }
        CHECK_EQ(atomic_load(&counter), 1);
        CHECK(weft_once_is_done(&once));
        CHECK_EQ(weft_once_run(&once, slow_start, NULL, WEFT_NOW), 0);
        CHECK_EQ(weft_once_destroy(&once), 0);
        CHECK_EQ(weft_once_destroy(&once), -EINVAL);
        CHECK_EQ(weft_once_run(&once, slow_start, NULL, WEFT_NEVER), -EINVAL);
    }
    return 0;
}

API_TEST(once_runs, "B52", .workers = {1, 2, 4}) { in_fiber(runs_once, NULL); }

/* Cancelled, and the time of its shields is over: that holds for its own waits, not for what it does for others. */
static void start_late(void *arg) {
    weft_mutex *lock = arg;
    weft_cond cond = WEFT_COND_INIT;
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(weft_sleep(1000), 0);
    CHECK(!weft_task_is_cancelled(weft_task_self()));
    REQUIRE_EQ(weft_mutex_lock(lock, WEFT_NEVER), 0);
    CHECK_EQ(weft_cond_wait(&cond, lock, weft_after(1000)), -ETIMEDOUT);
    CHECK_EQ(weft_mutex_unlock(lock), 0);
    CHECK_EQ(weft_sleep(1000), 0); /* the condition has left it as it was */
    weft_once other = WEFT_ONCE_INIT;
    CHECK_EQ(weft_once_run(&other, quick_start, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_sleep(1000), 0);
    atomic_fetch_add(&counter, 1);
}

static int once_after_a_shield(void *arg) {
    (void)arg;
    weft_task *self = weft_task_self();
    weft_mutex lock = WEFT_MUTEX_INIT;
    weft_once_init(&once);
    atomic_store(&counter, 0);
    REQUIRE_EQ(weft_shield_until(self, WEFT_NOW), 0);
    weft_task_cancel(self);
    CHECK_EQ(weft_yield(), -ECANCELED);
    CHECK_EQ(weft_once_run(&once, start_late, &lock, WEFT_NEVER), 0);
    CHECK_EQ(atomic_load(&counter), 1);
    CHECK_EQ(weft_yield(), -ECANCELED);
    CHECK_EQ(weft_unshield(self), 0);
    CHECK_EQ(weft_unshield(self), -EINVAL);
    return 0;
}

API_TEST(once_after_a_shield, "B52", .workers = {1, 2}) { in_fiber(once_after_a_shield, NULL); }

static void once_thread(unsigned index, void *arg) {
    (void)index, (void)arg;
    CHECK_EQ(run_once(NEVER), 0);
}

API_TEST(once_threads, "B52", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_once_init(&once);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(weft_fiber_go(rt, run_once, NEVER, &task[i]), 0);
    harness_threads(3, once_thread, NULL);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(atomic_load(&counter), 1);
    fixture_end(rt);
}

/* -- Wait group */

static int work[200];

static int do_work(void *index) {
    weft_yield();
    work[(intptr_t)index]++;
    return weft_group_done(&group);
}

static int wait_group(void *until) { return weft_group_wait(&group, (weft_deadline)(intptr_t)until); }
static int wait_group_poll(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    return weft_group_wait_poll(&group, self, wait);
}

static int groups(void *arg) {
    (void)arg;
    weft_group_init(&group);
    CHECK_EQ(weft_group_wait(&group, WEFT_NOW), 0);
    CHECK_EQ(weft_group_done(&group), -ERANGE);
    CHECK_EQ(weft_group_add(&group, INT32_MAX), 0);
    CHECK_EQ(weft_group_add(&group, 1), -EOVERFLOW);
    CHECK_EQ(weft_group_add(&group, -INT32_MAX), 0);
    for (int round = 0; round < 5; round++) {
        CHECK_EQ(weft_group_add(&group, 200), 0);
        for (int i = 0; i < 50; i++)
            task[i] = i % 5 ? go_fiber(wait_group, NEVER) : go_poller(wait_group_poll, NULL);
        UNTIL(waiting(&group.room) == 50);
        CHECK_EQ(weft_group_count(&group), 200);
        CHECK_EQ(weft_group_wait(&group, WEFT_NOW), -ETIMEDOUT);
        CHECK_EQ(weft_group_wait(&group, weft_after(1000)), -ETIMEDOUT);
        CHECK_EQ(weft_group_add(&group, -201), -ERANGE);
        CHECK_EQ(weft_group_destroy(&group), -EBUSY);
        weft_task_cancel(task[10]);
        weft_task_cancel(task[11]);
        CHECK_EQ(finish(task[10]), -ECANCELED);
        CHECK_EQ(finish(task[11]), -ECANCELED);
        for (int i = 0; i < 200; i++)
            REQUIRE_EQ(weft_fiber_go(NULL, do_work, (void *)(intptr_t)i, NULL), 0);
        CHECK_EQ(weft_group_wait(&group, WEFT_NEVER), 0);
        for (int i = 0; i < 200; i++)
            CHECK_EQ(work[i], round + 1);
        for (int i = 0; i < 50; i++)
            if (i != 10 && i != 11)
                CHECK_EQ(finish(task[i]), 0);
    }
    CHECK_EQ(weft_group_destroy(&group), 0);
    CHECK_EQ(weft_group_destroy(&group), -EINVAL);
    CHECK_EQ(weft_group_add(&group, 1), -EINVAL);
    CHECK_EQ(weft_group_wait(&group, WEFT_NEVER), -EINVAL);
    return 0;
}

API_TEST(group_waits, "B52", .workers = {1, 2, 4}) { in_fiber(groups, NULL); }

/* -- Turns: those who wait know theirs by a number, which wraps */

static int wait_barrier_once(void *arg) {
    (void)arg;
    return weft_barrier_wait(&barrier, WEFT_NEVER) < 0;
}
static int wait_barrier_once_poll(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    int said = weft_barrier_wait_poll(&barrier, self, wait);
    return said > 0 ? 0 : said;
}

static int turns_wrap(void *arg) {
    (void)arg;
    weft_event_init(&event);
    weft_group_init(&group);
    REQUIRE_EQ(weft_barrier_init(&barrier, 3), 0);
    event.turn = group.turn = barrier.turn = UINT64_MAX - 1;
    for (int round = 0; round < 4; round++) {
        REQUIRE_EQ(weft_group_add(&group, 1), 0);
        task[0] = go_fiber(wait_event, NEVER), task[1] = go_poller(wait_event_poll, NULL);
        task[2] = go_fiber(wait_group, NEVER), task[3] = go_poller(wait_group_poll, NULL);
        task[4] = go_fiber(wait_barrier_once, NULL), task[5] = go_poller(wait_barrier_once_poll, NULL);
        UNTIL(waiting(&event.room) == 2 && waiting(&group.room) == 2 && waiting(&barrier.room) == 2);
        CHECK_EQ(weft_event_set(&event), 0);
        CHECK_EQ(weft_event_clear(&event), 1);
        CHECK_EQ(weft_group_done(&group), 0);
        CHECK_GE(weft_barrier_wait(&barrier, WEFT_NOW), 0);
        CHECK_EQ(waiting(&event.room) + waiting(&group.room) + waiting(&barrier.room), 0);
        for (int i = 0; i < 6; i++)
            CHECK_EQ(finish(task[i]), 0);
    }
    CHECK_EQ(weft_event_destroy(&event) | weft_group_destroy(&group) | weft_barrier_destroy(&barrier), 0);
    return 0;
}

API_TEST(sync_turns_wrap, "B52", .workers = {1, 2}) { in_fiber(turns_wrap, NULL); }

API_TEST(group_threads, "B52", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_group_init(&group);
    for (int round = 0; round < 5; round++) {
        CHECK_EQ(weft_group_add(&group, 20), 0);
        for (int i = 0; i < 20; i++)
            REQUIRE_EQ(weft_fiber_go(rt, do_work, (void *)(intptr_t)i, NULL), 0);
        CHECK_EQ(weft_group_wait(&group, fixture_soon()), 0);
    }
    CHECK_EQ(weft_group_destroy(&group), 0);
    fixture_end(rt);
}
