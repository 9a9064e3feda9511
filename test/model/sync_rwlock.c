/* sync_rwlock.c - readers and writers. */
#include "sync.h"

#define POLL 0x100 /* beside the flags in mc_arg() */
#define READ 0x200

static weft_rwlock *lock;
static int copy; /* plain, as data */

static void begin(void) {
    lock = wefti_alloc(sizeof *lock);
    mc_assert(weft_rwlock_init_with(lock, (unsigned)mc_arg() & WEFT_RWLOCK_FIFO) == 0);
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

static void reader_writer(void) {
    begin();
    int a = mc_spawn(reader, NULL);
    writer(NULL);
    writer(NULL);
    mc_join(a);
    end();
}
MC_CASE(sync_rwlock_reader_writer, reader_writer, .arg = 0, .proves = "B52", .bound = 3, .seconds = 4);
MC_CASE(sync_rwlock_reader_writer_fifo, reader_writer, .arg = WEFT_RWLOCK_FIFO, .proves = "B52", .bound = 3,
        .seconds = 4);

static void two_readers(void) {
    begin();
    int a = mc_spawn(reader, NULL), b = mc_spawn(reader, NULL);
    writer(NULL);
    mc_join(a), mc_join(b);
    end();
}
MC_CASE(sync_rwlock_two_readers, two_readers, .arg = 0, .proves = "B52", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(sync_rwlock_two_readers_fifo, two_readers, .arg = WEFT_RWLOCK_FIFO, .proves = "B52", .bound = 2,
        .stale_counts = true, .seconds = 4);

static void two_writers(void) {
    begin();
    int a = mc_spawn(reader, NULL), b = mc_spawn(writer, NULL);
    writer(NULL);
    mc_join(a), mc_join(b);
    mc_assert(data == 2);
    end();
}
MC_CASE(sync_rwlock_two_writers, two_writers, .arg = 0, .proves = "B52", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(sync_rwlock_two_writers_fifo, two_writers, .arg = WEFT_RWLOCK_FIFO, .proves = "B52", .bound = 2,
        .stale_counts = true, .seconds = 4);

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

static void writer_leaves(void) {
    begin();
    mc_assert(weft_rwlock_read(lock, WEFT_NEVER) == 0);
    int a = mc_spawn(late_writer, NULL);
    int b = mc_spawn(reader, NULL);
    mc_join(b); /* we still read */
    read_it();
    mc_join(a);
    end();
}
MC_CASE(sync_rwlock_writer_leaves, writer_leaves, .arg = 0, .proves = "B52", .bound = 2, .timeouts = 1,
        .idle_timeouts = 1, .stale_counts = true, .seconds = 4);
MC_CASE(sync_rwlock_writer_leaves_fifo, writer_leaves, .arg = WEFT_RWLOCK_FIFO, .proves = "B52", .bound = 2,
        .timeouts = 1, .idle_timeouts = 1, .stale_counts = true, .seconds = 4);

static void timeout(void) {
    begin();
    int a = mc_spawn(late_writer, NULL);
    reader(NULL);
    mc_join(a);
    end();
}
MC_CASE(sync_rwlock_timeout, timeout, .arg = 0, .proves = "B52", .bound = 3, .timeouts = 1, .seconds = 4);
MC_CASE(sync_rwlock_timeout_fifo, timeout, .arg = WEFT_RWLOCK_FIFO, .proves = "B52", .bound = 3, .timeouts = 1,
        .seconds = 4);

static void late_reader(void *unused) {
    (void)unused;
    int error = weft_rwlock_read(lock, SOON);
    if (!error)
        read_it();
}

static void reader_is_late(void) {
    begin();
    int a = mc_spawn(late_reader, NULL);
    writer(NULL);
    mc_join(a);
    end();
}
MC_CASE(sync_rwlock_reader_late, reader_is_late, .arg = 0, .proves = "B52", .bound = 3, .timeouts = 1, .seconds = 4);
MC_CASE(sync_rwlock_reader_late_fifo, reader_is_late, .arg = WEFT_RWLOCK_FIFO, .proves = "B52", .bound = 3,
        .timeouts = 1, .seconds = 4);

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

static void freed(void) {
    begin();
    mc_assert(weft_rwlock_read(lock, WEFT_NEVER) == 0);
    int a = mc_spawn(writer_frees, NULL);
    read_it();
    mc_join(a);
}
MC_CASE(sync_rwlock_freed, freed, .arg = 0, .proves = "B52", .bound = 3, .seconds = 4);
MC_CASE(sync_rwlock_freed_fifo, freed, .arg = WEFT_RWLOCK_FIFO, .proves = "B52", .bound = 3, .seconds = 4);

/* Three readers behind a writer: more than are served at once. */
static void reader_frees(void *unused) {
    (void)unused;
    mc_assert(weft_rwlock_read(lock, WEFT_NEVER) == 0);
    read_it();
    if (add_acq_rel(&count, 1) == 2)
        end();
}

static void freed_many(void) {
    begin();
    mc_assert(weft_rwlock_write(lock, WEFT_NEVER) == 0);
    int a = mc_spawn(reader_frees, NULL), b = mc_spawn(reader_frees, NULL), c = mc_spawn(reader_frees, NULL);
    write_it();
    mc_join(a), mc_join(b), mc_join(c);
}
MC_CASE(sync_rwlock_freed_many, freed_many, .arg = 0, .proves = "B52", .mode = MC_PCT, .depth = 4, .max_exec = 20000);
MC_CASE(sync_rwlock_freed_many_fifo, freed_many, .arg = WEFT_RWLOCK_FIFO, .proves = "B52", .mode = MC_PCT, .depth = 4,
        .max_exec = 20000);

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
    weft_task *task = mc_arg() & READ   ? rt_poller(poll_reads)
                      : mc_arg() & POLL ? rt_poller(poll_writes)
                                        : rt_fiber(fiber_writes, NULL);
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
MC_CASE(sync_rwlock_cancel_write, against_cancel, .arg = POLL, .proves = "B52", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(sync_rwlock_cancel_read, against_cancel, .arg = READ, .proves = "B52", .mode = MC_PCT, .max_exec = 4000);
MC_CASE(sync_rwlock_cancel_write_fifo, against_cancel, .arg = POLL | WEFT_RWLOCK_FIFO, .proves = "B52", .mode = MC_PCT,
        .max_exec = 4000);
MC_CASE(sync_rwlock_cancel_read_fifo, against_cancel, .arg = READ | WEFT_RWLOCK_FIFO, .proves = "B52", .mode = MC_PCT,
        .max_exec = 4000);

/* -- The last reader lets the writer in, whoever that is. */

static void in_as_reader(void *unused) {
    (void)unused;
    read_it();
}

static void last_reader(void) {
    begin();
    mc_atomic_begin();
    mc_assert(weft_rwlock_read(lock, WEFT_NEVER) == 0 && weft_rwlock_read(lock, WEFT_NEVER) == 0);
    mc_atomic_end();
    int a = mc_spawn(writer, NULL), b = mc_spawn(in_as_reader, NULL);
    read_it();
    mc_join(a), mc_join(b);
    mc_assert(data == 1);
    end();
}
MC_CASE(sync_rwlock_last_reader, last_reader, .arg = 0, .proves = "B52", .bound = 2, .stale_counts = true,
        .seconds = 4);
MC_CASE(sync_rwlock_last_reader_fifo, last_reader, .arg = WEFT_RWLOCK_FIFO, .proves = "B52", .bound = 2,
        .stale_counts = true, .seconds = 4);

/* -- Barging against those who have been woken: a reader or a writer comes before them, and they still get in. */

static void try_read(void) {
    if (weft_rwlock_read(lock, WEFT_NOW) == 0)
        read_it();
}

static void try_write(void) {
    if (weft_rwlock_write(lock, WEFT_NOW) == 0)
        write_it();
}

MC_TEST(sync_rwlock_barging, .proves = "B52", .bound = 3, .seconds = 6) {
    begin();
    mc_atomic_begin();
    mc_assert(weft_rwlock_read(lock, WEFT_NEVER) == 0);
    mc_atomic_end();
    int a = mc_spawn(writer, NULL);
    read_it();
    try_read();
    try_write();
    mc_join(a);
    end();
}

static void barging_many(void) {
    begin();
    mc_atomic_begin();
    mc_assert(weft_rwlock_write(lock, WEFT_NEVER) == 0);
    mc_atomic_end();
    int a = mc_spawn(reader, NULL), b = mc_spawn(reader, NULL), c = mc_spawn(writer, NULL);
    write_it();
    try_write();
    mc_join(a), mc_join(b), mc_join(c);
    end();
}
MC_CASE(sync_rwlock_barging_many, barging_many, .arg = 0, .proves = "B52", .mode = MC_PCT, .depth = 5,
        .max_exec = 20000);

/* -- Handed over, by order or by age: neither readers starve a writer nor the other way round. */

static void until_told(void) {
    while (!load_acquire(&count))
        wefti_relax();
}

static void reader_stays(void *unused) {
    (void)unused;
    mc_assert(weft_rwlock_read(lock, WEFT_NEVER) == 0);
    until_told();
    read_it();
}

static void writer_stays(void *unused) {
    (void)unused;
    mc_assert(weft_rwlock_write(lock, WEFT_NEVER) == 0);
    until_told();
    write_it();
}

static void no_barging(void) {
    begin();
    mc_atomic_begin();
    mc_assert((mc_arg() & READ ? weft_rwlock_write : weft_rwlock_read)(lock, WEFT_NEVER) == 0);
    mc_atomic_end();
    int a = mc_spawn(mc_arg() & READ ? reader_stays : writer_stays, NULL);
    (mc_arg() & WEFT_RWLOCK_FIFO ? until_waits : until_waits_long)(&lock->room);
    (mc_arg() & READ ? write_it : read_it)();
    mc_assert((mc_arg() & READ ? weft_rwlock_write : weft_rwlock_read)(lock, WEFT_NOW) == -ETIMEDOUT);
    store_release(&count, 1);
    mc_join(a);
    end();
}
MC_CASE(sync_rwlock_fifo_no_barging, no_barging, .arg = WEFT_RWLOCK_FIFO, .proves = "B52", .bound = 3, .seconds = 6);
MC_CASE(sync_rwlock_patience, no_barging, .arg = 0, .proves = "B52", .bound = 3, .seconds = 6);
MC_CASE(sync_rwlock_patience_reader, no_barging, .arg = READ, .proves = "B52", .bound = 3, .seconds = 6);
