/* spawn.c - making tasks. */
#include "sched/spawn.h"
#include "sched/label.h"

#include "task/account.h"

#include <string.h>

/* Always inlined, so that weft_go, where most of this is constant, costs what it needs and no more. */
#define INLINE static inline __attribute__((always_inline))

INLINE void fill(struct weft_task *task, const weft_spec *spec) {
    task->name = spec->name ? spec->name : "task";
    task->poll = spec->poll;
    task->drop = spec->drop;
    task->home = 0;
    if (spec->state_size == 0) {
        task->pointer = (void *)(uintptr_t)spec->state;
    } else {
        task->layout |= spec->state_size <= sizeof(void *) ? WEFTI_STATE_SMALL : WEFTI_STATE_LARGE;
        if (spec->state)
            memcpy(wefti_task_state(task), spec->state, spec->state_size);
        else
            memset(wefti_task_state(task), 0, spec->state_size);
    }
}

/* It is not to be queued after all.  Nobody has it but, perhaps, a walk over the slabs with a reference: end it as a task ends. */
static void refuse(struct weft_task *task, void (*undo)(struct weft_task *task), bool handle) {
    if (wefti_task_is_fiber(task) && wefti_fiber_of(task)->account)
        wefti_account_undo(wefti_fiber_of(task));
    if (undo)
        undo(task);
    wefti_word_ref(&task->word); /* ours, until the next line but one */
    wefti_word_to_complete(&task->word);
    if (handle)
        wefti_task_unref(task, WEFTI_JOINABLE);
    wefti_task_unref(task, 0);
}

void wefti_spawn_refuse(const struct wefti_room *room, bool handle) { refuse(room->task, room->undo, handle); }

/* From outside, or by a worker that is about to sleep: through the global queue, which may refuse. */
static __attribute__((noinline)) int start_outside(struct weft_runtime *rt, struct weft_task *task,
                                                   void (*undo)(struct weft_task *task), weft_task **handle,
                                                   bool urgent) {
    weft_task *before = handle ? *handle : NULL;
    if (handle)
        *handle = task; /* first: once admitted, the task may run, end, and look at where its handle went */
    int error = wefti_inject_admit(&rt->inject, &task->link, urgent ? UINT32_MAX : rt->global_capacity);
    if (error) {
        if (handle)
            *handle = before;
        refuse(task, undo, handle != NULL);
        return error;
    }
    wefti_notify(rt, NULL);
    return 0;
}

INLINE int submit_born(struct weft_runtime *rt, struct wefti_worker *w, struct weft_task *task,
                       void (*undo)(struct weft_task *task), weft_task **handle, bool urgent) {
    if (WEFTI_UNLIKELY(!w || w->parking))
        return start_outside(rt, task, undo, handle, urgent);
    wefti_count(&w->counters.spawned, 1);
    if (handle)
        *handle = task;
    w->sched->submit(w, task, WEFTI_SUBMIT_SPAWN);
    return 0;
}

INLINE int submit_new(struct weft_runtime *rt, struct wefti_worker *w, struct weft_task *task,
                      void (*undo)(struct weft_task *task), weft_task **handle) {
    wefti_word_spawn(&task->word, handle != NULL);
    return submit_born(rt, w, task, undo, handle, false);
}

INLINE int find_room(struct weft_runtime *rt, struct wefti_worker *w, size_t state_size, struct wefti_room *room) {
    bool inside = w && (!rt || w->rt == rt);
    if (WEFTI_LIKELY(inside)) {
        rt = w->rt;
        if (WEFTI_UNLIKELY(load_relaxed(&rt->phase) >=
                           WEFTI_CANCELLING)) /* stop.c walks again for who read it too early */
            return -ESHUTDOWN;
    } else if (wefti_is_forked() || !rt) {
        return wefti_is_forked() ? -ENOTRECOVERABLE : -EINVAL;
    }
    room->rt = rt;
    room->w = inside ? w : NULL;
    room->undo = NULL;
    room->urgent = false;
    room->task = wefti_slab_take(&rt->slab, inside ? &w->cache : NULL, state_size);
    return room->task ? 0 : -ENOMEM;
}

int wefti_spawn_room(struct weft_runtime *rt, size_t state_size, struct wefti_room *room) {
    return find_room(rt, wefti_worker_self(), state_size, room);
}

void wefti_spawn_unroom(const struct wefti_room *room) {
    if (room->task->owns & WEFTI_LABELLED)
        wefti_label_take(room->rt, room->task);
    wefti_slab_give(&room->rt->slab, room->w ? &room->w->cache : NULL, room->task);
}

int wefti_spawn_submit(const struct wefti_room *room, weft_task **handle) {
    return submit_new(room->rt, room->w, room->task, room->undo, handle);
}

int wefti_spawn_submit_born(const struct wefti_room *room, weft_task **handle) {
    return submit_born(room->rt, room->w, room->task, room->undo, handle, room->urgent);
}

INLINE int start_freely(struct weft_runtime *rt, struct wefti_worker *w, const weft_spec *spec, weft_task **handle) {
    struct wefti_room room;
    if (!spec->poll || spec->state_size > WEFT_STATE_MAX)
        return -EINVAL;
    int error = find_room(rt, w, spec->state_size, &room);
    if (error)
        return error;
    fill(room.task, spec);
    return submit_new(room.rt, room.w, room.task, NULL, handle);
}

int wefti_spawn_freely(struct weft_runtime *rt, const weft_spec *spec, weft_task **handle) {
    return start_freely(rt, wefti_worker_self(), spec, handle);
}

static __attribute__((noinline)) int start_limited(struct weft_runtime *rt, const weft_spec *spec, weft_task **handle) {
    int error = wefti_admit_poll(rt);
    if (error)
        return error;
    error = start_freely(rt, wefti_worker_here(), spec, handle); /* we may be on another worker by now */
    if (error)
        wefti_admit_refund(rt);
    return error;
}

INLINE int start(struct weft_runtime *rt, struct wefti_worker *w, const weft_spec *spec, weft_task **handle) {
    struct weft_runtime *to = w && !rt ? w->rt : rt;
    if (WEFTI_UNLIKELY(to && load_relaxed(&to->limited))) /* set before there is anybody to ask about */
        return start_limited(to, spec, handle);
    return start_freely(rt, w, spec, handle);
}

int weft_spawn(weft_runtime *rt, const weft_spec *spec, weft_task **handle) {
    if (!spec)
        return -EINVAL;
    weft_spec known;
    if (WEFTI_UNLIKELY(spec->size != sizeof known)) {
        int error = wefti_known_struct(spec, offsetof(weft_spec, state), &known, sizeof known);
        if (error)
            return error;
        spec = &known;
    }
    return start(rt, wefti_worker_self(), spec, handle);
}

static __attribute__((noinline)) int go_slowly(weft_runtime *rt, weft_poll_fn poll, void *state, weft_task **handle) {
    weft_spec spec = {.size = sizeof spec, .poll = poll, .state = state};
    return start(rt, wefti_worker_self(), &spec, handle);
}

/* All that calls others comes last, so that the usual way needs no frame. */
int weft_go(weft_runtime *rt, weft_poll_fn poll, void *state, weft_task **handle) {
    struct wefti_worker *w = wefti_spawn_worker(rt);
    struct weft_task *task = WEFTI_LIKELY(w && poll) ? wefti_slab_take_loaded(&w->cache, 0) : NULL;
    if (WEFTI_UNLIKELY(!task))
        return go_slowly(rt, poll, state, handle);
    fill(task, &(weft_spec){.poll = poll, .state = state});
    wefti_spawn_here(w, task, handle);
    return 0;
}
