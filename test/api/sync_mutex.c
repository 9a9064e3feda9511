/* sync_mutex.c - the mutex: exclusion, order, errors, deadlines, cancels, threads and poll tasks. */
#include "sync.h"

static weft_mutex lock;
static int inside, total; /* plain: the mutex orders them */
static atomic_int running;

static void section(void) {
    REQUIRE_EQ(inside++, 0);
    if (++total % 7 == 0)
        weft_yield();
    REQUIRE_EQ(--inside, 0);
}

/* -- Exclusion */

static int lock_often(void *times) {
    for (int i = 0; i < (int)(intptr_t)times; i++) {
        REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
        section();
        REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
        if (i % 5 == 0)
            weft_yield();
    }
    return 0;
}

static int many_fibers(void *flags) {
    weft_task *task[100];
    int times = fixture_is_slow() ? 20 : 200;
    REQUIRE_EQ(weft_mutex_init(&lock, (unsigned)(uintptr_t)flags), 0);
    total = 0;
    for (int i = 0; i < 100; i++)
        task[i] = go_fiber(lock_often, (void *)(intptr_t)times);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(finish(task[i]), 0);
    CHECK_EQ(total, 100 * times);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(mutex_excludes, "B52 R31", .workers = {1, 2, 4}) {
    in_fiber(many_fibers, (void *)(uintptr_t)0);
    in_fiber(many_fibers, (void *)(uintptr_t)WEFT_MUTEX_FIFO);
}

/* -- Errors: nothing changes, nothing hangs. */

static int unlock_it(void *mutex) { return weft_mutex_unlock(mutex); }
static int try_it(void *mutex) { return weft_mutex_lock(mutex, WEFT_NOW); }

static weft_poll lock_in_poll(weft_task *self, void *mutex) {
    CHECK_EQ(weft_mutex_lock(mutex, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_mutex_unlock(mutex), -EPERM);
    return weft_done(self, weft_mutex_lock(mutex, WEFT_NEVER), NULL);
}

static int errors(void *arg) {
    (void)arg;
    weft_mutex mutex = WEFT_MUTEX_INIT;
    CHECK_EQ(weft_mutex_init(&mutex, 2), -EINVAL);
    CHECK_EQ(weft_mutex_unlock(&mutex), -EPERM);
    CHECK(!weft_mutex_is_mine(&mutex));
    REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NEVER), 0);
    CHECK(weft_mutex_is_mine(&mutex));
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_NOW), -EDEADLK);
    CHECK_EQ(finish(go_fiber(unlock_it, &mutex)), -EPERM);
    CHECK_EQ(finish(go_fiber(try_it, &mutex)), -ETIMEDOUT);
    weft_task *task;
    REQUIRE_EQ(weft_go(NULL, lock_in_poll, &mutex, &task), 0);
    CHECK_EQ(finish(task), -EINVAL);
    CHECK_EQ(weft_mutex_destroy(&mutex), -EBUSY);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    CHECK_EQ(weft_mutex_destroy(&mutex), 0);
    CHECK_EQ(weft_mutex_destroy(&mutex), -EINVAL);
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_mutex_unlock(&mutex), -EPERM);
    return 0;
}

API_TEST(mutex_errors, "R31", .workers = {1, 2}) { in_fiber(errors, NULL); }

/* -- Order: with hand-off, as they came, and nobody gets in between. */

static int order[11], place;
static atomic_bool tried; /* to get in between: until then the first one keeps it */

static int take_turn(void *number) {
    REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    order[place++] = (int)(intptr_t)number;
    UNTIL(atomic_load(&tried));
    weft_yield();
    REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
    return 0;
}

/* Ten wait in order, one of them a poll task; then let them go. */
static void queue_ten(weft_task **task) {
    place = 0;
    atomic_store(&tried, false);
    for (int i = 0; i < 10; i++) {
        task[i] = go_fiber(take_turn, (void *)(intptr_t)i);
        UNTIL(waiting(&lock.room) == (unsigned)i + 1);
    }
}

static int in_order(void *arg) {
    (void)arg;
    weft_task *task[10];
    lock = (weft_mutex)WEFT_MUTEX_FIFO_INIT;
    REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    queue_ten(task);
    REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
    CHECK_EQ(weft_mutex_lock(&lock, WEFT_NOW), -ETIMEDOUT); /* it is the first one's already */
    atomic_store(&tried, true);
    take_turn((void *)10);
    for (int i = 0; i < 10; i++)
        finish(task[i]);
    for (int i = 0; i < 11; i++)
        CHECK_EQ(order[i], i);
    return 0;
}

API_TEST(mutex_fifo_order, "R31", .workers = {1, 2, 4}) { in_fiber(in_order, NULL); }

/* -- Without it: who waits a millisecond is handed it, in order. */

static int patience(void *arg) {
    (void)arg;
    weft_task *task[10];
    lock = (weft_mutex)WEFT_MUTEX_INIT;
    REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    queue_ten(task);
    if (fixture_on("sim")) { /* virtual time: no millisecond has passed, so who runs gets in between */
        REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
        REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NOW), 0);
    }
    weft_sleep(2000000);
    UNTIL(waiting(&lock.room) == 10);
    REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
    CHECK_EQ(weft_mutex_lock(&lock, WEFT_NOW), -ETIMEDOUT);
    atomic_store(&tried, true);
    for (int i = 0; i < 10; i++)
        finish(task[i]);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(order[i], i);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(mutex_hand_off, "R31", .workers = {1, 2, 4}) { in_fiber(patience, NULL); }

/* -- Deadlines and cancels */

static int wait_a_little(void *arg) {
    (void)arg;
    atomic_fetch_add(&running, 1);
    return weft_mutex_lock(&lock, weft_after(1000000));
}

static int wait_for_ever(void *arg) {
    (void)arg;
    int error = weft_mutex_lock(&lock, WEFT_NEVER);
    if (error == 0)
        weft_mutex_unlock(&lock);
    return error;
}

static int give_up(void *arg) {
    (void)arg;
    lock = (weft_mutex)WEFT_MUTEX_INIT;
    REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    CHECK_EQ(finish(go_fiber(wait_a_little, NULL)), -ETIMEDOUT);
    CHECK_EQ(waiting(&lock.room), 0);
    weft_task *first = go_fiber(wait_for_ever, NULL), *second;
    UNTIL(waiting(&lock.room) == 1);
    second = go_fiber(wait_for_ever, NULL);
    UNTIL(waiting(&lock.room) == 2);
    weft_task_cancel(first);
    CHECK_EQ(finish(first), -ECANCELED);
    CHECK_EQ(waiting(&lock.room), 1);
    CHECK_EQ(weft_mutex_destroy(&lock), -EBUSY);
    REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
    CHECK_EQ(finish(second), 0);
    /* A cancelled fiber has what it need not wait for. */
    weft_task_cancel(weft_task_self());
    CHECK_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    CHECK_EQ(weft_mutex_unlock(&lock), 0);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(mutex_gives_up, "R31", .workers = {1, 2, 4}) { in_fiber(give_up, NULL); }

static int thousand(void *arg) {
    (void)arg;
    static weft_task *task[MANY];
    lock = (weft_mutex)WEFT_MUTEX_INIT;
    REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    for (int i = 0; i < MANY; i++)
        task[i] = go_fiber(wait_for_ever, NULL);
    UNTIL(waiting(&lock.room) == MANY);
    CHECK_EQ(weft_mutex_destroy(&lock), -EBUSY);
    cancel_half(task);
    CHECK_EQ(weft_mutex_unlock(&lock), 0);
    finish_half(task);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(mutex_thousand, "R31", .workers = {1, 2}) { in_fiber(thousand, NULL); }

/* -- A storm: deadlines that pass and cancels that strike at any moment.  In the end it is free, and nobody was inside with another. */

static int stormy(void *seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed;
    for (int i = 0; i < 50; i++) {
        int64_t wait = (int64_t)(harness_random(&random) % 4) * 20000;
        int error = weft_mutex_lock(&lock, wait == 60000 ? WEFT_NEVER : weft_after(wait));
        if (error == -ECANCELED)
            return 0;
        if (error == 0) {
            section();
            REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
        } else {
            REQUIRE_EQ(error, -ETIMEDOUT);
        }
    }
    return 0;
}

static int poll_lock(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    int error = weft_mutex_lock_poll(&lock, self, wait);
    if (error == 0) {
        REQUIRE_EQ(inside++, 0);
        total++;
        REQUIRE_EQ(--inside, 0);
        REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
    }
    return error;
}

static int storm(void *flags) {
    static weft_task *task[STORM];
    uint64_t random = harness_seed();
    REQUIRE_EQ(weft_mutex_init(&lock, (unsigned)(uintptr_t)flags), 0);
    for (int i = 0; i < STORM; i++)
        task[i] = i % 4 ? go_fiber(stormy, (void *)(uintptr_t)harness_random(&random)) : go_poller(poll_lock, NULL);
    cancel_any(task, &random);
    CHECK_EQ(inside, 0);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(mutex_storm, "B52 R31", .workers = {1, 2, 4}) {
    in_fiber(storm, (void *)(uintptr_t)0);
    in_fiber(storm, (void *)(uintptr_t)WEFT_MUTEX_FIFO);
}

/* -- Poll tasks: granted and not known yet, then cancelled; owner, then cancelled. */

struct owner {
    weft_wait wait;
    bool has;
};

static weft_poll own(weft_task *self, void *state) {
    struct owner *o = state;
    if (!o->has) {
        int error = weft_mutex_lock_poll(&lock, self, &o->wait);
        if (error == -EAGAIN)
            return WEFT_PENDING;
        REQUIRE_EQ(error, 0);
        CHECK(weft_mutex_is_mine(&lock));
        CHECK_EQ(weft_mutex_lock_poll(&lock, self, &o->wait), -EDEADLK);
        o->has = true;
        atomic_fetch_add(&running, 1);
    }
    return WEFT_PENDING;
}

static void own_drop(void *state) {
    struct owner *o = state;
    weft_wait_end(&o->wait);
    if (o->has)
        CHECK_EQ(weft_mutex_unlock(&lock), 0); /* the drop function is the task's */
}

static int poll_owners(void *flags) {
    struct owner fresh = {{{0}}, false};
    REQUIRE_EQ(weft_mutex_init(&lock, (unsigned)(uintptr_t)flags), 0);
    atomic_store(&running, 0);
    weft_task *a = go_poll(own, &fresh, sizeof fresh, own_drop);
    UNTIL(atomic_load(&running) == 1);
    weft_task *b = go_poll(own, &fresh, sizeof fresh, own_drop), *c;
    UNTIL(waiting(&lock.room) == 1);
    c = go_poll(own, &fresh, sizeof fresh, own_drop);
    UNTIL(waiting(&lock.room) == 2);
    weft_task_cancel(b); /* it waits */
    CHECK_EQ(finish(b), -ECANCELED);
    weft_task_cancel(a); /* it has it: c gets it */
    CHECK_EQ(finish(a), -ECANCELED);
    UNTIL(atomic_load(&running) == 2);
    weft_task_cancel(c);
    CHECK_EQ(finish(c), -ECANCELED);
    /* Handed over, and cancelled before it is polled: on one worker it cannot have been. */
    REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    b = go_poll(own, &fresh, sizeof fresh, own_drop);
    UNTIL(waiting(&lock.room) == 1);
    c = go_fiber(wait_for_ever, NULL);
    UNTIL(waiting(&lock.room) == 2);
    weft_sleep(2000000);
    REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
    weft_task_cancel(b);
    CHECK_EQ(finish(b), -ECANCELED);
    CHECK_EQ(finish(c), 0);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(mutex_polls, "R31", .workers = {1, 2, 4}) {
    in_fiber(poll_owners, (void *)(uintptr_t)0);
    in_fiber(poll_owners, (void *)(uintptr_t)WEFT_MUTEX_FIFO);
}

/* -- One room for two things is refused. */

static int two_in_one_room(weft_task *self, weft_wait *wait, void *arg) {
    weft_mutex *other = arg;
    int error = weft_mutex_lock_poll(&lock, self, wait);
    if (error != -EAGAIN)
        return error;
    CHECK_EQ(weft_mutex_lock_poll(other, self, wait), -EBUSY);
    weft_wait_end(wait);
    CHECK_EQ(weft_mutex_lock_poll(other, self, wait), 0);
    return weft_mutex_unlock(other);
}

static int rooms(void *arg) {
    (void)arg;
    weft_mutex other = WEFT_MUTEX_INIT;
    lock = (weft_mutex)WEFT_MUTEX_INIT;
    REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    CHECK_EQ(finish(go_poller(two_in_one_room, &other)), 0);
    CHECK_EQ(weft_mutex_unlock(&lock), 0);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(mutex_rooms, "R31", .workers = {1, 2}) { in_fiber(rooms, NULL); }

/* -- Plain threads, among themselves and with fibers. */

static void thread(unsigned index, void *rt) {
    (void)index;
    for (int i = 0; i < 200; i++) {
        int error = weft_mutex_lock(&lock, i % 3 ? WEFT_NEVER : weft_after(50000));
        if (error == -ETIMEDOUT)
            continue;
        REQUIRE_EQ(error, 0);
        CHECK_EQ(weft_mutex_lock(&lock, WEFT_NEVER), -EDEADLK);
        REQUIRE_EQ(inside++, 0);
        REQUIRE_EQ(--inside, 0);
        REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
        CHECK_EQ(weft_mutex_unlock(&lock), -EPERM);
    }
    (void)rt;
}

API_TEST(mutex_threads, "R31", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[8];
    for (unsigned flags = 0; flags < 2; flags++) {
        REQUIRE_EQ(weft_mutex_init(&lock, flags), 0);
        for (int i = 0; i < 8; i++)
            REQUIRE_EQ(weft_fiber_go(rt, lock_often, (void *)200, &task[i]), 0);
        harness_threads(3, thread, rt);
        for (int i = 0; i < 8; i++)
            CHECK_EQ(fixture_finish(task[i]).status, 0);
        CHECK_EQ(weft_mutex_destroy(&lock), 0);
    }
    fixture_end(rt);
}
