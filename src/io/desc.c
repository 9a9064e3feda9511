/* desc.c - open descriptors: readiness and waiting (desc.h has the protocol). */
#define _GNU_SOURCE
#include "io/mem.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef WEFTI_IO_GROUP
#define WEFTI_IO_GROUP 64u      /* descriptors made at a time */
#endif
#define CALLS_MAX 128u /* that a fiber makes in a row without waiting, before others get their turn */
#define WAKE_MAX 8u    /* woken at a time */
#define THREAD_LOOK INT64_C(10000000) /* ns; of a thread that could get no poke */

struct group {
    struct group *next;
    struct weft_io io[WEFTI_IO_GROUP];
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
        for (uint32_t i = WEFTI_IO_GROUP; i-- > 0;) {
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

int wefti_desc_new(int fd, int what, struct weft_io **out) {
    struct weft_io *io = take();
    if (!io)
        return -ENOMEM;
    wefti_lock_take(&io->lock); /* a late event may be looking */
    io->fd = fd;
    io->users = 0;
    io->ready[WEFTI_IN] = io->ready[WEFTI_OUT] = true; /* who knows: try */
    io->ended[WEFTI_IN] = io->ended[WEFTI_OUT] = false;
    io->closed = io->borrowed = io->always_ready = io->either = false;
    io->socket = what & WEFTI_SOCKET;
    io->stream = what & WEFTI_STREAM;
    io->watcher = NULL;
    io->layer = NULL;
    io->mem = NULL;
    io->waiting[WEFTI_IN] = io->waiting[WEFTI_OUT] = (struct wefti_waiters){NULL, NULL};
    wefti_lock_give(&io->lock);
    *out = io;
    return 0;
}

static int option(int fd, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &size) ? -1 : value;
}

static int what_is(int fd, mode_t mode, int flags) {
    if (S_ISFIFO(mode))
        return flags & O_DIRECT ? 0 : WEFTI_STREAM; /* with O_DIRECT a pipe of packets */
    if (!S_ISSOCK(mode))
        return 0;
    int domain = option(fd, SO_DOMAIN);
    bool tcp = (domain == AF_INET || domain == AF_INET6) && option(fd, SO_TYPE) == SOCK_STREAM;
    return WEFTI_SOCKET | (tcp ? WEFTI_STREAM : 0);
}

int weft_io_open(int fd, unsigned flags, weft_io **out) {
    struct stat about;
    if (!out || (flags & ~(unsigned)WEFT_IO_BORROW))
        return -EINVAL;
    int was = fcntl(fd, F_GETFL);
    if (was < 0 || fstat(fd, &about))
        return -errno;
    weft_io *io;
    int error = wefti_desc_new(fd, what_is(fd, about.st_mode, was), &io);
    if (error)
        return error;
    io->borrowed = flags & WEFT_IO_BORROW;
    io->was_flags = was;
    if (!(was & O_NONBLOCK))
        fcntl(fd, F_SETFL, was | O_NONBLOCK);
    *out = io;
    return 0;
}

int weft_io_fd(const weft_io *io) { return io->fd; }

static int finish_close(struct weft_io *io) {
    int result = 0;
    if (io->layer) {
        wefti_layer_discard(io);
    } else if (io->mem) {
        wefti_mem_close(io->mem);
    } else if (io->borrowed) {
        if (!(io->was_flags & O_NONBLOCK))
            fcntl(io->fd, F_SETFL, io->was_flags);
    } else if (close(io->fd) && errno != EINTR) {
        result = -errno;
    }
    give(io);
    return result;
}

/* The lock is held.  Is it for us to close? */
static bool leave_and_unlock(struct weft_io *io) {
    bool last = --io->users == 0 && io->closed;
    wefti_lock_give(&io->lock);
    return last;
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
    if (leave_and_unlock(io))
        finish_close(io);
}

/* -- Serving ----------------------------------------------------------------------------------------------- */

/* E2: all who wait.  Called with the lock held; gives it back. */
static void serve_and_unlock(struct weft_io *io, bool in, bool out, int result) {
    bool more = true;
    while (more) {
        wefti_waker wakers[WAKE_MAX];
        unsigned count = 0;
        while (count < WAKE_MAX) {
            int direction = WEFTI_IN;
            struct wefti_waiter *waiter = in ? wefti_waiters_take(&io->waiting[WEFTI_IN]) : NULL;
            if (!waiter && out)
                waiter = wefti_waiters_take(&io->waiting[direction = WEFTI_OUT]);
            if (!waiter)
                break;
            waiter->slot = (void *)(uintptr_t)io->events[direction]; /* C1 */
            waiter->result = result;
            wakers[count++] = wefti_waiter_serve(waiter);
        }
        wefti_lock_give(&io->lock);
        for (unsigned i = 0; i < count; i++)
            wefti_waiter_wake(wakers[i]);
        more = count == WAKE_MAX;
        if (more)
            wefti_lock_take(&io->lock);
    }
}

/* E1, E2. */
static void dispatch(struct wefti_worker *w, const struct wefti_poll_event *event) {
    (void)w;
    if (event->ready == WEFTI_DONE) {
        wefti_op_done(event);
        return;
    }
    wefti_desc_event(event->tag, event->ready);
}

void wefti_desc_event(struct weft_io *io, uint32_t ready) {
    wefti_lock_take(&io->lock);
    uint32_t what = io->either ? WEFTI_READABLE : ready;
    for (int direction = WEFTI_IN; direction <= WEFTI_OUT; direction++) {
        if (!(what & (direction == WEFTI_IN ? WEFTI_READABLE : WEFTI_WRITABLE)))
            continue;
        io->ready[direction] = true;
        io->ended[direction] |= (ready & (direction == WEFTI_IN ? WEFTI_READ_ENDED : WEFTI_WRITE_ENDED)) != 0;
        io->events[direction]++;
    }
    serve_and_unlock(io, what & WEFTI_READABLE, what & WEFTI_WRITABLE, 0);
}

/* The worker's poller is about to be closed: whoever waits for one of its descriptors, in another runtime, looks again, and has it
 * watched there. */
static void forget(struct wefti_worker *w) {
    wefti_lock_take(&pool.lock);
    for (struct group *group = pool.groups; group; group = group->next)
        for (uint32_t i = 0; i < WEFTI_IO_GROUP; i++) {
            struct weft_io *io = &group->io[i];
            wefti_lock_take(&io->lock);
            if (io->watcher != w) {
                wefti_lock_give(&io->lock);
                continue;
            }
            io->watcher = NULL;
            io->ready[WEFTI_IN] = io->ready[WEFTI_OUT] = true;
            io->events[WEFTI_IN]++, io->events[WEFTI_OUT]++; /* a call under way must not say otherwise */
            serve_and_unlock(io, true, true, 0);
        }
    wefti_lock_give(&pool.lock);
}

int wefti_watch_begin(struct wefti_worker *w) {
    if (w->watch)
        return 0;
    struct wefti_watch *watch = wefti_alloc(sizeof *watch);
    if (!watch)
        return -ENOMEM;
    int error = wefti_poller_open(&watch->poller, w->rt->uring && !w->driven);
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

/* -- Waiting ----------------------------------------------------------------------------------------------- */

int wefti_desc_watch(struct weft_io *io, struct wefti_worker *w) {
    if (io->always_ready || io->mem || (io->watcher && io->watcher->rt == w->rt))
        return 0;
    int error = wefti_watch_begin(w);
    if (error)
        return error;
    if (io->watcher) /* another runtime's, which may be driven by nobody */
        wefti_poller_remove(&io->watcher->watch->poller, io->fd);
    io->watcher = NULL;
    error = wefti_poller_add(&w->watch->poller, io->fd, io);
    if (error == -EPERM) { /* a file: never blocks for long */
        io->always_ready = true;
        return 0;
    }
    if (!error)
        io->watcher = w;
    return error;
}

int wefti_desc_wait(struct weft_io *io, int direction, uint32_t *seen, int64_t until) {
    struct wefti_waiter waiter;
    struct wefti_worker *w = wefti_worker_here();
    struct wefti_watch *watch = w->rt->sim && !io->mem ? w->watch : NULL;
    int error = wefti_waiter_init(&waiter);
    if (error) {
        wefti_lock_give(&io->lock);
        return error;
    }
    wefti_waiters_append(&io->waiting[direction], &waiter);
    wefti_lock_give(&io->lock);
    if (watch)
        watch->waiting++;
    error = wefti_waiter_wait(&waiter, until, direction == WEFTI_IN ? "a descriptor to read" : "a descriptor to write");
    if (watch)
        watch->waiting--;
    if (error) {
        wefti_lock_take(&io->lock);
        bool was = wefti_waiters_remove(&io->waiting[direction], &waiter);
        wefti_lock_give(&io->lock);
        if (was)
            return error;
    }
    *seen = (uint32_t)(uintptr_t)waiter.slot;
    return (int)waiter.result;
}

/* Pokes of plain threads.  They are never closed: who has taken one out of a thread's park may write to it a little later, when the
 * thread is gone; the next one to use it then wakes up for nothing. */
static struct {
    struct wefti_lock lock;
    struct wefti_poke *free;
} pokes;

struct wefti_poke *wefti_poke_take(void) {
    wefti_lock_take(&pokes.lock);
    struct wefti_poke *poke = pokes.free;
    if (poke)
        pokes.free = poke->next;
    wefti_lock_give(&pokes.lock);
    if (!poke && (poke = wefti_alloc(sizeof *poke)) && (poke->fd = wefti_poke_open()) < 0) {
        wefti_free(poke, sizeof *poke);
        poke = NULL;
    }
    return poke;
}

void wefti_poke_give(struct wefti_poke *poke) {
    wefti_lock_take(&pokes.lock);
    poke->next = pokes.free;
    pokes.free = poke;
    wefti_lock_give(&pokes.lock);
}

/* A plain thread: as wefti_desc_wait. */
static int thread_wait(struct weft_io *io, int direction, uint32_t *seen, int64_t until) {
    struct wefti_waiter waiter;
    int error = wefti_waiter_init(&waiter), state = 1;
    if (error) {
        wefti_lock_give(&io->lock);
        return error;
    }
    struct wefti_poke *poke = wefti_poke_take(); /* under the lock, which orders it before whoever pokes it */
    wefti_waiters_append(&io->waiting[direction], &waiter);
    wefti_lock_give(&io->lock);
    bool token = false;
    while (!token && state == 1) { /* a poke that was not for us is none */
        int64_t limit = poke ? until : wefti_clock() + THREAD_LOOK;
        token = wefti_park_fd(&waiter.park, io->fd, direction == WEFTI_IN ? WEFTI_READABLE : WEFTI_WRITABLE,
                              poke ? poke->fd : -1, limit < until ? limit : until, &state);
        if (state == -ETIMEDOUT && limit < until)
            state = 1;
    }
    if (poke)
        wefti_poke_give(poke);
    if (!token) {
        wefti_lock_take(&io->lock);
        bool was = wefti_waiters_remove(&io->waiting[direction], &waiter);
        io->ready[direction] |= state == 0;
        *seen = io->events[direction];
        wefti_lock_give(&io->lock);
        if (was)
            return state;
        wefti_waiter_settle(&waiter);
    }
    *seen = (uint32_t)(uintptr_t)waiter.slot;
    return (int)waiter.result;
}

/* As wefti_desc_wait, until the next piece arrives. */
static int mem_wait(struct weft_io *io, int direction, uint32_t *seen, int64_t until) {
    int64_t arrival = wefti_mem_next(io->mem, direction);
    int error = wefti_desc_wait(io, direction, seen, arrival < until ? arrival : until);
    if (error != -ETIMEDOUT || arrival >= until)
        return error;
    wefti_lock_take(&io->lock);
    *seen = io->events[direction];
    io->ready[direction] = true;
    wefti_lock_give(&io->lock);
    return 0;
}

/* The lock is held, and given back.  0: it is worth trying; *seen is C1. */
static int wait_and_unlock(struct weft_io *io, int direction, uint32_t *seen, int64_t until) {
    struct wefti_worker *w = wefti_worker_here();
    bool fiber = w && w->current;
    int error = until <= 0 ? -ETIMEDOUT : fiber ? wefti_desc_watch(io, w) : 0;
    if (error || (fiber && io->always_ready)) {
        io->ready[direction] |= io->always_ready;
        *seen = io->events[direction];
        wefti_lock_give(&io->lock);
        return error;
    }
    if (io->mem)
        return mem_wait(io, direction, seen, until);
    return fiber ? wefti_desc_wait(io, direction, seen, until) : thread_wait(io, direction, seen, until);
}

/* -- Calls ------------------------------------------------------------------------------------------------- */

/* A fiber that always finds its descriptor ready must still let others run, and learn that it is cancelled. */
int wefti_desc_begin(void) {
    struct wefti_worker *w = wefti_worker_here();
    struct weft_task *task = w ? w->current : NULL;
    if (!task)
        return 0;
    if (!wefti_task_is_fiber(task))
        return -EINVAL;
    struct wefti_fiber *self = wefti_fiber_of(task);
    if (w->calls_turn != load_own(&w->counters.polls)) {
        w->calls_turn = load_own(&w->counters.polls);
        w->calls_left = CALLS_MAX;
    } else if (WEFTI_UNLIKELY(--w->calls_left == 0)) {
        w->calls_left = CALLS_MAX;
        if (!self->preempt_off)
            wefti_fiber_yield(w, self);
    }
    return wefti_fiber_must_end(self) ? -ECANCELED : 0;
}

/* Under the lock. */
static bool is_worth(const struct weft_io *io, int direction, const uint32_t *mark) {
    return io->ready[direction] || (mark && io->events[direction] != *mark);
}

int wefti_desc_ready(struct weft_io *io, int direction, const uint32_t *mark, bool *waited, int64_t until) {
    uint32_t seen;
    int error = wefti_desc_begin();
    *waited = false;
    if (error)
        return error;
    wefti_lock_take(&io->lock);
    if (io->closed) {
        wefti_lock_give(&io->lock);
        return -EBADF;
    }
    io->users++;
    *waited = !is_worth(io, direction, mark);
    if (*waited) {
        error = wait_and_unlock(io, direction, &seen, until);
        wefti_lock_take(&io->lock);
    }
    if (leave_and_unlock(io))
        finish_close(io);
    return error;
}

/* C2 and C3, without the waiting.  The lock is not held, and held when it returns. */
static ssize_t try_call(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full, uint32_t seen) {
    ssize_t result;
    do
        result = call(io, arg); /* C2 */
    while (result == -EINTR);
    wefti_lock_take(&io->lock);
    if (io->events[direction] != seen) /* C3 */
        return result;
    if (result == -EAGAIN) {
        io->ready[direction] = io->always_ready;
        io->ended[direction] = false;
    } else if (result > 0 && (size_t)result < full && io->stream && !io->ended[direction]) {
        io->ready[direction] = false;
    }
    return result;
}

/* An operation has ended.  Under the lock: is it worth to try again without one?  Who has the descriptor watched must not be told that it is
 * not ready by anything but what its protocol allows. */
static void note_op(struct weft_io *io, int direction, ssize_t result, size_t full, uint32_t seen) {
    bool more = result >= 0 && (full == 0 || (size_t)result == full);
    if (more)
        io->ready[direction] = true;
    else if (!io->watcher || (io->events[direction] == seen && io->stream && result > 0 && !io->ended[direction]))
        io->ready[direction] = false;
}

ssize_t wefti_desc_call(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full, int64_t until) {
    return wefti_desc_op(io, direction, call, arg, full, NULL, false, until);
}

ssize_t wefti_desc_op(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full,
                      const struct wefti_poll_op *op, bool eager, int64_t until) {
    ssize_t result = wefti_desc_begin();
    if (result || (result = wefti_charge_syscall_call()))
        return result;
    wefti_lock_take(&io->lock);
    if (io->closed) {
        wefti_lock_give(&io->lock);
        return -EBADF;
    }
    io->users++;
    struct wefti_worker *w = op ? wefti_worker_here() : NULL;
    struct wefti_watch *ring = w && until > 0 && !io->mem ? wefti_op_ring(w) : NULL;
    for (bool tried = false, late = false;; tried = true) {
        uint32_t seen = io->events[direction]; /* C1 */
        if (ring && (eager || !io->ready[direction])) {
            result = wefti_op_call(io, direction, ring, op, until);
            wefti_lock_take(&io->lock);
            if (result == -EINTR)
                continue;
            if (result != -ENOBUFS) {
                if (!eager)
                    note_op(io, direction, result, full, seen);
                break;
            }
            ring = NULL; /* as if there were none */
        }
        if (io->ready[direction]) {
            wefti_lock_give(&io->lock);
        } else {
            result = wait_and_unlock(io, direction, &seen, until);
            /* Too late, but what has come since the last event was told is still ours: one look. */
            late = result == -ETIMEDOUT;
            if (result && (tried || !late)) {
                wefti_lock_take(&io->lock);
                break;
            }
        }
        result = try_call(io, direction, call, arg, full, seen);
        if (result != -EAGAIN)
            break;
        result = io->closed ? -EBADF : -ETIMEDOUT;
        if (io->closed || late)
            break;
    }
    if (leave_and_unlock(io))
        finish_close(io);
    return result;
}

ssize_t wefti_desc_try(struct weft_io *io, int direction, wefti_desc_fn *call, void *arg, size_t full) {
    ssize_t result = -EBADF;
    wefti_lock_take(&io->lock);
    if (io->closed) {
        wefti_lock_give(&io->lock);
        return result;
    }
    io->users++;
    uint32_t seen = io->events[direction]; /* C1 */
    wefti_lock_give(&io->lock);
    result = try_call(io, direction, call, arg, full, seen);
    if (leave_and_unlock(io))
        finish_close(io);
    return result;
}

static void end_poll(struct wefti_poll_wait *wait) {
    struct weft_io *io = wait->thing;
    struct wefti_worker *w = wefti_worker_here();
    wefti_lock_take(&io->lock);
    wefti_waiters_remove(&io->waiting[wait->waiter.index], &wait->waiter);
    wefti_lock_give(&io->lock);
    if (w && w->rt->sim && w->watch && !io->mem)
        w->watch->waiting--;
    wait->end = NULL;
}

/* A poll task begins a call.  0; -EAGAIN: it waits on; what the wait gave; -EINVAL. */
static int begin_poll(weft_task *self, struct wefti_poll_wait *poll) {
    struct wefti_worker *w = wefti_worker_here();
    if (!w || w->current != self || wefti_task_is_fiber(self))
        return -EINVAL;
    if (!poll->end)
        return 0;
    if (!wefti_waiter_is_served(&poll->waiter))
        return -EAGAIN; /* polled for another reason */
    end_poll(poll);
    return (int)poll->waiter.result;
}

/* Under the lock, the descriptor is watched: be woken. */
static void append_poll(struct weft_io *io, weft_task *self, struct wefti_poll_wait *poll, int direction) {
    struct wefti_worker *w = wefti_worker_here();
    wefti_waiter_init_poll(&poll->waiter, self);
    poll->waiter.index = (uint32_t)direction; /* it is in no choice */
    poll->thing = io;
    poll->end = end_poll;
    wefti_waiters_append(&io->waiting[direction], &poll->waiter);
    if (w->rt->sim && !io->mem)
        w->watch->waiting++;
}

ssize_t wefti_desc_poll(struct weft_io *io, weft_task *self, weft_wait *wait, int direction, wefti_desc_fn *call,
                        void *arg, size_t full) {
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    ssize_t result = begin_poll(self, poll);
    if (result)
        return result;
    wefti_lock_take(&io->lock);
    if (io->closed) {
        wefti_lock_give(&io->lock);
        return -EBADF;
    }
    io->users++;
    do { /* until it is told, not ready, or closed */
        result = io->closed ? -EBADF : -EAGAIN;
        if (result == -EAGAIN && io->ready[direction]) {
            uint32_t seen = io->events[direction]; /* C1 */
            wefti_lock_give(&io->lock);
            result = try_call(io, direction, call, arg, full, seen);
        }
        if (result == -EAGAIN && !io->ready[direction] && !io->closed) {
            int error = wefti_desc_watch(io, wefti_worker_here());
            result = error ? error : -EAGAIN;
            io->ready[direction] |= io->always_ready || (io->mem && wefti_mem_hurry(io->mem));
        }
    } while (result == -EAGAIN && (io->ready[direction] || io->closed));
    if (result == -EAGAIN)
        append_poll(io, self, poll, direction);
    if (leave_and_unlock(io))
        finish_close(io);
    return result;
}

int wefti_desc_ready_poll(struct weft_io *io, weft_task *self, weft_wait *wait, int direction, const uint32_t *mark) {
    struct wefti_poll_wait *poll = wefti_poll_wait_of(wait);
    if (poll->end == end_poll && (poll->thing != io || poll->waiter.index != (uint32_t)direction))
        end_poll(poll); /* it waited for the other direction */
    bool waited = poll->end != NULL;
    int result = begin_poll(self, poll);
    if (result || waited)
        return result;
    wefti_lock_take(&io->lock);
    result = io->closed ? -EBADF : is_worth(io, direction, mark) ? 0 : wefti_desc_watch(io, wefti_worker_here());
    if (!result && io->always_ready)
        io->ready[direction] = true;
    if (!result && !is_worth(io, direction, mark)) {
        append_poll(io, self, poll, direction);
        result = -EAGAIN;
    }
    wefti_lock_give(&io->lock);
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
    serve_and_unlock(io, true, true, -EBADF);
    int error = io->layer ? wefti_layer_close(io) : 0;
    wefti_lock_take(&io->lock);
    return leave_and_unlock(io) ? finish_close(io) : error;
}
