/* parallel.c - loops and reductions on all workers, by halving the range with fork and join.
 *
 * The shape of the halving depends on the range and the grain alone, so a reduction combines in the same order on any number
 * of workers. */
#include <weft/fiber.h>
#include <weft/fork.h>

#include "sched/spawn.h"

#include <string.h>

#define ACC_MAX 256u

struct loop {
    weft_range_fn body;
    weft_map_fn map;
    weft_combine_fn combine;
    const void *identity;
    size_t acc_size, grain;
    void *arg;
};

struct part {
    const struct loop *loop;
    size_t begin, end;
    void *acc; /* reductions: where the part's value goes */
};

static void run_for(void *arg) {
    struct part *part = arg;
    size_t size = part->end - part->begin;
    if (size <= part->loop->grain) {
        part->loop->body(part->begin, part->end, part->loop->arg);
        return;
    }
    size_t middle = part->begin + size / 2;
    struct part left = {part->loop, part->begin, middle, NULL}, right = {part->loop, middle, part->end, NULL};
    weft_job job;
    weft_fork(&job, run_for, &right);
    run_for(&left);
    weft_join_job(&job);
}

static void run_reduce(void *arg) {
    struct part *part = arg;
    const struct loop *loop = part->loop;
    size_t size = part->end - part->begin;
    memcpy(part->acc, loop->identity, loop->acc_size);
    if (size <= loop->grain) {
        loop->map(part->begin, part->end, part->acc, loop->arg);
        return;
    }
    size_t middle = part->begin + size / 2;
    _Alignas(64) unsigned char acc[ACC_MAX];
    struct part left = {loop, part->begin, middle, part->acc}, right = {loop, middle, part->end, acc};
    weft_job job;
    weft_fork(&job, run_reduce, &right);
    run_reduce(&left);
    weft_join_job(&job);
    loop->combine(part->acc, acc, loop->arg);
}

struct root {
    void (*run)(void *);
    struct part *part;
};

static weft_poll run_root(weft_task *self, void *state) {
    struct root *root = state;
    root->run(root->part);
    return weft_done(self, 0, NULL);
}

/* The parts lie on our stack: a fiber that has been cancelled waits for them all the same. */
static int join_root(weft_task *task, weft_result *result) {
    weft_task *self = weft_in_fiber() ? weft_task_self() : NULL;
    bool shielded = self && weft_shield(self) == 0; /* else it is shielded already, 255 deep */
    int error = weft_join(task, result, WEFT_NEVER);
    if (shielded)
        weft_unshield(self);
    return error;
}

/* Here if we are a worker of rt, else in a task while this thread sleeps.  A fiber's stack may be small, and what the loop calls may
 * expect a large one: from there in a task, too. */
static int run_on(weft_runtime *rt, void (*run)(void *), struct part *part) {
    struct wefti_worker *w = wefti_worker_self();
    if (w && (!rt || w->rt == rt) && !weft_in_fiber()) {
        run(part);
        return 0;
    }
    struct root root = {run, part};
    weft_spec spec = WEFT_SPEC_INIT;
    spec.poll = run_root;
    spec.state = &root;
    spec.name = "parallel loop";
    weft_task *task;
    int error = wefti_spawn_freely(rt, &spec, &task);
    if (error)
        return error;
    weft_result result;
    error = join_root(task, &result);
    weft_task_drop(task);
    return error ? error : result.status;
}

/* About eight parts a worker: enough to even out, few enough to cost nothing.  For reductions a fixed number instead, since
 * the shape must not depend on the workers. */
static size_t choose_grain(weft_runtime *rt, size_t size, size_t grain, bool fixed) {
    if (grain)
        return grain;
    struct wefti_worker *w = wefti_worker_self();
    size_t workers = rt ? rt->workers : w ? w->rt->workers : 1;
    size_t parts = fixed ? 256 : workers * 8;
    return size / parts ? size / parts : 1;
}

int weft_parallel_for(weft_runtime *rt, size_t begin, size_t end, size_t grain, weft_range_fn body, void *arg) {
    if (!body || (!rt && !wefti_worker_self()))
        return -EINVAL;
    if (begin >= end)
        return 0;
    struct loop loop = {.body = body, .arg = arg};
    loop.grain = choose_grain(rt, end - begin, grain, false);
    struct part part = {&loop, begin, end, NULL};
    return run_on(rt, run_for, &part);
}

int weft_parallel_reduce(weft_runtime *rt, size_t begin, size_t end, size_t grain, size_t acc_size,
                         const void *identity, weft_map_fn map, weft_combine_fn combine, void *arg, void *result) {
    if (!map || !combine || !identity || !result || acc_size == 0 || acc_size > ACC_MAX ||
        (!rt && !wefti_worker_self()))
        return -EINVAL;
    if (begin >= end) {
        memcpy(result, identity, acc_size);
        return 0;
    }
    struct loop loop = {.map = map, .combine = combine, .identity = identity, .acc_size = acc_size, .arg = arg};
    loop.grain = choose_grain(rt, end - begin, grain, true);
    _Alignas(64) unsigned char acc[ACC_MAX];
    struct part part = {&loop, begin, end, acc};
    int error = run_on(rt, run_reduce, &part);
    if (!error)
        memcpy(result, acc, acc_size);
    return error;
}
