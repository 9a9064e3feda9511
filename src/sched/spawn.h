/* spawn.h - making a task in steps: room for it, its fields, then the scheduler. */
#ifndef WEFTI_SCHED_SPAWN_H
#define WEFTI_SCHED_SPAWN_H

#include "base/known.h"
#include "sched/sched.h"

/* A slot, and where its task will go. */
struct wefti_room {
    struct weft_runtime *rt;
    struct wefti_worker *w; /* the calling worker, if it is one of rt's */
    struct weft_task *task; /* nothing but the size class is filled in */
    void (*undo)(struct weft_task *task); /* called when it is refused after all; NULL: nothing to do */
    bool urgent; /* from outside it is admitted also if the global queue is at its capacity */
};

/* rt NULL: the caller's.  Returns 0; -EINVAL (no runtime); -ESHUTDOWN; -ENOMEM. */
int wefti_spawn_room(struct weft_runtime *rt, size_t state_size, struct wefti_room *room);
/* The fields are filled in, but the task is not to be: gives back its slot, and its label if it has one. */
void wefti_spawn_unroom(const struct wefti_room *room);
/* All fields but the word are filled in: go.  On failure the task is gone, and its drop function was not called.
 * Returns 0; -EAGAIN; -ESHUTDOWN. */
int wefti_spawn_submit(const struct wefti_room *room, weft_task **handle);

/* The calling worker, if a task of `rt` (NULL: the caller's) is spawned there and nobody needs to be asked; else NULL. */
static inline struct wefti_worker *wefti_spawn_worker(const struct weft_runtime *rt) {
    struct wefti_worker *w = wefti_worker_self();
    if (WEFTI_UNLIKELY(!w || (rt && rt != w->rt) || w->parking))
        return NULL;
    if (WEFTI_UNLIKELY(load_relaxed(&w->rt->phase) >=
                       WEFTI_CANCELLING)) /* stop.c walks again for who read it too early */
        return NULL;
    if (WEFTI_UNLIKELY(load_relaxed(&w->rt->limited))) /* set before there is anybody to ask about */
        return NULL;
    return w;
}

/* The same as submit for a task of that worker: cannot fail. */
static inline void wefti_spawn_here(struct wefti_worker *w, struct weft_task *task, weft_task **handle) {
    wefti_word_spawn(&task->word, handle != NULL);
    wefti_count(&w->counters.spawned, 1);
    if (handle)
        *handle = task;
    w->sched->submit(w, task, WEFTI_SUBMIT_SPAWN);
}

/* The same in two steps, for those who make the task known to others before it is queued: wefti_word_spawn(&task->word, handle wanted),
 * and then this.  A reference of one's own keeps it from being gone on failure. */
int wefti_spawn_submit_born(const struct wefti_room *room, weft_task **handle);
/* ... or this, if it is not to be: as when submit_born refuses it. */
void wefti_spawn_refuse(const struct wefti_room *room, bool handle);

/* weft_spawn for the library's own tasks: no profile forbids them, and nobody pays. */
int wefti_spawn_freely(struct weft_runtime *rt, const weft_spec *spec, weft_task **handle);

#endif
