/* file_read.c - 4 KiB of a file: what is in memory, by weft_file_read and as a job of the pool; what is not, 32 fibers at a time, on both
 * pollers: us of CPU a read. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/file.h>

#include "../harness/bench.h"
#include "net.h"

enum { BLOCK = 4096, BLOCKS = 4096, READERS = 32 };
enum { CACHED, JOB, DIRECT, DIRECT_URING };

static struct {
    weft_file *file;
    uint64_t each;
    bool as_jobs;
} given;

struct reader {
    unsigned index;
    uint64_t wrong;
    off_t at;
    unsigned char *bytes;
};

static int read_it(void *arg) {
    struct reader *r = arg;
    return (int)pread(weft_file_fd(given.file), r->bytes, BLOCK, r->at);
}

static int read_all(void *arg) {
    struct reader *r = arg;
    for (uint64_t i = 0; i < given.each; i++) {
        int n = 0;
        uint64_t block = (i * 2654435761u + r->index * 97) % BLOCKS;
        r->at = (off_t)(block * BLOCK);
        if (!given.as_jobs)
            n = (int)weft_file_read(given.file, r->bytes, BLOCK, r->at, WEFT_NEVER);
        else if (weft_blocking(read_it, r, &n, WEFT_NEVER))
            n = -1;
        r->wrong +=
            n != BLOCK || r->bytes[0] != (unsigned char)block || r->bytes[BLOCK - 1] != (unsigned char)(block >> 8);
    }
    return 0;
}

/* us of CPU a read. */
static double measure(struct bench_run *run, weft_poller poller, unsigned readers, uint64_t each, bool as_jobs) {
    struct reader reader[READERS];
    weft_task *task[READERS];
    weft_config config = WEFT_CONFIG_INIT;
    config.poller = poller;
    given.each = each;
    given.as_jobs = as_jobs;
    weft_runtime *rt = bench_open_with(run, config);
    if (!rt)
        return NAN;
    double before = bench_cpu_ms();
    unsigned made = 0;
    uint64_t wrong = 0;
    for (; made < readers; made++) {
        void *bytes = NULL;
        int error = posix_memalign(&bytes, BLOCK, BLOCK);
        reader[made] = (struct reader){made, 0, 0, bytes};
        if (!bench_check(run, !error && weft_fiber_go(rt, read_all, &reader[made], &task[made]) == 0, "a reader")) {
            free(bytes);
            break;
        }
    }
    for (unsigned i = 0; i < made; i++) {
        bench_check(run, weft_join(task[i], NULL, WEFT_NEVER) == 0, "weft_join");
        weft_task_drop(task[i]);
        wrong += reader[i].wrong;
        free(reader[i].bytes);
    }
    double used = bench_cpu_ms() - before;
    bench_close(run, rt, made);
    bench_check(run, wrong == 0, "%llu reads were wrong", (unsigned long long)wrong);
    return used * 1e3 / ((double)made * (double)each);
}

static bool fill(int fd) {
    unsigned char bytes[BLOCK] = {0};
    for (unsigned block = 0; block < BLOCKS; block++) {
        bytes[0] = (unsigned char)block;
        bytes[BLOCK - 1] = (unsigned char)(block >> 8);
        if (write(fd, bytes, BLOCK) != BLOCK)
            return false;
    }
    return fsync(fd) == 0;
}

static void file_read(struct bench_run *run) {
    char path[] = "/tmp/weft-bench-XXXXXX";
    int fd = mkstemp(path), direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    uint64_t count = run->quick ? 20000 : 200000;
    bool filled = fd >= 0 && fill(fd);
    unlink(path);
    run->value[DIRECT] = run->value[DIRECT_URING] = NAN;
    if (!bench_check(run, filled && weft_file_adopt(fd, &given.file) == 0, "a file in /tmp"))
        return;
    run->value[CACHED] = measure(run, WEFT_POLLER_EPOLL, 1, count, false);
    run->value[JOB] = measure(run, WEFT_POLLER_EPOLL, 1, count / 10, true);
    bench_check(run, weft_file_close(given.file) == 0, "close");
    if (direct < 0) /* a file system in memory */
        return;
    if (!bench_check(run, weft_file_adopt(direct, &given.file) == 0, "adopt"))
        return;
    run->value[DIRECT] = measure(run, WEFT_POLLER_EPOLL, READERS, count / 20 / READERS, false);
    if (bench_has_uring())
        run->value[DIRECT_URING] = measure(run, WEFT_POLLER_URING, READERS, count / 20 / READERS, false);
    bench_check(run, weft_file_close(given.file) == 0, "close");
}

const struct bench_workload bench_file_read = {
    .name = "file_read",
    .about = "4 KiB of a file in memory, by weft_file_read and as a job; past the memory, 32 fibers, on epoll and on "
             "io_uring: us of CPU a read",
    .kinds = BENCH_POLL | BENCH_FIBER, /* fibers in any case */
    .figures = {{"file_read", "us", NULL},
                {"file_read_job", "us", NULL},
                {"file_direct", "us", NULL},
                {"file_direct_uring", "us", NULL}},
    .skip = bench_skip_sim,
    .run = file_read,
};
