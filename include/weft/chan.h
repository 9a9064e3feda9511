/* weft/chan.h - channels: values handed from one task to another, in order.
 *
 * A channel carries values of one size, copied in and out.  Its capacity says how many may wait in it: with 0 a sender and a receiver
 * meet (a rendezvous), with WEFT_UNBOUNDED a sender never waits.
 *
 *     weft_chan *ch;
 *     weft_chan_create(sizeof(int), 16, &ch);
 *     weft_chan_send(ch, &value, WEFT_NEVER);         // in one fiber
 *     weft_chan_recv(ch, &value, WEFT_NEVER);         // in another
 *
 * Who.    Any number of fibers, poll tasks and plain threads, of any runtime or none, may send to and receive from one channel.  A
 *         fiber that waits lets its worker run others, a plain thread sleeps, a poll task uses the calls that end in _poll.
 * Order.  Values come out in the order in which they went in.  Those who wait are served in the order in which they came.  What a
 *         sender wrote before is visible to who receives the value.
 * Loss.   A call that fails has done nothing: a value whose receiver was cancelled or late is still in the channel.
 * Slices. A fiber that always finds room or a value lets others run when its slice is used up (<weft/fiber.h>), also with an unbounded
 *         channel; not with WEFT_NOW.  In a poll task the call returns -EAGAIN then, and the task is polled again.
 * Budgets. A fiber with a budget (<weft/budget.h>) that cannot pay for a call waits for a recharge; with WEFT_NOW the call returns -EDQUOT.
 * Close.  After weft_chan_close nothing more is sent; what is in the channel can still be received, and then receivers learn that it
 *         is closed.
 *
 * Select over several channels: <weft/select.h>.  One value once: weft_oneshot.  Every value to every receiver: weft_broadcast.  Only the
 * newest value: weft_watch.
 */
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <weft/base.h>
#include <weft/cap.h>
#include <weft/task.h>

WEFT_EXTERN_C_BEGIN

/* Opaque; its size is public only so that it can be part of something else (weft_chan_init).  Not to be moved or copied. */
typedef struct weft_chan {
    uint64_t room[20];
} weft_chan;

#define WEFT_UNBOUNDED SIZE_MAX /* a capacity */
#define WEFT_CHAN_CAPACITY_MAX (WEFT_CAST(size_t, 1) << 30)
#define WEFT_CHAN_VALUE_MAX WEFT_CAST(size_t, 65535) /* larger things: send a pointer */

/* Create a channel for values of `value_size` bytes (0: only the fact that something was sent counts).
 * Call from: anywhere.
 * Returns 0; -EINVAL (value_size or capacity too large); -ENOMEM; -EPERM: by a task of a runtime with the profile `sovereign` (see
 * <weft/cap.h>), as all calls here that make something. */
WEFT_API WEFT_MUST_USE int weft_chan_create(size_t value_size, size_t capacity, weft_chan **out);
/* The same with a capability of rt (NULL: the caller's runtime), which counts it until it is freed: before that runtime is.
 * Returns as above; -EPERM (no right to that, or not to such a capacity); -EDQUOT (as many are open as it allows); -EINVAL (no runtime). */
WEFT_API WEFT_MUST_USE int weft_chan_create_with(weft_runtime *rt, const weft_cap *cap, size_t value_size,
                                                 size_t capacity, weft_chan **out);

/* Free a channel, and the values in it.  It must be the only handle, and nobody may be waiting; a call that has handed over its value but
 * has not yet returned is no hindrance.
 * Returns 0; -EBUSY (other handles exist, or somebody waits, or a select over it has not yet returned): it is unchanged.  NULL is allowed. */
WEFT_API int weft_chan_destroy(weft_chan *ch);

/* The same for a channel in the caller's memory, for instance on the stack of the fiber that receives.  `buffer` has room for `capacity`
 * values, lives as long as the channel, and may be NULL when the capacity is 0 or WEFT_UNBOUNDED, or the values have no size.
 * Needs no other memory, until a poll task waits for it, or, unbounded, something is sent.
 * Returns 0; -EINVAL (no buffer; value_size or capacity too large); -EPERM as above. */
WEFT_API WEFT_MUST_USE int weft_chan_init(weft_chan *ch, size_t value_size, size_t capacity, void *buffer);
/* Returns as weft_chan_destroy. */
WEFT_API int weft_chan_fini(weft_chan *ch);

/* One more handle, for a task that lives on its own; the channel is freed with its last handle.  Returns ch. */
WEFT_API weft_chan *weft_chan_clone(weft_chan *ch);
/* Give a handle back.  The last one frees the channel and the values in it; nobody may be waiting then: that ends
 * the process, with a message.  NULL is allowed. */
WEFT_API void weft_chan_drop(weft_chan *ch);

/* Put one value into the channel, waiting while it is full.  With WEFT_NOW it never waits.
 * Call from:  a fiber or a plain thread; with WEFT_NOW also in a poll.  May suspend.
 * Returns 0; -EPIPE (closed, perhaps while it waited); -ETIMEDOUT; -ECANCELED (the fiber has been cancelled, and would have to
 * wait); -EINVAL (would wait in a poll task); -ENOMEM (unbounded only).  On failure the value was not sent. */
WEFT_API WEFT_MUST_USE int weft_chan_send(weft_chan *ch, const void *value, weft_deadline until);

/* Take the oldest value out, waiting while there is none.  With WEFT_NOW it never waits.
 * Call from:  as weft_chan_send.  May suspend.
 * Returns 0; -EPIPE (closed, and empty); -ETIMEDOUT; -ECANCELED; -EINVAL (would wait in a poll task).  On failure nothing was taken, and
 * `value` is untouched. */
WEFT_API WEFT_MUST_USE int weft_chan_recv(weft_chan *ch, void *value, weft_deadline until);

/* Several values at once, cheaper than one by one.  Sending waits until all are sent; receiving takes what is there, at most `count`, or waits
 * until there is one, and takes that.  Values of one call stay together, unless it had to wait.
 * Call from:  as weft_chan_send.  May suspend.
 * Returns how many values were sent or received (when that is fewer than asked for, sending has met an error, which the next call
 * returns); or, if none were, an error as above; 0 when count is 0; -EINVAL also when count is above INT_MAX. */
WEFT_API WEFT_MUST_USE int weft_chan_send_many(weft_chan *ch, const void *values, size_t count, weft_deadline until);
WEFT_API WEFT_MUST_USE int weft_chan_recv_many(weft_chan *ch, void *values, size_t count, weft_deadline until);

/* In a poll task: the same without suspending.  `wait` is part of the task's state (see weft_wait); `value` need not outlive the call.
 * Returns as weft_chan_send and weft_chan_recv; -EAGAIN (return WEFT_PENDING, and make the same call when polled again); -ENOMEM (no
 * memory to wait).  A value that was granted to a task that never asks again goes back to the front with weft_wait_end: call that
 * in the task's drop function. */
WEFT_API WEFT_MUST_USE int weft_chan_send_poll(weft_chan *ch, weft_task *self, weft_wait *wait, const void *value);
WEFT_API WEFT_MUST_USE int weft_chan_recv_poll(weft_chan *ch, weft_task *self, weft_wait *wait, void *value);

/* Nothing more can be sent.  Senders that wait get -EPIPE, receivers that wait too (there is nothing in the channel).  Closing again
 * is harmless.  Call from anywhere. */
WEFT_API void weft_chan_close(weft_chan *ch);
WEFT_API bool weft_chan_is_closed(weft_chan *ch);

/* How many values wait in it now, and how many may (WEFT_UNBOUNDED: any number). */
WEFT_API size_t weft_chan_length(weft_chan *ch);
WEFT_API size_t weft_chan_capacity(const weft_chan *ch);

/* -- One-shot --------------------------------------------------------------------------------------- */

/* One value, sent once and received once: the answer to a question.  It has two ends, each with one owner; either may go first. */
typedef struct weft_oneshot_sender weft_oneshot_sender;
typedef struct weft_oneshot_receiver weft_oneshot_receiver;

/* Returns 0; -EINVAL (value_size too large); -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_oneshot_create(size_t value_size, weft_oneshot_sender **sender,
                                               weft_oneshot_receiver **receiver);
/* Send the value; the sender is gone afterwards, whatever is returned.  Never waits.  Call from anywhere.
 * Returns 0; -EPIPE (the receiver has been dropped). */
WEFT_API int weft_oneshot_send(weft_oneshot_sender *sender, const void *value);
/* Without a value: the receiver gets -EPIPE.  NULL is allowed. */
WEFT_API void weft_oneshot_sender_drop(weft_oneshot_sender *sender);
/* True: the receiver has been dropped, nobody wants the value any more. */
WEFT_API bool weft_oneshot_is_unwanted(weft_oneshot_sender *sender);
/* Wait for the value; the receiver stays until it is dropped.  Call from: as weft_chan_recv.  May suspend.
 * Returns 0; -EPIPE (the sender was dropped, or the value has been received before); -ETIMEDOUT; -ECANCELED; -EINVAL. */
WEFT_API WEFT_MUST_USE int weft_oneshot_recv(weft_oneshot_receiver *receiver, void *value, weft_deadline until);
/* In a poll task; as weft_chan_recv_poll. */
WEFT_API WEFT_MUST_USE int weft_oneshot_recv_poll(weft_oneshot_receiver *receiver, weft_task *self, weft_wait *wait,
                                                  void *value);
/* A value that was sent and not received is discarded.  NULL is allowed. */
WEFT_API void weft_oneshot_receiver_drop(weft_oneshot_receiver *receiver);

/* -- Broadcast -------------------------------------------------------------------------------------- */

/* Every value reaches every subscriber.  Senders never wait: a subscriber that is more than `capacity` values behind misses the oldest, and is
 * told how many. */
typedef struct weft_broadcast weft_broadcast;
typedef struct weft_subscriber weft_subscriber;

/* Returns 0; -EINVAL (sizes too large, capacity 0); -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_broadcast_create(size_t value_size, size_t capacity, weft_broadcast **out);
WEFT_API weft_broadcast *weft_broadcast_clone(weft_broadcast *broadcast);
/* The last handle frees it; subscribers are handles too.  NULL is allowed. */
WEFT_API void weft_broadcast_drop(weft_broadcast *broadcast);
/* Call from anywhere.  Never waits.  Returns 0; -EPIPE (closed). */
WEFT_API int weft_broadcast_send(weft_broadcast *broadcast, const void *value);
/* As weft_chan_close: subscribers still get what was sent before. */
WEFT_API void weft_broadcast_close(weft_broadcast *broadcast);

/* A new subscriber, which gets what is sent from now on.  Used by one task or thread at a time.  Returns 0; -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_subscribe(weft_broadcast *broadcast, weft_subscriber **out);
WEFT_API void weft_unsubscribe(weft_subscriber *subscriber);
/* The next value.  *missed (may be NULL) is how many values before it were overwritten unread.
 * Call from: as weft_chan_recv.  May suspend.
 * Returns 0; -EPIPE (closed, and all was read); -ETIMEDOUT; -ECANCELED; -EINVAL (would wait in a poll task). */
WEFT_API WEFT_MUST_USE int weft_subscriber_recv(weft_subscriber *subscriber, void *value, uint64_t *missed,
                                                weft_deadline until);
/* In a poll task; -EAGAIN: return WEFT_PENDING, and make the same call when polled again. */
WEFT_API WEFT_MUST_USE int weft_subscriber_recv_poll(weft_subscriber *subscriber, weft_task *self, weft_wait *wait,
                                                     void *value, uint64_t *missed);

/* -- Watch ------------------------------------------------------------------------------------------ */

/* One value that changes; those who watch it see the newest, and may miss others.  Versions count from 1. */
typedef struct weft_watch weft_watch;

/* `first` is copied (NULL: all zero).  Returns 0; -EINVAL (value_size too large); -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_watch_create(size_t value_size, const void *first, weft_watch **out);
WEFT_API weft_watch *weft_watch_clone(weft_watch *watch);
/* The last handle frees it.  NULL is allowed. */
WEFT_API void weft_watch_drop(weft_watch *watch);
/* Call from anywhere.  Never waits.  Returns 0; -EPIPE (closed). */
WEFT_API int weft_watch_set(weft_watch *watch, const void *value);
/* The newest value, also after close; returns its version.  Call from anywhere.  Never waits. */
WEFT_API uint64_t weft_watch_get(weft_watch *watch, void *value);
/* No more changes. */
WEFT_API void weft_watch_close(weft_watch *watch);
/* Wait until the version is another than *version, then copy the newest value, and its version.  With *version 0 it returns at once.
 * Call from: as weft_chan_recv.  May suspend.
 * Returns 0; -EPIPE (closed, and *version is the newest); -ETIMEDOUT; -ECANCELED; -EINVAL (would wait in a poll task). */
WEFT_API WEFT_MUST_USE int weft_watch_wait(weft_watch *watch, uint64_t *version, void *value, weft_deadline until);
/* In a poll task; -EAGAIN: return WEFT_PENDING, and make the same call when polled again. */
WEFT_API WEFT_MUST_USE int weft_watch_wait_poll(weft_watch *watch, weft_task *self, weft_wait *wait, uint64_t *version,
                                                void *value);

WEFT_EXTERN_C_END
#endif
