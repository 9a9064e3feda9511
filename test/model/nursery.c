/* nursery.c - nurseries on the whole runtime: the last child against its waiter, against cancels, spawns, deadlines.
 *
 * The nursery is in memory of its own, so that whoever touches it too late is found.  Sleeps never time out. */
#include "nursery/nursery.h"
#include "model.h"
#include "model_rt.h"

static weft_runtime *rt;
static weft_nursery *n;
static _Atomic int ran;
static int result;

static void start(unsigned workers) { rt = model_open(WEFT_SCHED_FIFO, workers); }

static void stop(void) { model_close(rt); }

static int child(void *arg) {
    (void)arg;
    add_relaxed(&ran, 1);
    return 0;
}

static int fail(void *arg) {
    (void)arg;
    add_relaxed(&ran, 1);
    return -EIO;
}

static int wait_for_ever(void *arg) {
    (void)arg;
    int why = weft_sleep_until(WEFT_NEVER);
    add_relaxed(&ran, 1);
    return why;
}

static void run(weft_fiber_fn fn) {
    weft_task *task;
    mc_assert(weft_fiber_go(rt, fn, NULL, &task) == 0);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
}

static void end(void) {
    int again = weft_nursery_destroy(n);
    mc_assert(again == result);
    stop();
}

/* -- The last child against the waiter (A1 to A4, C1 to C4). */

static void thread_awaits(void) {
    start(1);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    for (int i = 0; i < mc_arg(); i++)
        mc_assert(weft_nursery_go(n, child, NULL, NULL) == 0);
    result = weft_nursery_await(n);
    mc_assert(result == 0 && load_relaxed(&ran) == mc_arg());
    end();
}
MC_CASE(nursery_thread_awaits, thread_awaits, .arg = 1, .proves = "J27 J29 J30", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(nursery_thread_awaits_two, thread_awaits, .arg = 2, .proves = "J28 J29", .bound = 1, .stale_counts = true,
        .seconds = 4);

static int owner(void *arg) {
    (void)arg;
    mc_assert(weft_nursery_create(NULL, NULL, &n) == 0);
    for (int i = 0; i < mc_arg(); i++)
        mc_assert(weft_nursery_go(n, child, NULL, NULL) == 0);
    mc_assert(weft_nursery_await(n) == 0);
    mc_assert(load_relaxed(&ran) == mc_arg());
    mc_assert(weft_nursery_destroy(n) == 0);
    return 0;
}

static void fiber_awaits(void) {
    start(2);
    run(owner);
    stop();
}
MC_CASE(nursery_fiber_awaits, fiber_awaits, .arg = 1, .proves = "J26 J29 J30", .bound = 2, .stale_counts = true,
        .max_exec = 8000);
MC_CASE(nursery_fiber_awaits_two, fiber_awaits, .arg = 2, .proves = "J26 J29 J30", .mode = MC_PCT, .max_exec = 4000);

/* Who has awaited finds every handle done, whatever made the child end. */
static void handles_are_done(void) {
    weft_task *task;
    start(1);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    mc_assert(weft_nursery_go(n, mc_arg() ? fail : child, NULL, &task) == 0);
    result = weft_nursery_await(n);
    mc_assert(weft_task_is_done(task) && weft_join(task, NULL, WEFT_NOW) == 0);
    weft_task_drop(task);
    end();
}
MC_CASE(nursery_handles_are_done, handles_are_done, .proves = "J28 J29", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(nursery_handles_are_done_failed, handles_are_done, .arg = 1, .proves = "J28 J33", .bound = 1,
        .stale_counts = true, .seconds = 4);

struct poller {
    weft_wait wait;
    bool begun;
};

static weft_poll poll_owner(weft_task *self, void *state) {
    struct poller *p = state;
    if (!p->begun) {
        p->begun = true;
        mc_assert(weft_nursery_create(NULL, NULL, &n) == 0);
        mc_assert(weft_nursery_go(n, child, NULL, NULL) == 0);
    }
    int error = weft_nursery_await_poll(n, self, &p->wait, &result);
    if (error == -EAGAIN)
        return WEFT_PENDING;
    mc_assert(error == 0 && result == 0 && load_relaxed(&ran) == 1);
    return weft_done(self, 0, NULL);
}

static void poll_drop(void *state) {
    struct poller *p = state;
    weft_wait_end(&p->wait);
    if (p->begun)
        weft_nursery_destroy(n);
}

/* In a poll task; and when that is cancelled at any moment, the last one out frees. */
static void poll_awaits(void) {
    start(2);
    weft_task *task;
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = poll_owner;
    spec.drop = poll_drop;
    spec.state_size = sizeof(struct poller);
    mc_assert(weft_spawn(rt, &spec, &task) == 0);
    if (mc_arg())
        weft_task_cancel(task);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    stop();
}
MC_CASE(nursery_poll_awaits, poll_awaits, .proves = "J26 J30", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(nursery_poll_cancelled, poll_awaits, .arg = 1, .proves = "J23", .mode = MC_PCT, .max_exec = 4000);

/* -- Cancel against completion. */

static void cancel_completion(void) {
    start(1);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    mc_assert(weft_nursery_go(n, mc_arg() ? wait_for_ever : child, NULL, NULL) == 0);
    weft_nursery_cancel(n);
    result = weft_nursery_await(n);
    mc_assert(result == -ECANCELED);
    mc_assert(weft_nursery_state_of(n) == WEFT_NURSERY_CANCELLED);
    end();
}
MC_CASE(nursery_cancel_completion, cancel_completion, .proves = "J20 J25 J31 J34", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(nursery_cancel_waiting, cancel_completion, .arg = 1, .proves = "J25 J34", .bound = 2, .stale_counts = true,
        .seconds = 4);

static int cancel_parent(void *arg) {
    (void)arg;
    weft_nursery_cancel(weft_nursery_parent());
    return 0;
}

/* A child cancels, while others end, and the owner awaits: the pin keeps the nursery. */
static void child_cancels(void) {
    start(2);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    mc_assert(weft_nursery_go(n, wait_for_ever, NULL, NULL) == 0);
    mc_assert(weft_nursery_go(n, cancel_parent, NULL, NULL) == 0);
    result = weft_nursery_await(n);
    mc_assert(result == -ECANCELED);
    end();
}
MC_CASE(nursery_child_cancels, child_cancels, .proves = "J25 J34", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(nursery_child_cancels_bounded, child_cancels, .proves = "J25 J34", .bound = 1, .stale_counts = true,
        .seconds = 4);

/* Two failures: the first wins, and both siblings end. */
static void failures(void) {
    start(2);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    mc_assert(weft_nursery_go(n, wait_for_ever, NULL, NULL) == 0);
    mc_assert(weft_nursery_go(n, fail, NULL, NULL) == 0);
    int error = weft_nursery_go(n, fail, NULL, NULL);
    mc_assert(error == 0 || error == -ECANCELED);
    result = weft_nursery_await(n);
    mc_assert(result == -EIO);
    end();
}
MC_CASE(nursery_failures, failures, .proves = "J20 J33", .mode = MC_PCT, .max_exec = 4000);

/* -- Spawn against cancel and close: refused, or run and awaited. */

static _Atomic int accepted;

static void spawn_late(void *unused) {
    (void)unused;
    int error = weft_nursery_go(n, child, NULL, NULL);
    mc_assert(error == 0 || error == -EPIPE || error == -ECANCELED);
    add_relaxed(&accepted, error == 0);
}

static void spawn_against(void) {
    start(1);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    int a = mc_spawn(spawn_late, NULL);
    if (mc_arg())
        weft_nursery_cancel(n);
    else
        weft_nursery_close(n);
    mc_join(a);
    result = weft_nursery_await(n);
    mc_assert(result == (mc_arg() ? -ECANCELED : 0));
    mc_assert(mc_arg() ? load_relaxed(&ran) <= load_relaxed(&accepted) : load_relaxed(&ran) == load_relaxed(&accepted));
    end();
}
MC_CASE(nursery_spawn_against_close, spawn_against, .proves = "J19 J21", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(nursery_spawn_against_cancel, spawn_against, .arg = 1, .proves = "J21 J34", .bound = 2, .stale_counts = true,
        .seconds = 4);

/* -- Owner death: cancelled at any moment, in its nursery's life or before or after. */

static int mortal(void *arg) {
    (void)arg;
    bool late = weft_task_is_cancelled(weft_task_self());
    mc_assert(weft_nursery_create(NULL, NULL, &n) == 0);
    int error = weft_nursery_go(n, wait_for_ever, NULL, NULL);
    mc_assert(late ? error == -ECANCELED : error == 0 || error == -ECANCELED);
    mc_assert(weft_nursery_await(n) == -ECANCELED);
    mc_assert(weft_nursery_destroy(n) == -ECANCELED);
    return -ECANCELED;
}

/* The nursery is left to the end of the fiber. */
static int careless(void *arg) {
    (void)arg;
    mc_assert(weft_nursery_create(NULL, NULL, &n) == 0);
    int error = weft_nursery_go(n, wait_for_ever, NULL, NULL);
    mc_assert(error == 0 || error == -ECANCELED);
    return -ECANCELED;
}

static void owner_death(void) {
    start(2);
    weft_task *task;
    weft_result end;
    mc_assert(weft_fiber_go(rt, mc_arg() ? careless : mortal, NULL, &task) == 0);
    weft_task_cancel(task);
    mc_assert(weft_join(task, &end, WEFT_NEVER) == 0);
    mc_assert(end.status == -ECANCELED);
    weft_task_drop(task);
    stop();
}
MC_CASE(nursery_owner_death, owner_death, .proves = "J22 J23 J25", .mode = MC_PCT, .max_exec = 6000);
MC_CASE(nursery_owner_death_bounded, owner_death, .proves = "J22 J23 J25", .bound = 1, .stale_counts = true,
        .seconds = 4);
MC_CASE(nursery_owner_careless, owner_death, .arg = 1, .proves = "J8 J23", .mode = MC_PCT, .max_exec = 4000);

/* Two levels: the cascade against both of them ending by themselves. */
static int inner_owner(void *arg) {
    weft_nursery *inner;
    mc_assert(weft_nursery_create(NULL, NULL, &inner) == 0);
    int error = weft_nursery_go(inner, arg ? wait_for_ever : child, NULL, NULL);
    mc_assert(error == 0 || error == -ECANCELED);
    int status = weft_nursery_await(inner);
    weft_nursery_destroy(inner);
    return status;
}

static void cascade(void) {
    start(2);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    mc_assert(weft_nursery_go(n, inner_owner, mc_arg() ? &ran : NULL, NULL) == 0);
    weft_nursery_cancel(n);
    result = weft_nursery_await(n);
    mc_assert(result == -ECANCELED);
    end();
}
MC_CASE(nursery_cascade, cascade, .arg = 1, .proves = "J24 J25 J34", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(nursery_cascade_ending, cascade, .proves = "J24 J25", .mode = MC_PCT, .max_exec = 4000);

/* The child in between does not go on: it waits for its own under a shield, and that is cancelled all the same. */
static int inner_shielded(void *arg) {
    (void)arg;
    weft_nursery *inner;
    weft_task *task;
    mc_assert(weft_nursery_create(NULL, NULL, &inner) == 0);
    if (weft_nursery_go(inner, wait_for_ever, NULL, &task) == 0) {
        mc_assert(weft_shield(weft_task_self()) == 0);
        mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
        mc_assert(weft_unshield(weft_task_self()) == 0);
        weft_task_drop(task);
    }
    mc_assert(weft_nursery_destroy(inner) == -ECANCELED);
    return 0;
}

static void cascade_past_shield(void) {
    start(1);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    mc_assert(weft_nursery_go(n, inner_shielded, NULL, NULL) == 0);
    weft_nursery_cancel(n);
    result = weft_nursery_await(n);
    mc_assert(result == -ECANCELED);
    end();
}
MC_CASE(nursery_cascade_past_shield, cascade_past_shield, .proves = "J23 J24", .mode = MC_PCT, .max_exec = 4000);

/* A nursery that was opened under a shield, which goes while the owner is cancelled: by whom ever, it is cancelled. */
static int outlives_shield(void *arg) {
    (void)arg;
    weft_nursery *inner;
    weft_task *task, *self = weft_task_self();
    mc_assert(weft_shield(self) == 0);
    mc_assert(weft_nursery_create(NULL, NULL, &inner) == 0);
    mc_assert(weft_nursery_go(inner, wait_for_ever, NULL, &task) == 0);
    mc_assert(weft_unshield(self) == 0);
    mc_assert(weft_shield(self) == 0); /* so that it is not our await that does it */
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    mc_assert(weft_unshield(self) == 0);
    weft_task_drop(task);
    mc_assert(weft_nursery_destroy(inner) == -ECANCELED);
    return 0;
}

static void cascade_after_shield(void) {
    start(1);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    mc_assert(weft_nursery_go(n, outlives_shield, NULL, NULL) == 0);
    weft_nursery_cancel(n);
    result = weft_nursery_await(n);
    mc_assert(result == -ECANCELED);
    end();
}
MC_CASE(nursery_cascade_after_shield, cascade_after_shield, .proves = "J23 J24", .mode = MC_PCT, .max_exec = 4000);

/* -- The deadline against the last child, and against the end of the nursery. */

#define MS INT64_C(1000000)

enum { PASSED, SOON, MOVED };

static void deadline(void) {
    start(1);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    mc_assert(weft_nursery_go(n, mc_arg() == MOVED ? wait_for_ever : child, NULL, NULL) == 0);
    int64_t begun = wefti_clock();
    if (mc_arg() == MOVED) /* to an earlier time */
        mc_assert(weft_nursery_set_deadline(n, INT64_MAX - 1) == 0);
    mc_assert(weft_nursery_set_deadline(n, mc_arg() == PASSED ? WEFT_NOW
                                           : mc_arg() == SOON ? begun + 3000 /* the clock moves when it is looked at */
                                                              : begun + 5 * MS) == 0);
    result = weft_nursery_await(n);
    mc_assert(result == -ETIMEDOUT || (mc_arg() != MOVED && result == 0));
    mc_assert(wefti_clock() < begun + 1000 * MS);
    end();
}
MC_CASE(nursery_deadline, deadline, .proves = "J29 J30", .bound = 1, .stale_counts = true, .seconds = 4);
MC_CASE(nursery_deadline_two, deadline, .proves = "J29 J30", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(nursery_deadline_soon, deadline, .arg = SOON, .proves = "J25", .mode = MC_PCT, .idle_timeouts = 4,
        .max_exec = 4000);
MC_CASE(nursery_deadline_waiting, deadline, .arg = MOVED, .proves = "J25", .mode = MC_PCT, .idle_timeouts = 4,
        .max_exec = 4000);

static int time_out(void *arg) {
    (void)arg;
    mc_assert(weft_timeout(0, wait_for_ever, NULL) == -ETIMEDOUT);
    int status = weft_timeout(0, child, NULL);
    mc_assert(status == 0 || status == -ETIMEDOUT);
    return 0;
}

static void timeout(void) {
    start(2);
    run(time_out);
    stop();
}
MC_CASE(nursery_timeout, timeout, .proves = "J30 J34", .mode = MC_PCT, .max_exec = 4000);

/* -- A supervisor: ends are seen, whenever they come; it starts again, then gives up. */

static int fail_later(void *arg) {
    (void)arg;
    add_relaxed(&ran, 1);
    return -EIO;
}

static int supervisor(void *arg) {
    (void)arg;
    static const weft_supervised_fiber children[] = {{"a", wait_for_ever, NULL, WEFT_RESTART_PERMANENT, 0},
                                                     {"b", fail_later, NULL, WEFT_RESTART_PERMANENT, 0}};
    weft_supervisor_config config = WEFT_SUPERVISOR_CONFIG_INIT;
    config.strategy = (weft_strategy)mc_arg();
    config.intensity = 1;
    config.period = INT64_MAX;
    config.backoff_min = -1;
    mc_assert(weft_supervise(&config, children, 2) == -EIO);
    return 0;
}

static void supervise(void) {
    start(2);
    run(supervisor);
    mc_assert(load_relaxed(&ran) >= 2);
    stop();
}
MC_CASE(nursery_supervisor, supervise, .proves = "J3", .mode = MC_PCT, .max_exec = 2500);
MC_CASE(nursery_supervisor_all, supervise, .arg = WEFT_STRATEGY_ONE_FOR_ALL, .proves = "J3", .mode = MC_PCT,
        .max_exec = 2500);

/* -- A shield whose limit has passed: the cancel wakes it at any moment. */

static int shielded(void *arg) {
    (void)arg;
    mc_assert(weft_shield_until(weft_task_self(), 1) == 0);
    int why = weft_sleep_until(WEFT_NEVER);
    mc_assert(why == -ECANCELED);
    return why;
}

static void shield(void) {
    start(1);
    weft_task *task;
    mc_assert(weft_fiber_go(rt, shielded, NULL, &task) == 0);
    weft_task_cancel(task);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    stop();
}
MC_CASE(nursery_shield_until, shield, .proves = "J25", .bound = 2, .stale_counts = true, .seconds = 4);

static int shielded_plainly(void *arg) {
    (void)arg;
    add_relaxed(&ran, 1);
    mc_assert(weft_shield(weft_task_self()) == 0);
    return weft_sleep_until(WEFT_NEVER);
}

/* A nursery whose grace is over at once, with one child; and the end of one that is cancelled. */
static void start_graced(unsigned workers, weft_fiber_fn fn, weft_task **task) {
    start(workers);
    mc_assert(weft_nursery_create(rt, NULL, &n) == 0);
    wefti_nursery_of(n)->grace = -INT64_MAX / 2;
    mc_assert(weft_nursery_go(n, fn, NULL, task) == 0);
}

static void end_cancelled(void) {
    weft_nursery_cancel(n);
    result = weft_nursery_await(n);
    mc_assert(result == -ECANCELED);
    end();
}

/* The limit comes with the cancel. */
static void grace(void) {
    start_graced(1, shielded_plainly, NULL);
    while (mc_arg() && !load_relaxed(&ran)) /* it has begun, and may or may not be shielded */
        wefti_relax();
    end_cancelled();
}
/* ... for all below. */
static int parent_of_shielded(void *arg) {
    (void)arg;
    weft_nursery *inner;
    if (mc_arg())
        mc_assert(weft_shield(weft_task_self()) == 0);
    mc_assert(weft_nursery_create(NULL, NULL, &inner) == 0);
    int error = weft_nursery_go(inner, shielded_plainly, NULL, NULL);
    mc_assert(error == 0 || error == -ECANCELED);
    if (mc_arg() == 2)
        mc_assert(weft_unshield(weft_task_self()) == 0);
    weft_nursery_await(inner);
    mc_assert(weft_nursery_destroy(inner) == -ECANCELED);
    return 0;
}

static void grace_below(void) {
    start_graced(2, parent_of_shielded, NULL);
    end_cancelled();
}
MC_CASE(nursery_grace_below, grace_below, .proves = "J24 J25", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(nursery_grace_below_shield, grace_below, .arg = 1, .proves = "J24 J25", .mode = MC_PCT, .max_exec = 4000);
/* ... by whom ever the nursery is cancelled: the owner that lays it open learns of the limit with the cancel. */
MC_CASE(nursery_grace_after_shield, grace_below, .arg = 2, .proves = "J24 J25", .mode = MC_PCT, .max_exec = 4000);

/* ... and for those that are cancelled already, without a limit, at that very moment or before. */
static int fails_at_once(void *arg) {
    (void)arg;
    return -EIO;
}

static int parent_of_failed(void *arg) {
    (void)arg;
    weft_nursery *inner;
    if (mc_arg())
        mc_assert(weft_shield(weft_task_self()) == 0);
    mc_assert(weft_nursery_create(NULL, NULL, &inner) == 0);
    int error = weft_nursery_go(inner, shielded_plainly, NULL, NULL);
    mc_assert(error == 0 || error == -ECANCELED);
    error = weft_nursery_go(inner, fails_at_once, NULL, NULL);
    mc_assert(error == 0 || error == -ECANCELED);
    weft_nursery_await(inner);
    error = weft_nursery_destroy(inner);
    mc_assert(error == -ECANCELED || error == -EIO);
    return 0;
}

static void grace_again(void) {
    start_graced(2, parent_of_failed, NULL);
    end_cancelled();
}
MC_CASE(nursery_grace_again, grace_again, .proves = "J24 J25", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(nursery_grace_again_shield, grace_again, .arg = 1, .proves = "J24 J25", .mode = MC_PCT, .max_exec = 4000);

/* ... also when the owner was cancelled by itself before, has passed that on, and waits for good: then it is the canceller who comes to them again. */
static _Atomic(weft_nursery *) inner_of;
static _Atomic int is_shielded;

static int shielded_surely(void *arg) {
    (void)arg;
    mc_assert(weft_shield(weft_task_self()) == 0);
    store_release(&is_shielded, 1);
    return weft_sleep_until(WEFT_NEVER);
}

static int waits_for_good(void *arg) {
    (void)arg;
    weft_nursery *inner;
    mc_assert(weft_nursery_create(NULL, NULL, &inner) == 0);
    store_release(&inner_of, inner);
    mc_assert(weft_nursery_go(inner, shielded_surely, NULL, NULL) == 0);
    mc_assert(weft_nursery_await(inner) == -ECANCELED);
    mc_assert(weft_nursery_destroy(inner) == -ECANCELED);
    return 0;
}

static void grace_for_good(void) {
    weft_task *task;
    start_graced(2, waits_for_good, &task);
    while (!load_acquire(&is_shielded)) /* from then on only a limit ends it */
        wefti_relax();
    weft_task_cancel(task);
    weft_task_drop(task);
    while (weft_nursery_state_of(load_acquire(&inner_of)) != WEFT_NURSERY_CANCELLING)
        wefti_relax();
    end_cancelled();
}
MC_CASE(nursery_grace_for_good, grace_for_good, .proves = "J24 J25", .mode = MC_PCT, .max_exec = 4000);

MC_CASE(nursery_grace_begun, grace, .arg = 1, .proves = "J25", .bound = 2, .stale_counts = true, .seconds = 4);
MC_CASE(nursery_grace, grace, .proves = "J25", .bound = 2, .stale_counts = true, .seconds = 4);
