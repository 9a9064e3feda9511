/* desc.c - open descriptors: made and unmade, watched, served (desc.h has the protocol). */
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
#define WAKE_MAX 8u    /* woken at a time */
#define LINE 64u       /* bytes of a cache line */

struct group {
    struct group *next;
    struct weft_io *io; /* WEFTI_IO_GROUP of them, in `room`, each in lines of its own */
    char room[WEFTI_IO_GROUP * sizeof(struct weft_io) + LINE];
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
        group->io = (struct weft_io *)(void *)(group->room + (LINE - (uintptr_t)group->room % LINE));
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
    wefti_desc_lock(io); /* a late event may be looking */
    io->fd = fd;
    io->users = 0;
    io->ready[WEFTI_IN] = io->ready[WEFTI_OUT] = true; /* who knows: try */
    io->ended[WEFTI_IN] = io->ended[WEFTI_OUT] = false;
    io->closed = io->borrowed = io->always_ready = io->either = false;
    io->socket = what & WEFTI_SOCKET;
    io->plain = io->socket && fd >= 0;
    io->stream = what & WEFTI_STREAM;
    io->writing = WEFTI_WRITE_FREE;
    store_relaxed(&io->watcher, NULL);
    io->layer = NULL;
    io->mem = NULL;
    io->waiting[WEFTI_IN] = io->waiting[WEFTI_OUT] = (struct wefti_waiters){NULL, NULL};
    wefti_desc_unlock(io);
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

int weft_io_fd(const weft_io *io) { return io ? io->fd : -EINVAL; }

static int finish(struct weft_io *io) {
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
    wefti_bias_reset(&io->lock, wefti_worker_here()); /* whoever has it next is not to pay for us */
    give(io);
    return result;
}

int wefti_desc_finish(struct weft_io *io) {
    if (wefti_worker_here())
        return finish(io);
    int cancel = wefti_cancel_off(); /* close is a cancellation point */
    int result = finish(io);
    wefti_cancel_on(cancel);
    return result;
}

void wefti_desc_lock_slow(struct weft_io *io, struct wefti_worker *w) {
    wefti_bias_take_slow(&io->lock, w, w ? w->rt->bias_streak : 0);
}

int wefti_desc_enter(struct weft_io *io) {
    wefti_desc_lock(io);
    bool open = !io->closed;
    io->users += open;
    wefti_desc_unlock(io);
    return open ? 0 : -EBADF;
}

void wefti_desc_leave(struct weft_io *io) {
    wefti_desc_lock(io);
    wefti_desc_leave_locked(io);
}

/* -- Serving ----------------------------------------------------------------------------------------------- */

/* The next record to serve, claimed; NULL: there is none. */
static struct wefti_waiter *take_waiter(struct wefti_waiters *list, bool all) {
    for (struct wefti_waiter *waiter; (waiter = list->first) && (all || !wefti_waits_for_turn(waiter));) {
        wefti_waiters_remove_first(list);
        if (wefti_waiter_claim(waiter))
            return waiter;
    }
    return NULL;
}

void wefti_desc_serve_and_unlock(struct weft_io *io, bool in, bool out, int result) {
    bool more = true;
    while (more) {
        wefti_waker wakers[WAKE_MAX];
        unsigned count = 0;
        while (count < WAKE_MAX) {
            int direction = WEFTI_IN;
            struct wefti_waiter *waiter = in ? take_waiter(&io->waiting[WEFTI_IN], true) : NULL;
            if (!waiter && out)
                waiter = take_waiter(&io->waiting[direction = WEFTI_OUT], result != 0);
            if (!waiter)
                break;
            waiter->slot = (void *)(uintptr_t)io->events[direction]; /* C1 */
            waiter->result = result;
            wakers[count++] = wefti_waiter_serve(waiter);
        }
        wefti_desc_unlock(io);
        for (unsigned i = 0; i < count; i++)
            wefti_waiter_wake(wakers[i]);
        more = count == WAKE_MAX;
        if (more)
            wefti_desc_lock(io);
    }
}

/* E2 as it mostly is: one who waits, for nothing else, of whatever may be told to him.  NULL: it is not so. */
static inline struct wefti_waiter *only_one(struct weft_io *io, uint32_t what) {
    struct wefti_waiters *in = &io->waiting[WEFTI_IN], *out = &io->waiting[WEFTI_OUT];
    struct wefti_waiters *list = what & WEFTI_READABLE && in->first ? in : what & WEFTI_WRITABLE ? out : in;
    struct wefti_waiter *waiter = list->first;
    if (!waiter || waiter->choice || waiter->next || (list == in ? out->first != NULL : wefti_waits_for_turn(waiter)))
        return NULL;
    list->first = list->last = NULL;
    waiter->linked = false;
    waiter->slot = (void *)(uintptr_t)io->events[list == in ? WEFTI_IN : WEFTI_OUT]; /* C1 */
    waiter->result = 0;
    return waiter;
}

/* E1, E2.  w: the calling worker, or NULL. */
static inline void event_by(struct weft_io *io, struct wefti_worker *w, uint32_t ready) {
    wefti_desc_lock_by(io, w);
    uint32_t what = WEFTI_UNLIKELY(io->either) ? WEFTI_READABLE : ready;
    if (what & WEFTI_READABLE) {
        io->ready[WEFTI_IN] = true;
        io->ended[WEFTI_IN] |= (ready & WEFTI_READ_ENDED) != 0;
        io->events[WEFTI_IN]++;
    }
    if (what & WEFTI_WRITABLE) {
        io->ready[WEFTI_OUT] = true;
        io->ended[WEFTI_OUT] |= (ready & WEFTI_WRITE_ENDED) != 0;
        io->events[WEFTI_OUT]++;
    }
    struct wefti_waiter *waiter = only_one(io, what);
    if (WEFTI_UNLIKELY(!waiter)) {
        wefti_desc_serve_and_unlock(io, what & WEFTI_READABLE, what & WEFTI_WRITABLE, 0);
        return;
    }
    if (WEFTI_LIKELY(w && wefti_waiter_is_here(waiter, w))) {
        struct weft_task *task = wefti_waiter_serve_here(waiter);
        wefti_desc_unlock(io);
        wefti_waiter_wake_here(w, task);
        return;
    }
    wefti_waker waker = wefti_waiter_serve(waiter);
    wefti_desc_unlock(io);
    wefti_waiter_wake(waker);
}

void wefti_desc_event(struct weft_io *io, uint32_t ready) { event_by(io, wefti_worker_here(), ready); }

/* Where connections are many, all that an event touches has left the caches since the last one: the descriptor; who waits for it, whose record is
 * on a stack and so in a page of its own; and his task.  One leads to the next.  So some are asked for at a time, one behind the other: what
 * they take is then spent once, and not for each. */
#define AHEAD 8 /* events */

static inline void prefetch_desc(const struct wefti_poll_event *event) {
    __builtin_prefetch(event->tag);
    __builtin_prefetch((const char *)event->tag + LINE);
}

/* task: of who waits; else his record.  A hint: of readers, and where the lock is ours anyway. */
static inline void prefetch_waiter(struct wefti_worker *w, const struct wefti_poll_event *event, bool task) {
    struct weft_io *io = event->tag;
    if (event->ready == WEFTI_DONE || WEFTI_UNLIKELY(!wefti_bias_own(&io->lock, w)))
        return;
    const struct wefti_waiter *waiter = io->waiting[WEFTI_IN].first;
    if (waiter)
        __builtin_prefetch(task ? (const void *)(waiter->waker & ~(wefti_waker)1) : waiter);
    wefti_desc_unlock(io);
}

/* The first of `left`, and the descriptors of those behind them. */
static void prefetch_some(struct wefti_worker *w, const struct wefti_poll_event *events, int left) {
    int now = left < AHEAD ? left : AHEAD, later = left < 2 * AHEAD ? left : 2 * AHEAD;
    for (int i = 0; i < now; i++)
        prefetch_waiter(w, &events[i], false);
    for (int i = now; i < later; i++)
        prefetch_desc(&events[i]);
    for (int i = 0; i < now; i++)
        prefetch_waiter(w, &events[i], true);
}

static void dispatch(struct wefti_worker *w, const struct wefti_poll_event *events, int count) {
    for (int i = 0; i < count; i++) {
        if (i % AHEAD == 0 && count - i > 1)
            prefetch_some(w, &events[i], count - i);
        if (events[i].ready == WEFTI_DONE)
            wefti_op_done(w, &events[i]);
        else
            event_by(events[i].tag, w, events[i].ready);
    }
}

/* The worker's poller is about to be closed: whoever waits for one of its descriptors, in another runtime, looks again, and has it
 * watched there. */
static void forget(struct wefti_worker *w) {
    wefti_lock_take(&pool.lock);
    for (struct group *group = pool.groups; group; group = group->next)
        for (uint32_t i = 0; i < WEFTI_IO_GROUP; i++) {
            struct weft_io *io = &group->io[i];
            /* We are its thread, or that has ended: what it has set is known here, and it sets nothing any more. */
            if (load_relaxed(&io->lock.owner) == w)
                wefti_bias_reset(&io->lock, w);
            if (load_relaxed(&io->watcher) != w)
                continue; /* do not take others' locks from them */
            wefti_desc_lock(io);
            if (load_relaxed(&io->watcher) != w) { /* the lock orders it, here and everywhere below */
                wefti_desc_unlock(io);
                continue;
            }
            store_relaxed(&io->watcher, NULL);
            io->ready[WEFTI_IN] = io->ready[WEFTI_OUT] = true;
            io->events[WEFTI_IN]++, io->events[WEFTI_OUT]++; /* a call under way must not say otherwise */
            wefti_desc_serve_and_unlock(io, true, true, 0);
        }
    wefti_lock_give(&pool.lock);
}

int wefti_watch_begin(struct wefti_worker *w) {
    if (w->watch)
        return 0;
    struct wefti_watch *watch = wefti_alloc(wefti_watch_size(w->rt));
    if (!watch)
        return -ENOMEM;
    int error = wefti_poller_open(&watch->poller, w->rt->uring && !w->driven, w->rt->max_io_completions);
    if (error) {
        wefti_free(watch, wefti_watch_size(w->rt));
        return error;
    }
    watch->dispatch = dispatch;
    watch->forget = forget;
    w->watch = watch;
    wefti_worker_look_soon(w);
    return 0;
}

/* -- Watching ---------------------------------------------------------------------------------------------- */

int wefti_desc_watch(struct weft_io *io, struct wefti_worker *w) {
    struct wefti_worker *watcher = load_relaxed(&io->watcher); /* the lock orders it */
    if (io->always_ready || io->mem || (watcher && watcher->rt == w->rt))
        return 0;
    int error = wefti_watch_begin(w);
    if (error)
        return error;
    if (watcher) /* another runtime's, which may be driven by nobody */
        wefti_poller_remove(&watcher->watch->poller, io->fd);
    store_relaxed(&io->watcher, NULL);
    error = wefti_poller_add(&w->watch->poller, io->fd, io);
    if (error == -EPERM) { /* a file: never blocks for long */
        io->always_ready = true;
        return 0;
    }
    if (!error)
        store_relaxed(&io->watcher, w);
    return error;
}

int weft_close(weft_io *io) {
    if (!io)
        return 0;
    wefti_desc_lock(io);
    if (io->closed) {
        wefti_desc_unlock(io);
        return -EBADF;
    }
    io->closed = true;
    io->users++; /* ours */
    struct wefti_worker *watcher = load_relaxed(&io->watcher); /* the lock orders it */
    if (watcher)
        wefti_poller_remove(&watcher->watch->poller, io->fd);
    store_relaxed(&io->watcher, NULL);
    wefti_desc_serve_and_unlock(io, true, true, -EBADF);
    int error = io->layer ? wefti_layer_close(io) : 0;
    wefti_desc_lock(io);
    return wefti_desc_leave_and_unlock(io) ? wefti_desc_finish(io) : error;
}
