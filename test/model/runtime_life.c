/* runtime_life.c - the whole runtime: its start, its end, driven by hand, deadlocks, dumps. */
#include "model.h"
#include "model_rt.h"
#include "sched/sched.h"

static weft_runtime *rt;
static _Atomic int runs;

static void start(weft_sched sched) {
    weft_config config = model_config(sched, 1);
    mc_assert(weft_runtime_create(&config, &rt) == 0);
}

static weft_poll count(weft_task *self, void *state) {
    (void)state;
    add_relaxed(&runs, 1);
    return weft_done(self, 0, NULL);
}

static weft_poll for_ever(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_PENDING;
}

/* A thread that is at the gate before it opens is let in. */
MC_TEST(rt_gate_opens, .bound = 1, .spurious = 1, .seconds = 6) {
    start(WEFT_SCHED_FIFO);
    model_close(rt);
}

/* Two threads stop it.  Who comes second may free what the first has used. */
static void stop_too(void *unused) {
    (void)unused;
    int result = weft_runtime_stop(rt, WEFT_NEVER);
    mc_assert(result == 0 || result == -EBUSY);
}

MC_TEST(rt_stop_twice, .proves = "W36", .bound = 2, .stale_counts = true, .seconds = 6) {
    mc_atomic_begin();
    start(WEFT_SCHED_FIFO);
    mc_atomic_end();
    int a = mc_spawn(stop_too, NULL), result = weft_runtime_stop(rt, WEFT_NEVER);
    if (result == 0)
        mc_join(a);
    else
        while (weft_runtime_stop(rt, WEFT_NEVER) == -EBUSY) /* it is in there, so it will not begin again */
            wefti_relax();
    mc_atomic_begin();
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
    if (result)
        mc_join(a);
}

/* A task that nobody can wake: the join is told, whether it came before the worker fell asleep or after. */
MC_TEST(rt_deadlock_sim, .proves = "J6", .bound = 1, .stale_counts = true, .idle_timeouts = 8, .seconds = 6) {
    mc_atomic_begin();
    start(WEFT_SCHED_SIM);
    mc_atomic_end();
    weft_task *task;
    mc_assert(weft_go(rt, for_ever, NULL, &task) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == -EDEADLK);
    mc_atomic_begin();
    weft_task_drop(task);
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}

/* A driven worker has no thread: its owner is called. */
static struct wefti_park loop;

static void wake_loop(void *unused) {
    (void)unused;
    wefti_park_wake(&loop);
}

static void spawn_outside(void *unused) {
    (void)unused;
    mc_assert(weft_go(rt, count, NULL, NULL) == 0);
}

MC_TEST(rt_driven_is_called, .bound = 2, .stale_counts = true, .seconds = 6) {
    weft_config config = WEFT_CONFIG_INIT;
    config.workers = 1;
    config.seed = 1;
    config.driven = true;
    config.wake = wake_loop;
    mc_assert(weft_runtime_create(&config, &rt) == 0);
    int a = mc_spawn(spawn_outside, NULL);
    while (weft_drive(rt, 0) == 0)
        wefti_park_sleep(&loop, INT64_MAX);
    mc_assert(load_relaxed(&runs) == 1);
    mc_join(a);
    mc_atomic_begin();
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}

static void start_driven(weft_sched sched, unsigned workers) {
    weft_config config = model_config(sched, workers);
    config.driven = true;
    rt = model_create(&config);
}

/* Two threads drive in turn, and leave in the middle: the worker's own fields go from one to the other. */
static void drive(void *unused) {
    (void)unused;
    int polls = weft_drive(rt, 1);
    mc_assert(polls == 1 || polls == -EBUSY);
}

MC_TEST(rt_driven_in_turn, .bound = 2, .stale_counts = true, .seconds = 6) {
    start_driven(WEFT_SCHED_FIFO, 1);
    mc_assert(weft_go(rt, count, NULL, NULL) == 0 && weft_go(rt, count, NULL, NULL) == 0);
    int a = mc_spawn(drive, NULL);
    drive(NULL);
    mc_join(a);
    mc_atomic_begin();
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}

/* The last task ends on a worker with a thread, while the stopper sleeps as the driven one. */
static _Atomic int started;

static weft_poll say_started(weft_task *self, void *state) {
    (void)state;
    store_relaxed(&started, 1);
    return weft_done(self, 0, NULL);
}

MC_TEST(rt_stop_driven, .proves = "W36 W37", .bound = 2, .stale_counts = true, .seconds = 6) {
    start_driven(WEFT_SCHED_FIFO, 2);
    mc_assert(weft_go(rt, say_started, NULL, NULL) == 0);
    while (!load_relaxed(&started))
        wefti_relax();
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_atomic_begin();
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}

/* -- A dump beside a task that goes to wait: it reads the reason as it was written. */

static struct weft_runtime fake;
static struct weft_task *task;
static char reason[8]; /* plain */

static void go_to_wait(void *unused) {
    (void)unused;
    reason[0] = 'x';
    weft_task_waits_for(task, reason);
    mc_assert(!wefti_word_to_idle(&task->word));
}

MC_TEST(rt_dump_beside_wait) {
    fake.sched = &wefti_sched_ring;
    wefti_slab_init(&fake.slab, &fake);
    task = wefti_slab_take(&fake.slab, NULL, 8);
    mc_assert(task != NULL);
    task->name = "task";
    wefti_word_spawn(&task->word, false);
    mc_assert(wefti_word_enter(&task->word));
    int a = mc_spawn(go_to_wait, NULL);
    mc_assert(weft_dump(&fake, 2) == 0);
    mc_join(a);
    wefti_slab_fini(&fake.slab);
}
