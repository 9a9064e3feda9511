/* runtime.c - the whole runtime: workers, idle protocol, queues, tasks and stop together, with sleeps that never time out.
 *
 * Everything here is the shipped code with real worker loops; only the queues are small.  A lost wake shows as a deadlock. */
#include "model.h"
#include "model_rt.h"
#include "sched/sched.h"

static weft_runtime *rt;
static int ran; /* plain: one task at a time, ordered by the join */
static _Atomic int runs;

static void start(weft_sched sched, unsigned workers) { rt = model_open(sched, workers); }

static void stop(void) {
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_atomic_begin();
    mc_assert(weft_stats_live(rt) == 0);
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}

/* As stop, but the end itself is not explored: for tests of what comes before. */
static void stop_quietly(void) {
    mc_atomic_begin();
    stop();
    mc_atomic_end();
}

static weft_poll once(weft_task *self, void *state) {
    (void)state;
    ran++;
    return weft_done(self, 0, NULL);
}

static weft_poll count(weft_task *self, void *state) {
    (void)state;
    add_relaxed(&runs, 1);
    return weft_done(self, 0, NULL);
}

/* -- One task from outside, all workers asleep or about to be. */

#define ON(workers, sched) ((workers) << 8 | (sched))

static void spawn_and_join(void) {
    start((weft_sched)(mc_arg() & 0xff), (unsigned)mc_arg() >> 8);
    weft_task *task;
    mc_assert(weft_go(rt, once, NULL, &task) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    mc_assert(ran == 1);
    weft_task_drop(task);
    stop_quietly();
}
MC_CASE(rt_spawn_join_ring, spawn_and_join, .arg = ON(1, WEFT_SCHED_RING), .proves = "B33 B38 B41 W20", .bound = 2,
        .stale_counts = true, .seconds = 4);
MC_CASE(rt_spawn_join_deque, spawn_and_join, .arg = ON(1, WEFT_SCHED_DEQUE), .proves = "W20", .bound = 2,
        .stale_counts = true, .seconds = 4);
MC_CASE(rt_spawn_join_fifo, spawn_and_join, .arg = ON(1, WEFT_SCHED_FIFO), .proves = "K2 K37", .bound = 2,
        .stale_counts = true, .seconds = 4);
MC_CASE(rt_spawn_join_sim, spawn_and_join, .arg = ON(1, WEFT_SCHED_SIM), .proves = "J6", .bound = 2,
        .stale_counts = true, .seconds = 4);
MC_CASE(rt_spawn_join_reactor, spawn_and_join, .arg = ON(1, WEFT_SCHED_REACTOR), .proves = "R2 R35", .bound = 2,
        .stale_counts = true, .max_exec = 10000);
MC_CASE(rt_two_workers_ring, spawn_and_join, .arg = ON(2, WEFT_SCHED_RING), .proves = "B38 B39 B40 B41", .bound = 1,
        .stale_counts = true, .seconds = 4);
MC_CASE(rt_two_workers_deque, spawn_and_join, .arg = ON(2, WEFT_SCHED_DEQUE), .proves = "W11", .bound = 1,
        .stale_counts = true, .seconds = 4);
MC_CASE(rt_two_workers_fifo, spawn_and_join, .arg = ON(2, WEFT_SCHED_FIFO), .proves = "K1 K3", .bound = 1,
        .stale_counts = true, .seconds = 4);
MC_CASE(rt_two_workers_reactor, spawn_and_join, .arg = ON(2, WEFT_SCHED_REACTOR), .proves = "R2 R11", .bound = 1,
        .stale_counts = true, .max_exec = 90000);

/* -- A burst from outside: every task runs, with no further stimulus (B41). */

static void burst(void) {
    start((weft_sched)(mc_arg() & 0xff), (unsigned)mc_arg() >> 8);
    for (int i = 0; i < 3; i++)
        mc_assert(weft_go(rt, count, NULL, NULL) == 0);
    stop();
    mc_assert(load_relaxed(&runs) == 3);
}
MC_CASE(rt_burst_ring, burst, .arg = ON(2, WEFT_SCHED_RING), .proves = "B39 B40 B41 W37", .mode = MC_PCT,
        .max_exec = 10000);
MC_CASE(rt_burst_deque, burst, .arg = ON(2, WEFT_SCHED_DEQUE), .proves = "W14 W37", .mode = MC_PCT, .max_exec = 10000);
MC_CASE(rt_burst_fifo, burst, .arg = ON(2, WEFT_SCHED_FIFO), .proves = "K3 K8 W37", .mode = MC_PCT, .max_exec = 10000);
MC_CASE(rt_burst_reactor, burst, .arg = ON(2, WEFT_SCHED_REACTOR), .proves = "R9 R11 R25", .mode = MC_PCT,
        .max_exec = 10000);
MC_CASE(rt_three_workers_ring, burst, .arg = ON(3, WEFT_SCHED_RING), .proves = "B41 B42", .mode = MC_PCT,
        .max_exec = 10000);
MC_CASE(rt_three_workers_deque, burst, .arg = ON(3, WEFT_SCHED_DEQUE), .proves = "W15", .mode = MC_PCT,
        .max_exec = 10000);

/* -- Tasks that spawn more than the local queue holds: overflow, steal, flush. */

static weft_poll spawner(weft_task *self, void *state) {
    (void)state;
    for (int i = 0; i < 7; i++)
        mc_assert(weft_go(NULL, count, NULL, NULL) == 0);
    return weft_done(self, 0, NULL);
}

static void overflow(void) {
    start((weft_sched)mc_arg(), 2);
    mc_assert(weft_go(rt, spawner, NULL, NULL) == 0);
    stop();
    mc_assert(load_relaxed(&runs) == 7);
}
MC_CASE(rt_overflow_ring, overflow, .arg = WEFT_SCHED_RING, .proves = "B9 B16 B22 B23", .mode = MC_PCT,
        .max_exec = 10000);
MC_CASE(rt_overflow_deque, overflow, .arg = WEFT_SCHED_DEQUE, .proves = "W18", .mode = MC_PCT, .max_exec = 10000);
MC_CASE(rt_overflow_reactor, overflow, .arg = WEFT_SCHED_REACTOR, .proves = "R9 R35", .mode = MC_PCT, .max_exec = 5000);

/* -- A waker from outside against the task that goes idle. */

static weft_waker waker;
static _Atomic int have_waker, event;

static weft_poll wait_for_event(weft_task *self, void *state) {
    (void)state;
    if (load_acquire(&event))
        return weft_done(self, 0, NULL);
    if (!load_relaxed(&have_waker)) {
        waker = weft_waker_of(self);
        store_release(&have_waker, 1);
    }
    return load_acquire(&event) ? weft_done(self, 0, NULL) : WEFT_PENDING;
}

static void wake_from_outside(void) {
    start((weft_sched)mc_arg(), 1);
    weft_task *task;
    mc_assert(weft_go(rt, wait_for_event, NULL, &task) == 0);
    while (!load_acquire(&have_waker))
        wefti_relax();
    store_release(&event, 1);
    weft_waker_wake(waker);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    stop_quietly();
}
MC_CASE(rt_wake_ring, wake_from_outside, .arg = WEFT_SCHED_RING, .proves = "B49 B50 B51 B52", .bound = 2,
        .stale_counts = true, .seconds = 4);
MC_CASE(rt_wake_deque, wake_from_outside, .arg = WEFT_SCHED_DEQUE, .proves = "B52", .bound = 1, .stale_counts = true,
        .seconds = 4);
MC_CASE(rt_wake_fifo, wake_from_outside, .arg = WEFT_SCHED_FIFO, .proves = "K4 K5 K6", .bound = 1, .stale_counts = true,
        .seconds = 4);
MC_CASE(rt_wake_reactor, wake_from_outside, .arg = WEFT_SCHED_REACTOR, .proves = "R19 R20", .bound = 1,
        .stale_counts = true, .max_exec = 90000);

/* -- Cancel at any moment: queued, running, idle, done.  The join returns, and the drop function ran once. */

static int drops; /* plain */

static void on_drop(void *state) {
    (void)state;
    drops++;
}

static void cancel_any_time(void) {
    start((weft_sched)mc_arg(), 1);
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = wait_for_event; /* the event never comes */
    spec.drop = on_drop;
    weft_task *task;
    weft_result result;
    mc_assert(weft_spawn(rt, &spec, &task) == 0);
    weft_task_cancel(task);
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    mc_assert(result.status == -ECANCELED && drops == 1);
    weft_task_drop(task);
    if (load_relaxed(&have_waker))
        weft_waker_drop(waker);
    stop_quietly();
}
MC_CASE(rt_cancel_ring, cancel_any_time, .arg = WEFT_SCHED_RING, .proves = "J31 B56", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(rt_cancel_fifo, cancel_any_time, .arg = WEFT_SCHED_FIFO, .proves = "J31", .bound = 1, .stale_counts = true,
        .seconds = 4);
MC_CASE(rt_cancel_reactor, cancel_any_time, .arg = WEFT_SCHED_REACTOR, .proves = "J31", .bound = 1,
        .stale_counts = true, .seconds = 4);

/* -- A join with a deadline against the end of the task: the waiter's stack is not touched afterwards. */

static void join_gives_up(void) {
    start(WEFT_SCHED_RING, 1);
    weft_task *task;
    mc_assert(weft_go(rt, once, NULL, &task) == 0);
    int error = weft_join(task, NULL, weft_after(1000000));
    mc_assert(error == 0 || error == -ETIMEDOUT);
    weft_task_drop(task);
    stop_quietly();
    mc_assert(ran == 1);
}
MC_CASE(rt_join_deadline, join_gives_up, .proves = "B55", .bound = 2, .stale_counts = true, .seconds = 4,
        .timeouts = 1);

/* -- A task that joins another: the poll form. */

static weft_poll join_child(weft_task *self, void *state) {
    weft_task **child = state;
    if (!*child && weft_go(NULL, count, NULL, child))
        mc_fail("spawn");
    weft_result result;
    if (weft_join_poll(*child, self, &result) == -EAGAIN)
        return WEFT_PENDING;
    mc_assert(load_relaxed(&runs) == 1);
    weft_task_drop(*child);
    return weft_done(self, 0, NULL);
}

static void join_in_poll(void) {
    static weft_task *child;
    start((weft_sched)mc_arg(), 2);
    weft_task *task;
    child = NULL;
    mc_assert(weft_go(rt, join_child, &child, &task) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    stop_quietly();
}
MC_CASE(rt_join_poll_ring, join_in_poll, .arg = WEFT_SCHED_RING, .proves = "B33 R34", .mode = MC_PCT,
        .max_exec = 10000);
MC_CASE(rt_join_poll_fifo, join_in_poll, .arg = WEFT_SCHED_FIFO, .proves = "B33", .mode = MC_PCT, .max_exec = 10000);
MC_CASE(rt_join_poll_reactor, join_in_poll, .arg = WEFT_SCHED_REACTOR, .proves = "R13 R34", .mode = MC_PCT,
        .max_exec = 10000);

/* ... and the helping form. */
static weft_poll help_child(weft_task *self, void *state) {
    (void)state;
    weft_task *child;
    mc_assert(weft_go(NULL, once, NULL, &child) == 0);
    mc_assert(weft_join(child, NULL, WEFT_NEVER) == 0);
    mc_assert(ran == 1);
    weft_task_drop(child);
    return weft_done(self, 0, NULL);
}

static void join_helping(void) {
    start((weft_sched)mc_arg(), 2);
    weft_task *task;
    mc_assert(weft_go(rt, help_child, NULL, &task) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    stop_quietly();
}
MC_CASE(rt_join_helping_ring, join_helping, .arg = WEFT_SCHED_RING, .proves = "B33", .mode = MC_PCT, .max_exec = 10000);
MC_CASE(rt_join_helping_fifo, join_helping, .arg = WEFT_SCHED_FIFO, .proves = "B33", .mode = MC_PCT, .max_exec = 10000);
MC_CASE(rt_join_helping_reactor, join_helping, .arg = WEFT_SCHED_REACTOR, .proves = "R13 R25", .mode = MC_PCT,
        .max_exec = 10000);

/* -- Stop. */

/* Stop comes while the last task ends: it is never left sleeping, and nothing is lost. */
static void stop_against_end(void) {
    start((weft_sched)mc_arg(), 1);
    mc_assert(weft_go(rt, count, NULL, NULL) == 0);
    stop();
    mc_assert(load_relaxed(&runs) == 1);
}
MC_CASE(rt_stop_ring, stop_against_end, .arg = WEFT_SCHED_RING, .proves = "W36 W37 K38 K39 K41", .bound = 2,
        .stale_counts = true, .seconds = 4);
MC_CASE(rt_stop_fifo, stop_against_end, .arg = WEFT_SCHED_FIFO, .proves = "K38 K39 K41", .bound = 2,
        .stale_counts = true, .seconds = 4);
MC_CASE(rt_stop_reactor, stop_against_end, .arg = WEFT_SCHED_REACTOR, .proves = "R36", .bound = 2, .stale_counts = true,
        .max_exec = 10000);

static _Atomic int accepted;

static void spawn_late(void *unused) {
    (void)unused;
    if (weft_go(rt, count, NULL, NULL) == 0)
        add_relaxed(&accepted, 1);
}

/* A spawn from outside while it stops: refused, or run. */
static void stop_against_spawn(void) {
    start(WEFT_SCHED_RING, 1);
    int a = mc_spawn(spawn_late, NULL);
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_join(a);
    mc_assert(load_relaxed(&runs) == load_relaxed(&accepted));
    mc_atomic_begin();
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}
MC_CASE(rt_stop_against_spawn, stop_against_spawn, .proves = "W38 K40", .bound = 2, .stale_counts = true, .seconds = 4);

/* Stop at once cancels a task that waits for ever. */
static void stop_at_once(void) {
    start((weft_sched)mc_arg(), 1);
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = wait_for_event;
    spec.drop = on_drop;
    mc_assert(weft_spawn(rt, &spec, NULL) == 0);
    mc_assert(weft_runtime_stop(rt, WEFT_NOW) == -ECANCELED);
    mc_assert(drops == 1);
    if (load_relaxed(&have_waker))
        weft_waker_drop(waker);
    mc_atomic_begin();
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_atomic_end();
}
MC_CASE(rt_stop_at_once_ring, stop_at_once, .arg = WEFT_SCHED_RING, .proves = "W35 W36", .bound = 1,
        .stale_counts = true, .seconds = 4, .idle_timeouts = 8);
MC_CASE(rt_stop_at_once_fifo, stop_at_once, .arg = WEFT_SCHED_FIFO, .proves = "W35 W36", .bound = 1,
        .stale_counts = true, .seconds = 4, .idle_timeouts = 8);
MC_CASE(rt_stop_at_once_reactor, stop_at_once, .arg = WEFT_SCHED_REACTOR, .proves = "R36", .bound = 1,
        .stale_counts = true, .seconds = 4, .idle_timeouts = 8);

/* -- Fork and join. */

struct sum {
    int n, result;
};

static void sum(void *arg) {
    struct sum *s = arg;
    if (s->n <= 1) {
        s->result = s->n;
        return;
    }
    struct sum left = {s->n / 2, 0}, right = {s->n - s->n / 2, 0};
    weft_job job;
    weft_fork(&job, sum, &right);
    sum(&left);
    weft_join_job(&job);
    s->result = left.result + right.result;
}

static weft_poll fork_join(weft_task *self, void *state) {
    sum(state);
    return weft_done(self, 0, NULL);
}

static void forks(void) {
    struct sum s = {4, 0};
    start(mc_arg() ? (weft_sched)mc_arg() : WEFT_SCHED_RING, 2);
    weft_task *task;
    mc_assert(weft_go(rt, fork_join, &s, &task) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    mc_assert(s.result == 4);
    weft_task_drop(task);
    stop_quietly();
}
MC_CASE(rt_fork_join, forks, .proves = "W17", .mode = MC_PCT, .max_exec = 10000);
MC_CASE(rt_fork_join_bounded, forks, .proves = "W17", .bound = 1, .stale_counts = true, .seconds = 4);
MC_CASE(rt_fork_join_reactor, forks, .arg = WEFT_SCHED_REACTOR, .proves = "R2", .mode = MC_PCT, .max_exec = 10000);
