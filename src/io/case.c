/* case.c - descriptors as cases of a select (fiber/select.h has the interface).
 *
 * What.   A case happens when the system says that the descriptor is ready: it is asked in the try, again before a record is put in,
 *         and again when the record was served, since an event may be old, or its bytes another's by now.
 * Race.   select: D1 lock, ask: not ready           kernel, worker: E0 ready
 *                 D2 append, unlock                                 E1 the event is dispatched, under the lock: serve
 * Claim.  A descriptor that becomes ready while a select waits for it ends the wait, unless somebody else takes what came.
 * Why.    The descriptor is watched before D1.  E0 before D1: D1 sees it.  E0 after D1: there is an event, whose E1 waits for the lock,
 *         and finds the record.
 * Held.   The number is not given back to the system before the select is over (`users`); a close ends it with -EBADF.  A foreign descriptor is
 *         watched by way of a duplicate (fd.c), made when the select first has to wait.
 * Memory. One in the network in memory (mem.h) is asked there.  What was sent to it becomes readable at its time, for which nobody has a timer: the
 *         select looks again then (`when`).
 * Threads. Nobody watches for a plain thread: it sleeps in the system with all its descriptors, and a poke with which the others wake it.
 * Fields.  thing: the weft_io, of a foreign one the duplicate, if there is one.  at: for what.  value: the kind's own.  extra: HELD, and under
 *         the simulator the watch in which it is counted.
 */
#define _GNU_SOURCE
#include "io/mem.h"

#include "io/case.h"

#include <fcntl.h>
#include <unistd.h>

#define THREAD_LOOK INT64_C(10000000) /* ns; of a thread that could get no poke */

static struct weft_io *io_of(const weft_case *c) { return c->thing; }
static int direction_of(const weft_case *c) { return c->at == WEFT_FD_WRITE ? WEFTI_OUT : WEFTI_IN; }

/* -- Held ----------------------------------------------------------------------------------------------------- */

static char held_mark; /* any address */
#define HELD ((uint64_t *)(void *)&held_mark)

/* One direction of a descriptor; what a stream above one has in its buffers only its own functions know; one in memory is its network's.
 * 0 or a negative error. */
static int may_be_selected(const weft_case *c) {
    const struct weft_io *io = io_of(c);
    return c->at != WEFT_FD_READ && c->at != WEFT_FD_WRITE ? -EINVAL
           : io->layer                                     ? -EOPNOTSUPP
           : io->mem && io->mem->net != wefti_net_here()   ? -EINVAL
                                                           : 0;
}

/* Or not held, and the result says why: of one that is closed, only that is known. */
void wefti_case_hold(weft_case *c) {
    int error = wefti_desc_enter(io_of(c));
    c->result = error ? error : may_be_selected(c);
    c->extra = c->result ? NULL : HELD;
    if (c->result && !error)
        wefti_desc_leave(io_of(c));
}

/* It waits, in virtual time too. */
static void count_in(weft_case *c, struct wefti_worker *w) {
    if (w && w->rt->sim && w->watch && c->extra == HELD && !io_of(c)->mem) {
        w->watch->waiting++;
        c->extra = (uint64_t *)(void *)w->watch;
    }
}
static void count_out(weft_case *c) {
    if (c->extra && c->extra != HELD)
        ((struct wefti_watch *)(void *)c->extra)->waiting--;
}

void wefti_case_drop(weft_case *c) {
    count_out(c);
    if (c->extra)
        wefti_desc_leave(io_of(c));
    c->extra = NULL;
}

/* -- Asking and waiting ---------------------------------------------------------------------------------------- */

/* Under the lock: what the system says. */
static int look(struct weft_io *io, int direction, uint32_t what) {
    int ready = io->mem ? wefti_mem_is_ready(io->mem, direction) ? (int)what : 0 : wefti_fd_state(io->fd, what);
    if (ready)
        io->ready[direction] = true; /* worth trying; the event is still to come */
    return ready;
}

bool wefti_case_try(weft_case *c) {
    struct weft_io *io = io_of(c);
    if (!c->extra) /* not held */
        return true;
    wefti_desc_lock(io);
    c->result = io->closed ? -EBADF : look(io, direction_of(c), (uint32_t)c->at);
    wefti_desc_unlock(io);
    return c->result != 0;
}

int wefti_case_begin(weft_case *c, struct wefti_waiter *waiter) {
    struct weft_io *io = io_of(c);
    struct wefti_worker *w = wefti_worker_here();
    int direction = direction_of(c);
    wefti_desc_lock(io);
    int in = io->closed ? 0 : 1, error = in && w && wefti_current(w) ? wefti_desc_watch(io, w) : 0;
    if (error)
        in = error;
    if (in == 1 && look(io, direction, (uint32_t)c->at)) /* D1 */
        in = 0;
    if (in == 1)
        wefti_desc_append(io, direction, waiter); /* D2 */
    wefti_desc_unlock(io);
    if (in == 1)
        count_in(c, w);
    return in;
}

static void end(struct weft_io *io, int direction, struct wefti_waiter *waiter) {
    wefti_desc_lock(io);
    wefti_waiters_remove(&io->waiting[direction], waiter);
    wefti_desc_unlock(io);
}

bool wefti_case_end(weft_case *c, struct wefti_waiter *waiter) {
    end(io_of(c), direction_of(c), waiter);
    return false;
}

bool wefti_case_served(weft_case *c, struct wefti_waiter *waiter) {
    (void)waiter;
    return wefti_case_try(c);
}

/* Held: so it is open, or being closed, which serves the record. */
static int64_t when_it_comes(const weft_case *c) {
    const struct weft_io *io = io_of(c);
    return c->extra && io->mem ? wefti_mem_next(io->mem, direction_of(c)) : WEFT_NEVER;
}

/* -- Plain threads --------------------------------------------------------------------------------------------- */

static void *sleep_begin(void) { return wefti_poke_take(); }
static void sleep_end(void *poke) {
    if (poke)
        wefti_poke_give(poke);
}

static int thread_sleep(void *aid, struct wefti_park *park, weft_case *cases, unsigned count, int64_t until) {
    struct wefti_fd_wish wishes[WEFT_SELECT_MAX];
    struct wefti_poke *poke = aid;
    unsigned wanted = 0;
    int state;
    for (unsigned i = 0; i < count; i++)
        if (cases[i].kind && cases[i].kind->sleep)
            wishes[wanted++] = (struct wefti_fd_wish){io_of(&cases[i])->fd, (uint32_t)cases[i].at};
    int64_t limit = poke ? until : wefti_clock() + THREAD_LOOK;
    bool token = wefti_park_fds(park, wishes, wanted, poke ? poke->fd : -1, limit < until ? limit : until, &state);
    if (token)
        return 0;
    return state == -ETIMEDOUT && until <= limit ? state : -EAGAIN; /* also: a poke that was for another */
}

const struct wefti_case_sleep wefti_case_sleep = {sleep_begin, sleep_end, thread_sleep};

static const struct weft_case_kind io_kind = {.what = "a descriptor",
                                              .try_now = wefti_case_try,
                                              .begin = wefti_case_begin,
                                              .end = wefti_case_end,
                                              .served = wefti_case_served,
                                              .hold = wefti_case_hold,
                                              .drop = wefti_case_drop,
                                              .when = when_it_comes,
                                              .sleep = &wefti_case_sleep};

weft_case weft_case_io(weft_io *io, int events) {
    return (weft_case){.kind = io ? &io_kind : &wefti_no_case, .thing = io, .at = events};
}

/* -- Foreign descriptors ------------------------------------------------------------------------------------------ */

static int number_of(const weft_case *c) { return (int)(intptr_t)c->value; }

static void hold_fd(weft_case *c) {
    c->thing = NULL;
    c->extra = HELD;
}

static void drop_fd(weft_case *c) {
    count_out(c);
    if (c->thing)
        weft_close(io_of(c));
    c->thing = c->extra = NULL;
}

static bool try_fd(weft_case *c) {
    int fd = c->thing ? io_of(c)->fd : number_of(c);
    if (!c->at || (c->at & ~(WEFT_FD_READ | WEFT_FD_WRITE)))
        c->result = -EINVAL;
    else if (!c->thing && fcntl(fd, F_GETFD) < 0)
        c->result = -errno;
    else
        c->result = wefti_fd_state(fd, (uint32_t)c->at);
    return c->result != 0;
}

/* The duplicate, and who is told of its next event. */
static int begin_fd(weft_case *c, struct wefti_waiter *waiter) {
    struct wefti_worker *w = wefti_worker_here();
    struct weft_io *io = NULL;
    int error = 0;
    if (!c->thing) {
        int twin = fcntl(number_of(c), F_DUPFD_CLOEXEC, 3);
        if (twin < 0)
            return -errno;
        error = wefti_desc_new(twin, 0, &io);
        if (error) {
            close(twin);
            return error;
        }
        io->either = true;
        c->thing = io;
    }
    io = io_of(c);
    if (w && wefti_current(w) && (error = wefti_watch_begin(w)))
        return error;
    wefti_desc_lock(io);
    if (w && wefti_current(w))
        error = wefti_desc_arm(io, w, (uint32_t)c->at);
    if (!error)
        wefti_waiters_append(&io->waiting[WEFTI_IN],
                             waiter); /* armed before: what is ready is told, and waits for the lock */
    wefti_desc_unlock(io);
    if (!error)
        count_in(c, w);
    return error ? error : 1;
}

static bool end_fd(weft_case *c, struct wefti_waiter *waiter) {
    end(io_of(c), WEFTI_IN, waiter);
    return false;
}

static bool served_fd(weft_case *c, struct wefti_waiter *waiter) {
    (void)waiter;
    return try_fd(c);
}

static const struct weft_case_kind fd_kind = {.what = "a foreign descriptor",
                                              .try_now = try_fd,
                                              .begin = begin_fd,
                                              .end = end_fd,
                                              .served = served_fd,
                                              .hold = hold_fd,
                                              .drop = drop_fd,
                                              .sleep = &wefti_case_sleep};

weft_case weft_case_fd(int fd, int events) {
    return (weft_case){.kind = &fd_kind, .value = (void *)(intptr_t)fd, .at = events};
}
