/* weft/fork.h - fork and join for computation: loops and divide-and-conquer on all cores.
 *
 * A fork costs a few nanoseconds: the job lives on the caller's stack, and when no other worker took it,
 * the join calls it directly.
 *
 *     static void fib(void *arg) {
 *         struct fib *f = arg;
 *         if (f->n < 2) { f->result = f->n; return; }
 *         struct fib a = { f->n - 1, 0 }, b = { f->n - 2, 0 };
 *         weft_job job;
 *         weft_fork(&job, fib, &b);      // may run elsewhere, from now on
 *         fib(&a);
 *         weft_join_job(&job);           // b is done when this returns
 *         f->result = a.result + b.result;
 *     }
 *
 * Jobs must not wait for anything but their own forks, nor a fiber between a fork and its join.  In a fiber, what nobody took runs
 * on its stack, and while it waits for what was taken, so does its worker: long computations belong in a task, or in
 * weft_parallel_for.  On a thread that is no worker, forks run at the join, in order: the same answer, no parallelism.
 */
#ifndef WEFT_FORK_H
#define WEFT_FORK_H

#include <weft/base.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

typedef void (*weft_job_fn)(void *arg);

/* A forked job.  Lives in the forking function's frame; its fields are weft's. */
typedef struct weft_job {
    weft_job_fn fn;
    void *arg;
    uint32_t state;
    uint32_t reserved;
} weft_job;

/* Offer fn(arg) to other workers.  Every fork must be joined by the same function call that forked it, newest
 * first.  What the caller wrote before is visible to the job. */
WEFT_API void weft_fork(weft_job *job, weft_job_fn fn, void *arg);

/* Finish the newest fork: run it here unless it was taken, else wait for it (running other jobs meanwhile).
 * What the job wrote is visible afterwards. */
WEFT_API void weft_join_job(weft_job *job);

/* Call body(begin', end', arg) over disjoint parts that cover [begin, end), on all workers, and return when all
 * have ended.  Parts have at most `grain` elements (0 = chosen from the range and the workers).
 * rt NULL = the runtime executing the caller.  From a plain thread with rt given, the thread sleeps
 * meanwhile; a fiber waits, also if it is cancelled, and the parts run elsewhere, on the threads' own stacks.  Returns 0; -EINVAL (no body, no runtime); else as weft_spawn. */
typedef void (*weft_range_fn)(size_t begin, size_t end, void *arg);
WEFT_API int weft_parallel_for(weft_runtime *rt, size_t begin, size_t end, size_t grain, weft_range_fn body, void *arg);

/* Reduce [begin, end): `map` folds a part into an accumulator that was first copied from `identity`,
 * `combine` folds `right` into `left`.  Accumulators are `acc_size` bytes (at most 256) and are combined in the order
 * of the range, with the same shape every time for the same range and grain: floating-point results are
 * the same on any number of workers.  `result` receives the total (the identity for an empty range).
 * Returns as weft_parallel_for; -EINVAL also for an acc_size of 0 or above 256. */
typedef void (*weft_map_fn)(size_t begin, size_t end, void *acc, void *arg);
typedef void (*weft_combine_fn)(void *left, const void *right, void *arg);
WEFT_API int weft_parallel_reduce(weft_runtime *rt, size_t begin, size_t end, size_t grain, size_t acc_size,
                                  const void *identity, weft_map_fn map, weft_combine_fn combine, void *arg,
                                  void *result);

WEFT_EXTERN_C_END
#endif
