/* task.h - the task object: what every schedulable thing begins with. */
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
    struct weft_runtime *rt;

    weft_poll_fn poll;
    void (*drop)(void *state);
    _Atomic(const char *) waits_for; /* written by the runner, read by dumps */
    wefti_waker joiner;              /* word.h, rule 3 */
    void *value;                     /* the result: word.h, rule 4 */
    int status;
    uint8_t size_class; /* slab.h */
    uint8_t outside;    /* state is the caller's pointer, kept in state[0] */
    uint16_t unused;
    _Alignas(8) unsigned char state[]; /* inline state */
};

_Static_assert(sizeof(struct weft_task) <= 96, "the smallest task is 128 bytes with 32 of state");
_Static_assert(sizeof(struct weft_task) + WEFT_STATE_MAX <= 512, "B2: at most 512 bytes");

static inline void *wefti_task_state(struct weft_task *task) {
    return task->outside ? *(void **)(void *)task->state : task->state;
}

static inline struct weft_task *wefti_task_of(struct wefti_link *link) {
    return (struct weft_task *)(void *)link; /* link is the first field */
}

#endif
