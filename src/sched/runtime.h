/* runtime.h - the runtime: its workers, what they share, and what has been hung on it.  Internal. */
#ifndef WEFTI_SCHED_RUNTIME_H
#define WEFTI_SCHED_RUNTIME_H

#include <weft/runtime.h>

#include "queue/inject.h"
#include "queue/nodes.h"
#include "sched/idle.h"
#include "sched/scheduler.h"
#include "sched/worker.h"

enum wefti_phase {
    WEFTI_OPEN, /* takes tasks from anywhere */
    WEFTI_CLOSING, /* from its own tasks only, until none is left */
    WEFTI_CANCELLING, /* from nobody; all tasks are cancelled */
    WEFTI_STOPPED, /* workers leave their loops */
};

/* What layers above have hung on the runtime, to end with it, in this order: the first field of each. */
enum { WEFTI_ANNEX_POOL, WEFTI_ANNEX_PROCESSES, WEFTI_ANNEX_NET, WEFTI_ANNEX_RESOLVER, WEFTI_ANNEXES };

struct wefti_annex {
    /* The runtime takes nothing from outside any more: what waits for that must learn of it.  May be called again.  May be NULL, as the
     * next two. */
    void (*closing)(struct wefti_annex *annex);
    /* All tasks have ended: let the rest end until `until`.  0; -ECANCELED (some of it was dropped); -EBUSY (it does not end, as was said on
     * stderr).  May be called again. */
    int (*stop)(struct wefti_annex *annex, int64_t until);
    /* Tasks do not end: say on stderr what they may be waiting for. */
    void (*report)(struct wefti_annex *annex);
    /* After stop.  0: it is gone; -EBUSY: it is used still. */
    int (*end)(struct wefti_annex *annex);
    /* For dumps, of any poll task: what it waits for when it is idle, or NULL if it is none of its.  May be NULL. */
    const char *(*describe)(struct weft_task *task);
};

/* State of the simulator, of the reactor; sim.c, reactor.h. */
struct wefti_sim;
struct wefti_reactor;

struct weft_runtime {
    const struct wefti_sched *sched;
    uint32_t workers; /* final once the gate is open */
    uint32_t allocated; /* length of the worker array */
    uint32_t cpus; /* that we may use */
    _Atomic uint32_t gate; /* futex word: 1 once the threads may begin */
    bool driven;
    bool uring; /* its workers wait with io_uring, if they get one */
    bool heavy_fence; /* the system has it */
    uint32_t bias_streak; /* queue/bias.h */
    bool lifo_stealing; /* ... and there is somebody to steal from */
    uint32_t global_capacity;
    uint32_t max_io_completions; /* I/O events per wait of a poller */
    uint32_t max_processes; /* 0: as many as the table has */
    int64_t park_timeout; /* INT64_MAX: none */
    int64_t grace; /* as in the config: wefti_grace */
    _Atomic bool fiber_was_stopped; /* wefti_fiber_stop: handles may lie in a stack that nobody returns to */
    int64_t grace_ops; /* unpaid ops of a cancelled, exhausted fiber before it is stopped; 0: none */
    uint64_t seed;
    weft_wake_fn wake;
    void *wake_arg;
    char name[12];

    _Alignas(64) _Atomic uint32_t phase;
    _Atomic uint32_t stopping; /* 1: a thread is in weft_runtime_stop ... */
    struct wefti_park stopper; /* ... and sleeps here */
    _Atomic uint32_t driver; /* 1: a thread is running or sleeping as the driven worker */
    struct wefti_idle idle;
    struct wefti_inject inject;
    struct wefti_slab slab;
    struct wefti_nodes labels; /* of tasks: label.h */
    struct wefti_stack_pool stacks;
    uint32_t stack_log2; /* of fibers that do not say */
    uint32_t yield_ops; /* metered ops after which a fiber lets others run */
    _Atomic bool has_fibers;
    _Atomic bool limited; /* spawns are asked about: there is a profile, or a fiber with a budget */
    bool trusted; /* the next spawn is the first task of weft_run: it needs no capability */
    weft_profile profile;
    struct weft_fund *fund; /* budget/profile.h */
    struct wefti_caps *caps; /* budget/cap.h */
    _Atomic uint64_t denied;
    _Atomic bool failed; /* a detached fiber has failed, and was reported */
    struct wefti_sim *sim;
    _Atomic(struct wefti_annex *) annex[WEFTI_ANNEXES]; /* NULL, or set once */
    struct wefti_reactor *reactor;
    struct wefti_worker *control; /* of a central scheduler, behind the workers: a thread, a park, all timers */
    _Atomic(const char *) reasons[WEFTI_REASONS]; /* what tasks wait for; [0] is unused */
    struct wefti_worker *worker; /* array */
    _Atomic uint64_t *seen; /* polls of each worker at the last look of the watch */
};

#endif
