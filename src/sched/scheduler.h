/* scheduler.h - the interface of a scheduler: what it must define.  Internal. */
#ifndef WEFTI_SCHED_SCHEDULER_H
#define WEFTI_SCHED_SCHEDULER_H

#include "task/task.h"

struct wefti_worker;

/* The tasks that wait in a worker's queues. */
struct wefti_line {
    uint64_t oldest; /* a number that changes when the oldest of them is taken */
    uint32_t length;
};

/* Why a task is handed to the scheduler. */
enum wefti_submit {
    WEFTI_SUBMIT_SPAWN, /* new */
    WEFTI_SUBMIT_WAKE,  /* was idle */
    WEFTI_SUBMIT_AGAIN, /* has just run and wants to run again: after the others */
};

/* A scheduler: where tasks wait and in which order they come out.  `w` is always the calling worker. */
struct wefti_sched {
    const char *name;
    const struct wefti_sched *alone; /* the same, for a worker of whom nobody takes anything; NULL: this one does */
    bool one_thread; /* only worker 0 exists */
    bool wake_each; /* K3: every submit wakes a sleeper, also while another searches */
    bool central; /* a control thread hands out all tasks: workers do not search, and do not keep their fibers either */
    /* Take a task that has just become SCHEDULED; never fails.  (What outside threads submit goes to the global queue
     * without the scheduler: wefti_submit.) */
    void (*submit)(struct wefti_worker *w, struct weft_task *task, enum wefti_submit why);
    /* The next task from the worker's own sources and the global queue, or NULL. */
    struct weft_task *(*next)(struct wefti_worker *w);
    /* One pass over the others; `last` = the pass before sleeping.  NULL when nothing was found. */
    struct weft_task *(*steal)(struct wefti_worker *w, bool last);
    /* Is there anything that `w` could take, apart from what its owner keeps to itself?  After fence F2. */
    bool (*has_work)(struct wefti_worker *w);
    /* How many tasks wait in the worker's own queues and the global one, where others could take them.  May be NULL. */
    uint32_t (*waiting)(struct wefti_worker *w);
    /* The watch: does somebody seem stuck who keeps work to himself that a last pass of `steal` would take?  May be NULL. */
    bool (*stuck)(struct wefti_worker *w);
    /* Help (worker.c): what waits in the queues of another worker, where `w` could take it.  A hint.  May be NULL. */
    struct wefti_line (*line)(struct wefti_worker *other);
    /* ... take half of it, which goes into our own queues but for the one that is returned.  NULL: nothing was there. */
    struct weft_task *(*steal_from)(struct wefti_worker *w, struct wefti_worker *victim);
    /* Before sleeping: make everything public that the worker keeps to itself.  May be NULL. */
    void (*flush)(struct wefti_worker *w);

    /* Of a central scheduler. */
    int (*init)(struct weft_runtime *rt); /* 0 or -ENOMEM */
    void (*fini)(struct weft_runtime *rt); /* also after init was not called, or failed */
    /* The control thread, from when the number of workers is final; returns after `stop`, which is called when all workers have left. */
    void (*control)(struct weft_runtime *rt);
    void (*stop)(struct weft_runtime *rt);
    /* The task that the worker was given has ended, waits, or was submitted AGAIN. */
    void (*done)(struct wefti_worker *w);
    /* The running poll has called wefti_worker_turn while it waited (it may have not), and goes on. */
    void (*resume)(struct wefti_worker *w);
    /* A task that another task joins is COMPLETE: the control thread wakes the joiner, and drops the scheduler's reference. */
    void (*ended)(struct wefti_worker *w, struct weft_task *task);
    /* A line for dumps, as snprintf. */
    int (*describe)(struct weft_runtime *rt, char *text, size_t room);
};

extern const struct wefti_sched wefti_sched_ring, wefti_sched_deque, wefti_sched_fifo, wefti_sched_sim,
    wefti_sched_reactor;

#endif
