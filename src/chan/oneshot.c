/* oneshot.c - one value, once: a channel of capacity 1 with two handles, one for each end.
 *
 * Either end going closes the channel: the receiver then finds it empty, the sender finds it closed.
 */
#include "chan/chan.h"

static weft_chan *of_sender(weft_oneshot_sender *sender) { return (weft_chan *)(void *)sender; }
static weft_chan *of_receiver(weft_oneshot_receiver *receiver) { return (weft_chan *)(void *)receiver; }

int weft_oneshot_create(size_t value_size, weft_oneshot_sender **sender, weft_oneshot_receiver **receiver) {
    int error = sender && receiver ? wefti_chan_may_make() : -EINVAL;
    struct wefti_chan *ch = error ? NULL : wefti_chan_make(value_size, 1, 2, &error);
    if (ch) {
        *sender = (weft_oneshot_sender *)(void *)ch;
        *receiver = (weft_oneshot_receiver *)(void *)ch;
    }
    return error;
}

int weft_oneshot_send(weft_oneshot_sender *sender, const void *value) {
    struct wefti_chan *ch = wefti_chan_of(of_sender(sender));
    wefti_waker waker;
    if (!ch)
        return -EINVAL;
    wefti_slice_note(wefti_worker_self());
    wefti_chan_lock(ch);
    int error = wefti_chan_send_now(ch, value, &waker); /* 0 or -EPIPE: it is empty */
    ch->closed = true; /* nobody waits any more: there is one receiver, and it was served */
    wefti_chan_unlock(ch, waker);
    weft_chan_drop(of_sender(sender));
    return error;
}

void weft_oneshot_sender_drop(weft_oneshot_sender *sender) {
    if (!sender)
        return;
    weft_chan_close(of_sender(sender));
    weft_chan_drop(of_sender(sender));
}

bool weft_oneshot_is_unwanted(weft_oneshot_sender *sender) { return weft_chan_is_closed(of_sender(sender)); }

int weft_oneshot_recv(weft_oneshot_receiver *receiver, void *value, weft_deadline until) {
    return weft_chan_recv(of_receiver(receiver), value, until);
}

int weft_oneshot_recv_poll(weft_oneshot_receiver *receiver, weft_task *self, weft_wait *wait, void *value) {
    return weft_chan_recv_poll(of_receiver(receiver), self, wait, value);
}

void weft_oneshot_receiver_drop(weft_oneshot_receiver *receiver) {
    if (!receiver)
        return;
    weft_chan_close(of_receiver(receiver));
    weft_chan_drop(of_receiver(receiver));
}
