/* fd.c - waiting for descriptors of other libraries.
 *
 * They open, close and reuse them behind our back, so nothing about one is kept longer than somebody waits: each wait has a
 * descriptor of its own in its worker's poller, by way of a duplicate, since a poller takes each number once only. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "io/desc.h"

int weft_fd_wait(int fd, int events, weft_deadline until) {
    struct wefti_worker *w = wefti_worker_here();
    if (!events || (events & ~(WEFT_FD_READ | WEFT_FD_WRITE)))
        return -EINVAL;
    if (!w || !w->current) {
        int error = fcntl(fd, F_GETFD) < 0 ? -errno : wefti_fd_sleep(fd, (uint32_t)events, until);
        return error ? error : wefti_fd_state(fd, (uint32_t)events);
    }
    int ready = fcntl(fd, F_GETFD) < 0 ? -errno : wefti_fd_state(fd, (uint32_t)events);
    if (ready)
        return ready;
    if (until <= 0)
        return -ETIMEDOUT;
    struct wefti_waiter waiter;
    int error = wefti_waiter_init(&waiter);
    if (!error)
        error = wefti_watch_begin(w);
    if (error)
        return error;
    int twin = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (twin < 0)
        return -errno;
    weft_io *io;
    if ((error = wefti_desc_new(twin, false, &io))) {
        close(twin);
        return error;
    }
    wefti_lock_take(&io->lock);
    error = wefti_poller_arm(&w->watch->poller, twin, io, (uint32_t)events, false);
    if (error) {
        wefti_lock_give(&io->lock);
    } else {
        io->watcher = w;
        io->either = true;
        wefti_waiters_append(&io->waiting[WEFTI_IN], &waiter);
        wefti_lock_give(&io->lock);
        error = wefti_waiter_wait(&waiter, until, "a descriptor");
        if (error) {
            wefti_lock_take(&io->lock);
            bool was = wefti_waiters_remove(&io->waiting[WEFTI_IN], &waiter);
            wefti_lock_give(&io->lock);
            if (!was)
                error = 0;
        }
    }
    weft_close(io);
    if (error)
        return error == -EPERM ? events : error; /* a file is always ready */
    ready = wefti_fd_state(fd, (uint32_t)events);
    return ready ? ready : events;
}
