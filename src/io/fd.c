/* fd.c - waiting for descriptors of other libraries.
 *
 * They open, close and reuse them behind our back, so nothing about one is kept longer than somebody waits: each wait has a
 * descriptor of its own in its worker's poller, by way of a duplicate, since a poller takes each number once only.  Armed for one
 * event at a time: level-triggered. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "fiber/slice.h"
#include "io/desc.h"

/* A plain thread; a duplicate, so that the number may be closed and used again meanwhile. */
static int thread_waits(int fd, int events, int64_t until) {
    int twin = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (twin < 0)
        return -errno;
    int result = wefti_fd_sleep(twin, (uint32_t)events, -1, until);
    if (!result)
        result = wefti_fd_state(twin, (uint32_t)events);
    close(twin);
    return result;
}

int wefti_desc_arm(struct weft_io *io, struct wefti_worker *w, uint32_t what) {
    struct wefti_worker *watcher = load_relaxed(&io->watcher); /* the lock orders it */
    bool again = watcher == w;
    if (watcher && !again) { /* a fiber that migrates */
        wefti_poller_remove(&watcher->watch->poller, io->fd);
        store_relaxed(&io->watcher, NULL);
    }
    int error = wefti_poller_arm(&w->watch->poller, io->fd, io, what, again);
    if (!error) {
        store_relaxed(&io->watcher, w);
        io->either = true;
    }
    return error;
}

/* Wait for one event, or for no reason.  0; a negative error. */
static int wait_once(struct weft_io *io, int events, int64_t until) {
    struct wefti_worker *w = wefti_worker_here();
    uint32_t unused;
    int error = wefti_watch_begin(w);
    if (error)
        return error;
    wefti_desc_lock(io);
    error = wefti_desc_arm(io, w, (uint32_t)events);
    if (!error)
        return wefti_desc_wait(io, w, WEFTI_IN, &unused, until);
    wefti_desc_unlock(io);
    return error;
}

static int fiber_waits(int fd, int events, int64_t until) {
    int twin = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (twin < 0)
        return -errno;
    weft_io *io;
    int ready, error = wefti_desc_new(twin, 0, &io);
    if (error) {
        close(twin);
        return error;
    }
    do {
        error = wait_once(io, events, until);
        ready = wefti_fd_state(twin, (uint32_t)events);
    } while (!error && !ready);
    weft_close(io);
    if (error == -EPERM) /* a file is always ready */
        return events;
    return ready ? ready : error;
}

int weft_fd_wait(int fd, int events, weft_deadline until) {
    wefti_slice_use_heavy(until);
    struct wefti_worker *w = wefti_worker_here();
    struct weft_task *task = w ? wefti_current(w) : NULL;
    if (!events || (events & ~(WEFT_FD_READ | WEFT_FD_WRITE)) || (task && !wefti_task_is_fiber(task)))
        return -EINVAL;
    if (fcntl(fd, F_GETFD) < 0)
        return -errno;
    int ready = wefti_fd_state(fd, (uint32_t)events);
    if (task && wefti_fiber_must_end(wefti_fiber_of(task)))
        return -ECANCELED;
    if (ready || until <= 0)
        return ready ? ready : -ETIMEDOUT;
    return task ? fiber_waits(fd, events, until) : thread_waits(fd, events, until);
}
