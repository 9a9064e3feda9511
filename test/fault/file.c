/* file.c - files when memory or threads fail at any point: each call succeeds or says why, and nothing leaks. */
#define _GNU_SOURCE
#include "../api/io_fixture.h"
#include "sweep.h"

static char path[64];

static bool is_fine(ssize_t result) { return result >= 0 || result == -ENOMEM || result == -EAGAIN; }

static int use_files(void *unused) {
    (void)unused;
    weft_file *untouched = (weft_file *)(void *)path, *file = untouched;
    void *bytes = path;
    weft_dir *dir = NULL;
    char text[8];
    ssize_t n = weft_file_save(path, "text", 4, 0600, WEFT_NEVER);
    REQUIRE(is_fine(n));
    if (n == 0) {
        n = weft_file_load(path, 100, &bytes, WEFT_NEVER);
        REQUIRE(is_fine(n) && (n < 0 ? bytes == path : n == 4));
        if (n >= 0)
            weft_file_free(bytes);
        int error = weft_file_open(path, O_RDWR, 0, &file, WEFT_NEVER);
        REQUIRE(is_fine(error) && (error ? file == untouched : file != untouched));
        if (!error) {
            REQUIRE(is_fine(weft_file_write(file, "TEXT", 4, 0, WEFT_NEVER)));
            n = weft_file_read(file, text, 8, 0, WEFT_NEVER);
            REQUIRE(n == 4 || is_fine(n));
            CHECK_EQ(weft_file_close(file), 0); /* whatever fails */
        }
    }
    n = weft_dir_list("/proc/self/task", &dir, WEFT_NEVER);
    REQUIRE(is_fine(n));
    if (n == 0)
        weft_dir_free(dir);
    n = weft_path_remove(path, WEFT_NEVER);
    REQUIRE(is_fine(n) || n == -ENOENT);
    return 0;
}

/* By the worker's ring, where there is one; what it does not take the pool does. */
static int use_direct(void *unused) {
    (void)unused;
    static _Alignas(4096) char bytes[4096];
    weft_file *file;
    int error = weft_file_open(path, O_RDWR | O_CREAT | O_DIRECT, 0600, &file, WEFT_NEVER);
    REQUIRE(is_fine(error) || error == -EINVAL); /* a file system in memory */
    if (error)
        return 0;
    ssize_t n = weft_file_write(file, bytes, sizeof bytes, 0, WEFT_NEVER);
    REQUIRE(is_fine(n));
    if (n == sizeof bytes) {
        n = weft_file_read(file, bytes, sizeof bytes, 0, WEFT_NEVER);
        REQUIRE(n == sizeof bytes || (n < 0 && is_fine(n)));
    }
    CHECK_EQ(weft_file_close(file), 0); /* whatever fails */
    return 0;
}

static unsigned descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 200; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static weft_fiber_fn used = use_files;

static void files(void) {
    unsigned before = descriptors();
    weft_runtime *rt = sweep_begin(NULL);
    if (rt) {
        uint64_t spawned = weft_fiber_go(rt, used, NULL, NULL) == 0;
        sweep_end_turns(rt, spawned, 20);
    }
    unlink(path);
    CHECK_EQ(descriptors(), before);
}

API_TEST(file_fails_anywhere, "", .workers = {1}, .timeout = 120) {
    snprintf(path, sizeof path, "/tmp/weft-fault-file-%d", (int)getpid());
    sweep(files);
}

API_TEST(file_direct_fails_anywhere, "", .workers = {1}, .timeout = 120) {
    snprintf(path, sizeof path, "/tmp/weft-fault-file-%d", (int)getpid());
    used = use_direct;
    setenv("WEFT_IO", "uring", 1);
    sweep(files);
}
