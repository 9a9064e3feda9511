/* sendfile.c - a file that is not in the page cache is read by a thread of the pool, not by the worker that sends it.
 *
 * sendfile is defined here: the library, linked statically, calls this one. It records whether the worker would have waited for the disk. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../api/io_fixture.h"

#define SIZE (3u << 20)

static atomic_uint calls, cold_calls;

/* Is any page of the range missing? */
static bool is_cold(int fd, off_t at, size_t size) {
    static _Thread_local unsigned char pages[SIZE / 4096 + 1];
    void *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || mincore(map, SIZE, pages))
        return false;
    munmap(map, SIZE);
    for (off_t page = at / 4096; page <= (at + (off_t)size - 1) / 4096 && page < (off_t)sizeof pages; page++)
        if (!(pages[page] & 1))
            return true;
    return false;
}

ssize_t sendfile(int out, int in, off_t *offset, size_t size) {
    off_t at = offset ? *offset : lseek(in, 0, SEEK_CUR);
    size_t left = at < (off_t)SIZE ? SIZE - (size_t)at : 0;
    atomic_fetch_add(&calls, 1);
    if (left && is_cold(in, at, size < left ? size : left))
        atomic_fetch_add(&cold_calls, 1);
    return syscall(SYS_sendfile, out, in, offset, size);
}

static int fill(void *io) {
    static char bytes[SIZE];
    CHECK_EQ(weft_read_exact(io, bytes, SIZE, fixture_soon()), SIZE);
    for (size_t i = 0; i < SIZE; i += 4096)
        CHECK_EQ((unsigned char)bytes[i], i / 4096 % 251);
    return 0;
}

static int send_cold(void *arg) {
    int file = *(int *)arg;
    weft_io *near, *far;
    REQUIRE_EQ(weft_socketpair(&near, &far), 0);
    weft_task *reader = io_go(NULL, fill, far);
    off_t offset = 0;
    CHECK_EQ(weft_sendfile(near, file, &offset, SIZE, fixture_soon()), SIZE);
    CHECK_EQ(offset, SIZE);
    CHECK_EQ(weft_sendfile(near, file, &offset, SIZE, fixture_soon()), 0); /* the end */
    CHECK_EQ(io_join(reader), 0);
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(weft_close(far), 0);
    return 0;
}

API_TEST(sendfile_reads_on_the_pool, "", .sched = "ring deque fifo reactor", .workers = {1, 2}) {
    static char bytes[SIZE];
    char path[] = "weft-sendfile-XXXXXX"; /* not in /tmp, which may have no disk */
    int file = mkstemp(path);
    REQUIRE_GE(file, 0);
    unlink(path);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i / 4096 % 251);
    REQUIRE_EQ(write(file, bytes, SIZE), SIZE);
    REQUIRE_EQ(fsync(file), 0);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (!is_cold(file, 0, SIZE))
        SKIP("this file system keeps its files in memory");
    io_run(send_cold, &file);
    CHECK_GT(calls, 0);
    CHECK_EQ(cold_calls, 0);
    close(file);
}
