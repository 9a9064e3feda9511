/* task.h - the task object: one cache line that every schedulable thing begins with.
 *
 * Sixty-four bytes with a pointer of state: a million waiting tasks are 64 MB, and spawning, running and joining a small one
 * touches a single line.  What is not here: the runtime (the slab's chunk knows it, slab.h), and the name of what the task waits for
 * (by the word's sub-state or the status, or found by looking who has registered it as joiner). */
#ifndef WEFTI_TASK_TASK_H
#define WEFTI_TASK_TASK_H

#include <weft/task.h>

#include "base/link.h"
#include "task/word.h"

/* Who a finished task tells: a task (one reference of it) or a sleeping thread.  0 = nobody.
 * sched/wake.c has the one function that wakes it. */
typedef uintptr_t wefti_waker;

struct weft_task {
    /* These four stay readable after the task was freed: for slab.c, walks, and messages about dropped handles. */
    struct wefti_link link; /* whoever has taken it out of a queue, or is about to put it in */
    wefti_word word;
    const char *name;
    _Atomic wefti_waker joiner; /* word.h, rule 3; atomic only because dumps look at it */

    union {
        weft_poll_fn poll; /* until COMPLETE */
        void *value;       /* the result, after: word.h, rule 4 */
    };
    void (*drop)(void *state);
    _Atomic int
        status; /* the result; before, of whoever has it in a queue; of an IDLE poll task, what it waits for and since when (waits.h; atomic for dumps) */
    /* Where the inline state begins (0: `pointer` is the caller's state), the size class (slab.h), and WEFTI_IS_FIBER. */
    uint8_t layout;
    /* How many locks name this task as their owner, in steps of WEFTI_OWNS_ONE; and WEFTI_LABELLED.  From WEFTI_OWNS_MANY on it is not
     * counted any more.  Only the task itself counts (sync/sync.h). */
    uint8_t owns;
    uint16_t home; /* of a fiber that has begun: its worker's index + 1, or WEFTI_HOME_ANY; else 0 */
    void *pointer; /* ... or up to 8 bytes of inline state */
    /* Inline state of more than 8 bytes begins at the next line: aligned for any type. */
};

#define WEFTI_IS_FIBER 0x80u
#define WEFTI_LAYOUT_STATE 0x78u
#define WEFTI_LAYOUT_CLASS 0x07u
#define WEFTI_LABELLED 1u /* `name` is in a label, which is given back before the task is: sched/label.h */
#define WEFTI_OWNS_ONE 2u
#define WEFTI_OWNS_MANY 0xfcu
#define WEFTI_HOME_ANY UINT16_MAX /* it may go on anywhere */
#define WEFTI_STATE_SMALL offsetof(struct weft_task, pointer)
#define WEFTI_STATE_LARGE sizeof(struct weft_task)

_Static_assert(((WEFTI_STATE_SMALL | WEFTI_STATE_LARGE) & ~WEFTI_LAYOUT_STATE) == 0, "bits of `layout`");
_Static_assert(sizeof(struct weft_task) == 64, "one cache line with a pointer of state");
_Static_assert(WEFTI_STATE_LARGE + WEFT_STATE_MAX <= 512, "B2: at most 512 bytes");

static inline void *wefti_task_state(struct weft_task *task) {
    uint8_t at = task->layout & WEFTI_LAYOUT_STATE;
    return at ? (char *)task + at : task->pointer;
}

static inline bool wefti_task_is_fiber(const struct weft_task *task) { return task->layout & WEFTI_IS_FIBER; }

/* Only one worker may run it. */
static inline bool wefti_task_is_pinned(const struct weft_task *task) {
    return (uint16_t)(task->home + 1) > 1; /* neither 0 nor WEFTI_HOME_ANY */
}

/* The size of a task with that much inline state. */
static inline size_t wefti_task_size(size_t state_size) {
    return state_size <= sizeof(void *) ? sizeof(struct weft_task) : WEFTI_STATE_LARGE + state_size;
}

static inline struct weft_task *wefti_task_of(struct wefti_link *link) {
    return (struct weft_task *)(void *)link; /* link is the first field */
}

#endif
