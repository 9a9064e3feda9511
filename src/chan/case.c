/* case.c - channels as cases of a select (fiber/select.h has the interface). */
#include "chan/chan.h"

#include "fiber/select.h"

static struct wefti_chan *chan_of(const weft_case *c) { return c->thing; }

static bool served(weft_case *c, struct wefti_waiter *waiter) {
    c->result = (int)waiter->result;
    return true;
}

/* -EAGAIN: the lock is held. */
static bool tried(weft_case *c, int error) {
    if (error == -EAGAIN) {
        wefti_bias_give(&chan_of(c)->lock);
        return false;
    }
    c->result = error;
    return true;
}

/* The lock is held, and given back.  Unless it could happen now, the record is in. */
static int begin(weft_case *c, struct wefti_waiter *waiter, struct wefti_waiters *list, bool could) {
    if (!could) {
        waiter->slot = c->value;
        wefti_waiters_append(list, waiter);
    }
    wefti_bias_give(&chan_of(c)->lock);
    return !could;
}

/* A stray was taken out by somebody who had something for it after the select had given up.  That includes what a control thread is yet to serve:
 * wefti_chan_lock resolves it. */
static bool end(weft_case *c, struct wefti_waiter *waiter, struct wefti_waiters *list) {
    wefti_chan_lock(chan_of(c));
    bool stray = wefti_waiters_end(list, waiter);
    chan_of(c)->strays -= stray;
    wefti_bias_give(&chan_of(c)->lock);
    return stray;
}

/* -- Receiving ----------------------------------------------------------------------------------------------- */

static bool try_recv(weft_case *c) { return tried(c, wefti_chan_recv_locking(chan_of(c), c->value)); }

static int begin_recv(weft_case *c, struct wefti_waiter *waiter) {
    struct wefti_chan *ch = chan_of(c);
    wefti_chan_lock(ch);
    return begin(c, waiter, &ch->receivers,
                 ch->count || ch->closed || wefti_waiters_has_other(&ch->senders, waiter->choice, &ch->strays));
}

static bool end_recv(weft_case *c, struct wefti_waiter *waiter) { return end(c, waiter, &chan_of(c)->receivers); }

static const struct weft_case_kind recv_kind = {
    .what = "a value from a channel", .try_now = try_recv, .begin = begin_recv, .end = end_recv, .served = served};

weft_case weft_case_recv(weft_chan *ch, void *value) {
    return (weft_case){.kind = ch ? &recv_kind : &wefti_no_case, .thing = ch, .value = value};
}

weft_case weft_case_oneshot(weft_oneshot_receiver *receiver, void *value) {
    return (weft_case){.kind = receiver ? &recv_kind : &wefti_no_case,
                       .thing = receiver,
                       .value = value}; /* it is a channel: oneshot.c */
}

/* -- Sending ------------------------------------------------------------------------------------------------- */

static bool try_send(weft_case *c) { return tried(c, wefti_chan_send_locking(chan_of(c), c->value)); }

static int begin_send(weft_case *c, struct wefti_waiter *waiter) {
    struct wefti_chan *ch = chan_of(c);
    wefti_chan_lock(ch);
    return begin(c, waiter, &ch->senders,
                 ch->count < ch->capacity || ch->closed ||
                     wefti_waiters_has_other(&ch->receivers, waiter->choice, &ch->strays));
}

static bool end_send(weft_case *c, struct wefti_waiter *waiter) { return end(c, waiter, &chan_of(c)->senders); }

static const struct weft_case_kind send_kind = {
    .what = "room in a channel", .try_now = try_send, .begin = begin_send, .end = end_send, .served = served};

weft_case weft_case_send(weft_chan *ch, const void *value) {
    return (weft_case){
        .kind = ch ? &send_kind : &wefti_no_case, .thing = ch, .value = (void *)(uintptr_t)value}; /* only read */
}
