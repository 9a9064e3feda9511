/* join.c - waiting for a task to end: from a fiber, from a poll, from a worker that helps, from a plain thread that sleeps.
 *
 * All register one waker in task->joiner (word.h, rule 3).  Once registered there are two ways out: take the waker back
 * before the task is COMPLETE, or be woken by it.  A thread's waker lives on its stack, so it never leaves otherwise.
 */
#include "fiber/slice.h"
#include "fiber/wait.h"

static void read_result(struct weft_task *task, weft_result *result) {
    if (result)
        *result = wefti_task_result(task); /* COMPLETE was seen */
}

int weft_join_poll(weft_task *handle, weft_task *self, weft_result *result) {
    CHECK_HANDLE(handle);
    if (!handle || !self)
        return -EINVAL;
    if (handle == self)
        return -EDEADLK;
    if (wefti_slice_poll(self))
        return -EAGAIN;
    if (!wefti_word_is_complete(&handle->word)) {
        if (!wefti_word_join_begin(&handle->word)) { /* somebody waits already: we, from an earlier poll? */
            /* JOINED: then the joiner is there, and if it is ours, we have stored it ourselves. */
            bool ours =
                (load_relaxed(&handle->word) & WEFTI_JOINED) && load_relaxed(&handle->joiner) == wefti_waker_task(self);
            if (!wefti_word_is_complete(&handle->word))
                return ours ? wefti_poll_waits(-EAGAIN, WEFTI_A_TASK) : -EBUSY;
        } else {
            wefti_word_ref(&self->word);
            store_relaxed(&handle->joiner, wefti_waker_task(self)); /* published by register */
            if (wefti_word_join_register(&handle->word))
                return wefti_poll_waits(-EAGAIN, WEFTI_A_TASK);
            wefti_task_unref(self, 0);
        }
    }
    read_result(handle, result);
    return 0;
}

/* Between begin and end the worker may turn and sleep.  False: nested too deep already, or on a fiber's stack.  (Not inlined: gcc 12 would take what it stores for
 * an address that outlives its frame; help_end takes it back.) */
static __attribute__((noinline)) bool help_begin(struct wefti_worker *w, struct wefti_help *help) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    /* Only on the loop's own stack.  What is called at the end of a fiber, as the release function of a message that it has not read, is nobody's
     * code (no task is current), but lies on that fiber's stack, from which the loop cannot be left for another. */
    if (w->help_depth == WEFTI_HELP_MAX || here < w->stack_limit || here > w->stack_top)
        return false;
    w->help_depth++;
    w->loop_only++;
    struct weft_task *task = wefti_current(w);
    if (task && wefti_word_life(load_relaxed(&task->word)) == WEFTI_SCHEDULED) /* ours: others change its flags only */
        wefti_word_to_running(
            &task->word); /* what runs on top of it will be the current one: for dumps and the simulator */
    *help = (struct wefti_help){w->help, wefti_current(w), w->done,
                                w->waits}; /* the tasks that run on top of this one set their own */
    w->help = help;
    return true;
}

static void help_end(struct wefti_worker *w, const struct wefti_help *help) {
    wefti_worker_found(w); /* our poll goes on: we do not search any more, though we may have been woken for it */
    if (w->central)
        w->sched->resume(w);
    wefti_set_current(w, help->current);
    w->done = help->done;
    w->waits = help->waits;
    w->help = help->below;
    w->help_depth--;
    w->loop_only--;
}

/* Is the task running on this worker, at the top or below others that wait? */
static bool is_on_stack(const struct wefti_worker *w, const struct weft_task *task) {
    if (wefti_current(w) == task)
        return true;
    for (const struct wefti_help *help = w->help; help; help = help->below)
        if (help->current == task)
            return true;
    return false;
}

/* On a worker: run other tasks until this one has ended; sleep as an idle worker does. */
static __attribute__((noinline)) int join_helping(struct wefti_worker *w, struct weft_task *task, int64_t until) {
    struct weft_runtime *rt = w->rt;
    struct wefti_help help;
    int error = 0;
    bool registered = false, forever = until == WEFT_NEVER;
    if (!help_begin(w, &help))
        return -EDEADLK;
    while (!wefti_word_is_complete(&task->word)) {
        if (!forever && weft_now() >= until) {
            error = -ETIMEDOUT;
            break;
        }
        if (wefti_worker_turn(w))
            continue;
        if (!registered) { /* only before sleeping: most joins never get here */
            if (!wefti_word_join_begin(&task->word)) {
                error = wefti_word_is_complete(&task->word) ? 0 : -EBUSY;
                break;
            }
            store_relaxed(&task->joiner, wefti_waker_thread(&w->park)); /* published by register */
            registered = wefti_word_join_register(&task->word);
            if (registered && forever && rt->sim)
                wefti_sim_worker_join(rt, +1);
            continue; /* look at everything once more */
        }
        wefti_worker_sleep(w, until);
        if (rt->sim && wefti_sim_is_dead(rt)) {
            error = -EDEADLK;
            break;
        }
    }
    help_end(w, &help);
    if (registered && forever && rt->sim)
        wefti_sim_worker_join(rt, -1);
    if (error && registered && !wefti_word_join_unregister(&task->word))
        error = 0; /* it ended just now */
    return error;
}

static __attribute__((noinline)) int join_sleeping(struct weft_task *task, int64_t until) {
    struct weft_runtime *rt = wefti_task_rt(task);
    struct wefti_park park = {0};
    struct wefti_sim_joiner joiner = {NULL, task, &park, false};
    bool watched = rt->sim && until == WEFT_NEVER;
    if (!wefti_word_join_begin(&task->word))
        return wefti_word_is_complete(&task->word) ? 0 : -EBUSY;
    store_relaxed(&task->joiner, wefti_waker_thread(&park)); /* published by register */
    if (!wefti_word_join_register(&task->word))
        return 0;
    if (watched)
        wefti_sim_join_begin(rt, &joiner);
    if (!wefti_park_sleep(&park, until)) {
        if (wefti_word_join_unregister(&task->word))
            return -ETIMEDOUT;
        wefti_park_sleep(&park, INT64_MAX); /* it ended just now, and its waker is on its way to our stack */
    }
    return watched && wefti_sim_join_end(rt, &joiner) ? -EDEADLK : 0;
}

static bool is_complete(void *task) { return wefti_word_is_complete(&((struct weft_task *)task)->word); }

/* In a fiber: its worker runs others, and comes back when the task has ended. */
static int join_suspending(struct wefti_fiber *self, struct weft_task *task, int64_t until) {
    if (!wefti_word_join_begin(&task->word))
        return wefti_word_is_complete(&task->word) ? 0 : -EBUSY;
    wefti_word_ref(&self->task.word);
    store_relaxed(&task->joiner, wefti_waker_task(&self->task)); /* published by register */
    if (!wefti_word_join_register(&task->word)) {
        wefti_task_unref(&self->task, 0);
        return 0;
    }
    int error = wefti_fiber_wait(self, is_complete, task, until, NULL);
    if (error && !wefti_word_join_unregister(&task->word))
        return 0; /* it ended just now; the completer has the reference */
    if (error)
        wefti_task_unref(&self->task, 0);
    return error;
}

static __attribute__((noinline)) int join_waiting(weft_task *handle, weft_result *result, weft_deadline until) {
    struct wefti_worker *w = wefti_worker_of(wefti_task_rt(handle));
    struct wefti_fiber *fiber = wefti_fiber_self();
    /* A fiber lies on no other's stack: polls that help below it go on as soon as it waits. */
    if (fiber ? &fiber->task == handle : w && is_on_stack(w, handle))
        return -EDEADLK;
    uint64_t word = load_relaxed(&handle->word); /* a look; join_begin decides */
    if (WEFTI_UNLIKELY(!(word & WEFTI_JOINABLE)))
        wefti_handle_is_dropped(handle, "weft_join");
    if (word & (WEFTI_JOINING | WEFTI_JOINED))
        return -EBUSY;
    if (until <= 0)
        return -ETIMEDOUT;
    if (!w && wefti_is_forked())
        return -ENOTRECOVERABLE;
    int error = fiber ? join_suspending(fiber, handle, until)
                : w   ? join_helping(w, handle, until)
                      : join_sleeping(handle, until);
    if (!error)
        read_result(handle, result);
    return error;
}

static __attribute__((noinline)) int yield_and_join(struct weft_task *handle, weft_result *result, int64_t until) {
    wefti_slice_end(until);
    if (!wefti_word_is_complete(&handle->word))
        return join_waiting(handle, result, until);
    read_result(handle, result);
    return 0;
}

int weft_join(weft_task *handle, weft_result *result, weft_deadline until) {
    CHECK_HANDLE(handle);
    if (WEFTI_UNLIKELY(!handle))
        return -EINVAL;
    if (wefti_slice_spend(wefti_worker_self()))
        return yield_and_join(handle, result, until);
    if (!wefti_word_is_complete(&handle->word))
        return join_waiting(handle, result, until);
    read_result(handle, result);
    return 0;
}
