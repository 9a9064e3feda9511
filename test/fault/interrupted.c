/* interrupted.c - system calls that fail for a passing reason: accept without memory in the kernel, fsync interrupted by a signal.
 *
 * accept4, fsync and fdatasync are defined here: the library, linked statically, calls these. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../api/io_fixture.h"
#include "sweep.h"

/* The next `left` calls fail with `error`. */
static struct {
    atomic_int left, error;
} accepts, syncs;

static bool fails(atomic_int *left) {
    int now = atomic_load(left);
    while (now > 0 && !atomic_compare_exchange_weak(left, &now, now - 1))
        ;
    return now > 0;
}

int accept4(int fd, struct sockaddr *addr, socklen_t *size, int flags) {
    if (fails(&accepts.left)) {
        errno = accepts.error;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, addr, size, flags);
}

static int sync_or_fail(long number, int fd) {
    if (fails(&syncs.left)) {
        errno = syncs.error;
        return -1;
    }
    return (int)syscall(number, fd);
}
int fsync(int fd) { return sync_or_fail(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_or_fail(SYS_fdatasync, fd); }

/* -- accept ------------------------------------------------------------------------------------------------------ */

static int accept_despite(void *error) {
    weft_io *listener, *client, *served = NULL;
    weft_addr addr;
    REQUIRE_EQ(weft_tcp_listen("127.0.0.1", 0, NULL, &listener), 0);
    REQUIRE_EQ(weft_local_addr(listener, &addr), 0);
    REQUIRE_EQ(weft_connect(&addr, &client, fixture_soon()), 0);
    atomic_store(&accepts.error, *(int *)error);
    atomic_store(&accepts.left, 2);
    CHECK_EQ(weft_accept(listener, &served, NULL, fixture_soon()), 0);
    CHECK_EQ(accepts.left, 0); /* they did fail */
    if (served)
        CHECK_EQ(weft_close(served), 0);
    atomic_store(&accepts.left, 1000); /* for good: reported when the deadline has come */
    REQUIRE_EQ(weft_close(client), 0);
    REQUIRE_EQ(weft_connect(&addr, &client, fixture_soon()), 0);
    CHECK_EQ(weft_accept(listener, &served, NULL, weft_after(1000000)), -*(int *)error);
    atomic_store(&accepts.left, 0);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_close(listener), 0);
    return 0;
}

API_TEST(accept_waits_for_memory, "", .sched = "ring deque fifo reactor") {
    int errors[] = {ENOMEM, ENOBUFS};
    for (int i = 0; i < 2; i++)
        io_run(accept_despite, &errors[i]);
}

/* -- fsync ------------------------------------------------------------------------------------------------------- */

static int sync_despite(void *path) {
    weft_file *file;
    REQUIRE_EQ(weft_file_open(path, O_CREAT | O_RDWR, 0600, &file, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_write(file, "abc", 3, 0, WEFT_NEVER), 3);
    atomic_store(&syncs.error, EINTR);
    for (int i = 0; i < 4; i++) {
        atomic_store(&syncs.left, 2);
        CHECK_EQ(i == 0   ? weft_file_sync(file, WEFT_NEVER)
                 : i == 1 ? weft_file_sync_data(file, WEFT_NEVER)
                 : i == 2 ? weft_path_sync(path, WEFT_NEVER)
                          : weft_file_save(path, "new", 3, 0600, WEFT_NEVER),
                 0);
        CHECK_EQ(syncs.left, 0);
    }
    atomic_store(&syncs.error, EIO);
    atomic_store(&syncs.left, 1);
    CHECK_EQ(weft_file_sync(file, WEFT_NEVER), -EIO); /* never tried again */
    CHECK_EQ(syncs.left, 0);
    CHECK_EQ(weft_file_close(file), 0);
    unlink(path);
    return 0;
}

API_TEST(sync_is_not_interrupted, "") {
    char path[] = "/tmp/weft-sync-XXXXXX";
    int fd = mkstemp(path);
    REQUIRE_GE(fd, 0);
    close(fd);
    io_run(sync_despite, path);
}
