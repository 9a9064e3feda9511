/* select.c - waiting for whichever comes first: one case happens, none is slept on, nothing is lost by the others. */
#include <weft/weft.h>

#include "fiber/select.h"
#include "model.h"

static weft_chan a, b;
static uint64_t buffer_a[2], buffer_b[2];
static int sent[4];

static void make_both(size_t capacity) {
    mc_assert(weft_chan_init(&a, 8, capacity, buffer_a) == 0);
    mc_assert(weft_chan_init(&b, 8, capacity, buffer_b) == 0);
}
static void end(void) {
    mc_assert(weft_chan_fini(&a) == 0);
    mc_assert(weft_chan_fini(&b) == 0);
}
static weft_deadline soon(void) { return INT64_C(1) << 40; } /* the checker decides when that is */

static void send_a(void *value) {
    uint64_t v = (uintptr_t)value;
    mc_assert(weft_chan_send(&a, &v, WEFT_NEVER) == 0);
}
static void send_b(void *value) {
    uint64_t v = (uintptr_t)value;
    mc_assert(weft_chan_send(&b, &v, WEFT_NEVER) == 0);
}
static void recv_a(void *expected) {
    uint64_t v;
    mc_assert(weft_chan_recv(&a, &v, WEFT_NEVER) == 0 && (!expected || v == (uintptr_t)expected));
}

/* Receive from either; the other stays 0. */
static int recv_either(uint64_t *v, weft_deadline until) {
    uint64_t x = 0, y = 0;
    weft_case cases[] = {weft_case_recv(&a, &x), weft_case_recv(&b, &y)};
    int index = weft_select(cases, 2, until);
    mc_assert(index == 0 ? y == 0 : index == 1 ? x == 0 : x == 0 && y == 0);
    *v = x + y;
    return index < 0 ? index : cases[index].result;
}
static int send_either(uint64_t v, weft_deadline until) {
    weft_case cases[] = {weft_case_send(&a, &v), weft_case_send(&b, &v)};
    int index = weft_select(cases, 2, until);
    return index < 0 ? index : cases[index].result;
}

/* -- One select ------------------------------------------------------------------------------------------ */

static void one_sender(void) {
    make_both((size_t)mc_arg());
    int t = mc_spawn(send_b, (void *)2);
    uint64_t v;
    mc_assert(recv_either(&v, WEFT_NEVER) == 0 && v == 2);
    mc_join(t);
    end();
}
MC_CASE(select_recv_rendezvous, one_sender, .arg = 0, .proves = "R27", .bound = 3, .seconds = 2);
MC_CASE(select_recv_bounded, one_sender, .arg = 1, .proves = "R26", .bound = 3, .seconds = 2);

/* Both come; one is taken, the other is still there. */
static void two_senders(void) {
    make_both((size_t)mc_arg());
    int t = mc_spawn(send_a, (void *)1), u = mc_spawn(send_b, (void *)2);
    uint64_t v, w;
    mc_assert(recv_either(&v, WEFT_NEVER) == 0);
    mc_assert(recv_either(&w, WEFT_NEVER) == 0);
    mc_assert(v + w == 3);
    mc_join(t);
    mc_join(u);
    end();
}
MC_CASE(select_two_senders_rendezvous, two_senders, .arg = 0, .proves = "R27 R29", .max_exec = 40000);
MC_CASE(select_two_senders_bounded, two_senders, .arg = 1, .proves = "R26 R29", .max_exec = 40000);

MC_TEST(select_send_rendezvous, .proves = "R27", .bound = 3, .seconds = 2) {
    make_both(0);
    int t = mc_spawn(recv_a, (void *)3);
    mc_assert(send_either(3, WEFT_NEVER) == 0);
    mc_join(t);
    end();
}

/* A record of a select that is over, in a list: whoever comes takes it out and serves the next one. */
static void pick_one(void *unused) {
    (void)unused;
    uint64_t v;
    mc_assert(recv_either(&v, WEFT_NEVER) == 0);
}
MC_TEST(select_and_a_plain_receiver, .proves = "R29", .max_exec = 40000) {
    make_both(0);
    int t = mc_spawn(pick_one, NULL), u = mc_spawn(recv_a, (void *)2);
    send_b((void *)1); /* only to the select, whose record may still be in the other list ... */
    send_a((void *)2); /* ... when this comes */
    mc_join(t);
    mc_join(u);
    end();
}

/* -- Two selects ----------------------------------------------------------------------------------------- */

static void send_any(void *value) { mc_assert(send_either((uintptr_t)value, WEFT_NEVER) == 0); }

MC_TEST(select_against_select, .proves = "R27 R29", .max_exec = 40000, .bound = 3) {
    make_both(0);
    int t = mc_spawn(send_any, (void *)5);
    uint64_t v;
    mc_assert(recv_either(&v, WEFT_NEVER) == 0 && v == 5);
    mc_join(t);
    end();
}

/* Each offers both ends. */
static _Atomic int senders, receivers;
static void mirrored(void *unused) {
    (void)unused;
    uint64_t in = 0, out = 6;
    weft_case cases[] = {weft_case_send(&a, &out), weft_case_recv(&a, &in)};
    int index = weft_select(cases, 2, WEFT_NEVER);
    mc_assert(index >= 0 && cases[index].result == 0);
    mc_assert(in == (index ? 6 : 0));
    add_relaxed(index ? &receivers : &senders, 1);
}
MC_TEST(select_mirrored, .proves = "R27 R29", .max_exec = 40000, .bound = 3) {
    make_both(0);
    int t = mc_spawn(mirrored, NULL);
    mirrored(NULL);
    mc_join(t);
    mc_assert(load_relaxed(&senders) == 1 && load_relaxed(&receivers) == 1);
    end();
}

/* Crosswise: each sends what the other receives, on two channels. */
static void cross(void *side) {
    uint64_t in = 0, out = 7;
    bool left = side != NULL;
    weft_case cases[] = {weft_case_send(left ? &a : &b, &out), weft_case_recv(left ? &b : &a, &in)};
    int index = weft_select(cases, 2, WEFT_NEVER);
    mc_assert(index >= 0 && cases[index].result == 0 && in == (index ? 7 : 0));
    add_relaxed(index ? &receivers : &senders, 1);
}
MC_TEST(select_crosswise, .proves = "R27 R29", .max_exec = 40000, .bound = 3) {
    make_both(0);
    int t = mc_spawn(cross, NULL);
    cross(&a);
    mc_join(t);
    mc_assert(load_relaxed(&senders) == 1 && load_relaxed(&receivers) == 1);
    end();
}

/* Three of them: two must meet, and the third meets who comes last. */
MC_TEST(select_three, .proves = "R27 R29", .mode = MC_PCT, .max_exec = 20000) {
    make_both(0);
    int t = mc_spawn(mirrored, NULL), u = mc_spawn(mirrored, NULL), v = mc_spawn(mirrored, NULL);
    mirrored(NULL);
    mc_join(t);
    mc_join(u);
    mc_join(v);
    mc_assert(load_relaxed(&senders) == 2 && load_relaxed(&receivers) == 2);
    end();
}

/* -- Close ----------------------------------------------------------------------------------------------- */

static void close_b(void *unused) {
    (void)unused;
    weft_chan_close(&b);
}
MC_TEST(select_against_close, .proves = "R30", .bound = 3, .seconds = 2) {
    make_both(0);
    int t = mc_spawn(close_b, NULL);
    uint64_t v;
    mc_assert(recv_either(&v, WEFT_NEVER) == -EPIPE && v == 0);
    mc_join(t);
    end();
}

/* -- Deadlines ------------------------------------------------------------------------------------------- */

/* Late, or served: what it did not take is still there. */
MC_TEST(select_late, .proves = "R28 R29", .timeouts = 1, .bound = 3, .seconds = 2) {
    make_both(0);
    int t = mc_spawn(send_a, (void *)4);
    uint64_t v;
    int error = recv_either(&v, soon());
    if (error) {
        mc_assert(error == -ETIMEDOUT);
        recv_a((void *)4);
    } else {
        mc_assert(v == 4);
    }
    mc_join(t);
    end();
}

/* Both are selects, both may be late: either both met, or neither. */
static void send_any_in_time(void *unused) {
    (void)unused;
    int error = send_either(4, soon());
    mc_assert(error == 0 || error == -ETIMEDOUT || error == -EPIPE);
    sent[0] = error == 0;
    weft_chan_close(&a);
    weft_chan_close(&b);
}
MC_TEST(select_both_late, .proves = "R28 R29", .timeouts = 2, .max_exec = 40000) {
    make_both(0);
    int t = mc_spawn(send_any_in_time, NULL);
    uint64_t v;
    int error = recv_either(&v, soon());
    mc_join(t);
    mc_assert(sent[0] == (error == 0));
    mc_assert(error ? v == 0 : v == 4);
    end();
}

/* A timer among the cases. */
MC_TEST(select_timer_case, .proves = "R28", .timeouts = 1, .bound = 3, .seconds = 2) {
    make_both(0);
    int t = mc_spawn(send_a, (void *)4);
    uint64_t x = 0;
    weft_case cases[] = {weft_case_recv(&a, &x), weft_case_at(soon())};
    int index = weft_select(cases, 2, WEFT_NEVER);
    mc_assert(index == 0 || index == 1);
    if (index == 1)
        recv_a((void *)4);
    else
        mc_assert(x == 4);
    mc_join(t);
    end();
}

/* -- Bells ----------------------------------------------------------------------------------------------- */

static weft_watch *watch;
static void set_watch(void *unused) {
    (void)unused;
    uint64_t v = 8;
    mc_assert(weft_watch_set(watch, &v) == 0);
}
MC_TEST(select_watch_or_channel, .proves = "R29", .max_exec = 40000) {
    make_both(0);
    mc_assert(weft_watch_create(8, NULL, &watch) == 0);
    int t = mc_spawn(set_watch, NULL), u = mc_spawn(send_a, (void *)3);
    uint64_t x = 0, y = 0, version = 1;
    weft_case cases[] = {weft_case_recv(&a, &x), weft_case_watch(watch, &version, &y)};
    int first = weft_select(cases, 2, WEFT_NEVER), second = weft_select(cases, 2, WEFT_NEVER);
    mc_assert(first + second == 1 && x == 3 && y == 8 && version == 2);
    mc_join(t);
    mc_join(u);
    weft_watch_drop(watch);
    end();
}

/* It rings between the look and the wait, for a value or for the end: that is not missed. */
static weft_broadcast *broadcast;
static void ring(void *unused) {
    (void)unused;
    uint64_t v = 8;
    switch (mc_arg()) {
    case 0: mc_assert(weft_broadcast_send(broadcast, &v) == 0); break;
    case 1: weft_broadcast_close(broadcast); break;
    case 2: mc_assert(weft_watch_set(watch, &v) == 0); break;
    default: weft_watch_close(watch); break;
    }
}
static void bell_heard(void) {
    weft_subscriber *subscriber;
    uint64_t x = 0, y = 0, version = 1;
    make_both(0);
    mc_assert(weft_watch_create(8, NULL, &watch) == 0);
    mc_assert(weft_broadcast_create(8, 1, &broadcast) == 0);
    mc_assert(weft_subscribe(broadcast, &subscriber) == 0);
    int t = mc_spawn(ring, NULL);
    weft_case cases[] = {weft_case_recv(&a, &x), mc_arg() < 2 ? weft_case_subscriber(subscriber, &y, NULL)
                                                              : weft_case_watch(watch, &version, &y)};
    mc_assert(weft_select(cases, 2, WEFT_NEVER) == 1);
    mc_assert(cases[1].result == (mc_arg() % 2 ? -EPIPE : 0) && y == (mc_arg() % 2 ? 0 : 8));
    mc_join(t);
    weft_unsubscribe(subscriber);
    weft_broadcast_drop(broadcast);
    weft_watch_drop(watch);
    end();
}
MC_CASE(select_broadcast_value, bell_heard, .arg = 0, .proves = "R29", .bound = 2);
MC_CASE(select_broadcast_closed, bell_heard, .arg = 1, .proves = "R29 R30", .bound = 2);
MC_CASE(select_watch_value, bell_heard, .arg = 2, .proves = "R29", .bound = 2);
MC_CASE(select_watch_closed, bell_heard, .arg = 3, .proves = "R29 R30", .bound = 2);

/* -- Events ---------------------------------------------------------------------------------------------- */

static weft_event one, two;
static void set_one(void *unused) {
    (void)unused;
    mc_assert(weft_event_set(&one) == 0);
}
static void set_two(void *unused) {
    (void)unused;
    mc_assert(weft_event_set(&two) == 0);
}

/* Both are set; one of them is told, and the other passes over a select that has gone. */
MC_TEST(select_event_of_two, .proves = "R27", .bound = 2, .max_exec = 40000) {
    weft_event_init(&one);
    weft_event_init(&two);
    int t = mc_spawn(set_one, NULL), u = mc_spawn(set_two, NULL);
    weft_case cases[] = {weft_case_event(&one), weft_case_event(&two)};
    int index = weft_select(cases, 2, WEFT_NEVER);
    mc_assert(index >= 0 && cases[index].result == 0 && weft_event_is_set(index ? &two : &one));
    mc_join(t);
    mc_join(u);
    mc_assert(weft_event_destroy(&one) == 0 && weft_event_destroy(&two) == 0);
}

/* A time that comes at any moment: the event is not lost with it. */
MC_TEST(select_event_or_late, .proves = "R28", .bound = 2, .seconds = 2) {
    weft_event_init(&one);
    weft_event_init(&two);
    int t = mc_spawn(set_one, NULL);
    weft_case cases[] = {weft_case_event(&one), weft_case_event(&two)};
    int index = weft_select(cases, 2, soon());
    mc_assert(index == 0 || index == -ETIMEDOUT);
    mc_join(t);
    mc_assert(weft_select(cases, 2, WEFT_NOW) == 0);
    mc_assert(weft_event_destroy(&one) == 0 && weft_event_destroy(&two) == 0);
}

/* -- Now ------------------------------------------------------------------------------------------------- */

/* A value moves from `a` to `b`, where it is before it has left `a`. */
static void move_to_b(void *unused) {
    (void)unused;
    uint64_t v = 2;
    mc_assert(weft_chan_send(&b, &v, WEFT_NOW) == 0);
    int error = weft_chan_recv(&a, &v, WEFT_NOW);
    mc_assert(error == 0 || error == -ETIMEDOUT);
}

/* One of the two always has a value: a select that does not wait gets one.  The checker's select draws the same order each time: both are given to it. */
static void now_a_value(void) {
    make_both(1);
    uint64_t v = 1;
    mc_assert(weft_chan_send(&a, &v, WEFT_NOW) == 0);
    int t = mc_spawn(move_to_b, NULL);
    weft_case cases[] = {weft_case_recv(mc_arg() ? &b : &a, &v), weft_case_recv(mc_arg() ? &a : &b, &v)};
    mc_assert(weft_select(cases, 2, WEFT_NOW) >= 0);
    mc_join(t);
    while (recv_either(&v, WEFT_NOW) == 0)
        ;
    end();
}
MC_CASE(select_now_sees_a_value, now_a_value, .arg = 0, .proves = "R26 R27", .bound = 3, .seconds = 4);
MC_CASE(select_now_sees_a_value_2, now_a_value, .arg = 1, .proves = "R26 R27", .bound = 3, .seconds = 4);

/* The same with an event, which is set before `a` is empty. */
static void move_to_event(void *unused) {
    (void)unused;
    uint64_t v;
    mc_assert(weft_event_set(&one) == 0);
    int error = weft_chan_recv(&a, &v, WEFT_NOW);
    mc_assert(error == 0 || error == -ETIMEDOUT);
}

static void now_an_event(void) {
    make_both(1);
    weft_event_init(&one);
    uint64_t v = 1;
    mc_assert(weft_chan_send(&a, &v, WEFT_NOW) == 0);
    int t = mc_spawn(move_to_event, NULL);
    weft_case set = weft_case_event(&one), value = weft_case_recv(&a, &v);
    weft_case cases[] = {mc_arg() ? value : set, mc_arg() ? set : value};
    mc_assert(weft_select(cases, 2, WEFT_NOW) >= 0);
    mc_join(t);
    while (weft_chan_recv(&a, &v, WEFT_NOW) == 0)
        ;
    end();
    mc_assert(weft_event_destroy(&one) == 0);
}
MC_CASE(select_now_sees_an_event, now_an_event, .arg = 0, .proves = "R26 R27", .bound = 3, .seconds = 4);
MC_CASE(select_now_sees_an_event_2, now_an_event, .arg = 1, .proves = "R26 R27", .bound = 3, .seconds = 4);

/* Two that do not wait, each a sender of what the other receives: both get something, or neither does. */
static int other_says;
static void meet(void *unused) {
    (void)unused;
    uint64_t v = 5, w = 0;
    weft_case cases[] = {weft_case_recv(&a, &w), weft_case_send(&b, &v)};
    other_says = weft_select(cases, 2, WEFT_NOW);
}

MC_TEST(select_now_twice, .proves = "R27", .bound = 2, .seconds = 2) {
    make_both(0);
    int t = mc_spawn(meet, NULL);
    uint64_t v = 6, w = 0;
    weft_case cases[] = {weft_case_send(&a, &v), weft_case_recv(&b, &w)};
    int says = weft_select(cases, 2, WEFT_NOW);
    mc_join(t);
    mc_assert(says == other_says && w == (says == 1 ? 5u : 0u));
    end();
}

/* -- Freeing --------------------------------------------------------------------------------------------- */

static weft_chan *first;
static weft_chan *second;
static weft_event *event;

static void select_first(void *unused) {
    (void)unused;
    uint64_t v = 0, w = 0;
    weft_case cases[] = {weft_case_recv(first, &v), event ? weft_case_event(event) : weft_case_recv(second, &w)};
    mc_assert(weft_select(cases, 2, WEFT_NEVER) == 0 && cases[0].result == 0 && v == 7);
}
static void serve_first(void) {
    uint64_t v = 7;
    mc_assert(weft_chan_send(first, &v, WEFT_NEVER) == 0);
}

/* A select has been served, and comes by the other thing; whoever has taken its record out there does not get to free that before. */
static void select_leaves(void) {
    mc_assert(weft_chan_create(8, 0, &first) == 0 && weft_chan_create(8, 0, &second) == 0);
    event = NULL;
    int t = mc_spawn(select_first, NULL);
    uint64_t v = 1;
    serve_first();
    if (mc_arg())
        weft_chan_close(second);
    else
        mc_assert(weft_chan_send(second, &v, WEFT_NOW) == -ETIMEDOUT);
    int error = weft_chan_destroy(second);
    mc_assert(error == 0 || error == -EBUSY);
    mc_join(t);
    mc_assert(!error || weft_chan_destroy(second) == 0);
    mc_assert(weft_chan_destroy(first) == 0);
}
MC_CASE(select_leaves_channel, select_leaves, .arg = 0, .proves = "R27", .bound = 3, .seconds = 2);
MC_CASE(select_leaves_closed, select_leaves, .arg = 1, .proves = "R30", .bound = 3, .seconds = 2);

MC_TEST(select_leaves_event, .proves = "R27", .bound = 3, .seconds = 2) {
    mc_assert(weft_chan_create(8, 0, &first) == 0);
    event = wefti_alloc(sizeof *event);
    weft_event_init(event);
    int t = mc_spawn(select_first, NULL);
    serve_first();
    mc_assert(weft_event_set(event) == 0);
    int error = weft_event_destroy(event);
    mc_assert(error == 0 || error == -EBUSY);
    if (!error)
        wefti_free(event, sizeof *event);
    mc_join(t);
    if (error) {
        mc_assert(weft_event_is_set(event) && weft_event_destroy(event) == 0);
        wefti_free(event, sizeof *event);
    }
    mc_assert(weft_chan_destroy(first) == 0);
}

/* Served when it is already late: it has got the value, and whoever gave it may free the channel at once. */
static void select_late_first(void *unused) {
    (void)unused;
    uint64_t v = 0, w = 0;
    weft_case cases[] = {weft_case_recv(first, &v), weft_case_recv(second, &w)};
    int index = weft_select(cases, 2, soon());
    mc_assert(index == 0 ? cases[0].result == 0 && v == 7 : index == -ETIMEDOUT && v == 0);
}
MC_TEST(select_late_leaves, .proves = "R28", .timeouts = 1, .bound = 3, .seconds = 2) {
    mc_assert(weft_chan_create(8, 0, &first) == 0 && weft_chan_create(8, 0, &second) == 0);
    int t = mc_spawn(select_late_first, NULL);
    uint64_t v = 7;
    int error = weft_chan_send(first, &v, WEFT_NOW);
    mc_assert(error == 0 || error == -ETIMEDOUT);
    bool freed = !error && weft_chan_destroy(first) == 0;
    mc_assert(freed || error);
    mc_join(t);
    mc_assert(freed || weft_chan_destroy(first) == 0);
    mc_assert(weft_chan_destroy(second) == 0);
}
