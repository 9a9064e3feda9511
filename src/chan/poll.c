/* poll.c - sending and receiving in poll tasks, which do not suspend.
 *
 * What.   The record lies in the task's weft_wait, the value in a cell of the channel (chan.h).  The task calls again when it is
 *         woken, and finds its record served; or it never calls again, and ends the wait in its drop function.
 */
#include "chan/chan.h"

static struct wefti_cell *cell_of(struct wefti_waiter *waiter) {
    return (struct wefti_cell *)(void *)((char *)waiter->slot - offsetof(struct wefti_cell, value));
}

/* Under the lock: the cell is free again. */
static void put_back(struct wefti_chan *ch, struct wefti_cell *cell) {
    cell->next = ch->cells;
    ch->cells = cell;
    ch->lent--;
}

static struct wefti_chan *chan_of(struct wefti_poll_wait *wait) { return wait->thing; }

/* -- Ending a wait early --------------------------------------------------------------------------------------- */

static void end_send(struct wefti_poll_wait *wait) {
    struct wefti_chan *ch = chan_of(wait);
    wefti_chan_lock(ch);
    wefti_waiters_remove(&ch->senders, &wait->waiter); /* else it has been sent, and that is that */
    put_back(ch, cell_of(&wait->waiter));
    wefti_bias_give(&ch->lock);
    wait->end = NULL;
}

/* Under the lock: a value that was granted is the channel's again, as the first of all that came later.  The waker of whoever
 * got it, or 0. */
static wefti_waker give_back(struct wefti_chan *ch, struct wefti_cell *cell) {
    struct wefti_waiter *next = wefti_waiters_take_count(&ch->receivers, &ch->strays);
    if (next) {
        wefti_chan_copy(next->slot, cell->value, ch->size);
        next->result = 0;
        put_back(ch, cell);
        return wefti_waiter_serve(next);
    }
    struct wefti_cell **at = &ch->returned;
    while (*at && (*at)->turn < cell->turn)
        at = &(*at)->next;
    cell->next = *at;
    *at = cell;
    ch->gave_back = true;
    ch->count++;
    ch->lent--;
    return 0;
}

static void end_recv(struct wefti_poll_wait *wait) {
    struct wefti_chan *ch = chan_of(wait);
    struct wefti_cell *cell = cell_of(&wait->waiter);
    wefti_waker waker = 0;
    wefti_chan_lock(ch);
    if (wefti_waiters_remove(&ch->receivers, &wait->waiter) || wait->waiter.result)
        put_back(ch, cell);
    else
        waker = give_back(ch, cell);
    wefti_chan_unlock(ch, waker);
    wait->end = NULL;
}

/* -- Waiting ------------------------------------------------------------------------------------------------------ */

/* The lock is held.  True: the record waits, and the lock was given back.  False: there was no cell; there is now one, or *error. */
static bool begin(struct wefti_chan *ch, struct weft_task *self, struct wefti_poll_wait *wait,
                  struct wefti_waiters *list, const void *value, int *error) {
    struct wefti_cell *cell = ch->cells;
    if (!cell) {
        wefti_bias_give(&ch->lock);
        cell = wefti_alloc(sizeof *cell + ch->size);
        *error = cell ? 0 : -ENOMEM;
        if (cell) {
            wefti_chan_lock(ch);
            cell->next = ch->cells;
            ch->cells = cell;
            wefti_bias_give(&ch->lock);
        }
        return false;
    }
    ch->cells = cell->next;
    ch->lent++;
    cell->turn = ch->turns++;
    if (value)
        wefti_chan_copy(cell->value, value, ch->size);
    wefti_waiter_init_task(&wait->waiter, self);
    wait->waiter.slot = cell->value;
    wait->thing = ch;
    wait->end = value ? end_send : end_recv;
    wefti_waiters_append(list, &wait->waiter);
    wefti_bias_give(&ch->lock);
    *error = wefti_poll_waits(-EAGAIN, value ? WEFTI_ROOM : WEFTI_A_VALUE);
    return true;
}

/* A wait that was begun in an earlier poll: -EAGAIN, or it is over, and what the server says. */
static int look(struct wefti_poll_wait *wait, void *value, enum wefti_waits what) {
    struct wefti_chan *ch = chan_of(wait);
    if (!wefti_waiter_is_served(&wait->waiter))
        return wefti_poll_waits(-EAGAIN, what);
    int result = (int)wait->waiter.result;
    struct wefti_cell *cell = cell_of(&wait->waiter);
    if (value && !result)
        wefti_chan_copy(value, cell->value, ch->size);
    wefti_chan_lock(ch);
    put_back(ch, cell);
    wefti_bias_give(&ch->lock);
    wait->end = NULL;
    return result;
}

int weft_chan_send_poll(weft_chan *handle, weft_task *self, weft_wait *room, const void *value) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    struct wefti_poll_wait *wait = wefti_poll_wait_of(room);
    static const char nothing[1];
    if (!ch || !self)
        return -EINVAL;
    if (wefti_slice_poll(self))
        return -EAGAIN;
    if (wefti_poll_wait_is_taken(wait, end_send, ch))
        return -EBUSY;
    if (wait->end)
        return look(wait, NULL, WEFTI_ROOM);
    for (;;) {
        int error = wefti_chan_send_locking(ch, value);
        if (error != -EAGAIN || begin(ch, self, wait, &ch->senders, value ? value : nothing, &error) || error)
            return error;
    }
}

int weft_chan_recv_poll(weft_chan *handle, weft_task *self, weft_wait *room, void *value) {
    struct wefti_chan *ch = wefti_chan_of(handle);
    struct wefti_poll_wait *wait = wefti_poll_wait_of(room);
    if (!ch || !self)
        return -EINVAL;
    if (wefti_slice_poll(self))
        return -EAGAIN;
    if (wefti_poll_wait_is_taken(wait, end_recv, ch))
        return -EBUSY;
    if (wait->end)
        return look(wait, value, WEFTI_A_VALUE);
    for (;;) {
        int error = wefti_chan_recv_locking(ch, value);
        if (error != -EAGAIN || begin(ch, self, wait, &ch->receivers, NULL, &error) || error)
            return error;
    }
}
