/* sync_cond.c - the condition: signals are not lost, the mutex always comes back. */
#include "sync.h"

static weft_mutex lock;
static weft_cond filled;
static int items, taken; /* plain: the mutex orders them */

static void reset(void) {
    lock = (weft_mutex)WEFT_MUTEX_INIT;
    filled = (weft_cond)WEFT_COND_INIT;
    items = taken = 0;
}

/* -- Producers and consumers: each item is taken once, one signal each. */

static int consume(void *count) {
    for (int i = 0; i < (int)(intptr_t)count; i++) {
        REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
        while (items == 0)
            REQUIRE_EQ(weft_cond_wait(&filled, &lock, WEFT_NEVER), 0);
        items--;
        taken++;
        REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
    }
    return 0;
}

static int produce(void *count) {
    for (int i = 0; i < (int)(intptr_t)count; i++) {
        REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
        items++;
        if (i % 2)
            weft_cond_signal(&filled);
        REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
        if (!(i % 2))
            weft_cond_signal(&filled);
        if (i % 5 == 0)
            weft_yield();
    }
    return 0;
}

static int none_lost(void *arg) {
    (void)arg;
    weft_task *task[40];
    int times = fixture_is_slow() ? 20 : 100;
    reset();
    for (int i = 0; i < 40; i++)
        task[i] = go_fiber(i < 20 ? consume : produce, (void *)(intptr_t)times);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(finish(task[i]), 0);
    CHECK_EQ(taken, 20 * times);
    CHECK_EQ(items, 0);
    CHECK_EQ(weft_cond_destroy(&filled), 0);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(cond_lost_wake, "B52", .workers = {1, 2, 4}) { in_fiber(none_lost, NULL); }

/* -- Errors, deadlines, cancels: the mutex is ours afterwards. */

static int wait_it(void *until) {
    REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    int error = weft_cond_wait(&filled, &lock, (weft_deadline)(intptr_t)until);
    CHECK(weft_mutex_is_mine(&lock));
    REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
    return error;
}
#define NEVER ((void *)(intptr_t)WEFT_NEVER)

static int errors(void *arg) {
    (void)arg;
    weft_mutex other = WEFT_MUTEX_INIT;
    reset();
    CHECK_EQ(weft_cond_wait(&filled, &lock, WEFT_NEVER), -EPERM);
    CHECK_EQ(weft_cond_signal(&filled), 0);
    CHECK_EQ(weft_cond_broadcast(&filled), 0);
    CHECK_EQ(finish(go_fiber(wait_it, (void *)(intptr_t)WEFT_NOW)), -ETIMEDOUT);
    CHECK_EQ(finish(go_fiber(wait_it, (void *)(intptr_t)weft_after(1000000))), -ETIMEDOUT);
    weft_task *task = go_fiber(wait_it, NEVER);
    UNTIL(waiting(&filled.room) == 1);
    REQUIRE_EQ(weft_mutex_lock(&other, WEFT_NEVER), 0);
    CHECK_EQ(weft_cond_wait(&filled, &other, WEFT_NEVER), -EBUSY);
    CHECK(weft_mutex_is_mine(&other));
    CHECK_EQ(weft_cond_destroy(&filled), -EBUSY);
    /* Cancelled while we have the mutex: it waits until it can have it back. */
    REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    weft_task_cancel(task);
    UNTIL(waiting(&lock.room) == 1);
    CHECK_EQ(weft_mutex_unlock(&lock), 0);
    CHECK_EQ(finish(task), -ECANCELED);
    CHECK_EQ(weft_cond_destroy(&filled), 0);
    CHECK_EQ(weft_cond_destroy(&filled), -EINVAL);
    CHECK_EQ(weft_cond_signal(&filled), -EINVAL);
    CHECK_EQ(weft_cond_broadcast(&filled), -EINVAL);
    CHECK_EQ(weft_cond_wait(&filled, &other, WEFT_NEVER), -EINVAL);
    return 0;
}

API_TEST(cond_errors, "B52", .workers = {1, 2, 4}) { in_fiber(errors, NULL); }

/* -- Signal wakes the one who waits longest; broadcast all; a cancelled waiter takes no signal with it. */

static int served[3];
static atomic_int place;

static int note_order(void *index) {
    int error = wait_it(NEVER);
    if (!error)
        served[(intptr_t)index] = atomic_fetch_add(&place, 1) + 1;
    return error;
}

static int signals(void *arg) {
    (void)arg;
    weft_task *task[3];
    reset();
    for (int i = 0; i < 3; i++) {
        task[i] = go_fiber(note_order, (void *)(intptr_t)i);
        UNTIL(waiting(&filled.room) == (unsigned)i + 1);
    }
    weft_task_cancel(task[0]);
    CHECK_EQ(finish(task[0]), -ECANCELED);
    CHECK_EQ(weft_cond_signal(&filled), 0);
    CHECK_EQ(finish(task[1]), 0);
    CHECK_EQ(served[1], 1);
    CHECK_EQ(waiting(&filled.room), 1);
    CHECK_EQ(weft_cond_signal(&filled), 0);
    CHECK_EQ(finish(task[2]), 0);
    CHECK_EQ(weft_cond_signal(&filled), 0);

    static weft_task *many[MANY];
    for (int i = 0; i < MANY; i++)
        many[i] = go_fiber(wait_it, NEVER);
    UNTIL(waiting(&filled.room) == MANY);
    CHECK_EQ(weft_cond_broadcast(&filled), 0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(finish(many[i]), 0);
    CHECK_EQ(weft_cond_destroy(&filled), 0);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(cond_signals, "B52", .workers = {1, 2, 4}) { in_fiber(signals, NULL); }

/* -- Poll tasks wait for items too; cancelled ones pass their signal on. */

struct taker {
    weft_wait wait;
    int phase; /* 0 lock, 1 look, 2 wait */
};

static weft_poll take_one(weft_task *self, void *state) {
    struct taker *t = state;
    for (;;) {
        int error = t->phase == 0   ? weft_mutex_lock_poll(&lock, self, &t->wait)
                    : t->phase == 2 ? weft_cond_wait_poll(&filled, &lock, self, &t->wait)
                                    : 0;
        if (error == -EAGAIN)
            return WEFT_PENDING;
        REQUIRE_EQ(error, 0);
        CHECK(weft_mutex_is_mine(&lock));
        if (items == 0) {
            t->phase = 2;
            continue;
        }
        items--;
        taken++;
        t->phase = 3;
        CHECK_EQ(weft_mutex_unlock(&lock), 0);
        return weft_done(self, 0, NULL);
    }
}

static void drop_taker(void *state) { weft_wait_end(&((struct taker *)state)->wait); }

static int polls(void *arg) {
    (void)arg;
    static weft_task *task[60];
    struct taker fresh = {{{0}}, 0};
    uint64_t random = harness_seed();
    reset();
    for (int i = 0; i < 60; i++)
        task[i] = go_poll(take_one, &fresh, sizeof fresh, drop_taker);
    UNTIL(waiting(&filled.room) == 60);
    /* Thirty items for sixty tasks, of which up to thirty are cancelled at any moment: all items are taken. */
    weft_task *producer = go_fiber(produce, (void *)30);
    for (int i = 0; i < 30; i++) {
        weft_task_cancel(task[harness_random(&random) % 30]);
        weft_yield();
    }
    CHECK_EQ(finish(producer), 0);
    UNTIL(weft_mutex_lock(&lock, WEFT_NEVER) == 0 && (taken == 30 || weft_mutex_unlock(&lock) != 0));
    CHECK_EQ(items, 0);
    CHECK_EQ(weft_mutex_unlock(&lock), 0);
    for (int i = 0; i < 60; i++)
        weft_task_cancel(task[i]);
    for (int i = 0; i < 60; i++) {
        int status = finish(task[i]);
        CHECK(status == 0 || status == -ECANCELED);
    }
    CHECK_EQ(taken, 30);
    CHECK_EQ(weft_cond_destroy(&filled), 0);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(cond_polls, "B52", .workers = {1, 2, 4}) { in_fiber(polls, NULL); }

/* -- Threads consume, fibers produce. */

static void thread(unsigned index, void *arg) {
    (void)index, (void)arg;
    for (int i = 0; i < 40; i++) {
        REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
        while (items == 0) {
            int error = weft_cond_wait(&filled, &lock, i % 4 ? WEFT_NEVER : weft_after(30000));
            REQUIRE(error == 0 || error == -ETIMEDOUT);
        }
        items--;
        REQUIRE_EQ(weft_mutex_unlock(&lock), 0);
    }
}

API_TEST(cond_threads, "B52", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[2];
    reset();
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(weft_fiber_go(rt, produce, (void *)60, &task[i]), 0);
    harness_threads(3, thread, NULL);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(items, 0);
    CHECK_EQ(weft_cond_destroy(&filled), 0);
    fixture_end(rt);
}

/* -- After a wait a fiber can be cancelled as before it ---------------------------------------------------------- */

static weft_event never_set;

static int wait_twice(void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_mutex_lock(&lock, WEFT_NEVER), 0);
    CHECK_EQ(weft_cond_wait(&filled, &lock, WEFT_NEVER),
             0); /* shielded while it takes the mutex again, and no longer */
    CHECK_EQ(weft_mutex_unlock(&lock), 0);
    CHECK_EQ(weft_event_wait(&never_set, fixture_soon()), -ECANCELED);
    return 0;
}

static int cancelled_after_wait(void *arg) {
    (void)arg;
    weft_mutex_init(&lock, 0);
    weft_cond_init(&filled);
    weft_event_init(&never_set);
    weft_task *task = go_fiber(wait_twice, NULL);
    UNTIL(waiting(&filled.room) == 1);
    CHECK_EQ(weft_cond_signal(&filled), 0);
    UNTIL(waiting(&never_set.room) == 1);
    weft_task_cancel(task);
    CHECK_EQ(finish(task), 0);
    CHECK_EQ(weft_cond_destroy(&filled), 0);
    return 0;
}

API_TEST(cond_cancelled_after_wait, "B52", .workers = {1, 2}) { in_fiber(cancelled_after_wait, NULL); }

/* A broadcast is for those who came before it, which they know by a number, and that wraps. */
static int wait_it_poll(weft_task *self, weft_wait *wait, void *arg) {
    bool *locked = arg;
    int error = *locked ? 0 : weft_mutex_lock_poll(&lock, self, wait);
    if (error)
        return error;
    *locked = true;
    error = weft_cond_wait_poll(&filled, &lock, self, wait);
    if (!error)
        error = weft_mutex_unlock(&lock);
    return error;
}

static int broadcasts_wrap(void *arg) {
    (void)arg;
    weft_mutex_init(&lock, 0);
    weft_cond_init(&filled);
    filled.turn = UINT64_MAX - 1;
    for (int round = 0; round < 4; round++) {
        bool locked = false;
        weft_task *task[2] = {go_fiber(wait_it, NEVER), go_poller(wait_it_poll, &locked)};
        UNTIL(waiting(&filled.room) == 2);
        CHECK_EQ(weft_cond_broadcast(&filled), 0);
        CHECK_EQ(waiting(&filled.room), 0);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(finish(task[i]), 0);
    }
    CHECK_EQ(weft_cond_destroy(&filled), 0);
    CHECK_EQ(weft_mutex_destroy(&lock), 0);
    return 0;
}

API_TEST(cond_broadcasts_wrap, "B52", .workers = {1, 2}) { in_fiber(broadcasts_wrap, NULL); }

/* -- The end of a shield --------------------------------------------------------------------------------------- */

struct shielded {
    weft_mutex lock;
    weft_cond cond;
    weft_event left;
};

/* Cancelled, and its shield over: the wait ends, but not without the mutex. */
static int shielded_wait(void *arg) {
    struct shielded *s = arg;
    REQUIRE_EQ(weft_mutex_lock(&s->lock, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_shield_until(weft_task_self(), weft_after(1000000)), 0);
    CHECK_EQ(weft_cond_wait(&s->cond, &s->lock, WEFT_NEVER), -ECANCELED);
    REQUIRE(weft_mutex_is_mine(&s->lock));
    CHECK_EQ(weft_mutex_unlock(&s->lock), 0);
    CHECK_EQ(weft_event_wait(&s->left, WEFT_NEVER), -ECANCELED); /* as every other wait */
    CHECK_EQ(weft_unshield(weft_task_self()), 0);
    return 0;
}

static int shield_is_over(void *arg) {
    (void)arg;
    static struct shielded s;
    weft_task *task = go_fiber(shielded_wait, &s);
    UNTIL(waiting(&s.cond.room) == 1);
    REQUIRE_EQ(weft_mutex_lock(&s.lock, WEFT_NEVER), 0);
    weft_task_cancel(task);
    UNTIL(waiting(&s.lock.room) == 1); /* it has left the condition, and wants the mutex */
    weft_sleep(3000000);
    CHECK(!weft_task_is_done(task));
    CHECK_EQ(weft_mutex_unlock(&s.lock), 0);
    CHECK_EQ(finish(task), 0);
    return 0;
}

API_TEST(cond_after_a_shield, "B52", .workers = {1, 2}) { in_fiber(shield_is_over, NULL); }

static void not_again(void *arg) { REQUIRE(!arg); }

/* Looking once at what was destroyed says so, as waiting does. */
TEST(sync_destroyed_now, "B52") {
    weft_mutex mine = WEFT_MUTEX_INIT, mutex = WEFT_MUTEX_INIT;
    weft_cond cond = WEFT_COND_INIT;
    weft_once once = WEFT_ONCE_INIT;
    weft_barrier barrier = WEFT_BARRIER_INIT(2);
    weft_group group = WEFT_GROUP_INIT;
    weft_sem sem = WEFT_SEM_INIT(1);
    weft_rwlock rwlock = WEFT_RWLOCK_INIT;
    weft_event event = WEFT_EVENT_INIT;
    REQUIRE_EQ(weft_mutex_lock(&mine, WEFT_NOW), 0);
    CHECK_EQ(weft_cond_wait(&cond, &mine, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_mutex_destroy(&mutex) | weft_cond_destroy(&cond) | weft_once_destroy(&once), 0);
    CHECK_EQ(weft_barrier_destroy(&barrier) | weft_group_destroy(&group) | weft_sem_destroy(&sem), 0);
    CHECK_EQ(weft_rwlock_destroy(&rwlock) | weft_event_destroy(&event), 0);
    for (int i = 0; i < 2; i++) {
        weft_deadline until = i ? WEFT_NEVER : WEFT_NOW;
        CHECK_EQ(weft_mutex_lock(&mutex, until), -EINVAL);
        CHECK_EQ(weft_cond_wait(&cond, &mine, until), -EINVAL);
        CHECK_EQ(weft_once_run(&once, not_again, &once, until), -EINVAL);
        CHECK_EQ(weft_barrier_wait(&barrier, until), -EINVAL);
        CHECK_EQ(weft_group_wait(&group, until), -EINVAL);
        CHECK_EQ(weft_sem_acquire(&sem, 0, until), -EINVAL);
        CHECK_EQ(weft_rwlock_read(&rwlock, until), -EINVAL);
        CHECK_EQ(weft_rwlock_write(&rwlock, until), -EINVAL);
        CHECK_EQ(weft_event_wait(&event, until), -EINVAL);
    }
    CHECK_EQ(weft_mutex_unlock(&mine), 0);
}
