/* sync_sem.c - the semaphore: permits are neither lost nor made. */
#include "sync.h"

static weft_sem *sem;

static void begin(uint32_t permits) {
    sem = wefti_alloc(sizeof *sem);
    weft_sem_init(sem, permits);
}

static void end(uint32_t permits) {
    mc_assert(weft_sem_permits(sem) == permits);
    mc_assert(weft_sem_destroy(sem) == 0);
    wefti_free(sem, sizeof *sem);
}

/* -- As a lock: exclusion, visibility, every waiter woken. */

static void user(void *times) {
    for (intptr_t i = 0; i < (intptr_t)times; i++) {
        mc_assert(weft_sem_acquire(sem, 1, WEFT_NEVER) == 0);
        data++;
        mc_assert(weft_sem_release(sem, 1) == 0);
    }
}

MC_TEST(sync_sem_two, .proves = "B52", .bound = 3, .seconds = 4) {
    begin(1);
    int a = mc_spawn(user, (void *)2);
    user((void *)1);
    mc_join(a);
    mc_assert(data == 3);
    end(1);
}

MC_TEST(sync_sem_three, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4) {
    begin(1);
    int a = mc_spawn(user, (void *)1), b = mc_spawn(user, (void *)1);
    user((void *)1);
    mc_join(a), mc_join(b);
    mc_assert(data == 3);
    end(1);
}

/* Two give one each, one wants both: it sees what both wrote, whichever way they gave. */
static int wrote[2];

static void giver(void *i) {
    wrote[(intptr_t)i] = 1;
    mc_assert(weft_sem_release(sem, 1) == 0);
}

MC_TEST(sync_sem_sum, .proves = "B52", .bound = 2, .seconds = 3) {
    begin(0);
    int a = mc_spawn(giver, (void *)0), b = mc_spawn(giver, (void *)1);
    mc_assert(weft_sem_acquire(sem, 2, WEFT_NEVER) == 0);
    mc_assert(wrote[0] + wrote[1] == 2);
    mc_join(a), mc_join(b);
    end(0);
}

/* The same when a third waits for the sum, and another served before him let it through. */
static void take_one(void *unused) {
    (void)unused;
    mc_assert(weft_sem_acquire(sem, 1, WEFT_NEVER) == 0);
}

MC_TEST(sync_sem_sum_served, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4) {
    begin(0);
    int a = mc_spawn(take_one, NULL);
    until_waits(&sem->room);
    int b = mc_spawn(giver, (void *)0);
    wrote[1] = 1;
    mc_assert(weft_sem_release(sem, 2) == 0);
    mc_assert(weft_sem_acquire(sem, 2, WEFT_NEVER) == 0);
    mc_assert(wrote[0] + wrote[1] == 2);
    mc_join(a), mc_join(b);
    end(0);
}

/* -- One gives up against a release. */

static void late_user(void *permits) {
    int error = weft_sem_acquire(sem, (uint32_t)(intptr_t)permits, SOON);
    mc_assert(error == 0 || error == -ETIMEDOUT);
    if (!error)
        mc_assert(weft_sem_release(sem, (uint32_t)(intptr_t)permits) == 0);
}

MC_TEST(sync_sem_timeout, .proves = "B52", .bound = 3, .timeouts = 1, .seconds = 4) {
    begin(0);
    int a = mc_spawn(late_user, (void *)1);
    mc_assert(weft_sem_release(sem, 1) == 0);
    mc_join(a);
    end(1);
}

/* Who wants two stands in front of who wants one; when he leaves, there is one. */
MC_TEST(sync_sem_leaves_front, .proves = "B52", .bound = 2, .idle_timeouts = 1, .stale_counts = true, .seconds = 4) {
    begin(1);
    int a = mc_spawn(late_user, (void *)2);
    until_waits(&sem->room);
    user((void *)1);
    mc_join(a);
    end(1);
}

/* -- Served, the last one frees it; more of them than are served at once. */

static void taker_frees(void *unused) {
    (void)unused;
    mc_assert(weft_sem_acquire(sem, 1, WEFT_NEVER) == 0);
    if (add_acq_rel(&count, 1) == 2)
        end(0);
}

MC_TEST(sync_sem_freed, .proves = "B52", .mode = MC_PCT, .depth = 4, .max_exec = 20000) {
    begin(0);
    int a = mc_spawn(taker_frees, NULL), b = mc_spawn(taker_frees, NULL), c = mc_spawn(taker_frees, NULL);
    mc_assert(weft_sem_release(sem, 3) == 0);
    mc_join(a), mc_join(b), mc_join(c);
}

MC_TEST(sync_sem_freed_one, .proves = "B52", .bound = 3, .seconds = 4) {
    begin(0);
    store_relaxed(&count, 2); /* before the threads */
    int a = mc_spawn(taker_frees, NULL);
    mc_assert(weft_sem_release(sem, 1) == 0);
    mc_join(a);
}

/* -- Cancelled against a release. */

static int poll_takes(weft_task *self, weft_wait *wait) { return weft_sem_acquire_poll(sem, 1, self, wait); }

static int fiber_takes(void *unused) {
    (void)unused;
    return weft_sem_acquire(sem, 1, WEFT_NEVER);
}

static void releaser(void *unused) {
    (void)unused;
    mc_assert(weft_sem_release(sem, 1) == 0);
}

static void against_cancel(void) {
    begin(0);
    rt_start(1);
    weft_task *task = mc_arg() ? rt_poller(poll_takes) : rt_fiber(fiber_takes, NULL);
    int a = mc_spawn(releaser, NULL);
    weft_task_cancel(task);
    int status = rt_finish(task);
    mc_join(a);
    rt_stop();
    end(status == 0 ? 0 : 1);
}
MC_CASE(sync_sem_cancel_fiber, against_cancel, .arg = 0, .proves = "B52", .bound = 2, .stale_counts = true,
        .seconds = 2);
MC_CASE(sync_sem_cancel_poll, against_cancel, .arg = 1, .proves = "B52", .bound = 2, .stale_counts = true,
        .seconds = 2);

/* -- The bit goes away between the look at it and the lock: then others change the word without the lock. */

static void release_often(void *unused) {
    (void)unused;
    mc_assert(weft_sem_release(sem, 1) == 0);
    mc_assert(weft_sem_release(sem, 1) == 0);
}

MC_TEST(sync_sem_bit_gone, .proves = "B52", .bound = 3, .timeouts = 1, .stale_counts = true, .seconds = 6) {
    begin(0);
    int a = mc_spawn(late_user, (void *)1), b = mc_spawn(release_often, NULL);
    mc_assert(weft_sem_release(sem, 1) == 0);
    mc_join(a), mc_join(b);
    end(3);
}
