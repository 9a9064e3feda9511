/* worker.h - a worker: what it owns, and what others may touch.  Internal. */
#ifndef WEFTI_SCHED_WORKER_H
#define WEFTI_SCHED_WORKER_H

#include <weft/runtime.h>

#include "base/random.h"
#include "plat/plat.h"
#include "queue/deque.h"
#include "queue/mpsc.h"
#include "queue/nodes.h"
#include "queue/ring.h"
#include "sched/lifo.h"
#include "sched/nap.h"
#include "sched/numbers.h"
#include "sched/park.h"
#include "stack/stack.h"
#include "task/slab.h"
#include "task/task.h"
#include "time/alarm.h"

/* Counters of one worker, written by it alone: load_own + store_relaxed, see wefti_count. */
struct wefti_counters {
    _Atomic uint64_t polls, spawned, completed, cancelled, lifo_hits, steals, stolen, searches, parks, wakes, overflows,
        global_fetches, ticks, jobs_stolen, exhausted, io_batches, io_events, failed;
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
    struct wefti_poll_event events[]; /* room for the poller's batch */
};

struct wefti_worker {
    /* The worker's own. */
    struct weft_runtime *rt;
    const struct wefti_sched *sched;
    uint32_t index;
    bool shared;            /* other workers may take our tasks */
    bool alone;             /* the only worker that its runtime ever has, and it finds its tasks itself */
    bool watch_found;       /* ... it has found `watched` stuck: the next steal is to take what it holds */
    bool driven;            /* no thread: weft_drive */
    union {
        struct {
            bool parking; /* B21: between announcing and being back */
            bool central; /* runs only what the control thread hands it */
        };
        uint16_t elsewhere; /* one of them: what is ready must go to another queue than ours */
    };
    uint8_t waits;          /* what the running poll would wait for: task/waits.h */
    union {
        struct {
            bool searching;  /* counted in idle.searching */
            bool owes_watch; /* worker.c: the watch */
            uint16_t
                loop_only; /* reasons why fibers do not follow each other without the loop: driven, central, each poll that waits on our stack */
        };
        uint32_t unusual; /* one of them is not 0 */
    };
    struct wefti_help *help; /* the newest poll on our stack that waits */
    uint32_t help_depth; /* how many there are */
    uintptr_t stack_limit; /* of the thread that runs us: do not nest below */
    uintptr_t stack_top; /* ... where its loop begins: what is above is another stack */
    _Atomic(struct weft_task *) current; /* what runs: wefti_current; atomic for those who look (weft_task_state) */
    int64_t calls_left; /* fiber/slice.h: what calls may spend before the next look; 64 bits, so that it never wraps */
    weft_result done; /* what the running poll left with weft_done */
    uint32_t tick_left; /* polls until the next maintenance */
    uint32_t global_left; /* polls until the global queue is looked at first */
    uint32_t global_interval;
    uint32_t busy_intervals; /* of those, since it last ran out of tasks of its own */
    int64_t spill_seen; /* when it last took the oldest of the global queue's spill */
    uint32_t lifo_polls; /* in a row */
    uint32_t watched; /* the worker we suspect of being stuck */
    uint64_t measured_from; /* counters.polls at measure_began */
    int64_t measure_began;
    double average; /* ns a poll: B28 */
    double length; /* the same from a shorter start: what a task in our own queue is taken to need */
    uint64_t last_look; /* ring.c: at a worker with a few tasks: its polls, and who it is */
    uint64_t watched_polls; /* how many polls `watched` had made; UINT64_MAX: nobody is suspected */
    /* Its two words are stored together and read one by one.  Across two cache lines each read would wait for the store: a select over 8
     * channels took 10 % longer. */
    _Alignas(16) struct wefti_random random;
    struct wefti_slab_cache cache;
    struct wefti_thread thread;

    /* Fibers (fiber/runner.c, fiber/switch.c). */
    struct wefti_chain pinned; /* those of ours that are ready, in order */
    uint16_t home; /* of fibers that begin here (task.h) */
    uint32_t pinned_left; /* how many of them run before the scheduler is asked */
    uint32_t pinned_more; /* ... so many more than usual, while polls are short */
    uint32_t own_left, own_given; /* how many may follow each other without a look at any other count: fiber/runner.c */
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

    /* The slice of the running task (fiber/slice.h). */
    uint64_t slice_polls; /* the poll in which the last look was */
    int64_t slice_began, slice_looked; /* the clock at the first look in it, and at the last one */
    int64_t slice_spent; /* units up to the last look ... */
    int64_t slice_given; /* ... and what calls_left was set to after it */
    uint32_t slice_left, slice_looks; /* weft_checkpoint: calls until it looks again, of how many */
    int8_t look_after; /* of poll tasks: as the field of a fiber */

    struct wefti_wheel timers; /* under timers_lock, if there are other workers */
    struct wefti_watch *watch; /* NULL: no descriptors */
    struct wefti_nodes_cache messages; /* process/message.c */
    struct wefti_chain slots; /* process/table.c: free ones */
    int64_t met; /* sync/barge.c: when one of our fibers last found taken what it wanted */
    uint32_t look_left; /* polls until the clock and the descriptors are looked at; 0: there are none */
    struct wefti_nap nap;
    uint32_t timers_helped; /* whose overdue timers we have looked at last */
    uint32_t helped; /* wefti_worker_help: the worker that we keep an eye on ... */
    uint64_t help_oldest; /* ... the oldest task that waits there ... */
    int64_t help_since; /* ... since when it does, as far as we know ... */
    int64_t help_seen; /* ... and when we looked last; 0: never */
    uint32_t oldest_left; /* deque.c: oldest tasks that may still run in a row; 0: it is not their turn ... */
    int64_t oldest_until; /* ... which ends then */
    uint32_t owed,
        owed_made; /* tasks that come before our fibers, and how many have: they waited when one of these had used up its slice ... */
    int64_t owed_until; /* ... and no longer than until then; 0: one of our fibers has had its turn since */

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

#endif
