/* watch.c - one value that changes, and those who wait for its next version. */
#include "chan/bell.h"
#include "chan/chan.h"

struct weft_watch {
    struct wefti_bell bell;
    uint32_t size;
    uint64_t version;
    _Alignas(16) char value[];
};

int weft_watch_create(size_t value_size, const void *first, weft_watch **out) {
    int error = !out || value_size > WEFT_CHAN_VALUE_MAX ? -EINVAL : wefti_chan_may_make();
    if (error)
        return error;
    struct weft_watch *watch = wefti_alloc(sizeof *watch + value_size);
    if (!watch)
        return -ENOMEM;
    watch->size = (uint32_t)value_size;
    watch->version = 1;
    if (first)
        wefti_chan_copy(watch->value, first, watch->size);
    store_relaxed(&watch->bell.refs, 1); /* nobody else knows it yet */
    *out = watch;
    return 0;
}

weft_watch *weft_watch_clone(weft_watch *watch) {
    if (watch)
        wefti_bell_ref(&watch->bell, "weft_watch_clone");
    return watch;
}

void weft_watch_drop(weft_watch *watch) {
    if (watch && wefti_bell_unref(&watch->bell))
        wefti_free(watch, sizeof *watch + watch->size);
}

int weft_watch_set(weft_watch *watch, const void *value) {
    if (!watch)
        return -EINVAL;
    wefti_slice_note(wefti_worker_self());
    wefti_lock_take(&watch->bell.lock);
    if (watch->bell.closed) {
        wefti_lock_give(&watch->bell.lock);
        return -EPIPE;
    }
    wefti_chan_copy(watch->value, value, watch->size);
    watch->version++;
    wefti_bell_ring(&watch->bell);
    return 0;
}

uint64_t weft_watch_get(weft_watch *watch, void *value) {
    if (!watch)
        return 0;
    wefti_slice_note(wefti_worker_self());
    wefti_lock_take(&watch->bell.lock);
    wefti_chan_copy(value, watch->value, watch->size);
    uint64_t version = watch->version;
    wefti_lock_give(&watch->bell.lock);
    return version;
}

void weft_watch_close(weft_watch *watch) {
    if (watch)
        wefti_bell_close(&watch->bell);
}

/* 0; -EPIPE; -EAGAIN: the lock is held. */
static int look_locking(struct weft_watch *watch, uint64_t *version, void *value) {
    wefti_lock_take(&watch->bell.lock);
    int error = 0;
    if (watch->version != *version) {
        wefti_chan_copy(value, watch->value, watch->size);
        *version = watch->version;
    } else if (watch->bell.closed) {
        error = -EPIPE;
    } else {
        return -EAGAIN;
    }
    wefti_lock_give(&watch->bell.lock);
    return error;
}

int weft_watch_wait(weft_watch *watch, uint64_t *version, void *value, weft_deadline until) {
    wefti_slice_use(until);
    int error = watch ? wefti_charge_channel_call(until) : -EINVAL;
    if (error)
        return error;
    for (;;) {
        error = look_locking(watch, version, value);
        if (error != -EAGAIN)
            return error;
        error = wefti_bell_wait(&watch->bell, until, wefti_words(WEFTI_A_WATCH));
        if (error)
            return error;
    }
}

int weft_watch_wait_poll(weft_watch *watch, weft_task *self, weft_wait *room, uint64_t *version, void *value) {
    struct wefti_poll_wait *wait = wefti_poll_wait_of(room);
    if (wefti_slice_poll(self))
        return -EAGAIN;
    int error = watch && self ? wefti_bell_poll_waits(&watch->bell, wait) : -EINVAL;
    if (error)
        return wefti_poll_waits(error, WEFTI_A_WATCH);
    error = look_locking(watch, version, value);
    if (error == -EAGAIN)
        wefti_bell_poll_begin(&watch->bell, self, wait);
    return wefti_poll_waits(error, WEFTI_A_WATCH);
}

/* -- Select -------------------------------------------------------------------------------------------------- */

static bool try_now(weft_case *c) {
    struct weft_watch *watch = c->thing;
    c->result = look_locking(watch, c->extra, c->value);
    if (c->result != -EAGAIN)
        return true;
    wefti_lock_give(&watch->bell.lock);
    return false;
}

static int begin(weft_case *c, struct wefti_waiter *waiter) {
    struct weft_watch *watch = c->thing;
    wefti_lock_take(&watch->bell.lock);
    if (watch->version != *c->extra || watch->bell.closed) { /* recheck */
        wefti_lock_give(&watch->bell.lock);
        return 0;
    }
    wefti_bell_case_begin(&watch->bell, waiter);
    return 1;
}

static bool end(weft_case *c, struct wefti_waiter *waiter) {
    wefti_bell_case_end(&((struct weft_watch *)c->thing)->bell, waiter);
    return false;
}

static bool served(weft_case *c, struct wefti_waiter *waiter) {
    (void)waiter;
    return try_now(c); /* false: it was rung for another version, which we know (bell.h) */
}

static const struct weft_case_kind kind = {
    .what = "a watch", .try_now = try_now, .begin = begin, .end = end, .served = served};

weft_case weft_case_watch(weft_watch *watch, uint64_t *version, void *value) {
    return (weft_case){.kind = watch ? &kind : &wefti_no_case, .thing = watch, .value = value, .extra = version};
}
