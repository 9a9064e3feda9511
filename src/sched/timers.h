/* timers.h - the timers of the workers, and the clocks.  Internal. */
#ifndef WEFTI_SCHED_TIMERS_H
#define WEFTI_SCHED_TIMERS_H

#include "sched/runtime.h"
#include "task/waits.h"

/* By the running task, on its worker. */
void wefti_alarm_set(struct wefti_worker *w, struct wefti_alarm *alarm, struct weft_task *task, int64_t until);
/* Before the alarm's memory goes: from any worker of the runtime. */
void wefti_alarm_clear(struct wefti_alarm *alarm);
/* The timers and descriptors of a worker that is busy, now and then. */
void wefti_worker_look(struct wefti_worker *w);
/* Ring what is due in the wheel of `owner`; by any worker of its runtime, or its control thread.  How many. */
uint64_t wefti_timers_run(struct wefti_worker *owner, int64_t now);
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

#endif
