/* chan.c - channels between plain threads: hand-over, close, deadlines, and freeing, under every interleaving. */
#include <weft/weft.h>

#include "chan/chan.h"
#include "model.h"

static weft_chan ch;
static uint64_t buffer[4];
static _Atomic int sum, received;

static void make_chan(size_t capacity) { mc_assert(weft_chan_init(&ch, 8, capacity, buffer) == 0); }
static void end_chan(void) { mc_assert(weft_chan_fini(&ch) == 0); }

static void send_one(void *value) {
    uint64_t v = (uintptr_t)value;
    mc_assert(weft_chan_send(&ch, &v, WEFT_NEVER) == 0);
}
static void recv_one(void *expected) {
    uint64_t v = 0;
    mc_assert(weft_chan_recv(&ch, &v, WEFT_NEVER) == 0);
    mc_assert(!expected || v == (uintptr_t)expected);
    add_relaxed(&sum, (int)v);
    add_relaxed(&received, 1);
}

/* -- Hand-over ------------------------------------------------------------------------------------------- */

static void one_value(void) {
    make_chan((size_t)mc_arg());
    int a = mc_spawn(send_one, (void *)7);
    recv_one((void *)7);
    mc_join(a);
    end_chan();
}
MC_CASE(chan_rendezvous, one_value, .arg = 0, .proves = "R27", .bound = 3);
MC_CASE(chan_buffered, one_value, .arg = 1, .proves = "R26", .bound = 3);

static void send_two(void *unused) {
    (void)unused;
    send_one((void *)1);
    send_one((void *)2);
}
static void in_order(void) {
    make_chan((size_t)mc_arg());
    int a = mc_spawn(send_two, NULL);
    recv_one((void *)1);
    recv_one((void *)2);
    mc_join(a);
    end_chan();
}
MC_CASE(chan_order_rendezvous, in_order, .arg = 0, .proves = "R27 R29");
MC_CASE(chan_order_bounded, in_order, .arg = 1, .proves = "R26 R28 R29");

static void two_senders(void) {
    make_chan((size_t)mc_arg());
    int a = mc_spawn(send_one, (void *)1), b = mc_spawn(send_one, (void *)2);
    recv_one(NULL);
    recv_one(NULL);
    mc_assert(load_relaxed(&sum) == 3);
    mc_join(a);
    mc_join(b);
    end_chan();
}
MC_CASE(chan_two_senders_rendezvous, two_senders, .arg = 0, .proves = "R27 R29", .max_exec = 60000);
MC_CASE(chan_two_senders_bounded, two_senders, .arg = 1, .proves = "R26 R29", .seconds = 2);

static void two_receivers(void) {
    make_chan((size_t)mc_arg());
    int a = mc_spawn(recv_one, NULL), b = mc_spawn(recv_one, NULL);
    send_two(NULL);
    mc_join(a);
    mc_join(b);
    mc_assert(load_relaxed(&sum) == 3);
    end_chan();
}
MC_CASE(chan_two_receivers_rendezvous, two_receivers, .arg = 0, .proves = "R27 R29", .max_exec = 60000);
MC_CASE(chan_two_receivers_bounded, two_receivers, .arg = 1, .proves = "R26 R29", .max_exec = 60000);

/* -- Many ------------------------------------------------------------------------------------------------ */

static void send_three(void *unused) {
    (void)unused;
    uint64_t values[3] = {1, 2, 3};
    mc_assert(weft_chan_send_many(&ch, values, 3, WEFT_NEVER) == 3);
}
static void many(void) {
    make_chan((size_t)mc_arg());
    int a = mc_spawn(send_three, NULL);
    uint64_t got[3] = {0, 0, 0};
    for (size_t n = 0; n < 3;) {
        int more = weft_chan_recv_many(&ch, got + n, 3 - n, WEFT_NEVER);
        mc_assert(more > 0);
        n += (size_t)more;
    }
    mc_assert(got[0] == 1 && got[1] == 2 && got[2] == 3);
    mc_join(a);
    end_chan();
}
MC_CASE(chan_many_rendezvous, many, .arg = 0, .proves = "R27 R29", .seconds = 2);
MC_CASE(chan_many_bounded, many, .arg = 2, .proves = "R26 R29", .seconds = 2);

/* -- Close ----------------------------------------------------------------------------------------------- */

static void close_it(void *unused) {
    (void)unused;
    weft_chan_close(&ch);
}

MC_TEST(chan_close_against_receivers, .proves = "R30", .seconds = 2) {
    make_chan(1);
    int a = mc_spawn(close_it, NULL), b = mc_spawn(close_it, NULL);
    uint64_t v;
    mc_assert(weft_chan_recv(&ch, &v, WEFT_NEVER) == -EPIPE);
    mc_join(a);
    mc_join(b);
    end_chan();
}

/* A sender that waits is released; its value is not in the channel. */
static void close_against_sender(void) {
    make_chan((size_t)mc_arg());
    uint64_t v = 1;
    if (mc_arg())
        mc_assert(weft_chan_send(&ch, &v, WEFT_NOW) == 0);
    int a = mc_spawn(close_it, NULL);
    mc_assert(weft_chan_send(&ch, &v, WEFT_NEVER) == -EPIPE);
    mc_join(a);
    mc_assert(weft_chan_length(&ch) == (size_t)mc_arg());
    end_chan();
}
MC_CASE(chan_close_against_sender_rendezvous, close_against_sender, .arg = 0, .proves = "R30", .bound = 3);
MC_CASE(chan_close_against_sender_bounded, close_against_sender, .arg = 1, .proves = "R30", .bound = 3);

/* Sent and received, or neither. */
static int sent;
static void try_send(void *unused) {
    (void)unused;
    uint64_t v = 9;
    int error = weft_chan_send(&ch, &v, WEFT_NEVER);
    mc_assert(error == 0 || error == -EPIPE);
    sent = error == 0;
}
static void close_against_both(void) {
    make_chan((size_t)mc_arg());
    int a = mc_spawn(try_send, NULL), b = mc_spawn(close_it, NULL);
    uint64_t v = 0;
    int error = weft_chan_recv(&ch, &v, WEFT_NEVER);
    mc_assert(error == 0 ? v == 9 : error == -EPIPE);
    mc_join(a);
    mc_join(b);
    mc_assert(sent == (error == 0));
    end_chan();
}
MC_CASE(chan_close_against_both_rendezvous, close_against_both, .arg = 0, .proves = "R30", .seconds = 2);
MC_CASE(chan_close_against_both_bounded, close_against_both, .arg = 1, .proves = "R30", .seconds = 2);

/* -- Deadlines ------------------------------------------------------------------------------------------- */

static weft_deadline soon(void) { return INT64_C(1) << 40; } /* the checker decides when that is */

/* The receiver may give up: then the value is still there. */
static void recv_in_time(void) {
    make_chan((size_t)mc_arg());
    int a = mc_spawn(try_send, NULL);
    uint64_t v = 0;
    int error = weft_chan_recv(&ch, &v, soon());
    if (error) {
        mc_assert(error == -ETIMEDOUT && v == 0);
        mc_assert(weft_chan_recv(&ch, &v, WEFT_NEVER) == 0);
    }
    mc_assert(v == 9);
    mc_join(a);
    end_chan();
}
MC_CASE(chan_late_receiver_rendezvous, recv_in_time, .arg = 0, .proves = "R28 R29", .timeouts = 1, .bound = 3);
MC_CASE(chan_late_receiver_bounded, recv_in_time, .arg = 1, .proves = "R28 R29", .timeouts = 1, .bound = 3);

/* The sender may give up: then nothing was sent. */
static void send_in_time(void *unused) {
    (void)unused;
    uint64_t v = 9;
    int error = weft_chan_send(&ch, &v, soon());
    mc_assert(error == 0 || error == -ETIMEDOUT);
    sent = error == 0;
    weft_chan_close(&ch);
}
MC_TEST(chan_late_sender, .proves = "R28 R29", .timeouts = 1, .bound = 3) {
    make_chan(0);
    int a = mc_spawn(send_in_time, NULL);
    uint64_t v = 0;
    int error = weft_chan_recv(&ch, &v, WEFT_NEVER);
    mc_assert(error == 0 ? v == 9 : error == -EPIPE);
    mc_join(a);
    mc_assert(sent == (error == 0));
    end_chan();
}
MC_TEST(chan_both_late, .proves = "R28 R29", .timeouts = 2, .seconds = 2) {
    make_chan(0);
    int a = mc_spawn(send_in_time, NULL);
    uint64_t v = 0;
    int error = weft_chan_recv(&ch, &v, soon());
    mc_assert(error == 0 ? v == 9 : error == -EPIPE || error == -ETIMEDOUT);
    mc_join(a);
    mc_assert(sent == (error == 0));
    end_chan();
}

/* -- Freeing --------------------------------------------------------------------------------------------- */

/* Who has received the last value frees the channel at once: the sender does not touch it any more (rule 4). */
static weft_chan *heap;
static void send_heap(void *unused) {
    (void)unused;
    uint64_t v = 5;
    mc_assert(weft_chan_send(heap, &v, WEFT_NEVER) == 0);
}
static void freed(void) {
    mc_assert(weft_chan_create(8, (size_t)mc_arg(), &heap) == 0);
    int a = mc_spawn(send_heap, NULL);
    uint64_t v;
    mc_assert(weft_chan_recv(heap, &v, WEFT_NEVER) == 0);
    mc_assert(weft_chan_destroy(heap) == 0);
    mc_join(a);
}
MC_CASE(chan_freed_by_receiver_rendezvous, freed, .arg = 0, .proves = "R27", .bound = 3);
MC_CASE(chan_freed_by_receiver_bounded, freed, .arg = 1, .proves = "R26", .bound = 3);

static void recv_heap(void *unused) {
    (void)unused;
    uint64_t v;
    mc_assert(weft_chan_recv(heap, &v, WEFT_NEVER) == 0);
}
MC_TEST(chan_freed_by_sender, .proves = "R27", .bound = 3) {
    mc_assert(weft_chan_create(8, 0, &heap) == 0);
    int a = mc_spawn(recv_heap, NULL);
    uint64_t v = 5;
    mc_assert(weft_chan_send(heap, &v, WEFT_NEVER) == 0);
    mc_assert(weft_chan_destroy(heap) == 0);
    mc_join(a);
}

/* The same of one that is late, and has been served all the same. */
static void recv_heap_late(void *unused) {
    (void)unused;
    uint64_t v = 0;
    int error = weft_chan_recv(heap, &v, INT64_C(1) << 40); /* the checker decides when that is */
    mc_assert(error ? error == -ETIMEDOUT && v == 0 : v == 5);
}
MC_TEST(chan_freed_by_sender_late, .proves = "R28", .timeouts = 1, .bound = 3) {
    mc_assert(weft_chan_create(8, 0, &heap) == 0);
    int a = mc_spawn(recv_heap_late, NULL);
    uint64_t v = 5;
    int error = weft_chan_send(heap, &v, WEFT_NOW);
    bool freed = !error && weft_chan_destroy(heap) == 0;
    mc_assert(error ? error == -ETIMEDOUT : freed);
    mc_join(a);
    mc_assert(freed || weft_chan_destroy(heap) == 0);
}

static void use_and_drop(void *unused) {
    (void)unused;
    uint64_t v = 5;
    mc_assert(weft_chan_send(heap, &v, WEFT_NOW) == 0);
    weft_chan_drop(heap);
}
MC_TEST(chan_last_handle, .proves = "R30", .bound = 3) {
    mc_assert(weft_chan_create(8, 2, &heap) == 0);
    weft_chan_clone(heap);
    int a = mc_spawn(use_and_drop, NULL);
    use_and_drop(NULL);
    mc_join(a);
}
/* As many as there are handles: destroy waits for nobody, but sees what the others did. */
MC_TEST(chan_destroy_or_busy, .proves = "R30", .bound = 3, .outcomes = "busy gone") {
    mc_assert(weft_chan_create(8, 2, &heap) == 0);
    weft_chan_clone(heap);
    int a = mc_spawn(use_and_drop, NULL);
    bool busy = weft_chan_destroy(heap) == -EBUSY;
    mc_outcome(busy ? "busy" : "gone");
    mc_join(a);
    if (busy)
        weft_chan_drop(heap);
}

/* -- Unbounded ------------------------------------------------------------------------------------------- */

static void send_now(void *value) {
    uint64_t v = (uintptr_t)value;
    mc_assert(weft_chan_send(heap, &v, WEFT_NOW) == 0);
}
MC_TEST(chan_unbounded_two_senders, .proves = "R26 R29", .max_exec = 60000) {
    mc_assert(weft_chan_create(8, WEFT_UNBOUNDED, &heap) == 0);
    int a = mc_spawn(send_now, (void *)1), b = mc_spawn(send_now, (void *)2);
    uint64_t v, w;
    mc_assert(weft_chan_recv(heap, &v, WEFT_NEVER) == 0);
    mc_assert(weft_chan_recv(heap, &w, WEFT_NEVER) == 0);
    mc_assert(v + w == 3);
    mc_join(a);
    mc_join(b);
    mc_assert(weft_chan_destroy(heap) == 0);
}

/* -- One-shot -------------------------------------------------------------------------------------------- */

static weft_oneshot_sender *sender;
static weft_oneshot_receiver *receiver;
static void shoot(void *unused) {
    (void)unused;
    uint64_t v = 4;
    sent = weft_oneshot_send(sender, &v) == 0;
}
static void sender_goes(void *unused) {
    (void)unused;
    weft_oneshot_sender_drop(sender);
}

MC_TEST(oneshot_received, .proves = "J35", .bound = 3) {
    mc_assert(weft_oneshot_create(8, &sender, &receiver) == 0);
    int a = mc_spawn(shoot, NULL);
    uint64_t v = 0;
    mc_assert(weft_oneshot_recv(receiver, &v, WEFT_NEVER) == 0 && v == 4);
    mc_assert(weft_oneshot_recv(receiver, &v, WEFT_NEVER) == -EPIPE);
    weft_oneshot_receiver_drop(receiver);
    mc_join(a);
    mc_assert(sent);
}
MC_TEST(oneshot_sender_dropped, .proves = "J35", .bound = 3) {
    mc_assert(weft_oneshot_create(8, &sender, &receiver) == 0);
    int a = mc_spawn(sender_goes, NULL);
    uint64_t v = 0;
    mc_assert(weft_oneshot_recv(receiver, &v, WEFT_NEVER) == -EPIPE && v == 0);
    weft_oneshot_receiver_drop(receiver);
    mc_join(a);
}
MC_TEST(oneshot_receiver_dropped, .proves = "J35", .bound = 3) {
    mc_assert(weft_oneshot_create(8, &sender, &receiver) == 0);
    int a = mc_spawn(shoot, NULL);
    weft_oneshot_receiver_drop(receiver);
    mc_join(a);
}

/* -- Broadcast and watch --------------------------------------------------------------------------------- */

static weft_broadcast *broadcast;
static void announce(void *unused) {
    (void)unused;
    for (uint64_t v = 1; v <= 2; v++)
        mc_assert(weft_broadcast_send(broadcast, &v) == 0);
    weft_broadcast_close(broadcast);
}
static void listen(void *subscriber) {
    uint64_t last = 0, v, missed;
    int error;
    while (!(error = weft_subscriber_recv(subscriber, &v, &missed, WEFT_NEVER))) {
        mc_assert(v == last + 1 + missed);
        last = v;
    }
    mc_assert(error == -EPIPE && last == 2);
    weft_unsubscribe(subscriber);
}
MC_TEST(broadcast_two_listeners, .proves = "R29 R30", .max_exec = 60000) {
    weft_subscriber *a, *b;
    mc_assert(weft_broadcast_create(8, 1, &broadcast) == 0);
    mc_assert(weft_subscribe(broadcast, &a) == 0 && weft_subscribe(broadcast, &b) == 0);
    int s = mc_spawn(announce, NULL), t = mc_spawn(listen, a);
    listen(b);
    mc_join(s);
    mc_join(t);
    weft_broadcast_drop(broadcast);
}

static weft_watch *watch;
static void change(void *unused) {
    (void)unused;
    for (uint64_t v = 2; v <= 3; v++)
        mc_assert(weft_watch_set(watch, &v) == 0);
    weft_watch_close(watch);
    weft_watch_drop(watch);
}
MC_TEST(watch_changes, .proves = "R29 R30", .timeouts = 1) {
    uint64_t v = 1, version = 1, last = 1;
    mc_assert(weft_watch_create(8, &v, &watch) == 0);
    weft_watch_clone(watch);
    int a = mc_spawn(change, NULL);
    int error;
    weft_deadline until = soon();
    while ((error = weft_watch_wait(watch, &version, &v, until)) != -EPIPE) {
        mc_assert(error == -ETIMEDOUT || (v > last && v == version));
        if (error)
            until = WEFT_NEVER;
        last = v;
    }
    mc_assert(v == 3);
    weft_watch_drop(watch);
    mc_join(a);
}
