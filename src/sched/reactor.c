/* reactor.c - the scheduler `reactor`: the control thread's nine steps, and the workers' side (reactor.h has the design). */
#include "sched/reactor.h"

#include <stdio.h>
#include <string.h>

#include "sched/jobs.h"

static void count(_Atomic uint64_t *figure, uint64_t more) { wefti_count(figure, more); }

/* -- What the reactor knows --------------------------------------------------------------------------------- */

static uint64_t *free_word(struct wefti_reactor *r, uint32_t worker) { return &r->free[worker / 64]; }

/* R25: `active` is the number of seats that are not open, as far as is known. */
static void set_busy(struct wefti_reactor *r, uint32_t worker, bool busy) {
    struct wefti_desk *desk = &r->desk[worker];
    if (desk->busy == busy)
        return;
    uint64_t active = load_own(&r->now_is.active) + (busy ? 1u : UINT64_MAX);
    wefti_assert(active <= r->rt->workers, active); /* R11 */
    desk->busy = busy;
    desk->lent = 0;
    desk->polls = UINT64_MAX; /* whatever it runs next has not been seen */
    *free_word(r, worker) ^= UINT64_C(1) << worker % 64;
    store_relaxed(&r->now_is.active, active); /* figures */
    if (active > load_own(&r->now_is.active_max))
        store_relaxed(&r->now_is.active_max, active);
}

static struct wefti_chain *queue_of(struct wefti_reactor *r, struct weft_task *task, uint32_t *home) {
    if (!wefti_task_is_pinned(task))
        return &r->ready;
    *home = task->home - 1u;
    return &r->desk[*home].pinned;
}

static void count_ready(struct wefti_reactor *r) {
    uint32_t ready = r->ready.count + r->own_ready;
    store_relaxed(&r->now_is.ready, ready); /* a figure */
    wefti_inject_held(&r->rt->inject, ready); /* B57: they still wait to be taken in */
}

/* Ready, behind all others.  Its place in that order is a number, kept where its result will be. */
static void append(struct wefti_reactor *r, struct weft_task *task) {
    uint32_t home = UINT32_MAX;
    store_relaxed(&task->status, (int)r->order++); /* the control thread's while it is queued */
    wefti_chain_append(queue_of(r, task, &home), &task->link);
    r->own_ready += home != UINT32_MAX;
}

/* Ready, and it was the oldest. */
static void prepend(struct wefti_reactor *r, struct weft_task *task) {
    uint32_t home = UINT32_MAX;
    struct wefti_chain *chain = queue_of(r, task, &home);
    task->link.next = chain->first;
    if (!chain->count++)
        chain->last = &task->link;
    chain->first = &task->link;
    r->own_ready += home != UINT32_MAX;
}

static void append_all(struct wefti_reactor *r, struct wefti_chain chain) {
    for (struct wefti_link *link; (link = wefti_chain_take(&chain));)
        append(r, wefti_task_of(link));
}

/* -- The steps ---------------------------------------------------------------------------------------------- */

/* How long does a task take on this worker, with what it costs to hand it over?  Long, until that is known.  A thread that the system did not
 * run for a while has not been slow: one sample does not count for much more than those before. */
static void measure(struct wefti_desk *desk, int64_t now) {
    if (!desk->given)
        return;
    double sample = (double)(now - desk->given_at) / desk->given, most = 2 * desk->average;
    desk->average +=
        sample < desk->average ? (sample - desk->average) / 2 : ((sample < most ? sample : most) - desk->average) / 4;
    desk->given = 0;
}

/* 1.  R4: all that is there. */
static uint64_t drain_results(struct wefti_reactor *r) {
    if (load_acquire(&r->asked)) { /* pairs with ask: what came before it is seen in this turn */
        store_relaxed(&r->asked, 0); /* it waits for the answer */
        r->owes_answer = true;
    }
    struct wefti_chain news = wefti_mpsc_take(&r->news); /* N1 */
    uint64_t items = news.count;
    for (struct wefti_link *link; (link = wefti_chain_take(&news));) {
        struct wefti_seat *seat = (struct wefti_seat *)(void *)link; /* link is its first field */
        bool open = wefti_seat_hear(seat); /* N2, N3 */
        count(&r->now_is.results, open);
        if (open)
            measure(&r->desk[seat - r->seat], wefti_clock());
        set_busy(r, (uint32_t)(seat - r->seat), !open); /* A1 */
    }
    if (items)
        fence_seq_cst(); /* A2, F2 */
    struct wefti_chain ended = wefti_mpsc_take(&r->ended);
    items += ended.count;
    for (struct wefti_link *link; (link = wefti_chain_take(&ended));) { /* R13, R14 */
        struct weft_task *task = wefti_task_of(link);
        wefti_wake(load_relaxed(&task->joiner)); /* ordered by the queue */
        wefti_task_unref(task, 0);
    }
    struct wefti_chain again = wefti_mpsc_take(&r->again), returned = wefti_mpsc_take(&r->returned);
    items += again.count + returned.count;
    append_all(r, again); /* R32: to the back */
    for (struct wefti_link *link; (link = wefti_chain_take(&returned));)
        prepend(r, wefti_task_of(link));
    return items;
}

/* 2.  R5. */
static uint64_t drain_submissions(struct wefti_reactor *r) {
    struct wefti_chain chain = wefti_mpsc_take(&r->submitted);
    uint64_t items = 0;
    for (struct wefti_link *link; (link = wefti_chain_take(&chain));) {
        struct wefti_io *io = (struct wefti_io *)(void *)link; /* link is its first field */
        items += io->route(io);
    }
    return items;
}

/* 3.  R6, R18, R24. */
static uint64_t drain_completions(struct wefti_reactor *r) {
    struct wefti_chain chain = wefti_mpsc_take(&r->completed);
    uint64_t items = chain.count;
    for (struct wefti_link *link; (link = wefti_chain_take(&chain));) {
        struct wefti_io *io = (struct wefti_io *)(void *)link;
        io->complete(io);
    }
    return items;
}

/* 4.  R7.  A worker that sets the first timer of all wakes the control thread with its result. */
static uint64_t check_timers(struct wefti_reactor *r) {
    r->now = wefti_clock();
    return wefti_timers_any(r->rt->control) ? wefti_timers_run(r->rt->control, r->now) : 0;
}

/* 5.  R8, R17.  Only channels that have changed are looked at: a thousand idle receivers cost nothing. */
static uint64_t resolve_waiters(struct wefti_reactor *r) {
    struct wefti_chain chain = wefti_mpsc_take(&r->changed);
    wefti_resolve *resolve = load_relaxed(&r->resolve); /* ordered by the queue */
    uint64_t items = 0;
    for (struct wefti_link *link; (link = wefti_chain_take(&chain));)
        items += resolve(link); /* then the channel may be gone */
    return items;
}

/* 6. */
static uint64_t drain_injector(struct wefti_reactor *r) {
    struct wefti_chain chain = wefti_inject_hold(&r->rt->inject);
    uint64_t items = chain.count;
    append_all(r, chain);
    count_ready(r);
    return items;
}

/* 7.  A run is known by its number: a request is for that run and no other, so that one which begins meanwhile is not asked
 * (R10: never a short one). */
static uint64_t check_preemption(struct wefti_reactor *r) {
    uint64_t before = load_own(&r->now_is.preempts);
    if (load_own(&r->now_is.active) == 0 || r->now - r->looked < WEFTI_REACTOR_LOOK)
        return 0;
    r->looked = r->now;
    for (uint32_t i = 0; i < r->rt->workers; i++) {
        struct wefti_desk *desk = &r->desk[i];
        struct wefti_worker *w = &r->rt->worker[i];
        if (!desk->busy)
            continue;
        uint64_t polls = load_relaxed(&w->counters.polls); /* a figure */
        if (polls != desk->polls) {
            desk->polls = polls;
            desk->since = r->now;
        } else if (r->now - desk->since >= WEFTI_PREEMPT_AFTER && load_own(&w->preempt) != polls) {
            store_relaxed(&w->preempt, polls); /* a request */
            count(&r->now_is.preempts, 1);
        }
    }
    return load_own(&r->now_is.preempts) - before;
}

/* The lowest worker whose seat is open, not below `from`; the driven one is not looked for.  -1: none. */
static int next_free(struct wefti_reactor *r, uint32_t from) {
    if (r->rt->driven && from == 0)
        from = 1;
    for (uint32_t i = from / 64; i < (r->rt->workers + 63) / 64; i++) {
        uint64_t word = r->free[i] & (i == from / 64 ? UINT64_MAX << from % 64 : UINT64_MAX);
        if (word)
            return (int)(i * 64 + (uint32_t)__builtin_ctzll(word));
    }
    return -1;
}

/* H2, after H1. */
static void handed(struct wefti_reactor *r, uint32_t worker, uint32_t tasks) {
    count(&r->now_is.dispatched, tasks);
    wefti_notify_one(r->rt, NULL, &r->rt->worker[worker]); /* H2: wake */
}

/* Which of two has been ready for longer? */
static bool is_older(const struct wefti_link *a, const struct wefti_link *b) {
    uint32_t ahead = (uint32_t)load_relaxed(&((const struct weft_task *)(const void *)a)->status) -
                     (uint32_t)load_relaxed(&((const struct weft_task *)(const void *)b)->status); /* as there */
    return (int32_t)ahead < 0;
}

/* How many tasks are handed to this worker together?  One, or while they are short, as many as take WEFTI_BATCH_TIME, but not more than its
 * share of all that are ready.  Nobody knows when a driven worker will be driven. */
static uint32_t batch_of(const struct wefti_reactor *r, uint32_t worker) {
    double most = r->rt->worker[worker].driven ? 1 : WEFTI_BATCH_TIME / r->desk[worker].average;
    uint32_t share = (r->ready.count + r->rt->workers - 1) / r->rt->workers;
    share = share <= WEFTI_SEAT_ITEMS ? share : WEFTI_SEAT_ITEMS;
    return most < share ? (uint32_t)most : share;
}

/* Choose one more task for this worker: the oldest that it may have.  A fiber that has begun comes alone, since it could not be taken back for
 * another worker.  False: there is none, or it has enough. */
static bool stage(struct wefti_reactor *r, uint32_t worker) {
    struct wefti_desk *desk = &r->desk[worker];
    bool own = desk->pinned.count && (!r->ready.count || is_older(desk->pinned.first, r->ready.first));
    if (desk->staged && (own || desk->staged >= desk->batch || wefti_task_is_pinned(desk->first)))
        return false;
    struct wefti_link *link = wefti_chain_take(own ? &desk->pinned : &r->ready);
    if (!link)
        return false;
    r->own_ready -= own;
    if (desk->staged)
        wefti_seat_stage(&r->seat[worker], desk->staged - 1, wefti_task_of(link)); /* B1 */
    else
        desk->first = wefti_task_of(link);
    desk->staged++;
    return true;
}

/* H1, B2.  If the seat has been closed meanwhile, the tasks go back. */
static void hand(struct wefti_reactor *r, uint32_t worker) {
    struct wefti_desk *desk = &r->desk[worker];
    struct wefti_seat *seat = &r->seat[worker];
    uint32_t tasks = desk->staged;
    bool lend = r->rt->worker[worker].driven && !wefti_task_is_pinned(desk->first);
    if (!tasks)
        return;
    desk->staged = 0;
    set_busy(r, worker, true);
    if (wefti_seat_hand_batch(seat, desk->first, tasks - 1)) {
        desk->given = tasks;
        desk->given_at = r->now;
        desk->reclaimed = false;
        if (lend)
            desk->lent = wefti_seat_of_task(desk->first);
        handed(r, worker, tasks);
        return;
    }
    for (uint32_t i = tasks - 1; i-- > 0;)
        prepend(r, wefti_seat_staged(seat, i));
    prepend(r, desk->first);
}

/* Who knows when a driven worker will be driven?  What it has not begun goes to another as soon as one is free. */
static void take_back(struct wefti_reactor *r) {
    struct wefti_desk *desk = &r->desk[0];
    uintptr_t lent = desk->lent;
    if (!lent || next_free(r, 1) < 0)
        return;
    desk->lent = 0;
    if (!wefti_seat_take_back(&r->seat[0], lent))
        return;
    set_busy(r, 0, false);
    count(&r->now_is.taken_back, 1);
    prepend(r, (struct weft_task *)lent);
}

/* When a batch has taken longer than it should: then its tasks are for other workers. */
static int64_t batch_end(const struct wefti_desk *desk) {
    return desk->given > 1 && !desk->reclaimed ? desk->given_at + (int64_t)WEFTI_BATCH_TIME : INT64_MAX;
}

/* A seat is open.  No task waits for another of its batch that is long, or whose thread the system does not run. */
static void reclaim(struct wefti_reactor *r) {
    for (uint32_t i = 0; i < r->rt->workers; i++) {
        struct weft_task *last_first[WEFTI_SEAT_ITEMS];
        if (r->now < batch_end(&r->desk[i]))
            continue;
        uint32_t taken = wefti_seat_reclaim(&r->seat[i], last_first); /* B5 */
        for (uint32_t k = 0; k < taken; k++)
            prepend(r, last_first[k]);
        r->desk[i].given -= taken;
        r->desk[i].reclaimed = true; /* else its end stays in the past, and we would not sleep */
        count(&r->now_is.taken_back, taken);
    }
}

/* Forked jobs are pieces of a task that runs: a worker that has nothing else is told to take some. */
static void dispatch_jobs(struct wefti_reactor *r) {
    int next = next_free(r, 0);
    for (uint32_t i = 0; next >= 0 && i < r->rt->workers; i++) {
        if (!r->desk[i].busy || !wefti_deque_has_public(&r->rt->worker[i].jobs))
            continue;
        if (wefti_seat_hand(&r->seat[next], WEFTI_SEAT_JOBS)) /* H1 */
            handed(r, (uint32_t)next, 1);
        set_busy(r, (uint32_t)next, true);
        next = next_free(r, (uint32_t)next + 1);
    }
}

/* 8.  The open seats get tasks in turn, the oldest first. */
static uint64_t dispatch(struct wefti_reactor *r) {
    uint64_t before = load_own(&r->now_is.dispatched);
    if (r->rt->driven)
        take_back(r);
    int first = next_free(r, 0);
    if (first >= 0 && load_own(&r->now_is.active))
        reclaim(r);
    if (first >= 0 && r->ready.count + r->own_ready) {
        for (int i = first; i >= 0; i = next_free(r, (uint32_t)i + 1))
            r->desk[i].batch = batch_of(r, (uint32_t)i);
        for (bool any = true; any;) {
            any = false;
            for (int i = first; i >= 0; i = next_free(r, (uint32_t)i + 1))
                any = stage(r, (uint32_t)i) || any;
        }
    }
    bool driven = r->rt->driven && !r->desk[0].busy && stage(r, 0);
    count_ready(r); /* before they can run */
    for (int i = first; i >= 0; i = next_free(r, (uint32_t)i + 1))
        hand(r, (uint32_t)i);
    if (driven)
        hand(r, 0);
    if (load_own(&r->now_is.active) && !r->ready.count && r->rt->worker[0].shared)
        dispatch_jobs(r);
    count_ready(r);
    if (r->owes_answer) {
        r->owes_answer = false;
        wefti_park_wake(&r->answer); /* wake */
    }
    return load_own(&r->now_is.dispatched) - before;
}

/* 9.  R12.  Every event comes with a wake: the limits are for preemption, and for the watch.  1: an event ended the wait. */
static uint64_t wait(struct wefti_reactor *r) {
    bool active = load_own(&r->now_is.active) && (r->idle_look != INT64_MAX || load_relaxed(&r->rt->has_fibers));
    int64_t limit = active ? WEFTI_REACTOR_LOOK : r->idle_look;
    int64_t until = limit < INT64_MAX - r->now ? r->now + limit : INT64_MAX;
    int64_t next = wefti_timers_next(r->rt->control); /* as in step 4 */
    until = next < until ? next : until;
    for (uint32_t i = 0; load_own(&r->now_is.active) && next_free(r, 0) >= 0 && i < r->rt->workers; i++) {
        int64_t end = batch_end(&r->desk[i]); /* step 8 is to look at it again */
        until = end < until ? end : until;
    }
    for (uint32_t i = 0; active && i < r->spin && !wefti_park_has_token(&r->rt->control->park); i++)
        wefti_relax();
    if (!wefti_park_has_token(&r->rt->control->park)) /* the watch */
        wefti_stack_pool_trim(&r->rt->stacks, r->now);
    return wefti_park_sleep(&r->rt->control->park, until); /* W2 */
}

void wefti_reactor_step(struct wefti_reactor *r, int step) {
    static uint64_t (*const steps[])(struct wefti_reactor *r) = {
        drain_results,  drain_submissions, drain_completions, check_timers, resolve_waiters,
        drain_injector, check_preemption,  dispatch,          wait,
    };
    count(&r->now_is.steps[step - 1], 1);
    count(&r->now_is.items[step - 1], steps[step - 1](r));
}

static void free_all(struct wefti_reactor *r) {
    memset(r->free, 0, sizeof r->free);
    for (uint32_t i = 0; i < r->rt->workers; i++)
        *free_word(r, i) |= UINT64_C(1) << i % 64;
}

static void control(struct weft_runtime *rt) {
    struct wefti_reactor *r = rt->reactor;
    free_all(r); /* there may be fewer than there were to be */
    store_relaxed(&r->thread, wefti_thread_id()); /* only we find ourselves there */
    while (!load_relaxed(&r->stop)) /* the token orders it */
        for (int step = 1; step <= 9; step++)
            wefti_reactor_step(r, step);
    drain_results(r); /* reactor.h, End */
    drain_submissions(r);
    drain_completions(r);
    resolve_waiters(r);
}

static void stop(struct weft_runtime *rt) {
    store_relaxed(&rt->reactor->stop, 1); /* the token orders it */
    wefti_park_wake(&rt->control->park);
}

/* -- A worker's side ---------------------------------------------------------------------------------------- */

static struct wefti_seat *seat_of(const struct wefti_worker *w) { return &w->rt->reactor->seat[w->index]; }

static void open_seat(struct wefti_worker *w) {
    seat_of(w)->in_batch = false; /* B4 */
    wefti_seat_open(seat_of(w), &w->rt->reactor->news); /* T2, T3 */
    wefti_park_wake(&w->rt->control->park); /* T4: wake */
}

/* E3, E4, after E1: a task is ready. */
static void tell_if_open(struct wefti_worker *w) {
    fence_seq_cst(); /* E3, F1 */
    if (load_relaxed(&w->rt->reactor->now_is.active) < w->rt->workers) /* E4; F1 orders it */
        wefti_park_wake(&w->rt->control->park); /* E2: wake */
}

static void submit(struct wefti_worker *w, struct weft_task *task, enum wefti_submit why) {
    if (why == WEFTI_SUBMIT_AGAIN) { /* with the result, which follows */
        wefti_mpsc_push(&w->rt->reactor->again, &task->link);
        return;
    }
    wefti_inject_push_one(&w->rt->inject, &task->link); /* E1 */
    tell_if_open(w);
}

/* A driven worker is gone when it finds nothing: it waits until the reactor has looked at everything once. */
static void ask(struct wefti_worker *w) {
    struct wefti_reactor *r = w->rt->reactor;
    if (load_relaxed(&w->rt->phase) == WEFTI_STOPPED) /* nobody is there to answer; `driver` orders it */
        return;
    store_release(&r->asked, 1); /* pairs with step 1 */
    wefti_park_wake(&w->rt->control->park);
    wefti_park_sleep(&r->answer, INT64_MAX);
}

static struct weft_task *next(struct wefti_worker *w) {
    struct wefti_seat *seat = seat_of(w);
    struct weft_task *item = seat->in_batch ? wefti_seat_pop(seat) : NULL; /* B3, B4 */
    if (item)
        return item;
    if (load_own(&seat->slot) == WEFTI_SEAT_CLOSED)
        open_seat(w); /* the task that we run waits, and helps; or the rest of the batch was taken back */
    uintptr_t found = wefti_seat_take(seat); /* T1 */
    if (found == WEFTI_SEAT_OPEN && w->driven) {
        ask(w);
        found = wefti_seat_take(seat);
    }
    if (found == WEFTI_SEAT_JOBS) {
        while (wefti_jobs_run_stolen(w))
            ;
        open_seat(w);
        found = WEFTI_SEAT_OPEN;
    }
    return found == WEFTI_SEAT_OPEN ? NULL : (struct weft_task *)found;
}

static bool has_work(struct wefti_worker *w) { return load_relaxed(&seat_of(w)->slot) > WEFTI_SEAT_CLOSED; } /* F2 */

bool wefti_control_has_more(struct wefti_worker *w) {
    struct wefti_seat *seat = seat_of(w);
    return seat->in_batch && wefti_seat_length(seat);
}

/* Within a batch the reactor is not told of results.  While a seat is open it looks by itself when the batch should have ended (step 9); while
 * none is, nothing that it hears of could run.  After a batch, the next task is likely to come at once. */
static void done(struct wefti_worker *w) {
    if (wefti_control_has_more(w))
        return;
    open_seat(w);
    for (uint32_t i = 0; i < w->rt->reactor->spin && !w->driven && !has_work(w); i++)
        wefti_relax();
}

/* The task that we run has waited, and goes on. */
static void resume(struct wefti_worker *w) {
    struct wefti_seat *seat = seat_of(w);
    if (load_own(&seat->slot) == WEFTI_SEAT_CLOSED) /* it has not */
        return;
    uintptr_t found = wefti_seat_close(seat); /* C1 */
    if (found > WEFTI_SEAT_JOBS) { /* the last first: each is put before those that came before it */
        struct weft_task *last_first[WEFTI_SEAT_ITEMS];
        uint32_t count = seat->in_batch ? wefti_seat_reclaim(seat, last_first) : 0;
        for (uint32_t i = 0; i < count; i++)
            wefti_mpsc_push(&w->rt->reactor->returned, &last_first[i]->link);
        wefti_mpsc_push(&w->rt->reactor->returned, &((struct weft_task *)found)->link);
        seat->in_batch = false;
    }
    wefti_seat_tell(seat, &w->rt->reactor->news); /* T3 */
    wefti_park_wake(&w->rt->control->park); /* T4: wake */
}

static void ended(struct wefti_worker *w, struct weft_task *task) {
    wefti_mpsc_push(&w->rt->reactor->ended, &task->link); /* with the result, which follows */
}

static struct weft_task *steal(struct wefti_worker *w, bool last) {
    (void)w, (void)last;
    return NULL; /* nobody owns anything */
}

/* -- Other threads ------------------------------------------------------------------------------------------ */

void wefti_io_submit(struct weft_runtime *rt, struct wefti_io *io) {
    wefti_mpsc_push(&rt->reactor->submitted, &io->link); /* E1 */
}

void wefti_io_complete(struct weft_runtime *rt, struct wefti_io *io) {
    wefti_mpsc_push(&rt->reactor->completed, &io->link); /* E1 */
    wefti_park_wake(&rt->control->park); /* E2: wake */
}

void wefti_control_resolve(struct weft_runtime *rt, struct wefti_link *link, wefti_resolve *resolve) {
    store_relaxed(&rt->reactor->resolve, resolve); /* always the same; the push releases it */
    wefti_mpsc_push(&rt->reactor->changed, link); /* E1 */
}

bool wefti_control_resume(struct weft_runtime *rt, struct weft_task *task) {
    if (load_relaxed(&rt->reactor->thread) != wefti_thread_id()) /* written by that thread */
        return false;
    append(rt->reactor, task);
    return true;
}

/* -- Beginning and end -------------------------------------------------------------------------------------- */

static void fini(struct weft_runtime *rt) {
    struct wefti_reactor *r = rt->reactor;
    if (!r)
        return;
    size_t workers = (size_t)(rt->control - rt->worker);
    if (r->seat)
        wefti_free(r->seat, workers * sizeof *r->seat);
    if (r->desk)
        wefti_free(r->desk, workers * sizeof *r->desk);
    wefti_free(r, sizeof *r);
    rt->reactor = NULL;
}

static int init(struct weft_runtime *rt) {
    struct wefti_reactor *r = rt->reactor = wefti_alloc(sizeof *r);
    if (!r)
        return -ENOMEM;
    r->rt = rt;
    r->seat = wefti_alloc(rt->workers * sizeof *r->seat);
    r->desk = wefti_alloc(rt->workers * sizeof *r->desk);
    if (!r->seat || !r->desk) {
        fini(rt);
        return -ENOMEM;
    }
    r->spin = wefti_cpu_count() > 1 ? WEFTI_SEAT_SPIN : 0;
    r->idle_look = rt->park_timeout;
    rt->control->timers.sorted = true; /* R7 */
    rt->park_timeout = INT64_MAX; /* workers sleep without limit: the reactor keeps the watch */
    for (uint32_t i = 0; i < rt->workers; i++)
        r->desk[i].average = 8 * WEFTI_AVERAGE_START;
    free_all(r);
    return 0;
}

/* -- Looking ------------------------------------------------------------------------------------------------ */

int weft_reactor_stats_read(const weft_runtime *rt, weft_reactor_stats *out) {
    if (!rt || !rt->reactor)
        return -EINVAL;
    if (!out || out->size < offsetof(weft_reactor_stats, active))
        return -EINVAL;
    struct weft_reactor_stats_now *now = &rt->reactor->now_is;
    weft_reactor_stats stats;
    memset(&stats, 0, sizeof stats);
#define READ(field) stats.field = load_relaxed(&now->field) /* figures; nothing hangs on them */
    for (int i = 0; i < 9; i++)
        READ(steps[i]);
    READ(active);
    READ(active_max);
    READ(ready);
    READ(dispatched);
    READ(results);
    READ(preempts);
    READ(taken_back);
    for (int i = 0; i < 9; i++)
        READ(items[i]);
#undef READ
    stats.size = out->size < sizeof stats ? out->size : sizeof stats; /* what is filled */
    memcpy(out, &stats, stats.size);
    return 0;
}

static int describe(struct weft_runtime *rt, char *text, size_t room) {
    struct weft_reactor_stats_now *now = &rt->reactor->now_is;
#define READ(field) (unsigned long long)load_relaxed(&now->field) /* figures */
    return snprintf(text, room,
                    "  reactor: %llu rounds, %llu tasks on workers, %llu ready, %llu dispatched, %llu preempted, "
                    "%llu jobs routed, %llu jobs completed, %llu channel waiters resolved\n",
                    READ(steps[0]), READ(active), READ(ready), READ(dispatched), READ(preempts), READ(items[1]),
                    READ(items[2]), READ(items[4]));
#undef READ
}

const struct wefti_sched wefti_sched_reactor = {
    .name = "reactor",
    .central = true,
    .submit = submit,
    .next = next,
    .steal = steal,
    .has_work = has_work,
    .init = init,
    .fini = fini,
    .control = control,
    .stop = stop,
    .done = done,
    .resume = resume,
    .ended = ended,
    .describe = describe,
};
