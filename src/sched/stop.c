/* stop.c - knowing that nothing is left, and stopping.
 *
 * What.   Every worker counts the tasks it spawned and the tasks it ended, for itself alone; no counter is shared.
 * Claim.  If the sum of ends, read first, equals the sum of spawns, read after, then at some moment in between no task
 *         existed; and while nothing is admitted from outside, none comes back.
 * Why.    Both sums only grow, and ends never exceed spawns.  Let t be a moment between the two readings: ends read
 *         <= ends(t) <= spawns(t) <= spawns read.  If the outer two are equal, so are the inner two.
 * Race.   stopper: S1 phase = closing          worker: E1 count the last end
 *                  S2 fence                            E2 fence (F2 of idle.h)
 *                  S3 nothing left? done               E3 stopping, and nothing left? wake the stopper
 *                  S4 sleep
 *         One fence comes first, so S3 sees E1 or E3 sees S1.
 * Checked by.  test/model/runtime.c (rt_stop_*)
 */
#include "sched/sched.h"

#define DRIVE_POLLS 64u                  /* a driven worker, between two looks at the clock */
#define DUMP_MAX 100u                    /* tasks that a refused stop names */
#define WALK_AGAIN INT64_C(20000000)     /* for tasks that were spawned while we walked */

uint64_t wefti_live(const struct weft_runtime *rt) {
    uint64_t ended = 0, spawned = 0;
    for (uint32_t i = 0; i < rt->workers; i++)
        ended += load_acquire(&rt->worker[i].counters.completed); /* pairs with finish: the spawns before */
    for (uint32_t i = 0; i < rt->workers; i++)
        spawned += load_relaxed(&rt->worker[i].counters.spawned); /* ordered by the loads above */
    spawned += load_relaxed(&rt->inject.admitted);
    return spawned - ended;
}

/* It sleeps as itself, or as the driven worker that it drives. */
static void wake_stopper(struct weft_runtime *rt) {
    wefti_park_wake(&rt->stopper);
    if (rt->driven)
        wefti_park_wake(&rt->worker[0].park);
}

void wefti_stop_check(struct weft_runtime *rt) {
    /* E3; relaxed: the fence of announce came before. */
    if (load_relaxed(&rt->phase) != WEFTI_OPEN && load_relaxed(&rt->stopping) && wefti_live(rt) == 0)
        wake_stopper(rt); /* E3: wake */
}

/* S4.  Of a driven runtime the stopper is the driver, unless another thread is: then it looks now and then whether that one
 * still drives. */
static void sleep_or_drive(struct weft_runtime *rt, int64_t until) {
    if (!rt->driven) {
        wefti_park_sleep(&rt->stopper, until);
    } else if (wefti_drive_begin(rt) == 0) {
        if (wefti_drive_inside(rt, DRIVE_POLLS) == 0) {
            int64_t next = wefti_real(rt, wefti_timers_next(&rt->worker[0]));
            wefti_worker_doze(&rt->worker[0], next < until ? next : until); /* drive_inside dispatches */
        }
        wefti_drive_end(rt);
    } else {
        int64_t soon = wefti_clock() + WEFTI_WATCH_TIMEOUT;
        wefti_park_sleep(&rt->stopper, soon < until ? soon : until);
    }
}

/* Nothing left?  Waits until `until`; false if something still is. */
static bool wait_quiet(struct weft_runtime *rt, int64_t until) {
    bool watched = rt->sim && until == INT64_MAX;
    for (;;) {
        fence_seq_cst(); /* S2 */
        if (wefti_live(rt) == 0) /* S3 */
            return true;
        if (until != INT64_MAX && wefti_clock() >= until)
            return false;
        struct wefti_sim_joiner joiner = {NULL, NULL, rt->driven ? &rt->worker[0].park : &rt->stopper, false};
        if (watched)
            wefti_sim_join_begin(rt, &joiner);
        sleep_or_drive(rt, until);
        if (watched && wefti_sim_join_end(rt, &joiner))
            return false;
    }
}

/* A task that is cancelled already is left alone: it may be shielded, and each further cancel would wake it for nothing. */
static void cancel_one(struct weft_task *task, void *arg) {
    (void)arg;
    if (!(load_relaxed(&task->word) & WEFTI_CANCELLED)) /* a hint: twice is harmless */
        wefti_cancel(task, WEFT_REASON_SHUTDOWN);
    wefti_task_unref(task, 0);
}

/* Workers leave their loops; all threads are joined. */
static void join_workers(struct weft_runtime *rt) {
    store_relaxed(&rt->phase, WEFTI_STOPPED); /* the tokens order it: no worker sleeps past one */
    for (uint32_t i = 0; i < rt->workers; i++)
        wefti_park_wake(&rt->worker[i].park);
    for (uint32_t i = rt->driven ? 1 : 0; i < rt->workers; i++)
        wefti_thread_join(&rt->worker[i].thread);
    if (rt->driven) {
        while (wefti_drive_begin(rt)) /* whoever drives it has been woken, and is on his way out */
            wefti_thread_yield();
        wefti_drive_end(rt);
    }
    if (rt->control) { /* last: a driver may be waiting for its answer */
        rt->sched->stop(rt);
        wefti_thread_join(&rt->control->thread);
    }
}

struct wefti_annex *wefti_annex_hang(struct weft_runtime *rt, int number, struct wefti_annex *made) {
    struct wefti_annex *found = NULL;
    /* Release: the annex; acquire: another's, if it was quicker. */
    return cas_acq_rel(&rt->annex[number], &found, made) ? made : found;
}

int wefti_annexes_stop(struct weft_runtime *rt, int64_t until) {
    int worst = 0;
    for (int i = 0; i < WEFTI_ANNEXES; i++) {
        struct wefti_annex *annex = wefti_annex(rt, i);
        int error = annex && annex->stop ? annex->stop(annex, until) : 0;
        if (error == -EBUSY)
            return error;
        worst = error ? error : worst;
    }
    return worst;
}

static int stop(struct weft_runtime *rt, int64_t until) {
    if (load_relaxed(&rt->phase) == WEFTI_STOPPED) /* `stopping` orders it */
        return 0;
    wefti_inject_close(&rt->inject);
    if (load_relaxed(&rt->phase) == WEFTI_OPEN)
        store_relaxed(&rt->phase, WEFTI_CLOSING); /* S1; wait_quiet's fence orders it */
    for (int i = 0; i < WEFTI_ANNEXES; i++) {
        struct wefti_annex *annex = wefti_annex(rt, i);
        if (annex && annex->closing)
            annex->closing(annex);
    }
    int result = 0;
    if (!wait_quiet(rt, until)) {
        result = -ECANCELED;
        store_relaxed(&rt->phase, WEFTI_CANCELLING); /* who misses it is found by the next walk */
        uint64_t left = UINT64_MAX;
        int64_t progress = 0, now;
        do {
            uint64_t live = wefti_live(rt);
            now = wefti_clock();
            if (live < left) { /* they are ending: as long as it takes */
                left = live;
                progress = now;
            } else if (now - progress >= wefti_grace(rt->grace)) {
                static const char text[] = "weft: stop: these tasks do not end:\n";
                wefti_write(2, text, sizeof text - 1);
                wefti_dump(rt, 2, DUMP_MAX);
                for (int i = 0; i < WEFTI_ANNEXES; i++) {
                    struct wefti_annex *annex = wefti_annex(rt, i);
                    if (annex && annex->report)
                        annex->report(annex);
                }
                return -EBUSY;
            }
            wefti_slab_walk(&rt->slab, cancel_one, NULL);
        } while (!wait_quiet(rt, now + WALK_AGAIN));
    }
    int error = wefti_annexes_stop(rt, result ? 0 : until);
    if (error == -EBUSY)
        return error;
    join_workers(rt);
    return error ? error : result;
}

__thread struct weft_runtime *wefti_thread_serves __attribute__((tls_model("initial-exec")));

int weft_runtime_stop(weft_runtime *rt, weft_deadline until) {
    struct wefti_worker *self = wefti_worker_self();
    if (!rt)
        return -EINVAL;
    if ((self && self->rt == rt) || wefti_thread_serves == rt) /* what it would wait for waits for the caller */
        return -EDEADLK;
    if (wefti_is_forked()) /* the workers are our parent's */
        return -ENOTRECOVERABLE;
    uint32_t nobody = 0;
    if (!cas_acquire(&rt->stopping, &nobody, 1)) /* pairs with the release below */
        return -EBUSY;
    int result = stop(rt, until);
    store_release(&rt->stopping, 0);
    return result;
}
