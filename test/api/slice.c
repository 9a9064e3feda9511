/* slice.c - no call on objects, channels, tasks or processes holds its worker longer than a slice. */
#include "slice.h"

#include "process.h"

#define PAST ((weft_deadline)1) /* a deadline that has passed, and is not WEFT_NOW */

static int is(int found, int expected) { return found == expected ? 0 : found ? found : -EPROTO; }

/* -- Objects ----------------------------------------------------------------------------------------------- */

static weft_mutex mutex;
static weft_rwlock rwlock;
static weft_sem sem = WEFT_SEM_INIT(1);
static weft_event event;
static weft_cond cond;
static weft_barrier barrier = WEFT_BARRIER_INIT(1);
static weft_once once;
static weft_group group;

static int mutex_lock(void) {
    int error = weft_mutex_lock(&mutex, WEFT_NEVER);
    return error ? error : weft_mutex_unlock(&mutex);
}
static int rwlock_read(void) {
    int error = weft_rwlock_read(&rwlock, WEFT_NEVER);
    return error ? error : weft_rwlock_read_unlock(&rwlock);
}
static int rwlock_write(void) {
    int error = weft_rwlock_write(&rwlock, WEFT_NEVER);
    return error ? error : weft_rwlock_write_unlock(&rwlock);
}
static int sem_acquire(void) {
    int error = weft_sem_acquire(&sem, 1, WEFT_NEVER);
    return error ? error : weft_sem_release(&sem, 1);
}
static int event_wait(void) {
    weft_event_set(&event);
    return weft_event_wait(&event, WEFT_NEVER);
}
static int cond_wait(void) {
    REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NOW), 0);
    int error = is(weft_cond_wait(&cond, &mutex, PAST), -ETIMEDOUT);
    weft_mutex_unlock(&mutex);
    return error;
}
static int barrier_wait(void) { return is(weft_barrier_wait(&barrier, WEFT_NEVER), 1); }
static void nothing(void *unused) { (void)unused; }
static int once_run(void) { return weft_once_run(&once, nothing, NULL, WEFT_NEVER); }
static int group_wait(void) { return weft_group_wait(&group, WEFT_NEVER); }

/* -- Channels ---------------------------------------------------------------------------------------------- */

static weft_chan *bounded, *unbounded;
static weft_broadcast *broadcast;
static weft_subscriber *subscriber;
static weft_watch *watch;
static uint64_t value, values[4];

static int send_to(weft_chan *ch) {
    int error = weft_chan_send(ch, &value, WEFT_NEVER);
    return error ? error : weft_chan_recv(ch, &value, WEFT_NOW);
}
static int recv_from(weft_chan *ch) {
    int error = weft_chan_send(ch, &value, WEFT_NOW);
    return error ? error : weft_chan_recv(ch, &value, WEFT_NEVER);
}
static int chan_send(void) { return send_to(bounded); }
static int chan_recv(void) { return recv_from(bounded); }
static int chan_send_unbounded(void) { return send_to(unbounded); }
static int chan_recv_unbounded(void) { return recv_from(unbounded); }
static int chan_send_many(void) {
    int error = is(weft_chan_send_many(bounded, values, 4, WEFT_NEVER), 4);
    return error ? error : is(weft_chan_recv_many(bounded, values, 4, WEFT_NOW), 4);
}
static int chan_recv_many(void) {
    int error = is(weft_chan_send_many(unbounded, values, 4, WEFT_NOW), 4);
    return error ? error : is(weft_chan_recv_many(unbounded, values, 4, WEFT_NEVER), 4);
}
static int oneshot_recv(void) {
    weft_oneshot_sender *sender;
    weft_oneshot_receiver *receiver;
    REQUIRE_EQ(weft_oneshot_create(sizeof value, &sender, &receiver), 0);
    REQUIRE_EQ(weft_oneshot_send(sender, &value), 0);
    int error = weft_oneshot_recv(receiver, &value, WEFT_NEVER);
    weft_oneshot_receiver_drop(receiver);
    return error;
}
static int subscriber_recv(void) {
    REQUIRE_EQ(weft_broadcast_send(broadcast, &value), 0);
    return weft_subscriber_recv(subscriber, &value, NULL, WEFT_NEVER);
}
static int watch_wait(void) {
    uint64_t version = 0;
    return weft_watch_wait(watch, &version, &value, WEFT_NEVER);
}
static int select_ready(void) {
    weft_event_set(&event);
    weft_case cases[] = {weft_case_recv(bounded, &value), weft_case_event(&event)};
    return is(weft_select(cases, 2, WEFT_NEVER), 1);
}

/* -- Time and tasks ---------------------------------------------------------------------------------------- */

static weft_task *finished;
static weft_interval interval;
static weft_fund *fund;

static int return_nothing(void *unused) {
    (void)unused;
    return 0;
}
static int sleep_none(void) { return weft_sleep(0); }
static int sleep_until_past(void) { return weft_sleep_until(PAST); }
static int interval_wait(void) {
    interval.next = PAST;
    return weft_interval_wait(&interval) > 0 ? 0 : -EPROTO;
}
static int join_finished(void) { return weft_join(finished, NULL, WEFT_NEVER); }
static int nursery_await(void) {
    weft_nursery n;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, NULL), 0);
    return weft_nursery_await(&n);
}
static int nursery_destroy(void) {
    weft_nursery *n;
    REQUIRE_EQ(weft_nursery_create(NULL, NULL, &n), 0);
    return weft_nursery_destroy(n);
}
static int nursery_next(void) {
    weft_nursery n;
    weft_nursery_config config = WEFT_NURSERY_CONFIG_INIT;
    config.keep_results = true;
    REQUIRE_EQ(weft_nursery_init(&n, NULL, &config), 0);
    int error = is(weft_nursery_next(&n, NULL, NULL, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_nursery_await(&n), 0);
    return error;
}
static int abi_nursery_await(void) {
    weft_nursery *n = weft_abi_nursery_create();
    int error = weft_abi_nursery_await(n);
    weft_abi_nursery_destroy(n);
    return error;
}
static int timeout(void) { return weft_timeout(1000000000, return_nothing, NULL); }
static int blocking(void) { return weft_blocking(return_nothing, NULL, NULL, WEFT_NEVER); }
static int fund_wait(void) { return is(weft_fund_wait_exhausted(fund, PAST), -ETIMEDOUT); }
static int alloc(void) {
    void *memory;
    int error = weft_alloc(16, &memory);
    if (!error)
        weft_free(memory);
    return error;
}

/* -- Processes --------------------------------------------------------------------------------------------- */

static weft_pid sink;

static int swallow(void *state, const weft_message *events, size_t count, weft_step *out) {
    (void)state;
    out->status = WEFT_STEP_IDLE;
    for (size_t i = 0; i < count; i++)
        if (events[i].type == WEFT_MESSAGE_CANCEL)
            out->status = WEFT_STEP_DONE;
    return 0;
}
static const weft_process_class sinks = {.size = sizeof sinks, .name = "sink", .step = swallow};

static void release(void *unused) { (void)unused; }
static int send_message(void) { return weft_send(NULL, sink, 0, &value, sizeof value); }
static int send_ref(void) { return weft_send_ref(NULL, sink, 0, &value, sizeof value, release); }
static int send_name(void) { return weft_send_name(NULL, "sink", 0, &value, sizeof value); }
static int relay_deliver(void) {
    weft_parcel parcel = WEFT_PARCEL_INIT;
    parcel.to = sink;
    return weft_relay_deliver(NULL, 0, &parcel, WEFT_NEVER);
}
static int reply(void) {
    weft_message to = {.from = sink, .tag = 1};
    return weft_reply(&to, &value, sizeof value);
}
static int publish(void) { return is(weft_publish(NULL, "sinks", 0, &value, sizeof value), 1); }
static int receive(void) {
    weft_message m;
    REQUIRE_EQ(weft_try_send(NULL, weft_self(), 0, &value, sizeof value), 0);
    return weft_receive(&m, NULL, NULL, WEFT_NEVER);
}

/* -- The table --------------------------------------------------------------------------------------------- */

static const struct slice_call calls[] = {
    {"weft_mutex_lock", mutex_lock, SLICE_LIGHT},
    {"weft_rwlock_read", rwlock_read, SLICE_LIGHT},
    {"weft_rwlock_write", rwlock_write, SLICE_LIGHT},
    {"weft_sem_acquire", sem_acquire, SLICE_LIGHT},
    {"weft_event_wait", event_wait, SLICE_LIGHT},
    {"weft_cond_wait", cond_wait, SLICE_LIGHT},
    {"weft_barrier_wait", barrier_wait, SLICE_LIGHT},
    {"weft_once_run", once_run, SLICE_LIGHT},
    {"weft_group_wait", group_wait, SLICE_LIGHT},
    {"weft_chan_send", chan_send, SLICE_LIGHT},
    {"weft_chan_recv", chan_recv, SLICE_LIGHT},
    {"weft_chan_send", chan_send_unbounded, SLICE_LIGHT},
    {"weft_chan_recv", chan_recv_unbounded, SLICE_LIGHT},
    {"weft_chan_send_many", chan_send_many, SLICE_LIGHT},
    {"weft_chan_recv_many", chan_recv_many, SLICE_LIGHT},
    {"weft_oneshot_recv", oneshot_recv, SLICE_LIGHT},
    {"weft_subscriber_recv", subscriber_recv, SLICE_LIGHT},
    {"weft_watch_wait", watch_wait, SLICE_LIGHT},
    {"weft_select", select_ready, SLICE_LIGHT},
    {"weft_sleep", sleep_none, SLICE_LIGHT},
    {"weft_sleep_until", sleep_until_past, SLICE_LIGHT},
    {"weft_interval_wait", interval_wait, SLICE_LIGHT},
    {"weft_join", join_finished, SLICE_LIGHT},
    {"weft_nursery_await", nursery_await, SLICE_LIGHT},
    {"weft_nursery_destroy", nursery_destroy, SLICE_LIGHT},
    {"weft_nursery_next", nursery_next, SLICE_LIGHT},
    {"weft_abi_nursery_await", abi_nursery_await, SLICE_LIGHT},
    {"weft_timeout", timeout, SLICE_LIGHT},
    {"weft_blocking", blocking, SLICE_HEAVY},
    {"weft_fund_wait_exhausted", fund_wait, SLICE_LIGHT},
    {"weft_alloc", alloc, SLICE_LIGHT},
    {"weft_send", send_message, SLICE_HEAVY},
    {"weft_send_ref", send_ref, SLICE_HEAVY},
    {"weft_send_name", send_name, SLICE_HEAVY},
    {"weft_relay_deliver", relay_deliver, SLICE_HEAVY},
    {"weft_reply", reply, SLICE_HEAVY},
    {"weft_publish", publish, SLICE_HEAVY},
    {"weft_receive", receive, SLICE_HEAVY},
};

static int check_all(void *unused) {
    (void)unused;
    static const weft_budget none;
    REQUIRE_EQ(weft_fund_create(NULL, NULL, &none, &fund), 0);
    REQUIRE_EQ(spawn_class(NULL, &sinks, NULL, 0, &sink, NULL), 0);
    REQUIRE_EQ(weft_group_join(NULL, "sinks", sink), 0);
    REQUIRE_EQ(weft_register(NULL, "sink", sink), 0);
    REQUIRE_EQ(weft_fiber_go(NULL, return_nothing, NULL, &finished), 0);
    weft_interval_init(&interval, 1);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        slice_check(&calls[i]);
    REQUIRE_EQ(weft_process_cancel(NULL, sink), 0);
    CHECK_EQ(fixture_finish(finished).status, 0);
    CHECK_EQ(weft_fund_destroy(fund), 0);
    return 0;
}

API_TEST(slice_of_every_call, "R10", .workers = {1}, .timeout = 240) {
    REQUIRE_EQ(weft_chan_create(sizeof value, 16, &bounded), 0);
    REQUIRE_EQ(weft_chan_create(sizeof value, WEFT_UNBOUNDED, &unbounded), 0);
    REQUIRE_EQ(weft_broadcast_create(sizeof value, 16, &broadcast), 0);
    REQUIRE_EQ(weft_subscribe(broadcast, &subscriber), 0);
    REQUIRE_EQ(weft_watch_create(sizeof value, NULL, &watch), 0);
    in_process(check_all, NULL);
    weft_unsubscribe(subscriber);
    weft_broadcast_drop(broadcast);
    weft_watch_drop(watch);
    CHECK_EQ(weft_chan_destroy(bounded), 0);
    CHECK_EQ(weft_chan_destroy(unbounded), 0);
}

/* -- Time -------------------------------------------------------------------------------------------------- */

static void work(int64_t ns) {
    int64_t until = weft_now() + ns;
    while (weft_now() < until)
        ;
}

/* 1 ms of the caller's own between two calls: the slice ends after one or two, not after 1,024. */
static int slow_calls(void *unused) {
    (void)unused;
    weft_task *other;
    memset(&slice, 0, sizeof slice);
    REQUIRE_EQ(weft_fiber_go(NULL, slice_other, NULL, &other), 0);
    for (int i = 0; i < 60; i++) {
        REQUIRE_EQ(mutex_lock(), 0);
        work(1000000);
        slice.calls++;
        if (i == 20) /* it has been noticed by now */
            slice.gap = 0, slice.last = slice.calls;
    }
    slice.stop = true;
    CHECK_EQ(fixture_finish(other).status, 0);
    CHECK_LE(slice.gap, 3);
    CHECK_GE(slice.ran, 10);
    return 0;
}

API_TEST(slice_of_slow_calls, "R10", .workers = {1}, .sched = "ring deque fifo") {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, slow_calls, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}

/* -- Where a fiber does not yield --------------------------------------------------------------------------- */

static void do_nothing(void *unused) { (void)unused; }

static unsigned runs_meanwhile(void) {
    unsigned before = slice.ran;
    for (int i = 0; i < 4 * SLICE_LIGHT; i++)
        REQUIRE_EQ(mutex_lock(), 0);
    return slice.ran - before;
}

static int exceptions(void *unused) {
    (void)unused;
    weft_task *other;
    weft_job job;
    memset(&slice, 0, sizeof slice);
    REQUIRE_EQ(weft_fiber_go(NULL, slice_other, NULL, &other), 0);
    while (slice.ran < 2)
        REQUIRE_EQ(weft_yield(), 0);
    weft_preempt_off();
    CHECK_EQ(runs_meanwhile(), 0);
    weft_preempt_on();
    weft_fork(&job, do_nothing, NULL);
    CHECK_EQ(runs_meanwhile(), 0);
    weft_join_job(&job);
    REQUIRE_EQ(weft_shield(weft_task_self()), 0);
    CHECK_GE(runs_meanwhile(), 1); /* a shield is no reason */
    weft_unshield(weft_task_self());
    slice.stop = true;
    CHECK_EQ(fixture_finish(other).status, 0);
    return 0;
}

API_TEST(slice_exceptions, "", .workers = {1}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task;
    REQUIRE_EQ(weft_fiber_go(rt, exceptions, NULL, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
}
