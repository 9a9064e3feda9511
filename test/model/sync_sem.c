/* sync_sem.c - the semaphore: permits are neither lost nor made. */
#include "sync.h"

#define POLL 0x100 /* beside the flags in mc_arg() */

static weft_sem *sem;

static void begin(uint32_t permits) {
    sem = wefti_alloc(sizeof *sem);
    mc_assert(weft_sem_init_with(sem, permits, (unsigned)mc_arg() & WEFT_SEM_FIFO) == 0);
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

static void two(void) {
    begin(1);
    int a = mc_spawn(user, (void *)2);
    user((void *)1);
    mc_join(a);
    mc_assert(data == 3);
    end(1);
}
MC_CASE(sync_sem_two, two, .arg = 0, .proves = "B52", .bound = 3, .seconds = 4);
MC_CASE(sync_sem_two_fifo, two, .arg = WEFT_SEM_FIFO, .proves = "B52", .bound = 3, .seconds = 4);

static void three(void) {
    begin(1);
    int a = mc_spawn(user, (void *)1), b = mc_spawn(user, (void *)1);
    user((void *)1);
    mc_join(a), mc_join(b);
    mc_assert(data == 3);
    end(1);
}
MC_CASE(sync_sem_three, three, .arg = 0, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4);
MC_CASE(sync_sem_three_fifo, three, .arg = WEFT_SEM_FIFO, .proves = "B52", .bound = 2, .stale_counts = true,
        .seconds = 4);

/* Two give one each, one wants both: it sees what both wrote, whichever way they gave. */
static int wrote[2];

static void giver(void *i) {
    wrote[(intptr_t)i] = 1;
    mc_assert(weft_sem_release(sem, 1) == 0);
}

static void sum(void) {
    begin(0);
    int a = mc_spawn(giver, (void *)0), b = mc_spawn(giver, (void *)1);
    mc_assert(weft_sem_acquire(sem, 2, WEFT_NEVER) == 0);
    mc_assert(wrote[0] + wrote[1] == 2);
    mc_join(a), mc_join(b);
    end(0);
}
MC_CASE(sync_sem_sum, sum, .arg = 0, .proves = "B52", .bound = 2, .seconds = 3);
MC_CASE(sync_sem_sum_fifo, sum, .arg = WEFT_SEM_FIFO, .proves = "B52", .bound = 2, .seconds = 3);

/* The same when a third waits for the sum, and another served before him let it through. */
static void take_one(void *unused) {
    (void)unused;
    mc_assert(weft_sem_acquire(sem, 1, WEFT_NEVER) == 0);
}

static void sum_served(void) {
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
MC_CASE(sync_sem_sum_served, sum_served, .arg = WEFT_SEM_FIFO, .proves = "B52", .bound = 2, .stale_counts = true,
        .seconds = 4);

/* -- One gives up against a release. */

static void late_user(void *permits) {
    int error = weft_sem_acquire(sem, (uint32_t)(intptr_t)permits, SOON);
    mc_assert(error == 0 || error == -ETIMEDOUT);
    if (!error)
        mc_assert(weft_sem_release(sem, (uint32_t)(intptr_t)permits) == 0);
}

static void timeout(void) {
    begin(0);
    int a = mc_spawn(late_user, (void *)1);
    mc_assert(weft_sem_release(sem, 1) == 0);
    mc_join(a);
    end(1);
}
MC_CASE(sync_sem_timeout, timeout, .arg = 0, .proves = "B52", .bound = 3, .timeouts = 1, .seconds = 4);
MC_CASE(sync_sem_timeout_fifo, timeout, .arg = WEFT_SEM_FIFO, .proves = "B52", .bound = 3, .timeouts = 1, .seconds = 4);

/* Who wants two stands in front of who wants one; when he leaves, there is one. */
static void leaves_front(void) {
    begin(1);
    int a = mc_spawn(late_user, (void *)2);
    until_waits(&sem->room);
    user((void *)1);
    mc_join(a);
    end(1);
}
MC_CASE(sync_sem_leaves_front, leaves_front, .arg = 0, .proves = "B52", .bound = 2, .idle_timeouts = 1,
        .stale_counts = true, .seconds = 4);
MC_CASE(sync_sem_leaves_front_fifo, leaves_front, .arg = WEFT_SEM_FIFO, .proves = "B52", .bound = 2, .idle_timeouts = 1,
        .stale_counts = true, .seconds = 4);

/* -- Served, the last one frees it; more of them than are served at once. */

static void taker_frees(void *unused) {
    (void)unused;
    mc_assert(weft_sem_acquire(sem, 1, WEFT_NEVER) == 0);
    if (add_acq_rel(&count, 1) == 2)
        end(0);
}

static void freed(void) {
    begin(0);
    int a = mc_spawn(taker_frees, NULL), b = mc_spawn(taker_frees, NULL), c = mc_spawn(taker_frees, NULL);
    mc_assert(weft_sem_release(sem, 3) == 0);
    mc_join(a), mc_join(b), mc_join(c);
}
MC_CASE(sync_sem_freed, freed, .arg = 0, .proves = "B52", .mode = MC_PCT, .depth = 4, .max_exec = 20000);
MC_CASE(sync_sem_freed_fifo, freed, .arg = WEFT_SEM_FIFO, .proves = "B52", .mode = MC_PCT, .depth = 4,
        .max_exec = 20000);

static void freed_one(void) {
    begin(0);
    store_relaxed(&count, 2); /* before the threads */
    int a = mc_spawn(taker_frees, NULL);
    mc_assert(weft_sem_release(sem, 1) == 0);
    mc_join(a);
}
MC_CASE(sync_sem_freed_one, freed_one, .arg = 0, .proves = "B52", .bound = 3, .seconds = 4);
MC_CASE(sync_sem_freed_one_fifo, freed_one, .arg = WEFT_SEM_FIFO, .proves = "B52", .bound = 3, .seconds = 4);

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
    weft_task *task = mc_arg() & POLL ? rt_poller(poll_takes) : rt_fiber(fiber_takes, NULL);
    int a = mc_spawn(releaser, NULL);
    weft_task_cancel(task);
    int status = rt_finish(task);
    mc_join(a);
    rt_stop();
    end(status == 0 ? 0 : 1);
}
MC_CASE(sync_sem_cancel_fiber, against_cancel, .arg = 0, .proves = "B52", .bound = 2, .stale_counts = true,
        .max_exec = 10000);
MC_CASE(sync_sem_cancel_poll, against_cancel, .arg = POLL, .proves = "B52", .bound = 2, .stale_counts = true,
        .max_exec = 10000);
MC_CASE(sync_sem_cancel_poll_fifo, against_cancel, .arg = POLL | WEFT_SEM_FIFO, .proves = "B52", .bound = 2,
        .stale_counts = true, .max_exec = 10000);

/* Another waits behind him: it gets the permit, whatever he was told. */
static void cancel_before_another(void) {
    begin(0);
    rt_start(1);
    weft_task *task = mc_arg() & POLL ? rt_poller(poll_takes) : rt_fiber(fiber_takes, NULL);
    until_waits(&sem->room);
    int a = mc_spawn(take_one, NULL), b = mc_spawn(releaser, NULL);
    weft_task_cancel(task);
    if (rt_finish(task) == 0)
        releaser(NULL);
    mc_join(a), mc_join(b);
    rt_stop();
    end(0);
}
MC_CASE(sync_sem_cancel_next_fiber, cancel_before_another, .arg = 0, .proves = "B52", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(sync_sem_cancel_next_poll, cancel_before_another, .arg = POLL, .proves = "B52", .mode = MC_PCT,
        .max_exec = 4000);
MC_CASE(sync_sem_cancel_next_poll_fifo, cancel_before_another, .arg = POLL | WEFT_SEM_FIFO, .proves = "B52",
        .mode = MC_PCT, .max_exec = 4000);

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

/* -- Barging against those who have been woken. */

static void try_user(void) {
    if (weft_sem_acquire(sem, 1, WEFT_NOW) == 0) {
        data++;
        mc_assert(weft_sem_release(sem, 1) == 0);
    }
}

MC_TEST(sync_sem_barging, .proves = "B52", .bound = 3, .seconds = 6) {
    begin(0);
    int a = mc_spawn(user, (void *)1);
    mc_assert(weft_sem_release(sem, 1) == 0);
    try_user();
    try_user();
    mc_join(a);
    end(1);
}

static void barging_two(void) {
    begin(0);
    int a = mc_spawn(user, (void *)1), b = mc_spawn(user, (void *)1);
    mc_assert(weft_sem_release(sem, 1) == 0);
    try_user();
    mc_join(a), mc_join(b);
    end(1);
}
MC_CASE(sync_sem_barging_two, barging_two, .arg = 0, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 3);
MC_CASE(sync_sem_barging_pct, barging_two, .arg = 0, .proves = "B52", .mode = MC_PCT, .depth = 5, .max_exec = 20000);

/* -- Handed over, by order or by age: who waits gets it, whoever else asks. */

static void no_barging(void) {
    begin(0);
    int a = mc_spawn(take_one, NULL);
    (mc_arg() & WEFT_SEM_FIFO ? until_waits : until_waits_long)(&sem->room);
    mc_assert(weft_sem_release(sem, 1) == 0);
    mc_assert(weft_sem_acquire(sem, 1, WEFT_NOW) == -ETIMEDOUT);
    mc_join(a);
    end(0);
}
MC_CASE(sync_sem_fifo_no_barging, no_barging, .arg = WEFT_SEM_FIFO, .proves = "B52", .bound = 3, .seconds = 6);
MC_CASE(sync_sem_patience, no_barging, .arg = 0, .proves = "B52", .bound = 3, .seconds = 6);

/* -- Who wants much and who wants little: both get it in the end, in whatever order they come, are woken, and come back. */

static void big_user(void *permits) {
    mc_assert(weft_sem_acquire(sem, (uint32_t)(intptr_t)permits, WEFT_NEVER) == 0);
    mc_assert(weft_sem_release(sem, (uint32_t)(intptr_t)permits) == 0);
}

static void two_sizes(void) {
    begin(0);
    int a = mc_spawn(big_user, (void *)1), b = mc_spawn(big_user, (void *)2);
    until_waiting(&sem->room, 2);
    mc_assert(weft_sem_release(sem, 3) == 0); /* both are woken */
    if (weft_sem_acquire(sem, 2, WEFT_NOW) == 0) { /* and one or both come back, while the permits do */
        mc_assert(weft_sem_release(sem, 1) == 0);
        mc_assert(weft_sem_release(sem, 1) == 0);
    }
    mc_join(a), mc_join(b);
    end(3);
}
MC_CASE(sync_sem_two_sizes, two_sizes, .arg = 0, .proves = "B52", .mode = MC_PCT, .depth = 5, .max_exec = 20000);

/* Two who take one each, and one who needs both. */
static void all_or_one(void) {
    begin(2);
    int a = mc_spawn(big_user, (void *)2), b = mc_spawn(big_user, (void *)1);
    big_user((void *)1);
    big_user((void *)1);
    mc_join(a), mc_join(b);
    end(2);
}
MC_CASE(sync_sem_all_or_one, all_or_one, .arg = 0, .proves = "B52", .mode = MC_PCT, .depth = 5, .max_exec = 20000);

/* -- Two have been woken, and find that another was quicker.  The first goes back to the list; some comes free, not enough for the second,
 * who comes back behind the first: he sees to it that the first gets it. */

static void wants(void *permits) { mc_assert(weft_sem_acquire(sem, (uint32_t)(intptr_t)permits, WEFT_NEVER) == 0); }

MC_TEST(sync_sem_comes_back_behind, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4) {
    begin(0);
    struct wefti_sync *sync = wefti_sync_of(&sem->room);
    int a = mc_spawn(wants, (void *)1);
    while (!(load_relaxed(&sync->word) & WEFTI_WAITERS)) /* he is the first */
        wefti_relax();
    int b = mc_spawn(wants, (void *)2);
    mc_assert(weft_sem_release(sem, 3) == 0);
    if (weft_sem_acquire(sem, 3, WEFT_NOW) == 0) {
        mc_assert(weft_sem_release(sem, 1) == 0);
        mc_join(a);
        mc_assert(weft_sem_release(sem, 2) == 0);
    } else {
        mc_join(a);
    }
    mc_join(b);
    end(0);
}
