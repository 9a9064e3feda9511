/* chan_fibers.c - channels between fibers, poll tasks and threads: the whole runtime, with sleeps that never time out. */
#include "model.h"
#include "model_rt.h"
#include "sched/sched.h"

static weft_runtime *rt;
static weft_chan ch, other;
static uint64_t buffer[2];

static void start(unsigned workers, size_t capacity) {
    weft_config config = model_config(WEFT_SCHED_RING, workers);
    config.stack_size = 32768;
    mc_atomic_begin();
    mc_assert(weft_runtime_create(&config, &rt) == 0);
    mc_assert(weft_chan_init(&ch, 8, capacity, buffer) == 0);
    mc_assert(weft_chan_init(&other, 8, 0, NULL) == 0);
    mc_atomic_end();
}

/* The end itself is not explored. */
static void stop(void) {
    mc_atomic_begin();
    mc_assert(weft_runtime_stop(rt, WEFT_NEVER) == 0);
    mc_assert(weft_runtime_destroy(rt) == 0);
    mc_assert(weft_chan_fini(&ch) == 0);
    mc_assert(weft_chan_fini(&other) == 0);
    mc_atomic_end();
}

static weft_result join(weft_task *task) {
    weft_result result;
    mc_assert(weft_join(task, &result, WEFT_NEVER) == 0);
    weft_task_drop(task);
    return result;
}

static int recv_seven(void *unused) {
    (void)unused;
    uint64_t v = 0;
    int error = weft_chan_recv(&ch, &v, WEFT_NEVER);
    mc_assert(error || v == 7);
    return error;
}
static int send_seven(void *unused) {
    (void)unused;
    uint64_t v = 7;
    return weft_chan_send(&ch, &v, WEFT_NEVER);
}

/* -- A fiber and a thread ---------------------------------------------------------------------------------- */

static void fiber_receives(void) {
    start(1, (size_t)mc_arg());
    weft_task *task;
    mc_assert(weft_fiber_go(rt, recv_seven, NULL, &task) == 0);
    mc_assert(send_seven(NULL) == 0);
    mc_assert(join(task).status == 0);
    stop();
}
MC_CASE(chan_fiber_receives_rendezvous, fiber_receives, .arg = 0, .proves = "R27 R33", .bound = 2, .stale_counts = true,
        .seconds = 3);
MC_CASE(chan_fiber_receives_bounded, fiber_receives, .arg = 1, .proves = "R26 R33", .bound = 2, .stale_counts = true,
        .seconds = 3);

MC_TEST(chan_fiber_sends, .proves = "R27 R33", .bound = 2, .stale_counts = true, .seconds = 3) {
    start(1, 0);
    weft_task *task;
    mc_assert(weft_fiber_go(rt, send_seven, NULL, &task) == 0);
    mc_assert(recv_seven(NULL) == 0);
    mc_assert(join(task).status == 0);
    stop();
}

/* -- Two fibers ---------------------------------------------------------------------------------------------- */

static void two_fibers(void) {
    start((unsigned)mc_arg(), 0);
    weft_task *receiver, *sender;
    mc_assert(weft_fiber_go(rt, recv_seven, NULL, &receiver) == 0);
    mc_assert(weft_fiber_go(rt, send_seven, NULL, &sender) == 0);
    mc_assert(join(sender).status == 0);
    mc_assert(join(receiver).status == 0);
    stop();
}
MC_CASE(chan_two_fibers_one_worker, two_fibers, .arg = 1, .proves = "R27", .bound = 1, .stale_counts = true,
        .seconds = 3);
MC_CASE(chan_two_fibers_two_workers, two_fibers, .arg = 2, .proves = "R27 R33", .mode = MC_PCT, .max_exec = 4000);

/* -- Cancel against hand-over ---------------------------------------------------------------------------------- */

/* Received, or cancelled and still in the channel. */
static void cancelled_receiver(void) {
    start(1, 1);
    weft_task *task;
    mc_assert(weft_fiber_go(rt, recv_seven, NULL, &task) == 0);
    uint64_t v = 7;
    mc_assert(weft_chan_send(&ch, &v, WEFT_NOW) == 0);
    weft_task_cancel(task);
    int status = join(task).status;
    mc_assert(status == 0 || status == -ECANCELED);
    mc_assert(weft_chan_length(&ch) == (status ? 1 : 0));
    stop();
}
MC_CASE(chan_cancelled_receiver, cancelled_receiver, .proves = "R28 R29", .bound = 2, .stale_counts = true,
        .seconds = 3);

static weft_task *victim;
static void cancel_it(void *unused) {
    (void)unused;
    weft_task_cancel(victim);
}
/* Cancelled by one thread while another meets it. */
MC_TEST(chan_cancelled_rendezvous, .proves = "R27 R29", .mode = MC_PCT, .max_exec = 6000) {
    start(1, 0);
    mc_assert(weft_fiber_go(rt, recv_seven, NULL, &victim) == 0);
    int t = mc_spawn(cancel_it, NULL);
    uint64_t v = 7;
    bool sent = weft_chan_send(&ch, &v, WEFT_NOW) == 0;
    mc_join(t);
    mc_assert(join(victim).status == (sent ? 0 : -ECANCELED));
    stop();
}

/* -- Poll tasks ------------------------------------------------------------------------------------------------ */

struct taker {
    weft_wait wait;
};
static void end_wait(void *state) { weft_wait_end(&((struct taker *)state)->wait); }
static weft_poll take_seven(weft_task *self, void *state) {
    struct taker *taker = state;
    uint64_t v = 0;
    int error = weft_chan_recv_poll(&ch, self, &taker->wait, &v);
    if (error == -EAGAIN)
        return WEFT_PENDING;
    mc_assert(error == 0 && v == 7);
    return weft_done(self, 0, NULL);
}
static weft_task *go_taker(void) {
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task;
    spec.poll = take_seven;
    spec.state_size = sizeof(struct taker);
    spec.drop = end_wait;
    mc_assert(weft_spawn(rt, &spec, &task) == 0);
    return task;
}

MC_TEST(chan_poll_receives, .proves = "R27 R33", .bound = 2, .stale_counts = true, .seconds = 3) {
    start(1, 0);
    weft_task *task = go_taker();
    mc_assert(send_seven(NULL) == 0);
    mc_assert(join(task).status == 0);
    stop();
}

/* Granted or not, a value that it did not fetch is in the channel. */
MC_TEST(chan_poll_cancelled, .proves = "R29", .mode = MC_PCT, .max_exec = 6000) {
    start(1, 1);
    victim = go_taker();
    int t = mc_spawn(cancel_it, NULL);
    mc_assert(send_seven(NULL) == 0);
    mc_join(t);
    int status = join(victim).status;
    mc_assert(weft_chan_length(&ch) == (status ? 1 : 0));
    stop();
}

/* -- Select ------------------------------------------------------------------------------------------------------ */

static int recv_either(void *unused) {
    (void)unused;
    uint64_t x = 0, y = 0;
    weft_case cases[] = {weft_case_recv(&ch, &x), weft_case_recv(&other, &y)};
    int index = weft_select(cases, 2, WEFT_NEVER);
    if (index < 0)
        return index;
    mc_assert(cases[index].result == 0 && (index ? x == 0 && y == 8 : x == 7 && y == 0));
    return index;
}
static bool sent_other;
static void offer_other(void *unused) {
    (void)unused;
    uint64_t v = 8;
    sent_other = weft_chan_send(&other, &v, WEFT_NOW) == 0;
}
MC_TEST(chan_fiber_selects, .proves = "R27 R29", .mode = MC_PCT, .max_exec = 6000) {
    start(1, 0);
    weft_task *task;
    mc_assert(weft_fiber_go(rt, recv_either, NULL, &task) == 0);
    int t = mc_spawn(offer_other, NULL);
    uint64_t v = 7;
    bool sent = weft_chan_send(&ch, &v, WEFT_NOW) == 0;
    mc_join(t);
    mc_assert(!(sent && sent_other)); /* exactly one */
    if (!sent && !sent_other)
        mc_assert(send_seven(NULL) == 0);
    weft_result result = join(task);
    mc_assert(result.status == 0 && (result.value != NULL) == sent_other);
    stop();
}
