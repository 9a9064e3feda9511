/* sim.c - the simulator: one thread, every choice drawn from a seed, virtual time.
 *
 * Ready tasks lie in 64 buckets: a task enters a random bucket at its end, and leaves from the front of a random one that is
 * not empty.  So any order can happen, no memory is needed, and the same seed gives the same order as long as the
 * program asks the same of the runtime.  Every choice is folded into a hash, for comparing runs.
 *
 * Deadlock.  When nothing is ready and somebody waits for ever, all tasks are counted: a waker that is held by nobody
 * we can see may still come from a plain thread; if there is none, nothing can ever run again, and the waiter is told so.
 *
 * Descriptors are real, and so is the world behind them.  While a task waits for one there is no deadlock; what has come is taken first,
 * at no time at all, so that a program that only talks to itself runs alike every time; and when nothing has come, virtual time
 * passes as the real one does, for a deadline must not strike before the world had its chance.  So it does while something goes on outside
 * (wefti_sim_outside): a job that the simulation has given up waiting for (blocking/turn.c).
 */
#include "sched/sched.h"
#include "task/fiber.h"

#include <stdio.h>

#define BUCKETS 64u
#define DUMP_MAX 1000u /* tasks named in a report */
#define POLL_TIME 1000 /* virtual ns that each poll takes */

struct wefti_sim {
    /* The worker's. */
    struct wefti_chain bucket[BUCKETS];
    uint64_t filled; /* bit i: bucket i is not empty */
    uint32_t ready;
    struct wefti_random random;
    _Atomic uint64_t hash;
    _Atomic int64_t clock;
    uint32_t worker_joins; /* joins on the worker itself that wait for ever */
    bool dead;             /* they are to give up */
    int64_t tied; /* of a driven one whose tasks wait for descriptors: the real time when that was last looked at */

    struct wefti_lock lock;
    struct wefti_sim_joiner *joiners;
    _Atomic uint32_t outside; /* wefti_sim_outside */
};

int wefti_sim_init(struct weft_runtime *rt) {
    struct wefti_sim *sim = wefti_alloc(sizeof *sim);
    if (!sim)
        return -ENOMEM;
    wefti_random_init(&sim->random, rt->seed);
    store_relaxed(&sim->hash, UINT64_C(0xcbf29ce484222325)); /* before any other thread */
    rt->sim = sim;
    return 0;
}

void wefti_sim_fini(struct weft_runtime *rt) {
    if (rt->sim)
        wefti_free(rt->sim, sizeof *rt->sim);
    rt->sim = NULL;
}

int64_t wefti_sim_clock(const struct weft_runtime *rt) {
    return load_relaxed(&rt->sim->clock);
} /* one writer, a figure */

uint64_t wefti_sim_hash(const struct weft_runtime *rt) {
    return load_relaxed(&rt->sim->hash);
} /* one writer, a figure */

static void decide(struct wefti_sim *sim, uint64_t what) {
    uint64_t hash = (load_own(&sim->hash) ^ what) * UINT64_C(0x100000001b3);
    store_relaxed(&sim->hash, hash); /* a figure */
}

uint32_t wefti_sim_draw(struct weft_runtime *rt, uint32_t below) {
    uint32_t drawn = wefti_random_below(&rt->sim->random, below);
    decide(rt->sim, UINT64_C(2) << 32 | drawn);
    return drawn;
}

static void put(struct wefti_sim *sim, struct wefti_link *item) {
    uint32_t i = wefti_random_below(&sim->random, BUCKETS);
    decide(sim, i);
    wefti_chain_append(&sim->bucket[i], item);
    sim->filled |= UINT64_C(1) << i;
    sim->ready++;
}

static void submit(struct wefti_worker *w, struct weft_task *task, enum wefti_submit why) {
    (void)why;
    put(w->rt->sim, &task->link);
}

static struct weft_task *next(struct wefti_worker *w) {
    struct wefti_sim *sim = w->rt->sim;
    struct wefti_chain outside = wefti_inject_take(&w->rt->inject, UINT32_MAX, NULL);
    for (struct wefti_link *item; (item = wefti_chain_take(&outside));)
        put(sim, item);
    if (!sim->ready)
        return NULL;
    /* The kth filled bucket, k random. */
    uint32_t k = wefti_random_below(&sim->random, (uint32_t)__builtin_popcountll(sim->filled));
    uint64_t left = sim->filled;
    while (k--)
        left &= left - 1;
    uint32_t i = (uint32_t)__builtin_ctzll(left);
    decide(sim, UINT64_C(1) << 32 | (uint64_t)sim->ready << 8 | i);
    struct wefti_link *item = wefti_chain_take(&sim->bucket[i]);
    if (!sim->bucket[i].count)
        sim->filled &= ~(UINT64_C(1) << i);
    sim->ready--;
    store_relaxed(&sim->clock, load_own(&sim->clock) + POLL_TIME); /* a figure */
    struct weft_task *task = wefti_task_of(item);
    if (w->rt->sim_points && wefti_task_is_fiber(task))
        wefti_fiber_of(task)->look_after = 0; /* every call is a point at which others may run: fiber/slice.c */
    return task;
}

static struct weft_task *steal(struct wefti_worker *w, bool last) {
    (void)w, (void)last;
    return NULL;
}

static bool has_work(struct wefti_worker *w) {
    return w->rt->sim->ready != 0 || wefti_inject_length(&w->rt->inject) != 0;
}

/* -- Deadlock -------------------------------------------------------------------------------------------- */

struct census {
    uint64_t live, can_run, wakers, registered;
};

static void count(struct weft_task *task, void *arg) {
    struct census *census = arg;
    uint64_t word = load_relaxed(&task->word); /* nothing else runs in a simulation */
    census->live++;
    if (wefti_word_life(word) == WEFTI_SCHEDULED)
        census->can_run++;
    /* References beyond the scheduler's, the handle's and ours are wakers that somebody holds. */
    census->wakers += wefti_word_refs(word) - 2 - ((word & WEFTI_JOINABLE) ? 1 : 0);
    if ((word & WEFTI_JOINED) && !(load_relaxed(&task->joiner) & 1))
        census->registered++; /* ... one of which lies in this task's joiner, and is of no use while it waits itself */
    wefti_task_unref(task, 0);
}

/* Under the lock. */
static bool is_deadlock(struct weft_runtime *rt) {
    if (!rt->sim->joiners && !rt->sim->worker_joins)
        return false;
    struct census census = {0, 0, 0, 0};
    wefti_slab_walk(&rt->slab, count, &census);
    return census.live && !census.can_run && census.wakers <= census.registered;
}

/* -- Time and the world ---------------------------------------------------------------------------------- */

static void pass_time(struct wefti_sim *sim, int64_t real, int64_t until) {
    int64_t clock = load_own(&sim->clock);
    if (until > clock && real > 0)
        store_relaxed(&sim->clock, real < until - clock ? clock + real : until); /* a figure */
}

/* As wefti_sim_idle, when a task waits for a descriptor, or for something outside. */
static bool idle_in_world(struct wefti_worker *w, int64_t until) {
    struct wefti_sim *sim = w->rt->sim;
    struct wefti_watch *watch = w->watch;
    int64_t now = wefti_clock();
    if (w->driven) { /* must not sleep here: its caller does */
        if (sim->tied)
            pass_time(sim, now - sim->tied, until);
        sim->tied = now;
        return until <= load_own(&sim->clock);
    }
    if (watch && (watch->count = wefti_poller_wait(&watch->poller, watch->events, 0)))
        return true;
    int64_t limit = wefti_real(w->rt, until);
    wefti_count(&w->counters.parks, 1);
    wefti_worker_doze(w, limit);
    int64_t then = wefti_clock();
    pass_time(sim, then >= limit ? INT64_MAX : then - now, until);
    return true;
}

bool wefti_sim_idle(struct wefti_worker *w, int64_t until) {
    struct weft_runtime *rt = w->rt;
    struct wefti_sim *sim = rt->sim;
    bool outside = load_acquire(&sim->outside); /* pairs with the last to end: it has woken its task */
    if (has_work(w)) /* recheck: that came after the worker's own look */
        return true;
    if (outside || (w->watch && w->watch->waiting))
        return idle_in_world(w, until);
    sim->tied = 0;
    if (until != INT64_MAX) { /* somebody waits for that time, and nothing happens before it */
        if (until > load_own(&sim->clock))
            store_relaxed(&sim->clock, until); /* a figure */
        return true;
    }
    wefti_lock_take(&sim->lock);
    bool deadlock = is_deadlock(rt), found = false;
    if (deadlock && sim->worker_joins) {
        found = sim->dead = true; /* tasks that help while they wait: they are told, and may go on */
    } else if (deadlock) {
        /* A task that has ended has woken its joiner, who is on his way out of the list: no deadlock for him.  The others
         * cannot have ended meanwhile, since only we complete tasks, and who waits for ever does not unregister himself. */
        for (struct wefti_sim_joiner *joiner = sim->joiners; joiner; joiner = joiner->next)
            if (!joiner->dead && (!joiner->task || wefti_word_join_unregister(&joiner->task->word)))
                joiner->dead = found = true;
    }
    wefti_lock_give(&sim->lock);
    if (!found)
        return false;
    static const char text[] = "weft: deadlock: nothing can ever run again; these tasks wait:\n";
    wefti_write(2, text, sizeof text - 1);
    wefti_dump(rt, 2, DUMP_MAX);
    wefti_lock_take(&sim->lock);
    for (struct wefti_sim_joiner *joiner = sim->joiners; joiner; joiner = joiner->next)
        if (joiner->dead)
            wefti_park_wake(joiner->park); /* it leaves the list under the lock: it is there until we let go */
    wefti_lock_give(&sim->lock);
    return sim->dead;
}

void wefti_sim_join_begin(struct weft_runtime *rt, struct wefti_sim_joiner *joiner) {
    wefti_lock_take(&rt->sim->lock);
    joiner->next = rt->sim->joiners;
    rt->sim->joiners = joiner;
    wefti_lock_give(&rt->sim->lock);
    wefti_worker_wake(&rt->worker[0]); /* it may have gone to sleep before anyone was waiting */
}

bool wefti_sim_join_end(struct weft_runtime *rt, struct wefti_sim_joiner *joiner) {
    wefti_lock_take(&rt->sim->lock);
    struct wefti_sim_joiner **at = &rt->sim->joiners;
    while (*at != joiner)
        at = &(*at)->next;
    *at = joiner->next;
    bool dead = joiner->dead;
    wefti_lock_give(&rt->sim->lock);
    return dead;
}

void wefti_sim_outside(struct weft_runtime *rt, int change) {
    if (change > 0)
        add_relaxed(&rt->sim->outside, 1); /* by the worker that looks at it, or for a job that nobody waits for */
    else if (sub_release(&rt->sim->outside, 1) == 1) /* pairs with idle */
        wefti_worker_wake(&rt->worker[0]); /* wake */
}

void wefti_sim_worker_join(struct weft_runtime *rt, int change) { rt->sim->worker_joins += (uint32_t)change; }

bool wefti_sim_is_dead(struct weft_runtime *rt) {
    bool dead = rt->sim->dead;
    rt->sim->dead = false;
    return dead;
}

const struct wefti_sched wefti_sched_sim = {
    .name = "sim",
    .one_thread = true,
    .submit = submit,
    .next = next,
    .steal = steal,
    .has_work = has_work,
};
