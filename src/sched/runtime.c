/* runtime.c - configuration, creation and destruction of a runtime. */
#include "sched/spawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct wefti_sched *const scheds[] = {
    [WEFT_SCHED_DEFAULT] = &wefti_sched_ring, [WEFT_SCHED_RING] = &wefti_sched_ring,
    [WEFT_SCHED_DEQUE] = &wefti_sched_deque,  [WEFT_SCHED_FIFO] = &wefti_sched_fifo,
    [WEFT_SCHED_SIM] = &wefti_sched_sim,      [WEFT_SCHED_REACTOR] = &wefti_sched_reactor,
};
#define HELD_MAX 8u /* tasks that a refused destroy names */
#define SCHEDS (sizeof scheds / sizeof scheds[0])

/* A whole decimal number from the environment.  0 when unset; -EINVAL when malformed. */
static int env_number(const char *name, uint64_t *value) {
    const char *text = wefti_env(name);
    if (!text || !*text)
        return 0;
    uint64_t number = 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number))
            return -EINVAL;
    }
    *value = number;
    return 0;
}

/* Which of the settings it is, in the config or in the environment: say so, since no code can. */
static int bad(const char *name, const char *value, const char *expected) {
    char text[256];
    int size = snprintf(text, sizeof text, "weft: %s=%.64s: expected %s\n", name, value, expected);
    wefti_write(2, text, size > 0 ? (size_t)size : 0);
    return -EINVAL;
}

static int bad_field(const char *name, uint64_t value, const char *expected) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return bad(name, text, expected);
}

/* The caller's config as this library knows it, then the environment on top. */
static int settle(const weft_config *given, weft_config *config) {
    *config = (weft_config)WEFT_CONFIG_INIT;
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    if (given) {
        int error = wefti_known_struct(given, offsetof(weft_config, workers), config, sizeof *config);
        if (error)
            return error == -EINVAL ? bad_field("config.size", given->size, "WEFT_CONFIG_INIT's") : error;
        config->size = sizeof *config;
    }
    const char *sched = wefti_env("WEFT_SCHED");
    if (sched && *sched) {
        unsigned found = 0;
        for (unsigned i = 1; i < SCHEDS; i++)
            if (!strcmp(scheds[i]->name, sched))
                found = i;
        if (!found)
            return bad("WEFT_SCHED", sched, "ring, deque, fifo, sim or reactor");
        config->sched = (weft_sched)found;
    }
    static const char workers_expected[] = "a number up to 1024";
    uint64_t workers = config->workers, seed = config->seed;
    if (env_number("WEFT_WORKERS", &workers) || workers > WEFTI_WORKERS_MAX)
        return wefti_env("WEFT_WORKERS") && *wefti_env("WEFT_WORKERS")
                   ? bad("WEFT_WORKERS", wefti_env("WEFT_WORKERS"), workers_expected)
                   : bad_field("config.workers", workers, workers_expected);
    if (env_number("WEFT_SEED", &seed))
        return bad("WEFT_SEED", wefti_env("WEFT_SEED"), "a decimal number of 64 bits");
    const char *io = wefti_env("WEFT_IO");
    if (io && *io) {
        static const char *const names[] = {"auto", "epoll", "uring"};
        unsigned found = 0;
        while (found < 3 && strcmp(names[found], io))
            found++;
        if (found == 3)
            return bad("WEFT_IO", io, "epoll, uring or auto");
        config->poller = (weft_poller)found;
    }
    if ((unsigned)config->sched >= SCHEDS)
        return bad_field("config.sched", (unsigned)config->sched, "a weft_sched");
    if ((unsigned)config->poller > WEFT_POLLER_URING)
        return bad_field("config.poller", (unsigned)config->poller, "a weft_poller");
    if ((unsigned)config->profile > WEFT_PROFILE_SOVEREIGN)
        return bad_field("config.profile", (unsigned)config->profile, "a weft_profile");
    if (!wefti_stack_log2(config->stack_size))
        return bad_field("config.stack_size", config->stack_size, "1 GiB at most");
    if (config->max_io_completions > WEFTI_IO_COMPLETIONS_MAX)
        return bad_field("config.max_io_completions", config->max_io_completions, "a number up to 65536");
    config->workers = (unsigned)workers;
    config->seed = seed;
    return 0;
}

static void init_worker(struct weft_runtime *rt, uint32_t index, bool no_steal) {
    struct wefti_worker *w = &rt->worker[index];
    w->rt = rt;
    w->index = index;
    wefti_worker_share(w, rt->workers > 1 && !no_steal);
    w->driven = rt->driven && index == 0;
    w->central = rt->sched->central;
    w->loop_only = (uint16_t)(w->driven + w->central);
    w->home = rt->sim ? WEFTI_HOME_ANY : (uint16_t)(index + 1);
    w->tick_left = WEFTI_TICK_POLLS;
    w->average = WEFTI_AVERAGE_START;
    /* (deque pushes what it fetches from outside as its own: there the longer guess stays) */
    w->length = rt->sched == &wefti_sched_ring ? WEFTI_LENGTH_START : WEFTI_AVERAGE_START;
    w->global_interval = w->global_left = (uint32_t)(WEFTI_GLOBAL_TARGET / WEFTI_AVERAGE_START);
    w->measure_began = wefti_clock();
    w->watched_polls = UINT64_MAX;
    w->slice_polls = UINT64_MAX;
    w->look_after = w->central ? 0 : WEFTI_SLICE_START;
    store_relaxed(&w->timers_next, INT64_MAX); /* before any other thread */
    w->timers.tick = (uint64_t)(w->rt->sim ? 0 : w->measure_began / WEFTI_WHEEL_TICK);
    wefti_random_init(&w->random, rt->seed + index * UINT64_C(0x9E3779B97F4A7C15));
}

static void release(struct weft_runtime *rt, size_t allocated) {
    wefti_slab_fini(&rt->slab);
    wefti_nodes_fini(&rt->labels);
    wefti_stack_pool_fini(&rt->stacks);
    wefti_sim_fini(rt);
    wefti_profile_fini(rt);
    if (rt->sched->fini)
        rt->sched->fini(rt);
    if (rt->seen)
        wefti_free(rt->seen, allocated * sizeof *rt->seen);
    for (uint32_t i = 0; rt->worker && i < allocated; i++) {
        struct wefti_watch *watch = rt->worker[i].watch;
        wefti_signal_stack_free(rt->worker[i].signal_stack);
        if (watch) {
            watch->forget(&rt->worker[i]);
            wefti_poller_close(&watch->poller);
            wefti_free(watch, wefti_watch_size(rt));
        }
    }
    if (rt->worker)
        wefti_free(rt->worker, allocated * sizeof *rt->worker);
    wefti_free(rt, sizeof *rt);
    wefti_fork_unwatch();
}

/* Workers find each other through rt->workers, which must be final before the first of them looks: the threads wait at a
 * gate until we know how many could be started. */
static void pass_gate(_Atomic uint32_t *gate) {
    while (load_acquire(gate) == 0) /* pairs with open_gate: the number of workers */
        wefti_futex_wait(gate, 0, INT64_MAX);
}
static void open_gate(struct weft_runtime *rt) {
    store_release(&rt->gate, 1); /* pairs with pass_gate */
    wefti_futex_wake(&rt->gate, INT32_MAX);
}

static void thread_main(void *arg) {
    struct wefti_worker *w = arg;
    pass_gate(&w->rt->gate);
    wefti_worker_main(w);
    if (w->watch) {
        w->watch->forget(w); /* now, not when we are destroyed: tasks of another runtime may wait for what we watch */
        wefti_poller_quit(&w->watch->poller);
    }
}

static void control_main(void *arg) {
    struct weft_runtime *rt = arg;
    pass_gate(&rt->gate);
    rt->sched->control(rt);
}

static int start_threads(struct weft_runtime *rt) {
    int error = 0;
    char name[16];
    uint32_t started = rt->driven ? 1 : 0;
    if (rt->control) {
        snprintf(name, sizeof name, "%s:ctl", rt->name);
        error = wefti_thread_start(&rt->control->thread, control_main, rt, name);
        if (error)
            return error;
    }
    for (; started < rt->workers; started++) {
        snprintf(name, sizeof name, "%s-%u", rt->name, (unsigned)started % 1000);
        error = wefti_thread_start(&rt->worker[started].thread, thread_main, &rt->worker[started], name);
        if (error)
            break;
    }
    if (started == 0) {
        if (rt->control) {
            rt->sched->stop(rt);
            open_gate(rt);
            wefti_thread_join(&rt->control->thread);
        }
        return error;
    }
    rt->workers = rt->idle.workers = started; /* go on with those we got */
    rt->bias_streak = !rt->heavy_fence ? 0 : started > 1 ? WEFTI_BIAS_STREAK : WEFTI_BIAS_STREAK_ALONE;
    rt->lifo_stealing = started > 1 && rt->heavy_fence;
    for (uint32_t i = 0; i < started; i++)
        wefti_worker_share(&rt->worker[i], rt->worker[i].shared && started > 1);
    open_gate(rt);
    return 0;
}

static int create(weft_config config, weft_runtime **out) {
    int error;
    struct weft_runtime *rt = wefti_alloc(sizeof *rt);
    if (!rt)
        return -ENOMEM;
    rt->sched = scheds[config.sched];
    rt->cpus = wefti_cpu_count();
    rt->workers = rt->sched->one_thread ? 1 : config.workers ? config.workers : rt->cpus;
    if (rt->workers > WEFTI_WORKERS_MAX)
        rt->workers = WEFTI_WORKERS_MAX;
    rt->driven = config.driven;
    rt->stack_log2 = wefti_stack_log2(config.stack_size ? config.stack_size : (size_t)1 << WEFTI_STACK_DEFAULT_LOG);
    wefti_fork_watch();
    rt->max_processes = config.max_processes;
    rt->global_capacity = config.global_capacity ? config.global_capacity : 65536;
    rt->max_io_completions = config.max_io_completions ? config.max_io_completions : WEFTI_IO_COMPLETIONS;
    rt->park_timeout = config.park_timeout_ns == 0  ? WEFTI_PARK_TIMEOUT
                       : config.park_timeout_ns < 0 ? INT64_MAX
                                                    : config.park_timeout_ns;
    rt->grace = config.grace_ns;
    rt->seed = config.seed ? config.seed : rt->sched->one_thread ? 1 : wefti_random_seed();
    rt->uring = config.poller == WEFT_POLLER_URING && wefti_uring_probe() == 0;
    rt->wake = config.wake;
    rt->wake_arg = config.wake_arg;
    snprintf(rt->name, sizeof rt->name, "%s", config.name ? config.name : "weft");
    rt->idle.workers = rt->workers;
    wefti_slab_init(&rt->slab, rt);
    wefti_stack_pool_init(&rt->stacks);
    rt->heavy_fence = wefti_fence_heavy_init() == 0;
    uint32_t allocated = rt->workers + (rt->sched->control ? 1 : 0);
    rt->worker = wefti_alloc(allocated * sizeof *rt->worker);
    rt->seen = wefti_alloc(allocated * sizeof *rt->seen);
    if (!rt->worker || !rt->seen) {
        error = -ENOMEM;
        goto fail;
    }
    if (rt->sched->one_thread && (error = wefti_sim_init(rt)))
        goto fail;
    if ((error = wefti_profile_init(rt, &config)))
        goto fail;
    rt->allocated = allocated;
    for (uint32_t i = 0; i < allocated; i++)
        init_worker(rt, i, config.no_steal);
    if (rt->sched->control) {
        rt->control = &rt->worker[rt->workers];
        if ((error = rt->sched->init(rt)))
            goto fail;
    }
    if ((error = start_threads(rt)))
        goto fail;
    if (rt->driven) { /* announced as asleep until it is driven for the first time */
        rt->worker[0].parking = true;
        wefti_idle_announce(&rt->idle, 0);
    }
    *out = rt;
    return 0;
fail:
    release(rt, allocated);
    return error;
}

int weft_runtime_create(const weft_config *given, weft_runtime **out) {
    weft_config config;
    if (!out)
        return -EINVAL;
    int error = settle(given, &config);
    return error ? error : create(config, out);
}

/* Handles and wakers of tasks that have ended may still be in other threads' hands, who may be about to use them: give them
 * a moment to drop them.  This is the end of a program's life with us, so looking now and then is good enough. */
static bool wait_unreferenced(struct weft_runtime *rt) {
    int64_t give_up = wefti_clock() + wefti_grace(rt->grace), pause = 10000;
    while (wefti_slab_in_use(&rt->slab, NULL, 0)) {
        int64_t now = wefti_clock();
        if (now >= give_up)
            return false;
        wefti_park_sleep(&rt->stopper, now + pause);
        pause = pause < 1000000 ? 2 * pause : pause;
    }
    return true;
}

/* Reports the tasks of which something is held by name: whoever is to drop it knows them. */
static void report_held(struct weft_runtime *rt, const char *what) {
    const char *names[HELD_MAX];
    char text[768], name[WEFTI_NAME_ROOM];
    uint32_t held = wefti_slab_in_use(&rt->slab, names, HELD_MAX);
    int size = snprintf(text, sizeof text, "weft: destroy: %s (%u):", what, held);
    for (uint32_t i = 0; i < held && i < HELD_MAX; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "%s \"%s\"", i ? "," : "",
                         wefti_printable(names[i], name, sizeof name)); /* HELD_MAX of them fit */
    size += snprintf(text + size, sizeof text - (size_t)size, held > HELD_MAX ? ", ...\n" : "\n");
    wefti_write(2, text, (size_t)size);
}

int weft_runtime_destroy(weft_runtime *rt) {
    if (!rt)
        return 0;
    int result = weft_runtime_stop(rt, WEFT_NOW);
    if (result == -EBUSY || result == -EDEADLK || result == -ENOTRECOVERABLE)
        return result;
    if (!wait_unreferenced(rt)) {
        bool lost = load_relaxed(&rt->fiber_was_stopped) && wefti_slab_has_only_handles(&rt->slab); /* all has ended */
        report_held(rt, lost ? "handles of tasks that a stopped fiber has not dropped"
                             : "handles or wakers of tasks are still held");
        if (!lost)
            return -EBUSY;
    }
    if (wefti_annexes_stop(rt, 0) == -EBUSY)
        return -EBUSY;
    for (int i = 0; i < WEFTI_ANNEXES; i++) {
        struct wefti_annex *annex = wefti_annex(rt, i);
        if (annex && annex->end(annex))
            return -EBUSY;
        store_relaxed(&rt->annex[i], NULL); /* only we use the runtime any more */
    }
    release(rt, rt->allocated);
    return 0;
}

int wefti_run_first(const weft_config *given, int (*spawn)(weft_runtime *rt, void *arg, weft_task **task), void *arg,
                    weft_result *result) {
    weft_config config;
    weft_runtime *rt;
    weft_task *task;
    weft_result ended = {0, NULL};
    int error = settle(given, &config);
    config.driven = false;
    if (error || (error = create(config, &rt)))
        return error;
    rt->trusted = rt->profile == WEFT_PROFILE_SOVEREIGN; /* for the first task: taken back before that can run */
    error = spawn(rt, arg, &task);
    if (!error) {
        error = weft_join(task, &ended, WEFT_NEVER);
        weft_task_drop(task);
    }
    /* Told to wait for ever, a stop cancels only what `sim` found to be deadlocked. */
    if (weft_runtime_stop(rt, error ? WEFT_NOW : WEFT_NEVER) == -ECANCELED && !error)
        error = -EDEADLK;
    if (weft_runtime_destroy(rt) && !error)
        error = -EBUSY;
    if (!error && result)
        *result = ended;
    return error ? error : ended.status;
}

struct main_task {
    weft_poll_fn poll;
    void *state;
};

static int spawn_main(weft_runtime *rt, void *arg, weft_task **task) {
    struct main_task *main = arg;
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = main->poll;
    spec.state = main->state;
    spec.name = "main";
    return weft_spawn(rt, &spec, task);
}

int weft_run(const weft_config *config, weft_poll_fn poll, void *state, weft_result *result) {
    struct main_task main = {poll, state};
    return wefti_run_first(config, spawn_main, &main, result);
}

weft_runtime *weft_runtime_current(void) {
    struct wefti_worker *w = wefti_worker_self();
    return w ? w->rt : NULL;
}

unsigned weft_runtime_workers(const weft_runtime *rt) { return rt ? rt->workers : 0; }

const char *weft_runtime_poller(const weft_runtime *rt) { return !rt ? NULL : rt->uring ? "uring" : "epoll"; }

const char *weft_runtime_sched(const weft_runtime *rt) { return rt ? rt->sched->name : NULL; }

int64_t weft_now(void) {
    struct wefti_worker *w = wefti_worker_self();
    return w && w->rt->sim ? wefti_sim_clock(w->rt) : wefti_clock();
}

weft_deadline weft_after(int64_t ns) {
    int64_t now = weft_now();
    if (ns <= 0)
        return now;
    return ns > INT64_MAX - now ? WEFT_NEVER : now + ns;
}
