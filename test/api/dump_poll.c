/* dump_poll.c - weft_dump says what a poll task waits for, in the words of fibers. */
#include "dump_fixture.h"

/* Is that in the line of the task, up to since when? */
static bool tells(weft_runtime *rt, const char *name, const char *what) {
    char begin[64], middle[64];
    snprintf(begin, sizeof begin, "\"%s\" idle", name);
    snprintf(middle, sizeof middle, ", waits for %s for ", what);
    const char *line = strstr(dump(rt), begin), *found = line ? strstr(line, middle) : NULL;
    return found && found < strchr(line, '\n');
}

static struct {
    weft_mutex mutex, of_cond;
    weft_rwlock rwlock;
    weft_cond cond;
    weft_sem sem;
    weft_event event, other;
    weft_barrier barrier;
    weft_once once;
    weft_group group;
    weft_chan *empty, *full;
    weft_oneshot_sender *sender;
    weft_oneshot_receiver *receiver;
    weft_broadcast *broadcast;
    weft_subscriber *subscriber;
    weft_watch *watch;
    weft_interval interval;
    weft_io *empty_in, *empty_out, *full_in, *full_out, *listener;
    weft_task *holder; /* a fiber: `once` is being done by it */
} thing;

struct waiter {
    const struct ask *ask;
    weft_wait wait, second;
    weft_nursery *nursery;
    unsigned polls;
};

static int value;
static char byte;

static void wait_for_event(void *event) { REQUIRE_EQ(weft_event_wait(event, WEFT_NEVER), 0); }

static int hold(void *unused) {
    (void)unused;
    return weft_once_run(&thing.once, wait_for_event, &thing.other, WEFT_NEVER);
}

static int wait_other(void *unused) {
    (void)unused;
    return weft_event_wait(&thing.other, WEFT_NEVER);
}

static int ask_mutex(weft_task *self, struct waiter *w) { return weft_mutex_lock_poll(&thing.mutex, self, &w->wait); }
static int ask_read_lock(weft_task *self, struct waiter *w) {
    return weft_rwlock_read_poll(&thing.rwlock, self, &w->wait);
}
static int ask_write_lock(weft_task *self, struct waiter *w) {
    return weft_rwlock_write_poll(&thing.rwlock, self, &w->wait);
}
static int ask_cond(weft_task *self, struct waiter *w) {
    if (w->polls == 1)
        REQUIRE_EQ(weft_mutex_lock(&thing.of_cond, WEFT_NOW), 0);
    return weft_cond_wait_poll(&thing.cond, &thing.of_cond, self, &w->wait);
}
static int ask_sem(weft_task *self, struct waiter *w) { return weft_sem_acquire_poll(&thing.sem, 1, self, &w->wait); }
static int ask_event(weft_task *self, struct waiter *w) { return weft_event_wait_poll(&thing.event, self, &w->wait); }
static int ask_barrier(weft_task *self, struct waiter *w) {
    return weft_barrier_wait_poll(&thing.barrier, self, &w->wait);
}
static int ask_once(weft_task *self, struct waiter *w) {
    return weft_once_run_poll(&thing.once, wait_for_event, NULL, self, &w->wait);
}
static int ask_group(weft_task *self, struct waiter *w) { return weft_group_wait_poll(&thing.group, self, &w->wait); }
static int ask_recv(weft_task *self, struct waiter *w) {
    return weft_chan_recv_poll(thing.empty, self, &w->wait, &value);
}
static int ask_send(weft_task *self, struct waiter *w) {
    return weft_chan_send_poll(thing.full, self, &w->wait, &value);
}
static int ask_oneshot(weft_task *self, struct waiter *w) {
    return weft_oneshot_recv_poll(thing.receiver, self, &w->wait, &value);
}
static int ask_broadcast(weft_task *self, struct waiter *w) {
    return weft_subscriber_recv_poll(thing.subscriber, self, &w->wait, &value, NULL);
}
static int ask_watch(weft_task *self, struct waiter *w) {
    uint64_t version = 1;
    return weft_watch_wait_poll(thing.watch, self, &w->wait, &version, &value);
}
/* Virtual time would be there at once. */
static weft_deadline far_away(void) { return fixture_on("sim") ? WEFT_NEVER : weft_after(INT64_C(3600000000000)); }
static int ask_sleep(weft_task *self, struct waiter *w) { return weft_sleep_poll(self, &w->wait, far_away()); }
static int ask_interval(weft_task *self, struct waiter *w) {
    return weft_interval_poll(&thing.interval, self, &w->wait);
}
static int ask_read(weft_task *self, struct waiter *w) {
    return (int)weft_read_poll(thing.empty_in, self, &w->wait, &byte, 1);
}
static int ask_write(weft_task *self, struct waiter *w) {
    return (int)weft_write_poll(thing.full_out, self, &w->wait, &byte, 1);
}
static int ask_accept(weft_task *self, struct waiter *w) {
    weft_io *accepted;
    return weft_accept_poll(thing.listener, self, &w->wait, &accepted, NULL);
}
static int ask_nursery(weft_task *self, struct waiter *w) {
    if (!w->nursery) {
        REQUIRE_EQ(weft_nursery_create(NULL, NULL, &w->nursery), 0);
        REQUIRE_EQ(weft_nursery_go(w->nursery, wait_other, NULL, NULL), 0);
    }
    return weft_nursery_await_poll(w->nursery, self, &w->wait, &value);
}
static int ask_join(weft_task *self, struct waiter *w) {
    (void)w;
    return weft_join_poll(thing.holder, self, NULL);
}
/* The last is told. */
static int ask_two(weft_task *self, struct waiter *w) {
    REQUIRE_EQ(weft_sem_acquire_poll(&thing.sem, 1, self, &w->second), -EAGAIN);
    return ask_event(self, w);
}
static int ask_same(weft_task *self, struct waiter *w) {
    REQUIRE_EQ(weft_event_wait_poll(&thing.other, self, &w->second), -EAGAIN);
    return ask_event(self, w);
}
static int ask_own(weft_task *self, struct waiter *w) {
    weft_task_waits_for(self, "rain");
    return ask_event(self, w);
}

static const struct ask {
    const char *name;
    int (*ask)(weft_task *self, struct waiter *w);
    const char *what;
} asks[] = {
    {"mutex", ask_mutex, "a mutex"},
    {"read lock", ask_read_lock, "a read lock"},
    {"write lock", ask_write_lock, "a write lock"},
    {"cond", ask_cond, "a condition"},
    {"sem", ask_sem, "a semaphore"},
    {"event", ask_event, "an event"},
    {"barrier", ask_barrier, "a barrier"},
    {"once", ask_once, "what is done once"},
    {"group", ask_group, "a group"},
    {"recv", ask_recv, "a value from a channel"},
    {"send", ask_send, "room in a channel"},
    {"oneshot", ask_oneshot, "a value from a channel"},
    {"broadcast", ask_broadcast, "a broadcast"},
    {"watch", ask_watch, "a watch"},
    {"sleep", ask_sleep, "a timer"},
    {"interval", ask_interval, "a timer"},
    {"read", ask_read, "a descriptor to read"},
    {"write", ask_write, "a descriptor to write"},
    {"accept", ask_accept, "a descriptor to read"},
    {"nursery", ask_nursery, "a nursery"},
    {"join", ask_join, "task \"holder\""},
    {"two", ask_two, "an event and others"},
    {"same", ask_same, "an event"},
    {"own", ask_own, "rain"},
};
enum { ASKS = sizeof asks / sizeof *asks };

static weft_poll wait_for_it(weft_task *self, void *state) {
    struct waiter *w = state;
    w->polls++;
    REQUIRE_EQ(w->ask->ask(self, w), -EAGAIN);
    return WEFT_PENDING;
}

static void end_wait(void *state) {
    struct waiter *w = state;
    weft_wait_end(&w->wait);
    weft_wait_end(&w->second);
    weft_nursery_destroy(w->nursery);
}

static weft_task *go(weft_runtime *rt, weft_poll_fn poll, const struct ask *ask, const char *name) {
    struct waiter waiter = {.ask = ask};
    weft_spec spec = WEFT_SPEC_INIT;
    weft_task *task = NULL;
    spec.poll = poll;
    spec.drop = end_wait;
    spec.state = &waiter;
    spec.state_size = sizeof waiter;
    spec.name = name;
    REQUIRE_EQ(weft_spawn(rt, &spec, &task), 0);
    return task;
}

static void cancel(weft_task *task) {
    weft_task_cancel(task);
    CHECK_EQ(fixture_finish(task).status, -ECANCELED);
}

static void make_things(weft_runtime *rt) {
    static const int first = 1;
    char bytes[4096] = "";
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    REQUIRE_EQ(weft_mutex_lock(&thing.mutex, WEFT_NOW), 0);
    REQUIRE_EQ(weft_rwlock_write(&thing.rwlock, WEFT_NOW), 0);
    REQUIRE_EQ(weft_barrier_init(&thing.barrier, 2), 0);
    REQUIRE_EQ(weft_group_add(&thing.group, 1), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &thing.empty), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &thing.full), 0);
    REQUIRE_EQ(weft_chan_send(thing.full, &first, WEFT_NOW), 0);
    REQUIRE_EQ(weft_oneshot_create(sizeof(int), &thing.sender, &thing.receiver), 0);
    REQUIRE_EQ(weft_broadcast_create(sizeof(int), 1, &thing.broadcast), 0);
    REQUIRE_EQ(weft_subscribe(thing.broadcast, &thing.subscriber), 0);
    REQUIRE_EQ(weft_watch_create(sizeof(int), &first, &thing.watch), 0);
    weft_interval_init_at(&thing.interval, far_away(), 1);
    REQUIRE_EQ(weft_pipe(&thing.empty_in, &thing.empty_out), 0);
    REQUIRE_EQ(weft_pipe(&thing.full_in, &thing.full_out), 0);
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &thing.listener), 0);
    spec.fn = hold;
    spec.name = "holder";
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &thing.holder), 0);
    REQUIRE_EVENTUALLY(tells(rt, "holder", "an event"));
    while (weft_try_write(thing.full_out, bytes, sizeof bytes) > 0)
        ;
}

static void end_things(void) {
    weft_event_set(&thing.other);
    REQUIRE_EVENTUALLY(weft_task_is_done(thing.holder)); /* one that was cancelled still joins it */
    CHECK_EQ(fixture_finish(thing.holder).status, 0);
    weft_close(thing.empty_in), weft_close(thing.empty_out), weft_close(thing.full_in), weft_close(thing.full_out);
    weft_close(thing.listener);
    weft_unsubscribe(thing.subscriber);
    weft_broadcast_drop(thing.broadcast);
    weft_watch_drop(thing.watch);
    weft_oneshot_sender_drop(thing.sender);
    weft_oneshot_receiver_drop(thing.receiver);
    CHECK_EQ(weft_chan_destroy(thing.empty), 0);
    CHECK_EQ(weft_chan_destroy(thing.full), 0);
    CHECK_EQ(weft_rwlock_write_unlock(&thing.rwlock), 0);
    CHECK_EQ(weft_mutex_unlock(&thing.mutex), 0);
}

/* Also when it was polled for another reason, and goes on waiting. */
static weft_task *is_told(weft_runtime *rt, const struct ask *ask) {
    weft_task *task = go(rt, wait_for_it, ask, ask->name);
    for (int again = 0; again < 2; again++) {
        REQUIRE_EVENTUALLY(strcmp(weft_task_state(task), "idle") == 0);
        if (!tells(rt, ask->name, ask->what))
            harness_note(__FILE__, __LINE__, "%s, %d: \"%s\" is not in\n%s", ask->name, again, ask->what, text);
        weft_waker waker = weft_waker_of(task);
        uint64_t polls = fixture_stats(rt).polls;
        weft_waker_wake(waker);
        REQUIRE_EVENTUALLY(fixture_stats(rt).polls > polls);
    }
    return task;
}

API_TEST(dump_poll_tells, "", .workers = {2}) {
    weft_task *task[ASKS];
    weft_runtime *rt = fixture_begin_patient();
    make_things(rt);
    for (unsigned i = 0; i < ASKS; i++)
        task[i] = is_told(rt, &asks[i]);
    for (unsigned i = 0; i < ASKS; i++)
        cancel(task[i]);
    end_things();
    fixture_end(rt);
}

/* A job that a thread runs: under `sim` nothing else goes on meanwhile. */
static atomic_bool release;

static int wait_released(void *unused) {
    (void)unused;
    while (!release)
        harness_nap();
    return 7;
}

static weft_poll call_blocking(weft_task *self, void *state) {
    struct waiter *w = state;
    weft_blocking_spec spec = WEFT_BLOCKING_SPEC_INIT;
    int result = 0;
    spec.fn = wait_released;
    int error = weft_blocking_poll(&spec, self, &w->wait, &result);
    return error == -EAGAIN ? WEFT_PENDING : weft_done(self, error, (void *)(intptr_t)result);
}

API_TEST(dump_poll_blocking, "", .workers = {2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = go(rt, call_blocking, NULL, "caller");
    REQUIRE_EVENTUALLY(tells(rt, "caller", "a blocking job"));
    release = true;
    weft_result result = fixture_finish(task);
    CHECK_EQ(result.status, 0);
    CHECK_EQ((intptr_t)result.value, 7);
    fixture_end(rt);
}

/* What a poll did not wait for in the end is not told of the next one, nor of another task's. */
static weft_poll give_up(weft_task *self, void *state) {
    struct waiter *w = state;
    if (w->polls++)
        return WEFT_PENDING;
    REQUIRE_EQ(ask_event(self, w), -EAGAIN);
    weft_wait_end(&w->wait);
    return WEFT_YIELD;
}

/* It ends on top of the one that joins it. */
static weft_poll look_and_end(weft_task *self, void *state) {
    struct waiter *w = state;
    REQUIRE_EQ(ask_mutex(self, w), -EAGAIN);
    return weft_done(self, 0, NULL);
}

static weft_poll join_then_wait(weft_task *self, void *state) {
    struct waiter *w = state;
    int error = ask_event(self, w);
    if (!w->polls++)
        CHECK_EQ(fixture_finish(go(NULL, look_and_end, NULL, "other")).status, 0);
    return error == -EAGAIN ? WEFT_PENDING : weft_done(self, error, NULL);
}

API_TEST(dump_poll_each_its_own, "", .workers = {1}) {
    REQUIRE_EQ(weft_mutex_lock(&thing.mutex, WEFT_NOW), 0);
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task = go(rt, give_up, NULL, "fickle");
    REQUIRE_EVENTUALLY(tells(rt, "fickle", "a waker that nobody holds"));
    cancel(task);
    task = go(rt, join_then_wait, NULL, "below");
    REQUIRE_EVENTUALLY(tells(rt, "below", "an event"));
    weft_event_set(&thing.event);
    CHECK_EQ(fixture_finish(task).status, 0);
    weft_event_clear(&thing.event);
    CHECK_EQ(weft_mutex_unlock(&thing.mutex), 0);
    fixture_end(rt);
}

/* Among many: it is named all the same. */
static weft_poll never_woken(weft_task *self, void *state) {
    (void)self, (void)state;
    return WEFT_PENDING;
}

API_TEST(dump_poll_joins_among_many, "", .workers = {1}) {
    enum { MANY = 1001 };
    static weft_task *task[MANY];
    weft_runtime *rt = fixture_begin_patient();
    for (int i = 0; i < MANY; i++)
        task[i] = go(rt, never_woken, NULL, "one");
    thing.holder = task[0];
    weft_task *joiner = go(rt, wait_for_it, &(struct ask){"join", ask_join, NULL}, "joiner");
    REQUIRE_EVENTUALLY(tells(rt, "joiner", "task \"one\""));
    cancel(joiner);
    weft_task_cancel(task[0]);
    REQUIRE_EVENTUALLY(weft_task_is_done(task[0])); /* the joiner that is gone still joins it */
    for (int i = 0; i < MANY; i++)
        cancel(task[i]);
    fixture_end(rt);
}

/* Since when, in units of 17 ms: virtual time stands still but for this sleep. */
static int sleep_a_day(void *unused) {
    (void)unused;
    return weft_sleep(INT64_C(86400000000000));
}

API_TEST(dump_poll_since, "", .sched = "sim") {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *sleeper, *task = go(rt, wait_for_it, &asks[5], "patient");
    REQUIRE_EVENTUALLY(tells(rt, "patient", "an event"));
    CHECK_CONTAINS(text, "waits for an event for 0.0");
    REQUIRE_EQ(weft_fiber_go(rt, sleep_a_day, NULL, &sleeper), 0);
    CHECK_EQ(fixture_finish(sleeper).status, 0);
    dump(rt);
    CHECK(strstr(text, "waits for an event for 86400.0") || strstr(text, "waits for an event for 86399.9"));
    cancel(task);
    fixture_end(rt);
}
