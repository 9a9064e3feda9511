/* sync_sem.c - the semaphore: counting, order, errors, deadlines, cancels, threads and poll tasks. */
#include "sync.h"

static weft_sem sem;
static atomic_int inside, most;

/* Most hold in both orders. */
#define FIFO ((void *)(intptr_t)WEFT_SEM_FIFO)
static void init(uint32_t permits, void *flags) {
    REQUIRE_EQ(weft_sem_init_with(&sem, permits, (unsigned)(intptr_t)flags), 0);
}

static void enter(int n) {
    int now = atomic_fetch_add(&inside, n) + n, seen = atomic_load(&most);
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        ;
}
static void leave(int n) { atomic_fetch_sub(&inside, n); }

/* -- Never more than there are. */

static int acquire_often(void *times) {
    for (int i = 0; i < (int)(intptr_t)times; i++) {
        int n = 1 + i % 3;
        REQUIRE_EQ(weft_sem_acquire(&sem, (uint32_t)n, WEFT_NEVER), 0);
        enter(n);
        if (i % 4 == 0)
            weft_yield();
        leave(n);
        REQUIRE_EQ(weft_sem_release(&sem, (uint32_t)n), 0);
    }
    return 0;
}

static int counts(void *flags) {
    weft_task *task[50];
    init(4, flags);
    for (int i = 0; i < 50; i++)
        task[i] = go_fiber(acquire_often, (void *)(intptr_t)(fixture_is_slow() ? 20 : 200));
    for (int i = 0; i < 50; i++)
        CHECK_EQ(finish(task[i]), 0);
    CHECK_EQ(weft_sem_permits(&sem), 4);
    CHECK_LE(atomic_load(&most), 4);
    CHECK_EQ(weft_sem_destroy(&sem), 0);
    return 0;
}

API_TEST(sem_counts, "B52", .workers = {1, 2, 4}) { in_fiber(counts, NULL); }
API_TEST(sem_counts_fifo, "B52", .workers = {1, 2, 4}) { in_fiber(counts, FIFO); }

/* -- Errors */

static int wait_for_one(void *arg) {
    (void)arg;
    return weft_sem_acquire(&sem, 1, WEFT_NEVER);
}

static weft_poll acquire_in_poll(weft_task *self, void *arg) {
    (void)arg;
    return weft_done(self, weft_sem_acquire(&sem, 1, WEFT_NEVER), NULL);
}

static int errors(void *arg) {
    (void)arg;
    CHECK_EQ(weft_sem_init_with(&sem, 0, 2), -EINVAL);
    sem = (weft_sem)WEFT_SEM_FIFO_INIT(7);
    CHECK_EQ(weft_sem_permits(&sem), 7);
    weft_sem_init(&sem, 0);
    CHECK_EQ(weft_sem_acquire(&sem, 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_sem_acquire(&sem, 1, weft_after(1000)), -ETIMEDOUT);
    CHECK_EQ(weft_sem_acquire(&sem, 0, WEFT_NEVER), 0);
    weft_task *task;
    REQUIRE_EQ(weft_go(NULL, acquire_in_poll, NULL, &task), 0);
    CHECK_EQ(finish(task), -EINVAL);
    CHECK_EQ(weft_sem_release(&sem, UINT32_MAX), 0);
    CHECK_EQ(weft_sem_release(&sem, 1), -EOVERFLOW);
    CHECK_EQ(weft_sem_permits(&sem), UINT32_MAX);
    CHECK_EQ(weft_sem_acquire(&sem, UINT32_MAX, WEFT_NOW), 0);
    task = go_fiber(wait_for_one, NULL);
    UNTIL(waiting(&sem.room) == 1);
    CHECK_EQ(weft_sem_acquire(&sem, 0, WEFT_NOW), -ETIMEDOUT); /* not before who waits */
    CHECK_EQ(weft_sem_destroy(&sem), -EBUSY);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    CHECK_EQ(finish(task), 0);
    CHECK_EQ(weft_sem_destroy(&sem), 0);
    CHECK_EQ(weft_sem_destroy(&sem), -EINVAL);
    CHECK_EQ(weft_sem_acquire(&sem, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_sem_acquire(&sem, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_sem_release(&sem, 1), -EINVAL);
    return 0;
}

API_TEST(sem_errors, "B52", .workers = {1, 2}) { in_fiber(errors, NULL); }

/* -- First come, first served; who wants many is not overtaken, and does not stand in the way once he has left. */

static int wants[4] = {3, 1, 1, 2};
static int got[4];
static atomic_int place;

static int acquire_some(void *index) {
    int i = (int)(intptr_t)index;
    int error = weft_sem_acquire(&sem, (uint32_t)wants[i], WEFT_NEVER);
    if (!error)
        got[i] = atomic_fetch_add(&place, 1) + 1;
    return error;
}

static int in_order(void *flags) {
    weft_task *task[4];
    init(0, flags);
    for (int i = 0; i < 4; i++) {
        task[i] = go_fiber(acquire_some, (void *)(intptr_t)i);
        UNTIL(waiting(&sem.room) == (unsigned)i + 1);
    }
    CHECK_EQ(weft_sem_release(&sem, 2), 0);
    CHECK_EQ(waiting(&sem.room), 4);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    CHECK_EQ(finish(task[0]), 0);
    CHECK_EQ(got[0], 1);
    CHECK_EQ(waiting(&sem.room), 3);
    CHECK_EQ(weft_sem_release(&sem, 3), 0); /* the next two, and one permit for the last, who wants two */
    CHECK_EQ(finish(task[1]), 0);
    CHECK_EQ(finish(task[2]), 0);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    CHECK_EQ(weft_sem_acquire(&sem, 1, WEFT_NOW), -ETIMEDOUT);
    wants[1] = 1;
    task[1] = go_fiber(acquire_some, (void *)1);
    UNTIL(waiting(&sem.room) == 2);
    weft_task_cancel(task[3]);
    CHECK_EQ(finish(task[3]), -ECANCELED);
    CHECK_EQ(finish(task[1]), 0); /* it was behind him */
    CHECK_EQ(weft_sem_permits(&sem), 0);
    CHECK_EQ(weft_sem_destroy(&sem), 0);
    return 0;
}

API_TEST(sem_order, "B52", .workers = {1, 2, 4}) { in_fiber(in_order, NULL); }
API_TEST(sem_order_fifo, "B52", .workers = {1, 2, 4}) { in_fiber(in_order, FIFO); }

/* -- A thousand waiters; one release serves them all. */

static int thousand(void *flags) {
    static weft_task *task[MANY];
    init(0, flags);
    for (int i = 0; i < MANY; i++)
        task[i] = go_fiber(wait_for_one, NULL);
    UNTIL(waiting(&sem.room) == MANY);
    CHECK_EQ(weft_sem_destroy(&sem), -EBUSY);
    cancel_half(task);
    CHECK_EQ(weft_sem_release(&sem, MANY / 2 + 3), 0);
    finish_half(task);
    CHECK_EQ(weft_sem_permits(&sem), 3);
    CHECK_EQ(weft_sem_destroy(&sem), 0);
    return 0;
}

API_TEST(sem_thousand, "B52", .workers = {1, 2}) { in_fiber(thousand, NULL); }
API_TEST(sem_thousand_fifo, "B52", .workers = {1, 2}) { in_fiber(thousand, FIFO); }

/* -- A storm of deadlines and cancels: in the end all permits are there again. */

static int stormy(void *seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed;
    for (int i = 0; i < 50; i++) {
        uint32_t n = 1 + (uint32_t)(harness_random(&random) % 3);
        int64_t wait = (int64_t)(harness_random(&random) % 4) * 20000;
        int error = weft_sem_acquire(&sem, n, wait == 60000 ? WEFT_NEVER : weft_after(wait));
        if (error == -ECANCELED)
            return 0;
        if (error == 0) {
            enter((int)n);
            if (i % 3 == 0)
                weft_yield();
            leave((int)n);
            REQUIRE_EQ(weft_sem_release(&sem, n), 0);
        }
    }
    return 0;
}

static int poll_acquire(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    int error = weft_sem_acquire_poll(&sem, 2, self, wait);
    return error ? error : weft_sem_release(&sem, 2);
}

static int storm(void *flags) {
    static weft_task *task[STORM];
    uint64_t random = harness_seed();
    init(5, flags);
    for (int i = 0; i < STORM; i++)
        task[i] = i % 4 ? go_fiber(stormy, (void *)(uintptr_t)harness_random(&random)) : go_poller(poll_acquire, NULL);
    cancel_any(task, &random);
    CHECK_LE(atomic_load(&most), 5);
    CHECK_EQ(weft_sem_permits(&sem), 5);
    CHECK_EQ(weft_sem_destroy(&sem), 0);
    return 0;
}

API_TEST(sem_storm, "B52", .workers = {1, 2, 4}) { in_fiber(storm, NULL); }
API_TEST(sem_storm_fifo, "B52", .workers = {1, 2, 4}) { in_fiber(storm, FIFO); }

/* -- Granted to a poll task that is cancelled before it knows: on one worker it cannot have been polled. */

static int keep_two(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    return weft_sem_acquire_poll(&sem, 2, self, wait);
}

static int granted_and_cancelled(void *flags) {
    init(0, flags);
    weft_task *task = go_poller(keep_two, NULL), *next;
    UNTIL(waiting(&sem.room) == 1);
    next = go_fiber(wait_for_one, NULL);
    UNTIL(waiting(&sem.room) == 2);
    CHECK_EQ(weft_sem_release(&sem, 2), 0);
    weft_task_cancel(task);
    int status = finish(task);
    if (harness_workers() == 1 || fixture_on("sim"))
        CHECK_EQ(status, -ECANCELED);
    if (status == 0) /* polled at once by another worker: it has them */
        CHECK_EQ(weft_sem_release(&sem, 2), 0);
    CHECK_EQ(finish(next), 0);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    CHECK_EQ(weft_sem_destroy(&sem), 0);
    return 0;
}

API_TEST(sem_poll_cancelled, "B52", .workers = {1, 2}) { in_fiber(granted_and_cancelled, NULL); }
API_TEST(sem_poll_cancelled_fifo, "B52", .workers = {1, 2}) { in_fiber(granted_and_cancelled, FIFO); }

/* -- Who runs comes before who was woken, until that one has waited for a millisecond: then it is handed to him. */

static int want_one(void *times) {
    int error = weft_sem_acquire(&sem, 1, WEFT_NEVER);
    if (!error)
        *(int *)times = 1;
    return error;
}

static void wait_until_late(void) {
    for (int64_t end = weft_now() + 2000000; weft_now() < end;)
        if (fixture_on("sim"))
            REQUIRE_EQ(weft_sleep(500000), 0); /* time is virtual there */
}

static int patience(void *flags) {
    int got_it = 0;
    init(0, flags);
    for (int late = 0; late < 2; late++) {
        weft_task *task = go_fiber(want_one, &got_it);
        UNTIL(waiting(&sem.room) == 1);
        if (late)
            wait_until_late();
        CHECK_EQ(weft_sem_release(&sem, 1), 0);
        CHECK_EQ(waiting(&sem.room), 0);
        int error = weft_sem_acquire(&sem, 1, WEFT_NOW);
        if (late || flags)
            CHECK_EQ(error, -ETIMEDOUT);
        else if (fixture_on("sim")) /* where no time passes by itself, and nobody runs but we */
            CHECK_EQ(error, 0);
        if (!error) {
            CHECK_EQ(got_it, 0);
            UNTIL(waiting(&sem.room) == 1); /* he is back */
            CHECK_EQ(weft_sem_release(&sem, 1), 0);
        }
        CHECK_EQ(finish(task), 0);
        CHECK_EQ(got_it, 1);
        CHECK_EQ(weft_sem_permits(&sem), 0);
        got_it = 0;
    }
    CHECK_EQ(weft_sem_destroy(&sem), 0);
    return 0;
}

API_TEST(sem_patience, "B52 R31", .workers = {1, 2}) { in_fiber(patience, NULL); }
API_TEST(sem_patience_fifo, "B52 R31", .workers = {1, 2}) { in_fiber(patience, FIFO); }

/* -- One who wants many against many who want one, all the time: he gets them, again and again. */

static atomic_bool enough;

static int busy(void *arg) {
    (void)arg;
    while (!atomic_load(&enough)) {
        REQUIRE_EQ(weft_sem_acquire(&sem, 1, WEFT_NEVER), 0);
        weft_yield();
        REQUIRE_EQ(weft_sem_release(&sem, 1), 0);
    }
    return 0;
}

static int large(void *flags) {
    weft_task *task[8];
    init(4, flags);
    for (int i = 0; i < 8; i++)
        task[i] = go_fiber(busy, NULL);
    for (int i = 0; i < 20; i++) {
        REQUIRE_EQ(weft_sem_acquire(&sem, 4, WEFT_NEVER), 0);
        CHECK_EQ(weft_sem_permits(&sem), 0);
        REQUIRE_EQ(weft_sem_release(&sem, 4), 0);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(finish(task[i]), 0);
    CHECK_EQ(weft_sem_permits(&sem), 4);
    CHECK_EQ(weft_sem_destroy(&sem), 0);
    return 0;
}

API_TEST(sem_large, "B52", .workers = {1, 2, 4}) { in_fiber(large, NULL); }
API_TEST(sem_large_fifo, "B52", .workers = {1, 2}) { in_fiber(large, FIFO); }

/* -- Threads give, fibers take, and the other way round. */

static weft_sem there, back;

static int echo(void *times) {
    for (int i = 0; i < (int)(intptr_t)times; i++) {
        REQUIRE_EQ(weft_sem_acquire(&there, 1, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_sem_release(&back, 1), 0);
    }
    return 0;
}

static void thread(unsigned index, void *arg) {
    (void)index, (void)arg;
    for (int i = 0; i < 100; i++) {
        REQUIRE_EQ(weft_sem_release(&there, 1), 0);
        REQUIRE_EQ(weft_sem_acquire(&back, 1, fixture_soon()), 0);
    }
    CHECK_EQ(weft_sem_acquire(&back, 1000, weft_after(100000)), -ETIMEDOUT);
}

API_TEST(sem_threads, "B52", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[2];
    weft_sem_init(&there, 0);
    weft_sem_init(&back, 0);
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(weft_fiber_go(rt, echo, (void *)150, &task[i]), 0);
    harness_threads(3, thread, NULL);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(weft_sem_permits(&there) + weft_sem_permits(&back), 0);
    fixture_end(rt);
}
