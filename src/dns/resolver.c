/* resolver.c - a runtime's own resolver, instead of the system's.
 *
 * It hangs on the runtime.  A call holds a reference to the one that it has begun with, so that another may take its place meanwhile; who is
 * last drops it. */
#include <errno.h>

#include "base/atomic.h"
#include "dns/dns.h"
#include "fiber/wait.h"
#include "queue/lock.h"
#include "sched/spawn.h"
#include "task/account.h"

struct chosen {
    _Atomic uint32_t refs;
    weft_resolver functions;
    void *state;
};

struct seat {
    struct wefti_annex annex;
    struct wefti_lock lock;
    struct chosen *now; /* under the lock; NULL: the system's */
};

static struct seat *seat_of(struct weft_runtime *rt) {
    return (struct seat *)(void *)wefti_annex(rt, WEFTI_ANNEX_RESOLVER); /* annex is its first field */
}

static void unref(struct chosen *chosen) {
    if (!chosen || sub_acq_rel(&chosen->refs, 1) > 1) /* the last one sees all that the others did */
        return;
    if (chosen->functions.drop)
        chosen->functions.drop(chosen->state);
    wefti_free(chosen, sizeof *chosen);
}

static int end(struct wefti_annex *annex) {
    struct seat *seat = (struct seat *)(void *)annex;
    unref(seat->now); /* nobody else uses the runtime any more */
    wefti_free(seat, sizeof *seat);
    return 0;
}

/* The runtime's, made at first use; NULL: no memory. */
static struct seat *make_seat(struct weft_runtime *rt) {
    struct seat *there = seat_of(rt), *made = there ? NULL : wefti_alloc(sizeof *made);
    if (!made)
        return there;
    made->annex.end = end;
    there = (struct seat *)(void *)wefti_annex_hang(rt, WEFTI_ANNEX_RESOLVER, &made->annex);
    if (there != made)
        wefti_free(made, sizeof *made);
    return there;
}

int weft_resolver_set(weft_runtime *given, const weft_resolver *resolver, void *state) {
    struct weft_runtime *rt = given ? given : weft_runtime_current();
    struct chosen *chosen = NULL, *before;
    weft_resolver functions = {0};
    if (!rt)
        return -EINVAL;
    if (resolver) {
        functions.size = sizeof functions;
        int error = wefti_known_struct(resolver, offsetof(weft_resolver, drop), &functions, sizeof functions);
        if (error || !functions.resolve)
            return error ? error : -EINVAL;
        chosen = wefti_alloc(sizeof *chosen);
        if (!chosen)
            return -ENOMEM;
        store_relaxed(&chosen->refs, 1); /* published by the lock */
        chosen->functions = functions;
        chosen->state = state;
    }
    struct seat *seat = resolver ? make_seat(rt) : seat_of(rt);
    if (!seat) {
        if (chosen)
            wefti_free(chosen, sizeof *chosen);
        return chosen ? -ENOMEM : 0;
    }
    wefti_lock_take(&seat->lock);
    before = seat->now;
    seat->now = chosen;
    wefti_lock_give(&seat->lock);
    unref(before);
    return 0;
}

bool wefti_resolver_is_own(void) {
    struct wefti_worker *w = wefti_worker_here();
    struct seat *seat = w && wefti_current(w) ? seat_of(w->rt) : NULL;
    if (!seat)
        return false;
    wefti_lock_take(&seat->lock);
    bool own = seat->now != NULL;
    wefti_lock_give(&seat->lock);
    return own;
}

bool wefti_resolver_ask(const char *name, const char *service, int family, weft_addr *addrs, size_t room,
                        weft_deadline until, int *result) {
    struct wefti_worker *w = wefti_worker_here();
    struct weft_task *task = w ? wefti_current(w) : NULL;
    struct seat *seat = task && wefti_task_is_fiber(task) ? seat_of(w->rt) : NULL;
    if (!seat)
        return false;
    wefti_lock_take(&seat->lock);
    struct chosen *chosen = seat->now;
    if (chosen)
        add_relaxed(&chosen->refs, 1); /* from the seat's, under the lock */
    wefti_lock_give(&seat->lock);
    if (!chosen)
        return false;
    *result = wefti_fiber_must_end(wefti_fiber_of(task)) ? -ECANCELED : wefti_charge_syscall_call();
    if (!*result) {
        int found = chosen->functions.resolve(chosen->state, name, service, family, addrs, room, until);
        *result = found ? found : -ENOENT;
    }
    unref(chosen);
    return true;
}
