/* idle.c - the idle protocol alone: real announce, return and notify over a queue that is one counter. */
#include "sched/sched.h"

#include "model.h"

static struct weft_runtime rt;
static struct wefti_worker worker[3];
static _Atomic int work; /* what waits in the public queue */
static _Atomic int taken, finished;

static bool has_work(struct wefti_worker *w) {
    (void)w;
    return load_relaxed(&work) > 0; /* as the real ones: ordered by the fences alone */
}

static const struct wefti_sched searching = {.name = "model", .has_work = has_work};
static const struct wefti_sched waking = {.name = "model", .has_work = has_work, .wake_each = true};

static void start(const struct wefti_sched *sched, uint32_t workers) {
    rt.sched = sched;
    rt.workers = rt.idle.workers = workers;
    rt.worker = worker;
    for (uint32_t i = 0; i < workers; i++) {
        worker[i].rt = &rt;
        worker[i].sched = sched;
        worker[i].index = i;
    }
}

static bool take(void) {
    int found = load_relaxed(&work);
    while (found > 0)
        if (cas_relaxed(&work, &found, found - 1))
            return true;
    return false;
}

static void submit(void) {
    add_relaxed(&work, 1); /* relaxed: only the fences order it */
    wefti_notify(&rt, NULL);
}

/* A worker that leaves after one piece of work, so that nobody finds what the protocol forgot. */
static void take_one(void *arg) {
    struct wefti_worker *w = arg;
    for (;;) {
        if (!w->searching)
            w->searching = wefti_idle_try_search(&rt.idle);
        if (take())
            break;
        if (wefti_worker_announce(w))
            wefti_park_sleep(&w->park, INT64_MAX);
        wefti_worker_return(w);
    }
    wefti_worker_found(w);
    add_relaxed(&taken, 1);
}

static void end(int expected) {
    mc_assert(load_relaxed(&taken) == expected && load_relaxed(&work) == 0);
    mc_assert(load_relaxed(&rt.idle.searching) == 0 && wefti_idle_parked(&rt.idle) == 0); /* B43 */
}

static void one_worker(void) {
    start((const struct wefti_sched *)mc_arg(), 1);
    int a = mc_spawn(take_one, &worker[0]);
    submit();
    mc_join(a);
    end(1);
}
MC_CASE(idle_one_worker, one_worker, .arg = (intptr_t)&searching, .proves = "B38 B40 B41 B43", .bound = 3);
MC_CASE(idle_one_worker_wake_each, one_worker, .arg = (intptr_t)&waking, .proves = "K3 K11", .bound = 3);

static void two_workers(void) {
    start((const struct wefti_sched *)mc_arg(), 2);
    int a = mc_spawn(take_one, &worker[0]), b = mc_spawn(take_one, &worker[1]);
    submit();
    submit();
    mc_join(a), mc_join(b);
    end(2);
}
MC_CASE(idle_two_workers, two_workers, .arg = (intptr_t)&searching, .proves = "B31 B38 B39 B40 B41 B43", .bound = 2,
        .seconds = 8);
MC_CASE(idle_two_workers_wake_each, two_workers, .arg = (intptr_t)&waking, .proves = "K3", .bound = 2, .seconds = 8);
MC_CASE(idle_two_workers_pct, two_workers, .arg = (intptr_t)&searching, .proves = "B41", .mode = MC_PCT,
        .max_exec = 30000);

static void submit_two(void *unused) {
    (void)unused;
    submit();
    submit();
}

/* Three workers, two submitters at once. */
static void three_workers(void) {
    start((const struct wefti_sched *)mc_arg(), 3);
    int t[3];
    for (int i = 0; i < 3; i++)
        t[i] = mc_spawn(take_one, &worker[i]);
    int s = mc_spawn(submit_two, NULL);
    submit();
    mc_join(s);
    for (int i = 0; i < 3; i++)
        mc_join(t[i]);
    end(3);
}
MC_CASE(idle_three_workers, three_workers, .arg = (intptr_t)&searching, .proves = "B39 B40 B41 B42 B44", .mode = MC_PCT,
        .max_exec = 60000);
MC_CASE(idle_three_workers_deep, three_workers, .arg = (intptr_t)&searching, .proves = "B41", .mode = MC_PCT,
        .depth = 5, .max_exec = 60000);
MC_CASE(idle_three_workers_walk, three_workers, .arg = (intptr_t)&searching, .proves = "B41", .mode = MC_RANDOM,
        .max_exec = 60000);

/* Two wakers take two different sleepers. */
static _Atomic int claimed_by[2];

static void claim(void *unused) {
    (void)unused;
    int index = wefti_idle_claim(&rt.idle, false);
    mc_assert(index >= 0 && add_relaxed(&claimed_by[index], 1) == 0);
}

MC_TEST(idle_two_wakers_two_sleepers, .proves = "B42", .bound = 3) {
    start(&searching, 2);
    wefti_idle_announce(&rt.idle, 0);
    wefti_idle_announce(&rt.idle, 1);
    int a = mc_spawn(claim, NULL);
    claim(NULL);
    mc_join(a);
    mc_assert(wefti_idle_parked(&rt.idle) == 0);
}

/* A sleeper that gives up by itself while it is being claimed: it goes on as a searcher, and the counts agree. */
static void notify(void *unused) {
    (void)unused;
    wefti_notify(&rt, NULL);
}

MC_TEST(idle_claim_against_return, .proves = "B38 B43", .bound = 3) {
    start(&searching, 1);
    struct wefti_worker *w = &worker[0];
    int a = mc_spawn(notify, NULL);
    mc_assert(wefti_worker_announce(w));
    wefti_worker_return(w); /* a time-out, say */
    mc_join(a);
    mc_assert(load_relaxed(&rt.idle.searching) == (w->searching ? 1u : 0u));
    mc_assert(wefti_idle_parked(&rt.idle) == 0);
    if (w->searching)
        wefti_worker_found(w);
}

/* Stop: a worker that goes to sleep either sees it or is woken. */
static void sleep_until_stopped(void *arg) {
    struct wefti_worker *w = arg;
    while (load_relaxed(&rt.phase) != WEFTI_STOPPED) {
        if (wefti_worker_announce(w))
            wefti_park_sleep(&w->park, INT64_MAX);
        wefti_worker_return(w);
    }
    add_relaxed(&finished, 1);
}

MC_TEST(idle_stop_against_sleep, .proves = "K38 K39", .bound = 3) {
    start(&searching, 1);
    int a = mc_spawn(sleep_until_stopped, &worker[0]);
    store_relaxed(&rt.phase, WEFTI_STOPPED); /* as stop.c does */
    fence_seq_cst();
    wefti_park_wake(&worker[0].park);
    mc_join(a);
    mc_assert(load_relaxed(&finished) == 1);
}

/* -- The watch ----------------------------------------------------------------------------------------------------- */

static void go_to_work(void *arg) {
    struct wefti_worker *w = arg;
    w->owes_watch = true;
    wefti_idle_leave_watch(&rt.idle, w->index);
    wefti_worker_return(w);
    wefti_worker_found(w);
}

/* The watcher gets up, by itself or because the other claims it, and finds work, while the other lies down: that one watches, or is woken to. */
static void watcher_leaves(void) {
    start(&searching, 2);
    mc_assert(wefti_worker_announce(&worker[1]) && wefti_idle_keep_watch(&rt.idle, 1));
    int a = mc_spawn(go_to_work, &worker[1]);
    if (mc_arg())
        wefti_notify_one(&rt, NULL, &worker[1]);
    mc_assert(wefti_worker_announce(&worker[0]));
    bool watches = wefti_idle_keep_watch(&rt.idle, 0);
    mc_join(a);
    mc_assert(watches || load_relaxed(&worker[0].claimed));
    mc_assert(load_relaxed(&rt.idle.watcher) == 1);
}
MC_CASE(idle_watcher_gets_up, watcher_leaves, .arg = 0, .proves = "B37", .bound = 3);
MC_CASE(idle_watcher_is_claimed, watcher_leaves, .arg = 1, .proves = "B37", .bound = 3);

/* As a worker that is about to run a task does. */
static void go_on(struct wefti_worker *w) {
    if (w->searching | w->owes_watch)
        wefti_worker_found(w);
}

/* The successor of a watcher finds something to do as well, at once or when it has lain down already: so there is another, and meanwhile none
 * that does not look.  `arg`: at once; else there is work when it looks once more, P4. */
static void successor_leaves(void) {
    start(&searching, 3);
    mc_assert(wefti_worker_announce(&worker[2]) && wefti_idle_keep_watch(&rt.idle, 2));
    mc_assert(wefti_worker_announce(&worker[0]) && wefti_worker_announce(&worker[1]));
    int a = mc_spawn(go_to_work, &worker[2]);
    wefti_park_sleep(&worker[1].park, INT64_MAX);
    wefti_worker_return(&worker[1]);
    mc_assert(load_relaxed(&rt.idle.watcher) == 2);
    mc_join(a);
    if (!mc_arg()) {
        store_relaxed(&work, 1);
        mc_assert(!wefti_worker_announce(&worker[1]));
        wefti_worker_return(&worker[1]);
        store_relaxed(&work, 0);
    }
    go_on(&worker[1]);
    mc_assert(load_relaxed(&rt.idle.watcher) == 1 && load_relaxed(&worker[0].claimed));
}
MC_CASE(idle_successor_finds_work, successor_leaves, .arg = 1, .proves = "B37", .bound = 3);
MC_CASE(idle_successor_looks_again, successor_leaves, .arg = 0, .proves = "B37", .bound = 3);

static void wake_1(void *unused) {
    (void)unused;
    wefti_notify_one(&rt, NULL, &worker[1]);
}

/* Another claims, for something else, the sleeper that was to be the next watcher: then it is the other sleeper. */
MC_TEST(idle_successor_is_claimed, .proves = "B37", .bound = 3) {
    start(&searching, 3);
    mc_assert(wefti_worker_announce(&worker[2]) && wefti_idle_keep_watch(&rt.idle, 2));
    mc_assert(wefti_worker_announce(&worker[0]) && wefti_worker_announce(&worker[1]));
    int a = mc_spawn(wake_1, NULL);
    go_to_work(&worker[2]);
    mc_join(a);
    uint32_t watcher = load_relaxed(&rt.idle.watcher);
    mc_assert((watcher == 1 || watcher == 2) && load_relaxed(&worker[watcher - 1].claimed));
}
