/* sync_mutex.c - the mutex: barging, hand-off, and those who leave. */
#include "sync.h"

#include <string.h>

#define POLL 0x100 /* beside the flags in mc_arg() */

static weft_mutex *mutex; /* on the heap: whoever touches it after it was freed is reported */

static void begin(void) {
    mutex = wefti_alloc(sizeof *mutex);
    mc_assert(weft_mutex_init(mutex, (unsigned)mc_arg() & WEFT_MUTEX_FIFO) == 0);
}

/* It is free, nobody waits, and nobody is about to. */
static void end(void) {
    mc_assert(weft_mutex_destroy(mutex) == 0);
    wefti_free(mutex, sizeof *mutex);
}

static void section(void) {
    data++;
    add_relaxed(&count, 1);
    mc_assert(weft_mutex_unlock(mutex) == 0);
}

static void locker(void *times) {
    for (intptr_t i = 0; i < (intptr_t)times; i++) {
        mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
        section();
    }
}

static void late_locker(void *unused) {
    (void)unused;
    int error = weft_mutex_lock(mutex, SOON);
    mc_assert(error == 0 || error == -ETIMEDOUT);
    if (!error)
        section();
}

static void try_locker(void *unused) {
    (void)unused;
    if (weft_mutex_lock(mutex, WEFT_NOW) == 0)
        section();
}

/* -- Exclusion, and every waiter is woken. */

static void two_threads(void) {
    begin();
    int a = mc_spawn(locker, (void *)2);
    locker((void *)2);
    mc_join(a);
    mc_assert(data == 4);
    end();
}
MC_CASE(sync_mutex_two, two_threads, .arg = 0, .proves = "R31 B52", .bound = 3, .seconds = 6);
MC_CASE(sync_mutex_two_fifo, two_threads, .arg = WEFT_MUTEX_FIFO, .proves = "R31 B52", .bound = 3, .seconds = 6);

static void three_threads(void) {
    begin();
    int a = mc_spawn(locker, (void *)1), b = mc_spawn(locker, (void *)1);
    locker((void *)1);
    mc_join(a), mc_join(b);
    mc_assert(data == 3);
    end();
}
MC_CASE(sync_mutex_three, three_threads, .arg = 0, .proves = "R31 B52", .bound = 2, .stale_counts = true, .seconds = 3);
MC_CASE(sync_mutex_three_fifo, three_threads, .arg = WEFT_MUTEX_FIFO, .proves = "R31", .bound = 2, .stale_counts = true,
        .seconds = 3);
MC_CASE(sync_mutex_three_pct, three_threads, .arg = 0, .proves = "R31", .mode = MC_PCT, .depth = 5, .max_exec = 20000);

/* -- One gives up while it is woken or handed the mutex: another still gets it. */

static void against_timeout(void) {
    begin();
    int a = mc_spawn(late_locker, NULL);
    locker((void *)1);
    mc_join(a);
    mc_assert(data == load_relaxed(&count));
    end();
}
MC_CASE(sync_mutex_timeout, against_timeout, .arg = 0, .proves = "R31", .bound = 3, .timeouts = 1, .seconds = 6);
MC_CASE(sync_mutex_timeout_fifo, against_timeout, .arg = WEFT_MUTEX_FIFO, .proves = "R31", .bound = 3, .timeouts = 1,
        .seconds = 6);

static void two_against_timeout(void) {
    begin();
    mc_atomic_begin(); /* both have to wait */
    mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
    mc_atomic_end();
    int a = mc_spawn(late_locker, NULL), b = mc_spawn(locker, (void *)1);
    section();
    mc_join(a), mc_join(b);
    mc_assert(data == load_relaxed(&count) && data >= 2);
    end();
}
MC_CASE(sync_mutex_one_late, two_against_timeout, .arg = 0, .proves = "R31", .bound = 2, .timeouts = 1,
        .stale_counts = true, .seconds = 3);
MC_CASE(sync_mutex_one_late_fifo, two_against_timeout, .arg = WEFT_MUTEX_FIFO, .proves = "R31", .bound = 2,
        .timeouts = 1, .stale_counts = true, .seconds = 3);
MC_CASE(sync_mutex_one_late_pct, two_against_timeout, .arg = 0, .proves = "R31", .mode = MC_PCT, .depth = 5,
        .timeouts = 1, .max_exec = 20000);

/* -- Barging against those who have been woken. */

static void barging(void) {
    begin();
    mc_atomic_begin();
    mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
    mc_atomic_end();
    int a = mc_spawn(locker, (void *)1);
    section();
    try_locker(NULL);
    try_locker(NULL);
    mc_join(a);
    mc_assert(data == load_relaxed(&count));
    end();
}
MC_CASE(sync_mutex_barging, barging, .arg = 0, .proves = "R31", .bound = 3, .seconds = 6);

static void barging_two(void) {
    begin();
    mc_atomic_begin();
    mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
    mc_atomic_end();
    int a = mc_spawn(locker, (void *)1), b = mc_spawn(locker, (void *)1);
    section();
    try_locker(NULL);
    mc_join(a), mc_join(b);
    mc_assert(data == load_relaxed(&count));
    end();
}
MC_CASE(sync_mutex_barging_two, barging_two, .arg = 0, .proves = "R31", .bound = 2, .stale_counts = true, .seconds = 3);
MC_CASE(sync_mutex_barging_pct, barging_two, .arg = 0, .proves = "R31", .mode = MC_PCT, .depth = 5, .max_exec = 20000);

/* -- Hand-off by order: who waits in the list gets it, whoever else asks. */

static void no_barging(void) {
    begin();
    int a = mc_spawn(locker, (void *)1);
    mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
    bool waits = somebody_waits(&mutex->room);
    section();
    int error = weft_mutex_lock(mutex, WEFT_NOW);
    mc_assert(!waits || error == -ETIMEDOUT || load_relaxed(&count) == 2);
    if (!error)
        section();
    mc_join(a);
    end();
}
MC_CASE(sync_mutex_fifo_no_barging, no_barging, .arg = WEFT_MUTEX_FIFO, .proves = "R31", .bound = 3, .seconds = 6);

/* -- Hand-off by age: who has waited long gets it from the next unlock, whoever else asks. */

static void patience(void) {
    begin();
    mc_atomic_begin();
    mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
    mc_atomic_end();
    int a = mc_spawn(locker, (void *)1);
    until_waits_long(&mutex->room);
    section();
    int error = weft_mutex_lock(mutex, WEFT_NOW);
    mc_assert(error == -ETIMEDOUT || load_relaxed(&count) == 2);
    if (!error)
        section();
    mc_join(a);
    end();
}
MC_CASE(sync_mutex_patience, patience, .arg = 0, .proves = "R31", .bound = 3, .seconds = 6);

/* -- The last user frees it, while the other is still on his way out of unlock. */

static void freer(void *unused) {
    (void)unused;
    mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
    data++;
    mc_assert(weft_mutex_unlock(mutex) == 0);
    end();
}

static void freed(void) {
    begin();
    mc_atomic_begin();
    mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
    mc_atomic_end();
    int a = mc_spawn(freer, NULL);
    data++;
    mc_assert(weft_mutex_unlock(mutex) == 0);
    mc_join(a);
    mc_assert(data == 2);
}
MC_CASE(sync_mutex_freed, freed, .arg = 0, .proves = "R31", .bound = 3, .seconds = 6);
MC_CASE(sync_mutex_freed_fifo, freed, .arg = WEFT_MUTEX_FIFO, .proves = "R31", .bound = 3, .seconds = 6);

/* Destroyed while somebody is about to lock it: refused, or he is. */
static void lock_or_dead(void *unused) {
    (void)unused;
    int error = weft_mutex_lock(mutex, WEFT_NEVER);
    mc_assert(error == 0 || error == -EINVAL);
    if (!error)
        section();
}

static void destroyed(void) {
    begin();
    int a = mc_spawn(lock_or_dead, NULL), error;
    while ((error = weft_mutex_destroy(mutex)) == -EBUSY)
        wefti_relax();
    mc_assert(error == 0);
    int seen = data; /* whoever had it before is done, and we see it */
    mc_join(a);
    mc_assert(seen == data && weft_mutex_destroy(mutex) == -EINVAL);
    wefti_free(mutex, sizeof *mutex);
}
MC_CASE(sync_mutex_destroyed, destroyed, .arg = 0, .proves = "R31", .bound = 3, .seconds = 6);

/* Destroyed when somebody who waited has been woken, and is on his way to it: refused until he has had it. */
static void destroyed_on_his_way(void) {
    begin();
    mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
    int a = mc_spawn(locker, (void *)1), error;
    until_waits(&mutex->room);
    mc_assert(weft_mutex_unlock(mutex) == 0);
    while ((error = weft_mutex_destroy(mutex)) == -EBUSY)
        wefti_relax();
    mc_assert(error == 0 && data == 1);
    mc_join(a);
    wefti_free(mutex, sizeof *mutex);
}
MC_CASE(sync_mutex_destroyed_on_his_way, destroyed_on_his_way, .arg = 0, .proves = "R31", .mode = MC_PCT,
        .max_exec = 2000);

/* -- Fibers and poll tasks that are cancelled, against an owner that unlocks. */

static int fiber_locks(void *unused) {
    (void)unused;
    int error = weft_mutex_lock(mutex, WEFT_NEVER);
    if (!error)
        section();
    return error;
}

static int poll_locks(weft_task *self, weft_wait *wait) {
    int error = weft_mutex_lock_poll(mutex, self, wait);
    if (!error)
        section();
    return error;
}

static void canceller(void *task) { weft_task_cancel(task); }

static void against_cancel(void) {
    begin();
    rt_start(1);
    mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
    weft_task *task = mc_arg() & POLL ? rt_poller(poll_locks) : rt_fiber(fiber_locks, NULL);
    until_waits(&mutex->room);
    int a = mc_spawn(canceller, task), b = mc_spawn(locker, (void *)1);
    section();
    mc_join(a), mc_join(b);
    int status = rt_finish(task);
    mc_assert(status == 0 || status == -ECANCELED);
    mc_assert(data == load_relaxed(&count) && data >= 2);
    rt_stop();
    end();
}

MC_CASE(sync_mutex_cancel_fiber, against_cancel, .arg = 0, .proves = "R31", .mode = MC_PCT, .max_exec = 6000);
MC_CASE(sync_mutex_cancel_fiber_fifo, against_cancel, .arg = WEFT_MUTEX_FIFO, .proves = "R31", .mode = MC_PCT,
        .max_exec = 6000);
MC_CASE(sync_mutex_cancel_poll, against_cancel, .arg = POLL, .proves = "R31", .mode = MC_PCT, .max_exec = 6000);
MC_CASE(sync_mutex_cancel_poll_fifo, against_cancel, .arg = POLL | WEFT_MUTEX_FIFO, .proves = "R31", .mode = MC_PCT,
        .max_exec = 6000);

/* -- A dump looks at who has it, while the fiber that waits for it gets it and the mutex goes. */

static _Atomic uint32_t names; /* seen by the dump */

static void describer(void *task) {
    uint64_t by = 0, many = 0;
    const char *waits = wefti_fiber_describe(wefti_fiber_of(task), &by, &many);
    mc_assert(!by || (waits && strcmp(waits, "a mutex") == 0));
    add_relaxed(&names, by != 0);
}

static void described(void) {
    begin();
    rt_start(1);
    mc_assert(weft_mutex_lock(mutex, WEFT_NEVER) == 0);
    weft_task *task = rt_fiber(fiber_locks, NULL);
    int a = mc_spawn(describer, task);
    until_waits(&mutex->room);
    mc_assert(weft_mutex_unlock(mutex) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    end(); /* the mutex is gone */
    mc_join(a);
    weft_task_drop(task);
    rt_stop();
}

MC_CASE(sync_mutex_described, described, .arg = 0, .mode = MC_PCT, .max_exec = 4000);
MC_CASE(sync_mutex_described_fifo, described, .arg = WEFT_MUTEX_FIFO, .mode = MC_PCT, .max_exec = 4000);
