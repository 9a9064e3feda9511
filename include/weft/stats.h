/* weft/stats.h - counters, a dump of every task, and the simulator's fingerprint.
 * Reading never stops a worker; each counter is exact, the set is not one instant. */
#ifndef WEFT_STATS_H
#define WEFT_STATS_H

#include <weft/base.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

typedef struct weft_stats {
    size_t size;          /* sizeof(weft_stats), set by the caller before the call */
    uint64_t polls;       /* tasks entered */
    uint64_t spawned;     /* tasks created */
    uint64_t completed;   /* tasks ended, cancelled ones included */
    uint64_t cancelled;   /* tasks ended without being entered again after a cancel */
    uint64_t lifo_hits;   /* polls of a task from the LIFO slot */
    uint64_t steals;      /* successful steals */
    uint64_t stolen;      /* tasks that came with them */
    uint64_t searches;    /* times a worker found nothing of its own and wanted to look further */
    uint64_t parks;       /* times a worker went to sleep */
    uint64_t wakes;       /* sleeping workers that this worker woke */
    uint64_t overflows;   /* times a full local queue moved half to the global one */
    uint64_t global_fetches; /* batches taken from the global queue */
    uint64_t ticks;       /* maintenance passes */
    uint64_t jobs_stolen; /* forked jobs taken from another worker */
    uint64_t exhausted;   /* times a fiber could not pay */
    uint64_t denied;      /* calls refused for want of a capability, or by the profile; only for worker -1 */
    uint64_t io_batches;  /* times the poller returned I/O events; each time at most max_io_completions of them */
    uint64_t io_events;   /* I/O events that it returned */
    uint64_t failed; /* detached tasks and fibers that ended with an error other than -ECANCELED, see weft_spawn */
} weft_stats;

/* Counters of one worker; for worker -1 the sum over all workers, with the tasks that came from outside in `spawned`.
 * Returns 0; -EINVAL (no such worker, size too small to be any version). */
WEFT_API int weft_stats_read(const weft_runtime *rt, int worker, weft_stats *out);

/* What the control thread of a `reactor` runtime has done.  Its loop makes nine steps per round:
 *   1 results      2 I/O submissions   3 I/O completions
 *   4 timers       5 channel waiters   6 injector
 *   7 preemption   8 dispatch          9 wait
 * steps[i] and items[i] belong to step i + 1. */
typedef struct weft_reactor_stats {
    size_t size; /* sizeof(weft_reactor_stats), set by the caller before the call */
    uint64_t steps[9]; /* how often each step was made */
    uint64_t active; /* workers that have something to run now; each runs one task at a time ... */
    uint64_t active_max; /* ... and the most there ever were */
    uint64_t ready; /* tasks that wait, and are not assigned to a worker */
    uint64_t dispatched; /* tasks handed to workers, several at a time if they are short */
    uint64_t results; /* times a worker was heard to be free again */
    uint64_t preempts; /* requests to let others run */
    uint64_t taken_back; /* tasks that a worker had not begun when another was free; they are dispatched again */
    /* Items that each step has handled:
     *   1 workers that reported, tasks that yielded or were preempted, and ended tasks that a task joins
     *   2 blocking jobs routed to a pool
     *   3 blocking jobs whose end was reported to their callers
     *   4 sleepers woken
     *   5 channel waiters resolved
     *   6 tasks taken out of the injector
     *   7 preemption requests
     *   8 tasks, and orders to take forked jobs, handed to workers
     *   9 waits that an event ended */
    uint64_t items[9];
} weft_reactor_stats;
/* Reads the figures above.  Sets out->size to the number of bytes filled in.
 *
 * Returns 0, or
 *   -EINVAL  no runtime, not a `reactor` runtime, no `out`, or a size that no version ever had
 * May be called from any thread. */
WEFT_API int weft_reactor_stats_read(const weft_runtime *rt, weft_reactor_stats *out);

/* How many workers sleep now, and how many are searching. */
WEFT_API unsigned weft_stats_parked(const weft_runtime *rt);
WEFT_API unsigned weft_stats_searching(const weft_runtime *rt);
/* Tasks that have been spawned and have not ended. */
WEFT_API uint64_t weft_stats_live(const weft_runtime *rt);

/* Write to a file descriptor: every worker; every live task with name, state, what it waits for, and for how long (to a tick of its worker, a poll
 * task to 17 ms modulo 13 days; under `sim` in virtual time).  A poll task waits for what it says itself (weft_task_waits_for), or for that of the
 * last _poll call which returned -EAGAIN.  Of a fiber also who has the mutex or rwlock it waits for, and whose nursery it is in: fibers and their
 * nurseries by name, the outermost first.  (A nursery that a thread or a poll task has opened is not named.)
 * Safe at any time, from any thread.  Returns 0 or a negative errno value from writing. */
WEFT_API int weft_dump(weft_runtime *rt, int fd);

/* Under `sim`: a hash over every scheduling decision so far.  Two runs with the same seed, program and
 * configuration have the same value at the same point.  0 for the other schedulers. */
WEFT_API uint64_t weft_sim_hash(const weft_runtime *rt);

WEFT_EXTERN_C_END
#endif
