/* sim.h - the simulator: virtual time, deadlocks, the hash of what was decided.  Internal. */
#ifndef WEFTI_SCHED_SIM_H
#define WEFTI_SCHED_SIM_H

#include "sched/runtime.h"

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
