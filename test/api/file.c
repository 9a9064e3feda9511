/* file.c - files and directories: what the calls do, what cancels them, and that workers go on meanwhile. */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "io_fixture.h"

/* A directory of the test's own, empty at the end. */
static char folder[64];
static char *in_folder(const char *name) {
    static _Thread_local char path[8][160];
    static _Thread_local unsigned turn;
    char *found = path[turn++ % 8];
    snprintf(found, sizeof path[0], "%s/%s", folder, name);
    return found;
}
static void folder_begin(void) {
    snprintf(folder, sizeof folder, "/tmp/weft-file-XXXXXX");
    REQUIRE(mkdtemp(folder));
}
static void folder_end(void) { CHECK_EQ(rmdir(folder), 0); }

static unsigned descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 200; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* -- What they do ------------------------------------------------------------------------------------------------ */

static int basics(void *unused) {
    (void)unused;
    folder_begin();
    weft_file *file, *untouched = (weft_file *)(void *)folder;
    struct stat about;
    char text[64];
    file = untouched;
    CHECK_EQ(weft_file_open(in_folder("none"), O_RDONLY, 0, &file, WEFT_NEVER), -ENOENT);
    CHECK_EQ(file, untouched);
    CHECK_EQ(weft_file_open(NULL, O_RDONLY, 0, &file, WEFT_NEVER), -EINVAL);
    REQUIRE_EQ(weft_file_open(in_folder("a"), O_RDWR | O_CREAT | O_EXCL, 0640, &file, WEFT_NEVER), 0);
    CHECK(fcntl(weft_file_fd(file), F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(weft_file_write(file, "hello, world", 12, 0, WEFT_NEVER), 12);
    CHECK_EQ(weft_file_write(file, "W", 1, 7, WEFT_NEVER), 1);
    CHECK_EQ(weft_file_write(file, "", 0, 0, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_read(file, text, sizeof text, 0, WEFT_NEVER), 12);
    CHECK(memcmp(text, "hello, World", 12) == 0);
    CHECK_EQ(weft_file_read(file, text, 5, 7, WEFT_NEVER), 5);
    CHECK(memcmp(text, "World", 5) == 0);
    CHECK_EQ(weft_file_read(file, text, 5, 12, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_read(file, text, 5, -1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_sync(file, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_sync_data(file, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_stat(file, &about, WEFT_NEVER), 0);
    CHECK_EQ(about.st_size, 12);
    CHECK_EQ(weft_file_truncate(file, 5, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_truncate(file, -5, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_path_stat(in_folder("a"), &about, WEFT_NEVER), 0);
    CHECK_EQ(about.st_size, 5);
    CHECK_EQ(about.st_mode & 07777 & ~(unsigned)0640, 0);
    CHECK_EQ(weft_file_close(file), 0);
    CHECK_EQ(weft_file_close(NULL), 0);

    CHECK_EQ(weft_path_rename(in_folder("a"), in_folder("b"), WEFT_NEVER), 0);
    CHECK_EQ(weft_path_stat(in_folder("a"), &about, WEFT_NEVER), -ENOENT);
    CHECK_EQ(weft_path_sync(folder, WEFT_NEVER), 0);
    CHECK_EQ(weft_path_sync(in_folder("b"), WEFT_NEVER), 0);
    CHECK_EQ(weft_path_mkdir(in_folder("c"), 0700, WEFT_NEVER), 0);
    CHECK_EQ(weft_path_mkdir(in_folder("c"), 0700, WEFT_NEVER), -EEXIST);
    CHECK_EQ(symlink("b", in_folder("link")), 0);

    weft_dir *dir;
    CHECK_EQ(weft_dir_list(in_folder("b"), &dir, WEFT_NEVER), -ENOTDIR);
    CHECK_EQ(weft_dir_list(in_folder("x"), &dir, WEFT_NEVER), -ENOENT);
    REQUIRE_EQ(weft_dir_list(in_folder("c"), &dir, WEFT_NEVER), 0);
    CHECK_EQ(weft_dir_count(dir), 0);
    weft_dir_free(dir);
    REQUIRE_EQ(weft_dir_list(folder, &dir, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_dir_count(dir), 3);
    CHECK_STR(weft_dir_name(dir, 0), "b");
    CHECK_STR(weft_dir_name(dir, 1), "c");
    CHECK_STR(weft_dir_name(dir, 2), "link");
    CHECK_EQ(weft_dir_kind(dir, 0), WEFT_DIR_FILE);
    CHECK_EQ(weft_dir_kind(dir, 1), WEFT_DIR_FOLDER);
    CHECK_EQ(weft_dir_kind(dir, 2), WEFT_DIR_LINK);
    weft_dir_free(dir);
    weft_dir_free(NULL);

    CHECK_EQ(weft_path_remove(in_folder("link"), WEFT_NEVER), 0);
    CHECK_EQ(weft_path_remove(in_folder("b"), WEFT_NEVER), 0);
    CHECK_EQ(weft_path_remove(in_folder("c"), WEFT_NEVER), 0);
    CHECK_EQ(weft_path_remove(in_folder("c"), WEFT_NEVER), -ENOENT);
    folder_end();
    return 0;
}

API_TEST(file_basics, "", .workers = {1, 2}) { io_run(basics, NULL); }
TEST(file_basics_thread, "") { CHECK_EQ(basics(NULL), 0); }

/* More parts than the system takes at once, of every size; the file ends in the middle of one. */
static int parts(void *unused) {
    (void)unused;
    enum { PARTS = 2500 };
    folder_begin();
    struct iovec *part = calloc(PARTS, sizeof *part);
    size_t total = 0;
    for (int i = 0; i < PARTS; i++)
        total += part[i].iov_len = (size_t)i * 7 % 23;
    unsigned char *from = malloc(total), *to = calloc(1, total);
    io_fill(from, total, 3);
    weft_file *file;
    REQUIRE_EQ(weft_file_open(in_folder("a"), O_RDWR | O_CREAT, 0600, &file, WEFT_NEVER), 0);
    size_t at = 0;
    for (int i = 0; i < PARTS; at += part[i++].iov_len)
        part[i].iov_base = from + at;
    CHECK_EQ(weft_file_writev(file, part, PARTS, 5, WEFT_NEVER), total);
    CHECK_EQ(weft_file_truncate(file, (off_t)(5 + total - 9), WEFT_NEVER), 0);
    for (int i = 0; i < PARTS; i++)
        part[i].iov_base = to + ((unsigned char *)part[i].iov_base - from);
    CHECK_EQ(weft_file_readv(file, part, PARTS, 5, WEFT_NEVER), total - 9);
    CHECK(memcmp(from, to, total - 9) == 0);
    CHECK_EQ(weft_file_readv(file, part, 0, 5, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_readv(file, part, -1, 5, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_close(file), 0);
    CHECK_EQ(weft_path_remove(in_folder("a"), WEFT_NEVER), 0);
    free(part), free(from), free(to);
    folder_end();
    return 0;
}

API_TEST(file_parts, "", .workers = {1}) { io_run(parts, NULL); }

/* -- Whole files -------------------------------------------------------------------------------------------------- */

static int whole(void *unused) {
    (void)unused;
    folder_begin();
    void *bytes = folder;
    static const size_t sizes[] = {0, 4095, 4096, 100000};
    char *made = malloc(100000);
    struct stat about;
    io_fill(made, 100000, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_EQ(weft_file_save(in_folder("a"), made, sizes[i], 0604, WEFT_NEVER), 0);
        CHECK_EQ(weft_path_stat(in_folder("a"), &about, WEFT_NEVER), 0);
        CHECK_EQ(about.st_mode & 07777, 0604);
        REQUIRE_EQ(weft_file_load(in_folder("a"), sizes[i], &bytes, WEFT_NEVER), sizes[i]);
        CHECK(memcmp(bytes, made, sizes[i]) == 0);
        CHECK_EQ(((char *)bytes)[sizes[i]], 0);
        weft_file_free(bytes);
        bytes = folder;
        if (sizes[i])
            CHECK_EQ(weft_file_load(in_folder("a"), sizes[i] - 1, &bytes, WEFT_NEVER), -EFBIG);
        CHECK_EQ(bytes, folder);
    }
    weft_file_free(NULL);
    ssize_t n = weft_file_load("/proc/self/status", SIZE_MAX, &bytes, WEFT_NEVER); /* says that it is empty */
    REQUIRE_GT(n, 100);
    CHECK_EQ(strlen(bytes), n);
    weft_file_free(bytes);
    CHECK_EQ(weft_file_load(in_folder("b"), 10, &bytes, WEFT_NEVER), -ENOENT);
    CHECK_EQ(weft_file_load(folder, 10, &bytes, WEFT_NEVER), -EISDIR);
    /* One that cannot be written leaves the old one, and nothing else. */
    CHECK_EQ(weft_path_mkdir(in_folder("dir"), 0700, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_save(in_folder("dir"), "x", 1, 0600, WEFT_NEVER), -EISDIR);
    CHECK_EQ(weft_file_save(in_folder("no/such"), "x", 1, 0600, WEFT_NEVER), -ENOENT);
    CHECK_EQ(weft_path_remove(in_folder("dir"), WEFT_NEVER), 0);
    CHECK_EQ(weft_path_remove(in_folder("a"), WEFT_NEVER), 0);
    free(made);
    folder_end();
    return 0;
}

API_TEST(file_whole, "", .workers = {1, 2}) { io_run(whole, NULL); }

/* -- Errors of the device -------------------------------------------------------------------------------------------- */

static int full(void *unused) {
    (void)unused;
    weft_file *file;
    REQUIRE_EQ(weft_file_open("/dev/full", O_RDWR, 0, &file, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_write(file, "x", 1, 0, WEFT_NEVER), -ENOSPC);
    CHECK_EQ(weft_file_close(file), 0);
    REQUIRE_EQ(weft_file_open("/dev/null", O_WRONLY, 0, &file, WEFT_NEVER), 0);
    char text[4];
    CHECK_EQ(weft_file_read(file, text, 4, 0, WEFT_NEVER), -EBADF);
    CHECK_EQ(weft_file_close(file), 0);
    return 0;
}

API_TEST(file_device_errors, "", .workers = {1}) { io_run(full, NULL); }

static int no_descriptors(void *unused) {
    (void)unused;
    struct rlimit was, none;
    folder_begin();
    REQUIRE_EQ(weft_file_save(in_folder("a"), "text", 4, 0600, WEFT_NEVER), 0);
    REQUIRE_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    none.rlim_cur = 0;
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    weft_file *file;
    weft_dir *dir;
    void *bytes;
    CHECK_EQ(weft_file_open(in_folder("a"), O_RDONLY, 0, &file, WEFT_NEVER), -EMFILE);
    CHECK_EQ(weft_file_load(in_folder("a"), 9, &bytes, WEFT_NEVER), -EMFILE);
    CHECK_EQ(weft_dir_list(folder, &dir, WEFT_NEVER), -EMFILE);
    CHECK_EQ(weft_file_save(in_folder("a"), "other", 5, 0600, WEFT_NEVER), -EMFILE);
    CHECK_EQ(weft_path_sync(folder, WEFT_NEVER), -EMFILE);
    REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    REQUIRE_EQ(weft_file_load(in_folder("a"), 9, &bytes, WEFT_NEVER), 4);
    weft_file_free(bytes);
    CHECK_EQ(weft_path_remove(in_folder("a"), WEFT_NEVER), 0);
    folder_end();
    return 0;
}

API_TEST(file_without_descriptors, "", .workers = {1}) { io_run(no_descriptors, NULL); }

/* -- Late, cancelled, closed ------------------------------------------------------------------------------------------ */

static weft_poll in_a_poll(weft_task *self, void *state) {
    char text[4];
    weft_file *file = NULL;
    CHECK_EQ(weft_file_read(state, text, 4, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_open("/dev/null", O_RDONLY, 0, &file, WEFT_NEVER), -EINVAL);
    return weft_done(self, 0, NULL);
}

static weft_deadline late_at;

/* A fifo's open waits for the other end: a job that takes as long as the test wants. */
static int open_fifo(void *path) {
    weft_file *file;
    char text[8];
    int error = weft_file_open(path, O_RDONLY, 0, &file, late_at);
    if (error)
        return error; /* never: it had begun, and was waited for */
    CHECK_EQ(weft_file_read(file, text, 8, 0, WEFT_NEVER),
             weft_task_is_cancelled(weft_task_self()) ? -ECANCELED : -ESPIPE);
    CHECK_EQ(weft_file_close(file), 0); /* also when cancelled */
    return 0;
}

static int cancelled_calls(void *unused) {
    (void)unused;
    unsigned before = descriptors();
    folder_begin();
    weft_file *file;
    char text[8];
    REQUIRE_EQ(weft_file_open("/dev/zero", O_RDONLY, 0, &file, WEFT_NEVER), 0);
    CHECK_EQ(weft_file_read(file, text, 8, 0, WEFT_NOW), -ETIMEDOUT); /* nothing was begun */
    REQUIRE_EQ(mkfifo(in_folder("fifo"), 0600), 0);
    char *path = in_folder("fifo");
    late_at = weft_after(200000000);
    weft_task *late = io_go(NULL, open_fifo, path), *cancelled = io_go(NULL, open_fifo, path);
    weft_pool_stats stats;
    do { /* until both have begun */
        (void)weft_yield();
        weft_pool_stats_read(weft_runtime_pool(NULL), &stats);
    } while (stats.running < 2);
    weft_task_cancel(cancelled);
    if (!fixture_on("sim")) /* whose time stands still while a job is waited for */
        (void)weft_sleep_until(late_at);
    io_rest();
    for (int i = 0; i < 2; i++) /* both wait for what has begun */
        while (strcmp(weft_task_state(i ? late : cancelled), "idle")) {
            REQUIRE(!weft_task_is_done(i ? late : cancelled));
            (void)weft_yield();
        }
    weft_file *writer;
    REQUIRE_EQ(weft_file_open(path, O_WRONLY, 0, &writer, fixture_soon()), 0);
    CHECK_EQ(io_join(late), 0);
    CHECK_EQ(io_join(cancelled), 0);
    CHECK_EQ(weft_file_close(writer), 0);
    CHECK_EQ(weft_path_remove(path, WEFT_NEVER), 0);
    weft_task_cancel(weft_task_self());
    CHECK_EQ(weft_file_read(file, text, 8, 0, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_file_close(file), 0);
    folder_end();
    CHECK_EQ(descriptors(), before);
    return 0;
}

API_TEST(file_late_and_cancelled, "", .workers = {1, 2}) {
    weft_runtime *rt = fixture_begin_hasty();
    weft_file *file;
    REQUIRE_EQ(weft_file_open("/dev/zero", O_RDONLY, 0, &file, WEFT_NEVER), 0);
    fixture_finish(fixture_go(rt, in_a_poll, file));
    CHECK_EQ(weft_file_close(file), 0);
    fixture_finish(io_go(rt, cancelled_calls, NULL));
    fixture_end(rt);
}

/* Many fibers, one file each and one for all; closed under some of them. */
static weft_file *common;

static int writer(void *arg) {
    size_t index = (size_t)(uintptr_t)arg;
    unsigned char bytes[100], back[100];
    for (size_t i = 0; i < 20; i++) {
        off_t at = (off_t)((i * 50 + index) * sizeof bytes);
        io_fill(bytes, sizeof bytes, (size_t)at);
        REQUIRE_EQ(weft_file_write(common, bytes, sizeof bytes, at, WEFT_NEVER), sizeof bytes);
        REQUIRE_EQ(weft_file_read(common, back, sizeof back, at, WEFT_NEVER), sizeof back);
        REQUIRE(memcmp(bytes, back, sizeof bytes) == 0);
    }
    return 0;
}

#define LONG_READ 50000000 /* takes a while */

static atomic_bool reads;

static int read_long(void *file) {
    char *bytes = malloc(LONG_READ);
    reads = true;
    ssize_t n = weft_file_read(file, bytes, LONG_READ, 0, WEFT_NEVER);
    free(bytes);
    return n == LONG_READ ? 0 : -1;
}

static int many(void *unused) {
    (void)unused;
    weft_task *task[50];
    void *bytes;
    unsigned before = descriptors();
    folder_begin();
    REQUIRE_EQ(weft_file_open(in_folder("a"), O_RDWR | O_CREAT, 0600, &common, WEFT_NEVER), 0);
    for (size_t i = 0; i < 50; i++)
        task[i] = io_go(NULL, writer, (void *)(uintptr_t)i);
    for (size_t i = 0; i < 50; i++)
        CHECK_EQ(io_join(task[i]), 0);
    REQUIRE_EQ(weft_file_load(in_folder("a"), 1000000, &bytes, WEFT_NEVER), 100000);
    CHECK(io_is(bytes, 100000, 0));
    weft_file_free(bytes);
    CHECK_EQ(weft_file_close(common), 0);
    /* Closed under a call, which ends as if nothing had been. */
    REQUIRE_EQ(weft_file_open("/dev/zero", O_RDONLY, 0, &common, WEFT_NEVER), 0);
    weft_task *reader = io_go(NULL, read_long, common);
    if (fixture_on("sim")) /* where a job may be over before one can look */
        while (!reads)
            weft_yield();
    else
        io_until_it_waits(reader);
    CHECK_EQ(weft_file_close(common), 0);
    CHECK_EQ(io_join(reader), 0);
    CHECK_EQ(weft_path_remove(in_folder("a"), WEFT_NEVER), 0);
    folder_end();
    CHECK_EQ(descriptors(), before);
    return 0;
}

API_TEST(file_many, "", .workers = {1, 2}) { io_run(many, NULL); }

static int list_many(void *unused) {
    (void)unused;
    folder_begin();
    char name[32];
    weft_dir *dir;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "file-%03d", (i * 7) % 100);
        close(open(in_folder(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    REQUIRE_EQ(weft_dir_list(folder, &dir, WEFT_NEVER), 0);
    REQUIRE_EQ(weft_dir_count(dir), 100);
    for (size_t i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "file-%03d", (int)i);
        CHECK_STR(weft_dir_name(dir, i), name);
        unlink(in_folder(name));
    }
    weft_dir_free(dir);
    folder_end();
    return 0;
}

API_TEST(file_list_many, "", .workers = {1}) { io_run(list_many, NULL); }
