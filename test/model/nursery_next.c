/* nursery_next.c - the ends of a nursery's children: the last child against who takes ends, cancels and deadlines at any moment.
 *
 * The nursery is in memory of its own, and ends that nobody has taken hold tasks: whoever touches it too late, and what is left over, is found. */
#include "model.h"
#include "model_rt.h"
#include "nursery/nursery.h"

static weft_runtime *rt;
static weft_nursery *n;
static _Atomic int ran;

static weft_nursery *open_one(weft_runtime *in, bool keep_going) {
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    weft_nursery *made = NULL;
    config.keep_results = true;
    config.keep_going = keep_going;
    mc_assert(weft_nursery_create(in, &config, &made) == 0);
    return made;
}

static int child(void *arg) {
    add_relaxed(&ran, 1);
    return (int)(intptr_t)arg;
}

static int fail(void *arg) {
    (void)arg;
    return -EIO;
}

static int wait_for_ever(void *arg) {
    (void)arg;
    return weft_sleep_until(WEFT_NEVER);
}

/* All that are left; each finds its child COMPLETE. */
static int take_all(weft_nursery *from, int *sum) {
    weft_result result;
    const weft_task *which;
    int count = 0, error;
    while ((error = weft_nursery_next(from, &result, &which, WEFT_NEVER)) == 0) {
        count++;
        *sum += (int)(intptr_t)result.value;
    }
    mc_assert(error == -ECHILD);
    return count;
}

static void thread_takes(void) {
    int sum = 0;
    rt = model_open(WEFT_SCHED_FIFO, 1);
    n = open_one(rt, true);
    for (int i = 1; i <= mc_arg(); i++)
        mc_assert(weft_nursery_go(n, child, (void *)(intptr_t)i, NULL) == 0);
    mc_assert(take_all(n, &sum) == mc_arg() && sum == (mc_arg() == 1 ? 1 : 3));
    mc_assert(weft_nursery_await(n) == 0);
    mc_assert(weft_nursery_destroy(n) == 0);
    model_close(rt);
}
MC_CASE(nursery_next_thread, thread_takes, .arg = 1, .proves = "J27 J28 J29", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(nursery_next_thread_two, thread_takes, .arg = 2, .proves = "J28 J29", .bound = 1, .stale_counts = true,
        .seconds = 4);

/* Takes one at most, while the other may end at any moment: the rest is given back with the nursery. */
static void thread_leaves(void) {
    rt = model_open(WEFT_SCHED_FIFO, 1);
    n = open_one(rt, true);
    mc_assert(weft_nursery_go(n, child, NULL, NULL) == 0);
    mc_assert(weft_nursery_go(n, child, NULL, NULL) == 0);
    int error = weft_nursery_next(n, NULL, NULL, mc_arg() ? WEFT_NOW : WEFT_NEVER);
    mc_assert(error == 0 || (mc_arg() && error == -ETIMEDOUT));
    mc_assert(weft_nursery_destroy(n) <= 0);
    model_close(rt);
}
MC_CASE(nursery_next_leaves, thread_leaves, .proves = "J8 J29", .bound = 1, .stale_counts = true, .seconds = 4);
MC_CASE(nursery_next_leaves_early, thread_leaves, .arg = 1, .proves = "J8 J29", .bound = 1, .stale_counts = true,
        .seconds = 4);

/* A fiber takes; somebody cancels it at any moment, and with it its children. */
static int taker(void *arg) {
    (void)arg;
    weft_nursery *mine = open_one(NULL, true);
    weft_result result;
    int count = 0, error, spawned = 0;
    for (int i = 0; i < 2; i++)
        spawned += weft_nursery_go(mine, child, NULL, NULL) == 0;
    while ((error = weft_nursery_next(mine, &result, NULL, WEFT_NEVER)) == 0) {
        mc_assert(result.status == 0 || (mc_arg() && result.status == -ECANCELED));
        count++;
    }
    mc_assert(error == -ECHILD ? count == spawned : mc_arg() && error == -ECANCELED);
    int status = weft_nursery_destroy(mine);
    mc_assert(status == 0 || status == -ECANCELED);
    return 0;
}

static void fiber_takes(void) {
    weft_task *task;
    rt = model_open(WEFT_SCHED_FIFO, 2);
    mc_assert(weft_fiber_go(rt, taker, NULL, &task) == 0);
    if (mc_arg())
        weft_task_cancel(task);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    model_close(rt);
}
MC_CASE(nursery_next_fiber, fiber_takes, .proves = "J26 J28 J29", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(nursery_next_fiber_cancelled, fiber_takes, .arg = 1, .proves = "J23 J25 J29", .mode = MC_PCT, .max_exec = 4000);

/* One fails: both ends are given, though the nursery is unlocked between (the cascade). */
static void failure(void) {
    rt = model_open(WEFT_SCHED_FIFO, 2);
    n = open_one(rt, false);
    weft_task *handle;
    const weft_task *which;
    mc_assert(weft_nursery_go(n, wait_for_ever, NULL, NULL) == 0);
    mc_assert(weft_nursery_go(n, fail, NULL, &handle) == 0); /* not cancelled: it is the only one that fails */
    weft_result result;
    int failed = 0, cancelled = 0, error;
    while ((error = weft_nursery_next(n, &result, &which, WEFT_NEVER)) == 0) {
        mc_assert((which == handle) == (result.status == -EIO));
        if (which == handle)
            mc_assert(weft_task_is_done(handle));
        failed += result.status == -EIO;
        cancelled += result.status == -ECANCELED;
    }
    weft_task_drop(handle);
    mc_assert(error == -ECHILD && failed == 1 && cancelled == 1);
    mc_assert(weft_nursery_await(n) == -EIO);
    mc_assert(weft_nursery_destroy(n) == -EIO);
    model_close(rt);
}
MC_CASE(nursery_next_failure, failure, .proves = "J20 J33", .mode = MC_PCT, .max_exec = 4000);

/* A deadline against the end: it is given in time, or later; never lost. */
static void deadline(void) {
    rt = model_open(WEFT_SCHED_FIFO, 1);
    n = open_one(rt, true);
    mc_assert(weft_nursery_go(n, child, NULL, NULL) == 0);
    int error = weft_nursery_next(n, NULL, NULL, wefti_clock() + 3000); /* the clock moves when it is looked at */
    mc_assert(error == 0 || error == -ETIMEDOUT);
    if (error)
        mc_assert(weft_nursery_next(n, NULL, NULL, WEFT_NEVER) == 0);
    mc_assert(weft_nursery_next(n, NULL, NULL, WEFT_NEVER) == -ECHILD);
    mc_assert(weft_nursery_destroy(n) <= 0);
    model_close(rt);
}
MC_CASE(nursery_next_deadline, deadline, .proves = "J25 J29", .mode = MC_PCT, .idle_timeouts = 4, .max_exec = 4000);

/* A child that was counted, and could not be queued: who waits for it is told that none is left. */
static void start_in_vain(void *arg) {
    (void)arg;
    mc_assert(weft_nursery_go(n, child, NULL, NULL) == -EAGAIN);
}

static void refused(void) {
    rt = model_open(WEFT_SCHED_FIFO, 1);
    n = open_one(rt, true);
    rt->global_capacity = 0;
    int other = mc_spawn(start_in_vain, NULL);
    mc_assert(weft_nursery_next(n, NULL, NULL, WEFT_NEVER) == -ECHILD);
    mc_join(other);
    mc_assert(weft_nursery_destroy(n) <= 0);
    model_close(rt);
}
MC_CASE(nursery_next_refused, refused, .proves = "B57 J29", .bound = 2, .stale_counts = true, .seconds = 4);

/* In a poll task, which may be cancelled at any moment: the last one out frees, and nothing is left. */
enum { CANCELLED = 1, LEAVES };

struct poller {
    weft_wait wait;
    weft_nursery *n;
    int taken;
};

static weft_poll poll_takes(weft_task *self, void *state) {
    struct poller *p = state;
    if (!p->n) {
        p->n = open_one(NULL, true);
        mc_assert(weft_nursery_go(p->n, child, NULL, NULL) == 0);
        mc_assert(weft_nursery_go(p->n, mc_arg() == LEAVES ? wait_for_ever : child, NULL, NULL) == 0);
    }
    int error;
    while ((error = weft_nursery_next_poll(p->n, self, &p->wait, NULL, NULL)) == 0)
        if (p->taken++ == 0 && mc_arg() == LEAVES)
            return weft_done(self, 0, NULL); /* the other ends after us, and wakes nobody */
    if (error == -EAGAIN)
        return WEFT_PENDING;
    mc_assert(error == -ECHILD && p->taken == 2);
    return weft_done(self, 0, NULL);
}

static void poll_drop(void *state) {
    struct poller *p = state;
    weft_wait_end(&p->wait);
    weft_nursery_destroy(p->n);
}

static void poll_takes_all(void) {
    weft_task *task;
    weft_spec spec = WEFT_SPEC_INIT;
    rt = model_open(WEFT_SCHED_FIFO, 2);
    spec.poll = poll_takes;
    spec.drop = poll_drop;
    spec.state_size = sizeof(struct poller);
    mc_assert(weft_spawn(rt, &spec, &task) == 0);
    if (mc_arg() == CANCELLED)
        weft_task_cancel(task);
    mc_assert(weft_join(task, NULL, WEFT_NEVER) == 0);
    weft_task_drop(task);
    model_close(rt);
}
MC_CASE(nursery_next_poll, poll_takes_all, .proves = "J9 J29", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(nursery_next_poll_leaves, poll_takes_all, .arg = LEAVES, .proves = "J8 J29", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(nursery_next_poll_cancelled, poll_takes_all, .arg = CANCELLED, .proves = "J8 J23", .mode = MC_PCT,
        .max_exec = 4000);
