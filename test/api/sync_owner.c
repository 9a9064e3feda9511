/* sync_owner.c - a lock whose owner ended without unlocking it belongs to nobody else, although the owner's memory is used again. */
#include "sync.h"

#define STRANGERS 200 /* tasks or threads that may get the owner's memory */

static weft_mutex mutex;
static weft_rwlock rwlock;

static void lock_both(void) {
    REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NOW), 0);
    REQUIRE_EQ(weft_rwlock_write(&rwlock, WEFT_NOW), 0);
}

/* What everybody but the owner is told.  -EDEADLK would mean: it is yours already. */
static void check_not_mine(void) {
    REQUIRE(!weft_mutex_is_mine(&mutex));
    REQUIRE_EQ(weft_mutex_lock(&mutex, WEFT_NOW), -ETIMEDOUT);
    REQUIRE_EQ(weft_mutex_unlock(&mutex), -EPERM);
    REQUIRE_EQ(weft_rwlock_read(&rwlock, WEFT_NOW), -ETIMEDOUT);
    REQUIRE_EQ(weft_rwlock_write(&rwlock, WEFT_NOW), -ETIMEDOUT);
    REQUIRE_EQ(weft_rwlock_write_unlock(&rwlock), -EPERM);
}

static void make_locks(void) {
    mutex = (weft_mutex)WEFT_MUTEX_INIT;
    rwlock = (weft_rwlock)WEFT_RWLOCK_INIT;
}

/* -- Fibers */

static int own(void *arg) {
    (void)arg;
    lock_both();
    return 0;
}

static int own_after_others(void *arg) { /* counted through locks that were unlocked, and a condition's wait */
    weft_cond cond = WEFT_COND_INIT;
    weft_mutex other = WEFT_MUTEX_INIT;
    for (int i = 0; i < 300; i++) {
        REQUIRE_EQ(weft_mutex_lock(&other, WEFT_NEVER), 0);
        REQUIRE_EQ(weft_mutex_unlock(&other), 0);
        REQUIRE_EQ(weft_mutex_unlock(&other), -EPERM);
    }
    REQUIRE_EQ(weft_mutex_lock(&other, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_cond_wait(&cond, &other, weft_after(1)), -ETIMEDOUT);
    REQUIRE_EQ(weft_mutex_unlock(&other), 0);
    return own(arg);
}

static int be_stranger(void *arg) {
    (void)arg;
    check_not_mine();
    return 0;
}

static int strangers(void *arg) {
    (void)arg;
    check_not_mine(); /* as the first fiber of its runtime, too */
    for (int i = 0; i < STRANGERS; i++)
        REQUIRE_EQ(finish(go_fiber(be_stranger, NULL)), 0);
    return 0;
}

/* More locks than can be counted: 128 in all, or 300. */
static weft_mutex many[298];
static int own_many(void *count) {
    for (int i = 0; i < *(int *)count - 2; i++) {
        many[i] = (weft_mutex)WEFT_MUTEX_INIT;
        REQUIRE_EQ(weft_mutex_lock(&many[i], WEFT_NOW), 0);
    }
    return own(NULL);
}
static int fibers_with_many(void *count) {
    make_locks();
    REQUIRE_EQ(finish(go_fiber(own_many, count)), 0);
    return strangers(NULL);
}
API_TEST(owner_of_many_has_ended, "R31", .workers = {1}) {
    int counts[] = {126, 127, 128, 129, 256, 300};
    for (int i = 0; i < 6; i++)
        in_fiber(fibers_with_many, &counts[i]);
}

static int fibers(void *owner) {
    make_locks();
    REQUIRE_EQ(finish(go_fiber(owner ? own_after_others : own, NULL)), 0);
    return strangers(NULL);
}

API_TEST(owner_fiber_has_ended, "R31", .workers = {1, 2}) {
    in_fiber(fibers, NULL);
    in_fiber(fibers, &mutex);
}

/* A later runtime may get the memory of one that is gone, too. */
API_TEST(owner_runtime_has_ended, "R31") {
    make_locks();
    in_fiber(own, NULL);
    for (int i = 0; i < 5; i++)
        in_fiber(strangers, NULL);
}

/* -- Poll tasks */

static int own_step(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    REQUIRE_EQ(weft_mutex_lock_poll(&mutex, self, wait), 0);
    REQUIRE_EQ(weft_rwlock_write_poll(&rwlock, self, wait), 0);
    return 0;
}

static weft_poll stranger_poll(weft_task *self, void *arg) {
    (void)arg;
    weft_wait wait = {0};
    check_not_mine();
    REQUIRE_EQ(weft_mutex_lock_poll(&mutex, self, &wait), -EAGAIN);
    weft_wait_end(&wait);
    REQUIRE_EQ(weft_rwlock_write_poll(&rwlock, self, &wait), -EAGAIN);
    weft_wait_end(&wait);
    return weft_done(self, 0, NULL);
}

static int poll_tasks(void *arg) {
    (void)arg;
    make_locks();
    REQUIRE_EQ(finish(go_poller(own_step, NULL)), 0);
    for (int i = 0; i < STRANGERS; i++) {
        struct poller same_size = {NULL, NULL, {{0}}};
        REQUIRE_EQ(finish(go_poll(stranger_poll, &same_size, sizeof same_size, NULL)), 0);
    }
    return 0;
}

API_TEST(owner_poll_task_has_ended, "R31", .workers = {1, 2}) { in_fiber(poll_tasks, NULL); }

/* -- Threads */

static void *own_thread(void *arg) {
    (void)arg;
    lock_both();
    return NULL;
}

static void *stranger_thread(void *arg) {
    (void)arg;
    check_not_mine();
    return NULL;
}

TEST(owner_thread_has_ended, "R31") {
    make_locks();
    for (int i = 0; i < STRANGERS; i++) {
        pthread_t thread;
        REQUIRE_EQ(pthread_create(&thread, NULL, i ? stranger_thread : own_thread, NULL), 0);
        REQUIRE_EQ(pthread_join(thread, NULL), 0);
    }
}

/* -- The memory of those who own nothing is used again */

static int lock_and_unlock(void *arg) {
    (void)arg;
    lock_both();
    REQUIRE_EQ(weft_mutex_unlock(&mutex), 0);
    REQUIRE_EQ(weft_rwlock_write_unlock(&rwlock), 0);
    return 0;
}

static int reuse(void *arg) {
    (void)arg;
    weft_task *first = NULL;
    make_locks();
    for (int i = 0; i < STRANGERS; i++) {
        weft_task *task = go_fiber(lock_and_unlock, NULL);
        first = first ? first : task;
        REQUIRE_EQ(task, first);
        REQUIRE_EQ(finish(task), 0);
    }
    return 0;
}

API_TEST(owner_of_nothing_is_reused, "R31", .sched = "ring deque fifo") { in_fiber(reuse, NULL); }
