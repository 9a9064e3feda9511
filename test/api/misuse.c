/* misuse.c - mistakes that nothing can be made of end the process and say what they are; no handle is an error, not a crash. */
#include <pthread.h>

#include "fixture.h"

/* -- No handle -------------------------------------------------------------------------------------------- */

API_TEST(misuse_no_handle, "", .workers = {1}) {
    uint64_t value = 0;
    weft_wait wait = {{0}};
    weft_stats stats = {.size = sizeof stats};
    CHECK_EQ(weft_join(NULL, NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_join_poll(NULL, NULL, NULL), -EINVAL);
    weft_task_cancel(NULL);
    weft_task_drop(NULL);
    CHECK(!weft_task_is_done(NULL) && !weft_task_is_cancelled(NULL) && !weft_task_name(NULL));
    CHECK_EQ(weft_task_cancel_reason(NULL), WEFT_REASON_NONE);
    CHECK_STR(weft_task_state(NULL), "free");
    CHECK_EQ(weft_runtime_stop(NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_stats_read(NULL, -1, &stats), -EINVAL);
    CHECK_EQ(weft_dump(NULL, 2), -EINVAL);
    CHECK_EQ(weft_chan_create(8, 1, NULL), -EINVAL);
    CHECK_EQ(weft_chan_init(NULL, 8, 0, NULL), -EINVAL);
    CHECK_EQ(weft_chan_send(NULL, &value, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_chan_recv(NULL, &value, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_chan_send_many(NULL, &value, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_chan_recv_many(NULL, &value, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_chan_send_poll(NULL, NULL, &wait, &value), -EINVAL);
    CHECK_EQ(weft_chan_recv_poll(NULL, NULL, &wait, &value), -EINVAL);
    weft_chan_close(NULL);
    weft_chan_drop(NULL);
    CHECK(!weft_chan_clone(NULL) && weft_chan_is_closed(NULL));
    CHECK_EQ(weft_chan_length(NULL) + weft_chan_capacity(NULL), 0);
    CHECK_EQ(weft_chan_destroy(NULL), 0);
    CHECK_EQ(weft_select(NULL, 1, WEFT_NEVER), -EINVAL);
    weft_case cases[2] = {weft_case_recv(NULL, &value), weft_case_send(NULL, &value)};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_select(&cases[i], 1, WEFT_NEVER), 0);
        CHECK_EQ(cases[i].result, -EINVAL);
    }
    weft_reactor_stats reactor = {.size = sizeof reactor};
    CHECK_EQ(weft_drive(NULL, 1), -EINVAL);
    CHECK_EQ(weft_drive_wait(NULL, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_drive_fd(NULL), -EINVAL);
    CHECK_EQ(weft_drive_next(NULL), WEFT_NEVER);
    CHECK_EQ(weft_reactor_stats_read(NULL, &reactor), -EINVAL);
    CHECK(!weft_runtime_sched(NULL) && !weft_runtime_poller(NULL));
    CHECK_EQ(weft_runtime_workers(NULL) + weft_stats_parked(NULL) + weft_stats_searching(NULL), 0);
    CHECK_EQ(weft_stats_live(NULL) + weft_sim_hash(NULL), 0);
    weft_task_waits_for(NULL, "nothing");
    weft_waker_wake(weft_waker_of(NULL));
}

static void result_of_once(void *value) { ++*(uint64_t *)value; }

API_TEST(misuse_no_channel, "", .workers = {1}) {
    uint64_t value = 7, version = 0, missed = 0;
    weft_wait wait = {{0}};
    weft_oneshot_sender *sender;
    weft_oneshot_receiver *receiver;
    weft_broadcast *broadcast;
    CHECK_EQ(weft_oneshot_create(8, NULL, &receiver), -EINVAL);
    CHECK_EQ(weft_oneshot_create(8, &sender, NULL), -EINVAL);
    CHECK_EQ(weft_oneshot_send(NULL, &value), -EINVAL);
    CHECK_EQ(weft_oneshot_recv(NULL, &value, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_oneshot_recv_poll(NULL, NULL, &wait, &value), -EINVAL);
    CHECK(weft_oneshot_is_unwanted(NULL));
    weft_oneshot_sender_drop(NULL);
    weft_oneshot_receiver_drop(NULL);
    CHECK_EQ(weft_broadcast_create(8, 1, NULL), -EINVAL);
    CHECK_EQ(weft_broadcast_send(NULL, &value), -EINVAL);
    CHECK(!weft_broadcast_clone(NULL));
    weft_broadcast_close(NULL);
    weft_broadcast_drop(NULL);
    weft_subscriber *subscriber;
    CHECK_EQ(weft_subscribe(NULL, &subscriber), -EINVAL);
    REQUIRE_EQ(weft_broadcast_create(8, 1, &broadcast), 0);
    CHECK_EQ(weft_subscribe(broadcast, NULL), -EINVAL);
    weft_broadcast_drop(broadcast);
    weft_unsubscribe(NULL);
    CHECK_EQ(weft_subscriber_recv(NULL, &value, &missed, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_subscriber_recv_poll(NULL, NULL, &wait, &value, &missed), -EINVAL);
    CHECK_EQ(weft_watch_create(8, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_watch_set(NULL, &value), -EINVAL);
    CHECK_EQ(weft_watch_get(NULL, &value), 0);
    CHECK_EQ(weft_watch_wait(NULL, &version, &value, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_watch_wait_poll(NULL, NULL, &wait, &version, &value), -EINVAL);
    CHECK(!weft_watch_clone(NULL));
    weft_watch_close(NULL);
    weft_watch_drop(NULL);
    weft_case cases[3] = {weft_case_oneshot(NULL, &value), weft_case_subscriber(NULL, &value, &missed),
                          weft_case_watch(NULL, &version, &value)};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_select(&cases[i], 1, WEFT_NEVER), 0);
        CHECK_EQ(cases[i].result, -EINVAL);
    }
    CHECK_EQ(value, 7);
    CHECK_EQ(version + missed, 0);
}

/* Nobody to wake: refused before anything is taken, or waited for. */
API_TEST(misuse_no_self, "", .workers = {1}) {
    uint64_t value = 7, version = 1;
    weft_wait wait = {{0}};
    weft_mutex mutex = WEFT_MUTEX_INIT;
    weft_cond cond = WEFT_COND_INIT;
    weft_rwlock rwlock = WEFT_RWLOCK_INIT;
    weft_sem sem = WEFT_SEM_INIT(1);
    weft_event event = WEFT_EVENT_INIT;
    weft_barrier barrier = WEFT_BARRIER_INIT(2);
    weft_once once = WEFT_ONCE_INIT;
    weft_group group = WEFT_GROUP_INIT;
    weft_chan *ch;
    weft_oneshot_sender *sender;
    weft_oneshot_receiver *receiver;
    weft_broadcast *broadcast;
    weft_subscriber *subscriber;
    weft_watch *watch;
    REQUIRE_EQ(weft_chan_create(8, 1, &ch), 0);
    REQUIRE_EQ(weft_oneshot_create(8, &sender, &receiver), 0);
    REQUIRE_EQ(weft_broadcast_create(8, 1, &broadcast), 0);
    REQUIRE_EQ(weft_subscribe(broadcast, &subscriber), 0);
    REQUIRE_EQ(weft_watch_create(8, NULL, &watch), 0);
    CHECK_EQ(weft_group_add(&group, 1), 0);
    CHECK_EQ(weft_mutex_lock_poll(&mutex, NULL, &wait), -EINVAL);
    CHECK_EQ(weft_cond_wait_poll(&cond, &mutex, NULL, &wait), -EINVAL);
    CHECK_EQ(weft_rwlock_read_poll(&rwlock, NULL, &wait), -EINVAL);
    CHECK_EQ(weft_rwlock_write_poll(&rwlock, NULL, &wait), -EINVAL);
    CHECK_EQ(weft_sem_acquire_poll(&sem, 1, NULL, &wait), -EINVAL);
    CHECK_EQ(weft_sem_acquire_poll(&sem, 2, NULL, &wait), -EINVAL);
    CHECK_EQ(weft_event_wait_poll(&event, NULL, &wait), -EINVAL);
    CHECK_EQ(weft_barrier_wait_poll(&barrier, NULL, &wait), -EINVAL);
    CHECK_EQ(weft_once_run_poll(&once, result_of_once, &value, NULL, &wait), -EINVAL);
    CHECK_EQ(weft_group_wait_poll(&group, NULL, &wait), -EINVAL);
    CHECK_EQ(weft_chan_recv_poll(ch, NULL, &wait, &value), -EINVAL);
    CHECK_EQ(weft_chan_send_poll(ch, NULL, &wait, &value), -EINVAL);
    CHECK_EQ(weft_oneshot_recv_poll(receiver, NULL, &wait, &value), -EINVAL);
    CHECK_EQ(weft_subscriber_recv_poll(subscriber, NULL, &wait, &value, NULL), -EINVAL);
    CHECK_EQ(weft_watch_wait_poll(watch, NULL, &wait, &version, &value), -EINVAL);
    CHECK_EQ(value, 7);
    CHECK_EQ(weft_chan_length(ch), 0);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    CHECK_EQ(weft_group_done(&group), 0); /* none of these wakes anybody */
    CHECK_EQ(weft_event_set(&event), 0);
    CHECK_EQ(weft_broadcast_send(broadcast, &value), 0);
    CHECK_EQ(weft_watch_set(watch, &value), 0);
    CHECK_EQ(weft_oneshot_send(sender, &value), 0);
    CHECK_EQ(weft_mutex_destroy(&mutex), 0);
    CHECK_EQ(weft_cond_destroy(&cond), 0);
    CHECK_EQ(weft_rwlock_destroy(&rwlock), 0);
    CHECK_EQ(weft_sem_destroy(&sem), 0);
    CHECK_EQ(weft_event_destroy(&event), 0);
    CHECK_EQ(weft_barrier_destroy(&barrier), 0);
    CHECK_EQ(weft_once_destroy(&once), 0);
    CHECK_EQ(weft_group_destroy(&group), 0);
    CHECK_EQ(weft_chan_destroy(ch), 0);
    weft_oneshot_receiver_drop(receiver);
    weft_unsubscribe(subscriber);
    weft_broadcast_drop(broadcast);
    weft_watch_drop(watch);
}

static weft_poll run_no_once(weft_task *self, void *once) {
    weft_wait wait = {{0}};
    CHECK_EQ(weft_once_run_poll(once, NULL, NULL, self, &wait), -EINVAL);
    return weft_done(self, 0, NULL);
}

API_TEST(misuse_no_once, "", .workers = {1}) {
    weft_once once = WEFT_ONCE_INIT;
    uint64_t value = 0;
    CHECK_EQ(weft_once_run(&once, NULL, NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_run(NULL, run_no_once, &once, NULL), 0);
    CHECK(!weft_once_is_done(&once));
    CHECK_EQ(weft_once_run(&once, result_of_once, &value, WEFT_NEVER), 0);
    CHECK_EQ(value, 1);
    CHECK_EQ(weft_once_run(&once, NULL, NULL, WEFT_NEVER), 0); /* it has been done */
    CHECK_EQ(weft_once_destroy(&once), 0);
}

/* -- A channel that somebody waits for ---------------------------------------------------------------------- */

static int receive(void *ch) {
    uint64_t value;
    return weft_chan_recv(ch, &value, WEFT_NEVER);
}

static int drop_under_receiver(void *arg) {
    (void)arg;
    weft_chan *ch = NULL;
    REQUIRE_EQ(weft_chan_create(8, 1, &ch), 0);
    REQUIRE_EQ(weft_fiber_go(NULL, receive, ch, NULL), 0);
    for (int i = 0; i < 1000; i++)
        weft_yield();
    weft_chan_drop(ch);
    return 0;
}

static void drop_waited(void *arg) { (void)!weft_fiber_run(NULL, drop_under_receiver, arg, NULL); }

API_TEST(misuse_chan_dropped_while_waited_for, "", .workers = {1}) {
    REQUIRE_ABORTS(drop_waited, NULL,
                   "weft: weft_chan_drop: the last handle is dropped while somebody waits for the channel\n");
}

/* -- A result of nobody ---------------------------------------------------------------------------------------- */

static void done_on_thread(void *arg) { weft_done(arg, 0, NULL); }
static void result_on_thread(void *arg) { weft_fiber_result(arg); }

static weft_poll done_of_none(weft_task *self, void *arg) {
    (void)self, (void)arg;
    return weft_done(NULL, 0, NULL);
}
static weft_poll done_above_0(weft_task *self, void *arg) {
    (void)arg;
    return weft_done(self, 1, NULL);
}
static void run_none(void *arg) { (void)!weft_run(NULL, done_of_none, arg, NULL); }
static void run_above_0(void *arg) { (void)!weft_run(NULL, done_above_0, arg, NULL); }

API_TEST(misuse_result, "", .workers = {1}) {
    static const char not_running[] = "weft: weft_done: `self` is not the task that is running here\n";
    REQUIRE_ABORTS(done_on_thread, NULL, not_running);
    REQUIRE_ABORTS(run_none, NULL, not_running);
    REQUIRE_ABORTS(run_above_0, NULL, "weft: weft_done: the status is neither 0 nor a negative error\n");
    REQUIRE_ABORTS(result_on_thread, NULL, "weft: weft_fiber_result: called outside a fiber: nobody could get it\n");
}

/* -- A poll that says nothing ---------------------------------------------------------------------------------- */

/* An error that was meant for weft_done, or any other number: to take it for one of the three would be a task that never ends. */
static weft_poll say(weft_task *self, void *number) {
    (void)self;
    return (weft_poll)(intptr_t)number;
}
static void run_say(void *number) {
    weft_spec spec = WEFT_SPEC_INIT;
    weft_runtime *rt;
    weft_task *task;
    spec.poll = say;
    spec.state = number;
    spec.name = "teller";
    if (weft_runtime_create(NULL, &rt) == 0 && weft_spawn(rt, &spec, &task) == 0)
        weft_join(task, NULL, WEFT_NEVER);
}

API_TEST(misuse_poll_says, "", .workers = {1, 2}) {
    static const int numbers[] = {3, -1, -EAGAIN, 1000};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char says[160];
        snprintf(
            says, sizeof says,
            "weft: poll: that of task \"teller\" has returned %d: neither WEFT_PENDING, WEFT_READY nor WEFT_YIELD\n",
            numbers[i]);
        REQUIRE_ABORTS(run_say, (void *)(intptr_t)numbers[i], says);
    }
}

/* -- The end of a thread of ours ----------------------------------------------------------------------------- */

static int exit_thread(void *arg) { pthread_exit(arg); }

static weft_poll exit_in_poll(weft_task *self, void *arg) {
    (void)self;
    pthread_exit(arg);
}

static int exit_in_job(void *arg) { return weft_blocking(exit_thread, arg, NULL, WEFT_NEVER); }

static void in_fiber(void *arg) { (void)!weft_fiber_run(NULL, exit_thread, arg, NULL); }
static void in_poll(void *arg) { (void)!weft_run(NULL, exit_in_poll, arg, NULL); }
static void in_job(void *arg) { (void)!weft_fiber_run(NULL, exit_in_job, arg, NULL); }

/* ThreadSanitizer itself ends a program whose thread ends in a fiber, with words of its own. */
#ifdef __has_feature
#define ENDED_BEFORE __has_feature(thread_sanitizer)
#else
#define ENDED_BEFORE 0
#endif

API_TEST(misuse_pthread_exit, "", .workers = {1, 2}) {
    static const char says[] =
        "weft: pthread_exit: called on a thread of weft's: a fiber, task or blocking job must return instead\n";
    if (!ENDED_BEFORE)
        REQUIRE_ABORTS(in_fiber, NULL, says);
    REQUIRE_ABORTS(in_poll, NULL, says);
    REQUIRE_ABORTS(in_job, NULL, says);
}

/* -- Wakers that are never used or dropped ------------------------------------------------------------------ */

static weft_poll wait_only(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_PENDING;
}

static void take_wakers(void *arg) {
    (void)arg;
    weft_runtime *rt;
    weft_task *task;
    REQUIRE_EQ(weft_runtime_create(NULL, &rt), 0);
    REQUIRE_EQ(weft_go(rt, wait_only, NULL, &task), 0);
    for (int i = 0; i < 1 << 24; i++) {
        weft_waker waker = weft_waker_of(task);
        (void)waker;
    }
}

TEST(misuse_too_many_wakers, "B54") {
    REQUIRE_ABORTS(take_wakers, NULL,
                   "weft: weft_waker_of: the task has 16,777,215 handles and wakers, which is the limit");
}
