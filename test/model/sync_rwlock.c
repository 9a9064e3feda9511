/* sync_rwlock.c - readers and writers. */
#include "sync.h"

static weft_rwlock *lock;
static int copy; /* plain, as data */

static void begin(void) {
    lock = wefti_alloc(sizeof *lock);
    weft_rwlock_init(lock);
}

static void end(void) {
    mc_assert(weft_rwlock_destroy(lock) == 0);
    wefti_free(lock, sizeof *lock);
}

static void read_it(void) {
    mc_assert(data == copy);
    mc_assert(weft_rwlock_read_unlock(lock) == 0);
}

static void write_it(void) {
    data++, copy++;
    mc_assert(weft_rwlock_write_unlock(lock) == 0);
}

static void reader(void *unused) {
    (void)unused;
    mc_assert(weft_rwlock_read(lock, WEFT_NEVER) == 0);
    read_it();
}

static void writer(void *unused) {
    (void)unused;
    mc_assert(weft_rwlock_write(lock, WEFT_NEVER) == 0);
    write_it();
}

MC_TEST(sync_rwlock_reader_writer, .proves = "B52", .bound = 3, .seconds = 4) {
    begin();
    int a = mc_spawn(reader, NULL);
    writer(NULL);
    writer(NULL);
    mc_join(a);
    end();
}

MC_TEST(sync_rwlock_two_readers, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4) {
    begin();
    int a = mc_spawn(reader, NULL), b = mc_spawn(reader, NULL);
    writer(NULL);
    mc_join(a), mc_join(b);
    end();
}

MC_TEST(sync_rwlock_two_writers, .proves = "B52", .bound = 2, .stale_counts = true, .seconds = 4) {
    begin();
    int a = mc_spawn(reader, NULL), b = mc_spawn(writer, NULL);
    writer(NULL);
    mc_join(a), mc_join(b);
    mc_assert(data == 2);
    end();
}

MC_TEST(sync_rwlock_four, .proves = "B52", .mode = MC_PCT, .depth = 4, .max_exec = 20000) {
    begin();
    int a = mc_spawn(reader, NULL), b = mc_spawn(writer, NULL), c = mc_spawn(reader, NULL);
    writer(NULL);
    reader(NULL);
    mc_join(a), mc_join(b), mc_join(c);
    mc_assert(data == 2);
    end();
}

/* A writer that gives up lets the readers behind it go on, though somebody reads all the time. */
static void late_writer(void *unused) {
    (void)unused;
    int error = weft_rwlock_write(lock, SOON);
    mc_assert(error == 0 || error == -ETIMEDOUT);
    if (!error)
        write_it();
}

MC_TEST(sync_rwlock_writer_leaves, .proves = "B52", .bound = 2, .timeouts = 1, .idle_timeouts = 1, .stale_counts = true,
        .seconds = 4) {
    begin();
    mc_assert(weft_rwlock_read(lock, WEFT_NEVER) == 0);
    int a = mc_spawn(late_writer, NULL);
    int b = mc_spawn(reader, NULL);
    mc_join(b); /* we still read */
    read_it();
    mc_join(a);
    end();
}

MC_TEST(sync_rwlock_timeout, .proves = "B52", .bound = 3, .timeouts = 1, .seconds = 4) {
    begin();
    int a = mc_spawn(late_writer, NULL);
    reader(NULL);
    mc_join(a);
    end();
}

static void late_reader(void *unused) {
    (void)unused;
    int error = weft_rwlock_read(lock, SOON);
    if (!error)
        read_it();
}

MC_TEST(sync_rwlock_reader_late, .proves = "B52", .bound = 3, .timeouts = 1, .seconds = 4) {
    begin();
    int a = mc_spawn(late_reader, NULL);
    writer(NULL);
    mc_join(a);
    end();
}

/* The bit goes away between a look at it and the lock: then others change the word without the lock. */
static void reader_twice(void *unused) {
    reader(unused);
    reader(unused);
}

MC_TEST(sync_rwlock_bit_gone, .proves = "B52", .bound = 3, .timeouts = 1, .stale_counts = true, .seconds = 6) {
    begin();
    int a = mc_spawn(late_writer, NULL), b = mc_spawn(reader_twice, NULL);
    reader(NULL);
    mc_join(a), mc_join(b);
    end();
}

/* -- The last one frees it. */

static void writer_frees(void *unused) {
    (void)unused;
    mc_assert(weft_rwlock_write(lock, WEFT_NEVER) == 0);
    write_it();
    end();
}

MC_TEST(sync_rwlock_freed, .proves = "B52", .bound = 3, .seconds = 4) {
    begin();
    mc_assert(weft_rwlock_read(lock, WEFT_NEVER) == 0);
    int a = mc_spawn(writer_frees, NULL);
    read_it();
    mc_join(a);
}

/* Three readers behind a writer: more than are served at once. */
static void reader_frees(void *unused) {
    (void)unused;
    mc_assert(weft_rwlock_read(lock, WEFT_NEVER) == 0);
    read_it();
    if (add_acq_rel(&count, 1) == 2)
        end();
}

MC_TEST(sync_rwlock_freed_many, .proves = "B52", .mode = MC_PCT, .depth = 4, .max_exec = 20000) {
    begin();
    mc_assert(weft_rwlock_write(lock, WEFT_NEVER) == 0);
    int a = mc_spawn(reader_frees, NULL), b = mc_spawn(reader_frees, NULL), c = mc_spawn(reader_frees, NULL);
    write_it();
    mc_join(a), mc_join(b), mc_join(c);
}

/* -- Cancelled against the unlock that lets it in. */

static int poll_writes(weft_task *self, weft_wait *wait) {
    int error = weft_rwlock_write_poll(lock, self, wait);
    if (!error)
        write_it();
    return error;
}

static int poll_reads(weft_task *self, weft_wait *wait) {
    int error = weft_rwlock_read_poll(lock, self, wait);
    if (!error)
        read_it();
    return error;
}

static int fiber_writes(void *unused) {
    (void)unused;
    int error = weft_rwlock_write(lock, WEFT_NEVER);
    if (!error)
        write_it();
    return error;
}

static void canceller(void *task) { weft_task_cancel(task); }

static void against_cancel(void) {
    begin();
    rt_start(1);
    mc_assert(weft_rwlock_write(lock, WEFT_NEVER) == 0);
    weft_task *task = mc_arg() == 0   ? rt_fiber(fiber_writes, NULL)
                      : mc_arg() == 1 ? rt_poller(poll_writes)
                                      : rt_poller(poll_reads);
    until_waits(&lock->room);
    int a = mc_spawn(canceller, task), b = mc_spawn(writer, NULL);
    write_it();
    mc_join(a), mc_join(b);
    rt_finish(task);
    mc_assert(data == copy && data >= 2);
    rt_stop();
    end();
}
MC_CASE(sync_rwlock_cancel_fiber, against_cancel, .arg = 0, .proves = "B52", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(sync_rwlock_cancel_write, against_cancel, .arg = 1, .proves = "B52", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(sync_rwlock_cancel_read, against_cancel, .arg = 2, .proves = "B52", .mode = MC_PCT, .max_exec = 4000);
