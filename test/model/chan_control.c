/* chan_control.c - channels whose waiters a control thread resolves: publishing, pairing, giving up, settling, and freeing. */
#include "chan/chan.h"

#include "fiber/select.h"

#include "fake_reactor.h"
#include "model_rt.h"

static struct wefti_chan *ch;
static struct wefti_waiter sender, receiver;
static uint64_t given, taken_value;
static _Atomic int over;

static void begin(size_t capacity) {
    weft_chan *made;
    fake_begin(1);
    mc_assert(weft_chan_create(8, capacity, &made) == 0);
    ch = wefti_chan_of(made);
    for (int i = 0; i < 2; i++)
        mc_assert(!wefti_word_to_idle(&tasks[i]->word));
}

static void end(void) {
    mc_assert(weft_chan_destroy((weft_chan *)(void *)ch) == 0);
    fake_end();
}

/* A record as that of a fiber which waits: task 0 sends, task 1 receives. */
static void wait_in(struct wefti_waiter *waiter, int task, struct wefti_waiters *list, uint64_t *slot) {
    wefti_waiter_init_task(waiter, tasks[task]);
    waiter->slot = slot;
    wefti_chan_lock_only(ch);
    wefti_waiters_append(list, waiter);
    wefti_bias_give(&ch->lock);
}

static void control(void *unused) {
    (void)unused;
    while (!load_acquire(&over))
        wait_and_turn();
}

static void stop_control(int thread) {
    store_release(&over, 1);
    wefti_park_wake(&fake.control->park);
    mc_join(thread);
}

static void wait_for(struct wefti_waiter *waiter) {
    while (!wefti_waiter_is_served(waiter))
        wefti_relax();
}

/* As weft_chan_send of a fiber of the fake runtime; where it has to wait, the calling thread does. */
static void send_seven(void *unused) {
    (void)unused;
    uint64_t value = 7;
    mc_assert(wefti_chan_send_controlled(ch, &fake_worker[0], &value, WEFT_NEVER) == 0);
}

/* -- Publishing ---------------------------------------------------------------------------------------------------- */

/* Phase 1: a value in the buffer comes to the receiver that waits; the control thread, which sleeps without limit, is woken for it. */
MC_TEST(chan_control_buffer, .proves = "R8 R17 R26", .bound = 3) {
    begin(1);
    wait_in(&receiver, 1, &ch->receivers, &taken_value);
    int a = mc_spawn(control, NULL);
    send_seven(NULL);
    wait_for(&receiver);
    mc_assert(taken_value == 7);
    stop_control(a);
    end();
}

/* Two send at once: published once or twice, and both values arrive. */
MC_TEST(chan_control_two, .proves = "R8 R29", .bound = 2, .seconds = 4) {
    begin(2);
    uint64_t first = 0;
    wait_in(&receiver, 1, &ch->receivers, &first);
    wait_in(&sender, 0, &ch->receivers, &taken_value); /* a second receiver */
    int a = mc_spawn(control, NULL), b = mc_spawn(send_seven, NULL);
    send_seven(NULL);
    wait_for(&receiver);
    wait_for(&sender);
    mc_assert(first == 7 && taken_value == 7);
    mc_join(b);
    stop_control(a);
    end();
}

/* A receiver that makes room resolves no sender; the control thread does. */
MC_TEST(chan_control_room, .proves = "R26", .bound = 3) {
    begin(1);
    send_seven(NULL);
    given = 8;
    wait_in(&sender, 0, &ch->senders, &given);
    int a = mc_spawn(control, NULL);
    uint64_t value = 0;
    mc_assert(wefti_chan_recv_controlled(ch, &fake_worker[0], &value, WEFT_NEVER) == 0 && value == 7);
    wait_for(&sender);
    mc_assert(wefti_chan_recv_controlled(ch, &fake_worker[0], &value, WEFT_NEVER) == 0 && value == 8);
    stop_control(a);
    end();
}

/* Phase 2: a sender that waits wakes the control thread for the receiver that waits.  (A thread sends in the fiber's place.) */
MC_TEST(chan_control_pair, .proves = "R8 R17 R27", .bound = 3) {
    begin(0);
    wait_in(&receiver, 1, &ch->receivers, &taken_value);
    int a = mc_spawn(control, NULL);
    send_seven(NULL);
    wait_for(&receiver);
    mc_assert(taken_value == 7);
    stop_control(a);
    end();
}

/* -- Pairing, against a side that gives up ---------------------------------------------------------------------------- */

static bool gave_up;
static void give_up(void *waiter) {
    gave_up = wefti_waiter_give_up(waiter);
    if (!gave_up)
        return;
    wefti_chan_lock(ch);
    ch->strays -= wefti_waiters_end(waiter == &sender ? &ch->senders : &ch->receivers, waiter);
    wefti_bias_give(&ch->lock);
}

/* Both wait, and one of them is late: a pair, or none; the other one keeps its place, and can give up then. */
static void pair_against_give_up(void) {
    begin(0);
    given = 9;
    wait_in(&sender, 0, &ch->senders, &given);
    wait_in(&receiver, 1, &ch->receivers, &taken_value);
    wefti_chan_lock_only(ch);
    ch->pending = true;
    wefti_bias_give(&ch->lock);
    int a = mc_spawn(give_up, mc_arg() ? &sender : &receiver);
    wefti_chan_lock(ch); /* settles */
    wefti_bias_give(&ch->lock);
    mc_join(a);
    bool none = gave_up;
    mc_assert(wefti_waiter_is_served(&sender) == !none && wefti_waiter_is_served(&receiver) == !none);
    mc_assert(taken_value == (none ? 0u : 9u));
    if (none) {
        give_up(mc_arg() ? &receiver : &sender);
        mc_assert(gave_up);
    }
    end();
    mc_outcome(none ? "none" : "pair");
}
MC_CASE(chan_control_sender_late, pair_against_give_up, .arg = 1, .proves = "R27 R28", .bound = 3);
MC_CASE(chan_control_receiver_late, pair_against_give_up, .arg = 0, .proves = "R27 R28", .bound = 3);

/* Both are late at once: one that was claimed and let go again does not wait to be served. */
static void give_up_receiver(void *unused) {
    (void)unused;
    if (wefti_waiter_give_up(&receiver)) {
        wefti_chan_lock(ch);
        ch->strays -= wefti_waiters_end(&ch->receivers, &receiver);
        wefti_bias_give(&ch->lock);
    }
}

MC_TEST(chan_control_both_late, .proves = "R27 R28", .bound = 3, .seconds = 4) {
    begin(0);
    wait_in(&sender, 0, &ch->senders, &given);
    wait_in(&receiver, 1, &ch->receivers, &taken_value);
    wefti_chan_lock_only(ch);
    ch->pending = true;
    wefti_bias_give(&ch->lock);
    int a = mc_spawn(give_up, &sender), b = mc_spawn(give_up_receiver, NULL);
    wefti_chan_lock(ch); /* settles */
    wefti_bias_give(&ch->lock);
    mc_join(a);
    mc_join(b);
    mc_assert(wefti_waiter_is_served(&sender) == wefti_waiter_is_served(&receiver));
    end();
}

/* -- A select that does not wait ------------------------------------------------------------------------------------------ */

/* A case that never happens.  When its record is put in, a fiber sends to `ch`. */
static bool probe_try(weft_case *c) {
    (void)c;
    return false;
}
static int probe_begin(weft_case *c, struct wefti_waiter *waiter) {
    (void)waiter;
    send_seven(NULL);
    c->result = 1;
    return 1;
}
static bool probe_end(weft_case *c, struct wefti_waiter *waiter) {
    (void)c, (void)waiter;
    return false;
}
static const struct weft_case_kind probe = {.try_now = probe_try, .begin = probe_begin, .end = probe_end};

/* The select's record is in `ch` when a value comes, which the fiber leaves in the buffer for the control thread to serve: the select gets it, also when the
 * control thread (arg & 1) finds the record after the select has given up.  The checker's select draws the same order each time: both are given to it
 * (arg & 2). */
static void select_now(void) {
    uint64_t value = 0;
    begin(2);
    int a = mc_arg() & 1 ? mc_spawn(control, NULL) : -1;
    weft_case recv = weft_case_recv((weft_chan *)(void *)ch, &value), never = {.kind = &probe};
    weft_case cases[] = {mc_arg() & 2 ? never : recv, mc_arg() & 2 ? recv : never};
    int index = weft_select(cases, 2, WEFT_NOW);
    mc_assert(index >= 0 && cases[index].kind == recv.kind && value == 7);
    if (a >= 0)
        stop_control(a);
    else
        turn();
    end();
}
MC_CASE(select_control_now_pending, select_now, .arg = 0, .proves = "R26 R27", .bound = 3, .seconds = 4);
MC_CASE(select_control_now_pending_2, select_now, .arg = 2, .proves = "R26 R27", .bound = 3, .seconds = 4);
MC_CASE(select_control_now_resolved, select_now, .arg = 1, .proves = "R26 R27", .bound = 3, .seconds = 4);
MC_CASE(select_control_now_resolved_2, select_now, .arg = 3, .proves = "R26 R27", .bound = 3, .seconds = 4);

/* -- Freeing ----------------------------------------------------------------------------------------------------------- */

/* A thread takes the value that was meant for nobody else, and frees the channel, which is still published. */
MC_TEST(chan_control_freed, .proves = "R17", .bound = 3, .seconds = 4) {
    begin(1);
    wait_in(&receiver, 1, &ch->receivers, &taken_value);
    int a = mc_spawn(control, NULL);
    send_seven(NULL);
    wefti_chan_lock(ch); /* settles: the receiver is served by us, or by the control thread */
    wefti_bias_give(&ch->lock);
    mc_assert(wefti_waiter_is_served(&receiver) && taken_value == 7);
    mc_assert(weft_chan_destroy((weft_chan *)(void *)ch) == 0);
    stop_control(a);
    fake_end();
}

/* -- The whole runtime --------------------------------------------------------------------------------------------------- */

static weft_runtime *rt;
static weft_chan shared;
static uint64_t buffer[1];

static int send_one(void *arg) {
    uint64_t value = (uintptr_t)arg;
    return weft_chan_send(&shared, &value, WEFT_NEVER);
}
static int recv_one(void *arg) {
    uint64_t value = 0;
    int error = weft_chan_recv(&shared, &value, WEFT_NEVER);
    mc_assert(error || value == (uintptr_t)arg);
    return error;
}

static void two_fibers(void) {
    weft_config config = model_config(WEFT_SCHED_REACTOR, 1);
    config.stack_size = 32768;
    rt = model_create(&config);
    mc_assert(weft_chan_init(&shared, 8, (size_t)mc_arg(), buffer) == 0);
    weft_task *a, *b;
    mc_assert(weft_fiber_go(rt, recv_one, (void *)3, &a) == 0);
    mc_assert(weft_fiber_go(rt, send_one, (void *)3, &b) == 0);
    mc_assert(weft_join(a, NULL, WEFT_NEVER) == 0);
    mc_assert(weft_join(b, NULL, WEFT_NEVER) == 0);
    weft_task_drop(a);
    weft_task_drop(b);
    model_close(rt);
    mc_assert(weft_chan_fini(&shared) == 0);
}
MC_CASE(rt_reactor_rendezvous, two_fibers, .arg = 0, .proves = "R17 R27 R33", .mode = MC_PCT, .max_exec = 3000);
MC_CASE(rt_reactor_buffered, two_fibers, .arg = 1, .proves = "R17 R26 R33", .mode = MC_PCT, .max_exec = 3000);
