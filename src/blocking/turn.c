/* turn.c - jobs that a simulated runtime asks for: each waits for its turn, and the simulation waits for it.
 *
 * What.   Such a job is HELD in the queue, where threads leave it alone, and a task of the simulation (a turn) is spawned with it.  When the
 *         seed lets that run, it hands the oldest held job of its runtime to the threads, and keeps the simulator's own thread from
 *         anything else until the job has ended and its caller is ready.  So jobs begin and end at places in the order that are the
 *         seed's, nothing runs beside them, and no virtual time passes.
 * Late.   A job may need what only a task can give it (a lock, the other end of a pipe): then waiting for it would be for ever.  After
 *         the pool's grace in real time that is said on stderr, and the simulation goes on beside it, with a clock that keeps
 *         to the real one until it has ended (sim.c).
 * Race.   turn: G1 lock, job->gate = mine, unlock     thread: B1 lock, the job is ended: take its gate, unlock
 *               G2 sleep until the token                      B3 wake the caller, then the token
 *               G3 late: lock; not ended: take the
 *                  gate back, count it as outside;
 *                  else sleep for the token
 * Claim.  The gate lies on the turn's stack: nobody touches it after G2 or G3.
 * Why.    Who takes the gate out of the job does so under the lock, and then the turn leaves with the token, or without if it was itself.
 * End.    A turn that is cancelled before it began (weft_runtime_stop, out of patience) hands over a job all the same, and does not wait.
 *         A runtime that spawns nothing any more gives no turns: its jobs go to the threads at once.  A job that nobody waits for, in a pool that
 *         is not its runtime's, may outlive that: when it is late it is not counted.
 *         Turns are counted as callers of the pool, for they may come to it when their caller has given up.
 * Checked by.  test/model/blocking_turn.c, test/api/blocking_sim.c
 */
#include "blocking/pool.h"
#include "sched/spawn.h"

#include <stdio.h>

/* Somebody waits for it, or its runtime does, so that it is not left by that: count it.  Nobody knows when another may end. */
void wefti_turn_leave(struct weft_pool *pool, struct wefti_job *job) {
    job->gate = NULL;
    job->outside = job->detached ? pool->rt == job->sim : !job->abandoned;
    if (job->outside)
        wefti_sim_outside(job->sim, +1);
}

/* Under the lock: it has not ended.  The simulation goes on. */
static void report(struct weft_pool *pool, const char *name) {
    char text[256];
    int size =
        snprintf(text, sizeof text,
                 "weft: pool \"%s\": job \"%s\" has not ended for %d ms, and may wait for a task: the simulation "
                 "goes on beside it, and its order is not the seed's any more\n",
                 pool->name, name, (int)(pool->grace / 1000000));
    wefti_write(2, text, size > 0 && (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

bool wefti_turn_wait(struct weft_pool *pool, struct wefti_gate *gate) {
    if (wefti_park_sleep(&gate->park, wefti_clock() + pool->grace)) /* G2 */
        return true;
    wefti_lock_take(&pool->lock); /* G3 */
    struct wefti_job *job = gate->job;
    if (job) { /* recheck */
        wefti_turn_leave(pool, job);
        report(pool, job->name);
    }
    wefti_lock_give(&pool->lock);
    if (!job)
        wefti_park_sleep(&gate->park, INT64_MAX);
    return !job;
}

/* -- The task ------------------------------------------------------------------------------------------------------- */

struct turn {
    struct weft_pool *pool;
    struct weft_runtime *rt;
    bool begun;
};

static weft_poll take_turn(weft_task *self, void *state) {
    struct turn *turn = state;
    struct wefti_gate gate = {.job = NULL};
    turn->begun = true;
    if (wefti_pool_release(turn->pool, turn->rt, &gate)) /* G1 */
        wefti_turn_wait(turn->pool, &gate);
    return weft_done(self, 0, NULL);
}

static void end_turn(void *state) {
    struct turn *turn = state;
    if (!turn->begun)
        wefti_pool_release(turn->pool, turn->rt, NULL);
    wefti_pool_call_end(turn->pool);
}

int wefti_turn_spawn(struct weft_pool *pool, struct weft_runtime *rt) {
    struct turn turn = {pool, rt, false};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = take_turn;
    spec.drop = end_turn;
    spec.state = &turn;
    spec.state_size = sizeof turn;
    spec.name = "turn of a job";
    return wefti_spawn_freely(rt, &spec, NULL);
}
