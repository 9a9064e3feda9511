/* signal.c - signals as something to wait for.
 *
 * What.   The handler counts the signal and pokes an eventfd of everyone who wants it; who waits reads the eventfd, and compares the count
 *         with the one it has told.  A signalfd would need the signal blocked in every thread of the process, most of which are not ours.
 * Words.  arrived[number]: grows.  slots: who wants what, and where to poke; read by the handler, on any thread, at any moment.
 *         taken[number], of a weft_signals: how many of them were told; under its lock.
 * Race.   handler: H1 arrived + 1        waiter: W1 take: an arrival that was not taken? then poke again if there are more
 *                  H2 poke                       W2 none: read the eventfd, which waits for H2, and begin again
 * Claim.  Each arrival is taken once by each weft_signals, and while there is one that was not, somebody who waits is awake or the eventfd
 *         is readable.
 * Why.    H1 comes before H2: who reads H2's poke away in W2 sees H1 in the W1 that follows.  Who takes one of several pokes for the others.
 * Memory. Eventfds stay with their slots for ever: a handler that has read a slot just before a close pokes it a little later.
 */
#define _GNU_SOURCE
#include <weft/signal.h>

#include <signal.h>
#include <unistd.h>

#include "fiber/slice.h"
#include "io/case.h"
#include "queue/lock.h"

#define SLOTS 64

struct weft_signals {
    struct wefti_lock lock;
    weft_io *io;
    int poke; /* its descriptor */
    unsigned slot;
    uint32_t users; /* calls under way; the last one out of a closed one frees it */
    bool closed;
    uint64_t mask;
    uint64_t taken[WEFTI_SIGNALS];
};

static struct {
    _Atomic uint64_t mask; /* 0: nobody's */
    _Atomic int poke;      /* 1 + descriptor; 0: none yet */
} slots[SLOTS];

static _Atomic uint64_t arrived[WEFTI_SIGNALS];

static struct {
    struct wefti_lock lock;
    uint64_t used; /* slots */
    unsigned users[WEFTI_SIGNALS];
} all;

static uint64_t bit(int number) { return UINT64_C(1) << (number - 1); }

static void on_signal(int number) {
    if (wefti_is_forked()) /* the eventfds are our parent's */
        return;
    int error = *wefti_errno_at();
    add_release(&arrived[number], 1); /* H1, pairs with take */
    for (unsigned i = 0; i < SLOTS; i++)
        if (load_acquire(&slots[i].mask) & bit(number)) /* pairs with weft_signal_open */
            wefti_poke(load_relaxed(&slots[i].poke) - 1); /* H2; written before the mask */
    *wefti_errno_at() = error;
}

/* -- Opening and closing -------------------------------------------------------------------------------------- */

static bool may_be_caught(int number) {
    return number > 0 && number < WEFTI_SIGNALS && number != SIGKILL && number != SIGSTOP && number != SIGSEGV &&
           number != SIGBUS && number != SIGFPE && number != SIGILL;
}

/* Under the lock: a slot with an eventfd.  0 or a negative error. */
static int take_slot(unsigned *slot) {
    unsigned i = 0;
    while (i < SLOTS && all.used >> i & 1)
        i++;
    if (i == SLOTS)
        return -EBUSY;
    if (!load_relaxed(&slots[i].poke)) { /* only written here */
        int fd = wefti_poke_open();
        if (fd < 0)
            return fd;
        store_relaxed(&slots[i].poke, fd + 1); /* the mask publishes it */
    }
    *slot = i;
    return 0;
}

/* Under the lock: nobody wants these any more. */
static void release(uint64_t mask) {
    for (int number = 1; number < WEFTI_SIGNALS; number++)
        if ((mask & bit(number)) && --all.users[number] == 0)
            wefti_signal_restore(number, on_signal);
}

/* Under the lock.  0 or a negative error, and nothing is caught that was not. */
static int catch_all(uint64_t mask) {
    uint64_t caught = 0;
    for (int number = 1; number < WEFTI_SIGNALS; number++) {
        if (!(mask & bit(number)))
            continue;
        int error = all.users[number] ? 0 : wefti_signal_catch(number, on_signal);
        if (error) {
            release(caught);
            return error;
        }
        all.users[number]++;
        caught |= bit(number);
    }
    return 0;
}

static int begin(struct weft_signals *s) {
    int error = take_slot(&s->slot);
    if (error)
        return error;
    s->poke = load_relaxed(&slots[s->slot].poke) - 1;
    error = weft_io_open(s->poke, WEFT_IO_BORROW, &s->io);
    if (error)
        return error;
    for (int number = 1; number < WEFTI_SIGNALS; number++)
        s->taken[number] = load_relaxed(&arrived[number]); /* what comes from now on is new */
    store_release(&slots[s->slot].mask, s->mask); /* pairs with on_signal */
    error = catch_all(s->mask);
    if (error) {
        store_relaxed(&slots[s->slot].mask, 0); /* a late poke does no harm */
        weft_close(s->io);
        return error;
    }
    all.used |= UINT64_C(1) << s->slot;
    return 0;
}

int weft_signal_open(const int *numbers, size_t count, weft_signals **out) {
    uint64_t mask = 0;
    if (!numbers || !count || !out)
        return -EINVAL;
    for (size_t i = 0; i < count; i++) {
        if (!may_be_caught(numbers[i]))
            return -EINVAL;
        mask |= bit(numbers[i]);
    }
    if (wefti_is_forked())
        return -ENOTRECOVERABLE;
    struct weft_signals *s = wefti_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    s->mask = mask;
    wefti_fork_watch(); /* for good: the eventfds stay, and a child has the same ones */
    wefti_lock_take(&all.lock);
    int error = begin(s);
    wefti_lock_give(&all.lock);
    if (error)
        wefti_free(s, sizeof *s);
    else
        *out = s;
    return error;
}

static void leave(struct weft_signals *s) {
    wefti_lock_take(&s->lock);
    bool last = --s->users == 0 && s->closed;
    wefti_lock_give(&s->lock);
    if (!last)
        return;
    wefti_lock_take(&all.lock); /* from here on another may have the eventfd: all our calls are over */
    all.used &= ~(UINT64_C(1) << s->slot);
    wefti_lock_give(&all.lock);
    wefti_free(s, sizeof *s);
}

void weft_signal_close(weft_signals *s) {
    if (!s)
        return;
    wefti_lock_take(&s->lock);
    s->closed = true;
    s->users++; /* ours */
    wefti_lock_give(&s->lock);
    wefti_lock_take(&all.lock);
    store_relaxed(&slots[s->slot].mask, 0); /* a late poke does no harm */
    release(s->mask);
    wefti_lock_give(&all.lock);
    weft_close(s->io);
    leave(s);
}

/* -- Waiting --------------------------------------------------------------------------------------------------- */

static int enter(struct weft_signals *s) {
    wefti_lock_take(&s->lock);
    bool open = !s->closed;
    s->users += open;
    wefti_lock_give(&s->lock);
    return open ? 0 : -EBADF;
}
/* W1: one that was not told; 0: there is none. */
static int take(struct weft_signals *s) {
    int found = 0;
    bool more = false;
    wefti_lock_take(&s->lock);
    for (int number = 1; number < WEFTI_SIGNALS && !more; number++) {
        if (!(s->mask & bit(number)))
            continue;
        uint64_t count = load_acquire(&arrived[number]); /* pairs with on_signal */
        if (!found && count != s->taken[number]) {
            found = number;
            s->taken[number]++;
        }
        more = found && count != s->taken[number];
    }
    wefti_lock_give(&s->lock);
    if (more)
        wefti_poke(s->poke);
    return found;
}

int weft_signal_wait(weft_signals *s, weft_deadline until) {
    wefti_slice_use_heavy(until);
    int result = s ? enter(s) : -EINVAL;
    if (result)
        return result;
    while ((result = take(s)) == 0) {
        uint64_t pokes;
        ssize_t n = weft_read(s->io, &pokes, sizeof pokes, until); /* W2 */
        if (n < 0) {
            result = (int)n;
            break;
        }
    }
    leave(s);
    return result;
}

/* -- In a select ------------------------------------------------------------------------------------------------ */

static struct weft_signals *signals_of(const weft_case *c) { return c->value; }

static void hold(weft_case *c) {
    c->thing = NULL;
    if (!signals_of(c) || enter(signals_of(c)))
        return;
    c->thing = signals_of(c)->io;
    c->at = WEFT_FD_READ;
    wefti_case_hold(c);
}

static void drop(weft_case *c) {
    if (!c->thing)
        return;
    wefti_case_drop(c);
    leave(signals_of(c));
}

/* Also W2, without waiting: else old pokes would look like news. */
static bool try_now(weft_case *c) {
    struct weft_signals *s = signals_of(c);
    uint64_t pokes;
    c->result = c->thing ? take(s) : s ? -EBADF : -EINVAL;
    if (c->result == 0) {
        (void)!read(s->poke, &pokes, sizeof pokes);
        c->result = take(s);
    }
    if (c->result == 0) { /* closed? */
        wefti_lock_take(&s->lock);
        c->result = s->closed ? -EBADF : 0;
        wefti_lock_give(&s->lock);
    }
    return c->result != 0;
}

static bool served(weft_case *c, struct wefti_waiter *waiter) {
    (void)waiter;
    return try_now(c);
}

static const struct weft_case_kind kind = {.what = "a signal",
                                           .try_now = try_now,
                                           .begin = wefti_case_begin,
                                           .end = wefti_case_end,
                                           .served = served,
                                           .hold = hold,
                                           .drop = drop,
                                           .sleep = &wefti_case_sleep};

weft_case weft_case_signal(weft_signals *signals) { return (weft_case){.kind = &kind, .value = signals}; }
