/* worker.c - a worker's loop: find a task, run it, keep time, sleep.
 *
 * Order of looking: the scheduler's own `next`, then, as a searcher, other workers' queues and jobs, then sleep.  The
 * protocol that makes sleeping safe is in idle.h; step labels here are its.
 */
#include "sched/label.h"
#include "sched/sched.h"
#include "task/fiber.h"

/* -- Running one task ------------------------------------------------------------------------------------ */

/* The rest of finish, for a task that is joined.  A control thread resumes a task that joins; a thread is woken directly. */
static __attribute__((noinline)) void tell_joiner(struct wefti_worker *w, struct weft_task *task) {
    wefti_waker joiner = load_relaxed(&task->joiner); /* ordered by to_complete */
    if (w->central && !(joiner & 1)) {
        w->sched->ended(w, task);
        return;
    }
    wefti_wake(joiner);
    wefti_task_unref(task, 0);
}

/* labelled: it may have a label, which only a task with a drop function has. */
static inline __attribute__((always_inline)) void complete(struct wefti_worker *w, struct weft_task *task, void *value,
                                                           struct wefti_owner *owner, bool labelled) {
    task->value = value;
    wefti_set_current(w, NULL); /* it may be gone soon */
    uint64_t word = wefti_word_to_complete(&task->word);
    /* Release: who sees this end also sees the spawns before it (wefti_live). */
    store_release(&w->counters.completed, load_own(&w->counters.completed) + 1);
    if (owner)
        owner->kind->left(owner); /* only now: who awaits all children finds each of them COMPLETE */
    if (word & WEFTI_JOINED) {
        tell_joiner(w, task);
    } else if (wefti_word_refs(word) == 0) {
        if (labelled && (task->owns & WEFTI_LABELLED))
            wefti_label_take(w->rt, task);
        wefti_slab_give_here(&w->rt->slab, &w->cache, task);
    }
}

static __attribute__((noinline)) void drop_and_complete(struct wefti_worker *w, struct weft_task *task, void *value) {
    struct wefti_owner *owner = NULL; /* who is told when it is COMPLETE */
    bool fiber = wefti_task_is_fiber(task);
    if (fiber && wefti_fiber_of(task)->owner && wefti_fiber_of(task)->owner->kind->left)
        owner = wefti_fiber_of(task)->owner;
    /* It runs as its task, and unlocks what that has locked.  A fiber's is our own, and has no stack that could wait. */
    wefti_set_current(w, fiber ? NULL : task);
    if (WEFTI_UNLIKELY(w->rt->sim && fiber) && wefti_word_life(load_relaxed(&task->word)) == WEFTI_SCHEDULED)
        wefti_word_to_running(
            &task->word); /* ours: what is called may wait here, and it cannot run meanwhile (sim.c) */
    task->drop(wefti_task_state(task));
    wefti_set_current(w, NULL);
    complete(w, task, value, owner, true);
}

void wefti_worker_finish(struct wefti_worker *w, struct weft_task *task, weft_result result) {
    store_relaxed(&task->status, result.status); /* published by to_complete */
    if (task->drop)
        drop_and_complete(w, task, result.value);
    else
        complete(w, task, result.value, NULL, false);
}

void wefti_worker_skip(struct wefti_worker *w, struct weft_task *task) {
    wefti_count(&w->counters.cancelled, 1);
    wefti_set_current(w, NULL); /* its drop function is nobody's code: not that of a fiber that we are about to leave */
    wefti_worker_finish(w, task, (weft_result){-ECANCELED, NULL});
}

static inline __attribute__((always_inline)) void run(struct wefti_worker *w, struct weft_task *task) {
    if (!wefti_worker_begin(w, task))
        return;
    w->done = (weft_result){0, NULL}; /* a join that helps restores these and w->current for the task below */
    w->waits = WEFTI_WAITS_UNKNOWN;
    w->calls_left = w->look_after; /* a new slice; a fiber sets its own */
    weft_poll said = task->poll(task, wefti_task_state(task));
    wefti_set_current(w, NULL);
    if (said == WEFT_READY) {
        if (WEFTI_UNLIKELY(w->done.status < 0) && w->done.value != wefti_failure_is_known && !wefti_task_is_fiber(task))
            wefti_task_failed(w, task, w->done.status);
        wefti_worker_finish(w, task, w->done);
    } else if (said == WEFT_PENDING) {
        store_relaxed(&task->status, wefti_waits(w)); /* for dumps */
        if (wefti_word_to_idle(&task->word))
            w->sched->submit(w, task, WEFTI_SUBMIT_AGAIN);
    } else if (said == WEFT_YIELD) {
        /* A wake meanwhile has only left its mark (B50), and who takes it out looks whether it must end. */
        if (WEFTI_UNLIKELY(wefti_word_life(load_relaxed(&task->word)) ==
                           WEFTI_RUNNING)) /* it has waited in weft_join */
            wefti_word_to_yielded(&task->word);
        w->sched->submit(w, task, WEFTI_SUBMIT_AGAIN);
    } else if (WEFTI_UNLIKELY(said != WEFTI_HANDLED)) {
        wefti_poll_says_nothing(task, said);
    }
}

/* -- Keeping time ---------------------------------------------------------------------------------------- */

#define PINNED_SHORT 50 /* ns: while polls are as short as this, more of our own run in a row */

/* B28, B29: fold what was measured into the average, and look at the global queue as often as that allows. */
static void measure(struct wefti_worker *w, int64_t now) {
    uint64_t polls = load_own(&w->counters.polls) - w->measured_from;
    if (w->measure_began && polls) {
        double sample = (double)(now - w->measure_began) / (double)polls;
        w->average = 0.1 * sample + 0.9 * w->average;
        w->length = 0.1 * sample + 0.9 * w->length;
        double interval = WEFTI_GLOBAL_TARGET / (w->average > 1.0 ? w->average : 1.0);
        w->global_interval = interval < 8 ? 8 : interval > 255 ? 255 : (uint32_t)interval;
        w->pinned_more = w->average < PINNED_SHORT ? WEFTI_PINNED_MORE : 0;
    }
    w->measured_from += polls;
    w->measure_began = now;
}

/* Idle workers steal, and a sleeping worker watches the others.  If all workers are busy, nobody does either: tasks behind a worker
 * that is in a long poll, or runs many long fibers, would wait for that worker alone.  So a busy worker keeps an eye on one other
 * worker at a time.  If the oldest task that waits there stays the same for WEFTI_HELP_AFTER, and has waited for longer than it would
 * wait here, we take half of the tasks.  Rejected: to compare the lengths of the queues only.  Two workers with long polls would pass
 * their tasks to and fro. */
void wefti_worker_help(struct wefti_worker *w, int64_t now) {
    const struct wefti_sched *sched = w->sched;
    if (!sched->line || !w->shared || now - w->help_seen < WEFTI_HELP_AFTER)
        return;
    struct wefti_worker *victim = &w->rt->worker[w->helped];
    struct wefti_line line = sched->line(victim);
    bool same = victim != w && w->help_seen && line.length && line.oldest == w->help_oldest;
    if (!same) {
        w->helped = w->helped + 1 < w->rt->workers ? w->helped + 1 : 0;
        line = sched->line(&w->rt->worker[w->helped]);
    } else if ((double)sched->waiting(w) * w->average < (double)(now - w->help_since)) {
        struct weft_task *task = sched->steal_from(w, victim);
        if (task)
            sched->submit(w, task, WEFTI_SUBMIT_WAKE);
        line = sched->line(victim);
    }
    if (!same || line.oldest != w->help_oldest) {
        w->help_oldest = line.oldest;
        w->help_since = now;
    }
    w->help_seen = now;
}

void wefti_worker_tick(struct wefti_worker *w) {
    w->tick_left = WEFTI_TICK_POLLS;
    wefti_count(&w->counters.ticks, 1);
    int64_t now = wefti_clock();
    measure(w, now);
    wefti_stack_pool_trim(&w->rt->stacks, now);
    if (w->shared) {
        wefti_timers_help_one(w, now);
        wefti_worker_help(w, now);
    }
}

/* -- Looking --------------------------------------------------------------------------------------------- */

void wefti_worker_wake(struct wefti_worker *w) {
    wefti_park_wake(&w->park);
    if (!w->driven)
        return;
    /* Its caller may be about to sleep in our poller (io/outside.c), and what it is woken for need not be a task, so that no claim came
     * before.  Either he sees that, after P3, or we see here that he wants to be poked. */
    fence_seq_cst();
    int outside = load_acquire(&w->outside); /* pairs with weft_drive_fd: the descriptor; the fence orders the rest */
    if (outside)
        wefti_poke(outside - 1);
    if (w->rt->wake) {
        /* Whoever calls is in the midst of something: metered code in there must not make its fiber yield. */
        struct wefti_worker *self = wefti_worker_self();
        struct weft_task *current = self ? wefti_current(self) : NULL;
        if (self)
            wefti_set_current(self, NULL);
        w->rt->wake(w->rt->wake_arg);
        if (self)
            wefti_set_current(self, current);
    }
}

/* S5, S6: the sleeper's bit is ours.  watch: it is to keep the watch, W4. */
static void wake_claimed(struct weft_runtime *rt, struct wefti_worker *w, uint32_t index, bool watch) {
    struct wefti_worker *sleeper = &rt->worker[index];
    if (watch)
        (void)wefti_idle_keep_watch(&rt->idle, index); /* S5: `claimed` orders it */
    else
        wefti_idle_leave_watch(&rt->idle, index); /* S5: now, for we may lie down before it is really up */
    if (!sleeper->driven)
        add_relaxed(&rt->idle.searching, 1); /* S5; `claimed` orders it.  Who knows when a driven one will search? */
    store_release(&sleeper->claimed, 1); /* S5, pairs with P6 */
    if (w)
        wefti_count(&w->counters.wakes, 1);
    wefti_worker_wake(sleeper); /* S6: wake */
}

void wefti_notify(struct weft_runtime *rt, struct wefti_worker *w) {
    if (WEFTI_UNLIKELY(rt->control)) {
        wefti_park_wake(&rt->control->park); /* reactor.h, E2 */
        return;
    }
    fence_seq_cst(); /* S2, F1 */
    if (load_relaxed(&rt->idle.searching) && !rt->sched->wake_each) /* S3; F1 orders it */
        return;
    int index = wefti_idle_claim(&rt->idle, rt->driven); /* S4 */
    if (index >= 0)
        wake_claimed(rt, w, (uint32_t)index, false);
}

/* `ns` of work wait in our own queues. */
static void offer(struct wefti_worker *w, double ns) {
    struct wefti_idle *idle = &w->rt->idle;
    /* Hints only: a sleeper that is missed here leaves the task to us, who are awake. */
    if (!wefti_idle_has_parked(idle) || load_relaxed(&idle->searching))
        return;
    if (ns >= WEFTI_WAKE_WORTH)
        wefti_notify(w->rt, w);
}

void wefti_notify_if_worth(struct wefti_worker *w, uint32_t waiting) { offer(w, (double)waiting * w->length); }

void wefti_notify_one(struct weft_runtime *rt, struct wefti_worker *w, struct wefti_worker *target) {
    fence_seq_cst(); /* S2, F1 */
    if (wefti_idle_claim_one(&rt->idle, target->index)) /* S4 */
        wake_claimed(rt, w, target->index, false);
}

/* G1 to G3. */
static void stop_searching(struct wefti_worker *w) {
    w->searching = false;
    if (!wefti_idle_end_search(&w->rt->idle)) /* G1 */
        return;
    fence_seq_cst(); /* G2, F2 */
    if (w->sched->has_work(w) || wefti_jobs_public(w)) /* G3: recheck */
        wefti_notify(w->rt, w); /* G3: wake */
    else if (w->sched->waiting) /* ... or in our own queue, where a batch has just come in: ours, so only if worth it */
        offer(w, (double)w->sched->waiting(w) * w->average);
}

/* Look beyond the worker's own queue (W19: spin, then yield, then give up).  *ran_job: a job was found, and is done.
 * While all others sleep there is nothing to steal, and who brings work from outside will wake us: one pass.  (A thread
 * that has yielded is also slow to get its core back when it is woken, which doubled the latency of such wakes.) */
static struct weft_task *search(struct wefti_worker *w, bool *ran_job) {
    wefti_count(&w->counters.searches, 1);
    if (!w->searching && !(w->searching = wefti_idle_try_search(&w->rt->idle)))
        return NULL;
    struct weft_task *task = NULL;
    for (uint32_t spin = 0; spin < WEFTI_SPIN_MAX; spin++) {
        task = w->sched->steal(w, spin == WEFTI_SPIN_MAX - 1);
        if (!task)
            task = wefti_worker_pick(w);
        if (task)
            break;
        if (wefti_jobs_run_stolen(w)) { /* leaves the search itself before it runs the job */
            *ran_job = true;
            return NULL;
        }
        if (wefti_idle_parked(&w->rt->idle) + 1 >= w->rt->workers) /* a hint */
            break;
        if (WEFTI_UNLIKELY(w->watch && w->watch->poller.pending) && wefti_watch_run(w)) {
            task = wefti_worker_pick(w); /* told before we spin: the system has something to do meanwhile */
            if (task)
                break;
        }
        if (spin < WEFTI_SPIN_TIGHT)
            wefti_relax();
        else
            wefti_thread_yield();
    }
    return task;
}

static void hand_on_watch(struct wefti_worker *w) {
    struct wefti_idle *idle = &w->rt->idle;
    fence_seq_cst(); /* W3, F3 */
    while (!load_relaxed(&idle->watcher)) { /* W4; F3 orders it */
        int highest = wefti_idle_highest(idle); /* the last that is claimed for anything else */
        if (highest < (w->rt->driven ? 1 : 0))
            return;
        if (wefti_idle_claim_one(idle, (uint32_t)highest)) { /* else somebody else got that one, who will not watch */
            wake_claimed(w->rt, w, (uint32_t)highest, true); /* W4: he finds nothing, and lies down again */
            return;
        }
    }
}

void wefti_worker_found(struct wefti_worker *w) {
    if (w->searching)
        stop_searching(w);
    if (WEFTI_UNLIKELY(w->owes_watch)) {
        w->owes_watch = false;
        wefti_idle_leave_watch(&w->rt->idle, w->index); /* it was woken to watch, and has found better things to do */
        hand_on_watch(w);
    }
}

/* Not inline, not even when the whole program is compiled at once: a compiler may keep the address of a thread-local over a switch. */
__attribute__((noinline)) struct wefti_worker *wefti_worker_here(void) { return wefti_worker_self(); }

/* What others have woken, behind our own. */
static __attribute__((noinline)) void take_inbox(struct wefti_worker *w) {
    struct wefti_chain chain = wefti_mpsc_take(&w->inbox);
    for (struct wefti_link *item; (item = wefti_chain_take(&chain));)
        wefti_chain_append(&w->pinned, item);
}

#define OWED_SHORT 1e3 /* ns: while polls are longer than this, a look at the clock is cheap */

void wefti_worker_owe(struct wefti_worker *w, uint32_t most) {
    if (w->owed_until) /* this one came before our fibers itself, as one that is new, and may have made another such */
        return;
    uint32_t waiting = w->sched->waiting ? w->sched->waiting(w) : 0;
    waiting += load_own(&w->lifo.slot) != NULL; /* the newest, which others could not take */
    if (!waiting)
        return;
    wefti_worker_settle(w);
    w->owed = waiting < most ? waiting : most;
    w->owed_made = 0;
    w->owed_until = wefti_clock() + WEFTI_OWED_TIME;
}

/* The next of those, or NULL: that is over.  Then it is a fiber's turn.  The clock is looked at often before the first few, which may be long, and then seldom,
 * unless there were long ones lately. */
static __attribute__((noinline)) struct weft_task *next_owed(struct wefti_worker *w) {
    uint32_t made = w->owed_made++;
    bool look = (made & (made - 1)) == 0 || made % 16 == 0 || w->length > OWED_SHORT;
    struct weft_task *task = look && wefti_clock() >= w->owed_until ? NULL : w->sched->next(w);
    w->owed = task ? w->owed - 1 : 0;
    if (!w->pinned_left)
        w->pinned_left = 1;
    return task;
}

/* Our own fibers and the scheduler's tasks in turn, as long as there are both; while there are only fibers, the scheduler is asked
 * now and then, and always at the last poll of a tick. */
static inline __attribute__((always_inline)) struct weft_task *pick(struct wefti_worker *w) {
    if (WEFTI_UNLIKELY(!wefti_mpsc_is_empty(&w->inbox)))
        take_inbox(w);
    if (!w->pinned.count)
        return w->sched->next(w);
    struct weft_task *owed = WEFTI_UNLIKELY(w->owed) ? next_owed(w) : NULL;
    if (WEFTI_UNLIKELY(owed != NULL))
        return owed;
    if (w->pinned_left && w->tick_left != 1) {
        w->pinned_left--;
    } else {
        struct weft_task *task = w->sched->next(w);
        w->pinned_left = task ? 1 : WEFTI_PINNED_MAX + w->pinned_more;
        if (task)
            return task;
    }
    w->owed_until = 0;
    return wefti_task_of(wefti_chain_take(&w->pinned));
}

struct weft_task *wefti_worker_pick(struct wefti_worker *w) { return pick(w); }

static inline __attribute__((always_inline)) bool turn(struct wefti_worker *w, struct weft_task *task) {
    if (WEFTI_UNLIKELY(w->searching | w->owes_watch))
        wefti_worker_found(w);
    run(w, task);
    if (WEFTI_UNLIKELY(w->central))
        w->sched->done(w);
    wefti_worker_spend(w);
    return true;
}

/* Our own queues are empty. */
static __attribute__((noinline)) bool turn_searching(struct wefti_worker *w) {
    bool ran_job = false;
    struct weft_task *task = w->central ? NULL : search(w, &ran_job);
    return task ? turn(w, task) : ran_job;
}

static inline __attribute__((always_inline)) bool one_turn(struct wefti_worker *w) {
    struct weft_task *task = w->handoff;
    if (WEFTI_UNLIKELY(task))
        w->handoff = NULL;
    else
        task = pick(w);
    return WEFTI_LIKELY(task != NULL) ? turn(w, task) : turn_searching(w);
}

bool wefti_worker_turn(struct wefti_worker *w) { return one_turn(w); }

/* -- Sleeping -------------------------------------------------------------------------------------------- */

bool wefti_worker_announce(struct wefti_worker *w) {
    struct weft_runtime *rt = w->rt;
    w->parking = true;
    if (w->sched->flush)
        w->sched->flush(w);
    wefti_idle_announce(&rt->idle, w->index); /* P1 */
    if (w->searching) {
        w->searching = false;
        wefti_idle_end_search(&rt->idle); /* P2 */
    }
    fence_seq_cst(); /* P3, F2 */
    if (w->central) {
        if (w->sched->has_work(w)) /* P4: recheck; nobody else looks here */
            return false;
    } else if (load_relaxed(&rt->idle.searching) == 0 && /* F2 orders it */
               (w->sched->has_work(w) || wefti_jobs_public(w))) { /* P4: recheck */
        return false;
    }
    if (!wefti_mpsc_is_empty(&w->inbox)) /* P4: recheck; nobody else looks here */
        return false;
    return load_relaxed(&rt->phase) != WEFTI_STOPPED; /* recheck; if missed, the stopper's token ends the sleep */
}

void wefti_worker_return(struct wefti_worker *w) {
    if (!wefti_idle_retract(&w->rt->idle, w->index)) { /* P6 */
        while (!load_acquire(&w->claimed)) /* pairs with S5; the waker is on its way */
            wefti_park_sleep(&w->park, INT64_MAX);
        store_relaxed(&w->claimed, 0); /* nobody claims us before we announce again */
        if (load_relaxed(&w->rt->idle.watcher) == w->index + 1) /* W4 has named us; `claimed` orders it */
            w->owes_watch = true;
        w->searching = !w->driven;
    }
    w->parking = false;
}

/* The watch.  Correctness never needs a time-out; three things are only sped up by one: a task that a worker kept to itself
 * before it got stuck in a long poll, its timers, and work that did not pay for a wake when it was queued.  So of all sleepers one looks now
 * and then (idle.h, W1 to W3).  The others sleep without limit: an idle runtime costs one wake every 10 ms, however many workers it has.
 * A driven one is a watcher while there is no other, and no longer: its caller may leave at any time. */
static bool keeps_watch(struct wefti_worker *w) {
    struct wefti_idle *idle = &w->rt->idle;
    if (w->rt->park_timeout == INT64_MAX)
        return false;
    return w->driven ? !load_relaxed(&idle->watcher) : wefti_idle_keep_watch(idle, w->index); /* a hint */
}

/* P5.  Sleeps on while a look finds nothing. */
static void sleep_watching(struct wefti_worker *w, int64_t now, int64_t until) {
    struct weft_runtime *rt = w->rt;
    bool watch = keeps_watch(w);
    for (;;) {
        bool all = wefti_idle_parked(&rt->idle) == rt->workers; /* a hint */
        int64_t limit = INT64_MAX;
        if (watch) {
            int64_t timeout = all || rt->park_timeout < WEFTI_WATCH_TIMEOUT ? rt->park_timeout : WEFTI_WATCH_TIMEOUT;
            limit = timeout < INT64_MAX - now ? now + timeout : INT64_MAX;
        }
        wefti_count(&w->counters.parks, 1);
        bool woken = wefti_worker_doze(w, limit < until ? limit : until);
        if (woken || (w->watch && w->watch->count) || until <= limit ||
            load_relaxed(&rt->phase) == WEFTI_STOPPED) /* the token orders it */
            break;
        bool others_run = wefti_idle_parked(&rt->idle) < rt->workers;
        now = wefti_clock();
        wefti_stack_pool_trim(&rt->stacks, now);
        if (others_run && (w->sched->has_work(w) || wefti_jobs_public(w) || (w->sched->stuck && w->sched->stuck(w)) ||
                           wefti_timers_overdue(w, now)))
            break;
    }
    w->owes_watch = watch;
    if (watch)
        wefti_idle_leave_watch(&rt->idle, w->index); /* W1 */
}

void wefti_worker_sleep(struct wefti_worker *w, int64_t until) {
    struct weft_runtime *rt = w->rt;
    int64_t now = wefti_clock();
    measure(w, now);
    if (wefti_timers_any(w)) {
        if (wefti_timers_run(w, wefti_now(rt)))
            return;
        int64_t next = wefti_timers_next(w);
        until = next < until ? next : until;
    }
    if (wefti_timers_help(w, now))
        return;
    if (wefti_worker_announce(w)) {
        wefti_stop_check(rt);
        if (!rt->sim || !wefti_sim_idle(w, until))
            sleep_watching(w, now, rt->sim ? INT64_MAX : until); /* virtual time does not pass in a sleep */
    }
    wefti_worker_return(w);
    wefti_watch_dispatch(w); /* B21: only now are our queues open again */
    w->measure_began = wefti_clock(); /* sleeping is not polling */
}

void wefti_worker_main(void *worker) {
    struct wefti_worker *w = worker;
    wefti_self_set(w);
    w->stack_limit = wefti_stack_limit();
    w->stack_top = (uintptr_t)__builtin_frame_address(0);
    w->errno_at = wefti_errno_at();
    w->exceptions = wefti_exceptions_at();
    wefti_stack_adopt(&w->native);
    bool signals = wefti_signal_stack_begin(&w->signal_stack);
    while (load_relaxed(&w->rt->phase) != WEFTI_STOPPED) /* the stopper's token orders it */
        if (!one_turn(w)) /* here, and not called: for short polls the way there and back is a tenth */
            wefti_worker_sleep(w, INT64_MAX);
    if (w->searching) {
        w->searching = false;
        wefti_idle_end_search(&w->rt->idle);
    }
    if (signals)
        wefti_signal_stack_end();
    wefti_self_set(NULL);
}
