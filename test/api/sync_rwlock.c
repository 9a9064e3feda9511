/* sync_rwlock.c - readers and writers: exclusion, order, errors, deadlines, cancels, threads and poll tasks. */
#include "sync.h"

static weft_rwlock lock;

/* Most hold in both orders. */
#define FIFO ((void *)(intptr_t)WEFT_RWLOCK_FIFO)
static void init(void *flags) { REQUIRE_EQ(weft_rwlock_init_with(&lock, (unsigned)(intptr_t)flags), 0); }

static atomic_int readers, together;
static int writes, copy; /* plain: the write lock orders them */

static void read_section(void) {
    int now = atomic_fetch_add(&readers, 1) + 1, seen = atomic_load(&together);
    while (now > seen && !atomic_compare_exchange_weak(&together, &seen, now))
        ;
    REQUIRE_EQ(writes, copy);
    weft_yield();
    REQUIRE_EQ(writes, copy);
    atomic_fetch_sub(&readers, 1);
}

static void write_section(void) {
    REQUIRE_EQ(atomic_load(&readers), 0);
    writes++;
    if (writes % 4 == 0)
        weft_yield();
    copy++;
    REQUIRE_EQ(writes, copy);
}

/* Once all have waited for a millisecond each turn is handed to one fiber of one worker: on a busy machine that is a time slice a turn, and
 * 5,000 of them are minutes.  So not for longer than this, but at least once each. */
#define LONG_ENOUGH INT64_C(5000000000)
static int64_t mixed_began;

static int mixed(void *seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed;
    int times = fixture_is_slow() ? 20 : 100;
    for (int i = 0; i < times && (i == 0 || harness_clock() - mixed_began < LONG_ENOUGH); i++) {
        bool write = harness_random(&random) % 4 == 0;
        REQUIRE_EQ((write ? weft_rwlock_write : weft_rwlock_read)(&lock, WEFT_NEVER), 0);
        (write ? write_section : read_section)();
        REQUIRE_EQ((write ? weft_rwlock_write_unlock : weft_rwlock_read_unlock)(&lock), 0);
    }
    return 0;
}

static int excludes(void *flags) {
    weft_task *task[50];
    uint64_t random = harness_seed();
    init(flags);
    mixed_began = harness_clock();
    for (int i = 0; i < 50; i++)
        task[i] = go_fiber(mixed, (void *)(uintptr_t)harness_random(&random));
    for (int i = 0; i < 50; i++)
        CHECK_EQ(finish(task[i]), 0);
    CHECK_GT(atomic_load(&together), 1);
    CHECK_EQ(weft_rwlock_destroy(&lock), 0);
    return 0;
}

API_TEST(rwlock_excludes, "B52", .workers = {1, 2, 4}) { in_fiber(excludes, NULL); }
API_TEST(rwlock_excludes_fifo, "B52", .workers = {1, 2, 4}) { in_fiber(excludes, FIFO); }

/* -- Errors */

static int read_it(void *until) { return weft_rwlock_read(&lock, (weft_deadline)(intptr_t)until); }
static int write_it(void *until) { return weft_rwlock_write(&lock, (weft_deadline)(intptr_t)until); }
static int unlock_write(void *arg) {
    (void)arg;
    return weft_rwlock_write_unlock(&lock);
}
#define NOW ((void *)(intptr_t)WEFT_NOW)
#define NEVER ((void *)(intptr_t)WEFT_NEVER)

static int errors(void *arg) {
    (void)arg;
    CHECK_EQ(weft_rwlock_init_with(&lock, 2), -EINVAL);
    lock = (weft_rwlock)WEFT_RWLOCK_INIT;
    CHECK_EQ(weft_rwlock_read_unlock(&lock), -EPERM);
    CHECK_EQ(weft_rwlock_write_unlock(&lock), -EPERM);
    REQUIRE_EQ(weft_rwlock_write(&lock, WEFT_NEVER), 0);
    CHECK_EQ(weft_rwlock_write(&lock, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_rwlock_read(&lock, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_rwlock_read_unlock(&lock), -EPERM);
    CHECK_EQ(finish(go_fiber(read_it, NOW)), -ETIMEDOUT);
    CHECK_EQ(finish(go_fiber(write_it, NOW)), -ETIMEDOUT);
    CHECK_EQ(finish(go_fiber(unlock_write, NULL)), -EPERM);
    CHECK_EQ(weft_rwlock_destroy(&lock), -EBUSY);
    REQUIRE_EQ(weft_rwlock_write_unlock(&lock), 0);
    REQUIRE_EQ(weft_rwlock_read(&lock, WEFT_NOW), 0);
    CHECK_EQ(weft_rwlock_write_unlock(&lock), -EPERM);
    CHECK_EQ(weft_rwlock_destroy(&lock), -EBUSY);
    CHECK_EQ(weft_rwlock_write(&lock, weft_after(1000)), -ETIMEDOUT);
    REQUIRE_EQ(weft_rwlock_read_unlock(&lock), 0);
    CHECK_EQ(weft_rwlock_read_unlock(&lock), -EPERM);
    CHECK_EQ(weft_rwlock_destroy(&lock), 0);
    CHECK_EQ(weft_rwlock_destroy(&lock), -EINVAL);
    CHECK_EQ(weft_rwlock_read(&lock, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_rwlock_write(&lock, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_rwlock_write_unlock(&lock), -EPERM);
    return 0;
}

API_TEST(rwlock_errors, "R31", .workers = {1, 2}) { in_fiber(errors, NULL); }

/* -- In order of arrival: a writer that waits holds new readers back, and gets it before them; when it gives up, they go on together. */

static int order;

static int read_in_order(void *place) {
    int error = weft_rwlock_read(&lock, WEFT_NEVER);
    if (!error) {
        CHECK_EQ(order, (int)(intptr_t)place);
        weft_rwlock_read_unlock(&lock);
    }
    return error;
}

static int write_in_order(void *place) {
    int error = weft_rwlock_write(&lock, WEFT_NEVER);
    if (!error) {
        CHECK_EQ(order++, (int)(intptr_t)place);
        weft_yield();
        weft_rwlock_write_unlock(&lock);
    }
    return error;
}

static int fair(void *arg) {
    (void)arg;
    weft_task *task[5];
    lock = (weft_rwlock)WEFT_RWLOCK_FIFO_INIT;
    REQUIRE_EQ(weft_rwlock_read(&lock, WEFT_NEVER), 0);
    for (int i = 0; i < 5; i++) { /* write, read, read, write, read */
        task[i] = go_fiber(i % 3 ? read_in_order : write_in_order, (void *)(intptr_t)(i > 3 ? 2 : i > 0 ? 1 : 0));
        UNTIL(waiting(&lock.room) == (unsigned)i + 1);
    }
    CHECK_EQ(weft_rwlock_read(&lock, WEFT_NOW), -ETIMEDOUT);
    REQUIRE_EQ(weft_rwlock_read_unlock(&lock), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(finish(task[i]), 0);
    CHECK_EQ(order, 2);

    REQUIRE_EQ(weft_rwlock_read(&lock, WEFT_NEVER), 0);
    task[0] = go_fiber(write_in_order, (void *)0);
    UNTIL(waiting(&lock.room) == 1);
    for (int i = 1; i < 4; i++) {
        task[i] = go_fiber(read_in_order, (void *)2);
        UNTIL(waiting(&lock.room) == (unsigned)i + 1);
    }
    weft_task_cancel(task[0]);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(finish(task[i]), i ? 0 : -ECANCELED); /* while we still read */
    REQUIRE_EQ(weft_rwlock_read_unlock(&lock), 0);
    CHECK_EQ(weft_rwlock_destroy(&lock), 0);
    return 0;
}

API_TEST(rwlock_fair, "B52", .workers = {1, 2, 4}) { in_fiber(fair, NULL); }

/* -- A thousand readers behind a writer, half of them cancelled. */

static int thousand(void *flags) {
    static weft_task *task[MANY];
    init(flags);
    order = 7;
    REQUIRE_EQ(weft_rwlock_write(&lock, WEFT_NEVER), 0);
    for (int i = 0; i < MANY; i++)
        task[i] = go_fiber(read_in_order, (void *)7);
    UNTIL(waiting(&lock.room) == MANY);
    CHECK_EQ(weft_rwlock_destroy(&lock), -EBUSY);
    cancel_half(task);
    CHECK_EQ(weft_rwlock_write_unlock(&lock), 0);
    finish_half(task);
    CHECK_EQ(weft_rwlock_destroy(&lock), 0);
    return 0;
}

API_TEST(rwlock_thousand, "B52", .workers = {1, 2}) { in_fiber(thousand, NULL); }
API_TEST(rwlock_thousand_fifo, "B52", .workers = {1, 2}) { in_fiber(thousand, FIFO); }

/* -- A storm of deadlines and cancels; in the end it is free. */

static int stormy(void *seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed;
    for (int i = 0; i < 50; i++) {
        bool write = harness_random(&random) % 3 == 0;
        int64_t wait = (int64_t)(harness_random(&random) % 4) * 20000;
        int error =
            (write ? weft_rwlock_write : weft_rwlock_read)(&lock, wait == 60000 ? WEFT_NEVER : weft_after(wait));
        if (error == -ECANCELED)
            return 0;
        if (error)
            continue;
        (write ? write_section : read_section)();
        REQUIRE_EQ((write ? weft_rwlock_write_unlock : weft_rwlock_read_unlock)(&lock), 0);
    }
    return 0;
}

static int poll_read(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    int error = weft_rwlock_read_poll(&lock, self, wait);
    return error ? error : weft_rwlock_read_unlock(&lock);
}

static int poll_write(weft_task *self, weft_wait *wait, void *arg) {
    (void)arg;
    int error = weft_rwlock_write_poll(&lock, self, wait);
    if (error)
        return error;
    error = weft_rwlock_write_poll(&lock, self, wait);
    CHECK(error == -EDEADLK || error == -EAGAIN); /* -EAGAIN: the slice is used up */
    return weft_rwlock_write_unlock(&lock);
}

static int storm(void *flags) {
    static weft_task *task[STORM];
    uint64_t random = harness_seed();
    init(flags);
    for (int i = 0; i < STORM; i++)
        task[i] = i % 4 ? go_fiber(stormy, (void *)(uintptr_t)harness_random(&random))
                        : go_poller(i % 8 ? poll_read : poll_write, NULL);
    cancel_any(task, &random);
    CHECK_EQ(atomic_load(&readers), 0);
    CHECK_EQ(weft_rwlock_destroy(&lock), 0);
    return 0;
}

API_TEST(rwlock_storm, "B52", .workers = {1, 2, 4}) { in_fiber(storm, NULL); }
API_TEST(rwlock_storm_fifo, "B52", .workers = {1, 2, 4}) { in_fiber(storm, FIFO); }

/* -- Granted to poll tasks that are cancelled before they know. */

static int keep_read(weft_task *self, weft_wait *wait, void *got) {
    int error = weft_rwlock_read_poll(&lock, self, wait);
    if (!error)
        atomic_fetch_add((atomic_int *)got, 1);
    return error;
}

static int keep_write(weft_task *self, weft_wait *wait, void *got) {
    int error = weft_rwlock_write_poll(&lock, self, wait);
    if (error)
        return error;
    atomic_fetch_add((atomic_int *)got, 1);
    return weft_rwlock_write_unlock(&lock);
}

static int granted_and_cancelled(void *flags) {
    atomic_int got = 0;
    for (int write = 0; write < 2; write++) {
        init(flags); /* the second time: `next` has ended and kept it */
        REQUIRE_EQ(weft_rwlock_write(&lock, WEFT_NEVER), 0);
        atomic_store(&got, 0);
        weft_task *task = go_poller(write ? keep_write : keep_read, &got), *next;
        UNTIL(waiting(&lock.room) == 1);
        next = go_fiber(write_it, NEVER);
        UNTIL(waiting(&lock.room) == 2);
        REQUIRE_EQ(weft_rwlock_write_unlock(&lock), 0);
        weft_task_cancel(task);
        finish(task);
        if (!write && atomic_load(&got)) /* polled at once by another worker */
            CHECK_EQ(weft_rwlock_read_unlock(&lock), 0);
        CHECK_EQ(finish(next), 0);
    }
    return 0;
}

API_TEST(rwlock_poll_cancelled, "B52", .workers = {1, 2}) { in_fiber(granted_and_cancelled, NULL); }
API_TEST(rwlock_poll_cancelled_fifo, "B52", .workers = {1, 2}) { in_fiber(granted_and_cancelled, FIFO); }

/* -- Who runs comes before who was woken, until that one has waited for a millisecond: then it is let in, a writer before readers
 * and a reader before writers. */

static int late_got;

static int late_writer(void *unlock) {
    int error = weft_rwlock_write(&lock, WEFT_NEVER);
    late_got = 1;
    return error ? error : unlock ? weft_rwlock_write_unlock(&lock) : 0;
}

static int late_reader(void *unlock) {
    int error = weft_rwlock_read(&lock, WEFT_NEVER);
    late_got = 1;
    return error ? error : unlock ? weft_rwlock_read_unlock(&lock) : 0;
}

static void wait_until_late(void) {
    for (int64_t end = weft_now() + 2000000; weft_now() < end;)
        if (fixture_on("sim"))
            REQUIRE_EQ(weft_sleep(500000), 0); /* time is virtual there */
}

static int patience(void *flags) {
    for (int i = 0; i < 4; i++) {
        bool late = i & 1, we_read = i & 2;
        int (*enter)(weft_rwlock *, weft_deadline) = we_read ? weft_rwlock_read : weft_rwlock_write;
        int (*leave)(weft_rwlock *) = we_read ? weft_rwlock_read_unlock : weft_rwlock_write_unlock;
        init(flags);
        late_got = 0;
        REQUIRE_EQ(enter(&lock, WEFT_NEVER), 0);
        weft_task *task = go_fiber(we_read ? late_writer : late_reader, late || flags ? NULL : &lock);
        UNTIL(waiting(&lock.room) == 1);
        if (late)
            wait_until_late();
        REQUIRE_EQ(leave(&lock), 0);
        int error = enter(&lock, WEFT_NOW);
        if (late || flags) /* he keeps it */
            CHECK_EQ(error, -ETIMEDOUT);
        else if (fixture_on("sim")) /* where no time passes by itself, and nobody runs but we */
            CHECK_EQ(error, 0);
        if (!error) {
            if (!late_got) /* as long as we have it, he does not; he may have had it already, where he runs beside us */
                UNTIL(waiting(&lock.room) == 1); /* he is back */
            REQUIRE_EQ(leave(&lock), 0);
        }
        CHECK_EQ(finish(task), 0);
        CHECK_EQ(late_got, 1);
        if (!late && !flags)
            CHECK_EQ(weft_rwlock_destroy(&lock), 0);
    }
    return 0;
}

API_TEST(rwlock_patience, "B52 R31", .workers = {1, 2}) { in_fiber(patience, NULL); }
API_TEST(rwlock_patience_fifo, "B52 R31", .workers = {1, 2}) { in_fiber(patience, FIFO); }

/* -- Readers all the time, and a writer; writers all the time, and a reader: he gets in, again and again. */

static atomic_bool enough;

static int busy(void *write) {
    while (!atomic_load(&enough)) {
        REQUIRE_EQ((write ? weft_rwlock_write : weft_rwlock_read)(&lock, WEFT_NEVER), 0);
        weft_yield();
        REQUIRE_EQ((write ? weft_rwlock_write_unlock : weft_rwlock_read_unlock)(&lock), 0);
    }
    return 0;
}

static int starving(void *flags) {
    weft_task *task[8];
    for (int write = 0; write < 2; write++) {
        init(flags);
        atomic_store(&enough, false);
        for (int i = 0; i < 8; i++)
            task[i] = go_fiber(busy, write ? &lock : NULL);
        for (int i = 0; i < 20; i++) {
            REQUIRE_EQ((write ? weft_rwlock_read : weft_rwlock_write)(&lock, WEFT_NEVER), 0);
            REQUIRE_EQ((write ? weft_rwlock_read_unlock : weft_rwlock_write_unlock)(&lock), 0);
        }
        atomic_store(&enough, true);
        for (int i = 0; i < 8; i++)
            CHECK_EQ(finish(task[i]), 0);
        CHECK_EQ(weft_rwlock_destroy(&lock), 0);
    }
    return 0;
}

API_TEST(rwlock_starves_nobody, "B52", .workers = {1, 2, 4}) { in_fiber(starving, NULL); }
API_TEST(rwlock_starves_nobody_fifo, "B52", .workers = {1, 2}) { in_fiber(starving, FIFO); }

/* -- Threads with fibers */

static void thread(unsigned index, void *arg) {
    (void)arg;
    for (int i = 0; i < 100; i++) {
        bool write = (i + (int)index) % 4 == 0;
        int error = (write ? weft_rwlock_write : weft_rwlock_read)(&lock, i % 3 ? WEFT_NEVER : weft_after(50000));
        if (error == -ETIMEDOUT)
            continue;
        REQUIRE_EQ(error, 0);
        if (write)
            write_section();
        else
            REQUIRE_EQ(writes, copy);
        REQUIRE_EQ((write ? weft_rwlock_write_unlock : weft_rwlock_read_unlock)(&lock), 0);
    }
}

API_TEST(rwlock_threads, "B52", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_patient();
    weft_task *task[8];
    for (int i = 0; i < 8; i++)
        REQUIRE_EQ(weft_fiber_go(rt, mixed, (void *)(intptr_t)i, &task[i]), 0);
    harness_threads(3, thread, NULL);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(fixture_finish(task[i]).status, 0);
    CHECK_EQ(weft_rwlock_destroy(&lock), 0);
    fixture_end(rt);
}
