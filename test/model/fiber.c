/* fiber.c - fibers in the whole runtime: suspending against being woken, cancelled, timed out, joined; moving between workers.
 *
 * Everything here is the shipped code.  A stack's saved pointer is plain memory to the checker (stack.h): a fiber that could be
 * resumed before it has been left is a data race in every interleaving, and a lost wake a deadlock. */
#include "fiber/switch.h"
#include "fiber/wait.h"
#include "model.h"
#include "model_rt.h"

static weft_runtime *rt;
static int ran; /* plain: ordered by joins */

#define ON(workers, sched) ((workers) << 8 | (sched))

static void start(void) {
    weft_config config = model_config((weft_sched)(mc_arg() & 0xff), (unsigned)(mc_arg() >> 8 & 0xff));
    config.stack_size = 65536;
    rt = model_create(&config);
}

static void stop_quietly(void) { model_close(rt); }

#define MIGRATE 0x10000

static weft_task *go(weft_fiber_fn fn, void *arg) {
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    weft_task *task;
    spec.fn = fn;
    spec.arg = arg;
    spec.migrate = mc_arg() & MIGRATE;
    mc_assert(weft_fiber_spawn(rt, &spec, &task) == 0);
    return task;
}

static int finish(weft_task *task) {
    weft_result result = {1, NULL};
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    weft_task_drop(task);
    return result.status;
}

/* -- One that computes ---------------------------------------------------------------------------------------------------- */

static int once(void *arg) {
    (void)arg;
    ran++;
    return 0;
}

static void run_one(void) {
    start();
    mc_assert(finish(go(once, NULL)) == 0);
    mc_assert(ran == 1);
    stop_quietly();
}
MC_CASE(fiber_runs_ring, run_one, .arg = ON(1, WEFT_SCHED_RING), .proves = "J16", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(fiber_runs_fifo, run_one, .arg = ON(2, WEFT_SCHED_FIFO), .proves = "J16", .bound = 1, .stale_counts = true,
        .seconds = 4);
MC_CASE(fiber_runs_sim, run_one, .arg = ON(1, WEFT_SCHED_SIM), .proves = "J16", .bound = 1, .stale_counts = true,
        .seconds = 4);

/* -- Wake against suspend ---------------------------------------------------------------------------------------------------- */

static struct {
    struct wefti_lock lock;
    struct wefti_waiters waiters;
    bool set;
    int written; /* plain: what the wake tells of */
} event;

static int wait_for_event(weft_deadline until) {
    struct wefti_waiter waiter;
    wefti_lock_take(&event.lock);
    if (event.set) {
        wefti_lock_give(&event.lock);
        return 0;
    }
    mc_assert(wefti_waiter_init(&waiter) == 0);
    wefti_waiters_append(&event.waiters, &waiter);
    wefti_lock_give(&event.lock);
    int why = wefti_waiter_wait(&waiter, until, "an event");
    if (why) {
        wefti_lock_take(&event.lock);
        bool there = wefti_waiters_remove(&event.waiters, &waiter);
        wefti_lock_give(&event.lock);
        if (there)
            return why;
        wefti_waiter_settle(&waiter);
    }
    mc_assert(waiter.result == 77 && event.written == 5);
    return 0;
}

static void set_event(void) {
    event.written = 5;
    for (struct wefti_waiter *waiter = NULL;;) {
        wefti_lock_take(&event.lock);
        event.set = true;
        wefti_waker waker = 0;
        if ((waiter = wefti_waiters_take(&event.waiters))) {
            waiter->result = 77;
            waker = wefti_waiter_serve(waiter);
        }
        wefti_lock_give(&event.lock);
        if (!waiter)
            break;
        wefti_waiter_wake(waker);
    }
}

static int wait_once(void *arg) {
    (void)arg;
    ran++;
    int why = wait_for_event(WEFT_NEVER);
    if (!why)
        mc_assert(event.written == 5);
    ran++;
    return why;
}

static void wake_against_suspend(void) {
    start();
    weft_task *task = go(wait_once, NULL);
    set_event();
    mc_assert(finish(task) == 0);
    mc_assert(ran == 2);
    stop_quietly();
}
MC_CASE(fiber_wake_ring, wake_against_suspend, .arg = ON(1, WEFT_SCHED_RING), .proves = "J13 J30 B21 B36", .bound = 2,
        .stale_counts = true, .seconds = 6);
MC_CASE(fiber_wake_deque, wake_against_suspend, .arg = ON(1, WEFT_SCHED_DEQUE), .proves = "J30", .bound = 1,
        .stale_counts = true, .seconds = 4);
MC_CASE(fiber_wake_fifo, wake_against_suspend, .arg = ON(1, WEFT_SCHED_FIFO), .proves = "J30", .bound = 1,
        .stale_counts = true, .seconds = 4);
MC_CASE(fiber_wake_migrating, wake_against_suspend, .arg = MIGRATE | ON(2, WEFT_SCHED_RING), .proves = "J15 J30",
        .bound = 1, .stale_counts = true, .seconds = 6);
MC_CASE(fiber_wake_two_workers, wake_against_suspend, .arg = ON(2, WEFT_SCHED_RING), .proves = "J30", .mode = MC_PCT,
        .max_exec = 10000);
MC_CASE(fiber_wake_migrating_fifo, wake_against_suspend, .arg = MIGRATE | ON(2, WEFT_SCHED_FIFO), .proves = "J15 J30",
        .mode = MC_PCT, .max_exec = 10000);

/* Woken by another fiber of the same runtime, which runs elsewhere or on the same worker. */
static int set_in_fiber(void *arg) {
    (void)arg;
    set_event();
    return 0;
}

static void wake_by_fiber(void) {
    start();
    weft_task *task = go(wait_once, NULL), *other = go(set_in_fiber, NULL);
    mc_assert(finish(task) == 0);
    mc_assert(finish(other) == 0);
    mc_assert(ran == 2);
    stop_quietly();
}
MC_CASE(fiber_wake_by_fiber, wake_by_fiber, .arg = ON(2, WEFT_SCHED_RING), .proves = "J30", .mode = MC_PCT,
        .max_exec = 10000);
MC_CASE(fiber_wake_by_fiber_bounded, wake_by_fiber, .arg = ON(2, WEFT_SCHED_RING), .proves = "J30", .bound = 1,
        .stale_counts = true, .seconds = 20);
MC_CASE(fiber_wake_by_fiber_migrating, wake_by_fiber, .arg = MIGRATE | ON(2, WEFT_SCHED_DEQUE), .proves = "J15 J30",
        .mode = MC_PCT, .max_exec = 10000);

/* -- Cancel at any moment ---------------------------------------------------------------------------------------------------- */

static void cancel_any_time(void) {
    start();
    weft_task *task = go(wait_once, NULL);
    weft_task_cancel(task);
    mc_assert(finish(task) == -ECANCELED);
    mc_assert(ran == 0 || ran == 2);
    mc_assert(event.waiters.first == NULL);
    stop_quietly();
}
MC_CASE(fiber_cancel_ring, cancel_any_time, .arg = ON(1, WEFT_SCHED_RING), .proves = "J31 J25", .bound = 2,
        .stale_counts = true, .seconds = 6);
MC_CASE(fiber_cancel_migrating, cancel_any_time, .arg = MIGRATE | ON(2, WEFT_SCHED_FIFO), .proves = "J31 J25",
        .bound = 1, .stale_counts = true, .seconds = 4);

/* A cancel and a wake at once. */
static void cancel_it(void *task) { weft_task_cancel(task); }

static void cancel_against_wake(void) {
    start();
    weft_task *task = go(wait_once, NULL);
    int t = mc_spawn(cancel_it, task);
    set_event();
    mc_join(t);
    int status = finish(task);
    mc_assert(status == 0 ? ran == 2 : status == -ECANCELED);
    mc_assert(event.waiters.first == NULL);
    stop_quietly();
}
MC_CASE(fiber_cancel_against_wake, cancel_against_wake, .arg = ON(1, WEFT_SCHED_RING), .proves = "J30 J31",
        .mode = MC_PCT, .max_exec = 10000);
MC_CASE(fiber_cancel_against_wake_bounded, cancel_against_wake, .arg = ON(1, WEFT_SCHED_RING), .proves = "J30 J31",
        .bound = 1, .stale_counts = true, .seconds = 6);

/* -- Drop at any moment ------------------------------------------------------------------------------------------------------ */

static int end_at_once(void *arg) {
    (void)arg;
    return 0;
}

/* Whoever frees it has seen its end, with all that was written there. */
static void drop_any_time(void) {
    start();
    weft_task_drop(go(end_at_once, NULL));
    stop_quietly();
}
MC_CASE(fiber_drop_ring, drop_any_time, .arg = ON(1, WEFT_SCHED_RING), .proves = "B33", .bound = 2,
        .stale_counts = true, .seconds = 4);

/* -- Rest: waits, and is not IDLE yet ------------------------------------------------------------------------------------------ */

/* Two of one worker wait, the first of them at rest while the second runs; who wakes or cancels is outside. */
static void wake_against_rest(void) {
    start();
    weft_task *task = go(wait_once, NULL), *other = go(wait_once, NULL);
    set_event();
    mc_assert(finish(task) == 0 && finish(other) == 0);
    mc_assert(ran == 4);
    stop_quietly();
}
MC_CASE(fiber_rest_wake, wake_against_rest, .arg = ON(1, WEFT_SCHED_RING), .proves = "J30 B51 B52", .bound = 1,
        .stale_counts = true, .seconds = 4);
MC_CASE(fiber_rest_wake_pct, wake_against_rest, .arg = ON(1, WEFT_SCHED_RING), .proves = "J30 B51 B52", .mode = MC_PCT,
        .max_exec = 10000);

/* ... or who wakes it runs after it. */
MC_CASE(fiber_rest_own_wake, wake_by_fiber, .arg = ON(1, WEFT_SCHED_RING), .proves = "J30", .bound = 1,
        .stale_counts = true, .seconds = 4);

static void cancel_against_rest(void) {
    start();
    weft_task *task = go(wait_once, NULL), *other = go(wait_once, NULL);
    weft_task_cancel(task);
    mc_assert(finish(task) == -ECANCELED);
    set_event();
    mc_assert(finish(other) == 0);
    stop_quietly();
}
MC_CASE(fiber_rest_cancel, cancel_against_rest, .arg = ON(1, WEFT_SCHED_RING), .proves = "J31", .bound = 1,
        .stale_counts = true, .seconds = 4);

/* Woken by another thread it has its turn among the others: the mark that it gets is seen before the loop comes by. */
#define SOON 20 /* turns of others: new fibers may come in a row first */
static int turns;

static void set_outside(void *arg) {
    (void)arg;
    set_event();
}

/* In one turn: have it woken. */
static void have_it_woken(void) { mc_join(mc_spawn(set_outside, NULL)); }

static int yield_until_it_ran(void *arg) {
    (void)arg;
    have_it_woken();
    for (; ran < 2; turns++)
        mc_assert(weft_yield() == 0 && turns <= SOON);
    return 0;
}

/* As metered code and checkpoints do. */
static int let_others_run_until_it_ran(void *arg) {
    (void)arg;
    have_it_woken();
    for (; ran < 2; turns++) {
        mc_assert(turns <= SOON);
        wefti_fiber_yield(wefti_worker_here(), wefti_fiber_self());
    }
    return 0;
}

static int take_a_turn(void *arg) {
    (void)arg;
    if (turns++ == 0)
        have_it_woken();
    return 0;
}

/* The one that waits has made the others: they come after it, on the same worker. */
static int wait_beside(void *arg) {
    weft_fiber_fn *others = arg;
    for (int i = 0; i < (*others == take_a_turn ? 2 * SOON : 1); i++)
        weft_task_drop(go(*others, NULL));
    mc_assert(wait_once(NULL) == 0 && turns <= SOON);
    return 0;
}

static void woken_beside(weft_fiber_fn others) {
    start();
    mc_assert(finish(go(wait_beside, &others)) == 0);
    stop_quietly();
}

static void woken_beside_yields(void) { woken_beside(yield_until_it_ran); }
MC_CASE(fiber_rest_beside_yields, woken_beside_yields, .arg = ON(1, WEFT_SCHED_RING), .proves = "J5 J30", .bound = 1,
        .stale_counts = true, .seconds = 4);

static void woken_beside_checkpoints(void) { woken_beside(let_others_run_until_it_ran); }
MC_CASE(fiber_rest_beside_checkpoints, woken_beside_checkpoints, .arg = ON(1, WEFT_SCHED_RING), .proves = "J5 J30",
        .bound = 1, .stale_counts = true, .seconds = 4);

static void woken_beside_new_ones(void) { woken_beside(take_a_turn); }
MC_CASE(fiber_rest_beside_new_ones, woken_beside_new_ones, .arg = ON(1, WEFT_SCHED_RING), .proves = "J30", .bound = 1,
        .stale_counts = true, .seconds = 20);

/* -- Yield: in the worker's own queue -------------------------------------------------------------------------------- */

static int yield_then_wait(void *arg) {
    (void)arg;
    int error = weft_yield();
    ran++;
    if (!error)
        error = weft_yield();
    return error ? error : wait_once(NULL);
}

static void yield_against_wake_and_cancel(void) {
    start();
    weft_task *task = go(yield_then_wait, NULL), *other = go(yield_then_wait, NULL);
    int t = mc_spawn(cancel_it, task);
    set_event();
    mc_join(t);
    int status = finish(task);
    mc_assert(status == 0 || status == -ECANCELED);
    mc_assert(finish(other) == 0);
    stop_quietly();
}
MC_CASE(fiber_yield_ring, yield_against_wake_and_cancel, .arg = ON(1, WEFT_SCHED_RING), .proves = "J13 J31",
        .mode = MC_PCT, .max_exec = 10000);
MC_CASE(fiber_yield_ring_bounded, yield_against_wake_and_cancel, .arg = ON(1, WEFT_SCHED_RING), .proves = "J13 J31",
        .bound = 1, .stale_counts = true, .seconds = 6);

/* Three that are ready wait one after the other: each is left for the next of the same worker's, and but one rests at a time. */
static void rest_in_turn(void) {
    weft_task *task[3];
    start();
    for (int i = 0; i < 3; i++)
        task[i] = go(yield_then_wait, NULL);
    set_event();
    for (int i = 0; i < 3; i++)
        mc_assert(finish(task[i]) == 0);
    stop_quietly();
}
MC_CASE(fiber_rest_in_turn, rest_in_turn, .arg = ON(1, WEFT_SCHED_RING), .proves = "J30", .bound = 1,
        .stale_counts = true, .seconds = 4);

/* A stray wake (a waker of the fiber that somebody kept) while it yields is spent at its next wait, and disturbs nobody. */
static weft_waker stray;
static _Atomic int have_stray;

static int give_waker(void *arg) {
    (void)arg;
    stray = weft_waker_of(weft_task_self());
    store_release(&have_stray, 1);
    mc_assert(weft_yield() == 0);
    mc_assert(weft_yield() == 0);
    return wait_for_event(WEFT_NEVER);
}

static void yield_against_stray_wake(void) {
    start();
    weft_task *task = go(give_waker, NULL);
    while (!load_acquire(&have_stray))
        wefti_relax();
    weft_waker_wake(stray);
    set_event();
    mc_assert(finish(task) == 0);
    stop_quietly();
}
MC_CASE(fiber_yield_stray_wake, yield_against_stray_wake, .arg = ON(1, WEFT_SCHED_RING), .proves = "J13 B51",
        .bound = 1, .stale_counts = true, .seconds = 6);

/* A wake that comes when it is about to run anyway is spent as it goes on, from a wait and from a yield: it does not look once more for
 * it.  All on one worker, in one order. */
#define YIELDS 0x20000 /* it is in a yield then */
#define THROWS 0x40000 /* a program with C++ */
static bool let_go;
static int looks;

static bool look(void *arg) {
    (void)arg;
    looks++;
    return let_go;
}

static int wake_too_often(void *arg) {
    (void)arg;
    if (!(mc_arg() & YIELDS)) {
        mc_assert(weft_yield() == 0); /* to nobody: from now on our own follow each other */
        weft_waker_wake_keep(stray); /* it waits: it is ready now */
    }
    weft_waker_wake_keep(stray); /* it is ready: a mark */
    for (int i = 0; i < 4; i++)
        mc_assert(weft_yield() == 0);
    let_go = true;
    weft_waker_wake(stray);
    return 0;
}

static int look_no_more_than_needed(void *arg) {
    (void)arg;
    static struct wefti_exceptions none;
    struct wefti_worker *w = wefti_worker_here();
    w->exceptions = mc_arg() & THROWS ? &none : NULL;
    stray = weft_waker_of(weft_task_self());
    weft_task *other = go(wake_too_often, NULL);
    if (mc_arg() & YIELDS)
        mc_assert(weft_yield() == 0);
    mc_assert(wefti_fiber_wait(wefti_fiber_self(), look, NULL, WEFT_NEVER, "to be let go") == 0);
    mc_assert(looks == (mc_arg() & YIELDS ? 2 : 3));
    mc_assert(finish(other) == 0);
    w->exceptions = NULL;
    return 0;
}

static void woken_too_often(void) {
    start();
    mc_assert(finish(go(look_no_more_than_needed, NULL)) == 0);
    stop_quietly();
}
MC_CASE(fiber_wait_spends_wake, woken_too_often, .arg = ON(1, WEFT_SCHED_RING), .proves = "B50 B51", .bound = 1,
        .stale_counts = true, .seconds = 4);
MC_CASE(fiber_wait_spends_wake_throws, woken_too_often, .arg = THROWS | ON(1, WEFT_SCHED_RING), .proves = "B50 B51",
        .bound = 1, .stale_counts = true, .seconds = 4);
MC_CASE(fiber_yield_spends_wake, woken_too_often, .arg = YIELDS | ON(1, WEFT_SCHED_RING), .proves = "B50 B51",
        .bound = 1, .stale_counts = true, .seconds = 4);
MC_CASE(fiber_yield_spends_wake_throws, woken_too_often, .arg = YIELDS | THROWS | ON(1, WEFT_SCHED_RING),
        .proves = "B50 B51", .bound = 1, .stale_counts = true, .seconds = 4);

/* What was written before a wake is seen by who goes on for it, however it is looked at and whoever came between: the mark of one that
 * rests is taken off by its worker, which goes on with one of its own. */
static _Atomic int told;

static bool is_told(void *arg) {
    (void)arg;
    return load_relaxed(&told); /* the wake orders it */
}

static int yield_some(void *arg) {
    (void)arg;
    for (int i = 0; i < 3; i++)
        mc_assert(weft_yield() == 0);
    return 0;
}

static int wait_to_be_told(void *arg) {
    (void)arg;
    stray = weft_waker_of(weft_task_self());
    weft_task_drop(go(yield_some, NULL));
    store_release(&have_stray, 1);
    return wefti_fiber_wait(wefti_fiber_self(), is_told, NULL, WEFT_NEVER, "to be told");
}

static void told_at_rest(void) {
    start();
    weft_task *task = go(wait_to_be_told, NULL);
    while (!load_acquire(&have_stray))
        wefti_relax();
    store_relaxed(&told, 1);
    weft_waker_wake(stray);
    mc_assert(finish(task) == 0);
    stop_quietly();
}
MC_CASE(fiber_rest_told, told_at_rest, .arg = ON(1, WEFT_SCHED_RING), .proves = "J30 B52", .bound = 2,
        .stale_counts = true, .seconds = 6);

/* Two that migrate and yield on two workers: each is run by one at a time, and sees what it wrote. */
static int yield_and_count(void *arg) {
    int *mine = arg; /* plain */
    for (int i = 0; i < 2; i++) {
        ++*mine;
        mc_assert(weft_yield() == 0);
    }
    return 0;
}

static void yields_move(void) {
    static int mine[2];
    start();
    weft_task *a = go(yield_and_count, &mine[0]), *b = go(yield_and_count, &mine[1]);
    mc_assert(finish(a) == 0 && finish(b) == 0);
    mc_assert(mine[0] == 2 && mine[1] == 2);
    stop_quietly();
}
MC_CASE(fiber_yield_migrating_fifo, yields_move, .arg = MIGRATE | ON(2, WEFT_SCHED_FIFO), .proves = "J15",
        .mode = MC_PCT, .max_exec = 10000);
MC_CASE(fiber_yield_migrating_ring, yields_move, .arg = MIGRATE | ON(2, WEFT_SCHED_RING), .proves = "J15",
        .mode = MC_PCT, .max_exec = 10000);
MC_CASE(fiber_yield_migrating_deque, yields_move, .arg = MIGRATE | ON(2, WEFT_SCHED_DEQUE), .proves = "J15",
        .mode = MC_PCT, .max_exec = 10000);
MC_CASE(fiber_yield_pinned, yields_move, .arg = ON(2, WEFT_SCHED_RING), .proves = "J15", .mode = MC_PCT,
        .max_exec = 10000);

/* -- Join -------------------------------------------------------------------------------------------------------------------- */

static int join_child(void *arg) {
    (void)arg;
    weft_task *child = go(once, NULL);
    mc_assert(finish(child) == 0);
    mc_assert(ran == 1);
    return 0;
}

static void join_in_fiber(void) {
    start();
    mc_assert(finish(go(join_child, NULL)) == 0);
    stop_quietly();
}
MC_CASE(fiber_join_ring, join_in_fiber, .arg = ON(2, WEFT_SCHED_RING), .proves = "J9 B33", .mode = MC_PCT,
        .max_exec = 10000);
MC_CASE(fiber_join_fifo, join_in_fiber, .arg = ON(2, WEFT_SCHED_FIFO), .proves = "J9 B33", .bound = 1,
        .stale_counts = true, .seconds = 6);
MC_CASE(fiber_join_migrating, join_in_fiber, .arg = MIGRATE | ON(2, WEFT_SCHED_FIFO), .proves = "J9 J15",
        .mode = MC_PCT, .max_exec = 10000);

/* A deadline against the end. */
static int join_with_deadline(void *arg) {
    (void)arg;
    weft_task *child = go(once, NULL);
    weft_result result = {1, NULL};
    int error = weft_join(child, &result, weft_after(3000000));
    mc_assert(error == 0 || error == -ETIMEDOUT);
    mc_assert(error || (ran == 1 && result.status == 0));
    if (error)
        mc_assert(weft_join(child, &result, WEFT_NEVER) == 0);
    weft_task_drop(child);
    return 0;
}

static void join_deadline(void) {
    start();
    mc_assert(finish(go(join_with_deadline, NULL)) == 0);
    mc_assert(ran == 1);
    stop_quietly();
}
MC_CASE(fiber_join_deadline, join_deadline, .arg = ON(2, WEFT_SCHED_FIFO), .proves = "B33", .mode = MC_PCT,
        .max_exec = 10000, .timeouts = 2);

/* -- Timers ------------------------------------------------------------------------------------------------------------------- */

static int wait_with_deadline(void *arg) {
    (void)arg;
    int why = wait_for_event(weft_after(2000000));
    mc_assert(why == 0 || why == -ETIMEDOUT);
    return why;
}

static void timer_against_wake(void) {
    start();
    weft_task *task = go(wait_with_deadline, NULL);
    set_event();
    int status = finish(task);
    mc_assert(status == 0 || status == -ETIMEDOUT);
    mc_assert(event.waiters.first == NULL);
    stop_quietly();
}
MC_CASE(fiber_timer_against_wake, timer_against_wake, .arg = ON(1, WEFT_SCHED_RING), .proves = "J30", .bound = 1,
        .stale_counts = true, .seconds = 6, .timeouts = 1);
MC_CASE(fiber_timer_against_wake_migrating, timer_against_wake, .arg = MIGRATE | ON(2, WEFT_SCHED_FIFO),
        .proves = "J30", .mode = MC_PCT, .max_exec = 10000, .timeouts = 2);

static int sleep_shortly(void *arg) {
    (void)arg;
    mc_assert(weft_sleep(2000000) == 0);
    ran++;
    return 0;
}

static void sleeping(void) {
    start();
    mc_assert(finish(go(sleep_shortly, NULL)) == 0);
    mc_assert(ran == 1);
    stop_quietly();
}
MC_CASE(fiber_sleeps, sleeping, .arg = ON(1, WEFT_SCHED_RING), .proves = "J9", .bound = 1, .stale_counts = true,
        .seconds = 4, .idle_timeouts = 4);

/* -- Stacks -------------------------------------------------------------------------------------------------------------------- */

/* Any allocation, map or guard fails: the fiber is refused, ends with -ENOMEM, or runs. */
static void stack_refused(void) {
    weft_config config = model_config(WEFT_SCHED_FIFO, 1);
    mc_atomic_begin();
    int error = weft_runtime_create(&config, &rt);
    mc_atomic_end();
    if (error)
        return;
    weft_task *task;
    error = weft_fiber_go(rt, once, NULL, &task);
    mc_assert(error == 0 || error == -ENOMEM);
    int status = error ? error : finish(task);
    mc_assert(status == 0 ? ran == 1 : status == -ENOMEM && ran == 0);
    if (!weft_fiber_go(rt, once, NULL, &task)) /* one failure only: it works again */
        mc_assert(status ? finish(task) == 0 : finish(task) != 1);
    stop_quietly();
}
MC_CASE(fiber_stack_refused, stack_refused, .proves = "J16", .bound = 1, .stale_counts = true, .seconds = 4,
        .failures = 1);

/* Stacks go from one worker to another through the pool. */
static struct wefti_stack_pool pool;

static void no_entry(void *pass) { (void)pass; }

static void take_and_give(void *mine) {
    for (int i = 0; i < 2; i++) {
        struct wefti_stack *stack = wefti_stack_pool_take(&pool, 16, no_entry);
        mc_assert(stack != NULL);
        *(int *)(void *)stack->base = *(int *)mine; /* plain: nobody else's */
        mc_assert(*(int *)(void *)stack->base == *(int *)mine);
        wefti_stack_pool_give(&pool, stack);
    }
}

MC_TEST(fiber_stack_pool, .proves = "J16", .bound = 2) {
    static int who[2] = {1, 2};
    wefti_stack_pool_init(&pool);
    int t = mc_spawn(take_and_give, &who[1]);
    take_and_give(&who[0]);
    mc_join(t);
    mc_assert(!wefti_stack_pool_refuses(&pool, 16));
    wefti_stack_pool_fini(&pool);
}
