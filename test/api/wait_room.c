/* wait_room.c - a weft_wait that waits for one thing is refused to every other call, and its own wait goes on. */
#include "io_fixture.h"

static struct {
    weft_sem sem, other_sem;
    weft_event event;
    weft_barrier barrier;
    weft_group group;
    weft_mutex mutex;
    weft_rwlock rwlock;
    weft_chan *in, *other_in, *full;
    weft_oneshot_sender *sender;
    weft_oneshot_receiver *receiver;
    weft_broadcast *broadcast;
    weft_subscriber *subscriber;
    weft_watch *watch;
    weft_interval interval;
    weft_io *pipe_in, *pipe_out, *other_in_end, *other_out_end;
    atomic_bool asked;
    unsigned first;
} room;

static int value;
static char byte;

static int ask_sem(weft_task *self, weft_wait *wait) { return weft_sem_acquire_poll(&room.sem, 1, self, wait); }
static int ask_other_sem(weft_task *self, weft_wait *wait) {
    return weft_sem_acquire_poll(&room.other_sem, 1, self, wait);
}
static int ask_event(weft_task *self, weft_wait *wait) { return weft_event_wait_poll(&room.event, self, wait); }
static int ask_barrier(weft_task *self, weft_wait *wait) { return weft_barrier_wait_poll(&room.barrier, self, wait); }
static int ask_group(weft_task *self, weft_wait *wait) { return weft_group_wait_poll(&room.group, self, wait); }
static int ask_mutex(weft_task *self, weft_wait *wait) { return weft_mutex_lock_poll(&room.mutex, self, wait); }
static int ask_read_lock(weft_task *self, weft_wait *wait) { return weft_rwlock_read_poll(&room.rwlock, self, wait); }
static int ask_recv(weft_task *self, weft_wait *wait) { return weft_chan_recv_poll(room.in, self, wait, &value); }
static int ask_other_recv(weft_task *self, weft_wait *wait) {
    return weft_chan_recv_poll(room.other_in, self, wait, &value);
}
static int ask_send(weft_task *self, weft_wait *wait) {
    static const int sent = 9;
    return weft_chan_send_poll(room.full, self, wait, &sent);
}
static int ask_recv_full(weft_task *self, weft_wait *wait) {
    return weft_chan_recv_poll(room.full, self, wait, &value);
}
static int ask_oneshot(weft_task *self, weft_wait *wait) {
    return weft_oneshot_recv_poll(room.receiver, self, wait, &value);
}
static int ask_subscriber(weft_task *self, weft_wait *wait) {
    return weft_subscriber_recv_poll(room.subscriber, self, wait, &value, NULL);
}
static int ask_watch(weft_task *self, weft_wait *wait) {
    uint64_t version = 1;
    return weft_watch_wait_poll(room.watch, self, wait, &version, &value);
}
static int ask_sleep(weft_task *self, weft_wait *wait) { return weft_sleep_poll(self, wait, weft_after(1)); }
static int ask_interval(weft_task *self, weft_wait *wait) { return weft_interval_poll(&room.interval, self, wait); }
static int ask_read(weft_task *self, weft_wait *wait) {
    return (int)weft_read_poll(room.pipe_in, self, wait, &byte, 1);
}
static int ask_other_read(weft_task *self, weft_wait *wait) {
    return (int)weft_read_poll(room.other_in_end, self, wait, &byte, 1);
}
static int ask_write(weft_task *self, weft_wait *wait) {
    return (int)weft_write_poll(room.pipe_out, self, wait, "x", 1);
}

/* Those before `LAST` can be waited for, and opened; all are refused while another waits. */
static int (*const asks[])(weft_task *self, weft_wait *wait) = {
    ask_sem,
    ask_event,
    ask_barrier,
    ask_group,
    ask_mutex,
    ask_read_lock,
    ask_recv,
    ask_send,
    ask_oneshot,
    ask_subscriber,
    ask_watch,
    ask_read,
    /* until here */ ask_sleep,
    ask_interval,
    ask_other_sem,
    ask_other_recv,
    ask_recv_full,
    ask_other_read,
    ask_write,
};
enum { LAST = 12, ALL = sizeof asks / sizeof *asks };

static void let_go(unsigned which) {
    int sent = 5;
    switch (which) {
    case 0: CHECK_EQ(weft_sem_release(&room.sem, 1), 0); break;
    case 1: CHECK_EQ(weft_event_set(&room.event), 0); break;
    case 2: CHECK_EQ(weft_barrier_wait(&room.barrier, WEFT_NEVER), 1); break;
    case 3: CHECK_EQ(weft_group_done(&room.group), 0); break;
    case 4: CHECK_EQ(weft_mutex_unlock(&room.mutex), 0); break;
    case 5: CHECK_EQ(weft_rwlock_write_unlock(&room.rwlock), 0); break;
    case 6: CHECK_EQ(weft_chan_send(room.in, &sent, WEFT_NOW), 0); break;
    case 7: CHECK_EQ(weft_chan_recv(room.full, &sent, WEFT_NOW), 0); break;
    case 8: CHECK_EQ(weft_oneshot_send(room.sender, &sent), 0); break;
    case 9: CHECK_EQ(weft_broadcast_send(room.broadcast, &sent), 0); break;
    case 10: CHECK_EQ(weft_watch_set(room.watch, &sent), 0); break;
    case 11: CHECK_EQ(weft_write(room.pipe_out, "y", 1, WEFT_NEVER), 1); break;
    default: break;
    }
}

struct waiter {
    weft_wait wait;
    bool asked;
};

static weft_poll wait_for_first(weft_task *self, void *state) {
    struct waiter *w = state;
    int error = asks[room.first](self, &w->wait);
    if (!w->asked) {
        REQUIRE_EQ(error, -EAGAIN);
        for (unsigned i = 0; i < ALL; i++)
            if (i != room.first && asks[i](self, &w->wait) != -EBUSY)
                harness_note(__FILE__, __LINE__, "%u was not refused while %u waits", i, room.first);
        CHECK_EQ(asks[room.first](self, &w->wait), -EAGAIN);
        w->asked = true;
        atomic_store(&room.asked, true);
    } else if (error != -EAGAIN) {
        if (room.first == 4)
            CHECK_EQ(weft_mutex_unlock(&room.mutex), 0);
        if (room.first == 5)
            CHECK_EQ(weft_rwlock_read_unlock(&room.rwlock), 0);
        return weft_done(self, error < 0 ? error : 0, NULL);
    }
    return WEFT_PENDING;
}

static void end_wait(void *state) { weft_wait_end(&((struct waiter *)state)->wait); }

static int wait_for_each(void *unused) {
    (void)unused;
    REQUIRE_EQ(weft_pipe(&room.pipe_in, &room.pipe_out), 0);
    REQUIRE_EQ(weft_pipe(&room.other_in_end, &room.other_out_end), 0);
    for (room.first = 0; room.first < LAST; room.first++) {
        weft_task *task;
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = wait_for_first;
        spec.state_size = sizeof(struct waiter);
        spec.drop = end_wait;
        atomic_store(&room.asked, false);
        REQUIRE_EQ(weft_mutex_lock(&room.mutex, WEFT_NOW), 0);
        REQUIRE_EQ(weft_rwlock_write(&room.rwlock, WEFT_NOW), 0);
        REQUIRE_EQ(weft_spawn(NULL, &spec, &task), 0);
        while (!atomic_load(&room.asked))
            weft_yield();
        let_go(room.first);
        CHECK_EQ(fixture_finish(task).status, 0);
        if (weft_mutex_is_mine(&room.mutex))
            CHECK_EQ(weft_mutex_unlock(&room.mutex), 0);
        if (room.first != 5)
            CHECK_EQ(weft_rwlock_write_unlock(&room.rwlock), 0);
    }
    CHECK_EQ(value, 5);
    CHECK_EQ(byte, 'y');
    weft_close(room.pipe_in), weft_close(room.pipe_out);
    weft_close(room.other_in_end), weft_close(room.other_out_end);
    return 0;
}

API_TEST(wait_room_serves_one_wait, "", .workers = {2}) {
    static const int first = 1;
    fixture_without_points();
    REQUIRE_EQ(weft_barrier_init(&room.barrier, 2), 0);
    REQUIRE_EQ(weft_group_add(&room.group, 1), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &room.in), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &room.other_in), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &room.full), 0);
    REQUIRE_EQ(weft_chan_send(room.full, &first, WEFT_NOW), 0);
    REQUIRE_EQ(weft_oneshot_create(sizeof(int), &room.sender, &room.receiver), 0);
    REQUIRE_EQ(weft_broadcast_create(sizeof(int), 1, &room.broadcast), 0);
    REQUIRE_EQ(weft_subscribe(room.broadcast, &room.subscriber), 0);
    REQUIRE_EQ(weft_watch_create(sizeof(int), &first, &room.watch), 0);
    weft_interval_init(&room.interval, 1);
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = io_go(rt, wait_for_each, NULL);
    CHECK_EQ(fixture_finish(task).status, 0);
    fixture_end(rt);
    weft_unsubscribe(room.subscriber);
    weft_broadcast_drop(room.broadcast);
    weft_watch_drop(room.watch);
    weft_oneshot_receiver_drop(room.receiver);
    CHECK_EQ(weft_chan_destroy(room.in), 0);
    CHECK_EQ(weft_chan_destroy(room.other_in), 0);
    CHECK_EQ(weft_chan_destroy(room.full), 0);
}

/* A room that sleeps. */
static weft_poll sleep_and_ask(weft_task *self, void *state) {
    struct waiter *w = state;
    if (!w->asked) {
        w->asked = true;
        weft_deadline until = weft_after(2000000);
        REQUIRE_EQ(weft_sleep_poll(self, &w->wait, until), -EAGAIN);
        CHECK_EQ(ask_sem(self, &w->wait), -EBUSY);
        CHECK_EQ(ask_recv(self, &w->wait), -EBUSY);
        CHECK_EQ(ask_watch(self, &w->wait), -EBUSY);
    }
    return weft_sleep_poll(self, &w->wait, WEFT_NOW) ? WEFT_PENDING : weft_done(self, 0, NULL);
}

API_TEST(wait_room_that_sleeps, "", .workers = {2}) {
    static const int first = 1;
    static struct waiter waiter;
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &room.in), 0);
    REQUIRE_EQ(weft_watch_create(sizeof(int), &first, &room.watch), 0);
    weft_runtime *rt = fixture_begin_patient();
    CHECK_EQ(fixture_finish(fixture_go(rt, sleep_and_ask, &waiter)).status, 0);
    fixture_end(rt);
    weft_watch_drop(room.watch);
    CHECK_EQ(weft_chan_destroy(room.in), 0);
}
