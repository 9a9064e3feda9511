/* pool.h - a pool of threads for blocking work.  Internal.
 *
 * What.   A queue of jobs and threads that take them, all under one lock.  A job lies on its caller's stack, or in memory of its own when
 *         the caller may go before it (poll tasks, abandon, nobody waits).
 * Words.  Lists, counts, job->state and ->abandoned: under the lock.  The rest of a job is its thread's while it is RUNNING.
 *         calls: callers that may still touch the pool; counted up under the lock, down without.
 * Race.   caller: A1 lock, append, take an idle          thread: B1 lock; the last job is DONE: serve its caller
 *                    thread or start one, unlock                 B2 take the next, else go to the idle list; unlock
 *                 A2 wake the thread, if idle                    B3 wake the caller
 *                 A3 wait until served                           B4 run it, or sleep until woken (A2) or idle too long
 *                 A4 late: lock; QUEUED: take it out             B5 idle too long: lock; still in the list: leave, end
 *                    RUNNING: wait on, or abandon it                else sleep on, the token is on its way
 * Claim.  An accepted job is begun or taken out, once; none waits while a thread is idle; whoever waits is told.
 * Why.    All steps but the waking are under the lock.  A thread goes idle only when it finds the queue empty (B2), so a job that comes
 *         later finds it in the list (A1).  Who is taken from the idle list gets exactly one token, and does not end before.
 *         A thread is started under the lock too: either it exists, or the job is refused or left to others that do.
 *         The end of a call is that of any wait (fiber/wait.h): SERVED is the last touch of a job that lies on a stack.
 * End.    A thread that ends joins the one that ended before it, so that destroy joins the last one only.
 * Reactor.  A job of a runtime with a control thread is accepted or refused by A1 like any other, but HELD in the queue.  Step 2 of the
 *         control thread (C1) lets the threads have it; B1 marks it RETURNING, and step 3 (C2) makes the rest of B1 and B3.
 *           caller: A1 HELD, submit it to the         control: C1 lock; not HELD any more; take an idle
 *                      control thread                              thread or start one, unlock, wake it
 *                   A4 late: take a HELD job out,              C2 lock; ENDED, serve its caller, unlock, wake it
 *                      wait until C1 has passed it
 *         The record is linked in a queue of the control thread from A1 to C1 and from B1 to C2: A4 must not free it in between.  A job that
 *         nobody waits for ends directly (B1) if the pool is not its runtime's own: the runtime may be gone by then.
 *         Each of the two passages counts as a call, which keeps the pool.
 * Checked by.  test/model/blocking.c, test/model/blocking_control.c
 */
#ifndef WEFTI_BLOCKING_POOL_H
#define WEFTI_BLOCKING_POOL_H

#include <weft/blocking.h>

#include "fiber/wait.h"
#include "queue/lock.h"

enum wefti_job_state {
    WEFTI_JOB_NEW,
    WEFTI_JOB_QUEUED,
    WEFTI_JOB_RUNNING,
    WEFTI_JOB_RETURNING, /* it has ended, and the control thread is to tell its caller */
    WEFTI_JOB_ENDED,
};

struct wefti_job {
    struct wefti_io io;            /* first: its way through the control thread */
    struct wefti_job *next, *prev; /* in the queue, or among the running */
    struct weft_pool *pool;
    weft_blocking_fn fn;
    void *arg;
    void (*drop)(void *arg);
    const char *name;
    int64_t began; /* when a thread began it; only for reports */
    uint64_t thread; /* RUNNING: who runs it */
    int error;  /* 0, or -ECANCELED: taken out by whoever closes the pool */
    int result; /* what fn returned */
    uint8_t state;
    bool mandatory;
    bool abandon;   /* the caller may leave while it runs: in memory of its own */
    bool detached;  /* nobody waits: in memory of its own */
    bool abandoned; /* the caller has left */
    _Atomic bool
        held; /* not for threads yet: a simulated runtime's turn, or a control thread, is to release it; written under the lock */
    struct weft_runtime *control; /* the runtime whose control thread it passes through, or NULL */
    /* Of a simulated runtime (turn.c). */
    struct weft_runtime *sim; /* that, or NULL */
    bool outside; /* the simulation goes on without it */
    struct wefti_gate *gate; /* the turn that waits for its end, or NULL */
    struct wefti_waiter waiter;
};

/* Where a turn waits. */
struct wefti_gate {
    struct wefti_park park;
    struct wefti_job *job; /* NULL: it has ended; under the lock */
};

struct wefti_job_list {
    struct wefti_job *first, *last;
    uint32_t count;
};

struct wefti_pool_thread {
    struct wefti_pool_thread *next; /* in the idle list; or the one that ended before */
    struct weft_pool *pool;
    struct wefti_thread os;
    struct wefti_park park;
    struct wefti_nap nap;
    bool idle; /* in the list; under the lock */
};

struct weft_pool {
    struct wefti_annex annex; /* first: of the runtime's own pool */
    struct wefti_lock lock;
    struct wefti_job_list queue, running;
    uint32_t returning; /* jobs in that state */
    struct wefti_pool_thread *idle; /* newest first: those at the end become idle too long */
    struct wefti_pool_thread *dead; /* the last that ended; it has joined those before */
    struct wefti_park *drainer; /* a thread that waits for jobs or threads to end */
    struct weft_runtime *rt; /* of the runtime's own pool */
    uint32_t threads, idle_count, min, max, queue_max, started;
    int64_t keep_alive; /* INT64_MAX: for ever */
    int64_t grace;
    uint64_t completed, refused;
    bool closed; /* takes no jobs */
    bool cut; /* ... and begins only mandatory ones */
    bool ending; /* threads end when they are idle */
    char name[12];
    _Atomic uint64_t calls;
};

/* Does the calling thread run a job of this pool?  Then another one of it would wait for a thread that waits itself. */
bool wefti_pool_is_here(struct weft_pool *pool);
/* A1, A2.  0; -EAGAIN; -ESHUTDOWN.  A job that is held is for later: release. */
int wefti_pool_submit(struct weft_pool *pool, struct wefti_job *job);
/* A1, A2 of the oldest job that is held for that runtime.  The gate is told of its end; NULL: the simulation does not wait for it.
 * False: there is none. */
bool wefti_pool_release(struct weft_pool *pool, const struct weft_runtime *sim, struct wefti_gate *gate);
/* A4.  True: it was QUEUED, not mandatory, and has been taken out: the caller ends it. */
bool wefti_pool_remove(struct weft_pool *pool, struct wefti_job *job);
/* A4.  True: it goes on without its caller, and its memory is not the caller's any more; false: it has ended, and its caller been served. */
bool wefti_pool_abandon(struct weft_pool *pool, struct wefti_job *job);
/* The caller does not touch the pool any more. */
static inline void wefti_pool_call_end(struct weft_pool *pool) {
    sub_release(&pool->calls, 1); /* pairs with destroy */
}

/* -- job.c ---------------------------------------------------------------------------------------------------------- */

/* What is to be done about it when the lock has been given back. */
struct wefti_ended {
    wefti_waker waker;
    struct wefti_job *memory;
    struct weft_runtime *sim;
    struct weft_task *task; /* with a reference, which keeps `sim` alive */
    struct wefti_gate *gate;
};

/* Under the lock: to the end of a list, and out of it. */
void wefti_job_append(struct wefti_job_list *list, struct wefti_job *job);
void wefti_job_unlink(struct wefti_job_list *list, struct wefti_job *job);
/* B1, under the lock: it is in no list any more.  B3, without it.  Of a job with a control thread C2 does both. */
struct wefti_ended wefti_job_end(struct weft_pool *pool, struct wefti_job *job);
void wefti_job_tell(struct wefti_ended *ended);
/* C1 and C2: the functions of a wefti_io. */
uint64_t wefti_job_route(struct wefti_io *io);
void wefti_job_return(struct wefti_io *io);

/* -- thread.c ------------------------------------------------------------------------------------------------------- */

/* Under the lock: one out of the idle list, which is then to be woken; or NULL. */
struct wefti_pool_thread *wefti_pool_take_idle(struct weft_pool *pool);
/* Under the lock.  0; -EAGAIN. */
int wefti_pool_start_thread(struct weft_pool *pool);

/* -- close.c -------------------------------------------------------------------------------------------------------- */

/* No more jobs, and wait until there are none.  0; -ECANCELED; -EBUSY. */
int wefti_pool_close(struct weft_pool *pool, int64_t until);
/* Closed: end it.  0; -EBUSY. */
int wefti_pool_end(struct weft_pool *pool);
/* Under the lock: say which jobs run. */
void wefti_pool_report(struct weft_pool *pool);

/* -- turn.c --------------------------------------------------------------------------------------------------------- */

/* Under the lock: from here on the simulation does not wait for it. */
void wefti_turn_leave(struct weft_pool *pool, struct wefti_job *job);
/* Under the lock: a task of `rt` whose turn it will be to release a job; it counts as a call.  0; -EAGAIN; -ENOMEM; -ESHUTDOWN. */
int wefti_turn_spawn(struct weft_pool *pool, struct weft_runtime *rt);
/* G2, G3: after release, with the gate.  False: it has not ended, and is outside. */
bool wefti_turn_wait(struct weft_pool *pool, struct wefti_gate *gate);

#endif
