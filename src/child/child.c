/* child.c - a child that runs: its pipes, signals, its end. */
#define _GNU_SOURCE
#include "child/child.h"
#include "fiber/slice.h"

#include <errno.h>
#include <signal.h>
#include <weft/blocking.h>

#include "io/case.h"

#define PAUSE_MIN                                                                                                      \
    INT64_C(1000000)   /* ns, between two looks, when nothing tells of the end; twice as long each time ... */
#define PAUSE_MAX INT64_C(50000000)  /* ... up to this */
#define LEASH INT64_C(1000000000)    /* ns, that a close waits for one that was killed */

static int pidfd_of(const weft_child *child) { return child->end ? weft_io_fd(child->end) : -1; }

/* Under the lock: see whether it has ended. */
static bool look(weft_child *child) {
    if (!child->ended) {
        int error = wefti_process_reap(pidfd_of(child), child->pid, &child->how.code, &child->how.signal);
        child->ended = error != -EAGAIN;
        child->error = child->ended ? error : 0;
    }
    return child->ended;
}

static bool has_ended(weft_child *child) {
    wefti_lock_take(&child->lock);
    bool ended = look(child);
    wefti_lock_give(&child->lock);
    return ended;
}

weft_io *weft_child_take(weft_child *child, int which) {
    if (!child || which < 0 || which > 2)
        return NULL;
    wefti_lock_take(&child->lock);
    weft_io *io = child->pipe[which];
    child->pipe[which] = NULL;
    wefti_lock_give(&child->lock);
    return io;
}

pid_t weft_child_pid(const weft_child *child) { return child ? child->pid : -EINVAL; }

int weft_child_kill(weft_child *child, int number) {
    if (!child)
        return -EINVAL;
    wefti_lock_take(&child->lock);
    /* A group is named by its leader's number, which is its own until it is reaped. */
    int error = look(child)    ? -ESRCH
                : child->group ? wefti_process_signal(-1, -child->pid, number)
                               : wefti_process_signal(pidfd_of(child), child->pid, number);
    wefti_lock_give(&child->lock);
    return error;
}

/* -- The end -------------------------------------------------------------------------------------------------- */

static int nap_job(void *arg) {
    struct wefti_park park = {0};
    wefti_park_sleep(&park, wefti_clock() + *(int64_t *)arg);
    return 0;
}

/* Until it may have ended. */
static int wait_once(weft_child *child, int64_t *pause, weft_deadline until) {
    if (child->end) {
        weft_case ended = weft_case_io(child->end, WEFT_FD_READ);
        int index = weft_select(&ended, 1, until);
        return index < 0 ? index : ended.result < 0 ? ended.result : 0;
    }
    if (until <= 0 || (until != WEFT_NEVER && weft_now() >= until))
        return -ETIMEDOUT;
    int64_t later = weft_after(*pause), nap = *pause;
    *pause = nap < PAUSE_MAX ? 2 * nap : nap;
    struct wefti_worker *w = wefti_worker_here();
    if (w && w->rt->sim) /* whose time would pass at once, and the child's does not */
        return weft_blocking(nap_job, &nap, NULL, until);
    return weft_sleep_until(later < until ? later : until);
}

int weft_child_wait(weft_child *child, weft_child_end *end, weft_deadline until) {
    wefti_slice_use_heavy(until);
    int64_t pause = PAUSE_MIN;
    if (!child)
        return -EINVAL;
    while (!has_ended(child)) {
        int error = wait_once(child, &pause, until);
        if (error == -ECANCELED && child->leash)
            weft_child_kill(child, SIGKILL);
        if (error && !(error == -ETIMEDOUT && has_ended(child)))
            return error;
    }
    if (child->error)
        return child->error;
    if (end)
        *end = child->how;
    return 0;
}

/* -- Those left alone ------------------------------------------------------------------------------------------ */

static struct {
    struct wefti_lock lock;
    weft_child *first;
} left;

void wefti_child_sweep(void) {
    wefti_lock_take(&left.lock);
    for (weft_child **at = &left.first; *at;) {
        weft_child *child = *at;
        if (has_ended(child)) {
            *at = child->next;
            wefti_free(child, sizeof *child);
        } else {
            at = &child->next;
        }
    }
    wefti_lock_give(&left.lock);
}

static void kill_and_wait(weft_child *child) {
    struct weft_task *self = wefti_fiber_self() ? weft_task_self() : NULL;
    bool shielded = self && weft_shield(self) == 0;
    weft_child_kill(child, SIGKILL);
    struct wefti_worker *w = wefti_worker_here();
    if (!w || !wefti_current(w) || self) /* a poll task cannot wait: it is left */
        (void)weft_child_wait(child, NULL, weft_after(LEASH));
    if (shielded)
        weft_unshield(self);
}

void weft_child_close(weft_child *child) {
    if (!child)
        return;
    for (int i = 0; i < 3; i++)
        weft_close(weft_child_take(child, i));
    if (child->leash && !has_ended(child))
        kill_and_wait(child);
    bool ended = has_ended(child);
    weft_close(child->end);
    child->end = NULL;
    if (ended) {
        wefti_free(child, sizeof *child);
    } else { /* from now on by its number */
        wefti_lock_take(&left.lock);
        child->next = left.first;
        left.first = child;
        wefti_lock_give(&left.lock);
    }
    wefti_child_sweep();
}

/* -- In a select ------------------------------------------------------------------------------------------------- */

static weft_child *child_of(const weft_case *c) { return c->value; }

static void hold(weft_case *c) {
    c->thing = child_of(c)->end;
    c->at = WEFT_FD_READ;
    if (c->thing)
        wefti_case_hold(c);
}
static void drop(weft_case *c) {
    if (c->thing)
        wefti_case_drop(c);
}

static bool try_now(weft_case *c) {
    bool ended = has_ended(child_of(c));
    c->result = ended || c->thing ? 0 : -ENOSYS;
    return ended || !c->thing;
}
static bool served(weft_case *c, struct wefti_waiter *waiter) {
    (void)waiter;
    return try_now(c);
}

static const struct weft_case_kind kind = {.what = "the end of a child",
                                           .try_now = try_now,
                                           .begin = wefti_case_begin,
                                           .end = wefti_case_end,
                                           .served = served,
                                           .hold = hold,
                                           .drop = drop,
                                           .sleep = &wefti_case_sleep};

weft_case weft_case_child(weft_child *child) {
    return (weft_case){.kind = child ? &kind : &wefti_no_case, .value = child};
}
