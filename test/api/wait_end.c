/* wait_end.c - how waits end that nobody serves: the runtime stops, a deadline meets the signal, who stands in the way leaves, time goes far. */
#include "sync.h"

/* -- The runtime stops ------------------------------------------------------------------------------------------ */

static struct {
    weft_mutex mutex;
    weft_rwlock rwlock;
    weft_cond cond;
    weft_mutex cond_lock;
    weft_sem sem;
    weft_event event;
    weft_barrier barrier;
    weft_group group;
    weft_chan *full, *empty;
    weft_oneshot_receiver *answer;
    weft_subscriber *subscriber;
    weft_watch *watch;
    atomic_uint waiting, ended;
} all;

/* Long, but not for ever; under `sim` that would be over at once. */
static int64_t an_hour(void) { return fixture_on("sim") ? INT64_MAX : INT64_C(3600000000000); }

/* Every way to wait; what it returned. */
enum { WAYS = 16 };
static int wait_in_way(int way) {
    int value = 1;
    uint64_t version = 1;
    weft_case cases[] = {weft_case_recv(all.empty, &value), weft_case_send(all.full, &value),
                         weft_case_event(&all.event)};
    weft_interval interval;
    weft_deadline until = way % 2 ? WEFT_NEVER : weft_after(an_hour());
    switch (way) {
    case 0: return weft_mutex_lock(&all.mutex, until);
    case 1: return weft_rwlock_read(&all.rwlock, until);
    case 2: return weft_rwlock_write(&all.rwlock, until);
    case 3: {
        REQUIRE_EQ(weft_mutex_lock(&all.cond_lock, WEFT_NEVER), 0);
        int error = weft_cond_wait(&all.cond, &all.cond_lock, until);
        CHECK_EQ(weft_mutex_unlock(&all.cond_lock), 0);
        return error;
    }
    case 4: return weft_sem_acquire(&all.sem, 1, until);
    case 5: return weft_event_wait(&all.event, until);
    case 6: return weft_barrier_wait(&all.barrier, until);
    case 7: return weft_group_wait(&all.group, until);
    case 8: return weft_chan_send(all.full, &value, until);
    case 9: return weft_chan_recv(all.empty, &value, until);
    case 10: return weft_oneshot_recv(all.answer, &value, until);
    case 11: return weft_subscriber_recv(all.subscriber, &value, NULL, until);
    case 12: return weft_watch_wait(all.watch, &version, &value, until);
    case 13: return weft_select(cases, 3, until);
    case 14: return weft_sleep_until(until);
    default: weft_interval_init(&interval, an_hour()); return weft_interval_wait(&interval);
    }
}

static int until_cancelled(void *arg) {
    atomic_fetch_add(&all.waiting, 1);
    CHECK_EQ(wait_in_way((int)(intptr_t)arg), -ECANCELED);
    atomic_fetch_add(&all.ended, 1);
    return 0;
}

struct waiting_poll {
    int way;
    weft_wait wait;
    uint64_t version;
};

static weft_poll poll_in_way(weft_task *self, void *state) {
    struct waiting_poll *p = state;
    int value = 1, error = 0;
    switch (p->way) {
    case 0: error = weft_mutex_lock_poll(&all.mutex, self, &p->wait); break;
    case 1: error = weft_rwlock_read_poll(&all.rwlock, self, &p->wait); break;
    case 2: error = weft_rwlock_write_poll(&all.rwlock, self, &p->wait); break;
    case 3:
        if (!p->version++)
            REQUIRE_EQ(weft_mutex_lock(&all.cond_lock, WEFT_NOW), 0);
        error = weft_cond_wait_poll(&all.cond, &all.cond_lock, self, &p->wait);
        break;
    case 4: error = weft_sem_acquire_poll(&all.sem, 1, self, &p->wait); break;
    case 5: error = weft_event_wait_poll(&all.event, self, &p->wait); break;
    case 6: error = weft_barrier_wait_poll(&all.barrier, self, &p->wait); break;
    case 7: error = weft_group_wait_poll(&all.group, self, &p->wait); break;
    case 8: error = weft_chan_send_poll(all.full, self, &p->wait, &value); break;
    case 9: error = weft_chan_recv_poll(all.empty, self, &p->wait, &value); break;
    case 10: error = weft_oneshot_recv_poll(all.answer, self, &p->wait, &value); break;
    case 11: error = weft_subscriber_recv_poll(all.subscriber, self, &p->wait, &value, NULL); break;
    case 12: p->version = 1, error = weft_watch_wait_poll(all.watch, self, &p->wait, &p->version, &value); break;
    case 13: /* there is no select in a poll */
    case 14: error = weft_sleep_poll(self, &p->wait, weft_after(an_hour())); break;
    default: {
        weft_interval interval;
        weft_interval_init(&interval, an_hour());
        error = weft_interval_poll(&interval, self, &p->wait);
    }
    }
    CHECK_EQ(error, -EAGAIN);
    atomic_fetch_add(&all.waiting, 1);
    return WEFT_PENDING;
}

static void drop_in_way(void *state) {
    weft_wait_end(&((struct waiting_poll *)state)->wait);
    atomic_fetch_add(&all.ended, 1);
}

static void stop_all(bool polls) {
    weft_oneshot_sender *sender = NULL;
    weft_broadcast *broadcast = NULL;
    int value = 0, got;
    memset(&all, 0, sizeof all);
    REQUIRE_EQ(weft_barrier_init(&all.barrier, 2), 0);
    REQUIRE_EQ(weft_chan_create(sizeof(int), 1, &all.full) | weft_chan_create(sizeof(int), 0, &all.empty), 0);
    REQUIRE_EQ(weft_oneshot_create(sizeof(int), &sender, &all.answer), 0);
    REQUIRE_EQ(weft_broadcast_create(sizeof(int), 1, &broadcast) | weft_subscribe(broadcast, &all.subscriber), 0);
    REQUIRE_EQ(weft_watch_create(sizeof(int), &value, &all.watch), 0);
    REQUIRE_EQ(weft_mutex_lock(&all.mutex, WEFT_NOW) | weft_rwlock_write(&all.rwlock, WEFT_NOW), 0);
    REQUIRE_EQ(weft_group_add(&all.group, 1) | weft_chan_send(all.full, &value, WEFT_NOW), 0);
    weft_runtime *rt = fixture_begin_patient();
    for (intptr_t way = 0; way < WAYS; way++) {
        struct waiting_poll state = {.way = (int)way};
        weft_spec spec = WEFT_SPEC_INIT;
        spec.poll = poll_in_way;
        spec.drop = drop_in_way;
        spec.state = &state;
        spec.state_size = sizeof state;
        REQUIRE_EQ(polls ? weft_spawn(rt, &spec, NULL) : weft_fiber_go(rt, until_cancelled, (void *)way, NULL), 0);
    }
    REQUIRE_EVENTUALLY(atomic_load(&all.waiting) >= WAYS);
    CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
    CHECK_EQ(atomic_load(&all.ended), WAYS);
    harness_on_hang(NULL, NULL);
    CHECK_EQ(weft_runtime_destroy(rt), 0);
    /* Nobody waits any more, and nothing was taken. */
    CHECK_EQ(weft_mutex_unlock(&all.mutex) | weft_rwlock_write_unlock(&all.rwlock) | weft_group_done(&all.group), 0);
    CHECK_EQ(weft_mutex_destroy(&all.mutex) | weft_rwlock_destroy(&all.rwlock) | weft_cond_destroy(&all.cond), 0);
    CHECK_EQ(weft_mutex_destroy(&all.cond_lock) | weft_sem_destroy(&all.sem) | weft_event_destroy(&all.event), 0);
    CHECK_EQ(weft_barrier_destroy(&all.barrier) | weft_group_destroy(&all.group), 0);
    CHECK_EQ(weft_chan_recv(all.full, &got, WEFT_NOW), 0);
    CHECK_EQ(weft_chan_length(all.full), 0);
    CHECK_EQ(weft_chan_destroy(all.full) | weft_chan_destroy(all.empty), 0);
    CHECK_EQ(weft_oneshot_send(sender, &value), 0);
    CHECK_EQ(weft_oneshot_recv(all.answer, &got, WEFT_NOW), 0);
    weft_oneshot_receiver_drop(all.answer);
    CHECK_EQ(weft_broadcast_send(broadcast, &value), 0);
    CHECK_EQ(weft_subscriber_recv(all.subscriber, &got, NULL, WEFT_NOW), 0);
    weft_unsubscribe(all.subscriber);
    weft_broadcast_drop(broadcast);
    weft_watch_drop(all.watch);
}

API_TEST(wait_end_by_stop, "R36", .workers = {1, 2}) {
    stop_all(false);
    stop_all(true);
}

/* -- Who leaves --------------------------------------------------------------------------------------------------- */

/* A writer that gives up lets in the readers who came behind it. */
static int give_up_writing(void *arg) {
    CHECK_EQ(weft_rwlock_write(arg, WEFT_NEVER), -ECANCELED);
    return 0;
}
static int read_once(void *arg) {
    int error = weft_rwlock_read(arg, WEFT_NEVER);
    return error ? error : weft_rwlock_read_unlock(arg);
}
/* One who wants all that there is, and more than there is now, lets those through who want little. */
static int give_up_many(void *arg) {
    CHECK_EQ(weft_sem_acquire(arg, UINT32_MAX, WEFT_NEVER), -ECANCELED);
    return 0;
}
static int acquire_once(void *arg) { return weft_sem_acquire(arg, 1, WEFT_NEVER); }

static int leaving(void *arg) {
    bool fifo = arg;
    weft_rwlock rwlock;
    weft_sem sem;
    REQUIRE_EQ(weft_rwlock_init_with(&rwlock, fifo ? WEFT_RWLOCK_FIFO : 0), 0);
    REQUIRE_EQ(weft_sem_init_with(&sem, UINT32_MAX - 1, fifo ? WEFT_SEM_FIFO : 0), 0);
    REQUIRE_EQ(weft_rwlock_read(&rwlock, WEFT_NEVER), 0);
    weft_task *writer = go_fiber(give_up_writing, &rwlock), *many = go_fiber(give_up_many, &sem), *small[8];
    UNTIL(waiting(&rwlock.room) == 1 && waiting(&sem.room) == 1);
    CHECK_EQ(weft_rwlock_read(&rwlock, WEFT_NOW), -ETIMEDOUT); /* behind the writer */
    CHECK_EQ(weft_sem_acquire(&sem, 1, WEFT_NOW), -ETIMEDOUT);
    for (int i = 0; i < 8; i++)
        small[i] = i % 2 ? go_fiber(read_once, &rwlock) : go_fiber(acquire_once, &sem);
    UNTIL(waiting(&rwlock.room) == 5 && waiting(&sem.room) == 5);
    CHECK_EQ(weft_sem_release(&sem, 2), -EOVERFLOW);
    weft_task_cancel(writer);
    weft_task_cancel(many);
    CHECK_EQ(finish(writer), 0);
    CHECK_EQ(finish(many), 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(finish(small[i]), 0);
    CHECK_EQ(weft_sem_permits(&sem), UINT32_MAX - 5);
    CHECK_EQ(weft_sem_release(&sem, 5), 0);
    CHECK_EQ(weft_sem_acquire(&sem, UINT32_MAX, WEFT_NOW), 0);
    CHECK_EQ(weft_rwlock_read_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_destroy(&rwlock) | weft_sem_destroy(&sem), 0);
    return 0;
}

API_TEST(wait_end_leaving, "B52", .workers = {1, 2}) {
    in_fiber(leaving, NULL);
    in_fiber(leaving, "fifo");
}

/* -- A deadline meets the signal ------------------------------------------------------------------------------------ */

/* Items are signalled one by one to those who wait with deadlines that are mostly too soon.  Who takes a signal away without an item
 * would leave an item that nobody is told of. */
static struct {
    weft_mutex lock;
    weft_cond cond;
    unsigned items, taken, made;
} store;

enum { ITEMS = 100, TAKERS = 6 };

static int take_items(void *arg) {
    uint64_t random = harness_seed() + (uintptr_t)arg;
    bool patient = !arg;
    REQUIRE_EQ(weft_mutex_lock(&store.lock, WEFT_NEVER), 0);
    while (store.taken < ITEMS) {
        while (store.items == 0 && store.taken < ITEMS) {
            weft_deadline until =
                patient ? WEFT_NEVER : weft_after(50000 + (int64_t)(harness_random(&random) % 300000));
            int error = weft_cond_wait(&store.cond, &store.lock, until);
            REQUIRE(error == 0 || (error == -ETIMEDOUT && !patient));
            REQUIRE(weft_mutex_is_mine(&store.lock));
            if (error)
                break;
        }
        if (store.items) {
            store.items--;
            if (++store.taken == ITEMS)
                weft_cond_broadcast(&store.cond);
        }
    }
    return weft_mutex_unlock(&store.lock);
}

static int make_items(void *arg) {
    (void)arg;
    memset(&store, 0, sizeof store);
    weft_task *tasks[TAKERS];
    for (intptr_t i = 0; i < TAKERS; i++)
        tasks[i] = go_fiber(take_items, (void *)i);
    for (int i = 0; i < ITEMS; i++) {
        REQUIRE_EQ(weft_mutex_lock(&store.lock, WEFT_NEVER), 0);
        store.items++;
        REQUIRE_EQ(weft_mutex_unlock(&store.lock), 0);
        REQUIRE_EQ(weft_cond_signal(&store.cond), 0);
        if (i % 8 == 0)
            weft_sleep(100000);
        else if (i % 8 == 4)
            weft_yield();
    }
    for (int i = 0; i < TAKERS; i++)
        CHECK_EQ(finish(tasks[i]), 0);
    CHECK_EQ(store.taken, ITEMS);
    CHECK_EQ(weft_cond_destroy(&store.cond) | weft_mutex_destroy(&store.lock), 0);
    return 0;
}

API_TEST(wait_end_signal_or_deadline, "B52", .workers = {1, 2}) { in_fiber(make_items, NULL); }

/* -- Far -------------------------------------------------------------------------------------------------------------- */

#define MS INT64_C(1000000)

/* At every edge of the wheel's levels, and beyond its end: to the tick, in order, however far. */
static int sleep_exactly(void *arg) {
    weft_deadline until = *(weft_deadline *)arg;
    CHECK_EQ(weft_sleep_until(until), 0);
    int64_t late = weft_now() - until;
    CHECK(late >= 0 && late < 2 * MS); /* a tick, and the polls of others */
    return 0;
}

static int sleep_for_ever(void *arg) {
    (void)arg;
    return weft_sleep_until(WEFT_NEVER);
}

static int far_sleeps(void *arg) {
    static weft_deadline until[128];
    weft_task *tasks[128];
    unsigned count = 0;
    (void)arg;
    for (int level = 1; level <= 7; level++)
        for (int more = -1; more <= 1; more++)
            for (int edge = 1; edge <= 3; edge += 2) {
                int64_t ticks = ((INT64_C(1) << 6 * level) * edge + more);
                if (ticks < INT64_MAX / MS / 2)
                    until[count++] = weft_after(ticks * MS + (level % 2 ? 0 : 1));
            }
    until[count++] = INT64_MAX - 2 * MS; /* not never: 292 years */
    for (unsigned i = 0; i < count; i++)
        tasks[i] = go_fiber(sleep_exactly, &until[i]);
    weft_task *never = go_fiber(sleep_for_ever, NULL);
    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(finish(tasks[i]), 0);
    CHECK_GE(weft_now(), INT64_MAX - 2 * MS);
    CHECK_EQ(weft_after(3 * MS), WEFT_NEVER);
    CHECK(!weft_task_is_done(never));
    weft_task_cancel(never);
    CHECK_EQ(finish(never), -ECANCELED);
    return 0;
}

API_TEST(wait_end_far, "J7", .sched = "sim") { in_fiber(far_sleeps, NULL); }

/* Cancelled in any order, and some when they ring: each ends once, and no alarm is left behind in memory that has gone. */
static int sleeper(void *arg) {
    int error = weft_sleep((int64_t)(intptr_t)arg);
    CHECK(error == 0 || error == -ECANCELED);
    return 0;
}

static int cancel_sleepers(void *arg) {
    enum { SLEEPERS = 2000 };
    static weft_task *tasks[SLEEPERS];
    uint64_t random = harness_seed();
    (void)arg;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SLEEPERS; i++) {
            int64_t ns = (int64_t)(harness_random(&random) % (i % 3 ? 20 * MS : 3600000 * MS));
            tasks[i] = go_fiber(sleeper, (void *)(i % 3 ? ns : ns + 100000 * MS));
        }
        weft_yield();
        for (int i = SLEEPERS - 1; i > 0; i--) {
            int j = (int)(harness_random(&random) % (uint64_t)(i + 1));
            weft_task *swap = tasks[i];
            tasks[i] = tasks[j];
            tasks[j] = swap;
        }
        for (int i = 0; i < SLEEPERS; i++) {
            weft_task_cancel(tasks[i]);
            if (i % 100 == 0)
                weft_sleep(MS / 4);
        }
        for (int i = 0; i < SLEEPERS; i++) {
            int status = finish(tasks[i]);
            CHECK(status == 0 || status == -ECANCELED);
        }
    }
    return 0;
}

API_TEST(wait_end_sleepers, "R15", .workers = {1, 2, 4}) { in_fiber(cancel_sleepers, NULL); }
