/* broadcast.c - every value to every subscriber, from a ring that senders overwrite.
 *
 * Value number n (from 0) lies in slot n % capacity until number n + capacity overwrites it.  A subscriber knows the number it reads next; if
 * that is gone, it goes on with the oldest that is left, and says how many it missed.
 */
#include "chan/bell.h"
#include "chan/chan.h"

struct weft_broadcast {
    struct wefti_bell bell;
    uint32_t size, capacity;
    uint64_t sent;
    size_t bytes;
    _Alignas(16) char values[];
};

struct weft_subscriber {
    struct weft_broadcast *broadcast;
    uint64_t next; /* number of the value to read next; under the lock */
};

int weft_broadcast_create(size_t value_size, size_t capacity, weft_broadcast **out) {
    if (!out || value_size > WEFT_CHAN_VALUE_MAX || capacity == 0 || capacity > WEFT_CHAN_CAPACITY_MAX)
        return -EINVAL;
    int error = wefti_chan_may_make();
    if (error)
        return error;
    size_t bytes = sizeof **out + value_size * capacity;
    struct weft_broadcast *broadcast = wefti_alloc(bytes);
    if (!broadcast)
        return -ENOMEM;
    broadcast->size = (uint32_t)value_size;
    broadcast->capacity = (uint32_t)capacity;
    broadcast->bytes = bytes;
    store_relaxed(&broadcast->bell.refs, 1); /* nobody else knows it yet */
    *out = broadcast;
    return 0;
}

weft_broadcast *weft_broadcast_clone(weft_broadcast *broadcast) {
    if (broadcast)
        wefti_bell_ref(&broadcast->bell, "weft_broadcast_clone");
    return broadcast;
}

void weft_broadcast_drop(weft_broadcast *broadcast) {
    if (broadcast && wefti_bell_unref(&broadcast->bell))
        wefti_free(broadcast, broadcast->bytes);
}

static char *slot(struct weft_broadcast *broadcast, uint64_t number) {
    return broadcast->values + (size_t)(number % broadcast->capacity) * broadcast->size;
}

int weft_broadcast_send(weft_broadcast *broadcast, const void *value) {
    if (!broadcast)
        return -EINVAL;
    wefti_slice_note(wefti_worker_self());
    wefti_lock_take(&broadcast->bell.lock);
    if (broadcast->bell.closed) {
        wefti_lock_give(&broadcast->bell.lock);
        return -EPIPE;
    }
    wefti_chan_copy(slot(broadcast, broadcast->sent), value, broadcast->size);
    broadcast->sent++;
    wefti_bell_ring(&broadcast->bell);
    return 0;
}

void weft_broadcast_close(weft_broadcast *broadcast) {
    if (broadcast)
        wefti_bell_close(&broadcast->bell);
}

/* -- Subscribers --------------------------------------------------------------------------------------------- */

int weft_subscribe(weft_broadcast *broadcast, weft_subscriber **out) {
    if (!broadcast || !out)
        return -EINVAL;
    struct weft_subscriber *subscriber = wefti_alloc(sizeof *subscriber);
    if (!subscriber)
        return -ENOMEM;
    wefti_bell_ref(&broadcast->bell, "weft_subscribe");
    subscriber->broadcast = broadcast;
    wefti_lock_take(&broadcast->bell.lock);
    subscriber->next = broadcast->sent;
    wefti_lock_give(&broadcast->bell.lock);
    *out = subscriber;
    return 0;
}

void weft_unsubscribe(weft_subscriber *subscriber) {
    if (!subscriber)
        return;
    weft_broadcast_drop(subscriber->broadcast);
    wefti_free(subscriber, sizeof *subscriber);
}

/* Under the lock: 0; -EPIPE; -EAGAIN. */
static int look(struct weft_subscriber *subscriber, void *value, uint64_t *missed) {
    struct weft_broadcast *broadcast = subscriber->broadcast;
    if (subscriber->next == broadcast->sent)
        return broadcast->bell.closed ? -EPIPE : -EAGAIN;
    uint64_t oldest = broadcast->sent > broadcast->capacity ? broadcast->sent - broadcast->capacity : 0;
    uint64_t behind = subscriber->next < oldest ? oldest - subscriber->next : 0;
    subscriber->next += behind;
    wefti_chan_copy(value, slot(broadcast, subscriber->next++), broadcast->size);
    if (missed)
        *missed = behind;
    return 0;
}

/* As look; -EAGAIN: the lock is held. */
static int look_locking(struct weft_subscriber *subscriber, void *value, uint64_t *missed) {
    struct wefti_bell *bell = &subscriber->broadcast->bell;
    wefti_lock_take(&bell->lock);
    int error = look(subscriber, value, missed);
    if (error != -EAGAIN)
        wefti_lock_give(&bell->lock);
    return error;
}

int weft_subscriber_recv(weft_subscriber *subscriber, void *value, uint64_t *missed, weft_deadline until) {
    wefti_slice_use(until);
    int error = subscriber ? wefti_charge_channel_call(until) : -EINVAL;
    if (error)
        return error;
    for (;;) {
        error = look_locking(subscriber, value, missed);
        if (error != -EAGAIN)
            return error;
        error = wefti_bell_wait(&subscriber->broadcast->bell, until, wefti_words(WEFTI_A_BROADCAST));
        if (error)
            return error;
    }
}

int weft_subscriber_recv_poll(weft_subscriber *subscriber, weft_task *self, weft_wait *room, void *value,
                              uint64_t *missed) {
    struct wefti_poll_wait *wait = wefti_poll_wait_of(room);
    if (wefti_slice_poll(self))
        return -EAGAIN;
    int error = subscriber && self ? wefti_bell_poll_waits(&subscriber->broadcast->bell, wait) : -EINVAL;
    if (error)
        return wefti_poll_waits(error, WEFTI_A_BROADCAST);
    error = look_locking(subscriber, value, missed);
    if (error == -EAGAIN)
        wefti_bell_poll_begin(&subscriber->broadcast->bell, self, wait);
    return wefti_poll_waits(error, WEFTI_A_BROADCAST);
}

/* -- Select -------------------------------------------------------------------------------------------------- */

static bool try_now(weft_case *c) {
    struct weft_subscriber *subscriber = c->thing;
    c->result = look_locking(subscriber, c->value, c->extra);
    if (c->result != -EAGAIN)
        return true;
    wefti_lock_give(&subscriber->broadcast->bell.lock);
    return false;
}

static int begin(weft_case *c, struct wefti_waiter *waiter) {
    struct weft_subscriber *subscriber = c->thing;
    struct weft_broadcast *broadcast = subscriber->broadcast;
    wefti_lock_take(&broadcast->bell.lock);
    if (subscriber->next != broadcast->sent || broadcast->bell.closed) { /* recheck */
        wefti_lock_give(&broadcast->bell.lock);
        return 0;
    }
    wefti_bell_case_begin(&broadcast->bell, waiter);
    return 1;
}

static bool end(weft_case *c, struct wefti_waiter *waiter) {
    wefti_bell_case_end(&((struct weft_subscriber *)c->thing)->broadcast->bell, waiter);
    return false;
}

static bool served(weft_case *c, struct wefti_waiter *waiter) {
    (void)waiter;
    return try_now(c); /* false: it was rung for a value that we have read (bell.h) */
}

static const struct weft_case_kind kind = {
    .what = "a broadcast", .try_now = try_now, .begin = begin, .end = end, .served = served};

weft_case weft_case_subscriber(weft_subscriber *subscriber, void *value, uint64_t *missed) {
    return (weft_case){
        .kind = subscriber ? &kind : &wefti_no_case, .thing = subscriber, .value = value, .extra = missed};
}
