/* file_ways.c - the ways of a read and a write: at once from memory, by the worker's ring, as a job of the pool; and that nobody can tell
 * but by the jobs that the pool has done. */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "io_fixture.h"

#define BLOCK 4096u
#define BLOCKS 256u

static struct {
    char path[64];
    weft_file *plain, *direct; /* of one file */
    unsigned char *made; /* what it has */
} ways;

static void *blocks(size_t count) {
    void *bytes = NULL;
    REQUIRE_EQ(posix_memalign(&bytes, BLOCK, count * BLOCK), 0);
    return bytes;
}

static void ways_begin(void) {
    snprintf(ways.path, sizeof ways.path, "/tmp/weft-ways-XXXXXX");
    int fd = mkstemp(ways.path);
    REQUIRE_GE(fd, 0);
    ways.made = blocks(BLOCKS);
    io_fill(ways.made, BLOCKS * BLOCK, 0);
    REQUIRE_EQ(write(fd, ways.made, BLOCKS * BLOCK), BLOCKS * BLOCK);
    REQUIRE_EQ(fsync(fd), 0);
    int direct = open(ways.path, O_RDWR | O_DIRECT | O_CLOEXEC);
    if (direct < 0) {
        unlink(ways.path);
        SKIP("this file system has no O_DIRECT");
    }
    REQUIRE_EQ(weft_file_adopt(fd, &ways.plain), 0);
    REQUIRE_EQ(weft_file_adopt(direct, &ways.direct), 0);
}

static void ways_end(void) {
    CHECK_EQ(weft_file_close(ways.plain), 0);
    CHECK_EQ(weft_file_close(ways.direct), 0);
    unlink(ways.path);
    free(ways.made);
}

static bool is_made(const void *bytes, size_t size, size_t from) { return !memcmp(bytes, ways.made + from, size); }

static uint64_t jobs(void) {
    weft_pool_stats stats;
    weft_pool_stats_read(weft_runtime_pool(NULL), &stats);
    return stats.completed;
}

/* Has this fiber a ring?  Those of the simulator, whose order is drawn, have none. */
static bool has_ring(void) {
    return !strcmp(weft_runtime_poller(weft_runtime_current()), "uring") && !fixture_on("sim");
}

static int use_all(void *unused) {
    (void)unused;
    unsigned char *bytes = blocks(BLOCKS);
    /* What was just written is in memory: no job, whatever the poller; half of the last part is past the end. */
    uint64_t before = jobs();
    CHECK_EQ(weft_file_read(ways.plain, bytes, BLOCK, 5, WEFT_NEVER), BLOCK);
    CHECK(is_made(bytes, BLOCK, 5));
    struct iovec parts[3] = {{bytes, 7}, {bytes + 7, 0}, {bytes + 7, BLOCK}};
    CHECK_EQ(weft_file_readv(ways.plain, parts, 3, BLOCKS * BLOCK - 100, WEFT_NEVER), 100);
    CHECK(is_made(bytes, 100, BLOCKS * BLOCK - 100));
    CHECK_EQ(weft_file_read(ways.plain, bytes, BLOCK, BLOCKS * BLOCK, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_readv(ways.plain, NULL, 0, 0, WEFT_NEVER), 0);
    CHECK_EQ(jobs(), before + (fixture_on("sim") ? 3 : 0)); /* where nothing may hang on what is in memory */
    before = jobs();
    /* Much at once is not copied by a worker. */
    CHECK_EQ(weft_file_read(ways.plain, bytes, BLOCKS * BLOCK, 0, WEFT_NEVER), BLOCKS * BLOCK);
    CHECK(is_made(bytes, BLOCKS * BLOCK, 0));
    CHECK_EQ(jobs(), before + 1);
    /* Past the memory: by a ring, if there is one. */
    before = jobs();
    for (size_t i = 0; i < 20; i++) {
        size_t at = i * 7 % BLOCKS * BLOCK;
        CHECK_EQ(weft_file_read(ways.direct, bytes, 2 * BLOCK, (off_t)at, WEFT_NEVER), 2 * BLOCK);
        CHECK(is_made(bytes, 2 * BLOCK, at));
    }
    memcpy(bytes, ways.made, BLOCK);
    CHECK_EQ(weft_file_write(ways.direct, bytes, BLOCK, 0, WEFT_NEVER), BLOCK);
    CHECK_EQ(weft_file_read(ways.direct, bytes, BLOCK, BLOCKS * BLOCK, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_read(ways.direct, bytes + 1, BLOCK, 1, WEFT_NEVER), -EINVAL); /* as the system says */
    CHECK_EQ(jobs() - before, has_ring() ? 0 : 23);
    /* What the memory has lost comes back from the disk. */
    before = jobs();
    CHECK_EQ(weft_file_sync(ways.plain, WEFT_NEVER), 0);
    for (size_t i = 0; i < 20; i++) {
        size_t at = i * 37 % BLOCKS * BLOCK;
        posix_fadvise(weft_file_fd(ways.plain), 0, 0, POSIX_FADV_DONTNEED);
        CHECK_EQ(weft_file_read(ways.plain, bytes, BLOCK, (off_t)at, WEFT_NEVER), BLOCK);
        CHECK(is_made(bytes, BLOCK, at));
    }
    if (has_ring())
        CHECK_EQ(jobs() - before, 1); /* the sync */
    free(bytes);
    return 0;
}

API_TEST(file_ways, "", .workers = {1, 2}) {
    ways_begin();
    io_run(use_all, NULL);
    ways_end();
}

/* A fiber that migrates has no ring of its own, and a plain thread none at all. */
static int read_direct(void *unused) {
    (void)unused;
    unsigned char *bytes = blocks(1);
    for (size_t i = 0; i < 10; i++) {
        CHECK_EQ(weft_file_read(ways.direct, bytes, BLOCK, (off_t)(i * BLOCK), WEFT_NEVER), BLOCK);
        CHECK(is_made(bytes, BLOCK, i * BLOCK));
    }
    free(bytes);
    return 0;
}

API_TEST(file_ways_of_others, "", .workers = {2}) {
    ways_begin();
    weft_runtime *rt = fixture_begin_patient();
    weft_fiber_spec spec = WEFT_FIBER_SPEC_INIT;
    spec.fn = read_direct;
    spec.migrate = true;
    weft_task *task;
    REQUIRE_EQ(weft_fiber_spawn(rt, &spec, &task), 0);
    CHECK_EQ(fixture_finish(task).status, 0);
    CHECK_EQ(read_direct(NULL), 0);
    fixture_end(rt);
    ways_end();
}

/* A descriptor with O_NONBLOCK waits for its disk all the same. */
static int read_nonblocking(void *unused) {
    (void)unused;
    unsigned char *bytes = blocks(2);
    weft_file *file;
    REQUIRE_EQ(weft_file_open(ways.path, O_RDONLY | O_NONBLOCK, 0, &file, WEFT_NEVER), 0);
    for (size_t i = 0; i < 20; i++) {
        size_t at = i * 37 % BLOCKS * BLOCK;
        posix_fadvise(weft_file_fd(file), 0, 0, POSIX_FADV_DONTNEED);
        CHECK_EQ(weft_file_read(file, bytes, BLOCK, (off_t)at, WEFT_NEVER), BLOCK);
        CHECK(is_made(bytes, BLOCK, at));
    }
    CHECK_EQ(weft_file_close(file), 0);
    free(bytes);
    return 0;
}

API_TEST(file_ways_nonblocking, "", .workers = {1}) {
    ways_begin();
    io_run(read_nonblocking, NULL);
    ways_end();
}

/* -- Late, cancelled, closed, stopped ------------------------------------------------------------------------------- */

static atomic_uint stopped, through, turn;

/* The buffer is on the heap, and gone when the call has returned: what came later would be seen by ASan's quarantine or by our own marks. */
static int read_until(void *late) {
    unsigned char *bytes = blocks(2);
    memset(bytes, 0xee, 2 * BLOCK);
    size_t at = atomic_fetch_add(&turn, 1) % (BLOCKS - 1) * BLOCK;
    ssize_t n = weft_file_read(ways.direct, bytes, BLOCK, (off_t)at, late ? weft_after(at % 100000) : WEFT_NEVER);
    if (n == BLOCK) {
        CHECK(is_made(bytes, BLOCK, at));
        atomic_fetch_add(&through, 1);
    } else {
        CHECK(n == -ETIMEDOUT || n == -ECANCELED);
        for (size_t i = 0; i < 2 * BLOCK; i += 64) /* nothing was done */
            CHECK_EQ(bytes[i], 0xee);
        atomic_fetch_add(&stopped, 1);
    }
    CHECK_EQ(bytes[BLOCK], 0xee);
    memset(bytes, 0x11, BLOCK);
    for (unsigned i = at / BLOCK % 3; i; i--)
        (void)weft_yield();
    CHECK_EQ(bytes[0], 0x11);
    free(bytes);
    return 0;
}

static int stop_some(void *unused) {
    (void)unused;
    weft_task *task[16];
    unsigned rounds = fixture_is_slow() ? 10 : 40;
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < 16; i++)
            task[i] = io_go(NULL, read_until, i % 2 ? &turn : NULL);
        for (unsigned i = round % 4; i; i--)
            (void)weft_yield();
        for (unsigned i = 0; i < 16; i += 2)
            weft_task_cancel(task[i]);
        for (unsigned i = 0; i < 16; i++)
            (void)io_join(task[i]);
    }
    return 0;
}

API_TEST(file_ways_stopped, "", .workers = {1, 2}) {
    ways_begin();
    io_run(stop_some, NULL);
    printf("%u reads were through, %u stopped\n", atomic_load(&through), atomic_load(&stopped));
    ways_end();
}

/* The runtime is stopped, and the file closed, while reads are under way: they end first, and the number is given back after them. */
static int read_on(void *file) {
    unsigned char *bytes = blocks(1);
    ssize_t n;
    size_t at = 0;
    while ((n = weft_file_read(file, bytes, BLOCK, (off_t)(at++ % BLOCKS * BLOCK), WEFT_NEVER)) == BLOCK)
        ;
    free(bytes);
    return (int)n;
}

static int read_once(void *file) {
    unsigned char *bytes = blocks(8);
    ssize_t n = weft_file_read(file, bytes, 8 * BLOCK, 0, WEFT_NEVER);
    CHECK(n == 8 * BLOCK && is_made(bytes, (size_t)n, 0));
    free(bytes);
    return 0;
}

static int close_it(void *file) { return weft_file_close(file); }

/* Is that number still the file's?  It may be something else of the runtime's by now. */
static bool is_open(int number) {
    struct stat there, file;
    REQUIRE_EQ(stat(ways.path, &file), 0);
    return fstat(number, &there) == 0 && there.st_dev == file.st_dev && there.st_ino == file.st_ino;
}

API_TEST(file_ways_in_flight, "", .workers = {1, 2}) {
    ways_begin();
    for (int i = 0; i < 5; i++) {
        weft_runtime *rt = fixture_begin_patient();
        weft_task *task[8];
        weft_file *file;
        int number = open(ways.path, O_RDONLY | O_DIRECT | O_CLOEXEC);
        REQUIRE_EQ(weft_file_adopt(number, &file), 0);
        CHECK(is_open(number));
        for (int k = 0; k < 8; k++)
            task[k] = k % 2 ? io_go(rt, read_once, file) : io_go(rt, read_on, ways.direct);
        for (int k = 1; k < 8; k += 2) /* a call on what is closed already would be our mistake */
            while (!weft_task_is_done(task[k]) && strcmp(weft_task_state(task[k]), "idle"))
                harness_nap();
        CHECK_EQ(fixture_finish(io_go(rt, close_it, file)).status, 0);
        for (int k = 1; k < 8; k += 2)
            CHECK_EQ(fixture_finish(task[k]).status, 0);
        CHECK(!is_open(number));
        CHECK_EQ(weft_runtime_stop(rt, WEFT_NOW), -ECANCELED);
        for (int k = 0; k < 8; k += 2)
            CHECK_EQ(fixture_finish(task[k]).status, -ECANCELED);
        harness_on_hang(NULL, NULL);
        CHECK_EQ(weft_runtime_destroy(rt), 0);
    }
    ways_end();
}
