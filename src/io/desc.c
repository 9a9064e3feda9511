/* desc.c - open descriptors: readiness and waiting (desc.h has the protocol). */
#include "io/desc.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUP 64u /* descriptors made at a time */

struct group {
    struct group *next;
    struct weft_io io[GROUP];
};

static struct {
    struct wefti_lock lock;
    struct weft_io *free;
    struct group *groups; /* all */
} pool;

/* -- Made and unmade --------------------------------------------------------------------------------------- */

static struct weft_io *take(void) {
    wefti_lock_take(&pool.lock);
    struct group *group = pool.free ? NULL : wefti_alloc(sizeof *group);
    if (group) {
        group->next = pool.groups;
        pool.groups = group;
        for (uint32_t i = GROUP; i-- > 0;) {
            group->io[i].next = pool.free;
            pool.free = &group->io[i];
        }
    }
    struct weft_io *io = pool.free;
    if (io)
        pool.free = io->next;
    wefti_lock_give(&pool.lock);
    return io;
}

static void give(struct weft_io *io) {
    wefti_lock_take(&pool.lock);
    io->next = pool.free;
    pool.free = io;
    wefti_lock_give(&pool.lock);
}

int wefti_desc_new(int fd, bool socket, struct weft_io **out) {
    struct weft_io *io = take();
    if (!io)
        return -ENOMEM;
    wefti_lock_take(&io->lock); /* a late event may be looking */
    io->fd = fd;
    io->users = 0;
    io->ready[WEFTI_IN] = io->ready[WEFTI_OUT] = true; /* who knows: try */
    io->closed = io->borrowed = io->always_ready = io->either = false;
    io->socket = socket;
    io->watcher = NULL;
    io->waiting[WEFTI_IN] = io->waiting[WEFTI_OUT] = (struct wefti_waiters){NULL, NULL};
    wefti_lock_give(&io->lock);
    *out = io;
    return 0;
}

int weft_io_open(int fd, unsigned flags, weft_io **out) {
    struct stat about;
    if (flags & ~(unsigned)WEFT_IO_BORROW)
        return -EINVAL;
    int was = fcntl(fd, F_GETFL);
    if (was < 0 || fstat(fd, &about))
        return -errno;
    int error = wefti_desc_new(fd, S_ISSOCK(about.st_mode), out);
    if (error)
        return error;
    (*out)->borrowed = flags & WEFT_IO_BORROW;
    (*out)->was_flags = was;
    if (!(was & O_NONBLOCK))
        fcntl(fd, F_SETFL, was | O_NONBLOCK);
    return 0;
}

int weft_io_fd(const weft_io *io) { return io->fd; }

static int finish_close(struct weft_io *io) {
    int result = 0;
    if (io->borrowed) {
        if (!(io->was_flags & O_NONBLOCK))
            fcntl(io->fd, F_SETFL, io->was_flags);
    } else if (close(io->fd) && errno != EINTR) {
        result = -errno;
    }
    give(io);
    return result;
}

int wefti_desc_enter(struct weft_io *io) {
    wefti_lock_take(&io->lock);
    bool open = !io->closed;
    io->users += open;
    wefti_lock_give(&io->lock);
    return open ? 0 : -EBADF;
}

void wefti_desc_leave(struct weft_io *io) {
    wefti_lock_take(&io->lock);
    bool last = --io->users == 0 && io->closed;
    wefti_lock_give(&io->lock);
    if (last)
        finish_close(io);
}

/* -- Waiting ----------------------------------------------------------------------------------------------- */

/* Serve all who wait for that direction.  Called with the lock held; gives it back. */
static void serve_and_unlock(struct weft_io *io, int direction, int result) {
    for (;;) {
        struct wefti_waiter *waiter = wefti_waiters_take(&io->waiting[direction]);
        if (!waiter) {
            wefti_lock_give(&io->lock);
            return;
        }
        waiter->result = result;
        wefti_waker waker = wefti_waiter_serve(waiter);
        wefti_lock_give(&io->lock);
        wefti_waiter_wake(waker);
        wefti_lock_take(&io->lock);
    }
}

/* E1, E2. */
static void dispatch(struct wefti_worker *w, const struct wefti_poll_event *event) {
    (void)w;
    struct weft_io *io = event->tag;
    if (io->either) { /* fd.c: one waiter, for whatever comes */
        wefti_lock_take(&io->lock);
        serve_and_unlock(io, WEFTI_IN, 0);
        return;
    }
    for (int direction = WEFTI_IN; direction <= WEFTI_OUT; direction++) {
        if (!(event->ready & (direction == WEFTI_IN ? WEFTI_READABLE : WEFTI_WRITABLE)))
            continue;
        wefti_lock_take(&io->lock);
        io->ready[direction] = true;
        io->events[direction]++;
        serve_and_unlock(io, direction, 0);
    }
}

/* The worker's poller is about to be closed: whoever waits for one of its descriptors next is watched anew. */
static void forget(struct wefti_worker *w) {
    wefti_lock_take(&pool.lock);
    for (struct group *group = pool.groups; group; group = group->next)
        for (uint32_t i = 0; i < GROUP; i++) {
            struct weft_io *io = &group->io[i];
            wefti_lock_take(&io->lock);
            if (io->watcher == w) {
                io->watcher = NULL;
                io->ready[WEFTI_IN] = io->ready[WEFTI_OUT] = true;
            }
            wefti_lock_give(&io->lock);
        }
    wefti_lock_give(&pool.lock);
}

int wefti_watch_begin(struct wefti_worker *w) {
    if (w->watch)
        return 0;
    struct wefti_watch *watch = wefti_alloc(sizeof *watch);
    if (!watch)
        return -ENOMEM;
    int error = wefti_poller_open(&watch->poller);
    if (error) {
        wefti_free(watch, sizeof *watch);
        return error;
    }
    watch->dispatch = dispatch;
    watch->forget = forget;
    w->watch = watch;
    if (!w->look_left)
        w->look_left = 1;
    return 0;
}

/* Under the lock: see that some worker watches it.  0 or a negative error. */
static int watched(struct weft_io *io, struct wefti_worker *w) {
    if (io->watcher || io->always_ready)
        return 0;
    int error = wefti_watch_begin(w);
    if (!error)
        error = wefti_poller_add(&w->watch->poller, io->fd, io);
    if (error == -EPERM) { /* a file: never blocks for long */
        io->always_ready = true;
        return 0;
    }
    if (!error)
        io->watcher = w;
    return error;
}

/* A plain thread asks the system itself. */
static int sleep_until_ready(struct weft_io *io, int direction, int64_t until) {
    int error = wefti_fd_sleep(io->fd, direction == WEFTI_IN ? WEFTI_READABLE : WEFTI_WRITABLE, until);
    wefti_lock_take(&io->lock);
    io->ready[direction] |= !error;
    wefti_lock_give(&io->lock);
    return error;
}

/* The lock is held, and given back.  0: look again. */
static int wait_and_unlock(struct weft_io *io, int direction, int64_t until) {
    struct wefti_waiter waiter;
    struct wefti_worker *w = wefti_worker_here();
    int error = until <= 0 ? -ETIMEDOUT : 0;
    if (!error && w && w->current && !(error = wefti_waiter_init(&waiter)))
        error = watched(io, w);
    if (error || !w || !w->current || io->always_ready) {
        io->ready[direction] |= io->always_ready;
        wefti_lock_give(&io->lock);
        return error || io->always_ready ? error : sleep_until_ready(io, direction, until);
    }
    wefti_waiters_append(&io->waiting[direction], &waiter);
    wefti_lock_give(&io->lock);
    error = wefti_waiter_wait(&waiter, until, direction == WEFTI_IN ? "a descriptor to read" : "a descriptor to write");
    if (error) {
        wefti_lock_take(&io->lock);
        bool was = wefti_waiters_remove(&io->waiting[direction], &waiter);
        wefti_lock_give(&io->lock);
        if (was)
            return error;
        wefti_waiter_settle(&waiter);
    }
    return (int)waiter.result;
}

int wefti_desc_ready(struct weft_io *io, int direction, uint32_t *seen, int64_t until) {
    for (;;) {
        wefti_lock_take(&io->lock);
        if (io->closed) {
            wefti_lock_give(&io->lock);
            return -EBADF;
        }
        if (io->ready[direction]) {
            *seen = io->events[direction]; /* C1 */
            wefti_lock_give(&io->lock);
            return 0;
        }
        int error = wait_and_unlock(io, direction, until);
        if (error)
            return error;
    }
}

void wefti_desc_exhausted(struct weft_io *io, int direction, uint32_t seen) {
    wefti_lock_take(&io->lock);
    if (io->events[direction] == seen) /* C3 */
        io->ready[direction] = io->always_ready;
    wefti_lock_give(&io->lock);
}

ssize_t wefti_desc_call(struct weft_io *io, int direction, ssize_t (*call)(struct weft_io *io, void *arg), void *arg,
                        size_t full, int64_t until) {
    ssize_t result = wefti_desc_enter(io);
    if (result)
        return result;
    for (;;) {
        uint32_t seen;
        result = wefti_desc_ready(io, direction, &seen, until);
        if (result)
            break;
        result = call(io, arg); /* C2 */
        if (result == -EINTR)
            continue;
        if (result != -EAGAIN) {
            /* A stream that gave less than was asked has no more; the end and errors stay ready. */
            if (result > 0 && (size_t)result < full)
                wefti_desc_exhausted(io, direction, seen);
            break;
        }
        wefti_desc_exhausted(io, direction, seen);
    }
    wefti_desc_leave(io);
    return result;
}

int weft_close(weft_io *io) {
    if (!io)
        return 0;
    wefti_lock_take(&io->lock);
    if (io->closed) {
        wefti_lock_give(&io->lock);
        return -EBADF;
    }
    io->closed = true;
    io->users++; /* ours */
    if (io->watcher)
        wefti_poller_remove(&io->watcher->watch->poller, io->fd);
    io->watcher = NULL;
    serve_and_unlock(io, WEFTI_IN, -EBADF);
    wefti_lock_take(&io->lock);
    serve_and_unlock(io, WEFTI_OUT, -EBADF);
    if (io->socket && !io->borrowed)
        shutdown(io->fd, SHUT_RDWR); /* threads that sleep in the system */
    wefti_lock_take(&io->lock);
    bool last = --io->users == 0;
    wefti_lock_give(&io->lock);
    return last ? finish_close(io) : 0;
}
