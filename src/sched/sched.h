/* sched.h - what the files of this folder do for each other and for the layers above.  Internal. */
#ifndef WEFTI_SCHED_SCHED_H
#define WEFTI_SCHED_SCHED_H

#include <weft/runtime.h>
#include <weft/stats.h>

#include "queue/bias.h"
#include "sched/runtime.h"
#include "sched/sim.h"
#include "sched/timers.h"

/* The calling thread's worker, or NULL; and the same if it belongs to `rt`. */
static inline struct wefti_worker *wefti_worker_self(void) { return wefti_self(); }
static inline struct wefti_worker *wefti_worker_of(const struct weft_runtime *rt) {
    struct wefti_worker *w = wefti_self();
    return w && w->rt == rt ? w : NULL;
}

/* What the calling worker runs, or NULL. */
static inline struct weft_task *wefti_current(const struct wefti_worker *w) { return load_own(&w->current); }
static inline void wefti_set_current(struct wefti_worker *w, struct weft_task *task) {
    store_relaxed(&w->current, task); /* to others, for a look */
}

/* Is there a CPU on which none of our workers runs?  A hint. */
static inline bool wefti_has_spare_cpu(struct weft_runtime *rt) {
    return rt->cpus > 1 && rt->workers - wefti_idle_parked(&rt->idle) < rt->cpus;
}

/* Before it runs: may others take its tasks?  How many workers there are is known. */
static inline void wefti_worker_share(struct wefti_worker *w, bool shared) {
    const struct wefti_sched *sched = w->rt->sched;
    w->shared = shared;
    w->alone = w->rt->workers == 1 && !sched->central; /* not shared: or they may not steal */
    w->sched = shared || !sched->alone ? sched : sched->alone;
}

/* The other workers, if tasks may be taken from them at all: in turn from `first`, or from a random one.
 *     for (struct wefti_others o = wefti_others_randomly(w); (victim = wefti_others_next(&o));) */
struct wefti_others {
    struct wefti_worker *self;
    uint32_t at, left;
};
static inline struct wefti_others wefti_others_from(struct wefti_worker *w, uint32_t first) {
    return (struct wefti_others){w, first, w->shared ? w->rt->workers : 0};
}
static inline struct wefti_others wefti_others_randomly(struct wefti_worker *w) {
    return wefti_others_from(w, w->shared ? wefti_random_below(&w->random, w->rt->workers) : 0);
}
static inline struct wefti_worker *wefti_others_next(struct wefti_others *others) {
    while (others->left) {
        struct wefti_worker *other = &others->self->rt->worker[others->at];
        others->at = others->at + 1 < others->self->rt->workers ? others->at + 1 : 0;
        others->left--;
        if (other != others->self)
            return other;
    }
    return NULL;
}

/* It is a fiber of this worker's, which waits for its turn in the worker's own queue. */
static inline bool wefti_worker_keeps(const struct wefti_worker *w, const struct weft_task *task) {
    return wefti_task_is_pinned(task) && !w->central;
}

/* The fiber that rests is IDLE now; or queued, since it was woken or cancelled. */
static inline void wefti_worker_unrest(struct wefti_worker *w) {
    struct weft_task *task = load_own(&w->resting);
    store_relaxed(&w->resting, NULL); /* to others, for a look */
    if (wefti_word_to_idle(&task->word))
        wefti_chain_append(&w->pinned, &task->link);
}

/* Is that the fiber that rests here?  Then it is the caller's, who queues it. */
static inline bool wefti_worker_take_resting(struct wefti_worker *w, const struct weft_task *task) {
    if (load_own(&w->resting) != task)
        return false;
    store_relaxed(&w->resting, NULL); /* to others, for a look */
    return true;
}

/* The running task has been asked to let others run. */
static inline bool wefti_preempt_is_asked(const struct wefti_worker *w) {
    return load_relaxed(&w->preempt) == load_own(&w->counters.polls); /* a request, nothing behind it */
}

/* What fibers' polls say beside the public three: the switch has done the rest. */
#define WEFTI_HANDLED ((weft_poll)0x5eed) /* not what somebody would return by mistake */

/* -- worker.c ---------------------------------------------------------------------------------------- */
/* The task is over: result, drop function, COMPLETE, joiner. */
void wefti_worker_finish(struct wefti_worker *w, struct weft_task *task, weft_result result);
/* ... before it has begun: it was cancelled, and is never entered. */
void wefti_worker_skip(struct wefti_worker *w, struct weft_task *task);
/* B34, B45: the last poll of a tick was made. */
void wefti_worker_tick(struct wefti_worker *w);
/* A busy worker takes over half of the tasks of one that does not get to them.  Called about once per millisecond or more often. */
void wefti_worker_help(struct wefti_worker *w, int64_t now);
/* The next task of our own fibers, our own queues and the global one, or NULL. */
struct weft_task *wefti_worker_pick(struct wefti_worker *w);
/* One of our fibers has used up its slice, and yields: up to so many of the tasks that wait now come before it and the others, as long as they are short. */
void wefti_worker_owe(struct wefti_worker *w, uint32_t most);
/* The calling thread's worker, read anew: for code that may have come here from another thread. */
struct wefti_worker *wefti_worker_here(void);
/* Find one task (or job) and run it.  False: nothing found. */
bool wefti_worker_turn(struct wefti_worker *w);
/* A searcher found something to do: leave the search, see that another looks if work is left. */
void wefti_worker_found(struct wefti_worker *w);
/* Sleep until there may be something to do, at most until `until`. */
void wefti_worker_sleep(struct wefti_worker *w, int64_t until);
/* Look at the descriptors without waiting.  True: something happened. */
bool wefti_watch_run(struct wefti_worker *w);
/* Bytes of a wefti_watch with room for one batch of events. */
static inline size_t wefti_watch_size(const struct weft_runtime *rt) {
    return sizeof(struct wefti_watch) + rt->max_io_completions * sizeof(struct wefti_poll_event);
}
/* Sleep on the worker's park or in its poller, at most until `until`; true: a token was taken.  Then dispatch. */
bool wefti_worker_doze(struct wefti_worker *w, int64_t until);
bool wefti_watch_dispatch(struct wefti_worker *w);
/* The two halves of sleeping, for driven workers: false = there is work, do not sleep. */
bool wefti_worker_announce(struct wefti_worker *w);
void wefti_worker_return(struct wefti_worker *w);
/* A worker thread's loop. */
void wefti_worker_main(void *worker);
/* There is something in the inbox of `target`: wake it if it sleeps.  w may be NULL. */
void wefti_notify_one(struct weft_runtime *rt, struct wefti_worker *w, struct wefti_worker *target);
/* Work was made public: wake a sleeper if one is needed (idle.h, S2 to S6).  w may be NULL. */
void wefti_notify(struct weft_runtime *rt, struct wefti_worker *w);
/* The same, for work on the caller's own queues: it will get to it, so only if `waiting` tasks pay for a wake. */
void wefti_notify_if_worth(struct wefti_worker *w, uint32_t waiting);
/* Wake a particular worker, whatever it waits for. */
void wefti_worker_wake(struct wefti_worker *w);

/* A poll that waits in weft_join, while other tasks run on top of its frame. */
struct wefti_help {
    struct wefti_help *below; /* the wait that ours lies on top of */
    struct weft_task *current;
    weft_result done;
    uint8_t waits;
};

/* -- failed.c ---------------------------------------------------------------------------------------- */
/* The task is about to end with that error.  If it belongs to no nursery or process, and nobody has a handle, nobody can learn of it: it is counted, and the
 * first one of a runtime is reported.  -ECANCELED is no failure. */
void wefti_task_failed(struct wefti_worker *w, const struct weft_task *task, int status);
/* The value of a poll task that ends with an error which its owner learns of in another way. */
extern const char wefti_failure_is_known[1];

/* -- wake.c ------------------------------------------------------------------------------------------ */
/* Debug builds: a handle or waker whose task is gone, or a handle that was dropped before, names itself and aborts. */
/* A handle that must be there is not: ends the process, and names the task. */
_Noreturn void wefti_handle_is_dropped(const struct weft_task *task, const char *call);
/* A poll has returned what is none of the three (an error, perhaps, that was meant for weft_done): nobody could go on with the task. */
_Noreturn void wefti_poll_says_nothing(const struct weft_task *task, weft_poll said);
#ifdef WEFTI_DEBUG
void wefti_check_handle(const struct weft_task *task, const char *call, uint64_t needs);
#define CHECK_ALIVE(task) wefti_check_handle((task), __func__, 0)
#define CHECK_HANDLE(task) wefti_check_handle((task), __func__, WEFTI_JOINABLE)
#else
#define CHECK_ALIVE(task) ((void)0)
#define CHECK_HANDLE(task) ((void)0)
#endif
/* What a task does, as far as can be seen: RUNNING also if its word does not say so. */
enum wefti_life wefti_task_life(const struct weft_task *task);
/* The one function that wakes a waker; it is spent. */
void wefti_wake(wefti_waker waker);
/* Wake a task without having a reference to it: it was alive when the caller, a worker of its runtime, learned of it.  Should it be
 * gone, its slot is still a slot of this runtime: nobody is woken, or another task for no reason, which every task allows. */
void wefti_wake_loosely(struct weft_task *task);
/* The same, but not if it is idle with that sub-state. */
void wefti_wake_unless(struct weft_task *task, uint16_t sub);
static inline wefti_waker wefti_waker_task(struct weft_task *task) { return (wefti_waker)(void *)task; }
static inline wefti_waker wefti_waker_thread(struct wefti_park *park) { return (wefti_waker)(void *)park | 1; }
/* Drop one reference and free at the last. */
void wefti_task_unref(struct weft_task *task, uint64_t clear);
/* After wefti_word_cancel_for, which returned `queue`: it goes on, and learns of it. */
void wefti_cancel_wake(struct weft_task *task, bool queue);
/* Ask it to end, and what it owns.  The caller has a reference, or is the task itself. */
void wefti_cancel(struct weft_task *task, enum weft_reason why);
/* Hand a task that has become SCHEDULED to its runtime, from any thread. */
void wefti_submit(struct weft_task *task, enum wefti_submit why);

/* -- dump.c ------------------------------------------------------------------------------------------ */
/* weft_dump with at most so many tasks. */
int wefti_dump(struct weft_runtime *rt, int fd, uint64_t most);
/* The number of a string in the runtime's table of reasons; 0 when the table is full. */
uint16_t wefti_reason(struct weft_runtime *rt, const char *what);
/* A name that a user gave, fit for a line: cut to the room, control bytes as '?'.  Returns buffer. */
#define WEFTI_NAME_ROOM 64u
const char *wefti_printable(const char *name, char *buffer, size_t room);

/* The interval is over: is it the turn of the oldest in the global queue?  What came from outside, always (B30).  What was spilled: if we do
 * not run out, and so would not come to it; else once a millisecond. */
static inline bool wefti_global_is_due(struct wefti_worker *w) {
    bool late = (double)(w->measure_began - w->spill_seen) >= WEFTI_GLOBAL_TARGET;
    if (++w->busy_intervals < WEFTI_BUSY_INTERVALS && !late)
        return wefti_inject_outside(&w->rt->inject) != 0;
    w->spill_seen = w->measure_began;
    return true;
}

/* -- stop.c ------------------------------------------------------------------------------------------ */
/* The annex of that number, or NULL. */
static inline struct wefti_annex *wefti_annex(struct weft_runtime *rt, int number) {
    return load_acquire(&rt->annex[number]); /* pairs with hang */
}
/* Hang one on the runtime.  Returns it, or another's that was quicker. */
struct wefti_annex *wefti_annex_hang(struct weft_runtime *rt, int number, struct wefti_annex *made);
/* Stop all; the worst that one says. */
int wefti_annexes_stop(struct weft_runtime *rt, int64_t until);

/* -- drive.c ----------------------------------------------------------------------------------------- */
/* Become the driven worker: 0, or what weft_drive returns.  Inside: run it.  Then end. */
int wefti_drive_begin(struct weft_runtime *rt);
int wefti_drive_inside(struct weft_runtime *rt, unsigned max_polls);
void wefti_drive_end(struct weft_runtime *rt);

/* -- runtime.c --------------------------------------------------------------------------------------- */
/* A runtime for one first task, which `spawn` starts; as weft_run. */
int wefti_run_first(const weft_config *given, int (*spawn)(weft_runtime *rt, void *arg, weft_task **task), void *arg,
                    weft_result *result);

/* -- budget/profile.c ---------------------------------------------------------------------------------- */
/* 0; -EINVAL; -ENOMEM: call fini all the same. */
int wefti_profile_init(struct weft_runtime *rt, const weft_config *config);
void wefti_profile_fini(struct weft_runtime *rt);
/* A poll task is to be spawned: may it, and has the calling fiber paid for it?  May suspend, as wefti_pay.  If it then comes to nothing,
 * refund.  0; -EPERM; -ECANCELED. */
int wefti_admit_poll(struct weft_runtime *rt);
void wefti_admit_refund(struct weft_runtime *rt);

/* -- Every poll, inline ------------------------------------------------------------------------------ */
/* Debug builds: a task that has come out of a queue is in no other, and nobody runs it.  Its word does not tell (decision 0028), but whoever gave
 * it away had another one current before that, and the queue orders it. */
static inline void wefti_check_alone(const struct wefti_worker *w, const struct weft_task *task) {
#ifdef WEFTI_DEBUG
    for (uint32_t i = 0; i < w->rt->workers; i++) {
        const struct wefti_worker *other = &w->rt->worker[i];
        wefti_assert(other == w || load_relaxed(&other->current) != task, i); /* the queue orders it */
        wefti_assert(load_relaxed(&other->resting) != task, i); /* the same */
    }
#else
    (void)w, (void)task;
#endif
}

/* A task that has come out of a queue is the worker's current one now.  False: it was cancelled before it began; it has been ended, and is
 * never entered.  A fiber that has begun learns of a cancel where it waits. */
static inline bool wefti_worker_begin(struct wefti_worker *w, struct weft_task *task) {
    wefti_check_alone(w, task);
    if (WEFTI_UNLIKELY(!wefti_word_enter(&task->word)) && !task->home) {
        wefti_worker_skip(w, task);
        return false;
    }
    wefti_set_current(w, task);
    wefti_count(&w->counters.polls, 1);
    return true;
}

/* Own fibers that followed each other have counted themselves in one number: now in the others too.  Before these are looked at or changed. */
static inline void wefti_worker_settle(struct wefti_worker *w) {
    if (!w->own_given)
        return;
    uint32_t spent = w->own_given - w->own_left;
    w->own_given = w->own_left = 0;
    w->pinned_left -= spent;
    w->tick_left -= spent;
    if (w->look_left)
        w->look_left = w->look_left > spent ? w->look_left - spent : 1;
}

/* There is something to look for now: at the next poll, if nobody has looked so far. */
static inline void wefti_worker_look_soon(struct wefti_worker *w) {
    if (w->look_left)
        return;
    w->look_left = 1;
    w->own_given -= w->own_left;
    w->own_left = 0;
}

/* One poll was made. */
static inline void wefti_worker_spend(struct wefti_worker *w) {
    if (WEFTI_UNLIKELY(w->look_left) && --w->look_left == 0)
        wefti_worker_look(w);
    if (WEFTI_UNLIKELY(--w->tick_left == 0))
        wefti_worker_tick(w);
}

/* -- stop.c ------------------------------------------------------------------------------------------ */
/* Tasks spawned and not ended; see stop.c for why 0 is exact. */
uint64_t wefti_live(const struct weft_runtime *rt);
/* A worker found nothing to do: if the runtime is stopping and nothing is left, tell the stopper. */
void wefti_stop_check(struct weft_runtime *rt);

/* -- reactor.c --------------------------------------------------------------------------------------- */
/* Work that an I/O pool does for a task of a runtime with a control thread. */
struct wefti_io {
    struct wefti_link link;
    /* Step 2: let the pool's threads have it.  Returns 1, or 0 if it was withdrawn before; then it may be gone.  Must not block. */
    uint64_t (*route)(struct wefti_io *io);
    /* Step 3: resume the task that waits for it.  Then it may be gone. */
    void (*complete)(struct wefti_io *io);
};
/* By a worker of `rt`.  The record stays where it is until it has been routed.  The caller then calls wefti_notify, without its locks. */
void wefti_io_submit(struct weft_runtime *rt, struct wefti_io *io);
/* By the I/O thread, once it has been routed and done. */
void wefti_io_complete(struct weft_runtime *rt, struct wefti_io *io);

/* Step 5: look at what `link` is in, and resolve those of its waiters that can be: how many. */
typedef uint64_t wefti_resolve(struct wefti_link *link);
/* By a worker of `rt`.  As wefti_io_submit: the link stays in place until `resolve` was called, and wefti_notify is due. */
void wefti_control_resolve(struct weft_runtime *rt, struct wefti_link *link, wefti_resolve *resolve);

/* The control thread has assigned further tasks to the calling worker, behind the one that it runs. */
bool wefti_control_has_more(struct wefti_worker *w);

/* A task of `rt`, which has a control thread, has become SCHEDULED.  True: the caller is that thread, and has put it into its ready queue. */
bool wefti_control_resume(struct weft_runtime *rt, struct weft_task *task);

/* -- jobs.c ------------------------------------------------------------------------------------------ */
/* Take the oldest public job of another worker and run it.  False: there was none. */
bool wefti_jobs_run_stolen(struct wefti_worker *w);
/* Has any other worker a public job? */
bool wefti_jobs_public(struct wefti_worker *w);

#endif
