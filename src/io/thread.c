/* thread.c - plain threads that wait for a descriptor: in the system, until it is ready or somebody pokes them. */
#include "io/desc.h"

#define THREAD_LOOK INT64_C(10000000) /* ns; of a thread that could get no poke */

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

int wefti_thread_wait(struct weft_io *io, int direction, uint32_t *seen, int64_t until) {
    struct wefti_waiter waiter;
    int error = wefti_waiter_init(&waiter), state = 1;
    if (error) {
        wefti_desc_unlock(io);
        return error;
    }
    struct wefti_poke *poke = wefti_poke_take(); /* under the lock, which orders it before whoever pokes it */
    wefti_desc_append(io, direction, &waiter);
    wefti_desc_unlock(io);
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
        wefti_desc_lock(io);
        bool was = wefti_waiters_remove(&io->waiting[direction], &waiter);
        io->ready[direction] |= state == 0;
        *seen = io->events[direction];
        wefti_desc_unlock(io);
        if (was)
            return state;
        wefti_waiter_settle(&waiter);
    }
    *seen = (uint32_t)(uintptr_t)waiter.slot;
    return (int)waiter.result;
}
