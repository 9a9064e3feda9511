/* sched.h - the runtime, its workers, and the interface of a scheduler.  Internal. */
#ifndef WEFTI_SCHED_SCHED_H
#define WEFTI_SCHED_SCHED_H

#include <weft/runtime.h>
#include <weft/stats.h>

#include "base/random.h"
#include "plat/plat.h"
#include "queue/bias.h"
#include "queue/deque.h"
#include "queue/inject.h"
#include "queue/mpsc.h"
#include "queue/nodes.h"
#include "queue/ring.h"
#include "sched/idle.h"
#include "sched/lifo.h"
#include "sched/nap.h"
#include "stack/stack.h"
#include "task/slab.h"
#include "task/task.h"
#include "task/waits.h"
#include "time/alarm.h"

#define WEFTI_TICK_POLLS 128u                /* B34: polls between two maintenance passes */
#define WEFTI_LIFO_MAX 3u                    /* B19: polls from the LIFO slot in a row */
#define WEFTI_YOUNG_MAX 4u /* tasks in a ring that are left to its owner as long as he gets to them */
#define WEFTI_AVERAGE_START 50000.0          /* B28: assumed ns a poll before anything was measured */
#define WEFTI_LENGTH_START 5000.0            /* the same, where it decides on a wake: docs/decisions/0003 */
#define WEFTI_BUSY_INTERVALS                                                                                           \
    8u /* looks at the global queue, after which a worker that did not run out is taken to be one that does not */
#define WEFTI_GLOBAL_TARGET 1000000.0        /* B28: a global task waits about 1 ms at most */
#ifndef WEFTI_SPIN_MAX
#define WEFTI_SPIN_TIGHT 4u /* W19: tight turns of a search ... */
#define WEFTI_SPIN_MAX 16u  /* ... then yielding ones, up to this */
#endif
#define WEFTI_PARK_TIMEOUT INT64_C(10000000) /* B37 */
#define WEFTI_WATCH_TIMEOUT INT64_C(1000000) /* how often a sleeper looks for stuck workers while others run */
#define WEFTI_WAKE_WORTH 50000.0             /* ns of waiting work that pay for waking a worker */
#define WEFTI_EVENTS_MAX 256                   /* B57: completions taken in a turn */
#define WEFTI_PINNED_MAX 16u                   /* own fibers in a row, before the scheduler is asked again */
#define WEFTI_PINNED_MORE 48u                  /* ... and so many more while they are short */
#define WEFTI_YIELD_OPS 1024u                  /* J5: metered ops of a fiber before others run */
#define WEFTI_HELP_MAX 4096u                   /* polls that wait on one stack, if it is large enough */
#define WEFTI_PREEMPT_MAX 1000u                /* R32: preemptions in a row, then the task has failed */
#ifndef WEFTI_GRACE
#define WEFTI_GRACE INT64_C(2000000000) /* R36: how long cancelled tasks and held references may take */
#endif
/* As a config gives it, in ns; WEFT_NEVER is for ever too.  A time that far away can be added to any clock. */
static inline int64_t wefti_grace(int64_t given) {
    return !given ? WEFTI_GRACE : given < 0 || given > INT64_MAX / 2 ? INT64_MAX / 2 : given;
}

#define WEFTI_REASONS 256u

/* Why a task is handed to the scheduler. */
enum wefti_submit {
    WEFTI_SUBMIT_SPAWN, /* new */
    WEFTI_SUBMIT_WAKE,  /* was idle */
    WEFTI_SUBMIT_AGAIN, /* has just run and wants to run again: after the others */
};

/* Counters of one worker, written by it alone: load_own + store_relaxed, see wefti_count. */
struct wefti_counters {
    _Atomic uint64_t polls, spawned, completed, cancelled, lifo_hits, steals, stolen, searches, parks, wakes, overflows,
        global_fetches, ticks, jobs_stolen, exhausted;
    _Atomic uint64_t processes; /* begun here less ended here: may be below 0 */
};

static inline void wefti_count(_Atomic uint64_t *counter, uint64_t more) {
    store_relaxed(counter, load_own(counter) + more); /* a figure; nothing hangs on it */
}

struct wefti_worker;
/* The descriptors that a worker watches; made when the first of its tasks waits for one (io/desc.c). */
struct wefti_watch {
    struct wefti_poller poller;
    void (*dispatch)(struct wefti_worker *w, const struct wefti_poll_event *events,
                     int count); /* serve whoever waits */
    void (*forget)(struct wefti_worker *w); /* its poller is about to be closed */
    int count;        /* events collected and not yet dispatched */
    uint32_t waiting; /* tasks that wait for a descriptor; kept for the simulator only */
    struct wefti_poll_event events[WEFTI_EVENTS_MAX];
};

struct wefti_worker {
    /* The worker's own. */
    struct weft_runtime *rt;
    const struct wefti_sched *sched;
    uint32_t index;
    bool shared;            /* other workers may take our tasks */
    bool searching;         /* counted in idle.searching */
    bool owes_watch;        /* worker.c: the watch */
    bool watch_found;       /* ... it has found `watched` stuck: the next steal is to take what it holds */
    bool parking;           /* B21: between announcing and being back */
    bool driven;            /* no thread: weft_drive */
    bool central;           /* runs only what the control thread hands it */
    uint8_t waits;          /* what the running poll would wait for: task/waits.h */
    uint32_t
        loop_only; /* reasons why fibers do not follow each other without the loop: driven, central, each poll that waits on our stack */
    struct wefti_help *help; /* the newest poll on our stack that waits */
    uint32_t help_depth; /* how many there are */
    uintptr_t stack_limit; /* of the thread that runs us: do not nest below */
    uintptr_t stack_top; /* ... where its loop begins: what is above is another stack */
    _Atomic(struct weft_task *) current; /* what runs: wefti_current; atomic for those who look (weft_task_state) */
    weft_result done; /* what the running poll left with weft_done */
    uint32_t tick_left; /* polls until the next maintenance */
    uint32_t global_left; /* polls until the global queue is looked at first */
    uint32_t global_interval;
    uint32_t busy_intervals; /* of those, since it last ran out of tasks of its own */
    int64_t spill_seen; /* when it last took the oldest of the global queue's spill */
    uint32_t lifo_polls; /* in a row */
    uint64_t measured_from; /* counters.polls at measure_began */
    int64_t measure_began;
    double average; /* ns a poll: B28 */
    double length; /* the same from a shorter start: what a task in our own queue is taken to need */
    uint32_t watched; /* the worker we suspect of being stuck ... */
    uint64_t last_look; /* ring.c: at a worker with a few tasks: its polls, and who it is */
    uint64_t watched_polls; /* ... and how many polls it had made; UINT64_MAX: nobody */
    struct wefti_random random;
    struct wefti_slab_cache cache;
    struct wefti_thread thread;

    /* Fibers (fiber/switch.c). */
    struct wefti_chain pinned; /* those of ours that are ready, in order */
    uint16_t home; /* of fibers that begin here (task.h) */
    uint32_t pinned_left; /* how many of them run before the scheduler is asked */
    uint32_t pinned_more; /* ... so many more than usual, while polls are short */
    uint32_t own_left, own_given; /* how many may follow each other without a look at any other count: fiber/switch.c */
    uint32_t fresh_left; /* new ones that may still run in a row on one stack */
    struct weft_task *handoff; /* a fiber took it out of a queue for the loop to run */
    _Atomic(struct weft_task *)
        resting; /* one of ours that waits and is not IDLE yet: fiber/switch.h; atomic for those who look */
    struct weft_task *left; /* the fiber that was left by the last switch ... */
    weft_poll left_said; /* ... and what for */
    int *errno_at; /* the thread's errno ... */
    struct wefti_exceptions *exceptions; /* ... and its exceptions; NULL: no C++ here */
    struct wefti_stack native; /* the thread's own */
    struct wefti_stack_cache stacks;
    void *signal_stack;
    int64_t slice_began; /* weft_checkpoint: the clock at its first look ... */
    uint64_t slice_polls; /* ... in this turn */
    uint32_t slice_left, slice_looks; /* calls until it looks again, of how many */

    struct wefti_wheel timers; /* under timers_lock, if there are other workers */
    struct wefti_watch *watch; /* NULL: no descriptors */
    uint64_t calls_turn; /* fiber/turn.h: the turn at the last look ... */
    int32_t calls_left; /* ... and how many calls there are until the next */
    struct wefti_nodes_cache messages; /* process/message.c */
    struct wefti_chain slots; /* process/table.c: free ones */
    int64_t met; /* sync/barge.c: when one of our fibers last found taken what it wanted */
    uint32_t look_left; /* polls until the clock and the descriptors are looked at; 0: there are none */
    struct wefti_nap nap;
    uint32_t timers_helped; /* whose overdue timers we have looked at last */

    /* Shared. */
    _Alignas(64) struct wefti_counters counters;
    _Alignas(64) struct wefti_park park;
    _Atomic uint32_t claimed; /* idle.h, S5 */
    _Atomic int outside; /* of a driven worker whose caller sleeps in our poller (weft_drive_fd): 1 + its poke */
    _Atomic uint64_t preempt; /* the poll, by its number, that is asked to let others run */
    struct wefti_lock timers_lock;
    _Atomic int64_t timers_next; /* timers.c */
    struct wefti_mpsc inbox; /* fibers of ours that others have woken */
    struct wefti_lifo lifo;
    struct wefti_ring ring;
    struct wefti_deque deque;
    struct wefti_deque jobs; /* forked jobs, jobs.h */
};

/* A scheduler: where tasks wait and in which order they come out.  `w` is always the calling worker. */
struct wefti_io;

struct wefti_sched {
    const char *name;
    bool one_thread; /* only worker 0 exists */
    bool wake_each; /* K3: every submit wakes a sleeper, also while another searches */
    bool central; /* a control thread hands out all tasks: workers do not search, and do not keep their fibers either */
    /* Take a task that has just become SCHEDULED; never fails.  (What outside threads submit goes to the global queue
     * without the scheduler: wefti_submit.) */
    void (*submit)(struct wefti_worker *w, struct weft_task *task, enum wefti_submit why);
    /* The next task from the worker's own sources and the global queue, or NULL. */
    struct weft_task *(*next)(struct wefti_worker *w);
    /* One pass over the others; `last` = the pass before sleeping.  NULL when nothing was found. */
    struct weft_task *(*steal)(struct wefti_worker *w, bool last);
    /* Is there anything that `w` could take, apart from what its owner keeps to itself?  After fence F2. */
    bool (*has_work)(struct wefti_worker *w);
    /* How many tasks wait in the worker's own queues and the global one, where others could take them.  May be NULL. */
    uint32_t (*waiting)(struct wefti_worker *w);
    /* The watch: does somebody seem stuck who keeps work to himself that a last pass of `steal` would take?  May be NULL. */
    bool (*stuck)(struct wefti_worker *w);
    /* Before sleeping: make everything public that the worker keeps to itself.  May be NULL. */
    void (*flush)(struct wefti_worker *w);

    /* Of a central scheduler. */
    int (*init)(struct weft_runtime *rt); /* 0 or -ENOMEM */
    void (*fini)(struct weft_runtime *rt); /* also after init was not called, or failed */
    /* The control thread, from when the number of workers is final; returns after `stop`, which is called when all workers have left. */
    void (*control)(struct weft_runtime *rt);
    void (*stop)(struct weft_runtime *rt);
    /* The task that the worker was given has ended, waits, or was submitted AGAIN. */
    void (*done)(struct wefti_worker *w);
    /* The running poll has called wefti_worker_turn while it waited (it may have not), and goes on. */
    void (*resume)(struct wefti_worker *w);
    /* wefti_io_submit, wefti_io_complete. */
    void (*io)(struct weft_runtime *rt, struct wefti_io *io, bool completed);
    /* A line for dumps, as snprintf. */
    int (*describe)(struct weft_runtime *rt, char *text, size_t room);
};

extern const struct wefti_sched wefti_sched_ring, wefti_sched_deque, wefti_sched_fifo, wefti_sched_sim,
    wefti_sched_reactor;

enum wefti_phase {
    WEFTI_OPEN, /* takes tasks from anywhere */
    WEFTI_CLOSING, /* from its own tasks only, until none is left */
    WEFTI_CANCELLING, /* from nobody; all tasks are cancelled */
    WEFTI_STOPPED, /* workers leave their loops */
};

/* What layers above have hung on the runtime, to end with it, in this order: the first field of each. */
enum { WEFTI_ANNEX_POOL, WEFTI_ANNEX_PROCESSES, WEFTI_ANNEX_NET, WEFTI_ANNEX_RESOLVER, WEFTI_ANNEXES };

struct wefti_annex {
    /* The runtime takes nothing from outside any more: what waits for that must learn of it.  May be called again.  May be NULL, as the
     * next two. */
    void (*closing)(struct wefti_annex *annex);
    /* All tasks have ended: let the rest end until `until`.  0; -ECANCELED (some of it was dropped); -EBUSY (it does not end, as was said on
     * stderr).  May be called again. */
    int (*stop)(struct wefti_annex *annex, int64_t until);
    /* Tasks do not end: say on stderr what they may be waiting for. */
    void (*report)(struct wefti_annex *annex);
    /* After stop.  0: it is gone; -EBUSY: it is used still. */
    int (*end)(struct wefti_annex *annex);
    /* For dumps, of any poll task: what it waits for when it is idle, or NULL if it is none of its.  May be NULL. */
    const char *(*describe)(struct weft_task *task);
};

/* State of the simulator, of the reactor; sim.c, reactor.h. */
struct wefti_sim;
struct wefti_reactor;

struct weft_runtime {
    const struct wefti_sched *sched;
    uint32_t workers; /* final once the gate is open */
    uint32_t allocated; /* length of the worker array */
    uint32_t cpus; /* that we may use */
    _Atomic uint32_t gate; /* futex word: 1 once the threads may begin */
    bool driven;
    bool uring; /* its workers wait with io_uring, if they get one */
    bool heavy_fence; /* the system has it */
    uint32_t bias_streak; /* queue/bias.h */
    bool lifo_stealing; /* ... and there is somebody to steal from */
    uint32_t global_capacity;
    uint32_t max_processes; /* 0: as many as the table has */
    int64_t park_timeout; /* INT64_MAX: none */
    int64_t grace; /* as in the config: wefti_grace */
    uint64_t seed;
    weft_wake_fn wake;
    void *wake_arg;
    char name[12];

    _Alignas(64) _Atomic uint32_t phase;
    _Atomic uint32_t stopping; /* 1: a thread is in weft_runtime_stop ... */
    struct wefti_park stopper; /* ... and sleeps here */
    _Atomic uint32_t driver; /* 1: a thread is running or sleeping as the driven worker */
    struct wefti_idle idle;
    struct wefti_inject inject;
    struct wefti_slab slab;
    struct wefti_stack_pool stacks;
    uint32_t stack_log2; /* of fibers that do not say */
    uint32_t yield_ops; /* metered ops after which a fiber lets others run */
    _Atomic bool has_fibers;
    _Atomic bool limited; /* spawns are asked about: there is a profile, or a fiber with a budget */
    bool trusted; /* the next spawn is the first task of weft_run: it needs no capability */
    weft_profile profile;
    struct weft_fund *fund; /* budget/profile.h */
    struct wefti_caps *caps; /* budget/cap.h */
    _Atomic uint64_t denied;
    struct wefti_sim *sim;
    _Atomic(struct wefti_annex *) annex[WEFTI_ANNEXES]; /* NULL, or set once */
    struct wefti_reactor *reactor;
    struct wefti_worker *control; /* of a central scheduler, behind the workers: a thread, a park, all timers */
    _Atomic(const char *) reasons[WEFTI_REASONS]; /* what tasks wait for; [0] is unused */
    struct wefti_worker *worker; /* array */
    _Atomic uint64_t *seen; /* polls of each worker at the last look of the watch */
};

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
#define WEFTI_HANDLED ((weft_poll)3)

/* -- worker.c ---------------------------------------------------------------------------------------- */
/* The task is over: result, drop function, COMPLETE, joiner. */
void wefti_worker_finish(struct wefti_worker *w, struct weft_task *task, weft_result result);
/* ... before it has begun: it was cancelled, and is never entered. */
void wefti_worker_skip(struct wefti_worker *w, struct weft_task *task);
/* B34, B45: the last poll of a tick was made. */
void wefti_worker_tick(struct wefti_worker *w);
/* The next task of our own fibers, our own queues and the global one, or NULL. */
struct weft_task *wefti_worker_pick(struct wefti_worker *w);
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

/* -- wake.c ------------------------------------------------------------------------------------------ */
/* Debug builds: a handle or waker whose task is gone, or a handle that was dropped before, names itself and aborts. */
/* A handle that must be there is not: ends the process, and names the task. */
_Noreturn void wefti_handle_is_dropped(const struct weft_task *task, const char *call);
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

/* -- timers.c ---------------------------------------------------------------------------------------- */
/* By the running task, on its worker. */
void wefti_alarm_set(struct wefti_worker *w, struct wefti_alarm *alarm, struct weft_task *task, int64_t until);
/* Before the alarm's memory goes: from any worker of the runtime. */
void wefti_alarm_clear(struct wefti_alarm *alarm);
/* The timers and descriptors of a worker that is busy, now and then. */
void wefti_worker_look(struct wefti_worker *w);
/* Ring what is due in the wheel of `owner`; by any worker of its runtime.  True: something was. */
bool wefti_timers_run(struct wefti_worker *owner, int64_t now);
/* Has it timers at all?  Others may take some out meanwhile. */
static inline bool wefti_timers_any(const struct wefti_worker *w) { return load_relaxed(&w->timers.count) != 0; }
/* When the next one is due at the earliest, after run; INT64_MAX: none. */
int64_t wefti_timers_next(struct wefti_worker *w);
/* Has another worker, perhaps stuck in a long poll, left timers overdue?  help rings them (true: there were some), help_one those of one
 * other worker, each time the next.  A fiber still waits for its own worker; a poll task goes on here. */
bool wefti_timers_overdue(struct wefti_worker *w, int64_t now);
bool wefti_timers_help(struct wefti_worker *w, int64_t now);
void wefti_timers_help_one(struct wefti_worker *w, int64_t now);
/* A time of the runtime's clock on the system's: not the same in a simulator. */
int64_t wefti_real(const struct weft_runtime *rt, int64_t when);
/* The runtime's clock: the system's, or the simulator's. */
int64_t wefti_now(const struct weft_runtime *rt);
/* The `status` of a poll task that waits from now on (task/waits.h): since the last tick, without a look at the clock. */
#define WEFTI_SINCE_SHIFT 24
static inline uint32_t wefti_since(int64_t when) { return (uint32_t)(when >> WEFTI_SINCE_SHIFT << WEFTI_WAITS_BITS); }
static inline int wefti_waits(const struct wefti_worker *w) {
    int64_t when = WEFTI_UNLIKELY(w->rt->sim != NULL) ? wefti_now(w->rt) : w->measure_began;
    return (int)(wefti_since(when) | w->waits);
}

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

/* -- io.c -------------------------------------------------------------------------------------------- */
/* Work for the I/O threads, and a task that waits for it.  A scheduler with a control thread passes both ways through it. */
struct wefti_io {
    struct wefti_link link;
    void (*route)(struct wefti_io *io); /* gives it to the pool; must not block */
    wefti_waker waker; /* spent when it is done */
};
/* By the task, on its worker, before it waits. */
void wefti_io_submit(struct weft_runtime *rt, struct wefti_io *io);
/* By the I/O thread, when the result has been left for the task.  The record may be gone afterwards. */
void wefti_io_complete(struct weft_runtime *rt, struct wefti_io *io);

/* -- reactor.c --------------------------------------------------------------------------------------- */
/* Waiters that ask to be tried again, in the order in which they came, in each turn of the control thread until `retry` says true;
 * the record may be gone then.  False: there is no such thread, and whoever serves them wakes them. */
struct wefti_retry {
    struct wefti_link link;
    bool (*retry)(struct wefti_retry *retry);
};
bool wefti_retry(struct weft_runtime *rt, struct wefti_retry *retry);

/* -- jobs.c ------------------------------------------------------------------------------------------ */
/* Take the oldest public job of another worker and run it.  False: there was none. */
bool wefti_jobs_run_stolen(struct wefti_worker *w);
/* Has any other worker a public job? */
bool wefti_jobs_public(struct wefti_worker *w);

/* -- sim.c ------------------------------------------------------------------------------------------- */
int wefti_sim_init(struct weft_runtime *rt);
void wefti_sim_fini(struct weft_runtime *rt);
int64_t wefti_sim_clock(const struct weft_runtime *rt);
/* A plain thread waits for ever: for a task of this runtime, or (task NULL) for all of them.  If nothing can ever run
 * again it is unregistered, marked dead and woken. */
struct wefti_sim_joiner {
    struct wefti_sim_joiner *next;
    struct weft_task *task;
    struct wefti_park *park;
    bool dead; /* under the simulator's lock */
};
void wefti_sim_join_begin(struct weft_runtime *rt, struct wefti_sim_joiner *joiner);
/* True: it was dead. */
bool wefti_sim_join_end(struct weft_runtime *rt, struct wefti_sim_joiner *joiner);
/* The worker has nothing to run, and would sleep until `until`: look for a deadlock, or move the clock on.
 * True: do not sleep. */
bool wefti_sim_idle(struct wefti_worker *w, int64_t until);
/* A join on the worker itself begins (+1) or ends (-1) to wait for ever. */
void wefti_sim_worker_join(struct weft_runtime *rt, int change);
/* Nothing can ever run again: true once after it was found. */
bool wefti_sim_is_dead(struct weft_runtime *rt);
uint64_t wefti_sim_hash(const struct weft_runtime *rt);
/* A number below that, drawn from the seed, and part of the hash.  By a task. */
uint32_t wefti_sim_draw(struct weft_runtime *rt, uint32_t below);
/* Something real goes on (+1) that a task waits for, or has ended (-1), and the task is ready: meanwhile the clock keeps to the real one. */
void wefti_sim_outside(struct weft_runtime *rt, int change);

#endif
