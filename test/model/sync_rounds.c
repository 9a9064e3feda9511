/* sync_rounds.c - barrier, once and wait group. */
#include "sync.h"

/* -- Barrier -------------------------------------------------------------------------------------------- */

static weft_barrier *barrier;
static int wrote[3];

static void barrier_begin(uint32_t parties) {
    barrier = wefti_alloc(sizeof *barrier);
    mc_assert(weft_barrier_init(barrier, parties) == 0);
}

static void barrier_end(void) {
    mc_assert(weft_barrier_destroy(barrier) == 0);
    wefti_free(barrier, sizeof *barrier);
}

static void party(void *self) {
    intptr_t me = (intptr_t)self;
    for (int round = 1; round < 3; round++) {
        wrote[me] = round;
        int said = weft_barrier_wait(barrier, WEFT_NEVER);
        mc_assert(said == 0 || said == 1);
        mc_assert(wrote[0] == round && wrote[1] == round);
        add_relaxed(&count, said);
        mc_assert(weft_barrier_wait(barrier, WEFT_NEVER) >= 0); /* before it is written again */
    }
}

MC_TEST(sync_barrier_rounds, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 3) {
    barrier_begin(2);
    int a = mc_spawn(party, (void *)1);
    party((void *)0);
    mc_join(a);
    mc_assert(load_relaxed(&count) == 2);
    barrier_end();
}

static void party_of_three(void *self) {
    wrote[(intptr_t)self] = 1;
    add_relaxed(&count, weft_barrier_wait(barrier, WEFT_NEVER));
    mc_assert(wrote[0] + wrote[1] + wrote[2] == 3);
    if (add_acq_rel(&faint, 1) == 2) {
        mc_assert(load_relaxed(&count) <= 1);
        barrier_end();
    }
}

MC_TEST(sync_barrier_freed, .proves = "B52", .mode = MC_PCT, .depth = 4, .max_exec = 20000) {
    barrier_begin(3);
    int a = mc_spawn(party_of_three, (void *)1), b = mc_spawn(party_of_three, (void *)2);
    party_of_three((void *)0);
    mc_join(a), mc_join(b);
    mc_assert(load_relaxed(&count) == 1);
}

/* One gives up: it has arrived, and the other goes on; or not, and another takes its place. */
static void late_party(void *unused) {
    (void)unused;
    int said = weft_barrier_wait(barrier, SOON);
    mc_assert(said >= 0 || said == -ETIMEDOUT);
    if (said < 0)
        mc_assert(weft_barrier_wait(barrier, WEFT_NEVER) >= 0);
}

MC_TEST(sync_barrier_timeout, .proves = "B52", .bound = 3, .timeouts = 1, .seconds = 4) {
    barrier_begin(2);
    int a = mc_spawn(late_party, NULL);
    mc_assert(weft_barrier_wait(barrier, WEFT_NEVER) >= 0);
    mc_join(a);
    barrier_end();
}

static int poll_arrives(weft_task *self, weft_wait *wait) { return weft_barrier_wait_poll(barrier, self, wait); }

static void arrive(void *unused) {
    (void)unused;
    mc_assert(weft_barrier_wait(barrier, WEFT_NEVER) >= 0);
}

MC_TEST(sync_barrier_cancel_poll, .proves = "B52", .mode = MC_PCT, .max_exec = 4000) {
    barrier_begin(2);
    rt_start(1);
    weft_task *task = rt_poller(poll_arrives);
    int a = mc_spawn(arrive, NULL);
    weft_task_cancel(task);
    rt_finish(task);
    wefti_lock_take(&wefti_sync_of(&barrier->room)->lock);
    bool met = barrier->turn == 1;
    wefti_lock_give(&wefti_sync_of(&barrier->room)->lock);
    if (!met) /* the task had gone before the other came: he needs somebody */
        mc_assert(weft_barrier_wait(barrier, WEFT_NEVER) >= 0);
    mc_join(a);
    rt_stop();
    barrier_end();
}

/* -- Once ------------------------------------------------------------------------------------------------ */

static weft_once once;

static void start(void *unused) {
    (void)unused;
    mc_assert(data == 0);
    data = 1;
    store_relaxed(&faint, 1); /* only being done makes it visible */
}

static void runner(void *unused) {
    (void)unused;
    mc_assert(weft_once_run(&once, start, NULL, WEFT_NEVER) == 0);
    mc_assert(load_relaxed(&faint) == 1 && data == 1);
}

MC_TEST(sync_once_two, .proves = "B52", .bound = 3) {
    int a = mc_spawn(runner, NULL);
    runner(NULL);
    mc_join(a);
    mc_assert(weft_once_destroy(&once) == 0);
}

MC_TEST(sync_once_three, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4) {
    int a = mc_spawn(runner, NULL), b = mc_spawn(runner, NULL);
    runner(NULL);
    mc_join(a), mc_join(b);
    mc_assert(weft_once_destroy(&once) == 0);
}

static void late_runner(void *unused) {
    (void)unused;
    int error = weft_once_run(&once, start, NULL, SOON);
    mc_assert(error == -ETIMEDOUT || (error == 0 && data == 1));
}

MC_TEST(sync_once_timeout, .proves = "B52", .bound = 3, .timeouts = 1) {
    int a = mc_spawn(late_runner, NULL);
    runner(NULL);
    mc_join(a);
    mc_assert(weft_once_destroy(&once) == 0);
}

static int fiber_runs(void *unused) {
    (void)unused;
    return weft_once_run(&once, start, NULL, WEFT_NEVER);
}

MC_TEST(sync_once_cancel, .proves = "B52", .mode = MC_PCT, .max_exec = 4000) {
    rt_start(1);
    weft_task *task = rt_fiber(fiber_runs, NULL);
    int a = mc_spawn(runner, NULL);
    weft_task_cancel(task);
    rt_finish(task);
    mc_join(a);
    rt_stop();
    mc_assert(data == 1 && weft_once_destroy(&once) == 0);
}

/* -- Wait group ------------------------------------------------------------------------------------------ */

static weft_group *group;

static void group_begin(int32_t under_way) {
    group = wefti_alloc(sizeof *group);
    weft_group_init(group);
    mc_assert(weft_group_add(group, under_way) == 0);
}

static void group_end(void) {
    mc_assert(weft_group_destroy(group) == 0);
    wefti_free(group, sizeof *group);
}

static void work(void *i) {
    wrote[(intptr_t)i] = 1;
    mc_assert(weft_group_done(group) == 0);
}

MC_TEST(sync_group_two_done, .proves = "B52", .bound = 2, .seconds = 3) {
    group_begin(2);
    int a = mc_spawn(work, (void *)0), b = mc_spawn(work, (void *)1);
    mc_assert(weft_group_wait(group, WEFT_NEVER) == 0);
    mc_assert(wrote[0] + wrote[1] == 2);
    group_end();
    mc_join(a), mc_join(b);
}

static void waiter(void *unused) {
    (void)unused;
    mc_assert(weft_group_wait(group, WEFT_NEVER) == 0);
    mc_assert(wrote[0] == 1);
    if (add_acq_rel(&count, 1) == 2)
        group_end();
}

/* Three wait, more than are served at once; the last one frees it. */
MC_TEST(sync_group_freed, .proves = "B52", .mode = MC_PCT, .depth = 4, .max_exec = 20000) {
    group_begin(1);
    int a = mc_spawn(waiter, NULL), b = mc_spawn(waiter, NULL), c = mc_spawn(waiter, NULL);
    work((void *)0);
    mc_join(a), mc_join(b), mc_join(c);
}

static void late_waiter(void *unused) {
    (void)unused;
    int error = weft_group_wait(group, SOON);
    mc_assert(error == -ETIMEDOUT || (error == 0 && wrote[0] == 1));
}

MC_TEST(sync_group_timeout, .proves = "B52", .bound = 3, .timeouts = 1) {
    group_begin(1);
    int a = mc_spawn(late_waiter, NULL);
    work((void *)0);
    mc_join(a);
    group_end();
}

/* One waits with the bit set, and two are done under the lock: the third, who only looks, sees what both wrote. */
MC_TEST(sync_group_seen_by_a_look, .proves = "B52", .mode = MC_PCT, .depth = 4, .idle_timeouts = 1, .max_exec = 5000) {
    group_begin(2);
    int a = mc_spawn(work, (void *)0), b = mc_spawn(late_waiter, NULL);
    wrote[1] = 1;
    mc_assert(weft_group_done(group) == 0);
    while (weft_group_wait(group, WEFT_NOW))
        wefti_relax();
    mc_assert(wrote[0] + wrote[1] == 2);
    mc_join(a), mc_join(b);
    group_end();
}

/* The bit goes away between a look at it and the lock: then others change the word without the lock. */
static void add_and_done(void *unused) {
    (void)unused;
    mc_assert(weft_group_add(group, 1) == 0);
    mc_assert(weft_group_done(group) == 0);
}

MC_TEST(sync_group_bit_gone, .proves = "B52", .bound = 3, .stale_counts = true, .idle_timeouts = 1, .seconds = 6) {
    group_begin(1);
    wrote[0] = 1;
    int a = mc_spawn(late_waiter, NULL), b = mc_spawn(add_and_done, NULL);
    mc_assert(weft_group_done(group) == 0);
    add_and_done(NULL);
    mc_join(a), mc_join(b);
    mc_assert(weft_group_count(group) == 0);
    group_end();
}
