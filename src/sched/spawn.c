/* spawn.c - making tasks. */
#include "sched/sched.h"

#include <string.h>

/* Always inlined, so that weft_go, where most of this is constant, costs what it needs and no more. */
#define INLINE static inline __attribute__((always_inline))

INLINE void fill(struct weft_task *task, const weft_spec *spec, bool handle) {
    task->name = spec->name ? spec->name : "task";
    task->poll = spec->poll;
    task->drop = spec->drop;
    if (spec->state_size == 0) {
        task->state_at = 0;
        task->pointer = (void *)(uintptr_t)spec->state;
    } else {
        task->state_at = spec->state_size <= sizeof(void *) ? WEFTI_STATE_SMALL : WEFTI_STATE_LARGE;
        if (spec->state)
            memcpy(wefti_task_state(task), spec->state, spec->state_size);
        else
            memset(wefti_task_state(task), 0, spec->state_size);
    }
    wefti_word_spawn(&task->word, handle);
}

/* The spec as this library knows it.  One from an older header is shorter, one from a newer header may be longer as
 * long as what we do not know is zero. */
static int known_spec(const weft_spec *given, weft_spec *known) {
    if (given->size < offsetof(weft_spec, state) || given->size > WEFTI_STRUCT_MAX)
        return -EINVAL;
    for (size_t i = sizeof *known; i < given->size; i++)
        if (((const unsigned char *)given)[i])
            return -E2BIG;
    memset(known, 0, sizeof *known);
    memcpy(known, given, given->size < sizeof *known ? given->size : sizeof *known);
    return 0;
}

/* From outside, or by a worker that is about to sleep: through the global queue, which may refuse. */
static __attribute__((noinline)) int start_outside(struct weft_runtime *rt, struct weft_task *task,
                                                   weft_task **handle) {
    weft_task *before = handle ? *handle : NULL;
    if (handle)
        *handle = task; /* first: once admitted, the task may run, end, and look at where its handle went */
    int error = wefti_inject_admit(&rt->inject, &task->link, rt->global_capacity);
    if (error) {
        /* Nobody has it but, perhaps, a walk over the slabs with a reference: end it as a task ends. */
        if (handle)
            *handle = before;
        wefti_word_to_running(&task->word);
        wefti_word_ref(&task->word); /* ours, until the next line but one */
        wefti_word_to_complete(&task->word);
        if (handle)
            wefti_task_unref(task, WEFTI_JOINABLE);
        wefti_task_unref(task, 0);
        return error;
    }
    wefti_notify(rt, NULL);
    return 0;
}

INLINE int start(struct weft_runtime *rt, struct wefti_worker *w, const weft_spec *spec, weft_task **handle) {
    if (!spec->poll || spec->state_size > WEFT_STATE_MAX)
        return -EINVAL;
    bool inside = w && (!rt || w->rt == rt);
    if (WEFTI_LIKELY(inside)) {
        rt = w->rt;
        if (WEFTI_UNLIKELY(load_relaxed(&rt->phase) >=
                           WEFTI_CANCELLING)) /* stop.c walks again for who read it too early */
            return -ESHUTDOWN;
    } else if (!rt) {
        return -EINVAL;
    }
    struct weft_task *task = wefti_slab_take(&rt->slab, inside ? &w->cache : NULL, spec->state_size);
    if (!task)
        return -ENOMEM;
    fill(task, spec, handle != NULL);
    if (WEFTI_UNLIKELY(!inside || w->parking))
        return start_outside(rt, task, handle);
    wefti_count(&w->counters.spawned, 1);
    if (handle)
        *handle = task;
    w->sched->submit(w, task, WEFTI_SUBMIT_SPAWN);
    return 0;
}

int weft_spawn(weft_runtime *rt, const weft_spec *spec, weft_task **handle) {
    if (!spec)
        return -EINVAL;
    weft_spec known;
    if (WEFTI_UNLIKELY(spec->size != sizeof known)) {
        int error = known_spec(spec, &known);
        if (error)
            return error;
        spec = &known;
    }
    return start(rt, wefti_worker_self(), spec, handle);
}

int weft_go(weft_runtime *rt, weft_poll_fn poll, void *state, weft_task **handle) {
    weft_spec spec = {.size = sizeof spec, .poll = poll, .state = state};
    return start(rt, wefti_worker_self(), &spec, handle);
}
