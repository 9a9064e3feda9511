/* numbers.h - the numbers by which the scheduling core is tuned.  Internal. */
#ifndef WEFTI_SCHED_NUMBERS_H
#define WEFTI_SCHED_NUMBERS_H

#include <stdint.h>

#define WEFTI_TICK_POLLS 128u                /* B34: polls between two maintenance passes */
#ifndef WEFTI_BATCH_MAX
#define WEFTI_BATCH_MAX 32u /* B27: fetched tasks that a worker keeps to itself, if there are others */
#endif
#define WEFTI_LIFO_MAX 3u /* B19: polls from the LIFO slot in a row */
#define WEFTI_YOUNG_MAX 4u /* tasks in a ring that are left to its owner as long as he gets to them */
#define WEFTI_AVERAGE_START 50000.0 /* B28: assumed ns a poll before anything was measured */
#define WEFTI_LENGTH_START 5000.0 /* the same, where it decides on a wake: docs/decisions/0003 */
#define WEFTI_BUSY_INTERVALS                                                                                           \
    8u /* looks at the global queue, after which a worker that did not run out is taken to be one that does not */
#define WEFTI_GLOBAL_TARGET 1000000.0 /* B28: a global task waits about 1 ms at most */
#ifndef WEFTI_SPIN_MAX
#define WEFTI_SPIN_TIGHT 4u /* W19: tight turns of a search ... */
#define WEFTI_SPIN_MAX 16u /* ... then yielding ones, up to this */
#endif
#define WEFTI_PARK_TIMEOUT INT64_C(10000000) /* B37 */
#define WEFTI_WATCH_TIMEOUT INT64_C(1000000) /* how often a sleeper looks for stuck workers while others run */
#define WEFTI_HELP_AFTER INT64_C(1000000) /* ns without progress after which a busy worker takes over another's tasks */
#define WEFTI_WAKE_WORTH 50000.0 /* ns of waiting work that pay for waking a worker */
#define WEFTI_IO_COMPLETIONS 256u /* B57: I/O events that a worker takes from its poller at a time, unless configured */
#define WEFTI_IO_COMPLETIONS_MAX 65536u /* ... and the most that may be configured */
#define WEFTI_PINNED_MAX 16u /* own fibers in a row, before the scheduler is asked again */
#define WEFTI_PINNED_MORE 48u /* ... and so many more while they are short */
#define WEFTI_SIM_POINTS 8 /* of so many calls that may suspend, and need not, one lets others run: fiber/slice.c */
#define WEFTI_SLICE_START 7 /* look_after of a new fiber: fiber/slice.h */
#define WEFTI_OWED_TIME INT64_C(100000) /* ns for the tasks that wait when a fiber has used up its slice */
#define WEFTI_YIELD_OPS 1024u /* J5: metered ops of a fiber before others run */
#define WEFTI_HELP_MAX 4096u /* polls that wait on one stack, if it is large enough */
#define WEFTI_PREEMPT_MAX 1000u /* R32: preemptions in a row, then the task has failed */
#ifndef WEFTI_GRACE
#define WEFTI_GRACE INT64_C(2000000000) /* R36: how long cancelled tasks and held references may take */
#endif
/* As a config gives it, in ns; WEFT_NEVER is for ever too.  A time that far away can be added to any clock. */
static inline int64_t wefti_grace(int64_t given) {
    return !given ? WEFTI_GRACE : given < 0 || given > INT64_MAX / 2 ? INT64_MAX / 2 : given;
}

#define WEFTI_REASONS 256u

#endif
